"""Comma-separated text with a header, one row per observation; `write` shows the layout.

A column `demonstration` or `episode` says which rows belong together, which must stand one after the other; without it a file is one
demonstration. Optional columns are `return` (the same in all rows of a demonstration), or `reward`, which is added up (blank in its first
or last row at most: there is one more observation than there are steps), and `source`. `time` or `timestamp` (in seconds) and `step` are
only checked, `timestep` and `action...` not even read. All others are observations, named as the robot names them. A file without a header
holds one demonstration in the robot's columns.
"""

import csv
from collections import Counter
from collections.abc import Iterable
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np

from imitable.arrays import Array, Integers
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.store.files import read_bytes, write_atomically

LARGEST, MOST_COLUMNS = 4_000_000_000, 10_000
"""Bytes, and columns: each takes 10 kB of memory while it is read, however short it is."""
NUMBERS = ("demonstration", "episode")
TIMES = ("time", "timestamp")
UNREAD_NUMBERS = (
    "demo",
    "traj",
    "trajectory",
    "rollout",
    "demonstration_id",
    "episode_id",
    "episode_index",
    "demo_id",
    "traj_id",
    "trajectory_id",
)
"""Names of a demonstration's number that are common elsewhere; as an observation, none is likely."""
LABELS = (*NUMBERS, *TIMES, "step", "timestep", "return", "reward", "source")


def read(path: Path | str) -> Demonstrations:
    """Read such a file; errors name the line."""
    columns, has_header = _columns(Path(path))
    return _demonstrations(columns, has_header=has_header)


def write(demonstrations: Demonstrations, path: Path | str) -> None:
    """Write all that is known of the demonstrations."""
    import pyarrow
    import pyarrow.csv

    names = demonstrations.observation_names or tuple(f"observation {column}" for column in range(demonstrations.width))
    rows = demonstrations.lengths + 1
    columns: dict[str, Any] = {"demonstration": np.repeat(np.arange(len(demonstrations)), rows)}
    columns |= {name: demonstrations.observations[:, column] for column, name in enumerate(names)}
    if np.isfinite(demonstrations.returns).any():
        columns["return"] = pyarrow.array(np.repeat(demonstrations.returns, rows), from_pandas=True)
    if demonstrations.sources is not None:
        columns["source"] = np.repeat(np.array(demonstrations.sources), rows)
    if demonstrations.times is not None:
        columns["time"] = pyarrow.array(demonstrations.times, from_pandas=True)
    buffer = BytesIO()
    pyarrow.csv.write_csv(pyarrow.table(columns), buffer)
    write_atomically(Path(path), buffer.getvalue())


def _columns(path: Path) -> tuple[dict[str, Any], bool]:
    """Arrow columns by name, and whether these are the file's own names."""
    import pyarrow
    import pyarrow.csv

    content = read_bytes(path, limit=LARGEST)
    lines = TextIOWrapper(BytesIO(content), "utf-8-sig", errors="replace", newline="")
    first = next((cells for cells in csv.reader(lines) if cells), [""])
    if len(first) > MOST_COLUMNS:
        raise ImitableError(f"{path} has {len(first)} columns, more than the {MOST_COLUMNS} that such a file may have; write it as .npz")
    if len(first) == 1 and (mark := next((mark for mark in (";", "\t") if mark in first[0]), None)):
        raise ImitableError(f"{path} separates its columns by {mark!r}; separate them by commas, and write 0.5 with a point")
    named = not all(_is_number(cell) for cell in first)
    options = pyarrow.csv.ReadOptions(autogenerate_column_names=not named, use_threads=False)
    table = pyarrow.csv.read_csv(BytesIO(content), options)
    names = [name.strip() for name in table.column_names]
    if (twice := "" if "" in names else _repeated(names)) is not None:
        raise ImitableError(f"{path} has {'a column without a name' if not twice else f'two columns {twice!r}'}; name each column once")
    return dict(zip(names, table.columns, strict=True)), named


def _repeated(values: Iterable[Any]) -> Any:
    """The first that is there twice, or None; counted in one pass, for there may be a million."""
    return next((value for value, count in Counter(values).items() if count > 1), None)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _demonstrations(columns: dict[str, Any], *, has_header: bool) -> Demonstrations:
    count = len(next(iter(columns.values())))
    if not count:
        raise ImitableError("there are no rows; a demonstration needs at least two observations, one per row")
    if other := next((name for name in columns if name.lower() in UNREAD_NUMBERS), None):
        raise ImitableError(f"column {other!r} looks like the number of the demonstration; call it 'demonstration' or 'episode'")
    given = {name: _starts(columns[name].to_pylist()) for name in NUMBERS if name in columns}
    starts = next(iter(given.values()), np.zeros(1, np.int64))
    if any(not np.array_equal(each, starts) for each in given.values()):
        raise ImitableError(f"columns {' and '.join(map(repr, given))} differ in which rows belong together; leave out one of them")
    shown = [name for name in columns if name not in LABELS and not name.startswith("action")] if has_header else list(columns)
    if not shown:
        raise ImitableError(f"there are no observation columns beside {', '.join(columns)}")
    rows = np.diff(np.append(starts, count))
    sources = None
    if "source" in columns:
        sources = tuple(str(source) for source in _constant("source", columns["source"].to_pylist(), starts, rows))
    clocks = {name: _clock(columns[name]) for name in (*TIMES, "step") if name in columns}
    for name, clock in clocks.items():
        _check_clock(name, clock, starts, numbered=bool(given))
    return Demonstrations(
        np.stack([_numbers(name, columns[name]) for name in shown], axis=1),
        rows - 1,
        _returns(columns, starts, rows),
        sources=sources,
        observation_names=tuple(shown) if has_header else None,
        times=next((clock for name, clock in clocks.items() if name in TIMES and clock is not None), None),
    )


