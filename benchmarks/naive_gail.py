"""GAIL from observation written the straightforward way: the yardstick of `speed.py`.

One environment, one state at a time through torch, everything in float64, 5000 steps per update, second derivatives by differentiating
twice: the algorithm and the numbers of the paper's released code. Nothing here is needless work beyond that; the environment is a lean
`MjData` loop, actions are drawn without gradients and returns are summed in plain Python.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium
import mujoco
import numpy as np
import torch
from gymnasium.spaces import Box
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from imitable.arrays import Array
from imitable.paper.reacher import ANGLE, GOAL, REACH, VELOCITY, Reacher

GAMMA, GAE_LAMBDA = 0.995, 0.97
MAX_KL, CG_DAMPING, CG_ITERATIONS, HALVINGS = 0.01, 0.1, 10, 10
VALUE_LEARNING_RATE, VALUE_MINIBATCHES, DISCRIMINATOR_LEARNING_RATE = 3e-4, 30, 1e-3


class PlainReacher(gymnasium.Env[Array, Array]):
    """One arm on one `MjData`, as Gymnasium's own MuJoCo environments are made; it moves exactly as its simulator does."""

    def __init__(self, simulator: Reacher) -> None:
        self.simulator, self.model = simulator, simulator.physics.model
        self.data = mujoco.MjData(self.model)
        self.action_space = Box(simulator.action_low, simulator.action_high, dtype=np.float64)
        self.observation_space = Box(-np.inf, np.inf, (len(simulator.observation_names),), dtype=np.float64)
        self._goal, self._age = np.zeros(2), 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        start = self.simulator.initial_states(1, self.np_random)[0]
        mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[0], self.data.qvel[0] = start[ANGLE], start[VELOCITY]
        self._goal, self._age = start[GOAL], 0
        return self._observe(), {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        before = self._observe()
        self.data.ctrl[:] = action.clip(-1.0, 1.0)
        mujoco.mj_step(self.model, self.data, self.simulator.physics.frame_skip)
        self._age += 1
        reward = -10.0 * float(np.hypot(before[5], before[6]))
        return self._observe(), reward, False, self._age >= self.simulator.horizon, {}

    def _observe(self) -> Array:
        angle = self.data.qpos[0]
        heading = np.array([np.cos(angle), np.sin(angle)])
        return np.concatenate([heading, self._goal, self.data.qvel, REACH * heading - self._goal])


def small_network(inputs: int, outputs: int) -> nn.Sequential:
    """Two hidden layers of 100, tanh, and a head that starts near zero."""
    head = nn.Linear(100, outputs)
    with torch.no_grad():
        head.weight.mul_(0.1)
        head.bias.zero_()
    return nn.Sequential(nn.Linear(inputs, 100), nn.Tanh(), nn.Linear(100, 100), nn.Tanh(), head)


class GaussianPolicy(nn.Module):
    """Mean actions from a network, and one standard deviation per action for all states."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.network = small_network(inputs, outputs)
        self.log_std = nn.Parameter(torch.zeros(outputs))

    def sample(self, observation: Array) -> Array:
        """One action (action,) for one observation (observation,)."""
        with torch.inference_mode():
            mean = self.network(torch.from_numpy(observation)[None])
            return torch.normal(mean, self.log_std.exp().expand_as(mean))[0].numpy()

    def log_prob(self, observations: Tensor, actions: Tensor) -> Tensor:
        """(N,) up to a constant."""
        errors = (actions - self.network(observations)) / self.log_std.exp()
        return -(0.5 * errors**2 + self.log_std).sum(dim=1)


@dataclass(frozen=True)
class Rollout:
    """Whole episodes, one after the other."""

    observations: Tensor
    """(step, observation)"""
    next_observations: Tensor
    """(step, observation)"""
    actions: Tensor
    """(step, action)"""
    last: list[bool]
    """(step,) whether the episode stops here."""


def collect(environment: gymnasium.Env[Array, Array], policy: GaussianPolicy, *, steps: int) -> Rollout:
    """At least so many steps of whole episodes."""
    observations, next_observations, actions, last = [], [], [], []
    observation, _ = environment.reset()
    while len(last) < steps or not last[-1]:
        action = policy.sample(observation)
        next_observation, _, terminated, truncated, _ = environment.step(action)
        observations.append(observation)
        next_observations.append(next_observation)
        actions.append(action)
        last.append(terminated or truncated)
        observation = environment.reset()[0] if last[-1] else next_observation
    return Rollout(*(torch.from_numpy(np.stack(each)) for each in (observations, next_observations, actions)), last)


def returns_and_advantages(rewards: Tensor, values: Tensor, last: list[bool]) -> tuple[Tensor, Tensor]:
    """(step,) discounted returns, and generalised advantages brought to mean 0 and deviation 1."""
    returns, advantages = [], []
    ahead = next_value = next_advantage = 0.0
    for reward, value, is_last in zip(reversed(rewards.tolist()), reversed(values.tolist()), reversed(last), strict=True):
        if is_last:
            ahead = next_value = next_advantage = 0.0
        ahead = reward + GAMMA * ahead
        next_advantage = reward + GAMMA * next_value - value + GAMMA * GAE_LAMBDA * next_advantage
        next_value = value
        returns.append(ahead)
        advantages.append(next_advantage)
    raw = torch.tensor(advantages[::-1], dtype=rewards.dtype)
    return torch.tensor(returns[::-1], dtype=rewards.dtype), (raw - raw.mean()) / raw.std()


def kl_divergence(policy: GaussianPolicy, observations: Tensor) -> Tensor:
    """Mean KL of the policy from itself held fixed: zero, with the Fisher matrix as its second derivative."""
    mean, log_std = policy.network(observations), policy.log_std
    old_mean, old_log_std = mean.detach(), log_std.detach()
    ratio = ((2 * old_log_std).exp() + (old_mean - mean) ** 2) / (2 * (2 * log_std).exp())
    return (log_std - old_log_std + ratio - 0.5).sum(dim=1).mean()


def policy_step(policy: GaussianPolicy, observations: Tensor, actions: Tensor, advantages: Tensor, *, keep_graph: bool) -> None:
    """Improve the policy, in place, within a KL bound; a kept graph spares the forward pass of every Fisher product."""
    parameters = list(policy.parameters())
    old_log_prob = policy.log_prob(observations, actions).detach()

    def surrogate() -> Tensor:
        return (advantages * (policy.log_prob(observations, actions) - old_log_prob).exp()).mean()

    def kl_gradient() -> Tensor:
        return _flat(torch.autograd.grad(kl_divergence(policy, observations), parameters, create_graph=True))

    kept = kl_gradient() if keep_graph else None

    def fisher_product(direction: Tensor) -> Tensor:
        gradient = kl_gradient() if kept is None else kept
        return _flat(torch.autograd.grad(gradient @ direction, parameters, retain_graph=keep_graph)) + CG_DAMPING * direction

    start = surrogate()
    gradient = _flat(torch.autograd.grad(start, parameters))
    direction = conjugate_gradient(fisher_product, gradient)
    step = direction * (2 * MAX_KL / (direction @ fisher_product(direction))).sqrt()
    expected = gradient @ step
    theta = parameters_to_vector(parameters).detach()
    with torch.no_grad():
        for halving in range(HALVINGS):
            vector_to_parameters(theta + 0.5**halving * step, parameters)
            improvement = surrogate() - start
            if improvement > 0 and improvement > 0.1 * 0.5**halving * expected:
                return
        vector_to_parameters(theta, parameters)


def conjugate_gradient(product: Callable[[Tensor], Tensor], target: Tensor) -> Tensor:
    """Approximately solve product(x) = target."""
    solution, residual, direction = torch.zeros_like(target), target.clone(), target.clone()
    size = residual @ residual
    for _ in range(CG_ITERATIONS):
        image = product(direction)
        stride = size / (direction @ image)
        solution += stride * direction
        residual -= stride * image
        size, previous = residual @ residual, size
        if size < 1e-10:
            break
        direction = residual + (size / previous) * direction
    return solution


def _flat(tensors: tuple[Tensor, ...]) -> Tensor:
    return torch.cat([tensor.reshape(-1) for tensor in tensors])


def train(environment: gymnasium.Env[Array, Array], demonstrated: Array, *, batch: int = 5000, seed: int) -> Iterator[int]:
    """Learn for ever from demonstrated transitions (N, 2 * observation); after every update, the environment steps it took."""
    torch.manual_seed(seed)
    environment.reset(seed=seed)
    width, actions = environment.observation_space.shape[0], environment.action_space.shape[0]
    policy = GaussianPolicy(width, actions).double()
    critic, discriminator = small_network(width, 1).double(), small_network(2 * width, 1).double()
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=VALUE_LEARNING_RATE)
    discriminator_optimizer = torch.optim.Adam(discriminator.parameters(), lr=DISCRIMINATOR_LEARNING_RATE)
    shown = torch.from_numpy(demonstrated)
    while True:
        rollout = collect(environment, policy, steps=batch)
        transitions = torch.cat([rollout.observations, rollout.next_observations], dim=1)
        with torch.no_grad():
            rewards = nn.functional.softplus(-discriminator(transitions)[:, 0])  # -log D: the discriminator is high for the agent
            values = critic(rollout.observations)[:, 0]
        returns, advantages = returns_and_advantages(rewards, values, rollout.last)
        policy_step(policy, rollout.observations, rollout.actions, advantages, keep_graph=False)
        for rows in torch.randperm(len(returns)).chunk(VALUE_MINIBATCHES):
            errors = critic(rollout.observations[rows])[:, 0] - returns[rows]
            _descend(critic_optimizer, (errors**2).mean())
        drawn = shown[torch.randint(len(shown), (len(transitions),))]
        # Label 1 for the agent and 0 for demonstrations.
        loss = nn.functional.softplus(-discriminator(transitions)).mean() + nn.functional.softplus(discriminator(drawn)).mean()
        _descend(discriminator_optimizer, loss)
        yield len(returns)


def _descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
