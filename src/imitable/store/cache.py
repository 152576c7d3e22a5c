"""What takes minutes to make and was made before, on disk, named by all that decides it.

Entries are in a folder of the user's cache, or in the one that IMITABLE_CACHE names, and can be deleted at any time.
"""

import dataclasses
import inspect
import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from imitable.arrays import Arrays
from imitable.demonstrations import Demonstrations
from imitable.errors import LATER, ImitableError
from imitable.store.files import UnreadableError, read_arrays, remove_leftovers, write_arrays

FOLDER, CAP = "IMITABLE_CACHE", "IMITABLE_CACHE_GB"
"""Environment variables: where entries are kept, ~/.cache/imitable where unset; how many gigabytes they may take, 20 where unset."""


class CannotDescribeError(ImitableError):
    """An object that does not say of itself what its behavior depends on."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A part that was kept."""

    path: Path
    part: str
    bytes: int
    last_used: float  # seconds since the epoch


@dataclasses.dataclass(frozen=True)
class Cache:
    """Calling it gives a part: from disk if the same recipe made one before, else made and kept."""

    folder: Path
    max_bytes: float = 20e9

    def __call__(self, part: str, recipe: Mapping[str, object], make: Callable[[], Arrays]) -> Arrays:
        try:
            content = json.dumps({"part": part, "recipe": describe(recipe), "versions": versions()})
        except CannotDescribeError as error:
            warnings.warn(f"the {part} of this robot is not kept for the next time: {error}", stacklevel=2)
            return make()
        path = self.folder / f"{part.replace(' ', '-')}.{sha256(content.encode()).hexdigest()}.npz"
        with suppress(UnreadableError):  # absent, or damaged: made anew
            found = read_arrays(path)
            with suppress(OSError):  # a place that may only be read
                os.utime(path)
            return found
        made = make()
        with suppress(ImitableError):  # nowhere to keep it: no loss but time
            write_arrays(path, made)
            self.evict(spare=path)
        return made

    def entries(self) -> list[Entry]:
        """The least recently used first."""
        found = []
        for path in self.folder.glob("*.npz"):
            with suppress(FileNotFoundError):  # another process may have evicted it
                status = path.stat()
                found.append(Entry(path, path.name.split(".")[0].replace("-", " "), status.st_size, status.st_mtime))
        return sorted(found, key=lambda entry: entry.last_used)

    def evict(self, *, spare: Path | None = None) -> int:
        """Delete the least recently used entries until the rest is within the cap; how many."""
        with suppress(OSError):
            remove_leftovers(self.folder)
        entries = self.entries()
        total, evicted = sum(entry.bytes for entry in entries), 0
        for entry in entries:
            if total <= self.max_bytes:
                break
            if entry.path != spare:
                entry.path.unlink(missing_ok=True)
                total, evicted = total - entry.bytes, evicted + 1
        return evicted

    def clear(self) -> list[Entry]:
        """Delete all entries."""
        entries = self.entries()
        for entry in entries:
            entry.path.unlink(missing_ok=True)
        return entries


def default_cache() -> Cache:
    """The user's."""
    folder = Path(os.environ.get(FOLDER) or Path.home() / ".cache" / "imitable")
    given = os.environ.get(CAP) or "20"
    try:
        gigabytes = float(given)
    except ValueError:
        gigabytes = -1.0
    if not gigabytes >= 0:
        raise ImitableError(f"{CAP} is {given!r}; it must be a number of gigabytes from 0 on")
    return Cache(folder, gigabytes * 1e9)


def describe(value: Any) -> Any:
    """All that an object's behavior depends on, as plain JSON values.

    A dataclass is its class and its fields, anything else what its `cache_key()` says. A class of the package has a `version` where
    its numbers may change; of a user's class the source file counts, and those of its bases, so that an edit is noticed.
    """
    if value is None or isinstance(value, (str, int, float, bool)):
        return value if not isinstance(value, float) or np.isfinite(value) else str(value)
    if isinstance(value, Demonstrations):
        return value.digest
    if isinstance(value, np.random.Generator):
        return describe(value.bit_generator.state)
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        if array.size <= 1000:
            return array.tolist()
        return f"{array.dtype.str} {array.shape} {sha256(np.ascontiguousarray(array).data).hexdigest()}"
    if isinstance(value, Path):
        return _file(value)
    if isinstance(value, Mapping):
        return {str(name): describe(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [describe(each) for each in value]
    kind = value if inspect.isfunction(value) or isinstance(value, type) else type(value)
    own = {"kind": f"{kind.__module__}.{kind.__qualname__}", **_code(kind)}
    if hasattr(value, "cache_key") and not isinstance(value, type):
        return {**own, "key": describe(value.cache_key())}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {each.name: each for each in dataclasses.fields(value)}
        values = {name: getattr(value, name) for name in fields}
        absent = {name for name, each in fields.items() if each.metadata == LATER and values[name] == each.default}
        return {**own, **{name: _field(value) for name, value in values.items() if name not in absent}}
    if inspect.isfunction(value) or isinstance(value, type):
        return own
    raise CannotDescribeError(
        f"a {kind.__qualname__} does not say what its behavior depends on; make it a frozen dataclass, or give it a method cache_key()"
    )


def described(value: object) -> Any:
    """`describe`, or the name of the class of what cannot be described: for a run's config, which must not fail."""
    try:
        return describe(value)
    except CannotDescribeError:
        return f"{type(value).__module__}.{type(value).__qualname__}"


def _field(value: Any) -> Any:
    """A field that names a file, such as a model, stands for what is in the file."""
    return _file(Path(value)) if isinstance(value, str) and Path(value).suffix else describe(value)


def _file(path: Path) -> str:
    with suppress(OSError, ValueError):  # such as a name that is too long for one
        if path.is_file():
            return f"{path} {sha256(path.read_bytes()).hexdigest()}"
    return str(path)


def _code(kind: Any) -> dict[str, Any]:
    """What stands for the code of a class or a function: its version, or the source file of one that is not ours, and its bases."""
    if "<" in kind.__qualname__:  # such as <locals> or <lambda>
        raise CannotDescribeError(f"{kind.__qualname__} may depend on variables around it; put it into a module")
    if kind.__module__.split(".")[0] == "imitable":
        return {"version": kind.version} if hasattr(kind, "version") else {}
    bases = [base for base in getattr(kind, "__bases__", ()) if base.__module__ not in ("builtins", "typing")]
    try:
        return {"source": sha256(Path(inspect.getfile(kind)).read_bytes()).hexdigest(), "bases": [describe(base) for base in bases]}
    except (OSError, TypeError) as error:
        raise CannotDescribeError(f"the source of {kind.__qualname__} cannot be read ({error}); put it into a module") from error


@cache
def versions() -> dict[str, str]:
    """What all numbers depend on."""
    return {"python": platform.python_version(), **{name: version(name) for name in ("numpy", "scipy", "torch", "mujoco")}}


def age(entry: Entry) -> str:
    """How long an entry has not been used."""
    hours = (time.time() - entry.last_used) / 3600
    return f"{hours:.0f} h" if hours < 48 else f"{hours / 24:.0f} d"
