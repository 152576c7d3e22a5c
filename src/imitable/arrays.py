"""The types every stage speaks, and how many threads compute with them."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[np.float64]
Float32 = NDArray[np.float32]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

Arrays = dict[str, np.ndarray[Any, Any]]
"""Named arrays, as they are kept in a file."""
Snapshot = Mapping[str, np.ndarray[Any, Any]]
"""Named arrays from which work goes on exactly as if it had never stopped."""
Progress = Callable[[float], None]
"""Called with the fraction done, in [0, 1]."""

__all__ = [
    "Array",
    "Arrays",
    "Booleans",
    "Float32",
    "Generator",
    "Integers",
    "Progress",
    "Snapshot",
    "generator_state",
    "no_progress",
    "one_thread",
    "part_of",
    "restore_generator",
]


def no_progress(fraction: float) -> None:
    """For callers that do not watch."""


def part_of(progress: Progress, begin: float, end: float) -> Progress:
    """The progress of a part that takes the whole from the fraction `begin` to the fraction `end`."""
    return lambda fraction: progress(begin + (end - begin) * fraction)


def generator_state(rng: Generator) -> np.ndarray[Any, Any]:
    """A generator's state as an array of bytes."""
    return np.frombuffer(json.dumps(rng.bit_generator.state).encode(), dtype=np.uint8)


def restore_generator(rng: Generator, state: np.ndarray[Any, Any]) -> None:
    """Put a generator back where `generator_state` found it."""
    rng.bit_generator.state = json.loads(state.tobytes())


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for linear algebra: at these sizes two cost more than they bring, and they round differently."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)
