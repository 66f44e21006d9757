"""Products, equations and eigenvectors in a fixed order: the same bits on every machine (see ``portable``).

Every sum goes from left to right. Vector instructions work on several sums at once, never on several parts of one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rewardmix._core.checks import Floats
from rewardmix._core.jit import deferred, kernel

TILE, DEEP = 512, 16
"""Columns and rows of a right factor that are worked on at once: they stay in fast memory."""

WHOLE = 48
"""Up to so many rows all eigenvectors are found, also where few are asked for."""

DEPTH = 8
"""Products with the matrix between two restarts."""

RESTARTS = 200
"""At most."""

_MANY, _SMALL = 8, 50_000
"""More outer products than the first, of fewer numbers than the second in all, are accumulated in one go."""


@deferred(lambda left, right: 5 + left.size // 5)
def dot(left: Any, right: Any) -> Any:
    """sum_i left_i right_i, from left to right."""
    total = 0.0
    for i in range(left.size):
        total += left[i] * right[i]
    return total


def product(left: Any, right: Any) -> Floats:
    """``left @ right`` for left (..., K) and right (K,) or (K, N), every sum from left to right."""
    rows = np.ascontiguousarray(left, dtype=np.float64)
    columns = np.ascontiguousarray(right, dtype=np.float64)
    shape = rows.shape[:-1] + columns.shape[1:]
    flat = rows.reshape(math.prod(rows.shape[:-1]), rows.shape[-1])
    if columns.ndim == 1:
        vector = np.empty(flat.shape[0])
        times_vector(flat, columns, vector)
        return vector.reshape(shape)
    out = np.empty((flat.shape[0], columns.shape[1]))
    times_matrix(flat, columns, out)
    return out.reshape(shape)


def _add_up(left: Any, right: Any, out: Any) -> None:
    """``times_vector`` by NumPy, which accumulates from left to right."""
    out[:] = 0.0
    if right.size:
        out += np.add.accumulate(left * right, axis=1)[:, -1]  # added to 0, as a loop has it: -0 becomes 0


@deferred(lambda left, right, out: 5 + left.size // 200, play=_add_up)
def times_vector(left: Any, right: Any, out: Any) -> None:
    """out = left right, for a vector."""
    for i in range(left.shape[0]):
        out[i] = dot(left[i], right)


def _add_outer(left: Any, right: Any, out: Any) -> None:
    """``times_matrix`` by NumPy, one outer product after the other: sums in the same order."""
    out[:] = 0.0
    if right.shape[0] > _MANY and left.size * right.shape[1] < _SMALL:
        out += np.add.accumulate(left.T[:, :, None] * right[:, None, :], axis=0)[-1]
        return
    for k in range(right.shape[0]):
        out += left[:, k : k + 1] * right[k]


def _steps_to_add(left: Any, right: Any, out: Any) -> int:
    depth: int = right.shape[0]
    taken: int = 5 + depth * out.size // 200 if depth > _MANY else depth * (1 + out.size // 1000)
    return taken


@deferred(_steps_to_add, play=_add_outer)
def times_matrix(left: Any, right: Any, out: Any) -> None:
    """out = left right: rows of ``right`` are added up, which vector instructions do without changing the order."""
    out[:] = 0.0
    for begin in range(0, right.shape[1], TILE):
        end = min(begin + TILE, right.shape[1])
        for low in range(0, right.shape[0], DEEP):
            high = min(low + DEEP, right.shape[0])
            for i in range(0, left.shape[0] - 1, 2):
                one, two = out[i, begin:end], out[i + 1, begin:end]
                _add_rows(left[i], left[i + 1], right, low, high, begin, end, one, two)
            if left.shape[0] % 2:
                _add_rows_to_one(left[-1], right, low, high, begin, end, out[-1, begin:end])


@kernel
def _add_rows(left: Any, other: Any, right: Any, low: Any, high: Any, begin: Any, end: Any, one: Any, two: Any) -> None:
    """Add left_k right_k to ``one`` and other_k right_k to ``two``, k from low to high, four at a time."""
    k = low
    while k + 4 <= high:
        a, b, c, d = left[k], left[k + 1], left[k + 2], left[k + 3]
        e, f, g, h = other[k], other[k + 1], other[k + 2], other[k + 3]
        ra, rb = right[k, begin:end], right[k + 1, begin:end]  # one piece of memory, seen to be one
        rc, rd = right[k + 2, begin:end], right[k + 3, begin:end]
        for j in range(one.size):
            one[j] = (((one[j] + a * ra[j]) + b * rb[j]) + c * rc[j]) + d * rd[j]
            two[j] = (((two[j] + e * ra[j]) + f * rb[j]) + g * rc[j]) + h * rd[j]
        k += 4
    _add_rows_to_one(left, right, k, high, begin, end, one)
    _add_rows_to_one(other, right, k, high, begin, end, two)


@kernel
def _add_rows_to_one(left: Any, right: Any, low: Any, high: Any, begin: Any, end: Any, out: Any) -> None:
    """Add left_k right_k to ``out``, k from low to high."""
    for k in range(low, high):
        factor, row = left[k], right[k, begin:end]
        for j in range(out.size):
            out[j] += factor * row[j]


def solve(matrices: Any, right: Any) -> Floats:
    """The solutions of ``matrices`` (..., n, n) x = ``right`` (..., n), by elimination with the largest pivots."""
    work = np.array(matrices, dtype=np.float64, order="C")
    out = np.array(right, dtype=np.float64, order="C")
    size = work.shape[-1]
    _eliminate(work.reshape(-1, size, size), out.reshape(-1, size))
    return out


@deferred(lambda matrices, out: 5 + matrices.size * out.shape[1] // 5)
def _eliminate(matrices: Any, out: Any) -> None:
    for which in range(out.shape[0]):
        a, x = matrices[which], out[which]
        n = x.size
        for k in range(n):
            best = k
            for i in range(k + 1, n):
                if abs(a[i, k]) > abs(a[best, k]):
                    best = i
            if best != k:
                for j in range(k, n):
                    a[k, j], a[best, j] = a[best, j], a[k, j]
                x[k], x[best] = x[best], x[k]
            for i in range(k + 1, n):
                factor = a[i, k] / a[k, k]
                for j in range(k + 1, n):
                    a[i, j] -= factor * a[k, j]
                x[i] -= factor * x[k]
        for k in range(n - 1, -1, -1):
            total = x[k]
            for j in range(k + 1, n):
                total -= a[k, j] * x[j]
            x[k] = total / a[k, k]


def inverse_forms(matrix: Floats, vectors: Floats) -> Floats:
    """(C,): v' matrix^-1 v of each column v of ``vectors`` (n, C); ``matrix`` is symmetric and positive definite."""
    factor, columns = np.array(matrix, order="C"), np.array(vectors, order="C")
    _whiten(factor, columns)
    return np.asarray((columns * columns).sum(axis=0))


