"""``rewardmix serve``: what it refuses, and what survives a kill under load."""

import http.client
import json
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import rewardmix as rm
from rewardmix.service.exporting import export_log
from service.running_service import Client, as_process, free_port, need_server

need_server()

KILLS = 3
VISITORS = 6


@pytest.fixture(scope="module")
def saved(plan, tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "plan.safetensors"
    rm.save(path, plan)
    return path


@pytest.fixture(scope="module")
def plan():
    model = rm.problems.make("random", states=3, actions=3, horizon=4, seed=3)
    return rm.plan(model)


class Visitor(threading.Thread):
    """Visits one session after the other, sends again what was not answered, and remembers what was acknowledged."""

    def __init__(self, port, name, stop):
        super().__init__(daemon=True)
        self.client, self.label, self.stopped = Client(port), name, stop
        self.answered: dict[str, list[dict]] = {}
        self.paid: dict[tuple[str, int], float] = {}
        self.again = 0
        self.failure = None

    def run(self):
        try:
            number = 0
            while not self.stopped.is_set():
                self.visit(number)
                number += 1
        except Exception as error:
            self.failure = error
        self.client.close()

    def visit(self, number):
        answer = self.sent("/v1/sessions", {"state": number % 3, "key": f"{self.label}.{number}"})
        id = answer["session"]
        self.answered[id] = [answer]
        for step in range(6):  # two beyond the horizon
            reward = float((number + step) % 2)
            state = None if step == 5 else (number + step) % 3
            answer = self.sent(f"/v1/sessions/{id}/steps", {"step": step, "reward": reward, "state": state})
            self.paid[id, step] = reward
            self.answered[id].append(answer)

    def sent(self, path, body):
        while True:
            try:
                status, answer = self.client.ask("POST", path, body)
            except (OSError, http.client.HTTPException):
                self.again += 1
                self.stopped.wait(0.05)
                continue
            assert status == 200, (status, answer)
            return answer


def test_nothing_that_was_acknowledged_is_lost_or_counted_twice_by_kills_under_load(saved, tmp_path):
    store, port, stop = tmp_path / "sessions.sqlite", free_port(), threading.Event()
    visitors = [Visitor(port, f"visitor {i}", stop) for i in range(VISITORS)]
    for kill in range(KILLS + 1):
        with as_process(saved, store, port, "--explore", "0.3", "--holdout", "0.3"):
            if kill == 0:
                for visitor in visitors:
                    visitor.start()
            wanted = [len(visitor.paid) + 30 for visitor in visitors]
            while any(len(v.paid) < w and v.failure is None for v, w in zip(visitors, wanted, strict=True)):
                stop.wait(0.02)
            if kill == KILLS:
                stop.set()
                for visitor in visitors:
                    visitor.join()
    assert [visitor.failure for visitor in visitors] == [None] * VISITORS
    assert sum(visitor.again for visitor in visitors) >= KILLS
    rows = sqlite3.connect(store)
    assert rows.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    stored = rows.execute(
        "SELECT id, step, action, propensity, reward FROM sessions JOIN steps USING (number)"
    ).fetchall()
    assert rows.execute("SELECT value FROM totals WHERE name = 'open'").fetchone() == (0,)
    rows.close()
    acknowledged = {
        (id, one["step"]): (one["action"], one["propensity"])
        for visitor in visitors
        for id, answers in visitor.answered.items()
        for one in answers
        if one["action"] is not None
    }
    assert {(id, step): (action, propensity) for id, step, action, propensity, _ in stored} == acknowledged
    paid = {key: reward for visitor in visitors for key, reward in visitor.paid.items()}
    assert {(id, step): reward for id, step, *_, reward in stored} == paid
    assert export_log(store, tmp_path / "log.parquet").rows == len(paid)


def refused(*arguments):
    """The one line that a command which is refused says."""
    command = [sys.executable, "-m", "rewardmix", "serve", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_a_public_address_needs_a_token(saved, tmp_path):
    store = tmp_path / "store.sqlite"
    assert "a loopback address, or a token" in refused(saved, "--store", store, "--host", "0.0.0.0")
    (tmp_path / "token").write_text("short\n")
    assert "at least 16" in refused(saved, "--store", store, "--token-file", tmp_path / "token")
    assert not store.exists()


def test_what_cannot_be_served_is_refused(saved, tmp_path):
    store = tmp_path / "store.sqlite"
    assert "RUN_OR_POLICY: found no file" in refused(tmp_path / "nothing", "--store", store)
    rm.save(tmp_path / "model.safetensors", rm.load(saved).model)
    assert "a RewardMixingMDP" in refused(tmp_path / "model.safetensors", "--store", store)
    assert "explore" in refused(saved, "--store", store, "--explore", "2")
    assert "--default-action" in refused(saved, "--store", store, "--default-action", "dance")
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
    found = [json.loads(line) for line in lines]
    assert [one["status"] for one in found if one["route"] == "/v1/sessions"] == [200, 401]
    assert "forged" not in text
    assert token not in text
