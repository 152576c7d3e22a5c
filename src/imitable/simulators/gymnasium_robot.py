"""The robot of a registered Gymnasium MuJoCo environment: which entries of mjData it shows, its reward, termination and starts."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import mujoco
import numpy as np

from imitable.arrays import Integers
from imitable.errors import ImitableError, unknown_name
from imitable.simulators.gymnasium_rewards import Formula, Rows, formula
from imitable.simulators.mujoco import HORIZON, MujocoRobot, StateMap
from imitable.simulators.observation_columns import CONTACT, Column, Probes, invert, match, probe, scaled_as
from imitable.simulators.physics import Physics, action_limits, prepared, quiet, refuse_hidden_state

AGREES = 1e-8


class UnknownEnvironmentError(ImitableError):
    """No Gymnasium environment has this id."""


def gymnasium_robot(name: str, *, state_map: StateMap | None = None, leave_out: Sequence[int] = (), **settings: Any) -> MujocoRobot:
    """The robot of a registered Gymnasium MuJoCo environment, its observation, reward, termination, frame skip and starts taken over.

    `settings` go to `gymnasium.make`; `leave_out` are columns of its observation to do without.
    """
    env = _made(name, settings)
    base = env.unwrapped
    probes = probe(env)
    if not np.array_equal(probes.fields["ctrl"], probes.actions):
        raise ImitableError(f"environment {name!r} does not pass its actions on to MuJoCo's ctrl as they are; write a Simulator for it")
    refuse_hidden_state(name, base.model)
    columns, shown, notes = _columns(name, probes, leave_out)
    task, doubts = _proven(env, probes)
    notes += doubts
    inverse = None if state_map is not None else invert(base.model, columns)
    if inverse is not None and inverse.hidden:
        notes += (f"the observation does not show {', '.join(inverse.hidden)}: restored as 0",)
    kept = [column.entry for column in columns if column.entry.field not in ("qpos", "qvel", "act")]
    kept += [] if task is None else task.traced
    low, high = action_limits(base.model, env.action_space)
    return MujocoRobot(
        name,
        Physics(prepared(base.model), int(base.frame_skip), tuple(dict.fromkeys(kept))),
        columns,
        inverse,
        int((env.spec and env.spec.max_episode_steps) or HORIZON),
        low,
        high,
        shown,
        task,
        state_map,
        env,
        notes,
    )


def _made(name: str, settings: dict[str, Any]) -> Any:
    try:
        with quiet():
            env = gymnasium.make(name, disable_env_checker=True, **settings)
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        if isinstance(error, gymnasium.error.UnregisteredEnv) or "Malformed environment ID" in str(error):
            raise UnknownEnvironmentError(str(unknown_name("environment", name, environment_names()))) from error
        raise ImitableError(f"environment {name!r} cannot be made: {error}") from error
    base: Any = env.unwrapped
    wanted = ("model", "data", "frame_skip", "set_state")
    if not all(hasattr(base, each) for each in wanted) or not isinstance(base.model, mujoco.MjModel):
        raise ImitableError(
            f"environment {name!r} is no MuJoCo environment (no {', '.join(wanted)}); give its MJCF file, or write a Simulator for it"
        )
    return env


def environment_names() -> list[str]:
    """The registered environments that may be MuJoCo's, of each the newest version."""
    newest: dict[str, Any] = {}
    for spec in gymnasium.registry.values():
        entry = spec.entry_point if isinstance(spec.entry_point, str) else ""  # a function stands for what was removed
        others = entry.startswith(("gymnasium.envs.", "imitable.")) and not entry.startswith("gymnasium.envs.mujoco")
        kind = f"{spec.namespace}/{spec.name}"
        if entry and not others and (spec.version or 0) >= (newest[kind].version or 0 if kind in newest else 0):
            newest[kind] = spec
    return sorted(spec.id for spec in newest.values())


def _columns(name: str, probes: Probes, leave_out: Sequence[int]) -> tuple[tuple[Column, ...], Integers, tuple[str, ...]]:
    """What is shown, where in the environment's observation, and what was left out of it."""
    found = match(probes)
    unknown = [at for at, column in enumerate(found) if column is None and at not in leave_out]
    if unknown:
        told = "; ".join(f"column {at} {scaled_as(probes, at) or 'is computed, or of other than this moment'}" for at in unknown)
        raise ImitableError(
            f"the observation of {name!r} is more than entries of MuJoCo's mjData as they are, their sines and cosines: {told}. Write a "
            "Simulator for it, give its MJCF file with data in qpos and qvel, or let the environment show those as they are; in Python, "
            f"imitable.robot({name!r}, leave_out={unknown}) does without, with a state_map if the others do not determine the state"
        )
    kept = [(at, column) for at, column in enumerate(found) if column is not None and at not in leave_out]
    shown = [(at, column) for at, column in kept if column.entry.field not in CONTACT]
    contact = [(at, column.entry.field) for at, column in kept if column.entry.field in CONTACT]
    notes: tuple[str, ...] = ()
    if contact:
        fields = ", ".join(sorted({name for _, name in contact}))
        where = f"columns {contact[0][0]} to {contact[-1][0]} ({fields})"
        notes = (f"{where} are left out: contact forces are no function of the state; use observations[:, robot.environment_columns]",)
    return tuple(column for _, column in shown), np.array([at for at, _ in shown]), notes


def _proven(env: Any, probes: Probes) -> tuple[Formula | None, tuple[str, ...]]:
    """The formula for reward and termination, if every probe agrees with it."""
    found = formula(env)
    if found is None:
        return None, ("reward and termination are not taken over: they are known for Gymnasium's own MuJoCo environments only",)
    before, after = (
        Rows(
            fields["qpos"],
            fields["qvel"],
            np.array([entry.read(fields[entry.field]) for entry in found.traced]).reshape(len(found.traced), len(probes.actions)).T,
        )
        for fields in (probes.fields_before, probes.fields)
    )
    rewards = found.reward(before, probes.actions, after)
    wrong = np.abs(rewards - probes.rewards) > AGREES * (1 + np.abs(probes.rewards))
    if wrong.any() or (found.terminated(after) != probes.terminated).any():
        return None, (
            f"reward and termination are not taken over: {wrong.sum()} of {len(wrong)} rewards differ from what is known of the class",
        )
    return found, ("the reward leaves out the cost of contacts, which no state determines",) if probes.contact_cost else ()
