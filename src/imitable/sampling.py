"""p_w: drawing transitions with probability proportional to their demonstration's weight."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from imitable.arrays import Array, Generator, Integers
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError


@dataclass(frozen=True, eq=False)
class TransitionSampler:
    """Draws transitions (s, s') from p_w; long demonstrations weigh more, as in the paper."""

    demonstrations: Demonstrations
    weights: Array
    """(demo,)"""

    def __post_init__(self) -> None:
        check_weights(self.weights, len(self.demonstrations))

    @cached_property
    def cumulative(self) -> Array:
        """(transition,) running sum of p_w, ending at exactly 1."""
        mass = np.cumsum(np.repeat(self.weights, self.demonstrations.lengths))
        return np.asarray(mass / mass[-1])

    def pick(self, count: int, rng: Generator) -> Integers:
        """(count,) numbers of transitions."""
        return np.searchsorted(self.cumulative, rng.random(count), side="right")

    def draw(self, count: int, rng: Generator) -> tuple[Array, Array]:
        """Observations and next observations, (count, observation) each."""
        rows = self.demonstrations.transition_rows[self.pick(count, rng)]
        return self.demonstrations.states[rows], self.demonstrations.states[rows + 1]


def effective_sample_size(weights: Array) -> float:
    """(sum w)^2 / sum w^2: how many equally weighted demonstrations would be as informative."""
    if not weights.any():
        return 0.0
    relative = weights / weights.max()  # so that tiny weights do not vanish when squared
    return float(relative.sum() ** 2 / np.square(relative).sum())


def check_weights(weights: Array, count: int) -> None:
    """One finite, non-negative weight per demonstration, not all zero."""
    if weights.shape != (count,):
        raise ImitableError(f"weights have shape {weights.shape}; {count} demonstrations need ({count},)")
    if (bad := np.flatnonzero(~np.isfinite(weights) | (weights < 0))).size:
        raise ImitableError(f"demonstration {bad[0]} has weight {weights[bad[0]]}; weights must be finite and at least 0")
    if not weights.any():
        raise ImitableError(
            f"all {count} weights are zero, so there is nothing to learn from; raise Settings.noise (feasibility) or "
            "Settings.sigma (optimality)"
        )
