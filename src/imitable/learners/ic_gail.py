"""IC-GAIL: imitate what remains of the demonstrations when the unconfident share is explained away (Wu et al., 2019).

The discriminator compares the demonstrations with a mixture of the agent and of what labels say is bad. The agent that fits the
mixture is the good share.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from imitable.arrays import Array, Float32, Generator, Snapshot
from imitable.assessment import Assessment
from imitable.errors import ImitableError, check_fields
from imitable.learners._confidences import Labels, confidence, draw_labels, draw_weighted
from imitable.learners._discriminator import AGENT, DEMONSTRATED, LossTerm
from imitable.learners.base import Checkpoint
from imitable.learners.gail import Gail
from imitable.scores import per_transition


@dataclass(frozen=True)
class IcGail:
    """GAIL whose agent stands for a share of the demonstrations; confidences come from the demonstrations' returns."""

    labelled_share: float = 0.2
    min_agent_share: float = 0.7  # the agent's share of the mixture is at least this, so that it is not drowned by what is bad
    gail: Gail = field(default_factory=Gail)

    def __post_init__(self) -> None:
        check_fields(
            self,
            ("labelled_share", 0 < self.labelled_share < 1, "between 0 and 1"),
            ("min_agent_share", 0 < self.min_agent_share <= 1, "in (0, 1]"),
        )

    def __call__(self, assessment: Assessment, weights: Array, *, rng: Generator, resume: Snapshot | None = None) -> Iterator[Checkpoint]:
        sampler = self.gail.sampler(assessment, weights)
        demonstrations = sampler.demonstrations
        labelling, learning = rng.spawn(2)
        if resume is None:
            confidences = confidence(demonstrations, learner="IC-GAIL")
            labels = draw_labels(demonstrations, confidences, share=self.labelled_share, rng=labelling)
        else:
            labels = Labels(resume["labelled"], resume["confidences"], resume["unlabelled"])
        drawn = per_transition(sampler.weights, demonstrations.lengths)
        if not (drawn[labels.labelled].any() and drawn[labels.unlabelled].any()):
            raise ImitableError("all transitions with any weight are labelled, or none is; IC-GAIL needs some of both")
        mean = float(labels.confidences.mean())  # r-bar; below 1, since labels differ
        agent_share = max(mean, self.min_agent_share)  # Z
        bad_weights = np.float32((1 - agent_share) / (1 - mean)) * (1 - labels.confidences)

        def loss_terms(agent: Float32, demonstrated: Float32, rng: Generator) -> Sequence[LossTerm]:
            # Z E_agent[-log D] + (1 - Z)/(1 - r-bar) E_c[(1 - r) (-log D)] + E_u[-log(1 - D)]
            bad = draw_weighted(drawn[labels.labelled], min(len(labels.labelled), len(agent)), rng)
            picks = draw_weighted(drawn[labels.unlabelled], min(len(labels.unlabelled), len(agent)), rng)
            return (
                LossTerm(agent, AGENT, agent_share),
                LossTerm(demonstrated[labels.labelled[bad]], AGENT, bad_weights[bad]),
                LossTerm(demonstrated[labels.unlabelled[picks]], DEMONSTRATED),
            )

        extra: Snapshot = {"labelled": labels.labelled, "confidences": labels.confidences, "unlabelled": labels.unlabelled}
        return self.gail.learn(assessment, weights, sampler, loss_terms, rng=learning, resume=resume, extra=extra)
