"""GAIL from observation: a discriminator on (s, s') rewards a TRPO policy for looking demonstrated."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from imitable.arrays import Array, Float32, Generator, Snapshot, generator_state, restore_generator
from imitable.assessment import Assessment
from imitable.errors import check_fields, layer_sizes
from imitable.learners._demonstrated import DemonstratedResets, absorbed
from imitable.learners._discriminator import AGENT, DEMONSTRATED, Discriminator, LossTerm
from imitable.learners.base import Checkpoint
from imitable.learners.cloning import Cloning
from imitable.networks import Adam, Mlp, Policy, TransitionScaling, obs_statistics
from imitable.rollouts import Rollout, n_envs_for
from imitable.sampling import TransitionSampler
from imitable.simulators import Simulator
from imitable.trpo import Trpo

LossTerms = Callable[[Float32, Float32, Generator], Sequence[LossTerm]]
"""Transitions of the agent and all that `Gail.shown` shows, as discriminator inputs, to the terms of the discriminator's loss."""


@dataclass(frozen=True)
class Gail:
    """State-only GAIL with a gradient penalty, noise on the discriminator's inputs, absorbing states and resets to demonstrations
    (docs/peers.md); `Gail.released()` is without."""

    rounds: int = 500
    discriminator_learning_rate: float = 1e-3  # Adam
    discriminator_steps: int = 30  # per round
    discriminator_batch_size: int = 512
    """Transitions of the agent per step, and about as many demonstrated ones; 0: all of the round's, as released."""
    discriminator_hidden_sizes: tuple[int, ...] = (100, 100)
    gradient_penalty: float = 0.1
    """Coefficient, between demonstrated and visited transitions; 0: none, as released. Without it the discriminator overfits few
    demonstrations and saturates: its reward is 0 wherever the agent goes, and nothing is learned."""
    discriminator_noise: float = 1.0
    """Standard deviation of noise on the observations that the discriminator learns from, in units of what one random action changes; 0:
    none, as released. An agent samples its actions and a demonstrator does not; that alone tells them apart, and the agent would first of
    all stop exploring."""
    absorbing: bool = True
    """Whether an episode or a demonstration that terminates is taken to stay in its last state, which the discriminator sees and rewards,
    too. False: nothing follows an end, as released, so that rewards, which are above 0, bias against termination."""
    demonstrated_share: float = 0.5
    """Of the environments, that are reset to demonstrated observations instead of initial states; 0: none, as released. Resets in the
    middle of a gait ease exploration."""
    demonstrated_steps: int = 50  # until such an environment is reset again
    start: Literal["random", "cloning"] = "random"
    """The first policy: a random one, as released, or a clone of the recovered actions."""
    cloning: Cloning = field(default_factory=lambda: Cloning(updates=5_000))  # of start="cloning"
    cloned_std: float = 0.1  # of actions around the clone's
    frozen_rounds: int = 5  # warm-up of value function and discriminator, in which a clone is not updated
    final_fraction: float = 0.1  # of max_kl and of the discriminator's learning rate, to which both are annealed
    trpo: Trpo = field(default_factory=Trpo)
    checkpoint_every: int = 20  # rounds

    def __post_init__(self) -> None:
        check_fields(
            self,
            *((name, getattr(self, name) >= 1, "at least 1") for name in ("rounds", "discriminator_steps", "demonstrated_steps")),
            ("discriminator_learning_rate", self.discriminator_learning_rate > 0, "above 0"),
            layer_sizes("discriminator_hidden_sizes", self.discriminator_hidden_sizes),
            *(
                (name, getattr(self, name) >= 0, "at least 0")
                for name in ("discriminator_batch_size", "gradient_penalty", "discriminator_noise", "frozen_rounds")
            ),
            (
                "absorbing",
                not self.absorbing or self.trpo.gamma < 1,
                "False where trpo.gamma is 1: staying for ever would be worth no number",
            ),
            ("demonstrated_share", 0 <= self.demonstrated_share <= 1, "in [0, 1]"),
            ("start", self.start in ("random", "cloning"), "random or cloning"),
            ("cloned_std", self.cloned_std > 0, "above 0"),
            ("final_fraction", 0 < self.final_fraction <= 1, "in (0, 1]"),
            ("checkpoint_every", self.checkpoint_every >= 1, "at least 1"),
        )

    @classmethod
    def released(cls, **settings: object) -> "Gail":
        """As in the paper's released code: one full-batch step of the discriminator per round, and none of the help above."""
        plain = {"discriminator_steps": 1, "discriminator_batch_size": 0, "gradient_penalty": 0.0, "discriminator_noise": 0.0}
        return cls(**{**plain, "absorbing": False, "demonstrated_share": 0.0, **settings})  # type: ignore[arg-type]

    def __call__(self, assessment: Assessment, weights: Array, *, rng: Generator, resume: Snapshot | None = None) -> Iterator[Checkpoint]:
        shown = self.shown(assessment, weights)

        def loss_terms(agent: Float32, demonstrated: Float32, rng: Generator) -> Sequence[LossTerm]:
            return LossTerm(agent, AGENT), LossTerm(demonstrated[shown.draw_indices(len(agent), rng)], DEMONSTRATED)

        return self.learn(assessment, weights, shown, loss_terms, rng=rng, resume=resume)

    def shown(self, assessment: Assessment, weights: Array) -> TransitionSampler:
        """The transitions that the discriminator is shown."""
        sampler = TransitionSampler(assessment.demonstrations, weights)
        return absorbed(sampler, assessment.robot) if self.absorbing else sampler

    def learn(
        self,
        assessment: Assessment,
        weights: Array,
        shown: TransitionSampler,
        loss_terms: LossTerms,
        *,
        rng: Generator,
        resume: Snapshot | None,
        extra: Snapshot | None = None,
    ) -> Iterator[Checkpoint]:
        """Policy against discriminator, whatever its loss of the transitions `shown`.

        The weights set input scaling, demonstrated resets and the policy cloned first. Snapshots hold `extra`, too.
        """
        robot, sampler = assessment.robot, TransitionSampler(assessment.demonstrations, weights)
        observations, next_observations = sampler.draw(10_000, rng)
        center, scale = obs_statistics(observations)
        agent = self.trpo.init_agent(robot, center=center, scale=scale, rng=rng)
        scaling = TransitionScaling.of(observations, next_observations)
        if resume is not None:
            scaling = TransitionScaling(resume["discriminator center"], resume["discriminator scale"])
        network = Mlp((2 * len(center), *self.discriminator_hidden_sizes, 1))
        noise = scaling.noise(self.discriminator_noise * assessment.step_scale) if self.discriminator_noise else None
        discriminator = Discriminator(network, scaling, gradient_penalty=self.gradient_penalty, noise=noise)
        rows = shown.demonstrations.transition_rows
        demonstrated = discriminator.inputs(shown.demonstrations.observations[rows], shown.demonstrations.observations[rows + 1])
        parameters = network.init_parameters(rng)
        optimizer, done, steps, diverged = Adam.fresh(network.size, learning_rate=self.discriminator_learning_rate), 0, 0, 0
        reset = self.demonstrated_resets(robot, sampler)
        if self.start == "cloning":
            agent = replace(agent, policy=self.cloned(assessment, weights, rng=rng, resume=resume))
        if resume is not None:
            agent = agent.restored(resume)
            parameters, optimizer = resume["discriminator"].copy(), optimizer.restored("discriminator", resume)
            done, steps, diverged = (int(resume[name]) for name in ("done", "steps", "diverged"))
            restore_generator(rng, resume["rng"])
        elif reset is not None and agent.rollout_state is not None:
            agent.rollout_state.steps_left[reset.regular_envs :] = 0  # reset at once
        while done < self.rounds:
            # Adversaries circle each other; ever smaller steps let them converge.
            annealing = 1.0 - (1.0 - self.final_fraction) * done / self.rounds
            trpo = replace(self.trpo, max_kl=annealing * self.trpo.max_kl)
            optimizer.learning_rate = annealing * self.discriminator_learning_rate
            rollout = trpo.collect_rollouts(robot, agent, rng=rng, reset=reset)
            visited, rewards = self.rewarded(rollout, discriminator, parameters, rng=rng)
            before = agent.policy
            agent, diagnostics = trpo.update(agent, rollout, rewards, rng=rng)
            if self.start == "cloning" and done < self.frozen_rounds:
                agent = replace(agent, policy=before)
            for _ in range(self.discriminator_steps):
                size = self.discriminator_batch_size
                batch = visited[rng.integers(len(visited), size=size)] if size else visited
                diagnostics |= discriminator.update(parameters, optimizer, loss_terms(batch, demonstrated, rng), rng=rng)
            steps, done, diverged = steps + rollout.steps, done + 1, diverged + rollout.diverged
            if done % self.checkpoint_every == 0 or done == self.rounds:
                snapshot = agent.arrays() | optimizer.arrays("discriminator") | {"discriminator": parameters.copy()}
                snapshot |= {"discriminator center": scaling.center, "discriminator scale": scaling.scale, **(extra or {})}
                snapshot |= {"done": np.array(done), "steps": np.array(steps), "diverged": np.array(diverged), "rng": generator_state(rng)}
                diagnostics["reward"] = float(rewards.mean())
                yield Checkpoint(agent.policy, steps, done / self.rounds, snapshot, diagnostics, diverged)

    def rewarded(self, rollout: Rollout, discriminator: Discriminator, parameters: Float32, *, rng: Generator) -> tuple[Float32, Array]:
        """Discriminator inputs (N, 2 * observation) of what was visited, absorbing states included, and (time, env) rewards."""
        visited = discriminator.inputs(*rollout.transitions())
        rewards = discriminator.reward(parameters, visited).reshape(rollout.terminated.shape)
        if self.absorbing and rollout.terminated.any():
            last = rollout.next_observations[rollout.terminated]
            staying, gamma = discriminator.inputs(last, last), self.trpo.gamma
            rewards[rollout.terminated] += (
                gamma / (1 - gamma) * discriminator.reward(parameters, staying)
            )  # for ever: no time limit ends it
            every = np.concatenate([visited, np.repeat(staying, rollout.steps_left[rollout.terminated], axis=0)])
            visited = every[rng.integers(len(every), size=len(visited))]
        return visited, rewards

    def demonstrated_resets(self, robot: Simulator, sampler: TransitionSampler) -> DemonstratedResets | None:
        """How environments are reset; None: to initial states."""
        if not self.demonstrated_share:
            return None
        n_envs = self.trpo.n_envs or n_envs_for(self.trpo.batch_size, robot)
        return DemonstratedResets(
            robot, sampler, round((1 - self.demonstrated_share) * n_envs), min(self.demonstrated_steps, robot.horizon)
        )

    def cloned(self, assessment: Assessment, weights: Array, *, rng: Generator, resume: Snapshot | None) -> Policy:
        """The first policy; of a resumed run only its shape counts."""
        learner = self.cloning if resume is None else replace(self.cloning, updates=1)
        *_, last = learner(assessment, weights, rng=rng)
        return replace(last.policy, log_std=np.full(len(last.policy.low), np.log(self.cloned_std), np.float32))
