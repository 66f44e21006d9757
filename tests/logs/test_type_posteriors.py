"""Week after week: which session was of which type, and fits that go on from an earlier one."""

import csv
import math
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rewardmix
from oracles import log_statistics as oracles
from rewardmix import InputError, fit, load, logs, simulate, uniform_policy
from rewardmix.cli import main
from rewardmix.logs.log_writer import write_table

MODEL = oracles.make_random_model()
EPISODES = oracles.shortened(oracles.uniform_log(150))


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "rewardmix", *arguments], capture_output=True, text=True, check=False, cwd=cwd
    )


def posteriors_by_hand(model, episodes):
    """Bayes' rule, step by step."""
    out = []
    for k in range(len(episodes)):
        joint = [float(weight) for weight in model.weights]
        for t in range(int(episodes.lengths[k])):
            s, a, z = episodes.states[k, t], episodes.actions[k, t], episodes.reward_indices[k, t]
            joint = [joint[m] * float(model.reward_probs[m, s, a, z]) for m in range(len(joint))]
        out.append([prob / math.fsum(joint) for prob in joint])
    return np.array(out)


def posteriors_of(table):
    columns = [name for name in table.column_names if name.startswith("prob_")]
    return np.stack([table.column(name).to_numpy() for name in columns], axis=1)


def named_rows(seed=0):
    """The rows of the episodes, which are called by words, in any order; and the words in the order of the rows."""
    frame = pd.DataFrame(oracles.rows_of(EPISODES))
    frame["episode"] = [f"visit {k * 7919 % 1000:03d}" for k in frame["episode"]]
    return frame if seed is None else frame.sample(frac=1.0, random_state=seed)


@pytest.mark.parametrize("kind", ["episodes", "table", "parquet", "csv", "unsorted"])
def test_chances_are_those_of_bayes_rule_and_rows_are_named(kind, tmp_path):
    expected = posteriors_by_hand(MODEL, EPISODES)
    frame = named_rows(0 if kind == "unsorted" else None)
    source, order = frame, list(dict.fromkeys(frame["episode"]))
    index_of = {f"visit {k * 7919 % 1000:03d}": k for k in range(len(EPISODES))}
    if kind == "episodes":
        source, order, index_of = EPISODES, list(range(150)), {k: k for k in range(150)}
    elif kind == "parquet":
        source = tmp_path / "a.parquet"
        frame.to_parquet(source, row_group_size=23)  # cuts episodes
    elif kind == "csv":
        source = tmp_path / "a.csv"
        frame.to_csv(source, index=False)
    reading = {} if kind == "episodes" else {"rows_per_partition": 40}
    table = logs.infer_types(MODEL, source, **reading)
    assert table.column("episode").to_pylist() == order
    result = posteriors_of(table)
    assert np.allclose(result, expected[[index_of[name] for name in order]], atol=1e-12)
    assert table.column("type").to_pylist() == (result.argmax(axis=1) + 1).tolist()


def test_bad_episodes_are_not_in_the_table():
    frame = named_rows(None)
    names = list(dict.fromkeys(frame["episode"]))
    bad = [names[0], names[70], names[149]]
    for name in bad:
        frame.loc[frame.index[frame["episode"] == name][0], "reward"] = float("nan")
    table = logs.infer_types(MODEL, frame, drop_invalid=1.0, rows_per_partition=30)
    assert table.column("episode").to_pylist() == [name for name in names if name not in bad]
    valid = [k for k, name in enumerate(names) if name not in bad]
    assert np.allclose(posteriors_of(table), posteriors_by_hand(MODEL, EPISODES)[valid], atol=1e-12)


@pytest.mark.parametrize("stored", [False, True])
def test_sessions_of_visitors_are_told_by_visitor_and_time(stored, tmp_path):
    frame = pd.DataFrame(oracles.rows_of(EPISODES))
    began = pd.Timestamp("2026-01-01") + pd.to_timedelta(100 * frame["episode"], unit="min")
    frame["user"], frame["at"] = frame["episode"] % 7, began + pd.to_timedelta(frame["step"], unit="min")
    rows = frame.drop(columns=["episode", "step"]).sample(frac=1.0, random_state=2)
    source = rows
    if stored:
        source = tmp_path / "a.parquet"
        rows.to_parquet(source)
    table = logs.infer_types(
        MODEL, source, columns={"user": "user", "time": "at"}, session_gap="30m", rows_per_partition=100
    )
    assert table.column_names[:3] == ["session", "user", "at"]
    assert table.column("user").to_pylist() == [k % 7 for k in range(150)]
    assert [pd.Timestamp(at) for at in table.column("at").to_pylist()] == sorted(set(began))
    assert np.allclose(posteriors_of(table), posteriors_by_hand(MODEL, EPISODES), atol=1e-12)


