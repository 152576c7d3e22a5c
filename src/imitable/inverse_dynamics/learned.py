"""f_id as the paper has it: a network fitted to random trajectories of the robot, for the most probable action from s to s' (eq. 2)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from imitable.arrays import Array, Arrays, Float32, Generator, Progress, Snapshot, no_progress
from imitable.errors import above, check_fields
from imitable.inverse_dynamics.base import InverseResult
from imitable.networks import TransitionScaling
from imitable.rollouts import Episodes
from imitable.simulators import Simulator

CHUNK = 50_000
"""Transitions a network looks at together; a million would take gigabytes."""


@dataclass(frozen=True, eq=False)
class LearnedInverseDynamics:
    """A fitted network and what it sees."""

    robot: Simulator
    predict: Callable[[Float32], Float32]
    weights: dict[str, Float32]
    """Of the network, by name: enough to make it again."""
    scaling: TransitionScaling

    def __call__(self, states: Array, next_observations: Array, *, guess: InverseResult | None = None) -> InverseResult:
        actions = np.empty((len(states), len(self.robot.action_low)))
        for start in range(0, len(actions), CHUNK):
            rows = slice(start, start + CHUNK)
            actions[rows] = self.predict(self.scaling(self.robot.observe(states[rows]), next_observations[rows]))
        return InverseResult.unchecked(actions, self.robot)

    def arrays(self) -> Arrays:
        return {"center": self.scaling.center, "scale": self.scaling.scale, **self.weights}


@dataclass(frozen=True)
class Learned:
    """How f_id is fitted."""

    epochs: int = 30
    batch_size: int = 256
    learning_rate: float = 2e-3  # Adam, annealed to nothing along a cosine

    def __post_init__(self) -> None:
        check_fields(self, *above(self, 0, "epochs", "batch_size", "learning_rate"))

    def fit(self, episodes: Episodes, robot: Simulator, *, rng: Generator, progress: Progress = no_progress) -> LearnedInverseDynamics:
        """Smooth-L1 regression of the actions on (s, s' - s)."""
        from imitable.inverse_dynamics.residual_net import ResidualNet, initialize, regress

        rows = episodes.trajectories.transition_rows
        before, after = episodes.trajectories.observations[rows], episodes.trajectories.observations[rows + 1]
        scaling = TransitionScaling.of(before, after)
        network = ResidualNet(2 * before.shape[1], episodes.actions.shape[1])
        initialize(network, rng)
        regress(
            network,
            scaling(before, after),
            episodes.actions.astype(np.float32),
            updates=max(1, self.epochs * len(rows) // self.batch_size),
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            rng=rng,
            progress=progress,
        )
        return LearnedInverseDynamics(robot, network.predict, network.weights(), scaling)

    def restored(self, arrays: Snapshot, robot: Simulator) -> LearnedInverseDynamics:
        from imitable.inverse_dynamics.residual_net import restored

        weights = {name: array for name, array in arrays.items() if name not in ("center", "scale")}
        scaling = TransitionScaling(arrays["center"], arrays["scale"])
        return LearnedInverseDynamics(robot, restored(weights).predict, weights, scaling)
