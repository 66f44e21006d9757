"""Play a policy in any Gymnasium environment with Discrete spaces, and ask such an environment what it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rewardmix._core.checks import Floats, InputError, as_count, refuse
from rewardmix._core.limits import PLAYED_STEP, afford_episodes
from rewardmix._core.streams import Role, generator, seed_for
from rewardmix._core.widths import action_width, state_width
from rewardmix.episodes import ABSENT, Episodes
from rewardmix.policy import BeliefPolicy, Controller, MarkovPolicy, Policy
from rewardmix.reward_scale import RewardScale


def sizes_of(env: Any) -> tuple[int, int]:
    """(S, A) of an environment; one without Discrete spaces from 0 on is refused."""
    if not isinstance(env, gymnasium.Env | gymnasium.vector.VectorEnv):
        refuse("env", type(env).__name__, "a Gymnasium environment")
    sizes = []
    for name in ("observation_space", "action_space"):
        space = getattr(env, f"single_{name}" if is_vector(env) else name)
        if not isinstance(space, spaces.Discrete) or space.start != 0:
            refuse(f"env.{name}", space, "Discrete(n) starting at 0; wrap the environment to number its states")
        sizes.append(int(space.n))
    return sizes[0], sizes[1]


def is_vector(env: Any) -> bool:
    """Whether it plays several episodes at once."""
    return isinstance(env, gymnasium.vector.VectorEnv)


def was_seeded(env: Any) -> bool:
    """Whether the environment has random numbers under way, so that it can go on instead of beginning again."""
    return getattr(env.unwrapped, "_np_random", None) is not None


def horizon_of(env: Any) -> int:
    """H: the environment's own ``horizon``, or the limit of its registration."""
    limit = _own_horizon(env)
    if limit is None:
        refuse(
            "env",
            "no horizon and no time limit",
            "one; pass horizon=..., or --horizon when typed, or wrap it in gymnasium.wrappers.TimeLimit",
        )
    return limit


def reward_values_of(env: Any) -> Floats | None:
    """The reward values that the environment declares, or None."""
    values = _attribute(env, "reward_values")
    return None if values is None else np.asarray(values, np.float64)


@dataclass(frozen=True, eq=False)
class PlayedReturns:
    """What episodes earned.

    Attributes:
        returns: (K,) of each episode, in rewards as the environment pays them, whatever they count as.
        reward_values: what a reward can be; None where it can be any number.
        horizon: steps of an episode at most.
    """

    returns: Floats
    reward_values: Floats | None
    horizon: int


def play_returns(
    env: Any, policy: Policy, episodes: int, seed: int = 0, on_update: Callable[[int], None] | None = None
) -> PlayedReturns:
    """Play as ``play`` does, and add up the rewards of each episode."""
    sheet = _fill_sheet(env, policy, episodes, seed, on_update=on_update)
    returns: Floats = np.where(sheet.actions >= 0, sheet.rewards, 0.0).sum(axis=1)
    known = sheet.scale is not None and sheet.scale.cuts is None
    return PlayedReturns(returns, sheet.scale.values if sheet.scale is not None and known else None, sheet.length)


def play(
    env: Any,
    policy: Policy,
    episodes: int,
    seed: int = 0,
    *,
    horizon: int | None = None,
    reward_values: Floats | None = None,
    go_on: bool = False,
    on_update: Callable[[int], None] | None = None,
) -> Episodes:
    """Play ``episodes`` episodes through reset and step alone. Episodes may end early; at the horizon they are left.

    A vector environment plays one episode in each of its copies, then the next, so that short ones do not count more.

    The horizon, if it is not given, is the environment's own, or that of a policy that was made for fewer steps; reward
    values that neither the caller nor the environment tells are those that the policy knows, in its bins if it has any.
    ``go_on`` leaves the random numbers of an environment that was seeded before as they are.
    The environment is seeded at the first reset only, so that its episodes differ.
    """
    sheet = _fill_sheet(env, policy, episodes, seed, horizon, reward_values, go_on, on_update)
    scale = sheet.scale
    return Episodes.from_arrays(
        sheet.states,
        sheet.actions,
        sheet.rewards if scale is None or scale.cuts is None else scale.counted(sheet.rewards),
        num_states=sheet.num_states,
        num_actions=sheet.num_actions,
        lengths=(sheet.actions >= 0).sum(axis=1),
        reward_values=None if scale is None else scale.values,
    )


