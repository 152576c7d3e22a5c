"""A log, line by line."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from imitable.errors import ImitableError


@contextmanager
def json_lines(path: Path) -> Iterator[Callable[[Any], None]]:
    """Write what it is called with as one line of JSON each, on disk before the next: a log that survives whoever writes it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w", encoding="utf-8")
    except OSError as error:
        raise ImitableError(f"cannot write {path}: {error.strerror}; give another place") from error
    with file:

        def write(content: Any) -> None:
            file.write(json.dumps(content) + "\n")
            file.flush()

        yield write
