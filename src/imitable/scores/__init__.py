"""Scores: how often each demonstration, or each of its transitions, is to be drawn."""

from imitable.scores.base import (
    Product,
    Score,
    Uniform,
    demonstration_weights,
    factors_of,
    impossible_parts,
    per_transition,
    product,
    score_columns,
    score_facts,
    why_zero,
)
from imitable.scores.feasibility import Feasibility, ReplayFeasibility, Tolerance
from imitable.scores.optimality import NaiveOptimality, RectifiedOptimality, rectified_return

__all__ = [
    "Feasibility",
    "NaiveOptimality",
    "Product",
    "RectifiedOptimality",
    "ReplayFeasibility",
    "Score",
    "Tolerance",
    "Uniform",
    "demonstration_weights",
    "factors_of",
    "impossible_parts",
    "per_transition",
    "product",
    "rectified_return",
    "score_columns",
    "score_facts",
    "why_zero",
]
