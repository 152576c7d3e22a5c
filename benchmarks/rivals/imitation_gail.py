"""`imitation`'s GAIL with sb3-contrib's TRPO on Swimmer; runs in a virtual environment of its own, see benchmarks/against.py.

Prints one JSON line: steps per second after a first round. It learns from random transitions, because only its speed is measured.
"""

import json
import sys
import time

import gymnasium
import numpy as np
import torch
from imitation.algorithms.adversarial.gail import GAIL
from imitation.data.types import Transitions
from imitation.rewards.reward_nets import BasicRewardNet
from sb3_contrib import TRPO
from stable_baselines3.common.vec_env import DummyVecEnv

if __name__ == "__main__":
    environments, rounds, threads = (int(argument) for argument in sys.argv[1:])
    torch.set_num_threads(threads)
    venv = DummyVecEnv([lambda: gymnasium.make("Swimmer-v4")] * environments)
    rng = np.random.default_rng(0)
    states, following = rng.normal(size=(2, 20_000, 8)).astype(np.float32)
    shown = Transitions(
        obs=states,
        acts=rng.uniform(-1, 1, (20_000, 2)).astype(np.float32),
        infos=np.array([{}] * 20_000),
        next_obs=following,
        dones=np.zeros(20_000, dtype=bool),
    )
    learner = TRPO("MlpPolicy", venv, n_steps=5000 // environments, batch_size=500, policy_kwargs={"net_arch": [100, 100]})
    judge = BasicRewardNet(venv.observation_space, venv.action_space, use_action=False, use_next_state=True, hid_sizes=(100, 100))
    batch = 5000 // environments * environments
    trainer = GAIL(demonstrations=shown, demo_batch_size=batch, venv=venv, gen_algo=learner, reward_net=judge, n_disc_updates_per_round=1)
    trainer.train(batch)
    start = time.perf_counter()
    trainer.train(rounds * batch)
    print(json.dumps({"steps_per_second": rounds * batch / (time.perf_counter() - start)}))
