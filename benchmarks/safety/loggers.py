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
        transition, means = dense_transition(model), model.mean_rewards_by_type
        states, actions = np.arange(model.num_states)[:, None, None], np.arange(model.num_actions)
        later: Array | None = None
        for action_probs, next_nodes in zip(reversed(self.laws), reversed(self.moves), strict=True):
            values = np.repeat(means[:, :, None], action_probs.shape[1], axis=2)
            if later is not None:
                onward = np.einsum("sat,mtk->msak", transition, later)
                for z in range(model.num_values):
                    values += model.reward_probs[:, :, None, :, z] * onward[:, states, actions, next_nodes[..., z]]
            later = (values * action_probs).sum(axis=-1)
        assert later is not None
        return float((model.weights[:, None] * later[:, :, 0] * model.initial).sum())

    def play(self, model: RewardMixingMDP, count: int, rng: np.random.Generator) -> Episodes:
        """Episodes of it."""
        transition, probs, horizon = dense_transition(model), model.reward_probs, model.horizon
        types = rng.choice(model.num_types, size=count, p=model.weights)
        state = rng.choice(model.num_states, size=count, p=model.initial)
        node = np.zeros(count, np.int64)
        states = np.empty((count, horizon + 1), np.int64)
        actions, reward_indices = np.empty((2, count, horizon), np.int64)
        states[:, 0] = state
        for t in range(horizon):
            action = sample_each(self.laws[t][state, node], rng)
            reward_index = sample_each(probs[types, state, action], rng)
            node = self.moves[t][state, node, action, reward_index]
            state = sample_each(transition[state, action], rng)
            states[:, t + 1], actions[:, t], reward_indices[:, t] = state, action, reward_index
        lengths = np.full(count, horizon)
        return Episodes(
            states, actions, reward_indices, lengths, model.num_states, model.num_actions, model.reward_values
        )


def sample_each(probs: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    """One draw from each law."""
    levels = probs.cumsum(axis=-1)
    return (levels < rng.random(len(probs))[:, None] * levels[:, -1:]).sum(axis=-1)


def world_of(name: str) -> RewardMixingMDP:
    """The model."""
    problem, options = settings.WORLDS[name]
    return problems.make_model(problem, **options)


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


def fit_uniform_log(model: RewardMixingMDP, rng: np.random.Generator) -> logs.FitResult:
    """Fit a uniform log; the plan is the deployed policy."""
    uniform = np.full((model.horizon, model.num_states, model.num_actions), 1.0 / model.num_actions)
    before = of_table(uniform, model).play(model, settings.BEFORE, rng)
    return logs.fit(before, num_types=model.num_types, num_resamples=0, held_out_fraction=0.0)


def of_table(table: Array, model: RewardMixingMDP) -> Logger:
    """A Markov policy."""
    next_nodes = np.zeros((model.num_states, 1, model.num_actions, model.num_values), np.int64)
    return Logger([action_probs[:, None] for action_probs in table], [next_nodes] * model.horizon)


def of_controller(policy: Controller, model: RewardMixingMDP, floor: float = 0.0) -> Logger:
    """A controller that starts at node 0, with a floor of any action; its node moves by the reward alone."""
    probs, next_nodes = [], []
    for plays, onward in zip(policy.actions, policy.next_nodes, strict=True):
        action_probs = np.full((*plays.shape, model.num_actions), floor / model.num_actions)
        np.put_along_axis(
            action_probs, plays[..., None].astype(np.int64), 1 - floor + floor / model.num_actions, axis=2
        )
        probs.append(action_probs)
        next_nodes.append(np.repeat(onward[:, :, None].astype(np.int64), model.num_actions, axis=2))
    return Logger(probs, next_nodes)


def following(model: RewardMixingMDP) -> Logger:
    """Repeats the action of the step before if it paid the most, otherwise plays any."""
    actions, values = model.num_actions, model.num_values
    action_probs = np.full((model.num_states, 1 + actions * values, actions), 1.0 / actions)
    for action in range(actions):
        node = 1 + action * values + values - 1
        action_probs[:, node] = (1 - settings.STAYS) / actions
        action_probs[:, node, action] += settings.STAYS
    next_nodes = 1 + np.arange(actions * values).reshape(actions, values)
    next_nodes = np.broadcast_to(next_nodes, (*action_probs.shape[:2], actions, values))
    return Logger([action_probs] * model.horizon, [next_nodes] * model.horizon)
