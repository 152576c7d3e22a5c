"""What takes minutes to make and was made before, on disk: demonstrations and posed problems, named by all that decides them.

They are in a folder of the user's cache, or in the one that IMITABLE_CACHE names, and can be deleted at any time.
"""

import dataclasses
import json
import os
import platform
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from imitable.arrays import one_thread
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.experiment import Streams, gather
from imitable.experts import Composition
from imitable.files import UNREADABLE, read_arrays, write_arrays
from imitable.inverse_dynamics import InverseDynamicsFit, LearnedInverseDynamics
from imitable.problem import Problem, Tolerance, pose
from imitable.replay import Replay
from imitable.tasks import TASKS, Task

CACHE = "IMITABLE_CACHE"
"""Environment variable: the folder where things are kept; ~/.cache/imitable where it is unset."""


@one_thread()
def kept_or_gathered(
    task: Task, *, seed: int, count: int = 1000, composition: Composition = "paper", watch: Callable[[float], None] = lambda share: None
) -> Demonstrations:
    """The task's demonstrations, from disk if the same ones were collected before; only a registered task's, whose making is known."""
    if task.name not in TASKS or task.cast is not TASKS[task.name].cast:
        return gather(task, seed=seed, count=count, composition=composition, watch=watch)
    kept = _place({"task": task.name, "seed": seed, "count": count, "composition": composition})
    if kept.exists():
        with suppress(ImitableError):  # damaged: made anew
            return Demonstrations.load(kept)
    demonstrations = gather(task, seed=seed, count=count, composition=composition, watch=watch)
    with suppress(ImitableError):  # nowhere to keep it: no loss but time
        demonstrations.save(kept, compressed=False)
    return demonstrations


def kept_or_posed(demonstrations: Demonstrations, task: Task, *, seed: int, watch: Callable[[float], None] = lambda share: None) -> Problem:
    """The posed problem, from disk if another method posed the same one, or an interrupted run; only on a registered task's target."""
    target, settings, rng = task.target, task.settings, Streams(seed).posing()
    registered = task.name in TASKS and target is TASKS[task.name].target
    if not registered or type(settings.fit) is not InverseDynamicsFit:  # whoever fits otherwise may change how
        return pose(demonstrations, target, settings=settings, rng=rng, watch=watch)
    shown = sha256()
    for array in (demonstrations.states, demonstrations.lengths, demonstrations.returns):
        shown.update(np.ascontiguousarray(array).data)
    decisive = {name: value for name, value in describe(settings).items() if name not in ("sigma", "radius")}  # those come after posing
    kept = _place({"task": task.name, "seed": seed, "settings": decisive, "demonstrations": shown.hexdigest()})
    if kept.exists():
        with suppress(KeyError, RuntimeError, *UNREADABLE):  # damaged: made anew
            return _problem(read_arrays(kept), demonstrations, task)
    problem = pose(demonstrations, target, settings=settings, rng=rng, watch=watch)
    with suppress(ImitableError):
        write_arrays(kept, _arrays(problem))
    return problem


def _arrays(problem: Problem) -> dict[str, np.ndarray[Any, Any]]:
    """All of a problem that posing it took time for."""
    assert isinstance(problem.inverse_dynamics, LearnedInverseDynamics)
    replay, tolerance = problem.replay, problem.tolerance
    return {
        **{f"replay {each.name}": getattr(replay, each.name) for each in dataclasses.fields(replay)},
        **{f"f_id {name}": array for name, array in problem.inverse_dynamics.arrays().items()},
        "tolerance": np.array([tolerance.closest, tolerance.farthest]),
        "own distances": problem.own_distances,
        "step scale": problem.step_scale,
        "diverged": np.array(problem.diverged),
    }


def _problem(kept: dict[str, np.ndarray[Any, Any]], demonstrations: Demonstrations, task: Task) -> Problem:
    """The problem that `_arrays` described."""
    learned = {name.removeprefix("f_id "): array for name, array in kept.items() if name.startswith("f_id ")}
    closest, farthest = kept["tolerance"].tolist()
    return Problem(
        demonstrations=demonstrations.without_sources(),
        target=task.target,
        settings=task.settings,
        inverse_dynamics=LearnedInverseDynamics.restored(learned, task.target),
        replay=Replay(**{each.name: kept[f"replay {each.name}"] for each in dataclasses.fields(Replay)}),
        tolerance=Tolerance(closest, farthest),
        own_distances=kept["own distances"],
        step_scale=kept["step scale"],
        diverged=int(kept["diverged"]),
    )


def _place(recipe: dict[str, Any]) -> Path:
    """The file whose name is a hash of the recipe, of this package's files and of what it runs on."""
    folder = Path(os.environ.get(CACHE) or Path.home() / ".cache" / "imitable")
    return folder / f"{sha256(json.dumps({**recipe, 'versions': versions(), 'files': own_files()}).encode()).hexdigest()}.npz"


@cache
def own_files() -> str:
    """A hash of what makes demonstrations and poses problems: code, models and policies."""
    package = Path(__file__).parent
    makers = [path for path in package.glob("*.py") if path.stem not in BYSTANDERS]
    made_with = [path for path in package.rglob("*") if path.suffix in (".xml", ".safetensors") or path.parent.name == "simulators"]
    return _hash_of({*makers, *made_with})


@cache
def all_code() -> str:
    """A hash of every module of the package."""
    return _hash_of(set(Path(__file__).parent.rglob("*.py")))


def _hash_of(paths: set[Path]) -> str:
    digest = sha256()
    for path in sorted(paths):
        digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()


BYSTANDERS = (
    "__init__",
    "__main__",
    "changes",
    "cli",
    "errors",
    "evaluation",
    "files",
    "methods",
    "runs",
    "sampling",
    "scorecard",
    "sweep",
)
"""Modules of the package that neither make demonstrations nor pose problems."""


def describe(value: Any) -> Any:
    """A configuration as plain JSON values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {each.name: describe(getattr(value, each.name)) for each in dataclasses.fields(value)}
        return {"kind": type(value).__name__, **fields}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [describe(each) for each in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    if callable(value):
        return f"{value.__module__}.{value.__qualname__}"
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def versions() -> dict[str, str]:
    """What the numbers depend on."""
    packages = ("imitable", "numpy", "scipy", "torch", "mujoco", "gymnasium")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}
