"""One contract for all simulators, and how a batch of them is stepped."""

import dataclasses
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import turntable
from imitable.arrays import Array
from imitable.errors import ImitableError
from imitable.paper import TASK_NAMES, ant, reacher, swimmer
from imitable.paper.panda import Panda
from imitable.paper.tasks import find_task
from imitable.simulators import Simulator, advance, has_reward, physics, restorable, reward_of
from imitable.simulators.gymnasium_robot import gymnasium_robot
from imitable.simulators.mujoco import model_robot
from walks import walk

ARM = """<mujoco><option timestep="0.01"/><worldbody><body><joint name="hinge" axis="0 1 0" range="-90 90" limited="true"/>
<geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.05"/></body></worldbody>
<actuator><motor joint="hinge" ctrlrange="-1 1"/></actuator></mujoco>"""


def arm() -> Simulator:
    """Of a file, without a reward."""
    with TemporaryDirectory() as folder:
        Path(folder, "arm.xml").write_text(ARM)
        return model_robot(Path(folder, "arm.xml"))


SIMULATORS = {
    **{name: find_task(name).robot for name in TASK_NAMES},
    "turntable": turntable.CLOCKWISE,
    "Hopper-v5": gymnasium_robot("Hopper-v5"),
    "arm.xml": arm(),
}


@pytest.fixture(params=SIMULATORS.values(), ids=SIMULATORS.keys())
def simulator(request: pytest.FixtureRequest) -> Simulator:
    return request.param


def rewards_of(simulator: Simulator, states: Array, actions: Array, next_states: Array) -> Array:
    """Zeros of a robot without a reward."""
    return simulator.reward(states, actions, next_states) if has_reward(simulator) else np.zeros(len(states))


def hidden_columns(simulator: Simulator) -> list[int]:
    """State columns that observations do not show."""
    states = walk(simulator, agents=3, steps=5)[2]
    moved = states[None] + 0.1 * np.eye(states.shape[1])[:, None, :]
    return [column for column in range(states.shape[1]) if np.array_equal(simulator.observe(moved[column]), simulator.observe(states))]


# The contract


def test_shapes_agree_and_everything_is_finite(simulator: Simulator) -> None:
    states, actions, next_states = walk(simulator)
    assert next_states.shape == states.shape
    assert actions.shape[1:] == simulator.action_low.shape == simulator.action_high.shape
    observations, next_observations = simulator.observe(states), simulator.observe(next_states)
    assert observations.shape == (len(states), len(simulator.observation_names))
    assert rewards_of(simulator, states, actions, next_states).shape == (len(states),)
    assert simulator.terminated(states).shape == (len(states),)
    assert simulator.terminated(states).dtype == bool
    assert simulator.restore(observations).shape == states.shape
    for each in (
        states,
        observations,
        next_observations,
        rewards_of(simulator, states, actions, next_states),
        simulator.restore(observations),
    ):
        assert each.dtype == np.float64
        assert np.isfinite(each).all()


def test_declared_columns_exist(simulator: Simulator) -> None:
    width = len(simulator.observation_names)
    assert len(set(simulator.observation_names)) == width
    assert simulator.horizon >= 1
    assert (simulator.action_low < simulator.action_high).all()


def test_the_same_input_gives_the_same_output_whatever_came_between(simulator: Simulator) -> None:
    states, actions, next_states = walk(simulator)
    walk(simulator, agents=3, seed=1)
    assert np.array_equal(simulator.step(states, actions), simulator.step(states, actions))
    assert np.array_equal(walk(simulator)[2], next_states)


