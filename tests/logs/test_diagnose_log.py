"""``diagnose`` on whatever can be read, and as a command: the dry run."""

import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import rewardmix
from oracles import log_statistics as oracles
from rewardmix import InputError, diagnose, logs
from rewardmix.diagnostics import run_assumption_tests
from rewardmix.logs import diagnose_log


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "rewardmix", *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )


def same(first, second):
    """Whether two check-ups found the same (NaN where a question could not be asked)."""
    return [str(finding) for finding in first.tests] == [str(finding) for finding in second.tests]


@pytest.mark.system
def test_a_log_is_checked_like_its_episodes(tmp_path):
    episodes = oracles.uniform_log(600)
    expected = run_assumption_tests(episodes)
    logs.write_log(tmp_path / "a.parquet", episodes)
    for log in (episodes, logs.read_log(episodes)):
        assert same(diagnose(log), expected)
    expected = run_assumption_tests(episodes, in_order=False)
    for log in (tmp_path / "a.parquet", pd.read_parquet(tmp_path / "a.parquet")):
        assert same(diagnose(log), expected)
    mixed = pd.read_parquet(tmp_path / "a.parquet").rename(columns={"state": "page", "next_state": "then"})
    assert same(diagnose(mixed, columns={"state": "page", "next_state": "then"}), expected)


def people(drift, seed=0, count=600, steps=5):
    """Rows of people, each an episode, whose rewards rise from the first to the last by ``drift``."""
    rng = np.random.default_rng(seed)
    prob = 0.4 + drift * (np.arange(count)[:, None] / count - 0.5)
    columns = {
        "episode": np.repeat(np.arange(count), steps),
        "step": np.tile(np.arange(steps), count),
        "state": rng.integers(2, size=count * steps),
        "action": rng.integers(2, size=count * steps),
        "reward": (rng.random((count, steps)) < prob).astype(int).ravel(),
    }
    return pd.DataFrame(columns)


def drift_of(log, **options):
    return next(finding for finding in diagnose(log, **options).tests if finding.assumption == "drift")


def test_rows_sorted_by_person_are_no_time_series():
    """Sorted by what people earn: no drift, for nobody says that the first came before the last."""
    finding = drift_of(people(drift=0.6))
    assert not finding.rejected
    assert math.isnan(finding.p_value)
    assert finding.text == (
        "Not tested whether the environment is constant from the first episode to the last: "
        "no time column gives the order of the episodes."
    )


