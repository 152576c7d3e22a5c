"""What a score is, and how scores combine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from imitable.arrays import Array, Booleans, Integers

if TYPE_CHECKING:
    from imitable.assessment import Assessment


class Score(Protocol):
    """A frozen dataclass that owns its parameters; it says how often each demonstration, or each transition, is to be drawn.

    What it may have beside, the functions below ask for, and have a default for one that has not.
    """

    def __call__(self, assessment: Assessment) -> Array:
        """Weights (demo,) or (transition,), in [0, 1]."""
        ...


def score_columns(score: Score, assessment: Assessment) -> dict[str, Array]:
    """The columns (demo,) it wants in the scores table, by name: `table(assessment)`; else none."""
    return dict(score.table(assessment)) if hasattr(score, "table") else {}


def score_facts(score: Score, assessment: Assessment) -> dict[str, Any]:
    """What it measured, for reports: `facts(assessment)`; else nothing."""
    return dict(score.facts(assessment)) if hasattr(score, "facts") else {}


def why_zero(score: Score, assessment: Assessment) -> str:
    """Why all its weights are 0, and the way out: `why_zero(assessment)`, of the first factor that has it and is 0 everywhere."""
    for factor in factors_of(score):
        if not assessment.scored(factor).any() and hasattr(factor, "why_zero"):
            return str(factor.why_zero(assessment))
    return f"{score} finds nothing worth imitating; choose another score"


def impossible_parts(score: Score, assessment: Assessment) -> Booleans:
    """(demo,) whether the robot clearly cannot follow some of it: `impossible_parts(assessment)`; else of none."""
    none: Booleans = np.zeros(len(assessment.demonstrations), dtype=bool)
    return np.asarray(score.impossible_parts(assessment)) if hasattr(score, "impossible_parts") else none


def factors_of(score: Score) -> tuple[Score, ...]:
    """Of a product, else the score itself."""
    return score.factors if isinstance(score, Product) else (score,)


@dataclass(frozen=True)
class Uniform:
    """Trust every demonstration alike."""

    def __call__(self, assessment: Assessment) -> Array:
        return np.ones(len(assessment.demonstrations))


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
        return {name: column for factor in self.factors for name, column in score_columns(factor, assessment).items()}

    def facts(self, assessment: Assessment) -> dict[str, Any]:
        """What the factors measured, for reports."""
        return {name: fact for factor in self.factors for name, fact in score_facts(factor, assessment).items()}


def product(*factors: Score) -> Product:
    """The product of these scores."""
    return Product(factors)


def per_transition(weights: Array, lengths: Integers) -> Array:
    """(transition,) weights, from those or from one for each demonstration."""
    return np.repeat(weights, lengths) if weights.shape == lengths.shape else weights


def demonstration_weights(weights: Array, lengths: Integers) -> Array:
    """(demo,) weights, from those or as the mean over each demonstration's transitions."""
    if weights.shape == lengths.shape:
        return weights
    return np.add.reduceat(weights, np.concatenate([[0], np.cumsum(lengths)[:-1]])) / lengths


def column_tuple(columns: Iterable[int] | None) -> tuple[int, ...] | None:
    """Columns as a score holds them, so that equal ones are one; a list or an array is as good."""
    return None if columns is None else tuple(int(column) for column in columns)
