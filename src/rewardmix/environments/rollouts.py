"""Play a policy in a Gymnasium environment with Discrete spaces, and read such an environment's sizes and names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rewardmix._core.budget import ENV_STEP_COST, check_budget_episodes
from rewardmix._core.checks import Floats, InputError, as_count, raise_input_error
from rewardmix._core.int_dtypes import action_dtype, state_dtype
from rewardmix._core.random_streams import Role, derive_seed, make_generator
from rewardmix.episodes import PADDING, Episodes
from rewardmix.policy import BeliefPolicy, Controller, MarkovPolicy, Policy
from rewardmix.reward_scale import RewardScale


def get_env_sizes(env: Any) -> tuple[int, int]:
    """Return (S, A) of an environment; raise InputError unless both spaces are Discrete and start at 0."""
    if not isinstance(env, gymnasium.Env | gymnasium.vector.VectorEnv):
        raise_input_error("env", type(env).__name__, "a Gymnasium environment")
    sizes = []
    for name in ("observation_space", "action_space"):
        space = getattr(env, f"single_{name}" if is_vector(env) else name)
        if not isinstance(space, spaces.Discrete) or space.start != 0:
            raise_input_error(f"env.{name}", space, "Discrete(n) starting at 0; wrap the environment to number them")
        sizes.append(int(space.n))
    return sizes[0], sizes[1]


def is_vector(env: Any) -> bool:
    """Return whether an environment plays several episodes at once."""
    return isinstance(env, gymnasium.vector.VectorEnv)


def has_rng(env: Any) -> bool:
    """Return whether an environment has a random generator already, so that it can continue its stream."""
    return getattr(env.unwrapped, "_np_random", None) is not None


def get_horizon(env: Any) -> int:
    """Return the horizon H: the environment's own ``horizon``, or the step limit of its registration."""
    limit = _find_horizon(env)
    if limit is None:
        raise_input_error(
            "env",
            "no horizon and no time limit",
            "a horizon; pass horizon=... (--horizon), or wrap it in gymnasium.wrappers.TimeLimit",
        )
    return limit


def get_reward_values(env: Any) -> Floats | None:
    """Return the reward values that an environment declares, or None."""
    values = _get_attribute(env, "reward_values")
    return None if values is None else np.asarray(values, np.float64)


@dataclass(frozen=True, eq=False)
class PlayedReturns:
    """Hold the returns of played episodes.

    Attributes:
        returns: (K,) return of each episode, in the environment's own rewards, before any binning.
        reward_values: Possible rewards; None if a reward can be any number.
        horizon: Maximum number of steps per episode.
    """

    returns: Floats
    reward_values: Floats | None
    horizon: int


def play_returns(
    env: Any, policy: Policy, episodes: int, seed: int = 0, callback: Callable[[int], None] | None = None
) -> PlayedReturns:
    """Play episodes as ``rollout`` does, and sum the rewards of each."""
    buffer = _play_episodes(env, policy, episodes, seed, callback=callback)
    # Rewards after the end of an episode are NaN; they must not enter the sum.
    returns: Floats = np.where(buffer.actions >= 0, buffer.rewards, 0.0).sum(axis=1)
    is_exact = buffer.scale is not None and buffer.scale.cuts is None
    return PlayedReturns(returns, buffer.scale.values if buffer.scale is not None and is_exact else None, buffer.length)


def rollout(
    env: Any,
    policy: Policy,
    episodes: int,
    seed: int = 0,
    *,
    horizon: int | None = None,
    reward_values: Floats | None = None,
    keep_rng: bool = False,
    callback: Callable[[int], None] | None = None,
) -> Episodes:
    """Play episodes through ``reset`` and ``step``; they may end early, and are stopped at the horizon.

    A vector environment plays one episode in each copy, then the next. Starting a new episode whenever a copy is free
    would give short episodes too much weight.

    The environment is seeded at the first reset only, so that its episodes differ.

    Args:
        env: Gymnasium environment, single or vector.
        policy: Policy to play.
        episodes: Number of episodes.
        seed: Seed of the policy's actions and of the environment.
        horizon: Maximum number of steps. None: the smaller of the environment's horizon and the policy's.
        reward_values: Possible rewards. None: those the environment declares, else those of the policy, in its bins.
        keep_rng: Keep the random generator of an environment that was seeded before; truncation is an error then.
        callback: Function called with the number of episodes played so far.

    Returns:
        The episodes.

    Raises:
        InputError: If the policy does not fit the environment, or the environment breaks its declared rules.
    """
    buffer = _play_episodes(env, policy, episodes, seed, horizon, reward_values, keep_rng, callback)
    scale = buffer.scale
    return Episodes.from_arrays(
        buffer.states,
        buffer.actions,
        buffer.rewards if scale is None or scale.cuts is None else scale.round_to_values(buffer.rewards),
        num_states=buffer.num_states,
        num_actions=buffer.num_actions,
        lengths=(buffer.actions >= 0).sum(axis=1),
        reward_values=None if scale is None else scale.values,
    )


