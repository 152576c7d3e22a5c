"""How well the simulator's own inverse does: transitions solved, tolerances over seeds, false rejects, clones, and what a verdict costs.

python benchmarks/inverse.py solve [ROBOT ...]       # own transitions: the share that is reached, and simulator steps of each
python benchmarks/inverse.py rejects [ROBOT ...] [--seeds 0-9]     # own demonstrations that are rejected, and the tolerance by seed
python benchmarks/inverse.py clones [TASK ...] [--seeds 100-102]    # clones of ten expert demonstrations
python benchmarks/inverse.py costs TASK              # time and memory of a verdict on 1000 demonstrations; on an idle machine

A robot is a task's, such as swimmer/back-disabled, or a stock one, such as Hopper-v5. Writes benchmarks/inverse.json.
"""

import argparse
import json
import os
import resource
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import mujoco.batch
import numpy as np

from gaits import gait
from imitable import (
    Cloning,
    Demonstrations,
    Exploration,
    Feasibility,
    Solved,
    Uniform,
    assess,
    find_task,
    imitate,
    join,
    one_thread,
    robot as find_robot,
    score_table,
)
from imitable.arrays import Array, Generator, Integers
from imitable.inverse_dynamics import REACHED, InverseResult, floored_scale, step_scale
from imitable.inverse_dynamics.library import Library, waves
from imitable.paper import TASK_NAMES
from imitable.paper.demonstrators import DEMONSTRATIONS
from imitable.paper.run import collected
from imitable.paper.sweep import parse_seeds
from imitable.pipeline import Streams
from imitable.restorability import restorable_rows
from imitable.rollouts import Episodes, run_episodes
from imitable.simulators import Simulator, physics
from imitable.store.cache import default_cache
from imitable.tracking import rollout_from

RESULTS = Path(__file__).parent / "inverse.json"
STOCK = ("Swimmer-v5", "Hopper-v5", "Walker2d-v5", "HalfCheetah-v5", "Ant-v5", "Humanoid-v5")
SWIMMERS, ANTS = ("swimmer/back-disabled", "swimmer/front-disabled"), ("ant/x-axis", "ant/y-axis")
TASKS = tuple(name for name in TASK_NAMES if not name.startswith("panda"))
GAIT, TEN_ROUND, RANDOM = "gait", "ten-round", "random"
COSTLY = ("swimmer/back-disabled", "ant/x-axis")
TRANSITIONS, EPISODES, STEPS = 1000, 10, 100
HORIZON = 200
"""Steps of an own demonstration at most, so that it is followed in full."""


def body_of(name: str) -> Simulator:
    return find_task(name).robot if name in TASK_NAMES else find_robot(name)


def kinds_of(name: str) -> tuple[str, ...]:
    return (GAIT, TEN_ROUND, RANDOM) if name in TASK_NAMES else (GAIT, RANDOM) if name in STOCK else (RANDOM,)


def own_episodes(name: str, kind: str, *, count: int, rng: Generator, horizon: int | None = None) -> Episodes:
    """What the robot itself does: an expert or the gait that was trained for it, a policy of ten rounds, or random actions."""
    robot = body_of(name)
    robot = replace(robot, horizon=min(robot.horizon, horizon or robot.horizon))  # type: ignore[type-var]
    if kind == RANDOM:
        return rollout_from(robot, robot.initial_states(count, rng), min(STEPS, robot.horizon), rng=rng)
    if name not in TASK_NAMES:
        return run_episodes(robot, gait(name), count=count, rng=rng)
    demonstrators = find_task(name).demonstrators
    actor = demonstrators.optimal if kind == GAIT else demonstrators.suboptimal
    act: Callable[[Array], Array] = (lambda seen: actor(seen, rng)) if callable(actor) else actor.begin(rng)
    return run_episodes(robot, act, count=count, rng=rng)


def solved_from_similar(
    solver: Solved, robot: Simulator, given: Demonstrations, rows: Integers, *, scale: Array, library: Library
) -> InverseResult:
    """As `Assessment.recovered_actions` solves for them: in waves that begin at the answers of those before."""
    size, order, parts = len(robot.action_low) * given.width, [], []
    for some in waves(np.arange(len(rows)), jacobian_size=size, rng=np.random.default_rng(0)):
        shown = given.observations[rows[some]], given.observations[rows[some] + 1]
        similar = library.similar(*shown)
        actions, jacobian = (None, None) if similar is None else (similar.actions, similar.jacobian)
        parts.append(solver.solve(robot, robot.restore(shown[0]), shown[1], scale=scale, guess=actions, jacobian=jacobian))
        library.add(*shown, parts[-1])
        order.append(some)
    return InverseResult.join(parts).select(np.argsort(np.concatenate(order)))


