"""The command line, as a user meets it."""

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest

from imitable import cli
from imitable.demonstrations import Demonstrations
from imitable.formats import npz
from imitable.paper import TASK_NAMES
from imitable.paper.methods import CONTROLS, METHODS
from imitable.paper.run import Experiment, collected, run_in_folder
from imitable.paper.tasks import find_task
from imitable.store.files import read_table
from imitable.store.scores import ScoreFolder

TINY = [part for change in ("updates=20", "checkpoint_every=10", "episodes=10") for part in ("--set", change)]
ARM = ["--robot", "turntable:CLOCKWISE", "--inverse", "turntable:ExactModel"]
"""A robot of a user, and an inverse dynamics that needs no learning."""
Write = Callable[[str, str], None]


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


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty demonstrations of driving/slow."""
    path = tmp_path_factory.mktemp("demos") / "demos.npz"
    npz.write(collected(find_task("driving/slow"), seed=0, count=40), path)
    return path


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve demonstrations of two turntables."""
    import turntable

    path = tmp_path_factory.mktemp("turns") / "turns.npz"
    npz.write(turntable.mixed(), path)
    return path


# Listing


def test_tasks_are_listed(imitable) -> None:
    outcome = imitable("tasks")
    assert outcome.code == 0
    assert [line.split()[0] for line in outcome.out.splitlines()[2:]] == list(TASK_NAMES)
    assert "30.0% / 60.0% / 10.0%" in outcome.out


def test_methods_are_listed(imitable) -> None:
    outcome = imitable("methods")
    assert outcome.code == 0
    assert [line.split()[0] for line in outcome.out.splitlines()[2:]] == [*METHODS, *CONTROLS]


def test_the_version_is_told(imitable) -> None:
    assert imitable("--version").out.startswith("imitable 0.")


# Collecting


def test_collected_demonstrations_are_a_plain_file(imitable, tmp_path: Path) -> None:
    outcome = imitable("collect", "driving/fast", "-o", tmp_path / "demos.npz", "--count", 20)
    assert outcome.code == 0
    assert "20 of" in outcome.out
    with np.load(tmp_path / "demos.npz", allow_pickle=False) as file:
        assert set(file.files) >= {"states", "lengths", "returns", "sources"}
        assert len(file["states"]) == file["lengths"].sum() + 20
    demos = npz.read(tmp_path / "demos.npz")
    assert [int(demos.from_source(source).sum()) for source in ("optimal", "suboptimal", "other-dynamics")] == [6, 12, 2]
    assert demos.observation_names == find_task("driving/fast").robot.observation_names


def test_collecting_follows_seed_and_composition(imitable, tmp_path: Path) -> None:
    runs = {"one": [], "again": [], "other": ["--seed", 1], "released": ["--composition", "released"]}
    for name, options in runs.items():
        assert imitable("collect", "driving/slow", "-o", tmp_path / name, "--count", 10, *options).code == 0
    contents = {name: (tmp_path / name).read_bytes() for name in runs}
    assert contents["one"] == contents["again"]
    assert len(set(contents.values())) == 3
    assert npz.read(tmp_path / "released").from_source("other-dynamics").sum() == 6


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
    assert len(npz.read(mine)) == 10


# Scoring

FILES = {"demonstrations.npz", "scores.parquet", "scores.png", "settings.json", "steps.parquet"}
COLUMNS = {
    "verdict",
    "better_neighbour",
    "source",
    "length",
    "return",
    "distance",
    "feasibility",
    "rectified_return",
    "optimality",
    "weight",
}


