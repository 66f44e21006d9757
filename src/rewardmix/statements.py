"""Statements about a recovered model and a learned policy, and their texts.

A statement is data: its key, its status, its numbers, and the premises it rests on. A *proved* statement has premises,
each a condition that code has checked, and all are met; otherwise it cannot be created. Texts are generated from
statements here, and no code searches texts for words. The verdict (``verdict``) summarizes all statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from rewardmix._core.checks import raise_input_error
from rewardmix._core.short_repr import use_short_repr

STATEMENT_STATUSES = ("proved", "measured", "estimated", "assumed", "open")
"""Possible statuses of a statement.

proved: follows from checked premises; measured: computed or simulated in the environment itself; estimated: inferred
from the episodes; assumed: not checked; open: unknown.
"""


EVIDENCE: Mapping[str, str] = {
    "exact": "exact in the true model",
    "played": "measured in fresh episodes",
    "logged": "estimated from the log",
    "planned": "planned in the model",
}
"""Source of a value: key in ``result.json`` -> text on the terminal and on the page."""

DISAGREEMENT_STD = 4.0
"""Two values disagree if they differ by more than this many standard errors ..."""

MIN_VISIBLE_DIFFERENCE = 1e-3
"""... and by more than this; smaller differences do not matter to a reader, however small the standard errors are."""


@dataclass(frozen=True)
class Premise:
    """Condition that a statement rests on.

    Attributes:
        name: the condition as text.
        is_met: result of the check.

    Examples:
        >>> from rewardmix.learning import Premise
        >>> Premise("known weights", False).is_met
        False
    """

    name: str
    is_met: bool


@use_short_repr
@dataclass(frozen=True)
class Statement:
    """Statement about a model or policy, with its status and premises.

    Attributes:
        key: which statement, a key of ``TEMPLATES``.
        status: one of ``STATEMENT_STATUSES``.
        premises: conditions it rests on; all are met if it is proved.
        numbers: its numbers by name.
        labels: its texts (names, reasons) by name.

    Examples:
        >>> import rewardmix as rm
        >>> from rewardmix.learning import Premise
        >>> statement = rm.Statement("theorem", "open", (Premise("known weights", False),))
        >>> statement.unmet_premises
        ('known weights',)
    """

    key: str
    status: str
    premises: tuple[Premise, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.key not in TEMPLATES:
            raise_input_error("key", repr(self.key), f"one of {', '.join(TEMPLATES)}")
        if self.status not in STATEMENT_STATUSES:
            raise_input_error("status", repr(self.status), f"one of {', '.join(STATEMENT_STATUSES)}")
        if self.status == "proved" and not (self.premises and all(premise.is_met for premise in self.premises)):
            unmet = ", ".join(self.unmet_premises) or "none given"
            raise_input_error("premises", f"a proved statement with unmet premises: {unmet}", "premises that all hold")
        # Read-only copies: a proved statement must not change after its premises were checked.
        object.__setattr__(self, "numbers", MappingProxyType(dict(self.numbers)))
        object.__setattr__(self, "labels", MappingProxyType(dict(self.labels)))

    @property
    def unmet_premises(self) -> tuple[str, ...]:
        """Names of the premises that are not met."""
        return tuple(premise.name for premise in self.premises if not premise.is_met)

    @property
    def text(self) -> str:
        """The statement as a sentence."""
        template = TEMPLATES[self.key]
        return template.format(**self.numbers, **self.labels) if isinstance(template, str) else template(self)


def prove(key: str, premises: tuple[Premise, ...], **numbers: float) -> list[Statement]:
    """Make a proved statement if every premise is met; return an empty list otherwise."""
    is_proved = bool(premises) and all(premise.is_met for premise in premises)
    return [Statement(key, "proved", premises, numbers)] if is_proved else []


def compare_values(planned: float, planned_error: float, value: float, error: float, evidence: str) -> list[Statement]:
    """Compare the planned value of a policy with another estimate of it; state a disagreement if they differ too much.

    Args:
        planned: Value of the policy in the model.
        planned_error: Standard error of ``planned`` due to the sampled episodes.
        value: Value of the policy by other evidence.
        error: Standard error of ``value``.
        evidence: Key of ``EVIDENCE``.

    Returns:
        The statement of the disagreement, or an empty list.
    """
    # Written with ``not ... >``, so that a NaN is no disagreement.
    # The two estimates are treated as independent, so their variances add.
    if not abs(planned - value) > max(DISAGREEMENT_STD * (planned_error**2 + error**2) ** 0.5, MIN_VISIBLE_DIFFERENCE):
        return []
    numbers = {"planned": planned, "value": value, "error": error}
    return [Statement("disagreement", "estimated", (), numbers, {"evidence": EVIDENCE[evidence]})]


def describe_unidentified(statements: Iterable[Statement], num_types: int) -> str:
    """Describe in one sentence what recovery could not identify."""
    # Types have no intrinsic order, so with several types the labels are identified only up to a permutation.
    clauses = [UNIDENTIFIED_TEXT[statement.key].format(**statement.numbers) for statement in statements]
    if not clauses and num_types == 1:
        return "Everything is identified."
    if not clauses:
        return f"Everything is identified, up to the order of the {num_types} types."
    return f"Not identified: {'; '.join(clauses)}."


def _theorem_text(statement: Statement) -> str:
    """Format the unmet premises of the paper's theorem, or what follows from it."""
    if statement.unmet_premises:
        return f"The paper's guarantee does not apply; unmet premises: {', '.join(statement.unmet_premises)}."
    return (
        "The premises of the paper's theorem are met, but no number follows: its constant is unknown, and a factor of "
        f"its analysis is omitted. If both were 1, the regret would be at most {statement.numbers['target_regret']:g}."
    )


