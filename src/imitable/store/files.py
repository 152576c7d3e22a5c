"""Reading and writing files. What is written is whole or absent, on the disk and not only in memory; what is read is a regular file
of a bounded size, checked to its last byte before anyone sees it.
"""

import json
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from imitable.errors import ImitableError

LARGEST_JSON, JSON_MEMORY = 20_000_000, 150_000_000
"""Bytes of a file, and of what is in it: a list of nothing takes twenty times as much in memory."""
SMALL, LARGEST_RATIO = 64_000_000, 50
"""What a packed file may unpack to: this many bytes, and this many times its own size. Packed numbers shrink by 2 to 20."""


class UnreadableError(ImitableError):
    """A file that is damaged, foreign, or larger than it may be."""


# Writing


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that an interruption, or a failing disk, leaves the old one or the new one."""
    write_together({path: content})


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write files of one folder, each whole or absent; they appear in this order. The disk is waited for once, not for each of them."""
    partials = {path: path.with_name(f".{path.name}.{os.getpid()}.partial") for path in contents}
    path = next(iter(contents))
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder, [path.name for path in contents])
        try:
            with ExitStack() as stack:
                files = []
                for path, content in contents.items():
                    files.append(stack.enter_context(open(partials[path], "wb")))
                    files[-1].write(content)
                    files[-1].flush()
                _sync(*(file.fileno() for file in files))
            for path, partial in partials.items():
                partial.replace(path)
        finally:
            for partial in partials.values():
                partial.unlink(missing_ok=True)
        _sync_folder(folder)
    except OSError as error:
        raise ImitableError(f"cannot write {path}: {error.strerror}; give another place") from error


def _sync(*descriptors: int) -> None:
    """Wait until they are on the disk: all at once, so that a journal is written once for all of them."""
    sync = getattr(os, "fdatasync", os.fsync)
    if len(descriptors) == 1:
        sync(*descriptors)
        return
    with ThreadPoolExecutor(len(descriptors)) as threads:
        list(threads.map(sync, descriptors))


def _sync_folder(folder: Path) -> None:
    """So that a renamed file keeps its name when the power fails."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems cannot
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(folder: Path, names: Collection[str] | None = None) -> None:
    """Remove what processes that were killed had begun to write, of these files or of all; those that still run keep theirs."""
    for leftover in folder.glob(".*.partial"):
        name, _, owner = leftover.name[1:].removesuffix(".partial").rpartition(".")
        if (names is None or name in names) and owner.isdecimal() and not _runs(int(owner)):
            leftover.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's
        return True
    return True


def remove(path: Path) -> None:
    """Remove a file, if it is there."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise ImitableError(f"cannot remove {path}: {error.strerror}") from error


def check_writable(path: Path, *, overwrite: bool = True) -> None:
    """Refuse, before any work is done, a place where no file can be written, or where one is that must not be replaced."""
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ImitableError(f"cannot write {path}: {'it is a folder' if path.is_dir() else f'{folder} is not a writable folder'}")
    if path.exists() and not overwrite:
        raise ImitableError(f"{path} is there already; give another place, or --overwrite to replace it")


def write_json(path: Path, content: Any) -> None:
    write_atomically(path, json_bytes(content))


def json_bytes(content: Any) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode()


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    write_atomically(path, array_bytes(arrays))


