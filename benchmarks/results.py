"""Keep the small files of a sweep in the repository, and write docs/results.md from them.

python benchmarks/results.py keep RUNS                     # RUNS is the folder given to `imitable sweep -o`, of studies or not
python benchmarks/results.py keep RUNS sigma=10            # of a sweep with `--set sigma=10`; several are joined by commas
python benchmarks/results.py keep RUNS inverse=learned     # of a sweep with `--inverse learned`; likewise learner=, composition=
python benchmarks/results.py write [FOLDER]                # FOLDER/results.md and its pictures from benchmarks/results/; docs if left out
"""

import json
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from conventions import FAULTS, INNOCENT
from imitable.arrays import one_thread
from imitable.evaluation import evaluate
from imitable.networks import Policy
from imitable.paper import TASK_NAMES, driving
from imitable.paper.demonstrators import SOURCES
from imitable.paper.methods import CONTROLS, METHODS
from imitable.paper.statistics import Summary, gap_closed, interquartile, paired_difference, probability_of_improvement, summary
from imitable.paper.studies import STUDIES, study_cells
from imitable.paper.sweep import Cell, Settings
from imitable.paper.tasks import find_task, published
from imitable.pipeline import Streams
from imitable.report.figures import draw_curves, draw_returns
from imitable.rollouts import run_episodes
from imitable.simulators import Simulator
from imitable.store.files import read_table
from imitable.store.runs import POLICY, SCORES, RunFolder

HERE = Path(__file__).parent
KEPT, DOCS = HERE / "results", HERE.parent / "docs"
POLICIES = HERE.parent / "src" / "imitable" / "paper" / "policies"
TABLE = "table"
STOCK = HERE / "stock_robots.json"
CONVENTIONS = HERE / "conventions.json"
OWN_ROBOT = HERE / "own_robot.json"
VERDICTS = HERE / "verdicts.json"
INVERSE = HERE / "inverse.json"
TRANSFER = HERE / "panda_transfer.json"
FURTHER, FURTHER_LONG = 1000, 100  # more episodes of each policy, as `imitable evaluate RUN --episodes` measures them; of 1000 steps each
FURTHER_SEED = 1_000_000
ROWS = [*METHODS, *CONTROLS]
OTHERS = [method for method in ROWS if method != "ours"]
EARLIER = "†"
"""Marks what was made by version 0.1."""

ELSEWHERE = {"learner=gail", "inverse=learned", "composition=released"}
"""Variants of studies that are not a series: shown among other settings."""

Cells = dict[tuple[str, str], list[dict[str, Any]]]


def keep(runs: Path, given: str = TABLE) -> None:
    """Copy settings, versions, curve and final returns of every finished run into benchmarks/results/VARIANT/.

    A study has a folder for each of its settings, which names them; of another sweep they are given.
    """
    for path in sorted(runs.glob("**/result.json")):
        folder = RunFolder(path.parent)
        config, result = folder.config() or {}, folder.result() or {}
        parts = path.relative_to(runs).parts  # VARIANT/TASK/METHOD/seed-N/result.json
        variant = parts[0] if len(parts) == 5 else given
        check_settings(config, variant, path.parent)
        curve = [{"steps": each["steps"], "mean_return": round(each["mean_return"], 3)} for each in folder.curve()]
        name = f"{config['task'].replace('/', '-')}--{config['method']}--{config['seed']}.json"
        (KEPT / variant).mkdir(parents=True, exist_ok=True)
        if is_kept(KEPT / variant / name, config, result):
            continue
        task = find_task(config["task"])
        further = measured_further(task.evaluation_robot, folder.path, slow=task.evaluation_robot is not task.robot)
        cell = {"config": config, "result": result, "curve": curve, "further": further, **feasible_by_source(folder.path)}
        if config["task"].startswith("driving/"):
            cell["arrived"] = arrived(find_task(config["task"]).robot, folder.path)
        (KEPT / variant / name).write_text(json.dumps(cell) + "\n")


def is_kept(path: Path, config: dict[str, Any], result: dict[str, Any]) -> bool:
    """Whether this very run was kept before: further episodes take minutes on some robots."""
    cell = json.loads(path.read_text()) if path.exists() else {}
    return (cell.get("config"), cell.get("result")) == (json.loads(json.dumps(config)), json.loads(json.dumps(result)))


def check_settings(config: dict[str, Any], variant: str, folder: Path) -> None:
    """Refuse a run whose settings are not those that the variant names."""
    settings = Settings.named("" if variant == TABLE else variant)
    wanted = Cell(config["task"], config["method"], config["seed"], folder, settings).config()
    for part in ("composition", "count", "episodes", "model", "exploration", "score", "learner"):
        if config.get(part) != wanted.get(part):
            sys.exit(
                f"{folder} was made with {part} {config.get(part)}, not with that of {variant!r}: {wanted.get(part)}; name what was set"
            )


