"""The paper's methods, and controls: how demonstrations are weighted, and the learner where it is not the task's own."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from imitable.errors import ImitableError
from imitable.paper.controls import Shuffled, Subset
from imitable.paper.tasks import Task
from imitable.registry import find
from imitable.scores import NaiveOptimality, Product, Score, Uniform, product


@dataclass(frozen=True)
class Method:
    """A row of the paper's table."""

    name: str
    summary: str
    score: Callable[[Task], Score]
    """The score, with the numbers that suit the task."""
    learner: str | None = None  # None: the task's own, or the one that is asked for

    def learner_name(self, asked: str | None) -> str | None:
        """Its own learner or the one that is asked for; None: the task's."""
        if asked is not None and self.learner not in (None, asked):
            raise ImitableError(f"method {self.name} is a learner of its own, {self.learner}; leave out --learner {asked}")
        return self.learner or asked


def _uniform(task: Task) -> Score:
    return Uniform()


def _naive(task: Task) -> Score:
    return NaiveOptimality(sigma=task.optimality.sigma)


def ours(task: Task) -> Product:
    """w_f * w_o, eq. 6."""
    return product(task.feasibility, replace(task.optimality, feasibility=task.feasibility))


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("none", "every demonstration counts alike", _uniform),
        Method("sail", "every demonstration alike, by aligning states", _uniform, "sail"),
        Method("ic-gail", "the share that labelled confidences do not explain away", _uniform, "ic-gail"),
        Method("2iwil", "confidence, learned from a labelled share", _uniform, "2iwil"),
        Method("feasibility", "only what the robot can follow: w_f", lambda task: task.feasibility),
        Method("naive", "w_f times optimality against the best return of all", lambda task: product(task.feasibility, _naive(task))),
        Method("optimality", "optimality against the best return of all, whoever can follow it", _naive),
        Method("ours", "w_f times optimality against the best feasible return from nearby starts", ours),
    )
}

CONTROLS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("shuffled", "the weights of ours, dealt out at random", lambda task: Shuffled(ours(task))),
        Method("subset", "a random subset, as large as the weights of ours are effectively worth", lambda task: Subset(ours(task))),
    )
}
"""Methods that show what is luck or mere data reduction; no rows of the paper's."""


def find_method(name: str) -> Method:
    """The method of this name; a user's own as `module:object`, which may be a `Method` or a score."""
    found: Any = find("method", name, METHODS | CONTROLS)
    if isinstance(found, Method):
        return found
    if not callable(found):
        raise ImitableError(f"method {name!r} is a {type(found).__name__}; it must be a Method or a score")
    return Method(name, f"{found}", lambda _: found)
