"""Runs of a method on a task, in memory and on disk: the same seed, the same bytes, interrupted or not."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import imitable
import tiny
import turntable
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.formats import npz
from imitable.learners import Cloning, Gail, IcGail, Sail, TwoIwil
from imitable.networks import Policy
from imitable.paper import TASK_NAMES
from imitable.paper.methods import METHODS, find_method
from imitable.paper.run import Experiment, collected, run, run_in_folder
from imitable.paper.tasks import find_task
from imitable.scores import RectifiedOptimality, ReplayFeasibility
from imitable.store.cache import Cache
from imitable.store.files import read_table
from imitable.store.runs import RunFolder

OURS, NONE = METHODS["ours"], METHODS["none"]
Write = Callable[[str, str], None]


def cloning(method=OURS, **options: Any) -> Experiment:
    return Experiment.of(turntable.task(), method, **options)


@pytest.fixture(params=["gail", "cloning"])
def experiment(request: pytest.FixtureRequest) -> Experiment:
    return cloning(learner=request.param)


@pytest.fixture(scope="module")
def demonstrations() -> Demonstrations:
    return collected(turntable.task(), seed=0, count=30)


def files(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.iterdir()}


# Any learner with any method


def test_a_method_takes_the_tasks_learner_or_the_one_asked_for() -> None:
    assert cloning().learner is turntable.TINY_CLONING
    assert cloning(learner="gail").learner is turntable.TINY_GAIL
    assert cloning(METHODS["2iwil"]).learner == TwoIwil(gail=turntable.TINY_GAIL)
    assert cloning(METHODS["2iwil"], learner="2iwil").learner == TwoIwil(gail=turntable.TINY_GAIL)


@pytest.mark.parametrize("method", ["sail", "2iwil", "ic-gail"])
def test_a_method_with_a_learner_of_its_own_refuses_another(method: str) -> None:
    with pytest.raises(ImitableError, match=f"method {method} is a learner of its own, {method}; leave out --learner gail"):
        cloning(METHODS[method], learner="gail")


@pytest.mark.parametrize("method", [method for method in METHODS.values() if method.learner is None], ids=lambda method: method.name)
def test_any_learner_goes_with_any_method(method, demonstrations: Demonstrations) -> None:
    weights = set()
    for learner in ("gail", "cloning"):
        result = cloning(method, learner=learner).run(seed=0, demonstrations=demonstrations)
        assert np.isfinite(result.mean_return)
        assert type(result.curve[-1].checkpoint.snapshot).__name__ == "dict"
        weights.add(result.weights.tobytes())
    assert len(weights) == 1, "weights do not depend on who learns"


def test_a_users_own_learner_runs(write_module: Write, demonstrations: Demonstrations) -> None:
    write_module("own_learner", "import turntable\nPATIENT = turntable.TINY_CLONING\n")
    one = cloning(learner="own_learner:PATIENT").run(seed=0, demonstrations=demonstrations)
    assert one.mean_return == cloning().run(seed=0, demonstrations=demonstrations).mean_return


def test_a_users_own_inverse_dynamics_is_taken(write_module: Write) -> None:
    write_module("own_inverse", "import turntable\nclass Mine(turntable.ExactModel):\n    pass\nNUMBER = 3\n")
    assert type(cloning(inverse="own_inverse:Mine").task.model).__name__ == "Mine"
    assert cloning(inverse="learned").task.model == imitable.Learned()
    with pytest.raises(ImitableError, match="inverse dynamics 'own_inverse:NUMBER' is a int, which has no fit and no restored"):
        cloning(inverse="own_inverse:NUMBER")
    with pytest.raises(ImitableError, match="unknown inverse dynamics 'lerned'; did you mean learned"):
        cloning(inverse="lerned")


def test_overrides_reach_the_score_and_the_learner() -> None:
    changed = cloning(overrides=["sigma=3", "delta_s=0.5", "updates=7"])
    feasibility, optimality = changed.score.factors  # type: ignore[attr-defined]
    assert (feasibility.delta_s, optimality.sigma, optimality.feasibility.delta_s) == (0.5, 3.0, 0.5)
    assert changed.learner.updates == 7  # type: ignore[attr-defined]


def test_parameters_of_a_users_own_score_are_set_by_name(write_module: Write) -> None:
    write_module("own_score", "from imitable.scores import NaiveOptimality\nMINE = NaiveOptimality(sigma=2.0)\n")
    mine = find_method("own_score:MINE")
    assert cloning(mine).score.sigma == 2.0  # type: ignore[attr-defined]
    assert cloning(mine, overrides=["score.sigma=5", "updates=7"]).score.sigma == 5.0  # type: ignore[attr-defined]
    with pytest.raises(ImitableError, match=r"unknown setting 'sigm'; did you mean sigma"):
        cloning(mine, overrides=["score.sigm=5"])


# In memory


def test_a_run_is_the_whole_path_of_the_data() -> None:
    result = run(turntable.task(), OURS, seed=0)
    assert result.weights.shape == (1000,)
    assert len(result.curve) == 3
    assert result.summary["share_by_source"].keys() == {"optimal", "suboptimal", "other-dynamics"}
    other = run(turntable.task(), OURS, seed=0, learner="gail")
    assert np.array_equal(other.weights, result.weights)
    assert other.mean_return != result.mean_return


@pytest.mark.parametrize("method", ["none", "2iwil", "ic-gail"])
def test_methods_without_feasibility_ask_for_no_replay(method: str, demonstrations: Demonstrations, tmp_path: Path) -> None:
    task = replace(
        turntable.task(), learners={"gail": turntable.TINY_GAIL, "2iwil": tiny.TWO_IWIL, "ic-gail": tiny.IC_GAIL}, learner="gail"
    )
    cache = Cache(tmp_path)
    Experiment.of(task, METHODS[method]).run(seed=0, demonstrations=demonstrations, cache=cache)
    assert not cache.entries()
    Experiment.of(task, OURS).run(seed=0, demonstrations=demonstrations, cache=cache)
    assert {entry.part for entry in cache.entries()} == {"inverse dynamics", "replay", "own replay"}


# On disk


def test_a_run_on_disk_equals_the_run_in_memory(experiment: Experiment, tmp_path: Path) -> None:
    result = run_in_folder(experiment, tmp_path / "run", seed=0)
    expected = experiment.run(seed=0)
    assert result["mean_return"] == expected.mean_return
    policy = Policy.load(tmp_path / "run" / "policy.safetensors")
    assert tiny.everything(policy) == tiny.everything(expected.curve[-1].checkpoint.policy)
    curve = RunFolder(tmp_path / "run").curve()
    assert [each["mean_return"] for each in curve] == [each.returns.mean() for each in expected.curve]
    assert [each["steps"] for each in curve] == [each.checkpoint.steps for each in expected.curve]
    assert np.array_equal(read_table(tmp_path / "run" / "scores.parquet")["weight"], expected.weights)


def test_a_run_says_all_that_its_numbers_depend_on(demonstrations: Demonstrations, tmp_path: Path) -> None:
    result = run_in_folder(cloning(), tmp_path, seed=0, demonstrations=demonstrations)
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["task"], config["method"], config["seed"]) == ("turntable/clockwise", "ours", 0)
    assert config["sha256 of demonstrations"] == demonstrations.digest
    assert config["score"]["factors"][1]["sigma"] == turntable.OPTIMALITY.sigma
    assert config["learner"]["updates"] == 60
    assert config["learner"]["kind"] == "imitable.learners.cloning.Cloning"
    assert config["robot"]["slowest"] == -2.0
    assert config["exploration"]["episodes"] == 20
    assert config["versions"].keys() == {"python", "numpy", "scipy", "torch", "mujoco", "assess", "learn"}
    assert result == json.loads((tmp_path / "result.json").read_text())
    assert len(result["returns"]) == 100
    assert sum(result["share_by_source"].values()) == pytest.approx(1.0, abs=1e-3)
    assert result["effective_demonstrations"] > 1
    own = cloning().config(seed=0)
    assert own["demonstrators"]["mixture"]["optimal"] == 0.3
    assert own["composition"] == "paper"


def test_what_cannot_be_described_does_not_stop_a_run() -> None:
    task = turntable.task()
    task = replace(task, demonstrators=replace(task.demonstrators, optimal=lambda seen, rng: turntable.turn_to_goal(seen, rng)))
    assert Experiment.of(task, OURS).config(seed=0)["demonstrators"] == "imitable.paper.demonstrators.Demonstrators"


def test_demonstrations_that_do_not_fit_leave_the_folder_as_it_was(demonstrations: Demonstrations, tmp_path: Path) -> None:
    run_in_folder(cloning(), tmp_path / "run", seed=0, demonstrations=demonstrations)
    before = files(tmp_path / "run")
    wide = Demonstrations(np.zeros((3, 9)), [2], [0.0])
    for folder in ("run", "fresh"):
        with pytest.raises(ImitableError, match="9 observation columns, but the robot has 4"):
            run_in_folder(cloning(), tmp_path / folder, seed=0, demonstrations=wide, overwrite=folder == "run")
    assert files(tmp_path / "run") == before
    assert not (tmp_path / "fresh").exists()


def test_a_composition_is_of_the_tasks_own_demonstrations(demonstrations: Demonstrations, tmp_path: Path) -> None:
    with pytest.raises(ImitableError, match="composition 'released' mixes the task's own demonstrations; leave it out"):
        run_in_folder(cloning(composition="released"), tmp_path / "run", seed=0, demonstrations=demonstrations)
    assert not (tmp_path / "run").exists()


def test_overwriting_starts_anew(demonstrations: Demonstrations, tmp_path: Path) -> None:
    first = run_in_folder(cloning(), tmp_path, seed=0, demonstrations=demonstrations)
    with pytest.raises(ImitableError, match="already has a finished run"):
        run_in_folder(cloning(NONE), tmp_path, seed=1, demonstrations=demonstrations)
    second = run_in_folder(cloning(NONE), tmp_path, seed=1, demonstrations=demonstrations, overwrite=True)
    assert first["mean_return"] != second["mean_return"]
    assert json.loads((tmp_path / "config.json").read_text())["method"] == "none"
    assert len(RunFolder(tmp_path).curve()) == 3


def test_resuming_a_finished_run_gives_its_result_and_does_nothing(demonstrations: Demonstrations, tmp_path: Path) -> None:
    first = run_in_folder(cloning(), tmp_path, seed=0, demonstrations=demonstrations)
    stamp = (tmp_path / "policy.safetensors").stat().st_mtime_ns
    assert run_in_folder(cloning(), tmp_path, seed=0, demonstrations=demonstrations, resume=True) == first
    assert (tmp_path / "policy.safetensors").stat().st_mtime_ns == stamp


def test_resuming_where_nothing_is_starts_a_run(demonstrations: Demonstrations, tmp_path: Path) -> None:
    assert run_in_folder(cloning(), tmp_path / "new", seed=0, demonstrations=demonstrations, resume=True)["steps"] == 60


class Interrupt:
    """Press Ctrl-C once a run has so many checkpoints; at none, while it is still being assessed."""

    def __init__(self, folder: Path, *, at: int) -> None:
        self.folder, self.at = RunFolder(folder), at

    def __call__(self, fraction: float) -> None:
        assert 0 <= fraction <= 1
        if len(self.folder.curve()) == self.at:
            raise KeyboardInterrupt


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_interrupted_run_resumes_to_the_same_curve(
    experiment: Experiment, demonstrations: Demonstrations, tmp_path: Path, at: int
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    go = partial(run_in_folder, experiment, seed=0, demonstrations=demonstrations)
    original = go(whole)
    with pytest.raises(KeyboardInterrupt):
        go(cut, progress=Interrupt(cut, at=at))
    assert not (cut / "result.json").exists()
    assert len(RunFolder(cut).curve()) == at
    with pytest.raises(ImitableError, match="already has an interrupted run"):
        go(cut)
    resumed = go(cut, resume=True)
    for name in ("curve.json", "policy.safetensors", "scores.parquet", "config.json"):
        assert files(cut)[name] == files(whole)[name], name
    assert {**resumed, "seconds": 0} == {**original, "seconds": 0}
    assert files(cut).keys() == files(whole).keys()


def test_a_run_interrupted_between_two_writes_resumes_to_the_same_curve(
    experiment: Experiment, demonstrations: Demonstrations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    go = partial(run_in_folder, experiment, seed=0, demonstrations=demonstrations)
    go(whole)
    replace, replaced = Path.replace, []

    def stumble(partial: Path, path: Path) -> Path:
        replaced.append(path.name)
        if replaced.count("snapshot.npz") == 2:
            raise KeyboardInterrupt
        return replace(partial, path)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", stumble)
        with pytest.raises(KeyboardInterrupt):
            go(cut)
    assert len(RunFolder(cut).curve()) == 2, "the curve should be ahead of the snapshot"
    go(cut, resume=True)
    for name in ("curve.json", "policy.safetensors"):
        assert files(cut)[name] == files(whole)[name], name


# Other settings


@pytest.fixture
def interrupted(demonstrations: Demonstrations, tmp_path: Path) -> Path:
    folder = tmp_path / "interrupted"
    with pytest.raises(KeyboardInterrupt):
        run_in_folder(cloning(), folder, seed=0, demonstrations=demonstrations, progress=Interrupt(folder, at=1))
    return folder


def test_resuming_with_other_settings_is_refused_by_name(interrupted: Path, demonstrations: Demonstrations) -> None:
    go = partial(run_in_folder, folder=interrupted, demonstrations=demonstrations, resume=True)
    with pytest.raises(ImitableError, match=r"was started with seed 0 \(now 1\)"):
        go(cloning(), seed=1)
    with pytest.raises(ImitableError, match=r"method 'ours' \(now 'none'\)"):
        go(cloning(NONE), seed=0)
    with pytest.raises(ImitableError, match=r"score\.factors .*10\.0.* \(now .*11\.0"):
        go(cloning(overrides=["sigma=11"]), seed=0)
    with pytest.raises(ImitableError, match=r"learner\.updates 60 \(now 61\)"):
        go(cloning(overrides=["updates=61"]), seed=0)
    with pytest.raises(ImitableError, match=r"exploration\.episodes 20 \(now 21\)"):
        go(cloning(overrides=["episodes=21"]), seed=0)


def test_resuming_with_other_demonstrations_is_refused(interrupted: Path) -> None:
    others = collected(turntable.task(), seed=1, count=30)
    with pytest.raises(ImitableError, match="was started with sha256 of demonstrations"):
        run_in_folder(cloning(), interrupted, seed=0, demonstrations=others, resume=True)
    with pytest.raises(ImitableError, match="was started with a file of demonstrations and is now given none"):
        run_in_folder(cloning(), interrupted, seed=0, resume=True)


@pytest.mark.parametrize(("constant", "name"), [("LEARN_VERSION", "learn"), ("ASSESS_VERSION", "assess")])
def test_a_stage_of_another_version_does_not_go_on_with_a_run_but_may_read_a_finished_one(
    interrupted: Path, demonstrations: Demonstrations, monkeypatch: pytest.MonkeyPatch, constant: str, name: str
) -> None:
    go = partial(run_in_folder, cloning(), interrupted, seed=0, demonstrations=demonstrations, resume=True)
    with monkeypatch.context() as patch:
        patch.setattr(f"imitable.paper.run.{constant}", 99)
        with pytest.raises(ImitableError, match=rf"was started with versions\.{name} \d+ \(now 99\)"):
            go()
    finished = go()
    monkeypatch.setattr(f"imitable.paper.run.{constant}", 99)
    assert go() == finished


def test_a_run_does_not_go_on_with_other_demonstrators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_in_folder(cloning(), tmp_path / "run", seed=0)
    task = turntable.task()
    other = replace(task, demonstrators=replace(task.demonstrators, suboptimal=turntable.turn_to_goal))
    with pytest.raises(
        ImitableError, match=r"was started with demonstrators\.suboptimal\.kind 'turntable\.wander' \(now 'turntable\.turn_to_goal'\)"
    ):
        run_in_folder(Experiment.of(other, OURS), tmp_path / "run", seed=0, resume=True)
    monkeypatch.setattr("imitable.paper.run.COLLECT_VERSION", 99)
    with pytest.raises(ImitableError, match=r"was started with collect version \d+ \(now 99\)"):
        run_in_folder(cloning(), tmp_path / "run", seed=0, resume=True)


PROGRAM = """
import json, sys
from pathlib import Path
import imitable
from imitable.paper.methods import METHODS
from imitable.paper.run import Experiment, collected
from imitable.paper.tasks import find_task
from imitable.store.cache import Cache
assert Path(imitable.__file__).is_relative_to(sys.argv[1]), imitable.__file__
collected(find_task("driving/fast"), seed=0, count=3, cache=Cache(Path(sys.argv[2])))
print(json.dumps(Experiment.of(find_task("driving/fast"), METHODS["ours"]).config(seed=0)))
"""


def test_neither_a_comment_nor_a_new_module_changes_what_runs_and_caches_are_known_by(tmp_path: Path) -> None:
    source = tmp_path / "other" / "imitable"
    shutil.copytree(Path(imitable.__file__).parent, source, ignore=shutil.ignore_patterns("__pycache__"))
    for path in source.rglob("*.py"):
        path.write_text(path.read_text() + "\n# a comment\n")
    (source / "paper" / "hopper.py").write_text('"""A new body."""\n')
    cache = Cache(tmp_path / "cache")
    demonstrations = collected(find_task("driving/fast"), seed=0, count=3, cache=cache)
    (kept,) = cache.entries()
    command = [sys.executable, "-c", PROGRAM, str(source.parent), str(cache.folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(source.parent)})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == Experiment.of(find_task("driving/fast"), OURS).config(seed=0)
    assert [entry.path for entry in cache.entries()] == [kept.path], "the demonstrations were made again"
    assert len(demonstrations) == 3


# Demonstrations of the task


def test_saved_demonstrations_of_the_task_and_collected_ones_run_alike(tmp_path: Path) -> None:
    npz.write(collected(turntable.task(), seed=0), tmp_path / "demos.npz")
    given = npz.read(tmp_path / "demos.npz")
    assert len(given) == 1000
    own = run_in_folder(cloning(), tmp_path / "own", seed=0)
    loaded = run_in_folder(cloning(), tmp_path / "loaded", seed=0, demonstrations=given)
    assert {**own, "seconds": 0} == {**loaded, "seconds": 0}


def test_the_composition_is_that_of_the_released_scripts_when_asked_for(tmp_path: Path) -> None:
    run_in_folder(cloning(NONE, composition="released"), tmp_path, seed=0)
    sources = read_table(tmp_path / "scores.parquet")["source"].tolist()
    assert [sources.count(source) for source in ("optimal", "suboptimal", "other-dynamics")] == [300, 200, 500]
    assert json.loads((tmp_path / "config.json").read_text())["composition"] == "released"


def test_one_demonstration_makes_a_run(tmp_path: Path) -> None:
    result = run_in_folder(cloning(), tmp_path, seed=0, demonstrations=turntable.demonstrations(count=1))
    assert result["effective_demonstrations"] == pytest.approx(1.0)
    assert result["share_by_source"] == {}


def test_a_run_says_how_many_simulations_broke_down(tmp_path: Path) -> None:
    task = turntable.task()
    brittle = replace(
        task, demonstrators=replace(task.demonstrators, target=turntable.BRITTLE), feasibility=replace(task.feasibility, delta_s=0.02)
    )
    with pytest.warns(UserWarning, match="demonstrations are cut short where the simulation broke down"):
        result = run_in_folder(Experiment.of(brittle, METHODS["feasibility"], learner="gail"), tmp_path, seed=0)
    assert set(result["diverged"]) == {"assessing", "learning", "evaluating"}
    assert result["diverged"]["assessing"] > 0
    assert result["diverged"]["learning"] > 0
    assert np.isfinite(result["returns"]).all()


# Every method on every task

BRIEF = {
    Cloning: ["updates=5"],
    Gail: ["rounds=2", "trpo.batch_size=50"],
    TwoIwil: ["rounds=2", "trpo.batch_size=50", "classifier.iterations=5"],
    IcGail: ["rounds=2", "trpo.batch_size=50"],
    Sail: [
        *("iterations=2", "frozen_iterations=1", "n_steps=50", "vae_updates=5", "pretraining_updates=5", "n_epochs=1"),
        *("inverse_residual_steps=5", "inverse.epochs=1", "learner.exploration.episodes=10"),
    ],
}
LENIENT = ["exploration.episodes=10", "sigma=1000"]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if find_task(name).robot.horizon > 500 or name.endswith("transfer") else [])
        for name in TASK_NAMES
    ],
)
@pytest.mark.filterwarnings("ignore:the robot reaches only")  # what seven joints show, to a method that trusts everything
def test_every_method_runs_on_every_task(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from imitable.evaluation import measure

    monkeypatch.setattr("imitable.pipeline.measure", partial(measure, episodes=2))
    task = find_task(name)
    demonstrations = collected(task, seed=0, count=120 if task.robot.horizon > 500 else 40)
    cache = Cache(tmp_path / "cache")
    for method in METHODS.values():
        kind = type(task.find_learner(method.learner))
        experiment = Experiment.of(task, method, overrides=LENIENT + BRIEF[kind])
        result = run_in_folder(experiment, tmp_path / method.name, seed=0, demonstrations=demonstrations, cache=cache)
        assert np.isfinite(result["mean_return"]), method.name
        policy = Policy.load(tmp_path / method.name / "policy.safetensors")
        assert policy(np.zeros((1, len(task.robot.observation_names)))).shape[0] == 1


def test_a_task_whose_scores_have_no_numbers_runs(demonstrations: Demonstrations) -> None:
    task = replace(turntable.task(), feasibility=ReplayFeasibility(delta_s=0.01, columns=(0, 1)), optimality=RectifiedOptimality())
    result = Experiment.of(task, OURS).run(seed=0, demonstrations=demonstrations)
    assert result.summary["sigma"] > 0
