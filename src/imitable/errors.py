"""Mistakes a user can make and fix; the command line prints them without a traceback. What holds of fields of settings."""

import difflib
from collections.abc import Iterable

LATER = {"later": True}
"""Metadata of a dataclass's field that was added when runs had been stored: at its default a description leaves it out, so that theirs
still hold (`store.cache.describe`)."""


class ImitableError(ValueError):
    """Names the offender, its value and the way out."""


def unknown_name(kind: str, name: str, known: Iterable[str], *, place: str = "", forms: str = "") -> ImitableError:
    """The error for a name that is not in a registry, with the nearest ones that are, and the forms it may have instead.

    Where none is near all are listed, unless there are such forms.
    """
    known = list(known)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5 if forms else 0.4)
    hint = f"; did you mean {' or '.join(near)}?" if near else "." if forms else f"; known: {', '.join(known)}"
    return ImitableError(f"unknown {kind} {name!r}{place}{hint} {forms}".rstrip())


Rule = tuple[str, bool, str]
"""The name of a dataclass's field, whether it fits, and what it must be."""


def at_least(owner: object, bound: float, *names: str) -> list[Rule]:
    """The rules for fields with a smallest number."""
    return [(name, getattr(owner, name) >= bound, f"at least {bound:g}") for name in names]


def above(owner: object, bound: float, *names: str) -> list[Rule]:
    """The rules for fields that must exceed a number."""
    return [(name, getattr(owner, name) > bound, f"above {bound:g}") for name in names]


def layer_sizes(name: str, sizes: tuple[int, ...]) -> Rule:
    """The rule for a field that holds the sizes of hidden layers; there may be none."""
    return name, min(sizes, default=1) >= 1, "sizes of at least 1"


def check_fields(owner: object, *rules: Rule) -> None:
    """Refuse a dataclass in which a field does not fit."""
    for name, fits, wanted in rules:
        if not fits:
            raise ImitableError(f"{type(owner).__name__}.{name} is {getattr(owner, name)!r}; it must be {wanted}")