def test_scores_of_a_users_robot_are_written_one_row_per_demonstration(imitable, turns: Path, tmp_path: Path) -> None:
    outcome = imitable("score", turns, *ARM, "-o", tmp_path / "out")
    assert outcome.code == 0, outcome.err
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES
    assert "of 12 demonstrations" in outcome.out
    assert all(source in outcome.out for source in ("optimal", "other-dynamics"))
    table, given = read_table(tmp_path / "out" / "scores.parquet"), npz.read(turns)
    assert table.keys() >= COLUMNS
    assert all(len(column) == 12 for column in table.values())
    assert table["length"].tolist() == given.lengths.tolist()
    assert table["return"].tolist() == given.returns.tolist()
    assert table["source"].tolist() == list(given.sources or ())
    for name in ("feasibility", "optimality", "weight"):
        assert ((table[name] >= 0) & (table[name] <= 1)).all()
    assert (table["rectified_return"] >= table["return"]).all()
    assert (table["feasibility"][given.from_source("optimal")] > 0).all()
    assert table["feasibility"][given.from_source("other-dynamics")].min() < 0.6, "it turns the other way until it stands at its goal"
    assert matplotlib.image.imread(tmp_path / "out" / "scores.png").shape[:2] == (702, 1638)


def test_scoring_on_a_tasks_target_takes_the_tasks_numbers(imitable, demos: Path, tmp_path: Path, monkeypatch) -> None:
    task = find_task("driving/slow")
    hasty = replace(task, exploration=replace(task.exploration, episodes=10), optimality=replace(task.optimality, radius=0.05))
    monkeypatch.setattr(cli.score, "find_task", {"driving/slow": hasty}.__getitem__)
    outcome = imitable("score", demos, "--robot", "driving/slow", "-o", tmp_path)
    assert outcome.code == 0, outcome.err
    table = read_table(tmp_path / "scores.parquet")
    given = npz.read(demos)
    sigma = task.optimality.sigma
    expected, compared = np.exp(-0.5 * ((given.returns - table["rectified_return"]) / sigma) ** 2), np.isfinite(table["optimality"])
    assert 0 < compared.sum() < 40
    wholly = table["feasibility"] > task.optimality.feasible_above
    usual = expected[compared & wholly].mean()
    expected = np.where(wholly, expected, np.minimum(expected, usual))
    assert table["optimality"][compared] == pytest.approx(expected[compared])
    expected[~compared] = usual
    assert table["weight"] == pytest.approx(table["feasibility"] * expected)
    assert (table["rectified_return"] < given.returns.max()).any(), "the radius is not the task's"


