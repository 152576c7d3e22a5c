"""What a demonstration set is: ragged trajectories of observations, with their returns where known, checked at birth."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256

import numpy as np
from numpy.typing import ArrayLike

from imitable.arrays import Array, Booleans, Generator, Integers
from imitable.errors import ImitableError


@dataclass(frozen=True, eq=False)
class Demonstrations:
    """Observations without actions, one demonstration after the other; immutable."""

    observations: Array
    """(row, observation) demonstration i owns lengths[i] + 1 consecutive rows."""
    lengths: Integers
    """(demo,) number of transitions in each demonstration, at least 1."""
    returns: Array = None  # type: ignore[assignment]
    """(demo,) sum of rewards along each demonstration; NaN where it is not known, None: nowhere."""
    sources: tuple[str, ...] | None = None
    """(demo,) where each came from, for reports only: `assess` drops them, so that no score or learner can see them."""
    observation_names: tuple[str, ...] | None = None
    """(observation,) the name of every column, where known; checked against the robot's."""
    times: Array | None = None
    """(row,) when each observation was made, where known (NaN: not), in seconds; only checked, no score or learner sees it."""

    def __post_init__(self) -> None:
        if self.returns is None:
            object.__setattr__(self, "returns", np.full(np.shape(self.lengths), np.nan))
        for name, kind in (("observations", np.float64), ("lengths", np.int64), ("returns", np.float64), ("times", np.float64)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _protected(name, getattr(self, name), kind))
        for name in ("sources", "observation_names"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, tuple(str(label) for label in getattr(self, name)))
        self._check()

    def _check(self) -> None:
        if self.observations.ndim != 2 or self.lengths.ndim != 1 or self.returns.ndim != 1:
            raise ImitableError(
                "observations must be (row, observation), lengths and returns (demo,); got shapes "
                f"{self.observations.shape}, {self.lengths.shape} and {self.returns.shape}"
            )
        if len(self.lengths) == 0:
            raise ImitableError("there are no demonstrations: lengths is empty; a set needs at least one")
        if self.observations.shape[1] == 0:
            raise ImitableError("observations have no columns; an observation needs at least one number")
        labels = self.lengths if self.sources is None else self.sources
        for name, size in (("returns", len(self.returns)), ("sources", len(labels))):
            if size != len(self):
                raise ImitableError(f"{name} has {size} entries for {len(self)} demonstrations; it needs one each")
        if (short := np.flatnonzero(self.lengths < 1)).size:
            raise ImitableError(
                f"demonstration {short[0]} has length {self.lengths[short[0]]}; a demonstration needs at least one transition "
                "(two observations): drop it"
            )
        if (long := np.flatnonzero(self.lengths >= len(self.observations))).size:  # before they are added up: sums of such numbers wrap
            raise ImitableError(
                f"demonstration {long[0]} has length {self.lengths[long[0]]}, but there are {len(self.observations)} rows of observations"
            )
        if (rows := int((self.lengths + 1).sum())) != len(self.observations):
            raise ImitableError(
                f"lengths call for {rows} rows of observations (one more than transitions for each demonstration), "
                f"but there are {len(self.observations)}"
            )
        finite = np.isfinite(self.observations)
        if not finite.all():
            bad, names = np.flatnonzero(~finite.all(axis=1)), self.observation_names or ()
            row, column = bad[0], int(np.argmin(finite[bad[0]]))
            demo = int(np.searchsorted(self.starts, row, side="right")) - 1
            raise ImitableError(
                f"demonstration {demo} has {self.observations[row, column]} in column "
                f"{repr(names[column]) if column < len(names) else column} of observation {row - self.starts[demo]} "
                f"({len(bad)} such rows in all); repair or drop it"
            )
        if (infinite := np.flatnonzero(np.isinf(self.returns))).size:
            raise ImitableError(f"demonstration {infinite[0]} has return {self.returns[infinite[0]]}; give NaN where it is not known")
        if self.times is not None and self.times.shape != (rows,):
            raise ImitableError(f"times has shape {self.times.shape}; it needs one number for each of the {rows} rows")
        if self.observation_names is not None and len(self.observation_names) != self.width:
            raise ImitableError(f"there are {len(self.observation_names)} observation_names for {self.width} columns; give one each")

    def __len__(self) -> int:
        return len(self.lengths)

    def __repr__(self) -> str:
        kinds = "".join(f", {count} {source}" for source, count in Counter(self.sources or ()).most_common())
        return f"Demonstrations({len(self)} of {self.lengths.min()}-{self.lengths.max()} transitions, {self.width} columns{kinds})"

    @property
    def width(self) -> int:
        """Number of observation columns."""
        return int(self.observations.shape[1])

    @cached_property
    def starts(self) -> Integers:
        """(demo,) the row at which each demonstration starts."""
        return np.concatenate([[0], np.cumsum(self.lengths + 1)[:-1]]).astype(np.int64)

    @property
    def start_observations(self) -> Array:
        """(demo, observation) where each starts."""
        return self.observations[self.starts]

    @cached_property
    def transition_rows(self) -> Integers:
        """(transition,) the row of s in every transition (s, s'); s' is the row below it."""
        last = np.zeros(len(self.observations), dtype=bool)
        last[self.starts + self.lengths] = True
        return np.flatnonzero(~last)

    @cached_property
    def transition_starts(self) -> Integers:
        """(demo,) the number of each demonstration's first transition."""
        return np.asarray(np.cumsum(self.lengths) - self.lengths)

    def trajectory(self, index: int) -> Array:
        """(length + 1, observation) of one demonstration."""
        return self.observations[self.starts[index] : self.starts[index] + self.lengths[index] + 1]

    def select(self, indices: ArrayLike) -> "Demonstrations":
        """The demonstrations at these indices (or where this mask is true), in this order."""
        chosen = np.arange(len(self))[np.asarray(indices)]
        of_each = [np.arange(self.starts[index], self.starts[index] + self.lengths[index] + 1) for index in chosen]
        rows = np.concatenate(of_each) if of_each else np.zeros(0, np.int64)
        return Demonstrations(
            self.observations[rows],
            self.lengths[chosen],
            self.returns[chosen],
            sources=None if self.sources is None else tuple(self.sources[index] for index in chosen),
            observation_names=self.observation_names,
            times=None if self.times is None else self.times[rows],
        )

    def from_source(self, source: str) -> Booleans:
        """(demo,) which demonstrations came from a source."""
        return np.array([each == source for each in self.sources or [""] * len(self)])

    def with_sources(self, sources: Sequence[str] | None) -> "Demonstrations":
        """The same with other source labels; None: with none."""
        return replace(self, sources=None if sources is None else tuple(sources))

    def known_returns(self, *, needed_by: str) -> Array:
        """(demo,) the returns, or an error that says who needs those that are missing."""
        if (missing := np.flatnonzero(np.isnan(self.returns))).size:
            raise ImitableError(
                f"{needed_by} needs returns, but {len(missing)} of {len(self)} demonstrations have none, such as number {missing[0]}; "
                "give their returns, or use what needs none: feasibility, or no weights at all"
            )
        return self.returns

    @cached_property
    def copies(self) -> dict[int, int]:
        """Demonstrations with the observations of an earlier one, to single precision, and which one that is."""
        first: dict[bytes, int] = {}
        with np.errstate(over="ignore"):
            single = self.observations.astype(np.float32, order="C") + np.float32(0)  # -0 is 0
        found = [
            first.setdefault(sha256(single[start : start + length + 1].data).digest(), at)
            for at, (start, length) in enumerate(zip(self.starts, self.lengths, strict=True))
        ]
        return {at: original for at, original in enumerate(found) if at != original}

    @cached_property
    def digest(self) -> str:
        """A hash of all that scores and learners see."""
        seen = sha256(repr(self.observation_names).encode())
        for array in (self.observations, self.lengths, self.returns):
            seen.update(np.ascontiguousarray(array).data)
        return seen.hexdigest()


