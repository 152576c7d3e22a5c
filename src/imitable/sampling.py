"""p_w: drawing transitions with probability proportional to their weight."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from imitable.arrays import Array, Generator, Integers
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.scores import per_transition


@dataclass(frozen=True, eq=False)
class TransitionSampler:
    """Draws transitions (s, s') from p_w; long demonstrations count more, as in the paper."""

    demonstrations: Demonstrations
    weights: Array
    """(demo,) or (transition,)"""

    def __post_init__(self) -> None:
        check_weights(self.weights, self.demonstrations)

    @cached_property
    def cumulative(self) -> Array:
        """(transition,) running sum of p_w, ending at exactly 1."""
        mass = np.cumsum(per_transition(self.weights, self.demonstrations.lengths))
        return np.asarray(mass / mass[-1])

    def draw_indices(self, count: int, rng: Generator) -> Integers:
        """(count,) indices of transitions."""
        return np.searchsorted(self.cumulative, rng.random(count), side="right")

    def draw(self, count: int, rng: Generator) -> tuple[Array, Array]:
        """Observations and next observations, (count, observation) each."""
        rows = self.demonstrations.transition_rows[self.draw_indices(count, rng)]
        return self.demonstrations.observations[rows], self.demonstrations.observations[rows + 1]


def effective_sample_size(weights: Array) -> float:
    """(sum w)^2 / sum w^2: how many equally weighted demonstrations, or transitions, would be as informative."""
    if not weights.any():
        return 0.0
    relative = weights / weights.max()  # so that tiny weights do not vanish when squared
    return float(relative.sum() ** 2 / np.square(relative).sum())


def check_weights(weights: Array, demonstrations: Demonstrations) -> None:
    """One finite, non-negative weight per demonstration or per transition, not all zero."""
    demos, transitions = len(demonstrations), int(demonstrations.lengths.sum())
    if weights.shape not in ((demos,), (transitions,)):
        raise ImitableError(
            f"weights have shape {weights.shape}; {demos} demonstrations need ({demos},), or ({transitions},) per transition"
        )
    owner = "demonstration" if weights.shape == (demos,) else "transition"
    if (bad := np.flatnonzero(~np.isfinite(weights) | (weights < 0))).size:
        raise ImitableError(f"{owner} {bad[0]} has weight {weights[bad[0]]}; weights must be finite and at least 0")
    if not weights.any():
        raise ImitableError(f"all {len(weights)} weights are zero, so there is nothing to learn from; `Assessment.weights` says why")
