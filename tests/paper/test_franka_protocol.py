"""The real client library and wire protocol, against a simulated FR3 on this machine."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

ADDRESS = "127.40.17.3"
TESTS = Path(__file__).parents[1]


@pytest.fixture
def simulated_arm() -> Iterator[str]:
    """The address of a server of `franky-sim`."""
    pytest.importorskip("franky")
    pytest.importorskip("franky_sim")
    command = [sys.executable, "-u", "-m", "franky_sim.run_server", "--simulator", "mujoco", "--hostname", ADDRESS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        assert any("Connect to the server" in line for line in server.stdout)
        try:
            yield ADDRESS
        finally:
            server.send_signal(signal.SIGINT)
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()


@pytest.mark.slow
def test_an_episode_over_the_protocol_succeeds(simulated_arm: str, tmp_path: Path) -> None:
    log = tmp_path / "deploy.jsonl"
    command = [sys.executable, "-m", "imitable", "deploy", "deployment:expert", "--driver", "franky", "--address", simulated_arm]
    dry = subprocess.run([*command, "--log", tmp_path / "dry.jsonl"], cwd=TESTS, capture_output=True, text=True)
    assert dry.returncode == 0, dry.stderr
    assert "nothing was sent to the arm" in dry.stdout
    done = subprocess.run([*command, "--execute", "--log", log], cwd=TESTS, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr
    assert "done after" in done.stdout
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert lines[1]["connected"]["franky-control"]
    episode = [line for line in lines if line.get("phase") == "episode"]
    places, times = np.array([line["tcp"] for line in episode]), np.array([line["robot_time"] for line in episode])
    assert places[-1, 2] <= 0.06
    assert np.abs(places[:, 1]).max() < 1e-3, "joint commands keep the arm in its plane"
    assert min(line["clearance"] for line in episode) > 0.02
    assert np.median(np.diff(times)) == pytest.approx(0.05, abs=0.003)
    still = json.loads((tmp_path / "dry.jsonl").read_text().splitlines()[-2])
    assert np.abs(np.array(still["velocities"])).max() < 0.01
