"""Feasibility: how closely the robot can follow a demonstration (eq. 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from imitable.arrays import Array, Booleans
from imitable.errors import ImitableError, check_fields
from imitable.replay import Replay
from imitable.scores.base import column_tuple
from imitable.tracking import Tracked, conformal_quantile
from imitable.windows import FOLLOWED, Windows, worst_window

if TYPE_CHECKING:
    from imitable.assessment import Assessment

MIN_FEASIBILITY = 0.25
"""Smaller feasibilities are set to 0: the robot can follow only fragments."""

UNDECIDED_FEASIBILITY = 0.5
"""Feasibility of a demonstration without a reliable window."""

CLEARLY_LOST, LOST_WINDOWS = 2.0, 2
"""In units of d_max: windows that are farther off are clearly lost. Of the robot's own, one may be by a failure of the search; from so many
on, the demonstration has an impossible part."""

NOISE_MARGIN_FACTOR = 1.15
"""With noise, demonstrations may be farther off than retraced ones by this factor: retracing loses noise beyond the actuators' limits. In
the worst case, a robot at its limits at every step, they were 10 % farther off."""


class TooFewWindowsError(ImitableError):
    """Too few windows of the robot's own for a tolerance, as when its simulation diverges at the demonstrated states."""


@dataclass(frozen=True)
class Tolerance:
    """Distances between which feasibility falls from 1 to 0."""

    d_min: float
    d_max: float


