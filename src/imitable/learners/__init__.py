"""Learners: a problem and its weights in, ever better policies out."""

from imitable.learners.base import Checkpoint, Learner
from imitable.learners.cloning import Cloning
from imitable.learners.gail import Gail

__all__ = ["Checkpoint", "Cloning", "Gail", "Learner"]
