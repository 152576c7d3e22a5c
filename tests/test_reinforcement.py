"""Roll-outs that can be told apart, advantages by hand, and trust-region steps against numerical derivatives."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import turntable
from countdown import Countdown
from imitable import reinforcement
from imitable.arrays import Array
from imitable.errors import ImitableError
from imitable.evaluation import evaluate
from imitable.networks import Mlp, Policy
from imitable.reinforcement import (
    Crew,
    Experience,
    Reward,
    Trpo,
    advantages,
    batch_agents,
    conjugate_gradient,
    demonstrate,
    flat_transitions,
    input_scaling,
    judge,
    roll_out,
    train,
    trust_region_step,
)
from imitable.simulators import Simulator, earned


def still(observations: np.ndarray) -> np.ndarray:
    return np.zeros((len(observations), 1))


# Roll-outs


def test_demonstrations_end_when_they_finish_or_at_the_horizon() -> None:
    simulator = Countdown(lengths=(2, 9, 1, 6), horizon=6)
    actions = iter(range(1, 7))
    episodes = demonstrate(
        simulator, lambda observations: np.full((len(observations), 1), 0.1 * next(actions)), count=4, rng=np.random.default_rng(0)
    )
    made = episodes.trajectories
    assert made.lengths.tolist() == [2, 6, 1, 6]
    for index, length in enumerate(made.lengths):
        assert made.trajectory(index)[:, 1].tolist() == list(range(length + 1))
        assert set(made.trajectory(index)[:, 2]) == {index}
        assert made.returns[index] == pytest.approx(sum(step + 0.01 * (step - 1) for step in range(1, length + 1)))
    assert episodes.actions[:, 0] == pytest.approx([0.1 * step for length in made.lengths for step in range(1, length + 1)])


def test_demonstrations_stop_early_when_all_have_finished() -> None:
    calls = []

    def act(observations: np.ndarray) -> np.ndarray:
        calls.append(len(observations))
        return still(observations)

    demonstrate(Countdown(lengths=(2, 3)), act, count=2, rng=np.random.default_rng(0))
    assert len(calls) == 3


def test_recorded_actions_are_those_the_simulator_took() -> None:
    episodes = demonstrate(Countdown(lengths=(2,)), lambda observations: np.array([[5.0]]), count=1, rng=np.random.default_rng(0))
    assert episodes.actions.tolist() == [[1.0], [1.0]]


def test_evaluation_gives_the_return_of_every_episode() -> None:
    returns = evaluate(still, Countdown(lengths=(1, 3)), episodes=2, rng=np.random.default_rng(0)).returns
    assert returns == pytest.approx([1.0, 1.0 + 2.01 + 3.02])


def roll_out_two(simulator: Simulator, act: Callable[[Array], Array], *, steps: int, reward: Reward | None = None) -> Experience:
    rng = np.random.default_rng(0)
    return roll_out(simulator, act, crew=Crew.fresh(simulator, 2, rng), steps=steps, rng=rng, reward=reward)


def test_rolled_out_agents_start_anew_where_they_finish() -> None:
    simulator = Countdown(lengths=(2, 9, 3, 1, 9, 9, 9), horizon=7)
    experience = roll_out_two(simulator, still, steps=7)
    serial = experience.observations[:, :, 2]
    assert serial[:, 0].tolist() == [0, 0, 2, 2, 2, 3, 4]
    assert serial[:, 1].tolist() == [1] * 7
    assert experience.observations[:, 0, 1].tolist() == [0, 1, 0, 1, 2, 0, 0]
    assert experience.next_observations[:, 0, 1].tolist() == [1, 2, 1, 2, 3, 1, 1]
    assert np.array_equal(experience.next_observations[:, :, 2], serial), "a next observation belongs to a new episode"
    assert experience.terminated[:, 0].tolist() == [False, True, False, False, True, True, False]
    assert not experience.terminated[:, 1].any()
    assert experience.steps == 14


def test_a_crew_goes_on_where_it_was_and_starts_anew_at_the_horizon() -> None:
    simulator, rng = Countdown(lengths=(9, 2, 9, 9, 9, 9), horizon=4), np.random.default_rng(0)
    crew = Crew.staggered(simulator, 2, rng)
    assert crew.left.tolist() == [4, 2]
    first = roll_out(simulator, still, crew=crew, steps=3, rng=rng)
    # The second agent ends after two steps, when its time is up as well, and the third episode takes its place.
    assert first.observations[:, :, 2].tolist() == [[0, 1], [0, 1], [0, 2]]
    assert first.terminated.tolist() == [[False, False], [False, True], [False, False]]
    assert first.cut.tolist() == [[False, False], [False, False], [True, True]], "the batch is full"
    assert first.crew.left.tolist() == [1, 3]
    second = roll_out(simulator, still, crew=first.crew, steps=3, rng=rng)
    assert second.observations[:, 0, 1:].tolist() == [[3, 0], [0, 3], [1, 3]]
    assert second.observations[:, 1, 1:].tolist() == [[1, 2], [2, 2], [3, 2]]
    assert second.cut.tolist() == [[True, False], [False, False], [True, True]]
    assert second.next_observations[0, 0].tolist() == [9, 4, 0], "where the episode was cut, not where the next began"
    assert second.crew.left.tolist() == [2, 0]
    assert roll_out(simulator, still, crew=second.crew, steps=1, rng=rng).observations[0, 1, 1:].tolist() == [0, 4]
    assert crew.left.tolist() == [4, 2], "a roll-out changed the crew it was given"


def test_a_cut_episode_is_worth_what_the_critic_says_of_where_it_was_cut() -> None:
    simulator, rng = Countdown(lengths=(9,) * 9, horizon=4), np.random.default_rng(0)
    experience = roll_out(simulator, still, crew=Crew.staggered(simulator, 2, rng), steps=6, rng=rng)
    policy = Policy.fresh(Mlp((3, 1)), centre=np.zeros(3), scale=np.ones(3), low=-np.ones(1), high=np.ones(1), spread=1.0, rng=rng)
    age = np.array([0.0, 10.0, 0.0, 0.0], np.float32)  # the critic says 10 times the age
    lessons = judge(experience, np.ones((6, 2)), policy, Mlp((3, 1)), age, discount=0.5, decay=0.0)
    # Each step's goal is 1 + 0.5 * 10 * (age + 1), whether or not it was the last of its episode.
    assert lessons.goals.reshape(6, 2) == pytest.approx(1 + 5 * experience.next_observations[:, :, 1])


def test_flattened_transitions_and_rewards_stay_aligned() -> None:
    simulator = Countdown(lengths=(2, 9, 3, 9))
    experience = roll_out_two(simulator, still, steps=4, reward=partial(earned, simulator))
    before, after = flat_transitions(experience)
    assert np.array_equal(after[:, 1], before[:, 1] + 1)
    assert np.array_equal(before.reshape(4, 2, 3), experience.observations)
    assert experience.rewards == pytest.approx(experience.next_observations[:, :, 1] + 0.01 * experience.observations[:, :, 1])


def test_input_scaling_leaves_columns_alone_that_never_move() -> None:
    centre, scale = input_scaling(np.array([[1.0, 5.0], [3.0, 5.0]]))
    assert centre.tolist() == [2.0, 5.0]
    assert scale.tolist() == [1.0, 1.0]
    assert input_scaling(np.array([[0.0], [6.0]]))[1].tolist() == [3.0]


# Advantages


def experience_of(terminated: list[list[bool]], cut: list[list[bool]] | None = None) -> Experience:
    ends = np.array(terminated)
    nothing = np.zeros((*ends.shape, 1))
    cuts = np.zeros_like(ends) if cut is None else np.array(cut)
    crew = Crew(np.zeros((ends.shape[1], 1)), np.zeros(ends.shape[1], np.int64))
    return Experience(nothing, nothing, nothing, ends, cuts, 0, np.zeros(0), crew)


def test_advantages_by_hand_with_a_time_limit() -> None:
    experience = experience_of([[False], [False]])
    found = advantages(np.array([[1.0], [2.0]]), np.array([[3.0], [5.0]]), np.array([[5.0], [7.0]]), experience, discount=0.5, decay=0.4)
    # Surprises: 1 + 0.5 * 5 - 3 = 0.5 and 2 + 0.5 * 7 - 5 = 0.5: the cut bootstraps from 7. Then 0.5 + 0.5 * 0.4 * 0.5.
    assert found == pytest.approx(np.array([[0.6], [0.5]]), abs=1e-12)


def test_advantages_by_hand_with_an_end() -> None:
    experience = experience_of([[False], [True], [False]])
    rewards, values, following = (np.array(each)[:, None] for each in ([1.0, 2.0, 4.0], [3.0, 5.0, 6.0], [5.0, 99.0, 8.0]))
    found = advantages(rewards, values, following, experience, discount=0.5, decay=0.4)
    # 4 + 0.5 * 8 - 6 = 2 belongs to the next episode; 2 - 5 = -3 has no future; 1 + 0.5 * 5 - 3 + 0.2 * -3 = -0.1.
    assert found == pytest.approx(np.array([[-0.1], [-3.0], [2.0]]), abs=1e-12)


def test_advantages_by_hand_with_a_time_limit_in_the_middle() -> None:
    experience = experience_of([[False], [False], [False]], cut=[[False], [True], [True]])
    rewards, values, following = (np.array(each)[:, None] for each in ([1.0, 2.0, 4.0], [3.0, 5.0, 6.0], [5.0, 7.0, 8.0]))
    found = advantages(rewards, values, following, experience, discount=0.5, decay=0.4)
    # 4 + 0.5 * 8 - 6 = 2 belongs to the next episode; 2 + 0.5 * 7 - 5 = 0.5 looks ahead by its value alone; 0.5 + 0.2 * 0.5.
    assert found == pytest.approx(np.array([[0.6], [0.5], [2.0]]), abs=1e-12)


def test_advantages_equal_their_definition_as_a_sum() -> None:
    rng = np.random.default_rng(0)
    time, agents, discount, decay = 30, 4, 0.9, 0.8
    terminated, cut = rng.random((time, agents)) < 0.15, rng.random((time, agents)) < 0.15
    rewards, values, following = rng.normal(size=(3, time, agents))
    found = advantages(rewards, values, following, experience_of(terminated, cut & ~terminated), discount=discount, decay=decay)
    surprise = rewards + discount * following * ~terminated - values
    for agent in range(agents):
        for begin in range(time):
            total, factor = 0.0, 1.0
            for later in range(begin, time):
                total, factor = total + factor * surprise[later, agent], factor * discount * decay
                if terminated[later, agent] or cut[later, agent]:
                    break
            assert found[begin, agent] == pytest.approx(total, abs=1e-10)


def test_with_a_perfect_critic_nothing_is_a_surprise() -> None:
    simulator = Countdown(lengths=(3, 9, 9, 2, 9, 9), horizon=5)
    experience = roll_out_two(simulator, still, steps=5)
    length, step, _ = np.moveaxis(experience.observations, -1, 0)
    left = np.where(length < 9, length - step, np.inf)
    values = np.where(np.isinf(left), 1 / (1 - 0.5), 2 * (1 - 0.5 ** np.where(np.isinf(left), 0, left)))
    following = np.concatenate([values[1:], np.full((1, 2), 2.0)])
    last_length, last_step, _ = np.moveaxis(experience.next_observations[-1], -1, 0)
    following[-1] = np.where(last_length < 9, 2 * (1 - 0.5 ** (last_length - last_step)), 2.0)
    found = advantages(np.ones((5, 2)), values, following, experience, discount=0.5, decay=0.9)
    assert found == pytest.approx(np.zeros((5, 2)), abs=1e-12)


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
    return Policy(TINY, parameters, 0 * ones, ones, -ones, ones, log_spread=np.array([-0.4, 0.3], np.float32))


def batch_of(policy: Policy, count: int = 40, seed: int = 1):
    rng = np.random.default_rng(seed)
    observations = rng.normal(size=(count, 2))
    actions = policy.sample(observations, rng).astype(np.float32)
    weights = (actions[:, 0] - 0.5 * actions[:, 1] ** 2 + 0.1 * rng.normal(size=count)).astype(np.float32)
    return policy.inputs(observations), actions, (weights - weights.mean()) / weights.std()


def distribution(theta: np.ndarray, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and log spread, in double precision."""
    return TINY.forward(theta[: TINY.size], inputs.astype(np.float64))[-1], theta[TINY.size :]


