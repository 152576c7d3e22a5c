"""Assess demonstrations on a robot: how closely it can follow them, and how they score; source labels are dropped."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from functools import cached_property

import numpy as np

from imitable.arrays import Array, Arrays, Booleans, Generator, Integers, Progress, no_progress, one_thread, part_of
from imitable.check import check_columns
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError, at_least, check_fields
from imitable.inverse_dynamics import (
    NOT_SETTLED,
    REACHED,
    UNTRIED,
    InverseDynamics,
    InverseDynamicsModel,
    Solved,
    floored_scale,
    model_for_tracking,
    model_with_tolerance,
    retry_models,
    step_scale,
    with_scale,
)
from imitable.inverse_dynamics.library import Library, waves
from imitable.noise import is_noise, noise_level, noise_margin, noisy
from imitable.replay import Replay, replay
from imitable.restorability import steps_since_restorable
from imitable.rollouts import Episodes, explore
from imitable.rounding import STEPS_OF_ROUNDING, rounding_units
from imitable.scores import Feasibility, RectifiedOptimality, Score, product, why_zero
from imitable.simulators import Simulator, continuous, with_defaults
from imitable.tracking import Follower, Tracked, hides_state, replay_windows, rollout_from, track
from imitable.windows import Windows

ASSESS_VERSION = 15
"""Raised when the numbers of exploration, inverse dynamics, noise, windows or replay change: what was cached before no longer counts."""

STORED_KINDS = {"demonstration_windows": "shown", "random_windows": "own", "retraced_windows": "retraced"}
STORED_FIELDS = {each.name: "growth" if each.name == "limit_factor" else each.name for each in fields(Windows)}
"""Attributes of Tracked and of Windows to their names in the cache, which stay as they were first written."""

CacheLookup = Callable[[str, Mapping[str, object], Callable[[], Arrays]], Arrays]
"""(part name, cache key, function) -> arrays, from the cache or computed."""


def no_cache(part: str, recipe: Mapping[str, object], make: Callable[[], Arrays]) -> Arrays:
    """Compute every part."""
    return make()


@dataclass(frozen=True)
class Exploration:
    """Random episodes of the robot, which show what it can do."""

    episodes: int = 40
    steps: int | None = 100  # of each, whether it terminates or not; None: whole episodes, with full actions, as in the paper
    held_out_share: float = 0.2  # of the episodes, never used in fitting

    def __post_init__(self) -> None:
        check_fields(
            self,
            *at_least(self, 2, "episodes"),
            ("steps", self.steps is None or self.steps >= 1, "at least 1"),
            ("held_out_share", 0 < self.held_out_share < 1, "between 0 and 1"),
        )

    def __call__(self, robot: Simulator, *, rng: Generator) -> tuple[Episodes, Episodes]:
        """Episodes to fit from, and held out."""
        few = max(1, round(self.held_out_share * self.episodes))
        held_out, training = (self._run(robot, count, rng) for count in (few, max(1, self.episodes - few)))
        return training, held_out

    def _run(self, robot: Simulator, count: int, rng: Generator) -> Episodes:
        if self.steps is None:
            return explore(robot, count=count, rng=rng)
        return rollout_from(robot, robot.initial_states(count, rng), min(self.steps, robot.horizon), rng=rng)


def assess(
    demonstrations: Demonstrations,
    robot: Simulator,
    *,
    model: InverseDynamicsModel | None = None,
    exploration: Exploration | None = None,
    rng: Generator | None = None,
    cache: CacheLookup = no_cache,
    progress: Progress = no_progress,
) -> "Assessment":
    """All that scores and learners may ask about demonstrations on a robot; each part is computed when it is first needed."""
    robot = with_defaults(robot)
    check_columns(demonstrations, robot)
    demonstrations = replace(demonstrations, observations=continuous(robot, demonstrations.observations, demonstrations.starts))
    streams = (np.random.default_rng(0) if rng is None else rng).spawn(3)
    return Assessment(
        demonstrations.with_sources(None), robot, model or Solved(), exploration or Exploration(), tuple(streams), cache, progress
    )


@dataclass(frozen=True, eq=False)
class Assessment:
    """What a score or a learner may see: demonstrations without their sources, the robot, and how it follows them."""

    demonstrations: Demonstrations
    robot: Simulator
    """What learners may step and observe; its reward is for evaluation only."""
    model: InverseDynamicsModel
    exploration: Exploration
    streams: tuple[Generator, ...]
    """Random generators for exploring, fitting and tracking."""
    cache: CacheLookup = no_cache
    progress: Progress = no_progress
    diverged: dict[str, int] = field(default_factory=dict)
    """How many simulations diverged, by part computed so far."""
    _weights: dict[Score, Array] = field(default_factory=dict, init=False)
    _own_replays: dict[float, tuple[Replay, Replay]] = field(default_factory=dict, init=False)

    def weights(self, score: Score | None = None) -> Array:
        """Weights (demo,) or (transition,) of a score, feasibility x optimality if none is given, or an error that says why all are 0."""
        score = self.default_score if score is None else score
        weights = self.scored(score)
        if not weights.any():
            raise ImitableError(f"all {len(weights)} weights are zero: {why_zero(score, self)}")
        return weights

    @property
    def default_score(self) -> Score:
        """Feasibility x optimality, with no numbers to choose."""
        return product(Feasibility(), RectifiedOptimality())

    def scored(self, score: Score) -> Array:
        """Weights of a score, computed once."""
        if score not in self._weights:
            self._weights[score] = score(self)
        return self._weights[score]

    def with_inverse(self, model: InverseDynamicsModel, exploration: Exploration) -> "Assessment":
        """The same demonstrations on the same robot, with another inverse dynamics."""
        return replace(self, model=model, exploration=exploration)

    @cached_property
    def own_episodes(self) -> tuple[Episodes, Episodes]:
        """Random episodes of the robot: to fit from, and held out."""
        return self.exploration(self.robot, rng=deepcopy(self.streams[0]))

    @cached_property
    def inverse_dynamics(self) -> InverseDynamics:
        """f_id, fitted to the robot."""
        learned = {name.removeprefix("model "): array for name, array in self._fitted.items() if name.startswith("model ")}
        return self.model.restored(learned, self.robot)

    def _restored(self, model: InverseDynamicsModel) -> InverseDynamics:
        """f_id of a variant of the model, without fitting again."""
        return model.restored(self.inverse_dynamics.arrays(), self.robot)

    @cached_property
    def step_scale(self) -> Array:
        """(observation,) standard deviation of what one random action of the robot changes, or what rounding leaves of it."""
        return np.maximum(step_scale(self.own_episodes[0]), STEPS_OF_ROUNDING * self.rounding)

    @cached_property
    def rounding(self) -> Array:
        """(observation,) unit to which the demonstrations are rounded; 0: not rounded."""
        return rounding_units(self.demonstrations.observations)

    @property
    def noise(self) -> float:
        """Estimated standard deviation of noise on the demonstrations' observations, in units of the robot's own one-step changes; 0 where
        the estimate cannot be noise."""
        return float(self._fitted["noise"])

    @property
    def tracking_noise(self) -> float:
        """The noise, or 0 where it is negligible."""
        return self.noise if self.noise > NEGLIGIBLE_NOISE else 0.0

    @property
    def hides_state(self) -> bool:
        """Whether the robot's steps depend on more than its observations show."""
        return bool(self._fitted["hides state"])

    @property
    def retry_inverses(self) -> tuple[InverseDynamics, ...]:
        """Asked again about steps that are not reached; none if there is noise, or if the inverse dynamics has no retries."""
        models = () if self.tracking_noise else retry_models(self.model)
        return tuple(self._restored(each) for each in models)

    @cached_property
    def follower(self) -> Follower:
        """Tracks windows on the robot, with one setting for demonstrations and for the robot's own trajectories."""
        inverse = self._restored(model_for_tracking(self.model, self.tracking_noise))
        scale = floored_scale(self.step_scale)
        return Follower(self.robot, inverse, scale, self.tracking_noise, self.retry_inverses, self._restored(self.model))

    @cached_property
    def tracked(self) -> Tracked:
        """Windows of the demonstrations and of the robot's own trajectories, tracked on the robot."""
        part = self._part("windows", {}, self._track)
        shown, random, retraced = (Windows(*(part[f"{kind} {name}"] for name in STORED_FIELDS.values())) for kind in STORED_KINDS.values())
        return Tracked(shown, random, retraced, int(part["length"]), float(part["noise"]), float(part["cost"]))

    @cached_property
    def replay(self) -> Replay:
        """Where the robot gets when it follows every demonstration to its end (eq. 1)."""
        return self._replayed("replay", {}, self.demonstrations)

    def own_replays(self, delta_s: float) -> tuple[Replay, Replay]:
        """Replays of the robot's own held-out trajectories, plain and perturbed by up to delta_s at every step (eq. 7)."""
        if delta_s not in self._own_replays:
            held_out, plain = self.own_episodes[1].trajectories, self._replayed("own replay", {}, self.own_episodes[1].trajectories)
            perturbed = self._replayed("own replay", {"delta_s": delta_s}, held_out, noise=delta_s, rng=deepcopy(self.streams[2]))
            self._own_replays[delta_s] = plain, perturbed
        return self._own_replays[delta_s]

    def recovered_actions(self, used: Booleans) -> tuple[Array, Booleans]:
        """(transition, action) the robot's actions that explain the used transitions (transition,), zero for the others; and which of
        them are known to lead there, or all if the inverse dynamics does not know."""
        part = self._part("actions", {"used": np.packbits(used), "carried": CARRIED}, lambda: self._recover_actions(used))
        return part["actions"], part["usable"]

    @one_thread()
    def _recover_actions(self, used: Booleans) -> Arrays:
        actions, verdicts = np.zeros((len(used), len(self.robot.action_low))), np.full(len(used), NOT_SETTLED)
        lost = float((self.rounding / floored_scale(self.step_scale)).max()) / 2
        inverse_dynamics = self._restored(model_with_tolerance(self.model, max(self.tracking_noise, lost)))
        if self.hides_state:  # carried along from step to step
            demo_of = np.repeat(np.arange(len(self.demonstrations)), self.demonstrations.lengths)
            demos = np.unique(demo_of[used])
            made = replay(self.demonstrations.select(demos), self.robot, inverse_dynamics, window=1, progress=self.progress)
            of_demos = np.isin(demo_of, demos)
            actions[of_demos], verdicts[of_demos] = made.actions, made.verdicts
        else:
            self._solve_actions(used, inverse_dynamics, actions, verdicts)
        return {"actions": actions * used[:, None], "usable": used & np.isin(verdicts, (REACHED, UNTRIED))}

    def _solve_actions(self, used: Booleans, inverse_dynamics: InverseDynamics, actions: Array, verdicts: Integers) -> None:
        """Fill in actions and verdicts of the used transitions, each solved for by itself.

        A clipped velocity does not determine the state, but the step that led there does: the state is carried along from the last
        observation that does.
        """
        demonstrations, robot = self.demonstrations, self.robot
        observations, rows = demonstrations.observations, demonstrations.transition_rows
        margin = noise_margin(self.tracking_noise, floored_scale(self.step_scale))
        depth = steps_since_restorable(demonstrations, robot, margin=margin)
        needed = used & (depth >= 0) & (depth <= CARRIED)
        for level in range(int(depth[needed].max(initial=0)), 0, -1):
            needed[np.flatnonzero(needed & (depth == level)) - 1] = True
        carried: dict[int, Array] = {}
        library, drawing = Library(observations.std(axis=0), self.step_scale), np.random.default_rng(0)
        done = 0
        for level in range(int(depth[needed].max(initial=0)) + 1):
            now = np.flatnonzero(needed & (depth == level) & ((level == 0) | np.isin(np.roll(verdicts, 1), (REACHED, UNTRIED))))
            for some in waves(now, jacobian_size=actions.shape[1] * observations.shape[1], rng=drawing):
                states = np.array([carried.pop(each) for each in some.tolist()]) if level else robot.restore(observations[rows[some]])
                shown = observations[rows[some]], observations[rows[some] + 1]
                found = inverse_dynamics(states, shown[1], guess=library.similar(*shown))
                library.add(*shown, found)
                actions[some], verdicts[some] = found.actions, found.verdict
                goes_on = needed[np.minimum(some + 1, len(used) - 1)] & (depth[np.minimum(some + 1, len(used) - 1)] == level + 1)
                if goes_on.any():
                    carried |= zip((some[goes_on] + 1).tolist(), robot.step(states[goes_on], found.actions[goes_on]), strict=True)
                done += len(some)
                self.progress(done / max(1, int(needed.sum())))

    @cached_property
    def _fitted(self) -> Arrays:
        return self._part("inverse dynamics", {}, self._fit)

    @one_thread()
    def _fit(self) -> Arrays:
        """Explore, fit f_id, estimate the noise, and find out whether observations hide state."""
        training, held_out = self.own_episodes
        fitted = self.model.fit(training, self.robot, rng=deepcopy(self.streams[1]), progress=part_of(self.progress, 0.0, 0.4))
        fitted = with_scale(fitted, self.step_scale) if self.rounding.any() else fitted
        learned = {f"model {name}": array for name, array in fitted.arrays().items()}
        scale = floored_scale(self.step_scale)
        own = replace(training, trajectories=noisy(training.trajectories, 0.0, scale, self.streams[1], rounding=self.rounding))
        noise, hidden = noise_level(own, self.demonstrations, scale, self.robot), hides_state(training, self.robot, scale)
        noise *= LEAST_NOISE < noise < MAX_NOISE
        if noise and not hidden:
            noise *= is_noise(noise, self.demonstrations, self.robot, fitted, scale=scale, rng=deepcopy(self.streams[2]))
        facts = {
            "noise": np.array(noise),
            "hides state": np.array(hidden),
            "diverged": np.array(training.diverged + held_out.diverged),
        }
        return {**facts, **learned}

    @one_thread()
    def _track(self) -> Arrays:
        rng, progress = deepcopy(self.streams[2]), part_of(self.progress, 0.4, 1.0)
        make = replay_windows if self.hides_state else track
        observed = {"observation_noise": self.noise, "rounding": self.rounding}
        tracked = make(self.demonstrations, self.own_episodes[0], self.follower, **observed, rng=rng, progress=progress)  # type: ignore[arg-type]
        arrays = {
            f"{kind} {stored}": getattr(getattr(tracked, attribute), name)
            for attribute, kind in STORED_KINDS.items()
            for name, stored in STORED_FIELDS.items()
        }
        facts = {"length": tracked.length, "noise": tracked.noise, "cost": tracked.steps_per_transition}
        return {**arrays, **{name: np.array(value) for name, value in facts.items()}}

    @one_thread()
    def _replayed(
        self, name: str, parameters: Mapping[str, object], trajectories: Demonstrations, *, noise: float = 0.0, rng: Generator | None = None
    ) -> Replay:
        def make() -> Arrays:
            progress = part_of(self.progress, 0.4, 1.0) if name == "replay" else no_progress
            made = replay(trajectories, self.robot, self.inverse_dynamics, noise=noise, rng=rng, progress=progress)
            return {each.name: getattr(made, each.name) for each in fields(Replay)[1:]}

        return Replay(trajectories, **self._part(name, parameters, make))

    def _part(self, name: str, parameters: Mapping[str, object], make: Callable[[], Arrays]) -> Arrays:
        """The arrays of a part, computed or cached; counts the simulations that diverged in it."""
        decided_by = {"demonstrations": self.demonstrations, "robot": self.robot, "model": self.model, "exploration": self.exploration}
        recipe = {"version": ASSESS_VERSION, **decided_by, "streams": self.streams, **parameters}
        part = self.cache(name, recipe, make)
        self.diverged[name] = self.diverged.get(name, 0) + int(part.get("diverged", np.zeros(1)).sum())
        return part


CARRIED = 50
"""Steps for which a state is carried along where observations do not determine it."""
LEAST_NOISE = 1e-3
"""Estimated noise up to this is none."""
NEGLIGIBLE_NOISE = 0.02
"""Estimates up to this count as no noise: contacts make the estimate a little too large."""
MAX_NOISE = 3.0
"""Estimates from here on count as no noise: such noise would hide every step, so the data more likely do not fit the robot."""