def _starts(numbers: list[Any]) -> Integers:
    """The row at which each demonstration starts."""
    if None in numbers:
        raise ImitableError(f"line {numbers.index(None) + 2} does not say which demonstration it belongs to; number each row")
    starts = [0, *(row for row in range(1, len(numbers)) if numbers[row] != numbers[row - 1])]
    if (torn := _repeated(numbers[row] for row in starts)) is not None:
        raise ImitableError(f"the rows of demonstration {torn} do not stand together; sort them by demonstration, then by time")
    return np.array(starts, dtype=np.int64)


def _numbers(name: str, column: Any) -> Array:
    """(row,) of an arrow column, NaN where a cell is blank."""
    import pyarrow

    if pyarrow.types.is_null(column.type):
        return np.full(len(column), np.nan)
    if not (pyarrow.types.is_floating(column.type) or pyarrow.types.is_integer(column.type)):
        cells = (cell for chunk in column.chunks for cell in chunk.to_pylist())  # not all at once: they take 30 times their size
        line, cell = next((line, cell) for line, cell in enumerate(cells, start=2) if not _is_number(str(cell)))
        raise ImitableError(f"line {line} has {cell!r} in column {name!r}, which is not a number")
    return np.asarray(column.to_numpy(), dtype=np.float64)


def _clock(column: Any) -> Array | None:
    """(row,) the seconds, or steps, of an arrow column; None if they are neither numbers nor times of day, or always the same."""
    import pyarrow

    if pyarrow.types.is_timestamp(column.type):
        column = column.cast(pyarrow.timestamp("us")).cast(pyarrow.int64()).to_numpy() / 1e6
    elif pyarrow.types.is_floating(column.type) or pyarrow.types.is_integer(column.type):
        column = _numbers("", column)
    else:
        return None
    return column if len(np.unique(column)) > 1 else None


def _check_clock(name: str, clock: Array | None, starts: Integers, *, numbered: bool) -> None:
    """Within a demonstration times must not fall, and steps rise by as much from row to row; `check_times` tells if times are even."""
    if clock is None:
        return
    change = np.diff(clock)
    known = np.isfinite(change)
    known[starts[1:] - 1] = False
    usual = np.median(change[known]) if known.any() else 0.0
    wrong = change < 0 if name in TIMES else ~np.isclose(change, usual) | (change <= 0)
    if (bad := np.flatnonzero(known & wrong)).size:
        at = int(bad[0])
        demo = int(np.searchsorted(starts, at, side="right")) - 1
        order = "sort the rows" if numbered else f"number the demonstrations in a column {NUMBERS[0]!r}, or sort the rows"
        cure = order if change[at] <= 0 else "put in the rows that are missing, or make two demonstrations of it"
        raise ImitableError(
            f"line {at + 3} has {name} {clock[at + 1]:g} after {clock[at]:g}, step {at - starts[demo]} of demonstration {demo}; {cure}, or "
            f"leave {name!r} out"
        )


def _returns(columns: dict[str, Any], starts: Integers, rows: Integers) -> Array:
    if "return" in columns:
        return np.array(_constant("return", _numbers("return", columns["return"]).tolist(), starts, rows))
    if "reward" not in columns:
        return np.full(len(starts), np.nan)
    rewards = _numbers("reward", columns["reward"])
    inner = np.isnan(rewards)
    inner[starts], inner[starts + rows - 1] = False, False
    sums = np.add.reduceat(np.nan_to_num(rewards), starts)
    known = ~np.logical_or.reduceat(inner, starts) & np.logical_or.reduceat(~np.isnan(rewards), starts)
    return np.where(known, sums, np.nan)


def _constant(name: str, values: list[Any], starts: Integers, rows: Integers) -> list[Any]:
    """The one value of each demonstration."""
    found = []
    for start, size in zip(starts.tolist(), rows.tolist(), strict=True):
        different = next((row for row in range(start, start + size) if values[row] != values[start] and values[row] == values[row]), None)
        if different is not None:
            raise ImitableError(
                f"line {different + 2} has {name} {values[different]!r} in a demonstration that began with {values[start]!r}"
            )
        found.append(values[start])
    return found
