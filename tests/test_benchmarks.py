"""The benchmarks still start and report."""

import ast
import dataclasses
import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import imitable

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


def test_what_was_measured_of_the_inverse_is_on_the_results_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    page = "\n".join([*(results := importlib.import_module("results")).inverse_section(), *results.verdicts_section()])
    measured, verdicts = (json.loads((BENCHMARKS / name).read_text()) for name in ("inverse.json", "verdicts.json"))
    rows = page.splitlines()
    for section, key in (("solved", "robot"), ("rejects", "robot"), ("clones", "task"), ("costs", "task")):
        assert all(any(row.startswith(f"| {cell[key]} |") for row in rows) for cell in measured.get(section, [])), section
    assert all(any(row.startswith(f"| {cell['task']} |") for row in rows) for cell in verdicts)
    assert results.stock_section()


def test_own_transitions_are_solved_and_own_demonstrations_are_not_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    inverse = importlib.import_module("inverse")
    found = inverse.solve("swimmer/back-disabled", inverse.GAIT, seed=1, transitions=50)
    assert found["clone"]["reached"] == found["true actions lead there"] == 1.0
    assert inverse.rejects("reacher/clockwise", seed=1, count=2)["kinds"]["gait"]["below 0.5"] == 0.0


def test_every_gait_moves_its_robot_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    gaits, names = importlib.import_module("gaits"), importlib.import_module("inverse").STOCK
    assert {*gaits.SHIPPED, "Ant-v5"} == {*names}
    for name in names:
        robot = dataclasses.replace(imitable.robot(name), horizon=20)
        assert (imitable.evaluate(gaits.gait(name), robot, episodes=1, rng=np.random.default_rng(0)).episodes.lengths == 20).all(), name
