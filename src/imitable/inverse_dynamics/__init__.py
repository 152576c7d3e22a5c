"""Inverse dynamics: which action of the robot explains a transition."""

from imitable.inverse_dynamics.base import (
    NOT_SETTLED,
    OUT_OF_REACH,
    REACHED,
    UNTRIED,
    InverseDynamics,
    InverseDynamicsModel,
    InverseResult,
    floored_scale,
    model_for_tracking,
    model_with_tolerance,
    retry_models,
    step_scale,
    with_scale,
)
from imitable.inverse_dynamics.learned import Learned
from imitable.inverse_dynamics.solved import Solved

INVERSE_DYNAMICS = {
    "solved": "imitable.inverse_dynamics.solved:Solved",
    "learned": "imitable.inverse_dynamics.learned:Learned",
}
"""By the name that `--inverse` takes."""

__all__ = [
    "INVERSE_DYNAMICS",
    "NOT_SETTLED",
    "OUT_OF_REACH",
    "REACHED",
    "UNTRIED",
    "InverseDynamics",
    "InverseDynamicsModel",
    "InverseResult",
    "Learned",
    "Solved",
    "floored_scale",
    "model_for_tracking",
    "model_with_tolerance",
    "retry_models",
    "step_scale",
    "with_scale",
]
