"""Observation noise: how large it is in the demonstrations, and the same noise on other trajectories."""

import numpy as np

from imitable.arrays import Array, Generator
from imitable.demonstrations import Demonstrations
from imitable.inverse_dynamics import InverseDynamics
from imitable.restorability import restorable_rows
from imitable.rollouts import Episodes
from imitable.rounding import round_to
from imitable.simulators import Simulator

MOVING = 0.1
"""Standard deviation of one-step changes, in units of the scale, above which the robot is said to move a column."""
EXPLAINED = 0.1
"""Residual in the robot's own clean trajectories, in units of a step, above which a column says nothing about noise."""
SOLVED_TRANSITIONS, EXACT_SHARE = 64, 0.05
"""Transitions solved to test whether an estimate is noise, and the share of exactly reached ones from which on it is not."""


def noise_margin(noise: float, scale: Array) -> Array:
    """(observation,) how far noise of this level may move an observation."""
    return np.asarray(3 * noise * scale)


def noise_level(own: Episodes, demonstrations: Demonstrations, scale: Array, robot: Simulator) -> float:
    """The standard deviation of noise on the demonstrations' observations, in units of the robot's own one-step changes.

    In clean trajectories of whatever body some columns follow from others, such as the change of a position from velocities. Each
    column's change is regressed on all else over the robot's own trajectories; what the demonstrations leave unexplained beyond that,
    in the column that is explained best, is noise.
    """
    before, after = (_pairs(each, scale, robot) for each in (own.trajectories, demonstrations))
    if not (len(before[0]) and len(after[0])):
        return 0.0
    moving = np.flatnonzero(before[1].std(axis=0) > MOVING)
    levels = (_column_noise(before, after, int(column)) for column in moving)
    return min((level for level in levels if np.isfinite(level)), default=0.0)


def _pairs(trajectories: Demonstrations, scale: Array, robot: Simulator, most: int = 20_000) -> tuple[Array, Array]:
    """Scaled observations and changes of up to `most` transitions, evenly spread, between observations that determine states."""
    clear = restorable_rows(trajectories, robot, margin=scale)  # by a whole step, as long as the noise is not known
    rows = trajectories.transition_rows
    rows = rows[clear[rows] & clear[rows + 1]]
    rows = rows[:: max(1, len(rows) // most)]
    observations = trajectories.observations[rows] / scale
    return observations, trajectories.observations[rows + 1] / scale - observations


def _column_noise(own: tuple[Array, Array], shown: tuple[Array, Array], column: int) -> float:
    def regressors(pairs: tuple[Array, Array]) -> Array:
        observations, changes = pairs[0] - own[0].mean(axis=0), pairs[1]  # constants, such as masses, would dwarf all else
        return np.concatenate([observations, np.delete(changes, column, axis=1), np.ones((len(changes), 1))], axis=1)

    width, features = own[0].shape[1], regressors(own)
    ridge = 1e-6 * len(features) * np.eye(features.shape[1])
    slopes = np.linalg.solve(features.T @ features + ridge, features.T @ own[1][:, column])
    unexplained = [1.4826 * float(np.median(np.abs(pairs[1][:, column] - regressors(pairs) @ slopes))) for pairs in (own, shown)]
    if unexplained[0] > EXPLAINED:
        return np.inf
    if unexplained[1] < 2 * unexplained[0]:  # no more than what the regression misses of clean data elsewhere, such as of a sine
        return 0.0
    of_change = -np.insert(slopes[width:-1], column, -1.0)  # this column's change less what the others' changes say
    amplification = float(np.sqrt(np.square(of_change + slopes[:width]).sum() + np.square(of_change).sum()))
    return float(np.sqrt(max(unexplained[1] ** 2 - unexplained[0] ** 2, 0.0))) / amplification


def noisy(trajectories: Demonstrations, level: float, scale: Array, rng: Generator, *, rounding: Array | float = 0.0) -> Demonstrations:
    """Trajectories with noise of this level on every column, rounded to multiples of `rounding` (observation,) where that is above 0."""
    if not level and not np.any(rounding):
        return trajectories
    noise = level * scale * rng.standard_normal(trajectories.observations.shape) if level else 0.0
    return Demonstrations(round_to(trajectories.observations + noise, rounding), trajectories.lengths, trajectories.returns)


def is_noise(
    level: float, demonstrations: Demonstrations, robot: Simulator, inverse_dynamics: InverseDynamics, *, scale: Array, rng: Generator
) -> bool:
    """Whether an estimated level can be noise: then hardly any transition is reached much more exactly than that. The regression may
    take contacts, which it does not explain, for noise.

    True where this cannot be tested: a robot with as many actuators as columns reaches noisy observations too, and an inverse dynamics
    that does not simulate does not say what it reaches.
    """
    if len(robot.action_low) >= demonstrations.width:
        return True
    rows = demonstrations.transition_rows
    rows = rows[restorable_rows(demonstrations, robot, margin=noise_margin(level, scale))[rows]]
    rows = rng.choice(rows, min(len(rows), SOLVED_TRANSITIONS), replace=False)
    found = inverse_dynamics(robot.restore(demonstrations.observations[rows]), demonstrations.observations[rows + 1])
    if np.isnan(found.miss).all():
        return True
    return bool((found.miss < 0.1 * level).mean() < EXACT_SHARE)
