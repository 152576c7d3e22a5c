"""How fast the package is, as ratios measured side by side in one run: absolute timings move from machine to machine and hour to hour.

python benchmarks/speed.py                      everything, a few minutes
python benchmarks/speed.py --quick              smaller sizes, under half a minute, numbers only indicative
python benchmarks/speed.py --only stepping      one measurement; --json FILE keeps the numbers
"""

import argparse
import json
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import mujoco
import mujoco.rollout
import numpy as np
import torch

import naive_gail
from imitable.arrays import Array
from imitable.assessment import Assessment, Exploration, assess
from imitable.demonstrations import join
from imitable.inverse_dynamics import Learned
from imitable.learners import Gail, IcGail, Learner, Sail, TwoIwil
from imitable.learners.sail import SailState
from imitable.networks import Policy
from imitable.paper import ant, reacher, swimmer
from imitable.paper.methods import ours
from imitable.paper.run import collected
from imitable.paper.sweep import SINGLE_THREADED
from imitable.paper.tasks import Task, find_task
from imitable.pipeline import Streams
from imitable.replay import replay
from imitable.rollouts import explore, run_episodes
from imitable.sampling import TransitionSampler
from imitable.scores import Feasibility, rectified_return
from imitable.simulators import Simulator, advance, reward_of
from imitable.simulators.physics import Physics
from imitable.store.cache import default_cache
from imitable.trpo import TrainingBatch, Trpo, trust_region_step

# What the command line does for itself: small matrices on one thread, and freed memory kept for reuse.
PROCESS = SINGLE_THREADED | {"MALLOC_TRIM_THRESHOLD_": "2000000000", "MALLOC_MMAP_THRESHOLD_": "2000000000"}
MEBIBYTE = 2**20


@dataclass(frozen=True)
class Row:
    """One line of the table; a target is reached from above or from below."""

    what: str
    measured: float
    unit: str = "x"
    at_least: float | None = None
    at_most: float | None = None
    detail: str = ""

    @property
    def met(self) -> bool | None:
        if self.at_least is not None:
            return self.measured >= self.at_least
        return None if self.at_most is None else self.measured <= self.at_most

    @property
    def target(self) -> str:
        if self.at_least is not None:
            return f">= {self.at_least:g} {self.unit}"
        return "" if self.at_most is None else f"<= {self.at_most:g} {self.unit}"

    def __str__(self) -> str:
        verdict = {True: "yes", False: "NO", None: ""}[self.met]
        return f"{self.what:<60} {self.measured:>9.3g} {self.unit:<4} {self.target:<11} {verdict:<4} {self.detail}"


