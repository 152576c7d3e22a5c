"""Agents that show what they can do: trained and hand-made policies, and the demonstrations they give."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from imitable.arrays import Array, Generator, Snapshot
from imitable.demonstrations import OPTIMAL, OTHER_DYNAMICS, SUBOPTIMAL, Demonstrations, Mixture, mix, share_counts
from imitable.errors import ImitableError
from imitable.evaluation import evaluate
from imitable.files import UNREADABLE, read_arrays, write_arrays, write_json
from imitable.networks import Policy
from imitable.reinforcement import Reward, Student, Trpo, demonstrate, train
from imitable.simulators import Simulator, earned
from imitable.simulators.driving import GOAL, HEADING, OBSTACLE, WORLD

Actor = Callable[[Array, Generator], Array]
"""Observations (N, observation) and a generator to actions (N, action)."""

Composition = Literal["paper", "released"]
STEERING_GAIN = 3.0  # full steering from 19 degrees off
SHIPPED = Path(__file__).parent / "policies"


@dataclass(frozen=True)
class Cast:
    """Who demonstrates on a task, and in which shares."""

    target: Simulator
    demonstrator: Simulator
    optimal: Actor  # on the target
    suboptimal: Actor  # on the target
    other: Actor  # optimal on the demonstrator
    mixture: Mixture


def collect(
    cast: Cast,
    *,
    count: int = 1000,
    composition: Composition = "paper",
    rng: Generator,
    watch: Callable[[float], None] = lambda share: None,
) -> Demonstrations:
    """A mixture of the cast's demonstrations, with their sources; `watch` hears the share done."""
    if composition not in ("paper", "released"):
        raise ImitableError(f"unknown composition {composition!r}; choose paper or released")
    mixture = cast.mixture if composition == "paper" else cast.mixture.released()
    performers = {
        OPTIMAL: (cast.target, cast.optimal),
        SUBOPTIMAL: (cast.target, cast.suboptimal),
        OTHER_DYNAMICS: (cast.demonstrator, cast.other),
    }
    *streams, mixing = rng.spawn(len(performers) + 1)
    sizes, shown, done = share_counts(mixture.shares(), count=count), {}, 0
    for (source, size), (simulator, actor), stream in zip(sizes.items(), performers.values(), streams, strict=True):
        if size:
            hear = _part_of(watch, begun=done / count, share=size / count)
            shown[source] = demonstrate(simulator, _bind(actor, stream), count=size, rng=stream, watch=hear)
            done += size
    for source, episodes in shown.items():
        if episodes.diverged:
            share = f"{episodes.diverged} of {len(episodes.trajectories)} {source} demonstrations"
            warnings.warn(f"{share} are cut short where the simulation broke down", stacklevel=2)
    kinds = {source: episodes.trajectories for source, episodes in shown.items()}
    return mix(kinds, shares={source: len(kind) / count for source, kind in kinds.items()}, count=count, rng=mixing)


def _part_of(watch: Callable[[float], None], *, begun: float, share: float) -> Callable[[float], None]:
    """What to tell of a part's progress, so that `watch` hears that of the whole."""
    return lambda done: watch(begun + share * done)


def _bind(actor: Actor, rng: Generator) -> Callable[[Array], Array]:
    return lambda observations: actor(observations, rng)


@dataclass(frozen=True)
class Shipped:
    """A policy that comes with the package: its mean actions, or sampled ones."""

    name: str
    sampled: bool = False

    def __call__(self, observations: Array, rng: Generator) -> Array:
        policy = _shipped(self.name)
        return policy.sample(observations, rng) if self.sampled else policy(observations)


@cache
def _shipped(name: str) -> Policy:
    return Policy.load(SHIPPED / f"{name}.safetensors")


def drive(observations: Array, rng: Generator) -> Array:
    """A hand-made driver, at any speed: point at a place beside the obstacle, then at the goal."""
    (x, y), heading = ((observations[:, :2] / 2 + 0.5) * WORLD).T, observations[:, HEADING]
    (obstacle_x, obstacle_y), (goal_x, goal_y) = OBSTACLE[0], GOAL[0]
    # Pass on the side the car is heading for, not the one it is on: a car that has begun to swerve keeps its mind.
    arrives = x + np.clip(obstacle_y - y, 0, None) * np.cos(heading) / np.maximum(np.sin(heading), 0.3)
    side = np.where(arrives >= obstacle_x, 1.0, -1.0)
    aside = side * (x - obstacle_x)
    swerving, passed = aside < 4.6, y >= obstacle_y + 1.5
    aim_x = np.where(passed, goal_x, obstacle_x + side * np.where(swerving, 5.2, np.maximum(aside, 5.0)))
    aim_y = np.where(passed, goal_y, np.where(swerving, np.maximum(obstacle_y - 0.5, y + 1.5), y + 5.0))
    # Steering by the bearing turns hard first and then runs straight. A pursuit along arcs would steer as it steered before all the
    # way, and whoever clones it learns just that: to repeat the last action, which the turn rate gives away.
    bearing = np.arctan2(aim_y - y, aim_x - x) - heading
    return np.asarray(np.clip(STEERING_GAIN * bearing, -1.0, 1.0)[:, None])


