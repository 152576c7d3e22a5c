"""The discriminator that adversarial learners share: it tells demonstrated transitions (s, s') from the agent's."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from imitable.arrays import Array, Float32, Generator
from imitable.networks import Adam, Mlp
from imitable.reinforcement import TransitionScaling

AGENT, DEMONSTRATED = 1.0, 0.0
"""What a transition is claimed to be."""


def logistic(logits: Float32) -> Float32:
    """1 / (1 + exp(-logit)), of logits that cannot overflow."""
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -30, 30))), np.float32)


def somewhere_between(shown: Float32, visited: Float32, rng: Generator) -> Float32:
    """(N, inputs) somewhere on the line from each demonstrated to a visited one, where a penalty is to hold."""
    share = rng.random((len(shown), 1), np.float32)
    return share * shown + (1 - share) * visited


def penalty_gradient(network: Mlp, parameters: Float32, mixed: Float32, *, penalty: float) -> Float32:
    """Of penalty * E_mixed[(|dD/ds| - 1)^2], which holds the steepness of a discriminator D near 1."""
    values, ones = network.forward(parameters, mixed), np.ones((len(mixed), 1), np.float32)
    slopes = network.input_gradients(parameters, values, ones)
    steepness = np.linalg.norm(slopes, axis=1, keepdims=True)
    directions = slopes * (np.float32(2 * penalty / len(mixed)) * (steepness - 1) / (steepness + 1e-8))
    return network.steepening(parameters, values, directions)


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
    penalty: float = 0.0  # on a steepness of the logit other than 1

    def reward(self, parameters: Float32, inputs: Float32) -> Array:
        """(N,) large where the agent looks demonstrated: -log D(s, s')."""
        logits_agent_is_high = self.network.forward(parameters, inputs)[-1][:, 0].astype(np.float64)
        return np.asarray(np.logaddexp(0.0, -logits_agent_is_high))

    def update(self, parameters: Float32, memory: Adam, claims: Sequence[Claim], *, rng: Generator) -> dict[str, float]:
        """One full-batch step, in place, down the sum of the claims' weighted mean cross-entropies and the penalty.

        The first claim is the agent's, the last the demonstrations'; the penalty holds between these two.
        """
        values = self.network.forward(parameters, np.concatenate([claim.inputs for claim in claims]))
        probabilities = logistic(values[-1])
        slopes, start = np.empty_like(probabilities), 0
        recognised: dict[float, list[float]] = {AGENT: [], DEMONSTRATED: []}
        for claim in claims:
            rows = slice(start, start + len(claim.inputs))
            start = rows.stop
            slopes[rows, 0] = (probabilities[rows, 0] - np.float32(claim.label)) * claim.weights / np.float32(len(claim.inputs))
            recognised[claim.label].append(float(((probabilities[rows] > 0.5) == (claim.label == AGENT)).mean()))
        gradient = self.network.backward(parameters, values, slopes)
        if self.penalty:
            shown, visited = claims[-1].inputs, claims[0].inputs
            mixed = somewhere_between(shown, visited[rng.integers(len(visited), size=len(shown))], rng)
            gradient += penalty_gradient(self.network, parameters, mixed, penalty=self.penalty)
        memory.step(parameters, gradient)
        return {"agent recognised": recognised[AGENT][0], "demonstrations recognised": recognised[DEMONSTRATED][0]}
