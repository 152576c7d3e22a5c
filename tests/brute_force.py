"""Eqs. 1 and 3 to 7 of the paper, one demonstration, one step and one pair at a time: what the package's scores are checked against.

Written from the paper's text, not from the package: nothing here is batched, sorted, cached or shared between demonstrations. From the
package come only the robot and its inverse dynamics, called with one state at a time.
"""

import math
from collections.abc import Sequence

import numpy as np

from imitable.arrays import Array, Generator
from imitable.inverse_dynamics import InverseDynamics
from imitable.simulators import Simulator

Trajectory = list[list[float]]
"""The observations of one demonstration, one after the other."""


def tracked(demonstration: Trajectory, robot: Simulator, f_id: InverseDynamics) -> Trajectory:
    """xi' of eq. 1: s'_0 = s_0, a'_t = f_id(s'_{t-1}, s_t), s'_t from the robot."""
    state = robot.restore(_one(demonstration[0]))
    reached = [list(demonstration[0])]
    for goal in demonstration[1:]:
        action = f_id(state, _one(goal)).actions
        state = robot.step(state, action)
        reached.append(robot.observe(state)[0].tolist())
    return reached


def chased_perturbed(
    trajectories: Sequence[Trajectory], robot: Simulator, f_id: InverseDynamics, *, delta_s: float, rng: Generator
) -> list[Trajectory]:
    """xi''_f of eq. 7 for trajectories of one length: as in eq. 1, but every state that is reached is moved by up to delta_s.

    The order of the draws is step by step, in each step trajectory by trajectory, in each trajectory column by column.
    """
    assert len({len(trajectory) for trajectory in trajectories}) == 1
    states = [robot.restore(_one(trajectory[0])) for trajectory in trajectories]
    reached = [[list(trajectory[0])] for trajectory in trajectories]
    for time in range(1, len(trajectories[0])):
        for number, trajectory in enumerate(trajectories):
            action = f_id(states[number], _one(trajectory[time])).actions
            sample = robot.step(states[number], action)
            moved = [column + rng.uniform(-delta_s, delta_s) for column in robot.observe(sample)[0].tolist()]
            states[number] = robot.restore(_one(moved), like=sample)
            reached[number].append(robot.observe(states[number])[0].tolist())
    return reached


def trajectory_distance(demonstration: Trajectory, reached: Trajectory, *, columns: Sequence[int]) -> float:
    """F of eq. 3: the mean of the l2 distances between corresponding states; the first ones are the same and not counted."""
    total = 0.0
    for wanted, found in list(zip(demonstration, reached, strict=True))[1:]:
        total += math.sqrt(sum((wanted[column] - found[column]) ** 2 for column in columns))
    return total / (len(demonstration) - 1)


def feasibility(distance: float, *, d_min: float, d_max: float) -> float:
    """w_f, eq. 3."""
    if distance < d_min:
        return 1.0
    if distance > d_max:
        return 0.0
    return 1.0 - (distance - d_min) / (d_max - d_min)


def rectified_returns(returns: Sequence[float], starts: Sequence[Sequence[float]], w_f: Sequence[float], *, radius: float) -> list[float]:
    """f_rec of eq. 5, pair by pair: the best return of a feasible demonstration that starts nearer than the radius.

    A demonstration counts for itself, feasible or not, so that no return exceeds the one it is compared with.
    """
    best = []
    for own_return, own_start in zip(returns, starts, strict=True):
        highest = own_return
        for other_return, other_start, other_w_f in zip(returns, starts, w_f, strict=True):
            apart = math.sqrt(sum((mine - theirs) ** 2 for mine, theirs in zip(own_start, other_start, strict=True)))
            if apart < radius and other_w_f > 0 and other_return > highest:
                highest = other_return
        best.append(highest)
    return best


def optimality(own_return: float, best_return: float, *, sigma: float) -> float:
    """w_o, eq. 4."""
    return math.exp(-((own_return - best_return) ** 2) / (2 * sigma**2))


def transition_probabilities(weights: Sequence[float], lengths: Sequence[int]) -> list[float]:
    """p_w: every transition has the weight of its demonstration, divided by the sum over all transitions."""
    each = []
    for weight, length in zip(weights, lengths, strict=True):
        for _ in range(length):
            each.append(weight)  # noqa: PERF401
    total = math.fsum(each)
    return [weight / total for weight in each]


def _one(observation: Sequence[float]) -> Array:
    return np.array([observation], dtype=np.float64)
