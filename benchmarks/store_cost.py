"""What whole files and checked reading cost.

python benchmarks/store_cost.py [--only checkpoint] [--folder .]

A checkpoint is written by today's store and by that of another commit, in two processes that take turns; demonstrations, which are in
the system's cache of files, are read by `imitable.formats.read` and by plain `numpy.load`, in turns as well. What is told are medians.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import numpy as np

ROOT = Path(__file__).parents[1]
BEFORE = "bd38ddc"
"""The last commit whose store did not wait for the disk."""
MOST_MS, MOST_TIMES = 20.0, 1.5
"""Milliseconds that a checkpoint may take longer, and the times of numpy's that reading may take."""
POINTS = 40
"""Checkpoints in the curve that is written."""


def measurement(seed: int) -> Any:
    """A checkpoint of GAIL on Ant: its policy, what is needed to go on, and the returns of 100 episodes."""
    rng = np.random.default_rng(seed)
    policy = import_module("imitable.networks").Policy.load(ROOT / "src/imitable/paper/policies/ant-x-axis-optimal.safetensors")
    sizes = {"policy": 14_000, "value": 13_000, "discriminator": 16_000}
    snapshot = {name: rng.standard_normal(size, dtype=np.float32) for name, size in sizes.items()}
    snapshot |= {f"{name} {moment}": snapshot[name].copy() for name in ("value", "discriminator") for moment in ("exp_avg", "exp_avg_sq")}
    snapshot["rng"] = rng.integers(0, 256, 250).astype(np.uint8)
    checkpoint = SimpleNamespace(policy=policy, steps=0, snapshot=snapshot, diverged=0, diagnostics={"kl": 0.01, "reward": 1.0})
    return SimpleNamespace(checkpoint=checkpoint, returns=rng.normal(4000.0, 500.0, 100), diverged=0)


def work(folder: Path, seed: int) -> None:
    """Write checkpoints on demand, and say how many milliseconds each took; the package may be of any version."""
    try:
        runs = import_module("imitable.store.runs")
    except ModuleNotFoundError:
        runs = import_module("imitable.runs")
    run, given = runs.RunFolder(folder), measurement(seed)
    for steps in range(POINTS):
        given.checkpoint.steps = steps
        run.add(given)
    print("ready", flush=True)
    for _ in sys.stdin:
        began = time.perf_counter()
        run.add(given)  # the last one, again
        print(1000 * (time.perf_counter() - began), flush=True)


class Worker:
    """A process that writes a checkpoint whenever it is called, with the package in `source`."""

    def __init__(self, source: Path, folder: Path, seed: int) -> None:
        folder.mkdir()
        command = [sys.executable, __file__, "--worker", str(folder), "--seed", str(seed)]
        environment = {**os.environ, "PYTHONPATH": str(source)}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.answer()

    def answer(self) -> str:
        assert self.process.stdout is not None
        if not (line := self.process.stdout.readline()):
            sys.exit("a worker ended; its error is above")
        return line.strip()

    def __call__(self) -> float:
        print("go", file=self.process.stdin, flush=True)
        return float(self.answer())

    def close(self) -> None:
        self.process.communicate()


def in_turns(ways: dict[str, Callable[[], float]], count: int) -> dict[str, list[float]]:
    """What each way takes, one after the other, each as often first."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(count):
        for name in list(ways)[:: 1 if number % 2 else -1]:
            found[name].append(ways[name]())
    return found


def timed(function: Callable[[], Any]) -> float:
    began = time.perf_counter()
    function()
    return 1000 * (time.perf_counter() - began)


def checkpoints(folder: Path, *, commit: str, count: int, seed: int) -> list[str]:
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=ROOT, capture_output=True, check=True).stdout
    (folder / "before").mkdir()
    subprocess.run(["tar", "-x", "-C", folder / "before"], input=packed, check=True)
    workers = {
        commit: Worker(folder / "before" / "src", folder / "run before", seed),
        "now": Worker(ROOT / "src", folder / "run now", seed),
    }
    in_turns(dict(workers), 5)  # warm
    took = in_turns(dict(workers), count)
    for worker in workers.values():
        worker.close()
    before, now = (statistics.median(took[name]) for name in (commit, "now"))
    difference = statistics.median(mine - theirs for mine, theirs in zip(took["now"], took[commit], strict=True))
    return [row("a checkpoint written", commit, before, now, f"{difference:+.1f} ms", f"{MOST_MS:+.0f} ms", difference <= MOST_MS)]


def readings(folder: Path, *, megabytes: float, count: int, seed: int) -> list[str]:
    from imitable.formats import read

    rng, columns, length = np.random.default_rng(seed), 27, 1000
    demos = max(1, round(megabytes * 1e6 / (8 * columns * (length + 1))))
    states = rng.standard_normal((demos * (length + 1), columns)).cumsum(axis=1).round(4)
    arrays = {"states": states, "lengths": np.full(demos, length), "returns": rng.normal(size=demos), "sources": np.array(["own"] * demos)}
    lines = []
    for name, write in (("unpacked", np.savez), ("packed", np.savez_compressed)):
        path = folder / f"{name}.npz"
        write(path, **arrays)

        def plain(path: Path = path) -> None:
            with np.load(path) as archive:
                for each in archive.files:
                    touch(archive[each])

        def ours(path: Path = path) -> None:
            touch(read(path).observations)

        took = in_turns({"numpy": lambda: timed(plain), "now": lambda: timed(ours)}, count + 1)
        before, now = (statistics.median(took[each][1:]) for each in ("numpy", "now"))
        times = statistics.median(mine / theirs for mine, theirs in zip(took["now"][1:], took["numpy"][1:], strict=True))
        what = f"{states.nbytes / 1e6:.0f} MB read, {name}"
        lines.append(row(what, "numpy.load", before, now, f"{times:.2f} times", f"{MOST_TIMES} times", times <= MOST_TIMES))
        path.unlink()
    return lines


def touch(array: np.ndarray[Any, Any]) -> None:
    """Every page of it."""
    if array.dtype.kind in "fi":
        array.reshape(-1)[::512].sum()


def row(what: str, against: str, before: float, now: float, difference: str, most: str, holds: bool) -> str:
    return f"| {what} | {against} | {before:.1f} ms | {now:.1f} ms | {difference} | {most} | {'yes' if holds else 'NO'} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="What whole files and checked reading cost.")
    parser.add_argument("--only", choices=("checkpoint", "reading"))
    parser.add_argument("--folder", type=Path, help="a folder on the disk to measure; the system's for temporary files where not given")
    parser.add_argument("--before", default=BEFORE, metavar="COMMIT", help="whose checkpoints to compare with")
    parser.add_argument("--megabytes", type=float, default=400.0)
    parser.add_argument("--writes", type=int, default=100)
    parser.add_argument("--reads", type=int, default=7)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker, options.seed)
        return
    lines = []
    with tempfile.TemporaryDirectory(prefix="store-cost-", dir=options.folder) as name:
        if options.only != "reading":
            lines += checkpoints(Path(name), commit=options.before, count=options.writes, seed=options.seed)
        if options.only != "checkpoint":
            lines += readings(Path(name), megabytes=options.megabytes, count=options.reads, seed=options.seed)
    print("| what | against | that | now | difference | at most | holds |\n|---|---|---:|---:|---:|---:|---|")
    print("\n".join(lines))
    if any(line.endswith("| NO |") for line in lines):
        sys.exit("the store costs more than it may")


if __name__ == "__main__":
    main()
