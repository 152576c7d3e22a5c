"""The command line: one program, a subcommand for every stage. Importing it imports neither torch nor mujoco nor matplotlib."""

import ctypes
import signal
import sys
import warnings
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro
from tyro.conf import Positional, UseAppendAction, arg

from imitable.arrays import one_thread
from imitable.assessment import assess
from imitable.errors import ImitableError
from imitable.evaluation import evaluate as evaluate_policy
from imitable.formats import npz, read
from imitable.inverse_dynamics import INVERSE_DYNAMICS
from imitable.networks import Policy
from imitable.paper import TASK_NAMES
from imitable.paper.demo import run_demo
from imitable.paper.expert_training import train_and_save
from imitable.paper.methods import METHODS, find_method
from imitable.paper.run import Experiment, collected, run_in_folder
from imitable.paper.sweep import Cell, cells, parse_seeds, summarize, sweep as sweep_cells
from imitable.paper.tasks import find_task
from imitable.pipeline import Streams, score_table
from imitable.registry import find
from imitable.report.figures import draw_scores
from imitable.report.terminal import print_divergence, print_facts, print_scores, print_table, progress_bar
from imitable.robots import robot as find_robot
from imitable.scores import Feasibility, RectifiedOptimality, Score, Tolerance, product
from imitable.store.cache import age, default_cache
from imitable.store.files import check_writable, write_table
from imitable.store.runs import POLICY, RunFolder

TaskName = Positional[Annotated[str, arg(metavar="TASK", help="such as driving/slow; `imitable tasks` lists them; or module:object")]]
Output = Annotated[Path, arg(aliases=["-o"], help="where to write")]
Seed = Annotated[int, arg(help="the same seed gives the same bytes")]
Overrides = Annotated[UseAppendAction[tuple[str, ...]], arg(name="set", metavar="NAME=VALUE", help="another value, such as sigma=20")]
Overwrite = Annotated[bool, arg(help="replace what is there")]
LearnerName = Annotated[str | None, arg(help="cloning, gail, ic-gail, 2iwil, sail or module:object instead of the task's own")]
InverseName = Annotated[str | None, arg(help="inverse dynamics: solved (the default), learned (the paper's recipe) or module:object")]

app = tyro.extras.SubcommandApp()


@app.command
def tasks() -> None:
    """List the built-in tasks."""
    header = ("task", "columns", "horizon", "optimal / suboptimal / other-dynamics", "learner")
    rows = []
    for task in map(find_task, TASK_NAMES):
        shares = " / ".join(f"{share:.1%}" for share in task.demonstrators.mixture.shares().values())
        rows.append((task.name, str(len(task.robot.observation_names)), str(task.robot.horizon), shares, task.learner))
    print_table(header, rows)


@app.command
def methods() -> None:
    """List the methods."""
    print_table(("method", "what counts"), [(name, method.summary) for name, method in METHODS.items()])


