"""Choose windows, and compare tracking of demonstrations with tracking of the robot's own trajectories.

Over one step, robots with other dynamics can often follow by chance, and noise hides the rest; over a whole demonstration an
underactuated robot loses even its own gait. A window is as long as the robot can follow its own trajectories, and as the budget of
simulated steps allows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from imitable.arrays import Array, Generator, Integers, Progress, no_progress, part_of
from imitable.demonstrations import Demonstrations
from imitable.inverse_dynamics import InverseDynamics, InverseResult
from imitable.noise import noise_margin, noisy
from imitable.replay import replay
from imitable.restorability import restorable_rows
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
"""Steps of a window to choose from: the longest that is possible."""
FOLLOWABLE = 0.9
"""Share of the robot's own windows that it must follow for a length to be possible."""
WINDOWS_PER_DEMO, NOISY_WINDOWS_PER_DEMO = 3, 8
"""Windows of each demonstration at first; twice as many where they disagree. More with noise, which their median reduces."""
OWN_WINDOWS = 64
"""Windows of the robot's own trajectories that are tried at each length."""
GROUPS, NOISY_GROUPS = 32, 64
"""Demonstrations whose windows the robot retraces, which sets the tolerance."""
STEPS, STEPS_PER_DEMONSTRATION = 700_000, (700, 5_000)
"""Budget of simulated steps for the first windows: of all demonstrations together, and of each one at least and at most."""
STEPS_IN_FULL = 500_000
"""Budget of simulated steps for then tracking every step of the demonstrations that the robot can follow at least in part."""


def rollout_from(
    robot: Simulator, states: Array, length: int, *, rng: Generator | None = None, act: Callable[[int, Array], Array] | None = None
) -> Episodes:
    """Trajectories of the robot from these states (N, state), each of `length` steps: under random actions, or under `act(time, states)`.
    Terminations do not end them; those that diverge are left out."""
    if act is None:
        assert rng is not None, "random actions need a generator"
        draw = random_actions(robot, len(states), rng=rng, max_action_repeat=length)
        act = lambda *_: draw()  # noqa: E731
    observations, actions = [robot.observe(states)], []
    diverged = np.zeros(len(states), dtype=bool)
    for time in range(length):
        actions.append(act(time, states))
        states, diverging = advance(robot, states, actions[-1])
        diverged |= diverging
        observations.append(robot.observe(states))
    whole = ~diverged
    by_observation, by_action = np.stack(observations, axis=1)[whole], np.stack(actions, axis=1)[whole]
    trajectories = Demonstrations(by_observation.reshape(-1, by_observation.shape[2]), np.full(len(by_observation), length))
    return Episodes(trajectories, by_action.reshape(-1, by_action.shape[2]), int(diverged.sum()))


def hides_state(own: Episodes, robot: Simulator, scale: Array) -> bool:
    """Whether steps depend on more than observations show: from restored states, the robot's own actions lead elsewhere."""
    observations, rows = own.trajectories.observations, own.trajectories.transition_rows
    known = restorable_rows(own.trajectories, robot)[rows]
    if not known.any():
        return True
    rows = rows[known]
    reached = robot.observe(robot.step(robot.restore(observations[rows]), own.actions[known]))
    misses = np.sqrt(np.square((reached - observations[rows + 1]) / scale).mean(axis=1))
    return bool((misses > FOLLOWED).mean() > 0.25)


def conformal_quantile(values: Array, rate: float) -> float:
    """The value that another draw of the same distribution exceeds with at most probability `rate`; infinite if there are too few."""
    rank = int(np.ceil((len(values) + 1) * (1 - rate)))
    return float(np.sort(values)[rank - 1]) if rank <= len(values) else np.inf


