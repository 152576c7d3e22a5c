"""Feasibility by windows: own and other bodies, impossible stretches, the promised rate of false rejects, and what it says."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cart import CART, Cart, both, pushes
from imitable.assessment import Assessment, Exploration, assess
from imitable.demonstrations import Demonstrations, join
from imitable.errors import ImitableError
from imitable.inverse_dynamics import Solved
from imitable.noise import noisy
from imitable.scores import Feasibility, Tolerance
from imitable.scores.feasibility import (
    MIN_FEASIBILITY,
    NOISE_MARGIN_FACTOR,
    TransitionFeasibility,
    mean_by_demonstration,
    median_by_demonstration,
    own_statistics,
    ramp_down,
)
from imitable.tracking import WINDOWS_PER_DEMO, Tracked, rollout_from
from imitable.windows import FOLLOWED, Windows, worst_window

FEASIBILITY = Feasibility()


def assessed(given: Demonstrations, *, robot: Cart = CART, seed: int = 0) -> Assessment:
    return assess(given, robot, exploration=Exploration(episodes=40, steps=40), rng=np.random.default_rng(seed))


def spliced(count: int, *, seed: int, first: int = 60, last: int = 90, steps: int = 150) -> Demonstrations:
    """Long demonstrations with a stretch in which the cart is thrice as strong."""
    return pushes(count, seed=seed, steps=steps, strengths=np.where((np.arange(steps) >= first) & (np.arange(steps) < last), 3.0, 1.0))


def expected_share(share: float) -> float:
    """Mean over demonstrations of a share that is taken from few windows, and from twice as many where these disagree."""
    agreed = share**WINDOWS_PER_DEMO
    mixed = 1 - agreed - (1 - share) ** WINDOWS_PER_DEMO
    of_first = WINDOWS_PER_DEMO * (share - agreed)  # followed ones among the first, where they disagree
    return agreed + (of_first + mixed * WINDOWS_PER_DEMO * share) / (2 * WINDOWS_PER_DEMO)


# Scores


def test_own_demonstrations_are_feasible_and_those_of_a_stronger_body_are_not() -> None:
    weights = assessed(both(own=20, other=20)).scored(FEASIBILITY)
    assert (weights[:20] > 0.9).all()
    assert not weights[20:].any()
    gentle = assessed(pushes(20, seed=0, strengths=2.0, gentle=0.49)).scored(FEASIBILITY)
    assert (gentle > 0.9).all(), "it is not the body but what it does"


def test_a_demonstration_with_an_impossible_stretch_keeps_its_other_share() -> None:
    given, count = spliced(120, seed=0), 120
    assessment = assessed(given)
    weights, length = assessment.scored(FEASIBILITY), assessment.tracked.length
    starts = np.minimum(np.arange(0, 150, length), 150 - length)
    share = float(((starts + length <= 60) | (starts >= 90)).mean())
    assert 0.6 < share < 0.8
    spread = 3 * weights.std() / np.sqrt(count)
    assert spread < 0.08
    assert weights.mean() == pytest.approx(share, abs=spread)
    assert (weights > 0).mean() > 0.9, "it is not thrown away for a stretch"
    whole = assessed(pushes(20, seed=1, steps=150)).scored(FEASIBILITY)
    assert weights.mean() < whole.min()


@pytest.mark.parametrize("places", [2, 3, 4])
def test_demonstrations_with_few_decimals_are_not_rejected_for_it(places: int) -> None:
    own, strong = pushes(20, seed=0, steps=60), pushes(20, seed=1, strengths=4.0, steps=60)
    given = join([own, strong])
    weights = assessed(Demonstrations(np.round(given.observations, places), given.lengths)).scored(FEASIBILITY)
    assert weights[:20].min() > 0.8
    assert places < 3 or weights[20:].max() == 0


def test_the_longer_the_impossible_stretch_the_less_is_left() -> None:
    means = [assessed(spliced(40, seed=0, first=60, last=last)).scored(FEASIBILITY).mean() for last in (60, 75, 100, 140)]
    assert means[0] > 0.99
    assert all(more > less + 0.05 for more, less in pairwise(means))


def test_fragments_count_for_nothing() -> None:
    mostly_impossible = spliced(60, seed=0, first=10, last=150)
    weights = assessed(mostly_impossible).scored(FEASIBILITY)
    assert not ((weights > 0) & (weights < MIN_FEASIBILITY)).any()
    assert (weights == 0).mean() > 0.7


def test_the_order_of_demonstrations_matters_no_more_than_which_windows_are_drawn() -> None:
    given = join([both(own=20, other=20), spliced(40, seed=5)])
    order = np.random.default_rng(1).permutation(80)
    before = assessed(given).scored(FEASIBILITY)
    after = np.empty(80)
    after[order] = assessed(given.select(order)).scored(FEASIBILITY)
    assert np.array_equal(after[:40], before[:40]), "what is clear is clear whichever windows are drawn"
    drawn_anew = assessed(given, seed=1).scored(FEASIBILITY)
    assert after[40:].mean() == pytest.approx(before[40:].mean(), abs=3 * before[40:].std() * np.sqrt(2 / 40))
    assert np.abs(after - before).mean() < 2 * np.abs(drawn_anew - before).mean() + 0.01


def test_feasibility_is_blind_to_sources_and_repeats_itself() -> None:
    given = both(own=5, other=5)
    plain = assessed(given).scored(FEASIBILITY)
    for sources in (("other-dynamics",) * 5 + ("optimal",) * 5, ("optimal",) * 10):
        assert np.array_equal(assessed(given.with_sources(sources)).scored(FEASIBILITY), plain)


# Noise and the promised rate


@pytest.mark.parametrize("level", [0.2, 1.0])
def test_fresh_own_demonstrations_are_rejected_as_rarely_as_promised(level: float) -> None:
    score, rejected = Feasibility(false_reject_rate=0.1), []  # of demonstrations so long that their windows do not overlap
    for seed in range(4):
        rng = np.random.default_rng(100 + seed)
        fresh = rollout_from(CART, CART.initial_states(150, rng), 400, rng=rng).trajectories
        scale = assessed(fresh, seed=seed).step_scale
        assessment = assessed(noisy(fresh, level, scale, rng), seed=seed)
        assert assessment.noise == pytest.approx(level, rel=0.2)
        shown = assessment.tracked.demonstration_windows
        distances = median_by_demonstration(shown.distances, shown)
        tolerance = score.tolerance(assessment)
        rejected.append((distances > tolerance.d_min).mean())
        assert (assessment.scored(score) > 0).mean() > 0.9
        assert tolerance.d_max < 2.5 * np.median(distances), "and not because everything is accepted"
    assert np.mean(rejected) < 0.115


@pytest.mark.parametrize("level", [0.05, 0.2])
def test_own_demonstrations_that_saturate_are_not_rejected_for_noise(level: float) -> None:
    clean = pushes(150, seed=0, steps=200)  # full strength at every step: noise beyond the limits cannot be followed
    given = noisy(clean, level, assessed(clean).step_scale, np.random.default_rng(0))
    assessment = assessed(given)
    shown = assessment.tracked.demonstration_windows
    rejected = median_by_demonstration(shown.distances, shown) > FEASIBILITY.tolerance(assessment).d_min
    assert rejected.mean() <= FEASIBILITY.false_reject_rate + 0.015


def test_without_noise_own_demonstrations_are_hardly_ever_rejected() -> None:
    assessment = assessed(pushes(100, seed=3))
    assert (assessment.scored(FEASIBILITY) == 1).mean() >= 1 - FEASIBILITY.false_reject_rate
    assert assessment.tracked.noise == 0


@pytest.mark.parametrize("level", [0.05, 0.2, 1.0])
def test_noise_does_not_blur_the_verdict(level: float) -> None:
    clean = join([pushes(30, seed=0, gentle=0.4), pushes(30, seed=1, strengths=2.0)])
    given = noisy(clean, level, assessed(clean).step_scale, np.random.default_rng(0))
    weights = assessed(given).scored(FEASIBILITY)
    assert weights[:30].mean() > 0.9
    assert not weights[30:].any()


def test_a_higher_rate_rejects_more_and_the_tolerance_hardly_moves_with_the_seed() -> None:
    clean = pushes(10, seed=0, gentle=0.4)
    given = noisy(clean, 0.3, assessed(clean).step_scale, np.random.default_rng(0))
    found = [assessed(given, seed=seed) for seed in range(5)]
    limits = [Feasibility(rate).tolerance(found[0]).d_min for rate in (0.4, 0.2, 0.1, 0.05)]
    assert limits == sorted(limits)
    assert limits[0] < limits[-1]
    for name, apart in (("d_min", 1.15), ("d_max", 1.3)):  # d_max is twice as far beyond what noise alone makes
        over_seeds = [getattr(FEASIBILITY.tolerance(each), name) / each.noise for each in found]  # units depend on what was explored
        assert max(over_seeds) < apart * min(over_seeds)


# The tolerance by hand


def windows(distances: list[float], demo: list[int], *, unsettled: tuple[int, ...] = ()) -> Windows:
    count = len(distances)
    nothing = np.zeros(count, np.int64)
    settled = ~np.isin(np.arange(count), unsettled)
    return Windows(
        np.array(demo), np.arange(count), np.array(distances), np.array(distances)[:, None], nothing, nothing - 1, np.ones(count), settled
    )


def of_own(distances: list[float], *, noise: float = 0.0, groups: int = 1) -> Tracked:
    demo = [number // groups for number in range(len(distances))]
    return Tracked(windows([0.0], [0]), windows(distances, demo), windows(distances, demo), 5, noise, 1.0)


def test_the_tolerance_begins_where_few_of_the_robots_own_are_and_ends_twice_as_far_beyond_the_usual() -> None:
    own = (np.arange(1, 100) / 100).tolist()
    for rate, d_min in ((0.05, 0.95), (0.2, 0.8)):
        found = Feasibility(rate).tolerance_of(of_own(own))
        assert found.d_min == d_min
        assert np.sqrt(found.d_max**2 - 0.5**2) == pytest.approx(2 * np.sqrt(d_min**2 - 0.5**2)), "0.5 is what noise alone makes"


def test_one_outlier_does_not_move_the_tolerance() -> None:
    own = (np.arange(1, 100) / 100).tolist()
    assert Feasibility(0.05).tolerance_of(of_own([*own[:-1], 1e6])) == Feasibility(0.05).tolerance_of(of_own(own))


def test_a_robot_that_follows_itself_exactly_still_tolerates_a_little() -> None:
    assert FEASIBILITY.tolerance_of(of_own([0.0] * 99)) == Tolerance(FOLLOWED, 2 * FOLLOWED)


def test_with_noise_medians_over_windows_are_compared() -> None:
    own = [each for middle in (np.arange(1, 41) / 10).tolist() for each in (middle - 0.05, 1e3, middle)]
    tracked = of_own(own, noise=0.5, groups=3)
    assert own_statistics(tracked)[0] == pytest.approx(np.arange(1, 41) / 10)
    assert Feasibility(0.05).tolerance_of(tracked).d_min == pytest.approx(3.9 * NOISE_MARGIN_FACTOR)
    assert [each.tolist() for each in own_statistics(replace(tracked, noise=0.0))] == [own, own]


def test_the_median_of_two_is_the_lower_one() -> None:
    shown = windows([4.0, 1.0, 9.0, 3.0, 2.0, 7.0, 5.0, np.inf], [0, 0, 0, 1, 1, 2, 3, 3])
    assert median_by_demonstration(shown.distances, shown).tolist() == [4.0, 2.0, 7.0, 5.0]


def test_with_noise_single_windows_that_chaos_carries_off_do_not_count() -> None:
    own = of_own([0.9, 1.0, 1.1] * 40, noise=0.5, groups=3)
    shown = windows([1.0, 1e3, 0.9, 1e3, 1e3, 1.0], [0, 0, 0, 1, 1, 1])
    assert FEASIBILITY.weights_of(replace(own, demonstration_windows=shown)).tolist() == [1.0, 0.0]


def test_two_windows_that_are_clearly_lost_are_an_impossible_part() -> None:
    own, lost = of_own([0.01] * 40), 4.1 * FOLLOWED  # twice d_max, and a little
    distances = [lost, lost, 0.0, lost, 0.0, 0.0, *[3 * FOLLOWED] * 3, lost, lost, 0.0]
    tracked = replace(own, demonstration_windows=windows(distances, [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3, unsettled=(9,)))
    assert FEASIBILITY.clearly_lost(tracked).nonzero()[0].tolist() == [0, 1, 3, 10]
    shown: Any = SimpleNamespace(tracked=tracked, demonstrations=range(4))
    assert FEASIBILITY.impossible_parts(shown).tolist() == [True, False, False, False]
    assert not FEASIBILITY.clearly_lost(replace(tracked, noise=0.5)).any(), "noise may take the robot off in some windows"


def test_too_few_own_windows_for_the_rate_are_an_error() -> None:
    with pytest.raises(ImitableError, match=r"18 windows .* too few for a false reject rate of 0\.05: .*check units.*or raise"):
        FEASIBILITY.tolerance_of(of_own([0.1] * 18))
    FEASIBILITY.tolerance_of(of_own([0.1] * 19))


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1, np.nan])
def test_a_rate_that_makes_no_sense_is_refused(rate: float) -> None:
    with pytest.raises(ImitableError, match=r"Feasibility\.false_reject_rate is .*; it must be between 0 and 1"):
        Feasibility(false_reject_rate=rate)


def test_windows_are_taken_together_by_demonstration() -> None:
    shown = windows([1.0, 5.0, 2.0, 4.0, 3.0], [1, 0, 1, 0, 2])
    assert mean_by_demonstration(shown.distances, shown).tolist() == [4.5, 1.5, 3.0]
    assert worst_window(shown).tolist() == [1, 2, 4]


def test_windows_that_are_not_settled_do_not_count_unless_there_are_no_others() -> None:
    shown = windows([1.0, 5.0, 2.0, 4.0, 3.0, np.inf], [1, 0, 1, 0, 2, 0], unsettled=(0, 4, 5))
    assert mean_by_demonstration(shown.distances, shown).tolist() == [4.5, 2.0, 3.0]
    assert mean_by_demonstration(shown.distances, shown, unsettled=0.5).tolist() == [4.5, 2.0, 0.5]
    own = windows([0.1] * 50 + [9.0] * 50, list(range(100)), unsettled=tuple(range(50, 100)))
    assert Feasibility(0.05).tolerance_of(Tracked(shown, own, own, 5, 0.0, 1.0)).d_min == 0.1


# What it says


@pytest.fixture(scope="module")
def mixed() -> Assessment:
    return assessed(join([both(own=6, other=6), spliced(6, seed=9)]))


def test_the_table_says_where_and_why(mixed: Assessment) -> None:
    table, shown = FEASIBILITY.table(mixed), mixed.tracked.demonstration_windows
    first = ["distance", "feasibility", "impossible_part", "first_bad_step"]
    assert list(table) == [*first, "worst_column", "limiting_actuator", "limit_factor"]
    assert not table["impossible_part"][:6].any()
    assert table["impossible_part"][6:].all(), "all of another body's, and those with a foreign part"
    assert all(column.shape == (18,) for column in table.values())
    assert np.array_equal(table["feasibility"], mixed.scored(FEASIBILITY))
    assert table["first_bad_step"][:6].tolist() == [-1] * 6
    for demo in range(6, 12):
        assert table["first_bad_step"][demo] == shown.start[shown.demo == demo].min()
    assert set(table["worst_column"][6:12]) <= {"x", "y", "velocity x", "velocity y"}
    assert set(table["limiting_actuator"][6:12].tolist()) <= {0, 1}
    assert table["limit_factor"][6:12].min() > 1.5
    bad = table["first_bad_step"][12:]
    assert (bad[bad >= 0] > 60 - mixed.tracked.length).all()
    assert (bad[bad >= 0] < 90).all()


def test_the_facts_state_the_promised_and_the_realised_rate(mixed: Assessment) -> None:
    found, tolerance = FEASIBILITY.facts(mixed), FEASIBILITY.tolerance(mixed)
    assert found["tolerance"] == [tolerance.d_min, tolerance.d_max]
    assert found["own_distances"] == pytest.approx(np.percentile(mixed.tracked.random_windows.distances, [0, 50, 100]))
    assert (found["window"], found["noise"], found["false_reject_rate"]) == (mixed.tracked.length, 0.0, 0.05)
    assert found["realised_false_reject_rate"] == 0.0


def test_the_realised_rate_is_measured_on_windows_that_did_not_set_the_tolerance() -> None:
    near, far = np.linspace(0.1, 1.0, 40), np.linspace(2.0, 3.0, 40)
    for setting, measured, rate in ((near, far, 1.0), (far, near, 0.0), (near, near, 0.2)):
        own = np.stack([setting, measured], axis=1).ravel().tolist()
        assert Feasibility(0.2).realised_of(of_own(own)) == pytest.approx(rate, abs=0.03)


def test_nothing_feasible_is_an_error_with_numbers() -> None:
    assessment = assessed(pushes(5, seed=0, strengths=3.0))
    with pytest.raises(ImitableError, match="all 5 weights are zero: no demonstration is feasible on the robot") as caught:
        assessment.weights(FEASIBILITY)
    nearest = f"{assessment.tracked.demonstration_windows.distances.min():.3g} of its own one-step changes off"
    for part in (nearest, "it follows its own within 0.05", "check units, column order and frame rate"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda seen: seen * [1, 1, 100, 100],
        lambda seen: seen[:, [2, 3, 0, 1]],
        lambda seen: np.concatenate([seen[::-1, :2], seen[::-1, 2:]], axis=1),
    ],
    ids=["units", "order of columns", "backwards"],
)
def test_demonstrations_that_are_not_the_robots_motion_are_infeasible(wrong: Callable[[np.ndarray], np.ndarray]) -> None:
    given = pushes(6, seed=0)
    garbled = Demonstrations(np.concatenate([wrong(given.trajectory(index)) for index in range(6)]), given.lengths)
    assert not assessed(garbled).scored(FEASIBILITY).any()
    assert FEASIBILITY.why_zero(assessed(garbled)).startswith("no demonstration is feasible")


def test_the_ramp_is_on_windows_and_the_mean_over_them(mixed: Assessment) -> None:
    shown = mixed.tracked.demonstration_windows
    share = mean_by_demonstration(ramp_down(shown.distances, FEASIBILITY.tolerance(mixed)), shown)
    assert mixed.scored(FEASIBILITY) == pytest.approx(np.where(share < MIN_FEASIBILITY, 0.0, share))


def test_the_default_inverse_is_solved(mixed: Assessment) -> None:
    assert mixed.model == Solved()


# Of every transition by itself


def test_transitions_are_feasible_where_the_robot_reaches_them() -> None:
    given = spliced(4, seed=0)
    assessment = assessed(given)
    weights = assessment.scored(TransitionFeasibility())
    possible = np.tile((np.arange(150) < 60) | (np.arange(150) >= 90), 4)
    assert np.array_equal(weights, possible)
    assert TransitionFeasibility().table(assessment)["reached share"] == pytest.approx(np.full(4, 0.8))


def test_what_jumps_about_is_infeasible_rather_than_noisy() -> None:
    spread = pushes(5, seed=0).observations.std(axis=0)
    jumping = np.random.default_rng(0).normal(size=(10 * 31, len(spread))) * 10 * spread
    assessment = assessed(Demonstrations(jumping, [30] * 10))
    assert assessment.noise == 0
    assert not assessment.scored(FEASIBILITY).any()


def test_rounded_columns_are_compared_no_finer_than_ten_times_their_last_decimal() -> None:
    given = pushes(4, seed=0)
    coarse = Demonstrations(np.round(given.observations, 1), given.lengths)
    exact, rounded = assessed(given), assessed(coarse)
    assert rounded.rounding == pytest.approx(np.full(given.width, 0.1))
    assert (rounded.step_scale >= 1.0 - 1e-12).all()
    assert exact.step_scale.min() < 1.0, "else this test says nothing"
