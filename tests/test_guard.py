"""The guard: whatever it is told, the arm stays within its limits, and can always still brake."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from deployment import PERIOD, bang_bang_commands, drive, panda, random_commands, starts
from imitable import ImitableError
from imitable.deploy.guard import CHECKS, Envelope, guard
from imitable.paper.panda_arm import straight_down

TICKS = 60  # 3 s: across the workspace and back


def guarded(limits: Envelope, joints: np.ndarray, wanted: np.ndarray, previous: np.ndarray | None = None):
    previous = np.zeros_like(joints) if previous is None else previous
    return guard(limits, joints, previous, wanted, period=PERIOD, valid_for=3 * PERIOD)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=4)
def test_random_commands_never_cross_a_limit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    left = drive(panda(obstacle=False), starts(200, rng), random_commands(200, TICKS, rng, broken=0.01))
    assert min(left.values()) >= 0, left


@pytest.mark.slow
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_twenty_thousand_random_sequences_never_cross_a_limit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    left = drive(panda(obstacle=False), starts(1000, rng), random_commands(1000, TICKS, rng, broken=0.01))
    assert min(left.values()) >= 0, left


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=2)
def test_two_hundred_bang_bang_sequences_never_cross_a_limit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    left = drive(panda(obstacle=False), starts(100, rng), bang_bang_commands(100, TICKS, rng))
    assert min(left.values()) >= 0, left


@pytest.mark.parametrize(("count", "ticks"), [(20, 40), pytest.param(200, 60, marks=pytest.mark.slow)])
def test_the_obstacle_is_never_touched(count: int, ticks: int) -> None:
    rng = np.random.default_rng(0)
    for commands in (random_commands(count, ticks, rng), bang_bang_commands(count, ticks, rng)):
        left = drive(panda(), starts(count, rng), commands)
        assert min(left.values()) >= 0, left
        if count > 100:
            assert left["clearance"] < 0.01, "some do come near"


@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0.1, 0.9))
@settings(max_examples=3)
def test_commands_that_get_lost_and_expire_never_lead_across_a_limit(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    renewed = [rng.random(25) > share for _ in range(TICKS)]
    left = drive(panda(obstacle=False), starts(25, rng), bang_bang_commands(25, TICKS, rng), renewed=renewed)
    assert min(value for name, value in left.items() if name != "acceleration") >= 0, left


@pytest.mark.parametrize(("brakes", "tcp_speed"), [(0.05, 1.0), (0.02, 0.2)])
def test_weak_brakes_are_reckoned_with(brakes: float, tcp_speed: float) -> None:
    rng = np.random.default_rng(0)
    limits = panda(obstacle=False, brakes=brakes, tcp_speed=tcp_speed)
    left = drive(limits, starts(100, rng), bang_bang_commands(100, TICKS, rng), valid_periods=1)
    assert min(left.values()) >= 0, left


def test_the_limits_would_be_crossed_without_it() -> None:
    rng = np.random.default_rng(0)
    joints, limits = starts(25, rng), panda(obstacle=False)
    for wanted in bang_bang_commands(25, 10, rng):
        joints = joints + PERIOD * np.clip(wanted, -limits.velocity, limits.velocity)
    assert (limits.tcp(joints) < limits.tcp_low).any()


def test_what_is_safe_passes_unchanged_and_as_soon_as_accelerations_allow() -> None:
    limits = panda()
    joints, _ = straight_down(np.array([[0.5, 0.1, 0.4]]))
    wanted = np.array([[0.05, 0.02, 0.0, -0.03, 0.0, 0.01, 0.02]])
    result = guarded(limits, joints, wanted)
    assert np.array_equal(result.velocities, wanted)
    assert not result.changed.any()
    fast = np.array([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.7]])
    first = guarded(limits, joints, fast)
    assert first.velocities[0, 6] == pytest.approx(limits.acceleration[6] * PERIOD)
    assert [CHECKS[each] for each in np.flatnonzero(first.changed[0])] == ["acceleration"]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("which", ["joints", "previous", "wanted"])
def test_what_is_not_finite_never_passes(bad: float, which: str) -> None:
    limits = panda(obstacle=False)
    values = {"joints": starts(2, np.random.default_rng(0)), "previous": np.full((2, 7), 0.01), "wanted": np.full((2, 7), 0.01)}
    values[which][1, 3] = bad
    result = guarded(limits, values["joints"], values["wanted"], values["previous"])
    assert np.isfinite(result.velocities).all()
    assert np.abs(result.velocities[1]).max() <= 0.01, "it brakes"
    assert result.stop.tolist() == [False, True]
    assert result.reasons(1) == ("not finite",)
    assert result.reasons(0) == ()


@pytest.mark.parametrize(
    ("place", "reason"),
    [((0.56, 0.0, 0.56), "workspace"), ((0.29, 0.0, 0.4), "workspace"), ((0.56, 0.0, 0.235), "clearance")],
)
def test_an_arm_that_is_beyond_a_limit_must_stop(place: tuple[float, ...], reason: str) -> None:
    joints, _ = straight_down(np.array([place]))
    assert guarded(panda(), joints, np.full((1, 7), 0.1)).reasons() == (reason,)


def test_an_arm_beyond_a_joints_end_must_stop() -> None:
    joints, _ = straight_down(np.array([[0.5, 0.0, 0.4]]))
    joints[0, 6] = panda().high[6] + 0.01
    assert guarded(panda(), joints, np.zeros((1, 7))).reasons() == ("joint range",)


def test_an_arm_within_the_margin_may_go_back_but_not_on() -> None:
    limits = panda(obstacle=False)
    joints, _ = straight_down(np.array([[0.5, 0.0, 0.4]]))
    joints[0, 6] = limits.high[6] - limits.joint_margin / 2
    for direction, passes in ((-0.1, True), (0.1, False)):
        wanted = np.zeros((1, 7))
        wanted[0, 6] = direction
        result = guarded(limits, joints, wanted)
        assert bool(result.velocities[0, 6] == direction) == passes
        assert not result.stop.any()


def test_a_batch_is_as_good_as_one_by_one() -> None:
    rng = np.random.default_rng(1)
    joints, wanted, previous = starts(8, rng), 2.0 * rng.standard_normal((8, 7)), 0.02 * rng.standard_normal((8, 7))
    together = guarded(panda(), joints, wanted, previous)
    for row in range(8):
        alone = guarded(panda(), joints[[row]], wanted[[row]], previous[[row]])
        np.testing.assert_allclose(alone.velocities[0], together.velocities[row], rtol=0, atol=1e-12)
        assert np.array_equal(alone.changed[0], together.changed[row])


def test_nonsense_is_refused() -> None:
    joints = starts(1, np.random.default_rng(0))
    with pytest.raises(ImitableError, match="valid until the next one"):
        guard(panda(), joints, joints, joints, period=0.1, valid_for=0.05)
    with pytest.raises(ImitableError, match=r"velocity limits are .*positive"):
        Envelope(**{**vars(panda()), "velocity": np.zeros(7)})
    with pytest.raises(ImitableError, match="leave no room"):
        Envelope(**{**vars(panda()), "high": panda().low})
