"""Chasing demonstrations on the target."""

from dataclasses import replace

import numpy as np
import pytest

import turntable
from imitable.demonstrations import Demonstrations, join
from imitable.replay import replay
from imitable.simulators import driving, reacher
from turntable import CLOCKWISE, COUNTER_CLOCKWISE, ExactInverse

INVERSE = ExactInverse(CLOCKWISE)


def ragged(simulator: turntable.Turntable = CLOCKWISE) -> Demonstrations:
    """Episodes of 1 to 12 steps, not in order of length."""
    parts = [
        turntable.demonstrations(replace(simulator, horizon=horizon), count=1, seed=number)
        for number, horizon in enumerate([4, 12, 1, 7, 7, 2])
    ]
    return join(parts)


def test_the_target_follows_its_own_demonstrations() -> None:
    demos = turntable.demonstrations(count=6)
    found = replay(demos, CLOCKWISE, INVERSE)
    assert np.abs(found.states - demos.states).max() < 1e-12
    assert found.distances.max() < 1e-12
    assert found.step_distances.shape == (6 * 50,)
    assert found.distances.shape == (6,)


def test_the_target_is_left_behind_by_what_it_cannot_do() -> None:
    steps = 10
    joints = 0.1 * np.arange(steps + 1)  # counter-clockwise at 2 rad/s
    states = CLOCKWISE.observe(np.stack([joints, np.zeros(steps + 1)], axis=1))
    found = replay(Demonstrations(states, [steps], [0.0]), CLOCKWISE, INVERSE)
    assert found.states == pytest.approx(np.tile([1.0, 0.0, 1.0, 0.0], (steps + 1, 1)))
    chords = 2 * np.sin(joints[1:] / 2)
    assert found.step_distances == pytest.approx(chords)
    assert found.distances == pytest.approx([chords.mean()])


def test_the_chase_aims_from_where_the_target_is_not_from_where_it_should_be() -> None:
    # One step too fast, then standing still: the target makes up for it in the second step.
    joints = np.array([0.0, -0.15, -0.15])
    states = CLOCKWISE.observe(np.stack([joints, np.zeros(3)], axis=1))
    found = replay(Demonstrations(states, [2], [0.0]), CLOCKWISE, INVERSE)
    assert turntable.joint_angle(found.states) == pytest.approx([0.0, -0.1, -0.15])
    assert found.step_distances == pytest.approx([2 * np.sin(0.025), 0.0], abs=1e-12)


def test_lock_step_equals_one_by_one() -> None:
    demos = join([ragged(), ragged(COUNTER_CLOCKWISE)])
    together = replay(demos, CLOCKWISE, INVERSE)
    assert len(together.distances) == 12
    assert together.distances.max() > 0.01
    for index in range(len(demos)):
        alone = replay(demos.select([index]), CLOCKWISE, INVERSE)
        rows = slice(demos.starts[index], demos.starts[index] + demos.lengths[index] + 1)
        assert np.array_equal(together.states[rows], alone.states)
        assert together.distances[index] == pytest.approx(alone.distances[0], abs=1e-15)


def test_every_row_of_a_ragged_replay_is_filled_and_every_step_measured() -> None:
    demos = ragged(COUNTER_CLOCKWISE)
    found = replay(demos, CLOCKWISE, INVERSE)
    assert np.array_equal(found.states[demos.starts], demos.start_states)
    first = 0
    for index, length in enumerate(demos.lengths):
        gaps = (demos.trajectory(index) - found.states[demos.starts[index] :][: length + 1])[1:, CLOCKWISE.matched]
        assert found.step_distances[first : first + length] == pytest.approx(np.linalg.norm(gaps, axis=1))
        assert found.distances[index] == pytest.approx(found.step_distances[first : first + length].mean())
        first += length


