"""A Panda for tests of the guard and the loop: envelopes, starts, an expert, and driving many arms under the guard at once."""

import numpy as np

from imitable.arrays import Array, Generator
from imitable.deploy.guard import Envelope, guard
from imitable.paper.panda import THREE_JOINTS
from imitable.paper.panda_arm import OBSTACLE, clearance, straight_down, tcp
from imitable.paper.panda_demonstrators import pass_in_plane
from imitable.paper.panda_deploy import envelope

PERIOD = 0.05  # s


def panda(*, obstacle: bool = True, brakes: float = 1.0, tcp_speed: float = 0.1) -> Envelope:
    """Of the Panda, with its accelerations so many times; without the obstacle it takes a tenth of the time."""
    found = vars(envelope(THREE_JOINTS))
    changed = {"acceleration": brakes * found["acceleration"], "tcp_speed": tcp_speed}
    return Envelope(**{**found, **changed} | ({} if obstacle else {"distance": lambda joints: np.ones(len(joints))}))


def starts(count: int, rng: Generator) -> Array:
    """(count, 7) joints within the workspace, the arm at least 3 cm from the obstacle."""
    found = np.zeros((0, 7))
    while len(found) < count:
        joints, possible = straight_down(rng.uniform([0.32, -0.28, 0.08], [0.78, 0.28, 0.53], (2 * count, 3)))
        joints = joints[possible]
        found = np.concatenate([found, joints[clearance(joints, OBSTACLE) > 0.03]])
    return found[:count]


def tcp_speeds(joints: Array, velocities: Array) -> Array:
    """(N,) m/s, by small steps to either side."""
    ahead, behind = (tcp(joints + side * velocities) for side in (1e-4, -1e-4))
    return np.asarray(np.linalg.norm(ahead - behind, axis=1) / 2e-4)


def drive(
    limits: Envelope, joints: Array, wanted: list[Array], *, renewed: list[Array] | None = None, valid_periods: int = 3
) -> dict[str, float]:
    """How near to its limits arms come that carry out exactly what the guard passes; of everything: below 0 is beyond.

    `renewed`: (N,) of every tick, whether the new command arrives; where it does not, the arm goes on, and rests when it has expired.
    """
    previous, moving, age = np.zeros_like(joints), np.zeros_like(joints), np.zeros(len(joints))
    left = dict.fromkeys(("low", "high", "velocity", "acceleration", "speed", "workspace", "clearance"), np.inf)
    for tick, each in enumerate(wanted):
        guarded = guard(limits, joints, previous, each, period=PERIOD, valid_for=valid_periods * PERIOD)
        passed = guarded.velocities
        assert np.isfinite(passed).all()
        finite = np.isfinite(each).all(axis=1)
        assert not guarded.stop[finite].any(), "an arm that obeys never has to be stopped"
        assert guarded.stop[~finite].all()
        arrives = np.ones(len(joints), dtype=bool) if renewed is None else renewed[tick]
        left["acceleration"] = min(left["acceleration"], (limits.acceleration * PERIOD * (1 + 1e-9) - np.abs(passed - previous)).min())
        age = np.where(arrives, 0.0, age + PERIOD)
        moving = np.where(arrives[:, None], passed, np.where((age < valid_periods * PERIOD - 1e-9)[:, None], moving, 0.0))
        previous = moving
        for share in (0.5, 1.0):
            now = joints + share * PERIOD * moving
            place = tcp(now)
            margins = {
                "low": (now - limits.low).min(),
                "high": (limits.high - now).min(),
                "velocity": (limits.velocity * (1 + 1e-9) - np.abs(moving)).min(),
                "speed": (limits.tcp_speed - tcp_speeds(now, moving)).min(),
                "workspace": np.minimum(place - limits.tcp_low, limits.tcp_high - place).min(),
            }
            left.update({name: min(left[name], value) for name, value in margins.items()})
        joints = joints + PERIOD * moving
        left["clearance"] = min(left["clearance"], (limits.distance(joints) - limits.clearance).min())
    return left


def random_commands(count: int, ticks: int, rng: Generator, *, broken: float = 0.0) -> list[Array]:
    """Joint velocities from far below to far above the limits, held for a while each; a share `broken` of them is not finite."""
    scale, wanted, found = 10.0 ** rng.uniform(-2, 2, (count, 1)), np.zeros((count, 7)), []
    hold = rng.uniform(0.0, 0.95, (count, 1))
    for _ in range(ticks):
        wanted = np.where(rng.random((count, 1)) < hold, wanted, scale * rng.standard_normal((count, 7)))
        now = wanted.copy()
        now[rng.random((count, 7)) < broken / 7] = rng.choice([np.nan, np.inf, -np.inf])
        found.append(now)
    return found


def bang_bang_commands(count: int, ticks: int, rng: Generator) -> list[Array]:
    """All joints at once at far too high a velocity one way or the other, changing now and then."""
    signs, found, rate = np.sign(rng.standard_normal((count, 7))), [], rng.uniform(0.0, 0.3, (count, 1))
    for _ in range(ticks):
        signs = np.where(rng.random((count, 7)) < rate, -signs, signs)
        found.append(10.0 * signs)
    return found


def expert(observations: Array) -> Array:
    """The hand-made demonstrator with three joints."""
    return pass_in_plane(observations, np.random.default_rng(0))
