"""Who demonstrates with Franka's arm: hand-made experts of both kinds, and a cheap generator of sub-optimal demonstrations."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from imitable.arrays import Array, Generator
from imitable.paper.panda_arm import OBSTACLE

MIDDLE = OBSTACLE.centre[0]  # m
SIDES = np.array([0.372, 0.752])  # m, x at which the whole arm passes behind and in front of the obstacle
BESIDE = 0.125  # m, y at which it passes beside it
NEARLY = 0.012  # m, before these sides, where it is far enough
PASSING_HEIGHT = 0.215  # m, above which it must be beside the obstacle
REST = 0.04  # m, lower than the table lets it: a move into the table is refused, so whoever presses on stands still, even with noise
WIDENING = 18.7  # 1/m, how fast paths that begin apart along x lead apart with growing |y|: from 3 cm to 10 cm at BESIDE
STEP = 0.005  # m that full action moves the TCP at 20 Hz


def pass_in_plane(observations: Array, rng: Generator) -> Array:
    """The expert with three joints: to the nearer side of the obstacle, then down; the shortest way at full speed."""
    x, _, z = observations.T / 10
    side = SIDES[(x >= MIDDLE).astype(int)]
    return _detour(x, z, side)


def _detour(x: Array, z: Array, side: Array) -> Array:
    """(N, 2) actions that lead to `side` at the passing height, and from nearly there down: no noise of a sensor brings it back."""
    passing = np.abs(x - MIDDLE) < np.abs(side - MIDDLE) - NEARLY
    aim_x = np.where(passing, side, x)
    aim_z = np.where(passing, np.minimum(PASSING_HEIGHT, np.maximum(z, REST)), REST)
    return _towards(np.stack([aim_x - x, aim_z - z], axis=1))


def _towards(offsets: Array) -> Array:
    """Full speed along offsets [m], slower only to arrive."""
    length = np.sqrt(np.square(offsets).sum(axis=1, keepdims=True))
    return np.asarray(offsets / np.maximum(length, STEP))


def pass_beside(observations: Array, rng: Generator) -> Array:
    """The expert with seven joints: to a random side along y, on various paths by where it starts, then down; shorter than in the plane."""
    x, y, z = observations.T / 10
    side = np.where(np.abs(y) > 1e-9, np.sign(y), rng.choice([-1.0, 1.0], len(y)))
    to_go = np.maximum(BESIDE - np.abs(y), 0.0)
    passing = to_go > 1e-3
    sideways = (x - MIDDLE) * WIDENING / (1 + WIDENING * np.abs(y)) * to_go  # straight lines that widen towards BESIDE
    sinking = np.where(passing, np.minimum(PASSING_HEIGHT, z), REST) - z
    return _towards(np.stack([np.where(passing, sideways, 0.0), np.where(passing, side * to_go, 0.0), sinking], axis=1))


@dataclass(frozen=True)
class ClumsyDetours:
    """A cheap generator of sub-optimal demonstrations: detours that are too short, shaky, or given up half-way, and a few good ones.

    Every episode has its own detour, noise and end, so it is begun once for a batch of them.
    """

    good_share: float = 0.25  # of episodes: a full detour, and little noise
    stop_share: float = 0.4  # of the others: they stop somewhere on the way
    correlation: float = 0.9  # of the noise, from step to step

    def begin(self, rng: Generator) -> Callable[[Array], Array]:
        """What acts in one batch of episodes."""
        episodes: dict[str, Array] = {}

        def act(observations: Array) -> Array:
            x, _, z = observations.T / 10
            if not episodes:
                episodes.update(self._draw(x, rng))
            drawn = rng.standard_normal((len(x), 2))
            episodes["noise"] = self.correlation * episodes["noise"] + np.sqrt(1 - self.correlation**2) * drawn
            episodes["steps"] -= 1
            actions = _detour(x, z, episodes["side"])
            blend = episodes["blend"][:, None]
            return np.asarray(((1 - blend) * actions + blend * episodes["noise"]) * (episodes["steps"] > 0)[:, None])

        return act

    def _draw(self, x: Array, rng: Generator) -> dict[str, Array]:
        count = len(x)
        good = rng.random(count) < self.good_share
        share = np.where(good, rng.uniform(1.0, 1.15, count), rng.uniform(0.0, 1.0, count))
        stopping = ~good & (rng.random(count) < self.stop_share)
        return {
            "side": MIDDLE + share * (SIDES[(x >= MIDDLE).astype(int)] - MIDDLE),
            "blend": np.where(good, rng.uniform(0.0, 0.3, count), rng.uniform(0.1, 0.8, count)),
            "steps": np.where(stopping, rng.uniform(10, 90, count), np.inf),
            "noise": rng.standard_normal((count, 2)),
        }
