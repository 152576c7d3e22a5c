"""Pictures that no command of the command line draws."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from imitable.report.figures import draw_returns


def test_returns_are_drawn_for_each_method_and_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr("imitable.report.figures._write", lambda figure, _: drawn.append(figure))
    draw_returns({"none": [1.0, 2.0], "ours": [3.0]}, tmp_path / "returns.png", title="ant/x-axis")
    (axes,) = drawn[0].axes
    dots = [np.asarray(each.get_offsets())[:, 1].tolist() for each in axes.collections]
    assert [1.0, 2.0] in dots
    assert [3.0] in dots
    assert [label.get_text() for label in axes.get_xticklabels()] == ["none", "ours"]
