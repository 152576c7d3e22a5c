"""An arm of one joint and one link that reaches for a goal, and can turn in one direction only."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from imitable.arrays import Array, Booleans, Generator
from imitable.assessment import Exploration
from imitable.learners import Gail
from imitable.paper.demonstrators import Mixture, trained_demonstrators
from imitable.paper.expert_training import ExpertTraining
from imitable.paper.tasks import Task
from imitable.scores import RectifiedOptimality, ReplayFeasibility
from imitable.simulators.physics import Physics, load_model
from imitable.trpo import Trpo

MODEL = Path(__file__).parent / "models" / "reacher.xml"

REACH = 0.21  # m, hinge to fingertip
FARTHEST = 2.35619445  # rad, 135 degrees
FRAME_SKIP = 2  # 0.02 s per control step
ANGLE, VELOCITY = 0, 1
GOAL = slice(3, 5)


@dataclass(frozen=True)
class Reacher:
    """Torque is two-sided, the joint's range is one-sided.

    State (5): angle [rad], velocity [rad/s], solver warm start, goal x, y [m]. Observation (7): cosine and sine of the angle,
    goal x, y, velocity, fingertip minus goal x, y. The released environment keeps a second joint locked within 0.0001 rad; the
    paper's arm has one joint, and so has ours, with the same inertia.
    """

    version: ClassVar[int] = 1  # raised when its numbers change

    lowest: float  # rad
    highest: float  # rad
    rectangular_goals: bool = False  # the released code's goals: a rectangle on either side instead of the paper's triangles
    horizon: int = 50
    action_low: Array = field(default_factory=lambda: np.array([-1.0]))
    action_high: Array = field(default_factory=lambda: np.array([1.0]))
    observation_names: tuple[str, ...] = ("cos", "sin", "goal x", "goal y", "velocity", "offset x", "offset y")

    @property
    def physics(self) -> Physics:
        return load_model(MODEL, frame_skip=FRAME_SKIP, ranges=(("shoulder", self.lowest, self.highest),))

    def initial_states(self, count: int, rng: Generator) -> Array:
        states = np.zeros((count, 5))
        states[:, VELOCITY] = rng.uniform(-0.005, 0.005, count)
        around, outward = evenly_spread(count, rng)
        side, sideward = np.where(around < 0.5, -1.0, 1.0), 2 * around % 1 - 0.5
        if self.rectangular_goals:
            across, distance = 0.2 * sideward, 0.1 + 0.1 * outward
        else:  # two triangles with their apex at the hinge, 2 arctan(1/2) wide
            distance = 0.2 * np.sqrt(outward)
            across = sideward * distance
        states[:, GOAL] = np.stack([across, side * distance], axis=1)
        return states

    def step(self, states: Array, actions: Array) -> Array:
        return self.physics.step(states, np.clip(actions, self.action_low, self.action_high))  # goals stay

    def observe(self, states: Array) -> Array:
        observations = np.empty((len(states), 7))
        observations[:, 0], observations[:, 1] = np.cos(states[:, ANGLE]), np.sin(states[:, ANGLE])
        observations[:, 2:4], observations[:, 4] = states[:, GOAL], states[:, VELOCITY]
        observations[:, 5:] = REACH * observations[:, :2] - observations[:, 2:4]
        return observations

    def restore(self, observations: Array, like: Array | None = None) -> Array:
        states = np.zeros((len(observations), 5)) if like is None else like.copy()
        states[:, ANGLE] = np.arctan2(observations[:, 1], observations[:, 0])
        states[:, VELOCITY] = observations[:, 4]
        states[:, GOAL] = observations[:, 2:4]
        return states

    def reward(self, states: Array, actions: Array, next_states: Array) -> Array:
        # Measured before the step, as in the paper's evaluation, so that returns compare with its table.
        offset_x, offset_y = self.observe(states)[:, 5:].T
        return np.asarray(-10.0 * np.hypot(offset_x, offset_y))

    def terminated(self, states: Array) -> Booleans:
        return np.zeros(len(states), dtype=bool)

    def markers(self, state: Array) -> Array:
        """(1, 4) the goal's x, y, z and radius, for pictures."""
        return np.array([[*state[GOAL], 0.01, 0.012]])


def evenly_spread(count: int, rng: Generator) -> Array:
    """(2, count) points of the unit square, each uniform, together a lattice, in random order.

    An arm of Reacher reaches the goals of one side only, and returns differ more between goals than between policies; where the goals of a
    batch are spread evenly, its mean return tells policies apart. The lattice is shifted at random, so no place is preferred.
    """
    golden = (np.sqrt(5) - 1) / 2
    return (np.array([[1 / count], [golden]]) * rng.permutation(count) + rng.random((2, 1))) % 1


CLOCKWISE = Reacher(lowest=-FARTHEST, highest=0.0)
COUNTER_CLOCKWISE = Reacher(lowest=0.0, highest=FARTHEST)
REACHERS = {"clockwise": CLOCKWISE, "counter-clockwise": COUNTER_CLOCKWISE}


def task(dynamics: str) -> Task:
    """Reach for goals on either side with an arm that turns clockwise or counter-clockwise only."""
    return Task(
        f"reacher/{dynamics}",
        trained_demonstrators("reacher", dynamics, REACHERS, Mixture(optimal=0.05, suboptimal=0.90, other_dynamics=0.05)),
        # Where the arm is: goals match by construction, and velocities [rad/s] would drown the angle.
        replay_feasibility=ReplayFeasibility(delta_s=0.001, columns=(0, 1)),
        # The paper's sigma (50) and the released radius (0.1 m) leave 7 % of the samples to the optimal demonstrations of the paper's
        # own mixture; these were chosen with other seeds than the results use, see docs/results.md.
        optimality=RectifiedOptimality(sigma=7.0, radius=0.05, columns=(2, 3)),
        paper_exploration=Exploration(episodes=1000, steps=None),
        learners={"gail": Gail(rounds=1200, trpo=Trpo(batch_size=1250, max_kl=0.02, value_epochs=2), checkpoint_every=80)},
        # The released Reacher trains on -distance - |a|^2 and evaluates -10 x distance. Its control cost keeps the ten-epoch policies
        # near their random start; the optimal ones train on what is evaluated.
        training={
            "suboptimal": ExpertTraining(rounds=10, reward_scale=0.1, control_cost=1.0),
            "optimal": ExpertTraining(rounds=800),
        },
    )
