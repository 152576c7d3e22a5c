"""Every peer does what its authors promise, on a Swimmer whose expert is known. Minutes each, so all are slow."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

from imitable.arrays import Array
from imitable.assessment import Assessment, Exploration, assess
from imitable.demonstrations import Demonstrations, join
from imitable.evaluation import evaluate
from imitable.inverse_dynamics import Learned
from imitable.learners import Gail, IcGail, Learner, Sail, TwoIwil
from imitable.learners._confidences import draw_labels
from imitable.paper.demonstrators import TrainedPolicy
from imitable.paper.tasks import find_task
from imitable.rollouts import run_episodes

pytestmark = pytest.mark.slow

TASK = find_task("swimmer/front-disabled")
TARGET = TASK.robot
GAIL = TASK.find_learner("gail")
assert isinstance(GAIL, Gail)
LEARNERS: dict[str, Learner] = {"gail": GAIL, "2iwil": TwoIwil(gail=GAIL), "ic-gail": IcGail(gail=GAIL)}


def acting(name: str, *, sampled: bool = False, seed: int = 0) -> Callable[[Array], Array]:
    policy, rng = TrainedPolicy(f"swimmer-front-disabled-{name}", sampled=sampled), np.random.default_rng(seed)
    return lambda observations: policy(observations, rng)


@cache
def demonstrated(name: str, *, sampled: bool = False, weight: float = 1.0, count: int = 20) -> Demonstrations:
    body = replace(TARGET, weight=weight)  # type: ignore[type-var]
    return run_episodes(body, acting(name, sampled=sampled), count=count, rng=np.random.default_rng(3)).trajectories


def assessed(demonstrations: Demonstrations, *, careful: bool = False) -> Assessment:
    """Hastily, where no learner asks f_id."""
    exploration, model = (Exploration(episodes=200), Learned()) if careful else (Exploration(episodes=4), Learned(epochs=1))
    return assess(demonstrations, TARGET, exploration=exploration, model=model, rng=np.random.default_rng(1))


def achieved(learner: Learner, assessment: Assessment, weights: Array) -> float:
    *_, last = learner(assessment, weights, rng=np.random.default_rng(0))
    return float(evaluate(last.policy, TARGET, episodes=20, rng=np.random.default_rng(7)).returns.mean())


def expert_return() -> float:
    return float(evaluate(acting("optimal"), TARGET, episodes=20, rng=np.random.default_rng(7)).returns.mean())


@pytest.mark.parametrize("name", LEARNERS)
def test_an_adversarial_learner_equals_the_expert_it_is_shown(name: str) -> None:
    # Confidences compare returns, so for all of the expert's to be high there is a bad demonstration, which is never drawn.
    shown = join([demonstrated("optimal"), demonstrated("suboptimal", sampled=True, count=1)])
    weights = np.array([1.0] * 20 + [0.0])
    assert achieved(LEARNERS[name], assessed(shown), weights) >= 0.9 * expert_return()


def test_sail_equals_the_expert_it_is_shown() -> None:
    assert achieved(Sail(), assessed(demonstrated("optimal"), careful=True), np.ones(20)) >= 0.9 * expert_return()


def test_sail_imitates_an_expert_of_a_lighter_body() -> None:
    assessment = assessed(demonstrated("optimal", weight=0.5), careful=True)
    assert achieved(Sail(), assessment, np.ones(20)) >= 0.8 * expert_return()


@cache
def half_and_half() -> Assessment:
    """Expert and barely trained demonstrations, whose returns say which is which and no more."""
    both = join([demonstrated("optimal"), demonstrated("suboptimal", sampled=True)])
    return assessed(replace(both, returns=np.repeat([1.0, 0.0], 20)))


@cache
def plain_imitation_of_the_mixture() -> float:
    return achieved(GAIL, half_and_half(), np.ones(40))


@pytest.mark.parametrize("name", ["2iwil", "ic-gail"])
def test_confidences_beat_plain_imitation_of_a_mixture(name: str) -> None:
    assert achieved(LEARNERS[name], half_and_half(), np.ones(40)) > plain_imitation_of_the_mixture() + 20


def test_the_classifier_tells_unlabelled_swims_apart() -> None:
    demonstrations = half_and_half().demonstrations
    found = TwoIwil().confidences(half_and_half().demonstrations, rng=np.random.default_rng(0))
    unlabelled = draw_labels(demonstrations, demonstrations.returns, share=0.2, rng=np.random.default_rng(0)).unlabelled
    good = (np.repeat(demonstrations.returns, demonstrations.lengths) == 1)[unlabelled]
    one, other = found[unlabelled][good], found[unlabelled][~good]
    assert mannwhitneyu(one, other).statistic / (len(one) * len(other)) > 0.95
