"""Details that whole runs do not show: each of these could be wrong, and everything else would still learn."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import turntable
from imitable.arrays import Array, Float32
from imitable.demonstrations import Demonstrations
from imitable.inverse_dynamics import step_scale
from imitable.learners import Cloning
from imitable.networks import Adam, Mlp, Policy
from imitable.replay import replay
from imitable.rollouts import Episodes
from imitable.scores import Feasibility, Tolerance
from imitable.scores.feasibility import measure_tolerance
from imitable.tracking import Tracked
from imitable.trpo import TrainingBatch, Trpo, trust_region_step
from imitable.windows import Windows

# The line search of TRPO


def policy_moved(monkeypatch: pytest.MonkeyPatch, *shares: float) -> float:
    """How far, as a fraction of the full step, a policy moves if the first try brings this share of the improvement that was expected of
    it, the second that share, and so on."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((400, 2)).astype(np.float32)
    policy = Policy.fresh(Mlp((2, 1)), center=np.zeros(2), scale=np.ones(2), low=-np.ones(1), high=np.ones(1), rng=rng, std=1.0)
    signs = rng.choice(np.float32([-1, 1]), (400, 1))  # one standard deviation off, so that only the mean moves
    advantages = (signs[:, 0] * (1 + inputs[:, 0])).astype(np.float32)
    batch = TrainingBatch(inputs, policy.mean_actions(inputs) + signs, advantages - advantages.mean(), np.zeros((400, 1), np.float32))
    forward, calls = Mlp.forward, []

    def bent(self: Mlp, parameters: Float32, given: Float32, masks: tuple[Float32, ...] = ()) -> list[Float32]:
        values = forward(self, parameters, given, masks)
        calls.append(values[-1])
        if len(calls) > 1:  # after the old policy
            values[-1] = calls[0] + np.float32(shares[min(len(calls) - 2, len(shares) - 1)]) * (values[-1] - calls[0])
        return values

    settings = Trpo(max_kl=1e-5, fisher_fraction=1.0, cg_damping=0.0)
    moved = {}
    for name, shown in (("full", False), ("bent", True)):
        with monkeypatch.context() as patch:
            if shown:
                patch.setattr(Mlp, "forward", bent)
            improved, _ = trust_region_step(policy, batch, trpo=settings, rng=np.random.default_rng(1))
        moved[name] = float(np.linalg.norm(improved.parameters - policy.parameters))
    return moved["bent"] / moved["full"]


@pytest.mark.parametrize(
    ("shares", "fraction"), [((1.0,), 1.0), ((0.5,), 1.0), ((0.05, 0.5), 0.8), ((-1.0, 0.02, 0.2), 0.64), ((0.05,), 0.0), ((0.0,), 0.0)]
)
def test_a_step_is_taken_if_it_brings_a_tenth_of_what_was_expected(
    monkeypatch: pytest.MonkeyPatch, shares: tuple[float, ...], fraction: float
) -> None:
    assert policy_moved(monkeypatch, *shares) == pytest.approx(fraction, abs=0.01)


# Annealing


def test_cloning_anneals_its_learning_rate_along_a_cosine(monkeypatch: pytest.MonkeyPatch) -> None:
    rates, step = [], Adam.step
    monkeypatch.setattr(Adam, "step", lambda self, *given: (rates.append(self.learning_rate), step(self, *given)))
    list(
        Cloning(updates=8, batch_size=4, hidden_sizes=(2,), learning_rate=0.01)(
            turntable.assessed(), np.ones(12), rng=np.random.default_rng(0)
        )
    )
    assert rates == pytest.approx(0.005 * (1 + np.cos(np.pi * np.arange(8) / 8)))


def test_gail_anneals_trust_region_and_learning_rate_to_their_final_fraction(monkeypatch: pytest.MonkeyPatch) -> None:
    regions, update = [], Trpo.update
    monkeypatch.setattr(Trpo, "update", lambda self, *given, **more: (regions.append(self.max_kl), update(self, *given, **more))[1])
    gail = replace(turntable.TINY_GAIL, rounds=4, final_fraction=0.2)
    list(gail(turntable.assessed(), np.ones(12), rng=np.random.default_rng(0)))
    assert regions == pytest.approx(gail.trpo.max_kl * np.array([1.0, 0.8, 0.6, 0.4]))


