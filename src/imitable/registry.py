"""Robots, methods and learners by name: a registered one, or anyone's own as `module:object`."""

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from imitable.errors import ImitableError, unknown_name


def find(kind: str, name: str, known: Mapping[str, Any], *, needs: Sequence[str] = ()) -> Any:
    """What is registered under this name, or the object that `module:object` names; of a class, one made without arguments."""
    if name not in known and ":" not in name:
        raise unknown_name(kind, name, known, place=" (your own is given as module:object)" if not known else "")
    found = known.get(name, name)
    found = load_object(kind, found) if isinstance(found, str) else found
    try:
        made = found() if isinstance(found, type) else found
    except TypeError as error:
        raise ImitableError(f"{kind} {name!r} is a class that needs arguments ({error}); name an object made with them") from error
    if missing := [member for member in needs if not hasattr(made, member)]:
        raise ImitableError(f"{kind} {name!r} is a {type(made).__name__}, which has no {' and no '.join(missing)}")
    return made


def load_object(kind: str, name: str) -> Any:
    """The object that `module:object` names; modules in the working directory are found too."""
    module_name, _, path = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *path.split("."))):
        raise ImitableError(f"{kind} {name!r} is not of the form module:object, such as my_robot:ARM")
    if module_name.split(".")[0] != "imitable":
        find_here()
    try:
        found: Any = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name and not module_name.startswith(f"{error.name}."):
            raise
        raise ImitableError(f"{kind} {name!r}: there is no module {error.name!r}; run where it is, or install it") from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise ImitableError(f"{kind} {name!r}: {found.__name__ if hasattr(found, '__name__') else found} has no {part!r}")
        found = getattr(found, part)
    return found


def find_here() -> None:
    """Let modules in the working directory be found."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
