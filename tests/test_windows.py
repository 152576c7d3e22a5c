"""Following windows: who is followed, what limits them, where they begin, and what is tried again."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pytest

from cart import CART, Clipped, Edge, both, pushes
from imitable.arrays import Array
from imitable.demonstrations import Demonstrations, join
from imitable.inverse_dynamics import NOT_SETTLED, OUT_OF_REACH, InverseResult, Solved, step_scale
from imitable.restorability import restorable_rows
from imitable.simulators import Simulator
from imitable.tracking import rollout_from
from imitable.windows import FOLLOWED, MAX_LOST_STEPS, Windows, disagreeing, draw_windows, follow_windows, join_windows, select_windows

OWN = rollout_from(CART, CART.initial_states(30, np.random.default_rng(0)), 60, rng=np.random.default_rng(0))
SCALE = step_scale(OWN)
INVERSE = Solved().for_tracking(0.0).fit(OWN, CART, rng=np.random.default_rng(0))


def follow(given: Demonstrations, *, starts: Any = 0, length: int = 10, robot: Simulator = CART, **more: Any) -> tuple[Windows, int]:
    """One window of each demonstration."""
    demos, inverse = np.arange(len(given)), more.pop("inverse_dynamics", replace(INVERSE, robot=robot))
    starts = np.broadcast_to(starts, len(given)).astype(np.int64)
    return follow_windows(given, demos, starts, length, robot=robot, inverse_dynamics=inverse, scale=SCALE, **more)


# Following


@pytest.mark.parametrize("length", [1, 5, 20])
def test_own_windows_are_followed_and_those_of_a_stronger_body_are_not(length: int) -> None:
    own, _ = follow(pushes(40, seed=1), length=length, starts=7)
    other, _ = follow(pushes(40, seed=2, strengths=2.0), length=length, starts=7)
    assert own.distances.max() < FOLLOWED
    assert other.distances.min() > 5 * FOLLOWED
    gentle, _ = follow(pushes(40, seed=3, strengths=2.0, gentle=0.49), length=length, starts=7)
    assert gentle.distances.max() < FOLLOWED, "a strong body used gently can be followed"


def test_a_window_says_what_limits_it() -> None:
    rng = np.random.default_rng(0)
    states, shown = rng.normal(size=(20, 4)), []
    shown.append(states)
    for _ in range(5):  # gently along x, at thrice the strength along y
        states = CART.step(states, np.tile([0.3, 0.0], (20, 1)))
        states[:, 1] += 0.01 * 3
        states[:, 3] += 0.1 * 3
        shown.append(states)
    given = Demonstrations(np.stack(shown, axis=1).reshape(-1, 4), np.full(20, 5))
    windows, _ = follow(given, length=1)
    assert (windows.limiting_actuator == 1).all()
    assert windows.limit_factor == pytest.approx(np.full(20, 3.0), rel=1e-3)
    assert set(windows.worst_column.tolist()) <= {1, 3}
    free, _ = follow(pushes(20, seed=0, gentle=0.5))
    assert (free.limit_factor == 1).all()
    assert (free.limiting_actuator == -1).all()


def test_what_limits_a_window_is_what_lost_it_not_what_keeps_it_from_getting_back() -> None:
    pushed = np.zeros((8, 2))
    pushed[0, 1], pushed[2:, 0] = 3.0, 9.0  # beyond the strength along y at first, far beyond it along x after that
    states = [np.zeros((1, 4))]
    for push in pushed:
        velocities = 0.97 * states[-1][:, 2:] + 0.1 * push
        states.append(np.concatenate([states[-1][:, :2] + 0.1 * velocities, velocities], axis=1))
    windows, _ = follow(Demonstrations(np.concatenate(states), [8]), length=8, give_up_distance=np.inf)
    assert windows.limiting_actuator.tolist() == [1]
    assert windows.limit_factor == pytest.approx([3.0], rel=1e-3)


def test_distances_are_the_mean_of_what_is_left_in_units_of_own_steps() -> None:
    """Standing still before a goal out of reach, whose column no action moves."""
    width, count = 0.7, 3
    still = Demonstrations(np.zeros((count * 5, 4)) + np.repeat(np.arange(count), 5)[:, None] * [1.0, 0, 0, 0], np.full(count, 4))
    moved = still.observations.copy()
    moved[still.transition_rows + 1, 3] += width * SCALE[3]
    frozen = replace(CART, strength=1e-12)
    windows, _ = follow(Demonstrations(moved, still.lengths), length=4, robot=frozen)
    assert windows.distances[0] == pytest.approx(width / 2, rel=0.15), "root mean square over four columns of which one is off"
    assert (windows.worst_column == 3).all()
    assert windows.distances == pytest.approx(np.full(count, windows.distances[0]))


def test_what_is_hopeless_is_given_up_early_and_counts_as_not_followed() -> None:
    given = both(own=10, other=10)
    short, few = follow(given, give_up_distance=0.3)
    long, many = follow(given, give_up_distance=np.inf)
    assert few < 0.7 * many
    assert np.array_equal(short.distances[:10], long.distances[:10])
    assert (short.distances[10:] > 0.3 / 10).all()
    assert np.array_equal(short.distances > FOLLOWED, long.distances > FOLLOWED)


def test_demonstrations_shorter_than_a_window_are_followed_to_their_end() -> None:
    windows, _ = follow(join([pushes(3, seed=0, steps=2), pushes(3, seed=0, steps=2, strengths=3.0)]), length=10)
    assert windows.distances[:3].max() < FOLLOWED
    assert windows.distances[3:].min() > FOLLOWED


@pytest.mark.parametrize("start", [0, 3, 4], ids=["in the middle of a window", "later", "at its last step"])
def test_a_simulation_that_breaks_down_is_infinitely_far(start: int) -> None:
    places = 1.0 + 0.02 * (np.arange(6) - 3.5)  # beyond the limit before the last step
    running = np.stack([places, np.zeros(6), np.full(6, 0.2), np.zeros(6)], axis=1)
    given = join([Demonstrations(running, [5]), pushes(1, seed=0, steps=5)])
    windows, _ = follow(given, starts=[start, 0], length=5 - start, robot=Edge())
    assert windows.distances[0] == np.inf
    assert windows.distances[1] < FOLLOWED


def test_joined_windows_are_all_of_them_in_order() -> None:
    one, other = follow(pushes(3, seed=0))[0], follow(pushes(2, seed=1))[0]
    joined = join_windows([one, other])
    assert len(joined) == 5
    for each in fields(Windows):
        assert np.array_equal(getattr(joined, each.name), np.concatenate([getattr(one, each.name), getattr(other, each.name)]))


# Put back at every step


def one_bad_step(*, at: int, count: int = 5, steps: int = 12) -> Demonstrations:
    """The cart's own, but for one step of a strong one at full strength."""
    strengths = np.ones(steps)
    strengths[at] = 3.0
    return pushes(count, seed=0, steps=steps, strengths=strengths)


