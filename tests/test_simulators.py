"""One contract for all simulators, then what is known of each."""

import dataclasses
import importlib

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import imitable
import turntable
from imitable.errors import ImitableError
from imitable.evaluation import evaluate
from imitable.simulators import Simulator, _mujoco, advance, ant, driving, earned, reacher, swimmer
from imitable.simulators.gymnasium import DYNAMICS, SimulatorEnv

SIMULATORS = {
    "reacher clockwise": reacher.CLOCKWISE,
    "reacher counter-clockwise": reacher.COUNTER_CLOCKWISE,
    "driving slow": driving.SLOW,
    "driving fast": driving.FAST,
    "swimmer back-disabled": swimmer.BACK_DISABLED,
    "swimmer front-disabled": swimmer.FRONT_DISABLED,
    "ant x-axis": ant.X_AXIS,
    "ant y-axis": ant.Y_AXIS,
    "turntable": turntable.CLOCKWISE,
}
HIDDEN = {
    reacher.Reacher: [2],
    driving.Driving: [7, 8],
    swimmer.Swimmer: [0, 1, *range(10, 15)],
    ant.Ant: [0, 1, *range(29, 44)],
    turntable.Turntable: [],
}
"""State columns that observations do not show."""


@pytest.fixture(params=SIMULATORS.values(), ids=SIMULATORS.keys())
def simulator(request: pytest.FixtureRequest) -> Simulator:
    return request.param


def walk(simulator: Simulator, *, agents: int = 7, steps: int = 40, seed: int = 0):
    """Visited states, actions beyond the limits, and the states they led to: (steps * agents, ...) each."""
    rng = np.random.default_rng(seed)
    states, visited = simulator.initial_states(agents, rng), []
    push = rng.uniform(-1.5, 1.5, (agents, 1))  # held, so that joint limits and the edge of the map are reached
    for _ in range(steps):
        actions = push + rng.uniform(-0.5, 0.5, (agents, len(simulator.action_low)))
        following = simulator.step(states, actions)
        visited.append((states, actions, following))
        states = following
    return tuple(np.concatenate(each) for each in zip(*visited, strict=True))


# The contract


def test_shapes_agree_and_everything_is_finite(simulator: Simulator) -> None:
    states, actions, following = walk(simulator)
    assert following.shape == states.shape
    assert actions.shape[1:] == simulator.action_low.shape == simulator.action_high.shape
    observations, next_observations = simulator.observe(states), simulator.observe(following)
    assert observations.shape == (len(states), len(simulator.observed))
    assert simulator.reward(states, following).shape == (len(states),)
    assert simulator.finished(states).shape == (len(states),)
    assert simulator.finished(states).dtype == bool
    assert simulator.restore(observations).shape == states.shape
    for each in (states, observations, next_observations, simulator.reward(states, following), simulator.restore(observations)):
        assert each.dtype == np.float64
        assert np.isfinite(each).all()


def test_declared_columns_exist(simulator: Simulator) -> None:
    width = len(simulator.observed)
    assert len(set(simulator.observed)) == width
    assert simulator.horizon >= 1
    assert (simulator.action_low < simulator.action_high).all()
    for columns in (simulator.matched, *([] if simulator.start_key is None else [simulator.start_key])):
        assert 0 < len(set(columns.tolist())) == len(columns) <= width
        assert 0 <= columns.min() <= columns.max() < width


def test_the_same_input_gives_the_same_output_whatever_came_between(simulator: Simulator) -> None:
    states, actions, following = walk(simulator)
    walk(simulator, agents=3, seed=1)
    assert np.array_equal(simulator.step(states, actions), simulator.step(states, actions))
    assert np.array_equal(walk(simulator)[2], following)


