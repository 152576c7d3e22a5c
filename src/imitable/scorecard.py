"""One row per demonstration: what every score said of it."""

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from imitable.arrays import Array
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.files import write_atomically
from imitable.problem import Problem
from imitable.scores import best_returns, feasibility, optimality

Columns = dict[str, np.ndarray[Any, Any]]


def scorecard(demonstrations: Demonstrations, problem: Problem, weights: Array | None = None) -> Columns:
    """source, length, return, distance, feasibility, rectified_return, optimality and weight, (demo,) each.

    The weight is the product of feasibility and optimality unless other weights are given.
    """
    feasible, best = feasibility(problem), best_returns(problem)
    optimal = optimality(demonstrations.returns, best, sigma=problem.settings.sigma)
    return {
        "demonstration": np.arange(len(demonstrations)),
        "source": np.array(demonstrations.sources or ["unknown"] * len(demonstrations)),
        "length": demonstrations.lengths,
        "return": demonstrations.returns,
        "distance": problem.replay.distances,
        "feasibility": feasible,
        "rectified_return": best,
        "optimality": optimal,
        "weight": feasible * optimal if weights is None else weights,
    }


def save_scorecard(columns: Columns, path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    buffer = BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), buffer)
    write_atomically(path, buffer.getvalue())


def load_scorecard(path: Path) -> Columns:
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowInvalid) as error:
        raise ImitableError(f"cannot read scores from {path}: {error}") from error
    return {name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names}
