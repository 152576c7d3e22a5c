"""What was made before: found by all that decides it, and by nothing else."""

import dataclasses
import errno
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import turntable
from imitable.arrays import Array, Arrays
from imitable.assessment import Assessment, Exploration, assess
from imitable.errors import ImitableError
from imitable.inverse_dynamics import Learned
from imitable.learners import Gail, TwoIwil
from imitable.paper.driving import FAST, SLOW, Driving
from imitable.paper.run import collected
from imitable.paper.tasks import find_task
from imitable.registry import load_object
from imitable.store.cache import Cache, CannotDescribeError, age, default_cache, describe

Write = Callable[[str, str], None]
RECIPE = {"robot": SLOW, "version": 1}


class Counting:
    """Makes a part, and counts how often."""

    def __init__(self, size: int = 10) -> None:
        self.made, self.size = 0, size

    def __call__(self) -> Arrays:
        self.made += 1
        return {"numbers": np.arange(self.size) + self.made, "name": np.array("part")}


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


# Finding and making


def test_the_same_recipe_is_found_again(cache: Cache) -> None:
    make = Counting()
    first, again = (cache("replay", RECIPE, make) for _ in range(2))
    assert make.made == 1
    assert first.keys() == again.keys()
    assert all(np.array_equal(first[name], again[name]) for name in first)


@pytest.mark.parametrize(
    ("part", "recipe"),
    [
        ("replay", {"robot": FAST, "version": 1}),
        ("replay", {"robot": dataclasses.replace(SLOW, horizon=299), "version": 1}),
        ("replay", {"robot": SLOW, "version": 2}),
        ("replay", {"robot": SLOW, "version": 1, "delta_s": 0.1}),
        ("own replays", RECIPE),
    ],
    ids=["another robot", "a field of the robot", "another version", "one more parameter", "another part"],
)
def test_another_recipe_is_made_anew(cache: Cache, part: str, recipe: dict[str, Any]) -> None:
    make = Counting()
    cache("replay", RECIPE, make)
    cache(part, recipe, make)
    assert make.made == 2
    assert len(cache.entries()) == 2


