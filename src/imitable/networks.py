"""Small fully-connected networks whose derivatives are written out, and Gaussian policies made of them.

Parameters live outside the network, in one flat float32 vector: trust regions, optimizers, snapshots and files all want it flat.
With written-out derivatives on cached activations a TRPO update takes half the time of automatic differentiation, a sixth with the
Fisher matrix on a fifth of the samples (`benchmarks/speed.py`), and a policy runs without importing torch.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from imitable.arrays import Array, Arrays, Float32, Generator, Snapshot
from imitable.errors import ImitableError
from imitable.store.files import read_bytes, write_atomically

Activation = Literal["tanh", "relu"]


@dataclass(frozen=True)
class Mlp:
    """A fully-connected network: layer sizes from input to output, one activation, a linear head."""

    layer_sizes: tuple[int, ...]
    activation: Activation = "tanh"

    @property
    def size(self) -> int:
        return sum((inputs + 1) * outputs for inputs, outputs in pairwise(self.layer_sizes))

    def init_parameters(self, rng: Generator) -> Float32:
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
        for inputs, outputs in pairwise(self.layer_sizes):
            middle, end = start + inputs * outputs, start + (inputs + 1) * outputs
            views.append((parameters[start:middle].reshape(inputs, outputs), parameters[middle:end]))
            start = end
        return views

    def forward(self, parameters: Float32, inputs: Float32, dropout_masks: Sequence[Float32] = ()) -> list[Float32]:
        """The inputs, every hidden layer's activations times its dropout mask, and last the outputs; what `backward` and `jvp` need."""
        activations = [inputs]
        *hidden, (head_weights, head_bias) = self.layers(parameters)
        for weights, bias in hidden:
            value = activations[-1] @ weights
            value += bias
            value = np.tanh(value, out=value) if self.activation == "tanh" else np.maximum(value, 0, out=value)
            activations.append(value * dropout_masks[len(activations) - 1] if dropout_masks else value)
        activations.append(activations[-1] @ head_weights + head_bias)
        return activations

    def activation_derivatives(self, activations: list[Float32]) -> list[Float32]:
        """The activation's derivative at every hidden unit, from the activations that `forward` gave."""
        if self.activation == "relu":
            return [np.asarray(value > 0, np.float32) for value in activations[1:-1]]
        return [np.float32(1.0) - value * value for value in activations[1:-1]]

    def backward(
        self, parameters: Float32, activations: list[Float32], output_gradients: Float32, derivatives: list[Float32] | None = None
    ) -> Float32:
        """(size,) gradient summed over the batch: the outputs' gradients times the Jacobian."""
        derivatives = self.activation_derivatives(activations) if derivatives is None else derivatives
        gradient = np.empty(self.size, np.float32)
        upstream = output_gradients
        weights_of, gradient_of = self.layers(parameters), self.layers(gradient)
        for layer in reversed(range(len(weights_of))):
            weights_gradient, bias_gradient = gradient_of[layer]
            np.matmul(activations[layer].T, upstream, out=weights_gradient)
            upstream.sum(axis=0, out=bias_gradient)
            if layer:
                upstream = upstream @ weights_of[layer][0].T
                upstream *= derivatives[layer - 1]
        return gradient

    def input_gradients(self, parameters: Float32, activations: list[Float32], output_gradients: Float32) -> Float32:
        """(N, inputs) gradient of the outputs, weighted by `output_gradients`, with respect to the inputs."""
        upstream = output_gradients
        derivatives = [*reversed(self.activation_derivatives(activations)), None]
        for (weights, _), derivative in zip(reversed(self.layers(parameters)), derivatives, strict=True):
            upstream = upstream @ weights.T
            if derivative is not None:
                upstream *= derivative
        return upstream

    def directional_derivative_gradient(self, parameters: Float32, activations: list[Float32], directions: Float32) -> Float32:
        """(size,) gradient, summed over the batch, of the outputs' derivative along the input directions (N, inputs).

        A second derivative: forward mode along the directions, then reverse mode through both the activations and their tangents.
        """
        layers, derivatives = self.layers(parameters), self.activation_derivatives(activations)
        tangents, pre_activation_tangents = [directions], []
        for (weights, _), derivative in zip(layers[:-1], derivatives, strict=True):
            pre_activation_tangents.append(tangents[-1] @ weights)
            tangents.append(pre_activation_tangents[-1] * derivative)
        gradient = np.zeros(self.size, np.float32)
        gradient_of = self.layers(gradient)
        gradient_of[-1][0][:] = tangents[-1].sum(axis=0)[:, None]
        tangent_gradient = np.broadcast_to(layers[-1][0].sum(axis=1), tangents[-1].shape)
        pre_activation_gradient: Float32 | None = None  # of the pre-activations
        for layer in reversed(range(len(derivatives))):
            weights_gradient, bias_gradient = gradient_of[layer]
            through_activations = np.float32(0) if pre_activation_gradient is None else pre_activation_gradient @ layers[layer + 1][0].T
            if self.activation == "tanh":  # the derivative 1 - tanh^2 depends on the value; a rectifier's does not
                through_activations = through_activations - 2 * activations[layer + 1] * tangent_gradient * pre_activation_tangents[layer]
            pre_activation_gradient = through_activations * derivatives[layer]
            tangent_gradient = tangent_gradient * derivatives[layer]
            weights_gradient[:] = tangents[layer].T @ tangent_gradient + activations[layer].T @ pre_activation_gradient
            bias_gradient[:] = pre_activation_gradient.sum(axis=0)
            tangent_gradient = tangent_gradient @ layers[layer][0].T
        return gradient

    def jvp(self, parameters: Float32, activations: list[Float32], direction: Float32, derivatives: list[Float32] | None = None) -> Float32:
        """(N, outputs) the Jacobian of the outputs with respect to the parameters, times `direction` (size,)."""
        derivatives = self.activation_derivatives(activations) if derivatives is None else derivatives
        (weights_direction, bias_direction), *directions = self.layers(direction)
        tangent = activations[0] @ weights_direction
        tangent += bias_direction
        for (weights, _), (weights_direction, bias_direction), value, derivative in zip(
            self.layers(parameters)[1:], directions, activations[1:-1], derivatives, strict=True
        ):
            tangent *= derivative
            tangent = tangent @ weights
            tangent += value @ weights_direction
            tangent += bias_direction
        return tangent


