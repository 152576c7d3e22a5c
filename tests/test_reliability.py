"""What is said of verdicts that are right by their own measure and may still mislead, and of causes that only a trial tells."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import imitable
from imitable.arrays import Array
from imitable.cli.train import print_tracking
from imitable.demonstrations import Demonstrations
from imitable.gentleness import DOUBTFUL_MISS, PRECISION, relative_misses
from imitable.report.reliability import print_few_demonstrations, print_gentle_demonstrations
from imitable.report.terminal import print_causes
from imitable.rollouts import run_episodes
from imitable.simulators.gymnasium_robot import gymnasium_robot
from imitable.verdicts import _possible_without_ranges

BALANCE = np.array([[1.0], [12.0], [1.0], [2.0]])


def balanced(robot: Any, *, seed: int, lean: float = 0.0) -> Demonstrations:
    """Inverted pendulums that are held upright, which moves them gently."""
    robot = replace(robot, horizon=40)
    held = run_episodes(robot, lambda seen: (seen - lean) @ BALANCE, count=2, rng=np.random.default_rng(seed)).trajectories
    return Demonstrations(held.observations, held.lengths)


@pytest.fixture(scope="module")
def gentle() -> tuple[Any, Demonstrations]:
    """Two of the robot's own, two with a steady sideways force, and two of the own of which every second row is missing."""
    robot = gymnasium_robot("InvertedPendulum-v5")

    def push(model: Any) -> None:
        model.opt.gravity[0] = 0.3

    own, pushed = balanced(robot, seed=100), balanced(robot.altered(push), seed=101)
    halves = [own.trajectory(demo)[::2] for demo in range(2)]
    halved = Demonstrations(np.concatenate(halves), [len(each) - 1 for each in halves])
    return robot, imitable.join([own, pushed, halved])


def test_gentle_motion_of_another_world_misses_much_of_its_own_change_and_ones_own_does_not(gentle: tuple[Any, Demonstrations]) -> None:
    robot, given = gentle
    assessment = imitable.assess(given, robot)
    assert (assessment.scored(imitable.Feasibility()) == 1.0).all(), "they pass by the measure of a violent step"
    found = relative_misses(assessment, np.arange(6) != 1)
    assert found[0] < PRECISION
    assert found[2:].min() > DOUBTFUL_MISS
    assert np.isnan(found[1]), "it was not asked about"


@pytest.mark.parametrize(
    "spoil", [lambda rows: np.round(rows, 2), lambda rows: rows + np.random.default_rng(0).normal(0, 0.01, rows.shape)]
)
def test_nothing_is_said_of_noisy_or_coarsely_rounded_data(gentle: tuple[Any, Demonstrations], spoil: Any) -> None:
    robot, given = gentle
    assessment = imitable.assess(replace(given, observations=spoil(given.observations)), robot)
    assert np.isnan(relative_misses(assessment, np.ones(6, bool))).all()


def test_single_precision_of_a_robot_at_rest_is_no_motion() -> None:
    robot = gymnasium_robot("Pusher-v5")
    own = run_episodes(
        replace(robot, horizon=40), lambda seen: np.zeros((len(seen), 7)), count=1, rng=np.random.default_rng(100)
    ).trajectories
    rounded = own.observations.astype(np.float32).astype(np.float64)
    assert relative_misses(imitable.assess(Demonstrations(rounded, own.lengths), robot), np.ones(1, bool))[0] < DOUBTFUL_MISS


