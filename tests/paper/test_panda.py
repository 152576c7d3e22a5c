"""Franka's arm past its obstacle: what the task promises, and who demonstrates."""

import numpy as np
import pytest

from imitable.assessment import assess
from imitable.demonstrations import Demonstrations
from imitable.inverse_dynamics import InverseResult
from imitable.paper.demonstrators import collect
from imitable.paper.methods import ours
from imitable.paper.panda import (
    CLEARANCE,
    COLLIDED,
    LOWEST,
    MOVING,
    PLACED,
    SEVEN_JOINTS,
    STATUS,
    THREE_JOINTS,
    Panda,
    succeeded,
    task,
    with_generated_demonstrations,
)
from imitable.paper.panda_arm import OBSTACLE, Box, clearance, straight_down
from imitable.paper.panda_demonstrators import ClumsyDetours, pass_beside, pass_in_plane
from imitable.replay import replay
from imitable.rollouts import Episodes, run_episodes
from imitable.scores import Feasibility
from walks import walk


def shown(robot: Panda, actor, count: int = 200) -> Demonstrations:
    rng = np.random.default_rng(0)
    return run_episodes(robot, lambda seen: actor(seen, rng), count=count, rng=np.random.default_rng(1)).trajectories


def steps(robot: Panda, place: tuple[float, float, float], actions: np.ndarray) -> np.ndarray:
    """States (step, 4) from a place [m]."""
    states = [robot.restore(10 * np.array([place]))]
    for action in actions:
        states.append(robot.step(states[-1], np.array([action])))
    return np.concatenate(states)


# The task


def test_there_are_exactly_two_ways_to_the_table_in_the_plane() -> None:
    from scipy.ndimage import label

    x, z = np.arange(0.20, 0.90, 0.01), np.arange(LOWEST, 0.55, 0.01)
    places = np.stack([*(each.ravel() for each in np.meshgrid(x, z, indexing="ij")), np.zeros(len(x) * len(z))], axis=1)[:, [0, 2, 1]]
    joints, possible = straight_down(places)
    free = (possible & (clearance(joints) >= CLEARANCE)).reshape(len(x), len(z))
    regions, _ = label(free)
    connected = regions == regions[np.abs(x - 0.56).argmin(), np.abs(z - 0.45).argmin()]
    goals, count = label((connected & (z <= 0.06)).any(axis=1))
    assert count == 2
    ends = [(x[goals == goal].min(), x[goals == goal].max()) for goal in (1, 2)]
    assert np.array(ends) == pytest.approx(np.array([(0.28, 0.39), (0.73, 0.80)]), abs=0.011)


@pytest.mark.parametrize(
    ("robot", "actor", "low", "high"), [(THREE_JOINTS, pass_in_plane, -915, -870), (SEVEN_JOINTS, pass_beside, -870, -835)]
)
def test_experts_always_arrive_in_the_expected_time(robot: Panda, actor, low: float, high: float) -> None:
    made = shown(robot, actor)
    assert succeeded(made.returns).all()
    assert low < made.returns.mean() < high
    assert made.returns.std() < 30


@pytest.mark.parametrize(("action", "expected"), [((0.0, 0.0), -1500.0), ((0.0, -1.0), -2500.0), ((0.25, -1.0), -2500.0)])
def test_staying_colliding_and_too_short_a_detour_cost_what_they_should(action: tuple[float, float], expected: float) -> None:
    returns = shown(THREE_JOINTS, lambda seen, _: np.tile(action, (len(seen), 1)), count=20).returns
    assert np.array_equal(returns, np.full(20, expected))
    assert not succeeded(returns).any()


def test_random_actions_get_nowhere() -> None:
    returns = shown(THREE_JOINTS, lambda seen, rng: rng.uniform(-1, 1, (len(seen), 2)), count=50).returns
    assert np.array_equal(returns, np.full(50, -1500.0))


def test_the_obstacle_does_not_stop_the_arm_but_the_collision_stays() -> None:
    states = steps(THREE_JOINTS, (0.56, 0.0, 0.30), np.tile((0.0, -1.0), (48, 1)))
    assert np.diff(states[:, 2]) == pytest.approx(np.full(48, -0.005))
    touching = clearance(straight_down(states[:, :3])[0]) < CLEARANCE
    assert touching.any()
    assert np.array_equal(states[:, STATUS], np.where(np.maximum.accumulate(touching), COLLIDED, MOVING))
    assert states[-1, 2] == pytest.approx(0.06), "where it would count as placed"
    rewards = THREE_JOINTS.reward(states[:-1], np.zeros((48, 2)), states[1:])
    assert sorted(set(rewards)) == [-1010.0, -10.0]
    assert (rewards == -1010).sum() == 1


