"""Mistakes that positions and velocities show between them: they say twice how a joint moves, and must agree."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from imitable.arrays import Array, Integers
from imitable.conventions.base import DEGREES, Names, Option, Trial, listed, reordered, rescaled, with_observations
from imitable.demonstrations import Demonstrations
from imitable.simulators.joint_columns import JointColumns, Rotation

FITS, BETTER = 0.5, 0.25
"""Share of a column's changes that its velocities explain, to a quarter: more means agreement; and by how much more it must be."""
MOST = 0.8
"""Share of changes that velocities in another frame must come closer to. In the wrong frame they were 0.9 to 1, in the right one up to 0.45
with noise, below 0.15 without."""
RATE = 1.08
"""A frame rate off by a smaller factor is none."""
EQUAL, OWN_DIFFERENCE, MIN_FRAMES = 0.05, 0.2, 12
"""How far off differences, of what the next higher ones say, velocities are still taken for them; how far the robot's own must be; and of
how many frames it can be told. Of true velocities, single columns of single demonstrations were 0.2 or more off, most of them 0.7 to 4."""
USED = 20_000
"""Transitions looked at."""
SAMPLED = 200
"""Demonstrations, evenly spread, of which one in ten must show a mistake before all are looked at one by one."""


def missing_velocities(data: Demonstrations, columns: JointColumns, names: Names, trial: Trial) -> Iterator[Option]:
    """Velocities that never change though positions do."""
    seen = data.observations
    still = [at for at, column in enumerate(columns.velocities) if np.ptp(seen[:, column]) == 0]
    pairs = [at for at in still if np.ptp(seen[:, columns.positions[at]]) > 0]
    turning = [
        each for each in columns.rotations if not np.ptp(seen[:, each.angular_velocity], axis=0).any() and np.ptp(seen[:, each.quaternion])
    ]
    if not pairs and not turning:
        return

    def convert(given: Demonstrations) -> Demonstrations:
        changed = given.observations.copy()
        for demo in range(len(given)):
            path = given.trajectory(demo)
            part = changed[given.starts[demo] : given.starts[demo] + len(path)]
            rates = np.gradient(path[:, columns.positions[pairs]], columns.timestep, axis=0)
            part[:, columns.velocities[pairs]] = rates
            for each in turning:
                speeds = turns(path[:-1, each.quaternion], path[1:, each.quaternion]) / columns.timestep
                part[:, each.angular_velocity] = (np.vstack([speeds[:1], speeds]) + np.vstack([speeds, speeds[-1:]])) / 2
        return with_observations(given, changed)

    lacking = [names[columns.velocities[at]] for at in pairs] + [names[at] for each in turning for at in each.angular_velocity]
    # Columns that are neither a pair's nor a rotation's, such as the x velocity of a robot that does not show its x, cannot be told.
    yield Option("missing velocities", f"velocities are missing ({listed(lacking)}) and were taken by differences", convert, True)


def quaternion_order(data: Demonstrations, columns: JointColumns, names: Names, trial: Trial) -> Iterator[Option]:
    """x, y, z, w where w, x, y, z is meant: the angular velocity tells."""
    for rotation in columns.rotations:

        def convert(given: Demonstrations, rotation: Rotation = rotation) -> Demonstrations:
            return reordered(given, rotation.quaternion, rotation.quaternion[[3, 0, 1, 2]])

        as_is, changed = (_fit(*_angular_moves(each, rotation, trial.rows(each, USED))) for each in (data, convert(data)))
        text = f"the quaternion {names[rotation.quaternion[0]].rsplit(' ', 1)[0]} looks like x, y, z, w instead of w, x, y, z"
        if _better(as_is, changed):
            yield Option("quaternion order", text, convert, True)
        elif max(as_is, changed) < FITS:
            yield Option("quaternion order", text, convert, False)


