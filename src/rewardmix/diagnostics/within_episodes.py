"""Test whether rewards of one episode depend on each other beyond the type: switching, copying, repetition.

Each test is a score, summed over episodes and divided by its standard deviation. It requires enough episodes with two
rewards other than the most frequent value, since only such pairs contain information about types. With few of them per
parameter, or with a type that held-out episodes do not support, the sum is neither centered at zero nor normal with the
estimated variance. Then it is compared with parametric bootstrap samples: rewards drawn from the fitted model at the
observed states and actions, and the model fitted again to each. A superfluous type may also be real but too weak to
detect. Each test is therefore repeated with the smaller model and the larger p-value counts, which keeps the error
below the level whichever model is true.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rewardmix._core.random_streams import Role, make_generator
from rewardmix.diagnostics import score_kernels
from rewardmix.diagnostics.episode_scores import CheckedEpisodes, EpisodeScores, Params, compute_scores
from rewardmix.diagnostics.p_values import (
    NO_INFORMATION,
    Answer,
    Deviation,
    resampled_p_value,
    two_sided_p_value,
    upper_p_value,
)
from rewardmix.diagnostics.score_projection import project_scores
from rewardmix.diagnostics.surplus import drop_unsupported_types, fit_from_mixture, mixture_to_params, params_to_mixture
from rewardmix.recovery.reward_patterns import merge_patterns

_EPISODES_PER_PARAMETER = 5
"""Minimum number of episodes per estimated parameter for a score test."""

_MIN_PAIRED = 10
"""Minimum number of episodes with two rewards other than the most frequent; one pair can give a p-value of 1e-10."""

_PAIRED_PER_PARAMETER = 5
"""Number of such episodes per parameter below which resamples replace the normal distribution.

