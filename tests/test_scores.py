"""One contract for all scores, the properties of each, and all of them against a brute-force implementation of the paper."""

import tracemalloc
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import brute_force
import turntable
from brute_force import rectified_returns
from imitable.arrays import Array, Arrays, Booleans
from imitable.assessment import Assessment, Exploration, assess
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.paper.methods import METHODS
from imitable.replay import Replay
from imitable.sampling import TransitionSampler
from imitable.scores import (
    Feasibility,
    NaiveOptimality,
    RectifiedOptimality,
    ReplayFeasibility,
    Score,
    Tolerance,
    Uniform,
    demonstration_weights,
    per_transition,
    product,
    rectified_return,
    score_columns,
)
from imitable.scores.feasibility import TransitionFeasibility, measure_tolerance, ramp_down
from imitable.scores.optimality import optimality
from turntable import CLOCKWISE, FEASIBILITY, OPTIMALITY, OURS


@dataclass(frozen=True)
class Closeness:
    """A score of each transition: how near the robot is after it."""

    scale: float = 0.1

    def __call__(self, assessment: Assessment) -> Array:
        """(transition,)"""
        return np.exp(-assessment.replay.step_distances((0, 1)) / self.scale)

    def table(self, assessment: Assessment) -> dict[str, Array]:
        return {"closeness": demonstration_weights(assessment.scored(self), assessment.demonstrations.lengths)}


SCORES: dict[str, Score] = {
    "uniform": Uniform(),
    "feasibility": FEASIBILITY,
    "feasibility by windows": Feasibility(),
    "feasibility of each transition": TransitionFeasibility(),
    "default product": product(Feasibility(), RectifiedOptimality()),
    "naive optimality": NaiveOptimality(sigma=10.0),
    "rectified optimality": OPTIMALITY,
    "rectified optimality by default": RectifiedOptimality(feasibility=FEASIBILITY),
    "of each transition": Closeness(),
    "of some transitions": product(FEASIBILITY, Closeness()),
    **{f"method {name}": method.score(turntable.task()) for name, method in METHODS.items()},
}


BY_WINDOWS = (SCORES["feasibility by windows"], SCORES["default product"])


@pytest.fixture(params=SCORES.values(), ids=SCORES.keys())
def score(request: pytest.FixtureRequest) -> Score:
    return request.param


@pytest.fixture(scope="module")
def assessment() -> Assessment:
    return turntable.assessed(turntable.mixed(own=14, other=10))


def by_demonstration(weights: Array, assessment: Assessment) -> list[list[float]]:
    """The weights of every demonstration's transitions."""
    lengths = assessment.demonstrations.lengths
    return [each.tolist() for each in np.split(per_transition(weights, lengths), np.cumsum(lengths)[:-1])]


# The contract


def test_a_score_gives_weights_in_the_unit_interval_to_demonstrations_or_transitions(score: Score, assessment: Assessment) -> None:
    weights, demonstrations = score(assessment), assessment.demonstrations
    assert weights.shape in ((len(demonstrations),), (len(demonstrations.transition_rows),))
    assert weights.dtype == np.float64
    assert ((weights >= 0) & (weights <= 1)).all()


def test_a_score_follows_its_demonstrations_when_they_are_reordered(score: Score, assessment: Assessment) -> None:
    if score in BY_WINDOWS:
        pytest.skip("the windows that it looks at are drawn at random, others in another order")
    order = np.random.default_rng(0).permutation(len(assessment.demonstrations))
    reordered = turntable.assessed(assessment.demonstrations.select(order))
    before, after = (by_demonstration(score(each), each) for each in (assessment, reordered))
    for position, index in enumerate(order):
        assert after[position] == pytest.approx(before[index], abs=1e-12)


def test_a_score_is_blind_to_sources(score: Score, assessment: Assessment) -> None:
    told = turntable.assessed(assessment.demonstrations.with_sources(("other-dynamics",) * 14 + ("optimal",) * 10))
    assert told.demonstrations.sources is None
    assert np.array_equal(score(told), score(assessment))


