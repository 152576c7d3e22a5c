"""Summing up seeds, and comparing methods."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from imitable.paper.statistics import (
    gap_closed,
    interquartile,
    interquartile_mean,
    paired_difference,
    probability_of_improvement,
    summary,
)


def test_the_interquartile_mean_by_hand() -> None:
    assert interquartile_mean(np.array([100.0, 1.0, 2.0, -50.0])) == pytest.approx(1.5)
    assert interquartile_mean(np.array([3.0])) == pytest.approx(3.0)
    # Of five, the middle half holds 0.75 of the second and fourth and all of the third.
    assert interquartile_mean(np.array([-99.0, 1.0, 2.0, 4.0, 99.0])) == pytest.approx((0.75 * 1 + 2 + 0.75 * 4) / 2.5)


@given(hnp.arrays(np.float64, st.integers(1, 12), elements=st.floats(-1e6, 1e6)), st.floats(-1e3, 1e3))
def test_the_interquartile_mean_lies_within_and_moves_along(values: np.ndarray, shift: float) -> None:
    middle = interquartile_mean(values)
    assert values.min() - 1e-6 <= middle <= values.max() + 1e-6
    assert interquartile_mean(values + shift) == pytest.approx(middle + shift, abs=1e-6)
    assert interquartile_mean(values[::-1]) == pytest.approx(middle, abs=1e-6)


def test_the_bootstrap_interval_surrounds_the_interquartile_mean_and_is_repeatable() -> None:
    means = np.random.default_rng(0).normal(10, 2, 20)
    one, again = (summary("task", "method", means, rng=np.random.default_rng(1)) for _ in range(2))
    assert one.interval == again.interval
    low, high = one.interval
    assert low < one.interquartile_mean < high
    assert 0.5 < high - low < 4
    alone = summary("task", "method", np.array([5.0]), rng=np.random.default_rng(0))
    assert (alone.interquartile_mean, alone.interval) == (5.0, (5.0, 5.0))


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_tasks_are_resampled_apart() -> None:
    """Two tasks with no spread of their own: whatever is drawn within them, the mixture of both stays."""
    found = interquartile({"easy": np.ones(5), "hard": np.zeros(5)}, rng=rng())
    assert (found.value, found.low, found.high) == (0.5, 0.5, 0.5)
    mixed = interquartile({"one": np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0])}, rng=rng())
    assert mixed.high - mixed.low > 0.5


def test_the_gap_is_closed_from_none_to_the_expert() -> None:
    assert gap_closed(np.array([-100.0, -50.0, 0.0, 20.0]), none=-100.0, expert=0.0) == pytest.approx([0.0, 0.5, 1.0, 1.2])


def test_differences_are_taken_seed_by_seed() -> None:
    gains, estimate = paired_difference({0: 10.0, 1: 200.0, 2: 5.0, 7: 0.0}, {0: 8.0, 1: 199.0, 2: 2.0, 9: 4.0}, rng=rng())
    assert gains.tolist() == [2.0, 1.0, 3.0]
    assert estimate is not None
    assert estimate.value == pytest.approx(2.0)
    assert 1.0 <= estimate.low < 2.0 < estimate.high <= 3.0, "seeds differ far more than methods, which pairing sees through"
    assert f"{estimate:.1f}" == f"2.0 [{estimate.low:.1f}, {estimate.high:.1f}]"
    assert paired_difference({0: 1.0}, {0: 0.0}, rng=rng())[1] is None


def test_the_probability_of_improvement_by_hand() -> None:
    ours, other = {"one": np.array([1.0, 3.0]), "two": np.array([5.0])}, {"one": np.array([2.0, 3.0]), "two": np.array([4.0])}
    # On the first task ours wins once of four, ties once: (1 + 0.5) / 4; on the second always.
    assert probability_of_improvement(ours, other, rng=rng()).value == pytest.approx((0.375 + 1.0) / 2)
    same = {"one": rng().normal(size=30)}
    estimate = probability_of_improvement(same, same, rng=rng())
    assert estimate.value == 0.5
    assert estimate.low < 0.5 < estimate.high