def divergence(old: np.ndarray, new: np.ndarray, inputs: np.ndarray) -> float:
    """Mean KL of the new policy from the old one, KL(old, new)."""
    (mean, log_spread), (new_mean, new_log_spread) = distribution(old, inputs), distribution(new, inputs)
    ratio = (np.exp(2 * log_spread) + (mean - new_mean) ** 2) / (2 * np.exp(2 * new_log_spread))
    return float((new_log_spread - log_spread + ratio - 0.5).sum(axis=1).mean())


def gain(old: np.ndarray, new: np.ndarray, inputs: np.ndarray, actions: np.ndarray, weights: np.ndarray) -> float:
    """Mean of likelihood ratio times advantage."""

    def log_density(theta: np.ndarray) -> np.ndarray:
        mean, log_spread = distribution(theta, inputs)
        return (-0.5 * ((actions - mean) / np.exp(log_spread)) ** 2 - log_spread).sum(axis=1)

    return float((np.exp(log_density(new) - log_density(old)) * weights).mean())


def theta_of(policy: Policy) -> np.ndarray:
    return np.concatenate([policy.parameters, policy.log_spread]).astype(np.float64)


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> dict:
    """What a trust-region step hands to the conjugate gradients: the Fisher product and the gradient."""
    found: dict = {}

    def spy(product, target, *, iterations):
        found.update(product=product, target=target.copy())
        return conjugate_gradient(product, target, iterations=iterations)

    monkeypatch.setattr(reinforcement, "conjugate_gradient", spy)
    return found


