"""The interface over HTTP: what it answers, what it refuses, and what it never tells."""

import json
import logging
import random
import re
import socket
from urllib.parse import quote

import pytest

from helpers.service_process import in_thread, need_server
from rewardmix.service.store import StoreUnavailable

need_server()

TOKEN = "a token that is long enough"


@pytest.fixture
def client(make_service):
    with in_thread(make_service(explore_prob=0.1, holdout_share=0.2)) as result:
        yield result


def test_a_session_from_beginning_to_end(client):
    status, first = client.ask("POST", "/v1/sessions", {"state": "home"})
    assert (status, first["step"]) == (200, 0)
    place = f"/v1/sessions/{first['session']}"
    step = {"step": 0, "reward": 1, "state": "list"}
    status, second = client.ask("POST", f"{place}/steps", step)
    assert (status, second["step"], second["version"]) == (200, 1, 1)
    assert client.ask("POST", f"{place}/steps", step) == (200, second)
    status, refusal = client.ask("POST", f"{place}/steps", {**step, "step": 7})
    assert (status, refusal["error"]) == (409, "step_out_of_order")
    status, shown = client.ask("GET", place)
    assert [item["reward"] for item in shown["history"]] == [1.0, None]
    assert sum(shown["belief"]) == pytest.approx(1.0)
    assert client.ask("DELETE", place) == (204, "")
    assert client.ask("DELETE", place) == (204, "")
    assert client.ask("GET", place)[0] == 404


