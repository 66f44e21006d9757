"""Learn online: play a learner from the first episode on and record its returns and its regret.

    while episodes are left:
        play a batch, each episode with one of the learner's policies, drawn uniformly, and pass it to the learner
        learner.update()

In a model the value of each policy is exact, hence the expected regret is, too. Batches are small and grow while the
policies stay unchanged, so that a learner that would change its policies after one episode can do so soon. Random
numbers depend on the seed and on the number of episodes before a batch. A run that was stored between two batches
therefore continues with the bits that it would have had without the interruption.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from rewardmix import problems
from rewardmix._core import storage
from rewardmix._core.budget import check_budget_episodes
from rewardmix._core.checks import (
    Floats,
    as_count,
    as_floats,
    as_indices,
    as_path,
    as_reward_values,
    as_seed,
    check_callback,
    raise_input_error,
)
from rewardmix._core.int_dtypes import length_dtype
from rewardmix._core.random_streams import Role, derive_seed, kernel_stream, make_generator
from rewardmix._core.storage import Arrays, Packed
from rewardmix.episodes import Episodes, allocate_episodes
from rewardmix.evaluation import evaluate
from rewardmix.exploration.checkpoints import CheckpointFolder, env_digest, normalize_settings
from rewardmix.model import RewardMixingMDP
from rewardmix.online.agent import PosteriorSamplingAgent
from rewardmix.online.online_result import OnlineResult
from rewardmix.planning import plan
from rewardmix.policy import Controller, MarkovPolicy
from rewardmix.simulation import prepare_kernel

MAX_BATCH_SHARE = 50
"""A batch has one episode plus at most one for each 50 episodes so far."""

OPTIMAL_VALUE_GAP = 1e-5
"""Gap of the optimal value of a model with two types; ``OPTIMAL_VALUE_GAP_MANY_TYPES`` is what more types allow."""
OPTIMAL_VALUE_GAP_MANY_TYPES = 1e-3

CHECKPOINT_FILE = "online.safetensors"
"""File name of an interrupted run in its checkpoint folder."""


class Learner(Protocol):
    """Interface of learners: ``PosteriorSamplingAgent`` and the baselines of ``benchmarks.online.baselines``."""

    @property
    def policies(self) -> tuple[Any, ...]:
        """Policies among which episodes are drawn uniformly."""

    def add(self, episodes: Episodes) -> None:
        """Count episodes that these policies played."""

    def update(self) -> bool:
        """Replan if there is a reason to; return whether the policies changed."""

    def policy(self) -> Controller | MarkovPolicy:
        """Return the policy to play if nothing more is to be learned."""


def learn_online(
    env_or_model: Any,
    *,
    num_episodes: int = 20_000,
    num_types: int | str = 2,
    seed: int = 0,
    weights: ArrayLike | str | None = None,
    horizon: int | None = None,
    reward_values: ArrayLike | None = None,
    window: int | None = None,
    agent_factory: Callable[..., Learner] = PosteriorSamplingAgent,
    callback: Callable[[int], None] | None = None,
    checkpoint_dir: str | os.PathLike[str] | None = None,
) -> OnlineResult:
    """Learn online: maximize reward from the first episode with a posterior-sampling agent.

    The agent knows sizes and reward values only. It combines Thompson sampling over models with hidden types with
    exploration of state-actions that were hardly ever tried; ``PosteriorSamplingAgent`` describes the algorithm.

    Args:
        env_or_model: Model, name of a problem, or Gymnasium environment with Discrete spaces. In a model the result has
            the exact expected regret.
        num_episodes: Number of episodes K to play.
        num_types: Number of types M, or "auto" to let the agent select it.
        seed: Seed of the learner and of the episodes.
        weights: Probabilities of the types, (M,); "uniform" for equal ones. ``None`` estimates them.
        horizon: Largest number of steps H of an episode. ``None`` reads it from the environment's time limit.
        reward_values: Increasing reward values (Z,), if the environment does not declare them. ``None``: 0 and 1.
        window: Number of episodes after which the agent forgets one. ``None`` keeps all.
        agent_factory: Makes the learner from the arguments of ``PosteriorSamplingAgent``.
        callback: Function that is called with the number of episodes played so far, after each batch.
        checkpoint_dir: Folder in which the run is stored from time to time. An interrupted run with equal settings in
            this folder is continued. ``None`` stores nothing.

    Returns:
        Returns of all episodes, the learner, its final policy and, in a model, the regret.

    Raises:
        InputError: If an argument is invalid, if ``window`` or ``checkpoint_dir`` is given for another learner than the
            agent, or if the checkpoint belongs to other settings.

    Examples:
        >>> import rewardmix as rm
        >>> result = rm.learn_online("probe", num_episodes=100, seed=0)
        >>> result.total_reward
        382.0
        >>> round(result.optimal_value, 2), round(float(result.cumulative_regret[-1]), 1)
        (4.58, 59.6)
    """
    count, seed = as_count("num_episodes", num_episodes), as_seed("seed", seed)
    check_callback("callback", callback)
    env = _make_online_env(env_or_model, seed, horizon, reward_values)
    check_budget_episodes(count, env.horizon)
    agent_arguments = {**env.sizes, "num_types": num_types, "weights": weights, "seed": seed}
    # Only the agent can forget. The argument is refused rather than ignored, since results would silently differ.
    if window is not None and agent_factory is not PosteriorSamplingAgent:
        raise_input_error("window", f"{window!r} for another learner", "None; only PosteriorSamplingAgent has a window")
    learner = agent_factory(**agent_arguments) if window is None else agent_factory(**agent_arguments, window=window)
    folder = (
        None
        if checkpoint_dir is None
        else _open_checkpoint(
            checkpoint_dir, learner, {"num_episodes": count, "window": window, **agent_arguments}, env
        )
    )
    run = None if folder is None else folder.read(CHECKPOINT_FILE, "online run", unpack_run)
    if run is None:
        run = OnlineRun(learner, np.empty(count))
        run.record_policy_change(env)
    else:
        # A restored run has its values already; this call compiles its policies, so that they can be played.
        env.value(run.learner.policies)
    while run.num_episodes_done < count:
        run.play_batch(env)
        if callback:
            callback(run.num_episodes_done)
        # Between batches the run has no state besides the learner and the recorded arrays, so this is where it can be
        # stored.
        if folder is not None and folder.is_due:
            folder.write(CHECKPOINT_FILE, "online run", *pack_run(run))
    return _make_result(run, env.optimal_value)


@dataclass(eq=False)
class OnlineRun:
    """Hold a run of ``learn_online`` in progress: the learner and the history.

    Attributes:
        learner: Learner with everything that it has observed.
        episode_returns: (K,) return of each episode; entries of episodes not yet played are undefined.
        num_episodes_done: Number of episodes played.
        policy_start_episodes: Episode at which each set of policies began, as in ``OnlineResult``.
        policy_values: Mean value of each set of policies.
        type_weights: Estimated type weights at each of these times.
    """

    learner: Learner
    episode_returns: Floats
    num_episodes_done: int = 0
    policy_start_episodes: list[int] = field(default_factory=list)
    policy_values: list[float] = field(default_factory=list)
    type_weights: list[Floats] = field(default_factory=list)

    def play_batch(self, env: OnlineEnv) -> None:
        """Play one batch and let the learner replan."""
        # At most 2 % of the episodes so far, and at most as many as the policies have lasted: just after a change the
        # learner often changes again, and regret of outdated policies would be charged to it.
        limit = min(self.num_episodes_done // MAX_BATCH_SHARE, self.num_episodes_done - self.policy_start_episodes[-1])
        number = min(1 + limit, self.episode_returns.size - self.num_episodes_done)
        self.episode_returns[self.num_episodes_done : self.num_episodes_done + number] = env.run_batch(
            self.learner, number, self.num_episodes_done
        )
        self.num_episodes_done += number
        if self.learner.update() and self.num_episodes_done < self.episode_returns.size:
            self.record_policy_change(env)

    def record_policy_change(self, env: OnlineEnv) -> None:
        """Record the policies that are played from now on: first episode, value, estimated type weights."""
        self.policy_start_episodes.append(self.num_episodes_done)
        self.policy_values.append(env.value(self.learner.policies))
        if isinstance(self.learner, PosteriorSamplingAgent):
            self.type_weights.append(self.learner.type_weights)


def pack_run(run: OnlineRun) -> Packed:
    """Convert a run of an agent to arrays and metadata."""
    from rewardmix.online.agent_io import pack_agent  # slow to import

    arrays, meta = storage.join_packed({"agent": pack_agent(run.learner)})  # type: ignore[arg-type]  # checked by ``_open_checkpoint``
    arrays |= {
        "episode_returns": run.episode_returns[: run.num_episodes_done],
        "policy_start_episodes": np.array(run.policy_start_episodes),
        "type_weights": _pad_rows(run.type_weights),
    }
    # JSON has no NaN: the value of a policy in an environment is unknown and is stored as null.
    values = [None if np.isnan(value) else value for value in run.policy_values]
    return arrays, {**meta, "num_episodes": run.episode_returns.size, "policy_values": values}


def unpack_run(arrays: Arrays, meta: dict[str, Any]) -> OnlineRun:
    """Restore a run from arrays and metadata; raise ``InputError`` if they do not fit together."""
    from rewardmix.online.agent_io import unpack_agent

    agent = unpack_agent(storage.select_packed(arrays, "agent"), storage.get_metadata(meta, "agent", dict))
    played_returns = as_floats("episode_returns", arrays["episode_returns"], (None,))
    returns = np.empty(storage.get_metadata(meta, "num_episodes", int))
    starts = as_indices("policy_start_episodes", arrays["policy_start_episodes"], played_returns.size + 1, (None,))
    stored_values = storage.get_metadata(meta, "policy_values", list)
    values = [float("nan") if value is None else float(value) for value in stored_values]
    weights = as_floats("type_weights", arrays["type_weights"], (starts.size, None))
    if played_returns.size > returns.size or len(values) != starts.size or starts.size == 0:
        raise_input_error(
            "episode_returns",
            f"{played_returns.size} episodes, {starts.size} policy changes, {len(values)} values",
            "the arrays of one run",
        )
    returns[: played_returns.size] = played_returns
    # Rows were padded with zeros to a common length. Weights are positive, so the zeros can be removed again.
    return OnlineRun(agent, returns, played_returns.size, starts.tolist(), values, [row[row > 0] for row in weights])


def _open_checkpoint(
    checkpoint: str | os.PathLike[str], learner: Learner, agent_arguments: dict[str, Any], env: OnlineEnv
) -> CheckpointFolder:
    """Open the checkpoint folder of a run with these settings in this environment."""
    if type(learner) is not PosteriorSamplingAgent:
        raise_input_error(
            "checkpoint_dir",
            f"a folder for a {type(learner).__name__}",
            "None; only a PosteriorSamplingAgent can be stored",
        )
    plain_arguments = {
        name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in agent_arguments.items()
    }
    # The digest of the environment is part of the settings: a run must not continue in another model.
    settings = dict(normalize_settings(**plain_arguments, spec_digest=env_digest(env.env_or_model)))
    return CheckpointFolder(Path(as_path("checkpoint_dir", checkpoint)), settings)


def _pad_rows(rows: list[Floats]) -> Floats:
    """Return rows of different lengths as one array (D, M), padded with zeros."""
    table = np.zeros((len(rows), max((padded.size for padded in rows), default=0)))
    for padded, row in zip(table, rows, strict=True):
        padded[: row.size] = row
    return table


def _make_result(run: OnlineRun, optimal_value: float | None) -> OnlineResult:
    """Make the result of a finished run."""
    policy, starts = run.learner.policy(), np.array(run.policy_start_episodes)
    weights = _pad_rows(run.type_weights) if run.type_weights else None
    if optimal_value is None:
        return OnlineResult(run.learner, policy, run.episode_returns, None, starts, None, None, weights)
    values = np.array(run.policy_values)
    # Each set of policies has one exact value, so the regret of its episodes is constant until the next change.
    regrets = np.repeat(optimal_value - values, np.diff(np.append(starts, run.episode_returns.size)))
    regret = np.cumsum(regrets)
    return OnlineResult(run.learner, policy, run.episode_returns, regret, starts, values, optimal_value, weights)


class OnlineEnv:
    """Play episodes for a learner, each with one of its policies.

    Attributes:
        env_or_model: Model or environment.
        seed: Seed; random numbers depend on it and on the number of episodes before.
        horizon: Largest number of steps H of an episode.
        sizes: Sizes, horizon and reward values that a learner is given.
        optimal_value: Value of an optimal policy; ``None`` if it is unknown.
    """

    horizon: int
    sizes: dict[str, Any]
    optimal_value: float | None = None

    def __init__(self, env_or_model: Any, seed: int) -> None:
        self.env_or_model, self.seed = env_or_model, seed

    def value(self, policies: tuple[Any, ...]) -> float:
        """Compute the expected return of policies that are drawn uniformly; NaN if the model is unknown."""
        return float("nan")

    def run_batch(self, learner: Learner, number: int, before: int) -> Floats:
        """Play episodes, pass them to the learner, and return their returns (number,)."""
        policies = learner.policies
        rng = make_generator(self.seed, Role.ONLINE_POLICY_CHOICE, before)
        # Numbers of episodes per policy are drawn first, so that each policy is played by one call of a compiled
        # kernel.
        policy_counts = rng.multinomial(number, np.full(len(policies), 1.0 / len(policies)))
        drawn_policies = np.flatnonzero(policy_counts)
        batches = [self.rollout(policies[k], int(policy_counts[k]), (before, int(k))) for k in drawn_policies]
        for batch in batches:
            learner.add(batch)
        return np.concatenate([batch.returns for batch in batches])

    def rollout(self, policy: Any, number: int, index: tuple[int, int]) -> Episodes:
        """Play episodes of one policy.

        ``index`` (number of episodes before, number of the policy) selects the random stream.
        """
        raise NotImplementedError


class OnlineModelEnv(OnlineEnv):
    """Play episodes of a model with compiled kernels; the value of every policy is exact."""

    def __init__(self, model: RewardMixingMDP, seed: int) -> None:
        from rewardmix.simulation_kernels import SamplingTables

        super().__init__(model, seed)
        self.model, self.tables, self.horizon = model, SamplingTables.from_model(model), model.horizon
        self.optimal_value = plan(
            model, gap=OPTIMAL_VALUE_GAP if model.num_types == 2 else OPTIMAL_VALUE_GAP_MANY_TYPES
        ).lower
        self.kernels: dict[int, tuple[Any, Any]] = {}
        self.sizes = _agent_arguments(model.num_states, model.num_actions, model.horizon, model.reward_values)

    def value(self, policies: tuple[Any, ...]) -> float:
        """Compute the mean of the exact values of the policies, and prepare the policies for the kernels."""
        # Several policies are one object (the most likely model has three shares); each is evaluated and compiled once.
        distinct = {id(policy): policy for policy in policies}
        self.kernels = {key: prepare_kernel(policy, self.model) for key, policy in distinct.items()}
        values = {key: evaluate(policy, self.model).value for key, policy in distinct.items()}
        return sum(values[id(policy)] for policy in policies) / len(policies)

    def rollout(self, policy: Any, number: int, index: tuple[int, int]) -> Episodes:
        """Play episodes of a prepared policy with compiled kernels."""
        model = self.model
        play, policy_arrays = self.kernels[id(policy)]
        arrays = allocate_episodes(number, model.horizon, model.num_states, model.num_actions, model.num_values)
        play(self.tables, policy_arrays, kernel_stream(self.seed, Role.ONLINE_EPISODES, *index), *arrays)
        lengths = np.full(number, model.horizon, length_dtype(model.horizon))
        columns = dict(zip(("states", "actions", "reward_indices", "lengths"), (*arrays, lengths), strict=True))
        return Episodes.from_valid_arrays(columns, model.num_states, model.num_actions, model.reward_values)


class OnlineGymEnv(OnlineEnv):
    """Play episodes of a Gymnasium environment, with ``reset`` and ``step`` only."""

    def __init__(self, env: Any, seed: int, horizon: int | None, reward_values: ArrayLike | None) -> None:
        from rewardmix import environments  # slow to import, not needed for models

        super().__init__(env, seed)
        states, actions = environments.get_env_sizes(env)
        if environments.is_vector(env):
            raise_input_error("env_or_model", "a vector environment", "a single environment")
        self.env = env
        self.horizon = environments.get_horizon(env) if horizon is None else as_count("horizon", horizon)
        values = environments.get_reward_values(env) if reward_values is None else reward_values
        self.values = as_reward_values((0.0, 1.0) if values is None else values)
        self.sizes = _agent_arguments(states, actions, self.horizon, self.values)

    def run_batch(self, learner: Learner, number: int, before: int) -> Floats:
        """Play episodes; an agent gets every event, another learner whole episodes.

        Only events tell a termination at the last step from the time limit.
        """
        if not isinstance(learner, PosteriorSamplingAgent):
            return super().run_batch(learner, number, before)
        seed = self._seed(before, 0)
        return np.array([self._run_episode(learner, seed if k == 0 else None) for k in range(number)])

    def rollout(self, policy: Any, number: int, index: tuple[int, int]) -> Episodes:
        """Play episodes of one policy; the environment is seeded before the first of them."""
        from rewardmix import environments

        horizon, values = self.horizon, self.values
        return environments.rollout(self.env, policy, number, self._seed(*index), horizon=horizon, reward_values=values)

    def _seed(self, *index: int) -> int:
        """Return the seed of a batch; ``index`` is (number of episodes before, number of the policy)."""
        return derive_seed(self.seed, Role.ONLINE_ENVIRONMENT, *index)

    def _run_episode(self, agent: PosteriorSamplingAgent, seed: int | None) -> float:
        """Play one episode with an agent and return its return."""
        state, _ = self.env.reset(seed=seed)
        episode, total = agent.start_episode(state), 0.0
        while episode.action is not None:
            state, reward, terminated, truncated, _ = self.env.step(episode.action)
            episode.observe(reward, None if terminated else state)
            total += float(reward)
            # The time limit of the environment cuts the episode: it is closed without a next state, and no end is
            # learned.
            if truncated:
                episode.close()
        return total


def _make_online_env(env_or_model: Any, seed: int, horizon: int | None, reward_values: ArrayLike | None) -> OnlineEnv:
    """Make the object that plays a model or an environment."""
    env = problems.resolve_env_or_model("env_or_model", env_or_model)
    if not isinstance(env, RewardMixingMDP):
        return OnlineGymEnv(env, seed, horizon, reward_values)
    for name, value in (("horizon", horizon), ("reward_values", reward_values)):
        if value is not None:
            raise_input_error(name, "a value for a model", "None; a model has its own")
    return OnlineModelEnv(env, seed)


def _agent_arguments(num_states: int, num_actions: int, horizon: int, reward_values: Floats) -> dict[str, Any]:
    """Return sizes, horizon and reward values as arguments of a learner."""
    return {
        "num_states": num_states,
        "num_actions": num_actions,
        "horizon": horizon,
        "reward_values": reward_values,
    }
