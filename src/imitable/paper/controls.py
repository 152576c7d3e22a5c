"""Controls: weights that keep how much is left of the demonstrations and forget which, to tell a gain from luck or mere data reduction."""

from dataclasses import dataclass

import numpy as np

from imitable.arrays import Array, Generator
from imitable.assessment import Assessment
from imitable.sampling import effective_sample_size
from imitable.scores import Score, demonstration_weights


@dataclass(frozen=True)
class Shuffled:
    """The weights of another score, dealt out to demonstrations, or transitions, at random."""

    score: Score

    def __call__(self, assessment: Assessment) -> Array:
        return _generator(assessment).permutation(assessment.scored(self.score))


@dataclass(frozen=True)
class Subset:
    """As many demonstrations, drawn at random, as the weights of another score are effectively worth; all alike."""

    score: Score

    def __call__(self, assessment: Assessment) -> Array:
        lengths = assessment.demonstrations.lengths
        size = max(1, round(effective_sample_size(demonstration_weights(assessment.scored(self.score), lengths))))
        weights = np.zeros(len(lengths))
        weights[_generator(assessment).choice(len(lengths), size, replace=False)] = 1.0
        return weights


def _generator(assessment: Assessment) -> Generator:
    """Of the demonstrations' own bytes: other seeds give other demonstrations, and these another draw."""
    return np.random.default_rng(int(assessment.demonstrations.digest[:16], 16))
