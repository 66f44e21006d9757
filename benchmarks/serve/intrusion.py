"""Attacks by those who may not ask, and by text that wants to be more than text."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock
from urllib.parse import quote

from benchmarks.serve.damage import start_session
from benchmarks.serve.hostile import ACTIONS, FORGED, INJECTED, STATES, TOKEN, Target, request, say
from rewardmix.service import export_log
from rewardmix.service.openapi import make_openapi

METRIC = re.compile(r'rewardmix_[a-z_]+(\{(arm|status|le)="[\w.+]+"\})? -?[\d.e+-]+|# (HELP|TYPE) rewardmix_[a-z_]+ .+')
"""Lines that there may be; what is injected has other words in its labels."""
EVENTS = {"request", "Invalid HTTP request received."}


def closed_operations() -> Iterator[tuple[str, str, bytes | None]]:
    """(method, address, body) of everything that needs the token."""
    for path, ways in make_openapi()["paths"].items():
        for method, does in ways.items():
            if method != "parameters" and does.get("security") != []:
                address = re.sub(r"\{\w+\}", "1", path)
                yield method.upper(), address, b"{}" if "requestBody" in does else None


def no_token(target: Target, quick: bool) -> Iterator[str]:
    """Everything that is not open, as if there was no token."""
    for method, path, body in closed_operations():
        yield say(target.port, request(method, path, body, token="")).status


def wrong_tokens(target: Target, quick: bool) -> Iterator[str]:
    """Tokens that are nearly right, and right ones where they do not count."""
    near = ["Bearer", "Bearer ", TOKEN, f"Basic {TOKEN}", f"Token {TOKEN}", f"Bearer  {TOKEN}x", f"Bearer {TOKEN} x"]
    near += [
        f"Bearer {token}"
        for token in (TOKEN[:-1], TOKEN[1:], TOKEN.upper(), TOKEN[::-1], f"x{TOKEN}", "é" * 20, "x" * 9000)
    ]
    near += [f"Bearer {TOKEN[:count]}" for count in range(1, len(TOKEN))]
    all_headers: list[tuple[bytes, ...]] = [(b"Authorization: " + token.encode(),) for token in near]
    all_headers += [(b"X-Token: " + TOKEN.encode(),), (b"Cookie: token=" + TOKEN.encode(),)]
    all_headers += [(b"Proxy-Authorization: Bearer " + TOKEN.encode(),), (b"Authorization: Bearer \xff\xfe",)]
    for method, path, body in closed_operations():
        for headers in all_headers:
            yield say(target.port, request(method, path, body, headers, token="")).status
        yield say(target.port, request(method, f"{path}?token={quote(TOKEN)}", body, token="")).status


def compared(target: Target, quick: bool) -> Iterator[str]:
    """Whether as much is compared of a token that begins well as of any other: by hmac, which does not stop early."""
    import hmac

    from starlette.requests import Request

    from rewardmix.service.api import Authentication
    from rewardmix.service.request_schema import ApiError

    auth = Authentication(TOKEN)
    for right in range(len(TOKEN)):
        guess = TOKEN[:right].ljust(len(TOKEN), "#").encode()
        scope = {"type": "http", "headers": [(b"authorization", b"Bearer " + guess)]}
        with mock.patch("hmac.compare_digest", wraps=hmac.compare_digest) as spy:
            try:
                auth.check(Request(scope))
                yield "let in"
            except ApiError:
                yield "compared whole" if spy.call_args_list == [mock.call(guess, TOKEN.encode())] else "otherwise"


ODD_IDS = ("https://shop/u/7", "a/1", "/", "a//b", "..", "../x", "%2F", "%", "?", "#", " ", "é", "\x00", "x" * 200)


def users_keys(target: Target, quick: bool) -> Iterator[str]:
    """Send idempotency keys of sessions of another user, or of none."""
    owners = [{"user": name} for name in ("ann", "bert", "ANN", " ann")] + [{}]
    for index, first in enumerate(owners):
        for other in owners:
            body = {"state": 0, "idempotency_key": f"key {index}"}
            _posted(target, "/v1/sessions", {**body, **first})
            if other != first:
                yield _posted(target, "/v1/sessions", {**body, **other})


def users_deleted(target: Target, quick: bool) -> Iterator[str]:
    """Delete users whose ids are difficult to encode in a path."""
    for id in ODD_IDS:
        _posted(target, "/v1/sessions", {"state": 0, "user": id})
        body = say(target.port, request("DELETE", f"/v1/users/{quote(id, safe='')}")).body
        yield "deleted" if body == b'{"deleted": 1}' else "kept"


def _posted(target: Target, path: str, body: object) -> str:
    return _quiet(target, request("POST", path, json.dumps(body).encode()))


def _quiet(target: Target, sent: bytes) -> str:
    """The status; or what an answer has that it must not: text in its head, or text that is not JSON."""
    heard = say(target.port, sent)
    if FORGED.encode() in heard.head:
        return "said in a head"
    if FORGED.encode() in heard.body and b"\r\ncontent-type: application/json" not in heard.head.lower():
        return "said as a page"
    return heard.status


def as_first_state(target: Target, text: str) -> Iterator[str]:
    yield _posted(target, "/v1/sessions", {"state": text})
    ended = json.loads(say(target.port, request("POST", "/v1/sessions", json.dumps({"state": text}).encode())).body)
    yield _posted(target, f"/v1/sessions/{ended['session']}/steps", {"step": 0, "reward": 1, "state": None})


def as_next_state(target: Target, text: str) -> Iterator[str]:
    path = f"/v1/sessions/{start_session(target)}/steps"
    yield _posted(target, path, {"step": 0, "reward": 1, "state": text})
    yield _posted(target, path, {"step": 1, "reward": 1, "state": None})


def as_known_state(target: Target, text: str) -> Iterator[str]:
    yield _posted(target, "/v1/sessions", {"state": f"state {text}"})


def as_header(target: Target, text: str) -> Iterator[str]:
    for name in (
        b"User-Agent",
        b"Referer",
        b"Origin",
        b"X-Forwarded-For",
        b"X-Forwarded-Host",
        b"Cookie",
        b"X-" + FORGED.encode(),
    ):
        yield _quiet(target, request("GET", "/v1/policy", headers=(name + b": " + text.encode(),)))


def in_line(text: str) -> bytes:
    """Text as it can stand in the first line of a request without ending it."""
    return text.encode().replace(b" ", b"+").replace(b"\r", b"").replace(b"\n", b"")


Put = Callable[[Target, str], Iterator[str]]


def _one(make_request: Callable[[str], bytes]) -> Put:
    def put(target: Target, text: str) -> Iterator[str]:
        yield _quiet(target, make_request(text))

    return put


def _every(put: Put) -> Callable[[Target, bool], Iterator[str]]:
    def tries(target: Target, quick: bool) -> Iterator[str]:
        for text in INJECTED:
            yield from put(target, text)

    return tries


_PUT: dict[str, tuple[Put, str]] = {
    "first state": (as_first_state, "200"),
    "next state": (as_next_state, "200"),
    "state that the policy knows": (as_known_state, "200"),
    "idempotency key": (
        _one(lambda text: request("POST", "/v1/sessions", json.dumps({"state": 0, "idempotency_key": text}).encode())),
        "200",
    ),
    "user": (
        _one(lambda text: request("POST", "/v1/sessions", json.dumps({"state": 0, "user": text}).encode())),
        "200",
    ),
    "name of a field": (
        _one(lambda text: request("POST", "/v1/sessions", json.dumps({"state": 0, text: 1}).encode())),
        "422",
    ),
    "step, reward and pin": (
        lambda target, text: (
            _posted(target, place, body)
            for place, body in (
                ("/v1/sessions/x/steps", {"step": text, "reward": 1, "state": 0}),
                ("/v1/sessions/x/steps", {"step": 0, "reward": text, "state": 0}),
                ("/v1/versions/1", {"pin": text}),
            )
        ),
        "422",
    ),
    "whole body": (_one(lambda text: request("POST", "/v1/sessions", text.encode())), "400"),
    "session id": (_one(lambda text: request("GET", f"/v1/sessions/{quote(text, safe='')}")), "404"),
    "session id, as it is": (_one(lambda text: request("GET", b"/v1/sessions/" + in_line(text))), "400,404"),
    "user to delete": (_one(lambda text: request("DELETE", f"/v1/users/{quote(text, safe='')}")), "200,404"),
    "number of a version": (_one(lambda text: request("POST", f"/v1/versions/{quote(text, safe='')}", b"{}")), "404"),
    "path": (_one(lambda text: request("GET", f"/{quote(text, safe='')}")), "404"),
    "path, as it is": (_one(lambda text: request("GET", b"/" + in_line(text))), "400,404"),
    "query": (_one(lambda text: request("GET", b"/v1/policy?" + in_line(text))), "200,400"),
    "method": (_one(lambda text: request(FORGED + quote(text, safe=""), "/v1/policy")), "400,405"),
    "headers": (as_header, "200,400,401"),
    "host": (_one(lambda text: request("GET", "/v1/policy", host=text)), "200,400,401"),
    "type of a body": (_one(lambda text: request("POST", "/v1/sessions", b"{}", kind=text)), "400,415"),
    "token": (_one(lambda text: request("GET", "/v1/policy", token=text)), "400,401"),
}

FIELDS = {name: (_every(put), allowed) for name, (put, allowed) in _PUT.items()}
"""Every place for text -> who puts all of ``INJECTED`` there, and what may be answered."""


def told_again(target: Target, quick: bool) -> Iterator[str]:
    """What was said of a state, and the names of the policy, come back letter by letter."""
    for state in (*INJECTED, *STATES):
        first = json.loads(
            say(target.port, request("POST", "/v1/sessions", json.dumps({"state": state}).encode())).body
        )
        known_action = first["action"] in ACTIONS
        session = json.loads(say(target.port, request("GET", f"/v1/sessions/{first['session']}")).body)
        yield "the same text" if known_action and session["history"][0]["state"] == state else "another text"


def log_lines(target: Target, quick: bool) -> Iterator[str]:
    """Every line is one JSON object of a kind that there is, and none of what was said is in it."""
    for line in target.log.read_bytes().split(b"\n")[:-1]:
        try:
            result = json.loads(line)
        except ValueError:
            yield "no JSON"
            continue
        plain = isinstance(result, dict) and result.get("event") in EVENTS and line.isascii()
        hidden = FORGED.encode() not in line and TOKEN.encode() not in line and b"state " not in line
        yield "one object without a name" if plain and hidden else "forged"


def metrics_lines(target: Target, quick: bool) -> Iterator[str]:
    """Every line is in the format of Prometheus, with names and labels that there are."""
    for line in say(target.port, request("GET", "/v1/metrics")).body.decode().splitlines():
        yield "as they should be" if METRIC.fullmatch(line) and "forged" not in line else "forged"


def exported(target: Target, quick: bool) -> Iterator[str]:
    """Rows of the log that the store is exported as."""
    import pyarrow.parquet

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        export_log(target.store, path, drop_invalid=1.0)  # attacks name states that there are not
        columns = pyarrow.parquet.read_table(path).to_pydict()
    for state, action in zip(columns["state"], columns["action"], strict=True):
        yield "a name of the policy" if state in STATES and action in ACTIONS else "another name"


def tables(target: Target, quick: bool) -> Iterator[str]:
    """The tables are those that there were, and whole."""
    with contextlib.closing(sqlite3.connect(target.store)) as rows:
        names = {name for (name,) in rows.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for name in ("versions", "sessions", "steps", "totals"):
            yield "whole" if name in names else "gone"
        yield "whole" if rows.execute("PRAGMA integrity_check").fetchone() == ("ok",) else "damaged"


def pages(target: Target, quick: bool) -> list[str]:
    """The pages in Chromium: each injected text that is shown, and whatever else happens there.

    In a thread of its own: one in which another browser is driven has no room for this one.
    """
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(_show_pages, target).result()


def _show_pages(target: Target) -> list[str]:
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    origin = f"http://127.0.0.1:{target.port}/"
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        tab, trouble = browser.new_page(), list[str]()
        tab.on("dialog", lambda dialog: (trouble.append("ran"), dialog.dismiss()))
        tab.on("pageerror", lambda error: trouble.append("failed"))
        tab.on(
            "request",
            lambda page_request: page_request.url.startswith((origin, "data:")) or trouble.append("asked elsewhere"),
        )
        tab.goto(origin)
        tab.fill("#token", TOKEN)
        tab.keyboard.press("Enter")
        tab.wait_for_selector("#alarms li.alarm")
        text = tab.inner_text("body")
        inside = tab.locator("img, iframe, object, embed, [onerror], [onmouseover], svg script").count()
        scripts = tab.locator("script").count()
        tab.goto(f"{origin}v1/docs")
        tab.wait_for_selector("h2")
        browser.close()
    return ["text"] * text.count(FORGED) + trouble + ["an element"] * (inside + scripts - 1)


def other_hosts(target: Target, quick: bool) -> Iterator[str]:
    """A page elsewhere that has its own name point at this machine."""
    for host in ("example.org", "example.org:80", "localhost.example.org", "127.0.0.1.example.org", "x@localhost:x",
                 "0.0.0.0", "[::2]", "localhost:1:2", "LOCALHOST.", "127.0.0.1:80@a.de", "127.1", "\xff"):  # fmt: skip
        for method, path, body in closed_operations():
            yield say(target.port, request(method, path, body, token="", host=host)).status
            time.sleep(0.012)  # below the rate


def other_pages(target: Target, quick: bool) -> Iterator[str]:
    """What a page elsewhere can send without asking first, and what it asks first."""
    for method, path, _ in closed_operations():
        if method == "POST":
            for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
                yield say(target.port, request("POST", path, b'{"state": 0}', token="", kind=kind)).status
        asks = (b"Origin: https://example.org", b"Access-Control-Request-Method: " + method.encode())
        yield say(target.port, request("OPTIONS", path, headers=asks, token="")).status
