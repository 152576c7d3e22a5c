"""Every peer does what its authors promise, on a Swimmer whose expert is known. Minutes each, so all are slow."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from imitable.demonstrations import Demonstrations, join
from imitable.evaluation import evaluate
from imitable.experts import Shipped
from imitable.inverse_dynamics import InverseDynamicsFit
from imitable.learners import IcGail, Learner, Sail, TwoIwil
from imitable.learners._labels import draw_labels
from imitable.problem import Problem, Settings, pose
from imitable.reinforcement import demonstrate
from imitable.scores import confidence
from imitable.simulators import swimmer
from imitable.tasks import SWIMMER_GAIL

pytestmark = pytest.mark.slow

TARGET = swimmer.FRONT_DISABLED
LIGHT = replace(TARGET, weight=0.5)
GAIL = SWIMMER_GAIL
HASTY = Settings(noise=0.5, sigma=40.0, exploration=4, fit=InverseDynamicsFit(epochs=1))  # where no learner asks f_id
CAREFUL = Settings(noise=0.0005, sigma=40.0, exploration=200)


def acting(name: str, *, sampled: bool = False, seed: int = 0):
    policy, rng = Shipped(f"swimmer-front-disabled-{name}", sampled=sampled), np.random.default_rng(seed)
    return lambda seen: policy(seen, rng)


@cache
def shown(name: str, *, sampled: bool = False, light: bool = False, count: int = 20) -> Demonstrations:
    return demonstrate(LIGHT if light else TARGET, acting(name, sampled=sampled), count=count, rng=np.random.default_rng(3)).trajectories


def posed(demonstrations: Demonstrations, settings: Settings = HASTY) -> Problem:
    return pose(demonstrations, TARGET, settings=settings, rng=np.random.default_rng(1))


def achieved(learner: Learner, problem: Problem, weights: np.ndarray) -> float:
    *_, last = learner(problem, weights, rng=np.random.default_rng(0))
    return float(evaluate(last.policy, TARGET, episodes=20, rng=np.random.default_rng(7)).returns.mean())


def expert_return() -> float:
    return float(evaluate(acting("optimal"), TARGET, episodes=20, rng=np.random.default_rng(7)).returns.mean())


@pytest.mark.parametrize("name", ["gail", "2iwil", "ic-gail"])
def test_an_adversarial_learner_equals_the_expert_it_is_shown(name: str) -> None:
    problem = posed(shown("optimal"))
    learner = {"gail": GAIL, "2iwil": TwoIwil(gail=GAIL), "ic-gail": IcGail(gail=GAIL)}[name]
    weights = np.ones(20) if name == "gail" else 0.9 + 0.1 * confidence(problem)  # all of them are good
    assert achieved(learner, problem, weights) >= 0.9 * expert_return()


def test_sail_equals_the_expert_it_is_shown() -> None:
    assert achieved(Sail(), posed(shown("optimal"), CAREFUL), np.ones(20)) >= 0.9 * expert_return()


def test_sail_imitates_an_expert_of_a_lighter_body() -> None:
    light = shown("optimal", light=True)
    reached = achieved(Sail(), posed(light, CAREFUL), np.ones(20))
    assert reached >= 0.8 * expert_return()


@cache
def half_and_half() -> tuple[Problem, np.ndarray]:
    """Expert and barely trained demonstrations, with their true confidences."""
    both = join([shown("optimal"), shown("suboptimal", sampled=True)])
    return posed(both), np.repeat([1.0, 0.0], 20)


@cache
def plain_imitation_of_the_mixture() -> float:
    return achieved(GAIL, half_and_half()[0], np.ones(40))


@pytest.mark.parametrize("name", ["2iwil", "ic-gail"])
def test_confidences_beat_plain_imitation_of_a_mixture(name: str) -> None:
    problem, confidences = half_and_half()
    learner = {"2iwil": TwoIwil(gail=GAIL), "ic-gail": IcGail(gail=GAIL)}[name]
    assert achieved(learner, problem, confidences) > plain_imitation_of_the_mixture() + 20


def test_the_classifier_tells_unlabelled_swims_apart() -> None:
    problem, confidences = half_and_half()
    found = TwoIwil().confidences(problem, confidences, rng=np.random.default_rng(0))
    unlabelled = draw_labels(problem.demonstrations, confidences, share=0.2, rng=np.random.default_rng(0)).unlabelled
    good = (np.repeat(confidences, problem.demonstrations.lengths) == 1)[unlabelled]
    one, other = found[unlabelled][good], found[unlabelled][~good]
    assert mannwhitneyu(one, other).statistic / (len(one) * len(other)) > 0.95
