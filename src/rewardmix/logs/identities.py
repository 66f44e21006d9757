"""Which episode of somebody's table an episode of a log is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rewardmix.logs import arrow
from rewardmix.logs.checking import PROBLEM_KINDS, Limits, check_columns, tables_of, whole_episodes
from rewardmix.logs.columns import Coding, episodes_of, runs_of


@dataclass(frozen=True, eq=False)
class Origin:
    """Where a part of a log is from.

    Attributes:
        piece: its rows.
        coding: how they became numbers.
        limits: what a good one looks like.
        about: columns that tell which episode it is, besides that of the episode.
    """

    piece: Any
    coding: Coding
    limits: Limits
    about: tuple[str, ...]

    def identities(self) -> Any:
        """A table with the episode of each good episode, and what else is told of it in its first row."""
        pa, column = arrow.library(), self.coding.names.episode
        firsts: list[Any] = []
        last: tuple[Any, Any] | None = None
        for table in tables_of(self.piece, self.coding, self.about):
            with arrow.reading(self.piece.name):
                ids, absent = episodes_of(table.column(column), column)
            fresh = runs_of(ids, absent)
            fresh[0] = (ids[0], absent[0]) != last
            firsts.append(table.select([column, *self.about]).filter(pa.array(fresh)))
            last = ids[-1], absent[-1]
        return pa.concat_tables(firsts, promote_options="permissive").take(self._good())

    def _good(self) -> Any:
        """The numbers of the good episodes among all."""
        numbers, seen = [], 0
        for columns in whole_episodes(self.piece, self.coding):
            nothing = np.zeros(PROBLEM_KINDS, np.int64), np.full(PROBLEM_KINDS, -1, np.int64)
            _, ids, which = check_columns(columns, self.limits, *nothing)
            numbers.append(which + seen)
            seen += ids.size
        return np.concatenate(numbers)
