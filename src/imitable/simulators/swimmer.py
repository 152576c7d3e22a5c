"""A snake of three links that swims forward, with its back or its front joint all but disabled."""

from dataclasses import dataclass, field
from math import radians

import numpy as np

from imitable.arrays import Array, Booleans, Generator, Integers
from imitable.simulators import _mujoco

FRAME_SKIP = 4
TIMESTEP = 0.04  # s per control step
WIDEST = 100.0  # degrees to either side, of a joint that is not disabled
X = 0
HIDDEN = 2  # x and y: where the swimmer is does not matter to it


@dataclass(frozen=True)
class Swimmer:
    """Two motors bend the joints; the reward is the forward velocity less a small cost of the actions.

    State (15): x, y [m], heading, front and back joint [rad], their five velocities, solver warm start. Observation (8): heading,
    joints and all velocities, as in Gymnasium's Swimmer-v5.
    """

    front: float = WIDEST  # degrees to either side that the front joint may bend
    back: float = WIDEST  # degrees to either side that the back joint may bend
    weight: float = 1.0  # times as heavy as the classic one
    horizon: int = 1000
    action_low: Array = field(default_factory=lambda: np.array([-1.0, -1.0]))
    action_high: Array = field(default_factory=lambda: np.array([1.0, 1.0]))
    action_cost: float = 1e-4
    observed: tuple[str, ...] = (
        "heading",
        "front joint",
        "back joint",
        "velocity x",
        "velocity y",
        "heading rate",
        "front joint rate",
        "back joint rate",
    )
    # What the motors decide. The heading and the velocities follow from it, but small errors in them add up over 1000 steps.
    matched: Integers = field(default_factory=lambda: np.array([1, 2]))
    start_key: Integers | None = None

    @property
    def physics(self) -> _mujoco.Physics:
        bends = (("front joint", self.front), ("back joint", self.back))
        ranges = tuple((joint, -radians(bend), radians(bend)) for joint, bend in bends)
        return _mujoco.load("swimmer", frame_skip=FRAME_SKIP, ranges=ranges, weight=self.weight)

    def initial_states(self, count: int, rng: Generator) -> Array:
        states = np.zeros((count, 15))
        states[:, :10] = rng.uniform(-0.1, 0.1, (count, 10))
        return states

    def step(self, states: Array, actions: Array) -> Array:
        return self.physics.step(states, np.clip(actions, self.action_low, self.action_high))

    def observe(self, states: Array) -> Array:
        return states[:, HIDDEN:10].copy()

    def restore(self, observations: Array, like: Array | None = None) -> Array:
        states = np.zeros((len(observations), 15)) if like is None else like.copy()
        states[:, HIDDEN:10] = observations
        return states

    def reward(self, states: Array, next_states: Array) -> Array:
        return np.asarray((next_states[:, X] - states[:, X]) / TIMESTEP)

    def finished(self, states: Array) -> Booleans:
        return np.zeros(len(states), dtype=bool)


# The paper holds the angle at 0, but no gait of an exact lock comes near its returns; 10 degrees do, and the authors' later code has
# them. `Swimmer(back=0.0)` is the exact lock.
BACK_DISABLED = Swimmer(back=10.0)
FRONT_DISABLED = Swimmer(front=10.0)
