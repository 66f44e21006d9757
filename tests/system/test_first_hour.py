"""Test the commands of a new user in subprocesses: errors, resuming, JSON, terminals, interrupts."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import pytest

from helpers.killed_runs import kill_once_stored

COMMAND = [sys.executable, "-m", "rewardmix"]
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
QUICK = ["--num-episodes", "400", "--refinement-fraction", "0"]


def run(*arguments, cwd=None, **environment):
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **environment},
    )


def run_on_terminal(*arguments, columns=80, cwd=None):
    """Return the output on a terminal of this width, and the exit code."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "LINES": "24", "TERM": "xterm"}
    process = subprocess.Popen([*COMMAND, *arguments], stdout=follower, stderr=follower, cwd=cwd, env=environment)
    os.close(follower)
    blocks = []
    while True:
        try:
            block = os.read(leader, 1 << 16) if select.select([leader], [], [], 120)[0] else b""
        except OSError:  # the other side is closed
            break
        if not block:
            break
        blocks.append(block)
    os.close(leader)
    return CODES.sub("", b"".join(blocks).decode()).replace("\r", ""), process.wait()


@pytest.mark.parametrize(
    "wrong",
    [
        ["shop", "--num-episodes", "-5"],
        ["shop", "--target-regret", "0"],
        ["shop", "--num-types", "1"],
        ["shop", "--weights", "0.2,0.2"],
        ["shop", "--seed", "-1"],
        ["CartPole-v1", "--num-episodes", "5"],
        ["Taxi-v4", "--num-episodes", "5"],
        ["shop", "--bonus", "brave"],
    ],
)
def test_a_failed_run_leaves_no_files(wrong, tmp_path):
    done = run("learn", *wrong, cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_failed_run_keeps_existing_folders(tmp_path):
    (tmp_path / "runs").mkdir()
    assert run("learn", "Taxi-v4", "--num-episodes", "5", cwd=tmp_path).returncode == 2
    assert [path.name for path in tmp_path.rglob("*")] == ["runs"]


def test_resume_starts_continues_and_completes(tmp_path):
    """A scheduler runs one command line repeatedly."""
    line = ["learn", "shop", *QUICK, "--resume", "--out", "run"]
    first = run(*line, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()}
    again = run(*line, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert again.stdout == "already complete: run/report.html\n"
    assert before == {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()}
    assert json.loads(run(*line, "--json", cwd=tmp_path).stdout)["num_episodes"] == 400
    other = run("learn", "shop", "--num-episodes", "401", "--resume", "--out", "run", cwd=tmp_path)
    assert other.returncode == 2
    assert "--resume: got 'run', a complete run with num_episodes = 400, expected num_episodes = 401" in other.stderr


def test_learn_online_resumes(tmp_path):
    line = ["learn-online", "hard", "--num-episodes", "30", "--resume", "--out", "run"]
    assert run(*line, cwd=tmp_path).returncode == 0
    assert run(*line, cwd=tmp_path).stdout == "already complete: run/report.html\n"


def test_json_output_is_one_object(tmp_path):
    lines = {
        "learn": ["learn", "shop", *QUICK, "--out", "run"],
        "learn-online": ["learn-online", "hard", "--num-episodes", "30", "--out", "online"],
        "evaluate": ["evaluate", "run/policy.safetensors", "shop"],
        "simulate": ["simulate", "shop", "--num-episodes", "300", "--out", "log.parquet"],
        "diagnose": ["diagnose", "log.parquet", "--num-types", "2"],
        "fit": ["fit", "log.parquet", "--num-resamples", "2", "--out", "fitted"],
        "infer-types": ["infer-types", "fitted", "log.parquet", "--out", "types.csv"],
        "compare-runs": ["compare-runs", "fitted", "fitted"],
        "envs": ["envs"],
        "describe": ["describe", "hard", "--num-episodes", "100"],
        "plan": ["plan", "hard", "--out", "plan.safetensors"],
        "explore": ["explore", "hard", "--num-episodes", "50", "--out", "moments.safetensors"],
        "recover": ["recover", "moments.safetensors"],
        "theory": ["theory", "--num-states", "4", "--num-actions", "4", "--horizon", "10"],
        "report": ["report", "run"],
    }
    text = {}
    for name, line in lines.items():
        done = run(*line, "--json", cwd=tmp_path)
        assert done.returncode == 0, (name, done.stderr)
        text[name] = json.loads(done.stdout)
        assert isinstance(text[name], dict)
        assert done.stdout.count("\n") == 1
    assert text["learn"]["report"] == "run/report.html"
    assert text["learn"]["headline"]["value"] == pytest.approx(text["evaluate"]["value"], abs=1e-12)
    assert text["evaluate"]["is_exact"] is True
    assert text["fit"]["num_episodes"] == text["diagnose"]["num_episodes"] == text["infer-types"]["num_episodes"] == 300
    assert {row["name"] for row in text["envs"]["problems"]} >= {"shop", "grid"}
    assert text["plan"]["lower"] <= text["plan"]["upper"]


def test_quiet_prints_errors_only(tmp_path):
    done = run("learn", "shop", *QUICK, "--quiet", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    shown, code = run_on_terminal("envs", "--quiet", cwd=tmp_path)
    assert (shown, code) == ("", 0)
    wrong = run("learn", "shop", "--num-episodes", "0", "--quiet", "--out", "other", cwd=tmp_path)
    assert wrong.stderr == "rewardmix: num_episodes: got 0, expected a whole number of at least 1\n"
    both = run("envs", "--quiet", "--json")
    assert both.returncode == 2
    assert "--quiet: got both --quiet and --json, expected at most one of the two" in both.stderr


def test_open_report_opens_the_page(tmp_path):
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > "{tmp_path}/opened"\n')
    browser.chmod(0o755)
    done = run("learn", "shop", *QUICK, "--open-report", "--out", "run", cwd=tmp_path, BROWSER=str(browser))
    assert done.returncode == 0, done.stderr
    for _ in range(100):
        if (tmp_path / "opened").exists() and (tmp_path / "opened").read_text():
            break
        time.sleep(0.1)
    assert (tmp_path / "opened").read_text() == (tmp_path / "run" / "report.html").as_uri()


@pytest.mark.parametrize(
    ("words", "offered"),
    [("rewardmix ev", "evaluate"), ("rewardmix learn sh", "shop"), ("rewardmix learn --num-ep", "--num-episodes")],
)
def test_shells_complete(words, offered):
    count = str(len(words.split()) - 1)
    done = run(_REWARDMIX_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=count)
    assert offered in done.stdout.split()
    assert "rewardmix" in run("--show-completion", "bash").stdout


def test_reward_values_can_be_declared(tmp_path):
    refused = run("learn", "CliffWalking-v1", "--horizon", "20", "--num-episodes", "5", cwd=tmp_path)
    assert refused.returncode == 2
    assert "expected one of the reward values [0.0, 1.0]; declare all of them: reward_values=(...)" in refused.stderr
    assert "--reward-values" in refused.stderr
    response = [
        "--reward-values",
        "-1,-100",
        "--horizon",
        "20",
        "--num-episodes",
        "30",
        "--num-validation-episodes",
        "5",
        "--out",
        "cliff",
    ]
    done = run("learn", "CliffWalking-v1", *response, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "cliff" / "result.json").read_text())["environment"]["reward_values"] == [
        -100.0,
        -1.0,
    ]
    assert "in 5 fresh episodes" in done.stdout


def test_every_stage_leaves_one_line_run_on_terminal(tmp_path):
    shown, code = run_on_terminal("learn", "shop", "--num-episodes", "400", "--out", "run", cwd=tmp_path)
    assert code == 0, shown
    for stage in ("explore: ", "recover: ", "plan: ", "bootstrap: 8 of 8"):
        assert shown.count(stage) >= 1, (stage, shown)


@pytest.mark.parametrize("columns", [50, 80])
def test_no_word_is_cut(columns, tmp_path):
    """Whatever is longer than a line goes on with a whole word in the next."""
    piped = run("learn", "shop", *QUICK, "--out", "run", cwd=tmp_path)
    shown, code = run_on_terminal("learn", "shop", *QUICK, "--out", "again", columns=columns, cwd=tmp_path)
    assert code == 0
    last = shown[shown.index(piped.stdout[:20]) :]
    assert max(map(len, last.splitlines())) <= columns
    seconds = ("in", "s")  # the time a run takes
    words = [word for word in piped.stdout.replace("run/", "again/").split() if word not in seconds]
    assert [word for word in words if word.isalpha()] == [
        word for word in last.split() if word.isalpha() and word not in seconds
    ]


def test_a_table_too_wide_becomes_paragraphs(tmp_path):
    wide = ["theory", "--num-states", "4", "--num-actions", "4", "--horizon", "10"]
    shown, code = run_on_terminal(*wide, columns=30)
    assert code == 0
    assert max(map(len, shown.splitlines())) <= 30
    assert "lower bound" in shown


def test_one_is_singular(tmp_path):
    done = run("simulate", "shop", "--num-episodes", "1", "--out", "log.csv", cwd=tmp_path)
    assert done.stdout == "1 episode of up to 10 steps in log.csv\n"
    done = run("learn", "shop", "--num-episodes", "1", cwd=tmp_path)
    assert "1 episode in" in done.stdout
    assert "1 episodes" not in done.stdout


@pytest.mark.parametrize("command", [["learn", "shop", *QUICK], ["learn-online", "hard", "--num-episodes", "5"]])
@pytest.mark.parametrize("out", ["/proc/x", "afile/x", "afile", "/dev/null/x", "x" * 300])
def test_unwritable_paths_are_errors_of_one_line(command, out, tmp_path):
    (tmp_path / "afile").write_text("")
    done = run(*command, "--out", out, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("rewardmix: --out: got ")
    assert done.stderr.count("\n") == 1


def test_an_interrupt_prints_a_message_at_once(tmp_path):
    line = [*COMMAND, "learn", "rewardmix/Shop-v0", "--num-episodes", "1000000", "--out", str(tmp_path / "cut")]
    process = subprocess.Popen(
        line,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background shells have it ignored
    )
    try:
        for _ in range(1200):
            if list((tmp_path / "cut" / "checkpoint" / "exploration").glob("episodes-*.safetensors")):
                break
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == "\n"
        assert "computing a result from the episodes so far (recover, plan, bootstrap)" in process.stderr.readline()
        assert process.poll() is None  # printed while the command still runs
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    assert errors.splitlines()[-1].startswith("rewardmix: interrupted")


def test_a_killed_run_resumes_and_completes(tmp_path):
    line = ["learn", "random:states=6", "--num-episodes", "100000", "--resume", "--out", "killed"]
    kill_once_stored([*COMMAND, *line[:-1], str(tmp_path / "killed")], tmp_path / "killed")
    assert run(*line, cwd=tmp_path).returncode == 0
    assert run(*line, cwd=tmp_path).stdout.startswith("already complete")