def test_other_libraries_make_anew(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Counting()
    cache("replay", RECIPE, make)
    monkeypatch.setattr("imitable.store.cache.versions", lambda: {"numpy": "99"})
    cache("replay", RECIPE, make)
    assert make.made == 2


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 and then nothing", b"damaged"], ids=["empty", "cut", "foreign"])
def test_a_damaged_entry_is_made_anew(cache: Cache, damage: bytes) -> None:
    make = Counting()
    cache("replay", RECIPE, make)
    cache.entries()[0].path.write_bytes(damage)
    assert cache("replay", RECIPE, make)["numbers"][0] == 2
    assert cache("replay", RECIPE, make)["numbers"][0] == 2, "the damaged entry was not replaced"
    assert make.made == 2


def test_a_place_that_cannot_be_written_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    make = Counting()
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        cache = Cache(folder)
        assert cache("replay", RECIPE, make)["numbers"].shape == (10,)
        assert cache.entries() == []
    assert make.made == 2
    assert (tmp_path / "file").read_text() == "mine"


def test_a_read_only_place_is_no_obstacle_and_its_entries_are_found(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Counting()
    cache("replay", RECIPE, make)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    for owner, function in ((os, "utime"), (Path, "replace"), (Path, "unlink")):
        monkeypatch.setattr(owner, function, refuse)
    cache("replay", RECIPE, make)
    assert make.made == 1
    assert cache("other", RECIPE, make)["numbers"].shape == (10,)
    assert [entry.part for entry in cache.entries()] == ["replay"]


def test_an_error_on_the_way_keeps_nothing(cache: Cache) -> None:
    def fail() -> Arrays:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache("replay", RECIPE, fail)
    assert cache.entries() == []
    assert not list(cache.folder.parent.rglob("*.partial"))


# What is kept


def used(cache: Cache, name: str, *, seconds_ago: float) -> Path:
    """An entry of about 80 kB that was last used so long ago."""
    cache(name, RECIPE, Counting(10_000))
    (entry,) = (entry for entry in cache.entries() if entry.part == name)
    os.utime(entry.path, (time.time() - seconds_ago,) * 2)
    return entry.path


def test_entries_know_their_part_and_size_and_come_least_recently_used_first(cache: Cache) -> None:
    for name, seconds in (("own replays", 50), ("replay", 200), ("demonstrations", 100)):
        used(cache, name, seconds_ago=seconds)
    assert [entry.part for entry in cache.entries()] == ["replay", "demonstrations", "own replays"]
    assert all(80_000 < entry.bytes == entry.path.stat().st_size < 90_000 for entry in cache.entries())


def test_the_least_recently_used_go_beyond_the_cap(cache: Cache) -> None:
    for name, seconds in (("first", 300), ("second", 200), ("third", 100)):
        used(cache, name, seconds_ago=seconds)
    small = dataclasses.replace(cache, max_bytes=250_000)
    small("fourth", RECIPE, Counting(10_000))
    assert [entry.part for entry in cache.entries()] == ["second", "third", "fourth"]
    assert small.evict() == 0
    assert dataclasses.replace(cache, max_bytes=90_000).evict() == 2
    assert [entry.part for entry in cache.entries()] == ["fourth"]


def test_an_entry_that_was_found_counts_as_used(cache: Cache) -> None:
    for name, seconds in (("first", 300), ("second", 200), ("third", 100)):
        used(cache, name, seconds_ago=seconds)
    cache("first", RECIPE, lambda: pytest.fail("made again"))
    dataclasses.replace(cache, max_bytes=170_000).evict()
    assert [entry.part for entry in cache.entries()] == ["third", "first"]


def test_the_newest_entry_stays_however_large_it_is(cache: Cache) -> None:
    used(cache, "old", seconds_ago=100)
    tiny = dataclasses.replace(cache, max_bytes=10)
    make = Counting(10_000)
    tiny("new", RECIPE, make)
    assert [entry.part for entry in cache.entries()] == ["new"]
    tiny("new", RECIPE, make)
    assert make.made == 1


def test_all_entries_can_be_deleted(cache: Cache) -> None:
    for part in ("replay", "own replays"):
        for version in (1, 2):
            cache(part, {"version": version}, Counting())
    assert len(cache.clear()) == 4
    assert cache.entries() == cache.clear() == []


def test_only_entries_are_deleted(cache: Cache) -> None:
    cache("replay", RECIPE, Counting())
    (cache.folder / "notes.txt").write_text("mine")
    cache.clear()
    assert [path.name for path in cache.folder.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(("hours", "text"), [(0.2, "0 h"), (47, "47 h"), (72, "3 d")])
def test_the_age_of_an_entry_is_in_hours_or_days(cache: Cache, hours: float, text: str) -> None:
    used(cache, "replay", seconds_ago=3600 * hours)
    assert age(cache.entries()[0]) == text


def test_the_users_cache_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMITABLE_CACHE", str(tmp_path))
    monkeypatch.delenv("IMITABLE_CACHE_GB", raising=False)
    assert default_cache() == Cache(tmp_path, 20e9)
    monkeypatch.setenv("IMITABLE_CACHE_GB", "0.5")
    assert default_cache().max_bytes == 0.5e9
    monkeypatch.setenv("IMITABLE_CACHE", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_cache().folder == tmp_path / "home" / ".cache" / "imitable"


@pytest.mark.parametrize("given", ["much", "-1", "nan"])
def test_a_cap_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("IMITABLE_CACHE_GB", given)
    with pytest.raises(ImitableError, match=f"IMITABLE_CACHE_GB is '{given}'; it must be a number of gigabytes from 0 on"):
        default_cache()


# Demonstrations and assessments


def test_demonstrations_are_kept_and_found_again(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    task = find_task("driving/fast")
    get = partial(collected, task, cache=cache)
    made = get(seed=0, count=10)
    with monkeypatch.context() as patch:
        patch.setattr("imitable.paper.run.collect", lambda *_, **__: pytest.fail("collected again"))
        again = get(seed=0, count=10)
    assert (again.observations.tobytes(), again.digest, again.sources) == (made.observations.tobytes(), made.digest, made.sources)
    get(seed=1, count=10)
    get(seed=0, count=11)
    get(seed=0, count=10, composition="released")
    assert len(cache.entries()) == 4
    with monkeypatch.context() as patch:
        patch.setattr("imitable.paper.run.COLLECT_VERSION", 99)
        get(seed=0, count=10)
    assert len(cache.entries()) == 5
    assert {entry.part for entry in cache.entries()} == {"demonstrations"}


def everything(assessment: Assessment, *, delta_s: float = 0.001) -> list[bytes]:
    """All parts of an assessment."""
    plain, perturbed = assessment.own_replays(delta_s)
    demonstrations = assessment.demonstrations
    actions = assessment.recovered_actions(np.ones(demonstrations.lengths.sum(), bool))[0]
    windows = (assessment.tracked.demonstration_windows.distances, assessment.tracked.random_windows.distances)
    arrays = (assessment.replay.observations, plain.observations, perturbed.observations, np.array(assessment.noise), actions, *windows)
    return [np.ascontiguousarray(each).tobytes() for each in arrays]


def test_every_part_of_an_assessment_is_kept_and_found_again(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    task = find_task("driving/fast")
    demonstrations = collected(task, seed=0, count=10)
    exploration, model = Exploration(episodes=10, steps=50), Learned(epochs=1)

    def again(given=demonstrations, robot=task.robot, *, seed: int = 0, exploration=exploration, model=model) -> Assessment:
        return assess(given, robot, model=model, exploration=exploration, rng=np.random.default_rng(seed), cache=cache)

    made = again()
    parts = everything(made)
    kept = {"inverse dynamics", "replay", "own replay", "windows", "actions"}
    assert {entry.part for entry in cache.entries()} == kept
    with monkeypatch.context() as patch:
        for function in ("replay", "track", "replay_windows"):
            patch.setattr(f"imitable.assessment.{function}", lambda *_, **__: pytest.fail("assessed again"))
        found = again()
        assert everything(found) == parts
        assert found.diverged == made.diverged
    assert len(cache.entries()) == 6, "an own replay without noise and one with it"
    everything(again(), delta_s=0.002)
    assert len(cache.entries()) == 7, "only the own replay with noise depends on delta_s"
    for number, other in enumerate(
        (
            again(seed=1),
            again(collected(task, seed=0, count=11)),
            again(dataclasses.replace(demonstrations, returns=-demonstrations.returns)),
            again(robot=dataclasses.replace(task.robot, horizon=299)),  # type: ignore[type-var]
            again(exploration=Exploration(episodes=11, steps=50)),
            again(model=dataclasses.replace(model, epochs=2)),
        )
    ):
        everything(other)
        assert len(cache.entries()) == 7 + 6 * (number + 1)
    monkeypatch.setattr("imitable.assessment.ASSESS_VERSION", 99)
    everything(again())
    assert len(cache.entries()) == 7 + 6 * 7


def test_where_demonstrations_came_from_does_not_matter(cache: Cache) -> None:
    given = turntable.mixed()
    for sources in (given.sources, None, ["mine"] * len(given)):
        assessment = assess(given.with_sources(sources), turntable.CLOCKWISE, model=turntable.ExactModel(), cache=cache)
        _ = assessment.replay
    assert sorted(entry.part for entry in cache.entries()) == ["inverse dynamics", "replay"]


# A user's own robot

OWN_ROBOT = """
from dataclasses import dataclass
from own_base import Base

@dataclass(frozen=True)
class Mine(Base):
    slope: float = 0.0
"""


def test_a_users_robot_is_kept_until_its_source_or_that_of_its_base_is_edited(
    cache: Cache, write_module: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def entries(*, robot: str = "", base: str = "", **fields: float) -> int:
        """How many there are after another process, with these edits, has assessed."""
        write_module("own_base", f"import turntable\n\nclass Base(turntable.Turntable):\n    pass\n{base}")
        write_module("own_robot", OWN_ROBOT + robot)
        for name in ("own_base", "own_robot"):
            sys.modules.pop(name, None)
        mine = load_object("robot", "own_robot:Mine")(-2.0, 0.0, **fields)
        _ = assess(turntable.mixed(), mine, model=turntable.ExactModel(), cache=cache).replay
        return len(cache.entries())

    assert entries() == 2
    assert entries() == 2
    assert entries(slope=1.0) == 4
    assert entries(robot="# edited\n") == 6
    assert entries(base="# edited\n") == 8


@dataclasses.dataclass(frozen=True)
class Plain:
    """A dataclass of a user."""

    speed: float


@dataclasses.dataclass(frozen=True)
class OwnCar(Driving):
    """A user's variant of a body of the package."""


class Opaque:
    """Forwards to a turntable and says nothing of itself."""

    def __init__(self, inner: turntable.Turntable) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        if name == "cache_key":
            raise AttributeError(name)
        return getattr(self.inner, name)


class Speaking(Opaque):
    def cache_key(self) -> object:
        return {"inner": self.inner}

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def test_a_robot_that_cannot_be_described_is_not_kept_and_a_warning_says_why(cache: Cache) -> None:
    robot = Opaque(turntable.CLOCKWISE)
    assessment = assess(turntable.mixed(), robot, model=turntable.ExactModel(), cache=cache)
    message = (
        r"the (replay|inverse dynamics) of this robot is not kept for the next time: a Opaque does not say what its behavior depends on"
    )
    with pytest.warns(UserWarning, match=f"{message}; make it a frozen dataclass, or give it a method cache_key"):
        replayed = assessment.replay
    assert cache.entries() == []
    assert np.array_equal(replayed.observations, turntable.assessed(turntable.mixed()).replay.observations)


def test_a_robot_that_says_its_key_is_kept(cache: Cache) -> None:
    for robot in (Speaking(turntable.CLOCKWISE), Speaking(turntable.CLOCKWISE), Speaking(turntable.COUNTER_CLOCKWISE)):
        _ = assess(turntable.mixed(), robot, model=turntable.ExactModel(), cache=cache).replay
    assert len(cache.entries()) == 4


# Descriptions


def outer(threshold: float) -> Callable[[Array], Array]:
    def inner(values: Array) -> Array:
        return values > threshold

    return inner


def plain_inner() -> Callable[[], int]:
    def inner() -> int:
        return 1

    return inner


@pytest.mark.parametrize(
    ("value", "description"),
    [
        (None, None),
        (3, 3),
        ("name", "name"),
        (True, True),
        (0.1, 0.1),
        (np.inf, "inf"),
        (np.nan, "nan"),
        (np.float64(0.5), 0.5),
        (np.array([1.0, 2.0]), [1.0, 2.0]),
        ((1, [2, (3,)]), [1, [2, [3]]]),
        ({"a": {1: 2.0}}, {"a": {"1": 2.0}}),
    ],
    ids=repr,
)
def test_plain_values_describe_themselves(value: Any, description: Any) -> None:
    assert describe(value) == description
    json.dumps(describe(value))


def test_a_dataclass_of_the_package_is_its_class_version_and_fields() -> None:
    found = describe(SLOW)
    assert found["kind"] == "imitable.paper.driving.Driving"
    assert found["version"] == Driving.version
    assert (found["speed"], found["horizon"], found["action_low"]) == (3.0, 300, [-1.0])
    assert "source" not in found, "an edit of a comment would throw all away"


def test_a_field_added_later_is_left_out_where_it_has_its_default() -> None:
    assert "averaged_rounds" not in describe(Gail()), "descriptions of runs stored before still hold"
    assert describe(Gail(averaged_rounds=20)) == describe(Gail()) | {"averaged_rounds": 20}
    assert describe(TwoIwil(gail=Gail(averaged_rounds=20))) != describe(TwoIwil())


def test_a_users_class_is_known_by_its_source_too() -> None:
    assert len(describe(Plain(1.0))["source"]) == 64
    assert describe(Plain(1.0)) != describe(Plain(2.0))
    assert describe(turntable.CLOCKWISE)["source"] != describe(Plain(1.0))["source"]


def test_generators_and_large_arrays_are_told_apart() -> None:
    one, again, other = (np.random.default_rng(seed) for seed in (0, 0, 1))
    assert describe(one) == describe(again) != describe(other)
    again.random()
    assert describe(one) != describe(again)
    large = np.arange(5000.0)
    assert describe(large) == describe(large.copy()) != describe(large[::-1])
    assert len(json.dumps(describe(large))) < 100


def test_demonstrations_are_their_digest() -> None:
    given = turntable.mixed()
    assert describe(given) == given.digest == describe(given.with_sources(None))


def test_functions_of_a_module_are_their_name_and_source() -> None:
    assert describe(turntable.turn_to_goal)["kind"] == "turntable.turn_to_goal"
    assert describe(turntable.turn_to_goal) != describe(turntable.wander)
    assert describe(find_task("driving/slow").demonstrators.optimal) == {"kind": "imitable.paper.driving.drive"}
    assert describe(turntable.Turntable)["kind"] == "turntable.Turntable"


@pytest.mark.parametrize(
    "value",
    [outer(0.5), plain_inner(), lambda: 1, partial(outer, 0.5), Opaque(turntable.CLOCKWISE), object(), {1, 2}, b"bytes"],
    ids=["closure", "function in a function", "lambda", "partial", "opaque robot", "object", "set", "bytes"],
)
def test_what_may_hide_something_is_refused(value: Any) -> None:
    with pytest.raises(CannotDescribeError):
        describe({"deep": [value]})


def test_functions_of_a_program_without_a_file_are_refused() -> None:
    space: dict[str, Any] = {"__name__": "nowhere"}
    exec("class Robot:\n    pass\n", space)
    with pytest.raises(CannotDescribeError, match=r"the source of Robot cannot be read .*; put it into a module"):
        describe(space["Robot"]())


def test_a_class_inside_a_function_is_refused() -> None:
    @dataclasses.dataclass(frozen=True)
    class Mine(Driving):
        pass

    with pytest.raises(CannotDescribeError, match=r"<locals>\.Mine may depend on variables around it; put it into a module"):
        describe(Mine(speed=1.0))


def test_a_users_class_is_known_by_the_version_of_a_base_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    before = describe(OwnCar(speed=1.0))
    assert before["bases"] == [{"kind": "imitable.paper.driving.Driving", "version": Driving.version}]
    monkeypatch.setattr(Driving, "version", 99)
    assert describe(OwnCar(speed=1.0)) != before


# Arrays and files


def test_large_arrays_differ_by_shape_and_type_too() -> None:
    zeros = np.zeros((2, 1000))
    described = [describe(each) for each in (zeros, zeros.T, zeros.ravel(), zeros.astype(np.int64), np.zeros((2, 1001)))]
    assert len(set(described)) == 5
    assert describe(zeros.copy()) == described[0]


@dataclasses.dataclass(frozen=True)
class Modelled:
    """Stands for a robot that reads a file."""

    model: str | Path
    horizon: int = 3


@pytest.mark.parametrize("kind", [str, Path])
def test_a_field_that_names_a_file_stands_for_what_is_in_it(tmp_path: Path, kind: type) -> None:
    path = tmp_path / "arm.xml"
    robot = Modelled(kind(path))
    absent = describe(robot)
    path.write_text("<mujoco/>")
    first = describe(robot)
    assert first != absent
    path.write_text("<mujoco model='another'/>")
    assert describe(robot) not in (absent, first)
    path.write_text("<mujoco/>")
    assert describe(robot) == first
    assert describe(Modelled("x" * 10_000 + ".xml")) != first
