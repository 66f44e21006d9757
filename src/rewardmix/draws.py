"""Random numbers inside kernels: xoshiro256++ (Blackman and Vigna 2021), four words of state in an array.

A kernel that is handed ``state`` (uint64[4]) advances it in place, so where a stream stands is plain data: it can be
stored in a checkpoint and goes on from there bit for bit. Streams are seeded through numpy's SeedSequence.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._kernels import kernel

UNIT = 1.0 / (1 << 53)
"""Distance between two neighbouring uniform draws."""


def stream(seed: int | np.random.SeedSequence, *role: int) -> NDArray[np.uint64]:
    """The state of a fresh stream; each ``role`` (a tuple of small numbers) gets one of its own."""
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    child = np.random.SeedSequence(sequence.entropy, spawn_key=(*sequence.spawn_key, *role))
    return child.generate_state(4, np.uint64)


def cumulative(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cumulative sums along the last axis for ``pick``: exactly 1 from the last possible outcome on."""
    sums = np.cumsum(probabilities, axis=-1)
    later = np.cumsum(probabilities[..., ::-1], axis=-1)[..., ::-1]
    behind = np.concatenate([later[..., 1:], np.zeros_like(later[..., :1])], axis=-1)
    return np.ascontiguousarray(np.where(behind > 0, np.minimum(sums, 1.0), 1.0))


@kernel
def bits(state: Any) -> Any:
    """64 random bits; advances ``state``."""
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    total = s0 + s3
    result = ((total << np.uint64(23)) | (total >> np.uint64(41))) + s0
    t = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= t
    s3 = (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3
    return result


@kernel
def uniform(state: Any) -> Any:
    """A float uniform on [0, 1), a multiple of 2^-53; advances ``state``."""
    return np.float64(bits(state) >> np.uint64(11)) * UNIT


@kernel
def pick(cumulative: Any, u: Any) -> Any:
    """The first index whose cumulative probability (from ``cumulative``) exceeds u."""
    n = cumulative.size
    for i in range(n - 1):
        if u < cumulative[i]:
            return i
    return n - 1
