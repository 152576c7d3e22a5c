"""Following demonstrations on the robot."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import turntable
from imitable.arrays import Array, Arrays
from imitable.demonstrations import Demonstrations, join
from imitable.inverse_dynamics import REACHED, UNTRIED, InverseDynamics, InverseResult, Solved
from imitable.paper import driving, reacher
from imitable.replay import Replay, replay
from imitable.rollouts import Episodes, explore, run_episodes
from imitable.simulators import Simulator
from turntable import CLOCKWISE, COUNTER_CLOCKWISE, ExactInverse

INVERSE = ExactInverse(CLOCKWISE)
JOINT = (0, 1)
"""The columns that show where the joint is."""


def ragged(simulator: turntable.Turntable = CLOCKWISE) -> Demonstrations:
    """Episodes of 1 to 12 steps, not in order of length."""
    parts = [
        turntable.demonstrations(replace(simulator, horizon=horizon), count=1, seed=number)
        for number, horizon in enumerate([4, 12, 1, 7, 7, 2])
    ]
    return join(parts)


def test_the_robot_follows_its_own_demonstrations() -> None:
    demos = turntable.demonstrations(count=6)
    found = replay(demos, CLOCKWISE, INVERSE)
    assert np.abs(found.observations - demos.observations).max() < 1e-12
    assert found.distances(JOINT).max() < 1e-12
    assert found.step_distances().shape == (6 * 50,)
    assert found.distances().shape == (6,)


def test_the_robot_is_left_behind_by_what_it_cannot_do() -> None:
    steps = 10
    joints = 0.1 * np.arange(steps + 1)  # counter-clockwise at 2 rad/s
    observations = CLOCKWISE.observe(np.stack([joints, np.zeros(steps + 1)], axis=1))
    found = replay(Demonstrations(observations, [steps], [0.0]), CLOCKWISE, INVERSE)
    assert found.observations == pytest.approx(np.tile([1.0, 0.0, 1.0, 0.0], (steps + 1, 1)))
    chords = 2 * np.sin(joints[1:] / 2)
    assert found.step_distances(JOINT) == pytest.approx(chords)
    assert found.distances(JOINT) == pytest.approx([chords.mean()])


def test_the_chase_aims_from_where_the_robot_is_not_from_where_it_should_be() -> None:
    # One step too fast, then standing still: the robot makes up for it in the second step.
    joints = np.array([0.0, -0.15, -0.15])
    observations = CLOCKWISE.observe(np.stack([joints, np.zeros(3)], axis=1))
    found = replay(Demonstrations(observations, [2], [0.0]), CLOCKWISE, INVERSE)
    assert turntable.joint_angle(found.observations) == pytest.approx([0.0, -0.1, -0.15])
    assert found.step_distances(JOINT) == pytest.approx([2 * np.sin(0.025), 0.0], abs=1e-12)


def test_lock_step_equals_one_by_one() -> None:
    demos = join([ragged(), ragged(COUNTER_CLOCKWISE)])
    together = replay(demos, CLOCKWISE, INVERSE)
    assert len(together.distances(JOINT)) == 12
    assert together.distances(JOINT).max() > 0.01
    for index in range(len(demos)):
        alone = replay(demos.select([index]), CLOCKWISE, INVERSE)
        rows = slice(demos.starts[index], demos.starts[index] + demos.lengths[index] + 1)
        assert np.array_equal(together.observations[rows], alone.observations)
        assert together.distances(JOINT)[index] == pytest.approx(alone.distances(JOINT)[0], abs=1e-15)


def test_every_row_of_a_ragged_replay_is_filled_and_every_step_measured() -> None:
    demos = ragged(COUNTER_CLOCKWISE)
    found = replay(demos, CLOCKWISE, INVERSE)
    assert np.array_equal(found.observations[demos.starts], demos.start_observations)
    first = 0
    for index, length in enumerate(demos.lengths):
        gaps = (demos.trajectory(index) - found.observations[demos.starts[index] :][: length + 1])[1:, JOINT]
        assert found.step_distances(JOINT)[first : first + length] == pytest.approx(np.linalg.norm(gaps, axis=1))
        assert found.distances(JOINT)[index] == pytest.approx(found.step_distances(JOINT)[first : first + length].mean())
        first += length


def test_only_the_columns_asked_for_are_measured() -> None:
    demos = turntable.demonstrations(count=2)
    moved_goals = demos.observations.copy()
    moved_goals[demos.transition_rows + 1, 2:] *= -1
    found = replay(Demonstrations(moved_goals, demos.lengths, demos.returns), CLOCKWISE, INVERSE)
    assert found.distances(JOINT).max() < 1e-12
    assert found.distances((2, 3)).min() > 0.1
    assert found.distances() == pytest.approx(found.distances((0, 1, 2, 3)), abs=1e-15)
    assert np.array_equal(found.step_distances(), found.step_distances((0, 1, 2, 3)))


def test_distances_by_hand() -> None:
    demos = Demonstrations([[0.0, 0.0], [3.0, 4.0], [1.0, 1.0], [0.0, 0.0], [0.0, 2.0]], [2, 1])
    found = Replay(demos, np.zeros((5, 2)), np.array([False, False]), np.zeros((3, 1)), np.zeros(3, np.int64))
    assert found.step_distances() == pytest.approx([5.0, np.sqrt(2), 2.0])
    assert found.distances() == pytest.approx([(5 + np.sqrt(2)) / 2, 2.0])
    assert found.step_distances((0,)).tolist() == [3.0, 1.0, 0.0]
    assert found.distances((1,)).tolist() == [2.5, 2.0]
    assert replace(found, diverged=np.array([True, False])).distances((0,)).tolist() == [np.inf, 0.0]


def test_noise_moves_every_reached_state_by_at_most_its_size_and_comes_from_the_generator() -> None:
    demos = turntable.demonstrations(count=5)
    plain = replay(demos, CLOCKWISE, INVERSE)
    one, again, other = (replay(demos, CLOCKWISE, INVERSE, noise=0.01, rng=np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(one.observations, again.observations)
    assert not np.array_equal(one.observations, other.observations)
    assert one.distances(JOINT).min() > plain.distances(JOINT).max() + 1e-4
    still = demos.select([int(np.argmin([np.ptp(demos.trajectory(index)[:, 1]) for index in range(5)]))])
    noisy = replay(still, CLOCKWISE, INVERSE, noise=0.01, rng=np.random.default_rng(0))
    first_steps = noisy.step_distances(JOINT)[0]
    assert 0 < first_steps < 0.01 * np.sqrt(2) * 1.05


def test_more_noise_strays_farther() -> None:
    demos = turntable.demonstrations(count=5)
    strayed = [
        replay(demos, CLOCKWISE, INVERSE, noise=noise, rng=np.random.default_rng(0)).distances(JOINT).mean() for noise in (1e-3, 1e-2, 1e-1)
    ]
    assert strayed[0] < strayed[1] < strayed[2]


def test_the_given_demonstrations_are_left_alone() -> None:
    demos = ragged()
    before = demos.observations.copy()
    replay(demos, CLOCKWISE, INVERSE, noise=0.1, rng=np.random.default_rng(0))
    assert np.array_equal(demos.observations, before)


class Inverse:
    """An inverse dynamics in closed form."""

    def __init__(self, robot: Simulator, formula: Callable[[Array, Array], Array]) -> None:
        self.robot, self.formula = robot, formula

    def __call__(self, states: Array, next_observations: Array, *, guess: InverseResult | None = None) -> InverseResult:
        return InverseResult.unchecked(self.formula(self.robot.observe(states), next_observations), self.robot)

    def arrays(self) -> Arrays:
        return {}


def driving_inverse(robot: driving.Driving) -> Inverse:
    """The turn rate shows the steering."""
    return Inverse(robot, lambda before, after: after[:, [5]] / (0.1 * robot.speed * np.linalg.norm(before[:, 2:4], axis=1))[:, None])


@pytest.mark.parametrize(
    ("robot", "other", "least", "most"), [(driving.SLOW, driving.FAST, 0.375, 1.05), (driving.FAST, driving.SLOW, 0.36, 1.73)]
)
def test_driving_is_followed_at_its_own_speed_and_not_at_another(
    robot: driving.Driving, other: driving.Driving, least: float, most: float
) -> None:
    rng = np.random.default_rng(0)
    own, foreign = (
        run_episodes(simulator, lambda observations: driving.drive(observations, rng), count=60, rng=np.random.default_rng(1)).trajectories
        for simulator in (robot, other)
    )
    inverse = driving_inverse(robot)
    assert replay(own, robot, inverse).distances().max() < 1e-9
    strayed = replay(foreign, robot, inverse).distances()
    # The released expert drove other paths than ours, so the range it was measured on may be overstepped a little.
    assert 0.8 * least < strayed.min() <= strayed.max() < 1.25 * most


def test_reacher_is_followed_by_its_closed_form_inverse_away_from_limits() -> None:
    simulator, rng = reacher.COUNTER_CLOCKWISE, np.random.default_rng(0)
    states = simulator.initial_states(20, rng)
    states[:, reacher.ANGLE] = rng.uniform(1.0, 1.3, 20)
    path = [simulator.observe(states)]
    for _ in range(6):
        states = simulator.step(states, rng.uniform(-0.2, 0.2, (20, 1)))
        path.append(simulator.observe(states))
    demos = Demonstrations(np.stack(path, axis=1).reshape(-1, 7), np.full(20, 6), np.zeros(20))
    decay = np.exp(-0.02 / 1.001153)
    inverse = Inverse(simulator, lambda before, after: (after[:, [4]] - decay * before[:, [4]]) / (200 * (1 - decay)))
    assert replay(demos, simulator, inverse).distances(JOINT).max() < 1e-5


def test_the_inverse_dynamics_is_given_full_states_as_they_are_in_the_chase() -> None:
    """A car's speed controller remembers what no observation shows."""
    given: list[Array] = []
    exact = driving_inverse(driving.SLOW)

    def watched(states: Array, next_observations: Array, *, guess: InverseResult | None = None) -> InverseResult:
        given.append(states)
        return exact(states, next_observations)

    rng = np.random.default_rng(0)
    demos = run_episodes(driving.SLOW, lambda observations: driving.drive(observations, rng), count=1, rng=rng).trajectories
    replay(demos, driving.SLOW, watched)  # type: ignore[arg-type]
    assert len(given) == demos.lengths[0]
    assert np.array_equal(given[0], driving.SLOW.restore(demos.start_observations))
    for before, after, goal in zip(given, given[1:], demos.observations[1:], strict=False):
        assert np.array_equal(after, driving.SLOW.step(before, exact(before, goal[None]).actions))
    assert abs(given[-1][0, driving.INTEGRAL]) > 1e-4


