"""Numbers of dataclasses, such as learners and scores, replaced by what a user gives as text, such as `updates=500`."""

import dataclasses
from collections.abc import Sequence
from typing import Any, get_args, get_type_hints

from imitable.errors import ImitableError, unknown_name
from imitable.scores import Product

NAMED = {int: "a whole number", float: "a number", bool: "true or false", tuple: "a list of numbers, such as 100,100"}
"""Kinds of values, for messages."""


def with_replaced(owners: dict[str, Any], assignments: Sequence[str], *, place: str) -> dict[str, Any]:
    """The owners of numbers, by name, with numbers replaced; each is given as `name=value` or, where names repeat, `owner.name=value`.

    A name that several owners have is the first one's.
    """
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
    inner = [getattr(value, "gail", None) for value in owners.values()]
    known = [name for value in (*owners.values(), *inner) for name in _fields(value)]
    raise unknown_name("setting", ".".join(names), known, place=place)


def _fields(value: Any) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else {}


def _assigned(value: Any, path: list[str], text: str) -> Any:
    """A copy of a dataclass with the field at `path` read from text, in the type it has."""
    name, *rest = path
    if isinstance(value, Product) and name not in _fields(value):
        return _assigned_factor(value, path, text)
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
        wanted = NAMED.get(kinds[0]) or f"a {getattr(kinds[0], '__name__', kinds[0])}"
        raise ImitableError(f"{name}={text!r} is not {wanted}; it is now {old!r}") from None
    return dataclasses.replace(value, **{name: new})


def _assigned_factor(product: Product, path: list[str], text: str) -> Product:
    """A copy of a product with a field of one factor read from text: of the only one that has it, or of the one whose class comes first."""
    names = [type(factor).__name__ for factor in product.factors]
    found = [at for at, name in enumerate(names) if name == path[0]]
    rest = path[1:] if found else path
    found = found or [at for at, factor in enumerate(product.factors) if rest[0] in _names(factor)]
    if not found:
        raise unknown_name("setting", path[0], _names(product))
    if len(found) > 1 or not rest:
        owners = " and ".join(f"{name}.{rest[0] if rest else 'NAME'}" for name in (names[at] for at in found))
        raise ImitableError(f"{'.'.join(path)}={text} does not say which setting of which factor; set {owners}")
    factors = list(product.factors)
    factors[found[0]] = _assigned(factors[found[0]], rest, text)
    return dataclasses.replace(product, factors=tuple(factors))


def _names(score: Any) -> list[str]:
    """Of the fields that can be set; of a product, those of its factors."""
    return [name for factor in score.factors for name in _names(factor)] if isinstance(score, Product) else list(_fields(score))


def _read(text: str, kind: Any) -> Any:
    """The text as a value of this type."""
    if kind is bool:
        return {"true": True, "false": False}[text.lower()]
    if kind is tuple or getattr(kind, "__origin__", None) is tuple:
        return tuple(int(part) for part in text.split(",") if text)
    return kind(text)
