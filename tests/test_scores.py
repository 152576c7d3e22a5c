"""One contract for all scores, then the properties of each."""

import dataclasses
import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st
from hypothesis.extra import numpy as hnp

import turntable
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.methods import METHODS
from imitable.problem import Problem, Tolerance
from imitable.scores import (
    best_returns,
    confidence,
    feasibility,
    naive_optimality,
    optimality,
    product,
    rectified_optimality,
    rectified_return,
    uniform,
)
from imitable.scores.feasibility import ramp_down
from make_golden import GOLDEN, golden_numbers, twelve_problem

SCORES = {
    "uniform": uniform,
    "feasibility": feasibility,
    "naive optimality": naive_optimality,
    "rectified optimality": rectified_optimality,
    **{f"method {name}": method.score for name, method in METHODS.items()},
}


@pytest.fixture(params=SCORES.values(), ids=SCORES.keys())
def score(request: pytest.FixtureRequest):
    return request.param


@pytest.fixture(scope="module")
def problem() -> Problem:
    return turntable.posed(turntable.mixed(own=14, other=10))


def reordered(problem: Problem, order: np.ndarray) -> Problem:
    """The same problem with its demonstrations in another order."""
    from imitable.replay import replay

    demos = problem.demonstrations.select(order)
    return dataclasses.replace(problem, demonstrations=demos, replay=replay(demos, problem.target, problem.inverse_dynamics))


# The contract


def test_a_score_gives_one_weight_in_the_unit_interval_per_demonstration(score, problem: Problem) -> None:
    weights = score(problem)
    assert weights.shape == (len(problem.demonstrations),)
    assert weights.dtype == np.float64
    assert ((weights >= 0) & (weights <= 1)).all()


def test_a_score_follows_its_demonstrations_when_they_are_reordered(score, problem: Problem) -> None:
    order = np.random.default_rng(0).permutation(len(problem.demonstrations))
    assert score(reordered(problem, order)) == pytest.approx(score(problem)[order], abs=1e-12)


def test_a_score_is_blind_to_sources(score, problem: Problem) -> None:
    demos = problem.demonstrations
    assert demos.sources is None
    told = dataclasses.replace(demos, sources=("other-dynamics",) * 14 + ("optimal",) * 10)
    assert np.array_equal(score(dataclasses.replace(problem, demonstrations=told)), score(problem))


def test_a_score_gives_the_same_twice_and_changes_nothing(score, problem: Problem) -> None:
    distances = problem.replay.distances.copy()
    assert np.array_equal(score(problem), score(problem))
    assert np.array_equal(problem.replay.distances, distances)


def test_a_score_copes_with_one_demonstration(score) -> None:
    problem = turntable.posed(turntable.demonstrations(count=1))
    if score is confidence:
        with pytest.raises(ImitableError, match=r"all 1 demonstrations have the return .*, so none deserves more confidence"):
            score(problem)
    else:
        assert score(problem) == pytest.approx([1.0], abs=1e-6)


def test_confidence_runs_from_the_worst_return_to_the_best(problem: Problem) -> None:
    returns = problem.demonstrations.returns
    found = confidence(problem)
    assert found[returns.argmin()] == 0.0
    assert found[returns.argmax()] == 1.0
    assert found == pytest.approx((returns - returns.min()) / np.ptp(returns))


# Golden numbers


@pytest.mark.parametrize("name", ["w_f", "f_rec", "w_o", "p_w"])
def test_golden_numbers_stay(name: str) -> None:
    expected = json.loads(GOLDEN.read_text())
    assert golden_numbers()[name] == pytest.approx(expected[name], rel=0, abs=1e-9)


def test_the_golden_problem_says_something_of_every_kind() -> None:
    golden = {name: np.array(values) for name, values in json.loads(GOLDEN.read_text()).items()}
    assert len(golden["w_f"]) == 12
    assert (golden["w_f"] == 0).any()
    assert ((golden["w_f"] > 0) & (golden["w_f"] < 1)).any()
    assert (golden["w_f"] == 1).any()
    assert (golden["f_rec"] > twelve_problem().demonstrations.returns).any()
    assert len(np.unique(golden["f_rec"])) > 2
    assert len(golden["p_w"]) == 12 * 3 + sum(range(12))
    assert golden["p_w"].sum() == pytest.approx(1.0, abs=1e-12)


# Feasibility


def test_the_targets_own_demonstrations_are_feasible_and_others_are_not(problem: Problem) -> None:
    weights = feasibility(problem)
    assert weights[:14] == pytest.approx(np.ones(14), abs=1e-9)
    demos = problem.demonstrations
    moved = np.array([np.ptp(demos.trajectory(index)[:, 1]) for index in range(14, 24)])
    assert not weights[14:][moved > 0.2].any()
    assert weights[14:][moved < 1e-9] == pytest.approx(1.0, abs=1e-9), "whoever stays still can be followed"
    assert (moved > 0.2).any()
    assert (moved < 1e-9).any()


