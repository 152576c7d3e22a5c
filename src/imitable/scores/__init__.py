"""Scores: how often each demonstration, or each of its transitions, is to be drawn."""

from imitable.scores.base import Product, Score, Uniform, per_transition, product
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
    "per_transition",
    "product",
    "rectified_return",
]
