"""The command line, as a user meets it."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from imitable import cli, runs
from imitable.demonstrations import Demonstrations
from imitable.methods import METHODS
from imitable.scorecard import load_scorecard
from imitable.tasks import TASKS

TINY = [part for change in ("updates=20", "checkpoint_every=10", "exploration=10", "fit.epochs=1") for part in ("--set", change)]


class Outcome:
    """What a command left on the screen, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def says(self, *parts: str) -> bool:
        return all(part in self.err for part in parts) and "Traceback" not in self.err


@pytest.fixture
def imitable(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Call the command line within this process."""

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["imitable", *map(str, arguments)])
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        printed = capsys.readouterr()
        return Outcome(code, printed.out, printed.err)

    return call


def process(*arguments: object, **options) -> "subprocess.Popen[str]":
    """The same in a process of its own."""
    command = [sys.executable, "-m", "imitable", *map(str, arguments)]
    heed = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}  # ignored signals are inherited
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **heed, **options)


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty demonstrations of driving/slow."""
    from imitable.experiment import gather

    path = tmp_path_factory.mktemp("demos") / "demos.npz"
    gather(TASKS["driving/slow"], seed=0, count=40).save(path)
    return path


# Listing


def test_tasks_are_listed(imitable) -> None:
    outcome = imitable("tasks")
    assert outcome.code == 0
    assert all(name in outcome.out for name in ("reacher/clockwise", "reacher/counter-clockwise", "driving/slow", "driving/fast"))
    assert len(outcome.out.splitlines()) == 2 + len(TASKS)


def test_methods_are_listed(imitable) -> None:
    outcome = imitable("methods")
    assert outcome.code == 0
    assert all(name in outcome.out for name in ("none", "feasibility", "naive", "ours"))
    assert len(outcome.out.splitlines()) == 2 + len(METHODS)


# Collecting and scoring


def test_collected_demonstrations_are_a_plain_file(imitable, tmp_path: Path) -> None:
    outcome = imitable("collect", "driving/fast", "-o", tmp_path / "demos.npz", "--count", 20)
    assert outcome.code == 0
    assert "20 of" in outcome.out
    with np.load(tmp_path / "demos.npz", allow_pickle=False) as file:
        assert set(file.files) == {"states", "lengths", "returns", "sources"}
        assert len(file["states"]) == file["lengths"].sum() + 20
    demos = Demonstrations.load(tmp_path / "demos.npz")
    assert [int(demos.from_source(source).sum()) for source in ("optimal", "suboptimal", "other-dynamics")] == [6, 12, 2]


def test_collecting_follows_seed_and_composition(imitable, tmp_path: Path) -> None:
    runs = {"one": [], "again": [], "other": ["--seed", 1], "released": ["--composition", "released"]}
    for name, options in runs.items():
        assert imitable("collect", "driving/slow", "-o", tmp_path / name, "--count", 10, *options).code == 0
    contents = {name: (tmp_path / name).read_bytes() for name in runs}
    assert contents["one"] == contents["again"]
    assert len(set(contents.values())) == 3
    assert Demonstrations.load(tmp_path / "released").from_source("other-dynamics").sum() == 6


@pytest.mark.parametrize("count", [0, -3])
def test_collecting_nothing_is_refused(imitable, tmp_path: Path, count: int) -> None:
    outcome = imitable("collect", "driving/slow", "-o", tmp_path / "demos.npz", "--count", count)
    assert outcome.code == 2
    assert outcome.says(f"count={count}")
    assert not (tmp_path / "demos.npz").exists()


def test_collecting_does_not_replace_a_file_unasked(imitable, tmp_path: Path) -> None:
    mine = tmp_path / "demos.npz"
    mine.write_bytes(b"years of work")
    outcome = imitable("collect", "driving/slow", "-o", mine, "--count", 10)
    assert outcome.code == 2
    assert outcome.says(f"{mine} is there already", "--overwrite")
    assert mine.read_bytes() == b"years of work"
    assert imitable("collect", "driving/slow", "-o", mine, "--count", 10, "--overwrite").code == 0
    assert len(Demonstrations.load(mine)) == 10


@pytest.mark.parametrize("option", ["-o", "--picture"])
def test_scoring_does_not_replace_what_it_scores(imitable, demos: Path, tmp_path: Path, option: str) -> None:
    places = {"-o": tmp_path / "scores.parquet", "--picture": tmp_path / "scores.png"} | {option: demos}
    before = demos.read_bytes()
    outcome = imitable("score", "driving/slow", "--demos", demos, *(each for pair in places.items() for each in pair), *TINY)
    assert outcome.code == 2
    assert outcome.says(f"writing to {demos} would replace the demonstrations")
    assert demos.read_bytes() == before


def test_a_picture_that_is_no_png_is_refused(imitable, demos: Path, tmp_path: Path) -> None:
    outcome = imitable("score", "driving/slow", "--demos", demos, "-o", tmp_path / "s.parquet", "--picture", tmp_path / "m.txt", *TINY)
    assert outcome.code == 2
    assert outcome.says("m.txt must end in .png", "m.png")
    assert not list(tmp_path.glob("s.parquet"))
    outcome = imitable("score", "driving/slow", "--demos", demos, "-o", tmp_path / "m.png", "--picture", tmp_path / "m.png", *TINY)
    assert outcome.code == 2
    assert outcome.says("the picture would replace the scores")


COLUMNS = {"source", "length", "return", "distance", "feasibility", "rectified_return", "optimality", "weight"}


def test_scores_are_written_one_row_per_demonstration(imitable, demos: Path, tmp_path: Path) -> None:
    outcome = imitable("score", "driving/slow", "--demos", demos, "-o", tmp_path / "scores.parquet", *TINY)
    assert outcome.code == 0, outcome.err
    assert "40 demonstrations" in outcome.out
    assert all(source in outcome.out for source in ("optimal", "suboptimal", "other-dynamics"))
    card, given = load_scorecard(tmp_path / "scores.parquet"), Demonstrations.load(demos)
    assert set(card) >= COLUMNS
    assert all(len(column) == 40 for column in card.values())
    assert card["length"].tolist() == given.lengths.tolist()
    assert card["return"].tolist() == given.returns.tolist()
    assert card["source"].tolist() == list(given.sources or ())
    for name in ("feasibility", "optimality", "weight"):
        assert ((card[name] >= 0) & (card[name] <= 1)).all()
    assert (card["rectified_return"] >= card["return"]).all()


def test_scoring_twice_gives_the_same_numbers(imitable, demos: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert imitable("score", "driving/slow", "--demos", demos, "-o", tmp_path / name, *TINY).code == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_one_demonstration_is_scored(imitable, demos: Path, tmp_path: Path) -> None:
    given = Demonstrations.load(demos)
    given.select([int(np.argmax(given.returns))]).save(tmp_path / "one.npz")
    outcome = imitable("score", "driving/slow", "--demos", tmp_path / "one.npz", "-o", tmp_path / "scores.parquet", *TINY)
    assert outcome.code == 0, outcome.err
    assert load_scorecard(tmp_path / "scores.parquet")["optimality"].tolist() == [1.0]


def test_the_picture_of_scores_is_a_png(imitable, demos: Path, tmp_path: Path) -> None:
    options = ["--picture", tmp_path / "scores.png", *TINY]
    outcome = imitable("score", "driving/slow", "--demos", demos, "-o", tmp_path / "scores.parquet", *options)
    assert outcome.code == 0, outcome.err
    assert (tmp_path / "scores.png").read_bytes().startswith(b"\x89PNG")


def test_scoring_with_a_sigma_of_nothing_is_refused(imitable, demos: Path, tmp_path: Path) -> None:
    outcome = imitable("score", "driving/slow", "--demos", demos, "-o", tmp_path / "scores.parquet", *TINY, "--set", "sigma=0")
    assert outcome.code == 2
    assert outcome.says("sigma", "0")


# Mistakes


def bad_file(folder: Path, kind: str) -> Path:
    path = folder / "bad.npz"
    states, lengths, returns = np.zeros((6, 7)), np.array([2, 2]), np.zeros(2)
    if kind == "wrong width":
        states = np.zeros((6, 5))
    elif kind == "NaN":
        states[4, 3] = np.nan
    elif kind == "inf return":
        returns[1] = np.inf
    elif kind == "zero length":
        lengths = np.array([5, 0])
        states = np.zeros((7, 7))
    elif kind == "empty":
        states, lengths, returns = np.zeros((0, 7)), np.zeros(0, int), np.zeros(0)
    elif kind == "corrupted":
        path.write_bytes(b"PK\x03\x04 and then nothing")
        return path
    elif kind == "pickled":
        np.savez(path, states=np.array([{}, {}], dtype=object), lengths=lengths, returns=returns)
        return path
    np.savez(path, states=states, lengths=lengths, returns=returns)
    return path


BAD = {
    "wrong width": ["5 observation columns", "7", "turn rate"],
    "NaN": ["demonstration 1", "nan", "column 3"],
    "inf return": ["demonstration 1 has return inf"],
    "zero length": ["demonstration 1 has length 0"],
    "empty": ["no demonstrations"],
    "corrupted": ["bad.npz"],
    "pickled": ["bad.npz", "pickled"],
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("command", ["score", "run"])
def test_bad_demonstrations_end_in_one_line_that_names_them(imitable, tmp_path: Path, command: str, kind: str) -> None:
    options = [] if command == "score" else ["--method", "ours"]
    outcome = imitable(command, "driving/slow", "--demos", bad_file(tmp_path, kind), "-o", tmp_path / "out", *options, *TINY)
    assert outcome.code == 2
    assert outcome.says("error: ", *BAD[kind])
    assert len(outcome.err.strip().splitlines()) == 1
    assert not (tmp_path / "out" / "policy.safetensors").exists()


def test_demonstrations_that_do_not_exist_are_named(imitable, tmp_path: Path) -> None:
    outcome = imitable("score", "driving/slow", "--demos", tmp_path / "absent.npz", "-o", tmp_path / "out")
    assert outcome.code == 2
    assert outcome.says("absent.npz does not exist")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["collect", "driving/slwo", "-o", "x"], ["unknown task 'driving/slwo'", "driving/slow"]),
        (["score", "reacher/clockwize", "--demos", "x", "-o", "y"], ["unknown task 'reacher/clockwize'", "reacher/clockwise"]),
        (["run", "drving/fast", "--method", "ours", "-o", "x"], ["unknown task 'drving/fast'", "driving/fast"]),
        (["run", "driving/fast", "--method", "feasable", "-o", "x"], ["unknown method 'feasable'", "feasibility"]),
        (
            ["run", "driving/fast", "--method", "zzzzzz", "-o", "x"],
            ["unknown method 'zzzzzz'", "none, sail, ic-gail, 2iwil, feasibility, naive, optimality, ours"],
        ),
        (["sweep", "--tasks", "driving/slo", "--methods", "ours", "-o", "x"], ["unknown task 'driving/slo'", "driving/slow"]),
        (["sweep", "--tasks", "driving/slow", "--methods", "our", "-o", "x"], ["unknown method 'our'", "ours"]),
        (["sweep", "--tasks", "driving/slow", "--methods", "ours", "--seeds", "x", "-o", "x"], ["cannot read seeds 'x'"]),
        (["sweep", "--tasks", "driving/slow", "--methods", "ours", "--set", "sigmo=3", "-o", "x"], ["unknown setting 'sigmo'", "sigma"]),
        (["expert", "reacher/clock", "-o", "x"], ["unknown task 'reacher/clock'", "reacher/clockwise"]),
        (["run", "driving/slow", "--method", "ours", "-o", "x", "--set", "sigmo=3"], ["unknown setting 'sigmo'", "sigma"]),
        (["run", "driving/slow", "--method", "ours", "-o", "x", "--seed", "-1"], ["seed is -1"]),
        (["evaluate", "x"], ["x has no policy", "imitable run"]),
    ],
)
def test_mistakes_are_named_with_a_suggestion(imitable, tmp_path: Path, monkeypatch, arguments: list[str], parts: list[str]) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = imitable(*arguments)
    assert outcome.code == 2
    assert outcome.says("error: ", *parts)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "command", [["sweep", "--tasks", "driving/slow", "--methods", "ours", "--seeds", "0"], ["run", "driving/slow", "--method", "ours"]]
)
def test_no_run_is_put_below_a_file(imitable, tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    outcome = imitable(*command, "-o", tmp_path / "notes.txt" / "runs")
    assert outcome.code == 2
    assert outcome.says("notes.txt is not a writable folder")
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "arguments", [["walk"], ["run"], ["run", "driving/slow"], ["run", "driving/slow", "--method", "ours"], ["collect"]]
)
def test_unusable_arguments_end_in_exit_code_two(imitable, arguments: list[str]) -> None:
    outcome = imitable(*arguments)
    assert outcome.code == 2
    assert "Traceback" not in outcome.err


