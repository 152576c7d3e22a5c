"""Advantages by hand, trust-region steps against numerical derivatives, and agents that learn."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import turntable
from countdown import Countdown
from imitable.arrays import Array, Snapshot
from imitable.errors import ImitableError
from imitable.evaluation import evaluate
from imitable.networks import Mlp, Policy
from imitable.rollouts import Rollout, RolloutState, collect_rollout, run_episodes
from imitable.simulators import Simulator, reward_of
from imitable.trpo import (
    ActorCritic,
    TrainingBatch,
    TrainingState,
    Trpo,
    collect_episodes,
    compute_gae,
    compute_returns_and_advantages,
    conjugate_gradient,
    train,
    trust_region_step,
)


def still(observations: Array) -> Array:
    return np.zeros((len(observations), 1))


# Advantages


def rollout_of(terminated: list[list[bool]], truncated: list[list[bool]] | None = None) -> Rollout:
    ends = np.array(terminated)
    nothing = np.zeros((*ends.shape, 1))
    truncations = np.zeros_like(ends) if truncated is None else np.array(truncated)
    state = RolloutState(np.zeros((ends.shape[1], 1)), np.zeros(ends.shape[1], np.int64))
    return Rollout(nothing, nothing, nothing, ends, truncations, 0, np.zeros(0), np.zeros_like(ends, int), state)


def test_advantages_by_hand_with_a_time_limit() -> None:
    rollout = rollout_of([[False], [False]])
    found = compute_gae(np.array([[1.0], [2.0]]), np.array([[3.0], [5.0]]), np.array([[5.0], [7.0]]), rollout, gamma=0.5, gae_lambda=0.4)
    # Deltas: 1 + 0.5 * 5 - 3 = 0.5 and 2 + 0.5 * 7 - 5 = 0.5: the time limit bootstraps from 7. Then 0.5 + 0.5 * 0.4 * 0.5.
    assert found == pytest.approx(np.array([[0.6], [0.5]]), abs=1e-12)


def test_advantages_by_hand_with_an_end() -> None:
    rollout = rollout_of([[False], [True], [False]])
    rewards, values, next_values = (np.array(each)[:, None] for each in ([1.0, 2.0, 4.0], [3.0, 5.0, 6.0], [5.0, 99.0, 8.0]))
    found = compute_gae(rewards, values, next_values, rollout, gamma=0.5, gae_lambda=0.4)
    # 4 + 0.5 * 8 - 6 = 2 belongs to the next episode; 2 - 5 = -3 has no future; 1 + 0.5 * 5 - 3 + 0.2 * -3 = -0.1.
    assert found == pytest.approx(np.array([[-0.1], [-3.0], [2.0]]), abs=1e-12)


def test_advantages_by_hand_with_a_time_limit_in_the_middle() -> None:
    rollout = rollout_of([[False], [False], [False]], truncated=[[False], [True], [True]])
    rewards, values, next_values = (np.array(each)[:, None] for each in ([1.0, 2.0, 4.0], [3.0, 5.0, 6.0], [5.0, 7.0, 8.0]))
    found = compute_gae(rewards, values, next_values, rollout, gamma=0.5, gae_lambda=0.4)
    # 4 + 0.5 * 8 - 6 = 2 belongs to the next episode; 2 + 0.5 * 7 - 5 = 0.5 looks ahead by its value alone; 0.5 + 0.2 * 0.5.
    assert found == pytest.approx(np.array([[0.6], [0.5], [2.0]]), abs=1e-12)


def test_advantages_equal_their_definition_as_a_sum() -> None:
    rng = np.random.default_rng(0)
    time, agents, gamma, gae_lambda = 30, 4, 0.9, 0.8
    terminated, truncated = rng.random((time, agents)) < 0.15, rng.random((time, agents)) < 0.15
    rewards, values, next_values = rng.normal(size=(3, time, agents))
    found = compute_gae(rewards, values, next_values, rollout_of(terminated, truncated & ~terminated), gamma=gamma, gae_lambda=gae_lambda)
    delta = rewards + gamma * next_values * ~terminated - values
    for agent in range(agents):
        for begin in range(time):
            total, factor = 0.0, 1.0
            for later in range(begin, time):
                total, factor = total + factor * delta[later, agent], factor * gamma * gae_lambda
                if terminated[later, agent] or truncated[later, agent]:
                    break
            assert found[begin, agent] == pytest.approx(total, abs=1e-10)


def test_with_a_perfect_value_function_all_advantages_are_zero() -> None:
    simulator = Countdown(lengths=(3, 9, 9, 2, 9, 9), horizon=5)
    rng = np.random.default_rng(0)
    rollout = collect_rollout(simulator, still, state=RolloutState.fresh(simulator, 2, rng), steps=5, rng=rng)
    length, step, _ = np.moveaxis(rollout.observations, -1, 0)
    left = np.where(length < 9, length - step, np.inf)
    values = np.where(np.isinf(left), 1 / (1 - 0.5), 2 * (1 - 0.5 ** np.where(np.isinf(left), 0, left)))
    next_values = np.concatenate([values[1:], np.full((1, 2), 2.0)])
    last_length, last_step, _ = np.moveaxis(rollout.next_observations[-1], -1, 0)
    next_values[-1] = np.where(last_length < 9, 2 * (1 - 0.5 ** (last_length - last_step)), 2.0)
    found = compute_gae(np.ones((5, 2)), values, next_values, rollout, gamma=0.5, gae_lambda=0.9)
    assert found == pytest.approx(np.zeros((5, 2)), abs=1e-12)


def test_a_truncated_episode_bootstraps_from_the_value_of_where_it_was_truncated() -> None:
    simulator, rng = Countdown(lengths=(9,) * 9, horizon=4), np.random.default_rng(0)
    rollout = collect_rollout(simulator, still, state=RolloutState.staggered(simulator, 2, rng), steps=6, rng=rng)
    policy = Policy.fresh(Mlp((3, 1)), center=np.zeros(3), scale=np.ones(3), low=-np.ones(1), high=np.ones(1), std=1.0, rng=rng)
    value_parameters = np.array([0.0, 10.0, 0.0, 0.0], np.float32)  # the value is 10 times the step
    batch = compute_returns_and_advantages(rollout, np.ones((6, 2)), policy, Mlp((3, 1)), value_parameters, gamma=0.5, gae_lambda=0.0)
    # Each value target is 1 + 0.5 * 10 * (step + 1), whether or not it was the last of its episode.
    assert batch.value_targets.reshape(6, 2) == pytest.approx(1 + 5 * rollout.next_observations[:, :, 1])


def test_a_training_batch_is_standardized_and_flat() -> None:
    simulator, rng = Countdown(lengths=(9,) * 9, horizon=4), np.random.default_rng(0)
    act = iter(np.arange(8.0).reshape(4, 2, 1))
    rollout = collect_rollout(simulator, lambda _: next(act), state=RolloutState.fresh(simulator, 2, rng), steps=4, rng=rng)
    policy = Policy.fresh(Mlp((3, 1)), center=np.ones(3), scale=2 * np.ones(3), low=-np.ones(1), high=np.ones(1), std=1.0, rng=rng)
    rewards = rng.normal(size=(4, 2))
    batch = compute_returns_and_advantages(rollout, rewards, policy, Mlp((3, 1)), np.zeros(4, np.float32), gamma=0.5, gae_lambda=1.0)
    assert batch.inputs == pytest.approx((rollout.observations.reshape(8, 3) - 1) / 2)
    assert batch.actions[:, 0].tolist() == list(range(8))
    assert batch.advantages.mean() == pytest.approx(0, abs=1e-6)
    assert batch.advantages.std() == pytest.approx(1, abs=1e-6)
    discounted = [sum(0.5**later * rewards[time + later] for later in range(4 - time)) for time in range(4)]
    assert batch.value_targets.reshape(4, 2) == pytest.approx(np.array(discounted), abs=1e-6), "a value of 0 leaves the discounted return"


# Conjugate gradients


def test_conjugate_gradients_solve_what_numpy_solves() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(8, 8))
    matrix, target = root @ root.T + np.eye(8), rng.normal(size=8)
    found, residual = conjugate_gradient(lambda vector: matrix @ vector, target, iterations=9)
    assert found == pytest.approx(np.linalg.solve(matrix, target), abs=1e-5)
    assert residual == pytest.approx(target - matrix @ found, abs=1e-9)


def test_more_iterations_come_nearer_and_nothing_asked_is_nothing_found() -> None:
    matrix, target = np.diag([1.0, 10.0, 100.0]), np.ones(3)
    exact = np.linalg.solve(matrix, target)
    found = [conjugate_gradient(matrix.__matmul__, target, iterations=count) for count in (1, 2, 3)]
    errors = [np.linalg.norm(solution - exact) for solution, _ in found]
    assert errors[0] > errors[1] > errors[2]
    assert all(residual == pytest.approx(target - matrix @ solution, abs=1e-9) for solution, residual in found)
    assert not conjugate_gradient(matrix.__matmul__, np.zeros(3), iterations=5)[0].any()
    assert target.tolist() == [1.0, 1.0, 1.0]


# Trust regions

TINY = Mlp((2, 3, 2))


def tiny_policy(seed: int = 0) -> Policy:
    rng = np.random.default_rng(seed)
    ones = np.ones(2, np.float32)
    parameters = rng.uniform(-0.8, 0.8, TINY.size).astype(np.float32)
    return Policy(TINY, parameters, 0 * ones, ones, -ones, ones, log_std=np.array([-0.4, 0.3], np.float32))


def batch_of(policy: Policy, count: int = 40, seed: int = 1) -> TrainingBatch:
    rng = np.random.default_rng(seed)
    observations = rng.normal(size=(count, 2))
    actions = policy.sample(observations, rng).astype(np.float32)
    advantages = (actions[:, 0] - 0.5 * actions[:, 1] ** 2 + 0.1 * rng.normal(size=count)).astype(np.float32)
    standardized = (advantages - advantages.mean()) / advantages.std()
    return TrainingBatch(policy.normalize_obs(observations), actions, standardized, np.zeros((count, 1), np.float32))


def distribution(theta: np.ndarray, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and log standard deviation, in double precision."""
    return TINY.forward(theta[: TINY.size], inputs.astype(np.float64))[-1], theta[TINY.size :]


