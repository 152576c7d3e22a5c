"""A run on disk: its folder, what is in it, and going on after an interruption."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from imitable.arrays import Snapshot
from imitable.errors import ImitableError
from imitable.evaluation import Measurement
from imitable.networks import Policy
from imitable.pipeline import Record, Result
from imitable.store.files import (
    UnreadableError,
    array_bytes,
    check_writable,
    json_bytes,
    read_arrays,
    read_bytes,
    read_json,
    remove,
    remove_leftovers,
    write_json,
    write_table,
    write_together,
)
from imitable.store.locks import locked
from imitable.verdicts import Table

CONFIG, CURVE, POLICY, SCORES = "config.json", "curve.json", "policy.safetensors", "scores.parquet"
SNAPSHOT, RESULT, MANIFEST = "snapshot.npz", "result.json", "manifest.json"
FILES = (CURVE, POLICY, SCORES, SNAPSHOT, MANIFEST, RESULT)
LISTED = (CONFIG, CURVE, POLICY, SCORES, RESULT)
"""The files of a finished run whose SHA-256 is in its manifest."""
WAY_OUT = "restore it, or give --overwrite to start the run anew"
LARGEST = 2_000_000_000
"""Bytes of a file in a run's folder."""
CURVE_HASH = "sha256 of the curve"
"""Name in a snapshot: the curve up to there, so that a run does not go on with a changed one."""


