"""Stepping a batch of environments under a policy: fixed-length rollouts, whole episodes, and random exploration."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from imitable.arrays import Array, Booleans, Generator, Integers, Progress, no_progress
from imitable.demonstrations import Demonstrations
from imitable.simulators import Simulator, advance, has_reward, reward_of

Reward = Callable[[Array, Array, Array], Array]
"""States, actions and next states to rewards (N,)."""

Reset = Callable[[Integers, Generator], tuple[Array, Integers]]
"""Indices of the environments (N,) that are reset, to their states (N, state) and the steps (N,) until each is truncated."""


@dataclass(frozen=True)
class RolloutState:
    """Agents between two rollouts, each somewhere in its episode."""

    states: Array
    """(env, state)"""
    steps_left: Integers
    """(env,) steps until the episode is truncated; 0: it starts a new one at the next step."""

    @classmethod
    def fresh(cls, simulator: Simulator, n_envs: int, rng: Generator) -> "RolloutState":
        """All at the start of their episodes."""
        return cls(simulator.initial_states(n_envs, rng), np.full(n_envs, simulator.horizon))

    @classmethod
    def staggered(cls, simulator: Simulator, n_envs: int, rng: Generator) -> "RolloutState":
        """At new starts, with evenly spread time limits, so that every later rollout sees all parts of an episode."""
        return cls(simulator.initial_states(n_envs, rng), simulator.horizon - np.arange(n_envs) * simulator.horizon // n_envs)


@dataclass(frozen=True)
class Rollout:
    """Observations and actions of a batch of environments, time first; one whose episode ends is reset, so no cell is empty."""

    observations: Array
    """(time, env, observation)"""
    next_observations: Array
    """(time, env, observation) where the action led, before any reset."""
    actions: Array
    """(time, env, action) as drawn, before the simulator clips them."""
    terminated: Booleans
    """(time, env) the episode ended here; a time limit is not an end."""
    truncated: Booleans
    """(time, env) the episode had no end here, but what follows is not recorded: a time limit, or the rollout is full."""
    diverged: int
    """How many of these endings were simulations that broke down; such an environment stays where it was for its last step."""
    rewards: Array
    """(time, env) of the reward function that was asked for, 0 for a step that broke down; empty if none was."""
    steps_left: Integers
    """(time, env) until the time limit, of an episode that terminated here; 0 elsewhere."""
    state: RolloutState
    """Of the environments after the last step."""

    @property
    def steps(self) -> int:
        return self.terminated.size

    def transitions(self) -> tuple[Array, Array]:
        """Observations and next observations, (time * env, observation) each."""
        width = self.observations.shape[-1]
        return self.observations.reshape(-1, width), self.next_observations.reshape(-1, width)


def initial_reset(simulator: Simulator) -> Reset:
    """Whole episodes from the simulator's own starts."""
    return lambda envs, rng: (simulator.initial_states(len(envs), rng), np.full(len(envs), simulator.horizon))


def collect_rollout(
    simulator: Simulator,
    act: Callable[[Array], Array],
    *,
    state: RolloutState,
    steps: int,
    rng: Generator,
    reward: Reward | None = None,
    reset: Reset | None = None,
) -> Rollout:
    """`steps` of all environments from `state` on, under the policy `act`; `reset` starts episodes, by default in initial states."""
    reset = reset or initial_reset(simulator)
    states, steps_left, n_envs = state.states.copy(), state.steps_left.copy(), len(state.steps_left)
    observed = simulator.observe(states)
    observations, next_observations = np.empty((2, steps, *observed.shape))
    taken = np.empty((steps, n_envs, len(simulator.action_low)))
    terminated, truncated = np.zeros((2, steps, n_envs), dtype=bool)
    rewards, diverged, spared = np.empty((steps, n_envs) if reward else 0), 0, np.zeros((steps, n_envs), np.int64)
    for time in range(steps):
        resetting = steps_left == 0
        if resetting.any():
            states[resetting], steps_left[resetting] = reset(np.flatnonzero(resetting), rng)
            observed = simulator.observe(states)
        actions = act(observed)
        before = states
        states, broken = advance(simulator, before, actions)
        observations[time], taken[time] = observed, actions
        observed = next_observations[time] = simulator.observe(states)
        ended = terminated[time] = simulator.terminated(states) | broken
        diverged += int(broken.sum())
        if reward:
            rewards[time] = np.where(broken, 0.0, reward(before, actions, states))
        steps_left -= 1
        truncated[time] = (steps_left == 0) & ~ended
        spared[time, ended] = steps_left[ended]
        steps_left[ended] = 0
    truncated[-1] = ~terminated[-1]
    end = RolloutState(states, steps_left)
    return Rollout(observations, next_observations, taken, terminated, truncated, diverged, rewards, spared, end)


