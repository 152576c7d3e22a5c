"""Runs in memory and on disk: the same seed, the same bytes, interrupted or not."""

import dataclasses
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import turntable
from imitable.changes import adjusted
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.experiment import Streams, gather, learn, prepared, run, weigh
from imitable.inverse_dynamics import InverseDynamicsFit
from imitable.kept import kept_or_gathered, kept_or_posed
from imitable.learners import Cloning, Gail, IcGail, Sail, TwoIwil
from imitable.learners.two_iwil import Classifier
from imitable.methods import METHODS
from imitable.networks import Policy
from imitable.reinforcement import Trpo
from imitable.runs import RunFolder, perform
from imitable.scorecard import load_scorecard, save_scorecard, scorecard
from imitable.tasks import SWIMMER_GAIL, TASKS, Task

OURS = METHODS["ours"]
LEARNERS = {"gail": turntable.TINY_GAIL, "cloning": turntable.TINY_CLONING}


@pytest.fixture(params=LEARNERS.values(), ids=LEARNERS.keys())
def task(request: pytest.FixtureRequest) -> Task:
    return turntable.task(request.param)


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demos") / "demos.npz"
    gather(turntable.task(), seed=0, count=30).save(path)
    return path


# In memory


def test_a_run_is_the_whole_path_of_the_data(task: Task) -> None:
    result = run(task, OURS, seed=0)
    assert result.seed == 0
    assert result.weights.shape == (1000,)
    assert len(result.curve) == 3
    assert all(measurement.returns.shape == (100,) for measurement in result.curve)
    assert result.mean_return == result.curve[-1].returns.mean()


