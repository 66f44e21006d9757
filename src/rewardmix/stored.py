"""The stored form: safetensors (arrays) with JSON metadata, the only door to that library.

A file says what kind of thing it holds, under which schema, and by which version it was written. Writing is atomic:
a new file is completed beside the old one and takes its place in one step, so a reader never meets half a file.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._check import InputError
from rewardmix._version import __version__

SCHEMA = 1
"""Raised by one whenever an older version could no longer read what is written."""

KEY = "rewardmix"
"""The metadata of a file, as JSON, stands under this key."""

Arrays = dict[str, NDArray[Any]]


def write(path: str | os.PathLike[str], kind: str, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
    """Write arrays and JSON-able metadata as one file, atomically."""
    from safetensors.numpy import save

    header = {"kind": kind, "schema": SCHEMA, "version": __version__, "meta": dict(meta)}
    text = json.dumps(header)  # under one key: safetensors writes several in an order that changes from run to run
    replace(path, save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, metadata={KEY: text}))


def read(path: str | os.PathLike[str]) -> tuple[str, Arrays, dict[str, Any]]:
    """(kind, arrays, metadata) of a file written by ``write``; anything else is refused with its reason."""
    from safetensors import SafetensorError, safe_open

    name = os.fspath(path)
    if not os.path.isfile(name):
        raise InputError(f"path: found no file at {name!r}, expected a file written by rewardmix")
    try:
        with safe_open(name, framework="numpy") as file:
            header = _header(name, file.metadata() or {})
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dict
    except SafetensorError as error:
        raise InputError(
            f"path: found {name!r} unreadable as safetensors ({error}), expected a whole file written by rewardmix"
        ) from error
    return header["kind"], arrays, header["meta"]


def replace(path: str | os.PathLike[str], content: bytes) -> None:
    """Put ``content`` at ``path`` in one step; on any failure what was there before stays."""
    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"path: found no folder {str(target.parent)!r}, expected an existing folder to write into")
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _header(name: str, metadata: Mapping[str, str]) -> dict[str, Any]:
    if KEY not in metadata:
        raise InputError(f"path: found {name!r} to be a safetensors file of something else, expected one of rewardmix")
    try:
        header: dict[str, Any] = json.loads(metadata[KEY])
        kind, schema, version, meta = (header[part] for part in ("kind", "schema", "version", "meta"))
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise InputError(f"path: found {name!r} without readable metadata, expected a file of rewardmix") from error
    if schema > SCHEMA:
        raise InputError(
            f"path: found {name!r} with schema {schema} (written by rewardmix {version}), "
            f"expected schema {SCHEMA} or older; a newer rewardmix can read it"
        )
    return {"kind": kind, "meta": meta}
