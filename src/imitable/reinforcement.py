"""Batched roll-outs and TRPO for any reward function."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from imitable.arrays import Array, Booleans, Float32, Generator, Integers, Snapshot, generator_state, restore_generator
from imitable.demonstrations import Demonstrations
from imitable.errors import check_fields, layers
from imitable.networks import Adam, Mlp, Policy
from imitable.simulators import Simulator, advance, earned

Reward = Callable[[Array, Array, Array], Array]
"""States, actions and next states to rewards (N,)."""


@dataclass(frozen=True)
class Crew:
    """Agents between two batches, each somewhere in its episode."""

    states: Array
    """(agent, state)"""
    left: Integers
    """(agent,) steps until it starts anew; 0: at once."""

    @classmethod
    def fresh(cls, simulator: Simulator, agents: int, rng: Generator) -> "Crew":
        """All at the start of their episodes."""
        return cls(simulator.initial_states(agents, rng), np.full(agents, simulator.horizon))

    @classmethod
    def staggered(cls, simulator: Simulator, agents: int, rng: Generator) -> "Crew":
        """At new starts, to start anew one after the other, so that every later batch sees all parts of an episode."""
        return cls(simulator.initial_states(agents, rng), simulator.horizon - np.arange(agents) * simulator.horizon // agents)


@dataclass(frozen=True)
class Experience:
    """What a batch of agents saw and did, time first; an agent that finishes starts anew, so no cell is empty."""

    observations: Array
    """(time, agent, observation)"""
    next_observations: Array
    """(time, agent, observation) where the action led, before any new start."""
    actions: Array
    """(time, agent, action) as drawn, before the simulator clips them."""
    terminated: Booleans
    """(time, agent) the episode ended here; a time limit is not an end."""
    cut: Booleans
    """(time, agent) the episode had no end here, but what follows is not recorded: a time limit, or the batch is full."""
    diverged: int
    """How many of these endings were simulations that broke down; such an agent stays where it was for its last step."""
    rewards: Array
    """(time, agent) of the reward function that was asked for, 0 for a step that broke down; empty if none was."""
    crew: Crew
    """The agents as they are now."""

    @property
    def steps(self) -> int:
        return self.terminated.size


def roll_out(
    simulator: Simulator, act: Callable[[Array], Array], *, crew: Crew, steps: int, rng: Generator, reward: Reward | None = None
) -> Experience:
    """`steps` of the crew's agents in lock-step, from where they are, under the policy `act`."""
    states, left, agents = crew.states.copy(), crew.left.copy(), len(crew.left)
    observed = simulator.observe(states)
    observations, next_observations = np.empty((2, steps, *observed.shape))
    taken = np.empty((steps, agents, len(simulator.action_low)))
    terminated, cut = np.zeros((2, steps, agents), dtype=bool)
    rewards, diverged = np.empty((steps, agents) if reward else 0), 0
    for time in range(steps):
        due = left == 0
        if due.any():
            states[due], left[due] = simulator.initial_states(int(due.sum()), rng), simulator.horizon
            observed = simulator.observe(states)
        actions = act(observed)
        before = states
        states, broken = advance(simulator, before, actions)
        observations[time], taken[time] = observed, actions
        observed = next_observations[time] = simulator.observe(states)
        ended = terminated[time] = simulator.finished(states) | broken
        diverged += int(broken.sum())
        if reward:
            rewards[time] = np.where(broken, 0.0, reward(before, actions, states))
        left -= 1
        cut[time] = (left == 0) & ~ended
        left[ended] = 0
    cut[-1] = ~terminated[-1]
    return Experience(observations, next_observations, taken, terminated, cut, diverged, rewards, Crew(states, left))


def batch_agents(batch: int, simulator: Simulator) -> int:
    """How many agents make about `batch` steps in one episode's length."""
    return max(1, round(batch / simulator.horizon))


@dataclass(frozen=True)
class Episodes:
    """Whole episodes of one agent, with the actions that made them."""

    trajectories: Demonstrations
    actions: Array
    """(transition, action) in the order of `trajectories.transition_rows`."""
    diverged: int
    """How many ended because the simulation broke down."""