@one_thread()
def solve(name: str, kind: str, *, seed: int, transitions: int = TRANSITIONS) -> dict[str, object]:
    """Own transitions, solved for each by itself, as for a clone, and as for a verdict, from the action of the step before."""
    robot, rng = body_of(name), np.random.default_rng(seed)
    made = own_episodes(name, kind, count=EPISODES, rng=rng)
    given = made.trajectories
    rows, first = given.transition_rows, given.transition_starts
    known = restorable_rows(given, robot)[rows]
    usable = np.setdiff1d(np.flatnonzero(known), first)  # the first ones have no action before
    chosen = np.sort(rng.choice(usable, min(transitions, len(usable)), replace=False))
    scale = step_scale(Exploration()(robot, rng=rng)[0])
    states, wanted = robot.restore(given.observations[rows[chosen]]), given.observations[rows[chosen] + 1]
    led = np.square((robot.observe(robot.step(states, made.actions[chosen])) - wanted) / floored_scale(scale)).mean(axis=1)
    found: dict[str, object] = {
        "robot": name,
        "kind": kind,
        "actuators": len(robot.action_low),
        "transitions": len(chosen),
        "restorable": round(float(known.mean()), 4),
        "true actions lead there": round(float((np.sqrt(led) <= Solved().tolerance).mean()), 4),
    }
    half = (robot.action_high - robot.action_low) / 2
    for use, solver, guess in (
        ("alone", Solved(), None),
        ("clone", Solved(), Library(given.observations.std(axis=0), scale)),
        ("verdict", Solved().for_tracking(0.0), made.actions[chosen - 1]),
    ):
        if isinstance(guess, Library):
            answer = solved_from_similar(solver, robot, given, rows[chosen], scale=scale, library=guess)
        else:
            answer = solver.solve(robot, states, wanted, scale=scale, guess=guess)
        reached = answer.verdict == REACHED
        errors = np.abs((answer.actions - made.actions[chosen]) / half).max(axis=1)
        found[use] = {
            "reached": round(float(reached.mean()), 4),
            "steps": round(float(answer.steps.mean()), 1),
            "median steps": float(np.median(answer.steps)),
            "median action error of reached": float(f"{np.median(errors[reached]):.2g}") if reached.any() else None,
        }
    return found


@one_thread()
def rejects(name: str, *, seed: int, count: int) -> dict[str, object]:
    """Own demonstrations that no exploration saw, by kind: the share that is rejected, and that of their windows beyond the tolerance."""
    rng = np.random.default_rng(1000 + seed)
    made = {}
    for kind in kinds_of(name):
        made[kind] = own_episodes(name, kind, count=count, rng=rng, horizon=HORIZON).trajectories
    labels = np.repeat(list(made), [len(each) for each in made.values()])
    began = time.process_time()
    given = join([replace(each, returns=None, observation_names=None) for each in made.values()])
    assessment, score = assess(given, body_of(name), rng=np.random.default_rng(seed)), Feasibility()
    weights, facts, shown = assessment.scored(score), score.facts(assessment), assessment.tracked.demonstration_windows
    beyond, of_kind = shown.distances > facts["tolerance"][0], labels[shown.demo]
    return {
        "robot": name,
        "seed": seed,
        **{key: facts[key] for key in ("tolerance", "window", "noise", "realised_false_reject_rate")},
        "CPU seconds": round(time.process_time() - began, 1),
        "kinds": {
            kind: {
                "demonstrations": int((labels == kind).sum()),
                "below 0.5": round(float((weights[labels == kind] < 0.5).mean()), 4),
                "mean w_f": round(float(weights[labels == kind].mean()), 4),
                "windows": int((shown.settled & (of_kind == kind)).sum()),
                "windows beyond": round(float(beyond[shown.settled & (of_kind == kind)].mean()), 4),
                "not settled": round(float((~shown.settled[of_kind == kind]).mean()), 4),
            }
            for kind in made
        },
    }


@one_thread()
def clone(name: str, *, seed: int) -> dict[str, object]:
    """Of ten expert demonstrations, with solved actions and the package's defaults."""
    task, rng = find_task(name), Streams(seed).collecting()
    shown = run_episodes(task.robot, lambda seen: task.demonstrators.optimal(seen, rng), count=10, rng=rng).trajectories
    learner = Cloning(checkpoint_every=Cloning().updates)  # measured once, at the end
    began = time.process_time()
    result = imitate(shown, task.robot, learner=learner, score=Uniform(), seed=seed)
    return {
        "task": name,
        "seed": seed,
        "return": round(result.mean_return, 1),
        "sd over episodes": round(float(result.curve[-1].returns.std()), 1),
        "episodes below half": round(float((result.curve[-1].returns < 0.5 * shown.returns.mean()).mean()), 3),
        "demonstrations": round(float(shown.returns.mean()), 1),
        "CPU seconds": round(time.process_time() - began, 1),
    }


