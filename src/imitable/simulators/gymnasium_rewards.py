"""Reward and termination of Gymnasium's MuJoCo environments for many robots at once; no formula is used that the environment refutes."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from imitable.arrays import Array, Booleans
from imitable.simulators.physics import Entry


@dataclass(frozen=True)
class Rows:
    """What rewards are made of."""

    qpos: Array
    """(N, nq)."""
    qvel: Array
    """(N, nv)."""
    traced: Array
    """(N, traced) the entries of mjData that the formula asks for."""


class Formula(Protocol):
    """The reward of a step, and where an episode ends."""

    @property
    def traced(self) -> tuple[Entry, ...]: ...

    def reward(self, before: Rows, actions: Array, after: Rows) -> Array: ...

    def terminated(self, rows: Rows) -> Booleans: ...


@dataclass(frozen=True)
class Locomotion:
    """Forward velocity, and a bonus while healthy: Hopper, Walker2d, HalfCheetah, Swimmer, Ant, Humanoid."""

    forward_weight: float
    dt: float  # s per control step
    action_cost: float
    traced: tuple[Entry, ...] = ()  # whose velocity; none: qpos[0]
    healthy_reward: float = 0.0
    terminate_when_unhealthy: bool = False
    z_index: int = 1
    z_range: tuple[float, float] = (-np.inf, np.inf)
    angle_range: tuple[float, float] = (-np.inf, np.inf)
    state_range: tuple[float, float] = (-np.inf, np.inf)

    def reward(self, before: Rows, actions: Array, after: Rows) -> Array:
        start, end = (rows.traced[:, 0] if self.traced else rows.qpos[:, 0] for rows in (before, after))
        bonus = self.healthy_reward * self.healthy(after)
        return np.asarray(self.forward_weight * ((end - start) / self.dt) + bonus - self.action_cost * np.square(actions).sum(axis=1))

    def healthy(self, rows: Rows) -> Booleans:
        z, healthy = rows.qpos[:, self.z_index], np.ones(len(rows.qpos), dtype=bool)
        if np.isfinite(self.z_range).any():
            healthy &= (self.z_range[0] < z) & (z < self.z_range[1])
        if np.isfinite(self.angle_range).any():
            healthy &= (self.angle_range[0] < rows.qpos[:, 2]) & (rows.qpos[:, 2] < self.angle_range[1])
        if np.isfinite(self.state_range).any():
            state = np.concatenate([rows.qpos[:, 2:], rows.qvel], axis=1)
            healthy &= ((self.state_range[0] < state) & (state < self.state_range[1])).all(axis=1)
        return healthy

    def terminated(self, rows: Rows) -> Booleans:
        return ~self.healthy(rows) if self.terminate_when_unhealthy else np.zeros(len(rows.qpos), dtype=bool)


@dataclass(frozen=True)
class Distances:
    """Minus weighted distances between bodies: Reacher and Pusher."""

    weights: tuple[float, ...]
    action_cost: float
    traced: tuple[Entry, ...]  # three differences (x, y, z) for each weight

    def reward(self, before: Rows, actions: Array, after: Rows) -> Array:
        gaps = np.linalg.norm(after.traced.reshape(len(after.traced), len(self.weights), 3), axis=2)
        return np.asarray(-gaps @ np.array(self.weights) - self.action_cost * np.square(actions).sum(axis=1))

    def terminated(self, rows: Rows) -> Booleans:
        return np.zeros(len(rows.qpos), dtype=bool)


@dataclass(frozen=True)
class InvertedPendulum:
    """1 while the pole leans less than 0.2 rad."""

    traced: tuple[Entry, ...] = ()

    def reward(self, before: Rows, actions: Array, after: Rows) -> Array:
        return np.asarray(~self.terminated(after), dtype=np.float64)

    def terminated(self, rows: Rows) -> Booleans:
        return np.asarray(np.abs(rows.qpos[:, 1]) > 0.2)


@dataclass(frozen=True)
class InvertedDoublePendulum:
    """A bonus while the tip is above 1 m, less its distance from the top and the joints' speeds."""

    healthy_reward: float
    traced: tuple[Entry, ...] = (Entry("site_xpos", 0), Entry("site_xpos", 2))

    def reward(self, before: Rows, actions: Array, after: Rows) -> Array:
        x, z = after.traced.T
        speeds = 1e-3 * after.qvel[:, 1] ** 2 + 5e-3 * after.qvel[:, 2] ** 2
        return np.asarray(self.healthy_reward * ~self.terminated(after) - (0.01 * x**2 + (z - 2) ** 2) - speeds)

    def terminated(self, rows: Rows) -> Booleans:
        return np.asarray(rows.traced[:, 1] <= 1)