@dataclass(frozen=True)
class Schooling:
    """How a trained expert comes about: TRPO on the simulator's reward less a further cost on squared actions, as drawn."""

    rounds: int
    before: tuple[tuple[Simulator, int], ...] = ()  # easier simulators that it trains on first, and for how many rounds each
    reward_scale: float = 1.0
    control_cost: float = 0.0
    trpo: Trpo = field(default_factory=Trpo)
    episodes: int = 1000  # by which it is measured in the end

    @property
    def total(self) -> int:
        """Rounds, with those on easier simulators."""
        return self.rounds + sum(rounds for _, rounds in self.before)

    def reward(self, simulator: Simulator) -> Reward:
        """What the expert is trained on."""
        return lambda states, actions, next_states: (
            self.reward_scale * earned(simulator, states, actions, next_states) - self.control_cost * np.square(actions).sum(axis=-1)
        )


@dataclass(frozen=True)
class Graduate:
    """A trained policy and its mean return, by mean and by sampled actions, on starts it never trained on."""

    seed: int
    policy: Policy
    steps: int
    mean_return: float
    sampled_return: float
    curve: Array
    """(point, 2) steps and the mean return of a few episodes, on the way."""


def school(simulator: Simulator, schooling: Schooling, *, seed: int, notes: Path, watch: Callable[[float], None]) -> Graduate:
    """Train one policy; interrupted and called again, it goes on from its notes, a file it writes twenty times on the way."""
    learning, measuring, drawing = np.random.default_rng(seed).spawn(3)
    fingerprint = np.frombuffer(sha256(repr((simulator, schooling, seed)).encode()).digest(), dtype=np.uint8)
    try:
        saved = read_arrays(notes) if notes.exists() else None
    except UNREADABLE as error:
        raise ImitableError(f"{notes} is damaged ({error}); delete it to train anew") from error
    if saved is not None and not np.array_equal(saved["fingerprint"], fingerprint):
        raise ImitableError(f"{notes} was begun with other settings; delete it to train anew")
    first, curve = (0, np.empty((0, 2))) if saved is None else (int(saved["round"]), saved["curve"])

    total = schooling.total
    pause = max(1, total // 20)
    students = _course(simulator, schooling, first=first, rng=learning, resume=saved)
    student = next(students)
    for number, student in enumerate(students, start=first):
        watch((number + 1) / total)
        if (number + 1) % pause == 0 or number + 1 == total:
            few = np.random.default_rng((seed, number))  # of its own, so that measuring does not depend on interruptions
            earned_now = evaluate(student.agent.policy, simulator, episodes=10, rng=few).returns.mean()
            curve = np.concatenate([curve, [[student.steps, earned_now]]])
            write_arrays(notes, {**student.snapshot(), "round": np.array(number + 1), "curve": curve, "fingerprint": fingerprint})
    policy = student.agent.policy
    mean, sampled = (
        float(evaluate(act, simulator, episodes=schooling.episodes, rng=measuring).returns.mean())
        for act in (policy, lambda observations: policy.sample(observations, drawing))
    )
    return Graduate(seed, policy, student.steps, mean, sampled, curve)


def _course(simulator: Simulator, schooling: Schooling, *, first: int, rng: Generator, resume: Snapshot | None) -> Iterator[Student]:
    """The student as it comes to round `first`, and then after every round."""
    end = 0
    for stage, rounds in (*schooling.before, (simulator, schooling.rounds)):
        begin, start, end = end, max(first, end), end + rounds
        if resume is not None and start == begin:  # the agents under way are of another body
            resume = {name: array for name, array in resume.items() if not name.startswith("crew ")}
        if start < end or end == schooling.total:
            students = train(stage, settings=schooling.trpo, reward=schooling.reward(stage), rng=rng, resume=resume)
            come = next(students)
            if start == first:
                yield come
            for student in islice(students, end - start):
                yield student
                come = student
            resume = come.snapshot()


def train_and_keep(
    simulator: Simulator,
    schooling: Schooling,
    *,
    name: str,
    folder: Path,
    seeds: Sequence[int],
    watch: Callable[[float], None] = lambda share: None,
) -> dict[str, Any]:
    """Train from every seed and keep the best by mean return on held-out starts, beside a record of how it came about."""
    notes = [folder / "training" / f"{name}-{seed}.npz" for seed in seeds]
    graduates = []
    for number, (seed, file) in enumerate(zip(seeds, notes, strict=True)):
        graduates.append(
            school(simulator, schooling, seed=seed, notes=file, watch=lambda share, number=number: watch((number + share) / len(seeds)))  # type: ignore[misc]
        )
    watch(1.0)
    best = max(graduates, key=lambda graduate: graduate.mean_return)
    record = {
        "seed": best.seed,
        "returns_by_seed": {str(each.seed): round(each.mean_return, 2) for each in graduates},
        "steps": best.steps,
        "mean_return": round(best.mean_return, 2),
        "sampled_return": round(best.sampled_return, 2),
        "curve": [[int(steps), round(float(value), 2)] for steps, value in best.curve],
    }
    best.policy.save(folder / f"{name}.safetensors")
    write_json(folder / f"{name}.json", record)
    for file in notes:
        file.unlink()
    with suppress(OSError):  # notes of another training are there
        (folder / "training").rmdir()
    return record
