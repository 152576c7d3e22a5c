"""Robots by name."""

from collections.abc import Callable
from pathlib import Path

import pytest

import imitable
import turntable
from imitable.errors import ImitableError
from imitable.paper import TASK_NAMES
from imitable.paper.tasks import find_task
from imitable.robots import robot

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
