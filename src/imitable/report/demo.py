"""The built-in example: learn to drive from mixed demonstrations, trusting all of them and trusting the right ones."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imitable.arrays import one_thread
from imitable.demonstrations import SOURCES, Demonstrations
from imitable.experiment import Streams
from imitable.methods import find_method
from imitable.networks import Policy
from imitable.problem import Tolerance
from imitable.reinforcement import demonstrate
from imitable.report.figures import OUTCOMES, REACHED, draw_paths, draw_scores, driving_outcomes
from imitable.runs import POLICY, SCORES, perform
from imitable.scorecard import load_scorecard
from imitable.tasks import Task, find_task

TASK, METHODS = "driving/slow", ("none", "ours")

Progress = Callable[[str], AbstractContextManager[Callable[[float], None]]]
"""A title to a context whose value hears the share done."""


@dataclass(frozen=True)
class Demo:
    """What the example found: a row for each method, and where its pictures are."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    rejected: Path
    paths: Path


def demonstrate_package(folder: Path, *, seed: int, progress: Progress) -> Demo:
    """Run every method of the example on the same demonstrations, into folders of their own, and draw what came out."""
    task = find_task(TASK)
    rejected, paths = folder / "rejected.png", folder / "paths.png"
    drives: dict[str, Demonstrations] = {}
    results, rows = {}, []
    for name in METHODS:
        with progress(f"{TASK} {name}") as watch:
            results[name] = perform(task, find_method(name), seed=seed, folder=folder / name, overwrite=True, watch=watch)
        drives[name] = measured_drives(task, folder / name, seed=seed)
        rows.append(_row(name, results[name], drives[name]))
    draw_scores(load_scorecard(folder / "ours" / SCORES), Tolerance(*results["ours"]["tolerance"]), rejected, sigma=task.settings.sigma)
    draw_paths(drives, paths)
    header = ("method", "mean return", "reach the goal", "effective demonstrations", *(f"samples: {source}" for source in SOURCES))
    return Demo(header, tuple(rows), rejected, paths)


def measured_drives(task: Task, folder: Path, *, seed: int) -> Demonstrations:
    """The episodes on which a finished run was measured, once more."""
    policy = Policy.load(folder / POLICY)
    with one_thread():
        return demonstrate(task.target, policy, count=100, rng=Streams(seed).measuring()).trajectories


def _row(method: str, result: dict[str, Any], drives: Demonstrations) -> tuple[str, ...]:
    reached = (driving_outcomes(drives) == OUTCOMES.index(REACHED)).mean()
    shares = (f"{result['share_by_source'].get(source, 0.0):.1%}" for source in SOURCES)
    return (method, f"{result['mean_return']:.1f}", f"{reached:.0%}", f"{result['effective_demonstrations']:.0f}", *shares)
