"""Who demonstrates, and the mixtures they give."""

import time
from dataclasses import replace

import numpy as np
import pytest

import turntable
from imitable.errors import ImitableError
from imitable.evaluation import evaluate
from imitable.paper import TASK_NAMES, driving
from imitable.paper.demonstrators import POLICIES, SOURCES, Mixture, TrainedPolicy, collect
from imitable.paper.run import collected
from imitable.paper.tasks import find_task
from imitable.rollouts import run_episodes

DEMONSTRATORS = turntable.task().demonstrators


@pytest.mark.parametrize(("simulator", "expected"), [(driving.SLOW, 37.9), (driving.FAST, 77.7)])
def test_the_hand_made_driver_always_arrives(simulator: driving.Driving, expected: float) -> None:
    rng = np.random.default_rng(0)
    made = run_episodes(simulator, lambda seen: driving.drive(seen, rng), count=2000, rng=np.random.default_rng(1)).trajectories
    ends = simulator.restore(made.observations[made.starts + made.lengths])
    assert driving.touches(ends[:, :2], ends[:, driving.HEADING], *driving.GOAL).all()
    assert np.array_equal(made.returns, 100.0 - made.lengths), "a step cost more than one: the obstacle was touched"
    assert made.returns.mean() == pytest.approx(expected, abs=4)


@pytest.mark.parametrize("name", TASK_NAMES)
def test_the_demonstrators_of_every_task_are_as_good_as_they_should_be(name: str) -> None:
    demonstrators, rng = find_task(name).demonstrators, np.random.default_rng(0)
    target, episodes = demonstrators.target, 300 if demonstrators.target.horizon < 500 else 6
    optimal, suboptimal = (
        evaluate(lambda seen, actor=actor: actor(seen, rng), target, episodes=episodes, rng=np.random.default_rng(1)).returns
        for actor in (demonstrators.optimal, demonstrators.suboptimal)
    )
    other = evaluate(
        lambda seen: demonstrators.other_optimal(seen, rng), demonstrators.other, episodes=episodes, rng=np.random.default_rng(1)
    ).returns
    margin = 4 * np.hypot(optimal.std(), suboptimal.std()) / np.sqrt(episodes)
    assert optimal.mean() > suboptimal.mean() + margin
    # Doing nothing earns -127, less than 0, 0, 1000, and -1500.
    at_least = {"reacher": -98.0, "driving": 30.0, "swimmer": 150.0, "ant": 2000.0, "panda": -950.0}[name.split("/")[0]]
    assert optimal.mean() > at_least
    assert other.mean() > at_least


def test_a_hundred_reacher_episodes_measure_a_policy_well() -> None:
    demonstrators, rng = find_task("reacher/clockwise").demonstrators, np.random.default_rng(0)
    batches = [
        evaluate(lambda seen: demonstrators.optimal(seen, rng), demonstrators.target, episodes=100, rng=np.random.default_rng(seed)).returns
        for seed in range(20)
    ]
    assert np.mean([returns.std() for returns in batches]) / 10 > 4, "as if goals were drawn one by one"
    assert np.std([returns.mean() for returns in batches]) < 1


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if find_task(name).robot.horizon > 500 else []) for name in TASK_NAMES]
)
def test_a_thousand_demonstrations_come_in_the_papers_shares_in_time(name: str) -> None:
    task = find_task(name)
    began = time.process_time()
    demonstrations = collect(task.demonstrators, rng=np.random.default_rng(0))
    body = name.split("/")[0]
    assert time.process_time() - began < {"swimmer": 200, "ant": 900}.get(body, 20)  # of one core
    shares = {"reacher": (50, 900, 50), "driving": (300, 600, 100)}.get(body, (10, 495, 495))
    assert tuple(int(demonstrations.from_source(source).sum()) for source in SOURCES) == shares
    assert demonstrations.observation_names == task.robot.observation_names
    assert len(set((demonstrations.sources or ())[:20])) > 1, "the mixture is not shuffled"


def test_the_released_composition_swaps_the_last_two_shares() -> None:
    demonstrations = collect(find_task("driving/slow").demonstrators, count=50, composition="released", rng=np.random.default_rng(0))
    assert [int(demonstrations.from_source(source).sum()) for source in SOURCES] == [15, 5, 30]


