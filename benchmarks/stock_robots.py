"""Verdicts on robots that nothing was tuned for: stock Gymnasium robots, their own demonstrations against those of other bodies.

python benchmarks/stock_robots.py [ROBOT ...] [--seeds 0-1] [--noise 0 0.2]     # writes benchmarks/stock_robots.json
"""

import argparse
import json
import time
from pathlib import Path

import mujoco
import numpy as np

from imitable import Demonstrations, Feasibility, assess, join, one_thread
from imitable.arrays import Array, Generator
from imitable.paper.sweep import parse_seeds
from imitable.rollouts import random_actions
from imitable.simulators import advance
from imitable.simulators.mujoco import MujocoRobot, gymnasium_robot

ROBOTS = ("Hopper-v5", "Walker2d-v5", "HalfCheetah-v5", "Swimmer-v5", "Ant-v5", "Humanoid-v5")
RESULTS = Path(__file__).parent / "stock_robots.json"
COUNT, STEPS = 20, 100


def stronger(model: mujoco.MjModel) -> None:
    model.actuator_gear *= 2.0


def slightly_stronger(model: mujoco.MjModel) -> None:
    model.actuator_gear *= 1.2


def lighter(model: mujoco.MjModel) -> None:
    model.body_mass *= 0.7
    model.body_inertia *= 0.7


def looser(model: mujoco.MjModel) -> None:
    """Wider joint ranges: what this body shows, the robot with its narrower joints cannot."""
    model.jnt_range *= 2.0


def demonstrations(robot: MujocoRobot, *, count: int, rng: Generator, strength: tuple[float, float] = (0.1, 1.0)) -> Demonstrations:
    """Episodes of random actions, each of its own strength and held for its own time, of different lengths; falls do not end them."""
    act, middle = random_actions(robot, count, rng=rng, longest_hold=20, min_action_scale=1.0), (robot.action_low + robot.action_high) / 2
    scale = rng.uniform(*strength, (count, 1))
    states = robot.initial_states(count, rng)
    seen = [robot.observe(states)]
    for _ in range(STEPS):
        states, _ = advance(robot, states, middle + scale * (act() - middle))
        seen.append(robot.observe(states))
    lengths = rng.integers(STEPS // 2, STEPS + 1, count)
    rows = np.stack(seen, axis=1)
    return Demonstrations(np.concatenate([each[: length + 1] for each, length in zip(rows, lengths, strict=True)]), lengths)


def resampled(given: Demonstrations, speed: float) -> Demonstrations:
    """Played at another speed: interpolated in time; velocities, which would have to change too, stay, as a careless user leaves them."""
    pieces, lengths = [], []
    for index in range(len(given)):
        trajectory = given.trajectory(index)
        times = np.arange(0.0, len(trajectory) - 1 + 1e-9, speed)
        low = np.minimum(times.astype(int), len(trajectory) - 2)
        pieces.append(trajectory[low] + (times - low)[:, None] * (trajectory[low + 1] - trajectory[low]))
        lengths.append(len(times) - 1)
    return Demonstrations(np.concatenate(pieces), lengths)


def kinds(robot: MujocoRobot, rng: Generator) -> dict[str, Demonstrations]:
    own = demonstrations(robot, count=2 * COUNT, rng=rng)
    return {
        "own": own,
        "gear x2": demonstrations(robot.altered(stronger), count=COUNT, rng=rng, strength=(0.9, 1.0)),
        "gear x1.2 gentle": demonstrations(robot.altered(slightly_stronger), count=COUNT, rng=rng, strength=(0.2, 0.8)),
        "mass x0.7": demonstrations(robot.altered(lighter), count=COUNT, rng=rng),
        "joints x2": demonstrations(robot.altered(looser), count=COUNT, rng=rng),
        "time x0.5": resampled(own.select(np.arange(COUNT)), 0.5),
        "time x2": resampled(own.select(np.arange(COUNT)), 2.0),
    }


def auc(own: Array, other: Array) -> float:
    """How often an own one scores higher than another body's; ties count half."""
    return float(np.mean(own[:, None] > other[None]) + 0.5 * np.mean(own[:, None] == other[None]))


def auc_by_length(own: Array, own_lengths: Array, other: Array, other_lengths: Array) -> float:
    """The same over pairs whose lengths differ by a tenth at most, so that length alone cannot tell."""
    near = np.abs(np.log(own_lengths[:, None] / other_lengths[None])) < 0.1
    wins = (own[:, None] > other[None]) + 0.5 * (own[:, None] == other[None])
    return float(wins[near].mean()) if near.any() else float("nan")


@one_thread()
def measure(name: str, *, seed: int, noise: float) -> dict[str, object]:
    robot, rng = gymnasium_robot(name), np.random.default_rng(1000 + seed)
    sets = kinds(robot, rng)
    labels = np.repeat(list(sets), [len(each) for each in sets.values()])
    everything = join(list(sets.values()))
    if noise:
        rows = everything.transition_rows
        step = (everything.observations[rows + 1] - everything.observations[rows])[: 50 * COUNT].std(axis=0)
        noisy = everything.observations + noise * step * rng.standard_normal(everything.observations.shape)
        everything = Demonstrations(noisy, everything.lengths)
    began = time.perf_counter()
    assessment = assess(everything, robot, rng=np.random.default_rng(seed))
    score = Feasibility()
    weights, facts = assessment.scored(score), score.facts(assessment)
    seconds, own = time.perf_counter() - began, labels == "own"
    found = {
        kind: {
            "mean w_f": round(float(weights[labels == kind].mean()), 3),
            "above 0.9": round(float((weights[labels == kind] > 0.9).mean()), 3),
            "below 0.1": round(float((weights[labels == kind] < 0.1).mean()), 3),
            "AUC": round(auc(weights[own], weights[labels == kind]), 4),
            "AUC by length": round(
                auc_by_length(weights[own], everything.lengths[own], weights[labels == kind], everything.lengths[labels == kind]), 4
            ),
        }
        for kind in sets
    }
    names = ("window", "tolerance", "realised_false_reject_rate")
    known = {"noise": noise, "found_noise": facts["noise"], **{key: facts[key] for key in names}}
    return {"robot": name, "seed": seed, **known, "seconds": round(seconds, 1), "kinds": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("robots", nargs="*", default=ROBOTS)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--noise", type=float, nargs="*", default=[0.0])
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = json.loads(options.output.read_text()) if options.output.exists() else []
    for name in options.robots:
        for seed in parse_seeds(options.seeds):
            for noise in options.noise:
                cell = measure(name, seed=seed, noise=noise)
                found = [each for each in found if (each["robot"], each["seed"], each["noise"]) != (name, seed, noise)] + [cell]
                options.output.parent.mkdir(parents=True, exist_ok=True)
                options.output.write_text(json.dumps(found, indent=1) + "\n")
                scores = {
                    kind: (each["mean w_f"], each["above 0.9"], each["below 0.1"], each["AUC"]) for kind, each in cell["kinds"].items()
                }  # type: ignore[attr-defined]
                print(name, seed, noise, {key: cell[key] for key in ("window", "found_noise", "tolerance", "seconds")}, scores, flush=True)


if __name__ == "__main__":
    main()
