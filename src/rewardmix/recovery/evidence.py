"""What there is to recover from, made from whatever was kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rewardmix._check import refuse
from rewardmix.episodes import Episodes
from rewardmix.moments import Moments
from rewardmix.recovery.confidence import ConfidenceSet, Radius, confidence_set, hoeffding
from rewardmix.recovery.patterns import Patterns, merged, patterns


@dataclass(frozen=True, eq=False)
class Evidence:
    """What there is to recover from.

    Attributes:
        confidence: the confidence set.
        moments: the counts behind it, if there are any.
        bags: the rewards of whole episodes, if they were kept.
    """

    confidence: ConfidenceSet
    moments: Moments | None = None
    bags: Patterns | None = None


def evidence_of(data: Any, *, failure: float = 0.05, accuracy: float = 0.1, radius: Radius = hoeffding) -> Evidence:
    """A confidence set and whatever finer there is."""
    if isinstance(data, ConfidenceSet):
        return Evidence(data)
    if isinstance(data, Moments):
        return Evidence(confidence_set(data, failure=failure, accuracy=accuracy, radius=radius), data)
    if isinstance(data, Episodes):
        moments = Moments.of(data)
        confidence = confidence_set(moments, failure=failure, accuracy=accuracy, radius=radius)
        return Evidence(confidence, moments, merged(patterns(data)))
    refuse("data", type(data).__name__, "Episodes, Moments or a ConfidenceSet")