@pytest.mark.parametrize(
    ("composition", "counts"),
    [("paper", (2, 4, 14)), ("released", (2, 14, 4)), ("perfect", (2, 0, 0)), ("imperfect", (0, 4, 14)), ("0.5/0.25/0.25", (10, 5, 5))],
)
def test_a_composition_is_a_name_or_shares(composition: str, counts: tuple[int, ...]) -> None:
    assert tuple(Mixture(0.1, 0.2, 0.7).counts(composition, count=20).values()) == counts


def test_perfect_demonstrations_are_those_of_the_papers_mixture() -> None:
    every, perfect = (collect(DEMONSTRATORS, count=20, composition=each, rng=np.random.default_rng(0)) for each in ("paper", "perfect"))
    assert set(perfect.sources or ()) == {"optimal"}
    assert sorted(perfect.returns) == sorted(every.returns[every.from_source("optimal")])


@pytest.mark.parametrize("composition", ["0.5/0.5", "0.5/0.4/0.4", "a/b/c"])
def test_shares_that_are_none_are_refused(composition: str) -> None:
    with pytest.raises(ImitableError, match=r"composition|add up to 1"):
        collect(DEMONSTRATORS, count=5, composition=composition, rng=np.random.default_rng(0))


def test_a_composition_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(ImitableError, match="composition 'perfect' of 1 demonstrations leaves none; give a larger count"):
        collect(DEMONSTRATORS, count=1, composition="perfect", rng=np.random.default_rng(0))


def test_an_unknown_composition_is_refused() -> None:
    with pytest.raises(ImitableError, match="unknown composition 'mine'; choose paper, released, perfect, imperfect or shares"):
        collect(DEMONSTRATORS, count=5, composition="mine", rng=np.random.default_rng(0))


@pytest.mark.parametrize("count", [1, 2, 7])
def test_small_sets_can_be_collected(count: int) -> None:
    assert len(collect(DEMONSTRATORS, count=count, rng=np.random.default_rng(0))) == count


def test_collecting_says_how_many_simulations_broke_down() -> None:
    turn, rest = (lambda seen, _, action=action: np.full((len(seen), 1), action) for action in (-1.0, 0.0))
    demonstrators = replace(DEMONSTRATORS, target=turntable.BRITTLE, optimal=turn, suboptimal=rest)
    with pytest.warns(UserWarning, match="6 of 6 optimal demonstrations are cut short where the simulation broke down"):
        collect(demonstrators, count=20, rng=np.random.default_rng(0))


def test_collecting_tells_how_much_is_done() -> None:
    heard: list[float] = []
    collect(DEMONSTRATORS, count=20, rng=np.random.default_rng(0), progress=heard.append)
    assert len(heard) == 150, "three kinds of 50 steps"
    assert heard == sorted(heard)
    assert 0 < heard[0] < 0.01
    assert heard[-1] == pytest.approx(1.0)


def test_the_same_seed_collects_the_same_bytes() -> None:
    one, again, other = (collected(turntable.task(), seed=seed, count=20) for seed in (3, 3, 4))
    assert one.observations.tobytes() == again.observations.tobytes()
    assert one.sources == again.sources
    assert not np.array_equal(one.observations, other.observations)


def test_returns_are_those_of_the_robot_that_demonstrates() -> None:
    demonstrations = collected(turntable.task(), seed=0, count=20)
    for index in range(20):
        states = turntable.CLOCKWISE.restore(demonstrations.trajectory(index))
        rewards = turntable.CLOCKWISE.reward(states[:-1], np.zeros((len(states) - 1, 1)), states[1:])
        assert demonstrations.returns[index] == pytest.approx(rewards.sum())


def test_a_trained_policy_acts_by_its_mean_or_samples() -> None:
    robot = find_task("reacher/clockwise").robot
    observations = robot.observe(robot.initial_states(5, np.random.default_rng(0)))
    mean, sampled = TrainedPolicy("reacher-clockwise-suboptimal"), TrainedPolicy("reacher-clockwise-suboptimal", sampled=True)
    actions = [policy(observations, np.random.default_rng(seed)) for policy in (mean, sampled) for seed in (0, 1)]
    assert np.array_equal(actions[0], actions[1])
    assert not np.array_equal(actions[2], actions[3])


def test_a_trained_policy_is_known_by_its_file() -> None:
    names = sorted(path.stem for path in POLICIES.glob("*.safetensors"))
    assert len(names) > 10
    keys = {TrainedPolicy(name, sampled=sampled).cache_key() for name in names for sampled in (False, True)}
    assert len(keys) == 2 * len(names)
