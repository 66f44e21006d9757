"""Kernels that play a model: alias tables for next states, cumulative tables for the small laws."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.jit import deferred, kernel
from rewardmix._core.widths import place_width, state_width
from rewardmix._core.xoshiro import UNIT, advance, cumulative, pick, unit, words
from rewardmix.model import RewardMixingMDP


class Tables(NamedTuple):
    """A model in the form that kernels draw from, for simulation and exploration alike.

    Rows are x = s*A + a. The possible next states of all rows are one list; a *place* is an index into it. A place of
    the row is hit, and is kept with its probability, or its alias is taken.
    """

    contexts: NDArray[np.float64]  # (M,) cumulative weights
    initial: NDArray[np.float64]  # (S,) cumulative
    rewards: NDArray[np.float64]  # (M, X, Z) cumulative laws
    begins: NDArray[np.int64]  # (X + 1,) the first place of each row
    successors: NDArray[np.int32]  # (nnz,) the next state of each place
    keep: NDArray[np.float64]  # (nnz,) probability of keeping the place that was hit
    aliases: NDArray[np.int32]  # (nnz,) the place to take otherwise
    alias_states: NDArray[np.int32]  # (nnz,) its next state

    @staticmethod
    def of(model: RewardMixingMDP) -> Tables:
        """The tables of a model."""
        begins, successors, probabilities = successor_lists(model)
        keep, aliases = np.empty(successors.size), np.empty(successors.size, place_width(successors.size))
        fill_aliases(begins, probabilities, keep, aliases)
        laws = cumulative(model.laws).reshape(model.num_contexts, -1, model.num_values)
        small = cumulative(model.weights), cumulative(model.initial), laws
        return Tables(*small, begins, successors, keep, aliases, successors[aliases])


class FlatController(NamedTuple):
    """A controller for ``run_controller``: node k of state s at step t is at offsets[t] + s * nodes[t] + k."""

    nodes: NDArray[np.int64]  # (H,) nodes of a state at each step
    offsets: NDArray[np.int64]  # (H,)
    actions: NDArray[np.int16]
    links: NDArray[np.int32]  # (..., Z) the node after each reward
    first: NDArray[np.int64]  # (S,) the first node
    explore: float  # chance of a step to play any action


def successor_lists(model: RewardMixingMDP) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """(begins, successors, probabilities) of the rows of the transition, possible successors only."""
    rows, width = model.transition_rows, state_width(model.num_states)
    if model.is_sparse:
        return rows.indptr.astype(np.int64), rows.indices.astype(width), np.ascontiguousarray(rows.data)
    possible = rows > 0
    begins = np.concatenate([[0], np.cumsum(possible.sum(axis=1))])
    return begins.astype(np.int64), np.nonzero(possible)[1].astype(width), rows[possible]


@deferred(lambda begins, probabilities, keep, aliases: 4 * probabilities.size)
def fill_aliases(begins: Any, probabilities: Any, keep: Any, aliases: Any) -> None:
    """Vose's alias tables, one for each row, into ``keep`` and ``aliases``."""
    longest = 0
    for row in range(begins.size - 1):
        longest = max(longest, begins[row + 1] - begins[row])
    scaled, small, large = np.empty(longest), np.empty(longest, np.int64), np.empty(longest, np.int64)
    for row in range(begins.size - 1):
        begin, n = begins[row], begins[row + 1] - begins[row]
        total = 0.0
        for i in range(n):
            total += probabilities[begin + i]
        smalls, larges = 0, 0
        for i in range(n):
            keep[begin + i] = 1.0
            aliases[begin + i] = begin + i
            scaled[i] = probabilities[begin + i] * n / total
            if scaled[i] < 1.0:
                small[smalls] = i
                smalls += 1
            else:
                large[larges] = i
                larges += 1
        while smalls > 0 and larges > 0:
            smalls -= 1
            i, j = small[smalls], large[larges - 1]
            keep[begin + i] = scaled[i]
            aliases[begin + i] = begin + j
            scaled[j] -= 1.0 - scaled[i]
            if scaled[j] < 1.0:
                larges -= 1
                small[smalls] = j
                smalls += 1


@kernel
def next_place(tables: Any, x: Any, u: Any) -> Any:
    """The place that a uniform draw hits in the alias table of x; its next state is ``tables.successors[place]``."""
    begin = tables.begins[x]
    where = u * (tables.begins[x + 1] - begin)
    i = np.int64(where)
    other = np.int64(tables.aliases[begin + i])
    return begin + i if where - i < tables.keep[begin + i] else other


