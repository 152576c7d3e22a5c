"""Evaluate policies: whole episodes on the robot, in lock-step, from fresh starts."""

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from imitable.arrays import Array, Generator, Progress, no_progress
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.learners import Checkpoint
from imitable.rollouts import run_episodes
from imitable.simulators import Simulator, advance

N_EVAL_EPISODES = 100
"""Default number of episodes of an evaluation."""
FIRST_STEPS = 50
"""Steps of each demonstration with which a policy is compared where there is no reward."""


@dataclass(frozen=True)
class Evaluation:
    """Returns and episodes of a policy."""

    returns: Array
    """(episode,) undiscounted; NaN of a robot without a reward."""
    episodes: Demonstrations
    """Their observations."""
    diverged: int
    """How many episodes ended because the simulation diverged."""


def evaluate(
    act: Callable[[Array], Array], robot: Simulator, *, episodes: int = N_EVAL_EPISODES, rng: Generator, progress: Progress = no_progress
) -> Evaluation:
    """Whole episodes from fresh starts, and their undiscounted returns."""
    if episodes < 1:
        raise ImitableError(f"episodes is {episodes}; an evaluation needs at least one")
    measured = run_episodes(robot, act, count=episodes, rng=rng, progress=progress)
    return Evaluation(measured.trajectories.returns, measured.trajectories, measured.diverged)


def distance_to(demonstrations: Demonstrations, episodes: Demonstrations, *, most: int = 20_000) -> Array:
    """(episode,) the mean distance of its observations from the nearest demonstrated one (of at most `most`, evenly spread): root mean
    square over columns, in units of each column's standard deviation in the demonstrations."""
    from scipy.spatial import cKDTree

    shown = demonstrations.observations[:: -(-len(demonstrations.observations) // most)]
    std = shown.std(axis=0)
    scale = np.where(std > 1e-9, std, 1.0) * np.sqrt(shown.shape[1])
    distances = cKDTree(shown / scale).query(episodes.observations / scale)[0]
    return np.asarray(np.add.reduceat(distances, episodes.starts) / (episodes.lengths + 1))


def distance_along(
    act: Callable[[Array], Array], robot: Simulator, demonstrations: Demonstrations, *, scale: Array, steps: int = FIRST_STEPS
) -> Array:
    """(demo,) how far the robot is from each demonstration, step by step, when it starts where that one does and acts by itself: root mean
    square over columns in units of `scale` (observation,), the mean over the first `steps`."""
    observations, starts, lengths = demonstrations.observations, demonstrations.starts, np.minimum(demonstrations.lengths, steps)
    states, total = robot.restore(observations[starts]), np.zeros(len(demonstrations))
    for time in range(1, int(lengths.max()) + 1):
        actions = np.clip(act(robot.observe(states)), robot.action_low, robot.action_high)
        states, _ = advance(robot, states, actions)
        gaps = (robot.observe(states) - observations[starts + np.minimum(time, lengths)]) / scale
        total += np.where(time <= lengths, np.sqrt(np.square(gaps).mean(axis=1)), 0.0)
    return np.asarray(total / lengths)


@dataclass(frozen=True)
class Measurement:
    """A checkpoint and its returns."""

    checkpoint: Checkpoint
    returns: Array
    """(episode,) from starts not used in training, the same for every checkpoint."""
    diverged: int
    """How many of these episodes ended because the simulation diverged."""


def measure(
    checkpoints: Iterable[Checkpoint], robot: Simulator, *, episodes: int = N_EVAL_EPISODES, rng: Generator
) -> Iterator[Measurement]:
    """Every checkpoint, evaluated on the same starts."""
    for checkpoint in checkpoints:
        evaluation = evaluate(checkpoint.policy, robot, episodes=episodes, rng=deepcopy(rng))
        yield Measurement(checkpoint, evaluation.returns, evaluation.diverged)
