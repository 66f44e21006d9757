"""Random numbers inside kernels: xoshiro256++ (Blackman and Vigna 2021), four words of state in an array.

A kernel that is handed ``state`` (uint64[4]) advances it in place, so where a stream stands is plain data: it can be
stored in a checkpoint and goes on from there bit for bit. Where a stream begins is told by ``streams``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.jit import kernel

UNIT = 1.0 / (1 << 53)
"""Distance between two neighbouring uniform draws."""

FULL = (1 << 64) - 1
"""A word with all bits set."""


def cumulative(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cumulative sums along the last axis for ``pick``: exactly 1 from the last possible outcome on."""
    sums = np.cumsum(probabilities, axis=-1)
    later = np.cumsum(probabilities[..., ::-1], axis=-1)[..., ::-1]
    behind = np.concatenate([later[..., 1:], np.zeros_like(later[..., :1])], axis=-1)
    return np.ascontiguousarray(np.where(behind > 0, np.minimum(sums, 1.0), 1.0))


@kernel
def advance(s0: Any, s1: Any, s2: Any, s3: Any) -> Any:
    """(64 random bits, the four words after them). Words in local variables are twice as fast as in an array."""
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


def words(state: NDArray[np.uint64], count: int) -> NDArray[np.uint64]:
    """The next words of a stream, by Python: what ``advance`` gives one after the other; advances ``state``."""
    s0, s1, s2, s3 = (int(word) for word in state)
    drawn = np.empty(count, np.uint64)
    for i in range(count):
        total = (s0 + s3) & FULL
        drawn[i] = (((total << 23) | (total >> 41)) + s0) & FULL
        t = (s1 << 17) & FULL
        s2 ^= s0
        s3 ^= s1
        s1 ^= s2
        s0 ^= s3
        s2 ^= t
        s3 = ((s3 << 45) | (s3 >> 19)) & FULL
    state[:] = s0, s1, s2, s3
    return drawn


@kernel
def unit(word: Any) -> Any:
    """64 random bits as a float uniform on [0, 1), a multiple of 2^-53."""
    return np.float64(word >> np.uint64(11)) * UNIT


@kernel
def uniform_draw(state: Any) -> Any:
    """A uniform float from a stream kept in an array; advances ``state``."""
    word, state[0], state[1], state[2], state[3] = advance(state[0], state[1], state[2], state[3])
    return unit(word)


@kernel
def pick(cumulative: Any, u: Any) -> Any:
    """The first index whose cumulative probability (from ``cumulative``) exceeds u, without a branch to mispredict."""
    chosen = 0
    for i in range(cumulative.size - 1):
        chosen += u >= cumulative[i]
    return chosen
