"""Demonstrations from files, by any name, pattern or list of them, and into files."""

import re
import sys
from importlib import import_module
from json import JSONDecodeError
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.formats import FORMATS, npz, read
from strategies import demonstration_sets

OBSERVATIONS = np.arange(10.0).reshape(5, 2)  # of two demonstrations with 1 and 2 transitions
DEMOS = Demonstrations(OBSERVATIONS, [1, 2], [3.0, 4.0])


# Any format


@pytest.fixture
def pile(tmp_path: Path) -> Path:
    """A folder with two files of demonstrations, the returns of which say where they came from, and a third one deeper down."""
    for number, name in enumerate(("b.npz", "a.npz", "deep/c.npz")):
        npz.write(Demonstrations(OBSERVATIONS, [1, 2], [number, number + 0.5], (name, name)), tmp_path / name)
    return tmp_path


def test_a_file_is_read_by_its_suffix(pile: Path) -> None:
    assert read(pile / "a.npz").returns.tolist() == [1.0, 1.5]
    assert read(str(pile / "a.npz")).returns.tolist() == [1.0, 1.5]
    (pile / "a.npz").rename(pile / "a.NPZ")
    assert read(pile / "a.NPZ").returns.tolist() == [1.0, 1.5]


def test_a_pattern_matches_in_the_order_of_names(pile: Path) -> None:
    assert read(pile / "*.npz").sources == ("a.npz", "a.npz", "b.npz", "b.npz")
    assert read(f"{pile}/[b-z].npz").sources == ("b.npz", "b.npz")
    assert read(f"{pile}/**/?.npz").sources == ("a.npz", "a.npz", "b.npz", "b.npz", "deep/c.npz", "deep/c.npz")


def test_several_files_and_patterns_come_one_after_the_other(pile: Path) -> None:
    joined = read([pile / "b.npz", str(pile / "deep" / "*.npz"), pile / "a.npz"])
    assert joined.returns.tolist() == [0.0, 0.5, 2.0, 2.5, 1.0, 1.5]
    assert joined.sources == ("b.npz",) * 2 + ("deep/c.npz",) * 2 + ("a.npz",) * 2


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(pile: Path) -> None:
    npz.write(DEMOS, pile / "[ab].npz")
    assert read(pile / "[ab].npz").returns.tolist() == [3.0, 4.0]


def test_nothing_to_read_is_refused_with_what_was_asked_for(pile: Path) -> None:
    with pytest.raises(ImitableError, match=r"no file matches .*none-\*\.npz"):
        read(pile / "none-*.npz")
    with pytest.raises(ImitableError, match=r"no file matches .*none-\*\.npz"):
        read([pile / "a.npz", pile / "none-*.npz"])
    with pytest.raises(ImitableError, match="nothing to read"):
        read([])
    with pytest.raises(ImitableError, match=r"absent\.npz does not exist"):
        read(pile / "absent.npz")


def test_an_unknown_suffix_is_refused_with_the_known_ones(pile: Path) -> None:
    for name in ("a.xyz", "a", "npz"):
        (pile / name).write_bytes(b"")
        with pytest.raises(ImitableError, match=rf"{name} has the suffix '{Path(name).suffix}'; demonstrations are read from .*\.npz"):
            read(pile / name)


def test_a_folder_gives_all_files_in_it_in_the_order_of_their_names(pile: Path) -> None:
    (pile / "notes.txt").write_text("not read")
    assert read(pile).returns.tolist() == [1.0, 1.5, 0.0, 0.5, 2.0, 2.5]
    (pile / "empty").mkdir()
    with pytest.raises(ImitableError, match=r"the folder .*empty has no \.npz or .* files"):
        read(pile / "empty")


def test_of_several_places_those_without_sources_are_called_by_their_name(pile: Path) -> None:
    npz.write(DEMOS, pile / "deep" / "nameless.npz")
    assert read([pile / "a.npz", pile / "deep"]).sources == ("a.npz",) * 2 + ("deep/c.npz",) * 2 + ("deep",) * 2
    assert read(pile / "deep" / "nameless.npz").sources is None