def test_scoring_twice_gives_the_same_numbers(imitable, turns: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        assert imitable("score", turns, *ARM, "-o", tmp_path / name).code == 0
    assert (tmp_path / "one" / "scores.parquet").read_bytes() == (tmp_path / "two" / "scores.parquet").read_bytes()


def test_several_files_are_scored_together(imitable, turns: Path, tmp_path: Path) -> None:
    given = npz.read(turns)
    for name, rows in (("a", range(5)), ("b", range(5, 12))):
        npz.write(given.select(list(rows)), tmp_path / f"{name}.npz")
    assert imitable("score", tmp_path / "a.npz", tmp_path / "b.npz", *ARM, "-o", tmp_path / "listed").code == 0
    assert imitable("score", tmp_path / "?.npz", *ARM, "-o", tmp_path / "matched").code == 0
    assert imitable("score", turns, *ARM, "-o", tmp_path / "whole").code == 0
    tables = [(tmp_path / name / "scores.parquet").read_bytes() for name in ("listed", "matched", "whole")]
    assert tables[0] == tables[1] == tables[2]


def test_one_demonstration_is_scored(imitable, turns: Path, tmp_path: Path) -> None:
    given = npz.read(turns)
    npz.write(given.select(np.flatnonzero(given.from_source("optimal"))[:1]), tmp_path / "one.npz")
    outcome = imitable("score", tmp_path / "one.npz", *ARM, "-o", tmp_path / "out")
    assert outcome.code == 0, outcome.err
    table = read_table(tmp_path / "out" / "scores.parquet")
    assert np.isnan(table["optimality"]).tolist() == [True], "there is nothing to compare it with"
    assert table["weight"].tolist() == [1.0]


def test_without_returns_there_is_feasibility_alone(imitable, turns: Path, tmp_path: Path) -> None:
    given = npz.read(turns)
    npz.write(replace(given, returns=np.full(12, np.nan)), tmp_path / "unrated.npz")
    outcome = imitable("score", tmp_path / "unrated.npz", *ARM, "-o", tmp_path / "out")
    assert outcome.code == 0, outcome.err
    table = read_table(tmp_path / "out" / "scores.parquet")
    assert np.isnan(table["optimality"]).all()
    assert np.array_equal(table["weight"], table["feasibility"])
    assert "no demonstration has a return, so that their optimality is not known: weights are feasibility alone" in outcome.out


def test_with_some_returns_missing_the_others_are_compared(imitable, turns: Path, tmp_path: Path) -> None:
    given = npz.read(turns)
    npz.write(replace(given, returns=np.where(np.arange(12) % 3 == 0, np.nan, given.returns)), tmp_path / "partly.npz")
    outcome = imitable("score", tmp_path / "partly.npz", *ARM, "-o", tmp_path / "out")
    assert outcome.code == 0, outcome.err
    assert "4 demonstrations have no return" in outcome.out
    table = read_table(tmp_path / "out" / "scores.parquet")
    assert np.isnan(table["optimality"][::3]).all()
    known = np.isfinite(table["optimality"])
    assert known.any()
    assert (table["weight"][::3] == 0).all(), "where others can be compared"
    assert set(table["verdict"][::3]) <= {"unrated", "infeasible"}


@pytest.mark.parametrize("name", ["scores.parquet", "scores.png"])
def test_scoring_does_not_replace_a_file_unasked(imitable, turns: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"years of work")
    outcome = imitable("score", turns, *ARM, "-o", tmp_path)
    assert outcome.code == 2
    assert outcome.says(f"{tmp_path / name} is there already", "--overwrite")
    assert (tmp_path / name).read_bytes() == b"years of work"
    assert imitable("score", turns, *ARM, "-o", tmp_path, "--overwrite").code == 0
    assert len(read_table(tmp_path / "scores.parquet")["weight"]) == 12


def test_a_folder_that_another_process_scores_into_is_left_to_it(imitable, turns: Path, tmp_path: Path) -> None:
    with ScoreFolder(tmp_path / "out").open(overwrite=False):
        outcome = imitable("score", turns, *ARM, "-o", tmp_path / "out")
    assert outcome.code == 2
    assert outcome.says("out is in use by process"), outcome.err
    assert imitable("score", turns, *ARM, "-o", tmp_path / "out").code == 0
    assert not (tmp_path / "out" / ".lock").exists()


def test_permuted_columns_are_refused(imitable, turns: Path, tmp_path: Path) -> None:
    given = npz.read(turns)
    names = given.observation_names or ()
    npz.write(replace(given, observations=given.observations[:, ::-1], observation_names=names[::-1]), tmp_path / "permuted.npz")
    outcome = imitable("score", tmp_path / "permuted.npz", *ARM, "-o", tmp_path / "out")
    assert outcome.code == 2
    assert outcome.says("the same columns in another order", "'goal sin' where the robot has 'joint cos'")


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
    bad = bad_file(tmp_path, kind)
    how = ["--demos", bad, "--method", "ours", *TINY] if command == "run" else [bad, "--robot"]
    outcome = imitable(command, *how, "driving/slow", "-o", tmp_path / "out")
    assert outcome.code == 2
    assert outcome.says("error: ", *BAD[kind])
    assert len(outcome.err.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_overwriting_with_bad_demonstrations_keeps_the_old_run(imitable, finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "run")
    bad = bad_file(tmp_path, "NaN")
    assert imitable("run", "driving/slow", "--method", "none", "--demos", bad, "-o", tmp_path / "run", "--overwrite").code == 2
    assert (tmp_path / "run" / "result.json").read_bytes() == (finished / "result.json").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["collect", "driving/slwo", "-o", "x"], ["unknown task 'driving/slwo'", "driving/slow"]),
        (["score", "absent.npz", "--robot", "driving/slow", "-o", "y"], ["absent.npz does not exist"]),
        (["score", "absent-*.npz", "--robot", "driving/slow", "-o", "y"], ["no file matches absent-*.npz"]),
        (["run", "drving/fast", "--method", "ours", "-o", "x"], ["unknown task 'drving/fast'", "driving/fast"]),
        (["run", "driving/fast", "--method", "feasable", "-o", "x"], ["unknown method 'feasable'", "feasibility"]),
        (
            ["run", "driving/fast", "--method", "zzzzzz", "-o", "x"],
            ["unknown method 'zzzzzz'", "none, sail, ic-gail, 2iwil, feasibility, naive, optimality, ours"],
        ),
        (["run", "driving/fast", "--method", "ours", "--learner", "gale", "-o", "x"], ["unknown learner 'gale'", "gail"]),
        (["run", "driving/fast", "--method", "sail", "--learner", "gail", "-o", "x"], ["method sail is a learner of its own"]),
        (["run", "driving/fast", "--method", "ours", "--inverse", "lerned", "-o", "x"], ["unknown inverse dynamics 'lerned'", "learned"]),
        (["run", "nowhere:TASK", "--method", "ours", "-o", "x"], ["task 'nowhere:TASK': there is no module 'nowhere'"]),
        (["run", "json:dumps", "--method", "ours", "-o", "x"], ["task 'json:dumps' is a function; it must be an imitable.Task"]),
        (["run", "driving/slow", "--method", "json:absent", "-o", "x"], ["method 'json:absent': json has no 'absent'"]),
        (["run", "driving/slow", "--method", "math:pi", "-o", "x"], ["method 'math:pi' is a float; it must be a Method or a score"]),
        (["run", "driving/slow", "--method", "a b:c", "-o", "x"], ["method 'a b:c' is not of the form module:object"]),
        (["run", "driving/slow", "--method", "ours", "--learner", "math:pi", "-o", "x"], ["learner 'math:pi' is a float"]),
        (["sweep", "--tasks", "driving/slo", "--methods", "ours", "-o", "x"], ["unknown task 'driving/slo'", "driving/slow"]),
        (["sweep", "--tasks", "driving/slow", "--methods", "our", "-o", "x"], ["unknown method 'our'", "ours"]),
        (["sweep", "--tasks", "driving/slow", "--methods", "ours", "--seeds", "x", "-o", "x"], ["cannot read seeds 'x'"]),
        (["sweep", "--tasks", "driving/slow", "--methods", "ours", "--set", "sigmo=3", "-o", "x"], ["unknown setting 'sigmo'", "sigma"]),
        (["expert", "reacher/clock", "-o", "x"], ["unknown task 'reacher/clock'", "reacher/clockwise"]),
        (["run", "driving/slow", "--method", "ours", "-o", "x", "--set", "sigmo=3"], ["unknown setting 'sigmo'", "sigma"]),
        (["run", "driving/slow", "--method", "ours", "-o", "x", "--set", "sigma=0"], ["sigma is 0.0; it must be above 0"]),
        (
            ["run", "driving/slow", "--method", "sail", "-o", "x", "--set", "updates=5"],
            ["unknown setting 'updates' of driving/slow with Sail"],
        ),
        (["run", "driving/slow", "--method", "ours", "-o", "x", "--seed", "-1"], ["seed is -1"]),
        (["run", "driving/slow", "--method", "none", "-o", "x", "--episodes", "0"], ["episodes is 0; it must be at least 1"]),
        (["run", "driving/slow", "--method", "none", "-o", "x", "--count", "0"], ["at least one demonstration, got count=0"]),
        (["run", "driving/slow", "--method", "none", "-o", "x", "--composition", "most"], ["unknown composition 'most'"]),
        (["sweep", "--print", "--tasks", "driving/slo", "--methods", "ours", "-o", "x"], ["unknown task 'driving/slo'"]),
        (["sweep", "--print", "--tasks", "driving/slow", "--methods", "our", "-o", "x"], ["unknown method 'our'"]),
        (["sweep", "--print", "--tasks", "driving/slow", "--methods", "ours", "--set", "a=3", "-o", "x"], ["unknown setting 'a'"]),
        (["sweep", "--print", "--tasks", "driving/slow", "--methods", "ours", "--learner", "gial", "-o", "x"], ["unknown learner 'gial'"]),
        (
            ["sweep", "--print", "--tasks", "driving/slow", "--methods", "ours", "--inverse", "b", "-o", "x"],
            ["unknown inverse dynamics 'b'"],
        ),
        (["evaluate", "x"], ["x has no policy", "imitable run"]),
    ],
)
def test_mistakes_are_named_with_a_way_out(imitable, working_directory: Path, arguments: list[str], parts: list[str]) -> None:
    outcome = imitable(*arguments)
    assert outcome.code == 2
    assert outcome.says("error: ", *parts), outcome.err
    assert "imitable run" not in outcome.out, "no commands are printed"
    assert not list(working_directory.iterdir())


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("nowhere:ARM", ["robot 'nowhere:ARM': there is no module 'nowhere'"]),
        ("turntable:ARM", ["robot 'turntable:ARM': turntable has no 'ARM'"]),
        ("turntable:OURS", ["robot 'turntable:OURS' has no horizon and no action_low", "imitable.Simulator"]),
        ("turn table:ARM", ["is not of the form module:object"]),
    ],
)
def test_robots_that_are_none_are_named(imitable, turns: Path, tmp_path: Path, name: str, parts: list[str]) -> None:
    outcome = imitable("score", turns, "--robot", name, "-o", tmp_path / "out")
    assert outcome.code == 2
    assert outcome.says("error: ", *parts), outcome.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "command",
    [
        ["sweep", "--tasks", "driving/slow", "--methods", "ours", "--seeds", "0"],
        ["run", "driving/slow", "--method", "ours"],
        ["collect", "driving/slow"],
        ["score", "demos.npz", "--robot", "driving/slow"],
    ],
)
def test_nothing_is_put_below_a_file(imitable, tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    outcome = imitable(*command, "-o", tmp_path / "notes.txt" / "below")
    assert outcome.code == 2
    assert outcome.says("notes.txt is not a writable folder")
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "arguments",
    [["walk"], ["run"], ["run", "driving/slow"], ["run", "driving/slow", "--method", "ours"], ["collect"], ["score", "x.npz", "-o", "y"]],
)
def test_unusable_arguments_end_in_exit_code_two(imitable, arguments: list[str]) -> None:
    outcome = imitable(*arguments)
    assert outcome.code == 2
    assert "Traceback" not in outcome.err


