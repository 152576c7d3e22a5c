"""Franka's arm (Panda, FR3): published kinematics and limits, and a light model of its shape; batch-first, and the same as MJCF.

Joints are (N, 7) [rad], places (N, 3) [m] in the base frame: x forward, y left, z up, the table's top at z = 0. The tool centre point (TCP)
lies between the fingertips. Capsules stand for the links' shapes; the manufacturer's meshes stick out of them by at most 12 mm, so a
clearance below that may be a touch.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from imitable.arrays import Array, Booleans
from imitable.errors import ImitableError

DH: Final = np.array(
    [
        (0.0, 0.333, 0),
        (0.0, 0.0, -1),
        (0.0, 0.316, 1),
        (0.0825, 0.0, 1),
        (-0.0825, 0.384, -1),
        (0.0, 0.0, 1),
        (0.088, 0.0, 1),
        (0.0, 0.107, 0),
    ]
)
"""(8, 3) a [m], d [m] and alpha [quarter turns] of Craig's convention: seven joints, then the flange."""
HAND_YAW = -np.pi / 4  # rad, by which the hand is mounted on the flange
TCP = 0.1034  # m, from the flange along the hand
OBJECT_BELOW = 0.045  # m, from the TCP down to the bottom of the carried object
STRAIGHT_DOWN_YAW = -np.pi / 4  # rad, joint 7 at which the hand's wide side lies along x, with joint 1 at 0


@dataclass(frozen=True, eq=False)
class Limits:
    """What Franka's control interface admits; (7,) each."""

    low: Array  # rad
    high: Array  # rad
    velocity: Array  # rad/s; of the FR3 these shrink near the ends of the joints
    acceleration: Array  # rad/s^2
    jerk: Array  # rad/s^3


FER: Final = Limits(
    low=np.array([-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973]),
    high=np.array([2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973]),
    velocity=np.array([2.175] * 4 + [2.61] * 3),
    acceleration=np.array([15.0, 7.5, 10.0, 12.5, 15.0, 20.0, 20.0]),
    jerk=np.array([7500.0, 3750.0, 5000.0, 6250.0, 7500.0, 10000.0, 10000.0]),
)
"""Of the Panda, also called FER."""
FR3: Final = Limits(
    low=np.array([-2.9007, -1.8361, -2.9007, -3.0770, -2.8763, 0.4398, -3.0508]),
    high=np.array([2.9007, 1.8361, 2.9007, -0.1169, 2.8763, 4.6216, 3.0508]),
    velocity=np.array([2.62] * 4 + [5.26, 4.18, 5.26]),
    acceleration=np.full(7, 10.0),
    jerk=np.full(7, 5000.0),
)
ARMS: Final = {"fer": FER, "fr3": FR3}


@dataclass(frozen=True)
class Capsule:
    """A segment of a link, with a radius [m]; ends are in the link's frame, that of the joint before it (7: joint 7, 8: the hand)."""

    link: int
    start: tuple[float, float, float]
    end: tuple[float, float, float]
    radius: float


