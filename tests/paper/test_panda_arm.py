"""Franka's arm: its kinematics and shape against MuJoCo's, Bullet's model of it, and the manufacturer's meshes."""

from pathlib import Path

import mujoco
import numpy as np
import pytest

from imitable.errors import ImitableError
from imitable.paper.panda_arm import (
    ARMS,
    CAPSULES,
    FER,
    OBSTACLE,
    Box,
    clearance,
    link_frames,
    mjcf,
    straight_down,
    straight_down_tcp,
    tcp,
)

RANDOM_JOINTS = np.random.default_rng(0).uniform(FER.low, FER.high, (100, 7))


def reachable_places(count: int = 300) -> np.ndarray:
    rng = np.random.default_rng(1)
    places = rng.uniform((0.25, -0.3, 0.045), (0.8, 0.3, 0.5), (count, 3))
    return places[straight_down(places)[1]]


@pytest.mark.parametrize("obstacle", [OBSTACLE, Box((0.3, 0.2, 0.5), (0.2, 0.05, 0.1))])
def test_kinematics_and_distances_are_those_of_mujoco(obstacle: Box) -> None:
    model = mujoco.MjModel.from_xml_string(mjcf(obstacle=obstacle))
    data, box = mujoco.MjData(model), model.geom("obstacle").id
    arm = [geom for geom in range(model.ngeom) if geom not in (box, model.geom("table").id)]
    assert len(arm) == len(CAPSULES) + 1
    distances = []
    for joints, place in zip(RANDOM_JOINTS, tcp(RANDOM_JOINTS), strict=True):
        data.qpos[:] = joints
        mujoco.mj_kinematics(model, data)
        assert data.site("tcp").xpos == pytest.approx(place, abs=1e-12)
        distances.append(min(mujoco.mj_geomDistance(model, data, geom, box, 3.0, None) for geom in arm))
    found, apart = clearance(RANDOM_JOINTS, obstacle), np.array(distances) > 1e-9
    assert 0.5 < apart.mean() < 1.0
    assert found[apart] == pytest.approx(np.array(distances)[apart], abs=1e-6)  # MuJoCo's own tolerance
    assert (found[~apart] < 1e-6).all()


def test_the_model_has_the_limits_of_each_arm() -> None:
    for limits in ARMS.values():
        model = mujoco.MjModel.from_xml_string(mjcf(limits=limits, obstacle=None, carrying=False))
        assert np.array_equal(model.jnt_range, np.stack([limits.low, limits.high], axis=1))
        assert model.ngeom == len(CAPSULES) + 1


def test_straight_down_joints_reach_their_place_with_the_hand_down_and_its_wide_side_along_x() -> None:
    places = reachable_places()
    joints, _ = straight_down(places)
    axes, _ = link_frames(joints)
    assert tcp(joints) == pytest.approx(places, abs=1e-12)
    assert straight_down_tcp(joints) == pytest.approx(places, abs=1e-12)
    assert np.allclose(axes[8, 2].T, [0.0, 0.0, -1.0], atol=1e-12)
    assert np.allclose(axes[8, 1].T, [1.0, 0.0, 0.0], atol=1e-12)
    assert not joints[:, [2, 4]].any()


def test_in_the_plane_only_joints_2_4_and_6_move() -> None:
    places = reachable_places() * (1.0, 0.0, 1.0)
    joints = straight_down(places)[0]
    assert len(np.unique(joints[:, [0, 2, 4, 6]], axis=0)) == 1
    assert (joints[:, [1, 3, 5]].std(axis=0) > 0.1).all()


def test_what_is_out_of_reach_is_said_to_be() -> None:
    reach = np.arange(0.2, 0.95, 0.01)
    row = np.stack([reach, np.zeros_like(reach), np.full_like(reach, 0.05)], axis=1)
    possible = reach[straight_down(row)[1]]
    assert (possible.min(), possible.max()) == pytest.approx((0.28, 0.80), abs=0.011)
    assert np.isfinite(straight_down(np.array([[3.0, 0.0, 0.1], [0.0, 0.0, 0.4]]))[0]).all()


def test_joints_of_another_width_are_refused() -> None:
    with pytest.raises(ImitableError, match=r"joints have shape \(2, 6\); they must be \(N, 7\)"):
        tcp(np.zeros((2, 6)))


def mesh_vertices(name: str) -> np.ndarray:
    pybullet_data = pytest.importorskip("pybullet_data")
    lines = (Path(pybullet_data.getDataPath()) / "franka_panda/meshes/collision" / f"{name}.obj").read_text().splitlines()
    return np.array([line.split()[1:4] for line in lines if line.startswith("v ")], dtype=float)


@pytest.mark.parametrize("link", range(9))
def test_the_manufacturers_meshes_stick_out_of_the_capsules_by_at_most_12_mm(link: int) -> None:
    vertices = mesh_vertices("hand" if link == 8 else f"link{link}")
    if link == 8:  # with the fingers open by 50 mm, as wide as what is carried
        finger = mesh_vertices("finger") + np.array([0.0, 0.025, 0.0584])
        vertices = np.concatenate([vertices, finger, finger * (1, -1, 1)])
    apart = []
    for capsule in (each for each in CAPSULES if each.link == link):
        start, along = np.array(capsule.start), np.subtract(capsule.end, capsule.start)
        share = np.clip((vertices - start) @ along / (along @ along), 0.0, 1.0)
        apart.append(np.linalg.norm(vertices - start - share[:, None] * along, axis=1) - capsule.radius)
    sticking_out = np.min(apart, axis=0).max()
    assert -0.002 < sticking_out <= 0.012, "the capsules are too large, or too small"