def divergence(old: np.ndarray, new: np.ndarray, inputs: np.ndarray) -> float:
    """Mean KL of the new policy from the old one, KL(old, new)."""
    (mean, log_std), (new_mean, new_log_std) = distribution(old, inputs), distribution(new, inputs)
    ratio = (np.exp(2 * log_std) + (mean - new_mean) ** 2) / (2 * np.exp(2 * new_log_std))
    return float((new_log_std - log_std + ratio - 0.5).sum(axis=1).mean())


def surrogate(old: np.ndarray, new: np.ndarray, batch: TrainingBatch) -> float:
    """Mean of likelihood ratio times advantage."""

    def log_density(theta: np.ndarray) -> np.ndarray:
        mean, log_std = distribution(theta, batch.inputs)
        return (-0.5 * ((batch.actions - mean) / np.exp(log_std)) ** 2 - log_std).sum(axis=1)

    return float((np.exp(log_density(new) - log_density(old)) * batch.advantages).mean())


def theta_of(policy: Policy) -> np.ndarray:
    return np.concatenate([policy.parameters, policy.log_std]).astype(np.float64)


def numerical_gradient(policy: Policy, batch: TrainingBatch) -> np.ndarray:
    """Of the surrogate, at the policy itself."""
    theta, step = theta_of(policy), 1e-6
    moves = step * np.eye(len(theta))
    return np.array([(surrogate(theta, theta + move, batch) - surrogate(theta, theta - move, batch)) / (2 * step) for move in moves])


