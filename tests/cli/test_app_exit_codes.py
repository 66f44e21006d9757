"""The outer door of the command line: whatever happens inside ends in one line and an exit code, without a trace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.commands import run
from rewardmix import InputError, __version__, problems, save, simulate, uniform_policy
from rewardmix.cli import app, inputs
from rewardmix.planning import plan

SHOP = problems.make_model("shop", horizon=3)


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    """Files to work on."""
    folder = tmp_path_factory.mktemp("workshop")
    save(folder / "model.safetensors", SHOP)
    save(folder / "plan.safetensors", plan(SHOP, gap=0.1))
    save(folder / "episodes.safetensors", simulate(uniform_policy(SHOP), SHOP, 50))
    (folder / "empty").write_bytes(b"")
    (folder / "folder").mkdir()
    studies = {
        "numbers": "problems = [1]\nmethods = ['rewardmix']\nepisodes = [9]\nseeds = 1",
        "lists": "problems = ['hard']\nmethods = [['x']]\nepisodes = [9]\nseeds = 1",
        "good": "problems = ['hard']\nmethods = ['log']\nepisodes = [9]\nseeds = 1",
    }
    for name, text in studies.items():
        (folder / f"{name}.toml").write_text(text)
    for name, text in {"bare": '{"schema": "rewardmix-result/2"}', "deep": "[" * 100_000}.items():
        (folder / name).mkdir()
        (folder / name / "result.json").write_text(text)
    return folder


ATTACKS = {
    "evaluate plan.safetensors FrozenLake-v1 --num-episodes=5": "policy: got one for 4 states",
    "report empty": "DIR: got a file, 'empty', expected a folder of rewardmix learn",
    "report bare": "summary.environment: got nothing, expected this field",
    "report deep": "unreadable",
    "learn shop --out=/proc/x": "--out: got '/proc/x', which cannot be written",
    "learn shop --out=model.safetensors": "--out: got file 'model.safetensors', expected a folder",
    "learn shop --out=model.safetensors/x": "--out: got file 'model.safetensors', expected a folder",
    "learn shop --import=../x": "--import: got '../x', expected module names",
    "learn shop --import=nowhere.at_all": "--import: got 'nowhere.at_all', whose import fails (ModuleNotFoundError",
    "explore shop --num-episodes=5 --seed=-1": "--seed: got -1, expected a whole number of at least 0",
    "explore shop --num-episodes=5 --out=folder": "--out: got folder 'folder', expected a file",
    "explore shop --num-episodes=5 --checkpoint-dir=model.safetensors": "--checkpoint-dir: got file 'model.safe",
    "explore shop --num-episodes=5 --checkpoint-dir=/proc/x": "--checkpoint-dir: got '/proc/x', which",
    "describe shop --num-episodes=0": "--num-episodes: got 0, expected a whole number of at least 2",
    "describe shop --seed=-1": "--seed: got -1, expected a whole number of at least 0",
    "plan shop --out=folder": "--out: got folder 'folder', expected a file",
    "plan shop --out=/proc/1/x": "--out: got '/proc/1/x', which cannot be written",
    "recover episodes.safetensors --num-types=²": "--num-types: got '²', expected a whole number or auto",
    "fit empty --out=/proc/x": "--out: got '/proc/x', which cannot be written",
    "simulate shop --out=folder": "--out: got folder 'folder', expected a file",
    "simulate shop --out=nowhere/x.csv": "--out: got no folder 'nowhere', expected a file in an existing folder",
    "export shop --format=pomdp --out=folder": "--out: got folder 'folder', expected a file",
    "export plan.safetensors --format=json --player=folder": "--player: got folder 'folder', expected a file",
    "theory --num-states=3 --num-actions=2 --horizon=4 --epsilon=1e-300": "epsilon: got 1e-300, expected a value whose",
    "theory --num-states=3 --num-actions=2 --horizon=4 --epsilon=1e300": "--epsilon: got 1e+300, expected at most",
    f"theory --num-states=3 --num-actions=2 --horizon={'9' * 77}": "--horizon: got 999",
    "describe random:states=1000000": "states: got a need of about 8.9e+04 GiB of memory, expected at most",
    "describe random:reward_values=5": "reward_values: got shape ()",
    "simulate shop --out=x.csv --num-episodes=99999999999999999": "--num-episodes: got a need of about",
}


@pytest.mark.parametrize("line", ATTACKS)
def test_attacks_are_refused_in_one_line_before_anything_is_written(workshop, monkeypatch, line):
    monkeypatch.chdir(workshop)
    before = sorted(workshop.rglob("*"))
    code, _, error_text = run(line.split(" "))
    assert code == 2
    assert ATTACKS[line] in error_text
    assert error_text.startswith("rewardmix: ")
    assert error_text.count("\n") == 1
    assert sorted(workshop.rglob("*")) == before


@pytest.mark.parametrize("path", ["/dev/null", "/dev/full"])
def test_devices_are_no_place_for_results(path):
    with pytest.raises(InputError, match=f"^--out: got '{path}', which is no regular file, expected a file"):
        inputs.check_file("--out", Path(path))
    with pytest.raises(InputError, match=f"^--out: got file '{path}', expected a folder"):
        inputs.check_folder("--out", Path(path) / "x")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InputError("x: got 1, expected 2"), 2, "rewardmix: x: got 1, expected 2"),
        (PermissionError(13, "Permission denied", "/a/b"), 1, "rewardmix: Permission denied: '/a/b'"),
        (OSError(28, "No space left on device", "/a/b"), 1, "rewardmix: No space left on device: '/a/b'"),
        (IsADirectoryError(21, "Is a directory", "a", None, "b"), 1, "rewardmix: Is a directory: 'a' -> 'b'"),
        (OSError("odd"), 1, "rewardmix: odd"),
        (MemoryError("Unable to allocate 9 GiB"), 1, "rewardmix: out of memory: Unable to allocate 9 GiB"),
        (MemoryError(), 1, "rewardmix: out of memory"),
        (ImportError("needs rewardmix[logs]"), 2, "rewardmix: needs rewardmix[logs]"),
        (
            KeyError("world"),
            70,
            "rewardmix: internal error: KeyError: 'world'; please report it to the project's issue tracker",
        ),
        (RecursionError("deep\nand long"), 70, "RecursionError: deep and long"),
    ],
)
def test_what_goes_wrong_inside_ends_in_one_line(monkeypatch, capsys, error, code, message):
    def fail(*_, **__):
        raise error

    monkeypatch.delenv("REWARDMIX_DEBUG", raising=False)
    monkeypatch.setattr(app, "app", fail)
    with pytest.raises(SystemExit) as end:
        app.main([])
    assert end.value.code == code
    error_text = capsys.readouterr().err
    assert message in error_text
    assert error_text.count("\n") == 1
    assert ("REWARDMIX_DEBUG=1" in error_text and __version__ in error_text) == (code == 70)


def test_debugging_shows_the_trace(monkeypatch, capsys):
    def fail(*_, **__):
        raise KeyError("world")

    monkeypatch.setenv("REWARDMIX_DEBUG", "1")
    monkeypatch.setattr(app, "app", fail)
    with pytest.raises(SystemExit):
        app.main([])
    error_text = capsys.readouterr().err
    assert error_text.startswith("Traceback")
    assert "rewardmix: internal error" in error_text


def test_a_reader_that_goes_away_is_no_defect():
    command = f"{sys.executable} -m rewardmix export shop --format pomdp | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.stdout.startswith("# Reward-mixing MDP")
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr


def test_learning_that_is_refused_leaves_no_checkpoint(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(["learn", "shop", "--num-episodes=0", "--out=new"])[0] == 2
    assert not list(tmp_path.iterdir())


def test_names_that_cannot_be_shown_are_written_otherwise(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, text, _ = run(["plan", "hard", "--gap=0.1", "--out=odd\udcff.safetensors"])
    assert code == 0
    assert "saved: odd\\udcff.safetensors" in text
    code, _, _ = run(["learn", "shop:horizon=2", "--num-episodes=60", "--out=odd\udcff"])
    assert code == 0
    assert json.loads((tmp_path / "odd\udcff" / "result.json").read_text())["title"] == "shop:horizon=2"
