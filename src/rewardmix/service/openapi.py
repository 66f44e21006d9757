"""The description of the interface that programs read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rewardmix._version import __version__
from rewardmix.service.messages import LARGEST_NUMBER, LONGEST_TEXT

_STATE: dict[str, Any] = {
    "description": "A name or a number of a state. One that the policy does not know gets the default action.",
    "oneOf": [
        {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT},
        {"type": "integer", "minimum": -LARGEST_NUMBER, "maximum": LARGEST_NUMBER},
    ],
}
_NAMED = {"oneOf": [{"type": "string"}, {"type": "integer"}]}
_NAMED_OR_NULL = {"oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}

_VERSION: dict[str, Any] = {
    "version": {"type": "integer"},
    "state": {
        "enum": ["current", "former", "refused", "waiting"],
        "description": "refused: contradicted by the check-up; waiting: another version is held.",
    },
    "origin": {"enum": ["given", "learned"]},
    "sessions": {"type": ["integer", "null"], "description": "Finished sessions that it was learned from."},
    "parent": {"type": ["integer", "null"], "description": "The version of new sessions when it was learned."},
    "added": {"type": "string", "format": "date-time"},
    "digest": {"type": "string", "description": "SHA-256 of the policy."},
    "reason": {"type": "string", "description": "Why it was not promoted by itself."},
    "evidence": {"type": "object", "description": "What the fit and the check-up say."},
}

_COMPARED: dict[str, Any] = {
    "difference": {"type": "number", "description": "Estimate, by the chances with which arms were drawn."},
    "lower": {"type": "number"},
    "upper": {"type": "number"},
    "sessions": {"type": "integer", "description": "In the comparison."},
    "least_return": {"type": "number", "description": "What a session counts at least."},
    "most_return": {"type": "number", "description": "What it counts at most."},
    "clipped": {"type": "integer", "description": "Sessions that earned less or more, and count as much."},
}

_SCHEMAS: dict[str, Any] = {
    "Begin": {
        "type": "object",
        "required": ["state"],
        "additionalProperties": False,
        "properties": {
            "state": _STATE,
            "key": {
                "description": "Of the client, not to be guessed: the same key gives the same session, "
                "and is a 409 for another state or visitor.",
                "oneOf": [{"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT}, {"type": "null"}],
            },
            "visitor": {
                "description": "Whose session it is, to delete all of somebody's sessions. Stored as a SHA-256: "
                "better a random id than an address.",
                "oneOf": [{"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT}, {"type": "null"}],
            },
        },
    },
    "Observed": {
        "type": "object",
        "required": ["step", "reward", "state"],
        "additionalProperties": False,
        "properties": {
            "step": {"type": "integer", "minimum": 0},
            "reward": {
                "type": "number",
                "description": "What was earned: one of the reward values of the policy, or any number if it has bins.",
            },
            "state": {**_STATE, "oneOf": [*_STATE["oneOf"], {"type": "null"}], "description": "null ends the session."},
        },
    },
    "Decision": {
        "type": "object",
        "required": ["session", "step", "action", "propensity", "version"],
        "properties": {
            "session": {"type": "string"},
            "step": {"type": "integer"},
            "action": {**_NAMED_OR_NULL, "description": "null: the session has ended."},
            "propensity": {"type": ["number", "null"]},
            "version": {"type": "integer"},
        },
    },
    "Session": {
        "type": "object",
        "required": ["session", "version", "arm", "ended", "belief", "history"],
        "properties": {
            "session": {"type": "string"},
            "version": {"type": "integer"},
            "arm": {"enum": ["adaptive", "fixed"]},
            "ended": {"type": "boolean"},
            "belief": {"type": "array", "items": {"type": "number"}},
            "history": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["step", "state", "action", "propensity", "reward"],
                    "properties": {
                        "step": {"type": "integer"},
                        "state": _NAMED,
                        "action": _NAMED,
                        "propensity": {"type": "number"},
                        "reward": {"type": ["number", "null"]},
                    },
                },
            },
        },
    },
    "Deleted": {
        "type": "object",
        "required": ["deleted"],
        "properties": {"deleted": {"type": "integer", "description": "Sessions that were there."}},
    },
    "Choose": {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "hold": {
                "type": "boolean",
                "default": True,
                "description": "true: until somebody chooses again; false: until a newer one is learned.",
            }
        },
    },
    "Version": {
        "type": "object",
        "required": [*_VERSION],
        "properties": _VERSION,
    },
    "Versions": {
        "type": "object",
        "required": ["current", "held", "finished_sessions", "learning", "versions"],
        "properties": {
            "current": {"type": "integer", "description": "The version that new sessions get."},
            "held": {"type": "boolean", "description": "Chosen by hand, to stay."},
            "finished_sessions": {"type": "integer", "description": "Sessions that ended or fell silent, ever."},
            "learning": {
                "type": ["object", "null"],
                "description": "null: it does not learn.",
                "required": ["every", "next", "problem"],
                "properties": {
                    "every": {"type": "integer"},
                    "next": {"type": "integer", "description": "Finished sessions at which it learns again."},
                    "problem": {"type": "string", "description": "Why the last refit did not end."},
                },
            },
            "versions": {"type": "array", "items": {"$ref": "#/components/schemas/Version"}},
        },
    },
    "Earned": {
        "type": "object",
        "required": ["sessions", "mean", "variance"],
        "properties": {
            "sessions": {"type": "integer"},
            "mean": {"type": "number", "description": "Reward a session."},
            "variance": {"type": "number"},
        },
    },
    "Arms": {
        "type": "object",
        "required": ["adaptive", "fixed"],
        "properties": {arm: {"$ref": "#/components/schemas/Earned"} for arm in ("adaptive", "fixed")},
    },
    "Live": {
        "type": "object",
        "required": [
            "time",
            "open_sessions",
            "finished_sessions",
            "arms",
            "comparison",
            "over_time",
            "types",
            "version",
            "versions",
            "alarms",
        ],
        "properties": {
            "time": {"type": "string"},
            "open_sessions": {"type": "integer"},
            "finished_sessions": {"type": "integer", "description": "Sessions that ended or fell silent."},
            "counted_sessions": {"type": "integer", "description": "Of these, in the sums by now."},
            "abandoned_sessions": {"type": "integer", "description": "Of these, those that fell silent."},
            "holdout": {"type": "number"},
            "explore": {"type": "number"},
            "arms": {"$ref": "#/components/schemas/Arms"},
            "comparison": {
                "description": "Adaptive less fixed, 95 % interval for all looks at once; null: too few sessions.",
                "type": ["object", "null"],
                "required": [*_COMPARED, "more_sessions"],
                "properties": {
                    **_COMPARED,
                    "more_sessions": {"type": ["integer", "null"], "description": "Until it decides; null: not soon."},
                },
            },
            "left_out_sessions": {
                "type": "integer",
                "description": "Not compared: no holdout, or not known.",
            },
            "least_sessions": {"type": "integer", "description": "Of each arm, from which on they are compared."},
            "over_time": {"type": "array", "items": {"$ref": "#/components/schemas/Arms"}},
            "types": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name", "share", "words"],
                    "properties": {
                        "name": {"type": "string"},
                        "share": {"type": "number"},
                        "words": {"type": "string"},
                    },
                },
            },
            "version": {"type": "integer"},
            "held": {"type": "boolean"},
            "versions": {"type": "array", "items": {"type": "object"}},
            "alarms": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["kind", "message"],
                    "properties": {"kind": {"type": "string"}, "message": {"type": "string"}},
                },
            },
        },
    },
    "Refused": {
        "type": "object",
        "required": ["error", "message"],
        "properties": {"error": {"type": "string"}, "message": {"type": "string"}},
    },
}

_ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}

_VISITOR = {**_ID, "name": "visitor", "description": "In percent-encoding: a / as %2F."}
_NUMBER = {"name": "version", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 1}}


_LINKS = {
    name: {"operationId": name, "parameters": {"id": "$response.body#/session"}}
    for name in ("goOn", "showSession", "deleteSession")
}
"""What can be done with the session that an answer names."""


def description(rewards: Sequence[float] = (), *, closed: bool = False) -> dict[str, Any]:
    """The interface in OpenAPI 3.1; ``rewards``: the values that the policy knows; ``closed``: a token is needed."""
    found = _described()
    if closed:
        found["security"] = [{"token": []}]
    if rewards:
        schemas = dict(found["components"]["schemas"])
        observed = schemas["Observed"]
        reward = {**observed["properties"]["reward"], "enum": list(rewards)}
        schemas["Observed"] = {**observed, "properties": {**observed["properties"], "reward": reward}}
        found["components"]["schemas"] = schemas
    for path, method, name in _NAMES:
        found["paths"][path][method]["operationId"] = name
    for path in ("/v1/sessions", "/v1/sessions/{id}/steps"):
        found["paths"][path]["post"]["responses"]["200"]["links"] = _LINKS
    return found


_NAMES = (
    ("/v1/sessions", "post", "beginSession"),
    ("/v1/sessions/{id}", "get", "showSession"),
    ("/v1/sessions/{id}", "delete", "deleteSession"),
    ("/v1/sessions/{id}/steps", "post", "goOn"),
    ("/v1/visitors/{visitor}", "delete", "forgetVisitor"),
    ("/v1/versions", "get", "showVersions"),
    ("/v1/versions/{version}", "post", "chooseVersion"),
    ("/v1/policy", "get", "showPolicy"),
    ("/v1/live", "get", "showLive"),
)
"""What generated clients call the operations."""


def _described() -> dict[str, Any]:
    session = {
        "get": _does("A session so far", "Session", 200, 404),
        "delete": _does("Forget a session", None, 204, 404),
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "rewardmix", "version": __version__, "description": "Decisions for sessions, remembered."},
        "paths": {
            "/v1/sessions": {"post": _does("Begin a session", "Decision", 200, *_BODY, 409, body="Begin")},
            "/v1/sessions/{id}": {"parameters": [_ID], **session},
            "/v1/sessions/{id}/steps": {
                "parameters": [_ID],
                "post": _does("Tell a reward, get an action", "Decision", 200, *_BODY, 404, 409, body="Observed"),
            },
            "/v1/visitors/{visitor}": {
                "parameters": [_VISITOR],
                "delete": _does("Forget the sessions of a visitor", "Deleted", 200, 404),
            },
            "/v1/versions": {"get": _does("Versions of the policy", "Versions", 200)},
            "/v1/versions/{version}": {
                "parameters": [_NUMBER],
                "post": _does("Give new sessions this version", "Version", 200, *_BODY, 404, body="Choose"),
            },
            "/v1/policy": {"get": _does("The policy of now, for the JavaScript player", "", 200)},
            "/v1/health": {"get": {**_does("Whether the process is there", "", 200), "security": []}},
            "/v1/ready": {"get": {**_does("Whether it can answer", "", 200), "security": []}},
            "/v1/metrics": {"get": _does("Counts, for Prometheus", None, 200, kind="text/plain")},
            "/v1/live": {"get": _does("What happens now, as the page shows it", "Live", 200)},
            "/v1/openapi.json": {"get": _does("This description", "", 200)},
            "/v1/docs": {"get": {**_does("This description, for people", None, 200, kind="text/html"), "security": []}},
            "/": {"get": {**_does("The live page", None, 200, kind="text/html"), "security": []}},
        },
        "components": {"schemas": _SCHEMAS, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}, {}],
    }


_BODY = (400, 408, 413, 415, 422)
"""How a body may be refused."""

_ANYWHERE = (401, 403, 429, 503)
"""How any request may be refused."""

_REFUSALS = {
    400: "The body is not JSON, or has a length and comes in chunks",
    401: "The token is missing or wrong",
    403: "Without a token only requests to localhost are answered",
    404: "There is none",
    408: "The body did not arrive in time",
    409: "Not the next step, told otherwise before, or a key of another beginning; nothing has changed",
    413: "The body is too large",
    415: "The body is not sent as application/json",
    422: "A field is wrong, or there twice; the message says which",
    429: "Too many requests of this client; wait a second",
    503: "The store cannot be written now, or too many sessions are open; send it again later",
}


def _does(
    summary: str, answer: str | None, good: int, *refused: int, body: str | None = None, kind: str = "application/json"
) -> dict[str, Any]:
    """One operation; ``answer``: a schema, "" for any JSON, None for no JSON."""
    told: dict[str, Any] = {"description": summary}
    if answer is not None:
        told["content"] = {kind: {"schema": _reference(answer) if answer else {"type": "object"}}}
    elif kind != "application/json":
        told["content"] = {kind: {"schema": {"type": "string"}}}
    content = {"application/json": {"schema": _reference("Refused")}}
    statuses = sorted((*refused, *_ANYWHERE))
    refusals = {str(status): {"description": _REFUSALS[status], "content": content} for status in statuses}
    found = {"summary": summary, "responses": {str(good): told, **refusals}}
    if body is None:
        return found
    return {**found, "requestBody": {"required": True, "content": {"application/json": {"schema": _reference(body)}}}}


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
