"""The discriminator that adversarial learners share: it tells demonstrated transitions (s, s') from the agent's."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from imitable.arrays import Array, Float32
from imitable.networks import Adam, Mlp
from imitable.reinforcement import TransitionScaling

AGENT, DEMONSTRATED = 1.0, 0.0
"""What a transition is claimed to be."""


def logistic(logits: Float32) -> Float32:
    """1 / (1 + exp(-logit)), of logits that cannot overflow."""
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -30, 30))), np.float32)


@dataclass(frozen=True)
class Claim:
    """Transitions, in the discriminator's inputs, and what it is to take them for; one term of its loss."""

    inputs: Float32
    """(N, 2 * observation)"""
    label: float  # AGENT or DEMONSTRATED
    weights: Float32 | float = 1.0
    """(N,) how much each counts in the term's mean."""


@dataclass(frozen=True)
class Adversary:
    """A network on scaled transitions; its logit is high where one looks like the agent's."""

    network: Mlp
    inputs: TransitionScaling
    fading: bool = True

    def reward(self, parameters: Float32, inputs: Float32) -> Array:
        """(N,) large where the agent looks demonstrated: -log D(s, s'), or log(1 - D) - log D if it is not to fade."""
        logits_agent_is_high = self.network.forward(parameters, inputs)[-1][:, 0].astype(np.float64)
        return np.logaddexp(0.0, -logits_agent_is_high) if self.fading else -logits_agent_is_high

    def update(self, parameters: Float32, memory: Adam, claims: Sequence[Claim]) -> dict[str, float]:
        """One full-batch step, in place, down the sum of the claims' weighted mean cross-entropies."""
        values = self.network.forward(parameters, np.concatenate([claim.inputs for claim in claims]))
        probabilities = logistic(values[-1])
        slopes, start = np.empty_like(probabilities), 0
        recognised: dict[float, list[float]] = {AGENT: [], DEMONSTRATED: []}
        for claim in claims:
            rows = slice(start, start + len(claim.inputs))
            start = rows.stop
            slopes[rows, 0] = (probabilities[rows, 0] - np.float32(claim.label)) * claim.weights / np.float32(len(claim.inputs))
            recognised[claim.label].append(float(((probabilities[rows] > 0.5) == (claim.label == AGENT)).mean()))
        memory.step(parameters, self.network.backward(parameters, values, slopes))
        return {"agent recognised": recognised[AGENT][0], "demonstrations recognised": recognised[DEMONSTRATED][0]}
