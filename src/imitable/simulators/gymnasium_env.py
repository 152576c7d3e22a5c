"""Any simulator as a Gymnasium environment."""

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from imitable.arrays import Array
from imitable.simulators.base import Simulator, advance, reward_of

if TYPE_CHECKING:
    from imitable.simulators.rendering import Frame, Renderer


class SimulatorEnv(gymnasium.Env[Array, Array]):
    """One robot of a simulator; the horizon truncates, `terminated` terminates."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(self, simulator: Simulator, render_mode: str | None = None, *, width: int = 640, height: int = 480) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode is {render_mode!r}; these environments have no window, give 'rgb_array' or None")
        self.render_mode = render_mode
        self._renderer: Renderer | None = None
        if render_mode is not None:
            from imitable.simulators import rendering

            self._renderer = rendering.Renderer(simulator, width=width, height=height)
            self.metadata = {**self.metadata, "render_fps": round(1 / rendering.control_timestep(simulator))}
        self.simulator = simulator
        self.action_space = Box(simulator.action_low, simulator.action_high, dtype=np.float64)
        self.observation_space = Box(-np.inf, np.inf, (len(simulator.observation_names),), dtype=np.float64)
        self._state = np.zeros((1, 0))
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._state, self._steps = self.simulator.initial_states(1, self.np_random), 0
        return self.simulator.observe(self._state)[0], {}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        before, actions = self._state, np.asarray(action, dtype=np.float64)[None]
        self._state, diverged = advance(self.simulator, before, actions)
        self._steps += 1
        terminated = bool((self.simulator.terminated(self._state) | diverged)[0])
        truncated = not terminated and self._steps >= self.simulator.horizon
        reward = 0.0 if diverged[0] else float(reward_of(self.simulator, before, actions, self._state)[0])
        return self.simulator.observe(self._state)[0], reward, terminated, truncated, {"diverged": bool(diverged[0])}

    def render(self) -> "Frame | None":
        """(height, width, 3) RGB of where the robot is; None without a render mode."""
        return None if self._renderer is None else self._renderer(self._state[0])

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
