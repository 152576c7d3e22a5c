"""sb3-contrib's TRPO on swimmer/back-disabled; runs in a virtual environment of its own, see benchmarks/against.py.

Prints one JSON line per measurement: minutes, steps, and the mean return of ten episodes.
"""

import json
import sys
import time

import gymnasium
import numpy as np
import torch
from sb3_contrib import TRPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

from imitable.evaluation import evaluate  # imitable registers its environments
from imitable.paper.swimmer import BACK_DISABLED


class Measure(BaseCallback):
    """Mean return by mean actions every so many steps; measuring time does not count."""

    def __init__(self, every: int, goal: float, limit: float, seed: int) -> None:
        super().__init__()
        self.every, self.goal, self.limit, self.seed = every, goal, limit, seed
        self.spent, self.next = 0.0, every

    def _on_step(self) -> bool:
        if self.num_timesteps < self.next:
            return True
        self.next += self.every
        self.spent += time.perf_counter() - self.since
        mean = evaluate(self.act, BACK_DISABLED, episodes=10, rng=np.random.default_rng(self.seed)).returns.mean()
        print(json.dumps({"minutes": self.spent / 60, "steps": self.num_timesteps, "return": float(mean)}), flush=True)
        self.since = time.perf_counter()
        return bool(mean < self.goal and self.spent < 60 * self.limit)

    def act(self, observations: np.ndarray) -> np.ndarray:
        return self.model.predict(observations, deterministic=True)[0].astype(np.float64)

    def _on_training_start(self) -> None:
        self.since = time.perf_counter()


if __name__ == "__main__":
    goal, limit, seed = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    ours = json.loads(sys.argv[4])  # imitable's settings
    torch.set_num_threads(1)
    environments = DummyVecEnv([lambda: gymnasium.make("imitable/SwimmerBackDisabled-v0")] * ours["n_envs"])
    # What differs: the Fisher matrix takes all samples here, because fewer would also make the gradient; observations are not scaled;
    # agents reach the time limit all at once.
    model = TRPO(
        "MlpPolicy",
        environments,
        n_steps=ours["batch_size"] // ours["n_envs"],
        batch_size=ours["batch_size"] // ours["value_minibatches"],
        n_critic_updates=ours["value_epochs"],
        learning_rate=ours["value_learning_rate"],
        gamma=ours["gamma"],
        gae_lambda=ours["gae_lambda"],
        target_kl=ours["max_kl"],
        cg_max_steps=ours["cg_iterations"],
        cg_damping=ours["cg_damping"],
        policy_kwargs={"net_arch": list(ours["hidden_sizes"])},
        seed=seed,
    )
    model.learn(10**9, callback=Measure(every=20_000, goal=goal, limit=limit, seed=seed + 1))
