"""Pictures that no command of the command line draws."""

from pathlib import Path

from imitable.report.figures import draw_returns


def test_returns_are_drawn_for_each_method_and_run(tmp_path: Path) -> None:
    picture = tmp_path / "returns.png"
    draw_returns({"none": [1.0, 2.0], "ours": [3.0]}, picture, title="ant/x-axis")
    assert picture.read_bytes().startswith(b"\x89PNG")
