"""What a simulator is: pure, batch-first, nothing hidden; the same input always gives the same output."""

from typing import Protocol

import numpy as np

from imitable.arrays import Array, Booleans, Generator
from imitable.errors import ImitableError


class Simulator(Protocol):
    """A robot in its world; the first axis of every array is the batch. It knows nothing of scores and learners."""

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


def reward_of(simulator: Simulator, states: Array, actions: Array, next_states: Array) -> Array:
    """(N,) the reward of a step under actions as they were commanded: the robot carries them out within its limits."""
    return simulator.reward(states, np.clip(actions, simulator.action_low, simulator.action_high), next_states)
