"""One contract for all learners, then what is known of each."""

import dataclasses
from itertools import islice

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

import turntable
from imitable.arrays import generator_state, restore_generator
from imitable.errors import ImitableError
from imitable.evaluation import evaluate
from imitable.experiment import run
from imitable.learners import Checkpoint, Cloning, IcGail, Learner, Sail, TwoIwil
from imitable.learners._adversary import AGENT, DEMONSTRATED, Adversary, Claim, somewhere_between
from imitable.learners._labels import Labels, draw_labels
from imitable.learners.cloning import recovered_actions
from imitable.learners.sail import Foresight, critic_gradient, log_likelihood
from imitable.learners.two_iwil import Classifier, risk_slopes
from imitable.methods import METHODS
from imitable.networks import Adam, Mlp, Policy
from imitable.problem import Problem
from imitable.reinforcement import TransitionScaling, flat_transitions, sample_batch
from imitable.replay import replay
from imitable.sampling import TransitionSampler

TINY_CLASSIFIER = Classifier(iterations=50, batch=16, hidden=(4,))
TINY_SAIL = Sail(
    iterations=6,
    batch=100,
    foresight_updates=20,
    foresight_hidden=6,
    foresight_latent=3,
    pretraining_updates=10,
    frozen=1,
    critic_steps=3,
    critic_batch=16,
    passes=2,
    minibatch=25,
    policy_hidden=(6, 6),
    value_hidden=(5,),
    critic_hidden=(6, 5),
    checkpoint_every=2,
)
WEIGHERS: dict[str, Learner] = {
    "gail": turntable.TINY_GAIL,
    "gail of agents under way": dataclasses.replace(turntable.TINY_GAIL, trpo=dataclasses.replace(turntable.TINY_GAIL.trpo, agents=10)),
    "cloning": turntable.TINY_CLONING,
    "sail": TINY_SAIL,
}
"""Learners that take weights for how often to look at a demonstration."""
BELIEVERS: dict[str, Learner] = {
    "2iwil": TwoIwil(gail=turntable.TINY_GAIL, classifier=TINY_CLASSIFIER),
    "ic-gail": IcGail(gail=turntable.TINY_GAIL),
}
"""Learners that take weights for confidences."""
LEARNERS = WEIGHERS | BELIEVERS
SOME = np.linspace(0.1, 1.0, 10)
"""Weights of ten demonstrations."""


@pytest.fixture(params=LEARNERS.values(), ids=LEARNERS.keys())
def learner(request: pytest.FixtureRequest) -> Learner:
    return request.param


@pytest.fixture(params=WEIGHERS.values(), ids=WEIGHERS.keys())
def weigher(request: pytest.FixtureRequest) -> Learner:
    return request.param


@pytest.fixture(params=BELIEVERS.values(), ids=BELIEVERS.keys())
def believer(request: pytest.FixtureRequest) -> Learner:
    return request.param


@pytest.fixture(scope="module")
def problem() -> Problem:
    return turntable.posed(turntable.mixed(own=6, other=4))


def everything(policy: Policy) -> bytes:
    names = ("parameters", "centre", "scale", "low", "high", "log_spread")
    return b"".join(getattr(policy, name).tobytes() for name in names)


def learned(learner: Learner, problem: Problem, weights: np.ndarray | None = None, *, seed: int = 0, **options) -> list[Checkpoint]:
    weights = np.linspace(0.1, 1.0, len(problem.demonstrations)) if weights is None else weights
    return list(learner(problem, weights, rng=np.random.default_rng(seed), **options))


# The contract


def test_a_learner_yields_checkpoints_with_policies_that_act(learner: Learner, problem: Problem) -> None:
    first = next(iter(learner(problem, SOME, rng=np.random.default_rng(0))))
    actions = first.policy(problem.demonstrations.states)
    assert actions.shape == (len(problem.demonstrations.states), 1)
    assert (np.abs(actions) <= 1).all()
    assert np.isfinite(actions).all()
    assert 0 < first.progress < 1
    assert first.steps > 0


