"""Mistakes that positions and velocities do not show between them: all in degrees, joints in another order or of opposite sign.

Only the robot tells: with the right order it reaches the transitions of a sample, and each joint that is put right brings it closer.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from imitable.arrays import Array, Integers
from imitable.conventions.base import DEGREES, Names, Option, Trial, listed, rescaled, with_observations
from imitable.demonstrations import Demonstrations
from imitable.simulators.joint_columns import JointColumns

TRANSITIONS, SAMPLE = 48, 12
"""Transitions of which those that are missed are searched with, and how many of these."""
HALVES, UNSEEN = 4, 24
"""Demonstrations from which on one half is searched with and the other tells whether that was right; and transitions that this needs:
among so many orders and signs, one brings a few transitions within reach by chance."""
SWEEPS = 10
IMPROVEMENT = 0.02
"""Of the mean logarithm of the miss: less is none."""
SOLVED_MISS = 0.02
"""Mean miss, by its logarithm, at which the search has found what it was looking for."""
TOO_FAST, NO_ORDER, MIN_SPEED = 3.0, 10.0, 0.05
"""Of the robot's own speeds: what no joint exceeds; what not even another joint exceeds; and what one that is put right does."""
RANGE_MARGIN, MAX_SHARE_BEYOND = 0.1, 0.1
"""How far a joint may be beyond its range [rad or m], and for what share of the time."""
SAME_POSTURE = 0.3
"""Within how much demonstrations begin with every joint where the robot's own begin [rad or m], if they begin alike."""

SignedPermutation = tuple[Integers, Array]
"""(joint,) the column that each joint is taken from, and its sign."""


def all_degrees(data: Demonstrations, columns: JointColumns, names: Names, trial: Trial) -> Iterator[Option]:
    """Angles, and angular velocities or not, in degrees: some are far beyond their joint's range, or, of a joint that turns without end,
    both far and fast. Without that anything too fast for the robot would be slow enough once it is divided by 57; nor does it count if the
    robot would hardly move."""
    turning = columns.positions[columns.angular]
    if not len(turning):
        return
    reach = np.maximum(np.abs(columns.low), np.abs(columns.high))[columns.angular]
    farthest = np.maximum(2 * np.pi, np.where(np.isinf(reach), 0, 2 * reach))
    far = np.quantile(np.abs(data.observations[:, turning]), 0.99, axis=0) > farthest
    speeds = _speeds(data, turning) / np.maximum(_speeds(trial.own, turning), 1e-9)
    if not (far & (np.isfinite(reach) | (speeds > TOO_FAST))).any() or (speeds < DEGREES * MIN_SPEED).all():
        return
    shown = [at for at in range(len(data)) if (np.abs(data.trajectory(at)[:, turning]) > farthest).any()]
    for which in (columns.angular, columns.angular & (columns.branch >= 0)):
        positions, velocities = columns.positions[which], columns.velocities[which]
        told = f"joints look like degrees ({listed([names[at] for at in positions])}"
        # Positions alone, too: of light links, velocities change so much within a step that they do not show the factor.
        for text, changed in ((f"{told}, and their velocities)", np.concatenate([positions, velocities])), (f"{told})", positions)):
            if len(changed):
                back = lambda given, changed=changed: rescaled(given, changed, 1 / DEGREES)  # noqa: E731
                yield Option("degrees", text, back, False, tuple(shown))
        if (columns.branch >= 0).all() or (columns.branch[columns.angular] >= 0).all():
            return


def _speeds(data: Demonstrations, columns: Integers) -> Array:
    """(column,) change over a step that one in ten exceeds."""
    rows = data.transition_rows
    return np.asarray(np.quantile(np.abs(data.observations[rows + 1] - data.observations[rows])[:, columns], 0.9, axis=0))


