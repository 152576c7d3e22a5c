"""A MuJoCo model as a batched simulator, whatever its observation shows; `model_robot` makes one of an MJCF or URDF file."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np

from imitable.arrays import Array, Booleans, Generator, Integers
from imitable.errors import ImitableError
from imitable.simulators.continuity import ambiguous, continuous, periodic_columns
from imitable.simulators.force_limits import ForceLimits
from imitable.simulators.gymnasium_rewards import Formula, Rows
from imitable.simulators.model_files import home_position, read_model
from imitable.simulators.observation_columns import Column, Inverse, column_names, invert
from imitable.simulators.physics import Entry, Physics, action_limits, planar_root, prepared, refuse_hidden_state

StateMap = Callable[[Array], tuple[Array, Array]]
"""(N, observation) observations to (N, nq) qpos and (N, nv) qvel."""
CONTROL_TIMESTEP = 0.02  # s, of a plain model unless its frame skip is given
HORIZON = 1000
START_NOISE = 0.005  # of qpos and qvel around the start of a plain model, as in Gymnasium's Hopper


@dataclass(frozen=True, eq=False)
class MujocoRobot:
    """A batched `Simulator` in MuJoCo's units; build it with `gymnasium_robot` or `model_robot`.

    State: qpos, qvel, qacc_warmstart, act, then every other entry of mjData that observation or reward need, as the environment
    has them after `mj_step`. Observation: the environment's own columns, but for those that `notes` name.
    """

    name: str
    physics: Physics
    columns: tuple[Column, ...]
    """(observation,) what each column shows."""
    inverse: Inverse | None
    """Where qpos and qvel are read in an observation; None where `state_map` does it."""
    horizon: int
    action_low: Array
    action_high: Array
    environment_columns: Integers
    """(observation,) the index of each column in the environment's own observation."""
    formula: Formula | None = None
    """Reward and termination; None: the robot has no reward and never terminates."""
    state_map: StateMap | None = None
    environment: Any = field(default=None, repr=False)
    """The single environment that starts are drawn from; None: near the model's keyframe `home`, its first one, or qpos0."""
    notes: tuple[str, ...] = ()
    """Where this robot differs from its environment, and what its observations do not show."""

    @cached_property
    def observation_names(self) -> tuple[str, ...]:
        return column_names(self.physics.model, self.columns)

    @cached_property
    def action_names(self) -> tuple[str, ...]:
        """(action,) of the actuators, or of the joint that a nameless one moves."""
        model = self.physics.model
        joints = [model.joint(int(at)).name if 0 <= at < model.njnt else "" for at in model.actuator_trnid[:, 0]]
        return tuple(model.actuator(at).name or joints[at] or f"action {at}" for at in range(model.nu))

    @property
    def has_reward(self) -> bool:
        return self.formula is not None

    def joint_ranges(self) -> list[tuple[int, float, float]]:
        """The columns that show the position of a slide or hinge joint with limits, and the limits."""
        model = self.physics.model
        shown = {each.entry.index: at for at, each in enumerate(self.columns) if each.entry.field == "qpos" and not each.function}
        places = [(int(model.jnt_qposadr[at]), model.jnt_range[at]) for at in np.flatnonzero(model.jnt_limited & (model.jnt_type >= 2))]
        return [(shown[at], float(ends[0]), float(ends[1])) for at, ends in places if at in shown]

    def initial_states(self, count: int, rng: Generator) -> Array:
        """(N, state) drawn as the environment draws them, or near the model's own start."""
        model, states = self.physics.model, np.zeros((count, self.physics.width))
        nq, nv = model.nq, model.nv
        if self.environment is None:
            states[:, :nq] = home_position(model) + rng.uniform(-START_NOISE, START_NOISE, (count, nq))
            states[:, nq : nq + nv] = rng.uniform(-START_NOISE, START_NOISE, (count, nv))
            self._normalize(states)
        else:
            data = self.environment.unwrapped.data
            for row, seed in zip(states, rng.integers(2**31, size=count).tolist(), strict=True):
                self.environment.reset(seed=seed)
                row[:nq], row[nq : nq + nv], row[nq + 2 * nv : nq + 2 * nv + model.na] = data.qpos, data.qvel, data.act
        return self.physics.forward(states)

    def step(self, states: Array, actions: Array) -> Array:
        """(N, state) one control step later; all NaN where the simulation has diverged."""
        return self.physics.step(states, np.clip(actions, self.action_low, self.action_high))

    def observe(self, states: Array) -> Array:
        """(N, observation)."""
        observations = states[:, self._places]
        for function, at in self._functions:
            observations[:, at] = function(observations[:, at])
        at, low, high = self._clips
        if len(at):
            observations[:, at] = np.clip(observations[:, at], low, high)
        return np.asarray(observations)

    def restore(self, observations: Array, like: Array | None = None) -> Array:
        """(N, state) with these observations; the root's x and y and what else they do not show is that of `like`, or 0."""
        nq, nv = self.physics.model.nq, self.physics.model.nv
        states = np.zeros((len(observations), self.physics.width)) if like is None else like.copy()
        if like is None:
            states[:, :nq] = self.physics.model.qpos0
            states[:, list(self._roots)] = 0.0
        if self.state_map is not None:
            states[:, :nq], states[:, nq : nq + nv] = self.state_map(observations)
        elif self.inverse is not None:
            at, shown = self.inverse.direct
            states[:, at] = observations[:, shown]
            at, sines, cosines = self.inverse.angles
            states[:, at] = np.arctan2(observations[:, sines], observations[:, cosines])
            at, shown, start, slope = self.inverse.lines
            states[:, at] = start + slope * observations[:, shown]
        if self._forwarded:
            states[:, self.physics.start_of_kept :] = self.physics.forward(states)[:, self.physics.start_of_kept :]
        shown = self._kept_columns
        states[:, self._places[shown]] = observations[:, shown]
        return states

    def restorable(self, observations: Array) -> Booleans:
        """(N,) which observations determine the state: no position or velocity is at the end of the range it is clipped to, and no sine and
        cosine are those of two angles that the joint can have."""
        at, low, high = self._clips
        stateful = np.array([self.columns[each].entry.field in ("qpos", "qvel") for each in at], dtype=bool)
        seen = observations[:, at[stateful]]
        known = ((seen > low[stateful]) & (seen < high[stateful])).all(axis=1)
        return np.asarray(known if self.inverse is None else known & ~ambiguous(observations, self.inverse.angles, self.physics.model))

    def continuous(self, observations: Array, starts: Integers) -> Array:
        """(row, observation) of trajectories that begin at `starts`, without jumps between a quaternion and its negative or by a turn."""
        return continuous(observations, starts, periodic_columns(self.physics.model, self.columns))

    def effective_limits(self, states: Array, next_observations: Array) -> tuple[Array, Array]:
        """(N, action) each: the lowest and the highest action that changes the forces in these states or there."""
        low, high = (np.tile(limit, (len(states), 1)) for limit in (self.action_low, self.action_high))
        forces, nq, nv = self._force_limits, self.physics.model.nq, self.physics.model.nv
        if len(forces.actuators):
            ends = [forces.windows(each[:, :nq], each[:, nq : nq + nv]) for each in (states, self.restore(next_observations, like=states))]
            lowest, highest = np.minimum(ends[0][0], ends[1][0]), np.maximum(ends[0][1], ends[1][1])
            at = forces.actuators
            lowest, highest = np.maximum(lowest, low[:, at]), np.minimum(highest, high[:, at])
            within = lowest < highest  # or the whole range is beyond where the force ends
            low[:, at], high[:, at] = np.where(within, lowest, low[:, at]), np.where(within, highest, high[:, at])
        return low, high

    def reward(self, states: Array, actions: Array, next_states: Array) -> Array:
        """(N,) the environment's, but for what `notes` name."""
        if self.formula is None:
            raise ImitableError(f"robot {self.name!r} has no reward; its demonstrations need returns of their own")
        return self.formula.reward(self._rows(states), actions, self._rows(next_states))

    def terminated(self, states: Array) -> Booleans:
        """(N,) whether the environment ends the episode here."""
        return np.zeros(len(states), dtype=bool) if self.formula is None else self.formula.terminated(self._rows(states))

    def cache_key(self) -> tuple[object, ...]:
        """What its behavior depends on."""
        settings = (self.name, self.horizon, self.action_low, self.action_high, self.physics.frame_skip, self.observation_names)
        spec = getattr(self.environment, "spec", None)
        made = (gymnasium.__version__, repr(spec and sorted(spec.kwargs.items())), repr(self.columns))
        return (*settings, *made, self.physics.digest(), self.formula, self.state_map)

    def altered(self, change: Callable[[mujoco.MjModel], None]) -> "MujocoRobot":
        """The same robot with another body: `change` edits a copy of the model in place. The action limits stay."""
        return replace(self, physics=self.physics.altered(change))

    def _rows(self, states: Array) -> Rows:
        nq, nv = self.physics.model.nq, self.physics.model.nv
        return Rows(states[:, :nq], states[:, nq : nq + nv], states[:, self._traced])

    def _normalize(self, states: Array) -> None:
        for at in self.physics.quaternions():
            length = np.linalg.norm(states[:, at], axis=1, keepdims=True)
            np.divide(states[:, at], length, out=states[:, at], where=length > 0)

    def _place(self, entry: Entry) -> int:
        if entry in self.physics.kept:
            return self.physics.start_of_kept + self.physics.kept.index(entry)
        return int(dict(self.physics.stateful)[entry.field].start + entry.index)

    @cached_property
    def _places(self) -> Integers:
        return np.array([self._place(column.entry) for column in self.columns], dtype=np.int64)

    @cached_property
    def _force_limits(self) -> ForceLimits:
        return ForceLimits.of(self.physics.model)

    @cached_property
    def _traced(self) -> list[int]:
        return [] if self.formula is None else [self._place(entry) for entry in self.formula.traced]

    @cached_property
    def _kept_columns(self) -> Integers:
        """Observation columns that the state holds as they are, beside qpos and qvel."""
        return np.array([at for at, column in enumerate(self.columns) if column.entry.field not in ("qpos", "qvel")], dtype=np.int64)

    @cached_property
    def _forwarded(self) -> bool:
        """Whether a state has entries that an observation does not give."""
        return bool(set(range(self.physics.start_of_kept, self.physics.width)) - set(self._places.tolist()))

    @cached_property
    def _functions(self) -> tuple[tuple[Any, Integers], ...]:
        columns = {name: [at for at, each in enumerate(self.columns) if each.function == name] for name in ("sin", "cos")}
        return tuple((getattr(np, name), np.array(at)) for name, at in columns.items() if at)

    @cached_property
    def _clips(self) -> tuple[Integers, Array, Array]:
        at = [at for at, each in enumerate(self.columns) if each.clipped]
        low, high = (np.array([getattr(self.columns[each], side) for each in at]) for side in ("low", "high"))
        return np.array(at, dtype=np.int64), low, high

    @cached_property
    def _roots(self) -> tuple[int, ...]:
        return tuple(planar_root(self.physics.model))


