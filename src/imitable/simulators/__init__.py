"""Robots in their worlds, as pure functions of batches of states."""

from imitable.simulators.base import (
    Simulator,
    action_names,
    advance,
    continuous,
    effective_limits,
    has_reward,
    joint_ranges,
    notes,
    restorable,
    reward_of,
    with_defaults,
)

__all__ = [
    "Simulator",
    "action_names",
    "advance",
    "continuous",
    "effective_limits",
    "has_reward",
    "joint_ranges",
    "notes",
    "restorable",
    "reward_of",
    "with_defaults",
]
