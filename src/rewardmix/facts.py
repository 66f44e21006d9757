"""Facts about a recovered model and a learned policy, and the sentences that say them.

A fact is data: what it is about, of which kind, its numbers, and the premises it rests on. A fact that is *proved* has
premises, each a condition that code has checked, and all of them hold: otherwise it cannot be made. Sentences are made
from facts, and nowhere but here; no code looks for words in them. What all come to is the verdict (``verdict``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from rewardmix._core.brevity import short
from rewardmix._core.checks import refuse

FACT_KINDS = ("proved", "measured", "estimated", "assumed", "open")
"""Follows from checked premises; computed or played in the world itself; inferred from the episodes; taken for granted;
not known."""


EVIDENCE: Mapping[str, str] = {
    "exact": "exact in a known world",
    "played": "played",
    "logged": "estimated from the log",
    "planned": "planned in the model",
}
"""How a value came about: what ``result.json`` calls it -> what people read, on the terminal and on the page."""

FAR = 4.0
"""Two values that are so many standard errors apart disagree."""

VISIBLE = 1e-3
"""Values that differ by less are the same to a reader, however exact they are."""


@dataclass(frozen=True)
class Premise:
    """A condition that a statement rests on, and whether it holds.

    Attributes:
        name: in words.
        holds: as checked.
    """

    name: str
    holds: bool


@short
@dataclass(frozen=True)
class Fact:
    """One statement.

    Attributes:
        what: which statement, a key of ``SENTENCES``.
        kind: one of ``FACT_KINDS``.
        premises: what it rests on; all of them hold if it is proved.
        numbers: its numbers, by name.
        words: its words (names, reasons), by name.
    """

    what: str
    kind: str
    premises: tuple[Premise, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.what not in SENTENCES:
            refuse("what", repr(self.what), f"one of {', '.join(SENTENCES)}")
        if self.kind not in FACT_KINDS:
            refuse("kind", repr(self.kind), f"one of {', '.join(FACT_KINDS)}")
        if self.kind == "proved" and not (self.premises and all(premise.holds for premise in self.premises)):
            missing = ", ".join(self.missing) or "no premises at all"
            refuse("premises", f"a proved fact without: {missing}", "premises that all hold")
        object.__setattr__(self, "numbers", MappingProxyType(dict(self.numbers)))
        object.__setattr__(self, "words", MappingProxyType(dict(self.words)))

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the premises that do not hold."""
        return tuple(premise.name for premise in self.premises if not premise.holds)

    @property
    def sentence(self) -> str:
        """The fact in words."""
        said = SENTENCES[self.what]
        return said.format(**self.numbers, **self.words) if isinstance(said, str) else said(self)


def proved(what: str, premises: tuple[Premise, ...], **numbers: float) -> list[Fact]:
    """The fact, if every premise holds; nothing otherwise."""
    holds = bool(premises) and all(premise.holds for premise in premises)
    return [Fact(what, "proved", premises, numbers)] if holds else []


def disagreement(planned: float, planned_error: float, value: float, error: float, evidence: str) -> list[Fact]:
    """That the world does not pay what the model says, if two values are too far apart for their standard errors.

    Args:
        planned: value of the policy in the model.
        planned_error: how far other episodes would move it.
        value: of the same policy, by other evidence.
        error: of that.
        evidence: a key of ``EVIDENCE``.
    """
    if not abs(planned - value) > max(FAR * (planned_error**2 + error**2) ** 0.5, VISIBLE):
        return []
    numbers = {"planned": planned, "value": value, "error": error}
    return [Fact("disagreement", "estimated", (), numbers, {"evidence": EVIDENCE[evidence]})]


def unidentified_sentence(facts: Iterable[Fact], contexts: int) -> str:
    """What recovery could not identify, in one sentence."""
    parts = [UNIDENTIFIED[fact.what].format(**fact.numbers) for fact in facts]
    if not parts and contexts == 1:
        return "Everything is identified."
    if not parts:
        return f"Everything is identified, up to the order of the {contexts} types."
    return f"Not identified: {'; '.join(parts)}."


def _theorem(fact: Fact) -> str:
    if fact.missing:
        return f"The paper's theorem does not speak of this run; missing: {', '.join(fact.missing)}."
    return (
        "The premises of the paper's theorem hold, but no number follows: its constant is not known, and a factor of "
        f"its analysis is left out. Were both 1, the regret would be at most {fact.numbers['accuracy']:g}."
    )


def _truth(fact: Fact) -> str:
    numbers = fact.numbers
    share = f", {100 * numbers['share']:.1f} % of what adapting can gain" if "share" in numbers else ""
    least = f" and at least {numbers['least']:.5f}" if numbers["regret"] - numbers["least"] > numbers["asked"] else ""
    return f"In the true model: regret at most {numbers['regret']:.5f}{least}{share}."


def _kappa(fact: Fact) -> str:
    taken = fact.words["weights"]
    off = "" if taken == "known" else f" (with weights {taken}, which may be off)"
    return f"The radii had to grow by {fact.numbers['kappa']:.3g} for one model to explain all pairs{off}."


def _types_chosen(fact: Fact) -> str:
    numbers = fact.numbers
    step = "" if numbers["types"] == 2 else f", {numbers['step']:.4f} above one type less"
    return (
        f"{numbers['types']:.0f} types predict episodes that were held out best: {numbers['gain']:.4f} nats an episode "
        f"above one type (standard error {numbers['error']:.4f}){step}."
    )


_SURE = "If every episode has one hidden type, drawn independently of the others: with probability {probability:g}"

