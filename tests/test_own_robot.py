"""The commands for one's own robot and data, as a stranger meets them: check, score, train, evaluate, and what is said of bad input."""

import json
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import cart
import imitable as package
import turntable
from imitable import cli, join
from imitable.arrays import Array
from imitable.assessment import Assessment
from imitable.check import check_demonstrations, check_robot, check_times
from imitable.cli.check import verdict
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.formats import csv, npz
from imitable.networks import Mlp, Policy
from imitable.rollouts import run_episodes
from imitable.simulators.gymnasium_robot import gymnasium_robot
from imitable.store.files import read_table
from imitable.tracking import rollout_from

PENDULUM = "InvertedPendulum-v5"
TINY = [part for change in ("updates=300", "checkpoint_every=100") for part in ("--set", change)]
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def imitable(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call the command line within this process: exit code, output, errors."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["imitable", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        return code, printed.out, printed.err

    return call


def balancing(observations: Array) -> Array:
    """Keeps the pole of InvertedPendulum upright."""
    return np.clip(observations @ np.array([[1.0], [20.0], [1.5], [4.0]]) / 3, -3.0, 3.0)


@pytest.fixture(scope="module")
def pendulums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten demonstrations of 100 steps that balance, and ten that let the pole fall."""
    robot, rng = gymnasium_robot(PENDULUM), np.random.default_rng(0)
    short = replace(robot, horizon=100)
    good = run_episodes(short, balancing, count=10, rng=rng).trajectories
    assert (good.lengths == 100).all()
    falls = run_episodes(short, lambda seen: np.full((len(seen), 1), 0.3), count=10, rng=rng).trajectories
    path = tmp_path_factory.mktemp("pendulums") / "mixed.npz"
    npz.write(package.join([good.with_sources(["good"] * 10), falls.with_sources(["falls"] * 10)]), path)
    return path


@pytest.fixture(scope="module")
def scored(pendulums: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scored") / "scores"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["imitable", "score", str(pendulums), "--robot", PENDULUM, "-o", str(folder)])
        cli.main()
    return folder


# Checking


def test_a_stock_robot_and_its_own_demonstrations_are_well(imitable: Call, pendulums: Path) -> None:
    code, out, _ = imitable("check", PENDULUM, pendulums)
    assert code == 0, out
    assert out.splitlines()[-1] == "no problems found"
    assert "1 actions (slide -3 to 3)" in out
    assert "4 columns (slider, hinge, slider velocity, hinge velocity)" in out


def test_findings_about_data_have_their_cures(imitable: Call, pendulums: Path, tmp_path: Path) -> None:
    given = npz.read(pendulums)
    degrees = given.observations * np.array([1.0, 180 / np.pi, 1.0, 0.0])
    long = Demonstrations(np.concatenate([degrees] * 5)[:2002], [1500, 500], observation_names=given.observation_names)
    npz.write(long, tmp_path / "long.npz")
    code, out, _ = imitable("check", PENDULUM, tmp_path / "long.npz")
    assert code == 0, "warnings only"
    assert "1 of 2 demonstrations are longer than the robot's horizon of 1000 steps (up to 1500)" in out
    assert "hinge is outside the joint's range from -1.57 to 1.57" in out
    assert "is it in degrees?" in out
    assert "hinge velocity never change in the demonstrations; were they recorded?" in out
    assert out.splitlines()[-1] == "passes with 3 warnings"


def test_a_slide_joint_is_not_asked_for_degrees(imitable: Call, tmp_path: Path) -> None:
    npz.write(Demonstrations(np.random.default_rng(0).normal(0, 1, (21, 4)) * [1000, 0.1, 1, 1], [20]), tmp_path / "millimetres.npz")
    out = imitable("check", PENDULUM, tmp_path / "millimetres.npz")[1]
    assert re.search(r"slider is outside the joint's range .* is it in another unit\?", out), out
    assert "degrees" not in out


def test_names_that_differ_in_capital_letters_are_named_as_such(imitable: Call, tmp_path: Path) -> None:
    (tmp_path / "case.csv").write_text("Demonstration,Slider,hinge,slider velocity,hinge velocity\n0,0,0,0,0\n0,0,0,0,0\n")
    out = imitable("check", PENDULUM, tmp_path / "case.csv")[1]
    assert "names are told apart by capital letters: write 'Demonstration' as 'demonstration', 'Slider' as 'slider'; give" in out


SCALED = """
import gymnasium
from gymnasium.envs.mujoco.inverted_pendulum_v5 import InvertedPendulumEnv

class Centimetres(InvertedPendulumEnv):
    def _get_obs(self):
        observation = super()._get_obs()
        observation[0] *= self.unit
        return observation

class Plain(Centimetres):
    unit = 1.0

class Scaled(Centimetres):
    unit = 100.0

gymnasium.register("PlainCart-v0", entry_point=Plain, max_episode_steps=30)
gymnasium.register("ScaledCart-v0", entry_point=Scaled, max_episode_steps=30)
"""


def test_an_environment_of_ones_own_is_named_with_its_module(imitable: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_carts.py").write_text(SCALED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    code, out, err = imitable("check", "my_carts:PlainCart-v0")
    assert code == 0, err
    assert "episodes of at most 30 steps" in out
    code, _, err = imitable("check", "my_carts:ScaledCart-v0")
    assert code == 2
    assert "column 0 is 100 times qpos[0]. Write a Simulator for it" in err
    assert "No module named 'nobodys'" in imitable("check", "nobodys:Cart-v0")[2]


def test_gentle_data_of_another_world_are_followed_with_a_warning(imitable: Call, pendulums: Path, tmp_path: Path) -> None:
    robot = gymnasium_robot(PENDULUM)

    def push(model) -> None:
        model.opt.gravity[0] = 0.3

    pushed = run_episodes(replace(robot.altered(push), horizon=40), balancing, count=2, rng=np.random.default_rng(1)).trajectories
    npz.write(Demonstrations(pushed.observations, pushed.lengths, sources=["pushed"] * 2), tmp_path / "pushed.npz")
    code, out, err = imitable("score", pendulums, tmp_path / "pushed.npz", "--robot", PENDULUM, "-o", tmp_path / "out")
    assert code == 0, err
    table = read_table(tmp_path / "out" / "scores.parquet")
    theirs = table["source"] == "pushed"
    assert (table["feasibility"][theirs] == 1.0).all()
    assert (table["relative_miss"][theirs] > 0.04).all()
    assert (table["relative_miss"][~theirs] < 0.01).all()
    assert "warning: 2 of 22 demonstrations count as followed, but move so gently that this says little" in out


def test_demonstrations_that_go_on_after_a_fall_are_told(imitable: Call, pendulums: Path, tmp_path: Path) -> None:
    robot = package.robot(PENDULUM)
    fall = rollout_from(robot, robot.initial_states(4, np.random.default_rng(0)), 60, act=lambda _, states: np.full((len(states), 1), 1.0))
    npz.write(join([npz.read(pendulums), fall.trajectories]), tmp_path / "falls.npz")
    code, out, _ = imitable("check", PENDULUM, tmp_path / "falls.npz")
    assert code == 0, "a warning only"
    assert re.search(r"warning: \d+% of the observations are where the robot's own episodes end, such as after a fall", out), out


def test_copies_and_columns_without_names_are_told(imitable: Call, pendulums: Path, tmp_path: Path) -> None:
    given = npz.read(pendulums)
    npz.write(replace(given, observation_names=None), tmp_path / "pile" / "b.npz")
    csv.write(given, tmp_path / "pile" / "a.csv")
    code, out, _ = imitable("check", PENDULUM, tmp_path / "pile")
    assert code == 0, out
    assert f"note: {tmp_path / 'pile' / 'b.npz'} does not name the columns, so that their order cannot be checked" in out
    told = "warning: 20 of 40 demonstrations are exact copies of others, such as number 20 of number 0, and count again"
    assert told in out
    code, out, err = imitable("score", tmp_path / "pile", "--robot", PENDULUM, "-o", tmp_path / "out")
    assert code == 0, err
    assert "note: " in out
    assert told in err


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (0.04, None),
        (40, None),
        (0.08, "20 of 20 demonstrations have other time steps than the robot, such as number 0, of 0.08 s instead of 0.04"),
        (0.0412, "of 0.0412 s instead of 0.04"),
    ],
)
def test_times_are_compared_with_the_robots_steps(step: float, told: str | None, pendulums: Path) -> None:
    given, robot = npz.read(pendulums), gymnasium_robot(PENDULUM)
    of_each = [1.7e9 + step * np.arange(length + 1) for length in given.lengths]
    found = check_demonstrations(robot, replace(given, times=np.concatenate(of_each)))
    assert [told in each for each in found] == [True] if told else not found


def test_gaps_in_times_are_told_and_their_rounding_is_none(pendulums: Path) -> None:
    given = npz.read(pendulums)
    times = np.arange(len(given.observations)) / 30
    assert check_times(replace(given, times=np.round(times, 2)), 1 / 30) == []
    assert check_times(replace(given, times=np.full(len(times), np.nan)), 1 / 30) == []
    assert check_times(replace(given, times=2 * times), None) == [], "a robot that does not know its step"
    times[given.starts[3] + 18 :] += 1.0
    (found,) = check_times(replace(given, times=times), 1 / 30)
    assert "1 of 20 demonstrations are not evenly timed: step 17 of number 3, for example, takes 1.033, and its usual step 0.03333" in found


@pytest.mark.filterwarnings("default:.*latest versioned")
def test_colors_of_others_warnings_are_not_shown(imitable: Call) -> None:
    _, _, err = imitable("check", "InvertedPendulum")
    assert "note: WARN: Using the latest versioned environment" in err


@pytest.mark.parametrize(
    ("errors", "warnings", "sentence"),
    [
        (0, 0, "no problems found"),
        (0, 1, "passes with 1 warning"),
        (0, 3, "passes with 3 warnings"),
        (1, 0, "1 error: fix this first"),
        (2, 1, "2 errors: fix these first; there is also 1 warning"),
        (1, 2, "1 error: fix this first; there are also 2 warnings"),
    ],
)
def test_a_check_ends_in_a_sentence(errors: int, warnings: int, sentence: str) -> None:
    assert verdict(errors, warnings) == sentence


@dataclass(frozen=True)
class Forgetful(turntable.Turntable):
    """Restores the joint only."""

    slowest: float = -2.0
    fastest: float = 0.0

    def restore(self, observations: Array, like: Array | None = None) -> Array:
        return super().restore(observations, like) * [1.0, 0.0]


class Impure(Forgetful):
    """Not even that, and its steps change what they are given."""

    def step(self, states: Array, actions: Array) -> Array:
        states += 0.1
        return states.copy()


def test_a_robot_that_breaks_its_promises_is_refused_with_an_exit_code(imitable: Call, tmp_path: Path) -> None:
    assert any("step changes the arrays it is given" in finding for finding in check_robot(Impure()))
    code, _, _ = imitable("check", "test_own_robot:Impure")
    assert code in (1, 2)
    npz.write(turntable.mixed(), tmp_path / "turns.npz")
    code, _, err = imitable("score", tmp_path / "turns.npz", "--robot", "test_own_robot:Impure", "-o", tmp_path / "out")
    assert code == 2
    assert "step changes the arrays it is given; copy them first" in err or "restore" in err
    assert not (tmp_path / "out" / "scores.parquet").exists()


def test_a_state_that_does_not_round_trip_names_its_columns(imitable: Call, tmp_path: Path) -> None:
    assert "do not survive restore and observe: goal cos, goal sin" in check_robot(Forgetful())[0]
    npz.write(turntable.mixed(), tmp_path / "turns.npz")
    code, _, err = imitable("score", tmp_path / "turns.npz", "--robot", "test_own_robot:Forgetful", "-o", tmp_path / "out")
    assert code == 2
    assert "goal cos, goal sin" in err


@pytest.mark.parametrize("name", ["Ant-v5", "Walker2d-v5"])
def test_soft_limits_and_starts_beyond_them_accuse_no_own_data(name: str) -> None:
    robot = gymnasium_robot(name)
    rng = np.random.default_rng(1)
    own = run_episodes(replace(robot, horizon=60), lambda seen: rng.uniform(-1, 1, (len(seen), len(robot.action_low))), count=8, rng=rng)
    assert not [finding for finding in check_demonstrations(robot, own.trajectories) if "range" in finding]


def test_a_simulator_of_ones_own_is_checked_like_any_other() -> None:
    assert check_robot(turntable.CLOCKWISE) == []
    assert check_demonstrations(turntable.CLOCKWISE, turntable.demonstrations(count=3)) == []


# Bad input


@pytest.mark.parametrize(
    ("robot", "message"),
    [
        ("CartPole-v1", "environment 'CartPole-v1' is no MuJoCo environment"),
        ("Hoper-v5", "unknown robot 'Hoper-v5'; did you mean Hopper-v5"),
        ("absent.xml", "there is no file 'absent.xml'; "),
        ("nowhere:ROBOT", "there is no module 'nowhere'"),
    ],
)
def test_a_robot_that_cannot_be_used_is_named(imitable: Call, pendulums: Path, tmp_path: Path, robot: str, message: str) -> None:
    for arguments in (("check", robot), ("score", pendulums, "--robot", robot, "-o", tmp_path / "out")):
        code, _, err = imitable(*arguments)
        assert code == 2
        assert message in err


def scoring(imitable: Call, tmp_path: Path, given: Demonstrations) -> str:
    npz.write(given, tmp_path / "bad.npz")
    code, _, err = imitable("score", tmp_path / "bad.npz", "--robot", PENDULUM, "-o", tmp_path / "out")
    assert code == 2
    assert not (tmp_path / "out").exists()
    return err


def test_columns_that_are_not_the_robots_are_named(imitable: Call, pendulums: Path, tmp_path: Path) -> None:
    given = npz.read(pendulums)
    names = ("hinge", "slider", "slider velocity", "hinge velocity")
    permuted = Demonstrations(given.observations, given.lengths, observation_names=names)
    assert "the same columns in another order: column 0 is 'hinge' where the robot has 'slider'" in scoring(imitable, tmp_path, permuted)
    narrow = Demonstrations(given.observations[:, :3], given.lengths)
    assert "demonstrations have 3 observation columns, but the robot has 4" in scoring(imitable, tmp_path, narrow)
    lacking = Demonstrations(given.observations[:, :3], given.lengths, observation_names=("slider", "hinge", "slider velocity"))
    csv.write(lacking, tmp_path / "lacking.csv")
    code, _, err = imitable("score", tmp_path / "lacking.csv", "--robot", PENDULUM, "-o", tmp_path / "out")
    assert code == 2
    assert "demonstrations lack 'hinge velocity'; give observations in the robot's columns" in err


def test_mixed_widths_and_nan_are_named(imitable: Call, pendulums: Path, tmp_path: Path) -> None:
    given = npz.read(pendulums)
    npz.write(given, tmp_path / "pile" / "a.npz")
    npz.write(Demonstrations(given.observations[:, :3], given.lengths), tmp_path / "pile" / "b.npz")
    code, _, err = imitable("score", tmp_path / "pile", "--robot", PENDULUM, "-o", tmp_path / "out")
    assert code == 2
    assert "b.npz has 3 columns" in err
    broken = given.observations.copy()
    broken[105, 1] = np.nan
    np.savez(tmp_path / "nan.npz", states=broken, lengths=given.lengths)
    code, _, err = imitable("score", tmp_path / "nan.npz", "--robot", PENDULUM, "-o", tmp_path / "out")
    assert code == 2
    assert "demonstration 1 has nan in column 1 of observation 4" in err


def test_all_columns_of_an_environment_are_cut_to_the_robots(imitable: Call, tmp_path: Path) -> None:
    env = gymnasium.make("Ant-v5")
    seen = [env.reset(seed=0)[0]] + [env.step(np.full(8, 0.1))[0] for _ in range(20)]
    env.close()
    npz.write(Demonstrations(np.stack(seen), [20]), tmp_path / "ant.npz")
    code, out, err = imitable("check", "Ant-v5", tmp_path / "ant.npz")
    assert code == 0, out + err
    assert "27 of the 105 columns are used" in out
    assert "1 of 20-20 transitions, 27 columns" in out


def test_one_demonstration_of_one_step_is_scored_and_little_is_said_of_it(imitable: Call, pendulums: Path, tmp_path: Path) -> None:
    given = npz.read(pendulums)
    npz.write(Demonstrations(given.observations[:2], [1], given.returns[:1]), tmp_path / "one.npz")
    code, out, err = imitable("score", tmp_path / "one.npz", "--robot", PENDULUM, "-o", tmp_path / "out")
    assert code == 0, err
    assert "1 of 1 demonstrations have fewer than 5 steps: little is known of them" in err
    assert "1 demonstrations have no feasible neighbour to be compared with: their optimality is not known" in out
    table = read_table(tmp_path / "out" / "scores.parquet")
    assert table["feasibility"].tolist() == [1.0]
    assert np.isnan(table["optimality"]).all()


def test_demonstrations_longer_than_the_horizon_are_scored_with_a_warning(imitable: Call, tmp_path: Path) -> None:
    longer = turntable.Turntable(slowest=-2.0, fastest=0.0, horizon=80)
    made = run_episodes(longer, lambda seen: np.full((len(seen), 1), -0.3), count=4, rng=np.random.default_rng(0)).trajectories
    npz.write(made, tmp_path / "long.npz")
    arm = ["--robot", "turntable:CLOCKWISE", "--inverse", "turntable:ExactModel"]
    code, _, err = imitable("score", tmp_path / "long.npz", *arm, "-o", tmp_path / "out")
    assert code == 0, err
    assert "4 of 4 demonstrations are longer than the robot's horizon of 50 steps (up to 80): a policy's episodes end there" in err


# Scores of transitions


def test_every_transition_has_a_row_and_all_are_tried_where_that_is_cheap(scored: Path) -> None:
    import pyarrow.parquet

    steps, scores = pyarrow.parquet.read_table(scored / "steps.parquet"), read_table(scored / "scores.parquet")
    assert steps.num_rows == scores["length"].sum()
    demo, step = steps["demonstration"].to_numpy(), steps["step"].to_numpy()
    assert np.array_equal(demo, np.repeat(np.arange(20), scores["length"]))
    assert np.array_equal(step, np.concatenate([np.arange(length) for length in scores["length"]]))
    assert steps["feasibility"].null_count == steps["verdict"].null_count == steps["miss"].null_count == 0
    assert set(steps["verdict"].to_pylist()) == {"followed"}
    assert np.array_equal(steps["weight"].to_numpy(), np.repeat(scores["weight"], scores["length"]))


def test_what_cannot_be_followed_says_where_and_why(imitable: Call, pendulums: Path, tmp_path: Path) -> None:
    import pyarrow.parquet

    robot = gymnasium_robot(PENDULUM)

    def change(model) -> None:
        model.actuator_gear *= 3.0

    strong, rng = replace(robot.altered(change), horizon=30), np.random.default_rng(0)
    pushes = run_episodes(strong, lambda seen: np.full((len(seen), 1), 3.0), count=4, rng=rng).trajectories
    npz.write(Demonstrations(pushes.observations, pushes.lengths, None, ["strong"] * 4), tmp_path / "strong.npz")
    code, out, err = imitable("score", pendulums, tmp_path / "strong.npz", "--robot", PENDULUM, "-o", tmp_path / "out")
    assert code == 0, err
    table = read_table(tmp_path / "out" / "scores.parquet")
    theirs = table["source"] == "strong"
    assert (table["verdict"][theirs] == "infeasible").all()
    assert (table["cause"][theirs] == "too strong").all()
    assert (table["limiting_actuator"][theirs] == "slide").all()
    assert table["limit_factor"][theirs] == pytest.approx(np.full(4, 3.0), rel=0.2)
    assert (table["cause"][~theirs] == "").all()
    assert "4 need a stronger actuator" in out
    assert "4 demonstrations have no return, so that" in out
    lost = [row for row in pyarrow.parquet.read_table(tmp_path / "out" / "steps.parquet").to_pylist() if row["verdict"] == "not followed"]
    assert {row["demonstration"] for row in lost} == {20, 21, 22, 23}
    assert {row["limiting_actuator"] for row in lost} == {"slide"}


def test_a_wrong_convention_of_some_is_told_with_their_numbers(imitable: Call, pendulums: Path, tmp_path: Path) -> None:
    given, affected = npz.read(pendulums), [11, 12, 14, 17]
    seen = given.observations.copy()
    for demo in affected:
        seen[given.starts[demo] :][: given.lengths[demo] + 1, 1] *= 180 / np.pi
    npz.write(Demonstrations(seen, given.lengths, given.returns), tmp_path / "some.npz")
    code, out, err = imitable("score", tmp_path / "some.npz", "--robot", PENDULUM, "-o", tmp_path / "out")
    assert code == 0, err
    assert "warning: of 4 demonstrations, hinge look like degrees" in out
    assert "warning: of them, it concerns demonstrations 11, 12, 14, 17\n" in out


def arm_swings(folder: Path, *, armature: float = 0.0) -> tuple[Path, Demonstrations]:
    """An arm of three joints under gravity, and what it does when it is driven along sines; jerkily without an armature."""
    links = "".join(
        f'<body pos="0 0 {0.25 * (number > 1)}"><joint name="joint{number}" axis="{axis}" range="-1.8 1.8"'
        f' damping="0.5" armature="{armature}"/>'
        '<geom type="capsule" fromto="0 0 0 0 0 0.22" size="0.03" mass="1.5" contype="0" conaffinity="0"/>'
        for number, axis in ((1, "0 0 1"), (2, "0 1 0"), (3, "0 1 0"))
    )
    motors = "".join(f'<motor joint="joint{number}" ctrlrange="-1 1" gear="{48 // number}"/>' for number in (1, 2, 3))
    (path := folder / "arm.xml").write_text(
        f'<mujoco><compiler angle="radian"/><option timestep="0.005"/><worldbody>{links}{"</body>" * 3}</worldbody>'
        f"<actuator>{motors}</actuator></mujoco>"
    )
    robot, rng = package.robot(str(path), horizon=40), np.random.default_rng(0)
    phases, sizes, times = rng.uniform(0, 6, (8, 3)), rng.uniform(0.3, 1.0, (8, 3)), iter(range(100))

    def act(seen: Array) -> Array:
        wanted = sizes * np.sin(0.05 * next(times) + phases)
        return np.clip(2.0 * (wanted - seen[:, :3]) - 0.2 * seen[:, 3:], -1, 1)

    return path, run_episodes(robot, act, count=8, rng=rng).trajectories


def test_data_that_are_all_in_degrees_are_an_error_that_says_so(imitable: Call, tmp_path: Path) -> None:
    path, made = arm_swings(tmp_path)
    npz.write(Demonstrations(made.observations * np.array([180 / np.pi] * 3 + [1.0] * 3), made.lengths), tmp_path / "degrees.npz")
    code, _, err = imitable("score", tmp_path / "degrees.npz", "--robot", path, "-o", tmp_path / "scores")
    assert code == 2
    assert "too few for a false reject rate of 0.05: the robot's simulation diverges, or it cannot track itself" in err
    assert "joints look like degrees (joint1, joint2, joint3): 100% of transitions are reachable after conversion" in err


def test_noise_that_may_be_a_wrong_convention_puts_every_verdict_in_doubt(imitable: Call, tmp_path: Path) -> None:
    path, made = arm_swings(tmp_path, armature=0.1)
    npz.write(Demonstrations(made.observations[:, [1, 0, 2, 3, 4, 5]], made.lengths), tmp_path / "permuted.npz")
    code, out, err = imitable("score", tmp_path / "permuted.npz", "--robot", path, "-o", tmp_path / "scores")
    assert code == 0, err
    assert "positions and velocities are in different orders (joint1, joint2)" in out
    assert "of a step may be this mistake, and hides what the robot cannot do: put it right and score again" in out


# Training


def test_scored_demonstrations_train_a_policy_that_is_evaluated_and_resumed(imitable: Call, scored: Path, tmp_path: Path) -> None:
    code, out, err = imitable("train", scored, "-o", tmp_path / "run", *TINY)
    assert code == 0, err
    assert "mean return" in out
    assert "learned from effectively 10 of 20 demonstrations, which earned 100.00" in out
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["robot"], config["method"]) == (PENDULUM, "ours")
    code, out, _ = imitable("evaluate", tmp_path / "run", "--episodes", 5)
    assert code == 0
    assert out.startswith(f"{PENDULUM} ours: mean return")
    assert "from the nearest demonstrated observation" in out
    code, _, err = imitable("train", scored, "-o", tmp_path / "run", *TINY)
    assert code == 2
    assert "--resume" in err
    assert imitable("train", scored, "-o", tmp_path / "run", *TINY, "--resume")[0] == 0
    code, _, err = imitable("train", scored, "-o", tmp_path / "run", *TINY, "--method", "none", "--resume")
    assert code == 2
    assert "method 'ours' (now 'none')" in err


def test_a_training_that_was_interrupted_goes_on_to_the_same_policy(imitable: Call, scored: Path, tmp_path: Path, monkeypatch) -> None:
    from imitable.store.runs import RunFolder

    assert imitable("train", scored, "-o", tmp_path / "whole", *TINY)[0] == 0
    add, count = RunFolder.add, 0

    def stopping(self, measurement) -> None:
        nonlocal count
        add(self, measurement)
        count += 1
        if count == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "add", stopping)
        assert imitable("train", scored, "-o", tmp_path / "torn", *TINY)[0] == 130
    assert imitable("train", scored, "-o", tmp_path / "torn", *TINY, "--resume")[0] == 0
    torn, whole = (Policy.load(tmp_path / name / "policy.safetensors") for name in ("torn", "whole"))
    assert np.array_equal(torn.parameters, whole.parameters)


def test_methods_take_their_columns_and_refuse_what_is_not_known(imitable: Call, scored: Path, pendulums: Path, tmp_path: Path) -> None:
    from imitable.cli.train import method_weights

    table = read_table(scored / "scores.parquet")
    assert method_weights(table, "none", place=scored).tolist() == [1.0] * 20
    assert np.array_equal(method_weights(table, "feasibility", place=scored), table["feasibility"])
    with pytest.raises(ImitableError, match=r"the optimality of 20 of 20 demonstrations .* is not known"):
        method_weights(table | {"optimality": np.full(20, np.nan)}, "optimality", place=scored)
    with pytest.raises(ImitableError, match=r"all 20 weights in .* are zero"):
        method_weights(table | {"weight": np.zeros(20)}, "ours", place=scored)


def test_a_folder_of_another_method_has_its_weights_and_not_those_of_ours() -> None:
    from imitable.cli.train import method_weights

    table = {"weight": np.array([0.5, 1.0]), "optimality": np.array([0.25, 1.0])}
    assert method_weights(table, "naive", scored_by="naive", place=Path("scores")).tolist() == [0.5, 1.0]
    assert method_weights(table, "optimality", scored_by="naive", place=Path("scores")).tolist() == [0.25, 1.0]
    for other in ("ours", "feasibility"):
        with pytest.raises(ImitableError, match=f"scores was made by method naive, which .* {other} says; score with --method {other}"):
            method_weights(table, other, scored_by="naive", place=Path("scores"))


class Middle:
    """A score of one's own: the first half of the demonstrations."""

    def __call__(self, assessment: Assessment) -> Array:
        return (np.arange(len(assessment.demonstrations)) < len(assessment.demonstrations) / 2).astype(np.float64)


MIDDLE = Middle()


@pytest.mark.parametrize("method", ["naive", "none", "feasibility", "test_own_robot:MIDDLE"])
def test_demonstrations_are_scored_by_another_method_which_training_takes_over(
    imitable: Call, pendulums: Path, tmp_path: Path, method: str
) -> None:
    code, out, err = imitable("score", pendulums, "--robot", PENDULUM, "--method", method, "-o", tmp_path / "scores")
    assert code == 0, err
    assert "steps.parquet for each transition" in out
    assert json.loads((tmp_path / "scores" / "settings.json").read_text())["method"] == method
    assert not (tmp_path / "scores" / "scores.png").exists(), "which shows feasibility and optimality as ours compares them"
    if method == "test_own_robot:MIDDLE":
        assert read_table(tmp_path / "scores" / "scores.parquet")["weight"].tolist() == [1.0] * 10 + [0.0] * 10
        code, _, err = imitable("train", tmp_path / "scores", "-o", tmp_path / "run", *TINY)
        assert code == 0, err
        assert json.loads((tmp_path / "run" / "config.json").read_text())["method"] == method


def test_a_method_that_is_a_learner_of_its_own_trains_by_it(imitable: Call, scored: Path, tmp_path: Path) -> None:
    shutil.copytree(scored, tmp_path / "sail")
    settings = json.loads((tmp_path / "sail" / "settings.json").read_text())
    (tmp_path / "sail" / "settings.json").write_text(json.dumps({**settings, "method": "sail"}))
    code, _, err = imitable("train", tmp_path / "sail", "-o", tmp_path / "run", "--learner", "gail")
    assert code == 2
    assert "method sail is a learner of its own, sail; leave out --learner gail" in err
    code, _, err = imitable("train", tmp_path / "sail", "-o", tmp_path / "run", "--set", "updates=3")
    assert code == 2
    assert "unknown setting 'updates' of Sail" in err


def test_a_picture_that_cannot_be_drawn_leaves_no_folder_that_looks_complete(
    imitable: Call, pendulums: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from imitable.cli import score

    def failing(*_: object, **__: object) -> None:
        raise ImitableError("no room for a picture")

    monkeypatch.setattr(score, "draw_scores", failing)
    code, _, err = imitable("score", pendulums, "--robot", PENDULUM, "-o", tmp_path / "scores")
    assert code == 2
    assert "no room for a picture" in err
    assert not (tmp_path / "scores" / "settings.json").exists()


def test_a_folder_without_scores_or_with_other_demonstrations_is_refused(imitable: Call, scored: Path, tmp_path: Path) -> None:
    code, _, err = imitable("train", tmp_path, "-o", tmp_path / "run")
    assert code == 2
    assert "has no settings.json, so it holds no scores; make them with `imitable score" in err
    shutil.copytree(scored, tmp_path / "changed")
    npz.write(turntable.mixed(), tmp_path / "changed" / "demonstrations.npz")
    code, _, err = imitable("train", tmp_path / "changed", "-o", tmp_path / "run")
    assert code == 2
    assert "is not what was scored" in err


def test_a_learner_of_ones_own_or_a_wrong_number_is_found_or_named(imitable: Call, scored: Path, tmp_path: Path) -> None:
    code, _, err = imitable("train", scored, "-o", tmp_path / "run", "--learner", "clonning")
    assert code == 2
    assert "did you mean cloning" in err
    code, _, err = imitable("train", scored, "-o", tmp_path / "run", "--set", "update=3")
    assert code == 2
    assert "did you mean updates" in err
    assert imitable("train", scored, "-o", tmp_path / "run", "--learner", "turntable:TINY_CLONING")[0] == 0


def test_a_robot_without_a_reward_says_so(imitable: Call, tmp_path: Path) -> None:
    xml = """<mujoco><option timestep="0.01"/><worldbody><body><joint name="hinge" axis="0 1 0" damping="1"/>
    <geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.05"/></body></worldbody>
    <actuator><motor name="motor" joint="hinge" ctrlrange="-2 2"/></actuator></mujoco>"""
    (tmp_path / "arm.xml").write_text(xml)
    robot = package.robot(str(tmp_path / "arm.xml"), horizon=40)
    made = run_episodes(robot, lambda seen: 0.5 - seen[:, :1], count=6, rng=np.random.default_rng(0)).trajectories
    npz.write(made, tmp_path / "swings.npz")
    options = ("--robot", tmp_path / "arm.xml", "--horizon", 40)
    code, out, err = imitable("score", tmp_path / "swings.npz", *options, "-o", tmp_path / "scores")
    assert code == 0, err
    assert "no demonstration has a return" in out
    code, out, err = imitable("train", tmp_path / "scores", "-o", tmp_path / "run", *TINY)
    assert code == 0, err
    assert "returns are not known: the robot has no reward" in out
    told = re.search(
        r"started where 6 of its demonstrations start, the policy is (\S+) of a step from them, a robot whose .* (\S+) \(", out
    )
    assert told is not None, out
    assert float(told[1]) < 0.2 * float(told[2]), "it has learned something"
    assert "(mean over the first 40 steps; median)" in out
    code, out, _ = imitable("evaluate", tmp_path / "run", "--episodes", 5)
    assert code == 0
    assert "the robot has no reward" in out
    assert "from the nearest demonstrated observation" in out


TASKLESS = """
import numpy as np
from cart import Cart

class Bare:
    horizon, action_low, action_high, observation_names = 30, -np.ones(2), np.ones(2), Cart().observation_names
    initial_states, step, observe, restore = (getattr(Cart(), name) for name in ("initial_states", "step", "observe", "restore"))

    def cache_key(self):
        return 1

ROBOT = Bare()
"""


def test_a_users_robot_without_reward_and_termination_is_checked_scored_and_trained(
    imitable: Call, tmp_path: Path, write_module: Callable[[str, str], None]
) -> None:
    write_module("taskless", TASKLESS)
    made = run_episodes(cart.Cart(horizon=30), lambda seen: -seen[:, :2] - seen[:, 2:], count=6, rng=np.random.default_rng(0)).trajectories
    npz.write(Demonstrations(made.observations, made.lengths), tmp_path / "pushes.npz")
    code, out, err = imitable("check", "taskless:ROBOT", tmp_path / "pushes.npz")
    assert code == 0, err
    assert "episodes of at most 30 steps, without a reward" in out
    code, _, err = imitable("score", tmp_path / "pushes.npz", "--robot", "taskless:ROBOT", "-o", tmp_path / "scores")
    assert code == 0, err
    code, out, err = imitable("train", tmp_path / "scores", "-o", tmp_path / "run", *TINY)
    assert code == 0, err
    assert "returns are not known: the robot has no reward" in out
    code, out, err = imitable("evaluate", tmp_path / "run", "--episodes", 3)
    assert code == 0, err


# The policy, as users of Stable-Baselines3 expect it


@pytest.fixture
def policy() -> Policy:
    network, rng = Mlp((4, 8, 1)), np.random.default_rng(0)
    made = Policy.fresh(network, center=np.zeros(4), scale=np.ones(4), low=-3 * np.ones(1), high=3 * np.ones(1), rng=rng, std=0.5)
    return replace(made, parameters=50 * made.parameters)


def test_predict_takes_one_observation_or_a_batch(policy: Policy) -> None:
    seen = np.random.default_rng(0).standard_normal((5, 4))
    actions, state = policy.predict(seen)
    assert state is None
    assert actions.dtype == np.float32
    assert actions == pytest.approx(policy(seen))
    assert policy.predict(seen[2])[0] == pytest.approx(policy(seen[2:3])[0])
    assert policy.predict(seen[2])[0].shape == (1,)
    assert policy.predict(seen[2].tolist())[0] == pytest.approx(actions[2])


def test_predict_samples_within_the_limits_when_asked_to(policy: Policy) -> None:
    seen = np.zeros((200, 4))
    actions, _ = policy.predict(seen, deterministic=False, rng=np.random.default_rng(0))
    assert actions.std() > 0.1
    assert (np.abs(actions) <= 3).all()
    again, _ = policy.predict(seen, deterministic=False, rng=np.random.default_rng(0))
    assert np.array_equal(actions, again)
    certain = replace(policy, log_std=np.zeros(0, np.float32))
    assert np.array_equal(certain.predict(seen, deterministic=False)[0], certain.predict(seen)[0])


def test_predict_names_an_observation_of_another_shape(policy: Policy) -> None:
    for shape in ((3,), (2, 3), (1, 1, 4), ()):
        with pytest.raises(ImitableError, match=r"the observation has shape .*; this policy takes \(4,\) or \(N, 4\)"):
            policy.predict(np.zeros(shape))


def test_predict_runs_a_gymnasium_environment(policy: Policy) -> None:
    env = gymnasium.make(PENDULUM)
    observation, _ = env.reset(seed=0)
    for _ in range(3):
        action, _ = policy.predict(observation, deterministic=True)
        assert env.action_space.contains(action)
        observation, *_ = env.step(action)
    env.close()
