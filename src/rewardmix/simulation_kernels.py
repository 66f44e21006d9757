"""Kernels that play a model: alias tables for next states, cumulative tables for the small laws."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.jit import kernel
from rewardmix._core.widths import state_width
from rewardmix._core.xoshiro import advance, cumulative, pick, unit
from rewardmix.model import RewardMixingMDP


class Tables(NamedTuple):
    """A model in the form that kernels draw from. Rows x = s*A + a; successors of a row are the possible ones only."""

    contexts: NDArray[np.float64]  # (M,) cumulative weights
    initial: NDArray[np.float64]  # (S,) cumulative
    rewards: NDArray[np.float64]  # (M, S*A, Z) cumulative laws
    begins: NDArray[np.int64]  # (S*A + 1,) where the successors of a row begin
    successors: NDArray[np.int32]  # (nnz,)
    keep: NDArray[np.float64]  # (nnz,) probability of keeping the successor that was hit, else take its alias
    aliases: NDArray[np.int32]  # (nnz,)

    @staticmethod
    def of(model: RewardMixingMDP) -> Tables:
        """The tables of a model."""
        begins, successors, probabilities = successor_lists(model)
        keep, aliases = np.empty(successors.size), np.empty(successors.size, successors.dtype)
        fill_aliases(begins, successors, probabilities, keep, aliases)
        laws = cumulative(model.laws).reshape(model.num_contexts, -1, model.num_values)
        return Tables(cumulative(model.weights), cumulative(model.initial), laws, begins, successors, keep, aliases)


def successor_lists(model: RewardMixingMDP) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """(begins, successors, probabilities) of the rows of the transition, possible successors only."""
    rows, width = model.transition_rows, state_width(model.num_states)
    if model.is_sparse:
        return rows.indptr.astype(np.int64), rows.indices.astype(width), np.ascontiguousarray(rows.data)
    possible = rows > 0
    begins = np.concatenate([[0], np.cumsum(possible.sum(axis=1))])
    return begins.astype(np.int64), np.nonzero(possible)[1].astype(width), rows[possible]


@kernel
def fill_aliases(begins: Any, successors: Any, probabilities: Any, keep: Any, aliases: Any) -> None:
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
            aliases[begin + i] = successors[begin + i]
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
            aliases[begin + i] = successors[begin + j]
            scaled[j] -= 1.0 - scaled[i]
            if scaled[j] < 1.0:
                larges -= 1
                small[smalls] = j
                smalls += 1


@kernel
def next_state(begins: Any, successors: Any, keep: Any, aliases: Any, row: Any, u: Any) -> Any:
    """A successor of ``row`` by its alias table, from one uniform draw."""
    begin = begins[row]
    place = u * (begins[row + 1] - begin)
    i = np.int64(place)
    hit, other = np.int64(successors[begin + i]), np.int64(aliases[begin + i])
    return hit if place - i < keep[begin + i] else other


@kernel
def run_markov(
    contexts: Any,
    initial: Any,
    rewards: Any,
    begins: Any,
    successors: Any,
    keep: Any,
    aliases: Any,
    table: Any,
    stream: Any,
    states: Any,
    actions: Any,
    outcomes: Any,
) -> None:
    """Play a cumulative Markov table (H, S, A) into ``states``, ``actions`` and ``outcomes``."""
    num_actions = table.shape[2]
    s0, s1, s2, s3 = stream[0], stream[1], stream[2], stream[3]
    for episode in range(states.shape[0]):
        word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
        m = pick(contexts, unit(word))
        word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
        s = pick(initial, unit(word))
        states[episode, 0] = s
        for t in range(table.shape[0]):
            word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
            a = pick(table[t, s], unit(word))
            x = s * num_actions + a
            actions[episode, t] = a
            word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
            outcomes[episode, t] = pick(rewards[m, x], unit(word))
            word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
            s = next_state(begins, successors, keep, aliases, x, unit(word))
            states[episode, t + 1] = s
    stream[0], stream[1], stream[2], stream[3] = s0, s1, s2, s3


@kernel
def run_controller(
    contexts: Any,
    initial: Any,
    rewards: Any,
    begins: Any,
    successors: Any,
    keep: Any,
    aliases: Any,
    nodes: Any,
    offsets: Any,
    moves: Any,
    links: Any,
    first: Any,
    stream: Any,
    states: Any,
    actions: Any,
    outcomes: Any,
) -> None:
    """Play a controller; ``moves`` and ``links`` hold its actions and successors, step t from offsets[t] on."""
    num_actions = rewards.shape[1] // initial.size
    s0, s1, s2, s3 = stream[0], stream[1], stream[2], stream[3]
    for episode in range(states.shape[0]):
        word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
        m = pick(contexts, unit(word))
        word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
        s = pick(initial, unit(word))
        k = first[s]
        states[episode, 0] = s
        for t in range(nodes.size):
            node = offsets[t] + s * nodes[t] + k
            a = moves[node]
            x = s * num_actions + a
            word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
            z = pick(rewards[m, x], unit(word))
            actions[episode, t] = a
            outcomes[episode, t] = z
            k = links[node, z]
            word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
            s = next_state(begins, successors, keep, aliases, x, unit(word))
            states[episode, t + 1] = s
    stream[0], stream[1], stream[2], stream[3] = s0, s1, s2, s3
