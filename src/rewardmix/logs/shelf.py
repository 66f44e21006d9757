"""A folder for temporary files that goes when its owner does, without a word."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path


class Shelf:
    """A temporary folder; ``clear`` removes it at once, otherwise it goes with this object."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="rewardmix-log-"))
        self.clear = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
