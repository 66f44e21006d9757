"""``earn``: a learner in a world for so many episodes, and what that cost.

    while episodes are left:
        play a few, each by one of the learner's policies, shared out by chance, and let the learner hear of them
        learner.learn()

In a model the value of every policy is exact, so the expected regret of what was played is too. Episodes are played a
few at a time, the more the longer the policies have been the same: a learner that would have changed its mind after
the first hears it soon.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from rewardmix import problems
from rewardmix._core.checks import Floats, Ints, as_count, as_reward_values, as_seed, check_callback, refuse
from rewardmix._core.limits import afford_episodes
from rewardmix._core.streams import Role, generator, seed_for, stream
from rewardmix._core.widths import length_width
from rewardmix.episodes import Episodes, room_for
from rewardmix.evaluation import evaluate
from rewardmix.model import RewardMixingMDP
from rewardmix.online.agent import Agent
from rewardmix.planning import plan
from rewardmix.policy import Controller, MarkovPolicy
from rewardmix.simulation import prepared

HEARD_SHARE = 50
"""At most this part of the episodes so far is played before the learner hears of them."""

BEST_GAP = 1e-5
"""Of the best value of a model with two contexts; with more it is ``BEST_GAP_OF_MANY`` that is within reach."""
BEST_GAP_OF_MANY = 1e-3


class Learner(Protocol):
    """What earns: ``Agent``, or one of ``rivals``."""

    @property
    def policies(self) -> tuple[Any, ...]:
        """What episodes are shared out among, evenly."""

    def add(self, episodes: Episodes) -> None:
        """Hear of episodes that these policies played."""

    def learn(self) -> bool:
        """Think again if there is a reason to; whether the policies have changed."""

    def policy(self) -> Controller | MarkovPolicy:
        """What to play if nothing more is to be learnt."""


@dataclass(frozen=True, eq=False)
class Earned:
    """What came of it.

    Attributes:
        agent: the learner, which can go on.
        policy: what it would play from now on if nothing more were to be learnt.
        curve: (K,) reward of each episode.
        regret: (K,) expected regret of all episodes up to each, exact; None where the world is not a model.
        began: (D,) the episode from which on each set of policies was played.
        values: (D,) what each set earns in an episode, exact; None where the world is not a model.
        best: what the best policy earns; None likewise.
    """

    agent: Any
    policy: Controller | MarkovPolicy
    curve: Floats
    regret: Floats | None
    began: Ints
    values: Floats | None
    best: float | None

    @property
    def switches(self) -> int:
        """How often other policies began."""
        return int(self.began.size) - 1

    @property
    def total(self) -> float:
        """Reward of all episodes together."""
        return float(self.curve.sum())


def earn(
    env_or_model: Any,
    *,
    episodes: int = 20_000,
    num_contexts: int = 2,
    seed: int = 0,
    weights: ArrayLike | None = None,
    horizon: int | None = None,
    reward_values: ArrayLike | None = None,
    method: Callable[..., Learner] = Agent,
    on_update: Callable[[int], None] | None = None,
) -> Earned:
    """Earn for ``episodes`` episodes in a world of which only the sizes are known.

    Args:
        env_or_model: a model, a problem's name, or a Gymnasium environment with Discrete spaces.
        episodes: K.
        num_contexts: M, as the learner is told.
        seed: of the learner and of what is played.
        weights: (M,) if they are known.
        horizon: H of an environment that does not tell its own.
        reward_values: (Z,) of an environment that does not declare them; 0 and 1 if nobody does.
        method: makes the learner, from the arguments of ``Agent``; others are in ``rivals``.
        on_update: called with the number of episodes played so far.
    """
    count, seed = as_count("episodes", episodes), as_seed("seed", seed)
    check_callback("on_update", on_update)
    world = _world(env_or_model, seed, horizon, reward_values)
    afford_episodes(count, world.horizon)
    learner = method(**world.sizes, num_contexts=num_contexts, weights=weights, seed=seed)
    curve, began, values = np.empty(count), [0], [world.value(learner.policies)]
    done, since = 0, 0
    while done < count:
        number = min(1 + min(done // HEARD_SHARE, done - since), count - done)
        curve[done : done + number] = world.feed(learner, number)
        done += number
        if learner.learn() and done < count:
            since = done
            began.append(done)
            values.append(world.value(learner.policies))
        if on_update:
            on_update(done)
    return _earned(learner, world.best, curve, np.array(began), np.array(values))


def _earned(learner: Learner, best: float | None, curve: Floats, began: Ints, values: Floats) -> Earned:
    if best is None:
        return Earned(learner, learner.policy(), curve, None, began, None, None)
    losses = np.repeat(best - values, np.diff(np.append(began, curve.size)))
    return Earned(learner, learner.policy(), curve, np.cumsum(losses), began, values, best)


class PlayedWorld:
    """Something to be played, by policies that its episodes are shared out among."""

    horizon: int
    best: float | None = None
    sizes: dict[str, Any]

    def __init__(self, seed: int) -> None:
        self.rng = generator(seed, Role.EARNED_SHARES)

    def value(self, policies: tuple[Any, ...]) -> float:
        """What an episode earns on average; NaN where nobody knows."""
        return float("nan")

    def feed(self, learner: Learner, number: int) -> Floats:
        """Let the learner hear of so many episodes, shared out among its policies; (number,) what they paid."""
        policies = learner.policies
        shares = self.rng.multinomial(number, np.full(len(policies), 1.0 / len(policies)))
        batches = [self.played(policies[k], int(shares[k])) for k in np.flatnonzero(shares)]
        for batch in batches:
            learner.add(batch)
        return np.concatenate([batch.returns for batch in batches])

    def played(self, policy: Any, number: int) -> Episodes:
        """So many episodes of one policy."""
        raise NotImplementedError


class ModelWorld(PlayedWorld):
    """A model, played by compiled kernels, of which the value of every policy is known."""

    def __init__(self, model: RewardMixingMDP, seed: int) -> None:
        from rewardmix.simulation_kernels import Tables

        super().__init__(seed)
        self.model, self.tables, self.horizon = model, Tables.of(model), model.horizon
        self.stream = stream(seed, Role.EARNED_EPISODES)
        self.best = plan(model, gap=BEST_GAP if model.num_contexts == 2 else BEST_GAP_OF_MANY).lower
        self.ready: dict[int, tuple[Any, Any]] = {}
        self.sizes = _sizes(model.num_states, model.num_actions, model.horizon, model.reward_values)

    def value(self, policies: tuple[Any, ...]) -> float:
        """The mean of the exact values of the policies, which are made ready to be played."""
        distinct = {id(policy): policy for policy in policies}
        self.ready = {key: prepared(policy, self.model) for key, policy in distinct.items()}
        values = {key: evaluate(policy, self.model).value for key, policy in distinct.items()}
        return sum(values[id(policy)] for policy in policies) / len(policies)

    def played(self, policy: Any, number: int) -> Episodes:
        """Of a stream that goes on."""
        model = self.model
        run, flat = self.ready[id(policy)]
        room = room_for(number, model.horizon, model.num_states, model.num_actions, model.num_values)
        run(self.tables, flat, self.stream, *room)
        lengths = np.full(number, model.horizon, length_width(model.horizon))
        parts = dict(zip(("states", "actions", "outcomes", "lengths"), (*room, lengths), strict=True))
        return Episodes.trusted(parts, model.num_states, model.num_actions, model.reward_values)


class EnvironmentWorld(PlayedWorld):
    """A Gymnasium environment, through reset and step alone."""

    def __init__(self, env: Any, seed: int, horizon: int | None, reward_values: ArrayLike | None) -> None:
        from rewardmix import environments  # a quarter of a second that models do not need

        super().__init__(seed)
        states, actions = environments.sizes_of(env)
        if environments.is_vector(env):
            refuse("env_or_model", "a vector environment", "a single one")
        self.env, self.done = env, 0
        self.first = seed_for(seed, Role.EARNED_ENVIRONMENT)
        self.horizon = environments.horizon_of(env) if horizon is None else as_count("horizon", horizon)
        declared = environments.reward_values_of(env) if reward_values is None else reward_values
        self.values = as_reward_values((0.0, 1.0) if declared is None else declared)
        self.sizes = _sizes(states, actions, self.horizon, self.values)

    def feed(self, learner: Learner, number: int) -> Floats:
        """An agent is fed event by event: it hears of an end even where that is the last step."""
        if not isinstance(learner, Agent):
            return super().feed(learner, number)
        return np.array([self._visit(learner) for _ in range(number)])

    def played(self, policy: Any, number: int) -> Episodes:
        """The environment is seeded before the first episode alone."""
        from rewardmix import environments

        later = self.done > 0
        self.done += number
        return environments.play(
            self.env, policy, number, self.first, horizon=self.horizon, reward_values=self.values, go_on=later
        )

    def _visit(self, agent: Agent) -> float:
        state, _ = self.env.reset(seed=None if self.done else self.first)
        self.done += 1
        visit, total = agent.begin(state), 0.0
        while visit.action is not None:
            state, reward, terminated, truncated, _ = self.env.step(visit.action)
            visit.observe(reward, None if terminated else state)
            total += float(reward)
            if truncated:
                visit.end()
        return total


def _world(env_or_model: Any, seed: int, horizon: int | None, reward_values: ArrayLike | None) -> PlayedWorld:
    world = problems.make(env_or_model) if isinstance(env_or_model, str) else env_or_model
    if not isinstance(world, RewardMixingMDP):
        return EnvironmentWorld(world, seed, horizon, reward_values)
    for name, value in (("horizon", horizon), ("reward_values", reward_values)):
        if value is not None:
            refuse(name, "one for a model", "none: a model has its own")
    return ModelWorld(world, seed)


def _sizes(num_states: int, num_actions: int, horizon: int, reward_values: Floats) -> dict[str, Any]:
    """What a learner is told of a world."""
    return {
        "num_states": num_states,
        "num_actions": num_actions,
        "horizon": horizon,
        "reward_values": reward_values,
    }