def test_other_generators_start_elsewhere_and_the_same_one_starts_the_same(simulator: Simulator) -> None:
    first, again, other = (simulator.initial_states(5, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert len(np.unique(first, axis=0)) == 5


@pytest.mark.parametrize("count", [2, 33, 200])
def test_a_batch_equals_batches_of_one(simulator: Simulator, count: int) -> None:
    states, actions, _ = (each[-count:] for each in walk(simulator))
    one_by_one = [simulator.step(states[[index]], actions[[index]]) for index in range(count)]
    stepped = simulator.step(states, actions)
    assert np.array_equal(stepped, np.concatenate(one_by_one))
    assert np.array_equal(simulator.observe(states), np.concatenate([simulator.observe(states[[index]]) for index in range(count)]))
    rewards = [simulator.reward(states[[index]], stepped[[index]]) for index in range(count)]
    assert np.array_equal(simulator.reward(states, stepped), np.concatenate(rewards))
    assert np.array_equal(simulator.finished(states), np.concatenate([simulator.finished(states[[index]]) for index in range(count)]))


def test_a_shorter_batch_after_a_longer_one_steps_the_right_rows(simulator: Simulator) -> None:
    states, actions, following = walk(simulator, agents=20, steps=10)
    kept = [3, 11, 7]
    assert np.array_equal(simulator.step(states[kept], actions[kept]), following[kept])


def test_inputs_are_left_unchanged_and_outputs_are_new(simulator: Simulator) -> None:
    states, actions, following = walk(simulator)
    observations = simulator.observe(states)
    inputs = (states, actions, following, observations)
    before = [each.copy() for each in inputs]
    for each in inputs:
        each.flags.writeable = False
    results = [
        simulator.step(states, actions),
        simulator.observe(states),
        simulator.restore(observations),
        simulator.restore(observations, like=states),
        simulator.reward(states, following),
        simulator.finished(states),
    ]
    assert all(np.array_equal(one, other) for one, other in zip(inputs, before, strict=True))
    assert not any(np.shares_memory(result, each) for result in results for each in inputs)


def test_an_earlier_result_survives_later_steps(simulator: Simulator) -> None:
    states, actions, _ = walk(simulator)
    result = simulator.step(states, actions)
    kept = result.copy()
    simulator.step(result, -actions)
    assert np.array_equal(result, kept)


def test_observing_a_restored_state_gives_the_observation(simulator: Simulator) -> None:
    states, _, following = walk(simulator)
    for each in (states, following):
        observations = simulator.observe(each)
        assert np.abs(simulator.observe(simulator.restore(observations)) - observations).max() < 1e-12
        assert np.abs(simulator.observe(simulator.restore(observations, like=following)) - observations).max() < 1e-12


def test_restoring_keeps_what_observations_do_not_show(simulator: Simulator) -> None:
    states, actions, _ = walk(simulator)
    like = states[::-1]
    hidden = HIDDEN[type(simulator)]
    restored = simulator.restore(simulator.observe(states), like=like)
    assert np.array_equal(restored[:, hidden], like[:, hidden])
    resumed = simulator.restore(simulator.observe(states), like=states)
    assert np.array_equal(resumed[:, hidden], states[:, hidden])
    going_on, uninterrupted = (simulator.observe(simulator.step(each, actions)) for each in (resumed, states))
    assert np.abs(going_on - uninterrupted).max() < 1e-9


def test_the_reward_is_a_function_of_the_transition_alone(simulator: Simulator) -> None:
    states, actions, following = walk(simulator)
    rewards = simulator.reward(states, following)
    order = np.random.default_rng(0).permutation(len(states))
    simulator.step(following, actions)
    assert np.array_equal(simulator.reward(states[order], following[order]), rewards[order])
    assert len(np.unique(rewards)) > 1, "this walk cannot tell rewards apart"


def test_actions_are_clipped_to_their_limits(simulator: Simulator) -> None:
    states, _, _ = walk(simulator)
    for beyond, limit in ((5.0, simulator.action_high), (-5.0, simulator.action_low)):
        shape = (len(states), len(limit))
        assert np.array_equal(simulator.step(states, np.full(shape, beyond)), simulator.step(states, np.broadcast_to(limit, shape)))


def test_an_action_that_is_not_a_number_ends_its_agent_alone(simulator: Simulator) -> None:
    states = simulator.initial_states(3, np.random.default_rng(0))
    actions = np.tile(simulator.action_high, (3, 1))
    actions[1, 0] = np.nan
    moved, diverged = advance(simulator, states, actions)
    assert diverged.tolist() == [False, True, False]
    assert np.array_equal(moved[1], states[1])
    assert np.array_equal(moved[[0, 2]], simulator.step(states, np.tile(simulator.action_high, (3, 1)))[[0, 2]])


def test_actions_of_another_width_are_refused(simulator: Simulator) -> None:
    states, width = simulator.initial_states(3, np.random.default_rng(0)), len(simulator.action_low)
    for wrong in ((3, width + 1), (1, width), (3,)):
        with pytest.raises(ImitableError, match=rf"shape \({wrong[0]},.*3 agents need \(3, {width}\)"):
            advance(simulator, states, np.zeros(wrong))


def test_the_dynamics_cannot_be_changed(simulator: Simulator) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        simulator.horizon = 1  # type: ignore[misc]


# Gymnasium

BOX = "ignore:.*A Box observation space (min|max)imum value is -?infinity"


@pytest.fixture(params=sorted(DYNAMICS))
def dynamics(request: pytest.FixtureRequest) -> str:
    return request.param


def simulator_of(dynamics: str) -> Simulator:
    module, name = DYNAMICS[dynamics]
    return getattr(importlib.import_module(f"imitable.simulators.{module}"), name)


def test_every_dynamics_is_registered() -> None:
    registered = {name for name in gymnasium.registry if name.startswith("imitable/")}
    expected = ("ReacherClockwise", "ReacherCounterClockwise", "DrivingSlow", "DrivingFast")
    expected += ("SwimmerBackDisabled", "SwimmerFrontDisabled", "AntXAxis", "AntYAxis")
    assert registered >= {f"imitable/{name}-v0" for name in expected}
    assert imitable.__doc__


@pytest.mark.filterwarnings(BOX)
def test_gymnasium_accepts_the_environment(dynamics: str) -> None:
    environment = gymnasium.make(f"imitable/{dynamics}-v0")
    check_env(environment.unwrapped, skip_render_check=True)
    environment.close()


def test_the_environment_steps_as_its_simulator_does(dynamics: str) -> None:
    simulator = simulator_of(dynamics)
    environment = gymnasium.make(f"imitable/{dynamics}-v0")
    observation, _ = environment.reset(seed=5)
    states = simulator.restore(observation[None])
    assert np.array_equal(environment.reset(seed=5)[0], observation)
    rng = np.random.default_rng(0)
    total, length, ended, cut = 0.0, 0, False, False
    while not (ended or cut):
        action = rng.uniform(-1, 1, environment.action_space.shape)
        before = states
        states = simulator.step(before, action[None])
        observation, reward, ended, cut, _ = environment.step(action)
        assert observation == pytest.approx(simulator.observe(states)[0], abs=1e-9)
        assert reward == pytest.approx(earned(simulator, before, action[None], states)[0], abs=1e-6)
        assert ended == simulator.finished(states)[0]
        total, length = total + reward, length + 1
    assert length == simulator.horizon if cut else length <= simulator.horizon
    assert not (ended and cut)
    environment.close()


def test_an_environment_is_cut_at_the_horizon_and_not_before() -> None:
    environment = gymnasium.make("imitable/ReacherClockwise-v0")
    environment.reset(seed=0)
    cuts = [environment.step(np.zeros(1))[2:4] for _ in range(50)]
    assert cuts == [(False, False)] * 49 + [(False, True)]


def test_environments_run_side_by_side() -> None:
    environments = gymnasium.make_vec("imitable/DrivingSlow-v0", num_envs=3, vectorization_mode="sync")
    observations, _ = environments.reset(seed=0)
    assert observations.shape == (3, 7)
    assert environments.step(np.zeros((3, 1)))[0].shape == (3, 7)
    environments.close()


def test_pictures_are_refused_with_the_way_out() -> None:
    with pytest.raises(ValueError, match=r"render_mode is 'human'.*leave it None"):
        SimulatorEnv("DrivingSlow", render_mode="human")


# Driving

GOLDEN = {
    "slow": (
        driving.SLOW,
        (11.997753286, 5.8971206905, -1.0881576e-6, 2.9782058870, 1.5707745575, 0.29866461494, -0.16345647483),
        (-0.2268206151, -0.45699641, -0.1503996489, 0.9574517577, 1.7309691983, 0.0872424298, -0.0057430993),
    ),
    "fast": (
        driving.FAST,
        (11.979780569, 7.6911671329, -3.6815136e-6, 8.9332910703, 1.5707296510, 0.89596648447, -0.52154476355),
        (-0.4358287686, 0.1014311846, -0.4321751427, 0.8594336063, 2.0497233259, 0.259804547, -0.0240458714),
    ),
}
"""The simulator, the raw state after actions 0.5, -1, 1 from (12, 5), and the observation after 17 more actions of 0.3."""


def start_at(simulator: driving.Driving, x: float, y: float, heading: float = np.pi / 2):
    states = simulator.initial_states(1, np.random.default_rng(0))
    states[0, [driving.X, driving.Y]] = x, y
    speed = simulator.speed
    states[0, [driving.VX, driving.VY, driving.HEADING]] = speed * np.cos(heading), speed * np.sin(heading), heading
    return states


@pytest.mark.parametrize("name", GOLDEN)
def test_driving_reproduces_the_released_environment(name: str) -> None:
    simulator, raw, observed = GOLDEN[name]
    states = start_at(simulator, 12.0, 5.0)
    for number, action in enumerate([0.5, -1.0, 1.0] + [0.3] * 17):
        before = states
        states = simulator.step(before, np.array([[action]]))
        assert simulator.reward(before, states) == [-1.0]
        assert not simulator.finished(states)[0]
        if number == 2:
            assert states[0, :7] == pytest.approx(raw, abs=1.1e-8)
    assert simulator.observe(states)[0] == pytest.approx(observed, abs=1e-8)


def test_driving_starts_fill_the_allowed_area_evenly() -> None:
    count = 20_000
    states = driving.SLOW.initial_states(count, np.random.default_rng(0))
    x, y = states[:, driving.X], states[:, driving.Y]
    above = y > 20
    # 50 m^2 below the obstacle, 550/7 m^2 above it.
    share = (550 / 7) / (550 / 7 + 50)
    assert above.mean() == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / count))
    assert round(share, 2) == 0.61
    assert ((x >= 10) & (x <= 20)).all()
    assert ((y[~above] >= 2) & (y[~above] <= 7)).all()
    assert (y[above] >= 23).all()
    assert (y < 2.8 * (7.5 - np.abs(x - 15)) + 17).all()
    assert np.allclose(states[:, driving.HEADING], np.pi / 2)
    assert np.array_equal(states[:, driving.VY], np.full(count, 3.0))
    assert not states[:, [driving.VX, driving.TURN_RATE, driving.ACCELERATION, driving.INTEGRAL, driving.PREVIOUS_ERROR]].any()