def seconds(action: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


@contextmanager
def physics_threads(count: int) -> Iterator[None]:
    """Step MuJoCo on so many threads."""
    before = os.environ.get("IMITABLE_THREADS", "1")
    os.environ["IMITABLE_THREADS"] = str(count)
    try:
        yield
    finally:
        os.environ["IMITABLE_THREADS"] = before


class Simulated(Simulator, Protocol):
    """A simulator on MuJoCo."""

    @property
    def physics(self) -> Physics: ...


CONTESTS: tuple[tuple[str, Simulated, int, int, tuple[int, ...], float], ...] = (
    ("Reacher", reacher.CLOCKWISE, 1024, 50, (1, 2), 0.70),
    ("Swimmer", swimmer.BACK_DISABLED, 256, 100, (2,), 0.85),
    ("Ant", ant.X_AXIS, 256, 25, (2,), 0.85),
)
"""Name, simulator, agents, steps of each, threads, and the share of the open loop to be reached."""


def stepping(*, quick: bool) -> Iterator[Row]:
    """Closed-loop steps with observation, reward and reset, against MuJoCo's open loop on the same controls."""
    for name, simulator, agents, length, thread_counts, goal in CONTESTS:
        controls = np.random.default_rng(0).uniform(-1, 1, (5 if quick else length, agents, len(simulator.action_low)))
        contests: dict[int, list[tuple[float, float]]] = {threads: [] for threads in thread_counts}
        for _ in range(3 if quick else 15):
            for threads, times in contests.items():
                with physics_threads(threads):
                    times.append((open_loop(simulator, controls, threads=threads), closed_loop(simulator, controls)))
        for threads, times in contests.items():
            limit, reached = (len(controls) * agents / median(each) for each in zip(*times[1:], strict=True))  # the first warms up
            share = median(limit_time / time_taken for limit_time, time_taken in times[1:])
            detail = f"{reached:,.0f} of {limit:,.0f} steps/s"
            yield Row(f"{name}, {agents} agents, share of open loop, {threads} thread(s)", share, at_least=goal, detail=detail)


def closed_loop(simulator: Simulated, controls: Array) -> float:
    """Seconds for these steps of every agent, each observed and rewarded before the next, and agents that finish starting anew."""

    def episode() -> None:
        rng = np.random.default_rng(0)
        states = simulator.initial_states(controls.shape[1], rng)
        for actions in controls:
            before = states
            states, broken = advance(simulator, before, actions)
            simulator.observe(states)
            reward_of(simulator, before, actions, states)
            ended = simulator.terminated(states) | broken
            if ended.any():
                states[ended] = simulator.initial_states(int(ended.sum()), rng)

    return seconds(episode)


def open_loop(simulator: Simulated, controls: Array, *, threads: int) -> float:
    """Seconds for the same physics with all controls known beforehand: what MuJoCo can do at best."""
    physics, agents = simulator.physics, controls.shape[1]
    data = [mujoco.MjData(physics.model) for _ in range(threads)]
    start = simulator.initial_states(agents, np.random.default_rng(0))
    initial = np.concatenate([np.zeros((agents, 1)), start[:, : physics.model.nq + physics.model.nv]], axis=1)  # time, qpos, qvel
    known = np.ascontiguousarray(np.repeat(controls.transpose(1, 0, 2), physics.frame_skip, axis=1))
    visited = np.zeros((agents, known.shape[1], initial.shape[1]))
    with mujoco.rollout.Rollout(nthread=0 if threads == 1 else threads) as roller:
        return seconds(lambda: roller.rollout(physics.model, data, initial, known, state=visited))


def training(*, quick: bool) -> Iterator[Row]:
    """GAIL on Reacher end to end, against a loop over one environment and one state at a time with the paper's settings."""
    task, rounds = find_task("reacher/clockwise"), 2 if quick else 5
    assert isinstance(task.robot, reacher.Reacher)
    demonstrations = collected(task, seed=0, count=100 if quick else 1000)
    assessment = assess(demonstrations, task.robot, rng=np.random.default_rng(0))
    rows = demonstrations.transition_rows
    transitions = np.concatenate([demonstrations.observations[rows], demonstrations.observations[rows + 1]], axis=1)

    naive = naive_gail.train(naive_gail.PlainReacher(task.robot), transitions, batch=1000 if quick else 5000, seed=0)
    learners = {"the paper's": Gail(), "its own": task_gail(task.name)}
    contestants = {
        name: replace(learner, checkpoint_every=rounds)(assessment, np.ones(len(demonstrations)), rng=np.random.default_rng(0))
        for name, learner in learners.items()
    }
    batches = {name: next(contestant).steps for name, contestant in contestants.items()}  # this also warms up
    naive_batch = next(naive)
    speeds: dict[str, list[float]] = {name: [] for name in contestants}
    naive_speeds = []
    for _ in range(2 if quick else 7):
        naive_speeds.append(naive_batch / seconds(lambda: next(naive)))
        for name, contestant in contestants.items():
            speeds[name].append(batches[name] / seconds(lambda contestant=contestant: next(contestant)))
    for name, reached in speeds.items():
        ratio = median(ours / theirs for ours, theirs in zip(reached, naive_speeds, strict=True))
        detail = f"{median(reached):,.0f} against {median(naive_speeds):,.0f} steps/s"
        yield Row(f"GAIL on Reacher, {name} settings, against a plain loop", ratio, at_least=8, detail=detail)


def side_by_side(*, quick: bool) -> Iterator[Row]:
    """Two single-threaded GAIL runs at once, 5000 steps per update, against MuJoCo's open loop on two threads."""
    for name, simulator, agents, length, _, _ in CONTESTS[1:]:
        goal = {"Swimmer": 0.50, "Ant": 0.75}[name]
        controls = np.random.default_rng(0).uniform(-1, 1, (5 if quick else length, agents, len(simulator.action_low)))
        repeats = 1 if quick else 5
        with physics_threads(2):
            limits = [len(controls) * agents / open_loop(simulator, controls, threads=2) for _ in range(repeats)]
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            speeds = pool.starmap(imitate, [(simulator, 1 if quick else 6, seed) for seed in (0, 1)])
        with physics_threads(2):
            limits += [len(controls) * agents / open_loop(simulator, controls, threads=2) for _ in range(repeats)]
        detail = f"{sum(speeds):,.0f} of {median(limits):,.0f} steps/s"
        yield Row(f"two runs of GAIL on {name}, share of open loop, 2 threads", sum(speeds) / median(limits), at_least=goal, detail=detail)


def some_assessment(simulator: Simulator, *, seed: int) -> Assessment:
    """Twenty demonstrations of random actions: enough to measure speed."""
    rng = np.random.default_rng(seed)
    return assess(explore(simulator, count=20, rng=rng).trajectories, simulator, rng=rng)


def task_gail(task: str) -> Gail:
    """GAIL with the numbers that suit a task."""
    gail = find_task(task).find_learner("gail")
    assert isinstance(gail, Gail)
    return gail


def peers(*, quick: bool) -> Iterator[Row]:
    """Rounds of 2IWIL and IC-GAIL against rounds of GAIL on Swimmer, and the time of SAIL's whole schedule from a few iterations."""
    assessment, rng = some_assessment(swimmer.BACK_DISABLED, seed=0), np.random.default_rng(0)
    rounds, weights = 3 if quick else 12, np.ones(20)
    gail = replace(task_gail("swimmer/back-disabled"), rounds=rounds, checkpoint_every=1)
    learners: dict[str, Learner] = {"GAIL": gail, "2IWIL": TwoIwil(gail=gail), "IC-GAIL": IcGail(gail=gail)}
    training = {name: learner(assessment, weights, rng=np.random.default_rng(0)) for name, learner in learners.items()}
    for checkpoints in training.values():
        next(checkpoints)  # labels, classifiers and a first round
    times: dict[str, list[float]] = {name: [] for name in training}
    for _ in range(rounds - 1):
        for name, checkpoints in training.items():
            times[name].append(seconds(lambda checkpoints=checkpoints: next(checkpoints)))
    for name in ("2IWIL", "IC-GAIL"):
        ratio = median(plain / peer for plain, peer in zip(times["GAIL"], times[name], strict=True))
        yield Row(f"a round of {name} on Swimmer, speed against GAIL's", ratio, at_least=0.85, detail=f"{median(times[name]):.2f} s")
    yield sail_schedule(assessment, rng=rng, quick=quick)


def sail_schedule(assessment: Assessment, *, rng: np.random.Generator, quick: bool) -> Row:
    """Minutes of SAIL from the fit of its inverse dynamics to its last iteration, extrapolated from a share of each."""
    sail, share, weights = Sail(), 100 if quick else 20, np.ones(len(assessment.demonstrations))
    episodes = sail.exploration.episodes // (20 if quick else 1)
    brief = replace(
        sail,
        vae_updates=sail.vae_updates // share,
        pretraining_updates=sail.pretraining_updates // share,
        frozen_iterations=0,
        checkpoint_every=1,
        inverse=replace(sail.inverse, epochs=1),
        exploration=replace(sail.exploration, episodes=episodes),
    )
    learned = assessment.with_inverse(brief.inverse, brief.exploration)
    more = sail.exploration.episodes / episodes
    exploring = more * seconds(lambda: learned.own_episodes)
    fits = [seconds(lambda: brief.inverse.fit(learned.own_episodes[0], assessment.robot, rng=rng)) for _ in range(2)]
    fitting = more * sail.inverse.epochs * fits[1]  # the first also loads torch
    state = SailState(brief, learned, TransitionSampler(assessment.demonstrations, weights), rng)
    pretraining = share * seconds(state.pretrain)
    checkpoints = brief(learned, weights, rng=rng)  # on the inverse dynamics that is fitted already
    next(checkpoints)
    iterating = sail.iterations * median(seconds(lambda: next(checkpoints)) for _ in range(2 if quick else 6))
    parts = {"f_id": exploring + fitting, "pretraining": pretraining, f"{sail.iterations} iterations": iterating}
    detail = ", ".join(f"{name} {taken / 60:.1f}" for name, taken in parts.items()) + " min, extrapolated"
    return Row("SAIL's whole schedule on Swimmer", sum(parts.values()) / 60, "min", at_most=20, detail=detail)


def imitate(simulator: Simulator, rounds: int, seed: int, agents: int = 40) -> float:
    """Steps per second of GAIL with the paper's batch and networks and so many agents at once, after a round to warm up."""
    torch.set_num_threads(1)
    assessment, rng = some_assessment(simulator, seed=seed), np.random.default_rng(seed)
    gail = Gail(rounds=rounds + 1, checkpoint_every=1, trpo=Trpo(n_envs=agents))
    checkpoints = gail(assessment, np.ones(20), rng=rng)
    before = next(checkpoints).steps
    start = time.perf_counter()
    *_, last = checkpoints
    return (last.steps - before) / (time.perf_counter() - start)


def replaying(*, quick: bool) -> Iterator[Row]:
    """A million closed-loop steps of Swimmer, driven by the paper's learned inverse dynamics (`--inverse learned`)."""
    simulator, count = swimmer.BACK_DISABLED, 20 if quick else 1000
    rng = np.random.default_rng(0)
    with physics_threads(2):
        exploration = explore(simulator, count=20, rng=rng)
        inverse_dynamics = Learned(epochs=1).fit(exploration, simulator, rng=rng)
        shown = join([exploration.trajectories] * (count // 20))
        taken = seconds(lambda: replay(shown, simulator, inverse_dynamics))
    detail = f"{shown.lengths.sum() / taken:,.0f} steps/s"
    yield Row(f"replay {count} Swimmer demonstrations of 1000 steps", taken, "s", at_most=180, detail=detail)


class Timed:
    """A robot, and the seconds that it has spent stepping."""

    def __init__(self, robot: Simulator) -> None:
        self.robot, self.spent = robot, 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.robot, name)

    def step(self, states: Array, actions: Array) -> Array:
        start = time.perf_counter()
        try:
            return self.robot.step(states, actions)
        finally:
            self.spent += time.perf_counter() - start


def verdicts(*, quick: bool) -> Iterator[Row]:
    """Feasibility of a task's whole mixture by the solved inverse dynamics, everything included but the collecting."""
    for name, at_most in (("swimmer/front-disabled", 20), ("ant/x-axis", 120)):
        task, count = find_task(name), 20 if quick else 1000
        demonstrations, robot = collected(task, seed=0, count=count, cache=default_cache()), Timed(task.robot)
        with physics_threads(2):
            taken = seconds(
                lambda robot=robot, shown=demonstrations: assess(shown, robot, rng=Streams(0).assessing()).weights(Feasibility())
            )
        detail = f"{robot.spent / taken:.0%} of it in Simulator.step"
        yield Row(f"feasibility of {count} demonstrations of {name}", taken, "s", at_most=at_most, detail=detail)


def memory(*, quick: bool) -> Iterator[Row]:
    """Scoring long Ant demonstrations, in a process of its own to see its memory; of agents that stand, so that none ends early."""
    count = 20 if quick else 1000
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        peak = pool.apply(score_standing_ants, (count,))
    yield Row(f"score {count} Ant demonstrations of 1000 steps, memory", peak / MEBIBYTE, "MiB", at_most=1536)


def score_standing_ants(count: int) -> float:
    """Bytes at the peak of the whole process (Linux only)."""
    torch.set_num_threads(1)
    rng, task = np.random.default_rng(0), find_task("ant/x-axis")
    some = run_episodes(ant.X_AXIS, lambda seen: np.zeros((len(seen), 8)), count=min(count, 10), rng=rng).trajectories
    shown = join([some] * (count // len(some)))
    with physics_threads(2):
        assess(shown, task.robot, rng=rng).weights(ours(task))
    return resident_bytes("VmHWM")


def scoring(*, quick: bool) -> Iterator[Row]:
    """Feasibility and optimality of a pile of Driving demonstrations: solved, and with the paper's exploration, fit and replay."""
    solved, count = find_task("driving/slow"), 100 if quick else 1000
    demonstrations = collected(solved, seed=0, count=count)
    learned = solved.with_model(Learned(epochs=2) if quick else Learned())
    if quick:
        learned = replace(learned, exploration=Exploration(episodes=20, steps=None))
    for name, task in (("solved", solved), ("learned", learned)):

        def score(task: Task = task) -> None:
            settings = {"model": task.model, "exploration": task.exploration}
            assess(demonstrations, task.robot, rng=Streams(0).assessing(), **settings).weights(ours(task))

        yield Row(f"score {count} demonstrations of driving/slow, inverse {name}", seconds(score), "s", at_most=60)


def neighbours(*, quick: bool) -> Iterator[Row]:
    """f_rec of many demonstrations, each case in a process of its own to see its memory."""
    count = 10_000 if quick else 100_000
    cases = ((2, 0.1), (2, 0.02), (4, 0.1))
    for columns, radius in cases[:1] if quick else cases:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            taken, memory = pool.apply(rectify, (count, columns, radius))
        case = f"f_rec of {count:,} starts in {columns}-D, radius {radius}"
        yield Row(f"{case}, time", taken, "s", at_most=5)
        yield Row(f"{case}, memory", memory / MEBIBYTE, "MiB", at_most=1024)


def rectify(count: int, columns: int, radius: float) -> tuple[float, float]:
    """Seconds, and bytes at the peak on top of the inputs (Linux only)."""
    rng = np.random.default_rng(0)
    returns, starts, feasible = rng.normal(size=count), rng.random((count, columns)), rng.random(count) < 0.8
    before = resident_bytes("VmRSS")
    taken = seconds(lambda: rectified_return(returns, starts, feasible=feasible, radius=radius))
    return taken, resident_bytes("VmHWM") - before


def resident_bytes(field: str) -> float:
    """This process's memory: VmRSS now, VmHWM at its highest."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return float("nan")
    return 1024.0 * next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def updating(*, quick: bool) -> Iterator[Row]:
    """One TRPO update of 5000 samples, against automatic differentiation on the same network, both in float32."""
    samples, rng = 5000, np.random.default_rng(0)
    simulator = reacher.CLOCKWISE
    width = len(simulator.observation_names)
    policy = Trpo().init_agent(simulator, center=np.zeros(width), scale=np.ones(width), rng=rng).policy
    inputs, advantages = rng.standard_normal((samples, width), np.float32), rng.standard_normal(samples, np.float32)
    actions = policy.sample(inputs.astype(np.float64), rng).astype(np.float32)
    tensors = [torch.from_numpy(each) for each in (inputs, actions, advantages)]
    batch = TrainingBatch(inputs, actions, advantages, value_targets=np.zeros((samples, 1), np.float32))
    contestants: dict[str, Callable[[], object]] = {
        f"Fisher on {share:.0%}": lambda share=share: trust_region_step(
            policy, batch, trpo=Trpo(fisher_fraction=share), rng=np.random.default_rng(0)
        )
        for share in (0.2, 1.0)
    }
    contestants["torch"] = lambda: naive_gail.policy_step(torch_twin(policy), *tensors, keep_graph=True)
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(3 if quick else 21):
        for name, contestant in contestants.items():
            times[name].append(seconds(contestant))
    for name in list(contestants)[:-1]:
        ratio = median(theirs / ours for theirs, ours in zip(times["torch"][1:], times[name][1:], strict=True))
        detail = f"{1e3 * median(times[name][1:]):.1f} against {1e3 * median(times['torch'][1:]):.1f} ms"
        yield Row(f"TRPO update of {samples} samples, {name}, against torch", ratio, detail=detail)


def torch_twin(policy: Policy) -> naive_gail.GaussianPolicy:
    """The same policy as torch modules."""
    twin = naive_gail.GaussianPolicy(policy.network.layer_sizes[0], policy.network.layer_sizes[-1])
    linear = [layer for layer in twin.network if isinstance(layer, torch.nn.Linear)]
    with torch.no_grad():
        for layer, (weights, bias) in zip(linear, policy.network.layers(policy.parameters), strict=True):
            layer.weight.copy_(torch.from_numpy(weights.T))
            layer.bias.copy_(torch.from_numpy(bias))
        twin.log_std.copy_(torch.from_numpy(policy.log_std))
    return twin


MEASUREMENTS: dict[str, Callable[..., Iterator[Row]]] = {
    "stepping": stepping,
    "training": training,
    "side-by-side": side_by_side,
    "peers": peers,
    "scoring": scoring,
    "replaying": replaying,
    "verdicts": verdicts,
    "memory": memory,
    "neighbours": neighbours,
    "updating": updating,
}


def record(rows: list[Row], *, quick: bool) -> dict[str, Any]:
    """What `--json` keeps."""
    machine = {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
    versions = {"mujoco": mujoco.__version__, "numpy": np.__version__, "torch": torch.__version__}
    return {"quick": quick, "machine": machine, "versions": versions, "rows": [asdict(row) | {"met": row.met} for row in rows]}


def main() -> None:
    """Measure, print, and leave the judgement to the reader."""
    parser = argparse.ArgumentParser(description="How fast imitable is, as ratios measured side by side.")
    parser.add_argument("--quick", action="store_true", help="smaller sizes: numbers only indicative")
    parser.add_argument("--only", choices=MEASUREMENTS, help="one measurement instead of all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="save the numbers here")
    arguments = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in PROCESS.items()):
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **PROCESS})  # libraries read these once, when they are loaded
    torch.set_num_threads(1)
    print(f"{'':<60} {'measured':>9} {'':<4} {'target':<11} met")
    rows: list[Row] = []
    for name, measurement in MEASUREMENTS.items():
        if arguments.only in (None, name):
            for row in measurement(quick=arguments.quick):
                print(row, flush=True)
                rows.append(row)
    if arguments.json:
        arguments.json.write_text(json.dumps(record(rows, quick=arguments.quick), indent=2) + "\n")


if __name__ == "__main__":
    main()
