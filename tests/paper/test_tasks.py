"""The tasks: one list of names, and anyone's own."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import gymnasium
import numpy as np
import pytest

import turntable
from imitable.assessment import Exploration
from imitable.errors import ImitableError
from imitable.inverse_dynamics import Learned, Solved
from imitable.learners import Cloning, Gail, IcGail, Sail, TwoIwil
from imitable.paper import PAIRS, TASK_NAMES, gymnasium_id, panda
from imitable.paper.demonstrators import POLICIES, collect
from imitable.paper.methods import METHODS
from imitable.paper.tasks import CLONING, Task, find_task, published, task_without_demonstrators
from imitable.scores import Feasibility, RectifiedOptimality, ReplayFeasibility, product

Write = Callable[[str, str], None]


@pytest.mark.parametrize("name", TASK_NAMES)
def test_a_task_has_its_name_and_demonstrators_of_both_dynamics(name: str) -> None:
    task = find_task(name)
    assert task.name == name
    assert sum(task.demonstrators.mixture.shares().values()) == pytest.approx(1.0)
    assert task.robot is task.demonstrators.target
    body, dynamics = name.split("/")
    if body == "panda":  # which has a body that only demonstrates
        assert task.demonstrators.other is panda.SEVEN_JOINTS
        return
    (twin,) = (find_task(f"{body}/{each}") for each in PAIRS[body] if each != dynamics)
    assert task.robot is twin.demonstrators.other
    assert task.demonstrators.other is twin.robot


@pytest.mark.parametrize("name", [name for name in TASK_NAMES if find_task(name).evaluated_on is None])
def test_every_task_says_how_its_policies_were_trained(name: str) -> None:
    shipped = {quality for quality in ("optimal", "suboptimal") if (POLICIES / f"{name.replace('/', '-')}-{quality}.safetensors").exists()}
    assert find_task(name).training.keys() == shipped


def test_the_papers_table_has_no_other_tasks() -> None:
    assert published().keys() <= set(TASK_NAMES)


@pytest.mark.parametrize("name", TASK_NAMES)
def test_every_task_is_a_gymnasium_environment(name: str) -> None:
    environment = gymnasium.make(gymnasium_id(name))
    assert environment.observation_space.shape == (len(find_task(name).robot.observation_names),)


def test_a_task_needs_no_numbers_of_the_papers_recipe() -> None:
    given = turntable.task()
    task = Task("mine", given.demonstrators, given.optimality)
    learned = task.with_model(Learned())
    assert (learned.feasibility, learned.exploration) == (ReplayFeasibility(), Exploration())


def test_a_robot_stands_for_a_task_but_has_no_demonstrators() -> None:
    task = task_without_demonstrators("arm", turntable.CLOCKWISE)
    assert (task.robot, METHODS["ours"].score(task)) == (turntable.CLOCKWISE, product(Feasibility(), RectifiedOptimality()))
    with pytest.raises(ImitableError, match="robot 'arm' has no demonstrators of its own; give it demonstrations"):
        collect(task.demonstrators, count=3, rng=np.random.default_rng(0))


def test_a_task_is_found_once() -> None:
    assert find_task("driving/slow") is find_task("driving/slow")


# Learners


def test_what_is_not_asked_for_is_the_tasks_own_learner() -> None:
    assert turntable.task().find_learner() is turntable.task().learners["cloning"]
    mine = replace(find_task("reacher/clockwise"), learner="gail")
    assert mine.find_learner() is mine.learners["gail"]


@pytest.mark.parametrize("name", TASK_NAMES)
def test_every_task_clones_by_default_with_the_same_numbers_but_driving_and_defaults_everywhere(name: str) -> None:
    task = find_task(name)
    learner = task.find_learner()
    assert isinstance(learner, Cloning)
    alike = replace(learner, max_transitions=CLONING.max_transitions) if name.startswith("ant/") else learner
    assert (alike == CLONING) == (not name.startswith("driving/"))
    assert (task.model, task.exploration, task.feasibility) == (Solved(), Exploration(), Feasibility())


@pytest.mark.parametrize("name", TASK_NAMES)
@pytest.mark.parametrize(
    ("learner", "kind"), [("cloning", Cloning), ("gail", Gail), ("ic-gail", IcGail), ("2iwil", TwoIwil), ("sail", Sail)]
)
def test_any_learner_can_be_asked_for_on_any_task(name: str, learner: str, kind: type) -> None:
    assert type(find_task(name).find_learner(learner)) is kind


@pytest.mark.parametrize("learner", ["2iwil", "ic-gail"])
def test_learners_that_are_gail_underneath_build_on_the_tasks(learner: str) -> None:
    swimmer, mine = find_task("swimmer/back-disabled"), Gail(rounds=5)
    assert swimmer.find_learner(learner).gail is swimmer.learners["gail"]  # type: ignore[attr-defined]
    assert replace(swimmer, learners={"gail": mine}).find_learner(learner).gail is mine  # type: ignore[attr-defined]
    assert find_task("driving/slow").find_learner(learner).gail == Gail()  # type: ignore[attr-defined]


OWN_LEARNERS = """
from dataclasses import dataclass
from imitable.learners import Cloning, Gail, IcGail

