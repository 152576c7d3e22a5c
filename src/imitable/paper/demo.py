"""The built-in example: learn to drive from mixed demonstrations, trusting all of them and trusting the right ones."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imitable.arrays import Progress, one_thread
from imitable.demonstrations import Demonstrations
from imitable.paper.demonstrators import SOURCES
from imitable.paper.driving_figure import OUTCOMES, REACHED, draw_paths, driving_outcomes
from imitable.paper.methods import find_method
from imitable.paper.run import Experiment, run_in_folder
from imitable.paper.tasks import Task, find_task
from imitable.pipeline import Streams
from imitable.report.figures import draw_scores
from imitable.rollouts import run_episodes
from imitable.scores import Tolerance
from imitable.store.cache import default_cache
from imitable.store.files import read_table
from imitable.store.runs import SCORES, RunFolder

TASK, METHODS = "driving/slow", ("none", "ours")

ProgressBar = Callable[[str], AbstractContextManager[Progress]]
"""A title to a context in which progress is shown."""


@dataclass(frozen=True)
class Demo:
    """What the example found: a row for each method, and where its pictures are."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    rejected: Path
    paths: Path


def run_demo(folder: Path, *, seed: int, progress_bar: ProgressBar) -> Demo:
    """Run every method of the example on the same demonstrations, into folders of their own, and draw what came out."""
    task = find_task(TASK)
    rejected, paths = folder / "rejected.png", folder / "paths.png"
    drives: dict[str, Demonstrations] = {}
    results, rows = {}, []
    for name in METHODS:
        experiment = Experiment.of(task, find_method(name))
        with progress_bar(f"{TASK} {name}") as progress:
            results[name] = run_in_folder(experiment, folder / name, seed=seed, overwrite=True, cache=default_cache(), progress=progress)
        drives[name] = measured_drives(task, folder / name, seed=seed)
        rows.append(_row(name, results[name], drives[name]))
    scores = read_table(folder / "ours" / SCORES)
    draw_scores(scores, Tolerance(*results["ours"]["tolerance"]), rejected, sigma=results["ours"]["sigma"])
    draw_paths(drives, paths)
    header = ("method", "mean return", "reach the goal", "effective demonstrations", *(f"samples: {source}" for source in SOURCES))
    return Demo(header, tuple(rows), rejected, paths)


def measured_drives(task: Task, folder: Path, *, seed: int) -> Demonstrations:
    """The episodes on which a finished run was measured, once more."""
    policy = RunFolder(folder).policy()
    with one_thread():
        return run_episodes(task.robot, policy, count=100, rng=Streams(seed).evaluating()).trajectories


def _row(method: str, result: dict[str, Any], drives: Demonstrations) -> tuple[str, ...]:
    reached = (driving_outcomes(drives) == OUTCOMES.index(REACHED)).mean()
    shares = (f"{result['share_by_source'].get(source, 0.0):.1%}" for source in SOURCES)
    return (method, f"{result['mean_return']:.1f}", f"{reached:.0%}", f"{result['effective_demonstrations']:.0f}", *shares)
