"""A one-joint arm that turns in one direction only, with its exact inverse dynamics: the smallest pair of dynamics."""

from dataclasses import dataclass, field

import numpy as np

from imitable.arrays import Array, Arrays, Booleans, Generator, Progress, Snapshot, no_progress
from imitable.assessment import Assessment, Exploration, assess
from imitable.demonstrations import Demonstrations, join
from imitable.inverse_dynamics import InverseDynamicsModel, InverseResult
from imitable.learners import Cloning, Gail, Learner
from imitable.paper.demonstrators import Demonstrators, Mixture
from imitable.paper.tasks import Task
from imitable.rollouts import Episodes, run_episodes
from imitable.scores import RectifiedOptimality, ReplayFeasibility, product
from imitable.simulators import Simulator
from imitable.trpo import Trpo


@dataclass(frozen=True)
class Turntable:
    """State (2): joint and goal [rad]. Observation (4): cosine and sine of each."""

    slowest: float  # rad/s, lowest joint speed the motor allows
    fastest: float  # rad/s
    horizon: int = 50
    timestep: float = 0.05  # s
    action_low: Array = field(default_factory=lambda: np.array([-1.0]))
    action_high: Array = field(default_factory=lambda: np.array([1.0]))
    observation_names: tuple[str, ...] = ("joint cos", "joint sin", "goal cos", "goal sin")

    def initial_states(self, count: int, rng: Generator) -> Array:
        return np.stack([np.zeros(count), rng.uniform(-np.pi, np.pi, count)], axis=1)

    def step(self, states: Array, actions: Array) -> Array:
        speed = np.clip(2.0 * np.clip(actions, self.action_low, self.action_high), self.slowest, self.fastest)
        return states + np.concatenate([speed * self.timestep, np.zeros_like(speed)], axis=1)

    def observe(self, states: Array) -> Array:
        joint, goal = states.T
        return np.stack([np.cos(joint), np.sin(joint), np.cos(goal), np.sin(goal)], axis=1)

    def restore(self, observations: Array, like: Array | None = None) -> Array:
        return np.stack([joint_angle(observations), np.arctan2(observations[:, 3], observations[:, 2])], axis=1)

    def reward(self, states: Array, actions: Array, next_states: Array) -> Array:
        reached = self.observe(next_states)
        return -np.linalg.norm(reached[:, :2] - reached[:, 2:], axis=1)

    def terminated(self, states: Array) -> Booleans:
        return np.zeros(len(states), dtype=bool)


CLOCKWISE = Turntable(slowest=-2.0, fastest=0.0)
COUNTER_CLOCKWISE = Turntable(slowest=0.0, fastest=2.0)


def joint_angle(observations: Array) -> Array:
    return np.arctan2(observations[:, 1], observations[:, 0])


@dataclass(frozen=True)
class ExactInverse:
    """The action that turns the joint as far as the next observation shows."""

    robot: Turntable

    def __call__(self, states: Array, next_observations: Array, *, guess: InverseResult | None = None) -> InverseResult:
        turned = joint_angle(next_observations) - joint_angle(self.robot.observe(states))
        turned = (turned + np.pi) % (2 * np.pi) - np.pi
        wanted = turned / (2.0 * self.robot.timestep)

        return InverseResult.unchecked(wanted[:, None], self.robot)

    def arrays(self) -> Arrays:
        return {}


@dataclass(frozen=True)
class ExactModel:
    """Stands where the fit of a network would: it gives the exact inverse and learns nothing."""

    def fit(self, episodes: Episodes, robot: Turntable, *, rng: Generator, progress: Progress = no_progress) -> ExactInverse:
        assert len(episodes.trajectories)
        assert rng is not None
        progress(1.0)
        return ExactInverse(robot)

    def restored(self, arrays: Snapshot, robot: Turntable) -> ExactInverse:
        return ExactInverse(robot)


