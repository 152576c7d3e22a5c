"""The path of the data in one function, from demonstrations to a measured policy; every command that learns runs it."""

import time
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from imitable.arrays import Array, Generator, Progress, Snapshot, no_progress, one_thread, part_of
from imitable.assessment import Assessment, CacheLookup, Exploration, assess, no_cache
from imitable.demonstrations import Demonstrations
from imitable.errors import check_fields
from imitable.evaluation import N_EVAL_EPISODES, Measurement, measure
from imitable.inverse_dynamics import InverseDynamicsModel
from imitable.learners import Learner
from imitable.sampling import demonstration_weights, effective_sample_size
from imitable.scores import Score, score_columns, score_facts
from imitable.simulators import Simulator, action_names, joint_ranges
from imitable.windows import worst_window

Table = dict[str, np.ndarray[Any, Any]]
"""Columns by name, (demo,) each."""
KEPT, INFEASIBLE, WORSE, UNRATED = VERDICTS = ("kept", "infeasible", "worse", "unrated")
"""What becomes of a demonstration: it is learned from; the robot cannot follow it; it is worse than another one from nearby; it has no
return, where others have one."""
OUTSIDE, FAR_OUTSIDE = 0.02, 0.05
"""Of a joint's range, beyond it and beyond what the robot itself shows: by so much it counts where no actuator is too weak, and whatever
the actuators say."""
STRONGER = 1.02
"""Times as strong, from which on an actuator is too weak: the factor is known to first order only."""
LEAST_WEIGHT = 0.05
"""From which on a demonstration counts as kept."""
TOO_STRONG, BEYOND_RANGE, UNSUPPORTED, UNCLEAR = "too strong", "beyond range", "unsupported", "unclear"
"""Why a demonstration is infeasible: an actuator would have to be stronger, and by what factor is known; a joint is beyond its range; no
action would do, whatever its size, as for a root that nothing holds; or none of these is clear."""


@dataclass(frozen=True)
class Streams:
    """One independent stream of randomness per stage, each startable again: a draw added to one stage cannot move another."""

    seed: int

    def __post_init__(self) -> None:
        check_fields(self, ("seed", self.seed >= 0, "a whole number from 0 on"))

    def collecting(self) -> Generator:
        return self._fresh(0)

    def assessing(self) -> Generator:
        return self._fresh(1)

    def learning(self) -> Generator:
        return self._fresh(2)

    def evaluating(self) -> Generator:
        return self._fresh(3)

    def _fresh(self, stage: int) -> Generator:
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(stage,)))


@dataclass(frozen=True)
class Result:
    """What came of one run."""

    weights: Array
    """(demo,) or (transition,)"""
    curve: tuple[Measurement, ...]
    """The checkpoints that were learned in this run; a resumed one begins where it was interrupted."""
    summary: dict[str, Any]
    """Facts about scores and samples, for reports."""

    @property
    def mean_return(self) -> float:
        """Of the last policy: no picking of the best one on the way."""
        return float(self.curve[-1].returns.mean())


class Record(Protocol):
    """Where a run is kept as it goes."""

    def snapshot(self) -> Snapshot | None:
        """Where an interrupted run can go on; None to start at the beginning."""
        ...

    def save_scores(self, table: Table) -> None: ...

    def add(self, measurement: Measurement) -> None: ...


@dataclass(frozen=True)
class InMemory:
    """A run that is kept nowhere."""

    def snapshot(self) -> Snapshot | None:
        return None

    def save_scores(self, table: Table) -> None:
        pass

    def add(self, measurement: Measurement) -> None:
        pass


@one_thread()
def imitate(
    demonstrations: Demonstrations,
    robot: Simulator,
    *,
    learner: Learner,
    score: Score | None = None,
    model: InverseDynamicsModel | None = None,
    exploration: Exploration | None = None,
    evaluated_on: Simulator | None = None,
    seed: int = 0,
    episodes: int = N_EVAL_EPISODES,
    cache: CacheLookup = no_cache,
    record: Record | None = None,
    progress: Progress = no_progress,
) -> Result:
    """Learn a policy for the robot from imperfect demonstrations, and evaluate it on the way, on another simulator if one is given."""
    streams, record, began = Streams(seed), record or InMemory(), time.perf_counter()
    assessing = part_of(progress, 0.0, 0.3)
    assessment = assess(
        demonstrations, robot, model=model, exploration=exploration, rng=streams.assessing(), cache=cache, progress=assessing
    )
    weights = assessment.weights(score)
    record.save_scores(score_table(demonstrations, assessment, score))
    scored = time.perf_counter()
    where: dict[str, Any] = {"evaluated_on": evaluated_on, "episodes": episodes}
    curve = learn(assessment, weights, learner, **where, seed=seed, record=record, progress=part_of(progress, 0.3, 1.0))
    seconds = {"assess": round(scored - began, 1), "learn": round(time.perf_counter() - scored, 1)}
    return Result(weights, curve, {**facts(demonstrations, assessment, score, weights), "seconds": seconds})


