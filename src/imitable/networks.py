"""Small fully-connected networks whose derivatives are written out, and Gaussian policies made of them.

Parameters live outside the network, in one flat float32 vector: trust regions, optimisers, snapshots and files all want it flat.
With written-out derivatives on cached activations a TRPO update takes half the time of automatic differentiation, a sixth with the
Fisher matrix on a fifth of the samples (`benchmarks/speed.py`), and a policy runs without importing torch.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from imitable.arrays import Array, Float32, Generator, Snapshot
from imitable.errors import ImitableError
from imitable.files import write_atomically

Activation = Literal["tanh", "relu"]


@dataclass(frozen=True)
class Mlp:
    """A fully-connected network: layer widths from input to output, one activation, a linear head."""

    widths: tuple[int, ...]
    activation: Activation = "tanh"

    @property
    def size(self) -> int:
        return sum((inputs + 1) * outputs for inputs, outputs in pairwise(self.widths))

    def initial(self, rng: Generator) -> Float32:
        """(size,) uniform within 1/sqrt(inputs), the head ten times smaller and without bias, so that outputs start near zero."""
        parameters = np.empty(self.size, np.float32)
        layers = self.layers(parameters)
        for weights, bias in layers:
            bound = len(weights) ** -0.5
            weights[:] = rng.uniform(-bound, bound, weights.shape)
            bias[:] = rng.uniform(-bound, bound, bias.shape)
        head_weights, head_bias = layers[-1]
        head_weights *= 0.1
        head_bias[:] = 0.0
        return parameters

    def layers(self, parameters: Float32) -> list[tuple[Float32, Float32]]:
        """Weights (inputs, outputs) and biases (outputs,) of every layer, as views of the flat vector."""
        views, start = [], 0
        for inputs, outputs in pairwise(self.widths):
            middle, end = start + inputs * outputs, start + (inputs + 1) * outputs
            views.append((parameters[start:middle].reshape(inputs, outputs), parameters[middle:end]))
            start = end
        return views

    def forward(self, parameters: Float32, inputs: Float32, masks: Sequence[Float32] = ()) -> list[Float32]:
        """The inputs, every hidden activation times its mask (for dropout), and last the outputs; what `backward` and `tangent` need."""
        values = [inputs]
        *hidden, (head_weights, head_bias) = self.layers(parameters)
        for weights, bias in hidden:
            value = values[-1] @ weights
            value += bias
            value = np.tanh(value, out=value) if self.activation == "tanh" else np.maximum(value, 0, out=value)
            values.append(value * masks[len(values) - 1] if masks else value)
        values.append(values[-1] @ head_weights + head_bias)
        return values

    def slopes(self, values: list[Float32]) -> list[Float32]:
        """The activation's slope at every hidden unit, where `forward` left it."""
        if self.activation == "relu":
            return [np.asarray(value > 0, np.float32) for value in values[1:-1]]
        return [np.float32(1.0) - value * value for value in values[1:-1]]

    def backward(
        self, parameters: Float32, values: list[Float32], output_gradients: Float32, slopes: list[Float32] | None = None
    ) -> Float32:
        """(size,) gradient summed over the batch: the outputs' gradients times the Jacobian."""
        slopes = self.slopes(values) if slopes is None else slopes
        gradient = np.empty(self.size, np.float32)
        flow = output_gradients
        weights_of, gradient_of = self.layers(parameters), self.layers(gradient)
        for layer in reversed(range(len(weights_of))):
            weights_gradient, bias_gradient = gradient_of[layer]
            np.matmul(values[layer].T, flow, out=weights_gradient)
            flow.sum(axis=0, out=bias_gradient)
            if layer:
                flow = flow @ weights_of[layer][0].T
                flow *= slopes[layer - 1]
        return gradient

    def input_gradients(self, parameters: Float32, values: list[Float32], output_gradients: Float32) -> Float32:
        """(N, inputs) how each row's outputs, weighed by their gradients, move with its inputs."""
        flow = output_gradients
        for (weights, _), slope in zip(reversed(self.layers(parameters)), [*reversed(self.slopes(values)), None], strict=True):
            flow = flow @ weights.T
            if slope is not None:
                flow *= slope
        return flow

    def steepening(self, parameters: Float32, values: list[Float32], directions: Float32) -> Float32:
        """(size,) gradient, summed over the batch, of how much the outputs move when inputs move along their directions (N, inputs).

        The derivative of a derivative: forwards along the directions, then backwards through both the values' path and the moves'.
        """
        layers, gates = self.layers(parameters), self.slopes(values)
        moving, rising = [directions], []
        for (weights, _), gate in zip(layers[:-1], gates, strict=True):
            rising.append(moving[-1] @ weights)
            moving.append(rising[-1] * gate)
        gradient = np.zeros(self.size, np.float32)
        gradient_of = self.layers(gradient)
        gradient_of[-1][0][:] = moving[-1].sum(axis=0)[:, None]
        flow = np.broadcast_to(layers[-1][0].sum(axis=1), moving[-1].shape)  # of the moves after the activation
        bend: Float32 | None = None  # of the values before it
        for layer in reversed(range(len(gates))):
            weights_gradient, bias_gradient = gradient_of[layer]
            through_values = np.float32(0) if bend is None else bend @ layers[layer + 1][0].T
            if self.activation == "tanh":  # the gate 1 - tanh^2 moves with the value; a rectifier's does not
                through_values = through_values - 2 * values[layer + 1] * flow * rising[layer]
            bend = through_values * gates[layer]
            flow = flow * gates[layer]
            weights_gradient[:] = moving[layer].T @ flow + values[layer].T @ bend
            bias_gradient[:] = bend.sum(axis=0)
            flow = flow @ layers[layer][0].T
        return gradient

    def tangent(self, parameters: Float32, values: list[Float32], direction: Float32, slopes: list[Float32] | None = None) -> Float32:
        """(N, outputs) how the outputs move when the parameters move along `direction`: the Jacobian times it."""
        slopes = self.slopes(values) if slopes is None else slopes
        (move, bias_move), *moves = self.layers(direction)
        moving = values[0] @ move
        moving += bias_move
        for (weights, _), (move, bias_move), value, slope in zip(self.layers(parameters)[1:], moves, values[1:-1], slopes, strict=True):
            moving *= slope
            moving = moving @ weights
            moving += value @ move
            moving += bias_move
        return moving


