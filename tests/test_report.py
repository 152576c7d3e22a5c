"""Pictures and tables: what they show, not how they look."""

from itertools import combinations
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgb

from imitable.report.figures import MOST_NUMBERS, NUMBER, REASON_COLOURS, REASONS, _style, draw_curves, draw_returns, draw_scores
from imitable.report.terminal import print_divergence, print_facts, print_scores, print_table, progress_bar
from imitable.scores import Tolerance
from imitable.scores.feasibility import ramp_down
from imitable.verdicts import INFEASIBLE, KEPT, WORSE, Table, verdicts


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Figures, in place of files."""
    figures: list[Any] = []
    monkeypatch.setattr("imitable.report.figures.write_figure", lambda figure, _: figures.append(figure))
    return figures


def table() -> Table:
    """Six demonstrations: two kept, two that the robot cannot follow, two that are worse than another."""
    feasibility, optimality = np.array([1.0, 0.8, 0.0, 0.0, 1.0, 0.9]), np.array([1.0, 0.9, 1.0, 0.2, 0.01, 0.0])
    found = {
        "demonstration": np.arange(6),
        "source": np.array(["optimal", "suboptimal", "other-dynamics", "mine", "optimal", "mine"]),
        "length": np.full(6, 10),
        "return": np.array([5.0, 4.0, 9.0, 3.0, -50.0, -60.0]),
        "distance": np.array([0.01, 0.02, 0.5, np.inf, 0.0, 0.015]),
        "feasibility": feasibility,
        "rectified_return": np.full(6, 5.0),
        "optimality": optimality,
        "weight": feasibility * optimality,
    }
    return found | {"verdict": verdicts(found)}


def test_what_a_score_without_feasibility_rejects_is_worse() -> None:
    weight = np.array([1.0, 0.0])
    assert verdicts({"weight": weight, "return": np.zeros(2)}).tolist() == [KEPT, WORSE]


def test_every_demonstration_is_kept_or_has_a_reason() -> None:
    assert table()["verdict"].tolist() == [KEPT, KEPT, INFEASIBLE, INFEASIBLE, WORSE, WORSE]


def test_scores_are_drawn_with_a_dot_for_every_demonstration_and_a_bar_for_every_reason(drawn: list[Any], tmp_path: Path) -> None:
    draw_scores(table(), Tolerance(0.01, 0.1), tmp_path / "scores.png", sigma=4.0)
    (figure,) = drawn
    clouds, counts = figure.axes
    assert figure.get_suptitle() == "2 of 6 demonstrations kept"
    dots = np.concatenate([np.asarray(each.get_offsets()) for each in clouds.collections if isinstance(each, PathCollection)])
    assert len(dots) == 6
    numbers = {text.get_text() for text in clouds.texts}
    assert numbers >= {str(number) for number in range(6)}, "each has its number"
    assert np.isfinite(dots).all(), "a replay that broke down is beyond all, but on the picture"
    assert [label.get_text() for label in counts.get_yticklabels()] == ["optimal", "suboptimal", "other-dynamics", "mine"]
    assert [text.get_text() for text in counts.get_legend().get_texts()] == list(REASONS.values())[:3]
    widths = {reason: [bar.get_width() for bar in bars] for reason, bars in zip(REASONS, counts.containers, strict=False)}
    assert widths == {KEPT: [0.5, 1.0, 0.0, 0.0], INFEASIBLE: [0.0, 0.0, 1.0, 0.5], WORSE: [0.5, 0.0, 0.0, 0.5]}


@pytest.mark.parametrize("count", [2, 40, 1500])
@pytest.mark.parametrize("returns", [True, False])
def test_numbers_are_not_in_each_others_way(drawn: list[Any], tmp_path: Path, count: int, returns: bool) -> None:
    rng, few = np.random.default_rng(0), table()
    scores = {name: np.resize(column, count) for name, column in few.items()}
    scores |= {"demonstration": np.arange(count), "distance": 10 ** rng.uniform(-2.2, -1.8, count), "return": rng.normal(0.0, 1.0, count)}
    scores["distance"][0], scores["return"][0] = 3.0, -80.0  # far from all others
    scores["feasibility"] = ramp_down(scores["distance"], Tolerance(0.01, 0.1))
    if not returns:
        scores["return"] = np.full(count, np.nan)
    draw_scores(scores, Tolerance(0.01, 0.1), tmp_path / "scores.png", sigma=4.0)
    (figure,) = drawn
    figure.draw_without_rendering()
    numbers = [text for text in figure.axes[0].texts if text.get_gid() == NUMBER]
    assert 0 < len(numbers) <= MOST_NUMBERS
    assert "0" in {text.get_text() for text in numbers}, "the most solitary one is worth its number"
    assert len(numbers) >= min(count, 8)
    rooms = [text.get_window_extent() for text in figure.axes[0].texts]
    assert not [pair for pair in combinations(rooms, 2) if pair[0].overlaps(pair[1]) and pair[0].width < 40], "small ones are numbers"


def places_of(axes: Any) -> Any:
    return np.concatenate([np.asarray(each.get_offsets()) for each in axes.collections if isinstance(each, PathCollection)])


def test_dots_lie_in_the_zone_of_their_verdict_whatever_their_mean_distance(drawn: list[Any], tmp_path: Path) -> None:
    few = {name: column[:4] for name, column in table().items()}
    scores = few | {
        "source": np.full(4, "mine"),
        "return": np.full(4, np.nan),
        "distance": np.array([0.5, 0.4, 0.09, 0.0]),
        "feasibility": np.array([1.0, 0.67, 0.0, 0.3]),
    }
    draw_scores(scores, Tolerance(0.05, 0.1), tmp_path / "scores.png", sigma=1.0)
    by_number = {int(number): place for place, number in places_of(drawn[0].axes[0])}
    assert by_number[0] <= 0.05
    assert 0.05 < by_number[1] < by_number[3] < 0.1
    assert by_number[2] >= 0.1


@pytest.mark.parametrize("returns", [True, False])
@pytest.mark.parametrize("tolerance", [Tolerance(0.05, 0.098), Tolerance(0.0, 0.1), Tolerance(1e-4, 3.0)])
def test_names_of_regions_are_within_the_picture_and_on_no_dot(
    drawn: list[Any], tmp_path: Path, returns: bool, tolerance: Tolerance
) -> None:
    scores = table() | ({} if returns else {"return": np.full(6, np.nan)})
    draw_scores(scores, tolerance, tmp_path / "scores.png", sigma=4.0)
    axes = drawn[0].axes[0]
    drawn[0].draw_without_rendering()
    whole, rooms = axes.get_window_extent(), [text.get_window_extent() for text in axes.texts if text.get_gid() != NUMBER]
    assert len(rooms) >= 3
    assert all(whole.x0 - 1 <= room.x0 and room.x1 <= whole.x1 + 1 for room in rooms)
    assert not [pair for pair in combinations(rooms, 2) if pair[0].overlaps(pair[1])]
    assert not [room for room in rooms for dot in axes.transData.transform(places_of(axes)) if room.contains(*dot)]


@pytest.mark.parametrize("count", [1, 2, 6, 29, 240])
def test_numbers_of_demonstrations_are_whole(drawn: list[Any], tmp_path: Path, count: int) -> None:
    scores = {name: np.resize(column, count) for name, column in table().items()} | {"return": np.full(count, np.nan)}
    draw_scores(scores, Tolerance(0.05, 0.1), tmp_path / "scores.png", sigma=4.0)
    ticks = drawn[0].axes[0].get_yticks()
    assert ticks.tolist() == [int(tick) for tick in ticks]
    assert ticks[0] == 0
    assert ticks[-1] < count
    assert 1 <= len(ticks) <= 11


def test_the_picture_has_its_size_and_the_colours_of_the_reasons(tmp_path: Path) -> None:
    draw_scores(table(), Tolerance(0.01, 0.1), tmp_path / "scores.png", sigma=4.0)
    image = matplotlib.image.imread(tmp_path / "scores.png")
    assert image.shape[:2] == (702, 1638)
    for reason in (KEPT, INFEASIBLE, WORSE):
        near = np.abs(image[..., :3] - np.array(to_rgb(REASON_COLOURS[reason]))).max(axis=2) < 0.01
        assert near.sum() > 200, f"nothing is drawn for {reason!r}"


@pytest.mark.parametrize("kept", [0, 6])
def test_all_or_nothing_can_be_kept(drawn: list[Any], tmp_path: Path, kept: int) -> None:
    scores = table() | {"weight": np.full(6, float(kept > 0))}
    scores["verdict"] = verdicts(scores)
    draw_scores(scores, Tolerance(0.0, 0.1), tmp_path / "scores.png", sigma=4.0)
    assert drawn[0].get_suptitle() == f"{kept} of 6 demonstrations kept"


def test_one_demonstration_can_be_drawn(tmp_path: Path) -> None:
    draw_scores({name: column[:1] for name, column in table().items()}, Tolerance(0.01, 0.1), tmp_path / "one.png", sigma=0.5)
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")


def test_demonstrations_without_a_return_are_hollow_and_without_any_in_their_order(drawn: list[Any], tmp_path: Path) -> None:
    partly = table() | {"return": np.array([5.0, np.nan, 9.0, 3.0, -50.0, np.nan])}
    draw_scores(partly, Tolerance(0.01, 0.1), tmp_path / "scores.png", sigma=4.0)
    clouds = drawn[0].axes[0]
    dots = [each for each in clouds.collections if isinstance(each, PathCollection)]
    assert sum(len(each.get_offsets()) for each in dots if not len(each.get_facecolors())) == 2
    assert "hollow" in clouds.get_title(loc="left")
    unknown = np.full(6, np.nan)
    draw_scores(table() | {"return": unknown, "rectified_return": unknown}, Tolerance(0.01, 0.1), tmp_path / "scores.png", sigma=1.0)
    clouds = drawn[1].axes[0]
    dots = np.concatenate([np.asarray(each.get_offsets()) for each in clouds.collections if isinstance(each, PathCollection)])
    assert sorted(dots[:, 1]) == list(range(6))


def points(*returns: float) -> list[dict[str, float]]:
    return [{"steps": 10 * number, "mean_return": value} for number, value in enumerate(returns, start=1)]


def test_curves_are_drawn_with_their_mean(drawn: list[Any], tmp_path: Path) -> None:
    draw_curves({"none": [points(1.0, 2.0, 3.0), points(3.0, 4.0)], "ours": [points(5.0)], "waiting": [[]]}, tmp_path / "curves.png")
    (axes,) = drawn[0].axes
    lines = {line.get_label(): (line.get_xdata().tolist(), line.get_ydata().tolist()) for line in axes.lines}
    assert lines == {"none (2 seeds)": ([10, 20], [2.0, 3.0]), "ours": ([10], [5.0])}, "unfinished runs shorten the mean"


def test_returns_are_drawn_for_each_method_and_run(drawn: list[Any], tmp_path: Path) -> None:
    draw_returns({"none": [1.0, 2.0], "ours": [3.0]}, tmp_path / "returns.png", title="ant/x-axis")
    (axes,) = drawn[0].axes
    dots = [np.asarray(each.get_offsets())[:, 1].tolist() for each in axes.collections]
    assert [1.0, 2.0] in dots
    assert [3.0] in dots
    assert [label.get_text() for label in axes.get_xticklabels()] == ["none", "ours"]


# The terminal


def test_a_table_has_a_line_per_row_and_its_columns_below_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("task", "n"), [("driving/slow", "1"), ("ant", "200")])
    assert capsys.readouterr().out.splitlines() == ["task          n", "------------  ---", "driving/slow  1", "ant           200"]


def test_scores_are_printed_by_source(capsys: pytest.CaptureFixture[str]) -> None:
    print_scores(table())
    said = capsys.readouterr().out
    assert "of 6 demonstrations 2 are kept (1 of them the robot can follow only in part), 2 the robot cannot follow, 2 are worse" in said
    print_scores(table())
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()[3:]}
    assert rows["optimal"] == ["2", "-22.5", "1.00", "0.51", "58.4%"]
    assert rows["other-dynamics"] == ["1", "9.0", "0.00", "1.00", "0.0%"]


def test_scores_without_returns_or_weights_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    scores = {name: column for name, column in table().items() if name not in ("optimality", "rectified_return")}
    print_scores(scores | {"weight": np.zeros(6)})
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()[3:]}
    assert rows["optimal"] == ["2", "-22.5", "1.00", "-", "-"]


def test_simulations_that_broke_down_are_told_and_others_are_not(capsys: pytest.CaptureFixture[str]) -> None:
    print_divergence({"assessing": 0, "learning": 0})
    assert capsys.readouterr().err == ""
    print_divergence({"assessing": 3, "learning": 0, "evaluating": 1})
    assert capsys.readouterr().err == "note: simulations diverged and were ended: 3 while assessing, 1 while evaluating\n"


def test_no_bar_is_drawn_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("working") as progress:
        progress(0.5)
    printed = capsys.readouterr()
    assert (printed.out, printed.err.strip()) == ("", "")


def test_every_source_has_its_own_style() -> None:
    sources = [f"source {number}" for number in range(30)]
    assert len({_style(source, sources) for source in sources}) == 30


@pytest.mark.parametrize("hides_state", [False, True])
def test_hidden_state_is_told_beside_the_verdicts(hides_state: bool, capsys: pytest.CaptureFixture[str]) -> None:
    facts = {
        "window": 5,
        "tolerance": [0.05, 0.1],
        "noise": 0.0,
        "rounded_to": 0.0,
        "false_reject_rate": 0.05,
        "realised_false_reject_rate": 0.0,
        "hides_state": hides_state,
    }
    print_facts(facts, count=3)
    assert ("depend on more than the observations show" in capsys.readouterr().err) == hides_state
