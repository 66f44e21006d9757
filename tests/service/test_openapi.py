"""Requests made from the served description, good and spoilt: no error of the service, and answers as it says."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helpers.service_process import in_thread, need_server

need_server()

EXAMPLES = 300
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def made(schema, document):
    """Values that a schema allows."""
    if "$ref" in schema:
        return made(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document)
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "oneOf" in schema:
        return st.one_of([made(item, document) for item in schema["oneOf"]])
    if schema["type"] == "object":
        fields = {name: made(item, document) for name, item in schema["properties"].items()}
        required = schema.get("required", [])
        return st.fixed_dictionaries(
            {name: fields[name] for name in required},
            optional={name: item for name, item in fields.items() if name not in required},
        )
    return {
        "string": st.text(min_size=schema.get("minLength", 0), max_size=schema.get("maxLength", 50)),
        "integer": st.integers(schema.get("minimum", -(2**40)), schema.get("maximum", 2**40)),
        "number": st.sampled_from([0, 1, 0.5]) | st.floats(allow_nan=False, allow_infinity=False),
        "boolean": st.booleans(),
        "null": st.none(),
    }[schema["type"]]


def fits(value, schema, document):
    """Whether an answer is what its schema says; the part of JSON Schema that the description uses."""
    if "$ref" in schema:
        return fits(value, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document)
    if "oneOf" in schema:
        return sum(fits(value, item, document) for item in schema["oneOf"]) == 1
    if "enum" in schema:
        return value in schema["enum"]
    if "type" not in schema:
        return True
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(is_a(value, kind) for kind in kinds):
        return False
    if isinstance(value, dict):
        has_required = all(name in value for name in schema.get("required", []))
        properties = schema.get("properties", {})
        return has_required and all(
            fits(value[name], properties[name], document) for name in value if name in properties
        )
    return not isinstance(value, list) or all(fits(item, schema.get("items", {}), document) for item in value)


def is_a(value, kind):
    if kind in ("integer", "number"):
        return isinstance(value, int if kind == "integer" else int | float) and not isinstance(value, bool)
    return isinstance(value, TYPES[kind])


@pytest.fixture(scope="module")
def running(tmp_path_factory, plan):
    from rewardmix.service import ServeSettings, SessionService, Store

    store = Store(tmp_path_factory.mktemp("fuzz") / "sessions.sqlite")
    with in_thread(SessionService(store, plan, ServeSettings(0.1, 0.2))) as client:
        yield client
    store.close()


def operations(client):
    document = client.ask("GET", "/v1/openapi.json")[1]
    result = []
    for path, ways in document["paths"].items():
        for method, does in ways.items():
            if method != "parameters":
                result.append((path, method.upper(), does))
    return document, result


def test_every_operation_answers_as_it_is_described(running):
    document, result = operations(running)
    assert len(result) >= 14
    statuses = {}

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(st.data())
    def one(data):
        path, method, does = data.draw(st.sampled_from(result))
        running.connection.close()
        session = running.ask("POST", "/v1/sessions", {"state": "home"})[1]["session"]
        id = data.draw(st.sampled_from([session, "nothing", "*", "..%2F..", "%00", "%E2%82%AC", "x" * 300]))
        place = path.replace("{id}", id).replace("{version}", data.draw(st.sampled_from(["1", "0", "99", "x", "%31"])))
        body = None
        if "requestBody" in does:
            schema = does["requestBody"]["content"]["application/json"]["schema"]
            good = made(schema, document)
            body = data.draw(good | good | st.tuples(good, st.text(max_size=6), JUNK).map(spoilt) | JUNK)
        running.connection.close()  # one that stays may have been closed while this test thought
        status, answer = running.ask(method, place, None if body is None else json.dumps(body).encode())
        assert status < 500, (method, place, body, answer)
        assert str(status) in does["responses"], (method, place, body, status)
        for kind, content in does["responses"][str(status)].get("content", {}).items():
            assert kind != "application/json" or fits(answer, content["schema"], document), (method, place, answer)
        statuses[method, path] = statuses.get((method, path), 0) + 1

    one()
    assert set(statuses) == {(method, path) for path, method, _ in result}


def test_the_description_says_what_this_service_takes(running, make_service):
    response = running.ask("GET", "/v1/openapi.json")[1]
    assert response["components"]["schemas"]["StepFeedback"]["properties"]["reward"]["enum"] == [0.0, 1.0]
    assert response["security"] == [{"token": []}, {}]
    names = [
        does["operationId"] for ways in response["paths"].values() for does in ways.values() if "operationId" in does
    ]
    links = [
        link["operationId"] for link in response["paths"]["/v1/sessions"]["post"]["responses"]["200"]["links"].values()
    ]
    assert len(names) == len(set(names))
    assert set(links) <= set(names)
    with in_thread(make_service(), "a token that is long enough") as client:
        assert client.ask("GET", "/v1/openapi.json")[1]["security"] == [{"token": []}]


def spoilt(case):
    good, field, value = case
    return {**good, field: value} if not good or len(field) % 2 else {**good, next(iter(good)): value}


def test_a_schema_that_is_not_kept_is_noticed(running):
    document, _ = operations(running)
    decision = {"$ref": "#/components/schemas/Decision"}
    good = running.ask("POST", "/v1/sessions", {"state": "home"})[1]
    assert fits(good, decision, document)
    for field in good:
        assert not fits({**good, field: [1]}, decision, document)
        assert not fits({name: good[name] for name in good if name != field}, decision, document)
