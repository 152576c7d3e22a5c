"""Files are whole or absent."""

import os
import re
import signal
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from imitable.errors import ImitableError
from imitable.store.files import (
    UnreadableError,
    check_writable,
    read_arrays,
    read_bytes,
    read_json,
    read_table,
    remove_leftovers,
    write_arrays,
    write_atomically,
    write_json,
    write_table,
    write_together,
)


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    arrays = {"numbers": np.array([1.5, np.nan]), "names": np.array(["a", "bc"]), "flags": np.array(True)}
    write_arrays(tmp_path / "deep" / "arrays.npz", arrays)
    found = read_arrays(tmp_path / "deep" / "arrays.npz")
    assert found.keys() == arrays.keys()
    assert all(np.array_equal(found[name], arrays[name], equal_nan=name == "numbers") for name in arrays)
    assert all(found[name].dtype == arrays[name].dtype for name in arrays)


def test_a_table_keeps_its_columns_and_their_order(tmp_path: Path) -> None:
    table = {"weight": np.array([0.5, 0.25]), "source": np.array(["optimal", "other"]), "length": np.array([3, 4])}
    write_table(tmp_path / "scores.parquet", table)
    found = read_table(tmp_path / "scores.parquet")
    assert list(found) == list(table)
    assert all(found[name].tolist() == table[name].tolist() for name in table)


@pytest.mark.parametrize("name", ["bad.parquet", "absent.parquet"])
def test_a_file_that_is_no_table_is_refused_by_name(tmp_path: Path, name: str) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"nothing")
    with pytest.raises(ImitableError, match=name):
        read_table(tmp_path / name)


def test_nothing_is_pickled_or_unpickled(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        write_arrays(tmp_path / "objects.npz", {"objects": np.array([{}], dtype=object)})
    assert not list(tmp_path.iterdir())
    np.savez(tmp_path / "objects.npz", objects=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="Object arrays cannot be loaded"):
        read_arrays(tmp_path / "objects.npz")


def test_an_interrupted_write_leaves_the_old_file_and_no_scraps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.json"
    write_json(path, {"old": 1})

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_json(path, {"new": 2})
    assert path.read_text() == '{\n "old": 1\n}\n'
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    for refuse in (check_writable, lambda path: write_atomically(path, b"")):
        with pytest.raises(ImitableError, match=r"cannot write .*notes"):
            refuse(tmp_path / "notes" / "file")
    with pytest.raises(ImitableError, match="it is a folder"):
        check_writable(tmp_path)
    assert (tmp_path / "notes").read_text() == "mine"


# Writing


def test_a_file_is_never_seen_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    synced, sync = [], os.fdatasync

    def look(descriptor: int) -> None:
        assert path.read_bytes() == b"old", "the file was written in place"
        synced.append(os.fstat(descriptor).st_size)
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", look)
    write_atomically(path, b"a new one")
    assert (path.read_bytes(), synced) == (b"a new one", [9]), "what is renamed must be on the disk before"


def test_a_new_name_is_on_the_disk_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, synced, sync = tmp_path / "file", [], os.fsync

    def look(descriptor: int) -> None:
        if os.path.samestat(os.fstat(descriptor), tmp_path.stat()):
            synced.append(path.read_bytes())
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", look)
    write_atomically(path, b"whole")
    assert synced == [b"whole"], "the folder waits for the disk after the file has its name"


def test_files_written_together_appear_in_their_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names, replace = [], Path.replace
    monkeypatch.setattr(Path, "replace", lambda self, target: (names.append(target.name), replace(self, target)))
    write_together({tmp_path / "b": b"1", tmp_path / "a": b"2", tmp_path / "c": b"3"})
    assert names == ["b", "a", "c"]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"b": b"1", "a": b"2", "c": b"3"}


