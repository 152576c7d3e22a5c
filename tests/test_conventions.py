"""Conventions that went wrong are named, and nobody is accused who did nothing."""

from collections.abc import Callable
from dataclasses import replace

import mujoco
import numpy as np
import pytest

from imitable import Demonstrations, Solved, join
from imitable.assessment import Exploration
from imitable.conventions import Finding, diagnose
from imitable.conventions.base import Option, Trial
from imitable.conventions.joint_order import _pairs_of_moves, _starting_points, all_degrees, joint_order
from imitable.conventions.kinematic import differences, rates, resampled, rotated, turns, velocity_frames
from imitable.inverse_dynamics.solved import SolvedInverseDynamics
from imitable.rollouts import Episodes
from imitable.simulators.gymnasium_robot import gymnasium_robot
from imitable.simulators.joint_columns import JointColumns, joint_columns
from imitable.simulators.mujoco import MujocoRobot, model_robot
from imitable.tracking import rollout_from
from legged import QUADRUPED

SCARA = """
<mujoco><option timestep="0.002"/><default><geom contype="0" conaffinity="0"/></default><worldbody>
  <body pos="0 0 0.4"><joint name="j1" axis="0 0 1" damping="0.5"/><geom type="capsule" fromto="0 0 0 0.4 0 0" size="0.04" mass="2"/>
    <body pos="0.4 0 0.08"><joint name="j2" axis="0 0 1" range="-2.5 2.5" limited="true" damping="0.3"/>
      <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.03" mass="1"/>
      <body pos="0.3 0 0"><joint name="j3" type="slide" axis="0 0 -1" range="0 0.2" limited="true" damping="5"/>
        <geom size="0.03" mass="0.5"/></body></body></body></worldbody>
  <actuator><motor joint="j1" ctrlrange="-20 20"/><motor joint="j2" ctrlrange="-8 8"/><motor joint="j3" ctrlrange="-30 30"/></actuator>
</mujoco>
"""

QUADROTOR = """
<mujoco><option timestep="0.005" density="1.2" viscosity="0.00002"/><worldbody><geom type="plane" size="0 0 0.1"/>
  <body name="drone" pos="0 0 1"><freejoint name="drone"/><geom type="box" size="0.1 0.1 0.03" mass="1"/>
    <site name="m1" pos="0.15 0.15 0"/><site name="m2" pos="-0.15 0.15 0"/>
    <site name="m3" pos="-0.15 -0.15 0"/><site name="m4" pos="0.15 -0.15 0"/></body></worldbody>
  <actuator><motor site="m1" gear="0 0 1 0 0 0.02" ctrlrange="0 5"/><motor site="m2" gear="0 0 1 0 0 -0.02" ctrlrange="0 5"/>
    <motor site="m3" gear="0 0 1 0 0 0.02" ctrlrange="0 5"/><motor site="m4" gear="0 0 1 0 0 -0.02" ctrlrange="0 5"/></actuator>
</mujoco>
"""

Change = Callable[[np.ndarray, JointColumns], None]


class Body:
    """A robot with what diagnosing needs, made once."""

    def __init__(self, robot: MujocoRobot) -> None:
        self.robot, self.columns = robot, joint_columns(robot)
        self.own: Episodes = Exploration(episodes=12, steps=50)(robot, rng=np.random.default_rng(0))[0]
        self.inverse: SolvedInverseDynamics = Solved().fit(self.own, robot, rng=np.random.default_rng(0))
        self.trial = Trial.of(robot, self.inverse, self.own, seed=0)

    def motion(self, steps: int = 40, robot: MujocoRobot | None = None, seed: int = 1) -> Demonstrations:
        rng, robot = np.random.default_rng(seed), robot or self.robot
        return rollout_from(robot, robot.initial_states(8, rng), steps, rng=rng).trajectories

    def findings(self, given: Demonstrations, change: Change | None = None) -> tuple[Finding, ...]:
        seen = given.observations.copy()
        if change:
            change(seen, self.columns)
        return diagnose(Demonstrations(seen, given.lengths), self.robot, self.inverse, self.own, rng=np.random.default_rng(0))


