"""Optimality: how a demonstration's return compares with the best that was shown from nearby starts (eqs. 4 and 5)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from imitable.arrays import Array, Booleans, Integers
from imitable.errors import check_fields
from imitable.scores.base import Score, column_tuple, demonstration_weights, impossible_parts
from imitable.scores.feasibility import Feasibility

if TYPE_CHECKING:
    from imitable.assessment import Assessment

LEAF = 32  # ranks compared directly instead of through a tree
MIN_DEMONSTRATIONS, NEIGHBOURS = 50, 10
"""Feasible demonstrations from which on it is asked whether returns depend on the start, and how many neighbours are asked."""
STARTS_MATTER = 0.3
"""Correlation between a return's rank and its neighbours' above which starts are told apart."""


@dataclass(frozen=True)
class RectifiedOptimality:
    """w_o against the best feasible return from the same neighbourhood.

    A demonstration without a neighbour gets the mean optimality of the feasible ones that have one. A demonstration without a return gets
    0 if others could be compared, because a few bad ones among them would spoil a policy; if none could, all get 1. With `feasible_above`
    0, the paper's recipe, every demonstration needs a return and is compared, with itself if nothing else is near.
    """

    sigma: float | None = None  # how much return one may fall short of the best from the same start; None: from the data
    radius: float | None = None  # how near two starts must be to be compared, in units of the columns; None: from the data
    columns: tuple[int, ...] | None = None  # of the observation, that make two starts neighbours; None: all
    feasibility: Score = field(default_factory=Feasibility)
    feasible_above: float = 0.9
    """Only demonstrations with a larger feasibility, and no impossible part, set the standard; 0 as in the paper: all feasible ones."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", column_tuple(self.columns))
        check_fields(
            self, ("sigma", self.sigma is None or self.sigma > 0, "above 0"), ("radius", self.radius is None or self.radius > 0, "above 0")
        )

    def __call__(self, assessment: Assessment) -> Array:
        """(demo,)"""
        if not np.isfinite(self._returns(assessment)).any():
            warnings.warn("no demonstration has a return: nothing is known of optimality, and weights are feasibility alone", stacklevel=2)
        found = optimality(self._returns(assessment), self.best_returns(assessment), sigma=self.resolved_sigma(assessment))
        alone = self.without_neighbour(assessment)
        compared = self._feasible(assessment) & ~alone
        if compared.any():
            found[alone] = np.where(np.isnan(found[alone]), 0.0, found[compared].mean())
            if self.feasible_above:  # A return obtained partly through infeasible steps is capped at the mean optimality.
                found = np.where(self._feasible(assessment), found, np.minimum(found, found[compared].mean()))
        return np.where(np.isnan(found), 1.0, found)

    def table(self, assessment: Assessment) -> dict[str, Array]:
        known = np.where(self.without_neighbour(assessment), np.nan, assessment.scored(self))
        neighbours = self._neighbours(assessment)
        better = np.where((known < 1) & (neighbours != np.arange(len(neighbours))), neighbours, -1)
        return {"rectified_return": self.best_returns(assessment), "optimality": known, "better_neighbour": better}

    def facts(self, assessment: Assessment) -> dict[str, Any]:
        unknown = np.isnan(self._returns(assessment))
        return {
            "sigma": self.resolved_sigma(assessment),
            "radius": self.resolved_radius(assessment),
            "alone": int((self.without_neighbour(assessment) & ~unknown).sum()),
            "without_return": int(unknown.sum()),
        }

    def best_returns(self, assessment: Assessment) -> Array:
        """f_rec (demo,), the best feasible return nearby; NaN if neither the demonstration nor a neighbour has a return."""
        return np.asarray(self._returns(assessment)[self._neighbours(assessment)])

    def _neighbours(self, assessment: Assessment) -> Integers:
        """(demo,) the demonstration whose return is f_rec."""
        returns, feasible = self._returns(assessment), self._feasible(assessment)
        return best_neighbours(returns, self._starts(assessment), feasible=feasible, radius=self.resolved_radius(assessment))

    def without_neighbour(self, assessment: Assessment) -> Booleans:
        """(demo,) which have no return, or no other feasible demonstration near them to compare it with; in the paper, all compare."""
        from scipy.spatial import cKDTree

        starts, feasible = self._starts(assessment), self._feasible(assessment)
        if self.feasible_above == 0:
            return np.zeros(len(starts), dtype=bool)
        radius, unknown = self.resolved_radius(assessment), np.isnan(self._returns(assessment))
        if radius == np.inf or not feasible.any():
            return np.asarray(unknown | (feasible.sum() - feasible < 1))
        near = cKDTree(starts[feasible]).query_ball_point(starts, radius, return_length=True)
        return np.asarray(unknown | (near - feasible < 1))

    def resolved_radius(self, assessment: Assessment) -> float:
        """The radius as given; or infinite if returns do not depend on where demonstrations start, else as far as neighbours reach."""
        if self.radius is not None:
            return self.radius
        from scipy.spatial import cKDTree
        from scipy.stats import rankdata

        starts, returns, feasible = self._starts(assessment), self._returns(assessment), self._feasible(assessment)
        if feasible.sum() < MIN_DEMONSTRATIONS or not np.ptp(starts, axis=0).any():
            return float(np.inf)
        distances, near = cKDTree(starts[feasible]).query(starts[feasible], k=NEIGHBOURS + 1)
        ranks = rankdata(returns[feasible])
        expected = ranks[near[:, 1:]].mean(axis=1)
        if np.ptp(ranks) == 0 or np.ptp(expected) == 0 or np.corrcoef(ranks, expected)[0, 1] < STARTS_MATTER:
            return float(np.inf)
        return float(np.median(distances[:, -1])) + 1e-12

    def _starts(self, assessment: Assessment) -> Array:
        """(demo, column) what makes starts neighbours; where the radius comes from the data, in units of each column's spread."""
        starts = assessment.demonstrations.start_observations
        chosen = starts[:, slice(None) if self.columns is None else self.columns]
        if self.radius is not None:
            return np.zeros((len(starts), 1)) if self.radius == np.inf else chosen
        std = chosen.std(axis=0)
        return np.asarray(chosen / np.where(std > 1e-12, std, 1.0))

    def resolved_sigma(self, assessment: Assessment) -> float:
        """Sigma as given, or that of the feasible demonstrations by `typical_sigma`."""
        if self.sigma is not None:
            return self.sigma
        feasible = self._feasible(assessment)
        return typical_sigma(self._returns(assessment)[feasible], self.best_returns(assessment)[feasible])

    def why_zero(self, assessment: Assessment) -> str:
        """Why no demonstration has any optimality."""
        return f"no demonstration comes near the best return of its neighbourhood; raise sigma (now {self.resolved_sigma(assessment):g})"

    def _feasible(self, assessment: Assessment) -> Booleans:
        """(demo,) which set the standard: those that are feasible, and have a return."""
        weights = demonstration_weights(assessment.scored(self.feasibility), assessment.demonstrations.lengths)
        feasible = (weights > self.feasible_above) & np.isfinite(self._returns(assessment))
        # A long demonstration has a high share of followed windows even where its return was earned in one that nobody can follow.
        return np.asarray(feasible & ~impossible_parts(self.feasibility, assessment) if self.feasible_above else feasible)

    def _returns(self, assessment: Assessment) -> Array:
        demonstrations = assessment.demonstrations
        return demonstrations.returns if self.feasible_above else demonstrations.known_returns(needed_by="optimality")


