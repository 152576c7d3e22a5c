"""Which observations determine the robot's state."""

import numpy as np

from imitable.arrays import Array, Booleans, Integers
from imitable.demonstrations import Demonstrations
from imitable.simulators import Simulator, restorable

ROWS = 100_000
"""Looked at together: there may be millions."""


def restorable_rows(trajectories: Demonstrations, robot: Simulator, *, margin: Array | float = 0.0) -> Booleans:
    """(row,) which observations determine the robot's state: those with a clipped velocity do not, nor do those within a margin
    (observation,) of clipping, since noise moves clipped values."""
    observations, known = trajectories.observations, np.ones(len(trajectories.observations), dtype=bool)
    for first in range(0, len(known), ROWS):
        rows = slice(first, first + ROWS)
        for each in (margin, -margin) if np.any(margin) else (0.0,):
            known[rows] &= restorable(robot, observations[rows] + each)
    return known


def steps_since_restorable(demonstrations: Demonstrations, robot: Simulator, *, margin: Array | float = 0.0) -> Integers:
    """(transition,) steps since an observation of the demonstration last determined the robot's state, 0 where it does; -1: never yet."""
    rows, index = demonstrations.transition_rows, np.arange(len(demonstrations.transition_rows))
    last = np.maximum.accumulate(np.where(restorable_rows(demonstrations, robot, margin=margin)[rows], index, -1))
    first = np.repeat(demonstrations.transition_starts, demonstrations.lengths)
    return np.asarray(np.where(last >= first, index - last, -1))