def velocity_frames(data: Demonstrations, columns: JointColumns, names: Names, trial: Trial) -> Iterator[Option]:
    """A base's velocity in its own frame, or its angular velocity in the world's."""
    rows = trial.rows(data, USED)
    for each in columns.rotations:

        def to_world(given: Demonstrations, each: Rotation = each) -> Demonstrations:
            changed = given.observations.copy()
            changed[:, each.velocity] = rotated(changed[:, each.quaternion], changed[:, each.velocity])
            return with_observations(given, changed)

        def to_body(given: Demonstrations, each: Rotation = each) -> Demonstrations:
            changed = given.observations.copy()
            back = changed[:, each.quaternion] * [1, -1, -1, -1]
            changed[:, each.angular_velocity] = rotated(back, changed[:, each.angular_velocity])
            return with_observations(given, changed)

        shown = len(each.position) == len(each.velocity) == 3  # Gymnasium's Ant and Humanoid leave out x and y
        if shown and _better_frame(_linear_moves(data, each, rows), _linear_moves(to_world(data), each, rows)):
            yield Option("velocity frame", f"{names[each.velocity[0]][:-2]} looks like one in the body's own frame", to_world, True)
        if _better_frame(_angular_moves(data, each, rows), _angular_moves(to_body(data), each, rows)):
            yield Option("velocity frame", f"{names[each.angular_velocity[0]][:-2]} looks like one in the world's frame", to_body, True)


def differences(data: Demonstrations, columns: JointColumns, names: Names, trial: Trial) -> Iterator[Option]:
    """Velocities that are differences of the positions: not the ones at a frame but means over frames, which no action leads to.

    True velocities are off such differences by about as much as the next higher differences say, however smooth the motion and however
    noisy or rounded the positions.
    """
    many = np.unique(np.linspace(0, len(data) - 1, SAMPLED).astype(np.int64)) if len(data) > SAMPLED else None
    kinds = {"central": (0.5, 0.5), "backward": (1.0, 0.0), "forward": (0.0, 1.0)}
    for kind, shares in kinds.items():
        own = np.array([_off_differences(trial.own.trajectory(demo), columns, shares) for demo in range(len(trial.own))])
        known = np.isfinite(own[:, 0])
        # With one simulation step per frame, the simulator's own velocities are backward differences.
        telling = known.any(axis=0) & ((known & (own[:, 0] < OWN_DIFFERENCE)).sum(axis=0) < 0.5 * known.sum(axis=0))
        for demos in (np.arange(len(data)),) if many is None else (many, np.arange(len(data))):
            theirs = np.array([_off_differences(data.trajectory(demo), columns, shares) for demo in demos.tolist()])  # (demo, 2, column)
            told, equal = np.isfinite(theirs[:, 0]) & telling, (theirs[:, 0] < EQUAL) & telling
            concerned = equal.any(axis=1) & (equal.sum(axis=1) >= 0.5 * told.sum(axis=1))
            if concerned.mean() < 0.1:
                break
        else:
            which = np.flatnonzero(equal[concerned].mean(axis=0) > 0.5)
            shown = np.concatenate([columns.velocities, *(each.angular_velocity for each in columns.rotations)])[which]
            off, usual = (float(np.nanmedian(each[:, 1][:, which])) for each in (theirs[concerned], own))
            to = "exactly" if off < 1e-12 else f"to {off:.1g} of their size"
            text = (
                f"velocities look like {kind} differences of the positions ({listed([names[at] for at in shown])}; {concerned.sum()} of "
                f"{len(data)} demonstrations), which they equal {to}, the robot's own to {usual:.1g}: means over frames, which need not be "
                "within reach; record the simulator's or the sensors' velocities, or take differences at a several times higher rate"
            )
            yield Option("differences", text, None, True, tuple(np.flatnonzero(concerned).tolist()))
            return


