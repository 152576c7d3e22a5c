"""What a simulator is: pure, batch-first, nothing hidden; the same input always gives the same output."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from imitable.arrays import Array, Booleans, Generator, Integers
from imitable.errors import ImitableError


class Simulator(Protocol):
    """A robot in its world; the first axis of every array is the batch. It knows nothing of scores and learners.

    `reward` and `terminated` are of a robot with a task. A robot without `reward` has no returns; one without `terminated` goes through
    `with_defaults`, as `imitable.robot` does it. What it may have beside, the functions below ask for, and have a default for one that
    has not.
    """

    @property
    def horizon(self) -> int:
        """Steps after which an episode is cut off (a time limit, not an ending)."""
        ...

    @property
    def action_low(self) -> Array:
        """(action,) lowest action; `step` clips to it."""
        ...

    @property
    def action_high(self) -> Array:
        """(action,) highest action; `step` clips to it."""
        ...

    @property
    def observation_names(self) -> tuple[str, ...]:
        """(observation,) the name of every observation column."""
        ...

    def initial_states(self, count: int, rng: Generator) -> Array:
        """(N, state) fresh starts, in full simulator state."""
        ...

    def step(self, states: Array, actions: Array) -> Array:
        """(N, state) one control step later; all NaN where the simulation has diverged."""
        ...

    def observe(self, states: Array) -> Array:
        """(N, observation) what demonstrations and policies see."""
        ...

    def restore(self, observations: Array, like: Array | None = None) -> Array:
        """(N, state) with these observations; what they do not show comes from the states `like`, or is at rest."""
        ...

    def reward(self, states: Array, actions: Array, next_states: Array) -> Array:
        """(N,) for returns and evaluation, of actions as they were carried out; scores and imitation learners do not call it."""
        ...

    def terminated(self, states: Array) -> Booleans:
        """(N,) whether the episode has ended here."""
        ...


def advance(simulator: Simulator, states: Array, actions: Array) -> tuple[Array, Booleans]:
    """One step, and (N,) which simulations diverged in it: those stay where they were, for the caller to end and to count."""
    if actions.shape != (wanted := (len(states), len(simulator.action_low))):
        raise ImitableError(f"actions have shape {actions.shape}; {wanted[0]} agents need {wanted}")
    moved = simulator.step(states, actions)
    # MuJoCo takes an action that is not a number for 0 and goes on.
    diverged = np.asarray(~(np.isfinite(moved).all(axis=1) & np.isfinite(actions).all(axis=1)))
    if diverged.any():
        moved[diverged] = states[diverged]
    return moved, diverged


def with_defaults(simulator: Any) -> Simulator:
    """The simulator; if it has no `terminated`, with one that is never true."""
    found: Simulator = simulator if hasattr(simulator, "terminated") else _Unending(simulator)
    return found


@dataclass(frozen=True, eq=False)
class _Unending:
    """A simulator whose episodes end at the horizon only; all else is that of the one it is made of."""

    simulator: Any

    def __getattr__(self, name: str) -> Any:
        if name == "simulator" or name.startswith("__"):  # asked for by pickle and copy before there is one
            raise AttributeError(name)
        return getattr(self.simulator, name)

    def terminated(self, states: Array) -> Booleans:
        return np.zeros(len(states), dtype=bool)

    def cache_key(self) -> tuple[object, ...]:
        """The simulator itself, with its class and source, not its own `cache_key()` alone."""
        return (self.simulator,)


def reward_of(simulator: Simulator, states: Array, actions: Array, next_states: Array) -> Array:
    """(N,) the reward of a step under actions as they were commanded: the robot carries them out within its limits."""
    if not hasattr(simulator, "reward"):
        raise ImitableError(f"the robot ({simulator}) has no reward, which is needed here; give it a method reward")
    return simulator.reward(states, np.clip(actions, simulator.action_low, simulator.action_high), next_states)


def restorable(simulator: Simulator, observations: Array) -> Booleans:
    """(N,) which observations determine the state, which one with a clipped velocity does not: `restorable(observations)`; else all."""
    if not hasattr(simulator, "restorable"):
        return np.ones(len(observations), dtype=bool)
    return np.asarray(simulator.restorable(observations), dtype=bool)


def effective_limits(simulator: Simulator, states: Array, next_observations: Array) -> tuple[Array, Array]:
    """(N, action) each: the lowest and the highest action that changes the forces in these states or there, which are near where a servo
    with little force is: `effective_limits(states, next_observations)`; else the limits."""
    if hasattr(simulator, "effective_limits"):
        low, high = simulator.effective_limits(states, next_observations)
        return np.asarray(low), np.asarray(high)
    return np.tile(simulator.action_low, (len(states), 1)), np.tile(simulator.action_high, (len(states), 1))


def continuous(simulator: Simulator, observations: Array, starts: Integers) -> Array:
    """(row, observation) of trajectories that begin at `starts`, without jumps between equal orientations: `continuous(observations,
    starts)`; else as they are."""
    return np.asarray(simulator.continuous(observations, starts)) if hasattr(simulator, "continuous") else observations


def has_reward(simulator: Simulator) -> bool:
    """Whether returns are known: `has_reward`; else whether there is a `reward`."""
    return bool(getattr(simulator, "has_reward", hasattr(simulator, "reward")))


def action_names(simulator: Simulator) -> tuple[str, ...]:
    """(action,) the name of every actuator: `action_names`; else their numbers."""
    return tuple(getattr(simulator, "action_names", None) or (f"action {number}" for number in range(len(simulator.action_low))))


def joint_ranges(simulator: Simulator) -> Sequence[tuple[int, float, float]]:
    """The observation columns that show the position of a joint with limits, and its limits: `joint_ranges()`; else none."""
    return tuple(simulator.joint_ranges()) if hasattr(simulator, "joint_ranges") else ()


def notes(simulator: Simulator) -> tuple[str, ...]:
    """What a user should know of it, for `imitable check`: `notes`; else nothing."""
    return tuple(getattr(simulator, "notes", ()))
