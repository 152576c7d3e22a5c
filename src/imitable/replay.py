"""Chase demonstrations on the target, in lock-step (eq. 1), and measure how far behind it stays."""

from dataclasses import dataclass

import numpy as np

from imitable.arrays import Array, Booleans, Generator
from imitable.demonstrations import Demonstrations
from imitable.inverse_dynamics import InverseDynamics
from imitable.simulators import Simulator, advance


@dataclass(frozen=True)
class Replay:
    """Where the target got when it chased every demonstration."""

    states: Array
    """(row, observation) aligned with `Demonstrations.states`."""
    step_distances: Array
    """(transition,) l2 distance on the matched columns after each step."""
    distances: Array
    """(demo,) F, their mean over each demonstration; infinite where the simulation diverged."""
    diverged: Booleans
    """(demo,) whether the target's simulation broke down on the way."""


def replay(
    demonstrations: Demonstrations,
    target: Simulator,
    inverse_dynamics: InverseDynamics,
    *,
    noise: float = 0.0,
    rng: Generator | None = None,
) -> Replay:
    """Start the target at s_0 and let f_id(s'_{t-1}, s_t) drive it; with noise, every reached state is moved by up to that much."""
    longest_first = np.argsort(-demonstrations.lengths, kind="stable")
    starts, lengths = demonstrations.starts[longest_first], demonstrations.lengths[longest_first]
    reached = np.empty_like(demonstrations.states)
    reached[starts] = demonstrations.states[starts]
    diverged = np.zeros(len(demonstrations), dtype=bool)
    states = target.restore(demonstrations.states[starts])
    observations = target.observe(states)
    for time in range(1, int(lengths[0]) + 1):
        chasing = int(np.searchsorted(-lengths, -time, side="right"))  # those at least `time` long come first
        rows = starts[:chasing] + time
        states, observations = states[:chasing], observations[:chasing]
        states, broken = advance(target, states, inverse_dynamics(observations, demonstrations.states[rows]))
        diverged[longest_first[:chasing][broken]] = True
        observations = target.observe(states)
        if noise:
            assert rng is not None, "noise needs a generator"
            # Eq. 7 perturbs states; the authors' script perturbs actions.
            states = target.restore(observations + rng.uniform(-noise, noise, observations.shape), like=states)
            observations = target.observe(states)
        reached[rows] = observations
    gaps = (reached - demonstrations.states)[:, target.matched]
    step_distances = np.linalg.norm(gaps[demonstrations.transition_rows + 1], axis=1)
    first = np.concatenate([[0], np.cumsum(demonstrations.lengths)[:-1]])
    distances = np.add.reduceat(step_distances, first) / demonstrations.lengths
    return Replay(reached, step_distances, np.where(diverged, np.inf, distances), diverged)