def demonstrate(
    simulator: Simulator,
    act: Callable[[Array], Array],
    *,
    count: int,
    rng: Generator,
    watch: Callable[[float], None] = lambda share: None,
) -> Episodes:
    """`count` whole episodes under the policy `act`, each until it finishes or reaches the horizon; `watch` hears the share done."""
    states = simulator.initial_states(count, rng)
    observed = simulator.observe(states)
    observations, actions = [observed], []
    lengths, returns = np.full(count, simulator.horizon), np.zeros(count)
    alive, diverged = np.arange(count), 0
    for time in range(simulator.horizon):
        taken = np.clip(act(observed), simulator.action_low, simulator.action_high)  # of all, so that `act` may tell them apart
        following, broken = advance(simulator, states, taken[alive])
        returns[alive] += np.where(broken, 0.0, earned(simulator, states, taken[alive], following))
        observed = observed.copy()
        observed[alive] = simulator.observe(following)
        observations.append(observed)
        actions.append(taken)
        diverged += int(broken.sum())
        ending = simulator.finished(following) | broken
        lengths[alive[ending]] = time + 1
        lengths[alive[broken]] = max(1, time)  # without the step that broke it, unless there is no other
        states, alive = following[~ending], alive[~ending]
        watch((time + 1) / simulator.horizon)
        if not len(alive):
            break
    seen, done = np.stack(observations, axis=1), np.stack(actions, axis=1)
    trajectories = Demonstrations(seen[np.arange(seen.shape[1]) <= lengths[:, None]], lengths, returns)
    return Episodes(trajectories, done[np.arange(done.shape[1]) < lengths[:, None]], diverged)


def advantages(rewards: Array, values: Array, next_values: Array, experience: Experience, *, discount: float, decay: float) -> Array:
    """(time, agent) generalised advantage estimates; a time limit bootstraps from the value of where it cut."""
    surprise = rewards + discount * np.where(experience.terminated, 0.0, next_values) - values
    over = experience.terminated | experience.cut
    estimates = np.empty_like(rewards)
    ahead = np.zeros(rewards.shape[1])
    for time in reversed(range(len(rewards))):
        ahead = np.where(over[time], 0.0, ahead)  # what follows belongs to another episode
        ahead = estimates[time] = surprise[time] + discount * decay * ahead
    return estimates


@dataclass(frozen=True)
class Lessons:
    """Experience as an update sees it: every step of every agent in one row."""

    inputs: Float32
    """(row, observation) scaled for the policy."""
    actions: Float32
    """(row, action)"""
    gains: Float32
    """(row,) advantages, standardised."""
    goals: Float32
    """(row, 1) what the value function should have said."""


def judge(
    experience: Experience, rewards: Array, policy: Policy, critic: Mlp, parameters: Float32, *, discount: float, decay: float
) -> Lessons:
    """What the (time, agent) rewards teach, by a value function with these parameters."""
    width = policy.network.widths[0]
    inputs = policy.inputs(experience.observations.reshape(-1, width))
    values = critic.forward(parameters, inputs)[-1].reshape(rewards.shape).astype(np.float64)
    next_values = np.zeros(rewards.shape)
    next_values[:-1] = values[1:]
    next_values[experience.cut] = critic.forward(parameters, policy.inputs(experience.next_observations[experience.cut]))[-1][:, 0]
    estimates = advantages(rewards, values, next_values, experience, discount=discount, decay=decay)
    gains = ((estimates - estimates.mean()) / (estimates.std() + 1e-8)).reshape(-1).astype(np.float32)
    actions = experience.actions.reshape(len(inputs), -1).astype(np.float32)
    return Lessons(inputs, actions, gains, (estimates + values).reshape(-1, 1).astype(np.float32))


