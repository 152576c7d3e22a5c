"""Who demonstrates, and the mixtures they give."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import turntable
from imitable.errors import ImitableError
from imitable.evaluation import evaluate
from imitable.experiment import gather
from imitable.experts import Schooling, collect, drive, train_and_keep
from imitable.networks import Policy
from imitable.reinforcement import Student, Trpo, demonstrate, train
from imitable.simulators import Simulator, driving
from imitable.tasks import PUPILS, TASKS


@pytest.mark.parametrize(("simulator", "expected"), [(driving.SLOW, 37.9), (driving.FAST, 77.7)])
def test_the_hand_made_driver_always_arrives(simulator: driving.Driving, expected: float) -> None:
    rng = np.random.default_rng(0)
    made = demonstrate(simulator, lambda seen: drive(seen, rng), count=2000, rng=np.random.default_rng(1)).trajectories
    ends = simulator.restore(made.states[made.starts + made.lengths])
    assert driving.touches(ends[:, :2], ends[:, driving.HEADING], *driving.GOAL).all()
    assert np.array_equal(made.returns, 100.0 - made.lengths), "a step cost more than one: the obstacle was touched"
    assert made.returns.mean() == pytest.approx(expected, abs=4)


@pytest.mark.parametrize("name", TASKS)
def test_the_cast_of_every_task_plays_its_part(name: str) -> None:
    cast, rng = TASKS[name].cast, np.random.default_rng(0)
    episodes = 300 if cast.target.horizon < 500 else 6
    optimal, suboptimal = (
        evaluate(lambda seen, actor=actor: actor(seen, rng), cast.target, episodes=episodes, rng=np.random.default_rng(1)).returns
        for actor in (cast.optimal, cast.suboptimal)
    )
    other = evaluate(lambda seen: cast.other(seen, rng), cast.demonstrator, episodes=episodes, rng=np.random.default_rng(1)).returns
    margin = 4 * np.hypot(optimal.std(), suboptimal.std()) / np.sqrt(episodes)
    assert optimal.mean() > suboptimal.mean() + margin
    # Doing nothing earns -127, less than 0, 0, and 1000.
    at_least = {"reacher": -98.0, "driving": 30.0, "swimmer": 150.0, "ant": 2000.0}[name.split("/")[0]]
    assert optimal.mean() > at_least
    assert other.mean() > at_least


def test_a_hundred_reacher_episodes_measure_a_policy_well() -> None:
    cast, rng = TASKS["reacher/clockwise"].cast, np.random.default_rng(0)
    batches = [
        evaluate(lambda seen: cast.optimal(seen, rng), cast.target, episodes=100, rng=np.random.default_rng(seed)).returns
        for seed in range(20)
    ]
    assert np.mean([returns.std() for returns in batches]) / 10 > 4, "as if goals were drawn one by one"
    assert np.std([returns.mean() for returns in batches]) < 1


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if task.target.horizon > 500 else []) for name, task in TASKS.items()]
)
def test_a_thousand_demonstrations_come_in_the_papers_shares_in_time(name: str) -> None:
    task = TASKS[name]
    began = time.process_time()
    demos = collect(task.cast, rng=np.random.default_rng(0))
    body = name.split("/")[0]
    assert time.process_time() - began < {"swimmer": 200, "ant": 900}.get(body, 20)  # of one core
    shares = {"reacher": (50, 900, 50), "driving": (300, 600, 100)}.get(body, (10, 495, 495))
    assert tuple(int(demos.from_source(source).sum()) for source in ("optimal", "suboptimal", "other-dynamics")) == shares
    assert demos.width == len(task.target.observed)
    assert len(set((demos.sources or ())[:20])) > 1, "the mixture is not shuffled"


def test_the_released_composition_swaps_the_last_two_shares() -> None:
    demos = collect(TASKS["driving/slow"].cast, count=50, composition="released", rng=np.random.default_rng(0))
    assert [int(demos.from_source(source).sum()) for source in ("optimal", "suboptimal", "other-dynamics")] == [15, 5, 30]


def test_an_unknown_composition_is_refused() -> None:
    with pytest.raises(ImitableError, match="unknown composition 'mine'; choose paper or released"):
        collect(turntable.task().cast, count=5, composition="mine", rng=np.random.default_rng(0))  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [1, 2, 7])
def test_small_sets_can_be_collected(count: int) -> None:
    assert len(collect(turntable.task().cast, count=count, rng=np.random.default_rng(0))) == count


def test_collecting_says_how_many_simulations_broke_down() -> None:
    turn, rest = (lambda seen, _, action=action: np.full((len(seen), 1), action) for action in (-1.0, 0.0))
    cast = replace(turntable.task().cast, target=turntable.BRITTLE, optimal=turn, suboptimal=rest)
    with pytest.warns(UserWarning, match="6 of 6 optimal demonstrations are cut short where the simulation broke down"):
        collect(cast, count=20, rng=np.random.default_rng(0))


def test_collecting_tells_how_much_is_done() -> None:
    heard: list[float] = []
    collect(turntable.task().cast, count=20, rng=np.random.default_rng(0), watch=heard.append)
    assert len(heard) == 150, "three kinds of 50 steps"
    assert heard == sorted(heard)
    assert 0 < heard[0] < 0.01
    assert heard[-1] == pytest.approx(1.0)


def test_the_same_seed_collects_the_same_bytes() -> None:
    one, again, other = (gather(turntable.task(), seed=seed, count=20) for seed in (3, 3, 4))
    assert one.states.tobytes() == again.states.tobytes()
    assert one.sources == again.sources
    assert not np.array_equal(one.states, other.states)


def test_returns_are_those_of_the_agent_that_demonstrates() -> None:
    demos = gather(turntable.task(), seed=0, count=20)
    for index in range(20):
        states = turntable.CLOCKWISE.restore(demos.trajectory(index))
        assert demos.returns[index] == pytest.approx(turntable.CLOCKWISE.reward(states[:-1], states[1:]).sum())


TINY = Trpo(batch=100, hidden=(4,), value_minibatches=2)


def test_a_schooled_expert_is_kept_with_its_record(tmp_path: Path) -> None:
    shares: list[float] = []
    schooling = Schooling(rounds=3, trpo=replace(TINY, batch=200), episodes=20)
    record = train_and_keep(turntable.CLOCKWISE, schooling, name="pupil", folder=tmp_path, seeds=[0, 1], watch=shares.append)
    assert json.loads((tmp_path / "pupil.json").read_text()) == record
    policy = Policy.load(tmp_path / "pupil.safetensors")
    assert policy(np.zeros((2, 4))).shape == (2, 1)
    assert record["steps"] == 600
    assert record["seed"] in (0, 1)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert {file.name for file in tmp_path.iterdir()} == {"pupil.json", "pupil.safetensors"}, "notes are left"


class PowerCutError(Exception):
    pass


EASIER = ((replace(turntable.CLOCKWISE, action_cost=0.1), 2), (turntable.COUNTER_CLOCKWISE, 1))


@pytest.mark.parametrize("agents", [0, 10])
@pytest.mark.parametrize("before", [(), EASIER], ids=["at once", "by easier ones"])
def test_an_interrupted_training_goes_on_where_it_was(tmp_path: Path, before: tuple, agents: int) -> None:
    trpo = replace(TINY, agents=agents)
    schooling = Schooling(rounds=7 - sum(rounds for _, rounds in before), before=before, trpo=trpo, episodes=5)
    lesson = partial(train_and_keep, turntable.CLOCKWISE, name="pupil", seeds=[0, 1])
    whole = lesson(schooling, folder=tmp_path / "whole")

    def fail_at(limit: float):
        def watch(share: float) -> None:
            if share > limit:
                raise PowerCutError

        return watch

    for limit in (0.2, 0.4, 0.7):
        with pytest.raises(PowerCutError):
            lesson(schooling, folder=tmp_path / "cut", watch=fail_at(limit))
    with pytest.raises(ImitableError, match="other settings; delete it"):
        lesson(replace(schooling, rounds=8), folder=tmp_path / "cut")
    assert lesson(schooling, folder=tmp_path / "cut") == whole
    files = [tmp_path / name / "pupil.safetensors" for name in ("whole", "cut")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert len(whole["curve"]) == 7


def test_easier_simulators_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained: list[Simulator] = []

    def listen(simulator: Simulator, **rest: Any) -> Iterator[Student]:
        trained.append(simulator)
        return train(simulator, **rest)

    monkeypatch.setattr("imitable.experts.train", listen)
    prepared, alone, elsewhere = (
        train_and_keep(
            simulator, Schooling(rounds=1, before=before, trpo=TINY, episodes=5), name="pupil", folder=tmp_path / name, seeds=[0]
        )
        for name, simulator, before in (
            ("prepared", turntable.CLOCKWISE, ((turntable.COUNTER_CLOCKWISE, 2),)),
            ("alone", turntable.CLOCKWISE, ((turntable.CLOCKWISE, 2),)),
            ("elsewhere", turntable.COUNTER_CLOCKWISE, ((turntable.COUNTER_CLOCKWISE, 2),)),
        )
    )
    assert trained[:2] == [turntable.COUNTER_CLOCKWISE, turntable.CLOCKWISE]
    assert prepared["steps"] == alone["steps"] == 300
    assert len({record["mean_return"] for record in (prepared, alone, elsewhere)}) == 3, "all three were trained alike"


def test_agents_under_way_stay_with_their_body(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    begun: list[tuple[Simulator, np.ndarray]] = []

    def listen(simulator: Simulator, **rest: Any) -> Iterator[Student]:
        for student in train(simulator, **rest):
            assert student.agent.crew is not None
            begun.append((simulator, student.agent.crew.states))
            yield student

    monkeypatch.setattr("imitable.experts.train", listen)
    schooling = Schooling(rounds=2, before=((turntable.COUNTER_CLOCKWISE, 2),), trpo=replace(TINY, agents=10), episodes=5)
    train_and_keep(turntable.CLOCKWISE, schooling, name="pupil", folder=tmp_path, seeds=[0])
    bodies = [simulator for simulator, _ in begun]
    assert bodies == [turntable.COUNTER_CLOCKWISE] * 3 + [turntable.CLOCKWISE] * 3
    assert [bool(states[:, 0].any()) for _, states in begun] == [False, True, True] * 2, "a new body begins at its own starts, at angle 0"


def test_schooling_pays_for_actions() -> None:
    states, actions = turntable.CLOCKWISE.initial_states(3, np.random.default_rng(0)), np.full((3, 1), -1.5)
    step = states, actions, turntable.CLOCKWISE.step(states, actions)
    plain, costly = (Schooling(rounds=1, reward_scale=scale, control_cost=cost) for scale, cost in ((1.0, 0.0), (0.1, 2.0)))
    difference = 0.1 * plain.reward(turntable.CLOCKWISE)(*step) - costly.reward(turntable.CLOCKWISE)(*step)
    assert difference == pytest.approx(np.full(3, 2.0 * 2.25)), "the cost of schooling counts actions as drawn"
    weary = replace(turntable.CLOCKWISE, action_cost=0.5)
    assert plain.reward(weary)(*step) == pytest.approx(plain.reward(turntable.CLOCKWISE)(*step) - 0.5), "the agent's own, as taken"


def test_every_task_says_how_its_target_is_trained() -> None:
    assert PUPILS.keys() >= TASKS.keys()
    assert all(PUPILS[name].simulator is TASKS[name].target for name in TASKS)
