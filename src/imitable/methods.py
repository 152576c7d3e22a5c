"""The methods that come with the package: a score, and the learner where it is not the task's own."""

from collections.abc import Callable
from dataclasses import dataclass

from imitable.errors import unknown_name
from imitable.learners import Gail, IcGail, Learner, Sail, TwoIwil
from imitable.scores import Score, confidence, feasibility, naive_optimality, product, rectified_optimality, uniform
from imitable.tasks import Task


def own(task: Task) -> Learner:
    """The task's own learner."""
    return task.learner


def _gail(task: Task) -> Gail:
    """The task's GAIL."""
    return task.gail or (task.learner if isinstance(task.learner, Gail) else Gail())


@dataclass(frozen=True)
class Method:
    """How demonstrations are weighed, and what learns from them."""

    name: str
    summary: str
    score: Score
    learner: Callable[[Task], Learner] = own
    sampled: bool = True  # demonstrations are drawn by their score; else all alike, and the score tells the learner what they are worth


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("none", "every demonstration counts alike", uniform),
        Method("sail", "every demonstration alike, by aligning states", uniform, lambda _: Sail()),
        Method(
            "ic-gail",
            "the share that labelled confidences do not explain away",
            confidence,
            lambda task: IcGail(gail=_gail(task)),
            sampled=False,
        ),
        Method("2iwil", "confidence, learned from a labelled share", confidence, lambda task: TwoIwil(gail=_gail(task)), sampled=False),
        Method("feasibility", "only what the target can follow: w_f", feasibility),
        Method("naive", "w_f times optimality against the best return of all", product(feasibility, naive_optimality)),
        Method("optimality", "optimality against the best return of all, whoever can follow it", naive_optimality),
        Method(
            "ours", "w_f times optimality against the best feasible return from nearby starts", product(feasibility, rectified_optimality)
        ),
    )
}


def find_method(name: str) -> Method:
    """The registered method of this name."""
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    return METHODS[name]
