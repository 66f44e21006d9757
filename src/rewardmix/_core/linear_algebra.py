"""Compute products, solutions of equations and eigenvectors with a fixed order of summation.

Every sum runs from left to right, so results have equal bits on every machine (see ``portable_math``). Vector
instructions work on several sums at once, not on several terms of one sum.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rewardmix._core.checks import Floats
from rewardmix._core.jit import kernel, lazy_jit

COLUMN_BLOCK, ROW_BLOCK = 512, 16
"""Columns and rows of a right factor that are processed at once, chosen to fit into the processor's cache."""

DENSE_EIGEN_SIZE = 48
"""Largest matrix whose eigenvectors are all computed, also if only a few are requested."""

KRYLOV_DEPTH = 8
"""Products with the matrix between two restarts of the Krylov iteration."""

MAX_RESTARTS = 200
"""Maximum number of restarts."""

_MIN_OUTER_TERMS, _MAX_OUTER_SIZE = 8, 50_000
"""Limits of the form that accumulates all outer products in one NumPy call.

It is used for more products than the first number, with fewer entries in total than the second.
"""


@lazy_jit(lambda left, right: 5 + left.size // 5)
def dot(left: Any, right: Any) -> Any:
    """Compute sum_i left_i right_i from left to right."""
    total = 0.0
    for i in range(left.size):
        total += left[i] * right[i]
    return total


def product(left: Any, right: Any) -> Floats:
    """Compute ``left @ right`` for left (..., K) and right (K,) or (K, N), every sum from left to right."""
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


def _times_vector_numpy(left: Any, right: Any, out: Any) -> None:
    """Compute ``times_vector`` with NumPy, whose ``accumulate`` adds from left to right."""
    out[:] = 0.0
    if right.size:
        out += np.add.accumulate(left * right, axis=1)[:, -1]  # adding to 0 turns -0 into 0, as the compiled loop does


@lazy_jit(lambda left, right, out: 5 + left.size // 200, numpy_impl=_times_vector_numpy)
def times_vector(left: Any, right: Any, out: Any) -> None:
    """Compute out = left right for a vector."""
    for i in range(left.shape[0]):
        out[i] = dot(left[i], right)


def _times_matrix_numpy(left: Any, right: Any, out: Any) -> None:
    """Compute ``times_matrix`` with NumPy by adding outer products, which sums in the order of the kernel."""
    out[:] = 0.0
    if right.shape[0] > _MIN_OUTER_TERMS and left.size * right.shape[1] < _MAX_OUTER_SIZE:
        out += np.add.accumulate(left.T[:, :, None] * right[:, None, :], axis=0)[-1]
        return
    for k in range(right.shape[0]):
        out += left[:, k : k + 1] * right[k]


def _times_matrix_cost(left: Any, right: Any, out: Any) -> int:
    """Estimate the cost of ``times_matrix`` in NumPy, in Python steps."""
    depth: int = right.shape[0]
    steps: int = 5 + depth * out.size // 200 if depth > _MIN_OUTER_TERMS else depth * (1 + out.size // 1000)
    return steps


@lazy_jit(_times_matrix_cost, numpy_impl=_times_matrix_numpy)
def times_matrix(left: Any, right: Any, out: Any) -> None:
    """Compute out = left right by adding multiples of the rows of ``right``.

    Vector instructions then run along a row and do not change the order of any sum.
    """
    out[:] = 0.0
    # A block of 16 x 512 entries of ``right`` (64 KB) stays in the cache for all rows of ``left``; two rows at once
    # halve the loads. Blocks go through k in increasing order, so each sum still runs from left to right.
    for begin in range(0, right.shape[1], COLUMN_BLOCK):
        end = min(begin + COLUMN_BLOCK, right.shape[1])
        for low in range(0, right.shape[0], ROW_BLOCK):
            high = min(low + ROW_BLOCK, right.shape[0])
            for i in range(0, left.shape[0] - 1, 2):
                row0, row1 = out[i, begin:end], out[i + 1, begin:end]
                _add_rows(left[i], left[i + 1], right, low, high, begin, end, row0, row1)
            if left.shape[0] % 2:
                _add_rows_single(left[-1], right, low, high, begin, end, out[-1, begin:end])


@kernel
def _add_rows(
    left: Any, other: Any, right: Any, low: Any, high: Any, begin: Any, end: Any, out0: Any, out1: Any
) -> None:
    """Add left_k right_k to ``out0`` and other_k right_k to ``out1``, k from low to high, four at a time."""
    k = low
    while k + 4 <= high:
        a, b, c, d = left[k], left[k + 1], left[k + 2], left[k + 3]
        e, f, g, h = other[k], other[k + 1], other[k + 2], other[k + 3]
        ra, rb = right[k, begin:end], right[k + 1, begin:end]  # contiguous slices, which vectorize
        rc, rd = right[k + 2, begin:end], right[k + 3, begin:end]
        # The parentheses fix the order of summation: four terms per pass save loads and stores, not additions.
        for j in range(out0.size):
            out0[j] = (((out0[j] + a * ra[j]) + b * rb[j]) + c * rc[j]) + d * rd[j]
            out1[j] = (((out1[j] + e * ra[j]) + f * rb[j]) + g * rc[j]) + h * rd[j]
        k += 4
    _add_rows_single(left, right, k, high, begin, end, out0)
    _add_rows_single(other, right, k, high, begin, end, out1)


@kernel
def _add_rows_single(left: Any, right: Any, low: Any, high: Any, begin: Any, end: Any, out: Any) -> None:
    """Add left_k right_k to ``out``, k from low to high."""
    for k in range(low, high):
        factor, row = left[k], right[k, begin:end]
        for j in range(out.size):
            out[j] += factor * row[j]


def solve(matrices: Any, right: Any) -> Floats:
    """Solve ``matrices`` (..., n, n) x = ``right`` (..., n) by Gaussian elimination with partial pivoting."""
    work = np.array(matrices, dtype=np.float64, order="C")
    out = np.array(right, dtype=np.float64, order="C")
    size = work.shape[-1]
    _eliminate(work.reshape(-1, size, size), out.reshape(-1, size))
    return out


@lazy_jit(lambda matrices, out: 5 + matrices.size * out.shape[1] // 5)
def _eliminate(matrices: Any, out: Any) -> None:
    """Solve each system in place; the solutions replace ``out``."""
    for system in range(out.shape[0]):
        a, x = matrices[system], out[system]
        n = x.size
        for k in range(n):
            best = k
            for i in range(k + 1, n):
                # Of equal pivots the first row wins, so that ties do not depend on rounding.
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


def inverse_quadratic_forms(matrix: Floats, vectors: Floats) -> Floats:
    """Compute v' matrix^-1 v, shape (C,), for each column v of ``vectors`` (n, C).

    ``matrix`` is symmetric and positive definite.
    """
    factor, columns = np.array(matrix, order="C"), np.array(vectors, order="C")
    _apply_inverse_cholesky(factor, columns)
    return np.asarray((columns * columns).sum(axis=0))


@lazy_jit(lambda a, columns: a.size * (a.shape[0] + columns.shape[1]) // 10)
def _apply_inverse_cholesky(a: Any, columns: Any) -> None:
    """Factor a = L L' (Cholesky) in place; then replace columns by L^-1 columns."""
    n = a.shape[0]
    for k in range(n):
        # Rounding can make the last pivots of a nearly singular matrix negative. The floor keeps the square root
        # defined.
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
    """Compute ((n,) eigenvalues, (n, n) eigenvectors in columns) of a symmetric matrix by Jacobi rotations.

    Eigenvalues increase.
    """
    work, vectors = np.array(matrix, dtype=np.float64, order="C"), np.eye(matrix.shape[0])
    _jacobi_diagonalize(work, vectors)
    # A stable sort keeps equal eigenvalues in the order of their rows.
    order = np.argsort(np.diag(work), kind="stable")
    return np.diag(work)[order], np.ascontiguousarray(vectors[order].T)


@kernel
def _jacobi_diagonalize(a: Any, rows: Any) -> None:
    """Diagonalize ``a`` in place by cyclic Jacobi rotations; ``rows`` become its eigenvectors."""
    n = a.shape[0]
    # Convergence is quadratic: about ten sweeps suffice, 60 is a safe limit. The tolerance is for squares, 1e-16
    # relative.
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
                # The smaller root of t^2 + 2 ratio t - 1 = 0, in the form without cancellation: the rotation is at
                # most 45 degrees.
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


def top_eigenpairs(matrix: Floats, count: int) -> tuple[Floats, Floats]:
    """Compute the ``count`` largest eigenvalues (c,), increasing, and eigenvectors (n, c) of a symmetric matrix.

    Small matrices are diagonalized completely. Larger ones use a block Krylov iteration (Rayleigh-Ritz), restarted from
    the current vectors until the residual is small.
    """
    size = matrix.shape[0]
    count = min(count, size)
    if size <= DENSE_EIGEN_SIZE:
        values, vectors = eigenpairs(matrix)
        return values[size - count :], vectors[:, size - count :]
    # Two extra vectors speed up convergence if the next eigenvalues are close to the requested ones.
    num_vectors = count + 2
    values, vectors = np.zeros(num_vectors), _quasi_random_matrix(size, num_vectors)
    scale = float(np.abs(matrix).sum(axis=1).max())
    for _ in range(MAX_RESTARTS):
        basis = _krylov_basis(matrix, vectors, KRYLOV_DEPTH)
        images = product(matrix, basis)
        values, rotation = eigenpairs(product(basis.T, images))
        leading = rotation[:, -num_vectors:]
        vectors = product(basis, leading)
        residuals = np.abs(product(images, leading) - vectors * values[-num_vectors:])
        residual = residuals[:, num_vectors - count :].max(initial=0.0)
        # The residual is compared with the largest row sum, a bound of the matrix norm that needs no eigenvalue.
        if residual <= 1e-11 * scale:
            break
    return values[-count:], vectors[:, num_vectors - count :]


def _quasi_random_matrix(size: int, count: int) -> Floats:
    """Return (n, c) quasi-random numbers in [-1/2, 1/2), unlikely to be orthogonal to an eigenvector."""
    # A hash of the index (the mixing step of SplitMix64) instead of a generator: no seed, equal on every machine.
    bits = np.arange(1, size * count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    bits ^= bits >> np.uint64(31)
    bits *= np.uint64(0xBF58476D1CE4E5B9)
    return ((bits >> np.uint64(11)).astype(np.float64) * 2.0**-53 - 0.5).reshape(size, count)


def _krylov_basis(matrix: Floats, block: Floats, depth: int) -> Floats:
    """Return an (n, d) orthonormal basis of the block and its products with the matrix."""
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
    """Append the parts of the rows of ``new`` outside the span of ``rows[:used]``; return the new number of rows."""
    for r in range(new.shape[0]):
        if used == rows.shape[0]:
            return used
        row = new[r]
        norm = np.sqrt(dot(row, row))
        # One Gram-Schmidt pass loses orthogonality by cancellation; a second one restores it to rounding error.
        for _ in range(2):
            for k in range(used):
                projection = dot(rows[k], row)
                for j in range(row.size):
                    row[j] -= projection * rows[k, j]
        new_norm = np.sqrt(dot(row, row))
        # A remainder this small is rounding noise: the vector adds nothing to the space.
        if new_norm > 1e-10 * norm:
            for j in range(row.size):
                rows[used, j] = row[j] / new_norm
            used += 1
    return used