def test_checkpoints_go_forward_to_the_end(learner: Learner, problem: Problem) -> None:
    checkpoints = learned(learner, problem)
    assert len(checkpoints) == 3
    assert [each.progress for each in checkpoints] == pytest.approx([1 / 3, 2 / 3, 1.0])
    steps = [each.steps for each in checkpoints]
    assert steps == [steps[0], 2 * steps[0], 3 * steps[0]]
    assert len({everything(each.policy) for each in checkpoints}) == 3, "a policy did not move"
    assert all(np.isfinite(list(each.diagnostics.values())).all() for each in checkpoints)


def test_the_last_checkpoint_comes_even_off_the_beat(problem: Problem) -> None:
    for learner in (
        dataclasses.replace(turntable.TINY_GAIL, rounds=3, checkpoint_every=2),
        dataclasses.replace(turntable.TINY_CLONING, updates=30, checkpoint_every=20),
    ):
        assert [each.progress for each in learned(learner, problem)] == pytest.approx([2 / 3, 1.0])


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(learner: Learner, problem: Problem) -> None:
    one, again, other = (learned(learner, problem, seed=seed) for seed in (0, 0, 1))
    assert [everything(each.policy) for each in one] == [everything(each.policy) for each in again]
    assert everything(one[-1].policy) != everything(other[-1].policy)
    assert [each.diagnostics for each in one] == [each.diagnostics for each in again]


def test_demonstrations_of_no_weight_change_nothing(weigher: Learner, problem: Problem) -> None:
    weights = np.array([0.5, 0.0, 1.0, 0.0, 0.2, 0.7, 0.0, 0.0, 0.1, 0.0])
    demos = problem.demonstrations.select(weights > 0)
    without = dataclasses.replace(problem, demonstrations=demos, replay=replay(demos, problem.target, problem.inverse_dynamics))
    kept, dropped = learned(weigher, problem, weights), learned(weigher, without, weights[weights > 0])
    assert everything(kept[-1].policy) == everything(dropped[-1].policy)
    assert everything(kept[-1].policy) != everything(learned(weigher, problem)[-1].policy)


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_resuming_from_any_checkpoint_gives_the_uninterrupted_policies(learner: Learner, problem: Problem, cut: int) -> None:
    whole = learned(learner, problem)
    stopped = list(islice(learner(problem, SOME, rng=np.random.default_rng(0)), cut + 1))[-1]
    rest = learned(learner, problem, resume=stopped.snapshot)
    assert [everything(each.policy) for each in rest] == [everything(each.policy) for each in whole[cut + 1 :]]
    assert [each.steps for each in rest] == [each.steps for each in whole[cut + 1 :]]
    assert [each.diagnostics for each in rest] == [each.diagnostics for each in whole[cut + 1 :]]


def test_a_snapshot_holds_all_that_resuming_needs(learner: Learner, problem: Problem) -> None:
    whole = learned(learner, problem)
    rest = learned(learner, problem, seed=999, resume=whole[0].snapshot)  # a generator in another state is put back where it was
    assert [everything(each.policy) for each in rest] == [everything(each.policy) for each in whole[1:]]


def test_a_snapshot_does_not_move_while_learning_goes_on(learner: Learner, problem: Problem) -> None:
    going_on = learner(problem, SOME, rng=np.random.default_rng(0))
    first = next(going_on)
    kept = {name: value.copy() for name, value in first.snapshot.items()}
    before = everything(first.policy)
    assert len(list(going_on)) == 2
    assert everything(first.policy) == before
    assert all(np.array_equal(kept[name], value) for name, value in first.snapshot.items())


def test_resuming_leaves_the_snapshot_alone(learner: Learner, problem: Problem) -> None:
    first = next(iter(learner(problem, SOME, rng=np.random.default_rng(0))))
    kept = {name: value.copy() for name, value in first.snapshot.items()}
    learned(learner, problem, resume=first.snapshot)
    assert all(np.array_equal(kept[name], value) for name, value in first.snapshot.items())


def test_snapshots_hold_plain_arrays(learner: Learner, problem: Problem) -> None:
    for value in learned(learner, problem)[0].snapshot.values():
        assert isinstance(value, np.ndarray)
        assert value.dtype != object


