"""IC-GAIL: imitate what remains of the demonstrations when the unconfident share is explained away (Wu et al., 2019).

The discriminator compares the demonstrations with a mixture of the agent and of what labels say is bad. The agent that fits the
mixture is the good share.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from imitable.arrays import Array, Float32, Generator, Integers, Snapshot
from imitable.errors import check_fields
from imitable.learners._adversary import AGENT, DEMONSTRATED, Claim
from imitable.learners._labels import Labels, draw_labels
from imitable.learners.base import Checkpoint
from imitable.learners.gail import Gail
from imitable.problem import Problem
from imitable.sampling import TransitionSampler


@dataclass(frozen=True)
class IcGail:
    """GAIL whose agent stands for a share of the demonstrations; the weights it is given are confidences."""

    labelled_share: float = 0.2
    least_share: float = 0.7  # the agent's share of the mixture is at least this, so that it is not drowned by what is bad
    gail: Gail = field(default_factory=Gail)

    def __post_init__(self) -> None:
        check_fields(
            self,
            ("labelled_share", 0 < self.labelled_share < 1, "between 0 and 1"),
            ("least_share", 0 < self.least_share <= 1, "in (0, 1]"),
        )

    def __call__(self, problem: Problem, weights: Array, *, rng: Generator, resume: Snapshot | None = None) -> Iterator[Checkpoint]:
        labelling, playing = rng.spawn(2)
        if resume is None:
            labels = draw_labels(problem.demonstrations, weights, share=self.labelled_share, rng=labelling)
        else:
            labels = Labels(resume["labelled"], resume["confidences"], resume["unlabelled"])
        mean = float(labels.confidences.mean())  # r-bar; below 1, since labels differ
        agents_share = max(mean, self.least_share)  # Z
        blame = np.float32((1 - agents_share) / (1 - mean)) * (1 - labels.confidences)

        def claims(agent: Float32, shown: Float32, rng: Generator) -> Sequence[Claim]:
            # Z E_agent[-log D] + (1 - Z)/(1 - r-bar) E_c[(1 - r) (-log D)] + E_u[-log(1 - D)]
            bad = _some(len(labels.labelled), len(agent), rng)
            unknown = labels.unlabelled[_some(len(labels.unlabelled), len(agent), rng)]
            return (
                Claim(agent, AGENT, agents_share),
                Claim(shown[labels.labelled[bad]], AGENT, blame[bad]),
                Claim(shown[unknown], DEMONSTRATED),
            )

        keep: Snapshot = {"labelled": labels.labelled, "confidences": labels.confidences, "unlabelled": labels.unlabelled}
        sampler = TransitionSampler(problem.demonstrations, np.ones(len(problem.demonstrations)))
        return self.gail.play(problem, sampler, claims, rng=playing, resume=resume, keep=keep)


def _some(available: int, wanted: int, rng: Generator) -> Integers:
    """Row numbers drawn with replacement, as many as wanted or as there are."""
    return rng.integers(available, size=min(available, wanted))
