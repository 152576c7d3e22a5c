"""Answers to begin a search with: a robot that comes to a similar state again and changes in a similar way most likely does the same."""

from dataclasses import dataclass, field

import numpy as np

from imitable.arrays import Array, Generator, Integers
from imitable.inverse_dynamics.base import REACHED, InverseResult, floored_scale

SIZE = 2048
"""Answers kept; more hardly save any steps."""
FIRST_WAVE, GROWTH, LARGEST_WAVE = 64, 4, 20_000
"""Transitions solved together at first, and how many times as many every time after."""
LARGEST_JACOBIANS = 8_000_000
"""Numbers in the Jacobians of a wave."""


@dataclass(eq=False)
class Library:
    """Transitions that were reached, and how."""

    spread: Array
    """(observation,) standard deviation of observations."""
    scale: Array
    """(observation,) of one-step changes."""
    features: Array = field(init=False)
    answers: InverseResult | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.spread, self.scale = floored_scale(self.spread), floored_scale(self.scale)
        self.features = np.empty((0, 2 * len(self.scale)))

    def similar(self, observations: Array, next_observations: Array) -> InverseResult | None:
        """The answers to the most similar transitions that were reached, if any were."""
        if self.answers is None:
            return None
        given = self._features(observations, next_observations)
        # The squared distance but for what is the same for all answers.
        farness = np.square(self.features).sum(axis=1) - 2 * given @ self.features.T
        return self.answers.select(farness.argmin(axis=1))

    def add(self, observations: Array, next_observations: Array, found: InverseResult) -> None:
        """Keep those that were reached, while there is room."""
        chosen = np.flatnonzero(found.verdict == REACHED)[: SIZE - len(self.features)]
        if len(chosen):
            added, parts = self._features(observations[chosen], next_observations[chosen]), [found.select(chosen)]
            self.features = np.concatenate([self.features, added])
            self.answers = InverseResult.join(parts if self.answers is None else [self.answers, *parts])

    def _features(self, observations: Array, next_observations: Array) -> Array:
        return np.hstack([observations / self.spread, (next_observations - observations) / self.scale])


def waves(rows: Integers, *, jacobian_size: int, rng: Generator) -> list[Integers]:
    """These rows in random order, few at first, so that those after can begin at their answers."""
    largest = int(np.clip(LARGEST_JACOBIANS / jacobian_size, FIRST_WAVE, LARGEST_WAVE))
    shuffled, parts, first, size = rng.permutation(rows), [], 0, FIRST_WAVE
    while first < len(rows):
        parts.append(np.sort(shuffled[first : first + size]))
        first, size = first + size, min(GROWTH * size, largest)
    return parts
