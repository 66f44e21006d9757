"""Test the assumptions of the model on episodes, one test per assumption.

Each p-value is uniform under its assumption, or larger (see ``within_episodes``). The tests are sums of terms with mean
zero under the model (see ``score_kernels``), for any log, also with actions that depend on rewards. Holm's correction
limits the probability of any false rejection to the significance level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from rewardmix._core.checks import Floats, as_count, as_instance, as_number, raise_input_error
from rewardmix._core.short_repr import use_short_repr
from rewardmix.diagnostics import score_kernels
from rewardmix.diagnostics.episode_scores import CheckedEpisodes, EpisodeScores, compute_scores, model_params
from rewardmix.diagnostics.independence_tests import manova_statistic, trend_statistic
from rewardmix.diagnostics.next_state import next_state_p_value
from rewardmix.diagnostics.p_values import TOO_FEW_VISITS, Answer, chi_squared_p_value, round_nine_digits, upper_p_value
from rewardmix.diagnostics.surplus import fitting_mask
from rewardmix.diagnostics.transition_types import transition_gain
from rewardmix.diagnostics.within_episodes import run_score_tests, standardize_scores, why_too_few_pairs
from rewardmix.episodes import Episodes
from rewardmix.model import RewardMixingMDP
from rewardmix.recovery import recover
from rewardmix.statements import Statement

MAX_BELIEF_ENTRIES = 1 << 25
"""Maximum number of belief entries (episodes x steps x types); larger data are subsampled at equal distance."""

NO_TIME_COLUMN = "no time column gives the order of the episodes"

NEXT_STATE_LEVEL = 0.01
"""P-value of the next-state test below which the test of transition types models rewards by next state."""

ASSUMPTIONS = {
    "transition types": "all types share one transition model",
    "next state": "a reward does not depend on the next state, given state and action",
    "more types needed": "the model has enough types",
    "switching": "the type is constant within an episode",
    "reward copying": "a reward does not depend on the previous reward, given the type",
    "repetition": "a reward does not depend on earlier rewards of the same state and action, given the type",
    "transitions": "the next state does not depend on the type, given state and action",
    "drift": "the environment is constant from the first episode to the last",
}
"""Key of an assumption -> its statement, in the order in which results should be read."""

FORM_ASSUMPTIONS = ("transition types", "next state")
"""Assumptions on which all others rest. Their p-values are larger than uniform, as small gains are ignored."""

REWARD_ASSUMPTIONS = ("more types needed", "switching", "reward copying", "repetition")
"""Assumptions about the rewards of an episode; their tests assume that types change rewards, by state and action."""


@dataclass(frozen=True)
class AssumptionTest:
    """Result of one test.

    Attributes:
        assumption: Key of ``ASSUMPTIONS``.
        p_value: Probability of this much evidence under the assumption; NaN if it was not tested.
        adjusted_p_value: P-value with Holm's correction for all tests.
        rejected: Whether the adjusted p-value is below the significance level.
        skip_reason: Why it was not tested, or an empty string.
        gain: Gain in log-likelihood per held-out episode, if models were compared; else NaN.
    """

    assumption: str
    p_value: float
    adjusted_p_value: float
    rejected: bool
    skip_reason: str
    gain: float = math.nan

    @property
    def text(self) -> str:
        """Format the result as a sentence, with advice if the assumption is rejected."""
        claim = ASSUMPTIONS[self.assumption]
        if math.isnan(self.p_value):
            return f"Not tested whether {claim}: {self.skip_reason}."
        if not self.rejected:
            return f"No evidence against the assumption that {claim} (p = {self.p_value:.2g})."
        return self.statement.text

    @property
    def statement(self) -> Statement:
        """Return the rejection as a statement."""
        gain = {} if math.isnan(self.gain) else {"gain": self.gain}
        return Statement(
            self.assumption, "estimated", (), {"p_value": self.p_value, "adjusted": self.adjusted_p_value, **gain}
        )


@use_short_repr
@dataclass(frozen=True)
class Diagnostics:
    """Results of all assumption tests.

    Attributes:
        tests: One test for each assumption, in the order of ``ASSUMPTIONS``.
        significance_level: Probability of any false rejection.
        num_episodes: Number of tested episodes.

    Examples:
        >>> import rewardmix as rm
        >>> from rewardmix.diagnostics import AssumptionTest
        >>> copying = AssumptionTest("reward copying", 1e-6, 2e-6, True, "")
        >>> tests = (copying, AssumptionTest("drift", 0.2, 0.2, False, ""))
        >>> diagnostics = rm.Diagnostics(tests, significance_level=0.01, num_episodes=1000)
        >>> [test.assumption for test in diagnostics.rejected]
        ['reward copying']
    """

    tests: tuple[AssumptionTest, ...]
    significance_level: float
    num_episodes: int

    @property
    def rejected(self) -> tuple[AssumptionTest, ...]:
        """Return the tests that reject their assumption."""
        return tuple(test for test in self.tests if test.rejected)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return all results as sentences."""
        return tuple(test.text for test in self.tests)


