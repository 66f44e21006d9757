"""Test commands in subprocesses: help, models, and errors of usage."""

import subprocess
import sys

import pytest

from rewardmix import __version__, problems, save, uniform_policy


def run(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "rewardmix", *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )


def test_help_and_version():
    done = run("--help")
    assert done.returncode == 0
    assert "each episode has one of several unknown reward functions" in " ".join(done.stdout.split())
    assert run("--version").stdout.strip() == __version__


def test_envs_lists_every_problem():
    output = run("envs").stdout
    for identifier in problems.list_env_ids():
        assert identifier in output


@pytest.mark.parametrize("model", ["hard", "random:states=4,weights=(0.3,0.7),seed=2"])
def test_describe_prints_exact_and_simulated_values(model):
    done = run("describe", model, "--num-episodes", "2000")
    assert done.returncode == 0, done.stderr
    assert "uniform" in done.stdout
    assert done.stderr == ""  # no progress bar in a pipe


def test_describe_accepts_a_saved_model(tmp_path):
    save(tmp_path / "m.safetensors", problems.make_model("hard"))
    assert "states=2" in run("describe", "m.safetensors", cwd=tmp_path).stdout
    save(tmp_path / "p.safetensors", uniform_policy(problems.make_model("hard")))
    done = run("describe", "p.safetensors", cwd=tmp_path)
    assert done.returncode == 2
    assert "MODEL: got a MarkovPolicy in 'p.safetensors', expected a model" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe", "shp"], "rewardmix: MODEL: got 'shp', expected a saved model or one of hard, random"),
        (["describe", "random:states"], "rewardmix: MODEL: got 'states', expected key=value"),
        (["describe", "hard:actions=2"], "rewardmix: actions: got 2, expected a whole number of at least 3"),
        (["fly"], "No such command 'fly'"),
    ],
)
def test_wrong_input_exits_with_2_and_one_line(arguments, message):
    done = run(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
