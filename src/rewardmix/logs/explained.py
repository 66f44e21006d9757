"""What the actions of a log say about the model: whoever chose them for good reasons believed something.

The rewards of a few hundred sessions of one deterministic policy leave much open. Its actions tell more: they are
nearly the best ones under the beliefs that the policy had. So the model is moved to where it predicts both,

    log-likelihood of the rewards + log-likelihood of the actions + prior

with an action's chance proportional to exp(``PURPOSE`` * what it is worth under the belief). Worths come from a plan
for the model, made anew ``PLANS`` times; between plans the gradient is followed (Adam). This model says what was meant,
so it is used to tell situations apart (``imitation``); what is believed of rewards stays with the likelihood alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats, Ints
from rewardmix._core.portable import exps, logs
from rewardmix.episodes import Episodes
from rewardmix.logs.belief_pass import best_at
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.baselines import belief_nodes, nearest

PURPOSE = 10.0
"""How surely the log's policy takes the best action: log-odds for each worth of the range of rewards of one step."""

PLANS, STEPS = 6, 40
"""Plans that are made, and steps of the ascent after each."""

PACE = 0.02
"""Length of a step, in log-odds."""
MEMORY, SPREAD_MEMORY = 0.9, 0.99
"""Shares of the running means of the gradient, and of its square, that stay."""

FARTHEST = 3.5
"""Log-odds of an outcome, at most: no outcome is ruled out."""

LEAST_CHANCE = 1e-300
"""Chance of an outcome that a model rules out."""