def test_the_step_follows_the_gradient_of_the_gain(captured: dict) -> None:
    policy = tiny_policy()
    inputs, actions, weights = batch_of(policy)
    trust_region_step(policy, inputs, actions, weights, settings=Trpo(hidden=(3,)), rng=np.random.default_rng(0))
    theta, step = theta_of(policy), 1e-6
    numerical = [
        (gain(theta, theta + move, inputs, actions, weights) - gain(theta, theta - move, inputs, actions, weights)) / (2 * step)
        for move in step * np.eye(len(theta))
    ]
    assert captured["target"] == pytest.approx(np.array(numerical), rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("damping", [0.0, 0.1])
def test_the_fisher_product_is_the_hessian_of_the_divergence(captured: dict, damping: float) -> None:
    policy = tiny_policy()
    inputs, actions, weights = batch_of(policy)
    trust_region_step(policy, inputs, actions, weights, settings=Trpo(damping=damping, fisher_share=1.0), rng=np.random.default_rng(0))
    theta, step = theta_of(policy), 1e-3
    moves = step * np.eye(len(theta))
    hessian = np.array(
        [
            [
                sum(
                    first * second * divergence(theta, theta + first * one + second * other, inputs)
                    for first in (1, -1)
                    for second in (1, -1)
                )
                / (4 * step**2)
                for other in moves
            ]
            for one in moves
        ]
    )
    products = np.array([captured["product"](vector) for vector in np.eye(len(theta), dtype=np.float32)])
    assert products == pytest.approx(hessian + damping * np.eye(len(theta)), abs=2e-4)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("bound", [0.01, 0.3])
def test_a_step_gains_and_stays_within_its_divergence(seed: int, bound: float) -> None:
    policy = tiny_policy(seed)
    inputs, actions, weights = batch_of(policy, count=400, seed=seed)
    improved, diagnostics = trust_region_step(
        policy, inputs, actions, weights, settings=Trpo(largest_divergence=bound, damping=0.01), rng=np.random.default_rng(0)
    )
    theta, moved = theta_of(policy), theta_of(improved)
    found = divergence(theta, moved, inputs)
    assert 0.1 * bound < found <= bound * (1 + 1e-4)
    assert diagnostics["kl"] == pytest.approx(found, rel=1e-2)
    gained = gain(theta, moved, inputs, actions, weights) - gain(theta, theta, inputs, actions, weights)
    assert gained > 0
    assert diagnostics["improvement"] == pytest.approx(gained, rel=1e-2)


def test_equal_advantages_move_nothing() -> None:
    policy = tiny_policy()
    inputs, actions, weights = batch_of(policy)
    same, diagnostics = trust_region_step(policy, inputs, actions, 0 * weights, settings=Trpo(), rng=np.random.default_rng(0))
    assert same is policy
    assert diagnostics == {"kl": 0.0, "improvement": 0.0}


def test_a_step_leaves_its_inputs_alone() -> None:
    policy = tiny_policy()
    inputs, actions, weights = batch_of(policy)
    before = [each.copy() for each in (policy.parameters, policy.log_spread, inputs, actions, weights)]
    trust_region_step(policy, inputs, actions, weights, settings=Trpo(), rng=np.random.default_rng(0))
    after = (policy.parameters, policy.log_spread, inputs, actions, weights)
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))