@pytest.fixture(scope="module")
def hopper() -> Body:
    return Body(gymnasium_robot("Hopper-v5"))


@pytest.fixture(scope="module")
def quadruped(tmp_path_factory: pytest.TempPathFactory) -> Body:
    (path := tmp_path_factory.mktemp("bodies") / "quadruped.xml").write_text(QUADRUPED)
    return Body(model_robot(path))


@pytest.fixture(scope="module")
def scara(tmp_path_factory: pytest.TempPathFactory) -> Body:
    """Whose first joint turns without end."""
    (path := tmp_path_factory.mktemp("bodies") / "scara.xml").write_text(SCARA)
    return Body(model_robot(path, frame_skip=10))


@pytest.fixture(scope="module")
def quadrotor(tmp_path_factory: pytest.TempPathFactory) -> Body:
    (path := tmp_path_factory.mktemp("bodies") / "quadrotor.xml").write_text(QUADROTOR)
    return Body(model_robot(path, frame_skip=4))


def in_degrees(seen: np.ndarray, columns: JointColumns) -> None:
    seen[:, columns.positions[columns.angular]] *= 180 / np.pi


def wholly_in_degrees(seen: np.ndarray, columns: JointColumns) -> None:
    in_degrees(seen, columns)
    seen[:, columns.velocities[columns.angular]] *= 180 / np.pi


def without_velocities(seen: np.ndarray, columns: JointColumns) -> None:
    seen[:, columns.velocities] = 0.0
    for each in columns.rotations:
        seen[:, each.angular_velocity] = 0.0


def permuted(seen: np.ndarray, columns: JointColumns) -> None:
    joints = np.flatnonzero(columns.branch >= 0)
    for each in (columns.positions[joints], columns.velocities[joints]):
        seen[:, each] = seen[:, np.roll(each, 2)]


def positions_permuted(seen: np.ndarray, columns: JointColumns) -> None:
    joints = columns.positions[columns.branch >= 0]
    seen[:, joints] = seen[:, np.roll(joints, 1)]


def flipped(seen: np.ndarray, columns: JointColumns) -> None:
    for each in (columns.positions, columns.velocities):
        seen[:, each[columns.branch >= 0][1]] *= -1


def xyzw(seen: np.ndarray, columns: JointColumns) -> None:
    (each,) = columns.rotations
    seen[:, each.quaternion] = np.roll(seen[:, each.quaternion], -1, axis=1)


def velocity_in_body_frame(seen: np.ndarray, columns: JointColumns) -> None:
    (each,) = columns.rotations
    for row in seen:
        turned, back = np.zeros(3), row[each.quaternion] * [1, -1, -1, -1]
        mujoco.mju_rotVecQuat(turned, row[each.velocity], back)
        row[each.velocity] = turned


@pytest.mark.parametrize(
    ("change", "name", "told"),
    [
        (in_degrees, "degrees", "thigh_joint, leg_joint, foot_joint look like degrees"),
        (wholly_in_degrees, "degrees", "joints look like degrees"),
        (without_velocities, "missing velocities", "velocities are missing"),
        (permuted, "permuted joints", "thigh_joint holds leg_joint"),
        (positions_permuted, "permuted joints", "positions and velocities are in different orders"),
        (flipped, "flipped joints", "flipped in sign (leg_joint)"),
    ],
)
def test_what_went_wrong_with_a_hopper_is_named(hopper: Body, change: Change, name: str, told: str) -> None:
    found = hopper.findings(hopper.motion(), change)
    assert [each.name for each in found] == [name]
    assert told in found[0].sentence
    exact = name != "missing velocities"  # differences are not
    assert found[0].share_after > (0.9 if exact else 0.6)
    assert found[0].share_before < 0.4
    seen = hopper.motion().observations.copy()
    change(seen, hopper.columns)
    back = found[0].convert(Demonstrations(seen, hopper.motion().lengths)).observations
    if exact:
        np.testing.assert_allclose(back, hopper.motion().observations, atol=1e-12)


