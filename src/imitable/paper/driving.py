"""A car that steers past an obstacle to a goal, at a low or a high speed.

The geometry, the speed controller and the rewards are those of the paper's released environment, but the controller's memory is
part of the state: there it leaked from one episode into the next.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from imitable.arrays import Array, Booleans, Generator
from imitable.assessment import Exploration
from imitable.learners import Cloning
from imitable.paper.demonstrators import Demonstrators, Mixture, TrainedPolicy
from imitable.paper.expert_training import ExpertTraining
from imitable.paper.tasks import Task
from imitable.scores import RectifiedOptimality, ReplayFeasibility

TIMESTEP = 0.1  # s
WORLD = np.array([30.0, 40.0])  # m, x and y
OBSTACLE = (np.array([15.0, 17.0]), np.array([3.0, 0.5]))  # m, centre and half extents
GOAL = (np.array([15.0, 38.0]), np.array([1.0, 1.0]))  # m
CAR = np.array([1.0, 0.5])  # m, half length and half width
STEERING = 0.1  # 1/m of curvature at full action: a turning radius of 10 m at any speed
FRICTION = 0.06  # 1/s
STRONGEST_ACCELERATION = 4.0  # m/s^2
STEERING_GAIN = 3.0  # of the hand-made driver: full steering from 19 degrees off
X, Y, VX, VY, HEADING, TURN_RATE, ACCELERATION, INTEGRAL, PREVIOUS_ERROR = range(9)


@dataclass(frozen=True)
class Driving:
    """Steering is the action; a PID controller holds the forward speed.

    State (9): x, y [m], vx, vy [m/s], heading [rad], turn rate [rad/s], acceleration [m/s^2], and the controller's integral and
    previous error. Observation (7): x and y scaled to [-1, 1], velocities in units of the car's own speed, the rest as it is.
    """

    version: ClassVar[int] = 1  # raised when its numbers change
    timestep: ClassVar[float] = TIMESTEP

    speed: float  # m/s, the only difference between the two dynamics
    horizon: int = 300
    action_low: Array = field(default_factory=lambda: np.array([-1.0]))
    action_high: Array = field(default_factory=lambda: np.array([1.0]))
    observation_names: tuple[str, ...] = ("x", "y", "velocity x", "velocity y", "heading", "turn rate", "acceleration")

    def initial_states(self, count: int, rng: Generator) -> Array:
        """Uniform over the band below the obstacle and the tapering area above it, heading for the goal's side."""
        places = np.empty((0, 2))
        while len(places) < count:
            x, y = 10.0 + 10.0 * rng.random(4 * count), 2.0 + 34.0 * rng.random(4 * count)
            aside = np.abs(x - 15.0)
            allowed = ~((aside < 5.0) & (y > 7.0) & (y < 23.0)) & (y < 2.8 * (7.5 - aside) + 17.0)
            places = np.concatenate([places, np.stack([x, y], axis=1)[allowed]])
        states = np.zeros((count, 9))
        states[:, [X, Y]] = places[:count]
        states[:, VY] = self.speed
        states[:, HEADING] = np.pi / 2
        return states

    def step(self, states: Array, actions: Array) -> Array:
        x, y, vx, vy, heading, turn_rate, acceleration, integral, previous_error = states.T
        error = 1.0 - vy / self.speed  # of the forward velocity, not of the speed
        integral = integral + TIMESTEP * error
        drive = 3.0 * error + integral + 6.0 * TIMESTEP * (error - previous_error)
        speed = np.hypot(vx, vy)
        next_turn_rate = speed * STEERING * np.clip(actions[:, 0], -1.0, 1.0)
        next_acceleration = np.clip(drive, -STRONGEST_ACCELERATION, STRONGEST_ACCELERATION) - FRICTION * speed
        next_heading = heading + 0.5 * TIMESTEP * (turn_rate + next_turn_rate)
        next_speed = np.maximum(0.0, speed + 0.5 * TIMESTEP * (acceleration + next_acceleration))
        middle_speed, middle_heading = (speed + next_speed) / 2, (heading + next_heading) / 2
        next_vx, next_vy = middle_speed * np.cos(middle_heading), middle_speed * np.sin(middle_heading)
        next_x, next_y = x + 0.5 * TIMESTEP * (vx + next_vx), y + 0.5 * TIMESTEP * (vy + next_vy)
        moved = (next_x, next_y, next_vx, next_vy, next_heading, next_turn_rate, next_acceleration, integral, error)
        return np.stack(moved, axis=1)

    def observe(self, states: Array) -> Array:
        observations = states[:, :INTEGRAL].copy()
        observations[:, [X, Y]] = 2.0 * (states[:, [X, Y]] / WORLD - 0.5)
        observations[:, [VX, VY]] /= self.speed
        return observations

    def restore(self, observations: Array, like: Array | None = None) -> Array:
        states = np.zeros((len(observations), 9))
        states[:, :INTEGRAL] = observations
        states[:, [X, Y]] = (observations[:, [X, Y]] / 2.0 + 0.5) * WORLD
        states[:, [VX, VY]] *= self.speed
        if like is None:
            states[:, PREVIOUS_ERROR] = 1.0 - observations[:, VY]  # no derivative kick at the first step
        else:
            states[:, INTEGRAL:] = like[:, INTEGRAL:]
        return states

    def reward(self, states: Array, actions: Array, next_states: Array) -> Array:
        places, heading = next_states[:, [X, Y]], next_states[:, HEADING]
        touching_goal, touching_obstacle = touches(places, heading, *GOAL), touches(places, heading, *OBSTACLE)
        return np.asarray(-1.0 + 100.0 * touching_goal - 1000.0 * touching_obstacle - 10000.0 * outside(places))

    def terminated(self, states: Array) -> Booleans:
        places = states[:, [X, Y]]
        return outside(places) | touches(places, states[:, HEADING], *GOAL)

    def draw(self, axes: Any, state: Array) -> None:
        """The map and the car, for pictures."""
        from matplotlib.patches import Polygon, Rectangle

        axes.add_patch(Rectangle((0, 0), *WORLD, facecolor="#f4f2ec", edgecolor="#303030"))
        for (centre, half), colour in ((OBSTACLE, "#4a4a4a"), (GOAL, "#2a9d6f")):
            axes.add_patch(Rectangle(centre - half, *(2 * half), facecolor=colour))
        along = np.array([np.cos(state[HEADING]), np.sin(state[HEADING])])
        across = np.array([-along[1], along[0]])
        corners = [state[[X, Y]] + s * CAR[0] * along + t * CAR[1] * across for s, t in ((1, 1), (1, -1), (-1, -1), (-1, 1))]
        axes.add_patch(Polygon(corners, facecolor="#c8553d", edgecolor="#303030"))
        axes.set(xlim=(-1, WORLD[0] + 1), ylim=(-1, WORLD[1] + 1), aspect="equal", xlabel="x [m]", ylabel="y [m]")


