"""What `check_env` is for Gymnasium: does a robot keep the promises that scores and learners rely on, and do demonstrations fit it?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from imitable.arrays import Array, Booleans
from imitable.demonstrations import Demonstrations
from imitable.errors import ImitableError
from imitable.formats.csv import LABELS
from imitable.rounding import rounding_units
from imitable.simulators import Simulator, joint_ranges, restorable

if TYPE_CHECKING:
    from imitable.simulators.mujoco import MujocoRobot

EPISODES, STEPS = 16, 60
ROUND_TRIP = 1e-9
"""How far observe(restore(observation)) may be from it, for the robot's own observations."""
LOOSE_ROUND_TRIP = 1e-6
"""The same for observations that others recorded, perhaps in single precision; a robot that misses even this is refused."""
STEP_TOLERANCE = 0.1
"""How far a step from a restored state may end from the true one, in units of a column's own median step: solvers are iterative."""
REJECTED = 0.05
"""Share of the robot's own transitions that may miss that."""
BEYOND = 0.1
"""How far outside a joint's range, and what the robot itself shows of it, a position may be, in units of the range."""
FEW_STEPS = 5
ENDED = 0.01
"""Share of observations, the last of each demonstration aside, that may be where the robot's own episodes end."""
DEGREES = "is it in degrees?"
ELSEWHERE = "is it of another body, another joint, or of another sign?"
SLIDE = 2
"""mjJNT_SLIDE, known without an import of MuJoCo."""
UNEVEN, OTHER_RATE = 0.1, 0.02
"""How far a step of a demonstration may be from its usual time, and that from the robot's step, in units of them."""
TIME_UNITS = (1.0, 1e-3, 1e-6, 1e-9)  # s
PIECE = 20_000
"""Observations that are restored at a time: their states fit into the processor's cache."""
WARNING = "warning: "
"""Findings that begin so concern some transitions only; with any other the robot must not be used."""


@dataclass(frozen=True)
class Transitions:
    """Own transitions under random actions held for a while: (transition, ...) each. Nothing ends them but a breakdown."""

    states: Array
    actions: Array
    next_states: Array


def check_columns(demonstrations: Demonstrations, robot: Simulator, *, name: str = "demonstrations") -> None:
    """Demonstrations must have the robot's observation columns, in its order."""
    given, wanted = demonstrations.observation_names, robot.observation_names
    if given is not None and set(given) != set(wanted):
        lacking, foreign = ([repr(each) for each in one if each not in other] for one, other in ((wanted, given), (given, wanted)))
        parts = [f"{does} {', '.join(names)}" for does, names in (("lack", lacking), ("have", foreign)) if names]
        more = ", which the robot does not have" if foreign else ""
        more += _differing_in_case(given, wanted)
        raise ImitableError(f"{name} {' and '.join(parts)}{more}; give observations in the robot's columns: {', '.join(wanted)}")
    if demonstrations.width != len(wanted):
        raise ImitableError(
            f"{name} have {demonstrations.width} observation columns, but the robot has {len(wanted)} ({', '.join(wanted)}); "
            "give observations in the robot's columns"
        )
    if given is not None and given != wanted:
        place = next(number for number, (mine, yours) in enumerate(zip(given, wanted, strict=True)) if mine != yours)
        raise ImitableError(
            f"{name} have the same columns in another order: column {place} is {given[place]!r} where the robot has {wanted[place]!r}; "
            f"give them as {', '.join(wanted)}"
        )


def _differing_in_case(given: Sequence[str], wanted: Sequence[str]) -> str:
    """Which names are known but for capital letters, those of a file's own columns as well."""
    known = {each.casefold(): each for each in (*LABELS, *wanted)}
    respelled = [f"{each!r} as {known[each.casefold()]!r}" for each in given if known.get(each.casefold(), each) != each]
    return f"; names are told apart by capital letters: write {', '.join(respelled)}" if respelled else ""


def check_robot(robot: Simulator, observations: Array | None = None, *, seed: int = 0) -> list[str]:
    """What is wrong with a robot, or with (N, observation) observations for it, each with its cure; empty if there are no problems."""
    transitions = random_transitions(robot, rng=np.random.default_rng(seed))
    findings = [*check_limits(robot), *check_purity(robot, transitions)]
    if len(transitions.states) < EPISODES * STEPS:
        findings.append("warning: some simulations under random actions broke down; lower the MJCF file's timestep, or the action limits")
    if not len(transitions.states):
        return findings
    findings += check_round_trip(robot, transitions)
    return findings if observations is None else [*findings, *check_observations(robot, observations)]


