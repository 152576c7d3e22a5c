"""Which of these demonstrations can my robot imitate, are they worth imitating, and what policy do I get from them?

    from imitable import run, find_task, find_method
    result = run(find_task("driving/slow"), find_method("ours"), seed=0)

Names are imported when first used: `import imitable` costs little, and registers the Gymnasium environments.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from imitable.simulators.gymnasium import register as _register

if TYPE_CHECKING:
    from imitable.arrays import one_thread as one_thread
    from imitable.demonstrations import Demonstrations as Demonstrations, Mixture as Mixture, join as join, mix as mix
    from imitable.errors import ImitableError as ImitableError
    from imitable.evaluation import evaluate as evaluate
    from imitable.experiment import (
        Measurement as Measurement,
        Result as Result,
        Streams as Streams,
        learn as learn,
        run as run,
        weigh as weigh,
    )
    from imitable.experts import Cast as Cast, collect as collect
    from imitable.inverse_dynamics import InverseDynamicsFit as InverseDynamicsFit
    from imitable.learners import Checkpoint as Checkpoint, Cloning as Cloning, Gail as Gail, Learner as Learner
    from imitable.methods import METHODS as METHODS, Method as Method, find_method as find_method
    from imitable.networks import Policy as Policy
    from imitable.problem import Problem as Problem, Settings as Settings, Tolerance as Tolerance, pose as pose
    from imitable.reinforcement import demonstrate as demonstrate
    from imitable.replay import Replay as Replay
    from imitable.sampling import TransitionSampler as TransitionSampler, effective_sample_size as effective_sample_size
    from imitable.scores import (
        feasibility as feasibility,
        naive_optimality as naive_optimality,
        product as product,
        rectified_optimality as rectified_optimality,
        rectified_return as rectified_return,
        uniform as uniform,
    )
    from imitable.simulators import Simulator as Simulator
    from imitable.tasks import TASKS as TASKS, Task as Task, find_task as find_task

_HOME = {
    name: module
    for module, names in {
        "arrays": "one_thread",
        "demonstrations": "Demonstrations Mixture join mix",
        "errors": "ImitableError",
        "evaluation": "evaluate",
        "experiment": "Measurement Result Streams learn run weigh",
        "experts": "Cast collect",
        "inverse_dynamics": "InverseDynamicsFit",
        "learners": "Checkpoint Cloning Gail Learner",
        "methods": "METHODS Method find_method",
        "networks": "Policy",
        "problem": "Problem Settings Tolerance pose",
        "reinforcement": "demonstrate",
        "replay": "Replay",
        "sampling": "TransitionSampler effective_sample_size",
        "scores": "feasibility naive_optimality product rectified_optimality rectified_return uniform",
        "simulators": "Simulator",
        "tasks": "TASKS Task find_task",
    }.items()
    for name in names.split()
}

__all__ = list(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]

_register()


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'imitable' has no attribute {name!r}")
    return getattr(import_module(f"imitable.{_HOME[name]}"), name)
