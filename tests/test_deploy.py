"""The loop on a fake arm: it carries the object, and whatever fails ends in a stop with a reason."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployment import expert
from imitable import ImitableError, cli
from imitable.deploy.drivers import FakeDriver, Faults
from imitable.deploy.franky import FrankyDriver, is_loopback
from imitable.deploy.loop import Outcome, Skill, deploy
from imitable.paper.panda import THREE_JOINTS, Panda
from imitable.paper.panda_arm import FR3, clearance, tcp
from imitable.paper.panda_deploy import START, WORKSPACE, carrying, envelope

SKILL = carrying(THREE_JOINTS)
BRIEF = carrying(Panda(dof=3, horizon=60))
OFFSET = np.array([0.1, -0.1, 0.1, -0.1, 0.05, 0.1, 0.1])  # rad, from the start to where the arm stands at first


def run(
    faults: Faults | None = None, *, act: Any = expert, skill: Skill = SKILL, **settings: Any
) -> tuple[Outcome, FakeDriver, list[dict[str, Any]]]:
    """An episode on a fake Panda, with the drive to the start."""
    driver, ticks = FakeDriver(SKILL.start + OFFSET, faults or Faults()), []
    settings = {"execute": True, "approach": envelope(THREE_JOINTS, anywhere=True), **settings}
    return deploy(driver, act, skill, envelope(THREE_JOINTS), clock=driver, record=ticks.append, **settings), driver, ticks


def test_the_object_is_carried_past_the_obstacle() -> None:
    outcome, driver, ticks = run()
    assert outcome.success
    assert outcome.reason == driver.stopped == "done"
    places, episode = tcp(np.array(driver.visited)), [tick for tick in ticks if tick.get("phase") == "episode"]
    assert clearance(np.array(driver.visited)).min() > 0.02
    assert np.linalg.norm(np.diff(places, axis=0), axis=1).max() < 0.1001e-3, "0.1 m/s, each millisecond"
    assert places[-1, 2] <= 0.061
    assert np.abs([tick["tcp"][1] for tick in episode[40:]]).max() < 1e-3, "it stays in its plane"
    assert len(episode) == outcome.steps + 1
    assert ticks[-1] == {"success": True, "reason": "done"}
    assert set(episode[0]) >= {"robot_time", "wall_time", "mode", "joints", "velocities", "wanted", "passed", "changed by", "clearance"}
    json.dumps(ticks, allow_nan=False)


@pytest.mark.parametrize(
    ("faults", "reason", "within"),
    [
        (Faults(stale=3.0), "the state is stale: the robot's clock has stood at 3.00", 0.3),
        (Faults(dropped=3.0), "the arm does not follow: joint", 1.5),
        (Faults(nan=3.0), "the state is not finite", 0.1),
        (Faults(reflex=3.0), "the robot's mode is reflex", 0.1),
        (Faults(disconnected=3.0), "the connection is lost", 0.1),
        (Faults(drift=3.0), "the arm does not follow: joint 1 moved", 0.5),
    ],
    ids=lambda value: "",
)
def test_whatever_fails_ends_in_a_stop_with_a_reason(faults: Faults, reason: str, within: float) -> None:
    outcome, driver, ticks = run(faults)
    assert not outcome.success
    assert reason in outcome.reason
    assert driver.stopped == outcome.reason
    assert 3.0 <= driver.time <= 3.0 + within
    assert ticks[-1] == {"success": False, "reason": outcome.reason}
    driver.sleep(1.0)
    before = driver.joints.copy()
    driver.sleep(1.0)
    if faults.drift is None:
        assert np.abs(driver.joints - before).max() < 1e-6, "it rests"
    places = tcp(np.array(driver.visited))[2500:]
    assert (places >= WORKSPACE[0]).all()
    assert (places <= WORKSPACE[1]).all()


@pytest.mark.parametrize("faults", [Faults(noise=2e-4), Faults(latency=0.05, drop_rate=0.2)])
def test_what_the_margins_are_for_is_borne(faults: Faults) -> None:
    outcome, driver, _ = run(faults)
    assert outcome.success, outcome.reason
    assert clearance(np.array(driver.visited)).min() > 0.02


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (lambda seen: np.full((len(seen), 2), np.nan), "the policy's action is not finite: [nan, nan]"),
        (lambda seen: np.tile([0.0, -1.0], (len(seen), 1)), "the guard has held the arm for 1 s: clearance"),  # straight onto the obstacle
        (lambda seen: np.tile([0.0, 1.0], (len(seen), 1)), "the guard has held the arm for 1 s: workspace"),
        (lambda seen: np.zeros((len(seen), 2)), "out of time after 60 steps"),
    ],
    ids=["NaN", "obstacle", "ceiling", "idle"],
)
def test_policies_that_do_not_get_anywhere_are_stopped(act: Callable[[np.ndarray], np.ndarray], reason: str) -> None:
    outcome, driver, _ = run(act=act, skill=BRIEF if "time" in reason else SKILL)
    assert reason in outcome.reason
    assert clearance(np.array(driver.visited)).min() > 0.02
    assert tcp(np.array(driver.visited[1500:]))[:, 2].max() < WORKSPACE[1][2]


def test_a_policy_that_raises_stops_the_arm_first() -> None:
    def act(seen: np.ndarray) -> np.ndarray:
        raise ZeroDivisionError("in the policy")

    driver = FakeDriver(SKILL.start)
    with pytest.raises(ZeroDivisionError):
        deploy(driver, act, SKILL, envelope(THREE_JOINTS), execute=True, clock=driver)
    assert driver.stopped == "ZeroDivisionError: in the policy"


def test_an_interruption_stops_the_arm() -> None:
    def act(seen: np.ndarray) -> np.ndarray:
        raise KeyboardInterrupt

    driver = FakeDriver(SKILL.start)
    outcome = deploy(driver, act, SKILL, envelope(THREE_JOINTS), execute=True, clock=driver)
    assert (outcome.success, outcome.reason, driver.stopped) == (False, "interrupted", "interrupted")


def test_a_dry_run_sends_nothing() -> None:
    outcome, driver, ticks = run(execute=False, skill=BRIEF)
    assert outcome.reason == "dry run of 60 steps, 0.100 rad from the start"
    assert (np.array(driver.visited) == driver.visited[0]).all()
    assert driver.stopped is None
    assert sum(tick.get("phase") == "episode" for tick in ticks) == 61, "all is computed and logged all the same"
    assert any(any(tick["passed"]) for tick in ticks if "passed" in tick)


def test_without_an_approach_the_arm_must_be_at_the_start() -> None:
    outcome, driver, _ = run(approach=None)
    assert outcome.reason == "a joint is 0.100 rad from the start, more than 0.05; move the arm there first"
    assert (np.array(driver.visited) == driver.visited[0]).all()


def test_ticks_are_paced_by_the_robots_clock() -> None:
    class Slow(FakeDriver):
        """A robot whose clock runs at 0.7 of the wall's."""

        def now(self) -> float:
            return self.time / 0.7

        def sleep(self, seconds: float) -> None:
            super().sleep(0.7 * seconds)

    driver, ticks = Slow(SKILL.start), []
    assert deploy(driver, expert, SKILL, envelope(THREE_JOINTS), execute=True, clock=driver, record=ticks.append).success
    times = np.array([tick["robot_time"] for tick in ticks if "robot_time" in tick])
    assert np.diff(times) == pytest.approx(0.05, abs=0.003)


