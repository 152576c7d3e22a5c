"""Change one line of the core at a time, and see whether the fast tests notice: `make mutants`.

A mutant is killed if one of the named test files fails; it survives if all pass. One that only hangs counts as surviving: nobody waits.
"""

import argparse
import atexit
import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
ROOT = Path(__file__).parents[1]
PATIENCE = 120.0  # seconds of the processor; five times as many on the clock


@dataclass(frozen=True)
class Mutant:
    """What it does wrong, in which file, the line's part that is replaced by what, and the tests that must notice."""

    name: str
    file: str
    old: str
    new: str
    tests: str
    explained: str = ""
    """Why it may survive."""


MUTANTS = (
    Mutant("a quaternion keeps its sign", "simulators/continuity.py", "< 0, -1.0, 1.0)", "< -np.inf, -1.0, 1.0)", "continuity"),
    Mutant("turns go on in the next trajectory", "simulators/continuity.py", "turns - turns[begin]", "turns", "continuity"),
    Mutant("a fast wheel is unwrapped", "simulators/continuity.py", "<= TURN * (1 + 1e-6)", "<= np.inf", "continuity"),
    Mutant(
        "two angles of one sine and cosine are not told", "simulators/continuity.py", "limited & another", "limited & False", "continuity"
    ),
    Mutant(
        "limit factors count from the middle", "inverse_dynamics/base.py", "actions / high", "(actions - low) / high", "inverse_dynamics"
    ),
    Mutant("absurd limit factors are told", "inverse_dynamics/base.py", "factors > MAX_FACTOR", "factors > np.inf", "inverse_dynamics"),
    Mutant(
        "small noise is not in the tolerance",
        "tracking.py",
        "noisy(trajectories, max(noise, observation_noise)",
        "noisy(trajectories, noise",
        "tracking",
    ),
    Mutant("narrow rejections are not told", "cli/score.py", "narrow.mean() >= MUCH", "narrow.mean() > 1", "cli"),
    # Files
    Mutant("files are written in place", "store/files.py", 'f".{path.name}.{os.getpid()}.partial"', "path.name", "store_files"),
    Mutant("nothing waits for the disk", "store/files.py", "                _sync(*", "                len(", "store_files"),
    Mutant("leftovers stay", "store/files.py", "            leftover.unlink(missing_ok=True)", "            pass", "store_files"),
    Mutant("leftovers of live processes go", "store/files.py", "and not _runs(int(owner))", "", "store_files"),
    Mutant("checksums of unpacked arrays do not count", "store/files.py", "!= member.CRC", "!= member.CRC and False", "store_files"),
    Mutant(
        "packed arrays are not read to their end",
        "store/files.py",
        "if stream.read(1):",
        "if False:",
        "store_files formats",
        explained="zipfile compares the checksum by itself once all was read",
    ),
    Mutant("sizes are not compared", "store/files.py", "+ data != member.file_size:", "+ data > member.file_size:", "store_files"),
    Mutant("no bound on what unpacks", "store/files.py", "if needed > (budget", "if needed < 0 and (budget", "store_files"),
    Mutant("pipes are waited for", "store/files.py", " | os.O_NONBLOCK", "", "store_files"),
    Mutant("any JSON will do", "store/files.py", "if not isinstance(found, kind):", "if False:", "store_files store_runs"),
    Mutant("a torn demonstration is two", "formats/csv.py", "if (torn := _repeated(", "if None is (torn := _repeated(", "csv"),
    Mutant("any number of columns", "formats/csv.py", "if len(first) > MOST_COLUMNS:", "if False:", "csv"),
    Mutant("a renamed file may lose its name", "store/files.py", "        _sync_folder(folder)", "        pass", "store_files"),
    Mutant("a table's hash does not count", "store/files.py", "if digest is not None and", "if False and", "store_files"),
    Mutant("a cache that ignores what it is keyed by", "store/cache.py", '"recipe": describe(recipe)', '"recipe": ""', "store_cache"),
    Mutant("a cache that ignores versions", "store/cache.py", '"versions": versions()', '"versions": ""', "store_cache"),
    Mutant("a cache that ignores the shape of large arrays", "store/cache.py", "{array.dtype.str} {array.shape} ", "", "store_cache"),
    Mutant("a cache that ignores what is in files", "store/cache.py", "if path.is_file():", "if False:", "store_cache"),
    Mutant("the cache is not capped", "store/cache.py", "if total <= self.max_bytes:", "if True:", "store_cache"),
    Mutant(
        "the snapshot goes before the result is written",
        "store/runs.py",
        "        written = json_bytes(content)",
        "        (self.path / SNAPSHOT).unlink(missing_ok=True)\n        written = json_bytes(content)",
        "store_runs",
    ),
    Mutant(
        "nothing is verified", "store/runs.py", "if changed := [name for name in LISTED", "if changed := [name for name in ()", "store_runs"
    ),
    Mutant(
        "a changed curve is gone on with",
        "store/runs.py",
        "if not np.array_equal(expected, _curve",
        "if np.ndim(expected) > 1 and not np.array_equal(expected, _curve",
        "store_runs",
    ),
    Mutant(
        "the snapshot is written before the curve",
        "store/runs.py",
        "self.path / name: content for name, content in contents.items()",
        "self.path / name: content for name, content in reversed(contents.items())",
        "store_runs",
    ),
    Mutant(
        "the result is written before the manifest",
        "store/runs.py",
        'self.path / MANIFEST: json_bytes({"sha256": hashes}), self.path / RESULT: written',
        'self.path / RESULT: written, self.path / MANIFEST: json_bytes({"sha256": hashes})',
        "store_runs",
    ),
    Mutant("points beyond the snapshot stay", "store/runs.py", 'if each["steps"] < checkpoint.steps]', "]", "store_runs"),
    Mutant(
        "a finished run is for its versions only",
        "store/runs.py",
        'ignored = {"versions"} if self.finished else',
        "ignored =",
        "store_runs",
    ),
    Mutant("a damaged policy is certified", "store/runs.py", "        Policy.load(self.path / POLICY)  #", "        #", "store_runs"),
    Mutant(
        "no lock is taken",
        "store/locks.py",
        "        fcntl.flock(descriptor, fcntl.LOCK_EX",
        "        fcntl.flock(descriptor, fcntl.LOCK_SH",
        "store_locks",
    ),
    Mutant(
        "a removed lock counts",
        "store/locks.py",
        "if os.path.exists(path) and os.path.samestat",
        "if True or os.path.samestat",
        "store_locks",
    ),
    Mutant("runs outlive their sweep", "paper/engines.py", "prctl(1, ", "prctl(2, ", "cli_processes"),
    Mutant("a policy's hash does not count", "networks.py", "!= digest or", "!= digest and False or", "store_runs"),
    # Numbers
    Mutant("any gain is a step", "trpo.py", "improvement > 0.1 * step_fraction * expected_improvement", "improvement > 0", "details"),
    Mutant("any step at all", "trpo.py", " and improvement > 0.1 * step_fraction * expected_improvement", "", "details"),
    Mutant("only the full gain is a step", "trpo.py", "improvement > 0.1 * step", "improvement > 0.95 * step", "details"),
    Mutant("no bound on the divergence", "trpo.py", "if kl <= trpo.max_kl and", "if", "trpo"),
    Mutant(
        "a time limit ends all value",
        "trpo.py",
        "np.where(rollout.terminated, 0.0, next_values)",
        "np.where(rollout.terminated | rollout.truncated, 0.0, next_values)",
        "trpo",
    ),
    Mutant(
        "advantages leak across episodes", "trpo.py", "np.where(episode_ends[time], 0.0, next_advantages)", "next_advantages * 1.0", "trpo"
    ),
    Mutant("lambda is forgotten", "trpo.py", "gamma * gae_lambda * next_advantages", "gamma * next_advantages", "trpo"),
    Mutant("advantages are not centered", "trpo.py", "(advantages - advantages.mean())", "advantages", "trpo"),
    Mutant("no damping", "trpo.py", "np.float32(trpo.cg_damping) * vector", "np.float32(0) * vector", "trpo"),
    Mutant("half the curvature of the standard deviation", "trpo.py", "2 * vector[network.size :]", "vector[network.size :]", "trpo"),
    Mutant("conjugate directions are not", "trpo.py", "squared_norm / previous) * direction", "0.0) * direction", "trpo"),
    Mutant(
        "no annealing in cloning",
        "learners/cloning.py",
        "0.5 * (1 + math.cos(math.pi * done / self.updates))",
        "1.0 + 0 * math.pi",
        "details",
    ),
    Mutant("no annealing in GAIL", "learners/gail.py", "1.0 - (1.0 - self.final_fraction) * state.done / self.rounds", "1.0", "details"),
    Mutant("noise not in input units", "learners/cloning.py", "assessment.step_scale / scale,", "assessment.step_scale,", "details"),
    Mutant(
        "a squared loss",
        "learners/cloning.py",
        "np.clip(errors / np.float32(self.huber_delta), -1.0, 1.0)",
        "errors / np.float32(self.huber_delta)",
        "learners details golden",
    ),
    Mutant(
        "unreachable transitions are cloned",
        "learners/cloning.py",
        "TransitionSampler(demonstrations, drawn * usable)",
        "TransitionSampler(demonstrations, drawn)",
        "learners",
    ),
    Mutant("one-sided perturbation", "replay.py", "rng.uniform(-noise, noise,", "rng.uniform(0.0, noise,", "details"),
    Mutant(
        "the first step does not count",
        "replay.py",
        "self.demonstrations.transition_rows + 1]",
        "self.demonstrations.transition_rows]",
        "replay",
    ),
    Mutant("a broken replay is perfect", "replay.py", "np.where(self.diverged, np.inf,", "np.where(self.diverged, 0.0,", "replay"),
    Mutant("the robot is put back at each step", "replay.py", "(time - 1) % window == 0", "True", "replay"),
    Mutant(
        "step_scale as mean absolute change",
        "inverse_dynamics/base.py",
        "(observations[rows + 1] - observations[rows]).std(axis=0)",
        "np.abs(observations[rows + 1] - observations[rows]).mean(axis=0)",
        "details",
    ),
    Mutant(
        "demonstrations count alike, not transitions",
        "sampling.py",
        "np.cumsum(per_transition(self.weights, self.demonstrations.lengths))",
        "np.cumsum(np.repeat(self.weights / self.demonstrations.lengths, self.demonstrations.lengths))",
        "sampling",
    ),
    Mutant("the first transition of no weight is drawn", "sampling.py", 'side="right")', 'side="left")', "sampling"),
    Mutant(
        "next observations are the observations",
        "sampling.py",
        "self.demonstrations.observations[rows + 1]",
        "self.demonstrations.observations[rows]",
        "sampling",
    ),
    Mutant("negative weights pass", "sampling.py", "| (weights < 0)", "", "sampling"),
    Mutant(
        "effective size of the sum alone", "sampling.py", "relative.sum() ** 2 / np.square(relative).sum()", "relative.sum()", "sampling"
    ),
    Mutant("sigma twice as wide", "scores/optimality.py", "np.exp(-0.5 * ((returns", "np.exp(-0.125 * ((returns", "scores"),
    Mutant(
        "infeasible ones set the standard",
        "scores/optimality.py",
        "ranked = np.flatnonzero(feasible)",
        "ranked = np.flatnonzero(np.ones_like(feasible))",
        "scores",
    ),
    Mutant(
        "the worst neighbour is the standard", "scores/optimality.py", "np.argsort(-returns[ranked]", "np.argsort(returns[ranked]", "scores"
    ),
    Mutant(
        "feasibility rises with distance",
        "scores/feasibility.py",
        "(tolerance.d_max - near) /",
        "(near - tolerance.d_min) /",
        "feasibility",
    ),
    Mutant(
        "an impossible part sets the standard",
        "scores/optimality.py",
        "feasible & ~impossible_parts(self.feasibility, assessment) if self.feasible_above else feasible",
        "feasible",
        "scores",
    ),
    Mutant(
        "one lost window is an impossible part", "scores/feasibility.py", "LOST_WINDOWS = 2.0, 2", "LOST_WINDOWS = 2.0, 1", "feasibility"
    ),
    Mutant(
        "a window at d_max is clearly lost",
        "scores/feasibility.py",
        "windows.distances > limit",
        "windows.distances > limit / 2",
        "feasibility",
    ),
    Mutant("fragments count", "scores/feasibility.py", "np.where(share < MIN_FEASIBILITY, 0.0, share)", "share", "details"),
    Mutant("d_max of the nearest replay", "scores/feasibility.py", "[~perturbed.diverged].max()", "[~perturbed.diverged].min()", "details"),
    Mutant("a quantile one too low", "tracking.py", "(len(values) + 1) * (1 - rate)", "len(values) * (1 - rate)", "tracking feasibility"),
    Mutant(
        "tanh has the slope of a line",
        "networks.py",
        "[np.float32(1.0) - value * value for",
        "[np.float32(1.0) + 0 * value for",
        "networks",
    ),
    Mutant("biases learn nothing", "networks.py", "upstream.sum(axis=0, out=bias_gradient)", "bias_gradient[:] = 0", "networks"),
    Mutant("Adam without bias correction", "networks.py", "self.learning_rate / (1 - beta1**self.steps)", "self.learning_rate", "networks"),
    Mutant(
        "actions are not clipped",
        "networks.py",
        "np.clip(self.mean_actions(self.normalize_obs(observations)), self.low, self.high)",
        "self.mean_actions(self.normalize_obs(observations))",
        "networks",
    ),
    Mutant("inputs are not centered", "networks.py", "(observations - self.center) / self.scale", "observations / self.scale", "networks"),
    Mutant(
        "samples without their standard deviation",
        "networks.py",
        "np.exp(self.log_std) * rng.standard_normal",
        "rng.standard_normal",
        "networks",
    ),
    # Noise
    Mutant("clipped observations without a margin", "noise.py", "np.asarray(3 * noise * scale)", "np.asarray(0 * noise * scale)", "noise"),
    Mutant(
        "a margin to one side",
        "restorability.py",
        "restorable(robot, observations + margin) & restorable(robot, observations - margin)",
        "restorable(robot, observations + margin)",
        "noise",
    ),
    Mutant("no margin as long as noise is not known", "noise.py", "robot, margin=scale)", "robot)", "noise"),
    Mutant("steps that end clipped say what noise is", "noise.py", "rows[clear[rows] & clear[rows + 1]]", "rows[clear[rows]]", "noise"),
    Mutant("constants dwarf all else", "noise.py", "pairs[0] - own[0].mean(axis=0), pairs[1]", "pairs[0], pairs[1]", "noise"),
    Mutant("noise in the columns' own units", "noise.py", "noise = level * scale * rng", "noise = level * rng", "noise"),
    Mutant("the column explained worst says what noise is", "noise.py", "return min((level for", "return max((level for", "noise"),
    Mutant("noise with its amplification", "noise.py", ", 0.0))) / amplification", ", 0.0)))", "noise"),
    Mutant("a median that is no standard deviation", "noise.py", "1.4826 * float(np.median", "1.0 * float(np.median", "noise"),
    Mutant("what a regression misses is noise", "noise.py", "if unexplained[1] < 2 * unexplained[0]:", "if False:", "noise tracking"),
    Mutant("what a regression cannot explain is noise", "noise.py", "if unexplained[0] > EXPLAINED:", "if False:", "noise tracking"),
    Mutant("what is reached exactly is noise", "noise.py", ".mean() < EXACT_SHARE", ".mean() < 2.0", "noise"),
    Mutant("what is reached roughly is no noise", "noise.py", "found.miss < 0.1 * level", "found.miss < 10.0 * level", "noise"),
    # Windows
    Mutant("the robot is never put back", "windows.py", "reset_each_step = len(retry_with) > 0", "reset_each_step = False", "windows"),
    Mutant(
        "windows begin where the state is not known",
        "windows.py",
        "for each in np.flatnonzero(~restorable[first + drawn]):",
        "for each in ():",
        "windows",
    ),
    Mutant("windows begin too late", "windows.py", "lengths[demos] - length, 0) + 1", "lengths[demos] - length, 0) + 2", "windows"),
    Mutant(
        "a simulation that breaks down is not far off",
        "windows.py",
        "squared_errors[diverged] = np.inf",
        "squared_errors[diverged] = 0.0",
        "windows",
    ),
    Mutant("a worse second answer counts", "windows.py", "nearer = again.miss < found.miss[rows]", "nearer = again.miss >= 0", "windows"),
    Mutant(
        "the first verdict counts", "windows.py", '["verdict"][rows] = again.verdict', '["verdict"][rows] = found.verdict[rows]', "windows"
    ),
    Mutant("steps of second answers are not counted", "windows.py", "found.steps[rows] + again.steps", "found.steps[rows]", "windows"),
    Mutant("what is beyond doubt is tried again", "windows.py", " & (found.miss < retry_below)", "", "windows"),
    Mutant("the mean of steps that are put back", "windows.py", "0.0).max(axis=1, initial=0.0)", "0.0).mean(axis=1)", "windows"),
    Mutant("one step settles a window", "windows.py", "(2 * judged.sum(axis=1) >= tried)", "judged.any(axis=1)", "windows"),
    Mutant("a lost step settles nothing", "windows.py", "(farthest > followed_within) | ", "", "windows"),
    Mutant("unclear steps are judged", "windows.py", "= now, on_track & ~unclear", "= now, on_track", "windows"),
    Mutant("steps from unknown states are judged", "windows.py", "on_track &= time > 0", "on_track &= True", "windows"),
    Mutant(
        "one lost step ends a window", "windows.py", "self.lost_steps[active] >= MAX_LOST_STEPS", "self.lost_steps[active] >= 1", "windows"
    ),
    Mutant("what was given up is near after that", "windows.py", " + last * (lengths - followed.sum(axis=1))", "", "windows"),
    Mutant(
        "what limits it is what limits its return",
        "windows.py",
        "np.where(on_track, now.clip(max=1e6), 0.0)[:, None]",
        "now.clip(max=1e6)[:, None]",
        "windows",
    ),
    Mutant("windows disagree once one is followed", "windows.py", " & (followed < np.bincount(windows.demo))", "", "windows"),
    # Tracking
    Mutant(
        "states in other units set the tolerance",
        "tracking.py",
        "np.unique(shown.demo[shown.distances <= GIVE_UP_DISTANCE / 2 + 3 * noise])",
        "np.unique(shown.demo)",
        "tracking",
    ),
    Mutant("state is never hidden", "tracking.py", "return bool((misses > FOLLOWED).mean() > 0.25)", "return False", "tracking"),
    Mutant(
        "clipped velocities are hidden state",
        "tracking.py",
        "known = restorable_rows(own.trajectories, robot)[rows]",
        "known = np.ones(len(rows), dtype=bool)",
        "tracking",
    ),
    Mutant(
        "own windows have no noise",
        "tracking.py",
        "as_observed(own.trajectories)",
        "own.trajectories",
        "tracking",
    ),
    Mutant(
        "retraced windows have no noise",
        "tracking.py",
        "map(as_observed, made)",
        "made",
        "tracking feasibility",
    ),
    Mutant("what is feasible is not followed in full", "tracking.py", "* cost > STEPS_IN_FULL", "* cost >= 0", "tracking"),
    Mutant("the last steps are not in full", "windows.py", "-(-lengths[demos] // length)", "lengths[demos] // length + 0", "tracking"),
    Mutant(
        "rounded columns are compared as finely as ever",
        "assessment.py",
        "STEPS_OF_ROUNDING * self.rounding",
        "0 * self.rounding",
        "feasibility",
    ),
    Mutant(
        "own trajectories are not rounded",
        "noise.py",
        "round_to(trajectories.observations + noise, rounding)",
        "trajectories.observations + noise",
        "feasibility tracking",
    ),
    Mutant(
        "a column of few values is taken for whole numbers",
        "rounding.py",
        "places[~many] = np.maximum",
        "places[:0] = np.minimum",
        "noise",
    ),
    Mutant(
        "a return that is earned in part by what is impossible counts in full",
        "scores/optimality.py",
        "np.minimum(found, found[compared].mean())",
        "found",
        "scores",
    ),
    Mutant(
        "windows begin where noise hides that the state is not known",
        "tracking.py",
        "restorable_rows(trajectories, self.robot, margin=noise_margin(self.noise, self.scale))",
        "restorable_rows(trajectories, self.robot)",
        "tracking",
    ),
    Mutant("no more windows where they disagree", "tracking.py", "np.tile(unclear, follower.windows_per_demo)", "unclear[:0]", "tracking"),
    Mutant(
        "no bound on the steps of windows", "tracking.py", " or follower.windows_per_demo * length * chosen[1] > budget", "", "tracking"
    ),
    Mutant("windows longer than the robot can follow", "tracking.py", "FOLLOWABLE) > limit", "FOLLOWABLE) > np.inf", "tracking"),
    Mutant("trajectories that broke down stay", "tracking.py", "whole = ~diverged", "whole = diverged | True", "tracking"),
    # Feasibility
    Mutant(
        "no room for saturated actuators", "scores/feasibility.py", "(NOISE_MARGIN_FACTOR if tracked.noise else 1.0)", "1.0", "feasibility"
    ),
    Mutant(
        "room for saturated actuators without noise",
        "scores/feasibility.py",
        "(NOISE_MARGIN_FACTOR if tracked.noise else 1.0)",
        "NOISE_MARGIN_FACTOR",
        "feasibility",
    ),
    Mutant(
        "NOISE_MARGIN_FACTOR is none", "scores/feasibility.py", "NOISE_MARGIN_FACTOR = 1.15", "NOISE_MARGIN_FACTOR = 1.0", "feasibility"
    ),
    Mutant(
        "noisy windows by their mean",
        "scores/feasibility.py",
        "share = ramp_down(median_by_demonstration(",
        "share = ramp_down(mean_by_demonstration(",
        "feasibility",
    ),
    Mutant(
        "own noisy windows by their mean",
        "scores/feasibility.py",
        "return (median_by_demonstration(",
        "return (mean_by_demonstration(",
        "feasibility",
    ),
    Mutant("the upper median", "scores/feasibility.py", "(counts - 1) // 2", "counts // 2", "feasibility"),
    Mutant("what nothing settles is as it seems", "scores/feasibility.py", "np.where(some, means, unsettled)", "means", "feasibility"),
    Mutant(
        "own windows that are not settled count",
        "scores/feasibility.py",
        "own.distances[own.settled], retraced.distances[retraced.settled]",
        "own.distances, retraced.distances",
        "feasibility",
    ),
    Mutant("d_max is twice d_min", "scores/feasibility.py", "float(np.sqrt(4 * d_min**2 - 3 * median**2))", "2 * d_min", "feasibility"),
    Mutant("no least tolerance", "scores/feasibility.py", "return max(FOLLOWED, conformal", "return max(0.0, conformal", "feasibility"),
    Mutant("the rate of those that set it", "scores/feasibility.py", "(own[-1][1::2] >", "(own[-1][::2] >", "feasibility"),
    # Inverse dynamics
    Mutant(
        "no update after a step", "inverse_dynamics/solved.py", "errors[:, :, None] * (moves", "0.0 * errors[:, :, None] * (moves", "solved"
    ),
    Mutant(
        "the last descent counts, not the best",
        "inverse_dynamics/solved.py",
        "worse = self.miss[rows] > self.best[2][rows]",
        "worse = np.zeros(len(rows), dtype=bool)",
        "solved",
    ),
    Mutant(
        "no step that is worse is refused",
        "inverse_dynamics/solved.py",
        "(misses < self.miss[rows]) | (force &",
        "((force | True) &",
        "solved",
    ),
    Mutant(
        "out of reach when the budget is spent",
        "inverse_dynamics/solved.py",
        "self.close(rows[~reached & spent], NOT_SETTLED)",
        "self.close(rows[~reached & spent], OUT_OF_REACH)",
        "solved",
    ),
    Mutant(
        "the second opinion is the first",
        "inverse_dynamics/solved.py",
        "refinements=0, seed=self.seed + 1)",
        "refinements=0, seed=self.seed)",
        "solved",
    ),
    Mutant(
        "noise is not taken for reached",
        "inverse_dynamics/solved.py",
        "tolerance=max(self.tolerance, 1.5 * noise)",
        "tolerance=self.tolerance",
        "solved assessment",
    ),
    Mutant(
        "rounding counts in columns that never move",
        "inverse_dynamics/base.py",
        "MIN_RELATIVE_SCALE = 1e-3",
        "MIN_RELATIVE_SCALE = 1e-12",
        "solved",
    ),
    Mutant("a guess that is far off is kept", "inverse_dynamics/solved.py", "(self.miss > solver.exact))", "(self.miss < 0))", "solved"),
    Mutant("what nobody tried is reached", "inverse_dynamics/base.py", "none + UNTRIED", "none + REACHED", "inverse_dynamics"),
    # Assessment
    Mutant("scores see sources", "assessment.py", "demonstrations.with_sources(None), robot", "demonstrations, robot", "assessment"),
    Mutant("a part's recipe has no version", "assessment.py", '{"version": ASSESS_VERSION, **decided_by', "{**decided_by", "assessment"),
    Mutant("a part's recipe has no generator", "assessment.py", '**decided_by, "streams": self.streams,', "**decided_by,", "assessment"),
    Mutant(
        "the held-out episodes are fitted to",
        "assessment.py",
        "training, held_out = self.own",
        "held_out, training = self.own",
        "assessment",
    ),
    Mutant(
        "negligible noise counts", "assessment.py", "if self.noise > NEGLIGIBLE_NOISE else", "if self.noise > 0 else", "assessment tracking"
    ),
    Mutant(
        "states are carried across demonstrations",
        "restorability.py",
        "np.where(last >= first, index - last, -1)",
        "index - last",
        "assessment",
    ),
    Mutant(
        "actions that lead elsewhere are usable",
        "assessment.py",
        '"usable": used & np.isin(verdicts, (REACHED, UNTRIED))}',
        '"usable": used}',
        "assessment learners",
    ),
    Mutant(
        "actions from states that noise hides",
        "assessment.py",
        "depth = steps_since_restorable(demonstrations, robot, margin=margin)",
        "depth = steps_since_restorable(demonstrations, robot)",
        "assessment",
    ),
    # Rollouts and learners
    Mutant("every checkpoint on other starts", "evaluation.py", "rng=deepcopy(rng))", "rng=rng)", "evaluation"),
    Mutant(
        "actions beyond the limits are recorded",
        "rollouts.py",
        "np.clip(act(obs), simulator.action_low, simulator.action_high)",
        "act(obs)",
        "rollouts",
    ),
    Mutant("the end of a rollout is none", "rollouts.py", "truncated[-1] = ~terminated[-1]", "truncated[-1] |= False", "rollouts trpo"),
    Mutant(
        "the agent is paid for being told apart",
        "learners/_discriminator.py",
        "np.logaddexp(0.0, -logits",
        "np.logaddexp(0.0, logits",
        "gail",
    ),
    Mutant("a penalty on every gradient", "learners/_discriminator.py", "(norms - 1) / (norms + 1e-8)", "norms / (norms + 1e-8)", "gail"),
    Mutant(
        "loss terms do not count by their weights",
        "learners/_discriminator.py",
        "np.float32(term.label)) * term.weights /",
        "np.float32(term.label)) /",
        "gail",
    ),
    Mutant(
        "ends are not absorbing",
        "learners/_demonstrated.py",
        "np.maximum(robot.horizon - demonstrations.lengths, 0)",
        "0 * demonstrations.lengths",
        "gail",
    ),
)


