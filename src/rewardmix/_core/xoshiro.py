"""Draw random numbers inside kernels: xoshiro256++ (Blackman and Vigna 2021), with four words of state in an array.

A kernel advances ``state`` (uint64[4]) in place. The state is plain data: it can be stored in a checkpoint, and the
stream continues from it bit for bit. ``random_streams`` defines initial states.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.jit import kernel

UNIFORM_STEP = 1.0 / (1 << 53)
"""Distance between two neighboring uniform draws."""

WORD_MASK = (1 << 64) - 1
"""Word with all bits set."""


def cumulate_probs(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return cumulative sums along the last axis, exactly 1 from the last possible outcome on."""
    sums = np.cumsum(probabilities, axis=-1)
    later = np.cumsum(probabilities[..., ::-1], axis=-1)[..., ::-1]
    behind = np.concatenate([later[..., 1:], np.zeros_like(later[..., :1])], axis=-1)
    # Rounding could leave the last sum below 1, and a draw above it would select an impossible outcome.
    return np.ascontiguousarray(np.where(behind > 0, np.minimum(sums, 1.0), 1.0))


@kernel
def advance(s0: Any, s1: Any, s2: Any, s3: Any) -> Any:
    """Return 64 random bits and the four following words of state.

    State in local variables is twice as fast as in an array.
    """
    total = s0 + s3
    word = ((total << np.uint64(23)) | (total >> np.uint64(41))) + s0
    t = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= t
    s3 = (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
    return word, s0, s1, s2, s3


def draw_words(state: NDArray[np.uint64], count: int) -> NDArray[np.uint64]:
    """Draw ``count`` words in Python, equal to those of ``advance``; advances ``state``."""
    s0, s1, s2, s3 = (int(word) for word in state)
    words = np.empty(count, np.uint64)
    for i in range(count):
        total = (s0 + s3) & WORD_MASK
        words[i] = (((total << 23) | (total >> 41)) + s0) & WORD_MASK
        t = (s1 << 17) & WORD_MASK
        s2 ^= s0
        s3 ^= s1
        s1 ^= s2
        s0 ^= s3
        s2 ^= t
        s3 = ((s3 << 45) | (s3 >> 19)) & WORD_MASK
    state[:] = s0, s1, s2, s3
    return words


@kernel
def word_to_uniform(word: Any) -> Any:
    """Convert 64 random bits to a uniform float in [0, 1), a multiple of 2^-53."""
    return np.float64(word >> np.uint64(11)) * UNIFORM_STEP


@kernel
def uniform_draw(state: Any) -> Any:
    """Draw a uniform float from a stream kept in an array; advances ``state``."""
    word, state[0], state[1], state[2], state[3] = advance(state[0], state[1], state[2], state[3])
    return word_to_uniform(word)


@kernel
def sample_cumulative(cumulative: Any, u: Any) -> Any:
    """Return the first index whose cumulative probability exceeds u."""
    chosen = 0
    # Adding comparisons needs no branch. For the few outcomes of a typical row this is faster than a search, whose
    # branches the processor cannot predict.
    for i in range(cumulative.size - 1):
        chosen += u >= cumulative[i]
    return chosen
