"""Robots in their worlds, as pure functions of batches of states."""

from imitable.simulators.base import Simulator, advance, reward_of

__all__ = ["Simulator", "advance", "reward_of"]