tolerances = st.tuples(st.floats(0, 10), st.floats(1e-6, 10)).map(lambda pair: Tolerance(pair[0], pair[0] + pair[1]))


@given(hnp.arrays(np.float64, 10, elements=st.floats(0, 30)), tolerances)
def test_feasibility_never_rises_with_distance(distances: np.ndarray, tolerance: Tolerance) -> None:
    weights = ramp_down(np.sort(distances), tolerance)
    assert (np.diff(weights) <= 0).all()
    assert ((weights >= 0) & (weights <= 1)).all()


@given(tolerances)
def test_feasibility_falls_in_a_straight_line_from_one_to_zero(tolerance: Tolerance) -> None:
    shares = np.array([0.0, 0.25, 0.5, 1.0])
    weights = ramp_down(tolerance.closest + shares * (tolerance.farthest - tolerance.closest), tolerance)
    assert weights == pytest.approx(1 - shares, abs=1e-6)
    assert ramp_down(np.array([tolerance.closest * 0.5, tolerance.closest, tolerance.farthest]), tolerance).tolist() == [1, 1, 0]
    assert ramp_down(np.array([tolerance.farthest + 1]), tolerance).tolist() == [0]


# Rectified returns


@st.composite
def sets_of_starts(draw: st.DrawFn, *, most: int = 80):
    """Returns, starts on a grid (so that distances are often equal to the radius), who is feasible, and a radius."""
    count = draw(st.integers(1, most))
    returns = draw(hnp.arrays(np.float64, count, elements=st.integers(-20, 20).map(float)))
    starts = draw(hnp.arrays(np.float64, (count, draw(st.integers(1, 3))), elements=st.integers(-6, 6).map(float)))
    feasible = draw(hnp.arrays(np.bool_, count))
    radius = draw(st.sampled_from([0.0, 0.5, 1.0, 2.0, 5.0, 7.5, np.inf]))
    return returns, starts, feasible, radius


def by_brute_force(returns: np.ndarray, starts: np.ndarray, feasible: np.ndarray, radius: float) -> np.ndarray:
    best = returns.copy()
    for index in range(len(returns)):
        near = np.linalg.norm(starts - starts[index], axis=1) < radius
        best[index] = max([returns[index], *returns[near & feasible]])
    return best


@given(sets_of_starts())
def test_rectified_return_equals_brute_force(drawn) -> None:
    returns, starts, feasible, radius = drawn
    found = rectified_return(returns, starts, feasible=feasible, radius=radius)
    assert np.array_equal(found, by_brute_force(returns, starts, feasible, radius))


@pytest.mark.parametrize("radius", [0.02, 0.1, 0.5, np.inf])
def test_rectified_return_equals_brute_force_on_a_large_set(radius: float) -> None:
    rng = np.random.default_rng(0)
    count = 1000
    returns, starts, feasible = rng.normal(size=count), rng.uniform(-1, 1, (count, 2)), rng.random(count) < 0.7
    found = rectified_return(returns, starts, feasible=feasible, radius=radius)
    assert np.array_equal(found, by_brute_force(returns, starts, feasible, radius))


@given(sets_of_starts())
def test_rectified_return_is_at_least_the_own_return(drawn) -> None:
    returns, starts, feasible, radius = drawn
    assert (rectified_return(returns, starts, feasible=feasible, radius=radius) >= returns).all()


@given(sets_of_starts(), st.floats(0, 10))
def test_rectified_return_grows_with_the_radius(drawn, more: float) -> None:
    returns, starts, feasible, radius = drawn
    small, large = (rectified_return(returns, starts, feasible=feasible, radius=each) for each in (radius, radius + more))
    assert (small <= large).all()


@given(sets_of_starts(), st.integers(-1000, 1000))
def test_shifting_all_returns_shifts_the_rectified_ones_and_leaves_optimality(drawn, shift: int) -> None:
    returns, starts, feasible, radius = drawn
    plain = rectified_return(returns, starts, feasible=feasible, radius=radius)
    shifted = rectified_return(returns + shift, starts, feasible=feasible, radius=radius)
    assert np.array_equal(shifted, plain + shift)
    assert np.array_equal(optimality(returns + shift, shifted, sigma=3.0), optimality(returns, plain, sigma=3.0))


@given(sets_of_starts())
def test_optimality_is_one_exactly_at_the_best_of_a_neighbourhood(drawn) -> None:
    returns, starts, feasible, radius = drawn
    best = rectified_return(returns, starts, feasible=feasible, radius=radius)
    assert np.array_equal(optimality(returns, best, sigma=5.0) == 1.0, returns == best)
    if feasible.any():
        champion = np.flatnonzero(feasible)[np.argmax(returns[feasible])]
        assert optimality(returns, best, sigma=5.0)[champion] == 1.0


