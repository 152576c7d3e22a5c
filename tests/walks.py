"""Random walks of any simulator."""

import numpy as np

from imitable.arrays import Array
from imitable.simulators import Simulator


def walk(simulator: Simulator, *, agents: int = 7, steps: int = 40, seed: int = 0) -> tuple[Array, Array, Array]:
    """Visited states, actions beyond the limits, and the states they led to: (steps * agents, ...) each."""
    rng = np.random.default_rng(seed)
    states, visited = simulator.initial_states(agents, rng), []
    push = rng.uniform(-1.5, 1.5, (agents, 1))  # held, so that joint limits and the edge of the map are reached
    for _ in range(steps):
        actions = push + rng.uniform(-0.5, 0.5, (agents, len(simulator.action_low)))
        next_states = simulator.step(states, actions)
        visited.append((states, actions, next_states))
        states = next_states
    before, taken, after = (np.concatenate(each) for each in zip(*visited, strict=True))
    return before, taken, after