def test_progress_is_told_and_never_falls() -> None:
    fractions: list[float] = []
    replay(ragged(), CLOCKWISE, INVERSE, progress=fractions.append)
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0


def test_a_replay_that_breaks_down_is_infeasible_and_leaves_the_others_alone() -> None:
    given, inverse = turntable.demonstrations(count=8), ExactInverse(CLOCKWISE)
    whole, brittle = replay(given, CLOCKWISE, inverse), replay(given, turntable.BRITTLE, inverse)
    lowest = [turntable.CLOCKWISE.restore(given.trajectory(index))[:, 0].min() for index in range(8)]
    assert brittle.diverged.tolist() == [angle < turntable.BRITTLE.limit for angle in lowest]
    assert 0 < brittle.diverged.sum() < 8
    assert np.isinf(brittle.distances(JOINT)[brittle.diverged]).all()
    assert np.array_equal(brittle.distances(JOINT)[~brittle.diverged], whole.distances(JOINT)[~brittle.diverged])
    assert np.isfinite(brittle.observations).all()


# Windows, on a robot that hides some of its state


def drives(robot: driving.Driving, *, count: int = 4) -> Episodes:
    rng = np.random.default_rng(0)
    return run_episodes(robot, lambda seen: driving.drive(seen, rng), count=count, rng=rng)


