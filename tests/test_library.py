from dataclasses import replace

import numpy as np
import pytest

from imitable.arrays import Array
from imitable.inverse_dynamics import NOT_SETTLED, REACHED, InverseResult, Solved, library as module, step_scale
from imitable.inverse_dynamics.library import Library, waves
from imitable.paper import swimmer
from imitable.rollouts import explore


def answers(actions: Array, verdict: int = REACHED) -> InverseResult:
    count = len(actions)
    zeros = np.zeros(count)
    jacobian = np.tile(actions[:, :, None], (1, 1, 1)).astype(np.float32)
    return InverseResult(actions, zeros, actions > 2, np.full(count, verdict), zeros, np.zeros(count, np.int64), jacobian)


def test_the_most_similar_transition_answers_whatever_the_units() -> None:
    rng = np.random.default_rng(0)
    before, changes = rng.standard_normal((50, 3)), rng.standard_normal((50, 3))
    for units in (np.ones(3), np.array([1e-3, 1.0, 1e3])):
        library = Library(units, 0.1 * units)
        library.add(before * units, (before + 0.1 * changes) * units, answers(np.arange(50.0)[:, None]))
        asked = before + 0.05 * rng.standard_normal((50, 3))
        found = library.similar(asked * units, (asked + 0.1 * changes) * units)
        assert found is not None
        # By brute force, on differences.
        farness = [
            np.square(each - before).sum(axis=1) + np.square(change - changes).sum(axis=1)
            for each, change in zip(asked, changes, strict=True)
        ]
        np.testing.assert_array_equal(found.actions[:, 0], np.argmin(farness, axis=1))
        np.testing.assert_array_equal(found.jacobian[:, 0, 0], found.actions[:, 0])  # type: ignore[index]


def test_only_what_was_reached_is_kept_and_no_more_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SIZE", 5)
    library, rows = Library(np.ones(1), np.ones(1)), np.arange(3.0)[:, None]
    assert library.similar(rows, rows) is None
    library.add(rows, rows, answers(rows, NOT_SETTLED))
    assert library.similar(rows, rows) is None
    for first in (0.0, 3.0, 6.0):
        library.add(rows + first, rows + first, answers(rows + first))
    found = library.similar(np.array([[0.0], [8.0]]), np.array([[0.0], [8.0]]))
    assert found is not None
    assert found.actions[:, 0].tolist() == [0.0, 4.0]


def test_waves_take_every_row_once_and_grow() -> None:
    rows = np.flatnonzero(np.arange(30_000) % 3)
    parts = waves(rows, jacobian_size=100, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), rows)
    assert [len(part) for part in parts][:4] == [64, 256, 1024, 4096]
    assert parts[0].max() > 20_000, "the first ones are from all over"
    assert max(len(part) for part in waves(rows, jacobian_size=8000, rng=np.random.default_rng(0))) == 1000
    assert waves(rows[:0], jacobian_size=1, rng=np.random.default_rng(0)) == []


def test_similar_answers_save_steps_and_change_none() -> None:
    robot = swimmer.Swimmer()
    own = explore(replace(robot, horizon=60), count=12, rng=np.random.default_rng(0))
    given, scale = own.trajectories, step_scale(own)
    rows = given.transition_rows
    inverse = Solved().fit(own, robot, rng=np.random.default_rng(0))
    library, steps, errors = Library(given.observations.std(axis=0), scale), [], []
    for some in waves(np.arange(len(rows)), jacobian_size=16, rng=np.random.default_rng(0)):
        before, after = given.observations[rows[some]], given.observations[rows[some] + 1]
        found = inverse(robot.restore(before), after, guess=library.similar(before, after))
        library.add(before, after, found)
        errors.append(np.abs(found.actions - own.actions[some]).max(axis=1)[found.verdict == REACHED])
        steps.append(found.steps.mean())
    alone = inverse(robot.restore(given.observations[rows]), given.observations[rows + 1]).steps.mean()
    assert steps[-1] < 0.8 * alone
    assert np.median(np.concatenate(errors)) < 1e-3
