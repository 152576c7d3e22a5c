"""GAIL from observation: a discriminator on (s, s') rewards a TRPO policy for looking demonstrated."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from imitable.arrays import Array, Arrays, Float32, Generator, Snapshot, generator_state, restore_generator
from imitable.assessment import Assessment
from imitable.errors import LATER, check_fields, layer_sizes
from imitable.learners._demonstrated import DemonstratedResets, with_absorbing_states
from imitable.learners._discriminator import AGENT, DEMONSTRATED, Discriminator, LossTerm
from imitable.learners.base import Checkpoint
from imitable.learners.cloning import Cloning
from imitable.networks import Adam, Mlp, Policy, TransitionScaling, obs_statistics
from imitable.rollouts import Rollout, n_envs_for
from imitable.sampling import TransitionSampler
from imitable.simulators import Simulator
from imitable.trpo import ActorCritic, Trpo

LossTerms = Callable[[Float32, Float32, Generator], Sequence[LossTerm]]
"""Discriminator inputs of the agent's transitions and of all those of `Gail.sampler`, to the terms of the discriminator's loss."""


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
    averaged_rounds: int = field(default=0, metadata=LATER)
    """Rounds over which the parameters of the policies at checkpoints are averaged, with exponentially fading weights; 0: not averaged. The
    learning itself does not see the average. Adversaries circle each other: each round's policy errs elsewhere, and their average less."""
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
                for name in ("discriminator_batch_size", "gradient_penalty", "discriminator_noise", "frozen_rounds", "averaged_rounds")
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
        sampler = self.sampler(assessment, weights)

        def loss_terms(agent: Float32, demonstrated: Float32, rng: Generator) -> Sequence[LossTerm]:
            return LossTerm(agent, AGENT), LossTerm(demonstrated[sampler.draw_indices(len(agent), rng)], DEMONSTRATED)

        return self.learn(assessment, weights, sampler, loss_terms, rng=rng, resume=resume)

    def sampler(self, assessment: Assessment, weights: Array) -> TransitionSampler:
        """The demonstrated transitions that the discriminator sees, with absorbing states if there are such."""
        sampler = TransitionSampler(assessment.demonstrations, weights)
        return with_absorbing_states(sampler, assessment.robot) if self.absorbing else sampler

    def learn(
        self,
        assessment: Assessment,
        weights: Array,
        sampler: TransitionSampler,
        loss_terms: LossTerms,
        *,
        rng: Generator,
        resume: Snapshot | None,
        extra: Snapshot | None = None,
    ) -> Iterator[Checkpoint]:
        """Adversarial training for any loss of the discriminator on the transitions of `sampler`.

        The weights set input scaling, demonstrated resets and the policy cloned first. Snapshots hold `extra`, too.
        """
        robot, plain_sampler = assessment.robot, TransitionSampler(assessment.demonstrations, weights)
        reset = self.demonstrated_resets(robot, plain_sampler)
        state = self._initial(assessment, weights, plain_sampler, reset, rng=rng, resume=resume)
        discriminator, parameters, optimizer = state.discriminator, state.parameters, state.optimizer
        rows, observations = sampler.demonstrations.transition_rows, sampler.demonstrations.observations
        demonstrated = discriminator.inputs(observations[rows], observations[rows + 1])
        while state.done < self.rounds:
            # Annealing stabilises adversarial training.
            annealing = 1.0 - (1.0 - self.final_fraction) * state.done / self.rounds
            trpo = replace(self.trpo, max_kl=annealing * self.trpo.max_kl)
            optimizer.learning_rate = annealing * self.discriminator_learning_rate
            rollout = trpo.collect_rollouts(robot, state.agent, rng=rng, reset=reset)
            visited, rewards = self.compute_rewards(rollout, discriminator, parameters, rng=rng)
            agent, diagnostics = trpo.update(state.agent, rollout, rewards, rng=rng)
            frozen = self.start == "cloning" and state.done < self.frozen_rounds
            state.agent = replace(agent, policy=state.agent.policy) if frozen else agent
            for _ in range(self.discriminator_steps):
                size = self.discriminator_batch_size
                batch = visited[rng.integers(len(visited), size=size)] if size else visited
                diagnostics |= discriminator.update(parameters, optimizer, loss_terms(batch, demonstrated, rng), rng=rng)
            state.done, state.steps, state.diverged = state.done + 1, state.steps + rollout.steps, state.diverged + rollout.diverged
            state.average(self.averaged_rounds)
            if state.done % self.checkpoint_every == 0 or state.done == self.rounds:
                diagnostics["reward"] = float(rewards.mean())
                snapshot = state.snapshot(rng, extra or {})
                yield Checkpoint(state.policy, state.steps, state.done / self.rounds, snapshot, diagnostics, state.diverged)

    def _initial(
        self,
        assessment: Assessment,
        weights: Array,
        sampler: TransitionSampler,
        reset: DemonstratedResets | None,
        *,
        rng: Generator,
        resume: Snapshot | None,
    ) -> "GailState":
        """An untrained or cloned agent and an untrained discriminator, or those of the snapshot."""
        observations, next_observations = sampler.draw(10_000, rng)
        center, scale = obs_statistics(observations)
        agent = self.trpo.init_agent(assessment.robot, center=center, scale=scale, rng=rng)
        scaling = TransitionScaling.of(observations, next_observations)
        if resume is not None:
            scaling = TransitionScaling(resume["discriminator center"], resume["discriminator scale"])
        network = Mlp((2 * len(center), *self.discriminator_hidden_sizes, 1))
        noise = scaling.noise(self.discriminator_noise * assessment.step_scale) if self.discriminator_noise else None
        discriminator = Discriminator(network, scaling, gradient_penalty=self.gradient_penalty, noise=noise)
        parameters = network.init_parameters(rng)
        optimizer = Adam.fresh(network.size, learning_rate=self.discriminator_learning_rate)
        if self.start == "cloning":
            agent = replace(agent, policy=self.cloned(assessment, weights, rng=rng, resume=resume))
        state = GailState(agent, discriminator, parameters, optimizer)
        if resume is not None:
            return state.restored(resume, rng)
        if reset is not None and agent.rollout_state is not None:
            steps_left = agent.rollout_state.steps_left.copy()
            steps_left[reset.regular_envs :] = 0  # reset before the first step
            state.agent = replace(agent, rollout_state=replace(agent.rollout_state, steps_left=steps_left))
        return state

    def compute_rewards(
        self, rollout: Rollout, discriminator: Discriminator, parameters: Float32, *, rng: Generator
    ) -> tuple[Float32, Array]:
        """Discriminator inputs (N, 2 * observation) of what was visited, absorbing states included, and (time, env) rewards."""
        visited = discriminator.inputs(*rollout.transitions())
        rewards = discriminator.reward(parameters, visited).reshape(rollout.terminated.shape)
        if self.absorbing and rollout.terminated.any():
            last = rollout.next_observations[rollout.terminated]
            staying, gamma = discriminator.inputs(last, last), self.trpo.gamma
            # An absorbing state has no time limit: its reward is a geometric series.
            rewards[rollout.terminated] += gamma / (1 - gamma) * discriminator.reward(parameters, staying)
            every = np.concatenate([visited, np.repeat(staying, rollout.steps_left[rollout.terminated], axis=0)])
            visited = every[rng.integers(len(every), size=len(visited))]
        return visited, rewards

    def demonstrated_resets(self, robot: Simulator, sampler: TransitionSampler) -> DemonstratedResets | None:
        """Resets to demonstrated observations; None: all to initial states."""
        if not self.demonstrated_share:
            return None
        n_envs = self.trpo.n_envs or n_envs_for(self.trpo.batch_size, robot)
        return DemonstratedResets(
            robot, sampler, round((1 - self.demonstrated_share) * n_envs), min(self.demonstrated_steps, robot.horizon)
        )

    def cloned(self, assessment: Assessment, weights: Array, *, rng: Generator, resume: Snapshot | None) -> Policy:
        """The first policy, by behavior cloning; for a resumed run only the shape of its network matters."""
        learner = self.cloning if resume is None else replace(self.cloning, updates=1)
        *_, last = learner(assessment, weights, rng=rng)
        return replace(last.policy, log_std=np.full(len(last.policy.low), np.log(self.cloned_std), np.float32))


