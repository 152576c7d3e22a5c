"""Commands in processes of their own: signals, sweeps, and how fast they start."""

import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from imitable import cli
from imitable.formats import npz
from imitable.networks import Mlp, Policy
from imitable.paper.run import collected
from imitable.paper.tasks import find_task

TINY = [part for change in ("updates=20", "checkpoint_every=10", "episodes=10") for part in ("--set", change)]


def process(*arguments: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "imitable", *map(str, arguments)]
    heed = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}  # ignored signals are inherited
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **heed)


@pytest.fixture(scope="module")
def demos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty demonstrations of driving/slow."""
    path = tmp_path_factory.mktemp("demos") / "demos.npz"
    npz.write(collected(find_task("driving/slow"), seed=0, count=40), path)
    return path


def call(arguments: list[object], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, and what was printed, of a command in this process."""
    monkeypatch.setattr(sys, "argv", ["imitable", *map(str, arguments)])
    code = 0
    try:
        cli.main()
    except SystemExit as stop:
        code = int(stop.code or 0)
    return code, *capsys.readouterr()


def test_control_c_in_mid_run_keeps_what_was_done_and_resumes_to_the_same_bytes(demos: Path, tmp_path: Path) -> None:
    changes = ("updates=600", "checkpoint_every=100", "episodes=10")
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
    assert snapshot.exists()
    kept = len(json.loads((tmp_path / "cut" / "curve.json").read_text())["checkpoints"])
    assert 1 <= kept < 6
    resuming, whole = process(*command("cut"), "--resume"), process(*command("whole"))
    for each in (resuming, whole):
        out, err = each.communicate(timeout=200)
        assert each.returncode == 0, err
    assert f"{tmp_path / 'whole'}: mean return" in out
    for name in ("config.json", "curve.json", "policy.safetensors", "scores.parquet"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_a_sweep_runs_its_grid_reports_what_failed_and_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["sweep", "--tasks", "driving/slow", "--methods", "none", "feasibility", "--seeds", "0", "-o", tmp_path, *TINY]
    # This cell was begun with other settings, so it cannot be resumed.
    stuck = tmp_path / "driving-slow" / "none" / "seed-0"
    stuck.mkdir(parents=True)
    (stuck / "config.json").write_text(json.dumps({"task": "driving/slow", "method": "none", "seed": 0, "learner": {}}))
    (stuck / "result.json").write_text(json.dumps({"mean_return": 1234.5}))  # finished or not, it is not of this grid
    code, out, err = call(command, monkeypatch, capsys)
    assert code == 2
    assert all(part in err for part in ("failed: driving/slow none seed 0", "was started with", "1 of 2 runs failed"))
    done = tmp_path / "driving-slow" / "feasibility" / "seed-0"
    assert (done / "result.json").exists()
    rows = [line.split() for line in out.splitlines() if line.startswith("driving/slow")]
    assert [row[1] for row in rows] == ["feasibility"]
    stamp = (done / "policy.safetensors").stat().st_mtime_ns
    (stuck / "config.json").unlink()
    (stuck / "result.json").unlink()
    code, out, err = call(command, monkeypatch, capsys)
    assert code == 0, err
    assert (done / "policy.safetensors").stat().st_mtime_ns == stamp, "a finished cell was run again"
    rows = [line.split() for line in out.splitlines() if line.startswith("driving/slow")]
    assert sorted(row[1] for row in rows) == ["feasibility", "none"]
    assert "interquartile mean" in out
    mean = json.loads((done / "result.json").read_text())["mean_return"]
    assert f"{mean:.1f}" in next(" ".join(row) for row in rows if row[1] == "feasibility")


def test_a_sweep_passes_learner_inverse_and_overrides_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import turntable

    monkeypatch.setenv("PYTHONPATH", str(Path(turntable.__file__).parent), prepend=os.pathsep)
    changes = [part for change in ("rounds=1", "trpo.batch_size=300", "episodes=10") for part in ("--set", change)]
    options = ["--learner", "gail", "--inverse", "turntable:ExactModel", "--seeds", "3", *changes]
    code, _, err = call(["sweep", "--tasks", "driving/slow", "--methods", "none", "-o", tmp_path, *options], monkeypatch, capsys)
    assert code == 0, err
    config = json.loads((tmp_path / "driving-slow" / "none" / "seed-3" / "config.json").read_text())
    assert config["learner"]["kind"] == "imitable.learners.gail.Gail"
    assert config["model"]["kind"] == "turntable.ExactModel"
    assert (config["seed"], config["learner"]["rounds"], config["exploration"]["episodes"]) == (3, 1, 10)


def test_kill_9_of_a_sweep_and_its_run_loses_at_most_what_was_learned_since_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = [part for change in ("updates=1000", "checkpoint_every=200", "episodes=10") for part in ("--set", change)]
    command = ["sweep", "--tasks", "driving/slow", "--methods", "none", "--seeds", "0", "-o", tmp_path / "sweep", *changes]
    folder = tmp_path / "sweep" / "driving-slow" / "none" / "seed-0"
    driver, patience = process(*command), time.monotonic() + 100
    while not (folder / "snapshot.npz").exists() and driver.poll() is None and time.monotonic() < patience:
        time.sleep(0.01)
    children = Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split()
    for number in (driver.pid, *map(int, children)):
        with suppress(ProcessLookupError):  # a run may end with its sweep
            os.kill(number, signal.SIGKILL)
    driver.communicate(timeout=60)
    assert len(children) == 1
    assert driver.returncode == -signal.SIGKILL
    assert not (folder / "result.json").exists(), "it had finished before it was killed"
    before = json.loads((folder / "curve.json").read_text())["checkpoints"]
    assert 1 <= len(before) < 5
    code, out, _ = call([*command, "--print"], monkeypatch, capsys)
    left = ["imitable", "run", "driving/slow", "--method", "none", "--seed", "0", "-o", str(folder), *changes, "--resume"]
    assert (code, out) == (0, f"{shlex.join(left)}\n")
    code, _, err = call(command, monkeypatch, capsys)
    assert code == 0, err
    code, _, err = call(["run", "driving/slow", "--method", "none", "-o", tmp_path / "whole", *changes], monkeypatch, capsys)
    assert code == 0, err
    assert json.loads((folder / "curve.json").read_text())["checkpoints"][: len(before)] == before, "what was there was made again"
    for name in ("config.json", "curve.json", "policy.safetensors", "scores.parquet"):
        assert (folder / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    code, out, err = call([*command, "--verify", 3], monkeypatch, capsys)
    assert (code, out) == (0, f"{folder}: identical\n"), err
    assert call([*command, "--print"], monkeypatch, capsys) == (0, "", ""), "nothing is left to run"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to run; give --tasks and --methods, or --study"),
        (["--study", "table", "--set", "sigma=3"], "a study has its own settings; leave out --set sigma=3, or the study"),
        (["--study", "table", "--verify", 1], "no run of this grid is finished"),
        (["--study", "tabel"], "unknown study 'tabel'; did you mean table"),
    ],
)
def test_a_grid_that_makes_no_sense_is_refused(
    arguments: list[object], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = call(["sweep", "-o", tmp_path, *arguments], monkeypatch, capsys)
    assert code == 2
    assert message in err


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
    commands = ("tasks", "methods", "collect", "score", "run", "evaluate", "sweep", "expert", "cache", "demo")
    assert all(name in done.stdout for name in commands)


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["score", "--help"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-X", "importtime", "-m", "imitable", *arguments], capture_output=True, text=True, check=True)
    imported = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "imitable.cli" in imported
    assert not imported & {"torch", "mujoco", "matplotlib", "pyarrow", "scipy"}


def test_the_module_and_the_script_say_the_same() -> None:
    script = Path(sys.executable).parent / "imitable"
    environment = {**os.environ, "COLUMNS": "100"}
    outputs = [
        subprocess.run([*command, "--help"], capture_output=True, text=True, check=True, env=environment).stdout
        for command in ([sys.executable, "-m", "imitable"], [str(script)])
    ]
    assert outputs[0] == outputs[1]
    assert "usage: imitable" in outputs[0]


def test_an_error_has_exit_code_two_and_no_traceback() -> None:
    running = process("collect", "driving/slwo", "-o", "nowhere.npz")
    out, err = running.communicate(timeout=60)
    assert running.returncode == 2
    assert out == ""
    assert err.startswith("error: unknown task 'driving/slwo'; did you mean driving/slow")
    assert len(err.splitlines()) == 1


def test_scores_do_not_depend_on_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import turntable

    npz.write(turntable.mixed(), tmp_path / "turns.npz")
    command = ["score", tmp_path / "turns.npz", "--robot", "turntable:CLOCKWISE", "--inverse", "turntable:ExactModel"]
    monkeypatch.setenv("PYTHONPATH", str(Path(turntable.__file__).parent), prepend=os.pathsep)
    monkeypatch.setenv("IMITABLE_CACHE", str(tmp_path / "cache"))
    code, _, err = call([*command, "-o", tmp_path / "here"], monkeypatch, capsys)
    assert code == 0, err
    monkeypatch.setenv("IMITABLE_CACHE", str(tmp_path / "other cache"))
    elsewhere = process(*command, "-o", tmp_path / "elsewhere")
    _, err = elsewhere.communicate(timeout=100)
    assert elsewhere.returncode == 0, err
    for name in ("scores.parquet", "scores.png"):
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "elsewhere" / name).read_bytes()
    caches = [{path.name for path in (tmp_path / name).iterdir()} for name in ("cache", "other cache")]
    assert caches[0] == caches[1], "the same parts have the same names wherever they were made"


# Nothing ends in a traceback


def test_a_full_disk_and_a_reader_who_has_enough_end_in_a_line() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([sys.executable, "-m", "imitable", "methods"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, "error: the output: No space left on device\n")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "imitable", "methods"], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("module", ["imitable._command", "numpy", "imitable.demonstrations", "imitable.cli", "torch.types"])
def test_control_c_while_it_starts_ends_it_without_a_traceback(module: str, tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "imitable", "collect", "driving/slow", "-o", str(tmp_path / "demos.npz")]
    heed = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.default_int_handler)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **heed) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if line.rsplit("|", 1)[-1].strip() == module:
                break
        running.send_signal(signal.SIGINT)
        rest = [line for line in running.stderr if not line.startswith("import time:")]
    assert running.returncode in (-signal.SIGINT, 130), rest
    assert not rest or rest[0].startswith("interrupted;"), rest


