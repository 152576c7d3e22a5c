"""Franka's arm carries an object down to the table past an obstacle: by three joints in a plane, or by all seven.

The paper gives neither dimensions nor rate nor reward; ours are chosen so that returns fall into the range of its table. The arm moves as
told, without dynamics, as in the paper; `panda_bullet.py` judges policies under Bullet's.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from imitable.arrays import Array, Booleans, Generator
from imitable.assessment import Exploration
from imitable.learners import Gail
from imitable.paper.demonstrators import Demonstrators, Mixture, TrainedPolicy
from imitable.paper.expert_training import ExpertTraining
from imitable.paper.panda_arm import ARMS, OBSTACLE, Box, Limits, clearance, mjcf, straight_down, straight_down_tcp
from imitable.paper.panda_demonstrators import ClumsyDetours, pass_beside, pass_in_plane
from imitable.paper.reacher import evenly_spread
from imitable.paper.tasks import Task
from imitable.scores import RectifiedOptimality, ReplayFeasibility
from imitable.simulators import Simulator
from imitable.trpo import Trpo

SPEED = 0.10  # m/s of the TCP at full action
JOINT_SPEED_SHARE = 0.5  # of the joints' velocity limits, that is used
CLEARANCE = 0.010  # m, less is a collision
PLACED_HEIGHT, LOWEST = 0.06, 0.045  # m of the TCP: at most, to have put the object down; where the object meets the table
WORKSPACE_MIDDLE = np.array([0.55, 0.0, 0.30])  # m
DECIMETRES = 10.0  # per metre, in which observations are, so that the paper's delta_s of 0.1 is 1 cm
STEP_COST, COLLISION_COST = 10.0, 1000.0
STATUS = 3  # column of the state
MOVING, PLACED, COLLIDED = 0.0, 1.0, 2.0


@dataclass(frozen=True)
class Panda:
    """The hand stays straight down; actions are velocities of the TCP, along x and z of three joints, along x, y and z of seven.

    State (4): TCP x, y, z [m], status: 0 on the way, 1 once placed, 2 once collided. Observation (3): TCP x, y, z [dm]. A move out of
    reach, or into the table, is refused. Neither the obstacle nor the table's touch stops the arm, they decide the reward alone: what a
    robot can follow must not depend on where the obstacle stands.
    """

    version: ClassVar[int] = 2  # raised when its numbers change

    dof: Literal[3, 7]
    arm: Literal["fer", "fr3"] = "fer"
    obstacle: Box = OBSTACLE
    timestep: float = 0.05  # s
    horizon: int = 150
    shaping: float = 0.0  # further reward per metre of descent, a potential; only to train sub-optimal demonstrators
    observation_names: tuple[str, ...] = ("x", "y", "z")
    action_low: Array = field(init=False)
    action_high: Array = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "action_low", -np.ones(len(self.directions)))
        object.__setattr__(self, "action_high", np.ones(len(self.directions)))

    @property
    def directions(self) -> list[int]:
        """Of x, y and z, those in which the TCP can move."""
        return [0, 2] if self.dof == 3 else [0, 1, 2]

    @property
    def limits(self) -> Limits:
        return ARMS[self.arm]

    def initial_states(self, count: int, rng: Generator) -> Array:
        """Evenly spread, so that of ten experts' demonstrations about half pass on either side; drawn one by one, it may be 1 of 10."""
        states = np.zeros((count, 4))
        along, up = evenly_spread(count, rng)
        states[:, 0], states[:, 2] = 0.53 + 0.06 * along, 0.43 + 0.04 * up
        return states

    def moved(self, places: Array, actions: Array) -> tuple[Array, Array, Array]:
        """Where actions (N, action) lead from TCP places (N, 3), and the joints (N, 7) before and after."""
        clipped = np.clip(actions, self.action_low, self.action_high)
        wanted = places.copy()
        wanted[:, self.directions] += SPEED * self.timestep * clipped / np.maximum(1.0, np.sqrt(np.square(clipped).sum(axis=1)))[:, None]
        (before, _), (after, possible) = straight_down(places, limits=self.limits), straight_down(wanted, limits=self.limits)
        possible &= wanted[:, 2] >= LOWEST
        # Near the edge of its reach the arm would have to turn its joints fast: it goes part of the way, along the joints' straight line,
        # which keeps the hand straight down.
        turns = after - before
        excess = np.abs(turns / (JOINT_SPEED_SHARE * self.timestep * self.limits.velocity)).max(axis=1)
        slowed = possible & (excess > 1)
        joints = np.where(possible[:, None], before + turns / np.maximum(excess, 1.0)[:, None], before)
        wanted[slowed] = straight_down_tcp(joints[slowed])
        return np.where(possible[:, None], wanted, places), before, joints

    def step(self, states: Array, actions: Array) -> Array:
        places, _, joints = self.moved(states[:, :STATUS], actions)
        status = self.judged(states[:, STATUS], places, joints)
        return np.concatenate([places, status[:, None]], axis=1)

    def judged(self, status: Array, places: Array, joints: Array) -> Array:
        """(N,) the status after a step that led to these places and joints; what was placed or collided stays so."""
        found = np.where((status == MOVING) & (places[:, 2] <= PLACED_HEIGHT), PLACED, status)
        height, first_link = self._can_touch
        near = np.flatnonzero((status == MOVING) & (places[:, 2] < height))
        found[near[clearance(joints[near], self.obstacle, first_link=first_link) < CLEARANCE]] = COLLIDED
        return found

    @cached_property
    def _can_touch(self) -> tuple[float, int]:
        """The TCP's height [m] from which on nothing touches the obstacle, and the first link that ever does.

        With the hand straight down, what is carried is the lowest part, 45 mm below the TCP, but for the elbow, which stays above 0.2 m.
        Links before the fourth stay within 0.48 m of the shoulder.
        """
        centre, half = np.array(self.obstacle.centre), np.array(self.obstacle.half_extents)
        top = centre[2] + half[2]
        from_shoulder = np.linalg.norm(np.maximum(np.abs(np.array([0.0, 0.0, 0.333]) - centre) - half, 0.0))
        return top + 0.08 if top < 0.19 else np.inf, 4 if from_shoulder > 0.48 + CLEARANCE else 0

    def observe(self, states: Array) -> Array:
        return np.asarray(DECIMETRES * states[:, :STATUS])

    def restore(self, observations: Array, like: Array | None = None) -> Array:
        """States that the arm can be in: three joints stay in the plane, and all within reach and above the table."""
        states = np.zeros((len(observations), 4)) if like is None else like.copy()
        places = observations / DECIMETRES
        if self.dof == 3:
            places[:, 1] = 0.0
        places[:, 2] = np.maximum(places[:, 2], LOWEST)
        beyond = ~straight_down(places, limits=self.limits)[1]
        places[beyond] = self._within_reach(places[beyond])
        states[:, :STATUS] = places
        return states

    def _within_reach(self, places: Array) -> Array:
        """How far the arm gets from the middle of its workspace towards places (N, 3) beyond it, by bisection."""
        offsets, inside, outside = places - WORKSPACE_MIDDLE, np.zeros(len(places)), np.ones(len(places))
        for _ in range(40):
            middle = (inside + outside) / 2
            possible = straight_down(WORKSPACE_MIDDLE + middle[:, None] * offsets, limits=self.limits)[1]
            inside, outside = np.where(possible, middle, inside), np.where(possible, outside, middle)
        return np.asarray(WORKSPACE_MIDDLE + inside[:, None] * offsets)

    def reward(self, states: Array, actions: Array, next_states: Array) -> Array:
        before, after = states[:, STATUS], next_states[:, STATUS]
        collided = (after == COLLIDED) & (before != COLLIDED)
        sunk = states[:, 2] - next_states[:, 2]
        return np.asarray(-STEP_COST * (before != PLACED) - COLLISION_COST * collided + self.shaping * sunk)

    def terminated(self, states: Array) -> Booleans:
        return np.zeros(len(states), dtype=bool)  # all episodes are equally long, so that no learner gains by ending them

    @property
    def mjcf(self) -> str:
        """The arm as a MuJoCo model, for pictures."""
        return mjcf(limits=self.limits, obstacle=self.obstacle)

    def qpos(self, state: Array) -> Array:
        """(7,) the model's joints in a state."""
        return np.asarray(straight_down(state[None, :STATUS], limits=self.limits)[0][0])


