"""How well the robot follows short windows of demonstrations, and of its own trajectories: what it is put back on, and for how long.

Over a window of one step a body of other dynamics can often follow by chance, and noise hides the rest; over a whole demonstration an
underactuated robot loses even its own gait. A window is as long as the robot can follow its own trajectories, and as the budget of
simulated steps allows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from imitable.arrays import Array, Booleans, Generator, Integers, Progress, no_progress
from imitable.demonstrations import Demonstrations
from imitable.inverse_dynamics import NOT_SETTLED, InverseDynamics
from imitable.noise import noisy, restorable_rows
from imitable.replay import replay
from imitable.rollouts import Episodes, random_actions
from imitable.simulators import Simulator, advance

FOLLOWED = 0.05
"""A mean distance up to which a window counts as followed, in units of the robot's own one-step changes."""
HOPELESS = 1.0
"""A distance, beyond the noise, after which following a window is given up: it is far from any that counts as followed."""


LENGTHS, NOISY_LENGTHS = (1, 2, 5, 10), (1, 2, 5, 10, 20)
"""Steps of a window, the longest that is possible being chosen."""
FOLLOWABLE = 0.9
"""Share of the robot's own windows that it must follow for a length to be possible."""
FEWEST, NOISY_FEWEST = 3, 8
"""Windows of each demonstration at first; twice as many where they disagree. More with noise, which their mean evens out."""
OWN_WINDOWS = 64
GROUPS, NOISY_GROUPS = 32, 64
"""Demonstrations whose windows the robot retraces, for the tolerance."""
TRIES = 20
"""Starts drawn for a window, to find one at an observation that determines the state."""
STEPS_PER_DEMONSTRATION = 700
"""Simulated steps that following the first windows of a demonstration may take."""


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows that the robot tried to follow."""

    demo: Integers
    """(window,) the demonstration each is from."""
    start: Integers
    """(window,) the step at which it begins."""
    distances: Array
    """(window,) mean over its steps of the root mean square distance, in units of the robot's own one-step changes."""
    worst_column: Integers
    """(window,) the observation column that was missed most."""
    limiting_actuator: Integers
    """(window,) the actuator that was at a limit most often until it was lost; -1: none was."""
    growth: Array
    """(window,) by what factor the action limits would have to grow, at the step where it was lost, else at its worst one."""
    settled: Booleans
    """(window,) False where it was lost, though not by far, at a step whose action was not settled: that says little about the robot."""

    def __len__(self) -> int:
        return len(self.demo)


def join_windows(parts: Sequence[Windows]) -> Windows:
    return Windows(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(Windows)))


def draw_windows(demonstrations: Demonstrations, demos: Integers, length: int, *, restorable: Booleans, rng: Generator) -> Integers:
    """(N,) a random start of a window of this length in each of these demonstrations, if possible at a restorable (row,) observation;
    0 in shorter ones."""
    room = np.maximum(demonstrations.lengths[demos] - length, 0) + 1
    drawn = (rng.random((TRIES, len(demos))) * room).astype(np.int64)
    good = restorable[demonstrations.starts[demos] + drawn]
    return np.asarray(drawn[good.argmax(axis=0), np.arange(len(demos))])


def follow_windows(
    demonstrations: Demonstrations,
    demos: Integers,
    starts: Integers,
    length: int,
    *,
    robot: Simulator,
    inverse_dynamics: InverseDynamics,
    scale: Array,
    hopeless: float = HOPELESS,
    lost_beyond: float = FOLLOWED,
    progress: Progress = no_progress,
) -> tuple[Windows, int]:
    """Restore the robot to the beginning of each window and let it follow; and the simulated steps that this took."""
    rows = demonstrations.starts[demos] + starts
    lengths = np.minimum(demonstrations.lengths[demos], length)
    count, width = len(demos), demonstrations.width
    states = robot.restore(demonstrations.observations[rows])
    guess, steps = np.zeros((count, len(robot.action_low))) + (robot.action_low + robot.action_high) / 2, 0
    total, by_column, worst = np.zeros(count), np.zeros((count, width)), np.zeros(count)
    limits, growth = np.zeros((count, len(robot.action_low))), np.ones(count)
    chasing, settled = np.ones((2, count), dtype=bool)
    for time in range(int(lengths.max(initial=0))):
        chasing &= time < lengths
        active = np.flatnonzero(chasing)
        if not len(active):
            break
        wanted = demonstrations.observations[rows[active] + time + 1]
        found = inverse_dynamics(states[active], wanted, guess=guess[active])
        states[active], broken = advance(robot, states[active], found.actions)
        guess[active], steps = found.actions, steps + int(found.steps.sum()) + len(active)
        gaps = np.square((robot.observe(states[active]) - wanted) / scale)
        gaps[broken] = np.inf
        distances = np.sqrt(gaps.mean(axis=1))
        total[active] += distances
        by_column[active] += np.where(np.isfinite(gaps), gaps, 1e12)
        on_track = worst[active] <= lost_beyond  # until now; later on, what it lacks is to get back
        limits[active] += found.at_limit * np.where(on_track, distances.clip(max=1e6), 0.0)[:, None]
        growth[active] = np.where(on_track & (distances > worst[active]), found.growth, growth[active])
        lost_now = on_track & (distances > lost_beyond)
        settled[active] &= ~(lost_now & (found.verdict == NOT_SETTLED) & (distances < HOPELESS / 2))
        worst[active] = np.maximum(worst[active], distances)
        lost = active[distances > hopeless]
        total[lost] += distances[distances > hopeless].clip(max=1e300) * (lengths[lost] - time - 1)  # it would stay at least as far behind
        chasing[lost] = False
        progress((time + 1) / lengths.max())
    limiting = np.where(limits.any(axis=1), limits.argmax(axis=1), -1)
    return Windows(demos, starts, total / lengths, by_column.argmax(axis=1), limiting, growth, settled), steps