@pytest.mark.parametrize(("change", "name"), [(xyzw, "quaternion order"), (velocity_in_body_frame, "velocity frame")])
def test_what_went_wrong_with_a_floating_base_is_named(quadruped: Body, change: Change, name: str) -> None:
    assert [each.name for each in quadruped.findings(quadruped.motion(), change)] == [name]


def many_turns(scara: Body, robot: MujocoRobot | None = None) -> Demonstrations:
    """The first joint is pushed one way for long, the others to and fro."""
    robot, rng = robot or scara.robot, np.random.default_rng(1)
    states = robot.initial_states(6, rng)
    seen, high = [robot.observe(states)], robot.action_high
    for _ in range(150):
        states = robot.step(states, high * np.concatenate([rng.uniform(0, 1, (6, 1)), rng.uniform(-1, 1, (6, 2))], axis=1))
        seen.append(robot.observe(states))
    return Demonstrations(np.stack(seen, axis=1).reshape(6 * 151, -1), np.full(6, 150))


def hinges_swapped(seen: np.ndarray, columns: JointColumns) -> None:
    for each in (columns.positions[:2], columns.velocities[:2]):
        seen[:, each] = seen[:, each[::-1]]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (hinges_swapped, "joints look permuted (j2 holds j1, j1 holds j2)"),
        (flipped, "joints look flipped in sign (j2, or instead j1: its mirror image moves alike)"),
        (wholly_in_degrees, "joints look like degrees (j1, j2, and their velocities)"),
        (in_degrees, "j1, j2 look like degrees"),
    ],
)
def test_a_joint_that_turns_without_end_is_not_taken_for_degrees(scara: Body, change: Change, told: str) -> None:
    given = many_turns(scara)
    assert np.abs(given.observations[:, 0]).max() > 4 * np.pi
    (found,) = scara.findings(given, change)
    assert found.sentence.startswith(told)
    assert found.share_after > 0.9


def test_a_stronger_arm_that_turns_without_end_is_not_taken_for_degrees(scara: Body) -> None:
    def stronger(model: mujoco.MjModel) -> None:
        model.actuator_gear *= 2.5

    assert scara.findings(many_turns(scara, scara.robot.altered(stronger))) == ()


def by_differences(given: Demonstrations, columns: JointColumns, kind: str) -> Demonstrations:
    """With differences of positions in the place of velocities."""
    seen = given.observations.copy()
    for demo, start in enumerate(given.starts):
        path = seen[start : start + given.lengths[demo] + 1]
        steps = np.diff(path[:, columns.positions], axis=0) / columns.timestep
        central = np.gradient(path[:, columns.positions], columns.timestep, axis=0)
        rates = {"central": central, "forward": np.vstack([steps, steps[-1:]]), "backward": np.vstack([steps[:1], steps])}
        path[:, columns.velocities] = rates[kind]
        for each in columns.rotations:
            turned = turns(path[:-1, each.quaternion], path[1:, each.quaternion]) / columns.timestep
            before, after = np.vstack([turned[:1], turned]), np.vstack([turned, turned[-1:]])
            path[:, each.angular_velocity] = {"central": (before + after) / 2, "forward": after, "backward": before}[kind]
    return Demonstrations(seen, given.lengths)


@pytest.mark.parametrize("name", ["hopper", "scara", "quadrotor"])
@pytest.mark.parametrize("kind", ["central", "forward", "backward"])
def test_velocities_that_are_differences_are_named(name: str, kind: str, request: pytest.FixtureRequest) -> None:
    body: Body = request.getfixturevalue(name)
    given = by_differences(body.motion(60), body.columns, kind)
    for data in (given, Demonstrations(given.observations.astype(np.float32).astype(np.float64), given.lengths)):
        (found,) = body.findings(data)
        assert found.name == "differences"
        assert found.sentence.startswith(f"velocities look like {kind} differences of the positions (")
        assert found.convert(data) is data
    assert len(found.concerns) == len(given)


