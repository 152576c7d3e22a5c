"""`imitable check`: what is wrong with a robot, or with demonstrations for it."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from tyro.conf import Positional, arg

from imitable.arrays import one_thread
from imitable.check import EPISODES, STEPS, WARNING, check_columns, check_demonstrations, check_robot, control_step
from imitable.cli.options import RobotName, RobotSettings, RobotSettingsArgument
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.formats import FORMATS, read
from imitable.report.terminal import print_line as print
from imitable.robots import robot as find_robot
from imitable.simulators import Simulator, action_names, has_reward, notes
from imitable.tracking import rollout_from


def check(
    robot: Positional[RobotName],
    data: Positional[
        Annotated[tuple[Path, ...], arg(metavar="DATA", help=f"demonstrations: {', '.join(FORMATS)}, or folders of them")]
    ] = (),
    *,
    settings: RobotSettingsArgument = RobotSettings(),  # noqa: B008 (frozen)
) -> None:
    """Check a robot, and demonstrations for it: determinism, batches, round trip, limits, columns. Exit code 1 if an error was
    found, 2 if something cannot be read."""
    with one_thread():
        simulator = find_robot(robot, **settings.given())
        print(f"{robot}: {len(simulator.observation_names)} columns ({', '.join(simulator.observation_names)})")
        limits = zip(action_names(simulator), simulator.action_low, simulator.action_high, strict=True)
        print(f"{len(simulator.action_low)} actions ({', '.join(f'{name} {low:g} to {high:g}' for name, low, high in limits)})")
        rewarded = "with" if has_reward(simulator) else "without"
        print(f"episodes of at most {simulator.horizon} steps, {rewarded} a reward")
        if (step := control_step(simulator)) is not None:
            body: Any = simulator
            print(f"a step is {step:g} s ({1 / step:g} Hz, {body.physics.frame_skip} physics steps): demonstrations must be at that rate")
        for note in notes(simulator):
            print(f"note: {note}")
        findings = check_robot(simulator)
        if data:
            demonstrations = in_robot_columns(read(list(data), note=print_note), simulator)
            print(demonstrations)
            try:
                check_columns(demonstrations, simulator)
                findings += check_demonstrations(simulator, demonstrations)
                findings += recording_warnings(simulator, demonstrations)
            except ImitableError as error:
                findings.append(str(error))
    for finding in findings:
        print(finding if finding.startswith(WARNING) else f"error: {finding}")
    errors = [finding for finding in findings if not finding.startswith(WARNING)]
    print(verdict(len(errors), len(findings) - len(errors)))
    if errors:
        sys.exit(1)


def verdict(errors: int, warnings: int) -> str:
    """What a check came to, in a sentence."""
    warned = f"{warnings} warning{'s' if warnings > 1 else ''}"
    if not errors:
        return f"passes with {warned}" if warnings else "no problems found"
    refused = f"{errors} error{'s: fix these' if errors > 1 else ': fix this'} first"
    return f"{refused}; there {'are' if warnings > 1 else 'is'} also {warned}" if warnings else refused


def print_note(text: str) -> None:
    print(f"note: {text}")


def in_robot_columns(demonstrations: Demonstrations, robot: Any) -> Demonstrations:
    """Of unnamed columns that are all of the robot's Gymnasium environment, those that the robot has: it does without contact forces."""
    space = getattr(getattr(robot, "environment", None), "observation_space", None)
    width, wanted = demonstrations.width, len(robot.observation_names)
    if space is None or demonstrations.observation_names is not None or width == wanted or space.shape != (width,):
        return demonstrations
    print(f"note: {wanted} of the {width} columns are used, those of the environment that the robot has: {', '.join(robot.notes)}")
    chosen = demonstrations.observations[:, robot.environment_columns]
    return replace(demonstrations, observations=chosen, observation_names=robot.observation_names)


def recording_warnings(robot: Simulator, demonstrations: Demonstrations) -> list[str]:
    """What recording may have done to some demonstrations: noise, rounding, another frame rate."""
    if not hasattr(robot, "physics"):
        return []
    from imitable.conventions.recording import recording_doubts
    from imitable.simulators.mujoco import MujocoRobot

    if not isinstance(robot, MujocoRobot):
        return []
    rng = np.random.default_rng(0)
    own = rollout_from(robot, robot.initial_states(EPISODES, rng), STEPS, rng=rng).trajectories
    return [f"{WARNING}{doubt.sentence}" for doubt in recording_doubts(demonstrations, robot, own)]


def quick_check(robot: Simulator, demonstrations: Demonstrations) -> None:
    """Refuse a robot, or demonstrations, with errors; print warnings about the demonstrations."""
    if errors := [finding for finding in check_robot(robot) if not finding.startswith(WARNING)]:
        raise ImitableError(f"the robot cannot be used: {'; '.join(errors)}")
    found = check_demonstrations(robot, demonstrations)
    for finding in found:
        if finding.startswith(WARNING):
            print(finding, file=sys.stderr)
    if errors := [finding for finding in found if not finding.startswith(WARNING)]:
        raise ImitableError("; ".join(errors))