def _fill_sheet(
    env: Any,
    policy: Policy,
    episodes: int,
    seed: int,
    horizon: int | None = None,
    reward_values: Floats | None = None,
    go_on: bool = False,
    on_update: Callable[[int], None] | None = None,
) -> _Sheet:
    num_states, num_actions = sizes_of(env)
    _check_plays(policy, num_states, num_actions)
    if horizon is None:
        made_for = getattr(policy, "horizon", None)
        own = _own_horizon(env) if made_for else horizon_of(env)
        horizon = min(length for length in (own, made_for) if length is not None)
    length = as_count("horizon", horizon)
    afford_episodes(episodes, length, PLAYED_STEP)
    declared = reward_values_of(env) if reward_values is None else reward_values
    scale = _scale_of(policy) if declared is None else RewardScale(declared)
    sheet = _Sheet(episodes, length, (num_states, num_actions), scale)
    rng = generator(seed, Role.PLAYED_ACTIONS)
    own = None if go_on and was_seeded(env) else seed_for(seed, Role.PLAYED_ENVIRONMENT)
    copies = env.num_envs if is_vector(env) else 1
    for begin in range(0, episodes, copies):
        now = own if begin == 0 else None
        if is_vector(env):
            _play_in_copies(env, policy, rng, sheet, begin, now)
        else:
            _play_alone(env, policy, rng, sheet, begin, now, go_on)
        if on_update:
            on_update(min(begin + copies, episodes))
    return sheet


def _scale_of(policy: Any) -> RewardScale | None:
    """The rewards that a policy knows; of one that follows beliefs only its bins count."""
    values = getattr(policy, "reward_values", None)
    if values is not None:
        own: RewardScale | None = getattr(policy, "reward_scale", None)
        return RewardScale(values) if own is None else own
    inner = getattr(policy, "policy", policy)  # of one that explores
    scale = getattr(inner, "reward_scale", None) or getattr(getattr(inner, "model", None), "reward_scale", None)
    return scale if scale is not None and scale.cuts is not None else None


class _Sheet:
    """What was played, checked as it is written down."""

    def __init__(self, episodes: int, length: int, sizes: tuple[int, int], scale: RewardScale | None) -> None:
        self.length, (self.num_states, self.num_actions), self.scale = length, sizes, scale
        self.states = np.full((episodes, length + 1), ABSENT, state_width(sizes[0]))
        self.actions = np.full((episodes, length), ABSENT, action_width(sizes[1]))
        self.rewards = np.full((episodes, length), np.nan)

    def begin(self, episode: int, state: Any) -> int:
        """The first state."""
        self.states[episode, 0] = checked = _checked_state(state, self.num_states, episode, 0)
        return checked

    def step(self, episode: int, t: int, action: int, reward: Any, state: Any) -> int:
        """An action, its reward, and the state after it."""
        self.actions[episode, t] = action
        self.rewards[episode, t] = _checked_reward(reward, self.scale, episode, t)
        self.states[episode, t + 1] = checked = _checked_state(state, self.num_states, episode, t + 1)
        return checked


def _play_alone(env: Any, policy: Policy, rng: Any, sheet: _Sheet, episode: int, seed: int | None, go_on: bool) -> None:
    """One episode."""
    memory = policy.start(sheet.begin(episode, env.reset(seed=seed)[0]))
    for t in range(sheet.length):
        action = policy.act(memory, rng)
        state, reward, terminated, truncated, _ = env.step(action)
        following = sheet.step(episode, t, action, reward, state)
        if go_on:
            check_horizon(truncated and not terminated, sheet.length, episode, t)
        if terminated or truncated:
            break
        memory = policy.observe(memory, action, float(reward), following)


def _play_in_copies(env: Any, policy: Policy, rng: Any, sheet: _Sheet, begin: int, seed: int | None) -> None:
    """One episode in each copy, as far as there is room; copies that have ended step on unheard."""
    states = env.reset(seed=seed)[0]
    room = min(env.num_envs, len(sheet.states) - begin)
    running = {i: policy.start(sheet.begin(begin + i, states[i])) for i in range(room)}
    actions = np.zeros(env.num_envs, np.int64)
    for t in range(sheet.length):
        for i, memory in running.items():
            actions[i] = policy.act(memory, rng)
        states, rewards, terminated, truncated = step_copies(env, actions)
        for i, memory in list(running.items()):
            following = sheet.step(begin + i, t, int(actions[i]), rewards[i], states[i])
            if terminated[i] or truncated[i] or t + 1 == sheet.length:
                del running[i]
            else:
                running[i] = policy.observe(memory, int(actions[i]), float(rewards[i]), following)
        if not running:
            return