def model_robot(
    path: str | Path, *, frame_skip: int | None = None, horizon: int = HORIZON, floor: bool | None = None, floating_base: bool = False
) -> MujocoRobot:
    """The robot of an MJCF or URDF file: its observation is qpos and qvel, it has no reward and never terminates.

    Without a `frame_skip` a control step is as near to 0.02 s as whole physics steps come. `floor` puts a plane at z = 0 under it, by
    default under a floating robot that has none; `floating_base` frees the first body of a file that fixes it to the world.
    """
    model, notes = read_model(Path(path), floor=floor, floating_base=floating_base)
    refuse_hidden_state(str(path), model)
    if frame_skip is not None and frame_skip < 1:
        raise ImitableError(f"frame_skip is {frame_skip}; a control step takes 1 physics step or more")
    frame_skip = frame_skip or max(1, round(CONTROL_TIMESTEP / model.opt.timestep))
    columns = tuple(Column(Entry(name, at)) for name, size in (("qpos", model.nq), ("qvel", model.nv)) for at in range(size))
    low, high = action_limits(model, None)
    return MujocoRobot(
        Path(path).stem,
        Physics(prepared(model), frame_skip),
        columns,
        invert(model, columns),
        horizon,
        low,
        high,
        np.arange(len(columns)),
        notes=("a plain model: no reward, no termination", *notes),
    )
