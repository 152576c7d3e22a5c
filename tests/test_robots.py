"""Robots by name."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import imitable
import turntable
from imitable.errors import ImitableError
from imitable.paper import TASK_NAMES
from imitable.paper.tasks import find_task
from imitable.robots import robot
from legged import QUADRUPED

Write = Callable[[str, str], None]


@pytest.mark.parametrize("name", TASK_NAMES)
def test_the_name_of_a_task_is_its_target(name: str) -> None:
    assert robot(name) is find_task(name).robot


ARMS = """
import turntable
ARM = turntable.CLOCKWISE
class Arm(turntable.Turntable):
    def __init__(self):
        super().__init__(-1.0, 0.0)
"""


def test_a_users_own_robot_is_an_object_or_one_made_of_a_class(write_module: Write) -> None:
    write_module("arms", ARMS)
    assert imitable.robot("arms:ARM") is turntable.CLOCKWISE
    made = imitable.robot("arms:Arm")
    assert isinstance(made, turntable.Turntable)
    assert made.slowest == -1.0


def test_what_is_no_robot_is_told_what_it_lacks(write_module: Write) -> None:
    write_module("stones", "class Stone:\n    horizon = 3\n    step = observe = restore = initial_states = None\n")
    with pytest.raises(
        ImitableError, match=r"robot 'stones:Stone' has no action_low and no action_high and no observation_names; see imitable"
    ):
        robot("stones:Stone")


def test_a_module_or_an_object_that_is_not_there_is_named(working_directory: Path) -> None:
    with pytest.raises(ImitableError, match="robot 'nowhere:ARM': there is no module 'nowhere'"):
        robot("nowhere:ARM")
    with pytest.raises(ImitableError, match="robot 'turntable:ARM': turntable has no 'ARM'"):
        robot("turntable:ARM")


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ImitableError, match="driving/slow"):
        robot("driving/slwo")


@pytest.mark.parametrize("name", ["zzzzqq", "my arm", "a/b/c", "CartPoel-v1", "Hoper-v5", "hopper", "arm.xlm"])
def test_an_unknown_robot_is_told_a_few_names_and_the_forms_it_may_have(name: str) -> None:
    with pytest.raises(ImitableError, match=f"^unknown robot '{name}'") as told:
        robot(name)
    said = str(told.value)
    for form in ("Gymnasium", ".xml or .urdf file", "module:object", "`imitable tasks`"):
        assert form in said
    assert len(re.findall(r"-v\d", said.split("A robot is")[0].removeprefix(f"unknown robot '{name}'"))) <= 3, "not all there are"
    assert "CartPole-v1" not in said, "which is no MuJoCo environment"
    assert ("did you mean Hopper-v5" in said) == name.lower().startswith("ho")


def test_a_state_map_is_found_by_its_name_and_proven(write_module: Write) -> None:
    write_module(
        "maps",
        """
import numpy as np
def right(observations):
    return np.insert(observations[:, :5], 0, 0.0, axis=1), observations[:, 5:]
def wrong(observations):
    return np.insert(observations[:, :5], 0, 0.0, axis=1), observations[:, [5, 6, 7, 9, 8, 10]]
""",
    )
    assert imitable.robot("Hopper-v5", state_map="maps:right").observation_names[0] == "rootz"
    with pytest.raises(
        ImitableError, match="columns thigh_joint velocity, leg_joint velocity differ after restore and observe; pass a state_map"
    ):
        imitable.robot("Hopper-v5", state_map="maps:wrong")


def test_settings_that_a_robot_does_not_take_are_named(tmp_path: Path) -> None:
    (path := tmp_path / "quadruped.xml").write_text(QUADRUPED)
    with pytest.raises(ImitableError, match="does not take one of state_map"):
        robot(str(path), state_map=print)
    with pytest.raises(ImitableError, match="'driving/slow' takes no settings; it was given floor"):
        robot("driving/slow", floor=True)
