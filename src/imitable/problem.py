"""Pose the problem: what the target can do, how far a replay may stray, and demonstrations stripped of where they came from."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from imitable.arrays import Array, Generator, Integers, one_thread
from imitable.demonstrations import Demonstrations, join
from imitable.errors import ImitableError, check_fields
from imitable.inverse_dynamics import InverseDynamics, InverseDynamicsFit, explore
from imitable.reinforcement import Episodes
from imitable.replay import Replay, replay
from imitable.simulators import Simulator

GLIMPSE = 100
"""Steps of a demonstration that show, well enough to choose what to rehearse, whether the target can follow."""


@dataclass(frozen=True)
class Settings:
    """The numbers of the method, for one task."""

    noise: float  # Delta s: how far a state may be off at every step and still count as followed
    sigma: float  # how much return one may fall short of the best from the same start
    radius: float = np.inf  # how near two starts must be to be compared, in `start_key` units
    exploration: int = 200  # random episodes of the target
    gentlest: float = 1.0
    """The smallest share of the action range that an exploring episode keeps to, held-out ones too; 1: all of it, as in the paper."""
    held_out: float = 0.2  # share of them that sets the tolerance, never used in fitting
    rehearsed: int = 0
    """How many demonstrations, the most promising, the target chases beforehand, so that f_id also learns from what it does where it
    will have to follow; 0: none, as in the paper."""
    fit: InverseDynamicsFit = field(default_factory=InverseDynamicsFit)

    def __post_init__(self) -> None:
        check_fields(
            self,
            ("noise", 0 <= self.noise < np.inf, "at least 0 and finite"),
            ("sigma", self.sigma > 0, "above 0"),
            ("radius", self.radius > 0, "above 0"),
            ("exploration", self.exploration >= 2, "at least 2"),
            ("held_out", 0 < self.held_out < 1, "between 0 and 1"),
            ("gentlest", 0 <= self.gentlest <= 1, "in [0, 1]"),
            ("rehearsed", self.rehearsed >= 0, "at least 0"),
        )


@dataclass(frozen=True)
class Tolerance:
    """Replay distances between which feasibility falls from 1 to 0."""

    closest: float  # d_min: the target's own trajectories, followed at best
    farthest: float  # d_max: the same, perturbed at every step, followed at worst


@dataclass(frozen=True)
class Problem:
    """Everything a score or a learner may see."""

    demonstrations: Demonstrations
    """Without source labels."""
    target: Simulator
    """What learners may step and observe; its reward is for measuring only."""
    settings: Settings
    inverse_dynamics: InverseDynamics
    replay: Replay
    tolerance: Tolerance
    own_distances: Array
    """(held-out trajectory,) F of the target's own random trajectories: what a perfect score looks like."""
    step_scale: Array
    """(observation,) standard deviation of what one random action of the target changes."""
    diverged: int = 0
    """How many simulations broke down and were ended, in exploration and replay."""


@one_thread()
def pose(
    demonstrations: Demonstrations,
    target: Simulator,
    *,
    settings: Settings,
    rng: Generator,
    watch: Callable[[float], None] = lambda share: None,
) -> Problem:
    """Explore the target, learn its inverse dynamics, and replay every demonstration on it; `watch` hears the share done."""
    check_width(demonstrations, target)
    exploring, fitting, perturbing = rng.spawn(3)
    kept_apart = max(1, round(settings.held_out * settings.exploration))
    held_out = explore(target, count=kept_apart, gentlest=settings.gentlest, rng=exploring)
    training = explore(target, count=max(1, settings.exploration - kept_apart), gentlest=settings.gentlest, rng=exploring)
    known, fits = training, 2 if settings.rehearsed else 1
    inverse_dynamics = settings.fit(training, target, rng=fitting, watch=lambda share: watch(0.9 * share / fits))
    anonymous = demonstrations.without_sources()
    if settings.rehearsed:
        known = together(training, rehearse(anonymous, target, inverse_dynamics, count=settings.rehearsed))
        inverse_dynamics = settings.fit(known, target, rng=fitting, watch=lambda share: watch(0.45 + 0.45 * share))
    own, perturbed = replays_of_own(held_out, target, inverse_dynamics, noise=settings.noise, rng=perturbing)
    replayed = replay(anonymous, target, inverse_dynamics)
    return Problem(
        demonstrations=anonymous,
        target=target,
        settings=settings,
        inverse_dynamics=inverse_dynamics,
        replay=replayed,
        tolerance=measure_tolerance(own, perturbed, noise=settings.noise),
        own_distances=own.distances,
        step_scale=step_scale(training),
        diverged=held_out.diverged + known.diverged + sum(int(each.diverged.sum()) for each in (own, perturbed, replayed)),
    )


