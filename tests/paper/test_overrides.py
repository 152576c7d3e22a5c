"""Numbers of a task and its learner replaced by name."""

from dataclasses import replace

import pytest

import turntable
from imitable.errors import ImitableError
from imitable.inverse_dynamics import Learned
from imitable.learners import TwoIwil
from imitable.overrides import with_replaced
from imitable.paper.overrides import with_overrides
from imitable.paper.tasks import Task, find_task
from imitable.scores import Feasibility, RectifiedOptimality, ReplayFeasibility, Score, product

REACHER, DRIVING = (find_task(name) for name in ("reacher/clockwise", "driving/slow"))
LEARNED = DRIVING.with_model(Learned())
"""The paper's recipe."""


def overridden(task: Task, *assignments: str, learner: str | None = None):
    return with_overrides(task, task.find_learner(learner), assignments)


def test_numbers_of_every_part_can_be_replaced_by_name() -> None:
    numbers = ("sigma=20", "searches=3", "false_reject_rate=0.5", "episodes=7", "rounds=9", "trpo.batch_size=100", "trpo.hidden_sizes=8,9")
    task, learner = overridden(REACHER, *numbers, learner="gail")
    assert task.optimality.sigma == 20.0
    assert task.model.searches == 3  # type: ignore[attr-defined]
    assert task.feasibility.false_reject_rate == 0.5  # type: ignore[union-attr]
    assert task.exploration.episodes == 7
    assert (learner.rounds, learner.trpo.batch_size, learner.trpo.hidden_sizes) == (9, 100, (8, 9))  # type: ignore[attr-defined]
    assert REACHER.optimality.sigma == find_task("reacher/clockwise").optimality.sigma != 20.0, "the registered task was changed"


def test_none_is_the_automatic_choice_where_there_is_one() -> None:
    task, _ = overridden(DRIVING, "sigma=none")
    assert task.optimality.sigma is None
    with pytest.raises(ImitableError, match="rounds='none' is not a whole number; it is now"):
        overridden(DRIVING, "rounds=none", learner="gail")


def of_score(score: Score, *assignments: str) -> Score:
    return with_replaced({"score": score}, assignments, place="")["score"]


def test_numbers_of_a_score_inside_a_product_can_be_replaced_by_name() -> None:
    both = product(Feasibility(), product(RectifiedOptimality()))
    assert of_score(both, "score.false_reject_rate=0.2", "score.sigma=3") == product(Feasibility(0.2), product(RectifiedOptimality(3.0)))
    assert of_score(both, "score.Feasibility.false_reject_rate=0.2") == product(Feasibility(0.2), product(RectifiedOptimality()))


def test_a_name_that_several_factors_have_is_refused_with_their_names() -> None:
    both = product(ReplayFeasibility(delta_s=0.1), RectifiedOptimality())
    with pytest.raises(ImitableError, match=r"which factor; set ReplayFeasibility\.columns and RectifiedOptimality\.columns"):
        of_score(both, "score.columns=1")
    assert of_score(both, "score.RectifiedOptimality.columns=1") == product(
        ReplayFeasibility(delta_s=0.1), RectifiedOptimality(columns=(1,))
    )
    with pytest.raises(ImitableError, match=r"set RectifiedOptimality\.NAME"):
        of_score(both, "score.RectifiedOptimality=1")
    with pytest.raises(ImitableError, match="unknown setting 'sigmo'; did you mean sigma"):
        of_score(both, "score.sigmo=1")


def test_nothing_given_changes_nothing() -> None:
    task, learner = overridden(DRIVING)
    assert task is DRIVING
    assert learner == DRIVING.find_learner()


def test_the_last_of_several_counts() -> None:
    assert overridden(DRIVING, "sigma=20", "sigma=30")[0].optimality.sigma == 30.0


def test_a_name_that_several_parts_have_is_the_learners_unless_the_part_is_named() -> None:
    task, learner = overridden(LEARNED, "batch_size=7")
    assert (learner.batch_size, task.model) == (7, Learned())  # type: ignore[attr-defined]
    task, learner = overridden(LEARNED, "model.batch_size=7")
    assert (learner, task.model) == (DRIVING.find_learner(), replace(Learned(), batch_size=7))
    task, _ = overridden(LEARNED, "columns=0,1", "optimality.columns=2")
    assert (task.feasibility.columns, task.optimality.columns) == ((0, 1), (2,))  # type: ignore[union-attr]


def test_a_learner_passes_on_to_its_gail_what_it_does_not_have() -> None:
    _, learner = overridden(DRIVING, "rounds=5", "trpo.gamma=0.5", "gail.discriminator_steps=3", "labelled_share=0.4", learner="2iwil")
    assert isinstance(learner, TwoIwil)
    assert (learner.gail.rounds, learner.gail.trpo.gamma, learner.gail.discriminator_steps, learner.labelled_share) == (5, 0.5, 3, 0.4)


@pytest.mark.parametrize(("text", "columns"), [("optimality.columns=1,2", (1, 2)), ("optimality.columns=", ())])
def test_columns_are_read_from_a_list(text: str, columns: tuple[int, ...]) -> None:
    assert overridden(DRIVING, text)[0].optimality.columns == columns


def test_a_number_that_is_not_set_yet_can_be() -> None:
    task = replace(turntable.task(), optimality=RectifiedOptimality())
    assert overridden(task, "sigma=3")[0].optimality.sigma == 3.0
    assert overridden(task, "optimality.columns=1")[0].optimality.columns == (1,)


def test_a_setting_that_is_true_or_false_is_read_as_such() -> None:
    _, learner = overridden(DRIVING, "classifier.couples_samples=False", learner="2iwil")
    assert learner.classifier.couples_samples is False  # type: ignore[attr-defined]
    with pytest.raises(ImitableError, match="couples_samples='perhaps' is not true or false; it is now True"):
        overridden(DRIVING, "classifier.couples_samples=perhaps", learner="2iwil")


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("sigma", "'sigma' is not of the form name=value, such as sigma=20"),
        ("sigmo=3", "unknown setting 'sigmo' of driving/slow with Cloning; did you mean sigma"),
        ("sigma=wide", "sigma='wide' is not a number; it is now 100.0"),
        ("sigma=-1", r"RectifiedOptimality\.sigma is -1\.0; it must be above 0"),
        ("updates=2.5", "updates='2.5' is not a whole number; it is now 60000"),
        ("model.search=2", "unknown setting 'search'; did you mean searches"),
        ("model.searches.more=2", r"cannot set searches\.more=2; set searches"),
        ("model=3", "unknown setting 'model'"),
        ("optimality.feasibility=3", r"cannot set feasibility=3; set feasibility\.false_reject_rate"),
        ("hidden_sizes=8,x", "hidden_sizes='8,x' is not a list of numbers, such as 100,100; it is now"),
        ("robot.speed=3", r"unknown setting 'robot\.speed'"),
    ],
)
def test_settings_that_cannot_be_replaced_are_refused(assignment: str, message: str) -> None:
    with pytest.raises(ImitableError, match=message):
        overridden(DRIVING, assignment)


def test_a_setting_of_another_learner_is_refused() -> None:
    with pytest.raises(ImitableError, match="unknown setting 'updates' of driving/slow with Sail"):
        overridden(DRIVING, "updates=5", learner="sail")
