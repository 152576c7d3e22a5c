"""The discriminator that adversarial learners share: it tells demonstrated transitions (s, s') from the agent's."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from imitable.arrays import Array, Float32, Generator
from imitable.networks import Adam, Mlp, TransitionScaling

AGENT, DEMONSTRATED = 1.0, 0.0
"""Labels."""


def sigmoid(logits: Float32) -> Float32:
    """1 / (1 + exp(-logit)), of logits that cannot overflow."""
    return np.asarray(1 / (1 + np.exp(-np.clip(logits, -30, 30))), np.float32)


def interpolates(demonstrated: Float32, visited: Float32, rng: Generator) -> Float32:
    """(N, inputs) a random point on the line from each demonstrated to a visited one, where a gradient penalty is to hold."""
    fraction = rng.random((len(demonstrated), 1), np.float32)
    return fraction * demonstrated + (1 - fraction) * visited


def gradient_penalty_gradient(network: Mlp, parameters: Float32, points: Float32, *, coefficient: float) -> Float32:
    """Gradient of the gradient penalty, coefficient * E_points[(|dD/ds| - 1)^2] (Gulrajani et al., 2017)."""
    activations, ones = network.forward(parameters, points), np.ones((len(points), 1), np.float32)
    gradients = network.input_gradients(parameters, activations, ones)
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    directions = gradients * (np.float32(2 * coefficient / len(points)) * (norms - 1) / (norms + 1e-8))
    return network.directional_derivative_gradient(parameters, activations, directions)


@dataclass(frozen=True)
class LossTerm:
    """Transitions, as discriminator inputs, with their label: one term of the discriminator's loss."""

    inputs: Float32
    """(N, 2 * observation)"""
    label: float  # AGENT or DEMONSTRATED
    weights: Float32 | float = 1.0
    """(N,) how much each counts in the term's mean."""


@dataclass(frozen=True)
class Discriminator:
    """A network on scaled transitions; its logit is high where one looks like the agent's."""

    network: Mlp
    inputs: TransitionScaling
    gradient_penalty: float = 0.0
    noise: Float32 | None = None
    """(2 * observation,) standard deviation of noise on the inputs that it learns from; None: no noise."""

    def reward(self, parameters: Float32, inputs: Float32) -> Array:
        """(N,) large where the agent looks demonstrated: -log D(s, s')."""
        logits_agent_is_high = self.network.forward(parameters, inputs)[-1][:, 0].astype(np.float64)
        return np.asarray(np.logaddexp(0.0, -logits_agent_is_high))

    def update(self, parameters: Float32, optimizer: Adam, terms: Sequence[LossTerm], *, rng: Generator) -> dict[str, float]:
        """One step, in place, down the sum of the terms' weighted mean cross-entropies and the gradient penalty.

        The first term is the agent's, the last the demonstrations'; the gradient penalty holds between these two.
        """
        inputs = np.concatenate([term.inputs for term in terms])
        if self.noise is not None:
            inputs += self.noise * rng.standard_normal(inputs.shape, np.float32)
        activations = self.network.forward(parameters, inputs)
        probabilities = sigmoid(activations[-1])
        logit_gradients, start = np.empty_like(probabilities), 0
        accuracies: dict[float, list[float]] = {AGENT: [], DEMONSTRATED: []}
        for term in terms:
            rows = slice(start, start + len(term.inputs))
            start = rows.stop
            logit_gradients[rows, 0] = (probabilities[rows, 0] - np.float32(term.label)) * term.weights / np.float32(len(term.inputs))
            accuracies[term.label].append(float(((probabilities[rows] > 0.5) == (term.label == AGENT)).mean()))
        gradient = self.network.backward(parameters, activations, logit_gradients)
        if self.gradient_penalty:
            visited, demonstrated = inputs[: len(terms[0].inputs)], inputs[-len(terms[-1].inputs) :]
            points = interpolates(demonstrated, visited[rng.integers(len(visited), size=len(demonstrated))], rng)
            gradient += gradient_penalty_gradient(self.network, parameters, points, coefficient=self.gradient_penalty)
        optimizer.step(parameters, gradient)
        return {"agent accuracy": accuracies[AGENT][0], "demonstration accuracy": accuracies[DEMONSTRATED][0]}
