"""Test whether types differ in their transitions: do types with their own transitions predict held-out episodes better?

In the rival model each type has its own transitions and initial distribution, shrunk to those of all types by
pseudocounts (``TRANSITION_PSEUDOCOUNTS``). In the other model transitions are shared, as the method assumes. Both
models condition on the length of an episode: the end of a session is no evidence.

If rewards depend on the next state, a type could explain that within a single step. With ``by_next_state`` both models
have rewards by state-action and next state, so that they differ in transitions only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.random_streams import Role, make_generator
from rewardmix.diagnostics.held_out import (
    REWARD_PSEUDOCOUNT,
    ROW_WIDTH,
    Halves,
    HeldOutGain,
    Indices,
    Symbols,
    VisitedSteps,
    best_gain,
    fit_best_start,
    held_out_logliks,
    random_starts,
    sample_splits,
)
from rewardmix.diagnostics.next_state import edge_rows
from rewardmix.episodes import Episodes
from rewardmix.recovery.likelihood import Mixture

TRANSITION_PSEUDOCOUNTS = (5.0, 30.0)
"""Pseudocounts that shrink the transitions of a type to those of all types: for large and for small differences."""


def transition_gain(episodes: Episodes, *, by_next_state: bool = False, seed: int = 0) -> HeldOutGain | None:
    """Compute the gain of types with their own transitions; None without sufficient data.

    Args:
        episodes: Episodes to test.
        by_next_state: Whether rewards depend on state-action and next state in both models.
        seed: Seed of the split and of the initial values.
    """
    rng = make_generator(seed, Role.TRANSITION_TYPES)
    sample, splits = sample_splits(episodes, rng)
    steps = VisitedSteps.of(sample)
    episode, transitions, next_states = _transitions(steps)
    if not splits or not episode.size:
        return None
    rewards = edge_rows(steps)[0] if by_next_state else np.unique(steps.state_actions, return_inverse=True)[1].ravel()
    num_reward_rows = int(rewards.max(initial=-1)) + 1
    symbols = Symbols.of(
        np.concatenate([steps.episode, episode]),
        np.concatenate([rewards, num_reward_rows + transitions]),
        np.concatenate([steps.reward_indices, next_states]),
        len(sample),
    )
    return best_gain(np.concatenate([_gains(symbols, num_reward_rows, split, rng) for split in splits], axis=1))


def _gains(symbols: Symbols, num_reward_rows: int, split: Halves, rng: np.random.Generator) -> Floats:
    """Compute the gain in log-likelihood by own transitions, shape (pseudocounts, held-out episodes)."""
    fitted, held_out = split
    all_patterns, reward_patterns = symbols.patterns(fitted), symbols.patterns(fitted, num_reward_rows)
    average, transitions = all_patterns.marginal_probs, np.arange(symbols.size)[:, None] >= num_reward_rows
    starts = list(random_starts(average, rng))
    prior = np.full((symbols.size, 1), REWARD_PSEUDOCOUNT)
    shared = fit_best_start(reward_patterns, starts, average, prior)
    rivals = [
        fit_best_start(all_patterns, [*starts, shared.mixture], average, np.where(transitions, strength, prior))
        for strength in TRANSITION_PSEUDOCOUNTS
    ]
    # The smaller model also starts where the rivals ended, so that a gain is not due to a worse local maximum.
    refit = fit_best_start(reward_patterns, [rival.mixture for rival in rivals], average, prior)
    best = max(shared, refit, key=lambda fit: fit.objective).mixture
    rest = symbols.patterns(held_out)
    logliks = held_out_logliks(rest, Mixture(best.weights, np.where(transitions, average, best.probs)))
    return np.stack([held_out_logliks(rest, rival.mixture) - logliks for rival in rivals])


def _transitions(steps: VisitedSteps) -> tuple[Indices, Indices, Indices]:
    """Return (episode, row, value) of each initial state and next state that has alternatives.

    Next states of a row are numbered by decreasing frequency; the rarest ones share a number.
    """
    is_known = steps.next_states >= 0
    episode = np.concatenate([steps.episode[is_known], np.arange(steps.initial_states.size)])
    # Initial states are treated as transitions from row 0.
    rows = np.concatenate([1 + steps.state_actions[is_known], np.zeros(steps.initial_states.size, np.int64)])
    states = np.concatenate([steps.next_states[is_known], steps.initial_states])
    size = int(states.max(initial=0)) + 1
    pairs, pair, counts = np.unique(rows * size + states, return_inverse=True, return_counts=True)
    _, row_of, num_next_states = np.unique(pairs // size, return_inverse=True, return_counts=True)
    # Ties in frequency are broken by the state, so the numbering is reproducible.
    order = np.lexsort((pairs, -counts, row_of))
    rank = np.empty(pairs.size, np.int64)
    rank[order] = np.arange(pairs.size) - np.repeat(np.cumsum(num_next_states) - num_next_states, num_next_states)
    is_open: NDArray[np.bool_] = num_next_states > 1
    row, pair = row_of.ravel()[pair.ravel()], pair.ravel()
    selected = is_open[row]
    return episode[selected], (np.cumsum(is_open) - 1)[row[selected]], np.minimum(rank[pair[selected]], ROW_WIDTH - 1)