def test_leftovers_of_dead_processes_go_and_those_of_live_ones_stay(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-S", "-E", "-c", ""])
    dead.wait()
    for owner in (dead.pid, os.getppid()):
        (tmp_path / f".file.{owner}.partial").write_bytes(b"half")
    (tmp_path / f".other.{dead.pid}.partial").write_bytes(b"half")
    (tmp_path / ".mine.partial").write_bytes(b"not ours")
    write_atomically(tmp_path / "file", b"whole")
    kept = {f".file.{os.getppid()}.partial", f".other.{dead.pid}.partial", ".mine.partial", "file"}
    assert {path.name for path in tmp_path.iterdir()} == kept
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == kept - {f".other.{dead.pid}.partial"}


# Reading


def saved(tmp_path: Path, *, packed: bool = False, **arrays: np.ndarray) -> Path:
    path = tmp_path / "arrays.npz"
    (np.savez_compressed if packed else np.savez)(path, **arrays)
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_any_type_and_order_is_read_as_numpy_reads_it(tmp_path: Path, packed: bool) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        "turned": np.asfortranarray(rng.standard_normal((3, 4, 5))),
        "big": rng.standard_normal((3, 2)).astype(">f4"),
        "none": np.zeros((0, 3)),
        "one": np.array(2.5),
        "flags": rng.random(9) > 0.5,
        "bytes": np.array([b"ab", b"c"]),
        "words": np.array(["ä", "bcd"]),
        "small": np.arange(5, dtype=np.uint8),
        "complex": np.array([1j]),
        "sliced": rng.standard_normal((4, 6))[:, ::2],
    }
    path = saved(tmp_path, packed=packed, **arrays)
    with np.load(path) as expected:
        found = read_arrays(path)
        assert list(found) == expected.files
        for name in expected.files:
            assert found[name].dtype == expected[name].dtype
            assert np.array_equal(found[name], expected[name])


def test_one_byte_of_a_header_is_noticed(tmp_path: Path) -> None:
    path = saved(tmp_path, states=np.arange(4000.0))
    whole = path.read_bytes()
    assert whole.count(b"<f8") == 1
    path.write_bytes(whole.replace(b"'<f8'", b"'<f4'"))
    with pytest.raises(UnreadableError, match=r"float32 of shape \(4000,\) takes 16000 bytes, but 32128 are there"):
        read_arrays(path)
    path.write_bytes(whole.replace(b"'<f8'", b"'<f4'").replace(b"(4000,)", b"(8000,)"))
    with pytest.raises(UnreadableError, match=r"arrays\.npz: array 'states': its checksum does not fit"):
        read_arrays(path)


@pytest.mark.parametrize("packed", [False, True])
def test_one_changed_number_is_noticed_whatever_its_place(tmp_path: Path, packed: bool) -> None:
    path = saved(tmp_path, packed=packed, states=np.random.default_rng(0).standard_normal(4000))
    whole = path.read_bytes()
    for place in (200, 5000, len(whole) // 2, len(whole) - 200):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(UnreadableError, match=r"arrays\.npz"):
            read_arrays(path)


def archive(tmp_path: Path, header: str, data: bytes = b"", *, packing: int = zipfile.ZIP_STORED) -> Path:
    """An archive with an array of this header."""
    line = header.encode().ljust(117) + b"\n"
    with zipfile.ZipFile(tmp_path / "hostile.npz", "w", packing) as file:
        file.writestr("states.npy", b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line + data)
    return tmp_path / "hostile.npz"


def header(descr: str = "<f8", shape: str = "(2,)") -> str:
    return f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"


@pytest.mark.parametrize(
    ("content", "data", "reason"),
    [
        (header(shape="(1000000000000,)"), b"12345678", "takes 8000000000000 bytes, but 136 are there"),
        (header(shape="(4611686018427387904, 4)"), b"", "bytes, but 128 are there"),
        (header(shape="(1000000000000000, 0)"), b"", "MB, more than 50 times its size"),
        (header("|S0", "(1000000000000,)"), b"", "neither numbers nor text"),
        (header("|O"), b"12345678", "pickled"),
        (header("<M8[s]"), b"1234567812345678", "neither numbers nor text"),
        (header("<f3"), b"123456", "f3"),
        (header(shape="(2, -1)"), b"", "header is not numpy's"),
        ("{'descr': __import__('os'), 'fortran_order': False, 'shape': (2,)}", b"", "header is not numpy's"),
        ("(" * 100, b"", "header is not numpy's"),
        (header(), b"1234567812345678more", "takes 16 bytes, but 148 are there"),
    ],
)
def test_what_an_array_declares_is_checked_before_memory_is_taken(tmp_path: Path, content: str, data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableError, match=rf"hostile\.npz: (array 'states': )?.*{re.escape(reason)}"):
        read_arrays(archive(tmp_path, content, data))


def test_what_unpacks_to_far_more_than_its_size_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path, header("|i1", "(30000000,)"), bytes(30_000_000), packing=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 50_000
    with pytest.raises(UnreadableError, match=r"unpacks to 240 MB, more than 50 times its size in the file; write it unpacked"):
        read_arrays(path)


def test_two_arrays_of_one_name_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "twice.npz", "w") as file:
        file.writestr("states.npy", b"")
        with pytest.warns(UserWarning, match="Duplicate name"):
            file.writestr("states.npy", b"")
    with pytest.raises(UnreadableError, match="two arrays of one name"):
        read_arrays(tmp_path / "twice.npz")


