"""GAIL and the discriminator it shares with its relatives."""

import dataclasses

import numpy as np
import pytest

import countdown
import turntable
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.learners import Gail
from imitable.learners._demonstrated import DemonstratedResets, with_absorbing_states
from imitable.learners._discriminator import AGENT, DEMONSTRATED, Discriminator, LossTerm, interpolates
from imitable.networks import Adam, Mlp, TransitionScaling
from imitable.rollouts import RolloutState, collect_rollout
from imitable.sampling import TransitionSampler
from imitable.trpo import Trpo

DISCRIMINATOR = Discriminator(Mlp((4, 6, 1)), TransitionScaling(np.zeros(4), np.ones(4)))


def clouds(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Inputs of the agent's and of demonstrated transitions, well apart."""
    agent, demonstrated = (rng.normal(size=(200, 4)).astype(np.float32) + shift for shift in (-1.0, 1.0))
    return agent, demonstrated


def test_the_discriminator_sees_the_observation_and_its_change() -> None:
    scaled = Discriminator(Mlp((2, 1)), TransitionScaling(np.array([1.0, 0.0]), np.array([2.0, 0.5])))
    assert scaled.inputs(np.array([[5.0]]), np.array([[6.0]])).tolist() == [[2.0, 2.0]]


def test_the_reward_is_high_where_the_agent_looks_demonstrated() -> None:
    discriminator = Discriminator(Mlp((1, 1)), TransitionScaling(np.zeros(1), np.ones(1)))
    rewards = discriminator.reward(np.array([1.0, 0.0], np.float32), np.array([[-50.0], [0.0], [50.0]], np.float32))
    assert rewards == pytest.approx([50.0, np.log(2), 0.0], abs=1e-6)


def test_an_update_follows_the_gradient_of_the_cross_entropy() -> None:
    rng = np.random.default_rng(0)
    agent, demonstrated = rng.normal(size=(9, 4)), rng.normal(size=(5, 4)) + 0.5
    parameters = DISCRIMINATOR.network.init_parameters(rng).astype(np.float64)

    def loss(values: np.ndarray) -> float:
        logits = [DISCRIMINATOR.network.forward(values, each)[-1][:, 0] for each in (agent, demonstrated)]
        return float(np.logaddexp(0, -logits[0]).mean() + np.logaddexp(0, logits[1]).mean())

    numerical = [(loss(parameters + move) - loss(parameters - move)) / 2e-6 for move in 1e-6 * np.eye(len(parameters))]
    optimizer = Adam.fresh(DISCRIMINATOR.network.size, learning_rate=0.0)
    terms = [LossTerm(each.astype(np.float32), label) for each, label in ((agent, AGENT), (demonstrated, DEMONSTRATED))]
    DISCRIMINATOR.update(parameters.astype(np.float32), optimizer, terms, rng=rng)
    assert optimizer.exp_avg / 0.1 == pytest.approx(np.array(numerical), abs=1e-4)


def test_every_loss_term_counts_by_its_weights() -> None:
    rng = np.random.default_rng(0)
    first, second, third = rng.normal(size=(3, 5, 4))
    weights = rng.uniform(0, 2, 5)
    parameters = DISCRIMINATOR.network.init_parameters(rng).astype(np.float64)

    def loss(values: np.ndarray) -> float:
        logits = [DISCRIMINATOR.network.forward(values, each)[-1][:, 0] for each in (first, second, third)]
        taken_for_agent = 0.7 * np.logaddexp(0, -logits[0]).mean() + (weights * np.logaddexp(0, -logits[1])).mean()
        return float(taken_for_agent + np.logaddexp(0, logits[2]).mean())

    numerical = [(loss(parameters + move) - loss(parameters - move)) / 2e-6 for move in 1e-6 * np.eye(len(parameters))]
    optimizer = Adam.fresh(DISCRIMINATOR.network.size, learning_rate=0.0)
    one, other, last = (each.astype(np.float32) for each in (first, second, third))
    terms = [LossTerm(one, AGENT, 0.7), LossTerm(other, AGENT, weights.astype(np.float32)), LossTerm(last, DEMONSTRATED)]
    DISCRIMINATOR.update(parameters.astype(np.float32), optimizer, terms, rng=rng)
    assert optimizer.exp_avg / 0.1 == pytest.approx(np.array(numerical), abs=1e-4)


def test_a_gradient_penalty_holds_the_gradient_between_demonstrated_and_visited_near_one() -> None:
    rng = np.random.default_rng(0)
    agent, demonstrated = clouds(rng)
    network, norms = DISCRIMINATOR.network, {}
    for penalty in (0.0, 5.0):
        penalized = dataclasses.replace(DISCRIMINATOR, gradient_penalty=penalty)
        parameters, optimizer = network.init_parameters(np.random.default_rng(1)), Adam.fresh(network.size, learning_rate=0.02)
        for _ in range(500):
            penalized.update(parameters, optimizer, [LossTerm(agent, AGENT), LossTerm(demonstrated, DEMONSTRATED)], rng=rng)
        values = network.forward(parameters, interpolates(demonstrated, agent, rng))
        norms[penalty] = np.linalg.norm(network.input_gradients(parameters, values, np.ones((200, 1), np.float32)), axis=1)
    assert np.median(norms[0.0]) > 2
    assert np.abs(norms[5.0] - 1).mean() < 0.2


def test_the_discriminator_learns_to_tell_them_apart() -> None:
    rng = np.random.default_rng(0)
    agent, demonstrated = clouds(rng)
    network = DISCRIMINATOR.network
    parameters, optimizer = network.init_parameters(rng), Adam.fresh(network.size, learning_rate=0.02)
    for _ in range(100):
        diagnostics = DISCRIMINATOR.update(parameters, optimizer, [LossTerm(agent, AGENT), LossTerm(demonstrated, DEMONSTRATED)], rng=rng)
    assert diagnostics["agent accuracy"] > 0.9
    assert diagnostics["demonstration accuracy"] > 0.9
    assert DISCRIMINATOR.reward(parameters, demonstrated).mean() > DISCRIMINATOR.reward(parameters, agent).mean() + 1


def test_noise_hides_differences_that_are_smaller_than_it() -> None:
    rng, network = np.random.default_rng(0), DISCRIMINATOR.network
    agent, demonstrated = rng.normal(size=(2, 500, 4)).astype(np.float32)
    agent[:, 0], demonstrated[:, 0] = 0.02, -0.02  # all that tells them apart
    accuracies = []
    for noise in (None, np.array([1.0, 0.0, 0.0, 0.0], np.float32)):
        blurred = dataclasses.replace(DISCRIMINATOR, noise=noise)
        parameters, optimizer = network.init_parameters(np.random.default_rng(1)), Adam.fresh(network.size, learning_rate=0.05)
        for _ in range(300):
            diagnostics = blurred.update(parameters, optimizer, [LossTerm(agent, AGENT), LossTerm(demonstrated, DEMONSTRATED)], rng=rng)
        accuracies.append((diagnostics["agent accuracy"] + diagnostics["demonstration accuracy"]) / 2)
    assert accuracies[0] > 0.9
    assert accuracies[1] < 0.7


def test_noise_on_observations_is_larger_on_their_change() -> None:
    scaling = TransitionScaling(np.zeros(2), np.array([2.0, 0.5]))
    assert scaling.noise(np.array([1.0])) == pytest.approx([0.5, 2 * np.sqrt(2)])


# Absorbing ends and demonstrated starts

COUNTDOWN = countdown.Countdown(lengths=(3,) * 100)


def counted(*lengths: int) -> Demonstrations:
    """Countdowns of three steps, of which so many are shown."""
    rows = [
        np.stack([np.full(length + 1, 3.0), np.arange(length + 1.0), np.full(length + 1, demo)], axis=1)
        for demo, length in enumerate(lengths)
    ]
    return Demonstrations(np.concatenate(rows), np.array(lengths))


def test_a_demonstration_that_terminates_stays_in_its_last_state_until_the_time_limit() -> None:
    given = counted(3, 2, 1)
    longer = with_absorbing_states(TransitionSampler(given, np.array([0.1, 0.2, 0.3])), COUNTDOWN)
    assert longer.demonstrations.lengths.tolist() == [6, 2, 1], "only the first has ended; the others were cut off"
    assert longer.demonstrations.trajectory(0)[:, 1].tolist() == [0, 1, 2, 3, 3, 3, 3]
    assert longer.weights.tolist() == [0.1, 0.2, 0.3]
    of_transitions = with_absorbing_states(TransitionSampler(given, np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])), COUNTDOWN)
    assert of_transitions.weights.tolist() == [1.0, 2.0, 3.0, 3.0, 3.0, 3.0, 4.0, 5.0, 6.0]
    unended = TransitionSampler(counted(2, 1), np.ones(2))
    assert with_absorbing_states(unended, COUNTDOWN) is unended


