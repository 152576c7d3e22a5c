"""A folder of scores: the demonstrations, what was found of them, and what a training needs to go on."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.formats import npz
from imitable.store.files import UnreadableError, check_writable, read_json, read_table, write_json, write_table
from imitable.store.locks import locked
from imitable.verdicts import Table

SETTINGS, DEMONSTRATIONS = "settings.json", "demonstrations.npz"
SCORES, STEPS, PICTURE = "scores.parquet", "steps.parquet", "scores.png"


@dataclass(frozen=True)
class ScoreFolder:
    """settings.json, demonstrations.npz (a copy), scores.parquet, steps.parquet and, if there is something to draw, scores.png."""

    path: Path

    @contextmanager
    def open(self, *, overwrite: bool) -> Iterator[None]:
        """Keep other processes out, and refuse, before any work is done, to touch what is there."""
        self._check_writable(overwrite=overwrite)
        with locked(self.path):
            self._check_writable(overwrite=overwrite)  # the last process that held it may have written just now
            yield

    def _check_writable(self, *, overwrite: bool) -> None:
        for name in (SETTINGS, DEMONSTRATIONS, SCORES, STEPS, PICTURE):
            check_writable(self.path / name, overwrite=overwrite)

    def save(
        self,
        settings: Mapping[str, Any],
        demonstrations: Demonstrations,
        scores: Table,
        steps: Table,
        *,
        draw: Callable[[Path], None] | None = None,
    ) -> None:
        """The settings go last, after the picture, too: with them the folder is complete."""
        (self.path / SETTINGS).unlink(missing_ok=True)
        (self.path / PICTURE).unlink(missing_ok=True)
        npz.write(demonstrations, self.path / DEMONSTRATIONS, compressed=False)
        write_table(self.path / SCORES, scores)
        write_table(self.path / STEPS, steps)
        if draw is not None:
            draw(self.path / PICTURE)
        write_json(self.path / SETTINGS, {**settings, "sha256 of demonstrations": demonstrations.digest})

    def load(self) -> tuple[dict[str, Any], Demonstrations, Table]:
        """The settings, the demonstrations and their scores, or an error that says what is missing or does not fit."""
        path = self.path / SETTINGS
        if not path.exists():
            if self.path.is_file():
                raise ImitableError(
                    f"{self.path} is a file, not scores; make them with `imitable score {self.path} --robot ROBOT -o scores`"
                )
            raise ImitableError(f"{self.path} has no {SETTINGS}, so it holds no scores; make them with `imitable score ... -o {self.path}`")
        try:
            settings: dict[str, Any] = read_json(path)
        except UnreadableError as error:
            raise ImitableError(f"{path} is damaged ({error}); score again with --overwrite") from error
        demonstrations, scores = npz.read(self.path / DEMONSTRATIONS), read_table(self.path / SCORES)
        if demonstrations.digest != settings.get("sha256 of demonstrations"):
            raise ImitableError(f"{self.path / DEMONSTRATIONS} is not what was scored; score again with --overwrite")
        weights = scores.get("weight", np.zeros(0))
        if len(weights) != len(demonstrations) or not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise ImitableError(f"{self.path / SCORES} needs a weight from 0 on for each of the {len(demonstrations)} demonstrations")
        return settings, demonstrations, scores