def _play_episodes(
    env: Any,
    policy: Policy,
    episodes: int,
    seed: int,
    horizon: int | None = None,
    reward_values: Floats | None = None,
    keep_rng: bool = False,
    callback: Callable[[int], None] | None = None,
) -> _EpisodeBuffer:
    """Play all episodes into one buffer."""
    num_states, num_actions = get_env_sizes(env)
    _check_policy_fits(policy, num_states, num_actions)
    if horizon is None:
        policy_horizon = getattr(policy, "horizon", None)
        env_horizon = _find_horizon(env) if policy_horizon else get_horizon(env)
        horizon = min(length for length in (env_horizon, policy_horizon) if length is not None)
    length = as_count("horizon", horizon)
    check_budget_episodes(episodes, length, ENV_STEP_COST)
    values = get_reward_values(env) if reward_values is None else reward_values
    scale = _policy_reward_scale(policy) if values is None else RewardScale(values)
    buffer = _EpisodeBuffer(episodes, length, (num_states, num_actions), scale)
    rng = make_generator(seed, Role.PLAYED_ACTIONS)
    env_seed = None if keep_rng and has_rng(env) else derive_seed(seed, Role.PLAYED_ENVIRONMENT)
    copies = env.num_envs if is_vector(env) else 1
    for begin in range(0, episodes, copies):
        # Seeding every reset with one seed would repeat the first episode.
        reset_seed = env_seed if begin == 0 else None
        if is_vector(env):
            _rollout_vector(env, policy, rng, buffer, begin, reset_seed)
        else:
            _rollout_single(env, policy, rng, buffer, begin, reset_seed, keep_rng)
        if callback:
            callback(min(begin + copies, episodes))
    return buffer


def _policy_reward_scale(policy: Any) -> RewardScale | None:
    """Return the reward values that a policy knows, or None; of a belief policy only its bins are used."""
    values = getattr(policy, "reward_values", None)
    if values is not None:
        reward_scale: RewardScale | None = getattr(policy, "reward_scale", None)
        return RewardScale(values) if reward_scale is None else reward_scale
    inner = getattr(policy, "policy", policy)  # of an epsilon-greedy policy
    scale = getattr(inner, "reward_scale", None) or getattr(getattr(inner, "model", None), "reward_scale", None)
    return scale if scale is not None and scale.cuts is not None else None


class _EpisodeBuffer:
    """Hold played episodes; every state and reward is checked when it is stored."""

    def __init__(self, episodes: int, length: int, sizes: tuple[int, int], scale: RewardScale | None) -> None:
        self.length, (self.num_states, self.num_actions), self.scale = length, sizes, scale
        self.states = np.full((episodes, length + 1), PADDING, state_dtype(sizes[0]))
        self.actions = np.full((episodes, length), PADDING, action_dtype(sizes[1]))
        self.rewards = np.full((episodes, length), np.nan)

    def begin(self, episode: int, state: Any) -> int:
        """Store the initial state and return it."""
        self.states[episode, 0] = checked = _check_state(state, self.num_states, episode, 0)
        return checked

    def step(self, episode: int, t: int, action: int, reward: Any, state: Any) -> int:
        """Store an action, its reward and the next state; return the next state."""
        self.actions[episode, t] = action
        self.rewards[episode, t] = _check_reward(reward, self.scale, episode, t)
        self.states[episode, t + 1] = checked = _check_state(state, self.num_states, episode, t + 1)
        return checked


def _rollout_single(
    env: Any, policy: Policy, rng: Any, buffer: _EpisodeBuffer, episode: int, seed: int | None, keep_rng: bool
) -> None:
    """Play one episode."""
    memory = policy.start(buffer.begin(episode, env.reset(seed=seed)[0]))
    for t in range(buffer.length):
        action = policy.act(memory, rng)
        state, reward, terminated, truncated, _ = env.step(action)
        next_state = buffer.step(episode, t, action, reward, state)
        # Data for learning must have whole episodes; an evaluation may stop at the environment's own time limit.
        if keep_rng:
            check_horizon(truncated and not terminated, buffer.length, episode, t)
        if terminated or truncated:
            break
        memory = policy.observe(memory, action, float(reward), next_state)


def _rollout_vector(env: Any, policy: Policy, rng: Any, buffer: _EpisodeBuffer, begin: int, seed: int | None) -> None:
    """Play one episode in each copy; copies that have ended are stepped, but their output is ignored."""
    states = env.reset(seed=seed)[0]
    # In the last round some copies may be left over: they are stepped with action 0 and not recorded.
    num_recorded = min(env.num_envs, len(buffer.states) - begin)
    running = {i: policy.start(buffer.begin(begin + i, states[i])) for i in range(num_recorded)}
    actions = np.zeros(env.num_envs, np.int64)
    for t in range(buffer.length):
        for i, memory in running.items():
            actions[i] = policy.act(memory, rng)
        states, rewards, terminated, truncated = step_vector_env(env, actions)
        for i, memory in list(running.items()):
            next_state = buffer.step(begin + i, t, int(actions[i]), rewards[i], states[i])
            if terminated[i] or truncated[i] or t + 1 == buffer.length:
                del running[i]
            else:
                running[i] = policy.observe(memory, int(actions[i]), float(rewards[i]), next_state)
        if not running:
            return