@pytest.mark.parametrize("sampled", [200, 3])
def test_the_demonstrations_whose_velocities_are_differences_are_numbered(
    scara: Body, sampled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imitable.conventions.kinematic.SAMPLED", sampled)
    true = scara.motion(60)
    given = join([true.select([0, 1, 2]), by_differences(true, scara.columns, "central").select([3, 4, 5, 6, 7])])
    (option,) = differences(given, scara.columns, scara.robot.observation_names, scara.trial)
    assert option.concerns == (3, 4, 5, 6, 7)
    assert "5 of 8 demonstrations), which they equal exactly, the robot's own to 0.0" in option.text


@pytest.mark.parametrize("name", ["hopper", "scara", "quadrotor", "quadruped"])
def test_true_velocities_are_never_taken_for_differences(name: str, request: pytest.FixtureRequest) -> None:
    body: Body = request.getfixturevalue(name)
    for seed in range(6):
        rng, given = np.random.default_rng(seed), body.motion(60, seed=seed)
        seen, steps = given.observations, np.diff(given.observations, axis=0).std(axis=0)
        noisy, positions_noisy = seen + 0.05 * steps * rng.standard_normal(seen.shape), seen.copy()
        positions_noisy[:, body.columns.positions] = noisy[:, body.columns.positions]
        for data in (seen, seen.round(3), seen.round(5), seen.astype(np.float32).astype(np.float64), noisy, positions_noisy):
            tried = Demonstrations(data, given.lengths)
            assert not list(differences(tried, body.columns, body.robot.observation_names, body.trial)), seed


@pytest.mark.parametrize("amplitude", [0.02, 0.5])
@pytest.mark.parametrize("frame_skip", [1, 10])
def test_true_velocities_of_smooth_motions_are_never_taken_for_differences(scara: Body, frame_skip: int, amplitude: float) -> None:
    body = Body(replace(scara.robot, physics=replace(scara.robot.physics, frame_skip=frame_skip)))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        states, seen, phases = body.robot.initial_states(4, rng), [], rng.uniform(0, 2 * np.pi, (4, 3))
        for step in range(120):
            seen.append(body.robot.observe(states))
            waves = np.sin(2 * step * body.columns.timestep * (1 + np.arange(3)) + phases)
            states = body.robot.step(states, amplitude * body.robot.action_high * waves)
        given = Demonstrations(np.stack(seen, axis=1).reshape(480, -1), np.full(4, 119))
        assert not list(differences(given, body.columns, body.robot.observation_names, body.trial))


def hovering(body: Body, seed: int) -> Demonstrations:
    """Tilts of up to 0.25 rad: what a quadrotor does between manoeuvres."""
    rng, robot = np.random.default_rng(seed), body.robot
    states, seen = robot.initial_states(6, rng), []
    waves, phases = rng.uniform(1.2, 3.8, (6, 2)), rng.uniform(0, 6, (6, 2))
    rotors = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]])
    for step in range(120):
        now = robot.observe(states)
        seen.append(now)
        tilt = 2 * now[:, 4:6]
        torque = 1.2 * (0.25 * np.sin(waves * step * 0.02 + phases) - tilt) - 0.15 * now[:, 10:12]
        thrust = 9.81 + 6 * (1 - now[:, 2]) - 4 * now[:, 9]
        actions = thrust[:, None] / 4 + (torque[:, :1] * rotors[:, 1] - torque[:, 1:] * rotors[:, 0]) / 0.6
        states = robot.step(states, np.clip(actions, robot.action_low, robot.action_high))
    given = Demonstrations(np.stack(seen, axis=1).reshape(720, -1), np.full(6, 119))
    assert 0.1 < np.abs(given.observations[:, 4:6]).max() < 0.25
    return given


