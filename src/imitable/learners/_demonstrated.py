"""Absorbing states of demonstrations that terminate, and resets to demonstrated observations, for adversarial learners."""

from dataclasses import dataclass, replace

import numpy as np

from imitable.arrays import Array, Generator, Integers
from imitable.sampling import TransitionSampler
from imitable.simulators import Simulator


def with_absorbing_states(sampler: TransitionSampler, robot: Simulator) -> TransitionSampler:
    """Demonstrations that end where the robot's episodes terminate stay in their last state until the time limit."""
    demonstrations, weights = sampler.demonstrations, sampler.weights
    ends = demonstrations.starts + demonstrations.lengths
    terminated = robot.terminated(robot.restore(demonstrations.observations[ends]))
    stays = np.where(terminated, np.maximum(robot.horizon - demonstrations.lengths, 0), 0)
    if not stays.any():
        return sampler
    rows = np.ones(len(demonstrations.observations), np.int64)
    rows[ends] += stays
    longer = replace(
        demonstrations, observations=np.repeat(demonstrations.observations, rows, axis=0), lengths=demonstrations.lengths + stays
    )
    if weights.shape != demonstrations.lengths.shape:  # per transition: an absorbing one has the weight of the last
        rows = np.ones(len(weights), np.int64)
        rows[np.cumsum(demonstrations.lengths) - 1] += stays
        weights = np.repeat(weights, rows)
    return TransitionSampler(longer, weights)


@dataclass(frozen=True)
class DemonstratedResets:
    """A `Reset`: the first environments start whole episodes in initial states; the others a few steps from a demonstrated observation."""

    robot: Simulator
    sampler: TransitionSampler
    regular_envs: int
    steps: int  # of the others' episodes

    def __call__(self, envs: Integers, rng: Generator) -> tuple[Array, Integers]:
        states, steps_left = self.robot.initial_states(len(envs), rng), np.full(len(envs), self.robot.horizon)
        others = np.flatnonzero(envs >= self.regular_envs)
        if len(others):
            restored = self.robot.restore(self.sampler.draw(len(others), rng)[0], states[others])
            going_on = ~self.robot.terminated(restored) & np.isfinite(restored).all(axis=1)
            states[others[going_on]], steps_left[others] = restored[going_on], self.steps
        return states, steps_left
