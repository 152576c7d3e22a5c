"""Assessing demonstrations: parts made when asked for, the tolerance, blindness to sources, and what is refused."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

import turntable
from cart import CART, Clipped, pushes
from imitable.arrays import Array, Arrays, Generator, Progress, no_progress
from imitable.assessment import ASSESS_VERSION, Assessment, Exploration, assess
from imitable.check import check_columns
from imitable.demonstrations import Demonstrations, join
from imitable.errors import ImitableError
from imitable.inverse_dynamics import Solved
from imitable.noise import noisy
from imitable.paper import driving
from imitable.pipeline import facts, imitate
from imitable.restorability import steps_since_restorable
from imitable.rollouts import Episodes, run_episodes
from imitable.scores import Feasibility, NaiveOptimality, RectifiedOptimality, Score, Uniform, product
from imitable.verdicts import score_table
from turntable import CLOCKWISE, COUNTER_CLOCKWISE, EXPLORATION, FEASIBILITY, OPTIMALITY, OURS, ExactInverse, ExactModel, Turntable

JOINT = (0, 1)


@dataclass
class Recorder:
    """Keeps nothing, and remembers which parts were asked for and by which recipe."""

    parts: list[str] = field(default_factory=list)
    recipes: dict[str, Mapping[str, object]] = field(default_factory=dict)

    def __call__(self, part: str, recipe: Mapping[str, object], make: Callable[[], Arrays]) -> Arrays:
        self.parts.append(part)
        self.recipes[part] = recipe
        return make()


def recorded(recorder: Callable[..., Arrays], given: Demonstrations | None = None, *, seed: int = 0) -> Assessment:
    given = turntable.mixed() if given is None else given
    return assess(given, CLOCKWISE, model=ExactModel(), exploration=EXPLORATION, rng=np.random.default_rng(seed), cache=recorder)


# Parts are made when they are asked for


def test_nothing_is_made_until_something_is_asked_for() -> None:
    recorder = Recorder()
    assessment = recorded(recorder)
    assert recorder.parts == []
    assert assessment.diverged == {}


@pytest.mark.parametrize("score", [Uniform(), NaiveOptimality(sigma=10.0)], ids=["uniform", "naive"])
def test_gail_with_a_score_that_needs_no_feasibility_waits_for_no_replay_and_no_fit(score: Score) -> None:
    recorder = Recorder()
    assessment = recorded(recorder)
    weights = assessment.weights(score)
    next(turntable.TINY_GAIL(assessment, weights, rng=np.random.default_rng(0)))
    assert recorder.parts == []
    result = imitate(turntable.mixed(), CLOCKWISE, learner=replace(turntable.TINY_GAIL, rounds=1), score=score, cache=recorder)
    assert len(result.curve) == 1
    assert recorder.parts == []


def test_cloning_without_feasibility_asks_for_inverse_dynamics_alone() -> None:
    recorder = Recorder()
    assessment = recorded(recorder)
    next(turntable.TINY_CLONING(assessment, assessment.weights(Uniform()), rng=np.random.default_rng(0)))
    assert recorder.parts == ["actions", "inverse dynamics"]


def test_every_part_is_made_once_however_often_it_is_asked_for() -> None:
    recorder = Recorder()
    assessment, demonstrations = recorded(recorder), turntable.mixed()
    for _ in range(2):
        weights = assessment.weights(OURS)
        score_table(demonstrations, assessment, OURS)
        facts(demonstrations, assessment, OURS, weights)
        assessment.replay, assessment.inverse_dynamics, assessment.step_scale  # noqa: B018
    assert sorted(recorder.parts) == ["inverse dynamics", "own replay", "own replay", "replay"]
    assessment.weights(replace(FEASIBILITY, columns=None))
    assert len(recorder.parts) == 4, "other columns need no other replay"
    assessment.weights(replace(FEASIBILITY, delta_s=0.02))
    assert set(recorder.parts[4:]) == {"own replay"}, "another delta_s needs nothing but other own replays"
    for _ in range(2):
        assessment.weights()
        assert assessment.tracked is assessment.tracked
    assert recorder.parts.count("windows") == 1


def test_a_score_is_computed_once() -> None:
    calls = []

    @dataclass(frozen=True)
    class Counted:
        value: float

        def __call__(self, assessment: Assessment) -> Array:
            calls.append(self.value)
            return np.full(len(assessment.demonstrations), self.value)

        def table(self, assessment: Assessment) -> dict[str, Array]:
            return {"counted": assessment.scored(self)}

    assessment = recorded(Recorder())
    first = assessment.scored(Counted(0.5))
    assert assessment.scored(Counted(0.5)) is first, "equal scores are the same"
    both = product(Counted(0.5), Counted(0.25))
    assert assessment.weights(both).tolist() == [0.125] * 12
    both.table(assessment)
    assert calls == [0.5, 0.25]
    assert recorded(Recorder()).scored(Counted(0.5)) is not first, "another assessment counts for itself"


def test_parts_that_were_kept_are_used_and_nothing_is_made_again() -> None:
    kept: dict[tuple[str, object], Arrays] = {}

    def store(part: str, recipe: Mapping[str, object], make: Callable[[], Arrays]) -> Arrays:
        kept[part, recipe.get("delta_s")] = make()
        return kept[part, recipe.get("delta_s")]

    def find(part: str, recipe: Mapping[str, object], make: Callable[[], Arrays]) -> Arrays:
        return kept[part, recipe.get("delta_s")]

    made, found = recorded(store), recorded(find)
    assert np.array_equal(made.weights(OURS), found.weights(OURS))
    assert np.array_equal(made.weights(), found.weights())
    assert np.array_equal(made.step_scale, found.step_scale)
    assert (made.noise, made.hides_state) == (found.noise, found.hides_state)
    used = np.arange(600) % 2 > 0
    assert all(np.array_equal(one, other) for one, other in zip(made.recovered_actions(used), found.recovered_actions(used), strict=True))
    parts = ("inverse dynamics", "replay", "own replay", "windows", "actions")
    assert made.diverged == found.diverged == dict.fromkeys(parts, 0)
    assert OURS.facts(made) == OURS.facts(found)


def test_a_recipe_names_all_that_decides_a_part() -> None:
    recorder, demonstrations = Recorder(), turntable.mixed()
    assessment = recorded(recorder, demonstrations, seed=3)
    assessment.weights(FEASIBILITY)
    assessment.weights(Feasibility())
    assessment.recovered_actions(np.arange(600) < 10)
    for recipe in recorder.recipes.values():
        assert recipe["version"] == ASSESS_VERSION
        assert recipe["robot"] is CLOCKWISE
        assert recipe["model"] == ExactModel()
        assert recipe["exploration"] == EXPLORATION
        assert recipe["demonstrations"].digest == demonstrations.digest  # type: ignore[attr-defined]
        expected = np.random.default_rng(3).spawn(3)
        assert [each.bit_generator.state for each in recipe["streams"]] == [each.bit_generator.state for each in expected]  # type: ignore[attr-defined]
    assert recorder.recipes["own replay"]["delta_s"] == FEASIBILITY.delta_s
    assert np.array_equal(recorder.recipes["actions"]["used"], np.packbits(np.arange(600) < 10))  # type: ignore[arg-type]
    assert "delta_s" not in recorder.recipes["replay"]


def test_parts_do_not_depend_on_the_order_in_which_they_are_asked_for() -> None:
    one, other = turntable.assessed(), turntable.assessed()
    tolerances = one.own_replays(0.02), one.own_replays(0.01), one.replay
    replayed, again, after = other.replay, other.own_replays(0.01), other.own_replays(0.02)
    assert np.array_equal(tolerances[2].observations, replayed.observations)
    assert np.array_equal(tolerances[1][1].observations, again[1].observations)
    assert np.array_equal(tolerances[0][1].observations, after[1].observations)


# What is in them


def test_own_demonstrations_are_feasible_and_other_dynamics_less_so() -> None:
    weights = turntable.assessed(turntable.mixed(own=10, other=10)).weights(FEASIBILITY)
    assert weights[:10] == pytest.approx(np.ones(10), abs=1e-9)
    assert weights[10:].mean() < weights[:10].mean() - 0.2


def test_other_dynamics_are_told_apart_in_both_directions() -> None:
    demos = turntable.demonstrations(COUNTER_CLOCKWISE, count=6)
    own, foreign = (turntable.assessed(demos, robot=robot) for robot in (COUNTER_CLOCKWISE, CLOCKWISE))
    assert own.weights(FEASIBILITY) == pytest.approx(np.ones(6), abs=1e-9)
    assert foreign.weights(FEASIBILITY).mean() < 0.8


def test_assessing_drops_the_sources_and_keeps_the_rest() -> None:
    demos = turntable.mixed()
    assessment = turntable.assessed(demos)
    assert demos.sources is not None
    assert assessment.demonstrations.sources is None
    assert assessment.demonstrations.digest == demos.digest
    relabelled = turntable.assessed(demos.with_sources(tuple(reversed(demos.sources))))
    assert np.array_equal(relabelled.replay.observations, assessment.replay.observations)
    assert FEASIBILITY.tolerance(relabelled) == FEASIBILITY.tolerance(assessment)


def test_the_same_generator_gives_the_same_assessment() -> None:
    one, again, other = (turntable.assessed(seed=seed) for seed in (0, 0, 1))
    assert FEASIBILITY.tolerance(one) == FEASIBILITY.tolerance(again)
    assert FEASIBILITY.tolerance(one) != FEASIBILITY.tolerance(other)
    assert np.array_equal(one.own_replays(0.01)[1].observations, again.own_replays(0.01)[1].observations)
    assert FEASIBILITY.tolerance(assess(turntable.mixed(), CLOCKWISE, model=ExactModel(), exploration=EXPLORATION)) == (
        FEASIBILITY.tolerance(one)
    ), "without a generator the seed is 0"


def test_other_demonstrations_leave_the_tolerance_alone() -> None:
    few, mixed = turntable.assessed(turntable.demonstrations(count=2)), turntable.assessed(turntable.mixed())
    assert FEASIBILITY.tolerance(few) == FEASIBILITY.tolerance(mixed)


def test_the_tolerance_spans_the_robots_own_replays_plain_to_perturbed() -> None:
    assessment = turntable.assessed()
    tolerance, (plain, perturbed) = FEASIBILITY.tolerance(assessment), assessment.own_replays(FEASIBILITY.delta_s)
    assert tolerance.d_min == plain.distances(JOINT).min() < 1e-12
    assert tolerance.d_max == perturbed.distances(JOINT).max()
    assert FEASIBILITY.delta_s / 2 < tolerance.d_max < 10 * FEASIBILITY.delta_s


def test_more_noise_tolerates_more() -> None:
    assessment = turntable.assessed(turntable.mixed(own=4, other=16))
    scores = [replace(FEASIBILITY, delta_s=delta_s) for delta_s in (1e-3, 1e-2, 1e-1, 1.0)]
    limits = [score.tolerance(assessment).d_max for score in scores]
    assert limits == sorted(limits)
    accepted = [(assessment.weights(score) > 0).sum() for score in scores]
    assert accepted[0] < accepted[-1]


def test_a_share_of_the_exploration_is_held_out_from_the_fit() -> None:
    seen = []

    class Watching(ExactModel):
        def fit(self, episodes: Episodes, robot: Turntable, *, rng: Generator, progress: Progress = no_progress) -> ExactInverse:
            seen.append(episodes.trajectories)
            return super().fit(episodes, robot, rng=rng, progress=progress)

    for share, held_out in ((0.25, 5), (0.5, 10)):
        assessment = turntable.assessed(model=Watching(), exploration=replace(EXPLORATION, episodes=20, held_out_share=share))
        plain, _ = assessment.own_replays(0.01)
        assert len(plain.demonstrations) == held_out
        assert len(seen[-1]) == 20 - held_out
        starts = {tuple(start) for start in seen[-1].start_observations}
        assert not starts & {tuple(start) for start in plain.demonstrations.start_observations}


def test_the_step_scale_is_what_one_random_action_changes() -> None:
    scale = turntable.assessed().step_scale
    assert scale.shape == (4,)
    assert 0.005 < scale[0] < 0.1
    assert 0.005 < scale[1] < 0.1
    assert scale[2:] == pytest.approx([0, 0], abs=1e-12)


def test_recovered_actions_explain_the_used_transitions_and_are_zero_elsewhere() -> None:
    assessment = turntable.assessed(turntable.demonstrations(count=3))
    demos, used = assessment.demonstrations, np.arange(150) % 3 > 0
    actions, usable = assessment.recovered_actions(used)
    assert actions.shape == (150, 1)
    assert np.array_equal(usable, used), "an inverse dynamics that simulates nothing is believed"
    assert not actions[~used].any()
    rows = demos.transition_rows
    stepped = CLOCKWISE.observe(CLOCKWISE.step(CLOCKWISE.restore(demos.observations[rows]), actions))
    assert stepped[used] == pytest.approx(demos.observations[rows + 1][used], abs=1e-9)
    assert np.abs(actions[used]).max() > 0.5


def test_progress_is_told_and_never_falls() -> None:
    for score in (OURS, None):
        fractions: list[float] = []
        assess(turntable.mixed(), CLOCKWISE, model=ExactModel(), exploration=EXPLORATION, progress=fractions.append).weights(score)
        assert fractions
        assert all(0 <= fraction <= 1 for fraction in fractions)
        assert fractions == sorted(fractions)
        assert fractions[-1] == 1.0


def test_simulations_that_break_down_are_counted_by_part() -> None:
    given = turntable.demonstrations(count=8)
    assessment = turntable.assessed(given, robot=turntable.BRITTLE)
    assert assessment.diverged == {}
    assessment.weights(FEASIBILITY)
    lowest = [CLOCKWISE.restore(given.trajectory(index))[:, 0].min() for index in range(8)]
    assert assessment.diverged["replay"] == sum(angle < turntable.BRITTLE.limit for angle in lowest)
    assert 0 < assessment.diverged["replay"] < 8
    training, held_out = assessment.own_episodes
    assert assessment.diverged["inverse dynamics"] == training.diverged + held_out.diverged > 0


# Exploration


@pytest.mark.parametrize(
    ("name", "value"),
    [("episodes", 1), ("held_out_share", 1.5), ("held_out_share", 0.0), ("steps", 0)],
)
def test_an_exploration_that_makes_no_sense_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ImitableError, match=rf"Exploration.{name} is {value}; it must be"):
        Exploration(**{name: value})


@pytest.mark.parametrize(("steps", "longest"), [(1, 1), (7, 7), (100, 50), (None, 50)])
def test_exploration_takes_as_many_steps_as_asked_for_or_whole_episodes(steps: int | None, longest: int) -> None:
    training, held_out = Exploration(episodes=10, steps=steps, held_out_share=0.3)(CLOCKWISE, rng=np.random.default_rng(0))
    assert (len(training.trajectories), len(held_out.trajectories)) == (7, 3)
    for each in (training, held_out):
        assert (each.trajectories.lengths == longest).all()
        rows, observations = each.trajectories.transition_rows, each.trajectories.observations
        stepped = CLOCKWISE.observe(CLOCKWISE.step(CLOCKWISE.restore(observations[rows]), each.actions))
        assert stepped == pytest.approx(observations[rows + 1], abs=1e-9)


# Solved on the simulator


def test_actions_of_what_the_robot_cannot_do_are_not_usable() -> None:
    mixed = turntable.mixed(own=3, other=4)
    assessment = turntable.assessed(mixed, model=Solved())
    used = np.arange(350) % 5 > 0
    actions, usable = assessment.recovered_actions(used)
    joints = np.diff(turntable.joint_angle(mixed.observations).reshape(7, 51), axis=1).ravel()
    turned = (joints + np.pi) % (2 * np.pi) - np.pi
    assert np.array_equal(usable, used & (turned < 1e-9)), "the wrong way round is out of reach"
    assert 0 < usable.sum() < used.sum()
    assert not actions[~used].any()


def test_when_nothing_can_be_reached_nothing_is_usable() -> None:
    actions, usable = turntable.assessed(infeasible(), model=Solved()).recovered_actions(np.ones(20, bool))
    assert not usable.any()
    assert (np.abs(actions) <= 1).all()


def test_hidden_state_is_carried_along_when_actions_are_recovered() -> None:
    rng = np.random.default_rng(0)
    own = run_episodes(driving.SLOW, lambda seen: driving.drive(seen, rng), count=4, rng=rng)
    assessment = assess(own.trajectories, driving.SLOW, exploration=Exploration(episodes=10, steps=20))
    assert assessment.hides_state
    used = np.repeat([True, False, True, False], own.trajectories.lengths)
    actions, usable = assessment.recovered_actions(used)
    assert np.array_equal(usable, used)
    assert not actions[~used].any()
    assert np.abs(actions - np.clip(own.actions, -1, 1))[used].max() < 0.01
    assert not turntable.assessed().hides_state


def test_the_noise_of_demonstrations_counts_as_reached() -> None:
    clean = pushes(20, seed=0, gentle=0.5)
    scale = assess(clean, CART).step_scale
    assessment = assess(noisy(clean, 0.2, scale, np.random.default_rng(0)), CART)
    assert assessment.noise == pytest.approx(0.2, rel=0.2)
    assert assessment.recovered_actions(np.ones(20 * 60, dtype=bool))[1].mean() > 0.8


def test_a_trace_of_noise_is_taken_for_none() -> None:
    clean = pushes(20, seed=0, gentle=0.5)
    assessment = assess(noisy(clean, 0.01, assess(clean, CART).step_scale, np.random.default_rng(0)), CART)
    assert assessment.noise == pytest.approx(0.01, rel=0.2)
    assert assessment.tracked.noise == 0


def velocities(*along_x: float) -> Demonstrations:
    seen = np.zeros((len(along_x), 4))
    seen[:, 2] = along_x
    return Demonstrations(seen, [len(along_x) - 1])


def test_a_state_is_carried_along_within_its_demonstration() -> None:
    given = join([velocities(0.0, 0.5, 0.5, 0.0), velocities(0.5, 0.38, 0.5, 0.0)])
    assert steps_since_restorable(given, Clipped()).tolist() == [0, 1, 2, -1, 0, 1]
    assert steps_since_restorable(given, Clipped(), margin=np.full(4, 0.05)).tolist() == [0, 1, 2, -1, -1, -1]
    assert steps_since_restorable(given, CART).tolist() == [0] * 6


@dataclass(frozen=True)
class Recording(Clipped):
    """Remembers what it was restored from."""

    seen: list[Array] = field(default_factory=list)

    def restore(self, observations: Array, like: Array | None = None) -> Array:
        self.seen.append(observations)
        return super().restore(observations, like)


def test_actions_are_not_recovered_from_velocities_that_noise_may_have_unclipped() -> None:
    robot, clean = Recording(), pushes(40, seed=0, gentle=0.6)
    scale = assess(clean, robot).step_scale
    assessment = assess(noisy(clean, 0.2, scale, np.random.default_rng(0)), robot)
    assert assessment.noise == pytest.approx(0.2, rel=0.3)
    robot.seen.clear()
    assessment.recovered_actions(np.ones(40 * 60, dtype=bool))
    fastest = np.abs(np.concatenate(robot.seen)[:, 2]).max()
    assert 0.3 < fastest + 3 * assessment.noise * scale[2] < 0.4


def test_another_inverse_dynamics_shares_all_but_itself() -> None:
    assessment = turntable.assessed()
    other = assessment.with_inverse(Solved(), Exploration(episodes=5))
    assert other.demonstrations is assessment.demonstrations
    assert other.robot is assessment.robot
    assert (other.model, other.exploration.episodes) == (Solved(), 5)
    assert len(other.own_episodes[0].trajectories) == 4
    assert other.diverged is assessment.diverged, "what breaks down is counted together"


# What is refused


@pytest.mark.parametrize("width", [1, 3, 5])
def test_a_wrong_number_of_columns_is_refused_with_the_robots_columns(width: int) -> None:
    demos = Demonstrations(np.zeros((4, width)), [3], [0.0])
    message = f"demonstrations have {width} observation columns, but the robot has 4.*joint cos, joint sin, goal cos, goal sin"
    with pytest.raises(ImitableError, match=message):
        turntable.assessed(demos)


def named(*names: str) -> Demonstrations:
    made = turntable.demonstrations(count=2)
    return Demonstrations(made.observations, made.lengths, made.returns, observation_names=names)


def test_columns_in_another_order_or_of_other_names_are_refused() -> None:
    turntable.assessed(named("joint cos", "joint sin", "goal cos", "goal sin"))
    with pytest.raises(ImitableError, match=r"the same columns in another order: column 1 is 'goal sin' where the robot has 'joint sin'"):
        turntable.assessed(named("joint cos", "goal sin", "goal cos", "joint sin"))
    with pytest.raises(
        ImitableError, match=r"lack 'goal cos', 'goal sin' and have 'x', 'y', which the robot does not have; .* columns: joint cos, joint"
    ):
        turntable.assessed(named("joint cos", "joint sin", "x", "y"))
    with pytest.raises(ImitableError, match="trajectories lack 'joint cos'"):
        check_columns(named("a", "b", "c", "d"), CLOCKWISE, name="trajectories")


def test_columns_without_names_are_taken_for_the_robots() -> None:
    made = turntable.demonstrations(count=2)
    assert turntable.assessed(Demonstrations(made.observations, made.lengths)).weights(FEASIBILITY) == pytest.approx([1, 1], abs=1e-9)


def infeasible() -> Demonstrations:
    """Two demonstrations that turn the wrong way."""
    joints = np.tile(0.1 * np.arange(11), 2)
    return Demonstrations(CLOCKWISE.observe(np.stack([joints, np.ones(22)], axis=1)), [10, 10], [0.0, 1.0])


def test_a_simulation_that_breaks_down_on_every_demonstration_is_named() -> None:
    """The robot's own random episodes stay within the limit; what is demonstrated does not."""
    joints = np.concatenate([[0.0], np.full(10, -3.0)])
    beyond = Demonstrations(CLOCKWISE.observe(np.stack([joints, np.ones(11)], axis=1)), [10], [0.0])
    brittle = replace(turntable.BRITTLE, limit=-0.55, horizon=5)
    with pytest.raises(ImitableError, match=r"all 1 weights are zero: .* broke down on every demonstration; fix Simulator\.step"):
        turntable.assessed(beyond, robot=brittle).weights(OURS)


