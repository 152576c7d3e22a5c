"""Track whole demonstrations on the robot, as one batch (eq. 1), and measure the tracking error."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from imitable.arrays import Array, Booleans, Generator, Integers, Progress, no_progress
from imitable.demonstrations import Demonstrations
from imitable.inverse_dynamics import InverseDynamics, InverseResult
from imitable.simulators import Simulator, advance


@dataclass(frozen=True, eq=False)
class Replay:
    """Where the robot got when it tracked every demonstration."""

    demonstrations: Demonstrations
    observations: Array
    """(row, observation) aligned with those of the demonstrations."""
    diverged: Booleans
    """(demo,) whether the robot's simulation diverged."""
    actions: Array
    """(transition, action) taken."""
    verdicts: Integers
    """(transition,) of the inverse dynamics: NOT_SETTLED, REACHED, OUT_OF_REACH or UNTRIED."""

    def step_distances(self, columns: Sequence[int] | None = None) -> Array:
        """(transition,) l2 distance after each step, on these columns or on all."""
        gaps = self.observations - self.demonstrations.observations
        matched = gaps[:, slice(None) if columns is None else np.array(columns)]
        return np.asarray(np.linalg.norm(matched[self.demonstrations.transition_rows + 1], axis=1))

    def distances(self, columns: Sequence[int] | None = None) -> Array:
        """(demo,) F of eq. 3, the mean of the step distances; infinite where the simulation diverged."""
        totals = np.add.reduceat(self.step_distances(columns), self.demonstrations.transition_starts)
        return np.where(self.diverged, np.inf, totals / self.demonstrations.lengths)


def replay(
    demonstrations: Demonstrations,
    robot: Simulator,
    inverse_dynamics: InverseDynamics,
    *,
    window: int | None = None,
    noise: float = 0.0,
    rng: Generator | None = None,
    progress: Progress = no_progress,
) -> Replay:
    """Start the robot at s_0 and let f_id(s'_{t-1}, s_t) drive it.

    Every `window` steps it is reset to the demonstration, but for what observations do not show; None: never, as in the paper.
    With noise, every reached state is perturbed by up to that much.
    """
    longest_first = np.argsort(-demonstrations.lengths, kind="stable")
    starts, lengths = demonstrations.starts[longest_first], demonstrations.lengths[longest_first]
    reached = np.empty_like(demonstrations.observations)
    reached[starts] = demonstrations.observations[starts]
    diverged = np.zeros(len(demonstrations), dtype=bool)
    actions, verdicts = np.zeros((len(reached), len(robot.action_low))), np.zeros(len(reached), np.int64)  # (row, ...)
    states = robot.restore(demonstrations.observations[starts])
    found: InverseResult | None = None
    for time in range(1, int(lengths[0]) + 1):
        active = int(np.searchsorted(-lengths, -time, side="right"))  # those at least `time` long come first
        rows = starts[:active] + time
        states = states[:active]
        if window is not None and time > 1 and (time - 1) % window == 0:
            states = robot.restore(demonstrations.observations[rows - 1], like=states)
        guess = None if found is None else found.select(np.arange(active))
        found = inverse_dynamics(states, demonstrations.observations[rows], guess=guess)
        states, diverging = advance(robot, states, found.actions)
        actions[rows - 1], verdicts[rows - 1] = found.actions, found.verdict
        diverged[longest_first[:active][diverging]] = True
        observations = robot.observe(states)
        if noise:
            assert rng is not None, "noise needs a generator"
            # Eq. 7 perturbs states; the authors' script perturbs actions.
            states = robot.restore(observations + rng.uniform(-noise, noise, observations.shape), like=states)
            observations = robot.observe(states)
        reached[rows] = observations
        progress(time / lengths[0])
    rows = demonstrations.transition_rows
    return Replay(demonstrations, reached, diverged, actions[rows], verdicts[rows])