def run_assumption_tests(
    episodes: Episodes,
    *,
    num_types: int = 2,
    model: RewardMixingMDP | None = None,
    significance_level: float = 0.01,
    seed: int = 0,
    in_order: bool = True,
) -> Diagnostics:
    """Test the assumptions of the model on episodes.

    Args:
        episodes: Episodes in chronological order, which only the drift test uses.
        num_types: Number of types to fit, if no model is given.
        model: Model estimated from these episodes; None fits one.
        significance_level: Probability that any true assumption is rejected.
        seed: Seed of fits and resamples.
        in_order: Whether the episodes are in chronological order; if not, drift is not tested.

    Returns:
        One test per assumption.

    Raises:
        InputError: If the model has other sizes or reward values than the episodes.
    """
    as_instance("episodes", episodes, Episodes)
    as_number("significance_level", significance_level, above=0.0, below=1.0)
    if model is None:
        model = recover(episodes, num_types=as_count("num_types", num_types), seed=seed).model
    _check_sizes(model, episodes)
    sample = _subsample(episodes, model.num_types + 1)
    gain, form = check_form(sample, seed)
    # Bonferroni over all assumptions: the remaining tests are not known yet, so Holm's correction cannot be
    # applied here.
    rejected = [name for name, (p_value, _) in form.items() if p_value * len(ASSUMPTIONS) < significance_level]
    answers = form | _all_p_values(sample, model, seed, rejected, in_order=in_order)
    first, *others = _holm_correction(answers, significance_level)
    return Diagnostics((replace(first, gain=gain), *others), significance_level, len(sample))


def check_form(episodes: Episodes, seed: int) -> tuple[float, dict[str, Answer]]:
    """Compute the gain of types with their own transitions, and the p-values of the two basic tests."""
    skipped = math.nan, TOO_FEW_VISITS
    next_state = next_state_p_value(episodes, seed=seed)
    gain = transition_gain(episodes, by_next_state=next_state < NEXT_STATE_LEVEL, seed=seed)
    answers = {
        "transition types": skipped if gain is None else (round_nine_digits(gain.p_value), ""),
        "next state": skipped if math.isnan(next_state) else (round_nine_digits(next_state), ""),
    }
    return math.nan if gain is None else round_nine_digits(gain.gain), answers


def _all_p_values(
    episodes: Episodes, model: RewardMixingMDP, seed: int, rejected: list[str], *, in_order: bool
) -> dict[str, Answer]:
    """Compute all other p-values, except those whose tests assume something that is rejected already."""
    data = CheckedEpisodes.of(episodes)
    if not data.lengths.any():
        return dict.fromkeys(ASSUMPTIONS, (math.nan, "no episode has a step"))
    params = model_params(model, data)
    scored = compute_scores(data, params, params)
    drift = _test_drift(data, scored, rewards=not rejected) if in_order else (math.nan, NO_TIME_COLUMN)
    answers = {"transitions": _test_transitions(data, scored), "drift": drift}
    if not rejected:
        answers |= run_score_tests(data, params, scored, seed)
        return answers | {"more types needed": _test_extra_type(data, model, seed)}
    skipped = math.nan, f"the test assumes that {ASSUMPTIONS[rejected[0]]}"
    # A violation of one of the two also shows in the test of the other.
    related = "next state" if "transition types" in rejected else "transitions"
    return answers | dict.fromkeys((*REWARD_ASSUMPTIONS, related), skipped)


def _test_extra_type(data: CheckedEpisodes, model: RewardMixingMDP, seed: int) -> Answer:
    """Test whether a model with one more type, fitted to some episodes, predicts the others better.

    The test is valid for any rival, so the rival is fitted to no more episodes than a rare type needs: the likelihood
    of a superfluous type is flat, and maximizing it took most of the time of a fit.
    """
    if reason := why_too_few_pairs(data):
        return math.nan, reason
    fitted = fitting_mask(len(data))
    rest = data[~fitted]
    if len(rest) < 2 or not rest.lengths.any() or not data.lengths[fitted].any():
        return math.nan, "the log has too few episodes"
    rival = recover(data.episodes[fitted], num_types=model.num_types + 1, seed=seed).model
    params = model_params(model, rest)
    scored = compute_scores(rest, params, model_params(rival, rest))
    (deviation,), parameters = standardize_scores(rest, params, scored, [score_kernels.EXTRA_TYPE_COLUMN])
    # No resamples here: each of them would need a rival of its own.
    reason = why_too_few_pairs(data, parameters)
    return (math.nan, reason) if reason else upper_p_value(deviation)


