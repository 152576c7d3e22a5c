"""SAIL: align states, not actions (Liu et al., 2020).

A variational autoencoder learns where a demonstrator would go next; the target's inverse dynamics, refined by what the agent itself
does, says which action leads there, and that is the policy's prior. A Wasserstein critic that tells demonstrated states from visited
ones rewards it, by PPO.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from imitable.arrays import Array, Float32, Generator, Snapshot, generator_state, restore_generator
from imitable.errors import check_fields, layers
from imitable.learners._adversary import penalty_gradient, somewhere_between
from imitable.learners.base import Checkpoint
from imitable.networks import Adam, Mlp, Policy
from imitable.problem import Problem
from imitable.reinforcement import Experience, TransitionScaling, flat_transitions, judge, sample_batch
from imitable.sampling import TransitionSampler


@dataclass(frozen=True)
class Foresight:
    """A beta-VAE from a state to how it changes next; networks and their prediction by the latent's mean."""

    encoder: Mlp
    decoder: Mlp
    parameters: Float32
    """(encoder.size + decoder.size,)"""

    @classmethod
    def fresh(cls, width: int, *, hidden: int, latent: int, rng: Generator) -> "Foresight":
        encoder = Mlp((width, hidden, hidden, hidden, 2 * latent), activation="relu")
        decoder = Mlp((latent, hidden, hidden, width), activation="relu")
        return cls(encoder, decoder, np.concatenate([encoder.initial(rng), decoder.initial(rng)]))

    def __call__(self, inputs: Float32) -> Float32:
        """(N, observation) the change to the next state, scaled."""
        encoding, decoding = np.split(self.parameters, [self.encoder.size])
        means = np.split(self.encoder.forward(encoding, inputs)[-1], 2, axis=1)[0]
        return self.decoder.forward(decoding, np.ascontiguousarray(means))[-1]

    def gradient(self, inputs: Float32, goals: Float32, noise: Float32, *, beta: float) -> Float32:
        """Of mean squared error + beta/2 mean(mu^2 + s^2 - log s^2 - 1), with the latent mu + s * noise; log s within [-20, 0.5]."""
        encoding, decoding = np.split(self.parameters, [self.encoder.size])
        encoded = self.encoder.forward(encoding, inputs)
        means, raw = np.split(encoded[-1], 2, axis=1)
        log_spreads = np.clip(raw, -20, 0.5)
        spreads = np.exp(log_spreads)
        decoded = self.decoder.forward(decoding, (means + spreads * noise).astype(np.float32))
        errors = (decoded[-1] - goals) * np.float32(2 / goals.size)
        latent = self.decoder.input_gradients(decoding, decoded, errors)
        toll = np.float32(beta / means.size)
        for_means = latent + toll * means
        for_spreads = np.where(raw == log_spreads, latent * noise * spreads + toll * (spreads**2 - 1), np.float32(0))
        through = np.concatenate([for_means, for_spreads], axis=1)
        return np.concatenate([self.encoder.backward(encoding, encoded, through), self.decoder.backward(decoding, decoded, errors)])


def critic_gradient(network: Mlp, parameters: Float32, shown: Float32, visited: Float32, mixed: Float32, *, penalty: float) -> Float32:
    """Of E_visited[D] - E_shown[D] + penalty * E_mixed[(|dD/ds| - 1)^2]."""
    values = network.forward(parameters, np.concatenate([visited, shown]))
    signs = np.concatenate(
        [np.full((len(visited), 1), 1 / len(visited), np.float32), np.full((len(shown), 1), -1 / len(shown), np.float32)]
    )
    return network.backward(parameters, values, signs) + penalty_gradient(network, parameters, mixed, penalty=penalty)


