"""Sum the returns of finished sessions by arm, version and time, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rewardmix.bounded_mean import ReturnBounds
from rewardmix.service.ab_test import ArmStats, BettingSequence
from rewardmix.service.policy_server import ADAPTIVE, HOLDOUT

MAX_INTERVALS = 40
"""Number of intervals of the time axis; above it, pairs of intervals are merged."""

MAX_UNKNOWN_STATES = 20
"""Number of distinct unknown states that are remembered."""

ARMS = (ADAPTIVE, HOLDOUT)


@dataclass(frozen=True)
class FinishedSession:
    """Session that has finished.

    Attributes:
        finished: Number among finished sessions.
        version: Version of the policy that it followed.
        arm: Arm of the A/B test.
        ended: Whether the client ended it; False if it became idle.
        total_reward: Sum of its rewards until then.
        holdout: Probability of the holdout arm when its arm was drawn; None if unknown.
    """

    finished: int
    version: int
    arm: str
    ended: bool
    total_reward: float
    holdout: float | None


class ArmTotals:
    """Running totals of finished sessions. Deleted sessions stay in the totals until the service restarts."""

    def __init__(self, bounds: ReturnBounds) -> None:
        self.comparison = BettingSequence(bounds)
        self.last = 0
        self.abandoned = 0
        self.sessions = 0
        self.width = 5
        self.intervals: list[dict[str, ArmStats]] = []
        self.by_version: dict[tuple[int, str], ArmStats] = {}
        self.unknown: dict[str, int] = {}
        self.unknown_total = 0

    def add(self, rows: Iterable[FinishedSession], unknown: Iterable[tuple[str, int]] = ()) -> None:
        """Add finished sessions in order, and the names of unknown states in them."""
        for row in rows:
            stats = ArmStats(1, row.total_reward, row.total_reward**2)
            # The confidence sequence depends on the order of sessions: rows arrive in the order in which they finished.
            self.comparison.add(row.arm == ADAPTIVE, row.holdout, row.total_reward)
            if not self.intervals or _count_sessions(self.intervals[-1]) >= self.width:
                self._halve_intervals()
                self.intervals.append({arm: ArmStats() for arm in ARMS})
            self.intervals[-1][row.arm] = self.intervals[-1][row.arm].merge(stats)
            key = row.version, row.arm
            self.by_version[key] = self.by_version.get(key, ArmStats()).merge(stats)
            self.last = row.finished
            self.sessions += 1
            self.abandoned += not row.ended
        for raw_state, count in unknown:
            self.unknown_total += count
            # Names come from clients and are unlimited; the total above counts them all.
            if raw_state in self.unknown or len(self.unknown) < MAX_UNKNOWN_STATES:
                self.unknown[raw_state] = self.unknown.get(raw_state, 0) + count

    def arm(self, arm: str) -> ArmStats:
        """Return the totals of an arm over all versions."""
        total = ArmStats()
        for (_, version_arm), stats in self.by_version.items():
            total = total.merge(stats) if version_arm == arm else total
        return total

    def _halve_intervals(self) -> None:
        """Merge pairs of intervals when there are too many."""
        if len(self.intervals) < MAX_INTERVALS:
            return
        # Halving the resolution keeps memory bounded and costs amortized constant time per session.
        pairs = zip(self.intervals[::2], self.intervals[1::2], strict=True)
        self.intervals = [{arm: first[arm].merge(second[arm]) for arm in ARMS} for first, second in pairs]
        self.width *= 2


def _count_sessions(interval: dict[str, ArmStats]) -> int:
    """Return the number of sessions of an interval."""
    return sum(stats.num_sessions for stats in interval.values())