# Learning agents

SMALL = Trpo(batch=400, hidden=(8, 8), value_minibatches=4)


def start(settings: Trpo, simulator=turntable.CLOCKWISE):
    return settings.start(simulator, centre=np.zeros(4), scale=np.ones(4), rng=np.random.default_rng(0))


def test_a_batch_is_made_of_whole_episodes() -> None:
    agent = start(SMALL)
    experience = SMALL.gather(turntable.CLOCKWISE, agent, rng=np.random.default_rng(0))
    assert experience.observations.shape == (50, 8, 4)
    assert batch_agents(10, turntable.CLOCKWISE) == 1


def test_a_batch_of_more_agents_goes_on_where_the_last_one_stopped() -> None:
    settings, rng, target = replace(SMALL, agents=20), np.random.default_rng(0), turntable.CLOCKWISE
    agent = start(settings)
    first = settings.gather(target, agent, rng=rng, reward=partial(earned, target))
    assert first.observations.shape == (20, 20, 4)
    improved, _ = settings.improve(agent, first, first.rewards, rng=rng)
    second = settings.gather(target, improved, rng=rng)
    going_on = first.crew.left > 0
    assert 0 < going_on.sum() < 20
    assert np.array_equal(second.observations[0, going_on], first.next_observations[-1, going_on])
    assert not np.isclose(second.observations[0, ~going_on], first.next_observations[-1, ~going_on]).all(axis=1).any()


