"""The grid: every task with every method and seed, each cell one `imitable run` in its own folder and process."""

import ctypes
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from imitable.arrays import Array, Generator, Progress, no_progress
from imitable.errors import ImitableError
from imitable.store.files import check_writable
from imitable.store.locks import holder_of, is_locked
from imitable.store.runs import SCORES, RunFolder

LOG = "log.txt"
PARENT = "IMITABLE_PARENT"
"""Environment variable: the process of the sweep that started a run."""
PATIENCE = 10.0  # s
SINGLE_THREADED = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "IMITABLE_THREADS": "1"}


@dataclass(frozen=True)
class Cell:
    """One run of the grid."""

    task: str
    method: str
    seed: int
    root: Path

    @property
    def folder(self) -> Path:
        return self.root / self.task.replace("/", "-") / self.method / f"seed-{self.seed}"


@dataclass(frozen=True)
class Failure:
    """A cell that ended without a result, and the last line of its log."""

    cell: Cell
    reason: str


def cells(tasks: Sequence[str], methods: Sequence[str], seeds: Sequence[int], *, root: Path) -> list[Cell]:
    """Seed by seed, so that an interrupted sweep leaves whole tables of fewer seeds."""
    every = [Cell(task, method, seed, root) for seed, task, method in itertools.product(seeds, tasks, methods)]
    return list(dict.fromkeys(every))


def sweep(
    grid: Sequence[Cell],
    *,
    workers: int = 2,
    options: Sequence[str] = (),
    check: Callable[[Cell], None] = lambda cell: None,
    progress: Progress = no_progress,
) -> list[Failure]:
    """Run every cell that is not finished, `workers` single-threaded processes at a time; failures do not stop the rest.

    `check` may refuse a cell by an `ImitableError`, such as one made with other settings.
    """
    if workers < 1:
        raise ImitableError(f"workers is {workers}; a sweep needs at least one")
    failures: list[Failure] = []
    waiting: list[Cell] = []
    running: dict[Cell, subprocess.Popen[bytes]] = {}
    for cell in grid:
        try:
            check(cell)
            if RunFolder(cell.folder).result() is None:
                waiting.append(cell)
        except ImitableError as error:
            failures.append(Failure(cell, str(error)))
    try:
        while waiting or running:
            progress(1 - (len(waiting) + len(running)) / len(grid))
            while waiting and len(running) < workers:
                cell = waiting.pop(_next(waiting, running))
                try:
                    running[cell] = _start(cell, options)
                except ImitableError as error:
                    failures.append(Failure(cell, str(error)))
            for cell, process in list(running.items()):
                if process.poll() is not None:
                    del running[cell]
                    if not RunFolder(cell.folder).finished:
                        failures.append(Failure(cell, _last_line(cell, process.returncode)))
            time.sleep(0.2)
    finally:
        _stop(list(running.values()))
    return failures


def _stop(processes: "Sequence[subprocess.Popen[bytes]]") -> None:
    """Tell them to stop, wait for them, and end those that do not hear."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def end_with_parent() -> None:
    """In a run that a sweep started: be ended when the sweep's process ends, however it ends. Files are whole at any time."""
    if (parent := os.environ.pop(PARENT, None)) is None:
        return
    with suppress(OSError, AttributeError):  # only on Linux
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if str(os.getppid()) != parent:  # it has ended already
        sys.exit(143)


def _next(waiting: Sequence[Cell], running: Collection[Cell]) -> int:
    """The first cell whose demonstrations no running one is assessing, and will keep for it; if there is none, the first."""
    assessing = {(cell.task, cell.seed) for cell in running if not (cell.folder / SCORES).exists()}
    return next((number for number, cell in enumerate(waiting) if (cell.task, cell.seed) not in assessing), 0)


def _start(cell: Cell, options: Sequence[str]) -> "subprocess.Popen[bytes]":
    check_writable(cell.folder / LOG)
    cell.folder.mkdir(parents=True, exist_ok=True)
    resuming = ["--resume"] if RunFolder(cell.folder).config() is not None else []
    command = [sys.executable, "-m", "imitable", "run", cell.task, "--method", cell.method, "--seed", str(cell.seed)]
    if is_locked(cell.folder):
        raise ImitableError(f"{cell.folder} is in use by {holder_of(cell.folder)}; wait for it, or stop it")
    with (cell.folder / LOG).open("wb") as log:
        return subprocess.Popen(
            [*command, "-o", str(cell.folder), *resuming, *options],
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **SINGLE_THREADED, PARENT: str(os.getpid())},
        )


def _last_line(cell: Cell, code: int) -> str:
    with (cell.folder / LOG).open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - 10_000))
        lines = log.read().decode(errors="replace").strip().splitlines()
    return f"exit code {code}: {lines[-1] if lines else 'no output'} (see {cell.folder / LOG})"


@dataclass(frozen=True)
class Summary:
    """Mean returns of one task and method over seeds."""

    task: str
    method: str
    means: Array
    """(seed,) mean return of the last policy of each run."""
    interquartile_mean: float
    """Interquartile mean over the seeds."""
    interval: tuple[float, float]
    """95 % bootstrap interval of the interquartile mean."""

    @property
    def std(self) -> float:
        """Standard deviation over the seeds; not a number where there is only one."""
        return float(self.means.std(ddof=1)) if len(self.means) > 1 else float("nan")


def summarize(grid: Sequence[Cell], *, rng: Generator) -> list[Summary]:
    """One line per task and method, over the seeds that are finished."""
    found: dict[tuple[str, str], list[float]] = {}
    for cell in grid:
        if result := RunFolder(cell.folder).result():
            found.setdefault((cell.task, cell.method), []).append(result["mean_return"])
    return [summary(task, method, np.array(means), rng=rng) for (task, method), means in sorted(found.items())]


def summary(task: str, method: str, means: Array, *, rng: Generator) -> Summary:
    """Interquartile mean with its bootstrap interval over seeds."""
    resampled = rng.choice(means, (10_000, len(means)))
    low, high = np.percentile(interquartile_mean(resampled), [2.5, 97.5])
    return Summary(task, method, means, float(interquartile_mean(means)), (float(low), float(high)))


def interquartile_mean(values: Array) -> Array:
    """Mean of the middle half along the last axis, counting the values at its edges in part."""
    count = values.shape[-1]
    edges = np.arange(count + 1) / count
    inside = np.clip(np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25), 0.0, None) / 0.5
    return np.asarray((np.sort(values, axis=-1) * inside).sum(axis=-1))


def parse_seeds(text: str) -> list[int]:
    """Seeds given as `0-4`, `7` or `0,2,5-6`."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        ends = (first, last if dash else first)
        if not all(end.isascii() and end.isdecimal() for end in ends) or int(ends[1]) < int(ends[0]):
            raise ImitableError(f"cannot read seeds {text!r}; give them as 0-4, 7 or 0,2,5-6")
        seeds += range(int(ends[0]), int(ends[1]) + 1)
    return seeds
