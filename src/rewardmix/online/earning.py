"""``earn``: a learner in a world for so many episodes, and what that cost.

    while episodes are left:
        play a few, each by one of the learner's policies, shared out by chance, and let the learner hear of them
        learner.learn()

In a model the value of every policy is exact, so the expected regret of what was played is too. Episodes are played a
few at a time, the more the longer the policies have been the same: a learner that would have changed its mind after
the first hears it soon. What is played depends on the seed and on how many episodes were played before, so a run that
was stored between two of its batches goes on from there as if nothing had happened.
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
from rewardmix._core.checks import (
    Floats,
    as_count,
    as_floats,
    as_indices,
    as_path,
    as_reward_values,
    as_seed,
    check_callback,
    refuse,
)
from rewardmix._core.limits import afford_episodes
from rewardmix._core.storage import Arrays, Packed
from rewardmix._core.streams import Role, generator, seed_for, stream
from rewardmix._core.widths import length_width
from rewardmix.episodes import Episodes, room_for
from rewardmix.evaluation import evaluate
from rewardmix.exploration.checkpoints import CheckpointFolder, settings_of, world_digest
from rewardmix.model import RewardMixingMDP
from rewardmix.online.agent import Agent
from rewardmix.online.earned import Earned
from rewardmix.planning import plan
from rewardmix.policy import Controller, MarkovPolicy
from rewardmix.simulation import prepared

HEARD_SHARE = 50
"""At most this part of the episodes so far is played before the learner hears of them."""

BEST_GAP = 1e-5
"""Of the best value of a model with two contexts; with more it is ``BEST_GAP_OF_MANY`` that is within reach."""
BEST_GAP_OF_MANY = 1e-3

STORED = "earning.safetensors"
"""File of a run that was stopped, in the folder of its checkpoint."""


class Learner(Protocol):
    """What earns: ``Agent``, or another way to learn."""

    @property
    def policies(self) -> tuple[Any, ...]:
        """What episodes are shared out among, evenly."""

    def add(self, episodes: Episodes) -> None:
        """Hear of episodes that these policies played."""

    def learn(self) -> bool:
        """Think again if there is a reason to; whether the policies have changed."""

    def policy(self) -> Controller | MarkovPolicy:
        """What to play if nothing more is to be learnt."""


def earn(
    env_or_model: Any,
    *,
    episodes: int = 20_000,
    num_contexts: int | str = 2,
    seed: int = 0,
    weights: ArrayLike | str | None = None,
    horizon: int | None = None,
    reward_values: ArrayLike | None = None,
    memory: int | None = None,
    method: Callable[..., Learner] = Agent,
    on_update: Callable[[int], None] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Earned:
    """Earn for ``episodes`` episodes in a world of which only the sizes are known.

    Args:
        env_or_model: a model, a problem's name, or a Gymnasium environment with Discrete spaces.
        episodes: K.
        num_contexts: M, as the learner is told; "auto" lets an agent find it out.
        seed: of the learner and of what is played.
        weights: (M,) if they are known; "uniform": all the same.
        horizon: H of an environment that does not tell its own.
        reward_values: (Z,) of an environment that does not declare them; 0 and 1 if nobody does.
        memory: episodes after which an agent forgets one; None: never.
        method: makes the learner, from the arguments of ``Agent``; others are in ``benchmarks.online.baselines``.
        on_update: called with the number of episodes played so far.
        checkpoint: a folder that an agent is stored in now and then, with what it earned. If it holds a run that was
            stopped, with the same settings, that run goes on.
    """
    count, seed = as_count("episodes", episodes), as_seed("seed", seed)
    check_callback("on_update", on_update)
    world = _world(env_or_model, seed, horizon, reward_values)
    afford_episodes(count, world.horizon)
    told = {**world.sizes, "num_contexts": num_contexts, "weights": weights, "seed": seed}
    if memory is not None and method is not Agent:
        refuse("memory", f"{memory!r} for another method", "none: only an Agent forgets")
    learner = method(**told) if memory is None else method(**told, memory=memory)
    folder = (
        None
        if checkpoint is None
        else _folder(checkpoint, learner, {"episodes": count, "memory": memory, **told}, world)
    )
    run = None if folder is None else folder.read(STORED, "earning", unpacked_run)
    if run is None:
        run = EarningRun(learner, np.empty(count))
        run.switched(world)
    else:
        world.value(run.learner.policies)
    while run.done < count:
        run.play(world)
        if on_update:
            on_update(run.done)
        if folder is not None and folder.due:
            folder.write(STORED, "earning", *packed_run(run))
    return _earned(run, world.best)


@dataclass(eq=False)
class EarningRun:
    """A run under way: the learner, and what is kept of the time before.

    Attributes:
        learner: with all that it knows.
        curve: (K,) reward of each episode; those not played yet are anything.
        done: episodes played.
        began: as in ``Earned``, as are ``values`` and ``shares``.
    """

    learner: Learner
    curve: Floats
    done: int = 0
    began: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    shares: list[Floats] = field(default_factory=list)

    def play(self, world: PlayedWorld) -> None:
        """Play a few episodes, and let the learner think."""
        limit = min(self.done // HEARD_SHARE, self.done - self.began[-1])
        number = min(1 + limit, self.curve.size - self.done)
        self.curve[self.done : self.done + number] = world.feed(self.learner, number, self.done)
        self.done += number
        if self.learner.learn() and self.done < self.curve.size:
            self.switched(world)

    def switched(self, world: PlayedWorld) -> None:
        """Note what is played from now on."""
        self.began.append(self.done)
        self.values.append(world.value(self.learner.policies))
        if isinstance(self.learner, Agent):
            self.shares.append(self.learner.shares)


def packed_run(run: EarningRun) -> Packed:
    """Arrays and metadata of a run of an agent."""
    from rewardmix.online.agent_state import packed_agent  # with kernels

    arrays, meta = storage.joined({"agent": packed_agent(run.learner)})  # type: ignore[arg-type]  # ``_folder`` looked
    arrays |= {"curve": run.curve[: run.done], "began": np.array(run.began), "shares": _padded(run.shares)}
    values = [None if np.isnan(value) else value for value in run.values]
    return arrays, {**meta, "episodes": run.curve.size, "values": values}


def unpacked_run(arrays: Arrays, meta: dict[str, Any]) -> EarningRun:
    """What ``packed_run`` packed, checked."""
    from rewardmix.online.agent_state import unpacked_agent

    agent = unpacked_agent(storage.part(arrays, "agent"), storage.entry(meta, "agent", dict))
    played, curve = as_floats("curve", arrays["curve"], (None,)), np.empty(storage.entry(meta, "episodes", int))
    began = as_indices("began", arrays["began"], played.size + 1, (None,))
    values = [float("nan") if value is None else float(value) for value in storage.entry(meta, "values", list)]
    shares = as_floats("shares", arrays["shares"], (began.size, None))
    if played.size > curve.size or len(values) != began.size or began.size == 0:
        refuse("curve", f"{played.size} episodes, {began.size} switches, {len(values)} values", "those of one run")
    curve[: played.size] = played
    return EarningRun(agent, curve, played.size, began.tolist(), values, [row[row > 0] for row in shares])


def _folder(
    checkpoint: str | os.PathLike[str], learner: Learner, told: dict[str, Any], world: PlayedWorld
) -> CheckpointFolder:
    """Where a run is stored, for a run of these settings in this world."""
    if type(learner) is not Agent:
        refuse("checkpoint", f"a folder for a {type(learner).__name__}", "none: only an Agent can be stored")
    plain = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in told.items()}
    settings = dict(settings_of(**plain, world=world_digest(world.original)))
    return CheckpointFolder(Path(as_path("checkpoint", checkpoint)), settings)


def _padded(rows: list[Floats]) -> Floats:
    """(D, M) rows of several lengths, with zeros behind."""
    table = np.zeros((len(rows), max((row.size for row in rows), default=0)))
    for row, values in zip(table, rows, strict=True):
        row[: values.size] = values
    return table


def _earned(run: EarningRun, best: float | None) -> Earned:
    policy, began = run.learner.policy(), np.array(run.began)
    shares = _padded(run.shares) if run.shares else None
    if best is None:
        return Earned(run.learner, policy, run.curve, None, began, None, None, shares)
    values = np.array(run.values)
    losses = np.repeat(best - values, np.diff(np.append(began, run.curve.size)))
    return Earned(run.learner, policy, run.curve, np.cumsum(losses), began, values, best, shares)


class PlayedWorld:
    """Something to be played, by policies that its episodes are shared out among.

    Attributes:
        original: the model or environment.
        seed: what is drawn depends on it and on the number of episodes before.
        sizes: what a learner is told.
        best: what the best policy earns, if that is known.
    """

    horizon: int
    sizes: dict[str, Any]
    best: float | None = None

    def __init__(self, original: Any, seed: int) -> None:
        self.original, self.seed = original, seed

    def value(self, policies: tuple[Any, ...]) -> float:
        """What an episode earns on average; NaN where nobody knows."""
        return float("nan")

    def feed(self, learner: Learner, number: int, before: int) -> Floats:
        """Let the learner hear of so many episodes, shared out among its policies; (number,) what they paid."""
        policies = learner.policies
        rng = generator(self.seed, Role.EARNED_SHARES, before)
        shares = rng.multinomial(number, np.full(len(policies), 1.0 / len(policies)))
        batches = [self.played(policies[k], int(shares[k]), (before, int(k))) for k in np.flatnonzero(shares)]
        for batch in batches:
            learner.add(batch)
        return np.concatenate([batch.returns for batch in batches])

    def played(self, policy: Any, number: int, index: tuple[int, int]) -> Episodes:
        """So many episodes of one policy; ``index`` (episodes before, number of the policy) names their draws."""
        raise NotImplementedError


class ModelWorld(PlayedWorld):
    """A model, played by compiled kernels, of which the value of every policy is known."""

    def __init__(self, model: RewardMixingMDP, seed: int) -> None:
        from rewardmix.simulation_kernels import Tables

        super().__init__(model, seed)
        self.model, self.tables, self.horizon = model, Tables.of(model), model.horizon
        self.best = plan(model, gap=BEST_GAP if model.num_contexts == 2 else BEST_GAP_OF_MANY).lower
        self.ready: dict[int, tuple[Any, Any]] = {}
        self.sizes = _sizes(model.num_states, model.num_actions, model.horizon, model.reward_values)

    def value(self, policies: tuple[Any, ...]) -> float:
        """The mean of the exact values of the policies, which are made ready to be played."""
        distinct = {id(policy): policy for policy in policies}
        self.ready = {key: prepared(policy, self.model) for key, policy in distinct.items()}
        values = {key: evaluate(policy, self.model).value for key, policy in distinct.items()}
        return sum(values[id(policy)] for policy in policies) / len(policies)

    def played(self, policy: Any, number: int, index: tuple[int, int]) -> Episodes:
        """By compiled kernels."""
        model = self.model
        run, flat = self.ready[id(policy)]
        room = room_for(number, model.horizon, model.num_states, model.num_actions, model.num_values)
        run(self.tables, flat, stream(self.seed, Role.EARNED_EPISODES, *index), *room)
        lengths = np.full(number, model.horizon, length_width(model.horizon))
        parts = dict(zip(("states", "actions", "outcomes", "lengths"), (*room, lengths), strict=True))
        return Episodes.trusted(parts, model.num_states, model.num_actions, model.reward_values)


class EnvironmentWorld(PlayedWorld):
    """A Gymnasium environment, through reset and step alone."""

    def __init__(self, env: Any, seed: int, horizon: int | None, reward_values: ArrayLike | None) -> None:
        from rewardmix import environments  # a quarter of a second that models do not need

        super().__init__(env, seed)
        states, actions = environments.sizes_of(env)
        if environments.is_vector(env):
            refuse("env_or_model", "a vector environment", "a single one")
        self.env = env
        self.horizon = environments.horizon_of(env) if horizon is None else as_count("horizon", horizon)
        declared = environments.reward_values_of(env) if reward_values is None else reward_values
        self.values = as_reward_values((0.0, 1.0) if declared is None else declared)
        self.sizes = _sizes(states, actions, self.horizon, self.values)

    def feed(self, learner: Learner, number: int, before: int) -> Floats:
        """An agent is fed event by event: it hears of an end even where that is the last step."""
        if not isinstance(learner, Agent):
            return super().feed(learner, number, before)
        first = self._seed(before, 0)
        return np.array([self._visit(learner, first if k == 0 else None) for k in range(number)])

    def played(self, policy: Any, number: int, index: tuple[int, int]) -> Episodes:
        """The environment is seeded before the first of these episodes."""
        from rewardmix import environments

        horizon, values = self.horizon, self.values
        return environments.play(self.env, policy, number, self._seed(*index), horizon=horizon, reward_values=values)

    def _seed(self, *index: int) -> int:
        return seed_for(self.seed, Role.EARNED_ENVIRONMENT, *index)

    def _visit(self, agent: Agent, seed: int | None) -> float:
        state, _ = self.env.reset(seed=seed)
        visit, total = agent.begin(state), 0.0
        while visit.action is not None:
            state, reward, terminated, truncated, _ = self.env.step(visit.action)
            visit.observe(reward, None if terminated else state)
            total += float(reward)
            if truncated:
                visit.end()
        return total


def _world(env_or_model: Any, seed: int, horizon: int | None, reward_values: ArrayLike | None) -> PlayedWorld:
    world = problems.as_world("env_or_model", env_or_model)
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
