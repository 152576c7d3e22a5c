"""Servos whose force is limited: where their control makes a difference is what MuJoCo says, and the solver searches there."""

import mujoco
import numpy as np
import pytest

from imitable import Demonstrations, Solved
from imitable.assessment import Exploration
from imitable.inverse_dynamics import OUT_OF_REACH, REACHED, step_scale
from imitable.rollouts import Episodes
from imitable.simulators import effective_limits
from imitable.simulators.force_limits import ForceLimits
from imitable.simulators.mujoco import MujocoRobot, model_robot
from turntable import CLOCKWISE

ALL_KINDS = """<mujoco><worldbody>
<body><joint name="a" axis="0 1 0"/><geom size="0.05" fromto="0 0 0 0.3 0 0" type="capsule"/>
<body pos="0.3 0 0"><joint name="b" type="slide" axis="0 0 1" actuatorfrcrange="-12 30"/><geom size="0.05"/>
<body pos="0.1 0 0"><joint name="c" axis="1 0 0" actuatorfrcrange="-1 1"/><geom size="0.05"/>
<body pos="0.1 0 0"><joint name="d" type="ball"/><geom size="0.05"/></body></body></body></body></worldbody>
<actuator>
<position name="servo" joint="a" kp="60" kv="8" gear="2" ctrlrange="-6 6" forcerange="-20 15"/>
<motor name="of joint" joint="b" gear="-3" ctrlrange="-50 50"/>
<general name="backwards" joint="a" gainprm="-40" biastype="affine" biasprm="1 -2 -3" ctrlrange="-6 6" forcerange="-5 5"/>
<motor name="one of two" joint="c" ctrlrange="-9 9"/>
<motor name="two of two" joint="c" ctrlrange="-9 9"/>
<velocity name="unlimited" joint="b" kv="3" ctrlrange="-9 9"/>
<general name="filter" joint="a" dyntype="filter" dynprm="0.1" ctrlrange="-9 9" forcerange="-1 1"/>
<motor name="ball" joint="d" gear="1 0 0" ctrlrange="-9 9" forcerange="-1 1"/>
</actuator></mujoco>"""
ARM = """<mujoco><option timestep="0.002" integrator="implicitfast"/>
<default><geom contype="0" conaffinity="0" density="1000"/><joint damping="1" armature="0.02"/></default>
<worldbody><body pos="0 0 0.4"><joint name="shoulder" axis="0 1 0" range="-110 110"/>
<geom type="capsule" size="0.04" fromto="0 0 0 0 0 0.3"/><body pos="0 0 0.3"><joint name="elbow" axis="0 1 0" range="-140 140"/>
<geom type="capsule" size="0.03" fromto="0 0 0 0 0 0.25"/>
<body pos="0 0 0.25"><joint name="wrist" axis="0 1 0" range="-100 100"/><geom type="capsule" size="0.025" fromto="0 0 0 0 0 0.1"/>
</body></body></body></worldbody><actuator>
<position joint="shoulder" kp="80" kv="8" gear="2" ctrlrange="-3.8 3.8" forcerange="-25 25"/>
<position joint="elbow" kp="60" kv="6" gear="1.5" ctrlrange="-3.6 3.6" forcerange="-15 15"/>
<position joint="wrist" kp="30" kv="2" ctrlrange="-1.7 1.7" forcerange="-4 4"/></actuator></mujoco>"""


@pytest.fixture(scope="module")
def arm(tmp_path_factory: pytest.TempPathFactory) -> MujocoRobot:
    path = tmp_path_factory.mktemp("models") / "arm.xml"
    path.write_text(ARM)
    return model_robot(path)


@pytest.fixture(scope="module")
def own(arm: MujocoRobot) -> Episodes:
    return Exploration(episodes=8, steps=40)(arm, rng=np.random.default_rng(0))[0]


