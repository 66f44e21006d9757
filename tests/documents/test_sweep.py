"""Check sweeps: they resume after an interruption, and check their arguments."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.sweep import METHODS, SweepRow, load_rows, sweep

from oracles import log_statistics as oracles
from rewardmix import InputError

ROOT = Path(__file__).parents[2]


def run(*arguments, cwd):
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.sweep", *arguments],
        capture_output=True, text=True, check=False, cwd=cwd, env={**os.environ, "PYTHONPATH": paths},
    )  # fmt: skip


def test_a_sweep_resumes_after_an_interruption(tmp_path):
    model = oracles.make_random_model(states=2, actions=2, horizon=3)
    ran = []

    def counted(env, episodes, seed):
        ran.append((episodes, seed))
        if seed == 2 and len(ran) < 4:
            raise KeyboardInterrupt
        if seed == 3:
            raise InputError("data: got nothing, expected something")
        return METHODS["log"](env, episodes, seed)

    out = tmp_path / "a" / "results.parquet"
    with pytest.raises(KeyboardInterrupt):
        sweep({"small": model}, {"counted": counted}, [200], range(4), out)
    assert [row.seed for row in load_rows(out)] == [0, 1]
    rows = sweep({"small": model}, {"counted": counted}, [200], range(4), out)
    assert [seed for _, seed in ran] == [0, 1, 2, 2, 3]
    assert [row.error for row in rows] == ["", "", "", "data: got nothing, expected something"]
    assert all(row.regret > -1e-3 for row in rows[:3])
    assert set(pd.read_parquet(out).columns) == set(SweepRow.__dataclass_fields__)


def test_the_sweep_command(tmp_path):
    study = (
        'problems = ["random:states=2,actions=2,horizon=3"]\nmethods = ["learn", "log"]\nepisodes = [200]\nseeds = 1\n'
    )
    (tmp_path / "study.toml").write_text(study)
    done = run("study.toml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 results in study.parquet" in done.stdout
    (tmp_path / "study.toml").write_text(study.replace("log", "lag"))
    assert "methods: got 'lag', expected one of learn, paper, log" in run("study.toml", cwd=tmp_path).stderr
    (tmp_path / "study.toml").write_text("seeds = 1")
    assert "problems: got None, expected a list" in run("study.toml", cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("study", "message"),
    [
        ("problems = [1]\nmethods = []\nepisodes = []\nseeds = 1", "problems[0]: got 1, expected a text"),
        ("problems = []\nmethods = [['x']]\nepisodes = []\nseeds = 1", "methods[0]: got ['x'], expected a text"),
        ("more = 1\nproblems = []\nmethods = []\nepisodes = []\nseeds = 1", "got 'more', expected one of problems"),
    ],
)
def test_a_study_with_wrong_fields_is_refused(tmp_path, study, message):
    (tmp_path / "study.toml").write_text(study)
    assert message in run("study.toml", cwd=tmp_path).stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"problems": []}, "problems: got list"),
        ({"problems": {"a": 3}}, r"problems\['a'\]: got int"),
        ({"methods": {}}, "methods: got none"),
        ({"methods": {"a": 3}}, r"methods\['a'\]: got int"),
        ({"episodes": 10}, "episodes: got int"),
        ({"episodes": [10**400]}, "episodes: got 10+"),
        ({"episodes": [0]}, "episodes: got 0"),
        ({"episodes": [float("nan")]}, "episodes: got nan"),
        ({"seeds": [-1]}, "seeds: got -1"),
        ({"seeds": []}, "seeds: got none"),
        ({"seeds": range(10**400)}, "seeds: got more than can be counted"),
        ({"seeds": range(10**12)}, "sweep: got a need of about"),
        ({"out": "."}, "out: got a folder"),
        ({"out": 3}, "out: got int 3"),
        ({"executor": 3}, "executor: got int"),
        ({"callback": 3}, "callback: got 3"),
    ],
)
def test_arguments_of_sweep_are_refused_by_name(tmp_path, options, message):
    arguments = {"problems": {"a": oracles.make_random_model()}, "methods": METHODS, "episodes": [10], "seeds": [0]}
    arguments |= {"out": tmp_path / "a.parquet", **options}
    with pytest.raises(InputError, match=message):
        sweep(**arguments)


def test_edited_results_of_a_sweep_are_refused(tmp_path):
    row = {**vars(SweepRow("a", "log", 10, 0)), "value": "high"}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="column 'value': got 'high' in row 0 of"):
        load_rows(tmp_path / "a.parquet")
