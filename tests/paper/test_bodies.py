"""What is known of the paper's bodies: the released environment, plain MuJoCo loops, Gymnasium's own environments, numbers by hand."""

import dataclasses

import gymnasium
import mujoco
import numpy as np
import pytest

from imitable.evaluation import evaluate
from imitable.paper import ant, driving, panda, reacher, swimmer
from imitable.simulators import Simulator, reward_of
from walks import walk


@pytest.mark.parametrize(
    ("simulator", "hidden"),
    [
        (reacher.CLOCKWISE, [2]),
        (driving.SLOW, [7, 8]),
        (swimmer.BACK_DISABLED, [0, 1, *range(10, 15)]),
        (ant.X_AXIS, [0, 1, *range(29, 44)]),
        (panda.THREE_JOINTS, [panda.STATUS]),
    ],
    ids=["reacher", "driving", "swimmer", "ant", "panda"],
)
def test_observations_leave_out_what_they_say(simulator: Simulator, hidden: list[int]) -> None:
    states, _, _ = walk(simulator)
    moved = states.copy()
    moved[:, hidden] += 1.0
    assert np.array_equal(simulator.observe(moved), simulator.observe(states))
    for column in set(range(states.shape[1])) - set(hidden):
        moved = states.copy()
        moved[:, column] += 1.0
        assert not np.array_equal(simulator.observe(moved), simulator.observe(states))


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
    simulator, raw, observation = GOLDEN[name]
    states = start_at(simulator, 12.0, 5.0)
    for number, action in enumerate([0.5, -1.0, 1.0] + [0.3] * 17):
        before = states
        states = simulator.step(before, np.array([[action]]))
        assert simulator.reward(before, np.array([[action]]), states) == [-1.0]
        assert not simulator.terminated(states)[0]
        if number == 2:
            assert states[0, :7] == pytest.approx(raw, abs=1.1e-8)
    assert simulator.observe(states)[0] == pytest.approx(observation, abs=1e-8)


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
    ("x", "y", "heading", "reward", "terminated"),
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
def test_driving_rewards_by_place(x: float, y: float, heading: float, reward: float, terminated: bool) -> None:
    states = start_at(driving.SLOW, x, y, heading)
    assert driving.SLOW.reward(states, np.zeros((1, 1)), states) == [reward]
    assert driving.SLOW.terminated(states)[0] == terminated


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
    model = mujoco.MjModel.from_xml_path(str(reacher.MODEL))
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
    next_states = simulator.step(states, actions)
    decay = np.exp(-0.02 / 1.001153)
    recovered = (next_states[:, reacher.VELOCITY] - decay * states[:, reacher.VELOCITY]) / (200 * (1 - decay))
    assert np.abs(recovered - actions[:, 0]).max() < 1e-5


def test_reacher_rewards_ten_times_the_distance_before_the_step() -> None:
    states = np.array([[-0.5, 0.3, 0.0, 0.05, -0.1], [0.0, 0.0, 0.0, 0.21, 0.0]])
    tip = 0.21 * np.array([np.cos(-0.5), np.sin(-0.5)])
    expected = [-10 * np.hypot(tip[0] - 0.05, tip[1] + 0.1), 0.0]
    assert reacher.CLOCKWISE.reward(states, np.zeros((2, 1)), states + 0.1) == pytest.approx(expected, abs=1e-12)


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
    model = {"Swimmer-v5": swimmer.MODEL, "Ant-v5": ant.MODEL}[name]
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
        observation, reward, terminated, _, _ = theirs.step(actions[0])
        assert simulator.observe(states)[0] == pytest.approx(observation, abs=1e-9)
        assert reward_of(simulator, before, actions, states)[0] == pytest.approx(reward, abs=1e-9)
        assert simulator.terminated(states)[0] == terminated
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
    heavy = swimmer.MODEL.read_text()
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
