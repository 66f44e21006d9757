"""Read and write files: safetensors (arrays) with JSON metadata.

A file holds the kind of its object, its schema, the version that wrote it, and the checksum of all of these and of its
arrays. Writing is atomic: a new file is completed next to the old one and replaces it in one step, so a reader finds
the old or the new file, not a part of one. Content is validated when it is read: the format is decoded here, once, into
one read-only buffer, and whatever is invalid raises InputError. The classes that are made of the arrays check what the
arrays mean.

The checksum is CRC-32, of large arrays after folding them. It detects accidents (one flipped bit for certain), not
intent: a file that was changed on purpose, with its checksum, is read if its content is valid.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.budget import check_budget
from rewardmix._core.checks import InputError, quote_value
from rewardmix._version import __version__

FILE_SCHEMA = 3
"""Schema of files. It increases by one when older versions could not read, or would misread, what is written.

Files of other schemas are rejected. 1: no checksum. 2: with a checksum. 3: keys are the names of attributes.
"""

METADATA_KEY = "rewardmix"
"""Metadata key under which all metadata of a file is stored, as JSON."""

DTYPES = {
    name: np.dtype(code)
    for name, code in {"I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "U64": "<u8", "F64": "<f8"}.items()
}
"""Name of an array type in a file -> NumPy type."""

MAX_HEADER_BYTES = 100_000_000
"""Maximum bytes of the header before the arrays; the safetensors library has this limit."""

FOLD, FOLD_ROWS = 1024, 128
"""Columns of the table into which a checksum lays out content, and the number of rows it reads at a time."""

Arrays = dict[str, NDArray[Any]]
Packed = tuple[Arrays, dict[str, Any]]
"""Arrays and metadata of an object."""
_T = TypeVar("_T")


def write_arrays(
    path: str | os.PathLike[str], kind: str, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]
) -> None:
    """Write arrays and JSON metadata as one file, atomically."""
    from safetensors.numpy import save

    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    header = {"kind": kind, "schema": FILE_SCHEMA, "version": __version__, "meta": dict(meta)}
    header["checksum"] = checksum(header, contiguous)
    text = json.dumps(header, allow_nan=False)  # one key: safetensors does not fix the order of several
    write_atomic(path, save(contiguous, metadata={METADATA_KEY: text}))


def read_arrays(path: str | os.PathLike[str], kinds: Sequence[str] | None = None) -> tuple[str, Arrays, dict[str, Any]]:
    """Read a file written by ``write_arrays``; return (kind, arrays, metadata).

    Args:
        path: Path of the file.
        kinds: Kinds of objects that are accepted; None accepts any.

    Raises:
        InputError: If the file is missing, damaged, of another kind or of another schema.
    """
    name = os.fspath(path)
    buffer = _read_bytes(name)
    tensors, metadata, begin = _split_file(name, buffer)
    header = _read_header(name, metadata)
    kind = header["kind"]
    if kinds is not None and kind not in kinds:
        _raise_path_error(name, f"with an object of kind {quote_value(kind)}", f"one of {', '.join(kinds)}")
    arrays = _read_arrays(name, tensors, buffer[begin:])
    if header.get("checksum") != checksum(header, arrays):
        _raise_path_error(name, "whose content does not match its checksum", "an undamaged file")
    return kind, arrays, header["meta"]


def get_metadata(meta: Mapping[str, Any], name: str, kind: type[_T]) -> _T:
    """Return an entry of metadata; raise InputError unless it has this type."""
    value = _table_of(meta, name)[name]
    if type(value) is not kind:
        raise InputError(f"{name}: got {type(value).__name__} in the metadata, expected {kind.__name__}")
    return value


def number_entry(meta: Mapping[str, Any], name: str) -> float:
    """Return an entry of metadata as a float; raise InputError unless it is a finite number."""
    value = _table_of(meta, name)[name]
    if type(value) not in (int, float) or not -sys.float_info.max <= value <= sys.float_info.max:
        raise InputError(f"{name}: got {quote_value(value)} in the metadata, expected a finite number")
    return float(value)


def _table_of(meta: Any, name: str) -> Mapping[str, Any]:
    """Return metadata as a mapping; raise InputError if it is anything else."""
    if not isinstance(meta, Mapping):
        raise InputError(
            f"{name}: got {type(meta).__name__} instead of a table in the metadata, expected a table with this key"
        )
    return meta


def join_packed(packed: Mapping[str, Packed]) -> Packed:
    """Join several packed objects into one; the name of each becomes a prefix of its arrays."""
    arrays = {f"{name}/{key}": array for name, (inner, _) in packed.items() for key, array in inner.items()}
    return arrays, {name: meta for name, (_, meta) in packed.items()}


def select_packed(arrays: Mapping[str, NDArray[Any]], name: str) -> Arrays:
    """Select the arrays of one object from joined ones."""
    return {key.removeprefix(f"{name}/"): array for key, array in arrays.items() if key.startswith(f"{name}/")}


def checksum(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """Compute the CRC-32 of kind, schema, version, metadata, and of the name, type, shape and bytes of each array."""
    return checksum_of(arrays, [header[name] for name in ("kind", "schema", "version", "meta")])


def checksum_of(arrays: Mapping[str, NDArray[Any]], extra: Any = None) -> str:
    """Compute the CRC-32 of the name, type, shape and bytes of each array, and of further JSON data."""
    # Names are sorted, so the checksum does not depend on the order in which arrays were added.
    tables = [(name, str(array.dtype), array.shape) for name, array in sorted(arrays.items())]
    total = zlib.crc32(json.dumps([extra, tables], sort_keys=True).encode())
    for _, array in sorted(arrays.items()):
        for block in _iter_checksum_blocks(array.reshape(-1).view(np.uint8)):
            total = zlib.crc32(block.data, total)
    return f"crc32:{total:08x}"


def _iter_checksum_blocks(content: NDArray[np.uint8]) -> Iterator[NDArray[Any]]:
    """Yield blocks for the checksum: column sums, exclusive-ors of rows, and the bytes that fill no row.

    The content is laid out as a table of 1024 columns of 64 bits. Both reductions read it once at the speed of memory,
    several times faster than CRC-32, and both change if any single number changes.
    """
    count = content.size // (8 * FOLD)
    words = content[: 8 * FOLD * count]
    words = words if words.flags.aligned and words.ctypes.data % 8 == 0 else words.copy()
    table = words.view(np.uint64).reshape(count, FOLD)
    columns, rows = np.zeros(FOLD, np.uint64), np.empty(count, np.uint64)
    # Blocks of 1 MB stay in the cache, so the second reduction does not read main memory again.
    for begin in range(0, count, FOLD_ROWS):
        block = table[begin : begin + FOLD_ROWS]
        columns += block.sum(axis=0)
        np.bitwise_xor.reduce(block, axis=1, out=rows[begin : begin + FOLD_ROWS])
    yield from (columns, rows, content[words.size :])


def write_atomic(path: str | os.PathLike[str], content: bytes) -> None:
    """Write ``content`` to ``path`` in one step; on any failure the old file remains."""
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"path: got no folder {str(target.parent)!r}, expected an existing folder")
    if target.is_dir():
        raise InputError(f"path: got the folder {str(target)!r}, expected the path of a file")
    try:
        # The temporary file is in the target folder because ``os.replace`` is atomic only within one file system.
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    except OSError as error:
        raise InputError(
            f"path: got the folder {str(target.parent)!r}, which is not writable ({error.strerror}), expected a "
            "writable folder"
        ) from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            # Without this a power failure could leave the new name with old or empty content.
            os.fsync(file.fileno())
        # ``mkstemp`` makes files readable by the owner only; restore the permissions of an ordinary new file.
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException as error:
        os.unlink(temporary)
        # The error of a full disk names no file.
        if isinstance(error, OSError) and error.errno and error.filename is None:
            error.filename = str(target)
        raise


def _umask() -> int:
    """Return the process's file mode mask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _raise_path_error(name: str, actual: str, expected: str) -> NoReturn:
    """Raise InputError about the path ``name``."""
    raise InputError(f"path: got {name!r} {actual}, expected {expected}")


