"""`imitable deploy`: a policy of the carrying task on a Franka arm, or on something that behaves like one."""

from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from tyro.conf import Positional, arg

from imitable.cli.options import Overwrite, Seed
from imitable.cli.policies import find_policy
from imitable.deploy.drivers import Driver, FakeDriver
from imitable.deploy.franky import FrankyDriver, is_loopback
from imitable.deploy.loop import WallClock, deploy as run_on_arm
from imitable.errors import ImitableError
from imitable.report.terminal import print_line as print
from imitable.store.files import check_writable
from imitable.store.logs import json_lines

SIMULATOR_PAUSE = 5.0  # s for which a simulator's clock may stand still when the machine is busy; a robot's may not


def deploy(
    policy: Positional[Annotated[str, arg(metavar="RUN", help="a run's folder, a .safetensors file or module:object")]],
    *,
    driver: Annotated[Literal["fake", "franky"], arg(help="fake: no arm; franky: franky-control, to franky-sim or to a robot")] = "fake",
    address: Annotated[str, arg(help="of the robot's control interface; franky-sim says which")] = "127.0.0.1",
    arm: Annotated[Literal["fer", "fr3"], arg(help="whose limits hold: fer is the Panda")] = "fr3",
    dof: Annotated[Literal[3, 7], arg(help="3: joints 2, 4 and 6 move; 7: all of them")] = 3,
    rate: Annotated[float, arg(help="commands per second")] = 20.0,
    log: Annotated[Path, arg(aliases=["-o"], help="every tick, one line of JSON each")] = Path("deploy.jsonl"),
    execute: Annotated[bool, arg(help="move the arm; else a dry run, which only reads")] = False,
    hardware: Annotated[bool, arg(help="the address is a robot's, not this machine's")] = False,
    i_am_at_the_estop: Annotated[bool, arg(help="needed to move a robot: your hand is at the emergency stop")] = False,
    seed: Seed = 0,
    overwrite: Overwrite = False,
) -> None:
    """Let a policy act on a Franka arm, guarded and logged; nothing moves without --execute."""
    from imitable.paper.panda import Panda
    from imitable.paper.panda_deploy import SECONDS, carrying, envelope

    if not 5 <= rate <= 100:
        raise ImitableError(f"rate is {rate:g}; give 5 to 100 commands per second")
    if driver == "franky" and not hardware and not is_loopback(address):
        raise ImitableError(f"{address} is not this machine; a robot is reached with --hardware only")
    if hardware and driver != "franky":
        raise ImitableError("--hardware needs --driver franky; the fake arm has none")
    if hardware and execute and not i_am_at_the_estop:
        raise ImitableError("a robot moves only with --i-am-at-the-estop: someone's hand is at the emergency stop, and nobody is in reach")
    check_writable(log, overwrite=overwrite)
    robot = Panda(dof=dof, arm=arm, timestep=1 / rate, horizon=round(SECONDS * rate))
    skill, limits = carrying(robot), robot.limits
    example = skill.observe(np.stack([skill.start, skill.start]))
    act = find_policy(policy, example=example, low=robot.action_low, high=robot.action_high, rng=np.random.default_rng(seed))
    fake = FakeDriver(skill.start)
    arm_driver: Driver = fake
    if driver == "franky":
        arm_driver = FrankyDriver(address, limits.velocity, limits.acceleration, limits.jerk, hardware=hardware)
    with json_lines(log) as record:
        record({"imitable": version("imitable"), "policy": policy, "driver": driver, "arm": arm, "dof": dof, "rate": rate})
        outcome = run_on_arm(
            arm_driver,
            act,
            skill,
            envelope(robot),
            execute=execute,
            approach=envelope(robot, anywhere=True),
            clock=fake if driver == "fake" else WallClock(),
            stale_after=SIMULATOR_PAUSE if driver == "franky" and not hardware else None,
            record=record,
        )
    if execute and not outcome.success:
        raise ImitableError(f"stopped after {outcome.steps} steps: {outcome.reason}; {log} has every tick")
    print(f"{log}: {outcome.reason} after {outcome.steps} steps" if execute else f"{log}: {outcome.reason}; nothing was sent to the arm")
