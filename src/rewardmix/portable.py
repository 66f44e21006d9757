"""Arithmetic that gives the same bits on every machine.

Additions, multiplications, divisions and square roots are rounded the same everywhere; what differs between machines
is their order and what is built from them. BLAS and LAPACK choose both by the CPU, NumPy has its exponentials and
logarithms for each width of vectors, the C library those with and without fused multiply-add, and the built-in ``sum``
compensates since Python 3.12. Whatever decides or is stored uses the functions here instead: sums from left to right.
"""

from __future__ import annotations

from typing import Any

from rewardmix._kernels import kernel


@kernel
def dot(left: Any, right: Any) -> Any:
    """sum_i left_i right_i, from left to right."""
    total = 0.0
    for i in range(left.size):
        total += left[i] * right[i]
    return total
