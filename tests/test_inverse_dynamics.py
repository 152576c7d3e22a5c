"""The learned inverse dynamics and the exploration it is learned from."""

import dataclasses

import numpy as np
import pytest
from torch import nn

import turntable
from imitable.errors import ImitableError
from imitable.inverse_dynamics import InverseDynamicsFit, LearnedInverseDynamics, explore
from imitable.problem import Settings, pose
from imitable.residual_net import ResidualNet
from imitable.scores import feasibility
from imitable.simulators import driving


def test_the_network_has_eight_linear_layers_of_a_hundred() -> None:
    linear = [layer for layer in ResidualNet(14, 1).modules() if isinstance(layer, nn.Linear)]
    assert sorted((layer.in_features, layer.out_features) for layer in linear) == sorted([(14, 100), *[(100, 100)] * 6, (100, 1)])


def test_exploration_holds_actions_in_every_other_episode() -> None:
    explored = explore(turntable.CLOCKWISE, count=40, rng=np.random.default_rng(0))
    actions = explored.actions.reshape(40, 50)
    repeats = (actions[:, 1:] == actions[:, :-1]).sum(axis=1)
    assert not repeats[::2].any()
    assert (repeats[1::2] >= 20).all()
    assert np.abs(actions).max() <= 1
    assert actions.min() < -0.95
    assert actions.max() > 0.95
    assert actions.mean() == pytest.approx(0, abs=0.15)


def test_gentle_exploration_keeps_each_episode_to_its_share_of_the_action_range() -> None:
    gentle = explore(turntable.CLOCKWISE, count=40, gentlest=0.2, rng=np.random.default_rng(0)).actions.reshape(40, 50)
    largest = np.abs(gentle).max(axis=1)
    assert 0.15 < largest.min() < 0.5
    assert 0.8 < largest.max() <= 1
    lopsided = dataclasses.replace(turntable.CLOCKWISE, action_low=np.array([0.4]))
    still = explore(lopsided, count=4, gentlest=0.0, rng=np.random.default_rng(0)).actions
    assert still.mean() == pytest.approx(0.7, abs=0.1), "shares are of the range, around its middle"


def test_f_id_looks_at_the_columns_it_aims_at_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    target, rng = turntable.CLOCKWISE, np.random.default_rng(0)
    explored = explore(target, count=4, rng=rng)
    rows, states = explored.trajectories.transition_rows, explored.trajectories.states
    assert InverseDynamicsFit(aimed=np.array([0, 1])) == InverseDynamicsFit(aimed=(0, 1)), "an array is as good"
    learned = InverseDynamicsFit(epochs=1, aimed=(1,))(explored, target, rng=rng)
    before, after = states[rows], states[rows + 1]
    for column, matters in ((0, False), (1, True)):
        moved = after.copy()
        moved[:, column] += 0.1
        assert np.array_equal(learned(before, moved), learned(before, after)) != matters
    whole = learned(before, after)
    monkeypatch.setattr("imitable.inverse_dynamics.AT_ONCE", 30)
    assert learned(before, after) == pytest.approx(whole, abs=1e-6), "pieces do not make the whole"
    restored = LearnedInverseDynamics.restored(learned.arrays(), target)
    assert np.array_equal(restored(before, after), learned(before, after))
    with pytest.raises(ImitableError, match=r"aimed=\(0, 9\) does not fit .* from 0 to"):
        InverseDynamicsFit(epochs=1, aimed=(0, 9))(explored, target, rng=rng)


def test_explored_actions_explain_their_transitions() -> None:
    explored = explore(turntable.COUNTER_CLOCKWISE, count=4, rng=np.random.default_rng(0))
    rows, states = explored.trajectories.transition_rows, explored.trajectories.states
    turned = turntable.ExactInverse(turntable.COUNTER_CLOCKWISE)(states[rows], states[rows + 1])
    assert turned == pytest.approx(np.maximum(explored.actions, 0), abs=1e-9)


def test_fitting_recovers_actions_and_repeats_itself() -> None:
    target = turntable.Turntable(slowest=-2.0, fastest=2.0)
    rng = np.random.default_rng(0)
    training, fresh = explore(target, count=40, rng=rng), explore(target, count=5, rng=rng)
    shares: list[float] = []
    fit = InverseDynamicsFit(epochs=20, batch=128)
    learned = fit(training, target, rng=np.random.default_rng(1), watch=shares.append)
    rows, states = fresh.trajectories.transition_rows, fresh.trajectories.states
    recovered = learned(states[rows], states[rows + 1])
    assert np.abs(recovered - fresh.actions).mean() < 0.05
    assert shares == sorted(shares)
    again = fit(training, target, rng=np.random.default_rng(1))
    assert np.array_equal(again(states[rows], states[rows + 1]), recovered)
    impossible = learned(states[rows], states[rows] + 10.0)
    assert np.abs(impossible).max() <= 1.0


@pytest.mark.slow
@pytest.mark.parametrize(("target", "other"), [(driving.SLOW, driving.FAST), (driving.FAST, driving.SLOW)])
def test_a_learned_inverse_accepts_the_targets_expert_and_rejects_the_other(target, other) -> None:
    from imitable.demonstrations import join
    from imitable.experts import drive
    from imitable.reinforcement import demonstrate

    rng = np.random.default_rng(0)
    parts = [demonstrate(each, lambda seen: drive(seen, rng), count=40, rng=rng).trajectories for each in (target, other)]
    problem = pose(join(parts), target, settings=Settings(noise=0.001, sigma=100.0, radius=0.1, exploration=200), rng=rng)
    weights = feasibility(problem)
    assert (weights[:40] > 0).mean() > 0.9
    assert not weights[40:].any()
