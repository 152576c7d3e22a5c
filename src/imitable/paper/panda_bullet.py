"""The three-joint arm under Bullet's dynamics: another engine, other geometry, and faults that real arms have (extra `bullet`).

Policies that learned on the kinematic arm are judged here. This is a simulated transfer; it proves nothing about a real robot.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from imitable.arrays import Array, Booleans, Generator
from imitable.errors import ImitableError, check_fields
from imitable.paper.panda import CLEARANCE, COLLIDED, DECIMETRES, MOVING, PLACED, PLACED_HEIGHT, THREE_JOINTS, Panda
from imitable.paper.panda_arm import CARRIED, Box, link_frames, straight_down, tcp

SUBSTEPS_PER_SECOND = 240
POSTURE_GAIN = 5.0  # 1/s, by which joints that have strayed are brought back; slow enough to be stable with latency
FINGERS, FINGER_OPENING = (9, 10), 0.025  # links of Bullet's model; m to either side
JOINTS, VELOCITIES, STATUS, NOISE, SEED, COMMANDS = slice(0, 7), slice(7, 14), 14, slice(15, 18), 18, 19
"""Columns of the state; commands under way are the last ones."""


@dataclass(frozen=True)
class Faults:
    """What is not as it was in training."""

    latency: float = 0.0  # s, from an observation to the command that follows from it
    noise: float = 0.0  # m, standard deviation of every observed coordinate
    damping: float = 0.0  # N m s/rad of every joint
    gain: float = 1.0  # the share of a commanded velocity that is carried out

    def __post_init__(self) -> None:
        names = ("latency", "noise", "damping")
        check_fields(
            self,
            *((name, 0 <= getattr(self, name) < np.inf, "at least 0 and finite") for name in names),
            ("gain", 0 < self.gain < np.inf, "above 0 and finite"),
        )


@dataclass(frozen=True)
class BulletPanda:
    """Actions become joint velocities, which Bullet's motors follow within their torques; joints 1, 3, 5 and 7 are held.

    State (19 + 7 per step of latency): joints [rad], their velocities [rad/s], status as of `Panda`, noise of the observation [m], seed of
    the next noise, joint velocities that were commanded and wait. Observation (3): TCP x, y, z [dm], with noise.
    """

    version: ClassVar[int] = 2  # raised when its numbers change

    panda: Panda = THREE_JOINTS
    faults: Faults = field(default_factory=Faults)
    observation_names: tuple[str, ...] = ("x", "y", "z")

    @property
    def horizon(self) -> int:
        return self.panda.horizon

    @property
    def action_low(self) -> Array:
        return self.panda.action_low

    @property
    def action_high(self) -> Array:
        return self.panda.action_high

    @property
    def substeps(self) -> int:
        """Of Bullet in one control step."""
        return round(self.panda.timestep * SUBSTEPS_PER_SECOND)

    @property
    def delay(self) -> int:
        """Substeps from an observation to its command."""
        return round(self.faults.latency * SUBSTEPS_PER_SECOND)

    @property
    def waiting(self) -> int:
        """Commands that a state holds."""
        return -(-self.delay // self.substeps)

    def initial_states(self, count: int, rng: Generator) -> Array:
        return self._with_noise(
            self._at_rest(self.panda.initial_states(count, rng)[:, :3]), rng.integers(2**52, size=count).astype(np.float64)
        )

    def _at_rest(self, places: Array) -> Array:
        states = np.zeros((len(places), COMMANDS + 7 * self.waiting))
        states[:, JOINTS] = straight_down(places, limits=self.panda.limits)[0]
        return states

    def _with_noise(self, states: Array, seeds: Array) -> Array:
        """With new noise, which the seeds (N,) decide."""
        for state, seed in zip(states, seeds, strict=True):
            rng = np.random.default_rng(int(seed))
            state[NOISE], state[SEED] = self.faults.noise * rng.standard_normal(3), rng.integers(2**52)
        return states

    def step(self, states: Array, actions: Array) -> Array:
        moved = states.copy()
        commands = np.concatenate([self._commands(states, actions)[:, None], states[:, COMMANDS:].reshape(len(states), -1, 7)], axis=1)
        world = _world(self.panda.obstacle, self.faults.damping)
        touching = np.zeros(len(states), dtype=bool)
        ages = [max(0, -(-(self.delay - substep) // self.substeps)) for substep in range(self.substeps)]  # of what acts, in control steps
        for row, (state, latest) in enumerate(zip(moved, commands, strict=True)):
            if np.isfinite(latest).all():
                state[:14], touching[row] = world.run(state[:14], self.faults.gain * latest[ages])
        moved[:, COMMANDS:] = commands[:, : self.waiting].reshape(len(states), -1)
        down = tcp(moved[:, JOINTS])[:, 2] <= PLACED_HEIGHT
        now = np.where(touching, COLLIDED, np.where(down, PLACED, MOVING))
        moved[:, STATUS] = np.where(states[:, STATUS] == MOVING, now, states[:, STATUS])
        moved = self._with_noise(moved, states[:, SEED])
        moved[~np.isfinite(commands).all(axis=(1, 2))] = np.nan
        return moved

    def _commands(self, states: Array, actions: Array) -> Array:
        """(N, 7) joint velocities that move the TCP as told, and lead the arm back into the plane with its hand straight down."""
        joints = states[:, JOINTS]
        places = tcp(joints) * (1.0, 0.0, 1.0)
        _, before, after = self.panda.moved(places, actions)
        commands = (after - before) / self.panda.timestep + POSTURE_GAIN * (before - joints)
        commands[~np.isfinite(actions).all(axis=1)] = np.nan
        return np.asarray(commands)

    def observe(self, states: Array) -> Array:
        return np.asarray(DECIMETRES * (tcp(states[:, JOINTS]) + states[:, NOISE]))

    def restore(self, observations: Array, like: Array | None = None) -> Array:
        states = self._at_rest(self.panda.restore(observations)[:, :3])
        if like is not None:
            states[:, 7:] = like[:, 7:]
            states[:, NOISE] = 0.0
        return states

    def reward(self, states: Array, actions: Array, next_states: Array) -> Array:
        before, after = (np.stack([each[:, STATUS]] * 4, axis=1) for each in (states, next_states))
        return self.panda.reward(before, actions, after)  # which looks at the status alone

    def terminated(self, states: Array) -> Booleans:
        return np.zeros(len(states), dtype=bool)

    @property
    def timestep(self) -> float:
        return self.panda.timestep

    @property
    def mjcf(self) -> str:
        return self.panda.mjcf

    def qpos(self, state: Array) -> Array:
        return state[JOINTS]


TRANSFERS: Final = {
    "ideal": BulletPanda(),
    "typical": BulletPanda(faults=Faults(latency=0.05, noise=0.002, damping=0.5)),
    "poor": BulletPanda(faults=Faults(latency=0.10, noise=0.004, gain=0.9)),
    "late": BulletPanda(faults=Faults(latency=0.20, noise=0.002)),
    "10 Hz": BulletPanda(panda=Panda(dof=3, timestep=0.1, horizon=75), faults=Faults(latency=0.10, noise=0.002)),
}
"""Named settings."""


class _World:
    """One arm, the table and the obstacle in a Bullet client of their own; every run begins where it is told."""

    def __init__(self, obstacle: Box, damping: float) -> None:
        with _quiet():
            try:
                import pybullet
                import pybullet_data
            except ImportError:
                raise ImitableError("the arm's transfer needs Bullet; install it with pip install 'imitable[bullet]'") from None
        self.bullet: Any = pybullet
        self.client = pybullet.connect(pybullet.DIRECT)
        here = {"physicsClientId": self.client}
        pybullet.setGravity(0, 0, -9.81, **here)
        pybullet.setTimeStep(1 / SUBSTEPS_PER_SECOND, **here)
        model = Path(pybullet_data.getDataPath()) / "franka_panda" / "panda.urdf"
        self.arm = pybullet.loadURDF(str(model), useFixedBase=True, **here)
        for link in range(-1, pybullet.getNumJoints(self.arm, **here)):
            pybullet.changeDynamics(self.arm, link, linearDamping=0, angularDamping=0, jointDamping=damping if link < 7 else 0, **here)
        box = pybullet.createCollisionShape(pybullet.GEOM_BOX, halfExtents=obstacle.half_extents, **here)
        self.obstacle = pybullet.createMultiBody(0, box, basePosition=obstacle.centre, **here)
        length = CARRIED.end[2] - CARRIED.start[2]
        capsule = pybullet.createCollisionShape(pybullet.GEOM_CAPSULE, radius=CARRIED.radius, height=length, **here)
        self.carried = pybullet.createMultiBody(0, capsule, **here)  # placed by hand, to measure its distance to the obstacle
        pybullet.setCollisionFilterGroupMask(self.carried, -1, 0, 0, **here)
        self.forces = [87.0] * 4 + [12.0] * 3
        self.here = here

    def run(self, motion: Array, commands: Array) -> tuple[Array, bool]:
        """From joints and velocities (14,), one substep per commanded velocity (substep, 7): those after it, and whether it touches."""
        bullet, here = self.bullet, self.here
        for joint in range(7):
            bullet.resetJointState(self.arm, joint, motion[joint], motion[7 + joint], **here)
        for joint in FINGERS:
            bullet.resetJointState(self.arm, joint, FINGER_OPENING, 0.0, **here)
        previous = None
        for command in commands:
            if previous is None or not np.array_equal(command, previous):
                bullet.setJointMotorControlArray(
                    self.arm, range(7), bullet.VELOCITY_CONTROL, targetVelocities=command.tolist(), forces=self.forces, **here
                )
                previous = command
            bullet.stepSimulation(**here)
        found = bullet.getJointStates(self.arm, range(7), **here)
        motion = np.array([[state[0] for state in found], [state[1] for state in found]])
        return motion.ravel(), self._touches(motion[:1])

    def _touches(self, joints: Array) -> bool:
        """Whether arm or carried object are nearer to the obstacle than they may be."""
        axes, origins = link_frames(joints)
        middle = origins[8, :, 0] + axes[8, 2, :, 0] * (CARRIED.start[2] + CARRIED.end[2]) / 2
        self.bullet.resetBasePositionAndOrientation(self.carried, middle.tolist(), [0, 0, 0, 1], **self.here)
        bodies = (self.arm, self.carried)
        return any(self.bullet.getClosestPoints(body, self.obstacle, CLEARANCE, **self.here) for body in bodies)


@cache
def _world(obstacle: Box, damping: float) -> _World:
    return _World(obstacle, damping)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what libraries print past Python, as Bullet does when it is imported."""
    nowhere, kept = os.open(os.devnull, os.O_WRONLY), [os.dup(number) for number in (1, 2)]
    try:
        for number in (1, 2):
            os.dup2(nowhere, number)
        yield
    finally:
        for number, original in zip((1, 2), kept, strict=True):
            os.dup2(original, number)
            os.close(original)
        os.close(nowhere)