@dataclass(frozen=True)
class NaiveOptimality:
    """w_o against the best return of all, wherever it started: the ablation without f_rec."""

    sigma: float | None = None  # as of `RectifiedOptimality`, but that all demonstrations count

    def __post_init__(self) -> None:
        check_fields(self, ("sigma", self.sigma is None or self.sigma > 0, "above 0"))

    def __call__(self, assessment: Assessment) -> Array:
        """(demo,)"""
        returns = assessment.demonstrations.known_returns(needed_by="optimality")
        return optimality(returns, np.full(len(returns), returns.max()), sigma=self.resolved_sigma(assessment))

    def table(self, assessment: Assessment) -> dict[str, Array]:
        return {"optimality": assessment.scored(self)}

    def resolved_sigma(self, assessment: Assessment) -> float:
        """Sigma as given, or that of all demonstrations by `typical_sigma`."""
        if self.sigma is not None:
            return self.sigma
        returns = assessment.demonstrations.known_returns(needed_by="optimality")
        return typical_sigma(returns, np.full(len(returns), returns.max()))


def typical_sigma(returns: Array, best: Array) -> float:
    """A fifth of the median shortfall of those that fall short, but at least a twentieth of the median absolute return; else 1."""
    shortfalls = best - returns
    typical = float(np.median(shortfalls[shortfalls > 0])) if (shortfalls > 0).any() else 0.0
    floor = 0.05 * float(np.median(np.abs(returns))) if len(returns) else 0.0
    return max(typical / 5, floor) or 1.0


