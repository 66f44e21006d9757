"""``check`` on whatever can be read, and as a command: the dry run."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import rewardmix
from logs import oracles_logs as oracles
from rewardmix import InputError, check, logs
from rewardmix.checkup import check_assumptions
from rewardmix.logs import inspection


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "rewardmix", *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )


def same(one, two):
    """Whether two check-ups found the same (NaN where a question could not be asked)."""
    return [str(finding) for finding in one.findings] == [str(finding) for finding in two.findings]


def test_a_log_is_checked_like_its_episodes(tmp_path):
    episodes = oracles.uniform_log(600)
    wanted = check_assumptions(episodes)
    logs.write(tmp_path / "a.parquet", episodes)
    for log in (episodes, logs.read(episodes), tmp_path / "a.parquet", pd.read_parquet(tmp_path / "a.parquet")):
        assert same(check(log), wanted)
    mixed = pd.read_parquet(tmp_path / "a.parquet").rename(columns={"state": "page", "next_state": "then"})
    assert same(check(mixed, columns={"state": "page", "next_state": "then"}), wanted)


def test_of_a_long_log_a_uniform_sample_is_checked(monkeypatch):
    log = logs.read(oracles.uniform_log(3000))
    monkeypatch.setattr(inspection, "SAMPLE", 400)
    assert 300 < check(log).episodes < 500
    assert check(log, seed=1).episodes != check(log, seed=2).episodes


def test_the_number_of_types_can_be_chosen():
    episodes = oracles.uniform_log(2000, contexts=3, seed=4)
    chosen = rewardmix.choose_contexts(episodes).num_contexts
    assert same(check(episodes, num_contexts="auto"), check_assumptions(episodes, num_contexts=chosen))


def test_what_cannot_be_checked_is_refused():
    log = logs.read(oracles.uniform_log(30))
    with pytest.raises(InputError, match="'horizon' for a log that was read already"):
        check(log, horizon=9)
    with pytest.raises(InputError, match="num_contexts"):
        check(log, num_contexts="some")
    with pytest.raises(InputError, match="seed"):
        check(log, seed=-1)


def clicks_of(episodes, seed=0):
    """Episodes as clicks of visitors, in any order: session k begins at minute 100 k."""
    rows = pd.DataFrame(oracles.rows_of(episodes))
    rows["user"] = [f"u{k % 37}" for k in rows["episode"]]
    rows["at"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(100 * rows["episode"] + rows["step"], unit="min")
    rows["reward"] += np.where(rows["reward"] > 0, (7 * rows["episode"] % 200) / 100, 0.0)
    return rows.drop(columns=["episode", "step"]).sample(frac=1.0, random_state=seed)


READ = ["--visitor", "user", "--time", "at", "--gap", "30m", "--bins", "2", "--fold", "2"]


def test_the_dry_run_tells_repairs_sizes_and_assumptions(tmp_path):
    clicks_of(oracles.uniform_log(500)).to_csv(tmp_path / "clicks.csv", index=False)
    done = run("check", "clicks.csv", *READ, "--contexts", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith("500 episodes, 3000 rows, from 2026-01-01 to 2026-02-04; 4 states, 3 actions, at most")
    assert "at most 6 steps; rewards 0.0" in lines[0]
    assert lines[1].startswith("- 500 sessions were cut out of the rows of 37 visitors, where 'at' paused for more")
    assert lines[2].startswith("- 3000 rewards of ")
    assert any("actions followed rewards" in line for line in lines)
    assert any("seen together in an episode" in line for line in lines)
    at = lines.index("assumptions, asked of 500 episodes:")
    assert len(lines[at + 1 :]) == 6
    assert list(tmp_path.iterdir()) == [tmp_path / "clicks.csv"]


def test_a_fit_takes_the_same_options(tmp_path):
    clicks_of(oracles.uniform_log(300)).to_parquet(tmp_path / "clicks.parquet")
    done = run("fit", "clicks.parquet", *READ, "--resamples", "0", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "- 300 sessions were cut out of the rows of 37 visitors" in done.stdout
    assert "300 sessions were cut out" in (tmp_path / "out" / "result.json").read_text()


@pytest.mark.parametrize("command", ["check", "fit"])
@pytest.mark.parametrize("column", ["user", "at"])
def test_missing_visitors_and_times_leave_nothing_behind(command, column, tmp_path):
    rows = clicks_of(oracles.uniform_log(50))
    rows.loc[rows.index[17], column] = None
    rows.to_csv(tmp_path / "clicks.csv", index=False)
    done = run(command, "clicks.csv", *READ, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"rewardmix: column '{column}': found nothing in 1 rows of clicks.csv")
    assert list(tmp_path.iterdir()) == [tmp_path / "clicks.csv"]
