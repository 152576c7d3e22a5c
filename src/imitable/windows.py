"""Track short windows of trajectories on the robot and measure the tracking error."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from imitable.arrays import Array, Booleans, Generator, Integers, Progress, no_progress
from imitable.demonstrations import Demonstrations
from imitable.inverse_dynamics import NOT_SETTLED, InverseDynamics, InverseResult
from imitable.restorability import restorable_rows
from imitable.simulators import Simulator, advance

FOLLOWED = 0.05
"""Tracking error up to which a window counts as followed, in units of the robot's own one-step changes."""
GIVE_UP_DISTANCE = 1.0
"""Tracking error (beyond the noise) at which a window is abandoned; half of it when the robot is reset at every step."""
MAX_LOST_STEPS = 3
"""Unreachable steps after which a window is abandoned; each has been solved for several times."""
CLEARLY_LOST = 0.1
"""Tracking error beyond which no later step can bring a window back, so that none is solved for again."""
AGREEMENT = 0.01
"""Relative difference of the misses that two searches end at up to which they agree."""


@dataclass(frozen=True, eq=False)
class Windows:
    """Tracked windows."""

    demo: Integers
    """(window,) the demonstration each is from."""
    start: Integers
    """(window,) the step at which it begins."""
    distances: Array
    """(window,) tracking error: the largest over steps if the robot is reset at each, else the mean."""
    step_distances: Array
    """(window, step) root mean square error after each step, in units of the robot's own one-step changes; NaN: untried or not settled."""
    worst_column: Integers
    """(window,) observation column with the largest error."""
    limiting_actuator: Integers
    """(window,) actuator most often saturated before tracking failed; -1: none."""
    limit_factor: Array
    """(window,) factor by which the action limits would have to grow at the step where tracking failed, else at the worst step."""
    settled: Booleans
    """(window,) False if the verdict is unreliable: tracking failed at a step whose action was not settled, or fewer than half of the
    steps could be judged."""

    def __len__(self) -> int:
        return len(self.demo)


def join_windows(parts: Sequence[Windows]) -> Windows:
    return Windows(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(Windows)))


def select_windows(windows: Windows, chosen: Integers) -> Windows:
    return Windows(*(getattr(windows, each.name)[chosen] for each in fields(Windows)))


def replace_windows(windows: Windows, rows: Integers, again: Windows) -> Windows:
    """Put other windows in place of these rows."""
    return join_windows([select_windows(windows, np.setdiff1d(np.arange(len(windows)), rows)), again])


def nearest_window(windows: Windows) -> Integers:
    """(demo,) index of the window with the smallest error of each demonstration."""
    order = np.lexsort((windows.distances, windows.demo))
    return np.asarray(order[np.unique(windows.demo[order], return_index=True)[1]])


def worst_window(windows: Windows) -> Integers:
    """(demo,) index of the window with the largest error of each demonstration."""
    order = np.lexsort((windows.distances, windows.demo))
    return np.asarray(order[np.append(np.flatnonzero(np.diff(windows.demo[order])), len(order) - 1)])


def disagreeing(windows: Windows, near: float) -> Booleans:
    """(demo,) whether some windows of a demonstration are within this error, and some are not."""
    followed = np.bincount(windows.demo, windows.distances <= near)
    return np.asarray((followed > 0) & (followed < np.bincount(windows.demo)))


def draw_windows(demonstrations: Demonstrations, demos: Integers, length: int, *, restorable: Booleans, rng: Generator) -> Integers:
    """(N,) a random start of a window of this length in each of these demonstrations, at a restorable (row,) observation if there is one;
    0 in demonstrations that are shorter."""
    room = np.maximum(demonstrations.lengths[demos] - length, 0) + 1
    fraction = rng.random(len(demos))
    drawn, first = (fraction * room).astype(np.int64), demonstrations.starts[demos]
    for each in np.flatnonzero(~restorable[first + drawn]):
        if len(possible := np.flatnonzero(restorable[first[each] : first[each] + room[each]])):
            drawn[each] = possible[int(fraction[each] * len(possible))]
    return np.asarray(drawn)