@pytest.mark.parametrize(("simulator", "expected"), [(driving.SLOW, -8848), (driving.FAST, -6967)])
def test_driving_straight_ahead_earns_what_was_measured(simulator: driving.Driving, expected: float) -> None:
    returns = evaluate(
        lambda observations: np.zeros((len(observations), 1)), simulator, episodes=4000, rng=np.random.default_rng(0)
    ).returns
    assert returns.mean() == pytest.approx(expected, abs=4 * returns.std() / np.sqrt(len(returns)))


@pytest.mark.parametrize(
    ("x", "y", "heading", "reward", "finished"),
    [
        (15.0, 38.0, np.pi / 2, 99.0, True),  # on the goal
        (15.0, 36.01, np.pi / 2, 99.0, True),  # its nose reaches 1 m ahead, the goal 1 m down
        (15.0, 35.99, np.pi / 2, -1.0, False),
        (15.0, 36.49, 0.0, -1.0, False),  # across, only half a metre wide
        (15.0, 36.51, 0.0, 99.0, True),
        (11.51, 17.0, np.pi / 2, -1001.0, False),  # a flank touches the obstacle
        (11.49, 17.0, np.pi / 2, -1.0, False),
        (15.0, 15.51, np.pi / 2, -1001.0, False),
        (15.0, 15.49, np.pi / 2, -1.0, False),
        (11.24, 15.74, np.pi / 4, -1.0, False),  # aslant, its corner is near but off
        (11.4, 15.9, np.pi / 4, -1001.0, False),
        (-0.01, 20.0, np.pi, -10001.0, True),
        (0.01, 20.0, np.pi, -1.0, False),
        (20.0, 40.01, np.pi / 2, -10001.0, True),
    ],
)
def test_driving_rewards_by_place(x: float, y: float, heading: float, reward: float, finished: bool) -> None:
    states = start_at(driving.SLOW, x, y, heading)
    assert driving.SLOW.reward(states, states) == [reward]
    assert driving.SLOW.finished(states)[0] == finished


