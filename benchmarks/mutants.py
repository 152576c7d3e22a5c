"""Change one line of the core at a time, and see whether the fast tests notice: `make mutants`.

A mutant is killed if one of the named test files fails; it survives if all pass. One that only hangs counts as surviving: nobody waits.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
ROOT = Path(__file__).parents[1]
PATIENCE = 120.0  # seconds of the processor; five times as many on the clock


@dataclass(frozen=True)
class Mutant:
    """What it does wrong, in which file, the line's part that is replaced by what, and the tests that must notice."""

    name: str
    file: str
    old: str
    new: str
    tests: str
    explained: str = ""
    """Why it may survive."""


MUTANTS = (
    # Files
    Mutant("files are written in place", "store/files.py", 'f".{path.name}.{os.getpid()}.partial"', "path.name", "store_files"),
    Mutant("nothing waits for the disk", "store/files.py", "                _sync(*", "                len(", "store_files"),
    Mutant("leftovers stay", "store/files.py", "            leftover.unlink(missing_ok=True)", "            pass", "store_files"),
    Mutant("leftovers of live processes go", "store/files.py", "and not _runs(int(owner))", "", "store_files"),
    Mutant("checksums of unpacked arrays do not count", "store/files.py", "!= member.CRC", "!= member.CRC and False", "store_files"),
    Mutant(
        "packed arrays are not read to their end",
        "store/files.py",
        "if stream.read(1):",
        "if False:",
        "store_files formats",
        explained="zipfile compares the checksum by itself once all was read",
    ),
    Mutant("sizes are not compared", "store/files.py", "+ data != member.file_size:", "+ data > member.file_size:", "store_files"),
    Mutant("no bound on what unpacks", "store/files.py", "if needed > (budget", "if needed < 0 and (budget", "store_files"),
    Mutant("pipes are waited for", "store/files.py", " | os.O_NONBLOCK", "", "store_files"),
    Mutant("any JSON will do", "store/files.py", "if not isinstance(found, kind):", "if False:", "store_files store_runs"),
    Mutant("a cache that ignores what it is keyed by", "store/cache.py", '"recipe": describe(recipe)', '"recipe": ""', "store_cache"),
    Mutant("a cache that ignores versions", "store/cache.py", '"versions": versions()', '"versions": ""', "store_cache"),
    Mutant("a cache that ignores the shape of large arrays", "store/cache.py", "{array.dtype.str} {array.shape} ", "", "store_cache"),
    Mutant("a cache that ignores what is in files", "store/cache.py", "if path.is_file():", "if False:", "store_cache"),
    Mutant("the cache is not capped", "store/cache.py", "if total <= self.max_bytes:", "if True:", "store_cache"),
    Mutant(
        "the snapshot goes before the result is written",
        "store/runs.py",
        "        written = json_bytes(content)",
        "        (self.path / SNAPSHOT).unlink(missing_ok=True)\n        written = json_bytes(content)",
        "store_runs",
    ),
    Mutant(
        "nothing is verified", "store/runs.py", "if changed := [name for name in LISTED", "if changed := [name for name in ()", "store_runs"
    ),
    Mutant(
        "a changed curve is gone on with",
        "store/runs.py",
        "if not np.array_equal(expected, _curve",
        "if np.ndim(expected) > 1 and not np.array_equal(expected, _curve",
        "store_runs",
    ),
    Mutant(
        "no lock is taken",
        "store/locks.py",
        "        fcntl.flock(descriptor, fcntl.LOCK_EX",
        "        fcntl.flock(descriptor, fcntl.LOCK_SH",
        "store_locks",
    ),
    Mutant(
        "a removed lock counts",
        "store/locks.py",
        "if os.path.exists(path) and os.path.samestat",
        "if True or os.path.samestat",
        "store_locks",
    ),
    Mutant("runs outlive their sweep", "paper/sweep.py", "prctl(1, ", "prctl(2, ", "cli_processes"),
    Mutant("a policy's hash does not count", "networks.py", "!= digest or", "!= digest and False or", "store_runs"),
    # Numbers
    Mutant("any gain is a step", "trpo.py", "improvement > 0.1 * step_fraction * expected_improvement", "improvement > 0", "details"),
    Mutant("any step at all", "trpo.py", " and improvement > 0.1 * step_fraction * expected_improvement", "", "details"),
    Mutant("only the full gain is a step", "trpo.py", "improvement > 0.1 * step", "improvement > 0.95 * step", "details"),
    Mutant("no bound on the divergence", "trpo.py", "if kl <= settings.max_kl and", "if", "trpo"),
    Mutant(
        "a time limit ends all value",
        "trpo.py",
        "np.where(rollout.terminated, 0.0, next_values)",
        "np.where(rollout.terminated | rollout.truncated, 0.0, next_values)",
        "trpo",
    ),
    Mutant(
        "advantages leak across episodes", "trpo.py", "np.where(episode_ends[time], 0.0, next_advantages)", "next_advantages * 1.0", "trpo"
    ),
    Mutant("lambda is forgotten", "trpo.py", "gamma * gae_lambda * next_advantages", "gamma * next_advantages", "trpo"),
    Mutant("advantages are not centered", "trpo.py", "(advantages - advantages.mean())", "advantages", "trpo"),
    Mutant("no damping", "trpo.py", "np.float32(settings.cg_damping) * vector", "np.float32(0) * vector", "trpo"),
    Mutant("half the curvature of the standard deviation", "trpo.py", "2 * vector[network.size :]", "vector[network.size :]", "trpo"),
    Mutant("conjugate directions are not", "trpo.py", "residual_norm / previous) * direction", "0.0) * direction", "trpo"),
    Mutant(
        "no annealing in cloning",
        "learners/cloning.py",
        "0.5 * (1 + math.cos(math.pi * done / self.updates))",
        "1.0 + 0 * math.pi",
        "details",
    ),
    Mutant("no annealing in GAIL", "learners/gail.py", "1.0 - (1.0 - self.final_fraction) * done / self.rounds", "1.0", "details"),
    Mutant("noise not in input units", "learners/cloning.py", "assessment.step_scale / scale,", "assessment.step_scale,", "details"),
    Mutant(
        "a squared loss",
        "learners/cloning.py",
        "np.clip(errors / np.float32(self.huber_delta), -1.0, 1.0)",
        "errors / np.float32(self.huber_delta)",
        "learners details golden",
    ),
    Mutant(
        "unreachable transitions are cloned",
        "learners/cloning.py",
        "TransitionSampler(demonstrations, drawn * usable)",
        "TransitionSampler(demonstrations, drawn)",
        "learners",
    ),
    Mutant("one-sided perturbation", "replay.py", "rng.uniform(-noise, noise,", "rng.uniform(0.0, noise,", "details"),
    Mutant(
        "the first step does not count",
        "replay.py",
        "self.demonstrations.transition_rows + 1]",
        "self.demonstrations.transition_rows]",
        "replay",
    ),
    Mutant("a broken replay is perfect", "replay.py", "np.where(self.diverged, np.inf,", "np.where(self.diverged, 0.0,", "replay"),
    Mutant("the robot is put back at each step", "replay.py", "(time - 1) % window == 0", "True", "replay"),
    Mutant(
        "step_scale as mean absolute change",
        "inverse_dynamics/solved.py",
        "(observations[rows + 1] - observations[rows]).std(axis=0)",
        "np.abs(observations[rows + 1] - observations[rows]).mean(axis=0)",
        "details",
    ),
    Mutant(
        "demonstrations count alike, not transitions",
        "sampling.py",
        "np.cumsum(per_transition(self.weights, self.demonstrations.lengths))",
        "np.cumsum(np.repeat(self.weights / self.demonstrations.lengths, self.demonstrations.lengths))",
        "sampling",
    ),
    Mutant("the first transition of no weight is drawn", "sampling.py", 'side="right")', 'side="left")', "sampling"),
    Mutant(
        "next observations are the observations",
        "sampling.py",
        "self.demonstrations.observations[rows + 1]",
        "self.demonstrations.observations[rows]",
        "sampling",
    ),
    Mutant("negative weights pass", "sampling.py", "| (weights < 0)", "", "sampling"),
    Mutant(
        "effective size of the sum alone", "sampling.py", "relative.sum() ** 2 / np.square(relative).sum()", "relative.sum()", "sampling"
    ),
    Mutant("sigma twice as wide", "scores/optimality.py", "np.exp(-0.5 * ((returns", "np.exp(-0.125 * ((returns", "scores"),
    Mutant(
        "infeasible ones set the standard",
        "scores/optimality.py",
        "ranked = np.flatnonzero(feasible)",
        "ranked = np.flatnonzero(np.ones_like(feasible))",
        "scores",
    ),
    Mutant(
        "the worst neighbour is the standard", "scores/optimality.py", "np.argsort(-returns[ranked]", "np.argsort(returns[ranked]", "scores"
    ),
    Mutant(
        "feasibility rises with distance",
        "scores/feasibility.py",
        "(tolerance.d_max - distances) /",
        "(distances - tolerance.d_min) /",
        "feasibility",
    ),
    Mutant("fragments count", "scores/feasibility.py", "np.where(share < FRAGMENTS, 0.0, share)", "share", "details"),
    Mutant(
        "d_max of the nearest replay", "scores/feasibility.py", "[~perturbed.diverged].max()", "[~perturbed.diverged].min()", "feasibility"
    ),
    Mutant("a quantile one too low", "tracking.py", "(len(values) + 1) * (1 - rate)", "len(values) * (1 - rate)", "tracking feasibility"),
    Mutant(
        "tanh has the slope of a line",
        "networks.py",
        "[np.float32(1.0) - value * value for",
        "[np.float32(1.0) + 0 * value for",
        "networks",
    ),
    Mutant("biases learn nothing", "networks.py", "upstream.sum(axis=0, out=bias_gradient)", "bias_gradient[:] = 0", "networks"),
    Mutant("Adam without bias correction", "networks.py", "self.learning_rate / (1 - beta1**self.steps)", "self.learning_rate", "networks"),
    Mutant(
        "actions are not clipped",
        "networks.py",
        "np.clip(self.mean(self.inputs(observations)), self.low, self.high)",
        "self.mean(self.inputs(observations))",
        "networks",
    ),
    Mutant("inputs are not centered", "networks.py", "(observations - self.center) / self.scale", "observations / self.scale", "networks"),
    Mutant(
        "samples without their standard deviation",
        "networks.py",
        "np.exp(self.log_std) * rng.standard_normal",
        "rng.standard_normal",
        "networks",
    ),
)