def _raise_unreadable(name: str, reason: object) -> NoReturn:
    """Raise InputError for a file that is not valid safetensors."""
    _raise_path_error(name, f"unreadable as safetensors ({reason})", "a complete file written by rewardmix")


def _read_bytes(name: str) -> NDArray[np.uint8]:
    """Read all bytes of a file into read-only memory. A memory map would show later changes of the file."""
    if not os.path.isfile(name):
        raise InputError(f"path: got no file at {name!r}, expected a file written by rewardmix")
    try:
        with open(name, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            check_budget("path", memory=size, remedy="a smaller file")
            buffer = np.empty(size, np.uint8)
            done = 0
            while done < size and (more := file.readinto(buffer.data[done:])):
                done += more
    except OSError as error:
        raise InputError(f"path: got {name!r} unreadable ({error.strerror}), expected a readable file") from error
    buffer.setflags(write=False)
    return buffer[:done]


def _split_file(name: str, buffer: NDArray[np.uint8]) -> tuple[dict[str, Any], dict[str, Any], int]:
    """Split a file; return (description of each array, metadata, offset of the arrays)."""
    size = int.from_bytes(buffer[:8].tobytes(), "little") if buffer.size >= 8 else MAX_HEADER_BYTES
    if size > min(buffer.size - 8, MAX_HEADER_BYTES):
        _raise_unreadable(name, "it ends within its header")
    tensors = _parse_json(buffer[8 : 8 + size].tobytes())
    if not isinstance(tensors, dict):
        _raise_unreadable(name, "its header is not JSON")
    metadata = tensors.pop("__metadata__", {})
    if not isinstance(metadata, dict):
        _raise_unreadable(name, "its metadata is not a table")
    return tensors, metadata, 8 + size


def _parse_json(text: str | bytes) -> Any:
    """Parse JSON; return None for anything else, NaN, repeated names or too deep nesting."""
    try:
        return json.loads(text, parse_constant=_reject_constant, object_pairs_hook=_unique_pairs)
    except (ValueError, RecursionError):
        return None


def _reject_constant(text: str) -> NoReturn:
    """Raise ValueError for NaN and infinities."""
    raise ValueError(f"{text} is not JSON")


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return pairs as a dict; raise ValueError if a name is repeated."""
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a name occurs twice")
    return table


def _read_header(name: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Decode the metadata of a file; raise InputError unless kind, schema and version are valid."""
    if METADATA_KEY not in metadata:
        _raise_path_error(name, "that is a safetensors file of another program", "a file written by rewardmix")
    header = _parse_json(metadata[METADATA_KEY]) if isinstance(metadata[METADATA_KEY], str) else None
    types = {"kind": str, "schema": int, "version": str, "meta": dict}
    if not isinstance(header, dict) or any(type(header.get(key)) is not kind for key, kind in types.items()):
        _raise_path_error(name, "without readable metadata", "a file written by rewardmix")
    schema, written = header["schema"], f"(written by rewardmix {header['version']})"
    if schema > FILE_SCHEMA:
        expected = f"schema {FILE_SCHEMA}; read it with the version of rewardmix that wrote it, or a newer one"
        _raise_path_error(name, f"with schema {schema} {written}", expected)
    if schema < FILE_SCHEMA:
        expected = f"schema {FILE_SCHEMA}; write the file again with this version of rewardmix"
        _raise_path_error(name, f"with schema {schema} {written}", expected)
    return header


def _read_arrays(name: str, tensors: Mapping[str, Any], data: NDArray[np.uint8]) -> Arrays:
    """Return the arrays as views of ``data``, which they must cover without gaps."""
    arrays: Arrays = {}
    covered = 0
    for key, (dtype, shape, begin, end) in sorted(_read_layout(name, tensors).items(), key=lambda item: item[1][2:]):
        if begin != covered or end != begin + dtype.itemsize * math.prod(shape) or end > data.size:
            _raise_unreadable(name, f"{key!r} has the wrong offset or size")
        covered = end
        array = data[begin:end].view(dtype)
        # Arrays follow a header of any length. Compiled kernels require aligned memory, so unaligned arrays are
        # copied.
        array = array if array.flags.aligned else np.frombuffer(array.tobytes(), dtype)
        arrays[key] = array.reshape(shape)
    if covered != data.size:
        _raise_unreadable(name, "it has more bytes than its arrays")
    return arrays


def _read_layout(name: str, tensors: Mapping[str, Any]) -> dict[str, tuple[np.dtype[Any], list[int], int, int]]:
    """Return type, shape, begin and end of each array as the header declares them; raise InputError if invalid."""
    layout = {}
    for key, header in tensors.items():
        if not isinstance(header, dict) or header.keys() != {"dtype", "shape", "data_offsets"}:
            _raise_unreadable(name, f"{key!r} has no type, shape and offsets")
        dtype, shape, offsets = header["dtype"], header["shape"], header["data_offsets"]
        if not isinstance(dtype, str) or dtype not in DTYPES:
            _raise_unreadable(name, f"the type of {key!r} is not one of {', '.join(DTYPES)}")
        # The product excludes zeros, so a shape with a zero cannot hide other sizes that overflow.
        if not (
            _is_index_list(shape)
            and _is_index_list(offsets)
            and len(offsets) == 2
            and math.prod(n or 1 for n in shape) < 1 << 59
        ):
            _raise_unreadable(name, f"{key!r} has no valid shape or offsets")
        layout[key] = DTYPES[dtype], shape, offsets[0], offsets[1]
    return layout


def _is_index_list(values: Any) -> bool:
    """Return whether this is a list of at most four integers in [0, 2^48), valid as an array shape."""
    is_short_list = isinstance(values, list) and len(values) <= 4
    return is_short_list and all(type(value) is int and 0 <= value < 1 << 48 for value in values)
