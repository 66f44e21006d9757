"""Logs that were read: checked episodes in partitions, and sums over partitions.

A partition stores one integer per step, the symbol ``x * Z + z`` (state-action index x = s * A + a, reward index z),
and for each episode its length and final state. The next state of every other step is the state of the step after it,
so transitions need no storage of their own.
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

from rewardmix._core.budget import check_budget_episodes
from rewardmix._core.checks import raise_input_error
from rewardmix._core.random_streams import Role, make_generator
from rewardmix._core.short_repr import use_short_repr
from rewardmix.episodes import PADDING, Episodes, allocate_episodes
from rewardmix.logs.executors import ExecutorPool, ProgressCallback, report_each
from rewardmix.logs.left_out import LeftOut
from rewardmix.logs.log_schema import LogSchema
from rewardmix.moments import Moments

if TYPE_CHECKING:
    from rewardmix.recovery.reward_patterns import RewardPatterns

Integers = NDArray[np.int32]


@use_short_repr
@dataclass(frozen=True, eq=False)
class CompactEpisodes:
    """K episodes with N steps in all, stored as symbols.

    Attributes:
        symbols: (N,) x * Z + z, episode after episode.
        lengths: (K,) number of steps.
        final_states: (K,) state after the last action, PADDING if the log does not contain it.
        stored_propensities: (N,) propensity of each action; empty if the log has none.
    """

    symbols: Integers
    lengths: Integers
    final_states: Integers
    stored_propensities: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def __len__(self) -> int:
        return int(self.lengths.size)

    @property
    def num_rows(self) -> int:
        """Number of steps N."""
        return int(self.symbols.size)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Index (K + 1,) of the first step of each episode, and N."""
        offsets = np.zeros(self.lengths.size + 1, np.int64)
        np.cumsum(self.lengths, out=offsets[1:])
        return offsets

    def select(self, mask: NDArray[np.bool_]) -> CompactEpisodes:
        """Select the episodes of a mask (K,)."""
        steps = np.repeat(mask, self.lengths)
        propensities = self.stored_propensities[steps] if self.stored_propensities.size else self.stored_propensities
        return CompactEpisodes(self.symbols[steps], self.lengths[mask], self.final_states[mask], propensities)

    def propensities(self, schema: LogSchema) -> NDArray[np.float64] | None:
        """Return the propensities (K, H), 1 after the end of an episode; None if the log has none."""
        if not self.stored_propensities.size:
            return None
        propensities = np.ones((len(self), schema.horizon))
        propensities[np.arange(schema.horizon) < self.lengths[:, None]] = self.stored_propensities
        return propensities

    def reward_patterns(self, schema: LogSchema) -> RewardPatterns:
        """Return the reward patterns of the likelihood, one for each episode, in order."""
        from rewardmix.recovery.reward_patterns import RewardPatterns

        return RewardPatterns(
            self.symbols, self.offsets, np.ones(len(self)), schema.num_state_actions, schema.num_values
        )

    def episodes(self, schema: LogSchema) -> Episodes:
        """Convert to padded arrays."""
        check_budget_episodes(len(self), schema.horizon)
        step_mask = np.arange(schema.horizon) < self.lengths[:, None]
        # A boolean mask is filled in row-major order, which is the order of the symbols.
        x, z = np.divmod(self.symbols, schema.num_values)
        state, action = np.divmod(x, schema.num_actions)
        states, actions, reward_indices = allocate_episodes(
            len(self), schema.horizon, schema.num_states, schema.num_actions, schema.num_values
        )
        for array in (states, actions, reward_indices):
            array.fill(PADDING)
        states[:, :-1][step_mask], actions[step_mask], reward_indices[step_mask] = state, action, z
        states[np.arange(len(self)), self.lengths] = self.final_states
        return Episodes(
            states, actions, reward_indices, self.lengths, schema.num_states, schema.num_actions, schema.reward_values
        )

    @staticmethod
    def from_episodes(episodes: Episodes) -> CompactEpisodes:
        """Convert from padded arrays."""
        symbols = episodes.symbols.astype(np.int32, copy=False)
        last = episodes.states[np.arange(len(episodes)), episodes.lengths]
        return CompactEpisodes(symbols, episodes.lengths.astype(np.int32), last.astype(np.int32))


def concat_partitions(partitions: Sequence[CompactEpisodes]) -> CompactEpisodes:
    """Concatenate partitions."""
    names = ("symbols", "lengths", "final_states")
    empty = np.empty(0, np.int32)
    symbols, lengths, last = (
        np.concatenate([empty, *(getattr(partition, name) for partition in partitions)]) for name in names
    )
    return CompactEpisodes(
        symbols,
        lengths,
        last,
        np.concatenate([np.empty(0), *(partition.stored_propensities for partition in partitions)]),
    )


