"""Sparse rows from parts that nobody vouches for: compiled code follows their indices without looking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rewardmix._core.checks import as_array, as_instance, at, first, outside, refuse, shut

if TYPE_CHECKING:
    from scipy.sparse import csr_array

ROW_PARTS = ("data", "indices", "indptr")
"""The arrays of compressed rows: entries, their columns, and where each row begins."""


def rows_of(argument: str, data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> csr_array:
    """Compressed sparse rows of this shape, once their parts are known to fit together."""
    from scipy.sparse import csr_array

    data, indices, indptr = (as_array(argument, part) for part in (data, indices, indptr))
    _check_parts(argument, data, indices, indptr, shape, axes=1)
    return csr_array((data, indices, indptr), shape=shape)


def checked(argument: str, given: Any) -> Any:
    """A sparse array of any format whose parts fit together."""
    if given.ndim != 2:
        refuse(argument, f"{given.ndim} axes", "rows and columns")
    if given.format in ("csr", "csc", "bsr"):
        shape = given.shape if given.format == "csr" else given.shape[::-1]
        if given.format == "bsr":
            blocks = np.shape(given.data)
            height, width = blocks[1:] if len(blocks) == 3 else (0, 0)
            if height < 1 or width < 1:
                refuse(argument, f"blocks of shape {blocks}", "blocks of at least one row and column")
            shape = given.shape[0] // height, given.shape[1] // width
        for part in ROW_PARTS:
            as_instance(f"{argument}.{part}", getattr(given, part), np.ndarray)
        _check_parts(argument, given.data, given.indices, given.indptr, shape, axes=3 if given.format == "bsr" else 1)
    if given.format == "coo":
        for coordinates, count in zip((given.row, given.col), given.shape, strict=True):
            _check_indices(argument, as_instance(argument, coordinates, np.ndarray), np.size(given.data), count)
    return given


def close(rows: csr_array) -> csr_array:
    """``rows`` themselves, closed for writing."""
    for name in ROW_PARTS:
        setattr(rows, name, shut(getattr(rows, name)))
    return rows


def _check_parts(argument: str, data: Any, indices: Any, indptr: Any, shape: tuple[int, int], *, axes: int) -> None:
    held = data.dtype.kind in "fiub" and data.dtype.isnative and data.dtype.itemsize <= 8 and data.dtype != np.float16
    if data.ndim != axes or not held:
        wanted = "a list of numbers" if axes == 1 else "a list of blocks of numbers"
        refuse(f"{argument}.data", f"shape {data.shape} of {data.dtype}", wanted)
    if indptr.shape != (shape[0] + 1,) or indptr.dtype.kind not in "iu":
        refuse(f"{argument}.indptr", f"shape {indptr.shape} of {indptr.dtype}", f"{shape[0] + 1} whole numbers")
    if indptr[0] != 0 or indptr[-1] != data.shape[0] or (indptr[1:] < indptr[:-1]).any():
        refuse(f"{argument}.indptr", "rows that do not follow on each other", f"0 to {data.shape[0]}, never falling")
    _check_indices(f"{argument}.indices", indices, data.shape[0], shape[1])


def _check_indices(argument: str, indices: Any, size: int, count: int) -> None:
    if indices.shape != (size,) or indices.dtype.kind not in "iu":
        refuse(argument, f"shape {indices.shape} of {indices.dtype}", f"{size} whole numbers, one for each entry")
    bad = outside(indices, 0, count)
    if bad is not None:
        refuse(at(argument, first(bad)), int(indices[first(bad)]), f"a column from 0 to {count - 1}")
