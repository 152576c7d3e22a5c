"""What a user would pick instead, side by side with imitable on the same work; each rival in a virtual environment of its own.

python benchmarks/against.py learning            # minutes until plain TRPO reaches 100 on swimmer/back-disabled, against sb3-contrib
python benchmarks/against.py imitating           # steps per second of GAIL on Swimmer, against `imitation`

Virtual environments are made in benchmarks/rivals/ on first use: `imitation` needs an older Gymnasium and cannot share ours.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import speed
from imitable.evaluation import evaluate
from imitable.paper import swimmer
from imitable.simulators import reward_of
from imitable.trpo import Trpo, train

RIVALS = Path(__file__).parent / "rivals"
ROOT = Path(__file__).parent.parent
PACKAGES = {
    "sb3": ["torch==2.13.0", "stable-baselines3>=2.7", "sb3-contrib>=2.7", "--editable", str(ROOT)],
    "imitation": [
        "torch==2.13.0",
        "imitation==1.0.1",
        "sb3-contrib<2.3",
        "gymnasium==0.29.1",
        "mujoco==2.3.7",
        "numpy<2",
        "setuptools<80",
        "imageio",
    ],
}

RACE = Trpo(
    batch_size=2000,
    n_envs=10,
    gamma=0.9995,
    gae_lambda=0.99,
    max_kl=0.03,
    cg_damping=0.03,
    cg_iterations=15,
    fisher_fraction=0.3,
    value_learning_rate=1e-3,
    value_minibatches=16,
    value_epochs=5,
)
"""What ours learns with, chosen with seeds 11 to 14."""
THEIRS = replace(RACE, gae_lambda=0.97, cg_damping=0.1)
"""What sb3-contrib learns with: of these two it is better off with the more usual one (from seed 0, 100 in 12 minutes, or never)."""


def python_of(rival: str) -> Path:
    """The rival's interpreter, with its packages installed."""
    home = RIVALS / f".venv-{rival}"
    if not (home / "ready").exists():
        print(f"installing {rival} into {home.relative_to(ROOT)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        pins = ["--constraint", str(ROOT / "constraints.txt")] if rival == "sb3" else []
        subprocess.run([home / "bin" / "pip", "install", "--quiet", *pins, *PACKAGES[rival]], check=True)
        (home / "ready").touch()
    return home / "bin" / "python"


def rival(name: str, script: str, *arguments: object) -> Iterator[dict[str, Any]]:
    """What a rival's script prints, as it prints it."""
    command = [str(python_of(name)), str(RIVALS / script), *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **speed.PROCESS, "TQDM_DISABLE": "1"}) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                yield json.loads(line)
    if process.returncode:
        sys.exit(f"{script} failed with exit code {process.returncode}")


def minutes_of_ours(goal: float, limit: float, seed: int) -> Iterator[dict[str, Any]]:
    """Our TRPO; measuring time does not count."""
    simulator = swimmer.BACK_DISABLED
    states = train(simulator, trpo=RACE, reward=partial(reward_of, simulator), rng=np.random.default_rng(seed))
    spent, since, following = 0.0, time.perf_counter(), 20_000
    with threadpool_limits(1):
        for state in states:
            if state.steps < following:
                continue
            following += 20_000
            spent += time.perf_counter() - since
            returns = evaluate(state.agent.policy, simulator, episodes=10, rng=np.random.default_rng(seed + 1)).returns
            yield {"minutes": spent / 60, "steps": state.steps, "return": float(returns.mean())}
            if returns.mean() >= goal or spent >= 60 * limit:
                return
            since = time.perf_counter()


def learning(goal: float, limit: float, seeds: range) -> None:
    """One after the other on one thread each, so that neither takes the other's cores; sb3-contrib with one environment, as by default,
    and with as many as ours."""
    for seed in seeds:
        curves = {"imitable": list(minutes_of_ours(goal, limit, seed))}
        for agents in (1, RACE.n_envs):
            settings = json.dumps(asdict(replace(THEIRS, n_envs=agents)))
            curves[f"sb3-contrib, {agents:>2} at once"] = list(rival("sb3", "sb3_trpo.py", goal, limit, seed, settings))
        for name, curve in curves.items():
            last, best, ours = curve[-1], max(point["return"] for point in curve), curves["imitable"][-1]
            reached = "reached" if last["return"] >= goal else f"not reached: {best:.0f} at best"
            if name != "imitable" and ours["return"] >= goal:
                reached += f", {'' if last['return'] >= goal else 'more than '}{last['minutes'] / ours['minutes']:.1f} x as long"
            print(f"seed {seed} {name:<22} {last['minutes']:6.2f} min {last['steps']:>9,} steps  {goal:g} {reached}", flush=True)


def imitating(repeats: int) -> None:
    """Rounds of 5000 steps of as many agents at once on both sides, on one and on two threads, in turns."""
    for threads in (1, 2):
        for agents in (1, 5, 8, 40):
            ours, theirs = [], []
            for seed in range(repeats):
                with speed.physics_threads(threads):
                    ours.append(speed.imitate(swimmer.BACK_DISABLED, 6, seed, agents))
                theirs += [found["steps_per_second"] for found in rival("imitation", "imitation_gail.py", agents, 2, threads)]
            ratio = median(one / other for one, other in zip(ours, theirs, strict=True))
            speeds = f"imitable {median(ours):7,.0f}, imitation {median(theirs):6,.0f} steps/s"
            print(f"{threads} thread(s), {agents:>2} agents at once: {speeds}, {ratio:5.1f} x as fast", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="imitable beside what a user would pick instead.")
    parser.add_argument("what", choices=("learning", "imitating"))
    parser.add_argument("--goal", type=float, default=100.0, help="return to reach")
    parser.add_argument("--limit", type=float, default=10.0, help="minutes to give up after")
    parser.add_argument("--seeds", type=int, default=3, help="how many; also how often speeds are measured")
    parser.add_argument("--first", type=int, default=0, help="seed")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    if any(os.environ.get(name) != value for name, value in speed.PROCESS.items()):
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **speed.PROCESS})
    if arguments.what == "learning":
        learning(arguments.goal, arguments.limit, seeds)
    else:
        imitating(arguments.seeds)
