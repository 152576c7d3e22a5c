"""A simulator that only counts, so that every number in a roll-out says which agent, episode and step it came from."""

from dataclasses import dataclass, field

import numpy as np

from imitable.arrays import Array, Booleans, Generator


@dataclass(frozen=True)
class Countdown:
    """State and observation (3): how long the episode will be, the step, and a serial number of the episode.

    The action moves nothing. The reward is the step reached, plus a hundredth of the step left.
    """

    lengths: tuple[int, ...]  # of the episodes, in the order in which they start
    horizon: int = 6
    begun: list[int] = field(default_factory=lambda: [0])  # the number of episodes begun; the one thing that remembers
    action_low: Array = field(default_factory=lambda: np.array([-1.0]))
    action_high: Array = field(default_factory=lambda: np.array([1.0]))
    observation_names: tuple[str, ...] = ("length", "step", "serial")

    def initial_states(self, count: int, rng: Generator) -> Array:
        serials = self.begun[0] + np.arange(count)
        self.begun[0] += count
        return np.stack([np.array(self.lengths)[serials], np.zeros(count), serials], axis=1).astype(float)

    def step(self, states: Array, actions: Array) -> Array:
        assert len(actions) == len(states)
        return states + np.array([0.0, 1.0, 0.0])

    def observe(self, states: Array) -> Array:
        return states.copy()

    def restore(self, observations: Array, like: Array | None = None) -> Array:
        return observations.copy()

    def reward(self, states: Array, actions: Array, next_states: Array) -> Array:
        return next_states[:, 1] + 0.01 * states[:, 1]

    def terminated(self, states: Array) -> Booleans:
        return states[:, 1] >= states[:, 0]
