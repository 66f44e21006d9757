"""Binomial and multinomial draws for any number of trials up to 2^53, from a stream kept in an array.

Up to about ten expected successes (or failures) by inversion. Above, by transformed rejection (BTRS, Hörmann 1993). Its
acceptance test needs the ratio of two binomial probabilities; taken from log-factorials it would lose all digits at
1e12 trials, so it is computed in Loader's saddle-point form (2000), whose terms are of the size of the answer.
"""

from __future__ import annotations

import math
from typing import Any

from rewardmix._core.jit import kernel
from rewardmix._core.portable import exp, log, log1p
from rewardmix._core.xoshiro import uniform_draw

INVERTED = 10.0
"""Fewer expected successes than this are drawn by inversion."""

HALF_LOG_2_PI = 0.9189385332046727


@kernel
def stirling_error(n: Any) -> Any:
    """log(n!) - log(sqrt(2 pi n) (n/e)^n)."""
    if n < 16:
        if n < 1:
            return 0.0
        product = 1.0  # n!, a whole number that is exact
        for i in range(2, int(n) + 1):
            product *= i
        return log(product) - (n + 0.5) * log(n) + n - HALF_LOG_2_PI
    square = 1.0 / (n * n)
    return (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / n


@kernel
def deviance(x: Any, mean: Any) -> Any:
    """x log(x / mean) + mean - x, accurately where x is close to the mean."""
    off = x - mean
    if abs(off) < 0.1 * (x + mean):
        ratio = off / (x + mean)
        total = off * ratio
        term, square, j = 2.0 * x * ratio, ratio * ratio, 1
        while j < 1000:
            term *= square
            more = total + term / (2 * j + 1)
            if more == total:
                break
            total, j = more, j + 1
        return total
    return x * log(x / mean) - off if x > 0 else mean


@kernel
def log_binomial(k: Any, n: Any, p: Any) -> Any:
    """log of the binomial probability, up to a constant that depends on n alone; 0 <= k <= n, 0 < p < 1."""
    rest = n - k
    total = -stirling_error(k) - stirling_error(rest) - deviance(k, n * p) - deviance(rest, n * (1.0 - p))
    return total - 0.5 * (log(max(k, 1.0)) + log(max(rest, 1.0))) + _edge(k) + _edge(rest)


@kernel
def _edge(k: Any) -> Any:
    """At k = 0 the square root of 2 pi k is missing from the exact form."""
    return HALF_LOG_2_PI if k < 1 else 0.0


@kernel
def binomial(n: Any, p: Any, stream: Any) -> Any:
    """Successes in n trials."""
    if n <= 0 or p <= 0.0:
        return 0
    if p >= 1.0:
        return n
    if p > 0.5:
        return n - binomial_half(n, 1.0 - p, stream)
    return binomial_half(n, p, stream)


@kernel
def binomial_half(n: Any, p: Any, stream: Any) -> Any:
    """Successes in n trials of probability p <= 1/2."""
    if n * p < INVERTED:
        return by_inversion(n, p, stream)
    spread = math.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    centre, quick = n * p + 0.5, 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * spread
    mode = math.floor((n + 1.0) * p)
    at_mode = log_binomial(mode, n, p)
    while True:
        u, v = uniform_draw(stream) - 0.5, uniform_draw(stream)
        edge = 0.5 - abs(u)
        k = math.floor((2.0 * a / edge + b) * u + centre) if edge > 0 else -1.0
        if edge >= 0.07 and v <= quick:
            return int(k)
        if k < 0 or k > n:
            continue
        if log(v * alpha / (a / (edge * edge) + b)) <= log_binomial(k, n, p) - at_mode:
            return int(k)


@kernel
def by_inversion(n: Any, p: Any, stream: Any) -> Any:
    """Add up probabilities until they exceed a uniform draw."""
    u = uniform_draw(stream)
    odds = p / (1.0 - p)
    probability = exp(n * log1p(-p))
    k = 0
    while u >= probability and k < n:
        u -= probability
        probability *= (n - k) / (k + 1.0) * odds
        k += 1
        if k > 200:  # beyond what rounding leaves of the tail: begin again
            u, k, probability = uniform_draw(stream), 0, exp(n * log1p(-p))
    return k


@kernel
def multinomial(n: Any, probabilities: Any, tails: Any, stream: Any, out: Any) -> None:
    """Split n over the outcomes; ``tails`` are the sums of the probabilities from each outcome on."""
    left = n
    last = probabilities.size - 1
    for i in range(last):
        if left == 0:
            out[i] = 0
            continue
        share = probabilities[i] / tails[i] if tails[i] > 0 else 0.0
        out[i] = binomial(left, share, stream)
        left -= out[i]
    out[last] = left