@pytest.mark.system
def test_several_processes_give_the_same_table(tmp_path):
    named_rows(None).to_parquet(tmp_path / "a.parquet", row_group_size=50)
    alone = logs.infer_types(MODEL, tmp_path / "a.parquet", rows_per_partition=50)
    with logs.process_pool(2) as pool:
        assert logs.infer_types(MODEL, tmp_path / "a.parquet", rows_per_partition=50, executor=pool).equals(alone)


OTHERS = [
    ({"states": 5}, r"got 5 states, expected 4 states"),
    ({"actions": 2}, r"got 2 actions, expected 3 actions"),
    ({"reward_values": (0.0, 2.0)}, r"got reward values without 1.0"),
]


@pytest.mark.parametrize(("options", "message"), OTHERS)
def test_a_model_of_another_world_is_refused_by_name(options, message):
    other, log = oracles.make_random_model(**options), logs.read_log(oracles.uniform_log(50))
    with pytest.raises(InputError, match=f"model: {message}"):
        logs.infer_types(other, log)
    with pytest.raises(InputError, match=f"init_model: {message}"):
        fit(log, init_model=other)


def test_other_names_are_another_world():
    from dataclasses import replace

    model = replace(MODEL, state_names=("a", "b", "c", "d"))
    log = logs.read_log(EPISODES, state_names=("a", "b", "x", "d"))
    with pytest.raises(InputError, match=r"model: got 'c' as the name of state 2, expected 'x', as in the log"):
        logs.infer_types(model, log)
    with pytest.raises(InputError, match=r"model: got str, expected a RewardMixingMDP"):
        logs.infer_types("shop", log)


def test_a_log_of_the_same_world_is_read_with_its_names():
    shop = rewardmix.problems.make_model("shop")
    first = simulate(uniform_policy(shop), shop, 400)
    rows = pd.DataFrame(oracles.rows_of(first))
    rows["state"] = [shop.state_names[s] for s in rows["state"]]
    rows["action"] = [shop.action_names[a] for a in rows["action"]]
    fitted = fit(rows, num_resamples=0, held_out_fraction=0)
    few = rows[rows["episode"] == 0]  # not every page is in it
    assert len(logs.infer_types(fitted, few)) == 1
    assert (
        fit(rows[rows["episode"] < 50], init_model=fitted, num_resamples=0).model.state_names
        == fitted.model.state_names
    )


def test_the_end_of_episodes_is_no_page_of_a_log():
    rows = pd.DataFrame(oracles.rows_of(EPISODES))
    rows["state"] = [f"s{s}" for s in rows["state"]]
    fitted = fit(rows, num_resamples=0, held_out_fraction=0)
    assert fitted.model.state_names[-1] == "end"
    again = fit(rows, init_model=fitted, num_resamples=0, held_out_fraction=0)
    assert again.model.state_names == fitted.model.state_names
    assert np.allclose(again.model.rewards, fitted.model.rewards, atol=1e-6)


@pytest.mark.statistical
@pytest.mark.parametrize("num_types", [2, 3])
def test_types_keep_the_order_of_the_start(num_types):
    model = oracles.make_random_model(num_types=num_types, seed=5)
    log = logs.read_log(simulate(uniform_policy(model), model, 4000, seed=1))
    cold = fit(log, num_types=num_types, num_resamples=0, held_out_fraction=0)
    turned = np.roll(np.arange(num_types), 1)
    from dataclasses import replace

    start = replace(cold.model, weights=cold.model.weights[turned], rewards=cold.model.rewards[turned])
    warm = fit(log, init_model=start, num_resamples=0, held_out_fraction=0)
    assert warm.model.num_types == num_types
    assert np.allclose(warm.model.rewards, start.rewards, atol=1e-3)
    assert warm.info.recovery.loglik >= cold.info.recovery.loglik - 1e-4
    assert warm.info.recovery.em_runs[0].init_name == "earlier model"


def test_a_long_log_keeps_the_order_too(monkeypatch):
    from rewardmix.logs import fitting

    model = oracles.make_random_model(seed=5)
    log = logs.read_log(simulate(uniform_policy(model), model, 3000, seed=1))
    cold = fit(log, num_resamples=0, held_out_fraction=0)
    from dataclasses import replace

    start = replace(cold.model, weights=cold.model.weights[::-1], rewards=cold.model.rewards[::-1])
    monkeypatch.setattr(fitting, "MAX_EPISODES_IN_MEMORY", 1000)
    warm = fit(log, init_model=start, num_resamples=0, held_out_fraction=0)
    assert np.abs(warm.model.rewards - start.rewards).max() < 0.2
    assert warm.info.num_em_passes > 0


def test_a_start_says_how_many_types_there_are():
    with pytest.raises(InputError, match="num_types: got 3, expected 2, the number of types of init_model"):
        fit(EPISODES, init_model=MODEL, num_types=3)
    with pytest.raises(InputError, match="num_types: got 'auto', expected 2"):
        fit(EPISODES, init_model=MODEL, num_types="auto")


