"""How well the robot follows windows of demonstrations, and of its own trajectories: how many, and how long they are.

Over a window of one step a body of other dynamics can often follow by chance, and noise hides the rest; over a whole demonstration an
underactuated robot loses even its own gait. A window is as long as the robot can follow its own trajectories, and as the budget of
simulated steps allows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from imitable.arrays import Array, Booleans, Generator, Integers, Progress, no_progress, part_of
from imitable.demonstrations import Demonstrations
from imitable.inverse_dynamics import InverseDynamics
from imitable.noise import noise_margin, noisy, restorable_rows
from imitable.replay import replay
from imitable.rollouts import Episodes, random_actions
from imitable.simulators import Simulator, advance
from imitable.windows import (
    FOLLOWED,
    GIVE_UP_DISTANCE,
    Windows,
    all_windows,
    disagreeing,
    draw_windows,
    follow_windows,
    join_windows,
    nearest_window,
    replace_windows,
    select_windows,
)

LENGTHS = (1, 2, 5, 10, 20)
"""Steps of a window, the longest that is possible being chosen."""
FOLLOWABLE = 0.9
"""Share of the robot's own windows that it must follow for a length to be possible."""
WINDOWS_PER_DEMO, NOISY_WINDOWS_PER_DEMO = 3, 8
"""Windows of each demonstration at first; twice as many where they disagree. More with noise, which their median evens out."""
OWN_WINDOWS = 64
GROUPS, NOISY_GROUPS = 32, 64
"""Demonstrations whose windows the robot retraces, for the tolerance."""
STEPS, STEPS_PER_DEMONSTRATION = 700_000, (700, 5_000)
"""Simulated steps that following the first windows may take, of all demonstrations and of each: at least, and at most."""
STEPS_IN_FULL = 500_000
"""Simulated steps up to which demonstrations that the robot can follow, at least in part, are then followed from beginning to end."""


