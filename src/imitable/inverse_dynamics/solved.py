"""The inverse of a simulator, solved on the simulator itself: which admissible action comes nearest to a demonstrated next observation.

Damped Gauss-Newton steps in the box of admissible actions, with a Jacobian by differences of the batched `step` that Broyden updates
keep current, so that a smooth transition costs a few steps more than one Jacobian. Contacts and joint limits make the map from action
to next observation jump. A descent that stalls therefore takes its differences anew, by random moves of few actuators and of many in turn:
whether a foot touches depends on few of them, and moving many would undo what is already right; the local minima of a gait that is mostly
at its limits are left by many at once.
"""

from dataclasses import dataclass, replace

import numpy as np

from imitable.arrays import Array, Arrays, Booleans, Generator, Integers, Progress, Snapshot, no_progress
from imitable.errors import ImitableError, check_fields
from imitable.inverse_dynamics.action_box import ActionBox
from imitable.inverse_dynamics.base import (
    NOT_SETTLED,
    OUT_OF_REACH,
    REACHED,
    InverseResult,
    floored_scale,
    step_scale,
)
from imitable.inverse_dynamics.box_step import box_step, norm, times
from imitable.rollouts import Episodes
from imitable.simulators import Simulator, effective_limits

IMPROVED = 0.99  # of the miss: less counts as an improvement
FORESEEN, FAR_OFF = 0.1, 0.5  # error of the Jacobian's prediction that counts as none, of the miss; misses for which that matters
NOTHING = 1e-6  # of the miss: a move that changes less does nothing
DOUBTFUL = 1.0  # miss of a guess beyond which the middle of the range is tried, too
LEAST_DAMPING, REJECTED_DAMPING = 1e-8, 1e-2  # of the mean squared effect of an actuator


