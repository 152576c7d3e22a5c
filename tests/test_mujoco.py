"""Stock robots beside the single environment they are taken from, and the errors a stranger may meet."""

import dataclasses
from pathlib import Path

import gymnasium
import mujoco
import numpy as np
import pytest

from imitable.check import check_robot
from imitable.errors import ImitableError
from imitable.robots import robot
from imitable.rollouts import run_episodes
from imitable.simulators import physics, reward_of
from imitable.simulators.gymnasium_robot import gymnasium_robot
from imitable.simulators.mujoco import MujocoRobot, model_robot
from imitable.simulators.physics import quiet

CLIPPED = {"Hopper", "Walker2d", "InvertedDoublePendulum"}
ENVIRONMENTS = (
    *("Hopper", "Walker2d", "HalfCheetah", "Swimmer", "Ant", "Humanoid", "HumanoidStandup", "Reacher", "Pusher"),
    *("InvertedPendulum", "InvertedDoublePendulum"),
)
ARM = """<mujoco><option timestep="0.004"/><worldbody><body><joint name="hinge" axis="0 1 0"/><geom size="0.05" fromto="0 0 0 0.3 0 0"
type="capsule"/></body><body pos="0 1 1"><freejoint name="base"/><geom size="0.1"/></body></worldbody>
<actuator><motor name="elbow" joint="hinge" {limits}/></actuator></mujoco>"""


@pytest.fixture(scope="module", params=ENVIRONMENTS)
def stock(request: pytest.FixtureRequest) -> MujocoRobot:
    return gymnasium_robot(f"{request.param}-v5")


def test_every_step_is_that_of_the_environment(stock: MujocoRobot) -> None:
    with quiet():
        env = gymnasium.make(stock.name)
    for episode in range(3):
        rng, seed = np.random.default_rng(episode), np.random.default_rng(episode).integers(2**31, size=1)[0]
        observation, _ = env.reset(seed=int(seed))
        states = stock.initial_states(1, np.random.default_rng(episode))
        np.testing.assert_allclose(stock.observe(states)[0], observation[stock.environment_columns], rtol=0, atol=1e-9)
        for _ in range(50):
            action = rng.uniform(stock.action_low, stock.action_high)
            observation, reward, terminated, _, info = env.step(action)
            following = stock.step(states, action[None])
            np.testing.assert_allclose(stock.observe(following)[0], observation[stock.environment_columns], rtol=0, atol=1e-9)
            contact = info.get("reward_contact", 0.0) + info.get("reward_impact", 0.0)
            assert reward_of(stock, states, action[None], following)[0] == pytest.approx(reward - contact, abs=1e-9)
            assert stock.terminated(following)[0] == terminated
            states = following
    env.close()


def test_check_finds_nothing_but_what_observations_do_not_show(stock: MujocoRobot) -> None:
    findings = check_robot(stock)
    if stock.name.removesuffix("-v5") in CLIPPED:
        assert len(findings) == 1
        assert findings[0].startswith("warning: ")
        assert "clipped" in findings[0]
    elif stock.name == "Reacher-v5":  # a joint of 344 degrees is shown by its sine and cosine
        assert len(findings) == 1
        assert findings[0].startswith("warning: ")
        assert "one of two within its joint's limits" in findings[0]
    else:
        assert findings == []


def test_names_are_unique_and_what_is_left_out_is_said(stock: MujocoRobot) -> None:
    assert len(set(stock.observation_names)) == len(stock.observation_names)
    with quiet():
        env = gymnasium.make(stock.name)
    complete = len(stock.environment_columns) == env.observation_space.shape[0]  # type: ignore[index]
    assert complete or any("cfrc_ext" in note for note in stock.notes)
    env.close()


def test_what_an_observation_hides_comes_from_like() -> None:
    hopper = gymnasium_robot("Hopper-v5")
    states = hopper.initial_states(5, np.random.default_rng(0))
    for _ in range(10):
        states = hopper.step(states, np.full((5, 3), 0.3))
    assert hopper.restorable(hopper.observe(states)).all()
    assert (hopper.restore(hopper.observe(states))[:, 0] == 0).all()
    np.testing.assert_array_equal(hopper.restore(hopper.observe(states), like=states), states)


def test_another_body_moves_otherwise() -> None:
    def stronger(model: mujoco.MjModel) -> None:
        model.actuator_gear[:] *= 2

    hopper = gymnasium_robot("Hopper-v5")
    states, actions = hopper.initial_states(3, np.random.default_rng(0)), np.full((3, 3), 0.3)
    strong = hopper.altered(stronger)
    np.testing.assert_allclose(strong.step(states, actions), hopper.step(states, 2 * actions), rtol=0, atol=1e-12)
    assert np.abs(strong.step(states, actions) - hopper.step(states, actions)).max() > 1e-2


def test_a_breakdown_is_nan_and_stays_alone() -> None:
    hopper = gymnasium_robot("Hopper-v5")
    states = hopper.initial_states(3, np.random.default_rng(0))
    broken = states.copy()
    broken[1, 6:12] = 1e9
    moved = hopper.step(broken, np.zeros((3, 3)))
    assert np.isnan(moved[1]).all()
    np.testing.assert_array_equal(moved[[0, 2]], hopper.step(states, np.zeros((3, 3)))[[0, 2]])


