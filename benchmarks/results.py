"""Keep the small files of a sweep in the repository, and write docs/results.md from them.

python benchmarks/results.py keep RUNS             # RUNS is the folder given to `imitable sweep -o`
python benchmarks/results.py keep RUNS sigma=10    # of a sweep with `--set sigma=10`; several are joined by commas
python benchmarks/results.py write                 # docs/results.md and its pictures from benchmarks/results/
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from imitable.arrays import one_thread
from imitable.demonstrations import SOURCES
from imitable.evaluation import evaluate
from imitable.experiment import Streams, prepared
from imitable.methods import find_method
from imitable.networks import Policy
from imitable.report.figures import draw_curves, draw_returns
from imitable.runs import POLICY, SCORES, RunFolder, configuration
from imitable.scorecard import load_scorecard
from imitable.simulators import Simulator
from imitable.sweep import Summary, summary
from imitable.tasks import find_task

HERE = Path(__file__).parent
KEPT, DOCS = HERE / "results", HERE.parent / "docs"
POLICIES = HERE.parent / "src" / "imitable" / "policies"
TABLE = "table"
FURTHER, FURTHER_LONG = 1000, 100  # more episodes of each policy, as `imitable evaluate RUN --episodes` measures them; of 1000 steps each
FURTHER_SEED = 1_000_000
METHODS = ("none", "sail", "ic-gail", "2iwil", "feasibility", "naive", "optimality", "ours")
PAPER: dict[str, tuple[float | None, ...]] = {
    "driving/slow": (-6218, -5743, -8189, -5189, -7364, -4812, None, -654),
    "driving/fast": (-6232, -8976, -7202, -5632, -7188, -5913, None, -1429),
    "reacher/clockwise": (-122.51, -129.52, -121.48, -134.68, -122.03, -111.53, None, -94.32),
    "reacher/counter-clockwise": (-127.68, -129.43, -126.95, -118.92, -121.32, -118.96, None, -90.89),
    "swimmer/back-disabled": (19.57, 12.51, 25.69, 74.12, 23.89, None, 63.12, 122.44),
    "swimmer/front-disabled": (11.89, -2.63, 14.56, 123.89, 0.32, None, 150.32, 167.43),
    "ant/x-axis": (-48, -255, -46, -247, -42, None, 689, 1979),
    "ant/y-axis": (1152, 1239, 1532, 1449, 1621, None, 1389, 1709),
}
"""The paper's table, in the order of METHODS."""
GOALS = {
    "driving/slow": 0.0,
    "driving/fast": 0.0,
    "reacher/clockwise": -92.0,
    "reacher/counter-clockwise": -90.0,
    "swimmer/back-disabled": 122.0,
    "swimmer/front-disabled": 167.0,
    "ant/x-axis": 1979.0,
    "ant/y-axis": 1709.0,
}

Cells = dict[tuple[str, str], list[dict[str, Any]]]


def keep(runs: Path, variant: str = TABLE) -> None:
    """Copy settings, versions, curve and final returns of every finished run into benchmarks/results/VARIANT/."""
    for path in sorted(runs.glob("**/result.json")):
        folder = RunFolder(path.parent)
        config, result = folder.config() or {}, folder.result() or {}
        check_settings(config, variant, path.parent)
        curve = [{"steps": each["steps"], "mean_return": round(each["mean_return"], 3)} for each in folder.curve()]
        name = f"{config['task'].replace('/', '-')}--{config['method']}--{config['seed']}.json"
        (KEPT / variant).mkdir(parents=True, exist_ok=True)
        further = measured_further(find_task(config["task"]).target, folder.path)
        cell = {"config": config, "result": result, "curve": curve, "further": further, "feasible": feasible_by_source(folder.path)}
        (KEPT / variant / name).write_text(json.dumps(cell) + "\n")


def check_settings(config: dict[str, Any], variant: str, folder: Path) -> None:
    """Refuse a run whose settings are not those that the variant names."""
    changes = [] if variant == TABLE else variant.split(",")
    task, method = prepared(find_task(config["task"]), find_method(config["method"]), changes)
    wanted = configuration(task, method, seed=config["seed"])
    for part in ("settings", "learner"):
        if config[part] != wanted[part]:
            sys.exit(f"{folder} was made with {part} {config[part]}, not with those of {variant!r}: {wanted[part]}; name what was --set")


def measured_further(target: Simulator, folder: Path) -> float:
    """Mean return over more episodes, the same starts for every run: what `imitable evaluate` prints."""
    episodes = FURTHER if target.horizon < 500 else FURTHER_LONG
    with one_thread():
        returns = evaluate(Policy.load(folder / POLICY), target, episodes=episodes, rng=Streams(FURTHER_SEED).measuring()).returns
    return round(float(returns.mean()), 3)


def feasible_by_source(folder: Path) -> dict[str, list[float]]:
    """Of each source's demonstrations: the share with feasibility above 0, and their mean feasibility."""
    scores = load_scorecard(folder / SCORES)
    found = {source: scores["feasibility"][scores["source"] == source] for source in SOURCES}
    return {source: [round(float((each > 0).mean()), 4), round(float(each.mean()), 4)] for source, each in found.items() if len(each)}


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


