"""Any robot as a batched simulator: a Gymnasium MuJoCo environment by its id, or an MJCF or URDF file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np

from imitable.arrays import Array, Booleans, Generator, Integers
from imitable.errors import ImitableError, unknown_name
from imitable.simulators.continuity import continuous, periodic_columns
from imitable.simulators.gymnasium_rewards import Formula, Rows, formula
from imitable.simulators.model_files import home_position, read_model
from imitable.simulators.observation_columns import CONTACT, Column, Inverse, Probes, column_names, invert, match, probe
from imitable.simulators.physics import Entry, Physics, action_limits, planar_root, prepared, quiet, refuse_hidden_state

StateMap = Callable[[Array], tuple[Array, Array]]
"""(N, observation) observations to (N, nq) qpos and (N, nv) qvel."""
CONTROL_TIMESTEP = 0.02  # s, of a plain model unless its frame skip is given
HORIZON = 1000
START_NOISE = 0.005  # of qpos and qvel around the start of a plain model, as in Gymnasium's Hopper
AGREES = 1e-8
BEYOND_LIMIT = 0.5  # rad, that a joint may be pressed beyond its soft limit


class UnknownEnvironmentError(ImitableError):
    """No Gymnasium environment has this id."""


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
        if self.inverse is not None and len(self.inverse.angles[0]):
            at, sines, cosines = self.inverse.angles
            angles, (low, high) = np.arctan2(observations[:, sines], observations[:, cosines]), self._angle_ranges(at)
            known &= ~((angles - 2 * np.pi > low - BEYOND_LIMIT) | (angles + 2 * np.pi < high + BEYOND_LIMIT)).any(axis=1)
        return np.asarray(known)

    def continuous(self, observations: Array, starts: Integers) -> Array:
        """(row, observation) of trajectories that begin at `starts`, without jumps between a quaternion and its negative or by a turn."""
        return continuous(observations, starts, periodic_columns(self.physics.model, self.columns))

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

    def _angle_ranges(self, qpos: Integers) -> tuple[Array, Array]:
        """(angle,) lower and upper limits of the hinges at these entries of qpos; without limits all turns are alike."""
        model = self.physics.model
        joints = np.searchsorted(model.jnt_qposadr, qpos)
        limited = model.jnt_limited[joints].astype(bool)
        return np.where(limited, model.jnt_range[joints, 0], np.inf), np.where(limited, model.jnt_range[joints, 1], -np.inf)

    def _normalize(self, states: Array) -> None:
        for at in self._quaternions:
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

    @cached_property
    def _quaternions(self) -> tuple[slice, ...]:
        return self.physics.quaternions()


def gymnasium_robot(name: str, *, state_map: StateMap | None = None, leave_out: Sequence[int] = (), **settings: Any) -> MujocoRobot:
    """The robot of a registered Gymnasium MuJoCo environment, its observation, reward, termination, frame skip and starts taken over.

    `settings` go to `gymnasium.make`; `leave_out` are columns of its observation to do without.
    """
    env = _made(name, settings)
    base = env.unwrapped
    probes = probe(env)
    if not np.array_equal(probes.fields["ctrl"], probes.actions):
        raise ImitableError(f"environment {name!r} does not pass its actions on to MuJoCo's ctrl as they are; write a Simulator for it")
    refuse_hidden_state(name, base.model)
    columns, shown, notes = _columns(name, probes, leave_out)
    task, doubts = _proven(env, probes)
    notes += doubts
    inverse = None if state_map is not None else invert(base.model, columns)
    if inverse is not None and inverse.hidden:
        notes += (f"the observation does not show {', '.join(inverse.hidden)}: restored as 0",)
    kept = [column.entry for column in columns if column.entry.field not in ("qpos", "qvel", "act")]
    kept += [] if task is None else task.traced
    low, high = action_limits(base.model, env.action_space)
    return MujocoRobot(
        name,
        Physics(prepared(base.model), int(base.frame_skip), tuple(dict.fromkeys(kept))),
        columns,
        inverse,
        int((env.spec and env.spec.max_episode_steps) or HORIZON),
        low,
        high,
        shown,
        task,
        state_map,
        env,
        notes,
    )


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


def _made(name: str, settings: dict[str, Any]) -> Any:
    try:
        with quiet():
            env = gymnasium.make(name, disable_env_checker=True, **settings)
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        if isinstance(error, gymnasium.error.UnregisteredEnv) or "Malformed environment ID" in str(error):
            raise UnknownEnvironmentError(str(unknown_name("environment", name, environment_names()))) from error
        raise ImitableError(f"environment {name!r} cannot be made: {error}") from error
    base: Any = env.unwrapped
    wanted = ("model", "data", "frame_skip", "set_state")
    if not all(hasattr(base, each) for each in wanted) or not isinstance(base.model, mujoco.MjModel):
        raise ImitableError(
            f"environment {name!r} is no MuJoCo environment (no {', '.join(wanted)}); give its MJCF file, or write a Simulator for it"
        )
    return env


def environment_names() -> list[str]:
    """The registered environments that may be MuJoCo's, of each the newest version."""
    newest: dict[str, Any] = {}
    for spec in gymnasium.registry.values():
        entry = spec.entry_point if isinstance(spec.entry_point, str) else ""  # a function stands for what was removed
        others = entry.startswith(("gymnasium.envs.", "imitable.")) and not entry.startswith("gymnasium.envs.mujoco")
        kind = f"{spec.namespace}/{spec.name}"
        if entry and not others and (spec.version or 0) >= (newest[kind].version or 0 if kind in newest else 0):
            newest[kind] = spec
    return sorted(spec.id for spec in newest.values())