@pytest.mark.parametrize(
    "weights", [np.zeros(10), np.full(10, np.nan), -np.ones(10), np.ones(9)], ids=["zero", "nan", "negative", "too few"]
)
def test_weights_that_cannot_be_learned_from_are_refused(weigher: Learner, problem: Problem, weights: np.ndarray) -> None:
    with pytest.raises(ImitableError, match="weight"):
        next(iter(weigher(problem, weights, rng=np.random.default_rng(0))))


def test_one_demonstration_is_enough_to_learn_from(weigher: Learner) -> None:
    checkpoints = learned(weigher, turntable.posed(turntable.demonstrations(count=1)))
    assert np.isfinite(checkpoints[-1].policy.parameters).all()


# Cloning


def test_recovered_actions_are_the_targets_and_only_where_weighted(problem: Problem) -> None:
    weights = np.ones(10)
    weights[3] = 0
    actions = recovered_actions(problem, weights)
    rows, states = problem.demonstrations.transition_rows, problem.demonstrations.states
    expected = turntable.ExactInverse(turntable.CLOCKWISE)(states[rows], states[rows + 1])
    expected[150:200] = 0
    assert actions == pytest.approx(expected, abs=1e-6)
    assert np.abs(expected).max() > 0.5


def test_cloning_learns_to_act_as_demonstrated() -> None:
    problem = turntable.posed(turntable.demonstrations(count=40))
    learner = Cloning(updates=1500, batch=64, hidden=(32, 32), checkpoint_every=1500, jitter=0.0)
    (checkpoint,) = learned(learner, problem)
    returns = evaluate(checkpoint.policy, turntable.CLOCKWISE, episodes=100, rng=np.random.default_rng(5)).returns
    rng = np.random.default_rng(0)
    expert = evaluate(lambda seen: turntable.chase(seen, rng), turntable.CLOCKWISE, episodes=100, rng=np.random.default_rng(5)).returns
    still = evaluate(lambda seen: np.zeros((len(seen), 1)), turntable.CLOCKWISE, episodes=100, rng=np.random.default_rng(5)).returns
    assert returns.mean() > still.mean() + 0.8 * (expert.mean() - still.mean())


@pytest.mark.slow
def test_our_weights_beat_none_on_the_turntable() -> None:
    task = turntable.task(Cloning(updates=1500, batch=64, hidden=(32, 32), checkpoint_every=1500))
    returns = {name: [run(task, METHODS[name], seed=seed).mean_return for seed in range(5)] for name in ("none", "ours")}
    assert mannwhitneyu(returns["ours"], returns["none"], alternative="greater").pvalue < 0.05


def test_the_reported_action_error_is_a_mean_however_long_the_last_stretch(problem: Problem) -> None:
    short, long = (dataclasses.replace(turntable.TINY_CLONING, updates=5, checkpoint_every=every) for every in (5, 10))
    (one,), (other,) = learned(short, problem), learned(long, problem)
    assert one.diagnostics == pytest.approx(other.diagnostics)


# GAIL


def adversary() -> Adversary:
    return Adversary(Mlp((4, 6, 1)), TransitionScaling(np.zeros(4), np.ones(4)))


def test_the_adversary_sees_the_state_and_its_change() -> None:
    scaled = Adversary(Mlp((2, 1)), TransitionScaling(np.array([1.0, 0.0]), np.array([2.0, 0.5])))
    assert scaled.inputs(np.array([[5.0]]), np.array([[6.0]])).tolist() == [[2.0, 2.0]]


def test_the_reward_is_high_where_the_agent_looks_demonstrated() -> None:
    judge = Adversary(Mlp((1, 1)), TransitionScaling(np.zeros(1), np.ones(1)))
    rewards = judge.reward(np.array([1.0, 0.0], np.float32), np.array([[-50.0], [0.0], [50.0]], np.float32))
    assert rewards == pytest.approx([50.0, np.log(2), 0.0], abs=1e-6)


