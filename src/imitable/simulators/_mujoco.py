"""Stepping many copies of a MuJoCo model as a pure function; the only file that imports mujoco."""

import os
import threading
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import mujoco
import numpy as np
from mujoco.batch import Batch

from imitable.arrays import Array
from imitable.errors import ImitableError

MODELS = Path(__file__).parent / "models"
THREADS = "IMITABLE_THREADS"
"""Environment variable: how many threads step MuJoCo; every core where it is unset."""
TOO_LARGE = 1e10
"""Positions or velocities beyond this are a breakdown, as in MuJoCo itself."""
FEW = 16
"""Up to so many simulations get scratch space of their exact number."""
_SCRATCH = threading.Lock()  # the cached simulations are scratch space that all callers share


@dataclass(frozen=True)
class Physics:
    """One model and its control rate. A state row is qpos, qvel, the constraint solver's warm start and the x of a traced body.

    Joint limits and contacts are solved iteratively from the previous solution, so without the warm start in the state a step
    would depend on what was simulated before it.
    """

    model: mujoco.MjModel
    frame_skip: int  # physics steps per control step
    traced: int | None = None  # a body whose x [m], as the last stage of the last physics step had it, is the state's last column

    @property
    def width(self) -> int:
        return int(self.model.nq + 2 * self.model.nv)

    def step(self, states: Array, controls: Array) -> Array:
        """States after one control step under (N, actuator) controls, NaN where it diverged; other columns than these stay."""
        count, nq, middle, end = len(states), self.model.nq, self.model.nq + self.model.nv, self.width
        moved = states.copy()
        with _SCRATCH:
            batch, qpos, qvel, warm_start, ctrl, places = _simulations(self.model, _capacity(count), _threads(), os.getpid())
            ids = None if count == len(qpos) else np.arange(count)
            qpos[:count], qvel[:count], warm_start[:count] = states[:, :nq], states[:, nq:middle], states[:, middle:end]
            ctrl[:count] = controls
            before = mujoco.get_mju_user_warning()
            mujoco.set_mju_user_warning(_ignore)
            try:
                batch.step(ids, nstep=self.frame_skip)
            finally:
                mujoco.set_mju_user_warning(before)
            moved[:, :nq], moved[:, nq:middle], moved[:, middle:end] = qpos[:count], qvel[:count], warm_start[:count]
            if self.traced is not None:
                moved[:, end] = places[:count, self.traced, 0]
        with np.errstate(invalid="ignore"):
            broken = ~(np.abs(moved[:, :middle]) < TOO_LARGE).all(axis=1)
        if broken.any():
            moved[broken] = np.nan
        return moved


@cache
def load(
    name: str, *, frame_skip: int, ranges: tuple[tuple[str, float, float], ...] = (), weight: float = 1.0, traced: str | None = None
) -> Physics:
    """The model `name` with the ranges [rad] of some joints replaced, and so many times as heavy; loaded once."""
    model = mujoco.MjModel.from_xml_path(str(MODELS / f"{name}.xml"))
    # A simulation that breaks down must show it, not start again at the origin.
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    for joint, low, high in ranges:
        model.joint(joint).range[:] = low, high
    if weight != 1.0:
        model.body_mass *= weight
        model.body_inertia *= weight
        mujoco.mj_setConst(model, mujoco.MjData(model))  # what else depends on them, such as the stiffness of joint limits
    return Physics(model, frame_skip, None if traced is None else model.body(traced).id)


def _ignore(_: str) -> None:
    """In place of MuJoCo's warnings of simulations that break down, which go to the terminal and to a file: we count them."""


def _threads() -> int:
    given = os.environ.get(THREADS) or str(os.cpu_count() or 1)
    if not given.isdecimal() or int(given) < 1:
        raise ImitableError(f"{THREADS} is {given!r}; it must be a whole number from 1 on")
    return int(given)


def _capacity(count: int) -> int:
    """Round up to a power of two, so that a batch which shrinks step by step builds few sets of simulations.

    Not where they are few: stepping some of a set costs a sixth more than stepping all of it.
    """
    return count if count <= FEW else 1 << (count - 1).bit_length()


@lru_cache(maxsize=64)
def _simulations(model: mujoco.MjModel, count: int, threads: int, process: int) -> tuple[Batch, Array, Array, Array, Array, Array]:
    """Scratch space for `count` simulations; of this process, since threads do not survive a fork."""
    batch = Batch(model, count, nthread=min(threads, count))
    qpos, qvel, warm_start, ctrl, places = (batch.bind(name) for name in ("qpos", "qvel", "qacc_warmstart", "ctrl", "xpos"))
    return batch, qpos, qvel, warm_start, ctrl, places
