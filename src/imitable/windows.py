"""Following short windows of trajectories on the robot: what it is put back on, how far it stays behind, and what it lacks."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from imitable.arrays import Array, Booleans, Generator, Integers, Progress, no_progress
from imitable.demonstrations import Demonstrations
from imitable.inverse_dynamics import NOT_SETTLED, InverseDynamics, InverseResult
from imitable.noise import restorable_rows
from imitable.simulators import Simulator, advance

FOLLOWED = 0.05
"""A mean distance up to which a window counts as followed, in units of the robot's own one-step changes."""
GIVE_UP_DISTANCE = 1.0
"""A distance, beyond the noise, after which following a window is given up, half of it where the robot is put back at every step: it is
far from any that counts as followed."""
MAX_LOST_STEPS = 3
"""Steps out of reach after which a window is given up, each being tried several times."""


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows that the robot tried to follow."""

    demo: Integers
    """(window,) the demonstration each is from."""
    start: Integers
    """(window,) the step at which it begins."""
    distances: Array
    """(window,) how far the robot is off: at the farthest step if it is put back at each, else in the mean over steps."""
    step_distances: Array
    """(window, step) root mean square distance after each step, in units of the robot's own one-step changes; NaN: not tried, or not
    settled."""
    worst_column: Integers
    """(window,) the observation column that was missed most."""
    limiting_actuator: Integers
    """(window,) the actuator that was at a limit most often until it was lost; -1: none was."""
    growth: Array
    """(window,) by what factor the action limits would have to grow, at the step where it was lost, else at its worst one."""
    settled: Booleans
    """(window,) False where it was lost, though not by far, at a step whose action was not settled, or where few steps could be judged and
    none of them was lost: that says little about the robot."""

    def __len__(self) -> int:
        return len(self.demo)


def join_windows(parts: Sequence[Windows]) -> Windows:
    return Windows(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(Windows)))


def select_windows(windows: Windows, chosen: Integers) -> Windows:
    return Windows(*(getattr(windows, each.name)[chosen] for each in fields(Windows)))


def replace_windows(windows: Windows, rows: Integers, again: Windows) -> Windows:
    """With other ones in place of these rows."""
    return join_windows([select_windows(windows, np.setdiff1d(np.arange(len(windows)), rows)), again])


def nearest_window(windows: Windows) -> Integers:
    """(demo,) the number of each demonstration's nearest window."""
    order = np.lexsort((windows.distances, windows.demo))
    return np.asarray(order[np.unique(windows.demo[order], return_index=True)[1]])


def worst_window(windows: Windows) -> Integers:
    """(demo,) the number of each demonstration's worst window."""
    order = np.lexsort((windows.distances, windows.demo))
    return np.asarray(order[np.append(np.flatnonzero(np.diff(windows.demo[order])), len(order) - 1)])


def disagreeing(windows: Windows, near: float) -> Booleans:
    """(demo,) whether some windows of a demonstration are followed within this distance, and some are not."""
    followed = np.bincount(windows.demo, windows.distances <= near)
    return np.asarray((followed > 0) & (followed < np.bincount(windows.demo)))


def draw_windows(demonstrations: Demonstrations, demos: Integers, length: int, *, restorable: Booleans, rng: Generator) -> Integers:
    """(N,) a random start of a window of this length in each of these demonstrations, if possible at a restorable (row,) observation;
    0 in shorter ones."""
    room = np.maximum(demonstrations.lengths[demos] - length, 0) + 1
    fraction = rng.random(len(demos))
    drawn, first = (fraction * room).astype(np.int64), demonstrations.starts[demos]
    for each in np.flatnonzero(~restorable[first + drawn]):
        if len(possible := np.flatnonzero(restorable[first[each] : first[each] + room[each]])):
            drawn[each] = possible[int(fraction[each] * len(possible))]
    return np.asarray(drawn)


