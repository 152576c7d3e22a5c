"""Every dynamics as a registered Gymnasium environment."""

from importlib import import_module
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from imitable.arrays import Array
from imitable.simulators.base import Simulator, advance, earned

DYNAMICS = {
    "ReacherClockwise": ("reacher", "CLOCKWISE"),
    "ReacherCounterClockwise": ("reacher", "COUNTER_CLOCKWISE"),
    "DrivingSlow": ("driving", "SLOW"),
    "DrivingFast": ("driving", "FAST"),
    "SwimmerBackDisabled": ("swimmer", "BACK_DISABLED"),
    "SwimmerFrontDisabled": ("swimmer", "FRONT_DISABLED"),
    "AntXAxis": ("ant", "X_AXIS"),
    "AntYAxis": ("ant", "Y_AXIS"),
}
"""Environment names to the module and the name of their simulator, which is imported when an environment is made."""


def register() -> None:
    """Make `gymnasium.make("imitable/ReacherClockwise-v0")` and its like work; done by `import imitable`."""
    for name in DYNAMICS:
        identifier = f"imitable/{name}-v0"
        if identifier not in gymnasium.registry:
            gymnasium.register(identifier, entry_point=f"{__name__}:SimulatorEnv", kwargs={"dynamics": name})


def _named(dynamics: str) -> Simulator:
    module, name = DYNAMICS[dynamics]
    simulator: Simulator = getattr(import_module(f"imitable.simulators.{module}"), name)
    return simulator


class SimulatorEnv(gymnasium.Env[Array, Array]):
    """One agent of a simulator; the horizon truncates, `finished` terminates."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, dynamics: str | Simulator, render_mode: str | None = None) -> None:
        if render_mode is not None:
            raise ValueError(f"render_mode is {render_mode!r}; these environments have no pictures, leave it None")
        self.render_mode = render_mode
        self.simulator = simulator = _named(dynamics) if isinstance(dynamics, str) else dynamics
        self.action_space = Box(simulator.action_low, simulator.action_high, dtype=np.float64)
        self.observation_space = Box(-np.inf, np.inf, (len(simulator.observed),), dtype=np.float64)
        self._state = np.zeros((1, 0))
        self._age = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._state, self._age = self.simulator.initial_states(1, self.np_random), 0
        return self.simulator.observe(self._state)[0], {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        before, actions = self._state, np.asarray(action, dtype=np.float64)[None]
        self._state, diverged = advance(self.simulator, before, actions)
        self._age += 1
        finished = bool((self.simulator.finished(self._state) | diverged)[0])
        truncated = not finished and self._age >= self.simulator.horizon
        reward = 0.0 if diverged[0] else float(earned(self.simulator, before, actions, self._state)[0])
        return self.simulator.observe(self._state)[0], reward, finished, truncated, {"diverged": bool(diverged[0])}
