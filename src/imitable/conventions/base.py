"""What a finding is, the trial on the robot that proves it, and the conversions that findings are made of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from imitable.arrays import Array, Booleans, Integers
from imitable.demonstrations import Demonstrations
from imitable.inverse_dynamics import floored_scale
from imitable.inverse_dynamics.solved import Solved, SolvedInverseDynamics
from imitable.rollouts import Episodes
from imitable.simulators.mujoco import MujocoRobot
from imitable.windows import FOLLOWED

Conversion = Callable[[Demonstrations], Demonstrations]
Names = Sequence[str]
DEGREES = 180 / np.pi
SAMPLE, FEW = 48, 8
"""Transitions that a share is measured on, of all demonstrations and of each."""


MOVING = 0.1
"""Of the speed that one transition in ten exceeds: slower ones are at rest."""


@dataclass(frozen=True)
class Finding:
    """What seems to be wrong with demonstrations, and how to put it right."""

    name: str
    """`missing velocities`, `quaternion order`, `velocity frame`, `frame rate`, `degrees`, `differences`, `permuted joints` or `flipped
    joints`."""
    sentence: str
    share_before: float
    """Of sampled transitions, how many the robot reaches as they are."""
    share_after: float
    """And converted."""
    convert: Conversion
    """Leaves demonstrations as they are where none puts it right."""
    concerns: tuple[int, ...] = ()
    """Numbers of the demonstrations, of those tried one by one, that the robot reaches once all findings' conversions are applied, and
    did not before."""


@dataclass(frozen=True)
class Option:
    """A conversion to try; `proven` by positions and velocities alone, or else to be proven on the robot."""

    name: str
    text: str
    convert: Conversion | None
    """None: it is proven, but no conversion puts it right."""
    proven: bool
    concerns: tuple[int, ...] = ()
    """Numbers of the demonstrations that show it; () where that is not known."""
    unseen: tuple[int, ...] = ()
    """Of what was searched for: the demonstrations that were not searched with, on which it must prove itself; () of anything else."""


@dataclass(frozen=True)
class Trial:
    """How much of a sample the robot reaches."""

    robot: MujocoRobot
    own: Demonstrations
    """Trajectories of the robot itself."""
    scale: Array
    """(observation,) above 0, also of columns that the robot never moves."""
    fine: Solved
    quick: Solved
    """Tried first: what it leaves far off is not searched any further."""
    seed: int
    limit: float = FOLLOWED
    """A miss up to which a transition counts as reachable."""
    far: float = np.inf
    """A miss that the quick solver leaves of no own transition."""

    @classmethod
    def of(cls, robot: MujocoRobot, inverse_dynamics: SolvedInverseDynamics, own: Episodes, *, seed: int) -> "Trial":
        fine = inverse_dynamics.solver.for_tracking(0.0)
        trial = cls(
            robot, own.trajectories, floored_scale(inverse_dynamics.scale), fine, replace(fine, tolerance=FOLLOWED, searches=2), seed
        )
        before, after = trial.sample(own.trajectories, SAMPLE)
        quick = trial.misses(before, after, trial.quick)
        limit = np.quantile(trial.misses(before, after, fine), 0.9)
        return replace(trial, limit=max(FOLLOWED, float(limit)), far=2 * max(FOLLOWED, float(quick[np.isfinite(quick)].max(initial=0.0))))

    def rows(self, data: Demonstrations, count: int) -> Integers:
        """(N,) of transitions between observations that determine the state, if there are such, of those in which anything moves: at rest
        every convention looks right."""
        rows = data.transition_rows
        speeds = np.sqrt(np.square((data.observations[rows + 1] - data.observations[rows]) / self.scale).mean(axis=1))
        rows = rows[~(speeds < MOVING * np.quantile(speeds, 0.9))]  # never none
        whole = self.robot.restorable(data.observations[rows]) & self.robot.restorable(data.observations[rows + 1])
        rows = rows[whole] if whole.any() else rows
        return np.sort(np.random.default_rng(self.seed).permutation(rows)[:count])

    def sample(self, data: Demonstrations, count: int) -> tuple[Array, Array]:
        """(N, observation) each: before and after a step."""
        rows = self.rows(data, count)
        return data.observations[rows], data.observations[rows + 1]

    def misses(self, before: Array, after: Array, solver: Solved) -> Array:
        """(N,) how far the robot stays from where transitions lead."""
        return solver.solve(self.robot, self.robot.restore(before), after, scale=self.scale).miss

    def share(self, data: Demonstrations) -> float:
        """Of a sample, how many transitions the robot reaches."""
        return float(self._reached(*self.sample(data, SAMPLE)).mean())

    def shares(self, data: Demonstrations) -> Array:
        """(demo,) of a few transitions of each, how many the robot reaches."""
        rows = [self.rows(data.select([demo]), FEW) + data.starts[demo] for demo in range(len(data))]
        at, counts = np.concatenate(rows), np.array([len(each) for each in rows])
        reached = self._reached(data.observations[at], data.observations[at + 1])
        return np.asarray(np.add.reduceat(reached.astype(np.float64), np.cumsum(counts) - counts) / counts)

    def _reached(self, before: Array, after: Array) -> Booleans:
        """(N,) which transitions the robot reaches."""
        reached = np.asarray(self.misses(before, after, self.quick) <= self.far)
        if reached.any():
            reached[reached] = self.misses(before[reached], after[reached], self.fine) <= self.limit
        return reached


def with_observations(given: Demonstrations, observations: Array, lengths: Integers | None = None) -> Demonstrations:
    """The same demonstrations, observed otherwise."""
    lengths = given.lengths if lengths is None else lengths
    return Demonstrations(observations, lengths, given.returns, given.sources, given.observation_names)


def reordered(given: Demonstrations, columns: Integers, taken_from: Integers) -> Demonstrations:
    """With other columns in the place of these."""
    changed = given.observations.copy()
    changed[:, columns] = given.observations[:, taken_from]
    return with_observations(given, changed)


def rescaled(given: Demonstrations, columns: Integers, factor: float) -> Demonstrations:
    """With these columns multiplied by a factor."""
    changed = given.observations.copy()
    changed[:, columns] *= factor
    return with_observations(given, changed)


def listed(names: Sequence[str], most: int = 4) -> str:
    """Some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
