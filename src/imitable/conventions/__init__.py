"""What usually went wrong with demonstrations that are out of reach: units, orders, signs, frames and rates, each tried on a sample.

Where positions and velocities contradict each other, the contradiction names the mistake. What leaves them in agreement is tried on the
robot itself, and counts only if transitions become reachable. Nothing is applied: a finding carries its conversion.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from imitable.arrays import Generator
from imitable.conventions.base import Conversion, Finding, Trial
from imitable.conventions.joint_order import all_degrees, joint_order
from imitable.conventions.kinematic import differences, missing_velocities, orders, quaternion_order, rates, signs, velocity_frames
from imitable.demonstrations import Demonstrations
from imitable.inverse_dynamics.solved import SolvedInverseDynamics
from imitable.rollouts import Episodes
from imitable.simulators.joint_columns import joint_columns
from imitable.simulators.mujoco import MujocoRobot

__all__ = ["Finding", "diagnose"]

CHECKS = (differences, missing_velocities, quaternion_order, velocity_frames, rates, orders, signs, joint_order, all_degrees)
"""In the order in which mistakes hide one another: differences first, which later ones are converted to, and degrees last, as whatever is
made slow enough is within reach."""
MAX_TRIED, MIN_SURE_SHARE = 100, 0.75
"""Demonstrations that are tried one by one, and the share of transitions of each that must be reachable after a conversion, to say which
ones it concerns: some of a demonstration that is not the robot's own may become reachable by chance."""
REACHABLE = 0.9
"""Share of transitions that are reachable as they are from which on nothing went wrong; and of the others, that a conversion must reach."""
MIN_SHARE, MIN_GAIN = 0.5, 0.3
"""Share of transitions that must be reachable after a conversion, and by how much more than before, where only the robot tells."""


def diagnose(
    demonstrations: Demonstrations, robot: MujocoRobot, inverse_dynamics: SolvedInverseDynamics, own: Episodes, *, rng: Generator
) -> tuple[Finding, ...]:
    """Findings in the order in which their conversions apply; none if nearly all of a sample is reachable as it is.

    `own` are trajectories of the robot itself: as reachable counts what is off by no more than most of their transitions.
    """
    columns = joint_columns(robot)
    trial = Trial.of(robot, inverse_dynamics, own, seed=int(rng.integers(2**31)))
    share, given = trial.share(demonstrations), demonstrations
    findings: list[Finding] = []
    if share >= REACHABLE or not len(columns.positions):
        return ()
    names = robot.observation_names
    for look in CHECKS:
        tried = []
        for option in look(demonstrations, columns, names, trial):
            if option.convert is None:
                findings.append(Finding(option.name, option.text, share, share, _unchanged, option.concerns))
            else:
                if option.unseen:
                    unseen = demonstrations.select(option.unseen)
                    if trial.share(option.convert(unseen)) < max(MIN_SHARE, _wanted(trial.share(unseen))):
                        continue
                tried.append((trial.share(option.convert(demonstrations)), option, option.convert))
        if not tried:
            continue
        after, best, convert = max(tried, key=lambda each: each[0])
        if best.proven or after >= max(MIN_SHARE, _wanted(share)):
            told = f"{best.text}: {after:.0%} of transitions are reachable after conversion, {share:.0%} before"
            if after < _wanted(share):  # resampling, and differences in place of velocities, only come near to what was recorded
                reached = f"{after:.0%} of transitions, {share:.0%} before"
                told = f"{best.text}: positions and velocities say so, though hardly more is within reach after conversion: {reached}"
            findings.append(Finding(best.name, told, share, after, convert, best.concerns))
            demonstrations, share = convert(demonstrations), after
            if share >= MIN_SHARE:
                break
    conversions = [finding.convert for finding in findings if finding.convert is not _unchanged]
    concerns = _put_within_reach(given, conversions, trial) if conversions else ()
    return tuple(finding if finding.convert is _unchanged else replace(finding, concerns=_both(finding, concerns)) for finding in findings)


def _both(finding: Finding, reached: tuple[int, ...]) -> tuple[int, ...]:
    """The demonstrations that are reached, of those that show it if that is known: divided by 57, anything slows down into reach."""
    return tuple(at for at in reached if at in finding.concerns) if finding.concerns else reached


def _wanted(share: float) -> float:
    """The share of transitions from which on a conversion has brought enough more within reach."""
    return share + min(MIN_GAIN, REACHABLE * (1 - share))


def _unchanged(given: Demonstrations) -> Demonstrations:
    return given


def _put_within_reach(given: Demonstrations, conversions: Sequence[Conversion], trial: Trial) -> tuple[int, ...]:
    """Numbers of the demonstrations, of the first `MAX_TRIED`, that the robot reaches once converted, and by far less before."""
    tried = converted = given.select(np.arange(min(len(given), MAX_TRIED)))
    for convert in conversions:
        converted = convert(converted)
    if len(converted) != len(tried):  # some are too short for another frame rate
        return ()
    before, after = trial.shares(tried), trial.shares(converted)
    return tuple(np.flatnonzero((after >= MIN_SURE_SHARE) & (after - before >= MIN_GAIN)).tolist())