@dataclass(frozen=True)
class Sail:
    """State alignment; numbers as published but for docs/peers.md's departures."""

    iterations: int = 350
    batch: int = 2048  # steps per iteration, in whole episodes
    foresight_updates: int = 10_000
    foresight_hidden: int = 128
    foresight_latent: int = 128
    beta: float = 0.005
    pretraining_updates: int = 5_000  # of the policy towards its prior
    frozen: int = 20  # iterations before the policy moves on from there
    critic_steps: int = 30  # per iteration
    critic_batch: int = 256
    penalty: float = 1.0
    reward_scale: float = 0.1
    refreshing_steps: int = 100  # per frozen iteration, in which the action prior learns from what the agent did
    rate: float = 3e-4  # Adam, everywhere
    discount: float = 0.99
    decay: float = 0.95
    clip: float = 0.2
    passes: int = 10
    minibatch: int = 128
    value_steps: int = 2  # per minibatch
    spread: float = float(np.exp(-5))  # initial standard deviation of actions
    gain_share: float = 0.001  # of the PPO loss beside the prior's
    policy_hidden: tuple[int, ...] = (256, 256, 256)
    value_hidden: tuple[int, ...] = (256, 256)
    critic_hidden: tuple[int, ...] = (256, 256, 256)
    remainder_hidden: tuple[int, ...] = (100, 100)  # of the network that learns what f_id leaves over
    checkpoint_every: int = 50  # iterations

    def __post_init__(self) -> None:
        counts = (
            "iterations",
            "batch",
            "foresight_updates",
            "pretraining_updates",
            "critic_steps",
            "critic_batch",
            "refreshing_steps",
            "passes",
            "minibatch",
            "value_steps",
        )
        networks = ("policy_hidden", "value_hidden", "critic_hidden", "remainder_hidden")
        check_fields(
            self,
            *((name, getattr(self, name) >= 1, "at least 1") for name in (*counts, "checkpoint_every")),
            *(layers(name, getattr(self, name)) for name in networks),
            ("frozen", self.frozen >= 0, "at least 0"),
            ("rate", self.rate > 0, "above 0"),
            ("discount", 0 < self.discount <= 1, "in (0, 1]"),
            ("decay", 0 <= self.decay <= 1, "in [0, 1]"),
            ("clip", 0 < self.clip < 1, "between 0 and 1"),
            ("spread", self.spread > 0, "above 0"),
            ("foresight_hidden", self.foresight_hidden >= 1, "at least 1"),
            ("foresight_latent", self.foresight_latent >= 1, "at least 1"),
            ("beta", self.beta >= 0, "at least 0"),
            ("penalty", self.penalty >= 0, "at least 0"),
        )

    def __call__(self, problem: Problem, weights: Array, *, rng: Generator, resume: Snapshot | None = None) -> Iterator[Checkpoint]:
        sampler, target = TransitionSampler(problem.demonstrations, weights), problem.target
        student = self.enrol(problem, sampler, rng=rng)
        if resume is None:
            self.prepare(student, problem, sampler, rng=rng)
        else:
            student.restore(resume)
            restore_generator(rng, resume["rng"])
        arrivals = student.policy.inputs(problem.demonstrations.states[problem.demonstrations.transition_rows + 1])
        while student.done < self.iterations:
            experience = sample_batch(target, student.policy, batch=self.batch, rng=rng)
            visited = student.policy.inputs(flat_transitions(experience)[1])
            rewards = self.rewards(student, arrivals[sampler.pick(len(visited), rng)], visited).reshape(experience.terminated.shape)
            for _ in range(self.critic_steps):
                shown = arrivals[sampler.pick(self.critic_batch, rng)]
                seen = visited[rng.integers(len(visited), size=self.critic_batch)]
                mixed = somewhere_between(shown, seen, rng)
                gradient = critic_gradient(student.critic_network, student.critic, shown, seen, mixed, penalty=self.penalty)
                student.critic_memory.step(student.critic, gradient)
            if student.done < self.frozen:
                # Later the agent would teach the prior its own mistakes, which the prior would teach it back.
                self.refresh(student, problem, experience, rng=rng)
            diagnostics = self.improve(student, problem, experience, rewards, rng=rng)
            student.steps += experience.steps
            student.done += 1
            student.diverged += experience.diverged
            if student.done % self.checkpoint_every == 0 or student.done == self.iterations:
                snapshot = {**student.arrays(), "rng": generator_state(rng)}
                policy = replace(student.policy, parameters=snapshot["policy"], log_spread=snapshot["spread"])
                progress = student.done / self.iterations
                yield Checkpoint(policy, student.steps, progress, snapshot, diagnostics, student.diverged)

    def enrol(self, problem: Problem, sampler: TransitionSampler, *, rng: Generator) -> "Apprentice":
        """Untrained networks, whose inputs are scaled by what is sampled."""
        target, width, controls = problem.target, problem.demonstrations.width, len(problem.target.action_low)
        states, following = sampler.draw(10_000, rng)
        scaling = TransitionScaling.of(states, following)
        (centre, _), (scale, _) = np.split(scaling.centre, 2), np.split(scaling.scale, 2)
        network = Mlp((width, *self.policy_hidden, controls))
        low, high = target.action_low, target.action_high
        policy = Policy.fresh(network, centre=centre, scale=scale, low=low, high=high, spread=self.spread, rng=rng)
        value, critic = Mlp((width, *self.value_hidden, 1)), Mlp((width, *self.critic_hidden, 1), activation="relu")
        foresight = Foresight.fresh(width, hidden=self.foresight_hidden, latent=self.foresight_latent, rng=rng)
        remainder_network = Mlp((2 * width, *self.remainder_hidden, controls))
        remainder = remainder_network.initial(rng)
        remainder_network.layers(remainder)[-1][0][:] = 0.0  # f_id is right until the agent finds otherwise
        return Apprentice(
            policy=policy,
            policy_memory=Adam.fresh(network.size + network.widths[-1], rate=self.rate),
            value_network=value,
            value=value.initial(rng),
            value_memory=Adam.fresh(value.size, rate=self.rate),
            critic_network=critic,
            critic=critic.initial(rng),
            critic_memory=replace(Adam.fresh(critic.size, rate=self.rate), first_share=0.5, second_share=0.01),
            foresight=foresight,
            remainder_network=remainder_network,
            remainder=remainder,
            remainder_memory=Adam.fresh(remainder_network.size, rate=self.rate),
            scaling=scaling,
        )

    def prepare(self, student: "Apprentice", problem: Problem, sampler: TransitionSampler, *, rng: Generator) -> None:
        """Train the foresight on demonstrated transitions, then the policy towards the actions that lead where it points."""
        memory = Adam.fresh(len(student.foresight.parameters), rate=self.rate)
        for update in range(self.foresight_updates):
            memory.rate = self.rate * 0.5 ** (4 * update // self.foresight_updates)
            states, following = sampler.draw(self.minibatch, rng)
            inputs, goals = map(np.ascontiguousarray, np.split(student.scaling(states, following), 2, axis=1))
            noise = rng.standard_normal((self.minibatch, self.foresight_latent), np.float32)
            memory.step(student.foresight.parameters, student.foresight.gradient(inputs, goals, noise, beta=self.beta))
        network = student.policy.network
        for _ in range(self.pretraining_updates):
            seen = sampler.draw(self.minibatch, rng)[0]
            values = network.forward(student.policy.parameters, student.policy.inputs(seen))
            slopes = (values[-1] - student.prior(problem, seen)) * np.float32(2 / self.minibatch)
            gradient = np.concatenate(
                [network.backward(student.policy.parameters, values, slopes), np.zeros(network.widths[-1], np.float32)]
            )
            student.move_policy(gradient)

    def rewards(self, student: "Apprentice", shown: Float32, visited: Float32) -> Array:
        """(N,) how much more demonstrated than the average demonstration the critic finds each visited state; nothing untrained."""
        if not student.critic_memory.steps:
            return np.zeros(len(visited))
        worth = student.critic_network.forward(student.critic, np.concatenate([visited, shown]))[-1][:, 0].astype(np.float64)
        return np.asarray(self.reward_scale * (worth[: len(visited)] - worth[len(visited) :].mean()))

    def refresh(self, student: "Apprentice", problem: Problem, experience: Experience, *, rng: Generator) -> None:
        """Least squares of what f_id leaves of the actions that the agent itself took."""
        states, following = flat_transitions(experience)
        inputs = student.scaling(states, following)
        actions = experience.actions.reshape(len(states), -1).clip(problem.target.action_low, problem.target.action_high)
        leftovers = (actions - problem.inverse_dynamics(states, following)).astype(np.float32)
        network = student.remainder_network
        for _ in range(self.refreshing_steps):
            rows = rng.integers(len(inputs), size=self.minibatch)
            values = network.forward(student.remainder, inputs[rows])
            slopes = (values[-1] - leftovers[rows]) * np.float32(2 / self.minibatch)
            student.remainder_memory.step(student.remainder, network.backward(student.remainder, values, slopes))

    def improve(
        self, student: "Apprentice", problem: Problem, experience: Experience, rewards: Array, *, rng: Generator
    ) -> dict[str, float]:
        """PPO towards the reward, held by the prior: mean |a_inv - mu|^2 + sum s^2 - 0.01 sum log s + gain_share * L_PPO."""
        lessons = judge(experience, rewards, student.policy, student.value_network, student.value, discount=self.discount, decay=self.decay)
        inputs, actions, gains = lessons.inputs, lessons.actions, lessons.gains[:, None]
        likelihood = log_likelihood(actions, student.policy.mean(inputs), student.policy.log_spread)
        prior = student.prior(problem, experience.observations.reshape(-1, inputs.shape[1]))
        for _ in range(self.passes):
            for rows in np.array_split(rng.permutation(len(inputs)), max(1, len(inputs) // self.minibatch)):
                for _ in range(self.value_steps):
                    student.fit_value(inputs[rows], lessons.goals[rows])
                if student.done >= self.frozen:
                    student.move_policy(self.slope(student.policy, inputs[rows], actions[rows], gains[rows], likelihood[rows], prior[rows]))
        apart = float(np.square(prior - student.policy.mean(inputs)).sum(axis=1).mean())
        return {"reward": float(rewards.mean()), "distance from prior": apart, "spread": float(np.exp(student.policy.log_spread).mean())}

    def slope(self, policy: Policy, inputs: Float32, actions: Float32, gains: Float32, likelihood: Float32, prior: Float32) -> Float32:
        """The gradient of the policy's loss, of the network's parameters and then of the log spreads."""
        values = policy.network.forward(policy.parameters, inputs)
        variance = np.exp(2 * policy.log_spread)
        deviations = actions - values[-1]
        ratio = np.exp(log_likelihood(actions, values[-1], policy.log_spread) - likelihood)
        held = np.where(gains > 0, ratio > 1 + self.clip, ratio < 1 - self.clip)  # the clipped term is the smaller one
        pull = np.where(held, 0, -self.gain_share * gains * ratio).astype(np.float32) / len(inputs)
        mean_slopes = pull * deviations / variance + (values[-1] - prior) * np.float32(2 / len(inputs))
        spread_slope = (pull * (deviations**2 / variance - 1)).sum(axis=0) + 2 * variance - np.float32(0.01)
        return np.concatenate([policy.network.backward(policy.parameters, values, mean_slopes.astype(np.float32)), spread_slope])


def log_likelihood(actions: Float32, means: Float32, log_spread: Float32) -> Float32:
    """(N, 1) of actions under the Gaussian, up to a constant."""
    deviations = (actions - means) / np.exp(log_spread)
    return np.asarray(-(0.5 * deviations**2 + log_spread).sum(axis=1, keepdims=True))


def shortened(gradient: Float32) -> Float32:
    """At most 5 long."""
    return gradient * np.float32(min(1.0, 5 / (float(np.linalg.norm(gradient)) + 1e-8)))


@dataclass
class Apprentice:
    """All that SAIL learns, and how far it has come."""

    policy: Policy
    policy_memory: Adam
    value_network: Mlp
    value: Float32
    value_memory: Adam
    critic_network: Mlp
    critic: Float32
    critic_memory: Adam
    foresight: Foresight
    remainder_network: Mlp
    remainder: Float32
    remainder_memory: Adam
    scaling: TransitionScaling
    done: int = 0
    steps: int = 0
    diverged: int = 0

    def prior(self, problem: Problem, observations: Array) -> Float32:
        """(N, action) what takes the target where a demonstrator would go next, by f_id and by what the agent has learned of it."""
        inputs = self.policy.inputs(observations)
        changes = self.foresight(inputs)
        (_, centre), (_, scale) = np.split(self.scaling.centre, 2), np.split(self.scaling.scale, 2)
        ahead = observations + changes * scale + centre
        leftovers = self.remainder_network.forward(self.remainder, np.concatenate([inputs, changes], axis=1))[-1]
        actions = problem.inverse_dynamics(observations, ahead) + leftovers
        return np.asarray(actions.clip(problem.target.action_low, problem.target.action_high), np.float32)

    def move_policy(self, gradient: Float32) -> None:
        moved = np.concatenate([self.policy.parameters, self.policy.log_spread])
        self.policy_memory.step(moved, shortened(gradient.astype(np.float32)))
        parameters, log_spread = np.split(moved, [self.policy.network.size])
        self.policy = replace(self.policy, parameters=parameters, log_spread=log_spread)

    def fit_value(self, inputs: Float32, goals: Float32) -> None:
        """One step of least squares with a little weight decay."""
        values = self.value_network.forward(self.value, inputs)
        gradient = self.value_network.backward(self.value, values, (values[-1] - goals) * np.float32(2 / len(inputs)))
        gradient += np.float32(2e-3) * self.value
        self.value_memory.step(self.value, shortened(gradient))

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Everything, for a snapshot."""
        learned: dict[str, np.ndarray[Any, Any]] = {"policy": self.policy.parameters.copy(), "spread": self.policy.log_spread.copy()}
        learned |= {"centre": self.policy.centre, "scale": self.policy.scale, "value": self.value.copy(), "critic": self.critic.copy()}
        learned |= {"remainder": self.remainder.copy(), "transition centre": self.scaling.centre, "transition scale": self.scaling.scale}
        memories = self.policy_memory.arrays("policy") | self.value_memory.arrays("value") | self.critic_memory.arrays("critic")
        memories |= self.remainder_memory.arrays("remainder")
        counts = {name: np.array(getattr(self, name)) for name in ("done", "steps", "diverged")}
        return {**learned, **memories, **counts, "foresight": self.foresight.parameters.copy()}

    def restore(self, snapshot: Snapshot) -> None:
        """Become the one that `arrays` described."""
        self.policy = replace(
            self.policy,
            parameters=snapshot["policy"],
            log_spread=snapshot["spread"],
            centre=snapshot["centre"],
            scale=snapshot["scale"],
        )
        self.value, self.critic = snapshot["value"].copy(), snapshot["critic"].copy()
        self.foresight = replace(self.foresight, parameters=snapshot["foresight"].copy())
        self.policy_memory = self.policy_memory.restored("policy", snapshot)
        self.value_memory = self.value_memory.restored("value", snapshot)
        self.critic_memory = self.critic_memory.restored("critic", snapshot)
        self.remainder, self.remainder_memory = snapshot["remainder"].copy(), self.remainder_memory.restored("remainder", snapshot)
        self.scaling = TransitionScaling(snapshot["transition centre"], snapshot["transition scale"])
        self.done, self.steps, self.diverged = (int(snapshot[name]) for name in ("done", "steps", "diverged"))
