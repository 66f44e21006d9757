"""What there is to recover from, made from whatever was kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rewardmix._check import refuse
from rewardmix.episodes import Episodes
from rewardmix.moments import Moments
from rewardmix.recovery.confidence import ConfidenceSet, confidence_set, hoeffding
from rewardmix.recovery.covariances import Radius
from rewardmix.recovery.patterns import Patterns, merged, patterns


@dataclass(frozen=True, eq=False)
class Evidence:
    """What there is to recover from.

    Attributes:
        confidence: the confidence set.
        moments: the counts behind it, if there are any.
        bags: the rewards of whole episodes, if they were kept.
        blind: those of the episodes whose actions did not follow their rewards: only these may be averaged.
    """

    confidence: ConfidenceSet
    moments: Moments | None = None
    bags: Patterns | None = None
    blind: Patterns | None = None


def evidence_of(
    data: Any,
    following: Episodes | None = None,
    *,
    failure: float = 0.05,
    accuracy: float = 0.1,
    radius: Radius = hoeffding,
) -> Evidence:
    """A confidence set and whatever finer there is; ``following`` episodes only with whole episodes as ``data``."""
    if following is not None and not isinstance(data, Episodes):
        refuse("data", type(data).__name__, "Episodes, where there are others that follow rewards")
    if isinstance(data, ConfidenceSet):
        return Evidence(data)
    if isinstance(data, Moments):
        return Evidence(confidence_set(data, failure=failure, accuracy=accuracy, radius=radius), data)
    if isinstance(data, Episodes):
        moments = Moments.of(data)
        confidence = confidence_set(moments, failure=failure, accuracy=accuracy, radius=radius)
        bags = blind = merged(patterns(data))
        if following is not None:
            confidence = confidence.moved(moments + Moments.of(following))
            both = data + following
            mixed = np.random.default_rng(0).permutation(len(both))  # the first bags may stand for all
            bags = merged(patterns(both[mixed]))
        return Evidence(confidence, moments, bags, blind)
    refuse("data", type(data).__name__, "Episodes, Moments or a ConfidenceSet")
