"""One contract for all learners, then what is known of cloning."""

import dataclasses
from itertools import islice

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

import turntable
from imitable.arrays import Array
from imitable.assessment import Assessment
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.evaluation import evaluate
from imitable.inverse_dynamics import Solved
from imitable.learners import LEARNERS, Cloning, Gail, Learner, Sail
from imitable.learners.cloning import NEARLY_ALL
from imitable.learners.two_iwil import Classifier
from imitable.paper.methods import METHODS
from imitable.paper.run import run
from imitable.registry import find
from imitable.sampling import TransitionSampler
from imitable.trpo import Trpo
from tiny import LEARNERS as TINY_LEARNERS, PLAIN, everything, learned

SOME = np.linspace(0.1, 1.0, 10)
"""Weights of ten demonstrations."""


@pytest.fixture(params=TINY_LEARNERS.values(), ids=TINY_LEARNERS.keys())
def learner(request: pytest.FixtureRequest) -> Learner:
    return request.param


@pytest.fixture(params=PLAIN.values(), ids=PLAIN.keys())
def plain(request: pytest.FixtureRequest) -> Learner:
    return request.param


@pytest.fixture(scope="module")
def assessment() -> Assessment:
    return turntable.assessed(turntable.mixed(own=6, other=4))


# The contract


def test_every_registered_learner_keeps_the_contract_below() -> None:
    assert {type(each) for each in TINY_LEARNERS.values()} == {type(find("learner", name, LEARNERS)) for name in LEARNERS}


def test_a_learner_yields_checkpoints_with_policies_that_act(learner: Learner, assessment: Assessment) -> None:
    first = next(iter(learner(assessment, SOME, rng=np.random.default_rng(0))))
    actions = first.policy(assessment.demonstrations.observations)
    assert actions.shape == (len(assessment.demonstrations.observations), 1)
    assert (np.abs(actions) <= 1).all()
    assert np.isfinite(actions).all()
    assert 0 < first.progress < 1
    assert first.steps > 0


def test_checkpoints_go_forward_to_the_end(learner: Learner, assessment: Assessment) -> None:
    checkpoints = learned(learner, assessment)
    assert len(checkpoints) == 3
    assert [each.progress for each in checkpoints] == pytest.approx([1 / 3, 2 / 3, 1.0])
    steps = [each.steps for each in checkpoints]
    assert steps == [steps[0], 2 * steps[0], 3 * steps[0]]
    assert len({everything(each.policy) for each in checkpoints}) == 3, "a policy did not move"
    assert all(np.isfinite(list(each.diagnostics.values())).all() for each in checkpoints)


@pytest.mark.parametrize(
    "learner",
    [
        dataclasses.replace(turntable.TINY_GAIL, rounds=3, checkpoint_every=2),
        dataclasses.replace(turntable.TINY_CLONING, updates=30, checkpoint_every=20),
        dataclasses.replace(PLAIN["sail"], iterations=3, checkpoint_every=2),
    ],
    ids=["gail", "cloning", "sail"],
)
def test_the_last_checkpoint_comes_even_off_the_beat(learner: Learner, assessment: Assessment) -> None:
    assert [each.progress for each in learned(learner, assessment)] == pytest.approx([2 / 3, 1.0])


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(learner: Learner, assessment: Assessment) -> None:
    one, again, other = (learned(learner, assessment, seed=seed) for seed in (0, 0, 1))
    assert [everything(each.policy) for each in one] == [everything(each.policy) for each in again]
    assert everything(one[-1].policy) != everything(other[-1].policy)
    assert [each.diagnostics for each in one] == [each.diagnostics for each in again]


def test_weights_change_what_is_learned(learner: Learner, assessment: Assessment) -> None:
    assert everything(learned(learner, assessment, SOME)[-1].policy) != everything(learned(learner, assessment, SOME[::-1])[-1].policy)


def test_weights_of_demonstrations_are_those_of_all_their_transitions(learner: Learner, assessment: Assessment) -> None:
    of_transitions = np.repeat(SOME, assessment.demonstrations.lengths)
    one, other = learned(learner, assessment, SOME), learned(learner, assessment, of_transitions)
    assert [everything(each.policy) for each in one] == [everything(each.policy) for each in other]


