"""Keep the small files of a sweep in the repository, and write docs/results.md from them.

python benchmarks/results.py keep RUNS        # RUNS is the folder given to `imitable sweep -o`
python benchmarks/results.py write            # docs/results.md and its curves from benchmarks/results/
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from imitable.evaluation import evaluate
from imitable.experiment import Streams
from imitable.networks import Policy
from imitable.report.figures import draw_curves
from imitable.runs import POLICY, RunFolder
from imitable.simulators import Simulator
from imitable.sweep import Summary, summary
from imitable.tasks import find_task

HERE = Path(__file__).parent
KEPT, DOCS = HERE / "results", HERE.parent / "docs"
TABLE = "table"
FURTHER, FURTHER_SEED = 1000, 1_000_000  # episodes and seed of `imitable evaluate RUN --episodes 1000`
METHODS = ("none", "feasibility", "naive", "ours")
PAPER = {
    "driving/slow": (-6218, -7364, -4812, -654),
    "driving/fast": (-6232, -7188, -5913, -1429),
    "reacher/clockwise": (-122.51, -122.03, -111.53, -94.32),
    "reacher/counter-clockwise": (-127.68, -121.32, -118.96, -90.89),
}
GOALS = {"driving/slow": 0.0, "driving/fast": 0.0, "reacher/clockwise": -92.0, "reacher/counter-clockwise": -90.0}

Cells = dict[tuple[str, str], list[dict[str, Any]]]


def keep(runs: Path, variant: str = TABLE) -> None:
    """Copy settings, versions, curve and final returns of every finished run into benchmarks/results/VARIANT/."""
    for path in sorted(runs.glob("**/result.json")):
        folder = RunFolder(path.parent)
        config, result = folder.config() or {}, folder.result() or {}
        curve = [{"steps": each["steps"], "mean_return": round(each["mean_return"], 3)} for each in folder.curve()]
        name = f"{config['task'].replace('/', '-')}--{config['method']}--{config['seed']}.json"
        (KEPT / variant).mkdir(parents=True, exist_ok=True)
        further = measured_further(find_task(config["task"]).target, folder.path)
        cell = {"config": config, "result": result, "curve": curve, "further": further}
        (KEPT / variant / name).write_text(json.dumps(cell) + "\n")


def measured_further(target: Simulator, folder: Path) -> float:
    """Mean return over FURTHER more episodes, the same starts for every run: what `imitable evaluate` prints."""
    returns = evaluate(Policy.load(folder / POLICY), target, episodes=FURTHER, rng=Streams(FURTHER_SEED).measuring()).returns
    return round(float(returns.mean()), 3)


def load(variant: str = TABLE) -> Cells:
    cells: Cells = defaultdict(list)
    for path in sorted((KEPT / variant).glob("*.json")):
        cell = json.loads(path.read_text())
        cells[cell["config"]["task"], cell["config"]["method"]].append(cell)
    return cells


def summaries(cells: Cells, *, further: bool = False) -> dict[tuple[str, str], Summary]:
    """Over seeds, of the runs' own 100 episodes or of the further ones."""
    rng = np.random.default_rng(0)
    return {
        key: summary(*key, np.array([cell["further"] if further else cell["result"]["mean_return"] for cell in found]), rng=rng)
        for key, found in sorted(cells.items())
    }


def variants_section() -> list[str]:
    """One line per task and method under other settings than the tasks' own; nothing where none were kept."""
    folders = sorted(path for path in KEPT.iterdir() if path.name != TABLE)
    if not folders:
        return []
    lines = ["## Other settings", "", "| other setting | task | method | seeds | mean ± sd | 95 % interval |", "|---|---|---|---|---|---|"]
    for folder in folders:
        for (task, method), each in summaries(load(folder.name)).items():
            low, high = each.interval
            lines.append(
                f"| `--set {folder.name.replace(',', ' --set ')}` | {task} | {method} | {len(each.means)} "
                f"| {each.means.mean():.1f} ± {each.spread:.1f} | [{low:.1f}, {high:.1f}] |"
            )
    return [*lines, ""]


