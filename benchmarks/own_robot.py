"""A stranger's robot and data: Hopper-v5 with 60 demonstrations of its own, good, standing and falling, and 30 that it cannot follow.

python benchmarks/own_robot.py data FOLDER         # the demonstrations, its own as csv, the others as npz; with --quick a few short ones
python benchmarks/own_robot.py measure             # writes benchmarks/own_robot.json
python benchmarks/own_robot.py pile                # scoring 10 000 demonstrations of 200 steps: time inside MuJoCo, and memory; likewise
python benchmarks/own_robot.py train good|standing|foreign FOLDER     # the policies that demonstrate; shipped in benchmarks/policies
"""

import argparse
import json
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from mujoco.batch import Batch

from imitable import Demonstrations, Policy, evaluate, join, one_thread
from imitable.arrays import Array
from imitable.cli import main as main_command
from imitable.formats import csv, npz
from imitable.rollouts import random_actions, run_episodes
from imitable.simulators import reward_of
from imitable.simulators.gymnasium_robot import gymnasium_robot
from imitable.simulators.mujoco import MujocoRobot
from imitable.store.files import read_table
from imitable.trpo import Trpo, train

HERE = Path(__file__).parent
POLICIES, RESULTS = HERE / "policies", HERE / "own_robot.json"
OWN, FOREIGN = ("good", "standing", "falling"), "foreign"


def stronger(model: mujoco.MjModel) -> None:
    """Twice the gear, and joints that reach twice as far."""
    model.actuator_gear *= 2.0
    model.jnt_range *= 2.0


def demonstrations(*, quick: bool = False, seed: int = 0) -> Demonstrations:
    """20 good, 20 standing, 20 that fall, and 30 of the other body, each a whole episode; quick: a few, of at most 100 steps."""
    robot, rng = gymnasium_robot("Hopper-v5"), np.random.default_rng(seed)
    robot = replace(robot, horizon=100) if quick else robot
    other, few, more = robot.altered(stronger), 4 if quick else 20, 6 if quick else 30
    sets = []
    for source, body, count in ((OWN[0], robot, few), (OWN[1], robot, few), (FOREIGN, other, more)):
        policy = Policy.load(POLICIES / f"hopper-{source}.safetensors")
        made = run_episodes(body, policy, count=count, rng=rng).trajectories
        sets.append(made.with_sources((source,) * count))
    act = random_actions(robot, few, rng=rng, max_action_repeat=20)
    sets.insert(2, run_episodes(robot, lambda _: act(), count=few, rng=rng).trajectories.with_sources((OWN[2],) * few))
    return join(sets)


def write_pile(folder: Path, *, quick: bool = False) -> list[Path]:
    """Every demonstration once, in two files of different formats."""
    made, paths = demonstrations(quick=quick), [folder / "mine.csv", folder / "others.npz"]
    others = made.from_source(FOREIGN)
    csv.write(made.select(~others), paths[0])
    npz.write(made.select(others), paths[1])
    return paths


def write_variants(folder: Path) -> dict[str, Path]:
    """With returns, without, and with a third missing; as npz and as csv."""
    made = demonstrations()
    third = np.where(np.arange(len(made)) % 3 == 0, np.nan, made.returns)
    paths = {}
    for name, returns in (("all", made.returns), ("none", np.full(len(made), np.nan)), ("two thirds", third)):
        variant = Demonstrations(made.observations, made.lengths, returns, made.sources, made.observation_names)
        stem = folder / name.replace(" ", "-")
        npz.write(variant, stem.with_suffix(".npz"))
        csv.write(variant, stem.with_suffix(".csv"))
        paths |= {f"{name} npz": stem.with_suffix(".npz"), f"{name} csv": stem.with_suffix(".csv")}
    return paths


