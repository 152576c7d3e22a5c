"""Pictures of scores and policies."""

from pathlib import Path


def draw_scores(card, tolerance, path: Path) -> None: ...