@dataclass(frozen=True)
class RunFolder(Record):
    """config.json, scores.parquet, curve.json, policy.safetensors; manifest.json and result.json when finished, snapshot.npz until then."""

    path: Path

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes out; what one that was killed had begun to write is removed."""
        self._check_place()
        with locked(self.path):
            with suppress(OSError):
                remove_leftovers(self.path)
            yield

    def open(self, config: Mapping[str, Any], *, overwrite: bool, resume: bool) -> None:
        """Make the folder ready for a run with this configuration, or refuse to touch what is there."""
        self._check_place()
        if overwrite and resume:
            raise ImitableError("--overwrite and --resume exclude each other; give one of them")
        if not overwrite:
            if self.config() is not None:
                if not resume:
                    state = "a finished run" if self.finished else "an interrupted run"
                    raise ImitableError(f"{self.path} already has {state}; give --resume to go on with it or --overwrite to replace it")
                self.check(config)
                if self.result() is not None:
                    remove(self.path / SNAPSHOT)  # if it was interrupted when all was written
                return
            if unexpected := [name for name in FILES if (self.path / name).exists()]:
                raise ImitableError(
                    f"{self.path} has {unexpected[0]} but no {CONFIG}, so it is no run; give another folder, or --overwrite to replace it"
                )
        for name in FILES:
            remove(self.path / name)
        write_json(self.path / CONFIG, config)

    def _check_place(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise ImitableError(f"{self.path} is a file; give a folder for the run")
        check_writable(self.path / CONFIG)

    def check(self, config: Mapping[str, Any]) -> None:
        """Refuse a run that was made with other settings."""
        existing = self.config()
        if existing is None:
            return
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

    def verify(self) -> None:
        """Refuse a finished run that is not as it was when it finished; older runs, without a manifest, are taken as they are."""
        if not (self.path / MANIFEST).exists() or not self.finished:
            return
        listed = self._read(MANIFEST).get("sha256")
        if not isinstance(listed, dict) or listed.keys() != set(LISTED):
            raise ImitableError(f"{self.path / MANIFEST} is damaged (it does not list {', '.join(LISTED)}); {WAY_OUT}")
        if changed := [name for name in LISTED if not (self.path / name).exists() or _digest(self.path / name) != listed[name]]:
            raise ImitableError(f"{self.path} has changed since its run finished: {', '.join(changed)}; {WAY_OUT}")

    def config(self) -> dict[str, Any] | None:
        return self._read(CONFIG) if (self.path / CONFIG).exists() else None

    def result(self) -> dict[str, Any] | None:
        """What a finished run came to, verified."""
        if not self.finished:
            return None
        self.verify()
        found = self._read(RESULT)
        kinds = {"mean_return": _is_number, "steps": _is_number, "returns": _are_numbers, "diverged": _is_table_of_numbers}
        wrong = [name for name, fits in kinds.items() if name in found and not fits(found[name])]
        if wrong or "mean_return" not in found:
            raise ImitableError(f"{self.path / RESULT} is damaged (it has no good {', '.join(wrong) or 'mean_return'}); {WAY_OUT}")
        return found

    def curve(self) -> list[dict[str, Any]]:
        if not (self.path / CURVE).exists():
            return []
        points = self._read(CURVE).get("checkpoints")
        if not isinstance(points, list) or not all(
            isinstance(point, dict) and _is_number(point.get("steps")) and _is_number(point.get("mean_return")) for point in points
        ):
            raise ImitableError(f"{self.path / CURVE} is damaged (it has no list of checkpoints); {WAY_OUT}")
        return points

    def policy(self) -> Policy:
        """The policy of the last checkpoint; of a finished run verified."""
        self.verify()
        return Policy.load(self.path / POLICY)

    def snapshot(self) -> Snapshot | None:
        """Where an interrupted run can go on; None to start at the beginning."""
        path = self.path / SNAPSHOT
        if not path.exists():
            return None
        try:
            found = read_arrays(path)
        except UnreadableError as error:
            raise ImitableError(f"{path} is damaged ({error}); {WAY_OUT}") from error
        if (expected := found.pop(CURVE_HASH, None)) is not None:
            steps, curve = int(expected[0]), self.curve()
            if not np.array_equal(expected, _curve_hash([point for point in curve if point["steps"] <= steps], steps)):
                raise ImitableError(f"{self.path / CURVE} has changed since {path} was written; {WAY_OUT}")
        return found

    def _read(self, name: str) -> dict[str, Any]:
        try:
            return read_json(self.path / name)  # type: ignore[no-any-return]
        except UnreadableError as error:
            raise ImitableError(f"{self.path / name} is damaged ({error}); {WAY_OUT}") from error

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
        curve = [*before, point]
        snapshot = {**checkpoint.snapshot, CURVE_HASH: _curve_hash(curve, checkpoint.steps)}
        contents = {CURVE: json_bytes({"checkpoints": curve}), POLICY: checkpoint.policy.to_bytes(), SNAPSHOT: array_bytes(snapshot)}
        write_together({self.path / name: content for name, content in contents.items()})

    def finish(self, result: Result) -> dict[str, Any]:
        """Record the last checkpoint's returns and the run's facts; what `result` will then give. Until result.json is there, which is
        written last, the run can go on from its snapshot.
        """
        last = self.curve()[-1]
        Policy.load(self.path / POLICY)  # one that was damaged on the way is not to be certified
        final = {name: last[name] for name in ("mean_return", "steps", "returns")}
        content = {**final, **result.summary, "diverged": {**result.summary["diverged"], **last["diverged"]}}
        written = json_bytes(content)
        hashes = {name: _digest(self.path / name) for name in LISTED if name != RESULT} | {RESULT: sha256(written).hexdigest()}
        write_together({self.path / MANIFEST: json_bytes({"sha256": hashes}), self.path / RESULT: written})
        remove(self.path / SNAPSHOT)
        return content


def _digest(path: Path) -> str:
    return sha256(read_bytes(path, limit=LARGEST)).hexdigest()


def _curve_hash(curve: list[dict[str, Any]], steps: int) -> np.ndarray[Any, Any]:
    """(5,) how far it goes, and the hash of the curve up to there."""
    return np.array([steps, *np.frombuffer(sha256(json.dumps(curve).encode()).digest(), np.int64)])


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _are_numbers(values: Any) -> bool:
    return isinstance(values, list) and len(values) > 0 and all(map(_is_number, values))


def _is_table_of_numbers(values: Any) -> bool:
    return isinstance(values, dict) and all(map(_is_number, values.values()))


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
