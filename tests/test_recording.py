"""Noise, rounding and another frame rate of single demonstrations are named, and clean data of whatever body are not."""

from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest

import turntable
from imitable import Demonstrations, robot as find_robot
from imitable.arrays import Array
from imitable.cli.check import recording_warnings
from imitable.conventions.recording import recording_doubts
from imitable.report.terminal import print_causes
from imitable.simulators.joint_columns import joint_columns
from imitable.simulators.mujoco import MujocoRobot, model_robot
from imitable.tracking import rollout_from
from legged import QUADRUPED
from test_conventions import SCARA


def motion(robot: MujocoRobot, *, count: int = 8, steps: int = 60, seed: int = 1) -> Demonstrations:
    rng = np.random.default_rng(seed)
    return rollout_from(robot, robot.initial_states(count, rng), steps, rng=rng).trajectories


@pytest.fixture(scope="module", params=["HalfCheetah-v5", "Pusher-v5", "Walker2d-v5", "scara", "quadruped"])
def robot(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> MujocoRobot:
    if request.param not in ("scara", "quadruped"):
        found = find_robot(request.param)
        assert isinstance(found, MujocoRobot)
        return found
    (path := tmp_path_factory.mktemp("bodies") / "body.xml").write_text({"scara": SCARA, "quadruped": QUADRUPED}[request.param])
    return model_robot(path, frame_skip=10 if request.param == "scara" else None)


def changed(given: Demonstrations, which: list[int], change: Callable[[Array], Array]) -> Demonstrations:
    seen = given.observations.copy()
    for demo in which:
        rows = slice(given.starts[demo], given.starts[demo] + given.lengths[demo] + 1)
        seen[rows] = change(seen[rows])
    return Demonstrations(seen, given.lengths)


def lighter(model: mujoco.MjModel) -> None:
    model.body_mass *= 0.3
    model.body_inertia *= 0.3


def stronger(model: mujoco.MjModel) -> None:
    model.actuator_gear *= 2


def test_clean_data_of_whatever_body_are_not_doubted(robot: MujocoRobot) -> None:
    for body in (robot, robot.altered(lighter), robot.altered(stronger)):
        for seed in (2, 3):
            assert recording_doubts(motion(body, seed=seed), robot, motion(robot)) == ()


def test_noise_is_named_with_its_columns_and_size(robot: MujocoRobot) -> None:
    given, rng, at = motion(robot, steps=100, seed=2), np.random.default_rng(0), joint_columns(robot).positions[-1]
    sigma = 4 * np.diff(given.observations[:, at]).std()

    def noisy(path: Array) -> Array:
        path[:, at] += sigma * rng.standard_normal(len(path))
        return path

    (doubt,) = recording_doubts(changed(given, [1, 3, 6], noisy), robot, motion(robot))
    assert (doubt.name, doubt.concerns) == ("noise", (1, 3, 6))
    said = float(doubt.sentence.split(f"({robot.observation_names[at]} by ")[1].split(")")[0])
    assert abs(said - sigma) < 0.25 * sigma
    assert recording_doubts(changed(given, [1, 3], noisy), robot, motion(robot), noise=1e3) == (), "verdicts allow for it"
    assert recording_doubts(changed(given, [1, 3], noisy), robot, motion(robot), numbers=[0, 2]) == ()


def test_an_object_that_only_a_camera_sees_move_is_doubted() -> None:
    pusher = find_robot("Pusher-v5")
    assert isinstance(pusher, MujocoRobot)
    at, rng = [pusher.observation_names.index(name) for name in ("object x", "goal y")], np.random.default_rng(0)

    def seen(path: Array) -> Array:
        path[:, at] += 0.002 * rng.standard_normal((len(path), 2))
        return path

    (doubt,) = recording_doubts(changed(motion(pusher), list(range(8)), seen), pusher, motion(pusher, seed=2))
    assert doubt.concerns == tuple(range(8))
    assert "object x by 0.00" in doubt.sentence
    assert "goal y by 0.00" in doubt.sentence
    assert recording_warnings(pusher, motion(pusher)) == []
    (warning,) = recording_warnings(pusher, changed(motion(pusher), [3, 4], seen))
    assert warning.startswith("warning: demonstrations 3, 4 jump to and fro")
    assert recording_warnings(turntable.CLOCKWISE, motion(pusher)) == [], "of other simulators, nothing is known of the columns"


def test_noise_of_velocities_alone_is_named(tmp_path: Path) -> None:
    (path := tmp_path / "scara.xml").write_text(SCARA)
    scara, rng = model_robot(path, frame_skip=10), np.random.default_rng(0)
    phases, high = rng.uniform(0, 6, (6, 3)), 0.3 * scara.action_high
    start = scara.initial_states(6, rng)
    given = rollout_from(scara, start, 80, act=lambda time, _: high * np.sin(0.1 * time + phases)).trajectories
    assert recording_doubts(given, scara, motion(scara)) == ()
    at = joint_columns(scara).velocities[1]

    def noisy(path: Array) -> Array:
        path[:, at] += 1.5 * rng.standard_normal(len(path))
        return path

    (doubt,) = recording_doubts(changed(given, [0, 5], noisy), scara, motion(scara))
    assert (doubt.name, doubt.concerns) == ("noise", (0, 5))
    assert f"({scara.observation_names[at]} by " in doubt.sentence


def test_demonstrations_with_fewer_decimals_than_the_others_are_named(robot: MujocoRobot) -> None:
    given = changed(motion(robot), [2, 5], lambda path: path.round(1))
    (doubt,) = recording_doubts(given, robot, motion(robot, seed=3))
    assert (doubt.name, doubt.concerns) == ("rounding", (2, 5))
    assert recording_doubts(changed(motion(robot), [2, 5], lambda path: path.round(7)), robot, motion(robot, seed=3)) == ()


def test_some_at_half_the_rate_are_named() -> None:
    hopper = find_robot("Hopper-v5")
    assert isinstance(hopper, MujocoRobot)
    whole, long = motion(hopper, steps=60), motion(hopper, count=3, steps=120, seed=4)
    rows = (long.starts[:, None] + np.arange(0, 121, 2)).ravel()
    given = Demonstrations(np.concatenate([whole.observations, long.observations[rows]]), [60] * 11)
    (doubt,) = recording_doubts(given, hopper, motion(hopper, seed=2))
    assert (doubt.name, doubt.concerns) == ("frame rate", (8, 9, 10))
    assert "looks like 62.5 Hz, the robot's steps are at 125 Hz" in doubt.sentence


def test_no_cause_is_claimed_of_the_doubtful(capsys: pytest.CaptureFixture[str]) -> None:
    table = {
        "cause": np.array(["too strong", "too strong", "", "unsupported"]),
        "verdict": np.array(["infeasible", "infeasible", "kept", "infeasible"]),
        "limit_factor": np.array([2.0, 3.0, 1.0, np.inf]),
        "limiting_actuator": np.array(["knee", "knee", "", ""]),
        "first_bad_step": np.array([3, 4, -1, 5]),
        "worst_column": np.array(["knee", "knee", "", "hip"]),
        "demonstration": np.arange(4),
    }
    print_causes(table, doubtful=[1, 2, 3])
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("1 need a stronger actuator: number 0")
    assert said[1].startswith("2 cannot be followed as they are recorded")
    assert len(said) == 2
    assert table["cause"][1] == "too strong", "the table keeps it"
