"""The numbers of every stage are those of its version."""

import json
from copy import deepcopy
from pathlib import Path

import pytest

from golden import GOLDEN, Record, differing, measured, refusal, rewrite, stages

STORED: Record = json.loads(GOLDEN.read_text())


def test_every_stage_with_a_version_is_there() -> None:
    assert STORED.keys() == stages().keys(), "run `make golden`"


@pytest.mark.parametrize("name", stages())
def test_numbers_change_only_with_the_version(name: str) -> None:
    found, stored = measured(stages()[name]), STORED[name]
    assert (why := refusal(name, found, stored)) is None, why
    assert found["versions"] == stored["versions"], "the version was raised; run `make golden`"
    assert not differing(found, stored)


def test_the_numbers_say_something() -> None:
    for name, stage in STORED.items():
        for what, values in stage["numbers"].items():
            if not what.endswith("terminated"):
                assert any(values), f"{what} of {name} are all zero"
            assert all(abs(value) < 1e9 for value in values), f"{what} of {name} broke down"


RECORD: Record = {"learn": {"versions": {"learn": 3, "assess": 2}, "tolerance": 1e-4, "numbers": {"gail": [1.0, -2.5]}}}


def changed(*, factor: float = 1.0, **versions: int) -> Record:
    record = deepcopy(RECORD)
    record["learn"]["numbers"]["gail"][1] *= factor
    record["learn"]["versions"] |= versions
    return record


@pytest.mark.parametrize(
    "record",
    [changed(factor=1.001), changed(factor=1.001, learn=2), changed(factor=1.001, learn=4, assess=1)],
    ids=["the same version", "a lower one", "another lower one"],
)
def test_changed_numbers_of_a_version_that_was_not_raised_are_refused(tmp_path: Path, record: Record) -> None:
    path = tmp_path / "golden.json"
    rewrite(path, RECORD)
    before = path.read_text()
    (why,) = rewrite(path, record)
    assert "the numbers of learn have changed (gail)" in why
    assert "Raise the version and run `make golden`" in why
    assert path.read_text() == before


@pytest.mark.parametrize(
    "record",
    [
        changed(factor=1.001, learn=4),
        changed(factor=1.001, assess=3),
        changed(learn=4),
        RECORD | {"collect": {"versions": {"collect": 1}, "tolerance": 1e-4, "numbers": {"returns": [1.0]}}},
    ],
    ids=["a raised version", "of a stage above", "a raised version without a change", "a new stage"],
)
def test_what_may_be_written_is(tmp_path: Path, record: Record) -> None:
    path = tmp_path / "golden.json"
    assert rewrite(path, RECORD) == []
    assert rewrite(path, record) == []
    assert json.loads(path.read_text()) == record


def test_what_only_rounds_differently_stays(tmp_path: Path) -> None:
    path = tmp_path / "golden.json"
    rewrite(path, RECORD)
    assert rewrite(path, changed(factor=1 + 1e-6)) == []
    assert json.loads(path.read_text()) == RECORD


def test_numbers_that_come_or_go_are_changes() -> None:
    more = deepcopy(RECORD["learn"])
    more["numbers"]["sail"] = [1.0]
    longer = deepcopy(RECORD["learn"])
    longer["numbers"]["gail"].append(0.0)
    assert differing(more, RECORD["learn"]) == differing(RECORD["learn"], more) == ["sail"]
    assert differing(longer, RECORD["learn"]) == ["gail"]
