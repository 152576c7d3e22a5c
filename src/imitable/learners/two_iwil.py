"""2IWIL: learn confidences from a labelled few, then weigh the demonstrations by them in GAIL (Wu et al., 2019)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from imitable.arrays import Array, Float32, Generator, Snapshot
from imitable.assessment import Assessment
from imitable.demonstrations import Demonstrations
from imitable.errors import above, at_least, check_fields, layer_sizes
from imitable.learners._confidences import Labels, confidence, draw_labels, draw_weighted
from imitable.learners._discriminator import AGENT, DEMONSTRATED, LossTerm, sigmoid
from imitable.learners.base import Checkpoint
from imitable.learners.gail import Gail
from imitable.networks import Adam, Mlp, TransitionScaling
from imitable.scores import per_transition


@dataclass(frozen=True)
class Classifier:
    """A network g on (s, s' - s) whose sigmoid is the confidence, trained on a few labels and many transitions without."""

    iterations: int = 25_000
    batch_size: int = 128  # labelled transitions per iteration; unlabelled ones in proportion
    learning_rate: float = 3e-4  # Adam
    hidden_sizes: tuple[int, ...] = (40, 40)
    dropout: float = 0.5
    couples_samples: bool = True
    """Each confidence weighs its own sample's loss. False: the batch's mean loss, as in the released code, which couples no
    confidence to its sample; for comparison only."""

    def __post_init__(self) -> None:
        check_fields(
            self,
            *at_least(self, 1, "iterations", "batch_size"),
            *above(self, 0, "learning_rate"),
            ("dropout", 0 <= self.dropout < 1, "in [0, 1)"),
            layer_sizes("hidden_sizes", self.hidden_sizes),
        )

    def fit(self, inputs: Float32, labels: Labels, *, rng: Generator) -> Callable[[Float32], Float32]:
        """Confidences (N,) of any inputs (N, 2 * observation), by the semi-supervised risk."""
        network = Mlp((inputs.shape[1], *self.hidden_sizes, 1))
        parameters, optimizer = network.init_parameters(rng), Adam.fresh(network.size, learning_rate=self.learning_rate)
        known, unknown = len(labels.labelled), len(labels.unlabelled)
        size = min(self.batch_size, known)
        rest = min(unknown, max(1, round(size * unknown / known)))
        mostly_good = float(labels.confidences.mean()) > 0.5
        for _ in range(self.iterations):
            picks = rng.integers(known, size=size)
            rows = np.concatenate([labels.labelled[picks], labels.unlabelled[rng.integers(unknown, size=rest)]])
            confidences = labels.confidences[picks]
            if not self.couples_samples:
                confidences = np.full_like(confidences, confidences.mean())
            dropout_masks = [
                (rng.random((len(rows), width)) >= self.dropout).astype(np.float32) / (1 - self.dropout) for width in self.hidden_sizes
            ]
            activations = network.forward(parameters, inputs[rows], dropout_masks)
            gradients = risk_gradient(
                activations[-1][:, 0], confidences, unlabelled_share=np.float32(unknown / (known + unknown)), mostly_good=mostly_good
            )
            pairs = zip(dropout_masks, activations[1:-1], strict=True)
            derivatives = [mask - value * value * (1 - np.float32(self.dropout)) for mask, value in pairs]
            optimizer.step(parameters, network.backward(parameters, activations, gradients[:, None], derivatives))
        return lambda some: np.asarray(sigmoid(network.forward(parameters, some)[-1][:, 0]))


def risk_gradient(logits: Float32, confidences: Float32, *, unlabelled_share: np.float32, mostly_good: bool) -> Float32:
    """(N,) gradient of max(R+, 0) + max(R-, 0) with respect to the classifier's logits g of labelled, then unlabelled transitions.

    With l(z) = log(1 + exp(-z)) and beta the unlabelled share, R+ = E_c[r l(g)] and R- = E_c[(1 - beta - r) l(-g)] + beta E_u[l(-g)].
    Where labels are good for the most part, the unlabelled ones stand in R+ instead: R- = E_c[(1 - r) l(-g)] and
    R+ = E_c[(r - beta) l(g)] + beta E_u[l(g)].
    """
    known = len(confidences)
    for_good, for_bad = np.zeros((2, len(logits)), np.float32)  # each sample's coefficient in R+ and in R-
    if mostly_good:
        for_good[:known], for_bad[:known] = confidences - unlabelled_share, 1 - confidences
        for_good[known:] = unlabelled_share
    else:
        for_good[:known], for_bad[:known] = confidences, 1 - unlabelled_share - confidences
        for_bad[known:] = unlabelled_share
    for coefficients in (for_good, for_bad):
        coefficients[:known] /= known
        coefficients[known:] /= len(logits) - known
    good_risk, bad_risk = (for_good * np.logaddexp(0, -logits)).sum(), (for_bad * np.logaddexp(0, logits)).sum()
    likely = sigmoid(logits)
    return np.asarray((good_risk > 0) * for_good * (likely - 1) + (bad_risk > 0) * for_bad * likely, np.float32)


@dataclass(frozen=True)
class TwoIwil:
    """GAIL whose demonstrations count by their confidence, known of a labelled share and learned for the rest."""

    labelled_share: float = 0.2
    classifier: Classifier = field(default_factory=Classifier)
    gail: Gail = field(default_factory=Gail)

    def __post_init__(self) -> None:
        check_fields(self, ("labelled_share", 0 < self.labelled_share < 1, "between 0 and 1"))

    def __call__(self, assessment: Assessment, weights: Array, *, rng: Generator, resume: Snapshot | None = None) -> Iterator[Checkpoint]:
        labelling, learning = rng.spawn(2)
        sampler = self.gail.sampler(assessment, weights)
        confidences = self.confidences(sampler.demonstrations, rng=labelling) if resume is None else resume["confidences"]
        relative, drawn = confidences / confidences.mean(), per_transition(sampler.weights, sampler.demonstrations.lengths)

        def loss_terms(agent: Float32, demonstrated: Float32, rng: Generator) -> Sequence[LossTerm]:
            picks = draw_weighted(drawn, len(agent), rng)
            return LossTerm(agent, AGENT), LossTerm(demonstrated[picks], DEMONSTRATED, relative[picks])

        return self.gail.learn(assessment, weights, sampler, loss_terms, rng=learning, resume=resume, extra={"confidences": confidences})

    def confidences(self, demonstrations: Demonstrations, *, rng: Generator) -> Float32:
        """(transition,) by the returns where labelled, as the classifier thinks elsewhere."""
        known = confidence(demonstrations, learner="2IWIL")
        labels = draw_labels(demonstrations, known, share=self.labelled_share, rng=rng)
        rows = demonstrations.transition_rows
        observations, next_observations = demonstrations.observations[rows], demonstrations.observations[rows + 1]
        inputs = TransitionScaling.of(observations, next_observations)(observations, next_observations)
        confidences = self.classifier.fit(inputs, labels, rng=rng)(inputs)
        confidences[labels.labelled] = labels.confidences
        return confidences
