"""The list of attacks, with counts: what was tried, what came of it, and that nothing broke."""

import http.server
import json
import os
import shutil
import threading
from pathlib import Path

import pytest
from benchmarks.record import rows_of
from benchmarks.serve import attacks, crowding, damage, intrusion
from benchmarks.serve.hostile import FORGED, INJECTED, Target

from helpers.service_process import need_server

need_server()
pytest.importorskip("pyarrow", reason="needs rewardmix[logs]")

NAMES = [item.name for item in (*attacks.WITH_TOKEN, *attacks.WITHOUT_TOKEN)]
ASKED = ("no token", "wrong tokens", "compared whole", "too large", "not JSON", "injected text", "pages in a browser")
ASKED += ("lines of the log", "guessed session ids", "slow clients", "abandoned")


@pytest.fixture(scope="module")
def listed():
    """All attacks, fewer of what is only many; without Chromium those on pages are left out, but not in CI."""
    if not os.environ.get("CI") and not (shutil.which("chromium") or shutil.which("google-chrome")):
        print("NO BROWSER: names are not tried on pages")
        pytest.skip("needs Chromium")
    pytest.importorskip("playwright", reason="needs playwright")
    return {row["attack"]: row for row in attacks.rows(quick=True)}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_breaks(listed, name):
    row = listed[name]
    print(f"{name}: {row['tries']} tries: {attacks.format_counts(row['responses'])}")
    assert row["passed"], row


def test_the_committed_list_is_whole_and_nothing_broke():
    rows = {row["attack"]: row for row in rows_of("serve", "attacks")}
    assert list(rows) == NAMES
    assert all(row["passed"] for row in rows.values())
    assert rows["sessions that are started and abandoned"]["tries"] == 10_000
    assert rows["guessed session ids, random and near a real one"]["tries"] > 10_000
    assert all(any(word in name for name in rows) for word in ASKED)


class Careless(http.server.BaseHTTPRequestHandler):
    """Lets everybody in, believes what it is told, and says it again."""

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        response = json.dumps({"session": "x", "action": None, "history": [{"state": ""}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("X-Path", self.path)
        self.send_header("Content-Length", str(len(response + body)))
        self.end_headers()
        self.wfile.write(response + body)

    do_GET = do_POST = do_DELETE = do_OPTIONS = answer

    def log_message(self, *args):
        with open(self.server.log, "a") as file:
            file.write(f"{self.path} {self.requestline}\n")


@pytest.fixture
def careless(tmp_path):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Careless) as server:
        server.log = tmp_path / "log"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield Target(server.server_address[1], os.getpid(), Path(server.log), tmp_path / "store")
        server.shutdown()
        thread.join()


def test_a_careless_service_is_noticed(careless, monkeypatch):
    monkeypatch.setattr(intrusion, "start_session", lambda target: "x")
    monkeypatch.setattr(damage, "start_session", lambda target: "x")
    monkeypatch.setattr(intrusion, "INJECTED", INJECTED[:3])
    monkeypatch.setattr(crowding, "heard", lambda *args: (200, b'{"session": "xxxx"}'))
    result = {}
    for attack in (*attacks.WITH_TOKEN, *attacks.WITHOUT_TOKEN):
        tries = attack.tries
        if tries.__module__ == "benchmarks.serve.crowding" or tries.__name__ in ("too_large", "garbled", "pages"):
            continue
        if attack.name.startswith(("wrong tokens that", "rows of", "tables", "unknown states are")):
            continue
        if attack.name in ("injected text: first state", "injected text: next state"):
            continue  # it asks for a session that there is
        result[attack.name] = attacks.run_attack(attack, careless, True)["passed"]
    assert len(result) > 20
    assert {name for name, passed in result.items() if passed} <= {"injected text: host"}
    careless.log.write_text(json.dumps({"event": "request", "path": f"/{FORGED}"}) + "\n")
    assert list(intrusion.log_lines(careless, True)) == ["forged"]
