"""What the page on the service shows beside its Python blocks: the unit, the container, the page's script, commands."""

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from contextlib import contextmanager

import pytest

import rewardmix as rm
from document_blocks import FENCE
from service.running_service import ROOT, Client, need_server

need_server()

PAGE = (ROOT / "docs/howto/put-it-to-work.md").read_text("utf-8")
BLOCKS = dict(FENCE.findall(PAGE))
COMMANDS = re.findall(r"^    (rewardmix .*?)(?:  +#.*)?$", PAGE, re.MULTILINE)
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]


@contextmanager
def started(command, **environment):
    """A command of the page once it serves, as Python runs it from here; it ends in order when it is told to."""
    assert command[0].endswith("rewardmix")
    place = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment}
    whole = [sys.executable, "-m", *command, "--port", "0"]
    whole[2] = "rewardmix"
    process = subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=place)
    try:
        line = process.stdout.readline()
        assert line.startswith("serving at"), command
        yield int(line.split()[2].rstrip(",").rpartition(":")[2])
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=300) in (0, -signal.SIGTERM)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The folder of a run, as far as ``serve`` reads it."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    folder.mkdir()
    rm.save(folder / "policy.safetensors", rm.plan(rm.problems.make("shop"), gap=0.1))
    return folder


def plays(client):
    """One step of a session."""
    status, decision = client.ask("POST", "/v1/sessions", {"state": "home"})
    told = {"step": 0, "reward": 1, "state": None}
    return status, client.ask("POST", f"/v1/sessions/{decision['session']}/steps", told)[0]


def test_the_unit_is_one_and_its_command_serves(first, tmp_path):
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read_string(BLOCKS["ini"])
    service = dict(unit["Service"])
    kept = tmp_path / service["StateDirectory"]
    kept.mkdir()
    for text in ("ExecStart", "Environment"):
        assert f"/var/lib/{service['StateDirectory']}/" in service[text]  # the only place that it may write to
        service[text] = service[text].replace(f"/var/lib/{service['StateDirectory']}", str(kept))
    command = shlex.split(service["ExecStart"].replace("/opt/shop/runs/first", str(first)))
    with started(command, **dict([service["Environment"].split("=", 1)])) as port:
        client = Client(port)
        assert plays(client) == (200, 200)
        assert client.ask("GET", "/v1/versions")[1]["learning"]["every"] == 500
        client.close()
    assert (kept / "sessions.sqlite").is_file()
    if shutil.which("systemd-analyze"):
        path = tmp_path / "shop.service"
        path.write_text(BLOCKS["ini"].replace("/opt/shop/bin/rewardmix", sys.executable))
        done = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True, text=True, timeout=300)
        assert (done.returncode, "shop.service" in done.stderr) == (0, False), done.stderr


def test_the_container_file_is_one_and_its_command_serves(first, tmp_path):
    lines = [line.split(maxsplit=1) for line in BLOCKS["dockerfile"].splitlines()]
    told = dict(lines)
    assert [name for name, _ in lines] == ["FROM", "RUN", "COPY", "VOLUME", "ENV", "CMD"]
    least = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["requires-python"]
    version = re.fullmatch(r"python:3\.(\d+)-slim", told["FROM"])
    assert int(version[1]) >= int(least.rpartition(".")[2])
    (extras,) = re.findall(r"rewardmix\[([\w,]+)\]", told["RUN"])
    assert set(extras.split(",")) <= EXTRAS.keys()
    source, place = told["COPY"].split()
    assert source == "runs/first"
    token = tmp_path / "token"
    token.write_text(subprocess.run(token_command(), capture_output=True, text=True, check=True).stdout)
    command = [
        text.replace(place, str(first)).replace(told["VOLUME"], str(tmp_path)).replace("/run/secrets/token", str(token))
        for text in json.loads(told["CMD"])
    ]
    command[command.index("0.0.0.0")] = "127.0.0.1"  # what is tested here nobody else needs to reach
    name, _, value = told["ENV"].partition("=")
    with started(command, **{name: value.replace(told["VOLUME"], str(tmp_path))}) as port:
        for given, status in ((token.read_text().strip(), 200), (None, 401)):
            client = Client(port, given)
            assert client.ask("GET", "/v1/policy")[0] == status
            client.close()


def token_command():
    """How the page makes a token."""
    (line,) = re.findall(r"^    (python -c .*) > token$", PAGE, re.MULTILINE)
    return [sys.executable, *shlex.split(line)[1:]]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_that_are_shown_are_understood(line, monkeypatch):
    import typer

    from rewardmix.cli.app import app

    name, *arguments = shlex.split(line)[1:]
    exported = dict(re.findall(r"^    export (\w+)=(.*)$", PAGE, re.MULTILINE))
    for variable, value in exported.items():
        monkeypatch.setenv(variable, value)
    command = typer.main.get_command(app).commands[name]
    parameters = command.make_context(name, list(arguments)).params
    if "--store" not in arguments and name == "serve":
        assert parameters["store"] == exported["REWARDMIX_STORE"]


def test_the_script_for_pages_runs_in_one(browser, first, tmp_path):
    command = ["rewardmix", "serve", str(first), "--store", str(tmp_path / "sessions.sqlite")]
    with started(command) as port:
        tab = browser.new_page()
        tab.goto(f"http://127.0.0.1:{port}/v1/docs")
        decision = tab.evaluate(f"async () => {{ {BLOCKS['javascript']}\n return decision; }}")
        tab.close()
        client = Client(port)
        shown = client.ask("GET", f"/v1/sessions/{decision['session']}")[1]
        client.close()
    assert (decision["step"], decision["version"]) == (1, 1)
    assert [(one["state"], one["reward"]) for one in shown["history"]] == [("home", 1.0), ("reading", None)]


def test_every_kind_of_block_is_tried():
    assert set(BLOCKS) == {"bash", "python", "text", "javascript", "ini", "dockerfile"}
    assert len(COMMANDS) >= 5
