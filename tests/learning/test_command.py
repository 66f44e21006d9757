"""``rewardmix learn`` as a person types it."""

import html
import json
import subprocess
import sys
import time

import pytest

from killing import kill_once_stored
from rewardmix import evaluate, load, problems
from rewardmix.cli.learn_command import UNSAID
from rewardmix.facts import FACT_KINDS
from rewardmix.report.folder import FILES

COMMAND = [sys.executable, "-m", "rewardmix"]


def run(*arguments, **options):
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("run") / "shop"
    done = run("learn", "shop", "--episodes", "1500", "--seed", "4", "--out", str(where))
    assert done.returncode == 0, done.stderr
    assert "of what adapting can gain" in done.stdout
    assert str(where / "report.html") in done.stdout
    assert done.stderr == ""  # no progress in a pipe
    (where.parent / "said.txt").write_text(done.stdout)
    return where


def test_the_folder_holds_everything(folder):
    assert {path.name for path in folder.iterdir()} == set(FILES)  # and no checkpoint any more
    result = json.loads((folder / "result.json").read_text())
    assert result["record"]["settings"]["episodes"] == 1500
    assert result["seed"] == 4
    assert load(folder / "model.safetensors").num_states == 4
    assert load(folder / "moments.safetensors").episodes == 750  # the other half is refinement
    assert result["world"]["episodes"] == 1500
    assert result["world"]["refined"] == 750
    exact = evaluate(load(folder / "policy.safetensors").policy, problems.make("shop")).value
    assert result["truth"]["value"] == pytest.approx(exact, abs=1e-12)


def test_terminal_page_and_file_say_the_same_sentences(folder):
    certificate = json.loads((folder / "result.json").read_text())["certificate"]
    facts, page = certificate["facts"], html.unescape((folder / "report.html").read_text())
    assert [fact["sentence"] for fact in facts if fact["kind"] == "proved"] == certificate["proved"]
    open_kinds = ("estimated", "assumed", "open")
    assert [fact["sentence"] for fact in facts if fact["kind"] in open_kinds] == certificate["not_proved"]
    assert all(all(fact["premises"].values()) and fact["premises"] for fact in facts if fact["kind"] == "proved")
    assert all(sentence in page for sentence in (*certificate["proved"], *certificate["not_proved"]))
    said = (folder.parent / "said.txt").read_text().splitlines()
    shown = [line for line in said if line.split(":")[0] in FACT_KINDS]
    assert shown == [f"{fact['kind']}: {fact['sentence']}" for fact in facts if fact["what"] not in UNSAID]
    assert len(shown) == 2


def test_evaluate_takes_the_policy(folder):
    done = run("evaluate", str(folder / "policy.safetensors"), "shop")
    assert done.stdout.endswith("(exact)\n")
    played = run("evaluate", str(folder / "policy.safetensors"), "rewardmix/Shop-v0", "--episodes", "200")
    assert "200 episodes" in played.stdout
    wrong = run("evaluate", str(folder / "model.safetensors"), "shop")
    assert wrong.returncode == 2
    assert "POLICY: found a model in" in wrong.stderr


def test_a_toml_file_gives_the_same_run(folder, tmp_path):
    (tmp_path / "run.toml").write_text('world = "shop"\nepisodes = 1500\nseed = 4\naccuracy = 0.1\n')
    done = run("learn", "--config", "run.toml", "--out", "again", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("model.safetensors", "policy.safetensors", "moments.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_a_killed_run_goes_on_to_the_same_result(tmp_path):
    arguments = ["learn", "random:states=6", "--episodes", "300000", "--seed", "1"]
    whole = run(*arguments, "--out", str(tmp_path / "whole"))
    assert whole.returncode == 0, whole.stderr
    kill_once_stored([*COMMAND, *arguments, "--out", str(tmp_path / "killed")], tmp_path / "killed")
    refused = run(*arguments, "--out", str(tmp_path / "killed"))
    assert refused.returncode == 2
    assert "expected --resume to go on with it, or another folder" in refused.stderr
    other = run("learn", "shop", "--episodes", "300000", "--resume", "--out", str(tmp_path / "killed"))
    assert other.returncode == 2
    assert "checkpoint: found a run with" in other.stderr
    resumed = run(*arguments, "--out", str(tmp_path / "killed"), "--resume")
    assert resumed.returncode == 0, resumed.stderr
    for name in ("model.safetensors", "policy.safetensors", "moments.safetensors"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_an_interrupt_leaves_a_valid_partial_result(tmp_path):
    import signal

    arguments = [
        "learn",
        "rewardmix/Shop-v0",
        "--episodes",
        "1000000",
        "--validate",
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
    assert "the result holds what was gathered" in errors
    result = json.loads((tmp_path / "cut" / "result.json").read_text())
    assert result["certificate"]["stopped"] == "interrupted"
    assert load(tmp_path / "cut" / "moments.safetensors").episodes > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["learn"], "PROBLEM_OR_ENV_ID: found nothing, expected a problem, a Gymnasium id or a saved model"),
        (["learn", "NoSuch-v0"], "PROBLEM_OR_ENV_ID: found 'NoSuch-v0'"),
        (["learn", "CartPole-v1", "--episodes", "5"], "env.observation_space: found Box"),
        (["learn", "shop", "--episodes", "0"], "episodes: found 0"),
        (["learn", "shop", "--setting", "brave"], "--setting: found 'brave', expected one of practical, theory, paper"),
        (["learn", "shop", "--weights", "a,b"], "--weights: found 'a,b'"),
        (["learn", "--config", "none.toml"], "--config: found no file 'none.toml'"),
        (["learn", "--config", "bad.toml"], "--config bad.toml: found 'episode', expected one of world, episodes"),
        (["learn", "--config", "type.toml"], "--config type.toml: episodes: found 'many', expected a whole number"),
        (["learn", "shop", "--import", "no_such_module"], "No module named 'no_such_module'"),
    ],
)
def test_wrong_input_ends_with_2_and_one_clear_line(arguments, message, tmp_path):
    (tmp_path / "bad.toml").write_text("episode = 3\n")
    (tmp_path / "type.toml").write_text('world = "shop"\nepisodes = "many"\n')
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_shorter_horizon_than_the_environments_own(tmp_path):
    """FrozenLake stops after 100 steps; a policy for ten of them is tried for ten."""
    done = run("learn", "FrozenLake-v1", "--horizon", "10", "--episodes", "150", "--out", str(tmp_path / "lake"))
    assert done.returncode == 0, done.stderr
    assert "tried in 1000 fresh episodes" in done.stdout
    tried = run("evaluate", str(tmp_path / "lake" / "policy.safetensors"), "FrozenLake-v1", "--episodes", "50")
    assert tried.returncode == 0, tried.stderr
