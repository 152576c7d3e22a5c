"""The grid of the paper's runs: tables, studies, presets; printed for any scheduler, run here, or verified."""

import shlex
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from datetime import datetime, timedelta
from typing import Annotated

import numpy as np
from tyro.conf import arg

from imitable.cli.options import Composition, InverseName, LearnerName, Output, Overrides
from imitable.errors import ImitableError
from imitable.paper.engines import EngineName, find_launch
from imitable.paper.studies import STUDIES, Preset, study_cells
from imitable.paper.sweep import Cell, Settings, cells, parse_seeds, seconds_left, summarize, sweep as sweep_cells, verify as verify_cell
from imitable.report.terminal import live_table, print_line as print, print_table
from imitable.store.runs import RunFolder

Studies = Annotated[tuple[str, ...], arg(help=f"named grids instead of tasks and methods: {', '.join(STUDIES)}")]


def sweep(
    *,
    output: Output,
    tasks: Annotated[tuple[str, ...], arg(help="of a study: only these")] = (),
    methods: Annotated[tuple[str, ...], arg(help="of a study: only these")] = (),
    study: Studies = (),
    preset: Annotated[Preset | None, arg(help="all studies: paper, or quick, which tries everything with tiny budgets")] = None,
    seeds: Annotated[str | None, arg(help="such as 0-4, the default; of a study as many as it needs, of quick one")] = None,
    learner: LearnerName = None,
    inverse: InverseName = None,
    composition: Composition = "paper",
    workers: Annotated[int, arg(help="single-threaded runs at a time")] = 2,
    engine: Annotated[EngineName, arg(help="where they run: here, or on a Ray cluster (extra ray) that shares the disk")] = "processes",
    overrides: Overrides = (),
    print_only: Annotated[bool, arg(name="print", help="print the commands that are left, one a line, for any scheduler")] = False,
    verify: Annotated[int, arg(help="run so many finished cells again, drawn at random, and compare their curves")] = 0,
) -> None:
    """Run a grid of tasks, methods and seeds, or named studies; finished cells are skipped and interrupted ones resumed."""
    numbers = None if seeds is None else parse_seeds(seeds)
    settings = Settings(learner, inverse, composition, overrides)
    if study or preset:
        if settings != Settings():
            raise ImitableError(f"a study has its own settings; leave out {shlex.join(settings.arguments())}, or the study")
        grid = study_cells(study or tuple(STUDIES), numbers, root=output, tasks=tasks, methods=methods, preset=preset or "paper")
    else:
        grid = cells(tasks, methods, parse_seeds("0-4") if numbers is None else numbers, root=output, settings=settings)
    if not grid:
        raise ImitableError(f"there is nothing to run; give --tasks and --methods, or --study with one of {', '.join(STUDIES)}")
    if print_only:
        for cell in grid:
            cell.check()
        for cell in grid:
            if not RunFolder(cell.folder).finished:
                resuming = ["--resume"] if RunFolder(cell.folder).config() is not None else []
                sys.stdout.write(f"{shlex.join([*cell.command(), *resuming])}\n")
    elif verify:
        _verify(grid, verify)
    else:
        _run(grid, workers, engine)


def _run(grid: Sequence[Cell], workers: int, engine: EngineName) -> None:
    launch = find_launch(engine, workers=workers)
    with live_table(("task", "finished", "running")) as show:
        failures = sweep_cells(grid, workers=workers, launch=launch, check=Cell.check, watch=_watching(grid, workers, show))
    failed = {failure.cell for failure in failures}
    rows = []
    for name, some in _by_settings([cell for cell in grid if cell not in failed]).items():
        for each in summarize(some, rng=np.random.default_rng(0)):
            spread, interval = (f" +- {each.std:.1f}", "[{:.1f}, {:.1f}]".format(*each.interval)) if len(each.means) > 1 else ("", "-")
            method = f"{each.method} ({name})" if name else each.method
            mean = f"{each.means.mean():.1f}{spread}"
            rows.append((each.task, method, str(len(each.means)), mean, f"{each.interquartile_mean:.1f}", interval))
    print_table(("task", "method", "seeds", "mean +- sd", "interquartile mean", "95 % interval"), rows)
    for failure in failures:
        cell = failure.cell
        print(f"failed: {cell.task} {cell.method} seed {cell.seed}: {failure.reason}", file=sys.stderr)
    if failures:
        raise ImitableError(f"{len(failures)} of {len(grid)} runs failed; fix the cause and give the same command again")


def _by_settings(grid: Sequence[Cell]) -> dict[str, list[Cell]]:
    """Cells by the folder that a study gives their settings; all under one empty name outside of studies."""
    roots = {cell.root for cell in grid}
    found: dict[str, list[Cell]] = {}
    for cell in grid:
        found.setdefault(cell.root.name if len(roots) > 1 else "", []).append(cell)
    return found


def _watching(grid: Sequence[Cell], workers: int, show: Callable[..., None]) -> Callable[[Collection[Cell]], None]:
    """What a sweep tells to: every two seconds it shows how far each task is, and when the end is to be expected."""
    shown = 0.0

    def watch(running: Collection[Cell]) -> None:
        nonlocal shown
        if time.monotonic() - shown < 2:
            return
        shown = time.monotonic()
        done = [cell for cell in grid if RunFolder(cell.folder).finished]
        finished, total = Counter(cell.task for cell in done), Counter(cell.task for cell in grid)
        now = {task: " ".join(f"{cell.method}:{cell.seed}" for cell in running if cell.task == task) for task in total}
        rows = [(task, f"{finished[task]} of {total[task]}", now[task]) for task in total]
        left = seconds_left(grid, running, workers=workers)
        end = "not yet known" if left is None else f"{datetime.now().astimezone() + timedelta(seconds=left):%a %H:%M}"
        show(rows, f"{len(done)} of {len(grid)} runs; expected end: {end}")

    return watch


def _verify(grid: Sequence[Cell], count: int) -> None:
    finished = [cell for cell in grid if RunFolder(cell.folder).finished]
    if not finished:
        raise ImitableError("no run of this grid is finished, so there is nothing to verify; run the sweep first")
    differing = 0
    for number in np.random.default_rng().permutation(len(finished))[:count]:
        cell = finished[number]
        cell.check()
        difference = verify_cell(cell)
        differing += difference is not None
        print(f"{cell.folder}: {'identical' if difference is None else difference}")
    if differing:
        raise ImitableError(f"{differing} of {min(count, len(finished))} runs do not come out as they are stored")