@dataclass(frozen=True)
class Feasibility:
    """w_f: the share of a demonstration that the robot can follow, window by window.

    A window counts fully up to the distance that only `false_reject_rate` of the robot's own windows exceed, by conformal prediction,
    and not at all from a distance on that is clear of them. With noise the median over a demonstration's windows is compared instead.
    """

    false_reject_rate: float = 0.05

    def __post_init__(self) -> None:
        check_fields(self, ("false_reject_rate", 0 < self.false_reject_rate < 1, "between 0 and 1"))

    def __call__(self, assessment: Assessment) -> Array:
        """(demo,)"""
        return self.weights_of(assessment.tracked)

    def weights_of(self, tracked: Tracked) -> Array:
        """(demo,) from the demonstrations' windows, with the tolerance from the robot's own."""
        shown, tolerance = tracked.demonstration_windows, self.tolerance_of(tracked)
        if tracked.noise:  # a few windows that drift far off do not move the median
            share = ramp_down(median_by_demonstration(shown.distances, shown), tolerance)
        else:
            share = mean_by_demonstration(ramp_down(shown.distances, tolerance), shown, unsettled=UNDECIDED_FEASIBILITY)
        return np.where(share < MIN_FEASIBILITY, 0.0, share)

    def impossible_parts(self, assessment: Assessment) -> Booleans:
        """(demo,) whether the robot clearly cannot follow some of it, however high the share that it can; not known of noisy data, where
        noise alone may take the robot off in some windows."""
        windows = assessment.tracked.demonstration_windows
        lost = windows.demo[self.clearly_lost(assessment.tracked)]
        return np.asarray(np.bincount(lost, minlength=len(assessment.demonstrations)) >= LOST_WINDOWS)

    def clearly_lost(self, tracked: Tracked) -> Booleans:
        """(window,) which of the demonstrations' windows are."""
        windows, limit = tracked.demonstration_windows, CLEARLY_LOST * self.tolerance_of(tracked).d_max
        return np.asarray(windows.settled & (windows.distances > limit) & (not tracked.noise))

    def table(self, assessment: Assessment) -> dict[str, Array]:
        shown, names = assessment.tracked.demonstration_windows, np.array(assessment.robot.observation_names)
        worst = worst_window(shown)
        tolerance = self.tolerance(assessment)
        lost = ramp_down(shown.distances, tolerance) < 0.5
        bad_steps = ramp_down(np.nan_to_num(shown.step_distances[lost]), tolerance) < 0.5
        first_bad = np.full(len(assessment.demonstrations), np.iinfo(np.int64).max)
        np.minimum.at(first_bad, shown.demo[lost], shown.start[lost] + bad_steps.argmax(axis=1))
        return {
            "distance": (median_by_demonstration if assessment.tracked.noise else mean_by_demonstration)(shown.distances, shown),
            "feasibility": assessment.scored(self),
            "impossible_part": self.impossible_parts(assessment),
            "first_bad_step": np.where(first_bad == np.iinfo(np.int64).max, -1, first_bad),
            "worst_column": names[shown.worst_column[worst]],
            "limiting_actuator": shown.limiting_actuator[worst],
            "limit_factor": shown.limit_factor[worst],
        }

    def facts(self, assessment: Assessment) -> dict[str, Any]:
        tracked, tolerance = assessment.tracked, self.tolerance(assessment)
        return {
            "tolerance": [tolerance.d_min, tolerance.d_max],
            "own_distances": np.percentile(tracked.random_windows.distances, [0, 50, 100]).tolist(),
            "window": tracked.length,
            "noise": assessment.noise,
            "hides_state": assessment.hides_state,
            "rounded_to": float(assessment.rounding.max()),
            "false_reject_rate": self.false_reject_rate,
            "realised_false_reject_rate": self.realised_of(tracked),
        }

    def tolerance(self, assessment: Assessment) -> Tolerance:
        """From the robot's own windows; robust to an outlier."""
        return self.tolerance_of(assessment.tracked)

    def tolerance_of(self, tracked: Tracked) -> Tolerance:
        own = own_statistics(tracked)
        limits = [self._d_min(each, tracked) for each in own]
        if not np.isfinite(d_min := max(limits)):
            few = f"{min(map(len, own))} windows of the robot's own are too few for a false reject rate of {self.false_reject_rate:g}"
            raise TooFewWindowsError(
                f"{few}: the robot's simulation diverges, or it cannot track itself, at the demonstrated states; check units, column order "
                "and frame rate, or raise Feasibility.false_reject_rate"
            )
        median = float(np.median(own[int(np.argmax(limits))]))
        # Noise adds in quadrature, so d_max^2 - median^2 = 4 (d_min^2 - median^2).
        return Tolerance(d_min, float(np.sqrt(4 * d_min**2 - 3 * median**2)))

    def realised_of(self, tracked: Tracked) -> float:
        """The false reject rate on one half of the robot's own, by a tolerance from the other half."""
        own = own_statistics(tracked)
        return float((own[-1][1::2] > max(self._d_min(each[::2], tracked) for each in own)).mean())

    def _d_min(self, own: Array, tracked: Tracked) -> float:
        return max(FOLLOWED, conformal_quantile(own, self.false_reject_rate) * (NOISE_MARGIN_FACTOR if tracked.noise else 1.0))

    def why_zero(self, assessment: Assessment) -> str:
        """Why no demonstration has any feasibility."""
        nearest, tolerance = assessment.tracked.demonstration_windows.distances.min(), self.tolerance(assessment)
        return (
            f"no demonstration is feasible on the robot: the window it follows most closely is {nearest:.3g} of its own one-step changes "
            f"off, and it follows its own within {tolerance.d_min:.3g}; check units, column order and frame rate, or give demonstrations "
            "the robot can follow"
        )


def own_statistics(tracked: Tracked) -> tuple[Array, ...]:
    """What demonstrations are compared with: distances of the robot's random and retraced windows. With noise, medians over as many windows
    as a demonstration has, of retraced ones only: how far noise takes a robot off depends on its motion."""
    own, retraced = tracked.random_windows, tracked.retraced_windows
    if tracked.noise:
        return (median_by_demonstration(retraced.distances, retraced),)
    return own.distances[own.settled], retraced.distances[retraced.settled]


def mean_by_demonstration(values: Array, windows: Windows, *, unsettled: float | None = None) -> Array:
    """(demo,) mean over the windows of each that are settled; where none is, over all of them, or the given value."""
    some = np.bincount(windows.demo, windows.settled) > 0
    counted = (windows.settled | ~some[windows.demo]).astype(float)
    means = np.bincount(windows.demo, np.where(counted > 0, values, 0.0)) / np.bincount(windows.demo, counted)
    return means if unsettled is None else np.where(some, means, unsettled)