def array_bytes(arrays: Mapping[str, np.ndarray[Any, Any]], *, compressed: bool = False) -> bytes:
    """A `.npz` without pickles."""
    buffer = BytesIO()
    (np.savez_compressed if compressed else np.savez)(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def write_table(path: Path, columns: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """A parquet file with these columns, and a hash of them."""
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table(dict(columns))
    buffer = BytesIO()
    pyarrow.parquet.write_table(table.replace_schema_metadata({"sha256": _table_digest(table)}), buffer)
    write_atomically(path, buffer.getvalue())


# Reading


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Whatever goes wrong in here is an `UnreadableError` that names the file."""
    try:
        yield
    except ImitableError:
        raise
    except FileNotFoundError:
        raise UnreadableError(f"{path} does not exist") from None
    except Exception as error:  # parsers of foreign bytes raise whatever they like, from SyntaxError to MemoryError
        text = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        known = isinstance(error, (ValueError, OSError)) and text
        raise UnreadableError(f"cannot read {path}: {text if known else f'{type(error).__name__} {text}'.strip()}") from error


@contextmanager
def opened(path: Path, *, limit: float = np.inf) -> Iterator[tuple[BinaryIO, int]]:
    """A regular file and its size, for `reading`."""
    with reading(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # so that a pipe does not wait for a writer
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ValueError("it is no regular file")
            if status.st_size > limit:
                raise ValueError(f"it has {status.st_size} bytes, more than the {limit:.0f} that such a file may have")
            yield file, status.st_size


def read_bytes(path: Path, *, limit: int) -> bytes:
    with opened(path, limit=limit) as (file, size):
        content = file.read(size + 1)
        if len(content) != size:
            raise ValueError("it changes while it is read")
        return content


def read_json(path: Path, kind: type = dict) -> Any:
    """The content of a JSON file, which must be of this kind."""
    with reading(path):
        content = read_bytes(path, limit=LARGEST_JSON)
        if 72 * (content.count(b"[") + content.count(b"{")) + 40 * content.count(b",") > JSON_MEMORY:
            raise ValueError(f"its {len(content)} bytes hold too many values")
        found = json.loads(content)
        if not isinstance(found, kind):
            raise ValueError(f"it holds a {type(found).__name__}, not a {kind.__name__}")
        return found


def read_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a `.npz`, never unpickled; every size is checked before memory is taken, every checksum after reading."""
    with opened(path) as (file, size):
        start = file.read(6)
        if start.startswith(b"\x93NUMPY"):
            raise ValueError("it holds a lone array")
        if not start.startswith(b"PK"):  # numpy would take it for a pickle, and advise to load that
            raise ValueError("it is no file of numpy's")
        file.seek(-min(size, 22), os.SEEK_END)
        end = file.read()
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if (
                end[:4] != b"PK\5\6" or int.from_bytes(end[10:12], "little") not in (len(members), 0xFFFF) or (not members and size > 22)
            ):  # 0xFFFF: more than it can say
                raise ValueError(f"its directory lists {len(members)} arrays, which is not what it holds")
            if len({member.filename for member in members}) != len(members):
                raise ValueError("it holds two arrays of one name")
            budget = SMALL + LARGEST_RATIO * size
            arrays = {}
            for member in members:
                name = member.filename.removesuffix(".npy")
                if member.header_offset + member.compress_size > size:
                    raise ValueError(f"array {name[:100]!r} lies beyond its end")
                try:
                    arrays[name] = _read_member(archive, member, budget)
                except ValueError as error:
                    raise ValueError(f"array {name[:100]!r}: {error}") from error
                budget -= 8 * arrays[name].size
            return arrays


HEADER = re.compile(r"\{(?=.*'descr': ?'([^']*)')(?=.*'fortran_order': ?(True|False))(?=.*'shape': ?\(([\d, ]*)\))[^{}]*\}\s*", re.S)
LARGEST_HEADER = 10_000  # bytes
KINDS = re.compile(r"([<>|=]?)([?biufcSU])(\d*)")


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, budget: int) -> np.ndarray[Any, Any]:
    packed = member.compress_type != zipfile.ZIP_STORED
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or (not packed and member.file_size != member.compress_size):
        raise ValueError(f"its packing, {member.compress_type}, is not numpy's")
    with archive.open(member) as stream:
        start = stream.read(10)
        if start[:6] != b"\x93NUMPY" or start[6:7] not in (b"\x01", b"\x02", b"\x03"):
            raise ValueError("it is no array of numpy's")
        start += b"" if start[6] == 1 else stream.read(2)
        length = int.from_bytes(start[8:], "little")
        header = stream.read(min(length, LARGEST_HEADER))
        dtype, fortran, shape = _parse_header(header)
        data = prod(shape) * dtype.itemsize
        if len(start) + length + data != member.file_size:
            raise ValueError(f"{dtype} of shape {shape} takes {data} bytes, but {member.file_size} are there")
        needed = prod(max(side, 1) for side in shape) * max(dtype.itemsize, 8)  # numbers become 8 bytes each
        if needed > (budget if packed else max(budget, needed if data else 0)):
            raise ValueError(
                f"it unpacks to {needed / 1e6:.0f} MB, more than {LARGEST_RATIO} times its size in the file; write it unpacked, by np.savez"
            )
        array = np.empty(shape, dtype, order="F" if fortran else "C")
        target = (array.T if fortran else array).reshape(-1).view(np.uint8).data if data else memoryview(bytearray())
        if packed:
            _fill(target, stream)
            if stream.read(1):  # to the very end: that is where the checksum is compared
                raise ValueError("it goes on after its end")
        else:  # straight into place, and all of it checked at once
            file: Any = archive.fp
            file.seek(member.header_offset + 26)
            name_length, extra_length = struct.unpack("<HH", file.read(4))
            file.seek(name_length + extra_length + member.file_size - data, os.SEEK_CUR)
            _fill(target, file)
            if zlib.crc32(target, zlib.crc32(start + header)) != member.CRC:
                raise ValueError("its checksum does not fit")
    return array


def _fill(target: memoryview, source: Any) -> None:
    filled = 0
    while filled < len(target):
        if not (count := source.readinto(target[filled : filled + (1 << 24)])):
            raise ValueError("it ends too early")
        filled += count


def _parse_header(header: bytes) -> tuple[np.dtype[Any], bool, tuple[int, ...]]:
    """Type, order and shape of an array, as numpy writes them; nothing is evaluated."""
    if (found := HEADER.fullmatch(header.decode("latin1"))) is None:
        raise ValueError(f"its header is not numpy's: {header[:100]!r}")
    kind, fortran, sides = found.groups()
    if "O" in kind:
        raise ValueError("Object arrays cannot be loaded: they are pickled")
    if (parts := KINDS.fullmatch(kind)) is None or len(parts[3]) > 9 or (parts[3] in ("", "0") and parts[2] != "?"):
        raise ValueError(f"its type {kind[:100]!r} is neither numbers nor text")
    return np.dtype(kind), fortran == "True", tuple(int(side) for side in sides.split(",") if side.strip())


def read_table(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The columns of a parquet file."""
    import pyarrow
    import pyarrow.parquet

    content = read_bytes(path, limit=2_000_000_000)
    with reading(path):
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content))
        rows, columns = file.metadata.num_rows, file.schema_arrow
        if not 0 <= rows * max(len(columns), 1) * 8 <= SMALL + LARGEST_RATIO * len(content):
            raise ValueError(f"{rows} rows of {len(columns)} columns do not fit a file of {len(content)} bytes")
        words = [field.name for field in columns if pyarrow.types.is_string(field.type)]
        table = pyarrow.parquet.read_table(pyarrow.BufferReader(content), use_threads=False, read_dictionary=words)
        table.validate(full=True)
        digest = (table.schema.metadata or {}).get(b"sha256")
        if digest is not None and digest.decode() != _table_digest(table):
            raise ValueError("its columns have changed since it was written")
        return {name: _column(table[name]) for name in table.column_names}


def _column(column: Any) -> np.ndarray[Any, Any]:
    """Words are shared among rows: a word that is repeated takes its room once."""
    import pyarrow

    whole = column.combine_chunks()
    if not pyarrow.types.is_dictionary(whole.type):
        return whole.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    words = np.array([*whole.dictionary.to_pylist(), None], dtype=object)
    return words[whole.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False)]  # type: ignore[no-any-return]


def _table_digest(table: Any) -> str:
    """A hash of names, types and values."""
    seen = sha256()
    for name in table.column_names:
        values = _column(table[name])
        data = json.dumps(values.tolist()).encode() if values.dtype == object else np.ascontiguousarray(values).data
        seen.update(f"{name} {values.dtype.str} {values.shape} ".encode())
        seen.update(data)
    return seen.hexdigest()
