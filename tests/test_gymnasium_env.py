"""Any simulator as a Gymnasium environment."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import turntable
from countdown import Countdown
from imitable.paper import TASK_NAMES, driving, gymnasium_id
from imitable.paper.tasks import find_task
from imitable.simulators import reward_of
from imitable.simulators.gymnasium_env import SimulatorEnv

BOX = "ignore:.*A Box observation space (min|max)imum value is -?infinity"


@pytest.fixture(params=TASK_NAMES)
def task(request: pytest.FixtureRequest) -> str:
    return request.param


def test_every_dynamics_of_the_paper_is_registered() -> None:
    registered = {name for name in gymnasium.registry if name.startswith("imitable/")}
    expected = ("ReacherClockwise", "ReacherCounterClockwise", "DrivingSlow", "DrivingFast")
    expected += ("SwimmerBackDisabled", "SwimmerFrontDisabled", "AntXAxis", "AntYAxis", "Panda3dof", "Panda3dofTransfer")
    assert registered >= {f"imitable/{name}-v0" for name in expected}


@pytest.mark.filterwarnings(BOX)
def test_gymnasium_accepts_any_simulator() -> None:
    check_env(SimulatorEnv(turntable.CLOCKWISE), skip_render_check=True)


@pytest.mark.filterwarnings(BOX)
def test_gymnasium_accepts_the_environment(task: str) -> None:
    environment = gymnasium.make(gymnasium_id(task))
    check_env(environment.unwrapped, skip_render_check=True)
    environment.close()


@pytest.mark.filterwarnings(BOX)
def test_gymnasium_accepts_the_pictures() -> None:
    environment = gymnasium.make("imitable/DrivingSlow-v0", render_mode="rgb_array", width=64, height=48)
    check_env(environment.unwrapped)
    environment.close()


def test_the_environment_steps_as_its_simulator_does(task: str) -> None:
    simulator = find_task(task).evaluation_robot
    environment = gymnasium.make(gymnasium_id(task))
    observation, _ = environment.reset(seed=5)
    states = environment.unwrapped._state  # with what its observation does not show
    assert np.array_equal(environment.reset(seed=5)[0], observation)
    rng = np.random.default_rng(0)
    total, length, terminated, truncated = 0.0, 0, False, False
    while not (terminated or truncated):
        action = rng.uniform(-1, 1, environment.action_space.shape)
        before = states
        states = simulator.step(before, action[None])
        observation, reward, terminated, truncated, _ = environment.step(action)
        assert observation == pytest.approx(simulator.observe(states)[0], abs=1e-9)
        assert reward == pytest.approx(reward_of(simulator, before, action[None], states)[0], abs=1e-6)
        assert terminated == simulator.terminated(states)[0]
        total, length = total + reward, length + 1
    assert length == simulator.horizon if truncated else length <= simulator.horizon
    assert not (terminated and truncated)
    environment.close()


def test_an_environment_is_truncated_at_the_horizon_and_not_before() -> None:
    environment = gymnasium.make("imitable/ReacherClockwise-v0")
    environment.reset(seed=0)
    ends = [environment.step(np.zeros(1))[2:4] for _ in range(50)]
    assert ends == [(False, False)] * 49 + [(False, True)]


def test_environments_run_side_by_side() -> None:
    environments = gymnasium.make_vec("imitable/DrivingSlow-v0", num_envs=3, vectorization_mode="sync")
    observations, _ = environments.reset(seed=0)
    assert observations.shape == (3, 7)
    assert environments.step(np.zeros((3, 1)))[0].shape == (3, 7)
    environments.close()


def test_windows_are_refused_with_the_way_out() -> None:
    with pytest.raises(ValueError, match=r"render_mode is 'human'.*give 'rgb_array' or None"):
        SimulatorEnv(driving.SLOW, render_mode="human")


def test_an_end_terminates_and_does_not_truncate() -> None:
    environment = SimulatorEnv(Countdown(lengths=(6, 3), horizon=6))
    for length in (6, 3):  # the first ends just where it would be truncated
        environment.reset(seed=0)
        ends = [environment.step(np.zeros(1))[2:4] for _ in range(length)]
        assert ends == [(False, False)] * (length - 1) + [(True, False)]


def test_a_simulation_that_breaks_down_terminates_without_reward_and_says_so() -> None:
    environment = SimulatorEnv(turntable.BRITTLE)
    environment.reset(seed=0)
    steps = [environment.step(np.array([-1.0])) for _ in range(6)]  # 0.1 rad each, and -0.5 is the limit
    assert [terminated for _, _, terminated, _, _ in steps] == [False] * 5 + [True]
    assert [info for *_, info in steps] == [{"diverged": False}] * 5 + [{"diverged": True}]
    assert steps[-1][1] == 0.0
    assert np.array_equal(steps[-1][0], steps[-2][0]), "it stays where it was"


def test_actions_beyond_the_limits_are_rewarded_as_they_are_carried_out() -> None:
    environment = gymnasium.make("imitable/SwimmerBackDisabled-v0").unwrapped
    rewards = []
    for size in (1.0, 50.0):
        environment.reset(seed=0)
        rewards.append(environment.step(np.full(2, size))[1])
    assert rewards[0] == rewards[1]