@dataclass
class Adam:
    """The optimizer and its state for one flat parameter vector."""

    learning_rate: float
    exp_avg: Float32
    exp_avg_sq: Float32
    steps: int = 0
    betas: tuple[float, float] = (0.9, 0.999)

    @classmethod
    def fresh(cls, size: int, *, learning_rate: float) -> "Adam":
        return cls(learning_rate, np.zeros(size, np.float32), np.zeros(size, np.float32))

    def copy(self) -> "Adam":
        return replace(self, exp_avg=self.exp_avg.copy(), exp_avg_sq=self.exp_avg_sq.copy())

    def arrays(self, name: str) -> Arrays:
        """The state as arrays named after what it optimizes, for a snapshot."""
        averages = {f"{name} exp_avg": self.exp_avg.copy(), f"{name} exp_avg_sq": self.exp_avg_sq.copy()}
        return {**averages, f"{name} steps": np.array(self.steps)}

    def restored(self, name: str, snapshot: Snapshot) -> "Adam":
        """The optimizer whose state `arrays` named."""
        exp_avg, exp_avg_sq = snapshot[f"{name} exp_avg"].copy(), snapshot[f"{name} exp_avg_sq"].copy()
        return replace(self, exp_avg=exp_avg, exp_avg_sq=exp_avg_sq, steps=int(snapshot[f"{name} steps"]))

    def step(self, parameters: Float32, gradient: Float32) -> None:
        """Move the parameters, in place, down the gradient."""
        self.steps += 1
        beta1, beta2 = self.betas
        self.exp_avg += (1 - beta1) * (gradient - self.exp_avg)
        self.exp_avg_sq += (1 - beta2) * (gradient * gradient - self.exp_avg_sq)
        step_size = self.learning_rate / (1 - beta1**self.steps)
        parameters -= step_size * self.exp_avg / (np.sqrt(self.exp_avg_sq / (1 - beta2**self.steps)) + 1e-8)