def numerical_hessian(policy: Policy, batch: TrainingBatch) -> np.ndarray:
    """Of the KL divergence, at the policy itself."""
    theta, step = theta_of(policy), 1e-3
    moves, signs = step * np.eye(len(theta)), [(one, other) for one in (1, -1) for other in (1, -1)]
    return np.array(
        [
            [sum(a * b * divergence(theta, theta + a * one + b * other, batch.inputs) for a, b in signs) / (4 * step**2) for other in moves]
            for one in moves
        ]
    )


def test_under_heavy_damping_the_step_follows_the_gradient_of_the_surrogate() -> None:
    policy = tiny_policy()
    batch = batch_of(policy)
    batch = replace(batch, advantages=batch.advantages + 0.5)  # whatever their mean
    improved, _ = trust_region_step(policy, batch, trpo=Trpo(cg_damping=1e5, max_kl=0.1), rng=np.random.default_rng(0))
    step, gradient = theta_of(improved) - theta_of(policy), numerical_gradient(policy, batch)
    assert step / np.linalg.norm(step) == pytest.approx(gradient / np.linalg.norm(gradient), abs=1e-3)


@pytest.mark.parametrize("cg_damping", [0.01, 0.1, 1.0])
def test_the_step_is_the_natural_gradient_scaled_to_the_divergence(cg_damping: float) -> None:
    policy = tiny_policy()
    batch = batch_of(policy)
    settings = Trpo(cg_damping=cg_damping, fisher_fraction=1.0, cg_iterations=60, max_kl=1e-5)
    improved, _ = trust_region_step(policy, batch, trpo=settings, rng=np.random.default_rng(0))
    gradient, hessian = numerical_gradient(policy, batch), numerical_hessian(policy, batch)
    natural = np.linalg.solve(hessian + cg_damping * np.eye(len(gradient)), gradient)
    expected = natural * np.sqrt(2 * settings.max_kl / (gradient @ natural))
    assert np.linalg.norm(theta_of(improved) - theta_of(policy) - expected) < 1e-3 * np.linalg.norm(expected)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("max_kl", [0.01, 0.3])