@dataclass
class GailState:
    """Agent and discriminator during training."""

    agent: ActorCritic
    discriminator: Discriminator
    parameters: Float32
    """Of the discriminator; updated in place, as is its optimizer."""
    optimizer: Adam
    done: int = 0
    """Rounds so far."""
    steps: int = 0
    """Environment steps so far."""
    diverged: int = 0
    """Simulations that diverged so far."""
    averaged: Float32 | None = None
    """The policy's parameters, averaged over the last rounds; None: not averaged."""

    @property
    def policy(self) -> Policy:
        """For a checkpoint."""
        policy = self.agent.policy
        return policy if self.averaged is None else replace(policy, parameters=self.averaged)

    def average(self, rounds: int) -> None:
        """Take the last round's policy into the average over so many rounds; of the first ones it is the plain mean."""
        if rounds:
            new, old = self.agent.policy.parameters, self.averaged
            self.averaged = new.copy() if old is None else old + (new - old) / np.float32(min(rounds, self.done))

    def snapshot(self, rng: Generator, extra: Snapshot) -> Arrays:
        scaling = self.discriminator.inputs
        return {
            **self.agent.arrays(),
            **self.optimizer.arrays("discriminator"),
            "discriminator": self.parameters.copy(),
            "discriminator center": scaling.center,
            "discriminator scale": scaling.scale,
            **extra,
            **({} if self.averaged is None else {"averaged": self.averaged}),
            **{name: np.array(getattr(self, name)) for name in ("done", "steps", "diverged")},
            "rng": generator_state(rng),
        }

    def restored(self, snapshot: Snapshot, rng: Generator) -> "GailState":
        """The state of a snapshot, with this one's networks; the generator goes on from there, too."""
        restore_generator(rng, snapshot["rng"])
        return replace(
            self,
            agent=self.agent.restored(snapshot),
            parameters=snapshot["discriminator"].copy(),
            optimizer=self.optimizer.restored("discriminator", snapshot),
            done=int(snapshot["done"]),
            steps=int(snapshot["steps"]),
            diverged=int(snapshot["diverged"]),
            averaged=snapshot.get("averaged"),
        )
