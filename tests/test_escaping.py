"""What is shown of names that come from files."""

import numpy as np
import pytest

from imitable.report.escaping import escaped, fold_sources, for_html, for_picture
from imitable.report.terminal import print_line, print_table


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ä 日本", "plain ä 日本"),
        ("\x1b[31mred", r"\x1b[31mred"),
        ("two\nlines\r\t", r"two\nlines\r\t"),
        ("left\u202eright", r"left\u202eright"),
        ("\udcff", r"\udcff"),
        ("x" * 60, "x" * 60),
        ("a" * 100 + "b" * 100, "a" * 29 + "…" + "b" * 30),
        (b"bytes", "b'bytes'"),
    ],
)
def test_control_characters_are_written_out_and_long_names_cut(text: object, shown: str) -> None:
    assert escaped(text) == shown


@pytest.mark.parametrize("count", [59, 60, 61, 10_000, 1_000_000])
def test_whatever_it_is_given_it_stays_short(count: int) -> None:
    for each in ("\x1b", "\U000e0001", "x", "\udcff"):
        assert len(escaped(each * count)) <= 4 * 60 or count <= 60
        assert escaped(each * count).isprintable()


def test_a_table_and_a_line_stay_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("source", "count"), [("a\nb\x1b[2J", "1"), ("c" * 1000, "2")])
    print_line("all\nin one")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert all(line.isprintable() and len(line) < 200 for line in lines)


def test_pictures_take_no_name_for_a_formula() -> None:
    from io import BytesIO

    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.subplots()
    names = [r"$\frac{$", "$", "a$b$c", r"\$x$", "$" * 200, "\x1b$"]
    axes.set_yticks(range(len(names)), [for_picture(name) for name in names])
    figure.savefig(BytesIO(), format="png")


def test_pages_take_no_name_for_markup() -> None:
    assert for_html("<script>\x00&\"'") == r"&lt;script&gt;\x00&amp;&quot;&#x27;"


def test_many_sources_are_counted_together() -> None:
    labels = np.array(["common"] * 5 + [f"operator {number}" for number in range(100)])
    folded = fold_sources(labels)
    assert len(np.unique(folded)) == 20
    assert (folded == "common").sum() == 5
    assert (folded == "82 other sources").sum() == 82
    assert fold_sources(labels[:20]) is not None
    assert np.array_equal(fold_sources(labels[:20]), labels[:20])
