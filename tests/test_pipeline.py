"""The path of the data in one function: the same seed, the same bytes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tiny
import turntable
from imitable.arrays import Array, Arrays, Snapshot
from imitable.assessment import Assessment
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.evaluation import Measurement
from imitable.learners import Learner
from imitable.pipeline import Result, Streams, facts, imitate
from imitable.scores import Score, Uniform
from imitable.tracking import Windows
from imitable.verdicts import Table, _beyond_range, causes, score_table

DEMONSTRATIONS = turntable.mixed(own=20, other=10)


def run(
    *, learner: Learner = turntable.TINY_CLONING, score: Score | None = turntable.OURS, demonstrations=DEMONSTRATIONS, **options
) -> Result:
    model, exploration = turntable.ExactModel(), turntable.EXPLORATION
    return imitate(demonstrations, turntable.CLOCKWISE, learner=learner, score=score, model=model, exploration=exploration, **options)


def test_from_demonstrations_to_a_measured_policy() -> None:
    result = run()
    assert result.weights.shape == (30,)
    assert len(result.curve) == 3
    assert all(measurement.returns.shape == (100,) for measurement in result.curve)
    assert result.mean_return == result.curve[-1].returns.mean()


def test_the_same_seed_runs_the_same() -> None:
    one, again, other = (run(seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(one.weights, again.weights)
    assert [tiny.everything(each.checkpoint.policy) for each in one.curve] == [
        tiny.everything(each.checkpoint.policy) for each in again.curve
    ]
    assert one.mean_return == again.mean_return
    assert one.mean_return != other.mean_return


def test_every_stage_has_its_own_stream_which_can_be_started_again() -> None:
    streams = Streams(5)
    stages = (streams.collecting, streams.assessing, streams.learning, streams.evaluating)
    first = [stage().random(4).tolist() for stage in stages]
    assert first == [stage().random(4).tolist() for stage in stages]
    assert len({tuple(each) for each in first}) == 4
    assert Streams(6).collecting().random(4).tolist() not in first


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ImitableError, match=r"Streams\.seed is -1; it must be a whole number from 0 on"):
        Streams(-1)


def test_without_a_score_it_is_feasibility_times_optimality() -> None:
    loose = turntable.assessed(DEMONSTRATIONS)
    weights = loose.weights()
    result = run(score=None)
    assert result.weights.shape == weights.shape
    assert set(result.summary) >= {"tolerance", "own_distances", "sigma"}
    assert (result.weights[DEMONSTRATIONS.from_source("optimal")] > 0).any()


def test_weights_that_are_all_zero_are_refused_with_the_reason() -> None:
    others = turntable.demonstrations(turntable.COUNTER_CLOCKWISE, count=20)
    turning = others.select(np.abs(turntable.joint_angle(others.observations[others.starts + others.lengths])) > 1)
    with pytest.raises(ImitableError, match=r"all \d+ weights are zero: no demonstration is feasible on the robot: the smallest replay"):
        run(demonstrations=turning)


def test_progress_goes_from_the_assessment_to_the_end() -> None:
    heard: list[float] = []
    run(progress=heard.append)
    assert all(0 <= fraction <= 1 for fraction in heard)
    assert min(heard) < 0.3
    assert heard[-3:] == pytest.approx([0.3 + 0.7 / 3, 0.3 + 1.4 / 3, 1.0])


# What is asked for


@dataclass(frozen=True)
class Listening:
    """Keeps nothing, but knows which parts were asked for."""

    parts: list[str] = field(default_factory=list)

    def __call__(self, part: str, recipe: Mapping[str, object], make: Callable[[], Arrays]) -> Arrays:
        self.parts.append(part)
        return make()


@pytest.mark.parametrize(
    ("name", "score", "parts"),
    [
        ("gail", Uniform(), []),
        ("2iwil", Uniform(), []),
        ("ic-gail", Uniform(), []),
        ("cloning", Uniform(), ["actions", "inverse dynamics"]),
        ("sail", Uniform(), ["inverse dynamics"]),
        ("gail", turntable.FEASIBILITY, ["replay", "inverse dynamics", "own replay", "own replay"]),
        ("gail", turntable.OURS, ["replay", "inverse dynamics", "own replay", "own replay"]),
    ],
)
def test_a_run_waits_only_for_the_parts_it_needs(name: str, score: Score, parts: list[str]) -> None:
    cache = Listening()
    run(learner=tiny.LEARNERS[name], score=score, cache=cache)
    assert cache.parts == parts, "each once"


def test_demonstrations_without_returns_can_be_imitated_by_feasibility_alone() -> None:
    unrated = replace(DEMONSTRATIONS, returns=np.full(30, np.nan))
    assert np.array_equal(run(demonstrations=unrated, score=turntable.FEASIBILITY).weights, run(score=turntable.FEASIBILITY).weights)
    with pytest.raises(ImitableError, match="optimality needs returns, but 30 of 30 demonstrations have none"):
        run(demonstrations=unrated)


# Records


@dataclass
class Notebook:
    """Remembers what it was given, in its order."""

    start: Snapshot | None = None
    pages: list[object] = field(default_factory=list)

    def snapshot(self) -> Snapshot | None:
        return self.start

    def save_scores(self, table: Table) -> None:
        self.pages.append(table)

    def add(self, measurement: Measurement) -> None:
        self.pages.append(measurement)


def test_a_record_gets_the_scores_and_then_every_measurement() -> None:
    notebook = Notebook()
    result = run(record=notebook)
    scores, *measurements = notebook.pages
    assert np.array_equal(scores["weight"], result.weights)  # type: ignore[index]
    assert tuple(measurements) == result.curve


def test_a_run_goes_on_from_the_snapshot_of_its_record() -> None:
    whole = run()
    rest = run(record=Notebook(whole.curve[0].checkpoint.snapshot))
    assert [tiny.everything(each.checkpoint.policy) for each in rest.curve] == [
        tiny.everything(each.checkpoint.policy) for each in whole.curve[1:]
    ]
    assert [each.returns.tolist() for each in rest.curve] == [each.returns.tolist() for each in whole.curve[1:]]


# The scores table


@dataclass(frozen=True)
class Fading:
    """Every transition counts less than the one before."""

    def __call__(self, assessment: Assessment) -> Array:
        return np.concatenate([np.linspace(1.0, 0.0, length) for length in assessment.demonstrations.lengths])

    def table(self, assessment: Assessment) -> dict[str, Array]:
        return {"fading": np.ones(len(assessment.demonstrations))}


def test_the_scores_table_has_one_row_per_demonstration_with_every_score() -> None:
    given = turntable.mixed()
    table = score_table(given, turntable.assessed(given), turntable.OURS)
    assert list(table) == [
        *("demonstration", "source", "length", "return"),
        *("distance", "feasibility", "rectified_return", "optimality", "better_neighbour", "weight", "verdict"),
    ]
    assert all(column.shape == (12,) for column in table.values())
    assert table["demonstration"].tolist() == list(range(12))
    assert table["source"].tolist() == list(given.sources or ())
    compared = np.isfinite(table["optimality"])
    assert compared.any()
    assert np.array_equal(table["weight"][compared], (table["feasibility"] * table["optimality"])[compared])


@pytest.mark.parametrize(
    ("beyond", "factor", "actuator", "cause"),
    [
        (0.0, 1.5, 0, "too strong"),
        (0.021, 1.5, 0, "too strong"),  # both apply: the joint is outside by a hair
        (0.099, 1.5, 0, "too strong"),
        (0.101, 1.5, 0, "beyond range"),  # clearly
        (0.3, 30.0, 0, "beyond range"),
        (0.021, 1.001, 0, "beyond range"),  # an actuator that is too weak by a hair decides nothing
        (0.021, np.nan, 0, "beyond range"),
        (0.021, 1.5, -1, "beyond range"),
        (0.019, 1.001, 0, "unclear"),
        (0.0, 1.0, -1, "unclear"),
        (0.0, np.nan, 0, "unclear"),
        (0.0, np.inf, 0, "unsupported"),
        (0.03, np.inf, 0, "beyond range"),
    ],
)
def test_of_several_causes_a_joint_far_beyond_its_range_comes_first(beyond: float, factor: float, actuator: int, cause: str) -> None:
    table = {
        "verdict": np.array(["infeasible", "kept", "kept", "worse"]),
        "feasibility": np.array([0.0, 1.0, 0.67, 0.5]),
        "limit_factor": np.full(4, factor),
        "limiting_actuator": np.full(4, actuator),
    }
    assert causes(table, beyond=np.full(4, beyond)).tolist() == [cause, "", cause, cause], "of what is followed in part, too"


def test_joints_are_looked_at_where_a_demonstration_is_lost_first_and_where_it_is_lost_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("imitable.verdicts.joint_ranges", lambda robot: [(0, -1.0, 1.0)])
    path = np.zeros((61, 1))
    path[3], path[30], path[55], path[57] = 1.08, -1.4, 2.0, 3.0  # lost first, neither, lost most, later in that window
    by_step = np.zeros((2, 10))
    by_step[0, 4] = 9.0
    windows = Windows(
        np.zeros(2, np.int64),
        np.array([50, 2]),
        np.array([9.0, 1.0]),
        by_step,
        np.zeros(2, np.int64),
        np.zeros(2, np.int64),
        np.ones(2),
        np.ones(2) > 0,
    )
    own = SimpleNamespace(trajectories=SimpleNamespace(observations=np.array([[0.5], [1.02]])))
    assessment: Any = SimpleNamespace(
        own_episodes=(own, own), tracked=SimpleNamespace(demonstration_windows=windows, length=10), robot=None
    )

    def beyond(path: Array, first: int) -> float:
        return float(_beyond_range(Demonstrations(path, [60]), assessment, {"first_bad_step": np.array([first])})[0])

    assert beyond(path, 2) == pytest.approx((2.0 - 1.02) / 2)
    path[55] = 0.0
    assert beyond(path, 2) == pytest.approx((1.08 - 1.02) / 2)
    assert beyond(path, -1) == 0.0, "it is lost nowhere"


def test_a_score_names_its_own_columns() -> None:
    given = turntable.mixed()
    assert list(score_table(given, turntable.assessed(given), Uniform())) == [
        "demonstration",
        "source",
        "length",
        "return",
        "weight",
        "verdict",
    ]


def test_weights_of_transitions_have_their_mean_in_the_table() -> None:
    given = turntable.mixed()
    table = score_table(given, turntable.assessed(given), Fading())
    assert table["weight"] == pytest.approx(np.full(12, 0.5))
    assert table["fading"].tolist() == [1.0] * 12


def test_demonstrations_without_sources_are_of_unknown_source() -> None:
    assessment = turntable.assessed()
    assert set(score_table(assessment.demonstrations, assessment, turntable.OURS)["source"]) == {"unknown"}


# Facts


def test_facts_say_what_is_left_and_whose_samples_it_is() -> None:
    given = turntable.mixed(own=3, other=1)
    assessment = turntable.assessed(given)
    found = facts(given, assessment, Uniform(), np.array([1.0, 1.0, 0.0, 1.0]))
    assert found["share_by_source"] == {"optimal": pytest.approx(2 / 3, abs=1e-4), "other-dynamics": pytest.approx(1 / 3, abs=1e-4)}
    assert found["effective_demonstrations"] == pytest.approx(3.0)
    assert found["diverged"] == {"assessing": 0}
    fading = facts(given, assessment, Fading(), assessment.weights(Fading()))
    assert fading["effective_demonstrations"] == pytest.approx(4.0)
    assert facts(assessment.demonstrations, assessment, Uniform(), np.ones(4))["share_by_source"] == {}


def test_facts_tell_the_numbers_of_the_score() -> None:
    given = turntable.mixed()
    assessment = turntable.assessed(given)
    found = facts(given, assessment, turntable.OURS, assessment.weights(turntable.OURS))
    tolerance = turntable.FEASIBILITY.tolerance(assessment)
    assert found["tolerance"] == [tolerance.d_min, tolerance.d_max]
    assert found["sigma"] == 10.0
    least, middle, most = found["own_distances"]
    assert least == tolerance.d_min
    assert least <= middle <= most
