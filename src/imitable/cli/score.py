"""`imitable score`: a score for every demonstration."""

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from tyro.conf import Positional, arg

from imitable.arrays import one_thread
from imitable.assessment import assess
from imitable.cli.options import InverseName, Overwrite, Seed
from imitable.errors import ImitableError
from imitable.formats import read
from imitable.inverse_dynamics import INVERSE_DYNAMICS
from imitable.paper import TASK_NAMES
from imitable.paper.methods import find_method
from imitable.paper.tasks import find_task
from imitable.pipeline import Streams, score_table
from imitable.registry import find
from imitable.report.figures import draw_scores
from imitable.report.terminal import print_divergence, print_facts, print_scores, progress_bar
from imitable.robots import robot as find_robot
from imitable.scores import Feasibility, RectifiedOptimality, Score, Tolerance, product
from imitable.store.cache import default_cache
from imitable.store.files import check_writable, write_table


def score(
    data: Positional[Annotated[tuple[Path, ...], arg(metavar="DATA", help="demonstrations (.npz)")]],
    *,
    robot: Annotated[str, arg(help="a task's name for its target, or module:object")],
    output: Annotated[Path, arg(aliases=["-o"], help="a folder, for scores.parquet and scores.png")],
    inverse: InverseName = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
) -> None:
    """Score every demonstration: feasibility on the robot, optimality, and their product."""
    table_path, picture_path = output / "scores.parquet", output / "scores.png"
    for path in (table_path, picture_path):
        check_writable(path)
        if path.exists() and not overwrite:
            raise ImitableError(f"{path} is there already; give another folder, or --overwrite to replace it")
    demonstrations = read(list(data))
    if missing := int(np.isnan(demonstrations.returns).sum()):
        print(f"note: {missing} of {len(demonstrations)} demonstrations have no return; only feasibility is scored", file=sys.stderr)
    settings, chosen = _assessment_settings(robot, inverse, with_returns=bool(np.isfinite(demonstrations.returns).all()))
    with one_thread(), progress_bar("scoring") as progress:
        assessment = assess(demonstrations, **settings, rng=Streams(seed).assessing(), keep=default_cache(), progress=progress)
        table = score_table(demonstrations, assessment, chosen)
        facts = chosen.facts(assessment)  # type: ignore[attr-defined]
    write_table(table_path, table)
    picture_path.unlink(missing_ok=True)  # without returns there is none, and an old one would not fit
    print_scores(table)
    if "optimality" in table:
        draw_scores(table, Tolerance(*facts["tolerance"]), picture_path, sigma=facts["sigma"])
    print_facts(facts)
    print(f"{table_path}: one row for each of {len(demonstrations)} demonstrations")
    print_divergence({"assessing": sum(assessment.diverged.values())})


def _assessment_settings(robot: str, inverse: str | None, *, with_returns: bool) -> tuple[dict[str, Any], Score]:
    """What `assess` is told, and the score: of a task's target with the task's numbers, of any other robot with the defaults."""
    model = None if inverse is None else find("inverse dynamics", inverse, INVERSE_DYNAMICS, needs=("fit", "restored"))
    if robot in TASK_NAMES:
        task = find_task(robot) if model is None else find_task(robot).with_model(model)
        settings = {"robot": task.robot, "model": task.model, "exploration": task.exploration}
        return settings, find_method("ours").score(task) if with_returns else product(task.feasibility)
    factors = (Feasibility(), RectifiedOptimality()) if with_returns else (Feasibility(),)
    return {"robot": find_robot(robot), "model": model}, product(*factors)
