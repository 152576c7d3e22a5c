"""From demonstrations to an evaluated policy in one function, which every command that learns runs."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from imitable.arrays import Array, Generator, Progress, Snapshot, no_progress, one_thread, part_of
from imitable.assessment import Assessment, CacheLookup, Exploration, assess, no_cache
from imitable.demonstrations import Demonstrations
from imitable.errors import check_fields
from imitable.evaluation import N_EVAL_EPISODES, Measurement, measure
from imitable.inverse_dynamics import InverseDynamicsModel
from imitable.learners import Learner
from imitable.sampling import effective_sample_size
from imitable.scores import Score, demonstration_weights, score_facts
from imitable.simulators import Simulator
from imitable.verdicts import Table, score_table


@dataclass(frozen=True)
class Streams:
    """One independent random generator per stage, fresh at every call: a draw added to one stage cannot move another."""

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
    """The outcome of one run."""

    weights: Array
    """(demo,) or (transition,)"""
    curve: tuple[Measurement, ...]
    """Evaluated checkpoints of this run; those of a resumed run begin where it was interrupted."""
    summary: dict[str, Any]
    """Facts about scores and samples, for reports."""

    @property
    def mean_return(self) -> float:
        """Of the last policy, not of the best checkpoint."""
        return float(self.curve[-1].returns.mean())


class Record:
    """Where a run is saved while it goes on; of this one nothing is."""

    def snapshot(self) -> Snapshot | None:
        """The snapshot to resume from; None to start at the beginning."""
        return None

    def save_scores(self, table: Table) -> None:
        """Called once, before the learning."""

    def add(self, measurement: Measurement) -> None:
        """Called with every checkpoint."""


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
    """Learn a policy for the robot from imperfect demonstrations; checkpoints are evaluated, on another simulator if one is given."""
    streams, record, began = Streams(seed), record or Record(), time.perf_counter()
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
    """Evaluated checkpoints, learned with these weights (demo,) or (transition,)."""
    streams, record, curve = Streams(seed), record or Record(), []
    checkpoints = learner(assessment, weights, rng=streams.learning(), resume=record.snapshot())
    for measurement in measure(checkpoints, evaluated_on or assessment.robot, episodes=episodes, rng=streams.evaluating()):
        record.add(measurement)
        curve.append(measurement)
        progress(measurement.checkpoint.progress)
    return tuple(curve)


def facts(demonstrations: Demonstrations, assessment: Assessment, score: Score | None, weights: Array) -> dict[str, Any]:
    """What the score measured, and a summary of the weights."""
    return {
        "diverged": {"assessing": sum(assessment.diverged.values())},
        **score_facts(assessment.default_score if score is None else score, assessment),
        **weight_summary(demonstrations, weights),
    }


def weight_summary(demonstrations: Demonstrations, weights: Array) -> dict[str, Any]:
    """The effective number of demonstrations, and the share of the samples by source."""
    mean_weights = demonstration_weights(weights, demonstrations.lengths)
    mass = mean_weights * demonstrations.lengths
    names = sorted(set(demonstrations.sources or ()))
    return {
        "effective_demonstrations": effective_sample_size(mean_weights),
        "share_by_source": {name: round(float(mass[demonstrations.from_source(name)].sum() / mass.sum()), 4) for name in names},
    }
