"""The benchmarks still start and report."""

import subprocess
import sys
from pathlib import Path

import pytest

SPEED = Path(__file__).parent.parent / "benchmarks" / "speed.py"


@pytest.mark.parametrize("part", ["stepping", "scoring", "neighbours", "updating"])
def test_the_speed_benchmark_prints_its_table(part: str) -> None:
    done = subprocess.run([sys.executable, SPEED, "--quick", "--only", part], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "measured" in done.stdout
    assert len(done.stdout.strip().splitlines()) >= 2
