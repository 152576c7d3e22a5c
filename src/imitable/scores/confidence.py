"""Confidence: how far up a demonstration's return lies between the worst and the best; what 2IWIL and IC-GAIL take for labels."""

import numpy as np

from imitable.arrays import Array
from imitable.errors import ImitableError
from imitable.problem import Problem


def confidence(problem: Problem) -> Array:
    """r (demo,): the return, scaled so that the worst is 0 and the best is 1."""
    returns = problem.demonstrations.returns
    worst, best = returns.min(), returns.max()
    if worst == best:
        raise ImitableError(
            f"all {len(returns)} demonstrations have the return {best:g}, so none deserves more confidence than another; "
            "give demonstrations of different returns, or use a method without confidences"
        )
    return np.asarray((returns - worst) / (best - worst))