@dataclass(frozen=True, eq=False)
class Tracked:
    """Windows of the demonstrations and of the robot's own trajectories, all tracked with the same settings."""

    demonstration_windows: Windows
    random_windows: Windows
    """Of random actions; `demo` numbers groups of as many windows as a demonstration has at first."""
    retraced_windows: Windows
    """Of what the robot did when it tracked windows of demonstrations, tracked once more; `demo` numbers groups that come from one
    demonstration. They resemble the demonstrations in states, contacts and saturated actuators, and the robot can do them."""
    length: int
    """Steps of a window."""
    noise: float
    """Standard deviation on the demonstrations' observations, in units of the robot's own one-step changes."""
    steps_per_transition: float
    """Simulated steps that tracking one step took, on own windows."""


@dataclass(frozen=True, eq=False)
class Follower:
    """Tracks windows of any trajectories on one robot, all with the same settings."""

    robot: Simulator
    inverse_dynamics: InverseDynamics
    scale: Array
    """(observation,) of the robot's own one-step changes."""
    noise: float = 0.0
    """Standard deviation on the observations that are tracked, in units of the scale."""
    retry_with: Sequence[InverseDynamics] = ()
    """Asked again about steps that are not reached; the robot is then reset at every step."""
    carry_with: InverseDynamics | None = None
    """Asked again about steps that are followed, but whose next observation does not determine the state to reset to."""

    @property
    def windows_per_demo(self) -> int:
        return NOISY_WINDOWS_PER_DEMO if self.noise else WINDOWS_PER_DEMO

    def follow(
        self,
        trajectories: Demonstrations,
        demos: Integers,
        length: int,
        *,
        starts: Integers,
        retry_below: float = np.inf,
        progress: Progress = no_progress,
    ) -> tuple[Windows, int]:
        """Windows of this length from these starts in these demonstrations; and the number of simulated steps."""
        return follow_windows(
            trajectories,
            demos,
            starts,
            length,
            robot=self.robot,
            inverse_dynamics=self.inverse_dynamics,
            scale=self.scale,
            retry_with=self.retry_with,
            carry_with=self.carry_with,
            retry_below=retry_below,
            give_up_distance=GIVE_UP_DISTANCE / 2 if self.retry_with else GIVE_UP_DISTANCE + 3 * self.noise,
            followed_within=np.inf if self.noise else FOLLOWED,
            progress=progress,
        )

    def draw_starts(self, trajectories: Demonstrations, demos: Integers, length: int, rng: Generator) -> Integers:
        """(N,) random starts of windows, where observations determine the state in spite of the noise if there are such."""
        restorable = restorable_rows(trajectories, self.robot, margin=noise_margin(self.noise, self.scale))
        return draw_windows(trajectories, demos, length, restorable=restorable, rng=rng)

    def follow_random(
        self,
        trajectories: Demonstrations,
        demos: Integers,
        length: int,
        *,
        rng: Generator,
        retry_below: float = np.inf,
        progress: Progress = no_progress,
    ) -> tuple[Windows, int]:
        """The same from random starts."""
        starts = self.draw_starts(trajectories, demos, length, rng)
        return self.follow(trajectories, demos, length, starts=starts, retry_below=retry_below, progress=progress)


