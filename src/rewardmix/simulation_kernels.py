"""Simulate a model in compiled kernels: alias tables for next states, cumulative tables for other distributions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.int_dtypes import entry_dtype, state_dtype
from rewardmix._core.jit import kernel, lazy_jit
from rewardmix._core.xoshiro import (
    UNIFORM_STEP,
    advance,
    cumulate_probs,
    draw_words,
    sample_cumulative,
    word_to_uniform,
)
from rewardmix.model import RewardMixingMDP


class SamplingTables(NamedTuple):
    """Model in the form from which kernels sample, for simulation and exploration.

    Rows are x = s*A + a. The possible next states of all rows are one list, and an entry is an index into it. Sampling
    selects an entry of the row uniformly and keeps it with its acceptance probability; otherwise it takes the alias
    (Walker, 1977; Vose, 1991).
    """

    type_cumulative: NDArray[np.float64]  # (M,) cumulative weights
    initial: NDArray[np.float64]  # (S,) cumulative
    rewards: NDArray[np.float64]  # (M, X, Z) cumulative reward probabilities
    row_offsets: NDArray[np.int64]  # (X + 1,) the first entry of each row
    next_states: NDArray[np.int32]  # (nnz,) the next state of each entry
    accept_probs: NDArray[np.float64]  # (nnz,) probability of keeping the selected entry
    aliases: NDArray[np.int32]  # (nnz,) the entry to take otherwise
    alias_states: NDArray[np.int32]  # (nnz,) its next state

    @staticmethod
    def from_model(model: RewardMixingMDP) -> SamplingTables:
        """Build the sampling tables of a model."""
        row_offsets, next_states, probabilities = successor_lists(model)
        accept_probs, aliases = np.empty(next_states.size), np.empty(next_states.size, entry_dtype(next_states.size))
        fill_aliases(row_offsets, probabilities, accept_probs, aliases)
        probs = cumulate_probs(model.reward_probs).reshape(model.num_types, -1, model.num_values)
        small = cumulate_probs(model.weights), cumulate_probs(model.initial), probs
        return SamplingTables(*small, row_offsets, next_states, accept_probs, aliases, next_states[aliases])


class FlatController(NamedTuple):
    """Controller for ``run_controller``: node k of state s at step t has the index offsets[t] + s * nodes[t] + k."""

    nodes: NDArray[np.int64]  # (H,) number of nodes of a state at each step
    offsets: NDArray[np.int64]  # (H,) index of the first node of each step
    actions: NDArray[np.int16]
    next_nodes: NDArray[np.int32]  # (..., Z) the next node for each reward
    initial_nodes: NDArray[np.int64]  # (S,) the initial node
    explore_probs: float  # probability of a random action at each step


def successor_lists(model: RewardMixingMDP) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """Return (row offsets, next states, probabilities) of the transition, without entries of probability 0."""
    rows, width = model.transition_rows, state_dtype(model.num_states)
    if model.is_sparse:
        return rows.indptr.astype(np.int64), rows.indices.astype(width), np.ascontiguousarray(rows.data)
    possible = rows > 0
    row_offsets = np.concatenate([[0], np.cumsum(possible.sum(axis=1))])
    return row_offsets.astype(np.int64), np.nonzero(possible)[1].astype(width), rows[possible]


@lazy_jit(lambda row_offsets, probabilities, keep, aliases: 4 * probabilities.size)
def fill_aliases(row_offsets: Any, probabilities: Any, keep: Any, aliases: Any) -> None:
    """Fill ``keep`` and ``aliases`` with Vose's alias table of each row."""
    longest = 0
    for row in range(row_offsets.size - 1):
        longest = max(longest, row_offsets[row + 1] - row_offsets[row])
    scaled, small, large = np.empty(longest), np.empty(longest, np.int64), np.empty(longest, np.int64)
    for row in range(row_offsets.size - 1):
        begin, n = row_offsets[row], row_offsets[row + 1] - row_offsets[row]
        total = 0.0
        for i in range(n):
            # Probabilities are divided by their actual sum, which differs from 1 by rounding.
            total += probabilities[begin + i]
        smalls, larges = 0, 0
        for i in range(n):
            # Entries that the loop below does not reach, because rounding exhausts one list first, are always
            # kept.
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
            # Subtracting the deficit is more accurate than adding (scaled[i] + scaled[j]) - 1.
            scaled[j] -= 1.0 - scaled[i]
            if scaled[j] < 1.0:
                larges -= 1
                small[smalls] = j
                smalls += 1


@kernel
def sample_entry(tables: Any, x: Any, u: Any) -> Any:
    """Sample an entry of row x from one uniform number; its next state is ``tables.next_states[entry]``."""
    begin = tables.row_offsets[x]
    # One uniform number serves twice: its integer part selects the entry, its fraction decides on acceptance.
    position = u * (tables.row_offsets[x + 1] - begin)
    i = np.int64(position)
    alias = np.int64(tables.aliases[begin + i])
    return begin + i if position - i < tables.accept_probs[begin + i] else alias


@kernel
def sample_next_state_fast(tables: Any, x: Any, u: Any) -> Any:
    """Sample the next state of row x from one uniform number.

    The result is that of ``sample_entry``, but both candidate states are loaded before the comparison, so they do not
    wait for the entry. This saves a twentieth of a simulation.
    """
    begin = tables.row_offsets[x]
    position = u * (tables.row_offsets[x + 1] - begin)
    i = np.int64(position)
    next_state, alias_state = np.int64(tables.next_states[begin + i]), np.int64(tables.alias_states[begin + i])
    return next_state if position - i < tables.accept_probs[begin + i] else alias_state


