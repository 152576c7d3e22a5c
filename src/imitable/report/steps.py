"""The table of transitions: what is known of each, and nothing (null) of those that were not tried."""

from typing import Any

import numpy as np

from imitable.arrays import Array, Integers
from imitable.assessment import Assessment
from imitable.scores import Feasibility, ReplayFeasibility, Score, factors_of
from imitable.scores.base import per_transition
from imitable.scores.feasibility import ramp_down
from imitable.simulators import action_names

Columns = dict[str, "np.ndarray[Any, Any]"]
FOLLOWED, NOT_FOLLOWED = "followed", "not followed"


def steps_table(assessment: Assessment, score: Score) -> Columns:
    """(transition,) columns, masked where nothing is known: feasibility and miss (in units of the robot's own one-step changes; with
    noise, the mean over the window it was followed in), the verdict, and where it is lost the worst column and the limiting actuator of
    its window."""
    lengths = assessment.demonstrations.lengths
    first = assessment.demonstrations.transition_starts
    steps = np.arange(int(lengths.sum())) - np.repeat(first, lengths)
    known = {"demonstration": np.repeat(np.arange(len(lengths)), lengths), "step": steps}
    factors = factors_of(score)
    by_windows = next((each for each in factors if isinstance(each, Feasibility)), None)
    by_replay = next((each for each in factors if isinstance(each, ReplayFeasibility)), None)
    judged: Columns = {}
    if by_windows is not None:
        judged = _from_windows(assessment, by_windows, first)
    elif by_replay is not None:
        judged = _from_replay(assessment, by_replay)
    return {**known, **judged, "weight": per_transition(assessment.scored(score), lengths)}


def _from_windows(assessment: Assessment, score: Feasibility, first: Integers) -> Columns:
    tracked, lengths, robot = assessment.tracked, assessment.demonstrations.lengths, assessment.robot
    shown = tracked.demonstration_windows
    by_step = np.where(np.isnan(shown.step_distances), np.nan, shown.distances[:, None]) if tracked.noise else shown.step_distances
    window, step = np.nonzero(~np.isnan(by_step))
    at, misses = first[shown.demo[window]] + shown.start[window] + step, by_step[window, step]
    count = int(lengths.sum())
    tried = np.bincount(at, minlength=count)

    def mean(values: Array) -> Array:
        return np.asarray(np.bincount(at, values, count) / np.maximum(tried, 1))

    worst = np.full(count, -1)  # of several windows, the one that strays most
    order = np.argsort(misses, kind="stable")
    worst[at[order]] = window[order]
    feasibility = mean(ramp_down(misses, score.tolerance(assessment)))
    lost = (feasibility < 0.5) & (tried > 0)
    columns = np.array(robot.observation_names, dtype=object)[shown.worst_column[worst]]
    actuators = np.array([*action_names(robot), ""], dtype=object)[shown.limiting_actuator[worst]]
    return {
        "feasibility": np.ma.masked_array(feasibility, tried == 0),
        "miss": np.ma.masked_array(mean(misses.clip(max=1e6)), tried == 0),
        "verdict": np.ma.masked_array(np.array([FOLLOWED, NOT_FOLLOWED], dtype=object)[lost.astype(np.int64)], tried == 0),
        "worst_column": np.ma.masked_array(columns, ~lost),
        "limiting_actuator": np.ma.masked_array(actuators, ~lost | (actuators == "")),
    }


def _from_replay(assessment: Assessment, score: ReplayFeasibility) -> Columns:
    """The robot was not put back on the way, so that what it misses at one step it may still miss at the next."""
    replay, demonstrations = assessment.replay, assessment.demonstrations
    miss = replay.step_distances(score.columns)
    broken = np.repeat(replay.diverged, demonstrations.lengths)
    feasibility = ramp_down(miss, score.tolerance(assessment))
    return {
        "feasibility": np.ma.masked_array(feasibility, broken),
        "miss": np.ma.masked_array(miss, broken),
        "verdict": np.ma.masked_array(np.array([FOLLOWED, NOT_FOLLOWED], dtype=object)[(feasibility < 0.5).astype(np.int64)], broken),
    }
