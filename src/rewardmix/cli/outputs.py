"""Where results go: looked at before there are any, so that no work is done for a place that cannot be written to."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from rewardmix._core.errors import refuse


def check_file(option: str, path: Path | None) -> None:
    """Refuse a path at which no file can be written: in no folder, in one that is closed, or that is something else."""
    if path is None:
        return
    if not os.fspath(path.parent) or not path.parent.is_dir():
        refuse(option, f"no folder {str(path.parent)!r}", "a file in a folder that is there")
    if path.is_dir():
        refuse(option, f"a folder {str(path)!r}", "a file")
    if os.path.lexists(path) and not path.is_file():
        refuse(option, f"{str(path)!r}, which is no regular file", "a file")
    _try(option, path.parent, path.name)


def check_folder(option: str, path: Path | None) -> None:
    """Refuse a path at which no folder can be made or written into."""
    if path is None:
        return
    there = path
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if not there.is_dir():
        refuse(option, f"a file {str(there)!r}", "a folder")
    _try(option, there, path.name if there != path else "")


def _try(option: str, folder: Path, name: str) -> None:
    """Write nothing into a folder, under a name as long as the one that is wanted."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{name}."):
            pass
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        refuse(option, f"{str(folder / name)!r} that cannot be written ({reason})", "a place to write to")
