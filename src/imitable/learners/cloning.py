"""Behaviour cloning from observation: copy the target's actions that explain the demonstrated transitions.

The paper discards the demonstrators' actions, which another body could not take; the target's inverse dynamics recovers its own.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from imitable.arrays import Array, Float32, Generator, Snapshot, generator_state, restore_generator
from imitable.errors import check_fields, layers
from imitable.learners.base import Checkpoint
from imitable.networks import Adam, Mlp, Policy
from imitable.problem import Problem
from imitable.reinforcement import input_scaling
from imitable.sampling import TransitionSampler


@dataclass(frozen=True)
class Cloning:
    """Smooth-L1 regression of recovered actions on observations drawn from p_w."""

    updates: int = 20_000
    batch: int = 256
    rate: float = 1e-3  # Adam, annealed to nothing along a cosine
    bend: float = 0.1  # action error at which the loss turns from square to linear; small, so that two ways are not averaged into none
    jitter: float = 1.0  # noise on observations, in units of what one random action changes
    hidden: tuple[int, ...] = (100, 100, 100)
    checkpoint_every: int = 2_000  # updates

    def __post_init__(self) -> None:
        counts = (("updates", self.updates), ("batch", self.batch), ("checkpoint_every", self.checkpoint_every))
        check_fields(
            self,
            *((name, value >= 1, "at least 1") for name, value in counts),
            ("rate", self.rate > 0, "above 0"),
            ("bend", self.bend > 0, "above 0"),
            ("jitter", self.jitter >= 0, "at least 0"),
            layers("hidden", self.hidden),
        )

    def __call__(self, problem: Problem, weights: Array, *, rng: Generator, resume: Snapshot | None = None) -> Iterator[Checkpoint]:
        sampler, target = TransitionSampler(problem.demonstrations, weights), problem.target
        rows, actions = problem.demonstrations.transition_rows, recovered_actions(problem, weights)
        centre, scale = input_scaling(sampler.draw(10_000, rng)[0])
        if resume is not None:
            centre, scale = resume["centre"], resume["scale"]
        network = Mlp((problem.demonstrations.width, *self.hidden, len(target.action_low)), activation="relu")
        policy = Policy.fresh(network, centre=centre, scale=scale, low=target.action_low, high=target.action_high, rng=rng)
        observations = policy.inputs(problem.demonstrations.states)
        # Rates such as a turn rate change wholly with one action, so in a demonstration they give away the last one, and a clone
        # learns to repeat it. Noise as large as what one action changes hides that, and leaves slow columns such as places alone.
        noise = (self.jitter * problem.step_scale / scale).astype(np.float32)
        parameters, memory, done = policy.parameters, Adam.fresh(network.size, rate=self.rate), 0
        if resume is not None:
            parameters, done, memory = resume["parameters"].copy(), int(resume["done"]), memory.restored("clone", resume)
            restore_generator(rng, resume["rng"])
        error_sum, since = 0.0, 0
        while done < self.updates:
            picks = sampler.pick(self.batch, rng)
            seen = observations[rows[picks]]
            values = network.forward(parameters, seen + noise * rng.standard_normal(seen.shape, np.float32))
            errors = values[-1] - actions[picks]
            slopes = np.clip(errors / np.float32(self.bend), -1.0, 1.0) / np.float32(self.batch)
            memory.rate = self.rate * 0.5 * (1 + math.cos(math.pi * done / self.updates))  # a Python float keeps Adam in float32
            memory.step(parameters, network.backward(parameters, values, slopes))
            error_sum += float(np.abs(errors).mean())
            since += 1
            done += 1
            if done % self.checkpoint_every == 0 or done == self.updates:
                snapshot = memory.arrays("clone") | {"centre": centre, "scale": scale}
                snapshot |= {
                    "parameters": parameters.copy(),
                    "done": np.array(done),
                    "rng": generator_state(rng),
                }
                learned = replace(policy, parameters=snapshot["parameters"])
                yield Checkpoint(learned, done, done / self.updates, snapshot, {"action error": error_sum / since})
                error_sum, since = 0.0, 0


def recovered_actions(problem: Problem, weights: Array) -> Float32:
    """(transition, action) what the target would have done; zero where the weight is."""
    demonstrations = problem.demonstrations
    used = np.repeat(weights > 0, demonstrations.lengths)
    rows = demonstrations.transition_rows[used]
    actions = np.zeros((len(used), len(problem.target.action_low)), np.float32)
    actions[used] = problem.inverse_dynamics(demonstrations.states[rows], demonstrations.states[rows + 1])
    return actions