@dataclass(frozen=True)
class Blind:
    """Asked first, it says that nothing moves; counts what it was asked."""

    asked: list[int]

    def __call__(self, states: Array, next_observations: Array, *, guess: InverseResult | None = None) -> InverseResult:
        self.asked.append(len(states))
        found = InverseResult.unchecked(np.zeros((len(states), 2)), CART)
        miss = np.sqrt(np.square((CART.step(states, found.actions) - next_observations) / SCALE).mean(axis=1))
        return replace(found, miss=miss, verdict=np.full(len(states), OUT_OF_REACH))

    def arrays(self) -> dict[str, Array]:
        return {}


def test_a_robot_that_is_put_back_is_lost_at_the_bad_step_alone() -> None:
    given = one_bad_step(at=6)
    tracked, _ = follow(given, length=12, give_up_distance=np.inf)
    back, _ = follow(given, length=12, give_up_distance=np.inf, retry_with=(INVERSE,))
    alone, _ = follow(given, length=1, starts=6)
    assert back.distances == pytest.approx(alone.distances), "the farthest step, not the mean"
    assert (alone.distances > 5 * FOLLOWED).all()
    assert back.settled.all()
    assert back.step_distances.argmax(axis=1).tolist() == [6] * 5
    assert np.delete(back.step_distances, 6, axis=1).max() < FOLLOWED
    after, _ = follow(given, length=5, starts=7, retry_with=(INVERSE,))
    assert after.distances.max() < FOLLOWED, "put back, it follows what comes after"
    assert (tracked.distances < back.distances).all()


