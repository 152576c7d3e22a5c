"""Following windows: who is followed, the noise of data, hidden state, and quantiles with a promise."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import turntable
from cart import CART, STRONG, Cart, Clipped, Edge, both, pushes
from imitable.arrays import Array, Booleans
from imitable.assessment import Assessment, Exploration, assess
from imitable.demonstrations import Demonstrations, join
from imitable.inverse_dynamics import InverseResult, Solved, step_scale
from imitable.noise import noise_margin, noisy
from imitable.paper import driving
from imitable.paper.run import collected
from imitable.paper.tasks import find_task
from imitable.restorability import restorable_rows
from imitable.rollouts import Episodes
from imitable.simulators import Simulator
from imitable.tracking import (
    GROUPS,
    LENGTHS,
    NOISY_WINDOWS_PER_DEMO,
    OWN_WINDOWS,
    WINDOWS_PER_DEMO,
    Follower,
    Tracked,
    conformal_quantile,
    hides_state,
    rollout_from,
    track,
)
from imitable.windows import FOLLOWED, Windows, all_windows


def explored(robot: Simulator, *, count: int = 30, steps: int = 60, seed: int = 0) -> Episodes:
    rng = np.random.default_rng(seed)
    return rollout_from(robot, robot.initial_states(count, rng), steps, rng=rng)


OWN = explored(CART)
SCALE = step_scale(OWN)
INVERSE = Solved().for_tracking(0.0).fit(OWN, CART, rng=np.random.default_rng(0))


def tracked(given: Demonstrations, *, noise: float = 0.0, seed: int = 0, robot: Simulator = CART, **more: Any) -> Tracked:
    inverse = more.pop("inverse_dynamics", Solved().for_tracking(noise).restored(INVERSE.arrays(), CART))
    follower = Follower(robot, inverse, SCALE, noise, more.pop("retry_with", ()))
    return track(given, OWN, follower, rng=np.random.default_rng(seed), **more)


@dataclass(frozen=True)
class Limited:
    """The cart's inverse, but it knows nothing of states beyond some distance, and each answer takes so many steps."""

    sight: float = np.inf
    steps: int = 1

    def __call__(self, states: Array, next_observations: Array, *, guess: InverseResult | None = None) -> InverseResult:
        found = INVERSE(states, next_observations, guess=guess)
        seen = (np.abs(states) < self.sight).all(axis=1, keepdims=True)
        return replace(found, actions=np.where(seen, found.actions, 0.0), steps=np.full(len(states), self.steps))

    def arrays(self) -> dict[str, Array]:
        return INVERSE.arrays()


def same(one: Windows, other: Windows) -> bool:
    pairs = ((getattr(one, each.name), getattr(other, each.name)) for each in fields(Windows))
    return all(np.array_equal(mine, yours, equal_nan=mine.dtype.kind == "f") for mine, yours in pairs)


# The robot's own trajectories


def test_own_windows_are_what_random_actions_do_and_terminations_do_not_end_them() -> None:
    @dataclass(frozen=True)
    class Ending(Cart):
        def terminated(self, states: Array) -> Booleans:
            return np.ones(len(states), dtype=bool)

    own = explored(Ending(), count=6, steps=9)
    assert own.trajectories.lengths.tolist() == [9] * 6
    rows, observations = own.trajectories.transition_rows, own.trajectories.observations
    assert CART.step(observations[rows], own.actions) == pytest.approx(observations[rows + 1])
    assert (np.abs(own.actions) <= 1).all()
    assert len(np.unique(own.actions)) > 50


def test_own_windows_that_break_down_are_left_out_and_counted() -> None:
    robot = Edge(edge=0.0)
    states = np.array([[-5.0, 0, 0, 0], [-0.01, 0, 1.0, 0], [-6.0, 0, 0, 0]])
    own = rollout_from(robot, states, 5, rng=np.random.default_rng(0))
    assert own.diverged == 1
    assert own.trajectories.start_observations.tolist() == states[[0, 2]].tolist()
    assert len(own.actions) == 10


def test_hidden_state_is_found_out() -> None:
    assert not hides_state(OWN, CART, SCALE)
    for robot in (driving.SLOW, driving.FAST):
        own = explored(robot)
        assert hides_state(own, robot, step_scale(own))


def test_a_car_whose_controller_is_shown_hides_nothing() -> None:
    @dataclass(frozen=True)
    class Open(driving.Driving):
        def observe(self, states: Array) -> Array:
            return states.copy()

        def restore(self, observations: Array, like: Array | None = None) -> Array:
            return observations.copy()

    own = explored(Open(speed=3.0))
    assert not hides_state(own, Open(speed=3.0), np.maximum(step_scale(own), 1e-6))


