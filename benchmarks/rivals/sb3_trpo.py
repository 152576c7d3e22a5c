"""sb3-contrib's TRPO on swimmer/back-disabled; runs in a virtual environment of its own, see benchmarks/against.py.

Prints one JSON line per measurement: minutes, steps, and the mean return of ten episodes.
"""

import json
import sys
import time

import gymnasium
import torch
from sb3_contrib import TRPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy

import imitable  # registers the environments

assert imitable


class Measure(BaseCallback):
    """Mean return by mean actions every so many steps; measuring time does not count."""

    def __init__(self, every: int, goal: float, limit: float) -> None:
        super().__init__()
        self.every, self.goal, self.limit = every, goal, limit
        self.spent, self.next = 0.0, every

    def _on_step(self) -> bool:
        if self.num_timesteps < self.next:
            return True
        self.next += self.every
        self.spent += time.perf_counter() - self.since
        environment = gymnasium.make("imitable/SwimmerBackDisabled-v0")
        environment.reset(seed=1)
        mean, _ = evaluate_policy(self.model, environment, n_eval_episodes=10)
        print(json.dumps({"minutes": self.spent / 60, "steps": self.num_timesteps, "return": float(mean)}), flush=True)
        self.since = time.perf_counter()
        return bool(mean < self.goal and self.spent < 60 * self.limit)

    def _on_training_start(self) -> None:
        self.since = time.perf_counter()


if __name__ == "__main__":
    goal, limit, seed = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    environment = gymnasium.make("imitable/SwimmerBackDisabled-v0")
    model = TRPO(
        "MlpPolicy",
        environment,
        n_steps=2000,
        batch_size=500,
        gamma=0.999,
        gae_lambda=0.97,
        target_kl=0.02,
        learning_rate=1e-3,
        policy_kwargs={"net_arch": [100, 100]},
        seed=seed,
    )
    model.learn(10**9, callback=Measure(every=20_000, goal=goal, limit=limit))
