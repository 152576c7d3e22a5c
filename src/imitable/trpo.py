"""Trust-region policy optimization (Schulman et al., 2015) with generalized advantage estimation, for any reward function."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from imitable.arrays import Array, Arrays, Float32, Generator, Snapshot, generator_state, restore_generator
from imitable.errors import above, at_least, check_fields, layer_sizes
from imitable.networks import Adam, Mlp, Policy, obs_statistics
from imitable.rollouts import Reset, Reward, Rollout, RolloutState, collect_rollout, initial_reset, n_envs_for
from imitable.simulators import Simulator


def compute_gae(rewards: Array, values: Array, next_values: Array, rollout: Rollout, *, gamma: float, gae_lambda: float) -> Array:
    """(time, env) GAE; truncated episodes bootstrap from the value of the next observation."""
    deltas = rewards + gamma * np.where(rollout.terminated, 0.0, next_values) - values
    episode_ends = rollout.terminated | rollout.truncated
    advantages = np.empty_like(rewards)
    next_advantages = np.zeros(rewards.shape[1])
    for time in reversed(range(len(rewards))):
        next_advantages = np.where(episode_ends[time], 0.0, next_advantages)  # reset at episode boundaries
        next_advantages = advantages[time] = deltas[time] + gamma * gae_lambda * next_advantages
    return advantages


@dataclass(frozen=True)
class TrainingBatch:
    """A rollout flattened over time and environments, one step per row."""

    inputs: Float32
    """(row, observation) normalized, as the networks see them."""
    actions: Float32
    """(row, action)"""
    advantages: Float32
    """(row,) standardized."""
    value_targets: Float32
    """(row, 1) lambda-returns."""


def compute_returns_and_advantages(
    rollout: Rollout,
    rewards: Array,
    policy: Policy,
    value_network: Mlp,
    value_parameters: Float32,
    *,
    gamma: float,
    gae_lambda: float,
) -> TrainingBatch:
    """Advantages and value targets of the (time, env) rewards, by the value function."""
    inputs = policy.normalize_obs(rollout.observations.reshape(-1, policy.network.layer_sizes[0]))
    values = value_network.forward(value_parameters, inputs)[-1].reshape(rewards.shape).astype(np.float64)
    next_values = np.zeros(rewards.shape)
    next_values[:-1] = values[1:]
    bootstrap_inputs = policy.normalize_obs(rollout.next_observations[rollout.truncated])
    next_values[rollout.truncated] = value_network.forward(value_parameters, bootstrap_inputs)[-1][:, 0]
    advantages = compute_gae(rewards, values, next_values, rollout, gamma=gamma, gae_lambda=gae_lambda)
    standardized = ((advantages - advantages.mean()) / (advantages.std() + 1e-8)).reshape(-1).astype(np.float32)
    actions = rollout.actions.reshape(len(inputs), -1).astype(np.float32)
    return TrainingBatch(inputs, actions, standardized, (advantages + values).reshape(-1, 1).astype(np.float32))


@dataclass(frozen=True)
class ActorCritic:
    """Policy, value function and its optimizer: the training state that is checkpointed."""

    policy: Policy
    value_parameters: Float32
    """(value network's size,)"""
    value_optimizer: Adam
    rollout_state: RolloutState | None = None
    """Environment states carried over to the next rollout; None where every rollout is whole episodes."""

    def arrays(self) -> Arrays:
        """Everything about it, for a snapshot."""
        policy, state = self.policy, self.rollout_state
        policy_arrays = {"policy": policy.parameters, "log_std": policy.log_std, "center": policy.center, "scale": policy.scale}
        rollout_arrays = {} if state is None else {"rollout states": state.states, "rollout steps_left": state.steps_left}
        return {**policy_arrays, **rollout_arrays, "value": self.value_parameters, **self.value_optimizer.arrays("value")}

    def restored(self, snapshot: Snapshot) -> "ActorCritic":
        """The agent of a snapshot of `arrays`, with this one's network architecture."""
        policy = replace(
            self.policy,
            parameters=snapshot["policy"],
            log_std=snapshot["log_std"],
            center=snapshot["center"],
            scale=snapshot["scale"],
        )
        has_rollout_state = "rollout states" in snapshot
        state = RolloutState(snapshot["rollout states"], snapshot["rollout steps_left"]) if has_rollout_state else None
        return ActorCritic(policy, snapshot["value"], self.value_optimizer.restored("value", snapshot), state)


def collect_episodes(
    simulator: Simulator, policy: Policy, *, batch_size: int, rng: Generator, reward: Reward | None = None, reset: Reset | None = None
) -> Rollout:
    """As many environments as make about `batch_size` steps in one episode's length, all freshly reset."""
    reset = reset or initial_reset(simulator)
    state = RolloutState(*reset(np.arange(n_envs_for(batch_size, simulator)), rng))
    return collect_rollout(
        simulator,
        lambda observations: policy.sample(observations, rng),
        state=state,
        steps=simulator.horizon,
        rng=rng,
        reward=reward,
        reset=reset,
    )


@dataclass(frozen=True)
class Trpo:
    """Hyper-parameters of TRPO; defaults as in the paper's released code but for docs/method.md's departures."""

    batch_size: int = 5000  # environment steps per update
    n_envs: int = 0
    """Environments stepped in parallel, whose episodes continue in the next rollout; 0: as many as make the batch in whole episodes, all
    freshly reset, as in the authors' code."""
    gamma: float = 0.995
    gae_lambda: float = 0.97
    max_kl: float = 0.01  # per update
    cg_damping: float = 0.1
    cg_iterations: int = 10
    fisher_fraction: float = 0.2  # of the samples, for speed
    value_learning_rate: float = 3e-4  # Adam
    value_minibatches: int = 30
    value_epochs: int = 1
    hidden_sizes: tuple[int, ...] = (100, 100)
    initial_std: float = 1.0

    def __post_init__(self) -> None:
        check_fields(
            self,
            *at_least(self, 1, "batch_size", "cg_iterations", "value_minibatches", "value_epochs"),
            *at_least(self, 0, "n_envs", "cg_damping"),
            *above(self, 0, "max_kl", "value_learning_rate", "initial_std"),
            ("gamma", 0 < self.gamma <= 1, "in (0, 1]"),
            ("gae_lambda", 0 <= self.gae_lambda <= 1, "in [0, 1]"),
            ("fisher_fraction", 0 < self.fisher_fraction <= 1, "in (0, 1]"),
            layer_sizes("hidden_sizes", self.hidden_sizes),
        )

    def value_network(self, inputs: int) -> Mlp:
        return Mlp((inputs, *self.hidden_sizes, 1))

    def init_agent(self, simulator: Simulator, *, center: Array, scale: Array, rng: Generator) -> ActorCritic:
        """An untrained agent that sees observations centered and scaled."""
        inputs, outputs = len(center), len(simulator.action_low)
        network, value_network = Mlp((inputs, *self.hidden_sizes, outputs)), self.value_network(inputs)
        low, high = simulator.action_low, simulator.action_high
        policy = Policy.fresh(network, center=center, scale=scale, low=low, high=high, std=self.initial_std, rng=rng)
        value_parameters = value_network.init_parameters(rng)
        optimizer = Adam.fresh(value_network.size, learning_rate=self.value_learning_rate)
        return ActorCritic(policy, value_parameters, optimizer, self.initial_rollout_state(simulator, rng=rng))

    def initial_rollout_state(self, simulator: Simulator, *, rng: Generator) -> RolloutState | None:
        """Environment states to begin with; None where every rollout is whole episodes."""
        return RolloutState.staggered(simulator, self.n_envs, rng) if self.n_envs else None

    def collect_rollouts(
        self, simulator: Simulator, agent: ActorCritic, *, rng: Generator, reward: Reward | None = None, reset: Reset | None = None
    ) -> Rollout:
        """A batch under the agent's policy; environments are reset by `reset`, by default to the simulator's initial states."""
        policy, state = agent.policy, agent.rollout_state
        if state is None:
            return collect_episodes(simulator, policy, batch_size=self.batch_size, rng=rng, reward=reward, reset=reset)
        return collect_rollout(
            simulator,
            lambda observations: policy.sample(observations, rng),
            state=state,
            steps=max(1, round(self.batch_size / len(state.steps_left))),
            rng=rng,
            reward=reward,
            reset=reset,
        )

    def update(self, agent: ActorCritic, rollout: Rollout, rewards: Array, *, rng: Generator) -> tuple[ActorCritic, dict[str, float]]:
        """One TRPO step on the (time, env) rewards and one fit of the value function."""
        policy, parameters = agent.policy, agent.value_parameters
        network = self.value_network(policy.network.layer_sizes[0])
        batch = compute_returns_and_advantages(rollout, rewards, policy, network, parameters, gamma=self.gamma, gae_lambda=self.gae_lambda)
        new_policy, diagnostics = trust_region_step(policy, batch, trpo=self, rng=rng)
        parameters, optimizer = self.fit_value_function(agent, network, batch, rng=rng)
        diagnostics["std"] = float(np.exp(new_policy.log_std).mean())
        return ActorCritic(new_policy, parameters, optimizer, None if agent.rollout_state is None else rollout.state), diagnostics

    def fit_value_function(self, agent: ActorCritic, network: Mlp, batch: TrainingBatch, *, rng: Generator) -> tuple[Float32, Adam]:
        """Least squares towards the value targets, in minibatches."""
        parameters, optimizer = agent.value_parameters.copy(), agent.value_optimizer.copy()
        rows = len(batch.inputs)
        for _ in range(self.value_epochs):
            for minibatch in np.array_split(rng.permutation(rows), min(self.value_minibatches, rows)):
                activations = network.forward(parameters, batch.inputs[minibatch])
                errors = activations[-1] - batch.value_targets[minibatch]
                optimizer.step(parameters, network.backward(parameters, activations, errors * np.float32(2 / len(minibatch))))
        return parameters, optimizer


def trust_region_step(policy: Policy, batch: TrainingBatch, *, trpo: Trpo, rng: Generator) -> tuple[Policy, dict[str, float]]:
    """One natural-gradient step with a backtracking line search; the old policy where no step is accepted."""
    inputs, actions, advantages = batch.inputs, batch.actions, batch.advantages
    network, theta = policy.network, np.concatenate([policy.parameters, policy.log_std])
    activations = network.forward(policy.parameters, inputs)
    mean, variance = activations[-1], np.exp(2 * policy.log_std)
    action_errors = actions - mean
    inverse_count = np.float32(1 / len(inputs))
    mean_gradients = action_errors / variance * (advantages * inverse_count)[:, None]
    log_std_gradient = ((action_errors**2 / variance - 1) * (advantages * inverse_count)[:, None]).sum(axis=0)
    gradient = np.concatenate([network.backward(policy.parameters, activations, mean_gradients), log_std_gradient])

    subset = rng.permutation(len(inputs))[: max(1, round(trpo.fisher_fraction * len(inputs)))]
    subset_activations = [each[subset] for each in activations]
    derivatives = network.activation_derivatives(subset_activations)
    precision = (1 / variance / len(subset_activations[0])).astype(np.float32)

    def fisher_vector_product(vector: Float32) -> Float32:
        """The KL's Hessian at the old policy, J' diag(1/variance) J for the mean and 2 for each log std, plus damping, times a vector."""
        mean_tangents = network.jvp(policy.parameters, subset_activations, vector[: network.size], derivatives)
        through_mean = network.backward(policy.parameters, subset_activations, mean_tangents * precision, derivatives)
        through_log_std = 2 * vector[network.size :]
        return np.asarray(np.concatenate([through_mean, through_log_std]) + np.float32(trpo.cg_damping) * vector)

    direction, residual = conjugate_gradient(fisher_vector_product, gradient, iterations=trpo.cg_iterations)
    curvature = float(direction @ (gradient - residual))
    if curvature <= 0:  # a zero gradient: all advantages are equal
        return policy, {"kl": 0.0, "surrogate improvement": 0.0}
    full_step = direction * np.float32(np.sqrt(2 * trpo.max_kl / curvature))
    expected_improvement = float(gradient @ full_step)

    for step_fraction in 0.8 ** np.arange(15):  # backtracking line search
        new_theta = theta + np.float32(step_fraction) * full_step
        parameters, log_std = new_theta[: network.size], new_theta[network.size :]
        new_mean = network.forward(parameters, inputs)[-1]
        new_variance = np.exp(2 * log_std)
        log_ratio = (0.5 * (action_errors**2 / variance - (actions - new_mean) ** 2 / new_variance) + policy.log_std - log_std).sum(axis=1)
        improvement = float(((np.exp(log_ratio) - 1) * advantages).mean())
        kl_divergences = (log_std - policy.log_std + (variance + (mean - new_mean) ** 2) / (2 * new_variance) - 0.5).sum(axis=1)
        kl = float(kl_divergences.mean())
        if kl <= trpo.max_kl and improvement > 0.1 * step_fraction * expected_improvement:
            return replace(policy, parameters=parameters, log_std=log_std), {"kl": kl, "surrogate improvement": improvement}
    return policy, {"kl": 0.0, "surrogate improvement": 0.0}


def conjugate_gradient(matvec: Callable[[Float32], Float32], b: Float32, *, iterations: int) -> tuple[Float32, Float32]:
    """An approximate solution of A x = b, where matvec(x) is A x, and its residual b - A x."""
    solution = np.zeros_like(b)
    residual, direction = b.copy(), b.copy()
    squared_norm = residual @ residual
    for _ in range(iterations):
        if squared_norm < 1e-10:
            break
        a_direction = matvec(direction)
        step_size = squared_norm / (direction @ a_direction)
        solution += step_size * direction
        residual -= step_size * a_direction
        squared_norm, previous = residual @ residual, squared_norm
        direction = residual + np.float32(squared_norm / previous) * direction
    return solution, residual


@dataclass(frozen=True)
class TrainingState:
    """An agent between two iterations of training."""

    agent: ActorCritic
    steps: int
    """Environment steps taken so far."""
    rng: Generator

    def snapshot(self) -> Arrays:
        """What resuming needs; to be taken before the next iteration."""
        return {**self.agent.arrays(), "steps": np.array(self.steps), "rng": generator_state(self.rng)}


def train(simulator: Simulator, *, trpo: Trpo, reward: Reward, rng: Generator, resume: Snapshot | None = None) -> Iterator[TrainingState]:
    """TRPO on a reward function: yields the untrained agent, then the agent after each iteration, without end."""
    low, high = simulator.action_low, simulator.action_high
    random_rollout = collect_rollout(
        simulator,
        lambda observations: rng.uniform(low, high, (len(observations), len(low))),
        state=RolloutState.fresh(simulator, n_envs_for(trpo.batch_size, simulator), rng),
        steps=simulator.horizon,
        rng=rng,
    )
    center, scale = obs_statistics(random_rollout.observations)
    agent, steps = trpo.init_agent(simulator, center=center, scale=scale, rng=rng), 0
    if resume is not None:
        agent, steps = agent.restored(resume), int(resume["steps"])
        restore_generator(rng, resume["rng"])
        if agent.rollout_state is None:
            agent = replace(agent, rollout_state=trpo.initial_rollout_state(simulator, rng=rng))
    while True:
        yield TrainingState(agent, steps, rng)
        rollout = trpo.collect_rollouts(simulator, agent, rng=rng, reward=reward)
        agent, _ = trpo.update(agent, rollout, rollout.rewards, rng=rng)
        steps += rollout.steps