def test_a_policy_that_is_late_at_times_is_borne() -> None:
    driver, calls = FakeDriver(SKILL.start), 0

    def act(seen: np.ndarray) -> np.ndarray:
        nonlocal calls
        calls += 1
        if calls % 10 == 0:
            driver.sleep(0.4)  # the last command expires
        return expert(seen)

    outcome = deploy(driver, act, SKILL, envelope(THREE_JOINTS), execute=True, clock=driver)
    assert outcome.success, outcome.reason
    assert clearance(np.array(driver.visited)).min() > 0.02


def test_a_simulator_may_pause() -> None:
    class Pausing(FakeDriver):
        """A simulator that does not get the processor for half a second every other second."""

        waited = 0.0

        def now(self) -> float:
            return self.time + self.waited

        def sleep(self, seconds: float) -> None:
            if self.time % 2 > 1.9 and self.waited % 1 < 0.5:
                self.waited += seconds
            else:
                self.waited = float(np.ceil(self.waited))
                super().sleep(seconds)

    for patience, reason in ((None, "the state is stale"), (1.0, "done")):
        driver = Pausing(SKILL.start)
        outcome = deploy(driver, expert, SKILL, envelope(THREE_JOINTS), execute=True, clock=driver, stale_after=patience)
        assert reason in outcome.reason