def test_connections_send_small_answers_at_once():
    from rewardmix.service.server import open_socket

    with open_socket("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP  # what asyncio asks before it sets TCP_NODELAY


def test_an_answer_leaves_in_one_piece_and_before_its_connection_closes(client, monkeypatch):
    import asyncio.selector_events as below

    written, write = [], below._SelectorSocketTransport.write
    monkeypatch.setattr(
        below._SelectorSocketTransport, "write", lambda self, data: (written.append(bytes(data)), write(self, data))[1]
    )
    assert client.ask("GET", "/v1/health", Connection="close") == (200, {"status": "ok"})
    assert [piece.split(b" ")[1] for piece in written if piece.startswith(b"HTTP")] == [b"200"]
    assert [piece.endswith(b'{"status": "ok"}') for piece in written if b"HTTP" in piece or b"status" in piece] == [
        True
    ]


def test_health_readiness_policy_and_description(client, plan):
    assert client.ask("GET", "/v1/health") == (200, {"status": "ok"})
    assert client.ask("GET", "/v1/ready") == (200, {"status": "ready", "version": 1})
    status, policy = client.ask("GET", "/v1/policy")
    assert (status, policy["format"], policy["action_names"]) == (200, "rewardmix-policy", ["a", "b", "c"])
    status, about = client.ask("GET", "/v1/openapi.json")
    assert (status, about["openapi"]) == (200, "3.1.0")


def test_the_description_names_every_address_and_no_other(make_service):
    from rewardmix.service.api import make_application
    from rewardmix.service.openapi import make_openapi

    ways = make_application(make_service()).routes.values()
    routes = {(path, method) for way in ways for method, (path, _, _) in way.items() if method != "HEAD"}
    paths = make_openapi()["paths"]
    assert routes == {(path, m.upper()) for path, item in paths.items() for m in item if m != "parameters"}
    text = json.dumps(make_openapi())
    for name in re.findall(r"#/components/schemas/(\w+)", text):
        assert name in make_openapi()["components"]["schemas"]


@pytest.mark.parametrize(
    "user",
    ["https://shop/u/7", "ann/1", "/", "a//b", "//", "..", "../x", "%2F", "%", "?", "#", "a b", "é", "\x00", "x" * 200],
)
def test_every_visitor_who_is_taken_can_be_forgotten(client, user):
    path = f"/v1/users/{quote(user, safe='')}"
    session = client.ask("POST", "/v1/sessions", {"state": "home", "user": user})[1]["session"]
    assert client.ask("DELETE", path) == (200, {"deleted": 1})
    assert client.ask("GET", f"/v1/sessions/{session}")[0] == 404
    assert client.ask("DELETE", path) == (200, {"deleted": 0})


def test_an_encoded_slash_is_part_of_a_name_and_never_of_an_address(client):
    assert client.ask("GET", "/v1%2Fhealth")[0] == 404
    assert client.ask("GET", "/%761/health")[0] == 200


def heard(port, sent):
    """Everything that comes back on a connection until the other side closes it."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as raw:
        raw.sendall(sent)
        text = b""
        while piece := raw.recv(65536):
            text += piece
    return text


@pytest.mark.parametrize("order", [0, 1])
def test_a_body_with_a_length_and_in_chunks_is_the_last_of_its_connection(client, order):
    """What a proxy takes for the rest of the body must not be answered as a request of somebody else."""
    lengths = ["Content-Length: 4", "Transfer-Encoding: chunked"][:: 1 - 2 * order]
    head = ["POST /v1/sessions HTTP/1.1", "Host: localhost", "Content-Type: application/json", *lengths]
    second = "GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    sent = "\r\n".join(head) + '\r\n\r\nc\r\n{"state": 0}\r\n0\r\n\r\n' + second
    answer = heard(client.connection.port, sent.encode())
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1
    assert client.ask("GET", "/v1/ready")[0] == 200


def test_a_field_that_is_there_twice_is_refused(client):
    for body in (
        b'{"state": 0, "state": 1}',
        b'{"state": "home", "idempotency_key": "a", "idempotency_key": "a"}',
        b'{"state": {"a": 1, "a": 2}}',
    ):
        status, response = client.ask("POST", "/v1/sessions", body)
        assert (status, response["error"]) == (422, "invalid")
        assert "twice" in response["message"]


def test_metrics_count_what_happened(client):
    for state in ("home", "nowhere"):
        session = client.ask("POST", "/v1/sessions", {"state": state})[1]["session"]
        for _ in range(2):
            client.ask("POST", f"/v1/sessions/{session}/steps", {"step": 0, "reward": 1, "state": "list"})
    client.ask("POST", "/v1/sessions", b"{")
    status, text = client.ask("GET", "/v1/metrics")
    assert status == 200
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))

    def total(name):
        return sum(float(value) for key, value in values.items() if key.split("{")[0] == f"rewardmix_{name}")

    counted = {name: total(name) for name in ("sessions_total", "decisions_total", "rewards_total", "retries_total")}
    assert counted == {"sessions_total": 2, "decisions_total": 4, "rewards_total": 2, "retries_total": 2}
    assert total("unknown_states_total") == 1
    assert total("reward_sum") == 2
    assert values['rewardmix_errors_total{status="400"}'] == "1"
    assert values["rewardmix_open_sessions"] == "2"
    assert values['rewardmix_request_seconds_bucket{le="+Inf"}'] == values["rewardmix_request_seconds_count"] == "7"


@pytest.mark.parametrize("value", [None, "", "wrong", TOKEN[:-1], TOKEN + "x", "é" * 10])
def test_without_the_token_nothing_is_answered_but_health(make_service, value):
    with in_thread(make_service(), TOKEN) as client:
        headers = {} if value is None else {"Authorization": f"Bearer {value}".encode()}
        client.headers = {}
        for method, path in (("POST", "/v1/sessions"), ("GET", "/v1/sessions/x"), ("DELETE", "/v1/sessions/x"),
                             ("POST", "/v1/sessions/x/steps"), ("DELETE", "/v1/users/x"),
                             ("GET", "/v1/policy"), ("GET", "/v1/metrics"),
                             ("GET", "/v1/openapi.json")):  # fmt: skip
            status, refusal = client.ask(method, path, {"state": 0} if method == "POST" else None, **headers)
            assert (status, refusal["error"]) == (401, "unauthorized"), path
        assert client.ask("GET", "/v1/health")[0] == 200
        assert client.ask("GET", "/v1/policy", Authorization=f"Basic {TOKEN}")[0] == 401
        assert client.ask("GET", "/v1/policy", Authorization=f"Bearer {TOKEN}")[0] == 200


@pytest.mark.parametrize("host", ["example.org", "example.org:80", "127.0.0.1.example.org", "", "localhost.x:1"])
def test_without_a_token_other_hosts_are_refused(client, host):
    assert client.ask("GET", "/v1/policy", Host=host)[0] == 403
    for own in ("localhost", "localhost:1", "127.0.0.1:99", "[::1]", "[::1]:80"):
        assert client.ask("GET", "/v1/policy", Host=own)[0] == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"", 400), (b"{", 400), (b"[1]", 400), (b"\xff\xfe", 400), (b"[" * 9000, 400), (b"{}", 422), (b"x" * 20_000, 413),
     (b'{"state": "' + b"x" * 300 + b'"}', 422), (b'{"state": "\\ud800"}', 422), (b'{"state": 1e400}', 422)],
)  # fmt: skip
def test_bodies_that_are_wrong_or_too_large_are_refused_in_one_sentence(client, body, status):
    result, refusal = client.ask("POST", "/v1/sessions", body)
    assert result == status
    assert set(refusal) == {"error", "message"}
    assert "Traceback" not in refusal["message"]
    client.close()
    assert client.ask("POST", "/v1/sessions", {"state": "home"})[0] == 200


def test_a_body_in_endless_pieces_is_cut_off(client):
    with socket.create_connection(("127.0.0.1", client.connection.port), timeout=30) as raw:
        head = "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        raw.sendall((head + "Transfer-Encoding: chunked\r\n\r\n").encode())
        for _ in range(20):
            raw.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")
        assert b" 413 " in raw.recv(4096).split(b"\r\n")[0]


def test_a_slow_body_is_given_up(client, monkeypatch):
    monkeypatch.setattr("rewardmix.service.api.BODY_TIMEOUT_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", client.connection.port), timeout=30) as raw:
        head = "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        raw.sendall((head + "Content-Length: 100\r\n\r\n{").encode())
        assert b" 408 " in raw.recv(4096).split(b"\r\n")[0]
    assert client.ask("GET", "/v1/health")[0] == 200


def test_a_form_of_another_page_is_no_request(client):
    assert client.ask("POST", "/v1/sessions", {"state": "home"}, **{"Content-Type": "text/plain"})[0] == 415


def test_what_is_not_there_is_told_as_json(client):
    assert client.ask("GET", "/nothing")[0] == 404
    assert client.ask("PUT", "/v1/sessions")[1]["error"] == "method_not_allowed"
    for id in ("x", "*", "%2A", "x" * 500, "%00", "%ff", "..%2f..", "'%20OR%201=1--"):
        assert client.ask("GET", f"/v1/sessions/{id}")[0] == 404


def test_a_store_that_is_down_is_a_503_and_a_defect_tells_nothing(make_service, monkeypatch, caplog):
    service = make_service()
    ends = {"down": StoreUnavailable("disk I/O error at /secret"), "defect": RuntimeError("secret")}
    with in_thread(service) as client, caplog.at_level(logging.INFO, "rewardmix.service"):
        for word, (status, error) in {
            "store_unavailable": (503, ends["down"]),
            "internal_error": (500, ends["defect"]),
        }.items():
            monkeypatch.setattr(service, "start_session", lambda request, error=error: (_ for _ in ()).throw(error))
            result, refusal = client.ask("POST", "/v1/sessions", {"state": "home"})
            assert (result, refusal["error"]) == (status, word)
            assert "secret" not in json.dumps(refusal)
        monkeypatch.undo()
        assert client.ask("POST", "/v1/sessions", {"state": "home"})[0] == 200
    assert {record.getMessage() for record in caplog.records} >= {"store_unavailable", "internal_error", "request"}


def test_a_log_line_stays_one_line_of_json_whatever_is_in_it():
    from rewardmix.service.server import JsonFormatter

    record = logging.makeLogRecord({"msg": 'a "b"\n{"event": "forged"}', "levelname": "INFO", "extra_text": "x\ny"})
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert json.loads(line)["event"] == 'a "b"\n{"event": "forged"}'


def test_ten_thousand_guessed_ids_find_nothing(make_service):
    import secrets

    service = make_service()
    futures = [service.get_session(secrets.token_urlsafe(24)) for _ in range(10_000)]
    assert all(future.exception().status == 404 for future in futures)


ODD = [None, True, -1, 0, 1, 2, 5, 1.5, 1e300, 10**30, "", "home", "list", "item", "nowhere", "x" * 300, "\x00",
       "\ud800", [], {}, [[]], "<script>", "' OR 1=1 --", "\u202e", "é"]  # fmt: skip


def odd_request(rng, ids):
    """(method, path, body, headers): near what the description says, or far from it."""
    id = rng.choice([*ids, "x", "", "%2e%2e", "x" * 100, "%00", "%ff"])
    path = rng.choice(["/v1/sessions", f"/v1/sessions/{id}", f"/v1/sessions/{id}/steps", f"/v1/{id}", "/v1/metrics"])
    method = rng.choice(["POST", "POST", "POST", "GET", "DELETE", "PUT", "HEAD", "OPTIONS"])
    good = {"step": rng.randrange(3), "reward": 1, "state": "home"} if path.endswith("steps") else {"state": "home"}
    odd = {
        name: rng.choice(ODD) for name in ("state", "step", "reward", "idempotency_key", "more") if rng.random() < 0.2
    }
    body = json.dumps({**good, **odd}).encode()
    if rng.random() < 0.1:
        cut = rng.randrange(len(body))
        body = body[:cut] + bytes([rng.randrange(256)]) + body[cut + 1 :]
    headers = {"Content-Type": "text/html"} if rng.random() < 0.05 else {}
    return method, path, body, headers


def test_whatever_is_sent_is_no_error_of_the_service(client):
    rng, ids, statuses = random.Random(0), [], set()
    for _ in range(1000):
        if len(ids) < 5:
            ids.append(client.ask("POST", "/v1/sessions", {"state": "home"})[1]["session"])
        method, path, body, headers = odd_request(rng, ids)
        status, _ = client.ask(method, path, body, **headers)
        statuses.add(status)
        assert status < 500, (method, path, body)
        ids = [id for id in ids if method != "DELETE" or id not in path]
    assert statuses >= {200, 204, 400, 404, 405, 409, 415, 422}


def test_every_odd_value_in_every_field_is_no_error_of_the_service(client):
    session = client.ask("POST", "/v1/sessions", {"state": "home"})[1]["session"]
    bodies = {
        "/v1/sessions": {"state": "home", "idempotency_key": "x"},
        f"/v1/sessions/{session}/steps": {"step": 0, "reward": 1, "state": "home"},
    }
    for path, good in bodies.items():
        for field in good:
            for value in ODD:
                status, answer = client.ask("POST", path, {**good, field: value})
                assert status in (200, 409, 422), (path, field, value, answer)