def rates(data: Demonstrations, columns: JointColumns, names: Names, trial: Trial) -> Iterator[Option]:
    """Positions that change by another factor than velocities say: by one factor of all, the frame rate; of angles, degrees."""
    moved, expected = _moves(data, columns, trial)
    ratios, fits = _ratios(moved, expected)
    sizes, angular = np.abs(ratios).clip(1e-9), np.append(columns.angular, np.zeros(moved.shape[1] - len(columns.angular), dtype=bool))
    known = fits > FITS
    if not known.any():
        return
    degrees, milli = (known & angular & (np.abs(np.log(sizes * each / DEGREES)) < 0.1) for each in (1.0, DEGREES**2))
    reference = known & ~angular if (known & ~angular).any() else known & ~degrees & ~milli
    if (factor := rate_factor(moved[:, reference], expected[:, reference])) != 1.0:
        had = f"{1 / (factor * columns.timestep):.4g} Hz, the robot's steps are at {1 / columns.timestep:.4g} Hz"
        text = f"the frame rate looks like {had} (positions change {factor:.3g} times as far per frame as velocities say)"
        steps = trial.robot.physics.frame_skip * factor
        if abs(steps - round(steps)) < 0.05 and round(steps) >= 1:
            text += f"; resample the data, or, of a robot from a file, give --frame-skip {round(steps)}"
        long_enough = data.lengths.max() * factor >= 1
        yield Option("frame rate", text, (lambda given: resampled(given, columns, factor)) if long_enough else None, True)
        return
    for which, of, unit in ((degrees, columns.positions, "degrees"), (milli, columns.velocities, "degrees per second")):
        if which.any():
            choices = [which]
            if which[angular].sum() > 0.5 * known[angular].sum():  # those that hardly moved will not differ from the rest
                choices = [which | (angular & ~known & np.append(columns.branch >= 0, angular[len(columns.branch) :]))]
            choices.append(angular)  # nor may those whose velocities change so much within a step that they do not show it
            for choice in choices:
                changed = of[np.flatnonzero(choice[: len(of)])]
                text = f"{listed([names[at] for at in changed])} look like {unit}"
                yield Option("degrees", text, lambda given, changed=changed: rescaled(given, changed, 1 / DEGREES), True)  # type: ignore[misc]
            return


def rate_factor(moved: Array, expected: Array, *, least: float = RATE, joints: int = 1) -> float:
    """The factor of all (N, pair) changes over what velocities say; 1 if fewer than `joints` tell it, or it may be within `least`."""
    ratios, fits = _ratios(moved, expected)
    back = _ratios(expected, moved)[0]
    factors, others = np.abs(ratios[fits > FITS]).clip(1e-9), 1 / np.abs(back[fits > FITS]).clip(1e-9)
    if len(factors) < joints:
        return 1.0
    factor, other = float(np.median(factors)), float(np.median(others))
    agreeing = (np.abs(np.log(factors / factor)) < 0.1).mean()
    # Noise in velocities makes the one too small, noise in positions the other too large.
    surely = min(np.log(factor), np.log(other)), min(-np.log(factor), -np.log(other))
    if not (agreeing > 0.6 and 0.05 < factor < 20 and max(surely) > np.log(least)):
        return 1.0
    simple = float(Fraction(factor).limit_denominator(6))
    return simple if abs(np.log(simple / factor)) < 0.02 else factor  # its estimate is a little off


def orders(data: Demonstrations, columns: JointColumns, names: Names, trial: Trial) -> Iterator[Option]:
    """Positions in another order than velocities."""
    from scipy.optimize import linear_sum_assignment

    joints = np.flatnonzero(columns.branch >= 0)
    moved, expected = (each[:, joints] for each in _moves(data, columns, trial))
    alike = np.abs(_correlations(moved, expected))  # (position, velocity)
    order = linear_sum_assignment(-alike)[1]
    swapped = np.flatnonzero(order != np.arange(len(joints)))
    if len(swapped) < 2 or alike[swapped, order[swapped]].min() < 0.7 or alike[swapped, swapped].mean() > 0.5:
        return
    text = f"positions and velocities are in different orders ({listed([names[columns.positions[joints[at]]] for at in swapped])})"
    positions, velocities = columns.positions[joints], columns.velocities[joints]
    back = np.argsort(order)
    yield Option("permuted joints", text, lambda given: reordered(given, positions, positions[back]), True)
    yield Option("permuted joints", text, lambda given: reordered(given, velocities, velocities[order]), True)


def signs(data: Demonstrations, columns: JointColumns, names: Names, trial: Trial) -> Iterator[Option]:
    """Positions that change the other way than velocities say."""
    ratios, fits = _ratios(*_moves(data, columns, trial))
    flipped = np.flatnonzero((ratios < 0) & (fits > FITS))
    flipped = flipped[flipped < len(columns.positions)]
    if len(flipped):
        text = f"{listed([names[columns.positions[at]] for at in flipped])} and their velocities have opposite signs"
        for of in (columns.positions, columns.velocities):
            yield Option("flipped joints", text, lambda given, of=of: rescaled(given, of[flipped], -1.0), True)  # type: ignore[misc]