@dataclass(frozen=True)
class Agent:
    """A learning agent between two updates: everything that must survive an interruption."""

    policy: Policy
    critic: Float32
    """(critic.size,) parameters of the value function."""
    critic_memory: Adam
    crew: Crew | None = None
    """Where the next batch goes on; None where every batch is whole episodes."""

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Everything about it, for a snapshot."""
        policy = self.policy
        learned = {"policy": policy.parameters, "spread": policy.log_spread, "centre": policy.centre, "scale": policy.scale}
        crew = {} if self.crew is None else {"crew states": self.crew.states, "crew left": self.crew.left}
        return {**learned, **crew, "critic": self.critic, **self.critic_memory.arrays("critic")}

    def restored(self, snapshot: Snapshot) -> "Agent":
        """The agent that `arrays` described, on the networks of this one."""
        policy = replace(
            self.policy,
            parameters=snapshot["policy"],
            log_spread=snapshot["spread"],
            centre=snapshot["centre"],
            scale=snapshot["scale"],
        )
        crew = Crew(snapshot["crew states"], snapshot["crew left"]) if "crew states" in snapshot else None
        return Agent(policy, snapshot["critic"], self.critic_memory.restored("critic", snapshot), crew)


def sample_batch(simulator: Simulator, policy: Policy, *, batch: int, rng: Generator, reward: Reward | None = None) -> Experience:
    """As many agents as make about `batch` steps in one episode's length, all from new starts."""
    crew = Crew.fresh(simulator, batch_agents(batch, simulator), rng)
    return roll_out(simulator, lambda seen: policy.sample(seen, rng), crew=crew, steps=simulator.horizon, rng=rng, reward=reward)


@dataclass(frozen=True)
class Trpo:
    """Trust-region policy optimisation with generalised advantages; defaults as released but for docs/method.md's departures."""

    batch: int = 5000  # steps per update
    agents: int = 0
    """How many step at once, each going on in the next batch where it was; 0: as many as make the batch in whole episodes, all from new
    starts, as released."""
    discount: float = 0.995
    decay: float = 0.97  # lambda of the advantage estimate
    largest_divergence: float = 0.01  # KL per update
    damping: float = 0.1
    conjugate_iterations: int = 10
    fisher_share: float = 0.2  # of the samples, for speed
    value_rate: float = 3e-4  # Adam
    value_minibatches: int = 30
    value_passes: int = 1
    hidden: tuple[int, ...] = (100, 100)
    spread: float = 1.0  # initial standard deviation of actions

    def __post_init__(self) -> None:
        check_fields(
            self,
            ("batch", self.batch >= 1, "at least 1"),
            ("agents", self.agents >= 0, "at least 0"),
            ("discount", 0 < self.discount <= 1, "in (0, 1]"),
            ("decay", 0 <= self.decay <= 1, "in [0, 1]"),
            ("largest_divergence", self.largest_divergence > 0, "above 0"),
            ("damping", self.damping >= 0, "at least 0"),
            ("conjugate_iterations", self.conjugate_iterations >= 1, "at least 1"),
            ("fisher_share", 0 < self.fisher_share <= 1, "in (0, 1]"),
            ("value_rate", self.value_rate > 0, "above 0"),
            ("value_minibatches", self.value_minibatches >= 1, "at least 1"),
            ("value_passes", self.value_passes >= 1, "at least 1"),
            ("spread", self.spread > 0, "above 0"),
            layers("hidden", self.hidden),
        )

    def start(self, simulator: Simulator, *, centre: Array, scale: Array, rng: Generator) -> Agent:
        """An untrained agent that sees observations centred and scaled."""
        inputs, outputs = len(centre), len(simulator.action_low)
        network, critic = Mlp((inputs, *self.hidden, outputs)), Mlp((inputs, *self.hidden, 1))
        low, high = simulator.action_low, simulator.action_high
        policy = Policy.fresh(network, centre=centre, scale=scale, low=low, high=high, spread=self.spread, rng=rng)
        return Agent(policy, critic.initial(rng), Adam.fresh(critic.size, rate=self.value_rate), self.crew(simulator, rng=rng))

    def crew(self, simulator: Simulator, *, rng: Generator) -> Crew | None:
        """The agents that go on from batch to batch, if any do."""
        return Crew.staggered(simulator, self.agents, rng) if self.agents else None

    def gather(self, simulator: Simulator, agent: Agent, *, rng: Generator, reward: Reward | None = None) -> Experience:
        """A batch under the agent's policy."""
        if agent.crew is None:
            return sample_batch(simulator, agent.policy, batch=self.batch, rng=rng, reward=reward)
        steps = max(1, round(self.batch / len(agent.crew.left)))
        return roll_out(simulator, lambda seen: agent.policy.sample(seen, rng), crew=agent.crew, steps=steps, rng=rng, reward=reward)

    def improve(self, agent: Agent, experience: Experience, rewards: Array, *, rng: Generator) -> tuple[Agent, dict[str, float]]:
        """One TRPO step on the (time, agent) rewards and one fit of the value function."""
        policy = agent.policy
        critic = Mlp((policy.network.widths[0], *self.hidden, 1))
        lessons = judge(experience, rewards, policy, critic, agent.critic, discount=self.discount, decay=self.decay)
        improved, diagnostics = trust_region_step(policy, lessons.inputs, lessons.actions, lessons.gains, settings=self, rng=rng)
        parameters, memory = self.fit_critic(agent, critic, lessons.inputs, lessons.goals, rng=rng)
        diagnostics["spread"] = float(np.exp(improved.log_spread).mean())
        return Agent(improved, parameters, memory, None if agent.crew is None else experience.crew), diagnostics

    def fit_critic(self, agent: Agent, critic: Mlp, inputs: Float32, goals: Float32, *, rng: Generator) -> tuple[Float32, Adam]:
        """Least squares towards the lambda-returns, in minibatches."""
        parameters, memory = (
            agent.critic.copy(),
            replace(agent.critic_memory, first=agent.critic_memory.first.copy(), second=agent.critic_memory.second.copy()),
        )
        for _ in range(self.value_passes):
            for rows in np.array_split(rng.permutation(len(inputs)), min(self.value_minibatches, len(inputs))):
                values = critic.forward(parameters, inputs[rows])
                errors = values[-1] - goals[rows]
                memory.step(parameters, critic.backward(parameters, values, errors * np.float32(2 / len(rows))))
        return parameters, memory


