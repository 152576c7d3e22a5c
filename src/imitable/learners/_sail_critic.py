"""The gradient of SAIL's critic by torch's autograd, which differentiates its gradient penalty too; imported only when SAIL runs."""

import torch
from torch import Tensor

from imitable.arrays import Float32
from imitable.networks import Mlp


def forward(network: Mlp, parameters: Tensor, inputs: Tensor) -> Tensor:
    """`network.forward` in torch, without the hidden layers' values."""
    activation = torch.tanh if network.activation == "tanh" else torch.relu
    shapes = list(zip(network.layer_sizes, network.layer_sizes[1:], strict=False))
    pieces = parameters.split([size for shape in shapes for size in (shape[0] * shape[1], shape[1])])  # type: ignore[no-untyped-call]
    for layer, (weight, bias) in enumerate(zip(pieces[::2], pieces[1::2], strict=True)):
        inputs = torch.addmm(bias, activation(inputs) if layer else inputs, weight.view(shapes[layer]))
    return inputs


def critic_loss(
    network: Mlp, parameters: Tensor, demonstrated: Tensor, visited: Tensor, mixed: Tensor, *, gradient_penalty: float
) -> Tensor:
    """E_visited[D] - E_demonstrated[D] + gradient_penalty * E_mixed[(|dD/ds| - 1)^2]."""
    mixed = mixed.detach().requires_grad_()
    (gradients,) = torch.autograd.grad(forward(network, parameters, mixed).sum(), mixed, create_graph=True)
    values = forward(network, parameters, torch.cat([visited, demonstrated]))
    distance = values[: len(visited)].mean() - values[len(visited) :].mean()
    return distance + gradient_penalty * (gradients.norm(dim=1) - 1).square().mean()  # type: ignore[no-any-return]


def critic_gradient(network: Mlp, parameters: Float32, *batches: Float32, gradient_penalty: float) -> Float32:
    """(network.size,) of `critic_loss`; batches are demonstrated, visited and mixed states."""
    tensor = torch.tensor(parameters, requires_grad=True)
    loss = critic_loss(network, tensor, *map(torch.tensor, batches), gradient_penalty=gradient_penalty)
    return torch.autograd.grad(loss, tensor)[0].numpy()
