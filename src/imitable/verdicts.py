"""The score table: a verdict on every demonstration, and the cause where the robot cannot follow it."""

from typing import TYPE_CHECKING, Any

import numpy as np

from imitable.arrays import Array, Booleans, Integers
from imitable.assessment import Assessment
from imitable.demonstrations import Demonstrations
from imitable.inverse_dynamics import Solved, floored_scale
from imitable.restorability import restorable_rows
from imitable.scores import Score, demonstration_weights, score_columns
from imitable.simulators import action_names, joint_ranges
from imitable.windows import FOLLOWED, Windows, worst_window

if TYPE_CHECKING:
    import mujoco

Table = dict[str, np.ndarray[Any, Any]]
"""Columns by name, (demo,) each."""
KEPT, INFEASIBLE, WORSE, UNRATED = VERDICTS = ("kept", "infeasible", "worse", "unrated")
"""A demonstration is learned from; the robot cannot follow it; it is worse than another one from nearby; or it has no return, where
others have one."""
LEAST_WEIGHT = 0.05
"""Weight above which a demonstration counts as kept."""
WHOLLY = 0.9
"""Feasibility above which a demonstration counts as followed from beginning to end."""
TOO_STRONG, BEYOND_RANGE, UNSUPPORTED, UNCLEAR = "too strong", "beyond range", "unsupported", "unclear"
"""Causes of infeasibility, in whole or in part: an actuator would have to be stronger by a known factor; a joint is beyond its range; no
action of any size would do, as for a root that nothing holds; or none of these is clear."""
OUTSIDE, FAR_OUTSIDE = 0.02, 0.1
"""How far a joint is beyond its range (and beyond the robot's own trajectories), in units of the range, to be a cause: where no actuator is
too weak, and in any case."""
STRONGER = 1.02
"""Limit factor from which on an actuator is too weak; the factor is known to first order only."""


def score_table(demonstrations: Demonstrations, assessment: Assessment, score: Score | None = None) -> Table:
    """One row per demonstration: facts, the columns of the score, weight (mean over its transitions), verdict and cause."""
    score = assessment.default_score if score is None else score
    table: Table = {
        "demonstration": np.arange(len(demonstrations)),
        "source": np.array(demonstrations.sources or ["unknown"] * len(demonstrations)),
        "length": demonstrations.lengths,
        "return": demonstrations.returns,
        **score_columns(score, assessment),
        "weight": demonstration_weights(assessment.scored(score), demonstrations.lengths),
    }
    table["verdict"] = verdicts(table)
    if {"limit_factor", "limiting_actuator"} <= table.keys():
        beyond = _beyond_range(demonstrations, assessment, table)
        table["cause"] = causes(table, beyond=beyond)
        unexplained = np.flatnonzero(np.isin(table["cause"], (UNSUPPORTED, UNCLEAR)))
        table["cause"][unexplained[_possible_without_ranges(assessment, table, unexplained)]] = BEYOND_RANGE
        table["limiting_actuator"] = np.array([*action_names(assessment.robot), ""])[table["limiting_actuator"]]  # -1: none
    return table


def verdicts(table: Table) -> np.ndarray[Any, Any]:
    """(demo,) one of VERDICTS each, from feasibility and optimality if the score has them."""
    ones = np.ones(len(table["weight"]))
    feasibility, optimality = table.get("feasibility", ones), np.nan_to_num(table.get("optimality", ones), nan=1.0)
    rejected = np.where((optimality < feasibility) | ("feasibility" not in table), WORSE, INFEASIBLE)
    rejected = np.where(np.isnan(table["return"]) & (feasibility > LEAST_WEIGHT), UNRATED, rejected)
    return np.where(table["weight"] > LEAST_WEIGHT, KEPT, rejected)


def followed_in_part(table: Table) -> np.ndarray[Any, Any]:
    """(demo,) whether the robot cannot follow all of it; of none if the score has no feasibility."""
    none = np.zeros(len(next(iter(table.values()))), dtype=bool)
    if "feasibility" not in table:
        return none
    return np.asarray((table["feasibility"] < WHOLLY) | table.get("impossible_part", none))


