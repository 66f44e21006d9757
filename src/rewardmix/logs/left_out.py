"""Report how much of a log was dropped: a little is a warning, much is an error unless a fraction is given."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.checks import Floats, as_number, raise_input_error

WARNING_FRACTION = 0.01
"""Fraction of dropped sessions above which results carry a warning."""

MAX_LEFT_OUT = 0.1
"""Fraction of dropped sessions above which reading fails, unless a larger one is given."""


@dataclass(frozen=True)
class LeftOut:
    """Sessions of a log that were dropped.

    Attributes:
        sessions: number of dropped sessions.
        all_sessions: number of all sessions.
        nameless: rows without a session id; the number of their sessions is unknown.
        rows: number of all rows.
        reward: share of the sum of absolute rewards in dropped sessions; NaN if all rewards are 0.
        missing: dropped rewards that are missing or not a number, which ``reward`` does not count.
        paid: sum of absolute rewards in the kept sessions; NaN if it was not computed.
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
        """Fraction of sessions that were dropped, or of rows without a session id if that is larger."""
        return max(self.sessions / max(self.all_sessions, 1), self.nameless / max(self.rows, 1))

    @property
    def amount(self) -> str:
        """Number of dropped sessions and their share of the reward, as text."""
        nameless = f" ({self.nameless:,} of {self.rows:,} rows have no session id)" if self.nameless else ""
        reward_text = "" if math.isnan(self.reward) else f" with {_percent(self.reward)} of the reward"
        missing = f" (and {self.missing:,} missing rewards)" if self.missing else ""
        return f"{self.sessions:,} of {self.all_sessions:,} sessions{nameless}{reward_text}{missing}"

    @property
    def headline(self) -> str:
        """Warning that precedes results; empty if little was dropped."""
        return (
            ""
            if self.share <= WARNING_FRACTION
            else f"Dropped: {self.amount}. Results refer to the other sessions only."
        )

    @property
    def advice(self) -> str:
        """Option that allows dropping, and its effect, as text."""
        # Rounded up, so that the suggested fraction is large enough.
        limit = math.ceil(1000 * self.share) / 1000
        python, flag_value = ("True", "") if self.share <= MAX_LEFT_OUT else (f"{limit:g}", f" {limit:g}")
        return f"drop_invalid={python} (command line: --drop-invalid{flag_value}) drops {self.amount}"


def as_skipped_share(drop_invalid: Any) -> float | None:
    """Return the largest fraction of sessions that may be dropped; None: none at all."""
    if isinstance(drop_invalid, bool | np.bool_):
        return MAX_LEFT_OUT if drop_invalid else None
    if isinstance(drop_invalid, str):
        raise_input_error(
            "drop_invalid", repr(drop_invalid), "True, False, or the largest fraction of sessions that may be dropped"
        )
    fraction = as_number("drop_invalid", drop_invalid)
    if not 0.0 <= fraction <= 1.0:
        raise_input_error("drop_invalid", fraction, "a fraction from 0 to 1")
    return fraction


def reward_sizes(episode: NDArray[np.int64], reward: Floats, num_runs: int, valid: NDArray[np.int64]) -> Floats:
    """Sum the absolute finite rewards in valid and in invalid episodes (2,), in the order of the rows.

    Args:
        episode: (N,) episode of each row.
        reward: (N,) rewards.
        num_runs: Number of runs of rows of one episode.
        valid: Indices of the runs that are valid episodes.
    """
    bad = np.zeros(episode.size, np.int64)
    if valid.size < num_runs:
        run = np.cumsum(np.append(False, episode[1:] != episode[:-1]))
        bad = np.where(np.isin(np.arange(num_runs), valid), 0, 1)[run]
    sizes = np.where(np.isfinite(reward), np.abs(reward), 0.0)
    # np.bincount adds in the order of the rows, so the sums do not depend on how episodes are grouped.
    return np.asarray(np.bincount(bad, weights=sizes, minlength=2), np.float64)


def _percent(share: float) -> str:
    """Format a fraction as a percentage that is 0 % or 100 % only if it is exact."""
    if 0.0 < share < 0.001:
        return "less than 0.1 %"
    if 0.999 < share < 1.0:
        return "more than 99.9 %"
    return f"{100 * share:.3g} %"
