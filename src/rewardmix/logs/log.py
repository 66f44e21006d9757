"""A log that was read: checked episodes in parts, and what can be computed from them part by part.

A part holds its episodes in the smallest form that everything can be computed from: one whole number a step, x*Z + z
(state-action x paid reward value z), and for each episode its length and where its last action led. The next state of
any other step is the state of the step after it.
"""

from __future__ import annotations

import atexit
import operator
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import InitVar, dataclass, field, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.brevity import short
from rewardmix._core.checks import refuse
from rewardmix._core.limits import afford_episodes
from rewardmix._core.streams import Role, generator
from rewardmix.episodes import ABSENT, Episodes, room_for
from rewardmix.logs.left_out import LeftOut
from rewardmix.logs.log_schema import LogSchema
from rewardmix.logs.workers import Callback, Workers, reported
from rewardmix.moments import Moments

if TYPE_CHECKING:
    from rewardmix.recovery.bags import Bags

Integers = NDArray[np.int32]


@short
@dataclass(frozen=True, eq=False)
class Compact:
    """K episodes of N steps in all.

    Attributes:
        symbols: (N,) x*Z + z, episode after episode.
        lengths: (K,) steps of each.
        last: (K,) the state that the last action led to, ABSENT if nobody kept it.
        propensity: (N,) chance with which each action was taken; empty if nobody kept it.
    """

    symbols: Integers
    lengths: Integers
    last: Integers
    propensity: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def __len__(self) -> int:
        return int(self.lengths.size)

    @property
    def rows(self) -> int:
        """N."""
        return int(self.symbols.size)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """(K + 1,): where each episode begins."""
        offsets = np.zeros(self.lengths.size + 1, np.int64)
        np.cumsum(self.lengths, out=offsets[1:])
        return offsets

    def chosen(self, mask: NDArray[np.bool_]) -> Compact:
        """The episodes of a mask (K,)."""
        steps = np.repeat(mask, self.lengths)
        chances = self.propensity[steps] if self.propensity.size else self.propensity
        return Compact(self.symbols[steps], self.lengths[mask], self.last[mask], chances)

    def chances(self, schema: LogSchema) -> NDArray[np.float64] | None:
        """(K, H): the chance with which each action was taken, 1 where there was none; None if nobody kept it."""
        if not self.propensity.size:
            return None
        chances = np.ones((len(self), schema.horizon))
        chances[np.arange(schema.horizon) < self.lengths[:, None]] = self.propensity
        return chances

    def patterns(self, schema: LogSchema) -> Bags:
        """The bags of rewards that the likelihood is made of, one for each episode, in order."""
        from rewardmix.recovery.bags import Bags

        return Bags(self.symbols, self.offsets, np.ones(len(self)), schema.num_state_actions, schema.num_values)

    def episodes(self, schema: LogSchema) -> Episodes:
        """As padded arrays."""
        afford_episodes(len(self), schema.horizon)
        here = np.arange(schema.horizon) < self.lengths[:, None]
        x, z = np.divmod(self.symbols, schema.num_values)
        state, action = np.divmod(x, schema.num_actions)
        states, actions, outcomes = room_for(
            len(self), schema.horizon, schema.num_states, schema.num_actions, schema.num_values
        )
        for array in (states, actions, outcomes):
            array.fill(ABSENT)
        states[:, :-1][here], actions[here], outcomes[here] = state, action, z
        states[np.arange(len(self)), self.lengths] = self.last
        return Episodes(
            states, actions, outcomes, self.lengths, schema.num_states, schema.num_actions, schema.reward_values
        )

    @staticmethod
    def of(episodes: Episodes) -> Compact:
        """From padded arrays."""
        symbols = episodes.symbols.astype(np.int32, copy=False)
        last = episodes.states[np.arange(len(episodes)), episodes.lengths]
        return Compact(symbols, episodes.lengths.astype(np.int32), last.astype(np.int32))


def join_parts(parts: Sequence[Compact]) -> Compact:
    """Several parts as one."""
    names = ("symbols", "lengths", "last")
    empty = np.empty(0, np.int32)
    symbols, lengths, last = (np.concatenate([empty, *(getattr(part, name) for part in parts)]) for name in names)
    return Compact(symbols, lengths, last, np.concatenate([np.empty(0), *(part.propensity for part in parts)]))


@dataclass(frozen=True)
class StoredPart:
    """A compact part that waits in a file; small to send, cheap to load.

    Attributes:
        path: of the file, in a temporary directory.
        episodes: K.
        rows: N.
        origin: makes the part again where the file is not seen, if the log itself can be read there.
        chances: how many propensities, N or 0.
    """

    path: str
    episodes: int
    rows: int
    origin: Callable[[], Compact] | None = None
    chances: int = 0

    def __len__(self) -> int:
        return self.episodes

    def load(self) -> Compact:
        """The part itself."""
        if not os.path.exists(self.path):
            self._restore()
        with open(self.path, "rb") as file:
            columns = [np.fromfile(file, np.int32, count) for count in (self.episodes, self.episodes, self.rows)]
            chances = np.fromfile(file, np.float64, self.chances)
        lengths, last, symbols = columns
        return Compact(symbols, lengths, last, chances)

    def _restore(self) -> None:
        if self.origin is None:
            found = f"no part of the log at {self.path!r}"
            refuse("executor", found, "a temporary directory that all workers see, or a log in files")
        folder = os.path.dirname(self.path)
        if not os.path.isdir(folder):  # of another machine: nobody but this worker will remove it
            os.makedirs(folder, exist_ok=True)
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
        store(self.origin(), self.path)


