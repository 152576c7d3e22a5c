"""The eight-layer residual network of the inverse dynamics, in torch; imported only when one is fitted or read."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from imitable.arrays import Float32, Generator, Progress


class ResidualNet(nn.Module):
    """Eight linear layers: one in, six residual blocks h <- relu(h + relu(W h + b)), one out."""

    def __init__(self, inputs: int, outputs: int, *, width: int = 100, blocks: int = 6) -> None:
        super().__init__()
        self.entry = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(blocks))
        self.exit = nn.Linear(width, outputs)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.relu(self.entry(inputs))
        for block in self.blocks:
            hidden = torch.relu(hidden + torch.relu(block(hidden)))
        return self.exit(hidden)  # type: ignore[no-any-return]

    def predict(self, inputs: Float32) -> Float32:
        """Outputs (N, outputs) without a graph."""
        with torch.inference_mode():
            return self(torch.from_numpy(inputs)).numpy()  # type: ignore[no-any-return]

    def weights(self) -> dict[str, Float32]:
        """Every parameter by name."""
        return {name: tensor.detach().numpy() for name, tensor in self.named_parameters()}


def restored(weights: Mapping[str, Float32]) -> ResidualNet:
    """The network that has these weights."""
    (width, inputs), (outputs, _) = weights["entry.weight"].shape, weights["exit.weight"].shape
    network = ResidualNet(inputs, outputs, width=width, blocks=sum(name.startswith("blocks.") for name in weights) // 2)
    network.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    return network


def initialize(network: nn.Module, rng: Generator) -> None:
    """Torch's own default initialization of linear layers, but from our generator."""
    with torch.no_grad():
        for layer in network.modules():
            if isinstance(layer, nn.Linear):
                bound = layer.in_features**-0.5
                for tensor in (layer.weight, layer.bias):
                    tensor.copy_(torch.from_numpy(rng.uniform(-bound, bound, tuple(tensor.shape)).astype(np.float32)))


@torch.enable_grad()  # a learner may ask for the fit where gradients are switched off
def regress(
    network: nn.Module,
    inputs: Float32,
    targets: Float32,
    *,
    updates: int,
    batch_size: int,
    learning_rate: float,
    rng: Generator,
    progress: Progress,
) -> None:
    """Smooth-L1 regression with Adam and a cosine schedule."""
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    x, y = torch.from_numpy(inputs), torch.from_numpy(targets)
    for update in range(updates):
        rows = torch.from_numpy(rng.integers(len(inputs), size=batch_size))
        loss = nn.functional.smooth_l1_loss(network(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        if update % 100 == 0:
            progress(update / updates)
