"""Checkpoints: a folder with the counts, the random stream and the episodes so far.

One is written just before everything is planned anew, from the counts alone: then nothing else has to be kept, and a
run that goes on from there makes the same plan and draws the same numbers as one that was never interrupted.
Every file appears whole or not at all. Episodes are stored in parts, each written once; the state names the parts
that belong to it, and is written last.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from rewardmix._core import storage
from rewardmix._core.checks import InputError, as_count, as_floats, as_instance, refuse, shown
from rewardmix._core.storage import Arrays
from rewardmix._core.widths import length_width
from rewardmix.episodes import PARTS, Episodes, room_for
from rewardmix.exploration.exploration_result import check_gathered, check_stream, kept_every
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments, packed, unpacked

_T = TypeVar("_T")

STATE = "exploration.safetensors"
NUMBERS = ("cost", "refreshes", "rows_planned")
"""What a plan has spent, by the names of its fields."""

SECONDS = 2.0
"""At least this long between two checkpoints."""


@dataclass
class Saved:
    """What a checkpoint holds.

    Attributes:
        moments: of all episodes so far.
        stream: (4,) where the random numbers stand.
        curve: (n, 2) episodes and V_0 at each plan so far.
        numbers: of the plan, see ``NUMBERS``.
        episodes: themselves, if they were kept.
    """

    moments: Moments
    stream: NDArray[np.uint64]
    curve: NDArray[np.float64]
    numbers: dict[str, int]
    episodes: Episodes | None

    def __post_init__(self) -> None:
        check_stream(self.stream)
        self.curve = as_floats("curve", self.curve, (None, 2))
        for name, number in as_instance("numbers", self.numbers, dict).items():
            if name not in NUMBERS:
                refuse("numbers", shown(name), f"one of {', '.join(NUMBERS)}")
            as_count(name, number, least=0)
        check_gathered(self.moments, self.episodes)


@dataclass
class CheckpointFolder:
    """A folder that a run is stored in, and found again by a run with the same settings.

    Attributes:
        folder: where.
        settings: everything that a resumed run must have in common with the saved one.
        last: when it was last written.
    """

    folder: Path
    settings: dict[str, Any]
    last: float = -1e9

    @property
    def due(self) -> bool:
        """Whether enough time has passed since the last write."""
        return time.monotonic() - self.last >= SECONDS

    def write(self, name: str, kind: str, arrays: Arrays, meta: dict[str, Any]) -> None:
        """Write the state of the run, with its settings."""
        self.folder.mkdir(parents=True, exist_ok=True)
        storage.write_arrays(self.folder / name, kind, arrays, {**meta, "settings": self.settings})
        self.last = time.monotonic()

    def read(self, name: str, kind: str, unpack: Callable[[Arrays, dict[str, Any]], _T]) -> _T | None:
        """What was written, or None if there is nothing; other settings than before, and damage, are refused."""
        path = self.folder / name
        if not path.is_file():
            return None
        with self._undamaged(path):
            _, arrays, meta = storage.read_arrays(path, (kind,), oldest=storage.SCHEMA)
            settings = storage.entry(meta, "settings", dict)
        for name, value in self.settings.items():
            if settings.get(name) != value:
                found = f"{name} = {shown(settings.get(name))}"
                refuse("checkpoint", f"a run with {found} in {self.folder}", f"{name} = {value!r}, or another folder")
        with self._undamaged(path):
            return unpack(arrays, meta)

    @contextmanager
    def _undamaged(self, path: Path) -> Iterator[None]:
        """Refuse what is missing or wrong in a file as a checkpoint that cannot be gone on with."""
        try:
            yield
        except KeyError as error:
            refuse("checkpoint", f"{str(path)!r} without {error}", f"a whole one; delete {self.folder} to begin anew")
        except InputError as error:
            wanted = f"what was saved; delete {self.folder} to begin anew"
            refuse("checkpoint", f"one that cannot be gone on with ({error})", wanted)


@dataclass
class Checkpoint(CheckpointFolder):
    """A folder to save exploration to.

    Attributes:
        parts: first episode of each part that was written.
        written: episodes in those parts.
        every: which episodes are kept: every one, every other, every fourth ...
    """

    parts: list[int] = field(default_factory=list)
    written: int = 0
    every: int = 1

    def save(self, saved: Saved) -> None:
        """Write what is new of the episodes, then the state."""
        self.folder.mkdir(parents=True, exist_ok=True)
        every = 1 if saved.episodes is None else kept_every(saved.moments.episodes, len(saved.episodes))
        outdated = []
        if saved.episodes is None or every != self.every:
            outdated = [self._part(begin) for begin in self.parts]
            self.parts, self.written, self.every = [], 0, every
        if saved.episodes is not None and len(saved.episodes) > self.written:
            new = saved.episodes[self.written :]
            storage.write_arrays(
                self._part(self.written), "episodes part", {name: getattr(new, name) for name in PARTS}, {}
            )
            self.parts.append(self.written)
            self.written = len(saved.episodes)
        arrays, meta = packed(saved.moments)
        kept = self.parts if saved.episodes is not None else None
        held = {**arrays, "stream": saved.stream, "curve": saved.curve}
        self.write(STATE, "exploration", held, {**meta, "numbers": saved.numbers, "parts": kept, "every": every})
        for path in outdated:  # only now, when nothing refers to them
            path.unlink(missing_ok=True)

    def load(self) -> Saved | None:
        """What was saved, or None if there is nothing."""
        return self.read(STATE, "exploration", self._saved)

    def _saved(self, arrays: Arrays, meta: dict[str, Any]) -> Saved:
        moments = unpacked(arrays, meta)
        parts = None if meta["parts"] is None else storage.entry(meta, "parts", list)
        self.every = as_count("every", meta.get("every", 1))
        episodes = None if parts is None else self._episodes(parts, moments)
        return Saved(moments, arrays["stream"], arrays["curve"], storage.entry(meta, "numbers", dict), episodes)

    def _episodes(self, parts: list[int], moments: Moments) -> Episodes:
        if any(type(begin) is not int for begin in parts):
            refuse("parts", "something that is no number", "the first episode of each part")
        sizes = moments.num_states, moments.num_actions, moments.reward_values
        pieces = [_no_episodes(moments)]
        for begin in parts:
            path = self._part(begin)
            _, arrays, _ = storage.read_arrays(path, ("episodes part",), oldest=storage.SCHEMA)
            states, actions, outcomes, lengths = (arrays[name] for name in PARTS)
            piece = Episodes(states, actions, outcomes, lengths, *sizes)
            if piece.horizon != moments.horizon:
                refuse(str(path), f"a horizon of {piece.horizon}", f"{moments.horizon}")
            pieces.append(piece)
        begins = list(accumulate(len(piece) for piece in pieces))[:-1]
        if begins != parts:
            refuse("parts", parts, f"{begins}, each beginning where the one before ends")
        joined = {name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in PARTS}
        self.parts, self.written = list(parts), len(joined["lengths"])
        return Episodes.trusted(joined, *sizes)

    def _part(self, begin: int) -> Path:
        thinned = f"-every-{self.every}" if self.every > 1 else ""
        return self.folder / f"episodes-{begin:012d}{thinned}.safetensors"


def world_digest(world: Any) -> str:
    """A model's content in 16 letters; other worlds are known by their type."""
    if not isinstance(world, RewardMixingMDP):
        return type(world).__name__
    rows = world.transition_rows
    parts = (rows.data, rows.indices, rows.indptr) if world.is_sparse else (rows,)
    digest = hashlib.sha256(str(world).encode())
    for part in (*parts, world.initial, world.weights, world.rewards, world.reward_values):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()[:16]


def settings_of(**settings: Any) -> Mapping[str, Any]:
    """Settings in the form in which they are stored: numbers as they are, anything else by its text."""
    return {name: value if isinstance(value, int | float | str) else repr(value) for name, value in settings.items()}


def _no_episodes(moments: Moments) -> Episodes:
    sizes = moments.num_states, moments.num_actions
    parts = room_for(0, moments.horizon, *sizes, moments.num_values)
    return Episodes(*parts, np.empty(0, length_width(moments.horizon)), *sizes, moments.reward_values)
