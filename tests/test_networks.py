"""Written-out derivatives against finite differences, and policies on disk."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from safetensors.numpy import save

from imitable.errors import ImitableError
from imitable.networks import Adam, Mlp, Policy

NETWORKS = [
    Mlp((3, 5, 4, 2), "tanh"),
    Mlp((3, 5, 4, 2), "relu"),
    Mlp((2, 1), "tanh"),
    Mlp((4, 6, 1), "relu"),
]


def parameters_of(network: Mlp, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.9, 0.9, network.size)


def inputs_of(network: Mlp, count: int = 7) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(count, network.widths[0]))


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_outputs_equal_torch(network: Mlp) -> None:
    parameters, inputs = parameters_of(network), inputs_of(network)
    value = torch.from_numpy(inputs)
    layers = network.layers(parameters)
    for number, (weights, bias) in enumerate(layers):
        value = value @ torch.from_numpy(weights) + torch.from_numpy(bias)
        if number < len(layers) - 1:
            value = torch.tanh(value) if network.activation == "tanh" else torch.relu(value)
    assert network.forward(parameters, inputs)[-1] == pytest.approx(value.numpy(), abs=1e-12)


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_gradients_equal_finite_differences(network: Mlp) -> None:
    parameters, inputs = parameters_of(network), inputs_of(network)
    slopes = np.random.default_rng(2).normal(size=(len(inputs), network.widths[-1]))

    def loss(values: np.ndarray) -> float:
        return float((network.forward(values, inputs)[-1] * slopes).sum())

    step = 1e-6
    numerical = [(loss(parameters + move) - loss(parameters - move)) / (2 * step) for move in step * np.eye(network.size)]
    gradient = network.backward(parameters, network.forward(parameters, inputs), slopes.copy())
    assert gradient == pytest.approx(np.array(numerical), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_tangents_equal_finite_differences(network: Mlp) -> None:
    parameters, inputs, direction = parameters_of(network), inputs_of(network), parameters_of(network, seed=3)
    step = 1e-6
    ahead, behind = (network.forward(parameters + sign * step * direction, inputs)[-1] for sign in (1, -1))
    tangent = network.tangent(parameters, network.forward(parameters, inputs), direction)
    assert tangent == pytest.approx((ahead - behind) / (2 * step), abs=1e-7)


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_steepening_equals_finite_differences(network: Mlp) -> None:
    parameters, inputs = parameters_of(network), inputs_of(network)
    directions = np.random.default_rng(4).normal(size=inputs.shape)

    def rise(values: np.ndarray) -> float:
        slopes = np.ones((len(inputs), network.widths[-1]))
        return float((network.input_gradients(values, network.forward(values, inputs), slopes) * directions).sum())

    step = 1e-6
    numerical = [(rise(parameters + move) - rise(parameters - move)) / (2 * step) for move in step * np.eye(network.size)]
    steepening = network.steepening(parameters, network.forward(parameters, inputs), directions)
    assert steepening == pytest.approx(np.array(numerical), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_tangent_and_gradient_are_each_others_transpose_in_single_precision(network: Mlp) -> None:
    parameters, inputs, direction = (
        each.astype(np.float32) for each in (parameters_of(network), inputs_of(network), parameters_of(network, seed=3))
    )
    slopes = np.random.default_rng(2).normal(size=(len(inputs), network.widths[-1])).astype(np.float32)
    values = network.forward(parameters, inputs)
    forwards = float((network.tangent(parameters, values, direction) * slopes).sum())
    backwards = float(network.backward(parameters, values, slopes) @ direction)
    assert forwards == pytest.approx(backwards, rel=1e-4)


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_slopes_computed_beforehand_change_nothing(network: Mlp) -> None:
    parameters, inputs = parameters_of(network).astype(np.float32), inputs_of(network).astype(np.float32)
    values, gradients = network.forward(parameters, inputs), np.ones((len(inputs), network.widths[-1]), np.float32)
    slopes = network.slopes(values)
    kept = [slope.copy() for slope in slopes]
    assert np.array_equal(network.backward(parameters, values, gradients, slopes), network.backward(parameters, values, gradients))
    assert np.array_equal(network.tangent(parameters, values, parameters, slopes), network.tangent(parameters, values, parameters))
    assert all(np.array_equal(one, other) for one, other in zip(slopes, kept, strict=True))


def test_derivatives_leave_the_cached_values_alone() -> None:
    network = NETWORKS[0]
    parameters, inputs = parameters_of(network).astype(np.float32), inputs_of(network).astype(np.float32)
    values = network.forward(parameters, inputs)
    kept, slopes = [value.copy() for value in values], np.ones((len(inputs), 2), np.float32)
    network.backward(parameters, values, slopes)
    network.tangent(parameters, values, parameters)
    assert all(np.array_equal(one, other) for one, other in zip(values, kept, strict=True))
    assert np.array_equal(slopes, np.ones_like(slopes))


def test_layers_are_views_that_cover_the_vector_once() -> None:
    network = NETWORKS[0]
    parameters = np.arange(network.size, dtype=np.float32)
    layers = network.layers(parameters)
    assert [weights.shape for weights, _ in layers] == [(3, 5), (5, 4), (4, 2)]
    assert np.array_equal(np.concatenate([part.ravel() for pair in layers for part in pair]), parameters)
    assert all(np.shares_memory(part, parameters) for pair in layers for part in pair)


def test_a_fresh_network_is_bounded_and_starts_near_zero() -> None:
    network = Mlp((9, 100, 2))
    parameters = network.initial(np.random.default_rng(0))
    (weights, bias), (head, head_bias) = network.layers(parameters)
    assert parameters.dtype == np.float32
    assert np.abs(weights).max() <= 1 / 3
    assert np.abs(weights).max() > 0.3
    assert bias.any()
    assert np.abs(head).max() <= 0.01
    assert head.any()
    assert not head_bias.any()
    assert np.array_equal(parameters, network.initial(np.random.default_rng(0)))


def test_adam_equals_torch() -> None:
    rng = np.random.default_rng(0)
    parameters = rng.normal(size=6).astype(np.float32)
    tensor = torch.from_numpy(parameters.copy()).requires_grad_()
    optimiser, memory = torch.optim.Adam([tensor], lr=0.01), Adam.fresh(6, rate=0.01)
    for _ in range(25):
        gradient = rng.normal(size=6).astype(np.float32)
        tensor.grad = torch.from_numpy(gradient.copy())
        optimiser.step()
        memory.step(parameters, gradient)
    assert parameters == pytest.approx(tensor.detach().numpy(), abs=1e-6)


# Policies


def policy(*, seed: int = 0, widths: tuple[int, ...] = (3, 4, 2), spread: bool = True) -> Policy:
    rng = np.random.default_rng(seed)
    network = Mlp(widths)
    inputs, outputs = widths[0], widths[-1]
    arrays = (
        rng.normal(size=network.size),
        rng.normal(size=inputs),
        rng.uniform(0.5, 2, inputs),
        np.full(outputs, -0.3),
        np.full(outputs, 0.4),
    )
    log_spread = {"log_spread": rng.normal(size=outputs).astype(np.float32)} if spread else {}
    return Policy(network, *(each.astype(np.float32) for each in arrays), **log_spread)


def test_a_policy_scales_its_inputs_and_clips_its_mean_actions() -> None:
    acting, observations = policy(), np.random.default_rng(1).normal(size=(50, 3))
    scaled = ((observations - acting.centre) / acting.scale).astype(np.float32)
    raw = acting.network.forward(acting.parameters, scaled)[-1]
    assert acting(observations) == pytest.approx(np.clip(raw, -0.3, 0.4), abs=1e-6)
    assert acting(observations).dtype == np.float64
    assert (acting(observations) < raw - 0.01).any(), "nothing was clipped"
    assert (acting(observations) > raw + 0.01).any(), "nothing was clipped"


def test_sampled_actions_scatter_around_the_unclipped_mean_by_the_spread() -> None:
    acting = policy()
    observation = np.zeros((20_000, 3))
    drawn = acting.sample(observation, np.random.default_rng(0))
    mean = acting.mean(acting.inputs(observation[:1]))[0]
    spread = np.exp(acting.log_spread)
    assert (np.abs(drawn.mean(axis=0) - mean) < 4 * spread / np.sqrt(20_000)).all()
    assert drawn.std(axis=0) == pytest.approx(spread, rel=0.03)
    again = acting.sample(observation, np.random.default_rng(0))
    assert np.array_equal(drawn, again)


@settings(max_examples=20)
@given(st.integers(0, 1000), st.lists(st.integers(1, 6), min_size=2, max_size=4), st.booleans(), st.sampled_from(["tanh", "relu"]))
def test_loading_a_saved_policy_changes_nothing(tmp_path_factory: pytest.TempPathFactory, seed, widths, spread, activation) -> None:
    saved = policy(seed=seed, widths=tuple(widths), spread=spread)
    saved = Policy(Mlp(saved.network.widths, activation), *(getattr(saved, name) for name in ARRAYS))
    path = tmp_path_factory.mktemp("policy") / "policy.safetensors"
    saved.save(path)
    loaded = Policy.load(path)
    assert loaded.network == saved.network
    for name in ARRAYS:
        assert getattr(loaded, name).dtype == np.float32
        assert np.array_equal(getattr(loaded, name), getattr(saved, name))
    observations = np.random.default_rng(0).normal(size=(5, widths[0]))
    assert np.array_equal(loaded(observations), saved(observations))


ARRAYS = ("parameters", "centre", "scale", "low", "high", "log_spread")


def _contents(tmp_path: Path) -> dict[str, bytes]:
    good = policy()
    good.save(tmp_path / "good.safetensors")
    content = (tmp_path / "good.safetensors").read_bytes()
    arrays = {name: getattr(good, name) for name in ARRAYS}
    label = {"imitable-policy": json.dumps({"widths": [3, 4, 2], "activation": "tanh"})}
    return {
        "empty": b"",
        "text": b"not a policy at all, just some words",
        "cut short": content[: len(content) // 2],
        "another program's": save(arrays),
        "without an array": save({name: arrays[name] for name in ARRAYS if name != "scale"}, metadata=label),
        "with a damaged label": save(arrays, metadata={"imitable-policy": "{widths"}),
        "with a label that says too little": save(arrays, metadata={"imitable-policy": "{}"}),
        "of other widths than it says": save(arrays, metadata={"imitable-policy": json.dumps({"widths": [3, 9, 2], "activation": "tanh"})}),
    }


@pytest.mark.parametrize(
    "kind",
    [
        "empty",
        "text",
        "cut short",
        "another program's",
        "without an array",
        "with a damaged label",
        "with a label that says too little",
        "of other widths than it says",
    ],
)
def test_a_file_that_is_no_policy_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "bad.safetensors"
    path.write_bytes(_contents(tmp_path)[kind])
    with pytest.raises(ImitableError, match=r"bad\.safetensors is not a policy"):
        Policy.load(path)


def test_a_missing_policy_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ImitableError, match=r"absent\.safetensors"):
        Policy.load(tmp_path / "absent.safetensors")


def test_a_deterministic_policy_refuses_to_sample() -> None:
    policy = Policy.fresh(Mlp((2, 1)), centre=np.zeros(2), scale=np.ones(2), low=-np.ones(1), high=np.ones(1), rng=np.random.default_rng(0))
    with pytest.raises(ImitableError, match="deterministic"):
        policy.sample(np.zeros((3, 2)), np.random.default_rng(0))
    assert policy(np.zeros((3, 2))).shape == (3, 1)