def test_demonstrations_of_no_weight_change_nothing(plain: Learner, assessment: Assessment) -> None:
    weights = np.array([0.5, 0.0, 1.0, 0.0, 0.2, 0.7, 0.0, 0.0, 0.1, 0.0])
    without = turntable.assessed(assessment.demonstrations.select(weights > 0))
    kept, dropped = learned(plain, assessment, weights), learned(plain, without, weights[weights > 0])
    assert everything(kept[-1].policy) == everything(dropped[-1].policy)
    assert everything(kept[-1].policy) != everything(learned(plain, assessment)[-1].policy)


def test_transitions_of_no_weight_change_nothing(plain: Learner, assessment: Assessment) -> None:
    lengths = assessment.demonstrations.lengths
    since_start = np.concatenate([np.arange(length) for length in lengths])
    weights = np.repeat(SOME, lengths) * (since_start < 20)
    demonstrations = assessment.demonstrations
    rows = np.concatenate([start + np.arange(21) for start in demonstrations.starts])
    short = turntable.assessed(Demonstrations(demonstrations.observations[rows], np.full(10, 20), demonstrations.returns))
    kept, dropped = learned(plain, assessment, weights), learned(plain, short, SOME)
    assert everything(kept[-1].policy) == everything(dropped[-1].policy)
    assert everything(kept[-1].policy) != everything(learned(plain, assessment)[-1].policy)


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_resuming_from_any_checkpoint_gives_the_uninterrupted_policies(learner: Learner, assessment: Assessment, cut: int) -> None:
    whole = learned(learner, assessment)
    stopped = list(islice(learner(assessment, SOME, rng=np.random.default_rng(0)), cut + 1))[-1]
    rest = learned(learner, assessment, resume=stopped.snapshot)
    assert [everything(each.policy) for each in rest] == [everything(each.policy) for each in whole[cut + 1 :]]
    assert [each.steps for each in rest] == [each.steps for each in whole[cut + 1 :]]
    assert [each.diagnostics for each in rest] == [each.diagnostics for each in whole[cut + 1 :]]


def test_a_snapshot_holds_all_that_resuming_needs(learner: Learner, assessment: Assessment) -> None:
    whole = learned(learner, assessment)
    rest = learned(learner, assessment, seed=999, resume=whole[0].snapshot)  # a generator in another state is put back where it was
    assert [everything(each.policy) for each in rest] == [everything(each.policy) for each in whole[1:]]


def test_a_snapshot_does_not_move_while_learning_goes_on(learner: Learner, assessment: Assessment) -> None:
    going_on = learner(assessment, SOME, rng=np.random.default_rng(0))
    first = next(going_on)
    kept = {name: value.copy() for name, value in first.snapshot.items()}
    before = everything(first.policy)
    assert len(list(going_on)) == 2
    assert everything(first.policy) == before
    assert all(np.array_equal(kept[name], value) for name, value in first.snapshot.items())


def test_resuming_leaves_the_snapshot_alone(learner: Learner, assessment: Assessment) -> None:
    first = next(iter(learner(assessment, SOME, rng=np.random.default_rng(0))))
    kept = {name: value.copy() for name, value in first.snapshot.items()}
    learned(learner, assessment, resume=first.snapshot)
    assert all(np.array_equal(kept[name], value) for name, value in first.snapshot.items())


def test_snapshots_hold_plain_arrays(learner: Learner, assessment: Assessment) -> None:
    for value in learned(learner, assessment)[0].snapshot.values():
        assert isinstance(value, np.ndarray)
        assert value.dtype != object


@pytest.mark.parametrize(
    "weights", [np.zeros(10), np.full(10, np.nan), -np.ones(10), np.ones(9)], ids=["zero", "nan", "negative", "too few"]
)
def test_weights_that_cannot_be_learned_from_are_refused(learner: Learner, assessment: Assessment, weights: Array) -> None:
    with pytest.raises(ImitableError, match="weight"):
        next(iter(learner(assessment, weights, rng=np.random.default_rng(0))))


def test_one_demonstration_is_enough_to_learn_from(plain: Learner) -> None:
    checkpoints = learned(plain, turntable.assessed(turntable.demonstrations(count=1)))
    assert np.isfinite(checkpoints[-1].policy.parameters).all()