def measured_further(robot: Simulator, folder: Path, *, slow: bool) -> float:
    """Mean return over more episodes, the same starts for every run: what `imitable evaluate` prints; fewer in slow simulations."""
    episodes = FURTHER_LONG if slow or robot.horizon >= 500 else FURTHER
    with one_thread():
        returns = evaluate(Policy.load(folder / POLICY), robot, episodes=episodes, rng=Streams(FURTHER_SEED).evaluating()).returns
    return round(float(returns.mean()), 3)


def arrived(robot: Simulator, folder: Path) -> float:
    """Of further drives, the share that ends at the goal."""
    with one_thread():
        drives = run_episodes(robot, Policy.load(folder / POLICY), count=FURTHER, rng=Streams(FURTHER_SEED).evaluating()).trajectories
    ends = robot.restore(drives.observations[drives.starts + drives.lengths])
    return round(float(driving.touches(ends[:, :2], ends[:, driving.HEADING], *driving.GOAL).mean()), 4)


def feasible_by_source(folder: Path) -> dict[str, dict[str, list[float]]]:
    """Of each source's demonstrations: the share with feasibility above 0, and their mean feasibility; nothing of a method without."""
    scores = read_table(folder / SCORES)
    if "feasibility" not in scores:
        return {}
    found = {source: scores["feasibility"][scores["source"] == source] for source in SOURCES}
    return {
        "feasible": {
            source: [round(float((each > 0).mean()), 4), round(float(each.mean()), 4)] for source, each in found.items() if len(each)
        }
    }


def is_earlier(cell: dict[str, Any]) -> bool:
    """Whether version 0.1 made it, whose configurations hold `settings`: with the learned inverse dynamics, and GAIL on Reacher."""
    return "settings" in cell["config"]


def mark(cells: list[dict[str, Any]]) -> str:
    return f" {EARLIER}" if any(map(is_earlier, cells)) else ""


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


def other_settings(*, every: bool = False) -> list[Path]:
    """Folders of cells that were made under other settings than the tasks' own, which name them; but those of studies that have a table."""
    shown = {variant for variant, _ in PERFECT.values()} - ELSEWHERE
    shown |= {each.name for study in STUDIES.values() for part in study.parts for each in part.settings} - ELSEWHERE
    return sorted(path for path in KEPT.iterdir() if path.is_dir() and path.name != TABLE and (every or path.name not in shown))


def _settings(folder: Path) -> str:
    return f"`{' '.join(Settings.named(folder.name).arguments())}`"


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
        cells = load(folder.name)
        for (task, method), each in summaries(cells).items():
            name = f"{method}{mark(cells[task, method])}"
            lines.append(f"| {_settings(folder)} | {task} | {name} | {len(each.means)} | {_mean(each)} | {_interval(each)} |")
    return [*lines, ""]


