"""What a demonstration set accepts, refuses, keeps and mixes."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import turntable
from imitable.demonstrations import Demonstrations, Mixture, join, mix, share_counts
from imitable.errors import ImitableError
from strategies import demonstration_sets


def labelled(lengths: list[int], *, first: int = 0, source: str | None = None) -> Demonstrations:
    """Demonstrations whose numbers say where they belong: state = 100 * demonstration + step, in two columns, return = demonstration."""
    rows = [[100.0 * (first + demo) + step] * 2 for demo, length in enumerate(lengths) for step in range(length + 1)]
    returns = first + np.arange(len(lengths), dtype=float)
    return Demonstrations(np.array(rows), np.array(lengths), returns, None if source is None else (source,) * len(lengths))


def same(one: Demonstrations, other: Demonstrations) -> bool:
    arrays = all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("states", "lengths", "returns"))
    return arrays and one.sources == other.sources


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
    assert demos.start_states[:, 0].tolist() == [0, 100, 200]
    assert demos.trajectory(2)[:, 0].tolist() == [200, 201, 202, 203]
    assert demos.states[demos.transition_rows, 0].tolist() == [0, 1, 100, 200, 201, 202]
    assert demos.states[demos.transition_rows + 1, 0].tolist() == [1, 2, 101, 201, 202, 203]


STATES = np.arange(10.0).reshape(5, 2)  # of two demonstrations with 1 and 2 transitions
BAD = {
    "an empty set": (np.zeros((0, 2)), [], [], None, "no demonstrations.*at least one"),
    "a zero-length trajectory": (STATES[:3], [1, 0], [0, 0], None, "demonstration 1 has length 0.*drop it"),
    "a negative length": (STATES, [1, -2], [0, 0], None, "demonstration 1 has length -2"),
    "NaN in states": (np.where(STATES == 7, np.nan, STATES), [1, 2], [0, 0], None, "demonstration 1 has nan in column 1 of its state 1"),
    "inf in states": (np.where(STATES == 2, np.inf, STATES), [1, 2], [0, 0], None, "demonstration 0 has inf in column 0 of its state 1"),
    "-inf in states": (np.where(STATES == 8, -np.inf, STATES), [1, 2], [0, 0], None, "demonstration 1 has -inf in column 0 of its state 2"),
    "NaN in returns": (STATES, [1, 2], [0, np.nan], None, "demonstration 1 has return nan"),
    "inf in returns": (STATES, [1, 2], [np.inf, 0], None, "demonstration 0 has return inf"),
    "too few rows": (STATES[:4], [1, 2], [0, 0], None, "call for 5 rows of states.*there are 4"),
    "too many rows": (STATES, [1, 1], [0, 0], None, "call for 4 rows of states.*there are 5"),
    "too few returns": (STATES, [1, 2], [0], None, "returns has 1 entries for 2 demonstrations"),
    "too few sources": (STATES, [1, 2], [0, 0], ("optimal",), "sources has 1 entries for 2 demonstrations"),
    "no sources at all": (STATES, [1, 2], [0, 0], (), "sources has 0 entries for 2 demonstrations"),
    "flat states": (STATES.ravel(), [1, 2], [0, 0], None, r"got shapes \(10,\), \(2,\) and \(2,\)"),
    "states without columns": (np.zeros((5, 0)), [1, 2], [0, 0], None, "no columns"),
    "returns per step": (STATES, [1, 2], [[0, 0]], None, r"got shapes .* and \(1, 2\)"),
    "half a transition": (STATES, [1.5, 2], [0, 0], None, "lengths must hold whole numbers, got 1.5"),
    "an unknown length": (STATES, [np.nan, 2], [0, 0], None, "lengths must hold whole numbers, got nan"),
    "an infinite length": (STATES, [np.inf, 2], [0, 0], None, "lengths must hold whole numbers, got inf"),
    "words for states": (np.array([["a", "b"]] * 5), [1, 2], [0, 0], None, "states must hold numbers, got <U1"),
    "objects for states": (np.array([[None, {}]] * 5), [1, 2], [0, 0], None, "states must hold numbers, got object"),
    "complex returns": (STATES, [1, 2], [1j, 0], None, "returns must hold numbers, got complex128"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_by_name_and_value(name: str) -> None:
    states, lengths, returns, sources, message = BAD[name]
    with pytest.raises(ImitableError, match=f"(?s){message}"):
        Demonstrations(states, lengths, returns, sources)


def test_a_ragged_list_of_states_is_refused() -> None:
    with pytest.raises(ImitableError, match="states"):
        Demonstrations([[1.0, 2.0], [3.0]], [1], [0.0])


def test_whole_numbers_in_other_types_are_welcome() -> None:
    demos = Demonstrations(STATES.astype(np.float32), np.array([1.0, 2.0]), [1, 2])
    assert (demos.states.dtype, demos.lengths.dtype, demos.returns.dtype) == (np.float64, np.int64, np.float64)


# Immutable


def test_nothing_can_be_written_to() -> None:
    demos = labelled([2, 1], source="optimal")
    for array in (demos.states, demos.lengths, demos.returns, demos.trajectory(0)):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7
    with pytest.raises(AttributeError):
        demos.returns = np.zeros(2)  # type: ignore[misc]


def test_later_changes_to_the_given_arrays_do_not_reach_in() -> None:
    states, lengths, returns = STATES.copy(), np.array([1, 2]), np.array([0.0, 1.0])
    demos = Demonstrations(states, lengths, returns)
    views = Demonstrations(states[:], lengths[:], returns[:])
    states[:], lengths[:], returns[:] = -1, 1, -1
    for each in (demos, views):
        assert np.array_equal(each.states, STATES)
        assert each.lengths.tolist() == [1, 2]
        assert each.returns.tolist() == [0, 1]


def test_a_write_protected_view_of_a_writable_array_is_copied() -> None:
    states = STATES.copy()
    view = states[:]
    view.flags.writeable = False
    demos = Demonstrations(view, [1, 2], [0, 0])
    states[:] = -1
    assert np.array_equal(demos.states, STATES)


def test_the_description_is_short_and_readable() -> None:
    text = repr(join([labelled([2, 1], source="optimal"), labelled([4], source="mocap")]))
    assert "3 of 1-4 transitions" in text
    assert "2 columns" in text
    assert "2 optimal" in text
    assert "1 mocap" in text
    assert "np." not in text


# Files


@settings(max_examples=30)
@given(demonstration_sets())
def test_loading_what_was_saved_changes_nothing(tmp_path_factory: pytest.TempPathFactory, demos: Demonstrations) -> None:
    path = tmp_path_factory.mktemp("saved") / "demos.npz"
    demos.save(path)
    loaded = Demonstrations.load(path)
    assert same(loaded, demos)
    assert loaded.states.tobytes() == demos.states.tobytes()
    assert loaded.returns.tobytes() == demos.returns.tobytes()


def test_saving_twice_gives_the_same_bytes_and_leaves_no_scraps(tmp_path: Path) -> None:
    demos = labelled([3, 2], source="optimal")
    for name in ("one.npz", "two.npz"):
        demos.save(tmp_path / name)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["one.npz", "two.npz"]


def test_saving_makes_the_folder_and_keeps_the_name(tmp_path: Path) -> None:
    labelled([1]).save(str(tmp_path / "deep" / "down" / "demos"))
    assert len(Demonstrations.load(tmp_path / "deep" / "down" / "demos")) == 1


def test_a_file_made_with_numpy_alone_is_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "plain.npz", states=STATES, lengths=np.array([1, 2]), returns=np.array([3.0, 4.0]))
    demos = Demonstrations.load(tmp_path / "plain.npz")
    assert demos.sources is None
    assert demos.returns.tolist() == [3, 4]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImitableError, match=r"absent\.npz does not exist"):
        Demonstrations.load(tmp_path / "absent.npz")


@pytest.mark.parametrize("missing", ["states", "lengths", "returns"])
def test_a_missing_array_is_named(tmp_path: Path, missing: str) -> None:
    arrays = {"states": STATES, "lengths": np.array([1, 2]), "returns": np.zeros(2)}
    del arrays[missing]
    np.savez(tmp_path / "part.npz", **arrays)
    with pytest.raises(ImitableError, match=rf"part\.npz has no {missing};.*states, lengths, returns"):
        Demonstrations.load(tmp_path / "part.npz")


def _saved(tmp_path: Path) -> bytes:
    rng = np.random.default_rng(0)
    Demonstrations(rng.standard_normal((200, 3)), [99, 99], [0, 0]).save(tmp_path / "good.npz")
    return (tmp_path / "good.npz").read_bytes()


def _damaged(content: bytes, how: str) -> bytes:
    middle = len(content) // 2
    return {
        "empty": b"",
        "not a zip": b"states, lengths, returns\n1, 2, 3\n",
        "cut short": content[:middle],
        "without its beginning": content[20:],
        "overwritten in the middle": content[: middle - 60] + bytes(120) + content[middle + 60 :],
    }[how]


@pytest.mark.parametrize("how", ["empty", "not a zip", "cut short", "without its beginning", "overwritten in the middle"])
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, how: str) -> None:
    path = tmp_path / "bad.npz"
    path.write_bytes(_damaged(_saved(tmp_path), how))
    with pytest.raises(ImitableError, match=re.escape(str(path))):
        Demonstrations.load(path)


def test_every_cut_of_a_file_is_refused(tmp_path: Path) -> None:
    content, path = _saved(tmp_path), tmp_path / "cut.npz"
    for size in range(0, len(content), 97):
        path.write_bytes(content[:size])
        with pytest.raises(ImitableError, match=r"cut\.npz"):
            Demonstrations.load(path)


class Trap:
    """Sprung if anything unpickles it."""

    sprung = False

    def __reduce__(self):
        return _spring, ()


def _spring() -> None:
    Trap.sprung = True


@pytest.mark.parametrize("array", ["states", "sources", "extra"])
def test_pickled_content_is_refused_and_never_run(tmp_path: Path, array: str) -> None:
    arrays = {"states": STATES, "lengths": np.array([1, 2]), "returns": np.zeros(2)} | {array: np.array([Trap(), Trap()], dtype=object)}
    np.savez(tmp_path / "pickled.npz", **arrays)
    with pytest.raises(ImitableError, match=r"pickled\.npz.*none of them pickled"):
        Demonstrations.load(tmp_path / "pickled.npz")
    assert not Trap.sprung


def test_sources_may_be_bytes_but_are_one_for_each(tmp_path: Path) -> None:
    arrays = {"states": STATES, "lengths": np.array([1, 2]), "returns": np.zeros(2)}
    np.savez(tmp_path / "bytes.npz", **arrays, sources=np.array([b"Ann", b"Bo"]))
    assert Demonstrations.load(tmp_path / "bytes.npz").sources == ("Ann", "Bo")
    np.savez(tmp_path / "lone.npz", **arrays, sources="Ann")
    with pytest.raises(ImitableError, match=r"lone\.npz: sources has shape \(\); it needs one name for each demonstration"):
        Demonstrations.load(tmp_path / "lone.npz")


def test_a_pickle_and_a_lone_array_are_refused(tmp_path: Path) -> None:
    import pickle

    (tmp_path / "old.npz").write_bytes(pickle.dumps([{"state": [1, 2]}]))
    np.save(tmp_path / "lone.npy", STATES)
    for name in ("old.npz", "lone.npy"):
        with pytest.raises(ImitableError, match=name):
            Demonstrations.load(tmp_path / name)


def test_bad_content_of_a_good_file_is_refused_with_the_file_and_the_offender(tmp_path: Path) -> None:
    np.savez(tmp_path / "nan.npz", states=np.full((3, 2), np.nan), lengths=np.array([2]), returns=np.zeros(1))
    with pytest.raises(ImitableError, match=r"nan\.npz: demonstration 0 has nan in column 0 of its state 0 \(3 such rows"):
        Demonstrations.load(tmp_path / "nan.npz")


# Selecting, joining, mixing


def test_selecting_keeps_whole_demonstrations_in_the_order_asked_for() -> None:
    demos = join([labelled([2, 1], source="optimal"), labelled([3], first=2, source="other-dynamics")])
    chosen = demos.select([2, 0, 0])
    assert chosen.states[:, 0].tolist() == [200, 201, 202, 203, 0, 1, 2, 0, 1, 2]
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
        assert chosen.returns[position] == demos.returns[index]


def test_joining_puts_one_set_after_the_other() -> None:
    joined = join([labelled([2]), labelled([1, 1], first=5)])
    assert joined.states[:, 0].tolist() == [0, 1, 2, 500, 501, 600, 601]
    assert joined.returns.tolist() == [0, 5, 6]
    assert join([labelled([1], source="mine"), labelled([1], source="yours")]).sources == ("mine", "yours")
    assert join([labelled([1], source="mine"), labelled([1])]).sources is None


def test_sets_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(ImitableError, match=r"different numbers of columns: \[1, 2\]"):
        join([labelled([1]), Demonstrations([[0.0], [1.0]], [1], [0.0])])
    with pytest.raises(ImitableError, match="nothing to join"):
        join([])


def test_source_labels_can_be_asked_for_and_dropped() -> None:
    demos = join([labelled([2, 1], source="operator A"), labelled([3], source="mocap")])
    assert demos.from_source("mocap").tolist() == [False, False, True]
    assert demos.from_source("optimal").tolist() == [False] * 3
    assert demos.without_sources().sources is None
    assert demos.without_sources().from_source("mocap").tolist() == [False] * 3
    assert np.array_equal(demos.without_sources().states, demos.states)


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
    assert share_counts(driving.released().shares(), count=1000) == {"optimal": 300, "suboptimal": 100, "other-dynamics": 600}


def test_the_turntable_used_in_tests_makes_demonstrations_like_any_other() -> None:
    assert turntable.mixed().sources == ("optimal",) * 8 + ("other-dynamics",) * 4
