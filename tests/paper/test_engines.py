"""Where runs take place makes no difference to what comes out, and none outlives its sweep."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from imitable.errors import ImitableError
from imitable.paper.engines import Launch, RayJob, find_launch, launch_process
from imitable.paper.sweep import Settings, cells, sweep

SMALL = Settings(overrides=("updates=200",), count=40, episodes=5)


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    found = pytest.importorskip("ray")
    yield found
    found.shutdown()


def engines() -> list[Any]:
    return [pytest.param("processes"), pytest.param("ray", marks=pytest.mark.slow)]


@pytest.fixture(params=engines())
def launch(request: pytest.FixtureRequest) -> Launch:
    if request.param == "ray":
        request.getfixturevalue("ray")
    return find_launch(request.param, workers=2)


def test_a_job_says_when_it_is_done_and_how_and_what_it_printed(launch: Launch, tmp_path: Path) -> None:
    job = launch(
        [sys.executable, "-S", "-c", "import os; print('told', os.environ['OMP_NUM_THREADS']); raise SystemExit(3)"], tmp_path / "log"
    )
    assert job.wait(60) == 3
    assert job.poll() == 3
    assert (tmp_path / "log").read_text() == "told 1\n"


def test_a_job_that_is_stopped_ends(launch: Launch, tmp_path: Path) -> None:
    started = tmp_path / "started"
    program = f"open({str(started)!r}, 'w'); import time; time.sleep(600)"
    job = launch([sys.executable, "-S", "-E", "-c", program], tmp_path / "log")
    while not started.exists():
        time.sleep(0.05)
    assert job.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        job.wait(0.1)
    job.terminate()
    assert job.wait(60) != 0


@pytest.mark.slow
def test_a_sweep_on_ray_has_the_same_bytes(ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMITABLE_CACHE", str(tmp_path / "cache"))
    found = {}
    for engine in ("processes", "ray"):
        grid = cells(["driving/slow"], ["none", "ours"], [0], root=tmp_path / engine, settings=SMALL)
        assert not sweep(grid, workers=2, launch=find_launch(engine, workers=2))
        found[engine] = [(cell.folder / name).read_bytes() for cell in grid for name in ("policy.safetensors", "curve.json")]
    assert found["ray"] == found["processes"]


def test_without_ray_the_way_to_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImitableError, match=r"--engine ray needs Ray; install it with: pip install 'imitable\[ray\]'"):
        find_launch("ray", workers=1)


def test_a_worker_that_is_lost_counts_as_a_run_that_was_killed() -> None:
    class RayError(Exception):
        pass

    def lost(code: object, timeout: float | None) -> int:
        raise RayError

    fake = SimpleNamespace(
        get=lost, wait=lambda codes, timeout: (codes, []), exceptions=SimpleNamespace(RayError=RayError, GetTimeoutError=TimeoutError)
    )
    assert RayJob(fake, object()).poll() == -9


def test_processes_are_the_default() -> None:
    assert find_launch("processes", workers=2) is launch_process
