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
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import speed
from imitable.evaluation import evaluate
from imitable.reinforcement import train
from imitable.simulators import earned, swimmer
from imitable.tasks import PUPILS

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
    """Our TRPO on the same environment, with the shipped expert's settings but not its easier bodies; measuring time does not count."""
    pupil = PUPILS["swimmer/back-disabled"]
    assert pupil.optimal is not None
    simulator = pupil.simulator
    students = train(simulator, settings=pupil.optimal.trpo, reward=partial(earned, simulator), rng=np.random.default_rng(seed))
    spent, since, following = 0.0, time.perf_counter(), 20_000
    with threadpool_limits(1):
        for student in students:
            if student.steps < following:
                continue
            following += 20_000
            spent += time.perf_counter() - since
            returns = evaluate(student.agent.policy, simulator, episodes=10, rng=np.random.default_rng(seed + 1)).returns
            yield {"minutes": spent / 60, "steps": student.steps, "return": float(returns.mean())}
            if returns.mean() >= goal or spent >= 60 * limit:
                return
            since = time.perf_counter()


def learning(goal: float, limit: float, seeds: int) -> None:
    """Both one after the other, so that neither takes the other's cores."""
    for seed in range(seeds):
        ours, theirs = list(minutes_of_ours(goal, limit, seed)), list(rival("sb3", "sb3_trpo.py", goal, limit, seed))
        for name, curve in (("imitable", ours), ("sb3-contrib", theirs)):
            reached = "reached" if curve[-1]["return"] >= goal else "not reached: best " + format(max(p["return"] for p in curve), ".0f")
            print(f"seed {seed} {name:<12} {curve[-1]['minutes']:6.2f} min {curve[-1]['steps']:>9,} steps  {goal:g} {reached}", flush=True)


def imitating(seeds: int) -> None:
    """Rounds of 5000 steps: one agent's in one piece, five whole episodes, many pieces; each the same for both, on one and two threads."""
    for threads in (1, 2):
        for agents in (1, 5, 8, 40):
            simulator = replace(swimmer.BACK_DISABLED, horizon=5000 // agents)
            with speed.physics_threads(threads):
                ours = float(np.median([speed.imitate(simulator, 6, seed) for seed in range(seeds)]))
            (found,) = rival("imitation", "imitation_gail.py", agents, 2, threads)
            theirs = found["steps_per_second"]
            print(
                f"{threads} thread(s), {agents:>2} agents at once: imitable {ours:7,.0f}, imitation {theirs:6,.0f} steps/s, "
                f"{ours / theirs:5.1f} x as fast",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="imitable beside what a user would pick instead.")
    parser.add_argument("what", choices=("learning", "imitating"))
    parser.add_argument("--goal", type=float, default=100.0, help="return to reach")
    parser.add_argument("--limit", type=float, default=10.0, help="minutes to give up after")
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in speed.PROCESS.items()):
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **speed.PROCESS})
    if arguments.what == "learning":
        learning(arguments.goal, arguments.limit, arguments.seeds)
    else:
        imitating(arguments.seeds)
