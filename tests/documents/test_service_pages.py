"""Check the systemd unit, the container file, the script and the commands on the pages about the service."""

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
from documents.document_blocks import FENCE
from helpers.service_process import ROOT, Client, need_server

need_server()

PAGES = ("howto/deploy.md", "howto/versions-and-refits.md", "user-guide/service.md")

PAGE = "\n".join((ROOT / "docs" / name).read_text("utf-8") for name in PAGES)
BLOCKS = dict(FENCE.findall(PAGE))
COMMANDS = re.findall(r"^    (rewardmix .*?)(?:  +#.*)?$", PAGE, re.MULTILINE)
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]


@contextmanager
def run_server(command, **environment):
    """Run a serve command of the page; yield its port, and check that it ends in order after SIGTERM."""
    assert command[0].endswith("rewardmix")
    variables = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment}
    arguments = [sys.executable, "-m", "rewardmix", *command[1:], "--port", "0"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=variables)
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
    """Return a run folder with the file that ``serve`` reads."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    folder.mkdir()
    rm.save(folder / "policy.safetensors", rm.plan(rm.problems.make_model("shop"), gap=0.1))
    return folder


def play_step(client):
    """Start a session and send one step; return both HTTP statuses."""
    status, decision = client.ask("POST", "/v1/sessions", {"state": "home"})
    feedback = {"step": 0, "reward": 1, "state": None}
    return status, client.ask("POST", f"/v1/sessions/{decision['session']}/steps", feedback)[0]


def test_the_systemd_unit_is_valid_and_its_command_serves(first, tmp_path):
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read_string(BLOCKS["ini"])
    service = dict(unit["Service"])
    state_folder = tmp_path / service["StateDirectory"]
    state_folder.mkdir()
    for text in ("ExecStart", "Environment"):
        assert f"/var/lib/{service['StateDirectory']}/" in service[text]  # the only folder that the unit may write to
        service[text] = service[text].replace(f"/var/lib/{service['StateDirectory']}", str(state_folder))
    command = shlex.split(service["ExecStart"].replace("/opt/shop/runs/first", str(first)))
    with run_server(command, **dict([service["Environment"].split("=", 1)])) as port:
        client = Client(port)
        assert play_step(client) == (200, 200)
        assert client.ask("GET", "/v1/versions")[1]["refit"]["interval"] == 500
        client.close()
    assert (state_folder / "sessions.sqlite").is_file()
    if shutil.which("systemd-analyze"):
        path = tmp_path / "shop.service"
        path.write_text(BLOCKS["ini"].replace("/opt/shop/bin/rewardmix", sys.executable))
        done = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True, text=True, timeout=300)
        assert (done.returncode, "shop.service" in done.stderr) == (0, False), done.stderr


def test_the_container_file_is_valid_and_its_command_serves(first, tmp_path):
    lines = [line.split(maxsplit=1) for line in BLOCKS["dockerfile"].splitlines()]
    instructions = dict(lines)
    assert [name for name, _ in lines] == ["FROM", "RUN", "COPY", "VOLUME", "ENV", "CMD"]
    min_python = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["requires-python"]
    version = re.fullmatch(r"python:3\.(\d+)-slim", instructions["FROM"])
    assert int(version[1]) >= int(min_python.rpartition(".")[2])
    (extras,) = re.findall(r"rewardmix\[([\w,]+)\]", instructions["RUN"])
    assert set(extras.split(",")) <= EXTRAS.keys()
    source, place = instructions["COPY"].split()
    assert source == "runs/first"
    token = tmp_path / "token"
    token.write_text(subprocess.run(token_command(), capture_output=True, text=True, check=True).stdout)
    command = [
        text.replace(place, str(first))
        .replace(instructions["VOLUME"], str(tmp_path))
        .replace("/run/secrets/token", str(token))
        for text in json.loads(instructions["CMD"])
    ]
    command[command.index("0.0.0.0")] = "127.0.0.1"  # the test must not listen on other interfaces
    name, _, value = instructions["ENV"].partition("=")
    with run_server(command, **{name: value.replace(instructions["VOLUME"], str(tmp_path))}) as port:
        for token_text, status in ((token.read_text().strip(), 200), (None, 401)):
            client = Client(port, token_text)
            assert client.ask("GET", "/v1/policy")[0] == status
            client.close()


def token_command():
    """Return the command of the page that makes a token."""
    (line,) = re.findall(r"^    (python -c .*) > token$", PAGE, re.MULTILINE)
    return [sys.executable, *shlex.split(line)[1:]]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_of_the_pages_are_valid(line, monkeypatch):
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


def test_the_script_for_web_pages_runs_in_a_browser(browser, first, tmp_path):
    command = ["rewardmix", "serve", str(first), "--store", str(tmp_path / "sessions.sqlite")]
    with run_server(command) as port:
        tab = browser.new_page()
        tab.goto(f"http://127.0.0.1:{port}/v1/docs")
        decision = tab.evaluate(f"async () => {{ {BLOCKS['javascript']}\n return decision; }}")
        tab.close()
        client = Client(port)
        shown = client.ask("GET", f"/v1/sessions/{decision['session']}")[1]
        client.close()
    assert (decision["step"], decision["version"]) == (1, 1)
    assert [(item["state"], item["reward"]) for item in shown["history"]] == [("home", 1.0), ("reading", None)]


def test_every_kind_of_block_is_tested():
    assert set(BLOCKS) == {"bash", "python", "text", "javascript", "ini", "dockerfile"}
    assert len(COMMANDS) >= 5
