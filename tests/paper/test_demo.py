"""The built-in example, end to end, and what it drew."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from imitable import cli
from imitable.assessment import Exploration
from imitable.inverse_dynamics import Learned
from imitable.learners import Cloning
from imitable.paper import driving
from imitable.paper.driving_figure import COLLIDED, LATE, LEFT, OUTCOME_COLOURS, OUTCOMES, REACHED, draw_paths, driving_outcomes
from imitable.paper.tasks import find_task
from imitable.report.figures import REASON_COLOURS
from imitable.rollouts import run_episodes
from imitable.store.files import read_table
from imitable.verdicts import UNRATED

Run = Callable[..., str]


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `imitable demo`; what it printed."""

    def run(*arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", ["imitable", "demo", *map(str, arguments)])
        cli.main()
        return capsys.readouterr().out

    return run


def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example's task with a learner and an inverse dynamics that learn for seconds."""
    task = replace(
        find_task("driving/slow"),
        exploration=Exploration(episodes=60),
        model=Learned(epochs=5),
        learners={"cloning": Cloning(updates=300, checkpoint_every=300, hidden_sizes=(32, 32))},
    )
    monkeypatch.setattr("imitable.paper.demo.find_task", lambda _: task)


def pixels(image: np.ndarray, colour: str) -> int:
    """How many pixels of a picture have this colour."""
    return int((np.abs(image[..., :3] - np.array(to_rgb(colour))).max(axis=2) < 0.01).sum())


def check_pictures(folder: Path) -> None:
    rejected, paths = (matplotlib.image.imread(folder / name) for name in ("rejected.png", "paths.png"))
    assert rejected.shape[:2] == (702, 1638)
    assert paths.shape[:2] == (871, 1170)
    for image in (rejected, paths):
        assert image.std() > 0.05, "the picture is blank"
    for reason, colour in REASON_COLOURS.items():
        if reason == UNRATED:  # in the example all have returns
            continue
        assert pixels(rejected, colour) > 500, f"nothing was rejected, or kept: {reason}"
    assert pixels(paths, OUTCOME_COLOURS[REACHED]) > 200, "the goal is not drawn"
    assert pixels(paths, "#4a4a4a") > 200, "the obstacle is not drawn"


def test_the_demo_runs_both_methods_and_draws_what_came_out(demo: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hasty(monkeypatch)
    monkeypatch.setenv("IMITABLE_CACHE", str(tmp_path / "cache"))
    out = demo("-o", tmp_path / "demo")
    assert {path.name for path in (tmp_path / "demo").iterdir()} == {"none", "ours", "rejected.png", "paths.png"}
    header, _, *rows = out.splitlines()[:4]
    assert header.split()[:3] == ["method", "mean", "return"]
    assert [row.split()[0] for row in rows] == ["none", "ours"]
    assert rows[0].split()[-3:] != rows[1].split()[-3:], "both methods draw from the same demonstrations alike"
    assert str(tmp_path / "demo" / "rejected.png") in out
    assert str(tmp_path / "demo" / "paths.png") in out
    weights = read_table(tmp_path / "demo" / "ours" / "scores.parquet")
    assert (weights["weight"][weights["source"] == "other-dynamics"] == 0).all()
    check_pictures(tmp_path / "demo")
    again = demo("-o", tmp_path / "demo")
    assert again == out, "a second time gives the same"


@pytest.mark.slow
def test_the_demo_shows_that_the_right_demonstrations_are_worth_more(demo: Run, tmp_path: Path) -> None:
    out = demo("-o", tmp_path)
    none, ours = (row.split() for row in out.splitlines()[2:4])
    assert float(ours[1]) > float(none[1]) + 100
    assert float(ours[1]) > 20
    assert int(ours[2].rstrip("%")) > 90
    check_pictures(tmp_path)


def test_outcomes_of_drives_are_told_apart() -> None:
    def drives(steering: Callable[[np.ndarray], np.ndarray], *, horizon: int = 300):
        return run_episodes(replace(driving.SLOW, horizon=horizon), steering, count=300, rng=np.random.default_rng(0)).trajectories

    def straight(seen: np.ndarray) -> np.ndarray:
        return np.zeros((len(seen), 1))

    rng = np.random.default_rng(0)
    good = driving_outcomes(drives(lambda seen: driving.drive(seen, rng)))
    assert (good == OUTCOMES.index(REACHED)).all()
    late = driving_outcomes(drives(straight, horizon=3))
    assert (late == OUTCOMES.index(LATE)).mean() > 0.8
    made = drives(straight)
    outcomes = driving_outcomes(made)
    assert {OUTCOMES[number] for number in outcomes} >= {COLLIDED, LEFT}
    assert (made.returns[outcomes == OUTCOMES.index(LEFT)] < -9000).all()
    assert (made.returns[outcomes == OUTCOMES.index(COLLIDED)] < -900).all()
    assert (made.returns[outcomes == OUTCOMES.index(REACHED)] > -300).all()


def test_drives_of_several_policies_are_drawn_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = []
    monkeypatch.setattr("imitable.paper.driving_figure.write_figure", lambda figure, _: figures.append(figure))
    rng = np.random.default_rng(0)
    good = run_episodes(driving.SLOW, lambda seen: driving.drive(seen, rng), count=20, rng=np.random.default_rng(0)).trajectories
    draw_paths({"one": good, "other": good, "third": good}, tmp_path / "paths.png", shown=5)
    (figure,) = figures
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["one", "other", "third"]
    paths = [line for line in figure.axes[1].lines if len(line.get_xdata()) > 1]
    assert len(paths) == 5
    assert any("100% reach the goal" in text.get_text() for text in figure.axes[1].texts), "titles count all drives"