def all_windows(lengths: Integers, demos: Integers, length: int) -> tuple[Integers, Integers]:
    """(N,) demonstrations and starts of windows, one after the other, that have every step of these demonstrations."""
    counts = -(-lengths[demos] // length)
    of, position = np.repeat(demos, counts), np.concatenate([np.arange(count) for count in counts.tolist()] or [np.arange(0)])
    return of, np.asarray(np.minimum(position * length, np.maximum(lengths[of] - length, 0)))


def follow_windows(
    demonstrations: Demonstrations,
    demos: Integers,
    starts: Integers,
    length: int,
    *,
    robot: Simulator,
    inverse_dynamics: InverseDynamics,
    scale: Array,
    confirm: Sequence[InverseDynamics] = (),
    doubted: float = np.inf,
    give_up_distance: float = GIVE_UP_DISTANCE,
    lost_beyond: float = FOLLOWED,
    progress: Progress = no_progress,
) -> tuple[Windows, int]:
    """Restore the robot to the beginning of each window and let it follow; and the simulated steps that this took.

    With `confirm` it is put back before every step whose observation determines its state, so that each step is judged by itself, and
    what is not reached, and by less than `doubted`, is tried once more by each of these.
    """
    put_back = len(confirm) > 0
    rows = demonstrations.starts[demos] + starts
    lengths = np.minimum(demonstrations.lengths[demos], length)
    count, longest = len(demos), int(lengths.max(initial=1))
    restorable = restorable_rows(demonstrations, robot)
    states = robot.restore(demonstrations.observations[rows])
    guess, steps = np.zeros((count, len(robot.action_low))) + (robot.action_low + robot.action_high) / 2, 0
    distances, judged = np.full((count, length), np.nan), np.zeros((count, length), dtype=bool)
    by_column, worst = np.zeros((count, demonstrations.width)), np.zeros(count)
    limits, growth = np.zeros((count, len(robot.action_low))), np.ones(count)
    following, on_track = np.ones((2, count), dtype=bool)
    bad = np.zeros(count, dtype=np.int64)
    for time in range(longest):
        following &= time < lengths
        active = np.flatnonzero(following)
        if not len(active):
            break
        if put_back:
            known = active[restorable[rows[active] + time]]
            on_track &= time > 0  # where it could not be put, nothing can be judged
            states[known], on_track[known] = robot.restore(demonstrations.observations[rows[known] + time]), True
        wanted = demonstrations.observations[rows[active] + time + 1]
        found = inverse_dynamics(states[active], wanted, guess=guess[active])
        for more_patient in confirm:
            if len(again := np.flatnonzero((found.miss > lost_beyond) & (found.miss < doubted))):
                found = _nearer(found, more_patient(states[active[again]], wanted[again]), again)
        states[active], broken = advance(robot, states[active], found.actions)
        guess[active], steps = found.actions, steps + int(found.steps.sum()) + len(active)
        gaps = np.square((robot.observe(states[active]) - wanted) / scale)
        gaps[broken] = np.inf
        now = np.sqrt(gaps.mean(axis=1))
        # A step that is lost though its action is not settled says little, unless it is lost by far; nor does one after it.
        unclear = (now > lost_beyond) & (found.verdict == NOT_SETTLED) & (now < GIVE_UP_DISTANCE / 2)
        distances[active, time], judged[active, time] = now, on_track[active] & ~unclear
        by_column[active] += np.where(np.isfinite(gaps), gaps, 1e12)
        limits[active] += found.at_limit * np.where(on_track[active], now.clip(max=1e6), 0.0)[:, None]
        growth[active] = np.where(on_track[active] & (now > worst[active]), found.growth, growth[active])
        worst[active] = np.where(on_track[active], np.maximum(worst[active], now), worst[active])
        on_track[active] &= now <= lost_beyond  # from here on, what the robot lacks is to get back
        if put_back:
            bad[active] += judged[active, time] & (now > lost_beyond)
            given_up = (now > give_up_distance) & judged[active, time] | (bad[active] >= MAX_LOST_STEPS)
        else:
            given_up = now > give_up_distance
        following[active[given_up]] = False
        progress((time + 1) / longest)
    limiting = np.where(limits.any(axis=1), limits.argmax(axis=1), -1)
    if put_back:
        summed, settled = _farthest(distances, judged, lost_beyond)
    else:
        summed, settled = _mean_distances(distances, judged, lengths, lost_beyond)
    by_step = np.where(judged, distances, np.nan) if put_back else distances
    return Windows(demos, starts, summed, by_step, by_column.argmax(axis=1), limiting, growth, settled), steps


def _nearer(found: InverseResult, again: InverseResult, rows: Integers) -> InverseResult:
    """With those of the second answers, to these rows of the first, that are nearer; the verdicts are the second ones."""
    nearer = again.miss < found.miss[rows]
    updated = {each.name: np.array(getattr(found, each.name)) for each in fields(InverseResult)}
    for name, values in updated.items():
        values[rows[nearer]] = getattr(again, name)[nearer]
    updated["verdict"][rows] = again.verdict
    updated["steps"][rows] = found.steps[rows] + again.steps
    return InverseResult(**updated)


def _mean_distances(distances: Array, judged: Booleans, lengths: Integers, lost_beyond: float) -> tuple[Array, Booleans]:
    """(window,) mean of (window, step) distances, those after a window was given up being at least as large as the last; and whether
    none was lost at an unclear step."""
    followed = np.isfinite(distances) | np.isinf(distances)
    last = distances[np.arange(len(lengths)), followed.sum(axis=1) - 1].clip(max=1e300)
    total = np.where(followed, distances, 0.0).sum(axis=1) + last * (lengths - followed.sum(axis=1))
    first_lost = np.where(followed, distances > lost_beyond, False)
    at = np.where(first_lost.any(axis=1), first_lost.argmax(axis=1), 0)
    return total / lengths, judged[np.arange(len(lengths)), at]


def _farthest(distances: Array, judged: Booleans, lost_beyond: float) -> tuple[Array, Booleans]:
    """(window,) the farthest of the steps judged; and whether one of them was lost, or at least half of those tried were judged."""
    farthest = np.where(judged, distances, 0.0).max(axis=1, initial=0.0)
    tried = (~np.isnan(distances)).sum(axis=1)
    return farthest, (farthest > lost_beyond) | (2 * judged.sum(axis=1) >= tried)