@dataclass(frozen=True)
class Solved:
    """Solves for actions, with one set of numbers for all robots; widths and precision are in units of half an actuator's range."""

    tolerance: float = 1e-3  # the largest miss that counts as reached; at least the noise of the data
    precision: float = 3e-4  # a reached action is refined until it moves less than this,
    exact: float = 1e-6  # or its miss is below this,
    refinements: int = 12  # or differences have been taken so often since it was reached
    searches: int = 100  # how often differences are taken for one transition at most
    patience: float = 4.0  # searches in a row without improvement, at a miss of 1, that make it out of reach; more at a smaller miss
    candidates: int = 48  # actions tried meanwhile, at least: with few actuators a search tries few
    clear_stalls: int = 1  # as how many of these searches one counts, far off, in which all actions did what was foreseen
    widths: tuple[float, ...] = (0.2, 0.02)  # of the first differences, one actuator at a time
    fine_widths: tuple[float, ...] = (1e-2, 1e-3, 1e-4)  # of the first ones that refine
    search_moves: tuple[tuple[float, float], ...] = ((0.1, 0.1), (0.5, 0.3))
    """Of all later ones, in turn: the share of the other actuators that move along, and the least standard deviation."""
    widest: float = 2.0  # standard deviation of these; they are log-uniform, and end at a limit where they would lead beyond it
    slow: float = 0.7  # a step that leaves more than this share of the miss is slow
    slow_steps: int = 1  # consecutive slow steps tolerated
    seed: int = 0  # of the moves drawn, if no generator is given; another one gives a second opinion
    batch: int = 2048  # transitions under way at once, and simulations in one call

    def __post_init__(self) -> None:
        widths, fine = self.widths, self.fine_widths
        check_fields(
            self,
            *((name, getattr(self, name) > 0, "above 0") for name in ("tolerance", "precision", "exact", "patience")),
            *((name, getattr(self, name) >= 0, "at least 0") for name in ("refinements", "slow_steps", "candidates")),
            *((name, getattr(self, name) >= 1, "at least 1") for name in ("searches", "batch", "clear_stalls")),
            ("widths", min(widths, default=0.0) > 0, "one or more widths above 0"),
            ("fine_widths", min(fine, default=0.0) > 0, "one or more widths above 0"),
            (
                "search_moves",
                len(self.search_moves) > 0 and all(0 <= share <= 1 and 0 < narrow <= self.widest for share, narrow in self.search_moves),
                "one or more pairs of a share from 0 to 1 and a width above 0, up to widest",
            ),
            ("slow", 0 < self.slow < 1, "between 0 and 1"),
        )

    def fit(self, episodes: Episodes, robot: Simulator, *, rng: Generator, progress: Progress = no_progress) -> "SolvedInverseDynamics":
        """Nothing is fitted: own trajectories give the units in which a miss is measured."""
        progress(1.0)
        return SolvedInverseDynamics(self, robot, step_scale(episodes))

    def restored(self, arrays: Snapshot, robot: Simulator) -> "SolvedInverseDynamics":
        return SolvedInverseDynamics(self, robot, arrays["scale"])

    def for_tracking(self, noise: float) -> "Solved":
        """Fast, and as precise as a verdict on a window needs: to a twenty-fifth of a step, just below what counts as followed; with noise,
        which nothing gets below, by few searches."""
        if noise > 0:
            return replace(self, tolerance=max(0.02, noise / 2), refinements=0, searches=3)
        return replace(self, tolerance=0.04, refinements=0, searches=24, patience=2.0, candidates=24, clear_stalls=4)

    def retries(self) -> tuple["Solved", ...]:
        """As precise as `for_tracking` without noise, with at least the patience used for actions to clone, and moves of all actuators at
        once among them: two searches with moves alike end in the same wrong corner."""
        moves = (*self.search_moves, (1.0, self.search_moves[-1][1]))[1:]
        first = replace(self, tolerance=0.04, refinements=0, clear_stalls=4, seed=self.seed + 1, search_moves=moves)
        return first, replace(first, seed=self.seed + 2, patience=2 * self.patience)

    def with_tolerance(self, noise: float) -> "Solved":
        """A miss as small as the noise counts as reached."""
        return self if not noise else replace(self, tolerance=max(self.tolerance, 1.5 * noise), refinements=0)

    def solve(
        self,
        robot: Simulator,
        states: Array,
        next_observations: Array,
        *,
        scale: Array,
        guess: Array | None = None,
        jacobian: Array | None = None,
        rng: Generator | None = None,
    ) -> InverseResult:
        """Actions that lead from full states (N, state) nearest to next observations (N, observation).

        `scale` (observation,) is the standard deviation of the robot's own one-step changes. The descent starts at `guess` (N, action),
        or where that misses by more than a typical step in the middle of the range if this is nearer; with `jacobian` (N, observation,
        action) of a similar transition that was solved for, until it proves wrong. All transitions search with the same draws of
        `rng` (by default always the same), so that the answer to one does not depend on the others.
        """
        count, actuators = len(states), len(robot.action_low)
        start = np.zeros((count, actuators)) if guess is None else guess
        for name, values in (("states", states), ("next_observations", next_observations), ("guess", start)):
            if values.ndim != 2 or len(values) != count or not np.isfinite(values).all():
                raise ImitableError(f"{name} has shape {values.shape}; {count} transitions need that many rows of finite numbers")
        box = ActionBox.of(robot, *effective_limits(robot, states, next_observations))
        start = start if guess is None else np.clip((guess - box.middle) / box.half, -1.0, 1.0)
        units = _checked(scale, next_observations.shape[1]) * np.sqrt(next_observations.shape[1])
        draws = self._draws(actuators, np.random.default_rng(self.seed) if rng is None else rng)
        parts = []
        for first in range(0, max(count, 1), self.batch):
            rows = slice(first, first + self.batch)
            problem = _Problem(robot, states[rows], next_observations[rows], units, box.select(rows), self.batch)
            parts.append(_Search(self, problem, draws, start[rows], None if jacobian is None else jacobian[rows]).run())
        return InverseResult.join(parts)

    def _draws(self, actuators: int, rng: Generator) -> Array:
        """(search, difference, action) moves of which each has an actuator of its own, and some of the others."""
        shape = (self.searches, actuators, actuators)
        shares, narrow = np.resize(self.search_moves, (self.searches, 2)).T[:, :, None, None]
        moving = (rng.random(shape) < shares) | np.eye(actuators, dtype=bool)
        widths = np.exp(rng.uniform(np.log(narrow), np.log(self.widest), (self.searches, actuators, 1)))
        return np.asarray(widths * rng.standard_normal(shape) * moving)


