"""Measure a policy: whole episodes on the target, side by side."""

from collections.abc import Callable

from imitable.arrays import Array, Generator
from imitable.errors import ImitableError
from imitable.reinforcement import demonstrate
from imitable.simulators import Simulator


def evaluate(act: Callable[[Array], Array], target: Simulator, *, episodes: int = 100, rng: Generator) -> Array:
    """(episode,) undiscounted returns from fresh starts."""
    if episodes < 1:
        raise ImitableError(f"episodes is {episodes}; a measurement needs at least one")
    return demonstrate(target, act, count=episodes, rng=rng).trajectories.returns
