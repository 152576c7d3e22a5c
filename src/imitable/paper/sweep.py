"""The grid: every task with every method and seed, each cell one `imitable run` in its own folder and process."""

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from imitable.arrays import Generator
from imitable.errors import ImitableError
from imitable.evaluation import N_EVAL_EPISODES
from imitable.paper.demonstrators import DEMONSTRATIONS
from imitable.paper.engines import SINGLE_THREADED, Job, Launch, launch_process
from imitable.paper.methods import find_method
from imitable.paper.run import Experiment
from imitable.paper.statistics import Summary, summary
from imitable.paper.tasks import find_task
from imitable.store.files import check_writable
from imitable.store.locks import holder_of, is_locked
from imitable.store.runs import CURVE, POLICY, SCORES, RunFolder

LOG = "log.txt"
PATIENCE, LOCK_PATIENCE = 10.0, 3.0  # s, for runs that were terminated, and for the lock of one that was killed


@dataclass(frozen=True)
class Settings:
    """What a cell has other than the task's own, in the words of `imitable run`."""

    learner: str | None = None
    inverse: str | None = None
    composition: str = "paper"
    overrides: tuple[str, ...] = ()
    count: int = DEMONSTRATIONS
    episodes: int = N_EVAL_EPISODES

    @property
    def given(self) -> dict[str, str]:
        """Options with other values than their defaults, by name."""
        options = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "overrides"}
        return {name: str(value) for name, value in options.items() if value != getattr(OWN, name)}

    @property
    def name(self) -> str:
        """Of a folder; empty without any. `Settings.named` reads it."""
        return ",".join([*(f"{name}={value.replace('/', '-')}" for name, value in self.given.items()), *self.overrides])

    @classmethod
    def named(cls, name: str) -> "Settings":
        """The settings whose name this is."""
        pairs = dict(each.split("=", 1) for each in name.split(",") if each)
        options: dict[str, Any] = {each.name: pairs.pop(each.name) for each in fields(cls) if each.name in pairs}
        options |= {key: int(options[key]) for key in ("count", "episodes") if key in options}
        if "-" in options.get("composition", ""):
            options["composition"] = options["composition"].replace("-", "/")
        return cls(overrides=tuple(f"{key}={value}" for key, value in pairs.items()), **options)

    def arguments(self) -> list[str]:
        """For `imitable run`."""
        pairs = [*((f"--{name}", value) for name, value in self.given.items()), *(("--set", each) for each in self.overrides)]
        return [part for pair in pairs for part in pair]


OWN = Settings()


@dataclass(frozen=True)
class Cell:
    """One run of the grid."""

    task: str
    method: str
    seed: int
    root: Path
    settings: Settings = OWN

    @property
    def folder(self) -> Path:
        return self.root / self.task.replace("/", "-") / self.method / f"seed-{self.seed}"

    def command(self, folder: Path | None = None) -> list[str]:
        """That runs it, there or in another folder."""
        name = ["run", self.task, "--method", self.method, "--seed", str(self.seed), "-o", str(folder or self.folder)]
        return ["imitable", *name, *self.settings.arguments()]

    def check(self) -> None:
        """Refuse a folder with a run of other settings."""
        RunFolder(self.folder).check(self.config())

    def config(self) -> dict[str, Any]:
        return Experiment.of(find_task(self.task), find_method(self.method), **vars(self.settings)).config(seed=self.seed)


@dataclass(frozen=True)
class Failure:
    """A cell that ended without a result, and the last line of its log."""

    cell: Cell
    reason: str


def cells(tasks: Sequence[str], methods: Sequence[str], seeds: Sequence[int], *, root: Path, settings: Settings = OWN) -> list[Cell]:
    """Seed by seed, so that an interrupted sweep leaves whole tables of fewer seeds."""
    every = [Cell(task, method, seed, root, settings) for seed, task, method in itertools.product(seeds, tasks, methods)]
    return list(dict.fromkeys(every))