def median_by_demonstration(values: Array, windows: Windows) -> Array:
    """(demo,) median over the windows of each; the lower one of two."""
    order, counts = np.lexsort((values, windows.demo)), np.bincount(windows.demo)
    return np.asarray(values[order][np.cumsum(counts) - counts + (counts - 1) // 2])


@dataclass(frozen=True)
class ReplayFeasibility:
    """w_f as in the paper: the whole demonstration is replayed, and its mean distance compared with d_min and d_max (eqs. 3 and 7)."""

    delta_s: float = 0.001  # how far a state may be off at every step and still count as followed
    columns: tuple[int, ...] | None = None  # of the observation, on which the distance is measured; None: all

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", column_tuple(self.columns))
        check_fields(self, ("delta_s", 0 <= self.delta_s < np.inf, "at least 0 and finite"))

    def __call__(self, assessment: Assessment) -> Array:
        """(demo,)"""
        return ramp_down(assessment.replay.distances(self.columns), self.tolerance(assessment))

    def table(self, assessment: Assessment) -> dict[str, Array]:
        return {"distance": assessment.replay.distances(self.columns), "feasibility": assessment.scored(self)}

    def facts(self, assessment: Assessment) -> dict[str, Any]:
        tolerance = self.tolerance(assessment)
        own = assessment.own_replays(self.delta_s)[0].distances(self.columns)
        own_distances = np.percentile(own[np.isfinite(own)], [0, 50, 100]).tolist()
        return {"tolerance": [tolerance.d_min, tolerance.d_max], "own_distances": own_distances}

    def tolerance(self, assessment: Assessment) -> Tolerance:
        """From the robot's own held-out trajectories."""
        return measure_tolerance(*assessment.own_replays(self.delta_s), delta_s=self.delta_s, columns=self.columns)

    def why_zero(self, assessment: Assessment) -> str:
        """Why no demonstration has any feasibility."""
        if assessment.replay.diverged.all():
            return "the robot's simulation broke down on every demonstration; fix Simulator.step"
        nearest, d_max = assessment.replay.distances(self.columns).min(), self.tolerance(assessment).d_max
        return (
            f"no demonstration is feasible on the robot: the smallest replay distance {nearest:.3g} exceeds d_max {d_max:.3g}; "
            f"raise ReplayFeasibility.delta_s (now {self.delta_s:g}), or give demonstrations the robot can follow"
        )


def ramp_down(distances: Array, tolerance: Tolerance) -> Array:
    """1 up to d_min, 0 from d_max on, a straight line between."""
    near = np.minimum(distances, 2 * tolerance.d_max)  # whatever is beyond counts as 0, and might overflow
    return np.clip((tolerance.d_max - near) / (tolerance.d_max - tolerance.d_min), 0.0, 1.0)


def measure_tolerance(plain: Replay, perturbed: Replay, *, delta_s: float, columns: tuple[int, ...] | None = None) -> Tolerance:
    """d_min and d_max from replays of the robot's own trajectories, of those that did not diverge."""
    for replays, where, way_out in (
        (plain, "", "fix Simulator.step"),
        (perturbed, f" when states are perturbed by up to {delta_s:g}", "lower ReplayFeasibility.delta_s"),
    ):
        if replays.diverged.all():
            trials = f"each of the {len(replays.diverged)} replays of its own random episodes"
            raise ImitableError(f"the robot's simulation broke down in {trials}{where}; {way_out}")
    d_min, d_max = float(plain.distances(columns).min()), float(perturbed.distances(columns)[~perturbed.diverged].max())
    if not d_max - d_min > 1e-12:
        raise ImitableError(
            f"the tolerance is empty: d_min {d_min:.3g} is not below d_max {d_max:.3g} at delta_s {delta_s:g}; "
            "raise ReplayFeasibility.delta_s"
        )
    return Tolerance(d_min, d_max)


@dataclass(frozen=True)
class TransitionFeasibility:
    """w_f of every transition by itself: 1 where the robot reaches it, 0 elsewhere. All actions are solved for, which takes long."""

    def __call__(self, assessment: Assessment) -> Array:
        """(transition,)"""
        return assessment.recovered_actions(np.ones(int(assessment.demonstrations.lengths.sum()), dtype=bool))[1].astype(np.float64)

    def table(self, assessment: Assessment) -> dict[str, Array]:
        demonstrations = assessment.demonstrations
        return {"reached share": np.add.reduceat(assessment.scored(self), demonstrations.transition_starts) / demonstrations.lengths}