def test_mixed_widths_name_both_files(pile: Path) -> None:
    npz.write(Demonstrations(np.zeros((2, 3)), [1]), pile / "wide.npz")
    with pytest.raises(ImitableError, match=r"wide\.npz has 3 columns, .*a\.npz has 2"):
        read(pile)


def test_it_is_noted_once_that_the_order_of_columns_without_names_cannot_be_checked(pile: Path) -> None:
    noted: list[str] = []
    read(pile, note=noted.append)
    told = "do not name the columns, so that their order cannot be checked; give observation_names, or a header"
    assert noted == [f"{pile / 'a.npz'} and 2 more files {told}"]
    npz.write(Demonstrations(OBSERVATIONS, [1, 2], observation_names=("x", "y")), pile / "named.npz")
    npz.write(Demonstrations(OBSERVATIONS[:, :1], [1, 2]), pile / "single.npz")
    noted.clear()
    read(pile / "named.npz", note=noted.append)
    read(pile / "single.npz", note=noted.append)
    assert noted == []
    read([pile / "named.npz", pile / "b.npz"], note=noted.append)
    assert [each.split(" do")[0] for each in noted] == [str(pile / "b.npz")], "though the others' names are taken for it"


# The contract of every format


@pytest.fixture(params=FORMATS)
def suffix(request: pytest.FixtureRequest) -> str:
    return request.param


def module_of(suffix: str) -> ModuleType:
    return import_module(f"imitable.formats.{FORMATS[suffix]}")


def test_every_suffix_has_a_module_that_reads(suffix: str) -> None:
    assert callable(module_of(suffix).read)


@pytest.mark.parametrize("content", [b"", b"\x00\xff\x00", b"PK\x03\x04 torn", b'{"states": [1, 2', b"a,b\n1,2,3\n"], ids=repr)
def test_a_damaged_file_of_any_format_is_refused_by_its_name(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"damaged{suffix}"
    path.write_bytes(content)
    with pytest.raises(ImitableError, match=re.escape(str(path))):
        read(path)


def test_a_file_of_any_format_that_is_not_there_is_named(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(ImitableError, match=f"absent{re.escape(suffix)} does not exist"):
        read(tmp_path / f"absent{suffix}")


def test_what_a_format_writes_it_reads_again(tmp_path: Path, suffix: str) -> None:
    if not hasattr(module_of(suffix), "write"):
        pytest.skip("it is only read")
    path, given = tmp_path / f"demos{suffix}", Demonstrations(OBSERVATIONS, [1, 2], [3.0, np.nan], ("Ann", "Bob"), ("x", "y"))
    module_of(suffix).write(given, path)
    assert read(path).digest == given.digest
    assert (read(path).sources, read(path).observation_names) == (given.sources, given.observation_names)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (JSONDecodeError("Expecting value", "", 0), r"cannot read .*mine\.fake: Expecting value"),
        (KeyError("states"), r"cannot read .*mine\.fake: KeyError 'states'"),
        (ImitableError("line 3 is torn"), r"^\S*mine\.fake: line 3 is torn$"),
    ],
)
def test_whatever_a_reader_raises_is_an_error_that_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    def read_fake(path: Path) -> Demonstrations:
        raise error

    monkeypatch.setitem(FORMATS, ".fake", "fake")
    monkeypatch.setitem(sys.modules, "imitable.formats.fake", SimpleNamespace(read=read_fake))
    (tmp_path / "mine.fake").write_bytes(b"")
    with pytest.raises(ImitableError, match=message):
        read(tmp_path / "mine.fake")