def test_an_update_follows_the_gradient_of_the_cross_entropy() -> None:
    judge, rng = adversary(), np.random.default_rng(0)
    agent, demonstrated = rng.normal(size=(9, 4)), rng.normal(size=(5, 4)) + 0.5
    parameters = judge.network.initial(rng).astype(np.float64)

    def loss(values: np.ndarray) -> float:
        logits = [judge.network.forward(values, each)[-1][:, 0] for each in (agent, demonstrated)]
        return float(np.logaddexp(0, -logits[0]).mean() + np.logaddexp(0, logits[1]).mean())

    numerical = [(loss(parameters + move) - loss(parameters - move)) / 2e-6 for move in 1e-6 * np.eye(len(parameters))]
    memory = Adam.fresh(judge.network.size, rate=0.0)
    claims = [Claim(each.astype(np.float32), label) for each, label in ((agent, AGENT), (demonstrated, DEMONSTRATED))]
    judge.update(parameters.astype(np.float32), memory, claims, rng=rng)
    assert memory.first / 0.1 == pytest.approx(np.array(numerical), abs=1e-4)


def test_a_penalty_holds_the_steepness_between_demonstrated_and_visited_near_one() -> None:
    judge, rng = adversary(), np.random.default_rng(0)
    agent, demonstrated = (rng.normal(size=(200, 4)).astype(np.float32) + shift for shift in (-1.0, 1.0))
    steepness = {}
    for penalty in (0.0, 5.0):
        strict = dataclasses.replace(judge, penalty=penalty)
        parameters, memory = judge.network.initial(np.random.default_rng(1)), Adam.fresh(judge.network.size, rate=0.02)
        for _ in range(500):
            strict.update(parameters, memory, [Claim(agent, AGENT), Claim(demonstrated, DEMONSTRATED)], rng=rng)
        between = somewhere_between(demonstrated, agent, rng)
        values = judge.network.forward(parameters, between)
        steepness[penalty] = np.linalg.norm(judge.network.input_gradients(parameters, values, np.ones((200, 1), np.float32)), axis=1)
    assert np.median(steepness[0.0]) > 2
    assert np.abs(steepness[5.0] - 1).mean() < 0.2


def test_every_claim_counts_by_its_weights() -> None:
    judge, rng = adversary(), np.random.default_rng(0)
    first, second, third = rng.normal(size=(3, 5, 4))
    weights = rng.uniform(0, 2, 5)
    parameters = judge.network.initial(rng).astype(np.float64)

    def loss(values: np.ndarray) -> float:
        logits = [judge.network.forward(values, each)[-1][:, 0] for each in (first, second, third)]
        taken_for_agent = 0.7 * np.logaddexp(0, -logits[0]).mean() + (weights * np.logaddexp(0, -logits[1])).mean()
        return float(taken_for_agent + np.logaddexp(0, logits[2]).mean())

    numerical = [(loss(parameters + move) - loss(parameters - move)) / 2e-6 for move in 1e-6 * np.eye(len(parameters))]
    memory = Adam.fresh(judge.network.size, rate=0.0)
    one, other, last = (each.astype(np.float32) for each in (first, second, third))
    claims = [Claim(one, AGENT, 0.7), Claim(other, AGENT, weights.astype(np.float32)), Claim(last, DEMONSTRATED)]
    judge.update(parameters.astype(np.float32), memory, claims, rng=rng)
    assert memory.first / 0.1 == pytest.approx(np.array(numerical), abs=1e-4)


def test_the_adversary_learns_to_tell_them_apart() -> None:
    judge, rng = adversary(), np.random.default_rng(0)
    agent, demonstrated = (rng.normal(size=(200, 4)).astype(np.float32) + shift for shift in (-1.0, 1.0))
    parameters, memory = judge.network.initial(rng), Adam.fresh(judge.network.size, rate=0.02)
    for _ in range(100):
        diagnostics = judge.update(parameters, memory, [Claim(agent, AGENT), Claim(demonstrated, DEMONSTRATED)], rng=rng)
    assert diagnostics["agent recognised"] > 0.9
    assert diagnostics["demonstrations recognised"] > 0.9
    assert judge.reward(parameters, demonstrated).mean() > judge.reward(parameters, agent).mean() + 1


