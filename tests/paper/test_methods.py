"""The paper's methods, and anyone's own."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import turntable
from imitable.errors import ImitableError
from imitable.paper.methods import CONTROLS, METHODS, find_method
from imitable.paper.run import Experiment
from imitable.sampling import effective_sample_size
from imitable.scores import RectifiedOptimality, ReplayFeasibility

Write = Callable[[str, str], None]


def test_methods_share_the_assessment_and_differ_in_weights() -> None:
    task, assessment = turntable.task(), turntable.assessed(turntable.mixed(own=20, other=10))
    weights = {name: assessment.weights(method.score(task)) for name, method in METHODS.items()}
    uniform = ("none", "sail", "2iwil", "ic-gail")
    assert all((weights[name] == 1).all() for name in uniform), "which demonstrations count is their learners' business"
    assert (weights["ours"] <= weights["feasibility"]).all()
    assert (weights["naive"] <= weights["feasibility"]).all()
    assert (weights["naive"] <= weights["optimality"]).all()
    assert len({each.tobytes() for each in weights.values()}) == 1 + len(METHODS) - len(uniform)


def test_the_products_are_those_of_the_parts() -> None:
    task, assessment = turntable.task(), turntable.assessed(turntable.mixed(own=20, other=10))
    weights = {name: assessment.weights(method.score(task)) for name, method in METHODS.items()}
    assert np.array_equal(weights["naive"], weights["feasibility"] * weights["optimality"])
    assert np.array_equal(weights["ours"], weights["feasibility"] * assessment.scored(turntable.OPTIMALITY))


def test_scores_have_the_tasks_numbers() -> None:
    task = replace(
        turntable.task(), feasibility=ReplayFeasibility(delta_s=0.3), optimality=RectifiedOptimality(sigma=7.0, radius=0.2, columns=(1,))
    )
    feasibility, optimality = METHODS["ours"].score(task).factors  # type: ignore[attr-defined]
    assert feasibility == task.feasibility
    assert optimality == replace(task.optimality, feasibility=task.feasibility), (
        "the standard is set by what is feasible by the same numbers"
    )
    assert METHODS["optimality"].score(task).sigma == 7.0  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["naive", "optimality"])
def test_without_a_sigma_a_naive_method_takes_it_from_the_data(name: str) -> None:
    task = replace(turntable.task(), optimality=RectifiedOptimality())
    weights = turntable.assessed().scored(METHODS[name].score(task))
    assert np.isfinite(weights).all()
    assert weights.any()


@pytest.mark.parametrize(
    ("name", "learner"), [("sail", "sail"), ("ic-gail", "ic-gail"), ("2iwil", "2iwil"), ("none", None), ("ours", None)]
)
def test_some_methods_are_a_learner_of_their_own(name: str, learner: str | None) -> None:
    assert METHODS[name].learner == learner


def test_an_unknown_method_is_refused_with_the_nearest() -> None:
    with pytest.raises(ImitableError, match="unknown method 'our'; did you mean ours"):
        find_method("our")


OWN = """
from dataclasses import dataclass
import numpy as np
from imitable.paper.methods import Method
from imitable.sampling import effective_sample_size
from imitable.scores import Uniform

@dataclass(frozen=True)
class ShortFirst:
    least: float = 0.0

    def __call__(self, assessment):
        lengths = assessment.demonstrations.lengths
        return np.maximum(lengths.min() / lengths, self.least)

    def table(self, assessment):
        return {}

SCORE = ShortFirst(least=0.5)
METHOD = Method("alike", "every demonstration alike, by sail", lambda task: Uniform(), "sail")
NUMBER = 3
"""


def test_a_users_own_score_is_a_method(write_module: Write) -> None:
    write_module("own_scores", OWN)
    given, made = find_method("own_scores:SCORE"), find_method("own_scores:ShortFirst")
    assert given.name == "own_scores:SCORE"
    assert given.learner is None
    assert (given.score(turntable.task()).least, made.score(turntable.task()).least) == (0.5, 0.0)  # type: ignore[attr-defined]
    result = Experiment.of(turntable.task(), given).run(seed=0, demonstrations=turntable.mixed())
    assert np.array_equal(result.weights, np.ones(12)), "all are equally long"


def test_a_users_own_method_is_found(write_module: Write) -> None:
    write_module("own_scores", OWN)
    method = find_method("own_scores:METHOD")
    assert (method.name, method.learner) == ("alike", "sail")


def test_what_is_no_method_is_refused(write_module: Write) -> None:
    write_module("own_scores", OWN)
    with pytest.raises(ImitableError, match="method 'own_scores:NUMBER' is a int; it must be a Method or a score"):
        find_method("own_scores:NUMBER")
    with pytest.raises(ImitableError, match="method 'own_scores:MISSING': own_scores has no 'MISSING'"):
        find_method("own_scores:MISSING")


# Controls


def test_shuffled_weights_are_those_of_ours_on_other_demonstrations() -> None:
    task, assessment = turntable.task(), turntable.assessed(turntable.mixed(own=20, other=10))
    ours, shuffled = (assessment.weights(find_method(name).score(task)) for name in ("ours", "shuffled"))
    assert np.array_equal(np.sort(shuffled), np.sort(ours))
    assert not np.array_equal(shuffled, ours)
    again = turntable.assessed(turntable.mixed(own=20, other=10)).weights(find_method("shuffled").score(task))
    assert np.array_equal(again, shuffled), "the same demonstrations, the same draw"


def test_a_random_subset_is_worth_as_much_as_ours() -> None:
    task, assessment = turntable.task(), turntable.assessed(turntable.mixed(own=20, other=10))
    ours, subset = (assessment.weights(find_method(name).score(task)) for name in ("ours", "subset"))
    assert set(subset) == {0.0, 1.0}
    assert subset.sum() == round(effective_sample_size(ours))
    other = turntable.assessed(turntable.mixed(own=20, other=10, seed=5)).weights(find_method("subset").score(task))
    assert not np.array_equal(other, subset)


def test_controls_are_no_rows_of_the_papers_table() -> None:
    assert not METHODS.keys() & CONTROLS.keys()
    assert {name: find_method(name) for name in CONTROLS} == CONTROLS
