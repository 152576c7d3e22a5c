"""What a learner is: a generator of policies. It knows no loggers and no files; the caller watches, saves and stops."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from imitable.arrays import Array, Generator
from imitable.networks import Adam, Policy
from imitable.problem import Problem
from imitable.reinforcement import Agent

Snapshot = Mapping[str, np.ndarray[Any, Any]]
"""Named arrays from which a learner goes on exactly as if it had never stopped."""


@dataclass(frozen=True)
class Checkpoint:
    """A policy on the way."""

    policy: Policy
    steps: int
    """Environment steps taken so far; updates for a learner that takes none."""
    progress: float
    """Share of the learning that is done, in [0, 1]."""
    snapshot: Snapshot
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    diverged: int = 0
    """Simulations that broke down and were ended, so far."""


class Learner(Protocol):
    """A frozen dataclass of hyper-parameters that learns when called."""

    def __call__(self, problem: Problem, weights: Array, *, rng: Generator, resume: Snapshot | None = None) -> Iterator[Checkpoint]: ...


def generator_state(rng: Generator) -> np.ndarray[Any, Any]:
    """A generator's state as an array of bytes."""
    return np.frombuffer(json.dumps(rng.bit_generator.state).encode(), dtype=np.uint8)


def restore_generator(rng: Generator, state: np.ndarray[Any, Any]) -> None:
    """Put a generator back where `generator_state` found it."""
    rng.bit_generator.state = json.loads(state.tobytes())


def adam_arrays(name: str, memory: Adam) -> dict[str, np.ndarray[Any, Any]]:
    """An optimiser's memory as named arrays."""
    return {f"{name} first": memory.first.copy(), f"{name} second": memory.second.copy(), f"{name} count": np.array(memory.steps)}


def restore_adam(fresh: Adam, name: str, snapshot: Snapshot) -> Adam:
    """The optimiser whose memory `adam_arrays` named."""
    return replace(
        fresh, first=snapshot[f"{name} first"].copy(), second=snapshot[f"{name} second"].copy(), steps=int(snapshot[f"{name} count"])
    )


def agent_arrays(agent: Agent) -> dict[str, np.ndarray[Any, Any]]:
    """Everything an agent has learned, as named arrays."""
    policy = agent.policy
    return {
        "policy": policy.parameters,
        "spread": policy.log_spread,
        "centre": policy.centre,
        "scale": policy.scale,
        "critic": agent.critic,
    } | adam_arrays("critic", agent.critic_memory)


def restore_agent(fresh: Agent, snapshot: Snapshot) -> Agent:
    """The agent that `agent_arrays` described, on the networks of a fresh one."""
    policy = replace(
        fresh.policy,
        parameters=snapshot["policy"],
        log_spread=snapshot["spread"],
        centre=snapshot["centre"],
        scale=snapshot["scale"],
    )
    return Agent(policy, snapshot["critic"], restore_adam(fresh.critic_memory, "critic", snapshot))
