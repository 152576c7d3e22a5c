"""Who demonstrates on a task of the paper, and the mixture of demonstrations they give."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from imitable.arrays import Array, Generator, Progress, no_progress, part_of
from imitable.demonstrations import Demonstrations, mix, share_counts
from imitable.errors import ImitableError
from imitable.networks import Policy
from imitable.rollouts import run_episodes
from imitable.simulators import Simulator

COLLECT_VERSION = 1
"""Raised when the demonstrations that a seed gives change: those kept before then no longer count."""

OPTIMAL, SUBOPTIMAL, OTHER_DYNAMICS = SOURCES = ("optimal", "suboptimal", "other-dynamics")
COMPOSITIONS = {
    "paper": "the shares of the paper",
    "released": "those of its released scripts, which swap the last two",
    "perfect": "the paper's without its suboptimal and other-dynamics demonstrations",
    "imperfect": "the paper's without its optimal demonstrations",
}
"""Which demonstrations are mixed, by name; or the shares themselves, such as 0.1/0.45/0.45, of optimal / suboptimal / other-dynamics."""
DEMONSTRATIONS = 1000
"""In a set, if nothing else is said."""
POLICIES = Path(__file__).parent / "policies"

Actor = Callable[[Array, Generator], Array]
"""Observations (N, observation) and a generator to actions (N, action)."""


class EpisodicActor(Protocol):
    """One that draws something once per episode."""

    def begin(self, rng: Generator) -> Callable[[Array], Array]:
        """What acts in one batch of episodes."""
        ...


@dataclass(frozen=True)
class Mixture:
    """Which share of a set each kind of demonstration makes up."""

    optimal: float
    suboptimal: float
    other_dynamics: float

    def counts(self, composition: str, *, count: int) -> dict[str, int]:
        """Demonstrations of each source in a composition of `count`, fewer where it leaves some out."""
        shares = self.shares()
        if composition not in COMPOSITIONS:
            try:
                shares = dict(zip(SOURCES, map(float, composition.split("/")), strict=True))
            except ValueError:
                choices = f"{', '.join(COMPOSITIONS)} or shares such as 0.1/0.45/0.45"
                raise ImitableError(f"unknown composition {composition!r}; choose {choices}") from None
        if composition == "released":
            shares = {OPTIMAL: self.optimal, SUBOPTIMAL: self.other_dynamics, OTHER_DYNAMICS: self.suboptimal}
        counts = share_counts(shares, count=count)
        if composition in ("perfect", "imperfect"):
            counts = {source: size if (source == OPTIMAL) == (composition == "perfect") else 0 for source, size in counts.items()}
        if not any(counts.values()):
            raise ImitableError(f"composition {composition!r} of {count} demonstrations leaves none; give a larger count")
        return counts

    def shares(self) -> dict[str, float]:
        return {OPTIMAL: self.optimal, SUBOPTIMAL: self.suboptimal, OTHER_DYNAMICS: self.other_dynamics}


@dataclass(frozen=True)
class Demonstrators:
    """Who demonstrates for a target, and in which shares."""

    target: Simulator
    other: Simulator  # the body of other dynamics
    optimal: Actor  # on the target
    suboptimal: Actor | EpisodicActor  # on the target
    other_optimal: Actor  # on the other body
    mixture: Mixture


@dataclass(frozen=True)
class TrainedPolicy:
    """A policy that comes with the package: its mean actions, or sampled ones."""

    name: str
    sampled: bool = False

    def __call__(self, observations: Array, rng: Generator) -> Array:
        policy = _load_policy(self.name)
        return policy.sample(observations, rng) if self.sampled else policy(observations)

    def cache_key(self) -> str:
        """What its actions depend on: the policy's file."""
        return f"{sha256((POLICIES / f'{self.name}.safetensors').read_bytes()).hexdigest()} {self.sampled}"


@cache
def _load_policy(name: str) -> Policy:
    return Policy.load(POLICIES / f"{name}.safetensors")


def trained_demonstrators(body: str, dynamics: str, robots: Mapping[str, Simulator], mixture: Mixture) -> Demonstrators:
    """Demonstrators that are all policies shipped with the package, on a pair of robots by dynamics."""
    (other,) = robots.keys() - {dynamics}
    return Demonstrators(
        robots[dynamics],
        robots[other],
        optimal=TrainedPolicy(f"{body}-{dynamics}-optimal"),
        suboptimal=TrainedPolicy(f"{body}-{dynamics}-suboptimal", sampled=True),
        other_optimal=TrainedPolicy(f"{body}-{other}-optimal"),
        mixture=mixture,
    )


def collect(
    demonstrators: Demonstrators,
    *,
    count: int = DEMONSTRATIONS,
    composition: str = "paper",
    rng: Generator,
    progress: Progress = no_progress,
) -> Demonstrations:
    """A mixture of what they demonstrate, with its sources; a source's demonstrations are the same in every composition of as many."""
    sizes = demonstrators.mixture.counts(composition, count=count)
    performers = {
        OPTIMAL: (demonstrators.target, demonstrators.optimal),
        SUBOPTIMAL: (demonstrators.target, demonstrators.suboptimal),
        OTHER_DYNAMICS: (demonstrators.other, demonstrators.other_optimal),
    }
    *streams, mixing = rng.spawn(len(performers) + 1)
    count, kinds, done = sum(sizes.values()), {}, 0
    for (source, size), (simulator, actor), stream in zip(sizes.items(), performers.values(), streams, strict=True):
        if size:
            part = part_of(progress, done / count, (done + size) / count)
            episodes = run_episodes(simulator, _bind(actor, stream), count=size, rng=stream, progress=part)
            if episodes.diverged:
                cut = f"{episodes.diverged} of {size} {source} demonstrations"
                warnings.warn(f"{cut} are cut short where the simulation broke down", stacklevel=2)
            kinds[source] = episodes.trajectories
            done += size
    return mix(kinds, shares={source: len(kind) / count for source, kind in kinds.items()}, count=count, rng=mixing)


def _bind(actor: Actor | EpisodicActor, rng: Generator) -> Callable[[Array], Array]:
    if not callable(actor):
        return actor.begin(rng)
    return lambda observations: actor(observations, rng)
