"""`imitable render`: a clip of a robot under a policy."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg

from imitable.cli.options import Overwrite, RobotName, RobotSettings, RobotSettingsArgument, Seed
from imitable.cli.policies import RANDOM, find_policy
from imitable.errors import ImitableError
from imitable.pipeline import Streams
from imitable.report.terminal import print_line as print
from imitable.robots import robot as find_robot
from imitable.store.runs import RunFolder
from imitable.store.video import check_video, write_video

if TYPE_CHECKING:
    from imitable.simulators.rendering import Frame

FASTEST = 30.0  # frames per second; a robot that is controlled faster is shown at every so many steps


def render(
    robot: Positional[RobotName],
    *,
    output: Annotated[Path, arg(aliases=["-o"], help="a clip, .mp4 or .gif")],
    policy: Annotated[str, arg(help="a run's folder, a .safetensors file or module:object; or random actions")] = RANDOM,
    episodes: int = 1,
    seed: Seed = 0,
    width: int = 640,
    height: int = 480,
    overwrite: Overwrite = False,
    settings: RobotSettingsArgument = RobotSettings(),  # noqa: B008 (frozen)
) -> None:
    """Make a clip of a robot under a policy, in real time, without a screen.

    An episode has as many steps as in `score` and `check`, or as --horizon says; with a run's policy the robot is set up as in that run.
    """
    from imitable.simulators.rendering import DRAWN, Renderer, control_timestep, render_episode

    if episodes < 1:
        raise ImitableError(f"episodes is {episodes}; a clip needs at least one")
    check_video(output, overwrite=overwrite)
    simulator, rng = find_robot(robot, **{**settings_of_run(policy, robot), **settings.given()}), Streams(seed).evaluating()
    example = simulator.observe(simulator.initial_states(2, rng))
    act = find_policy(policy, example=example, low=simulator.action_low, high=simulator.action_high, rng=rng)
    renderer, timestep = Renderer(simulator, width=width, height=height), control_timestep(simulator)
    every = max(1, round(1 / (FASTEST * timestep)))
    shown: list[Iterator[Frame]] = [render_episode(simulator, act, renderer, rng=rng, every=every) for _ in range(episodes)]
    count = write_video(output, chain.from_iterable(shown), fps=1 / (every * timestep))
    renderer.close()
    how = "drawn" if renderer.backend == DRAWN else f"rendered by MuJoCo ({renderer.backend})"
    print(f"{output}: {count} frames of {robot}, {how}")


def settings_of_run(policy: str, robot: str) -> dict[str, Any]:
    """How the robot was taken from its environment or file in the run that the policy is of, if it is of one on this robot."""
    config = (RunFolder(Path(policy)).config() if Path(policy).is_dir() else None) or {}
    found = config.get("robot_settings") if config.get("robot") == robot else None
    return found if isinstance(found, dict) else {}
