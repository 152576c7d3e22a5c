"""What a score is, and how scores combine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from imitable.arrays import Array, Integers

if TYPE_CHECKING:
    from imitable.assessment import Assessment


class Score(Protocol):
    """A frozen dataclass that owns its parameters; it says how often each demonstration, or each transition, is to be drawn."""

    def __call__(self, assessment: Assessment) -> Array:
        """Weights (demo,) or (transition,), in [0, 1]."""
        ...

    def table(self, assessment: Assessment) -> dict[str, Array]:
        """The columns (demo,) it wants in the scores table, by name."""
        ...


@dataclass(frozen=True)
class Uniform:
    """Trust every demonstration alike."""

    def __call__(self, assessment: Assessment) -> Array:
        return np.ones(len(assessment.demonstrations))

    def table(self, assessment: Assessment) -> dict[str, Array]:
        return {}


@dataclass(frozen=True)
class Product:
    """w = w_f * w_o * ... (eq. 6); per transition if one of the factors is."""

    factors: tuple[Score, ...]

    def __call__(self, assessment: Assessment) -> Array:
        weights = [assessment.scored(factor) for factor in self.factors]
        if len({each.shape for each in weights}) > 1:
            weights = [per_transition(each, assessment.demonstrations.lengths) for each in weights]
        return np.asarray(np.prod(weights, axis=0))

    def table(self, assessment: Assessment) -> dict[str, Array]:
        columns: dict[str, Array] = {}
        for factor in self.factors:
            columns |= factor.table(assessment)
        return columns

    def facts(self, assessment: Assessment) -> dict[str, Any]:
        """What the factors measured, for reports."""
        found: dict[str, Any] = {}
        for factor in self.factors:
            found |= getattr(factor, "facts", lambda _: {})(assessment)
        return found


def product(*factors: Score) -> Product:
    """The product of these scores."""
    return Product(factors)


def per_transition(weights: Array, lengths: Integers) -> Array:
    """(transition,) weights, from those or from one for each demonstration."""
    return np.repeat(weights, lengths) if weights.shape == lengths.shape else weights


def column_tuple(columns: Iterable[int] | None) -> tuple[int, ...] | None:
    """Columns as a score holds them, so that equal ones are one; a list or an array is as good."""
    return None if columns is None else tuple(int(column) for column in columns)
