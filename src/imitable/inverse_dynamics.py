"""Fit f_id on random trajectories of the target: the action that most probably led from s to s' (eq. 2)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn

from imitable.arrays import Array, Float32, Generator
from imitable.reinforcement import Episodes, demonstrate, input_scaling
from imitable.simulators import Simulator


class InverseDynamics(Protocol):
    """Actions (N, action), within the target's limits, that take observations to next observations as nearly as it can tell."""

    def __call__(self, observations: Array, next_observations: Array) -> Array: ...


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


@dataclass(frozen=True, eq=False)
class LearnedInverseDynamics:
    """The fitted network with the fixed scales of its inputs, (s, s' - s)."""

    network: ResidualNet
    centre: Array
    """(2 * observation,)"""
    scale: Array
    """(2 * observation,)"""
    low: Array
    """(action,)"""
    high: Array
    """(action,)"""

    def __call__(self, observations: Array, next_observations: Array) -> Array:
        inputs = np.concatenate([observations, next_observations - observations], axis=1)
        scaled = torch.from_numpy(((inputs - self.centre) / self.scale).astype(np.float32))
        with torch.inference_mode():
            actions = self.network(scaled).numpy()
        return np.asarray(np.clip(actions.astype(np.float64), self.low, self.high))


def explore(target: Simulator, *, count: int, rng: Generator) -> Episodes:
    """`count` episodes of uniformly random actions, held for one step in half of them and longer in the rest.

    Actions drawn anew at each step average out; held ones reach the sustained turns and speeds that demonstrations show.
    """
    hold = np.where(np.arange(count) % 2 == 0, 1, rng.integers(2, max(3, target.horizon // 5), count))
    held = np.zeros((count, len(target.action_low)))
    clock = 0

    def act(observations: Array) -> Array:
        nonlocal clock
        fresh = rng.uniform(target.action_low, target.action_high, held.shape)
        renewed = (clock % hold == 0)[:, None]
        held[:] = np.where(renewed, fresh, held)
        clock += 1
        return held[: len(observations)].copy()

    return demonstrate(target, act, count=count, rng=rng)


@dataclass(frozen=True)
class InverseDynamicsFit:
    """How f_id is fitted."""

    epochs: int = 30
    batch: int = 256
    rate: float = 2e-3  # Adam, annealed to nothing along a cosine

    def __call__(
        self, exploration: Episodes, target: Simulator, *, rng: Generator, watch: Callable[[float], None] = lambda share: None
    ) -> LearnedInverseDynamics:
        """Smooth-L1 regression of the actions on (s, s' - s)."""
        rows = exploration.trajectories.transition_rows
        before, after = exploration.trajectories.states[rows], exploration.trajectories.states[rows + 1]
        inputs = np.concatenate([before, after - before], axis=1)
        centre, scale = input_scaling(inputs)
        network = ResidualNet(inputs.shape[1], exploration.actions.shape[1])
        initialise(network, rng)
        regress(
            network,
            ((inputs - centre) / scale).astype(np.float32),
            exploration.actions.astype(np.float32),
            updates=max(1, self.epochs * len(rows) // self.batch),
            batch=self.batch,
            rate=self.rate,
            rng=rng,
            watch=watch,
        )
        return LearnedInverseDynamics(network.eval(), centre, scale, target.action_low, target.action_high)


def initialise(network: nn.Module, rng: Generator) -> None:
    """Torch's own default initialisation of linear layers, but from our generator."""
    with torch.no_grad():
        for layer in network.modules():
            if isinstance(layer, nn.Linear):
                bound = layer.in_features**-0.5
                for tensor in (layer.weight, layer.bias):
                    tensor.copy_(torch.from_numpy(rng.uniform(-bound, bound, tuple(tensor.shape)).astype(np.float32)))


def regress(
    network: nn.Module,
    inputs: Float32,
    targets: Float32,
    *,
    updates: int,
    batch: int,
    rate: float,
    rng: Generator,
    watch: Callable[[float], None],
) -> None:
    """Smooth-L1 regression with Adam and a cosine schedule."""
    optimiser = torch.optim.Adam(network.parameters(), lr=rate, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, updates)
    x, y = torch.from_numpy(inputs), torch.from_numpy(targets)
    for update in range(updates):
        rows = torch.from_numpy(rng.integers(len(inputs), size=batch))
        loss = nn.functional.smooth_l1_loss(network(x[rows]), y[rows])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        if update % 100 == 0:
            watch(update / updates)