@pytest.fixture(scope="module")
def solved() -> InverseDynamics:
    return Solved().fit(explore(driving.SLOW, count=5, rng=np.random.default_rng(1)), driving.SLOW, rng=np.random.default_rng(0))


@pytest.mark.parametrize("window", [1, 5, None])
def test_a_car_follows_its_own_drives_whatever_the_window(window: int | None, solved: InverseDynamics) -> None:
    own = drives(driving.SLOW)
    found = replay(own.trajectories, driving.SLOW, solved, window=window)
    assert found.distances().max() < 1e-3
    assert (found.verdicts == REACHED).mean() > 0.99
    assert np.abs(found.actions - own.actions).max() < 0.02
    other = replay(drives(driving.FAST).trajectories, driving.SLOW, solved, window=window)
    assert other.distances().min() > 0.01
    assert (other.verdicts == REACHED).mean() < 0.5


def test_the_shorter_the_window_the_less_far_behind(solved: InverseDynamics) -> None:
    other = drives(driving.FAST).trajectories
    behind = [replay(other, driving.SLOW, solved, window=window).distances().mean() for window in (1, 10, None)]
    assert behind[0] < behind[1] < behind[2]


def test_a_window_begins_on_the_demonstration() -> None:
    """A turntable that cannot turn at all stays where it was put."""
    demos, stuck = turntable.demonstrations(count=3), replace(CLOCKWISE, slowest=0.0)
    found = replay(demos, stuck, ExactInverse(stuck), window=4)
    for index in range(3):
        path, reached = demos.trajectory(index), found.observations[demos.starts[index] :][:51]
        assert reached[0] == pytest.approx(path[0])
        for step in range(1, 51):
            assert reached[step] == pytest.approx(path[(step - 1) // 4 * 4], abs=1e-12)


def test_a_window_longer_than_a_demonstration_is_the_whole_replay() -> None:
    demos = join([ragged(), ragged(COUNTER_CLOCKWISE)])
    whole, long = replay(demos, CLOCKWISE, INVERSE), replay(demos, CLOCKWISE, INVERSE, window=12)
    assert np.array_equal(whole.observations, long.observations)
    assert np.array_equal(whole.actions, long.actions)
    assert not np.array_equal(whole.observations, replay(demos, CLOCKWISE, INVERSE, window=3).observations)


def test_actions_and_verdicts_are_those_of_the_inverse_dynamics_step_by_step() -> None:
    demos = join([ragged(), ragged(COUNTER_CLOCKWISE)])
    found = replay(demos, CLOCKWISE, INVERSE)
    rows = demos.transition_rows
    again = INVERSE(CLOCKWISE.restore(found.observations[rows]), demos.observations[rows + 1])
    assert found.actions == pytest.approx(again.actions, abs=1e-9)
    assert (found.verdicts == UNTRIED).all()
