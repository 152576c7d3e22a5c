"""`imitable evaluate`: a run's policy on other starts."""

from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from imitable.arrays import one_thread
from imitable.cli.options import Seed
from imitable.errors import ImitableError
from imitable.evaluation import evaluate as evaluate_policy
from imitable.paper.tasks import find_task
from imitable.pipeline import Streams
from imitable.report.terminal import print_divergence, print_line as print
from imitable.store.runs import POLICY, RunFolder


def evaluate(folder: Positional[Annotated[Path, arg(help="a run's folder")]], *, episodes: int = 100, seed: Seed = 1_000_000) -> None:
    """Evaluate a run's policy again, on other starts."""
    run = RunFolder(folder)
    config = run.config()
    if config is None or not (folder / POLICY).exists():
        raise ImitableError(f"{folder} has no policy; make one with `imitable run ... -o {folder}`")
    policy = run.policy()
    with one_thread():
        measured = evaluate_policy(policy, find_task(config["task"]).judge, episodes=episodes, rng=Streams(seed).evaluating())
    returns = measured.returns
    extremes = f"from {returns.min():.2f} to {returns.max():.2f}"
    print(f"{config['task']} {config['method']}: mean return {returns.mean():.2f} over {episodes} episodes ({extremes})")
    print_divergence({"evaluating": measured.diverged})
