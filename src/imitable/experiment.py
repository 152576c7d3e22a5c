"""Run the method once, from a pile of demonstrations to a measured policy: one cell of a results table."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from imitable.arrays import Array, Generator, Snapshot, one_thread
from imitable.changes import adjusted
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError, check_fields
from imitable.evaluation import evaluate
from imitable.experts import Composition, collect
from imitable.learners import Checkpoint
from imitable.methods import Method, own
from imitable.problem import Problem, pose
from imitable.scores import feasibility
from imitable.tasks import Task


@dataclass(frozen=True)
class Measurement:
    """A policy on the way, and what it is worth."""

    checkpoint: Checkpoint
    returns: Array
    """(episode,) on starts that no training saw, the same for every checkpoint."""
    diverged: int
    """How many of these episodes ended because the simulation broke down."""


@dataclass(frozen=True)
class Result:
    """What came of one run."""

    seed: int
    weights: Array
    """(demo,)"""
    curve: tuple[Measurement, ...]

    @property
    def mean_return(self) -> float:
        """Of the last policy: no picking of the best one on the way."""
        return float(self.curve[-1].returns.mean())


@one_thread()
def run(task: Task, method: Method, *, seed: int) -> Result:
    """Learn a policy for the task's target agent from its imperfect demonstrations, and measure it."""
    streams = Streams(seed)
    demonstrations = collect(task.cast, rng=streams.collecting())
    problem = pose(demonstrations, task.target, settings=task.settings, rng=streams.posing())
    weights = weigh(problem, method)
    return Result(seed, weights, tuple(learn(task, method, problem, weights, streams=streams)))


@dataclass(frozen=True)
class Streams:
    """One independent stream of randomness per stage, each startable again: a draw added to one stage cannot move another."""

    seed: int

    def __post_init__(self) -> None:
        check_fields(self, ("seed", self.seed >= 0, "a whole number from 0 on"))

    def collecting(self) -> Generator:
        return self._fresh(0)

    def posing(self) -> Generator:
        return self._fresh(1)

    def learning(self) -> Generator:
        return self._fresh(2)

    def measuring(self) -> Generator:
        return self._fresh(3)

    def _fresh(self, stage: int) -> Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(stage,)))


def prepared(task: Task, method: Method, changes: Sequence[str] = ()) -> tuple[Task, Method]:
    """The task with the learner that the method makes of its own, and with numbers replaced in it or in its settings."""
    return adjusted(replace(task, learner=method.learner(task)), changes), replace(method, learner=own)


def gather(
    task: Task, *, seed: int, count: int = 1000, composition: Composition = "paper", watch: Callable[[float], None] = lambda share: None
) -> Demonstrations:
    """The demonstrations that `run` would collect with this seed; `watch` hears the share done."""
    return collect(task.cast, count=count, composition=composition, rng=Streams(seed).collecting(), watch=watch)


def weigh(problem: Problem, method: Method) -> Array:
    """The method's weights (demo,), or an error that says why nothing is left to learn from."""
    weights = method.score(problem)
    if not weights.any():
        nearest, tolerance = problem.replay.distances.min(), problem.tolerance.farthest
        if problem.replay.diverged.all():
            raise ImitableError(f"the target's simulation broke down on each of the {len(weights)} demonstrations; mend its step")
        if not feasibility(problem).any():
            raise ImitableError(
                f"no demonstration is feasible on the target: the smallest replay distance {nearest:.3g} exceeds the limit "
                f"{tolerance:.3g}; raise Settings.noise (now {problem.settings.noise:g}), or give demonstrations the target can follow"
            )
        raise ImitableError(
            f"all {len(weights)} weights of method {method.name!r} are zero; raise Settings.sigma (now {problem.settings.sigma:g})"
        )
    return weights


def learn(
    task: Task,
    method: Method,
    problem: Problem,
    weights: Array,
    *,
    streams: Streams,
    episodes: int = 100,
    resume: Snapshot | None = None,
) -> Iterator[Measurement]:
    """The learner's policies, each measured on the same fresh starts."""
    learner = method.learner(task)
    for checkpoint in learner(problem, weights, rng=streams.learning(), resume=resume):
        measured = evaluate(checkpoint.policy, task.target, episodes=episodes, rng=streams.measuring())
        yield Measurement(checkpoint, measured.returns, measured.diverged)
