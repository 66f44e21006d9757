"""Serve the HTTP interface as an ASGI application: authentication, rate limits, routes and error responses.

Every error is a JSON object ``{"error": code, "message": sentence}`` without a stack trace. Every request writes one
JSON line to the log, which contains no body, user or token.
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

from rewardmix.service.async_bridge import AsyncBridge
from rewardmix.service.dashboard import Dashboard
from rewardmix.service.demo_traffic import DemoTraffic
from rewardmix.service.metrics import Metrics
from rewardmix.service.openapi import make_openapi
from rewardmix.service.rate_limit import RateLimiter
from rewardmix.service.request_schema import (
    ApiError,
    parse_activate_version,
    parse_body,
    parse_start_session,
    parse_step_feedback,
)
from rewardmix.service.session_service import ServiceReply, SessionService
from rewardmix.service.store import StoreUnavailable
from rewardmix.service.web_pages import WebPage, load_dashboard_page, load_shop_page, make_api_page

LOG = logging.getLogger("rewardmix.service")

MAX_BODY_BYTES = 16 * 1024
"""Largest request body in bytes."""

BODY_TIMEOUT_SECONDS = 10.0
"""Time in seconds within which a request body has to arrive."""

MAX_CLIENT_LENGTH = 64
"""Maximum length of a client address in characters; a proxy may pass on any text."""

LOOPBACK_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{1,5})?")
"""Host headers that a service without a token accepts.