def all_windows(lengths: Integers, demos: Integers, length: int) -> tuple[Integers, Integers]:
    """(N,) demonstrations and starts of consecutive windows that cover every step of these demonstrations."""
    counts = -(-lengths[demos] // length)
    of, position = np.repeat(demos, counts), np.concatenate([np.arange(count) for count in counts.tolist()] or [np.arange(0)])
    return of, np.asarray(np.minimum(position * length, np.maximum(lengths[of] - length, 0)))


@dataclass(eq=False)
class _Record:
    """What tracking has shown so far, one row per window."""

    followed_within: float
    reset_each_step: bool
    distances: Array
    """(window, step) NaN: not tried."""
    judged: Booleans
    """(window, step) whether the distance says something about the robot."""
    squared_errors: Array
    """(window, column) summed over steps."""
    largest: Array
    """(window,) distance while the robot was on track."""
    saturation: Array
    """(window, actuator) sum of the distances at which each was at a limit while the robot was on track."""
    limit_factor: Array
    lost_steps: Integers
    """(window,) judged steps farther off than `followed_within`."""
    clearly_lost: Booleans
    """(window,) whether one of them was farther off than `CLEARLY_LOST`."""

    @classmethod
    def empty(cls, windows: int, length: int, columns: int, actuators: int, *, followed_within: float, reset_each_step: bool) -> "_Record":
        return cls(
            followed_within,
            reset_each_step,
            distances=np.full((windows, length), np.nan),
            judged=np.zeros((windows, length), dtype=bool),
            squared_errors=np.zeros((windows, columns)),
            largest=np.zeros(windows),
            saturation=np.zeros((windows, actuators)),
            limit_factor=np.ones(windows),
            lost_steps=np.zeros(windows, dtype=np.int64),
            clearly_lost=np.zeros(windows, dtype=bool),
        )

    def add(self, time: Integers, active: Integers, found: InverseResult, squared_errors: Array, on_track: Booleans) -> Array:
        """Enter one step (active,) of the active windows; (active,) their distances."""
        now = np.asarray(np.sqrt(squared_errors.mean(axis=1)))
        # A step that is lost though its action is not settled says little, unless it is lost by far; nor does one after it.
        unclear = (now > self.followed_within) & (found.verdict == NOT_SETTLED) & (now < GIVE_UP_DISTANCE / 2)
        self.distances[active, time], self.judged[active, time] = now, on_track & ~unclear
        self.squared_errors[active] += np.where(np.isfinite(squared_errors), squared_errors, 1e12)
        self.saturation[active] += found.at_limit * np.where(on_track, now.clip(max=1e6), 0.0)[:, None]
        largest = self.largest[active]
        self.limit_factor[active] = np.where(on_track & (now > largest), found.limit_factor, self.limit_factor[active])
        self.largest[active] = np.where(on_track, np.maximum(largest, now), largest)
        return now

    def abandoned(self, time: Integers, active: Integers, now: Array, give_up_distance: float) -> Booleans:
        """(active,) which windows need not be tracked any further."""
        if not self.reset_each_step:
            return np.asarray(now > give_up_distance)
        judged = self.judged[active, time]
        self.lost_steps[active] += judged & (now > self.followed_within)
        self.clearly_lost[active] |= judged & (now > CLEARLY_LOST)
        return np.asarray((now > give_up_distance) & judged | (self.lost_steps[active] >= MAX_LOST_STEPS))

    def windows(self, demos: Integers, starts: Integers, lengths: Integers) -> Windows:
        if self.reset_each_step:
            distances, settled = _farthest(self.distances, self.judged, self.followed_within)
            by_step = np.where(self.judged, self.distances, np.nan)
        else:
            distances, settled = _mean_distances(self.distances, self.judged, lengths, self.followed_within)
            by_step = self.distances
        worst_column = self.squared_errors.argmax(axis=1)
        limiting_actuator = np.where(self.saturation.any(axis=1), self.saturation.argmax(axis=1), -1)
        return Windows(demos, starts, distances, by_step, worst_column, limiting_actuator, self.limit_factor, settled)


def follow_windows(
    demonstrations: Demonstrations,
    demos: Integers,
    starts: Integers,
    length: int,
    *,
    robot: Simulator,
    inverse_dynamics: InverseDynamics,
    scale: Array,
    retry_with: Sequence[InverseDynamics] = (),
    carry_with: InverseDynamics | None = None,
    retry_below: float = np.inf,
    give_up_distance: float = GIVE_UP_DISTANCE,
    followed_within: float = FOLLOWED,
    progress: Progress = no_progress,
) -> tuple[Windows, int]:
    """Track each window from its first state; the tracked windows, and the number of simulated steps.

    With `retry_with` the robot is reset to the demonstration before every step whose observation determines its state, so that each step
    is judged by itself, and a step that misses by more than `followed_within` and less than `retry_below` is solved again by each of
    these, unless the window is lost already. Where the state cannot be reset next, `carry_with` refines what is followed, as a verdict's
    tolerance would add up from step to step.
    """
    reset_each_step = len(retry_with) > 0
    rows = demonstrations.starts[demos] + starts
    lengths = np.minimum(demonstrations.lengths[demos], length)
    count, actuators, longest = len(demos), len(robot.action_low), int(lengths.max(initial=1))
    restorable = restorable_rows(demonstrations, robot)
    states = robot.restore(demonstrations.observations[rows])
    record = _Record.empty(count, length, demonstrations.width, actuators, followed_within=followed_within, reset_each_step=reset_each_step)
    time, steps, last = np.zeros(count, dtype=np.int64), 0, None
    following, on_track = np.ones((2, count), dtype=bool)
    waiting = np.zeros(count, dtype=bool)  # to be solved again, all together once nothing else is left: few at a time are slow

    while following.any() or waiting.any():
        again = not following.any()
        active = np.flatnonzero(waiting if again else following)
        wanted = demonstrations.observations[rows[active] + time[active] + 1]
        if again:
            assert last is not None
            found = _solved_again(last.select(active), states[active], wanted, retry_with, followed_within)
            waiting[active], following[active] = False, True
        else:
            if reset_each_step:
                known = active[restorable[rows[active] + time[active]]]
                on_track[active] &= time[active] > 0  # a window whose first state is not known cannot be judged before the first reset
                states[known], on_track[known] = robot.restore(demonstrations.observations[rows[known] + time[known]]), True
            found = inverse_dynamics(states[active], wanted, guess=None if last is None else last.select(active))
            next_rows = rows[active] + time[active] + 1
            carried = np.flatnonzero(~restorable[next_rows] & (found.miss <= followed_within)) if reset_each_step else np.empty(0, np.int64)
            if carry_with is not None and len(carried):
                refined = carry_with(states[active[carried]], wanted[carried], guess=found.select(carried))
                refined.steps[:] += found.steps[carried]
                found = found.put(carried, refined)
            last = found if last is None else last.put(active, found)
            doubtful = (found.miss > followed_within) & (found.miss < retry_below) & ~record.clearly_lost[active] & reset_each_step
            waiting[active[doubtful]], following[active[doubtful]] = True, False
            active, wanted, found = active[~doubtful], wanted[~doubtful], found.select(np.flatnonzero(~doubtful))
        states[active], diverged = advance(robot, states[active], found.actions)
        steps += int(found.steps.sum()) + len(active)
        squared_errors = np.square((robot.observe(states[active]) - wanted) / scale)
        squared_errors[diverged] = np.inf
        now = record.add(time[active], active, found, squared_errors, on_track[active])
        on_track[active] &= now <= followed_within  # from here on, actuator limits only say what it takes to get back
        abandoned = record.abandoned(time[active], active, now, give_up_distance)
        time[active] += 1
        following[active] = ~abandoned & (time[active] < lengths[active])
        progress(1.0 - float(np.where(following | waiting, longest - time, 0).mean()) / longest)
    return record.windows(demos, starts, lengths), steps


def _solved_again(
    found: InverseResult, states: Array, wanted: Array, retry_with: Sequence[InverseDynamics], followed_within: float
) -> InverseResult:
    """The nearest answers of all who are asked; two that end equally far off, and by far, have most likely found the minimum."""
    doubtful = np.arange(len(states))
    for retry in retry_with:
        if not len(doubtful):
            break
        before, again = found.miss[doubtful], retry(states[doubtful], wanted[doubtful])
        unlike = np.abs(again.miss - before) > AGREEMENT * before
        nearer = again.miss < before
        verdict, steps = again.verdict, found.steps[doubtful] + again.steps
        found = found.put(doubtful[nearer], again.select(np.flatnonzero(nearer)))
        found.verdict[doubtful], found.steps[doubtful] = verdict, steps
        miss = found.miss[doubtful]
        doubtful = doubtful[(miss > followed_within) & (unlike | (miss < GIVE_UP_DISTANCE / 2))]
    return found


def _mean_distances(distances: Array, judged: Booleans, lengths: Integers, followed_within: float) -> tuple[Array, Booleans]:
    """(window,) mean of (window, step) distances, the last one standing for all steps after a window was abandoned; and whether it was
    judged at the first step that was lost."""
    followed = np.isfinite(distances) | np.isinf(distances)
    last = distances[np.arange(len(lengths)), followed.sum(axis=1) - 1].clip(max=1e300)
    total = np.where(followed, distances, 0.0).sum(axis=1) + last * (lengths - followed.sum(axis=1))
    first_lost = np.where(followed, distances > followed_within, False)
    at = np.where(first_lost.any(axis=1), first_lost.argmax(axis=1), 0)
    return total / lengths, judged[np.arange(len(lengths)), at]


def _farthest(distances: Array, judged: Booleans, followed_within: float) -> tuple[Array, Booleans]:
    """(window,) largest distance of the judged steps; and whether one of them was lost, or at least half of the steps were judged."""
    farthest = np.where(judged, distances, 0.0).max(axis=1, initial=0.0)
    tried = (~np.isnan(distances)).sum(axis=1)
    return farthest, (farthest > followed_within) | (2 * judged.sum(axis=1) >= tried)