@dataclass(frozen=True)
class Policy:
    """A network that acts: calling it gives the mean action; with a standard deviation it can also sample around it.

    Inputs are centered and scaled by fixed numbers before they enter the network, so that metres, radians and their rates weigh alike.
    """

    network: Mlp
    parameters: Float32
    """(network.size,) flat."""
    center: Float32
    """(observation,) subtracted from observations."""
    scale: Float32
    """(observation,) by which observations are then divided."""
    low: Float32
    """(action,) actions are clipped from here"""
    high: Float32
    """(action,) to here."""
    log_std: Float32 = field(default_factory=lambda: np.zeros(0, np.float32))
    """(action,) log standard deviation of sampled actions; empty for a deterministic policy."""

    @classmethod
    def fresh(
        cls, network: Mlp, *, center: Array, scale: Array, low: Array, high: Array, rng: Generator, std: float | None = None
    ) -> "Policy":
        """An untrained policy; with a standard deviation it can sample."""
        return cls(
            network,
            network.init_parameters(rng),
            center=center.astype(np.float32),
            scale=scale.astype(np.float32),
            low=low.astype(np.float32),
            high=high.astype(np.float32),
            log_std=np.full(0 if std is None else network.layer_sizes[-1], np.log(std or 1.0), np.float32),
        )

    def __call__(self, observations: Array) -> Array:
        """(N, action) mean actions."""
        return np.clip(self.mean_actions(self.normalize_obs(observations)), self.low, self.high).astype(np.float64)

    def predict(
        self,
        observation: Array,
        state: None = None,
        episode_start: object = None,
        deterministic: bool = True,
        *,
        rng: Generator | None = None,
    ) -> tuple[Float32, None]:
        """As in Stable-Baselines3: the action (action,) for one observation, or (N, action) for a batch, and None for a recurrent state.

        Actions are within the limits. Without `deterministic` they are sampled with `rng`, if the policy can; if not, it is the mean.
        """
        given, width = np.asarray(observation, dtype=np.float64), self.network.layer_sizes[0]
        if given.ndim not in (1, 2) or given.shape[-1] != width:
            raise ImitableError(
                f"the observation has shape {given.shape}; this policy takes ({width},) or (N, {width}), in the robot's columns "
                "(observation[..., robot.environment_columns] of a Gymnasium environment)"
            )
        batch = np.atleast_2d(given)
        random = len(self.log_std) and not deterministic
        actions = self.sample(batch, np.random.default_rng() if rng is None else rng) if random else self(batch)
        limited = np.clip(actions, self.low, self.high).astype(np.float32)
        return (limited if given.ndim == 2 else limited[0]), None

    def sample(self, observations: Array, rng: Generator) -> Array:
        """(N, action) actions drawn around the mean, not clipped: the simulator does that."""
        if not len(self.log_std):
            raise ImitableError("this policy is deterministic (its log_std is empty), so it cannot sample; call it for mean actions")
        mean = self.mean_actions(self.normalize_obs(observations))
        return (mean + np.exp(self.log_std) * rng.standard_normal(mean.shape, np.float32)).astype(np.float64)

    def normalize_obs(self, observations: Array) -> Float32:
        """(N, observation) centered and scaled, as the network sees them."""
        return ((observations - self.center) / self.scale).astype(np.float32)

    def mean_actions(self, inputs: Float32) -> Float32:
        """(N, action) of such inputs, not clipped."""
        return self.network.forward(self.parameters, inputs)[-1]

    def save(self, path: Path | str) -> None:
        write_atomically(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """What is in a saved policy's file."""
        from safetensors.numpy import save

        arrays = {name: getattr(self, attribute) for name, attribute in POLICY_ARRAYS.items()}
        shape = {"widths": self.network.layer_sizes, "activation": self.network.activation}
        label = {"imitable-policy": json.dumps({**shape, "sha256": _digest(self.network, arrays)})}
        content: bytes = save(arrays, metadata=label)
        return content

    @classmethod
    def load(cls, path: Path | str) -> "Policy":
        """A saved policy; one whose numbers are not those that were saved is refused, but version 0.1 did not write their hash."""
        from safetensors.numpy import load

        content = read_bytes(Path(path), limit=MAX_POLICY_BYTES)
        try:
            if (header := int.from_bytes(content[:8], "little")) > MAX_HEADER_BYTES:
                raise ValueError(f"its header has {header} bytes")
            label = json.loads(content[8 : 8 + header])["__metadata__"]
            found = {name: array for name, array in load(content).items() if name in POLICY_ARRAYS}
            shape = json.loads(label["imitable-policy"])
            network = Mlp(tuple(map(int, shape["widths"])), shape["activation"])
            if shape.get("sha256", digest := _digest(network, found)) != digest or shape.keys() - {"widths", "activation", "sha256"}:
                raise ValueError("it has changed since it was saved")
            arrays = {attribute: found[name] for name, attribute in POLICY_ARRAYS.items()}
            inputs, outputs = network.layer_sizes[0], network.layer_sizes[-1]
            wanted = {"parameters": network.size, "center": inputs, "scale": inputs, "low": outputs, "high": outputs}
            wrong = [name for name, size in wanted.items() if arrays[name].shape != (size,)]
            wrong += ["log_std"] if arrays["log_std"].shape not in ((0,), (outputs,)) else []
            wrong += [name for name, array in arrays.items() if array.dtype != np.float32]
            if wrong or min(network.layer_sizes) < 1 or network.activation not in get_args(Activation):
                raise ValueError(f"{' and '.join(wrong)} do not fit layers {network.layer_sizes} of {network.activation}")
        except Exception as error:  # parsers of foreign bytes raise whatever they like
            raise ImitableError(f"{path} is not a policy saved by imitable ({error})") from error
        return cls(network, **arrays)


def _digest(network: Mlp, arrays: Arrays) -> str:
    """A hash of all that a policy's file says."""
    seen = sha256(repr(network).encode())
    for name in sorted(arrays):
        seen.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape} ".encode() + arrays[name].tobytes())
    return seen.hexdigest()


