"""Commands of the paper's experiments: their tasks, methods, demonstrations and runs."""

from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from imitable.arrays import one_thread
from imitable.cli.check import print_note
from imitable.cli.options import Composition, InverseName, LearnerName, MethodName, Output, Overrides, Overwrite, Resume, Seed, TaskName
from imitable.evaluation import N_EVAL_EPISODES
from imitable.formats import FORMATS, npz, read
from imitable.paper import TASK_NAMES
from imitable.paper.demo import run_demo
from imitable.paper.demonstrators import DEMONSTRATIONS
from imitable.paper.expert_training import train_and_save
from imitable.paper.methods import CONTROLS, METHODS, find_method
from imitable.paper.run import Experiment, collected, run_in_folder
from imitable.paper.sweep import parse_seeds
from imitable.paper.tasks import find_task
from imitable.report.terminal import print_divergence, print_line as print, print_table, progress_bar
from imitable.store.cache import default_cache
from imitable.store.files import check_writable


def tasks() -> None:
    """List the built-in tasks."""
    header = ("task", "columns", "horizon", "optimal / suboptimal / other-dynamics", "learner")
    rows = []
    for task in map(find_task, TASK_NAMES):
        shares = " / ".join(f"{share:.1%}" for share in task.demonstrators.mixture.shares().values())
        rows.append((task.name, str(len(task.robot.observation_names)), str(task.robot.horizon), shares, task.learner))
    print_table(header, rows)


def methods() -> None:
    """List the methods, and two controls."""
    print_table(("method", "what counts"), [(name, method.summary) for name, method in (METHODS | CONTROLS).items()])


def collect(
    task: TaskName,
    *,
    output: Output,
    count: int = DEMONSTRATIONS,
    composition: Composition = "paper",
    seed: Seed = 0,
    overwrite: Overwrite = False,
) -> None:
    """Make a mixture of demonstrations with a task's own demonstrators."""
    chosen = find_task(task)
    check_writable(output, overwrite=overwrite)
    with progress_bar(f"{task} demonstrations") as progress:
        demonstrations = collected(chosen, seed=seed, count=count, composition=composition, cache=default_cache(), progress=progress)
    npz.write(demonstrations, output)
    print(f"{output}: {demonstrations}")


def run(
    task: TaskName,
    *,
    method: MethodName,
    output: Output,
    learner: LearnerName = None,
    inverse: InverseName = None,
    seed: Seed = 0,
    demos: Annotated[Path | None, arg(help=f"your own demonstrations ({', '.join(FORMATS)}) instead of the task's")] = None,
    composition: Composition = "paper",
    count: Annotated[int, arg(help="of the task's own demonstrations")] = DEMONSTRATIONS,
    episodes: Annotated[int, arg(help="of each evaluation")] = N_EVAL_EPISODES,
    overrides: Overrides = (),
    overwrite: Overwrite = False,
    resume: Resume = False,
) -> None:
    """Learn a policy from a task's demonstrations, or your own, and evaluate it."""
    experiment = Experiment.of(
        find_task(task),
        find_method(method),
        learner=learner,
        inverse=inverse,
        overrides=overrides,
        composition=composition,
        count=count,
        episodes=episodes,
    )
    with progress_bar(f"{task} {method}") as progress:
        result = run_in_folder(
            experiment,
            output,
            seed=seed,
            demonstrations=None if demos is None else read(demos, note=print_note),
            overwrite=overwrite,
            resume=resume,
            cache=default_cache(),
            progress=progress,
        )
    print(f"{output}: mean return {result['mean_return']:.2f} over {len(result['returns'])} episodes")
    print_divergence(result["diverged"])


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
            print(f"{task}: the {quality} policy is not trained; it is hand-made, or that of another task")
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
