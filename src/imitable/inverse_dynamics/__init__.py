"""Inverse dynamics: which action of the robot explains a transition."""

from imitable.inverse_dynamics.base import (
    NOT_SETTLED,
    OUT_OF_REACH,
    REACHED,
    UNTRIED,
    InverseDynamics,
    InverseDynamicsModel,
    InverseResult,
    coarse_model,
    in_units,
    patient_models,
    tolerant_model,
)
from imitable.inverse_dynamics.learned import Learned
from imitable.inverse_dynamics.solved import Solved, floored_scale, step_scale

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
    "coarse_model",
    "floored_scale",
    "in_units",
    "patient_models",
    "step_scale",
    "tolerant_model",
]
