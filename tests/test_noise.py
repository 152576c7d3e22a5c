"""The noise of data: its level, in the robot's own units, and what is not noise."""

import numpy as np
import pytest

from cart import CART, pushes
from imitable.demonstrations import Demonstrations, join
from imitable.inverse_dynamics import Solved, step_scale
from imitable.noise import is_noise, noise_level, noisy
from imitable.rollouts import Episodes
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