def _moves(data: Demonstrations, columns: JointColumns, trial: Trial) -> tuple[Array, Array]:
    """(N, pair) changes of positions over a step, and as velocities say them; turns about the three axes of quaternions last."""
    rows = trial.rows(data, USED)
    before, after = data.observations[rows], data.observations[rows + 1]
    moved, expected = [(after - before)[:, columns.positions]], [(before + after)[:, columns.velocities]]
    for each in columns.rotations:
        moved.append(turns(before[:, each.quaternion], after[:, each.quaternion]))
        expected.append((before + after)[:, each.angular_velocity])
    return np.concatenate(moved, axis=1), np.concatenate(expected, axis=1) * columns.timestep / 2


def _off_differences(path: Array, columns: JointColumns, shares: tuple[float, float]) -> Array:
    """(2, column) how far velocities are off differences to the frames before and after: of what the next higher differences say, and of
    the speed; NaN where too little moves. Turns about the three axes of quaternions last."""
    turned = [turns(path[:-1, each.quaternion], path[1:, each.quaternion]) for each in columns.rotations]
    rates = np.concatenate([np.diff(path[:, columns.positions], axis=0), *turned], axis=1) / columns.timestep
    said = np.concatenate([path[:, columns.velocities], *(path[:, each.angular_velocity] for each in columns.rotations)], axis=1)
    off = np.full((2, said.shape[1]), np.nan)
    if len(path) < MIN_FRAMES:
        return off
    first, before, after, last = rates[:-3], rates[1:-2], rates[2:-1], rates[3:]
    higher = np.abs(last - after - before + first) / 12 if min(shares) else np.abs(after - before) / 2
    missed = np.abs(said[2:-2] - shares[0] * before - shares[1] * after)
    usable = (higher > 0.1 * np.quantile(higher, 0.9, axis=0)) & (higher > 1e-9 * (1 + np.abs(said).max(axis=0)))
    for column in np.flatnonzero(usable.sum(axis=0) >= MIN_FRAMES - 4):
        rows = usable[:, column]
        speed = np.abs(said[2:-2][rows, column]).mean()
        off[:, column] = np.median(missed[rows, column] / higher[rows, column]), np.median(missed[rows, column]) / max(speed, 1e-12)
    return off


def _ratios(moved: Array, expected: Array) -> tuple[Array, Array]:
    """(pair,) by what factor positions change more than velocities say, where they move much; and the share that this explains."""
    ratios, fits = np.ones(moved.shape[1]), np.zeros(moved.shape[1])
    for pair, (change, said) in enumerate(zip(moved.T, expected.T, strict=True)):
        much = (np.abs(said) > np.median(np.abs(said))) & (np.abs(said) > 1e-9)
        if much.sum() >= 8:
            ratios[pair] = np.median(change[much] / said[much])
            fits[pair] = (np.abs(change[much] / said[much] - ratios[pair]) < 0.25 * abs(ratios[pair])).mean()
    return ratios, fits


def _correlations(moved: Array, expected: Array) -> Array:
    """(pair, pair) of changes with what velocities say, outliers clipped."""

    def standard(values: Array) -> Array:
        size = 3 * np.median(np.abs(values), axis=0) + 1e-12
        clipped = np.clip(values, -size, size)
        return np.asarray((clipped - clipped.mean(axis=0)) / (clipped.std(axis=0) + 1e-12))

    return np.asarray(standard(moved).T @ standard(expected) / len(moved))


def _fit(moved: Array, said: Array) -> float:
    """Share of (N, 3) changes that (N, 3) velocities explain up to a factor of all."""
    sizes, lengths = np.linalg.norm(moved, axis=1), np.linalg.norm(said, axis=1)
    much = (lengths > np.median(lengths)) & (lengths > 1e-9)
    if much.sum() < 8:
        return 0.0
    factor = np.median(sizes[much] / lengths[much])
    return float((np.linalg.norm(moved - factor * said, axis=1)[much] < 0.25 * sizes[much]).mean())


def _better(as_is: float, changed: float) -> bool:
    return changed > max(FITS, as_is + BETTER)


