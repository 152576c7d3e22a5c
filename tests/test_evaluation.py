"""Returns of whole episodes from fresh starts."""

from functools import partial

import numpy as np
import pytest

import turntable
from countdown import Countdown
from imitable.arrays import Array
from imitable.demonstrations import Demonstrations, join
from imitable.errors import ImitableError
from imitable.evaluation import distance_along, evaluate, measure
from imitable.learners import Checkpoint
from imitable.networks import Mlp, Policy
from imitable.rollouts import run_episodes


def still(observations: Array) -> Array:
    return np.zeros((len(observations), 1))


def test_an_evaluation_gives_the_return_of_every_episode() -> None:
    returns = evaluate(still, Countdown(lengths=(1, 3)), episodes=2, rng=np.random.default_rng(0)).returns
    assert returns == pytest.approx([1.0, 1.0 + 2.01 + 3.02])


def test_simulations_that_break_down_are_counted() -> None:
    def left_or_still(observations: Array) -> Array:
        return np.where(np.arange(len(observations)) % 2, 0.0, -1.0)[:, None]

    assert evaluate(left_or_still, turntable.BRITTLE, episodes=3, rng=np.random.default_rng(0)).diverged == 2


def test_an_evaluation_needs_an_episode() -> None:
    with pytest.raises(ImitableError, match="episodes is 0; an evaluation needs at least one"):
        evaluate(still, turntable.CLOCKWISE, episodes=0, rng=np.random.default_rng(0))


def test_the_distance_along_demonstrations_is_that_of_each_step() -> None:
    shown = run_episodes(
        turntable.CLOCKWISE, lambda seen: np.full((len(seen), 1), -0.3), count=3, rng=np.random.default_rng(0)
    ).trajectories
    scale = np.full(shown.width, 0.1)
    measured = partial(distance_along, robot=turntable.CLOCKWISE, demonstrations=shown, scale=scale)
    assert measured(lambda seen: np.full((len(seen), 1), -0.3)) == pytest.approx(np.zeros(3), abs=1e-9)
    strayed = measured(still)
    assert (strayed > 0.1).all()
    assert measured(still, steps=5) == pytest.approx([distances_by_hand(shown, demo, 5) for demo in range(3)])
    assert strayed == pytest.approx([distances_by_hand(shown, demo, 50) for demo in range(3)])
    short = shown.select([0, 1]), Demonstrations(shown.trajectory(2)[:8], [7])
    both = join(short)
    assert distance_along(still, turntable.CLOCKWISE, both, scale=scale)[2] == pytest.approx(distances_by_hand(shown, 2, 7)), "to its end"


def distances_by_hand(shown: Demonstrations, demo: int, steps: int) -> float:
    """Of a robot that stands still."""
    path, robot = shown.trajectory(demo), turntable.CLOCKWISE
    state, total = robot.restore(path[:1]), 0.0
    for row in path[1 : steps + 1]:
        state = robot.step(state, np.zeros((1, 1)))
        total += float(np.sqrt(np.mean(((robot.observe(state)[0] - row) / 0.1) ** 2)))
    return total / steps


def test_every_checkpoint_is_evaluated_on_the_same_starts() -> None:
    def policy(seed: int) -> Policy:
        limits, rng = np.ones(1), np.random.default_rng(seed)
        return Policy.fresh(Mlp((4, 1)), center=np.zeros(4), scale=np.full(4, 0.01), low=-limits, high=limits, rng=rng)

    policies = [policy(0), policy(0), policy(1)]
    checkpoints = [Checkpoint(each, number, number / 3, {}) for number, each in enumerate(policies)]
    rng = np.random.default_rng(5)
    found = list(measure(iter(checkpoints), turntable.CLOCKWISE, episodes=7, rng=rng))
    assert [each.checkpoint for each in found] == checkpoints
    assert all(each.returns.shape == (7,) for each in found)
    assert np.array_equal(found[0].returns, found[1].returns)
    assert not np.array_equal(found[0].returns, found[2].returns)
    expected = evaluate(policies[2], turntable.CLOCKWISE, episodes=7, rng=np.random.default_rng(5)).returns
    assert np.array_equal(found[2].returns, expected)
    assert rng.random() == np.random.default_rng(5).random(), "the caller's generator was used up"
