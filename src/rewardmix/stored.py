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

Arrays = dict[str, NDArray[Any]]


def write(path: str | os.PathLike[str], kind: str, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
    """Write arrays and JSON-able metadata as one file, atomically."""
    from safetensors.numpy import save

    header = {"kind": kind, "schema": str(SCHEMA), "rewardmix": __version__, "meta": json.dumps(dict(meta))}
    replace(path, save({name: _plain(array) for name, array in arrays.items()}, metadata=header))


def read(path: str | os.PathLike[str]) -> tuple[str, Arrays, dict[str, Any]]:
    """(kind, arrays, metadata) of a file written by ``write``; anything else is refused with its reason."""
    from safetensors import SafetensorError, safe_open

    name = os.fspath(path)
    if not os.path.isfile(name):
        raise InputError(f"path: found no file at {name!r}, expected a file written by rewardmix")
    try:
        with safe_open(name, framework="numpy") as file:
            header = file.metadata() or {}
            _check_header(name, header)
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - not a dict
        meta = json.loads(header["meta"])
    except SafetensorError as error:
        raise InputError(
            f"path: found {name!r} unreadable as safetensors ({error}), expected a whole file written by rewardmix"
        ) from error
    except (KeyError, json.JSONDecodeError) as error:
        raise InputError(f"path: found {name!r} without readable metadata, expected a file of rewardmix") from error
    return header["kind"], arrays, meta


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


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(array)


def _check_header(name: str, header: Mapping[str, str]) -> None:
    if "kind" not in header or "schema" not in header:
        raise InputError(f"path: found {name!r} to be a safetensors file of something else, expected one of rewardmix")
    if int(header["schema"]) > SCHEMA:
        raise InputError(
            f"path: found {name!r} with schema {header['schema']} (written by rewardmix {header.get('rewardmix')}), "
            f"expected schema {SCHEMA} or older; a newer rewardmix can read it"
        )
