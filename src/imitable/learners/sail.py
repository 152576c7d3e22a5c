"""SAIL: align states, not actions (Liu et al., 2020).

A variational autoencoder learns where a demonstrator would go next; the robot's inverse dynamics, refined by what the agent itself
does, says which action leads there, and that is the policy's prior. A Wasserstein critic that tells demonstrated states from visited
ones rewards it, by PPO.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from imitable.arrays import Array, Arrays, Float32, Generator, Snapshot, generator_state, restore_generator
from imitable.assessment import Assessment, Exploration
from imitable.errors import above, at_least, check_fields, layer_sizes
from imitable.inverse_dynamics import Learned
from imitable.learners.base import Checkpoint
from imitable.networks import Adam, Mlp, Policy, TransitionScaling
from imitable.rollouts import Rollout
from imitable.sampling import TransitionSampler
from imitable.trpo import collect_episodes, compute_returns_and_advantages

MAX_GRAD_NORM = 5.0  # of the policy and of the value function


@dataclass
class TrainedNetwork:
    """A network, its parameters and their optimizer."""

    network: Mlp
    parameters: Float32
    """(network.size,); a policy's end with log_std."""
    optimizer: Adam = field(init=False)
    learning_rate: float

    def __post_init__(self) -> None:
        self.optimizer = Adam.fresh(len(self.parameters), learning_rate=self.learning_rate)

    def __call__(self, inputs: Float32) -> Float32:
        return self.network.forward(self.parameters, inputs)[-1]

    def step(self, gradient: Float32, *, max_grad_norm: float = np.inf) -> None:
        shrink = min(1.0, max_grad_norm / (float(np.linalg.norm(gradient)) + 1e-8))
        self.optimizer.step(self.parameters, gradient * np.float32(shrink))

    def regress(self, inputs: Float32, targets: Float32, *, l2: float = 0.0, max_grad_norm: float = np.inf) -> None:
        """One step down the mean squared error of outputs, summed over them, + l2 |parameters|^2."""
        activations = self.network.forward(self.parameters, inputs)
        gradient = self.network.backward(self.parameters, activations, (activations[-1] - targets) * np.float32(2 / len(inputs)))
        gradient = np.pad(gradient, (0, len(self.parameters) - self.network.size))  # none of log_std
        self.step(gradient + np.float32(2 * l2) * self.parameters if l2 else gradient, max_grad_norm=max_grad_norm)


@dataclass(frozen=True)
class Vae:
    """A beta-VAE from an observation to how it changes next; called, it predicts by the latent's mean."""

    encoder: Mlp
    decoder: Mlp
    parameters: Float32
    """(encoder.size + decoder.size,)"""

    @classmethod
    def fresh(cls, width: int, *, hidden: int, latent: int, rng: Generator) -> "Vae":
        encoder = Mlp((width, hidden, hidden, hidden, 2 * latent), activation="relu")
        decoder = Mlp((latent, hidden, hidden, width), activation="relu")
        return cls(encoder, decoder, np.concatenate([encoder.init_parameters(rng), decoder.init_parameters(rng)]))

    def __call__(self, inputs: Float32) -> Float32:
        """(N, observation) the change to the next state, scaled."""
        encoding, decoding = np.split(self.parameters, [self.encoder.size])
        mean, _ = np.split(self.encoder.forward(encoding, inputs)[-1], 2, axis=1)
        return self.decoder.forward(decoding, np.ascontiguousarray(mean))[-1]

    def gradient(self, inputs: Float32, changes: Float32, noise: Float32, *, beta: float) -> Float32:
        """Of mean squared error + beta/2 mean(mu^2 + s^2 - log s^2 - 1), with the latent mu + s * noise; log s within [-20, 0.5]."""
        encoding, decoding = np.split(self.parameters, [self.encoder.size])
        encoded = self.encoder.forward(encoding, inputs)
        mean, unclipped = np.split(encoded[-1], 2, axis=1)
        log_std = np.clip(unclipped, -20, 0.5)
        std = np.exp(log_std)
        decoded = self.decoder.forward(decoding, (mean + std * noise).astype(np.float32))
        of_outputs = (decoded[-1] - changes) * np.float32(2 / changes.size)
        of_latent = self.decoder.input_gradients(decoding, decoded, of_outputs)
        weight = np.float32(beta / mean.size)
        of_log_std = np.where(unclipped == log_std, of_latent * noise * std + weight * (std**2 - 1), np.float32(0))
        of_encoding = self.encoder.backward(encoding, encoded, np.concatenate([of_latent + weight * mean, of_log_std], axis=1))
        return np.concatenate([of_encoding, self.decoder.backward(decoding, decoded, of_outputs)])


