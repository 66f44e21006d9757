"""How many contexts there are, by what they predict.

The episodes are split at random into two halves. For each number M a mixture is fitted to one half and its
log-likelihood taken on the other, both ways round: an average over all episodes of what is said of the unseen. M goes
up as long as the last context gains more than 1/n nats an episode, n their number. More than one context is claimed
only if the gain over one context is clear: more than ``CLEAR_GAIN`` / n nats and ``CLEAR_ERRORS`` standard errors. With
rare rewards the standard errors are too small, so the first of the two is the guard.

The Bayesian information criterion of the same mixtures, fitted to all episodes, is kept as a number beside it. It
charges for every state-action of every context and asks for too few where there are many.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rewardmix._core.brevity import short
from rewardmix._core.checks import Floats, as_count, as_instance, as_number, as_seed, refuse
from rewardmix._core.portable import log
from rewardmix._core.streams import Role, generator
from rewardmix.episodes import Episodes
from rewardmix.facts import Fact
from rewardmix.recovery.bags import Bags
from rewardmix.recovery.evidence import Evidence, Question, afford_data, evidence_of
from rewardmix.recovery.likelihood import Fit, Mixture, ascend, e_step, logliks, one_context
from rewardmix.recovery.many_contexts import ascend_many
from rewardmix.recovery.rare_start import rare_ascents, rare_draws

MOST_CONTEXTS = 12
"""The largest number of contexts that is tried, unless somebody says otherwise."""

CLEAR_GAIN, CLEAR_ERRORS = 3.0, 2.33
"""Nats in all, and standard errors, beyond which a gain over one context is clear; chosen by ``benchmarks/types`` on
logs without types."""

LEAST_STEP = 1.0
"""Nats in all that the last context has to gain over one less."""

_CLOSE = 1e-3
"""An ascent has converged when E-steps gain less than this in all: numbers of contexts differ by more."""

_POLISHED = 2
"""Starts that ascend to the end, for each half."""


@dataclass(frozen=True)
class Trial:
    """How one number of contexts did.

    Attributes:
        held_out: log-likelihood an episode of episodes that the mixture was not fitted to.
        gain: the same, above one context less; NaN for a single context.
        error: standard error of the gain.
        above_one: gain above a single context; NaN for that.
        error_above_one: its standard error.
        loglik: log-likelihood of all episodes, fitted to all of them.
        parameters: free ones.
        criterion: Bayesian information: parameters * log(episodes) - 2 loglik.
    """

    held_out: float
    gain: float
    error: float
    above_one: float
    error_above_one: float
    loglik: float
    parameters: int
    criterion: float


@short
@dataclass(frozen=True, eq=False)
class Choice:
    """How many contexts there are.

    Attributes:
        num_contexts: the number that predicts best; one, unless more clearly predict better.
        trials: {M: how it did}, from one context to the first that gains next to nothing.
        mixtures: {M: fitted to all episodes}.
    """

    num_contexts: int
    trials: dict[int, Trial]
    mixtures: dict[int, Mixture]

    @property
    def criterion(self) -> dict[int, float]:
        """{M: Bayesian information criterion}."""
        return {contexts: trial.criterion for contexts, trial in self.trials.items()}

    @property
    def fact(self) -> Fact:
        """The choice as a fact."""
        if self.num_contexts == 1:
            return Fact("one type", "estimated")
        last = self.trials[self.num_contexts]
        numbers = {"types": self.num_contexts, "gain": last.above_one, "error": last.error_above_one}
        return Fact("types chosen", "estimated", (), {**numbers, "step": last.gain})

    @property
    def sentence(self) -> str:
        """The choice in words."""
        return self.fact.sentence


def choose_contexts(
    episodes: Episodes, max_contexts: int = MOST_CONTEXTS, *, prior: float = 1.0, seed: int = 0
) -> Choice:
    """The number of contexts, from one to ``max_contexts``, that predicts held-out episodes best.

    Args:
        episodes: whole episodes.
        max_contexts: the largest number tried.
        prior: pseudo-count, as in ``recover``.
        seed: of the split and the starts.
    """
    most = as_count("max_contexts", max_contexts)
    as_number("prior", prior, above=-1e-300)
    as_seed("seed", seed)
    afford_data(as_instance("episodes", episodes, Episodes), None, most)
    if len(episodes) == 0:
        refuse("episodes", "no episodes", "at least one")
    return choose(evidence_of(episodes), most, prior=prior, seed=seed)


def choose(evidence: Evidence, most: int, *, prior: float = 1.0, seed: int = 0) -> Choice:
    """The same from evidence that has bags."""
    bags = evidence.bags
    assert bags is not None
    halves = _halves(bags, seed)
    mixtures = {1: one_context(bags)}
    single = [one_context(half) for half in halves]
    alone = before = _held_out(single, halves)
    fewer = [e_step(*pair).loglik for pair in zip(halves, single, strict=True)]
    trials = {1: _trial(mixtures[1], bags, alone, None, None)}
    for contexts in range(2, most + 1 if all(half.total for half in halves) else 2):
        question = Question(contexts, None, prior, seed)
        parts = [replace(evidence, bags=half, blind=half) for half in halves]
        fits = [_fitted(part, question, less) for part, less in zip(parts, fewer, strict=True)]
        scores = _held_out([fit.mixture for fit in fits], halves)
        mixtures[contexts] = _fitted_to_all(evidence, question, fits)
        trials[contexts] = _trial(mixtures[contexts], bags, scores, before, alone)
        if not worth_adding(trials[contexts], bags.total):
            break
        before, fewer = scores, [fit.loglik for fit in fits]
    return Choice(count_contexts(trials, bags.total), trials, mixtures)


def worth_adding(trial: Trial, episodes: float) -> bool:
    """Whether the last context gains more than next to nothing."""
    return trial.gain > LEAST_STEP / episodes


def is_clear(gain: float, error: float, episodes: float) -> bool:
    """Whether a held-out gain over one context, in nats an episode, shows that there are more."""
    return gain > max(CLEAR_GAIN / episodes, CLEAR_ERRORS * error)


def count_contexts(trials: Mapping[int, Trial], episodes: float) -> int:
    """The largest number that every step to was worth, and that is clearly better than one; or one."""
    number = 1
    for contexts in range(2, len(trials) + 1):
        trial = trials[contexts]
        if not worth_adding(trial, episodes):
            break
        if is_clear(trial.above_one, trial.error_above_one, episodes):
            number = contexts
    return number


def _halves(bags: Bags, seed: int) -> list[Bags]:
    """Each episode in one of two halves, by a coin."""
    counts = bags.counts.astype(np.int64)
    coins = generator(seed, Role.CROSS_FIT).integers(0, 2, size=int(counts.sum()))
    ends = np.cumsum(counts)
    heads = np.concatenate([[0], np.cumsum(coins)])
    first = (heads[ends] - heads[ends - counts]).astype(np.float64)
    return [bags.reweighted(first), bags.reweighted(counts - first)]


def _fitted(evidence: Evidence, question: Question, fewer: float) -> Fit:
    """The best of some ascents; where it is hardly more likely than one less, of some from rare contexts too."""
    bags = evidence.bags
    assert bags is not None
    settings: dict[str, Any] = {"tolerance": _CLOSE / max(bags.total, 1.0)}
    fits = ascend_many(evidence, question, polished=_POLISHED, **settings)
    settings |= {"average": evidence.centre(bags, question), "prior": evidence.strength(question)}
    rng = rare_draws(question.seed, question.num_contexts)
    best = max(fits, key=lambda fit: fit.objective)
    return max([best, *rare_ascents(bags, best, fewer, rng, **settings)], key=lambda fit: fit.objective)


def _fitted_to_all(evidence: Evidence, question: Question, fits: list[Fit]) -> Mixture:
    """From where one half ended on to all episodes."""
    bags = evidence.bags
    assert bags is not None
    start = max(fits, key=lambda fit: e_step(bags, fit.mixture).loglik)
    centre, prior, tolerance = evidence.centre(bags, question), evidence.strength(question), _CLOSE / bags.total
    return ascend(
        lambda mixture: e_step(bags, mixture), start.mixture, average=centre, prior=prior, tolerance=tolerance
    ).mixture


Scores = list[tuple[Floats, Floats]]
"""Of each half: (log-likelihood of each bag, its count)."""


def _held_out(mixtures: list[Mixture], halves: list[Bags]) -> Scores:
    """What each mixture says of the other half."""
    return [(logliks(half, mixture), half.counts) for mixture, half in zip(mixtures, reversed(halves), strict=True)]


def _trial(mixture: Mixture, bags: Bags, scores: Scores, before: Scores | None, alone: Scores | None) -> Trial:
    total = sum(float(counts.sum()) for _, counts in scores)
    held_out = sum(float((score * counts).sum()) for score, counts in scores) / total
    loglik = e_step(bags, mixture).loglik
    (criterion,) = criteria({mixture.num_contexts: loglik}, bags).values()
    parameters = free_parameters(mixture.num_contexts, bags)
    return Trial(held_out, *_gain(scores, before), *_gain(scores, alone), loglik, parameters, criterion)


def _gain(scores: Scores, others: Scores | None) -> tuple[float, float]:
    """Mean of what scores are above others, and its standard error; NaN without others."""
    if others is None:
        return math.nan, math.nan
    total = sum(float(counts.sum()) for _, counts in scores)
    differences = [(new - old, counts) for (new, counts), (old, _) in zip(scores, others, strict=True)]
    gain = sum(float((each * counts).sum()) for each, counts in differences) / total
    square = sum(float(((each - gain) ** 2 * counts).sum()) for each, counts in differences)
    return gain, math.sqrt(square) / total


def criteria(logliks: Mapping[int, float], bags: Bags) -> dict[int, float]:
    """{M: Bayesian information criterion} of numbers of contexts, from the log-likelihoods of the bags."""
    weight = float(log(max(bags.total, 2.0)))
    return {m: -2.0 * loglik + free_parameters(m, bags) * weight for m, loglik in logliks.items()}


def free_parameters(contexts: int, bags: Bags) -> int:
    """Of so many weights and of reward laws where the bags have been."""
    visited = int((bags.occurrences.sum(axis=1) > 0).sum())
    return contexts * visited * (bags.num_values - 1) + contexts - 1
