"""The arm under Bullet's dynamics: a pure simulator like the others, and faults that bite."""

import time

import numpy as np
import pytest

from imitable.errors import ImitableError
from imitable.evaluation import evaluate
from imitable.paper.panda import COLLIDED, MOVING, PLACED, THREE_JOINTS, succeeded
from imitable.paper.panda_arm import tcp
from imitable.paper.panda_bullet import JOINTS, STATUS, TRANSFERS, BulletPanda, Faults
from imitable.paper.panda_demonstrators import pass_in_plane
from imitable.paper.tasks import find_task
from walks import walk

pytest.importorskip("pybullet")


def expert(observations: np.ndarray) -> np.ndarray:
    return pass_in_plane(observations, np.random.default_rng(0))


def pushed(robot: BulletPanda, action: tuple[float, float], count: int) -> np.ndarray:
    """TCP places (step, 3) under one action."""
    states, places = robot.initial_states(1, np.random.default_rng(0)), []
    for _ in range(count):
        places.append(tcp(states[:, JOINTS])[0])
        states = robot.step(states, np.array([action]))
    return np.array([*places, tcp(states[:, JOINTS])[0]])


def test_kinematics_are_those_of_bullets_model() -> None:
    import pybullet
    import pybullet_data

    client = pybullet.connect(pybullet.DIRECT)
    arm = pybullet.loadURDF(f"{pybullet_data.getDataPath()}/franka_panda/panda.urdf", useFixedBase=True, physicsClientId=client)
    for joints in np.random.default_rng(0).uniform(THREE_JOINTS.limits.low, THREE_JOINTS.limits.high, (50, 7)):
        for joint, angle in enumerate(joints):
            pybullet.resetJointState(arm, joint, angle, physicsClientId=client)
        hand = pybullet.getLinkState(arm, 8, computeForwardKinematics=True, physicsClientId=client)
        outward = np.array(pybullet.getMatrixFromQuaternion(hand[5])).reshape(3, 3)[:, 2]
        assert np.array(hand[4]) + 0.1034 * outward == pytest.approx(tcp(joints[None])[0], abs=2e-6)
    pybullet.disconnect(client)


@pytest.mark.parametrize("name", ["typical", "late"])
def test_a_batch_equals_batches_of_one_whatever_came_between(name: str) -> None:
    robot = TRANSFERS[name]
    states, actions, next_states = (each[-12:] for each in walk(robot, agents=4, steps=12))
    given = states.copy()
    assert np.array_equal(robot.step(states, actions), next_states)
    assert np.array_equal(states, given)
    one_by_one = [robot.step(states[[row]], actions[[row]]) for row in reversed(range(12))]
    assert np.array_equal(np.concatenate(one_by_one[::-1]), next_states)


def test_without_faults_it_moves_nearly_as_told() -> None:
    places = pushed(TRANSFERS["ideal"], (1.0, 0.0), 20)
    assert places[-1, 0] - places[0, 0] == pytest.approx(0.1, abs=0.003)
    assert np.abs(places[:, 1]).max() < 1e-3
    assert np.abs(places[:, 2] - places[0, 2]).max() < 2e-3


@pytest.mark.parametrize("latency", [0.05, 0.075, 0.2])
def test_latency_delays_motion_by_as_much(latency: float) -> None:
    robot, prompt = BulletPanda(faults=Faults(latency=latency)), pushed(TRANSFERS["ideal"], (1.0, 0.0), 6)
    late = pushed(robot, (1.0, 0.0), 6)
    assert prompt[-1, 0] - late[-1, 0] == pytest.approx(0.1 * latency, abs=3e-4)
    assert robot.initial_states(1, np.random.default_rng(0)).shape[1] == 19 + 7 * int(np.ceil(latency / 0.05))


def test_gain_and_damping_slow_it_down() -> None:
    travelled = {
        name: np.ptp(pushed(BulletPanda(faults=faults), (1.0, 0.0), 20)[:, 0])
        for name, faults in {"none": Faults(), "gain": Faults(gain=0.8), "damping": Faults(damping=20.0)}.items()
    }
    assert travelled["gain"] == pytest.approx(0.8 * travelled["none"], rel=0.02)
    assert travelled["damping"] < travelled["none"]