def _true_model_text(statement: Statement) -> str:
    """Format the exact regret, and the normalized score if there is one."""
    numbers = statement.numbers
    is_wide = numbers["regret"] - numbers["regret_lower"] > numbers["planning_gap"]
    lower = f" and at least {numbers['regret_lower']:.5f}" if is_wide else ""
    score = f", normalized score {100 * numbers['normalized_score']:.1f} %" if "normalized_score" in numbers else ""
    return f"In the true model: regret at most {numbers['regret']:.5f}{lower}{score}."


def _radius_inflation_text(statement: Statement) -> str:
    """Format by how much all radii must grow, and where the weights come from."""
    source = statement.labels["weights"]
    note = "" if source == "known" else f" (with weights {source}, which may be wrong)"
    factor = f"{statement.numbers['radius_inflation']:.3g}"
    return f"All radii must grow by a factor of {factor} for one model to explain all pairs{note}."


def _types_chosen_text(statement: Statement) -> str:
    """Format how much better the selected number of types predicts held-out episodes."""
    numbers = statement.numbers
    step = "" if numbers["types"] == 2 else f", {numbers['step']:.4f} above one type less"
    return (
        f"{numbers['types']:.0f} types predict held-out episodes best: {numbers['gain']:.4f} nats per episode above "
        f"one type (standard error {numbers['error']:.4f}){step}."
    )


_WITH_PROBABILITY = "With probability {probability:g}, if each episode has one independently drawn hidden type,"

UNIDENTIFIED_TEXT: Mapping[str, str] = {
    "never visited": "{count:.0f} of {size:.0f} state-actions were never visited, so their rewards are set to the "
    "marginal rewards of the others with infinite intervals, and their transitions to staying in the state",
    "no pairs": "no episode has two rewards, so differences between types are unknown",
    "not correlated": "no pair of rewards is significantly correlated, so the types may be identical",
    "no sign": "no covariance interval excludes 0, so the estimated types are almost equal",
    "unpaired": "{count:.0f} state-actions never occur with another reward in one episode, so differences between "
    "types there are unknown",
    "groups": "{count:.0f} groups of state-actions never occur together in an episode, so it is unknown which of their "
    "types belong together (values do not depend on it while the groups stay separate)",
    "orientation": "the data do not determine the sign of the reward differences at these weights",
    "two sides": "at {count:.0f} state-actions only products of reward differences across two unconnected sides are "
    "known, not each difference (values do not depend on it while the state-actions of a side never occur together)",
    "weights": "two rewards per episode do not determine the weights of the types, so equal weights are assumed",
}
"""Statement key -> clause on what recovery could not identify."""

_REJECTION = "{text} (p = {{p_value:.2g}}, {{adjusted:.2g}} adjusted for all tests)."