class _Timed:
    """A batch of MuJoCo simulations that adds up the seconds spent in it."""

    seconds, cpu, steps = 0.0, 0.0, 0

    def __init__(self, *given: object, **settings: object) -> None:
        self.batch = mujoco.batch.Batch(*given, **settings)

    def __getattr__(self, name: str) -> object:
        return getattr(self.batch, name)

    def step(self, ids: Integers | None, **settings: object) -> None:
        began, cpu = time.perf_counter(), time.process_time()
        self.batch.step(ids, **settings)
        _Timed.seconds += time.perf_counter() - began
        _Timed.cpu += time.process_time() - cpu
        _Timed.steps += self.batch.nsim if ids is None else len(ids)


def cost(name: str, *, seed: int = 0, distinct: int = DEMONSTRATIONS) -> dict[str, object]:
    """A verdict on 1000 demonstrations of a task's mixture, from the loaded file to the table of scores; where fewer are distinct, each
    comes several times. Seconds mean something on an idle machine only; processor time changes less."""
    physics.Batch = _Timed
    task, threads, load = find_task(name), physics._threads(), os.getloadavg()[0]
    demonstrations = join([collected(task, seed=seed, count=distinct, cache=default_cache())] * (DEMONSTRATIONS // distinct))
    held = peak_gib()
    _Timed.seconds, _Timed.cpu, _Timed.steps = 0.0, 0.0, 0
    began, cpu = time.perf_counter(), time.process_time()
    with one_thread():
        assessment = assess(demonstrations, task.robot, rng=Streams(seed).assessing())
        score_table(demonstrations, assessment)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    undisturbed = cpu - _Timed.cpu + _Timed.cpu / threads
    return {
        "task": name,
        "seed": seed,
        "distinct": distinct,
        "threads": threads,
        "seconds": round(seconds, 1),
        "in MuJoCo": round(_Timed.seconds / seconds, 3),
        "CPU seconds": round(cpu, 1),
        "CPU seconds in MuJoCo": round(_Timed.cpu, 1),
        "seconds, undisturbed": round(undisturbed, 1),
        "in MuJoCo, undisturbed": round(_Timed.cpu / threads / undisturbed, 3),
        "simulator steps": _Timed.steps,
        "GiB at most": peak_gib(),
        "GiB before": held,
        "load": round(load, 1),
    }


def peak_gib() -> float:
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)


def write(section: str, found: dict[str, object], keys: tuple[str, ...]) -> None:
    """Put what was found in place of what these keys identify."""
    every = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    cells = [each for each in every.get(section, []) if any(each[key] != found[key] for key in keys)] + [found]
    RESULTS.write_text(json.dumps({**every, section: cells}, indent=1) + "\n")
    print(found, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("solve", "rejects", "clones", "collect", "costs"))
    parser.add_argument("names", nargs="*", metavar="ROBOT or TASK")
    parser.add_argument("--seeds")
    parser.add_argument("--count", type=int, default=10, help="demonstrations of each kind")
    parser.add_argument("--transitions", type=int, default=TRANSITIONS)
    parser.add_argument("--distinct", type=int, default=DEMONSTRATIONS, help="demonstrations that are collected; of costs")
    options = parser.parse_args()
    names = options.names or {"solve": (*SWIMMERS, *STOCK, *ANTS), "rejects": (*TASKS, *STOCK), "clones": ANTS}.get(options.command, COSTLY)
    seeds = parse_seeds(options.seeds or {"rejects": "0-9", "clones": "100-102"}.get(options.command, "0"))
    for name in names:
        for seed in seeds:
            match options.command:
                case "solve":
                    for kind in (GAIT, RANDOM):
                        write("solved", solve(name, kind, seed=seed, transitions=options.transitions), ("robot", "kind"))
                case "rejects":
                    write("rejects", rejects(name, seed=seed, count=options.count), ("robot", "seed"))
                case "clones":
                    write("clones", clone(name, seed=seed), ("task", "seed"))
                case "collect":
                    collected(find_task(name), seed=seed, count=options.distinct, cache=default_cache())
                case "costs":
                    write("costs", cost(name, seed=seed, distinct=options.distinct), ("task", "seed", "threads"))


if __name__ == "__main__":
    main()
