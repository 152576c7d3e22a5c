"""The carrying task on a Franka arm: what its policies see of the joints, what their actions mean to them, and where the arm may be."""

from typing import Final

import numpy as np

from imitable.arrays import Array
from imitable.deploy.guard import Envelope
from imitable.deploy.loop import Skill
from imitable.errors import ImitableError
from imitable.paper.panda import DECIMETRES, LOWEST, PLACED_HEIGHT, SPEED, Panda
from imitable.paper.panda_arm import clearance, straight_down, tcp

SECONDS = 7.5  # of an episode
START: Final = np.array([0.56, 0.0, 0.45])  # m, of the TCP
WORKSPACE: Final = (np.array([0.30, -0.30, LOWEST + 0.003]), np.array([0.80, 0.30, 0.55]))
"""Lowest and highest TCP [m]; what it carries stays above the table."""
FACTOR = 0.3  # of the manufacturer's velocities and accelerations
JOINT_MARGIN = 0.05  # rad
HOLD = 2.0  # 1/s, by which joints return to the straight-down posture: what keeps the 3-DoF arm in its plane


def envelope(robot: Panda, *, stop_distance: float = 0.02, anywhere: bool = False) -> Envelope:
    """Where the arm may be; `anywhere`: without a workspace, to come to the start from where it stands."""
    low, high = (np.array([-1.0, -1.0, WORKSPACE[0][2]]), np.array([1.0, 1.0, 1.5])) if anywhere else WORKSPACE
    limits = robot.limits
    return Envelope(
        low=limits.low + JOINT_MARGIN,
        high=limits.high - JOINT_MARGIN,
        velocity=FACTOR * limits.velocity,
        acceleration=FACTOR * limits.acceleration,
        tcp_speed=SPEED,
        tcp_low=low,
        tcp_high=high,
        clearance=stop_distance,
        tcp=tcp,
        distance=lambda joints: clearance(joints, robot.obstacle),
    )


def carrying(robot: Panda) -> Skill:
    """The task of its policies, at their rate."""
    (start,), (possible,) = straight_down(START[None], limits=robot.limits)
    if not possible:
        raise ImitableError(f"the arm {robot.arm!r} does not reach the start {START.tolist()}; give one that does")
    plane = np.array([1.0, 0.0 if robot.dof == 3 else 1.0, 1.0])

    def joint_velocities(joints: Array, actions: Array) -> Array:
        _, before, after = robot.moved(tcp(joints) * plane, actions)
        return np.asarray((after - before) / robot.timestep + HOLD * (before - joints))

    return Skill(
        start=start,
        observe=lambda joints: np.asarray(DECIMETRES * tcp(joints)),
        joint_velocities=joint_velocities,
        succeeded=lambda joints: bool(tcp(joints[None])[0, 2] <= PLACED_HEIGHT),
        period=robot.timestep,
        horizon=robot.horizon,
    )