def _better_frame(as_is: tuple[Array, Array], changed: tuple[Array, Array]) -> bool:
    """Whether velocities turned into another frame explain changes better: many more of them; or, if they are turned by little, nearly
    each of them, which neither noise nor another robot brings about."""
    if _better(_fit(*as_is), _fit(*changed)):
        return True
    sizes, lengths = (np.linalg.norm(each, axis=1) for each in as_is)
    much = (lengths > np.median(lengths)) & (lengths > 1e-9)
    if much.sum() < 8:
        return False
    factor = np.median(sizes[much] / lengths[much])  # which turning leaves as it is
    off, off_changed = (np.linalg.norm(moved - factor * said, axis=1) for moved, said in (as_is, changed))
    return bool((off_changed < off).mean() > MOST and np.median(off_changed) < 0.5 * np.median(off))


def _angular_moves(data: Demonstrations, rotation: Rotation, rows: Integers) -> tuple[Array, Array]:
    """(N, 3) turns over a step, and angular velocities."""
    before, after = data.observations[rows], data.observations[rows + 1]
    return turns(before[:, rotation.quaternion], after[:, rotation.quaternion]), (before + after)[:, rotation.angular_velocity] / 2


def _linear_moves(data: Demonstrations, rotation: Rotation, rows: Integers) -> tuple[Array, Array]:
    """(N, 3) ways over a step, and velocities."""
    before, after = data.observations[rows], data.observations[rows + 1]
    return (after - before)[:, rotation.position], (before + after)[:, rotation.velocity] / 2


def turns(before: Array, after: Array) -> Array:
    """(N, 3) rotation vectors [rad], in the body's own frame, that lead from quaternions (N, 4) to others."""
    w, v, W, V = before[:, :1], -before[:, 1:], after[:, :1], after[:, 1:]
    real, imaginary = w * W - (v * V).sum(axis=1, keepdims=True), w * V + W * v + np.cross(v, V)
    imaginary = np.where(real < 0, -imaginary, imaginary)
    length = np.linalg.norm(imaginary, axis=1, keepdims=True)
    angle = 2 * np.arctan2(length, np.abs(real))
    return np.asarray(np.where(length > 1e-12, angle / np.maximum(length, 1e-12), 2.0) * imaginary)


def rotated(quaternions: Array, vectors: Array) -> Array:
    """(N, 3) vectors turned by quaternions (N, 4) of any length."""
    unit = quaternions / np.maximum(np.linalg.norm(quaternions, axis=1, keepdims=True), 1e-12)
    w, v = unit[:, :1], unit[:, 1:]
    across = 2 * np.cross(v, vectors)
    return np.asarray(vectors + w * across + np.cross(v, across))


def resampled(given: Demonstrations, columns: JointColumns, factor: float) -> Demonstrations:
    """At the robot's rate, of demonstrations whose frames are `factor` of its steps apart: positions by cubics through positions and
    velocities, all else by straight lines."""
    paths, lengths = [], []
    for demo in range(len(given)):
        path = given.trajectory(demo)
        times = np.arange(0.0, (len(path) - 1) * factor + 1e-9) / factor  # in frames
        first = np.minimum(times.astype(np.int64), len(path) - 2)
        at = (times - first)[:, None]
        before, after = path[first], path[first + 1]
        between = before + at * (after - before)
        places, rates = columns.positions, columns.velocities
        slope = factor * columns.timestep * np.stack([before[:, rates], after[:, rates]])
        rise = after[:, places] - before[:, places]
        bends = at * (1 - at) * ((1 - at) * (slope[0] - rise) - at * (slope[1] - rise))
        between[:, places] += bends
        for each in columns.rotations:
            near = np.where((before[:, each.quaternion] * after[:, each.quaternion]).sum(axis=1, keepdims=True) < 0, -1.0, 1.0)
            mixed = (1 - at) * before[:, each.quaternion] + at * near * after[:, each.quaternion]
            between[:, each.quaternion] = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
        paths.append(between)
        lengths.append(len(between) - 1)
    kept = [at for at, length in enumerate(lengths) if length >= 1]
    return with_observations(given.select(kept), np.concatenate([paths[at] for at in kept]), np.array([lengths[at] for at in kept]))
