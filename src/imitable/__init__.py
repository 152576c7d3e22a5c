"""Which of these demonstrations can my robot imitate, are they worth imitating, and what policy do I get from them?

    from imitable import run, find_task, find_method
    result = run(find_task("driving/slow"), find_method("ours"), seed=0)

Names are imported when first used: `import imitable` costs little, and registers the Gymnasium environments.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from imitable.simulators.gymnasium import register as _register

if TYPE_CHECKING:
    from imitable.demonstrations import Demonstrations, Mixture, join, mix
    from imitable.errors import ImitableError
    from imitable.evaluation import evaluate
    from imitable.experiment import Measurement, Result, learn, run, weigh
    from imitable.experts import Cast, collect
    from imitable.learners import Checkpoint, Cloning, Gail, Learner
    from imitable.methods import METHODS, Method, find_method
    from imitable.networks import Policy
    from imitable.problem import Problem, Settings, Tolerance, pose
    from imitable.replay import Replay, replay
    from imitable.sampling import TransitionSampler, effective_sample_size
    from imitable.scorecard import scorecard
    from imitable.scores import feasibility, naive_optimality, product, rectified_optimality, rectified_return, uniform
    from imitable.simulators import Simulator
    from imitable.tasks import TASKS, Task, find_task

_HOMES = {
    "demonstrations": ("Demonstrations", "Mixture", "join", "mix"),
    "errors": ("ImitableError",),
    "evaluation": ("evaluate",),
    "experiment": ("Measurement", "Result", "learn", "run", "weigh"),
    "experts": ("Cast", "collect"),
    "learners": ("Checkpoint", "Cloning", "Gail", "Learner"),
    "methods": ("METHODS", "Method", "find_method"),
    "networks": ("Policy",),
    "problem": ("Problem", "Settings", "Tolerance", "pose"),
    "replay": ("Replay", "replay"),
    "sampling": ("TransitionSampler", "effective_sample_size"),
    "scorecard": ("scorecard",),
    "scores": ("feasibility", "naive_optimality", "product", "rectified_optimality", "rectified_return", "uniform"),
    "simulators": ("Simulator",),
    "tasks": ("TASKS", "Task", "find_task"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    *("Demonstrations", "Mixture", "join", "mix", "ImitableError", "evaluate", "Measurement", "Result", "learn", "run", "weigh"),
    *("Cast", "collect", "Checkpoint", "Cloning", "Gail", "Learner", "METHODS", "Method", "find_method", "Policy", "Problem"),
    *("Settings", "Tolerance", "pose", "Replay", "replay", "TransitionSampler", "effective_sample_size", "scorecard"),
    *("feasibility", "naive_optimality", "product", "rectified_optimality", "rectified_return", "uniform", "Simulator"),
    *("TASKS", "Task", "find_task"),
]

_register()


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'imitable' has no attribute {name!r}")
    return getattr(import_module(f"imitable.{_HOME[name]}"), name)