def log_prob(actions: Float32, means: Float32, log_std: Float32) -> Float32:
    """(N, 1) of actions under the Gaussian, up to a constant."""
    return np.asarray(-(0.5 * ((actions - means) / np.exp(log_std)) ** 2 + log_std).sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Sail:
    """State alignment; numbers as published but for docs/peers.md's departures."""

    iterations: int = 350
    n_steps: int = 2048  # per iteration, in whole episodes
    vae_updates: int = 10_000
    vae_hidden: int = 128
    vae_latent: int = 128
    beta: float = 0.005  # weight of the VAE's divergence
    pretraining_updates: int = 5_000  # of the policy towards its prior
    frozen_iterations: int = 20  # before the policy moves on from there
    critic_steps: int = 30  # per iteration
    critic_batch_size: int = 256
    gradient_penalty: float = 1.0
    reward_scale: float = 0.1
    inverse_residual_steps: int = 100  # per frozen iteration, in which the action prior learns from what the agent did
    learning_rate: float = 3e-4  # Adam, everywhere
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_range: float = 0.2
    n_epochs: int = 10
    minibatch_size: int = 128
    value_steps: int = 2  # per minibatch
    log_std_init: float = -5.0
    ppo_coef: float = 0.001  # of the PPO loss beside the prior's
    policy_hidden: tuple[int, ...] = (256, 256, 256)
    value_hidden: tuple[int, ...] = (256, 256)
    critic_hidden: tuple[int, ...] = (256, 256, 256)
    inverse_residual_hidden: tuple[int, ...] = (100, 100)  # of the network that learns what f_id leaves over
    inverse: Learned = field(default_factory=Learned)  # asked too often for one that is solved on the simulator
    exploration: Exploration = field(default_factory=lambda: Exploration(episodes=200, steps=None))  # from which it is fitted
    checkpoint_every: int = 50  # iterations

    def __post_init__(self) -> None:
        counts = ["iterations", "n_steps", "vae_updates", "vae_hidden", "vae_latent", "pretraining_updates", "critic_steps"]
        counts += ["critic_batch_size", "inverse_residual_steps", "n_epochs", "minibatch_size", "value_steps", "checkpoint_every"]
        check_fields(
            self,
            *at_least(self, 1, *counts),
            *at_least(self, 0, "frozen_iterations", "beta", "gradient_penalty"),
            *above(self, 0, "learning_rate"),
            *(layer_sizes(name, value) for name, value in vars(self).items() if isinstance(value, tuple)),
            ("gamma", 0 < self.gamma <= 1, "in (0, 1]"),
            ("gae_lambda", 0 <= self.gae_lambda <= 1, "in [0, 1]"),
            ("clip_range", 0 < self.clip_range < 1, "between 0 and 1"),
        )

    def __call__(self, assessment: Assessment, weights: Array, *, rng: Generator, resume: Snapshot | None = None) -> Iterator[Checkpoint]:
        demonstrations = assessment.demonstrations
        if not isinstance(assessment.model, Learned):
            assessment = assessment.with_inverse(self.inverse, self.exploration)
        state = SailState(self, assessment, TransitionSampler(demonstrations, weights), rng)
        if resume is None:
            state.pretrain()
        else:
            state.restore(resume)
        demonstrated = state.inputs(demonstrations.observations[demonstrations.transition_rows + 1])
        while state.iterations < self.iterations:
            rollout = collect_episodes(assessment.robot, state.policy, batch_size=self.n_steps, rng=rng)
            visited = state.inputs(rollout.transitions()[1])
            rewards = state.rewards(demonstrated[state.sampler.draw_indices(len(visited), rng)], visited).reshape(rollout.terminated.shape)
            state.train_critic(demonstrated, visited)
            if state.iterations < self.frozen_iterations:
                # Afterwards the prior would learn the policy's own errors.
                state.train_inverse_residual(rollout)
            diagnostics = state.ppo_update(rollout, rewards)
            state.iterations, state.timesteps = state.iterations + 1, state.timesteps + rollout.steps
            state.diverged += rollout.diverged
            if state.iterations % self.checkpoint_every == 0 or state.iterations == self.iterations:
                progress = state.iterations / self.iterations
                yield Checkpoint(state.policy, state.timesteps, progress, state.snapshot(), diagnostics, state.diverged)


class SailState:
    """All that SAIL trains, and its progress."""

    def __init__(self, sail: Sail, assessment: Assessment, sampler: TransitionSampler, rng: Generator) -> None:
        self.sail, self.assessment, self.sampler, self.rng = sail, assessment, sampler, rng
        self.iterations = self.timesteps = self.diverged = 0
        self.low, self.high = assessment.robot.action_low, assessment.robot.action_high
        width, actions, rate = assessment.demonstrations.width, len(self.low), sail.learning_rate
        self.scaling = TransitionScaling.of(*sampler.draw(10_000, rng))
        policy, value = Mlp((width, *sail.policy_hidden, actions)), Mlp((width, *sail.value_hidden, 1))
        critic = Mlp((width, *sail.critic_hidden, 1), activation="relu")
        residual = Mlp((2 * width, *sail.inverse_residual_hidden, actions))
        log_std = np.full(actions, sail.log_std_init, np.float32)
        self.actor = TrainedNetwork(policy, np.concatenate([policy.init_parameters(rng), log_std]), rate)
        self.vae = Vae.fresh(width, hidden=sail.vae_hidden, latent=sail.vae_latent, rng=rng)
        self.inverse_residual = TrainedNetwork(residual, residual.init_parameters(rng), rate)
        residual.layers(self.inverse_residual.parameters)[-1][0][:] = 0.0  # f_id is right until the agent finds otherwise
        self.value = TrainedNetwork(value, value.init_parameters(rng), rate)
        self.critic = TrainedNetwork(critic, critic.init_parameters(rng), rate)
        self.critic.optimizer = replace(self.critic.optimizer, betas=(0.5, 0.99))

    @property
    def trained(self) -> dict[str, TrainedNetwork]:
        return {"policy": self.actor, "value": self.value, "critic": self.critic, "inverse_residual": self.inverse_residual}

    @property
    def policy(self) -> Policy:
        """A copy of the policy as it is now."""
        parameters, log_std = np.split(self.actor.parameters.copy(), [self.actor.network.size])
        mean, std, low, high = (each.astype(np.float32) for each in (*self.observation_scaling, self.low, self.high))
        return Policy(self.actor.network, parameters, mean, std, low, high, log_std)

    @property
    def observation_scaling(self) -> tuple[Float32, Float32]:
        """Mean and standard deviation (observation,) of what is demonstrated."""
        width = self.assessment.demonstrations.width
        return self.scaling.center[:width].astype(np.float32), self.scaling.scale[:width].astype(np.float32)

    def inputs(self, observations: Array) -> Float32:
        """(N, observation) scaled."""
        mean, std = self.observation_scaling
        return ((observations - mean) / std).astype(np.float32)

    def action_prior(self, observations: Array) -> Float32:
        """(N, action) that take the robot where a demonstrator would go next, by f_id and what the agent has learned of its errors."""
        inputs, width = self.inputs(observations), observations.shape[1]
        changes = self.vae(inputs)
        next_observations = observations + changes * self.scaling.scale[width:] + self.scaling.center[width:]
        actions = self.recovered_actions(observations, next_observations)
        actions = actions + self.inverse_residual(np.concatenate([inputs, changes], axis=1))
        return np.asarray(actions.clip(self.low, self.high), np.float32)

    def recovered_actions(self, observations: Array, next_observations: Array) -> Array:
        """(N, action) by f_id."""
        return self.assessment.inverse_dynamics(self.assessment.robot.restore(observations), next_observations).actions

    def pretrain(self) -> None:
        """Train the VAE on demonstrated transitions, then the policy towards its prior."""
        sail, optimizer = self.sail, Adam.fresh(len(self.vae.parameters), learning_rate=self.sail.learning_rate)
        for update in range(sail.vae_updates):
            optimizer.learning_rate = sail.learning_rate * 0.5 ** (4 * update // sail.vae_updates)
            transitions = self.scaling(*self.sampler.draw(sail.minibatch_size, self.rng))
            inputs, changes = map(np.ascontiguousarray, np.split(transitions, 2, axis=1))
            noise = self.rng.standard_normal((sail.minibatch_size, sail.vae_latent), np.float32)
            optimizer.step(self.vae.parameters, self.vae.gradient(inputs, changes, noise, beta=sail.beta))
        for _ in range(sail.pretraining_updates):
            observations, _ = self.sampler.draw(sail.minibatch_size, self.rng)
            self.actor.regress(self.inputs(observations), self.action_prior(observations), max_grad_norm=MAX_GRAD_NORM)

    def rewards(self, demonstrated: Float32, visited: Float32) -> Array:
        """(N,) by how much the critic prefers each visited state to the average demonstrated one; 0 before it is trained."""
        if not self.critic.optimizer.steps:
            return np.zeros(len(visited))
        values = self.critic(np.concatenate([visited, demonstrated]))[:, 0].astype(np.float64)
        return np.asarray(self.sail.reward_scale * (values[: len(visited)] - values[len(visited) :].mean()))

    def train_critic(self, demonstrated: Float32, visited: Float32) -> None:
        """Towards the Wasserstein distance, its gradient penalty taken between demonstrated and visited states."""
        from imitable.learners._sail_critic import critic_gradient

        for _ in range(self.sail.critic_steps):
            shown = demonstrated[self.sampler.draw_indices(self.sail.critic_batch_size, self.rng)]
            seen = visited[self.rng.integers(len(visited), size=len(shown))]
            share = self.rng.random((len(shown), 1), np.float32)
            batches, penalty = (shown, seen, share * shown + (1 - share) * seen), self.sail.gradient_penalty
            self.critic.step(critic_gradient(self.critic.network, self.critic.parameters, *batches, gradient_penalty=penalty))

    def train_inverse_residual(self, rollout: Rollout) -> None:
        """Least squares of what f_id leaves of the actions that the agent itself took."""
        observations, next_observations = rollout.transitions()
        inputs = self.scaling(observations, next_observations)
        actions = rollout.actions.reshape(len(inputs), -1).clip(self.low, self.high)
        residuals = (actions - self.recovered_actions(observations, next_observations)).astype(np.float32)
        for _ in range(self.sail.inverse_residual_steps):
            rows = self.rng.integers(len(inputs), size=self.sail.minibatch_size)
            self.inverse_residual.regress(inputs[rows], residuals[rows])

    def ppo_update(self, rollout: Rollout, rewards: Array) -> dict[str, float]:
        """PPO on the (time, env) rewards, held by the prior."""
        sail, policy, value = self.sail, self.policy, self.value
        batch = compute_returns_and_advantages(
            rollout, rewards, policy, value.network, value.parameters, gamma=sail.gamma, gae_lambda=sail.gae_lambda
        )
        inputs, actions, advantages, value_targets = batch.inputs, batch.actions, batch.advantages[:, None], batch.value_targets
        old_log_prob = log_prob(actions, policy.mean_actions(inputs), policy.log_std)
        prior = self.action_prior(rollout.observations.reshape(len(inputs), -1))
        for _ in range(sail.n_epochs):
            for rows in np.array_split(self.rng.permutation(len(inputs)), max(1, len(inputs) // sail.minibatch_size)):
                for _ in range(sail.value_steps):
                    value.regress(inputs[rows], value_targets[rows], l2=1e-3, max_grad_norm=MAX_GRAD_NORM)
                if self.iterations >= sail.frozen_iterations:
                    gradient = self.policy_gradient(inputs[rows], actions[rows], advantages[rows], old_log_prob[rows], prior[rows])
                    self.actor.step(gradient, max_grad_norm=MAX_GRAD_NORM)
        distance = float(np.square(prior - self.actor(inputs)).sum(axis=1).mean())
        return {"reward": float(rewards.mean()), "distance from prior": distance, "std": float(np.exp(self.policy.log_std).mean())}

    def policy_gradient(self, inputs: Float32, actions: Float32, advantages: Float32, old_log_prob: Float32, prior: Float32) -> Float32:
        """Of mean |a_prior - mu|^2 + sum s^2 - 0.01 sum log s + ppo_coef * L_PPO."""
        network, log_std = self.actor.network, self.actor.parameters[self.actor.network.size :]
        activations, variance = network.forward(self.actor.parameters, inputs), np.exp(2 * log_std)
        deviations, clip_range = actions - activations[-1], self.sail.clip_range
        ratio = np.exp(log_prob(actions, activations[-1], log_std) - old_log_prob)
        clipped = np.where(advantages > 0, ratio > 1 + clip_range, ratio < 1 - clip_range)  # the clipped term is the smaller one
        of_log_prob = np.where(clipped, 0, -self.sail.ppo_coef * advantages * ratio).astype(np.float32) / len(inputs)
        of_means = of_log_prob * deviations / variance + (activations[-1] - prior) * np.float32(2 / len(inputs))
        of_log_std = (of_log_prob * (deviations**2 / variance - 1)).sum(axis=0) + 2 * variance - np.float32(0.01)
        return np.concatenate([network.backward(self.actor.parameters, activations, of_means.astype(np.float32)), of_log_std])

    def snapshot(self) -> Arrays:
        arrays: Arrays = {"center": self.scaling.center, "scale": self.scaling.scale}
        for name, trained in self.trained.items():
            arrays |= {name: trained.parameters.copy(), **trained.optimizer.arrays(name)}
        arrays |= {name: np.array(getattr(self, name)) for name in ("iterations", "timesteps", "diverged")}
        return {**arrays, "vae": self.vae.parameters.copy(), "rng": generator_state(self.rng)}

    def restore(self, snapshot: Snapshot) -> None:
        """Load a snapshot."""
        self.scaling = TransitionScaling(snapshot["center"], snapshot["scale"])
        for name, trained in self.trained.items():
            trained.parameters, trained.optimizer = snapshot[name].copy(), trained.optimizer.restored(name, snapshot)
        for name in ("iterations", "timesteps", "diverged"):
            setattr(self, name, int(snapshot[name]))
        self.vae.parameters[:] = snapshot["vae"]
        restore_generator(self.rng, snapshot["rng"])
