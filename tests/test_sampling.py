"""Drawing transitions from p_w."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.sampling import TransitionSampler, effective_sample_size
from imitable.scores import demonstration_weights


def identifiable(lengths: list[int]) -> Demonstrations:
    """Observation = 1000 * demonstration + step, in two columns."""
    observations = [[1000.0 * demo + step] * 2 for demo, length in enumerate(lengths) for step in range(length + 1)]
    return Demonstrations(np.array(observations), np.array(lengths), np.zeros(len(lengths)))


@given(st.lists(st.tuples(st.integers(1, 9), st.floats(0, 1)), min_size=1, max_size=12).filter(lambda pairs: any(w > 0 for _, w in pairs)))
def test_p_w_sums_to_one_and_is_proportional_to_the_weights(pairs: list[tuple[int, float]]) -> None:
    lengths, weights = [length for length, _ in pairs], np.array([weight for _, weight in pairs])
    cumulative = TransitionSampler(identifiable(lengths), weights).cumulative
    assert cumulative[-1] == 1.0
    assert len(cumulative) == sum(lengths)
    expected = np.repeat(weights / weights.max(), lengths)
    assert np.diff(cumulative, prepend=0.0) == pytest.approx(expected / expected.sum(), abs=1e-12)


@given(st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=5), min_size=1, max_size=6).filter(lambda drawn: any(map(any, drawn))))
def test_p_w_is_proportional_to_weights_of_transitions(drawn: list[list[float]]) -> None:
    weights = np.array([weight for each in drawn for weight in each])
    cumulative = TransitionSampler(identifiable([len(each) for each in drawn]), weights).cumulative
    relative = weights / weights.max()
    assert cumulative[-1] == 1.0
    assert np.diff(cumulative, prepend=0.0) == pytest.approx(relative / relative.sum(), abs=1e-12)


def test_transitions_of_one_demonstration_are_drawn_by_their_own_weights() -> None:
    weights, count = np.array([0.0, 0.5, 0.0, 0.2, 0.0, 0.3]), 20_000
    before, after = TransitionSampler(identifiable([3, 1, 2]), weights).draw(count, np.random.default_rng(0))
    assert np.array_equal(after, before + 1)
    drawn, counts = np.unique(before[:, 0], return_counts=True)
    assert drawn.tolist() == [1, 1000, 2001]
    expected = np.array([0.5, 0.2, 0.3])
    assert (np.abs(counts / count - expected) < 4 * np.sqrt(expected * (1 - expected) / count)).all()


def test_weights_of_demonstrations_are_the_means_of_their_transitions_or_stay() -> None:
    lengths = np.array([2, 1, 3])
    assert demonstration_weights(np.array([0.2, 0.4, 1.0, 0.0, 0.3, 0.6]), lengths) == pytest.approx([0.3, 1.0, 0.3])
    assert demonstration_weights(np.array([0.2, 0.4, 1.0]), lengths).tolist() == [0.2, 0.4, 1.0]


def test_drawn_pairs_are_transitions_of_one_demonstration() -> None:
    lengths = [3, 1, 7, 2]
    before, after = TransitionSampler(identifiable(lengths), np.ones(4)).draw(5000, np.random.default_rng(0))
    assert np.array_equal(after, before + 1)
    assert np.array_equal(before[:, 0], before[:, 1])
    demo, step = np.divmod(before[:, 0], 1000)
    assert (step < np.array(lengths)[demo.astype(int)]).all()
    assert set(before[:, 0]) == {1000.0 * demo + step for demo, length in enumerate(lengths) for step in range(length)}


def test_drawn_indices_name_the_drawn_transitions() -> None:
    demos = identifiable([3, 1, 7, 2])
    sampler = TransitionSampler(demos, np.array([0.2, 0.9, 0.0, 0.4]))
    indices = sampler.draw_indices(300, np.random.default_rng(4))
    before, _ = sampler.draw(300, np.random.default_rng(4))
    assert np.array_equal(demos.observations[demos.transition_rows[indices]], before)


def test_transitions_are_drawn_as_often_as_p_w_says() -> None:
    lengths, weights, count = np.array([4, 1, 2]), np.array([0.1, 1.0, 0.5]), 60_000
    before, _ = TransitionSampler(identifiable(lengths.tolist()), weights).draw(count, np.random.default_rng(0))
    expected = weights * lengths / (weights * lengths).sum()
    drawn = np.bincount((before[:, 0] // 1000).astype(int), minlength=3) / count
    assert (np.abs(drawn - expected) < 4 * np.sqrt(expected * (1 - expected) / count)).all()


@pytest.mark.parametrize("weights", [[0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 0, 1], [0, 1e-300, 0]])
def test_demonstrations_of_no_weight_are_never_drawn(weights: list[float]) -> None:
    before, _ = TransitionSampler(identifiable([5, 2, 5]), np.array(weights, dtype=float)).draw(2000, np.random.default_rng(0))
    assert set(before[:, 0] // 1000) == set(np.flatnonzero(weights))


class Rigged:
    """A generator whose numbers are chosen."""

    def __init__(self, *values: float) -> None:
        self.values = values

    def random(self, count: int) -> np.ndarray:
        return np.array(self.values[:count])


def test_the_ends_of_the_unit_interval_fall_on_weighted_demonstrations() -> None:
    sampler = TransitionSampler(identifiable([3, 2, 3]), np.array([0.0, 0.3, 0.0]))
    last = np.nextafter(1.0, 0.0)
    assert sampler.draw_indices(3, Rigged(0.0, 0.5, last)).tolist() == [3, 4, 4]  # type: ignore[arg-type]


def test_the_same_generator_draws_the_same() -> None:
    sampler = TransitionSampler(identifiable([4, 4]), np.ones(2))
    one, again, other = (sampler.draw(50, np.random.default_rng(seed))[0] for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([0.0, 0.0, 0.0], "all 3 weights are zero, so there is nothing to learn from; `Assessment.weights` says why"),
        ([0.0] * 6, "all 6 weights are zero"),
        ([1.0, np.nan, 1.0], "demonstration 1 has weight nan"),
        ([1.0, 1.0, np.inf], "demonstration 2 has weight inf"),
        ([-0.25, 1.0, 1.0], "demonstration 0 has weight -0.25"),
        ([1.0, 1.0, np.nan, 1.0, 1.0, 1.0], "transition 2 has weight nan"),
        ([1.0, 1.0, 1.0, 1.0, 1.0, -1.0], "transition 5 has weight -1"),
        ([1.0, 1.0], r"weights have shape \(2,\); 3 demonstrations need \(3,\), or \(6,\) per transition"),
        ([[1.0, 1.0, 1.0]], r"weights have shape \(1, 3\)"),
    ],
)
def test_weights_that_cannot_be_drawn_from_are_refused(weights: list[float], message: str) -> None:
    with pytest.raises(ImitableError, match=f"(?s){message}"):
        TransitionSampler(identifiable([1, 2, 3]), np.array(weights))


@pytest.mark.parametrize(
    ("weights", "expected"),
    [([1, 1, 1, 1], 4.0), ([0.2, 0.2, 0.0], 2.0), ([1, 0, 0], 1.0), ([3, 1], 1.6), ([0, 0], 0.0), ([7], 1.0), ([1e-200, 1e-200], 2.0)],
)
def test_effective_sample_size_by_hand(weights: list[float], expected: float) -> None:
    assert effective_sample_size(np.array(weights, dtype=float)) == pytest.approx(expected, rel=1e-12)


@given(hnp.arrays(np.float64, st.integers(1, 20), elements=st.floats(0, 1)).filter(lambda weights: weights.any()))
def test_effective_sample_size_lies_between_one_and_the_number_of_weighted(weights: np.ndarray) -> None:
    size = effective_sample_size(weights)
    assert 1 - 1e-9 <= size <= (weights > 0).sum() + 1e-9
    assert effective_sample_size(0.5 * weights / weights.max()) == pytest.approx(size)