@given(sets_of_starts(), st.data())
def test_infeasible_demonstrations_never_count_for_others(drawn, data: st.DataObject) -> None:
    returns, starts, feasible, radius = drawn
    assume(not feasible.all())
    raised = returns.copy()
    raised[~feasible] += data.draw(hnp.arrays(np.float64, int((~feasible).sum()), elements=st.integers(0, 500).map(float)))
    before, after = (rectified_return(each, starts, feasible=feasible, radius=radius) for each in (returns, raised))
    assert np.array_equal(before[feasible], after[feasible])
    kept = rectified_return(returns[feasible], starts[feasible], feasible=np.ones(feasible.sum(), dtype=bool), radius=radius)
    assert np.array_equal(before[feasible], kept)


def test_infeasible_demonstrations_are_held_against_feasible_neighbours() -> None:
    best = rectified_return(np.array([5.0, 9.0]), np.zeros((2, 1)), feasible=np.array([True, False]), radius=1.0)
    assert best.tolist() == [5.0, 9.0]
    best = rectified_return(np.array([5.0, 1.0]), np.zeros((2, 1)), feasible=np.array([True, False]), radius=1.0)
    assert best.tolist() == [5.0, 5.0]


def test_a_neighbour_is_nearer_than_the_radius_not_as_far() -> None:
    returns, starts, both = np.array([0.0, 8.0]), np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([True, True])
    assert rectified_return(returns, starts, feasible=both, radius=5.0).tolist() == [0.0, 8.0]
    assert rectified_return(returns, starts, feasible=both, radius=np.nextafter(5.0, 6.0)).tolist() == [8.0, 8.0]


def test_inputs_are_left_alone() -> None:
    returns, starts, feasible = np.array([1.0, 2.0]), np.zeros((2, 1)), np.array([True, True])
    rectified_return(returns, starts, feasible=feasible, radius=1.0)
    assert returns.tolist() == [1.0, 2.0]


def test_a_hundred_thousand_demonstrations_in_one_dense_neighbourhood_fit_in_memory() -> None:
    rng = np.random.default_rng(0)
    count = 100_000
    returns, starts = rng.normal(size=count), rng.uniform(0, 0.01, (count, 2))
    tracemalloc.start()
    best = rectified_return(returns, starts, feasible=np.ones(count, dtype=bool), radius=0.1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.array_equal(best, np.full(count, returns.max()))
    assert peak < 2**28


# Optimality


@pytest.mark.parametrize(("gap", "expected"), [(0.0, 1.0), (10.0, np.exp(-0.5)), (-20.0, np.exp(-2.0)), (1e6, 0.0)])
def test_optimality_is_a_bell_around_the_best_return(gap: float, expected: float) -> None:
    assert optimality(np.array([3.0]), np.array([3.0 + gap]), sigma=10.0) == pytest.approx([expected], rel=1e-12)


def problem_of(returns: list[float], goals: list[float], distances: list[float], **changes: object) -> Problem:
    """A problem on the turntable with chosen returns, goals and replay distances."""
    states = np.repeat(turntable.CLOCKWISE.observe(np.stack([np.zeros(len(goals)), goals], axis=1)), 2, axis=0)
    base = turntable.posed(Demonstrations(states, np.ones(len(goals), dtype=int), returns))
    replayed = dataclasses.replace(base.replay, distances=np.array(distances))
    return dataclasses.replace(base, replay=replayed, tolerance=Tolerance(0.0, 1.0), **changes)


def test_optimality_compares_with_feasible_demonstrations_from_nearby_goals() -> None:
    problem = problem_of(returns=[0, -10, -30, 5], goals=[0.0, 0.1, 3.0, 0.05], distances=[0.5, 0.5, 0.5, 2.0])
    assert best_returns(problem).tolist() == [0, 0, -30, 5]
    assert rectified_optimality(problem) == pytest.approx([1, np.exp(-0.5), 1, 1])
    assert product(feasibility, rectified_optimality)(problem) == pytest.approx([0.5, 0.5 * np.exp(-0.5), 0.5, 0])
    assert naive_optimality(problem) == pytest.approx(np.exp(-0.5 * np.array([0.5, 1.5, 3.5, 0]) ** 2))


def test_where_all_starts_are_alike_everyone_is_a_neighbour() -> None:
    everywhere = dataclasses.replace(turntable.CLOCKWISE, start_key=None)
    problem = problem_of(returns=[0, -10, -30], goals=[0.0, 1.5, 3.0], distances=[0.0, 0.0, 0.0], target=everywhere)
    assert best_returns(problem).tolist() == [0, 0, 0]


def test_a_product_multiplies() -> None:
    problem = problem_of(returns=[0, -10], goals=[0.0, 0.0], distances=[0.5, 0.25])
    assert product(feasibility)(problem).tolist() == [0.5, 0.75]
    assert product(feasibility, feasibility, uniform)(problem).tolist() == [0.25, 0.5625]