def _test_transitions(data: CheckedEpisodes, scored: EpisodeScores) -> Answer:
    """Test whether the belief about the type differs between the next states of one state-action."""
    step_mask = data.step_mask
    next_states = data.episodes.states[:, 1:][step_mask]
    is_known = next_states >= 0
    return chi_squared_p_value(
        manova_statistic(
            data.state_actions[step_mask][is_known], next_states[is_known], scored.beliefs[step_mask][is_known, 1:]
        )
    )


def _test_drift(data: CheckedEpisodes, scored: EpisodeScores, *, rewards: bool = True) -> Answer:
    """Test whether rewards, transitions or initial states change over time.

    The result is the smallest of up to three p-values with Sidak's correction.
    """
    count = data.lengths.size
    step_mask = data.step_mask
    # The index of an episode stands for its time: only the order is known.
    times = np.broadcast_to(((np.arange(count) + 0.5) / count - 0.5)[:, None], step_mask.shape)[step_mask]
    next_states = data.episodes.states[:, 1:][step_mask]
    is_known = next_states >= 0
    initial_states = data.episodes.states[:, 0]
    tests = [
        trend_statistic(
            data.state_actions[step_mask],
            scored.residuals[step_mask],
            scored.variances[step_mask],
            times,
            _beliefs_before(scored)[step_mask],
        ),
        manova_statistic(data.state_actions[step_mask][is_known], next_states[is_known], times[is_known, None]),
        manova_statistic(np.zeros(count, np.int64), initial_states, (np.arange(count)[:, None] + 0.5) / count - 0.5),
    ]
    p_values = [chi_squared_p_value(test)[0] for test in tests[0 if rewards else 1 :] if test[1]]
    if not p_values:
        return math.nan, TOO_FEW_VISITS
    return round_nine_digits(1.0 - (1.0 - min(p_values)) ** len(p_values)), ""


def _beliefs_before(scored: EpisodeScores) -> Floats:
    """Return the centered belief before each step, shape (K, H, M), with 1 in place of the last type."""
    beliefs = np.roll(scored.beliefs, 1, axis=1)
    beliefs[:, 0] = scored.posteriors.mean(axis=0)
    beliefs -= scored.posteriors.mean(axis=0)
    beliefs[:, :, -1] = 1.0
    return beliefs


def _holm_correction(answers: Mapping[str, Answer], level: float) -> tuple[AssumptionTest, ...]:
    """Apply Holm's correction and build the tests."""
    ranked = sorted((p, name) for name, (p, _) in answers.items() if not math.isnan(p))
    adjusted, largest = {}, 0.0
    for rank, (p, name) in enumerate(ranked):
        # Adjusted p-values must not decrease with the rank.
        largest = max(largest, min(1.0, (len(ranked) - rank) * p))
        adjusted[name] = largest
    return tuple(
        AssumptionTest(
            name, answers[name][0], adjusted.get(name, math.nan), adjusted.get(name, 1.0) < level, answers[name][1]
        )
        for name in ASSUMPTIONS
    )


def _subsample(episodes: Episodes, num_types: int) -> Episodes:
    """Return all episodes, or an evenly spaced subsample if there are too many."""
    size = len(episodes) * episodes.horizon * num_types
    return episodes[:: -(-size // MAX_BELIEF_ENTRIES)] if size > MAX_BELIEF_ENTRIES else episodes


def _check_sizes(model: RewardMixingMDP, episodes: Episodes) -> None:
    """Raise an ``InputError`` for a model with other sizes or reward values than the episodes."""
    as_instance("model", model, RewardMixingMDP)
    # A model fitted to episodes that end early has an additional end state.
    extra_states = model.num_states - episodes.num_states
    if extra_states not in (0, 1) or model.num_actions != episodes.num_actions:
        actual = f"{model.num_states} states and {model.num_actions} actions"
        raise_input_error(
            "model", actual, f"{episodes.num_states} states and {episodes.num_actions} actions, as in the episodes"
        )
    if not np.isin(episodes.reward_values, model.reward_values).all():
        raise_input_error(
            "model", f"reward values {model.reward_values.tolist()}", f"those of {episodes.reward_values.tolist()}"
        )