def test_driving_forgets_nothing_between_a_state_and_its_copy() -> None:
    states = start_at(driving.FAST, 12.0, 5.0)
    for action in (1.0, 1.0, -1.0):
        states = driving.FAST.step(states, np.array([[action]]))
    assert abs(states[0, driving.INTEGRAL]) > 1e-4, "the speed controller has seen no error"
    forgetful = states.copy()
    forgetful[0, driving.INTEGRAL] = 0.0
    ahead = driving.FAST.step(states, np.zeros((1, 1)))
    assert not np.array_equal(driving.FAST.step(forgetful, np.zeros((1, 1)))[:, :7], ahead[:, :7])


# Reacher

REACHERS = {"clockwise": reacher.CLOCKWISE, "counter-clockwise": reacher.COUNTER_CLOCKWISE}


def plain_mujoco(simulator: reacher.Reacher, velocity: float, actions: np.ndarray) -> np.ndarray:
    """Angle and velocity (step, 2) of the same model in MuJoCo's own loop."""
    model = mujoco.MjModel.from_xml_path(str(_mujoco.MODELS / "reacher.xml"))
    model.jnt_range[0] = simulator.lowest, simulator.highest
    data = mujoco.MjData(model)
    data.qvel[0] = velocity
    path = []
    for action in actions:
        data.ctrl[0] = action
        for _ in range(reacher.FRAME_SKIP):
            mujoco.mj_step(model, data)
        path.append((data.qpos[0], data.qvel[0]))
    return np.array(path)


