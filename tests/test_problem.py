"""Posing the problem: tolerance, blindness to sources, and what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import turntable
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.experiment import weigh
from imitable.inverse_dynamics import InverseDynamics, explore
from imitable.methods import METHODS, Method
from imitable.problem import Settings, beginnings, measure_tolerance, most_promising, pose, rehearse, replays_of_own
from imitable.reinforcement import Episodes
from imitable.replay import Replay, replay
from imitable.scores import feasibility, uniform
from imitable.simulators import Simulator
from turntable import CLOCKWISE, COUNTER_CLOCKWISE, SETTINGS, ExactInverse


def test_own_demonstrations_are_feasible_and_other_dynamics_less_so() -> None:
    problem = turntable.posed(turntable.mixed(own=10, other=10))
    weights = feasibility(problem)
    assert weights[:10] == pytest.approx(np.ones(10), abs=1e-9)
    assert weights[10:].mean() < weights[:10].mean() - 0.2


def test_posing_drops_the_sources_and_keeps_the_rest() -> None:
    demos = turntable.mixed()
    problem = turntable.posed(demos)
    assert demos.sources is not None
    assert problem.demonstrations.sources is None
    assert np.array_equal(problem.demonstrations.states, demos.states)
    assert np.array_equal(problem.demonstrations.returns, demos.returns)
    relabelled = turntable.posed(replace(demos, sources=tuple(reversed(demos.sources))))
    assert np.array_equal(relabelled.replay.distances, problem.replay.distances)
    assert relabelled.tolerance == problem.tolerance


def test_the_same_generator_poses_the_same_problem() -> None:
    one, again, other = (turntable.posed(seed=seed) for seed in (0, 0, 1))
    assert one.tolerance == again.tolerance
    assert one.tolerance != other.tolerance
    assert np.array_equal(one.own_distances, again.own_distances)


def test_other_demonstrations_leave_the_tolerance_alone() -> None:
    assert turntable.posed(turntable.demonstrations(count=2)).tolerance == turntable.posed(turntable.mixed()).tolerance


def test_the_tolerance_spans_the_targets_own_replays_plain_to_perturbed() -> None:
    problem = turntable.posed()
    assert problem.tolerance.closest == problem.own_distances.min()
    assert problem.tolerance.closest < 1e-12
    assert SETTINGS.noise / 2 < problem.tolerance.farthest < 10 * SETTINGS.noise


def test_more_noise_tolerates_more() -> None:
    limits = [turntable.posed(settings=replace(SETTINGS, noise=noise)).tolerance.farthest for noise in (1e-3, 1e-2, 1e-1)]
    assert limits[0] < limits[1] < limits[2]
    demos = turntable.mixed(own=4, other=16)
    accepted = [(feasibility(turntable.posed(demos, settings=replace(SETTINGS, noise=noise))) > 0).sum() for noise in (1e-3, 1.0)]
    assert accepted[0] < accepted[1]


def test_a_rehearsal_is_what_the_target_did_when_it_chased() -> None:
    demos = turntable.mixed(own=3, other=4)
    seen = rehearse(demos, CLOCKWISE, ExactInverse(CLOCKWISE), count=7)
    rows, states = seen.trajectories.transition_rows, seen.trajectories.states
    stepped = CLOCKWISE.observe(CLOCKWISE.step(CLOCKWISE.restore(states[rows]), seen.actions))
    assert stepped == pytest.approx(states[rows + 1], abs=1e-9)
    assert sorted(seen.trajectories.start_states.tolist()) == sorted(demos.start_states.tolist())
    assert not np.allclose(np.sort(states, axis=0), np.sort(demos.states, axis=0)), "it kept up with everything"


@given(st.lists(st.tuples(st.integers(-3, 3), st.one_of(st.integers(0, 5), st.just(np.inf))), min_size=1), st.integers(1, 12))
def test_nobody_is_chosen_before_one_who_is_better_and_closer(pile: list[tuple[float, float]], count: int) -> None:
    returns, distances = np.array(pile, float).T
    chosen = most_promising(returns, distances, count=count).tolist()
    followed = np.flatnonzero(np.isfinite(distances)).tolist()
    assert len(set(chosen)) == len(chosen) == min(count, len(followed))
    assert set(chosen) <= set(followed)
    for left_out in set(followed) - set(chosen):
        surpassed = (returns[left_out] > returns[chosen]) & (distances[left_out] < distances[chosen])
        assert not surpassed.any()


def test_the_best_that_can_be_followed_are_the_most_promising() -> None:
    returns = np.array([500.0] * 20 + [3000.0] + [4000.0] * 20)  # followed but poor, followed and good, good but out of reach
    distances = np.concatenate([np.linspace(0.1, 0.2, 20), [0.15], np.linspace(0.8, 0.9, 20)])
    assert 20 in most_promising(returns, distances, count=5)
    backwards = most_promising(returns[::-1], distances[::-1], count=5)
    assert 20 in backwards, "the choice depends on the order"


def test_what_to_rehearse_is_chosen_by_the_first_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    demos = turntable.mixed(own=3, other=4)
    seen = []

    def watched(shown: Demonstrations, *arguments: Any, **options: Any) -> Replay:
        seen.append(shown.lengths.tolist())
        return replay(shown, *arguments, **options)

    monkeypatch.setattr("imitable.problem.replay", watched)
    monkeypatch.setattr("imitable.problem.GLIMPSE", 5)
    rehearse(demos, CLOCKWISE, ExactInverse(CLOCKWISE), count=2)
    assert seen == [[5] * 7, [50] * 2]


def test_beginnings_are_the_first_steps() -> None:
    states = np.arange(12.0)[:, None]
    demos = Demonstrations(states, np.array([2, 5, 2]), np.array([1.0, 2.0, 3.0]))
    short = beginnings(demos, steps=3)
    assert short.lengths.tolist() == [2, 3, 2]
    assert short.states[:, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 9, 10, 11]
    assert np.array_equal(short.returns, demos.returns)


def test_f_id_learns_from_the_rehearsal_of_the_most_promising_demonstrations() -> None:
    demos, taught = turntable.mixed(own=10, other=10), []

    class Fit(turntable.ExactFit):
        def __call__(self, exploration: Episodes, target: Simulator, **rest: Any) -> InverseDynamics:
            taught.append(exploration.trajectories)
            return super().__call__(exploration, target, **rest)

    plain, rehearsed = (turntable.posed(demos, settings=replace(SETTINGS, rehearsed=count, fit=Fit())) for count in (0, 4))
    explored, again, more = taught
    assert np.array_equal(explored.states, again.states)
    promising = demos.select(most_promising(demos.returns, plain.replay.distances, count=4))  # no longer than a glimpse
    assert np.array_equal(more.start_states[len(again) :], promising.start_states)
    assert np.array_equal(plain.step_scale, rehearsed.step_scale)


def test_a_rehearsal_that_breaks_down_everywhere_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    demos = turntable.demonstrations(count=2)
    broken = Replay(demos.states, np.empty(0), np.full(2, np.inf), np.full(2, True))
    monkeypatch.setattr("imitable.problem.replay", lambda *_, **__: broken)
    with pytest.raises(ImitableError, match=r"every demonstration it rehearsed; leave out Settings\.rehearsed"):
        rehearse(demos, CLOCKWISE, ExactInverse(CLOCKWISE), count=5)


def test_a_replay_that_broke_down_does_not_set_the_tolerance() -> None:
    distances = np.array([0.3, 0.1, np.inf, 0.2])
    own, perturbed = (Replay(np.empty(0), np.empty(0), each, np.isinf(each)) for each in (np.array([0.01]), distances))
    assert measure_tolerance(own, perturbed, noise=0.1).farthest == 0.3
    none_left = Replay(np.empty(0), np.empty(0), np.array([np.inf]), np.array([True]))
    with pytest.raises(ImitableError, match=r"each of the 1 replays .* moved by up to 0\.1; lower Settings\.noise"):
        measure_tolerance(own, none_left, noise=0.1)
    with pytest.raises(ImitableError, match="each of the 1 replays of its own random episodes; mend its step"):
        measure_tolerance(none_left, none_left, noise=0.1)


def test_no_noise_and_a_perfect_inverse_leave_no_tolerance() -> None:
    held_out = explore(CLOCKWISE, count=1, rng=np.random.default_rng(0))
    with pytest.raises(ImitableError, match=r"tolerance is empty: d_min .* is not below d_max .* at noise 0; raise Settings\.noise"):
        measure_tolerance(*replays_of_own(held_out, CLOCKWISE, ExactInverse(CLOCKWISE), noise=0.0, rng=np.random.default_rng(0)), noise=0.0)


def test_a_share_of_the_exploration_is_held_out_from_the_fit() -> None:
    seen = []

    class Watching(turntable.ExactFit):
        def __call__(self, exploration, target, *, rng, watch=lambda share: None):
            seen.append(exploration.trajectories)
            return super().__call__(exploration, target, rng=rng, watch=watch)

    problem = turntable.posed(settings=replace(SETTINGS, exploration=20, held_out=0.25, fit=Watching()))
    assert len(problem.own_distances) == 5
    assert len(seen[0]) == 15
    perturbed = turntable.posed(settings=replace(SETTINGS, exploration=20, held_out=0.5, fit=Watching()))
    assert len(perturbed.own_distances) == len(seen[1]) == 10


def test_progress_is_told_and_never_falls() -> None:
    shares: list[float] = []
    pose(turntable.mixed(), CLOCKWISE, settings=SETTINGS, rng=np.random.default_rng(0), watch=shares.append)
    assert shares
    assert all(0 <= share <= 1 for share in shares)
    assert shares == sorted(shares)


def test_the_step_scale_is_what_one_random_action_changes() -> None:
    scale = turntable.posed().step_scale
    assert scale.shape == (4,)
    assert 0.005 < scale[0] < 0.1
    assert 0.005 < scale[1] < 0.1
    assert scale[2:] == pytest.approx([0, 0], abs=1e-12)


@pytest.mark.parametrize("width", [1, 3, 5])
def test_a_wrong_number_of_columns_is_refused_with_the_targets_columns(width: int) -> None:
    demos = Demonstrations(np.zeros((4, width)), [3], [0.0])
    with pytest.raises(
        ImitableError, match=f"have {width} observation columns, but the target has 4.*joint cos, joint sin, goal cos, goal sin"
    ):
        turntable.posed(demos)


def infeasible() -> Demonstrations:
    """Two demonstrations that turn the wrong way."""
    joints = np.tile(0.1 * np.arange(11), 2)
    return Demonstrations(CLOCKWISE.observe(np.stack([joints, np.ones(22)], axis=1)), [10, 10], [0.0, 1.0])


def test_a_simulation_that_breaks_down_on_every_demonstration_is_named() -> None:
    problem = turntable.posed(infeasible())
    nowhere = replace(problem.replay, distances=np.full(2, np.inf), diverged=np.full(2, True))
    with pytest.raises(ImitableError, match="broke down on each of the 2 demonstrations"):
        weigh(replace(problem, replay=nowhere), METHODS["ours"])


@pytest.mark.parametrize("method", ["feasibility", "naive", "ours"])
def test_no_feasible_demonstration_is_an_error_that_names_the_numbers(method: str) -> None:
    problem = turntable.posed(infeasible())
    nearest, limit = problem.replay.distances.min(), problem.tolerance.farthest
    assert nearest > limit
    with pytest.raises(ImitableError) as caught:
        weigh(problem, METHODS[method])
    for part in ("no demonstration is feasible", f"{nearest:.3g}", f"{limit:.3g}", "raise Settings.noise", "0.01"):
        assert part in str(caught.value)


def test_a_method_that_ignores_feasibility_still_weighs() -> None:
    assert weigh(turntable.posed(infeasible()), METHODS["none"]).tolist() == [1.0, 1.0]


def test_all_weights_zero_is_an_error_that_names_the_method() -> None:
    problem = turntable.posed(settings=replace(SETTINGS, sigma=12.5))
    with pytest.raises(ImitableError, match=r"all 12 weights of method 'nothing' are zero; raise Settings\.sigma \(now 12\.5\)"):
        weigh(problem, Method("nothing", "", lambda problem: 0 * uniform(problem)))


def test_one_demonstration_is_posed_and_trusted() -> None:
    problem = turntable.posed(turntable.demonstrations(count=1))
    assert weigh(problem, METHODS["ours"]) == pytest.approx([1.0], abs=1e-9)


@pytest.mark.parametrize(
    "changes",
    [
        {"sigma": 0.0},
        {"sigma": -1.0},
        {"sigma": np.nan},
        {"noise": -0.1},
        {"noise": np.nan},
        {"radius": -1.0},
        {"radius": np.nan},
        {"exploration": 0},
        {"held_out": 1.5},
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused_by_name(changes: dict[str, float]) -> None:
    (name,) = changes
    with pytest.raises(ImitableError, match=name):
        turntable.posed(settings=replace(SETTINGS, **changes))


def test_other_dynamics_are_told_apart_in_both_directions() -> None:
    demos = turntable.demonstrations(COUNTER_CLOCKWISE, count=6)
    settings = Settings(noise=0.01, sigma=10.0, exploration=20, fit=turntable.ExactFit())
    own, foreign = (pose(demos, target, settings=settings, rng=np.random.default_rng(0)) for target in (COUNTER_CLOCKWISE, CLOCKWISE))
    assert feasibility(own) == pytest.approx(np.ones(6), abs=1e-9)
    assert feasibility(foreign).mean() < 0.8