def test_windows_end_where_the_forces_of_mujoco_do() -> None:
    model = mujoco.MjModel.from_xml_string(ALL_KINDS)
    limits = ForceLimits.of(model)
    assert [model.actuator(int(at)).name for at in limits.actuators] == ["servo", "backwards"], "two actuators share joint b's limit"
    alone = mujoco.MjModel.from_xml_string(ALL_KINDS.replace('<velocity name="unlimited" joint="b" kv="3" ctrlrange="-9 9"/>', ""))
    limits = ForceLimits.of(alone)
    assert [alone.actuator(int(at)).name for at in limits.actuators] == ["servo", "of joint", "backwards"]
    assert (limits.weakest.tolist(), limits.strongest.tolist()) == ([-20.0, -10.0, -5.0], [15.0, 4.0, 5.0]), "a joint's, by the gear"
    data, rng = mujoco.MjData(alone), np.random.default_rng(0)
    alone.actuator_forcelimited[:], alone.jnt_actfrclimited[:], alone.actuator_ctrllimited[:] = 0, 0, 0
    for _ in range(20):
        data.qpos[:3], data.qvel[:] = rng.uniform(-2, 2, 3), rng.uniform(-5, 5, alone.nv)
        low, high = limits.windows(data.qpos[None], data.qvel[None])
        for ends, of in ((low, np.array([limits.weakest[0], limits.weakest[1], limits.strongest[2]])), (high, None)):
            data.ctrl[limits.actuators] = ends[0]
            mujoco.mj_forward(alone, data)
            wanted = of if of is not None else np.array([limits.strongest[0], limits.strongest[1], limits.weakest[2]])
            np.testing.assert_allclose(data.actuator_force[limits.actuators], wanted, rtol=1e-9, atol=1e-9)


def test_effective_limits_hold_the_servo_here_and_there(arm: MujocoRobot, own: Episodes) -> None:
    given, rows = own.trajectories.observations, own.trajectories.transition_rows
    low, high = effective_limits(arm, arm.restore(given[rows]), given[rows + 1])
    assert (low >= arm.action_low).all()
    assert (high <= arm.action_high).all()
    assert (low < high).all()
    assert ((high - low) / (arm.action_high - arm.action_low)).mean() < 0.3
    table = CLOCKWISE
    states = table.initial_states(3, np.random.default_rng(0))
    for found, limit in zip(effective_limits(table, states, table.observe(states)), (table.action_low, table.action_high), strict=True):
        np.testing.assert_array_equal(found, np.tile(limit, (3, 1)))


def test_own_transitions_of_servos_are_reached(arm: MujocoRobot, own: Episodes) -> None:
    """Over the whole range of controls nine searches in ten ended on a plateau."""
    given, rows, scale = own.trajectories.observations, own.trajectories.transition_rows, step_scale(own)
    found = Solved().for_tracking(0.0).solve(arm, arm.restore(given[rows]), given[rows + 1], scale=scale)
    assert (found.verdict == REACHED).mean() > 0.99
    assert found.steps.mean() < 20


def test_what_stronger_servos_do_takes_as_much_more_force(arm: MujocoRobot, own: Episodes) -> None:
    def stronger(model: mujoco.MjModel) -> None:
        model.actuator_forcerange *= 3.0

    body, rng = arm.altered(stronger), np.random.default_rng(1)
    states = body.initial_states(40, rng)
    directions = np.where(rng.random((40, 3)) < 0.5, arm.action_low, arm.action_high)
    moved = Demonstrations(np.stack([body.observe(states), body.observe(body.step(states, directions))], axis=1).reshape(80, -1), [1] * 40)
    rows = moved.transition_rows
    found = Solved().solve(arm, arm.restore(moved.observations[rows]), moved.observations[rows + 1], scale=step_scale(own))
    assert (found.verdict == OUT_OF_REACH).mean() > 0.9
    assert found.at_limit.any(axis=1).all()
    known = found.limit_factor[np.isfinite(found.limit_factor)]
    assert len(known) > 20
    assert 1.5 < np.median(known) < 6.0