def outside(places: Array) -> Booleans:
    """(N,) whether the car's centre has left the map."""
    return np.asarray(((places < 0.0) | (places > WORLD)).any(axis=1))


def touches(places: Array, headings: Array, centre: Array, half_extents: Array) -> Booleans:
    """(N,) whether the car's rectangle meets an axis-aligned one, by the separating-axis theorem."""
    offsets = places - centre
    along = np.stack([np.cos(headings), np.sin(headings)], axis=1)
    across = np.stack([-along[:, 1], along[:, 0]], axis=1)
    reach_of_car = np.abs(along) * CAR[0] + np.abs(across) * CAR[1]
    apart = (np.abs(offsets) > half_extents + reach_of_car).any(axis=1)
    for axis, half in ((along, CAR[0]), (across, CAR[1])):
        apart |= np.abs((offsets * axis).sum(axis=1)) > half + (np.abs(axis) * half_extents).sum(axis=1)
    return np.asarray(~apart)


SLOW = Driving(speed=3.0)
FAST = Driving(speed=9.0)


def drive(observations: Array, rng: Generator) -> Array:
    """A hand-made driver, at any speed: point at a place beside the obstacle, then at the goal."""
    (x, y), heading = ((observations[:, :2] / 2 + 0.5) * WORLD).T, observations[:, HEADING]
    (obstacle_x, obstacle_y), (goal_x, goal_y) = OBSTACLE[0], GOAL[0]
    # Pass on the side the car is heading for, not the one it is on: a car that has begun to swerve does not turn back.
    arrives = x + np.clip(obstacle_y - y, 0, None) * np.cos(heading) / np.maximum(np.sin(heading), 0.3)
    side = np.where(arrives >= obstacle_x, 1.0, -1.0)
    aside = side * (x - obstacle_x)
    swerving, passed = aside < 4.6, y >= obstacle_y + 1.5
    aim_x = np.where(passed, goal_x, obstacle_x + side * np.where(swerving, 5.2, np.maximum(aside, 5.0)))
    aim_y = np.where(passed, goal_y, np.where(swerving, np.maximum(obstacle_y - 0.5, y + 1.5), y + 5.0))
    # Steering by the bearing turns hard first and then runs straight. A pursuit along arcs would steer as it steered before all the
    # way, and whoever clones it learns just that: to repeat the last action, which the turn rate gives away.
    bearing = np.arctan2(aim_y - y, aim_x - x) - heading
    return np.asarray(np.clip(STEERING_GAIN * bearing, -1.0, 1.0)[:, None])


def task(dynamics: str) -> Task:
    """Drive past an obstacle to the goal with a slow or a fast car."""
    target, other = (SLOW, FAST) if dynamics == "slow" else (FAST, SLOW)
    return Task(
        f"driving/{dynamics}",
        Demonstrators(
            target,
            other,
            optimal=drive,
            suboptimal=TrainedPolicy(f"driving-{dynamics}-suboptimal", sampled=True),
            other_optimal=drive,
            mixture=Mixture(optimal=0.30, suboptimal=0.60, other_dynamics=0.10),
        ),
        # All columns, as the paper says; the raw acceleration of another speed differs by friction x speed difference.
        replay_feasibility=ReplayFeasibility(delta_s=0.001),
        optimality=RectifiedOptimality(sigma=100.0, radius=0.1, columns=(0, 1)),
        paper_exploration=Exploration(episodes=400, steps=None),
        # The turn rate gives away the last action, which a clone learns to repeat unless noise hides it.
        learners={"cloning": Cloning(updates=60_000, batch_size=128, observation_noise=0.2, activation="relu", checkpoint_every=15_000)},
        training={"suboptimal": ExpertTraining(rounds=10)},
    )
