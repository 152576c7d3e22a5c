"""`imitable score`: a score for every demonstration, and for every transition that was tried."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from tyro.conf import Positional, arg

from imitable.arrays import Generator, Integers, one_thread, part_of
from imitable.assessment import Assessment, assess
from imitable.cli.check import in_robot_columns, print_note, quick_check
from imitable.cli.options import InverseName, MethodName, Overwrite, RobotName, RobotSettings, RobotSettingsArgument, Seed
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.formats import FORMATS, read
from imitable.gentleness import relative_misses
from imitable.inverse_dynamics import INVERSE_DYNAMICS
from imitable.paper import TASK_NAMES
from imitable.paper.methods import find_method
from imitable.paper.tasks import find_task, task_without_demonstrators
from imitable.pipeline import Streams
from imitable.registry import find
from imitable.report.figures import draw_scores
from imitable.report.reliability import print_few_demonstrations, print_gentle_demonstrations
from imitable.report.steps import steps_table
from imitable.report.terminal import print_causes, print_divergence, print_facts, print_line as print, print_scores, progress_bar
from imitable.robots import robot as find_robot
from imitable.scores import Feasibility, Score, Tolerance, score_facts
from imitable.scores.feasibility import TooFewWindowsError
from imitable.store.cache import default_cache
from imitable.store.scores import ScoreFolder
from imitable.verdicts import Table, followed_in_part, score_table

if TYPE_CHECKING:
    from imitable.conventions import Finding
    from imitable.conventions.recording import Doubt

NUMBERS = 12
"""The most demonstrations that are named by their numbers."""
MUCH = 0.1
"""Share of demonstrations that the robot cannot follow from which on conventions are looked at."""
NARROW = 3.0
"""In units of d_max: rejected demonstrations that are nearer are rejected by little."""


def score(
    data: Positional[Annotated[tuple[Path, ...], arg(metavar="DATA", help=f"demonstrations: {', '.join(FORMATS)}, or folders of them")]],
    *,
    robot: RobotName,
    output: Annotated[Path, arg(aliases=["-o"], help="a folder, for scores.parquet, steps.parquet and scores.png")],
    method: MethodName = "ours",
    inverse: InverseName = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
    robot_settings: RobotSettingsArgument = RobotSettings(),  # noqa: B008 (frozen)
) -> None:
    """Score every demonstration: feasibility on the robot, optimality, and their product, or what another method says. Goes on with
    `imitable train`.

    Distances are "of a step": in each column in units of the standard deviation of what one step of the robot under random actions changes
    there, root mean square over columns.
    """
    folder = ScoreFolder(output)
    settings = {"robot": robot, "robot_settings": robot_settings.given(), "method": method, "inverse": inverse, "seed": seed}
    with folder.open(overwrite=overwrite), one_thread(), progress_bar("scoring") as progress, warnings.catch_warnings():
        demonstrations = read(list(data), note=print_note)
        warnings.filterwarnings("ignore", "no demonstration has a return")  # which print_facts says
        assessment, chosen = assessed(demonstrations, settings, progress=progress)
        demonstrations = assessment.demonstrations.with_sources(demonstrations.sources)  # in the robot's columns
        quick_check(assessment.robot, demonstrations)
        try:
            table = score_table(demonstrations, assessment, chosen)
            if "cause" in table:
                table["relative_miss"] = relative_misses(assessment, ~followed_in_part(table))
            facts = score_facts(chosen, assessment)
        except TooFewWindowsError as error:
            findings = find_convention_errors(assessment, np.arange(len(demonstrations)), np.random.default_rng(seed))
            raise ImitableError("; ".join([str(error), *(finding.sentence for finding in findings)])) from error
        steps = steps_table(assessment, chosen)
        given, drawn = {**settings, "data": [str(path) for path in data]}, {"tolerance", "sigma"} <= facts.keys()
        folder.save(given, demonstrations, table, steps, draw=partial(draw, table, facts) if drawn else None)
    print_scores(table)
    doubts = doubts_about(assessment, np.flatnonzero(followed_in_part(table))) if "window" in facts else ()
    if "cause" in table:
        print_causes(table, doubtful=[at for doubt in doubts for at in doubt.concerns])
        print_gentle_demonstrations(table)
    print_few_demonstrations(table)
    print_facts(facts, count=len(demonstrations))
    if "window" in facts:  # the paper's own recipe has none
        print_self_check(assessment, table, doubts, np.random.default_rng(seed))
    tried = f" ({1 - np.ma.getmaskarray(steps['feasibility']).mean():.0%} of them tried)" if "feasibility" in steps else ""
    print(f"{output}: scores.parquet has a row for each demonstration, steps.parquet for each transition{tried}")
    print_divergence({"assessing": sum(assessment.diverged.values())})


def draw(table: Table, facts: dict[str, Any], path: Path) -> None:
    draw_scores(table, Tolerance(*facts["tolerance"]), path, sigma=facts["sigma"])


@one_thread()
def print_self_check(assessment: Assessment, table: Table, doubts: "Sequence[Doubt]", rng: Generator) -> None:
    """How well the scorer tells what the robot can do; and where many cannot be followed, which convention may have gone wrong."""
    from imitable.conventions import MAX_TRIED
    from imitable.conventions.base import listed
    from imitable.self_check import WANTED, self_check

    findings: tuple[Finding, ...] = ()
    rejected, noise = followed_in_part(table), assessment.tracked.noise
    numbers = np.flatnonzero(rejected) if rejected.mean() >= MUCH else np.arange(len(rejected))
    with progress_bar("checking") as progress:
        check = self_check(assessment, rng=rng, progress=part_of(progress, 0.0, 0.5))
        if rejected.mean() >= MUCH or noise:  # which a mistake in units or rates can be taken for
            findings = find_convention_errors(assessment, numbers, rng)
    print(check.sentence if check.separation >= WANTED else f"warning: {check.sentence}")
    print_narrow_rejections(table, Feasibility().tolerance(assessment))
    for doubt in doubts:
        if doubt.name not in {finding.name for finding in findings}:  # which says more of it
            print(f"warning: {doubt.sentence}")
    for finding in findings:
        print(f"warning: of {len(numbers)} demonstrations, {finding.sentence}; nothing was converted")
    if findings and 0 < len(concerned := numbers[list(findings[0].concerns)]) < len(rejected):
        tried = f"the {MAX_TRIED} that were tried one by one" if len(numbers) > MAX_TRIED else "them"
        print(f"warning: of {tried}, it concerns demonstrations {listed(list(map(str, concerned)), NUMBERS)}")
    if findings and noise:
        print(
            f"warning: the noise of {noise:.2g} of a step may be this mistake, and hides what the robot cannot do: put it right and score "
            "again before you trust any verdict"
        )


def print_narrow_rejections(table: Table, tolerance: Tolerance) -> None:
    """A warning where many are rejected, in whole or in part, by little: then noise is as likely a cause as the robot."""
    narrow = followed_in_part(table) & (table["distance"] > tolerance.d_min) & (table["distance"] < NARROW * tolerance.d_max)
    if narrow.mean() >= MUCH:
        print(
            f"warning: {narrow.sum()} demonstrations are rejected by little: their distance is "
            f"{np.median(table['distance'][narrow]):.2g} of a step, where less than {tolerance.d_max:.2g} counts as followed; a slightly "
            "different body does that, and so does sensor noise that differs between columns: smooth the data and score again before you "
            "trust these verdicts"
        )


def doubts_about(assessment: Assessment, numbers: Integers) -> "tuple[Doubt, ...]":
    """What recording may have done to the demonstrations of these numbers, beyond the noise that verdicts allow for."""
    from imitable.conventions.recording import recording_doubts
    from imitable.simulators.mujoco import MujocoRobot

    if not isinstance(assessment.robot, MujocoRobot):
        return ()
    own, noise = assessment.own_episodes[0].trajectories, assessment.tracked.noise
    return recording_doubts(assessment.demonstrations, assessment.robot, own, numbers=numbers.tolist(), noise=noise)


def find_convention_errors(assessment: Assessment, numbers: Integers, rng: Generator) -> "tuple[Finding, ...]":
    """What usually goes wrong with data, and may have with the demonstrations of these numbers."""
    from imitable.conventions import diagnose
    from imitable.inverse_dynamics.solved import SolvedInverseDynamics
    from imitable.simulators.mujoco import MujocoRobot

    robot, inverse_dynamics = assessment.robot, assessment.inverse_dynamics
    if not isinstance(robot, MujocoRobot) or not isinstance(inverse_dynamics, SolvedInverseDynamics):
        return ()
    return diagnose(assessment.demonstrations.select(numbers), robot, inverse_dynamics, assessment.own_episodes[0], rng=rng)


def assessed(demonstrations: Demonstrations, settings: dict[str, Any], *, progress: Any) -> tuple[Assessment, Score]:
    """The assessment that a folder's settings ask for, and the score: of a task's target with the task's numbers, of any other robot
    with the defaults."""
    name, inverse, method = settings["robot"], settings["inverse"], find_method(settings.get("method", "ours"))
    model = None if inverse is None else find("inverse dynamics", inverse, INVERSE_DYNAMICS, needs=("fit", "restored"))
    if name in TASK_NAMES:
        task = find_task(name) if model is None else find_task(name).with_model(model)
        if np.isnan(demonstrations.returns).any() and not task.optimality.feasible_above:  # the paper's recipe needs all returns
            task = replace(task, optimality=replace(task.optimality, feasible_above=1e-9))
    else:
        task = task_without_demonstrators(name, find_robot(name, **settings["robot_settings"]))
        task = task if model is None else replace(task, model=model)
    assessment = assess(
        in_robot_columns(demonstrations, task.robot),
        task.robot,
        model=task.model,
        exploration=task.exploration,
        rng=Streams(settings["seed"]).assessing(),
        cache=default_cache(),
        progress=progress,
    )
    return assessment, method.score(task)