def rehearse(demonstrations: Demonstrations, target: Simulator, inverse_dynamics: InverseDynamics, *, count: int) -> Episodes:
    """What the target does when it chases the `count` most promising demonstrations, whether it keeps up or not."""
    hopeless = ImitableError("the target's simulation broke down on every demonstration it rehearsed; leave out Settings.rehearsed")
    glimpse = replay(beginnings(demonstrations, steps=GLIMPSE), target, inverse_dynamics)
    chosen = most_promising(demonstrations.returns, glimpse.distances, count=count)
    if not len(chosen):
        raise hopeless
    promising = demonstrations.select(chosen)
    chased = replay(promising, target, inverse_dynamics)
    rows, whole = promising.transition_rows, ~chased.diverged
    if not whole.any():
        raise hopeless
    actions = inverse_dynamics(chased.states[rows], promising.states[rows + 1])
    reached = Demonstrations(chased.states, promising.lengths, np.zeros(len(promising)))
    return Episodes(reached.select(whole), actions[np.repeat(whole, promising.lengths)], int(chased.diverged.sum()))


def beginnings(demonstrations: Demonstrations, *, steps: int) -> Demonstrations:
    """The first steps of each demonstration, with the returns of the whole."""
    lengths = np.minimum(demonstrations.lengths, steps)
    since_start = np.arange(len(demonstrations.states)) - np.repeat(demonstrations.starts, demonstrations.lengths + 1)
    return Demonstrations(
        demonstrations.states[since_start <= np.repeat(lengths, demonstrations.lengths + 1)], lengths, demonstrations.returns
    )


def most_promising(returns: Array, distances: Array, *, count: int) -> Integers:
    """Up to `count` demonstrations: first those that no other one surpasses in both return and closeness, then those that only they do,
    and so on, of each layer the highest returns first. Of as many as make a few layers, the best that can be followed is one."""
    waiting, chosen = np.lexsort((distances, -returns)), np.empty(0, int)
    while len(chosen) < count and np.isfinite(distances[waiting]).any():
        nearest_of_better = np.minimum.accumulate(np.concatenate([[np.inf], distances[waiting][:-1]]))
        unsurpassed = distances[waiting] < nearest_of_better
        chosen, waiting = np.concatenate([chosen, waiting[unsurpassed]]), waiting[~unsurpassed]
    return chosen[:count]


def together(some: Episodes, others: Episodes) -> Episodes:
    return Episodes(
        join([some.trajectories, others.trajectories]), np.concatenate([some.actions, others.actions]), some.diverged + others.diverged
    )


def step_scale(exploration: Episodes) -> Array:
    """(observation,) standard deviation of one-step changes."""
    rows, states = exploration.trajectories.transition_rows, exploration.trajectories.states
    return np.asarray((states[rows + 1] - states[rows]).std(axis=0))


def replays_of_own(
    held_out: Episodes, target: Simulator, inverse_dynamics: InverseDynamics, *, noise: float, rng: Generator
) -> tuple[Replay, Replay]:
    """Replays of the target's own trajectories, plain and perturbed (eq. 7)."""
    plain = replay(held_out.trajectories, target, inverse_dynamics)
    return plain, replay(held_out.trajectories, target, inverse_dynamics, noise=noise, rng=rng)


def measure_tolerance(own: Replay, perturbed: Replay, *, noise: float) -> Tolerance:
    """d_min and d_max from these replays, of those that did not diverge."""
    for replays, where, way_out in (
        (own, "", "mend its step"),
        (perturbed, f" when states are moved by up to {noise:g}", "lower Settings.noise"),
    ):
        if replays.diverged.all():
            trials = f"each of the {len(replays.diverged)} replays of its own random episodes"
            raise ImitableError(f"the target's simulation broke down in {trials}{where}; {way_out}")
    closest, farthest = float(own.distances.min()), float(perturbed.distances[~perturbed.diverged].max())
    if not farthest - closest > 1e-12:
        raise ImitableError(
            f"the tolerance is empty: d_min {closest:.3g} is not below d_max {farthest:.3g} at noise {noise:g}; raise Settings.noise"
        )
    return Tolerance(closest, farthest)


def check_width(demonstrations: Demonstrations, target: Simulator, *, name: str = "demonstrations") -> None:
    """Demonstrations must have the target's observation columns."""
    if demonstrations.width != len(target.observed):
        raise ImitableError(
            f"{name} have {demonstrations.width} observation columns, but the target has {len(target.observed)} "
            f"({', '.join(target.observed)}); give states in the target's columns"
        )
