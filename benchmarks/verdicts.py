"""Verdicts on the paper's tasks: the target's own demonstrations, optimal and not, against those of the other body, over seeds.

python benchmarks/verdicts.py [TASK ...] [--seeds 0-4] [--count 1000]     # writes benchmarks/verdicts.json
python benchmarks/verdicts.py --runs RUNS                                 # the same from the scores that a sweep of `ours` has left
"""

import argparse
import json
import time
from pathlib import Path

import numpy as np

from imitable import Assessment, Feasibility, assess, one_thread
from imitable.arrays import Array, Booleans
from imitable.assessment import ASSESS_VERSION
from imitable.inverse_dynamics import floored_scale
from imitable.paper import TASK_NAMES
from imitable.paper.run import collected
from imitable.paper.sweep import parse_seeds
from imitable.paper.tasks import find_task
from imitable.pipeline import Streams
from imitable.replay import replay
from imitable.scores.feasibility import mean_by_demonstration
from imitable.store.cache import default_cache
from imitable.store.files import read_table
from imitable.store.runs import SCORES, RunFolder
from stock_robots import auc

RESULTS = Path(__file__).parent / "verdicts.json"
OTHER, FACTS = "other-dynamics", ("window", "noise", "tolerance", "realised_false_reject_rate")


@one_thread()
def measure(name: str, *, seed: int, count: int) -> dict[str, object]:
    task = find_task(name)
    demonstrations = collected(task, seed=seed, count=count, composition="paper", cache=default_cache())
    began = time.perf_counter()
    assessment = assess(demonstrations, task.robot, rng=Streams(seed).assessing())
    score = Feasibility()
    weights, facts, shown = assessment.scored(score), score.facts(assessment), assessment.tracked.demonstration_windows
    seconds = time.perf_counter() - began
    other = demonstrations.from_source(OTHER)
    found = separation(other, weights, mean_by_demonstration(shown.distances, shown))
    return {
        "task": name,
        "seed": seed,
        "count": count,
        "assess version": ASSESS_VERSION,
        **found,
        **passing(assessment, other & (weights > 0)),
        **{key: facts[key] for key in FACTS},
        "seconds": round(seconds, 1),
    }


def passing(assessment: Assessment, chosen: Booleans) -> dict[str, float]:
    """Of the other body's demonstrations that pass: how far off the robot is at most when it replays them from start to end, never put back
    on them, in units of its own one-step changes."""
    if not chosen.any():
        return {}
    given = assessment.demonstrations.select(np.flatnonzero(chosen))
    gaps = np.abs(replay(given, assessment.robot, assessment.inverse_dynamics).observations - given.observations)
    return {"passing, farthest in replay": float(f"{(gaps / floored_scale(assessment.step_scale)).max():.3g}")}


def measured(folder: Path) -> dict[str, object]:
    """Of a finished run; how long the verdicts took is not known."""
    run, scores = RunFolder(folder), read_table(folder / SCORES)
    config, result = run.config() or {}, run.result() or {}
    found = separation(scores["source"] == OTHER, scores["feasibility"], scores["distance"])
    made_with = config["versions"]["assess"]
    identity = {"task": config["task"], "seed": config["seed"], "count": len(scores["source"]), "assess version": made_with}
    return {**identity, **found, **{key: result[key] for key in FACTS}, "seconds": None}


def separation(other: Booleans, weights: Array, distances: Array) -> dict[str, float]:
    return {
        "AUC": round(auc(weights[~other], weights[other]), 5),
        "AUC of distances": round(auc(-distances[~other], -distances[other]), 5),
        "other above 0.5": round(float((weights[other] > 0.5).mean()), 4),
        "other above 0": round(float((weights[other] > 0).mean()), 4),
        "own below 0.5": round(float((weights[~other] < 0.5).mean()), 4),
        "own below 0.1": round(float((weights[~other] < 0.1).mean()), 4),
        "own, mean": round(float(weights[~other].mean()), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tasks", nargs="*", default=TASK_NAMES)
    parser.add_argument("--seeds", default="0-4")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    parser.add_argument("--runs", type=Path)
    options = parser.parse_args()
    found = json.loads(options.output.read_text()) if options.output.exists() else []
    if options.runs:
        cells = (measured(path.parent) for path in sorted(options.runs.glob("**/ours/*/result.json")))
    else:
        cells = (measure(task, seed=seed, count=options.count) for task in options.tasks for seed in parse_seeds(options.seeds))
    for cell in cells:
        found = [each for each in found if (each["task"], each["seed"]) != (cell["task"], cell["seed"])] + [cell]
        options.output.write_text(json.dumps(found, indent=1) + "\n")
        print(cell, flush=True)


if __name__ == "__main__":
    main()
