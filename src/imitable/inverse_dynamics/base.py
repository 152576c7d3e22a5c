"""What inverse dynamics is: the action that takes the robot from a state to an observation, and what is known of it."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from imitable.arrays import Array, Arrays, Booleans, Generator, Integers, Progress, Snapshot
from imitable.rollouts import Episodes
from imitable.simulators import Simulator

NOT_SETTLED, REACHED, OUT_OF_REACH, UNTRIED = range(4)
"""Verdicts on a transition: the budget ran out; the robot gets there; it does not, and searching on does not bring it closer; nobody
tried on the simulator."""


@dataclass(frozen=True)
class InverseResult:
    """Actions, and how far they are to be trusted."""

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
    """(N,) by what factor the range of actions would have to grow, to first order: 1 where reached, infinite where none would do,
    NaN where it is not known."""
    steps: Integers
    """(N,) simulated steps that it took to find each."""

    @classmethod
    def unchecked(cls, actions: Array, robot: Simulator) -> "InverseResult":
        """Actions that nobody tried on the simulator, clipped to the robot's limits."""
        low, high = robot.action_low, robot.action_high
        unknown, none = np.full(len(actions), np.nan), np.zeros(len(actions), np.int64)
        at_limit = np.asarray((actions <= low) | (actions >= high))
        return cls(np.clip(actions, low, high), unknown, at_limit, none + UNTRIED, unknown, none)


class InverseDynamics(Protocol):
    """f_id of eq. 1: the right action if there is one, else the one that comes closest."""

    def __call__(self, states: Array, next_observations: Array, *, guess: Array | None = None) -> InverseResult:
        """Actions from full states (N, state) towards next observations (N, observation); `guess` (N, action) may speed up the search."""
        ...

    def arrays(self) -> Arrays:
        """All that was learned, for a file."""
        ...


class InverseDynamicsModel(Protocol):
    """A frozen dataclass of hyper-parameters that fits an inverse dynamics, and restores a fitted one.

    What it may have beside, the functions below ask for, and have a default for one that has not.
    """

    def fit(self, episodes: Episodes, robot: Simulator, *, rng: Generator, progress: Progress) -> InverseDynamics:
        """From trajectories of the robot itself."""
        ...

    def restored(self, arrays: Snapshot, robot: Simulator) -> InverseDynamics:
        """The one whose `arrays` these are."""
        ...


def with_scale(inverse_dynamics: InverseDynamics, scale: Array) -> InverseDynamics:
    """The same, measuring misses on this scale (observation,): `with_scale(scale)`; else itself."""
    found: InverseDynamics = inverse_dynamics.with_scale(scale) if hasattr(inverse_dynamics, "with_scale") else inverse_dynamics
    return found


def model_for_tracking(model: InverseDynamicsModel, noise: float) -> InverseDynamicsModel:
    """Faster, and only as precise as a verdict on a window needs at this noise: `for_tracking(noise)`; else the model itself."""
    found: InverseDynamicsModel = model.for_tracking(noise) if hasattr(model, "for_tracking") else model
    return found


def retry_models(model: InverseDynamicsModel) -> tuple[InverseDynamicsModel, ...]:
    """Those that are asked once more about what is not reached, each searching elsewhere: `retries()`; else none."""
    return tuple(model.retries()) if hasattr(model, "retries") else ()


def model_with_tolerance(model: InverseDynamicsModel, noise: float) -> InverseDynamicsModel:
    """One that takes a miss as large as this noise for reached: `with_tolerance(noise)`; else the model itself."""
    found: InverseDynamicsModel = model.with_tolerance(noise) if hasattr(model, "with_tolerance") else model
    return found
