"""The benchmarks still start and report."""

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.mark.parametrize("part", ["stepping", "scoring", "neighbours", "updating"])
def test_the_speed_benchmark_prints_its_table(part: str) -> None:
    command = [sys.executable, BENCHMARKS / "speed.py", "--quick", "--only", part]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "measured" in done.stdout
    assert len(done.stdout.strip().splitlines()) >= 2


def test_the_cost_of_the_store_is_measured(tmp_path: Path) -> None:
    small = ["--only", "reading", "--megabytes", "1", "--reads", "1", "--folder", tmp_path]
    done = subprocess.run([sys.executable, BENCHMARKS / "store_cost.py", *small], capture_output=True, text=True, check=False)
    assert [line.split(" | ")[1] for line in done.stdout.splitlines()[2:]] == ["numpy.load"] * 2, done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", sorted(BENCHMARKS.rglob("*.py")), ids=lambda path: path.stem)
def test_what_a_benchmark_imports_of_the_package_is_there(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "imitable":
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")


def test_the_interactive_page_holds_every_task_with_runs_and_sends_nothing(tmp_path: Path) -> None:
    command = [sys.executable, BENCHMARKS / "results_html.py", tmp_path / "page.html"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "page.html").read_text()
    tasks = {json.loads(path.read_text())["config"]["task"] for path in (BENCHMARKS / "results" / "table").glob("*.json")}
    assert all(f"<h2>{task}</h2>" in page for task in tasks)
    assert page.count('"showSendToCloud": false') == page.count('"displaylogo": false') >= len(tasks)
    assert 'src="http' not in page


def test_what_was_measured_of_robots_and_conventions_makes_tables() -> None:
    sections = "results.stock_section() + results.conventions_section() + results.own_robot_section()"
    command = [sys.executable, "-c", f"import results; print('\\n'.join({sections}))"]
    done = subprocess.run(command, cwd=BENCHMARKS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    for name in ("stock_robots", "conventions"):
        for each in json.loads((BENCHMARKS / f"{name}.json").read_text()):
            assert any(each["robot"] in row for row in rows)
    assert "| HalfCheetah-v5 " in done.stdout  # which lacks one of the kinds
