"""GAIL and the discriminator it shares with its relatives."""

import dataclasses

import numpy as np
import pytest

from imitable.learners._discriminator import AGENT, DEMONSTRATED, Discriminator, LossTerm, interpolates
from imitable.networks import Adam, Mlp, TransitionScaling

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
