"""The learner protocol: a generator of checkpoints, without loggers or files; the caller evaluates, saves and stops."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from imitable.arrays import Array, Generator, Snapshot
from imitable.assessment import Assessment
from imitable.networks import Policy

LEARN_VERSION = 3
"""Raised when a learner's numbers change: a run begun before then cannot be resumed."""


@dataclass(frozen=True)
class Checkpoint:
    """A policy during training, and what resuming needs."""

    policy: Policy
    steps: int
    """Environment steps taken so far; updates for a learner that takes none."""
    progress: float
    """Fraction of the learning that is done, in [0, 1]."""
    snapshot: Snapshot
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    diverged: int = 0
    """Simulations that diverged so far."""


class Learner(Protocol):
    """A frozen dataclass of hyper-parameters that learns when called; weights (demo,) or (transition,) say how often each is drawn."""

    def __call__(
        self, assessment: Assessment, weights: Array, *, rng: Generator, resume: Snapshot | None = None
    ) -> Iterator[Checkpoint]: ...
