"""The inverse dynamics protocols: the action that takes the robot from a state to an observation, and how reliable it is."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np

from imitable.arrays import Array, Arrays, Booleans, Generator, Integers, Progress, Snapshot
from imitable.rollouts import Episodes
from imitable.simulators import Simulator

NOT_SETTLED, REACHED, OUT_OF_REACH, UNTRIED = range(4)
"""Verdicts: budget exhausted; reached; out of reach; not simulated."""


@dataclass(frozen=True)
class InverseResult:
    """Actions, and how reliable they are."""

    actions: Array
    """(N, action) within the robot's limits."""
    miss: Array
    """(N,) root mean square over columns of the distance between where the action leads and where it should, in units of the robot's
    own one-step changes; NaN: not simulated."""
    at_limit: Booleans
    """(N, action) which actuators are at a limit."""
    verdict: Integers
    """(N,) NOT_SETTLED, REACHED, OUT_OF_REACH or UNTRIED."""
    limit_factor: Array
    """(N,) factor by which the action limits would have to grow, to first order: 1 where reached, infinite where no factor would do,
    NaN where it is not known."""
    steps: Integers
    """(N,) simulated steps taken."""
    jacobian: Array | None = None
    """(N, observation, action) with which the search can begin again where this answer is a guess; None: there is none."""

    def select(self, rows: Integers) -> "InverseResult":
        parts: list[Any] = [None if values is None else values[rows] for values in self._columns()]
        return InverseResult(*parts)

    def put(self, rows: Integers, other: "InverseResult") -> "InverseResult":
        """Itself, with another answer in place of these rows."""
        for mine, its in zip(self._columns(), other._columns(), strict=True):
            if mine is not None and its is not None:
                mine[rows] = its
        return self

    @staticmethod
    def join(parts: "Sequence[InverseResult]") -> "InverseResult":
        columns = zip(*(part._columns() for part in parts), strict=True)
        joined: list[Any] = [None if values[0] is None else np.concatenate(values) for values in columns]
        return InverseResult(*joined)

    def _columns(self) -> list[Any]:
        return [getattr(self, each.name) for each in fields(self)]

    @classmethod
    def unchecked(cls, actions: Array, robot: Simulator) -> "InverseResult":
        """Actions that were not simulated, clipped to the robot's limits."""
        low, high = robot.action_low, robot.action_high
        unknown, none = np.full(len(actions), np.nan), np.zeros(len(actions), np.int64)
        at_limit = np.asarray((actions <= low) | (actions >= high))
        return cls(np.clip(actions, low, high), unknown, at_limit, none + UNTRIED, unknown, none)


MIN_RELATIVE_SCALE = 1e-3  # of the median scale: columns that move less are compared on this scale, so that rounding does not count
MAX_FACTOR = 100.0


def factor_to_admit(actions: Array, robot: Simulator) -> Array:
    """(N,) the factor that both limits would have to be multiplied by to admit actions (N, action), at least 1; infinite where none would
    do, or only one beyond MAX_FACTOR, which is more likely a Jacobian that is nearly singular."""
    low, high = robot.action_low, robot.action_high
    with np.errstate(divide="ignore", invalid="ignore"):
        above = np.where(actions > high, np.where(high > 0, actions / high, np.inf), 1.0)
        below = np.where(actions < low, np.where(low < 0, actions / low, np.inf), 1.0)
    factors = np.maximum(above, below).max(axis=1, initial=1.0)
    return plausible_factor(factors)


def plausible_factor(factors: Array) -> Array:
    """(N,) infinite beyond MAX_FACTOR."""
    return np.asarray(np.where(factors > MAX_FACTOR, np.inf, factors))


def step_scale(episodes: Episodes) -> Array:
    """(observation,) standard deviation of one-step changes."""
    rows, observations = episodes.trajectories.transition_rows, episodes.trajectories.observations
    return np.asarray((observations[rows + 1] - observations[rows]).std(axis=0))


def floored_scale(scale: Array) -> Array:
    """(observation,) a scale that no column falls far below, so that rounding in one that never moves does not count."""
    return np.maximum(scale, MIN_RELATIVE_SCALE * np.median(scale[scale > 0])) if (scale > 0).any() else np.ones_like(scale)


class InverseDynamics(Protocol):
    """f_id of eq. 1: the action that leads there if there is one, else the one that comes closest."""

    def __call__(self, states: Array, next_observations: Array, *, guess: InverseResult | None = None) -> InverseResult:
        """Actions from full states (N, state) towards next observations (N, observation).

        `guess` are its own answers to N similar transitions, such as those of the step before, which may speed up the search.
        """
        ...

    def arrays(self) -> Arrays:
        """All that was fitted, for a file."""
        ...


class InverseDynamicsModel(Protocol):
    """A frozen dataclass of hyper-parameters that fits an inverse dynamics, and restores a fitted one.

    Its optional methods are called by the functions below, which have a default for a model without them.
    """

    def fit(self, episodes: Episodes, robot: Simulator, *, rng: Generator, progress: Progress) -> InverseDynamics:
        """From trajectories of the robot itself."""
        ...

    def restored(self, arrays: Snapshot, robot: Simulator) -> InverseDynamics:
        """The one whose `arrays` these are."""
        ...


def with_scale(inverse_dynamics: InverseDynamics, scale: Array) -> InverseDynamics:
    """The same with misses in units of this scale (observation,): `with_scale(scale)`; else itself."""
    found: InverseDynamics = inverse_dynamics.with_scale(scale) if hasattr(inverse_dynamics, "with_scale") else inverse_dynamics
    return found


def model_for_tracking(model: InverseDynamicsModel, noise: float) -> InverseDynamicsModel:
    """Faster, and only as precise as a verdict on a window needs at this noise: `for_tracking(noise)`; else the model itself."""
    found: InverseDynamicsModel = model.for_tracking(noise) if hasattr(model, "for_tracking") else model
    return found


def retry_models(model: InverseDynamicsModel) -> tuple[InverseDynamicsModel, ...]:
    """Models to ask again about transitions that are not reached, each with another search: `retries()`; else none."""
    return tuple(model.retries()) if hasattr(model, "retries") else ()


def model_with_tolerance(model: InverseDynamicsModel, noise: float) -> InverseDynamicsModel:
    """A model for which a miss as large as this noise counts as reached: `with_tolerance(noise)`; else the model itself."""
    found: InverseDynamicsModel = model.with_tolerance(noise) if hasattr(model, "with_tolerance") else model
    return found