def step_vector_env(env: Any, actions: Any) -> tuple[Any, Any, NDArray[np.bool_], NDArray[np.bool_]]:
    """Step a vector environment in any autoreset mode.

    Returns (next states before any reset, rewards, terminated, truncated).
    """
    next_states, rewards, terminated, truncated, info = env.step(actions)
    next_states, ended = np.array(next_states), np.asarray(terminated) | np.asarray(truncated)
    # In SAME_STEP mode the returned state belongs to the next episode; the last state of the old one is in ``info``.
    for i in np.flatnonzero(ended & np.asarray(info.get("_final_obs", np.zeros(ended.size, bool)))):
        next_states[i] = info["final_obs"][i]
    # Gymnasium refuses to step a finished copy in this mode, so it is reset although its output is ignored.
    if ended.any() and "DISABLED" in str(getattr(env, "metadata", {}).get("autoreset_mode")).upper():
        env.reset(options={"reset_mask": ended})
    return next_states, rewards, np.asarray(terminated, bool), np.asarray(truncated, bool)


def check_horizon(truncated: Any, horizon: int, episode: int, step: int) -> None:
    """Raise InputError for an episode that was truncated before its horizon."""
    if truncated and step + 1 < horizon:
        expected = f"{horizon} steps, or an episode that terminates"
        raise_input_error(f"horizon of episode {episode}, step {step}", f"truncated after {step + 1} steps", expected)


def _get_attribute(env: Any, name: str) -> Any:
    """Read an attribute from the outermost wrapper that has it, or None."""
    if is_vector(env):
        return getattr(env.unwrapped, name, None)
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None


def _find_horizon(env: Any) -> int | None:
    """Return the horizon that an environment declares, or None."""
    horizon = _get_attribute(env, "horizon")
    limit = horizon if horizon is not None else getattr(getattr(env, "spec", None), "max_episode_steps", None)
    return None if limit is None else as_count("env.horizon", limit)


def _check_state(state: Any, num_states: int, episode: int, step: int) -> int:
    """Return a state as an int; raise InputError if it is out of range."""
    if not 0 <= int(state) < num_states:
        raise_input_error(f"state of episode {episode}, step {step}", state, f"a state from 0 to {num_states - 1}")
    return int(state)


def _check_reward(reward: Any, scale: RewardScale | None, episode: int, step: int) -> float:
    """Return a reward as a float; raise InputError if it is not finite or not among the reward values."""
    if not np.isfinite(reward):
        raise_input_error(f"reward of episode {episode}, step {step}", reward, "a finite number")
    if scale is not None:
        try:
            scale.level(float(reward))
        except InputError:
            raise_input_error(
                f"reward of episode {episode}, step {step}", reward, describe_reward_values(scale.values.tolist())
            )
    return float(reward)


def describe_reward_values(values: Sequence[float]) -> str:
    """Describe which rewards are expected of an environment, and how to declare others."""
    declared = "declare all of them: reward_values=(...), or --reward-values on the command line"
    return f"one of the reward values {list(values)}; {declared}"


def get_env_names(env: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of states and actions that an environment declares; empty tuples without them."""
    if not isinstance(env, gymnasium.Env | gymnasium.vector.VectorEnv):
        return (), ()
    return tuple(_get_attribute(env, "state_names") or ()), tuple(_get_attribute(env, "action_names") or ())


def _check_policy_fits(policy: Any, num_states: int, num_actions: int) -> None:
    """Raise InputError unless this is a policy for these numbers of states and actions."""
    for method in ("start", "act", "observe"):
        if not callable(getattr(policy, method, None)):
            raise_input_error("policy", type(policy).__name__, "a policy with start, act and observe")
    if isinstance(policy, MarkovPolicy):
        states, actions = policy.table.shape[1:]
    elif isinstance(policy, Controller):
        states, actions = policy.initial_nodes.size, 1 + max(int(table.max()) for table in policy.actions)
    elif isinstance(policy, BeliefPolicy):
        states, actions = policy.model.num_states, policy.model.num_actions
    else:
        return
    at_least = "at least " * isinstance(policy, Controller)  # its nodes may not use the last actions
    wrong_actions = actions > num_actions or (actions != num_actions and not at_least)
    names = getattr(policy, "state_names", ()) or getattr(getattr(policy, "model", None), "state_names", ())
    # A recovered model has one state more if episodes ended early: the end state. Only then may the policy be larger.
    extra_states = states - num_states
    if extra_states not in (0, 1) or (extra_states == 1 and names and names[-1] != "end") or wrong_actions:
        actual = f"one for {states} states and {at_least}{actions} actions"
        raise_input_error(
            "policy", actual, f"a policy for the {num_states} states and {num_actions} actions of this environment"
        )