@kernel
def run_markov(tables: Any, policy: Any, stream: Any, states: Any, actions: Any, reward_indices: Any) -> None:
    """Simulate a Markov policy, given as cumulative table (H, S, A), and fill the arrays of episodes."""
    num_actions = policy.shape[2]
    s0, s1, s2, s3 = stream[0], stream[1], stream[2], stream[3]
    for episode in range(states.shape[0]):
        word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
        m = sample_cumulative(tables.type_cumulative, word_to_uniform(word))
        word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
        s = sample_cumulative(tables.initial, word_to_uniform(word))
        states[episode, 0] = s
        for t in range(policy.shape[0]):
            word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
            a = sample_cumulative(policy[t, s], word_to_uniform(word))
            x = s * num_actions + a
            actions[episode, t] = a
            word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
            reward_indices[episode, t] = sample_cumulative(tables.rewards[m, x], word_to_uniform(word))
            word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
            s = sample_next_state_fast(tables, x, word_to_uniform(word))
            states[episode, t + 1] = s
    stream[0], stream[1], stream[2], stream[3] = s0, s1, s2, s3


def _run_controller_numpy(
    tables: Any, controller: Any, stream: Any, states: Any, actions: Any, reward_indices: Any
) -> None:
    """Simulate a controller in NumPy, each step for all episodes at once; identical to ``run_controller``."""
    num_actions = tables.rewards.shape[1] // tables.initial.size
    episodes, steps = len(states), controller.nodes.size
    is_exploring = controller.explore_probs > 0.0
    # Every episode takes a fixed number of words, so all of them can be drawn at once in the order of the
    # compiled kernel.
    words = draw_words(stream, episodes * (2 + steps * (2 + is_exploring))).reshape(episodes, -1)
    # The upper 53 bits give a uniform float64 in [0, 1), as in the kernel. The transpose makes the words of one
    # step contiguous.
    u = iter(np.ascontiguousarray((words >> np.uint64(11)).T) * UNIFORM_STEP)
    # The last cumulative value is left out, since rounding may leave it below 1.
    m = np.searchsorted(tables.type_cumulative[:-1], next(u), "right")
    s = np.searchsorted(tables.initial[:-1], next(u), "right")
    k = controller.initial_nodes[s]
    states[:, 0] = s
    for t in range(steps):
        node = controller.offsets[t] + s * controller.nodes[t] + k
        a = controller.actions[node].astype(np.int64)
        if is_exploring:
            v = next(u)
            random_action = (v / controller.explore_probs * num_actions).astype(np.int64)
            # An exploratory action reuses its uniform number: below the exploration probability, v /
            # explore_prob is uniform in [0, 1). The minimum guards against rounding to num_actions.
            a = np.where(v < controller.explore_probs, np.minimum(random_action, num_actions - 1), a)
        x = s * num_actions + a
        z = (next(u)[:, None] >= tables.rewards[m, x, :-1]).sum(axis=1)
        actions[:, t], reward_indices[:, t], k = a, z, controller.next_nodes[node, z]
        begin = tables.row_offsets[x]
        position = next(u) * (tables.row_offsets[x + 1] - begin)
        i = position.astype(np.int64)
        use_entry = position - i < tables.accept_probs[begin + i]
        s = np.where(use_entry, tables.next_states[begin + i], tables.alias_states[begin + i]).astype(np.int64)
        states[:, t + 1] = s


@lazy_jit(
    lambda tables, controller, stream, states, actions, reward_indices: 50 + actions.size,
    numpy_impl=_run_controller_numpy,
)
def run_controller(tables: Any, controller: Any, stream: Any, states: Any, actions: Any, reward_indices: Any) -> None:
    """Simulate a ``FlatController`` and fill the arrays of episodes."""
    num_actions = tables.rewards.shape[1] // tables.initial.size
    s0, s1, s2, s3 = stream[0], stream[1], stream[2], stream[3]
    for episode in range(states.shape[0]):
        word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
        m = sample_cumulative(tables.type_cumulative, word_to_uniform(word))
        word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
        s = sample_cumulative(tables.initial, word_to_uniform(word))
        k = controller.initial_nodes[s]
        states[episode, 0] = s
        for t in range(controller.nodes.size):
            node = controller.offsets[t] + s * controller.nodes[t] + k
            a = np.int64(controller.actions[node])
            if controller.explore_probs > 0.0:
                word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
                if word_to_uniform(word) < controller.explore_probs:
                    a = min(np.int64(word_to_uniform(word) / controller.explore_probs * num_actions), num_actions - 1)
            x = s * num_actions + a
            word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
            z = sample_cumulative(tables.rewards[m, x], word_to_uniform(word))
            actions[episode, t] = a
            reward_indices[episode, t] = z
            k = controller.next_nodes[node, z]
            word, s0, s1, s2, s3 = advance(s0, s1, s2, s3)
            s = sample_next_state_fast(tables, x, word_to_uniform(word))
            states[episode, t + 1] = s
    stream[0], stream[1], stream[2], stream[3] = s0, s1, s2, s3
