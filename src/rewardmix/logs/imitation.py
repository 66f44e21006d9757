"""A short log of a policy that follows its history is answered with that policy.

If the same history (states and rewards so far) always had the same action, nothing is gained by averaging over about
equal situations, as ``habits`` does: where the log has been, what its policy does is known exactly. The controller that
is made here plays

    where the log holds the history    the log's action; a node for each history
    elsewhere                          what the log did at the nearest beliefs, in the same state, at the same step; a
                                       node for each of some beliefs

Beliefs are those of the model that explains the log's actions too (``explained``), if it foretells them better than the
fitted one. Long logs show in every situation what their policy does, so they are left to ``habits``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rewardmix import belief as bayes
from rewardmix._core.checks import Floats, Ints
from rewardmix.episodes import Episodes
from rewardmix.logs.belief_pass import best_at
from rewardmix.logs.explained import Steps, beliefs_of, explained, steps_of
from rewardmix.logs.habits import Situations
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.backward_pass import compact_controller
from rewardmix.planning.baselines import belief_nodes, nearest
from rewardmix.policy import Controller

SHORT = 500
"""Episodes of a short log, at most."""

_LARGE = 1e6
"""Moves (step, state, action, next state) of a large world, which is not imitated: planning for it again takes long."""

REPEATED = 30
"""Steps that have to repeat a history before a log is taken for one of a policy that follows it."""

_NODES = 256
"""Beliefs of a step."""

NEAR = 1e-4
"""Squared distances (of roots of beliefs) below this are nearly none."""


Whereabouts = dict[int, NDArray[np.int64]]
"""State -> the episodes that were there at some step."""


@dataclass(frozen=True, eq=False)
class Copied:
    """What is known of the actions of a log that follows its histories, in place of ``Habits``.

    Attributes:
        taken: (S, A) actions that the log took in each state.
    """

    taken: NDArray[np.bool_]

    def own(self, where: Situations) -> NDArray[np.bool_]:
        """(..., A): the actions that the log takes in that state."""
        return np.broadcast_to(self.taken[where.state], (*where.shape, self.taken.shape[1]))

    def chances(self, episodes: Episodes, model: RewardMixingMDP) -> Floats:
        """(K, H): the log's policy draws nothing."""
        return np.ones(episodes.present.shape)


@dataclass(frozen=True, eq=False)
class Histories:
    """Which episodes have the same history.

    Attributes:
        before: (H, K) number of the history before the state of each step is seen, -1 after the end.
        counts: (H,) how many there are.
        parents: for each step, (history of the step before, state, outcome) of each, (n, 3).
        firsts: for each step, an episode of each.
    """

    before: Ints
    counts: tuple[int, ...]
    parents: tuple[Ints, ...]
    firsts: tuple[Ints, ...]


def histories_of(steps: Steps, num_states: int, num_values: int) -> Histories:
    """Number the histories of a log, step by step."""
    count, horizon = steps.present.shape
    before = np.full((horizon, count), -1, np.int64)
    before[0] = 0
    parents, firsts = [np.zeros((1, 3), np.int64)], [np.zeros(1, np.int64)]
    for t in range(1, horizon):
        here = np.flatnonzero(steps.present[:, t])
        code = (before[t - 1] * num_states + steps.states[:, t - 1]) * num_values + steps.outcomes[:, t - 1]
        known, first, before[t, here] = np.unique(code[here], return_index=True, return_inverse=True)
        rest, outcome = np.divmod(known, num_values)
        parents.append(np.stack([*np.divmod(rest, num_states), outcome], axis=1))
        firsts.append(here[first])
    return Histories(before, tuple(map(len, firsts)), tuple(parents), tuple(firsts))


def follows_histories(steps: Steps, histories: Histories, num_states: int) -> bool:
    """Whether the same history always had the same action, over enough repeated steps."""
    repeated = 0
    for t, before in enumerate(histories.before):
        here = steps.present[:, t]
        code = (before * num_states + steps.states[:, t])[here]
        _, first, same = np.unique(code, return_index=True, return_inverse=True)
        action = steps.actions[:, t][here]
        if (action != action[first][same]).any():
            return False
        repeated += code.size - first.size
    return repeated >= REPEATED


