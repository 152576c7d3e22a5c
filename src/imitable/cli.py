"""The command line: one program, a subcommand for every stage. Heavy imports wait until a command needs them."""

import ctypes
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from tyro.conf import Positional, UseAppendAction, arg

from imitable.errors import ImitableError, unknown_name

if TYPE_CHECKING:
    from imitable.scorecard import Columns

TaskName = Positional[Annotated[str, arg(metavar="TASK", help="such as driving/slow; `imitable tasks` lists them")]]
Output = Annotated[Path, arg(aliases=["-o"], help="where to write")]
Seed = Annotated[int, arg(help="the same seed gives the same bytes")]
Changes = Annotated[UseAppendAction[tuple[str, ...]], arg(name="set", metavar="NAME=VALUE", help="another value, such as sigma=20")]
Demos = Annotated[Path | None, arg(help="your own demonstrations (.npz) instead of the task's")]

app = tyro.extras.SubcommandApp()


@app.command
def tasks() -> None:
    """List the built-in tasks."""
    from imitable.tasks import TASKS

    _print_table(
        ("task", "columns", "horizon", "optimal / suboptimal / other-dynamics", "learner"),
        [
            (
                name,
                str(len(task.target.observed)),
                str(task.target.horizon),
                " / ".join(f"{share:.1%}" for share in task.cast.mixture.shares().values()),
                type(task.learner).__name__.lower(),
            )
            for name, task in TASKS.items()
        ],
    )


@app.command
def methods() -> None:
    """List the methods."""
    from imitable.methods import METHODS

    _print_table(("method", "what counts"), [(name, method.summary) for name, method in METHODS.items()])


@app.command
def collect(
    task: TaskName,
    *,
    output: Output,
    count: int = 1000,
    composition: Literal["paper", "released"] = "paper",
    seed: Seed = 0,
    overwrite: Annotated[bool, arg(help="replace a file that is there")] = False,
) -> None:
    """Make a mixture of demonstrations with a task's own demonstrators."""
    from imitable.files import check_writable
    from imitable.kept import kept_or_gathered
    from imitable.tasks import find_task

    chosen = find_task(task)
    check_writable(output)
    if output.exists() and not overwrite:
        raise ImitableError(f"{output} is there already; give another place, or --overwrite to replace it")
    with _progress(f"{task} demonstrations") as advance:
        demonstrations = kept_or_gathered(chosen, seed=seed, count=count, composition=composition, watch=advance)
    demonstrations.save(output)
    print(f"{output}: {demonstrations}")


@app.command
def score(
    task: TaskName,
    *,
    demos: Annotated[Path, arg(help="demonstrations (.npz)")],
    output: Output,
    picture: Annotated[Path | None, arg(help="also draw what was rejected and why (.png)")] = None,
    seed: Seed = 0,
    changes: Changes = (),
) -> None:
    """Score every demonstration: feasibility on the task's target, optimality, and their product."""
    from imitable.arrays import one_thread
    from imitable.changes import adjusted
    from imitable.demonstrations import Demonstrations
    from imitable.files import check_writable
    from imitable.kept import kept_or_posed
    from imitable.report.figures import draw_scores
    from imitable.scorecard import save_scorecard, scorecard
    from imitable.tasks import find_task

    chosen = adjusted(find_task(task), changes)
    for path in filter(None, (output, picture)):
        check_writable(path)
        if path.resolve() == demos.resolve():
            raise ImitableError(f"writing to {path} would replace the demonstrations; give another place")
    if picture is not None and picture.suffix.lower() != ".png":
        raise ImitableError(f"--picture {picture} must end in .png; give {picture.with_suffix('.png')}")
    if picture is not None and picture.resolve() == output.resolve():
        raise ImitableError(f"the picture would replace the scores in {output}; give one of them another place")
    demonstrations = Demonstrations.load(demos)
    with one_thread(), _progress("scoring") as advance:
        problem = kept_or_posed(demonstrations, chosen, seed=seed, watch=advance)
    card = scorecard(demonstrations, problem)
    save_scorecard(card, output)
    if picture is not None:
        draw_scores(card, problem.tolerance, picture, sigma=problem.settings.sigma)
    _print_scores(card)
    print(f"{output}: one row for each of {len(demonstrations)} demonstrations")
    _tell_of_divergence({"posing": problem.diverged})