def test_what_the_first_does_not_reach_is_tried_again_and_what_it_reaches_is_not() -> None:
    given, first, second = pushes(8, seed=1, steps=10), Blind([]), Blind([])
    windows, steps = follow(given, length=10, inverse_dynamics=first, retry_with=(INVERSE, second))
    assert windows.distances.max() < FOLLOWED
    assert windows.settled.all()
    assert sum(first.asked) == 80
    assert not second.asked
    assert steps > 80 + 80, "those of the second answers are counted"


def test_what_is_far_beyond_doubt_is_not_tried_again() -> None:
    given, asked = pushes(8, seed=1, steps=10, strengths=3.0), Blind([])
    follow(given, length=1, retry_with=(asked,), retry_below=0.01)
    assert not asked.asked
    follow(given, length=1, retry_with=(asked,), retry_below=np.inf)
    assert asked.asked == [8]


def test_a_worse_second_answer_is_not_taken() -> None:
    given = pushes(8, seed=1, steps=10, strengths=3.0)
    plain, _ = follow(given, length=1)
    windows, _ = follow(given, length=1, retry_with=(Blind([]),))
    assert windows.distances == pytest.approx(plain.distances)
    assert np.array_equal(windows.limiting_actuator, plain.limiting_actuator)


@dataclass(frozen=True)
class Weary:
    """Its answers are right at first, and after that a share of the right ones that it is not sure of."""

    share: float
    first: int = 0
    asked: list[int] = field(default_factory=list)

    def __call__(self, states: Array, next_observations: Array, *, guess: InverseResult | None = None) -> InverseResult:
        self.asked.append(len(states))
        found = INVERSE(states, next_observations, guess=guess)
        if len(self.asked) <= self.first:
            return found
        actions = self.share * found.actions
        miss = np.sqrt(np.square((CART.step(states, actions) - next_observations) / SCALE).mean(axis=1))
        return replace(found, actions=actions, miss=miss, verdict=np.full(len(states), NOT_SETTLED))

    def arrays(self) -> dict[str, Array]:
        return {}


def test_a_small_miss_that_nobody_is_sure_of_is_not_judged() -> None:
    given = pushes(8, seed=1, steps=10)
    windows, _ = follow(given, length=10, inverse_dynamics=Weary(0.8), retry_with=(Weary(0.8),))
    assert not windows.settled.any()
    assert np.isnan(windows.step_distances).all()
    far, _ = follow(given, length=10, inverse_dynamics=Weary(-1.0), retry_with=(Weary(-1.0),))
    assert far.settled.all(), "but a large one is"


def test_the_second_answer_says_whether_a_step_is_settled() -> None:
    given = pushes(8, seed=1, steps=10, strengths=1.2)
    windows, _ = follow(given, length=10, inverse_dynamics=Weary(0.8), retry_with=(INVERSE,))
    assert windows.settled.all()
    assert (windows.distances > FOLLOWED).all()
    doubted, _ = follow(given, length=10, inverse_dynamics=INVERSE, retry_with=(Weary(0.8),))
    assert not doubted.settled.any()


