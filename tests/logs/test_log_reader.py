"""Logs in and out: every form gives the same episodes, every problem has its count and first offender."""

import re
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oracles import log_statistics as oracles
from rewardmix import InputError, logs
from rewardmix.moments import Moments

EPISODES = oracles.uniform_log(300)


@pytest.mark.parametrize("episodes", [EPISODES, oracles.shortened(EPISODES)], ids=["whole", "ended early"])
@pytest.mark.parametrize("name", ["a.parquet", "a.csv"])
@pytest.mark.parametrize("named", [False, True])
def test_what_is_written_is_read(tmp_path, episodes, name, named):
    names = {"state_names": ["d", "b", "c", "a"], "action_names": ["x", "y", "w"]} if named else {}
    logs.write_log(tmp_path / name, episodes, rows_per_group=100, **names)
    back = logs.read_log(tmp_path / name, rows_per_partition=100, horizon=6, **names)
    assert oracles.same(back.episodes(), episodes)
    assert back.moments == Moments.from_episodes(episodes)
    assert back.read_report.num_split_episodes == 0
    if named and name == "a.parquet":  # the file keeps the order of the names
        assert logs.read_log(tmp_path / name).schema.state_names == ("d", "b", "c", "a")


def test_row_groups_are_cut_between_episodes(tmp_path):
    logs.write_log(tmp_path / "a.parquet", [EPISODES[:100], EPISODES[100:]], rows_per_group=77)
    file = pq.ParquetFile(tmp_path / "a.parquet")
    borders = [file.read_row_group(g, columns=["episode"])["episode"].to_numpy() for g in range(file.num_row_groups)]
    assert file.num_row_groups > 20
    assert all(first[-1] < second[0] for first, second in pairwise(borders))
    assert logs.read_log(tmp_path / "a.parquet").moments == Moments.from_episodes(EPISODES)


@pytest.mark.parametrize("size", [2, 5, 7, 100])
def test_row_groups_that_cut_episodes_lose_nothing(tmp_path, size):
    episodes = EPISODES[:20]
    pq.write_table(pa.table(oracles.rows_of(episodes)), tmp_path / "a.parquet", row_group_size=size)
    log = logs.read_log(tmp_path / "a.parquet", rows_per_partition=size, num_states=4, num_actions=3)
    assert log.read_report.num_split_episodes > 0
    assert len(log) == 20
    whole = logs.read_log(pa.table(oracles.rows_of(episodes)), num_states=4, num_actions=3)
    assert log.moments == whole.moments
    assert oracles.same(log.episodes(), whole.episodes())


def test_batches_smaller_than_a_row_group_lose_nothing(tmp_path, monkeypatch):
    from rewardmix.logs import arrow_io

    monkeypatch.setattr(arrow_io, "BATCH_ROWS", 10)
    pq.write_table(pa.table(oracles.rows_of(EPISODES)), tmp_path / "a.parquet")
    log = logs.read_log(tmp_path / "a.parquet", num_states=4, num_actions=3)
    assert len(log) == 300
    assert log.moments.pair_samples.sum() == Moments.from_episodes(EPISODES).pair_samples.sum()


@pytest.mark.parametrize("frame", [pa.table, pd.DataFrame, pl.DataFrame])
def test_tables_in_memory(frame):
    rows = oracles.rows_of(EPISODES)
    log = logs.read_log(frame(rows), rows_per_partition=100, num_states=4, num_actions=3)
    assert len(log.partitions) > 10
    assert np.array_equal(log.moments.reward_counts, Moments.from_episodes(EPISODES).reward_counts)
    assert np.array_equal(log.moments.pair_tables, Moments.from_episodes(EPISODES).pair_tables)


def test_labels_get_a_sorted_vocabulary_and_other_names_and_first_steps():
    rows = {
        "who": ["u", "u", "v"],
        "when": [1, 2, 1],
        "page": ["b", "a", "b"],
        "button": ["no", "yes", "no"],
        "paid": [True, False, True],
    }
    columns = {"episode": "who", "step": "when", "state": "page", "action": "button", "reward": "paid"}
    log = logs.read_log(pd.DataFrame(rows), columns=columns)
    assert log.schema.state_names == ("a", "b")
    assert log.schema.action_names == ("no", "yes")
    assert log.episodes().states[:, :2].tolist() == [[1, 0], [1, -1]]
    assert log.schema.horizon == 2


