"""Measure a policy: whole episodes on the target, side by side."""

from collections.abc import Callable
from dataclasses import dataclass

from imitable.arrays import Array, Generator
from imitable.errors import ImitableError
from imitable.reinforcement import demonstrate
from imitable.simulators import Simulator


@dataclass(frozen=True)
class Evaluation:
    """What a policy earned."""

    returns: Array
    """(episode,) undiscounted."""
    diverged: int
    """How many episodes ended because the simulation broke down."""


def evaluate(act: Callable[[Array], Array], target: Simulator, *, episodes: int = 100, rng: Generator) -> Evaluation:
    """Undiscounted returns from fresh starts."""
    if episodes < 1:
        raise ImitableError(f"episodes is {episodes}; a measurement needs at least one")
    measured = demonstrate(target, act, count=episodes, rng=rng)
    return Evaluation(measured.trajectories.returns, measured.diverged)