def test_a_step_improves_and_stays_within_its_divergence(seed: int, max_kl: float) -> None:
    policy = tiny_policy(seed)
    batch = batch_of(policy, count=400, seed=seed)
    improved, diagnostics = trust_region_step(policy, batch, trpo=Trpo(max_kl=max_kl, cg_damping=0.01), rng=np.random.default_rng(0))
    theta, moved = theta_of(policy), theta_of(improved)
    found = divergence(theta, moved, batch.inputs)
    assert 0.1 * max_kl < found <= max_kl * (1 + 1e-4)
    assert diagnostics["kl"] == pytest.approx(found, rel=1e-2)
    gained = surrogate(theta, moved, batch) - surrogate(theta, theta, batch)
    assert gained > 0
    assert diagnostics["surrogate improvement"] == pytest.approx(gained, rel=1e-2)


def test_equal_advantages_move_nothing() -> None:
    policy = tiny_policy()
    batch = batch_of(policy)
    same, diagnostics = trust_region_step(
        policy, replace(batch, advantages=0 * batch.advantages), trpo=Trpo(), rng=np.random.default_rng(0)
    )
    assert same is policy
    assert diagnostics == {"kl": 0.0, "surrogate improvement": 0.0}


def test_a_step_leaves_its_inputs_alone() -> None:
    policy = tiny_policy()
    batch = batch_of(policy)
    before = [each.copy() for each in (policy.parameters, policy.log_std, batch.inputs, batch.actions, batch.advantages)]
    trust_region_step(policy, batch, trpo=Trpo(), rng=np.random.default_rng(0))
    after = (policy.parameters, policy.log_std, batch.inputs, batch.actions, batch.advantages)
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))


