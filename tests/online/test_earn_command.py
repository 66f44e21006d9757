"""``rewardmix earn`` as a person types it."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import rewardmix as rm
from killing import kill_once_stored
from rewardmix.report.folder import FILES

COMMAND = [sys.executable, "-m", "rewardmix"]
STORED = "earning.safetensors"


def run(*arguments, **options):
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("run") / "shop"
    done = run("earn", "shop", "--episodes", "400", "--seed", "4", "--out", str(where))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no progress in a pipe
    assert str(where / "report.html") in done.stdout
    return where, done.stdout


def test_the_folder_holds_what_earn_gives(folder):
    where, said = folder
    assert {path.name for path in where.iterdir()} == {*FILES, "agent.safetensors"}  # and no checkpoint any more
    result = json.loads((where / "result.json").read_text())
    earned = rm.earn("shop", episodes=400, seed=4)
    assert result["earned"]["total"] == earned.total
    assert result["earned"]["regret"] == earned.regret[-1]
    assert result["earned"]["switches"] == earned.began[1:].tolist()
    points = np.array(result["earned"]["points"])
    lengths = np.diff(np.append(0, points[:, 0]))
    assert lengths @ points[:, 1] == pytest.approx(earned.total)
    assert [k for k, _ in result["earned"]["shares"]] == earned.began.tolist()
    assert f"collected {earned.total:g}, {earned.regret[-1]:.1f} less than" in said
    exact = rm.evaluate(rm.load(where / "policy.safetensors").policy, rm.problems.make("shop")).value
    assert result["truth"]["value"] == pytest.approx(exact, abs=1e-12)
    assert rm.load(where / "agent.safetensors").episodes == 400
    assert result["session"]["horizon"] == 10


def test_the_page_shows_rewards_over_time_switches_and_beliefs(folder):
    page = (folder[0] / "report.html").read_text()
    for words in ("What it earned while it learned", "Reward an episode. From", "Belief in the share of each type"):
        assert words in page
    assert "It changed what it plays" in page


def test_the_page_and_the_files_use_the_names_of_the_world(folder):
    where, _ = folder
    shop, result = rm.problems.make("shop"), json.loads((where / "result.json").read_text())
    assert tuple(result["session"]["state_names"]) == shop.state_names
    assert tuple(result["session"]["action_names"]) == shop.action_names
    assert rm.load(where / "model.safetensors").state_names == shop.state_names
    assert "show bestsellers" in (where / "report.html").read_text()


def test_a_killed_run_goes_on_to_the_same_result(tmp_path):
    arguments = ["earn", "random:states=6", "--episodes", "3000", "--seed", "1"]
    whole = run(*arguments, "--out", str(tmp_path / "whole"))
    assert whole.returncode == 0, whole.stderr
    kill_once_stored([*COMMAND, *arguments, "--out", str(tmp_path / "killed")], tmp_path / "killed", STORED)
    refused = run(*arguments, "--out", str(tmp_path / "killed"))
    assert refused.returncode == 2
    assert "expected --resume to go on with it, or another folder" in refused.stderr
    other = run("earn", "shop", "--episodes", "3000", "--seed", "1", "--resume", "--out", str(tmp_path / "killed"))
    assert other.returncode == 2
    assert "checkpoint: found a run with" in other.stderr
    resumed = run(*arguments, "--out", str(tmp_path / "killed"), "--resume")
    assert resumed.returncode == 0, resumed.stderr
    for name in ("agent.safetensors", "model.safetensors", "policy.safetensors", "moments.safetensors"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_an_environment_is_earned_from(tmp_path):
    done = run("earn", "rewardmix/Shop-v0", "--episodes", "60", "--out", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["earned"]["regret"] is None
    assert result["answer"]["measured"] == "planned"


def test_wrong_input_ends_with_2_and_one_clear_line(tmp_path):
    for arguments, message in (
        (["earn", "shp"], "found 'shp'"),
        (["earn", "shop", "--episodes", "0"], "rewardmix: episodes: found 0"),
        (["earn", "shop", "--weights", "0.5,0.6"], "rewardmix: weights: found sum 1.1"),
        (["earn", "shop", "--weights", "uniform", "--contexts", "auto"], "rewardmix: weights: found known weights"),
    ):
        done = run(*arguments, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert message in done.stderr