Set by the study ``benchmarks/checkup`` with rare rewards.
"""

_RESAMPLES = 50
"""Number of resamples; ``p_values.resampled_p_value`` accounts for the small number."""

_RESAMPLE_BELOW = 0.1
"""P-value below which resamples are drawn: their cost is spent only where an assumption could be rejected."""

_MIN_SQUARED_SCORE = 1e-9
"""Mean squared score below which a score is rounding noise: equal types have no score."""

COLUMNS = {
    "switching": score_kernels.SWITCHING_COLUMN,
    "reward copying": score_kernels.COPYING_COLUMN,
    "repetition": score_kernels.REPETITION_COLUMN,
}
"""Assumption -> column of the scores."""

ONE_TYPE = "a single type predicts held-out episodes equally well"

Answers = dict[str, Answer]


def run_score_tests(data: CheckedEpisodes, params: Params, scored: EpisodeScores, seed: int) -> Answers:
    """Run all tests of ``COLUMNS``."""
    if reason := why_too_few_pairs(data):
        return dict.fromkeys(COLUMNS, (math.nan, reason))
    paired = count_paired(data)
    fewer = drop_unsupported_types(data, params)
    tests = [ScoreTest.of(data, params, scored)]
    if fewer is not None:
        tests.append(ScoreTest.of(data, fewer, compute_scores(data, fewer, fewer)))
    answers = _largest(test.answers for test in tests)
    if any(p_value < _RESAMPLE_BELOW for p_value, _ in answers.values()):
        unsure = [paired < _PAIRED_PER_PARAMETER * test.parameters for test in tests]
        # A superfluous type violates the regularity conditions of the score test, whatever the number of pairs.
        unsure[0] |= fewer is not None
        answers = _largest(
            test.resample(seed) if resampled else test.answers for test, resampled in zip(tests, unsure, strict=True)
        )
    if fewer is not None and fewer[0].size == 1:
        answers["switching"] = (math.nan, ONE_TYPE)
    return answers


def why_too_few_pairs(data: CheckedEpisodes, parameters: int = 0) -> str:
    """Return why dependence within episodes cannot be tested, or an empty string.

    With ``parameters``, resamples are not available, so enough pairs for that many parameters are required.
    """
    paired, fewest = count_paired(data), max(_MIN_PAIRED, _PAIRED_PER_PARAMETER * parameters)
    if paired >= fewest:
        return ""
    return f"{paired} episodes have two rewards other than the most frequent one; {fewest} are needed"


def count_paired(data: CheckedEpisodes) -> int:
    """Count the episodes with two rewards other than the most frequent value."""
    step_mask = data.step_mask
    counts = np.bincount(data.reward_indices[step_mask], minlength=data.reward_values.size)
    others = step_mask & (data.reward_indices != counts.argmax())
    return int((others.sum(axis=1) >= 2).sum())


def _largest(answers_by_model: Iterable[Answers]) -> Answers:
    """Return the largest p-value of each test; NaN if any of them is NaN."""
    models = list(answers_by_model)
    return {name: max((answers[name] for answers in models), key=_rank) for name in COLUMNS}


def _rank(answer: Answer) -> float:
    """Return the p-value for sorting, with NaN as the largest."""
    return math.inf if math.isnan(answer[0]) else answer[0]


@dataclass(frozen=True, eq=False)
class ScoreTest:
    """Score tests of episodes under a model.

    Attributes:
        data: Tested episodes.
        params: Weights and reward probabilities of the model.
        deviations: Standardized sum of each score.
        parameters: Number of parameters whose effect was projected out.
    """

    data: CheckedEpisodes
    params: Params
    deviations: list[Deviation]
    parameters: int

    @staticmethod
    def of(data: CheckedEpisodes, params: Params, scored: EpisodeScores) -> ScoreTest:
        """Compute the scores under a model that was fitted to the episodes."""
        return ScoreTest(data, params, *standardize_scores(data, params, scored, list(COLUMNS.values())))

    @property
    def answers(self) -> Answers:
        """Return p-values by the normal distribution."""
        answers = {name: two_sided_p_value(deviation) for name, deviation in zip(COLUMNS, self.deviations, strict=True)}
        # A positive switching probability increases this score, so the test is one-sided.
        answers["switching"] = upper_p_value(self.deviations[0])
        return answers

    def resample(self, seed: int) -> Answers:
        """Compute p-values by the distribution of the scores in resamples of the model."""
        resampled = np.array(list(_iter_resampled_scores(self.data, self.params, seed)))
        return {
            name: (math.nan, reason)
            if reason
            else resampled_p_value(deviation, column[np.isfinite(column)], above=name == "switching")
            for (name, (deviation, reason)), column in zip(
                zip(COLUMNS, self.deviations, strict=True), resampled.T, strict=True
            )
        }


def standardize_scores(
    data: CheckedEpisodes, params: Params, scored: EpisodeScores, columns: list[int]
) -> tuple[list[Deviation], int]:
    """Compute standardized sums of scores with the effect of estimated parameters projected out, and their number."""
    scores = scored.scores[:, columns]
    residuals, parameters = project_scores(data.arrays, params, scored.posteriors, scores)
    count = len(residuals)
    if count < _EPISODES_PER_PARAMETER * parameters:
        too_few = f"{parameters} parameters need {_EPISODES_PER_PARAMETER * parameters} episodes; there are {count}"
        return [(math.nan, too_few)] * len(columns), parameters
    # The factor corrects the variance for the parameters that were projected out.
    square = (residuals**2).sum(axis=0) * (count / (count - parameters))
    has_information = square > _MIN_SQUARED_SCORE * np.maximum((scores**2).sum(axis=0), count)
    return [
        (float(total / math.sqrt(size)), "") if is_informative else (math.nan, NO_INFORMATION)
        for total, size, is_informative in zip(residuals.sum(axis=0), square, has_information, strict=True)
    ], parameters


def _iter_resampled_scores(data: CheckedEpisodes, params: Params, seed: int) -> Iterator[list[float]]:
    """Yield the standardized scores of each resample: new rewards, model fitted again."""
    for number in range(_RESAMPLES):
        rng = make_generator(seed, Role.DIAGNOSTICS_RESAMPLES, params[0].size, number)
        resample = data.with_reward_indices(draw_reward_indices(data, params, rng))
        fitted = mixture_to_params(fit_from_mixture(merge_patterns(resample.patterns), params_to_mixture(params)))
        scored = compute_scores(resample, fitted, fitted)
        yield [value for value, _ in standardize_scores(resample, fitted, scored, list(COLUMNS.values()))[0]]


def draw_reward_indices(data: CheckedEpisodes, params: Params, rng: np.random.Generator) -> NDArray[np.int8]:
    """Draw rewards of a model at the states and actions of episodes, shape (K, H)."""
    weights, table = params
    types = np.searchsorted(weights.cumsum()[:-1], rng.random(len(data)), side="right")
    # Inverse transform sampling for all steps at once: the index is the number of cumulative values below the
    # level.
    level = rng.random(data.state_actions.shape)
    borders = table.cumsum(axis=1)
    reward_indices = np.zeros(data.state_actions.shape, data.reward_indices.dtype)
    for z in range(data.reward_values.size - 1):
        reward_indices += level >= borders[data.state_actions, z, types[:, None]]
    return reward_indices