def test_once_placed_nothing_costs_any_more() -> None:
    states = steps(THREE_JOINTS, (0.77, 0.0, 0.07), [(0.0, -1.0)] * 3 + [(0.0, 1.0)] * 5 + [(-1.0, 0.0)] * 60)
    assert states[:4, STATUS].tolist() == [MOVING, MOVING, PLACED, PLACED]
    assert (states[2:, STATUS] == PLACED).all(), "even if it goes through the obstacle then"
    rewards = THREE_JOINTS.reward(states[:-1], np.zeros((68, 2)), states[1:])
    assert rewards.tolist() == [-10.0, -10.0] + [0.0] * 66


def test_moves_out_of_reach_or_into_the_table_are_refused() -> None:
    for place, action in (((0.799, 0.0, 0.05), (1.0, 0.0)), ((0.6, 0.0, 0.046), (0.0, -1.0))):
        states = steps(THREE_JOINTS, place, [action] * 40)
        assert np.array_equal(states[-1], states[-2])
        assert straight_down(states[:, :3])[1].all()
        back = THREE_JOINTS.step(states[-1:], -np.array([action]))
        assert np.linalg.norm(back[0, :3] - states[-1, :3]) > 0.001, "it cannot get back"


@pytest.mark.parametrize("robot", [THREE_JOINTS, SEVEN_JOINTS, Panda(dof=7, arm="fr3")])
def test_no_joint_passes_its_limits_or_half_its_speed(robot: Panda) -> None:
    states, _, next_states = walk(robot, agents=40, steps=150)
    joints, next_joints = straight_down(states[:, :3])[0], straight_down(next_states[:, :3])[0]
    assert straight_down(next_states[:, :3], limits=robot.limits)[1].all()
    speeds = np.abs(next_joints - joints) / robot.timestep / robot.limits.velocity
    assert 0.3 < speeds.max() <= 0.5 + 1e-6, "the walk does not come near the limit"
    assert np.linalg.norm(next_states[:, :3] - states[:, :3], axis=1).max() <= 0.005 + 1e-9


def test_diagonal_actions_are_no_faster_than_straight_ones() -> None:
    states = steps(SEVEN_JOINTS, (0.56, 0.0, 0.4), [(1.0, 1.0, -1.0), (1.0, 0.0, 0.0), (0.0, 0.5, 0.0)])
    assert np.linalg.norm(np.diff(states[:, :3], axis=0), axis=1) == pytest.approx([0.005, 0.005, 0.0025])


def test_restored_states_are_ones_the_arm_can_be_in() -> None:
    rng = np.random.default_rng(0)
    observations = rng.uniform((0, -5, -1), (11, 5, 12), (500, 3))
    for robot in (THREE_JOINTS, SEVEN_JOINTS):
        states = robot.restore(observations)
        assert np.isfinite(states).all()
        again = robot.restore(robot.observe(states))
        assert again == pytest.approx(states, abs=1e-9)
        assert straight_down(states[:, :3])[1].all()
        assert (states[:, 2] >= LOWEST).all()
        reachable = straight_down(np.clip(observations / 10, (0, -5, LOWEST), np.inf) * (1, robot.dof == 7, 1))[1]
        inside = reachable & (observations[:, 2] >= 10 * LOWEST)
        assert 0.1 < inside.mean() < 0.9
        assert robot.observe(states)[inside] == pytest.approx((observations * (1, robot.dof == 7, 1))[inside], abs=1e-9)
    assert not THREE_JOINTS.restore(observations)[:, 1].any(), "perturbations are projected to the plane"


def test_half_the_rate_takes_half_the_steps() -> None:
    slow = Panda(dof=3, timestep=0.1, horizon=75)
    made = run_episodes(slow, lambda seen: pass_in_plane(seen, np.random.default_rng(0)), count=50, rng=np.random.default_rng(1))
    assert succeeded(made.trajectories.returns, slow).all()
    assert made.trajectories.returns.mean() == pytest.approx(-447, abs=10)


def test_shaping_is_a_potential() -> None:
    shaped = Panda(dof=3, shaping=100.0)
    states, actions, next_states = walk(THREE_JOINTS)
    gained = shaped.reward(states, actions, next_states) - THREE_JOINTS.reward(states, actions, next_states)
    assert gained == pytest.approx(100 * (states[:, 2] - next_states[:, 2]))


