"""Render a summary as one HTML file without external resources; it works offline.

All text from files is escaped where it is written: by the template, by the drawings, and in JSON without angle
brackets. A content security policy allows the page's own script and style, by their hashes, and nothing else.
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

from rewardmix.report import curves, figures, formatting, labels
from rewardmix.report.policy_json import to_json
from rewardmix.report.result_schema import check_summary
from rewardmix.statements import EVIDENCE


def render_page(summary: Mapping[str, Any]) -> str:
    """Render the HTML page of a summary.

    Args:
        summary: Dictionary from ``build_summary`` or ``read_result``; it is checked first.

    Returns:
        HTML text with figures, style and script included.

    Raises:
        InputError: If a field of the summary is missing or wrong.
    """
    check_summary(summary)
    script, style = _load_resource("player.js") + "\n" + _load_resource("session.js"), _load_resource("page.css")
    reward_values = summary["environment"]["reward_values"]
    text: str = _load_template().render(
        summary=summary,
        style=Markup(style),
        script=Markup(script),
        policy_json=Markup(_escape_script(to_json(summary["policy"]))),
        security_policy=_make_security_policy(script, style),
        lead=formatting.describe_run(summary),
        title=_add_line_breaks(summary["title"]),
        origin=formatting.describe_data(summary),
        versions=formatting.format_versions(summary),
        cards=formatting.make_cards(summary["headline"]),
        figures=_draw_figures(summary),
        legends=_make_legends(summary),
        certificate_rows=formatting.make_certificate_rows(summary),
        unproved=_list_unproved_sentences(summary),
        online_text=formatting.describe_online(summary["online"]) if summary.get("online") else "",
        evidence=EVIDENCE.get(summary["comparison"].get("evidence_key") or "", "of unknown origin"),
        bonus_text=formatting.describe_bonus(summary["certificate"]),
        several_states=summary["environment"]["num_states"] > 1,
        is_binary=reward_values == [0.0, 1.0],
        has_true_values=any(row["true_values"] for row in summary["rewards"]["rows"]),
        has_intervals=any(row["lower"] for row in summary["rewards"]["rows"]),
        format_decimal=formatting.format_decimal,
        format_percent=formatting.format_percent,
        format_count=formatting.format_count,
    )
    # A lone surrogate, which JSON may contain as an escape, cannot be encoded in UTF-8; a backslash escape replaces it.
    return text.encode("utf-8", "backslashreplace").decode()


@cache
def _load_template() -> Any:
    """Load the page template; undefined variables raise errors."""
    # Imported late, as most uses of the package render no page.
    from jinja2 import Environment, StrictUndefined

    return Environment(autoescape=True, undefined=StrictUndefined).from_string(_load_resource("page.html.jinja"))


@cache
def _load_resource(name: str) -> str:
    """Load a resource file of this package."""
    return resources.files("rewardmix.report").joinpath(name).read_text("utf-8")


def _escape_script(text: str) -> str:
    """Escape JSON so that it can neither close the script element that contains it nor open another."""
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _make_security_policy(script: str, style: str) -> str:
    """Return the content security policy with the hashes of the page's script and style."""

    def source(text: str) -> str:
        """Return the CSP source expression of an inline script or style."""
        return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

    return (
        f"default-src 'none'; script-src {source(script)}; style-src {source(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _add_line_breaks(title: str) -> Markup:
    """Allow line breaks in a title after punctuation, so that words are not broken."""
    return Markup("<wbr>").join(re.findall(r"[^,:=/_]*[,:=/_]|[^,:=/_]+", title))


def _list_unproved_sentences(summary: Mapping[str, Any]) -> list[str]:
    """List unproved statements that no other section of the page contains, so that each sentence occurs once."""
    used_sentences = {*summary["open_questions"]}
    used_sentences |= {text for section in summary["sections"] for text in section.get("paragraphs") or ()}
    return [
        sentence for sentence in summary["certificate"].get("unproved") or () if str(sentence) not in used_sentences
    ]


def _add_labels(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Add labels that fit into the drawings: names, or numbers if a name is too long."""
    env = summary["environment"]
    state_length, action_length = labels.label_lengths(summary)
    return {
        **env,
        "state_labels": labels.fit_labels(env["state_names"], state_length),
        "action_labels": labels.fit_labels(env["action_names"], action_length),
    }


def _make_legends(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Make the legends of numbered states and actions; empty if the drawings show names."""
    env = _add_labels(summary)
    legends = []
    for kind in ("state", "action"):
        pairs = list(zip(env[f"{kind}_labels"], env[f"{kind}_names"], strict=True))
        if any(label != name and label not in name.split() for label, name in pairs):
            legends.append({"title": f"{kind.capitalize()}s by number", "entries": pairs})
    return legends


def _draw_figures(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Draw all figures of the page; ``None`` for a figure without data."""
    env, beliefs = _add_labels(summary), summary["beliefs"]
    colors = figures.assign_action_colors(beliefs)
    return {
        "comparison": figures.draw_policy_values(summary["comparison"].get("rows", ())),
        "uncertainty": curves.draw_uncertainty(summary["uncertainty"]),
        "online": curves.draw_online_rewards(summary["online"]) if summary.get("online") else None,
        "type_weights": curves.draw_type_weights(summary["online"]) if summary.get("online") else None,
        "coverage": figures.draw_pair_map(summary["coverage"], env) if summary["coverage"] else None,
        "certainty": curves.draw_certainty(summary["identification"]["certainty"])
        if "identification" in summary and env["num_types"] > 1
        else None,
        "rewards": figures.draw_rewards_by_type(summary["rewards"], env),
        "action_legend": figures.draw_action_legend(colors, env),
        "beliefs": _draw_belief_figures(beliefs, env, colors),
        "maps": [
            {
                "caption": env["state_names"][state_map["state"]],
                "drawing": figures.draw_action_map(state_map, env, colors),
            }
            for state_map in beliefs.get("maps", ())
        ],
    }


def _draw_belief_figures(beliefs: Mapping[str, Any], env: Mapping[str, Any], colors: Mapping[int, str]) -> list[Any]:
    """Draw the value curve of two types, or the rays of more; with one type there is no belief to plot."""
    if env["num_types"] == 1:  # the belief is constant
        return []
    at_state = f"in {env['state_names'][beliefs['state']]} at step {beliefs['step'] + 1}"
    if beliefs["kind"] == "rays":
        caption = f"Expected remaining reward {at_state}, by the certainty about the type."
        axis, views = beliefs["belief"], (beliefs, *beliefs.get("more", ()))
        captions = [
            caption,
            *(f"Expected remaining reward in {env['state_names'][view['state']]}." for view in views[1:]),
        ]
        drawings = [figures.draw_belief_rays(axis, view, env, colors) for view in views]
        return [{"caption": text, "drawing": drawing} for text, drawing in zip(captions, drawings, strict=True)]
    curve = figures.draw_value_curve(beliefs, env, colors)
    return [{"caption": f"Expected remaining reward {at_state}.", "drawing": curve}] if curve else []
