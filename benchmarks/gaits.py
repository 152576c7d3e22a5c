"""Gaits of stock Gymnasium robots, for demonstrations that are not random actions: quickly trained, far from the best there are.

python benchmarks/gaits.py Walker2d-v5 [--minutes 3] [-o FOLDER]     # the policy, shipped in benchmarks/policies
"""

import argparse
import time
from pathlib import Path

import numpy as np

from imitable import Policy, evaluate, one_thread
from imitable.arrays import Array
from imitable.paper.demonstrators import POLICIES as EXPERTS
from imitable.simulators import reward_of
from imitable.simulators.gymnasium_robot import gymnasium_robot
from imitable.trpo import Trpo, train

POLICIES = Path(__file__).parent / "policies"
SHIPPED = {
    "Hopper-v5": "hopper-good",
    **{name: name.removesuffix("-v5").lower() for name in ("Walker2d-v5", "HalfCheetah-v5", "Humanoid-v5", "Swimmer-v5")},
}
"""The policies by robot; on Ant-v5 walks the expert of ant/x-axis, whose body differs in the range of its hips alone."""
WALKING = Trpo(
    batch_size=4000,
    n_envs=20,
    gamma=0.99,
    gae_lambda=0.95,
    max_kl=0.03,
    value_learning_rate=1e-3,
    value_minibatches=32,
    value_epochs=5,
    initial_std=0.5,
    hidden_sizes=(64, 64),
)


def gait(name: str) -> Policy:
    """What walks, hops or swims on the stock robot of this name."""
    if name == "Ant-v5":
        return Policy.load(EXPERTS / "ant-x-axis-optimal.safetensors")
    return Policy.load(POLICIES / f"{SHIPPED[name]}.safetensors")


def train_gait(name: str, folder: Path, *, minutes: float) -> None:
    robot, began = gymnasium_robot(name), time.process_time()

    def reward(states: Array, actions: Array, next_states: Array) -> Array:
        return 0.1 * reward_of(robot, states, actions, next_states)

    for number, state in enumerate(train(robot, trpo=WALKING, reward=reward, rng=np.random.default_rng(0))):
        last = time.process_time() - began > 60 * minutes
        if last or number % 25 == 0:
            found = evaluate(state.agent.policy, robot, episodes=5, rng=np.random.default_rng(1))
            print(name, number, state.steps, found.returns.mean().round(1), found.episodes.lengths.mean(), flush=True)
            state.agent.policy.save(folder / f"{SHIPPED[name]}.safetensors")
        if last:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("robots", nargs="+")
    parser.add_argument("--minutes", type=float, default=3.0, help="of processor time")
    parser.add_argument("-o", "--output", type=Path, default=POLICIES)
    options = parser.parse_args()
    with one_thread():
        for name in options.robots:
            train_gait(name, options.output, minutes=options.minutes)


if __name__ == "__main__":
    main()
