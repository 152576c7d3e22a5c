"""What a demonstration set is: ragged state trajectories with their returns, checked at birth."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from imitable.arrays import Array, Booleans, Generator, Integers
from imitable.errors import ImitableError
from imitable.files import UNREADABLE, read_arrays, write_atomically

OPTIMAL, SUBOPTIMAL, OTHER_DYNAMICS = SOURCES = ("optimal", "suboptimal", "other-dynamics")


@dataclass(frozen=True, eq=False)
class Demonstrations:
    """State trajectories without actions, one after the other; immutable."""

    states: Array
    """(row, observation) all states: demonstration i owns lengths[i] + 1 consecutive rows."""
    lengths: Integers
    """(demo,) number of transitions in each demonstration, at least 1."""
    returns: Array
    """(demo,) sum of rewards along each demonstration."""
    sources: tuple[str, ...] | None = None
    """(demo,) where each came from, for reports only: `pose` drops them, so that no score or learner can see them."""

    def __post_init__(self) -> None:
        for name, kind in (("states", np.float64), ("lengths", np.int64), ("returns", np.float64)):
            object.__setattr__(self, name, _protected(name, getattr(self, name), kind))
        if self.sources is not None:
            object.__setattr__(self, "sources", tuple(str(source) for source in self.sources))
        self._check()

    def _check(self) -> None:
        if self.states.ndim != 2 or self.lengths.ndim != 1 or self.returns.ndim != 1:
            raise ImitableError(
                "states must be (row, observation), lengths and returns (demo,); got shapes "
                f"{self.states.shape}, {self.lengths.shape} and {self.returns.shape}"
            )
        if len(self.lengths) == 0:
            raise ImitableError("there are no demonstrations: lengths is empty; a set needs at least one")
        if self.states.shape[1] == 0:
            raise ImitableError("states has no columns; a state needs at least one number")
        labels = self.lengths if self.sources is None else self.sources
        for name, size in (("returns", len(self.returns)), ("sources", len(labels))):
            if size != len(self):
                raise ImitableError(f"{name} has {size} entries for {len(self)} demonstrations; it needs one each")
        if (short := np.flatnonzero(self.lengths < 1)).size:
            raise ImitableError(
                f"demonstration {short[0]} has length {self.lengths[short[0]]}; a demonstration needs at least one transition "
                "(two states): drop it"
            )
        if (rows := int((self.lengths + 1).sum())) != len(self.states):
            raise ImitableError(
                f"lengths call for {rows} rows of states (one more than transitions for each demonstration), "
                f"but there are {len(self.states)}"
            )
        if (bad := np.argwhere(~np.isfinite(self.states))).size:
            row, column = bad[0]
            demo = int(np.searchsorted(self.starts, row, side="right")) - 1
            raise ImitableError(
                f"demonstration {demo} has {self.states[row, column]} in column {column} of its state {row - self.starts[demo]} "
                f"({len(np.unique(bad[:, 0]))} such rows in all); repair or drop it"
            )
        if (worthless := np.flatnonzero(~np.isfinite(self.returns))).size:
            raise ImitableError(f"demonstration {worthless[0]} has return {self.returns[worthless[0]]}; repair or drop it")

    def __len__(self) -> int:
        return len(self.lengths)

    def __repr__(self) -> str:
        kinds = "".join(f", {count} {source}" for source, count in Counter(self.sources or ()).most_common())
        return f"Demonstrations({len(self)} of {self.lengths.min()}-{self.lengths.max()} transitions, {self.width} columns{kinds})"

    @property
    def width(self) -> int:
        """Number of observation columns."""
        return int(self.states.shape[1])

    @cached_property
    def starts(self) -> Integers:
        """(demo,) the row at which each demonstration starts."""
        return np.concatenate([[0], np.cumsum(self.lengths + 1)[:-1]]).astype(np.int64)

    @property
    def start_states(self) -> Array:
        """(demo, observation) initial states."""
        return self.states[self.starts]

    @cached_property
    def transition_rows(self) -> Integers:
        """(transition,) the row of s in every transition (s, s'); s' is the row below it."""
        last = np.zeros(len(self.states), dtype=bool)
        last[self.starts + self.lengths] = True
        return np.flatnonzero(~last)

    def trajectory(self, index: int) -> Array:
        """(length + 1, observation) the states of one demonstration."""
        return self.states[self.starts[index] : self.starts[index] + self.lengths[index] + 1]

    def select(self, indices: ArrayLike) -> "Demonstrations":
        """The demonstrations at these indices (or where this mask is true), in this order."""
        chosen = np.arange(len(self))[np.asarray(indices)]
        rows = [np.arange(self.starts[index], self.starts[index] + self.lengths[index] + 1) for index in chosen]
        return Demonstrations(
            self.states[np.concatenate(rows) if rows else np.zeros(0, np.int64)],
            self.lengths[chosen],
            self.returns[chosen],
            None if self.sources is None else tuple(self.sources[index] for index in chosen),
        )

    def from_source(self, source: str) -> Booleans:
        """(demo,) which demonstrations came from a source."""
        return np.array([each == source for each in self.sources or [""] * len(self)])

    def without_sources(self) -> "Demonstrations":
        return Demonstrations(self.states, self.lengths, self.returns)

    def save(self, path: Path | str, *, compressed: bool = True) -> None:
        """Write a plain `.npz`: states, lengths, returns and, where known, sources."""
        arrays: dict[str, Any] = {"states": self.states, "lengths": self.lengths, "returns": self.returns}
        if self.sources is not None:
            arrays["sources"] = np.array(self.sources)
        buffer = BytesIO()
        (np.savez_compressed if compressed else np.savez)(buffer, allow_pickle=False, **arrays)
        write_atomically(Path(path), buffer.getvalue())

    @classmethod
    def load(cls, path: Path | str) -> "Demonstrations":
        """Read a plain `.npz`; pickled content is refused."""
        way_out = "expected a .npz with arrays states, lengths, returns and optionally sources"
        try:
            arrays = read_arrays(Path(path))
        except FileNotFoundError:
            raise ImitableError(f"{path} does not exist") from None
        except UNREADABLE as error:
            raise ImitableError(f"cannot read demonstrations from {path}: {error}; {way_out}, none of them pickled") from error
        if missing := [name for name in ("states", "lengths", "returns") if name not in arrays]:
            raise ImitableError(f"{path} has no {' and no '.join(missing)}; {way_out}")
        try:
            return cls(
                arrays["states"],
                arrays["lengths"],
                arrays["returns"],
                _labels(arrays["sources"]) if "sources" in arrays else None,
            )
        except ImitableError as error:
            raise ImitableError(f"{path}: {error}") from error


def _labels(sources: np.ndarray[Any, Any]) -> tuple[str, ...]:
    if sources.ndim != 1:
        raise ImitableError(f"sources has shape {sources.shape}; it needs one name for each demonstration, as (demo,)")
    return tuple(str(name) for name in (np.char.decode(sources) if sources.dtype.kind == "S" else sources))


@dataclass(frozen=True)
class Mixture:
    """Which share of a set each kind of demonstration makes up."""

    optimal: float
    suboptimal: float
    other_dynamics: float

    def released(self) -> "Mixture":
        """The composition of the paper's released scripts, which swap the last two shares of the paper's text."""
        return Mixture(self.optimal, self.other_dynamics, self.suboptimal)

    def shares(self) -> dict[str, float]:
        return {OPTIMAL: self.optimal, SUBOPTIMAL: self.suboptimal, OTHER_DYNAMICS: self.other_dynamics}


def join(sets: Sequence[Demonstrations]) -> Demonstrations:
    """All demonstrations of several sets, one set after the other; sources survive where every set has them."""
    if not sets:
        raise ImitableError("there is nothing to join: no demonstration sets were given")
    if len(widths := {each.width for each in sets}) > 1:
        raise ImitableError(f"cannot join demonstrations with different numbers of columns: {sorted(widths)}")
    labels = [each.sources for each in sets]
    return Demonstrations(
        np.concatenate([each.states for each in sets]),
        np.concatenate([each.lengths for each in sets]),
        np.concatenate([each.returns for each in sets]),
        None if None in labels else tuple(source for each in labels for source in each or ()),
    )


def mix(kinds: Mapping[str, Demonstrations], *, shares: Mapping[str, float], count: int, rng: Generator) -> Demonstrations:
    """`count` demonstrations in shuffled order, of which each named kind makes up its share."""
    counts = share_counts(shares, count=count)
    chosen = []
    for name, size in counts.items():
        if name not in kinds:
            raise ImitableError(f"no demonstrations of kind {name!r} to mix; there are {', '.join(kinds)}")
        if size > len(kinds[name]):
            raise ImitableError(
                f"the mixture asks for {size} {name!r} demonstrations, but there are {len(kinds[name])}; ask for fewer or collect more"
            )
        if size:
            part = kinds[name].select(rng.permutation(len(kinds[name]))[:size])
            chosen.append(Demonstrations(part.states, part.lengths, part.returns, (name,) * size))
    return join(chosen).select(rng.permutation(count))


def share_counts(shares: Mapping[str, float], *, count: int) -> dict[str, int]:
    """How many of `count` fall to each share; exact in sum, largest remainders first."""
    if any(share < 0 for share in shares.values()) or abs(sum(shares.values()) - 1) > 1e-6:
        raise ImitableError(f"shares must be at least 0 and add up to 1, got {dict(shares)}")
    if count < 1:
        raise ImitableError(f"a mixture needs at least one demonstration, got count={count}")
    exact = {name: share * count for name, share in shares.items()}
    counts = {name: int(value + 1e-9) for name, value in exact.items()}
    for name in sorted(exact, key=lambda name: counts[name] - exact[name])[: count - sum(counts.values())]:
        counts[name] += 1
    return counts


def _protected(name: str, values: ArrayLike, kind: type) -> Array:
    """A read-only copy in the wanted type (the array itself if it already is one)."""
    try:
        given = np.asarray(values)
    except ValueError as error:  # ragged lists
        raise ImitableError(f"{name} must be an array of numbers ({error})") from error
    if given.dtype == object or given.dtype.kind not in "fiub":
        raise ImitableError(f"{name} must hold numbers, got {given.dtype}")
    if kind is np.int64 and given.dtype.kind == "f" and (odd := ~np.isfinite(given) | (given != np.round(given))).any():
        raise ImitableError(f"{name} must hold whole numbers, got {given[odd][0]}")
    if given.dtype == kind and not given.flags.writeable and given.base is None:
        return given
    copy: Array = np.array(given, dtype=kind)
    copy.flags.writeable = False
    return copy