def own_windows(
    robot: Simulator, states: Array, length: int, *, rng: Generator | None = None, act: Callable[[int, Array], Array] | None = None
) -> Episodes:
    """What the robot itself does from these states (N, state), for `length` steps: under random actions, or under those that `act`
    gives for a time and states. Terminations do not end it; what diverges is left out."""
    if act is None:
        assert rng is not None, "random actions need a generator"
        draw = random_actions(robot, len(states), rng=rng, longest_hold=length)
        act = lambda *_: draw()  # noqa: E731
    observations, actions = [robot.observe(states)], []
    broken = np.zeros(len(states), dtype=bool)
    for time in range(length):
        actions.append(act(time, states))
        states, diverged = advance(robot, states, actions[-1])
        broken |= diverged
        observations.append(robot.observe(states))
    whole = ~broken
    seen, done = np.stack(observations, axis=1)[whole], np.stack(actions, axis=1)[whole]
    trajectories = Demonstrations(seen.reshape(-1, seen.shape[2]), np.full(len(seen), length))
    return Episodes(trajectories, done.reshape(-1, done.shape[2]), int(broken.sum()))


def hides_state(own: Episodes, robot: Simulator, scale: Array) -> bool:
    """Whether steps depend on more than observations show: from restored states the robot's own actions do not lead where they led."""
    observations, rows = own.trajectories.observations, own.trajectories.transition_rows
    known = restorable_rows(own.trajectories, robot)[rows]
    if not known.any():
        return True
    rows = rows[known]
    reached = robot.observe(robot.step(robot.restore(observations[rows]), own.actions[known]))
    misses = np.sqrt(np.square((reached - observations[rows + 1]) / scale).mean(axis=1))
    return bool((misses > FOLLOWED).mean() > 0.25)


def conformal_quantile(values: Array, rate: float) -> float:
    """The value that a new one of the same kind exceeds with at most probability `rate`; infinite if there are too few values."""
    rank = int(np.ceil((len(values) + 1) * (1 - rate)))
    return float(np.sort(values)[rank - 1]) if rank <= len(values) else np.inf


@dataclass(frozen=True, eq=False)
class Tracked:
    """Windows of the demonstrations and of the robot's own trajectories, all followed alike."""

    shown: Windows
    own: Windows
    """Of random actions; numbered by groups of as many windows as a demonstration has at first."""
    retraced: Windows
    """Of what the robot did when it followed windows of demonstrations, followed once more; numbered by groups that come from one
    demonstration. They resemble the demonstrations in states, contacts and saturated actuators, and the robot can do them."""
    length: int
    """Steps of a window."""
    noise: float
    """Standard deviation on the demonstrations' observations, in units of the robot's own one-step changes."""
    steps_per_transition: float
    """Simulated steps that following one step took, on own windows."""


