"""How much of a log is left out, said aloud: a little is a headline, much is an error unless a number is given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats, as_number, refuse

LOUD = 0.01
"""Share of the sessions beyond which leaving them out is a headline."""

MOST_LEFT_OUT = 0.1
"""Share beyond which it is an error, unless a larger one is given."""


@dataclass(frozen=True)
class LeftOut:
    """Sessions of a log that cannot be used.

    Attributes:
        sessions: that are left out.
        all_sessions: all there are.
        nameless: rows that name no session: nobody knows how many sessions they are.
        rows: all there are.
        reward: share of the sizes of all rewards that is in what is left out; NaN if no reward differs from 0.
        missing: rewards in it that are missing or no number, which that share does not count.
        paid: sizes of the rewards in the others, added; NaN where nobody added them.
    """

    sessions: int = 0
    all_sessions: int = 0
    nameless: int = 0
    rows: int = 0
    reward: float = math.nan
    missing: int = 0
    paid: float = math.nan

    @property
    def share(self) -> float:
        """Of the sessions; of the rows, if more of them name no session."""
        return max(self.sessions / max(self.all_sessions, 1), self.nameless / max(self.rows, 1))

    @property
    def amount(self) -> str:
        """How many they are and what they hold, in words."""
        nameless = f" ({self.nameless:,} of {self.rows:,} rows name none)" if self.nameless else ""
        earned = "" if math.isnan(self.reward) else f" with {_percent(self.reward)} of the reward"
        missing = f" (and {self.missing:,} rewards that are missing)" if self.missing else ""
        return f"{self.sessions:,} of {self.all_sessions:,} sessions{nameless}{earned}{missing}"

    @property
    def headline(self) -> str:
        """What has to be said before anything else; nothing, where little is left out."""
        return "" if self.share <= LOUD else f"Left out: {self.amount}. Results speak of the others only."

    @property
    def advice(self) -> str:
        """How they are left out, and what that loses."""
        least = math.ceil(1000 * self.share) / 1000
        python, typed = ("True", "") if self.share <= MOST_LEFT_OUT else (f"{least:g}", f" {least:g}")
        return f"skip_bad={python}, or --skip-bad{typed} when typed, drops these {self.amount}"


def as_skipped_share(skip_bad: Any) -> float | None:
    """The largest share of the sessions that may be left out; None: none at all."""
    if isinstance(skip_bad, bool | np.bool_):
        return MOST_LEFT_OUT if skip_bad else None
    if isinstance(skip_bad, str):
        refuse("skip_bad", repr(skip_bad), "True, False, or the largest share of sessions that may be left out")
    share = as_number("skip_bad", skip_bad)
    if not 0.0 <= share <= 1.0:
        refuse("skip_bad", share, "a share of the sessions between 0 and 1")
    return share


def reward_sizes(episode: NDArray[np.int64], reward: Floats, seen: int, good: NDArray[np.int64]) -> Floats:
    """(2,): sizes of the finite rewards in good and in bad episodes, added in the order of the rows.

    Args:
        episode: (N,) of each row.
        reward: (N,).
        seen: runs of rows of one episode.
        good: which of these are good episodes.
    """
    bad = np.zeros(episode.size, np.int64)
    if good.size < seen:
        number = np.cumsum(np.append(False, episode[1:] != episode[:-1]))
        bad = np.where(np.isin(np.arange(seen), good), 0, 1)[number]
    sizes = np.where(np.isfinite(reward), np.abs(reward), 0.0)
    return np.asarray(np.bincount(bad, weights=sizes, minlength=2), np.float64)


def _percent(share: float) -> str:
    """A share that is not all is never called all, nor one that is something nothing."""
    if 0.0 < share < 0.001:
        return "less than 0.1 %"
    if 0.999 < share < 1.0:
        return "more than 99.9 %"
    return f"{100 * share:.3g} %"
