"""A run on disk: its folder, what is in it, and going on after an interruption."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imitable.arrays import Snapshot
from imitable.errors import ImitableError
from imitable.evaluation import Measurement
from imitable.pipeline import Result, Table
from imitable.store.files import UNREADABLE, check_writable, read_arrays, write_arrays, write_json, write_table

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
        ignored = {"versions"} if self.finished else set()  # going on with other versions would not give the same curve
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

    def save_scores(self, table: Table) -> None:
        write_table(self.path / SCORES, table)

    def add(self, measurement: Measurement) -> None:
        """Record a checkpoint. The snapshot goes last: curve points beyond it are dropped and made again on resumption."""
        checkpoint = measurement.checkpoint
        point = {
            "steps": checkpoint.steps,
            "mean_return": float(measurement.returns.mean()),
            "returns": [round(float(value), 6) for value in measurement.returns],
            "diverged": {"learning": checkpoint.diverged, "evaluating": measurement.diverged},
            "diagnostics": {name: round(float(value), 6) for name, value in checkpoint.diagnostics.items()},
        }
        before = [each for each in self.curve() if each["steps"] < checkpoint.steps]
        write_json(self.path / CURVE, {"checkpoints": [*before, point]})
        checkpoint.policy.save(self.path / POLICY)
        write_arrays(self.path / SNAPSHOT, checkpoint.snapshot)

    def finish(self, result: Result) -> dict[str, Any]:
        """Record the last checkpoint's returns and the run's facts; what `result` will then give."""
        last = self.curve()[-1]
        final = {name: last[name] for name in ("mean_return", "steps", "returns")}
        content = {**final, **result.summary, "diverged": {**result.summary["diverged"], **last["diverged"]}}
        write_json(self.path / RESULT, content)
        (self.path / SNAPSHOT).unlink(missing_ok=True)
        return content


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