def rollout_from(
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
    own_windows: Windows
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
    rounding: Array | float = 0.0,
    rng: Generator,
    confirm: Sequence[InverseDynamics] = (),
    progress: Progress = no_progress,
) -> Tracked:
    """Follow a few windows of every demonstration, and more where they disagree, beside windows of the robot's own."""
    choosing, drawing, perturbing = rng.spawn(3)

    def follow(
        given: Demonstrations,
        demos: Integers,
        length: int,
        restorable: Booleans,
        *,
        starts: Integers | None = None,
        doubted: float = np.inf,
        progress: Progress = no_progress,
    ) -> tuple[Windows, int]:
        if starts is None:
            starts = draw_windows(given, demos, length, restorable=restorable, rng=drawing)
        return follow_windows(
            given,
            demos,
            starts,
            length,
            robot=robot,
            inverse_dynamics=inverse_dynamics,
            scale=scale,
            confirm=confirm,
            doubted=doubted,
            give_up_distance=GIVE_UP_DISTANCE / 2 if confirm else GIVE_UP_DISTANCE + 3 * noise,
            lost_beyond=np.inf if noise else FOLLOWED,
            progress=progress,
        )

    def follow_again(windows: Windows, rows: Integers) -> Windows:
        """With these rows followed once more."""
        again, _ = follow(demonstrations, windows.demo[rows], length, restorable, starts=windows.start[rows])
        return replace_windows(windows, rows, again)

    observed = noisy(own.trajectories, noise, scale, perturbing, rounding=rounding)
    margin = noise_margin(noise, scale)
    restorable_own, restorable = (restorable_rows(each, robot, margin=margin) for each in (observed, demonstrations))
    per_demo = NOISY_WINDOWS_PER_DEMO if noise else WINDOWS_PER_DEMO
    budget = (1 + 3 * bool(noise)) * np.clip(STEPS / len(demonstrations), *STEPS_PER_DEMONSTRATION)
    length, cost, ours = 0, 0.0, None
    for longer in LENGTHS:
        too_long = longer > min(demonstrations.lengths.max(), observed.lengths.max())
        if ours is not None and (too_long or per_demo * longer * cost > budget):
            break
        windows, steps = follow(observed, np.arange(OWN_WINDOWS) % len(observed), longer, restorable_own)
        if ours is not None and np.quantile(windows.distances[windows.settled], FOLLOWABLE) > 0.5 * GIVE_UP_DISTANCE + 2 * noise:
            break
        length, cost, ours = longer, steps / (longer * len(windows)), windows
    assert ours is not None
    progress(0.1)

    shown, _ = follow(
        demonstrations,
        np.tile(np.arange(len(demonstrations)), per_demo),
        length,
        restorable,
        doubted=GIVE_UP_DISTANCE,  # at first, steps that are far off are not tried again
        progress=part_of(progress, 0.1, 0.6),
    )

    groups = NOISY_GROUPS if noise else GROUPS
    # States far from all that the robot follows, such as joints in degrees, do not show what is usual for it.
    usual = np.unique(shown.demo[shown.distances <= GIVE_UP_DISTANCE / 2 + 3 * noise])
    usual = usual if len(usual) else np.arange(len(demonstrations))
    demos = np.repeat(choosing.choice(usual, groups, replace=len(usual) < groups), per_demo)
    rows = demonstrations.starts[demos] + draw_windows(demonstrations, demos, length, restorable=restorable, rng=drawing)
    last = (demonstrations.starts + demonstrations.lengths)[demos]
    starts = robot.restore(demonstrations.observations[rows])

    def retrace(time: int, states: Array) -> Array:
        return inverse_dynamics(states, demonstrations.observations[np.minimum(rows + time + 1, last)]).actions

    mine = []
    for made in (rollout_from(robot, starts, length, rng=choosing), rollout_from(robot, starts, length, act=retrace)):
        task_like = noisy(made.trajectories, noise, scale, perturbing, rounding=rounding)
        mine.append(follow(task_like, np.arange(len(task_like)), length, restorable_rows(task_like, robot, margin=margin))[0])
    ours, retraced = (replace(each, demo=np.arange(len(each)) // per_demo) for each in (join_windows([ours, mine[0]]), mine[1]))
    progress(0.8)

    if not noise:
        near = max(FOLLOWED, *(conformal_quantile(each.distances[each.settled], 0.05) for each in (ours, retraced)))
        # Of a demonstration that is far off everywhere, the nearest window is tried again: the search may have failed in all of them.
        nearest = nearest_window(shown)
        shown = follow_again(shown, nearest[shown.distances[nearest] >= GIVE_UP_DISTANCE])
        shown = follow_again(shown, np.flatnonzero((shown.distances > near) & disagreeing(shown, near)[shown.demo]))
        unclear = np.flatnonzero(disagreeing(shown, near) & (demonstrations.lengths > length))
        more, _ = follow(demonstrations, np.tile(unclear, per_demo), length, restorable)
        shown = join_windows([shown, more])
        kept = np.flatnonzero(np.bincount(shown.demo, shown.distances <= near))
        if demonstrations.lengths[kept].sum() * cost <= STEPS_IN_FULL:  # a short part that is out of reach may be all that matters
            demos, starts_in_full = all_windows(demonstrations.lengths, kept, length)
            whole, _ = follow(demonstrations, demos, length, restorable, starts=starts_in_full, progress=part_of(progress, 0.85, 1.0))
            shown = join_windows([select_windows(shown, np.flatnonzero(~np.isin(shown.demo, kept))), whole])
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
    rounding: Array | float = 0.0,
    rng: Generator,
    progress: Progress = no_progress,
) -> Tracked:
    """`track` for a robot whose observations hide some of its state, which must be carried along: all windows, one after the other."""
    length = 5

    def cut(given: Demonstrations, *, progress: Progress = no_progress) -> Windows:
        made = replay(given, robot, inverse_dynamics, window=length, progress=progress)
        gaps = np.abs((made.observations - given.observations) / scale)[given.transition_rows + 1]
        since_start = np.arange(len(gaps)) - np.repeat(np.cumsum(given.lengths) - given.lengths, given.lengths)
        first = np.flatnonzero(since_start % length == 0)
        sizes = np.diff(np.append(first, len(gaps)))
        by_step = np.full((len(first), length), np.nan)
        by_step[np.repeat(np.arange(len(first)), sizes), since_start % length] = np.sqrt(np.square(gaps).mean(axis=1))
        distances = np.nansum(by_step, axis=1) / sizes
        demo = np.repeat(np.arange(len(given)), given.lengths)[first]
        distances = np.where(made.diverged[demo], np.inf, distances)
        middle = (robot.action_low + robot.action_high) / 2
        limits = np.add.reduceat((np.abs(made.actions - middle) >= 0.999 * (robot.action_high - middle)).astype(float), first)
        limiting = np.where(limits.any(axis=1), limits.argmax(axis=1), -1)
        return Windows(
            demo,
            since_start[first],
            distances,
            by_step,
            np.add.reduceat(gaps, first).argmax(axis=1),
            limiting,
            np.ones(len(first)),
            np.ones(len(first), dtype=bool),
        )

    mine = cut(noisy(own.trajectories, noise, scale, rng, rounding=rounding))
    progress(0.2)
    return Tracked(cut(demonstrations, progress=part_of(progress, 0.2, 1.0)), mine, mine, length, noise, 1.0)