def test_an_end_is_worth_what_staying_there_for_ever_is() -> None:
    robot = countdown.Countdown(lengths=(2, 50), horizon=5)
    state = RolloutState.fresh(robot, 2, np.random.default_rng(0))
    rollout = collect_rollout(robot, lambda seen: np.zeros((2, 1)), state=state, steps=2, rng=np.random.default_rng(0))
    assert rollout.terminated.tolist() == [[False, False], [True, False]]
    assert rollout.steps_left.tolist() == [[0, 0], [3, 0]]
    discriminator = Discriminator(Mlp((6, 1)), TransitionScaling(np.zeros(6), np.ones(6)))
    parameters = np.array([0.0, -1.0, 0.0, 0.0, -0.5, 0.0, 0.0], np.float32)  # the reward grows with the step, and with moving
    plain = Gail.released().compute_rewards(rollout, discriminator, parameters, rng=np.random.default_rng(0))
    visited, rewards = Gail(trpo=Trpo(gamma=0.9)).compute_rewards(rollout, discriminator, parameters, rng=np.random.default_rng(0))
    assert plain[1] == pytest.approx(np.logaddexp(0, np.array([[0.5, 0.5], [1.5, 1.5]])))
    ended = np.logaddexp(0, 1.5) + 0.9 / (1 - 0.9) * np.logaddexp(0, 2.0)
    assert rewards == pytest.approx(np.array([[plain[1][0, 0], plain[1][0, 1]], [ended, plain[1][1, 1]]]))
    assert len(visited) == len(plain[0]) == 4
    many = np.concatenate(
        [Gail().compute_rewards(rollout, discriminator, parameters, rng=np.random.default_rng(seed))[0] for seed in range(200)]
    )
    assert (many[:, 4] == 0).mean() == pytest.approx(3 / 7, abs=0.06), "three steps of staying beside four of moving"


