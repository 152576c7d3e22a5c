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
from imitable.paper.tasks import find_task
from imitable.pipeline import Streams
from imitable.report.figures import tidy, write_figure
from imitable.store.runs import POLICY

HERE = Path(__file__).parent
NUMBERS, PICTURE = HERE / "panda_transfer.json", HERE.parent / "docs" / "panda-transfer.png"
EPISODES, FEWER = 100, 10  # of each policy: without transfer and at the task's setting, and elsewhere
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
    """Of whole episodes of the expert, by CPU time, both in this run: 256 kinematic arms at once, and Bullet's arms one by one."""
    rates = {}
    for name, robot, agents, count in (("kinematic", THREE_JOINTS, 256, 150), ("bullet", TRANSFERS["ideal"], 8, 150)):
        states, rng, spent = robot.initial_states(agents, np.random.default_rng(0)), np.random.default_rng(0), 0.0
        robot.step(states, np.zeros((agents, 2)))
        for _ in range(count):
            actions = pass_in_plane(robot.observe(states), rng)
            began = time.process_time()
            states = robot.step(states, actions)
            spent += time.process_time() - began
        rates[name] = round(agents * count / spent)
    return rates


def measure(runs: Path) -> None:
    folders = sorted((runs / "panda-3dof" / "ours").glob("seed-*"))
    policies = [Policy.load(folder / POLICY) for folder in folders]
    if not policies:
        sys.exit(f"{runs}/panda-3dof/ours has no runs; make them with `imitable sweep --tasks panda/3dof --methods ours -o {runs}`")
    named = {"no transfer": measured(THREE_JOINTS, policies, EPISODES)}
    for name, robot in TRANSFERS.items():
        named[name] = measured(robot, policies, EPISODES if robot is find_task("panda/3dof-transfer").evaluation_robot else FEWER)
        print(name, named[name], flush=True)
    curves: dict[str, list[dict[str, Any]]] = {"latency": [], "noise": []}
    for parameter, values in (("latency", LATENCIES), ("noise", NOISES)):
        for value in values:
            robot = BulletPanda(faults=replace(USUAL, **{parameter: value}))
            curves[parameter].append({parameter: value, **measured(robot, policies, FEWER)})
            print(curves[parameter][-1], flush=True)
    numbers = {"seeds": [folder.name for folder in folders], "episodes": [EPISODES, FEWER], "speed": steps_per_second()}
    NUMBERS.write_text(json.dumps({**numbers, "named": named, "curves": curves}, indent=1) + "\n")


def draw(path: Path = PICTURE) -> None:
    """Success and mean return over latency and over noise: a dot per policy, a line at their mean."""
    from matplotlib.figure import Figure

    curves = json.loads(NUMBERS.read_text())["curves"]
    figure = Figure(figsize=(8.6, 5.4), layout="constrained", facecolor="white")
    panels = figure.subplots(2, 2, sharex="col", sharey="row")
    for column, (parameter, label) in enumerate({"latency": "latency [ms], 2 mm noise", "noise": "noise [mm], 50 ms latency"}.items()):
        points = curves[parameter]
        values: Array = 1000 * np.array([point[parameter] for point in points])
        for axes, quantity, factor in zip(panels[:, column], ("success", "return"), (100, 1), strict=True):
            found, expert = factor * np.array([point[quantity] for point in points]), [point["expert"] for point in points]
            axes.plot(values, found.mean(axis=1), color="#1f5fa8", lw=2, label="ours")
            axes.scatter(np.repeat(values, found.shape[1]), found.ravel(), color="#1f5fa8", s=14, alpha=0.5, lw=0)
            shown = [factor * each[quantity == "return"] for each in expert]
            axes.plot(values, shown, color="#666666", lw=1.5, ls="--", label="expert")
            axes.grid(axis="y", color="#dddddd", lw=0.7)
            tidy(axes)
        panels[0, column].set_ylim(-3, 103)
        panels[1, column].set_xlabel(label)
    panels[0, 0].set_ylabel("placed without collision [%]")
    panels[1, 0].set_ylabel("mean return")
    panels[0, 0].legend(frameon=False, loc="lower left")
    write_figure(figure, path)


if __name__ == "__main__":
    if sys.argv[1:]:
        with one_thread():
            measure(Path(sys.argv[1]))
    draw()
