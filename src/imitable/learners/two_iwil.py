"""2IWIL: learn confidences from a labelled few, then weigh the demonstrations by them in GAIL (Wu et al., 2019)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from imitable.arrays import Array, Float32, Generator, Snapshot
from imitable.errors import check_fields, layers
from imitable.learners._adversary import AGENT, DEMONSTRATED, Claim, logistic
from imitable.learners._labels import Labels, draw_labels
from imitable.learners.base import Checkpoint
from imitable.learners.gail import Gail
from imitable.networks import Adam, Mlp
from imitable.problem import Problem
from imitable.reinforcement import TransitionScaling
from imitable.sampling import TransitionSampler


@dataclass(frozen=True)
class Classifier:
    """A network g on (s, s' - s) whose logistic is the confidence, trained on a few labels and many transitions without."""

    iterations: int = 25_000
    batch: int = 128  # labelled transitions per iteration; unlabelled ones in proportion
    rate: float = 3e-4  # Adam
    hidden: tuple[int, ...] = (40, 40)
    dropout: float = 0.5
    couples_samples: bool = True
    """Each confidence weighs its own sample's loss. False: the batch's mean loss, as in the released code, which couples no
    confidence to its sample; for comparison only."""

    def __post_init__(self) -> None:
        check_fields(
            self,
            ("iterations", self.iterations >= 1, "at least 1"),
            ("batch", self.batch >= 1, "at least 1"),
            ("rate", self.rate > 0, "above 0"),
            ("dropout", 0 <= self.dropout < 1, "in [0, 1)"),
            layers("hidden", self.hidden),
        )

    def fit(self, inputs: Float32, labels: Labels, *, rng: Generator) -> Callable[[Float32], Float32]:
        """Confidences (N,) of any inputs (N, 2 * observation), by the semi-supervised risk."""
        network = Mlp((inputs.shape[1], *self.hidden, 1))
        parameters, memory = network.initial(rng), Adam.fresh(network.size, rate=self.rate)
        known, unknown = len(labels.labelled), len(labels.unlabelled)
        size = min(self.batch, known)
        rest = min(unknown, max(1, round(size * unknown / known)))
        mostly_good = float(labels.confidences.mean()) > 0.5
        for _ in range(self.iterations):
            picks = rng.integers(known, size=size)
            rows = np.concatenate([labels.labelled[picks], labels.unlabelled[rng.integers(unknown, size=rest)]])
            confidences = labels.confidences[picks]
            if not self.couples_samples:
                confidences = np.full_like(confidences, confidences.mean())
            masks = [(rng.random((len(rows), width)) >= self.dropout).astype(np.float32) / (1 - self.dropout) for width in self.hidden]
            values = network.forward(parameters, inputs[rows], masks)
            slopes = risk_slopes(
                values[-1][:, 0], confidences, unlabelled_share=np.float32(unknown / (known + unknown)), mostly_good=mostly_good
            )
            gates = [mask - value * value * (1 - np.float32(self.dropout)) for mask, value in zip(masks, values[1:-1], strict=True)]
            memory.step(parameters, network.backward(parameters, values, slopes[:, None], gates))
        return lambda some: np.asarray(logistic(network.forward(parameters, some)[-1][:, 0]))


def risk_slopes(scores: Float32, confidences: Float32, *, unlabelled_share: np.float32, mostly_good: bool) -> Float32:
    """(N,) how max(R+, 0) + max(R-, 0) changes with the classifier's scores g of labelled, then unlabelled transitions.

    With l(z) = log(1 + exp(-z)) and beta the unlabelled share, R+ = E_c[r l(g)] and R- = E_c[(1 - beta - r) l(-g)] + beta E_u[l(-g)].
    Where labels are good for the most part, the unlabelled ones stand in R+ instead: R- = E_c[(1 - r) l(-g)] and
    R+ = E_c[(r - beta) l(g)] + beta E_u[l(g)].
    """
    known = len(confidences)
    for_good, for_bad = np.zeros((2, len(scores)), np.float32)  # each sample's coefficient in R+ and in R-
    if mostly_good:
        for_good[:known], for_bad[:known] = confidences - unlabelled_share, 1 - confidences
        for_good[known:] = unlabelled_share
    else:
        for_good[:known], for_bad[:known] = confidences, 1 - unlabelled_share - confidences
        for_bad[known:] = unlabelled_share
    for coefficients in (for_good, for_bad):
        coefficients[:known] /= known
        coefficients[known:] /= len(scores) - known
    good_risk, bad_risk = (for_good * np.logaddexp(0, -scores)).sum(), (for_bad * np.logaddexp(0, scores)).sum()
    likely = logistic(scores)
    return np.asarray((good_risk > 0) * for_good * (likely - 1) + (bad_risk > 0) * for_bad * likely, np.float32)


@dataclass(frozen=True)
class TwoIwil:
    """GAIL whose demonstrations count by their confidence, learned from a labelled share; the weights it is given are confidences."""

    labelled_share: float = 0.2
    classifier: Classifier = field(default_factory=Classifier)
    gail: Gail = field(default_factory=Gail)

    def __post_init__(self) -> None:
        check_fields(self, ("labelled_share", 0 < self.labelled_share < 1, "between 0 and 1"))

    def __call__(self, problem: Problem, weights: Array, *, rng: Generator, resume: Snapshot | None = None) -> Iterator[Checkpoint]:
        labelling, playing = rng.spawn(2)
        confidences = self.confidences(problem, weights, rng=labelling) if resume is None else resume["confidences"]
        relative = confidences / confidences.mean()

        def claims(agent: Float32, shown: Float32, rng: Generator) -> Sequence[Claim]:
            picks = rng.integers(len(shown), size=len(agent))
            return Claim(agent, AGENT), Claim(shown[picks], DEMONSTRATED, relative[picks])

        sampler = TransitionSampler(problem.demonstrations, np.ones(len(problem.demonstrations)))
        return self.gail.play(problem, sampler, claims, rng=playing, resume=resume, keep={"confidences": confidences})

    def confidences(self, problem: Problem, given: Array, *, rng: Generator) -> Float32:
        """(transition,) as given where labelled, as the classifier thinks elsewhere."""
        demonstrations = problem.demonstrations
        labels = draw_labels(demonstrations, given, share=self.labelled_share, rng=rng)
        rows = demonstrations.transition_rows
        states, following = demonstrations.states[rows], demonstrations.states[rows + 1]
        inputs = TransitionScaling.of(states, following)(states, following)
        confidences = self.classifier.fit(inputs, labels, rng=rng)(inputs)
        confidences[labels.labelled] = labels.confidences
        return confidences