def imitated(episodes: Episodes, model: RewardMixingMDP, low: RewardMixingMDP) -> Controller | None:
    """The controller that does what a short log does, or None.

    None if the log or the world is large, or if its actions do not follow from its histories.

    Args:
        episodes: the log.
        model: fitted to it.
        low: with lower rewards; says what to do in states where the log has never been.
    """
    if len(episodes) > SHORT or model.horizon * model.num_states**2 * model.num_actions > _LARGE:
        return None
    steps = steps_of(episodes, model)
    histories = histories_of(steps, model.num_states, model.num_values)
    if not follows_histories(steps, histories, model.num_states):
        return None
    meant = explained(episodes, model)
    return controller_like(steps, histories, max((model, meant), key=lambda one: foretold(steps, one)), low)


def foretold(steps: Steps, model: RewardMixingMDP) -> int:
    """How many actions the nearest decisions of other episodes foretell, if ``model`` makes the beliefs."""
    beliefs = beliefs_of(steps, model.weights, model.laws)
    right = 0
    for t in range(steps.present.shape[1]):
        for there in _by_state(steps, t).values():
            roots, actions = np.sqrt(beliefs[t, there]), steps.actions[there, t]
            votes = _votes(roots, roots, actions, model.num_actions, own=False)
            right += int((votes.argmax(axis=1) == actions).sum())
    return right


def controller_like(steps: Steps, histories: Histories, model: RewardMixingMDP, low: RewardMixingMDP) -> Controller:
    """The controller of the log's decisions, with beliefs as ``model`` has them; see the module."""
    beliefs = beliefs_of(steps, model.weights, model.laws)
    nodes = belief_nodes(model, _NODES)
    _, plans = best_at(model, low, nodes)
    places = [_by_state(steps, t) for t in range(model.horizon)]
    states = np.arange(model.num_states)[:, None]
    actions, successors = [], []
    for t, firsts in enumerate(histories.firsts):
        there = np.concatenate([beliefs[t, firsts], nodes[t]]) if t else beliefs[t, firsts]
        plays = _nearest_decisions(steps, places, beliefs, t, there, plans[t][:, nearest(there, nodes[t])])
        present = steps.present[:, t]
        plays[steps.states[present, t], histories.before[t][present]] = steps.actions[present, t]
        moves = np.zeros((*plays.shape, model.num_values), np.int64)
        if t + 1 < len(histories.firsts):
            known = histories.counts[t + 1]
            for z in range(model.num_values):
                likelihood = np.moveaxis(model.laws[:, states, plays, z], 0, -1)
                moves[:, :, z] = known + nearest(bayes.update(there, likelihood), nodes[t + 1])
            history, state, outcome = histories.parents[t + 1].T
            moves[state, history, outcome] = np.arange(known)
        actions.append(plays)
        successors.append(moves)
    return compact_controller(actions, successors, model)


def _nearest_decisions(
    steps: Steps, places: list[Whereabouts], beliefs: Floats, t: int, there: Floats, otherwise: Ints
) -> Ints:
    """(S, K): what the log did in each state at the nearest beliefs; where it never was in a state, ``otherwise``.

    If it was in a state but not at this step, its decisions at the nearest step count.
    """
    plays, num_actions = otherwise.copy(), int(steps.actions.max()) + 1
    roots, missing = np.sqrt(there), set(range(plays.shape[0]))
    for near in sorted(range(len(places)), key=lambda step: abs(step - t)):
        for state, those in places[near].items():
            if state in missing:
                missing.remove(state)
                votes = _votes(roots, np.sqrt(beliefs[near, those]), steps.actions[those, near], num_actions)
                plays[state] = votes.argmax(axis=1)
    return plays


def _by_state(steps: Steps, t: int) -> Whereabouts:
    """State -> the episodes that were there at step t."""
    here = np.flatnonzero(steps.present[:, t])
    order = here[np.argsort(steps.states[here, t], kind="stable")]
    states, starts = np.unique(steps.states[order, t], return_index=True)
    return dict(zip(states.tolist(), np.split(order, starts[1:]), strict=True))


def _votes(roots: Floats, known: Floats, actions: Ints, num_actions: int, *, own: bool = True) -> Floats:
    """(K, A): how much the decisions speak for each action, the nearer the more; without ``own``, those of others."""
    distance = np.zeros((roots.shape[0], known.shape[0]))
    for context in range(roots.shape[1]):
        distance += (roots[:, None, context] - known[None, :, context]) ** 2
    weight = 1.0 / (distance + NEAR) ** 2
    if not own:
        np.fill_diagonal(weight, 0.0)
    return np.stack([weight[:, actions == action].sum(axis=1) for action in range(num_actions)], axis=1)