def test_noise_is_on_observations_alone_and_of_its_size() -> None:
    noisy, clean = BulletPanda(faults=Faults(noise=0.004)), TRANSFERS["ideal"]
    states = noisy.initial_states(2000, np.random.default_rng(0))
    off = noisy.observe(states) / 10 - tcp(states[:, JOINTS])
    assert off.std(axis=0) == pytest.approx(np.full(3, 0.004), rel=0.1)
    one, other = (robot.step(robot.initial_states(2, np.random.default_rng(0)), np.ones((2, 2))) for robot in (noisy, clean))
    assert np.array_equal(one[:, JOINTS], other[:, JOINTS])
    assert len(np.unique(noisy.observe(one))) == 6


def test_the_obstacle_is_hard_and_touching_it_counts() -> None:
    robot = TRANSFERS["ideal"]
    states = robot.restore(np.array([[5.6, 0.0, 2.6]]))
    for _ in range(60):
        states = robot.step(states, np.array([[0.0, -1.0]]))
    assert states[0, STATUS] == COLLIDED
    assert tcp(states[:, JOINTS])[0, 2] > 0.1, "it went through the obstacle"


def test_the_table_is_where_it_was() -> None:
    robot = TRANSFERS["ideal"]
    states = robot.restore(np.array([[7.7, 0.0, 0.7]]))
    seen = [states[0, STATUS]]
    for _ in range(4):
        before, states = states, robot.step(states, np.array([[0.0, -1.0]]))
        seen.append(states[0, STATUS])
        assert robot.reward(before, np.zeros((1, 2)), states) == [0.0 if before[0, STATUS] == PLACED else -10.0]
    assert seen[0] == MOVING
    assert seen[-1] == PLACED


@pytest.mark.parametrize(("name", "low", "high"), [("typical", -960, -880), ("10 Hz", -490, -440)])
def test_the_expert_arrives_in_spite_of_faults(name: str, low: float, high: float) -> None:
    robot = TRANSFERS[name]
    returns = evaluate(expert, robot, episodes=6, rng=np.random.default_rng(0)).returns
    assert succeeded(returns, robot.panda).all()
    assert low < returns.mean() < high


def test_the_transfer_task_is_judged_here_and_learns_there() -> None:
    task = find_task("panda/3dof-transfer")
    assert task.evaluation_robot is TRANSFERS["typical"]
    assert (task.evaluation_robot.faults.latency, task.evaluation_robot.faults.noise) == (0.05, 0.002)
    assert task.robot is find_task("panda/3dof").robot is find_task("panda/3dof").evaluation_robot


def test_an_action_that_is_not_a_number_ends_its_agent_alone() -> None:
    robot = TRANSFERS["typical"]
    moved = robot.step(robot.initial_states(3, np.random.default_rng(0)), np.array([[0.0, 0.0], [np.nan, 0.0], [0.0, 1.0]]))
    assert np.isnan(moved[1]).all()
    assert np.isfinite(moved[[0, 2]]).all()


@pytest.mark.parametrize("faults", [{"latency": -1.0}, {"noise": np.nan}, {"gain": 0.0}, {"damping": np.inf}])
def test_faults_that_make_no_sense_are_refused(faults: dict[str, float]) -> None:
    with pytest.raises(ImitableError, match=rf"Faults.{next(iter(faults))} is .*; it must be"):
        Faults(**faults)


def test_batched_kinematic_steps_are_at_least_five_times_as_fast() -> None:
    rates = {}
    for name, robot, agents, count in (("kinematic", THREE_JOINTS, 256, 20), ("bullet", TRANSFERS["ideal"], 16, 8)):
        states = robot.initial_states(agents, np.random.default_rng(0))
        robot.step(states, np.zeros((agents, 2)))
        began = time.process_time()
        for _ in range(count):
            states = robot.step(states, np.zeros((agents, 2)))
        rates[name] = agents * count / (time.process_time() - began)
    assert rates["kinematic"] > 5 * rates["bullet"]