THREE_JOINTS = Panda(dof=3)
SEVEN_JOINTS = Panda(dof=7)


def succeeded(returns: Array, robot: Panda = THREE_JOINTS) -> Booleans:
    """(episode,) which put the object down without a collision: all others pay for every step."""
    return np.asarray(returns > -STEP_COST * robot.horizon)


def transferred() -> Simulator:
    """The arm of three joints under Bullet's dynamics, with latency and noise."""
    from imitable.paper.panda_bullet import TRANSFERS

    return TRANSFERS["typical"]


# Without a reward on the way, ten rounds would find nothing to learn from.
SINKING = ExpertTraining(rounds=0, curriculum=((Panda(dof=3, shaping=1000.0), 10),))


def task(dynamics: str) -> Task:
    """Carry an object past the obstacle with three joints, having seen mostly seven; `3dof-transfer` is judged under Bullet's dynamics."""
    return Task(
        f"panda/{dynamics}",
        Demonstrators(
            THREE_JOINTS,
            SEVEN_JOINTS,
            optimal=pass_in_plane,
            suboptimal=TrainedPolicy("panda-3dof-suboptimal", sampled=True),
            other_optimal=pass_beside,
            mixture=Mixture(optimal=0.01, suboptimal=0.495, other_dynamics=0.495),
        ),
        replay_feasibility=ReplayFeasibility(delta_s=0.1),
        optimality=RectifiedOptimality(sigma=100.0, radius=np.inf),
        paper_exploration=Exploration(episodes=200, steps=None),
        learners={
            "gail": Gail(
                rounds=200,
                # A detour that is 1 cm too short collides, on paths of half a metre: the discriminator must tell places apart that are less
                # than a tenth of the demonstrations' spread away from each other, which the default penalty does not let it.
                gradient_penalty=0.003,
                discriminator_steps=15,
                discriminator_batch_size=256,
                discriminator_learning_rate=3e-3,
                averaged_rounds=20,
                trpo=Trpo(batch_size=5000, n_envs=100, max_kl=0.02, value_epochs=3, value_learning_rate=1e-3, initial_std=0.5),
                checkpoint_every=40,
            )
        },
        evaluated_on=transferred() if dynamics == "3dof-transfer" else None,
        training={} if dynamics.endswith("transfer") else {"suboptimal": SINKING},
    )


def with_generated_demonstrations(dynamics: str) -> Task:
    """The same with sub-optimal demonstrations of the cheap generator, some of which are good."""
    made = task(dynamics)
    return replace(made, demonstrators=replace(made.demonstrators, suboptimal=ClumsyDetours()))