def step_copies(env: Any, actions: Any) -> tuple[Any, Any, NDArray[np.bool_], NDArray[np.bool_]]:
    """One step of a vector environment, in whichever way it resets: (states before any reset, rewards, ends, cuts)."""
    following, rewards, terminated, truncated, info = env.step(actions)
    following, ended = np.array(following), np.asarray(terminated) | np.asarray(truncated)
    for i in np.flatnonzero(ended & np.asarray(info.get("_final_obs", np.zeros(ended.size, bool)))):
        following[i] = info["final_obs"][i]  # the copy has begun its next episode already
    if ended.any() and "DISABLED" in str(getattr(env, "metadata", {}).get("autoreset_mode")).upper():
        env.reset(options={"reset_mask": ended})
    return following, rewards, np.asarray(terminated, bool), np.asarray(truncated, bool)


def check_horizon(truncated: Any, horizon: int, episode: int, step: int) -> None:
    """Refuse an episode that was cut off before its horizon."""
    if truncated and step + 1 < horizon:
        expected = f"{horizon} steps, or an episode that terminates"
        refuse(f"horizon of episode {episode}, step {step}", f"truncated after {step + 1} steps", expected)


def _attribute(env: Any, name: str) -> Any:
    if is_vector(env):
        return getattr(env.unwrapped, name, None)
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None


def _own_horizon(env: Any) -> int | None:
    own = _attribute(env, "horizon")
    limit = own if own is not None else getattr(getattr(env, "spec", None), "max_episode_steps", None)
    return None if limit is None else as_count("env.horizon", limit)


def _checked_state(state: Any, num_states: int, episode: int, step: int) -> int:
    if not 0 <= int(state) < num_states:
        refuse(f"state of episode {episode}, step {step}", state, f"a state from 0 to {num_states - 1}")
    return int(state)


def _checked_reward(reward: Any, scale: RewardScale | None, episode: int, step: int) -> float:
    if not np.isfinite(reward):
        refuse(f"reward of episode {episode}, step {step}", reward, "a finite number")
    if scale is not None:
        try:
            scale.level(float(reward))
        except InputError:
            refuse(f"reward of episode {episode}, step {step}", reward, expected_rewards(scale.values.tolist()))
    return float(reward)


def expected_rewards(values: Sequence[float]) -> str:
    """Which rewards are expected of an environment, and how others are told."""
    return f"one of the reward values {list(values)}; tell all of them: reward_values=(...), or --rewards when typed"


def names_of_env(env: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of states and actions, as an environment tells them; empty where it does not, or is none."""
    if not isinstance(env, gymnasium.Env | gymnasium.vector.VectorEnv):
        return (), ()
    return tuple(_attribute(env, "state_names") or ()), tuple(_attribute(env, "action_names") or ())


def _check_plays(policy: Any, num_states: int, num_actions: int) -> None:
    """Refuse what is no policy, and one that was made for fewer states or plays actions that are not there."""
    for method in ("start", "act", "observe"):
        if not callable(getattr(policy, method, None)):
            refuse("policy", type(policy).__name__, "a policy, with start, act and observe")
    if isinstance(policy, MarkovPolicy):
        states, actions = policy.table.shape[1:]
    elif isinstance(policy, Controller):
        states, actions = policy.first.size, 1 + max(int(part.max()) for part in policy.actions)
    elif isinstance(policy, BeliefPolicy):
        states, actions = policy.model.num_states, policy.model.num_actions
    else:
        return
    some = "at least " * isinstance(policy, Controller)  # which may leave actions out
    other = actions > num_actions or (actions != num_actions and not some)
    names = getattr(policy, "state_names", ()) or getattr(getattr(policy, "model", None), "state_names", ())
    more = states - num_states  # one more may be the end of episodes, which recovery adds
    if more not in (0, 1) or (more == 1 and names and names[-1] != "end") or other:
        found = f"one for {states} states and {some}{actions} actions"
        refuse("policy", found, f"one for the {num_states} states and {num_actions} actions of this environment")
