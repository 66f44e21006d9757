"""Policies that write logs, with exact values: stochastic controllers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.safety import settings
from rewardmix import logs, problems
from rewardmix.episodes import Episodes
from rewardmix.model import RewardMixingMDP, dense_transition
from rewardmix.planning import plan_markov
from rewardmix.policy import Controller

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Logger:
    """A law over actions for each (step, state, node); nodes move by action and reward.

    Attributes:
        laws: H arrays (S, K, A).
        moves: H arrays (S, K, A, Z) of nodes of the next step.
    """

    laws: list[Array]
    moves: list[NDArray[np.int64]]

    def value(self, model: RewardMixingMDP) -> float:
        """What it earns, exactly."""
        transition, means = dense_transition(model), model.means
        states, actions = np.arange(model.num_states)[:, None, None], np.arange(model.num_actions)
        later: Array | None = None
        for law, moves in zip(reversed(self.laws), reversed(self.moves), strict=True):
            worth = np.repeat(means[:, :, None], law.shape[1], axis=2)
            if later is not None:
                onward = np.einsum("sat,mtk->msak", transition, later)
                for z in range(model.num_values):
                    worth += model.laws[:, :, None, :, z] * onward[:, states, actions, moves[..., z]]
            later = (worth * law).sum(axis=-1)
        assert later is not None
        return float((model.weights[:, None] * later[:, :, 0] * model.initial).sum())

    def play(self, model: RewardMixingMDP, count: int, rng: np.random.Generator) -> Episodes:
        """Episodes of it."""
        transition, laws, horizon = dense_transition(model), model.laws, model.horizon
        context = rng.choice(model.num_contexts, size=count, p=model.weights)
        state = rng.choice(model.num_states, size=count, p=model.initial)
        node = np.zeros(count, np.int64)
        states = np.empty((count, horizon + 1), np.int64)
        actions, outcomes = np.empty((2, count, horizon), np.int64)
        states[:, 0] = state
        for t in range(horizon):
            action = drawn(self.laws[t][state, node], rng)
            outcome = drawn(laws[context, state, action], rng)
            node = self.moves[t][state, node, action, outcome]
            state = drawn(transition[state, action], rng)
            states[:, t + 1], actions[:, t], outcomes[:, t] = state, action, outcome
        lengths = np.full(count, horizon)
        return Episodes(states, actions, outcomes, lengths, model.num_states, model.num_actions, model.reward_values)


def drawn(laws: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    """One draw from each law."""
    levels = laws.cumsum(axis=-1)
    return (levels < rng.random(len(laws))[:, None] * levels[:, -1:]).sum(axis=-1)


def world_of(name: str) -> RewardMixingMDP:
    """The world."""
    problem, options = settings.WORLDS[name]
    return problems.make(problem, **options)


def logger_of(kind: str, model: RewardMixingMDP, rng: np.random.Generator) -> Logger:
    """Who writes the log."""
    states, actions, horizon = model.num_states, model.num_actions, model.horizon
    uniform = np.full((horizon, states, actions), 1.0 / actions)
    if kind == "uniform":
        return of_table(uniform, model)
    if kind in ("deployed", "floor"):
        policy = fit_uniform_log(model, rng).plan.policy
        return of_controller(policy, model, settings.FLOOR if kind == "floor" else 0.0)
    if kind == "Markov":
        best = plan_markov(model).policy
        noise = rng.dirichlet(np.ones(actions), (horizon, states))
        return of_table((1 - settings.NOISE) * best.table + settings.NOISE * noise, model)
    if kind == "following":
        return following(model)
    half = np.argsort(rng.random((states, actions)), axis=1) < max(1, actions // 2)
    return of_table(np.broadcast_to(half / half.sum(axis=1, keepdims=True), uniform.shape), model)


def fit_uniform_log(model: RewardMixingMDP, rng: np.random.Generator) -> logs.Fitted:
    """Fit a uniform log; the plan is the deployed policy."""
    uniform = np.full((model.horizon, model.num_states, model.num_actions), 1.0 / model.num_actions)
    before = of_table(uniform, model).play(model, settings.BEFORE, rng)
    return logs.fit(before, num_contexts=model.num_contexts, resamples=0, share_held_out=0.0)


def of_table(table: Array, model: RewardMixingMDP) -> Logger:
    """A Markov policy."""
    moves = np.zeros((model.num_states, 1, model.num_actions, model.num_values), np.int64)
    return Logger([law[:, None] for law in table], [moves] * model.horizon)


def of_controller(policy: Controller, model: RewardMixingMDP, floor: float = 0.0) -> Logger:
    """A controller that starts at node 0, with a floor of any action; its node moves by the reward alone."""
    laws, moves = [], []
    for plays, onward in zip(policy.actions, policy.successors, strict=True):
        law = np.full((*plays.shape, model.num_actions), floor / model.num_actions)
        np.put_along_axis(law, plays[..., None].astype(np.int64), 1 - floor + floor / model.num_actions, axis=2)
        laws.append(law)
        moves.append(np.repeat(onward[:, :, None].astype(np.int64), model.num_actions, axis=2))
    return Logger(laws, moves)


def following(model: RewardMixingMDP) -> Logger:
    """Repeats the action of the step before if it paid the most, otherwise plays any."""
    actions, values = model.num_actions, model.num_values
    law = np.full((model.num_states, 1 + actions * values, actions), 1.0 / actions)
    for action in range(actions):
        node = 1 + action * values + values - 1
        law[:, node] = (1 - settings.STAYS) / actions
        law[:, node, action] += settings.STAYS
    moves = 1 + np.arange(actions * values).reshape(actions, values)
    moves = np.broadcast_to(moves, (*law.shape[:2], actions, values))
    return Logger([law] * model.horizon, [moves] * model.horizon)
