"""Sweeps go on where they were stopped."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.sweep import METHODS, Row, stored_rows, sweep

from logs import oracles_logs as oracles
from rewardmix import InputError

ROOT = Path(__file__).parents[2]


def run(*arguments, cwd):
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.sweep", *arguments],
        capture_output=True, text=True, check=False, cwd=cwd, env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip


def test_a_sweep_goes_on_where_it_was_stopped(tmp_path):
    model = oracles.world(states=2, actions=2, horizon=3)
    ran = []

    def counted(world, episodes, seed):
        ran.append((episodes, seed))
        if seed == 2 and len(ran) < 4:
            raise KeyboardInterrupt
        if seed == 3:
            raise InputError("data: found nothing, expected something")
        return METHODS["log"](world, episodes, seed)

    out = tmp_path / "a" / "results.parquet"
    with pytest.raises(KeyboardInterrupt):
        sweep({"small": model}, {"counted": counted}, [200], range(4), out)
    assert [row.seed for row in stored_rows(out)] == [0, 1]
    rows = sweep({"small": model}, {"counted": counted}, [200], range(4), out)
    assert [seed for _, seed in ran] == [0, 1, 2, 2, 3]
    assert [row.error for row in rows] == ["", "", "", "data: found nothing, expected something"]
    assert all(row.regret > -1e-3 for row in rows[:3])
    assert set(pd.read_parquet(out).columns) == set(Row.__dataclass_fields__)


def test_the_sweep_command(tmp_path):
    study = (
        'problems = ["random:states=2,actions=2,horizon=3"]\nmethods = ["learn", "log"]\nepisodes = [200]\nseeds = 1\n'
    )
    (tmp_path / "study.toml").write_text(study)
    done = run("study.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 results in study.parquet" in done.stdout
    (tmp_path / "study.toml").write_text(study.replace("log", "lag"))
    assert "methods: found 'lag', expected one of learn, paper, log" in run("study.toml", cwd=tmp_path).stderr
    (tmp_path / "study.toml").write_text("seeds = 1")
    assert "problems: found None, expected a list" in run("study.toml", cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("study", "message"),
    [
        ("problems = [1]\nmethods = []\nepisodes = []\nseeds = 1", "problems[0]: found 1, expected a text"),
        ("problems = []\nmethods = [['x']]\nepisodes = []\nseeds = 1", "methods[0]: found ['x'], expected a text"),
        ("more = 1\nproblems = []\nmethods = []\nepisodes = []\nseeds = 1", "found 'more', expected one of problems"),
    ],
)
def test_a_study_with_wrong_fields_is_refused(tmp_path, study, message):
    (tmp_path / "study.toml").write_text(study)
    assert message in run("study.toml", cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"problems": []}, "problems: found list"),
        ({"problems": {"a": 3}}, r"problems\['a'\]: found int"),
        ({"methods": {}}, "methods: found none"),
        ({"methods": {"a": 3}}, r"methods\['a'\]: found int"),
        ({"episodes": 10}, "episodes: found int"),
        ({"episodes": [10**400]}, "episodes: found 10+"),
        ({"episodes": [0]}, "episodes: found 0"),
        ({"episodes": [float("nan")]}, "episodes: found nan"),
        ({"seeds": [-1]}, "seeds: found -1"),
        ({"seeds": []}, "seeds: found none"),
        ({"seeds": range(10**400)}, "seeds: found more than can be counted"),
        ({"seeds": range(10**12)}, "sweep: found a need of about"),
        ({"out": "."}, "out: found a folder"),
        ({"out": 3}, "out: found int 3"),
        ({"executor": 3}, "executor: found int"),
        ({"on_update": 3}, "on_update: found 3"),
    ],
)
def test_arguments_of_sweep_are_refused_by_name(tmp_path, options, message):
    asked = {"problems": {"a": oracles.world()}, "methods": METHODS, "episodes": [10], "seeds": [0]}
    asked |= {"out": tmp_path / "a.parquet", **options}
    with pytest.raises(InputError, match=message):
        sweep(**asked)


def test_results_of_a_sweep_that_somebody_changed_are_refused(tmp_path):
    row = {**vars(Row("a", "log", 10, 0)), "value": "high"}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="column 'value': found 'high' in row 0 of"):
        stored_rows(tmp_path / "a.parquet")