def test_more_agents_than_steps_take_a_step_each() -> None:
    settings = replace(SMALL, batch=10, agents=20)
    assert settings.gather(turntable.CLOCKWISE, start(settings), rng=np.random.default_rng(0)).steps == 20
    with pytest.raises(ImitableError, match=r"Trpo.agents is -1; it must be at least 0"):
        Trpo(agents=-1)


def test_a_policy_of_the_wrong_width_is_refused_by_name() -> None:
    with pytest.raises(ImitableError, match=r"actions have shape \(2, 3\)"):
        roll_out_two(turntable.CLOCKWISE, lambda seen: np.zeros((len(seen), 3)), steps=2)


def test_the_critic_learns_and_the_old_agent_is_left_alone() -> None:
    agent, rng = start(SMALL), np.random.default_rng(1)
    experience = SMALL.gather(turntable.CLOCKWISE, agent, rng=rng)
    before = (agent.critic.copy(), agent.critic_memory.first.copy(), agent.critic_memory.steps, agent.policy.parameters.copy())
    rewards = np.full((50, 8), -1.0)
    critic, inputs = Mlp((4, 8, 8, 1)), agent.policy.inputs(experience.observations.reshape(-1, 4))
    targets = np.full((400, 1), -3.0, np.float32)
    patient = replace(SMALL, value_rate=0.01, value_passes=50)
    fitted, memory = patient.fit_critic(
        replace(agent, critic_memory=replace(agent.critic_memory, rate=0.01)), critic, inputs, targets, rng=rng
    )
    assert critic.forward(fitted, inputs)[-1] == pytest.approx(targets, abs=0.3)
    assert memory.steps == 200
    SMALL.improve(agent, experience, rewards, rng=rng)
    after = (agent.critic, agent.critic_memory.first, agent.critic_memory.steps, agent.policy.parameters)
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))


def test_a_batch_smaller_than_the_number_of_minibatches_is_no_obstacle() -> None:
    settings = Trpo(batch=10, hidden=(4,))
    brief = replace(turntable.CLOCKWISE, horizon=10)
    agent, rng = start(settings, brief), np.random.default_rng(0)
    experience = settings.gather(brief, agent, rng=rng, reward=partial(earned, brief))
    improved, _ = settings.improve(agent, experience, experience.rewards, rng=rng)
    assert np.isfinite(improved.critic).all()


def test_training_is_repeatable_and_counts_its_steps() -> None:
    def third(seed: int):
        students = train(
            turntable.CLOCKWISE,
            settings=SMALL,
            reward=partial(earned, turntable.CLOCKWISE),
            rng=np.random.default_rng(seed),
        )
        return [next(students) for _ in range(3)]

    one, again, other = third(0), third(0), third(1)
    assert [student.steps for student in one] == [0, 400, 800]
    first, last, same, elsewhere = (each.agent.policy.parameters for each in (one[0], one[-1], again[-1], other[-1]))
    assert np.array_equal(last, same)
    assert not np.array_equal(last, elsewhere)
    assert not np.array_equal(last, first)