# Quantiles


def brute_force_quantile(values: list[float], rate: float) -> float:
    """The smallest of the values, or else infinity, that at least a share 1 - rate of the values and one more, unknown, is not above."""
    enough = [each for each in values if sum(other <= each for other in values) >= (1 - rate) * (len(values) + 1)]
    return min(enough, default=np.inf)


@given(st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=40), st.integers(1, 63).map(lambda part: part / 64))
def test_the_conformal_quantile_equals_brute_force(values: list[float], rate: float) -> None:
    assert conformal_quantile(np.array(values), rate) == brute_force_quantile(values, rate)


def test_too_few_values_promise_nothing() -> None:
    assert conformal_quantile(np.arange(18.0), 0.05) == np.inf
    assert conformal_quantile(np.arange(19.0), 0.05) == 18.0


@pytest.mark.parametrize("rate", [0.05, 0.25])
def test_a_new_value_exceeds_the_conformal_quantile_as_often_as_promised(rate: float) -> None:
    rng, trials, count = np.random.default_rng(0), 4000, 59
    limits = np.array([conformal_quantile(values, rate) for values in rng.exponential(size=(trials, count))])
    exceeded = (rng.exponential(size=trials) > limits).mean()
    error = 3 * np.sqrt(rate * (1 - rate) / trials)
    assert rate - 1 / (count + 1) - error < exceeded < rate + error


# All together


def test_tracking_takes_few_windows_and_more_where_they_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("imitable.tracking.STEPS_IN_FULL", 0)
    strengths = np.repeat([1.0, 3.0], 30)  # the second half is impossible
    given = join([pushes(10, seed=0), pushes(10, seed=1, strengths=3.0), pushes(10, seed=2, strengths=strengths)])
    found = tracked(given)
    counts = np.bincount(found.demonstration_windows.demo, minlength=30)
    assert (counts[:20] == WINDOWS_PER_DEMO).all()
    assert set(counts[20:].tolist()) == {WINDOWS_PER_DEMO, 2 * WINDOWS_PER_DEMO}
    assert found.length > 1, "the cart follows its own trajectories as long as one likes"
    assert ((found.demonstration_windows.start >= 0) & (found.demonstration_windows.start + found.length <= 60)).all()
    early = found.demonstration_windows.start + found.length <= 30
    assert (found.demonstration_windows.distances[early & (found.demonstration_windows.demo >= 20)] < FOLLOWED).all()
    assert found.random_windows.distances.max() < FOLLOWED
    assert len(found.random_windows) == OWN_WINDOWS + GROUPS * WINDOWS_PER_DEMO
    assert len(found.retraced_windows) == GROUPS * WINDOWS_PER_DEMO
    assert found.retraced_windows.distances.max() < FOLLOWED, "the robot can do what it did"
    assert np.bincount(found.random_windows.demo).max() == np.bincount(found.retraced_windows.demo).max() == WINDOWS_PER_DEMO


