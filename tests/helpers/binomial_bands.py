"""Check counts against exact binomial bands, which fail by chance once in a million runs for any number of cells."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

FAILURE_PROB = 1e-6


def assert_within(counts, totals, probabilities, what: str) -> None:
    """Check that each count lies in the central band of its binomial distribution; cells divide ``FAILURE_PROB``."""
    counts, totals, probabilities = np.broadcast_arrays(counts, totals, probabilities)
    tail = FAILURE_PROB / max(counts.size, 1) / 2
    low, high = binom.ppf(tail, totals, probabilities), binom.isf(tail, totals, probabilities)
    low, high = np.where(totals > 0, low, 0), np.where(totals > 0, high, 0)
    bad = (counts < low) | (counts > high)
    if bad.any():
        i = tuple(int(k) for k in np.argwhere(bad)[0])
        raise AssertionError(
            f"{what}{list(i)}: {counts[i]} of {totals[i]} at probability {probabilities[i]:.6g}, "
            f"band {low[i]:g} .. {high[i]:g}; {int(bad.sum())} cells of {bad.size} are outside"
        )


def assert_follow_model(episodes, model, table=None) -> None:
    """Check initial states, transitions and rewards of episodes against the model, actions against a Markov table."""
    from rewardmix.model import dense_transition

    count = len(episodes)
    initial = np.bincount(episodes.states[:, 0], minlength=model.num_states)
    assert_within(initial, count, model.initial, "initial states")
    s, a, n = episodes.states[:, :-1].ravel(), episodes.actions.ravel(), episodes.states[:, 1:].ravel()
    transitions = np.zeros((model.num_states, model.num_actions, model.num_states), int)
    np.add.at(transitions, (s, a, n), 1)
    assert_within(transitions, transitions.sum(axis=-1, keepdims=True), dense_transition(model), "transitions")
    first = _first_visits(episodes)  # later visits of one episode share its type and are not independent
    reward_indices = np.zeros((*transitions.shape[:2], model.num_values), int)
    np.add.at(reward_indices, (s[first], a[first], episodes.reward_indices.ravel()[first]), 1)
    marginals = np.tensordot(model.weights, model.reward_probs, axes=1)
    assert_within(reward_indices, reward_indices.sum(axis=-1, keepdims=True), marginals, "rewards")
    if table is not None:
        for t in range(model.horizon):
            played = np.zeros(transitions.shape[:2], int)
            np.add.at(played, (episodes.states[:, t], episodes.actions[:, t]), 1)
            assert_within(played, played.sum(axis=-1, keepdims=True), table[t], f"actions at step {t}")


def _first_visits(episodes) -> np.ndarray:
    count = len(episodes)
    x = episodes.states[:, :-1].astype(np.int64) * episodes.num_actions + episodes.actions
    key = np.arange(count)[:, None] * episodes.num_states * episodes.num_actions + x
    _, index = np.unique(key.ravel(), return_index=True)
    return index
