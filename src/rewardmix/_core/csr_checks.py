"""Validate CSR arrays before compiled kernels index into them: kernels do not check bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rewardmix._core.checks import (
    as_array,
    as_instance,
    first_index,
    format_index,
    mark_readonly,
    out_of_range_mask,
    raise_input_error,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_array

CSR_ARRAYS = ("data", "indices", "indptr")
"""Arrays of a CSR matrix: entries, their columns, and the offset of each row."""


def make_csr(argument: str, data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> csr_array:
    """Make a CSR matrix of this shape from arrays; raise InputError unless they fit together."""
    from scipy.sparse import csr_array

    data, indices, indptr = (as_array(argument, array) for array in (data, indices, indptr))
    _check_csr_arrays(argument, data, indices, indptr, shape, axes=1)
    return csr_array((data, indices, indptr), shape=shape)


def check_sparse(argument: str, matrix: Any) -> Any:
    """Return a sparse array of any format; raise InputError unless its arrays fit together."""
    if matrix.ndim != 2:
        raise_input_error(argument, f"{matrix.ndim} axes", "rows and columns")
    # SciPy does not check indices when arrays are assigned after construction, and its own compiled loops trust them.
    if matrix.format in ("csr", "csc", "bsr"):
        shape = matrix.shape if matrix.format == "csr" else matrix.shape[::-1]
        if matrix.format == "bsr":
            blocks = np.shape(matrix.data)
            height, width = blocks[1:] if len(blocks) == 3 else (0, 0)
            if height < 1 or width < 1:
                raise_input_error(argument, f"blocks of shape {blocks}", "blocks of at least one row and column")
            shape = matrix.shape[0] // height, matrix.shape[1] // width
        for name in CSR_ARRAYS:
            as_instance(f"{argument}.{name}", getattr(matrix, name), np.ndarray)
        _check_csr_arrays(
            argument, matrix.data, matrix.indices, matrix.indptr, shape, axes=3 if matrix.format == "bsr" else 1
        )
    if matrix.format == "coo":
        for coordinates, count in zip((matrix.row, matrix.col), matrix.shape, strict=True):
            _check_indices(argument, as_instance(argument, coordinates, np.ndarray), np.size(matrix.data), count)
    return matrix


def mark_csr_readonly(rows: csr_array) -> csr_array:
    """Mark the arrays of a CSR matrix as read-only; return the matrix."""
    for name in CSR_ARRAYS:
        setattr(rows, name, mark_readonly(getattr(rows, name)))
    return rows


def _check_csr_arrays(
    argument: str, data: Any, indices: Any, indptr: Any, shape: tuple[int, int], *, axes: int
) -> None:
    """Raise InputError unless data, indices and indptr form a CSR matrix of this shape."""
    dtype = data.dtype
    # Types that NumPy stores natively in at most 8 bytes: conversion to float64 is then defined for every entry.
    is_numeric = dtype.kind in "fiub" and dtype.isnative and dtype.itemsize <= 8 and dtype != np.float16
    if data.ndim != axes or not is_numeric:
        expected = "a list of numbers" if axes == 1 else "a list of blocks of numbers"
        raise_input_error(f"{argument}.data", f"shape {data.shape} of {data.dtype}", expected)
    if indptr.shape != (shape[0] + 1,) or indptr.dtype.kind not in "iu":
        raise_input_error(
            f"{argument}.indptr", f"shape {indptr.shape} of {indptr.dtype}", f"{shape[0] + 1} whole numbers"
        )
    if indptr[0] != 0 or indptr[-1] != data.shape[0] or (indptr[1:] < indptr[:-1]).any():
        raise_input_error(
            f"{argument}.indptr",
            "values that do not increase from row to row",
            f"0 to {data.shape[0]}, never decreasing",
        )
    _check_indices(f"{argument}.indices", indices, data.shape[0], shape[1])


def _check_indices(argument: str, indices: Any, size: int, count: int) -> None:
    """Raise InputError unless there are ``size`` integer indices below ``count``."""
    if indices.shape != (size,) or indices.dtype.kind not in "iu":
        raise_input_error(
            argument, f"shape {indices.shape} of {indices.dtype}", f"{size} whole numbers, one for each entry"
        )
    bad = out_of_range_mask(indices, 0, count)
    if bad is not None:
        raise_input_error(
            format_index(argument, first_index(bad)), int(indices[first_index(bad)]), f"a column from 0 to {count - 1}"
        )
