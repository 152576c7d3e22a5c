"""The loop that puts a policy on an arm: read, decide, guard, command, log; any doubt ends in a stop with a reason."""

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from imitable.arrays import Array
from imitable.deploy.drivers import MOVING, Driver, DriverError, Reading
from imitable.deploy.guard import CHECKS, PLACES, Envelope, guard

VALID_PERIODS = 3
"""A command expires after so many periods; a state that is not renewed for as long is stale."""
POLL = 0.002  # s, between looks at the robot's clock
FOLLOWING = 1.0  # s, over which the arm's motion is compared with what it was told
FOLLOW_TOLERANCE = 0.03  # rad, and half of the way: what lags and sagging may make of it
HELD = 1.0  # s without motion after which a policy that the guard holds back is stopped
APPROACH_GAIN = 1.0  # 1/s
START_TOLERANCE = 0.05  # rad; a simulated FR3 sags by up to 0.04


class Clock(Protocol):
    """Where seconds come from, which on a fake arm pass as it likes."""

    def now(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class WallClock:
    now = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)


@dataclass(frozen=True, eq=False)
class Skill:
    """What a policy has to do with an arm of J joints."""

    start: Array
    """(J,) rad, where an episode begins"""
    observe: Callable[[Array], Array]
    """(N, J) joints to (N, observation) what the policy sees."""
    joint_velocities: Callable[[Array, Array], Array]
    """(N, J) joints and (N, action) actions to (N, J) joint velocities [rad/s]."""
    succeeded: Callable[[Array], bool]
    """(J,) joints to whether the task is done."""
    period: float  # s
    horizon: int  # steps


@dataclass(frozen=True)
class Outcome:
    """How an episode ended."""

    success: bool
    reason: str
    steps: int


class StoppedError(Exception):
    """The arm has to stop, and why."""


Record = Callable[[dict[str, Any]], None]
"""Called with every tick, before the next one."""


def deploy(
    driver: Driver,
    act: Callable[[Array], Array],
    skill: Skill,
    envelope: Envelope,
    *,
    execute: bool = False,
    approach: Envelope | None = None,
    clock: Clock | None = None,
    stale_after: float | None = None,
    record: Record = lambda tick: None,
) -> Outcome:
    """Bring the arm to the start, slowly and within the envelope `approach` (None: it must be there), then let the policy act.

    A state is stale when the robot's clock stands still for `stale_after` seconds (None: as long as a command is valid; a simulator may
    need more). Unless told to `execute`, it is a dry run: all is computed and logged where the arm stands, and nothing is sent to it. The
    driver is stopped and closed whatever happens; nothing is tried a second time.
    """
    loop = _Loop(driver, WallClock() if clock is None else clock, record, skill.period, execute, stale_after)
    outcome = Outcome(False, "not begun", 0)
    try:
        record({"connected": driver.connect(), "execute": execute})
        if approach is not None and execute:
            arrived = loop.run(
                "approach",
                approach,
                lambda joints: APPROACH_GAIN * (skill.start - joints),
                lambda joints: bool(np.abs(joints - skill.start).max() < START_TOLERANCE / 2),
                ticks=round(60 / skill.period),
            )
            if arrived is None:
                raise StoppedError("the start was not reached within 60 s")
        away = float(np.abs(loop.wait().joints - skill.start).max())
        if execute and not away <= START_TOLERANCE:
            raise StoppedError(f"a joint is {away:.3f} rad from the start, more than {START_TOLERANCE}; move the arm there first")
        done = loop.run(
            "episode",
            envelope,
            lambda joints: _decide(skill, act, joints),
            skill.succeeded,
            ticks=skill.horizon,
        )
        late = f"out of time after {skill.horizon} steps" if execute else f"dry run of {skill.horizon} steps, {away:.3f} rad from the start"
        outcome = Outcome(done is not None, late if done is None else "done", loop.ticks)
    except (StoppedError, DriverError) as stop:
        outcome = Outcome(False, str(stop), loop.ticks)
    except KeyboardInterrupt:
        outcome = Outcome(False, "interrupted", loop.ticks)
    except BaseException as error:
        outcome = Outcome(False, f"{type(error).__name__}: {error}", loop.ticks)
        raise
    finally:
        with suppress(DriverError):
            if execute:
                driver.stop(outcome.reason)
        record({"success": outcome.success, "reason": outcome.reason})
        with suppress(DriverError):
            driver.close()
    return outcome


