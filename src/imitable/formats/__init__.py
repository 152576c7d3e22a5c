"""Demonstrations from files and into files: one module per dataset format."""

from collections.abc import Sequence
from glob import glob
from importlib import import_module
from pathlib import Path

from imitable.demonstrations import Demonstrations, join
from imitable.errors import ImitableError

FORMATS = {".npz": "npz"}
"""File suffix to the module that has `read(path) -> Demonstrations`, imported when such a file is read."""


def read(paths: Path | str | Sequence[Path | str]) -> Demonstrations:
    """The demonstrations of a file, of a pattern such as `pile/*.npz`, or of several of them, one after the other."""
    given = [paths] if isinstance(paths, (str, Path)) else list(paths)
    files = [file for path in given for file in _matches(path)]
    if not files:
        raise ImitableError("there is nothing to read: no files were given")
    return join([_read_file(file) for file in files]) if len(files) > 1 else _read_file(files[0])


def _matches(path: Path | str) -> list[Path]:
    """The file itself, or what a pattern matches, in the order of their names."""
    if Path(path).exists() or not set("*?[") & set(str(path)):
        return [Path(path)]
    if not (matches := sorted(glob(str(path), recursive=True))):
        raise ImitableError(f"there is nothing to read: no file matches {path}")
    return [Path(match) for match in matches]


def _read_file(path: Path) -> Demonstrations:
    if (module := FORMATS.get(path.suffix.lower())) is None:
        raise ImitableError(f"{path} has the suffix {path.suffix!r}; demonstrations are read from {', '.join(FORMATS)}")
    demonstrations: Demonstrations = import_module(f"{__name__}.{module}").read(path)
    return demonstrations