def test_a_clock_that_goes_back_stops_the_arm() -> None:
    class Jumping(FakeDriver):
        def read(self):
            reading = super().read()
            return type(reading)(reading.robot_time - (1.0 if self.time > 1.0 else 0.0), reading.joints, reading.velocities, reading.mode)

    driver = Jumping(SKILL.start)
    outcome = deploy(driver, expert, SKILL, envelope(THREE_JOINTS), execute=True, clock=driver)
    assert "the robot's clock went back" in outcome.reason


@pytest.mark.parametrize(("dof", "arm"), [(3, "fr3"), (7, "fer"), (7, "fr3")])
def test_actions_move_the_tool_as_they_say(dof: Any, arm: Any) -> None:
    skill = carrying(Panda(dof=dof, arm=arm))
    assert tcp(skill.start[None])[0] == pytest.approx(START, abs=1e-9)
    direction = np.array([0.6, 0.0, 0.8] if dof == 3 else [0.6, 0.64, 0.48])
    velocities = skill.joint_velocities(skill.start[None], direction[None, [0, 2] if dof == 3 else [0, 1, 2]])
    moved = (tcp(skill.start[None] + 1e-4 * velocities) - tcp(skill.start[None] - 1e-4 * velocities)) / 2e-4
    assert moved[0] == pytest.approx(0.1 * direction, abs=2e-3)
    if dof == 3:
        assert velocities[0, [0, 2, 4, 6]] == pytest.approx(0, abs=1e-12), "only joints 2, 4 and 6 move"


# The command

EXPERT = "from deployment import expert\ndef nothing(observations):\n    return 0 * observations[:, :2]\n"


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["imitable", "deploy", *map(str, arguments)])
    try:
        cli.main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def test_the_command_runs_on_a_fake_arm(working_directory: Path, write_module, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    write_module("mine", EXPERT)
    assert call(monkeypatch, "mine:expert") == 0
    assert "dry run of 150 steps, 0.000 rad from the start; nothing was sent to the arm" in capsys.readouterr().out
    assert call(monkeypatch, "mine:expert", "--execute") == 2
    assert "deploy.jsonl is there already" in capsys.readouterr().err
    assert call(monkeypatch, "mine:expert", "--execute", "--overwrite", "--arm", "fer") == 0
    assert "deploy.jsonl: done after 9" in capsys.readouterr().out
    lines = [json.loads(line) for line in (working_directory / "deploy.jsonl").read_text().splitlines()]
    assert lines[0]["policy"] == "mine:expert"
    assert lines[-1] == {"success": True, "reason": "done"}
    assert call(monkeypatch, "mine:nothing", "--execute", "--overwrite") == 2
    assert "stopped after 150 steps: out of time after 150 steps; deploy.jsonl has every tick" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--driver", "franky", "--address", "192.168.0.2"], "192.168.0.2 is not this machine; a robot is reached with --hardware only"),
        (["--driver", "franky", "--address", "192.168.0.2", "--execute"], "with --hardware only"),
        (["--driver", "franky", "--address", "192.168.0.2", "--hardware", "--execute"], "--i-am-at-the-estop"),
        (["--hardware"], "--hardware needs --driver franky"),
        (["--rate", "1000"], "rate is 1000; give 5 to 100"),
        (["--dof", "7"], "'mine:expert' gives (2, 2) for 2 observations; the robot needs (2, 3)"),
    ],
    ids=lambda value: "",
)
def test_what_is_not_safe_is_refused(options: list[str], error: str, working_directory: Path, write_module, monkeypatch, capsys) -> None:
    write_module("mine", EXPERT)
    assert call(monkeypatch, "mine:expert", *options) == 2
    assert error in capsys.readouterr().err
    assert not (working_directory / "deploy.jsonl").exists()


@pytest.mark.parametrize(
    ("address", "own"),
    [("127.0.0.1", True), ("127.3.2.1", True), ("localhost", True), ("::1", True), ("10.0.0.1", False), ("robot", False)],
)
def test_this_machine_is_known(address: str, own: bool) -> None:
    assert is_loopback(address) is own
    if not own:
        with pytest.raises(ImitableError, match="not this machine"):
            FrankyDriver(address, FR3.velocity, FR3.acceleration, FR3.jerk)