@dataclass(frozen=True, eq=False)
class SolvedInverseDynamics:
    """The solver on one robot."""

    solver: Solved
    robot: Simulator
    scale: Array
    """(observation,) standard deviation of the robot's own one-step changes."""

    def __call__(self, states: Array, next_observations: Array, *, guess: InverseResult | None = None) -> InverseResult:
        actions, jacobian = (None, None) if guess is None else (guess.actions, guess.jacobian)
        return self.solver.solve(self.robot, states, next_observations, scale=self.scale, guess=actions, jacobian=jacobian)

    def arrays(self) -> Arrays:
        return {"scale": self.scale}

    def with_scale(self, scale: Array) -> "SolvedInverseDynamics":
        return replace(self, scale=scale)


@dataclass(frozen=True)
class _Problem:
    """What a batch of transitions asks for; actions are in units of half the effective range from here on."""

    robot: Simulator
    states: Array
    wanted: Array  # (N, observation)
    units: Array  # (observation,) such that the norm of a residual is the miss
    box: ActionBox
    batch: int

    def residuals(self, rows: Integers, actions: Array) -> Array:
        """(K, observation) of actions (K, action) at these transitions; infinite where the simulation diverged."""
        found = np.empty((len(rows), len(self.units)))
        for first in range(0, len(rows), self.batch):
            part = slice(first, first + self.batch)
            moved = self.robot.step(self.states[rows[part]], self.box.controls(actions[part], rows[part]))
            found[part] = (self.robot.observe(moved) - self.wanted[rows[part]]) / self.units
        found[~np.isfinite(found).all(axis=1)] = np.inf
        return found