# Units


def test_cloning_noise_is_so_many_one_step_changes_in_every_column(monkeypatch: pytest.MonkeyPatch) -> None:
    assessment, seen, forward = turntable.assessed(), [], Mlp.forward
    with monkeypatch.context() as patch:
        patch.setattr(Mlp, "forward", lambda self, *given: (seen.append(given[1]), forward(self, *given))[1])
        for noise, most in ((0.0, np.inf), (2.0, np.inf), (2.0, 0.05)):
            learner = Cloning(updates=1, batch_size=4000, hidden_sizes=(2,), observation_noise=noise, max_observation_noise=most)
            (checkpoint,) = learner(assessment, np.ones(12), rng=np.random.default_rng(0))
    scale = checkpoint.policy.scale
    assert ((seen[1] - seen[0]) * scale).std(axis=0) == pytest.approx(2.0 * assessment.step_scale, rel=0.1)
    assert (2.0 * assessment.step_scale > 0.05 * scale).any()
    assert (seen[2] - seen[0]).std(axis=0) == pytest.approx(np.minimum(2.0 * assessment.step_scale / scale, 0.05), rel=0.1)


def test_the_scale_of_a_step_is_the_standard_deviation_of_its_changes() -> None:
    changes = np.array([[1.0, -4.0], [3.0, 4.0]])
    trajectories = Demonstrations(np.cumsum(np.concatenate([np.zeros((1, 2)), changes]), axis=0), [2], [0.0])
    assert step_scale(Episodes(trajectories, np.zeros((2, 1)), 0)).tolist() == [1.0, 4.0]


class Extreme:
    """Stands where a generator would, and gives the lowest or the highest number that is asked for."""

    def __init__(self, end: int) -> None:
        self.end = end

    def uniform(self, *ends: float | tuple[int, ...]) -> Array:
        return np.full(ends[2], ends[self.end])


def test_states_are_perturbed_to_both_sides() -> None:
    given, robot = turntable.demonstrations(count=3), turntable.CLOCKWISE
    f_id = turntable.ExactInverse(robot)
    plain = replay(given, robot, f_id).observations
    moved = [replay(given, robot, f_id, noise=0.01, rng=Extreme(end)).observations - plain for end in (0, 1)]  # type: ignore[arg-type]
    first = given.starts + 1
    assert np.abs(moved[0][first]).max() == pytest.approx(0.01, rel=0.5)
    assert moved[0][first] == pytest.approx(-moved[1][first], abs=1e-3)


# What counts as feasible


def test_what_can_be_followed_in_fragments_only_is_not_feasible() -> None:
    def windows(distances: Array, demo: Array) -> Windows:
        count = len(demo)
        nothing = np.zeros(count, np.int64)
        return Windows(
            demo.astype(np.int64),
            np.arange(count),
            distances,
            distances[:, None],
            nothing,
            nothing - 1,
            np.ones(count),
            np.ones(count, bool),
        )

    own = windows(np.linspace(0.0, 0.01, 200), np.zeros(200))
    lost = np.array([0.0] + [9.0] * 11 + [0.0] * 3 + [9.0] * 9)  # one window of twelve, and three of twelve
    weights = Feasibility().weights_of(Tracked(windows(lost, np.repeat([0, 1], 12)), own, own, 5, 0.0, 1.0))
    assert weights.tolist() == [0.0, 0.25]


def test_the_tolerance_reaches_from_the_nearest_own_replay_to_the_farthest_perturbed_one() -> None:
    plain = SimpleNamespace(diverged=np.array([False, False]), distances=lambda columns: np.array([2.0, 1.0]))
    perturbed = SimpleNamespace(diverged=np.array([False, True, False]), distances=lambda columns: np.array([3.0, np.inf, 5.0]))
    assert measure_tolerance(plain, perturbed, delta_s=0.1) == Tolerance(1.0, 5.0)  # type: ignore[arg-type]
