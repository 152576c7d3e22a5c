"""Partly labelled transitions, as 2IWIL and IC-GAIL take them: confidences of a few, no word on the rest."""

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
