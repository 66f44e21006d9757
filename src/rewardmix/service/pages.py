"""Pages of the service for people: what happens now, and what programs may ask. They load nothing from elsewhere.

A page is the same for everybody and holds no data: what it shows comes as JSON by the interface, with the token where
there is one, and is put into the page as text. The policy that goes with it allows its own script and style by their
hashes, and requests to the service itself, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib import resources
from typing import Any

from rewardmix._version import __version__
from rewardmix.service.openapi import description


@dataclass(frozen=True)
class ServedPage:
    """A page, and the content security policy that goes with it."""

    text: str
    policy: str


@cache
def live_page() -> ServedPage:
    """What happens now."""
    return _with_door("What happens now", "live")


@cache
def shop_page() -> ServedPage:
    """The demo shop."""
    return _with_door("Demo shop", "shop")


@cache
def interface_page() -> ServedPage:
    """What programs may ask, made from the description that is served."""
    told = description()
    parts = [
        '<header class="wide"><p class="kicker"><a href="/">rewardmix serve</a></p><h1>Interface</h1>',
        f'<p class="lead">{escape(told["info"]["description"])} The same for programs: '
        '<a href="/v1/openapi.json">/v1/openapi.json</a>.</p></header><main class="wide">',
    ]
    for path, methods in told["paths"].items():
        for method, does in methods.items():
            if method != "parameters":
                parts.append(_operation(path, method, does))
    parts.append('<section><h2 id="schemas">Schemas</h2>')
    for name, schema in told["components"]["schemas"].items():
        parts.append(f'<h3 id="{escape(name)}">{escape(name)}</h3>{_code(schema)}')
    parts.append("</section></main>")
    return _page("Interface", "\n".join(parts), _file("live.css"), "")


def _with_door(title: str, name: str) -> ServedPage:
    """A page whose requests carry the token, which it asks for."""
    body = _file(f"{name}.html").replace("  <!-- door -->\n", _file("door.html"))
    return _page(title, body, _file("live.css"), _file("door.js") + _file(f"{name}.js"))


def _operation(path: str, method: str, does: dict[str, Any]) -> str:
    lines = [f'<section class="operation"><h2><code>{method.upper()} {escape(path)}</code></h2>']
    lines.append(f"<p>{escape(does['summary'])}.</p>")
    asked = does.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if asked:
        lines.append(f"<p>Body: {_linked(asked)}</p>")
    rows = []
    for status, answer in sorted(does["responses"].items()):
        schemas = [content["schema"] for content in answer.get("content", {}).values()]
        told = _linked(schemas[0]) if schemas else "nothing"
        rows.append(
            f'<tr><th scope="row">{escape(status)}</th><td>{escape(answer["description"])}</td><td>{told}</td></tr>'
        )
    head = '<thead><tr><th scope="col">status</th><th scope="col">meaning</th><th scope="col">body</th></tr></thead>'
    name = escape(f"Answers of {method.upper()} {path}")
    table = f"<table>{head}<tbody>{''.join(rows)}</tbody></table>"
    lines.append(f'<div class="scroll" tabindex="0" role="region" aria-label="{name}">{table}</div></section>')
    return "".join(lines)


def _linked(schema: dict[str, Any]) -> str:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return f'<a href="#{escape(name)}">{escape(name)}</a>' if name else f"any {escape(str(schema.get('type', 'JSON')))}"


def _code(schema: dict[str, Any]) -> str:
    return f'<pre tabindex="0"><code>{escape(json.dumps(schema, indent=2))}</code></pre>'


def _page(title: str, body: str, style: str, script: str) -> ServedPage:
    style = _file("page.css", "rewardmix.report") + style
    text = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)} · rewardmix</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n"
        f'<footer class="wide"><p class="note">rewardmix {__version__}. No external requests.</p></footer>\n'
        + (f'<script type="module">{script}</script>\n' if script else "")
        + "</body>\n</html>\n"
    )
    allowed = f"script-src {_hash(script)}; " if script else ""
    policy = (
        f"default-src 'none'; {allowed}style-src {_hash(style)}; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return ServedPage(text, policy)


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def _file(name: str, room: str = "rewardmix.service") -> str:
    return resources.files(room).joinpath(name).read_text("utf-8")
