"""What a demonstration set accepts, refuses, keeps and mixes."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import turntable
from imitable.demonstrations import Demonstrations, join, mix, share_counts
from imitable.errors import ImitableError
from imitable.paper.demonstrators import Mixture
from strategies import demonstration_sets


def labelled(lengths: list[int], *, first: int = 0, source: str | None = None) -> Demonstrations:
    """Demonstrations whose numbers say where they belong: observation = 100 * demonstration + step, twice; return = demonstration."""
    rows = [[100.0 * (first + demo) + step] * 2 for demo, length in enumerate(lengths) for step in range(length + 1)]
    returns = first + np.arange(len(lengths), dtype=float)
    return Demonstrations(np.array(rows), np.array(lengths), returns, None if source is None else (source,) * len(lengths))


def named(lengths: list[int], *names: str) -> Demonstrations:
    made = labelled(lengths)
    return Demonstrations(made.observations, made.lengths, made.returns, observation_names=names)


def same(one: Demonstrations, other: Demonstrations) -> bool:
    arrays = all(
        np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True) for name in ("observations", "lengths", "returns")
    )
    return arrays and one.sources == other.sources and one.observation_names == other.observation_names


# At birth


def test_one_demonstration_of_one_transition_is_enough() -> None:
    single = Demonstrations([[0.0], [1.0]], [1], [5.0])
    assert len(single) == 1
    assert single.width == 1
    assert single.trajectory(0).tolist() == [[0.0], [1.0]]
    assert single.transition_rows.tolist() == [0]


def test_rows_belong_to_their_demonstrations() -> None:
    demos = labelled([2, 1, 3])
    assert demos.starts.tolist() == [0, 3, 5]
    assert demos.start_observations[:, 0].tolist() == [0, 100, 200]
    assert demos.trajectory(2)[:, 0].tolist() == [200, 201, 202, 203]
    assert demos.observations[demos.transition_rows, 0].tolist() == [0, 1, 100, 200, 201, 202]
    assert demos.observations[demos.transition_rows + 1, 0].tolist() == [1, 2, 101, 201, 202, 203]


ROWS = np.arange(10.0).reshape(5, 2)  # of two demonstrations with 1 and 2 transitions
BAD = {
    "an empty set": (np.zeros((0, 2)), [], [], None, "no demonstrations.*at least one"),
    "a zero-length trajectory": (ROWS[:3], [1, 0], [0, 0], None, "demonstration 1 has length 0.*drop it"),
    "a negative length": (ROWS, [1, -2], [0, 0], None, "demonstration 1 has length -2"),
    "NaN in observations": (
        np.where(ROWS == 7, np.nan, ROWS),
        [1, 2],
        [0, 0],
        None,
        "demonstration 1 has nan in column 1 of observation 1",
    ),
    "inf in observations": (
        np.where(ROWS == 2, np.inf, ROWS),
        [1, 2],
        [0, 0],
        None,
        "demonstration 0 has inf in column 0 of observation 1",
    ),
    "-inf in observations": (
        np.where(ROWS == 8, -np.inf, ROWS),
        [1, 2],
        [0, 0],
        None,
        "demonstration 1 has -inf in column 0 of observation 2",
    ),
    "inf in returns": (ROWS, [1, 2], [np.inf, 0], None, "demonstration 0 has return inf; give NaN where it is not known"),
    "-inf in returns": (ROWS, [1, 2], [0, -np.inf], None, "demonstration 1 has return -inf"),
    "too few rows": (ROWS[:4], [1, 2], [0, 0], None, "call for 5 rows of observations.*there are 4"),
    "too many rows": (ROWS, [1, 1], [0, 0], None, "call for 4 rows of observations.*there are 5"),
    "too few returns": (ROWS, [1, 2], [0], None, "returns has 1 entries for 2 demonstrations"),
    "too few sources": (ROWS, [1, 2], [0, 0], ("optimal",), "sources has 1 entries for 2 demonstrations"),
    "no sources at all": (ROWS, [1, 2], [0, 0], (), "sources has 0 entries for 2 demonstrations"),
    "flat observations": (ROWS.ravel(), [1, 2], [0, 0], None, r"got shapes \(10,\), \(2,\) and \(2,\)"),
    "observations without columns": (np.zeros((5, 0)), [1, 2], [0, 0], None, "no columns"),
    "returns per step": (ROWS, [1, 2], [[0, 0]], None, r"got shapes .* and \(1, 2\)"),
    "half a transition": (ROWS, [1.5, 2], [0, 0], None, "lengths must hold whole numbers, got 1.5"),
    "an unknown length": (ROWS, [np.nan, 2], [0, 0], None, "lengths must hold whole numbers, got nan"),
    "an infinite length": (ROWS, [np.inf, 2], [0, 0], None, "lengths must hold whole numbers, got inf"),
    "words for observations": (np.array([["a", "b"]] * 5), [1, 2], [0, 0], None, "observations must hold numbers, got <U1"),
    "objects for observations": (np.array([[None, {}]] * 5), [1, 2], [0, 0], None, "observations must hold numbers, got object"),
    "complex returns": (ROWS, [1, 2], [1j, 0], None, "returns must hold numbers, got complex128"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_by_name_and_value(name: str) -> None:
    observations, lengths, returns, sources, message = BAD[name]
    with pytest.raises(ImitableError, match=f"(?s){message}"):
        Demonstrations(observations, lengths, returns, sources)


def test_a_ragged_list_of_observations_is_refused() -> None:
    with pytest.raises(ImitableError, match="observations must be an array of numbers"):
        Demonstrations([[1.0, 2.0], [3.0]], [1], [0.0])


def test_whole_numbers_in_other_types_are_welcome() -> None:
    demos = Demonstrations(ROWS.astype(np.float32), np.array([1.0, 2.0]), [1, 2])
    assert (demos.observations.dtype, demos.lengths.dtype, demos.returns.dtype) == (np.float64, np.int64, np.float64)


def test_a_name_is_needed_for_every_column_or_for_none() -> None:
    assert named([1, 2], "x", "y").observation_names == ("x", "y")
    for names in (("x",), ("x", "y", "z"), ()):
        with pytest.raises(ImitableError, match=f"there are {len(names)} observation_names for 2 columns; give one each"):
            named([1, 2], *names)
    assert Demonstrations(ROWS, [1, 2], observation_names=np.array(["x", "y"])).observation_names == ("x", "y")


# Returns that are not known


def test_returns_may_be_missing_here_and_there_or_everywhere() -> None:
    for missing in (None, [np.nan, np.nan]):
        demos = Demonstrations(ROWS, [1, 2], missing)
        assert np.isnan(demos.returns).tolist() == [True, True]
        assert demos.returns.dtype == np.float64
    demos = Demonstrations(ROWS, [1, 2], [np.nan, 3.0])
    assert np.isnan(demos.returns).tolist() == [True, False]
    assert np.isnan(demos.select([1, 0, 0]).returns).tolist() == [False, True, True]


def test_who_needs_returns_gets_them_or_an_error_that_names_him_and_how_many_are_missing() -> None:
    assert labelled([1, 2]).known_returns(needed_by="a test").tolist() == [0.0, 1.0]
    with pytest.raises(ImitableError, match=r"2IWIL needs returns, but 2 of 3 demonstrations have none, such as number 1; give"):
        Demonstrations(np.zeros((6, 1)), [1, 1, 1], [0.0, np.nan, np.nan]).known_returns(needed_by="2IWIL")
    with pytest.raises(ImitableError, match="2 of 2 demonstrations have none, such as number 0"):
        Demonstrations(ROWS, [1, 2]).known_returns(needed_by="2IWIL")


def test_joining_keeps_returns_where_they_are_known() -> None:
    joined = join([labelled([1], first=4), Demonstrations([[0.0, 0.0], [1.0, 1.0]], [1])])
    assert joined.returns[0] == 4.0
    assert np.isnan(joined.returns[1])


# Immutable


def test_nothing_can_be_written_to() -> None:
    demos = labelled([2, 1], source="optimal")
    for array in (demos.observations, demos.lengths, demos.returns, demos.trajectory(0)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7
    with pytest.raises(AttributeError):
        demos.returns = np.zeros(2)  # type: ignore[misc]


def test_later_changes_to_the_given_arrays_do_not_reach_in() -> None:
    observations, lengths, returns = ROWS.copy(), np.array([1, 2]), np.array([0.0, 1.0])
    demos = Demonstrations(observations, lengths, returns)
    views = Demonstrations(observations[:], lengths[:], returns[:])
    observations[:], lengths[:], returns[:] = -1, 1, -1
    for each in (demos, views):
        assert np.array_equal(each.observations, ROWS)
        assert each.lengths.tolist() == [1, 2]
        assert each.returns.tolist() == [0, 1]


def test_a_write_protected_view_of_a_writable_array_is_copied() -> None:
    observations = ROWS.copy()
    view = observations[:]
    view.flags.writeable = False
    demos = Demonstrations(view, [1, 2], [0, 0])
    observations[:] = -1
    assert np.array_equal(demos.observations, ROWS)


def test_the_description_is_short_and_readable() -> None:
    text = repr(join([labelled([2, 1], source="optimal"), labelled([4], source="mocap")]))
    assert "3 of 1-4 transitions" in text
    assert "2 columns" in text
    assert "2 optimal" in text
    assert "1 mocap" in text
    assert "np." not in text


# Selecting, joining, mixing


def test_selecting_keeps_whole_demonstrations_in_the_order_asked_for() -> None:
    demos = join([labelled([2, 1], source="optimal"), labelled([3], first=2, source="other-dynamics")])
    chosen = demos.select([2, 0, 0])
    assert chosen.observations[:, 0].tolist() == [200, 201, 202, 203, 0, 1, 2, 0, 1, 2]
    assert chosen.returns.tolist() == [2, 0, 0]
    assert chosen.sources == ("other-dynamics", "optimal", "optimal")
    assert same(demos.select(demos.returns < 2), demos.select([0, 1]))
    assert same(demos.select([-1]), demos.select([2]))


def test_selecting_nothing_is_refused() -> None:
    with pytest.raises(ImitableError, match="no demonstrations"):
        labelled([1, 2]).select(np.array([False, False]))


@given(st.data())
def test_selecting_agrees_with_taking_trajectories(data: st.DataObject) -> None:
    demos = data.draw(demonstration_sets())
    indices = data.draw(st.lists(st.integers(0, len(demos) - 1), min_size=1, max_size=8))
    chosen = demos.select(indices)
    for position, index in enumerate(indices):
        assert np.array_equal(chosen.trajectory(position), demos.trajectory(index))
        assert np.array_equal(chosen.returns[position], demos.returns[index], equal_nan=True)
        assert demos.sources is None or chosen.sources[position] == demos.sources[index]
    assert chosen.observation_names == demos.observation_names


def test_joining_puts_one_set_after_the_other() -> None:
    joined = join([labelled([2]), labelled([1, 1], first=5)])
    assert joined.observations[:, 0].tolist() == [0, 1, 2, 500, 501, 600, 601]
    assert joined.returns.tolist() == [0, 5, 6]
    assert join([labelled([1], source="mine"), labelled([1], source="yours")]).sources == ("mine", "yours")
    assert join([labelled([1], source="mine"), labelled([1])]).sources is None


def test_sets_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(ImitableError, match=r"different numbers of columns: \[1, 2\]"):
        join([labelled([1]), Demonstrations([[0.0], [1.0]], [1], [0.0])])
    with pytest.raises(ImitableError, match="nothing to join"):
        join([])


def test_names_of_columns_survive_joining_and_other_names_are_refused() -> None:
    for sets in ([named([1], "x", "y")] * 2, [named([1], "x", "y"), labelled([1])], [labelled([1]), named([1], "x", "y")]):
        assert join(sets).observation_names == ("x", "y")
    assert join([labelled([1]), labelled([2])]).observation_names is None
    for others in (("y", "x"), ("x", "z")):
        with pytest.raises(ImitableError, match=r"different columns: \('x', '.'\) and \('.', '.'\)"):
            join([named([1], "x", "y"), labelled([1]), named([1], *others)])


def test_names_of_columns_survive_selecting_mixing_and_new_sources() -> None:
    demos = named([1, 2, 3], "x", "y")
    assert demos.select([2, 0]).observation_names == ("x", "y")
    assert demos.with_sources(("a", "b", "c")).observation_names == ("x", "y")
    assert mix({"a": demos}, shares={"a": 1.0}, count=2, rng=np.random.default_rng(0)).observation_names == ("x", "y")


def test_times_survive_selecting_joining_and_new_sources_and_are_one_for_each_row() -> None:
    timed = Demonstrations(np.zeros((5, 1)), [1, 2], times=[0.0, 0.1, 5.0, 5.1, 5.2])
    assert timed.select([1]).with_sources(["Ann"]).times.tolist() == [5.0, 5.1, 5.2]
    assert join([timed, timed.select([0])]).times[5:].tolist() == [0.0, 0.1]
    assert np.isnan(join([timed, Demonstrations(np.zeros((2, 1)), [1])]).times).tolist() == [False] * 5 + [True] * 2
    assert join([labelled([1]), labelled([1])]).times is None
    with pytest.raises(ImitableError, match=r"times has shape \(4,\); it needs one number for each of the 5 rows"):
        Demonstrations(np.zeros((5, 1)), [1, 2], times=np.zeros(4))


def test_copies_are_found_whatever_they_are_written_in() -> None:
    rows = np.random.default_rng(0).normal(size=(9, 2)) * 1e30
    rows[0] = 0.0
    one = Demonstrations(rows, [2, 5])
    single = Demonstrations(rows.astype(np.float32), [2, 5], [1.0, 2.0])
    minus = Demonstrations(np.where(rows == 0, -0.0, rows), [2, 5])
    assert join([one, single, minus]).copies == {2: 0, 3: 1, 4: 0, 5: 1}
    assert join([one, Demonstrations(rows * (1 + 1e-6), [2, 5]), Demonstrations(rows[:5], [4])]).copies == {}


def test_the_digest_tells_apart_all_that_scores_and_learners_see() -> None:
    demos = named([1, 2], "x", "y")
    assert demos.digest == named([1, 2], "x", "y").digest
    assert demos.digest == demos.with_sources(("mine", "yours")).digest, "nobody sees the sources"
    observations, returns = demos.observations.copy(), demos.returns.copy()
    observations[3, 1] += 1e-12
    returns[0] = np.nan
    others = [
        named([2, 1], "x", "y"),
        named([1, 2], "y", "x"),
        labelled([1, 2]),
        Demonstrations(observations, demos.lengths, demos.returns, observation_names=("x", "y")),
        Demonstrations(demos.observations, demos.lengths, returns, observation_names=("x", "y")),
    ]
    assert len({each.digest for each in [demos, *others]}) == 6


def test_source_labels_can_be_asked_for_changed_and_dropped() -> None:
    demos = join([labelled([2, 1], source="operator A"), labelled([3], source="mocap")])
    assert demos.from_source("mocap").tolist() == [False, False, True]
    assert demos.from_source("optimal").tolist() == [False] * 3
    assert demos.with_sources(None).sources is None
    assert demos.with_sources(None).from_source("mocap").tolist() == [False] * 3
    assert demos.with_sources(["a", "b", "c"]).sources == ("a", "b", "c")
    assert np.array_equal(demos.with_sources(None).observations, demos.observations)
    with pytest.raises(ImitableError, match="sources has 2 entries for 3 demonstrations"):
        demos.with_sources(("a", "b"))


def test_a_mixture_has_its_shares_and_keeps_each_demonstration_whole() -> None:
    kinds = {"a": labelled([3] * 20), "b": labelled([2] * 20, first=20), "c": labelled([1] * 20, first=40)}
    mixture = mix(kinds, shares={"a": 0.5, "b": 0.3, "c": 0.2}, count=20, rng=np.random.default_rng(0))
    assert {name: int(mixture.from_source(name).sum()) for name in kinds} == {"a": 10, "b": 6, "c": 4}
    assert len(set(mixture.returns)) == 20, "a demonstration was drawn twice"
    for index, source in enumerate(mixture.sources or ()):
        number = mixture.returns[index]
        assert source == "abc"[int(number // 20)]
        assert mixture.trajectory(index)[:, 0].tolist() == [100 * number + step for step in range(mixture.lengths[index] + 1)]
    assert list(mixture.sources or ()) != sorted(mixture.sources or ()), "the mixture is not shuffled"


def test_the_same_generator_mixes_the_same() -> None:
    kinds = {"a": labelled([1] * 9), "b": labelled([2] * 9, first=9)}
    one, again, other = (mix(kinds, shares={"a": 0.5, "b": 0.5}, count=8, rng=np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert same(one, again)
    assert not same(one, other)


def test_mixtures_that_cannot_be_made_are_refused() -> None:
    kinds, rng = {"a": labelled([1] * 3)}, np.random.default_rng(0)
    with pytest.raises(ImitableError, match="asks for 5 'a' demonstrations, but there are 3"):
        mix(kinds, shares={"a": 1.0}, count=5, rng=rng)
    with pytest.raises(ImitableError, match=r"no demonstrations of kind 'b'.*there are a"):
        mix(kinds, shares={"a": 0.5, "b": 0.5}, count=2, rng=rng)
    with pytest.raises(ImitableError, match=r"add up to 1, got \{'a': 0.7\}"):
        mix(kinds, shares={"a": 0.7}, count=2, rng=rng)
    with pytest.raises(ImitableError, match=r"at least 0.*-0.5"):
        mix(kinds, shares={"a": 1.5, "b": -0.5}, count=2, rng=rng)
    with pytest.raises(ImitableError, match="count=0"):
        mix(kinds, shares={"a": 1.0}, count=0, rng=rng)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=6).filter(any), st.integers(1, 2000))
def test_share_counts_add_up_and_are_within_one_of_exact(parts: list[int], count: int) -> None:
    shares = {f"kind {number}": part / sum(parts) for number, part in enumerate(parts)}
    counts = share_counts(shares, count=count)
    assert sum(counts.values()) == count
    assert all(abs(counts[name] - share * count) < 1 + 1e-6 for name, share in shares.items())
    assert all(counts[name] == 0 for name, share in shares.items() if share == 0)


def test_the_papers_mixtures_come_out_exactly() -> None:
    reacher, driving = Mixture(0.05, 0.90, 0.05), Mixture(0.30, 0.60, 0.10)
    assert list(share_counts(reacher.shares(), count=1000).values()) == [50, 900, 50]
    assert list(share_counts(driving.shares(), count=1000).values()) == [300, 600, 100]
    assert driving.counts("released", count=1000) == {"optimal": 300, "suboptimal": 100, "other-dynamics": 600}


def test_the_turntable_used_in_tests_makes_demonstrations_like_any_other() -> None:
    assert turntable.mixed().sources == ("optimal",) * 8 + ("other-dynamics",) * 4
