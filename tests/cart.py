"""A cart on a plane, pushed within limits: the smallest robot with positions and velocities, of which a stronger one is another body."""

from dataclasses import dataclass, field

import numpy as np

from imitable.arrays import Array, Booleans, Generator
from imitable.demonstrations import Demonstrations, join

TIMESTEP = 0.1  # s


@dataclass(frozen=True)
class Cart:
    """State and observation (4): position [m] and velocity [m/s]; the action is a share of the greatest acceleration."""

    strength: float = 1.0  # m/s^2 at full action
    horizon: int = 60
    action_low: Array = field(default_factory=lambda: np.array([-1.0, -1.0]))
    action_high: Array = field(default_factory=lambda: np.array([1.0, 1.0]))
    observation_names: tuple[str, ...] = ("x", "y", "velocity x", "velocity y")

    def initial_states(self, count: int, rng: Generator) -> Array:
        return rng.normal(scale=0.3, size=(count, 4))

    def step(self, states: Array, actions: Array) -> Array:
        pushed = TIMESTEP * self.strength * np.clip(actions, self.action_low, self.action_high)
        velocities = 0.97 * states[:, 2:] + pushed
        return np.concatenate([states[:, :2] + TIMESTEP * velocities, velocities], axis=1)

    def observe(self, states: Array) -> Array:
        return states.copy()

    def restore(self, observations: Array, like: Array | None = None) -> Array:
        return observations.copy()

    def reward(self, states: Array, actions: Array, next_states: Array) -> Array:
        return -np.linalg.norm(next_states[:, :2], axis=1)

    def terminated(self, states: Array) -> Booleans:
        return np.zeros(len(states), dtype=bool)


@dataclass(frozen=True)
class Edge(Cart):
    """Its simulation breaks down, whatever it does, beyond a limit."""

    edge: float = 1.0  # m

    def step(self, states: Array, actions: Array) -> Array:
        moved = super().step(states, actions)
        moved[states[:, 0] > self.edge] = np.nan
        return moved


@dataclass(frozen=True)
class Clipped(Cart):
    """Cannot be restored where its velocity is too great to be shown."""

    def restorable(self, observations: Array) -> Booleans:
        return np.abs(observations[:, 2]) < 0.4


CART = Cart()
STRONG = Cart(strength=2.0)


def pushes(count: int, *, seed: int, steps: int = 60, strengths: Array | float = 1.0, gentle: float = 1.0) -> Demonstrations:
    """Carts pushed to and fro at random, each time for five steps, with all of their strength (of every step) or a share of it."""
    rng, robot = np.random.default_rng(seed), Cart()
    strengths = np.broadcast_to(strengths, steps)
    states = robot.initial_states(count, rng)
    seen = [states]
    for step in range(steps):
        if step % 5 == 0:
            actions = gentle * rng.choice([-1.0, 1.0], (count, 2))
        states = Cart(strength=float(strengths[step])).step(states, actions)
        seen.append(states)
    returns = -np.linalg.norm(states[:, :2], axis=1)
    return Demonstrations(np.stack(seen, axis=1).reshape(-1, 4), np.full(count, steps), returns)


def both(*, own: int, other: int, seed: int = 0) -> Demonstrations:
    """Demonstrations of the cart, then of the strong one."""
    return join([pushes(own, seed=seed), pushes(other, seed=seed + 1, strengths=2.0)])