@dataclass(frozen=True)
class StandUp:
    """How high the root is, per physics step: HumanoidStandup."""

    timestep: float  # s
    action_cost: float
    traced: tuple[Entry, ...] = ()

    def reward(self, before: Rows, actions: Array, after: Rows) -> Array:
        return np.asarray(after.qpos[:, 2] / self.timestep + 1 - self.action_cost * np.square(actions).sum(axis=1))

    def terminated(self, rows: Rows) -> Booleans:
        return np.zeros(len(rows.qpos), dtype=bool)


def formula(env: Any) -> Formula | None:
    """The formula of this environment by its class and weights, still to be proven; None for classes of other packages."""
    base = env.unwrapped
    kinds = {each.__name__ for each in type(base).__mro__}
    try:
        if kinds & {"HopperEnv", "Walker2dEnv", "HalfCheetahEnv", "SwimmerEnv", "AntEnv", "HumanoidEnv"}:
            return _locomotion(base, kinds)
        if "ReacherEnv" in kinds:
            traced = _differences(base.model, ("fingertip", "target"))
            return Distances((base._reward_dist_weight,), base._reward_control_weight, traced)
        if "PusherEnv" in kinds:
            traced = _differences(base.model, ("object", "tips_arm"), ("object", "goal"))
            weights = (base._reward_near_weight, base._reward_dist_weight)
            return Distances(weights, base._reward_control_weight, traced)
        if "InvertedPendulumEnv" in kinds:
            return InvertedPendulum()
        if "InvertedDoublePendulumEnv" in kinds:
            return InvertedDoublePendulum(base._healthy_reward)
        if "HumanoidStandupEnv" in kinds:
            return StandUp(float(base.model.opt.timestep), base._ctrl_cost_weight)
    except (AttributeError, KeyError):  # another version of the class
        return None
    return None


def _locomotion(base: Any, kinds: set[str]) -> Locomotion:
    traced: tuple[Entry, ...] = ()
    if "AntEnv" in kinds:
        main = base._main_body
        traced = (Entry("xpos", 3 * (main if isinstance(main, int) else base.model.body(main).id)),)
    if "HumanoidEnv" in kinds:
        traced = (Entry("subtree_com", 0),)
    unlimited = (-np.inf, np.inf)
    z_range = getattr(base, "_healthy_z_range", unlimited)
    if "AntEnv" in kinds:  # the only one whose limits are themselves healthy
        z_range = (float(np.nextafter(z_range[0], -np.inf)), float(np.nextafter(z_range[1], np.inf)))
    return Locomotion(
        base._forward_reward_weight,
        base.dt,
        base._ctrl_cost_weight,
        traced,
        healthy_reward=getattr(base, "_healthy_reward", 0.0),
        terminate_when_unhealthy=getattr(base, "_terminate_when_unhealthy", False),
        z_index=2 if kinds & {"AntEnv", "HumanoidEnv"} else 1,
        z_range=z_range,
        angle_range=getattr(base, "_healthy_angle_range", unlimited),
        state_range=getattr(base, "_healthy_state_range", unlimited),
    )


def _differences(model: Any, *between: tuple[str, str]) -> tuple[Entry, ...]:
    pairs = [(model.body(one).id, model.body(other).id) for one, other in between]
    return tuple(Entry("xpos", 3 * one + axis, 3 * other + axis) for one, other in pairs for axis in range(3))