@pytest.mark.parametrize("seed", range(4))
def test_a_velocity_in_the_frame_of_a_body_that_tilts_a_little_is_named(quadrotor: Body, seed: int) -> None:
    given, (each,) = hovering(quadrotor, seed), quadrotor.columns.rotations
    seen = given.observations.copy()
    velocity_in_body_frame(seen, quadrotor.columns)
    told = list(velocity_frames(Demonstrations(seen, given.lengths), quadrotor.columns, quadrotor.robot.observation_names, quadrotor.trial))
    assert ["velocity looks like one in the body's own frame" in option.text for option in told] == [True]
    assert told[0].convert
    np.testing.assert_allclose(told[0].convert(Demonstrations(seen, given.lengths)).observations, given.observations, atol=1e-12)
    turned = given.observations.copy()
    turned[:, each.angular_velocity] = rotated(turned[:, each.quaternion], turned[:, each.angular_velocity])
    told = list(
        velocity_frames(Demonstrations(turned, given.lengths), quadrotor.columns, quadrotor.robot.observation_names, quadrotor.trial)
    )
    assert ["angular velocity looks like one in the world's frame" in option.text for option in told] == [True]


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.3, 1.0])
def test_velocities_in_the_right_frame_are_never_taken_for_others(quadrotor: Body, quadruped: Body, noise: float) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        for body, given in (
            (quadrotor, hovering(quadrotor, seed)),
            (quadrotor, quadrotor.motion(seed=seed)),
            (quadruped, quadruped.motion(seed=seed)),
        ):
            seen = given.observations + noise * np.diff(given.observations, axis=0).std(axis=0) * rng.standard_normal(
                given.observations.shape
            )
            tried = Demonstrations(seen, given.lengths)
            assert not list(velocity_frames(tried, body.columns, body.robot.observation_names, body.trial)), seed
            assert not list(differences(tried, body.columns, body.robot.observation_names, body.trial)), seed


def test_the_demonstrations_that_a_finding_concerns_are_numbered(hopper: Body) -> None:
    def stronger(model: mujoco.MjModel) -> None:
        model.actuator_gear *= 6

    foreign = hopper.motion(robot=hopper.robot.altered(stronger)).select([0, 1])
    given = join([hopper.motion(), foreign])
    affected = [0, 2, 3, 5, 6, 7, 8]  # of another robot the last two, of which one is in degrees

    def some_in_degrees(seen: np.ndarray, columns: JointColumns) -> None:
        for demo in affected:
            in_degrees(seen[given.starts[demo] :][: given.lengths[demo] + 1], columns)

    (finding,) = hopper.findings(given, some_in_degrees)
    assert finding.name == "degrees"
    assert finding.concerns == (0, 2, 3, 5, 6, 7), "those which the conversion puts right"


def test_a_floating_base_whose_place_is_not_shown_is_looked_at_all_the_same() -> None:
    ant = Body(gymnasium_robot("Ant-v5"))
    assert [each.name for each in ant.findings(ant.motion(), in_degrees)] == ["degrees"]


@pytest.mark.parametrize(("robot", "names"), [("Reacher-v5", []), ("Pusher-v5", ["flipped joints"])])
def test_columns_that_the_robot_never_moves_do_not_stop_the_search(robot: str, names: list[str]) -> None:
    body = Body(gymnasium_robot(robot))
    assert (body.inverse.scale == 0).any(), "a target or a goal"

    def faster(seen: np.ndarray, columns: JointColumns) -> None:
        if len(columns.positions):
            flipped(seen, columns)
        else:
            seen[1::2, 6:8] *= 3  # the joints' velocities

    assert [each.name for each in body.findings(body.motion(), faster)] == names