def track(
    demonstrations: Demonstrations,
    robot: Simulator,
    inverse_dynamics: InverseDynamics,
    own: Episodes,
    *,
    scale: Array,
    noise: float,
    rng: Generator,
    progress: Progress = no_progress,
) -> Tracked:
    """Follow a few windows of every demonstration, and more where they disagree, beside windows of the robot's own."""
    choosing, drawing, perturbing = rng.spawn(3)
    settings = {
        "robot": robot,
        "inverse_dynamics": inverse_dynamics,
        "scale": scale,
        "hopeless": HOPELESS + 3 * noise,
        "lost_beyond": np.inf if noise else FOLLOWED,
    }

    def follow(given: Demonstrations, demos: Integers, length: int, restorable: Booleans, **more: Progress) -> tuple[Windows, int]:
        starts = draw_windows(given, demos, length, restorable=restorable, rng=drawing)
        return follow_windows(given, demos, starts, length, **settings, **more)  # type: ignore[arg-type]

    observed = noisy(own.trajectories, noise, scale, perturbing)
    restorable_own, restorable = (restorable_rows(each, robot) for each in (observed, demonstrations))
    lengths, fewest = (NOISY_LENGTHS, NOISY_FEWEST) if noise else (LENGTHS, FEWEST)
    length, cost, ours = 0, 0.0, None
    for longer in lengths:
        too_long = longer > min(demonstrations.lengths.max(), observed.lengths.max())
        if ours is not None and (too_long or fewest * longer * cost > (1 + 3 * bool(noise)) * STEPS_PER_DEMONSTRATION):
            break
        windows, steps = follow(observed, np.arange(OWN_WINDOWS) % len(observed), longer, restorable_own)
        if ours is not None and np.quantile(windows.distances[windows.settled], FOLLOWABLE) > 0.5 * HOPELESS + 2 * noise:
            break
        length, cost, ours = longer, steps / (longer * len(windows)), windows
    assert ours is not None
    progress(0.1)

    groups = NOISY_GROUPS if noise else GROUPS
    demos = np.repeat(choosing.choice(len(demonstrations), groups, replace=len(demonstrations) < groups), fewest)
    rows = demonstrations.starts[demos] + draw_windows(demonstrations, demos, length, restorable=restorable, rng=drawing)
    last = (demonstrations.starts + demonstrations.lengths)[demos]
    starts = robot.restore(demonstrations.observations[rows])

    def retrace(time: int, states: Array) -> Array:
        return inverse_dynamics(states, demonstrations.observations[np.minimum(rows + time + 1, last)]).actions

    mine = []
    for made in (own_windows(robot, starts, length, rng=choosing), own_windows(robot, starts, length, act=retrace)):
        task_like = noisy(made.trajectories, noise, scale, perturbing)
        mine.append(follow(task_like, np.arange(len(task_like)), length, restorable_rows(task_like, robot))[0])
    ours, retraced = (replace(each, demo=np.arange(len(each)) // fewest) for each in (join_windows([ours, mine[0]]), mine[1]))
    progress(0.3)

    everyone = np.arange(len(demonstrations))
    shown, _ = follow(
        demonstrations, np.tile(everyone, fewest), length, restorable, progress=lambda fraction: progress(0.3 + 0.5 * fraction)
    )
    near = max(conformal_quantile(each.distances[each.settled], 0.05) for each in (ours, retraced))
    followed = np.bincount(shown.demo, shown.distances <= max(near, FOLLOWED), len(demonstrations))
    unclear = np.flatnonzero((followed > 0) & (followed < fewest) & (demonstrations.lengths > length))
    if len(unclear) and not noise:
        more, _ = follow(demonstrations, np.tile(unclear, fewest), length, restorable)
        shown = join_windows([shown, more])
    progress(1.0)
    return Tracked(shown, ours, retraced, length, noise, cost)


def replay_windows(
    demonstrations: Demonstrations,
    robot: Simulator,
    inverse_dynamics: InverseDynamics,
    own: Episodes,
    *,
    scale: Array,
    noise: float,
    rng: Generator,
    progress: Progress = no_progress,
) -> Tracked:
    """`track` for a robot whose observations hide some of its state, which must be carried along: all windows, one after the other."""
    length = 5

    def cut(given: Demonstrations, **more: Progress) -> Windows:
        made = replay(given, robot, inverse_dynamics, window=length, **more)  # type: ignore[arg-type]
        gaps = np.abs((made.observations - given.observations) / scale)[given.transition_rows + 1]
        since_start = np.arange(len(gaps)) - np.repeat(np.cumsum(given.lengths) - given.lengths, given.lengths)
        first = np.flatnonzero(since_start % length == 0)
        sizes = np.diff(np.append(first, len(gaps)))
        distances = np.add.reduceat(np.sqrt(np.square(gaps).mean(axis=1)), first) / sizes
        demo = np.repeat(np.arange(len(given)), given.lengths)[first]
        distances = np.where(made.diverged[demo], np.inf, distances)
        middle = (robot.action_low + robot.action_high) / 2
        limits = np.add.reduceat((np.abs(made.actions - middle) >= 0.999 * (robot.action_high - middle)).astype(float), first)
        limiting = np.where(limits.any(axis=1), limits.argmax(axis=1), -1)
        return Windows(
            demo,
            since_start[first],
            distances,
            np.add.reduceat(gaps, first).argmax(axis=1),
            limiting,
            np.ones(len(first)),
            np.ones(len(first), dtype=bool),
        )

    mine = cut(noisy(own.trajectories, noise, scale, rng))
    progress(0.2)
    return Tracked(cut(demonstrations, progress=lambda fraction: progress(0.2 + 0.8 * fraction)), mine, mine, length, noise, 1.0)