def applies(mutant: Mutant, folder: Path) -> bool:
    """Whether its line is there, and there once; what cannot even be read then would be killed by anything."""
    content = (folder / "imitable" / mutant.file).read_text()
    compile(content.replace(mutant.old, mutant.new), mutant.file, "exec")
    return content.count(mutant.old) == 1


def killed(mutant: Mutant, folder: Path) -> str:
    """`killed`, `survives` or `hangs`."""
    path = folder / "imitable" / mutant.file
    before = path.read_text()
    path.write_text(before.replace(mutant.old, mutant.new))
    outcome = tested(mutant.tests, folder)
    path.write_text(before)
    return {"pass": "survives", "fail": "killed"}.get(outcome, outcome)


def tested(names: str, folder: Path) -> str:
    """`pass`, `fail` or `hangs`: these tests, with the package in this folder."""
    pid = os.fork()  # libraries are loaded, the package is not
    if not pid:
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (int(PATIENCE), int(PATIENCE)))
        os.environ["PYTHONPATH"] = str(folder)  # of processes that tests start
        sys.path.insert(0, str(folder))
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        import pytest

        tests = [str(ROOT / "tests" / f"test_{name}.py") for name in names.split()]
        code = 99
        with suppress(BaseException):
            code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow", "--rootdir", str(ROOT), *tests])
        os._exit(int(code))
    deadline, status = time.monotonic() + 5 * PATIENCE, None
    while status is None:
        done, found = os.waitpid(pid, os.WNOHANG)
        if done:
            status = found
        elif time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        else:
            time.sleep(0.05)
    if os.WIFSIGNALED(status):
        return "hangs"
    return {0: "pass", 1: "fail", 2: "fail"}.get(os.waitstatus_to_exitcode(status), f"pytest ended with {status}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Change one line of the core at a time, and see whether the fast tests notice.")
    parser.add_argument("--only", default="", help="mutants with this in their name")
    only = parser.parse_args().only
    for name in (
        "numpy",
        "scipy.spatial",
        "scipy.stats",
        "torch",
        "pyarrow.parquet",
        "gymnasium",
        "mujoco",
        "matplotlib.figure",
    ):
        __import__(name)
    os.chdir(ROOT)
    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    atexit.register(shutil.rmtree, folder)
    shutil.copytree(ROOT / "src" / "imitable", folder / "imitable", ignore=shutil.ignore_patterns("__pycache__"))
    sys.path = [each for each in sys.path if Path(each) != ROOT / "src"]
    sys.dont_write_bytecode = True  # lines of one length, changed within a second, look the same to Python's cache
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    outcomes: dict[str, list[str]] = {}
    chosen = [mutant for mutant in MUTANTS if only in mutant.name]
    if stale := [f"{mutant.file}: {mutant.name}" for mutant in chosen if not applies(mutant, folder)]:
        sys.exit("\n".join(["lines that are not there any more, or there twice:", *stale]))
    for name in sorted({name for mutant in chosen for name in mutant.tests.split()}):
        if (outcome := tested(name, folder)) != "pass":  # else they would kill everything
            sys.exit(f"tests/test_{name}.py: {outcome}, with nothing changed")
        print(f"pass      tests/test_{name}.py, with nothing changed", flush=True)
    for mutant in chosen:
        outcome = killed(mutant, folder)
        outcome = "explained" if outcome == "survives" and mutant.explained else outcome
        outcomes.setdefault(outcome, []).append(mutant.name)
        print(f"{outcome:9} {mutant.file}: {mutant.name}", flush=True)
    print(", ".join(f"{len(names)} {outcome}" for outcome, names in outcomes.items()))
    if set(outcomes) - {"killed", "explained"}:
        sys.exit("some mutants were not killed")


if __name__ == "__main__":
    main()