@dataclass(frozen=True)
class Patient(Cloning):
    updates: int = 7

@dataclass(frozen=True)
class OnGail(IcGail):
    gail: Gail = Gail(rounds=3)

PATIENT = Patient(updates=9)
"""


def test_a_users_own_learner_is_found_as_it_is(write_module: Write) -> None:
    write_module("own_learners", OWN_LEARNERS)
    task = find_task("swimmer/back-disabled")
    assert task.find_learner("own_learners:Patient").updates == 7  # type: ignore[attr-defined]
    assert task.find_learner("own_learners:PATIENT").updates == 9  # type: ignore[attr-defined]
    assert task.find_learner("own_learners:OnGail").gail.rounds == 3  # type: ignore[attr-defined]


def test_an_unknown_learner_is_refused_with_the_nearest() -> None:
    with pytest.raises(ImitableError, match="unknown learner 'clonning'; did you mean cloning"):
        turntable.task().find_learner("clonning")


@pytest.mark.parametrize("name", ["own_learners:NUMBER", "own_learners:TABLE"])
def test_what_is_no_learner_is_refused(write_module: Write, name: str) -> None:
    write_module("own_learners", "NUMBER = 3\nTABLE = {}\n")
    with pytest.raises(ImitableError, match=rf"learner '{name}' is a (int|dict), which has no __call__"):
        turntable.task().find_learner(name)


# Inverse dynamics


@dataclass(frozen=True)
class Other(turntable.ExactModel):
    pass


@pytest.mark.parametrize("model", [Other(), Solved(tolerance=0.1)], ids=["a user's", "solved"])
def test_another_inverse_dynamics_replaces_the_tasks_alone(model: Other | Solved) -> None:
    swimmer = find_task("swimmer/back-disabled")
    assert swimmer.with_model(model) == replace(swimmer, model=model)


@pytest.mark.parametrize("name", TASK_NAMES)
def test_the_learned_inverse_dynamics_comes_with_the_papers_recipe(name: str) -> None:
    task, model = find_task(name), Learned(epochs=7)
    papers = task.with_model(model)
    assert papers.model is model
    assert papers.feasibility is task.replay_feasibility
    assert papers.exploration is task.paper_exploration
    assert papers.exploration.steps is None, "whole episodes"
    assert papers.optimality == replace(task.optimality, feasible_above=0.0), "whoever is feasible at all sets the standard"
    assert METHODS["ours"].score(papers).factors[1].feasibility is task.replay_feasibility  # type: ignore[attr-defined]


# A user's own


def test_a_users_own_task_is_found(write_module: Write) -> None:
    write_module("own_tasks", "import turntable\nTASK = turntable.task()\nNUMBER = 3\n")
    task = find_task("own_tasks:TASK")
    assert task.robot is turntable.CLOCKWISE
    assert task.name == "own_tasks:TASK", "so that `imitable evaluate` finds it again"
    with pytest.raises(ImitableError, match=r"task 'own_tasks:NUMBER' is a int; it must be an imitable\.Task"):
        find_task("own_tasks:NUMBER")
    with pytest.raises(ImitableError, match="task 'own_tasks:task': own_tasks has no 'task'"):
        find_task("own_tasks:task")
    with pytest.raises(ImitableError, match="task 'nowhere:TASK': there is no module 'nowhere'"):
        find_task("nowhere:TASK")


def test_an_unknown_task_is_refused_with_the_nearest() -> None:
    with pytest.raises(ImitableError, match="unknown task 'driving/slwo'; did you mean driving/slow"):
        find_task("driving/slwo")


def test_methods_that_bring_a_learner_name_one_that_every_task_has() -> None:
    for method in METHODS.values():
        for name in TASK_NAMES:
            find_task(name).find_learner(method.learner)
