"""A run on disk: its folder, what is in it, and going on after an interruption."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from imitable.arrays import Array, Snapshot, one_thread
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.experiment import Measurement, Streams, learn, weigh
from imitable.experts import Composition
from imitable.files import UNREADABLE, check_writable, read_arrays, write_arrays, write_json
from imitable.kept import all_code, describe, kept_or_gathered, kept_or_posed, own_files, versions
from imitable.methods import Method
from imitable.problem import check_width
from imitable.sampling import effective_sample_size
from imitable.scorecard import save_scorecard, scorecard
from imitable.tasks import Task

CONFIG, CURVE, POLICY, SCORES, SNAPSHOT, RESULT = (
    "config.json",
    "curve.json",
    "policy.safetensors",
    "scores.parquet",
    "snapshot.npz",
    "result.json",
)
FILES = (CURVE, POLICY, SCORES, SNAPSHOT, RESULT)


@dataclass(frozen=True)
class RunFolder:
    """config.json, scores.parquet, curve.json, policy.safetensors, result.json when finished; snapshot.npz until then."""

    path: Path

    def open(self, config: Mapping[str, Any], *, overwrite: bool, resume: bool) -> None:
        """Make the folder ready for a run with this configuration, or refuse to touch what is there."""
        if self.path.exists() and not self.path.is_dir():
            raise ImitableError(f"{self.path} is a file; give a folder for the run")
        check_writable(self.path / CONFIG)
        if overwrite and resume:
            raise ImitableError("--overwrite and --resume exclude each other; give one of them")
        if not overwrite:
            if self.config() is not None:
                if not resume:
                    state = "a finished run" if self.finished else "an interrupted run"
                    raise ImitableError(f"{self.path} already has {state}; give --resume to go on with it or --overwrite to replace it")
                self.check(config)
                return
            if strangers := [name for name in FILES if (self.path / name).exists()]:
                raise ImitableError(
                    f"{self.path} has {strangers[0]} but no {CONFIG}, so it is no run; give another folder, or --overwrite to replace it"
                )
        for name in FILES:
            (self.path / name).unlink(missing_ok=True)
        write_json(self.path / CONFIG, config)

    def check(self, config: Mapping[str, Any]) -> None:
        """Refuse a run that was made with other settings."""
        existing = self.config() or config
        given = "sha256 of demonstrations"
        if (given in existing) != (given in config):
            was, now = ("a file of demonstrations", "none") if given in existing else ("the task's own demonstrations", "a file of them")
            raise ImitableError(f"{self.path} was started with {was} and is now given {now}; give the same --demos, or --overwrite")
        ignored = {"versions", "sha256 of code"} if self.finished else set()  # going on with other code would not give the same curve
        if changed := [name for name in config if name not in ignored and existing.get(name) != config[name]]:
            raise ImitableError(
                f"{self.path} was started with {', '.join(_differences(existing, config, changed))}; go on with the same settings, "
                "or replace it (--overwrite, or another folder for a sweep)"
            )

    @property
    def finished(self) -> bool:
        return (self.path / RESULT).exists()

    def config(self) -> dict[str, Any] | None:
        return _read_json(self.path / CONFIG)

    def result(self) -> dict[str, Any] | None:
        return _read_json(self.path / RESULT)

    def curve(self) -> list[dict[str, Any]]:
        return (_read_json(self.path / CURVE) or {}).get("checkpoints", [])  # type: ignore[no-any-return]

    def snapshot(self) -> Snapshot | None:
        """Where an interrupted run can go on; None to start at the beginning."""
        path = self.path / SNAPSHOT
        if not path.exists():
            return None
        try:
            return read_arrays(path)
        except UNREADABLE as error:
            raise ImitableError(f"{path} is damaged ({error}); give --overwrite to start the run anew") from error

    def add(self, measurement: Measurement) -> None:
        """Record a checkpoint. The snapshot goes last: curve points beyond it are dropped and made again on resumption."""
        checkpoint = measurement.checkpoint
        point = {
            "steps": checkpoint.steps,
            "mean_return": float(measurement.returns.mean()),
            "returns": [round(float(value), 6) for value in measurement.returns],
            "diverged": {"learning": checkpoint.diverged, "measuring": measurement.diverged},
            "diagnostics": {name: round(float(value), 6) for name, value in checkpoint.diagnostics.items()},
        }
        before = [each for each in self.curve() if each["steps"] < checkpoint.steps]
        write_json(self.path / CURVE, {"checkpoints": [*before, point]})
        checkpoint.policy.save(self.path / POLICY)
        write_arrays(self.path / SNAPSHOT, checkpoint.snapshot)

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Record the last checkpoint's returns and the run's diagnostics."""
        last = self.curve()[-1]
        write_json(
            self.path / RESULT,
            {**{name: last[name] for name in ("mean_return", "steps", "returns")}, **summary},
        )
        (self.path / SNAPSHOT).unlink(missing_ok=True)


