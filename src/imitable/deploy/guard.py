"""What a policy may tell an arm: a pure function from the measured joints and a wanted joint velocity to one that is certain to be safe.

A velocity is passed on only if the arm stays within every limit even when it is the last command that arrives: while it is valid, and on
the way to rest after it has expired. Braking from one passed velocity is therefore always possible, and is what remains when nothing else
is. A check of single steps would not do: clipping positions and then accelerations overruns a joint's end.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from imitable.arrays import Array, Booleans
from imitable.errors import ImitableError

CHECKS = ("not finite", "joint velocity", "acceleration", "TCP speed", "joint range", "workspace", "clearance")
"""Why a velocity was changed."""
PLACES = CHECKS[4:]
"""Of these, what concerns where the arm is."""
FRACTIONS = (1.0, 0.9, 0.7, 0.45, 0.25, 0.1)
"""Of the way from braking to what was wanted; the first that is safe is taken."""
SAMPLES = 7
"""Places on the way to rest at which the TCP and the clearance are looked at, millimetres apart."""


@dataclass(frozen=True, eq=False)
class Envelope:
    """Where an arm of J joints may be and how it may move. TCP: the tool centre point."""

    low: Array  # (J,) rad
    high: Array  # (J,) rad
    velocity: Array  # (J,) rad/s
    acceleration: Array  # (J,) rad/s^2
    tcp_speed: float  # m/s
    tcp_low: Array  # (3,) m, the workspace
    tcp_high: Array  # (3,) m
    clearance: float  # m, from the arm to obstacles
    tcp: Callable[[Array], Array]
    """(N, J) joints to (N, 3) places [m]."""
    distance: Callable[[Array], Array]
    """(N, J) joints to (N,) distances [m] between the arm and obstacles, by a model of both."""
    joint_margin: float = 0.01  # rad, by which velocities keep further away than a measured state may be; so with the next three
    place_margin: float = 0.002  # m, of workspace and clearance
    speed_margin: float = 0.005  # of the TCP's speed

    def __post_init__(self) -> None:
        for name in ("velocity", "acceleration"):
            if not (getattr(self, name) > 0).all():
                raise ImitableError(f"{name} limits are {getattr(self, name).tolist()}; they must be positive")
        if not ((self.low + 2 * self.joint_margin < self.high).all() and (self.tcp_low + 2 * self.place_margin < self.tcp_high).all()):
            raise ImitableError("joint limits or workspace leave no room between their margins; give wider ones")

    def rest_time(self, velocities: Array) -> Array:
        """(N, 1) seconds to brake to rest along the path, each joint within its acceleration."""
        return np.asarray((np.abs(velocities) / self.acceleration).max(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Guarded:
    """What the guard makes of N wanted velocities."""

    velocities: Array
    """(N, J) rad/s, always finite."""
    changed: Booleans
    """(N, check) by which of CHECKS they differ from what was wanted."""
    violated: Booleans
    """(N, check) what does not hold even of the measured state and braking: the arm must be stopped."""

    @property
    def stop(self) -> Booleans:
        """(N,)"""
        return np.asarray(self.violated.any(axis=1))

    def reasons(self, row: int = 0) -> tuple[str, ...]:
        """Why this row must stop; empty: it need not."""
        return tuple(CHECKS[each] for each in np.flatnonzero(self.violated[row]))


def guard(envelope: Envelope, joints: Array, previous: Array, wanted: Array, *, period: float, valid_for: float) -> Guarded:
    """The velocities nearest to the wanted ones, on the way there from braking, that are safe for the next period.

    `joints` (N, J) as measured [rad], `previous` (N, J) the velocities passed before and `wanted` (N, J) [rad/s]. A command is renewed
    every `period` and expires after `valid_for` [s].
    """
    if not 0 < period <= valid_for:
        raise ImitableError(f"a command every {period} s that is valid for {valid_for} s; it must be valid until the next one")
    known: Booleans = np.isfinite(np.concatenate([joints, previous], axis=1)).all(axis=1)
    given: Booleans = np.isfinite(np.concatenate([joints, previous, wanted], axis=1)).all(axis=1)
    changed = np.zeros((len(joints), len(CHECKS)), dtype=bool)
    joints = np.where(known[:, None], joints, (envelope.low + envelope.high) / 2)
    previous = np.where(known[:, None], previous, 0.0)
    target = np.where(given[:, None], wanted, 0.0)
    target, changed[:, 1] = _within(target, (np.abs(target) / envelope.velocity).max(axis=1))
    _, _, speeds = _way(envelope, joints, target, np.full((len(joints), 1), valid_for), samples=3)
    target, changed[:, 3] = _within(target, speeds.max(axis=1) / (envelope.tcp_speed * (1 - 1.5 * envelope.speed_margin)))
    step, changed[:, 2] = _within(target - previous, (np.abs(target - previous) / (envelope.acceleration * period)).max(axis=1))
    target = previous + step
    rest = np.maximum(envelope.rest_time(previous), 1e-9)
    braking = previous * np.maximum(0.0, 1.0 - period / rest)
    passed = braking.copy()
    open_rows = np.flatnonzero(given)
    for fraction in FRACTIONS:
        if not len(open_rows):
            break
        tried = braking[open_rows] + fraction * (target - braking)[open_rows]
        wrong = _violations(envelope, joints[open_rows], tried, valid_for, margins=1.0)
        safe = ~wrong.any(axis=1)
        passed[open_rows[safe]] = tried[safe]
        changed[open_rows] |= wrong
        open_rows = open_rows[~safe]
    violated = np.zeros_like(changed)
    if len(open_rows):  # nothing but braking is left; where not even that will do, the driver must stop harder than we brake
        violated[open_rows] = _violations(envelope, joints[open_rows], braking[open_rows], period, margins=0.0)
    violated[:, 0] = changed[:, 0] = ~given
    return Guarded(passed, changed, violated)


def _within(vectors: Array, excess: Array) -> tuple[Array, Booleans]:
    """Vectors (N, J) shortened where their excess (N,) is above 1, and where that was."""
    return vectors / np.maximum(excess, 1.0)[:, None], np.asarray(excess > 1.0)


def _violations(envelope: Envelope, joints: Array, velocities: Array, held: float, *, margins: float) -> Booleans:
    """(N, check) what goes wrong if the arm moves on like this for `held` seconds and then brakes; `margins` times the margins kept."""
    count, rest = len(joints), envelope.rest_time(velocities)
    reach = held + rest / 2  # seconds at full velocity that the whole way is long; it is a line in the space of joints
    wrong = np.zeros((count, len(CHECKS)), dtype=bool)
    wrong[:, 1] = (np.abs(velocities) > envelope.velocity * (1 + 1e-9)).any(axis=1)
    way, places, speeds = _way(envelope, joints, velocities, reach, samples=SAMPLES)
    wrong[:, 4] = _beyond(way, envelope.low, envelope.high, envelope.joint_margin * margins)
    wrong[:, 5] = _beyond(places, envelope.tcp_low, envelope.tcp_high, envelope.place_margin * margins)
    distances = envelope.distance(way.reshape(count * SAMPLES, -1)).reshape(count, SAMPLES, 1)
    wrong[:, 6] = _beyond(distances, np.array([envelope.clearance]), np.array([np.inf]), envelope.place_margin * margins)
    # Full speed while the command is held, then falling with the root of the way that is left.
    left = np.clip((reach - np.linspace(0.0, 1.0, SAMPLES) * reach) / np.maximum(rest / 2, 1e-9), 0.0, 1.0)
    wrong[:, 3] = (speeds * np.sqrt(left) > envelope.tcp_speed * (1 - envelope.speed_margin * margins)).any(axis=1)
    return wrong


def _way(envelope: Envelope, joints: Array, velocities: Array, reach: Array, *, samples: int) -> tuple[Array, Array, Array]:
    """Joints (N, sample, J) on the way that these velocities lead in `reach` (N, 1) seconds, the TCP's places there (N, sample, 3) and its
    speeds (N, sample)."""
    shares = np.linspace(0.0, 1.0, samples)
    way = joints[:, None] + (shares * reach)[:, :, None] * velocities[:, None]
    places = envelope.tcp(way.reshape(len(joints) * samples, -1)).reshape(len(joints), samples, 3)
    return way, places, np.linalg.norm(np.gradient(places, shares, axis=1, edge_order=2), axis=2) / reach


def _beyond(way: Array, low: Array, high: Array, margin: float) -> Booleans:
    """(N,) whether values (N, sample, K) come nearer to their limits than the margin; what is there may go back, but no further."""
    excess = np.maximum(low + margin - way, way - high + margin)
    allowed = np.where(excess[:, :1] < margin, np.maximum(excess[:, :1], 0.0), 0.0)
    return np.asarray((excess > allowed + 1e-12).any(axis=(1, 2)))