def trust_region_step(
    policy: Policy, inputs: Float32, actions: Float32, gains: Float32, *, settings: Trpo, rng: Generator
) -> tuple[Policy, dict[str, float]]:
    """The policy that gains most from advantages `gains` (N,) while its mean KL from the old one stays within bounds."""
    network, theta = policy.network, np.concatenate([policy.parameters, policy.log_spread])
    values = network.forward(policy.parameters, inputs)
    mean, variance = values[-1], np.exp(2 * policy.log_spread)
    deviations = actions - mean
    share = np.float32(1 / len(inputs))
    mean_gradients = deviations / variance * (gains * share)[:, None]
    spread_gradient = ((deviations**2 / variance - 1) * (gains * share)[:, None]).sum(axis=0)
    gradient = np.concatenate([network.backward(policy.parameters, values, mean_gradients), spread_gradient])

    drawn = rng.permutation(len(inputs))[: max(1, round(settings.fisher_share * len(inputs)))]
    sampled = [each[drawn] for each in values]
    slopes = network.slopes(sampled)
    precision = (1 / variance / len(sampled[0])).astype(np.float32)

    def fisher_product(direction: Float32) -> Float32:
        """The KL's Hessian at the old policy, J' diag(1/variance) J for the mean and 2 for each log spread, times a vector."""
        moved = network.tangent(policy.parameters, sampled, direction[: network.size], slopes)
        through_mean = network.backward(policy.parameters, sampled, moved * precision, slopes)
        through_spread = 2 * direction[network.size :]
        return np.asarray(np.concatenate([through_mean, through_spread]) + np.float32(settings.damping) * direction)

    direction, residual = conjugate_gradient(fisher_product, gradient, iterations=settings.conjugate_iterations)
    curvature = float(direction @ (gradient - residual))
    if curvature <= 0:  # a zero gradient: all advantages alike
        return policy, {"kl": 0.0, "improvement": 0.0}
    full_step = direction * np.float32(np.sqrt(2 * settings.largest_divergence / curvature))
    expected = float(gradient @ full_step)

    for shrink in 0.8 ** np.arange(15):
        proposed = theta + np.float32(shrink) * full_step
        parameters, log_spread = proposed[: network.size], proposed[network.size :]
        new_mean = network.forward(parameters, inputs)[-1]
        new_variance = np.exp(2 * log_spread)
        log_ratio = (0.5 * (deviations**2 / variance - (actions - new_mean) ** 2 / new_variance) + policy.log_spread - log_spread).sum(
            axis=1
        )
        gain = float(((np.exp(log_ratio) - 1) * gains).mean())
        divergence = (log_spread - policy.log_spread + (variance + (mean - new_mean) ** 2) / (2 * new_variance) - 0.5).sum(axis=1)
        kl = float(divergence.mean())
        if kl <= settings.largest_divergence and gain > 0.1 * shrink * expected:
            return replace(policy, parameters=parameters, log_spread=log_spread), {"kl": kl, "improvement": gain}
    return policy, {"kl": 0.0, "improvement": 0.0}