@pytest.mark.system
def test_the_commands(tmp_path):
    logs.write_log(tmp_path / "a.parquet", oracles.uniform_log(500))
    assert run("fit", "a.parquet", "--num-resamples", "0", "--out", "one", cwd=tmp_path).returncode == 0
    done = run("fit", "a.parquet", "--init-model", "one", "--num-resamples", "0", "--out", "two", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for out in ("types.parquet", "types.csv"):
        done = run("infer-types", "two", "a.parquet", "--out", out, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[0].startswith("type 1: most probable in ")
    table = pq.read_table(tmp_path / "types.parquet")
    assert table.column_names == ["episode", "type", "prob_1", "prob_2"]
    assert pd.read_csv(tmp_path / "types.csv")["type"].tolist() == table.column("type").to_pylist()
    done = run("infer-types", "random:states=3,actions=2", "a.parquet", "--out", "no.parquet", cwd=tmp_path)
    assert done.returncode == 2
    assert not (tmp_path / "no.parquet").exists()
    done = run("fit", "a.parquet", "--init-model", "random:states=3,actions=2", "--out", "no", cwd=tmp_path)
    assert done.returncode == 2
    assert not (tmp_path / "no").exists()
    assert pa.types.is_integer(table.schema.field("type").type)


def test_a_small_log_of_an_earlier_run_keeps_its_policy(tmp_path):
    """The folder of the run has the policy; a folder with its model alone, or a model, has none."""
    fit(oracles.uniform_log(500), num_resamples=0, held_out_fraction=0.0).save(tmp_path / "one")
    earlier = load(tmp_path / "one")
    logs.write_log(tmp_path / "b.parquet", simulate(earlier.policy, earlier.model, 200, seed=4))
    options = ["--num-resamples", "0", "--init-model"]
    done = run("fit", "b.parquet", *options, "one", "--out", "two", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    policy = load(tmp_path / "two").policy
    for actions, other in zip(policy.actions, earlier.policy.actions, strict=True):
        assert np.array_equal(actions, other)
    assert "The plan is the given policy" in (tmp_path / "two" / "report.html").read_text()
    (tmp_path / "model").mkdir()
    shutil.copy(tmp_path / "one" / "model.safetensors", tmp_path / "model")
    for start in ("model", "model/model.safetensors"):
        done = run("fit", "b.parquet", *options, start, "--out", "three", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "The plan is the given policy" not in (tmp_path / "three" / "report.html").read_text()


IDS = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "'=x", "'", "plain", "x=1", "ann", None]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_ids_that_begin_like_formulas_are_written_as_text_on_request(kind, tmp_path):
    ids = pa.array(IDS, pa.string()).cast(kind)
    table = pa.table({"=user": ids, "prob_1": [-0.5] * len(IDS), "type": [1] * len(IDS)})
    write_table(tmp_path / "safe.csv", table, safe_cells=True)
    with open(tmp_path / "safe.csv", newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header == ["'=user", "prob_1", "type"]
    for row, name in zip(rows, IDS, strict=True):
        assert row[0][:1] not in tuple("=+-@\t\r")
        assert (row[0][1:] if row[0][:1] == "'" else row[0]) == (name or "")  # every id comes back, and is another one
        assert row[1:] == ["-0.5", "1"]
    assert len({row[0] for row in rows}) == len(IDS)
    write_table(tmp_path / "as they are.csv", table.set_column(0, "=user", ids.cast(pa.string())))
    with open(tmp_path / "as they are.csv", newline="", encoding="utf-8") as file:
        assert [row[0] for row in csv.reader(file)] == ["=user", *(name or "" for name in IDS)]
    with pytest.raises(InputError, match="safe_cells: got True for .*parquet', expected a CSV file"):
        write_table(tmp_path / "a.parquet", table, safe_cells=True)


def test_the_command_writes_safe_cells_on_request(tmp_path, capsys):
    frame = named_rows(None)
    frame["episode"] = "=" + frame["episode"]
    frame.to_parquet(tmp_path / "log.parquet")
    rewardmix.save(tmp_path / "model", MODEL)
    for options, first in (([], "="), (["--safe-cells"], "'=")):
        command = [
            "infer-types",
            str(tmp_path / "model"),
            str(tmp_path / "log.parquet"),
            "--out",
            str(tmp_path / "x.csv"),
        ]
        with pytest.raises(SystemExit) as done:
            main([*command, *options])
        assert done.value.code == 0
        cells = pd.read_csv(tmp_path / "x.csv")["episode"]
        assert cells.str.startswith(first).all()
    with pytest.raises(SystemExit) as done:
        main([*command[:-1], str(tmp_path / "x.parquet"), "--safe-cells"])
    assert done.value.code == 2
    assert "--safe-cells: got " in capsys.readouterr().err