A web page whose own domain name resolves to this machine (DNS rebinding) sends another host and is rejected.
"""

_NO_STORE_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}

Handler = Callable[[Request], Awaitable[Response]]
_PathParts = tuple[str | None, ...]
"""Path split at slashes; None matches any part."""


@dataclass(frozen=True)
class Authentication:
    """Check who may use the service.

    Attributes:
        token: Token that requests have to carry; None admits every request whose host is a loopback name.
    """

    token: str | None = None

    def check(self, request: Request) -> None:
        """Raise an ``ApiError`` for a request without permission."""
        if self.token is not None:
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            # The comparison takes constant time, so that response times do not reveal prefixes of the token.
            is_equal = hmac.compare_digest(token.strip().encode("utf-8", "replace"), self.token.encode())
            if scheme.lower() != "bearer" or not is_equal:
                raise ApiError(401, "unauthorized", "requests need the header Authorization: Bearer TOKEN")
            return
        if not LOOPBACK_HOST.fullmatch(request.headers.get("host", "")):
            raise ApiError(
                403, "wrong_host", "Host: expected localhost; start the service with a token to serve other hosts"
            )


def make_application(
    service: SessionService, token: str | None = None, rate: float | None = None, traffic: DemoTraffic | None = None
) -> _Application:
    """Make the ASGI application that a server runs.

    ``rate`` is the maximum number of requests per second and client. With ``traffic`` the demo shop is part of it.
    """
    api = _Application(service, Authentication(token), None if rate is None else RateLimiter(rate))
    api.traffic = traffic
    api.add("/v1/sessions", "POST", api.start_session)
    api.add("/v1/sessions/{id}", "GET", api.get_session)
    api.add("/v1/sessions/{id}", "DELETE", api.delete_session)
    api.add("/v1/sessions/{id}/steps", "POST", api.add_step)
    api.add("/v1/users/{user}", "DELETE", api.delete_user)
    api.add("/v1/versions", "GET", api.list_versions)
    api.add("/v1/versions/{version}", "POST", api.activate_version)
    api.add("/v1/policy", "GET", api.policy)
    api.add("/v1/metrics", "GET", api.metrics)
    api.add("/v1/dashboard", "GET", api.dashboard)
    api.add("/v1/openapi.json", "GET", api.openapi)
    api.add("/v1/docs", "GET", api.docs, is_public=True)
    api.add("/", "GET", api.page, is_public=True)
    api.add("/v1/health", "GET", api.health, is_public=True)
    api.add("/v1/ready", "GET", api.ready, is_public=True)
    if traffic is not None:
        api.add("/shop", "GET", api.shop, is_public=True)
        api.add("/v1/demo", "GET", api.demo)
    return api


class _Application:
    """Route requests to handlers, as an ASGI application. A general router would take longer than a decision."""

    def __init__(self, service: SessionService, auth: Authentication, rate_limit: RateLimiter | None) -> None:
        self.service, self.auth, self.rate_limit, self.counters = service, auth, rate_limit, Metrics()
        self.traffic: DemoTraffic | None = None
        self.routes: dict[_PathParts, dict[str, tuple[str, Handler, bool]]] = {}
        self._bridge = AsyncBridge()
        self._dashboard = Dashboard(service, self._bridge)

    def add(self, path: str, method: str, handler: Handler, *, is_public: bool = False) -> None:
        """Add a route; a route with GET also answers HEAD."""
        methods = self.routes.setdefault(
            tuple(None if segment[:1] == "{" else segment for segment in path.split("/")[1:]), {}
        )
        for http_method in (method, "HEAD") if method == "GET" else (method,):
            methods[http_method] = (path, handler, is_public)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and record its duration, status and log line."""
        if scope["type"] != "http":
            return
        start_time = time.monotonic()
        path, handler, is_public = self._route(scope)
        response = await self._respond(Request(scope, receive), handler, is_public)
        seconds = time.monotonic() - start_time
        self.counters.time(seconds)
        status = response.status_code
        if status >= 400:
            self.counters.add({("errors", str(status)): 1})
        method = scope["method"] if path else "any"
        _log_request({"method": method, "route": path, "status": status, "seconds": round(seconds, 6)})
        await response(scope, receive, send)

    def _route(self, scope: Scope) -> tuple[str, Handler, bool]:
        """Return (documented path, handler, whether it is public) of a request.

        Paths are split before percent-decoding, so ``%2F`` is a slash within one part.
        """
        # The raw path is used, because scope["path"] is already decoded and a %2F in a user name would split it.
        segments: _PathParts = tuple(unquote(segment) for segment in scope["raw_path"].decode("latin-1").split("/")[1:])
        methods = self.routes.get(segments)
        if methods is None and len(segments) > 2 and segments[2]:
            scope["path_params"] = {"name": segments[2]}
            methods = self.routes.get((*segments[:2], None, *segments[3:]))
        if methods is None:
            return "", _not_found, True
        return methods.get(scope["method"]) or ("", _method_not_allowed(", ".join(methods)), True)

    async def _respond(self, request: Request, handler: Handler, is_public: bool) -> Response:
        """Check limits and permission, call the handler, and convert every exception to an error response."""
        try:
            if self.rate_limit is not None and not self.rate_limit.allow(_client_address(request), time.monotonic()):
                raise ApiError(429, "too_many_requests", "too many requests from this client; retry after a second")
            if _has_two_lengths(request):
                response = error_response(
                    400, "malformed", "body: got Content-Length and Transfer-Encoding, expected one of them"
                )
                # A proxy may take another byte for the end of the body (request smuggling). The connection is
                # not used again.
                response.headers["connection"] = "close"
                return response
            if not is_public:
                self.auth.check(request)
            return await handler(request)
        except ApiError as error:
            return error_response(error.status, error.code, error.message)
        except ClientDisconnect:
            return error_response(400, "disconnected", "the connection closed before the request was complete")
        except StoreUnavailable as error:
            LOG.error("store_unavailable", extra={"error": str(error)})
            return error_response(503, "store_unavailable", "the store is not available; retry later")
        except Exception:
            LOG.exception("internal_error")
            return error_response(500, "internal_error", "internal error; see the log of the service")

    async def start_session(self, request: Request) -> Response:
        """Handle POST /v1/sessions: start a session."""
        request_body = parse_start_session(await read_body(request))
        return self._reply_response(await self._bridge.submit(lambda: self.service.start_session(request_body)))

    async def add_step(self, request: Request) -> Response:
        """Handle POST /v1/sessions/{id}/steps: store a reward and decide the next action."""
        feedback = parse_step_feedback(await read_body(request))
        return self._reply_response(
            await self._bridge.submit(lambda: self.service.add_step(session_id(request), feedback))
        )

    async def get_session(self, request: Request) -> Response:
        """Handle GET /v1/sessions/{id}: return a session."""
        return self._reply_response(await self._bridge.submit(lambda: self.service.get_session(session_id(request))))

    async def delete_session(self, request: Request) -> Response:
        """Handle DELETE /v1/sessions/{id}: delete a session."""
        return self._reply_response(await self._bridge.submit(lambda: self.service.delete_session(session_id(request))))

    async def delete_user(self, request: Request) -> Response:
        """Handle DELETE /v1/users/{user}: delete all sessions of a user."""
        user, deleted, more = str(request.path_params["name"]), 0, True
        # Each call deletes a limited batch in a transaction of its own, so other jobs of the store are not delayed.
        while more:
            reply = await self._bridge.submit(lambda: self.service.delete_user(user))
            self.counters.add(reply.events)
            more = reply.body is not None and reply.body["deleted"] > 0
            deleted += reply.body["deleted"] if reply.body else 0
        return as_response({"deleted": deleted})

    async def policy(self, request: Request) -> Response:
        """Handle GET /v1/policy: return the active policy for the JavaScript player."""
        return Response(await self._bridge.submit(self.service.policy), media_type="application/json")

    async def list_versions(self, request: Request) -> Response:
        """Handle GET /v1/versions: list the versions of the policy."""
        return self._reply_response(await self._bridge.submit(self.service.versions))

    async def activate_version(self, request: Request) -> Response:
        """Handle POST /v1/versions/{version}: activate a version."""
        request_body = parse_activate_version(await read_body(request))
        return self._reply_response(
            await self._bridge.submit(lambda: self.service.activate_version(version_number(request), request_body))
        )

    async def metrics(self, request: Request) -> Response:
        """Handle GET /v1/metrics: return the metrics in the Prometheus text format."""
        count = await self._bridge.submit(self.service.count_open)
        gauges = {
            "open_sessions": ("Open sessions.", float(count)),
            "active_version": ("Version of the policy that new sessions get.", float(self.service.version)),
        }
        return Response(self.counters.text(gauges), media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request) -> Response:
        """Handle GET /v1/openapi.json: return the OpenAPI description."""
        scale = self.service.served.model.reward_scale
        # With binned rewards any number is valid, so the schema lists no values.
        rewards = scale.values.tolist() if scale.cuts is None else []
        return as_response(make_openapi(rewards, closed=self.auth.token is not None))

    async def dashboard(self, request: Request) -> Response:
        """Handle GET /v1/dashboard: return the data of the dashboard."""
        return as_response({**await self._dashboard.get(), "demo": self.traffic is not None})

    async def page(self, request: Request) -> Response:
        """Handle GET /: return the dashboard page."""
        return self._page_response(request, load_dashboard_page())

    async def shop(self, request: Request) -> Response:
        """Handle GET /shop: return the page of the demo shop."""
        return self._page_response(request, load_shop_page())

    async def demo(self, request: Request) -> Response:
        """Handle GET /v1/demo: return the state of the demo traffic."""
        return as_response({} if self.traffic is None else self.traffic.get_state())

    async def docs(self, request: Request) -> Response:
        """Handle GET /v1/docs: return the page of the HTTP interface."""
        return self._page_response(request, make_api_page())

    def _page_response(self, request: Request, page: WebPage) -> Response:
        """Return a page. It contains no data, so it needs no token; the requests of its script carry the token."""
        if self.auth.token is None:
            self.auth.check(request)
        headers = {"content-security-policy": page.policy, "referrer-policy": "no-referrer", **_NO_STORE_HEADERS}
        return Response(page.text, headers=headers, media_type="text/html")

    async def health(self, request: Request) -> Response:
        """Handle GET /v1/health: the process runs."""
        return as_response({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """Handle GET /v1/ready: the store answers."""
        await self._bridge.submit(self.service.count_open)
        return as_response({"status": "ready", "version": self.service.version})

    def _reply_response(self, reply: ServiceReply) -> Response:
        """Count the events of a reply and return its body as response."""
        self.counters.add(reply.events)
        return Response(status_code=204) if reply.body is None else as_response(reply.body)


def _log_request(fields: dict[str, Any]) -> None:
    """Log one request. The record is built directly, since the search for the caller takes longer than the rest."""
    if LOG.isEnabledFor(logging.INFO):
        record = logging.LogRecord(LOG.name, logging.INFO, __file__, 0, "request", None, None)
        record.fields = fields
        LOG.handle(record)


def as_response(data: Any, status: int = 200) -> Response:
    """Return data as a JSON response that caches do not store."""
    return Response(json.dumps(data), status, _NO_STORE_HEADERS, "application/json")


def error_response(status: int, code: str, message: str) -> Response:
    """Return an error response with the headers that its status requires."""
    response = as_response({"error": code, "message": message}, status)
    if status == 401:
        response.headers["www-authenticate"] = "Bearer"
    if status in (429, 503):
        response.headers["retry-after"] = "1"
    return response


def _has_two_lengths(request: Request) -> bool:
    """Return whether a request declares the end of its body in two ways."""
    return "transfer-encoding" in request.headers and "content-length" in request.headers


def _client_address(request: Request) -> str:
    """Return the client address, as the connection or a trusted proxy gives it."""
    return request.client.host[:MAX_CLIENT_LENGTH] if request.client is not None else ""


def session_id(request: Request) -> str:
    """Return the session id in a path, or "" (which no session has) if it is not short printable ASCII."""
    id = str(request.path_params["name"])
    # An id that no session can have is answered by 404 and does not reach the database, which may reject the text.
    return id if len(id) <= 64 and id.isascii() and id.isprintable() else ""


def version_number(request: Request) -> int:
    """Return the version number in a path, or 0 (which no version has) if it is not a number."""
    text = str(request.path_params["name"])
    return int(text) if len(text) < 10 and text.isascii() and text.isdecimal() else 0


async def read_body(request: Request) -> dict[str, Any]:
    """Read and parse the JSON body of a request, within the limits of size and time."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise ApiError(415, "not_json", "a request body needs the header Content-Type: application/json")
    try:
        async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
            raw_body = await _read_bytes(request.receive)
    except TimeoutError:
        raise ApiError(408, "too_slow", f"body: not complete within {BODY_TIMEOUT_SECONDS:g} seconds") from None
    return parse_body(raw_body)


async def _read_bytes(receive: Receive) -> bytes:
    """Read the raw body of a request up to ``MAX_BODY_BYTES`` bytes."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect()
        body, more = body + message.get("body", b""), message.get("more_body", False)
        # The limit is checked while the body arrives: a declared length may be wrong or missing.
        if len(body) > MAX_BODY_BYTES:
            raise ApiError(413, "too_large", f"body: expected at most {MAX_BODY_BYTES} bytes")
    return body


async def _not_found(request: Request) -> Response:
    """Answer 404 for a path without route."""
    return error_response(404, "not_found", "no such route; see /v1/openapi.json")


def _method_not_allowed(allowed: str) -> Handler:
    """Make a handler that answers 405 and names the methods of the path."""

    async def handler(request: Request) -> Response:
        response = error_response(405, "method_not_allowed", f"method: expected {allowed}")
        response.headers["allow"] = allowed
        return response

    return handler