def check_demonstrations(robot: Simulator, demonstrations: Demonstrations, *, seed: int = 0) -> list[str]:
    """What of demonstrations does not fit the robot, each with its cure; that they have its columns is taken as checked."""
    transitions, found = random_transitions(robot, rng=np.random.default_rng(seed)), check_times(demonstrations, control_step(robot))
    lengths, observations, names = demonstrations.lengths, demonstrations.observations, robot.observation_names
    if (long := lengths > robot.horizon).any():
        found.append(
            f"{WARNING}{long.sum()} of {len(lengths)} demonstrations are longer than the robot's horizon of {robot.horizon} steps (up to "
            f"{lengths.max()}): a policy's episodes end there, so returns do not compare; cut them, or raise the horizon"
        )
    if (short := lengths < FEW_STEPS).any():
        found.append(f"{WARNING}{short.sum()} of {len(lengths)} demonstrations have fewer than {FEW_STEPS} steps: little is known of them")
    if copies := demonstrations.copies:
        copy, original = next(iter(copies.items()))
        found.append(
            f"{WARNING}{len(copies)} of {len(lengths)} demonstrations are exact copies of others, such as number {copy} of number "
            f"{original}, and count again: is a file there twice, or in two formats?"
        )
    moved = robot.observe(np.concatenate([transitions.states, transitions.next_states[-1:]]))
    moving = moved.std(axis=0) > 1e-9
    still = moving & (np.ptp(observations, axis=0) == 0)
    if still.any() and len(observations) > 2:
        found.append(f"{WARNING}{', '.join(np.array(names)[still])} never change in the demonstrations; were they recorded?")
    for column, low, high in joint_ranges(robot):
        seen, own, room = observations[:, column], moved[:, column], BEYOND * (high - low)
        outside = (seen < min(low, own.min()) - room) | (seen > max(high, own.max()) + room)  # limits are soft, and starts may be beyond
        if outside.mean() > 0.01:
            far = np.abs(seen).max() > 2 * np.pi
            hint = ("is it in another unit?" if _slides(robot, column) else DEGREES) if far else ELSEWHERE
            found.append(
                f"{WARNING}{names[column]} is outside the joint's range from {low:.3g} to {high:.3g} in {outside.mean():.0%} of the rows "
                f"(from {seen.min():.3g} to {seen.max():.3g}); {hint}"
            )
    followed = pieces(observations[demonstrations.transition_rows])
    ended = float(np.concatenate([robot.terminated(robot.restore(piece)) for piece in followed]).mean())
    if ended > ENDED and not any(DEGREES in finding for finding in found):  # which would look like a fall
        found.append(
            f"{WARNING}{ended:.0%} of the observations are where the robot's own episodes end, such as after a fall: a policy's episodes "
            "end there, too, so that it does not get to what follows; cut the demonstrations there"
        )
    return found + check_observations(robot, observations)


def control_step(robot: Simulator) -> float | None:
    """Seconds that a step of the robot takes, where it knows."""
    physics: Any = getattr(robot, "physics", None)
    return None if physics is None else float(physics.frame_skip * physics.model.opt.timestep)


def check_times(demonstrations: Demonstrations, step: float | None) -> list[str]:
    """Where it is known when observations were made: they are evenly spaced, and as far apart as the robot's steps."""
    lengths = demonstrations.lengths
    if demonstrations.times is None or not (known := np.isfinite(demonstrations.times)).any():
        return []
    times = demonstrations.times - demonstrations.times[known].min()  # of small numbers decimal places can be told
    rounding = float(rounding_units(times[known, None])[0])
    uneven, others = [], []
    for number, (start, length) in enumerate(zip(demonstrations.starts.tolist(), lengths.tolist(), strict=True)):
        taken = np.diff(times[start : start + length + 1])
        if not np.isfinite(taken).all():
            continue
        usual, mean = float(np.median(taken)), float(taken.mean())
        off = np.abs(taken - usual)
        if off.max() > max(UNEVEN * usual, 1.5 * rounding):
            uneven.append((number, int(off.argmax()), float(taken[off.argmax()]), usual))
        elif step is not None and all(abs(mean * unit - step) > OTHER_RATE * step + unit * rounding / length for unit in TIME_UNITS):
            others.append((number, mean))
    found = []
    if uneven:
        number, at, longest, usual = uneven[0]
        found.append(
            f"{WARNING}{len(uneven)} of {len(lengths)} demonstrations are not evenly timed: step {at} of number {number}, for example, "
            f"takes {longest:.4g}, and its usual step {usual:.4g}; cut them there, or resample them"
        )
    if others:
        number, mean = others[0]
        found.append(
            f"{WARNING}{len(others)} of {len(lengths)} demonstrations have other time steps than the robot, such as number {number}, of "
            f"{mean:.4g} s instead of {step:.4g}; resample them, or give the robot their step (--frame-skip, of a file)"
        )
    return found