def track(
    demonstrations: Demonstrations,
    own: Episodes,
    follower: Follower,
    *,
    observation_noise: float = 0.0,
    rounding: Array | float = 0.0,
    rng: Generator,
    progress: Progress = no_progress,
) -> Tracked:
    """Track a few windows of every demonstration, and more where they disagree, beside windows of the robot's own.

    Own trajectories get `observation_noise`, also where the follower, for which less is negligible, has none: contacts amplify it.
    """
    choosing, drawing, perturbing = rng.spawn(3)
    noise, per_demo = follower.noise, follower.windows_per_demo

    def as_observed(trajectories: Demonstrations) -> Demonstrations:
        return noisy(trajectories, max(noise, observation_noise), follower.scale, perturbing, rounding=rounding)

    length, cost, from_starts = choose_window_length(demonstrations, as_observed(own.trajectories), follower, rng=drawing)
    progress(0.1)
    shown, _ = follower.follow_random(
        demonstrations,
        np.tile(np.arange(len(demonstrations)), per_demo),
        length,
        rng=drawing,
        retry_below=GIVE_UP_DISTANCE,  # at first, steps that are far off are not tried again
        progress=part_of(progress, 0.1, 0.6),
    )
    made = own_trajectories(demonstrations, follower, shown, length, choosing=choosing, drawing=drawing)
    from_demonstrations, retraced = (
        follower.follow_random(each, np.arange(len(each)), length, rng=drawing)[0] for each in map(as_observed, made)
    )
    random, retraced = (
        replace(each, demo=np.arange(len(each)) // per_demo) for each in (join_windows([from_starts, from_demonstrations]), retraced)
    )
    progress(0.8)
    if not noise:
        near = max(FOLLOWED, *(conformal_quantile(each.distances[each.settled], 0.05) for each in (random, retraced)))
        shown = follow_disagreeing(demonstrations, follower, shown, length, near, rng=drawing)
        shown = follow_in_full(demonstrations, follower, shown, length, near, cost=cost, progress=part_of(progress, 0.85, 1.0))
    progress(1.0)
    return Tracked(shown, random, retraced, length, noise, cost)


def choose_window_length(
    demonstrations: Demonstrations, observed: Demonstrations, follower: Follower, *, rng: Generator
) -> tuple[int, float, Windows]:
    """The longest length at which the robot follows its own trajectories, as observed, within the budget; the simulated steps that
    tracking one step takes; and these windows."""
    noisy_factor = 1 + 3 * bool(follower.noise)
    budget = noisy_factor * np.clip(STEPS / len(demonstrations), *STEPS_PER_DEMONSTRATION)
    longest = min(demonstrations.lengths.max(), observed.lengths.max())
    limit = 0.5 * GIVE_UP_DISTANCE + 2 * follower.noise
    chosen: tuple[int, float, Windows] | None = None
    for length in LENGTHS:
        if chosen is not None and (length > longest or follower.windows_per_demo * length * chosen[1] > budget):
            break
        windows, steps = follower.follow_random(observed, np.arange(OWN_WINDOWS) % len(observed), length, rng=rng)
        if chosen is not None and np.quantile(windows.distances[windows.settled], FOLLOWABLE) > limit:
            break
        chosen = length, steps / (length * len(windows)), windows
    assert chosen is not None, "the first length is always taken"
    return chosen


def own_trajectories(
    demonstrations: Demonstrations, follower: Follower, shown: Windows, length: int, *, choosing: Generator, drawing: Generator
) -> tuple[Demonstrations, Demonstrations]:
    """What the robot does from demonstrated states: under random actions, and when it tracks the demonstrations from there."""
    robot, noise, per_demo = follower.robot, follower.noise, follower.windows_per_demo
    groups = NOISY_GROUPS if noise else GROUPS
    # States far from all that the robot follows, such as joints in degrees, do not show what is usual for it.
    usual = np.unique(shown.demo[shown.distances <= GIVE_UP_DISTANCE / 2 + 3 * noise])
    usual = usual if len(usual) else np.arange(len(demonstrations))
    demos = np.repeat(choosing.choice(usual, groups, replace=len(usual) < groups), per_demo)
    rows = demonstrations.starts[demos] + follower.draw_starts(demonstrations, demos, length, drawing)
    last = (demonstrations.starts + demonstrations.lengths)[demos]
    states = robot.restore(demonstrations.observations[rows])

    found: InverseResult | None = None

    def retrace(time: int, states: Array) -> Array:
        nonlocal found
        found = follower.inverse_dynamics(states, demonstrations.observations[np.minimum(rows + time + 1, last)], guess=found)
        return found.actions

    made = rollout_from(robot, states, length, rng=choosing), rollout_from(robot, states, length, act=retrace)
    return made[0].trajectories, made[1].trajectories


def follow_disagreeing(
    demonstrations: Demonstrations, follower: Follower, shown: Windows, length: int, near: float, *, rng: Generator
) -> Windows:
    """Track again what may have failed by chance, and more windows of demonstrations some of whose windows are `near` and some are not."""

    def follow_again(windows: Windows, rows: Integers) -> Windows:
        again, _ = follower.follow(demonstrations, windows.demo[rows], length, starts=windows.start[rows])
        return replace_windows(windows, rows, again)

    # Of a demonstration that is far off everywhere, the nearest window is tried again: the search may have failed in all of them.
    nearest = nearest_window(shown)
    shown = follow_again(shown, nearest[shown.distances[nearest] >= GIVE_UP_DISTANCE])
    shown = follow_again(shown, np.flatnonzero((shown.distances > near) & disagreeing(shown, near)[shown.demo]))
    unclear = np.flatnonzero(disagreeing(shown, near) & (demonstrations.lengths > length))
    more, _ = follower.follow_random(demonstrations, np.tile(unclear, follower.windows_per_demo), length, rng=rng)
    return join_windows([shown, more])


def follow_in_full(
    demonstrations: Demonstrations,
    follower: Follower,
    shown: Windows,
    length: int,
    near: float,
    *,
    cost: float,
    progress: Progress = no_progress,
) -> Windows:
    """Track every step of the demonstrations that have a window that is `near`, if the budget allows: a short part that is out of reach
    may be all that matters."""
    possible = np.flatnonzero(np.bincount(shown.demo, shown.distances <= near))
    if demonstrations.lengths[possible].sum() * cost > STEPS_IN_FULL:
        return shown
    demos, starts = all_windows(demonstrations.lengths, possible, length)
    whole, _ = follower.follow(demonstrations, demos, length, starts=starts, progress=progress)
    return join_windows([select_windows(shown, np.flatnonzero(~np.isin(shown.demo, possible))), whole])


REPLAY_LENGTH = 5
"""Steps of a window of a robot whose observations hide some of its state."""


def replay_windows(
    demonstrations: Demonstrations,
    own: Episodes,
    follower: Follower,
    *,
    observation_noise: float = 0.0,
    rounding: Array | float = 0.0,
    rng: Generator,
    progress: Progress = no_progress,
) -> Tracked:
    """`track` for a robot whose observations hide some of its state, which must be carried along: all windows, one after the other."""
    mine = cut_replay(noisy(own.trajectories, max(follower.noise, observation_noise), follower.scale, rng, rounding=rounding), follower)
    progress(0.2)
    shown = cut_replay(demonstrations, follower, progress=part_of(progress, 0.2, 1.0))
    return Tracked(shown, mine, mine, REPLAY_LENGTH, follower.noise, 1.0)


def cut_replay(given: Demonstrations, follower: Follower, *, progress: Progress = no_progress) -> Windows:
    """Replay whole trajectories, reset at every window's start, and cut what was measured into windows."""
    robot, length = follower.robot, REPLAY_LENGTH
    made = replay(given, robot, follower.inverse_dynamics, window=length, progress=progress)
    errors = np.abs((made.observations - given.observations) / follower.scale)[given.transition_rows + 1]
    since_start = np.arange(len(errors)) - np.repeat(given.transition_starts, given.lengths)
    first = np.flatnonzero(since_start % length == 0)
    sizes = np.diff(np.append(first, len(errors)))
    by_step = np.full((len(first), length), np.nan)
    by_step[np.repeat(np.arange(len(first)), sizes), since_start % length] = np.sqrt(np.square(errors).mean(axis=1))
    demo = np.repeat(np.arange(len(given)), given.lengths)[first]
    middle = (robot.action_low + robot.action_high) / 2
    saturated = np.abs(made.actions - middle) >= 0.999 * (robot.action_high - middle)
    saturation = np.add.reduceat(saturated.astype(float), first)
    return Windows(
        demo,
        since_start[first],
        distances=np.where(made.diverged[demo], np.inf, np.nansum(by_step, axis=1) / sizes),
        step_distances=by_step,
        worst_column=np.add.reduceat(errors, first).argmax(axis=1),
        limiting_actuator=np.where(saturation.any(axis=1), saturation.argmax(axis=1), -1),
        limit_factor=np.ones(len(first)),
        settled=np.ones(len(first), dtype=bool),
    )
