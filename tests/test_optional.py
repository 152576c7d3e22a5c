"""What simulators, scores and inverse dynamics may have beside their contract, and what holds for those that have not."""

from copy import deepcopy

import numpy as np
import pytest

import turntable
from imitable.arrays import Array
from imitable.assessment import Assessment
from imitable.errors import ImitableError
from imitable.inverse_dynamics import Learned, Solved, model_for_tracking, model_with_tolerance, retry_models
from imitable.scores import Uniform, factors_of, product, score_columns, score_facts, why_zero
from imitable.simulators import action_names, has_reward, joint_ranges, notes, restorable, reward_of, with_defaults
from imitable.store.cache import describe


class Talkative(turntable.Turntable):
    """A simulator with everything."""

    has_reward, action_names, notes = False, ("motor",), ("it squeaks",)

    def restorable(self, observations: Array) -> Array:
        return observations[:, 0] > 0

    def joint_ranges(self) -> list[tuple[int, float, float]]:
        return [(0, -1.0, 1.0)]


def test_a_simulator_may_leave_out_what_is_optional() -> None:
    plain, seen = turntable.CLOCKWISE, np.array([[1.0] * 4, [-1.0] * 4])
    assert restorable(plain, seen).tolist() == [True, True]
    assert (has_reward(plain), action_names(plain), joint_ranges(plain), notes(plain)) == (True, ("action 0",), (), ())


def test_a_simulator_is_asked_for_what_it_has() -> None:
    robot, seen = Talkative(slowest=0.0, fastest=1.0), np.array([[1.0] * 4, [-1.0] * 4])
    assert restorable(robot, seen).tolist() == [True, False]
    assert (has_reward(robot), action_names(robot)) == (False, ("motor",))
    assert (joint_ranges(robot), notes(robot)) == (((0, -1.0, 1.0),), ("it squeaks",))


class Bare:
    """A simulator with nothing of a task."""

    horizon, action_low, action_high = 5, -np.ones(1), np.ones(1)
    weight = 1.0

    def step(self, states: Array, actions: Array) -> Array:
        return states + actions

    def cache_key(self) -> float:
        return self.weight


def test_a_simulator_without_a_task_never_terminates_and_has_no_reward() -> None:
    bare, states = with_defaults(Bare()), np.zeros((3, 1))
    assert bare.terminated(states).tolist() == [False] * 3
    assert (bare.horizon, bare.step(states, states + 1).tolist(), has_reward(bare)) == (5, [[1.0]] * 3, False)
    with pytest.raises(ImitableError, match=r"the robot .*Bare.* has no reward, which is needed here; give it a method reward"):
        reward_of(bare, states, states, states)
    assert deepcopy(bare).horizon == 5
    assert with_defaults(turntable.CLOCKWISE) is turntable.CLOCKWISE


def test_what_a_simulator_without_a_task_is_cached_by_is_its_own_description() -> None:
    heavy = Bare()
    heavy.weight = 2.0
    assert describe(with_defaults(Bare()))["key"] == [describe(Bare())]
    assert describe(with_defaults(Bare())) != describe(with_defaults(heavy))


def test_an_inverse_dynamics_without_variants_stands_for_all_of_them() -> None:
    model = Learned()
    assert model_for_tracking(model, 0.1) is model_with_tolerance(model, 0.1) is model
    assert retry_models(model) == ()
    solved = Solved()
    assert (model_for_tracking(solved, 0.1), model_with_tolerance(solved, 0.1)) == (solved.for_tracking(0.1), solved.with_tolerance(0.1))
    assert retry_models(solved) == solved.retries()


def nothing(assessment: Assessment) -> Array:
    return np.zeros(len(assessment.demonstrations))


def test_a_plain_function_is_a_score() -> None:
    assessment = turntable.assessed()
    assert (score_columns(nothing, assessment), score_facts(nothing, assessment), factors_of(nothing)) == ({}, {}, (nothing,))
    assert factors_of(product(nothing, Uniform())) == (nothing, Uniform())
    assert "choose another score" in why_zero(nothing, assessment)
    with pytest.raises(ImitableError, match=r"weights are zero: .*nothing.* finds nothing worth imitating"):
        assessment.weights(product(nothing, Uniform()))