def test_demonstrations_without_returns_can_be_learned_from(plain: Learner, assessment: Assessment) -> None:
    demonstrations = assessment.demonstrations
    without = turntable.assessed(dataclasses.replace(demonstrations, returns=np.full(10, np.nan)))
    assert everything(learned(plain, without)[-1].policy) == everything(learned(plain, assessment)[-1].policy)


def test_no_learner_asks_for_a_replay(learner: Learner, assessment: Assessment) -> None:
    fresh = turntable.assessed(assessment.demonstrations)
    learned(learner, fresh)
    assert fresh.diverged.keys() <= {"inverse dynamics", "actions"}, "a part was made that nobody needs"


@pytest.mark.parametrize(
    ("learner", "count"),
    [(turntable.TINY_CLONING, count) for count in ("updates", "checkpoint_every")]
    + [(turntable.TINY_GAIL, count) for count in ("rounds", "checkpoint_every")]
    + [(PLAIN["sail"], count) for count in ("iterations", "checkpoint_every")],
)
def test_a_learner_that_would_never_show_a_policy_is_refused_at_birth(learner, count: str) -> None:
    with pytest.raises(ImitableError, match=rf"{type(learner).__name__}\.{count} is 0"):
        dataclasses.replace(learner, **{count: 0})


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (Cloning, ["hidden_sizes"]),
        (Gail, ["discriminator_hidden_sizes"]),
        (Trpo, ["hidden_sizes"]),
        (Classifier, ["hidden_sizes"]),
        (Sail, ["policy_hidden", "value_hidden", "critic_hidden", "inverse_residual_hidden"]),
    ],
)
def test_layers_without_units_are_refused_before_anything_runs(kind: type, names: list[str]) -> None:
    for name in names:
        with pytest.raises(ImitableError, match=rf"{name} is \(8, 0\); it must be sizes of at least 1"):
            kind(**{name: (8, 0)})


# Cloning


def test_cloning_learns_to_act_as_demonstrated() -> None:
    assessment = turntable.assessed(turntable.demonstrations(count=40))
    learner = Cloning(updates=1500, batch_size=64, hidden_sizes=(32, 32), checkpoint_every=1500, observation_noise=0.0)
    (checkpoint,) = learned(learner, assessment)
    returns = evaluate(checkpoint.policy, turntable.CLOCKWISE, episodes=100, rng=np.random.default_rng(5)).returns
    rng = np.random.default_rng(0)
    expert = evaluate(
        lambda seen: turntable.turn_to_goal(seen, rng), turntable.CLOCKWISE, episodes=100, rng=np.random.default_rng(5)
    ).returns
    still = evaluate(lambda seen: np.zeros((len(seen), 1)), turntable.CLOCKWISE, episodes=100, rng=np.random.default_rng(5)).returns
    assert returns.mean() > still.mean() + 0.8 * (expert.mean() - still.mean())


@pytest.mark.slow
def test_our_weights_beat_none_on_the_turntable() -> None:
    task = turntable.task(Cloning(updates=1500, batch_size=64, hidden_sizes=(32, 32), checkpoint_every=1500))
    returns = {name: [run(task, METHODS[name], seed=seed).mean_return for seed in range(5)] for name in ("none", "ours")}
    assert mannwhitneyu(returns["ours"], returns["none"], alternative="greater").pvalue < 0.05


def test_the_reported_action_error_is_a_mean_however_long_the_last_stretch(assessment: Assessment) -> None:
    short, long = (dataclasses.replace(turntable.TINY_CLONING, updates=5, checkpoint_every=every) for every in (5, 10))
    (one,), (other,) = learned(short, assessment), learned(long, assessment)
    assert one.diagnostics == pytest.approx(other.diagnostics)


def wrong_way() -> Demonstrations:
    """Demonstrations that turn as the robot cannot."""
    joints = np.tile(0.1 * np.arange(11), 2)
    return Demonstrations(turntable.CLOCKWISE.observe(np.stack([joints, np.ones(22)], axis=1)), [10, 10], [0.0, 1.0])


