"""The grid of runs: what is started, skipped, resumed and reported, and how it is summed up."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import imitable.paper.engines
import imitable.paper.sweep
from imitable.errors import ImitableError
from imitable.paper.engines import Launch
from imitable.paper.sweep import Cell, Settings, cells, parse_seeds, seconds_left, summarize, sweep, verify

START = imitable.paper.sweep._start


class Workers:
    """Stands where runs would be started: remembers them, and lets small processes finish or fail in their place."""

    def __init__(self, *, failing: tuple[str, ...] = ()) -> None:
        self.started: list[Cell] = []
        self.failing = failing
        self.most = 0
        self.processes: list[subprocess.Popen[bytes]] = []

    def __call__(self, cell: Cell, _: Launch) -> "subprocess.Popen[bytes]":
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
    assert sweep(grid, workers=2) == []
    assert sorted(workers.started, key=grid.index) == grid
    assert workers.most == 2


def test_finished_cells_are_skipped(workers: Workers, tmp_path: Path) -> None:
    grid = cells(["driving/slow"], ["none", "ours"], [0], root=tmp_path)
    sweep(grid)
    workers.started.clear()
    more = cells(["driving/slow"], ["none", "ours"], [0, 1], root=tmp_path)
    sweep(more)
    assert workers.started == more[2:]
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
    monkeypatch.setattr(imitable.paper.sweep, "_start", lambda cell, launch: (START if cell is damaged else fakes)(cell, launch))
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

    def endless(cell: Cell, _: Launch) -> "subprocess.Popen[bytes]":
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
    (cell,) = cells(["driving/slow"], ["ours"], [3], root=tmp_path, settings=Settings(overrides=("sigma=20",)))
    calls = []
    monkeypatch.setattr(imitable.paper.engines.subprocess, "Popen", lambda command, **options: calls.append((command, options)))
    imitable.paper.sweep._start(cell)
    (cell.folder / "config.json").write_text("{}")
    imitable.paper.sweep._start(cell)
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


# Settings


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (Settings(), ""),
        (Settings(learner="gail", composition="perfect"), "learner=gail,composition=perfect"),
        (
            Settings(composition="0.01/0.09/0.9", overrides=("sigma=none", "trpo.gamma=0.9")),
            "composition=0.01-0.09-0.9,sigma=none,trpo.gamma=0.9",
        ),
        (Settings(inverse="learned", count=40, episodes=5), "inverse=learned,count=40,episodes=5"),
    ],
)
def test_settings_have_a_name_that_tells_all(settings: Settings, name: str) -> None:
    assert settings.name == name
    assert Settings.named(name) == settings


def test_settings_reach_the_run_and_its_configuration(tmp_path: Path) -> None:
    settings = Settings("gail", "learned", "perfect", ("rounds=7",), count=40, episodes=5)
    (cell,) = cells(["driving/slow"], ["none"], [3], root=tmp_path, settings=settings)
    given = "--learner gail --inverse learned --composition perfect --count 40 --episodes 5 --set rounds=7"
    assert " ".join(cell.command()) == f"imitable run driving/slow --method none --seed 3 -o {cell.folder} {given}"
    config = cell.config()
    assert (config["learner"]["rounds"], config["composition"], config["count"], config["episodes"]) == (7, "perfect", 40, 5)
    assert not {"count", "episodes"} & Cell("driving/slow", "none", 0, tmp_path).config().keys(), "earlier runs stay as they are"


def finished(cell: Cell, seconds: float) -> None:
    cell.folder.mkdir(parents=True)
    (cell.folder / "result.json").write_text(json.dumps({"mean_return": 0.0, "seconds": {"assess": 1.0, "learn": seconds - 1.0}}))


def test_the_end_is_expected_by_what_cells_of_the_same_task_took(tmp_path: Path) -> None:
    grid = cells(["driving/slow", "driving/fast", "ant/x-axis"], ["none", "ours"], [0], root=tmp_path)
    assert seconds_left(grid, [], workers=2) is None
    finished(grid[0], 10.0)
    assert seconds_left(grid, [], workers=1) == pytest.approx(50.0)
    finished(grid[2], 30.0)
    # One slow cell of 10 s and one fast one of 30 s are left, and two ants, of which nothing is known: 20 s each.
    assert seconds_left(grid, [], workers=2) == pytest.approx((10 + 30 + 2 * 20) / 2)
    assert seconds_left(grid, [grid[3]], workers=2) == pytest.approx((10 + 15 + 2 * 20) / 2)


def test_verifying_says_what_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cell,) = cells(["driving/slow"], ["none"], [0], root=tmp_path)
    curve = json.dumps({"checkpoints": [{"steps": 1, "mean_return": 5.0}]})
    written = {"curve.json": curve, "policy.safetensors": "policy"}

    def rerun(command: list[str], **options: object) -> SimpleNamespace:
        folder = Path(command[command.index("-o") + 1])
        assert folder != cell.folder
        assert str(folder.parent) in options["env"]["IMITABLE_CACHE"], "nothing kept from before"  # type: ignore[index]
        folder.mkdir()
        for name, text in written.items():
            (folder / name).write_text(text)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(imitable.paper.sweep.subprocess, "run", rerun)
    cell.folder.mkdir(parents=True)
    for name, text in written.items():
        (cell.folder / name).write_text(text)
    assert verify(cell) is None
    (cell.folder / "curve.json").write_text(curve.replace("5.0", "6.0"))
    assert verify(cell) == "curve.json differs: mean returns [6.0], now [5.0]"
    monkeypatch.setattr(
        imitable.paper.sweep.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=2, stderr="note\nerror: no such luck\n")
    )
    assert verify(cell) == "exit code 2: error: no such luck"


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
    monkeypatch.setattr(imitable.paper.sweep, "_start", lambda cell, launch: (START if cell is blocked else fakes)(cell, launch))
    (failure,) = sweep(grid, workers=1)
    assert failure.cell is blocked
    assert "cannot write" in failure.reason
    assert fakes.started == [good]
