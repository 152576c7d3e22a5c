"""Confidences, and the two learners that take them from returns: 2IWIL and IC-GAIL."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

import turntable
from imitable.arrays import Array
from imitable.assessment import Assessment
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.learners import Learner
from imitable.learners._confidences import Labels, confidence, draw_labels, draw_weighted
from imitable.learners._discriminator import AGENT, DEMONSTRATED, Discriminator, LossTerm
from imitable.learners.two_iwil import Classifier, risk_gradient
from imitable.networks import Adam, Mlp
from tiny import CONFIDENT, IC_GAIL, TWO_IWIL, learned

SOME = np.linspace(0.1, 1.0, 10)
"""Confidences of ten demonstrations."""


@pytest.fixture(params=CONFIDENT.values(), ids=CONFIDENT.keys())
def learner(request: pytest.FixtureRequest) -> Learner:
    return request.param


@pytest.fixture(scope="module")
def demonstrations() -> Demonstrations:
    return turntable.mixed(own=6, other=4)


def with_returns(demonstrations: Demonstrations, returns: Array) -> Assessment:
    return turntable.assessed(dataclasses.replace(demonstrations, returns=returns))


# Confidences and labels


def test_the_worst_return_deserves_no_confidence_and_the_best_all_of_it(demonstrations: Demonstrations) -> None:
    given = dataclasses.replace(demonstrations, returns=np.array([-3.0, 7.0, 2.0, *np.zeros(7)]))
    assert confidence(given, learner="2IWIL") == pytest.approx([0.0, 1.0, 0.5, *[0.3] * 7])


def test_equal_returns_are_refused(learner: Learner, demonstrations: Demonstrations) -> None:
    with pytest.raises(ImitableError, match=r"all 10 demonstrations have the return 4, .*or another learner than (2IWIL|IC-GAIL)"):
        learned(learner, with_returns(demonstrations, np.full(10, 4.0)))


def test_missing_returns_are_refused(learner: Learner, demonstrations: Demonstrations) -> None:
    returns = np.where(np.arange(10) == 3, np.nan, 1.0)
    with pytest.raises(ImitableError, match=r"(2IWIL|IC-GAIL) needs returns, but 1 of 10 demonstrations have none, such as number 3"):
        learned(learner, with_returns(demonstrations, returns))


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
def test_confidences_that_say_nothing_are_refused(demonstrations: Demonstrations, confidences: Array, message: str) -> None:
    with pytest.raises(ImitableError, match=message):
        draw_labels(demonstrations, confidences, share=0.2, rng=np.random.default_rng(0))


@pytest.mark.parametrize("share", [1e-9, 1 - 1e-9])
def test_some_transitions_must_have_a_label_and_some_not(demonstrations: Demonstrations, share: float) -> None:
    with pytest.raises(ImitableError, match="there must be some of both"):
        draw_labels(demonstrations, SOME, share=share, rng=np.random.default_rng(0))


def test_labels_are_a_share_of_the_transitions_with_their_demonstrations_confidence(demonstrations: Demonstrations) -> None:
    labels = draw_labels(demonstrations, SOME, share=0.2, rng=np.random.default_rng(0))
    every = np.repeat(SOME, demonstrations.lengths)
    assert len(labels.labelled) == round(0.2 * len(every))
    assert labels.confidences == pytest.approx(every[labels.labelled])
    assert np.array_equal(np.sort(np.concatenate([labels.labelled, labels.unlabelled])), np.arange(len(every)))


@pytest.mark.parametrize("weights", [np.array([0.0, 1.0, 3.0, 0.0]), np.ones(4)], ids=["unequal", "equal"])
def test_rows_are_drawn_in_proportion_to_their_weights(weights: Array) -> None:
    drawn = draw_weighted(weights, 40_000, np.random.default_rng(0))
    assert np.bincount(drawn, minlength=4) / 40_000 == pytest.approx(weights / weights.sum(), abs=0.01)
    assert not np.isin(drawn, np.flatnonzero(weights == 0)).any()


# The classifier of 2IWIL


@pytest.mark.parametrize("mostly_good", [False, True])
def test_the_classifiers_gradient_is_that_of_its_risk(mostly_good: bool) -> None:
    rng = np.random.default_rng(3)
    logits, confidences = rng.normal(size=9), rng.uniform(0.6, 1.0, 4) if mostly_good else rng.uniform(0.0, 0.4, 4)
    share = 0.5

    def loss(margin: Array) -> Array:
        return np.log1p(np.exp(-margin))

    def risk(values: Array) -> float:
        known, unknown = values[:4], values[4:]
        if mostly_good:
            good = ((confidences - share) * loss(known)).mean() + share * loss(unknown).mean()
            bad = ((1 - confidences) * loss(-known)).mean()
        else:
            good = (confidences * loss(known)).mean()
            bad = ((1 - share - confidences) * loss(-known)).mean() + share * loss(-unknown).mean()
        return max(good, 0.0) + max(bad, 0.0)

    numerical = [(risk(logits + move) - risk(logits - move)) / 2e-6 for move in 1e-6 * np.eye(9)]
    found = risk_gradient(
        logits.astype(np.float32), confidences.astype(np.float32), unlabelled_share=np.float32(share), mostly_good=mostly_good
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


def test_dropout_is_differentiated_as_it_was_drawn() -> None:
    rng = np.random.default_rng(4)
    network = Mlp((3, 5, 4, 1))
    parameters, inputs = network.init_parameters(rng).astype(np.float64) * 3, rng.normal(size=(6, 3))
    masks = [2.0 * (rng.random((6, width)) < 0.5) for width in (5, 4)]
    values = network.forward(parameters, inputs, masks)
    derivatives = [mask - value * value * 0.5 for mask, value in zip(masks, values[1:-1], strict=True)]
    found = network.backward(parameters, values, np.ones((6, 1)), derivatives)

    def output(each: Array) -> float:
        return float(network.forward(each, inputs, masks)[-1].sum())

    numerical = [(output(parameters + move) - output(parameters - move)) / 2e-6 for move in 1e-6 * np.eye(len(parameters))]
    assert found == pytest.approx(np.array(numerical), abs=1e-5)


# What the discriminator is told


def told(learner: Learner, assessment: Assessment, monkeypatch: pytest.MonkeyPatch, weights: Array | None = None) -> list[list[LossTerm]]:
    """The loss terms of every update of the discriminator."""
    heard: list[list[LossTerm]] = []
    update = Discriminator.update

    def listen(self: Discriminator, parameters: Array, optimizer: Adam, terms: list[LossTerm], **options) -> dict[str, float]:
        heard.append(list(terms))
        return update(self, parameters, optimizer, terms, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Discriminator, "update", listen)
        learned(learner, assessment, np.ones(10) if weights is None else weights)
    return heard


def test_ic_gail_blames_the_agent_for_what_labels_call_bad(demonstrations: Demonstrations, monkeypatch: pytest.MonkeyPatch) -> None:
    mostly_good = np.array([1.0] * 8 + [0.0] * 2)
    agent, bad, unlabelled = told(IC_GAIL, with_returns(demonstrations, mostly_good), monkeypatch)[0]
    assert [agent.label, bad.label, unlabelled.label] == [AGENT, AGENT, DEMONSTRATED]
    assert float(agent.weights) == pytest.approx(0.8, abs=0.05), "the mean confidence, above the least share"
    assert set(np.round(np.unique(bad.weights), 4)) == {0.0, 1.0}, "(1 - Z) / (1 - mean) is 1 where the mean is Z"
    few = told(IC_GAIL, with_returns(demonstrations, 1 - mostly_good), monkeypatch)[0]
    assert few[0].weights == 0.7
    assert np.max(few[1].weights) == pytest.approx(0.3 / 0.8, abs=0.03)


def test_2iwil_weighs_demonstrations_by_their_relative_confidence(demonstrations: Demonstrations, monkeypatch: pytest.MonkeyPatch) -> None:
    assessment = with_returns(demonstrations, SOME)
    found = TWO_IWIL.confidences(assessment.demonstrations, rng=np.random.default_rng(0).spawn(2)[0])
    heard = told(TWO_IWIL, assessment, monkeypatch)
    weights = np.concatenate([terms[1].weights for terms in heard])
    assert np.isin(np.round(weights, 5), np.round(found / found.mean(), 5)).all()
    assert weights.mean() == pytest.approx(1.0, abs=0.05)
    assert all(terms[0].weights == 1.0 and terms[1].label == DEMONSTRATED for terms in heard)


def test_2iwil_keeps_the_confidences_of_the_labelled(demonstrations: Demonstrations) -> None:
    assessment = with_returns(demonstrations, SOME)
    found = TWO_IWIL.confidences(assessment.demonstrations, rng=np.random.default_rng(0))
    known = confidence(assessment.demonstrations, learner="2IWIL")
    labels = draw_labels(assessment.demonstrations, known, share=0.2, rng=np.random.default_rng(0))
    assert np.array_equal(found[labels.labelled], labels.confidences)


@pytest.mark.parametrize("name", CONFIDENT)
def test_weights_say_how_often_a_demonstration_is_drawn(name: str, demonstrations: Demonstrations, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = np.array([0.0, 3.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    heard = told(CONFIDENT[name], with_returns(demonstrations, SOME), monkeypatch, weights)
    labels = draw_labels(demonstrations, SOME, share=0.2, rng=np.random.default_rng(0).spawn(2)[0])
    mass, owner = np.repeat(weights, demonstrations.lengths), np.repeat(np.arange(10), demonstrations.lengths)
    terms_of = {"2iwil": [np.arange(len(mass))], "ic-gail": [labels.labelled, labels.unlabelled]}[name]  # after the agent's own
    for number, rows in enumerate(terms_of, start=1):
        goals = np.round(np.concatenate([terms[number].inputs[:, 2:4] for terms in heard]), 4)  # no two demonstrations have the same
        drawn = np.sort(np.unique(goals, axis=0, return_counts=True)[1])
        expected = np.sort(np.bincount(owner[rows], weights=mass[rows], minlength=10)[1:3])
        assert len(drawn) == 2, "others than the two with a weight were drawn"
        assert drawn / drawn.sum() == pytest.approx(expected / expected.sum(), abs=0.06)


def test_ic_gail_needs_labelled_and_unlabelled_transitions_of_some_weight(demonstrations: Demonstrations) -> None:
    assessment = with_returns(demonstrations, SOME)
    alone = np.zeros(demonstrations.lengths.sum())
    alone[0] = 1.0
    with pytest.raises(ImitableError, match="all transitions with any weight are labelled, or none is; IC-GAIL needs some of both"):
        learned(IC_GAIL, assessment, alone)