def test_times_tell_the_order_of_episodes():
    rows = people(drift=0.6)
    rows["at"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(100 * rows["episode"] + rows["step"], unit="min")
    timed = {"columns": {"time": "at"}}
    assert drift_of(rows, **timed).p_value < 1e-6
    shuffled = np.random.default_rng(0).permutation(600)[rows["episode"]]  # the same people at other times
    rows["at"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(100 * shuffled + rows["step"], unit="min")
    assert drift_of(rows, **timed).p_value > 0.001
    rows["at"] = 7 * rows["step"]  # seconds since the session began
    assert math.isnan(drift_of(rows, **timed).p_value)


def test_files_have_to_follow_each_other_to_tell_the_order(tmp_path):
    rows = people(drift=0.0)
    rows["at"] = 100 * rows["episode"] + rows["step"]
    early = rows["episode"] < 300
    for name, half in (("a", rows[early]), ("b", rows[~early]), ("c", rows[rows["episode"] % 2 == 0])):
        half.to_parquet(tmp_path / f"{name}.parquet")
    timed = {"columns": {"time": "at"}}
    assert logs.read_log([tmp_path / "a.parquet", tmp_path / "b.parquet"], **timed).read_report.in_order
    assert not logs.read_log([tmp_path / "b.parquet", tmp_path / "a.parquet"], **timed).read_report.in_order
    assert not logs.read_log([tmp_path / "a.parquet", tmp_path / "c.parquet"], **timed).read_report.in_order


def test_a_fit_asks_about_drift_where_times_tell_the_order():
    rows = people(drift=0.6)
    quick = {"num_resamples": 0, "held_out_fraction": 0.0}
    assert "drift" not in {finding.assumption for finding in rewardmix.fit(rows, **quick).info.diagnostics.rejected}
    rows["at"] = 100 * rows["episode"] + rows["step"]
    result = rewardmix.fit(rows, columns={"time": "at"}, **quick)
    assert "drift" in {finding.assumption for finding in result.info.diagnostics.rejected}


def test_sessions_cut_out_of_visitors_are_in_order():
    rows = clicks_of(oracles.uniform_log(200))
    log = logs.read_log(rows, columns={"user": "user", "time": "at"}, session_gap="30m", num_reward_bins=2)
    assert log.read_report.in_order


@pytest.mark.system
def test_of_a_long_log_a_uniform_sample_is_checked(monkeypatch):
    log = logs.read_log(oracles.uniform_log(3000))
    monkeypatch.setattr(diagnose_log, "MAX_EPISODES_IN_MEMORY", 400)
    assert 300 < diagnose(log).num_episodes < 500
    assert diagnose(log, seed=1).num_episodes != diagnose(log, seed=2).num_episodes


@pytest.mark.system
def test_the_number_of_types_can_be_chosen():
    episodes = oracles.uniform_log(2000, num_types=3, seed=4)
    chosen = rewardmix.select_num_types(episodes).num_types
    assert same(diagnose(episodes, num_types="auto"), run_assumption_tests(episodes, num_types=chosen))


def test_what_cannot_be_checked_is_refused():
    log = logs.read_log(oracles.uniform_log(30))
    with pytest.raises(InputError, match="a Log and the read option 'horizon'"):
        diagnose(log, horizon=9)
    with pytest.raises(InputError, match="num_types"):
        diagnose(log, num_types="some")
    with pytest.raises(InputError, match="seed"):
        diagnose(log, seed=-1)


def clicks_of(episodes, seed=0):
    """Episodes as clicks of visitors, in any order: session k begins at minute 100 k."""
    rows = pd.DataFrame(oracles.rows_of(episodes))
    rows["user"] = [f"u{k % 37}" for k in rows["episode"]]
    rows["at"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(100 * rows["episode"] + rows["step"], unit="min")
    rows["reward"] += np.where(rows["reward"] > 0, (7 * rows["episode"] % 200) / 100, 0.0)
    return rows.drop(columns=["episode", "step"]).sample(frac=1.0, random_state=seed)


READ = [
    "--user-column", "user", "--time-column", "at", "--session-gap", "30m", "--num-reward-bins", "2",
    "--min-state-count", "2",
]  # fmt: skip


@pytest.mark.system
def test_the_dry_run_tells_repairs_sizes_and_assumptions(tmp_path):
    clicks_of(oracles.uniform_log(500)).to_csv(tmp_path / "clicks.csv", index=False)
    done = run("diagnose", "clicks.csv", *READ, "--num-types", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith("500 episodes, 3000 rows, from 2026-01-01 to 2026-02-04; 4 states, 3 actions, at most")
    assert "at most 6 steps; rewards 0.0" in lines[0]
    assert lines[1].startswith("- The rows of 37 users were split into 500 sessions at pauses of more than 30m in 'at'")
    assert lines[2].startswith("- 3000 rewards with ")
    assert any("actions depend on rewards" in line for line in lines)
    assert any("occur together in an episode" in line for line in lines)
    at = lines.index("assumption tests on 500 episodes:")
    assert len(lines[at + 1 :]) == 8
    assert list(tmp_path.iterdir()) == [tmp_path / "clicks.csv"]


@pytest.mark.system
def test_a_fit_takes_the_same_options(tmp_path):
    clicks_of(oracles.uniform_log(300)).to_parquet(tmp_path / "clicks.parquet")
    done = run("fit", "clicks.parquet", *READ, "--num-resamples", "0", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "- The rows of 37 users were split into 300 sessions" in done.stdout
    assert "were split into 300 sessions" in (tmp_path / "out" / "result.json").read_text()


@pytest.mark.system
@pytest.mark.parametrize("command", ["diagnose", "fit"])
@pytest.mark.parametrize("column", ["user", "at"])
def test_missing_visitors_and_times_leave_nothing_behind(command, column, tmp_path):
    rows = clicks_of(oracles.uniform_log(50))
    rows.loc[rows.index[17], column] = None
    rows.to_csv(tmp_path / "clicks.csv", index=False)
    done = run(command, "clicks.csv", *READ, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"rewardmix: column '{column}': got no value in 1 rows of clicks.csv")
    assert list(tmp_path.iterdir()) == [tmp_path / "clicks.csv"]