def other_settings() -> list[Path]:
    """Folders of cells that were made under other settings than the tasks' own, which name them."""
    return sorted(path for path in KEPT.iterdir() if path.name != TABLE)


def _settings(folder: Path) -> str:
    return f"`--set {folder.name.replace(',', ' --set ')}`"


def variants_section() -> list[str]:
    """One line per task and method under other settings than the tasks' own; nothing where none were kept."""
    folders = other_settings()
    if not folders:
        return []
    lines = [
        "## Other settings",
        "",
        "| other setting | task | method | seeds | mean ± sd | interquartile mean [95 %] |",
        "|---|---|---|---|---|---|",
    ]
    for folder in folders:
        for (task, method), each in summaries(load(folder.name)).items():
            lines.append(f"| {_settings(folder)} | {task} | {method} | {len(each.means)} | {_mean(each)} | {_interval(each)} |")
    return [*lines, ""]


def results_table(found: dict[tuple[str, str], Summary], further: dict[tuple[str, str], Summary]) -> list[str]:
    """One line per task and method: ours beside the paper's."""
    lines = [
        "| task | method | seeds | mean ± sd | interquartile mean [95 %] | further episodes: mean ± sd | [95 %] | paper |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for task, paper in PAPER.items():
        for method, published in zip(METHODS, paper, strict=True):
            if each := found.get((task, method)):
                more = further[task, method]
                lines.append(
                    f"| {task} | {method} | {len(each.means)} | {_mean(each)} | {_interval(each)} "
                    f"| {_mean(more)} | {_interval(more)} | {'-' if published is None else published} |"
                )
    return lines


def _mean(each: Summary) -> str:
    return f"{each.means.mean():.1f}" + (f" ± {each.spread:.1f}" if len(each.means) > 1 else "")


def _interval(each: Summary) -> str:
    if len(each.means) == 1:
        return "-"
    return f"{each.middle:.1f} [{each.interval[0]:.1f}, {each.interval[1]:.1f}]"


def verdicts(found: dict[tuple[str, str], Summary]) -> list[str]:
    """Whether ours reaches its goal and how much of what the shipped expert earns, and whether its interval is clear of the others'."""
    lines = ["| task | ours | goal | reached | of the expert | interval clear of | interval overlaps |", "|---|---|---|---|---|---|---|"]
    for task, goal in GOALS.items():
        if ours := found.get((task, "ours")):
            others = {method: found[task, method] for method in METHODS[:-1] if (task, method) in found}
            clear = [method for method, other in others.items() if ours.interval[0] > other.interval[1]]
            overlapping = [f"**{method}**" for method in others if method not in clear]
            expert = expert_return(task)
            share = f"{ours.means.mean() / expert:.0%} of {expert:.0f}" if expert > 0 else "-"
            lines.append(
                f"| {task} | {ours.means.mean():.1f} | ≥ {goal:g} | {_yes(ours.means.mean() >= goal)} | {share} "
                f"| {', '.join(clear) or '-'} | {', '.join(overlapping) or '-'} |"
            )
    return lines


def expert_return(task: str) -> float:
    """Of the policy that is shipped as this task's optimal demonstrator; 0 where that is hand-made."""
    record = POLICIES / f"{task.replace('/', '-')}-optimal.json"
    return float(json.loads(record.read_text())["mean_return"]) if record.exists() else 0.0


def differences(cells: Cells, *, further: bool) -> list[str]:
    """How much better ours is than each other method on the same demonstrations and starts, seed by seed."""
    lines = ["| task | ours better than | seeds | mean difference [95 %] | seeds won |", "|---|---|---|---|---|"]
    rng = np.random.default_rng(0)
    for task in PAPER:
        ours = _by_seed(cells.get((task, "ours"), []), further=further)
        for method in METHODS[:-1]:
            other = _by_seed(cells.get((task, method), []), further=further)
            gains = np.array([ours[seed] - other[seed] for seed in ours if seed in other])
            if len(gains) > 1:
                low, high = np.percentile(rng.choice(gains, (10_000, len(gains))).mean(axis=1), [2.5, 97.5])
                won = f"{(gains > 0).sum()} of {len(gains)}"
                lines.append(f"| {task} | {method} | {len(gains)} | {gains.mean():.1f} [{low:.1f}, {high:.1f}] | {won} |")
    return lines


def _by_seed(cells: list[dict[str, Any]], *, further: bool) -> dict[int, float]:
    return {cell["config"]["seed"]: cell["further"] if further else cell["result"]["mean_return"] for cell in cells}


def _yes(value: bool) -> str:
    return "yes" if value else "**no**"


def sources_table(cells: Cells) -> list[str]:
    """Which share of the samples each source gets, and how many demonstrations the weights amount to."""
    lines = ["| task | method | optimal | suboptimal | other-dynamics | effective demonstrations |", "|---|---|---|---|---|---|"]
    for task in PAPER:
        for method in METHODS:
            if found := cells.get((task, method)):
                shares = [np.mean([cell["result"]["share_by_source"].get(source, 0.0) for cell in found]) for source in SOURCES]
                effective = np.mean([cell["result"]["effective_demonstrations"] for cell in found])
                lines.append(f"| {task} | {method} | {' | '.join(f'{share:.1%}' for share in shares)} | {effective:.0f} |")
    return lines


def confusion_section() -> list[str]:
    """How often demonstrations of each source pass as feasible: the target's own should, those of other dynamics should not."""
    lines: list[str] = []
    settings = {"the task's own": load(), **{_settings(folder): load(folder.name) for folder in other_settings()}}
    for task in PAPER:
        for name, cells in settings.items():
            every = [cell for method in METHODS for cell in cells.get((task, method), []) if "feasible" in cell]
            if found := {cell["config"]["seed"]: cell["feasible"] for cell in every}:  # methods of a seed share what is feasible
                shares = [np.mean([each.get(source, [0.0, 0.0]) for each in found.values()], axis=0) for source in SOURCES]
                columns = [f"{share:.1%} ({mean:.2f})" for share, mean in shares]
                lines.append(f"| {task} | {name} | {len(found)} | {' | '.join(columns)} |")
    if not lines:
        return []
    explained = "Which demonstrations pass as feasible: the share with w_f above 0 and, in brackets, the mean w_f of all:"
    return [explained, "", f"| task | settings | seeds | {' | '.join(SOURCES)} |", "|---|---|---|---|---|---|", *lines, ""]


def experts_table() -> list[str]:
    lines = ["| policy | seed kept | return by seed | steps | mean action | sampled |", "|---|---|---|---|---|---|"]
    for path in sorted(POLICIES.glob("*.json")):
        record = json.loads(path.read_text())
        by_seed = ", ".join(f"{seed}: {value}" for seed, value in record["returns_by_seed"].items())
        lines.append(
            f"| {path.stem} | {record['seed']} | {by_seed} | {record['steps']:,} | {record['mean_return']} | {record['sampled_return']} |"
        )
    return lines


def commands(cells: Cells) -> list[tuple[str, str, str]]:
    """Tasks, methods and seeds of the sweeps that make these cells, tasks with the same methods and seeds in one."""
    together: dict[tuple[str, str], list[str]] = defaultdict(list)
    for task in PAPER:
        methods = " ".join(method for method in METHODS if (task, method) in cells)
        seeds = sorted({cell["config"]["seed"] for method in METHODS for cell in cells.get((task, method), [])})
        if methods:
            together[methods, ",".join(map(str, seeds))].append(task)
    return [(" ".join(tasks), methods, seeds) for (methods, seeds), tasks in together.items()]


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
        *(
            f"imitable sweep --tasks {tasks} \\\n    --methods {methods} --seeds {seeds} -o runs"
            for tasks, methods, seeds in commands(cells)
        ),
        "python benchmarks/results.py keep runs",
        "```",
        "",
        "Each number is the mean return of the last policy (mean action) over 100 episodes from starts that no training saw; no policy",
        "was picked on the way. Intervals are 95 % bootstrap intervals of the interquartile mean over seeds. The paper does not say",
        "what its ± means or how many seeds it used. Driving, Swimmer and Ant copy recovered actions, Reacher learns by GAIL, and so do",
        "2IWIL and IC-GAIL everywhere. Versions: " + ", ".join(f"{name} {value}" for name, value in first.items()) + ".",
        "",
        *(f"![returns of {task}](returns-{task.replace('/', '-')}.png)" for task in PAPER if (task, "ours") in cells),
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
        f"By {FURTHER} further episodes of each run ({FURTHER_LONG} of Swimmer and Ant, whose starts are much alike), the same starts for",
        "all (`imitable evaluate RUN --episodes N`), which leaves the differences between training runs and little of the luck of",
        "starts:",
        "",
        *verdicts(further),
        "",
        "Methods of a seed share demonstrations and starts, so their differences say more than their intervals. By the 100 episodes:",
        "",
        *differences(cells, further=False),
        "",
        "By the further episodes:",
        "",
        *differences(cells, further=True),
        "",
        *variants_section(),
        "## What the weights do",
        "",
        *sources_table(cells),
        "",
        *confusion_section(),
        "## Shipped policies",
        "",
        "Trained by `imitable expert TASK -o src/imitable/policies --seeds ...` (`make experts`), measured over 1000 episodes (Swimmer",
        "and Ant: 100) on starts not trained on.",
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
        picture = DOCS / f"returns-{task.replace('/', '-')}.png"
        if curves and all(len(curve) > 1 for runs in curves.values() for curve in runs):
            draw_curves(curves, picture, title=task)
        elif curves:  # some measured once, at the end
            draw_returns({method: [curve[-1]["mean_return"] for curve in runs] for method, runs in curves.items()}, picture, title=task)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["keep", runs, *variant]:
            keep(Path(runs), *variant)
        case ["write"]:
            write()
        case _:
            sys.exit(__doc__)