def test_a_score_gives_the_same_twice_and_changes_nothing(score: Score, assessment: Assessment) -> None:
    reached = assessment.replay.observations.copy()
    assert np.array_equal(score(assessment), score(assessment))
    assert np.array_equal(assessment.replay.observations, reached)


def test_a_score_copes_with_one_demonstration(score: Score) -> None:
    assert score(turntable.assessed(turntable.demonstrations(count=1))) == pytest.approx(1.0, abs=1e-6)


def test_a_score_names_one_column_for_the_table_per_number_of_a_demonstration(score: Score, assessment: Assessment) -> None:
    for name, column in score_columns(score, assessment).items():
        assert isinstance(name, str)
        assert column.shape == (len(assessment.demonstrations),)


def test_equal_scores_are_one_and_parameters_tell_them_apart(score: Score) -> None:
    assert len({score, deepcopy(score)}) == 1
    with pytest.raises(AttributeError):
        score.sigma = 1.0  # type: ignore[attr-defined]
    assert RectifiedOptimality(sigma=1.0) != RectifiedOptimality(sigma=2.0)


# Against brute force

SMALL = Exploration(episodes=4, steps=None)
NEIGHBOURS = replace(OPTIMALITY, sigma=3.0)


def turns(speeds: list[list[float]], goals: list[float]) -> Demonstrations:
    """Demonstrations in which the joint turns at these speeds [rad/s], step by step; -2 to 0 is what the robot can do."""
    trajectories, returns = [], []
    for each, goal in zip(speeds, goals, strict=True):
        joints = np.concatenate([[0.0], np.cumsum(CLOCKWISE.timestep * np.array(each))])
        states = np.stack([joints, np.full(len(joints), goal)], axis=1)
        trajectories.append(CLOCKWISE.observe(states))
        returns.append(CLOCKWISE.reward(states[:-1], np.zeros((len(each), 1)), states[1:]).sum())
    return Demonstrations(np.concatenate(trajectories), [len(each) for each in speeds], returns)


