"""Which observation columns show a joint's position and its velocity: what conventions are about."""

from dataclasses import dataclass

import mujoco
import numpy as np

from imitable.arrays import Array, Booleans, Integers
from imitable.simulators.mujoco import MujocoRobot


@dataclass(frozen=True)
class Rotation:
    """The columns of a quaternion (w, x, y, z), of its angular velocity in its own frame, and of a free body's place and velocity."""

    quaternion: Integers
    """(4,)"""
    angular_velocity: Integers
    """(3,)"""
    position: Integers
    """(3,) or none: x, y, z."""
    velocity: Integers
    """(3,) or none."""


@dataclass(frozen=True)
class JointColumns:
    """Pairs of columns of which one is the rate of change of the other, and quaternions with their angular velocities."""

    positions: Integers
    """(pair,) observation columns."""
    velocities: Integers
    """(pair,) observation columns."""
    angular: Booleans
    """(pair,) whether positions are angles."""
    low: Array
    """(pair,) the lowest position [rad or m]; -inf: there is no limit."""
    high: Array
    """(pair,)"""
    branch: Integers
    """(pair,) joints with the same number form one limb; -1: the root, which is no joint of a limb."""
    rotations: tuple[Rotation, ...]
    timestep: float
    """Seconds between two observations."""


def joint_columns(robot: MujocoRobot) -> JointColumns:
    """Of the joints whose position and velocity are columns themselves, not their sine or cosine."""
    model = robot.physics.model
    shown = {(each.entry.field, each.entry.index): at for at, each in enumerate(robot.columns) if not each.function}
    pairs, rotations = [], []
    for joint in range(model.njnt):
        kind, qpos, dof = mujoco.mjtJoint(model.jnt_type[joint]), int(model.jnt_qposadr[joint]), int(model.jnt_dofadr[joint])
        if kind in (mujoco.mjtJoint.mjJNT_FREE, mujoco.mjtJoint.mjJNT_BALL):
            free = kind == mujoco.mjtJoint.mjJNT_FREE
            parts = [(qpos + 3 * free, 4, "qpos"), (dof + 3 * free, 3, "qvel"), (qpos, 3 * free, "qpos"), (dof, 3 * free, "qvel")]
            columns = [[shown.get((field, start + at), -1) for at in range(size)] for start, size, field in parts]
            pairs += [(one, other, False, -np.inf, np.inf, -1) for one, other in zip(columns[2], columns[3], strict=True)]
            if min(columns[0] + columns[1]) >= 0:
                whole = [np.array(each if min(each, default=0) >= 0 else [], dtype=np.int64) for each in columns]
                rotations.append(Rotation(*whole))
        else:
            low, high = model.jnt_range[joint] if model.jnt_limited[joint] else (-np.inf, np.inf)
            found = shown.get(("qpos", qpos), -1), shown.get(("qvel", dof), -1)
            pairs.append((*found, kind == mujoco.mjtJoint.mjJNT_HINGE, low, high, _branch(model, joint)))
    both = [pair for pair in pairs if pair[0] >= 0 and pair[1] >= 0]
    positions, velocities, angular, low, high, branch = (list(each) for each in zip(*both, strict=True)) if both else ([],) * 6
    return JointColumns(
        np.array(positions, dtype=np.int64),
        np.array(velocities, dtype=np.int64),
        np.array(angular, dtype=bool),
        np.array(low, dtype=np.float64),
        np.array(high, dtype=np.float64),
        np.array(branch, dtype=np.int64),
        tuple(rotations),
        float(model.opt.timestep * robot.physics.frame_skip),
    )


def _branch(model: mujoco.MjModel, joint: int) -> int:
    """The first body of the limb that a joint belongs to; -1 of a joint without an actuator at a root body, which is a degree of freedom
    of the world."""
    body = int(model.jnt_bodyid[joint])
    driven = set(model.actuator_trnid[model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT, 0].tolist())
    if joint not in driven and model.body_parentid[body] == 0:
        return -1
    while model.body_parentid[body] != 0 and model.body_parentid[model.body_parentid[body]] != 0:
        body = int(model.body_parentid[body])
    return body