UNIDENTIFIED: Mapping[str, str] = {
    "never visited": "{count:.0f} of {size:.0f} state-actions were never visited, so their rewards are set to the mean "
    "law of the others with an infinite interval and their moves to staying",
    "no pairs": "no episode has two rewards, so nothing is known about how types differ",
    "not correlated": "no pair of rewards is correlated beyond chance, so the types may be identical",
    "no sign": "no covariance interval excludes 0, so the types came out as good as equal",
    "alone": "{count:.0f} state-actions were never seen with another reward in one episode, so how types differ "
    "there is unknown",
    "groups": "{count:.0f} groups of state-actions never meet in an episode, so which of their types belong "
    "together is unknown (values do not depend on it as long as they never meet)",
    "orientation": "which way round the types go at these weights is not decided by the data",
    "two sides": "at {count:.0f} state-actions only products of differences across two sides that never meet within "
    "themselves are known, not each (values do not depend on it as long as they never meet)",
    "weights": "two rewards an episode say nothing about the weights of the types, so they are assumed equal",
}
"""What recovery may leave open -> the clause that says so."""

_BROKEN = "{deed} (p = {{p_value:.2g}}, {{adjusted:.2g}} for all questions together)."

BROKEN: Mapping[str, str] = {
    "transition types": "Types also move differently (held-out gain {gain:.2g} nats an episode): the model assumes "
    "that types change rewards only, so values of adapting policies cannot be trusted. Play the best policy that does "
    "not adapt",
    "next state": "Rewards depend on the next state: the model assumes that they depend on state and action only, so "
    "values of adapting policies cannot be trusted. Play the best policy that does not adapt, or pay for a state with "
    "the action that is taken in it",
    "one type short": "Rewards of one episode hang together more than this many types explain: add a type",
    "switching": "The type changes during an episode: recent rewards tell more than early ones. Split episodes where "
    "people change, or make them shorter; what the model says about late steps is too sure",
    "copying": "A reward depends on the reward just before, beyond the type: habit or saturation. Put the last reward "
    "into the state",
    "repetition": "A reward depends on earlier rewards of the same state and action, beyond the type: habit or "
    "saturation. Put how often it was shown into the state",
    "moves": "The next state hangs together with rewards: people of different types go to different places, or a step "
    "pays by where it leads. The plan ignores that; put into the state what tells the types apart, or what was reached",
    "drift": "The world changed between the first episodes and the last: fit on recent episodes only, and fit again "
    "more often",
}
"""Assumption -> what it means that episodes contradict it, and what to do."""

UNFOUNDED: Mapping[str, str] = {
    "transition types": "types also move differently",
    "next state": "rewards depend on the next state",
}
"""Assumption without which no value of an adapting policy in the model is to be expected -> what is so instead."""


def why_unfounded(facts: Iterable[Fact]) -> str:
    """Why the value of an adapting policy in the model is not to be expected of the world, or ""."""
    broken = {fact.what for fact in facts}
    return next((reason for what, reason in UNFOUNDED.items() if what in broken), "")


def value_in_model(value: float, facts: Iterable[Fact]) -> str:
    """A value of an adapting policy in the model, in a few words."""
    reason = why_unfounded(facts)
    return f"value in it {value:.4f}" + (f" (not to be expected: {reason})" if reason else "")


SENTENCES: Mapping[str, str | Callable[[Fact], str]] = {
    "bracket": "In the recovered model no policy earns more than {gap:.2g} above this one.",
    "intervals": f"{_SURE} the true world lies within every interval of the confidence set: averages, pairs, moves and "
    "starts.",
    "contained": f"{_SURE} no average, pair, move or start of the recovered model is off by more than the width of its "
    "interval.",
    "truth": _truth,
    "disagreement": "The world does not pay what the model says: {value:.4f} {evidence} (standard error {error:.4f}), "
    "{planned:.4f} planned in the model. Usual causes: a type too few, types that change within an episode or move "
    "people, a world that drifts, or few visits where the plan goes.",
    "validation": "The policy was tried in {episodes:.0f} fresh episodes: {value:.4f} ({lower:.4f} .. {upper:.4f}).",
    "planned value": "The planned value is optimistic: model and policy were fitted to the same episodes.",
    "bootstrap": "The bootstrap regret is an estimate, {mean:.5f} (largest {upper:.5f}), and blind to states that no "
    "episode entered.",
    "plan left open": "Planning in the recovered model ended at a gap of {gap:.2g}, not the {asked:.2g} asked for "
    "({reason}).",
    "bootstrap left open": "Planning in the resampled models left {gap:.2g} open: the bootstrap regret may be larger "
    "by that much.",
    "separation": "That the types are separated by {separation:g} is taken as it was told.",
    "theorem": _theorem,
    "setting": "What the {setting} setting guarantees about the true world: {guarantee}.",
    "no resamples": "The regret was not estimated: no resamples were asked for.",
    "no episodes": "The regret was not estimated: the episodes themselves were not kept.",
    "not tried": "The policy was not tried in the world on fresh episodes.",
    "interrupted": "The run was interrupted: this is what the episodes gathered so far say.",
    "rule not met": "The run ended at its limit of {limit:g} episodes, before its rule was met.",
    "kappa": _kappa,
    "types chosen": _types_chosen,
    "nobody paid": "Nobody paid: every reward of this log is 0, so nothing tells types apart.",
    "one type": "One type explains the episodes as well as more do: there is nothing to adapt to.",
    **{what: _BROKEN.format(deed=deed) for what, deed in BROKEN.items()},
    **{what: f"{clause[:1].upper()}{clause[1:]}." for what, clause in UNIDENTIFIED.items()},
}
"""What a fact is about -> its sentence, or what makes it."""