def twelve() -> Demonstrations:
    """Turns towards three neighbourhoods of goals, of 3 to 14 steps; every third one now and then turns the wrong way."""
    speeds, goals = [], []
    for number in range(12):
        steps = np.full(3 + number, -(0.2 + 0.15 * number))
        if number % 3 == 2:
            steps[:: 2 + number // 3] *= -(0.4 + 0.05 * number)
        speeds.append(steps.tolist())
        goals.append((-2.0, 0.3, 2.1)[number % 3] + 0.05 * number)
    return turns(speeds, goals)


some_turns = st.lists(
    st.tuples(
        st.lists(st.sampled_from([-2.5, -2.0, -1.0, 0.0, 0.0, 0.05, 0.3]), min_size=1, max_size=6),
        st.sampled_from([-2.0, 0.3, 0.5, 0.9, 2.1]),
    ),
    min_size=1,
    max_size=6,
).map(lambda drawn: turns([speeds for speeds, _ in drawn], [goal for _, goal in drawn]))


@dataclass(frozen=True)
class BruteForce:
    """All numbers of the paper's method for one assessment, by its equations alone."""

    distances: list[float]
    d_min: float
    d_max: float
    w_f: list[float]
    f_rec: list[float]
    w_o: list[float]
    w: list[float]


def by_brute_force(assessment: Assessment, feasibility: ReplayFeasibility, optimality: RectifiedOptimality) -> BruteForce:
    demonstrations, robot, f_id = assessment.demonstrations, assessment.robot, assessment.inverse_dynamics
    columns, start_columns = (
        range(demonstrations.width) if given is None else given for given in (feasibility.columns, optimality.columns)
    )
    held_out = assessment.own_episodes[1].trajectories
    own = [held_out.trajectory(index).tolist() for index in range(len(held_out))]
    shown = [demonstrations.trajectory(index).tolist() for index in range(len(demonstrations))]
    perturbed = brute_force.chased_perturbed(own, robot, f_id, delta_s=feasibility.delta_s, rng=deepcopy(assessment.streams[2]))
    own_distances, perturbed_distances, distances = (
        [brute_force.trajectory_distance(one, other, columns=columns) for one, other in zip(given, reached, strict=True)]
        for given, reached in (
            (own, [brute_force.tracked(each, robot, f_id) for each in own]),
            (own, perturbed),
            (shown, [brute_force.tracked(each, robot, f_id) for each in shown]),
        )
    )
    d_min, d_max = min(own_distances), max(perturbed_distances)
    w_f = [brute_force.feasibility(each, d_min=d_min, d_max=d_max) for each in distances]
    returns, starts = demonstrations.returns.tolist(), [[each[0][column] for column in start_columns] for each in shown]
    f_rec = rectified_returns(returns, starts, w_f, radius=optimality.radius)
    assert optimality.sigma is not None
    w_o = [brute_force.optimality(eta, best, sigma=optimality.sigma) for eta, best in zip(returns, f_rec, strict=True)]
    return BruteForce(distances, d_min, d_max, w_f, f_rec, w_o, [one * other for one, other in zip(w_f, w_o, strict=True)])


@pytest.mark.parametrize(
    ("feasibility", "optimality"),
    [
        (FEASIBILITY, NEIGHBOURS),
        (ReplayFeasibility(delta_s=0.05), replace(NEIGHBOURS, columns=None)),
        (replace(FEASIBILITY, delta_s=0.002), replace(NEIGHBOURS, radius=np.inf)),
    ],
    ids=["paper", "all columns", "no neighbourhoods"],
)
@settings(max_examples=25)
@given(demonstrations=some_turns, seed=st.integers(0, 3))
def test_every_number_equals_brute_force(
    feasibility: ReplayFeasibility, optimality: RectifiedOptimality, demonstrations: Demonstrations, seed: int
) -> None:
    optimality = replace(optimality, feasibility=feasibility)
    check_against_brute_force(turntable.assessed(demonstrations, exploration=SMALL, seed=seed), feasibility, optimality)


def check_against_brute_force(assessment: Assessment, feasibility: ReplayFeasibility, optimality: RectifiedOptimality) -> BruteForce:
    expected, tolerance = by_brute_force(assessment, feasibility, optimality), feasibility.tolerance(assessment)
    # Distances of some 0.01 that agree to 1e-15 leave w_f, which divides by d_max - d_min, with 1e-12.
    assert assessment.replay.distances(feasibility.columns) == pytest.approx(expected.distances, rel=0, abs=1e-14)
    assert (tolerance.d_min, tolerance.d_max) == pytest.approx((expected.d_min, expected.d_max), rel=0, abs=1e-14)
    assert assessment.scored(feasibility) == pytest.approx(expected.w_f, rel=0, abs=1e-10)
    assert optimality.best_returns(assessment) == pytest.approx(expected.f_rec, rel=0, abs=1e-12)
    assert assessment.scored(optimality) == pytest.approx(expected.w_o, rel=0, abs=1e-12)
    weights = assessment.scored(product(feasibility, optimality))
    assert weights == pytest.approx(expected.w, rel=0, abs=1e-10)
    if weights.any():
        lengths = assessment.demonstrations.lengths
        p_w = np.diff(TransitionSampler(assessment.demonstrations, weights).cumulative, prepend=0.0)
        assert p_w == pytest.approx(brute_force.transition_probabilities(expected.w, lengths.tolist()), rel=0, abs=1e-9)
    return expected


def test_twelve_demonstrations_of_every_kind_equal_brute_force() -> None:
    assessment = turntable.assessed(twelve())
    found = check_against_brute_force(assessment, FEASIBILITY, NEIGHBOURS)
    assert 0 in found.w_f
    assert max(found.w_f) > 1 - 1e-9
    assert any(0.01 < weight < 0.99 for weight in found.w_f)
    assert any(best > eta for best, eta in zip(found.f_rec, assessment.demonstrations.returns, strict=True))
    assert len(set(found.f_rec)) > 2
    assert any(0.01 < weight < 0.99 for weight in found.w_o)


# Feasibility


def test_the_robots_own_demonstrations_are_feasible_and_others_are_not(assessment: Assessment) -> None:
    weights = FEASIBILITY(assessment)
    assert weights[:14] == pytest.approx(np.ones(14), abs=1e-9)
    demos = assessment.demonstrations
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
    weights = ramp_down(tolerance.d_min + shares * (tolerance.d_max - tolerance.d_min), tolerance)
    assert weights == pytest.approx(1 - shares, abs=1e-6)
    assert ramp_down(np.array([tolerance.d_min * 0.5, tolerance.d_min, tolerance.d_max]), tolerance).tolist() == [1, 1, 0]
    assert ramp_down(np.array([tolerance.d_max + 1]), tolerance).tolist() == [0]


def replays(*distances: float) -> Replay:
    """Replays of one step with these distances; NaN: the simulation broke down."""
    demonstrations = Demonstrations(np.zeros((2 * len(distances), 1)), [1] * len(distances))
    reached = np.array([[0.0, 0.0 if np.isnan(distance) else distance] for distance in distances]).reshape(-1, 1)
    return Replay(demonstrations, reached, np.isnan(distances), np.zeros((len(distances), 1)), np.zeros(len(distances), np.int64))


def test_the_tolerance_spans_the_best_plain_to_the_worst_perturbed_replay() -> None:
    assert measure_tolerance(replays(0.02, 0.01, 0.05), replays(0.3, 0.1, 0.2), delta_s=0.1) == Tolerance(d_min=0.01, d_max=0.3)


def test_a_replay_that_broke_down_does_not_set_the_tolerance() -> None:
    assert measure_tolerance(replays(0.01, np.nan), replays(0.3, 0.1, np.nan, 0.2), delta_s=0.1) == Tolerance(0.01, 0.3)
    with pytest.raises(ImitableError, match=r"each of the 1 replays .* perturbed by up to 0\.1; lower ReplayFeasibility\.delta_s"):
        measure_tolerance(replays(0.01), replays(np.nan), delta_s=0.1)
    with pytest.raises(ImitableError, match=r"each of the 1 replays of its own random episodes; fix Simulator\.step"):
        measure_tolerance(replays(np.nan), replays(np.nan), delta_s=0.1)


def test_no_delta_s_and_a_perfect_inverse_leave_no_tolerance() -> None:
    message = r"tolerance is empty: d_min .* is not below d_max .* at delta_s 0; raise ReplayFeasibility\.delta_s"
    with pytest.raises(ImitableError, match=message):
        turntable.assessed().weights(ReplayFeasibility(delta_s=0.0, columns=(0, 1)))


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


@given(sets_of_starts())
def test_rectified_return_equals_brute_force(drawn) -> None:
    returns, starts, feasible, radius = drawn
    found = rectified_return(returns, starts, feasible=feasible, radius=radius)
    assert np.array_equal(found, rectified_returns(returns.tolist(), starts.tolist(), feasible.tolist(), radius=radius))


@pytest.mark.parametrize("radius", [0.02, 0.1, 0.5, np.inf])
def test_rectified_return_equals_brute_force_on_a_large_set(radius: float) -> None:
    rng = np.random.default_rng(0)
    count = 500
    returns, starts, feasible = rng.normal(size=count), rng.uniform(-1, 1, (count, 2)), rng.random(count) < 0.7
    found = rectified_return(returns, starts, feasible=feasible, radius=radius)
    assert np.array_equal(found, rectified_returns(returns.tolist(), starts.tolist(), feasible.tolist(), radius=radius))


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


def chosen(returns: list[float] | None, goals: list[float], distances: list[float], *, lengths: int = 1) -> Assessment:
    """An assessment with these returns, goals and replay distances, and a tolerance from 0 to 1."""
    states = np.stack([np.zeros(len(goals)), goals], axis=1)
    demonstrations = Demonstrations(np.repeat(CLOCKWISE.observe(states), lengths + 1, axis=0), [lengths] * len(goals), returns)

    def cache(part: str, recipe: Mapping[str, object], make: object) -> Arrays:
        shown = demonstrations if part == "replay" else assessment.own_episodes[1].trajectories
        by = np.array(distances) if part == "replay" else np.full(len(shown), float("delta_s" in recipe))
        reached, steps = shown.observations.copy(), len(shown.transition_rows)
        reached[shown.transition_rows + 1, 0] += np.repeat(by, shown.lengths)
        return {"observations": reached, "diverged": np.isnan(by), "actions": np.zeros((steps, 1)), "verdicts": np.zeros(steps, np.int64)}

    return (assessment := assess(demonstrations, CLOCKWISE, cache=cache))


def test_optimality_compares_with_feasible_demonstrations_from_nearby_goals() -> None:
    assessment = chosen([0, -10, -30, 5], goals=[0.0, 0.1, 3.0, 0.05], distances=[0.5, 0.5, 0.5, 2.0])
    assert OPTIMALITY.best_returns(assessment).tolist() == [0, 0, -30, 5]
    assert assessment.scored(OPTIMALITY) == pytest.approx([1, np.exp(-0.5), 1, 1])
    assert assessment.scored(OURS) == pytest.approx([0.5, 0.5 * np.exp(-0.5), 0.5, 0])
    assert assessment.scored(NaiveOptimality(sigma=10.0)) == pytest.approx(np.exp(-0.5 * np.array([0.5, 1.5, 3.5, 0]) ** 2))


def test_where_all_starts_are_alike_everyone_is_a_neighbour() -> None:
    assessment = chosen([0, -10, -30], goals=[0.0, 1.5, 3.0], distances=[0.0, 0.0, 0.0])
    assert replace(OPTIMALITY, radius=np.inf).best_returns(assessment).tolist() == [0, 0, 0]
    assert OPTIMALITY.best_returns(assessment).tolist() == [0, -10, -30]


def test_all_columns_make_neighbours_unless_some_are_chosen() -> None:
    assessment = chosen([0, -10], goals=[0.0, 1.5], distances=[0.0, 0.0])
    assert replace(OPTIMALITY, columns=(0, 1)).best_returns(assessment).tolist() == [0, 0], "the joints start alike"
    assert replace(OPTIMALITY, columns=None).best_returns(assessment).tolist() == [0, -10]


def test_a_sigma_that_is_not_given_is_a_fifth_of_the_median_shortfall_of_what_is_feasible() -> None:
    by_data = replace(OPTIMALITY, sigma=None, radius=np.inf)
    assessment = chosen([0, -10, -20, -90, 50], goals=[0.0] * 5, distances=[0, 0, 0, 0, 9])
    assert by_data.resolved_sigma(assessment) == pytest.approx(np.median([10, 20, 90]) / 5)
    assert by_data.facts(assessment) == {"sigma": 4.0, "radius": np.inf, "alone": 0, "without_return": 0}
    assert assessment.scored(by_data) == pytest.approx(np.exp(-0.5 * (np.array([0, 10, 20, 90, 0]) / 4) ** 2))
    alike = chosen([7, 7], goals=[0.0, 0.0], distances=[0, 0])
    assert by_data.resolved_sigma(alike) == pytest.approx(0.05 * 7), "nobody falls short, so that any sigma will do"
    assert by_data.resolved_sigma(chosen([0, 0], goals=[0.0, 0.0], distances=[0, 0])) == 1.0
    assert alike.scored(by_data).tolist() == [1.0, 1.0]
    assert replace(OPTIMALITY, sigma=12.5).resolved_sigma(assessment) == 12.5


def test_the_sigma_of_the_naive_optimality_follows_the_same_rule_over_all_demonstrations() -> None:
    assessment = chosen([0, -10, -20, -90, 50], goals=[0.0] * 5, distances=[0, 0, 0, 0, 9])
    assert NaiveOptimality().resolved_sigma(assessment) == pytest.approx(np.median([50, 60, 70, 140]) / 5)
    assert assessment.scored(NaiveOptimality()) == pytest.approx(np.exp(-0.5 * (np.array([50, 60, 70, 140, 0]) / 13) ** 2))
    assert NaiveOptimality(sigma=12.5).resolved_sigma(assessment) == 12.5


def test_whoever_has_nobody_to_compare_with_is_unknown_and_weighed_as_the_others_are_on_average() -> None:
    score = replace(OPTIMALITY, feasible_above=0.5)
    assessment = chosen([0, -10, 7, 3], goals=[0.0, 0.1, 3.0, 1.5], distances=[0.0, 0.0, 0.0, 2.0])
    mean = (1 + np.exp(-0.5)) / 2
    assert assessment.scored(score) == pytest.approx([1, np.exp(-0.5), mean, mean])
    assert score.table(assessment)["optimality"] == pytest.approx([1, np.exp(-0.5), np.nan, np.nan], nan_ok=True)
    assert score.facts(assessment) == {"sigma": 10.0, "radius": 0.5, "alone": 2, "without_return": 0}
    assert assessment.scored(replace(score, feasible_above=0.0)) == pytest.approx([1, np.exp(-0.5), 1, 1]), "as in the paper"
    lonely = chosen([5], goals=[0.0], distances=[0.0])
    assert lonely.scored(replace(score, radius=np.inf)).tolist() == [1.0]
    assert np.isnan(replace(score, radius=np.inf).table(lonely)["optimality"]).all()


def test_only_demonstrations_that_are_mostly_feasible_set_the_standard() -> None:
    assessment = chosen([0, -10, 20, 8], goals=[0.0] * 4, distances=[0.0, 0.0, 0.6, 0.4])  # of feasibility 1, 1, 0.4 and 0.6
    assert replace(OPTIMALITY, feasible_above=0.5).best_returns(assessment).tolist() == [8, 8, 20, 8]
    assert replace(OPTIMALITY, feasible_above=0.7).best_returns(assessment).tolist() == [0, 0, 20, 8]
    assert replace(OPTIMALITY, feasible_above=0.0).best_returns(assessment).tolist() == [20] * 4
    assert RectifiedOptimality().feasible_above == 0.9


def test_a_return_that_is_earned_in_part_by_what_is_impossible_is_no_better_than_usual() -> None:
    score = replace(OPTIMALITY, feasible_above=0.9)
    assessment = chosen([0, -10, 20, -30], goals=[0.0] * 4, distances=[0.0, 0.0, 0.4, 0.4])  # of feasibility 1, 1, 0.6 and 0.6
    found = assessment.scored(score)
    assert found[2] == pytest.approx(found[:2].mean())
    assert found[3] < found[2], "worse than usual it can be"
    assert assessment.scored(replace(score, feasible_above=0.0))[2] == 1.0, "the paper's recipe"


@dataclass(frozen=True)
class FollowedButInPart:
    """All are followed, and some of number 2 is impossible."""

    def __call__(self, assessment: Assessment) -> Array:
        return np.ones(len(assessment.demonstrations))

    def impossible_parts(self, assessment: Assessment) -> Booleans:
        return np.arange(len(assessment.demonstrations)) == 2


def test_a_return_that_is_earned_in_one_impossible_second_sets_no_standard() -> None:
    score = replace(OPTIMALITY, feasibility=FollowedButInPart(), feasible_above=0.9)
    assessment = chosen([0, -10, 400, -5], goals=[0.0] * 4, distances=[0.0] * 4)
    assert score.best_returns(assessment).tolist() == [0, 0, 400, 0]
    found = assessment.scored(score)
    assert found[[0, 1, 3]] == pytest.approx(np.exp(-0.5 * np.array([0, 1, 0.5]) ** 2))
    assert found[2] == pytest.approx(found[[0, 1, 3]].mean()), "no better than usual"
    assert replace(score, feasible_above=0.0).best_returns(assessment).tolist() == [400] * 4, "the paper's recipe"


def test_nine_tenths_are_not_above_nine_tenths_however_long_the_demonstrations() -> None:
    for length in (1, 3, 7, 30):
        assessment = chosen([0, 5], goals=[0.0] * 2, distances=[0.0, 0.1], lengths=length)
        assert replace(OPTIMALITY, feasible_above=0.9).best_returns(assessment)[0] == 0


def test_optimality_without_returns_says_who_needs_them_and_how_many_are_missing() -> None:
    for score in (OPTIMALITY, NaiveOptimality(sigma=1.0), OURS):
        with pytest.raises(
            ImitableError, match=r"optimality needs returns, but 3 of 3 demonstrations have none, such as number 0; .*feasibility"
        ):
            chosen(None, goals=[0.0] * 3, distances=[0.0, 0.5, 2.0]).scored(score)
        with pytest.raises(ImitableError, match="1 of 3 demonstrations have none, such as number 1"):
            chosen([0.0, np.nan, 1.0], goals=[0.0] * 3, distances=[0.0, 0.5, 2.0]).scored(score)
    assert chosen(None, goals=[0.0] * 3, distances=[0.0, 0.5, 2.0]).weights(FEASIBILITY).tolist() == [1.0, 0.5, 0.0]


def test_without_some_returns_the_others_compare_and_the_rest_is_not_learned_from() -> None:
    score = replace(OPTIMALITY, feasible_above=0.5, radius=np.inf)
    assessment = chosen([0, -10, np.nan, 50, np.nan], goals=[0.0] * 5, distances=[0, 0, 0, 2, 2])
    usual = (1 + np.exp(-0.5)) / 2  # of the fourth, which the robot cannot follow, so that its return of 50 says nothing
    assert assessment.scored(score) == pytest.approx([1, np.exp(-0.5), 0, usual, 0])
    table = score.table(assessment)
    assert table["optimality"] == pytest.approx([1, np.exp(-0.5), np.nan, usual, np.nan], nan_ok=True)
    assert table["rectified_return"].tolist() == [0, 0, 0, 50, 0]
    assert table["better_neighbour"].tolist() == [-1, 0, -1, -1, -1]
    assert score.facts(assessment)["without_return"] == 2


def test_without_any_return_weights_are_feasibility_alone_and_it_is_said() -> None:
    score = replace(OPTIMALITY, feasible_above=0.5)
    assessment = chosen(None, goals=[0.0] * 3, distances=[0.0, 0.5, 2.0])
    with pytest.warns(UserWarning, match="no demonstration has a return: .* weights are feasibility alone"):
        assert assessment.weights(product(FEASIBILITY, score)).tolist() == [1.0, 0.5, 0.0]
    assert np.isnan(score.table(assessment)["optimality"]).all()
    assert (score.table(assessment)["better_neighbour"] == -1).all()


# Products, tables and scores of transitions


def test_a_product_multiplies() -> None:
    assessment = chosen([0, -10], goals=[0.0, 0.0], distances=[0.5, 0.25])
    assert product(FEASIBILITY)(assessment).tolist() == [0.5, 0.75]
    assert product(FEASIBILITY, FEASIBILITY, Uniform())(assessment).tolist() == [0.25, 0.5625]


def test_a_product_with_a_score_of_transitions_is_one_of_transitions() -> None:
    assessment = chosen([0, -10], goals=[0.0, 0.0], distances=[0.5, 0.25], lengths=3)
    near, nearer = np.exp([-0.5, -0.25])
    assert Closeness(scale=1.0)(assessment) == pytest.approx([near] * 3 + [nearer] * 3)
    combined = product(FEASIBILITY, Closeness(scale=1.0), Uniform())(assessment)
    assert combined == pytest.approx([0.5 * near] * 3 + [0.75 * nearer] * 3)
    p_w = np.diff(TransitionSampler(assessment.demonstrations, combined).cumulative, prepend=0.0)
    assert p_w == pytest.approx(combined / combined.sum()), "transitions are drawn by their own weights"
    assert product(Closeness(), Closeness())(assessment) == pytest.approx(Closeness()(assessment) ** 2)


def test_weights_of_transitions_come_from_those_of_their_demonstrations_or_stay() -> None:
    lengths = np.array([2, 1, 3])
    assert per_transition(np.array([0.1, 0.2, 0.3]), lengths).tolist() == [0.1, 0.1, 0.2, 0.3, 0.3, 0.3]
    assert per_transition(np.arange(6.0), lengths).tolist() == [0, 1, 2, 3, 4, 5]


def test_a_feasibility_of_transitions_sets_the_standard_too() -> None:
    """A demonstration is feasible if any of its transitions is."""

    @dataclass(frozen=True)
    class FirstTwo:
        def __call__(self, assessment: Assessment) -> Array:
            return np.repeat([1.0, 1.0, 0.0], 3) * np.tile([0.0, 1.0, 0.0], 3)

        def table(self, assessment: Assessment) -> dict[str, Array]:
            return {}

    assessment = chosen([0, -10, 5], goals=[0.0] * 3, distances=[0.0] * 3, lengths=3)
    assert replace(OPTIMALITY, feasibility=FirstTwo()).best_returns(assessment).tolist() == [0, 0, 5]


def test_tables_and_facts_of_a_product_are_those_of_its_factors(assessment: Assessment) -> None:
    table = OURS.table(assessment)
    assert list(table) == ["distance", "feasibility", "rectified_return", "optimality", "better_neighbour"]
    assert np.array_equal(table["distance"], assessment.replay.distances((0, 1)))
    assert np.array_equal(table["feasibility"] * table["optimality"], assessment.scored(OURS))
    facts, tolerance = OURS.facts(assessment), FEASIBILITY.tolerance(assessment)
    own = assessment.own_replays(FEASIBILITY.delta_s)[0].distances((0, 1))
    assert facts == {
        "tolerance": [tolerance.d_min, tolerance.d_max],
        "own_distances": [own.min(), pytest.approx(np.median(own)), own.max()],
        "sigma": 10.0,
        "radius": 0.5,
        "alone": 0,
        "without_return": 0,
    }
    assert product(Uniform(), Closeness()).facts(assessment) == {}
    assert list(product(FEASIBILITY, Closeness()).table(assessment)) == ["distance", "feasibility", "closeness"]


# Parameters


def test_columns_may_be_given_as_a_list_or_an_array() -> None:
    for columns in ([0, 1], np.array([0, 1])):
        assert len({replace(FEASIBILITY, columns=columns), FEASIBILITY}) == 1
        assert len({replace(OPTIMALITY, columns=columns), replace(OPTIMALITY, columns=(0, 1))}) == 1
    assert ReplayFeasibility().columns is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ReplayFeasibility(delta_s=-0.1), r"ReplayFeasibility.delta_s is -0\.1; it must be at least 0 and finite"),
        (lambda: ReplayFeasibility(delta_s=np.nan), "Feasibility.delta_s is nan"),
        (lambda: ReplayFeasibility(delta_s=np.inf), "Feasibility.delta_s is inf"),
        (lambda: RectifiedOptimality(sigma=0.0), r"RectifiedOptimality.sigma is 0\.0; it must be above 0"),
        (lambda: RectifiedOptimality(sigma=-1.0), "RectifiedOptimality.sigma is -1"),
        (lambda: RectifiedOptimality(sigma=np.nan), "RectifiedOptimality.sigma is nan"),
        (lambda: RectifiedOptimality(radius=-1.0), "RectifiedOptimality.radius is -1"),
        (lambda: RectifiedOptimality(radius=np.nan), "RectifiedOptimality.radius is nan"),
        (lambda: NaiveOptimality(sigma=0.0), "NaiveOptimality.sigma is 0"),
    ],
)
def test_parameters_that_make_no_sense_are_refused_by_name(make, message: str) -> None:
    with pytest.raises(ImitableError, match=message):
        make()