CAPSULES: Final = (
    Capsule(0, (-0.09, 0.0, 0.05), (0.0, 0.0, 0.035), 0.09),
    Capsule(0, (0.0, 0.0, 0.05), (0.0, 0.0, 0.088), 0.065),
    Capsule(1, (0.0, 0.0, -0.18), (0.0, 0.0, -0.01), 0.06),
    Capsule(1, (0.0, 0.0, 0.0), (0.0, -0.07, 0.0), 0.06),
    Capsule(2, (0.0, -0.01, 0.0), (0.0, -0.18, 0.0), 0.06),
    Capsule(2, (0.0, 0.0, 0.0), (0.0, 0.0, 0.07), 0.06),
    Capsule(3, (0.0, 0.0, -0.11), (0.0, 0.0, -0.01), 0.06),
    Capsule(3, (0.0825, 0.0, 0.0), (0.0825, 0.055, 0.0), 0.06),
    Capsule(3, (0.0, 0.0, 0.0), (0.0825, 0.0, 0.0), 0.055),
    Capsule(4, (0.0, 0.0, 0.0), (0.0, 0.0, 0.055), 0.06),
    Capsule(4, (-0.0825, 0.0, 0.0), (-0.0825, 0.11, 0.0), 0.06),
    Capsule(5, (0.0, 0.0, -0.25), (0.0, 0.0, -0.21), 0.06),
    Capsule(5, (0.0, 0.04, -0.19), (0.0, 0.072, 0.0), 0.055),
    Capsule(5, (0.0, 0.01, -0.2), (0.0, 0.06, 0.0), 0.055),
    Capsule(6, (0.0, 0.0, 0.0), (0.0, 0.03, 0.0), 0.055),
    Capsule(6, (0.02, 0.01, 0.0), (0.088, 0.01, 0.0), 0.055),
    Capsule(6, (0.088, -0.01, 0.0), (0.088, 0.035, 0.0), 0.05),
    Capsule(7, (0.0, 0.0, 0.06), (0.0, 0.0, 0.09), 0.05),
    Capsule(7, (0.01, 0.01, 0.08), (0.045, 0.045, 0.08), 0.04),
    Capsule(8, (0.0, -0.07, 0.006), (0.0, 0.07, 0.006), 0.034),
    Capsule(8, (0.0, -0.07, 0.034), (0.0, 0.07, 0.034), 0.034),
    Capsule(8, (0.0, -0.03, 0.085), (0.0, 0.03, 0.085), 0.025),  # the fingers
)
CARRIED: Final = Capsule(8, (0.0, 0.0, 0.0834), (0.0, 0.0, TCP + OBJECT_BELOW - 0.025), 0.025)


@dataclass(frozen=True)
class Box:
    """A box along the axes [m]."""

    centre: tuple[float, float, float]
    half_extents: tuple[float, float, float]


OBSTACLE: Final = Box((0.56, 0.0, 0.09), (0.05, 0.04, 0.09))


def link_frames(joints: Array) -> tuple[Array, Array]:
    """Axes (9, 3, 3, N), [link, axis, coordinate], and origins (9, 3, N) of the base, the seven links and the hand."""
    if joints.ndim != 2 or joints.shape[1] != 7:
        raise ImitableError(f"joints have shape {joints.shape}; they must be (N, 7)")
    angles = np.concatenate([joints.T, np.full((1, len(joints)), HAND_YAW)])
    cosines, sines = np.cos(angles), np.sin(angles)
    axes, origins = np.empty((9, 3, 3, len(joints))), np.zeros((9, 3, len(joints)))
    axes[0] = np.eye(3)[:, :, None]
    for link, (a, d, turn) in enumerate(DH, start=1):
        (x, y, z), cos, sin = axes[link - 1], cosines[link - 1], sines[link - 1]
        y, z = (z * turn, y * -turn) if turn else (y, z)
        origins[link] = origins[link - 1] + a * x + d * z
        axes[link] = x * cos + y * sin, y * cos - x * sin, z
    return axes, origins


def tcp(joints: Array) -> Array:
    """(N, 3) the tool centre point."""
    axes, origins = link_frames(joints)
    return np.asarray((origins[8] + TCP * axes[8, 2]).T)


# Planar arm between joint 2 and joint 6, as seen from the side: two links with their offsets at the elbow.
_UPPER, _LOWER = np.hypot(0.0825, 0.316), np.hypot(0.0825, 0.384)
_UPPER_ANGLE, _LOWER_ANGLE = np.arctan2(0.0825, 0.316), np.arctan2(0.0825, 0.384)
_WRIST = (0.088, 0.107 + TCP - 0.333)  # m, from the TCP back to joint 6 and up to it, less the height of joint 2