def results_table(found: dict[tuple[str, str], Summary], further: dict[tuple[str, str], Summary]) -> list[str]:
    """One line per task and method: ours beside the paper's."""
    lines = [
        "| task | method | seeds | mean ± sd | interquartile mean [95 %] | 1000 further episodes: mean ± sd | [95 %] | paper |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for task, paper in PAPER.items():
        for method, published in zip(METHODS, paper, strict=True):
            if each := found.get((task, method)):
                more = further[task, method]
                lines.append(
                    f"| {task} | {method} | {len(each.means)} | {each.means.mean():.1f} ± {each.spread:.1f} | {_interval(each)} "
                    f"| {more.means.mean():.1f} ± {more.spread:.1f} | {_interval(more)} | {published} |"
                )
    return lines


def _interval(each: Summary) -> str:
    return f"{each.middle:.1f} [{each.interval[0]:.1f}, {each.interval[1]:.1f}]"


def verdicts(found: dict[tuple[str, str], Summary]) -> list[str]:
    """Whether ours reaches its goal, and whether its interval is clear of every other method's."""
    lines = ["| task | ours | goal | reached | clear of none | clear of feasibility | clear of naive |", "|---|---|---|---|---|---|---|"]
    for task, goal in GOALS.items():
        if ours := found.get((task, "ours")):
            others = [found.get((task, method)) for method in METHODS[:-1]]
            clear = ["-" if other is None else _yes(ours.interval[0] > other.interval[1]) for other in others]
            lines.append(f"| {task} | {ours.means.mean():.1f} | ≥ {goal:g} | {_yes(ours.means.mean() >= goal)} | {' | '.join(clear)} |")
    return lines


def _yes(value: bool) -> str:
    return "yes" if value else "**no**"


def sources_table(cells: Cells) -> list[str]:
    """Which share of the samples each source gets, and how many demonstrations the weights amount to."""
    lines = ["| task | method | optimal | suboptimal | other-dynamics | effective demonstrations |", "|---|---|---|---|---|---|"]
    for task in PAPER:
        for method in METHODS:
            if found := cells.get((task, method)):
                shares = [
                    np.mean([cell["result"]["share_by_source"].get(source, 0.0) for cell in found])
                    for source in ("optimal", "suboptimal", "other-dynamics")
                ]
                effective = np.mean([cell["result"]["effective_demonstrations"] for cell in found])
                lines.append(f"| {task} | {method} | {' | '.join(f'{share:.1%}' for share in shares)} | {effective:.0f} |")
    return lines


def experts_table() -> list[str]:
    lines = ["| policy | seed kept | of seeds | steps | mean action | sampled |", "|---|---|---|---|---|---|"]
    for path in sorted((HERE.parent / "src" / "imitable" / "policies").glob("*.json")):
        record = json.loads(path.read_text())
        lines.append(
            f"| {path.stem} | {record['seed']} | {record['seeds']} | {record['steps']:,} "
            f"| {record['mean_return']} | {record['sampled_return']} |"
        )
    return lines


def write() -> None:
    cells = load()
    if not cells:
        sys.exit(f"no runs in {KEPT / TABLE}; first: python benchmarks/results.py keep RUNS")
    found, further = summaries(cells), summaries(cells, further=True)
    every = [cell["config"]["versions"] for some in cells.values() for cell in some]
    first = every[0]
    if any(each != first for each in every):
        sys.exit(f"{KEPT / TABLE} mixes versions; run the sweep again in one environment")
    page = [
        "# Results",
        "",
        "Generated by `python benchmarks/results.py write` from `benchmarks/results/` (one file per run: settings, versions, curve,",
        "final returns); do not edit. The runs come from",
        "",
        "```",
        "imitable sweep --tasks driving/slow driving/fast reacher/clockwise reacher/counter-clockwise \\",
        "    --methods none feasibility naive ours --seeds 0-4 -o runs",
        "python benchmarks/results.py keep runs",
        "```",
        "",
        "Each number is the mean return of the last policy (mean action) over 100 episodes from starts that no training saw; no policy",
        "was picked on the way. Intervals are 95 % bootstrap intervals of the interquartile mean over seeds. The paper does not say",
        "what its ± means or how many seeds it used. Versions: " + ", ".join(f"{name} {value}" for name, value in first.items()) + ".",
        "",
        *(f"![learning curves of {task}](curves-{task.replace('/', '-')}.png)" for task in PAPER if (task, "ours") in cells),
        "",
        "## Returns",
        "",
        *results_table(found, further),
        "",
        "## Goals",
        "",
        "By the 100 episodes of each run:",
        "",
        *verdicts(found),
        "",
        f"By {FURTHER} further episodes of each run, the same starts for all (`imitable evaluate RUN --episodes {FURTHER}`), which leaves",
        "the differences between training runs and little of the luck of starts:",
        "",
        *verdicts(further),
        "",
        *variants_section(),
        "## What the weights do",
        "",
        *sources_table(cells),
        "",
        "## Shipped policies",
        "",
        "Trained by `imitable expert TASK -o src/imitable/policies --seeds ...` (`make experts`), measured over 1000 episodes on starts",
        "not trained on.",
        "",
        *experts_table(),
        "",
        (HERE / "notes.md").read_text().strip(),
        "",
    ]
    DOCS.mkdir(exist_ok=True)
    (DOCS / "results.md").write_text("\n".join(page))
    for task in PAPER:
        curves = {method: [cell["curve"] for cell in cells[task, method]] for method in METHODS if (task, method) in cells}
        if curves:
            draw_curves(curves, DOCS / f"curves-{task.replace('/', '-')}.png", title=task)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["keep", runs, *variant]:
            keep(Path(runs), *variant)
        case ["write"]:
            write()
        case _:
            sys.exit(__doc__)
