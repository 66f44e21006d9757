"""The stored form: safetensors (arrays) with JSON metadata, the only door to that format.

A file says what kind of thing it holds, under which schema, by which version it was written, and the checksum of all
of that and of its arrays. Writing is atomic: a new file is completed beside the old one and takes its place in one
step, so a reader never meets half a file. Reading trusts nothing: the format is taken apart here, once, into one buffer
that nobody can write to, and whatever does not fit is refused. What the arrays mean is checked by the nouns that they
become.

The checksum is CRC-32, of large arrays after folding them. It finds accidents (one flipped bit for certain), and no
intent: a file that was changed on purpose, checksum and all, is as valid as the noun in it.
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

from rewardmix._core.checks import InputError, quoted
from rewardmix._core.limits import afford
from rewardmix._version import __version__

SCHEMA = 2
"""Raised by one whenever an older version could no longer read what is written, or would miss something in it.

1: no checksum. 2: with a checksum.
"""

KEY = "rewardmix"
"""The metadata of a file, as JSON, stands under this key."""

DTYPES = {
    name: np.dtype(code)
    for name, code in {"I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "U64": "<u8", "F64": "<f8"}.items()
}
"""Types of arrays, by their names in a file."""

LONGEST_HEADER = 100_000_000
"""Bytes of the part before the arrays, as in the library."""

FOLD, FOLD_ROWS = 1024, 128
"""Columns of the table that a checksum lays content out as, and rows of it that are read at a time."""

Arrays = dict[str, NDArray[Any]]
Packed = tuple[Arrays, dict[str, Any]]
"""Arrays and metadata of a noun."""
_T = TypeVar("_T")


def write_arrays(
    path: str | os.PathLike[str], kind: str, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]
) -> None:
    """Write arrays and JSON-able metadata as one file, atomically."""
    from safetensors.numpy import save

    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    header = {"kind": kind, "schema": SCHEMA, "version": __version__, "meta": dict(meta)}
    header["checksum"] = checksum(header, whole)
    text = json.dumps(header, allow_nan=False)  # under one key: safetensors writes several in an order that changes
    replace(path, save(whole, metadata={KEY: text}))


def read_arrays(
    path: str | os.PathLike[str], kinds: Sequence[str] | None = None, *, oldest: int = 1
) -> tuple[str, Arrays, dict[str, Any]]:
    """(kind, arrays, metadata) of a file written by ``write``; anything else is refused with its reason.

    Args:
        path: of the file.
        kinds: what it may hold; anything if left out.
        oldest: the schema before which it is refused.
    """
    name = os.fspath(path)
    buffer = _content(name)
    tensors, metadata, begin = _format(name, buffer)
    header = _header(name, metadata, oldest)
    kind = header["kind"]
    if kinds is not None and kind not in kinds:
        _refuse(name, f"holding a {quoted(kind)}", f"one of {', '.join(kinds)}")
    arrays = _arrays(name, tensors, buffer[begin:])
    if header["schema"] > 1 and header.get("checksum") != checksum(header, arrays):
        _refuse(name, "whose content does not match its checksum", "a file as it was written; this one was damaged")
    return kind, arrays, header["meta"]


def entry(meta: Mapping[str, Any], name: str, kind: type[_T]) -> _T:
    """An entry of metadata that must be of this type; metadata that is no object has no entries."""
    value = _table_of(meta, name)[name]
    if type(value) is not kind:
        raise InputError(f"{name}: found {type(value).__name__} in the metadata, expected {kind.__name__}")
    return value


def number_entry(meta: Mapping[str, Any], name: str) -> float:
    """An entry of metadata that must be a finite number."""
    value = _table_of(meta, name)[name]
    if type(value) not in (int, float) or not -sys.float_info.max <= value <= sys.float_info.max:
        raise InputError(f"{name}: found {quoted(value)} in the metadata, expected a finite number")
    return float(value)


def _table_of(meta: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(meta, Mapping):
        raise InputError(f"{name}: found {type(meta).__name__} around it in the metadata, expected an object")
    return meta


def joined(parts: Mapping[str, Packed]) -> Packed:
    """Several packed nouns as one, the name of each before its arrays."""
    arrays = {f"{name}/{key}": array for name, (held, _) in parts.items() for key, array in held.items()}
    return arrays, {name: meta for name, (_, meta) in parts.items()}


def part(arrays: Mapping[str, NDArray[Any]], name: str) -> Arrays:
    """The arrays of one of the nouns of ``joined``."""
    return {key.removeprefix(f"{name}/"): array for key, array in arrays.items() if key.startswith(f"{name}/")}


def checksum(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> str:
    """CRC-32 of kind, schema, version, metadata, and of the name, type, shape and bytes of each array."""
    return checksum_of(arrays, [header[name] for name in ("kind", "schema", "version", "meta")])


def checksum_of(arrays: Mapping[str, NDArray[Any]], more: Any = None) -> str:
    """CRC-32 of the name, type, shape and bytes of each array, and of something more that is JSON."""
    tables = [(name, str(array.dtype), array.shape) for name, array in sorted(arrays.items())]
    total = zlib.crc32(json.dumps([more, tables], sort_keys=True).encode())
    for _, array in sorted(arrays.items()):
        for part in _folded(array.reshape(-1).view(np.uint8)):
            total = zlib.crc32(part.data, total)
    return f"crc32:{total:08x}"


def _folded(content: NDArray[np.uint8]) -> Iterator[NDArray[Any]]:
    """Sums of the columns and exclusive-ors of the rows of large content, laid out as a table, and what is left over.

    Both are read once and at the speed of memory, several times that of CRC-32, and both change with any one number.
    """
    count = content.size // (8 * FOLD)
    words = content[: 8 * FOLD * count]
    words = words if words.flags.aligned and words.ctypes.data % 8 == 0 else words.copy()
    table = words.view(np.uint64).reshape(count, FOLD)
    columns, rows = np.zeros(FOLD, np.uint64), np.empty(count, np.uint64)
    for begin in range(0, count, FOLD_ROWS):
        part = table[begin : begin + FOLD_ROWS]
        columns += part.sum(axis=0)
        np.bitwise_xor.reduce(part, axis=1, out=rows[begin : begin + FOLD_ROWS])
    yield from (columns, rows, content[words.size :])


def replace(path: str | os.PathLike[str], content: bytes) -> None:
    """Put ``content`` at ``path`` in one step; on any failure what was there before stays."""
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"path: found no folder {str(target.parent)!r}, expected an existing folder to write into")
    if target.is_dir():
        raise InputError(f"path: found the folder {str(target)!r}, expected the name of a file to write")
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    except OSError as error:
        raise InputError(
            f"path: found {str(target.parent)!r} where no file can be made ({error.strerror}), expected a folder to "
            "write into"
        ) from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException as error:
        os.unlink(temporary)
        if isinstance(error, OSError) and error.errno and error.filename is None:  # a full disk names no file
            error.filename = str(target)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _refuse(name: str, found: str, expected: str) -> NoReturn:
    raise InputError(f"path: found {name!r} {found}, expected {expected}")


def _unreadable(name: str, why: object) -> NoReturn:
    _refuse(name, f"unreadable as safetensors ({why})", "a whole file written by rewardmix")


def _content(name: str) -> NDArray[np.uint8]:
    """All bytes of a file, in memory that cannot be written to. (A map of the file would follow its changes.)"""
    if not os.path.isfile(name):
        raise InputError(f"path: found no file at {name!r}, expected a file written by rewardmix")
    try:
        with open(name, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            afford("path", memory=size, change="a smaller file")
            buffer = np.empty(size, np.uint8)
            done = 0
            while done < size and (more := file.readinto(buffer.data[done:])):
                done += more
    except OSError as error:
        raise InputError(f"path: found {name!r} unreadable ({error.strerror}), expected a readable file") from error
    buffer.setflags(write=False)
    return buffer[:done]


def _format(name: str, buffer: NDArray[np.uint8]) -> tuple[dict[str, Any], dict[str, Any], int]:
    """(what the file says about each array, its metadata, where the arrays begin)."""
    size = int.from_bytes(buffer[:8].tobytes(), "little") if buffer.size >= 8 else LONGEST_HEADER
    if size > min(buffer.size - 8, LONGEST_HEADER):
        _unreadable(name, "it ends within its header")
    tensors = _parsed(buffer[8 : 8 + size].tobytes())
    if not isinstance(tensors, dict):
        _unreadable(name, "its header is not JSON")
    metadata = tensors.pop("__metadata__", {})
    if not isinstance(metadata, dict):
        _unreadable(name, "its metadata is not a table")
    return tensors, metadata, 8 + size


def _parsed(text: str | bytes) -> Any:
    """JSON without NaN, without doubled names and not nested beyond reason; None if it is anything else."""
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_table)
    except (ValueError, RecursionError):
        return None


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a name occurs twice")
    return table


def _header(name: str, metadata: Mapping[str, Any], oldest: int) -> dict[str, Any]:
    if KEY not in metadata:
        _refuse(name, "to be a safetensors file of something else", "one of rewardmix")
    header = _parsed(metadata[KEY]) if isinstance(metadata[KEY], str) else None
    types = {"kind": str, "schema": int, "version": str, "meta": dict}
    if not isinstance(header, dict) or any(type(header.get(part)) is not kind for part, kind in types.items()):
        _refuse(name, "without readable metadata", "a file of rewardmix")
    schema, written = header["schema"], f"(written by rewardmix {header['version']})"
    if schema > SCHEMA:
        expected = f"schema {SCHEMA} or older; a newer rewardmix can read it"
        _refuse(name, f"with schema {schema} {written}", expected)
    if schema < oldest:
        expected = f"schema {oldest} or newer; it has to be made again"
        _refuse(name, f"with schema {schema} {written}", expected)
    return header


def _arrays(name: str, tensors: Mapping[str, Any], data: NDArray[np.uint8]) -> Arrays:
    """The arrays, as views of ``data``, which they must cover without gaps."""
    arrays: Arrays = {}
    covered = 0
    for key, (dtype, shape, begin, end) in sorted(_layout(name, tensors).items(), key=lambda item: item[1][2:]):
        if begin != covered or end != begin + dtype.itemsize * math.prod(shape) or end > data.size:
            _unreadable(name, f"{key!r} does not lie where it should")
        covered = end
        array = data[begin:end].view(dtype)
        array = array if array.flags.aligned else np.frombuffer(array.tobytes(), dtype)
        arrays[key] = array.reshape(shape)
    if covered != data.size:
        _unreadable(name, "it has more bytes than its arrays")
    return arrays


def _layout(name: str, tensors: Mapping[str, Any]) -> dict[str, tuple[np.dtype[Any], list[int], int, int]]:
    """Type, shape, begin and end of each array as the header says, each of the right type and not negative."""
    layout = {}
    for key, said in tensors.items():
        if not isinstance(said, dict) or said.keys() != {"dtype", "shape", "data_offsets"}:
            _unreadable(name, f"nothing is said about {key!r}")
        dtype, shape, place = said["dtype"], said["shape"], said["data_offsets"]
        if not isinstance(dtype, str) or dtype not in DTYPES:
            _unreadable(name, f"the type of {key!r} is none of {', '.join(DTYPES)}")
        if not (_counts(shape) and _counts(place) and len(place) == 2 and math.prod(n or 1 for n in shape) < 1 << 59):
            _unreadable(name, f"{key!r} has no shape or place")
        layout[key] = DTYPES[dtype], shape, place[0], place[1]
    return layout


def _counts(values: Any) -> bool:
    """Whether this is a short list of whole numbers that an array can have for its shape."""
    whole = isinstance(values, list) and len(values) <= 4
    return whole and all(type(value) is int and 0 <= value < 1 << 48 for value in values)
