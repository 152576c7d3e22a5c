"""What a score is, and how scores combine."""

from collections.abc import Callable

import numpy as np

from imitable.arrays import Array
from imitable.problem import Problem

Score = Callable[[Problem], Array]
"""A problem's demonstrations to weights (demo,) in [0, 1]."""


def uniform(problem: Problem) -> Array:
    """Trust every demonstration alike."""
    return np.ones(len(problem.demonstrations))


def product(*scores: Score) -> Score:
    """w = w_f * w_o * ... (eq. 6)."""

    def combined(problem: Problem) -> Array:
        return np.asarray(np.prod([score(problem) for score in scores], axis=0))

    return combined