def killed(mutant: Mutant, folder: Path) -> str:
    """`killed`, `survives`, `hangs`, or `stale`: its line is not there any more, or there twice."""
    path = folder / "imitable" / mutant.file
    before = path.read_text()
    if before.count(mutant.old) != 1:
        return "stale"
    path.write_text(before.replace(mutant.old, mutant.new))
    outcome = tested(mutant.tests, folder)
    path.write_text(before)
    return {"pass": "survives", "fail": "killed"}.get(outcome, outcome)


def tested(names: str, folder: Path) -> str:
    """`pass`, `fail` or `hangs`: these tests, with the package in this folder."""
    pid = os.fork()  # libraries are loaded, the package is not
    if not pid:
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (int(PATIENCE), int(PATIENCE)))
        os.environ["PYTHONPATH"] = str(folder)  # of processes that tests start
        sys.path.insert(0, str(folder))
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        import pytest

        tests = [str(ROOT / "tests" / f"test_{name}.py") for name in names.split()]
        code = 99
        with suppress(BaseException):
            code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow", "--rootdir", str(ROOT), *tests])
        os._exit(int(code))
    deadline, status = time.monotonic() + 5 * PATIENCE, None
    while status is None:
        done, found = os.waitpid(pid, os.WNOHANG)
        if done:
            status = found
        elif time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        else:
            time.sleep(0.05)
    if os.WIFSIGNALED(status):
        return "hangs"
    return {0: "pass", 1: "fail", 2: "fail"}.get(os.waitstatus_to_exitcode(status), f"pytest ended with {status}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Change one line of the core at a time, and see whether the fast tests notice.")
    parser.add_argument("--only", default="", help="mutants with this in their name")
    only = parser.parse_args().only
    for name in (
        "numpy",
        "scipy.spatial",
        "scipy.stats",
        "torch",
        "pyarrow.parquet",
        "gymnasium",
        "mujoco",
        "matplotlib.figure",
    ):
        __import__(name)
    os.chdir(ROOT)
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    shutil.copytree(ROOT / "src" / "imitable", folder / "imitable", ignore=shutil.ignore_patterns("__pycache__"))
    sys.path = [each for each in sys.path if Path(each) != ROOT / "src"]
    sys.dont_write_bytecode = True  # lines of one length, changed within a second, look the same to Python's cache
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    outcomes: dict[str, list[str]] = {}
    chosen = [mutant for mutant in MUTANTS if only in mutant.name]
    for name in sorted({name for mutant in chosen for name in mutant.tests.split()}):
        if (outcome := tested(name, folder)) != "pass":  # else they would kill everything
            sys.exit(f"tests/test_{name}.py: {outcome}, with nothing changed")
        print(f"pass      tests/test_{name}.py, with nothing changed", flush=True)
    for mutant in chosen:
        outcome = killed(mutant, folder)
        outcome = "explained" if outcome == "survives" and mutant.explained else outcome
        outcomes.setdefault(outcome, []).append(mutant.name)
        print(f"{outcome:9} {mutant.file}: {mutant.name}", flush=True)
    shutil.rmtree(folder)
    print(", ".join(f"{len(names)} {outcome}" for outcome, names in outcomes.items()))
    if set(outcomes) - {"killed", "explained"}:
        sys.exit("some mutants were not killed")


if __name__ == "__main__":
    main()
