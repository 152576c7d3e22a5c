"""One contract for all inverse dynamics, then the learned one."""

from copy import deepcopy
from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest
from torch import nn

from imitable.arrays import Array
from imitable.assessment import Exploration, assess
from imitable.demonstrations import join
from imitable.errors import ImitableError
from imitable.inverse_dynamics import (
    INVERSE_DYNAMICS,
    NOT_SETTLED,
    OUT_OF_REACH,
    REACHED,
    UNTRIED,
    InverseDynamics,
    InverseDynamicsModel,
    InverseResult,
    Learned,
    Solved,
)
from imitable.inverse_dynamics.base import factor_to_admit
from imitable.inverse_dynamics.learned import CHUNK
from imitable.inverse_dynamics.residual_net import ResidualNet
from imitable.paper import driving
from imitable.registry import find
from imitable.rollouts import Episodes, explore, run_episodes
from imitable.scores import ReplayFeasibility
from turntable import ExactModel, Turntable

MODELS: dict[str, InverseDynamicsModel] = {
    **{name: find("inverse dynamics", name, INVERSE_DYNAMICS) for name in INVERSE_DYNAMICS},
    "learned": Learned(epochs=2),
    "exact": ExactModel(),
}
BOTH_WAYS = Turntable(slowest=-2.0, fastest=2.0)


def alike(one: InverseResult, other: InverseResult) -> bool:
    pairs = [(getattr(one, each.name), getattr(other, each.name)) for each in fields(InverseResult)]
    return all(np.array_equal(a, b, equal_nan=True) if a is not None and b is not None else a is b for a, b in pairs)


@pytest.fixture(params=MODELS.values(), ids=MODELS.keys())
def model(request: pytest.FixtureRequest) -> InverseDynamicsModel:
    return request.param


def transitions(episodes: Episodes) -> tuple[Array, Array]:
    """Full states, and the observations they led to."""
    rows, observations = episodes.trajectories.transition_rows, episodes.trajectories.observations
    return BOTH_WAYS.restore(observations[rows]), observations[rows + 1]


def turned(states: Array, angle: float) -> Array:
    """Observations of the joint turned by so much [rad]."""
    return BOTH_WAYS.observe(np.stack([states[:, 0] + angle, states[:, 1]], axis=1))


def fitted(model: InverseDynamicsModel, *, seed: int = 0) -> InverseDynamics:
    own = explore(BOTH_WAYS, count=10, rng=np.random.default_rng(1))
    return model.fit(own, BOTH_WAYS, rng=np.random.default_rng(seed), progress=lambda fraction: None)


# The contract


def test_there_is_one_admissible_action_per_transition_and_what_is_known_of_it(model: InverseDynamicsModel) -> None:
    states, goals = transitions(explore(BOTH_WAYS, count=3, rng=np.random.default_rng(2)))
    before = states.copy(), goals.copy()
    for wanted in (goals, turned(states, 1.0), turned(states, -1.0)):
        found = fitted(model)(states, wanted)
        assert found.actions.shape == found.at_limit.shape == (150, 1)
        assert found.actions.dtype == np.float64
        assert found.at_limit.dtype == bool
        assert (np.abs(found.actions) <= 1).all()
        assert np.array_equal(found.at_limit, np.abs(found.actions) == 1)
        assert found.miss.shape == found.verdict.shape == found.limit_factor.shape == found.steps.shape == (150,)
        assert set(found.verdict.tolist()) <= {NOT_SETTLED, REACHED, OUT_OF_REACH, UNTRIED}
        assert np.array_equal(found.verdict == UNTRIED, np.isnan(found.miss))
        assert np.array_equal(found.steps > 0, np.isfinite(found.miss)), "who knows the miss has simulated"
    assert np.array_equal(states, before[0])
    assert np.array_equal(goals, before[1])