@pytest.fixture
def no_patience() -> Iterator[None]:
    """What waits for ever fails after two seconds."""

    def fail(*_: object) -> None:
        raise AssertionError("it waits")

    before = signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, 2.0, 2.0)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("no_patience")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UnreadableError, match="it is no regular file"):
        read_bytes(tmp_path / "pipe", limit=10)


def test_pipes_devices_folders_and_loops_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero"), tmp_path / "loop", tmp_path / "absent"):
        for read in (read_arrays, read_table, read_json):
            with pytest.raises(UnreadableError, match=re.escape(str(path))):
                read(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1]", b"null", b"3", b'"text"', b"\xff\xfe", b"[" * 100_000, b'{"a": ' * 100_000],
    ids=lambda content: content[:9],
)
def test_json_of_another_kind_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.json").write_bytes(content)
    with pytest.raises(UnreadableError, match=r"bad\.json"):
        read_json(tmp_path / "bad.json")


def test_a_file_larger_than_its_kind_can_be_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(UnreadableError, match="it has 1000000000000 bytes, more than the 20000000 that such a file may have"):
        read_json(tmp_path / "huge.json")


def test_lists_of_nothing_are_refused_before_they_take_memory(tmp_path: Path) -> None:
    (tmp_path / "lists.json").write_bytes(b"[" + b"[]," * 3_000_000 + b"[]]")
    with pytest.raises(UnreadableError, match="its 9000004 bytes hold too many values"):
        read_json(tmp_path / "lists.json", list)


def test_a_directory_that_lists_other_arrays_than_there_are_is_noticed(tmp_path: Path) -> None:
    path = saved(tmp_path, one=np.arange(3.0), two=np.arange(3.0))
    whole = path.read_bytes()
    entry = whole.index(b"PK\x01\x02")
    swallowing = bytearray(whole)
    swallowing[entry + 32 : entry + 34] = (whole.rindex(b"PK\x05\x06") - entry - 46 - len("one.npy")).to_bytes(2, "little")  # as a comment
    empty = whole[:-22] + b"PK\x05\x06" + bytes(18)
    for damaged in (bytes(swallowing), empty):
        path.write_bytes(damaged)
        with pytest.raises(UnreadableError, match=r"its directory lists [01] arrays, which is not what it holds"):
            read_arrays(path)
    write_arrays(path, {})
    assert read_arrays(path) == {}


def test_a_table_whose_columns_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    write_table(path, {"weight": np.array([0.125, 0.25]), "source": np.array(["optimal", "optimal"])})
    whole = path.read_bytes()
    for place in [number for number in range(len(whole)) if whole[number : number + 7] == b"optimal"][:1]:
        path.write_bytes(whole[:place] + b"0" + whole[place + 1 :])
        with pytest.raises(UnreadableError, match=r"scores\.parquet: its columns have changed|scores\.parquet"):
            read_table(path)


def test_a_table_of_one_long_word_repeated_takes_its_room_once(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    words = pyarrow.array(["x" * 1_000_000] * 1000).dictionary_encode()
    pyarrow.parquet.write_table(pyarrow.table({"source": words}), tmp_path / "words.parquet")
    tracemalloc.start()
    found = read_table(tmp_path / "words.parquet")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found["source"]) == 1000
    assert peak < 50e6
