"""What finished sessions earned, added up as they finish: by arm, by version and over time, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rewardmix.bounded_mean import ReturnBounds
from rewardmix.service.comparison import ArmEarned, BettingSequence
from rewardmix.service.deciding import ADAPTIVE, FIXED

MOST_STRETCHES = 40
"""Stretches of sessions that time is divided into; twice as long ones when there are more."""

MOST_UNKNOWN = 20
"""Unknown states that are kept by what they were called."""

ARMS = (ADAPTIVE, FIXED)


@dataclass(frozen=True)
class FinishedRow:
    """A session that has finished.

    Attributes:
        finished: its place among those that did.
        version: of the policy that it followed.
        arm: which policy of that version.
        ended: whether its owner ended it; False: it fell silent.
        earned: sum of its rewards until then.
        holdout: share of the holdout by which its arm was drawn; None: the store does not say.
    """

    finished: int
    version: int
    arm: str
    ended: bool
    earned: float
    holdout: float | None


class Ledger:
    """Sessions that have finished. Those that are deleted later stay in the sums until the service starts again."""

    def __init__(self, bounds: ReturnBounds) -> None:
        self.compared = BettingSequence(bounds)
        self.last = 0
        self.abandoned = 0
        self.sessions = 0
        self.width = 5
        self.stretches: list[dict[str, ArmEarned]] = []
        self.by_version: dict[tuple[int, str], ArmEarned] = {}
        self.unknown: dict[str, int] = {}
        self.unknown_total = 0

    def take(self, rows: Iterable[FinishedRow], unknown: Iterable[tuple[str, int]] = ()) -> None:
        """Add sessions that have finished since, in their order, and what unknown states in them were called."""
        for row in rows:
            one = ArmEarned(1, row.earned, row.earned**2)
            self.compared.add(row.arm == ADAPTIVE, row.holdout, row.earned)
            if not self.stretches or _count(self.stretches[-1]) >= self.width:
                self._make_room()
                self.stretches.append({arm: ArmEarned() for arm in ARMS})
            self.stretches[-1][row.arm] = self.stretches[-1][row.arm].plus(one)
            key = row.version, row.arm
            self.by_version[key] = self.by_version.get(key, ArmEarned()).plus(one)
            self.last = row.finished
            self.sessions += 1
            self.abandoned += not row.ended
        for said, count in unknown:
            self.unknown_total += count
            if said in self.unknown or len(self.unknown) < MOST_UNKNOWN:
                self.unknown[said] = self.unknown.get(said, 0) + count

    def arm(self, arm: str) -> ArmEarned:
        """All sessions of an arm."""
        total = ArmEarned()
        for (_, which), earned in self.by_version.items():
            total = total.plus(earned) if which == arm else total
        return total

    def _make_room(self) -> None:
        if len(self.stretches) < MOST_STRETCHES:
            return
        pairs = zip(self.stretches[::2], self.stretches[1::2], strict=True)
        self.stretches = [{arm: one[arm].plus(two[arm]) for arm in ARMS} for one, two in pairs]
        self.width *= 2


def _count(stretch: dict[str, ArmEarned]) -> int:
    return sum(earned.sessions for earned in stretch.values())