@pytest.mark.parametrize("obstacle", [OBSTACLE, Box((0.45, 0.1, 0.1), (0.05, 0.05, 0.1)), Box((0.3, 0.0, 0.05), (0.05, 0.1, 0.05))])
def test_collisions_are_those_of_the_whole_arm_though_only_parts_are_looked_at(obstacle: Box) -> None:
    robot = Panda(dof=7, obstacle=obstacle)
    places = np.random.default_rng(0).uniform((0.25, -0.35, LOWEST), (0.85, 0.35, 0.6), (6000, 3))
    joints, possible = straight_down(places)
    places, joints = places[possible], joints[possible]
    touching = clearance(joints, obstacle) < CLEARANCE
    assert 0.02 < touching.mean() < 0.6
    assert np.array_equal(robot.judged(np.zeros(len(places)), places, joints) == COLLIDED, touching)


# What three joints can do of it


class Exact:
    """The inverse of the arm in closed form: straight towards where the demonstration goes."""

    def fit(self, episodes: Episodes, robot: Panda, *, rng: object, progress: object = None) -> "Exact":
        return self

    def restored(self, arrays: object, robot: Panda) -> "Exact":
        return self

    def arrays(self) -> dict[str, np.ndarray]:
        return {}

    def __call__(self, states: np.ndarray, next_observations: np.ndarray, *, guess: InverseResult | None = None) -> InverseResult:
        towards = (next_observations / 10 - states[:, :3])[:, [0, 2]] / 0.005
        return InverseResult.unchecked(towards / np.maximum(1.0, np.linalg.norm(towards, axis=1, keepdims=True)), THREE_JOINTS)


def test_every_sideways_demonstration_is_infeasible_and_collides_when_replayed() -> None:
    sideways = shown(SEVEN_JOINTS, pass_beside, count=40)
    made = replay(sideways, THREE_JOINTS, Exact())
    assert made.distances().min() > 0.5  # dm
    states = THREE_JOINTS.restore(sideways.start_observations)
    for time in range(THREE_JOINTS.horizon):
        states = THREE_JOINTS.step(states, made.actions.reshape(40, -1, 2)[:, time])
    assert (states[:, STATUS] == COLLIDED).all()


def test_feasibility_by_the_papers_recipe_tells_the_two_arms_apart() -> None:
    demonstrations = collect(task("3dof").demonstrators, count=200, rng=np.random.default_rng(0))
    assessment = assess(demonstrations, THREE_JOINTS, model=Exact(), exploration=task("3dof").paper_exploration)
    score, foreign = task("3dof").replay_feasibility, demonstrations.from_source("other-dynamics")
    weights, tolerance = assessment.scored(score), score.tolerance(assessment)
    assert 0.1 < tolerance.d_max < 0.5, "in dm, by a delta_s of 0.1"
    assert weights[foreign].max() == 0.0
    assert weights[~foreign].min() > 0.9


def test_feasibility_with_no_numbers_tells_the_two_arms_apart() -> None:
    demonstrations = collect(task("3dof").demonstrators, count=100, rng=np.random.default_rng(0))
    own = ~demonstrations.from_source("other-dynamics")
    demonstrations = demonstrations.select([*np.flatnonzero(own), *np.flatnonzero(~own)[:5]])  # these take long
    assessment = assess(demonstrations, THREE_JOINTS)
    assert not assessment.hides_state
    weights, foreign = assessment.scored(Feasibility()), demonstrations.from_source("other-dynamics")
    assert weights[foreign].max() == 0.0
    assert weights[~foreign].min() > 0.9
    weights = assessment.scored(ours(task("3dof")))
    assert weights[demonstrations.from_source("optimal")].min() > 0.5
    assert weights[demonstrations.from_source("suboptimal")].max() < 0.01


# The cheap generator


def test_the_generator_gives_all_kinds_of_ends() -> None:
    generated = with_generated_demonstrations("3dof").demonstrators
    assert isinstance(generated.suboptimal, ClumsyDetours)
    made = collect(generated, count=400, rng=np.random.default_rng(0))
    returns = made.returns[made.from_source("suboptimal")]
    assert 0.1 < succeeded(returns).mean() < 0.4
    assert 0.2 < (returns < -1500).mean() < 0.4
    assert (returns == -1500).mean() > 0.2
    again = collect(generated, count=400, rng=np.random.default_rng(0))
    assert np.array_equal(again.observations, made.observations)
