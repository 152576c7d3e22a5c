"""Following windows: who is followed, the noise of data, hidden state, and quantiles with a promise."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import turntable
from cart import CART, STRONG, Cart, both, pushes
from imitable.arrays import Array, Booleans
from imitable.assessment import Assessment, Exploration, assess
from imitable.demonstrations import Demonstrations, join
from imitable.inverse_dynamics import Solved, step_scale
from imitable.noise import noisy, restorable_rows
from imitable.paper import driving
from imitable.paper.run import collected
from imitable.paper.tasks import find_task
from imitable.rollouts import Episodes
from imitable.simulators import Simulator
from imitable.tracking import (
    FEWEST,
    FOLLOWED,
    GROUPS,
    NOISY_FEWEST,
    OWN_WINDOWS,
    Tracked,
    Windows,
    conformal_quantile,
    draw_windows,
    follow_windows,
    hides_state,
    join_windows,
    own_windows,
    track,
)


def explored(robot: Simulator, *, count: int = 30, steps: int = 60, seed: int = 0) -> Episodes:
    rng = np.random.default_rng(seed)
    return own_windows(robot, robot.initial_states(count, rng), steps, rng=rng)


OWN = explored(CART)
SCALE = step_scale(OWN)
INVERSE = Solved().coarse(0.0).fit(OWN, CART, rng=np.random.default_rng(0))


def follow(given: Demonstrations, *, starts: Any = 0, length: int = 10, robot: Simulator = CART, **more: Any) -> tuple[Windows, int]:
    """One window of each demonstration."""
    demos, inverse = np.arange(len(given)), replace(INVERSE, robot=robot)
    starts = np.broadcast_to(starts, len(given)).astype(np.int64)
    return follow_windows(given, demos, starts, length, robot=robot, inverse_dynamics=inverse, scale=SCALE, **more)


def tracked(given: Demonstrations, *, noise: float = 0.0, seed: int = 0, **more: Any) -> Tracked:
    inverse = Solved().coarse(noise).restored(INVERSE.arrays(), CART)
    return track(given, CART, inverse, OWN, scale=SCALE, noise=noise, rng=np.random.default_rng(seed), **more)


def same(one: Windows, other: Windows) -> bool:
    return all(np.array_equal(getattr(one, each.name), getattr(other, each.name)) for each in fields(Windows))


# Following


@pytest.mark.parametrize("length", [1, 5, 20])
def test_own_windows_are_followed_and_those_of_a_stronger_body_are_not(length: int) -> None:
    own, _ = follow(pushes(40, seed=1), length=length, starts=7)
    other, _ = follow(pushes(40, seed=2, strengths=2.0), length=length, starts=7)
    assert own.distances.max() < FOLLOWED
    assert other.distances.min() > 5 * FOLLOWED
    gentle, _ = follow(pushes(40, seed=3, strengths=2.0, gentle=0.49), length=length, starts=7)
    assert gentle.distances.max() < FOLLOWED, "a strong body used gently can be followed"


def test_a_window_says_what_limits_it() -> None:
    rng = np.random.default_rng(0)
    states, shown = rng.normal(size=(20, 4)), []
    shown.append(states)
    for _ in range(5):  # gently along x, at thrice the strength along y
        states = CART.step(states, np.tile([0.3, 0.0], (20, 1)))
        states[:, 1] += 0.01 * 3
        states[:, 3] += 0.1 * 3
        shown.append(states)
    given = Demonstrations(np.stack(shown, axis=1).reshape(-1, 4), np.full(20, 5))
    windows, _ = follow(given, length=1)
    assert (windows.limiting_actuator == 1).all()
    assert windows.growth == pytest.approx(np.full(20, 3.0), rel=1e-3)
    assert set(windows.worst_column.tolist()) <= {1, 3}
    free, _ = follow(pushes(20, seed=0, gentle=0.5))
    assert (free.growth == 1).all()
    assert (free.limiting_actuator == -1).all()


def test_distances_are_the_mean_of_what_is_left_in_units_of_own_steps() -> None:
    """Standing still before a goal out of reach, whose column no action moves."""
    width, count = 0.7, 3
    still = Demonstrations(np.zeros((count * 5, 4)) + np.repeat(np.arange(count), 5)[:, None] * [1.0, 0, 0, 0], np.full(count, 4))
    moved = still.observations.copy()
    moved[still.transition_rows + 1, 3] += width * SCALE[3]
    frozen = replace(CART, strength=1e-12)
    windows, _ = follow(Demonstrations(moved, still.lengths), length=4, robot=frozen)
    assert windows.distances[0] == pytest.approx(width / 2, rel=0.15), "root mean square over four columns of which one is off"
    assert (windows.worst_column == 3).all()
    assert windows.distances == pytest.approx(np.full(count, windows.distances[0]))


def test_what_is_hopeless_is_given_up_early_and_counts_as_not_followed() -> None:
    given = both(own=10, other=10)
    short, few = follow(given, hopeless=0.3)
    long, many = follow(given, hopeless=np.inf)
    assert few < 0.7 * many
    assert np.array_equal(short.distances[:10], long.distances[:10])
    assert (short.distances[10:] > 0.3 / 10).all()
    assert np.array_equal(short.distances > FOLLOWED, long.distances > FOLLOWED)


def test_demonstrations_shorter_than_a_window_are_followed_to_their_end() -> None:
    windows, _ = follow(join([pushes(3, seed=0, steps=2), pushes(3, seed=0, steps=2, strengths=3.0)]), length=10)
    assert windows.distances[:3].max() < FOLLOWED
    assert windows.distances[3:].min() > FOLLOWED


@dataclass(frozen=True)
class Edge(Cart):
    """Its simulation breaks down, whatever it does, beyond a limit."""

    edge: float = 1.0  # m

    def step(self, states: Array, actions: Array) -> Array:
        moved = super().step(states, actions)
        moved[states[:, 0] > self.edge] = np.nan
        return moved


@pytest.mark.parametrize("start", [0, 3, 4], ids=["in the middle of a window", "later", "at its last step"])
def test_a_simulation_that_breaks_down_is_infinitely_far(start: int) -> None:
    places = 1.0 + 0.02 * (np.arange(6) - 3.5)  # beyond the limit before the last step
    running = np.stack([places, np.zeros(6), np.full(6, 0.2), np.zeros(6)], axis=1)
    given = join([Demonstrations(running, [5]), pushes(1, seed=0, steps=5)])
    windows, _ = follow(given, starts=[start, 0], length=5 - start, robot=Edge())
    assert windows.distances[0] == np.inf
    assert windows.distances[1] < FOLLOWED


def test_joined_windows_are_all_of_them_in_order() -> None:
    one, other = follow(pushes(3, seed=0))[0], follow(pushes(2, seed=1))[0]
    joined = join_windows([one, other])
    assert len(joined) == 5
    for each in fields(Windows):
        assert np.array_equal(getattr(joined, each.name), np.concatenate([getattr(one, each.name), getattr(other, each.name)]))


# Where windows begin


@dataclass(frozen=True)
class Clipped(Cart):
    """Cannot be restored where its velocity is too great to be shown."""

    def restorable(self, observations: Array) -> Booleans:
        return np.abs(observations[:, 2]) < 0.4


@pytest.mark.parametrize("length", [1, 7, 30])
def test_windows_stay_inside_their_demonstrations_and_begin_anywhere(length: int) -> None:
    ragged = join([pushes(1, seed=steps, steps=steps) for steps in (1, 5, 8, 30, 31, 60)])
    demos = np.tile(np.arange(6), 400)
    starts = draw_windows(ragged, demos, length, restorable=restorable_rows(ragged, CART), rng=np.random.default_rng(0))
    for demo, steps in enumerate(ragged.lengths):
        mine = starts[demos == demo]
        assert mine.min() == 0
        assert mine.max() == max(steps - length, 0), "all starts are drawn, and none that leads beyond the end"


def test_windows_avoid_observations_that_do_not_determine_the_state() -> None:
    given, robot = pushes(20, seed=0, gentle=0.6), Clipped()
    bad = ~robot.restorable(given.observations)
    assert 0.2 < bad.mean() < 0.6
    demos = np.tile(np.arange(20), 20)
    good_share = np.array([(~bad[start : start + 51]).mean() for start in given.starts])
    hits = {
        name: bad[
            given.starts[demos] + draw_windows(given, demos, 10, restorable=restorable_rows(given, each), rng=np.random.default_rng(0))
        ]
        for name, each in (("with", robot), ("without", CART))
    }
    often = good_share[demos] > 0.4
    assert often.mean() > 0.5
    assert not hits["with"][often].any()
    assert hits["without"][often].mean() > 0.1


def test_where_nothing_can_be_restored_windows_still_begin_somewhere() -> None:
    slow = pushes(3, seed=0)
    fast = Demonstrations(slow.observations + np.array([0.0, 0.0, 10.0, 0.0]), slow.lengths)
    starts = draw_windows(fast, np.arange(3), 10, restorable=restorable_rows(fast, Clipped()), rng=np.random.default_rng(0))
    assert ((starts >= 0) & (starts <= 50)).all()


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
    own = own_windows(robot, states, 5, rng=np.random.default_rng(0))
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


def test_tracking_takes_few_windows_and_more_where_they_disagree() -> None:
    strengths = np.repeat([1.0, 3.0], 30)  # the second half is impossible
    given = join([pushes(10, seed=0), pushes(10, seed=1, strengths=3.0), pushes(10, seed=2, strengths=strengths)])
    found = tracked(given)
    counts = np.bincount(found.shown.demo, minlength=30)
    assert (counts[:20] == FEWEST).all()
    assert set(counts[20:].tolist()) == {FEWEST, 2 * FEWEST}
    assert found.length > 1, "the cart follows its own trajectories as long as one likes"
    assert ((found.shown.start >= 0) & (found.shown.start + found.length <= 60)).all()
    early = found.shown.start + found.length <= 30
    assert (found.shown.distances[early & (found.shown.demo >= 20)] < FOLLOWED).all()
    assert found.own.distances.max() < FOLLOWED
    assert len(found.own) == OWN_WINDOWS + GROUPS * FEWEST
    assert len(found.retraced) == GROUPS * FEWEST
    assert found.retraced.distances.max() < FOLLOWED, "the robot can do what it did"
    assert np.bincount(found.own.demo).max() == np.bincount(found.retraced.demo).max() == FEWEST


@pytest.mark.parametrize("level", [0.2, 1.0])
def test_noisy_windows_of_own_and_shown_are_alike_and_another_bodys_are_not(level: float) -> None:
    given = join([pushes(30, seed=0, gentle=0.4), pushes(30, seed=1, strengths=4.0)])
    given = noisy(given, level, SCALE, np.random.default_rng(0))
    found = tracked(given, noise=level)
    assert found.noise == level
    mean = np.bincount(found.shown.demo, found.shown.distances) / np.bincount(found.shown.demo)
    assert np.bincount(found.shown.demo).tolist() == [NOISY_FEWEST] * 60
    own = np.bincount(found.own.demo, found.own.distances) / np.bincount(found.own.demo)
    assert np.median(mean[:30]) == pytest.approx(np.median(own), rel=0.15)
    assert mean[30:].min() > own.max()


def test_the_same_generator_tracks_the_same_windows_and_another_does_not() -> None:
    given = both(own=5, other=5)
    one, again, other = (tracked(given, seed=seed) for seed in (0, 0, 1))
    assert same(one.shown, again.shown)
    assert same(one.own, again.own)
    assert not np.array_equal(one.shown.start, other.shown.start)
    assert not np.array_equal(one.own.distances, other.own.distances)


def test_tracking_tells_its_progress_and_leaves_demonstrations_alone() -> None:
    given, fractions = both(own=5, other=5), []
    before = given.observations.copy()
    tracked(given, progress=fractions.append)
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert np.array_equal(given.observations, before)


def test_what_demonstrations_are_does_not_move_the_robots_own_distances_much() -> None:
    """One outlier does not set a tolerance."""
    quantiles = [conformal_quantile(tracked(pushes(6, seed=seed), noise=0.2, seed=seed).own.distances, 0.05) for seed in range(5)]
    assert max(quantiles) < 1.3 * min(quantiles)


# On the paper's cars, which hide their controller


@pytest.fixture(scope="module")
def drives() -> tuple[Demonstrations, Assessment]:
    given = collected(find_task("driving/slow"), seed=0, count=30)
    return given, assess(given, driving.SLOW, exploration=Exploration(episodes=20, steps=50), rng=np.random.default_rng(0))


def test_a_car_follows_its_own_drives_and_not_those_of_a_faster_one(drives: tuple[Demonstrations, Assessment]) -> None:
    given, assessment = drives
    shown, own = assessment.tracked.shown, assessment.tracked.own
    other = given.from_source("other-dynamics")
    assert assessment.hides_state
    assert own.distances.max() < FOLLOWED
    assert shown.distances[~other[shown.demo]].max() < FOLLOWED
    assert np.quantile(shown.distances[other[shown.demo]], 0.01) > FOLLOWED


def test_where_state_is_hidden_all_windows_are_followed_one_after_the_other(drives: tuple[Demonstrations, Assessment]) -> None:
    given, assessment = drives
    shown, length = assessment.tracked.shown, assessment.tracked.length
    for demo, steps in enumerate(given.lengths):
        assert shown.start[shown.demo == demo].tolist() == list(range(0, steps, length))


def test_windows_of_a_strong_body_are_told_apart_by_the_default_assessment() -> None:
    assessment = assess(both(own=4, other=4), CART, rng=np.random.default_rng(0))
    shown = assessment.tracked.shown
    assert not assessment.hides_state
    assert assessment.noise < 1e-3
    assert assessment.tracked.noise == 0
    assert shown.distances[shown.demo < 4].max() < FOLLOWED < shown.distances[shown.demo >= 4].min()
    assert assess(both(own=4, other=4), STRONG, rng=np.random.default_rng(0)).tracked.shown.distances.max() < FOLLOWED


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