def test_the_same_seed_runs_the_same() -> None:
    one, again, other = (run(turntable.task(), OURS, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(one.weights, again.weights)
    assert one.curve[-1].checkpoint.policy.parameters.tobytes() == again.curve[-1].checkpoint.policy.parameters.tobytes()
    assert one.mean_return == again.mean_return
    assert one.mean_return != other.mean_return


def test_every_stage_has_its_own_stream_which_can_be_started_again() -> None:
    streams = Streams(5)
    stages = (streams.collecting, streams.posing, streams.learning, streams.measuring)
    first = [stage().random(4).tolist() for stage in stages]
    assert first == [stage().random(4).tolist() for stage in stages]
    assert len({tuple(each) for each in first}) == 4
    assert first != [stage().random(4).tolist() for stage in (Streams(6).collecting,) * 4]


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ImitableError, match="seed is -1"):
        Streams(-1)


def test_methods_share_the_problem_and_differ_in_weights() -> None:
    problem = turntable.posed(turntable.mixed(own=20, other=10))
    weights = {name: weigh(problem, METHODS[name]) for name in METHODS}
    assert (weights["none"] == 1).all()
    assert (weights["ours"] <= weights["feasibility"]).all()
    assert (weights["naive"] <= weights["feasibility"]).all()
    assert np.array_equal(weights["2iwil"], weights["ic-gail"]), "both take confidences"
    assert np.array_equal(weights["sail"], weights["none"])
    assert len({each.tobytes() for each in weights.values()}) == len(METHODS) - 2


# On disk


def files(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()}


def test_a_run_on_disk_equals_the_run_in_memory(task: Task, tmp_path: Path) -> None:
    result = perform(task, OURS, seed=0, folder=tmp_path / "run")
    expected = run(task, OURS, seed=0)
    assert result["mean_return"] == expected.mean_return
    policy = Policy.load(tmp_path / "run" / "policy.safetensors")
    assert np.array_equal(policy.parameters, expected.curve[-1].checkpoint.policy.parameters)
    curve = RunFolder(tmp_path / "run").curve()
    assert [each["mean_return"] for each in curve] == [each.returns.mean() for each in expected.curve]
    assert [each["steps"] for each in curve] == [each.checkpoint.steps for each in expected.curve]
    assert np.array_equal(load_scorecard(tmp_path / "run" / "scores.parquet")["weight"], expected.weights)


def test_a_finished_run_has_its_files_and_no_scraps(demos: Path, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "run"
    result = perform(turntable.task(), OURS, seed=0, folder=folder, demos=demos)
    assert files(folder) == {"config.json", "curve.json", "policy.safetensors", "scores.parquet", "result.json"}
    config = json.loads((folder / "config.json").read_text())
    assert (config["task"], config["method"], config["seed"]) == ("turntable/clockwise", "ours", 0)
    assert config["settings"]["sigma"] == turntable.SETTINGS.sigma
    assert config["learner"]["kind"] == "Cloning"
    assert {"python", "numpy", "torch", "mujoco"} <= config["versions"].keys()
    assert result == json.loads((folder / "result.json").read_text())
    assert len(result["returns"]) == 100
    assert sum(result["share_by_source"].values()) == pytest.approx(1.0, abs=1e-3)
    assert result["effective_demonstrations"] > 1
    for point in RunFolder(folder).curve():
        assert set(point) == {"steps", "mean_return", "returns", "diverged", "diagnostics"}


def test_a_folder_with_a_run_is_not_touched_without_being_told(demos: Path, tmp_path: Path) -> None:
    perform(turntable.task(), OURS, seed=0, folder=tmp_path, demos=demos)
    before = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}
    with pytest.raises(ImitableError, match=r"already has a finished run; give --resume .* or --overwrite"):
        perform(turntable.task(), OURS, seed=0, folder=tmp_path, demos=demos)
    assert {name: (tmp_path / name).read_bytes() for name in files(tmp_path)} == before


def test_demonstrations_that_do_not_fit_leave_the_folder_as_it_was(demos: Path, tmp_path: Path) -> None:
    perform(turntable.task(), OURS, seed=0, folder=tmp_path / "run", demos=demos)
    before = {name: (tmp_path / "run" / name).read_bytes() for name in files(tmp_path / "run")}
    Demonstrations(np.zeros((3, 9)), [2], [0.0]).save(tmp_path / "wide.npz")
    for folder in ("run", "fresh"):
        with pytest.raises(ImitableError, match="9 observation columns, but the target has 4"):
            perform(turntable.task(), OURS, seed=0, folder=tmp_path / folder, demos=tmp_path / "wide.npz", overwrite=folder == "run")
    assert {name: (tmp_path / "run" / name).read_bytes() for name in files(tmp_path / "run")} == before
    assert not (tmp_path / "fresh").exists()


def test_other_code_does_not_go_on_with_a_run_but_may_read_a_finished_one(
    demos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = perform(turntable.task(), OURS, seed=0, folder=tmp_path, demos=demos)
    monkeypatch.setattr("imitable.runs.all_code", lambda: "other")
    assert perform(turntable.task(), OURS, seed=0, folder=tmp_path, demos=demos, resume=True) == first
    (tmp_path / "result.json").unlink()
    with pytest.raises(ImitableError, match="was started with sha256 of code"):
        perform(turntable.task(), OURS, seed=0, folder=tmp_path, demos=demos, resume=True)


def test_overwriting_starts_anew(demos: Path, tmp_path: Path) -> None:
    first = perform(turntable.task(), OURS, seed=0, folder=tmp_path, demos=demos)
    second = perform(turntable.task(), METHODS["none"], seed=1, folder=tmp_path, demos=demos, overwrite=True)
    assert first["mean_return"] != second["mean_return"]
    assert json.loads((tmp_path / "config.json").read_text())["method"] == "none"
    assert len(RunFolder(tmp_path).curve()) == 3


def test_resuming_a_finished_run_gives_its_result_and_does_nothing(demos: Path, tmp_path: Path) -> None:
    first = perform(turntable.task(), OURS, seed=0, folder=tmp_path, demos=demos)
    stamp = (tmp_path / "policy.safetensors").stat().st_mtime_ns
    assert perform(turntable.task(), OURS, seed=0, folder=tmp_path, demos=demos, resume=True) == first
    assert (tmp_path / "policy.safetensors").stat().st_mtime_ns == stamp


def test_resuming_where_nothing_is_starts_a_run(demos: Path, tmp_path: Path) -> None:
    assert perform(turntable.task(), OURS, seed=0, folder=tmp_path / "new", demos=demos, resume=True)["steps"] == 60


class Interrupt:
    """Press Ctrl-C once a run has so many checkpoints; at none, while it is still being posed."""

    def __init__(self, folder: Path, *, at: int) -> None:
        self.folder, self.at = RunFolder(folder), at

    def __call__(self, share: float) -> None:
        assert 0 <= share <= 1
        if len(self.folder.curve()) == self.at:
            raise KeyboardInterrupt


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_interrupted_run_resumes_to_the_same_curve(task: Task, demos: Path, tmp_path: Path, at: int) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    perform(task, OURS, seed=0, folder=whole, demos=demos)
    with pytest.raises(KeyboardInterrupt):
        perform(task, OURS, seed=0, folder=cut, demos=demos, watch=Interrupt(cut, at=at))
    assert not (cut / "result.json").exists()
    assert len(RunFolder(cut).curve()) == at
    with pytest.raises(ImitableError, match="already has an interrupted run"):
        perform(task, OURS, seed=0, folder=cut, demos=demos)
    resumed = perform(task, OURS, seed=0, folder=cut, demos=demos, resume=True)
    for name in ("curve.json", "policy.safetensors", "scores.parquet", "config.json"):
        assert (cut / name).read_bytes() == (whole / name).read_bytes(), name
    original = json.loads((whole / "result.json").read_text())
    assert {**resumed, "seconds": 0} == {**original, "seconds": 0}
    assert files(cut) == files(whole)


def test_a_run_interrupted_between_two_writes_resumes_to_the_same_curve(
    task: Task, demos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import imitable.files

    whole, cut = tmp_path / "whole", tmp_path / "cut"
    perform(task, OURS, seed=0, folder=whole, demos=demos)
    write, writes = imitable.files.write_atomically, []

    def stumble(path: Path, content: bytes) -> None:
        writes.append(path)
        if path.name == "snapshot.npz" and sum(each.name == "snapshot.npz" for each in writes) == 2:
            raise KeyboardInterrupt
        write(path, content)

    monkeypatch.setattr(imitable.files, "write_atomically", stumble)
    with pytest.raises(KeyboardInterrupt):
        perform(task, OURS, seed=0, folder=cut, demos=demos)
    monkeypatch.undo()
    assert len(RunFolder(cut).curve()) == 2, "the curve should be ahead of the snapshot"
    perform(task, OURS, seed=0, folder=cut, demos=demos, resume=True)
    assert (cut / "curve.json").read_bytes() == (whole / "curve.json").read_bytes()
    assert (cut / "policy.safetensors").read_bytes() == (whole / "policy.safetensors").read_bytes()


def interrupted(folder: Path, demos: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        perform(turntable.task(), OURS, seed=0, folder=folder, demos=demos, watch=Interrupt(folder, at=1))


def test_resuming_with_other_settings_is_refused_by_name(demos: Path, tmp_path: Path) -> None:
    interrupted(tmp_path, demos)
    with pytest.raises(ImitableError, match=r"was started with seed 0 \(now 1\)"):
        perform(turntable.task(), OURS, seed=1, folder=tmp_path, demos=demos, resume=True)
    with pytest.raises(ImitableError, match=r"method 'ours' \(now 'none'\)"):
        perform(turntable.task(), METHODS["none"], seed=0, folder=tmp_path, demos=demos, resume=True)
    other = turntable.task(settings=dataclasses.replace(turntable.SETTINGS, sigma=11.0))
    with pytest.raises(ImitableError, match="sigma"):
        perform(other, OURS, seed=0, folder=tmp_path, demos=demos, resume=True)


def test_resuming_with_other_demonstrations_is_refused(demos: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.npz"
    mine.write_bytes(demos.read_bytes())
    interrupted(tmp_path / "run", mine)
    gather(turntable.task(), seed=1, count=30).save(mine)
    with pytest.raises(ImitableError, match=r"mine\.npz|demonstrations"):
        perform(turntable.task(), OURS, seed=0, folder=tmp_path / "run", demos=mine, resume=True)


@pytest.mark.parametrize("name", ["config.json", "curve.json", "snapshot.npz"])
def test_a_damaged_file_of_an_interrupted_run_is_named_with_the_way_out(demos: Path, tmp_path: Path, name: str) -> None:
    interrupted(tmp_path, demos)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(ImitableError, match=rf"(?s){name}.*--overwrite"):
        perform(turntable.task(), OURS, seed=0, folder=tmp_path, demos=demos, resume=True)


def test_a_file_in_the_way_of_the_folder_is_named(demos: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(ImitableError, match="taken is a file; give a folder"):
        perform(turntable.task(), OURS, seed=0, folder=tmp_path / "taken", demos=demos)
    assert (tmp_path / "taken").read_text() == "mine"


def test_bad_demonstrations_leave_no_folder_behind(tmp_path: Path) -> None:
    (tmp_path / "bad.npz").write_bytes(b"nothing")
    with pytest.raises(ImitableError, match=r"bad\.npz"):
        perform(turntable.task(), OURS, seed=0, folder=tmp_path / "run", demos=tmp_path / "bad.npz")
    assert not (tmp_path / "run").exists()


def test_overwriting_with_bad_demonstrations_keeps_the_old_run(demos: Path, tmp_path: Path) -> None:
    perform(turntable.task(), OURS, seed=0, folder=tmp_path / "run", demos=demos)
    (tmp_path / "bad.npz").write_bytes(b"nothing")
    with pytest.raises(ImitableError, match=r"bad\.npz"):
        perform(turntable.task(), OURS, seed=0, folder=tmp_path / "run", demos=tmp_path / "bad.npz", overwrite=True)
    assert (tmp_path / "run" / "result.json").exists()


def test_one_demonstration_makes_a_run(tmp_path: Path) -> None:
    turntable.demonstrations(count=1).save(tmp_path / "one.npz")
    result = perform(turntable.task(), OURS, seed=0, folder=tmp_path / "run", demos=tmp_path / "one.npz")
    assert result["effective_demonstrations"] == pytest.approx(1.0)
    assert result["share_by_source"] == {}


@pytest.mark.parametrize(
    ("learner", "count"),
    [(turntable.TINY_CLONING, count) for count in ("updates", "checkpoint_every")]
    + [(turntable.TINY_GAIL, count) for count in ("rounds", "checkpoint_every")],
)
def test_a_learner_that_would_never_show_a_policy_is_refused_at_birth(learner, count: str) -> None:
    with pytest.raises(ImitableError, match=rf"{type(learner).__name__}\.{count} is 0"):
        dataclasses.replace(learner, **{count: 0})


# Scorecards


def test_a_scorecard_has_one_row_per_demonstration_with_every_score(tmp_path: Path) -> None:
    given = turntable.mixed()
    problem = turntable.posed(given)
    card = scorecard(given, problem)
    assert set(card) >= {"source", "length", "return", "distance", "feasibility", "rectified_return", "optimality", "weight"}
    assert all(len(column) == 12 for column in card.values())
    assert card["source"].tolist() == list(given.sources or ())
    assert np.array_equal(card["weight"], card["feasibility"] * card["optimality"])
    assert np.array_equal(scorecard(given, problem, np.full(12, 0.25))["weight"], np.full(12, 0.25))
    save_scorecard(card, tmp_path / "scores.parquet")
    loaded = load_scorecard(tmp_path / "scores.parquet")
    assert list(loaded) == list(card)
    assert all(loaded[name].tolist() == card[name].tolist() for name in card)


def test_demonstrations_without_sources_are_of_unknown_source() -> None:
    problem = turntable.posed()
    assert set(scorecard(problem.demonstrations, problem)["source"]) == {"unknown"}


def test_a_file_that_is_no_scorecard_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"nothing")
    for name in ("bad.parquet", "absent.parquet"):
        with pytest.raises(ImitableError, match=name):
            load_scorecard(tmp_path / name)


# Settings by name


def test_methods_that_are_gail_underneath_build_on_the_tasks() -> None:
    mine = Gail(rounds=5)
    for method in ("2iwil", "ic-gail"):
        learner = METHODS[method].learner
        assert learner(TASKS["swimmer/back-disabled"]).gail is SWIMMER_GAIL  # type: ignore[attr-defined]
        assert learner(dataclasses.replace(TASKS["reacher/clockwise"], learner=mine)).gail is mine  # type: ignore[attr-defined]
        assert learner(TASKS["driving/slow"]).gail == Gail()  # type: ignore[attr-defined]


def test_settings_and_hyper_parameters_can_be_replaced_by_name() -> None:
    registered = TASKS["reacher/clockwise"]
    before = registered.settings.sigma
    task = adjusted(registered, ["sigma=20", "fit.epochs=3", "rounds=7", "trpo.batch=100", "trpo.hidden=8,9"])
    assert task.settings.sigma == 20.0
    assert task.settings.fit.epochs == 3
    assert task.learner.rounds == 7  # type: ignore[attr-defined]
    assert task.learner.trpo.batch == 100  # type: ignore[attr-defined]
    assert task.learner.trpo.hidden == (8, 9)  # type: ignore[attr-defined]
    assert TASKS["reacher/clockwise"].settings.sigma == before != 20.0
    for text, aimed in (("fit.aimed=1,2", (1, 2)), ("fit.aimed=", ())):
        assert adjusted(TASKS["swimmer/back-disabled"], [text]).settings.fit.aimed == aimed  # type: ignore[attr-defined]
    assert adjusted(TASKS["driving/slow"], []) == TASKS["driving/slow"]


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("sigma", "'sigma' is not of the form name=value"),
        ("sigmo=3", "unknown setting 'sigmo' of driving/slow with Cloning; did you mean sigma"),
        ("sigma=wide", "sigma='wide' is not a float; it is now"),
        ("updates=2.5", "updates='2.5' is not a int"),
        ("fit.epoch=2", "unknown setting 'epoch'; did you mean epochs"),
        ("fit.epochs.more=2", r"cannot set epochs\.more=2; set epochs"),
        ("fit=3", "fit"),
        ("hidden=8,x", "hidden='8,x' is not a tuple"),
    ],
)
def test_settings_that_cannot_be_replaced_are_refused(assignment: str, message: str) -> None:
    with pytest.raises(ImitableError, match=message):
        adjusted(TASKS["driving/slow"], [assignment])


@pytest.mark.parametrize(
    ("learner", "names"),
    [
        (Cloning, ["hidden"]),
        (Gail, ["discriminator_hidden"]),
        (Trpo, ["hidden"]),
        (Classifier, ["hidden"]),
        (Sail, ["policy_hidden", "value_hidden", "critic_hidden", "remainder_hidden"]),
    ],
)
def test_layers_without_units_are_refused_before_anything_runs(learner: Any, names: list[str]) -> None:
    for name in names:
        with pytest.raises(ImitableError, match=rf"{name} is \(8, 0\); it must be widths of at least 1"):
            learner(**{name: (8, 0)})


def test_a_setting_that_is_true_or_false_is_read_as_such() -> None:
    task, _ = prepared(TASKS["driving/slow"], METHODS["2iwil"], ["classifier.couples_samples=False"])
    assert task.learner.classifier.couples_samples is False
    with pytest.raises(ImitableError, match="couples_samples='perhaps' is not a bool; it is now True"):
        prepared(TASKS["driving/slow"], METHODS["2iwil"], ["classifier.couples_samples=perhaps"])


def test_a_run_does_not_go_on_with_other_demonstrators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    perform(turntable.task(), OURS, seed=0, folder=tmp_path / "run")
    monkeypatch.setattr("imitable.runs.own_files", lambda: "of another day")
    with pytest.raises(ImitableError, match=r"was started with sha256 of demonstrators .* \(now 'of another day'\)"):
        perform(turntable.task(), OURS, seed=0, folder=tmp_path / "run", resume=True)


def test_what_differs_is_said_down_to_single_numbers(tmp_path: Path) -> None:
    task = turntable.task()
    perform(task, OURS, seed=0, folder=tmp_path / "run")
    other = replace(task, settings=replace(task.settings, fit=replace(task.settings.fit, epochs=7)))
    with pytest.raises(ImitableError, match=r"was started with settings\.fit\.epochs \d+ \(now 7\);"):
        perform(other, OURS, seed=0, folder=tmp_path / "run", resume=True)


def test_saved_demonstrations_of_the_task_and_collected_ones_run_alike(tmp_path: Path) -> None:
    gather(turntable.task(), seed=0).save(tmp_path / "demos.npz")
    assert len(Demonstrations.load(tmp_path / "demos.npz")) == 1000
    collected = perform(turntable.task(), OURS, seed=0, folder=tmp_path / "collected")
    loaded = perform(turntable.task(), OURS, seed=0, folder=tmp_path / "loaded", demos=tmp_path / "demos.npz")
    assert {**collected, "seconds": 0} == {**loaded, "seconds": 0}


def test_a_run_says_how_many_simulations_broke_down(tmp_path: Path) -> None:
    task = turntable.task(turntable.TINY_GAIL)
    brittle = replace(task, cast=replace(task.cast, target=turntable.BRITTLE), settings=replace(task.settings, noise=0.02))
    with pytest.warns(UserWarning, match="demonstrations are cut short where the simulation broke down"):
        result = perform(brittle, METHODS["none"], seed=0, folder=tmp_path / "run")
    assert set(result["diverged"]) == {"posing", "learning", "measuring"}
    assert result["diverged"]["posing"] > 0
    assert result["diverged"]["learning"] > 0
    assert np.isfinite(result["returns"]).all()


# Every method on every task

BRIEF = {
    Cloning: ["updates=5"],
    Gail: ["rounds=2", "trpo.batch=50"],
    TwoIwil: ["rounds=2", "trpo.batch=50", "classifier.iterations=5"],
    IcGail: ["rounds=2", "trpo.batch=50"],
    Sail: ["iterations=2", "frozen=1", "batch=50", "foresight_updates=5", "pretraining_updates=5", "passes=1", "refreshing_steps=5"],
}
LENIENT = ["exploration=10", "fit.epochs=1", "noise=0.3", "sigma=1000"]  # so that a hasty f_id rejects nothing


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if task.target.horizon > 500 else []) for name, task in TASKS.items()]
)
def test_every_method_runs_on_every_task(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("imitable.runs.learn", partial(learn, episodes=2))
    demos = tmp_path / "demos.npz"
    gather(TASKS[name], seed=0, count=120 if TASKS[name].target.horizon > 500 else 40).save(demos)
    for method in METHODS.values():
        kind = type(method.learner(TASKS[name]))
        task, chosen = prepared(TASKS[name], method, LENIENT + BRIEF[kind])
        result = perform(task, chosen, seed=0, folder=tmp_path / method.name, demos=demos)
        assert np.isfinite(result["mean_return"]), method.name
        assert Policy.load(tmp_path / method.name / "policy.safetensors")(np.zeros((1, len(task.target.observed)))).shape[0] == 1


# What was made before


def test_demonstrations_are_kept_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMITABLE_CACHE", str(tmp_path / "cache"))
    task = TASKS["driving/fast"]
    made = kept_or_gathered(task, seed=0, count=10)
    (kept,) = (tmp_path / "cache").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr("imitable.kept.gather", lambda *_, **__: pytest.fail("collected again"))
        again = kept_or_gathered(task, seed=0, count=10)
    assert again.states.tobytes() == made.states.tobytes()
    assert again.sources == made.sources
    for options in ({"seed": 1, "count": 10}, {"seed": 0, "count": 11}, {"seed": 0, "count": 10, "composition": "released"}):
        kept_or_gathered(task, **options)
    assert len(list((tmp_path / "cache").iterdir())) == 4
    kept.write_bytes(b"damaged")
    assert kept_or_gathered(task, seed=0, count=10).states.tobytes() == made.states.tobytes()


def test_posed_problems_are_kept_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMITABLE_CACHE", str(tmp_path / "cache"))
    task = adjusted(TASKS["driving/fast"], ["exploration=10", "fit.epochs=1"])
    demonstrations = gather(task, seed=0, count=10)
    made = kept_or_posed(demonstrations, task, seed=0)
    (kept,) = (tmp_path / "cache").iterdir()
    with monkeypatch.context() as patch:
        patch.setattr("imitable.kept.pose", lambda *_, **__: pytest.fail("posed again"))
        again = kept_or_posed(demonstrations, task, seed=0)
    assert (again.tolerance, again.diverged, again.settings) == (made.tolerance, made.diverged, made.settings)
    assert again.demonstrations.sources is None
    for one, other in (
        (again.replay.states, made.replay.states),
        (again.replay.distances, made.replay.distances),
        (again.own_distances, made.own_distances),
        (again.step_scale, made.step_scale),
        (again.inverse_dynamics(*demonstrations.states[:2, None]), made.inverse_dynamics(*demonstrations.states[:2, None])),
    ):
        assert one.tobytes() == other.tobytes()
    kept_or_posed(demonstrations, task, seed=1)
    kept_or_posed(demonstrations, adjusted(task, ["noise=0.002"]), seed=0)
    kept_or_posed(gather(task, seed=0, count=11), task, seed=0)
    kept_or_posed(replace(demonstrations, returns=-demonstrations.returns), task, seed=0)
    assert len(list((tmp_path / "cache").iterdir())) == 5
    gentler = kept_or_posed(demonstrations, adjusted(task, ["sigma=20", "radius=0.2"]), seed=0)
    assert (gentler.settings.sigma, gentler.settings.radius) == (20.0, 0.2)
    assert len(list((tmp_path / "cache").iterdir())) == 5, "sigma and radius come after posing"
    kept.write_bytes(b"damaged")
    assert kept_or_posed(demonstrations, task, seed=0).tolerance == made.tolerance


def test_a_problem_with_a_fit_of_ones_own_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMITABLE_CACHE", str(tmp_path / "cache"))

    class OwnFit(InverseDynamicsFit):
        pass

    task = TASKS["driving/fast"]
    own = replace(task, settings=replace(task.settings, exploration=10, fit=OwnFit(epochs=1)))
    kept_or_posed(gather(task, seed=0, count=5), own, seed=0)
    assert not (tmp_path / "cache").exists()


def test_a_problem_of_an_unregistered_task_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMITABLE_CACHE", str(tmp_path / "cache"))
    task = turntable.task()
    kept_or_posed(gather(task, seed=0, count=5), task, seed=0)
    assert not (tmp_path / "cache").exists()


def test_demonstrations_of_an_unregistered_task_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMITABLE_CACHE", str(tmp_path / "cache"))
    kept_or_gathered(turntable.task(), seed=0, count=5)
    renamed = replace(turntable.task(), name="driving/fast")
    assert kept_or_gathered(renamed, seed=0, count=5).width == 4
    assert not (tmp_path / "cache").exists()


def test_a_cache_that_cannot_be_written_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("IMITABLE_CACHE", str(tmp_path / "file"))
    assert len(kept_or_gathered(TASKS["driving/fast"], seed=0, count=5)) == 5
