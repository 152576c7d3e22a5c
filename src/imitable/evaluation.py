"""Evaluate policies: whole episodes on the robot, in lock-step, from fresh starts."""

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass

from imitable.arrays import Array, Generator
from imitable.errors import ImitableError
from imitable.learners import Checkpoint
from imitable.rollouts import run_episodes
from imitable.simulators import Simulator

EPISODES = 100
"""Of an evaluation, if nothing else is said."""


@dataclass(frozen=True)
class Evaluation:
    """What a policy earned."""

    returns: Array
    """(episode,) undiscounted."""
    diverged: int
    """How many episodes ended because the simulation broke down."""


def evaluate(act: Callable[[Array], Array], robot: Simulator, *, episodes: int = EPISODES, rng: Generator) -> Evaluation:
    """Undiscounted returns from fresh starts."""
    if episodes < 1:
        raise ImitableError(f"episodes is {episodes}; an evaluation needs at least one")
    measured = run_episodes(robot, act, count=episodes, rng=rng)
    return Evaluation(measured.trajectories.returns, measured.diverged)


@dataclass(frozen=True)
class Measurement:
    """A policy on the way, and what it is worth."""

    checkpoint: Checkpoint
    returns: Array
    """(episode,) on starts that no training saw, the same for every checkpoint."""
    diverged: int
    """How many of these episodes ended because the simulation broke down."""


def measure(checkpoints: Iterable[Checkpoint], robot: Simulator, *, episodes: int = EPISODES, rng: Generator) -> Iterator[Measurement]:
    """Every checkpoint, evaluated on the same starts."""
    for checkpoint in checkpoints:
        evaluation = evaluate(checkpoint.policy, robot, episodes=episodes, rng=deepcopy(rng))
        yield Measurement(checkpoint, evaluation.returns, evaluation.diverged)
