"""A problem of twelve demonstrations and its scores; run as a script (`make golden`), it rewrites golden.json."""

import json
from pathlib import Path

import numpy as np

from imitable.demonstrations import Demonstrations
from imitable.problem import Problem, Tolerance
from imitable.replay import replay
from imitable.sampling import TransitionSampler
from imitable.scores import best_returns, feasibility, product, rectified_optimality
from turntable import CLOCKWISE, SETTINGS, ExactInverse

GOLDEN = Path(__file__).parent / "golden.json"


def twelve_demonstrations() -> Demonstrations:
    """Turns from three neighbourhoods of goals, of 3 to 14 steps; every third one now and then turns the wrong way."""
    trajectories, returns = [], []
    for number in range(12):
        goal = (-2.0, 0.3, 2.1)[number % 3] + 0.05 * number
        speeds = -(0.2 + 0.15 * number) * np.ones(3 + number)  # rad/s
        if number % 3 == 2:
            speeds[:: 2 + number // 3] *= -1
        joints = np.concatenate([[0.0], np.cumsum(0.05 * speeds)])
        states = CLOCKWISE.observe(np.stack([joints, np.full(len(joints), goal)], axis=1))
        trajectories.append(states)
        passed = CLOCKWISE.restore(states)
        returns.append(float(CLOCKWISE.reward(passed[:-1], passed[1:]).sum()))
    return Demonstrations(np.concatenate(trajectories), [len(each) - 1 for each in trajectories], returns)


def twelve_problem() -> Problem:
    demonstrations, inverse = twelve_demonstrations(), ExactInverse(CLOCKWISE)
    return Problem(
        demonstrations,
        CLOCKWISE,
        SETTINGS,
        inverse,
        replay(demonstrations, CLOCKWISE, inverse),
        Tolerance(closest=0.002, farthest=0.0185),
        own_distances=np.zeros(1),
        step_scale=np.full(4, 0.1),
    )


def golden_numbers() -> dict[str, list[float]]:
    problem = twelve_problem()
    weights = product(feasibility, rectified_optimality)(problem)
    return {
        "w_f": feasibility(problem).tolist(),
        "f_rec": best_returns(problem).tolist(),
        "w_o": rectified_optimality(problem).tolist(),
        "p_w": np.diff(TransitionSampler(problem.demonstrations, weights).cumulative, prepend=0.0).tolist(),
    }


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(golden_numbers(), indent=1) + "\n")