def random_transitions(robot: Simulator, *, rng: np.random.Generator) -> Transitions:
    """Transitions of the robot itself; termination does not end them."""
    states, visited = robot.initial_states(EPISODES, rng), []
    middle, strength = (robot.action_low + robot.action_high) / 2, np.linspace(0.1, 1.0, EPISODES)[:, None]  # gentle to violent
    for at in range(STEPS):
        if at % 5 == 0:
            held = rng.uniform(robot.action_low, robot.action_high, (EPISODES, len(middle)))
            held = middle + strength * (held - middle)
        following = robot.step(states, held)
        whole: Booleans = np.asarray(np.isfinite(following).all(axis=1))
        visited.append((states[whole], held[whole], following[whole]))
        states = np.where(whole[:, None], following, states)
    return Transitions(*(np.concatenate(each) for each in zip(*visited, strict=True)))


def lost_columns(robot: Simulator, observations: Array, *, tolerance: float) -> Booleans:
    """(observation,) which columns do not survive restore and observe, to this tolerance relative to 1 + their size."""
    lost = np.zeros(observations.shape[1], dtype=bool)
    for piece in pieces(observations):
        lost |= (np.abs(robot.observe(robot.restore(piece)) - piece) > tolerance * (1 + np.abs(piece))).any(axis=0)
    return lost


def pieces(observations: Array) -> list[Array]:
    """Observations in pieces that can be restored at a time."""
    return [observations[at : at + PIECE] for at in range(0, len(observations), PIECE)]


def check_limits(robot: Simulator) -> list[str]:
    """Action limits are finite, in order, and not so wide that an exploration of them says nothing."""
    low, high = robot.action_low, robot.action_high
    sane: Booleans = np.asarray(np.isfinite(low) & np.isfinite(high) & (low < high))
    found = [f"action {at} ranges from {low[at]} to {high[at]}; give it finite limits, low below high" for at in np.flatnonzero(~sane)]
    wide = np.flatnonzero(np.asarray(np.maximum(np.abs(low), np.abs(high)) >= 1e6)).tolist()
    return found + [f"action {at} ranges from {low[at]:g} to {high[at]:g}, wider than any motor; set its ctrlrange" for at in wide]


def check_purity(robot: Simulator, transitions: Transitions) -> list[str]:
    """The same input always gives the same output, alone or in a batch, and inputs stay as they are."""
    states, actions, wanted = transitions.states[::97], transitions.actions[::97], transitions.next_states[::97]
    given = states.copy(), actions.copy()
    found = []
    again = robot.step(states, actions)
    if not (np.array_equal(states, given[0]) and np.array_equal(actions, given[1])):
        found.append("step changes the arrays it is given; copy them first")
    if not np.array_equal(again, robot.step(states, actions)):
        found.append("step is not deterministic: the same states and actions led elsewhere; put all it depends on into the state")
    if not np.array_equal(again, wanted):
        found.append("step depends on what was simulated before, or beside it; put all it depends on into the state")
    alone = np.concatenate([robot.step(states[at : at + 1], actions[at : at + 1]) for at in range(len(states))])
    if not np.array_equal(again, alone):
        found.append("a batch of N steps differs from N batches of one; no robot may see another")
    return found


def check_round_trip(robot: Simulator, transitions: Transitions) -> list[str]:
    """observe(restore(o)) is o, and a step from a restored state ends where the true one does; columns that fail are named."""
    names, body = np.array(robot.observation_names), _mujoco_robot(robot)
    observations, wanted = robot.observe(transitions.states), robot.observe(transitions.next_states)
    if (wrong := lost_columns(robot, observations, tolerance=ROUND_TRIP)).any():
        return [f"observations do not survive restore and observe: {', '.join(names[wrong])}; pass a state_map that gets them right"]
    found = []
    unknown = ~restorable(robot, observations)
    at_clip = _at_clip(body, observations) if body is not None else unknown[:, None]
    instead = "windows start at other observations, and training carries the state along; or record"
    if (clipped := unknown & at_clip.any(axis=1)).any():
        hit = ", ".join(names[at_clip.any(axis=0)]) if body is not None else "by its own account"
        found.append(
            f"warning: {clipped.mean():.1%} of its own random observations are clipped ({hit}), which does not determine the state: "
            f"{instead} qvel unclipped and pass a state_map"
        )
    if (turned := unknown & ~clipped).any():
        found.append(
            f"warning: {turned.mean():.1%} of its own random observations show an angle, by its sine and cosine, that may be one of two "
            f"within its joint's limits: {instead} qpos and pass a state_map"
        )
    failing = (_misses(robot, robot.restore(observations), transitions.actions, wanted) > STEP_TOLERANCE)[~unknown]
    share = failing.any(axis=1).mean() if len(failing) else 0.0
    if share > REJECTED:
        worst = names[np.argsort(-failing.mean(axis=0), kind="stable")[:4]]
        cure = _what_hides_state(robot)
        found.append(f"warning: {share:.1%} of its own steps end elsewhere after restore, most in {', '.join(worst)}; {cure}")
    return found


