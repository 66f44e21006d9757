"""Save an exploration to a folder and resume it: counts, random state and episodes.

A checkpoint is written just before a full replan, from the counts alone. The plan then need not be stored, and a run
that resumes makes the plan, and draws the numbers, of an uninterrupted run. Every file is written atomically. Episodes
are stored in parts, each written once; the state file lists the parts that belong to it and is written last.
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
from rewardmix._core.checks import InputError, as_count, as_floats, as_instance, format_value, raise_input_error
from rewardmix._core.int_dtypes import length_dtype
from rewardmix._core.storage import Arrays
from rewardmix.episodes import ARRAY_FIELDS, Episodes, allocate_episodes
from rewardmix.exploration.exploration_result import check_episodes_match, check_rng_state, infer_keep_every
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments, pack_moments, unpack_moments

_T = TypeVar("_T")

STATE_FILE = "exploration.safetensors"
"""File name of the state."""
PLAN_COUNTERS = ("operations", "num_replans", "num_rows_planned")
"""Fields of a plan that count its cost and are stored."""

MIN_SECONDS_BETWEEN = 2.0
"""Minimum time between two checkpoints."""


@dataclass
class ExplorationState:
    """Hold the content of a checkpoint.

    Attributes:
        moments: Counts of all episodes so far.
        rng_state: (4,) state of the random generator.
        uncertainty_curve: (n, 2) number of episodes and V_0 at each full replan so far.
        plan_counters: Counters of the plan, see ``PLAN_COUNTERS``.
        episodes: The episodes, if they were stored.
    """

    moments: Moments
    rng_state: NDArray[np.uint64]
    uncertainty_curve: NDArray[np.float64]
    plan_counters: dict[str, int]
    episodes: Episodes | None

    def __post_init__(self) -> None:
        check_rng_state(self.rng_state)
        self.uncertainty_curve = as_floats("uncertainty_curve", self.uncertainty_curve, (None, 2))
        for name, number in as_instance("plan_counters", self.plan_counters, dict).items():
            if name not in PLAN_COUNTERS:
                raise_input_error("plan_counters", format_value(name), f"one of {', '.join(PLAN_COUNTERS)}")
            as_count(name, number, min_value=0)
        check_episodes_match(self.moments, self.episodes)


@dataclass
class CheckpointFolder:
    """Store the state of a run in a folder, and find it again in a run with equal settings.

    Attributes:
        folder: Path of the folder.
        settings: Settings that a resumed run must share with the saved one.
        last_write_time: Time of the last write, on the monotonic clock.
    """

    folder: Path
    settings: dict[str, Any]
    last_write_time: float = -1e9

    @property
    def is_due(self) -> bool:
        """True if enough time has passed since the last write."""
        return time.monotonic() - self.last_write_time >= MIN_SECONDS_BETWEEN

    def write(self, name: str, kind: str, arrays: Arrays, meta: dict[str, Any]) -> None:
        """Write the state of the run with its settings."""
        self.folder.mkdir(parents=True, exist_ok=True)
        storage.write_arrays(self.folder / name, kind, arrays, {**meta, "settings": self.settings})
        self.last_write_time = time.monotonic()

    def read(self, name: str, kind: str, unpack: Callable[[Arrays, dict[str, Any]], _T]) -> _T | None:
        """Return what was written, None without a file; raise InputError for other settings or a damaged file."""
        path = self.folder / name
        if not path.is_file():
            return None
        with self._raise_checkpoint_error(path):
            _, arrays, meta = storage.read_arrays(path, (kind,))
            stored = storage.get_metadata(meta, "settings", dict)
        # Continuing with other settings would mix two random streams or two confidence levels in one result.
        for name, value in self.settings.items():
            if stored.get(name) != value:
                actual = f"{name} = {format_value(stored.get(name))}"
                raise_input_error(
                    "checkpoint", f"a run with {actual} in {self.folder}", f"{name} = {value!r}; choose another folder"
                )
        with self._raise_checkpoint_error(path):
            return unpack(arrays, meta)

    @contextmanager
    def _raise_checkpoint_error(self, path: Path) -> Iterator[None]:
        """Turn missing or wrong content of a file into an InputError that names the folder."""
        try:
            yield
        except KeyError as error:
            raise_input_error(
                "checkpoint", f"{str(path)!r} without {error}", f"a complete file; delete {self.folder} to start over"
            )
        except InputError as error:
            raise InputError(
                f"checkpoint: cannot resume from {self.folder} ({error}); delete the folder to start over"
            ) from error


@dataclass
class ExplorationCheckpoint(CheckpointFolder):
    """Store an exploration in a folder.

    Attributes:
        file_starts: First episode of each part that was written.
        num_written: Number of episodes in those parts.
        keep_every: Every how many episodes one is stored: 1, 2, 4, ...
    """

    file_starts: list[int] = field(default_factory=list)
    num_written: int = 0
    keep_every: int = 1

    def save(self, state: ExplorationState) -> None:
        """Write the new episodes, then the state."""
        self.folder.mkdir(parents=True, exist_ok=True)
        every = 1 if state.episodes is None else infer_keep_every(state.moments.num_episodes, len(state.episodes))
        old_paths = []
        # Dropping every second episode renumbers the rest, so all parts are written anew under other names. The old
        # state file stays valid until the new one replaces it.
        if state.episodes is None or every != self.keep_every:
            old_paths = [self._part_path(begin) for begin in self.file_starts]
            self.file_starts, self.num_written, self.keep_every = [], 0, every
        if state.episodes is not None and len(state.episodes) > self.num_written:
            new_episodes = state.episodes[self.num_written :]
            new_arrays = {name: getattr(new_episodes, name) for name in ARRAY_FIELDS}
            storage.write_arrays(self._part_path(self.num_written), "episodes part", new_arrays, {})
            self.file_starts.append(self.num_written)
            self.num_written = len(state.episodes)
        arrays, meta = pack_moments(state.moments)
        file_starts = self.file_starts if state.episodes is not None else None
        all_arrays = {**arrays, "rng_state": state.rng_state, "uncertainty_curve": state.uncertainty_curve}
        self.write(
            STATE_FILE,
            "exploration",
            all_arrays,
            {**meta, "plan_counters": state.plan_counters, "file_starts": file_starts, "keep_every": every},
        )
        for path in old_paths:  # only now, when nothing refers to them
            path.unlink(missing_ok=True)

    def load(self) -> ExplorationState | None:
        """Return what was saved, or None if there is no checkpoint."""
        return self.read(STATE_FILE, "exploration", self._unpack_state)

    def _unpack_state(self, arrays: Arrays, meta: dict[str, Any]) -> ExplorationState:
        """Convert stored arrays and metadata to an ``ExplorationState``."""
        moments = unpack_moments(arrays, meta)
        file_starts = None if meta["file_starts"] is None else storage.get_metadata(meta, "file_starts", list)
        self.keep_every = as_count("keep_every", meta["keep_every"])
        episodes = None if file_starts is None else self._read_episodes(file_starts, moments)
        return ExplorationState(
            moments,
            arrays["rng_state"],
            arrays["uncertainty_curve"],
            storage.get_metadata(meta, "plan_counters", dict),
            episodes,
        )

    def _read_episodes(self, file_starts: list[int], moments: Moments) -> Episodes:
        """Read the stored parts of the episodes and join them; raise InputError if they have gaps."""
        if any(type(begin) is not int for begin in file_starts):
            raise_input_error("file_starts", "a value that is not a whole number", "the first episode of each file")
        sizes = moments.num_states, moments.num_actions, moments.reward_values
        batches = [_empty_episodes(moments)]
        for begin in file_starts:
            path = self._part_path(begin)
            _, arrays, _ = storage.read_arrays(path, ("episodes part",))
            states, actions, reward_indices, lengths = (arrays[name] for name in ARRAY_FIELDS)
            batch = Episodes(states, actions, reward_indices, lengths, *sizes)
            if batch.horizon != moments.horizon:
                raise_input_error(str(path), f"horizon {batch.horizon}", f"horizon {moments.horizon}")
            batches.append(batch)
        expected_starts = list(accumulate(len(batch) for batch in batches))[:-1]
        if expected_starts != file_starts:
            raise_input_error("file_starts", file_starts, f"{expected_starts}, without gaps or overlaps")
        columns = {name: np.concatenate([getattr(batch, name) for batch in batches]) for name in ARRAY_FIELDS}
        self.file_starts, self.num_written = list(file_starts), len(columns["lengths"])
        return Episodes.from_valid_arrays(columns, *sizes)

    def _part_path(self, begin: int) -> Path:
        """Return the path of the part whose first episode is ``begin``."""
        suffix = f"-every-{self.keep_every}" if self.keep_every > 1 else ""
        return self.folder / f"episodes-{begin:012d}{suffix}.safetensors"


def env_digest(env: Any) -> str:
    """Return a digest of a model's content (16 hexadecimal digits), or the type name of an environment."""
    if not isinstance(env, RewardMixingMDP):
        return type(env).__name__
    rows = env.transition_rows
    arrays = (rows.data, rows.indices, rows.indptr) if env.is_sparse else (rows,)
    digest = hashlib.sha256(str(env).encode())
    for array in (*arrays, env.initial, env.weights, env.rewards, env.reward_values):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def normalize_settings(**settings: Any) -> Mapping[str, Any]:
    """Convert settings to the form in which they are stored: numbers and texts unchanged, anything else by its repr."""
    return {name: value if isinstance(value, int | float | str) else repr(value) for name, value in settings.items()}


def _empty_episodes(moments: Moments) -> Episodes:
    sizes = moments.num_states, moments.num_actions
    arrays = allocate_episodes(0, moments.horizon, *sizes, moments.num_values)
    return Episodes(*arrays, np.empty(0, length_dtype(moments.horizon)), *sizes, moments.reward_values)
