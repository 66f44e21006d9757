"""The page: a summary as one HTML file that needs nothing else, not even a network.

Everything that comes from a file is escaped where it is written (by the template, by the drawings, as JSON without
angle brackets), and a content security policy allows the page's own script and style by their hashes and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from markupsafe import Markup

from rewardmix.facts import EVIDENCE
from rewardmix.report import curves, figures, labels, words
from rewardmix.report.playable import as_json
from rewardmix.report.result_schema import check_summary


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
        lead=words.lead(summary),
        title=_breakable(summary["title"]),
        origin=words.origin(summary),
        versions=words.versions(summary),
        cards=words.cards(summary["answer"]),
        figures=_figures(summary),
        legends=_legends(summary),
        facts=words.facts(summary),
        unsaid=_unsaid(summary),
        collected=words.collected(summary["earned"]) if summary.get("earned") else "",
        measured=EVIDENCE.get(summary["comparison"].get("measured") or "", "of unknown origin"),
        setting=words.setting(summary["certificate"]),
        several_states=summary["world"]["states"] > 1,
        two_values=values == [0.0, 1.0],
        known=any(row["truth"] for row in summary["rewards"]["rows"]),
        intervals=any(row["lower"] for row in summary["rewards"]["rows"]),
        number=words.decimal,
        share=words.percent,
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


def _breakable(title: str) -> Markup:
    """A title that may be broken behind its marks, rather than in its words."""
    return Markup("<wbr>").join(re.findall(r"[^,:=/_]*[,:=/_]|[^,:=/_]+", title))


def _unsaid(summary: Mapping[str, Any]) -> list[str]:
    """What is not proved, without the sentences that the page says elsewhere: every sentence stands on it once."""
    said = {*summary["unanswered"]}
    said |= {text for section in summary["sections"] for text in section.get("paragraphs") or ()}
    return [sentence for sentence in summary["certificate"].get("not_proved") or () if str(sentence) not in said]


def _labelled(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The world with labels that fit into the drawings: names, or numbers where some name is too long."""
    world = summary["world"]
    states, actions = labels.rooms(summary)
    return {
        **world,
        "state_labels": labels.fitting(world["state_names"], states),
        "action_labels": labels.fitting(world["action_names"], actions),
    }


def _legends(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the numbers in the drawings stand for, where there are any."""
    world = _labelled(summary)
    found = []
    for what in ("state", "action"):
        pairs = list(zip(world[f"{what}_labels"], world[f"{what}_names"], strict=True))
        if any(label != name and label not in name.split() for label, name in pairs):
            found.append({"title": f"{what.capitalize()}s by number", "entries": pairs})
    return found


def _figures(summary: Mapping[str, Any]) -> dict[str, Any]:
    world, beliefs = _labelled(summary), summary["beliefs"]
    colours = figures.action_colours(beliefs)
    return {
        "comparison": figures.policy_values(summary["comparison"].get("rows", ())),
        "uncertainty": curves.uncertainty_curve(summary["uncertainty"]),
        "earned": curves.earned_curve(summary["earned"]) if summary.get("earned") else None,
        "shares": curves.share_curves(summary["earned"]) if summary.get("earned") else None,
        "coverage": figures.pair_map(summary["coverage"], world) if summary["coverage"] else None,
        "certainty": curves.certainty_curve(summary["recognition"]["certainty"])
        if "recognition" in summary and world["contexts"] > 1
        else None,
        "rewards": figures.reward_dots(summary["rewards"], world),
        "key": figures.action_key(colours, world),
        "beliefs": _belief_figures(beliefs, world, colours),
        "maps": [
            {"caption": world["state_names"][part["state"]], "drawing": figures.action_map(part, world, colours)}
            for part in beliefs.get("maps", ())
        ],
    }


def _belief_figures(beliefs: Mapping[str, Any], world: Mapping[str, Any], colours: Mapping[int, str]) -> list[Any]:
    if world["contexts"] == 1:  # there is one belief
        return []
    where = f"in {world['state_names'][beliefs['state']]} at step {beliefs['step'] + 1}"
    if beliefs["kind"] == "rays":
        caption = f"Rewards still to come {where}, over how sure the policy is."
        axis, parts = beliefs["belief"], (beliefs, *beliefs.get("more", ()))
        captions = [caption, *(f"The same in {world['state_names'][part['state']]}." for part in parts[1:])]
        drawings = [figures.belief_rays(axis, part, world, colours) for part in parts]
        return [{"caption": text, "drawing": one} for text, one in zip(captions, drawings, strict=True)]
    curve = figures.value_curve(beliefs, world, colours)
    return [{"caption": f"Rewards still to come {where}.", "drawing": curve}] if curve else []
