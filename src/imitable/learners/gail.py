"""GAIL from observation: a discriminator on (s, s') rewards a TRPO policy for looking demonstrated."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from imitable.arrays import Array, Float32, Generator, Snapshot, generator_state, restore_generator
from imitable.errors import check_fields, layers
from imitable.learners._adversary import AGENT, DEMONSTRATED, Adversary, Claim
from imitable.learners.base import Checkpoint
from imitable.networks import Adam, Mlp
from imitable.problem import Problem
from imitable.reinforcement import TransitionScaling, Trpo, flat_transitions, input_scaling
from imitable.sampling import TransitionSampler

Claims = Callable[[Float32, Float32, Generator], Sequence[Claim]]
"""The agent's transitions and all demonstrated ones, as discriminator inputs, to what the discriminator is to learn from them."""


@dataclass(frozen=True)
class Gail:
    """State-only GAIL; defaults as released but for docs/method.md's departures."""

    rounds: int = 500
    discriminator_rate: float = 1e-3  # Adam
    discriminator_steps: int = 1  # full-batch steps per round
    discriminator_hidden: tuple[int, ...] = (100, 100)
    penalty: float = 0.0
    """On a steepness of the logit, between demonstrated and visited transitions, other than 1; 0: none, as released. Without it the
    discriminator is soon sure of few demonstrations that are all alike, its reward is 0 wherever the agent goes, and nothing is learned."""
    annealed: float = 0.1  # share of the KL bound and of the discriminator's rate that is left at the end
    trpo: Trpo = field(default_factory=Trpo)
    checkpoint_every: int = 20  # rounds

    def __post_init__(self) -> None:
        check_fields(
            self,
            ("rounds", self.rounds >= 1, "at least 1"),
            ("discriminator_rate", self.discriminator_rate > 0, "above 0"),
            ("discriminator_steps", self.discriminator_steps >= 1, "at least 1"),
            layers("discriminator_hidden", self.discriminator_hidden),
            ("penalty", self.penalty >= 0, "at least 0"),
            ("annealed", 0 < self.annealed <= 1, "in (0, 1]"),
            ("checkpoint_every", self.checkpoint_every >= 1, "at least 1"),
        )

    def __call__(self, problem: Problem, weights: Array, *, rng: Generator, resume: Snapshot | None = None) -> Iterator[Checkpoint]:
        sampler = TransitionSampler(problem.demonstrations, weights)

        def claims(agent: Float32, shown: Float32, rng: Generator) -> Sequence[Claim]:
            return Claim(agent, AGENT), Claim(shown[sampler.pick(len(agent), rng)], DEMONSTRATED)

        return self.play(problem, sampler, claims, rng=rng, resume=resume)

    def play(
        self,
        problem: Problem,
        sampler: TransitionSampler,
        claims: Claims,
        *,
        rng: Generator,
        resume: Snapshot | None,
        keep: Snapshot | None = None,
    ) -> Iterator[Checkpoint]:
        """The game of policy and discriminator, whatever the discriminator is told to learn; inputs are scaled by what is sampled.

        Snapshots hold what the caller wants to keep, too.
        """
        target = problem.target
        seen, next_seen = sampler.draw(10_000, rng)
        centre, scale = input_scaling(seen)
        agent = self.trpo.start(target, centre=centre, scale=scale, rng=rng)
        scaling = TransitionScaling.of(seen, next_seen)
        if resume is not None:
            scaling = TransitionScaling(resume["judge centre"], resume["judge scale"])
        adversary = Adversary(Mlp((2 * seen.shape[1], *self.discriminator_hidden, 1)), scaling, penalty=self.penalty)
        rows = problem.demonstrations.transition_rows
        shown = adversary.inputs(problem.demonstrations.states[rows], problem.demonstrations.states[rows + 1])
        judge = adversary.network.initial(rng)
        memory, done, steps, diverged = Adam.fresh(adversary.network.size, rate=self.discriminator_rate), 0, 0, 0
        if resume is not None:
            agent = agent.restored(resume)
            judge, memory = resume["judge"].copy(), memory.restored("judge", resume)
            done, steps, diverged = (int(resume[name]) for name in ("done", "steps", "diverged"))
            restore_generator(rng, resume["rng"])
        while done < self.rounds:
            # Adversaries circle each other; ever smaller steps let them come to rest.
            left = 1.0 - (1.0 - self.annealed) * done / self.rounds
            trpo = replace(self.trpo, largest_divergence=left * self.trpo.largest_divergence)
            memory.rate = left * self.discriminator_rate
            experience = trpo.gather(target, agent, rng=rng)
            transitions = adversary.inputs(*flat_transitions(experience))
            rewards = adversary.reward(judge, transitions).reshape(experience.terminated.shape)
            agent, diagnostics = trpo.improve(agent, experience, rewards, rng=rng)
            for _ in range(self.discriminator_steps):
                diagnostics |= adversary.update(judge, memory, claims(transitions, shown, rng), rng=rng)
            steps, done, diverged = steps + experience.steps, done + 1, diverged + experience.diverged
            if done % self.checkpoint_every == 0 or done == self.rounds:
                snapshot = agent.arrays() | memory.arrays("judge") | {"judge": judge.copy(), "rng": generator_state(rng)}
                snapshot |= {"judge centre": scaling.centre, "judge scale": scaling.scale, **(keep or {})}
                snapshot |= {"done": np.array(done), "steps": np.array(steps), "diverged": np.array(diverged)}
                diagnostics["reward"] = float(rewards.mean())
                yield Checkpoint(agent.policy, steps, done / self.rounds, snapshot, diagnostics, diverged)
