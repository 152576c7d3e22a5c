"""Motion so gentle that the robot's steps, in which verdicts are measured, are too coarse to tell whether it is the robot's own."""

from dataclasses import replace

import numpy as np

from imitable.arrays import Array, Booleans, one_thread
from imitable.assessment import Assessment
from imitable.inverse_dynamics import Solved, floored_scale
from imitable.restorability import restorable_rows

TRANSITIONS, OF_EACH = 400, (5, 12)
"""Solved for precisely: of all demonstrations that are asked about together, and of each one at least and at most."""
PRECISION = 0.01
"""How precisely, in units of what the demonstration changes in a step."""
LEAST_CHANGE, ROUNDINGS = 1e-3, 50.0
"""Of a step, and of what rounding leaves unknown: a demonstration that changes less counts as changing this much."""
COARSE = 1e-3
"""Of a step: data rounded more coarsely than this are not asked about, as are noisy ones."""
DOUBTFUL_MISS = 0.04
"""Of what a demonstration changes in a step, from which on its miss casts doubt on it: clean data of the robot's own stay below
`PRECISION`, but for the few steps that the search does not settle."""


@one_thread()
def relative_misses(assessment: Assessment, asked: Booleans) -> Array:
    """(demo,) how far the robot misses the next observation of a demonstration, in units of what the demonstration itself changes in a
    step (medians); NaN for those not asked about (demo,), and where it would say little: with noise, coarse rounding or hidden state.

    Verdicts compare a miss with a step under random actions. A hovering drone moves by a small part of that, so that what a steady wind
    or another mass adds is small, too; in units of its own motion it is not.
    """
    demonstrations, robot, scale = assessment.demonstrations, assessment.robot, floored_scale(assessment.step_scale)
    found = np.full(len(demonstrations), np.nan)
    rounding = float(np.sqrt(np.square(_rounding(assessment) / scale).mean()))
    if not isinstance(assessment.model, Solved) or assessment.noise or assessment.hides_state or rounding > COARSE:
        return found
    solver, rng = assessment.model.for_tracking(0.0), np.random.default_rng(0)
    known = restorable_rows(demonstrations, robot)
    each = int(np.clip(TRANSITIONS // max(1, asked.sum()), *OF_EACH))
    for demo in np.flatnonzero(asked).tolist():
        first = demonstrations.starts[demo] + np.arange(demonstrations.lengths[demo])
        shown = demonstrations.trajectory(demo)
        change = max(LEAST_CHANGE, ROUNDINGS * rounding, float(np.median(np.sqrt(np.square(np.diff(shown, axis=0) / scale).mean(axis=1)))))
        rows = first[known[first]]
        if not len(rows):
            continue
        rows = rng.choice(rows, min(len(rows), each), replace=False)
        states, wanted = robot.restore(demonstrations.observations[rows]), demonstrations.observations[rows + 1]
        solved = replace(solver, tolerance=PRECISION * change).solve(robot, states, wanted, scale=scale)
        found[demo] = float(np.median(solved.miss)) / change
    return found


def _rounding(assessment: Assessment) -> Array:
    """(observation,) the unit that demonstrations are rounded to, by decimals or to single precision."""
    observations = assessment.demonstrations.observations
    single = np.equal(observations, observations.astype(np.float32)).all(axis=0)
    return np.maximum(assessment.rounding, np.where(single, np.finfo(np.float32).eps * np.abs(observations).max(axis=0), 0.0))