def test_files_with_other_columns_do_not_go_together(pile: Path) -> None:
    npz.write(Demonstrations(OBSERVATIONS, [1, 2], observation_names=("x", "y")), pile / "xy.npz")
    npz.write(Demonstrations(OBSERVATIONS, [1, 2], observation_names=("y", "x")), pile / "yx.npz")
    assert read([pile / "a.npz", pile / "xy.npz"]).observation_names == ("x", "y")
    with pytest.raises(ImitableError, match="different columns"):
        read(pile / "??.npz")


# npz


@settings(max_examples=30)
@given(demonstration_sets(), st.booleans())
def test_reading_what_was_written_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, demos: Demonstrations, compressed: bool
) -> None:
    path = tmp_path_factory.mktemp("written") / "demos.npz"
    npz.write(demos, path, compressed=compressed)
    loaded = read(path)
    assert (loaded.sources, loaded.observation_names) == (demos.sources, demos.observation_names)
    assert loaded.lengths.tolist() == demos.lengths.tolist()
    assert loaded.observations.tobytes() == demos.observations.tobytes()
    assert loaded.returns.tobytes() == demos.returns.tobytes()


def test_writing_twice_gives_the_same_bytes_and_leaves_no_scraps(tmp_path: Path) -> None:
    demos = DEMOS.with_sources(("optimal", "suboptimal"))
    for name in ("one.npz", "two.npz"):
        npz.write(demos, tmp_path / name)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["one.npz", "two.npz"]


def test_writing_makes_the_folder_and_keeps_the_name(tmp_path: Path) -> None:
    npz.write(DEMOS, str(tmp_path / "deep" / "down" / "demos"))
    assert len(npz.read(tmp_path / "deep" / "down" / "demos")) == 2


def test_a_file_made_with_numpy_alone_is_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "plain.npz", states=OBSERVATIONS, lengths=np.array([1, 2]), returns=np.array([3.0, 4.0]))
    demos = npz.read(tmp_path / "plain.npz")
    assert demos.sources is None
    assert demos.observation_names is None
    assert demos.returns.tolist() == [3, 4]


def test_a_file_without_returns_holds_demonstrations_of_unknown_returns(tmp_path: Path) -> None:
    np.savez(tmp_path / "bare.npz", states=OBSERVATIONS, lengths=np.array([1, 2]))
    assert np.isnan(npz.read(tmp_path / "bare.npz").returns).tolist() == [True, True]
    npz.write(npz.read(tmp_path / "bare.npz"), tmp_path / "again.npz")
    with np.load(tmp_path / "again.npz") as arrays:
        assert sorted(arrays.files) == ["lengths", "states"], "nothing is written that is not known"
    npz.write(Demonstrations(OBSERVATIONS, [1, 2], [np.nan, 5.0]), tmp_path / "some.npz")
    assert npz.read(tmp_path / "some.npz").returns.tolist() == [pytest.approx(np.nan, nan_ok=True), 5.0]


def test_names_of_columns_are_read_and_written(tmp_path: Path) -> None:
    np.savez(tmp_path / "named.npz", states=OBSERVATIONS, lengths=np.array([1, 2]), observation_names=np.array(["x", "y"]))
    named = npz.read(tmp_path / "named.npz")
    assert named.observation_names == ("x", "y")
    npz.write(named.select([1]), tmp_path / "again.npz")
    assert npz.read(tmp_path / "again.npz").observation_names == ("x", "y")
    np.savez(tmp_path / "wrong.npz", states=OBSERVATIONS, lengths=np.array([1, 2]), observation_names=np.array(["x"]))
    with pytest.raises(ImitableError, match=r"wrong\.npz: there are 1 observation_names for 2 columns"):
        npz.read(tmp_path / "wrong.npz")


@given(demonstration_sets())
def test_arrays_describe_demonstrations_completely(demos: Demonstrations) -> None:
    made = npz.from_arrays(npz.to_arrays(demos))
    assert made.digest == demos.digest
    assert made.sources == demos.sources


