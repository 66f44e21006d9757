"""``rewardmix serve``: what it refuses, and what it writes into its log."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import rewardmix as rm
from helpers.service_process import Client, as_process, free_port, need_server

need_server()


@pytest.fixture(scope="module")
def saved(plan, tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "plan.safetensors"
    rm.save(path, plan)
    return path


@pytest.fixture(scope="module")
def plan():
    model = rm.problems.make_model("random", states=3, actions=3, horizon=4, seed=3)
    return rm.plan(model)


def refused(*arguments):
    """The one line that a command which is refused says."""
    command = [sys.executable, "-m", "rewardmix", "serve", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)  # it may be let in
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_a_public_address_needs_a_token(saved, tmp_path):
    store = tmp_path / "store.sqlite"
    assert "an address that others can reach needs a token" in refused(saved, "--store", store, "--host", "0.0.0.0")
    (tmp_path / "token").write_text("short\n")
    assert "at least 16" in refused(saved, "--store", store, "--token-file", tmp_path / "token")
    (tmp_path / "token").write_text("\u00e9" * 20)
    assert "all printable ASCII" in refused(saved, "--store", store, "--token-file", tmp_path / "token")
    assert not store.exists()


def test_what_cannot_be_served_is_refused(saved, tmp_path):
    store = tmp_path / "store.sqlite"
    assert "RUN_OR_POLICY: got no file" in refused(tmp_path / "nothing", "--store", store)
    rm.save(tmp_path / "model.safetensors", rm.load(saved).model)
    assert "a RewardMixingMDP" in refused(tmp_path / "model.safetensors", "--store", store)
    assert "explore" in refused(saved, "--store", store, "--explore-prob", "2")
    assert "--default-action" in refused(saved, "--store", store, "--default-action", "dance")
    assert "max_session_return: got 0.0" in refused(saved, "--store", store, "--max-session-return", "0")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        error_text = refused(saved, "--store", store, "--port", port)
    assert f"port: got 127.0.0.1:{port}, which cannot be opened (Address already in use)" in error_text
    assert not store.exists()
    Path(store).write_text("something else")
    assert "store" in refused(saved, "--store", store)


def test_with_a_token_and_json_in_the_log(saved, tmp_path):
    token = "0123456789abcdef-token"
    (tmp_path / "token").write_text(token + "\n")
    store, port = tmp_path / "sessions.sqlite", free_port()
    with as_process(saved, store, port, "--token-file", str(tmp_path / "token")) as process:
        client = Client(port, token)
        assert client.ask("POST", "/v1/sessions", {"state": '"}\n{"event": "forged'})[0] == 200
        client.headers = {}
        assert client.ask("POST", "/v1/sessions", {"state": 0})[0] == 401
        client.close()
        process.terminate()
        process.wait()
    text = (tmp_path / "sessions.log").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("serving at")]
    result = [json.loads(line) for line in lines]
    assert [item["status"] for item in result if item["route"] == "/v1/sessions"] == [200, 401]
    assert "forged" not in text
    assert token not in text