# What survives an interruption


def test_a_generator_goes_on_where_it_was() -> None:
    rng, other = np.random.default_rng(0), np.random.default_rng(1)
    rng.normal(size=3)
    state = generator_state(rng)
    restore_generator(other, state)
    assert np.array_equal(rng.normal(size=5), other.normal(size=5))


def test_an_optimiser_goes_on_where_it_was() -> None:
    memory, parameters = Adam.fresh(3, rate=0.1), np.zeros(3, np.float32)
    memory.step(parameters, np.ones(3, np.float32))
    copy = Adam.fresh(3, rate=0.1).restored("judge", memory.arrays("judge"))
    ahead, copied = parameters.copy(), parameters.copy()
    memory.step(ahead, np.array([1, 2, 3], np.float32))
    copy.step(copied, np.array([1, 2, 3], np.float32))
    assert np.array_equal(ahead, copied)
    assert copy.steps == memory.steps == 2


# Confidences


@pytest.mark.parametrize(
    ("confidences", "message"),
    [
        (SOME - 0.5, r"demonstration 0 has confidence -0.4; confidences must be in \[0, 1\]"),
        (SOME + 0.5, r"confidence 1.1; confidences must be in \[0, 1\]"),
        (np.full(10, np.nan), "confidence nan"),
        (np.full(10, 0.25), "all 100 labels are 0.25; confidences must differ"),
        (np.ones(9), r"shape \(9,\); 10 demonstrations need \(10,\)"),
    ],
)
def test_confidences_that_say_nothing_are_refused(believer: Learner, problem: Problem, confidences: np.ndarray, message: str) -> None:
    with pytest.raises(ImitableError, match=message):
        next(iter(believer(problem, confidences, rng=np.random.default_rng(0))))


@pytest.mark.parametrize("share", [1e-9, 1 - 1e-9])
def test_some_transitions_must_have_a_label_and_some_not(problem: Problem, share: float) -> None:
    with pytest.raises(ImitableError, match="there must be some of both"):
        draw_labels(problem.demonstrations, SOME, share=share, rng=np.random.default_rng(0))


def test_labels_are_a_share_of_the_transitions_with_their_demonstrations_confidence(problem: Problem) -> None:
    labels = draw_labels(problem.demonstrations, SOME, share=0.2, rng=np.random.default_rng(0))
    every = np.repeat(SOME, problem.demonstrations.lengths)
    assert len(labels.labelled) == round(0.2 * len(every))
    assert labels.confidences == pytest.approx(every[labels.labelled])
    assert np.array_equal(np.sort(np.concatenate([labels.labelled, labels.unlabelled])), np.arange(len(every)))


@pytest.mark.parametrize("mostly_good", [False, True])
def test_the_classifiers_slopes_are_those_of_its_risk(mostly_good: bool) -> None:
    rng = np.random.default_rng(3)
    scores, confidences = rng.normal(size=9), rng.uniform(0.6, 1.0, 4) if mostly_good else rng.uniform(0.0, 0.4, 4)
    share = 0.5

    def loss(margin: np.ndarray) -> np.ndarray:
        return np.log1p(np.exp(-margin))

    def risk(values: np.ndarray) -> float:
        known, unknown = values[:4], values[4:]
        if mostly_good:
            good = ((confidences - share) * loss(known)).mean() + share * loss(unknown).mean()
            bad = ((1 - confidences) * loss(-known)).mean()
        else:
            good = (confidences * loss(known)).mean()
            bad = ((1 - share - confidences) * loss(-known)).mean() + share * loss(-unknown).mean()
        return max(good, 0.0) + max(bad, 0.0)

    numerical = [(risk(scores + move) - risk(scores - move)) / 2e-6 for move in 1e-6 * np.eye(9)]
    found = risk_slopes(
        scores.astype(np.float32), confidences.astype(np.float32), unlabelled_share=np.float32(share), mostly_good=mostly_good
    )
    assert found == pytest.approx(np.array(numerical), abs=1e-5)


