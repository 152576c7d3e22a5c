"""A few small numbers of every stage, with the versions they belong to; run as a script (`make golden`), it rewrites golden.json.

What is kept on disk counts as long as the version of the stage that made it is the same. So a change of a stage's numbers must come
with a higher version: `tests/test_golden.py` fails otherwise, and this script refuses to write.
"""

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import cart
import tiny
import turntable
from imitable.arrays import Array, Generator, one_thread
from imitable.assessment import ASSESS_VERSION, Exploration, assess
from imitable.demonstrations import Demonstrations, join
from imitable.evaluation import evaluate
from imitable.inverse_dynamics import Learned, Solved
from imitable.learners import LEARN_VERSION
from imitable.paper import PAIRS, driving
from imitable.paper.demonstrators import COLLECT_VERSION, SOURCES, collect
from imitable.paper.tasks import find_task
from imitable.rollouts import run_episodes
from imitable.sampling import TransitionSampler

GOLDEN = Path(__file__).parent / "golden.json"
Numbers = dict[str, list[float]]
Record = dict[str, dict[str, Any]]
"""Stages by name, each with its versions, its numbers, and how much these may differ."""


@dataclass(frozen=True)
class Stage:
    """What decides a stage's numbers, and how they are made."""

    versions: Mapping[str, int]
    make: Callable[[], Numbers]
    tolerance: float = 2e-5
    """Relative, and more than rounding to six digits does. Another processor adds up in another order, which a few updates of networks
    in single precision carry to the fifth digit."""


def wander(observations: Array, rng: Generator) -> Array:
    return rng.uniform(-1.0, 1.0, (len(observations), 1))