@app.command
def run(
    task: TaskName,
    *,
    method: Annotated[str, arg(help="`imitable methods` lists them")],
    output: Output,
    seed: Seed = 0,
    demos: Demos = None,
    composition: Annotated[Literal["paper", "released"], arg(help="shares of the paper, or of its released scripts")] = "paper",
    changes: Changes = (),
    overwrite: Annotated[bool, arg(help="replace a run that is there")] = False,
    resume: Annotated[bool, arg(help="go on with a run that is there")] = False,
) -> None:
    """Learn a policy from a task's demonstrations, or your own, and measure it."""
    from imitable.experiment import prepared
    from imitable.methods import find_method
    from imitable.runs import perform
    from imitable.tasks import find_task

    chosen, way = prepared(find_task(task), find_method(method), changes)
    with _progress(f"{task} {method}") as advance:
        result = perform(
            chosen,
            way,
            seed=seed,
            folder=output,
            demos=demos,
            composition=composition,
            overwrite=overwrite,
            resume=resume,
            watch=advance,
        )
    print(f"{output}: mean return {result['mean_return']:.2f} over {len(result['returns'])} episodes")
    _tell_of_divergence(result["diverged"])


@app.command
def evaluate(folder: Positional[Annotated[Path, arg(help="a run's folder")]], *, episodes: int = 100, seed: Seed = 1_000_000) -> None:
    """Measure a run's policy again, on other starts."""
    from imitable.arrays import one_thread
    from imitable.evaluation import evaluate
    from imitable.experiment import Streams
    from imitable.networks import Policy
    from imitable.runs import POLICY, RunFolder
    from imitable.tasks import find_task

    config = RunFolder(folder).config()
    if config is None or not (folder / POLICY).exists():
        raise ImitableError(f"{folder} has no policy; make one with `imitable run ... -o {folder}`")
    target = find_task(config["task"]).target
    with one_thread():
        measured = evaluate(Policy.load(folder / POLICY), target, episodes=episodes, rng=Streams(seed).measuring())
    returns = measured.returns
    extremes = f"from {returns.min():.2f} to {returns.max():.2f}"
    print(f"{config['task']} {config['method']}: mean return {returns.mean():.2f} over {episodes} episodes ({extremes})")
    _tell_of_divergence({"measuring": measured.diverged})


@app.command
def sweep(
    *,
    tasks: tuple[str, ...],
    methods: tuple[str, ...],
    output: Output,
    seeds: Annotated[str, arg(help="such as 0-4")] = "0-4",
    workers: Annotated[int, arg(help="single-threaded processes at a time")] = 2,
    changes: Changes = (),
) -> None:
    """Run a grid of tasks, methods and seeds; finished cells are skipped and interrupted ones resumed."""
    import numpy as np

    from imitable.experiment import prepared
    from imitable.methods import find_method
    from imitable.runs import RunFolder, configuration
    from imitable.sweep import Cell, cells, parse_seeds, summarise, sweep as sweep_cells
    from imitable.tasks import find_task

    grid = cells(tasks, methods, parse_seeds(seeds), root=output)
    chosen = {(task, method): prepared(find_task(task), find_method(method), changes) for task in tasks for method in methods}

    def check(cell: Cell) -> None:
        RunFolder(cell.folder).check(configuration(*chosen[cell.task, cell.method], seed=cell.seed))

    done = 0
    with _progress(f"{len(grid)} runs") as advance:

        def watch(_: object) -> None:
            nonlocal done
            done += 1
            advance(done / len(grid))

        options = [option for change in changes for option in ("--set", change)]
        failures = sweep_cells(grid, workers=workers, options=options, check=check, watch=watch)
    failed = {failure.cell for failure in failures}
    rows = [
        (
            each.task,
            each.method,
            str(len(each.means)),
            f"{each.means.mean():.1f} +- {each.spread:.1f}" if len(each.means) > 1 else f"{each.means.mean():.1f}",
            f"{each.middle:.1f}",
            f"[{each.interval[0]:.1f}, {each.interval[1]:.1f}]" if len(each.means) > 1 else "-",
        )
        for each in summarise([cell for cell in grid if cell not in failed], rng=np.random.default_rng(0))
    ]
    _print_table(("task", "method", "seeds", "mean +- sd", "interquartile mean", "95 % interval"), rows)
    for failure in failures:
        cell = failure.cell
        print(f"failed: {cell.task} {cell.method} seed {cell.seed}: {failure.reason}", file=sys.stderr)
    if failures:
        raise ImitableError(f"{len(failures)} of {len(grid)} runs failed; mend the cause and give the same command again")