def _read_json(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        return json.loads(path.read_text())  # type: ignore[no-any-return]
    except ValueError as error:
        raise ImitableError(f"{path} is damaged ({error}); give --overwrite to start the run anew") from error


def _differences(existing: Mapping[str, Any], config: Mapping[str, Any], changed: list[str]) -> list[str]:
    """Only what differs, down to single numbers."""
    pieces = []
    for name in changed:
        old, new = existing.get(name), config[name]
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            pieces += [f"{name}.{inner}" for inner in _differences(old, new, [key for key in new if old.get(key) != new[key]])]
        else:
            pieces.append(f"{name} {old!r} (now {new!r})")
    return pieces


def configuration(
    task: Task, method: Method, *, seed: int, demos: Path | None = None, composition: Composition = "paper"
) -> dict[str, Any]:
    """Everything a run's numbers depend on."""
    if demos and composition != "paper":
        raise ImitableError(f"composition {composition!r} mixes the task's own demonstrations; leave it out when you give {demos}")
    own = {"composition": composition, "cast": describe(task.cast), "sha256 of demonstrators": own_files()}
    source = {"sha256 of demonstrations": sha256(demos.read_bytes()).hexdigest()} if demos else own
    parts = {"target": describe(task.target), "settings": describe(task.settings), "learner": describe(method.learner(task))}
    code = {"versions": versions(), "sha256 of code": all_code()}
    return {"task": task.name, "method": method.name, "seed": seed, **source, **parts, **code}


@one_thread()
def perform(
    task: Task,
    method: Method,
    *,
    seed: int,
    folder: Path,
    demos: Path | None = None,
    composition: Composition = "paper",
    overwrite: bool = False,
    resume: bool = False,
    watch: Callable[[float], None] = lambda share: None,
) -> dict[str, Any]:
    """`run`, kept on disk as it goes; interrupted and resumed, it gives the curve it would have given in one go."""
    record, streams = RunFolder(folder), Streams(seed)
    given = Demonstrations.load(demos) if demos else None
    if given:
        check_width(given, task.target, name=f"demonstrations in {demos}")
    config = configuration(task, method, seed=seed, demos=demos, composition=composition)
    record.open(config, overwrite=overwrite, resume=resume)
    if record.finished:
        return record.result() or {}
    demonstrations = given or kept_or_gathered(task, seed=seed, composition=composition, watch=lambda share: watch(0.1 * share))
    began = time.perf_counter()
    problem = kept_or_posed(demonstrations, task, seed=seed, watch=lambda share: watch(0.1 + 0.2 * share))
    weights = weigh(problem, method)
    save_scorecard(scorecard(demonstrations, problem, weights), folder / SCORES)
    posed = time.perf_counter()
    for measurement in learn(task, method, problem, weights, streams=streams, resume=record.snapshot()):
        record.add(measurement)
        watch(0.3 + 0.7 * measurement.checkpoint.progress)
    drawn = weights if method.sampled else np.ones(len(weights))
    record.finish(
        {
            "diverged": {"posing": problem.diverged, **record.curve()[-1]["diverged"]},
            "tolerance": [problem.tolerance.closest, problem.tolerance.farthest],
            "own_distances": np.percentile(problem.own_distances[np.isfinite(problem.own_distances)], [0, 50, 100]).tolist(),
            "effective_demonstrations": effective_sample_size(drawn),
            "share_by_source": share_by_source(demonstrations, drawn),
            "seconds": {"pose": round(posed - began, 1), "learn": round(time.perf_counter() - posed, 1)},
        }
    )
    return record.result() or {}


def share_by_source(demonstrations: Demonstrations, weights: Array) -> dict[str, float]:
    """Which share of the sampled transitions comes from each source; for reports only."""
    mass = weights * demonstrations.lengths
    names = sorted(set(demonstrations.sources or ()))
    return {name: round(float(mass[demonstrations.from_source(name)].sum() / mass.sum()), 4) for name in names}
