"""Many copies of one MuJoCo model stepped at once as a pure function, any entry of mjData kept beside qpos and qvel in the state row."""

import copy
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path

import mujoco
import numpy as np
from gymnasium.spaces import Box
from mujoco.batch import Batch

from imitable.arrays import Array, Integers
from imitable.errors import ImitableError

THREADS = "IMITABLE_THREADS"
"""Environment variable: how many threads step MuJoCo; every core where it is unset."""
CORES = str(os.cpu_count() or 1)
TOO_LARGE = 1e10
"""Positions or velocities beyond this are a breakdown, as in MuJoCo itself."""
FEW = 16
"""Up to so many simulations get scratch space of their exact number."""
Scratch = tuple[Batch, dict[str, Array]]
_KEPT: dict[tuple[mujoco.MjModel, int, int, int, tuple[str, ...]], Scratch] = {}
MAX_KEPT, PER_THREAD = 1_000_000_000, 4_000_000
"""Bytes of simulations that are kept, and of each beside its model, for every thread."""
_SCRATCH = threading.Lock()  # all callers share the simulations that are kept

AXES = "xyz"
FREE = (*(f"{axis}" for axis in AXES), *(f"quaternion {axis}" for axis in "wxyz"))
FREE_VELOCITY = (*(f"velocity {axis}" for axis in AXES), *(f"angular velocity {axis}" for axis in AXES))


@dataclass(frozen=True)
class Entry:
    """One number of an mjData array: `index` counts in the flattened array; `minus`, if any, is subtracted from it."""

    field: str
    index: int
    minus: int | None = None

    def read(self, flat: Array) -> Array:
        """(N,) out of the field's (N, size) values."""
        return np.asarray(flat[:, self.index] if self.minus is None else flat[:, self.index] - flat[:, self.minus])


@dataclass(frozen=True, eq=False)
class Physics:
    """One model and its control rate. A state row is qpos, qvel, qacc_warmstart, act, then the entries `kept` of mjData; columns beyond
    these stay as they are.

    Joint limits and contacts are solved iteratively from the previous solution, so without the warm start in the state a step would
    depend on what was simulated before it. As Gymnasium sees them after `mj_step`, the kept entries are those of the last stage of the
    last physics step: no function of qpos and qvel, hence columns of the state.
    """

    model: mujoco.MjModel
    frame_skip: int  # physics steps per control step
    kept: tuple[Entry, ...] = ()

    @cached_property
    def stateful(self) -> tuple[tuple[str, slice], ...]:
        """The parts of mjData that a step depends on, and their columns."""
        sizes = {"qpos": self.model.nq, "qvel": self.model.nv, "qacc_warmstart": self.model.nv, "act": self.model.na}
        ends = np.cumsum(list(sizes.values()))
        return tuple((name, slice(end - size, end)) for (name, size), end in zip(sizes.items(), ends.tolist(), strict=True) if size)

    @property
    def start_of_kept(self) -> int:
        return int(self.model.nq + 2 * self.model.nv + self.model.na)

    @property
    def width(self) -> int:
        return self.start_of_kept + len(self.kept)

    @cached_property
    def gathered(self) -> tuple[tuple[str, Integers, Integers, Integers, Integers], ...]:
        """Kept entries by field: their state columns and indices; the columns that subtract another entry, and that entry."""
        fields: dict[str, list[tuple[int, Entry]]] = {}
        for column, entry in enumerate(self.kept, start=self.start_of_kept):
            fields.setdefault(entry.field, []).append((column, entry))
        return tuple(
            (
                field,
                np.array([column for column, _ in entries]),
                np.array([entry.index for _, entry in entries]),
                np.array([column for column, entry in entries if entry.minus is not None], dtype=np.int64),
                np.array([entry.minus for _, entry in entries if entry.minus is not None], dtype=np.int64),
            )
            for field, entries in fields.items()
        )

    def step(self, states: Array, controls: Array) -> Array:
        """(N, state) after one control step under (N, actuator) controls; all NaN where it diverged."""
        return self._run(states, controls, forward=False)

    def forward(self, states: Array) -> Array:
        """(N, state) with the kept entries as `mj_forward` finds them at these qpos, qvel, act and no controls."""
        return self._run(states, np.zeros((len(states), self.model.nu)), forward=True)

    def _run(self, states: Array, controls: Array, *, forward: bool) -> Array:
        count = len(states)
        moved = states.copy()
        if not count:
            return moved
        with _SCRATCH:
            batch, bound = _simulations(
                self.model,
                _capacity(count),
                _threads(),
                os.getpid(),
                (*(name for name, _ in self.stateful), "ctrl", *(name for name, *_ in self.gathered)),
            )
            ids = None if count == batch.nsim else np.arange(count)
            for name, columns in self.stateful:
                bound[name][:count] = states[:, columns]
            bound["ctrl"][:count] = controls
            with quiet():
                if forward:
                    batch.forward(ids)
                else:
                    batch.step(ids, nstep=self.frame_skip)
            for name, columns in self.stateful:
                moved[:, columns] = bound[name][:count]
            for name, places, indices, differing, subtracted in self.gathered:
                moved[:, places] = bound[name][:count, indices]
                if len(differing):
                    moved[:, differing] -= bound[name][:count, subtracted]
        with np.errstate(invalid="ignore"):
            broken = ~(np.abs(moved[:, : self.model.nq + self.model.nv]) < TOO_LARGE).all(axis=1)
        if broken.any():
            moved[broken] = np.nan
        return moved

    def altered(self, change: Callable[[mujoco.MjModel], None]) -> "Physics":
        """The same with a changed copy of the model; constants that follow from masses and lengths are computed anew."""
        model = copy.deepcopy(self.model)
        change(model)
        mujoco.mj_setConst(model, mujoco.MjData(model))
        return replace(self, model=model)

    def digest(self) -> str:
        """A hash of the compiled model."""
        buffer = np.empty(mujoco.mj_sizeModel(self.model), np.uint8)
        mujoco.mj_saveModel(self.model, None, buffer)
        return sha256(buffer.tobytes()).hexdigest()

    def quaternions(self) -> tuple[slice, ...]:
        """The columns of every quaternion in qpos."""
        starts = {mujoco.mjtJoint.mjJNT_FREE: 3, mujoco.mjtJoint.mjJNT_BALL: 0}
        kinds = ((mujoco.mjtJoint(kind), int(at)) for kind, at in zip(self.model.jnt_type, self.model.jnt_qposadr, strict=True))
        return tuple(slice(at + starts[kind], at + starts[kind] + 4) for kind, at in kinds if kind in starts)


