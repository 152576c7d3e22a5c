"""One representation of what has several: a quaternion and its negative are one orientation, angles a turn apart one direction.

Recordings choose among them by rules of their own (w >= 0, angles in [-pi, pi]), which makes columns jump where nothing moved. MuJoCo's own
trajectories are continuous, and so are demonstrations once signs and turns follow from the observation before.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from imitable.arrays import Array, Booleans, Integers
from imitable.simulators.observation_columns import Column

TURN = 2 * np.pi
BEYOND_LIMIT = 0.5  # rad, that a joint may be pressed beyond its soft limit


@dataclass(frozen=True)
class Periodic:
    """The observation columns whose value is not unique."""

    quaternions: tuple[Integers, ...]
    """(4,) each: w, x, y, z."""
    angles: Integers
    """Of hinges without limits, or with limits a turn or more apart [rad]."""


def periodic_columns(model: mujoco.MjModel, columns: Sequence[Column]) -> Periodic:
    """Of columns that are a joint's position itself, not its sine or cosine."""
    shown = {each.entry.index: at for at, each in enumerate(columns) if each.entry.field == "qpos" and not each.function}
    quaternions, angles = [], []
    for joint in range(model.njnt):
        kind, qpos, (low, high) = mujoco.mjtJoint(model.jnt_type[joint]), int(model.jnt_qposadr[joint]), model.jnt_range[joint]
        if kind in (mujoco.mjtJoint.mjJNT_FREE, mujoco.mjtJoint.mjJNT_BALL):
            first = qpos + 3 * (kind == mujoco.mjtJoint.mjJNT_FREE)
            if all(first + at in shown for at in range(4)):
                quaternions.append(np.array([shown[first + at] for at in range(4)]))
        elif kind == mujoco.mjtJoint.mjJNT_HINGE and qpos in shown and not (model.jnt_limited[joint] and high - low < TURN):
            angles.append(shown[qpos])
    return Periodic(tuple(quaternions), np.array(angles, dtype=np.int64))


def continuous(observations: Array, starts: Integers, periodic: Periodic) -> Array:
    """(row, observation) with signs and turns that follow from the row before; every trajectory keeps its first row, at `starts`.

    Angles are changed only where all of a column lie within one turn: a wheel may turn by more than half a turn in a step.
    """
    if not periodic.quaternions and not len(periodic.angles):
        return observations
    made = observations.copy()
    first = np.zeros(len(made), dtype=bool)
    first[starts] = True
    begin = np.maximum.accumulate(np.where(first, np.arange(len(made)), 0))
    for at in periodic.quaternions:
        turned = np.where((observations[1:, at] * observations[:-1, at]).sum(axis=1) < 0, -1.0, 1.0)
        signs = np.cumprod(np.concatenate([[1.0], turned]))
        made[:, at] *= (signs * signs[begin])[:, None]
    for at in periodic.angles:
        angles = observations[:, at]
        if np.ptp(angles) <= TURN * (1 + 1e-6):
            changes = np.diff(angles, prepend=angles[:1])
            turns = np.cumsum(np.where(np.abs(changes) > np.pi, -np.sign(changes), 0.0))
            made[:, at] += TURN * (turns - turns[begin])
    if np.array_equal(made, observations):
        return observations
    made.flags.writeable = False  # or demonstrations made of them would be a copy
    return made


def ambiguous(observations: Array, angles: tuple[Integers, Integers, Integers], model: mujoco.MjModel) -> Booleans:
    """(N,) whether an angle that is shown by its sine and cosine may be one of two, a turn apart, that its limited hinge can have.

    `angles` are entries of qpos, and the columns of their sines and cosines. Without limits all turns are alike.
    """
    qpos, sines, cosines = angles
    joints = np.searchsorted(model.jnt_qposadr, qpos)
    limited, (low, high) = model.jnt_limited[joints].astype(bool), model.jnt_range[joints].T
    seen = np.arctan2(observations[:, sines], observations[:, cosines])
    another = (seen - TURN > low - BEYOND_LIMIT) | (seen + TURN < high + BEYOND_LIMIT)
    return np.asarray((limited & another).any(axis=1))