@dataclass(frozen=True)
class SpilledPartition:
    """Partition in a temporary file: small to send to a worker, fast to load.

    Attributes:
        path: path of the file, in a temporary directory.
        num_episodes: number of episodes K.
        num_rows: number of steps N.
        origin: function that builds the partition again where the file is not visible; None if the source cannot be
            read again.
        num_propensities: number of stored propensities, N or 0.
    """

    path: str
    num_episodes: int
    num_rows: int
    origin: Callable[[], CompactEpisodes] | None = None
    num_propensities: int = 0

    def __len__(self) -> int:
        return self.num_episodes

    def load(self) -> CompactEpisodes:
        """Load the partition from its file, or rebuild it if the file does not exist on this machine."""
        if not os.path.exists(self.path):
            self._rebuild()
        with open(self.path, "rb") as file:
            columns = [
                np.fromfile(file, np.int32, count) for count in (self.num_episodes, self.num_episodes, self.num_rows)
            ]
            propensities = np.fromfile(file, np.float64, self.num_propensities)
        lengths, last, symbols = columns
        return CompactEpisodes(symbols, lengths, last, propensities)

    def _rebuild(self) -> None:
        if self.origin is None:
            # Rows of a table in memory cannot be read again on another machine.
            actual = f"no partition of the log at {self.path!r}"
            raise_input_error("executor", actual, "a temporary directory that all workers can read, or a log in files")
        folder = os.path.dirname(self.path)
        # The directory belongs to another machine, so this process creates its own and removes it at exit.
        if not os.path.isdir(folder):
            os.makedirs(folder, exist_ok=True)
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
        spill(self.origin(), self.path)


def spill(compact: CompactEpisodes, path: str) -> SpilledPartition:
    """Write a partition to a file."""
    temporary = f"{path}.{os.getpid()}"
    # Raw arrays without a header: their sizes travel with the description, and reading needs no parsing.
    with open(temporary, "wb") as file:
        for column in (compact.lengths, compact.final_states, compact.symbols, compact.stored_propensities):
            column.tofile(file)
    # Several workers may build the file at one time. Each writes its own, and the atomic rename leaves a complete one.
    os.replace(temporary, path)
    return SpilledPartition(path, len(compact), compact.num_rows, num_propensities=compact.stored_propensities.size)


def spill_if_path(partition: Any, path: str | None) -> Any:
    """Spill a partition to a file if a path is given; keep it in memory otherwise."""
    return partition if path is None or isinstance(partition, SpilledPartition) else spill(partition, path)


def load_partition(partition: Any) -> CompactEpisodes:
    """Return a partition as compact episodes, loading it if it was spilled."""
    return partition.load() if isinstance(partition, SpilledPartition) else partition


@dataclass(frozen=True)
class RowProblem:
    """One kind of problem in the rows of a log.

    Attributes:
        kind: name of the problem, plural.
        count: number of occurrences.
        first_occurrence: description of the first one.
    """

    kind: str
    count: int
    first_occurrence: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.count}, first {self.first_occurrence}"


@dataclass(frozen=True)
class Repair:
    """One kind of change that was made to the rows so that they can be read.

    Attributes:
        kind: what was changed, plural.
        count: number of changes.
        text: description as a sentence.
    """

    kind: str
    count: int
    text: str


@dataclass(frozen=True)
class ReadReport:
    """What reading a log counted, changed and dropped.

    Attributes:
        num_rows: rows read.
        num_episodes: episodes read, valid and invalid.
        num_kept: valid episodes.
        problems: problems of the episodes that were dropped.
        num_split_episodes: borders between chunks that split an episode, which was joined again.
        source_name: name of the source.
        repairs: changes made to the rows.
        time_span: first and last time as 2026-11-16T09:30:00, if the rows have times.
        in_order: whether episodes are known to be in the order in which they happened: by their times, or because they
            come from memory or from a service. Rows without times may be in any order.
        lost: counts for ``left_out``.
    """

    num_rows: int
    num_episodes: int
    num_kept: int
    problems: tuple[RowProblem, ...] = ()
    num_split_episodes: int = 0
    source_name: str = "episodes in memory"
    repairs: tuple[Repair, ...] = ()
    time_span: tuple[str, str] | None = None
    in_order: bool = False
    lost: InitVar[LeftOut | None] = None

    def __post_init__(self, lost: LeftOut | None) -> None:
        object.__setattr__(self, "lost", lost)

    @property
    def left_out(self) -> LeftOut:
        """How much of the log was dropped."""
        lost: LeftOut | None = vars(self)["lost"]
        return LeftOut(self.num_skipped, self.num_episodes, rows=self.num_rows) if lost is None else lost

    @property
    def num_skipped(self) -> int:
        """Number of invalid episodes that were dropped."""
        return self.num_episodes - self.num_kept

    @property
    def format_lines(self) -> tuple[str, ...]:
        """The report as sentences."""
        lines = [repair.text for repair in self.repairs]
        if self.num_skipped:
            reasons = "; ".join(str(problem) for problem in self.problems)
            lines.append(f"{self.num_skipped} of {self.num_episodes} episodes were invalid and dropped: {reasons}.")
        if self.num_split_episodes:
            lines.append(
                f"{self.num_split_episodes} episodes that crossed a border between chunks of a file were joined."
            )
        return tuple(lines)