def store(compact: Compact, path: str) -> StoredPart:
    """Put a part into a file, in one step: others may look for it at the same time."""
    temporary = f"{path}.{os.getpid()}"
    with open(temporary, "wb") as file:
        for column in (compact.lengths, compact.last, compact.symbols, compact.propensity):
            column.tofile(file)
    os.replace(temporary, path)
    return StoredPart(path, len(compact), compact.rows, chances=compact.propensity.size)


def stored(part: Any, path: str | None) -> Any:
    """A part where it is to wait: in memory if there is no path for it."""
    return part if path is None or isinstance(part, StoredPart) else store(part, path)


def loaded(part: Any) -> Compact:
    """A part, wherever it was kept."""
    return part.load() if isinstance(part, StoredPart) else part


@dataclass(frozen=True)
class Problem:
    """One kind of problem.

    Attributes:
        kind: what is wrong, in the plural.
        count: how often.
        first: the first offender, in words.
    """

    kind: str
    count: int
    first: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.count}, first {self.first}"


@dataclass(frozen=True)
class Repair:
    """One kind of thing that was done to the rows so that they can be read.

    Attributes:
        kind: what it was done to, in the plural.
        count: to how many.
        sentence: what was done, in words.
    """

    kind: str
    count: int
    sentence: str


@dataclass(frozen=True)
class Notes:
    """What was met on reading.

    Attributes:
        rows: read.
        episodes: read, good and bad.
        kept: good episodes.
        problems: of the ones that were skipped.
        cut: borders between parts that cut an episode, which was put together again.
        name: of the source.
        repairs: what was done to the rows so that they can be read.
        span: from when to when it is, as 2026-11-16T09:30:00, if its rows have times.
        in_order: whether episodes are known to come in the order in which they happened: by their times, or because
             they are from memory or from a service. The order of rows without times may be any.
        lost: what ``left_out`` is to say.
    """

    rows: int
    episodes: int
    kept: int
    problems: tuple[Problem, ...] = ()
    cut: int = 0
    name: str = "episodes in memory"
    repairs: tuple[Repair, ...] = ()
    span: tuple[str, str] | None = None
    in_order: bool = False
    lost: InitVar[LeftOut | None] = None

    def __post_init__(self, lost: LeftOut | None) -> None:
        object.__setattr__(self, "lost", lost)

    @property
    def left_out(self) -> LeftOut:
        """How much of the log was dropped."""
        lost: LeftOut | None = vars(self)["lost"]
        return LeftOut(self.skipped, self.episodes, rows=self.rows) if lost is None else lost

    @property
    def skipped(self) -> int:
        """Bad episodes that were dropped."""
        return self.episodes - self.kept

    @property
    def sentences(self) -> tuple[str, ...]:
        """What a reader should know of it, in words."""
        out = [repair.sentence for repair in self.repairs]
        if self.skipped:
            reasons = "; ".join(str(problem) for problem in self.problems)
            out.append(f"{self.skipped} of {self.episodes} episodes were bad and left out: {reasons}.")
        if self.cut:
            out.append(f"{self.cut} borders between parts of the file cut an episode, which was put together again.")
        return tuple(out)


@dataclass(frozen=True, eq=False)
class Log:
    """Episodes in parts, wherever they are kept.

    Attributes:
        schema: states, actions, horizon, reward values and names.
        parts: compact episodes, in memory or in files.
        workers: the executor that works on them, and the temporary directory of their files.
        notes: what was met on reading.
        origins: where each part is from, for the names of its episodes; none if they are numbered.
    """

    schema: LogSchema
    parts: tuple[Any, ...]
    workers: Workers = field(default_factory=Workers)
    notes: Notes = field(default_factory=lambda: Notes(0, 0, 0))
    origins: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return sum(len(part) for part in self.parts)

    def __repr__(self) -> str:
        schema = self.schema
        return (
            f"Log({len(self)} episodes in {len(self.parts)} parts, horizon={schema.horizon}, "
            f"states={schema.num_states}, actions={schema.num_actions}, "
            f"reward_values={tuple(schema.reward_values.tolist())})"
        )

    @cached_property
    def moments(self) -> Moments:
        """The counts of all episodes."""
        return self.count()

    def count(self, on_update: Callback | None = None) -> Moments:
        """The counts of all episodes, part by part."""
        counts: Moments = self.total(_moments, on_update=on_update)
        return counts

    def total(self, function: Callable[..., Any], *common: Any, on_update: Callback | None = None) -> Any:
        """Sum over the parts of function(part, schema, *common), which must add."""
        results = self.workers.map(function, self.parts, common=(self.schema, *common))
        return reduce(operator.add, reported(results, len(self.parts), on_update))

    def moved(self, executor: Executor) -> Log:
        """The same log for another executor."""
        workers = replace(self.workers, executor=executor)
        files = workers.files(part.rows for part in self.parts)
        return replace(self, parts=tuple(map(stored, self.parts, files)), workers=workers)

    def sample(self, most: int, seed: int = 0) -> Compact:
        """All episodes if there are at most ``most``, otherwise about that many, chosen at random, in order."""
        share = most / max(len(self), 1)
        if share >= 1.0:
            return self._whole()
        return join_parts(list(self.workers.map(_some, self.parts, range(len(self.parts)), common=(share, seed))))

    def episodes(self) -> Episodes:
        """All of them as padded arrays in memory."""
        return self._whole().episodes(self.schema)

    def _whole(self) -> Compact:
        return join_parts([loaded(part) for part in self.parts])


def _moments(part: Any, schema: LogSchema) -> Moments:
    compact = loaded(part)
    return Moments.of_steps(compact.symbols, compact.lengths, compact.last, schema)


def _some(part: Any, number: int, share: float, seed: int) -> Compact:
    compact = loaded(part)
    return compact.chosen(generator(seed, Role.LOG_SAMPLE, number).random(len(compact)) < share)