def _columns(name: str, probes: Probes, leave_out: Sequence[int]) -> tuple[tuple[Column, ...], Integers, tuple[str, ...]]:
    """What is shown, where in the environment's observation, and what was left out of it."""
    found = match(probes)
    unknown = [at for at, column in enumerate(found) if column is None and at not in leave_out]
    if unknown:
        raise ImitableError(
            f"columns {unknown} of the observation of {name!r} are no entry of mjData that batched stepping has; "
            f"pass leave_out={unknown} to do without them, and state_map if the others do not determine the state"
        )
    kept = [(at, column) for at, column in enumerate(found) if column is not None and at not in leave_out]
    shown = [(at, column) for at, column in kept if column.entry.field not in CONTACT]
    contact = [(at, column.entry.field) for at, column in kept if column.entry.field in CONTACT]
    notes: tuple[str, ...] = ()
    if contact:
        fields = ", ".join(sorted({name for _, name in contact}))
        where = f"columns {contact[0][0]} to {contact[-1][0]} ({fields})"
        notes = (f"{where} are left out: contact forces are no function of the state; use observations[:, robot.environment_columns]",)
    return tuple(column for _, column in shown), np.array([at for at, _ in shown]), notes


def _proven(env: Any, probes: Probes) -> tuple[Formula | None, tuple[str, ...]]:
    """The formula for reward and termination, if every probe agrees with it."""
    found = formula(env)
    if found is None:
        return None, ("reward and termination are not taken over: they are known for Gymnasium's own MuJoCo environments only",)
    before, after = (
        Rows(
            fields["qpos"],
            fields["qvel"],
            np.array([entry.read(fields[entry.field]) for entry in found.traced]).T.reshape(len(probes.actions), -1)
            if found.traced
            else np.zeros((len(probes.actions), 0)),
        )
        for fields in (probes.fields_before, probes.fields)
    )
    rewards = found.reward(before, probes.actions, after)
    wrong = np.abs(rewards - probes.rewards) > AGREES * (1 + np.abs(probes.rewards))
    if wrong.any() or (found.terminated(after) != probes.terminated).any():
        return None, (
            f"reward and termination are not taken over: {wrong.sum()} of {len(wrong)} rewards differ from what is known of the class",
        )
    return found, ("the reward leaves out the cost of contacts, which no state determines",) if probes.contact_cost else ()
