"""The noise of data: its level, in the robot's own units, what is not noise, and which observations determine a state."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from cart import CART, Cart, Clipped, pushes
from imitable.arrays import Array, Booleans
from imitable.demonstrations import Demonstrations, join
from imitable.inverse_dynamics import Solved, step_scale
from imitable.noise import is_noise, noise_level, noise_margin, noisy
from imitable.restorability import restorable_rows
from imitable.rollouts import Episodes
from imitable.rounding import round_to, rounding_units
from imitable.tracking import rollout_from

OWN = rollout_from(CART, CART.initial_states(30, np.random.default_rng(0)), 60, rng=np.random.default_rng(1))
SCALE = step_scale(OWN)


@pytest.mark.parametrize("strengths", [1.0, 2.0], ids=["own", "another body's"])
@pytest.mark.parametrize("level", [0.05, 0.2, 1.0])
def test_the_level_of_noise_is_recovered(level: float, strengths: float) -> None:
    given = noisy(pushes(40, seed=5, strengths=strengths), level, SCALE, np.random.default_rng(0))
    assert noise_level(OWN, given, SCALE, CART) == pytest.approx(level, rel=0.2)


@pytest.mark.parametrize("strengths", [1.0, 2.0], ids=["own", "another body's"])
def test_clean_demonstrations_have_no_noise(strengths: float) -> None:
    assert noise_level(OWN, pushes(40, seed=5, strengths=strengths), SCALE, CART) < 1e-3


def test_noise_is_measured_in_units_of_own_steps_whatever_the_units_of_columns() -> None:
    units = np.array([1000.0, 1e-3, 1.0, 50.0])
    given = noisy(pushes(40, seed=5), 0.2, SCALE, np.random.default_rng(0))

    def scaled(each: Demonstrations) -> Demonstrations:
        return Demonstrations(each.observations * units, each.lengths)

    own = Episodes(scaled(OWN.trajectories), OWN.actions, 0)
    assert noise_level(own, scaled(given), SCALE * units, CART) == pytest.approx(noise_level(OWN, given, SCALE, CART), rel=1e-6)


def test_noise_is_added_to_every_column_in_its_units_and_none_is_none() -> None:
    given = pushes(40, seed=5)
    assert noisy(given, 0.0, SCALE, np.random.default_rng(0)) is given
    added = noisy(given, 0.3, SCALE, np.random.default_rng(0))
    assert (added.observations - given.observations).std(axis=0) == pytest.approx(0.3 * SCALE, rel=0.1)
    assert np.array_equal(added.returns, given.returns)


@pytest.mark.parametrize(("level", "expected"), [(0.0, False), (0.2, True)])
def test_what_is_reached_exactly_is_not_noisy(level: float, expected: bool) -> None:
    given = noisy(join([pushes(10, seed=0), pushes(30, seed=1, strengths=3.0)]), level, SCALE, np.random.default_rng(0))
    inverse = Solved().restored({"scale": SCALE}, CART)
    assert is_noise(0.2, given, CART, inverse, scale=SCALE, rng=np.random.default_rng(0)) == expected


def test_large_constants_among_the_columns_change_nothing() -> None:
    given = noisy(pushes(40, seed=5), 0.2, SCALE, np.random.default_rng(0))

    def with_constants(each: Demonstrations) -> Demonstrations:
        constants = np.tile([3e8, -7e9, 7e9], (len(each.observations), 1))
        return Demonstrations(np.concatenate([each.observations, constants], axis=1), each.lengths)

    own = Episodes(with_constants(OWN.trajectories), OWN.actions, 0)
    found = noise_level(own, with_constants(given), np.append(SCALE, [1.0, 1.0, 1.0]), CART)
    assert found == pytest.approx(noise_level(OWN, given, SCALE, CART), rel=1e-6)


# What looks like noise and is none


def shown(given: Demonstrations, columns: Callable[[Array], Array]) -> Demonstrations:
    """The same motion in other columns."""
    return Demonstrations(columns(given.observations), given.lengths)


def level_in(columns: Callable[[Array], Array], given: Demonstrations) -> float:
    own = Episodes(shown(OWN.trajectories, columns), OWN.actions, 0)
    return noise_level(own, shown(given, columns), step_scale(own), CART)


def test_where_no_column_follows_from_the_others_no_noise_is_claimed() -> None:
    assert level_in(lambda seen: seen[:, 2:], pushes(40, seed=5, strengths=3.0)) == 0.0


@pytest.mark.parametrize("steepness", [0.3, 1.0])
def test_what_is_nearly_explained_is_no_noise(steepness: float) -> None:
    """The sine of a velocity says nearly where a position goes, in demonstrations a little less so than in random motion."""
    assert level_in(lambda seen: np.concatenate([seen[:, :2], np.sin(steepness * seen[:, 2:])], axis=1), pushes(40, seed=5)) == 0.0


def test_one_column_that_bends_elsewhere_is_no_noise() -> None:
    far = shown(pushes(40, seed=5), lambda seen: seen + np.array([2.0, 0.0, 0.0, 0.0]))
    assert level_in(lambda seen: np.concatenate([seen, np.sin(0.3 * seen[:, :1])], axis=1), far) < 1e-3


# Velocities that are shown clipped


@dataclass(frozen=True)
class Saturating(Cart):
    """Shows velocities up to a limit."""

    def observe(self, states: Array) -> Array:
        return np.concatenate([states[:, :2], np.clip(states[:, 2:], -0.4, 0.4)], axis=1)

    def restorable(self, observations: Array) -> Booleans:
        return (np.abs(observations[:, 2:]) < 0.4).all(axis=1)


@pytest.mark.parametrize("level", [0.05, 0.1])
def test_clipped_velocities_do_not_count_as_noise(level: float) -> None:
    robot = Saturating()
    own = rollout_from(robot, robot.initial_states(30, np.random.default_rng(0)), 60, rng=np.random.default_rng(1))
    scale = step_scale(own)
    given = noisy(shown(pushes(300, seed=5, strengths=3.0), robot.observe), level, scale, np.random.default_rng(0))
    assert (~robot.restorable(given.observations)).mean() > 0.5
    assert noise_level(own, given, scale, robot) == pytest.approx(level, rel=0.2)


def test_a_margin_counts_to_both_sides() -> None:
    seen = np.zeros((6, 4))
    seen[:, 2] = [0.3, 0.39, -0.39, -0.3, 0.41, -0.41]
    given = Demonstrations(seen, [5])
    assert restorable_rows(given, Clipped()).tolist() == [True] * 4 + [False] * 2
    assert restorable_rows(given, Clipped(), margin=np.full(4, 0.05)).tolist() == [True, False, False, True, False, False]
    assert restorable_rows(given, CART, margin=np.full(4, 0.05)).all()


@pytest.mark.parametrize("level", [0.05, 1.0])
def test_noise_seldom_moves_a_clipped_velocity_beyond_its_margin(level: float) -> None:
    limit = Demonstrations(np.tile([0.0, 0.0, 0.4, 0.0], (5000, 1)), [4999])
    given = noisy(limit, level, SCALE, np.random.default_rng(0))
    assert restorable_rows(given, Clipped()).mean() > 0.4
    assert restorable_rows(given, Clipped(), margin=noise_margin(level, SCALE)).mean() < 0.005
    slow = noisy(Demonstrations(limit.observations * 0.1, [4999]), 0.05, SCALE, np.random.default_rng(0))
    assert restorable_rows(slow, Clipped(), margin=noise_margin(0.05, SCALE)).all(), "and what is far from the limit stays"


@pytest.mark.parametrize("places", [0, 2, 5, 8])
def test_the_last_decimal_place_of_a_column_is_found(places: int) -> None:
    values = np.random.default_rng(0).normal(size=(400, 3)) * [100, 100, 1]
    values[:, 1] = np.round(values[:, 1], places)
    assert rounding_units(values).tolist() == pytest.approx([0, 10.0**-places, 0])


def test_a_column_of_few_values_is_not_coarser_than_the_others() -> None:
    values = np.round(np.random.default_rng(0).normal(size=(400, 3)), 4)
    values[:, 2] = 1.0  # always the same, such as a joint that is held: that does not make it a whole number
    assert rounding_units(values) == pytest.approx(np.full(3, 1e-4))
    values[:, :2] += 1e-10
    assert not rounding_units(values).any()


@pytest.mark.parametrize("unit", [0.0, 0.01, np.array([0.0, 0.5])])
def test_rounding_gives_the_nearest_multiple_and_leaves_the_rest_alone(unit: float | np.ndarray) -> None:
    values = np.random.default_rng(0).normal(size=(50, 2))
    rounded, units = round_to(values, unit), np.broadcast_to(unit, 2)
    for column in range(2):
        if units[column]:
            assert np.abs(rounded[:, column] - values[:, column]).max() <= units[column] / 2 + 1e-12
            assert np.round(rounded[:, column] / units[column], 6) == pytest.approx(np.round(rounded[:, column] / units[column]))
        else:
            assert np.array_equal(rounded[:, column], values[:, column])