def test_out_of_reach_is_at_the_limit_and_within_reach_is_not(model: InverseDynamicsModel) -> None:
    learned = replace(model, epochs=100) if isinstance(model, Learned) else model
    inverse, states = fitted(learned), np.array([[-1.0, 0.5]])
    for angle, expected in ((-0.5, -1.0), (0.5, 1.0)):  # five times as far as a step goes
        found = inverse(states, turned(states, angle))
        assert found.at_limit.tolist() == [[True]]
        assert found.actions.tolist() == [[expected]]
    found = inverse(states, turned(states, 0.05))
    assert found.at_limit.tolist() == [[False]]
    assert found.actions[0, 0] == pytest.approx(0.5, abs=0.2)


def test_what_was_saved_is_restored(model: InverseDynamicsModel) -> None:
    inverse = fitted(model)
    states, goals = transitions(explore(BOTH_WAYS, count=3, rng=np.random.default_rng(2)))
    arrays = {name: array.copy() for name, array in inverse.arrays().items()}
    restored = model.restored(arrays, BOTH_WAYS)
    one, other = restored(states, goals), inverse(states, goals)
    assert alike(one, other)
    again = restored.arrays()
    assert arrays.keys() == again.keys()
    assert all(np.array_equal(arrays[name], again[name]) for name in arrays)


def test_the_same_generator_fits_the_same(model: InverseDynamicsModel) -> None:
    states, goals = transitions(explore(BOTH_WAYS, count=3, rng=np.random.default_rng(2)))
    one, again, other = (fitted(model, seed=seed)(states, goals).actions for seed in (0, 0, 1))
    assert np.array_equal(one, again)
    assert np.array_equal(one, other) != isinstance(model, Learned), "an exact one has nothing to draw"


def test_a_guess_is_left_alone_and_changes_no_answer(model: InverseDynamicsModel) -> None:
    inverse = fitted(model)
    states, goals = transitions(explore(BOTH_WAYS, count=2, rng=np.random.default_rng(2)))
    answers = inverse(states, goals)
    other = np.random.default_rng(0).permutation(100)
    drawn = np.random.default_rng(0).uniform(-3.0, 3.0, (100, 1))  # some of them inadmissible
    for guess in (answers, answers.select(other), replace(answers, actions=drawn), InverseResult.unchecked(drawn, BOTH_WAYS)):
        before = deepcopy(guess)
        assert inverse(states, goals, guess=guess).actions == pytest.approx(answers.actions, abs=1e-3)
        assert alike(guess, before)


def test_own_transitions_are_explained_by_the_actions_that_made_them(model: InverseDynamicsModel) -> None:
    own = explore(BOTH_WAYS, count=3, rng=np.random.default_rng(2))
    states, goals = transitions(own)
    found = fitted(replace(model, epochs=60) if isinstance(model, Learned) else model)(states, goals)
    error = np.abs(found.actions - np.clip(own.actions, -1, 1))
    assert error.mean() < (0.1 if isinstance(model, Learned) else 1e-3)
    if np.isfinite(found.miss).all():
        assert (found.verdict == REACHED).all()
        assert found.miss.max() <= Solved().tolerance


def test_every_transition_is_answered_for_itself(model: InverseDynamicsModel) -> None:
    inverse = fitted(model)
    states, goals = transitions(explore(BOTH_WAYS, count=1, rng=np.random.default_rng(2)))
    whole = inverse(states, goals).actions
    assert np.concatenate([inverse(states[[row]], goals[[row]]).actions for row in range(50)]) == pytest.approx(whole, abs=1e-6)


# The learned one


def test_the_network_has_eight_linear_layers_of_a_hundred() -> None:
    linear = [layer for layer in ResidualNet(14, 1).modules() if isinstance(layer, nn.Linear)]
    assert sorted((layer.in_features, layer.out_features) for layer in linear) == sorted([(14, 100), *[(100, 100)] * 6, (100, 1)])


