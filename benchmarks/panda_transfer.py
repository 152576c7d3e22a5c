"""How policies of the kinematic Panda fare under Bullet's dynamics, over latency and noise, and how fast both simulators step.

python benchmarks/panda_transfer.py RUNS      # RUNS/panda-3dof/ours/seed-*, as `imitable sweep --tasks panda/3dof --methods ours -o RUNS`
                                              # makes them; benchmarks/panda_transfer.json and docs/panda-transfer.png
python benchmarks/panda_transfer.py           # the picture alone, from the numbers that are there
"""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from imitable.arrays import Array, one_thread
from imitable.evaluation import evaluate
from imitable.networks import Policy
from imitable.paper.panda import THREE_JOINTS, Panda, succeeded
from imitable.paper.panda_bullet import TRANSFERS, BulletPanda, Faults
from imitable.paper.panda_demonstrators import pass_in_plane
from imitable.pipeline import Streams
from imitable.report.figures import tidy, write_figure
from imitable.store.runs import POLICY

HERE = Path(__file__).parent
NUMBERS, PICTURE = HERE / "panda_transfer.json", HERE.parent / "docs" / "panda-transfer.png"
EPISODES, CURVE_EPISODES = 100, 10  # of each policy, at a named setting and at a point of a curve
SEED = 2_000_000  # starts that nobody has seen
LATENCIES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4)  # s
NOISES = (0.0, 0.002, 0.004, 0.006, 0.008, 0.012)  # m
USUAL = Faults(latency=0.05, noise=0.002)


def measured(robot: Panda | BulletPanda, policies: list[Policy], episodes: int) -> dict[str, Any]:
    """Success and return of each policy, and of the hand-made expert."""
    panda = robot.panda if isinstance(robot, BulletPanda) else robot

    def one(act: Any) -> tuple[float, float]:
        returns = evaluate(act, robot, episodes=episodes, rng=Streams(SEED).evaluating()).returns
        return float(succeeded(returns, panda).mean()), float(returns.mean())

    found = [one(policy) for policy in policies]
    expert = one(lambda seen: pass_in_plane(seen, np.random.default_rng(0)))
    return {"success": [each[0] for each in found], "return": [each[1] for each in found], "expert": expert}


def steps_per_second() -> dict[str, float]:
    """Of the same task, by CPU time, both in this run: 256 kinematic arms at once, and Bullet's arms one by one."""
    rates = {}
    for name, robot, agents, count in (("kinematic", THREE_JOINTS, 256, 40), ("bullet", TRANSFERS["ideal"], 16, 40)):
        states, actions = robot.initial_states(agents, np.random.default_rng(0)), np.full((agents, 2), -0.3)
        robot.step(states, actions)
        began = time.process_time()
        for _ in range(count):
            states = robot.step(states, actions)
        rates[name] = round(agents * count / (time.process_time() - began))
    return rates


def measure(runs: Path) -> None:
    folders = sorted((runs / "panda-3dof" / "ours").glob("seed-*"))
    policies = [Policy.load(folder / POLICY) for folder in folders]
    if not policies:
        sys.exit(f"{runs}/panda-3dof/ours has no runs; make them with `imitable sweep --tasks panda/3dof --methods ours -o {runs}`")
    named = {"no transfer": measured(THREE_JOINTS, policies, EPISODES)}
    for name, robot in TRANSFERS.items():
        named[name] = measured(robot, policies, EPISODES)
        print(name, named[name], flush=True)
    curves: dict[str, list[dict[str, Any]]] = {"latency": [], "noise": []}
    for parameter, values in (("latency", LATENCIES), ("noise", NOISES)):
        for value in values:
            robot = BulletPanda(faults=replace(USUAL, **{parameter: value}))
            curves[parameter].append({parameter: value, **measured(robot, policies, CURVE_EPISODES)})
            print(curves[parameter][-1], flush=True)
    numbers = {"seeds": [folder.name for folder in folders], "episodes": [EPISODES, CURVE_EPISODES], "speed": steps_per_second()}
    NUMBERS.write_text(json.dumps({**numbers, "named": named, "curves": curves}, indent=1) + "\n")


def draw(path: Path = PICTURE) -> None:
    """Success over latency and over noise: a dot per policy, a line at their mean."""
    from matplotlib.figure import Figure

    curves = json.loads(NUMBERS.read_text())["curves"]
    figure = Figure(figsize=(8.6, 3.6), layout="constrained", facecolor="white")
    for axes, (parameter, label) in zip(
        figure.subplots(1, 2, sharey=True),
        {"latency": "latency [ms], 2 mm noise", "noise": "noise [mm], 50 ms latency"}.items(),
        strict=True,
    ):
        values: Array = 1000 * np.array([point[parameter] for point in curves[parameter]])
        success = 100 * np.array([point["success"] for point in curves[parameter]])
        axes.plot(values, success.mean(axis=1), color="#1f5fa8", lw=2, label="ours")
        axes.scatter(np.repeat(values, success.shape[1]), success.ravel(), color="#1f5fa8", s=14, alpha=0.5, lw=0)
        axes.plot(values, [100 * point["expert"][0] for point in curves[parameter]], color="#666666", lw=1.5, ls="--", label="expert")
        axes.set_xlabel(label)
        axes.set_ylim(-3, 103)
        tidy(axes)
        axes.grid(axis="y", color="#dddddd", lw=0.7)
        axes.legend(frameon=False, loc="lower left")
        if parameter == "latency":
            axes.set_ylabel("placed without collision [%]")
    write_figure(figure, path)


if __name__ == "__main__":
    if sys.argv[1:]:
        with one_thread():
            measure(Path(sys.argv[1]))
    draw()
