"""The command line as people and schedulers meet it in their first hour, each time the real command."""

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

from killing import kill_once_stored

COMMAND = [sys.executable, "-m", "rewardmix"]
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
QUICK = ["--episodes", "400", "--refine", "0"]


def run(*arguments, cwd=None, **environment):
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **environment},
    )


def on_a_terminal(*arguments, columns=80, cwd=None):
    """What a terminal of so many columns shows, and the exit code."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "LINES": "24", "TERM": "xterm"}
    process = subprocess.Popen([*COMMAND, *arguments], stdout=theirs, stderr=theirs, cwd=cwd, env=environment)
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 1 << 16) if select.select([ours], [], [], 120)[0] else b""
        except OSError:  # the other side is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(ours)
    return CODES.sub("", b"".join(parts).decode()).replace("\r", ""), process.wait()


@pytest.mark.parametrize(
    "wrong",
    [
        ["shop", "--episodes", "-5"],
        ["shop", "--accuracy", "0"],
        ["shop", "--contexts", "1"],
        ["shop", "--weights", "0.2,0.2"],
        ["shop", "--seed", "-1"],
        ["CartPole-v1", "--episodes", "5"],
        ["Taxi-v4", "--episodes", "5"],
        ["shop", "--setting", "brave"],
    ],
)
def test_what_is_refused_leaves_nothing_behind(wrong, tmp_path):
    done = run("learn", *wrong, cwd=tmp_path)
    assert done.returncode == 2, done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_refused_run_leaves_folders_that_were_there(tmp_path):
    (tmp_path / "runs").mkdir()
    assert run("learn", "Taxi-v4", "--episodes", "5", cwd=tmp_path).returncode == 2
    assert [path.name for path in tmp_path.rglob("*")] == ["runs"]


def test_resume_begins_goes_on_and_is_done(tmp_path):
    """A scheduler types the same line again and again."""
    line = ["learn", "shop", *QUICK, "--resume", "--out", "run"]
    first = run(*line, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()}
    again = run(*line, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert again.stdout == "finished already: run/report.html\n"
    assert before == {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()}
    assert json.loads(run(*line, "--json", cwd=tmp_path).stdout)["episodes"] == 400
    other = run("learn", "shop", "--episodes", "401", "--resume", "--out", "run", cwd=tmp_path)
    assert other.returncode == 2
    assert "--resume: found a whole run with episodes = 400 in 'run', expected episodes = 401" in other.stderr


def test_earn_resumes_likewise(tmp_path):
    line = ["earn", "hard", "--episodes", "30", "--resume", "--out", "run"]
    assert run(*line, cwd=tmp_path).returncode == 0
    assert run(*line, cwd=tmp_path).stdout == "finished already: run/report.html\n"


def test_json_is_one_object_and_nothing_else(tmp_path):
    lines = {
        "learn": ["learn", "shop", *QUICK, "--out", "run"],
        "earn": ["earn", "hard", "--episodes", "30", "--out", "earned"],
        "evaluate": ["evaluate", "run/policy.safetensors", "shop"],
        "simulate": ["simulate", "shop", "--episodes", "300", "--out", "log.parquet"],
        "check": ["check", "log.parquet", "--contexts", "2"],
        "fit": ["fit", "log.parquet", "--resamples", "2", "--out", "fitted"],
        "posterior": ["posterior", "fitted", "log.parquet", "--out", "types.csv"],
        "compare": ["compare", "fitted", "fitted"],
        "envs": ["envs"],
        "describe": ["describe", "hard", "--episodes", "100"],
        "plan": ["plan", "hard", "--out", "plan.safetensors"],
        "explore": ["explore", "hard", "--episodes", "50", "--out", "moments.safetensors"],
        "recover": ["recover", "moments.safetensors"],
        "theory": ["theory", "--states", "4", "--actions", "4", "--horizon", "10"],
        "report": ["report", "run"],
    }
    said = {}
    for name, line in lines.items():
        done = run(*line, "--json", cwd=tmp_path)
        assert done.returncode == 0, (name, done.stderr)
        said[name] = json.loads(done.stdout)
        assert isinstance(said[name], dict)
        assert done.stdout.count("\n") == 1
    assert said["learn"]["report"] == "run/report.html"
    assert said["learn"]["answer"]["value"] == pytest.approx(said["evaluate"]["value"], abs=1e-12)
    assert said["evaluate"]["exact"] is True
    assert said["fit"]["episodes"] == said["check"]["episodes"] == said["posterior"]["episodes"] == 300
    assert {row["name"] for row in said["envs"]["problems"]} >= {"shop", "grid"}
    assert said["plan"]["lower"] <= said["plan"]["upper"]


def test_quiet_says_nothing_but_errors(tmp_path):
    done = run("learn", "shop", *QUICK, "--quiet", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    shown, code = on_a_terminal("envs", "--quiet", cwd=tmp_path)
    assert (shown, code) == ("", 0)
    wrong = run("learn", "shop", "--episodes", "0", "--quiet", "--out", "other", cwd=tmp_path)
    assert wrong.stderr == "rewardmix: episodes: found 0, expected a whole number of at least 1\n"
    both = run("envs", "--quiet", "--json")
    assert both.returncode == 2
    assert "--quiet: found --json beside it, expected one of the two" in both.stderr


def test_open_shows_the_page(tmp_path):
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > "{tmp_path}/opened"\n')
    browser.chmod(0o755)
    done = run("learn", "shop", *QUICK, "--open", "--out", "run", cwd=tmp_path, BROWSER=str(browser))
    assert done.returncode == 0, done.stderr
    for _ in range(100):
        if (tmp_path / "opened").exists() and (tmp_path / "opened").read_text():
            break
        time.sleep(0.1)
    assert (tmp_path / "opened").read_text() == (tmp_path / "run" / "report.html").as_uri()


@pytest.mark.parametrize(
    ("words", "offered"),
    [("rewardmix ev", "evaluate"), ("rewardmix learn sh", "shop"), ("rewardmix learn --ep", "--episodes")],
)
def test_shells_complete(words, offered):
    count = str(len(words.split()) - 1)
    done = run(_REWARDMIX_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=count)
    assert offered in done.stdout.split()
    assert "rewardmix" in run("--show-completion", "bash").stdout


def test_environments_with_other_rewards_are_learned_when_told(tmp_path):
    refused = run("learn", "CliffWalking-v1", "--horizon", "20", "--episodes", "5", cwd=tmp_path)
    assert refused.returncode == 2
    assert "expected one of the reward values [0.0, 1.0]; tell all of them: reward_values=(...)" in refused.stderr
    assert "--rewards" in refused.stderr
    told = ["--rewards", "-1,-100", "--horizon", "20", "--episodes", "30", "--validate", "5", "--out", "cliff"]
    done = run("learn", "CliffWalking-v1", *told, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "cliff" / "result.json").read_text())["world"]["reward_values"] == [-100.0, -1.0]
    assert "tried in 5 fresh episodes" in done.stdout


def test_every_stage_leaves_one_line_on_a_terminal(tmp_path):
    shown, code = on_a_terminal("learn", "shop", "--episodes", "400", "--out", "run", cwd=tmp_path)
    assert code == 0, shown
    for stage in ("explore: ", "recover: ", "plan: ", "bootstrap: 8 of 8"):
        assert shown.count(stage) >= 1, (stage, shown)


@pytest.mark.parametrize("columns", [50, 80])
def test_no_word_is_cut(columns, tmp_path):
    """Whatever is longer than a line goes on with a whole word in the next."""
    piped = run("learn", "shop", *QUICK, "--out", "run", cwd=tmp_path)
    shown, code = on_a_terminal("learn", "shop", *QUICK, "--out", "again", columns=columns, cwd=tmp_path)
    assert code == 0
    last = shown[shown.index(piped.stdout[:20]) :]
    assert max(map(len, last.splitlines())) <= columns
    seconds = ("in", "s")  # the time a run takes
    words = [word for word in piped.stdout.replace("run/", "again/").split() if word not in seconds]
    assert [word for word in words if word.isalpha()] == [
        word for word in last.split() if word.isalpha() and word not in seconds
    ]


def test_a_table_too_wide_becomes_paragraphs(tmp_path):
    wide = ["theory", "--states", "4", "--actions", "4", "--horizon", "10"]
    shown, code = on_a_terminal(*wide, columns=30)
    assert code == 0
    assert max(map(len, shown.splitlines())) <= 30
    assert "lower bound" in shown


def test_one_is_singular(tmp_path):
    done = run("simulate", "shop", "--episodes", "1", "--out", "log.csv", cwd=tmp_path)
    assert done.stdout == "1 episode of up to 10 steps in log.csv\n"
    done = run("learn", "shop", "--episodes", "1", cwd=tmp_path)
    assert "1 episode in" in done.stdout
    assert "1 episodes" not in done.stdout


@pytest.mark.parametrize("command", [["learn", "shop", *QUICK], ["earn", "hard", "--episodes", "5"]])
@pytest.mark.parametrize("out", ["/proc/x", "afile/x", "afile", "/dev/null/x", "x" * 300])
def test_bad_places_are_refused_in_one_line(command, out, tmp_path):
    (tmp_path / "afile").write_text("")
    done = run(*command, "--out", out, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("rewardmix: --out: found ")
    assert done.stderr.count("\n") == 1


def test_an_interrupt_is_answered_at_once(tmp_path):
    line = [*COMMAND, "learn", "rewardmix/Shop-v0", "--episodes", "1000000", "--out", str(tmp_path / "cut")]
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
        assert (
            "a result is being made of those that were played (recover, plan, bootstrap)" in process.stderr.readline()
        )
        assert process.poll() is None  # said while it is still at work
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    assert errors.splitlines()[-1].startswith("rewardmix: interrupted")


def test_a_killed_run_is_gone_on_with_and_then_done(tmp_path):
    line = ["learn", "random:states=6", "--episodes", "100000", "--resume", "--out", "killed"]
    kill_once_stored([*COMMAND, *line[:-1], str(tmp_path / "killed")], tmp_path / "killed")
    assert run(*line, cwd=tmp_path).returncode == 0
    assert run(*line, cwd=tmp_path).stdout.startswith("finished already")
