"""How a service ends: whatever asks it to, it closes its store and leaves no temporary files."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest

import rewardmix as rm
from helpers.service_process import Client, as_process, free_port, hear_signals, need_server, with_source
from rewardmix.service import RefitSettings, ServeSettings, SessionService
from rewardmix.service.background_refit import BackgroundRefitter
from rewardmix.service.ending import STOP_SIGNALS, handle_stop_signals

need_server()

SIGNALS = [number for number in STOP_SIGNALS if number.name in ("SIGTERM", "SIGHUP")]


@pytest.fixture(scope="module")
def saved(plan, tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "plan.safetensors"
    rm.save(path, plan)
    return path


@pytest.mark.skipif(os.name != "posix", reason="elsewhere a process that is told to end is not asked")
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_an_ordinary_end(saved, tmp_path, number):
    (tmp_path / "store").mkdir()
    store, port = tmp_path / "store" / "sessions.sqlite", free_port()
    with as_process(saved, store, port, "--refit", log=tmp_path / "log") as process:
        client = Client(port)
        session = client.ask("POST", "/v1/sessions", {"state": "home"})[1]["session"]
        process.send_signal(number)
        assert process.wait(300) == 0
        client.close()
    assert [path.name for path in store.parent.iterdir()] == [store.name]
    assert session.encode() in store.read_bytes()
    assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.mark.skipif(os.name != "posix", reason="elsewhere a process that is told to end is not asked")
@pytest.mark.parametrize("number", SIGNALS)
def test_the_demo_leaves_no_temporary_files(tmp_path, number):
    (tmp_path / "temporary").mkdir()
    command = [sys.executable, "-m", "rewardmix", "serve", "--demo", "--port", "0"]
    place = with_source({"TMPDIR": str(tmp_path / "temporary")})
    with open(tmp_path / "log", "w") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=place, preexec_fn=hear_signals
        )
    try:
        assert process.stdout.readline().startswith("serving at")
        assert list((tmp_path / "temporary").iterdir())
        process.send_signal(number)
        assert process.wait(300) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert not list((tmp_path / "temporary").iterdir())
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_before_there_is_a_server_the_program_leaves_and_once_only():
    before = [signal.getsignal(number) for number in STOP_SIGNALS]
    with handle_stop_signals() as ending:
        with handle_stop_signals() as inner:
            assert inner is ending
        with pytest.raises(SystemExit) as caught:
            signal.raise_signal(signal.SIGTERM)
        assert caught.value.code == 0
        for number in STOP_SIGNALS:
            signal.raise_signal(number)  # what is closed meanwhile goes on being closed
    assert [signal.getsignal(number) for number in STOP_SIGNALS] == before


def test_a_server_is_told_to_stop():
    class Server:
        should_exit = False

    with handle_stop_signals() as ending:
        ending.server = Server()
        signal.raise_signal(signal.SIGTERM)
        assert ending.server.should_exit


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="there is no such signal here")
def test_who_is_to_go_on_without_a_terminal_goes_on():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with handle_stop_signals():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_thread_leaves_signals_alone():
    def work():
        with handle_stop_signals():
            pass

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is before


SLOW_REFIT = """
import json, pathlib, sys, tempfile, time
import rewardmix.service.refit as refitting

def refit(store, until):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "sessions.parquet")
        path.write_text("sessions")
        time.sleep(600)

refitting.run_refit = refit
refitting.run_refit_subprocess()
"""


def test_a_refit_that_is_stopped_leaves_no_sessions_behind(store, plan, tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("rewardmix.service.background_refit.REFIT_COMMAND", SLOW_REFIT)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr("rewardmix.service.background_refit.next_refit", lambda records, settings: 0)
    learner = BackgroundRefitter(SessionService(store, plan, ServeSettings(0.0, 0.0)), store.address, RefitSettings(1))
    while not list((tmp_path / "temporary").rglob("sessions.parquet")):
        time.sleep(0.02)
    learner.close()
    assert not list((tmp_path / "temporary").iterdir())


def test_a_refit_that_nobody_waits_for_leaves_no_sessions_behind(tmp_path):
    folder = tmp_path / "refit"
    folder.mkdir()
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", SLOW_REFIT], stdin=pipe, text=True, env=with_source({})) as process:
        process.stdin.write(json.dumps({"store": "none", "until": 1, "folder": str(folder)}) + "\n")
        process.stdin.flush()
        while not list(folder.rglob("sessions.parquet")):
            assert process.poll() is None
            time.sleep(0.02)
        process.stdin.close()
        assert process.wait() == 1
    assert not folder.exists()
