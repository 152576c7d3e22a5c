"""Plain numpy archives: states, lengths and, where known, returns, sources, observation_names and times; nothing is ever pickled."""

from pathlib import Path
from typing import Any

import numpy as np

from imitable.arrays import Arrays
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.store.files import UnreadableError, array_bytes, read_arrays, write_atomically

EXPECTED = "expected a .npz with arrays states, lengths and optionally returns, sources, observation_names and times"


def write(demonstrations: Demonstrations, path: Path | str, *, compressed: bool = True) -> None:
    """Write all that is known of the demonstrations."""
    write_atomically(Path(path), array_bytes(to_arrays(demonstrations), compressed=compressed))


def read(path: Path | str) -> Demonstrations:
    """Read such a file; errors name it."""
    if not Path(path).exists():
        raise ImitableError(f"{path} does not exist")
    try:
        arrays = read_arrays(Path(path))
    except UnreadableError as error:
        raise ImitableError(f"{error}; {EXPECTED}, none of them pickled") from error
    for array in arrays.values():
        array.flags.writeable = False  # so that they need not be copied
    try:
        return from_arrays(arrays)
    except ImitableError as error:
        raise ImitableError(f"{path}: {error}") from error


def to_arrays(demonstrations: Demonstrations) -> Arrays:
    arrays: Arrays = {"states": demonstrations.observations, "lengths": demonstrations.lengths}
    if np.isfinite(demonstrations.returns).any():
        arrays["returns"] = demonstrations.returns
    if demonstrations.times is not None:
        arrays["times"] = demonstrations.times
    labels = {"sources": demonstrations.sources, "observation_names": demonstrations.observation_names}
    return arrays | {name: np.array(values) for name, values in labels.items() if values is not None}


def from_arrays(arrays: Arrays) -> Demonstrations:
    """The demonstrations that `to_arrays` described."""
    if missing := [name for name in ("states", "lengths") if name not in arrays]:
        raise ImitableError(f"there is no {' and no '.join(missing)}; {EXPECTED}")
    return Demonstrations(
        arrays["states"],
        arrays["lengths"],
        arrays.get("returns"),  # type: ignore[arg-type]  # None: not known
        sources=_labels("sources", arrays.get("sources")),
        observation_names=_labels("observation_names", arrays.get("observation_names")),
        times=arrays.get("times"),
    )


def _labels(name: str, labels: np.ndarray[Any, Any] | None) -> tuple[str, ...] | None:
    if labels is None:
        return None
    if labels.ndim != 1:
        raise ImitableError(f"{name} has shape {labels.shape}; it needs a flat list of names")
    if labels.dtype.kind == "S":
        try:
            labels = np.char.decode(labels, "utf-8")
        except UnicodeError as error:
            raise ImitableError(f"{name} are no text in UTF-8 ({error})") from error
    try:
        return tuple(str(label) for label in labels)
    except ValueError as error:  # numbers that are no characters
        raise ImitableError(f"{name} are no text ({error})") from error
