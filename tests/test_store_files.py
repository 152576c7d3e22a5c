"""Files are whole or absent."""

from pathlib import Path

import numpy as np
import pytest

from imitable.errors import ImitableError
from imitable.store.files import check_writable, read_arrays, read_table, write_arrays, write_atomically, write_json, write_table


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