_POINTS = 128
"""Belief points of a step."""


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of a log.

    Attributes:
        present: (K, H).
        states: (K, H), 0 where there was no step.
        actions: (K, H).
        outcomes: (K, H), in the order of the model's reward values.
    """

    present: NDArray[np.bool_]
    states: Ints
    actions: Ints
    outcomes: Ints


def steps_of(episodes: Episodes, model: RewardMixingMDP) -> Steps:
    """The steps of the episodes, with outcomes as ``model`` numbers them."""
    codes = np.searchsorted(model.reward_values, episodes.reward_values)
    states, actions = np.maximum(episodes.states[:, :-1], 0), np.maximum(episodes.actions, 0)
    outcomes = codes[np.maximum(episodes.outcomes, 0)]
    return Steps(episodes.present, states.astype(np.int64), actions.astype(np.int64), outcomes.astype(np.int64))


def beliefs_of(steps: Steps, weights: Floats, laws: Floats) -> Floats:
    """(H + 1, K, M): the belief before each step, and after the last.

    Args:
        steps: of the log.
        weights: (M,).
        laws: (M, S, A, Z).
    """
    each = np.moveaxis(logs(np.maximum(laws, LEAST_CHANCE)), 0, -1)[steps.states, steps.actions, steps.outcomes]
    each = np.where(steps.present[..., None], each, 0.0)
    first = np.broadcast_to(logs(weights), (each.shape[0], 1, each.shape[2]))
    joint = np.moveaxis(np.cumsum(np.concatenate([first, each], axis=1), axis=1), 1, 0)
    chance = exps(joint - joint.max(axis=-1, keepdims=True))
    return np.asarray(chance / chance.sum(axis=-1, keepdims=True))


def explained(episodes: Episodes, model: RewardMixingMDP, prior: float = 1.0) -> RewardMixingMDP:
    """``model``, moved to where it explains the actions of the episodes too.

    Args:
        episodes: few, of a policy that looked at nothing but the episode.
        model: fitted to their rewards.
        prior: pseudo-count of the average law.
    """
    steps = steps_of(episodes, model)
    average = (model.weights[:, None, None, None] * model.laws).sum(axis=0)
    place = _clipped(logs(np.maximum(model.laws, 1e-3))), logs(np.maximum(model.weights, 1e-3))
    ascent = _Ascent(place)
    sharp = PURPOSE / float(model.reward_values[-1] - model.reward_values[0])
    for _ in range(PLANS):
        now = _moved(model, ascent.place)
        nodes = belief_nodes(now, _POINTS)
        worth = [sharp * one for one in best_at(now, now, nodes)[0]]
        for _ in range(STEPS):
            ascent.step(_gradient(steps, ascent.place, prior * average, nodes, worth))
    return _moved(model, ascent.place)


class _Ascent:
    """Adam, on logits of the laws and of the weights."""

    def __init__(self, place: tuple[Floats, Floats]) -> None:
        self.place = place
        self._means = tuple(np.zeros_like(part) for part in place)
        self._squares = tuple(np.zeros_like(part) for part in place)
        self._left, self._left_of_squares = 1.0, 1.0

    def step(self, gradient: tuple[Floats, Floats]) -> None:
        """Go along the gradient."""
        self._left *= MEMORY
        self._left_of_squares *= SPREAD_MEMORY
        for mean, square, slope in zip(self._means, self._squares, gradient, strict=True):
            mean += (1 - MEMORY) * (slope - mean)
            square += (1 - SPREAD_MEMORY) * (slope * slope - square)
        laws, weights = (
            part + PACE * (mean / (1 - self._left)) / (np.sqrt(square / (1 - self._left_of_squares)) + 1e-3)
            for part, mean, square in zip(self.place, self._means, self._squares, strict=True)
        )
        self.place = _clipped(laws), weights


def _clipped(logits: Floats) -> Floats:
    return np.asarray(np.clip(logits - logits.mean(axis=-1, keepdims=True), -FARTHEST, FARTHEST))


def _shares(logits: Floats) -> Floats:
    chance = exps(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(chance / chance.sum(axis=-1, keepdims=True))


def _moved(model: RewardMixingMDP, place: tuple[Floats, Floats]) -> RewardMixingMDP:
    laws, weights = map(_shares, place)
    return replace(model, rewards=laws[..., 1] if model.num_values == 2 else laws, weights=weights)


def _gradient(
    steps: Steps, place: tuple[Floats, Floats], pull: Floats, nodes: list[Floats], worth: list[Floats]
) -> tuple[Floats, Floats]:
    """Of rewards, actions and prior together, by the logits of the laws (M, S, A, Z) and of the weights (M,)."""
    laws, weights = map(_shares, place)
    beliefs = beliefs_of(steps, weights, laws)
    slopes = np.empty_like(beliefs)
    slopes[-1] = beliefs[-1]  # the rewards: log sum_m exp(joint log-likelihood of m)
    for t, at in enumerate(nodes):
        slopes[t] = _pull_of_actions(steps, t, beliefs[t], worth[t][steps.states[:, t], nearest(beliefs[t], at)])
    later = np.cumsum(slopes[::-1], axis=0)[::-1]
    states, actions, outcomes = laws.shape[1:]
    cell = (steps.states * actions + steps.actions) * outcomes + steps.outcomes
    here = steps.present
    size = states * actions * outcomes
    each = [np.bincount(cell[here], one.T[here], size) for one in np.moveaxis(later[1:], -1, 0)]
    counts: Floats = np.stack(each).reshape(laws.shape) + pull
    total = later[0].sum(axis=0)
    return counts - laws * counts.sum(axis=-1, keepdims=True), total - weights * total.sum()


def _pull_of_actions(steps: Steps, t: int, belief: Floats, worth: Floats) -> Floats:
    """(K, M): the gradient of the log-chance of each episode's action at step t, by the logits of its belief."""
    expected = (worth * belief[:, None]).sum(axis=-1)
    surplus = -_shares(expected)
    surplus[np.arange(surplus.shape[0]), steps.actions[:, t]] += 1.0
    surplus *= steps.present[:, t, None]
    return np.asarray((surplus[..., None] * (worth - expected[..., None])).sum(axis=1) * belief)