def test_some_agents_start_from_demonstrated_observations() -> None:
    given, rng = counted(3, 3), np.random.default_rng(0)
    starts = DemonstratedResets(COUNTDOWN, TransitionSampler(given, np.array([0.0, 1.0])), regular_envs=2, steps=4)
    states, steps_left = starts(np.arange(50), rng)
    assert not states[:2, 1].any(), "the first start as usual"
    assert set(states[2:, 1]) == {0.0, 1.0, 2.0}
    assert set(states[2:, 2]) == {1.0}, "only from demonstrations that are drawn"
    assert steps_left.tolist() == [6, 6] + [4] * 48
    states, steps_left = starts(np.array([1, 7]), rng)
    assert (states[0, 1], steps_left.tolist()) == (0.0, [6, 4])


def test_agents_that_go_on_start_again_from_where_they_should() -> None:
    learner = dataclasses.replace(turntable.TINY_GAIL, demonstrated_steps=10, trpo=dataclasses.replace(turntable.TINY_GAIL.trpo, n_envs=4))
    assessment = turntable.assessed(turntable.demonstrations(count=2))
    starts = learner.demonstrated_resets(assessment.robot, TransitionSampler(assessment.demonstrations, np.ones(2)))
    assert starts is not None
    assert (starts.regular_envs, starts.steps) == (2, 10)
    first = next(iter(learner(assessment, np.ones(2), rng=np.random.default_rng(0))))
    assert (first.snapshot["rollout steps_left"][2:] <= 10).all()
    assert (
        dataclasses.replace(learner, demonstrated_share=0.0).demonstrated_resets(
            assessment.robot, TransitionSampler(assessment.demonstrations, np.ones(2))
        )
        is None
    )