@pytest.mark.parametrize("name", REACHERS)
@pytest.mark.parametrize("kind", ["random", "held down", "held up", "back and forth"])
def test_reacher_equals_a_plain_mujoco_loop(name: str, kind: str) -> None:
    simulator, rng = REACHERS[name], np.random.default_rng(0)
    count = 5
    plans = {
        "random": rng.uniform(-1, 1, (50, count)),
        "held down": np.full((50, count), -1.0),
        "held up": np.full((50, count), 1.0),
        "back and forth": np.repeat(np.resize([-1.0, 1.0], 5), 10)[:, None] * np.linspace(0.2, 1, count),
    }
    actions = plans[kind]
    states = simulator.initial_states(count, rng)
    starts, path = states.copy(), []
    for action in actions:
        states = simulator.step(states, action[:, None])
        path.append(states[:, [reacher.ANGLE, reacher.VELOCITY]])
    for agent in range(count):
        expected = plain_mujoco(simulator, starts[agent, reacher.VELOCITY], actions[:, agent])
        assert np.array_equal(np.array(path)[:, agent], expected)
    assert np.array_equal(states[:, reacher.GOAL], starts[:, reacher.GOAL])


@pytest.mark.parametrize(("name", "lowest", "highest"), [("clockwise", -2.35619445, 0.0), ("counter-clockwise", 0.0, 2.35619445)])
def test_reacher_stops_at_its_joint_limits(name: str, lowest: float, highest: float) -> None:
    simulator = REACHERS[name]
    for action, limit in ((-1.0, lowest), (1.0, highest)):
        states = simulator.initial_states(1, np.random.default_rng(0))
        for _ in range(50):
            states = simulator.step(states, np.array([[action]]))
        # Limits are soft: held against one with full torque, the joint rests a little beyond it.
        assert states[0, reacher.ANGLE] == pytest.approx(limit, abs=0.05)


@pytest.mark.parametrize("name", REACHERS)
def test_reacher_follows_its_closed_form_inverse_away_from_limits(name: str) -> None:
    simulator, rng = REACHERS[name], np.random.default_rng(0)
    count = 500
    states = simulator.initial_states(count, rng)
    states[:, reacher.ANGLE] = np.sign(simulator.lowest + simulator.highest) * rng.uniform(0.6, 1.8, count)
    states[:, reacher.VELOCITY] = rng.uniform(-3, 3, count)
    actions = rng.uniform(-1, 1, (count, 1))
    following = simulator.step(states, actions)
    decay = np.exp(-0.02 / 1.001153)
    recovered = (following[:, reacher.VELOCITY] - decay * states[:, reacher.VELOCITY]) / (200 * (1 - decay))
    assert np.abs(recovered - actions[:, 0]).max() < 1e-5