@one_thread()
def learn(
    assessment: Assessment,
    weights: Array,
    learner: Learner,
    *,
    evaluated_on: Simulator | None = None,
    seed: int = 0,
    episodes: int = N_EVAL_EPISODES,
    record: Record | None = None,
    progress: Progress = no_progress,
) -> tuple[Measurement, ...]:
    """The policies on the way, measured; weights (demo,) or (transition,) are given."""
    streams, record, curve = Streams(seed), record or InMemory(), []
    checkpoints = learner(assessment, weights, rng=streams.learning(), resume=record.snapshot())
    for measurement in measure(checkpoints, evaluated_on or assessment.robot, episodes=episodes, rng=streams.evaluating()):
        record.add(measurement)
        curve.append(measurement)
        progress(measurement.checkpoint.progress)
    return tuple(curve)


def score_table(demonstrations: Demonstrations, assessment: Assessment, score: Score | None = None) -> Table:
    """One row per demonstration: what it is, what the score says of it, and what becomes of it; the weight is its transitions' mean."""
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
        table["cause"] = causes(table, beyond=_beyond_range(demonstrations, assessment, table))
        table["limiting_actuator"] = np.array([*action_names(assessment.robot), ""])[table["limiting_actuator"]]  # -1: none
    return table


def verdicts(table: Table) -> np.ndarray[Any, Any]:
    """(demo,) of VERDICTS, from feasibility and optimality where the score has them."""
    ones = np.ones(len(table["weight"]))
    feasibility, optimality = table.get("feasibility", ones), np.nan_to_num(table.get("optimality", ones), nan=1.0)
    rejected = np.where(optimality < feasibility, WORSE, INFEASIBLE)
    rejected = np.where(np.isnan(table["return"]) & (feasibility > LEAST_WEIGHT), UNRATED, rejected)
    return np.where(table["weight"] > LEAST_WEIGHT, KEPT, rejected)


def causes(table: Table, *, beyond: Array) -> np.ndarray[Any, Any]:
    """(demo,) why those that are infeasible are; empty for the others.

    `beyond` (demo,) is how far a joint is outside its range, in units of the range. Who moves a joint to its limit and further often asks
    for more force, too: a joint that is far outside decides, then an actuator that is too weak, then a joint that is a little outside.
    """
    factor, at_limit = table["limit_factor"], table["limiting_actuator"] >= 0
    cause = np.select(
        [beyond > FAR_OUTSIDE, at_limit & (factor >= STRONGER) & (factor < np.inf), beyond > OUTSIDE, factor == np.inf],
        [BEYOND_RANGE, TOO_STRONG, BEYOND_RANGE, UNSUPPORTED],
        UNCLEAR,
    )
    return np.where(table["verdict"] == INFEASIBLE, cause, "")


def _beyond_range(demonstrations: Demonstrations, assessment: Assessment, table: Table) -> Array:
    """(demo,) how far a joint is outside its range in the window that is lost first or in the worst one, which the actuators are told of;
    in units of the range, 0: none is."""
    found, own, tracked = np.zeros(len(demonstrations)), assessment.own_episodes[0].trajectories.observations, assessment.tracked
    worst = tracked.demonstration_windows.start[worst_window(tracked.demonstration_windows)]
    for column, low, high in joint_ranges(assessment.robot):
        lowest, highest = min(low, own[:, column].min()), max(high, own[:, column].max())  # limits are soft, and starts may be beyond
        for demo in np.flatnonzero(table["first_bad_step"] >= 0).tolist():
            shown = demonstrations.trajectory(demo)[:, column]
            window = np.concatenate([shown[at : at + tracked.length + 1] for at in (table["first_bad_step"][demo], worst[demo])])
            found[demo] = max(found[demo], (lowest - window.min()) / (high - low), (window.max() - highest) / (high - low))
    return found


def facts(demonstrations: Demonstrations, assessment: Assessment, score: Score | None, weights: Array) -> dict[str, Any]:
    """What the score measured, and what it leaves."""
    return {
        "diverged": {"assessing": sum(assessment.diverged.values())},
        **score_facts(assessment.default_score if score is None else score, assessment),
        **weight_summary(demonstrations, weights),
    }


def weight_summary(demonstrations: Demonstrations, weights: Array) -> dict[str, Any]:
    """How many demonstrations are effectively left, and whose samples they are."""
    mean_weights = demonstration_weights(weights, demonstrations.lengths)
    mass = mean_weights * demonstrations.lengths
    names = sorted(set(demonstrations.sources or ()))
    return {
        "effective_demonstrations": effective_sample_size(mean_weights),
        "share_by_source": {name: round(float(mass[demonstrations.from_source(name)].sum() / mass.sum()), 4) for name in names},
    }
