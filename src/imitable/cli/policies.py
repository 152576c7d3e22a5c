"""Policies that commands are given: a run's, one in a file, anyone's own function, or random actions."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from imitable.arrays import Array, Generator
from imitable.errors import ImitableError
from imitable.networks import Policy
from imitable.registry import find
from imitable.store.runs import POLICY, RunFolder

RANDOM = "random"


def find_policy(name: str, *, example: Array, low: Array, high: Array, rng: Generator) -> Callable[[Array], Array]:
    """What acts on (N, observation): the policy of a run's folder or of a .safetensors file, `module:object`, or `random` actions.

    It must fit the robot: `example` (2, observation) are observations of it, `low` and `high` (action,) the limits of its actions.
    """
    observations, actions = example.shape[1], len(low)
    path = Path(name)
    if name == RANDOM:
        return lambda seen: rng.uniform(low, high, (len(seen), actions))
    if ":" in name and not path.exists():
        act: Callable[[Array], Array] = find("policy", name, {}, needs=("__call__",))
        if (given := np.shape(act(example))) != (2, actions):
            raise ImitableError(f"policy {name!r} gives {given} for 2 observations; the robot needs (2, {actions})")
        return act
    file = path / POLICY if path.is_dir() else path
    if not file.exists():
        raise ImitableError(f"{name} has no policy; give a run's folder, a .safetensors file, module:object or {RANDOM}")
    policy = RunFolder(path).policy() if path.is_dir() else Policy.load(path)
    widths = policy.network.layer_sizes
    if (widths[0], widths[-1]) != (observations, actions):
        raise ImitableError(
            f"the policy of {name} has {widths[0]} observations and {widths[-1]} actions; the robot has {observations} and {actions}"
        )
    return policy