@kernel
def next_state(tables: Any, x: Any, u: Any) -> Any:
    """The next state of ``next_place``, without waiting for the place: a twentieth of a simulation."""
    begin = tables.begins[x]
    where = u * (tables.begins[x + 1] - begin)
    i = np.int64(where)
    hit, other = np.int64(tables.successors[begin + i]), np.int64(tables.alias_states[begin + i])
    return hit if where - i < tables.keep[begin + i] else other


@kernel
def run_markov(tables: Any, policy: Any, stream: Any, states: Any, actions: Any, outcomes: Any) -> None:
    """Play a cumulative Markov table (H, S, A) into ``states``, ``actions`` and ``outcomes``."""
    num_actions = policy.shape[2]
    s0, s1, s2, s3 = stream[0], stream[1], stream[2], stream[3]
    for episode in range(states.shape[0]):
        word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
        m = pick(tables.contexts, unit(word))
        word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
        s = pick(tables.initial, unit(word))
        states[episode, 0] = s
        for t in range(policy.shape[0]):
            word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
            a = pick(policy[t, s], unit(word))
            x = s * num_actions + a
            actions[episode, t] = a
            word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
            outcomes[episode, t] = pick(tables.rewards[m, x], unit(word))
            word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
            s = next_state(tables, x, unit(word))
            states[episode, t + 1] = s
    stream[0], stream[1], stream[2], stream[3] = s0, s1, s2, s3


def _run_together(tables: Any, controller: Any, stream: Any, states: Any, actions: Any, outcomes: Any) -> None:
    """``run_controller``, every step of all episodes at once: how many words an episode takes is known before."""
    num_actions = tables.rewards.shape[1] // tables.initial.size
    episodes, steps = len(states), controller.nodes.size
    explores = controller.explore > 0.0
    drawn = words(stream, episodes * (2 + steps * (2 + explores))).reshape(episodes, -1)
    u = iter(np.ascontiguousarray((drawn >> np.uint64(11)).T) * UNIT)
    m = np.searchsorted(tables.contexts[:-1], next(u), "right")
    s = np.searchsorted(tables.initial[:-1], next(u), "right")
    k = controller.first[s]
    states[:, 0] = s
    for t in range(steps):
        node = controller.offsets[t] + s * controller.nodes[t] + k
        a = controller.actions[node].astype(np.int64)
        if explores:
            v = next(u)
            tried = (v / controller.explore * num_actions).astype(np.int64)
            a = np.where(v < controller.explore, np.minimum(tried, num_actions - 1), a)
        x = s * num_actions + a
        z = (next(u)[:, None] >= tables.rewards[m, x, :-1]).sum(axis=1)
        actions[:, t], outcomes[:, t], k = a, z, controller.links[node, z]
        begin = tables.begins[x]
        where = next(u) * (tables.begins[x + 1] - begin)
        i = where.astype(np.int64)
        kept = where - i < tables.keep[begin + i]
        s = np.where(kept, tables.successors[begin + i], tables.alias_states[begin + i]).astype(np.int64)
        states[:, t + 1] = s


@deferred(lambda tables, controller, stream, states, actions, outcomes: 50 + actions.size, play=_run_together)
def run_controller(tables: Any, controller: Any, stream: Any, states: Any, actions: Any, outcomes: Any) -> None:
    """Play a ``FlatController``."""
    num_actions = tables.rewards.shape[1] // tables.initial.size
    s0, s1, s2, s3 = stream[0], stream[1], stream[2], stream[3]
    for episode in range(states.shape[0]):
        word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
        m = pick(tables.contexts, unit(word))
        word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
        s = pick(tables.initial, unit(word))
        k = controller.first[s]
        states[episode, 0] = s
        for t in range(controller.nodes.size):
            node = controller.offsets[t] + s * controller.nodes[t] + k
            a = np.int64(controller.actions[node])
            if controller.explore > 0.0:
                word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
                if unit(word) < controller.explore:
                    a = min(np.int64(unit(word) / controller.explore * num_actions), num_actions - 1)
            x = s * num_actions + a
            word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
            z = pick(tables.rewards[m, x], unit(word))
            actions[episode, t] = a
            outcomes[episode, t] = z
            k = controller.links[node, z]
            word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
            s = next_state(tables, x, unit(word))
            states[episode, t + 1] = s
    stream[0], stream[1], stream[2], stream[3] = s0, s1, s2, s3