class _Search:
    """A batch of transitions being solved, each at its own stage; every array has one row for each."""

    def __init__(self, solver: Solved, problem: _Problem, draws: Array, start: Array, jacobian: Array | None) -> None:
        self.solver, self.problem, self.draws = solver, problem, draws
        count, actuators = start.shape
        self.steps = np.zeros(count, dtype=np.int64)
        self.current = start.copy()  # where the descent is
        self.residual = self.evaluate(np.arange(count), start)
        self.miss = norm(self.residual)
        # A guess at its limits can be far off and hard to leave: the middle of the range may be nearer.
        doubtful = np.flatnonzero(start.any(axis=1) & (self.miss > DOUBTFUL))
        middle = np.zeros((len(doubtful), actuators))
        self.accept(doubtful, middle, self.evaluate(doubtful, middle))
        self.best = (self.current.copy(), self.residual.copy(), self.miss.copy())  # where the best descent has ended
        self.jacobian = np.zeros((count, len(problem.units), actuators))
        if jacobian is not None:
            known = np.isfinite(jacobian).all(axis=(1, 2))
            self.jacobian[known] = jacobian[known]
        self.damping = np.full(count, LEAST_DAMPING)
        self.slow, self.searched, self.refined, self.stalls = np.zeros((4, count), dtype=np.int64)
        self.reference_miss = np.full(count, np.inf)  # the miss from which an improvement counts
        self.verdict = np.full(count, NOT_SETTLED)
        self.least_stalls = min(solver.candidates / actuators, solver.searches / 2)
        self.open, self.clear = np.ones(count, dtype=bool), np.zeros(count, dtype=bool)

    def run(self) -> InverseResult:
        self.close(np.flatnonzero(self.miss <= self.solver.exact), REACHED)
        due = self.open & ~self.jacobian.any(axis=(1, 2))
        while self.open.any():
            self.take_differences(np.flatnonzero(due))
            rows = np.flatnonzero(self.open & np.isfinite(self.miss))
            due = self.open & ~np.isfinite(self.miss)
            due[rows] = self.descend(rows)
            self.update_verdicts(np.flatnonzero(due & self.open))
            due &= self.open
        problem = self.problem
        actions = np.clip(problem.box.controls(self.current), problem.robot.action_low, problem.robot.action_high)
        at_limit = problem.box.at_limit(self.current)
        return InverseResult(actions, self.miss, at_limit, self.verdict, self.limit_factors(), self.steps, self.jacobian.astype(np.float32))

    def evaluate(self, rows: Integers, actions: Array) -> Array:
        np.add.at(self.steps, rows, 1)
        return self.problem.residuals(rows, actions)

    def take_differences(self, rows: Integers) -> None:
        """Renew the Jacobians: by single actuators at first and to refine what is reached; else by the moves drawn for this search,
        the best of which starts a new descent, even from farther away than the best one has ended."""
        solver, actuators = self.solver, self.current.shape[1]
        searched, refined, reached = self.searched[rows], self.refined[rows], self.miss[rows] <= solver.tolerance
        self.searched[rows] += 1
        self.refined[rows] += reached
        refining, early = reached & (refined < len(solver.fine_widths)), searched < len(solver.widths)
        fine, first = np.take(solver.fine_widths, refined, mode="clip"), np.take(solver.widths, searched, mode="clip")
        widths = np.where(refining, fine, first)
        here = self.current[rows, None]
        inward = np.where(here > 0, -1.0, 1.0) * np.eye(actuators)
        moves = np.where((refining | early)[:, None, None], widths[:, None, None] * inward, self.draws[searched])
        points = np.clip(here + moves, -1.0, 1.0)
        transposed = self.jacobian[rows].swapaxes(1, 2)
        residuals = self.evaluate(np.repeat(rows, actuators), points.reshape(-1, actuators)).reshape(transposed.shape)
        misses = norm(residuals)
        known = (np.isfinite(misses) & np.isfinite(self.miss[rows])[:, None])[:, :, None]
        moves = np.where(known, points - here, 0.0)
        with np.errstate(invalid="ignore"):
            changes = np.where(known, residuals - self.residual[rows, None], 0.0)
        errors, moved = changes - moves @ transposed, norm(moves) > 0
        # Far from where the wanted observation is, moves of any size that do what the Jacobian says leave no hope of another way; moves
        # that do nothing say nothing, as on the plateau where an actuator's force has reached its limit.
        miss = self.miss[rows, None]
        foreseen = known[:, :, 0] & (norm(errors) <= FORESEEN * miss) & (miss > FAR_OFF) & (norm(changes) > NOTHING * miss)
        self.clear[rows] = clear = (solver.clear_stalls > 1) & ~(reached | early) & moved.any(axis=1) & (foreseen | ~moved).all(axis=1)
        # The least change of the Jacobian that explains all differences: Broyden's update for several at once. Those of single
        # actuators are difference quotients.
        lengths = norm(moves)[:, :, None] + 1e-300
        moves, errors = moves / lengths, errors / lengths
        transposed += moves.swapaxes(1, 2) @ np.linalg.solve(moves @ moves.swapaxes(1, 2) + 1e-9 * np.eye(actuators), errors)
        self.jacobian[rows] = transposed.swapaxes(1, 2)
        self.damping[rows], self.slow[rows] = LEAST_DAMPING, np.where(clear, solver.slow_steps, 0)
        nearest = np.arange(len(rows)), np.argmin(misses, axis=1)
        self.accept(rows, points[nearest], residuals[nearest], force=~(reached | early | clear))

    def descend(self, rows: Integers) -> Booleans:
        """One damped Gauss-Newton step each, and (K,) which descents have stalled."""
        solver, before, jacobian = self.solver, self.miss[rows], self.jacobian[rows]
        moves = box_step(jacobian, self.residual[rows], self.current[rows], damping=self.damping[rows])
        actions = self.current[rows] + moves
        residuals = self.evaluate(rows, actions)
        misses, squared = norm(residuals), np.square(moves).sum(axis=1)
        usable = (np.isfinite(misses) & (squared > 0))[:, None]
        with np.errstate(invalid="ignore"):
            errors = np.where(usable, residuals - self.residual[rows] - times(jacobian, moves), 0.0)
        self.jacobian[rows] += errors[:, :, None] * (moves / np.where(usable, squared[:, None], 1.0))[:, None, :]
        better = self.accept(rows, actions, residuals)
        self.damping[rows] = np.where(better, 0.1 * self.damping[rows], 10.0 * np.maximum(self.damping[rows], REJECTED_DAMPING))
        slow = misses > solver.slow * before
        self.slow[rows] = np.where(slow, self.slow[rows] + 1, 0)
        # A step that leaves a share of the miss leaves about that share of itself to go.
        settled = ~slow & (np.abs(moves).max(axis=1) * misses <= solver.precision * before)
        done = (self.miss[rows] <= solver.tolerance) & (settled | (solver.refinements == 0))
        self.close(rows[done | (self.miss[rows] <= solver.exact)], REACHED)
        return np.asarray((self.slow[rows] > solver.slow_steps) | (squared < 1e-18))

    def accept(self, rows: Integers, actions: Array, residuals: Array, *, force: Booleans | bool = False) -> Booleans:
        """Move where the miss is smaller, or where forced unless the simulation diverges there; (K,) which moved."""
        misses = norm(residuals)
        gone = np.asarray((misses < self.miss[rows]) | (force & np.isfinite(misses)))
        chosen = rows[gone]
        self.current[chosen], self.residual[chosen], self.miss[chosen] = actions[gone], residuals[gone], misses[gone]
        return gone

    def update_verdicts(self, rows: Integers) -> None:
        """Stalled descents go back to the best one; close those that are refined enough, clear, or have been searched enough."""
        solver, current = self.solver, (self.current, self.residual, self.miss)
        worse = self.miss[rows] > self.best[2][rows]
        for kept, now in zip(self.best, current, strict=True):
            now[rows[worse]], kept[rows[~worse]] = kept[rows[worse]], now[rows[~worse]]
        miss = self.miss[rows]
        improved = miss < IMPROVED * self.reference_miss[rows]
        self.reference_miss[rows] = np.where(improved, miss, self.reference_miss[rows])
        self.stalls[rows] = np.where(improved, 0, self.stalls[rows] + np.where(self.clear[rows], solver.clear_stalls, 1))
        reached, spent = miss <= solver.tolerance, self.searched[rows] >= solver.searches
        # A large miss needs fewer stalled searches to count as out of reach.
        stalls = self.stalls[rows]
        agreed = np.isfinite(miss) & (stalls * np.minimum(miss, 1.0) >= solver.patience) & (stalls >= self.least_stalls)
        self.close(rows[reached & (spent | (self.refined[rows] >= solver.refinements))], REACHED)
        self.close(rows[~reached & spent], NOT_SETTLED)
        self.close(rows[~reached & agreed], OUT_OF_REACH)

    def close(self, rows: Integers, verdict: int) -> None:
        self.open[rows], self.verdict[rows] = False, verdict

    def limit_factors(self) -> Array:
        """(N,) what the Gauss-Newton step without limits needs, where it would leave less than half of the miss."""
        factors, problem = np.where(self.verdict == REACHED, 1.0, np.nan), self.problem
        rows = np.flatnonzero(self.verdict == OUT_OF_REACH)
        jacobian, residual = self._jacobian_across(rows), self.residual[rows]
        moves = -times(np.asarray(np.linalg.pinv(jacobian, rcond=1e-3), dtype=np.float64), residual)
        helps = norm(residual + times(jacobian, moves)) < 0.5 * self.miss[rows]
        factors[rows] = np.where(helps, problem.box.factors_to_admit(self.current[rows] + moves, rows, problem.robot), np.inf)
        return factors

    def _jacobian_across(self, rows: Integers) -> Array:
        """(K, observation, action) the Jacobian, but of actuators whose force has ended by what the whole range of forces does: smaller
        moves do nothing there."""
        jacobian, box = self.jacobian[rows].copy(), self.problem.box
        at_end = box.of_force[rows] & box.at_limit(self.current[rows], rows)
        for actuator in np.flatnonzero(at_end.any(axis=0)).tolist():
            here = np.flatnonzero(at_end[:, actuator])
            points, of = self.current[rows[here]], rows[here]
            low, high = box.least[of, actuator], box.most[of, actuator]
            ends = [self.evaluate(of, np.where(np.arange(points.shape[1]) == actuator, end[:, None], points)) for end in (low, high)]
            with np.errstate(invalid="ignore"):
                slopes = (ends[1] - ends[0]) / (high - low)[:, None]
            known = np.isfinite(slopes).all(axis=1)
            jacobian[here[known], :, actuator] = slopes[known]
        return jacobian


def _checked(scale: Array, columns: int) -> Array:
    """(observation,) the scale, with no column's below a small share of the median."""
    if scale.shape != (columns,) or not (np.isfinite(scale).all() and (scale >= 0).all() and (scale > 0).any()):
        raise ImitableError(f"scale is {scale}; it must be {columns} finite numbers, none below 0 and not all 0")
    return floored_scale(scale)