@pytest.mark.parametrize("agents", [0, 20])
def test_training_goes_on_from_a_snapshot_as_if_it_had_never_stopped(agents: int) -> None:
    def students(seed: int, resume=None):
        reward, settings = partial(earned, turntable.CLOCKWISE), replace(SMALL, agents=agents)
        return train(turntable.CLOCKWISE, settings=settings, reward=reward, rng=np.random.default_rng(seed), resume=resume)

    whole = students(0)
    next(whole), next(whole)
    snapshot = next(whole).snapshot()
    resumed = students(1, snapshot)
    assert next(resumed).steps == 800
    for one, other in zip((next(whole), next(whole)), (next(resumed), next(resumed)), strict=True):
        assert one.steps == other.steps
        assert np.array_equal(one.agent.policy.parameters, other.agent.policy.parameters)
        assert np.array_equal(one.agent.critic, other.agent.critic)


@pytest.mark.slow
def test_training_learns_to_reach_the_goal() -> None:
    settings = Trpo(batch=1000, hidden=(32, 32), value_passes=5, value_rate=3e-3)
    students = train(
        turntable.CLOCKWISE,
        settings=settings,
        reward=partial(earned, turntable.CLOCKWISE),
        rng=np.random.default_rng(0),
    )
    policies = [next(students).agent.policy for _ in range(61)]
    first, last = (
        evaluate(each, turntable.CLOCKWISE, episodes=200, rng=np.random.default_rng(9)).returns for each in (policies[0], policies[-1])
    )
    best = demonstrate(
        turntable.CLOCKWISE, lambda seen: turntable.chase(seen, np.random.default_rng(0)), count=200, rng=np.random.default_rng(9)
    ).trajectories.returns
    assert last.mean() > first.mean() + 0.6 * (best.mean() - first.mean())


# Simulations that break down


def left_or_still(observations: np.ndarray) -> np.ndarray:
    """Every other agent turns clockwise at full speed: 0.1 rad a step, so that the sixth passes -0.5."""
    return np.where(np.arange(len(observations)) % 2, 0.0, -1.0)[:, None]


def test_an_episode_that_breaks_down_ends_and_is_counted() -> None:
    episodes = demonstrate(turntable.BRITTLE, left_or_still, count=4, rng=np.random.default_rng(0))
    assert episodes.diverged == 2
    assert episodes.trajectories.lengths.tolist() == [5, 50, 5, 50], "without the step that broke it"
    assert len(episodes.actions) == 110
    whole = demonstrate(turntable.CLOCKWISE, left_or_still, count=4, rng=np.random.default_rng(0)).trajectories
    assert np.array_equal(episodes.trajectories.trajectory(0), whole.trajectory(0)[:6])
    begun = turntable.CLOCKWISE.restore(whole.trajectory(0)[:6])
    assert episodes.trajectories.returns[0] == pytest.approx(turntable.CLOCKWISE.reward(begun[:-1], begun[1:]).sum())
    assert np.array_equal(episodes.trajectories.trajectory(1), whole.trajectory(1))
    assert evaluate(left_or_still, turntable.BRITTLE, episodes=3, rng=np.random.default_rng(0)).diverged == 2
    at_once = replace(turntable.BRITTLE, limit=-0.01)
    assert demonstrate(at_once, left_or_still, count=2, rng=np.random.default_rng(0)).trajectories.lengths.tolist() == [1, 50]


def test_an_agent_that_breaks_down_starts_anew_and_is_counted() -> None:
    experience = roll_out_two(turntable.BRITTLE, left_or_still, steps=13, reward=lambda before, actions, after: np.ones(2))
    assert experience.rewards[:, 0].tolist() == [1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 0, 1], "a step that breaks down earns nothing"
    assert experience.diverged == 2
    assert np.flatnonzero(experience.terminated[:, 0]).tolist() == [5, 11]
    assert not experience.terminated[:, 1].any()
    assert np.isfinite(experience.observations).all()
    assert np.isfinite(experience.next_observations).all()