def test_only_transitions_that_the_robot_reaches_are_cloned() -> None:
    """Back and forth: every other stretch is impossible, and has been given as much weight."""
    joints = -0.05 * np.concatenate([np.abs(np.arange(41) % 20 - 10.0)] * 6)
    states = np.stack([joints, np.repeat(np.linspace(-3, 3, 6), 41)], axis=1)
    given = Demonstrations(turntable.CLOCKWISE.observe(states), np.full(6, 40), np.zeros(6))
    possible = np.diff(joints.reshape(6, 41), axis=1).ravel() < 0
    assert possible.mean() == 0.5
    solved = turntable.assessed(given, model=Solved())
    one, other = learned(turntable.TINY_CLONING, solved, np.ones(240)), learned(turntable.TINY_CLONING, solved, possible.astype(float))
    assert everything(one[-1].policy) == everything(other[-1].policy), "what cannot be reached changes nothing"
    unchecked = learned(turntable.TINY_CLONING, turntable.assessed(given), np.ones(240))
    assert everything(one[-1].policy) != everything(unchecked[-1].policy), "an inverse that simulates nothing is believed"
    ours = Cloning(updates=800, batch_size=64, hidden_sizes=(32,), checkpoint_every=800, observation_noise=0.0)
    actions = learned(ours, solved, np.ones(240))[-1].policy(given.observations[given.transition_rows])
    assert actions[possible].mean() == pytest.approx(-0.5, abs=0.05), "all that was shown of turning is at half speed"


def test_nothing_that_the_robot_reaches_is_an_error() -> None:
    with pytest.raises(ImitableError, match="none of the 20 transitions with any weight can be reached by the robot"):
        learned(turntable.TINY_CLONING, turntable.assessed(wrong_way(), model=Solved()))


def shares(weights: Array, *, lengths: Array) -> TransitionSampler:
    given = Demonstrations(np.zeros((int((lengths + 1).sum()), 4)), lengths)
    return TransitionSampler(given, weights)


def test_actions_are_recovered_for_nearly_all_of_the_weight_and_no_more() -> None:
    weights = np.random.default_rng(0).permutation(np.concatenate([np.full(100, 1.0), np.full(300, 1e-5), np.zeros(100)]))
    chosen = Cloning().support(shares(weights, lengths=np.full(50, 10)), np.random.default_rng(0))
    assert np.array_equal(chosen > 0, weights == 1.0), "what is next to never drawn costs as much as the rest"
    skewed = np.random.default_rng(1).exponential(size=500) ** 3
    p_w = skewed / skewed.sum()
    chosen = Cloning().support(shares(skewed, lengths=np.full(50, 10)), np.random.default_rng(0))
    kept = chosen > 0
    assert chosen[kept] == pytest.approx(p_w[kept])
    assert NEARLY_ALL <= p_w[kept].sum() < NEARLY_ALL + p_w[kept].min()
    assert p_w[~kept].max() <= p_w[kept].min()


def test_no_more_actions_are_recovered_than_asked_for_and_these_are_drawn_by_weight() -> None:
    weights = np.repeat([1.0, 3.0, 0.0], 2000)
    learner = Cloning(max_transitions=1000)
    chosen = learner.support(shares(weights, lengths=np.full(60, 100)), np.random.default_rng(0))
    assert (chosen > 0).sum() <= 1000
    assert chosen.sum() == 1000
    assert not chosen[4000:].any()
    assert chosen[2000:4000].sum() / 1000 == pytest.approx(0.75, abs=0.05)
    few = learner.support(shares(weights[1995:2005], lengths=np.array([4, 6])), np.random.default_rng(0))
    assert (few > 0).all(), "drawing is for where there are more"


def test_a_policy_cloned_from_a_draw_of_the_transitions_is_as_good() -> None:
    assessment = turntable.assessed(turntable.demonstrations(count=40))
    learner = Cloning(updates=1500, batch_size=64, hidden_sizes=(32, 32), checkpoint_every=1500, observation_noise=0.0)
    whole, drawn = (learned(each, assessment)[-1].policy for each in (learner, dataclasses.replace(learner, max_transitions=500)))
    returns = [
        evaluate(policy, turntable.CLOCKWISE, episodes=100, rng=np.random.default_rng(5)).returns.mean() for policy in (whole, drawn)
    ]
    assert returns[1] > returns[0] - 5.0
    assert everything(whole) != everything(drawn)
