"""Facts about a learned policy, and the sentences that say them.

A fact is data: what it is about, of which kind, its numbers, and the premises it rests on. A fact that is *proved* has
premises, each a condition that code has checked, and all of them hold: otherwise it cannot be made. Sentences are made
from facts, and nowhere but here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from rewardmix._core.checks import refuse

FACT_KINDS = ("proved", "measured", "estimated", "assumed", "open")
"""Follows from checked premises; computed or played in the world itself; inferred from the episodes; taken for granted;
not known."""


@dataclass(frozen=True)
class Premise:
    """A condition that a statement rests on, and whether it holds.

    Attributes:
        name: in words.
        holds: as checked.
    """

    name: str
    holds: bool


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
        return SENTENCES[self.what](self)


def proved(what: str, premises: tuple[Premise, ...], **numbers: float) -> list[Fact]:
    """The fact, if every premise holds; nothing otherwise."""
    holds = bool(premises) and all(premise.holds for premise in premises)
    return [Fact(what, "proved", premises, numbers)] if holds else []


def _interval(fact: Fact) -> str:
    sure = f"With probability {fact.numbers['probability']:g}"
    return f"If every episode has one hidden context, drawn independently of the others: {sure[0].lower()}{sure[1:]}"


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


SENTENCES: Mapping[str, Callable[[Fact], str]] = {
    "bracket": lambda fact: (
        f"In the recovered model no policy earns more than {fact.numbers['gap']:.2g} above this one."
    ),
    "intervals": lambda fact: (
        f"{_interval(fact)} the true world lies within every interval of the confidence set: averages, pairs, moves "
        "and starts."
    ),
    "contained": lambda fact: (
        f"{_interval(fact)} no average, pair, move or start of the recovered model is off by more than the width of "
        "its interval."
    ),
    "truth": _truth,
    "validation": lambda fact: (
        f"The policy was tried in {fact.numbers['episodes']:.0f} fresh episodes: {fact.numbers['value']:.4f} "
        f"({fact.numbers['lower']:.4f} .. {fact.numbers['upper']:.4f})."
    ),
    "planned value": lambda fact: (
        "The planned value is optimistic: model and policy were fitted to the same episodes."
    ),
    "bootstrap": lambda fact: (
        f"The bootstrap regret is an estimate, {fact.numbers['mean']:.5f} (largest {fact.numbers['upper']:.5f}), and "
        "blind for states that no episode entered."
    ),
    "plan left open": lambda fact: (
        f"Planning in the recovered model ended at a gap of {fact.numbers['gap']:.2g}, not the "
        f"{fact.numbers['asked']:.2g} asked for ({fact.words['reason']})."
    ),
    "bootstrap left open": lambda fact: (
        f"Planning in the resampled models left {fact.numbers['gap']:.2g} open: the bootstrap regret may be larger by "
        "that much."
    ),
    "separation": lambda fact: (
        f"That the contexts are separated by {fact.numbers['separation']:g} is taken as it was told."
    ),
    "theorem": _theorem,
    "setting": lambda fact: (
        f"The {fact.words['setting']} setting proves nothing about the true world: {fact.words['guarantee']}."
    ),
    "no bootstrap": lambda fact: f"The regret was not estimated: {fact.words['reason']}.",
    "not tried": lambda fact: "The policy was not tried in the world on fresh episodes.",
    "interrupted": lambda fact: "The run was interrupted: this is what the episodes gathered so far say.",
    "rule not met": lambda fact: (
        f"The run ended at its limit of {fact.numbers['limit']:g} episodes, before its rule was met."
    ),
    "kappa": _kappa,
}  # fmt: skip
"""What a fact is about -> its sentence."""
