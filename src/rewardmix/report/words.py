"""Numbers and sentences of the page: everything that it says about a run is said here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rewardmix.facts import EVIDENCE

NOTHING = "\N{EN DASH}"
"""In place of a number that there is not."""

WIDE = 2e-3
"""Brackets of regret wider than this are mentioned."""


def decimal(value: float | None, digits: int = 2) -> str:
    """A number for reading: fixed digits, a true minus sign, and a dash where there is none."""
    if value is None:
        return NOTHING
    text = f"{value:.{digits}f}"
    text = text.removeprefix("-") if float(text) == 0 else text
    return text.replace("-", "\N{MINUS SIGN}")


def fine(value: float | None) -> str:
    """A small number with the digits that tell something: 0.62, 0.031, 0.0007."""
    if value is None:
        return NOTHING
    size = abs(value)
    if 0 < size < 1e-4:
        return f"{'<' if value > 0 else '>'}\N{NARROW NO-BREAK SPACE}{decimal(math.copysign(1e-4, value), 4)}"
    return decimal(value, 2 if size >= 0.1 or size == 0 else 3 if size >= 0.01 else 4)


def between(low: float, high: float) -> str:
    """A bracket, with as many digits as it takes to see that it has two ends."""
    digits = next((d for d in (2, 3, 4) if decimal(low, d) != decimal(high, d)), 4)
    return f"{decimal(low, digits)} to {decimal(high, digits)}"


def signed(value: float | None) -> str:
    """A difference, with its sign; one that nobody would notice has none."""
    if value is None or abs(value) < 1e-4:
        return NOTHING if value is None else fine(0.0)
    return ("+" if value > 0 else "") + fine(value)


def count(value: float | None) -> str:
    """A whole number with thin spaces between thousands."""
    return NOTHING if value is None else f"{int(value):,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def percent(value: float | None, digits: int = 0) -> str:
    """A share in percent."""
    return NOTHING if value is None else f"{decimal(100 * value, digits)}\N{NARROW NO-BREAK SPACE}%"


def earns(answer: Mapping[str, Any]) -> str:
    """Where the headline value comes from."""
    if answer["measured"] == "exact":
        return "Computed exactly in the true model, which is known here."
    interval = f"95 % interval {fine(answer['lower'])} to {fine(answer['upper'])}"
    if answer["measured"] == "played":
        return f"Played in {count(answer.get('episodes'))} fresh episodes; {interval}."
    if answer["measured"] == "logged":
        held = f"{count(answer.get('episodes'))} held-out episodes of the log"
        return f"Estimated from {held}, for the policy planned without them; nobody has played it; {interval}."
    if answer.get("unfounded"):
        return f"Not to be expected: {answer['unfounded']}, and the model it was planned in has no place for that."
    return (
        "Planned in the model: what it would earn if the recovered model were right. Such values are optimistic; "
        "nobody has played it."
    )


def regret(answer: Mapping[str, Any]) -> str:
    """What the headline regret is."""
    if answer["regret_measured"] == "exact":
        least = answer.get("regret_least")
        wide = least is not None and answer["regret"] - least > WIDE
        more = f" It is at least {fine(least)}: the best policy is known within a bracket." if wide else ""
        return f"At most, against an upper bound of the best policy in the true model, which is known here.{more}"
    if answer["regret_measured"] == "bootstrap":
        upper = answer.get("regret_upper")
        most = f"; {fine(upper)} in the worst resample" if upper is not None else ""
        gap = answer.get("regret_gap")
        more = f" Better plans may add {fine(gap)} to it." if gap is not None and gap > WIDE else ""
        return f"A bootstrap of the episodes estimates so{most}. Not a guarantee.{more}"
    return "How far it is from the best possible policy was not estimated."


def gain(answer: Mapping[str, Any]) -> str:
    """What adapting is worth, in words."""
    if answer["gain"] is None:
        return "The best policy that does not adapt was not computed."
    relative = f" ({signed_percent(answer['gain'] / answer['fixed'])})" if answer["fixed"] > 0 else ""
    where = EVIDENCE.get(answer.get("gain_measured") or "", "")
    if answer.get("unfounded") and answer.get("gain_measured") == "planned":
        where = f"planned in a model that does not hold, as {answer['unfounded']}"
    text = f"over the best policy that ignores rewards{relative}; {where}." if where else "over the best fixed policy."
    if answer.get("share") is not None:
        text += f" That is {percent(answer['share'], 1)} of what adapting can be worth."
    return text


def signed_percent(value: float) -> str:
    """A relative difference in percent, with its sign; none for one that is rounded to nothing."""
    return percent(0.0) if abs(value) < 0.005 else ("+" if value > 0 else "") + percent(value)


def lead(summary: Mapping[str, Any]) -> str:
    """The first sentence of the page."""
    world = summary["world"]
    refined = f", {count(world['refined'])} of them played where models differ" if world.get("refined") else ""
    seen = f"From {_so_many(world['episodes'], 'episode')}{refined}, a" if world["episodes"] else "A"
    states = f"{world['states']} states, " if world["states"] > 1 else ""
    sizes = f"{states}{_so_many(world['actions'], 'action')}"
    return (
        f"{seen} policy was learned for episodes of {_so_many(world['horizon'], 'step')} ({sizes}) that each belong to "
        f"one of {world['contexts']} hidden types. It finds out which while it acts."
    )


def collected(earned: Mapping[str, Any]) -> str:
    """What was collected while the policy was learned."""
    number = earned["points"][-1][0] if earned["points"] else 0
    text = f"It collected {decimal(earned['total'], 0)} in {_so_many(number, 'episode')}"
    if number:
        text += f", {decimal(earned['total'] / number)} an episode"
    if earned["best"] is not None:
        text += f"; the best policy earns {decimal(earned['best'])}"
    if earned["regret"] is not None:
        text += f", so that learning cost {decimal(earned['regret'], 0)} in all, as expected of the policies played"
    times = len(earned["switches"])
    return f"{text}. It changed what it plays {_so_many(times, 'time')}."


def origin(summary: Mapping[str, Any]) -> str:
    """When it was made, and from which data, as far as that is known."""
    made, notes = summary.get("made"), (summary["record"].get("fit") or {}).get("notes") or {}
    episodes = summary["world"]["episodes"]
    out = [f"Made on {made['date']}."] if made else []
    if notes.get("name") and notes.get("rows"):
        whole = str.maketrans("-", "\N{NON-BREAKING HYPHEN}")  # a date stays on one line
        when = f", {dates(*notes['span']).translate(whole)}" if notes.get("span") else ""
        kept = _so_many(notes.get("kept"), "episode")
        out.append(f"From {count(notes['rows'])} rows of {notes['name']}: {kept}{when}.")
    elif episodes:
        out.append(f"From {_so_many(episodes, 'episode')}, played for it.")
    return " ".join(out)


def dates(begins: str, ends: str) -> str:
    """From when to when: in days, or in minutes of one day."""
    (day, clock), (last, end) = begins.split("T"), ends.split("T")
    return f"from {day} to {last}" if day != last else f"{day}, {clock[:5]} to {end[:5]}"


def versions(summary: Mapping[str, Any]) -> str:
    """What it was made with."""
    made = summary.get("made") or {"versions": {}}
    return (
        ", ".join(
            f"{name} {version}" for name, version in {"rewardmix": summary["rewardmix"], **made["versions"]}.items()
        )
        + "."
    )


def _so_many(number: float | None, noun: str) -> str:
    """A number with its noun: 1 episode, 2 episodes."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def cards(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The headline: what the policy earns, what it falls short of, what adapting is worth."""
    measured = answer["measured"]
    planned = "In a model that does not hold it earns" if answer.get("unfounded") else "The policy is planned to earn"
    titles = {"planned": planned, "logged": "The policy is estimated to earn"}
    parts = [
        (titles.get(measured, "The policy earns"), decimal(answer["value"]), earns(answer), measured == "planned"),
        ("It falls short of the best by", fine(answer["regret"]), regret(answer), answer["regret"] is None),
        ("Adapting is worth", signed(answer["gain"]), gain(answer), answer["gain"] is None),
    ]
    return [
        {
            "title": title,
            "value": value,
            "unit": "" if value == NOTHING else "an episode",
            "text": text,
            "caution": care,
        }
        for title, value, text, care in parts
    ]