def test_several_files_and_a_pattern(tmp_path):
    logs.write_log(tmp_path / "a.parquet", EPISODES[:100])
    logs.write_log(tmp_path / "b.parquet", EPISODES[100:])
    for source in (str(tmp_path / "*.parquet"), tmp_path, [tmp_path / "a.parquet", tmp_path / "b.parquet"]):
        assert logs.read_log(source).moments == Moments.from_episodes(EPISODES)


def test_many_state_actions_go_through_the_hashed_table(monkeypatch):
    expected = Moments.from_episodes(EPISODES)
    monkeypatch.setattr("rewardmix._core.count_tables.MAX_DENSE_SYMBOLS", 1)
    monkeypatch.setattr("rewardmix._core.count_tables.MAX_DENSE_TRANSITIONS", 1)
    assert logs.read_log(EPISODES).sum_int_over_partitions() == expected
    early = oracles.shortened(EPISODES)
    assert logs.read_log(early).sum_int_over_partitions() == Moments.from_episodes(early)


def test_long_logs_wait_on_disk(monkeypatch):
    from rewardmix.logs import executors
    from rewardmix.logs.log import SpilledPartition

    monkeypatch.setattr(executors, "MAX_ROWS_IN_MEMORY", 500)
    log = logs.read_log(pa.table(oracles.rows_of(EPISODES)), rows_per_partition=200, num_states=4, num_actions=3)
    assert isinstance(log.partitions[-1], SpilledPartition)
    assert np.array_equal(log.moments.pair_tables, Moments.from_episodes(EPISODES).pair_tables)


def dirty(**changes):
    """Three episodes of three steps, with some rows replaced: column -> {row: value}."""
    rows = {
        "episode": [7, 7, 7, 8, 8, 8, 9, 9, 9], "step": [0, 1, 2] * 3, "state": [0, 1, 2] * 3,
        "action": [0, 1, 0] * 3, "reward": [0.0, 1.0, 1.0] * 3,
    }  # fmt: skip
    for name, replacements in changes.items():
        for row, value in replacements.items():
            rows[name][row] = value
    return pd.DataFrame(rows)


AT = r"first in episode 8, step "
PROBLEMS = [
    ({"step": {4: 2, 5: 3}}, r"missing steps: 1, " + AT + r"2 of the table: the step before it is missing"),
    ({"step": {4: 0, 5: 1}}, r"duplicate steps: 1, first in episode 8, step 0 of the table: the step occurs twice"),
    ({"step": {5: -2}}, r"unsorted rows: 1, " + AT + r"-2 of the table: the row comes after a later step"),
    ({"reward": {4: float("nan"), 5: None}}, r"rewards that are NaN or missing: 2, first in episode 8, step 1"),
    ({"reward": {4: 0.5}}, r"rewards outside the declared values: 1, " + AT + r"1 of the table: reward 0.5, declared"),
    ({"state": {4: 5}}, r"unknown states: 1, " + AT + r"1 of the table: state 5, expected one of 3 states"),
    ({"state": {4: -1}}, r"unknown states: 1, first in episode 8, step 1 of the table: state -1"),
    ({"action": {4: 9}}, r"unknown actions: 1, " + AT + r"1 of the table: action 9, expected one of 2 actions"),
    ({"action": {4: None}}, r"unknown actions: 1, first in episode 8, step 1"),
    ({"episode": {5: None}}, r"rows without an episode id: 1"),
    ({"step": {5: None}}, r"rows without a step number: 1"),
    (
        {"episode": {5: 9}, "step": {5: 0, 6: 1, 7: 2, 8: 3}},
        r"episodes longer than the horizon: 1, first in episode 9 of the table: more than 3 steps",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), PROBLEMS)
def test_dirty_rows_stop_reading_and_are_named(changes, message):
    schema_hints = {"num_states": 3, "num_actions": 2, "reward_values": (0, 1), "horizon": 3}
    with pytest.raises(InputError, match=message) as caught:
        logs.read_log(dirty(**changes), **schema_hints)
    text = r"of [34] episodes, expected none \(drop_invalid=[0-9.]+ \(command line: --drop-invalid [0-9.]+\) drops"
    assert re.search(text, str(caught.value))
    log = logs.read_log(dirty(**changes), drop_invalid=1.0, **schema_hints)
    assert log.read_report.num_skipped >= 1
    clean = logs.read_log(dirty(), **schema_hints).episodes()
    valid = log.episodes()
    for k in range(len(valid)):  # what is kept are whole, good episodes
        assert np.array_equal(valid.states[k, : valid.lengths[k]], clean.states[0, : valid.lengths[k]])


