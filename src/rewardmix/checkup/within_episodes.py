"""Do rewards of one episode depend on each other beyond the type? Switching, copying, repetition.

Each is a score, summed over the episodes and compared with its standard deviation, where there are enough episodes that
hold two rewards other than the most frequent: only such pairs say how types differ. Where they are few for each
parameter, or where the model has a type that episodes held out say nothing for, the sum is neither centered at zero
nor as wide as it should be. There it is compared with the sums of resamples: rewards drawn anew from the fitted model
at the same states and actions, and the model fitted anew to each. A type that is not needed may also be there and too
weak to be seen, so each question is asked of the smaller model too, and the larger p-value counts: whichever of the two
is true, there is no more false alarm than there should be.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.streams import Role, generator
from rewardmix.checkup import score_kernels
from rewardmix.checkup.p_values import NO_EPISODE_CAN_TELL, Answer, Deviation, among_resamples, two_sided, upper
from rewardmix.checkup.projection import projected
from rewardmix.checkup.surplus import ascend_from, fewer_types, mixture_of_parts, parts_of_mixture
from rewardmix.checkup.walks import CheckedEpisodes, Parts, Walked, walk_over
from rewardmix.recovery.bags import merge_bags

_PER_PARAMETER = 5
"""A score test needs so many episodes for each parameter that was estimated."""

_FEWEST_PAIRED = 10
"""It needs so many that hold two rewards other than the most frequent: one such pair can be a p-value of 1e-10."""

_PAIRED_PER_PARAMETER = 5
"""With fewer of these for each parameter its law comes from resamples (``benchmarks/checkup``, rare rewards)."""

_RESAMPLES = 50
"""Of the fitted model; that they are few is allowed for (``p_values.among_resamples``)."""

_SUSPECT = 0.1
"""Resamples are drawn where some p-value is below this: what they cost is spent where something could be broken."""

_ROUNDING = 1e-9
"""A score whose square is less than this an episode is rounding: types that are equal have no score."""

COLUMNS = {
    "switching": score_kernels.SWITCHED,
    "copying": score_kernels.COPIED,
    "repetition": score_kernels.REPEATED,
}
"""Question -> column of the scores."""

ONE_TYPE = "one type predicts episodes that were held out as well"

Answers = dict[str, Answer]


def ask_within_episodes(data: CheckedEpisodes, parts: Parts, walked: Walked, seed: int) -> Answers:
    """The answers to all questions of ``COLUMNS``."""
    if reason := lack_of_pairs(data):
        return dict.fromkeys(COLUMNS, (math.nan, reason))
    paired = count_paired(data)
    fewer = fewer_types(data, parts)
    tests = [ScoreTest.of(data, parts, walked)]
    if fewer is not None:
        tests.append(ScoreTest.of(data, fewer, walk_over(data, fewer, fewer)))
    answers = _largest(test.answers for test in tests)
    if any(p_value < _SUSPECT for p_value, _ in answers.values()):
        unsure = [paired < _PAIRED_PER_PARAMETER * test.parameters for test in tests]
        unsure[0] |= fewer is not None
        answers = _largest(
            test.resample(seed) if resampled else test.answers for test, resampled in zip(tests, unsure, strict=True)
        )
    if fewer is not None and fewer[0].size == 1:
        answers["switching"] = (math.nan, ONE_TYPE)
    return answers


def lack_of_pairs(data: CheckedEpisodes, parameters: int = 0) -> str:
    """Why nothing can be asked about how rewards of an episode hang together, or "".

    With ``parameters``: without resamples, which so many make necessary where pairs are few.
    """
    paired, fewest = count_paired(data), max(_FEWEST_PAIRED, _PAIRED_PER_PARAMETER * parameters)
    if paired >= fewest:
        return ""
    return f"{paired} episodes have two rewards other than the most frequent one, and it takes {fewest}"


def count_paired(data: CheckedEpisodes) -> int:
    """How many episodes hold two rewards other than the most frequent one."""
    live = data.live
    counts = np.bincount(data.outcomes[live], minlength=data.values.size)
    others = live & (data.outcomes != counts.argmax())
    return int((others.sum(axis=1) >= 2).sum())


def _largest(every: Iterable[Answers]) -> Answers:
    """Of each question the answer with the largest p-value; none where one of them is none."""
    models = list(every)
    return {name: max((answers[name] for answers in models), key=_rank) for name in COLUMNS}


def _rank(answer: Answer) -> float:
    return math.inf if math.isnan(answer[0]) else answer[0]


@dataclass(frozen=True, eq=False)
class ScoreTest:
    """The scores of episodes under a model.

    Attributes:
        data: the episodes.
        parts: the model.
        deviations: of the sum of each score.
        parameters: how many were taken out.
    """

    data: CheckedEpisodes
    parts: Parts
    deviations: list[Deviation]
    parameters: int

    @staticmethod
    def of(data: CheckedEpisodes, parts: Parts, walked: Walked) -> ScoreTest:
        """The test of a model that was fitted to the episodes."""
        return ScoreTest(data, parts, *deviations_of(data, parts, walked, list(COLUMNS.values())))

    @property
    def answers(self) -> Answers:
        """P-values by the normal law."""
        answers = {name: two_sided(one) for name, one in zip(COLUMNS, self.deviations, strict=True)}
        answers["switching"] = upper(self.deviations[0])
        return answers

    def resample(self, seed: int) -> Answers:
        """P-values by the law of the same scores in resamples of the model."""
        drawn = np.array(list(_resampled(self.data, self.parts, seed)))
        return {
            name: (math.nan, reason)
            if reason
            else among_resamples(deviation, column[np.isfinite(column)], above=name == "switching")
            for (name, (deviation, reason)), column in zip(
                zip(COLUMNS, self.deviations, strict=True), drawn.T, strict=True
            )
        }


def deviations_of(
    data: CheckedEpisodes, parts: Parts, walked: Walked, columns: list[int]
) -> tuple[list[Deviation], int]:
    """The sums of these scores in standard deviations, with the effect of the estimated parameters taken out.

    And how many parameters that were.
    """
    scores = walked.scores[:, columns]
    left, parameters = projected(data.arrays, parts, walked.posteriors, scores)
    count = len(left)
    if count < _PER_PARAMETER * parameters:
        too_few = f"it takes {_PER_PARAMETER * parameters} episodes to correct for {parameters} parameters"
        return [(math.nan, too_few)] * len(columns), parameters
    square = (left**2).sum(axis=0) * (count / (count - parameters))
    enough = square > _ROUNDING * np.maximum((scores**2).sum(axis=0), count)
    return [
        (float(total / math.sqrt(size)), "") if ok else (math.nan, NO_EPISODE_CAN_TELL)
        for total, size, ok in zip(left.sum(axis=0), square, enough, strict=True)
    ], parameters


def _resampled(data: CheckedEpisodes, parts: Parts, seed: int) -> Iterator[list[float]]:
    """The deviations of each resample: rewards anew, the model fitted anew, the same scores."""
    for number in range(_RESAMPLES):
        rng = generator(seed, Role.CHECKUP_RESAMPLES, parts[0].size, number)
        drawn = data.with_outcomes(draw_outcomes(data, parts, rng))
        fitted = parts_of_mixture(ascend_from(merge_bags(drawn.bags), mixture_of_parts(parts)))
        walked = walk_over(drawn, fitted, fitted)
        yield [value for value, _ in deviations_of(drawn, fitted, walked, list(COLUMNS.values()))[0]]


def draw_outcomes(data: CheckedEpisodes, parts: Parts, rng: np.random.Generator) -> NDArray[np.int8]:
    """(K, H) rewards of a model at the states and actions of episodes."""
    weights, table = parts
    types = np.searchsorted(weights.cumsum()[:-1], rng.random(len(data)), side="right")
    level = rng.random(data.points.shape)
    borders = table.cumsum(axis=1)
    outcomes = np.zeros(data.points.shape, data.outcomes.dtype)
    for z in range(data.values.size - 1):
        outcomes += level >= borders[data.points, z, types[:, None]]
    return outcomes
