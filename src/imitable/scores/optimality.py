"""Optimality: how a demonstration's return compares with the best that was shown from nearby starts (eqs. 4 and 5)."""

import numpy as np
from scipy.spatial import cKDTree

from imitable.arrays import Array, Booleans, Integers
from imitable.problem import Problem
from imitable.scores.feasibility import feasibility

LEAF = 32  # ranks compared directly instead of through a tree


def rectified_optimality(problem: Problem) -> Array:
    """w_o (demo,) against the best feasible return from the same neighbourhood."""
    return optimality(problem.demonstrations.returns, best_returns(problem), sigma=problem.settings.sigma)


def naive_optimality(problem: Problem) -> Array:
    """w_o (demo,) against the best return of all, wherever it started: the ablation without f_rec."""
    returns = problem.demonstrations.returns
    return optimality(returns, np.full(len(returns), returns.max()), sigma=problem.settings.sigma)


def optimality(returns: Array, best: Array, *, sigma: float) -> Array:
    """exp(-(eta - f_rec)^2 / (2 sigma^2)), eq. 4."""
    return np.exp(-0.5 * ((returns - best) / sigma) ** 2)


def best_returns(problem: Problem) -> Array:
    """f_rec (demo,) of the problem's demonstrations, in its target's neighbourhoods."""
    demonstrations, columns = problem.demonstrations, problem.target.start_key
    return rectified_return(
        demonstrations.returns,
        np.zeros((len(demonstrations), 1)) if columns is None else demonstrations.start_states[:, columns],
        feasible=feasibility(problem) > 0,
        radius=problem.settings.radius,
    )


def rectified_return(returns: Array, starts: Array, *, feasible: Booleans, radius: float) -> Array:
    """f_rec (demo,): best return among feasible demonstrations starting nearer than `radius`, itself included (eq. 5).

    Feasible starts are ranked by return, best first, and each start looks for the first rank within reach by bisection: is there a
    neighbour in the better half? That is a nearest-neighbour query in a tree of that half, so dense neighbourhoods cost nothing
    extra, where listing them would cost the square of the demonstrations.
    """
    ranked = np.flatnonzero(feasible)
    ranked = ranked[np.argsort(-returns[ranked], kind="stable")]
    best = returns.copy()
    pending = [(0, len(ranked), np.arange(len(returns)))] if len(ranked) else []
    while pending:
        low, high, seekers = pending.pop()
        if high - low <= LEAF:
            found, rank = _first_within(starts[seekers], starts[ranked[low:high]], radius)
            best[seekers[found]] = np.maximum(best[seekers[found]], returns[ranked[low + rank[found]]])
            continue
        middle = (low + high) // 2
        gaps, _ = cKDTree(starts[ranked[low:middle]]).query(starts[seekers], distance_upper_bound=radius)
        within = gaps < radius
        pending += [
            (first, last, some) for first, last, some in ((low, middle, seekers[within]), (middle, high, seekers[~within])) if len(some)
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
