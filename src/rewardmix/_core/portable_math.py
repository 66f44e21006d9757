"""Compute elementary functions with equal bits on every machine.

IEEE 754 fixes the rounding of additions, multiplications, divisions and square roots. What differs between machines is
their order and what is built from them. BLAS and LAPACK choose both by the CPU, NumPy has exponentials and logarithms
for each vector width, the C library has versions with and without fused multiply-add, and the built-in ``sum``
compensates rounding since Python 3.12. Whatever decides or is stored uses the functions here, series with an error
below one unit in the last place unless stated otherwise, and the sums of ``linear_algebra``.
"""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np

from rewardmix._core.checks import Floats
from rewardmix._core.jit import kernel, lazy_jit

LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
"""log(2) in two parts; the first has so few digits that its products with integer exponents are exact."""

HALF_PI = 1.5707963267948966
"""pi / 2."""
QUARTER_PI = 0.7853981633974483
"""pi / 4."""

ROOT_HALF = 0.7071067811865476
"""sqrt(1 / 2)."""


@lazy_jit(lambda x: 10)
def log(x: Any) -> Any:
    """Compute log(x): x = 2^k (1 + f), s = f / (2 + f), log(1 + f) = 2 (s + s^3 / 3 + s^5 / 5 + ...)."""
    if not 0.0 < x < inf:
        return -inf if x == 0.0 else (inf if x == inf else nan)
    k = 0.0
    if x < 2.2250738585072014e-308:  # subnormal: multiply by 2^54
        x *= 18014398509481984.0
        k = -54.0
    bits = np.float64(x).view(np.int64)
    k += (bits >> np.int64(52)) - 1022
    x = np.int64((bits & np.int64(0xFFFFFFFFFFFFF)) | np.int64(1022 << 52)).view(np.float64)  # in [1/2, 1)
    if x < ROOT_HALF:
        x *= 2.0
        k -= 1.0
    # x is now in [sqrt(1/2), sqrt(2)), so |s| <= 0.172 and the terms up to s^23 are enough for float64.
    f = x - 1.0
    s = f / (2.0 + f)
    z = s * s
    tail = 2.0 / 21.0 + z * (2.0 / 23.0)
    tail = 2.0 / 17.0 + z * (2.0 / 19.0 + z * tail)
    tail = 2.0 / 13.0 + z * (2.0 / 15.0 + z * tail)
    tail = 2.0 / 9.0 + z * (2.0 / 11.0 + z * tail)
    tail = z * (2.0 / 3.0 + z * (2.0 / 5.0 + z * (2.0 / 7.0 + z * tail)))
    half = 0.5 * f * f
    # The largest terms k log(2) and f are added last. f^2 / 2 is separated from the series because it is exact enough
    # to correct the rounding of f.
    return k * LN2_HIGH - ((half - (s * (half + tail) + k * LN2_LOW)) - f)


@lazy_jit(lambda x: 10)
def exp(x: Any) -> Any:
    """Compute exp(x): x = k log(2) + r with abs(r) <= log(2) / 2, and the series of exp(r)."""
    if not -746.0 < x < 710.0:
        return 0.0 if x <= -746.0 else (inf if x >= 710.0 else nan)
    k = np.floor(x * 1.4426950408889634 + 0.5)
    high, low = x - k * LN2_HIGH, k * LN2_LOW
    r = high - low
    # The rounding error of r = high - low is added to the series, as its first-order correction.
    lost = (high - r) - low
    p = 1.0 / 6227020800.0
    p = 1.0 / 39916800.0 + r * (1.0 / 479001600.0 + r * p)
    p = 1.0 / 362880.0 + r * (1.0 / 3628800.0 + r * p)
    p = 1.0 / 5040.0 + r * (1.0 / 40320.0 + r * p)
    p = 1.0 / 120.0 + r * (1.0 / 720.0 + r * p)
    p = 1.0 / 6.0 + r * (1.0 / 24.0 + r * p)
    value = 1.0 + (r + (r * r * (0.5 + r * p) + lost))
    # 2^k may overflow or be subnormal where exp(x) is not, so it is applied as two factors in range.
    half = np.floor(k / 2.0)
    return value * exp2_int(half) * exp2_int(k - half)


@kernel
def exp2_int(k: Any) -> Any:
    """Compute 2^k for integers -1022 <= k <= 1023 by writing the exponent bits."""
    return np.int64(np.int64(k + 1023.0) << np.int64(52)).view(np.float64)


