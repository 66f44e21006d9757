"""Test the commands on logs in subprocesses."""

import json
import subprocess
import sys

import pandas as pd
import pytest

from oracles import log_statistics as oracles
from rewardmix import load, logs


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "rewardmix", *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )


def test_simulate_then_fit(tmp_path):
    problem = "random:states=3,actions=2,horizon=4"
    done = run("simulate", problem, "--policy", "uniform", "--num-episodes", "600", "--out", "s.parquet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = run(
        "fit",
        "s.parquet",
        "--num-types",
        "auto",
        "--horizon",
        "4",
        "--num-resamples",
        "2",
        "--out",
        "out",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "600 episodes, 2400 rows; 1 type with" in done.stdout
    assert "actions depend on rewards of the episode" in done.stdout
    assert done.stderr == ""
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert [section["title"] for section in result["sections"]][:2] == ["Behavior policy", "Coverage of the log"]
    assert result["metadata"]["fit"]["notes"]["num_rows"] == 2400
    assert "Behavior policy" in (tmp_path / "out" / "report.html").read_text()
    assert load(tmp_path / "out" / "model.safetensors").horizon == 4
    assert load(tmp_path / "out" / "moments.safetensors").num_episodes == 600
    again = run(
        "simulate",
        problem,
        "--policy",
        "out/policy.safetensors",
        "--num-episodes",
        "20",
        "--out",
        "t.csv",
        cwd=tmp_path,
    )
    assert again.returncode == 0, again.stderr
    assert len(logs.read_log(tmp_path / "t.csv")) == 20


def test_drop_invalid_and_column_names(tmp_path):
    rows = oracles.rows_of(oracles.uniform_log(200, states=2, actions=2, horizon=3))
    rows["reward"][4] = float("nan")
    frame = pd.DataFrame(rows).rename(columns={"state": "page"})
    frame.to_csv(tmp_path / "s.csv", index=False)
    options = ["fit", "s.csv", "--columns", "state=page", "--num-resamples", "0", "--out", "out"]
    done = run(*options, cwd=tmp_path)
    assert done.returncode == 2
    assert "rewards that are NaN or missing: 1, first in episode 1, step 1" in done.stderr
    assert "Traceback" not in done.stderr
    done = run(*options, "--drop-invalid", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 of 200 episodes were invalid and dropped" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "none.parquet"], "source: got no file at 'none.parquet'"),
        (["fit", "none.parquet", "--num-types", "two"], "rewardmix: --num-types: got 'two'"),
        (["simulate", "shp", "--out", "a.parquet"], "MODEL: got 'shp'"),
        (["simulate", "hard", "--out", "no/where.parquet"], "--out: got no folder 'no'"),
        (["simulate", "hard", "--policy", "best", "--out", "a.parquet"], "--policy: got 'best'"),
    ],
)
def test_wrong_input_ends_with_2_and_one_clear_line(tmp_path, arguments, message):
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def make_invalid_log(column, value):
    """Return a log of users with one invalid value in one column."""
    rows = pd.DataFrame(oracles.rows_of(oracles.uniform_log(60)))
    rows["user"] = [f"u{episode}" for episode in rows["episode"]]
    rows["time"] = pd.Timestamp("2026-11-02") + pd.to_timedelta(60 * rows["step"], unit="s")
    rows["propensity"] = 1 / 3
    rows.loc[7, column] = value
    return rows.drop(columns=["episode", "step"])


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("propensity", 0.0, "propensities that are not above 0 and at most 1: 1"),
        ("propensity", 1.5, "propensities that are not above 0 and at most 1: 1"),
        ("time", pd.NaT, "column 'time': got no value in 1 rows"),
        ("user", None, "column 'user': got no value in 1 rows"),
    ],
)
def test_bad_rows_are_refused_by_name_and_nothing_is_written(tmp_path, column, value, message):
    make_invalid_log(column, value).to_parquet(tmp_path / "log.parquet")
    options = ["--user-column", "user", "--time-column", "time", "--session-gap", "1h"]
    done = run("fit", "log.parquet", *options, "--num-resamples", "0", "--out", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]
