"""SAIL's networks, losses and updates."""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
import pytest

import turntable
from imitable.arrays import Array, Arrays
from imitable.assessment import Assessment, Exploration, assess
from imitable.inverse_dynamics import InverseResult, Learned, Solved
from imitable.learners import Sail
from imitable.learners._sail_critic import critic_gradient
from imitable.learners.sail import SailState, TrainedNetwork, Vae, log_prob
from imitable.networks import Adam, Mlp
from imitable.sampling import TransitionSampler
from imitable.trpo import collect_episodes
from tiny import SAIL, everything, learned


@pytest.fixture(scope="module")
def assessment() -> Assessment:
    return turntable.assessed(turntable.mixed(own=6, other=4))


def sail_state(assessment: Assessment, sail: Sail = SAIL) -> SailState:
    return SailState(sail, assessment, TransitionSampler(assessment.demonstrations, np.ones(10)), np.random.default_rng(0))


def numerical_gradient(function: Callable[[Array], float], parameters: Array, step: float = 1e-6) -> Array:
    moves = step * np.eye(len(parameters))
    return np.array([(function(parameters + move) - function(parameters - move)) / (2 * step) for move in moves])


def test_the_vaes_gradient_is_that_of_its_loss() -> None:
    rng = np.random.default_rng(0)
    inputs, changes, noise = rng.normal(size=(7, 3)), rng.normal(size=(7, 3)), rng.normal(size=(7, 2))
    vae = Vae.fresh(3, hidden=5, latent=2, rng=rng)
    parameters = vae.parameters.astype(np.float64) * 3

    def loss(values: Array) -> float:
        encoding, decoding = np.split(values, [vae.encoder.size])
        means, log_stds = np.split(vae.encoder.forward(encoding, inputs)[-1], 2, axis=1)
        log_stds = np.clip(log_stds, -20, 0.5)
        guess = vae.decoder.forward(decoding, means + np.exp(log_stds) * noise)[-1]
        divergence = 0.5 * (means**2 + np.exp(2 * log_stds) - 2 * log_stds - 1).mean()
        return float(((guess - changes) ** 2).mean() + 0.3 * divergence)

    given = dataclasses.replace(vae, parameters=parameters.astype(np.float32))
    found = given.gradient(*(each.astype(np.float32) for each in (inputs, changes, noise)), beta=0.3)
    assert found == pytest.approx(numerical_gradient(loss, parameters), abs=2e-4)


def test_the_vae_learns_where_demonstrations_go() -> None:
    rng = np.random.default_rng(0)
    vae = Vae.fresh(2, hidden=32, latent=4, rng=rng)
    optimizer = Adam.fresh(len(vae.parameters), learning_rate=3e-3)
    for _ in range(600):
        observations = rng.normal(size=(64, 2)).astype(np.float32)
        changes = np.stack([observations[:, 0] + 0.5 * observations[:, 1], -observations[:, 1]], axis=1)
        optimizer.step(vae.parameters, vae.gradient(observations, changes, rng.standard_normal((64, 4), np.float32), beta=0.001))
    assert np.square(vae(observations) - changes).mean() < 0.1 * np.square(changes).mean()


def test_the_critics_gradient_is_that_of_its_loss_and_penalty() -> None:
    rng = np.random.default_rng(1)
    network = Mlp((3, 6, 5, 1), activation="relu")
    parameters = network.init_parameters(rng).astype(np.float64) * 2
    demonstrated, visited, mixed = (rng.normal(size=(count, 3)) for count in (4, 6, 5))

    def loss(values: Array) -> float:
        means = [network.forward(values, each)[-1].mean() for each in (visited, demonstrated)]
        outputs = [network.forward(values, mixed + move)[-1][:, 0] for sign in (1, -1) for move in sign * 1e-5 * np.eye(3)]
        gradients = (np.array(outputs[:3]) - np.array(outputs[3:])) / 2e-5
        return float(means[0] - means[1] + 1.5 * np.square(np.linalg.norm(gradients, axis=0) - 1).mean())

    found = critic_gradient(
        network, parameters.astype(np.float32), *(each.astype(np.float32) for each in (demonstrated, visited, mixed)), gradient_penalty=1.5
    )
    assert found == pytest.approx(numerical_gradient(loss, parameters, 1e-5), abs=2e-3)