@lazy_jit(lambda x: 10)
def log1p(x: Any) -> Any:
    """Compute log(1 + x), to three units in the last place; what is lost in 1 + x is restored as a factor."""
    u = 1.0 + x
    return x if u == 1.0 or u == inf else log(u) * (x / (u - 1.0))


@lazy_jit(lambda x, y: 20)
def power(x: Any, y: Any) -> Any:
    """Compute x^y for x > 0 by the logarithm; the relative error grows with the logarithm of the result."""
    return exp(y * log(x))


@lazy_jit(lambda y, x: 10)
def atan2_positive(y: Any, x: Any) -> Any:
    """Compute the angle of the point (x, y), both at least 0, from the first axis, to five units in the last place."""
    if y > x:
        return HALF_PI - arctan(x / y)
    return arctan(y / x) if x > 0.0 else 0.0


@kernel
def arctan(t: Any) -> Any:
    """Compute arctan(t) for 0 <= t <= 1: the angle is halved twice, then the series."""
    for _ in range(2):
        t = t / (1.0 + np.sqrt(1.0 + t * t))
    z = t * t
    p = 1.0 / 21.0 - z * (1.0 / 23.0)
    p = 1.0 / 17.0 - z * (1.0 / 19.0 - z * p)
    p = 1.0 / 13.0 - z * (1.0 / 15.0 - z * p)
    p = 1.0 / 9.0 - z * (1.0 / 11.0 - z * p)
    p = 1.0 / 5.0 - z * (1.0 / 7.0 - z * p)
    return 4.0 * (t - t * z * (1.0 / 3.0 - z * p))


@lazy_jit(lambda t: 10)
def sin(t: Any) -> Any:
    """Compute sin(t) for 0 <= t <= pi / 2, to two units in the last place."""
    if t > QUARTER_PI:
        # Above pi / 4 the series of the cosine of the complement converges faster.
        z = (HALF_PI - t) * (HALF_PI - t)
        p = 1.0 / 6402373705728000.0
        p = 1.0 / 87178291200.0 - z * (1.0 / 20922789888000.0 - z * p)
        p = 1.0 / 3628800.0 - z * (1.0 / 479001600.0 - z * p)
        p = 1.0 / 24.0 - z * (1.0 / 720.0 - z * (1.0 / 40320.0 - z * p))
        return 1.0 - (0.5 * z - z * z * p)
    z = t * t
    p = 1.0 / 355687428096000.0 - z / 121645100408832000.0
    p = 1.0 / 6227020800.0 - z * (1.0 / 1307674368000.0 - z * p)
    p = 1.0 / 362880.0 - z * (1.0 / 39916800.0 - z * p)
    p = 1.0 / 6.0 - z * (1.0 / 120.0 - z * (1.0 / 5040.0 - z * p))
    return t - t * z * p


def log_array(values: Any) -> Floats:
    """Compute ``log`` of every number; log(0) is -inf, without a warning."""
    flat, shape = _flatten(values)
    _log_inplace(flat)
    return flat.reshape(shape)


def exp_array(values: Any) -> Floats:
    """Compute ``exp`` of every number."""
    flat, shape = _flatten(values)
    _exp_inplace(flat)
    return flat.reshape(shape)


def sin_array(values: Any) -> Floats:
    """Compute ``sin`` of every number."""
    flat, shape = _flatten(values)
    _sin_inplace(flat)
    return flat.reshape(shape)


def atan2_array(y: Any, x: Any) -> Floats:
    """Compute the angle of every point (x, y)."""
    flat, shape = _flatten(y)
    _atan2_inplace(flat, _flatten(x)[0])
    return flat.reshape(shape)


def _flatten(values: Any) -> tuple[Floats, tuple[int, ...]]:
    """Return a flat copy and the shape."""
    array = np.array(values, dtype=np.float64, order="C")
    return array.reshape(-1), array.shape


@kernel
def _log_inplace(values: Any) -> None:
    """Apply ``log`` in place."""
    for i in range(values.size):
        values[i] = log(values[i])


@lazy_jit(lambda values: 4 * values.size)
def _exp_inplace(values: Any) -> None:
    """Apply ``exp`` in place."""
    for i in range(values.size):
        values[i] = exp(values[i])


@lazy_jit(lambda values: 4 * values.size)
def _sin_inplace(values: Any) -> None:
    """Apply ``sin`` in place."""
    for i in range(values.size):
        values[i] = sin(values[i])


@lazy_jit(lambda values, x: 4 * values.size)
def _atan2_inplace(values: Any, x: Any) -> None:
    """Replace y by the angle of (x, y), in place."""
    for i in range(values.size):
        values[i] = atan2_positive(values[i], x[i])