def test_a_few_clear_steps_do_not_settle_a_window() -> None:
    states = [np.array([[0.0, 0.0, 0.35, 0.0]])]
    for _ in range(10):
        states.append(CART.step(states[-1], np.array([[1.0, 0.0]])))
    given = Demonstrations(np.concatenate(states), [10])
    assert Clipped().restorable(given.observations).tolist() == [True] + [False] * 10, (
        "after that it is carried along, while it is on track"
    )
    for first, settled in ((3, False), (10, True)):
        windows, _ = follow(given, length=10, robot=Clipped(), inverse_dynamics=Weary(0.7, first=first), retry_with=(Weary(0.7),))
        assert np.isfinite(windows.step_distances).sum() == first
        assert windows.settled.tolist() == [settled]


def test_where_an_observation_does_not_determine_the_state_the_last_one_is_carried_along() -> None:
    @dataclass(frozen=True)
    class Forgetful(Clipped):
        def restore(self, observations: Array, like: Array | None = None) -> Array:
            return np.where(self.restorable(observations)[:, None], observations, 99.0)

    robot, given = Forgetful(), pushes(40, seed=0, gentle=0.6)
    determined = robot.restorable(given.observations)[given.starts + 1]
    assert 0 < determined.sum() < 40
    begins = robot.restorable(given.observations)[given.starts]
    windows, _ = follow(given.select(np.flatnonzero(begins)), length=10, robot=robot, retry_with=(replace(INVERSE, robot=robot),))
    assert windows.distances.max() < FOLLOWED


def test_what_is_followed_is_refined_where_the_state_is_carried_along() -> None:
    """Or misses within a verdict's tolerance add up: the speed of the cart is off by as much more with every step."""

    @dataclass(frozen=True)
    class Off:
        asked: list[int] = field(default_factory=list)

        def __call__(self, states: Array, next_observations: Array, *, guess: InverseResult | None = None) -> InverseResult:
            self.asked.append(len(states))
            found = INVERSE(states, next_observations, guess=None)
            actions = np.clip(found.actions + 0.02, -1.0, 1.0)
            missed = (CART.observe(CART.step(states, actions)) - next_observations) / SCALE
            return replace(found, actions=actions, miss=np.sqrt(np.square(missed).mean(axis=1)))

    robot, given = Clipped(), pushes(40, seed=0, gentle=0.6)
    carried = ~robot.restorable(given.observations)
    begins = np.flatnonzero(~carried[given.starts])
    windows, _ = follow(given.select(begins), robot=robot, inverse_dynamics=Off(), retry_with=(Off(),))
    fine, exact = Off(), Solved().fit(OWN, CART, rng=np.random.default_rng(0))
    refined, _ = follow(given.select(begins), robot=robot, inverse_dynamics=fine, retry_with=(Off(),), carry_with=exact)
    assert windows.distances.max() > FOLLOWED
    assert refined.distances.max() < FOLLOWED
    asked: list[int] = []
    follow(pushes(4, seed=0), inverse_dynamics=INVERSE, retry_with=(INVERSE,), carry_with=Off(asked))
    assert not asked, "every observation of this robot determines its state"


def test_windows_that_disagree_are_found_and_selected() -> None:
    windows, _ = follow(both(own=2, other=2))
    mixed = replace(join_windows([windows, windows]), demo=np.array([0, 0, 1, 2, 0, 1, 1, 2]))
    assert disagreeing(mixed, FOLLOWED).tolist() == [False, True, False]
    assert select_windows(windows, np.array([3, 0])).distances.tolist() == windows.distances[[3, 0]].tolist()


# Where windows begin


@pytest.mark.parametrize("length", [1, 7, 30])
def test_windows_stay_inside_their_demonstrations_and_begin_anywhere(length: int) -> None:
    ragged = join([pushes(1, seed=steps, steps=steps) for steps in (1, 5, 8, 30, 31, 60)])
    demos = np.tile(np.arange(6), 400)
    starts = draw_windows(ragged, demos, length, restorable=restorable_rows(ragged, CART), rng=np.random.default_rng(0))
    for demo, steps in enumerate(ragged.lengths):
        mine = starts[demos == demo]
        assert mine.min() == 0
        assert mine.max() == max(steps - length, 0), "all starts are drawn, and none that leads beyond the end"