def causes(table: Table, *, beyond: Array) -> np.ndarray[Any, Any]:
    """(demo,) the cause of each demonstration that the robot cannot follow from beginning to end; empty for the others.

    `beyond` (demo,) is how far a joint is outside its range, in units of the range. A motion past a joint's limit often needs more force,
    too; so a joint that is far outside decides first, then an actuator that is too weak, then a joint that is a little outside.
    """
    factor, at_limit = table["limit_factor"], table["limiting_actuator"] >= 0
    cause = np.select(
        [beyond > FAR_OUTSIDE, at_limit & (factor >= STRONGER) & (factor < np.inf), beyond > OUTSIDE, factor == np.inf],
        [BEYOND_RANGE, TOO_STRONG, BEYOND_RANGE, UNSUPPORTED],
        UNCLEAR,
    )
    return np.where((table["verdict"] == INFEASIBLE) | followed_in_part(table), cause, "")


def _beyond_range(demonstrations: Demonstrations, assessment: Assessment, table: Table) -> Array:
    """(demo,) how far a joint is outside its range, in units of the range, at the first step that is lost and at the worst one of the
    worst window, of which the limiting actuator is known; 0: none is. Elsewhere in a window a stronger actuator may press a joint beyond
    its soft limit."""
    found, own = np.zeros(len(demonstrations)), assessment.own_episodes[0].trajectories.observations
    worst = _worst_step(assessment.tracked.demonstration_windows)
    for column, low, high in joint_ranges(assessment.robot):
        lowest, highest = min(low, own[:, column].min()), max(high, own[:, column].max())  # limits are soft, and starts may be beyond
        for demo in np.flatnonzero(table["first_bad_step"] >= 0).tolist():
            shown = demonstrations.trajectory(demo)[:, column]
            window = np.concatenate([shown[at : at + 2] for at in (table["first_bad_step"][demo], worst[demo])])
            found[demo] = max(found[demo], (lowest - window.min()) / (high - low), (window.max() - highest) / (high - low))
    return found


def _worst_step(windows: Windows) -> Integers:
    """(demo,) the step that is lost most, of the worst window."""
    rows = worst_window(windows)
    return np.asarray(windows.start[rows] + np.nan_to_num(windows.step_distances[rows], nan=-1.0).argmax(axis=1))


def _possible_without_ranges(assessment: Assessment, table: Table, numbers: Integers) -> Booleans:
    """(number,) of demonstrations of these numbers, whether one of their joints is beyond its range at the first step that is lost or at
    the worst one, and the robot would reach what follows if joints had no ranges.

    A range gives way to strong actuators, so that what the robot itself shows beyond it is no cause to `_beyond_range`; where a joint
    rests there at ease, nothing but this trial tells.
    """
    robot: Any = assessment.robot
    demonstrations, noise = assessment.demonstrations, assessment.tracking_noise
    found: Booleans = np.zeros(len(numbers), dtype=bool)
    if not (hasattr(robot, "altered") and isinstance(assessment.model, Solved)) or assessment.hides_state:
        return found
    at = np.concatenate([table["first_bad_step"][numbers], _worst_step(assessment.tracked.demonstration_windows)[numbers]])
    of = np.tile(np.arange(len(numbers)), 2)[at >= 0]
    rows = demonstrations.starts[numbers[of]] + at[at >= 0]
    outside = np.zeros(len(rows), dtype=bool)
    for column, low, high in joint_ranges(robot):
        shown = demonstrations.observations[[rows, rows + 1], column]
        outside |= ((shown < low - OUTSIDE * (high - low)) | (shown > high + OUTSIDE * (high - low))).any(axis=0)
    tried = outside & restorable_rows(demonstrations, robot)[rows]
    rows, of = rows[tried], of[tried]
    if len(rows):

        def free(model: "mujoco.MjModel") -> None:
            model.jnt_limited[:] = 0

        states, wanted = robot.restore(demonstrations.observations[rows]), demonstrations.observations[rows + 1]
        solver, scale = assessment.model.for_tracking(noise), floored_scale(assessment.step_scale)
        found[of[solver.solve(robot.altered(free), states, wanted, scale=scale).miss <= FOLLOWED + 2 * noise]] = True
    return found