EXPLORATION = Exploration(episodes=20, steps=None)
FEASIBILITY = ReplayFeasibility(delta_s=0.01, columns=(0, 1))
OPTIMALITY = RectifiedOptimality(sigma=10.0, radius=0.5, columns=(2, 3), feasibility=FEASIBILITY, feasible_above=0.0)
OURS = product(FEASIBILITY, OPTIMALITY)


def turn_to_goal(observations: Array, rng: Generator) -> Array:
    """Turn towards the goal, whichever way round is shorter."""
    apart = np.arctan2(observations[:, 3], observations[:, 2]) - joint_angle(observations)
    return np.clip(((apart + np.pi) % (2 * np.pi) - np.pi) / 0.1, -1.0, 1.0)[:, None]


def wander(observations: Array, rng: Generator) -> Array:
    """Random actions."""
    return rng.uniform(-1.0, 1.0, (len(observations), 1))


def demonstrations(simulator: Simulator = CLOCKWISE, *, count: int = 8, seed: int = 0, source: str | None = None) -> Demonstrations:
    """Goal-seeking episodes of one turntable."""
    rng = np.random.default_rng(seed)
    made = run_episodes(simulator, lambda observations: turn_to_goal(observations, rng), count=count, rng=rng).trajectories
    return made if source is None else made.with_sources((source,) * count)


def mixed(*, own: int = 8, other: int = 4, seed: int = 0) -> Demonstrations:
    """Demonstrations of the clockwise turntable, then of the counter-clockwise one."""
    return join(
        [
            demonstrations(CLOCKWISE, count=own, seed=seed, source="optimal"),
            demonstrations(COUNTER_CLOCKWISE, count=other, seed=seed + 1, source="other-dynamics"),
        ]
    )


def assessed(
    given: Demonstrations | None = None,
    *,
    robot: Simulator = CLOCKWISE,
    model: InverseDynamicsModel | None = None,
    exploration: Exploration = EXPLORATION,
    seed: int = 0,
) -> Assessment:
    """An assessment on the clockwise turntable, by its exact inverse."""
    given = mixed() if given is None else given
    return assess(given, robot, model=model or ExactModel(), exploration=exploration, rng=np.random.default_rng(seed))


TINY_GAIL = Gail(
    rounds=6,
    checkpoint_every=2,
    discriminator_steps=3,
    discriminator_batch_size=32,
    discriminator_hidden_sizes=(8,),
    trpo=Trpo(batch_size=200, hidden_sizes=(8, 8), value_minibatches=4, fisher_fraction=1.0),
)
TINY_CLONING = Cloning(
    updates=60,
    checkpoint_every=20,
    hidden_sizes=(8, 8),
    activation="relu",
    batch_size=32,
    observation_noise=0.2,
    max_observation_noise=np.inf,
)


def task(learner: Learner = TINY_CLONING) -> Task:
    """A task that runs in a fraction of a second."""
    mixture = Mixture(optimal=0.3, suboptimal=0.5, other_dynamics=0.2)
    return Task(
        "turntable/clockwise",
        Demonstrators(CLOCKWISE, COUNTER_CLOCKWISE, turn_to_goal, wander, turn_to_goal, mixture),
        feasibility=FEASIBILITY,
        optimality=OPTIMALITY,
        replay_feasibility=FEASIBILITY,
        paper_exploration=EXPLORATION,
        learner="cloning",
        learners={"cloning": learner, "gail": TINY_GAIL},
        model=ExactModel(),
        exploration=EXPLORATION,
    )


@dataclass(frozen=True)
class Brittle(Turntable):
    """A turntable whose simulation breaks down once the joint has passed a limit."""

    limit: float = -0.5  # rad

    def step(self, states: Array, actions: Array) -> Array:
        moved = super().step(states, actions)
        moved[moved[:, 0] < self.limit] = np.nan
        return moved


BRITTLE = Brittle(slowest=-2.0, fastest=0.0)