def drives(robot: driving.Driving, *, count: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return run_episodes(robot, lambda seen: driving.drive(seen, rng), count=count, rng=rng).trajectories


def collected() -> Numbers:
    demonstrators = replace(find_task("driving/slow").demonstrators, suboptimal=wander)
    made = collect(demonstrators, count=12, rng=np.random.default_rng(0))
    return {
        "lengths": made.lengths.tolist(),
        "returns": made.returns.tolist(),
        "sources": [float(SOURCES.index(source)) for source in made.sources or ()],
        "last observations": made.observations[made.starts + made.lengths].sum(axis=1).tolist(),
    }


def assessed() -> Numbers:
    given = join([drives(driving.SLOW, count=3, seed=0), drives(driving.FAST, count=2, seed=1)])
    found: Numbers = {}
    for name, model, exploration in (
        # Few epochs: more would carry how a processor adds up from the sixth digit to the fourth.
        ("learned", Learned(epochs=3, batch_size=64), Exploration(episodes=5, steps=None)),
        ("solved", Solved(), Exploration(episodes=10, steps=20)),
    ):
        assessment = assess(given, driving.SLOW, model=model, exploration=exploration, rng=np.random.default_rng(2))
        plain, perturbed = assessment.own_replays(0.01)
        actions, usable = assessment.recovered_actions(np.ones(given.lengths.sum(), bool))
        tracked = assessment.tracked
        found |= {
            f"{name}: step scale": assessment.step_scale.tolist(),
            f"{name}: replay": assessment.replay.distances().tolist(),
            f"{name}: own replays": [*plain.distances().tolist(), *perturbed.distances().tolist()],
            f"{name}: recovered actions": [float(usable.sum()), float(actions.mean()), float(actions.std()), *actions[:3, 0].tolist()],
            f"{name}: windows": [
                float(tracked.length),
                *np.quantile(tracked.random_windows.distances, [0.5, 0.95]),
                *tracked.demonstration_windows.distances[::20],
            ],
        }
    return found | pushed()


def pushed() -> Numbers:
    """Windows of a robot that shows all of its state, without noise and with it."""
    found: Numbers = {}
    given = join([cart.pushes(3, seed=0, gentle=0.4), cart.pushes(3, seed=1, strengths=2.0)])
    for name, noise in (("cart", 0.0), ("noisy cart", 0.01)):
        observations = given.observations + noise * np.random.default_rng(0).standard_normal(given.observations.shape)
        shown = Demonstrations(observations, given.lengths, given.returns)
        assessment = assess(shown, cart.CART, exploration=Exploration(episodes=10, steps=40), rng=np.random.default_rng(2))
        tracked = assessment.tracked
        found[f"{name}: windows"] = [
            *(assessment.noise, float(tracked.length), *np.quantile(tracked.random_windows.distances, [0.5, 0.95])),
            *tracked.demonstration_windows.distances[:6],
        ]
        found[f"{name}: weights"] = assessment.scored(assessment.default_score).tolist()
    return found


def learned() -> Numbers:
    given = turntable.mixed(own=6, other=4)
    assessment = turntable.assessed(given)
    weights = assessment.weights(turntable.OURS)
    sampler, rng = TransitionSampler(given, weights), np.random.default_rng(0)
    found = {"weights": weights.tolist(), "drawn": sampler.draw_indices(5, rng).tolist()}
    found["returns"] = evaluate(lambda seen: turntable.turn_to_goal(seen, rng), assessment.robot, episodes=3, rng=rng).returns.tolist()
    for name, learner in tiny.LEARNERS.items():
        first = next(iter(learner(assessment, np.linspace(0.1, 1.0, 10), rng=np.random.default_rng(0))))
        actions = first.policy(given.observations)
        found[name] = [
            float(first.steps),
            float(np.abs(first.policy.parameters).sum()),
            float(np.abs(actions).mean()),
            float(actions.std()),
        ]
    return found


def stepped(body: str) -> Numbers:
    """Three steps of both dynamics of a body."""
    found: Numbers = {}
    for dynamics in PAIRS[body]:
        robot, rng = find_task(f"{body}/{dynamics}").robot, np.random.default_rng(0)
        states, rewards = robot.initial_states(4, rng), []
        found[f"{dynamics}: starts"] = robot.observe(states).sum(axis=1).tolist()
        for _ in range(3):
            actions = rng.uniform(robot.action_low, robot.action_high, (4, len(robot.action_low)))
            before, states = states, robot.step(states, actions)
            rewards.append(float(robot.reward(before, actions, states).sum()))
        found[f"{dynamics}: observations"] = robot.observe(states).sum(axis=1).tolist()
        found[f"{dynamics}: rewards"] = rewards
        found[f"{dynamics}: restored"] = robot.restore(robot.observe(states)).sum(axis=1).tolist()
        found[f"{dynamics}: terminated"] = robot.terminated(states).astype(float).tolist()
    return found


def body_version(body: str) -> int:
    """Of the one class in the body's module that has a version of its own."""
    module = import_module(f"imitable.paper.{body}")
    (version,) = {
        each.version
        for each in vars(module).values()
        if isinstance(each, type) and each.__module__ == module.__name__ and "version" in vars(each)
    }
    return int(version)


def stages() -> dict[str, Stage]:
    """Every stage that has a version; those above it that its numbers depend on count too."""
    car = {"driving": body_version("driving")}
    return {
        "collect": Stage({"collect": COLLECT_VERSION, **car}, collected),
        "assess": Stage({"assess": ASSESS_VERSION, **car}, assessed, tolerance=2e-4),
        "learn": Stage({"learn": LEARN_VERSION, "assess": ASSESS_VERSION}, learned, tolerance=2e-4),
        **{body: Stage({body: body_version(body)}, lambda body=body: stepped(body)) for body in PAIRS},
    }


@one_thread()
def measured(stage: Stage) -> dict[str, Any]:
    """A stage's versions and numbers, these to six digits."""
    numbers = {name: [float(f"{value:.6g}") for value in values] for name, values in stage.make().items()}
    return {"versions": dict(stage.versions), "tolerance": stage.tolerance, "numbers": numbers}


def differing(found: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Names of numbers that are not what they were."""
    names = dict.fromkeys([*found["numbers"], *stored["numbers"]])
    return [name for name in names if not _alike(found["numbers"].get(name), stored["numbers"].get(name), stored["tolerance"])]


def _alike(some: list[float] | None, others: list[float] | None, tolerance: float) -> bool:
    if some is None or others is None or len(some) != len(others):
        return False
    return bool(np.allclose(some, others, rtol=tolerance, atol=1e-9))


def raised(found: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    """Whether a version is higher than it was, and none is lower."""
    now, before = found["versions"], stored["versions"]
    return any(now[name] > before.get(name, 0) for name in now) and all(now.get(name, 0) >= before[name] for name in before)


def refusal(name: str, found: Mapping[str, Any], stored: Mapping[str, Any]) -> str | None:
    """Why a stage's numbers may not replace the stored ones; None where they may."""
    if not (changed := differing(found, stored)) or raised(found, stored):
        return None
    return (
        f"the numbers of {name} have changed ({', '.join(changed)}), but its version {dict(found['versions'])} is not higher than "
        f"{dict(stored['versions'])}: results that are kept would count although they are others. Raise the version and run `make golden`"
    )


def rewrite(path: Path, found: Record) -> list[str]:
    """Write what has changed, unless a stage may not be rewritten; the reasons."""
    stored: Record = json.loads(path.read_text()) if path.exists() else {}
    refusals = [why for name in found if name in stored and (why := refusal(name, found[name], stored[name]))]
    if not refusals:
        for name in found.keys() & stored.keys():
            if found[name]["versions"] == stored[name]["versions"] and not differing(found[name], stored[name]):
                found = {**found, name: stored[name]}  # what only rounds differently on this machine stays
        text = json.dumps(found, indent=1) + "\n"
        path.write_text(re.sub(r"\[[^]]*\]", lambda numbers: " ".join(numbers[0].split()), text))  # a line for each list
    return refusals


if __name__ == "__main__":
    if refusals := rewrite(GOLDEN, {name: measured(stage) for name, stage in stages().items()}):
        sys.exit("\n".join(refusals))
