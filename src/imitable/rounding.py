"""Rounded data: the unit that every column is rounded to, and rounding other trajectories alike."""

import numpy as np

from imitable.arrays import Array

DECIMALS = tuple(range(9))
"""Decimal places that count as rounded."""
ROWS, VARIED = 5_000, 20
"""Rows that are looked at, and distinct values of a column that are enough to tell."""
STEPS_OF_ROUNDING = 10
"""Least scale of a column, in units of its last decimal place: smaller changes are rounding."""


def round_to(values: Array, unit: Array | float) -> Array:
    """Round to multiples of the unit where it is above 0."""
    step = np.where(np.asarray(unit) > 0, unit, 1.0)
    return np.asarray(np.where(np.asarray(unit) > 0, np.round(values / step) * step, values))


def rounding_units(observations: Array, *, varied: int = VARIED) -> Array:
    """(observation,) the last decimal place that a column is written with, such as 0.001; 0: it is not rounded.

    A column of few values, which may be round by chance, counts as written with as many places as those of many values, at most.
    """
    some = observations[:: max(1, len(observations) // ROWS)]
    places = np.full(some.shape[1], len(DECIMALS))
    for place in reversed(DECIMALS):
        on_grid = np.abs(some - np.round(some, place)) <= 1e-12 * np.maximum(1.0, np.abs(some))
        places[on_grid.all(axis=0)] = place
    many = np.array([len(np.unique(column)) >= varied for column in some.T])
    places[~many] = np.maximum(places[~many], places[many].max(initial=0) if many.any() else len(DECIMALS))
    return np.where(places < len(DECIMALS), 10.0**-places, 0.0)
