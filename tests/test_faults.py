"""The campaign of faults, a small part of each; `make faults` runs all of it."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_nothing_is_lost_and_nothing_is_believed() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, ROOT / "benchmarks" / "faults.py", "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=1500)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    rows = re.findall(r"^\| ([a-z0-9 -]+) \| (\d+) \| (\d+) \| 0 \|", done.stdout, re.M)
    parts = ["damaged files", "hostile files", "crashes and errors", "kill -9", "two processes", "full disks"]
    assert [name for name, *_ in rows] == parts
    assert all(tried == clean and int(tried) > 0 for _, tried, clean in rows)
