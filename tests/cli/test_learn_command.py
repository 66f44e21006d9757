"""Test ``rewardmix learn`` in subprocesses."""

import html
import json
import subprocess
import sys
import time

import pytest

from helpers.killed_runs import kill_once_stored
from rewardmix import evaluate, load, problems
from rewardmix.cli.learn_command import HIDDEN_STATEMENTS
from rewardmix.report.run_folder import FILES
from rewardmix.statements import STATEMENT_STATUSES

COMMAND = [sys.executable, "-m", "rewardmix"]


def run(*arguments, **options):
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("run") / "shop"
    done = run("learn", "shop", "--num-episodes", "1500", "--seed", "4", "--out", str(where))
    assert done.returncode == 0, done.stderr
    assert "of the adaptivity gain" in done.stdout
    assert str(where / "report.html") in done.stdout
    assert done.stderr == ""  # no progress in a pipe
    (where.parent / "output.txt").write_text(done.stdout)
    return where


def test_the_run_folder_is_complete(folder):
    assert {path.name for path in folder.iterdir()} == set(FILES)  # and no checkpoint any more
    result = json.loads((folder / "result.json").read_text())
    assert result["metadata"]["settings"]["num_episodes"] == 1500
    assert result["seed"] == 4
    assert load(folder / "model.safetensors").num_states == 4
    assert load(folder / "moments.safetensors").num_episodes == 750  # the other half is refinement
    assert result["environment"]["num_episodes"] == 1500
    assert result["environment"]["num_refinement_episodes"] == 750
    exact = evaluate(load(folder / "policy.safetensors").policy, problems.make_model("shop")).value
    assert result["true_model"]["value"] == pytest.approx(exact, abs=1e-12)


def test_terminal_report_and_file_have_equal_statements(folder):
    certificate = json.loads((folder / "result.json").read_text())["certificate"]
    statements, page = certificate["statements"], html.unescape((folder / "report.html").read_text())
    assert [statement["text"] for statement in statements if statement["status"] == "proved"] == certificate["proved"]
    unproved_statuses = ("estimated", "assumed", "open")
    assert [statement["text"] for statement in statements if statement["status"] in unproved_statuses] == certificate[
        "unproved"
    ]
    assert all(
        all(statement["premises"].values()) and statement["premises"]
        for statement in statements
        if statement["status"] == "proved"
    )
    assert all(sentence in page for sentence in (*certificate["proved"], *certificate["unproved"]))
    text = (folder.parent / "output.txt").read_text().splitlines()
    shown = [line for line in text if line.split(":")[0] in STATEMENT_STATUSES]
    assert shown == [
        f"{statement['status']}: {statement['text']}"
        for statement in statements
        if statement["key"] not in HIDDEN_STATEMENTS
    ]
    assert len(shown) == 2


def test_evaluate_takes_the_policy(folder):
    done = run("evaluate", str(folder / "policy.safetensors"), "shop")
    assert done.stdout.endswith("(exact)\n")
    played = run("evaluate", str(folder / "policy.safetensors"), "rewardmix/Shop-v0", "--num-episodes", "200")
    assert "200 episodes" in played.stdout
    wrong = run("evaluate", str(folder / "model.safetensors"), "shop")
    assert wrong.returncode == 2
    assert "POLICY: got a model in" in wrong.stderr


def test_a_toml_file_gives_the_same_run(folder, tmp_path):
    (tmp_path / "run.toml").write_text('env = "shop"\nnum_episodes = 1500\nseed = 4\ntarget_regret = 0.1\n')
    done = run("learn", "--config", "run.toml", "--out", "again", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("model.safetensors", "policy.safetensors", "moments.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_a_killed_run_goes_on_to_the_same_result(tmp_path):
    arguments = ["learn", "random:states=6", "--num-episodes", "300000", "--seed", "1"]
    whole = run(*arguments, "--out", str(tmp_path / "whole"))
    assert whole.returncode == 0, whole.stderr
    kill_once_stored([*COMMAND, *arguments, "--out", str(tmp_path / "killed")], tmp_path / "killed")
    refused = run(*arguments, "--out", str(tmp_path / "killed"))
    assert refused.returncode == 2
    assert "expected another folder; --resume continues the run" in refused.stderr
    other = run("learn", "shop", "--num-episodes", "300000", "--resume", "--out", str(tmp_path / "killed"))
    assert other.returncode == 2
    assert "checkpoint: got a run with" in other.stderr
    resumed = run(*arguments, "--out", str(tmp_path / "killed"), "--resume")
    assert resumed.returncode == 0, resumed.stderr
    for name in ("model.safetensors", "policy.safetensors", "moments.safetensors"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_an_interrupt_leaves_a_valid_partial_result(tmp_path):
    import signal

    arguments = [
        "learn",
        "rewardmix/Shop-v0",
        "--num-episodes",
        "1000000",
        "--num-validation-episodes",
        "0",
        "--out",
        str(tmp_path / "cut"),
    ]
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background shells have it ignored
    )
    for _ in range(600):
        if list((tmp_path / "cut" / "checkpoint" / "exploration").glob("episodes-*.safetensors")):
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130, errors
    assert "the result uses the episodes so far" in errors
    result = json.loads((tmp_path / "cut" / "result.json").read_text())
    assert result["certificate"]["stop_reason"] == "interrupted"
    assert load(tmp_path / "cut" / "moments.safetensors").num_episodes > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["learn"], "PROBLEM_OR_ENV_ID: got nothing, expected a problem, a Gymnasium id or a saved model"),
        (["learn", "NoSuch-v0"], "PROBLEM_OR_ENV_ID: got 'NoSuch-v0'"),
        (["learn", "CartPole-v1", "--num-episodes", "5"], "env.observation_space: got Box"),
        (["learn", "shop", "--num-episodes", "0"], "num_episodes: got 0"),
        (["learn", "shop", "--bonus", "brave"], "--bonus: got 'brave', expected one of practical, theory, paper"),
        (["learn", "shop", "--weights", "a,b"], "--weights: got 'a,b'"),
        (["learn", "--config", "none.toml"], "--config: got no file 'none.toml'"),
        (["learn", "--config", "bad.toml"], "--config bad.toml: got 'episode', expected one of env, num_episodes"),
        (["learn", "--config", "type.toml"], "--config type.toml: num_episodes: got 'many', expected a whole number"),
        (["learn", "shop", "--import", "no_such_module"], "No module named 'no_such_module'"),
    ],
)
def test_wrong_input_ends_with_2_and_one_clear_line(arguments, message, tmp_path):
    (tmp_path / "bad.toml").write_text("episode = 3\n")
    (tmp_path / "type.toml").write_text('env = "shop"\nnum_episodes = "many"\n')
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_shorter_horizon_than_the_environments_own(tmp_path):
    """FrozenLake stops after 100 steps; a policy for ten of them is tried for ten."""
    done = run("learn", "FrozenLake-v1", "--horizon", "10", "--num-episodes", "150", "--out", str(tmp_path / "lake"))
    assert done.returncode == 0, done.stderr
    assert "Mean return of the policy in 1000 fresh episodes" in done.stdout
    evaluated = run("evaluate", str(tmp_path / "lake" / "policy.safetensors"), "FrozenLake-v1", "--num-episodes", "50")
    assert evaluated.returncode == 0, evaluated.stderr
