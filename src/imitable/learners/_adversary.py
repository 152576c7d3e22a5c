"""The discriminator that adversarial learners share: it tells demonstrated transitions (s, s') from the agent's."""

from dataclasses import dataclass

import numpy as np

from imitable.arrays import Array, Float32
from imitable.networks import Adam, Mlp


@dataclass(frozen=True)
class Adversary:
    """A network on (s, s' - s), scaled by fixed numbers; its logit is high where a transition looks like the agent's."""

    network: Mlp
    centre: Array
    """(2 * observation,)"""
    scale: Array
    """(2 * observation,)"""

    def inputs(self, observations: Array, next_observations: Array) -> Float32:
        joined = np.concatenate([observations, next_observations - observations], axis=1)
        return ((joined - self.centre) / self.scale).astype(np.float32)

    def reward(self, parameters: Float32, inputs: Float32) -> Array:
        """(N,) -log D(s, s'), at least 0 and large where the agent looks demonstrated."""
        logits_agent_is_high = self.network.forward(parameters, inputs)[-1][:, 0]
        return np.logaddexp(0.0, -logits_agent_is_high.astype(np.float64))

    def update(self, parameters: Float32, memory: Adam, *, agent: Float32, demonstrated: Float32) -> dict[str, float]:
        """One full-batch step, in place, of cross-entropy with label 1 for the agent and 0 for demonstrations."""
        inputs = np.concatenate([agent, demonstrated])
        values = self.network.forward(parameters, inputs)
        probabilities = (1 / (1 + np.exp(-np.clip(values[-1], -30, 30)))).astype(np.float32)
        slopes = probabilities.copy()
        slopes[: len(agent)] -= 1
        slopes[: len(agent)] /= len(agent)
        slopes[len(agent) :] /= len(demonstrated)
        memory.step(parameters, self.network.backward(parameters, values, slopes))
        return {
            "agent recognised": float((probabilities[: len(agent)] > 0.5).mean()),
            "demonstrations recognised": float((probabilities[len(agent) :] < 0.5).mean()),
        }
