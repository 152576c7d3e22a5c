"""Written-out derivatives against finite differences, and policies on disk."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from safetensors.numpy import save

from imitable.errors import ImitableError
from imitable.networks import Adam, Mlp, Policy, TransitionScaling, obs_statistics

NETWORKS = [
    Mlp((3, 5, 4, 2), "tanh"),
    Mlp((3, 5, 4, 2), "relu"),
    Mlp((2, 1), "tanh"),
    Mlp((4, 6, 1), "relu"),
]


def parameters_of(network: Mlp, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.9, 0.9, network.size)


def inputs_of(network: Mlp, count: int = 7) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(count, network.layer_sizes[0]))


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
    output_gradients = np.random.default_rng(2).normal(size=(len(inputs), network.layer_sizes[-1]))

    def loss(values: np.ndarray) -> float:
        return float((network.forward(values, inputs)[-1] * output_gradients).sum())

    step = 1e-6
    numerical = [(loss(parameters + move) - loss(parameters - move)) / (2 * step) for move in step * np.eye(network.size)]
    gradient = network.backward(parameters, network.forward(parameters, inputs), output_gradients.copy())
    assert gradient == pytest.approx(np.array(numerical), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_jacobian_vector_products_equal_finite_differences(network: Mlp) -> None:
    parameters, inputs, direction = parameters_of(network), inputs_of(network), parameters_of(network, seed=3)
    step = 1e-6
    ahead, behind = (network.forward(parameters + sign * step * direction, inputs)[-1] for sign in (1, -1))
    found = network.jvp(parameters, network.forward(parameters, inputs), direction)
    assert found == pytest.approx((ahead - behind) / (2 * step), abs=1e-7)


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_gradients_of_directional_derivatives_equal_finite_differences(network: Mlp) -> None:
    parameters, inputs = parameters_of(network), inputs_of(network)
    directions = np.random.default_rng(4).normal(size=inputs.shape)

    def directional_derivative(values: np.ndarray) -> float:
        output_gradients = np.ones((len(inputs), network.layer_sizes[-1]))
        return float((network.input_gradients(values, network.forward(values, inputs), output_gradients) * directions).sum())

    step = 1e-6
    numerical = [
        (directional_derivative(parameters + move) - directional_derivative(parameters - move)) / (2 * step)
        for move in step * np.eye(network.size)
    ]
    found = network.directional_derivative_gradient(parameters, network.forward(parameters, inputs), directions)
    assert found == pytest.approx(np.array(numerical), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_jvp_and_backward_are_each_others_transpose_in_single_precision(network: Mlp) -> None:
    parameters, inputs, direction = (
        each.astype(np.float32) for each in (parameters_of(network), inputs_of(network), parameters_of(network, seed=3))
    )
    output_gradients = np.random.default_rng(2).normal(size=(len(inputs), network.layer_sizes[-1])).astype(np.float32)
    values = network.forward(parameters, inputs)
    forwards = float((network.jvp(parameters, values, direction) * output_gradients).sum())
    backwards = float(network.backward(parameters, values, output_gradients) @ direction)
    assert forwards == pytest.approx(backwards, rel=1e-4)


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_activation_derivatives_computed_beforehand_change_nothing(network: Mlp) -> None:
    parameters, inputs = parameters_of(network).astype(np.float32), inputs_of(network).astype(np.float32)
    values, gradients = network.forward(parameters, inputs), np.ones((len(inputs), network.layer_sizes[-1]), np.float32)
    derivatives = network.activation_derivatives(values)
    kept = [each.copy() for each in derivatives]
    assert np.array_equal(network.backward(parameters, values, gradients, derivatives), network.backward(parameters, values, gradients))
    assert np.array_equal(network.jvp(parameters, values, parameters, derivatives), network.jvp(parameters, values, parameters))
    assert all(np.array_equal(one, other) for one, other in zip(derivatives, kept, strict=True))


def test_derivatives_leave_the_cached_values_alone() -> None:
    network = NETWORKS[0]
    parameters, inputs = parameters_of(network).astype(np.float32), inputs_of(network).astype(np.float32)
    values = network.forward(parameters, inputs)
    kept, output_gradients = [value.copy() for value in values], np.ones((len(inputs), 2), np.float32)
    network.backward(parameters, values, output_gradients)
    network.jvp(parameters, values, parameters)
    assert all(np.array_equal(one, other) for one, other in zip(values, kept, strict=True))
    assert np.array_equal(output_gradients, np.ones_like(output_gradients))


def test_layers_are_views_that_cover_the_vector_once() -> None:
    network = NETWORKS[0]
    parameters = np.arange(network.size, dtype=np.float32)
    layers = network.layers(parameters)
    assert [weights.shape for weights, _ in layers] == [(3, 5), (5, 4), (4, 2)]
    assert np.array_equal(np.concatenate([part.ravel() for pair in layers for part in pair]), parameters)
    assert all(np.shares_memory(part, parameters) for pair in layers for part in pair)


def test_a_fresh_network_is_bounded_and_starts_near_zero() -> None:
    network = Mlp((9, 100, 2))
    parameters = network.init_parameters(np.random.default_rng(0))
    (weights, bias), (head, head_bias) = network.layers(parameters)
    assert parameters.dtype == np.float32
    assert np.abs(weights).max() <= 1 / 3
    assert np.abs(weights).max() > 0.3
    assert bias.any()
    assert np.abs(head).max() <= 0.01
    assert head.any()
    assert not head_bias.any()
    assert np.array_equal(parameters, network.init_parameters(np.random.default_rng(0)))


def test_adam_equals_torch() -> None:
    rng = np.random.default_rng(0)
    parameters = rng.normal(size=6).astype(np.float32)
    tensor = torch.from_numpy(parameters.copy()).requires_grad_()
    theirs, ours = torch.optim.Adam([tensor], lr=0.01), Adam.fresh(6, learning_rate=0.01)
    for _ in range(25):
        gradient = rng.normal(size=6).astype(np.float32)
        tensor.grad = torch.from_numpy(gradient.copy())
        theirs.step()
        ours.step(parameters, gradient)
    assert parameters == pytest.approx(tensor.detach().numpy(), abs=1e-6)


def test_an_optimizer_goes_on_from_its_arrays_as_if_it_had_never_stopped() -> None:
    rng = np.random.default_rng(0)
    parameters, optimizer = rng.normal(size=4).astype(np.float32), Adam.fresh(4, learning_rate=0.1)
    for gradient in rng.normal(size=(3, 4)).astype(np.float32):
        optimizer.step(parameters, gradient)
    arrays = optimizer.arrays("value")
    assert sorted(arrays) == ["value exp_avg", "value exp_avg_sq", "value steps"]
    others = [optimizer.copy(), Adam.fresh(4, learning_rate=0.1).restored("value", arrays)]
    results, gradient = [], rng.normal(size=4).astype(np.float32)
    for each in (optimizer, *others):
        moved = parameters.copy()
        each.step(moved, gradient)
        results.append(moved)
    assert np.array_equal(results[0], results[1]), "the copy shares its averages"
    assert np.array_equal(results[0], results[2])
    assert arrays["value steps"] == 3, "the arrays went on with the optimizer"
    assert [each.steps for each in (optimizer, *others)] == [4, 4, 4]


def test_a_dropout_mask_multiplies_the_hidden_values() -> None:
    network = Mlp((2, 3, 1), "relu")
    parameters, inputs = parameters_of(network), inputs_of(network)
    plain = network.forward(parameters, inputs)
    mask = np.array([0.0, 2.0, 1.0]) * np.ones((len(inputs), 1))
    masked = network.forward(parameters, inputs, [mask])
    assert np.array_equal(masked[1], plain[1] * mask)
    (_, _), (head, bias) = network.layers(parameters)
    assert masked[2] == pytest.approx((plain[1] * mask) @ head + bias)


# Scaling


def test_input_scaling_leaves_columns_alone_that_never_move() -> None:
    center, scale = obs_statistics(np.array([[1.0, 5.0], [3.0, 5.0]]))
    assert center.tolist() == [2.0, 5.0]
    assert scale.tolist() == [1.0, 1.0]
    assert obs_statistics(np.array([[0.0], [6.0]]))[1].tolist() == [3.0]
    assert obs_statistics(np.array([[[0.0], [6.0]], [[0.0], [6.0]]]))[0].tolist() == [3.0], "any number of leading axes"


def test_transitions_are_scaled_as_an_observation_and_its_change() -> None:
    rng = np.random.default_rng(0)
    before = rng.normal(5.0, 2.0, (50, 2))
    after = before + rng.normal(0.1, 0.01, (50, 2))
    scaled = TransitionScaling.of(before, after)(before, after)
    assert scaled.shape == (50, 4)
    assert scaled.dtype == np.float32
    assert scaled.mean(axis=0) == pytest.approx(np.zeros(4), abs=1e-5)
    assert scaled.std(axis=0) == pytest.approx(np.ones(4), abs=1e-5)
    assert TransitionScaling(np.array([1.0, 10.0]), np.array([2.0, 5.0]))(np.array([[7.0]]), np.array([[12.0]])).tolist() == [[3.0, -1.0]]


# Policies


def policy(*, seed: int = 0, layer_sizes: tuple[int, ...] = (3, 4, 2), std: bool = True) -> Policy:
    rng = np.random.default_rng(seed)
    network = Mlp(layer_sizes)
    inputs, outputs = layer_sizes[0], layer_sizes[-1]
    arrays = (
        rng.normal(size=network.size),
        rng.normal(size=inputs),
        rng.uniform(0.5, 2, inputs),
        np.full(outputs, -0.3),
        np.full(outputs, 0.4),
    )
    log_std = {"log_std": rng.normal(size=outputs).astype(np.float32)} if std else {}
    return Policy(network, *(each.astype(np.float32) for each in arrays), **log_std)


def test_a_policy_scales_its_inputs_and_clips_its_mean_actions() -> None:
    acting, observations = policy(), np.random.default_rng(1).normal(size=(50, 3))
    scaled = ((observations - acting.center) / acting.scale).astype(np.float32)
    raw = acting.network.forward(acting.parameters, scaled)[-1]
    assert acting(observations) == pytest.approx(np.clip(raw, -0.3, 0.4), abs=1e-6)
    assert acting(observations).dtype == np.float64
    assert (acting(observations) < raw - 0.01).any(), "nothing was clipped"
    assert (acting(observations) > raw + 0.01).any(), "nothing was clipped"


def test_sampled_actions_scatter_around_the_unclipped_mean_by_the_standard_deviation() -> None:
    acting = policy()
    observation = np.zeros((20_000, 3))
    drawn = acting.sample(observation, np.random.default_rng(0))
    mean = acting.mean_actions(acting.normalize_obs(observation[:1]))[0]
    std = np.exp(acting.log_std)
    assert (np.abs(drawn.mean(axis=0) - mean) < 4 * std / np.sqrt(20_000)).all()
    assert drawn.std(axis=0) == pytest.approx(std, rel=0.03)
    again = acting.sample(observation, np.random.default_rng(0))
    assert np.array_equal(drawn, again)


@settings(max_examples=20)
@given(st.integers(0, 1000), st.lists(st.integers(1, 6), min_size=2, max_size=4), st.booleans(), st.sampled_from(["tanh", "relu"]))
def test_loading_a_saved_policy_changes_nothing(tmp_path_factory: pytest.TempPathFactory, seed, layer_sizes, std, activation) -> None:
    saved = policy(seed=seed, layer_sizes=tuple(layer_sizes), std=std)
    saved = Policy(Mlp(saved.network.layer_sizes, activation), *(getattr(saved, name) for name in ARRAYS))
    path = tmp_path_factory.mktemp("policy") / "policy.safetensors"
    saved.save(path)
    loaded = Policy.load(path)
    assert loaded.network == saved.network
    for name in ARRAYS:
        assert getattr(loaded, name).dtype == np.float32
        assert np.array_equal(getattr(loaded, name), getattr(saved, name))
    observations = np.random.default_rng(0).normal(size=(5, layer_sizes[0]))
    assert np.array_equal(loaded(observations), saved(observations))


ARRAYS = ("parameters", "center", "scale", "low", "high", "log_std")
NAMES_IN_FILES = {"parameters": "parameters", "centre": "center", "scale": "scale", "low": "low", "high": "high", "log_spread": "log_std"}
"""As the first policies were written; the ones that come with the package have them."""


def _contents(tmp_path: Path) -> dict[str, bytes]:
    good = policy()
    good.save(tmp_path / "good.safetensors")
    content = (tmp_path / "good.safetensors").read_bytes()
    arrays = {name: getattr(good, attribute) for name, attribute in NAMES_IN_FILES.items()}
    label = {"imitable-policy": json.dumps({"widths": [3, 4, 2], "activation": "tanh"})}
    return {
        "empty": b"",
        "text": b"not a policy at all, just some words",
        "cut short": content[: len(content) // 2],
        "another program's": save(arrays),
        "without an array": save({name: array for name, array in arrays.items() if name != "scale"}, metadata=label),
        "with a damaged label": save(arrays, metadata={"imitable-policy": "{widths"}),
        "with a label that says too little": save(arrays, metadata={"imitable-policy": "{}"}),
        "of other layers than it says": save(arrays, metadata={"imitable-policy": json.dumps({"widths": [3, 9, 2], "activation": "tanh"})}),
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
        "of other layers than it says",
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
    policy = Policy.fresh(Mlp((2, 1)), center=np.zeros(2), scale=np.ones(2), low=-np.ones(1), high=np.ones(1), rng=np.random.default_rng(0))
    with pytest.raises(ImitableError, match="deterministic"):
        policy.sample(np.zeros((3, 2)), np.random.default_rng(0))
    assert policy(np.zeros((3, 2))).shape == (3, 1)