def test_no_feasible_demonstration_is_an_error_with_numbers(imitable, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    states = rng.uniform(-0.5, 0.5, (22, 7))  # a car that jumps about
    npz.write(Demonstrations(states, [10, 10], [0.0, 0.0]), tmp_path / "jumping.npz")
    command = ["run", "driving/slow", "--method", "ours", "--demos", tmp_path / "jumping.npz", "-o", tmp_path / "run", *TINY]
    outcome = imitable(*command)
    assert outcome.code == 2
    assert outcome.says("no demonstration is feasible", "of its own one-step changes off", "check units, column order")


# Running


@pytest.fixture(scope="module")
def finished(demos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the method none."""
    folder = tmp_path_factory.mktemp("runs") / "finished"
    experiment = Experiment.of(find_task("driving/slow"), METHODS["none"], overrides=TINY[1::2])
    run_in_folder(experiment, folder, seed=0, demonstrations=npz.read(demos))
    return folder


def test_a_run_leaves_its_files(finished: Path) -> None:
    assert {each.name for each in finished.iterdir()} == {
        "config.json",
        "curve.json",
        "policy.safetensors",
        "scores.parquet",
        "result.json",
        "manifest.json",
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


def test_a_finished_run_can_be_resumed_or_overwritten_when_asked(imitable, demos: Path, finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "run")
    command = ["run", "driving/slow", "--method", "none", "--demos", demos, "-o", tmp_path / "run", *TINY]
    stamp = (tmp_path / "run" / "curve.json").stat().st_mtime_ns
    assert imitable(*command, "--resume").code == 0
    assert (tmp_path / "run" / "curve.json").stat().st_mtime_ns == stamp
    assert imitable(*command, "--overwrite").code == 0
    assert (tmp_path / "run" / "curve.json").stat().st_mtime_ns != stamp
    assert (tmp_path / "run" / "curve.json").read_bytes() == (finished / "curve.json").read_bytes()


def test_any_learner_can_be_asked_for(imitable, demos: Path, tmp_path: Path) -> None:
    options = [part for change in ("rounds=2", "trpo.batch_size=300", "episodes=10") for part in ("--set", change)]
    outcome = imitable("run", "driving/slow", "--method", "none", "--learner", "gail", "--demos", demos, "-o", tmp_path / "gail", *options)
    assert outcome.code == 0, outcome.err
    assert json.loads((tmp_path / "gail" / "config.json").read_text())["learner"]["kind"] == "imitable.learners.gail.Gail"
    outcome = imitable("run", "reacher/clockwise", "--method", "none", "--learner", "cloning", "-o", tmp_path / "cloning", *TINY)
    assert outcome.code == 0, outcome.err
    assert json.loads((tmp_path / "cloning" / "config.json").read_text())["learner"]["kind"] == "imitable.learners.cloning.Cloning"


OWN = """
import turntable
from imitable.scores import Uniform
TASK = turntable.task()
ALIKE = Uniform()
LEARNER = turntable.TINY_CLONING
"""


def test_a_users_own_task_method_and_learner_run_and_are_evaluated(imitable, write_module: Write, working_directory: Path) -> None:
    write_module("mine", OWN)
    outcome = imitable(
        "run", "mine:TASK", "--method", "mine:ALIKE", "--learner", "mine:LEARNER", "--inverse", "turntable:ExactModel", "-o", "run"
    )
    assert outcome.code == 0, outcome.err
    config = json.loads((working_directory / "run" / "config.json").read_text())
    assert (config["task"], config["method"]) == ("mine:TASK", "mine:ALIKE")
    outcome = imitable("evaluate", "run", "--episodes", 5)
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("mine:TASK mine:ALIKE: mean return")
    assert len(npz.read(collected_by(imitable, working_directory))) == 10


def collected_by(imitable, folder: Path) -> Path:
    assert imitable("collect", "mine:TASK", "--count", 10, "-o", folder / "demos.npz").code == 0
    return folder / "demos.npz"


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


def test_control_c_before_the_first_checkpoint_leaves_a_run_that_can_be_resumed(imitable, demos: Path, tmp_path: Path, monkeypatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    command = ["run", "driving/slow", "--method", "none", "--demos", demos, "-o", tmp_path / "run", *TINY]
    with monkeypatch.context() as patch:
        patch.setattr("imitable.pipeline.assess", interrupt)
        outcome = imitable(*command)
    assert outcome.code == 130
    assert "--resume" in outcome.err
    assert imitable(*command, "--resume").code == 0
    assert (tmp_path / "run" / "result.json").exists()


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("2iwil", ("classifier.iterations=5", "labelled_share=0.3", "rounds=1", "trpo.batch_size=300")),
        ("ic-gail", ("min_agent_share=0.8", "rounds=1", "trpo.batch_size=300")),
        (
            "sail",
            ("iterations=1", "n_steps=300", "vae_updates=2", "pretraining_updates=2", "n_epochs=1", "inverse.epochs=1"),
        ),
    ],
)
def test_numbers_of_a_peer_can_be_set(imitable, demos: Path, tmp_path: Path, method: str, changes: tuple[str, ...]) -> None:
    options = [part for change in ("episodes=10", *changes) for part in ("--set", change)]
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


# The cache


def test_the_cache_is_listed_and_cleared(imitable, turns: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("IMITABLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("IMITABLE_CACHE_GB", "0.5")
    assert imitable("cache").out.splitlines()[-1].startswith(f"{tmp_path / 'cache'}: holds 0.00 GB")
    imitable("score", turns, *ARM, "-o", tmp_path / "out")
    imitable("collect", "driving/slow", "-o", tmp_path / "demos.npz", "--count", 10)
    listed = imitable("cache")
    assert listed.code == 0
    rows = {line.split("  ")[0]: line.split()[-5:] for line in listed.out.splitlines()[2:-1]}
    assert rows.keys() == {"demonstrations", "inverse dynamics", "windows"}
    assert all((row[0], row[2], row[4]) == ("1", "MB", "h") for row in rows.values()), rows
    assert "0.5 GB" in listed.out
    cleared = imitable("cache", "--clear")
    assert "deleted" in cleared.out
    assert cleared.out.splitlines()[:-1] == listed.out.splitlines()[:-1]
    assert not list((tmp_path / "cache").iterdir())


def test_what_was_scored_before_is_found_again(imitable, turns: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("IMITABLE_CACHE", str(tmp_path / "cache"))
    assert imitable("score", turns, *ARM, "-o", tmp_path / "one").code == 0
    monkeypatch.setattr("imitable.assessment.track", lambda *_, **__: pytest.fail("followed again"))
    assert imitable("score", turns, *ARM, "-o", tmp_path / "two").code == 0
    assert (tmp_path / "one" / "scores.parquet").read_bytes() == (tmp_path / "two" / "scores.parquet").read_bytes()


OPAQUE = """
import turntable
class Arm:
    def __getattr__(self, name):
        if name == "cache_key":
            raise AttributeError(name)
        return getattr(turntable.CLOCKWISE, name)
"""


@pytest.mark.filterwarnings("always")
def test_a_robot_that_cannot_be_kept_is_scored_with_a_note(imitable, turns: Path, write_module: Write, tmp_path: Path) -> None:
    write_module("opaque", OPAQUE)
    outcome = imitable("score", turns, "--robot", "opaque:Arm", "--inverse", "turntable:ExactModel", "-o", tmp_path / "out")
    assert outcome.code == 0, outcome.err
    assert "note: the windows of this robot is not kept for the next time: a Arm does not say what its behavior depends on" in outcome.err


def test_a_cap_that_is_no_number_is_an_error(imitable, monkeypatch) -> None:
    monkeypatch.setenv("IMITABLE_CACHE_GB", "much")
    outcome = imitable("cache")
    assert outcome.code == 2
    assert outcome.says("IMITABLE_CACHE_GB is 'much'")


@pytest.mark.parametrize(("distance", "told"), [(0.2, True), (2.0, False), (0.01, False)])
def test_demonstrations_that_are_rejected_by_little_are_doubted(distance: float, told: bool, capsys: pytest.CaptureFixture[str]) -> None:
    from imitable.cli.score import print_narrow_rejections
    from imitable.scores import Tolerance

    table = {"feasibility": np.repeat([0.0, 1.0], 5), "distance": np.repeat([distance, 0.01], 5)}
    print_narrow_rejections(table, Tolerance(0.05, 0.1))
    assert ("5 demonstrations are rejected by little: their distance is 0.2" in capsys.readouterr().out) == told