@dataclass
class Adam:
    """The optimiser's memory for one flat parameter vector."""

    rate: float
    first: Float32
    second: Float32
    steps: int = 0
    first_share: float = 0.1  # of the newest gradient in its running mean
    second_share: float = 0.001  # of its square

    @classmethod
    def fresh(cls, size: int, *, rate: float) -> "Adam":
        return cls(rate, np.zeros(size, np.float32), np.zeros(size, np.float32))

    def arrays(self, name: str) -> dict[str, np.ndarray[Any, Any]]:
        """The memory as arrays named after what it optimises, for a snapshot."""
        return {f"{name} first": self.first.copy(), f"{name} second": self.second.copy(), f"{name} count": np.array(self.steps)}

    def restored(self, name: str, snapshot: Snapshot) -> "Adam":
        """The optimiser whose memory `arrays` named."""
        first, second = snapshot[f"{name} first"].copy(), snapshot[f"{name} second"].copy()
        return replace(self, first=first, second=second, steps=int(snapshot[f"{name} count"]))

    def step(self, parameters: Float32, gradient: Float32) -> None:
        """Move the parameters, in place, down the gradient."""
        self.steps += 1
        self.first += self.first_share * (gradient - self.first)
        self.second += self.second_share * (gradient * gradient - self.second)
        scale = self.rate / (1 - (1 - self.first_share) ** self.steps)
        parameters -= scale * self.first / (np.sqrt(self.second / (1 - (1 - self.second_share) ** self.steps)) + 1e-8)


@dataclass(frozen=True)
class Policy:
    """A network that acts: calling it gives the mean action; with a spread it can also sample around it.

    Inputs are centred and scaled by fixed numbers before they enter the network, so that metres, radians and their rates weigh alike.
    """

    network: Mlp
    parameters: Float32
    """(network.size,) flat."""
    centre: Float32
    """(observation,) subtracted from observations."""
    scale: Float32
    """(observation,) by which observations are then divided."""
    low: Float32
    """(action,) actions are clipped from here"""
    high: Float32
    """(action,) to here."""
    log_spread: Float32 = field(default_factory=lambda: np.zeros(0, np.float32))
    """(action,) log standard deviation of sampled actions; empty for a deterministic policy."""

    @classmethod
    def fresh(
        cls, network: Mlp, *, centre: Array, scale: Array, low: Array, high: Array, rng: Generator, spread: float | None = None
    ) -> "Policy":
        """An untrained policy; with a spread it can sample."""
        return cls(
            network,
            network.initial(rng),
            centre=centre.astype(np.float32),
            scale=scale.astype(np.float32),
            low=low.astype(np.float32),
            high=high.astype(np.float32),
            log_spread=np.full(0 if spread is None else network.widths[-1], np.log(spread or 1.0), np.float32),
        )

    def __call__(self, observations: Array) -> Array:
        """(N, action) mean actions."""
        return np.clip(self.mean(self.inputs(observations)), self.low, self.high).astype(np.float64)

    def sample(self, observations: Array, rng: Generator) -> Array:
        """(N, action) actions drawn around the mean, not clipped: the simulator does that."""
        if not len(self.log_spread):
            raise ImitableError("this policy is deterministic (its log_spread is empty), so it cannot sample; call it for mean actions")
        mean = self.mean(self.inputs(observations))
        return (mean + np.exp(self.log_spread) * rng.standard_normal(mean.shape, np.float32)).astype(np.float64)

    def inputs(self, observations: Array) -> Float32:
        return ((observations - self.centre) / self.scale).astype(np.float32)

    def mean(self, inputs: Float32) -> Float32:
        return self.network.forward(self.parameters, inputs)[-1]

    def save(self, path: Path | str) -> None:
        from safetensors.numpy import save

        arrays = {name: getattr(self, name) for name in _POLICY_ARRAYS}
        shape = {"widths": self.network.widths, "activation": self.network.activation}
        write_atomically(Path(path), save(arrays, metadata={"imitable-policy": json.dumps(shape)}))

    @classmethod
    def load(cls, path: Path | str) -> "Policy":
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="numpy") as file:
                shape = json.loads((file.metadata() or {})["imitable-policy"])
                arrays = {name: file.get_tensor(name) for name in _POLICY_ARRAYS}
            network = Mlp(tuple(shape["widths"]), shape["activation"])
            inputs, outputs = network.widths[0], network.widths[-1]
            wanted = dict(zip(_POLICY_ARRAYS, (network.size, inputs, inputs, outputs, outputs), strict=False))
            wrong = [name for name, size in wanted.items() if arrays[name].shape != (size,)]
            wrong += ["log_spread"] if arrays["log_spread"].shape not in ((0,), (outputs,)) else []
        except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
            raise ImitableError(f"{path} is not a policy saved by imitable ({error})") from error
        if wrong:
            raise ImitableError(f"{path} is not a policy saved by imitable ({' and '.join(wrong)} do not fit widths {network.widths})")
        return cls(network, **arrays)


_POLICY_ARRAYS = ("parameters", "centre", "scale", "low", "high", "log_spread")