def test_what_the_robot_can_follow_is_followed_from_beginning_to_end_where_that_is_cheap() -> None:
    short = np.repeat([1.0, 3.0, 1.0], [40, 3, 17])  # three steps are impossible, which few windows may miss
    given = join([pushes(10, seed=0), pushes(10, seed=1, strengths=3.0), pushes(10, seed=2, strengths=short)])
    found = tracked(given)
    counts, per_demo = np.bincount(found.demonstration_windows.demo, minlength=30), -(-60 // found.length)
    assert (counts[10:20] == WINDOWS_PER_DEMO).all(), "what is out of reach everywhere is not tried again"
    assert (np.delete(counts, np.arange(10, 20)) == per_demo).all()
    for demo in range(20, 30):
        mine = found.demonstration_windows.demo == demo
        steps = np.unique(np.add.outer(found.demonstration_windows.start[mine], np.arange(found.length)))
        assert np.array_equal(steps, np.arange(60))
        assert found.demonstration_windows.distances[mine].max() > FOLLOWED, "the impossible steps are found"


@pytest.mark.parametrize("level", [0.2, 1.0])
def test_noisy_windows_of_own_and_shown_are_alike_and_another_bodys_are_not(level: float) -> None:
    given = join([pushes(30, seed=0, gentle=0.4), pushes(30, seed=1, strengths=4.0)])
    given = noisy(given, level, SCALE, np.random.default_rng(0))
    found = tracked(given, noise=level)
    assert found.noise == level
    mean = np.bincount(found.demonstration_windows.demo, found.demonstration_windows.distances) / np.bincount(
        found.demonstration_windows.demo
    )
    assert np.bincount(found.demonstration_windows.demo).tolist() == [NOISY_WINDOWS_PER_DEMO] * 60
    own = np.bincount(found.random_windows.demo, found.random_windows.distances) / np.bincount(found.random_windows.demo)
    assert np.median(mean[:30]) == pytest.approx(np.median(own), rel=0.15)
    assert mean[30:].min() > own.max()
    assert found.random_windows.distances[:OWN_WINDOWS].min() > 0.3 * level, "those of random actions are as noisy"


def test_noisy_windows_begin_where_noise_hides_no_clipped_velocity() -> None:
    level, robot = 1.0, Clipped()
    given = noisy(pushes(30, seed=0, gentle=0.5), level, SCALE, np.random.default_rng(0))
    found = tracked(given, noise=level, robot=robot)
    known = restorable_rows(given, robot, margin=noise_margin(level, SCALE))
    assert known.mean() < restorable_rows(given, robot).mean() - 0.05
    possible = np.array([known[first : first + 61 - found.length].any() for first in given.starts])
    assert possible.mean() > 0.8
    judged = possible[found.demonstration_windows.demo]
    assert known[given.starts[found.demonstration_windows.demo] + found.demonstration_windows.start][judged].all()


def test_a_window_is_as_long_as_the_robot_follows_its_own_and_as_the_budget_allows() -> None:
    given = pushes(10, seed=0)
    for limited, length in ((Limited(), LENGTHS[-1]), (Limited(steps=1000), LENGTHS[0]), (Limited(sight=0.0), LENGTHS[0])):
        assert tracked(given, inverse_dynamics=limited).length == length
    assert tracked(pushes(10, seed=0, steps=7)).length == 5, "and no longer than a demonstration"


def test_the_same_generator_tracks_the_same_windows_and_another_does_not() -> None:
    given = both(own=5, other=5)
    one, again, other = (tracked(given, seed=seed) for seed in (0, 0, 1))
    assert same(one.demonstration_windows, again.demonstration_windows)
    assert same(one.random_windows, again.random_windows)
    assert not np.array_equal(one.demonstration_windows.start, other.demonstration_windows.start)
    assert not np.array_equal(one.random_windows.distances, other.random_windows.distances)


def test_tracking_tells_its_progress_and_leaves_demonstrations_alone() -> None:
    given, fractions = both(own=5, other=5), []
    before = given.observations.copy()
    tracked(given, progress=fractions.append)
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert np.array_equal(given.observations, before)


def test_what_demonstrations_are_does_not_move_the_robots_own_distances_much() -> None:
    """One outlier does not set a tolerance."""
    quantiles = [
        conformal_quantile(tracked(pushes(6, seed=seed), noise=0.2, seed=seed).random_windows.distances, 0.05) for seed in range(5)
    ]
    assert max(quantiles) < 1.3 * min(quantiles)


# On the paper's cars, which hide their controller


@pytest.fixture(scope="module")
def drives() -> tuple[Demonstrations, Assessment]:
    given = collected(find_task("driving/slow"), seed=0, count=30)
    return given, assess(given, driving.SLOW, exploration=Exploration(episodes=20, steps=50), rng=np.random.default_rng(0))


def test_a_car_follows_its_own_drives_and_not_those_of_a_faster_one(drives: tuple[Demonstrations, Assessment]) -> None:
    given, assessment = drives
    shown, own = assessment.tracked.demonstration_windows, assessment.tracked.random_windows
    other = given.from_source("other-dynamics")
    assert assessment.hides_state
    assert own.distances.max() < FOLLOWED
    assert shown.distances[~other[shown.demo]].max() < FOLLOWED
    assert np.quantile(shown.distances[other[shown.demo]], 0.01) > FOLLOWED


def test_where_state_is_hidden_all_windows_are_followed_one_after_the_other(drives: tuple[Demonstrations, Assessment]) -> None:
    given, assessment = drives
    shown, length = assessment.tracked.demonstration_windows, assessment.tracked.length
    for demo, steps in enumerate(given.lengths):
        assert shown.start[shown.demo == demo].tolist() == list(range(0, steps, length))


def test_windows_of_a_strong_body_are_told_apart_by_the_default_assessment() -> None:
    assessment = assess(both(own=4, other=4), CART, rng=np.random.default_rng(0))
    shown = assessment.tracked.demonstration_windows
    assert not assessment.hides_state
    assert assessment.noise < 1e-3
    assert assessment.tracked.noise == 0
    assert shown.distances[shown.demo < 4].max() < FOLLOWED < shown.distances[shown.demo >= 4].min()
    assert assess(both(own=4, other=4), STRONG, rng=np.random.default_rng(0)).tracked.demonstration_windows.distances.max() < FOLLOWED


def test_clean_demonstrations_of_a_robot_that_shows_angles_alone_have_no_noise() -> None:
    """No column of cosines and sines follows from the others by a straight line: what is unexplained is not noise."""
    for shown in (turntable.mixed(), turntable.demonstrations(turntable.COUNTER_CLOCKWISE, count=8)):
        assert turntable.assessed(shown, model=Solved()).noise < 0.02, "nor is what another body does"


def test_a_clipped_velocity_is_no_hidden_state() -> None:
    @dataclass(frozen=True)
    class Saturating(Cart):
        def observe(self, states: Array) -> Array:
            return np.concatenate([states[:, :2], np.clip(states[:, 2:], -0.2, 0.2)], axis=1)

        def restorable(self, observations: Array) -> Booleans:
            return (np.abs(observations[:, 2:]) < 0.2).all(axis=1)

    own = explored(Saturating())
    assert (~Saturating().restorable(own.trajectories.observations)).mean() > 0.5
    assert not hides_state(own, Saturating(), SCALE)


def test_a_few_demonstrations_in_other_units_do_not_widen_the_tolerance_for_the_rest() -> None:
    clean = both(own=20, other=10)
    wild = pushes(5, seed=9)
    scaled = Demonstrations(np.rad2deg(wild.observations), wild.lengths, wild.returns)
    assert np.abs(clean.observations).max() < 13 < np.median(np.abs(scaled.observations).max(axis=1))
    found = tracked(join([clean, scaled]), inverse_dynamics=Limited(sight=13.0))  # so far away nothing is followed, not even its own
    near = max(conformal_quantile(each.distances, 0.05) for each in (found.random_windows, found.retraced_windows))
    assert near < FOLLOWED
    assert (found.demonstration_windows.distances[found.demonstration_windows.demo < 20] < FOLLOWED).all()
    assert np.median(found.demonstration_windows.distances[found.demonstration_windows.demo >= 20]) > 5 * FOLLOWED


@dataclass(frozen=True)
class Failing:
    """An inverse whose search always ends in a local minimum far off."""

    def __call__(self, states: Array, next_observations: Array, *, guess: InverseResult | None = None) -> InverseResult:
        found = INVERSE(states, next_observations, guess=guess)
        return replace(found, actions=-np.sign(found.actions), miss=np.full(len(states), 5.0))

    def arrays(self) -> dict[str, Array]:
        return INVERSE.arrays()


def test_a_demonstration_that_the_first_search_loses_everywhere_is_asked_about_again() -> None:
    given = both(own=4, other=4)
    shown = tracked(given, inverse_dynamics=Failing(), retry_with=(INVERSE,)).demonstration_windows
    farthest = np.array([shown.distances[shown.demo == demo].max() for demo in range(8)])
    assert (farthest[:4] <= FOLLOWED).all()
    assert (farthest[4:] > FOLLOWED).all()


def test_noise_too_small_to_change_how_windows_are_judged_still_widens_the_tolerance():
    given = explored(CART, count=8, seed=3).trajectories
    distances = [
        conformal_quantile(tracked(given, observation_noise=level, retry_with=(INVERSE,)).retraced_windows.distances, 0.05)
        for level in (0.0, 0.015)
    ]
    assert distances[1] > distances[0] + 0.005


def test_all_windows_cover_every_step_also_the_last_ones() -> None:
    demos, starts = all_windows(np.array([12, 10, 3]), np.array([0, 1, 2]), 5)
    assert list(zip(demos.tolist(), starts.tolist(), strict=True)) == [(0, 0), (0, 5), (0, 7), (1, 0), (1, 5), (2, 0)]


def test_noise_and_rounding_are_put_on_trajectories() -> None:
    given = pushes(2, seed=0, steps=20)
    rounded = noisy(given, 0.0, np.ones(given.width), np.random.default_rng(0), rounding=0.5).observations
    assert np.array_equal(2 * rounded, np.round(2 * rounded))
    assert np.abs(rounded - given.observations).max() <= 0.25
    assert np.abs(rounded - given.observations).max() > 0
