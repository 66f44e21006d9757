"""``rewardmix report`` and ``rewardmix export --format json``, as a person types them."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from report.example import summary_of
from rewardmix import problems, save, uniform
from rewardmix.planning import plan
from rewardmix.report import page, playable, read_result, write_report, write_result
from rewardmix.report.playable import player_source

SHOP = problems.make("shop")


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "rewardmix", *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )


@pytest.fixture(scope="module")
def found():
    return plan(SHOP)


def test_a_report_is_made_again_from_its_result(tmp_path):
    summary = summary_of(SHOP)
    write_result(tmp_path, summary)
    first = write_report(tmp_path, summary).read_bytes()
    assert read_result(tmp_path) == summary
    (tmp_path / "report.html").unlink()
    done = run("report", ".", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "report.html\n", "")
    assert (tmp_path / "report.html").read_bytes() == first == page(summary).encode()
    assert run("report", ".", "--out", "other.html", cwd=tmp_path).returncode == 0
    assert (tmp_path / "other.html").read_bytes() == first


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "DIR: found no result.json in '.', expected a folder of rewardmix learn"),
        ("{", "DIR: found 'result.json' unreadable"),
        ("[]", "DIR: found a list in 'result.json', expected an object"),
        ("{}", "summary: found schema None, expected 'rewardmix-result/1', as written by rewardmix learn"),
    ],
)
def test_a_folder_of_something_else_is_refused(content, message, tmp_path):
    if content is not None:
        (tmp_path / "result.json").write_text(content)
    done = run("report", ".", cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "report.html").exists()


def test_a_policy_is_exported_with_the_model_beside_it(found, tmp_path):
    save(tmp_path / "policy.safetensors", found.policy)
    save(tmp_path / "model.safetensors", SHOP)
    command = ["export", "policy.safetensors", "--format", "json"]
    done = run(*command, cwd=tmp_path)
    expected = json.loads(json.dumps(playable(found.policy, SHOP)))
    assert json.loads(done.stdout) == expected
    done = run(*command, "--out", "policy.json", "--player", "player.js", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "policy.json").read_text()) == expected
    assert (tmp_path / "player.js").read_text() == player_source()


def test_a_plan_brings_its_model_and_another_can_be_named(found, tmp_path):
    save(tmp_path / "plan.safetensors", found)
    own = run("export", "plan.safetensors", "--format", "json", cwd=tmp_path)
    assert json.loads(own.stdout)["weights"] == [0.6, 0.4]
    other = run("export", "plan.safetensors", "--format", "json", "--model", "shop:weights=(0.5,0.5)", cwd=tmp_path)
    assert json.loads(other.stdout)["weights"] == [0.5, 0.5]


def test_what_cannot_be_played_is_refused(found, tmp_path):
    save(tmp_path / "lonely.safetensors", found.policy)
    save(tmp_path / "chance.safetensors", uniform(SHOP))
    save(tmp_path / "world.safetensors", SHOP)
    for arguments, message in [
        (["lonely.safetensors"], "--model: found none, and no 'model.safetensors', expected a model beside the policy"),
        (["lonely.safetensors", "--model", "probe"], "policy: found a controller of (horizon, states, reward values)"),
        (["chance.safetensors", "--model", "shop"], "policy: found a draw between actions at step 0 in state 0"),
        (["world.safetensors"], "POLICY: found a model in 'world.safetensors', expected a saved policy or plan"),
        (["nothing.safetensors"], "found no file at 'nothing.safetensors'"),
    ]:
        done = run("export", *arguments, "--format", "json", cwd=tmp_path)
        assert done.returncode == 2, arguments
        assert message in done.stderr
        assert "Traceback" not in done.stderr
