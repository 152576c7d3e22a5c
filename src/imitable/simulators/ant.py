"""A four-legged walker whose legs are confined to the neighbourhood of the x-axis or of the y-axis."""

from dataclasses import dataclass, field
from math import radians

import numpy as np

from imitable.arrays import Array, Booleans, Generator, Integers
from imitable.simulators import _mujoco

FRAME_SKIP = 5
TIMESTEP = 0.05  # s per control step
LOWEST, HIGHEST = 0.2, 1.0  # m, of the torso while the ant is on its feet
POSITIONS, VELOCITIES = slice(0, 15), slice(15, 29)
Z, TRACED_X = 2, 43
HIDDEN = 2  # x and y: where the ant is does not matter to it
JOINTS = tuple(f"{part} {leg}" for leg in (1, 2, 3, 4) for part in ("hip", "ankle"))


@dataclass(frozen=True)
class Ant:
    """Eight motors; the reward is the forward velocity of the torso, less the actions' cost, plus 1 for staying on its feet.

    State (44): torso x, y, z [m], its quaternion, eight joints [rad], their 14 velocities, solver warm start, and the torso's x as
    the integrator's last stage had it: Gymnasium's Ant measures velocity there, and so do we. Observation (27): all positions but
    x and y, and all velocities, as in Gymnasium's Ant-v5 without contact forces, which no state determines.
    """

    hips: tuple[tuple[float, float], ...]  # degrees, the ranges of the four
    horizon: int = 1000
    action_low: Array = field(default_factory=lambda: np.full(8, -1.0))
    action_high: Array = field(default_factory=lambda: np.full(8, 1.0))
    action_cost: float = 0.5
    observed: tuple[str, ...] = (
        *("z", "quaternion w", "quaternion x", "quaternion y", "quaternion z", *JOINTS),
        *("velocity x", "velocity y", "velocity z", "turn rate x", "turn rate y", "turn rate z"),
        *(f"{joint} rate" for joint in JOINTS),
    )
    # The joints, which the motors decide. Where that takes the torso depends on every contact on the way.
    matched: Integers = field(default_factory=lambda: np.arange(5, 13))
    start_key: Integers | None = None

    @property
    def physics(self) -> _mujoco.Physics:
        ranges = tuple((f"hip {leg}", radians(low), radians(high)) for leg, (low, high) in enumerate(self.hips, start=1))
        return _mujoco.load("ant", frame_skip=FRAME_SKIP, ranges=ranges, traced="torso")

    def initial_states(self, count: int, rng: Generator) -> Array:
        states = np.zeros((count, 44))
        states[:, POSITIONS] = rng.uniform(-0.1, 0.1, (count, 15))
        states[:, Z] += 0.75
        states[:, Z + 1] += 1.0  # the unit quaternion; ankles at 0 start outside their range, which pushes them in
        states[:, VELOCITIES] = 0.1 * rng.standard_normal((count, 14))
        states[:, TRACED_X] = states[:, 0]
        return states

    def step(self, states: Array, actions: Array) -> Array:
        return self.physics.step(states, np.clip(actions, self.action_low, self.action_high))

    def observe(self, states: Array) -> Array:
        return states[:, HIDDEN : VELOCITIES.stop].copy()

    def restore(self, observations: Array, like: Array | None = None) -> Array:
        states = np.zeros((len(observations), 44)) if like is None else like.copy()
        states[:, HIDDEN : VELOCITIES.stop] = observations
        return states

    def reward(self, states: Array, next_states: Array) -> Array:
        return np.asarray((next_states[:, TRACED_X] - states[:, TRACED_X]) / TIMESTEP + ~self.finished(next_states))

    def finished(self, states: Array) -> Booleans:
        return np.asarray((states[:, Z] < LOWEST) | (states[:, Z] > HIGHEST))


# The paper confines the legs to 53 degrees from an axis; they are mounted on the diagonals, at 45 degrees.
X_AXIS = Ant(hips=((-45.0, 8.0), (-8.0, 45.0), (-45.0, 8.0), (-8.0, 45.0)))
Y_AXIS = Ant(hips=((-8.0, 45.0), (-45.0, 8.0), (-8.0, 45.0), (-45.0, 8.0)))
