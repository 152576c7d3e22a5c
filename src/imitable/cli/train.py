"""`imitable train`: a policy from scored demonstrations."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from tyro.conf import Positional, arg

from imitable.arrays import Array, one_thread, part_of
from imitable.assessment import ASSESS_VERSION, Assessment
from imitable.cli.check import quick_check
from imitable.cli.evaluate import format_returns
from imitable.cli.options import Overrides, Overwrite, Resume, Seed
from imitable.cli.score import assessed
from imitable.errors import ImitableError
from imitable.evaluation import FIRST_STEPS, N_EVAL_EPISODES, distance_along
from imitable.inverse_dynamics import floored_scale
from imitable.learners import LEARN_VERSION, LEARNERS, Learner
from imitable.networks import Policy
from imitable.overrides import with_replaced
from imitable.paper import TASK_NAMES
from imitable.paper.methods import find_method
from imitable.paper.tasks import find_task
from imitable.pipeline import Result, learn, weight_summary
from imitable.registry import find
from imitable.report.terminal import print_divergence, print_line as print, progress_bar
from imitable.store.cache import described, versions
from imitable.store.runs import RunFolder
from imitable.store.scores import SCORES, ScoreFolder
from imitable.verdicts import LEAST_WEIGHT, Table
from imitable.windows import FOLLOWED

Method = Literal["ours", "feasibility", "optimality", "none"]
NO_NEARER = 0.9
"""Of the distance of a robot that does nothing: a policy that is farther than this has learned nothing, unless both are near."""
COLUMNS: dict[str, str] = {"ours": "weight", "feasibility": "feasibility", "optimality": "optimality"}
"""Of the scores table of ours, by method; `none` needs none."""


def train(
    scores: Positional[Annotated[Path, arg(metavar="SCORES", help="a folder that `imitable score` made")]],
    *,
    output: Annotated[Path, arg(aliases=["-o"], help="a folder for the run")],
    method: Annotated[
        Method | None, arg(help="draw by weight (ours), by feasibility or optimality alone, or all alike; by default as it was scored")
    ] = None,
    learner: Annotated[str | None, arg(help=f"{', '.join(LEARNERS)} or module:object; cloning by default")] = None,
    seed: Seed = 0,
    overrides: Overrides = (),
    overwrite: Overwrite = False,
    resume: Resume = False,
) -> None:
    """Learn a policy for the robot from scored demonstrations, and evaluate it with the robot's own reward; where it has none, by how
    closely it keeps to the demonstrations."""
    settings, demonstrations, table = ScoreFolder(scores).load()
    scored_by = settings.get("method", "ours")
    name = method or scored_by
    weights = method_weights(table, name, scored_by=scored_by, place=scores / SCORES)
    chosen = find_learner(settings["robot"], find_method(name).learner_name(learner), overrides)
    record, began = RunFolder(output), time.perf_counter()
    with one_thread(), progress_bar(f"{settings['robot']} {name}") as progress:
        assessment, _ = assessed(demonstrations, settings, progress=part_of(progress, 0.0, 0.3))
        config = {
            "robot": settings["robot"],
            "robot_settings": settings["robot_settings"],
            "method": name,
            "seed": seed,
            "scores": str(scores.absolute()),
            "sha256 of demonstrations": demonstrations.digest,
            "weights": described(weights),
            **{name: described(part) for name, part in (("body", assessment.robot), ("model", assessment.model), ("learner", chosen))},
            "versions": {**versions(), "assess": ASSESS_VERSION, "learn": LEARN_VERSION},
        }
        with record.lock():
            record.open(config, overwrite=overwrite, resume=resume)
            if record.result() is None:
                quick_check(assessment.robot, demonstrations)
                record.save_scores(table)
                curve = learn(assessment, weights, chosen, seed=seed, record=record, progress=part_of(progress, 0.3, 1.0))
                left = {"diverged": {"assessing": sum(assessment.diverged.values())}, **weight_summary(demonstrations, weights)}
                record.finish(Result(weights, curve, {**left, "seconds": {"learn": round(time.perf_counter() - began, 1)}}))
    result: dict[str, Any] = record.result() or {}
    print(f"{output}: {format_returns(np.array(result['returns']))}")
    if np.isnan(result["returns"]).all():
        print_tracking(record.policy(), assessment, weights)
    known = np.isfinite(table["return"]) & (weights > 0)
    earned = f", which earned {np.average(table['return'][known], weights=weights[known]):.2f}" if known.any() else ""
    print(f"learned from effectively {result['effective_demonstrations']:.0f} of {len(demonstrations)} demonstrations{earned}")
    print_divergence(result["diverged"])


@one_thread()
def print_tracking(policy: Policy, assessment: Assessment, weights: Array) -> None:
    """What can be said of a policy on a robot without a reward: how closely it keeps to the demonstrations that it learned from; and a
    warning if a robot that does nothing keeps as close."""
    robot, used = assessment.robot, np.flatnonzero(weights > LEAST_WEIGHT * weights.max())
    shown = assessment.demonstrations.select(used[:: -(-len(used) // N_EVAL_EPISODES)])
    middle, scale = (robot.action_low + robot.action_high) / 2, floored_scale(assessment.step_scale)
    acting, idle = (
        float(np.median(distance_along(act, robot, shown, scale=scale))) for act in (policy, lambda seen: np.tile(middle, (len(seen), 1)))
    )
    print(
        f"in place of a return: started where {len(shown)} of its demonstrations start, the policy is {acting:.2g} of a step from them, a "
        f"robot whose actions stay mid-range {idle:.2g} (mean over the first {min(FIRST_STEPS, shown.lengths.max())} steps; median)"
    )
    if acting > max(FOLLOWED, NO_NEARER * idle):
        print(
            "warning: the policy is hardly nearer to its demonstrations than a robot that does nothing, or not at all: look at what it "
            "learned from (`imitable check`), train longer (--set updates=...) or by another --learner"
        )


def method_weights(table: Table, method: str, *, scored_by: str = "ours", place: Path) -> Array:
    """(demo,) the weights that a method takes from the table of scores by the same method, or by another."""
    if method == "none":
        return np.ones(len(table["weight"]))
    column = "weight" if method == scored_by else COLUMNS[method]
    if column not in table or (column == "weight" and method != scored_by):
        raise ImitableError(f"{place} was made by method {scored_by}, which does not tell what {method} says; score with --method {method}")
    weights = np.asarray(table[column], dtype=np.float64)
    if method == "optimality" and (unknown := int(np.isnan(weights).sum())):
        raise ImitableError(f"the optimality of {unknown} of {len(weights)} demonstrations in {place} is not known; choose another method")
    if not weights.any():
        raise ImitableError(f"all {len(weights)} weights in {place} are zero, so there is nothing to learn from; see its verdicts")
    return weights


def find_learner(robot: str, name: str | None, overrides: Sequence[str]) -> Learner:
    """The learner of this name, by default cloning; on the target of one of our tasks with the numbers that suit it."""
    if robot in TASK_NAMES:
        found = find_task(robot).find_learner(name)
    else:
        found = find("learner", name or "cloning", LEARNERS, needs=("__call__",))
    learner: Learner = with_replaced({"learner": found}, overrides, place=f" of {type(found).__name__}")["learner"]
    return learner