def test_simulations_that_were_not_used_for_long_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    body = gymnasium_robot("Hopper-v5")
    assert isinstance(body, MujocoRobot)
    kept: dict[tuple[object, ...], physics.Scratch] = {}
    monkeypatch.setattr(physics, "_KEPT", kept)
    monkeypatch.setattr(physics, "MAX_KEPT", 3 * (body.physics.model.nbuffer + 2 * physics.PER_THREAD) + 1)
    monkeypatch.setenv(physics.THREADS, "2")
    states = body.initial_states(12, np.random.default_rng(0))
    actions = np.full((12, 3), 0.5)
    whole = body.step(states, actions)
    for count in (1, 2, 1, 3, 4):  # that of 12, used once, goes first, then that of 2
        np.testing.assert_array_equal(body.step(states[:count], actions[:count]), whole[:count])
    assert [key[1] for key in kept] == [1, 3, 4]


def test_observations_of_others_are_judged() -> None:
    ant = gymnasium_robot("Ant-v5")
    own = ant.observe(ant.initial_states(20, np.random.default_rng(0)))
    assert check_robot(ant, own) == []
    assert "environment_columns" in check_robot(ant, np.zeros((4, 105)))[0]
    own[3, 7] = np.nan
    assert "'hip_2' is not finite in 1 rows" in check_robot(ant, own)[0]


def test_an_mjcf_file_is_a_robot(tmp_path: Path) -> None:
    (path := tmp_path / "arm.xml").write_text(ARM.format(limits='ctrlrange="-2 3" ctrllimited="true"'))
    arm = robot(str(path), floor=True)
    assert isinstance(arm, MujocoRobot)
    assert arm.physics.frame_skip == 5
    assert arm.observation_names[:3] == ("hinge", "base x", "base y")
    assert arm.observation_names[8:10] == ("hinge velocity", "base velocity x")
    assert (arm.action_low.tolist(), arm.action_high.tolist()) == ([-2.0], [3.0])
    assert check_robot(arm) == []
    states = arm.initial_states(1, np.random.default_rng(0))
    still = run_episodes(arm, lambda observations: np.zeros((len(observations), 1)), count=2, rng=np.random.default_rng(0))
    assert np.isnan(still.trajectories.returns).all(), "nobody knows what an episode of a robot without a reward is worth"
    with pytest.raises(ImitableError, match="'arm' has no reward"):
        arm.reward(states, np.zeros((1, 1)), states)


def test_a_force_range_limits_an_actuator_and_nothing_is_an_error(tmp_path: Path) -> None:
    (path := tmp_path / "arm.xml").write_text(ARM.format(limits='forcerange="-4 4" forcelimited="true"'))
    assert model_robot(path).action_high.tolist() == [4.0]
    both = 'forcerange="-4 40" forcelimited="true" ctrlrange="-9 9" ctrllimited="true"'
    path.write_text(ARM.format(limits=both))
    weaker = model_robot(path)
    assert (weaker.action_low.tolist(), weaker.action_high.tolist()) == ([-4.0], [9.0]), "the narrower limit counts"
    path.write_text(ARM.replace("<motor", "<general dyntype='filter' dynprm='0.1'").format(limits=both))
    assert model_robot(path).action_low.tolist() == [-9.0], "of a filter, more control means a faster change"
    path.write_text(ARM.format(limits=""))
    with pytest.raises(ImitableError, match="actuator 'elbow' has no limits; give it a ctrlrange"):
        model_robot(path)
    with pytest.raises(ImitableError, match=r"there is no file .*none\.xml"):
        model_robot(tmp_path / "none.xml")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "message"),
    [("Hoper-v5", "unknown environment 'Hoper-v5'; did you mean Hopper-v5"), ("CartPole-v1", "is no MuJoCo environment")],
)
def test_environments_that_cannot_be_robots_are_named(name: str, message: str) -> None:
    with pytest.raises(ImitableError, match=message):
        gymnasium_robot(name)


def test_an_observation_that_hides_the_state_asks_for_a_state_map() -> None:
    with pytest.raises(ImitableError, match="does not show thigh_joint velocity; pass state_map"):
        gymnasium_robot("Hopper-v5", leave_out=[8])

    def state_map(observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        qpos = np.insert(observations[:, :5], 0, 0.0, axis=1)
        return qpos, np.insert(observations[:, 5:], 3, 0.0, axis=1)

    hopper = gymnasium_robot("Hopper-v5", leave_out=[8], state_map=state_map)
    observations = hopper.observe(hopper.initial_states(4, np.random.default_rng(0)))
    np.testing.assert_array_equal(hopper.observe(hopper.restore(observations)), observations)


class Forgetful(MujocoRobot):
    """A robot whose steps depend on what else is in the batch."""

    def step(self, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
        moved = super().step(states, actions)
        moved[:, 1] += 1e-9 * len(states)
        return moved


def test_check_finds_a_robot_that_sees_others() -> None:
    hopper = gymnasium_robot("Hopper-v5")
    forgetful = Forgetful(**{field.name: getattr(hopper, field.name) for field in dataclasses.fields(hopper)})
    assert any("a batch of N steps differs" in finding for finding in check_robot(forgetful))
