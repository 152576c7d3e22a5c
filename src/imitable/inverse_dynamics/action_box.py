"""The actions that are searched among: a box, which for servos whose force is limited moves with the state.

Such a servo pushes with all its force unless its control is near where it is; over most of its range a search would find nothing that
makes a difference.
"""

from dataclasses import dataclass

import numpy as np

from imitable.arrays import Array, Booleans, Integers
from imitable.inverse_dynamics.base import factor_to_admit, plausible_factor
from imitable.simulators import Simulator

MARGIN = 0.5
"""Of the range of controls that change a servo's force, to both sides."""


@dataclass(frozen=True, eq=False)
class ActionBox:
    """The actions to search among, in units in which they are a box from -1 to 1, and where in it actuators are at their limits."""

    middle: Array  # (N, action)
    half: Array  # (N, action)
    least: Array  # (N, action) at most this and
    most: Array  # (N, action) at least that: at a limit
    of_force: Booleans  # (N, action) whose force ends before their control does

    @classmethod
    def of(cls, robot: Simulator, low: Array, high: Array) -> "ActionBox":
        """Half as wide again to both sides, as far as controls go: between these states a servo may be faster, and push less."""
        margin = MARGIN * (high - low)
        lowest, highest = np.maximum(low - margin, robot.action_low), np.minimum(high + margin, robot.action_high)
        middle, half = (highest + lowest) / 2, (highest - lowest) / 2
        of_force = (low > robot.action_low) | (high < robot.action_high)
        least, most = (np.where(of_force, (end - middle) / half, sign) for end, sign in ((low, -1.0), (high, 1.0)))
        return cls(middle, half, least, most, of_force)

    def select(self, rows: slice) -> "ActionBox":
        return ActionBox(self.middle[rows], self.half[rows], self.least[rows], self.most[rows], self.of_force[rows])

    def controls(self, actions: Array, rows: Integers | slice = slice(None)) -> Array:
        return np.asarray(self.middle[rows] + self.half[rows] * actions)

    def at_limit(self, actions: Array, rows: Integers | slice = slice(None)) -> Booleans:
        return np.asarray((actions <= self.least[rows] + 1e-9) | (actions >= self.most[rows] - 1e-9))

    def factors_to_admit(self, actions: Array, rows: Integers, robot: Simulator) -> Array:
        """(K,) by how much the limits of controls would have to grow, or, where force ends before the controls do, those of forces."""
        of_force, least, most = self.of_force[rows], self.least[rows], self.most[rows]
        factors = factor_to_admit(np.where(of_force, robot.action_low, self.controls(actions, rows)), robot)
        forces = np.where(of_force, np.abs(2 * actions - most - least) / (most - least), 1.0).max(axis=1, initial=1.0)
        return np.asarray(np.maximum(factors, plausible_factor(forces)))
