"""The named grids."""

from dataclasses import replace
from pathlib import Path

import pytest

from imitable.errors import ImitableError
from imitable.paper import TASK_NAMES
from imitable.paper.methods import METHODS
from imitable.paper.studies import STUDIES, _tiny, find_study, study_cells
from imitable.paper.sweep import OWN, Settings, cells


def test_the_table_is_every_method_on_every_task(tmp_path: Path) -> None:
    grid = study_cells(["table"], range(5), root=tmp_path)
    assert {(cell.task, cell.method, cell.seed) for cell in grid} == {
        (task, method, seed) for task in TASK_NAMES for method in METHODS for seed in range(5)
    }
    assert len(grid) == len(TASK_NAMES) * len(METHODS) * 5
    assert {cell.settings for cell in grid} == {OWN}
    assert {cell.root for cell in grid} == {tmp_path / "table"}
    assert [cell.seed for cell in grid] == sorted(cell.seed for cell in grid), "whole tables of fewer seeds first"


def test_every_learner_has_a_row_on_perfect_demonstrations_of_every_task(tmp_path: Path) -> None:
    grid = study_cells(["perfect"], [0], root=tmp_path)
    for task in TASK_NAMES:
        rows = {(cell.method, cell.settings.learner) for cell in grid if cell.task == task}
        assert rows == {("none", "cloning"), ("none", "gail"), ("2iwil", None), ("ic-gail", None), ("sail", None)}
    assert {cell.settings.composition for cell in grid} == {"perfect"}


@pytest.mark.parametrize("preset", ["paper", "quick"])
def test_every_cell_of_every_study_can_be_run_and_has_its_own_folder(tmp_path: Path, preset: str) -> None:
    grid = study_cells(list(STUDIES), [0], root=tmp_path, preset=preset)  # type: ignore[arg-type]
    for cell in {(cell.task.split("/")[0], cell.method, cell.settings): cell for cell in grid}.values():
        cell.config()  # all settings exist
        assert Settings.named(cell.settings.name) == cell.settings
    assert len({cell.folder for cell in grid}) == len(grid)


def test_a_cell_that_two_studies_share_runs_once(tmp_path: Path) -> None:
    both = study_cells(["table", "delta_s"], [0], root=tmp_path, tasks=["swimmer/back-disabled"], methods=["ours"])
    assert len(both) == len(set(both)) == 8


def test_a_learner_without_a_tiny_budget_keeps_its_own(tmp_path: Path) -> None:
    (cell,) = cells(["driving/slow"], ["none"], [0], root=tmp_path, settings=Settings(learner="turntable:TINY_CLONING"))
    assert _tiny(cell).settings == replace(cell.settings, count=100, episodes=5)


def test_quick_tries_every_task_method_and_study(tmp_path: Path) -> None:
    full, quick = (study_cells(list(STUDIES), [0], root=tmp_path, preset=preset) for preset in ("paper", "quick"))  # type: ignore[arg-type]
    for attribute in ("task", "method"):
        assert {getattr(cell, attribute) for cell in quick} == {getattr(cell, attribute) for cell in full}
    assert {cell.root for cell in quick} <= {cell.root for cell in full}
    assert len(quick) < 0.6 * len(full)
    assert all((cell.settings.count, cell.settings.episodes) == (100, 5) for cell in quick)


def test_a_study_has_as_many_seeds_as_it_needs(tmp_path: Path) -> None:
    seeds = {name: {cell.seed for cell in study_cells([name], root=tmp_path)} for name in ("table", "perfect")}
    assert seeds == {"table": {0, 1, 2, 3, 4}, "perfect": {0, 1, 2}}
    assert {cell.seed for cell in study_cells(["table"], root=tmp_path, preset="quick")} == {0}
    assert {cell.seed for cell in study_cells(["table"], [7], root=tmp_path, preset="quick")} == {7}


def test_an_unknown_study_is_refused() -> None:
    with pytest.raises(ImitableError, match="unknown study 'tabel'; did you mean table"):
        find_study("tabel")
