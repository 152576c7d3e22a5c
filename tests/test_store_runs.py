"""A run's folder: what is written, what is refused, and what is left alone."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from imitable.errors import ImitableError
from imitable.evaluation import Measurement
from imitable.learners import Checkpoint
from imitable.networks import Mlp, Policy
from imitable.pipeline import Result
from imitable.store.files import read_table
from imitable.store.runs import FILES, LISTED, RunFolder

CONFIG: dict[str, Any] = {"task": "turntable", "seed": 0, "learner": {"updates": 5, "trpo": {"gamma": 0.9}}, "versions": {"learn": 1}}


def measurement(steps: int, *, worth: float = 1.0) -> Measurement:
    network = Mlp((2, 1))
    policy = Policy.fresh(network, center=np.zeros(2), scale=np.ones(2), low=-np.ones(1), high=np.ones(1), rng=np.random.default_rng(steps))
    checkpoint = Checkpoint(policy, steps, 0.5, {"done": np.array(steps)}, {"error": 0.1234567891}, diverged=2)
    return Measurement(checkpoint, np.array([worth, worth + 1 / 3]), diverged=1)


def result(*curve: Measurement) -> Result:
    return Result(np.ones(3), curve, {"sigma": 4.0, "diverged": {"assessing": 7}})


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "deep" / "run")


@pytest.fixture
def interrupted(folder: RunFolder) -> RunFolder:
    """A run with a checkpoint after 10 steps."""
    folder.open(CONFIG, overwrite=False, resume=False)
    folder.save_scores({"weight": np.ones(3)})
    folder.add(measurement(10))
    return folder


@pytest.fixture
def finished(interrupted: RunFolder) -> RunFolder:
    interrupted.add(measurement(20, worth=5.0))
    interrupted.finish(result())
    return interrupted


def contents(folder: RunFolder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.path.iterdir()}


# What is written


def test_an_interrupted_run_has_a_snapshot_and_no_result(interrupted: RunFolder) -> None:
    assert contents(interrupted).keys() == {"config.json", "scores.parquet", "curve.json", "policy.safetensors", "snapshot.npz"}
    assert not interrupted.finished
    assert interrupted.result() is None
    assert interrupted.config() == CONFIG
    assert interrupted.snapshot() == {"done": np.array(10)}
    assert read_table(interrupted.path / "scores.parquet")["weight"].tolist() == [1.0, 1.0, 1.0]


def test_a_finished_run_has_a_result_and_no_snapshot(finished: RunFolder) -> None:
    assert contents(finished).keys() == {
        "config.json",
        "scores.parquet",
        "curve.json",
        "policy.safetensors",
        "manifest.json",
        "result.json",
    }
    assert finished.finished
    found = finished.result()
    assert found is not None
    assert (found["mean_return"], found["steps"]) == (pytest.approx(5 + 1 / 6), 20), "of the last checkpoint"
    assert found["returns"] == [5.0, 5.333333]
    assert found["sigma"] == 4.0
    assert found["diverged"] == {"assessing": 7, "learning": 2, "evaluating": 1}


def test_every_checkpoint_is_a_point_of_the_curve(finished: RunFolder) -> None:
    first, last = finished.curve()
    assert (first["steps"], last["steps"]) == (10, 20)
    assert first["mean_return"] == pytest.approx(1 + 1 / 6)
    assert first["diagnostics"] == {"error": 0.123457}
    assert first["diverged"] == {"learning": 2, "evaluating": 1}


def test_the_policy_is_that_of_the_last_checkpoint(finished: RunFolder) -> None:
    policy = Policy.load(finished.path / "policy.safetensors")
    assert np.array_equal(policy.parameters, measurement(20).checkpoint.policy.parameters)


def test_points_beyond_the_snapshot_are_made_again(interrupted: RunFolder) -> None:
    ahead = measurement(20, worth=3.0)
    interrupted.add(ahead)
    interrupted.add(measurement(20, worth=4.0))
    assert [(point["steps"], point["returns"][0]) for point in interrupted.curve()] == [(10, 1.0), (20, 4.0)]


def test_a_folder_without_a_run_has_nothing_to_tell(folder: RunFolder) -> None:
    assert (folder.config(), folder.result(), folder.snapshot(), folder.curve()) == (None, None, None, [])


# Opening


def test_a_run_is_not_touched_without_being_told(finished: RunFolder) -> None:
    before = contents(finished)
    with pytest.raises(ImitableError, match=r"already has a finished run; give --resume to go on with it or --overwrite to replace it"):
        finished.open(CONFIG, overwrite=False, resume=False)
    assert contents(finished) == before


def test_an_interrupted_run_is_not_touched_either(interrupted: RunFolder) -> None:
    before = contents(interrupted)
    with pytest.raises(ImitableError, match="already has an interrupted run"):
        interrupted.open(CONFIG, overwrite=False, resume=False)
    assert contents(interrupted) == before


def test_resuming_leaves_all_as_it_was(interrupted: RunFolder) -> None:
    before = contents(interrupted)
    interrupted.open(CONFIG, overwrite=False, resume=True)
    assert contents(interrupted) == before


def test_overwriting_clears_the_folder(finished: RunFolder) -> None:
    (finished.path / "notes.txt").write_text("mine")
    finished.open({**CONFIG, "seed": 1}, overwrite=True, resume=False)
    assert contents(finished).keys() == {"config.json", "notes.txt"}
    assert finished.config() == {**CONFIG, "seed": 1}


def test_overwriting_and_resuming_exclude_each_other(finished: RunFolder) -> None:
    with pytest.raises(ImitableError, match="--overwrite and --resume exclude each other; give one of them"):
        finished.open(CONFIG, overwrite=True, resume=True)


def test_a_file_in_the_way_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(ImitableError, match="taken is a file; give a folder"):
        RunFolder(tmp_path / "taken").open(CONFIG, overwrite=False, resume=False)
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.parametrize("name", FILES)
def test_files_that_belong_to_no_run_are_not_replaced(folder: RunFolder, name: str) -> None:
    folder.path.mkdir(parents=True)
    (folder.path / name).write_text("mine")
    with pytest.raises(ImitableError, match=rf"has {name} but no config\.json, so it is no run; give another folder, or --overwrite"):
        folder.open(CONFIG, overwrite=False, resume=True)
    assert (folder.path / name).read_text() == "mine"
    folder.open(CONFIG, overwrite=True, resume=False)
    assert contents(folder).keys() == {"config.json"}


@pytest.mark.parametrize("name", ["config.json", "curve.json", "snapshot.npz"])
def test_a_damaged_file_is_named_with_the_way_out(interrupted: RunFolder, name: str) -> None:
    whole = (interrupted.path / name).read_bytes()
    (interrupted.path / name).write_bytes(whole[: len(whole) // 2])
    read = {"config.json": interrupted.config, "curve.json": interrupted.curve, "snapshot.npz": interrupted.snapshot}[name]
    with pytest.raises(ImitableError, match=rf"(?s){name} is damaged .*--overwrite"):
        read()


# Other settings


def changed(**settings: Any) -> dict[str, Any]:
    return {**CONFIG, **settings}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (changed(seed=1), r"was started with seed 0 \(now 1\); go on with the same settings, or replace it"),
        (changed(learner={"updates": 5, "trpo": {"gamma": 0.8}}), r"was started with learner\.trpo\.gamma 0\.9 \(now 0\.8\);"),
        (changed(seed=2, task="arm"), r"task 'turntable' \(now 'arm'\), seed 0 \(now 2\)"),
        (changed(radius=3), r"radius None \(now 3\)"),
        (changed(versions={"learn": 2}), r"versions\.learn 1 \(now 2\)"),
    ],
)
def test_what_differs_is_said_down_to_single_numbers(interrupted: RunFolder, config: dict[str, Any], message: str) -> None:
    before = contents(interrupted)
    with pytest.raises(ImitableError, match=message):
        interrupted.open(config, overwrite=False, resume=True)
    assert contents(interrupted) == before


def test_other_versions_may_read_a_finished_run(finished: RunFolder) -> None:
    finished.check(changed(versions={"learn": 2}))
    with pytest.raises(ImitableError, match="seed"):
        finished.check(changed(seed=1))


@pytest.mark.parametrize("given_first", [True, False])
def test_a_run_keeps_to_its_demonstrations(folder: RunFolder, given_first: bool) -> None:
    given, own = changed(**{"sha256 of demonstrations": "abc"}), changed(composition="paper")
    first, second = (given, own) if given_first else (own, given)
    folder.open(first, overwrite=False, resume=False)
    was, now = ("a file of demonstrations", "none") if given_first else ("the task's own demonstrations", "a file of them")
    with pytest.raises(ImitableError, match=rf"was started with {was} and is now given {now}; give the same --demos, or --overwrite"):
        folder.check(second)


def test_a_folder_without_a_run_fits_any_settings(folder: RunFolder) -> None:
    folder.check(CONFIG)


def test_a_configuration_survives_being_written(folder: RunFolder) -> None:
    config = changed(numbers=[0.1, 1e-300, 123456789.123456789], nested={"none": None, "yes": True})
    folder.open(config, overwrite=False, resume=False)
    assert json.loads((folder.path / "config.json").read_text()) == config
    folder.check(config)


# What changed since


@pytest.mark.parametrize("name", LISTED)
def test_a_finished_run_knows_what_changed(finished: RunFolder, name: str) -> None:
    finished.verify()
    whole = (finished.path / name).read_bytes()
    for damaged in (whole[:-1] + b"x", whole[:-3], None):
        (finished.path / name).unlink() if damaged is None else (finished.path / name).write_bytes(damaged)
        if name == "result.json" and damaged is None:
            assert finished.result() is None
            continue
        for read in (finished.verify, finished.result, finished.policy):
            with pytest.raises(ImitableError, match=rf"has changed since its run finished: {name}; restore it, or give --overwrite"):
                read()
    (finished.path / name).write_bytes(whole)
    finished.verify()


def test_a_run_without_a_manifest_is_read_as_before(finished: RunFolder) -> None:
    result = finished.result()
    (finished.path / "manifest.json").unlink()
    assert finished.result() == result
    assert finished.policy().network.layer_sizes == (2, 1)


@pytest.mark.parametrize("content", ["{}", "null", '{"sha256": {}}', '{"sha256": {"curve.json": ""}}'])
def test_a_damaged_manifest_is_named(finished: RunFolder, content: str) -> None:
    (finished.path / "manifest.json").write_text(content)
    with pytest.raises(ImitableError, match=r"manifest\.json is damaged"):
        finished.result()


@pytest.mark.parametrize("place", [30, -1])
def test_a_changed_policy_is_refused_before_the_run_is_finished_too(interrupted: RunFolder, place: int) -> None:
    content = bytearray((interrupted.path / "policy.safetensors").read_bytes())
    content[place] ^= 1
    (interrupted.path / "policy.safetensors").write_bytes(content)
    with pytest.raises(ImitableError, match=r"policy\.safetensors is not a policy saved by imitable"):
        interrupted.policy()
    with pytest.raises(ImitableError, match=r"policy\.safetensors is not a policy saved by imitable"):
        interrupted.finish(result())
    assert not interrupted.finished


def test_a_run_does_not_go_on_with_a_changed_curve(interrupted: RunFolder) -> None:
    interrupted.add(measurement(20))
    path = interrupted.path / "curve.json"
    whole = path.read_text()
    assert interrupted.snapshot() == {"done": np.array(20)}
    points = json.loads(whole)["checkpoints"]
    path.write_text(json.dumps({"checkpoints": [*points, {"steps": 30, "mean_return": 1.0}]}))
    assert interrupted.snapshot() == {"done": np.array(20)}, "a curve may be ahead of the snapshot"
    for changed in (points[:1], points[1:], [points[0], {**points[1], "mean_return": 7.0}]):
        path.write_text(json.dumps({"checkpoints": changed}))
        with pytest.raises(ImitableError, match=r"curve\.json has changed since .*snapshot\.npz was written"):
            interrupted.snapshot()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(
            (name, content)
            for name in ("config.json", "curve.json", "result.json")
            for content in ("[]", "null", "3", '"text"', "", "[" * 9999)
        ),
        *(("curve.json", content) for content in ("{}", '{"checkpoints": 3}', '{"checkpoints": [3]}', '{"checkpoints": [{"steps": "1"}]}')),
        *(
            ("result.json", content)
            for content in (
                "{}",
                '{"mean_return": null}',
                '{"mean_return": true}',
                '{"mean_return": 1, "returns": []}',
                '{"mean_return": 1, "returns": [1, "2"]}',
                '{"mean_return": 1, "diverged": []}',
            )
        ),
    ],
)
def test_json_of_the_wrong_kind_is_damage(finished: RunFolder, name: str, content: str) -> None:
    (finished.path / "manifest.json").unlink()
    (finished.path / name).write_text(content)
    read = {"config.json": finished.config, "curve.json": finished.curve, "result.json": finished.result}[name]
    with pytest.raises(ImitableError, match=rf"(?s){name} is damaged .*--overwrite"):
        read()


def test_no_settings_are_not_the_same_settings(interrupted: RunFolder) -> None:
    (interrupted.path / "config.json").write_text("{}")
    with pytest.raises(ImitableError, match="was started with task None"):
        interrupted.open(CONFIG, overwrite=False, resume=True)


def test_the_snapshot_stays_until_the_result_is_written(interrupted: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("imitable.store.runs.write_together", fail)
        with pytest.raises(KeyboardInterrupt):
            interrupted.finish(result())
    assert interrupted.snapshot() == {"done": np.array(10)}
    interrupted.finish(result())
    assert interrupted.snapshot() is None
    interrupted.verify()


def cut_after(patch: pytest.MonkeyPatch, renamed: int) -> None:
    """Interrupt when so many files have got their names."""
    done, replace = [], Path.replace

    def rename(self: Path, target: Path) -> Path:
        if len(done) == renamed:
            raise KeyboardInterrupt
        done.append(target)
        return replace(self, target)

    patch.setattr(Path, "replace", rename)


@pytest.mark.parametrize("renamed", [0, 1, 2])
def test_a_checkpoint_that_is_cut_short_is_made_again(interrupted: RunFolder, monkeypatch: pytest.MonkeyPatch, renamed: int) -> None:
    with monkeypatch.context() as patch:
        cut_after(patch, renamed)
        with pytest.raises(KeyboardInterrupt):
            interrupted.add(measurement(20))
    assert interrupted.snapshot() == {"done": np.array(10)}, "it goes on from the checkpoint before"
    interrupted.add(measurement(20))
    assert [point["steps"] for point in interrupted.curve()] == [10, 20]
    assert interrupted.snapshot() == {"done": np.array(20)}


@pytest.mark.parametrize("renamed", [0, 1])
def test_no_run_is_finished_without_its_manifest(interrupted: RunFolder, monkeypatch: pytest.MonkeyPatch, renamed: int) -> None:
    with monkeypatch.context() as patch:
        cut_after(patch, renamed)
        with pytest.raises(KeyboardInterrupt):
            interrupted.finish(result())
    assert not interrupted.finished
    assert interrupted.snapshot() == {"done": np.array(10)}


def test_a_snapshot_that_outlived_its_run_goes(finished: RunFolder) -> None:
    before = contents(finished)
    (finished.path / "snapshot.npz").write_bytes(b"of old")
    finished.open(CONFIG, overwrite=False, resume=True)
    assert contents(finished) == before


def test_a_locked_run_is_swept_and_closed_to_others(interrupted: RunFolder) -> None:
    dead = subprocess.Popen([sys.executable, "-S", "-E", "-c", ""])
    dead.wait()
    (interrupted.path / f".curve.json.{dead.pid}.partial").write_text("half")
    with interrupted.lock():
        assert not list(interrupted.path.glob(".*.partial"))
        with pytest.raises(ImitableError, match="is in use by process"), interrupted.lock():
            pass
    assert ".lock" not in contents(interrupted)