class _Loop:
    """One connection: the last command, and what the arm made of those before it."""

    def __init__(self, driver: Driver, clock: Clock, record: Record, period: float, execute: bool, stale_after: float | None) -> None:
        self.driver, self.clock, self.record, self.period, self.execute = driver, clock, record, period, execute
        self.ticks = 0  # of the present phase
        self.valid_for = VALID_PERIODS * period
        self.stale_after = self.valid_for if stale_after is None else stale_after
        self.due = -np.inf  # robot time of the next tick
        self.last: Reading | None = None
        self.previous: Array | None = None  # rad/s, the last command

    def wait(self) -> Reading:
        """The state at the next tick, by the robot's clock."""
        since = self.clock.now()
        while True:
            reading = self.driver.read()
            if not (np.isfinite(reading.joints).all() and np.isfinite(reading.velocities).all() and np.isfinite(reading.robot_time)):
                raise StoppedError("the state is not finite")
            if reading.mode not in MOVING:
                raise StoppedError(f"the robot's mode is {reading.mode}")
            if self.last is None or reading.robot_time > self.last.robot_time:
                self.last, since = reading, self.clock.now()
            elif reading.robot_time < self.last.robot_time:
                raise StoppedError(f"the robot's clock went back from {self.last.robot_time:.3f} s to {reading.robot_time:.3f} s")
            if reading.robot_time >= self.due and self.last is reading:
                self.due = reading.robot_time + self.period
                return reading
            if (stale := self.clock.now() - since) > self.stale_after:
                raise StoppedError(f"the state is stale: the robot's clock has stood at {reading.robot_time:.3f} s for {stale:.2f} s")
            self.clock.sleep(POLL)

    def run(
        self, phase: str, envelope: Envelope, wanted_at: Callable[[Array], Array], done: Callable[[Array], bool], *, ticks: int
    ) -> int | None:
        """Command what is wanted, as far as the guard lets it; after how many ticks it was done, None: it never was."""
        previous = np.zeros(len(envelope.low)) if self.previous is None else self.previous
        commanded, held = deque[tuple[float, Array, Array]](), 0
        for tick in range(ticks + 1):
            self.ticks = tick
            reading = self.wait()
            joints = reading.joints
            if commanded and reading.robot_time - commanded[-1][0] > self.valid_for:
                previous = np.zeros_like(previous)  # the last command has expired
            finished = done(joints)
            wanted = np.zeros_like(previous) if finished or tick == ticks else wanted_at(joints)
            guarded = guard(envelope, joints[None], previous[None], wanted[None], period=self.period, valid_for=self.valid_for)
            passed = guarded.velocities[0]
            self.record(
                {
                    "phase": phase,
                    "tick": tick,
                    "robot_time": reading.robot_time,
                    "wall_time": self.clock.now(),
                    "mode": reading.mode,
                    "joints": joints.tolist(),
                    "velocities": reading.velocities.tolist(),
                    "wanted": wanted.tolist(),
                    "passed": passed.tolist(),
                    "changed by": [CHECKS[each] for each in np.flatnonzero(guarded.changed[0])],
                    "tcp": envelope.tcp(joints[None])[0].tolist(),
                    "clearance": float(envelope.distance(joints[None])[0]),
                }
            )
            if finished:
                return tick
            if reasons := guarded.reasons():
                raise StoppedError(f"the guard: {' and '.join(reasons)}")
            held = held + 1 if self.execute and np.abs(passed).max() < 1e-3 and np.abs(wanted).max() > 1e-2 else 0
            if held * self.period > HELD:
                places = [name for name, changed in zip(CHECKS, guarded.changed[0], strict=True) if changed and name in PLACES]
                raise StoppedError(f"the guard has held the arm for {HELD:g} s: {' and '.join(places)}")
            if self.execute:
                _check_following(commanded, reading, self.valid_for)
                self.driver.command_joint_velocity(passed, self.valid_for)
                commanded.append((reading.robot_time, joints, passed))
                previous = self.previous = passed
        return None


def _decide(skill: Skill, act: Callable[[Array], Array], joints: Array) -> Array:
    """(J,) the joint velocities that the policy wants."""
    action = act(skill.observe(joints[None]))
    if not np.isfinite(action).all():
        raise StoppedError(f"the policy's action is not finite: {action[0].tolist()}")
    return np.asarray(skill.joint_velocities(joints[None], action)[0], dtype=np.float64)


def _check_following(commanded: "deque[tuple[float, Array, Array]]", reading: Reading, valid_for: float) -> None:
    """Stop an arm that does not move as it was told over the last second: commands get lost, or something else moves it."""
    while commanded and reading.robot_time - commanded[0][0] > FOLLOWING:
        commanded.popleft()
    if not commanded:
        return
    times = np.array([*(each for each, *_ in commanded), reading.robot_time])
    ways = np.minimum(np.diff(times), valid_for)[:, None] * np.stack([velocities for *_, velocities in commanded])  # (tick, J)
    missing = np.abs(reading.joints - commanded[0][1] - ways.sum(axis=0)) - 0.5 * np.abs(ways).sum(axis=0)
    if missing[worst := int(missing.argmax())] > FOLLOW_TOLERANCE:
        moved, wanted = reading.joints[worst] - commanded[0][1][worst], ways.sum(axis=0)[worst]
        raise StoppedError(f"the arm does not follow: joint {worst + 1} moved {moved:.3f} rad where {wanted:.3f} were commanded")