@dataclass(frozen=True, eq=False)
class Log:
    """Episodes in partitions, in memory or in files.

    Attributes:
        schema: states, actions, horizon, reward values and names.
        partitions: compact episodes, in memory or spilled to files.
        executor_pool: executor that processes the partitions, and the temporary directory of their files.
        read_report: what reading counted, changed and dropped.
        origins: where each partition comes from, to look up episode ids; empty if episodes are numbered.

    Examples:
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> log = rm.read_log(rm.simulate(rm.uniform_policy(model), model, 200))
        >>> len(log), log.schema.num_states, log.schema.horizon
        (200, 3, 8)
    """

    schema: LogSchema
    partitions: tuple[Any, ...]
    executor_pool: ExecutorPool = field(default_factory=ExecutorPool)
    read_report: ReadReport = field(default_factory=lambda: ReadReport(0, 0, 0))
    origins: tuple[Any, ...] = ()

    def __len__(self) -> int:
        return sum(len(partition) for partition in self.partitions)

    def __repr__(self) -> str:
        schema = self.schema
        return (
            f"Log({len(self)} episodes in {len(self.partitions)} partitions, horizon={schema.horizon}, "
            f"states={schema.num_states}, actions={schema.num_actions}, "
            f"reward_values={tuple(schema.reward_values.tolist())})"
        )

    @cached_property
    def moments(self) -> Moments:
        """Sufficient counts of all episodes."""
        return self.sum_int_over_partitions()

    def sum_int_over_partitions(self, callback: ProgressCallback | None = None) -> Moments:
        """Compute the sufficient counts of all episodes, partition by partition."""
        counts: Moments = self.sum_over_partitions(_count_partition, callback=callback)
        return counts

    def sum_over_partitions(
        self, function: Callable[..., Any], *common: Any, callback: ProgressCallback | None = None
    ) -> Any:
        """Sum ``function(partition, schema, *common)`` over the partitions.

        Results are added in the order of the partitions, so the sum does not depend on the executor.
        """
        results = self.executor_pool.map(function, self.partitions, common=(self.schema, *common))
        # A left fold in the order of the partitions fixes the order of floating-point sums.
        return reduce(operator.add, report_each(results, len(self.partitions), callback))

    def with_executor(self, executor: Executor) -> Log:
        """Return this log with another executor; partitions in memory are spilled if that executor needs files."""
        pool = replace(self.executor_pool, executor=executor)
        files = pool.files(partition.num_rows for partition in self.partitions)
        return replace(self, partitions=tuple(map(spill_if_path, self.partitions, files)), executor_pool=pool)

    def sample(self, size: int, seed: int = 0) -> CompactEpisodes:
        """Return all episodes, or a random sample of about the given size if the log has more.

        Episodes stay in their order.
        """
        fraction = size / max(len(self), 1)
        if fraction >= 1.0:
            return self._concat_all()
        # Each partition draws from its own random stream, so the sample does not depend on the executor.
        return concat_partitions(
            list(
                self.executor_pool.map(
                    _sample_partition, self.partitions, range(len(self.partitions)), common=(fraction, seed)
                )
            )
        )

    def episodes(self) -> Episodes:
        """Return all episodes as padded arrays in memory."""
        return self._concat_all().episodes(self.schema)

    def _concat_all(self) -> CompactEpisodes:
        return concat_partitions([load_partition(partition) for partition in self.partitions])


def _count_partition(partition: Any, schema: LogSchema) -> Moments:
    compact = load_partition(partition)
    return Moments.from_steps(compact.symbols, compact.lengths, compact.final_states, schema)


def _sample_partition(partition: Any, number: int, fraction: float, seed: int) -> CompactEpisodes:
    compact = load_partition(partition)
    return compact.select(make_generator(seed, Role.LOG_SAMPLE, number).random(len(compact)) < fraction)
