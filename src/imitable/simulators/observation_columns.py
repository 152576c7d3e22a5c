"""How an environment makes its observation out of mjData, found by trying: which column is which entry, and how to go back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from imitable.arrays import Array, Booleans, Integers
from imitable.errors import ImitableError
from imitable.simulators.physics import AXES, Entry, actuated_trees, joint_names, planar_root, quiet

FIELDS = (
    *("qpos", "qvel", "act", "xpos", "xipos", "site_xpos", "geom_xpos", "xquat", "cinert", "cvel", "subtree_com"),
    *("qfrc_actuator", "actuator_force", "qfrc_constraint", "sensordata", "ten_length", "ten_velocity", "ctrl"),
)
"""Arrays of mjData that every step computes."""
CONTACT = ("cfrc_ext", "cacc", "cfrc_int")
"""Arrays that only `mj_rnePostConstraint` computes: batched stepping has none of them."""
PROBES = 48
SPREADS = (0.05, 0.4, 1.5)  # of qpos around the initial one
SPEEDS = (0.5, 5.0, 20.0)  # of qvel: beyond any clipping


@dataclass(frozen=True)
class Probes:
    """Single steps of the environment: mjData as the observation of that moment was made from it."""

    fields: Mapping[str, Array]
    """Each (probe, size)."""
    fields_before: Mapping[str, Array]
    observations: Array
    actions: Array
    rewards: Array
    """(probe,) without the cost of contacts."""
    terminated: Booleans
    contact_cost: bool


@dataclass(frozen=True)
class Column:
    """What one observation column shows: an entry of mjData, its sine or cosine, perhaps clipped."""

    entry: Entry
    function: str = ""  # "", "sin" or "cos"
    low: float = -np.inf
    high: float = np.inf

    @property
    def clipped(self) -> bool:
        return bool(np.isfinite(self.low) or np.isfinite(self.high))


def probe(env: Any, count: int = PROBES) -> Probes:
    """Random states, also of high speed and outside joint ranges, each followed by one step of the environment."""
    base, rng = env.unwrapped, np.random.default_rng(0)
    names = [name for name in (*FIELDS, *CONTACT) if getattr(base.data, name).size]
    space = env.action_space
    low, high = (np.nan_to_num(np.asarray(each, dtype=np.float64), posinf=1.0, neginf=-1.0) for each in (space.low, space.high))
    taken = []
    with quiet():
        for each in range(count):
            env.reset(seed=each)
            if each % 4:  # the others start as the environment does
                base.set_state(
                    base.data.qpos + SPREADS[each % 3] * rng.standard_normal(base.model.nq),
                    SPEEDS[each // 3 % 3] * rng.standard_normal(base.model.nv),
                )
            before = {name: getattr(base.data, name).ravel().copy() for name in names}
            action = rng.uniform(low, high)
            elapsed = base.data.time + base.dt
            observation, reward, terminated, _, info = env.step(action)
            if abs(base.data.time - elapsed) > 1e-9:  # it broke down, and MuJoCo started again at the origin
                continue
            after = {name: getattr(base.data, name).ravel().copy() for name in names}
            contact_cost = sum(float(info.get(name, 0.0)) for name in ("reward_contact", "reward_impact"))
            taken.append((after, before, observation, action, reward - contact_cost, terminated, contact_cost))
    if not taken:
        raise ImitableError(f"each of {count} steps of the environment {env} broke down; lower its timestep")
    afters, befores, observations, actions, rewards, terminated_after, contact_costs = zip(*taken, strict=True)
    return Probes(
        {name: np.array([each[name] for each in afters]) for name in names},
        {name: np.array([each[name] for each in befores]) for name in names},
        np.array(observations, dtype=np.float64),
        np.array(actions),
        np.array(rewards, dtype=np.float64),
        np.array(terminated_after, dtype=bool),
        any(contact_costs),
    )


def match(probes: Probes) -> list[Column | None]:
    """(observation,) what each column shows; None where nothing was found.

    Of several candidates the one beside its neighbour's is taken. Columns that never changed say nothing of themselves and come last.
    """
    candidates = _candidates(probes)
    values = np.array([value for _, value in candidates])  # (candidate, probe)
    known = {column: at for at, (column, _) in enumerate(candidates)}
    observations = probes.observations.T
    found: list[Column | None] = [None] * len(observations)

    def settle(at: int, choices: Sequence[int]) -> bool:
        low, high = observations[at].min(), observations[at].max()
        for choice in choices:
            column, value = candidates[choice]
            if (np.clip(value, low, high) if low < high else value).tolist() == observations[at].tolist():
                beyond = (float(low) if (value < low).any() else -np.inf, float(high) if (value > high).any() else np.inf)
                found[at] = Column(column.entry, column.function, *beyond)
                return True
        return False

    def settle_by_neighbours() -> None:
        waiting = True
        while waiting:
            waiting = False
            for at in [at for at, column in enumerate(found) if column is None]:
                sides = [(at - 1, 1)] * (at > 0) + [(at + 1, -1)] * (at + 1 < len(found))
                beside = [_beside(found[neighbour], step) for neighbour, step in sides]
                waiting |= settle(at, [known[column] for column in beside if column in known])

    for at, observed in enumerate(observations):
        if np.ptp(observed) > 0:
            near = _beside(found[at - 1], 1) if at else None
            equal = np.flatnonzero((values == observed).all(axis=1)).tolist()
            # An end that is reached more than once is where values are clipped, not just the largest of them.
            ends = np.flatnonzero((np.clip(values, observed.min(), observed.max()) == observed).all(axis=1)) if _ends(observed) else ()
            settle(at, [*([known[near]] if near in known else ()), *equal, *ends])
    settle_by_neighbours()
    for at in [at for at, column in enumerate(found) if column is None and np.ptp(observations[at]) == 0]:
        settle(at, np.flatnonzero((values == observations[at]).all(axis=1)).tolist())
    return found


def _ends(observed: Array) -> bool:
    return bool(max((observed == observed.min()).sum(), (observed == observed.max()).sum()) > 1 and len(np.unique(observed)) > 2)


def _beside(column: Column | None, step: int) -> Column | None:
    """The candidate `step` entries further on in the same array."""
    if column is None:
        return None
    minus = None if column.entry.minus is None else column.entry.minus + step
    return Column(Entry(column.entry.field, column.entry.index + step, minus), column.function)


def _candidates(probes: Probes) -> list[tuple[Column, Array]]:
    found = [(Column(Entry(name, at)), value) for name, values in probes.fields.items() for at, value in enumerate(values.T)]
    angles = probes.fields["qpos"].T
    found += [(Column(Entry("qpos", at), "sin"), np.sin(value)) for at, value in enumerate(angles)]
    found += [(Column(Entry("qpos", at), "cos"), np.cos(value)) for at, value in enumerate(angles)]
    for name in ("xpos", "site_xpos"):
        places = probes.fields.get(name, np.zeros((len(probes.actions), 0))).T
        pairs = [(one, other) for one in range(len(places)) for other in range(one % 3, len(places), 3) if one != other]
        found += [(Column(Entry(name, one, other)), places[one] - places[other]) for one, other in pairs]
    return found


def scaled_as(probes: Probes, at: int) -> str:
    """Of which entry an observation column is a linear function, in words; empty if of none."""
    shown = probes.observations[:, at]
    for column, values in _candidates(probes):
        if np.ptp(values) > 1e-9 and np.ptp(shown) > 1e-9:
            slope, start = np.polyfit(values, shown, 1)
            if np.abs(start + slope * values - shown).max() < 1e-6 * np.ptp(shown):
                of = f"{column.function} {column.entry.field}[{column.entry.index}]".strip()
                return f"is {slope:.4g} times {of}" + (f" plus {start:.4g}" if abs(start) > 1e-6 * np.ptp(shown) else "")
    return ""


def column_names(model: mujoco.MjModel, columns: Sequence[Column]) -> tuple[str, ...]:
    """A name for each column from the model's joints, bodies and sites; repeated ones are numbered."""
    named: dict[str, int] = {}
    names = []
    for column in columns:
        name = entry_name(model, column.entry)
        name = f"{column.function} {name}" if column.function else name
        named[name] = named.get(name, 0) + 1
        names.append(name if named[name] == 1 else f"{name} ({named[name]})")
    return tuple(names)


