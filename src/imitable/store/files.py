"""Reading files, and writing them so that an interruption leaves the old one or the new one, never half of one."""

import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from imitable.errors import ImitableError

UNREADABLE = (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, AttributeError, NotImplementedError)
"""What numpy raises on a damaged, foreign or pickled `.npz`."""


def write_atomically(path: Path, content: bytes) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            partial.write_bytes(content)
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise ImitableError(f"cannot write {path}: {error.strerror}; give another place") from error


def check_writable(path: Path) -> None:
    """Refuse, before any work is done, a place where no file can be written."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ImitableError(f"cannot write {path}: {'it is a folder' if path.is_dir() else f'{folder} is not a writable folder'}")


def write_json(path: Path, content: Any) -> None:
    write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())


@contextmanager
def json_lines(path: Path) -> Iterator[Callable[[Any], None]]:
    """Write what it is called with as one line of JSON each, on disk before the next: a log that survives whoever writes it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        raise ImitableError(f"cannot write {path}: {error.strerror}; give another place") from error
    with file:

        def write(content: Any) -> None:
            file.write(json.dumps(content) + "\n")
            file.flush()

        yield write


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """A `.npz` without pickles."""
    buffer = BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    write_atomically(path, buffer.getvalue())


def read_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a `.npz`, never unpickled; read whole, so that a damaged file is not left open."""
    raw = path.read_bytes()
    if not raw.startswith((b"PK", b"\x93NUMPY")):  # numpy would take it for a pickle, and advise to load that
        raise ValueError("it is no file of numpy's")
    content = np.load(BytesIO(raw), allow_pickle=False)
    if isinstance(content, np.ndarray):
        raise ValueError("it holds a lone array")
    with content as file:
        return {name: file[name] for name in file.files}


def write_table(path: Path, columns: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """A parquet file with these columns."""
    import pyarrow
    import pyarrow.parquet

    buffer = BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(dict(columns)), buffer)
    write_atomically(path, buffer.getvalue())


def read_table(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The columns of a parquet file."""
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowInvalid) as error:
        raise ImitableError(f"cannot read a table from {path}: {error}") from error
    return {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}
