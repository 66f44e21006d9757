"""Build the HTML pages of the service: dashboard, demo shop and description of the interface.

Pages contain no data and load nothing from other hosts. Their scripts request data as JSON, with the token if there is
one, and insert it as text. The content security policy of a page allows its own script and style by their hashes and
requests to the service, and nothing else.
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
from rewardmix.service.openapi import make_openapi


@dataclass(frozen=True)
class WebPage:
    """HTML page with its content security policy.

    Attributes:
        text: HTML document.
        policy: Value of the header ``Content-Security-Policy``.
    """

    text: str
    policy: str


@cache
def load_dashboard_page() -> WebPage:
    """Load the dashboard page."""
    return _make_login_page("Dashboard", "dashboard")


@cache
def load_shop_page() -> WebPage:
    """Load the page of the demo shop."""
    return _make_login_page("Demo shop", "shop")


@cache
def make_api_page() -> WebPage:
    """Make the page of the HTTP interface from its OpenAPI description."""
    document = make_openapi()
    lines = [
        '<header class="wide"><p class="kicker"><a href="/">rewardmix serve</a></p><h1>HTTP interface</h1>',
        f'<p class="lead">{escape(document["info"]["description"])} Machine-readable: '
        '<a href="/v1/openapi.json">/v1/openapi.json</a>.</p></header><main class="wide">',
    ]
    # Everything from the description is escaped, although it is static text: the page stays correct if a name
    # contains markup.
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if method != "parameters":
                lines.append(_render_operation(path, method, operation))
    lines.append('<section><h2 id="schemas">Schemas</h2>')
    for name, schema in document["components"]["schemas"].items():
        lines.append(f'<h3 id="{escape(name)}">{escape(name)}</h3>{_code_block(schema)}')
    lines.append("</section></main>")
    return _wrap_page("HTTP interface", "\n".join(lines), _load_resource("dashboard.css"), "")


def _make_login_page(title: str, name: str) -> WebPage:
    """Make a page that asks for the token and sends it with its requests."""
    body = _load_resource(f"{name}.html").replace("  <!-- login -->\n", _load_resource("login.html"))
    return _wrap_page(
        title, body, _load_resource("dashboard.css"), _load_resource("login.js") + _load_resource(f"{name}.js")
    )


def _render_operation(path: str, method: str, operation: dict[str, Any]) -> str:
    """Render one operation with its body and answers."""
    lines = [f'<section class="operation"><h2><code>{method.upper()} {escape(path)}</code></h2>']
    lines.append(f"<p>{escape(operation['summary'])}.</p>")
    body_schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body_schema:
        lines.append(f"<p>Body: {_schema_link(body_schema)}</p>")
    rows = []
    for status, response in sorted(operation["responses"].items()):
        schemas = [content["schema"] for content in response.get("content", {}).values()]
        link = _schema_link(schemas[0]) if schemas else "none"
        rows.append(
            f'<tr><th scope="row">{escape(status)}</th><td>{escape(response["description"])}</td><td>{link}</td></tr>'
        )
    head = '<thead><tr><th scope="col">status</th><th scope="col">meaning</th><th scope="col">body</th></tr></thead>'
    name = escape(f"Responses of {method.upper()} {path}")
    table = f"<table>{head}<tbody>{''.join(rows)}</tbody></table>"
    lines.append(f'<div class="scroll" tabindex="0" role="region" aria-label="{name}">{table}</div></section>')
    return "".join(lines)


def _schema_link(schema: dict[str, Any]) -> str:
    """Render a link to the schema of a body."""
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return f'<a href="#{escape(name)}">{escape(name)}</a>' if name else f"any {escape(str(schema.get('type', 'JSON')))}"


def _code_block(schema: dict[str, Any]) -> str:
    """Render a schema as a code block."""
    return f'<pre tabindex="0"><code>{escape(json.dumps(schema, indent=2))}</code></pre>'


def _wrap_page(title: str, body: str, style: str, script: str) -> WebPage:
    """Wrap a body in a complete page and compute its content security policy."""
    style = _load_resource("page.css", "rewardmix.report") + style
    text = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)} · rewardmix</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n"
        f'<footer class="wide"><p class="note">rewardmix {__version__}. No external requests.</p></footer>\n'
        + (f'<script type="module">{script}</script>\n' if script else "")
        + "</body>\n</html>\n"
    )
    # Inline code is allowed by hash and not by 'unsafe-inline', so injected code does not run.
    script_source = f"script-src {_hash(script)}; " if script else ""
    policy = (
        f"default-src 'none'; {script_source}style-src {_hash(style)}; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return WebPage(text, policy)


def _hash(text: str) -> str:
    """Return the hash of an inline script or style as a content security policy source."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def _load_resource(name: str, package: str = "rewardmix.service") -> str:
    """Read a resource file of a package."""
    return resources.files(package).joinpath(name).read_text("utf-8")