def test_gentle_demonstrations_are_told_with_their_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    table = {"demonstration": np.arange(4), "relative_miss": np.array([0.001, 0.15, np.nan, 0.25])}
    print_gentle_demonstrations(table)
    told = capsys.readouterr().out
    assert "warning: 2 of 4 demonstrations" in told
    assert "misses 20.0% of what they themselves change in a step" in told
    assert "number 3, for example (25.0%)" in told
    print_gentle_demonstrations({name: column[:1] for name, column in table.items()})
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    ("weights", "told"),
    [
        ([1.0, 1.0, 1.0, 1.0], ""),
        ([0.0, 0.0, 0.0, 1.0], "of 4 demonstrations that the robot can follow, effectively 1.0 are learned from: number 3 makes 100%"),
        ([1.0, 1.0, 0.0, 0.0], "effectively 2.0"),
    ],
)
def test_few_demonstrations_to_learn_from_are_told(capsys: pytest.CaptureFixture[str], weights: list[float], told: str) -> None:
    table = {"demonstration": np.arange(4), "weight": np.array(weights), "length": np.full(4, 10), "feasibility": np.ones(4)}
    print_few_demonstrations(table)
    printed = capsys.readouterr().out
    assert told in printed
    assert bool(printed) == bool(told)
    print_few_demonstrations(table | {"feasibility": np.array([1.0, 1.0, 0.0, 0.0])})
    assert not capsys.readouterr().out, "there were no more"


def test_causes_count_what_is_followed_in_part(capsys: pytest.CaptureFixture[str]) -> None:
    table = {
        "demonstration": np.arange(3),
        "verdict": np.array(["kept", "infeasible", "kept"]),
        "cause": np.array(["too strong", "too strong", ""]),
        "limit_factor": np.array([2.0, 3.0, 1.0]),
        "limiting_actuator": np.array(["knee", "knee", ""]),
        "first_bad_step": np.array([7, 3, -1]),
        "worst_column": np.array(["hip", "hip", "hip"]),
    }
    print_causes(table)
    assert "2 need a stronger actuator (1 of them at some steps only): number 1, for example, at step 3" in capsys.readouterr().out


LIMITED_ARM = """<mujoco><compiler angle="radian"/><option timestep="0.01"/><worldbody><body>
<joint name="hinge" axis="0 1 0" damping="1" limited="true" range="-1 1"/>
<geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.05"/></body></worldbody>
<actuator><motor name="motor" joint="hinge" ctrlrange="-20 20"/></actuator></mujoco>"""


def test_what_would_be_possible_without_joint_ranges_is_told_from_what_would_not(tmp_path: Path) -> None:
    (tmp_path / "arm.xml").write_text(LIMITED_ARM)
    robot: Any = imitable.robot(str(tmp_path / "arm.xml"))

    def free(model: Any) -> None:
        model.jnt_limited[:] = 0

    def hold(at: float) -> Array:  # for 20 steps, by the robot's own motor, without a limit
        states, rows = robot.restore(np.array([[at, 0.0]])), []
        for _ in range(21):
            rows.append(robot.observe(states)[0])
            states = robot.altered(free).step(states, 60 * (at - states[:, :1]))
        return np.array(rows)

    outside, inside, jumping = hold(1.15), hold(0.5), hold(1.15)
    jumping[1::2, 1] += 50.0  # which nothing could
    given = Demonstrations(np.concatenate([outside, inside, jumping]), [20, 20, 20])
    assessment = imitable.assess(given, robot)
    table = {"first_bad_step": np.zeros(3, np.int64)}
    assert _possible_without_ranges(assessment, table, np.arange(3)).tolist() == [True, False, False]
    assert _possible_without_ranges(assessment, table, np.array([2, 0])).tolist() == [False, True]


def test_a_policy_that_has_learned_nothing_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "arm.xml").write_text(LIMITED_ARM)
    robot: Any = imitable.robot(str(tmp_path / "arm.xml"), horizon=30)
    made = run_episodes(robot, lambda seen: np.full((len(seen), 1), 2.0), count=4, rng=np.random.default_rng(0)).trajectories
    assessment = imitable.assess(Demonstrations(made.observations, made.lengths), robot)
    for action, told in ((0.0, True), (2.0, False)):
        print_tracking(lambda seen, action=action: np.full((len(seen), 1), action), assessment, np.ones(4))  # type: ignore[misc, arg-type]
        assert ("hardly nearer to its demonstrations than a robot that does nothing" in capsys.readouterr().out) == told
