"""The paper's table and studies, and our own, as named grids of runs: which tasks, methods and settings each compares."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from imitable.errors import unknown_name
from imitable.paper import TASK_NAMES
from imitable.paper.methods import CONTROLS, METHODS, find_method
from imitable.paper.sweep import OWN, Cell, Settings, cells
from imitable.paper.tasks import find_task

Preset = Literal["paper", "quick"]
TABLE = "table"
"""The folder of cells with the tasks' own settings."""


@dataclass(frozen=True)
class Part:
    """Every task with every method under each of the settings."""

    methods: tuple[str, ...]
    tasks: tuple[str, ...] = TASK_NAMES
    settings: tuple[Settings, ...] = (OWN,)


@dataclass(frozen=True)
class Study:
    """A grid with a name."""

    name: str
    summary: str
    parts: tuple[Part, ...]
    seeds: int = 3
    """How many, from 0 on, if nothing else is said."""


def _shares(*values: str) -> tuple[Settings, ...]:
    return tuple(Settings(composition=value) for value in values)


def _overridden(name: str, *values: str, settings: Settings = OWN) -> tuple[Settings, ...]:
    return tuple(replace(settings, overrides=(f"{name}={value}",)) for value in values)


ALL, MIXED, SWIMMER = tuple(METHODS), tuple(name for name in TASK_NAMES if name.startswith(("reacher", "driving"))), "swimmer/back-disabled"
LEARNED, GAIL = Settings(inverse="learned"), Settings(learner="gail")
SIGMAS = _overridden("sigma", "1", "3", "10", "30", "100", "300", "1000", "10000", "none")  # none: from the data
DELTAS = _overridden("delta_s", "0.00005", "0.0001", "0.0002", "0.0005", "0.001", "0.002", "0.005", settings=LEARNED)
PERFECT_SHARES = _shares("0.005/0.4975/0.4975", "0.01/0.495/0.495", "0.02/0.49/0.49", "0.05/0.475/0.475", "0.2/0.4/0.4", "0.5/0.25/0.25")
OTHER_SHARES = _shares("0.01/0.09/0.9", "0.01/0.29/0.7", "0.01/0.495/0.495", "0.01/0.7/0.29", "0.01/0.9/0.09")
CLONED_AND_GAIL = tuple(Settings(learner=learner, composition="perfect") for learner in ("cloning", "gail"))

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        Study("table", "the paper's table: every method on every task", (Part(ALL),), seeds=5),
        Study("released", "the same with the shares of the released scripts", (Part(ALL, MIXED, _shares("released")),)),
        Study("gail", "ours by GAIL, as in the paper, and GAIL on everything", (Part(("none", "ours"), settings=(GAIL,)),)),
        Study("recipe", "ours by the paper's own recipe: learned f_id, whole replays", (Part(("ours",), settings=(LEARNED,)),)),
        Study("controls", "shuffled weights, and random subsets of the same effective size", (Part(tuple(CONTROLS)),), seeds=5),
        Study(
            "perfect",
            "every learner on perfect demonstrations only",
            (Part(("none",), settings=CLONED_AND_GAIL), Part(("2iwil", "ic-gail", "sail"), settings=_shares("perfect"))),
        ),
        Study("imperfect", "no perfect demonstrations at all", (Part(ALL, settings=_shares("imperfect")),)),
        Study("sigma", "sensitivity to sigma, with the automatic choice", (Part(("ours",), ("driving/slow",), SIGMAS),)),
        Study(
            "delta_s",
            "sensitivity to delta_s of the paper's recipe, with the tolerance that needs none",
            (Part(("ours",), (SWIMMER,), (*DELTAS, OWN)),),
        ),
        Study(
            "perfect-share",
            "more and more perfect demonstrations, the rest half suboptimal and half of other dynamics",
            (Part(ALL, (SWIMMER,), PERFECT_SHARES),),
        ),
        Study(
            "other-share",
            "1 % perfect demonstrations, the rest suboptimal or of other dynamics",
            (Part(ALL, (SWIMMER,), OTHER_SHARES),),
        ),
    )
}

TINY = {
    "cloning": ("updates=200", "checkpoint_every=200", "max_transitions=500"),
    "gail": ("rounds=2", "trpo.batch_size=500", "checkpoint_every=2"),
    "ic-gail": ("rounds=2", "trpo.batch_size=500", "checkpoint_every=2"),
    "2iwil": ("rounds=2", "trpo.batch_size=500", "checkpoint_every=2", "classifier.iterations=100"),
    "sail": (
        "iterations=2",
        "n_steps=500",
        "vae_updates=50",
        "pretraining_updates=50",
        "checkpoint_every=2",
        "learner.inverse.epochs=1",
    ),
}
"""Budgets of the preset `quick`, by learner; one that is not listed, such as a user's own, keeps its own."""


def find_study(name: str) -> Study:
    if name not in STUDIES:
        raise unknown_name("study", name, list(STUDIES))
    return STUDIES[name]


def study_cells(
    names: Sequence[str],
    seeds: Sequence[int] | None = None,
    *,
    root: Path,
    tasks: Sequence[str] = (),
    methods: Sequence[str] = (),
    preset: Preset = "paper",
) -> list[Cell]:
    """The cells of these studies, each setting in its own folder; only of these tasks, methods and seeds, where some are given.

    `quick` has all tasks, methods and studies, but one seed, of a series of settings only the ends, with none and ours, and tiny budgets.
    """
    grid: list[Cell] = []
    for study, part in ((each, part) for each in map(find_study, names) for part in each.parts):
        numbers = range(1 if preset == "quick" else study.seeds) if seeds is None else seeds
        chosen, settings = part.methods, part.settings
        if preset == "quick" and settings != (OWN,) and set(chosen) == set(ALL):
            chosen = ("none", "ours")
        if preset == "quick" and len(settings) > 2:
            settings = (settings[0], settings[-1])
        for each in settings:
            grid += cells(_only(part.tasks, tasks), _only(chosen, methods), numbers, root=root / (each.name or TABLE), settings=each)
    order = sorted(dict.fromkeys(grid), key=lambda cell: cell.seed)  # whole studies of fewer seeds, if interrupted
    return [_tiny(cell) for cell in order] if preset == "quick" else order


def _only(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    return [name for name in names if not wanted or name in wanted]


def _tiny(cell: Cell) -> Cell:
    """With 100 demonstrations, 5 episodes, and little to learn."""
    learner = find_method(cell.method).learner or cell.settings.learner or find_task(cell.task).learner
    overrides = (
        *cell.settings.overrides,
        *TINY.get(learner, ()),
        *(("exploration.episodes=10",) if cell.settings.inverse == "learned" else ()),
    )
    return replace(cell, settings=replace(cell.settings, count=100, episodes=5, overrides=overrides))