def test_policies_at_checkpoints_are_averages_of_those_that_learn() -> None:
    assessment = turntable.assessed(turntable.demonstrations(count=2))
    every = dataclasses.replace(turntable.TINY_GAIL, checkpoint_every=1)
    plain, averaged = (
        list(dataclasses.replace(every, averaged_rounds=rounds)(assessment, np.ones(2), rng=np.random.default_rng(0))) for rounds in (0, 2)
    )
    mean = plain[0].policy.parameters
    for one, other in zip(plain, averaged, strict=True):
        assert other.snapshot["policy"].tobytes() == one.policy.parameters.tobytes(), "the learning does not see the average"
        assert other.policy.log_std.tobytes() == one.policy.log_std.tobytes()
        mean = mean if one is plain[0] else (mean + one.policy.parameters) / 2
        assert other.policy.parameters == pytest.approx(mean, abs=1e-6)
    assert averaged[0].policy.parameters.tobytes() == plain[0].policy.parameters.tobytes()
    assert "averaged" not in plain[-1].snapshot
    learner = dataclasses.replace(every, averaged_rounds=2)
    rest = list(learner(assessment, np.ones(2), rng=np.random.default_rng(9), resume=averaged[2].snapshot))
    assert [each.policy.parameters.tobytes() for each in rest] == [each.policy.parameters.tobytes() for each in averaged[3:]]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"averaged_rounds": -1}, "averaged_rounds is -1; it must be at least 0"),
        ({"demonstrated_share": 1.5}, r"demonstrated_share is 1.5; it must be in \[0, 1\]"),
        ({"start": "warm"}, "start is 'warm'; it must be random or cloning"),
        ({"discriminator_noise": -1.0}, "discriminator_noise is -1.0; it must be at least 0"),
        ({"trpo": Trpo(gamma=1.0)}, "absorbing is True; it must be False where trpo.gamma is 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ImitableError, match=message):
        Gail(**settings)  # type: ignore[arg-type]


def test_a_start_from_cloning_begins_where_the_clone_is() -> None:
    assessment = turntable.assessed(turntable.demonstrations(count=8))
    cloning = dataclasses.replace(turntable.TINY_CLONING, updates=500, checkpoint_every=500, observation_noise=0.0)
    learner = dataclasses.replace(turntable.TINY_GAIL, start="cloning", cloning=cloning, frozen_rounds=2, demonstrated_share=0.0)
    first, second, _ = learner(assessment, np.ones(8), rng=np.random.default_rng(0))
    demonstrations = assessment.demonstrations
    actions, _ = assessment.recovered_actions(np.ones(demonstrations.lengths.sum(), bool))
    errors = first.policy(demonstrations.observations[demonstrations.transition_rows]) - actions
    assert np.exp(first.policy.log_std) == pytest.approx([learner.cloned_std])
    assert np.abs(errors).mean() < 0.5 * np.abs(actions).mean()
    assert not np.array_equal(first.policy.parameters, second.policy.parameters), "it moves once it is not frozen"