def entry_name(model: mujoco.MjModel, entry: Entry) -> str:
    """What an entry of mjData is called."""
    if entry.field in ("qpos", "qvel"):
        return joint_names(model)[entry.field == "qvel"][entry.index]
    if entry.field in ("qfrc_actuator", "qfrc_constraint"):
        return f"{entry.field} {joint_names(model)[1][entry.index].removesuffix(' velocity')}"
    size = {"cinert": 10, "cvel": 6, "cfrc_ext": 6, "cfrc_int": 6, "cacc": 6, "xquat": 4}.get(entry.field, 3)
    if entry.field in ("xpos", "xipos", "cinert", "cvel", "xquat", "subtree_com", *CONTACT):
        of: Any = model.body
    elif entry.field in ("site_xpos", "geom_xpos"):
        of = model.site if entry.field == "site_xpos" else model.geom
    else:
        return f"{entry.field} {entry.index}"
    part = AXES[entry.index % 3] if size == 3 else str(entry.index % size)
    owner = of(entry.index // size).name
    if entry.minus is not None:
        owner = f"{owner} - {of(entry.minus // size).name}"
    return f"{owner} {part}" if entry.field in ("xpos", "site_xpos") else f"{entry.field} {owner} {part}"


@dataclass(frozen=True)
class Inverse:
    """Where qpos and qvel are to be read in an observation."""

    direct: tuple[Integers, Integers]
    """State columns (qpos, then qvel), and the observation columns that show them."""
    angles: tuple[Integers, Integers, Integers]
    """State columns, the observation columns with their sine, and with their cosine."""
    lines: tuple[Integers, Integers, Array, Array]
    """State columns, observation columns, and a and b of: state = a + b * observation."""
    hidden: tuple[str, ...]
    """What no column shows and is taken as at rest, but for where the root is along x and y."""


def invert(model: mujoco.MjModel, columns: Sequence[Column]) -> Inverse:
    """How to go back from these columns; an ImitableError names what cannot be read from them."""
    nq = model.nq
    direct: dict[int, int] = {}
    sines: dict[int, int] = {}
    cosines: dict[int, int] = {}
    for at, column in enumerate(columns):
        if column.entry.field in ("qpos", "qvel"):
            state = column.entry.index + nq * (column.entry.field == "qvel")
            {"": direct, "sin": sines, "cos": cosines}[column.function].setdefault(state, at)
    angles = [state for state in sines if state in cosines and state not in direct]
    names = [name for both in joint_names(model) for name in both]
    missing = [state for state in range(nq) if state not in direct and state not in angles]
    lines = _lines(model, columns, missing)
    lost = [names[state] for state in missing if state not in lines and state not in planar_root(model)]
    at_rest = [dof for dof in range(model.nv) if nq + dof not in direct]
    lost += [names[nq + dof] for dof in at_rest if dof in actuated_trees(model)]
    if lost:
        raise ImitableError(
            f"the observation does not show {', '.join(lost)}; pass state_map, a function from (N, observation) observations to "
            f"(N, {nq}) qpos and (N, {model.nv}) qvel"
        )
    return Inverse(
        (np.array(list(direct), dtype=np.int64), np.array(list(direct.values()), dtype=np.int64)),
        (
            np.array(angles, dtype=np.int64),
            np.array([sines[each] for each in angles], dtype=np.int64),
            np.array([cosines[each] for each in angles], dtype=np.int64),
        ),
        (
            np.array(list(lines), dtype=np.int64),
            np.array([column for column, _, _ in lines.values()], dtype=np.int64),
            np.array([start for _, start, _ in lines.values()]),
            np.array([slope for _, _, slope in lines.values()]),
        ),
        tuple(names[nq + dof] for dof in at_rest),
    )


def _lines(model: mujoco.MjModel, columns: Sequence[Column], missing: Sequence[int]) -> dict[int, tuple[int, float, float]]:
    """Entries of qpos that are a linear function of one place in the observation, such as the slide joints of a pushed object."""
    places = [at for at, column in enumerate(columns) if column.entry.field in ("xpos", "site_xpos", "xipos") and not column.clipped]
    if not missing or not places:
        return {}
    rng, data = np.random.default_rng(0), mujoco.MjData(model)
    positions, shown = [], []
    for _ in range(8):
        data.qpos[:] = model.qpos0 + rng.uniform(-0.5, 0.5, model.nq)
        mujoco.mj_forward(model, data)
        positions.append(data.qpos.copy())
        shown.append([float(columns[at].entry.read(getattr(data, columns[at].entry.field).reshape(1, -1))[0]) for at in places])
    found = {}
    for state in missing:
        wanted = np.array(positions)[:, state]
        for at, values in zip(places, np.array(shown).T, strict=True):
            if np.ptp(values) < 1e-6:
                continue
            slope, start = np.polyfit(values, wanted, 1)
            if np.abs(start + slope * values - wanted).max() < 1e-9:
                found[state] = (at, float(start), float(slope))
                break
    return found
