"""Learners: a problem and its weights in, ever better policies out."""

from imitable.learners.base import Checkpoint, Learner
from imitable.learners.cloning import Cloning
from imitable.learners.gail import Gail
from imitable.learners.ic_gail import IcGail
from imitable.learners.sail import Sail
from imitable.learners.two_iwil import TwoIwil

__all__ = ["Checkpoint", "Cloning", "Gail", "IcGail", "Learner", "Sail", "TwoIwil"]
