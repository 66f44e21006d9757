"""``rewardmix report`` and ``rewardmix export --format json``, as a person types them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from helpers.example_summaries import make_summary
from rewardmix import problems, save, uniform_policy
from rewardmix.planning import plan
from rewardmix.report import policy_to_dict, read_result, render_page, write_report, write_result
from rewardmix.report.policy_json import load_player_js

SHOP = problems.make_model("shop")


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "rewardmix", *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )


@pytest.fixture(scope="module")
def result():
    return plan(SHOP)


def test_a_report_is_made_again_from_its_result(tmp_path):
    summary = make_summary(SHOP)
    write_result(tmp_path, summary)
    first = write_report(tmp_path, summary).read_bytes()
    assert read_result(tmp_path) == summary
    (tmp_path / "report.html").unlink()
    done = run("report", ".", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "report.html\n", "")
    assert (tmp_path / "report.html").read_bytes() == first == render_page(summary).encode()
    assert run("report", ".", "--out", "other.html", cwd=tmp_path).returncode == 0
    assert (tmp_path / "other.html").read_bytes() == first


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "DIR: got '.' without result.json, expected a folder of rewardmix learn"),
        ("{", "DIR: got unreadable 'result.json'"),
        ("[]", "DIR: got a list in 'result.json', expected an object"),
        ("{}", "summary: got schema None, expected 'rewardmix-result/2'; repeat the run with this version"),
    ],
)
def test_a_folder_of_something_else_is_refused(content, message, tmp_path):
    if content is not None:
        (tmp_path / "result.json").write_text(content)
    done = run("report", ".", cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "report.html").exists()


def test_a_policy_is_exported_with_the_model_beside_it(result, tmp_path):
    save(tmp_path / "policy.safetensors", result.policy)
    save(tmp_path / "model.safetensors", SHOP)
    command = ["export", "policy.safetensors", "--format", "json"]
    done = run(*command, cwd=tmp_path)
    expected = json.loads(json.dumps(policy_to_dict(result.policy, SHOP)))
    assert json.loads(done.stdout) == expected
    done = run(*command, "--out", "policy.json", "--player", "player.js", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "policy.json").read_text()) == expected
    assert (tmp_path / "player.js").read_text() == load_player_js()


def test_a_plan_brings_its_model_and_another_can_be_named(result, tmp_path):
    save(tmp_path / "plan.safetensors", result)
    with_own_model = run("export", "plan.safetensors", "--format", "json", cwd=tmp_path)
    assert json.loads(with_own_model.stdout)["weights"] == [0.6, 0.4]
    other = run("export", "plan.safetensors", "--format", "json", "--model", "shop:weights=(0.5,0.5)", cwd=tmp_path)
    assert json.loads(other.stdout)["weights"] == [0.5, 0.5]


def test_what_cannot_be_played_is_refused(result, tmp_path):
    save(tmp_path / "lonely.safetensors", result.policy)
    save(tmp_path / "chance.safetensors", uniform_policy(SHOP))
    save(tmp_path / "world.safetensors", SHOP)
    for arguments, message in [
        (["lonely.safetensors"], "--model: got nothing, and no file 'model.safetensors', expected a model"),
        (["lonely.safetensors", "--model", "probe"], "policy: got a controller of (horizon, states, reward values)"),
        (
            ["chance.safetensors", "--model", "shop"],
            "policy: got random actions at step 0 in state 0, expected a deterministic policy",
        ),
        (["world.safetensors"], "POLICY: got a model in 'world.safetensors', expected a saved policy or plan"),
        (["nothing.safetensors"], "got no file at 'nothing.safetensors'"),
    ]:
        done = run("export", *arguments, "--format", "json", cwd=tmp_path)
        assert done.returncode == 2, arguments
        assert message in done.stderr
        assert "Traceback" not in done.stderr
