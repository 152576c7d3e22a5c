"""Warnings about scores that are right by their own measure, and may still mislead."""

import numpy as np

from imitable.gentleness import DOUBTFUL_MISS
from imitable.report.terminal import print_line as print
from imitable.sampling import effective_sample_size
from imitable.verdicts import LEAST_WEIGHT, Table

FEW, MOST_SHARE = 3.0, 0.9
"""Effective demonstrations, and the share of the samples of a single one, from which on little is learned from."""


def print_gentle_demonstrations(table: Table) -> None:
    """A warning where demonstrations count as followed, and what the robot misses is much in units of their own motion."""
    relative = table["relative_miss"]
    doubtful = np.flatnonzero(relative > DOUBTFUL_MISS)  # not known: NaN
    if not len(doubtful):
        return
    worst = doubtful[np.argmax(relative[doubtful])]
    print(
        f"warning: {len(doubtful)} of {len(relative)} demonstrations count as followed, but move so gently that this says little: in units "
        f"of a random step the robot is near, but it misses {np.median(relative[doubtful]):.1%} of what they themselves change in a step, "
        "where a robot's own are missed by less than 1%; another body, a steady outside force or a wrong frame rate is not told apart: "
        f"number {table['demonstration'][worst]}, for example ({relative[worst]:.1%})"
    )


def print_few_demonstrations(table: Table) -> None:
    """A warning where little of what the robot can follow is left to learn from."""
    feasible = int((table["feasibility"] > LEAST_WEIGHT).sum()) if "feasibility" in table else len(table["weight"])
    mass, effective = table["weight"] * table["length"], effective_sample_size(table["weight"])
    if not mass.any() or feasible < FEW:
        return
    first = int(np.argmax(mass))
    share = float(mass[first] / mass.sum())
    if effective < FEW or share > MOST_SHARE:
        print(
            f"warning: of {feasible} demonstrations that the robot can follow, effectively {effective:.1f} are learned from: number "
            f"{table['demonstration'][first]} makes {share:.0%} of the samples, as returns are weighed; with few like it, `imitable train "
            "--method feasibility` learns from all of them"
        )
