"""The commands on logs, as a person types them."""

import json
import subprocess
import sys

import pandas as pd
import pytest

from logs import oracles_logs as oracles
from rewardmix import load, logs


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "rewardmix", *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )


def test_simulate_then_fit(tmp_path):
    problem = "random:states=3,actions=2,horizon=4"
    done = run("simulate", problem, "--policy", "uniform", "--episodes", "600", "--out", "s.parquet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = run(
        "fit", "s.parquet", "--contexts", "auto", "--horizon", "4", "--resamples", "2", "--out", "out", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "600 episodes, 2400 rows; 1 type with" in done.stdout
    assert "actions followed rewards" in done.stdout
    assert done.stderr == ""
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert [section["title"] for section in result["sections"]][:2] == ["How the log was made", "What the log holds"]
    assert result["record"]["fit"]["notes"]["rows"] == 2400
    assert "How the log was made" in (tmp_path / "out" / "report.html").read_text()
    assert load(tmp_path / "out" / "model.safetensors").horizon == 4
    assert load(tmp_path / "out" / "moments.safetensors").episodes == 600
    again = run(
        "simulate", problem, "--policy", "out/policy.safetensors", "--episodes", "20", "--out", "t.csv", cwd=tmp_path
    )
    assert again.returncode == 0, again.stderr
    assert len(logs.read(tmp_path / "t.csv")) == 20


def test_skip_bad_and_column_names(tmp_path):
    rows = oracles.rows_of(oracles.uniform_log(200, states=2, actions=2, horizon=3))
    rows["reward"][4] = float("nan")
    frame = pd.DataFrame(rows).rename(columns={"state": "page"})
    frame.to_csv(tmp_path / "s.csv", index=False)
    options = ["fit", "s.csv", "--columns", "state=page", "--resamples", "0", "--out", "out"]
    done = run(*options, cwd=tmp_path)
    assert done.returncode == 2
    assert "rewards that are NaN or missing: 1, first in episode 1, step 1" in done.stderr
    assert "Traceback" not in done.stderr
    done = run(*options, "--skip-bad", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1 of 200 episodes were bad and left out" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "none.parquet"], "source: found no file at 'none.parquet'"),
        (["fit", "none.parquet", "--contexts", "two"], "rewardmix: --contexts: found 'two'"),
        (["simulate", "shp", "--out", "a.parquet"], "MODEL: found 'shp'"),
        (["simulate", "hard", "--out", "no/where.parquet"], "--out: found no folder 'no'"),
        (["simulate", "hard", "--policy", "best", "--out", "a.parquet"], "--policy: found 'best'"),
    ],
)
def test_wrong_input_ends_with_2_and_one_clear_line(tmp_path, arguments, message):
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def spoiled(column, value):
    """A log of visitors, one row of which has no sense in one column."""
    rows = pd.DataFrame(oracles.rows_of(oracles.uniform_log(60)))
    rows["visitor"] = [f"v{episode}" for episode in rows["episode"]]
    rows["time"] = pd.Timestamp("2026-11-02") + pd.to_timedelta(60 * rows["step"], unit="s")
    rows["propensity"] = 1 / 3
    rows.loc[7, column] = value
    return rows.drop(columns=["episode", "step"])


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("propensity", 0.0, "propensities that are no chance above 0 and at most 1: 1"),
        ("propensity", 1.5, "propensities that are no chance above 0 and at most 1: 1"),
        ("time", pd.NaT, "column 'time': found nothing in 1 rows"),
        ("visitor", None, "column 'visitor': found nothing in 1 rows"),
    ],
)
def test_bad_rows_are_refused_by_name_and_nothing_is_written(tmp_path, column, value, message):
    spoiled(column, value).to_parquet(tmp_path / "log.parquet")
    options = ["--visitor", "visitor", "--time", "time", "--gap", "1h"]
    done = run("fit", "log.parquet", *options, "--resamples", "0", "--out", "run", cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]
