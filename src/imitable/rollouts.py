"""Step a batch of environments under a policy: fixed-length rollouts, whole episodes, and random exploration."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from imitable.arrays import Array, Booleans, Generator, Integers, Progress, no_progress
from imitable.demonstrations import Demonstrations
from imitable.simulators import Simulator, advance, has_reward, reward_of

Reward = Callable[[Array, Array, Array], Array]
"""States, actions and next states to rewards (N,)."""

Reset = Callable[[Integers, Generator], tuple[Array, Integers]]
"""(Indices (N,) of environments to reset, generator) -> their states (N, state) and the steps (N,) until each is truncated."""


@dataclass(frozen=True)
class RolloutState:
    """States of the environments between rollouts."""

    states: Array
    """(env, state)"""
    steps_left: Integers
    """(env,) steps until the episode is truncated; 0: the environment is reset before the next step."""

    @classmethod
    def fresh(cls, simulator: Simulator, n_envs: int, rng: Generator) -> "RolloutState":
        """All at the start of their episodes."""
        return cls(simulator.initial_states(n_envs, rng), np.full(n_envs, simulator.horizon))

    @classmethod
    def staggered(cls, simulator: Simulator, n_envs: int, rng: Generator) -> "RolloutState":
        """Initial states with evenly spread time limits, so that every later rollout covers all parts of an episode."""
        return cls(simulator.initial_states(n_envs, rng), simulator.horizon - np.arange(n_envs) * simulator.horizon // n_envs)


@dataclass(frozen=True)
class Rollout:
    """A batch of environments, time first; environments are reset when an episode ends, so every entry is a step."""

    observations: Array
    """(time, env, observation)"""
    next_observations: Array
    """(time, env, observation) where the action led, before any reset."""
    actions: Array
    """(time, env, action) as drawn, before the simulator clips them."""
    terminated: Booleans
    """(time, env) the episode ended here; a time limit is not an end."""
    truncated: Booleans
    """(time, env) the episode is cut off here: a time limit, or the end of the rollout."""
    diverged: int
    """How many of these episodes ended because the simulation diverged; the last step of such an environment stays where it was."""
    rewards: Array
    """(time, env) of the given reward function, 0 for a step that diverged; empty without one."""
    steps_left: Integers
    """(time, env) until the time limit, where an episode terminated; 0 elsewhere."""
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
    """Resets to the simulator's initial states, for whole episodes."""
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
    """Step environments `steps` times from `state` on, under the policy `act`; `reset` starts episodes, by default in initial states."""
    reset = reset or initial_reset(simulator)
    states, steps_left, n_envs = state.states.copy(), state.steps_left.copy(), len(state.steps_left)
    obs = simulator.observe(states)
    observations, next_observations = np.empty((2, steps, *obs.shape))
    actions = np.empty((steps, n_envs, len(simulator.action_low)))
    terminated, truncated = np.zeros((2, steps, n_envs), dtype=bool)
    rewards, n_diverged = np.empty((steps, n_envs) if reward else 0), 0
    steps_left_at_end = np.zeros((steps, n_envs), np.int64)
    for time in range(steps):
        resetting = steps_left == 0
        if resetting.any():
            states[resetting], steps_left[resetting] = reset(np.flatnonzero(resetting), rng)
            obs = simulator.observe(states)
        step_actions = act(obs)
        previous = states
        states, diverged = advance(simulator, previous, step_actions)
        observations[time], actions[time] = obs, step_actions
        obs = next_observations[time] = simulator.observe(states)
        done = terminated[time] = simulator.terminated(states) | diverged
        n_diverged += int(diverged.sum())
        if reward:
            rewards[time] = np.where(diverged, 0.0, reward(previous, step_actions, states))
        steps_left -= 1
        truncated[time] = (steps_left == 0) & ~done
        steps_left_at_end[time, done] = steps_left[done]
        steps_left[done] = 0
    truncated[-1] = ~terminated[-1]
    end = RolloutState(states, steps_left)
    return Rollout(observations, next_observations, actions, terminated, truncated, n_diverged, rewards, steps_left_at_end, end)


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
    """How many ended because the simulation diverged."""


def run_episodes(
    simulator: Simulator, act: Callable[[Array], Array], *, count: int, rng: Generator, progress: Progress = no_progress
) -> Episodes:
    """`count` whole episodes under the policy `act`, each until it terminates or reaches the horizon.

    Returns are NaN for a robot without a reward.
    """
    states = simulator.initial_states(count, rng)
    obs = simulator.observe(states)
    observations, actions = [obs], []
    with_reward = has_reward(simulator)
    lengths, returns = np.full(count, simulator.horizon), np.full(count, 0.0 if with_reward else np.nan)
    alive, n_diverged = np.arange(count), 0
    for time in range(simulator.horizon):
        actions.append(np.clip(act(obs), simulator.action_low, simulator.action_high))  # of all, so that `act` may tell them apart
        taken = actions[-1][alive]
        next_states, diverged = advance(simulator, states, taken)
        if with_reward:
            returns[alive] += np.where(diverged, 0.0, reward_of(simulator, states, taken, next_states))
        obs = obs.copy()
        obs[alive] = simulator.observe(next_states)
        observations.append(obs)
        n_diverged += int(diverged.sum())
        done = simulator.terminated(next_states) | diverged
        lengths[alive[done]] = time + 1
        lengths[alive[diverged]] = max(1, time)  # without the step that diverged, unless there is no other
        states, alive = next_states[~done], alive[~done]
        progress((time + 1) / simulator.horizon)
        if not len(alive):
            break
    by_episode, actions_by_episode = np.stack(observations, axis=1), np.stack(actions, axis=1)
    within_episode = np.arange(by_episode.shape[1]) <= lengths[:, None]
    trajectories = Demonstrations(by_episode[within_episode], lengths, returns, observation_names=simulator.observation_names)
    return Episodes(trajectories, actions_by_episode[np.arange(len(actions)) < lengths[:, None]], n_diverged)


def explore(simulator: Simulator, *, count: int, rng: Generator, min_action_scale: float = 1.0) -> Episodes:
    """`count` episodes of random actions."""
    act = random_actions(simulator, count, rng=rng, max_action_repeat=simulator.horizon // 5, min_action_scale=min_action_scale)
    return run_episodes(simulator, lambda _: act(), count=count, rng=rng)


def random_actions(
    simulator: Simulator, count: int, *, rng: Generator, max_action_repeat: int, min_action_scale: float = 0.0
) -> Callable[[], Array]:
    """A function that draws the next uniformly random actions of `count` robots: half of them draw at every step, the rest repeat actions.

    Actions drawn at every step average out; repeated ones reach the sustained turns and speeds that demonstrations show. Every robot
    stays within its own fraction of the action range, `min_action_scale` or more.
    """
    scale = 1.0 if min_action_scale == 1 else rng.uniform(min_action_scale, 1.0, (count, 1))
    middle = (simulator.action_high + simulator.action_low) / 2
    repeats = np.where(np.arange(count) % 2 == 0, 1, rng.integers(2, max(3, max_action_repeat), count))
    actions = np.zeros((count, len(simulator.action_low)))
    step = 0

    def act() -> Array:
        nonlocal step
        drawn = middle + scale * (rng.uniform(simulator.action_low, simulator.action_high, actions.shape) - middle)
        actions[:] = np.where((step % repeats == 0)[:, None], drawn, actions)
        step += 1
        return actions.copy()

    return act
