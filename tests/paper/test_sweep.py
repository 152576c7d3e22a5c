"""The grid of runs: what is started, skipped, resumed and reported, and how it is summed up."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as hnp

import imitable.paper.sweep
from imitable.errors import ImitableError
from imitable.paper.sweep import Cell, cells, interquartile_mean, parse_seeds, summarize, summary, sweep

START = imitable.paper.sweep._start


class Workers:
    """Stands where runs would be started: remembers them, and lets small processes finish or fail in their place."""

    def __init__(self, *, failing: tuple[str, ...] = ()) -> None:
        self.started: list[Cell] = []
        self.failing = failing
        self.most = 0
        self.processes: list[subprocess.Popen[bytes]] = []

    def __call__(self, cell: Cell, options: object) -> "subprocess.Popen[bytes]":
        self.started.append(cell)
        cell.folder.mkdir(parents=True, exist_ok=True)
        result = json.dumps({"mean_return": float(cell.seed)})
        program = f"open({str(cell.folder / 'result.json')!r}, 'w').write({result!r})"
        if cell.method in self.failing:
            program = "import sys; sys.exit('error: this one cannot work')"
        with (cell.folder / "log.txt").open("wb") as log:
            process = subprocess.Popen([sys.executable, "-S", "-E", "-c", program], stdout=log, stderr=log)
        self.processes.append(process)
        self.most = max(self.most, sum(each.returncode is None for each in self.processes))
        return process


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    fakes = Workers(failing=("broken",))
    monkeypatch.setattr(imitable.paper.sweep, "_start", fakes)
    yield fakes
    for each in fakes.processes:
        each.wait()


def test_the_grid_goes_seed_by_seed(tmp_path: Path) -> None:
    grid = cells(["driving/slow", "driving/fast"], ["none", "ours"], [0, 1], root=tmp_path)
    assert [(cell.seed, cell.task, cell.method) for cell in grid[:3]] == [
        (0, "driving/slow", "none"),
        (0, "driving/slow", "ours"),
        (0, "driving/fast", "none"),
    ]
    assert len({cell.folder for cell in grid}) == len(grid) == 8
    assert grid[0].folder == tmp_path / "driving-slow" / "none" / "seed-0"


def test_every_cell_runs_once_with_no_more_workers_than_asked_for(workers: Workers, tmp_path: Path) -> None:
    grid = cells(["driving/slow"], ["none", "ours"], [0, 1], root=tmp_path)
    heard: list[float] = []
    assert sweep(grid, workers=2, progress=heard.append) == []
    assert sorted(workers.started, key=grid.index) == grid
    assert workers.most == 2
    assert heard[0] == 0.0
    assert heard == sorted(heard)
    assert heard[-1] >= 0.5


def test_finished_cells_are_skipped_and_count_as_done(workers: Workers, tmp_path: Path) -> None:
    grid = cells(["driving/slow"], ["none", "ours"], [0], root=tmp_path)
    sweep(grid)
    workers.started.clear()
    heard: list[float] = []
    more = cells(["driving/slow"], ["none", "ours"], [0, 1], root=tmp_path)
    sweep(more, progress=heard.append)
    assert workers.started == more[2:]
    assert heard[0] == 0.5
    workers.started.clear()
    assert sweep(more) == []
    assert workers.started == []


def test_a_cell_that_is_refused_does_not_run_and_the_rest_does(workers: Workers, tmp_path: Path) -> None:
    grid = cells(["driving/slow"], ["none", "ours"], [0, 1], root=tmp_path)

    def check(cell: Cell) -> None:
        if cell is grid[1]:
            raise ImitableError("made with other settings")

    (failure,) = sweep(grid, check=check)
    assert (failure.cell, failure.reason) == (grid[1], "made with other settings")
    assert sorted(workers.started, key=grid.index) == [grid[0], *grid[2:]]


def test_a_failing_cell_is_reported_with_the_last_line_of_its_log_and_the_rest_goes_on(workers: Workers, tmp_path: Path) -> None:
    grid = cells(["driving/slow"], ["broken", "ours"], [0, 1], root=tmp_path)
    failures = sweep(grid, workers=1)
    assert workers.started == grid
    assert [failure.cell for failure in failures] == [grid[0], grid[2]]
    assert "exit code 1: error: this one cannot work" in failures[0].reason
    assert "log.txt" in failures[0].reason
    assert [(each.method, each.means.tolist()) for each in summarize(grid, rng=np.random.default_rng(0))] == [("ours", [0.0, 1.0])]


def test_a_cell_with_damaged_files_does_not_stop_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes = Workers()
    damaged, good = grid = cells(["driving/slow"], ["none", "ours"], [0], root=tmp_path)
    damaged.folder.mkdir(parents=True)
    (damaged.folder / "config.json").write_text("{")
    monkeypatch.setattr(imitable.paper.sweep, "_start", lambda cell, options: (START if cell is damaged else fakes)(cell, options))
    failures = sweep(grid, workers=1)
    assert [failure.cell for failure in failures] == [damaged]
    assert "config.json" in failures[0].reason
    assert fakes.started == [good]


def test_a_cell_named_twice_runs_once(workers: Workers, tmp_path: Path) -> None:
    sweep(cells(["driving/slow", "driving/slow"], ["none"], [0, 0], root=tmp_path), workers=2)
    assert len(workers.started) == 1


@pytest.mark.parametrize("count", [0, -1])
def test_a_sweep_without_workers_is_refused_rather_than_waited_for(
    workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    def never(_: float) -> None:
        raise AssertionError("the sweep waits for workers that never come")

    monkeypatch.setattr(imitable.paper.sweep, "time", SimpleNamespace(sleep=never))
    with pytest.raises(ImitableError, match=f"workers.*{count}"):
        sweep(cells(["driving/slow"], ["none"], [0], root=tmp_path), workers=count)
    assert not workers.started


def test_an_interrupted_sweep_ends_its_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processes = []

    def endless(cell: Cell, options: object) -> "subprocess.Popen[bytes]":
        cell.folder.mkdir(parents=True)
        processes.append(subprocess.Popen([sys.executable, "-S", "-E", "-c", "import time; time.sleep(600)"]))
        return processes[-1]

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(imitable.paper.sweep, "_start", endless)
    monkeypatch.setattr(imitable.paper.sweep, "time", SimpleNamespace(sleep=interrupt))
    with pytest.raises(KeyboardInterrupt):
        sweep(cells(["driving/slow"], ["none", "ours"], [0], root=tmp_path), workers=2)
    assert len(processes) == 2
    assert all(process.poll() is not None for process in processes)


def test_interrupted_cells_are_resumed_with_their_options_in_single_threaded_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cell,) = cells(["driving/slow"], ["ours"], [3], root=tmp_path)
    calls = []
    monkeypatch.setattr(imitable.paper.sweep.subprocess, "Popen", lambda command, **options: calls.append((command, options)))
    imitable.paper.sweep._start(cell, ["--set", "sigma=20"])
    (cell.folder / "config.json").write_text("{}")
    imitable.paper.sweep._start(cell, ["--set", "sigma=20"])
    fresh, again = (command for command, _ in calls)
    assert fresh[1:] == [
        "-m",
        "imitable",
        "run",
        "driving/slow",
        "--method",
        "ours",
        "--seed",
        "3",
        "-o",
        str(cell.folder),
        "--set",
        "sigma=20",
    ]
    assert "--resume" not in fresh
    assert "--resume" in again
    assert {"OMP_NUM_THREADS": "1", "IMITABLE_THREADS": "1"}.items() <= calls[0][1]["env"].items()


# Seeds


@pytest.mark.parametrize(("text", "expected"), [("0-4", [0, 1, 2, 3, 4]), ("7", [7]), ("0,2,5-6", [0, 2, 5, 6]), ("10-10", [10])])
def test_seeds_are_read(text: str, expected: list[int]) -> None:
    assert parse_seeds(text) == expected


@pytest.mark.parametrize("text", ["", "a", "4-0", "-1", "0,", "1.5", "0-", "0--2", "²"])
def test_seeds_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(ImitableError, match="cannot read seeds"):
        parse_seeds(text)


# Summing up


def test_the_interquartile_mean_by_hand() -> None:
    assert interquartile_mean(np.array([100.0, 1.0, 2.0, -50.0])) == pytest.approx(1.5)
    assert interquartile_mean(np.array([3.0])) == pytest.approx(3.0)
    # Of five, the middle half holds 0.75 of the second and fourth and all of the third.
    assert interquartile_mean(np.array([-99.0, 1.0, 2.0, 4.0, 99.0])) == pytest.approx((0.75 * 1 + 2 + 0.75 * 4) / 2.5)


@given(hnp.arrays(np.float64, st.integers(1, 12), elements=st.floats(-1e6, 1e6)), st.floats(-1e3, 1e3))
def test_the_interquartile_mean_lies_within_and_moves_along(values: np.ndarray, shift: float) -> None:
    middle = interquartile_mean(values)
    assert values.min() - 1e-6 <= middle <= values.max() + 1e-6
    assert interquartile_mean(values + shift) == pytest.approx(middle + shift, abs=1e-6)
    assert interquartile_mean(values[::-1]) == pytest.approx(middle, abs=1e-6)


def test_the_bootstrap_interval_surrounds_the_interquartile_mean_and_is_repeatable() -> None:
    means = np.random.default_rng(0).normal(10, 2, 20)
    one, again = (summary("task", "method", means, rng=np.random.default_rng(1)) for _ in range(2))
    assert one.interval == again.interval
    low, high = one.interval
    assert low < one.interquartile_mean < high
    assert 0.5 < high - low < 4
    alone = summary("task", "method", np.array([5.0]), rng=np.random.default_rng(0))
    assert (alone.interquartile_mean, alone.interval) == (5.0, (5.0, 5.0))


def test_cells_that_assess_the_same_demonstrations_do_not_start_together(tmp_path: Path) -> None:
    first, second, third = cells(["driving/slow", "driving/fast"], ["none", "ours"], [0], root=tmp_path)[:3]
    assert imitable.paper.sweep._next([second, third], [first]) == 1
    assert imitable.paper.sweep._next([second], [first]) == 0
    first.folder.mkdir(parents=True)
    (first.folder / "scores.parquet").write_bytes(b"")
    assert imitable.paper.sweep._next([second, third], [first]) == 0, "the first has assessed them"


def test_a_folder_that_cannot_be_made_fails_only_its_cell(workers: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked, good = grid = cells(["driving/slow", "driving/fast"], ["none"], [0], root=tmp_path)
    (tmp_path / "driving-slow").write_text("mine")
    fakes = workers
    monkeypatch.setattr(imitable.paper.sweep, "_start", lambda cell, options: (START if cell is blocked else fakes)(cell, options))
    (failure,) = sweep(grid, workers=1)
    assert failure.cell is blocked
    assert "cannot write" in failure.reason
    assert fakes.started == [good]
