"""How demonstrators are trained, interrupted and kept."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import turntable
from imitable.arrays import Array
from imitable.errors import ImitableError
from imitable.networks import Policy
from imitable.paper.expert_training import ExpertTraining, train_and_save
from imitable.simulators import Simulator
from imitable.trpo import TrainingState, Trpo, train

TINY = Trpo(batch_size=100, hidden_sizes=(4,), value_minibatches=2)


def test_a_trained_expert_is_saved_with_its_record(tmp_path: Path) -> None:
    heard: list[float] = []
    training = ExpertTraining(rounds=3, trpo=replace(TINY, batch_size=200), evaluation_episodes=20)
    record = train_and_save(turntable.CLOCKWISE, training, name="expert", folder=tmp_path, seeds=[0, 1], progress=heard.append)
    assert json.loads((tmp_path / "expert.json").read_text()) == record
    policy = Policy.load(tmp_path / "expert.safetensors")
    assert policy(np.zeros((2, 4))).shape == (2, 1)
    assert record["steps"] == 600
    assert record["mean_return"] == max(record["returns_by_seed"].values()) == record["returns_by_seed"][str(record["seed"])]
    assert record["returns_by_seed"].keys() == {"0", "1"}
    assert heard == sorted(heard)
    assert heard[-1] == 1.0
    assert {file.name for file in tmp_path.iterdir()} == {"expert.json", "expert.safetensors"}, "snapshots are left"


class PowerCutError(Exception):
    pass


EASIER = ((replace(turntable.CLOCKWISE, timestep=0.1), 2), (turntable.COUNTER_CLOCKWISE, 1))


@pytest.mark.parametrize("n_envs", [0, 10])
@pytest.mark.parametrize("curriculum", [(), EASIER], ids=["at once", "by a curriculum"])
def test_an_interrupted_training_goes_on_where_it_was(tmp_path: Path, curriculum: tuple, n_envs: int) -> None:
    rounds = 7 - sum(rounds for _, rounds in curriculum)
    training = ExpertTraining(rounds=rounds, curriculum=curriculum, trpo=replace(TINY, n_envs=n_envs), evaluation_episodes=5)
    assert training.total_rounds == 7
    trained = partial(train_and_save, turntable.CLOCKWISE, name="expert", seeds=[0, 1])
    whole = trained(training, folder=tmp_path / "whole")

    def fail_at(limit: float) -> Callable[[float], None]:
        def progress(fraction: float) -> None:
            if fraction > limit:
                raise PowerCutError

        return progress

    for limit in (0.2, 0.4, 0.7):
        with pytest.raises(PowerCutError):
            trained(training, folder=tmp_path / "cut", progress=fail_at(limit))
    with pytest.raises(ImitableError, match="other settings; delete it"):
        trained(replace(training, rounds=8), folder=tmp_path / "cut")
    assert trained(training, folder=tmp_path / "cut") == whole
    files = [tmp_path / name / "expert.safetensors" for name in ("whole", "cut")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert len(whole["curve"]) == 7


def test_damaged_notes_are_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "expert-0.npz").write_bytes(b"PK and nothing")
    with pytest.raises(ImitableError, match=r"expert-0\.npz is damaged .*; delete it to train anew"):
        train_and_save(turntable.CLOCKWISE, ExpertTraining(rounds=1, trpo=TINY), name="expert", folder=tmp_path, seeds=[0])


def listening(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Simulator, TrainingState]]:
    """What training yields from here on, with the simulator it trained on."""
    heard: list[tuple[Simulator, TrainingState]] = []

    def listen(simulator: Simulator, **options: Any) -> Iterator[TrainingState]:
        for state in train(simulator, **options):
            heard.append((simulator, state))
            yield state

    monkeypatch.setattr("imitable.paper.expert_training.train", listen)
    return heard


def test_the_simulators_of_the_curriculum_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard = listening(monkeypatch)
    prepared, alone, elsewhere = (
        train_and_save(
            simulator,
            ExpertTraining(rounds=1, curriculum=curriculum, trpo=TINY, evaluation_episodes=5),
            name="expert",
            folder=tmp_path / name,
            seeds=[0],
        )
        for name, simulator, curriculum in (
            ("prepared", turntable.CLOCKWISE, ((turntable.COUNTER_CLOCKWISE, 2),)),
            ("alone", turntable.CLOCKWISE, ((turntable.CLOCKWISE, 2),)),
            ("elsewhere", turntable.COUNTER_CLOCKWISE, ((turntable.COUNTER_CLOCKWISE, 2),)),
        )
    )
    assert [simulator for simulator, _ in heard[:5]] == [turntable.COUNTER_CLOCKWISE] * 3 + [turntable.CLOCKWISE] * 2
    assert prepared["steps"] == alone["steps"] == 300
    assert len({record["mean_return"] for record in (prepared, alone, elsewhere)}) == 3, "all three were trained alike"


def test_agents_that_go_on_stay_with_their_simulator(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    heard = listening(monkeypatch)
    training = ExpertTraining(
        rounds=2, curriculum=((turntable.COUNTER_CLOCKWISE, 2),), trpo=replace(TINY, n_envs=10), evaluation_episodes=5
    )
    train_and_save(turntable.CLOCKWISE, training, name="expert", folder=tmp_path, seeds=[0])
    assert [simulator for simulator, _ in heard] == [turntable.COUNTER_CLOCKWISE] * 3 + [turntable.CLOCKWISE] * 3
    begun = [state.agent.rollout_state for _, state in heard]
    assert all(each is not None for each in begun)
    moved = [bool(each.states[:, 0].any()) for each in begun if each is not None]
    assert moved == [False, True, True] * 2, "on a new simulator all begin at its own starts, at angle 0"


@dataclass(frozen=True)
class Weary(turntable.Turntable):
    """A turntable that pays for its actions."""

    def reward(self, states: Array, actions: Array, next_states: Array) -> Array:
        return super().reward(states, actions, next_states) - 0.5 * np.square(actions).sum(axis=1)


def test_training_pays_for_actions() -> None:
    robot = turntable.CLOCKWISE
    states, actions = robot.initial_states(3, np.random.default_rng(0)), np.full((3, 1), -1.5)
    step = states, actions, robot.step(states, actions)
    plain, costly = (ExpertTraining(rounds=1, reward_scale=scale, control_cost=cost) for scale, cost in ((1.0, 0.0), (0.1, 2.0)))
    difference = 0.1 * plain.reward(robot)(*step) - costly.reward(robot)(*step)
    assert difference == pytest.approx(np.full(3, 2.0 * 2.25)), "the cost of training counts actions as drawn"
    weary = Weary(robot.slowest, robot.fastest)
    assert plain.reward(weary)(*step) == pytest.approx(plain.reward(robot)(*step) - 0.5), "the robot's own counts them as carried out"