def test_demonstrations_too_short_for_another_frame_rate_are_no_obstacle(hopper: Body) -> None:
    often = hopper.motion(80, replace(hopper.robot, physics=replace(hopper.robot.physics, frame_skip=1)))
    pieces = Demonstrations(often.observations, np.ones(len(often.observations) // 2, dtype=np.int64))
    (found,) = hopper.findings(pieces)
    assert found.name == "frame rate"
    assert "looks like 500 Hz" in found.sentence
    assert found.share_after == found.share_before
    assert found.convert(pieces) is pieces, "nothing that could be converted is left of them at the robot's rate"


def test_another_frame_rate_is_named_with_both(hopper: Body) -> None:
    often = hopper.motion(80, replace(hopper.robot, physics=replace(hopper.robot.physics, frame_skip=2)))
    (found,) = hopper.findings(often)
    assert found.name == "frame rate"
    assert "looks like 250 Hz, the robot's steps are at 125 Hz" in found.sentence
    assert found.share_after > 0.7
    assert (found.convert(often).lengths == 40).all()


def test_nobody_is_accused_who_did_nothing(hopper: Body) -> None:
    assert hopper.findings(hopper.motion()) == ()

    def another(model: mujoco.MjModel) -> None:
        model.actuator_gear *= 4
        model.body_mass[1:] *= [0.3, 2.0, 0.5, 3.0]
        model.opt.gravity[2] = -1.6

    assert hopper.findings(hopper.motion(robot=hopper.robot.altered(another))) == ()


def test_turns_and_rotations_are_those_of_mujoco() -> None:
    rng = np.random.default_rng(0)
    start, vectors = rng.standard_normal((5, 4)), rng.standard_normal((5, 3))
    start /= np.linalg.norm(start, axis=1, keepdims=True)
    after, turned = start.copy(), np.zeros((5, 3))
    for row in range(5):
        mujoco.mju_quatIntegrate(after[row], vectors[row], 0.5)
        mujoco.mju_rotVecQuat(turned[row], vectors[row], start[row])
    np.testing.assert_allclose(turns(start, after), 0.5 * vectors, atol=1e-12)
    np.testing.assert_allclose(turns(start, -after), 0.5 * vectors, atol=1e-12, err_msg="a quaternion and its negative are one rotation")
    np.testing.assert_allclose(rotated(start, vectors), turned, atol=1e-12)


def test_resampling_follows_a_parabola(hopper: Body) -> None:
    columns, factor = hopper.columns, 2.0
    times = np.arange(5)[:, None] * factor * columns.timestep
    seen = np.zeros((5, 11))
    seen[:, columns.positions], seen[:, columns.velocities] = times**2, 2 * times
    fine = resampled(Demonstrations(seen, [4]), columns, factor)
    np.testing.assert_allclose(
        fine.observations[:, columns.positions], (np.arange(9)[:, None] * columns.timestep) ** 2 + np.zeros(5), atol=1e-15
    )


def heavier(model: mujoco.MjModel) -> None:
    model.opt.gravity[2] *= 5


def test_a_conversion_that_brings_nothing_within_reach_is_not_praised(hopper: Body) -> None:
    every_third = hopper.motion(120, hopper.robot.altered(heavier))
    rows = (every_third.starts[:, None] + np.arange(0, 121, 3)).ravel()
    (finding,) = hopper.findings(Demonstrations(every_third.observations[rows], every_third.lengths // 3))
    assert finding.name == "frame rate"
    assert finding.share_after < 0.2
    assert "positions and velocities say so, though hardly more is within reach after conversion" in finding.sentence


def test_where_one_joint_is_not_enough_two_are_moved_at_once() -> None:
    limbs, current = [np.array([0, 1, 2]), np.array([3, 4, 5])], (np.arange(6), np.ones(6))
    candidates = [(tuple(order.tolist()), tuple(sign.astype(int).tolist())) for order, sign in _pairs_of_moves(current, limbs)]
    same = (0, 1, 2, 3, 4, 5)
    assert (same, (1, -1, -1, 1, 1, 1)) in candidates, "two joints of a limb flipped"
    assert (same, (-1, -1, -1, 1, 1, 1)) in candidates, "a whole limb flipped"
    assert ((0, 4, 5, 3, 1, 2), (1, 1, 1, 1, 1, 1)) in candidates, "two joints swapped with those of the other limb"
    assert ((3, 1, 2, 0, 4, 5), (-1, 1, 1, -1, 1, 1)) in candidates, "one swapped, and both flipped"
    assert len(candidates) == len(set(candidates)) == 2 * (3 + 1) + 3 + 3 * 3
    assert all(sorted(order) == [*same] for order, _ in candidates)
    assert (current[0] == np.arange(6)).all()
    assert (current[1] == 1).all(), "where they start is left as it is"


def begun_at(*postures: list[float]) -> Demonstrations:
    return Demonstrations(np.repeat(postures, 3, axis=0), [2] * len(postures))


def test_a_search_begins_where_postures_at_the_start_are_alike() -> None:
    own, nowhere_beyond = begun_at([0.0, 0.9, -1.5, 0.1]), np.zeros((4, 4, 2))
    as_given = ([0, 1, 2, 3], [1, 1, 1, 1])

    def starts(shown: Demonstrations, beyond: np.ndarray = nowhere_beyond) -> list[tuple[list[int], list[int]]]:
        return [(order.tolist(), sign.astype(int).tolist()) for order, sign in _starting_points(shown, own, np.arange(4), beyond)]

    mixed = [1.5, 0.0, 0.1, 0.9]  # of the robot's joints, the third flipped, then the first, the fourth and the second
    assert starts(begun_at(mixed, mixed, [9.0, 9.0, 9.0, 9.0])) == [([1, 3, 0, 2], [1, 1, -1, 1]), as_given]
    assert starts(begun_at([0.1, 0.8, -1.4, 0.0])) == [as_given], "they are alike as they are"
    assert starts(begun_at([3.0, 0.9, -1.5, 0.1])) == [as_given], "no order makes them alike"
    out = nowhere_beyond.copy()
    out[0, 0, :], out[1, 1, :], out[0, 1, 1], out[1, 0, 1] = 0.5, 0.5, 0.5, 0.5
    assert starts(begun_at([0.1, 0.8, -1.4, 0.0]), out) == [([1, 0, 2, 3], [1, 1, 1, 1])], "joints leave their ranges"


def test_an_order_that_holds_for_what_it_was_searched_with_alone_is_no_finding(hopper: Body, monkeypatch: pytest.MonkeyPatch) -> None:
    import imitable.conventions as conventions

    given = hopper.motion(robot=hopper.robot.altered(heavier))
    sample = Option("permuted joints", "luck", lambda data: data, False, unseen=(0, 1))
    shares = {8: [0.1, 0.8], 2: [0.2, 0.2]}  # of all, before and after; of the two demonstrations that the search did not see
    monkeypatch.setattr(conventions, "CHECKS", (lambda *_: iter([sample]),))
    monkeypatch.setattr(Trial, "share", lambda _, data: shares[len(data)].pop(0))
    assert diagnose(given, hopper.robot, hopper.inverse, hopper.own, rng=np.random.default_rng(0)) == ()


def test_few_transitions_are_not_searched_for_an_order(hopper: Body) -> None:
    given = hopper.motion(4)
    seen = given.observations.copy()
    permuted(seen, hopper.columns)
    tried = Demonstrations(seen, given.lengths).select([0, 1, 2, 3])
    assert not list(joint_order(tried, hopper.columns, hopper.robot.observation_names, hopper.trial))


def test_who_is_merely_strong_is_not_said_to_be_in_degrees(hopper: Body) -> None:
    def stronger(model: mujoco.MjModel) -> None:
        model.actuator_gear *= 4

    given = join([hopper.motion().select([0, 1, 2, 3]), hopper.motion(robot=hopper.robot.altered(stronger)).select([4, 5, 6])])
    seen = given.observations.copy()
    wholly_in_degrees(seen[: given.starts[4]], hopper.columns)
    tried = Demonstrations(seen, given.lengths)
    (option, *_) = all_degrees(tried, hopper.columns, hopper.robot.observation_names, hopper.trial)
    assert option.concerns == (0, 1, 2, 3)
    (found,) = hopper.findings(tried)
    assert found.name == "degrees"
    assert set(found.concerns) <= {0, 1, 2, 3}
    assert found.concerns


@pytest.mark.parametrize("noise", [0.3, 1.0, 3.0])
def test_noisy_data_at_the_right_rate_are_not_of_another(hopper: Body, noise: float) -> None:
    for seed in range(6):
        given, rng = hopper.motion(60, seed=seed), np.random.default_rng(seed)
        steps = np.diff(given.observations, axis=0).std(axis=0)
        for columns in (hopper.columns.velocities, hopper.columns.positions, np.arange(given.width)):
            seen = given.observations.copy()
            seen[:, columns] += noise * steps[columns] * rng.standard_normal((len(seen), len(columns)))
            told = list(rates(Demonstrations(seen, given.lengths), hopper.columns, hopper.robot.observation_names, hopper.trial))
            assert not told, (seed, told)