def prepared(model: mujoco.MjModel) -> mujoco.MjModel:
    """A copy in which a simulation that breaks down shows it, instead of starting again at the origin."""
    model = copy.deepcopy(model)
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    return model


@cache
def load_model(
    path: Path, *, frame_skip: int, ranges: tuple[tuple[str, float, float], ...] = (), weight: float = 1.0, traced: str | None = None
) -> Physics:
    """The model in an MJCF file with the ranges [rad] of some joints replaced, and so many times as heavy; loaded once.

    The x of the body `traced` is kept in the state.
    """
    model = prepared(mujoco.MjModel.from_xml_path(str(path)))
    for joint, low, high in ranges:
        model.joint(joint).range[:] = low, high
    if weight != 1.0:
        model.body_mass *= weight
        model.body_inertia *= weight
        mujoco.mj_setConst(model, mujoco.MjData(model))  # what else depends on them, such as the stiffness of joint limits
    return Physics(model, frame_skip, () if traced is None else (Entry("xpos", 3 * model.body(traced).id),))


def refuse_hidden_state(name: str, model: mujoco.MjModel) -> None:
    """An ImitableError if a step depends on more than qpos, qvel, act and controls, as with mocap bodies, plugins or delays."""
    beyond = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS) - (1 + model.nq + model.nv + model.na)
    if beyond or model.nmocap:
        held = f"{model.nmocap} mocap bodies" if model.nmocap else f"{beyond} further numbers (plugins, delays, plasticity)"
        raise ImitableError(f"the state of {name!r} has {held}, which state rows do not hold; remove them, or write a Simulator for it")


@contextmanager
def quiet() -> Iterator[None]:
    """Without MuJoCo's warnings, which go to the terminal and to a file."""
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(_ignore)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


