"""Names from files, as they may be shown: without control characters, not too long, not too many, and not as markup."""

import html
from collections import Counter
from typing import Any

import numpy as np

MESSAGE, NAME, SOURCES = 2000, 60, 20
"""The most characters of a message and of a name, and the most sources, that are shown."""


def escaped(text: object, *, limit: int = NAME) -> str:
    """One line that a terminal takes for text: what is not printable is written \\x1b, \\n, \\u202e; a long one loses its middle."""
    shown = "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in str(text)[: 2 * limit])
    if len(str(text)) <= limit and len(shown) <= 4 * limit:
        return shown
    tail = "".join(each if each.isprintable() else "?" for each in str(text)[-limit // 2 :])
    return f"{shown[: limit - limit // 2 - 1]}…{tail}"


def for_picture(text: object) -> str:
    """The same for matplotlib, which takes dollar signs for formulas."""
    return escaped(text, limit=40).replace("$", r"\$")


def for_html(text: object, *, limit: int = MESSAGE) -> str:
    return html.escape(escaped(text, limit=limit))


def fold_sources(labels: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """(demo,) the labels, with all but the most frequent ones counted together where there are too many to show."""
    counts = Counter(map(str, labels))
    if len(counts) <= SOURCES:
        return labels
    shown = {source for source, _ in counts.most_common(SOURCES - 1)}
    others = f"{len(counts) - len(shown)} other sources"
    return np.array([label if str(label) in shown else others for label in labels])
