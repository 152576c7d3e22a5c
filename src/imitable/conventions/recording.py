"""What recording did to single demonstrations, as their frames show: noise of sensors, rounding, another frame rate.

Smooth or rough, a motion changes its positions from frame to frame as its velocities say; noise does not, and goes to and fro.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from imitable.arrays import Array, Booleans
from imitable.conventions.base import listed
from imitable.conventions.kinematic import rate_factor
from imitable.demonstrations import Demonstrations
from imitable.inverse_dynamics import floored_scale
from imitable.rounding import rounding_units
from imitable.simulators.joint_columns import JointColumns, joint_columns
from imitable.simulators.mujoco import MujocoRobot

FEW_FRAMES, NUMBERS = 50, 12
"""Of fewer frames nothing is said; and the most demonstrations that are named by their numbers."""
NOISE = 0.02
"""In units of a step of the robot: less noise in a column is none; and of rounding, by its standard deviation."""
WHITE = ((-0.85, -0.5), (-0.1, 0.45), (-0.4, 0.4))
"""Correlation of a column's second differences with those one, two and three frames later: of white noise -2/3, 1/6 and 0. An action that
alternates gives -1, 1 and -1, most other motions more than 0."""
SMOOTH = 0.3
"""Such a correlation with the next frame from which on a motion is smooth."""
UNLIKE, ALIKE = 0.3, 0.6
"""Correlation of second differences of positions with changes of velocities: below, one of both is noise, if it is above in the robot's own
trajectories. Without noise it was 0.65 to 1, but of a servo that is there within a frame."""
FAST = 1.0
"""Radians per frame: where joints turn as fast, places without velocities go to and fro."""
OTHER_RATE, SAME_RATE, MOST = 1.5, 1.03, 0.6
"""A factor between positions and velocities of one demonstration that is no frame rate if it is smaller; within what factor two are the
same; and the share of joints that must show it, of at least two."""
DERIVED = frozenset({"xpos", "xipos", "site_xpos", "geom_xpos", "subtree_com"})
"""Places, which are shown without their velocities."""


@dataclass(frozen=True)
class Doubt:
    """Why verdicts on some demonstrations say little about the robot."""

    name: str
    """`rounding`, `noise` or `frame rate`."""
    sentence: str
    concerns: tuple[int, ...]
    """Numbers of the demonstrations."""


def recording_doubts(
    data: Demonstrations, robot: MujocoRobot, own: Demonstrations, *, numbers: Sequence[int] | None = None, noise: float = 0.0
) -> tuple[Doubt, ...]:
    """Doubts about demonstrations of these numbers, or about all; `noise` is what verdicts allow for, in units of a step.

    `own` are trajectories of the robot itself: its steps are the scale, and where its velocities do not explain its positions, nothing is
    said.
    """
    tried = [at for at in (range(len(data)) if numbers is None else numbers) if data.lengths[at] + 1 >= FEW_FRAMES]
    columns, rows = joint_columns(robot), own.transition_rows
    scale = floored_scale((own.observations[rows + 1] - own.observations[rows]).std(axis=0))
    found = []
    if len(rounded := dict(_rounded(data, tried, scale))):
        unit = max(rounded.values())
        text = f"are rounded, to up to {unit:g}, and the others are not: verdicts on them are doubtful; write them with more decimals"
        found.append(Doubt("rounding", f"{_numbered(rounded)} {text}", tuple(rounded)))
    telling = _pooled_likeness([own.trajectory(demo) for demo in range(len(own))], columns) > ALIKE
    derived = [] if any(each.function for each in robot.columns) else [
        at for at, each in enumerate(robot.columns) if each.entry.field in DERIVED
    ]  # fmt: skip
    noisy = {at: sizes for at in tried if at not in rounded if (sizes := _noise(data.trajectory(at), columns, telling, derived))}
    least = max(NOISE, 1.5 * noise) * scale
    noisy = {at: kept for at, sizes in noisy.items() if (kept := {column: size for column, size in sizes.items() if size > least[column]})}
    if sum(map(len, noisy.values())) > 1:  # a single column of a single one may be so by chance
        common = [column for column, _ in Counter(column for sizes in noisy.values() for column in sizes).most_common()]
        by = (np.median([sizes[column] for sizes in noisy.values() if column in sizes]) for column in common)
        shown = listed([f"{robot.observation_names[column]} by {size:.2g}" for column, size in zip(common, by, strict=True)])
        text = (
            f"jump to and fro from frame to frame as sensor noise does, or frames taken at uneven times ({shown}): verdicts on them, and "
            "their causes, are doubtful; smooth them, or record them more exactly, and score again"
        )
        found.append(Doubt("noise", f"{_numbered(noisy)} {text}", tuple(noisy)))
    factors = {at: factor for at in tried if (factor := _rate(data.trajectory(at), columns)) != 1.0}
    factor = float(np.median(list(factors.values()))) if factors else 1.0
    factors = {at: each for at, each in factors.items() if 1 / SAME_RATE < each / factor < SAME_RATE}
    if len(factors) > 1:
        text = (
            f"change positions {factor:.3g} times as far per frame as their velocities say: their frame rate looks like "
            f"{1 / (factor * columns.timestep):.4g} Hz, the robot's steps are at {1 / columns.timestep:.4g} Hz; resample them"
        )
        found.append(Doubt("frame rate", f"{_numbered(factors)} {text}", tuple(factors)))
    return tuple(found)


def _numbered(demonstrations: "dict[int, float] | dict[int, dict[int, float]]") -> str:
    return f"demonstrations {listed([str(at) for at in demonstrations], NUMBERS)}"


def _rounded(data: Demonstrations, tried: Sequence[int], scale: Array) -> Iterator[tuple[int, float]]:
    """Demonstrations that are written with fewer places than the rest, few enough to count, and the largest unit."""
    units = rounding_units(data.observations)
    for at in tried:
        path = data.trajectory(at)
        mine = rounding_units(path, varied=5)
        varying = np.ptp(path, axis=0) > NOISE * scale
        coarse = varying & (mine > 1.5 * units)
        if coarse.sum() > 0.5 * varying.sum() and (mine[coarse] / np.sqrt(12) > NOISE * scale[coarse]).any():
            yield at, float(mine[coarse].max())


def _noise(path: Array, columns: JointColumns, telling: Booleans, derived: Sequence[int]) -> dict[int, float]:
    """Columns that are noise from frame to frame, and its standard deviation."""
    unlike = telling & (_pooled_likeness([path], columns) < UNLIKE)
    positions, velocities = columns.positions[unlike], columns.velocities[unlike]
    turned = np.quantile(np.abs(path[:, columns.velocities[columns.angular]]), 0.9, axis=0).max(initial=0.0) * columns.timestep
    places = np.array(derived if turned < FAST else [], dtype=np.int64)
    suspected = np.concatenate([positions, velocities, places])
    bends = _clipped(np.diff(path[:, suspected], n=2, axis=0))
    power = np.square(bends).mean(axis=0)
    lags = [(bends[lag:] * bends[:-lag]).mean(axis=0) / np.maximum(power, 1e-300) for lag in (1, 2, 3)]
    white = np.all([(low < lag) & (lag < high) for lag, (low, high) in zip(lags, WHITE, strict=True)], axis=0)
    count = len(positions)
    white[count : 2 * count] &= lags[0][:count] > SMOOTH  # beside rough positions, true velocities may look so, too
    return {int(suspected[at]): float(np.sqrt(power[at] / 6)) for at in np.flatnonzero(white)}


def _pooled_likeness(paths: Sequence[Array], columns: JointColumns) -> Array:
    """(pair,) correlation of second differences of positions with changes of velocities; NaN where nothing moves."""
    bends = [np.diff(path[:, columns.positions], n=2, axis=0) for path in paths if len(path) > 2]
    said = [path[2:, columns.velocities] - path[:-2, columns.velocities] for path in paths if len(path) > 2]
    if not bends:
        return np.full(len(columns.positions), np.nan)
    one, other = _clipped(np.concatenate(bends)), _clipped(np.concatenate(said))
    size = np.sqrt(np.square(one).mean(axis=0) * np.square(other).mean(axis=0))
    return np.asarray(np.divide((one * other).mean(axis=0), size, out=np.full(len(size), np.nan), where=size > 0))


def _clipped(values: Array) -> Array:
    """Without outliers, such as contacts, which are no noise."""
    size = 3 * np.median(np.abs(values), axis=0)
    return np.asarray(np.clip(values, -size, size))


def _rate(path: Array, columns: JointColumns) -> float:
    """By what factor positions change more than velocities say; 1 where they agree, or not on one factor."""
    before, after = path[:-1], path[1:]
    moved, said = (after - before)[:, columns.positions], (before + after)[:, columns.velocities] * columns.timestep / 2
    return rate_factor(moved, said, least=OTHER_RATE, joints=max(2, int(np.ceil(MOST * len(columns.positions)))))
