"""Fit f_id on random trajectories of the target: the action that most probably led from s to s' (eq. 2)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from imitable.arrays import Array, Float32, Generator, Integers
from imitable.errors import ImitableError, check_fields
from imitable.reinforcement import Episodes, TransitionScaling, demonstrate
from imitable.simulators import Simulator


class InverseDynamics(Protocol):
    """Actions (N, action), within the target's limits, that take observations to next observations as nearly as it can tell."""

    def __call__(self, observations: Array, next_observations: Array) -> Array: ...


AT_ONCE = 50_000
"""Transitions a network looks at together; a million would take gigabytes."""


@dataclass(frozen=True, eq=False)
class LearnedInverseDynamics:
    """A fitted network and what it sees."""

    predict: Callable[[Float32], Float32]
    weights: dict[str, Float32]
    """Of the network, by name: enough to make it again."""
    scaling: TransitionScaling
    columns: Integers
    """Of the scaled (s, s' - s), those it sees."""
    low: Array
    """(action,)"""
    high: Array
    """(action,)"""

    def __call__(self, observations: Array, next_observations: Array) -> Array:
        actions = np.empty((len(observations), len(self.low)))
        for start in range(0, len(actions), AT_ONCE):
            rows = slice(start, start + AT_ONCE)
            actions[rows] = self.predict(self.inputs(observations[rows], next_observations[rows]))
        return np.clip(actions, self.low, self.high)

    def inputs(self, observations: Array, next_observations: Array) -> Float32:
        """(N, columns) what the network sees."""
        return np.take(self.scaling(observations, next_observations), self.columns, axis=1)

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """All that was learned, for a file."""
        return {"centre": self.scaling.centre, "scale": self.scaling.scale, "columns": self.columns, **self.weights}

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray[Any, Any]], target: Simulator) -> "LearnedInverseDynamics":
        """The one that `arrays` described."""
        from imitable.residual_net import restored

        weights = {name: array for name, array in arrays.items() if name not in ("centre", "scale", "columns")}
        scaling = TransitionScaling(arrays["centre"], arrays["scale"])
        return cls(restored(weights).predict, weights, scaling, arrays["columns"], target.action_low, target.action_high)


def explore(target: Simulator, *, count: int, rng: Generator, gentlest: float = 1.0) -> Episodes:
    """`count` episodes of uniformly random actions, held for one step in half of them and longer in the rest.

    Actions drawn anew at each step average out; held ones reach the sustained turns and speeds that demonstrations show. Every episode
    keeps to its own share of the action range, `gentlest` or more.
    """
    share = 1.0 if gentlest == 1 else rng.uniform(gentlest, 1.0, (count, 1))
    middle = (target.action_high + target.action_low) / 2
    hold = np.where(np.arange(count) % 2 == 0, 1, rng.integers(2, max(3, target.horizon // 5), count))
    held = np.zeros((count, len(target.action_low)))
    clock = 0

    def act(_: Array) -> Array:
        nonlocal clock
        fresh = middle + share * (rng.uniform(target.action_low, target.action_high, held.shape) - middle)
        renewed = (clock % hold == 0)[:, None]
        held[:] = np.where(renewed, fresh, held)
        clock += 1
        return held.copy()

    return demonstrate(target, act, count=count, rng=rng)


@dataclass(frozen=True)
class InverseDynamicsFit:
    """How f_id is fitted."""

    epochs: int = 30
    batch: int = 256
    rate: float = 2e-3  # Adam, annealed to nothing along a cosine
    aimed: tuple[int, ...] = ()
    """The columns of s' that f_id looks at; (): all, as in the paper. In columns that follow from others, such as where joints take a
    torso, a target that chases a demonstration soon lags behind, and is asked for leaps that no action makes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "aimed", tuple(int(column) for column in self.aimed))  # an array is as good
        positive = (("epochs", self.epochs > 0), ("batch", self.batch > 0), ("rate", self.rate > 0))
        check_fields(self, *((name, fits, "above 0") for name, fits in positive))

    def __call__(
        self, exploration: Episodes, target: Simulator, *, rng: Generator, watch: Callable[[float], None] = lambda share: None
    ) -> LearnedInverseDynamics:
        """Smooth-L1 regression of the actions on (s, s' - s)."""
        from imitable.residual_net import ResidualNet, initialise, regress

        rows = exploration.trajectories.transition_rows
        before, after = exploration.trajectories.states[rows], exploration.trajectories.states[rows + 1]
        scaling, width = TransitionScaling.of(before, after), before.shape[1]
        if not set(self.aimed) <= set(range(width)):
            raise ImitableError(
                f"aimed={self.aimed} does not fit the target's {width} observation columns; give numbers from 0 to {width - 1}"
            )
        columns = np.concatenate([np.arange(width), width + np.array(self.aimed or range(width))])
        network = ResidualNet(len(columns), exploration.actions.shape[1])
        initialise(network, rng)
        regress(
            network,
            np.take(scaling(before, after), columns, axis=1),
            exploration.actions.astype(np.float32),
            updates=max(1, self.epochs * len(rows) // self.batch),
            batch=self.batch,
            rate=self.rate,
            rng=rng,
            watch=watch,
        )
        return LearnedInverseDynamics(network.predict, network.weights(), scaling, columns, target.action_low, target.action_high)
