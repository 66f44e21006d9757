"""Look up which episode of the source an episode of a log is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rewardmix.logs import arrow_io
from rewardmix.logs.columns import ColumnCoding, encode_episodes, mark_episode_starts
from rewardmix.logs.row_checks import PROBLEM_KINDS, RowLimits, check_columns, iter_tables, iter_whole_episodes


@dataclass(frozen=True, eq=False)
class ChunkOrigin:
    """Source of a partition.

    Attributes:
        chunk: rows of the partition.
        coding: encoding of its columns.
        limits: values that a valid row may have.
        extra_columns: columns besides the episode that identify it.
    """

    chunk: Any
    coding: ColumnCoding
    limits: RowLimits
    extra_columns: tuple[str, ...]

    def load_ids(self) -> Any:
        """Load a table with the id of each valid episode and the extra columns of its first row."""
        pa, column = arrow_io.import_pyarrow(), self.coding.names.episode
        firsts: list[Any] = []
        last: tuple[Any, Any] | None = None
        for table in iter_tables(self.chunk, self.coding, self.extra_columns):
            with arrow_io.raise_read_errors(self.chunk.name):
                ids, absent = encode_episodes(table.column(column), column)
            is_first = mark_episode_starts(ids, absent)
            # An episode that goes on from the table before does not begin again here.
            is_first[0] = (ids[0], absent[0]) != last
            firsts.append(table.select([column, *self.extra_columns]).filter(pa.array(is_first)))
            last = ids[-1], absent[-1]
        return pa.concat_tables(firsts, promote_options="permissive").take(self._valid_episode_indices())

    def _valid_episode_indices(self) -> Any:
        """Return the indices of the valid episodes among all.

        The rows are checked again, which saves storing the indices of every partition.
        """
        indices, num_episodes = [], 0
        for columns in iter_whole_episodes(self.chunk, self.coding):
            empty = np.zeros(PROBLEM_KINDS, np.int64), np.full(PROBLEM_KINDS, -1, np.int64)
            _, ids, valid = check_columns(columns, self.limits, *empty)
            indices.append(valid + num_episodes)
            num_episodes += ids.size
        return np.concatenate(indices)