@app.command
def collect(
    task: TaskName,
    *,
    output: Output,
    count: int = 1000,
    composition: Literal["paper", "released"] = "paper",
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


@app.command
def score(
    data: Positional[Annotated[tuple[Path, ...], arg(metavar="DATA", help="demonstrations (.npz)")]],
    *,
    robot: Annotated[str, arg(help="a task's name for its target, or module:object")],
    output: Annotated[Path, arg(aliases=["-o"], help="a folder, for scores.parquet and scores.png")],
    inverse: InverseName = None,
    seed: Seed = 0,
    overwrite: Overwrite = False,
) -> None:
    """Score every demonstration: feasibility on the robot, optimality, and their product."""
    table_path, picture_path = output / "scores.parquet", output / "scores.png"
    for path in (table_path, picture_path):
        check_writable(path)
        if path.exists() and not overwrite:
            raise ImitableError(f"{path} is there already; give another folder, or --overwrite to replace it")
    demonstrations = read(list(data))
    if missing := int(np.isnan(demonstrations.returns).sum()):
        print(f"note: {missing} of {len(demonstrations)} demonstrations have no return; only feasibility is scored", file=sys.stderr)
    settings, chosen = _assessment_settings(robot, inverse, with_returns=bool(np.isfinite(demonstrations.returns).all()))
    with one_thread(), progress_bar("scoring") as progress:
        assessment = assess(demonstrations, **settings, rng=Streams(seed).assessing(), keep=default_cache(), progress=progress)
        table = score_table(demonstrations, assessment, chosen)
        facts = chosen.facts(assessment)  # type: ignore[attr-defined]
    write_table(table_path, table)
    picture_path.unlink(missing_ok=True)  # without returns there is none, and an old one would not fit
    print_scores(table)
    if "optimality" in table:
        draw_scores(table, Tolerance(*facts["tolerance"]), picture_path, sigma=facts["sigma"])
    print_facts(facts)
    print(f"{table_path}: one row for each of {len(demonstrations)} demonstrations")
    print_divergence({"assessing": sum(assessment.diverged.values())})


def _assessment_settings(robot: str, inverse: str | None, *, with_returns: bool) -> tuple[dict[str, Any], Score]:
    """What `assess` is told, and the score: of a task's target with the task's numbers, of any other robot with the defaults."""
    model = None if inverse is None else find("inverse dynamics", inverse, INVERSE_DYNAMICS, needs=("fit", "restored"))
    if robot in TASK_NAMES:
        task = find_task(robot) if model is None else find_task(robot).with_model(model)
        settings = {"robot": task.robot, "model": task.model, "exploration": task.exploration}
        return settings, find_method("ours").score(task) if with_returns else product(task.feasibility)
    factors = (Feasibility(), RectifiedOptimality()) if with_returns else (Feasibility(),)
    return {"robot": find_robot(robot), "model": model}, product(*factors)


@app.command
def run(
    task: TaskName,
    *,
    method: Annotated[str, arg(help="`imitable methods` lists them; or module:object")],
    output: Output,
    learner: LearnerName = None,
    inverse: InverseName = None,
    seed: Seed = 0,
    demos: Annotated[Path | None, arg(help="your own demonstrations (.npz) instead of the task's")] = None,
    composition: Annotated[Literal["paper", "released"], arg(help="shares of the paper, or of its released scripts")] = "paper",
    overrides: Overrides = (),
    overwrite: Overwrite = False,
    resume: Annotated[bool, arg(help="go on with a run that is there")] = False,
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


@app.command
def evaluate(folder: Positional[Annotated[Path, arg(help="a run's folder")]], *, episodes: int = 100, seed: Seed = 1_000_000) -> None:
    """Evaluate a run's policy again, on other starts."""
    config = RunFolder(folder).config()
    if config is None or not (folder / POLICY).exists():
        raise ImitableError(f"{folder} has no policy; make one with `imitable run ... -o {folder}`")
    policy = Policy.load(folder / POLICY)
    with one_thread():
        measured = evaluate_policy(policy, find_task(config["task"]).robot, episodes=episodes, rng=Streams(seed).evaluating())
    returns = measured.returns
    extremes = f"from {returns.min():.2f} to {returns.max():.2f}"
    print(f"{config['task']} {config['method']}: mean return {returns.mean():.2f} over {episodes} episodes ({extremes})")
    print_divergence({"evaluating": measured.diverged})


@app.command
def sweep(
    *,
    tasks: tuple[str, ...],
    methods: tuple[str, ...],
    output: Output,
    seeds: Annotated[str, arg(help="such as 0-4")] = "0-4",
    learner: LearnerName = None,
    inverse: InverseName = None,
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
        RunFolder(cell.folder).check(experiments[cell.task, cell.method].config(seed=cell.seed))

    options = [option for override in overrides for option in ("--set", override)]
    options += [] if learner is None else ["--learner", learner]
    options += [] if inverse is None else ["--inverse", inverse]
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


@app.command
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


@app.command
def cache(*, clear: Annotated[bool, arg(help="delete all entries")] = False) -> None:
    """List what is kept for the next time, with its size; or delete it."""
    kept = default_cache()
    entries = kept.clear() if clear else kept.entries()
    parts = sorted({entry.part for entry in entries})
    rows = []
    for part in parts:
        mine = [entry for entry in entries if entry.part == part]
        rows.append((part, str(len(mine)), f"{sum(entry.bytes for entry in mine) / 1e6:.1f} MB", age(mine[0])))
    print_table(("part", "entries", "size", "longest unused"), rows)
    total = sum(entry.bytes for entry in entries) / 1e9
    print(f"{kept.folder}: {'deleted' if clear else 'holds'} {total:.2f} GB; the least recently used go beyond {kept.max_bytes / 1e9:g} GB")


@app.command
def demo(*, output: Output = Path("demo"), seed: Seed = 0) -> None:
    """Learn to drive from good, bad and impossible demonstrations: trusting all of them, and trusting the right ones."""
    found = run_demo(output, seed=seed, progress_bar=progress_bar)
    print_table(found.header, list(found.rows))
    print(f"\nwhat was rejected and why: {found.rejected}\nhow both policies drive:    {found.paths}")


def main() -> None:
    """Run a command; a user's mistake ends in one line, not in a traceback."""
    _keep_freed_memory()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a sweep that is told to stop stops its runs
    warnings.showwarning = lambda message, *_: print(f"note: {message}", file=sys.stderr)
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