def test_windows_avoid_observations_that_do_not_determine_the_state() -> None:
    given, robot = pushes(20, seed=0, gentle=0.6), Clipped()
    bad = ~robot.restorable(given.observations)
    assert 0.2 < bad.mean() < 0.6
    demos = np.tile(np.arange(20), 20)
    good_share = np.array([(~bad[start : start + 51]).mean() for start in given.starts])
    hits = {
        name: bad[
            given.starts[demos] + draw_windows(given, demos, 10, restorable=restorable_rows(given, each), rng=np.random.default_rng(0))
        ]
        for name, each in (("with", robot), ("without", CART))
    }
    often = good_share[demos] > 0.4
    assert often.mean() > 0.5
    assert not hits["with"][often].any()
    assert hits["without"][often].mean() > 0.1


def test_where_nothing_can_be_restored_windows_still_begin_somewhere() -> None:
    slow = pushes(3, seed=0)
    fast = Demonstrations(slow.observations + np.array([0.0, 0.0, 10.0, 0.0]), slow.lengths)
    starts = draw_windows(fast, np.arange(3), 10, restorable=restorable_rows(fast, Clipped()), rng=np.random.default_rng(0))
    assert ((starts >= 0) & (starts <= 50)).all()


@pytest.mark.parametrize(("strength", "solved_again"), [(1.04, MAX_LOST_STEPS), (1.2, 1)], ids=["narrowly", "clearly"])
def test_a_window_is_given_up_after_a_few_steps_out_of_reach(strength: float, solved_again: int) -> None:
    """Once it is lost clearly, none of its steps is solved for again."""
    given, asked = pushes(8, seed=1, steps=20, strengths=strength), Blind([])
    windows, _ = follow(given, length=20, give_up_distance=np.inf, retry_with=(asked,))
    tried = (~np.isnan(windows.step_distances)).sum(axis=1)
    assert (np.nansum(windows.step_distances > FOLLOWED, axis=1) == MAX_LOST_STEPS).all()
    assert (tried < 20).all()
    assert sum(asked.asked) == 8 * solved_again


def test_a_window_that_begins_where_the_state_is_not_known_is_not_judged() -> None:
    slow = pushes(3, seed=0)
    fast = Demonstrations(slow.observations + np.array([0.0, 0.0, 10.0, 0.0]), slow.lengths)
    windows, _ = follow(fast, length=10, robot=Clipped(), retry_with=(INVERSE,))
    assert not windows.settled.any()
    assert np.isnan(windows.step_distances).all()


def test_one_lost_step_settles_a_window_of_which_little_can_be_judged() -> None:
    given = pushes(3, seed=0, strengths=4.0)
    given = Demonstrations(given.observations - np.repeat(given.observations[given.starts], 61, axis=0), given.lengths)  # from rest
    windows, _ = follow(given, length=10, robot=Clipped(), retry_with=(INVERSE,), give_up_distance=np.inf)
    tried_and_judged = np.isfinite(windows.step_distances).sum(axis=1)
    assert (tried_and_judged < 5).all(), "then it is too fast to be restored"
    assert windows.settled.all()
    assert (windows.distances > FOLLOWED).all()


def test_the_only_observation_that_determines_a_state_is_found() -> None:
    given = pushes(2, seed=0)
    restorable = np.zeros(len(given.observations), dtype=bool)
    restorable[given.starts + np.array([17, 60])] = True  # the second is too late for a window of ten steps
    starts = draw_windows(given, np.repeat([0, 1], 10), 10, restorable=restorable, rng=np.random.default_rng(0))
    assert (starts[:10] == 17).all()
    assert len(set(starts[10:].tolist())) > 5