REJECTED_ASSUMPTION_TEXT: Mapping[str, str] = {
    "transition types": "Types have different transitions (held-out gain {gain:.2g} nats per episode): the model "
    "assumes that types change rewards only, so values of adaptive policies are not valid. Use the best Markov policy, "
    "or add to the state what distinguishes the types",
    "next state": "Rewards depend on the next state: the model assumes that they depend on state and action only, so "
    "values of adaptive policies are not valid. Use the best Markov policy, or attribute the reward of a state to the "
    "action taken in it",
    "more types needed": "The rewards of an episode are more correlated than this number of types explains: add a type",
    "switching": "The type changes during an episode: recent rewards predict better than early ones. Split episodes "
    "where the user changes, or make them shorter; beliefs at late steps are too certain",
    "reward copying": "A reward depends on the previous reward, beyond the type (habit or saturation). Add the last "
    "reward to the state",
    "repetition": "A reward depends on earlier rewards of the same state and action, beyond the type (habit or "
    "saturation). Add the number of repetitions to the state",
    "transitions": "The next state depends on rewards: transitions depend on the type, or rewards depend on the next "
    "state. The plan ignores this; add to the state what distinguishes the types, or what was reached",
    "drift": "The environment changed between the first episodes and the last. Fit recent episodes only, and refit "
    "more often",
}
"""Assumption -> what its rejection means, and what to do."""

UNFOUNDED: Mapping[str, str] = {
    "transition types": "types have different transitions",
    "next state": "rewards depend on the next state",
}
"""Assumption without which planned values of adaptive policies are not valid -> what holds instead."""


def why_unfounded(statements: Iterable[Statement]) -> str:
    """Return why the planned value of an adaptive policy is not valid, or an empty string."""
    keys = {statement.key for statement in statements}
    return next((reason for key, reason in UNFOUNDED.items() if key in keys), "")


def value_in_model(value: float, statements: Iterable[Statement]) -> str:
    """Format the planned value of an adaptive policy, with a note if it is not valid."""
    reason = why_unfounded(statements)
    return f"planned value {value:.4f}" + (f" (not valid: {reason})" if reason else "")


TEMPLATES: Mapping[str, str | Callable[[Statement], str]] = {
    "bracket": "In the recovered model no policy has a value more than {gap:.2g} above this one.",
    "intervals": f"{_WITH_PROBABILITY} all intervals of the confidence set contain the true model: marginal rewards, "
    "pairs, transitions and the initial distribution.",
    "contained": f"{_WITH_PROBABILITY} no marginal reward, pair, transition or initial probability of the recovered "
    "model differs from the true one by more than the width of its interval.",
    "true model": _true_model_text,
    "disagreement": "Model and data disagree: planned value {planned:.4f}, observed {value:.4f} ({evidence}, standard "
    "error {error:.4f}). Do not deploy. Usual causes: too few types, types that change within an episode or affect "
    "transitions, drift, or few visits to the states of the plan.",
    "validation": "Mean return of the policy in {episodes:.0f} fresh episodes: {value:.4f} ({lower:.4f} .. "
    "{upper:.4f}).",
    "planned value": "The planned value is optimistic: model and policy were fitted to one set of episodes.",
    "bootstrap": "The bootstrap regret is an estimate, {mean:.5f} (largest {upper:.5f}), and cannot see states that no "
    "episode visited.",
    "plan left open": "Planning in the recovered model stopped at a gap of {gap:.2g}; the target was "
    "{planning_gap:.2g} ({reason}).",
    "bootstrap left open": "Planning in the resampled models stopped at a gap of {gap:.2g}: the bootstrap regret may "
    "be larger by that much.",
    "separation": "The separation of the types, {separation:g}, is assumed as given.",
    "theorem": _theorem_text,
    "bonus guarantee": "Guarantee of the {bonus} bonus for the true model: {guarantee}.",
    "no resamples": "The regret was not estimated: num_resamples is 0.",
    "no episodes": "The regret was not estimated: the episodes were not stored.",
    "not tested": "The policy was not tested in fresh episodes.",
    "interrupted": "The run was interrupted; the results use the episodes collected so far.",
    "rule not met": "The run reached its limit of {limit:g} episodes before the stopping rule was met.",
    "radius inflation": _radius_inflation_text,
    "types chosen": _types_chosen_text,
    "no rewards": "All rewards of this log are 0, so nothing distinguishes the types.",
    "one type": "One type explains the episodes as well as more types do; there is nothing to adapt to.",
    **{key: _REJECTION.format(text=text) for key, text in REJECTED_ASSUMPTION_TEXT.items()},
    **{key: f"{clause[:1].upper()}{clause[1:]}." for key, clause in UNIDENTIFIED_TEXT.items()},
}
"""Statement key -> its template, or a function that makes its text."""
