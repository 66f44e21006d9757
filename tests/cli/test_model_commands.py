"""``rewardmix plan`` and ``rewardmix export`` as a person types them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rewardmix
from rewardmix.planning import Plan


def run(*arguments):
    return subprocess.run([sys.executable, "-m", "rewardmix", *arguments], capture_output=True, text=True, check=False)


def test_plan_shows_the_table_and_saves(tmp_path):
    done = run("plan", "hard:epsilon=0.04", "--gap", "1e-9", "--out", str(tmp_path / "plan"))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for word in ("Markov", "QMDP", "greedy Bayes", "oracle", "uniform", "gap", "as requested", "nodes"):
        assert word in done.stdout
    saved = rewardmix.load(tmp_path / "plan")
    assert isinstance(saved, Plan)
    assert saved.lower == pytest.approx(saved.upper, abs=1e-9)


def test_a_gap_that_is_not_met_is_said_aloud():
    done = run("plan", "shop", "--gap", "1e-8", "--max-seconds", "1e-6")
    assert done.returncode == 0
    assert "NOT the requested 1e-08: time limit" in done.stdout
    done = run("plan", "shop", "--gap", "1e-8", "--max-operations", "1e6")
    assert "NOT the requested 1e-08: operation limit" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan", "shop", "--gap", "0"), "gap: got 0"),
        (("plan", "shop", "--gap", "nan"), "gap: got nan"),
        (("plan", "shop", "--max-seconds", "0"), "max_seconds: got 0"),
        (("plan", "shop", "--max-operations", "-1"), "max_operations: got -1"),
        (("plan", "nowhere"), "MODEL: got 'nowhere'"),
        (("export", "shop", "--format", "pomdp", "--discount", "1"), "discount: got 1"),
    ],
)
def test_wrong_input_is_refused_by_name(arguments, message):
    done = run(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("form", "start"), [("pomdpx", "<?xml"), ("pomdp", "# Reward-mixing MDP")])
def test_export_writes_a_file_or_to_the_pipe(tmp_path, form, start):
    path = tmp_path / f"model.{form}"
    assert run("export", "hard", "--format", form, "--out", str(path)).returncode == 0
    text = path.read_text()
    assert text.startswith(start)
    assert run("export", "hard", "--format", form).stdout.strip() == text.strip()
