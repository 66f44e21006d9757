"""What there is to recover from, made from whatever was kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rewardmix._core.brevity import short
from rewardmix._core.checks import Floats, as_instance, refuse
from rewardmix._core.limits import afford_recovery
from rewardmix._core.streams import Role, generator
from rewardmix.episodes import Episodes
from rewardmix.moments import Moments
from rewardmix.recovery.bags import Bags, bags_of, merge_bags
from rewardmix.recovery.confidence_set import ConfidenceSet, Radius, confidence_set, hoeffding
from rewardmix.recovery.pooling import Pool, is_large


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked.

    Attributes:
        num_contexts: M.
        weights: (M,) if they are known.
        prior: pseudo-count at the centre for each x and context; None: learned in a large world, 1 in others.
        seed: of the random starts.
        start: (weights (M,), laws (M, X, Z)) of an earlier model: one more start, whose order the contexts keep.
    """

    num_contexts: int = 2
    weights: Floats | None = None
    prior: float | None = None
    seed: int = 0
    start: tuple[Floats, Floats] | None = None

    @property
    def pseudo_count(self) -> float:
        """What was asked for, or 1, for refits of parts; they are not asked what they show."""
        return 1.0 if self.prior is None else self.prior


@short
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
    bags: Bags | None = None
    blind: Bags | None = None

    @cached_property
    def pool(self) -> Pool | None:
        """What state-actions say of each other, in a large world of which there are counts."""
        large = is_large(self.confidence.num_states, self.confidence.num_actions)
        return Pool(self.moments) if self.moments is not None and large else None

    def centre(self, bags: Bags, question: Question) -> Floats:
        """(X, Z) law that a prior on the laws behind ``bags`` pulls to.

        In a large world it is itself pulled to the law of the world, the more the less contexts have in common.
        The average over the blind episodes: one that includes episodes that follow rewards is pulled by what these
        looked for. Only where no blind episode went is there nothing better. For a log no episode is known to be blind,
        and the average over all of it has to do; a pseudo-count is all that hangs on it.
        """
        if self.blind is None or self.blind is bags or self.bags is not bags:
            return self._pooled(bags.average, bags.occurrences.sum(axis=1), question)
        visits, others = self.blind.occurrences.sum(axis=1), bags.occurrences.sum(axis=1)
        average = np.where(visits[:, None] > 0, self.blind.average, bags.average)
        return self._pooled(average, np.where(visits > 0, visits, others), question)

    def _pooled(self, average: Floats, visits: Floats, question: Question) -> Floats:
        return average if self.pool is None else self.pool.centre(average, visits, question.num_contexts)

    def strength(self, question: Question) -> float:
        """The pseudo-count at the centre: what was asked for, or what a large world shows."""
        if question.prior is not None:
            return question.prior
        return 1.0 if self.pool is None else self.pool.strength(question.num_contexts)


def afford_data(data: Any, following: Any, contexts: int) -> None:
    """Refuse what is no data, and data from which so many contexts cannot be recovered with the memory there is."""
    if not isinstance(data, Episodes | Moments | ConfidenceSet):
        refuse("data", type(data).__name__, "Episodes, Moments or a ConfidenceSet")
    if following is not None:
        as_instance("following", following, Episodes)
    points, values = data.num_states * data.num_actions, int(data.reward_values.size)
    steps = 0
    if isinstance(data, Episodes):
        more = 0 if following is None else len(following)
        steps = (len(data) + more) * data.horizon
        pairs = min(points * (points + 1) // 2, len(data) * data.horizon * (data.horizon + 1) // 2)
    else:
        pairs = data.pair_keys.size if isinstance(data, Moments) else data.first.size // data.width**2
        steps = 3 * data.triple_tables.size if isinstance(data, Moments) else 0
    afford_recovery(points, values, contexts, int(pairs), steps)


def evidence_of(
    data: Any,
    following: Episodes | None = None,
    *,
    moments: Moments | None = None,
    failure: float = 0.05,
    accuracy: float = 0.1,
    radius: Radius = hoeffding,
) -> Evidence:
    """A confidence set and whatever finer there is.

    ``following`` episodes, and ``moments`` that were counted already, only with whole episodes as ``data``.
    """
    if isinstance(data, Episodes):
        moments = Moments.of(data) if moments is None else _counted(moments, data)
    elif following is not None:
        refuse("data", type(data).__name__, "Episodes, where there are others that follow rewards")
    elif moments is not None:
        refuse("data", type(data).__name__, "Episodes, where there are moments of them")
    elif isinstance(data, ConfidenceSet):
        return Evidence(data)
    else:
        moments = as_instance("data", data, Moments)
    confidence = confidence_set(moments, failure=failure, accuracy=accuracy, radius=radius)
    if not isinstance(data, Episodes):
        return Evidence(confidence, moments)
    bags = merge_bags(bags_of(data))
    alone = Evidence(confidence, moments, bags, bags)
    return alone if following is None else with_following(alone, data, following)


def with_following(evidence: Evidence, blind: Episodes, following: Episodes) -> Evidence:
    """The evidence of ``blind`` episodes together with others that follow rewards: for the likelihood and the moves."""
    assert evidence.moments is not None
    both = blind + following
    mixed = generator(0, Role.EVIDENCE_ORDER).permutation(len(both))  # the first bags may stand for all
    moved = evidence.confidence.moved(evidence.moments + Moments.of_moves(following))
    together = replace(evidence, confidence=moved, bags=merge_bags(bags_of(both[mixed])))
    together.__dict__["pool"] = evidence.pool  # of the same counts: its sums are not taken again
    return together


def _counted(moments: Moments, episodes: Episodes) -> Moments:
    """Moments that were handed over, if they can be those of the episodes, or of more that these are a sample of."""
    as_instance("moments", moments, Moments)
    if moments.world != episodes.world or moments.episodes < len(episodes) or moments.selected_keys.size:
        refuse("moments", repr(moments), f"those of {episodes!r}, all pairs counted")
    return moments