def test_other_generators_start_elsewhere_and_the_same_one_starts_the_same(simulator: Simulator) -> None:
    first, again, other = (simulator.initial_states(5, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert len(np.unique(first, axis=0)) == 5


@pytest.mark.parametrize("count", [2, 33, 200])
def test_a_batch_equals_batches_of_one(simulator: Simulator, count: int) -> None:
    states, actions, _ = (each[-count:] for each in walk(simulator))
    one_by_one = [simulator.step(states[[index]], actions[[index]]) for index in range(count)]
    stepped = simulator.step(states, actions)
    assert np.array_equal(stepped, np.concatenate(one_by_one))
    assert np.array_equal(simulator.observe(states), np.concatenate([simulator.observe(states[[index]]) for index in range(count)]))
    rewards = [rewards_of(simulator, states[[index]], actions[[index]], stepped[[index]]) for index in range(count)]
    assert np.array_equal(rewards_of(simulator, states, actions, stepped), np.concatenate(rewards))
    assert np.array_equal(simulator.terminated(states), np.concatenate([simulator.terminated(states[[index]]) for index in range(count)]))


def test_a_shorter_batch_after_a_longer_one_steps_the_right_rows(simulator: Simulator) -> None:
    states, actions, next_states = walk(simulator, agents=20, steps=10)
    kept = [3, 11, 7]
    assert np.array_equal(simulator.step(states[kept], actions[kept]), next_states[kept])


def test_inputs_are_left_unchanged_and_outputs_are_new(simulator: Simulator) -> None:
    states, actions, next_states = walk(simulator)
    observations = simulator.observe(states)
    inputs = (states, actions, next_states, observations)
    before = [each.copy() for each in inputs]
    for each in inputs:
        each.flags.writeable = False
    results = [
        simulator.step(states, actions),
        simulator.observe(states),
        simulator.restore(observations),
        simulator.restore(observations, like=states),
        rewards_of(simulator, states, actions, next_states),
        simulator.terminated(states),
    ]
    assert all(np.array_equal(one, other) for one, other in zip(inputs, before, strict=True))
    assert not any(np.shares_memory(result, each) for result in results for each in inputs)


def test_an_earlier_result_survives_later_steps(simulator: Simulator) -> None:
    states, actions, _ = walk(simulator)
    result = simulator.step(states, actions)
    kept = result.copy()
    simulator.step(result, -actions)
    assert np.array_equal(result, kept)


def test_observing_a_restored_state_gives_the_observation(simulator: Simulator) -> None:
    states, _, next_states = walk(simulator)
    for each in (states, next_states):
        observations = simulator.observe(each)
        assert np.abs(simulator.observe(simulator.restore(observations)) - observations).max() < 1e-12
        assert np.abs(simulator.observe(simulator.restore(observations, like=next_states)) - observations).max() < 1e-12


def test_restoring_keeps_what_observations_do_not_show(simulator: Simulator) -> None:
    states, actions, _ = walk(simulator)
    like = states[::-1]
    hidden = hidden_columns(simulator)
    restored = simulator.restore(simulator.observe(states), like=like)
    assert np.array_equal(restored[:, hidden], like[:, hidden])
    resumed = simulator.restore(simulator.observe(states), like=states)
    assert np.array_equal(resumed[:, hidden], states[:, hidden])
    told = restorable(simulator, simulator.observe(states))  # a clipped velocity is not
    going_on, uninterrupted = (simulator.observe(simulator.step(each[told], actions[told])) for each in (resumed, states))
    assert np.abs(going_on - uninterrupted).max() < 1e-9


def test_the_reward_is_a_function_of_the_transition_alone(simulator: Simulator) -> None:
    if not has_reward(simulator):
        pytest.skip("it has none")
    states, actions, next_states = walk(simulator)
    rewards = simulator.reward(states, actions, next_states)
    order = np.random.default_rng(0).permutation(len(states))
    simulator.step(next_states, actions)
    assert np.array_equal(simulator.reward(states[order], actions[order], next_states[order]), rewards[order])
    if not isinstance(simulator, Panda):  # which pays alike on the way; see paper/test_panda.py
        assert len(np.unique(rewards)) > 1, "this walk cannot tell rewards apart"


def test_actions_are_clipped_to_their_limits(simulator: Simulator) -> None:
    states, _, _ = walk(simulator)
    for beyond, limit in ((5.0, simulator.action_high), (-5.0, simulator.action_low)):
        shape = (len(states), len(limit))
        assert np.array_equal(simulator.step(states, np.full(shape, beyond)), simulator.step(states, np.broadcast_to(limit, shape)))


def test_an_action_that_is_not_a_number_ends_its_agent_alone(simulator: Simulator) -> None:
    states = simulator.initial_states(3, np.random.default_rng(0))
    actions = np.tile(simulator.action_high, (3, 1))
    actions[1, 0] = np.nan
    moved, diverged = advance(simulator, states, actions)
    assert diverged.tolist() == [False, True, False]
    assert np.array_equal(moved[1], states[1])
    assert np.array_equal(moved[[0, 2]], simulator.step(states, np.tile(simulator.action_high, (3, 1)))[[0, 2]])


def test_actions_of_another_width_are_refused(simulator: Simulator) -> None:
    states, width = simulator.initial_states(3, np.random.default_rng(0)), len(simulator.action_low)
    for wrong in ((3, width + 1), (1, width), (3,)):
        with pytest.raises(ImitableError, match=rf"shape \({wrong[0]},.*3 agents need \(3, {width}\)"):
            advance(simulator, states, np.zeros(wrong))


def test_the_dynamics_cannot_be_changed(simulator: Simulator) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        simulator.horizon = 1  # type: ignore[misc]


# Stepping


def test_rewards_are_of_actions_within_their_limits(simulator: Simulator) -> None:
    if not has_reward(simulator):
        pytest.skip("it has none")
    states, actions, next_states = walk(simulator)
    clipped = np.clip(actions, simulator.action_low, simulator.action_high)
    assert not np.array_equal(clipped, actions)
    assert np.array_equal(reward_of(simulator, states, actions, next_states), simulator.reward(states, clipped, next_states))


def test_the_number_of_threads_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv(physics.THREADS, threads)
        results.append(walk(reacher.CLOCKWISE, agents=150, steps=30)[2])
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


@pytest.mark.parametrize("given", ["0", "-1", "two", "1.5"])
def test_a_number_of_threads_that_makes_no_sense_is_refused(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv(physics.THREADS, given)
    with pytest.raises(ImitableError, match=rf"IMITABLE_THREADS is '{given}'; it must be a whole number from 1 on"):
        reacher.CLOCKWISE.step(np.zeros((1, 5)), np.zeros((1, 1)))


@pytest.mark.parametrize("simulator", [swimmer.BACK_DISABLED, ant.X_AXIS, reacher.CLOCKWISE])
def test_a_simulation_that_diverges_does_not_poison_the_others(simulator: Simulator, capfd: pytest.CaptureFixture[str]) -> None:
    states, actions, next_states = walk(simulator, agents=6, steps=5)
    width = simulator.physics.model.nq
    broken = states.copy()
    broken[2, width] = 1e14  # a velocity that no simulation survives
    moved = simulator.step(broken, actions)
    others = np.arange(len(states)) != 2
    assert np.isnan(moved[2]).all()
    assert np.array_equal(moved[others], next_states[others])
    stayed, diverged = advance(simulator, broken, actions)
    assert np.flatnonzero(diverged).tolist() == [2]
    assert np.array_equal(stayed[2], broken[2])
    assert "unstable" not in "".join(capfd.readouterr())


def test_a_state_that_is_not_finite_ends_its_agent_alone() -> None:
    states = np.array([[0.0, 1.0], [-0.45, 1.0], [0.0, 2.0]])
    moved, diverged = advance(turntable.BRITTLE, states, np.array([[-1.0]] * 3))
    assert diverged.tolist() == [False, True, False]
    assert moved.tolist() == [[-0.1, 1.0], [-0.45, 1.0], [-0.1, 2.0]]