def joint_order(data: Demonstrations, columns: JointColumns, names: Names, trial: Trial) -> Iterator[Option]:
    """Joints in another order or of opposite sign: swaps and flips, as long as the robot comes closer."""
    joints = np.flatnonzero(columns.branch >= 0)
    turning = columns.positions[joints[columns.angular[joints]]]
    if _speeds(data, turning).max(initial=0.0) > NO_ORDER * _speeds(trial.own, turning).max(initial=1e-9):
        return  # no order makes up for that
    mixed = np.random.default_rng(trial.seed).permutation(len(data))
    seen, unseen = (np.sort(mixed[part::2]) for part in (0, 1)) if len(data) >= HALVES else (mixed, mixed)
    if data.lengths[unseen].sum() < UNSEEN:
        return
    before, after = trial.sample(data.select(seen), TRANSITIONS)
    missed = np.flatnonzero(trial.misses(before, after, trial.quick) > trial.limit)[:SAMPLE]
    count, both = len(joints), np.stack([before[missed], after[missed]])  # (2, sample, observation)
    positions, velocities = columns.positions[joints], columns.velocities[joints]

    def applied(given: Array, order: Integers, sign: Array) -> Array:
        changed = given.copy()
        changed[..., positions], changed[..., velocities] = given[..., positions[order]] * sign, given[..., velocities[order]] * sign
        return changed

    def distances(candidates: Sequence[SignedPermutation]) -> Array:
        """(candidate,) mean logarithm of the miss."""
        tried = np.stack([applied(both, *candidate) for candidate in candidates], axis=1)  # (2, candidate, sample, observation)
        before, after = tried.reshape(2, -1, tried.shape[-1])
        miss = trial.misses(before, after, trial.quick).reshape(len(candidates), -1)
        return np.asarray(np.log10(np.clip(miss, 1e-2, 1e3)).mean(axis=1))

    beyond = _beyond_range(data, columns, joints)
    limbs = [np.flatnonzero(columns.branch[joints] == limb) for limb in np.unique(columns.branch[joints])]

    def searched(current: SignedPermutation) -> tuple[float, SignedPermutation]:
        """What no move brings closer any more, and how far that is."""
        now = distances([current])[0]
        for _ in range(SWEEPS):
            if now <= np.log10(SOLVED_MISS):
                break
            for neighbors in (_neighbors, _pairs_of_moves):
                candidates = [candidate for candidate in neighbors(current, limbs) if _allowed(beyond, candidate, current)]
                gains = now - distances(candidates) if candidates else np.zeros(1)
                best = int(gains.argmax())
                if gains[best] >= IMPROVEMENT:
                    break
            else:
                break
            combined = _combined(current, [candidates[at] for at in np.argsort(-gains) if gains[at] > IMPROVEMENT])
            all_at_once = distances([combined])[0]
            current, now = (combined, all_at_once) if all_at_once < now - gains[best] else (candidates[best], now - gains[best])
        return now, current

    now, (order, sign) = np.inf, (np.arange(count), np.ones(count))
    for start in _starting_points(data, trial.own, positions, beyond):
        found, candidate = searched(start)
        if found < now:
            now, (order, sign) = found, candidate
        if now <= np.log10(trial.limit):
            break
    swapped, flipped = np.flatnonzero(order != np.arange(count)), np.flatnonzero(sign < 0)
    told = []
    if len(swapped):
        pairs = [f"{names[positions[order[at]]]} holds {names[positions[at]]}" for at in swapped]
        told.append(f"joints look permuted ({listed(pairs)})")
    if len(flipped):
        angular = columns.angular[joints]
        others = np.flatnonzero(angular & (sign > 0))
        alike = len(others) and distances([(order, np.where(angular, -sign, sign))])[0] < max(now, np.log10(trial.limit))
        or_else = f", or instead {listed([names[positions[at]] for at in others])}: its mirror image moves alike" if alike else ""
        told.append(f"joints look flipped in sign ({listed([names[positions[at]] for at in flipped])}{or_else})")
    if told:
        name = "permuted joints" if len(swapped) else "flipped joints"
        convert = lambda given: with_observations(given, applied(given.observations, order, sign))  # noqa: E731
        yield Option(name, " and ".join(told), convert, False, unseen=tuple(unseen.tolist()))


def _neighbors(current: SignedPermutation, limbs: Sequence[Integers]) -> Iterator[SignedPermutation]:
    """One joint flipped, two swapped, or two limbs of as many joints."""
    order, sign = current
    for at in range(len(order)):
        yield order, _flipped(sign, [at])
    pairs = [(np.array([one]), np.array([other])) for one, other in combinations(range(len(order)), 2)]
    pairs += [(one, other) for one, other in combinations(limbs, 2) if len(one) == len(other) > 1]
    for one, other in pairs:
        swapped = order.copy()
        swapped[one], swapped[other] = order[other], order[one]
        yield swapped, sign


