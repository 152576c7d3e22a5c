"""What GAIL learns from whole episodes, and from the pieces of many agents that go on from batch to batch: returns along the way.

python benchmarks/pieces.py --seeds 3       twenty swims of an expert who gets 225, 400 000 steps; about five minutes a seed
"""

import argparse
import os
import sys
import time
from dataclasses import replace
from itertools import product

import numpy as np

import speed
from imitable.arrays import one_thread
from imitable.assessment import assess
from imitable.evaluation import evaluate
from imitable.learners import Gail
from imitable.paper.demonstrators import TrainedPolicy
from imitable.paper.tasks import find_task
from imitable.rollouts import run_episodes

STEPS = 400_000
TASK = "swimmer/front-disabled"


def main() -> None:
    """Batches of 2000 and 5000 steps, in whole episodes and of 20 agents."""
    parser = argparse.ArgumentParser(description="What GAIL learns from whole episodes and from pieces of many agents.")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--first", type=int, default=0, help="seed")
    arguments = parser.parse_args()
    if any(os.environ.get(name) != value for name, value in speed.PROCESS.items()):
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **speed.PROCESS})
    task, policy, rng = find_task(TASK), TrainedPolicy("swimmer-front-disabled-optimal"), np.random.default_rng(3)
    simulator, own = task.robot, task.find_learner("gail")
    assert isinstance(own, Gail)
    shown = run_episodes(simulator, lambda seen: policy(seen, rng), count=20, rng=rng).trajectories
    assessment = assess(shown, simulator, rng=rng)
    for batch, agents, seed in product((2000, 5000), (0, 20), range(arguments.first, arguments.first + arguments.seeds)):
        rounds, trpo = STEPS // batch, replace(own.trpo, batch_size=batch, n_envs=agents)
        gail = replace(own, rounds=rounds, checkpoint_every=rounds // 8, trpo=trpo)
        returns, spent, since = [], 0.0, time.perf_counter()
        for checkpoint in gail(assessment, np.ones(20), rng=np.random.default_rng(seed)):
            spent += time.perf_counter() - since
            returns.append(evaluate(checkpoint.policy, simulator, episodes=10, rng=np.random.default_rng(seed + 1)).returns.mean())
            since = time.perf_counter()
        how, along = f"{agents} agents" if agents else "whole episodes", " ".join(f"{each:4.0f}" for each in returns)
        print(f"batches of {batch}, {how:<14} seed {seed}: {along}  in {spent:3.0f} s", flush=True)


if __name__ == "__main__":
    with one_thread():
        main()
