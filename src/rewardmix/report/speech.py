"""A result in a few lines: as text, and as the cards of the page for a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup, escape

from rewardmix.report import words

_CARD = "border:1px solid #8886;border-radius:8px;padding:.6em .9em;margin:0;flex:1 1 12em;min-width:12em"
_CARD_OF = Markup(
    '<div style="{}"><div>{}</div><div style="font-size:1.6em">{} <small>{}</small></div><small>{}</small></div>'
)
_ROW = "display:flex;flex-wrap:wrap;gap:.6em;margin:.6em 0"


def spoken(result: Mapping[str, Any]) -> list[str]:
    """Verdict, what to do next, the headline numbers and the types: a line each."""
    said = result.get("verdict") or {}
    lines = [*(result.get("warnings") or ()), *(said[part] for part in ("sentence", "advice") if part in said)]
    for card in words.cards(result["answer"]):
        if card["value"] == words.NOTHING:  # the text says that it was not estimated
            lines.append(card["text"])
            continue
        stop = " " if card["text"][0].islower() else ". "
        lines.append(f"{card['title']} {card['value']} {card['unit']}{stop}{card['text']}")
    return [*lines, *_types(result)]


def _types(result: Mapping[str, Any]) -> list[str]:
    """Each type, and how fast it is recognised."""
    known = [result["recognition"]] if result.get("recognition") else []
    return [part["sentence"] for part in [*(result.get("types") or []), *known]]


def cards_html(result: Mapping[str, Any]) -> str:
    """The same as a piece of HTML that needs nothing else: no script, no style sheet, nothing from elsewhere."""
    said = result.get("verdict") or {}
    verdict = Markup("<p><strong>{}</strong> {}</p>").format(said["sentence"], said["advice"]) if said else Markup()
    cards = Markup().join(
        _CARD_OF.format(_CARD, card["title"], card["value"], card["unit"], card["text"])
        for card in words.cards(result["answer"])
    )  # fmt: skip
    types = Markup().join(Markup("<li>{}</li>").format(line) for line in _types(result))
    title = Markup("<h4 style='margin:.2em 0'>{}</h4>").format(result["title"])
    warnings = Markup().join(Markup("<p><strong>{}</strong></p>").format(line) for line in result.get("warnings") or ())
    return str(
        Markup("<div>{}{}{}<div style='{}'>{}</div><ul>{}</ul></div>").format(
            title, warnings, verdict, escape(_ROW), cards, types
        )
    )