def test_reacher_rewards_ten_times_the_distance_before_the_step() -> None:
    states = np.array([[-0.5, 0.3, 0.0, 0.05, -0.1], [0.0, 0.0, 0.0, 0.21, 0.0]])
    tip = 0.21 * np.array([np.cos(-0.5), np.sin(-0.5)])
    expected = [-10 * np.hypot(tip[0] - 0.05, tip[1] + 0.1), 0.0]
    assert reacher.CLOCKWISE.reward(states, states + 0.1) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("rectangular", [False, True])
def test_reacher_goals_lie_where_they_should(rectangular: bool) -> None:
    simulator = dataclasses.replace(reacher.CLOCKWISE, rectangular_goals=rectangular)
    states = simulator.initial_states(4000, np.random.default_rng(0))
    (x, y), velocity = states[:, reacher.GOAL].T, states[:, reacher.VELOCITY]
    assert (np.abs(y) <= 0.2).all()
    assert np.abs(y).max() > 0.199
    assert (y > 0).mean() == pytest.approx(0.5, abs=0.04)
    assert (np.abs(velocity) <= 0.005).all()
    assert not states[:, [reacher.ANGLE, 2]].any()
    if rectangular:
        assert (np.abs(x) <= 0.1).all()
        assert (np.abs(y) >= 0.1).all()
    else:
        assert (np.abs(x) <= np.abs(y) / 2 + 1e-15).all()
        assert (np.abs(y) < 0.1).mean() == pytest.approx(0.25, abs=0.03), "a triangle has a quarter of its area in its nearer half"


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_reacher_goals_are_evenly_on_both_sides_and_no_place_is_preferred(count: int) -> None:
    goals = np.concatenate([reacher.CLOCKWISE.initial_states(count, np.random.default_rng(seed))[:, reacher.GOAL] for seed in range(300)])
    right = (goals.reshape(300, count, 2)[:, :, 1] > 0).sum(axis=1)
    assert set(right) == {count // 2, -(-count // 2)}
    slant, area = goals[:, 0] / goals[:, 1], (goals[:, 1] / 0.2) ** 2
    for uniform in (slant + 0.5, area):
        assert np.histogram(uniform, 5, (0, 1))[0] / len(goals) == pytest.approx(np.full(5, 0.2), abs=0.09)


def test_the_number_of_threads_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv(_mujoco.THREADS, threads)
        results.append(walk(reacher.CLOCKWISE, agents=150, steps=30)[2])
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


# Swimmer and Ant

REWARDED_ALIKE = {"Swimmer-v5": {}, "Ant-v5": {"include_cfrc_ext_in_observation": False, "contact_cost_weight": 0.0}}
"""What Gymnasium's own environments must be told to reward and show what ours do."""


@pytest.mark.parametrize(
    ("name", "simulator"),
    [
        ("Swimmer-v5", swimmer.BACK_DISABLED),
        ("Swimmer-v5", swimmer.FRONT_DISABLED),
        ("Ant-v5", ant.X_AXIS),
        ("Ant-v5", ant.Y_AXIS),
    ],
)
def test_gymnasiums_own_environment_agrees_on_our_model(name: str, simulator: Simulator) -> None:
    model = _mujoco.MODELS / f"{name.split('-')[0].lower()}.xml"
    theirs = gymnasium.make(name, xml_file=str(model), **REWARDED_ALIKE[name]).unwrapped
    theirs.model.jnt_range[:] = simulator.physics.model.jnt_range
    theirs.reset(seed=0)
    rng = np.random.default_rng(1)
    states = simulator.initial_states(1, rng)
    positions = theirs.model.nq
    theirs.set_state(states[0, :positions], states[0, positions : positions + theirs.model.nv])
    theirs.data.qacc_warmstart[:] = 0.0
    moved = 0.0
    for _ in range(200):
        actions = rng.uniform(-0.4, 0.4, (1, len(simulator.action_low)))
        before, states = states, simulator.step(states, actions)
        observation, reward, ended, _, _ = theirs.step(actions[0])
        assert simulator.observe(states)[0] == pytest.approx(observation, abs=1e-9)
        assert earned(simulator, before, actions, states)[0] == pytest.approx(reward, abs=1e-9)
        assert simulator.finished(states)[0] == ended
        moved += abs(reward)
    assert moved > 1.0
    theirs.close()


@pytest.mark.parametrize("simulator", [swimmer.BACK_DISABLED, swimmer.FRONT_DISABLED])
def test_a_disabled_joint_stays_near_its_range_and_the_other_does_not(simulator: swimmer.Swimmer) -> None:
    states, _, _ = walk(simulator, agents=50, steps=200)
    bent = np.degrees(np.abs(simulator.observe(states)[:, [1, 2]]).max(axis=0))
    disabled = 0 if simulator.front < simulator.back else 1
    assert bent[disabled] < 15.0
    assert bent[1 - disabled] > 60.0


def test_a_joint_can_be_locked() -> None:
    states, _, _ = walk(swimmer.Swimmer(back=0.0), agents=20, steps=100)
    assert np.degrees(np.abs(states[10 * 20 :, 4])).max() < 5.0, "a start up to 6 degrees off is pushed back"


def test_swimmer_links_have_the_inertia_of_their_day() -> None:
    model = swimmer.BACK_DISABLED.physics.model
    assert model.body_mass[1:] == pytest.approx([34.5575] * 3, abs=1e-4)
    for axial, *across in np.sort(model.body_inertia[1:], axis=1):
        assert axial == pytest.approx(0.172788, abs=1e-6)
        assert across == pytest.approx([3.57094] * 2, abs=1e-5)


def test_a_lighter_swimmer_is_the_one_that_was_compiled_lighter() -> None:
    heavy = (_mujoco.MODELS / "swimmer.xml").read_text()
    for number in ("34.55751918948772", "0.1727875959474386", "3.570943649580398"):
        assert number in heavy
        heavy = heavy.replace(number, repr(0.5 * float(number)))
    compiled = mujoco.MjModel.from_xml_string(heavy)
    scaled = swimmer.Swimmer(weight=0.5).physics.model
    for name in ("body_mass", "body_inertia", "body_subtreemass", "dof_invweight0", "body_invweight0", "dof_M0"):
        assert getattr(scaled, name) == pytest.approx(getattr(compiled, name), rel=1e-9), name


@pytest.mark.parametrize("simulator", [ant.X_AXIS, ant.Y_AXIS])
def test_an_ant_that_does_nothing_earns_a_thousand(simulator: ant.Ant) -> None:
    returns = evaluate(lambda seen: np.zeros((len(seen), 8)), simulator, episodes=6, rng=np.random.default_rng(0)).returns
    assert returns == pytest.approx(np.full(6, 1000.0), abs=30)


def test_the_ants_legs_are_confined_to_opposite_quarters() -> None:
    for along_x, along_y in zip(ant.X_AXIS.hips, ant.Y_AXIS.hips, strict=True):
        assert along_x == tuple(-limit for limit in reversed(along_y))
        assert sorted(np.abs(along_x)) == [8.0, 45.0]


# Simulations that break down


@pytest.mark.parametrize("simulator", [swimmer.BACK_DISABLED, ant.X_AXIS, reacher.CLOCKWISE])
def test_a_simulation_that_diverges_does_not_poison_the_others(simulator: Simulator, capfd: pytest.CaptureFixture[str]) -> None:
    states, actions, following = walk(simulator, agents=6, steps=5)
    width = simulator.physics.model.nq
    broken = states.copy()
    broken[2, width] = 1e14  # a velocity that no simulation survives
    moved = simulator.step(broken, actions)
    others = np.arange(len(states)) != 2
    assert np.isnan(moved[2]).all()
    assert np.array_equal(moved[others], following[others])
    stayed, diverged = advance(simulator, broken, actions)
    assert np.flatnonzero(diverged).tolist() == [2]
    assert np.array_equal(stayed[2], broken[2])
    assert "unstable" not in "".join(capfd.readouterr())
