"""Test ``rewardmix learn-online`` in subprocesses."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import rewardmix as rm
from helpers.killed_runs import kill_once_stored
from rewardmix.report.run_folder import FILES

COMMAND = [sys.executable, "-m", "rewardmix"]
STORED = "online.safetensors"


def run(*arguments, **options):
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("run") / "shop"
    done = run("learn-online", "shop", "--num-episodes", "400", "--seed", "4", "--out", str(where))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no progress in a pipe
    assert str(where / "report.html") in done.stdout
    return where, done.stdout


def test_the_run_folder_holds_the_result_of_learn_online(folder):
    where, text = folder
    assert {path.name for path in where.iterdir()} == {*FILES, "agent.safetensors"}  # and no checkpoint any more
    result = json.loads((where / "result.json").read_text())
    expected = rm.learn_online("shop", num_episodes=400, seed=4)
    assert result["online"]["total_reward"] == expected.total_reward
    assert result["online"]["cumulative_regret"] == expected.cumulative_regret[-1]
    assert result["online"]["policy_changes"] == expected.policy_start_episodes[1:].tolist()
    points = np.array(result["online"]["returns"])
    lengths = np.diff(np.append(0, points[:, 0]))
    assert lengths @ points[:, 1] == pytest.approx(expected.total_reward)
    assert [k for k, _ in result["online"]["type_weights"]] == expected.policy_start_episodes.tolist()
    assert f"total reward {expected.total_reward:g}, cumulative regret {expected.cumulative_regret[-1]:.1f}, " in text
    exact = rm.evaluate(rm.load(where / "policy.safetensors").policy, rm.problems.make_model("shop")).value
    assert result["true_model"]["value"] == pytest.approx(exact, abs=1e-12)
    assert rm.load(where / "agent.safetensors").episodes == 400
    assert result["policy"]["horizon"] == 10


def test_the_report_shows_rewards_policy_changes_and_weights(folder):
    page = (folder[0] / "report.html").read_text()
    for words in ("Online learning", "Reward per episode", "Estimated weight of each type"):
        assert words in page
    assert "The agent changed its policy" in page


def test_the_page_and_the_files_use_the_names_of_the_world(folder):
    where, _ = folder
    shop, result = rm.problems.make_model("shop"), json.loads((where / "result.json").read_text())
    assert tuple(result["policy"]["state_names"]) == shop.state_names
    assert tuple(result["policy"]["action_names"]) == shop.action_names
    assert rm.load(where / "model.safetensors").state_names == shop.state_names
    assert "show bestsellers" in (where / "report.html").read_text()


def test_a_killed_run_goes_on_to_the_same_result(tmp_path):
    arguments = ["learn-online", "random:states=6", "--num-episodes", "3000", "--seed", "1"]
    whole = run(*arguments, "--out", str(tmp_path / "whole"))
    assert whole.returncode == 0, whole.stderr
    kill_once_stored([*COMMAND, *arguments, "--out", str(tmp_path / "killed")], tmp_path / "killed", STORED)
    refused = run(*arguments, "--out", str(tmp_path / "killed"))
    assert refused.returncode == 2
    assert "expected another folder; --resume continues the run" in refused.stderr
    other = run(
        "learn-online", "shop", "--num-episodes", "3000", "--seed", "1", "--resume", "--out", str(tmp_path / "killed")
    )
    assert other.returncode == 2
    assert "checkpoint: got a run with" in other.stderr
    resumed = run(*arguments, "--out", str(tmp_path / "killed"), "--resume")
    assert resumed.returncode == 0, resumed.stderr
    for name in ("agent.safetensors", "model.safetensors", "policy.safetensors", "moments.safetensors"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_learning_online_in_an_environment(tmp_path):
    done = run("learn-online", "rewardmix/Shop-v0", "--num-episodes", "60", "--out", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["online"]["cumulative_regret"] is None
    assert result["headline"]["evidence_key"] == "planned"


def test_wrong_input_ends_with_2_and_one_clear_line(tmp_path):
    for arguments, message in (
        (["learn-online", "shp"], "got 'shp'"),
        (["learn-online", "shop", "--num-episodes", "0"], "rewardmix: num_episodes: got 0"),
        (["learn-online", "shop", "--weights", "0.5,0.6"], "rewardmix: weights: got sum 1.1"),
        (
            ["learn-online", "shop", "--weights", "uniform", "--num-types", "auto"],
            "rewardmix: weights: got weights with num_types='auto'",
        ),
    ):
        done = run(*arguments, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert message in done.stderr
