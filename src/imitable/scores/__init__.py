"""Scores: arrays in, weights out. A score maps a problem to one weight in [0, 1] per demonstration."""

from imitable.scores.base import Score, product, uniform
from imitable.scores.confidence import confidence
from imitable.scores.feasibility import feasibility
from imitable.scores.optimality import best_returns, naive_optimality, optimality, rectified_optimality, rectified_return

__all__ = [
    "Score",
    "best_returns",
    "confidence",
    "feasibility",
    "naive_optimality",
    "optimality",
    "product",
    "rectified_optimality",
    "rectified_return",
    "uniform",
]
