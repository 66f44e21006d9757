"""What to make of a run, and what to do next: one verdict, from its numbers and its facts.

A log without rewards comes first, then a world of another form, then where one type explains as much as more do. Then
the gravest reason: a type too few, an assumption that the episodes contradict, a world that does not pay what the model
says. Then: is there anything to adapt to, is enough of it had, and has anybody played the policy?
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from rewardmix.facts import BROKEN, EVIDENCE, UNFOUNDED, Fact

ENOUGH = 0.9
"""Share of what adapting can gain that is good enough."""

WORTHLESS = 0.01
"""Adapting that gains less than this share of what the best fixed policy earns is not worth it."""
WORSE = 0.001
"""Share of that which a policy earns less than it, at least, where it is called worse."""

SHARE_OF_SESSIONS = 0.1
"""Of the sessions, to try a policy on."""

SHOWS = 2 * (1.96 + 0.84) ** 2
"""Sessions of each kind, times variance over squared difference, until a difference shows (5 % level, 80 % power)."""

MOST_TIMES = 100.0
"""Beyond so many times the episodes there were, more of them are no advice."""

_DO_NOT_ADAPT = "Play the best policy that does not adapt, or offer actions that types like differently."

VERDICTS: Mapping[str, tuple[str, str]] = {
    "nobody paid": (
        "Nobody paid: every reward of this log is 0.",
        "Look for the rewards: is it the right column, and were sessions left out? No policy can be learned from this.",
    ),
    "one type": (
        "One type explains the episodes as well as more do: there is nothing to adapt to.",
        _DO_NOT_ADAPT,
    ),
    "no types": (
        "The model has one type: there is nothing to adapt to.",
        "Let the episodes say how many types there are, or offer actions that people like differently.",
    ),
    "add a type": (
        "There are more types than {contexts:.0f}.",
        "Add a type: run again with {more:.0f} types, or let the episodes say how many.",
    ),
    "transition types": (
        "Types also move differently: no value of a policy that adapts can be trusted.",
        "Play the best policy that does not adapt, or put into the state what tells the types apart.",
    ),
    "next state": (
        "Rewards depend on the next state: no value of a policy that adapts can be trusted.",
        "Play the best policy that does not adapt, or pay for a state with the action that is taken in it.",
    ),
    "not as assumed": ("The episodes contradict what was taken for granted.", "{reason}"),
    "does not pay": (
        "The world does not pay what the model says: {value:.2f} {evidence}, {planned:.2f} planned.",
        "Do not rely on the plan: collect episodes where it goes, try one more type, and check the assumptions.",
    ),
    "nothing to adapt to": (
        "Adapting gains next to nothing here: {gain:.3f} an episode, {evidence}.",
        _DO_NOT_ADAPT,
    ),
    "good enough": (
        "Good enough: {share:.0f} % of what adapting can gain, {evidence}.",
        "Put it to work, and go on logging: the next log shows whether the world stays as it is.",
    ),
    "collect more": (
        "Not good enough yet: about {share:.0f} % of what adapting can gain, {evidence}.",
        "Collect about {episodes:,.0f} more episodes, if what is lost falls as one over their number.",
    ),
    "far off": (
        "Far from good enough: about {share:.0f} % of what adapting can gain, {evidence}.",
        "Collect many times as many episodes, or make one of states and actions that are alike.",
    ),
    "worse": (
        "Worse than not adapting: {gain:.3f} an episode, {evidence}.",
        "Play the best policy that does not adapt, and collect many times as many episodes.",
    ),
    "try it": (
        "Promising, but nobody has played it: {value:.2f} an episode {evidence}, {gain:+.2f} over not adapting.",
        "Try it on {part:.0f} % of the sessions; a gain of {gain:.2f} shows after about {sessions:,.0f} sessions of "
        "each kind.",
    ),
    "unknown": (
        "How far the policy is from the best is not known.",
        "Ask for resamples of the bootstrap, or try the policy on {part:.0f} % of the sessions.",
    ),
    "keep earning": (
        "It learns while it earns; how far its policy is from the best it does not know.",
        "Let it go on.",
    ),
}
"""Verdict -> the sentence, and what to do next."""


@dataclass(frozen=True)
class Verdict:
    """What to make of a run.

    Attributes:
        what: a key of ``VERDICTS``.
        numbers: that the sentences say, by name.
        words: the same.
    """

    what: str
    numbers: Mapping[str, float]
    words: Mapping[str, str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", MappingProxyType(dict(self.numbers)))
        object.__setattr__(self, "words", MappingProxyType(dict(self.words)))

    @property
    def sentence(self) -> str:
        """The verdict."""
        return VERDICTS[self.what][0].format(**self.numbers, **self.words)

    @property
    def advice(self) -> str:
        """What to do next."""
        return VERDICTS[self.what][1].format(**self.numbers, **self.words)


@dataclass(frozen=True)
class Grounds:
    """What a verdict is made from.

    Attributes:
        value: of the policy, by the best evidence there is.
        evidence: of ``value``, a key of ``EVIDENCE``.
        contexts: M.
        episodes: that were learned from; None where nobody counted.
        gain: of adapting over the best fixed policy; None if unknown.
        fixed: what that earns.
        gain_evidence: of ``gain``, a key of ``EVIDENCE``.
        regret: of the policy; None if unknown.
        regret_evidence: "exact" or "bootstrap".
        spread: standard deviation of what an episode earns; None if unknown.
        facts: about the run.
        earning: whether it goes on learning while it earns.
    """

    value: float
    evidence: str
    contexts: int
    episodes: int | None = None
    gain: float | None = None
    fixed: float | None = None
    gain_evidence: str = "planned"
    regret: float | None = None
    regret_evidence: str = "bootstrap"
    spread: float | None = None
    facts: Sequence[Fact] = ()
    earning: bool = False

    @property
    def lost(self) -> float:
        """Share of what adapting can gain that the policy misses; NaN if unknown."""
        if self.gain is None or self.regret is None:
            return math.nan
        whole = max(self.gain, 0.0) + self.regret
        return self.regret / whole if whole > 0.0 else 0.0


def verdict_on(grounds: Grounds) -> Verdict:
    """The verdict: the gravest reason there is."""
    gravest = _no_ground(grounds) or _trouble(grounds)
    return gravest or _nothing_to_gain(grounds) or _standing_of(grounds)


def _no_ground(grounds: Grounds) -> Verdict | None:
    """Say what takes the ground from everything else: no rewards, a world of another form, or no types to speak of."""
    keys = {fact.what for fact in grounds.facts}
    return next((_say(what) for what in ("nobody paid", *UNFOUNDED, "one type") if what in keys), None)


def _trouble(grounds: Grounds) -> Verdict | None:
    """What speaks against the model itself."""
    found = {fact.what: fact for fact in grounds.facts}
    if "one type short" in found:
        return _say("add a type", contexts=grounds.contexts, more=grounds.contexts + 1)
    for what in BROKEN:
        if what in found:
            return _say("not as assumed", reason=f"{BROKEN[what]}.")
    if "disagreement" in found:
        apart = found["disagreement"]
        return _say("does not pay", **apart.numbers, **apart.words)
    return None


def _nothing_to_gain(grounds: Grounds) -> Verdict | None:
    if grounds.contexts == 1:
        return _say("no types")
    if grounds.gain is None or grounds.fixed is None:
        return None
    if grounds.gain + (grounds.regret or 0.0) >= WORTHLESS * abs(grounds.fixed):
        return None
    return _say("nothing to adapt to", gain=grounds.gain, evidence=EVIDENCE[grounds.gain_evidence])


def _standing_of(grounds: Grounds) -> Verdict:
    """How good the policy is, and how that is known."""
    lost = grounds.lost
    if grounds.gain_evidence == "exact" and (grounds.gain or 0.0) < -WORSE * abs(grounds.fixed or 0.0):
        return _say("worse", gain=grounds.gain, evidence=EVIDENCE["exact"])
    if lost > 1.0 - ENOUGH:
        times = lost / (1.0 - ENOUGH)
        how = "exact in a known world" if grounds.regret_evidence == "exact" else "by resampled episodes"
        more = _rounded((times - 1.0) * (grounds.episodes or 0))
        if not more or times > MOST_TIMES:
            return _say("far off", share=100.0 * (1.0 - lost), evidence=how)
        return _say("collect more", share=100.0 * (1.0 - lost), evidence=how, episodes=more)
    if grounds.evidence in ("exact", "played") and not math.isnan(lost):
        return _say("good enough", share=100.0 * (1.0 - lost), evidence=EVIDENCE[grounds.evidence])
    if grounds.earning:
        return _say("keep earning")
    if grounds.gain is None or not grounds.spread or grounds.evidence in ("exact", "played"):
        return _say("unknown", part=100.0 * SHARE_OF_SESSIONS)
    sessions = _rounded(SHOWS * (grounds.spread / max(grounds.gain, 1e-12)) ** 2)
    numbers = {"value": grounds.value, "gain": grounds.gain, "sessions": sessions, "part": 100.0 * SHARE_OF_SESSIONS}
    return _say("try it", **numbers, evidence=EVIDENCE[grounds.evidence])


def _say(what: str, **parts: Any) -> Verdict:
    words = {name: part for name, part in parts.items() if isinstance(part, str)}
    return Verdict(what, {name: float(part) for name, part in parts.items() if name not in words}, words)


def _rounded(number: float) -> float:
    """Rounded up to two digits, for people."""
    if number <= 0:
        return 0.0
    scale = 10 ** max(len(str(int(number))) - 2, 0)
    return float(math.ceil(round(number / scale, 6)) * scale)
