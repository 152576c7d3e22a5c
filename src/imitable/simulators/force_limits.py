"""Which controls make a difference: a servo whose force is limited pushes with all of it unless its control is near where it is.

Far from there, its control can be any: nothing changes, and a search for an action is lost. Seen as forces, the admissible controls are a
box again, which moves with the state.
"""

from dataclasses import dataclass

import mujoco
import numpy as np

from imitable.arrays import Array, Integers

_OF_JOINT = (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT))
_AFFINE = (int(mujoco.mjtBias.mjBIAS_NONE), int(mujoco.mjtBias.mjBIAS_AFFINE))
_SCALAR = (int(mujoco.mjtJoint.mjJNT_SLIDE), int(mujoco.mjtJoint.mjJNT_HINGE))


@dataclass(frozen=True, eq=False)
class ForceLimits:
    """Of the K actuators of slide and hinge joints whose force is affine in control, position and velocity, and limited."""

    actuators: Integers
    """(K,) their numbers."""
    qpos: Integers
    """(K,) where their joints' positions are in qpos,"""
    qvel: Integers
    """(K,) and their velocities in qvel."""
    gain: Array
    """(K,) force by control."""
    bias: Array
    """(K, 3) force without control: constant, by position of the joint, by its velocity."""
    weakest: Array
    """(K,) the lowest force"""
    strongest: Array
    """(K,) and the highest one."""

    @classmethod
    def of(cls, model: mujoco.MjModel) -> "ForceLimits":
        """By the actuator's `forcerange` and by its joint's `actuatorfrcrange`, where it alone moves that joint."""
        chosen, ranges = [], []
        joints = np.where(np.isin(model.actuator_trntype, _OF_JOINT), model.actuator_trnid[:, 0], -1)
        for actuator, joint in enumerate(joints.tolist()):
            affine = (
                model.actuator_gaintype[actuator] == int(mujoco.mjtGain.mjGAIN_FIXED)
                and model.actuator_biastype[actuator] in _AFFINE
                and model.actuator_dyntype[actuator] == int(mujoco.mjtDyn.mjDYN_NONE)
            )
            gear = float(model.actuator_gear[actuator, 0])
            if joint < 0 or model.jnt_type[joint] not in _SCALAR or not affine or not gear or not model.actuator_gainprm[actuator, 0]:
                continue
            low, high = model.actuator_forcerange[actuator] if model.actuator_forcelimited[actuator] else (-np.inf, np.inf)
            if model.jnt_actfrclimited[joint] and (joints == joint).sum() == 1:
                of_joint = sorted(model.jnt_actfrcrange[joint] / gear)
                low, high = max(low, of_joint[0]), min(high, of_joint[1])
            if np.isfinite([low, high]).all() and low < high:
                chosen.append(actuator)
                ranges.append((low, high))
        at, of = np.array(chosen, dtype=np.int64), joints[chosen]
        weakest, strongest = np.array(ranges, dtype=np.float64).reshape(-1, 2).T
        affine_bias = model.actuator_biastype[at] == int(mujoco.mjtBias.mjBIAS_AFFINE)
        bias = model.actuator_biasprm[at, :3] * affine_bias[:, None]
        bias[:, 1:] *= model.actuator_gear[at, :1]
        return cls(at, model.jnt_qposadr[of], model.jnt_dofadr[of], model.actuator_gainprm[at, 0], bias, weakest, strongest)

    def windows(self, qpos: Array, qvel: Array) -> tuple[Array, Array]:
        """(N, K) controls beyond which the force does not change, at positions (N, nq) and velocities (N, nv)."""
        without = self.bias[:, 0] + self.bias[:, 1] * qpos[:, self.qpos] + self.bias[:, 2] * qvel[:, self.qvel]
        ends = (self.weakest - without) / self.gain, (self.strongest - without) / self.gain
        return np.minimum(*ends), np.maximum(*ends)