def separable(*, count: int = 4000, seed: int = 0):
    """Inputs of two overlapping clouds, labels for a fifth of them: confident in one, not in the other."""
    rng = np.random.default_rng(seed)
    good = rng.random(count) < 0.4
    inputs = rng.normal(size=(count, 4)).astype(np.float32)
    inputs[:, 0] += np.where(good, 1.5, -1.5)
    labelled, unlabelled = np.arange(count // 5), np.arange(count // 5, count)
    return inputs, Labels(labelled, np.where(good, 0.9, 0.1)[labelled].astype(np.float32), unlabelled), good[unlabelled]


def test_the_classifier_finds_good_transitions_without_labels() -> None:
    inputs, labels, good = separable()
    found = Classifier(iterations=1500).fit(inputs, labels, rng=np.random.default_rng(0))(inputs[labels.unlabelled])
    assert mannwhitneyu(found[good], found[~good]).statistic / (good.sum() * (~good).sum()) > 0.95  # the area under the ROC curve
    assert ((found >= 0) & (found <= 1)).all()


def test_batch_means_couple_no_confidence_to_its_sample() -> None:
    inputs, labels, good = separable()
    found = Classifier(iterations=1500, couples_samples=False).fit(inputs, labels, rng=np.random.default_rng(0))(inputs[labels.unlabelled])
    assert mannwhitneyu(found[good], found[~good]).statistic / (good.sum() * (~good).sum()) < 0.9


# SAIL


def numerical_gradient(function, parameters: np.ndarray, step: float = 1e-6) -> np.ndarray:
    moves = step * np.eye(len(parameters))
    return np.array([(function(parameters + move) - function(parameters - move)) / (2 * step) for move in moves])


def test_the_foresights_gradient_is_that_of_its_loss() -> None:
    rng = np.random.default_rng(0)
    inputs, goals, noise = rng.normal(size=(7, 3)), rng.normal(size=(7, 3)), rng.normal(size=(7, 2))
    model = Foresight.fresh(3, hidden=5, latent=2, rng=rng)
    parameters = model.parameters.astype(np.float64) * 3

    def loss(values: np.ndarray) -> float:
        encoding, decoding = np.split(values, [model.encoder.size])
        means, log_spreads = np.split(model.encoder.forward(encoding, inputs)[-1], 2, axis=1)
        log_spreads = np.clip(log_spreads, -20, 0.5)
        guess = model.decoder.forward(decoding, means + np.exp(log_spreads) * noise)[-1]
        toll = 0.5 * (means**2 + np.exp(2 * log_spreads) - 2 * log_spreads - 1).mean()
        return float(((guess - goals) ** 2).mean() + 0.3 * toll)

    given = dataclasses.replace(model, parameters=parameters.astype(np.float32))
    found = given.gradient(*(each.astype(np.float32) for each in (inputs, goals, noise)), beta=0.3)
    assert found == pytest.approx(numerical_gradient(loss, parameters), abs=2e-4)


def test_foresight_learns_where_demonstrations_go() -> None:
    rng = np.random.default_rng(0)
    model, memory = Foresight.fresh(2, hidden=32, latent=4, rng=rng), None
    memory = Adam.fresh(len(model.parameters), rate=3e-3)
    for _ in range(600):
        states = rng.normal(size=(64, 2)).astype(np.float32)
        following = np.stack([states[:, 0] + 0.5 * states[:, 1], -states[:, 1]], axis=1)
        memory.step(model.parameters, model.gradient(states, following, rng.standard_normal((64, 4), np.float32), beta=0.001))
    errors = model(states) - following
    assert np.square(errors).mean() < 0.1 * np.square(following).mean()


def test_the_critics_gradient_is_that_of_its_loss_and_penalty() -> None:
    rng = np.random.default_rng(1)
    network = Mlp((3, 6, 5, 1), activation="relu")
    parameters = network.initial(rng).astype(np.float64) * 2
    shown, visited, mixed = (rng.normal(size=(count, 3)) for count in (4, 6, 5))

    def loss(values: np.ndarray) -> float:
        means = [network.forward(values, each)[-1].mean() for each in (visited, shown)]
        outputs = [network.forward(values, mixed + move)[-1][:, 0] for sign in (1, -1) for move in sign * 1e-5 * np.eye(3)]
        slopes = (np.array(outputs[:3]) - np.array(outputs[3:])) / 2e-5
        return float(means[0] - means[1] + 1.5 * np.square(np.linalg.norm(slopes, axis=0) - 1).mean())

    found = critic_gradient(
        network, parameters.astype(np.float32), *(each.astype(np.float32) for each in (shown, visited, mixed)), penalty=1.5
    )
    assert found == pytest.approx(numerical_gradient(loss, parameters, 1e-5), abs=2e-3)


def test_sails_policy_slope_is_that_of_its_loss() -> None:
    rng = np.random.default_rng(2)
    network = Mlp((2, 4, 3))
    policy = Policy.fresh(network, centre=np.zeros(2), scale=np.ones(2), low=-np.ones(3), high=np.ones(3), spread=0.5, rng=rng)
    inputs, actions, gains, prior = (rng.normal(size=(8, width)) for width in (2, 3, 1, 3))
    likelihood = log_likelihood(actions, policy.mean(inputs), policy.log_spread) + rng.normal(size=(8, 1)) * 0.3
    sail = Sail(gain_share=0.7)

    def loss(values: np.ndarray) -> float:
        parameters, log_spread = np.split(values, [network.size])
        means = network.forward(parameters, inputs)[-1]
        ratio = np.exp(log_likelihood(actions, means, log_spread) - likelihood)
        gained = np.minimum(ratio * gains, np.clip(ratio, 0.8, 1.2) * gains).mean()
        held = np.square(prior - means).sum(axis=1).mean()
        return float(held + np.exp(2 * log_spread).sum() - 0.01 * log_spread.sum() - 0.7 * gained)

    theta = np.concatenate([policy.parameters, policy.log_spread]).astype(np.float64)
    single = (each.astype(np.float32) for each in (inputs, actions, gains, likelihood, prior))
    assert sail.slope(policy, *single) == pytest.approx(numerical_gradient(loss, theta), abs=1e-3)


def test_sail_stays_at_its_prior_while_frozen(problem: Problem) -> None:
    frozen = dataclasses.replace(TINY_SAIL, frozen=6)
    assert len({everything(each.policy) for each in learned(frozen, problem)}) == 1


def claims_of(learner: Learner, problem: Problem, confidences: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> list[list[Claim]]:
    """What the discriminator was told in every round."""
    told: list[list[Claim]] = []
    update = Adversary.update

    def listen(self: Adversary, parameters: np.ndarray, memory: Adam, claims: list[Claim], *, rng: np.random.Generator) -> dict[str, float]:
        told.append(list(claims))
        return update(self, parameters, memory, claims, rng=rng)

    monkeypatch.setattr(Adversary, "update", listen)
    learned(learner, problem, confidences)
    return told


def test_ic_gail_blames_the_agent_for_what_labels_call_bad(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    confidences = np.array([1.0] * 8 + [0.0] * 2)
    told = claims_of(BELIEVERS["ic-gail"], problem, confidences, monkeypatch)
    agent, bad, unlabelled = told[0]
    assert [agent.label, bad.label, unlabelled.label] == [AGENT, AGENT, DEMONSTRATED]
    share = float(agent.weights)
    assert share == pytest.approx(0.8, abs=0.05), "the mean confidence, above the least share"
    assert set(np.round(np.unique(bad.weights), 4)) == {0.0, 1.0}, "(1 - Z) / (1 - mean) is 1 where the mean is Z"
    few = claims_of(BELIEVERS["ic-gail"], problem, 1 - confidences, monkeypatch)[0]
    assert few[0].weights == 0.7
    assert np.max(few[1].weights) == pytest.approx(0.3 / 0.8, abs=0.03)


def test_2iwil_weighs_demonstrations_by_their_relative_confidence(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = BELIEVERS["2iwil"]
    found = learner.confidences(problem, SOME, rng=np.random.default_rng(0).spawn(2)[0])
    told = claims_of(learner, problem, SOME, monkeypatch)
    weights = np.concatenate([claims[1].weights for claims in told])
    assert np.isin(np.round(weights, 5), np.round(found / found.mean(), 5)).all()
    assert weights.mean() == pytest.approx(1.0, abs=0.05)
    assert all(claims[0].weights == 1.0 and claims[1].label == DEMONSTRATED for claims in told)


def test_sails_critic_rewards_what_was_demonstrated(problem: Problem) -> None:
    sail = dataclasses.replace(TINY_SAIL, critic_hidden=(16, 16), rate=3e-3)
    rng = np.random.default_rng(0)
    apprentice = sail.enrol(problem, TransitionSampler(problem.demonstrations, np.ones(10)), rng=rng)
    shown, elsewhere = (rng.normal(size=(200, 4)).astype(np.float32) + shift for shift in (1.0, -1.0))
    assert not sail.rewards(apprentice, shown, elsewhere).any(), "an untrained critic rewards nothing"
    for _ in range(100):
        mixed = (shown + elsewhere) / 2
        gradient = critic_gradient(apprentice.critic_network, apprentice.critic, shown, elsewhere, mixed, penalty=1.0)
        apprentice.critic_memory.step(apprentice.critic, gradient)
    good, bad = (sail.rewards(apprentice, shown, visited) for visited in (shown, elsewhere))
    assert good.mean() == pytest.approx(0.0, abs=1e-6)
    assert bad.mean() < -0.05


def test_sails_prior_learns_from_its_own_actions_what_the_inverse_dynamics_gets_wrong(problem: Problem) -> None:
    exact = problem.inverse_dynamics
    wrong = dataclasses.replace(problem, inverse_dynamics=lambda states, following: 0.5 * exact(states, following) + 0.2)
    sail, rng = dataclasses.replace(TINY_SAIL, refreshing_steps=300, rate=3e-3, minibatch=64, spread=0.5), np.random.default_rng(0)
    apprentice = sail.enrol(wrong, TransitionSampler(problem.demonstrations, np.ones(10)), rng=rng)
    states = problem.demonstrations.states[problem.demonstrations.transition_rows]
    changes = apprentice.foresight(apprentice.policy.inputs(states))
    ahead = states + changes * apprentice.scaling.scale[4:] + apprentice.scaling.centre[4:]
    assert apprentice.prior(wrong, states) == pytest.approx(wrong.inverse_dynamics(states, ahead), abs=1e-6), "f_id until told otherwise"
    experience = sample_batch(problem.target, apprentice.policy, batch=sail.batch, rng=rng)
    sail.refresh(apprentice, wrong, experience, rng=rng)
    seen, following = flat_transitions(experience)
    learned_of_it = apprentice.remainder_network.forward(apprentice.remainder, apprentice.scaling(seen, following))[-1]
    taken = np.clip(experience.actions.reshape(-1, 1), -1, 1)

    def error(actions: np.ndarray) -> float:
        return float(np.sqrt(np.square(actions - taken).mean()))

    mistaken = wrong.inverse_dynamics(seen, following)
    assert error(mistaken + learned_of_it) < error(exact(seen, following)) < error(mistaken)


def test_dropout_is_differentiated_as_it_was_drawn() -> None:
    rng = np.random.default_rng(4)
    network = Mlp((3, 5, 4, 1))
    parameters, inputs = network.initial(rng).astype(np.float64) * 3, rng.normal(size=(6, 3))
    masks = [2.0 * (rng.random((6, width)) < 0.5) for width in (5, 4)]
    values = network.forward(parameters, inputs, masks)
    gates = [mask - value * value * 0.5 for mask, value in zip(masks, values[1:-1], strict=True)]
    found = network.backward(parameters, values, np.ones((6, 1)), gates)
    assert found == pytest.approx(numerical_gradient(lambda each: network.forward(each, inputs, masks)[-1].sum(), parameters), abs=1e-5)
