"""What a task of the paper is: a robot, who demonstrates for it, the numbers of the method, and the learners' numbers that suit it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from imitable.arrays import Array, Generator
from imitable.assessment import Exploration
from imitable.errors import ImitableError
from imitable.inverse_dynamics import InverseDynamicsModel, Learned, Solved
from imitable.learners import LEARNERS, Cloning, Learner
from imitable.paper import TASK_NAMES
from imitable.paper.demonstrators import Demonstrators, Mixture
from imitable.paper.expert_training import ExpertTraining
from imitable.registry import find
from imitable.scores import Feasibility, RectifiedOptimality, ReplayFeasibility
from imitable.simulators import Simulator
from imitable.simulators.gymnasium_env import SimulatorEnv

CLONING = Cloning(updates=20_000)
"""What the runs of the table were made with; the tasks have as many optimal transitions as a robot of one's own seldom has."""


@dataclass(frozen=True)
class Task:
    """One column of the paper's table; `run` takes any, registered or not."""

    name: str
    demonstrators: Demonstrators
    optimality: RectifiedOptimality
    replay_feasibility: ReplayFeasibility = field(default_factory=ReplayFeasibility)
    """The paper's own feasibility, with its numbers; for `--inverse learned`."""
    paper_exploration: Exploration = field(default_factory=Exploration)
    """Of the paper's own inverse dynamics."""
    feasibility: Feasibility | ReplayFeasibility = field(default_factory=Feasibility)
    learner: str = "cloning"  # the name of the one that methods use which do not bring their own
    learners: Mapping[str, Learner] = field(default_factory=dict)
    """Learners whose numbers are not their defaults here, by name."""
    model: InverseDynamicsModel = field(default_factory=Solved)
    exploration: Exploration = field(default_factory=Exploration)
    training: Mapping[str, ExpertTraining] = field(default_factory=dict)
    """How the shipped policies of the target were trained, optimal and suboptimal; hand-made ones are missing."""
    evaluated_on: Simulator | None = None
    """Another simulator of the target, in which policies are evaluated; None: the same."""

    @property
    def robot(self) -> Simulator:
        """The target."""
        return self.demonstrators.target

    @property
    def evaluation_robot(self) -> Simulator:
        """The simulator that policies are evaluated in."""
        return self.robot if self.evaluated_on is None else self.evaluated_on

    def with_model(self, model: InverseDynamicsModel) -> "Task":
        """With another inverse dynamics; the learned one comes with all of the paper's recipe."""
        if not isinstance(model, Learned):
            return replace(self, model=model)
        optimality = replace(self.optimality, feasible_above=0.0)
        recipe = {"feasibility": self.replay_feasibility, "exploration": self.paper_exploration, "optimality": optimality}
        return replace(self, model=model, **recipe)  # type: ignore[arg-type]

    def find_learner(self, name: str | None = None) -> Learner:
        """The learner of this name with the numbers that suit the task; None: the task's own; `module:object`: a user's."""
        name = self.learner if name is None else name
        if name in self.learners:
            return self.learners[name]
        if name == "cloning":
            return CLONING
        learner: Learner = find("learner", name, LEARNERS, needs=("__call__",))
        if name in LEARNERS and "gail" in {each.name for each in fields(learner)}:  # type: ignore[arg-type]
            learner = replace(learner, gail=self.find_learner("gail"))  # type: ignore[type-var]
        return learner


@cache
def _registered(name: str) -> Task:
    body, _, dynamics = name.partition("/")
    task: Task = import_module(f"imitable.paper.{body}").task(dynamics)
    return task


@cache
def published() -> dict[str, dict[str, Any]]:
    """The paper's returns by method, and the mean return that `ours` is to reach, of every task."""
    table: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "published.json").read_text())
    return table


def find_task(name: str) -> Task:
    """The task of this name, or a user's own as `module:object`."""
    if name in TASK_NAMES:
        return _registered(name)
    task = find("task", name, dict.fromkeys(TASK_NAMES))
    if not isinstance(task, Task):
        raise ImitableError(f"task {name!r} is a {type(task).__name__}; it must be an imitable.Task")
    return replace(task, name=name)  # by which others find it again


def task_without_demonstrators(name: str, robot: Simulator) -> Task:
    """A robot as a task with the default numbers, for methods that score demonstrations which others made."""

    def nobody(observations: Array, rng: Generator) -> Array:
        raise ImitableError(f"robot {name!r} has no demonstrators of its own; give it demonstrations")

    mixture = Mixture(optimal=1.0, suboptimal=0.0, other_dynamics=0.0)
    return Task(name, Demonstrators(robot, robot, nobody, nobody, nobody, mixture), RectifiedOptimality())


def make_environment(task: str, render_mode: str | None = None, **settings: Any) -> SimulatorEnv:
    """The Gymnasium environment of a task's target, the one in which policies are evaluated."""
    return SimulatorEnv(find_task(task).evaluation_robot, render_mode=render_mode, **settings)
