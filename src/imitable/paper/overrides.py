"""Numbers of a task or its learner replaced by what a user gives as text, such as `sigma=20`."""

import dataclasses
from collections.abc import Sequence

from imitable.learners import Learner
from imitable.overrides import with_replaced
from imitable.paper.tasks import Task

PARTS = ("feasibility", "optimality", "exploration", "model")
"""Of a task, whose numbers can be replaced; those of the learner come first."""


def with_overrides(task: Task, learner: Learner, assignments: Sequence[str]) -> tuple[Task, Learner]:
    """The task and the learner with numbers replaced, each given as `name=value` or, where names repeat, as `part.name=value`.

    A learner built on another one, in its field `gail`, passes on what it does not have itself.
    """
    owners = {"learner": learner, **{part: getattr(task, part) for part in PARTS}}
    replaced = with_replaced(owners, assignments, place=f" of {task.name} with {type(learner).__name__}")
    changed = {part: replaced[part] for part in PARTS if replaced[part] is not owners[part]}
    return dataclasses.replace(task, **changed) if changed else task, replaced["learner"]
