"""Learners: an assessment and weights in, ever better policies out."""

from imitable.learners.base import LEARN_VERSION, Checkpoint, Learner
from imitable.learners.cloning import Cloning
from imitable.learners.gail import Gail
from imitable.learners.ic_gail import IcGail
from imitable.learners.sail import Sail
from imitable.learners.two_iwil import TwoIwil

LEARNERS = {
    "cloning": "imitable.learners.cloning:Cloning",
    "gail": "imitable.learners.gail:Gail",
    "ic-gail": "imitable.learners.ic_gail:IcGail",
    "2iwil": "imitable.learners.two_iwil:TwoIwil",
    "sail": "imitable.learners.sail:Sail",
}
"""By the name that `--learner` takes."""

__all__ = ["LEARNERS", "LEARN_VERSION", "Checkpoint", "Cloning", "Gail", "IcGail", "Learner", "Sail", "TwoIwil"]