SETTING_SENTENCES = {
    "a log": "Learned from a log: nothing was tried, and nothing is guaranteed.",
    "practical": "Confidence levels were scaled so that few episodes are useful. What follows from them is a "
    "rule of thumb, not a guarantee.",
    "theory": "Radii have explicit constants. What is listed as shown had every premise checked; the constant of the "
    "paper's theorem is not known, so no bound of the regret follows.",
    "paper": "The paper's forms with one free constant: for studying the theory, not a guarantee.",
}


def setting(certificate: Mapping[str, Any]) -> str:
    """What the confidence setting means."""
    name = str(certificate.get("setting") or "")
    return SETTING_SENTENCES.get(name.split("(")[0].strip(), "") or ("As named by its author." if name else "")


def facts(summary: Mapping[str, Any]) -> list[dict[str, str]]:
    """The certificate's numbers for the appendix, each with what it means; what is not known is left out."""
    certificate = summary["certificate"]
    covered = certificate.get("coverage") or summary["coverage"] or {}
    bootstrap, played = certificate.get("bootstrap_regret") or {}, certificate.get("validation") or {}
    said = certificate.get("agreement") or {}
    agreement = "; ".join(f"{AGREEMENT.get(name, name)} {_verdict(verdict)}" for name, verdict in said.items())
    meetings = f"{count(covered.get('never'))} can meet but never did, {count(covered.get('impossible'))} cannot"
    limits = f"{fine(played.get('lower'))} to {fine(played.get('upper'))}"
    logged = played.get("measured") == "logged"
    fresh = "held-out episodes, for the policy planned without them" if logged else "fresh episodes"
    rows = [
        (True, "Planned in the model", between(*summary["planned"]),
         "in the recovered model, optimistic by nature; not a measurement"),
        (certificate.get("uncertainty"), "Uncertainty V\N{SUBSCRIPT ZERO}", fine(certificate.get("uncertainty")),
         "when exploration stopped: how much of an episode may lead to pairs that are not yet known; 1 is all of it"),
        (covered.get("seen"), "Pairs of state-actions", f"{count(covered.get('seen'))} seen", meetings),
        (certificate.get("kappa"), "Kappa", fine(certificate.get("kappa")),
         "how many times wider the intervals would have to be for one model to explain all pairs"
         f"{_at_weights(certificate)}; about 1 or less: as they are, they fit together"),
        (agreement or None, "Agreement", agreement,
         "three ways to look at the same pairs: how much types differ (magnitudes), which way round (signs), and the "
         "likelihood of whole episodes; each is held against the recovered model"),
        (bootstrap.get("mean"), "Bootstrap regret", fine(bootstrap.get("mean")),
         f"an estimate, {fine(bootstrap.get('upper'))} in the worst resample; better plans may add "
         f"{fine(bootstrap.get('gap'))}; blind to what was never entered"),
        (played.get("value"), "Estimated from the log" if logged else "Played", fine(played.get("value")),
         f"{limits} in {count(played.get('episodes'))} {fresh}"),
    ]  # fmt: skip
    return [{"name": name, "value": value, "note": note} for known, name, value, note in rows if known is not None]


def _at_weights(certificate: Mapping[str, Any]) -> str:
    """Said where the program took weights that are not known."""
    taken = certificate.get("kappa_weights")
    return "" if taken in (None, "known") else f", with weights {taken}"


AGREEMENT = {"lp": "magnitudes", "parity": "signs", "likelihood": "likelihood"}


def _verdict(verdict: Any) -> str:
    if isinstance(verdict, bool):
        return "agree" if verdict else "disagree"
    if isinstance(verdict, float):
        return f"agree in {percent(verdict, 1)}"
    return "were not looked at" if verdict is None or verdict == "not asked" else str(verdict)