# Learning agents

SMALL = Trpo(batch_size=400, hidden_sizes=(8, 8), value_minibatches=4)


def start(settings: Trpo, simulator: Simulator = turntable.CLOCKWISE) -> ActorCritic:
    return settings.init_agent(simulator, center=np.zeros(4), scale=np.ones(4), rng=np.random.default_rng(0))


def test_a_batch_is_made_of_whole_episodes() -> None:
    agent = start(SMALL)
    rollout = SMALL.collect_rollouts(turntable.CLOCKWISE, agent, rng=np.random.default_rng(0))
    assert rollout.observations.shape == (50, 8, 4)
    assert collect_episodes(turntable.CLOCKWISE, agent.policy, batch_size=10, rng=np.random.default_rng(0)).steps == 50, "at least one"


def test_a_batch_of_more_agents_goes_on_where_the_last_one_stopped() -> None:
    settings, rng, target = replace(SMALL, n_envs=20), np.random.default_rng(0), turntable.CLOCKWISE
    agent = start(settings)
    first = settings.collect_rollouts(target, agent, rng=rng, reward=partial(reward_of, target))
    assert first.observations.shape == (20, 20, 4)
    improved, _ = settings.update(agent, first, first.rewards, rng=rng)
    second = settings.collect_rollouts(target, improved, rng=rng)
    going_on = first.state.steps_left > 0
    assert 0 < going_on.sum() < 20
    assert np.array_equal(second.observations[0, going_on], first.next_observations[-1, going_on])
    assert not np.isclose(second.observations[0, ~going_on], first.next_observations[-1, ~going_on]).all(axis=1).any()


def test_more_agents_than_steps_take_a_step_each() -> None:
    settings = replace(SMALL, batch_size=10, n_envs=20)
    assert settings.collect_rollouts(turntable.CLOCKWISE, start(settings), rng=np.random.default_rng(0)).steps == 20


def test_the_value_function_learns_and_the_old_agent_is_left_alone() -> None:
    agent, rng = start(SMALL), np.random.default_rng(1)
    rollout = SMALL.collect_rollouts(turntable.CLOCKWISE, agent, rng=rng)
    before = {name: array.copy() for name, array in agent.arrays().items()}
    network, inputs = SMALL.value_network(4), agent.policy.normalize_obs(rollout.observations.reshape(-1, 4))
    targets = np.full((400, 1), -3.0, np.float32)
    batch = TrainingBatch(inputs, np.zeros((400, 1), np.float32), np.zeros(400, np.float32), targets)
    patient = replace(SMALL, value_learning_rate=0.01, value_epochs=50)
    fitted, optimizer = patient.fit_value_function(start(patient), network, batch, rng=rng)
    assert network.forward(fitted, inputs)[-1] == pytest.approx(targets, abs=0.3)
    assert optimizer.steps == 200
    improved, diagnostics = SMALL.update(agent, rollout, np.full((50, 8), -1.0), rng=rng)
    assert diagnostics["std"] == pytest.approx(np.exp(improved.policy.log_std).mean())
    assert not np.array_equal(improved.value_parameters, agent.value_parameters)
    after = agent.arrays()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_a_batch_smaller_than_the_number_of_minibatches_is_no_obstacle() -> None:
    settings = Trpo(batch_size=10, hidden_sizes=(4,))
    brief = replace(turntable.CLOCKWISE, horizon=10)
    agent, rng = start(settings, brief), np.random.default_rng(0)
    rollout = settings.collect_rollouts(brief, agent, rng=rng, reward=partial(reward_of, brief))
    improved, _ = settings.update(agent, rollout, rollout.rewards, rng=rng)
    assert np.isfinite(improved.value_parameters).all()


