"""Derive one verdict about a run, with advice, from its numbers and statements.

The first condition that holds decides, in this order: a log without rewards, an environment that violates the model's
form, one type that explains the data as well as more do, too few types, a rejected assumption, observed returns that
contradict the model, no adaptivity gain, and finally how good the policy is and what the evidence for that is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from rewardmix.statements import EVIDENCE, REJECTED_ASSUMPTION_TEXT, UNFOUNDED, Statement

NEAR_OPTIMAL_SCORE = 0.9
"""Normalized score from which a policy is near-optimal."""

MIN_RELATIVE_GAIN = 0.01
"""Adaptivity gain, relative to the value of the best Markov policy, below which adapting is not worthwhile."""
MIN_RELATIVE_LOSS = 0.001
"""Loss, relative to the value of the best Markov policy, from which a policy is reported as worse."""

TRIAL_SHARE = 0.1
"""Share of the sessions on which advice suggests to test a policy."""

POWER_FACTOR = 2 * (1.96 + 0.84) ** 2
"""Sessions per arm times squared difference over variance, at which a test has 80 % power (level 5 %)."""

MAX_EPISODE_FACTOR = 100.0
"""Largest multiple of the current number of episodes that advice suggests to collect."""

_DO_NOT_ADAPT = "Use the best Markov policy, or add actions whose rewards differ between types."

VERDICTS: Mapping[str, tuple[str, str]] = {
    "no rewards": (
        "All rewards of this log are 0.",
        "Check the reward column, and whether sessions with rewards were dropped. No policy can be learned from this "
        "log.",
    ),
    "one type": (
        "One type explains the episodes as well as more types do; there is nothing to adapt to.",
        _DO_NOT_ADAPT,
    ),
    "single type": (
        "The model has one type; there is nothing to adapt to.",
        "Select the number of types from the episodes, or add actions whose rewards differ between types.",
    ),
    "more types needed": (
        "There are more than {num_types:.0f} types.",
        "Run again with {more:.0f} types, or select the number of types from the episodes.",
    ),
    "transition types": (
        "Types have different transitions; values of adaptive policies are not valid.",
        "Use the best Markov policy, or add to the state what distinguishes the types.",
    ),
    "next state": (
        "Rewards depend on the next state; values of adaptive policies are not valid.",
        "Use the best Markov policy, or attribute the reward of a state to the action taken in it.",
    ),
    "assumption rejected": ("The episodes contradict an assumption of the model.", "{reason}"),
    "disagreement": (
        "Model and data disagree: planned value {planned:.2f}, observed {value:.2f} ({evidence}).",
        "Do not deploy. Collect episodes with this policy, fit one more type, and run the diagnostics.",
    ),
    "no adaptivity gain": (
        "The adaptivity gain is negligible: {gain:.3f} per episode ({evidence}).",
        _DO_NOT_ADAPT,
    ),
    "near-optimal": (
        "Near-optimal: {score:.0f} % of the adaptivity gain ({evidence}).",
        "Deploy the policy and keep logging: the next log shows whether the environment has changed.",
    ),
    "more episodes needed": (
        "Not yet near-optimal: about {score:.0f} % of the adaptivity gain ({evidence}).",
        "Collect about {episodes:,.0f} more episodes; this assumes a regret proportional to 1 / episodes.",
    ),
    "far from optimal": (
        "Far from optimal: about {score:.0f} % of the adaptivity gain ({evidence}).",
        "Collect many times as many episodes, or merge similar states and actions.",
    ),
    "worse than Markov": (
        "Worse than the best Markov policy: {gain:.3f} per episode ({evidence}).",
        "Use the best Markov policy, and collect many times as many episodes.",
    ),
    "not yet tested": (
        "Not yet tested: {value_name} {value:.2f} per episode, {gain:+.2f} over the best Markov policy.",
        "Test it on {percent:.0f} % of sessions; a gain of {gain:.2f} is significant after about {sessions:,.0f} "
        "sessions in each arm.",
    ),
    "regret unknown": (
        "The regret of the policy was not estimated.",
        "Set num_resamples above 0, or test the policy on {percent:.0f} % of sessions.",
    ),
    "keep learning": (
        "The agent keeps learning; its regret was not estimated.",
        "Keep the agent running.",
    ),
}
"""Verdict key -> (sentence, advice), both as templates."""


@dataclass(frozen=True)
class Verdict:
    """Verdict about a run.

    Attributes:
        key: Key of ``VERDICTS``.
        numbers: Numbers that the templates contain, by name.
        labels: Texts that the templates contain, by name.
    """

    key: str
    numbers: Mapping[str, float]
    labels: Mapping[str, str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", MappingProxyType(dict(self.numbers)))
        object.__setattr__(self, "labels", MappingProxyType(dict(self.labels)))

    @property
    def text(self) -> str:
        """Format the verdict as a sentence."""
        return VERDICTS[self.key][0].format(**self.numbers, **self.labels)

    @property
    def advice(self) -> str:
        """Format the recommended next action."""
        return VERDICTS[self.key][1].format(**self.numbers, **self.labels)


@dataclass(frozen=True)
class VerdictInputs:
    """Inputs of a verdict.

    Attributes:
        value: Value of the policy by the best available evidence.
        evidence: Evidence for ``value``, a key of ``EVIDENCE``.
        num_types: Number of types, M.
        num_episodes: Number of training episodes; None if unknown.
        gain: Adaptivity gain over the best Markov policy; None if unknown.
        markov_value: Value of the best Markov policy; None if unknown.
        gain_evidence: Evidence for ``gain``, a key of ``EVIDENCE``.
        regret: Regret of the policy; None if unknown.
        regret_evidence: "exact" or "bootstrap".
        return_std: Standard deviation of the return of an episode; None if unknown.
        statements: Statements about the run.
        is_online: Whether the run continues to learn online.
    """

    value: float
    evidence: str
    num_types: int
    num_episodes: int | None = None
    gain: float | None = None
    markov_value: float | None = None
    gain_evidence: str = "planned"
    regret: float | None = None
    regret_evidence: str = "bootstrap"
    return_std: float | None = None
    statements: Sequence[Statement] = ()
    is_online: bool = False

    @property
    def missing_score(self) -> float:
        """Return the missing part of the normalized score; NaN if unknown."""
        if self.gain is None or self.regret is None:
            return math.nan
        # The denominator is the gain of the optimal policy: the policy's own gain plus its regret.
        total = max(self.gain, 0.0) + self.regret
        return self.regret / total if total > 0.0 else 0.0


def make_verdict(inputs: VerdictInputs) -> Verdict:
    """Return the verdict of the first condition that holds, most severe first."""
    verdict = _data_objection(inputs) or _model_objection(inputs)
    return verdict or _no_gain_verdict(inputs) or _performance_verdict(inputs)


def _data_objection(inputs: VerdictInputs) -> Verdict | None:
    """Return the verdict for data without rewards, without types, or of another model form."""
    keys = {statement.key for statement in inputs.statements}
    return next((_fill_template(key) for key in ("no rewards", *UNFOUNDED, "one type") if key in keys), None)


def _model_objection(inputs: VerdictInputs) -> Verdict | None:
    """Return the verdict for evidence against the model."""
    by_key = {statement.key: statement for statement in inputs.statements}
    if "more types needed" in by_key:
        return _fill_template("more types needed", num_types=inputs.num_types, more=inputs.num_types + 1)
    for key, text in REJECTED_ASSUMPTION_TEXT.items():
        if key in by_key:
            return _fill_template("assumption rejected", reason=f"{text}.")
    if "disagreement" in by_key:
        statement = by_key["disagreement"]
        return _fill_template("disagreement", **statement.numbers, **statement.labels)
    return None


def _no_gain_verdict(inputs: VerdictInputs) -> Verdict | None:
    """Return the verdict for a negligible adaptivity gain."""
    if inputs.num_types == 1:
        return _fill_template("single type")
    if inputs.gain is None or inputs.markov_value is None:
        return None
    # The optimal policy may gain up to the policy's own gain plus its regret; only if even that is small,
    # adapting is not worthwhile.
    if inputs.gain + (inputs.regret or 0.0) >= MIN_RELATIVE_GAIN * abs(inputs.markov_value):
        return None
    return _fill_template("no adaptivity gain", gain=inputs.gain, evidence=EVIDENCE[inputs.gain_evidence])


def _performance_verdict(inputs: VerdictInputs) -> Verdict:
    """Return the verdict on the quality of the policy and the evidence for it."""
    missing = inputs.missing_score
    score = 100.0 * (1.0 - missing)
    largest_loss = MIN_RELATIVE_LOSS * abs(inputs.markov_value or 0.0)
    if inputs.gain_evidence == "exact" and (inputs.gain or 0.0) < -largest_loss:
        return _fill_template("worse than Markov", gain=inputs.gain, evidence=EVIDENCE["exact"])
    if missing > 1.0 - NEAR_OPTIMAL_SCORE:
        # The advice assumes that regret falls as 1 / K, so K has to grow by the factor by which the regret
        # exceeds its target.
        factor = missing / (1.0 - NEAR_OPTIMAL_SCORE)
        evidence = EVIDENCE["exact"] if inputs.regret_evidence == "exact" else "bootstrap estimate"
        episodes = _round_up((factor - 1.0) * (inputs.num_episodes or 0))
        if not episodes or factor > MAX_EPISODE_FACTOR:
            return _fill_template("far from optimal", score=score, evidence=evidence)
        return _fill_template("more episodes needed", score=score, evidence=evidence, episodes=episodes)
    if inputs.evidence in ("exact", "played") and not math.isnan(missing):
        return _fill_template("near-optimal", score=score, evidence=EVIDENCE[inputs.evidence])
    if inputs.is_online:
        return _fill_template("keep learning")
    if inputs.gain is None or not inputs.return_std or inputs.evidence in ("exact", "played"):
        return _fill_template("regret unknown", percent=100.0 * TRIAL_SHARE)
    # The lower limit guards against a gain of 0 or less.
    sessions = _round_up(POWER_FACTOR * (inputs.return_std / max(inputs.gain, 1e-12)) ** 2)
    numbers = {"value": inputs.value, "gain": inputs.gain, "sessions": sessions, "percent": 100.0 * TRIAL_SHARE}
    value_name = "planned value" if inputs.evidence == "planned" else "off-policy estimate"
    return _fill_template("not yet tested", **numbers, value_name=value_name)


def _fill_template(key: str, **values: Any) -> Verdict:
    """Build a verdict from the values of its templates."""
    labels = {name: value for name, value in values.items() if isinstance(value, str)}
    return Verdict(key, {name: float(value) for name, value in values.items() if name not in labels}, labels)


def _round_up(number: float) -> float:
    """Round up to two significant digits."""
    if number <= 0:
        return 0.0
    scale = 10 ** max(len(str(int(number))) - 2, 0)
    # Rounding first removes float noise: 1.2 / 0.1 must not become 13.
    return float(math.ceil(round(number / scale, 6)) * scale)
