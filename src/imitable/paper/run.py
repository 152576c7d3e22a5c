"""Run a method of the paper on one of its tasks: one cell of its table, in memory or kept in a folder as it goes."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imitable.arrays import Progress, no_progress, one_thread, part_of
from imitable.assessment import ASSESS_VERSION, CacheLookup, no_cache
from imitable.check import check_columns
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError, at_least, check_fields
from imitable.evaluation import N_EVAL_EPISODES
from imitable.formats import npz
from imitable.inverse_dynamics import INVERSE_DYNAMICS
from imitable.learners import LEARN_VERSION, Learner
from imitable.overrides import with_replaced
from imitable.paper.demonstrators import COLLECT_VERSION, DEMONSTRATIONS, collect
from imitable.paper.methods import Method
from imitable.paper.overrides import with_overrides
from imitable.paper.tasks import Task
from imitable.pipeline import Record, Result, Streams, imitate
from imitable.registry import find
from imitable.scores import Score
from imitable.store.cache import described, versions
from imitable.store.runs import RunFolder


@dataclass(frozen=True)
class Experiment:
    """A task and a method with all their numbers, ready to run with any seed."""

    task: Task
    method: Method
    score: Score
    learner: Learner
    composition: str = "paper"  # of the task's own demonstrations
    count: int = DEMONSTRATIONS  # of these
    episodes: int = N_EVAL_EPISODES  # of each evaluation

    def __post_init__(self) -> None:
        check_fields(self, *at_least(self, 1, "episodes"))

    @classmethod
    def of(
        cls,
        task: Task,
        method: Method,
        *,
        learner: str | None = None,
        inverse: str | None = None,
        overrides: Sequence[str] = (),
        composition: str = "paper",
        count: int = DEMONSTRATIONS,
        episodes: int = N_EVAL_EPISODES,
    ) -> "Experiment":
        """With the learner that the method insists on, that is asked for, or that is the task's own; and numbers replaced by overrides."""
        learner = method.learner_name(learner)
        if inverse is not None:
            task = task.with_model(find("inverse dynamics", inverse, INVERSE_DYNAMICS, needs=("fit", "restored")))
        chosen = task.find_learner(learner)
        of_score = [each for each in overrides if each.startswith("score.")]
        task, chosen = with_overrides(task, chosen, [each for each in overrides if each not in of_score])
        score = with_replaced({"score": method.score(task)}, of_score, place=f" of {method.name}")["score"]
        return cls(task, method, score, chosen, composition, count, episodes)

    def config(self, *, seed: int, demonstrations: Demonstrations | None = None) -> dict[str, Any]:
        """Everything a run's numbers depend on, checked."""
        task = self.task
        if demonstrations is None:
            task.demonstrators.mixture.counts(self.composition, count=self.count)
            source = {"composition": self.composition, "demonstrators": described(task.demonstrators), "collect version": COLLECT_VERSION}
            source |= {"count": self.count} if self.count != DEMONSTRATIONS else {}
        else:
            source = {"sha256 of demonstrations": demonstrations.digest}
        parts = {"robot": task.robot, "model": task.model, "exploration": task.exploration, "score": self.score, "learner": self.learner}
        if task.evaluated_on is not None:
            parts["evaluated on"] = task.evaluated_on
        stages = {"assess": ASSESS_VERSION, "learn": LEARN_VERSION}
        return {
            "task": task.name,
            "method": self.method.name,
            "seed": Streams(seed).seed,
            **source,
            **({"episodes": self.episodes} if self.episodes != N_EVAL_EPISODES else {}),
            **{name: described(part) for name, part in parts.items()},
            "versions": {**versions(), **stages},
        }

    def run(
        self,
        *,
        seed: int,
        demonstrations: Demonstrations | None = None,
        cache: CacheLookup = no_cache,
        record: Record | None = None,
        progress: Progress = no_progress,
    ) -> Result:
        """Learn a policy for the task's robot from its own demonstrations, or from those that are given, and evaluate it."""
        task = self.task
        if demonstrations is None:
            part = part_of(progress, 0.0, 0.1)
            demonstrations = collected(task, seed=seed, count=self.count, composition=self.composition, cache=cache, progress=part)
        return imitate(
            demonstrations,
            task.robot,
            learner=self.learner,
            score=self.score,
            model=task.model,
            exploration=task.exploration,
            evaluated_on=task.evaluated_on,
            seed=seed,
            episodes=self.episodes,
            cache=cache,
            record=record,
            progress=part_of(progress, 0.1, 1.0),
        )


def run(task: Task, method: Method, *, seed: int, learner: str | None = None) -> Result:
    """Learn a policy for the task's robot from its imperfect demonstrations, and evaluate it: one cell of the paper's table."""
    return Experiment.of(task, method, learner=learner).run(seed=seed)


def run_in_folder(
    experiment: Experiment,
    folder: Path,
    *,
    seed: int,
    demonstrations: Demonstrations | None = None,
    overwrite: bool = False,
    resume: bool = False,
    cache: CacheLookup = no_cache,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """`Experiment.run` in a folder, and what its result.json holds; interrupted and resumed, it gives the curve of an uninterrupted run."""
    if demonstrations is not None:
        if experiment.composition != "paper":
            raise ImitableError(
                f"composition {experiment.composition!r} mixes the task's own demonstrations; leave it out when you give others"
            )
        check_columns(demonstrations, experiment.task.robot)
    record = RunFolder(folder)
    config = experiment.config(seed=seed, demonstrations=demonstrations)
    with record.lock():
        record.open(config, overwrite=overwrite, resume=resume)
        if (finished := record.result()) is not None:
            return finished
        return record.finish(experiment.run(seed=seed, demonstrations=demonstrations, cache=cache, record=record, progress=progress))


@one_thread()
def collected(
    task: Task,
    *,
    seed: int,
    count: int = DEMONSTRATIONS,
    composition: str = "paper",
    cache: CacheLookup = no_cache,
    progress: Progress = no_progress,
) -> Demonstrations:
    """The demonstrations of a task that this seed gives."""
    rng = Streams(seed).collecting()
    recipe = {"version": COLLECT_VERSION, "demonstrators": task.demonstrators, "count": count, "composition": composition, "rng": rng}
    return npz.from_arrays(
        cache(
            "demonstrations",
            recipe,
            lambda: npz.to_arrays(collect(task.demonstrators, count=count, composition=composition, rng=rng, progress=progress)),
        )
    )