def conjugate_gradient(product: Callable[[Float32], Float32], target: Float32, *, iterations: int) -> tuple[Float32, Float32]:
    """An approximate solution of product(x) = target, and its residual target - product(x)."""
    solution = np.zeros_like(target)
    residual, direction = target.copy(), target.copy()
    size = residual @ residual
    for _ in range(iterations):
        if size < 1e-10:
            break
        image = product(direction)
        stride = size / (direction @ image)
        solution += stride * direction
        residual -= stride * image
        size, previous = residual @ residual, size
        direction = residual + np.float32(size / previous) * direction
    return solution, residual


def input_scaling(observations: Array) -> tuple[Array, Array]:
    """Centre and scale (observation,) of a set of observations; columns that never move are left alone."""
    flat = observations.reshape(-1, observations.shape[-1])
    spread = flat.std(axis=0)
    return flat.mean(axis=0), np.where(spread > 1e-8, spread, 1.0)


@dataclass(frozen=True, eq=False)
class TransitionScaling:
    """What networks see of a transition: (s, s' - s), centred and scaled by fixed numbers."""

    centre: Array
    """(2 * observation,)"""
    scale: Array
    """(2 * observation,)"""

    @classmethod
    def of(cls, states: Array, following: Array) -> "TransitionScaling":
        """That gives these transitions mean 0 and spread 1."""
        return cls(*input_scaling(np.concatenate([states, following - states], axis=1)))

    def __call__(self, states: Array, following: Array) -> Float32:
        """(N, 2 * observation)"""
        return ((np.concatenate([states, following - states], axis=1) - self.centre) / self.scale).astype(np.float32)


@dataclass(frozen=True)
class Student:
    """An agent between two rounds of training."""

    agent: Agent
    steps: int
    """Environment steps taken so far."""
    rng: Generator

    def snapshot(self) -> dict[str, np.ndarray[Any, Any]]:
        """Where training can go on; to be taken before the next round."""
        return {**self.agent.arrays(), "steps": np.array(self.steps), "rng": generator_state(self.rng)}


def train(simulator: Simulator, *, settings: Trpo, reward: Reward, rng: Generator, resume: Snapshot | None = None) -> Iterator[Student]:
    """Ever better students of a reward, first the untrained one; the caller says when to stop."""
    lowest, highest = simulator.action_low, simulator.action_high
    explored = roll_out(
        simulator,
        lambda observations: rng.uniform(lowest, highest, (len(observations), len(lowest))),
        crew=Crew.fresh(simulator, batch_agents(settings.batch, simulator), rng),
        steps=simulator.horizon,
        rng=rng,
    )
    centre, scale = input_scaling(explored.observations)
    agent, steps = settings.start(simulator, centre=centre, scale=scale, rng=rng), 0
    if resume is not None:
        agent, steps = agent.restored(resume), int(resume["steps"])
        restore_generator(rng, resume["rng"])
        if agent.crew is None:
            agent = replace(agent, crew=settings.crew(simulator, rng=rng))
    while True:
        yield Student(agent, steps, rng)
        experience = settings.gather(simulator, agent, rng=rng, reward=reward)
        agent, _ = settings.improve(agent, experience, experience.rewards, rng=rng)
        steps += experience.steps


def flat_transitions(experience: Experience) -> tuple[Array, Array]:
    """Observations and next observations (time * agent, observation) of a batch of experience."""
    width = experience.observations.shape[-1]
    return experience.observations.reshape(-1, width), experience.next_observations.reshape(-1, width)