def test_all_problems_are_listed_at_once():
    frame = dirty(reward={0: float("nan")}, action={4: 9}, step={8: 5})
    with pytest.raises(InputError) as caught:
        logs.read_log(frame, num_actions=2)
    text = str(caught.value)
    assert "got 3 kinds of problems in 3 of 3 episodes" in text
    assert all(word in text for word in ("missing steps: 3", "NaN or missing: 1", "unknown actions: 1"))


def test_two_episodes_of_one_id_are_not_taken_for_one():
    frame = dirty(episode={6: 7, 7: 7, 8: 7})
    with pytest.raises(InputError, match=r"duplicate steps: 3, first in episode 7, step 0"):
        logs.read_log(frame)
    assert len(logs.read_log(frame, drop_invalid=1.0)) == 1


def test_next_states_must_be_the_states_that_follow():
    frame = dirty()
    frame["next_state"] = [1, 2, 0] * 3
    assert logs.read_log(frame).episodes().states[0].tolist() == [0, 1, 2, 0]
    frame.loc[3, "next_state"] = 0
    with pytest.raises(
        InputError, match="next states that differ from the state of the next step: 1, first in episode 8, step 0"
    ):
        logs.read_log(frame)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (lambda d: d / "none.parquet", "source: got no file at"),
        (lambda d: _file(d / "a.parquet", b""), "got an empty file"),
        (lambda d: _file(d / "a.csv", b""), "got an empty file"),
        (lambda d: _file(d / "a.parquet", b"PAR1 and nothing else"), "damaged or not a log"),
        (lambda d: _file(d / "a.csv", b"episode,step,state,action,reward\n1,0,0,0\n"), "damaged or not a log"),
        (lambda d: _file(d / "a.csv", b"episode,step,state,action,reward\n"), "no rows|at least one episode"),
        (lambda d: _file(d / "a.csv", b"episode,step,state,action\n1,0,0,0\n"), r"columns\['reward'\]: got no"),
        (lambda d: 3, "source: got int, expected a path"),
        (lambda d: dirty().iloc[:0], "no rows in the table"),
        (lambda d: dirty().assign(state=[[1]] * 9), "column 'state': got type list"),
        (lambda d: dirty().astype({"state": object}).replace({"state": {1: "x"}}), "one of mixed types"),
    ],
)  # fmt: skip
def test_what_is_no_log_is_refused_in_one_sentence(tmp_path, source, message):
    with pytest.raises(InputError, match=message):
        logs.read_log(source(tmp_path))


def _file(path, content):
    path.write_bytes(content)
    return path


def test_files_of_different_types_are_refused(tmp_path):
    logs.write_log(tmp_path / "a.parquet", EPISODES)
    logs.write_log(tmp_path / "b.parquet", EPISODES, state_names="abcd")
    with pytest.raises(InputError, match="column 'state': got text in .*b.parquet.* and numbers in .*a.parquet"):
        logs.read_log(tmp_path)


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    import sys

    logs.write_log(tmp_path / "a.parquet", EPISODES)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'rewardmix\[logs\]'"):
        logs.read_log(tmp_path / "a.parquet")


@pytest.mark.parametrize(("named", "what"), [("num_states", "unknown states"), ("num_actions", "unknown actions")])
def test_the_number_after_the_last_is_unknown(named, what):
    """Four states are 0 to 3: with three of them, 3 is the first that is not one."""
    sizes = {"num_states": 4, "num_actions": 3}
    rows = pa.table(oracles.rows_of(EPISODES[:30]))
    assert len(logs.read_log(rows, **sizes)) == 30
    with pytest.raises(InputError, match=what):
        logs.read_log(rows, **{**sizes, named: sizes[named] - 1})


def test_one_step_beyond_the_horizon_is_too_many():
    rows = pa.table(oracles.rows_of(EPISODES[:30]))  # six steps each
    assert logs.read_log(rows, num_states=4, num_actions=3, horizon=6).episodes().lengths.tolist() == [6] * 30
    with pytest.raises(InputError, match="episodes longer than the horizon: 30"):
        logs.read_log(rows, num_states=4, num_actions=3, horizon=5)