def joint_names(model: mujoco.MjModel) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(nq,) and (nv,) a name for every entry of qpos and of qvel."""
    positions: list[str] = []
    velocities: list[str] = []
    for joint in range(model.njnt):
        name, kind = model.joint(joint).name, mujoco.mjtJoint(model.jnt_type[joint])
        name = name or (kind == mujoco.mjtJoint.mjJNT_FREE and model.body(model.jnt_bodyid[joint]).name) or f"joint {joint}"
        if kind == mujoco.mjtJoint.mjJNT_FREE:
            positions += [f"{name} {part}" for part in FREE]
            velocities += [f"{name} {part}" for part in FREE_VELOCITY]
        elif kind == mujoco.mjtJoint.mjJNT_BALL:
            positions += [f"{name} {part}" for part in FREE[3:]]
            velocities += [f"{name} {part}" for part in FREE_VELOCITY[3:]]
        else:
            positions.append(name)
            velocities.append(f"{name} velocity")
    return tuple(positions), tuple(velocities)


def planar_root(model: mujoco.MjModel) -> set[int]:
    """Entries of qpos that say where the root of a tree is along x and y: nothing but a picture depends on them."""
    found: set[int] = set()
    for joint in range(model.njnt):
        body, kind, at = model.jnt_bodyid[joint], mujoco.mjtJoint(model.jnt_type[joint]), int(model.jnt_qposadr[joint])
        if model.body_parentid[body] != 0:
            continue
        if kind == mujoco.mjtJoint.mjJNT_FREE:
            found |= {at, at + 1}
        elif kind == mujoco.mjtJoint.mjJNT_SLIDE and not model.jnt_limited[joint] and abs(model.jnt_axis[joint][2]) < 1e-9:
            found.add(at)
    return found


def actuated_trees(model: mujoco.MjModel) -> set[int]:
    """Entries of qvel that belong to a kinematic tree with an actuator: the robot, not the things it handles."""
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    moment = np.zeros((model.nu, model.nv))
    if model.nu:
        mujoco.mju_sparse2dense(moment, data.actuator_moment, data.moment_rownnz, data.moment_rowadr, data.moment_colind)
    driven = {int(model.dof_treeid[dof]) for dof in np.flatnonzero(np.abs(moment).sum(axis=0))}
    return {dof for dof in range(model.nv) if int(model.dof_treeid[dof]) in driven}


def action_limits(model: mujoco.MjModel, space: Box | None) -> tuple[Array, Array]:
    """Lowest and highest action, by actuator: the environment's, or ctrlrange, as far as forcerange lets the force grow: beyond that, an
    actuator that does its utmost would not be known for one at its limit."""
    low, high = (side.astype(np.float64).copy() for side in model.actuator_ctrlrange.T)
    limited = model.actuator_ctrllimited.astype(bool)
    low[~limited], high[~limited] = -np.inf, np.inf
    for actuator in range(model.nu if space is None else 0):
        gain = float(model.actuator_gainprm[actuator, 0])
        simple = (
            model.actuator_gaintype[actuator] == mujoco.mjtGain.mjGAIN_FIXED
            and model.actuator_biastype[actuator] == mujoco.mjtBias.mjBIAS_NONE
            and (model.actuator_dyntype[actuator] == mujoco.mjtDyn.mjDYN_NONE or not limited[actuator])
        )
        if model.actuator_forcelimited[actuator] and simple and gain:
            weakest, strongest = sorted(model.actuator_forcerange[actuator] / gain)
            within = max(low[actuator], weakest), min(high[actuator], strongest)
            low[actuator], high[actuator] = within if within[0] < within[1] else (low[actuator], high[actuator])
        elif not limited[actuator]:
            name = model.actuator(actuator).name or str(actuator)
            raise ImitableError(f"actuator {name!r} has no limits; give it a ctrlrange in the MJCF file")
    if space is not None and not (np.array_equal(np.float32(low), space.low) and np.array_equal(np.float32(high), space.high)):
        low, high = np.asarray(space.low, dtype=np.float64), np.asarray(space.high, dtype=np.float64)
    bad = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high) & (low < high))).tolist()
    if bad:
        raise ImitableError(
            f"actions {bad} are limited to {low[bad].tolist()} to {high[bad].tolist()}; limits must be finite, low below high"
        )
    return low, high


def _ignore(_: str) -> None:
    """In place of MuJoCo's warnings of simulations that break down: we count them."""


def _threads() -> int:
    given = os.environ.get(THREADS) or CORES
    if not given.isdecimal() or int(given) < 1:
        raise ImitableError(f"{THREADS} is {given!r}; it must be a whole number from 1 on")
    return int(given)


def _capacity(count: int) -> int:
    """Round up to a power of two, so that a batch which shrinks step by step builds few sets of simulations.

    Not where they are few: stepping some of a set costs a sixth more than stepping all of it.
    """
    return count if count <= FEW else 1 << (count - 1).bit_length()


def _simulations(model: mujoco.MjModel, count: int, threads: int, process: int, fields: tuple[str, ...]) -> Scratch:
    """Scratch space for `count` simulations, the fields as (count, size) arrays; threads do not survive a fork, hence `process`.

    Kept as long as all that is kept takes little memory: every one has a copy of the model, and of a robot with meshes that is large.
    """
    key = model, count, threads, process, fields
    found = _KEPT.pop(key, None)
    if found is None:
        sizes = {each: each[0].nbuffer + each[2] * PER_THREAD for each in (*_KEPT, key)}
        used = sum(sizes.values())
        while used > MAX_KEPT and _KEPT:
            oldest = next(iter(_KEPT))
            used -= sizes[oldest]
            del _KEPT[oldest]
        batch = Batch(model, count, nthread=min(threads, count))
        found = batch, {name: batch.bind(name).reshape(count, -1) for name in fields}
    _KEPT[key] = found  # last comes the one that was used last
    return found
