"""Arithmetic that gives the same bits on every machine.

Additions, multiplications, divisions and square roots are rounded the same everywhere; what differs between machines
is their order and what is built from them. BLAS and LAPACK choose both by the CPU, NumPy has its exponentials and
logarithms for each width of vectors, the C library those with and without fused multiply-add, and the built-in ``sum``
compensates since Python 3.12. Whatever decides or is stored uses the functions here, series that are wrong by less than
one unit in the last place where nothing else is said, and the sums of ``algebra``.
"""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np

from rewardmix._core.checks import Floats
from rewardmix._core.jit import deferred, kernel

LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
"""log(2) in two parts; the first has so few digits that its products with whole exponents are exact."""

HALF_PI = 1.5707963267948966
QUARTER_PI = 0.7853981633974483

ROOT_HALF = 0.7071067811865476


@deferred(lambda x: 10)
def log(x: Any) -> Any:
    """Natural logarithm: x = 2^k (1 + f), s = f / (2 + f), log(1 + f) = 2 (s + s^3 / 3 + s^5 / 5 + ...)."""
    if not 0.0 < x < inf:
        return -inf if x == 0.0 else (inf if x == inf else nan)
    k = 0.0
    if x < 2.2250738585072014e-308:  # no leading bit: scale it up
        x *= 18014398509481984.0
        k = -54.0
    bits = np.float64(x).view(np.int64)
    k += (bits >> np.int64(52)) - 1022
    x = np.int64((bits & np.int64(0xFFFFFFFFFFFFF)) | np.int64(1022 << 52)).view(np.float64)  # in [1/2, 1)
    if x < ROOT_HALF:
        x *= 2.0
        k -= 1.0
    f = x - 1.0
    s = f / (2.0 + f)
    z = s * s
    tail = 2.0 / 21.0 + z * (2.0 / 23.0)
    tail = 2.0 / 17.0 + z * (2.0 / 19.0 + z * tail)
    tail = 2.0 / 13.0 + z * (2.0 / 15.0 + z * tail)
    tail = 2.0 / 9.0 + z * (2.0 / 11.0 + z * tail)
    tail = z * (2.0 / 3.0 + z * (2.0 / 5.0 + z * (2.0 / 7.0 + z * tail)))
    half = 0.5 * f * f
    return k * LN2_HIGH - ((half - (s * (half + tail) + k * LN2_LOW)) - f)


@deferred(lambda x: 10)
def exp(x: Any) -> Any:
    """x = k log(2) + r with \\|r\\| <= log(2) / 2, and the series of r."""
    if not -746.0 < x < 710.0:
        return 0.0 if x <= -746.0 else (inf if x >= 710.0 else nan)
    k = np.floor(x * 1.4426950408889634 + 0.5)
    high, low = x - k * LN2_HIGH, k * LN2_LOW
    r = high - low
    lost = (high - r) - low
    p = 1.0 / 6227020800.0
    p = 1.0 / 39916800.0 + r * (1.0 / 479001600.0 + r * p)
    p = 1.0 / 362880.0 + r * (1.0 / 3628800.0 + r * p)
    p = 1.0 / 5040.0 + r * (1.0 / 40320.0 + r * p)
    p = 1.0 / 120.0 + r * (1.0 / 720.0 + r * p)
    p = 1.0 / 6.0 + r * (1.0 / 24.0 + r * p)
    value = 1.0 + (r + (r * r * (0.5 + r * p) + lost))
    half = np.floor(k / 2.0)
    return value * two_to(half) * two_to(k - half)


@kernel
def two_to(k: Any) -> Any:
    """2^k for whole -1022 <= k <= 1023."""
    return np.int64(np.int64(k + 1023.0) << np.int64(52)).view(np.float64)


@deferred(lambda x: 10)
def log1p(x: Any) -> Any:
    """log(1 + x); what is lost in 1 + x is put back as a factor, so three units in the last place may be wrong."""
    u = 1.0 + x
    return x if u == 1.0 or u == inf else log(u) * (x / (u - 1.0))


@deferred(lambda x, y: 20)
def power(x: Any, y: Any) -> Any:
    """x^y for x > 0, by the logarithm: the larger the result, the fewer digits are right."""
    return exp(y * log(x))


@deferred(lambda y, x: 10)
def angle(y: Any, x: Any) -> Any:
    """The angle of the point (x, y), both at least 0, from the first axis, to five units in the last place."""
    if y > x:
        return HALF_PI - arctan(x / y)
    return arctan(y / x) if x > 0.0 else 0.0


@kernel
def arctan(t: Any) -> Any:
    """arctan of 0 <= t <= 1: halved twice, then the series."""
    for _ in range(2):
        t = t / (1.0 + np.sqrt(1.0 + t * t))
    z = t * t
    p = 1.0 / 21.0 - z * (1.0 / 23.0)
    p = 1.0 / 17.0 - z * (1.0 / 19.0 - z * p)
    p = 1.0 / 13.0 - z * (1.0 / 15.0 - z * p)
    p = 1.0 / 9.0 - z * (1.0 / 11.0 - z * p)
    p = 1.0 / 5.0 - z * (1.0 / 7.0 - z * p)
    return 4.0 * (t - t * z * (1.0 / 3.0 - z * p))


@deferred(lambda t: 10)
def sin(t: Any) -> Any:
    """sin of 0 <= t <= pi / 2, to two units in the last place."""
    if t > QUARTER_PI:
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


def logs(values: Any) -> Floats:
    """``log`` of every number; of 0 it is -inf, without a warning."""
    flat, shape = _flat(values)
    _logs(flat)
    return flat.reshape(shape)


def exps(values: Any) -> Floats:
    """``exp`` of every number."""
    flat, shape = _flat(values)
    _exps(flat)
    return flat.reshape(shape)


def sins(values: Any) -> Floats:
    """``sin`` of every number."""
    flat, shape = _flat(values)
    _sins(flat)
    return flat.reshape(shape)


def angles(y: Any, x: Any) -> Floats:
    """``angle`` of every point."""
    flat, shape = _flat(y)
    _angles(flat, _flat(x)[0])
    return flat.reshape(shape)


def _flat(values: Any) -> tuple[Floats, tuple[int, ...]]:
    """A copy in one row, and the shape."""
    array = np.array(values, dtype=np.float64, order="C")
    return array.reshape(-1), array.shape


@kernel
def _logs(values: Any) -> None:
    for i in range(values.size):
        values[i] = log(values[i])


@deferred(lambda values: 4 * values.size)
def _exps(values: Any) -> None:
    for i in range(values.size):
        values[i] = exp(values[i])


@deferred(lambda values: 4 * values.size)
def _sins(values: Any) -> None:
    for i in range(values.size):
        values[i] = sin(values[i])


@deferred(lambda values, x: 4 * values.size)
def _angles(values: Any, x: Any) -> None:
    for i in range(values.size):
        values[i] = angle(values[i], x[i])
