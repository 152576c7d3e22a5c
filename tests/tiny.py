"""Learners that learn in a fraction of a second, and what tests ask of them."""

from dataclasses import replace

import numpy as np

import turntable
from imitable.arrays import Array
from imitable.assessment import Assessment, Exploration
from imitable.inverse_dynamics import Learned
from imitable.learners import Checkpoint, Gail, IcGail, Learner, Sail, TwoIwil
from imitable.learners.two_iwil import Classifier
from imitable.networks import Policy

SAIL = Sail(
    iterations=6,
    n_steps=100,
    vae_updates=20,
    vae_hidden=6,
    vae_latent=3,
    pretraining_updates=10,
    frozen_iterations=1,
    critic_steps=3,
    critic_batch_size=16,
    n_epochs=2,
    minibatch_size=25,
    policy_hidden=(6, 6),
    value_hidden=(5,),
    critic_hidden=(6, 5),
    inverse=Learned(epochs=1),
    exploration=Exploration(episodes=10, steps=None),
    checkpoint_every=2,
)
TWO_IWIL = TwoIwil(gail=turntable.TINY_GAIL, classifier=Classifier(iterations=50, batch_size=16, hidden_sizes=(4,)))
IC_GAIL = IcGail(gail=turntable.TINY_GAIL)
SIZES = ("rounds", "checkpoint_every", "discriminator_hidden_sizes", "trpo")
PLAIN: dict[str, Learner] = {
    "gail": turntable.TINY_GAIL,
    "gail as released": Gail.released(**{name: getattr(turntable.TINY_GAIL, name) for name in SIZES}),
    "gail from a clone": replace(turntable.TINY_GAIL, start="cloning", cloning=turntable.TINY_CLONING, frozen_rounds=1),
    "gail whose agents go on": replace(turntable.TINY_GAIL, trpo=replace(turntable.TINY_GAIL.trpo, n_envs=10)),
    "cloning": turntable.TINY_CLONING,
    "sail": SAIL,
}
"""Learners that see only what the weights draw."""
CONFIDENT: dict[str, Learner] = {"2iwil": TWO_IWIL, "ic-gail": IC_GAIL}
"""Learners that also take confidences from the returns."""
LEARNERS = PLAIN | CONFIDENT


def everything(policy: Policy) -> bytes:
    """All that a policy's actions depend on."""
    names = ("parameters", "center", "scale", "low", "high", "log_std")
    return b"".join(getattr(policy, name).tobytes() for name in names)


def learned(learner: Learner, assessment: Assessment, weights: Array | None = None, *, seed: int = 0, **options) -> list[Checkpoint]:
    """All checkpoints."""
    weights = np.linspace(0.1, 1.0, len(assessment.demonstrations)) if weights is None else weights
    return list(learner(assessment, weights, rng=np.random.default_rng(seed), **options))
