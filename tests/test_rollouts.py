"""Rollouts that can be told apart, whole episodes, and random exploration."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import turntable
from countdown import Countdown
from imitable.arrays import Array
from imitable.errors import ImitableError
from imitable.rollouts import Reward, Rollout, RolloutState, collect_rollout, explore, n_envs_for, run_episodes
from imitable.simulators import Simulator, reward_of


def still(observations: Array) -> Array:
    return np.zeros((len(observations), 1))


# Whole episodes


def test_episodes_end_when_they_terminate_or_at_the_horizon() -> None:
    simulator = Countdown(lengths=(2, 9, 1, 6), horizon=6)
    actions = iter(range(1, 7))
    episodes = run_episodes(
        simulator, lambda observations: np.full((len(observations), 1), 0.1 * next(actions)), count=4, rng=np.random.default_rng(0)
    )
    made = episodes.trajectories
    assert made.lengths.tolist() == [2, 6, 1, 6]
    for index, length in enumerate(made.lengths):
        assert made.trajectory(index)[:, 1].tolist() == list(range(length + 1))
        assert set(made.trajectory(index)[:, 2]) == {index}
        assert made.returns[index] == pytest.approx(sum(step + 0.01 * (step - 1) for step in range(1, length + 1)))
    assert episodes.actions[:, 0] == pytest.approx([0.1 * step for length in made.lengths for step in range(1, length + 1)])


def test_stepping_stops_when_all_episodes_have_ended() -> None:
    calls = []

    def act(observations: Array) -> Array:
        calls.append(len(observations))
        return still(observations)

    run_episodes(Countdown(lengths=(2, 3)), act, count=2, rng=np.random.default_rng(0))
    assert len(calls) == 3


def test_recorded_actions_are_those_the_simulator_took() -> None:
    episodes = run_episodes(Countdown(lengths=(2,)), lambda observations: np.array([[5.0]]), count=1, rng=np.random.default_rng(0))
    assert episodes.actions.tolist() == [[1.0], [1.0]]


def test_the_reward_sees_actions_as_they_were_carried_out() -> None:
    seen: list[Array] = []

    class Watched(Countdown):
        def reward(self, states: Array, actions: Array, next_states: Array) -> Array:
            seen.append(actions)
            return np.ones(len(states))

    simulator = Watched(lengths=(2, 2))
    run_episodes(simulator, lambda observations: np.full((len(observations), 1), 5.0), count=1, rng=np.random.default_rng(0))
    reward_of(simulator, np.zeros((1, 3)), np.array([[-7.0]]), np.zeros((1, 3)))
    assert [each.tolist() for each in seen] == [[[1.0]], [[1.0]], [[-1.0]]]


def test_episodes_carry_the_names_of_the_robots_columns() -> None:
    episodes = run_episodes(Countdown(lengths=(2,)), still, count=1, rng=np.random.default_rng(0))
    assert episodes.trajectories.observation_names == ("length", "step", "serial")


def test_progress_is_told_and_never_falls() -> None:
    fractions: list[float] = []
    run_episodes(Countdown(lengths=(2, 9)), still, count=2, rng=np.random.default_rng(0), progress=fractions.append)
    assert fractions == pytest.approx([step / 6 for step in range(1, 7)])


# Rollouts of fixed length


def two_agents(simulator: Simulator, act: Callable[[Array], Array], *, steps: int, reward: Reward | None = None) -> Rollout:
    rng = np.random.default_rng(0)
    return collect_rollout(simulator, act, state=RolloutState.fresh(simulator, 2, rng), steps=steps, rng=rng, reward=reward)


def test_an_agent_whose_episode_ends_starts_a_new_one() -> None:
    simulator = Countdown(lengths=(2, 9, 3, 1, 9, 9, 9), horizon=7)
    rollout = two_agents(simulator, still, steps=7)
    serial = rollout.observations[:, :, 2]
    assert serial[:, 0].tolist() == [0, 0, 2, 2, 2, 3, 4]
    assert serial[:, 1].tolist() == [1] * 7
    assert rollout.observations[:, 0, 1].tolist() == [0, 1, 0, 1, 2, 0, 0]
    assert rollout.next_observations[:, 0, 1].tolist() == [1, 2, 1, 2, 3, 1, 1]
    assert np.array_equal(rollout.next_observations[:, :, 2], serial), "a next observation belongs to a new episode"
    assert rollout.terminated[:, 0].tolist() == [False, True, False, False, True, True, False]
    assert not rollout.terminated[:, 1].any()
    assert rollout.steps == 14


def test_agents_go_on_where_they_were_and_start_anew_at_the_horizon() -> None:
    simulator, rng = Countdown(lengths=(9, 2, 9, 9, 9, 9), horizon=4), np.random.default_rng(0)
    start = RolloutState.staggered(simulator, 2, rng)
    assert start.steps_left.tolist() == [4, 2]
    first = collect_rollout(simulator, still, state=start, steps=3, rng=rng)
    # The second agent ends after two steps, when its time is up as well, and the third episode takes its place.
    assert first.observations[:, :, 2].tolist() == [[0, 1], [0, 1], [0, 2]]
    assert first.terminated.tolist() == [[False, False], [False, True], [False, False]]
    assert first.truncated.tolist() == [[False, False], [False, False], [True, True]], "the batch is full"
    assert first.state.steps_left.tolist() == [1, 3]
    second = collect_rollout(simulator, still, state=first.state, steps=3, rng=rng)
    assert second.observations[:, 0, 1:].tolist() == [[3, 0], [0, 3], [1, 3]]
    assert second.observations[:, 1, 1:].tolist() == [[1, 2], [2, 2], [3, 2]]
    assert second.truncated.tolist() == [[True, False], [False, False], [True, True]]
    assert second.next_observations[0, 0].tolist() == [9, 4, 0], "where the episode was truncated, not where the next began"
    assert second.state.steps_left.tolist() == [2, 0]
    assert collect_rollout(simulator, still, state=second.state, steps=1, rng=rng).observations[0, 1, 1:].tolist() == [0, 4]
    assert start.steps_left.tolist() == [4, 2], "a rollout changed the state it was given"


def test_flattened_transitions_and_rewards_stay_aligned() -> None:
    simulator = Countdown(lengths=(2, 9, 3, 9))
    rollout = two_agents(simulator, still, steps=4, reward=partial(reward_of, simulator))
    before, after = rollout.transitions()
    assert np.array_equal(after[:, 1], before[:, 1] + 1)
    assert np.array_equal(before.reshape(4, 2, 3), rollout.observations)
    assert rollout.rewards == pytest.approx(rollout.next_observations[:, :, 1] + 0.01 * rollout.observations[:, :, 1])


def test_a_rollout_without_a_reward_function_has_no_rewards() -> None:
    assert two_agents(Countdown(lengths=(9, 9)), still, steps=2).rewards.size == 0


def test_as_many_agents_as_make_the_batch_in_whole_episodes_and_at_least_one() -> None:
    assert [n_envs_for(batch_size, turntable.CLOCKWISE) for batch_size in (1, 10, 50, 400, 420)] == [1, 1, 1, 8, 8]


def test_fresh_agents_start_alike_and_staggered_ones_end_at_different_times() -> None:
    simulator, rng = Countdown(lengths=(9,) * 9, horizon=6), np.random.default_rng(0)
    assert RolloutState.fresh(simulator, 3, rng).steps_left.tolist() == [6, 6, 6]
    assert RolloutState.staggered(simulator, 3, rng).steps_left.tolist() == [6, 4, 2]


def test_a_policy_of_the_wrong_width_is_refused_by_name() -> None:
    with pytest.raises(ImitableError, match=r"actions have shape \(2, 3\)"):
        two_agents(turntable.CLOCKWISE, lambda seen: np.zeros((len(seen), 3)), steps=2)


# Simulations that break down


def left_or_still(observations: Array) -> Array:
    """Every other agent turns clockwise at full speed: 0.1 rad a step, so that the sixth passes -0.5."""
    return np.where(np.arange(len(observations)) % 2, 0.0, -1.0)[:, None]


def test_an_episode_that_breaks_down_ends_and_is_counted() -> None:
    episodes = run_episodes(turntable.BRITTLE, left_or_still, count=4, rng=np.random.default_rng(0))
    assert episodes.diverged == 2
    assert episodes.trajectories.lengths.tolist() == [5, 50, 5, 50], "without the step that broke it"
    assert len(episodes.actions) == 110
    whole = run_episodes(turntable.CLOCKWISE, left_or_still, count=4, rng=np.random.default_rng(0)).trajectories
    assert np.array_equal(episodes.trajectories.trajectory(0), whole.trajectory(0)[:6])
    begun = turntable.CLOCKWISE.restore(whole.trajectory(0)[:6])
    assert episodes.trajectories.returns[0] == pytest.approx(turntable.CLOCKWISE.reward(begun[:-1], episodes.actions[:5], begun[1:]).sum())
    assert np.array_equal(episodes.trajectories.trajectory(1), whole.trajectory(1))
    at_once = replace(turntable.BRITTLE, limit=-0.01)
    assert run_episodes(at_once, left_or_still, count=2, rng=np.random.default_rng(0)).trajectories.lengths.tolist() == [1, 50]


def test_an_agent_that_breaks_down_starts_anew_and_is_counted() -> None:
    rollout = two_agents(turntable.BRITTLE, left_or_still, steps=13, reward=lambda before, actions, after: np.ones(2))
    assert rollout.rewards[:, 0].tolist() == [1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 1], "a step that breaks down earns nothing"
    assert rollout.diverged == 2
    assert np.flatnonzero(rollout.terminated[:, 0]).tolist() == [5, 11]
    assert not rollout.terminated[:, 1].any()
    assert np.isfinite(rollout.observations).all()
    assert np.isfinite(rollout.next_observations).all()


# Exploration


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


def test_every_episode_of_gentle_exploration_keeps_to_its_own_fraction_of_the_action_range() -> None:
    gentle = explore(turntable.CLOCKWISE, count=40, min_action_scale=0.2, rng=np.random.default_rng(0)).actions.reshape(40, 50)
    largest = np.abs(gentle).max(axis=1)
    assert 0.15 < largest.min() < 0.5
    assert 0.8 < largest.max() <= 1
    lopsided = replace(turntable.CLOCKWISE, action_low=np.array([0.4]))
    still = explore(lopsided, count=4, min_action_scale=0.0, rng=np.random.default_rng(0)).actions
    assert still.mean() == pytest.approx(0.7, abs=0.1), "fractions are of the range, around its middle"


def test_explored_actions_explain_their_transitions() -> None:
    explored = explore(turntable.COUNTER_CLOCKWISE, count=4, rng=np.random.default_rng(0))
    rows, observations = explored.trajectories.transition_rows, explored.trajectories.observations
    exact = turntable.ExactInverse(turntable.COUNTER_CLOCKWISE)
    turned = exact(turntable.COUNTER_CLOCKWISE.restore(observations[rows]), observations[rows + 1]).actions
    assert turned == pytest.approx(np.maximum(explored.actions, 0), abs=1e-9)