def training(settings: Trpo, *, seed: int, resume: Snapshot | None = None) -> Iterator[TrainingState]:
    reward, rng = partial(reward_of, turntable.CLOCKWISE), np.random.default_rng(seed)
    return train(turntable.CLOCKWISE, trpo=settings, reward=reward, rng=rng, resume=resume)


def test_training_is_repeatable_and_counts_its_steps() -> None:
    one, again, other = ([next(states) for _ in range(3)] for states in (training(SMALL, seed=seed) for seed in (0, 0, 1)))
    assert [state.steps for state in one] == [0, 400, 800]
    first, last, same, elsewhere = (each.agent.policy.parameters for each in (one[0], one[-1], again[-1], other[-1]))
    assert np.array_equal(last, same)
    assert not np.array_equal(last, elsewhere)
    assert not np.array_equal(last, first)


@pytest.mark.parametrize("n_envs", [0, 20])
def test_training_goes_on_from_a_snapshot_as_if_it_had_never_stopped(n_envs: int) -> None:
    settings = replace(SMALL, n_envs=n_envs)
    whole = training(settings, seed=0)
    next(whole), next(whole)
    snapshot = next(whole).snapshot()
    resumed = training(settings, seed=1, resume=snapshot)
    assert next(resumed).steps == 800
    for one, other in zip((next(whole), next(whole)), (next(resumed), next(resumed)), strict=True):
        assert one.steps == other.steps
        assert np.array_equal(one.agent.policy.parameters, other.agent.policy.parameters)
        assert np.array_equal(one.agent.value_parameters, other.agent.value_parameters)


def test_a_snapshot_of_whole_episodes_goes_on_with_agents_at_new_starts() -> None:
    snapshot = next(training(SMALL, seed=0)).snapshot()
    agent = next(training(replace(SMALL, n_envs=20), seed=1, resume=snapshot)).agent
    assert np.array_equal(agent.policy.parameters, snapshot["policy"])
    assert agent.rollout_state is not None
    assert (
        agent.rollout_state.steps_left.tolist()
        == RolloutState.staggered(turntable.CLOCKWISE, 20, np.random.default_rng(0)).steps_left.tolist()
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_size", 0),
        ("n_envs", -1),
        ("gamma", 0.0),
        ("gamma", 1.1),
        ("gae_lambda", -0.1),
        ("max_kl", 0.0),
        ("cg_damping", -1.0),
        ("cg_iterations", 0),
        ("fisher_fraction", 0.0),
        ("fisher_fraction", 1.5),
        ("value_learning_rate", 0.0),
        ("value_minibatches", 0),
        ("value_epochs", 0),
        ("initial_std", 0.0),
        ("hidden_sizes", (8, 0)),
        ("gamma", np.nan),
    ],
)
def test_hyper_parameters_that_make_no_sense_are_refused_by_name(name: str, value: object) -> None:
    with pytest.raises(ImitableError, match=rf"Trpo.{name} is .*; it must be"):
        Trpo(**{name: value})


@pytest.mark.slow
def test_training_learns_to_reach_the_goal() -> None:
    settings = Trpo(batch_size=1000, hidden_sizes=(32, 32), value_epochs=5, value_learning_rate=3e-3)
    states = training(settings, seed=0)
    policies = [next(states).agent.policy for _ in range(61)]
    first, last = (
        evaluate(each, turntable.CLOCKWISE, episodes=200, rng=np.random.default_rng(9)).returns for each in (policies[0], policies[-1])
    )
    best = run_episodes(
        turntable.CLOCKWISE, lambda seen: turntable.turn_to_goal(seen, np.random.default_rng(0)), count=200, rng=np.random.default_rng(9)
    ).trajectories.returns
    assert last.mean() > first.mean() + 0.6 * (best.mean() - first.mean())
