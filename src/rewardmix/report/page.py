"""The page: a summary as one HTML file that needs nothing else, not even a network.

Everything that comes from a file is escaped where it is written (by the template, by the drawings, as JSON without
angle brackets), and a content security policy allows the page's own script and style by their hashes and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from markupsafe import Markup

from rewardmix.report import belief_figures, figures, words
from rewardmix.report.playable import as_json
from rewardmix.report.schema import check_summary

SETTINGS = {
    "practical": "Confidence levels were scaled so that few episodes are useful. What follows from them is a "
    "rule of thumb, not a guarantee.",
    "theory": "Radii have explicit constants. What is listed as shown had every premise checked; the constant of the "
    "paper's theorem is not known, so no bound of the regret follows.",
    "paper": "The paper's forms with one free constant: for studying the theory, not a guarantee.",
}


def page(summary: Mapping[str, Any]) -> str:
    """The HTML text of a summary (see ``summarise``)."""
    check_summary(summary)
    script, style = _part("player.js") + "\n" + _part("session.js"), _part("page.css")
    values = summary["world"]["reward_values"]
    text: str = _template().render(
        summary=summary,
        style=Markup(style),
        script=Markup(script),
        session=Markup(_inert(as_json(summary["session"]))),
        policy=_security(script, style),
        lead=_lead(summary),
        cards=_cards(summary["answer"]),
        figures=_figures(summary),
        facts=_facts(summary),
        measured=words.MEASURED.get(summary["comparison"].get("measured") or "", "of unknown origin"),
        setting=_setting(summary["certificate"]),
        several_states=summary["world"]["states"] > 1,
        two_values=values == [0.0, 1.0],
        yes="rewarded",
        no="not rewarded",
        known=any(row["truth"] for row in summary["rewards"]["rows"]),
        intervals=any(row["lower"] for row in summary["rewards"]["rows"]),
        number=words.number,
        share=words.share,
        count=words.count,
    )
    return text.encode("utf-8", "backslashreplace").decode()  # half a character cannot stand in a file


@cache
def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    return Environment(autoescape=True, undefined=StrictUndefined).from_string(_part("page.html.jinja"))


@cache
def _part(name: str) -> str:
    return resources.files("rewardmix.report").joinpath(name).read_text("utf-8")


def _inert(text: str) -> str:
    """JSON that cannot end the script element it stands in, nor begin another."""
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _security(script: str, style: str) -> str:
    def source(text: str) -> str:
        return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

    return (
        f"default-src 'none'; script-src {source(script)}; style-src {source(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _lead(summary: Mapping[str, Any]) -> str:
    world = summary["world"]
    refined = f", {words.count(world['refined'])} of them played where models differ" if world.get("refined") else ""
    seen = f"From {words.count(world['episodes'])} episodes{refined}, a" if world["episodes"] else "A"
    states = f"{world['states']} states, " if world["states"] > 1 else ""
    return (
        f"{seen} policy was learned for episodes of {world['horizon']} steps ({states}{world['actions']} actions) that "
        f"each belong to one of {world['contexts']} hidden contexts. It finds out which while it acts."
    )


def _cards(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    planned = answer["measured"] == "planned"
    titles = {"planned": "The policy is planned to earn", "logged": "The policy is estimated to earn"}
    return [
        {
            "title": titles.get(answer["measured"], "The policy earns"),
            "value": words.number(answer["value"]),
            "unit": "an episode",
            "text": words.earns(answer),
            "caution": planned,
        },
        {
            "title": "It falls short of the best by",
            "value": words.fine(answer["regret"]),
            "unit": "an episode" if answer["regret"] is not None else "",
            "text": words.regret(answer),
            "caution": answer["regret"] is None,
        },
        {
            "title": "Adapting is worth",
            "value": words.signed(answer["gain"]),
            "unit": "an episode" if answer["gain"] is not None else "",
            "text": words.gain(answer),
            "caution": answer["gain"] is None,
        },
    ]


def _figures(summary: Mapping[str, Any]) -> dict[str, Any]:
    world, beliefs = summary["world"], summary["beliefs"]
    colours = belief_figures.action_colours(beliefs)
    return {
        "comparison": figures.comparison(summary["comparison"].get("rows", ())),
        "uncertainty": figures.uncertainty(summary["uncertainty"]),
        "coverage": figures.coverage(summary["coverage"], world) if summary["coverage"] else None,
        "rewards": figures.rewards(summary["rewards"], world),
        "key": belief_figures.key(colours, world),
        "beliefs": _belief_figures(beliefs, world, colours),
        "maps": _maps(beliefs, world, colours),
    }


def _belief_figures(beliefs: Mapping[str, Any], world: Mapping[str, Any], colours: Mapping[int, str]) -> list[Any]:
    state = world["state_names"][beliefs["state"]]
    where = f"in {state} at step {beliefs['step'] + 1}"
    if beliefs["kind"] == "rays":
        caption = f"Rewards still to come {where}, over how sure the policy is."
        return [{"caption": caption, "drawing": belief_figures.rays(beliefs, world, colours)}]
    curve = belief_figures.value_curve(beliefs, world, colours)
    return [{"caption": f"Rewards still to come {where}.", "drawing": curve}] if curve else []


def _maps(beliefs: Mapping[str, Any], world: Mapping[str, Any], colours: Mapping[int, str]) -> list[Any]:
    return [
        {
            "caption": world["state_names"][part["state"]],
            "drawing": belief_figures.action_map(part, world, colours),
        }
        for part in beliefs.get("maps", ())
    ]


def _setting(certificate: Mapping[str, Any]) -> str:
    name = str(certificate.get("setting") or "")
    return SETTINGS.get(name.split("(")[0].strip(), "") or ("As named by its author." if name else "")


def _facts(summary: Mapping[str, Any]) -> list[dict[str, str]]:
    """The certificate's numbers, each with what it means; what is not known is left out."""
    certificate = summary["certificate"]
    covered = certificate.get("coverage") or summary["coverage"] or {}
    bootstrap, played = certificate.get("bootstrap_regret") or {}, certificate.get("validation") or {}
    said = certificate.get("agreement") or {}
    agreement = "; ".join(f"{AGREEMENT.get(name, name)} {_verdict(verdict)}" for name, verdict in said.items())
    meetings = (
        f"{words.count(covered.get('never'))} can meet but never did, {words.count(covered.get('impossible'))} cannot"
    )
    limits = f"{words.fine(played.get('lower'))} to {words.fine(played.get('upper'))}"
    fresh = "held-out episodes of the log" if played.get("measured") == "logged" else "fresh episodes"
    rows = [
        (True, "Planned value", words.between(*summary["planned"]),
         "in the recovered model, optimistic by nature; not a measurement"),
        (certificate.get("uncertainty"), "Uncertainty V\N{SUBSCRIPT ZERO}", words.fine(certificate.get("uncertainty")),
         "when exploration stopped"),
        (covered.get("seen"), "Pairs of state-actions", f"{words.count(covered.get('seen'))} seen", meetings),
        (certificate.get("kappa"), "Kappa", words.fine(certificate.get("kappa")),
         f"the factor on all radii at which magnitudes exist{_at_weights(certificate)}; about 1 or less is consistent"),
        (agreement or None, "Agreement", agreement, "with the recovered model"),
        (bootstrap.get("mean"), "Bootstrap regret", words.fine(bootstrap.get("mean")),
         f"an estimate, {words.fine(bootstrap.get('upper'))} in the worst resample; better plans may add "
         f"{words.fine(bootstrap.get('gap'))}; blind to what was never entered"),
        (played.get("value"), "Validation", words.fine(played.get("value")),
         f"{limits} in {words.count(played.get('episodes'))} {fresh}"),
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
        return f"agree in {words.share(verdict, 1)}"
    return "not asked" if verdict is None else str(verdict)
