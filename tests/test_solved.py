"""The solved inverse: known answers, verdicts, and what it must not depend on."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from imitable.arrays import Array
from imitable.errors import ImitableError
from imitable.inverse_dynamics import NOT_SETTLED, OUT_OF_REACH, REACHED, InverseResult, Solved
from imitable.inverse_dynamics.solved import box_step
from imitable.paper import ant, swimmer
from turntable import BRITTLE, CLOCKWISE


@dataclass(frozen=True)
class Cart:
    """A double integrator in the plane: state and observation (5) are position, velocity and a column that never moves."""

    reach: float = 1.0
    action_low: Array = field(default_factory=lambda: np.array([-1.0, 0.0]))
    action_high: Array = field(default_factory=lambda: np.array([1.0, 4.0]))

    def step(self, states: Array, actions: Array) -> Array:
        first, second = self.reach * np.clip(actions, self.action_low, self.action_high).T
        pushed = np.stack([first - 0.2 * second, 0.3 * first + 0.5 * second], axis=1)  # a product of matrices rounds by batch size
        moved = states.copy()
        moved[:, 2:4] += 0.1 * pushed
        moved[:, :2] += 0.1 * moved[:, 2:4]
        return moved

    def observe(self, states: Array) -> Array:
        return states.copy()


@dataclass(frozen=True)
class Bumpy(Cart):
    """Its second push jumps by a step where the first one is strong: a contact."""

    def step(self, states: Array, actions: Array) -> Array:
        moved = super().step(states, actions)
        moved[:, 3] += 0.15 * (actions[:, 0] > 0.4) - 0.1 * (actions[:, 1] < 1.0)
        return moved


@dataclass(frozen=True)
class Fragile(Cart):
    """Breaks down where it is pushed hard."""

    def step(self, states: Array, actions: Array) -> Array:
        moved = super().step(states, actions)
        moved[(actions[:, 1] > 1.5) & (states[:, 4] < 1.0)] = np.nan
        moved[states[:, 4] < 0.0] = np.nan
        return moved


SCALE = np.array([0.01, 0.01, 0.1, 0.1, 0.0])


def transitions(robot: Cart, count: int = 40, *, seed: int = 0, stronger: float = 1.0) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    states = np.concatenate([rng.standard_normal((count, 4)), np.ones((count, 1))], axis=1)
    actions = rng.uniform(robot.action_low, robot.action_high, (count, 2))
    return states, robot.observe(replace(robot, reach=stronger).step(states, actions)), actions


def solve(robot: Cart, states: Array, wanted: Array, **settings: float) -> InverseResult:
    return Solved(**settings).solve(robot, states, wanted, scale=SCALE)  # type: ignore[arg-type]


def test_own_transitions_give_back_their_actions() -> None:
    states, wanted, actions = transitions(Cart())
    found = solve(Cart(), states, wanted)
    assert (found.verdict == REACHED).all()
    np.testing.assert_allclose(found.actions, actions, atol=1e-6)
    assert found.miss.max() < 1e-6
    assert (found.limit_factor == 1).all()
    assert found.steps.max() <= 1 + 2 + 2  # the start, one difference for each actuator, and at most two steps on a linear robot


def test_the_answer_out_of_reach_is_the_clipped_least_squares_solution() -> None:
    states, wanted, _ = transitions(Cart(), stronger=3.0)
    found = solve(Cart(), states, wanted)
    grid = np.stack(np.meshgrid(np.linspace(-1, 1, 201), np.linspace(0, 4, 201)), axis=-1).reshape(-1, 2)
    for row in range(len(states)):
        reached = Cart().step(np.repeat(states[row : row + 1], len(grid), axis=0), grid)
        misses = np.sqrt(np.square((reached - wanted[row])[:, :4] / SCALE[:4]).sum(axis=1) / 5)
        assert found.miss[row] <= misses.min() + 1e-9
        np.testing.assert_allclose(found.actions[row], grid[misses.argmin()], atol=0.03)
    assert (found.verdict[found.miss > 1e-3] != REACHED).all()
    far = found.miss > 0.1  # what is nearly there is searched for longer, and may not be settled
    assert far.mean() > 0.5
    assert (found.verdict[far] == OUT_OF_REACH).all()
    assert found.at_limit[far].any(axis=1).all()


def test_growth_is_the_factor_by_which_a_stronger_robot_is_stronger() -> None:
    rng = np.random.default_rng(0)
    robot = Cart(action_low=np.array([-1.0, -1.0]), action_high=np.array([1.0, 1.0]))
    states = np.concatenate([rng.standard_normal((20, 4)), np.ones((20, 1))], axis=1)
    corners = rng.choice([-1.0, 1.0], (20, 2))
    found = solve(robot, states, replace(robot, reach=3.0).step(states, corners))
    assert (found.verdict == OUT_OF_REACH).all()
    np.testing.assert_allclose(found.limit_factor, 3.0, rtol=1e-3)
    impossible = states + np.array([0.0, 0.0, 0.0, 0.0, 1.0])  # no action moves the last column
    assert np.isinf(solve(robot, states, impossible).limit_factor).all()


def test_jumps_are_searched_across() -> None:
    states, wanted, actions = transitions(Bumpy(), 100)
    found = solve(Bumpy(), states, wanted)
    reached = found.verdict == REACHED
    assert reached.mean() > 0.97
    assert np.median(np.abs(found.actions - actions)[reached]) < 1e-4


def test_across_jumps_the_nearest_answer_that_was_met_is_given() -> None:
    states, wanted, _ = transitions(Bumpy(), 100, stronger=1.5)
    found = solve(Bumpy(), states, wanted)
    assert (found.verdict == REACHED).mean() < 0.5
    grid = np.stack(np.meshgrid(np.linspace(-1, 1, 101), np.linspace(0, 4, 101)), axis=-1).reshape(-1, 2)
    for row in range(len(states)):
        reached = Bumpy().step(np.repeat(states[row : row + 1], len(grid), axis=0), grid)
        assert found.miss[row] < np.sqrt(np.square((reached - wanted[row])[:, :4] / SCALE[:4]).sum(axis=1) / 5).min() + 0.02


@dataclass(frozen=True)
class Bent(Cart):
    """Its pushes are smooth, but no straight line."""

    def step(self, states: Array, actions: Array) -> Array:
        first, second = np.clip(actions, self.action_low, self.action_high).T
        return super().step(states, np.stack([np.sinh(2 * first) / np.sinh(2), 4 * np.sin(0.37 * second)], axis=1))


def test_a_smooth_robot_takes_a_few_steps_more_than_one_jacobian() -> None:
    states, wanted, actions = transitions(Bent(), 200)
    found = solve(Bent(), states, wanted)
    assert (found.verdict == REACHED).all()
    assert np.median(np.abs(found.actions - actions)) < 1e-3
    assert found.steps.mean() < 10


def test_without_searches_left_nothing_is_called_out_of_reach() -> None:
    states, wanted, _ = transitions(Bumpy(), 100)
    found = solve(Bumpy(), states, wanted, searches=1)
    assert set(found.verdict) == {NOT_SETTLED, REACHED}


def test_actions_are_admissible_and_inputs_unchanged() -> None:
    states, wanted, _ = transitions(Cart(), stronger=3.0)
    guess = np.full((len(states), 2), 9.0)
    copies = states.copy(), wanted.copy(), guess.copy(), SCALE.copy()
    found = Solved().solve(Cart(), states, wanted, scale=SCALE, guess=guess)
    assert ((found.actions >= Cart().action_low) & (found.actions <= Cart().action_high)).all()
    for now, before in zip((states, wanted, guess, SCALE), copies, strict=True):
        np.testing.assert_array_equal(now, before)


def test_a_right_guess_costs_one_step() -> None:
    states, wanted, actions = transitions(Bumpy())
    found = Solved().solve(Bumpy(), states, wanted, scale=SCALE, guess=actions)
    assert (found.steps == 1).all()
    np.testing.assert_allclose(found.actions, actions, atol=1e-12)


def test_a_guess_farther_off_than_the_middle_of_the_range_costs_one_step_and_no_more() -> None:
    states, wanted, actions = transitions(Bumpy())
    plain = Solved().solve(Bumpy(), states, wanted, scale=SCALE / 100)
    farther = np.where(np.abs(actions) < 0.4 * Bumpy().action_high, Bumpy().action_high, actions)
    found = Solved().solve(Bumpy(), states, wanted, scale=SCALE / 100, guess=farther)  # all miss by more than a typical step
    started_alike = (farther == Bumpy().action_high).all(axis=1)
    assert started_alike.any()
    assert (found.steps[started_alike] == plain.steps[started_alike] + 1).all()
    np.testing.assert_array_equal(found.actions[started_alike], plain.actions[started_alike])


def test_a_jacobian_of_a_similar_transition_saves_taking_differences() -> None:
    states, wanted, actions = transitions(Cart())
    found = solve(Cart(), states, wanted)
    other = np.roll(np.arange(len(states)), 1)
    warm = Solved().solve(Cart(), states, wanted, scale=SCALE, guess=found.actions[other], jacobian=found.jacobian[other])  # type: ignore[index]
    assert (warm.verdict == REACHED).all()
    np.testing.assert_allclose(warm.actions, actions, atol=1e-3)
    assert warm.steps.mean() <= found.steps.mean() - 1.5  # of two that the differences take


@pytest.mark.parametrize("wrong", [-1.0, 100.0, np.nan])
def test_a_wrong_jacobian_costs_steps_but_no_answer(wrong: float) -> None:
    states, wanted, actions = transitions(Cart())
    jacobian = solve(Cart(), states, wanted).jacobian
    assert jacobian is not None
    found = Solved().solve(Cart(), states, wanted, scale=SCALE, guess=0 * actions, jacobian=wrong * jacobian)
    assert (found.verdict == REACHED).all()
    np.testing.assert_allclose(found.actions, actions, atol=1e-3)


def test_another_seed_is_a_second_opinion() -> None:
    states, wanted, _ = transitions(Bumpy(), 60, stronger=1.5)
    one, other, same = (Solved(seed=seed).solve(Bumpy(), states, wanted, scale=SCALE) for seed in (0, 1, 0))
    np.testing.assert_array_equal(one.steps, same.steps)
    assert (one.steps != other.steps).any()
    assert len({solver.seed for solver in (Solved(), *Solved().retries())}) == 3


def test_same_generator_same_answer_whatever_the_batch() -> None:
    states, wanted, _ = transitions(Bumpy(), 60, stronger=1.5)
    whole = Solved().solve(Bumpy(), states, wanted, scale=SCALE, rng=np.random.default_rng(7))
    order = np.random.default_rng(1).permutation(60)
    shuffled = Solved(batch=7).solve(Bumpy(), states[order], wanted[order], scale=SCALE, rng=np.random.default_rng(7))
    for name in ("actions", "miss", "at_limit", "verdict", "steps"):
        np.testing.assert_array_equal(getattr(shuffled, name), getattr(whole, name)[order])
    np.testing.assert_allclose(shuffled.limit_factor, whole.limit_factor[order])


def test_simulations_that_diverge_are_avoided_or_reported() -> None:
    states, wanted, actions = transitions(Fragile(), 60)
    gentle = actions[:, 1] <= 1.5
    states[:, 4] = wanted[:, 4] = 0.5  # now hard pushes break it, the middle of the range among them
    found = solve(Fragile(), states, wanted)
    assert (found.verdict[gentle] == REACHED).mean() > 0.9
    assert (found.verdict[~gentle] != REACHED).all()
    states[:, 4] = wanted[:, 4] = -1.0  # now everything does
    lost = solve(Fragile(), states, wanted)
    assert (lost.verdict == NOT_SETTLED).all()
    assert np.isinf(lost.miss).all()
    assert np.isfinite(lost.actions).all()


def test_a_column_that_never_moves_counts_when_it_does_and_not_by_rounding() -> None:
    states, wanted, _ = transitions(Cart())
    assert (solve(Cart(), states, wanted.astype(np.float32).astype(np.float64), tolerance=1e-2).verdict == REACHED).all()
    assert (solve(Cart(), states, wanted + np.array([0.0, 0.0, 0.0, 0.0, 1e-6]), tolerance=1e-2).verdict == REACHED).all()
    wanted[:, 4] += 0.5
    assert (solve(Cart(), states, wanted).verdict == OUT_OF_REACH).all()


def test_a_turntable_cannot_turn_back() -> None:
    states = CLOCKWISE.initial_states(9, np.random.default_rng(0))
    turned = states + np.linspace(-0.1, 0.1, 9)[:, None] * np.array([1.0, 0.0])
    for robot in (CLOCKWISE, BRITTLE):
        found = Solved().solve(robot, states, robot.observe(turned), scale=np.array([0.05, 0.05, 0.0, 0.0]))
        assert list(found.verdict == REACHED) == [True] * 5 + [False] * 4


@pytest.mark.parametrize(("robot", "share", "steps"), [(swimmer.Swimmer(), 0.95, 8), (ant.X_AXIS, 0.9, 200)])
def test_own_transitions_of_mujoco_robots(robot: swimmer.Swimmer | ant.Ant, share: float, steps: float) -> None:
    rng = np.random.default_rng(0)
    states = robot.initial_states(40, rng)
    for _ in range(20):
        before, actions = states, rng.uniform(robot.action_low, robot.action_high, (40, len(robot.action_low)))
        states = robot.step(states, actions)
    wanted = robot.observe(states)
    found = Solved().solve(robot, before, wanted, scale=(wanted - robot.observe(before)).std(axis=0))
    reached = found.verdict == REACHED
    assert reached.mean() >= share
    assert np.median(np.abs(found.actions - actions).max(axis=1)[reached]) < 1e-3
    assert found.steps.mean() <= steps


def test_no_transitions_no_answers() -> None:
    found = solve(Cart(), np.empty((0, 5)), np.empty((0, 5)))
    assert found.actions.shape == (0, 2)
    assert found.miss.shape == found.verdict.shape == (0,)


def test_misuse_is_named() -> None:
    states, wanted, _ = transitions(Cart())
    with pytest.raises(ImitableError, match="scale"):
        Solved().solve(Cart(), states, wanted, scale=np.zeros(5))
    with pytest.raises(ImitableError, match="next_observations"):
        Solved().solve(Cart(), states, wanted[:-1], scale=SCALE)
    with pytest.raises(ImitableError, match=r"Solved\.patience"):
        Solved(patience=0.0)


def test_box_step_is_optimal_in_the_box() -> None:
    rng = np.random.default_rng(0)
    jacobian, residual, here = rng.standard_normal((200, 6, 4)), 3.0 * rng.standard_normal((200, 6)), rng.uniform(-1, 1, (200, 4))
    after = here + box_step(jacobian, residual, here, damping=np.zeros(200))
    assert (np.abs(after) <= 1 + 1e-12).all()
    left = residual + np.einsum("nij,nj->ni", jacobian, after - here)
    descent = np.clip(after - 1e-3 * np.einsum("nij,ni->nj", jacobian, left), -1, 1)
    np.testing.assert_allclose(descent, after, atol=1e-9)  # a projected gradient step leads nowhere


def test_searches_move_few_and_many_actuators_in_turn() -> None:
    solver = Solved(search_moves=((0.0, 0.5), (1.0, 0.5)), widest=0.5)
    moves = solver._draws(6, np.random.default_rng(0))
    assert (np.count_nonzero(moves[::2], axis=2) == 1).all()
    assert (np.count_nonzero(moves[1::2], axis=2) == 6).all()
    assert moves[moves != 0].std() == pytest.approx(0.5, rel=0.05)


def test_more_patient_searches_make_other_moves_of_more_actuators() -> None:
    first, second = Solved().retries()
    assert len({each.seed for each in (Solved(), first, second)}) == 3
    assert max(share for share, _ in second.search_moves) == 1.0
    assert second.patience > first.patience == Solved().patience


@pytest.mark.parametrize("moves", [(), ((1.1, 0.1),), ((0.1, 0.0),), ((0.1, 3.0),)])
def test_search_moves_that_make_no_sense_are_refused(moves: tuple[tuple[float, float], ...]) -> None:
    with pytest.raises(ImitableError, match=r"Solved\.search_moves is .*; it must be one or more pairs"):
        Solved(search_moves=moves)
