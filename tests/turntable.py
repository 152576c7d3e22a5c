"""A one-joint arm that turns in one direction only, with its exact inverse dynamics: the smallest pair of dynamics."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from imitable.arrays import Array, Booleans, Generator, Integers
from imitable.demonstrations import Demonstrations, Mixture, join
from imitable.experts import Cast
from imitable.inverse_dynamics import InverseDynamicsFit
from imitable.learners import Cloning, Gail, Learner
from imitable.problem import Problem, Settings, pose
from imitable.reinforcement import Episodes, Trpo, demonstrate
from imitable.simulators import Simulator
from imitable.tasks import Task


@dataclass(frozen=True)
class Turntable:
    """State (2): joint and goal [rad]. Observation (4): cosine and sine of each."""

    slowest: float  # rad/s, lowest joint speed the motor allows
    fastest: float  # rad/s
    horizon: int = 50
    timestep: float = 0.05  # s
    action_low: Array = field(default_factory=lambda: np.array([-1.0]))
    action_high: Array = field(default_factory=lambda: np.array([1.0]))
    action_cost: float = 0.0
    observed: tuple[str, ...] = ("joint cos", "joint sin", "goal cos", "goal sin")
    matched: Integers = field(default_factory=lambda: np.array([0, 1]))
    start_key: Integers | None = field(default_factory=lambda: np.array([2, 3]))

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

    def reward(self, states: Array, next_states: Array) -> Array:
        reached = self.observe(next_states)
        return -np.linalg.norm(reached[:, :2] - reached[:, 2:], axis=1)

    def finished(self, states: Array) -> Booleans:
        return np.zeros(len(states), dtype=bool)


CLOCKWISE = Turntable(slowest=-2.0, fastest=0.0)
COUNTER_CLOCKWISE = Turntable(slowest=0.0, fastest=2.0)


def joint_angle(observations: Array) -> Array:
    return np.arctan2(observations[:, 1], observations[:, 0])


@dataclass(frozen=True)
class ExactInverse:
    """The action that turns the joint as far as the next observation shows."""

    target: Turntable

    def __call__(self, observations: Array, next_observations: Array) -> Array:
        turned = joint_angle(next_observations) - joint_angle(observations)
        turned = (turned + np.pi) % (2 * np.pi) - np.pi
        return np.clip(turned / (2.0 * self.target.timestep), -1.0, 1.0)[:, None]


@dataclass(frozen=True)
class ExactFit(InverseDynamicsFit):
    """Stands where the fit of a network would: it returns the exact inverse and learns nothing."""

    def __call__(  # type: ignore[override]
        self, exploration: Episodes, target: Turntable, *, rng: Generator, watch: Callable[[float], None] = lambda share: None
    ) -> ExactInverse:
        assert len(exploration.trajectories)
        assert rng is not None
        watch(1.0)
        return ExactInverse(target)


SETTINGS = Settings(noise=0.01, sigma=10.0, radius=0.5, exploration=20, fit=ExactFit())


def chase(observations: Array, rng: Generator) -> Array:
    """Turn towards the goal, whichever way round is shorter."""
    apart = np.arctan2(observations[:, 3], observations[:, 2]) - joint_angle(observations)
    return np.clip(((apart + np.pi) % (2 * np.pi) - np.pi) / 0.1, -1.0, 1.0)[:, None]


def wander(observations: Array, rng: Generator) -> Array:
    """Random actions."""
    return rng.uniform(-1.0, 1.0, (len(observations), 1))


def demonstrations(simulator: Simulator = CLOCKWISE, *, count: int = 8, seed: int = 0, source: str | None = None) -> Demonstrations:
    """Goal-seeking episodes of one turntable."""
    rng = np.random.default_rng(seed)
    made = demonstrate(simulator, lambda observations: chase(observations, rng), count=count, rng=rng).trajectories
    return made if source is None else replace(made, sources=(source,) * count)


def mixed(*, own: int = 8, other: int = 4, seed: int = 0) -> Demonstrations:
    """Demonstrations of the clockwise turntable, then of the counter-clockwise one."""
    return join(
        [
            demonstrations(CLOCKWISE, count=own, seed=seed, source="optimal"),
            demonstrations(COUNTER_CLOCKWISE, count=other, seed=seed + 1, source="other-dynamics"),
        ]
    )


def posed(given: Demonstrations | None = None, *, settings: Settings = SETTINGS, seed: int = 0) -> Problem:
    """A problem on the clockwise turntable."""
    return pose(mixed() if given is None else given, CLOCKWISE, settings=settings, rng=np.random.default_rng(seed))


TINY_GAIL = Gail(
    rounds=6, checkpoint_every=2, discriminator_hidden=(8,), trpo=Trpo(batch=200, hidden=(8, 8), value_minibatches=4, fisher_share=1.0)
)
TINY_CLONING = Cloning(updates=60, checkpoint_every=20, hidden=(8, 8), batch=32)


def task(learner: Learner = TINY_CLONING, *, settings: Settings = SETTINGS) -> Task:
    """A task that runs in a fraction of a second."""
    mixture = Mixture(optimal=0.3, suboptimal=0.5, other_dynamics=0.2)
    return Task("turntable/clockwise", Cast(CLOCKWISE, COUNTER_CLOCKWISE, chase, wander, chase, mixture), settings, learner)


@dataclass(frozen=True)
class Brittle(Turntable):
    """A turntable whose simulation breaks down once the joint has passed a limit."""

    limit: float = -0.5  # rad

    def step(self, states: Array, actions: Array) -> Array:
        moved = super().step(states, actions)
        moved[moved[:, 0] < self.limit] = np.nan
        return moved


BRITTLE = Brittle(slowest=-2.0, fastest=0.0)
