"""Stepping many copies of a MuJoCo model as a pure function; the only file that imports mujoco."""

import os
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import mujoco
import numpy as np
from mujoco.batch import Batch

from imitable.arrays import Array

MODELS = Path(__file__).parent / "models"
THREADS = "IMITABLE_THREADS"
"""Environment variable: how many threads step MuJoCo; every core where it is unset."""


@dataclass(frozen=True)
class Physics:
    """One model and its control rate. A state row is qpos, qvel and the constraint solver's warm start.

    Joint limits and contacts are solved iteratively from the previous solution, so without the warm start in the state a step
    would depend on what was simulated before it.
    """

    model: mujoco.MjModel
    frame_skip: int  # physics steps per control step

    @property
    def width(self) -> int:
        return int(self.model.nq + 2 * self.model.nv)

    def step(self, states: Array, controls: Array) -> Array:
        """States after one control step under (N, actuator) controls; columns beyond `width` are the caller's and stay."""
        count, nq, middle, end = len(states), self.model.nq, self.model.nq + self.model.nv, self.width
        batch, qpos, qvel, warm_start, ctrl = _simulations(self.model, _capacity(count), _threads())
        ids = None if count == len(qpos) else np.arange(count)
        qpos[:count], qvel[:count], warm_start[:count] = states[:, :nq], states[:, nq:middle], states[:, middle:end]
        ctrl[:count] = controls
        batch.step(ids, nstep=self.frame_skip)
        moved = states.copy()
        moved[:, :nq], moved[:, nq:middle], moved[:, middle:end] = qpos[:count], qvel[:count], warm_start[:count]
        return moved


def load(name: str, *, frame_skip: int, ranges: tuple[tuple[str, float, float], ...] = ()) -> Physics:
    """The model `name` with the ranges [rad] of some joints replaced; loaded once."""
    return _load(name, frame_skip, ranges)


@cache
def _load(name: str, frame_skip: int, ranges: tuple[tuple[str, float, float], ...]) -> Physics:
    model = mujoco.MjModel.from_xml_path(str(MODELS / f"{name}.xml"))
    for joint, low, high in ranges:
        model.joint(joint).range[:] = low, high
    return Physics(model, frame_skip)


def _threads() -> int:
    return int(os.environ.get(THREADS) or os.cpu_count() or 1)


def _capacity(count: int) -> int:
    """Round up, so that a batch which shrinks step by step does not build a new set of simulations each time."""
    return count if count <= 128 else 1 << (count - 1).bit_length()


@lru_cache(maxsize=16)
def _simulations(model: mujoco.MjModel, count: int, threads: int) -> tuple[Batch, Array, Array, Array, Array]:
    batch = Batch(model, count, nthread=min(threads, count))
    qpos, qvel, warm_start, ctrl = (batch.bind(name) for name in ("qpos", "qvel", "qacc_warmstart", "ctrl"))
    return batch, qpos, qvel, warm_start, ctrl
