"""A four-legged walker whose legs are confined to the neighbourhood of the x-axis or of the y-axis."""

from dataclasses import dataclass, field, replace
from math import radians
from pathlib import Path
from typing import ClassVar

import numpy as np

from imitable.arrays import Array, Booleans, Generator
from imitable.assessment import Exploration
from imitable.learners import Cloning, Gail
from imitable.paper.demonstrators import Mixture, trained_demonstrators
from imitable.paper.expert_training import ExpertTraining
from imitable.paper.tasks import Task
from imitable.scores import RectifiedOptimality, ReplayFeasibility
from imitable.simulators.physics import Physics, load_model
from imitable.trpo import Trpo

MODEL = Path(__file__).parent / "models" / "ant.xml"
FRAME_SKIP = 5
TIMESTEP = 0.05  # s per control step
ACTION_COST = 0.5  # per unit of squared action
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

    version: ClassVar[int] = 1  # raised when its numbers change

    hips: tuple[tuple[float, float], ...]  # degrees, the ranges of the four
    horizon: int = 1000
    action_low: Array = field(default_factory=lambda: np.full(8, -1.0))
    action_high: Array = field(default_factory=lambda: np.full(8, 1.0))
    observation_names: tuple[str, ...] = (
        *("z", "quaternion w", "quaternion x", "quaternion y", "quaternion z", *JOINTS),
        *("velocity x", "velocity y", "velocity z", "turn rate x", "turn rate y", "turn rate z"),
        *(f"{joint} rate" for joint in JOINTS),
    )

    @property
    def physics(self) -> Physics:
        ranges = tuple((f"hip {leg}", radians(low), radians(high)) for leg, (low, high) in enumerate(self.hips, start=1))
        return load_model(MODEL, frame_skip=FRAME_SKIP, ranges=ranges, traced="torso")

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

    def reward(self, states: Array, actions: Array, next_states: Array) -> Array:
        velocity = (next_states[:, TRACED_X] - states[:, TRACED_X]) / TIMESTEP
        return np.asarray(velocity + ~self.terminated(next_states) - ACTION_COST * np.square(actions).sum(axis=1))

    def terminated(self, states: Array) -> Booleans:
        return np.asarray((states[:, Z] < LOWEST) | (states[:, Z] > HIGHEST))


# The paper confines the legs to 53 degrees from an axis; they are mounted on the diagonals, at 45 degrees.
X_AXIS = Ant(hips=((-45.0, 8.0), (-8.0, 45.0), (-45.0, 8.0), (-8.0, 45.0)))
Y_AXIS = Ant(hips=((-8.0, 45.0), (-45.0, 8.0), (-8.0, 45.0), (-45.0, 8.0)))
ANTS = {"x-axis": X_AXIS, "y-axis": Y_AXIS}

# With the usual standard deviation of 1 the cost of random actions exceeds the reward of standing, and an ant learns to fall at once.
# Whether it ever does better than stand depends on the value function: fitted thoroughly, it sees that a small step forward was worth
# something.
WALKING = Trpo(
    batch_size=2000,
    gamma=0.99,
    gae_lambda=0.95,
    max_kl=0.04,
    cg_iterations=20,
    fisher_fraction=0.5,
    value_learning_rate=1e-3,
    value_minibatches=16,
    value_epochs=20,
    initial_std=0.5,
)


def task(dynamics: str) -> Task:
    """Walk forward with legs confined to the neighbourhood of the x-axis or of the y-axis."""
    # The actuated joints. Where they take the torso depends on every contact on the way.
    joints = tuple(range(5, 13))
    return Task(
        f"ant/{dynamics}",
        trained_demonstrators("ant", dynamics, ANTS, Mixture(optimal=0.01, suboptimal=0.495, other_dynamics=0.495)),
        replay_feasibility=ReplayFeasibility(delta_s=0.001, columns=joints),
        optimality=RectifiedOptimality(sigma=500.0, radius=np.inf),
        paper_exploration=Exploration(episodes=200, steps=None),
        # More than the optimal demonstrations have, and no more: an action takes over 100 simulated steps to recover.
        # From a random start GAIL reaches 75 to 81 % of the expert in 1.2 million steps, on perfect demonstrations.
        learners={
            "cloning": Cloning(updates=20_000, max_transitions=15_000),
            "gail": Gail(
                rounds=100,
                start="cloning",
                cloning=Cloning(updates=5_000, max_transitions=15_000),
                trpo=replace(WALKING, n_envs=20),
                checkpoint_every=50,
            ),
        },
        training={
            "suboptimal": ExpertTraining(rounds=10, trpo=Trpo(value_epochs=3, max_kl=0.02, initial_std=0.3), evaluation_episodes=100),
            "optimal": ExpertTraining(rounds=750, trpo=WALKING, evaluation_episodes=100),
        },
    )
