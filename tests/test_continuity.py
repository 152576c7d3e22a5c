"""Quaternions up to their sign and angles modulo a turn: made continuous, and nothing else changed."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from imitable import Demonstrations, Feasibility, assess, robot as find_robot
from imitable.simulators import restorable
from imitable.simulators.continuity import Periodic, continuous
from imitable.tracking import rollout_from

BODY = """
<mujoco><option timestep="0.01"/>
  <worldbody>
    <body pos="0 0 1"><joint name="spin" type="hinge" axis="0 0 1"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".03"/>
      <body pos=".3 0 0"><joint name="wrist" type="ball" damping="0.05"/><geom type="capsule" fromto="0 0 0 .2 0 0" size=".02"/></body>
    </body>
  </worldbody>
  <actuator><motor joint="spin" ctrlrange="-1 1"/>
    <motor joint="wrist" gear="0.1 0 0" ctrlrange="-1 1"/><motor joint="wrist" gear="0 0.1 0" ctrlrange="-1 1"/></actuator>
</mujoco>
"""


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    path = tmp_path_factory.mktemp("arm") / "arm.xml"
    path.write_text(BODY)
    return find_robot(str(path))


@pytest.fixture(scope="module")
def swings(arm):
    rng = np.random.default_rng(0)
    return rollout_from(arm, arm.initial_states(12, rng), 120, rng=rng).trajectories


@given(st.integers(0, 2**32 - 1))
def test_signs_and_turns_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    starts = np.array([0, 7, 19])
    angles = np.cumsum(rng.uniform(-1, 1, 30))
    angles = np.clip(angles, angles[0] - 3, angles[0] + 3)
    quaternions = np.array([3.0, 0, 0, 0]) + np.cumsum(rng.normal(0, 0.1, (30, 4)), axis=0)
    clean = np.column_stack([quaternions, angles])
    periodic = Periodic((np.arange(4),), np.array([4]))
    wrapped = clean.copy()
    wrapped[:, :4] *= rng.choice([-1.0, 1.0], (30, 1))
    wrapped[:, 4] = (clean[:, 4] + np.pi) % (2 * np.pi) - np.pi
    made = continuous(wrapped, starts, periodic)
    np.testing.assert_array_equal(made[starts], wrapped[starts])
    for first, last in ((0, 7), (7, 19), (19, 30)):
        assert ((made[first : last - 1, :4] * made[first + 1 : last, :4]).sum(axis=1) >= 0).all()
        np.testing.assert_allclose(np.diff(made[first:last, 4]), np.diff(clean[first:last, 4]), atol=1e-9)


def test_a_wheel_that_turns_fast_is_left_alone():
    angles = np.cumsum(np.full(20, 4.0))[:, None]
    np.testing.assert_array_equal(continuous(angles, np.array([0]), Periodic((), np.array([0]))), angles)


def test_wrapped_angles_and_flipped_quaternions_are_as_feasible_as_ever(arm, swings):
    names = list(arm.observation_names)
    seen = swings.observations.copy()
    turned = seen[:, 0] + 3.0  # so that it crosses the seam
    seen[:, 0] = (turned + np.pi) % (2 * np.pi) - np.pi
    assert (np.abs(np.diff(seen[:, 0])) > 6).any(), names
    seen[:, 1:5] *= np.where(seen[:, 1:2] < np.median(seen[:, 1]), -1.0, 1.0)
    given_data = Demonstrations(seen, swings.lengths)
    assert assess(given_data, arm).weights(Feasibility()).min() > 0.9


def test_an_angle_by_sine_and_cosine_is_not_restored_where_two_are_possible():
    reacher = find_robot("Reacher-v5")
    observations = reacher.observe(reacher.initial_states(2, np.random.default_rng(0)))
    names = reacher.observation_names
    sine, cosine = (next(at for at, name in enumerate(names) if kind in name and "joint1" in name) for kind in ("sin", "cos"))
    for row, angle in enumerate((1.0, 3.0)):  # the joint ends at 3: -3.28 is as near
        observations[row, [sine, cosine]] = np.sin(angle), np.cos(angle)
    assert restorable(reacher, observations).tolist() == [True, False]