def _pairs_of_moves(current: SignedPermutation, limbs: Sequence[Integers]) -> Iterator[SignedPermutation]:
    """Two joints of a limb flipped, or the whole limb; or joints of two limbs swapped with those at the same places, two at once or one
    that is flipped, too. Where a foot is depends on several joints, so that one alone that is put right may bring the robot no closer."""
    order, sign = current
    for limb in limbs:
        for some in [*combinations(limb.tolist(), 2), *([limb.tolist()] if len(limb) > 2 else [])]:
            yield order, _flipped(sign, list(some))
    for one, other in combinations(limbs, 2):
        count = len(one) if len(one) == len(other) else 0
        for places in [*combinations(range(count), 1), *combinations(range(count), 2)]:
            mine, theirs = one[list(places)], other[list(places)]
            swapped = order.copy()
            swapped[mine], swapped[theirs] = order[theirs], order[mine]
            if len(places) == 2:
                yield swapped, sign
            else:
                yield from ((swapped, _flipped(sign, some)) for some in ([*mine], [*theirs], [*mine, *theirs]))


def _flipped(sign: Array, joints: list[int]) -> Array:
    """(joint,) with other signs of these joints."""
    changed = sign.copy()
    changed[joints] *= -1
    return changed


def _combined(current: SignedPermutation, candidates: Sequence[SignedPermutation]) -> SignedPermutation:
    """Several moves at once, the first ones first; those that touch the same joints are left out."""
    order, sign = current[0].copy(), current[1].copy()
    free = np.ones(len(order), dtype=bool)
    for other_order, other_sign in candidates:
        touched = (other_order != current[0]) | (other_sign != current[1])
        if free[touched].all():
            order[touched], sign[touched], free[touched] = other_order[touched], other_sign[touched], False
    return order, sign


def _beyond_range(data: Demonstrations, columns: JointColumns, joints: Integers) -> Array:
    """(joint, column, sign) for what share of the time a joint would be beyond its range if it were in that column."""
    seen = data.observations[:: max(1, len(data.observations) // 1000)][:, columns.positions[joints]]
    signed = np.stack([seen, -seen], axis=2)[:, None]  # (row, 1, column, sign)
    low, high = (each[joints][None, :, None, None] for each in (columns.low - RANGE_MARGIN, columns.high + RANGE_MARGIN))
    return np.asarray(((signed < low) | (signed > high)).mean(axis=0))


def _starting_points(data: Demonstrations, own: Demonstrations, positions: Integers, beyond: Array) -> Iterator[SignedPermutation]:
    """Orders and signs to search from: where demonstrations begin in a posture that the robot's own begin in once joints are exchanged,
    first that; then as they are given, but for joints that leave their ranges."""
    as_given = np.arange(len(beyond)), np.ones(len(beyond))
    shown, home = (np.median(each.observations[each.starts][:, positions], axis=0) for each in (data, own))
    apart = np.abs(home[:, None, None] - np.stack([shown, -shown], axis=1))  # (joint, column, sign)
    if apart[*np.diag_indices(len(home)), 0].max(initial=0.0) > SAME_POSTURE:
        order, sign = _nearest(apart)
        if np.abs(home - sign * shown[order]).max() <= SAME_POSTURE:
            yield order, sign
    yield _nearest(beyond) if beyond[*np.diag_indices(len(home)), 0].max(initial=0.0) > MAX_SHARE_BEYOND else as_given


def _nearest(cost: Array) -> SignedPermutation:
    """The order and the signs of least cost (joint, column, sign), as near to those given as may be."""
    from scipy.optimize import linear_sum_assignment

    cheapest = np.minimum(cost[:, :, 0], cost[:, :, 1] + 0.01) + 0.02 * (1 - np.eye(len(cost)))
    order = linear_sum_assignment(cheapest)[1]
    at = np.arange(len(order)), order
    return order, np.where(cost[:, :, 1][at] + 0.01 < cost[:, :, 0][at], -1.0, 1.0)


def _allowed(beyond: Array, candidate: SignedPermutation, current: SignedPermutation) -> bool:
    """Whether joints stay in their ranges, or at least where they are now."""

    def out(order: Integers, sign: Array) -> Array:
        return np.asarray(beyond[np.arange(len(order)), order, (sign < 0).astype(int)])

    return bool((out(*candidate) <= np.maximum(out(*current).max(), MAX_SHARE_BEYOND)).all())
