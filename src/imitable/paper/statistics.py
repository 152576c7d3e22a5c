"""How returns of several seeds are summed up and compared: Agarwal et al., 2021, *Deep RL at the edge of the statistical precipice*.

Resampling is stratified: seeds are drawn anew within every task, so that an interval says nothing about other tasks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from imitable.arrays import Array, Generator

RESAMPLED = 10_000
BySeed = Mapping[int, float]
"""Mean return of the last policy by seed, of one task and method."""


@dataclass(frozen=True)
class Estimate:
    """A number over seeds with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float

    def __format__(self, style: str) -> str:
        return f"{self.value:{style}} [{self.low:{style}}, {self.high:{style}}]"


@dataclass(frozen=True)
class Summary:
    """Mean returns of one task and method over seeds."""

    task: str
    method: str
    means: Array
    """(seed,) mean return of the last policy of each run."""
    interquartile_mean: float
    """Interquartile mean over the seeds."""
    interval: tuple[float, float]
    """95 % bootstrap interval of the interquartile mean."""

    @property
    def std(self) -> float:
        """Standard deviation over the seeds; not a number where there is only one."""
        return float(self.means.std(ddof=1)) if len(self.means) > 1 else float("nan")


def summary(task: str, method: str, means: Array, *, rng: Generator) -> Summary:
    """Interquartile mean with its bootstrap interval over seeds."""
    found = interquartile({task: means}, rng=rng)
    return Summary(task, method, means, found.value, (found.low, found.high))


def interquartile_mean(values: Array) -> Array:
    """Mean of the middle half along the last axis, counting the values at its edges in part."""
    count = values.shape[-1]
    edges = np.arange(count + 1) / count
    inside = np.clip(np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25), 0.0, None) / 0.5
    return np.asarray((np.sort(values, axis=-1) * inside).sum(axis=-1))


def interquartile(by_task: Mapping[str, Array], *, rng: Generator) -> Estimate:
    """Interquartile mean of all seeds of all tasks, (seed,) each; where there are several, of normalized returns."""
    return _bootstrap(list(by_task.values()), lambda drawn: interquartile_mean(np.concatenate(drawn, axis=-1)), rng=rng)


def gap_closed(returns: Array, *, none: float, expert: float) -> Array:
    """Which share of the way from the mean return of `none` to the expert's each return has gone: 0 there, 1 here."""
    return np.asarray((returns - none) / (expert - none))


def paired_difference(ours: BySeed, other: BySeed, *, rng: Generator) -> tuple[Array, Estimate | None]:
    """(common seed,) differences on the same demonstrations and starts, and their mean; None of fewer than two."""
    gains = np.array([ours[seed] - other[seed] for seed in sorted(ours) if seed in other])
    return gains, _bootstrap([gains], lambda drawn: drawn[0].mean(axis=-1), rng=rng) if len(gains) > 1 else None


def probability_of_improvement(ours: Mapping[str, Array], other: Mapping[str, Array], *, rng: Generator) -> Estimate:
    """How likely a run of ours beats a run of the other method on the same task, a tie counting half, averaged over common tasks."""
    tasks = [task for task in ours if task in other]

    def improvement(drawn: list[Array]) -> Array:
        pairs = zip(drawn[::2], drawn[1::2], strict=True)
        compared = [(np.sign(one[..., :, None] - another[..., None, :]) / 2 + 0.5).mean(axis=(-2, -1)) for one, another in pairs]
        return np.asarray(np.mean(compared, axis=0))

    return _bootstrap([returns for task in tasks for returns in (ours[task], other[task])], improvement, rng=rng)


def _bootstrap(strata: list[Array], statistic: Callable[[list[Array]], Array], *, rng: Generator) -> Estimate:
    """A statistic of samples (..., seed), with the percentiles of it over seeds drawn anew within each of them."""
    low, high = np.percentile(statistic([rng.choice(each, (RESAMPLED, len(each))) for each in strata]), [2.5, 97.5])
    return Estimate(float(statistic(strata)), float(low), float(high))