def straight_down(places: Array, *, limits: Limits = FER) -> tuple[Array, Booleans]:
    """Joints (N, 7) that hold the TCP at places (N, 3) with the hand straight down and its yaw fixed, and (N,) whether they are possible.

    Joint 1 turns the arm's plane towards the place and joint 7 turns the hand back; joints 3 and 5 stay at 0. So in the plane y = 0 only
    joints 2, 4 and 6 move. Where a place is out of reach, the arm points to the nearest one, and joints may be beyond their limits.
    """
    x, y, z = places.T
    yaw, out, up = np.arctan2(y, x), np.hypot(x, y) - _WRIST[0], z + _WRIST[1]
    cosine = (out**2 + up**2 - _UPPER**2 - _LOWER**2) / (2 * _UPPER * _LOWER)
    bend = np.arccos(np.clip(cosine, -1.0, 1.0))
    shoulder = np.arctan2(out, up) - np.arctan2(_LOWER * np.sin(bend), _UPPER + _LOWER * np.cos(bend)) - _UPPER_ANGLE
    elbow = -(bend + _UPPER_ANGLE + _LOWER_ANGLE)
    zero = np.zeros(len(places))
    joints = np.stack([yaw, shoulder, zero, elbow, zero, shoulder - elbow, yaw + STRAIGHT_DOWN_YAW], axis=1)
    inside = (np.abs(cosine) <= 1) & ((joints >= limits.low) & (joints <= limits.high)).all(axis=1)
    return joints, np.asarray(inside)


def straight_down_tcp(joints: Array) -> Array:
    """(N, 3) the TCP of such joints, from joints 1, 2 and 4 alone."""
    yaw, shoulder, elbow = joints[:, 0], joints[:, 1], joints[:, 3]
    upper, lower = shoulder + _UPPER_ANGLE, shoulder - elbow - _LOWER_ANGLE
    out = _UPPER * np.sin(upper) + _LOWER * np.sin(lower) + _WRIST[0]
    up = _UPPER * np.cos(upper) + _LOWER * np.cos(lower) - _WRIST[1]
    return np.stack([out * np.cos(yaw), out * np.sin(yaw), up], axis=1)


def capsule_ends(joints: Array, *, carrying: bool = True, first_link: int = 0) -> tuple[Array, Array, Array]:
    """Starts and ends (capsule, 3, N) of all capsules from a link on, and their radii (capsule,) [m]."""
    capsules = [each for each in (*CAPSULES, CARRIED)[: None if carrying else -1] if each.link >= first_link]
    axes, origins = link_frames(joints)
    links = [each.link for each in capsules]

    def located(local: Array) -> Array:
        x, y, z = local.T[:, :, None, None]
        return np.asarray(origins[links] + x * axes[links, 0] + y * axes[links, 1] + z * axes[links, 2])

    starts, ends = (located(np.array([getattr(each, end) for each in capsules])) for end in ("start", "end"))
    return starts, ends, np.array([each.radius for each in capsules])


CHUNK = 256
"""Arms whose clearance is computed at once, so that all of it stays in the processor's cache."""