def test_no_feasible_demonstration_is_an_error_with_numbers(imitable, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    states = rng.uniform(-0.5, 0.5, (22, 7))  # a car that jumps about
    Demonstrations(states, [10, 10], [0.0, 0.0]).save(tmp_path / "jumping.npz")
    outcome = imitable("run", "driving/slow", "--method", "ours", "--demos", tmp_path / "jumping.npz", "-o", tmp_path / "run", *TINY)
    assert outcome.code == 2
    assert outcome.says("no demonstration is feasible", "smallest replay distance", "raise Settings.noise")


# Running


@pytest.fixture(scope="module")
def finished(demos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the method none."""
    from imitable.changes import adjusted

    folder = tmp_path_factory.mktemp("runs") / "finished"
    runs.perform(adjusted(TASKS["driving/slow"], TINY[1::2]), METHODS["none"], seed=0, folder=folder, demos=demos)
    return folder


def test_a_run_leaves_its_files(finished: Path) -> None:
    assert {each.name for each in finished.iterdir()} == {
        "config.json",
        "curve.json",
        "policy.safetensors",
        "scores.parquet",
        "result.json",
    }
    curve = json.loads((finished / "curve.json").read_text())["checkpoints"]
    assert [point["steps"] for point in curve] == [10, 20]
    assert all(len(point["returns"]) == 100 for point in curve)
    assert json.loads((finished / "config.json").read_text())["learner"]["updates"] == 20


def test_a_finished_run_is_not_overwritten_unasked(imitable, demos: Path, finished: Path) -> None:
    before = (finished / "curve.json").read_bytes()
    outcome = imitable("run", "driving/slow", "--method", "none", "--demos", demos, "-o", finished, *TINY)
    assert outcome.code == 2
    assert outcome.says("already has a finished run", "--overwrite", "--resume")
    assert (finished / "curve.json").read_bytes() == before


def test_the_same_command_in_another_process_gives_the_same_bytes(demos: Path, finished: Path, tmp_path: Path) -> None:
    running = process("run", "driving/slow", "--method", "none", "--demos", demos, "-o", tmp_path / "run", *TINY)
    out, err = running.communicate(timeout=200)
    assert running.returncode == 0, err
    assert f"{tmp_path / 'run'}: mean return" in out
    for name in ("config.json", "curve.json", "policy.safetensors", "scores.parquet"):
        assert (tmp_path / "run" / name).read_bytes() == (finished / name).read_bytes(), name


def test_a_finished_run_can_be_resumed_or_overwritten_when_asked(imitable, demos: Path, finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "run")
    command = ["run", "driving/slow", "--method", "none", "--demos", demos, "-o", tmp_path / "run", *TINY]
    stamp = (tmp_path / "run" / "curve.json").stat().st_mtime_ns
    assert imitable(*command, "--resume").code == 0
    assert (tmp_path / "run" / "curve.json").stat().st_mtime_ns == stamp
    assert imitable(*command, "--overwrite").code == 0
    assert (tmp_path / "run" / "curve.json").stat().st_mtime_ns != stamp
    assert (tmp_path / "run" / "curve.json").read_bytes() == (finished / "curve.json").read_bytes()


def test_a_runs_policy_is_measured_again(imitable, finished: Path) -> None:
    one, again, other = (imitable("evaluate", finished, "--episodes", 20, "--seed", seed) for seed in (5, 5, 6))
    assert one.code == 0
    assert "driving/slow none: mean return" in one.out
    assert "20 episodes" in one.out
    assert one.out == again.out
    assert one.out != other.out
    assert imitable("evaluate", finished, "--episodes", 1).code == 0


@pytest.mark.parametrize("episodes", [0, -1])
def test_measuring_no_episodes_is_refused(imitable, finished: Path, episodes: int) -> None:
    outcome = imitable("evaluate", finished, "--episodes", episodes)
    assert outcome.code == 2
    assert outcome.says("error: ", "episodes")


def test_control_c_in_mid_run_keeps_what_was_done_and_resumes_to_the_same_curve(demos: Path, tmp_path: Path) -> None:
    changes = ("updates=600", "checkpoint_every=100", "exploration=10", "fit.epochs=1")
    settings = [part for change in changes for part in ("--set", change)]

    def command(folder: str) -> list[object]:
        return ["run", "driving/slow", "--method", "none", "--demos", demos, "-o", tmp_path / folder, *settings]

    running = process(*command("cut"))
    snapshot, patience = tmp_path / "cut" / "snapshot.npz", time.monotonic() + 100
    while not snapshot.exists() and running.poll() is None and time.monotonic() < patience:
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "--resume" in err
    assert "Traceback" not in err
    assert not (tmp_path / "cut" / "result.json").exists(), "it had finished before the interruption"
    assert (tmp_path / "cut" / "snapshot.npz").exists()
    kept = len(json.loads((tmp_path / "cut" / "curve.json").read_text())["checkpoints"])
    assert 1 <= kept < 6
    resuming, whole = process(*command("cut"), "--resume"), process(*command("whole"))
    for each in (resuming, whole):
        _, err = each.communicate(timeout=200)
        assert each.returncode == 0, err
    for name in ("curve.json", "policy.safetensors", "scores.parquet"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_control_c_before_the_first_checkpoint_leaves_a_run_that_can_be_resumed(imitable, demos: Path, tmp_path: Path, monkeypatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    command = ["run", "driving/slow", "--method", "none", "--demos", demos, "-o", tmp_path / "run", *TINY]
    with monkeypatch.context() as patch:
        patch.setattr(runs, "kept_or_posed", interrupt)
        outcome = imitable(*command)
    assert outcome.code == 130
    assert "--resume" in outcome.err
    assert imitable(*command, "--resume").code == 0
    assert (tmp_path / "run" / "result.json").exists()


# Sweeping


def test_a_sweep_runs_its_grid_reports_what_failed_and_goes_on_where_it_was(imitable, tmp_path: Path) -> None:
    command = ["sweep", "--tasks", "driving/slow", "--methods", "none", "feasibility", "--seeds", "0", "-o", tmp_path, *TINY]
    # This cell was begun with other settings, so it cannot be resumed.
    stuck = tmp_path / "driving-slow" / "none" / "seed-0"
    stuck.mkdir(parents=True)
    (stuck / "config.json").write_text(json.dumps({"task": "driving/slow", "method": "none", "seed": 0, "settings": {}}))
    (stuck / "result.json").write_text(json.dumps({"mean_return": 1234.5}))  # finished or not, it is not of this grid
    outcome = imitable(*command)
    assert outcome.code == 2
    assert outcome.says("failed: driving/slow none seed 0", "was started with", "1 of 2 runs failed")
    done = tmp_path / "driving-slow" / "feasibility" / "seed-0"
    assert (done / "result.json").exists()
    rows = [line.split() for line in outcome.out.splitlines() if line.startswith("driving/slow")]
    assert [row[1] for row in rows] == ["feasibility"]
    stamp = (done / "policy.safetensors").stat().st_mtime_ns
    (stuck / "config.json").unlink()
    (stuck / "result.json").unlink()
    outcome = imitable(*command)
    assert outcome.code == 0, outcome.err
    assert (done / "policy.safetensors").stat().st_mtime_ns == stamp, "a finished cell was run again"
    rows = [line.split() for line in outcome.out.splitlines() if line.startswith("driving/slow")]
    assert sorted(row[1] for row in rows) == ["feasibility", "none"]
    assert "interquartile mean" in outcome.out
    mean = json.loads((done / "result.json").read_text())["mean_return"]
    assert f"{mean:.1f}" in next(" ".join(row) for row in rows if row[1] == "feasibility")


# Starting


def test_help_comes_within_a_second() -> None:
    # Starting up waits for nothing, so on an idle machine the time on the clock is the processor's, which other work disturbs less.
    spent = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([sys.executable, "-m", "imitable", "--help"], capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        if spent[-1] < 1.0:
            break
    assert min(spent) < 1.0, spent
    assert all(name in done.stdout for name in ("tasks", "methods", "collect", "score", "run", "evaluate", "sweep"))


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-X", "importtime", "-m", "imitable", *arguments], capture_output=True, text=True, check=True)
    imported = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "imitable.cli" in imported
    assert not imported & {"torch", "mujoco", "matplotlib", "pyarrow", "scipy"}


def test_importing_the_package_imports_nothing_heavy_but_registers_environments() -> None:
    program = """
import sys, imitable, gymnasium
assert "imitable/DrivingSlow-v0" in gymnasium.registry
print([name for name in ("torch", "mujoco", "matplotlib", "pyarrow", "scipy") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_module_and_the_script_say_the_same() -> None:
    script = Path(sys.executable).parent / "imitable"
    environment = {**os.environ, "COLUMNS": "100"}
    outputs = [
        subprocess.run([*command, "--help"], capture_output=True, text=True, check=True, env=environment).stdout
        for command in ([sys.executable, "-m", "imitable"], [str(script)])
    ]
    assert outputs[0] == outputs[1]
    assert "usage: imitable" in outputs[0]


def test_an_error_in_a_process_of_its_own_has_exit_code_two_and_no_traceback() -> None:
    running = process("collect", "driving/slwo", "-o", "nowhere.npz")
    out, err = running.communicate(timeout=60)
    assert running.returncode == 2
    assert out == ""
    assert err.startswith("error: unknown task 'driving/slwo'; did you mean driving/slow")
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("2iwil", ("classifier.iterations=5", "labelled_share=0.3", "rounds=1", "trpo.batch=300")),
        ("ic-gail", ("least_share=0.8", "rounds=1", "trpo.batch=300")),
        ("sail", ("iterations=1", "batch=300", "foresight_updates=2", "pretraining_updates=2", "passes=1", "critic_steps=1")),
    ],
)
def test_numbers_of_a_peer_can_be_set(imitable, demos: Path, tmp_path: Path, method: str, changes: tuple[str, ...]) -> None:
    options = [part for change in ("exploration=10", "fit.epochs=1", *changes) for part in ("--set", change)]
    made = imitable("run", "driving/slow", "--method", method, "--demos", demos, *options, "-o", tmp_path / "run")
    assert made.code == 0, made.err
    learner = json.loads((tmp_path / "run" / "config.json").read_text())["learner"]
    for change in changes:
        name, _, value = change.partition("=")
        *path, last = name.split(".")
        owner = learner if (path or [last])[0] in learner else learner["gail"]
        for part in path:
            owner = owner[part]
        assert owner[last] == float(value)


def test_a_number_that_the_peer_does_not_have_is_refused(imitable, demos: Path, tmp_path: Path) -> None:
    refused = imitable("run", "driving/slow", "--method", "sail", "--demos", demos, "--set", "updates=5", "-o", tmp_path / "run")
    assert refused.code == 2
    assert refused.says("unknown setting 'updates' of driving/slow with Sail")
