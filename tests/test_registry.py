"""Objects by name: registered ones, and anyone's own as module:object."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from imitable.errors import ImitableError
from imitable.registry import find, load_object

Write = Callable[[str, str], None]


def test_a_registered_name_is_found() -> None:
    assert find("learner", "gail", {"gail": 1, "sail": 2}) == 1


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ImitableError, match=r"^unknown learner 'gial'; did you mean gail or sail"):
        find("learner", "gial", {"gail": 1, "sail": 2})


def test_where_nothing_is_registered_the_other_form_is_named() -> None:
    with pytest.raises(ImitableError, match=r"unknown robot 'arm' \(your own is given as module:object\)"):
        find("robot", "arm", {})


def test_an_object_of_a_module_in_the_working_directory_is_found(write_module: Write) -> None:
    write_module("my_things", "class Shelf:\n    arm = 'here'\n")
    assert find("robot", "my_things:Shelf.arm", {"gail": 1}) == "here"
    assert load_object("robot", "my_things:Shelf").arm == "here"


def test_of_a_class_one_is_made(write_module: Write) -> None:
    write_module("classes", "class Arm:\n    pass\n\nclass Leg:\n    def __init__(self, length):\n        pass\n")
    assert type(find("robot", "classes:Arm", {})).__name__ == "Arm"
    assert find("container", "list", {"list": list}) == []
    with pytest.raises(
        ImitableError, match=r"robot 'classes:Leg' is a class that needs arguments .*'length'.*; name an object made with them"
    ):
        find("robot", "classes:Leg", {})


def test_what_lacks_a_needed_member_is_refused(write_module: Write) -> None:
    write_module("kinds", "NUMBER = 3\n")
    with pytest.raises(ImitableError, match=r"^inverse dynamics 'kinds:NUMBER' is a int, which has no fit and no restored$"):
        find("inverse dynamics", "kinds:NUMBER", {}, needs=("real", "fit", "restored"))


def test_an_object_of_an_installed_module_is_found() -> None:
    assert load_object("robot", "collections.abc:Callable") is Callable


def test_a_name_that_is_registered_comes_before_a_module(write_module: Write) -> None:
    write_module("mine", "THING = 2\n")
    assert find("robot", "mine:THING", {"mine:THING": 1}) == 1


@pytest.mark.parametrize("name", ["my module:ARM", "mine:", ":ARM", "mine:ARM:x", "mine.:ARM", "mine:ARM()", "../mine:ARM", "mine:a-b"])
def test_what_is_not_of_the_form_is_refused(name: str) -> None:
    with pytest.raises(ImitableError, match=r"is not of the form module:object, such as my_robot:ARM"):
        load_object("robot", name)


def test_a_module_that_is_not_there_is_named(working_directory: Path) -> None:
    with pytest.raises(ImitableError, match=r"^robot 'nowhere:ARM': there is no module 'nowhere'; run where it is, or install it$"):
        load_object("robot", "nowhere:ARM")


def test_a_package_that_lacks_the_module_is_named(working_directory: Path) -> None:
    with pytest.raises(ImitableError, match=r"there is no module 'json.nowhere'"):
        load_object("robot", "json.nowhere:ARM")


def test_an_attribute_that_is_not_there_is_named(write_module: Write) -> None:
    write_module("half", "class Shelf:\n    arm = 'here'\n")
    with pytest.raises(ImitableError, match=r"^robot 'half:LEG': half has no 'LEG'$"):
        load_object("robot", "half:LEG")
    with pytest.raises(ImitableError, match=r"^robot 'half:Shelf.leg': Shelf has no 'leg'$"):
        load_object("robot", "half:Shelf.leg")
    with pytest.raises(ImitableError, match=r"^robot 'half:Shelf.arm.x': here has no 'x'$"):
        load_object("robot", "half:Shelf.arm.x")


def test_what_a_users_module_lacks_is_not_taken_for_the_module(write_module: Write) -> None:
    write_module("needy", "import a_library_nobody_has\n")
    with pytest.raises(ModuleNotFoundError, match="a_library_nobody_has"):
        load_object("robot", "needy:ARM")


def test_errors_in_a_users_module_are_shown_as_they_are(write_module: Write) -> None:
    write_module("broken", "1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        load_object("robot", "broken:ARM")


def test_the_working_directory_is_looked_at_once(write_module: Write, working_directory: Path) -> None:
    write_module("one", "THING = 1\n")
    for _ in range(3):
        load_object("robot", "one:THING")
    assert sys.path.count(str(working_directory)) == 1