def test_times_are_read_and_written(tmp_path: Path) -> None:
    np.savez(tmp_path / "timed.npz", states=OBSERVATIONS, lengths=np.array([1, 2]), times=np.arange(5))
    npz.write(npz.read(tmp_path / "timed.npz").select([1]), tmp_path / "again.npz")
    assert npz.read(tmp_path / "again.npz").times.tolist() == [2.0, 3.0, 4.0]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ImitableError, match=r"absent\.npz does not exist"):
        npz.read(tmp_path / "absent.npz")


@pytest.mark.parametrize("missing", ["states", "lengths"])
def test_a_missing_array_is_named(tmp_path: Path, missing: str) -> None:
    arrays = {"states": OBSERVATIONS, "lengths": np.array([1, 2]), "returns": np.zeros(2)}
    del arrays[missing]
    np.savez(tmp_path / "part.npz", **arrays)
    with pytest.raises(ImitableError, match=rf"part\.npz: there is no {missing};.*arrays states, lengths and optionally returns"):
        npz.read(tmp_path / "part.npz")


def _saved(tmp_path: Path) -> bytes:
    rng = np.random.default_rng(0)
    npz.write(Demonstrations(rng.standard_normal((200, 3)), [99, 99], [0, 0]), tmp_path / "good.npz")
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
        npz.read(path)


def test_every_cut_of_a_file_is_refused(tmp_path: Path) -> None:
    content, path = _saved(tmp_path), tmp_path / "cut.npz"
    for size in range(0, len(content), 97):
        path.write_bytes(content[:size])
        with pytest.raises(ImitableError, match=r"cut\.npz"):
            npz.read(path)


class Trap:
    """Sprung if anything unpickles it."""

    sprung = False

    def __reduce__(self):
        return _spring, ()


def _spring() -> None:
    Trap.sprung = True


@pytest.mark.parametrize("array", ["states", "sources", "observation_names", "extra"])
def test_pickled_content_is_refused_and_never_run(tmp_path: Path, array: str) -> None:
    arrays = {"states": OBSERVATIONS, "lengths": np.array([1, 2]), "returns": np.zeros(2)} | {
        array: np.array([Trap(), Trap()], dtype=object)
    }
    np.savez(tmp_path / "pickled.npz", **arrays)
    with pytest.raises(ImitableError, match=r"pickled\.npz.*none of them pickled"):
        npz.read(tmp_path / "pickled.npz")
    assert not Trap.sprung


def test_sources_may_be_bytes_but_are_one_for_each(tmp_path: Path) -> None:
    arrays = {"states": OBSERVATIONS, "lengths": np.array([1, 2]), "returns": np.zeros(2)}
    np.savez(tmp_path / "bytes.npz", **arrays, sources=np.array([b"Ann", b"Bo"]))
    assert npz.read(tmp_path / "bytes.npz").sources == ("Ann", "Bo")
    np.savez(tmp_path / "lone.npz", **arrays, sources="Ann")
    with pytest.raises(ImitableError, match=r"lone\.npz: sources has shape \(\); it needs a flat list of names"):
        npz.read(tmp_path / "lone.npz")


def test_a_pickle_and_a_lone_array_are_refused(tmp_path: Path) -> None:
    import pickle

    (tmp_path / "old.npz").write_bytes(pickle.dumps([{"state": [1, 2]}]))
    np.save(tmp_path / "lone.npy", OBSERVATIONS)
    for name in ("old.npz", "lone.npy"):
        with pytest.raises(ImitableError, match=name):
            npz.read(tmp_path / name)


def test_bad_content_of_a_good_file_is_refused_with_the_file_and_the_offender(tmp_path: Path) -> None:
    np.savez(tmp_path / "nan.npz", states=np.full((3, 2), np.nan), lengths=np.array([2]), returns=np.zeros(1))
    with pytest.raises(ImitableError, match=r"nan\.npz: demonstration 0 has nan in column 0 of observation 0 \(3 such rows"):
        npz.read(tmp_path / "nan.npz")