def _what_hides_state(robot: Simulator) -> str:
    """What a step depends on and the observation does not show, and the way out."""
    body = _mujoco_robot(robot)
    if body is not None and body.inverse is not None and body.inverse.hidden:
        return f"the observation does not show {', '.join(body.inverse.hidden)}: add them to the observation"
    if body is not None and body.physics.model.na:
        return (
            f"it does not show the activation (act) of {body.physics.model.na} actuators, so that verdicts are less reliable: use "
            "actuators without activation dynamics, or write a Simulator that observes it"
        )
    if hasattr(robot, "physics"):
        return "MuJoCo's solver ends elsewhere without its warm start: set tolerance='0' or cone='pyramidal' in the MJCF file's <option>"
    return "its steps depend on more than observations show, so each demonstration is followed from its start"


def check_observations(robot: Simulator, observations: Array) -> list[str]:
    """Observations of someone else: their width, their numbers, and whether the robot can be in such states."""
    names, width, body = robot.observation_names, len(robot.observation_names), _mujoco_robot(robot)
    if observations.ndim != 2 or observations.shape[1] != width:
        kept = 1 if body is None else int(body.environment_columns.max()) + 1
        cure = "use observations[:, robot.environment_columns]" if observations.shape[-1] > width and observations.shape[-1] >= kept else ""
        return [f"observations have shape {observations.shape}, the robot has {width} columns ({', '.join(names)}); {cure or 'send these'}"]
    finite = np.isfinite(observations)
    found = [
        f"column {names[at]!r} is not finite in {int((~finite[:, at]).sum())} rows; remove them"
        for at in np.flatnonzero(~finite.all(axis=0))
    ]
    good = observations[finite.all(axis=1)]
    clipped = ~restorable(robot, good)
    if clipped.any():
        found.append(
            f"warning: {clipped.mean():.1%} of the observations do not determine the state (a clipped velocity, or an angle of two "
            "possible turns): windows start at others"
        )
    if (wrong := lost_columns(robot, good, tolerance=LOOSE_ROUND_TRIP)).any():
        found.append(f"columns {', '.join(np.array(names)[wrong])} do not survive restore and observe; do they contradict the others?")
    if body is None or body.inverse is None:
        return found
    for at in body.physics.quaternions():
        shown = [
            column for column, each in enumerate(body.columns) if each.entry.field == "qpos" and at.start <= each.entry.index < at.stop
        ]
        lengths = np.linalg.norm(good[:, shown], axis=1)
        if len(shown) == 4 and (np.abs(lengths - 1) > 0.2).mean() > 0.01:
            found.append(f"the quaternion {', '.join(names[column] for column in shown)} is not of length 1; is it in that order?")
    return found


def _mujoco_robot(robot: Simulator) -> "MujocoRobot | None":
    """The robot, if it knows which entry of mjData each column is; asked without an import of MuJoCo."""
    found: Any = robot
    return found if hasattr(robot, "physics") and hasattr(robot, "columns") else None


def _slides(robot: Simulator, column: int) -> bool:
    """Whether this observation column is known to show the position of a joint that does not turn."""
    if (body := _mujoco_robot(robot)) is None:
        return False
    model, entry = body.physics.model, body.columns[column].entry
    return entry.field == "qpos" and bool((model.jnt_type[model.jnt_qposadr == entry.index] == SLIDE).any())


def _at_clip(robot: "MujocoRobot", observations: Array) -> Booleans:
    low, high = (np.array([getattr(column, side) for column in robot.columns]) for side in ("low", "high"))
    # Only of positions and velocities, which states are made of.
    stateful = np.array([column.entry.field in ("qpos", "qvel") for column in robot.columns])
    return np.asarray(((observations <= low) | (observations >= high)) & stateful)


def _misses(robot: Simulator, restored: Array, actions: Array, wanted: Array) -> Array:
    """(N, observation) how far a step from restored states ends from where it should, in units of a column's median step."""
    reached = robot.observe(robot.step(restored, actions))
    scale = np.median(np.abs(wanted - robot.observe(restored)), axis=0)
    return np.asarray(np.abs(reached - wanted) / np.maximum(scale, 1e-6))
