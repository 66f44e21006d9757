"""Summarize a result in a few lines: as text, and as HTML cards for a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup, escape

from rewardmix.report import formatting

_CARD_STYLE = "border:1px solid #8886;border-radius:8px;padding:.6em .9em;margin:0;flex:1 1 12em;min-width:12em"
_CARD_HTML = Markup(
    '<div style="{}"><div>{}</div><div style="font-size:1.6em">{} <small>{}</small></div><small>{}</small></div>'
)
_ROW_STYLE = "display:flex;flex-wrap:wrap;gap:.6em;margin:.6em 0"


def summary_lines(summary: Mapping[str, Any]) -> list[str]:
    """Return verdict, advice, headline numbers and types, one line each."""
    verdict = summary.get("verdict") or {}
    lines = [*(summary.get("warnings") or ()), *(verdict[key] for key in ("text", "advice") if key in verdict)]
    for card in formatting.make_cards(summary["headline"]):
        # Without a number the text alone is printed; it says why there is none.
        if card["value"] == formatting.MISSING_NUMBER:
            lines.append(card["text"])
            continue
        lines.append(f"{card['title']}: {card['value']} {card['unit']}. {card['text']}")
    return [*lines, *_type_lines(summary)]


def _type_lines(summary: Mapping[str, Any]) -> list[str]:
    """Return the text of each type, and how fast types are identified."""
    identification = [summary["identification"]] if summary.get("identification") else []
    return [item["text"] for item in [*(summary.get("types") or []), *identification]]


def render_cards_html(summary: Mapping[str, Any]) -> str:
    """Render the text summary as HTML without script, style sheet or external resources."""
    verdict = summary.get("verdict") or {}
    verdict_html = (
        Markup("<p><strong>{}</strong> {}</p>").format(verdict["text"], verdict["advice"]) if verdict else Markup()
    )
    cards = Markup().join(
        _CARD_HTML.format(_CARD_STYLE, card["title"], card["value"], card["unit"], card["text"])
        for card in formatting.make_cards(summary["headline"])
    )  # fmt: skip
    # Inline styles only: notebooks remove style elements, and cells must not change the style of others.
    types = Markup().join(Markup("<li>{}</li>").format(line) for line in _type_lines(summary))
    title = Markup("<h4 style='margin:.2em 0'>{}</h4>").format(summary["title"])
    warning_html = Markup("<p><strong>{}</strong></p>")
    warnings = Markup().join(warning_html.format(warning) for warning in summary.get("warnings") or ())
    return str(
        Markup("<div>{}{}{}<div style='{}'>{}</div><ul>{}</ul></div>").format(
            title, warnings, verdict_html, escape(_ROW_STYLE), cards, types
        )
    )
