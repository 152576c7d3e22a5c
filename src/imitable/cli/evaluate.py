"""`imitable evaluate`: a run's policy on other starts."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from tyro.conf import Positional, arg

from imitable.arrays import Array, one_thread
from imitable.cli.options import Seed
from imitable.errors import ImitableError
from imitable.evaluation import distance_to, evaluate as evaluate_policy
from imitable.paper.tasks import find_task
from imitable.pipeline import Streams
from imitable.report.terminal import print_divergence, print_line as print, progress_bar
from imitable.robots import robot as find_robot
from imitable.simulators import Simulator
from imitable.store.runs import CONFIG, POLICY, RunFolder
from imitable.store.scores import STEPS, ScoreFolder


def evaluate(folder: Positional[Annotated[Path, arg(help="a run's folder")]], *, episodes: int = 100, seed: Seed = 1_000_000) -> None:
    """Evaluate a run's policy again, on other starts."""
    run = RunFolder(folder)
    config = run.config()
    if config is None or not (folder / POLICY).exists():
        cure = f"`imitable train {folder} -o run`" if (folder / STEPS).exists() else f"`imitable train ... -o {folder}`"
        raise ImitableError(f"{folder} has no policy; make one with {cure}, or a task's with `imitable run`")
    policy = run.policy()
    try:
        robot, title = robot_of(config), f"{config.get('task') or config['robot']} {config['method']}"
    except (KeyError, TypeError, AttributeError) as error:
        raise ImitableError(f"{folder / CONFIG} is damaged ({type(error).__name__}: {error}); restore it") from error
    with one_thread(), progress_bar("evaluating") as progress:
        measured = evaluate_policy(policy, robot, episodes=episodes, rng=Streams(seed).evaluating(), progress=progress)
    print(f"{title}: {format_returns(measured.returns)}")
    if Path(scores := str(config.get("scores", ""))).is_dir() and scores:
        _, demonstrations, table = ScoreFolder(Path(scores)).load()
        learned_from = demonstrations.select(table["weight"] > 0)
        distances = distance_to(learned_from, measured.episodes)
        print(
            f"episodes of {measured.episodes.lengths.mean():.0f} steps on average; what they see is {np.median(distances):.2g} standard "
            "deviations from the nearest demonstrated observation (median)"
        )
    print_divergence({"evaluating": measured.diverged})


def robot_of(config: dict[str, Any]) -> Simulator:
    """The robot that a run's policy is evaluated on."""
    return find_task(config["task"]).evaluation_robot if "task" in config else find_robot(config["robot"], **config["robot_settings"])


def format_returns(returns: Array) -> str:
    """The mean return and its extremes, or that there is none."""
    if np.isnan(returns).all():
        return f"{len(returns)} episodes, whose returns are not known: the robot has no reward"
    return f"mean return {returns.mean():.2f} over {len(returns)} episodes (from {returns.min():.2f} to {returns.max():.2f})"
