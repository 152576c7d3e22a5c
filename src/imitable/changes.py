"""Numbers of a task replaced by what a user gives as text, such as `sigma=20`."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from imitable.errors import ImitableError, unknown_name
from imitable.tasks import Task


def adjusted(task: Task, assignments: Sequence[str]) -> Task:
    """The task with numbers of its settings or its learner replaced, each given as `name=value` or `part.name=value`.

    A learner built on another one, in its field `gail`, passes on what it does not have itself.
    """
    for assignment in assignments:
        path, separator, text = assignment.partition("=")
        if not separator:
            raise ImitableError(f"{assignment!r} is not of the form name=value, such as sigma=20")
        inner = getattr(task.learner, "gail", None)
        if path.split(".")[0] in _fields(inner) and path.split(".")[0] not in _fields(task.learner):
            path = f"gail.{path}"
        owners = {"settings": task.settings, "learner": task.learner}
        owner = next((name for name, value in owners.items() if path.split(".")[0] in _fields(value)), None)
        if owner is None:
            known = [name for value in (*owners.values(), inner) for name in _fields(value)]
            raise unknown_name("setting", path, known, place=f" of {task.name} with {type(task.learner).__name__}")
        task = dataclasses.replace(task, **{owner: _assigned(owners[owner], path.split("."), text)})
    return task


def _fields(value: Any) -> dict[str, Any]:
    return {} if value is None else {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}


def _assigned(value: Any, path: list[str], text: str) -> Any:
    """A copy of a dataclass with the field at `path` read from text, in the type it has."""
    name, *rest = path
    if name not in _fields(value):
        raise unknown_name("setting", name, _fields(value))
    old = _fields(value)[name]
    if dataclasses.is_dataclass(old) != bool(rest):
        parts = ", ".join(f"{name}.{part}" for part in _fields(old)) if dataclasses.is_dataclass(old) else name
        raise ImitableError(f"cannot set {'.'.join(path)}={text}; set {parts}")
    if rest:
        return dataclasses.replace(value, **{name: _assigned(old, rest, text)})
    try:
        new = _read(text, old)
    except (KeyError, TypeError, ValueError):
        raise ImitableError(f"{name}={text!r} is not a {type(old).__name__}; it is now {old!r}") from None
    return dataclasses.replace(value, **{name: new})


def _read(text: str, old: Any) -> Any:
    """The text as a value of the old one's type."""
    if isinstance(old, bool):
        return {"true": True, "false": False}[text.lower()]
    return tuple(int(part) for part in text.split(",") if text) if isinstance(old, tuple) else type(old)(text)