MAX_POLICY_BYTES, MAX_HEADER_BYTES = 100_000_000, 100_000
"""Largest accepted size of a policy's file, and of its header."""
POLICY_ARRAYS = {name: name for name in ("parameters", "scale", "low", "high")} | {"centre": "center", "log_spread": "log_std"}
"""Names in a policy's file, which stay as they were first written, to attributes."""


def obs_statistics(observations: Array) -> tuple[Array, Array]:
    """Mean and standard deviation (observation,) of a set of observations; 1 for columns that never move."""
    flat = observations.reshape(-1, observations.shape[-1])
    std = flat.std(axis=0)
    return flat.mean(axis=0), np.where(std > 1e-8, std, 1.0)


@dataclass(frozen=True, eq=False)
class TransitionScaling:
    """What networks see of a transition: (s, s' - s), centered and scaled by fixed numbers."""

    center: Array
    """(2 * observation,)"""
    scale: Array
    """(2 * observation,)"""

    @classmethod
    def of(cls, observations: Array, next_observations: Array) -> "TransitionScaling":
        """That gives these transitions mean 0 and standard deviation 1."""
        return cls(*obs_statistics(np.concatenate([observations, next_observations - observations], axis=1)))

    def __call__(self, observations: Array, next_observations: Array) -> Float32:
        """(N, 2 * observation)"""
        changes = np.concatenate([observations, next_observations - observations], axis=1)
        return ((changes - self.center) / self.scale).astype(np.float32)

    def noise(self, std: Array) -> Float32:
        """(2 * observation,) standard deviation of the scaled inputs where s and s' have independent noise of this one (observation,)."""
        return (np.concatenate([std, np.sqrt(2.0) * std]) / self.scale).astype(np.float32)