def clearance(joints: Array, obstacle: Box = OBSTACLE, *, carrying: bool = True, first_link: int = 0) -> Array:
    """(N,) distance [m] from the arm, or its part from a link on, with what it carries, to the obstacle; how deep the capsules' axes lie
    inside it does not count."""
    if len(joints) > CHUNK:
        parts = (joints[first : first + CHUNK] for first in range(0, len(joints), CHUNK))
        return np.concatenate([clearance(part, obstacle, carrying=carrying, first_link=first_link) for part in parts])
    starts, ends, radii = capsule_ends(joints, carrying=carrying, first_link=first_link)
    centre, half = (np.array(each)[:, None] for each in (obstacle.centre, obstacle.half_extents))
    starts, along = starts - centre, ends - starts
    # The squared distance of a point on a segment to the box is convex in where the point is, with a slope that is linear between the
    # places where the segment crosses a face's plane. The slope is 0 between two of these.
    with np.errstate(divide="ignore", invalid="ignore"):
        crossings = np.concatenate([(side * half - starts) / along for side in (-1, 1)], axis=1)  # (capsule, 6, N)
    crossings = np.sort(np.clip(np.nan_to_num(crossings, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0), axis=1)
    zero = np.zeros_like(crossings[:, :1])
    shares = np.concatenate([zero, crossings, zero + 1.0], axis=1)  # (capsule, 8, N)

    def outside(share: Array) -> Array:
        place = starts[:, None] + share[:, :, None] * along[:, None]
        return np.asarray(place - np.clip(place, -half, half))

    slopes = (outside(shares) * along[:, None]).sum(axis=2)  # rises along each segment
    after = np.minimum((slopes < 0).sum(axis=1, keepdims=True), 7)
    before = np.maximum(after - 1, 0)
    low, high = (np.take_along_axis(slopes, each, axis=1) for each in (before, after))
    first, last = (np.take_along_axis(shares, each, axis=1) for each in (before, after))
    rising = (low < 0) & (high > low)
    nearest = np.where(rising, first + (last - first) * np.minimum(-low / np.where(rising, high - low, 1.0), 1.0), first)
    distances = np.sqrt(np.square(outside(nearest)[:, 0]).sum(axis=1)) - radii[:, None]
    return np.asarray(distances.min(axis=0))


COLOURS: Final = (".95 .95 .95 1", ".75 .75 .78 1")
"""Of every other link."""


def mjcf(*, limits: Limits = FER, obstacle: Box | None = OBSTACLE, carrying: bool = True) -> str:
    """The arm on its table as a MuJoCo model: joints `joint1` to `joint7`, site `tcp`, geoms `obstacle` and `carried`; no meshes."""
    turns = {0: 0.0, 1: np.pi / 2, -1: -np.pi / 2}

    def shape(capsule: Capsule, look: str) -> str:
        return f'<geom type="capsule" fromto="{_text(*capsule.start, *capsule.end)}" size="{capsule.radius}" {look}/>'

    def shapes(link: int) -> str:
        return "".join(shape(each, f'rgba="{COLOURS[link % 2]}"') for each in CAPSULES if each.link == link)

    inner = f'<site name="tcp" pos="0 0 {TCP}"/>{shapes(8)}' + (shape(CARRIED, 'name="carried" rgba=".2 .5 .9 1"') if carrying else "")
    inner = f'<body name="hand" pos="0 0 {DH[7, 1]}" euler="0 0 {HAND_YAW}" gravcomp="1">{inner}</body>'
    for link in range(7, 0, -1):
        a, d, turn = DH[link - 1]
        place = _text(a, -d * turn, d * (1 - abs(turn)))
        joint = f'<joint name="joint{link}" axis="0 0 1" range="{_text(limits.low[link - 1], limits.high[link - 1])}"/>'
        inner = f'<body name="link{link}" pos="{place}" euler="{turns[turn]} 0 0" gravcomp="1">{joint}{shapes(link)}{inner}</body>'
    box = ""
    if obstacle is not None:
        where = f'pos="{_text(*obstacle.centre)}" size="{_text(*obstacle.half_extents)}"'
        box = f'<geom name="obstacle" type="box" {where} rgba=".8 .3 .2 1"/>'
    return (
        '<mujoco model="panda"><compiler angle="radian" eulerseq="xyz" autolimits="true"/>'
        '<default><geom contype="0" conaffinity="0"/></default>'
        '<visual><headlight ambient=".4 .4 .4"/></visual><worldbody><light pos="0.5 -1 2" dir="0 0.5 -1"/>'
        f'<geom name="table" type="plane" size="1 1 .1" rgba=".85 .85 .8 1"/>{box}'
        f'<body name="link0">{shapes(0)}{inner}</body></worldbody></mujoco>'
    )


def _text(*numbers: float) -> str:
    return " ".join(f"{float(number):.17g}" for number in numbers)
