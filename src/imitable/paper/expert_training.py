"""How the shipped demonstrators were trained: TRPO on the simulator's own reward."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from imitable.arrays import Array, Generator, Progress, Snapshot, no_progress, part_of
from imitable.errors import ImitableError
from imitable.evaluation import evaluate
from imitable.networks import Policy
from imitable.rollouts import Reward
from imitable.simulators import Simulator, reward_of
from imitable.store.files import UnreadableError, read_arrays, write_arrays, write_json
from imitable.trpo import TrainingState, Trpo, train


@dataclass(frozen=True)
class ExpertTraining:
    """TRPO on the simulator's reward less a further cost on squared actions, as drawn."""

    rounds: int
    curriculum: tuple[tuple[Simulator, int], ...] = ()  # easier simulators that it trains on first, and for how many rounds each
    reward_scale: float = 1.0
    control_cost: float = 0.0
    trpo: Trpo = field(default_factory=Trpo)
    evaluation_episodes: int = 1000

    @property
    def total_rounds(self) -> int:
        """With those of the curriculum."""
        return self.rounds + sum(rounds for _, rounds in self.curriculum)

    def reward(self, simulator: Simulator) -> Reward:
        """What the expert is trained on."""
        return lambda states, actions, next_states: (
            self.reward_scale * reward_of(simulator, states, actions, next_states) - self.control_cost * np.square(actions).sum(axis=-1)
        )


@dataclass(frozen=True)
class TrainedExpert:
    """A trained policy and its mean return, by mean and by sampled actions, on starts it never trained on."""

    seed: int
    policy: Policy
    steps: int
    mean_return: float
    sampled_return: float
    curve: Array
    """(point, 2) steps and the mean return of a few episodes, on the way."""


def train_expert(simulator: Simulator, training: ExpertTraining, *, seed: int, snapshot: Path, progress: Progress) -> TrainedExpert:
    """Train one policy; interrupted and called again, it goes on from its snapshot, a file it writes twenty times on the way."""
    learning, measuring, sampling = np.random.default_rng(seed).spawn(3)
    fingerprint = np.frombuffer(sha256(repr((simulator, training, seed)).encode()).digest(), dtype=np.uint8)
    try:
        saved = read_arrays(snapshot) if snapshot.exists() else None
    except UnreadableError as error:
        raise ImitableError(f"{snapshot} is damaged ({error}); delete it to train anew") from error
    if saved is not None and not np.array_equal(saved.get("fingerprint", ()), fingerprint):
        raise ImitableError(f"{snapshot} was begun with other settings; delete it to train anew")
    first, curve = (0, np.empty((0, 2))) if saved is None else (int(saved["round"]), saved["curve"])

    total = training.total_rounds
    save_every = max(1, total // 20)
    states = _training_states(simulator, training, first=first, rng=learning, resume=saved)
    state = next(states)
    for number, state in enumerate(states, start=first):
        progress((number + 1) / total)
        if (number + 1) % save_every == 0 or number + 1 == total:
            few = np.random.default_rng((seed, number))  # of its own, so that measuring does not depend on interruptions
            mean_return = evaluate(state.agent.policy, simulator, episodes=10, rng=few).returns.mean()
            curve = np.concatenate([curve, [[state.steps, mean_return]]])
            write_arrays(snapshot, {**state.snapshot(), "round": np.array(number + 1), "curve": curve, "fingerprint": fingerprint})
    policy = state.agent.policy
    mean, sampled = (
        float(evaluate(act, simulator, episodes=training.evaluation_episodes, rng=measuring).returns.mean())
        for act in (policy, lambda observations: policy.sample(observations, sampling))
    )
    return TrainedExpert(seed, policy, state.steps, mean, sampled, curve)


def _training_states(
    simulator: Simulator, training: ExpertTraining, *, first: int, rng: Generator, resume: Snapshot | None
) -> Iterator[TrainingState]:
    """The state at round `first`, and then after every round."""
    end = 0
    for stage, rounds in (*training.curriculum, (simulator, training.rounds)):
        begin, start, end = end, max(first, end), end + rounds
        if resume is not None and start == begin:  # the rollout in the snapshot is of another body
            resume = {name: array for name, array in resume.items() if not name.startswith("rollout ")}
        if start < end or end == training.total_rounds:
            states = train(stage, trpo=training.trpo, reward=training.reward(stage), rng=rng, resume=resume)
            state = next(states)
            if start == first:
                yield state
            for state in islice(states, end - start):
                yield state
            resume = state.snapshot()


def train_and_save(
    simulator: Simulator, training: ExpertTraining, *, name: str, folder: Path, seeds: Sequence[int], progress: Progress = no_progress
) -> dict[str, Any]:
    """Train from every seed and keep the best by mean return on held-out starts, beside a record of how it came about."""
    snapshots = [folder / "training" / f"{name}-{seed}.npz" for seed in seeds]
    experts = []
    for number, (seed, file) in enumerate(zip(seeds, snapshots, strict=True)):
        part = part_of(progress, number / len(seeds), (number + 1) / len(seeds))
        experts.append(train_expert(simulator, training, seed=seed, snapshot=file, progress=part))
    progress(1.0)
    best = max(experts, key=lambda expert: expert.mean_return)
    record = {
        "seed": best.seed,
        "returns_by_seed": {str(each.seed): round(each.mean_return, 2) for each in experts},
        "steps": best.steps,
        "mean_return": round(best.mean_return, 2),
        "sampled_return": round(best.sampled_return, 2),
        "curve": [[int(steps), round(float(value), 2)] for steps, value in best.curve],
    }
    best.policy.save(folder / f"{name}.safetensors")
    write_json(folder / f"{name}.json", record)
    for file in snapshots:
        file.unlink()
    with suppress(OSError):  # snapshots of another training are there
        (folder / "training").rmdir()
    return record
