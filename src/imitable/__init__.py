"""Which of these demonstrations can my robot imitate, are they worth imitating, and what policy do I get from them?

    demonstrations = imitable.read("pile/*.csv")
    robot = imitable.robot("Hopper-v5")                  # or "go2.xml", "driving/slow", "my_package:MY_ROBOT"
    assessment = imitable.assess(demonstrations, robot)
    weights = assessment.weights()                       # feasibility x optimality
    *_, last = imitable.Cloning()(assessment, weights, rng=np.random.default_rng(0))

Importing it imports neither torch nor mujoco, and registers the Gymnasium environments.
"""

from imitable import _command as _command
from imitable.arrays import one_thread
from imitable.assessment import Assessment, Exploration, assess
from imitable.demonstrations import Demonstrations, join, mix
from imitable.errors import ImitableError
from imitable.evaluation import Measurement, evaluate
from imitable.formats import read
from imitable.inverse_dynamics import InverseDynamics, InverseResult, Learned, Solved
from imitable.learners import Checkpoint, Cloning, Gail, IcGail, Learner, Sail, TwoIwil
from imitable.networks import Policy
from imitable.paper import register_environments
from imitable.paper.demonstrators import Demonstrators, Mixture, collect
from imitable.paper.methods import METHODS, Method, find_method
from imitable.paper.run import run
from imitable.paper.tasks import Task, find_task
from imitable.pipeline import Result, Streams, imitate
from imitable.replay import Replay
from imitable.report.terminal import progress_bar
from imitable.robots import robot
from imitable.rollouts import run_episodes
from imitable.sampling import TransitionSampler, effective_sample_size
from imitable.scores import (
    Feasibility,
    NaiveOptimality,
    RectifiedOptimality,
    ReplayFeasibility,
    Tolerance,
    Uniform,
    product,
    rectified_return,
)
from imitable.simulators import Simulator
from imitable.verdicts import score_table

# fmt: off
__all__ = [
    "METHODS",
    "Assessment",
    "Checkpoint",
    "Cloning",
    "Demonstrations",
    "Demonstrators",
    "Exploration",
    "Feasibility",
    "Gail",
    "IcGail",
    "ImitableError",
    "InverseDynamics",
    "InverseResult",
    "Learned",
    "Learner",
    "Measurement",
    "Method",
    "Mixture",
    "NaiveOptimality",
    "Policy",
    "RectifiedOptimality",
    "Replay",
    "ReplayFeasibility",
    "Result",
    "Sail",
    "Simulator",
    "Solved",
    "Streams",
    "Task",
    "Tolerance",
    "TransitionSampler",
    "TwoIwil",
    "Uniform",
    "assess",
    "collect",
    "effective_sample_size",
    "evaluate",
    "find_method",
    "find_task",
    "imitate",
    "join",
    "mix",
    "one_thread",
    "product",
    "progress_bar",
    "read",
    "rectified_return",
    "robot",
    "run",
    "run_episodes",
    "score_table",
]
# fmt: on

register_environments()
