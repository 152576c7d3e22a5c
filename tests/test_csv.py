"""Demonstrations as comma-separated text: the layout, and what is said of files that do not keep to it."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.formats import csv, read
from strategies import demonstration_sets


def reading(tmp_path: Path, text: str) -> Demonstrations:
    (tmp_path / "demos.csv").write_text(text)
    return read(tmp_path / "demos.csv")


@settings(max_examples=20, deadline=None)
@given(demonstration_sets())
def test_reading_what_was_written_changes_nothing(tmp_path_factory: pytest.TempPathFactory, given: Demonstrations) -> None:
    given = Demonstrations(given.observations, given.lengths, given.returns, [f"of {index}" for index in range(len(given))])
    path = tmp_path_factory.mktemp("csv") / "demos.csv"
    csv.write(given, path)
    found = csv.read(path)
    assert np.array_equal(found.observations, given.observations)
    assert np.array_equal(found.lengths, given.lengths)
    assert np.array_equal(found.returns, given.returns, equal_nan=True)
    assert found.sources == given.sources


def test_times_are_read_in_seconds_whatever_they_are_called(tmp_path: Path) -> None:
    given = Demonstrations([[0.0], [1.0], [2.0], [3.0], [4.0]], [1, 2], times=[0.0, 0.1, 0.0, np.nan, 0.2], observation_names=["hip"])
    csv.write(given, tmp_path / "timed.csv")
    assert np.array_equal(csv.read(tmp_path / "timed.csv").times, given.times, equal_nan=True)
    day = reading(tmp_path, "hip,timestamp\n1,2026-11-18 10:00:00.5\n2,2026-11-18 10:00:01\n")
    assert np.diff(day.times).tolist() == [0.5]
    assert day.observation_names == ("hip",)
    for cells in (("0", "0"), ("noon", "later"), ("", "")):
        assert reading(tmp_path, "hip,time\n" + "".join(f"1,{cell}\n" for cell in cells)).times is None, "which tells nothing"


def test_two_columns_may_say_which_rows_belong_together_if_they_agree(tmp_path: Path) -> None:
    assert reading(tmp_path, "demonstration,episode,hip\n0,7,1\n0,7,2\n1,8,3\n1,8,4\n").lengths.tolist() == [1, 1]


def test_every_column_has_its_meaning(tmp_path: Path) -> None:
    rows = ["7,0,0.5,1,0,3.5,Ann", "7,1,0.75,2,0,3.5,Ann", "9,0,1,3,0,,Bob", "9,1,2,4,0,,Bob", "9,2,3,5,0,,Bob"]
    found = reading(tmp_path, "\n".join(["episode,step,hip,knee,action 0,return,source", *rows]))
    assert found.observation_names == ("hip", "knee")
    assert found.observations.tolist() == [[0.5, 1], [0.75, 2], [1, 3], [2, 4], [3, 5]]
    assert found.lengths.tolist() == [1, 2]
    assert found.returns[0] == 3.5
    assert np.isnan(found.returns[1])
    assert found.sources == ("Ann", "Bob")


def test_a_file_without_numbers_is_one_demonstration_and_a_folder_one_for_each_file(tmp_path: Path) -> None:
    assert reading(tmp_path, "hip\n1\n2\n3\n").lengths.tolist() == [2]
    (tmp_path / "more.csv").write_text("hip\n4\n5\n")
    assert read(tmp_path).lengths.tolist() == [2, 1]


def test_a_file_without_a_header_holds_unnamed_columns(tmp_path: Path) -> None:
    for text in ("1,2\n3,4.5\n", "\n1,2\n3,4.5\n", "\ufeff1,2\n3,4.5", '"1","2"\r\n3,4.5\r\n'):
        found = reading(tmp_path, text)
        assert found.observations.tolist() == [[1, 2], [3, 4.5]]
        assert found.observation_names is None


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [(("1", "2", ""), 3.0), (("", "1", "2"), 3.0), (("1", "2", "4"), 7.0), (("1", "", "2"), np.nan), (("", "", ""), np.nan)],
)
def test_rewards_are_added_up_unless_one_is_missing_in_between(tmp_path: Path, rewards: tuple[str, ...], expected: float) -> None:
    found = reading(tmp_path, "hip,reward\n" + "".join(f"0,{each}\n" for each in rewards))
    assert found.returns[0] == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot read .*demos.csv"),
        ("hip\n", "there are no rows"),
        ("hip\n1\n", "demonstration 0 has length 0; a demonstration needs at least one transition"),
        ("hip,knee\n1,2\n3\n", "cannot read .*Expected 2 columns, got 1"),
        ("Episode_ID,hip\n1,2\n2,3\n", "column 'Episode_ID' looks like the number of the demonstration; call it 'demonstration'"),
        ("hip,knee\n1,2\n3,much\n", "line 3 has 'much' in column 'knee', which is not a number"),
        ("hip,knee\n1,2\n3,\n4,5\n", "demonstration 0 has nan in column 'knee' of observation 1"),
        ("hip,knee\n1,2\n3,NaN\n4,5\n", "demonstration 0 has nan in column 'knee' of observation 1"),
        ("hip,hip\n1,2\n3,4\n", "two columns 'hip'"),
        ("hip;knee\n1;2\n3;4\n", "demos.csv separates its columns by ';'; separate them by commas"),
        ("1\t2\n3\t4\n", r"demos.csv separates its columns by '\\t'; separate them by commas"),
        ("hip,\n1,2\n3,4\n", "a column without a name"),
        ("hip,knee,knee,\n1,2,3,4\n3,4,5,6\n", "a column without a name"),
        (f"{',' * 10_000}\n", "has 10001 columns, more than the 10000 that such a file may have"),
        (f'\n"a\nb"{",c" * 10_000}\n', "has 10001 columns, more than the 10000"),
        ("hip,time\n0,0.1\n1,0.2\n2,0\n", "line 4 has time 0 after 0.2, step 1 of demonstration 0; number the demonstrations in a column"),
        ("episode,hip,time\n0,0,0\n0,1,1\n1,0,5\n1,0,4\n", "line 5 has time 4 after 5, step 0 of demonstration 1; sort the rows, or"),
        ("hip,step\n0,3\n1,1\n2,2\n", "line 3 has step 1 after 3, step 0 of demonstration 0; "),
        ("hip,step\n0,0\n1,1\n2,2\n3,5\n", "line 5 has step 5 after 2, step 2 of demonstration 0; put in the rows that are missing"),
        ("demonstration,episode,hip\n0,0,1\n0,0,2\n0,1,3\n", "columns 'demonstration' and 'episode' differ in which rows belong together"),
        ("demonstration,return\n0,2\n0,4\n", "there are no observation columns beside demonstration, return"),
        ("demonstration,hip\n0,2\n1,4\n0,5\n", "the rows of demonstration 0 do not stand together"),
        ("demonstration,hip\n0,2\n1,4\n2,5\n1,6\n", "the rows of demonstration 1 do not stand together"),
        ("demonstration,hip\n0,2\n,4\n0,5\n", "line 3 does not say which demonstration it belongs to"),
        ("hip,return\n0,2\n1,4\n", r"line 3 has return 4.0 in a demonstration that began with 2.0"),
        ("hip,source\n0,Ann\n1,Bob\n", "line 3 has source 'Bob' in a demonstration that began with 'Ann'"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ImitableError, match=message) as caught:
        reading(tmp_path, text)
    assert "demos.csv" in str(caught.value)
