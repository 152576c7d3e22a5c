"""A scorer that checks itself."""

import numpy as np
import pytest

from cart import CART, pushes
from imitable import Demonstrations, assess
from imitable.assessment import Exploration
from imitable.self_check import SelfCheck, _copies, self_check
from imitable.simulators.gymnasium_robot import gymnasium_robot
from imitable.tracking import rollout_from


def test_a_robot_tells_its_own_from_what_nobody_can_do() -> None:
    robot, rng = gymnasium_robot("Hopper-v5"), np.random.default_rng(0)
    own = rollout_from(robot, robot.initial_states(8, rng), 40, rng=rng).trajectories
    found = self_check(assess(own, robot, exploration=Exploration(episodes=10, steps=40)), rng=np.random.default_rng(0))
    assert found.own > 0.95
    assert max(found.amplified, found.compressed, found.shuffled) < 0.05
    assert found.separation > 0.95
    assert found.sentence.endswith(f"separation {found.separation:.2f}")


def test_noise_that_hides_what_nobody_can_do_is_named() -> None:
    clean, noisy = (pushed(noise) for noise in (0.0, 0.1))  # 0.1 is 2.2 steps; from 3 on it is not taken for noise
    assert clean.separation > 0.95
    assert noisy.separation < 0.95
    assert any("the demonstrations have a noise of" in reason for reason in noisy.reasons)


def pushed(noise: float) -> SelfCheck:
    given = pushes(20, seed=1)
    seen = given.observations + noise * np.random.default_rng(0).standard_normal(given.observations.shape)
    return self_check(assess(Demonstrations(seen, given.lengths), CART), rng=np.random.default_rng(0))


def test_a_poor_separation_says_why() -> None:
    poor = SelfCheck(0.9, 0.0, 0.3, 0.1, ("12% of the robot's own observations are clipped",))
    assert poor.separation == pytest.approx(0.8)
    assert "separation 0.80, below 0.95: 12% of the robot's own observations are clipped" in poor.sentence


def test_copies_are_what_they_are_called() -> None:
    path = np.arange(26.0).reshape(2, 13, 1) ** 2
    copies = _copies(Demonstrations(path.reshape(-1, 1), [12, 12]), np.random.default_rng(0))
    assert copies["compressed"].trajectory(0).ravel().tolist() == [0.0, 9.0, 36.0, 81.0, 144.0]
    assert copies["amplified"].trajectory(0)[2, 0] == 12.0
    assert sorted(copies["shuffled"].trajectory(1).ravel().tolist()) == path[1].ravel().tolist()
    assert copies["shuffled"].trajectory(1).ravel().tolist() != path[1].ravel().tolist()
