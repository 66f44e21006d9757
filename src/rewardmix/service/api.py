"""The interface over HTTP: who may ask, how much, and what is told.

Whatever goes wrong is told as ``{"error": word, "message": sentence}``, never as a trace. Every request leaves one line
of JSON in the log: no body, no name, no token.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from rewardmix.service.counters import Counters
from rewardmix.service.desk import Desk, Reply
from rewardmix.service.messages import Refusal, as_begin, as_choose, as_observed, parsed
from rewardmix.service.openapi import description
from rewardmix.service.store import StoreDown

LOG = logging.getLogger("rewardmix.service")

LARGEST_BODY = 16 * 1024
"""Bytes of a body."""

PATIENCE_SECONDS = 10.0
"""How long a body may take to arrive."""

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""Hosts that a service without a token answers as; a page elsewhere that points its own name here is none of them."""

Handler = Callable[[Request], Awaitable[Response]]


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
        host = request.headers.get("host", "")
        if (host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host) not in LOOPBACK:
            raise Refusal(403, "wrong_host", "without a token only requests to localhost are answered")


def application(desk: Desk, token: str | None = None) -> Starlette:
    """The application that a server runs."""
    api = _Api(desk, Door(token))
    routes = [
        api.route("/v1/sessions", "POST", api.begin),
        api.route("/v1/sessions/{id}", "GET", api.show),
        api.route("/v1/sessions/{id}", "DELETE", api.delete),
        api.route("/v1/sessions/{id}/steps", "POST", api.go_on),
        api.route("/v1/versions", "GET", api.versions),
        api.route("/v1/versions/{version}", "POST", api.choose),
        api.route("/v1/policy", "GET", api.policy),
        api.route("/v1/metrics", "GET", api.metrics),
        api.route("/v1/openapi.json", "GET", api.openapi),
        api.route("/v1/health", "GET", api.health, open_door=True),
        api.route("/v1/ready", "GET", api.ready, open_door=True),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _not_routed})


class _Api:
    """What each address does."""

    def __init__(self, desk: Desk, door: Door) -> None:
        self.desk, self.door, self.counters = desk, door, Counters()

    def route(self, path: str, method: str, handler: Handler, *, open_door: bool = False) -> Route:
        """An address with its door, its log and its ends."""

        async def endpoint(request: Request) -> Response:
            began = time.monotonic()
            response = await self._answered(request, handler, open_door)
            seconds = time.monotonic() - began
            self.counters.time(seconds)
            if response.status_code >= 400:
                self.counters.add({("refusals", str(response.status_code)): 1})
            LOG.info(
                "request",
                extra={"method": method, "route": path, "status": response.status_code, "seconds": round(seconds, 6)},
            )
            return response

        return Route(path, endpoint, methods=[method])

    async def _answered(self, request: Request, handler: Handler, open_door: bool) -> Response:
        try:
            if not open_door:
                self.door.check(request)
            return await handler(request)
        except Refusal as refusal:
            return refused(refusal.status, refusal.word, refusal.message)
        except ClientDisconnect:
            return refused(400, "disconnected", "the request did not arrive as a whole")
        except StoreDown as error:
            LOG.error("store", extra={"problem": str(error)})
            return refused(503, "store_down", "the store cannot be written now; nothing was kept, try again")
        except Exception:
            LOG.exception("defect")
            return refused(500, "defect", "something went wrong here; it is in the log of the service")

    async def begin(self, request: Request) -> Response:
        """POST /v1/sessions."""
        return self._told(await asyncio.wrap_future(self.desk.begin(as_begin(await body_of(request)))))

    async def go_on(self, request: Request) -> Response:
        """POST /v1/sessions/{id}/steps."""
        asked = as_observed(await body_of(request))
        return self._told(await asyncio.wrap_future(self.desk.go_on(id_of(request), asked)))

    async def show(self, request: Request) -> Response:
        """GET /v1/sessions/{id}."""
        return self._told(await asyncio.wrap_future(self.desk.show(id_of(request))))

    async def delete(self, request: Request) -> Response:
        """DELETE /v1/sessions/{id}."""
        return self._told(await asyncio.wrap_future(self.desk.delete(id_of(request))))

    async def policy(self, request: Request) -> Response:
        """GET /v1/policy."""
        return Response(await asyncio.wrap_future(self.desk.policy()), media_type="application/json")

    async def versions(self, request: Request) -> Response:
        """GET /v1/versions."""
        return self._told(await asyncio.wrap_future(self.desk.versions()))

    async def choose(self, request: Request) -> Response:
        """POST /v1/versions/{version}."""
        asked = as_choose(await body_of(request))
        return self._told(await asyncio.wrap_future(self.desk.choose(version_in(request), asked)))

    async def metrics(self, request: Request) -> Response:
        """GET /v1/metrics."""
        count = await asyncio.wrap_future(self.desk.count())
        gauges = {
            "open_sessions": ("Sessions that are open.", float(count)),
            "version": ("Version of the policy that new sessions get.", float(self.desk.version)),
        }
        return Response(self.counters.text(gauges), media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request) -> Response:
        """GET /v1/openapi.json."""
        return as_response(description())

    async def health(self, request: Request) -> Response:
        """GET /v1/health: the process is there."""
        return as_response({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """GET /v1/ready: the store answers."""
        await asyncio.wrap_future(self.desk.count())
        return as_response({"status": "ready", "version": self.desk.version})

    def _told(self, answer: Reply) -> Response:
        self.counters.add(answer.events)
        return Response(status_code=204) if answer.body is None else as_response(answer.body)


def as_response(data: Any, status: int = 200) -> Response:
    """Data as JSON that no cache keeps."""
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    return Response(json.dumps(data), status, headers, "application/json")


def refused(status: int, word: str, message: str) -> Response:
    """Why something was not done."""
    response = as_response({"error": word, "message": message}, status)
    if status == 401:
        response.headers["www-authenticate"] = "Bearer"
    if status == 503:
        response.headers["retry-after"] = "1"
    return response


def id_of(request: Request) -> str:
    """The id in an address, which nothing but text can be."""
    id = str(request.path_params["id"])
    return id if len(id) <= 64 and id.isascii() else ""


def version_in(request: Request) -> int:
    """The number of a version in an address; 0, which none has, where it is no number."""
    text = str(request.path_params["version"])
    return int(text) if len(text) < 10 and text.isascii() and text.isdecimal() else 0


async def body_of(request: Request) -> dict[str, Any]:
    """The body of a request, as far as it may be long and slow."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refusal(415, "not_json", "a body needs the header Content-Type: application/json")
    try:
        return parsed(await asyncio.wait_for(_received(request), PATIENCE_SECONDS))
    except TimeoutError:
        raise Refusal(408, "too_slow", f"the body did not arrive within {PATIENCE_SECONDS:g} seconds") from None


async def _received(request: Request) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LARGEST_BODY:
            raise Refusal(413, "too_large", f"a body has at most {LARGEST_BODY} bytes")
    return bytes(body)


async def _not_routed(request: Request, error: Exception) -> Response:
    """An address or a method that there is not."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    word = {404: "not_found", 405: "method_not_allowed"}.get(status, "refused")
    return refused(status, word, "there is nothing here; /v1/openapi.json says what there is")