def results_table(cells: Cells, found: dict[tuple[str, str], Summary], further: dict[tuple[str, str], Summary]) -> list[str]:
    """One line per task and method: ours beside the paper's."""
    lines = [
        "| task | method | seeds | mean ± sd | interquartile mean [95 %] | further episodes: mean ± sd | [95 %] | paper |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for task in TASK_NAMES:
        for method in ROWS:
            if each := found.get((task, method)):
                more, name = further[task, method], f"{method}{mark(cells[task, method])}"
                lines.append(
                    f"| {task} | {name} | {len(each.means)} | {_mean(each)} | {_interval(each)} "
                    f"| {_mean(more)} | {_interval(more)} | {published().get(task, {}).get('returns', {}).get(method, '-')} |"
                )
    return lines


def _mean(each: Summary) -> str:
    return f"{each.means.mean():.1f}" + (f" ± {each.std:.1f}" if len(each.means) > 1 else "")


def _interval(each: Summary) -> str:
    if len(each.means) == 1:
        return "-"
    return f"{each.interquartile_mean:.1f} [{each.interval[0]:.1f}, {each.interval[1]:.1f}]"


def verdicts(found: dict[tuple[str, str], Summary]) -> list[str]:
    """Whether ours reaches its goal and how much of what the shipped expert earns, and whether its interval is clear of the others'."""
    lines = ["| task | ours | goal | reached | of the expert | interval clear of | interval overlaps |", "|---|---|---|---|---|---|---|"]
    for task in TASK_NAMES:
        if ours := found.get((task, "ours")):
            goal = published().get(task, {}).get("goal", np.nan)
            others = {method: found[task, method] for method in OTHERS if (task, method) in found}
            clear = [method for method, other in others.items() if ours.interval[0] > other.interval[1]]
            overlapping = [f"**{method}**" for method in others if method not in clear]
            expert = expert_return(task)
            share = f"{ours.means.mean() / expert:.0%} of {expert:.0f}" if expert > 0 else "-"
            lines.append(
                f"| {task} | {ours.means.mean():.1f} | ≥ {goal:g} | {_yes(ours.means.mean() >= goal)} | {share} "
                f"| {', '.join(clear) or '-'} | {', '.join(overlapping) or '-'} |"
            )
    return lines


@cache
def expert_return(task: str) -> float:
    """Of this task's optimal demonstrator: as recorded with the shipped policy, or measured where it is hand-made."""
    record = POLICIES / f"{task.replace('/', '-')}-optimal.json"
    if record.exists():
        return float(json.loads(record.read_text())["mean_return"])
    demonstrators, rng = find_task(task).demonstrators, np.random.default_rng(0)
    return float(evaluate(lambda seen: demonstrators.optimal(seen, rng), demonstrators.target, episodes=FURTHER, rng=rng).returns.mean())


def differences(cells: Cells, *, further: bool) -> list[str]:
    """How much better ours is than each other method on the same demonstrations and starts, seed by seed."""
    lines = ["| task | ours better than | seeds | mean difference [95 %] | seeds won |", "|---|---|---|---|---|"]
    for task in TASK_NAMES:
        ours = _by_seed(cells.get((task, "ours"), []), further=further)
        for method in OTHERS:
            other = _by_seed(cells.get((task, method), []), further=further)
            gains, mean = paired_difference(ours, other, rng=np.random.default_rng(0))
            if mean is not None:
                won = f"{(gains > 0).sum()} of {len(gains)}"
                lines.append(f"| {task} | {method}{mark(cells[task, method])} | {len(gains)} | {mean:.1f} | {won} |")
    return lines


def _by_seed(cells: list[dict[str, Any]], *, further: bool) -> dict[int, float]:
    return {cell["config"]["seed"]: cell["further"] if further else cell["result"]["mean_return"] for cell in cells}


def _yes(value: bool) -> str:
    return "yes" if value else "**no**"


def perfect_section() -> list[str]:
    """What each learner makes of perfect demonstrations only, beside their expert: who fails here proves nothing elsewhere."""
    lines = []
    for task in TASK_NAMES:
        for name, (variant, method) in PERFECT.items():
            if some := load(variant).get((task, method)):
                each, expert = summaries({(task, method): some})[task, method], expert_return(task)
                share = 1 - abs(expert - float(each.means.mean())) / abs(expert) if each.means.mean() < expert else 1.0
                goals = [cell["arrived"] for cell in some if "arrived" in cell]
                reached = float(np.mean(goals)) if goals else share
                of_goal = f"{np.mean(goals):.1%}" if goals else "-"
                lines.append(f"| {task} | {name} | {len(some)} | {_mean(each)} | {expert:.1f} | {of_goal} | {_yes(reached >= 0.9)} |")
    if not lines:
        return []
    return [
        "## Perfect demonstrations only",
        "",
        "Made by `imitable sweep --study perfect`: only the optimal demonstrations of the paper's mixture. Before a learner's other cells",
        "count, its return must come within 10 % of the expert's; on Driving 90 % of the drives must arrive.",
        "",
        "| task | learner | seeds | mean ± sd | expert | arrive | reached |",
        "|---|---|---|---|---|---|---|",
        *lines,
        "",
    ]


PERFECT = {
    "cloning": ("learner=cloning,composition=perfect", "none"),
    "GAIL": ("learner=gail,composition=perfect", "none"),
    **{name: ("composition=perfect", method) for name, method in (("2IWIL", "2iwil"), ("IC-GAIL", "ic-gail"), ("SAIL", "sail"))},
}
"""Learners by name: the variant and the method of their runs."""


def across_tasks(cells: Cells) -> list[str]:
    """Each method over all tasks that have it: which share of the gap from none to the expert it closes, and how often ours beats it."""
    rng, lines = np.random.default_rng(0), []
    returns = {key: np.array([cell["further"] for cell in some]) for key, some in cells.items()}
    for method in ROWS:
        tasks = [task for task in TASK_NAMES if (task, method) in returns and (task, "none") in returns]
        if tasks:
            normalized = {
                task: gap_closed(returns[task, method], none=float(returns[task, "none"].mean()), expert=expert_return(task))
                for task in tasks
            }
            closed = interquartile(normalized, rng=rng)
            mine, theirs = ({task: returns[task, name] for task in tasks if (task, name) in returns} for name in ("ours", method))
            better = f"{probability_of_improvement(mine, theirs, rng=rng):.2f}" if mine and method != "ours" else "-"
            lines.append(f"| {method} | {len(tasks)} | {closed:.2f} | {better} |")
    return ["| method | tasks | share of the gap closed [95 %] | P(ours better) [95 %] |", "|---|---|---|---|", *lines]


def series_section() -> list[str]:
    """The studies that vary a setting: a line per setting and method."""
    lines: list[str] = []
    for name in ("sigma", "delta_s", "perfect-share", "other-share", "imperfect"):
        rows = []
        for part in STUDIES[name].parts:
            for settings in part.settings:
                cells = load(settings.name or TABLE)
                for (task, method), each in summaries(cells).items():
                    if task in part.tasks and (settings.name or method in part.methods):
                        automatic = " (automatic)" if not settings.name or "sigma=none" in settings.name else ""
                        given = f"`{' '.join(settings.arguments())}`" if settings.name else "the task's own"
                        row = f"| {given}{automatic} | {task} | {method}{mark(cells[task, method])} | {len(each.means)} "
                        rows.append(f"{row}| {_mean(each)} | {_interval(each)} |")
        if any("the task's own" not in row for row in rows):
            lines += [f"### {name}: {STUDIES[name].summary}", "", f"Made by `imitable sweep --study {name}`.", ""]
            lines += [
                "| settings | task | method | seeds | mean ± sd | interquartile mean [95 %] |",
                "|---|---|---|---|---|---|",
                *rows,
                "",
            ]
    return ["## Studies", "", *coverage(), "", *lines]


def coverage() -> list[str]:
    """What each study compares, and how many of its runs are stored."""
    lines = ["| `imitable sweep --study` | what | runs | stored | of version 0.1 |", "|---|---|---|---|---|"]
    for study in STUDIES.values():
        grid = study_cells([study.name], root=KEPT)
        paths = [cell.root / f"{cell.task.replace('/', '-')}--{cell.method}--{cell.seed}.json" for cell in grid]
        stored = [json.loads(path.read_text()) for path in paths if path.exists()]
        lines.append(f"| {study.name} | {study.summary} | {len(grid)} | {len(stored)} | {sum(map(is_earlier, stored))} |")
    return lines


def sources_table(cells: Cells) -> list[str]:
    """Which share of the samples each source gets, and how many demonstrations the weights amount to."""
    lines = ["| task | method | optimal | suboptimal | other-dynamics | effective demonstrations |", "|---|---|---|---|---|---|"]
    for task in TASK_NAMES:
        for method in ROWS:
            if found := cells.get((task, method)):
                shares = [np.mean([cell["result"]["share_by_source"].get(source, 0.0) for cell in found]) for source in SOURCES]
                effective = np.mean([cell["result"]["effective_demonstrations"] for cell in found])
                lines.append(f"| {task} | {method}{mark(found)} | {' | '.join(f'{share:.1%}' for share in shares)} | {effective:.0f} |")
    return lines


def confusion_section() -> list[str]:
    """How often demonstrations of each source pass as feasible: the robot's own should, those of other dynamics should not."""
    lines: list[str] = []
    settings: dict[str, Cells] = {"the task's own": load(), **{_settings(folder): load(folder.name) for folder in other_settings()}}
    for task in TASK_NAMES:
        for name, cells in settings.items():
            every = [cell for method in METHODS for cell in cells.get((task, method), []) if cell.get("feasible")]
            if found := {cell["config"]["seed"]: cell["feasible"] for cell in every}:  # methods of a seed share what is feasible
                shares = [np.mean([each.get(source, [0.0, 0.0]) for each in found.values()], axis=0) for source in SOURCES]
                columns = [f"{share:.1%} ({mean:.2f})" for share, mean in shares]
                lines.append(f"| {task} | {name}{mark(every)} | {len(found)} | {' | '.join(columns)} |")
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
    """Tasks, methods and seeds of the sweeps that make these cells, tasks with the same methods and seeds in one; none of version 0.1's."""
    cells = {key: new for key, some in cells.items() if (new := [cell for cell in some if not is_earlier(cell)])}
    joined: dict[tuple[str, str], list[str]] = defaultdict(list)
    for task in TASK_NAMES:
        methods = " ".join(method for method in METHODS if (task, method) in cells)
        seeds = sorted({cell["config"]["seed"] for method in METHODS for cell in cells.get((task, method), [])})
        if methods:
            joined[methods, ",".join(map(str, seeds))].append(task)
    return [(" ".join(tasks), methods, seeds) for (methods, seeds), tasks in joined.items()]


def check_versions(cells: Cells) -> list[str]:
    """What the cells were made with, by the rows that share it; an error where one row mixes versions."""
    rows: dict[str, list[str]] = defaultdict(list)
    for (task, method), some in sorted(cells.items()):
        made_with = {", ".join(f"{name} {value}" for name, value in cell["config"]["versions"].items()) for cell in some}
        if len(made_with) > 1:
            sys.exit(f"{KEPT / TABLE} mixes versions of {task} {method} ({'; '.join(sorted(made_with))}); run all its seeds again")
        rows[made_with.pop()].append(f"the runs with {EARLIER}" if is_earlier(some[0]) else f"{task} {method}")
    return [f"Versions of {', '.join(dict.fromkeys(names))}: {made_with}." for made_with, names in rows.items()]


def earlier_note(cells: Cells) -> list[str]:
    """What the mark means, where there is one."""
    if not any(is_earlier(cell) for some in cells.values() for cell in some):
        return []
    return [
        f"{EARLIER} Runs of version 0.1: the learned inverse dynamics and the replay of whole demonstrations (on Swimmer and Ant with that",
        "version's `aimed`, `gentlest` and `rehearsed`, which are gone), GAIL on Reacher, cloning elsewhere. `--inverse learned` is the",
        "paper's recipe without these three.",
        "",
    ]


def stock_section() -> list[str]:
    """Verdicts on robots that nothing was tuned for, from `benchmarks/stock_robots.json`; nothing where there is none."""
    if not STOCK.exists():
        return []
    measured = json.loads(STOCK.read_text())
    kinds = list(max((each["kinds"] for each in measured), key=len))  # no joint of HalfCheetah stays beyond its range for long
    lines = [
        "## Robots that nothing was tuned for",
        "",
        "Made by `python benchmarks/stock_robots.py`: own demonstrations of random actions of all strengths and half as many of each",
        "other kind (n: how many), no returns, no settings. Of each kind: the share with w_f above 0.9 of what is possible for the robot",
        "(own, `gear x1.2 gentle`), and below 0.1 of what is not; the AUC of w_f between own demonstrations and `mass x0.7`, some of which",
        "are possible.",
        "",
        f"| robot | n | noise: true, found | window | seconds | {' | '.join(kinds)} |",
        f"|{'---|' * (5 + len(kinds))}",
    ]
    for cell in sorted(measured, key=lambda each: (each["robot"], each["noise"], each["seed"])):
        shown = " | ".join(_share(kind, cell["kinds"][kind]) if kind in cell["kinds"] else "-" for kind in kinds)
        noise = f"{cell['noise']:g}, {cell['found_noise']:.2g}"
        count = f"{2 * cell.get('count', 20)}, {cell.get('count', 20)}"
        lines.append(f"| {cell['robot']} | {count} | {noise} | {cell['window']} | {cell['seconds']:.0f} | {shown} |")
    return [*lines, ""]


def _share(kind: str, found: dict[str, float]) -> str:
    if kind == "mass x0.7":
        return f"AUC {found['AUC']:.2f}"
    return f"{found['above 0.9' if kind in ('own', 'gear x1.2 gentle') else 'below 0.1']:.0%}"


def conventions_section() -> list[str]:
    """How often a wrong convention is named, from `benchmarks/conventions.json`; nothing where there is none."""
    if not CONVENTIONS.exists():
        return []
    measured = json.loads(CONVENTIONS.read_text())
    robots = list(dict.fromkeys(each["robot"] for each in measured))
    lines = [
        "## Conventions that went wrong",
        "",
        "Made by `python benchmarks/conventions.py`: a fault injected at random into 12 demonstrations of 60 steps. Right is",
        "a case of which this fault is named and no other, or nothing where there is no fault.",
        "",
        f"| injected | {' | '.join(robots)} |",
        f"|{'---|' * (1 + len(robots))}",
    ]
    for case in sorted({each["case"] for each in measured}, key=[*FAULTS, *INNOCENT].index):
        found = [[each["right"] for each in measured if (each["robot"], each["case"]) == (robot, case)] for robot in robots]
        shown = (f"{sum(rights)} of {len(rights)}" if rights else "-" for rights in found)
        lines.append(f"| {case if case in FAULTS else f'none: {case}'} | {' | '.join(shown)} |")
    return [*lines, ""]


def own_robot_section() -> list[str]:
    """A stranger's robot and data, from `benchmarks/own_robot.json`; nothing where there is none."""
    if not OWN_ROBOT.exists():
        return []
    measured = json.loads(OWN_ROBOT.read_text())
    lines = [
        "## A stranger's robot and data",
        "",
        "Made by `python benchmarks/own_robot.py measure`: Hopper-v5 with 60 own demonstrations (20 good, 20 standing, 20 that fall)",
        "and 30 of a body with twice the gear and wider joints, scored with no option, and the policies that `imitable train` makes of it.",
        "For the table the machine was shared with other work, so seconds of the processor say more than seconds. Without returns nothing",
        "tells the good from the standing, and the policy learns from both.",
        "",
        "| returns, file | own: w_f above 0.9 | foreign: below 0.1 | seconds (of the processor) | good ones earn | ours | none |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, cell in measured.items():
        if not name.startswith("pile"):
            returns = " | ".join(f"{cell[each]:.0f}" if each in cell else "-" for each in ("good demonstrators", "ours", "none"))
            shares = f"{cell['own above 0.9']:.0%} | {cell['foreign below 0.1']:.0%}"
            lines.append(f"| {name} | {shares} | {cell['seconds']:.0f} ({cell['processor seconds']:.0f}) | {returns} |")
    lines.append("")
    for name, cell in measured.items():
        if name.startswith("pile"):
            lines += [
                f"`python benchmarks/own_robot.py pile`, a {name} steps, {cell['threads']:.0f} threads: {cell['seconds']:.0f} s,",
                f"{cell['inside MuJoCo']:.0%} of them inside MuJoCo, with nothing else running; {cell['MiB']:.0f} MiB.",
                "",
            ]
    return lines


def inverse_section() -> list[str]:
    """How well the simulator's own inverse does, from `benchmarks/inverse.json`; nothing where there is none."""
    if not INVERSE.exists():
        return []
    found = json.loads(INVERSE.read_text())
    parts = (solved_part, rejects_part, clones_part, costs_part)
    lines = [
        line for part in parts if part.__name__.removesuffix("_part") in found for line in part(found[part.__name__.removesuffix("_part")])
    ]
    return ["## The simulator's own inverse", "", "Made by `python benchmarks/inverse.py solve|rejects|clones|costs`.", "", *lines]


def solved_part(cells: list[dict[str, Any]]) -> list[str]:
    uses = ("alone", "clone", "verdict")
    lines = [
        "Own transitions, each solved for by itself: the share that is reached (a miss of at most 0.001 of a step, in a verdict 0.02), the",
        "mean and the median of simulator steps, and the median error of reached actions, in halves of an actuator's range. `alone` starts",
        "each in the middle of the range; `clone` as cloning does, where similar ones among these transitions ended; `verdict` at the true",
        "action of the step before, as precise as a verdict needs. Observations with a clipped velocity, which do not determine the state,",
        "are left out. Two Jacobians by differences would take 2 (actuators + 2) steps.",
        "",
        f"| robot | own | transitions | 2 (actuators + 2) | {' | '.join(uses)} | action error of clone |",
        f"|{'---|' * (5 + len(uses))}",
    ]
    for cell in cells:
        shown = " | ".join(f"{cell[use]['reached']:.1%}, {cell[use]['steps']:.1f} ({cell[use]['median steps']:g})" for use in uses)
        error = cell["clone"]["median action error of reached"]
        lines.append(f"| {cell['robot']} | {cell['kind']} | {cell['transitions']} | {2 * cell['actuators'] + 4} | {shown} | {error} |")
    return [*lines, ""]


def rejects_part(cells: list[dict[str, Any]]) -> list[str]:
    """By robot, over seeds."""
    lines = [
        "Own demonstrations that no exploration saw, experts or gaits, ten-round policies and random actions, over seeds: the share of",
        "windows beyond d_min (stated: at most 5 %), of demonstrations that are rejected (w_f below 0.5), and the outer end d_max of the",
        "tolerance. d_min is at least 0.05 of a step and d_max then 0.1 at most, so where a robot follows itself more closely than that,",
        "fewer are rejected than stated.",
        "",
        "| robot | seeds | windows beyond d_min | rejected: gait | ten-round | random | d_min | d_max | largest / smallest d_max |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(cell["robot"] for cell in cells):
        some = [cell for cell in cells if cell["robot"] == name]
        kinds = [kind for cell in some for kind in cell["kinds"].values()]
        beyond = sum(kind["windows"] * kind["windows beyond"] for kind in kinds) / sum(kind["windows"] for kind in kinds)
        rejected = []
        for kind in ("gait", "ten-round", "random"):
            parts = [cell["kinds"][kind] for cell in some if kind in cell["kinds"]]
            total = sum(part["demonstrations"] for part in parts)
            share = sum(part["demonstrations"] * part["below 0.5"] for part in parts) / max(1, total)
            rejected.append(f"{share:.1%} of {total}" if parts else "-")
        lows, highs = np.array([cell["tolerance"] for cell in some]).T
        ends = f"{_range(lows)} | {_range(highs)} | {highs.max() / highs.min():.2f}"
        lines.append(f"| {name} | {len(some)} | {beyond:.2%} | {' | '.join(rejected)} | {ends} |")
    return [*lines, ""]


def _range(values: np.ndarray) -> str:
    low, high = f"{values.min():.3f}", f"{values.max():.3f}"
    return low if low == high else f"{low} to {high}"


def clones_part(cells: list[dict[str, Any]]) -> list[str]:
    lines = [
        "Clones of ten expert demonstrations with solved actions and the package's defaults, 100 episodes each:",
        "",
        "| task | seed | return ± sd over episodes | of the expert | episodes below half |",
        "|---|---|---|---|---|",
    ]
    for cell in cells:
        share = cell["return"] / expert_return(cell["task"])
        spread = f"{cell['return']:.0f} ± {cell['sd over episodes']:.0f}"
        lines.append(f"| {cell['task']} | {cell['seed']} | {spread} | {share:.1%} | {cell['episodes below half']:.0%} |")
    return [*lines, ""]


def costs_part(cells: list[dict[str, Any]]) -> list[str]:
    lines = [
        "Verdicts on the 1000 demonstrations of a task's mixture, everything but collecting included. `seconds` were taken beside other",
        "processes, how many the load says; `undisturbed` is what the processor time amounts to with MuJoCo's part shared by the threads:",
        "",
        "| task | threads | seconds, load | CPU seconds | undisturbed | inside MuJoCo | simulator steps | memory at most |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        row = f"| {cell['task']} | {cell['threads']} | {cell['seconds']:.0f}, {cell['load']:.0f} | {cell['CPU seconds']:.0f} "
        row += f"| {cell['seconds, undisturbed']:.0f} | {cell['in MuJoCo, undisturbed']:.0%} | {cell['simulator steps']:,} "
        lines.append(f"{row}| {cell['GiB at most']:.2f} GiB |")
    return [*lines, ""]


def verdicts_section() -> list[str]:
    """Own against other demonstrations on the paper's tasks, from `benchmarks/verdicts.json`; nothing where there is none."""
    if not VERDICTS.exists():
        return []
    found = json.loads(VERDICTS.read_text())
    lines = [
        "## Own against other demonstrations",
        "",
        "Made by `python benchmarks/verdicts.py`: the whole mixtures of the tasks. Over seeds: the smallest AUC of w_f between the robot's",
        "own demonstrations and those of other dynamics, the largest share of the latter that pass (w_f above 0, and above 0.5), and the",
        "largest share of own ones below 0.5. On Reacher half of the other arm's demonstrations reach goals on the side that both arms",
        "reach. Where it was measured, the last column is how far off the robot is at most when it replays those that pass from start to",
        "end, in units of its own one-step changes. `assess` is the version of the assessment, where it was written down.",
        "",
        "| task | seeds | assess | AUC, smallest | other passes: above 0 | above 0.5 | own below 0.5 | d_max | farthest in replay |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for task in TASK_NAMES:
        if some := [cell for cell in found if cell["task"] == task]:
            worst = [max(cell[key] for cell in some) for key in ("other above 0", "other above 0.5", "own below 0.5")]
            replays = [cell[key] for cell in some if (key := "passing, farthest in replay") in cell]
            shares, ends = " | ".join(f"{each:.2%}" for each in worst), np.array([cell["tolerance"][1] for cell in some])
            farthest = f"{max(replays):.2g}" if replays else "-"
            made_with = ", ".join(sorted({str(cell.get("assess version", "-")) for cell in some}))
            row = f"| {task} | {len(some)} | {made_with} | {min(cell['AUC'] for cell in some):.5f} "
            lines.append(f"{row}| {shares} | {_range(ends)} | {farthest} |")
    return [*lines, ""]


def transfer_section() -> list[str]:
    """How the Panda's policies fare under Bullet's dynamics, from `benchmarks/panda_transfer.json`; nothing where there is none."""
    if not TRANSFER.exists():
        return []
    found = json.loads(TRANSFER.read_text())
    episodes, speed = found["episodes"], found["speed"]

    def row(name: str, point: dict[str, Any]) -> str:
        success, returns = np.array(point["success"]), np.array(point["return"])
        ours = f"{success.mean():.1%} ({success.min():.0%} to {success.max():.0%}) | {returns.mean():.0f} ± {returns.std(ddof=1):.0f}"
        return f"| {name} | {ours} | {point['expert'][0]:.0%} | {point['expert'][1]:.0f} |"

    head = "success (worst and best seed) | return ± sd over seeds | expert's success | expert's return |"
    return [
        "## Transfer (simulated) of the Panda's policies",
        "",
        "Made by `python benchmarks/panda_transfer.py RUNS`: policies of `ours` that learned on the kinematic arm, judged under Bullet's",
        f"dynamics, {len(found['seeds'])} seeds, {episodes[0]} episodes each ({episodes[1]} but at `typical` and without transfer).",
        "This stands where the paper has a real robot, and is none. The settings are `TRANSFERS` of `paper/panda_bullet.py`;",
        "`panda/3dof-transfer` is judged at `typical`: 50 ms latency, 2 mm noise, damping 0.5. At 10 Hz an episode has half the steps,",
        "and costs half as much.",
        "",
        f"| setting | {head}",
        "|---|---|---|---|---|",
        *(row(name, point) for name, point in found["named"].items()),
        "",
        "![success over latency and noise](panda-transfer.png)",
        "",
        f"| latency, at 2 mm noise | {head}",
        "|---|---|---|---|---|",
        *(row(f"{1000 * point['latency']:.0f} ms", point) for point in found["curves"]["latency"]),
        "",
        f"| noise, at 50 ms latency | {head}",
        "|---|---|---|---|---|",
        *(row(f"{1000 * point['noise']:.0f} mm", point) for point in found["curves"]["noise"]),
        "",
        f"Steps per CPU second in episodes of the expert, in one run: {speed['kinematic']:,} of the kinematic arm, 256 at once, and",
        f"{speed['bullet']:,} of Bullet's, with 12 substeps of dynamics each: {speed['kinematic'] / speed['bullet']:.0f} times as many.",
        "",
    ]


def write(docs: Path = DOCS) -> None:
    cells = load()
    if not cells:
        sys.exit(f"no runs in {KEPT / TABLE}; first: python benchmarks/results.py keep RUNS")
    found, further = summaries(cells), summaries(cells, further=True)
    versions, sweeps = check_versions(cells), commands(cells)
    page = [
        "# Results",
        "",
        "Generated by `python benchmarks/results.py write` from `benchmarks/results/` (one file per run: settings, versions, curve,",
        "final returns); do not edit." + (" The runs come from" if sweeps else ""),
        "",
        *(("```sh",) if sweeps else ()),
        *(f"imitable sweep --tasks {tasks} \\\n    --methods {methods} --seeds {seeds} -o runs" for tasks, methods, seeds in sweeps),
        *(("python benchmarks/results.py keep runs", "```", "") if sweeps else ()),
        "Each number is the mean return of the last policy (mean action) over 100 episodes from starts that no training saw; no policy",
        "was picked on the way. Intervals are 95 % bootstrap intervals of the interquartile mean over seeds. The paper does not say",
        "what its ± means or how many seeds it used.",
        *(("All methods clone solved actions but 2IWIL and IC-GAIL, which are GAIL underneath, and SAIL",) if sweeps else ()),
        *(("([method](method.md), [peers](peers.md)).",) if sweeps else ()),
        *versions,
        "",
        *earlier_note(cells),
        *(f"![returns of {task}](returns-{task.replace('/', '-')}.png)" for task in TASK_NAMES if (task, "ours") in cells),
        "",
        "## Returns",
        "",
        *results_table(cells, found, further),
        "",
        "## Goals",
        "",
        "By the 100 episodes of each run:",
        "",
        *verdicts(found),
        "",
        f"By {FURTHER} further episodes of each run ({FURTHER_LONG} of Swimmer and Ant, whose starts are much alike, and of the slow",
        "transfer), the same starts for all (`imitable evaluate RUN --episodes N`), which leaves the differences between training runs and",
        "little of the luck of starts:",
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
        "Over all tasks that have the method: the interquartile mean of the share of the gap from `none` to the expert that a run closes,",
        "seeds resampled within tasks, and how likely a run of ours beats one of the other method on the same task (Agarwal et al., 2021):",
        "",
        *across_tasks(cells),
        "",
        *perfect_section(),
        *series_section(),
        *variants_section(),
        "## What the weights do",
        "",
        *sources_table(cells),
        "",
        *confusion_section(),
        *own_robot_section(),
        *stock_section(),
        *conventions_section(),
        *verdicts_section(),
        *inverse_section(),
        *transfer_section(),
        "## Shipped policies",
        "",
        "Trained by `imitable expert TASK -o src/imitable/paper/policies --seeds ...` (`make experts`), measured over 1000 episodes",
        "(Swimmer and Ant: 100) on starts not trained on.",
        "",
        *experts_table(),
        "",
        (HERE / "notes.md").read_text().strip(),
        "",
    ]
    docs.mkdir(exist_ok=True)
    (docs / "results.md").write_text("\n".join(page))
    for task in TASK_NAMES:
        curves = {method: [cell["curve"] for cell in cells[task, method]] for method in METHODS if (task, method) in cells}
        picture = docs / f"returns-{task.replace('/', '-')}.png"
        if curves and all(len(curve) > 1 for runs in curves.values() for curve in runs):
            draw_curves(curves, picture, title=task)
        elif curves:  # some measured once, at the end
            draw_returns({method: [curve[-1]["mean_return"] for curve in runs] for method, runs in curves.items()}, picture, title=task)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["keep", runs, *variant]:
            keep(Path(runs), *variant)
        case ["write", *folder]:
            write(*map(Path, folder))
        case _:
            sys.exit(__doc__)