def test_sails_policy_gradient_is_that_of_its_loss(assessment: Assessment) -> None:
    rng = np.random.default_rng(2)
    state = sail_state(assessment, dataclasses.replace(SAIL, ppo_coef=0.7, log_std_init=-0.7))
    network, theta = state.actor.network, state.actor.parameters.astype(np.float64)
    inputs, actions, advantages, prior = (rng.normal(size=(8, width)) for width in (4, 1, 1, 1))

    def likelihood(values: Array) -> Array:
        log_std = values[network.size :]
        deviations = (actions - network.forward(values, inputs)[-1]) / np.exp(log_std)
        return -(0.5 * deviations**2 + log_std).sum(axis=1, keepdims=True)

    before = likelihood(theta) + 0.3 * rng.normal(size=(8, 1))

    def loss(values: Array) -> float:
        means, log_std = network.forward(values, inputs)[-1], values[network.size :]
        ratio = np.exp(likelihood(values) - before)
        surrogate = np.minimum(ratio * advantages, np.clip(ratio, 0.8, 1.2) * advantages).mean()
        distance = np.square(prior - means).sum(axis=1).mean()
        return float(distance + np.exp(2 * log_std).sum() - 0.01 * log_std.sum() - 0.7 * surrogate)

    single = (each.astype(np.float32) for each in (inputs, actions, advantages, before, prior))
    assert state.policy_gradient(*single) == pytest.approx(numerical_gradient(loss, theta), abs=1e-3)


def test_the_log_probability_of_a_narrow_policy_falls_off_faster() -> None:
    found = log_prob(np.array([[0.5, -1.0]], np.float32), np.zeros((1, 2), np.float32), np.log([0.5, 2.0]).astype(np.float32))
    assert found.tolist() == [[pytest.approx(-0.5 * (1.0 + 0.25) - np.log(0.5) - np.log(2.0))]]


def test_long_gradients_are_clipped_and_short_ones_are_not() -> None:
    network = Mlp((2, 1))
    for length, expected in ((3.0, 3.0), (50.0, 5.0)):
        trained = TrainedNetwork(network, network.init_parameters(np.random.default_rng(0)), 0.1)
        trained.step(np.array([length, 0, 0], np.float32), max_grad_norm=5.0)
        assert trained.optimizer.exp_avg[0] == pytest.approx(0.1 * expected)


def test_regression_pulls_parameters_to_zero_by_the_square_but_not_log_std() -> None:
    network = Mlp((2, 1))
    inputs, targets = np.ones((4, 2), np.float32), np.full((4, 1), 3.0, np.float32)
    parameters = np.array([1.0, 1.0, 0.5, -5.0], np.float32)  # the last is a log_std
    trained = TrainedNetwork(network, parameters.copy(), 0.1)
    trained.regress(inputs, targets)
    assert trained.optimizer.exp_avg / 0.1 == pytest.approx([2 * (2.5 - 3.0)] * 3 + [0.0], abs=1e-6)
    trained = TrainedNetwork(network, parameters[:3].copy(), 0.1)
    trained.regress(inputs, targets, l2=0.25)
    assert trained.optimizer.exp_avg / 0.1 == pytest.approx([-1.0 + 0.5, -1.0 + 0.5, -1.0 + 0.25], abs=1e-6)


def test_sail_stays_at_its_prior_while_frozen(assessment: Assessment) -> None:
    frozen = dataclasses.replace(SAIL, frozen_iterations=6)
    assert len({everything(each.policy) for each in learned(frozen, assessment)}) == 1