@pytest.mark.parametrize("score", [FEASIBILITY, product(FEASIBILITY, NaiveOptimality(sigma=10.0)), OURS], ids=["w_f", "naive", "ours"])
def test_no_feasible_demonstration_is_an_error_that_names_the_numbers(score: Score) -> None:
    assessment = turntable.assessed(infeasible())
    nearest, limit = assessment.replay.distances(JOINT).min(), FEASIBILITY.tolerance(assessment).d_max
    assert nearest > limit
    with pytest.raises(ImitableError) as caught:
        assessment.weights(score)
    for part in ("no demonstration is feasible", f"{nearest:.3g}", f"{limit:.3g}", "raise ReplayFeasibility.delta_s", "0.01"):
        assert part in str(caught.value)


def test_a_score_that_ignores_feasibility_still_weighs() -> None:
    assert turntable.assessed(infeasible()).weights(Uniform()).tolist() == [1.0, 1.0]


@dataclass(frozen=True)
class Nothing:
    """Worth nothing."""

    def __call__(self, assessment: Assessment) -> Array:
        return np.zeros(len(assessment.demonstrations))

    def table(self, assessment: Assessment) -> dict[str, Array]:
        return {}


def test_all_weights_zero_is_an_error_that_names_the_score() -> None:
    for score in (Nothing(), product(Uniform(), Nothing())):
        with pytest.raises(ImitableError, match=r"all 12 weights are zero: .*Nothing\(\).* finds nothing worth imitating"):
            turntable.assessed().weights(score)
    strict = replace(OPTIMALITY, sigma=12.5, feasibility=FEASIBILITY)
    assert "raise sigma (now 12.5)" in strict.why_zero(turntable.assessed())


def test_one_demonstration_is_assessed_and_trusted() -> None:
    assert turntable.assessed(turntable.demonstrations(count=1)).weights(OURS) == pytest.approx([1.0], abs=1e-9)


def test_without_a_score_it_is_feasibility_times_optimality() -> None:
    assessment = turntable.assessed()
    expected = assessment.scored(product(Feasibility(), RectifiedOptimality()))
    assert np.array_equal(assessment.weights(), expected)
    assert 0 < expected.max() <= 1


def test_a_demonstration_set_without_returns_is_weighed_by_feasibility_alone() -> None:
    mixed = turntable.mixed()
    unknown = turntable.assessed(Demonstrations(mixed.observations, mixed.lengths))
    assert np.array_equal(unknown.weights(FEASIBILITY), turntable.assessed(mixed).weights(FEASIBILITY))
    with pytest.warns(UserWarning, match="no demonstration has a return"):
        assert np.array_equal(unknown.weights(), unknown.weights(Feasibility()))
    for score in (OURS, NaiveOptimality(sigma=1.0)):
        with pytest.raises(ImitableError, match=r"optimality needs returns, but 12 of 12 demonstrations have none, such as number 0; give"):
            unknown.weights(score)