@deferred(lambda a, columns: a.size * (a.shape[0] + columns.shape[1]) // 10)
def _whiten(a: Any, columns: Any) -> None:
    """Cholesky: a = L L'; then columns become L^-1 columns."""
    n = a.shape[0]
    for k in range(n):
        root = np.sqrt(max(a[k, k], 1e-300))
        for j in range(k, n):  # row k of L'
            a[k, j] /= root
        for i in range(k + 1, n):
            factor = a[k, i]
            if factor != 0.0:
                row, top = a[i, i:], a[k, i:]
                for j in range(row.size):
                    row[j] -= factor * top[j]
        for c in range(columns.shape[1]):
            columns[k, c] /= root
        for i in range(k + 1, n):
            factor = a[k, i]
            if factor != 0.0:
                row, top = columns[i], columns[k]
                for c in range(row.size):
                    row[c] -= factor * top[c]


def eigenpairs(matrix: Floats) -> tuple[Floats, Floats]:
    """((n,) values, (n, n) vectors in columns) of a symmetric matrix, values increasing, by Jacobi's rotations."""
    work, vectors = np.array(matrix, dtype=np.float64, order="C"), np.eye(matrix.shape[0])
    _rotate(work, vectors)
    order = np.argsort(np.diag(work), kind="stable")
    return np.diag(work)[order], np.ascontiguousarray(vectors[order].T)


@kernel
def _rotate(a: Any, rows: Any) -> None:
    """Turn ``a`` into a diagonal; ``rows`` become its eigenvectors."""
    n = a.shape[0]
    for _ in range(60):
        off, size = 0.0, 0.0
        for i in range(n):
            size += a[i, i] * a[i, i]
            for j in range(i + 1, n):
                off += a[i, j] * a[i, j]
        if off <= 1e-32 * size:
            return
        for p in range(n - 1):
            for q in range(p + 1, n):
                if a[p, q] == 0.0:
                    continue
                ratio = (a[q, q] - a[p, p]) / (2.0 * a[p, q])
                t = 1.0 / (abs(ratio) + np.sqrt(1.0 + ratio * ratio))
                t = -t if ratio < 0.0 else t
                c = 1.0 / np.sqrt(1.0 + t * t)
                s = t * c
                for k in range(n):
                    a[k, p], a[k, q] = c * a[k, p] - s * a[k, q], s * a[k, p] + c * a[k, q]
                for k in range(n):
                    a[p, k], a[q, k] = c * a[p, k] - s * a[q, k], s * a[p, k] + c * a[q, k]
                for k in range(n):
                    rows[p, k], rows[q, k] = c * rows[p, k] - s * rows[q, k], s * rows[p, k] + c * rows[q, k]


def leading_eigenpairs(matrix: Floats, count: int) -> tuple[Floats, Floats]:
    """((c,) values, (n, c) vectors) of the ``count`` largest eigenvalues of a symmetric matrix, increasing.

    Small matrices whole, others in the space of a few vectors and their products with the matrix, begun again from
    what was found until the vectors stay.
    """
    size = matrix.shape[0]
    count = min(count, size)
    if size <= WHOLE:
        values, vectors = eigenpairs(matrix)
        return values[size - count :], vectors[:, size - count :]
    few = count + 2
    values, vectors = np.zeros(few), _scattered(size, few)
    scale = float(np.abs(matrix).sum(axis=1).max())
    for _ in range(RESTARTS):
        basis = _krylov(matrix, vectors, DEPTH)
        images = product(matrix, basis)
        values, turned = eigenpairs(product(basis.T, images))
        best = turned[:, -few:]
        vectors = product(basis, best)
        off = np.abs(product(images, best) - vectors * values[-few:])[:, few - count :].max(initial=0.0)
        if off <= 1e-11 * scale:
            break
    return values[-count:], vectors[:, few - count :]


def _scattered(size: int, count: int) -> Floats:
    """(n, c) numbers in [-1/2, 1/2) without a pattern that a matrix could be blind for."""
    whole = np.arange(1, size * count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    whole ^= whole >> np.uint64(31)
    whole *= np.uint64(0xBF58476D1CE4E5B9)
    return ((whole >> np.uint64(11)).astype(np.float64) * 2.0**-53 - 0.5).reshape(size, count)


def _krylov(matrix: Floats, block: Floats, depth: int) -> Floats:
    """(n, d) orthonormal basis of the block and its products with the matrix."""
    rows = np.zeros((min(block.shape[1] * depth, matrix.shape[0]), matrix.shape[0]))
    used, new = 0, np.ascontiguousarray(block.T)
    for _ in range(depth):
        before = used
        used = int(_append_orthonormal(new, rows, used))
        if used == before or used == rows.shape[0]:
            break
        new = np.ascontiguousarray(product(matrix, np.ascontiguousarray(rows[before:used].T)).T)
    return np.ascontiguousarray(rows[:used].T)


@kernel
def _append_orthonormal(new: Any, rows: Any, used: Any) -> Any:
    """Put what ``new`` rows add to the space behind the ``used`` orthonormal rows; how many there are then."""
    for r in range(new.shape[0]):
        if used == rows.shape[0]:
            return used
        row = new[r]
        before = np.sqrt(dot(row, row))
        for _ in range(2):
            for k in range(used):
                share = dot(rows[k], row)
                for j in range(row.size):
                    row[j] -= share * rows[k, j]
        length = np.sqrt(dot(row, row))
        if length > 1e-10 * before:
            for j in range(row.size):
                rows[used, j] = row[j] / length
            used += 1
    return used
