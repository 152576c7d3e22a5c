"""Feasibility: how closely the target can follow a demonstration (eq. 3)."""

import numpy as np

from imitable.arrays import Array
from imitable.problem import Problem, Tolerance


def feasibility(problem: Problem) -> Array:
    """w_f (demo,): 1 if the replay stays as close as the target's own best, 0 if it strays beyond the tolerance."""
    return ramp_down(problem.replay.distances, problem.tolerance)


def ramp_down(distances: Array, tolerance: Tolerance) -> Array:
    """1 up to `closest`, 0 from `farthest` on, a straight line between."""
    return np.clip((tolerance.farthest - distances) / (tolerance.farthest - tolerance.closest), 0.0, 1.0)