@app.command
def expert(
    task: TaskName,
    *,
    output: Annotated[Path, arg(aliases=["-o"], help="a folder; the shipped ones are in src/imitable/policies")],
    seeds: Annotated[str, arg(help="of the optimal policy: the best of these on held-out starts is kept")] = "0-1",
) -> None:
    """Train the policies that demonstrate for a task's target: an optimal one, and one after ten rounds."""
    from imitable.arrays import one_thread
    from imitable.experts import train_and_keep
    from imitable.sweep import parse_seeds
    from imitable.tasks import PUPILS

    if task not in PUPILS:
        raise unknown_name("task", task, PUPILS)
    pupil = PUPILS[task]
    for quality, schooling in (("suboptimal", pupil.suboptimal), ("optimal", pupil.optimal)):
        if schooling is None:
            print(f"{task}: the optimal policy is hand-made")
            continue
        with _progress(f"{task} {quality}") as advance, one_thread():
            record = train_and_keep(
                pupil.simulator,
                schooling,
                name=f"{task.replace('/', '-')}-{quality}",
                folder=output,
                seeds=parse_seeds(seeds) if quality == "optimal" else [0],
                watch=advance,
            )
        print(f"{task} {quality}: mean return {record['mean_return']:.2f}, sampled {record['sampled_return']:.2f}")


@app.command
def demo(*, output: Output = Path("demo"), seed: Seed = 0) -> None:
    """Learn to drive from good, bad and impossible demonstrations: trusting all of them, and trusting the right ones."""
    from imitable.report.demo import demonstrate_package

    found = demonstrate_package(output, seed=seed, progress=_progress)
    _print_table(found.header, list(found.rows))
    print(f"\nwhat was rejected and why: {found.rejected}\nhow both policies drive:    {found.paths}")


def main() -> None:
    """Run a command; a user's mistake ends in one line, not in a traceback."""
    _keep_freed_memory()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a sweep that is told to stop stops its runs
    if sys.argv[1:] == ["--version"]:
        print(f"imitable {version('imitable')}")
        return
    try:
        app.cli(prog="imitable", description="Which of these demonstrations can my robot imitate, and are they worth imitating?")
    except ImitableError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("interrupted; `imitable run` goes on with --resume, sweep and expert when given again", file=sys.stderr)
        sys.exit(130)


def _keep_freed_memory() -> None:
    """Keep freed memory for reuse: large temporaries would be returned to the system and faulted in again at every update."""
    with suppress(OSError, AttributeError):  # only on glibc
        libc = ctypes.CDLL("libc.so.6")
        for option in (-1, -3):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
            libc.mallopt(option, 2_000_000_000)


@contextmanager
def _progress(title: str) -> Iterator[Callable[[float], None]]:
    """A bar on a terminal, nothing elsewhere; gives a function that takes the share done."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal, transient=True) as bar:
        job = bar.add_task(title, total=1.0)
        yield lambda share: bar.update(job, completed=share)


def _print_table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    for row in [header, tuple("-" * width for width in widths), *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _tell_of_divergence(counts: Mapping[str, int]) -> None:
    """Simulations that broke down were ended and counted; say so."""
    if any(counts.values()):
        where = ", ".join(f"{count} while {stage}" for stage, count in counts.items() if count)
        print(f"note: simulations diverged and were ended: {where}", file=sys.stderr)


def _print_scores(card: "Columns") -> None:
    """A line per source: how many, how many feasible, and their share of the weight."""
    import numpy as np

    mass = card["weight"] * card["length"]
    rows = []
    for source in np.unique(card["source"]):
        mine = card["source"] == source
        rows.append(
            (
                str(source),
                str(mine.sum()),
                f"{card['return'][mine].mean():.1f}",
                f"{(card['feasibility'][mine] > 0).mean():.0%}",
                f"{card['optimality'][mine].mean():.2f}",
                f"{mass[mine].sum() / mass.sum():.1%}" if mass.any() else "-",
            )
        )
    _print_table(("source", "demonstrations", "mean return", "feasible", "mean optimality", "share of the samples"), rows)
