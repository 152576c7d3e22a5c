"""Commands of the paper's experiments: their tasks, methods, demonstrations, runs and sweeps."""

import sys
from pathlib import Path
from typing import Annotated

import numpy as np
from tyro.conf import arg

from imitable.arrays import one_thread
from imitable.cli.options import Composition, InverseName, LearnerName, Output, Overrides, Overwrite, Resume, Seed, TaskName
from imitable.errors import ImitableError
from imitable.formats import npz, read
from imitable.paper import TASK_NAMES
from imitable.paper.demo import run_demo
from imitable.paper.expert_training import train_and_save
from imitable.paper.methods import METHODS, find_method
from imitable.paper.run import Experiment, collected, run_in_folder
from imitable.paper.sweep import Cell, cells, parse_seeds, summarize, sweep as sweep_cells
from imitable.paper.tasks import find_task
from imitable.report.terminal import print_divergence, print_line as print, print_table, progress_bar
from imitable.store.cache import default_cache
from imitable.store.files import check_writable
from imitable.store.runs import RunFolder


def tasks() -> None:
    """List the built-in tasks."""
    header = ("task", "columns", "horizon", "optimal / suboptimal / other-dynamics", "learner")
    rows = []
    for task in map(find_task, TASK_NAMES):
        shares = " / ".join(f"{share:.1%}" for share in task.demonstrators.mixture.shares().values())
        rows.append((task.name, str(len(task.robot.observation_names)), str(task.robot.horizon), shares, task.learner))
    print_table(header, rows)


def methods() -> None:
    """List the methods."""
    print_table(("method", "what counts"), [(name, method.summary) for name, method in METHODS.items()])


def collect(
    task: TaskName,
    *,
    output: Output,
    count: int = 1000,
    composition: Composition = "paper",
    seed: Seed = 0,
    overwrite: Overwrite = False,
) -> None:
    """Make a mixture of demonstrations with a task's own demonstrators."""
    chosen = find_task(task)
    check_writable(output)
    if output.exists() and not overwrite:
        raise ImitableError(f"{output} is there already; give another place, or --overwrite to replace it")
    with progress_bar(f"{task} demonstrations") as progress:
        demonstrations = collected(chosen, seed=seed, count=count, composition=composition, keep=default_cache(), progress=progress)
    npz.write(demonstrations, output)
    print(f"{output}: {demonstrations}")


def run(
    task: TaskName,
    *,
    method: Annotated[str, arg(help="`imitable methods` lists them; or module:object")],
    output: Output,
    learner: LearnerName = None,
    inverse: InverseName = None,
    seed: Seed = 0,
    demos: Annotated[Path | None, arg(help="your own demonstrations (.npz) instead of the task's")] = None,
    composition: Composition = "paper",
    overrides: Overrides = (),
    overwrite: Overwrite = False,
    resume: Resume = False,
) -> None:
    """Learn a policy from a task's demonstrations, or your own, and evaluate it."""
    experiment = Experiment.of(find_task(task), find_method(method), learner=learner, inverse=inverse, overrides=overrides)
    with progress_bar(f"{task} {method}") as progress:
        result = run_in_folder(
            experiment,
            output,
            seed=seed,
            demonstrations=None if demos is None else read(demos),
            composition=composition,
            overwrite=overwrite,
            resume=resume,
            keep=default_cache(),
            progress=progress,
        )
    print(f"{output}: mean return {result['mean_return']:.2f} over {len(result['returns'])} episodes")
    print_divergence(result["diverged"])


def sweep(
    *,
    tasks: tuple[str, ...],
    methods: tuple[str, ...],
    output: Output,
    seeds: Annotated[str, arg(help="such as 0-4")] = "0-4",
    learner: LearnerName = None,
    inverse: InverseName = None,
    composition: Composition = "paper",
    workers: Annotated[int, arg(help="single-threaded processes at a time")] = 2,
    overrides: Overrides = (),
) -> None:
    """Run a grid of tasks, methods and seeds; finished cells are skipped and interrupted ones resumed."""
    grid = cells(tasks, methods, parse_seeds(seeds), root=output)
    experiments = {
        (task, method): Experiment.of(find_task(task), find_method(method), learner=learner, inverse=inverse, overrides=overrides)
        for task in tasks
        for method in methods
    }

    def check(cell: Cell) -> None:
        RunFolder(cell.folder).check(experiments[cell.task, cell.method].config(seed=cell.seed, composition=composition))

    options = [option for override in overrides for option in ("--set", override)]
    options += [] if learner is None else ["--learner", learner]
    options += [] if inverse is None else ["--inverse", inverse]
    options += [] if composition == "paper" else ["--composition", composition]
    with progress_bar(f"{len(grid)} runs") as progress:
        failures = sweep_cells(grid, workers=workers, options=options, check=check, progress=progress)
    failed = {failure.cell for failure in failures}
    rows = [
        (
            each.task,
            each.method,
            str(len(each.means)),
            f"{each.means.mean():.1f} +- {each.std:.1f}" if len(each.means) > 1 else f"{each.means.mean():.1f}",
            f"{each.interquartile_mean:.1f}",
            f"[{each.interval[0]:.1f}, {each.interval[1]:.1f}]" if len(each.means) > 1 else "-",
        )
        for each in summarize([cell for cell in grid if cell not in failed], rng=np.random.default_rng(0))
    ]
    print_table(("task", "method", "seeds", "mean +- sd", "interquartile mean", "95 % interval"), rows)
    for failure in failures:
        cell = failure.cell
        print(f"failed: {cell.task} {cell.method} seed {cell.seed}: {failure.reason}", file=sys.stderr)
    if failures:
        raise ImitableError(f"{len(failures)} of {len(grid)} runs failed; fix the cause and give the same command again")


def expert(
    task: TaskName,
    *,
    output: Annotated[Path, arg(aliases=["-o"], help="a folder; the shipped ones are in src/imitable/paper/policies")],
    seeds: Annotated[str, arg(help="of the optimal policy: the best of these on held-out starts is kept")] = "0-1",
) -> None:
    """Train the policies that demonstrate for a task's target: an optimal one, and one after ten rounds."""
    chosen = find_task(task)
    for quality in ("suboptimal", "optimal"):
        if quality not in chosen.training:
            print(f"{task}: the {quality} policy is hand-made")
            continue
        with progress_bar(f"{task} {quality}") as progress, one_thread():
            record = train_and_save(
                chosen.robot,
                chosen.training[quality],
                name=f"{task.replace('/', '-')}-{quality}",
                folder=output,
                seeds=parse_seeds(seeds) if quality == "optimal" else [0],
                progress=progress,
            )
        print(f"{task} {quality}: mean return {record['mean_return']:.2f}, sampled {record['sampled_return']:.2f}")


def demo(*, output: Output = Path("demo"), seed: Seed = 0) -> None:
    """Learn to drive from good, bad and impossible demonstrations: trusting all of them, and trusting the right ones."""
    found = run_demo(output, seed=seed, progress_bar=progress_bar)
    print_table(found.header, list(found.rows))
    print()
    print(f"what was rejected and why: {found.rejected}")
    print(f"how both policies drive:    {found.paths}")