def sweep(
    grid: Sequence[Cell],
    *,
    workers: int = 2,
    launch: Launch = launch_process,
    check: Callable[[Cell], None] = lambda cell: None,
    watch: Callable[[Collection[Cell]], None] = lambda running: None,
) -> list[Failure]:
    """Run every cell that is not finished, `workers` single-threaded ones at a time; failures do not stop the rest.

    `check` may refuse a cell by an `ImitableError`, such as one made with other settings. `watch` is called several times a
    second with the cells that are running.
    """
    if workers < 1:
        raise ImitableError(f"workers is {workers}; a sweep needs at least one")
    failures: list[Failure] = []
    waiting: list[Cell] = []
    running: dict[Cell, Job] = {}
    for cell in grid:
        try:
            check(cell)
            if RunFolder(cell.folder).result() is None:
                waiting.append(cell)
        except ImitableError as error:
            failures.append(Failure(cell, str(error)))
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                cell = waiting.pop(_next(waiting, running))
                try:
                    running[cell] = _start(cell, launch)
                except ImitableError as error:
                    failures.append(Failure(cell, str(error)))
            for cell, job in list(running.items()):
                if (code := job.poll()) is not None:
                    del running[cell]
                    if not RunFolder(cell.folder).finished:
                        failures.append(Failure(cell, _last_line(cell, code)))
            watch(running)
            time.sleep(0.2)
    finally:
        _stop(list(running.values()))
    return failures


def _stop(jobs: Sequence[Job]) -> None:
    """Terminate them, wait for them, and kill those that do not end."""
    for job in jobs:
        job.terminate()
    for job in jobs:
        try:
            job.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            job.kill()
            job.wait()


def _next(waiting: Sequence[Cell], running: Collection[Cell]) -> int:
    """The first cell whose demonstrations no running one is assessing and about to cache; if there is none, the first."""
    assessing = {(cell.task, cell.seed) for cell in running if not (cell.folder / SCORES).exists()}
    return next((number for number, cell in enumerate(waiting) if (cell.task, cell.seed) not in assessing), 0)


def _start(cell: Cell, launch: Launch = launch_process) -> Job:
    check_writable(cell.folder / LOG)
    cell.folder.mkdir(parents=True, exist_ok=True)
    resuming = ["--resume"] if RunFolder(cell.folder).config() is not None else []
    patience = time.monotonic() + LOCK_PATIENCE
    while is_locked(cell.folder) and time.monotonic() < patience:  # a run that was killed with its sweep may still be ending
        time.sleep(0.1)
    if is_locked(cell.folder):
        raise ImitableError(f"{cell.folder} is in use by {holder_of(cell.folder)}; wait for it, or stop it")
    return launch([sys.executable, "-m", *cell.command(), *resuming], cell.folder / LOG)


def _last_line(cell: Cell, code: int) -> str:
    with (cell.folder / LOG).open("rb") as log:
        log.seek(max(0, log.seek(0, os.SEEK_END) - 10_000))
        lines = log.read().decode(errors="replace").strip().splitlines()
    return f"exit code {code}: {lines[-1] if lines else 'no output'} (see {cell.folder / LOG})"


def summarize(grid: Sequence[Cell], *, rng: Generator) -> list[Summary]:
    """One line per task and method, over the seeds that are finished."""
    found: dict[tuple[str, str], list[float]] = {}
    for cell in grid:
        if result := RunFolder(cell.folder).result():
            found.setdefault((cell.task, cell.method), []).append(result["mean_return"])
    return [summary(task, method, np.array(means), rng=rng) for (task, method), means in sorted(found.items())]


def verify(cell: Cell) -> str | None:
    """Run a finished cell again, with an empty cache; what differs, None where nothing does."""
    with TemporaryDirectory() as scratch:
        environment = {**os.environ, **SINGLE_THREADED, "IMITABLE_CACHE": f"{scratch}/cache"}
        again = Path(scratch) / "run"
        done = subprocess.run(
            [sys.executable, "-m", *cell.command(again)],
            env=environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if done.returncode:
            return f"exit code {done.returncode}: {(done.stderr.strip().splitlines() or ['no output'])[-1]}"
        for name in (CURVE, POLICY):
            if (again / name).read_bytes() != (cell.folder / name).read_bytes():
                means = [[each["mean_return"] for each in RunFolder(folder).curve()] for folder in (cell.folder, again)]
                return f"{name} differs: mean returns {means[0]}, now {means[1]}"
    return None


def seconds_left(grid: Sequence[Cell], running: Collection[Cell], *, workers: int) -> float | None:
    """Until the end, by what finished cells of the same task, or else of any, took; None before one has finished."""
    spent: dict[str, list[float]] = {}
    for cell in grid:
        if (result := RunFolder(cell.folder).result()) and "seconds" in result:
            spent.setdefault(cell.task, []).append(sum(result["seconds"].values()))
    if not spent:
        return None
    means = {task: float(np.mean(each)) for task, each in spent.items()}
    anywhere = float(np.mean(list(means.values())))
    unfinished = [cell for cell in grid if not RunFolder(cell.folder).finished]
    half_done = sum(means.get(cell.task, anywhere) / 2 for cell in running)
    return (sum(means.get(cell.task, anywhere) for cell in unfinished) - half_done) / workers


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
