"""The commands as a person types them, in a process of their own."""

import subprocess
import sys

import pytest

from rewardmix import __version__, problems, save, uniform


def run(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "rewardmix", *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )


def test_help_and_version():
    done = run("--help")
    assert done.returncode == 0
    assert "secretly has one of several reward functions" in " ".join(done.stdout.split())
    assert run("--version").stdout.strip() == __version__


def test_envs_lists_every_problem():
    shown = run("envs").stdout
    for identifier in problems.identifiers():
        assert identifier in shown


@pytest.mark.parametrize("model", ["hard", "random:states=4,weights=(0.3,0.7),seed=2"])
def test_describe_shows_exact_and_simulated_values(model):
    done = run("describe", model, "--episodes", "2000")
    assert done.returncode == 0, done.stderr
    assert "uniform" in done.stdout
    assert done.stderr == ""  # no progress bar in a pipe


def test_describe_takes_a_saved_model(tmp_path):
    save(tmp_path / "m.safetensors", problems.make("hard"))
    assert "states=2" in run("describe", "m.safetensors", cwd=tmp_path).stdout
    save(tmp_path / "p.safetensors", uniform(problems.make("hard")))
    done = run("describe", "p.safetensors", cwd=tmp_path)
    assert done.returncode == 2
    assert "MODEL: found a MarkovPolicy in 'p.safetensors', expected a model" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe", "shp"], "rewardmix: MODEL: found 'shp', expected a saved model or one of hard, random"),
        (["describe", "random:states"], "rewardmix: options: found 'states', expected key=value"),
        (["describe", "hard:actions=2"], "rewardmix: actions: found 2, expected a whole number of at least 3"),
        (["fly"], "No such command 'fly'"),
    ],
)
def test_wrong_input_ends_with_2_and_one_clear_line(arguments, message):
    done = run(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
