"""Check the scorer: held-out trajectories of the robot must score near 1, impossible copies of them near 0."""

from dataclasses import dataclass, replace

import numpy as np

from imitable.arrays import Generator, Progress, no_progress, one_thread
from imitable.assessment import Assessment
from imitable.demonstrations import Demonstrations
from imitable.inverse_dynamics import floored_scale
from imitable.noise import noisy
from imitable.restorability import restorable_rows
from imitable.rollouts import random_actions
from imitable.scores import Feasibility
from imitable.tracking import Tracked, replay_windows, rollout_from
from imitable.windows import FOLLOWED

TRAJECTORIES, STEPS = 16, 40
STRENGTH = 0.8
"""Least fraction of the action range in trajectories that are copied: gentle ones may be possible even when amplified."""
AMPLIFIED, COMPRESSED = 3.0, 3
WANTED = 0.95
"""A separation below this is warned of."""
CLIPPED, UNSETTLED, STRAYS = 0.2, 0.1, 0.5
"""Shares of clipped observations and of unsettled windows, and a distance in steps, that explain a poor separation."""


@dataclass(frozen=True)
class SelfCheck:
    """Mean scores of trajectories whose correct score is known."""

    own: float
    """Of the robot's own unseen trajectories: 1 is right."""
    amplified: float
    """Of copies with three times the motion: 0 is right; likewise the next two."""
    compressed: float
    """Of copies with two of three observations left out."""
    shuffled: float
    """Of copies with their observations in random order."""
    reasons: tuple[str, ...]
    """What may explain a poor separation."""

    @property
    def separation(self) -> float:
        """Balanced accuracy (1 at best, 0.5 by chance), with the kind of copies that scores highest."""
        return (self.own + 1 - max(self.amplified, self.compressed, self.shuffled)) / 2

    @property
    def sentence(self) -> str:
        copies = f"amplified {self.amplified:.2f}, time-compressed {self.compressed:.2f}, shuffled {self.shuffled:.2f}"
        summary = f"self-check: the robot's own unseen trajectories score {self.own:.2f}, {copies}; separation {self.separation:.2f}"
        if self.separation >= WANTED:
            return summary
        return f"{summary}, below {WANTED:g}: {'; '.join(self.reasons) or 'no reason was found'}"


@one_thread()
def self_check(assessment: Assessment, *, rng: Generator, progress: Progress = no_progress) -> SelfCheck:
    """Score the robot's own trajectories and impossible copies of them exactly as the demonstrations were scored."""
    robot, tracked, scale = assessment.robot, assessment.tracked, floored_scale(assessment.step_scale)
    acting, shuffling, drawing = rng.spawn(3)
    draw = random_actions(robot, TRAJECTORIES, rng=acting, max_action_repeat=10, min_action_scale=STRENGTH)
    starts = robot.initial_states(TRAJECTORIES, acting)
    violent = rollout_from(robot, starts, min(STEPS, robot.horizon), act=lambda *_: draw()).trajectories
    own, score = assessment.own_episodes[1].trajectories, Feasibility()
    sets, windows = {"own": own, **_copies(violent, shuffling)}, {}
    for kind, given in sets.items():
        windows[kind] = _tracked(assessment, noisy(given, tracked.noise, scale, shuffling, rounding=assessment.rounding), drawing)
        progress(len(windows) / len(sets))
    weights = {kind: float(score.weights_of(each).mean()) for kind, each in windows.items()}
    unsettled = 1 - float(windows["own"].demonstration_windows.settled.mean())
    reasons = []
    if (d_min := score.tolerance_of(tracked).d_min) > STRAYS + 2 * tracked.noise:
        reasons.append(f"the robot strays by {d_min:.2g} of a step from its own trajectories, so little is out of reach")
    if assessment.rounding.any():
        reasons.append(f"the demonstrations are rounded to {assessment.rounding.max():g}: write them with more decimals")
    if tracked.noise > FOLLOWED:
        reasons.append(f"the demonstrations have a noise of {tracked.noise:.2g} of a step")
    if assessment.hides_state:
        reasons.append("the observations hide some of the robot's state")
    if (clipped := 1 - float(restorable_rows(own, robot).mean())) > CLIPPED:
        reasons.append(f"{clipped:.0%} of the robot's own observations are clipped, which hides its velocities")
    if unsettled > UNSETTLED:
        reasons.append(f"the actions of {unsettled:.0%} of its own windows are not settled within the budget of simulated steps")
    return SelfCheck(**weights, reasons=tuple(reasons))


def _copies(own: Demonstrations, rng: Generator) -> dict[str, Demonstrations]:
    """Impossible copies of the robot's own trajectories, all of one length."""
    steps = int(own.lengths[0])
    seen = own.observations.reshape(len(own), steps + 1, -1)
    order = np.stack([rng.permutation(steps + 1) for _ in range(len(own))])
    changed = {
        "amplified": seen[:, :1] + AMPLIFIED * (seen - seen[:, :1]),  # they start at rest, so velocities grow as positions do
        "compressed": seen[:, ::COMPRESSED],
        "shuffled": np.take_along_axis(seen, order[:, :, None], axis=1),
    }
    return {kind: Demonstrations(each.reshape(-1, each.shape[2]), np.full(len(own), each.shape[1] - 1)) for kind, each in changed.items()}


def _tracked(assessment: Assessment, given: Demonstrations, rng: Generator) -> Tracked:
    """Windows of other trajectories, tracked as those of the demonstrations were."""
    tracked, follower = assessment.tracked, assessment.follower
    if assessment.hides_state:
        return replace(
            tracked, demonstration_windows=replay_windows(given, assessment.own_episodes[0], follower, rng=rng).demonstration_windows
        )
    demos = np.tile(np.arange(len(given)), follower.windows_per_demo)
    return replace(tracked, demonstration_windows=follower.follow_random(given, demos, tracked.length, rng=rng)[0])
