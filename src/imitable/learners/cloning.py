"""Behavior cloning from observation: regress the robot's own actions that explain the demonstrated transitions.

The paper discards the demonstrators' actions, which another body could not take; the robot's inverse dynamics recovers its own.
"""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from imitable.arrays import Array, Generator, Snapshot, generator_state, restore_generator
from imitable.assessment import Assessment
from imitable.errors import ImitableError, above, at_least, check_fields, layer_sizes
from imitable.learners.base import Checkpoint
from imitable.networks import Activation, Adam, Mlp, Policy, obs_statistics
from imitable.sampling import TransitionSampler

NEARLY_ALL = 0.999
"""Share of p_w that is learned from: the rest are too rare to matter, and their actions cost as much to recover as others."""


@dataclass(frozen=True)
class Cloning:
    """Huber regression of recovered actions on observations drawn from p_w."""

    updates: int = 40_000  # with half as many, clones of a dozen Hopper demonstrations fell in one episode of five
    batch_size: int = 256
    learning_rate: float = 1e-3  # Adam, annealed to nothing along a cosine
    huber_delta: float = 0.1  # small, so that two ways past an obstacle are not averaged into none
    observation_noise: float = 0.03  # standard deviation, in units of what one random action changes,
    max_observation_noise: float = 0.1  # and at most this share of a column's spread in the demonstrations
    hidden_sizes: tuple[int, ...] = (100, 100, 100)
    activation: Activation = "tanh"  # a gait is lost by a clone that is not smooth, as by one that is trained on much noise
    max_transitions: int = 30_000  # whose actions are recovered; drawn by their weights where there are more
    checkpoint_every: int = 5_000  # updates

    def __post_init__(self) -> None:
        check_fields(
            self,
            *at_least(self, 1, "updates", "batch_size", "max_transitions", "checkpoint_every"),
            *at_least(self, 0, "observation_noise", "max_observation_noise"),
            *above(self, 0, "learning_rate", "huber_delta"),
            layer_sizes("hidden_sizes", self.hidden_sizes),
        )

    def __call__(self, assessment: Assessment, weights: Array, *, rng: Generator, resume: Snapshot | None = None) -> Iterator[Checkpoint]:
        demonstrations, robot = assessment.demonstrations, assessment.robot
        drawn = self.support(TransitionSampler(demonstrations, weights), rng)
        actions, usable = assessment.recovered_actions(drawn > 0)
        if not usable.any():
            raise ImitableError(
                f"none of the {int((drawn > 0).sum())} transitions with any weight can be reached by the robot, so there are no actions to "
                "clone; choose a method with feasibility, or another learner"
            )
        if (share := float((drawn * usable).sum() / drawn.sum())) < 0.5:
            warnings.warn(
                f"the robot reaches only {share:.0%} of the transitions that are drawn; the clone learns from these alone", stacklevel=2
            )
        targets = actions.astype(np.float32)
        sampler, rows = TransitionSampler(demonstrations, drawn * usable), demonstrations.transition_rows
        center, scale = obs_statistics(sampler.draw(10_000, rng)[0])
        if resume is not None:
            center, scale = resume["center"], resume["scale"]
        network = Mlp((demonstrations.width, *self.hidden_sizes, len(robot.action_low)), activation=self.activation)
        policy = Policy.fresh(network, center=center, scale=scale, low=robot.action_low, high=robot.action_high, rng=rng)
        inputs = policy.normalize_obs(demonstrations.observations)
        # Rates such as a turn rate change wholly with one action, so in a demonstration they give away the last one, and a clone
        # learns to repeat it. Noise in units of what one action changes hides that, and leaves slow columns such as positions alone.
        # What a gait holds nearly still, one random action would change by more than the gait ever does: hence the maximum.
        noise_std = np.minimum(self.observation_noise * assessment.step_scale / scale, self.max_observation_noise).astype(np.float32)
        parameters, optimizer, done = policy.parameters, Adam.fresh(network.size, learning_rate=self.learning_rate), 0
        if resume is not None:
            parameters, done, optimizer = resume["parameters"].copy(), int(resume["done"]), optimizer.restored("policy", resume)
            restore_generator(rng, resume["rng"])
        error_sum, error_count = 0.0, 0
        while done < self.updates:
            batch = sampler.draw_indices(self.batch_size, rng)
            seen = inputs[rows[batch]]
            activations = network.forward(parameters, seen + noise_std * rng.standard_normal(seen.shape, np.float32))
            errors = activations[-1] - targets[batch]
            gradients = np.clip(errors / np.float32(self.huber_delta), -1.0, 1.0) / np.float32(self.batch_size)
            annealing = 0.5 * (1 + math.cos(math.pi * done / self.updates))
            optimizer.learning_rate = self.learning_rate * annealing  # a Python float keeps Adam in float32
            optimizer.step(parameters, network.backward(parameters, activations, gradients))
            error_sum += float(np.abs(errors).mean())
            error_count += 1
            done += 1
            if done % self.checkpoint_every == 0 or done == self.updates:
                snapshot = optimizer.arrays("policy") | {"center": center, "scale": scale, "rng": generator_state(rng)}
                snapshot |= {"parameters": parameters.copy(), "done": np.array(done)}
                learned = replace(policy, parameters=snapshot["parameters"])
                yield Checkpoint(learned, done, done / self.updates, snapshot, {"action error": error_sum / error_count})
                error_sum, error_count = 0.0, 0

    def support(self, sampler: TransitionSampler, rng: Generator) -> Array:
        """(transition,) weights of the transitions to learn from: nearly all of p_w, or `max_transitions` draws from it."""
        shares = np.diff(sampler.cumulative, prepend=0.0)
        heaviest = np.argsort(-shares, kind="stable")
        relevant = heaviest[: int(np.searchsorted(np.cumsum(shares[heaviest]), NEARLY_ALL)) + 1]
        chosen = np.zeros(len(shares))
        if len(relevant) <= self.max_transitions:
            chosen[relevant] = shares[relevant]
        else:
            np.add.at(chosen, sampler.draw_indices(self.max_transitions, rng), 1.0)
        return chosen
