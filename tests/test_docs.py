"""Every Python and console block of the README and the docs runs, and prints what the page says, but for the numbers."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)


def blocks(page: Path) -> list[tuple[str, str]]:
    return [match for match in BLOCK.findall(page.read_text()) if match[0] in ("python", "console")]


def masked(text: str) -> list[str]:
    """Lines without their numbers and the widths that follow from them."""
    return [re.sub(r"[\s-]+", " ", re.sub(r"-?\d[\d.,]*", "#", line)).strip() for line in text.strip().splitlines()]


def run(code: list[str], folder: Path) -> str:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(code, cwd=folder, capture_output=True, text=True, env={**os.environ, "PATH": path}, timeout=600)
    assert done.returncode == 0, f"{' '.join(code)[-300:]}\n{done.stderr[-3000:]}"
    return done.stdout


LONG = "your-own-robot.md"
QUICK = {"python benchmarks/own_robot.py data": "--quick", "imitable train": "--set updates=300", "imitable evaluate": "--episodes 5"}
"""What makes the commands of the long page short, so that it can be run with the fast tests, without looking at its numbers."""


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page) and page.name != LONG], ids=lambda page: page.name)
def test_every_block_runs(page: Path, tmp_path: Path) -> None:
    python = [content for kind, content in blocks(page) if kind == "python"]
    if python:
        run([sys.executable, "-W", "error", "-c", "\n".join(python)], tmp_path)
    for command, output in commands(page):
        assert masked(run(command.split(), tmp_path)) == masked(output), command


def commands(page: Path) -> list[tuple[str, str]]:
    """Of the console blocks, and what they print."""
    consoles = [content for kind, content in blocks(page) if kind == "console"]
    return [found for content in consoles for found in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n?)*)", content, re.M)]


def test_the_unit_of_distances_is_told_where_it_first_appears() -> None:
    text = (ROOT / "docs" / LONG).read_text()
    told, used = (text.index(words) for words in ("*of a step*: in each column", "of a step ("))
    assert "## " not in text[used:told], "in another section"
    assert "standard deviation of what one step of the robot itself, under random\nactions, changes there" in text[told:]
    helped = run([sys.executable, "-m", "imitable", "score", "--help"], ROOT)
    assert '"of a step"' in helped
    assert "standard deviation" in helped


@pytest.mark.parametrize("quick", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_the_page_for_ones_own_robot_runs(tmp_path: Path, quick: bool) -> None:
    page = ROOT / "docs" / LONG
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    for command, output in commands(page):
        more = next((option for start, option in QUICK.items() if command.startswith(start)), "") if quick else ""
        printed = run([*command.split(), *more.split()], tmp_path)
        assert quick or masked(printed) == masked(output), command
    python = [content for kind, content in blocks(page) if kind == "python"]
    run([sys.executable, "-W", "error", "-c", "\n".join(python)], tmp_path)
