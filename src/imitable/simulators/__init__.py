"""Agents and their worlds, as pure functions of batches of states."""

from imitable.simulators.base import Simulator, advance, earned

__all__ = ["Simulator", "advance", "earned"]
