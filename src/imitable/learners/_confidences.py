"""Confidences, as 2IWIL and IC-GAIL take them: known of a labelled share of the transitions, by the demonstrations' returns."""

from dataclasses import dataclass

import numpy as np

from imitable.arrays import Array, Float32, Generator, Integers
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError


@dataclass(frozen=True)
class Labels:
    """Which transitions have a confidence, and what it is."""

    labelled: Integers
    """(labelled,) numbers of transitions."""
    confidences: Float32
    """(labelled,) in [0, 1]: how likely each was made by the best demonstrator."""
    unlabelled: Integers
    """(unlabelled,) numbers of the other transitions."""


def confidence(demonstrations: Demonstrations, *, learner: str) -> Array:
    """r (demo,): the return, scaled so that the worst is 0 and the best is 1."""
    returns = demonstrations.known_returns(needed_by=learner)
    worst, best = returns.min(), returns.max()
    if worst == best:
        raise ImitableError(
            f"all {len(returns)} demonstrations have the return {best:g}, so none deserves more confidence than another; "
            f"give demonstrations of different returns, or another learner than {learner}"
        )
    return np.asarray((returns - worst) / (best - worst))


def draw_labels(demonstrations: Demonstrations, confidences: Array, *, share: float, rng: Generator) -> Labels:
    """Label a random share of all transitions with their demonstration's confidence (demo,)."""
    if confidences.shape != (len(demonstrations),):
        raise ImitableError(
            f"confidences have shape {confidences.shape}; {len(demonstrations)} demonstrations need ({len(demonstrations)},)"
        )
    if (odd := np.flatnonzero(~((confidences >= 0) & (confidences <= 1)))).size:
        raise ImitableError(f"demonstration {odd[0]} has confidence {confidences[odd[0]]}; confidences must be in [0, 1]")
    every = np.repeat(confidences, demonstrations.lengths).astype(np.float32)
    order = rng.permutation(len(every))
    count = round(share * len(every))
    if not 0 < count < len(every):
        raise ImitableError(
            f"a labelled share of {share:g} of {len(every)} transitions leaves {count} with and {len(every) - count} without a label; "
            "there must be some of both"
        )
    labelled, unlabelled = np.sort(order[:count]), np.sort(order[count:])
    if np.ptp(every[labelled]) == 0:
        raise ImitableError(f"all {count} labels are {every[labelled[0]]:g}; confidences must differ for anything to be learned from them")
    return Labels(labelled, every[labelled], unlabelled)


def draw_weighted(weights: Array, count: int, rng: Generator) -> Integers:
    """(count,) row numbers, drawn with replacement in proportion to the weights (N,)."""
    if np.ptp(weights) == 0:
        return rng.integers(len(weights), size=count)
    mass = np.cumsum(weights)
    return np.asarray(np.searchsorted(mass, rng.random(count) * mass[-1], side="right"))
