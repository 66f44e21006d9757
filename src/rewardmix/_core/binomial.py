"""Draw binomial and multinomial numbers for up to 2^53 trials, from a stream kept in an array.

Up to about ten expected successes (or failures) are drawn by inversion. Above, by transformed rejection (BTRS, Hörmann
1993). Its acceptance test needs the ratio of two binomial probabilities; computed from log-factorials it would lose all
digits at 1e12 trials, so it uses Loader's saddle-point form (2000), whose terms have the size of the result.
"""

from __future__ import annotations

import math
from typing import Any

from rewardmix._core.jit import kernel
from rewardmix._core.portable_math import exp, log, log1p
from rewardmix._core.xoshiro import uniform_draw

INVERSION_LIMIT = 10.0
"""Fewer expected successes than this are drawn by inversion, whose cost grows with their number."""

HALF_LOG_2_PI = 0.9189385332046727
"""log(2 pi) / 2."""


@kernel
def stirling_error(n: Any) -> Any:
    """Compute log(n!) - log(sqrt(2 pi n) (n/e)^n), the error of Stirling's formula."""
    if n < 16:
        if n < 1:
            return 0.0
        product = 1.0  # n! is exact in float64 for n < 16
        for i in range(2, int(n) + 1):
            product *= i
        return log(product) - (n + 0.5) * log(n) + n - HALF_LOG_2_PI
    # Asymptotic series with Bernoulli numbers; from n = 16 on four terms reach float64 accuracy.
    square = 1.0 / (n * n)
    return (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square / 1680))) / n


@kernel
def deviance(x: Any, mean: Any) -> Any:
    """Compute x log(x / mean) + mean - x, accurately also if x is close to the mean."""
    off = x - mean
    # Near the mean the closed form cancels. The series in ((x - mean) / (x + mean))^2 adds small terms of one sign
    # instead.
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
    """Compute the log of the binomial probability up to a constant that depends on n only; 0 <= k <= n, 0 < p < 1."""
    rest = n - k
    total = -stirling_error(k) - stirling_error(rest) - deviance(k, n * p) - deviance(rest, n * (1.0 - p))
    return total - 0.5 * (log(max(k, 1.0)) + log(max(rest, 1.0))) + _boundary_correction(k) + _boundary_correction(rest)


@kernel
def _boundary_correction(k: Any) -> Any:
    """Return the correction at k = 0, where the exact form has no factor sqrt(2 pi k)."""
    return HALF_LOG_2_PI if k < 1 else 0.0


@kernel
def binomial(n: Any, p: Any, stream: Any) -> Any:
    """Draw the number of successes in n trials."""
    if n <= 0 or p <= 0.0:
        return 0
    if p >= 1.0:
        return n
    # Counting failures instead keeps p <= 1/2, which both methods require.
    if p > 0.5:
        return n - binomial_small_p(n, 1.0 - p, stream)
    return binomial_small_p(n, p, stream)


@kernel
def binomial_small_p(n: Any, p: Any, stream: Any) -> Any:
    """Draw the number of successes in n trials of probability p <= 1/2."""
    if n * p < INVERSION_LIMIT:
        return binomial_by_inversion(n, p, stream)
    std = math.sqrt(n * p * (1.0 - p))
    # Constants of Hörmann's BTRS: the hat function of the transformed rejection and its quick acceptance region.
    b = 1.15 + 2.53 * std
    a = -0.0873 + 0.0248 * b + 0.01 * p
    center, quick = n * p + 0.5, 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * std
    mode = math.floor((n + 1.0) * p)
    at_mode = log_binomial(mode, n, p)
    while True:
        u, v = uniform_draw(stream) - 0.5, uniform_draw(stream)
        edge = 0.5 - abs(u)
        k = math.floor((2.0 * a / edge + b) * u + center) if edge > 0 else -1.0
        # Quick acceptance: most draws end here without evaluating a probability.
        if edge >= 0.07 and v <= quick:
            return int(k)
        if k < 0 or k > n:
            continue
        # Exact test, in logs and relative to the mode, so that neither probability can underflow.
        if log(v * alpha / (a / (edge * edge) + b)) <= log_binomial(k, n, p) - at_mode:
            return int(k)


@kernel
def binomial_by_inversion(n: Any, p: Any, stream: Any) -> Any:
    """Draw by adding up probabilities until they exceed a uniform number."""
    u = uniform_draw(stream)
    odds = p / (1.0 - p)
    # (1 - p)^n in logs: 1 - p loses the digits of a small p, and the result is not below e^-14, far from underflow.
    probability = exp(n * log1p(-p))
    k = 0
    while u >= probability and k < n:
        u -= probability
        probability *= (n - k) / (k + 1.0) * odds
        k += 1
        if k > 200:  # rounding has used up the tail: draw again
            u, k, probability = uniform_draw(stream), 0, exp(n * log1p(-p))
    return k


@kernel
def multinomial(n: Any, probabilities: Any, tails: Any, stream: Any, out: Any) -> None:
    """Split n over the outcomes; ``tails`` are the sums of the probabilities from each outcome on."""
    remaining = n
    last = probabilities.size - 1
    for i in range(last):
        if remaining == 0:
            out[i] = 0
            continue
        # Conditional binomials: outcome i takes its part of the trials that earlier outcomes left.
        share = probabilities[i] / tails[i] if tails[i] > 0 else 0.0
        out[i] = binomial(remaining, share, stream)
        remaining -= out[i]
    out[last] = remaining