STOPPED_TWICE = """
import atexit, os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)  # as where a command starts
from imitable import cli
cli.app.cli = lambda **_: os.kill(os.getpid(), int(sys.argv[1]))
atexit.register(lambda: os.kill(os.getpid(), int(sys.argv[2])))
cli.main()
"""


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_second_signal_while_it_ends_is_quiet(first: signal.Signals, second: signal.Signals) -> None:
    done = subprocess.run([sys.executable, "-c", STOPPED_TWICE, str(first), str(second)], capture_output=True, text=True, timeout=60)
    assert done.returncode == -second
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("interrupted") == (first == signal.SIGINT)


def test_names_are_shown_without_their_control_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("\x1b[31mred.npz", "two\nlines.npz", "\udcff.npz"):
        code, out, err = call(["score", tmp_path / name, "--robot", "driving/slow", "-o", tmp_path], monkeypatch, capsys)
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 1
        assert err.strip().isprintable()
        assert name.encode("unicode_escape").decode() in err


SWEEP = """
import signal, subprocess, sys
from pathlib import Path
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where the tests run under nohup
import imitable.paper.sweep as sweep
start = subprocess.Popen
def popen(command, **options):
    process = start([sys.executable, "-c", sys.argv[2]], **options)
    print(process.pid, flush=True)
    return process
subprocess.Popen = popen
sweep.sweep(sweep.cells(["driving/slow"], ["none", "ours"], [0], root=Path(sys.argv[1])), workers=2)
"""
RUN = "import time; from imitable.paper.engines import end_with_parent; end_with_parent(); print('ready', flush=True); time.sleep(600)"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_the_runs_of_a_sweep_end_with_it_however_it_ends(tmp_path: Path, number: signal.Signals) -> None:
    sweep = subprocess.Popen([sys.executable, "-c", SWEEP, str(tmp_path), RUN], stdout=subprocess.PIPE, text=True)
    assert sweep.stdout is not None
    runs = [int(sweep.stdout.readline()) for _ in range(2)]
    patience = time.monotonic() + 60
    logs = list(tmp_path.glob("driving-slow/*/seed-0/log.txt"))
    while not all("ready" in log.read_text() for log in logs) and time.monotonic() < patience:
        time.sleep(0.05)
    assert len(logs) == 2
    sweep.send_signal(number)
    sweep.wait(timeout=60)
    sweep.stdout.close()
    while any(alive(run) for run in runs) and time.monotonic() < patience:
        time.sleep(0.05)
    assert not [run for run in runs if alive(run)]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


def test_a_run_whose_sweep_is_gone_does_not_begin() -> None:
    gone = {**os.environ, "IMITABLE_PARENT": "1"}
    done = subprocess.run([sys.executable, "-c", RUN], env=gone, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (143, "")


@pytest.mark.parametrize(
    "content", ["{}", "[]", '{"task": "driving/slow"}', '{"task": 3, "method": "none"}', '{"robot": "driving/slow", "method": 1}']
)
def test_a_run_with_a_damaged_configuration_is_not_evaluated(
    content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    network, zeros, ones = Mlp((2, 1)), np.zeros(2), np.ones(2)
    policy = Policy.fresh(network, center=zeros, scale=ones, low=-ones[:1], high=ones[:1], rng=np.random.default_rng(0))
    policy.save(tmp_path / "policy.safetensors")
    (tmp_path / "config.json").write_text(content)
    code, _, err = call(["evaluate", tmp_path], monkeypatch, capsys)
    assert code == 2, err
    assert "config.json is damaged" in err