def test_what_observations_do_not_show_changes_nothing() -> None:
    """A car's speed controller remembers what a network of observations cannot see."""
    own = explore(driving.SLOW, count=4, rng=np.random.default_rng(0))
    learned = Learned(epochs=1).fit(own, driving.SLOW, rng=np.random.default_rng(0))
    rows, observations = own.trajectories.transition_rows, own.trajectories.observations
    states = driving.SLOW.restore(observations[rows])
    moved = states.copy()
    moved[:, driving.INTEGRAL :] += 1.0
    assert np.array_equal(learned(moved, observations[rows + 1]).actions, learned(states, observations[rows + 1]).actions)


def test_transitions_beyond_a_chunk_are_answered_as_any_other() -> None:
    learned = fitted(Learned(epochs=1))
    states, goals = transitions(explore(BOTH_WAYS, count=1, rng=np.random.default_rng(2)))
    times = CHUNK // 50 + 1
    many = learned(np.tile(states, (times, 1)), np.tile(goals, (times, 1))).actions
    assert len(many) > CHUNK
    assert many == pytest.approx(np.tile(learned(states, goals).actions, (times, 1)), abs=1e-6)


def test_fitting_recovers_actions_and_repeats_itself() -> None:
    rng = np.random.default_rng(0)
    training, fresh = explore(BOTH_WAYS, count=40, rng=rng), explore(BOTH_WAYS, count=5, rng=rng)
    fractions: list[float] = []
    model = Learned(epochs=20, batch_size=128)
    learned = model.fit(training, BOTH_WAYS, rng=np.random.default_rng(1), progress=fractions.append)
    states, goals = transitions(fresh)
    recovered = learned(states, goals)
    assert np.abs(recovered.actions - fresh.actions).mean() < 0.05
    assert np.isnan(recovered.miss).all(), "a network does not simulate where its action leads"
    assert fractions == sorted(fractions)
    assert 0 <= fractions[0] < fractions[-1] <= 1
    again = model.fit(training, BOTH_WAYS, rng=np.random.default_rng(1))
    assert np.array_equal(again(states, goals).actions, recovered.actions)
    assert np.abs(learned(states, goals + 10.0).actions).max() <= 1.0


@pytest.mark.parametrize("name", ["epochs", "batch_size", "learning_rate"])
def test_hyper_parameters_that_make_no_sense_are_refused_by_name(name: str) -> None:
    with pytest.raises(ImitableError, match=rf"Learned.{name} is 0; it must be above 0"):
        Learned(**{name: 0})


@pytest.mark.slow
@pytest.mark.parametrize(("robot", "other"), [(driving.SLOW, driving.FAST), (driving.FAST, driving.SLOW)], ids=["slow", "fast"])
def test_a_learned_inverse_accepts_the_robots_expert_and_rejects_the_other(robot: driving.Driving, other: driving.Driving) -> None:
    rng = np.random.default_rng(0)
    parts = [run_episodes(each, lambda seen: driving.drive(seen, rng), count=40, rng=rng).trajectories for each in (robot, other)]
    exploration = Exploration(episodes=200, steps=None)
    weights = assess(join(parts), robot, model=Learned(), exploration=exploration, rng=rng).weights(ReplayFeasibility(delta_s=0.001))
    assert (weights[:40] > 0).mean() > 0.9
    assert not weights[40:].any()


@pytest.mark.parametrize(
    ("low", "high", "action", "factor"),
    [(-1, 1, 2.5, 2.5), (-1, 1, 0.3, 1.0), (0, 5, 10, 2.0), (0, 5, -1, np.inf), (-2, 4, -3, 1.5), (-1, 1, 1e27, np.inf)],
)
def test_the_factor_that_limits_lack_is_measured_from_zero(low, high, action, factor):
    robot = SimpleNamespace(action_low=np.array([low, -1.0]), action_high=np.array([high, 1.0]))
    assert factor_to_admit(np.array([[action, 0.0]]), robot) == [factor]
