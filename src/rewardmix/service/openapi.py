"""Describe the HTTP interface in OpenAPI 3.1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rewardmix._version import __version__
from rewardmix.service.request_schema import MAX_STATE_NUMBER, MAX_TEXT_LENGTH

_STATE: dict[str, Any] = {
    "description": "Name or number of a state. In a state that the policy does not know the default action is played.",
    "oneOf": [
        {"type": "string", "minLength": 1, "maxLength": MAX_TEXT_LENGTH},
        {"type": "integer", "minimum": -MAX_STATE_NUMBER, "maximum": MAX_STATE_NUMBER},
    ],
}
_NAME_OR_INDEX = {"oneOf": [{"type": "string"}, {"type": "integer"}]}
_NAME_OR_INDEX_OR_NULL = {"oneOf": [{"type": "string"}, {"type": "integer"}, {"type": "null"}]}
_OPTIONAL_TEXT: list[dict[str, Any]] = [
    {"type": "string", "minLength": 1, "maxLength": MAX_TEXT_LENGTH},
    {"type": "null"},
]

_VERSION_SUMMARY: dict[str, Any] = {
    "version": {"type": "integer"},
    "state": {
        "enum": ["active", "retired", "rejected", "pending"],
        "description": "rejected: contradicted by the diagnostics; pending: another version is pinned.",
    },
    "origin": {"enum": ["provided", "refit"]},
    "num_training_sessions": {
        "type": ["integer", "null"],
        "description": "Number of finished sessions it was fitted to; null for a provided version.",
    },
    "created_at": {"type": "string", "format": "date-time"},
    "reason": {"type": "string", "description": "Why it did not become active automatically."},
}

_VERSION: dict[str, Any] = {
    **_VERSION_SUMMARY,
    "parent": {"type": ["integer", "null"], "description": "Active version when this one was fitted."},
    "digest": {"type": "string", "description": "SHA-256 of the policy."},
    "evidence": {"type": "object", "description": "Results of the fit and of the diagnostics."},
}

_COMPARISON: dict[str, Any] = {
    "difference": {
        "type": "number",
        "description": "Estimated effect; each session is weighted by the inverse probability of its arm.",
    },
    "lower": {"type": "number", "description": "Lower end of the interval."},
    "upper": {"type": "number", "description": "Upper end of the interval."},
    "sessions_until_significant": {
        "type": ["integer", "null"],
        "description": "Sessions until the interval excludes 0 if the trend continues; null: not soon.",
    },
    "sessions": {"type": "integer", "description": "Number of compared sessions."},
    "min_return": {"type": "number", "description": "Lower bound of a return."},
    "max_return": {"type": "number", "description": "Upper bound of a return."},
    "clipped": {"type": "integer", "description": "Number of sessions whose return was clipped to the bounds."},
}

_SCHEMAS: dict[str, Any] = {
    "StartSession": {
        "type": "object",
        "required": ["state"],
        "additionalProperties": False,
        "properties": {
            "state": _STATE,
            "idempotency_key": {
                "description": "Key that cannot be guessed. A repeated request with this key returns the session that "
                "the first one started; with another state or user it is an error (409).",
                "oneOf": _OPTIONAL_TEXT,
            },
            "user": {
                "description": "User of the session, so that all sessions of a user can be deleted. Stored as a "
                "SHA-256 hash; use a random id and not an email address.",
                "oneOf": _OPTIONAL_TEXT,
            },
        },
    },
    "StepFeedback": {
        "type": "object",
        "required": ["step", "reward", "state"],
        "additionalProperties": False,
        "properties": {
            "step": {"type": "integer", "minimum": 0, "description": "Index of the rewarded step, from 0."},
            "reward": {
                "type": "number",
                "description": "Reward of the step: a reward value of the policy, or any number if rewards are binned.",
            },
            "state": {
                **_STATE,
                "oneOf": [*_STATE["oneOf"], {"type": "null"}],
                "description": "Name or number of the next state; null ends the session.",
            },
        },
    },
    "Decision": {
        "type": "object",
        "required": ["session", "step", "action", "propensity", "version"],
        "properties": {
            "session": {"type": "string"},
            "step": {"type": "integer"},
            "action": {**_NAME_OR_INDEX_OR_NULL, "description": "Action to play; null: the session has ended."},
            "propensity": {"type": ["number", "null"], "description": "Probability of the action, given the arm."},
            "version": {"type": "integer", "description": "Version of the policy that the session follows."},
        },
    },
    "Session": {
        "type": "object",
        "required": ["session", "version", "arm", "ended", "belief", "history"],
        "properties": {
            "session": {"type": "string"},
            "version": {"type": "integer"},
            "arm": {"enum": ["adaptive", "holdout"]},
            "ended": {"type": "boolean"},
            "belief": {
                "type": "array",
                "items": {"type": "number"},
                "description": "Probabilities of the types, given all rewards of the session.",
            },
            "history": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["step", "state", "action", "propensity", "reward"],
                    "properties": {
                        "step": {"type": "integer"},
                        "state": _NAME_OR_INDEX,
                        "action": _NAME_OR_INDEX,
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
        "properties": {"deleted": {"type": "integer", "description": "Number of deleted sessions."}},
    },
    "ActivateVersion": {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "pin": {
                "type": "boolean",
                "default": True,
                "description": "true: the version stays active until another one is activated by hand; "
                "false: until the next refit.",
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
        "required": ["active_version", "pinned", "finished_sessions", "refit", "versions"],
        "properties": {
            "active_version": {"type": "integer", "description": "Version that new sessions get."},
            "pinned": {"type": "boolean", "description": "Whether refits are prevented from replacing it."},
            "finished_sessions": {
                "type": "integer",
                "description": "Number of sessions that ended or timed out since the store was created.",
            },
            "refit": {
                "type": ["object", "null"],
                "description": "Schedule of refits; null: refits are disabled.",
                "required": ["interval", "next_at", "error"],
                "properties": {
                    "interval": {
                        "type": "integer",
                        "description": "Minimum number of finished sessions between refits.",
                    },
                    "next_at": {
                        "type": "integer",
                        "description": "Number of finished sessions at which the next refit starts.",
                    },
                    "error": {"type": "string", "description": "Error of the last refit, or an empty string."},
                },
            },
            "versions": {"type": "array", "items": {"$ref": "#/components/schemas/Version"}},
        },
    },
    "ArmStats": {
        "type": "object",
        "required": ["sessions", "mean", "variance"],
        "properties": {
            "sessions": {"type": "integer", "description": "Number of finished sessions."},
            "mean": {"type": "number", "description": "Mean return of a session."},
            "variance": {"type": "number", "description": "Variance of the return of a session."},
        },
    },
    "Arms": {
        "type": "object",
        "required": ["adaptive", "holdout"],
        "properties": {arm: {"$ref": "#/components/schemas/ArmStats"} for arm in ("adaptive", "holdout")},
    },
    "Dashboard": {
        "type": "object",
        "required": [
            "time",
            "open_sessions",
            "finished_sessions",
            "arms",
            "comparison",
            "history",
            "types",
            "active_version",
            "versions",
            "alarms",
        ],
        "properties": {
            "time": {"type": "string"},
            "open_sessions": {"type": "integer", "description": "Number of open sessions."},
            "finished_sessions": {"type": "integer", "description": "Number of sessions that ended or timed out."},
            "counted_sessions": {
                "type": "integer",
                "description": "Number of finished sessions that the sums contain so far.",
            },
            "abandoned_sessions": {
                "type": "integer",
                "description": "Number of counted sessions that timed out and were never ended.",
            },
            "holdout_share": {"type": "number", "description": "Probability of the holdout arm."},
            "explore_prob": {"type": "number", "description": "Probability of a random action."},
            "arms": {"$ref": "#/components/schemas/Arms"},
            "comparison": {
                "description": "Adaptive arm minus holdout arm, with a 95 % interval that is valid at all times; "
                "null: too few sessions.",
                "type": ["object", "null"],
                "required": [*_COMPARISON],
                "properties": _COMPARISON,
            },
            "excluded_sessions": {
                "type": "integer",
                "description": "Number of sessions that are not compared: the probability of their arm is unknown, "
                "or there was no holdout arm.",
            },
            "min_sessions": {
                "type": "integer",
                "description": "Number of sessions of each arm from which on the arms are compared.",
            },
            "history": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/Arms"},
                "description": "Returns in intervals with equal numbers of finished sessions, in order.",
            },
            "types": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name", "weight", "text"],
                    "properties": {
                        "name": {"type": "string"},
                        "weight": {"type": "number"},
                        "text": {"type": "string"},
                    },
                },
            },
            "active_version": {"type": "integer"},
            "pinned": {"type": "boolean"},
            "versions": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": [*_VERSION_SUMMARY, "returns"],
                    "properties": {**_VERSION_SUMMARY, "returns": {"$ref": "#/components/schemas/Arms"}},
                },
            },
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
    "Error": {
        "type": "object",
        "required": ["error", "message"],
        "properties": {
            "error": {"type": "string", "description": "Machine-readable code."},
            "message": {"type": "string", "description": "Explanation for people."},
        },
    },
}

_ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}

_USER = {**_ID, "name": "user", "description": "Percent-encoded: / is %2F."}
_VERSION_NUMBER = {"name": "version", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 1}}


_LINKS = {
    name: {"operationId": name, "parameters": {"id": "$response.body#/session"}}
    for name in ("addStep", "getSession", "deleteSession")
}
"""Operations that accept the session id of an answer."""


def make_openapi(rewards: Sequence[float] = (), *, closed: bool = False) -> dict[str, Any]:
    """Return the OpenAPI 3.1 description.

    ``rewards`` lists the reward values that the policy knows; ``closed`` means that requests need a token.
    """
    document = _make_paths()
    if closed:
        document["security"] = [{"token": []}]
    if rewards:
        # The schemas are module constants, so only copies of the changed parts are edited.
        schemas = dict(document["components"]["schemas"])
        feedback = schemas["StepFeedback"]
        reward = {**feedback["properties"]["reward"], "enum": list(rewards)}
        schemas["StepFeedback"] = {**feedback, "properties": {**feedback["properties"], "reward": reward}}
        document["components"]["schemas"] = schemas
    # Generated clients need unique and stable operation ids.
    for path, method, name in _OPERATION_IDS:
        document["paths"][path][method]["operationId"] = name
    for path in ("/v1/sessions", "/v1/sessions/{id}/steps"):
        document["paths"][path]["post"]["responses"]["200"]["links"] = _LINKS
    return document


_OPERATION_IDS = (
    ("/v1/sessions", "post", "startSession"),
    ("/v1/sessions/{id}", "get", "getSession"),
    ("/v1/sessions/{id}", "delete", "deleteSession"),
    ("/v1/sessions/{id}/steps", "post", "addStep"),
    ("/v1/users/{user}", "delete", "deleteUser"),
    ("/v1/versions", "get", "listVersions"),
    ("/v1/versions/{version}", "post", "activateVersion"),
    ("/v1/policy", "get", "getPolicy"),
    ("/v1/dashboard", "get", "getDashboard"),
)
"""Operation ids, which generated clients use as function names."""


def _make_paths() -> dict[str, Any]:
    """Build the paths and components without links and ids."""
    session = {
        "get": _make_operation("Get a session with its history and belief", "Session", 200, 404),
        "delete": _make_operation("Delete a session", None, 204, 404),
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "rewardmix",
            "version": __version__,
            "description": "Decide the actions of sessions by a policy and store all decisions and rewards.",
        },
        "paths": {
            "/v1/sessions": {
                "post": _make_operation("Start a session", "Decision", 200, *_BODY_ERRORS, 409, body="StartSession")
            },
            "/v1/sessions/{id}": {"parameters": [_ID], **session},
            "/v1/sessions/{id}/steps": {
                "parameters": [_ID],
                "post": _make_operation(
                    "Store a reward and get the next action",
                    "Decision",
                    200,
                    *_BODY_ERRORS,
                    404,
                    409,
                    body="StepFeedback",
                ),
            },
            "/v1/users/{user}": {
                "parameters": [_USER],
                "delete": _make_operation("Delete all sessions of a user", "Deleted", 200, 404),
            },
            "/v1/versions": {"get": _make_operation("List the versions of the policy", "Versions", 200)},
            "/v1/versions/{version}": {
                "parameters": [_VERSION_NUMBER],
                "post": _make_operation(
                    "Activate a version for new sessions", "Version", 200, *_BODY_ERRORS, 404, body="ActivateVersion"
                ),
            },
            "/v1/policy": {"get": _make_operation("Get the active policy for the JavaScript player", "", 200)},
            "/v1/health": {"get": {**_make_operation("Check that the process runs", "", 200), "security": []}},
            "/v1/ready": {"get": {**_make_operation("Check that the store answers", "", 200), "security": []}},
            "/v1/metrics": {
                "get": _make_operation("Get metrics in the Prometheus text format", None, 200, media_type="text/plain")
            },
            "/v1/dashboard": {"get": _make_operation("Get the data of the dashboard", "Dashboard", 200)},
            "/v1/openapi.json": {"get": _make_operation("Get this description", "", 200)},
            "/v1/docs": {
                "get": {
                    **_make_operation("Get this description as a page", None, 200, media_type="text/html"),
                    "security": [],
                }
            },
            "/": {
                "get": {**_make_operation("Get the dashboard page", None, 200, media_type="text/html"), "security": []}
            },
        },
        "components": {"schemas": _SCHEMAS, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}, {}],
    }


_BODY_ERRORS = (400, 408, 413, 415, 422)
"""Error statuses of requests with a body."""

_COMMON_ERRORS = (401, 403, 429, 503)
"""Error statuses of all requests."""

_ERROR_DESCRIPTIONS = {
    400: "The body is not JSON, or has two lengths",
    401: "The token is missing or wrong",
    403: "The service has no token and answers requests to localhost only",
    404: "No such session or version",
    408: "The body did not arrive in time",
    409: "Not the next step, or sent before with other values, or the key of another session; nothing has changed",
    413: "The body is too large",
    415: "The content type is not application/json",
    422: "A field is invalid or occurs twice; the message names it",
    429: "Too many requests from this client; retry after a second",
    503: "The store is not available, or too many sessions are open; retry later",
}


def _make_operation(
    summary: str,
    schema: str | None,
    success: int,
    *errors: int,
    body: str | None = None,
    media_type: str = "application/json",
) -> dict[str, Any]:
    """Build one operation; ``schema`` is a schema name, "" for any JSON, None for no JSON."""
    response: dict[str, Any] = {"description": "Success"}
    if schema is not None:
        response["content"] = {media_type: {"schema": _schema_ref(schema) if schema else {"type": "object"}}}
    elif media_type != "application/json":
        response["content"] = {media_type: {"schema": {"type": "string"}}}
    content = {"application/json": {"schema": _schema_ref("Error")}}
    # Statuses are sorted, so the description does not depend on the order of arguments.
    statuses = sorted((*errors, *_COMMON_ERRORS))
    error_responses = {
        str(status): {"description": _ERROR_DESCRIPTIONS[status], "content": content} for status in statuses
    }
    operation = {"summary": summary, "responses": {str(success): response, **error_responses}}
    if body is None:
        return operation
    return {
        **operation,
        "requestBody": {"required": True, "content": {"application/json": {"schema": _schema_ref(body)}}},
    }


def _schema_ref(name: str) -> dict[str, str]:
    """Build the reference to a schema."""
    return {"$ref": f"#/components/schemas/{name}"}