def n_envs_for(batch_size: int, simulator: Simulator) -> int:
    """How many environments make about `batch_size` steps in one episode's length."""
    return max(1, round(batch_size / simulator.horizon))


@dataclass(frozen=True)
class Episodes:
    """Whole episodes, with the actions that made them."""

    trajectories: Demonstrations
    actions: Array
    """(transition, action) in the order of `trajectories.transition_rows`."""
    diverged: int
    """How many ended because the simulation broke down."""


def run_episodes(
    simulator: Simulator, act: Callable[[Array], Array], *, count: int, rng: Generator, progress: Progress = no_progress
) -> Episodes:
    """`count` whole episodes under the policy `act`, each until it terminates or reaches the horizon.

    Returns are NaN, not known, of a robot that says it has no reward.
    """
    states = simulator.initial_states(count, rng)
    observed = simulator.observe(states)
    observations, actions = [observed], []
    rewarded = has_reward(simulator)
    lengths, returns = np.full(count, simulator.horizon), np.full(count, 0.0 if rewarded else np.nan)
    alive, diverged = np.arange(count), 0
    for time in range(simulator.horizon):
        taken = np.clip(act(observed), simulator.action_low, simulator.action_high)  # of all, so that `act` may tell them apart
        next_states, broken = advance(simulator, states, taken[alive])
        if rewarded:
            returns[alive] += np.where(broken, 0.0, reward_of(simulator, states, taken[alive], next_states))
        observed = observed.copy()
        observed[alive] = simulator.observe(next_states)
        observations.append(observed)
        actions.append(taken)
        diverged += int(broken.sum())
        ending = simulator.terminated(next_states) | broken
        lengths[alive[ending]] = time + 1
        lengths[alive[broken]] = max(1, time)  # without the step that broke it, unless there is no other
        states, alive = next_states[~ending], alive[~ending]
        progress((time + 1) / simulator.horizon)
        if not len(alive):
            break
    seen, done = np.stack(observations, axis=1), np.stack(actions, axis=1)
    inside = np.arange(seen.shape[1]) <= lengths[:, None]
    trajectories = Demonstrations(seen[inside], lengths, returns, observation_names=simulator.observation_names)
    return Episodes(trajectories, done[np.arange(done.shape[1]) < lengths[:, None]], diverged)


def explore(simulator: Simulator, *, count: int, rng: Generator, min_action_scale: float = 1.0) -> Episodes:
    """`count` episodes of random actions."""
    act = random_actions(simulator, count, rng=rng, max_action_repeat=simulator.horizon // 5, min_action_scale=min_action_scale)
    return run_episodes(simulator, lambda _: act(), count=count, rng=rng)


def random_actions(
    simulator: Simulator, count: int, *, rng: Generator, max_action_repeat: int, min_action_scale: float = 0.0
) -> Callable[[], Array]:
    """A function that gives the next uniformly random actions of `count` robots, held for one step by half of them and longer by the rest.

    Actions drawn anew at each step average out; held ones reach the sustained turns and speeds that demonstrations show. Every robot
    keeps to its own fraction of the action range, `min_action_scale` or more.
    """
    scale = 1.0 if min_action_scale == 1 else rng.uniform(min_action_scale, 1.0, (count, 1))
    middle = (simulator.action_high + simulator.action_low) / 2
    hold = np.where(np.arange(count) % 2 == 0, 1, rng.integers(2, max(3, max_action_repeat), count))
    held = np.zeros((count, len(simulator.action_low)))
    clock = 0

    def act() -> Array:
        nonlocal clock
        fresh = middle + scale * (rng.uniform(simulator.action_low, simulator.action_high, held.shape) - middle)
        renewed = (clock % hold == 0)[:, None]
        held[:] = np.where(renewed, fresh, held)
        clock += 1
        return held.copy()

    return act
