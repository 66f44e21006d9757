"""Collect what recovery needs, from episodes, moments or a confidence set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rewardmix._core.budget import check_budget_recovery
from rewardmix._core.checks import Floats, as_instance, raise_input_error
from rewardmix._core.random_streams import Role, make_generator
from rewardmix._core.short_repr import use_short_repr
from rewardmix.episodes import Episodes
from rewardmix.moments import Moments
from rewardmix.recovery.confidence_set import ConfidenceSet, RadiusRule, confidence_set, hoeffding_rule
from rewardmix.recovery.hierarchical_prior import HierarchicalPrior, uses_hierarchical_prior
from rewardmix.recovery.reward_patterns import RewardPatterns, merge_patterns, patterns_from_episodes


@dataclass(frozen=True, eq=False)
class RecoverySettings:
    """Settings of a recovery.

    Attributes:
        num_types: M.
        weights: (M,) weights if they are known.
        pseudocount: Pseudocount at the prior mean for each x and type; None: estimated in a large model, 1 in others.
        seed: Seed of the random initial values.
        init_mixture: (weights (M,), probs (M, X, Z)) of an earlier model: one more initial value, whose order the types
            keep.
    """

    num_types: int = 2
    weights: Floats | None = None
    pseudocount: float | None = None
    seed: int = 0
    init_mixture: tuple[Floats, Floats] | None = None

    @property
    def pseudocount_or_default(self) -> float:
        """Given pseudocount, or 1 because refits of resamples do not estimate one."""
        return 1.0 if self.pseudocount is None else self.pseudocount


@use_short_repr
@dataclass(frozen=True, eq=False)
class RecoveryData:
    """Data of a recovery.

    Attributes:
        confidence_set: Confidence set.
        moments: Counts behind it, if there are any.
        patterns: Reward patterns of whole episodes, if they were kept.
        nonadaptive_patterns: Patterns of the nonadaptive episodes; only their averages are unbiased.
    """

    confidence_set: ConfidenceSet
    moments: Moments | None = None
    patterns: RewardPatterns | None = None
    nonadaptive_patterns: RewardPatterns | None = None

    @cached_property
    def hierarchical_prior(self) -> HierarchicalPrior | None:
        """Hierarchical prior of a large model with counts, else None."""
        large = uses_hierarchical_prior(self.confidence_set.num_states, self.confidence_set.num_actions)
        return HierarchicalPrior(self.moments) if self.moments is not None and large else None

    def prior_mean(self, patterns: RewardPatterns, settings: RecoverySettings) -> Floats:
        """Compute the (X, Z) prior mean of the reward probabilities behind ``patterns``.

        It is the marginals of the nonadaptive episodes, because adaptively collected episodes visit x more often when
        rewards there were good. State-actions that only adaptive episodes visited use all episodes. In a large model
        the prior mean is itself shrunk to the pooled distribution, the more the less types share. In a log no episode
        is known to be nonadaptive, and the marginals of the whole log are used; only a pseudocount depends on them.
        """
        if self.nonadaptive_patterns is None or self.nonadaptive_patterns is patterns or self.patterns is not patterns:
            return self._shrink(patterns.marginal_probs, patterns.reward_counts.sum(axis=1), settings)
        nonadaptive = self.nonadaptive_patterns
        visits, all_visits = nonadaptive.reward_counts.sum(axis=1), patterns.reward_counts.sum(axis=1)
        marginal_probs = np.where(visits[:, None] > 0, nonadaptive.marginal_probs, patterns.marginal_probs)
        return self._shrink(marginal_probs, np.where(visits > 0, visits, all_visits), settings)

    def _shrink(self, marginal_probs: Floats, visits: Floats, settings: RecoverySettings) -> Floats:
        """Shrink marginals by the hierarchical prior, if there is one."""
        return (
            marginal_probs
            if self.hierarchical_prior is None
            else self.hierarchical_prior.prior_mean(marginal_probs, visits, settings.num_types)
        )

    def pseudocount(self, settings: RecoverySettings) -> float:
        """Return the pseudocount at the prior mean: the given one, or in a large model the estimated one."""
        if settings.pseudocount is not None:
            return settings.pseudocount
        return 1.0 if self.hierarchical_prior is None else self.hierarchical_prior.pseudocount(settings.num_types)


def check_budget_data(data: Any, adaptive_episodes: Any, num_types: int) -> None:
    """Raise ``InputError`` if ``data`` has a wrong type, or if recovery of so many types exceeds the memory limit."""
    if not isinstance(data, Episodes | Moments | ConfidenceSet):
        raise_input_error("data", type(data).__name__, "Episodes, Moments or a ConfidenceSet")
    if adaptive_episodes is not None:
        as_instance("adaptive_episodes", adaptive_episodes, Episodes)
    points, values = data.num_states * data.num_actions, int(data.reward_values.size)
    steps = 0
    if isinstance(data, Episodes):
        num_adaptive = 0 if adaptive_episodes is None else len(adaptive_episodes)
        steps = (len(data) + num_adaptive) * data.horizon
        # An upper bound from the numbers of steps, known before the pairs are counted.
        pairs = min(points * (points + 1) // 2, len(data) * data.horizon * (data.horizon + 1) // 2)
    else:
        pairs = data.pair_keys.size if isinstance(data, Moments) else data.pair_first.size // data.width**2
        steps = 3 * data.triple_tables.size if isinstance(data, Moments) else 0
    check_budget_recovery(points, values, num_types, int(pairs), steps)


def make_recovery_data(
    data: Any,
    adaptive_episodes: Episodes | None = None,
    *,
    moments: Moments | None = None,
    failure_prob: float = 0.05,
    epsilon: float = 0.1,
    radius: RadiusRule = hoeffding_rule,
) -> RecoveryData:
    """Make recovery data: a confidence set and the finer data behind it.

    ``adaptive_episodes``, and ``moments`` that were counted already, are allowed only with episodes as ``data``.
    """
    if isinstance(data, Episodes):
        moments = Moments.from_episodes(data) if moments is None else _check_moments(moments, data)
    elif adaptive_episodes is not None:
        raise_input_error("data", type(data).__name__, "Episodes with adaptive_episodes")
    elif moments is not None:
        raise_input_error("data", type(data).__name__, "Episodes with moments")
    elif isinstance(data, ConfidenceSet):
        return RecoveryData(data)
    else:
        moments = as_instance("data", data, Moments)
    intervals = confidence_set(moments, failure_prob=failure_prob, epsilon=epsilon, radius_rule=radius)
    if not isinstance(data, Episodes):
        return RecoveryData(intervals, moments)
    patterns = merge_patterns(patterns_from_episodes(data))
    evidence = RecoveryData(intervals, moments, patterns, patterns)
    return evidence if adaptive_episodes is None else add_adaptive_episodes(evidence, data, adaptive_episodes)


def add_adaptive_episodes(
    evidence: RecoveryData, nonadaptive_episodes: Episodes, adaptive_episodes: Episodes
) -> RecoveryData:
    """Add adaptively collected episodes to nonadaptive ones: for the likelihood and the transitions only."""
    assert evidence.moments is not None
    both = nonadaptive_episodes + adaptive_episodes
    # Some code takes the first patterns as a sample, so both kinds of episodes are shuffled together.
    order = make_generator(0, Role.EVIDENCE_ORDER).permutation(len(both))
    updated = evidence.confidence_set.with_transitions(evidence.moments + Moments.from_transitions(adaptive_episodes))
    combined = replace(evidence, confidence_set=updated, patterns=merge_patterns(patterns_from_episodes(both[order])))
    # Its counts are unchanged: the sums are not recomputed.
    combined.__dict__["hierarchical_prior"] = evidence.hierarchical_prior
    return combined


def _check_moments(moments: Moments, episodes: Episodes) -> Moments:
    """Return given moments after a check that they can contain those of the episodes."""
    as_instance("moments", moments, Moments)
    if moments.spec != episodes.spec or moments.num_episodes < len(episodes) or moments.first_visit_keys.size:
        raise_input_error("moments", repr(moments), f"the moments of {episodes!r} with all pairs")
    return moments