def test_only_matched_columns_are_measured() -> None:
    demos = turntable.demonstrations(count=2)
    moved_goals = demos.states.copy()
    moved_goals[demos.transition_rows + 1, 2:] *= -1
    found = replay(Demonstrations(moved_goals, demos.lengths, demos.returns), CLOCKWISE, INVERSE)
    assert found.distances.max() < 1e-12
    strict = replace(CLOCKWISE, matched=np.arange(4))
    assert replay(Demonstrations(moved_goals, demos.lengths, demos.returns), strict, INVERSE).distances.min() > 0.1


def test_noise_moves_every_reached_state_by_at_most_its_size_and_comes_from_the_generator() -> None:
    demos = turntable.demonstrations(count=5)
    plain = replay(demos, CLOCKWISE, INVERSE)
    one, again, other = (replay(demos, CLOCKWISE, INVERSE, noise=0.01, rng=np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(one.states, again.states)
    assert not np.array_equal(one.states, other.states)
    assert one.distances.min() > plain.distances.max() + 1e-4
    still = demos.select([int(np.argmin([np.ptp(demos.trajectory(index)[:, 1]) for index in range(5)]))])
    noisy = replay(still, CLOCKWISE, INVERSE, noise=0.01, rng=np.random.default_rng(0))
    first_steps = noisy.step_distances[0]
    assert 0 < first_steps < 0.01 * np.sqrt(2) * 1.05


def test_more_noise_strays_farther() -> None:
    demos = turntable.demonstrations(count=5)
    strayed = [
        replay(demos, CLOCKWISE, INVERSE, noise=noise, rng=np.random.default_rng(0)).distances.mean() for noise in (1e-3, 1e-2, 1e-1)
    ]
    assert strayed[0] < strayed[1] < strayed[2]


def test_the_given_demonstrations_are_left_alone() -> None:
    demos = ragged()
    states = demos.states.copy()
    replay(demos, CLOCKWISE, INVERSE, noise=0.1, rng=np.random.default_rng(0))
    assert np.array_equal(demos.states, states)


def driving_inverse(speed: float):
    """The closed form: the turn rate shows the steering."""
    return lambda before, after: np.clip(after[:, [5]] / (0.1 * speed * np.linalg.norm(before[:, 2:4], axis=1))[:, None], -1, 1)


@pytest.mark.parametrize(
    ("target", "other", "least", "most"), [(driving.SLOW, driving.FAST, 0.375, 1.05), (driving.FAST, driving.SLOW, 0.36, 1.73)]
)
def test_driving_is_followed_at_its_own_speed_and_not_at_another(target, other, least: float, most: float) -> None:
    from imitable.experts import drive
    from imitable.reinforcement import demonstrate

    rng = np.random.default_rng(0)
    own, foreign = (
        demonstrate(simulator, lambda observations: drive(observations, rng), count=60, rng=np.random.default_rng(1)).trajectories
        for simulator in (target, other)
    )
    inverse = driving_inverse(target.speed)
    assert replay(own, target, inverse).distances.max() < 1e-9
    strayed = replay(foreign, target, inverse).distances
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
    found = replay(demos, simulator, lambda before, after: (after[:, [4]] - decay * before[:, [4]]) / (200 * (1 - decay)))
    assert found.distances.max() < 1e-5


def test_a_replay_that_breaks_down_is_infeasible_and_leaves_the_others_alone() -> None:
    given, inverse = turntable.demonstrations(count=8), ExactInverse(CLOCKWISE)
    whole, brittle = replay(given, CLOCKWISE, inverse), replay(given, turntable.BRITTLE, inverse)
    lowest = [turntable.CLOCKWISE.restore(given.trajectory(index))[:, 0].min() for index in range(8)]
    assert brittle.diverged.tolist() == [angle < turntable.BRITTLE.limit for angle in lowest]
    assert 0 < brittle.diverged.sum() < 8
    assert np.isinf(brittle.distances[brittle.diverged]).all()
    assert np.array_equal(brittle.distances[~brittle.diverged], whole.distances[~brittle.diverged])
    assert np.isfinite(brittle.states).all()