def join(sets: Sequence[Demonstrations]) -> Demonstrations:
    """All demonstrations of several sets, one set after the other; sources survive where every set has them."""
    if not sets:
        raise ImitableError("there is nothing to join: no demonstration sets were given")
    if len(sets) == 1:
        return sets[0]
    if len(widths := {each.width for each in sets}) > 1:
        raise ImitableError(f"cannot join demonstrations with different numbers of columns: {sorted(widths)}")
    names = {each.observation_names for each in sets} - {None}
    if len(names) > 1:
        raise ImitableError(
            f"cannot join demonstrations with different columns: {' and '.join(str(each) for each in sorted(map(str, names)))}"
        )
    labels = [each.sources for each in sets]
    times = [np.full(len(each.observations), np.nan) if each.times is None else each.times for each in sets]
    return Demonstrations(
        np.concatenate([each.observations for each in sets]),
        np.concatenate([each.lengths for each in sets]),
        np.concatenate([each.returns for each in sets]),
        sources=None if None in labels else tuple(source for each in labels for source in each or ()),
        observation_names=next(iter(names), None),
        times=np.concatenate(times) if any(each.times is not None for each in sets) else None,
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
            chosen.append(part.with_sources((name,) * size))
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
    if kind is np.int64 and given.dtype.kind == "f" and (odd := ~(np.abs(given) < 2**53) | (given != np.round(given))).any():
        raise ImitableError(f"{name} must hold whole numbers, got {given[odd][0]}")
    if given.dtype == kind and not given.flags.writeable and given.base is None:
        return given
    copy: Array = np.array(given, dtype=kind)
    copy.flags.writeable = False
    return copy
