"""The interface over HTTP: who may ask, how much, and what is told.

Whatever goes wrong is told as ``{"error": word, "message": sentence}``, never as a trace. Every request leaves one line
of JSON in the log: no body, no name, no token.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rewardmix.service.counters import Counters
from rewardmix.service.desk import Desk, Reply
from rewardmix.service.live import Live
from rewardmix.service.messages import Refusal, as_begin, as_choose, as_observed, parsed
from rewardmix.service.openapi import description
from rewardmix.service.pace import Pace
from rewardmix.service.pages import ServedPage, interface_page, live_page, shop_page
from rewardmix.service.results import Results
from rewardmix.service.store import StoreDown
from rewardmix.service.visitors import Crowd

LOG = logging.getLogger("rewardmix.service")

LARGEST_BODY = 16 * 1024
"""Bytes of a body."""

PATIENCE_SECONDS = 10.0
"""How long a body may take to arrive."""

LONGEST_CLIENT = 64
"""Characters of an address; a proxy may pass on anything."""

LOOPBACK = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?")
"""Hosts that a service without a token answers as; a page elsewhere that points its own name here is none of them."""

_KEPT_NOWHERE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}

Handler = Callable[[Request], Awaitable[Response]]
_Parts = tuple[str | None, ...]
"""An address in parts; None: any."""


@dataclass(frozen=True)
class Door:
    """Who may ask.

    Attributes:
        token: that requests have to carry; None: anybody who names this machine as loopback.
    """

    token: str | None = None

    def check(self, request: Request) -> None:
        """Refuse who may not ask."""
        if self.token is not None:
            kind, _, given = request.headers.get("authorization", "").partition(" ")
            same = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self.token.encode())
            if kind.lower() != "bearer" or not same:
                raise Refusal(401, "unauthorized", "a request needs the header Authorization: Bearer TOKEN")
            return
        if not LOOPBACK.fullmatch(request.headers.get("host", "")):
            raise Refusal(403, "wrong_host", "without a token only requests to localhost are answered")


def application(desk: Desk, token: str | None = None, rate: float | None = None, crowd: Crowd | None = None) -> _Api:
    """The application that a server runs.

    ``rate``: requests a second of each client; with a ``crowd``, the demo shop is part of it.
    """
    api = _Api(desk, Door(token), None if rate is None else Pace(rate))
    api.crowd = crowd
    api.add("/v1/sessions", "POST", api.begin)
    api.add("/v1/sessions/{id}", "GET", api.show)
    api.add("/v1/sessions/{id}", "DELETE", api.delete)
    api.add("/v1/sessions/{id}/steps", "POST", api.go_on)
    api.add("/v1/visitors/{visitor}", "DELETE", api.forget)
    api.add("/v1/versions", "GET", api.versions)
    api.add("/v1/versions/{version}", "POST", api.choose)
    api.add("/v1/policy", "GET", api.policy)
    api.add("/v1/metrics", "GET", api.metrics)
    api.add("/v1/live", "GET", api.live)
    api.add("/v1/openapi.json", "GET", api.openapi)
    api.add("/v1/docs", "GET", api.docs, open_door=True)
    api.add("/", "GET", api.page, open_door=True)
    api.add("/v1/health", "GET", api.health, open_door=True)
    api.add("/v1/ready", "GET", api.ready, open_door=True)
    if crowd is not None:
        api.add("/shop", "GET", api.shop, open_door=True)
        api.add("/v1/demo", "GET", api.demo)
    return api


class _Api:
    """What each address does: an ASGI application; the layers of a router cost more than a decision."""

    def __init__(self, desk: Desk, door: Door, pace: Pace | None) -> None:
        self.desk, self.door, self.pace, self.counters = desk, door, pace, Counters()
        self.crowd: Crowd | None = None
        self.routes: dict[_Parts, dict[str, tuple[str, Handler, bool]]] = {}
        self._results = Results()
        self._live = Live(desk, self._results)

    def add(self, path: str, method: str, handler: Handler, *, open_door: bool = False) -> None:
        """An address; what can be read can be asked for its head."""
        ways = self.routes.setdefault(tuple(None if part[:1] == "{" else part for part in path.split("/")[1:]), {})
        for one in (method, "HEAD") if method == "GET" else (method,):
            ways[one] = (path, handler, open_door)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, time it, count it, and log it."""
        if scope["type"] != "http":
            return
        began = time.monotonic()
        path, handler, open_door = self._route(scope)
        response = await self._answered(Request(scope, receive), handler, open_door)
        seconds = time.monotonic() - began
        self.counters.time(seconds)
        status = response.status_code
        if status >= 400:
            self.counters.add({("refusals", str(status)): 1})
        method = scope["method"] if path else "any"
        _log_request({"method": method, "route": path, "status": status, "seconds": round(seconds, 6)})
        await response(scope, receive, send)

    def _route(self, scope: Scope) -> tuple[str, Handler, bool]:
        """(path as it is documented, its handler, whether anybody may ask). ``%2F`` is a ``/`` in a part."""
        parts: _Parts = tuple(unquote(part) for part in scope["raw_path"].decode("latin-1").split("/")[1:])
        ways = self.routes.get(parts)
        if ways is None and len(parts) > 2 and parts[2]:
            scope["path_params"] = {"which": parts[2]}
            ways = self.routes.get((*parts[:2], None, *parts[3:]))
        if ways is None:
            return "", _nothing_here, True
        return ways.get(scope["method"]) or ("", _other_method(", ".join(ways)), True)

    async def _answered(self, request: Request, handler: Handler, open_door: bool) -> Response:
        try:
            if self.pace is not None and not self.pace.allows(_client_of(request), time.monotonic()):
                raise Refusal(429, "too_many_requests", "too many requests of one client; wait a second")
            if _of_two_lengths(request):
                response = refused(400, "malformed", "a body has a length or comes in chunks, not both")
                response.headers["connection"] = "close"  # a proxy may think that it ends elsewhere
                return response
            if not open_door:
                self.door.check(request)
            return await handler(request)
        except Refusal as refusal:
            return refused(refusal.status, refusal.word, refusal.message)
        except ClientDisconnect:
            return refused(400, "disconnected", "the request did not arrive as a whole")
        except StoreDown as error:
            LOG.error("store", extra={"problem": str(error)})
            return refused(503, "store_down", "the store cannot be written now; it may be sent again")
        except Exception:
            LOG.exception("defect")
            return refused(500, "defect", "something went wrong here; it is in the log of the service")

    async def begin(self, request: Request) -> Response:
        """POST /v1/sessions."""
        asked = as_begin(await body_of(request))
        return self._told(await self._results.of(lambda: self.desk.begin(asked)))

    async def go_on(self, request: Request) -> Response:
        """POST /v1/sessions/{id}/steps."""
        asked = as_observed(await body_of(request))
        return self._told(await self._results.of(lambda: self.desk.go_on(id_of(request), asked)))

    async def show(self, request: Request) -> Response:
        """GET /v1/sessions/{id}."""
        return self._told(await self._results.of(lambda: self.desk.show(id_of(request))))

    async def delete(self, request: Request) -> Response:
        """DELETE /v1/sessions/{id}."""
        return self._told(await self._results.of(lambda: self.desk.delete(id_of(request))))

    async def forget(self, request: Request) -> Response:
        """DELETE /v1/visitors/{visitor}."""
        visitor, deleted, more = str(request.path_params["which"]), 0, True
        while more:
            reply = await self._results.of(lambda: self.desk.forget(visitor))
            self.counters.add(reply.events)
            more = reply.body is not None and reply.body["deleted"] > 0
            deleted += reply.body["deleted"] if reply.body else 0
        return as_response({"deleted": deleted})

    async def policy(self, request: Request) -> Response:
        """GET /v1/policy."""
        return Response(await self._results.of(self.desk.policy), media_type="application/json")

    async def versions(self, request: Request) -> Response:
        """GET /v1/versions."""
        return self._told(await self._results.of(self.desk.versions))

    async def choose(self, request: Request) -> Response:
        """POST /v1/versions/{version}."""
        asked = as_choose(await body_of(request))
        return self._told(await self._results.of(lambda: self.desk.choose(version_in(request), asked)))

    async def metrics(self, request: Request) -> Response:
        """GET /v1/metrics."""
        count = await self._results.of(self.desk.count)
        gauges = {
            "open_sessions": ("Sessions that are open.", float(count)),
            "version": ("Version of the policy that new sessions get.", float(self.desk.version)),
        }
        return Response(self.counters.text(gauges), media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request) -> Response:
        """GET /v1/openapi.json."""
        scale = self.desk.served.model.reward_scale
        rewards = scale.values.tolist() if scale.cuts is None else []
        return as_response(description(rewards, closed=self.door.token is not None))

    async def live(self, request: Request) -> Response:
        """GET /v1/live."""
        return as_response({**await self._live.told(), "demo": self.crowd is not None})

    async def page(self, request: Request) -> Response:
        """GET /: the live page."""
        return self._paged(request, live_page())

    async def shop(self, request: Request) -> Response:
        """GET /shop: the demo shop."""
        return self._paged(request, shop_page())

    async def demo(self, request: Request) -> Response:
        """GET /v1/demo: who is where in the demo shop."""
        return as_response({} if self.crowd is None else self.crowd.told())

    async def docs(self, request: Request) -> Response:
        """GET /v1/docs: the page of the interface."""
        return self._paged(request, interface_page())

    def _paged(self, request: Request, page: ServedPage) -> Response:
        """A page, which has no data: with a token anybody gets it, and its requests carry the token."""
        if self.door.token is None:
            self.door.check(request)
        headers = {"content-security-policy": page.policy, "referrer-policy": "no-referrer", **_KEPT_NOWHERE}
        return Response(page.text, headers=headers, media_type="text/html")

    async def health(self, request: Request) -> Response:
        """GET /v1/health: the process is there."""
        return as_response({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """GET /v1/ready: the store answers."""
        await self._results.of(self.desk.count)
        return as_response({"status": "ready", "version": self.desk.version})

    def _told(self, answer: Reply) -> Response:
        self.counters.add(answer.events)
        return Response(status_code=204) if answer.body is None else as_response(answer.body)


def _log_request(about: dict[str, Any]) -> None:
    """One line; without a search for the caller, which takes longer than the rest of it."""
    if LOG.isEnabledFor(logging.INFO):
        record = logging.LogRecord(LOG.name, logging.INFO, __file__, 0, "request", None, None)
        record.about = about
        LOG.handle(record)


def as_response(data: Any, status: int = 200) -> Response:
    """Data as JSON that no cache keeps."""
    return Response(json.dumps(data), status, _KEPT_NOWHERE, "application/json")


def refused(status: int, word: str, message: str) -> Response:
    """Why something was not done."""
    response = as_response({"error": word, "message": message}, status)
    if status == 401:
        response.headers["www-authenticate"] = "Bearer"
    if status in (429, 503):
        response.headers["retry-after"] = "1"
    return response


def _of_two_lengths(request: Request) -> bool:
    """Whether a request says twice where its body ends."""
    return "transfer-encoding" in request.headers and "content-length" in request.headers


def _client_of(request: Request) -> str:
    """Who asks: the address as it is, or as a proxy that is believed tells it."""
    return request.client.host[:LONGEST_CLIENT] if request.client is not None else ""


def id_of(request: Request) -> str:
    """The id in an address; "", which none has, for what no store would take for text."""
    id = str(request.path_params["which"])
    return id if len(id) <= 64 and id.isascii() and id.isprintable() else ""


def version_in(request: Request) -> int:
    """The number of a version in an address; 0, which none has, where it is no number."""
    text = str(request.path_params["which"])
    return int(text) if len(text) < 10 and text.isascii() and text.isdecimal() else 0


async def body_of(request: Request) -> dict[str, Any]:
    """The body of a request, as far as it may be long and slow."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refusal(415, "not_json", "a body needs the header Content-Type: application/json")
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            received = await _received(request.receive)
    except TimeoutError:
        raise Refusal(408, "too_slow", f"the body did not arrive within {PATIENCE_SECONDS:g} seconds") from None
    return parsed(received)


async def _received(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect()
        body, more = body + message.get("body", b""), message.get("more_body", False)
        if len(body) > LARGEST_BODY:
            raise Refusal(413, "too_large", f"a body has at most {LARGEST_BODY} bytes")
    return body


async def _nothing_here(request: Request) -> Response:
    """An address that there is not."""
    return refused(404, "not_found", "there is nothing here; /v1/openapi.json says what there is")


def _other_method(known: str) -> Handler:
    """A method that an address has not, for one that has others."""

    async def handler(request: Request) -> Response:
        response = refused(405, "method_not_allowed", f"this can be asked by {known} only")
        response.headers["allow"] = known
        return response

    return handler
