"""What a driver of an arm is, and one without an arm that can be told to fail."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from imitable.arrays import Array, Generator

MOVING = ("idle", "move")
"""Modes of a healthy arm; any other ends an episode."""


class DriverError(Exception):
    """The connection to the arm is lost, or it refused."""


@dataclass(frozen=True, eq=False)
class Reading:
    """The state of an arm of J joints."""

    robot_time: float  # s, by the robot's own clock
    joints: Array  # (J,) rad
    velocities: Array  # (J,) rad/s
    mode: str  # idle, move, reflex, user stopped, ...


class Driver(Protocol):
    """Five calls; whatever holds the robot's own control loop is behind them."""

    def connect(self) -> dict[str, str]:
        """Get ready; the versions that are in use, for the log."""
        ...

    def read(self) -> Reading:
        """The newest state."""
        ...

    def command_joint_velocity(self, velocities: Array, valid_for: float) -> None:
        """Move like this [rad/s] from now on, and come to rest if nothing else is said within `valid_for` seconds."""
        ...

    def stop(self, reason: str) -> None:
        """Come to rest as fast as the robot can; nothing moves after it until someone connects again."""
        ...

    def close(self) -> None:
        """Let go of the robot."""
        ...


@dataclass(frozen=True)
class Faults:
    """What goes wrong with a fake arm, and from which second on; None: never."""

    stale: float | None = None  # the state is never renewed
    dropped: float | None = None  # commands get lost
    drop_rate: float = 0.0  # share of all commands that get lost
    nan: float | None = None  # joints read as NaN
    reflex: float | None = None  # the arm has touched something and stopped
    disconnected: float | None = None  # reading raises DriverError
    drift: float | None = None  # joint 1 turns by 0.2 rad/s whatever it is told
    latency: float = 0.0  # s, until a command takes effect
    noise: float = 0.0  # rad, standard deviation of the joints as read


@dataclass(eq=False)
class FakeDriver:
    """An arm whose joints follow commands with a lag, in a time of its own that passes when someone sleeps."""

    joints: Array
    """(J,) rad, where it is"""
    faults: Faults = field(default_factory=Faults)
    lag: float = 0.01  # s, time constant of the joints' velocities
    seed: int = 0
    stopped: str | None = None
    """Why it was told to stop."""
    time: float = 0.0  # s

    def __post_init__(self) -> None:
        self.joints = np.array(self.joints, dtype=np.float64)
        self.velocities = np.zeros_like(self.joints)
        self.visited: list[Array] = [self.joints.copy()]
        """Where it was at every millisecond."""
        self._rng: Generator = np.random.default_rng(self.seed)
        self._queue: list[tuple[float, float, Array]] = []  # when commands take effect and expire
        self._frozen: Reading | None = None

    def connect(self) -> dict[str, str]:
        return {"driver": "fake"}

    def read(self) -> Reading:
        if self._due(self.faults.disconnected):
            raise DriverError("the connection is lost")
        if self._frozen is not None:
            return self._frozen
        shown = self.joints + self.faults.noise * self._rng.standard_normal(len(self.joints))
        if self._due(self.faults.nan):
            shown = np.full_like(shown, np.nan)
        mode = "reflex" if self._due(self.faults.reflex) else "move" if np.abs(self.velocities).max() > 1e-6 else "idle"
        reading = Reading(self.time, shown, self.velocities.copy(), mode)
        if self._due(self.faults.stale):
            self._frozen = reading
        return reading

    def command_joint_velocity(self, velocities: Array, valid_for: float) -> None:
        if self._due(self.faults.dropped) or self._rng.random() < self.faults.drop_rate or self.stopped is not None:
            return
        begin = self.time + self.faults.latency
        self._queue.append((begin, begin + valid_for, np.array(velocities)))

    def stop(self, reason: str) -> None:
        self.stopped = self.stopped or reason
        self._queue.clear()

    def close(self) -> None:
        self._queue.clear()

    def sleep(self, seconds: float) -> None:
        """Let time pass, in steps of a millisecond."""
        for _ in range(max(1, round(seconds / 1e-3))):
            self.time += 1e-3
            self._queue = self._queue[max((at for at, (begin, *_) in enumerate(self._queue) if begin <= self.time), default=0) :]
            target = np.zeros_like(self.velocities)
            if self._queue and self._queue[0][0] <= self.time < self._queue[0][1] and not self._due(self.faults.reflex):
                target = self._queue[0][2].copy()
            if self._due(self.faults.drift) and self.stopped is None:
                target[0] = 0.2
            self.velocities = self.velocities + (target - self.velocities) * min(1.0, 1e-3 / self.lag)
            self.joints = self.joints + 1e-3 * self.velocities
            self.visited.append(self.joints.copy())

    def now(self) -> float:
        return self.time

    def _due(self, since: float | None) -> bool:
        return since is not None and self.time >= since