def test_sails_critic_rewards_what_was_demonstrated(assessment: Assessment) -> None:
    state, rng = sail_state(assessment, dataclasses.replace(SAIL, critic_hidden=(16, 16), learning_rate=3e-3)), np.random.default_rng(0)
    demonstrated, elsewhere = (rng.normal(size=(500, 4)).astype(np.float32) + shift for shift in (1.0, -1.0))
    assert not state.rewards(demonstrated, elsewhere).any(), "an untrained critic rewards nothing"
    for _ in range(30):
        state.train_critic(demonstrated, elsewhere)
    good, bad = (state.rewards(demonstrated, visited) for visited in (demonstrated, elsewhere))
    assert good.mean() == pytest.approx(0.0, abs=1e-6)
    assert bad.mean() < -0.05


@dataclasses.dataclass(frozen=True)
class WrongInverse(turntable.ExactInverse):
    """Half of the right action, and a fifth too much."""

    def __call__(self, states: Array, next_observations: Array, *, guess: InverseResult | None = None) -> InverseResult:
        right = super().__call__(states, next_observations)
        return dataclasses.replace(right, actions=0.5 * right.actions + 0.2)


@dataclasses.dataclass(frozen=True)
class WrongModel(turntable.ExactModel):
    def restored(self, arrays, robot: turntable.Turntable) -> WrongInverse:
        return WrongInverse(robot)


def test_sails_prior_learns_from_its_own_actions_what_the_inverse_dynamics_gets_wrong(assessment: Assessment) -> None:
    exact, robot = assessment.inverse_dynamics, assessment.robot
    wrong = turntable.assessed(assessment.demonstrations, model=WrongModel())
    sail = dataclasses.replace(SAIL, inverse_residual_steps=300, learning_rate=3e-3, minibatch_size=64, log_std_init=-0.7)
    state = sail_state(wrong, sail)
    observations = assessment.demonstrations.observations[assessment.demonstrations.transition_rows]
    changes = state.vae(state.inputs(observations)) * state.scaling.scale[4:] + state.scaling.center[4:]
    f_id = wrong.inverse_dynamics(robot.restore(observations), observations + changes).actions
    assert state.action_prior(observations) == pytest.approx(f_id, abs=1e-6), "f_id until told otherwise"
    rollout = collect_episodes(robot, state.policy, batch_size=sail.n_steps, rng=state.rng)
    state.train_inverse_residual(rollout)
    seen, following = rollout.transitions()
    residuals = state.inverse_residual(state.scaling(seen, following))
    taken = np.clip(rollout.actions.reshape(-1, 1), -1, 1)

    def error(actions: Array) -> float:
        return float(np.sqrt(np.square(actions - taken).mean()))

    states = robot.restore(seen)
    mistaken = wrong.inverse_dynamics(states, following).actions
    assert error(mistaken + residuals) < error(exact(states, following).actions) < error(mistaken)


def test_sail_fits_an_inverse_of_its_own_unless_the_assessment_has_a_learned_one(assessment: Assessment) -> None:
    asked: list[object] = []

    def cache(part: str, recipe: Mapping[str, object], make: Callable[[], Arrays]) -> Arrays:
        asked.append((part, recipe["model"], recipe["exploration"]))
        return make()

    mine, theirs = (Learned(epochs=1), SAIL.exploration), (Learned(epochs=1, batch_size=32), Exploration(episodes=4))
    sail = dataclasses.replace(SAIL, iterations=1, inverse=mine[0])
    for model, exploration, expected in ((Solved(), Exploration(), mine), (*theirs, theirs)):
        asked.clear()
        given = assess(assessment.demonstrations, assessment.robot, model=model, exploration=exploration, cache=cache)
        learned(sail, given)
        assert asked == [("inverse dynamics", *expected)]
