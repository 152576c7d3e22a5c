"""Numbers of a task or its learner replaced by what a user gives as text, such as `sigma=20`."""

import dataclasses
from collections.abc import Sequence
from typing import Any, get_args, get_type_hints

from imitable.errors import ImitableError, unknown_name
from imitable.learners import Learner
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


def with_replaced(owners: dict[str, Any], assignments: Sequence[str], *, place: str) -> dict[str, Any]:
    """The owners of numbers, the learner first, with numbers replaced."""
    for assignment in assignments:
        path, separator, text = assignment.partition("=")
        if not separator:
            raise ImitableError(f"{assignment!r} is not of the form name=value, such as sigma=20")
        owner, names = _locate(owners, path.split("."), place=place)
        owners = owners | {owner: _assigned(owners[owner], names, text)}
    return owners


def _locate(owners: dict[str, Any], names: list[str], *, place: str) -> tuple[str, list[str]]:
    """Which owner has the field, and the names that lead to it from there."""
    if names[0] in owners and len(names) > 1:
        return names[0], names[1:]
    for owner, value in owners.items():
        if names[0] in _fields(value):
            return owner, names
        if names[0] in _fields(inner := _fields(value).get("gail")) and inner is not None:
            return owner, ["gail", *names]
    known = [name for value in (*owners.values(), getattr(owners["learner"], "gail", None)) for name in _fields(value)]
    raise unknown_name("setting", ".".join(names), known, place=place)


def _fields(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else {}


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
    kind = get_type_hints(type(value))[name]
    if text == "none" and type(None) in get_args(kind):
        return dataclasses.replace(value, **{name: None})
    kinds = [each for each in (get_args(kind) if old is None or type(None) in get_args(kind) else (type(old),)) if each is not type(None)]
    try:
        new = _read(text, kinds[0])
    except (KeyError, TypeError, ValueError):
        wanted = getattr(kinds[0], "__name__", str(kinds[0]))
        raise ImitableError(f"{name}={text!r} is not a {wanted}; it is now {old!r}") from None
    return dataclasses.replace(value, **{name: new})


def _read(text: str, kind: Any) -> Any:
    """The text as a value of this type."""
    if kind is bool:
        return {"true": True, "false": False}[text.lower()]
    if kind is tuple or getattr(kind, "__origin__", None) is tuple:
        return tuple(int(part) for part in text.split(",") if text)
    return kind(text)
