"""Demonstrations from files and into files: one module per dataset format."""

from collections.abc import Callable, Sequence
from glob import glob
from importlib import import_module
from pathlib import Path

from imitable.demonstrations import Demonstrations, join
from imitable.errors import ImitableError
from imitable.store.files import reading

FORMATS = {
    ".npz": "npz",
    ".csv": "csv",
}
"""File suffix to the module that has `read(path) -> Demonstrations`, imported when such a file is read.

It may raise whatever it likes: whoever asks `read` below gets an `ImitableError` that names the file.
"""


def read(paths: Path | str | Sequence[Path | str], *, note: Callable[[str], None] = lambda text: None) -> Demonstrations:
    """The demonstrations of a file, of a folder of files, of a pattern such as `pile/*.npz`, or of several of them, one after the other.

    If several are given, demonstrations that do not say where they come from have the name of what they were read from as their source.
    `note` is told what cannot be checked.
    """
    given = [paths] if isinstance(paths, (str, Path)) else list(paths)
    if not given:
        raise ImitableError("there is nothing to read: no files were given")
    files = [(file, Path(path).name) for path in given for file in _files(path)]
    sets, unnamed = [], []
    for file, name in files:
        found = _read_file(file)
        unnamed += [file] if found.observation_names is None and found.width > 1 else []
        sets.append(found.with_sources((name,) * len(found)) if found.sources is None and len(given) > 1 else found)
        if found.width != sets[0].width:
            raise ImitableError(
                f"{file} has {found.width} columns, {files[0][0]} has {sets[0].width}; what is scored together needs the same columns"
            )
    if unnamed:
        more = f" and {len(unnamed) - 1} more files do" if len(unnamed) > 1 else " does"
        note(f"{unnamed[0]}{more} not name the columns, so that their order cannot be checked; give observation_names, or a header")
    return join(sets)


def _files(path: Path | str) -> list[Path]:
    """The file itself, what a folder holds, or what a pattern matches, in the order of their names."""
    if Path(path).is_dir():
        found = sorted(file for file in Path(path).rglob("*") if file.suffix.lower() in FORMATS)
        if not found:
            raise ImitableError(f"there is nothing to read: the folder {path} has no {' or '.join(FORMATS)} files")
        return found
    if Path(path).exists() or not set("*?[") & set(str(path)):
        return [Path(path)]
    if not (matches := sorted(glob(str(path), recursive=True))):
        raise ImitableError(f"there is nothing to read: no file matches {path}")
    return [Path(match) for match in matches]


def _read_file(path: Path) -> Demonstrations:
    if not path.exists():
        raise ImitableError(f"{path} does not exist")
    if (module := FORMATS.get(path.suffix.lower())) is None:
        raise ImitableError(f"{path} has the suffix {path.suffix!r}; demonstrations are read from {', '.join(FORMATS)}")
    reader = import_module(f"{__name__}.{module}")
    try:
        with reading(path):
            demonstrations: Demonstrations = reader.read(path)
    except ImitableError as error:
        if str(path) in str(error):
            raise
        raise ImitableError(f"{path}: {error}") from error
    return demonstrations