def optimality(returns: Array, best: Array, *, sigma: float) -> Array:
    """exp(-(eta - f_rec)^2 / (2 sigma^2)), eq. 4."""
    return np.exp(-0.5 * ((returns - best) / sigma) ** 2)


def rectified_return(returns: Array, starts: Array, *, feasible: Booleans, radius: float) -> Array:
    """f_rec (demo,): best return among feasible demonstrations starting nearer than `radius`, itself included (eq. 5)."""
    return np.asarray(returns[best_neighbours(returns, starts, feasible=feasible, radius=radius)])


def best_neighbours(returns: Array, starts: Array, *, feasible: Booleans, radius: float) -> Integers:
    """(demo,) the demonstration whose return is f_rec: the best feasible one that starts nearer than `radius`, or itself.

    Feasible starts are ranked by return, best first, and each start looks for the first rank within reach by bisection: is there a
    neighbour in the better half? That is a nearest-neighbour query in a tree of that half, so dense neighbourhoods cost nothing
    extra, where listing them would cost the square of the demonstrations.
    """
    from scipy.spatial import cKDTree

    ranked = np.flatnonzero(feasible)
    ranked = ranked[np.argsort(-returns[ranked], kind="stable")]
    best = np.arange(len(returns))
    pending = [(0, len(ranked), np.arange(len(returns)))] if len(ranked) else []
    while pending:
        low, high, searching = pending.pop()
        if high - low <= LEAF:
            found, rank = _first_within(starts[searching], starts[ranked[low:high]], radius)
            candidates, searching = ranked[low + rank[found]], searching[found]
            better = ~(returns[candidates] <= returns[searching])  # than nothing, if the own return is not known
            best[searching[better]] = candidates[better]
            continue
        middle = (low + high) // 2
        gaps, _ = cKDTree(starts[ranked[low:middle]]).query(starts[searching], distance_upper_bound=radius)
        within = gaps < radius
        pending += [
            (first, last, some) for first, last, some in ((low, middle, searching[within]), (middle, high, searching[~within])) if len(some)
        ]
    return best


def _first_within(points: Array, candidates: Array, radius: float) -> tuple[Booleans, Integers]:
    """(point,) whether any candidate is nearer than `radius`, and the first that is."""
    found, rank = np.zeros(len(points), dtype=bool), np.zeros(len(points), dtype=np.int64)
    for index, candidate in enumerate(candidates):
        near = ~found & (np.linalg.norm(points - candidate, axis=1) < radius)
        found |= near
        rank[near] = index
    return found, rank