def command(*arguments: object) -> tuple[str, float, float]:
    """What `imitable` prints, and the seconds and the processor's seconds it takes, with an empty cache."""
    began, spent = time.perf_counter(), children_seconds()
    done = subprocess.run([sys.executable, "-m", "imitable", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    print(done.stdout, flush=True)
    return done.stdout, time.perf_counter() - began, children_seconds() - spent


def empty_cache(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.environ["IMITABLE_CACHE"] = str(folder)


def children_seconds() -> float:
    """Of the processor, for all processes that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(folder: Path, *, only: str | None = None, learned: bool = True) -> None:
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name, path in write_variants(folder).items():
        if only not in (None, name):
            continue
        empty_cache(folder / f"cache {name}")
        scores = folder / f"scores {name}"
        _, seconds, processor = command("score", path, "--robot", "Hopper-v5", "-o", scores, "--overwrite")
        table = read_table(scores / "scores.parquet")
        feasibility, own = table["feasibility"], np.isin(table["source"], OWN)
        cell = {
            "seconds": round(seconds, 1),
            "processor seconds": round(processor, 1),
            "own above 0.9": round(float((feasibility[own] > 0.9).mean()), 3),
            "foreign below 0.1": round(float((feasibility[~own] < 0.1).mean()), 3),
        }
        if learned:
            cell["good demonstrators"] = round(float(demonstrations().returns[:20].mean()), 1)
            for method in ("ours", "none"):
                _, seconds, _ = command("train", scores, "-o", folder / f"{method} {name}", "--method", method, "--overwrite")
                result = json.loads((folder / f"{method} {name}" / "result.json").read_text())
                cell |= {method: round(result["mean_return"], 1), f"{method} seconds": round(seconds, 1)}
        found[name] = cell
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")
        print(name, cell, flush=True)


def pile(*, count: int, steps: int, rng: np.random.Generator) -> Demonstrations:
    """As many good as standing as foreign demonstrations, each of this many steps: what ends sooner is left out."""
    robot = replace(gymnasium_robot("Hopper-v5"), horizon=steps)
    sets = []
    for source, body in ((OWN[0], robot), (OWN[1], robot), (FOREIGN, robot.altered(stronger))):
        policy, wanted = Policy.load(POLICIES / f"hopper-{source}.safetensors"), -(-count // 3)
        parts: list[Demonstrations] = []
        while (missing := wanted - sum(map(len, parts))) > 0:
            made = run_episodes(body, policy, count=missing, rng=rng).trajectories
            if len(whole := np.flatnonzero(made.lengths == steps)):
                parts.append(made.select(whole))
        sets += [part.with_sources((source,) * len(part)) for part in parts]
    return join(sets).select(rng.permutation(sum(map(len, sets)))[:count])


def score_watched(path: Path, output: Path) -> dict[str, float]:
    """`imitable score`, with the seconds and the processor's seconds, of all and inside MuJoCo, and the memory of the process (Linux)."""
    inside = np.zeros(2)

    def clock() -> np.ndarray:
        return np.array([time.perf_counter(), time.process_time()])

    def watched(method: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any, **named: Any) -> None:
            before = clock()
            method(*arguments, **named)
            inside[:] += clock() - before

        return call

    Batch.step, Batch.forward = watched(Batch.step), watched(Batch.forward)  # type: ignore[method-assign]
    before = clock()
    sys.argv = ["imitable", "score", str(path), "--robot", "Hopper-v5", "-o", str(output), "--overwrite"]
    main_command()
    taken = clock() - before
    threads = int(os.environ.get("IMITABLE_THREADS", 0)) or os.cpu_count() or 1
    return {
        "seconds": taken[0],
        "inside MuJoCo": inside[0] / taken[0],
        "processor seconds": taken[1],
        "processor seconds inside MuJoCo": inside[1],
        "threads": threads,
        "MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measure_pile(folder: Path, *, count: int, steps: int) -> None:
    name = f"pile of {count} x {steps}"
    npz.write(pile(count=count, steps=steps, rng=np.random.default_rng(0)), path := folder / "pile.npz")
    empty_cache(folder / f"cache {name}")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        watched = pool.apply(score_watched, (path, folder / f"scores {name}"))
        pool.close()
        pool.join()  # or it is told to stop, which the command line answers with an exit code
    table = read_table(folder / f"scores {name}" / "scores.parquet")
    feasibility, own = table["feasibility"], np.isin(table["source"], OWN)
    cell = {key: round(float(value), 3) for key, value in watched.items()}
    cell["own above 0.9"] = round(float((feasibility[own] > 0.9).mean()), 4)
    cell["foreign below 0.1"] = round(float((feasibility[~own] < 0.1).mean()), 4)
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps(found | {name: cell}, indent=1) + "\n")
    print(name, cell, flush=True)


def train_policy(kind: str, folder: Path, *, rounds: int) -> None:
    """TRPO: standing first, from which hopping is learned."""
    body: MujocoRobot = gymnasium_robot("Hopper-v5")
    body = body.altered(stronger) if kind == FOREIGN else body
    standing = kind == "standing"

    def reward(states: Array, actions: Array, next_states: Array) -> Array:
        if standing:  # and not moving along
            return 1.0 - 0.5 * np.abs(body.observe(next_states)[:, 5]) - 1e-3 * np.square(actions).sum(axis=1)
        return 0.1 * reward_of(body, states, actions, next_states)

    std = 0.6 if standing else 0.5
    settings = Trpo(
        batch_size=8000 if standing else 5000,
        n_envs=32 if standing else 20,
        gamma=0.99,
        gae_lambda=0.95,
        max_kl=0.015 if standing else 0.02,
        initial_std=std,
        hidden_sizes=(64, 64),
        value_learning_rate=1e-3,
        value_epochs=1 if standing else 3,
    )
    resume = None
    if not standing:
        first = next(train(body, trpo=settings, reward=reward, rng=np.random.default_rng(0))).snapshot()
        stands = Policy.load(POLICIES / "hopper-standing.safetensors")
        known = {"policy": stands.parameters, "center": stands.center, "scale": stands.scale}
        resume = {**first, **known, "log_std": np.full(3, np.log(std), np.float32)}
    for number, state in enumerate(
        islice(train(body, trpo=settings, reward=reward, rng=np.random.default_rng(0), resume=resume), rounds + 1)
    ):
        if number % 20 == 0:
            returns = evaluate(state.agent.policy, body, episodes=10, rng=np.random.default_rng(1)).returns
            print(kind, number, returns.mean().round(1), returns.std().round(1), flush=True)
            state.agent.policy.save(folder / f"{kind}-{number}.safetensors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    data = commands.add_parser("data")
    data.add_argument("folder", type=Path)
    data.add_argument("--quick", action="store_true")
    measuring = commands.add_parser("measure")
    measuring.add_argument("--folder", type=Path, default=Path("own-robot"))
    measuring.add_argument("--only")
    measuring.add_argument("--score-only", action="store_true")
    piling = commands.add_parser("pile")
    piling.add_argument("--folder", type=Path, default=Path("own-robot"))
    piling.add_argument("--count", type=int, default=10_000)
    piling.add_argument("--steps", type=int, default=200)
    training = commands.add_parser("train")
    training.add_argument("kind", choices=(*OWN[:2], FOREIGN))
    training.add_argument("folder", type=Path)
    training.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    with one_thread():
        if options.command == "data":
            options.folder.mkdir(parents=True, exist_ok=True)
            print("\n".join(map(str, write_pile(options.folder, quick=options.quick))))
        elif options.command == "measure":
            options.folder.mkdir(parents=True, exist_ok=True)
            measure(options.folder, only=options.only, learned=not options.score_only)
        elif options.command == "pile":
            options.folder.mkdir(parents=True, exist_ok=True)
            measure_pile(options.folder, count=options.count, steps=options.steps)
        else:
            train_policy(options.kind, options.folder, rounds=options.rounds)


if __name__ == "__main__":
    main()
