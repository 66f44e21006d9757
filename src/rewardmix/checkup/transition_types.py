"""Do types also move differently? Whether types with transitions of their own predict held-out episodes better.

In the rival model each type has transitions (and a first state) of its own, pulled to those of all types by so many
pseudo-counts (``TRANSITION_STRENGTHS``); in the other, transitions are shared, as the method assumes. Both know how
long an episode is, and neither predicts it: that sessions end is no evidence.

Where rewards depend on the next state, a type would explain that within a single step; ``by_next_state`` keys rewards
by state-action and next state in both models, so that only transitions differ between them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats
from rewardmix._core.streams import Role, generator
from rewardmix.checkup.held_out import (
    REWARD_PRIOR,
    ROW_WIDTH,
    Halves,
    HeldOutGain,
    Indices,
    Symbols,
    VisitedSteps,
    held_out_logliks,
    judged,
    likeliest,
    random_starts,
    sample_of,
)
from rewardmix.checkup.next_state import edge_rows
from rewardmix.episodes import Episodes
from rewardmix.recovery.likelihood import Mixture

TRANSITION_STRENGTHS = (5.0, 30.0)
"""Pseudo-counts that pull the transitions of a type to those of all types: where types differ much, and a little."""


def transition_gain(episodes: Episodes, *, by_next_state: bool = False, seed: int = 0) -> HeldOutGain | None:
    """What transitions of their own add to two types; None where nothing can tell.

    Args:
        episodes: whole episodes.
        by_next_state: whether rewards are those of state-action and next state together.
        seed: of the split and the starts.
    """
    rng = generator(seed, Role.TRANSITION_TYPES)
    sample, splits = sample_of(episodes, rng)
    steps = VisitedSteps.of(sample)
    owner, moves, following = _transitions(steps)
    if not splits or not owner.size:
        return None
    rewards = edge_rows(steps)[0] if by_next_state else np.unique(steps.points, return_inverse=True)[1].ravel()
    of_rewards = int(rewards.max(initial=-1)) + 1
    symbols = Symbols.of(
        np.concatenate([steps.episode, owner]),
        np.concatenate([rewards, of_rewards + moves]),
        np.concatenate([steps.paid, following]),
        len(sample),
    )
    return judged(np.concatenate([_gains(symbols, of_rewards, split, rng) for split in splits], axis=1))


def _gains(symbols: Symbols, of_rewards: int, split: Halves, rng: np.random.Generator) -> Floats:
    """(strengths, held-out episodes): what transitions of their own add to the log-likelihood."""
    fitted, held_out = split
    everything, rewards = symbols.bags(fitted), symbols.bags(fitted, of_rewards)
    average, transitions = everything.average, np.arange(symbols.size)[:, None] >= of_rewards
    starts = list(random_starts(average, rng))
    prior = np.full((symbols.size, 1), REWARD_PRIOR)
    shared = likeliest(rewards, starts, average, prior)
    rivals = [
        likeliest(everything, [*starts, shared.mixture], average, np.where(transitions, strength, prior))
        for strength in TRANSITION_STRENGTHS
    ]
    again = likeliest(rewards, [rival.mixture for rival in rivals], average, prior)  # from where the rivals ended
    best = max(shared, again, key=lambda fit: fit.objective).mixture
    judges = symbols.bags(held_out)
    before = held_out_logliks(judges, Mixture(best.weights, np.where(transitions, average, best.laws)))
    return np.stack([held_out_logliks(judges, rival.mixture) - before for rival in rivals])


def _transitions(steps: VisitedSteps) -> tuple[Indices, Indices, Indices]:
    """(episode, row, value) of each first state and next state that could have been another one.

    Next states of a row are numbered by how frequent they are; the rarest are one.
    """
    there = steps.following >= 0
    owner = np.concatenate([steps.episode[there], np.arange(steps.first.size)])
    rows = np.concatenate([1 + steps.points[there], np.zeros(steps.first.size, np.int64)])  # first states follow row 0
    states = np.concatenate([steps.following[there], steps.first])
    size = int(states.max(initial=0)) + 1
    pairs, pair, times = np.unique(rows * size + states, return_inverse=True, return_counts=True)
    _, row_of, kinds = np.unique(pairs // size, return_inverse=True, return_counts=True)
    order = np.lexsort((pairs, -times, row_of))
    rank = np.empty(pairs.size, np.int64)
    rank[order] = np.arange(pairs.size) - np.repeat(np.cumsum(kinds) - kinds, kinds)
    open_rows: NDArray[np.bool_] = kinds > 1
    row, pair = row_of.ravel()[pair.ravel()], pair.ravel()
    kept = open_rows[row]
    return owner[kept], (np.cumsum(open_rows) - 1)[row[kept]], np.minimum(rank[pair[kept]], ROW_WIDTH - 1)
