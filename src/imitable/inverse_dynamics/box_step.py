"""Batched least squares in the box of admissible actions: one damped Gauss-Newton step of each transition."""

import numpy as np

from imitable.arrays import Array


def box_step(jacobian: Array, residual: Array, here: Array, *, damping: Array) -> Array:
    """(N, action) the moves that minimise |residual + jacobian move|^2, damped, with here + move in [-1, 1]; by block pivoting."""
    actuators, transposed = here.shape[1], jacobian.swapaxes(1, 2)
    normal, gradient = transposed @ jacobian, times(transposed, residual)
    size = np.trace(normal, axis1=1, axis2=2) / actuators + 1e-300
    normal += (damping * size + 1e-300)[:, None, None] * np.eye(actuators)
    low, high = -1.0 - here, 1.0 - here
    side = np.zeros(here.shape)  # -1 and 1: held at the lower or upper limit
    for turn in range(4 * actuators):
        held = side != 0
        given = np.where(held, np.where(side < 0, low, high), 0.0)
        system = np.where(held[:, :, None] | held[:, None, :], np.eye(actuators), normal)
        moves = np.linalg.solve(system, np.where(held, given, -gradient - times(normal, given))[:, :, None])[:, :, 0]
        slope = (gradient + times(normal, moves)) * side
        wrong = np.where(held, slope > 1e-12 * size[:, None], (moves < low - 1e-12) | (moves > high + 1e-12))
        if not wrong.any():
            break
        if turn >= actuators:  # one at a time, the last first: this cannot go round in circles
            wrong &= np.cumsum(wrong[:, ::-1], axis=1)[:, ::-1] == 1
        side = np.where(wrong, np.where(held, 0.0, np.where(moves < low, -1.0, 1.0)), side)
    return np.clip(moves, low, high)


def times(matrices: Array, vectors: Array) -> Array:
    return np.asarray((matrices @ vectors[:, :, None])[:, :, 0])


def norm(vectors: Array) -> Array:
    return np.asarray(np.sqrt(np.square(vectors).sum(axis=-1)))
