"""The carrying task on a Franka arm: what its policies see of the joints, what their actions mean to them, and where the arm may be."""

from typing import Final

import numpy as np

from imitable.arrays import Array
from imitable.deploy.guard import Envelope
from imitable.deploy.loop import Skill
from imitable.paper.panda_arm import OBJECT_BELOW, OBSTACLE, Box, Limits, clearance, straight_down, tcp

SPEED = 0.10  # m/s of the TCP at full action
DECIMETRES = 10.0  # policies see the TCP in these
PLACED = 0.06  # m, the TCP's height at which the object is on the table
START: Final = np.array([0.56, 0.0, 0.45])  # m, of the TCP
WORKSPACE: Final = (np.array([0.30, -0.30, OBJECT_BELOW + 0.003]), np.array([0.80, 0.30, 0.55]))
"""Lowest and highest TCP [m]; what it carries stays above the table."""
FACTOR = 0.3  # of the manufacturer's velocities and accelerations
JOINT_MARGIN = 0.05  # rad
HOLD = 2.0  # 1/s, by which joints return to the straight-down posture: what keeps the 3-DoF arm in its plane
AHEAD = 0.01  # s, for the derivative of the posture


def envelope(limits: Limits, *, obstacle: Box = OBSTACLE, stop_distance: float = 0.02, anywhere: bool = False) -> Envelope:
    """Where the arm may be; `anywhere`: without a workspace, to come to the start from where it stands."""
    low, high = (np.array([-1.0, -1.0, OBJECT_BELOW + 0.003]), np.array([1.0, 1.0, 1.5])) if anywhere else WORKSPACE
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
        distance=lambda joints: clearance(joints, obstacle),
    )


def carrying(*, actions: int, limits: Limits, rate: float = 20.0, seconds: float = 7.5) -> Skill:
    """The task for policies of two actions (x, z: the 3-DoF arm) or three (x, y, z), at `rate` [Hz]."""
    (start,), (possible,) = straight_down(START[None], limits=limits)
    assert possible

    def joint_velocities(joints: Array, action: Array) -> Array:
        places, wanted = tcp(joints), np.zeros((len(joints), 3))
        wanted[:, [0, 2] if actions == 2 else [0, 1, 2]] = action
        wanted *= SPEED / np.maximum(1.0, np.linalg.norm(wanted, axis=1, keepdims=True))
        if actions == 2:
            places[:, 1] = 0.0
        now, _ = straight_down(places, limits=limits)
        ahead, reachable = straight_down(places + AHEAD * wanted, limits=limits)
        return np.asarray(np.where(reachable[:, None], ahead - now, 0.0) / AHEAD + HOLD * (now - joints))

    return Skill(
        start=start,
        observe=lambda joints: DECIMETRES * tcp(joints),
        joint_velocities=joint_velocities,
        succeeded=lambda joints: bool(tcp(joints[None])[0, 2] <= PLACED),
        period=1 / rate,
        horizon=round(seconds * rate),
    )
