"""GAIL from observation: a discriminator on (s, s') rewards a TRPO policy for looking demonstrated."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from imitable.arrays import Array, Float32, Generator, Snapshot, generator_state, restore_generator
from imitable.assessment import Assessment
from imitable.errors import check_fields, layer_sizes
from imitable.learners._discriminator import AGENT, DEMONSTRATED, Discriminator, LossTerm
from imitable.learners.base import Checkpoint
from imitable.networks import Adam, Mlp, TransitionScaling, input_scaling
from imitable.sampling import TransitionSampler
from imitable.trpo import Trpo

LossTerms = Callable[[Float32, Float32, Generator], Sequence[LossTerm]]
"""The agent's transitions and all demonstrated ones, as discriminator inputs, to the terms of the discriminator's loss."""


@dataclass(frozen=True)
class Gail:
    """State-only GAIL; defaults as released but for docs/method.md's departures."""

    rounds: int = 500
    discriminator_learning_rate: float = 1e-3  # Adam
    discriminator_steps: int = 1  # full-batch steps per round
    discriminator_hidden_sizes: tuple[int, ...] = (100, 100)
    gradient_penalty: float = 0.0
    """Coefficient, between demonstrated and visited transitions; 0: none, as released. Without it the discriminator is soon sure of few
    demonstrations that are all alike, its reward is 0 wherever the agent goes, and nothing is learned."""
    final_fraction: float = 0.1  # of max_kl and of the discriminator's learning rate, to which both are annealed
    trpo: Trpo = field(default_factory=Trpo)
    checkpoint_every: int = 20  # rounds

    def __post_init__(self) -> None:
        check_fields(
            self,
            ("rounds", self.rounds >= 1, "at least 1"),
            ("discriminator_learning_rate", self.discriminator_learning_rate > 0, "above 0"),
            ("discriminator_steps", self.discriminator_steps >= 1, "at least 1"),
            layer_sizes("discriminator_hidden_sizes", self.discriminator_hidden_sizes),
            ("gradient_penalty", self.gradient_penalty >= 0, "at least 0"),
            ("final_fraction", 0 < self.final_fraction <= 1, "in (0, 1]"),
            ("checkpoint_every", self.checkpoint_every >= 1, "at least 1"),
        )

    def __call__(self, assessment: Assessment, weights: Array, *, rng: Generator, resume: Snapshot | None = None) -> Iterator[Checkpoint]:
        sampler = TransitionSampler(assessment.demonstrations, weights)

        def loss_terms(agent: Float32, demonstrated: Float32, rng: Generator) -> Sequence[LossTerm]:
            return LossTerm(agent, AGENT), LossTerm(demonstrated[sampler.draw_indices(len(agent), rng)], DEMONSTRATED)

        return self.learn(assessment, sampler, loss_terms, rng=rng, resume=resume)

    def learn(
        self,
        assessment: Assessment,
        sampler: TransitionSampler,
        loss_terms: LossTerms,
        *,
        rng: Generator,
        resume: Snapshot | None,
        extra: Snapshot | None = None,
    ) -> Iterator[Checkpoint]:
        """Policy against discriminator, whatever its loss; inputs are scaled by what is sampled, and snapshots hold `extra`, too."""
        demonstrations, robot = assessment.demonstrations, assessment.robot
        observations, next_observations = sampler.draw(10_000, rng)
        center, scale = input_scaling(observations)
        agent = self.trpo.initial_agent(robot, center=center, scale=scale, rng=rng)
        scaling = TransitionScaling.of(observations, next_observations)
        if resume is not None:
            scaling = TransitionScaling(resume["discriminator center"], resume["discriminator scale"])
        network = Mlp((2 * demonstrations.width, *self.discriminator_hidden_sizes, 1))
        discriminator = Discriminator(network, scaling, gradient_penalty=self.gradient_penalty)
        rows = demonstrations.transition_rows
        demonstrated = discriminator.inputs(demonstrations.observations[rows], demonstrations.observations[rows + 1])
        parameters = network.init_parameters(rng)
        optimizer, done, steps, diverged = Adam.fresh(network.size, learning_rate=self.discriminator_learning_rate), 0, 0, 0
        if resume is not None:
            agent = agent.restored(resume)
            parameters, optimizer = resume["discriminator"].copy(), optimizer.restored("discriminator", resume)
            done, steps, diverged = (int(resume[name]) for name in ("done", "steps", "diverged"))
            restore_generator(rng, resume["rng"])
        while done < self.rounds:
            # Adversaries circle each other; ever smaller steps let them converge.
            annealing = 1.0 - (1.0 - self.final_fraction) * done / self.rounds
            trpo = replace(self.trpo, max_kl=annealing * self.trpo.max_kl)
            optimizer.learning_rate = annealing * self.discriminator_learning_rate
            rollout = trpo.collect(robot, agent, rng=rng)
            visited = discriminator.inputs(*rollout.transitions())
            rewards = discriminator.reward(parameters, visited).reshape(rollout.terminated.shape)
            agent, diagnostics = trpo.update(agent, rollout, rewards, rng=rng)
            for _ in range(self.discriminator_steps):
                diagnostics |= discriminator.update(parameters, optimizer, loss_terms(visited, demonstrated, rng), rng=rng)
            steps, done, diverged = steps + rollout.steps, done + 1, diverged + rollout.diverged
            if done % self.checkpoint_every == 0 or done == self.rounds:
                snapshot = agent.arrays() | optimizer.arrays("discriminator") | {"discriminator": parameters.copy()}
                snapshot |= {"discriminator center": scaling.center, "discriminator scale": scaling.scale, **(extra or {})}
                snapshot |= {"done": np.array(done), "steps": np.array(steps), "diverged": np.array(diverged), "rng": generator_state(rng)}
                diagnostics["reward"] = float(rewards.mean())
                yield Checkpoint(agent.policy, steps, done / self.rounds, snapshot, diagnostics, diverged)
