"""Odd logs, one by one: each is counted as it should be, or refused in a sentence that names what is odd."""

import datetime
import decimal
import os

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oracles import log_statistics as oracles
from rewardmix import InputError, logs

ROWS = {
    "episode": [7, 7, 7, 8, 8, 9],
    "step": [0, 1, 2, 0, 1, 0],
    "state": [0, 1, 2, 2, 0, 1],
    "action": [0, 1, 0, 1, 1, 0],
    "reward": [0, 1, 1, 0, 0, 1],
}
NEXT = [1, 2, 0, 0, 2, 1]
STATES = [[0, 1, 2, -1], [2, 0, -1, -1], [1, -1, -1, -1]]
WORLD = oracles.make_random_model(states=3, actions=2, horizon=3, seed=1)
DECLARED = {"num_states": 3, "num_actions": 2, "reward_values": (0, 1), "horizon": 3}


def table(types=None, **columns):
    """The rows above with some columns replaced and some Arrow types."""
    rows = {**ROWS, **columns}
    types = types or {}
    return pa.table({name: typed(values, types.get(name)) for name, values in rows.items()})


def typed(values, kind):
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if kind == pa.float16():
        return pa.array([value if value is None else np.float16(value) for value in values], kind)
    if kind is not None and pa.types.is_boolean(kind):
        return pa.array([value if value is None else bool(value) for value in values])
    if kind is not None and pa.types.is_decimal(kind):
        return pa.array([value if value is None else decimal.Decimal(value) for value in values], kind)
    return pa.array(values, kind)


def as_file(folder, source, name="a.parquet"):
    pq.write_table(source, folder / name)
    return folder / name


@pytest.fixture(params=["table", "file"])
def as_source(request, tmp_path):
    """The same rows in memory and in a file."""
    return (lambda source: source) if request.param == "table" else (lambda source: as_file(tmp_path, source))


def states_of(source, **options):
    return logs.read_log(source, **options).episodes().states.tolist()


# next states


@pytest.mark.parametrize("far", [2**31, 2**40, -(2**31), -(2**31) + 1, -(2**63), 2**63 - 1, 73])
@pytest.mark.parametrize("others", [False, True], ids=["full", "with nulls"])
def test_a_last_next_state_far_outside_the_states_is_an_unknown_state(as_source, far, others):
    next_states = [*NEXT[:4], None if others else NEXT[4], far]
    source = as_source(table({"next_state": pa.int64()}, next_state=next_states))
    with pytest.raises(InputError, match=r"unknown states: 1, first in episode 9, step 0 .* and next state -?\d+"):
        logs.read_log(source, **DECLARED)
    assert len(logs.read_log(source, drop_invalid=1.0, **DECLARED)) == 2


def test_the_smallest_number_of_four_bytes_is_a_state_and_not_a_missing_one(as_source):
    source = as_source(table({"next_state": pa.int32()}, next_state=[*NEXT[:5], -(2**31)]))
    with pytest.raises(InputError, match="unknown states: 1"):
        logs.read_log(source, **DECLARED)


@pytest.mark.parametrize("strange", [0.5, float("inf"), 1e300])
def test_a_last_next_state_that_is_no_whole_number_is_an_unknown_state(as_source, strange):
    with pytest.raises(InputError, match="unknown states: 1"):
        logs.read_log(as_source(table(next_state=[*NEXT[:5], strange])), **DECLARED)


def test_a_last_next_state_that_is_no_known_label_is_an_unknown_state(as_source):
    labels = pa.array(["a", "b", "c", "c", "a", "b"])
    source = as_source(table(state=labels, next_state=["b", "c", "a", "a", "c", "?"]))
    with pytest.raises(InputError, match="unknown states: 1"):
        logs.read_log(source, state_names="abc")
    assert logs.read_log(source).schema.num_states == 4


@pytest.mark.parametrize("empty", [None, float("nan")])
def test_a_last_next_state_that_is_not_there_is_one_that_nobody_kept(as_source, empty):
    source = as_source(table(next_state=pa.array([*map(float, NEXT[:5]), empty], pa.float64())))
    assert states_of(source) == [[0, 1, 2, 0], [2, 0, 2, -1], [1, -1, -1, -1]]


def test_next_states_in_one_of_two_files_are_refused_by_name(tmp_path):
    with_next = as_file(tmp_path, table(next_state=NEXT), "a.parquet")
    without = as_file(tmp_path, table(), "b.parquet")
    for files in ([with_next, without], [without, with_next]):
        with pytest.raises(InputError, match=r"column 'next_state': got it in .*a\.parquet' but not in .*b\.parquet'"):
            logs.read_log(files)
        assert len(logs.read_log(files, columns={"next_state": None})) == 6


def test_next_states_of_another_kind_than_the_states_are_refused(as_source):
    source = as_source(table(state=pa.array(list("abccab")), next_state=NEXT))
    with pytest.raises(InputError, match="column 'next_state': got numbers, expected text, like the column 'state'"):
        logs.read_log(source)


def test_a_column_of_nulls_is_a_column_of_any_kind(tmp_path):
    rows = {"episode": range(6), "step": [0] * 6, "state": list("abccab")}
    with_next_states = as_file(tmp_path, table(**rows, next_state=list("bcaacd")), "a.parquet")
    without_next_states = as_file(tmp_path, table(**rows, next_state=pa.nulls(6)), "b.parquet")
    for files in ([with_next_states, without_next_states], [without_next_states, with_next_states]):
        log = logs.read_log(files)
        assert log.schema.state_names == ("a", "b", "c", "d")
        assert sorted(log.episodes().states[:, 1].tolist()) == [-1] * 6 + [0, 0, 1, 2, 2, 3]


# types of columns


WHOLE = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(), pa.decimal128(18, 0), pa.decimal256(9, 0),
    pa.dictionary(pa.int8(), pa.int64()), pa.dictionary(pa.uint64(), pa.uint8()),
]  # fmt: skip


@pytest.mark.parametrize("kind", WHOLE, ids=str)
@pytest.mark.parametrize("role", ["episode", "step", "state", "action", "reward", "next_state"])
def test_whole_numbers_of_every_type(as_source, kind, role):
    values = {**ROWS, "next_state": NEXT}[role]
    column = pa.array(values).dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else typed(values, kind)
    log = logs.read_log(as_source(table(**{"next_state": NEXT, role: column})))
    assert log.episodes().states.tolist() == [[0, 1, 2, 0], [2, 0, 2, -1], [1, 1, -1, -1]]
    assert (log.schema.num_states, log.schema.num_actions, log.schema.reward_values.tolist()) == (3, 2, [0.0, 1.0])


@pytest.mark.parametrize("kind", WHOLE[:-2], ids=str)
def test_steps_of_every_type_may_begin_with_one(as_source, kind):
    assert states_of(as_source(table(step=typed([1, 2, 3, 1, 2, 1], kind)))) == STATES


@pytest.mark.parametrize("kind", [pa.bool_(), pa.uint8(), pa.decimal128(5, 2), pa.float16()], ids=str)
@pytest.mark.parametrize("missing", [False, True])
def test_rewards_of_every_type(as_source, kind, missing):
    rewards = [*ROWS["reward"][:5], None if missing else 1]
    source = as_source(table(reward=typed(rewards, kind)))
    if missing:
        with pytest.raises(InputError, match="rewards that are NaN or missing: 1, first in episode 9"):
            logs.read_log(source)
        assert logs.read_log(source, drop_invalid=1.0).schema.reward_values.tolist() == [0.0, 1.0]
    else:
        assert logs.read_log(source).episodes().reward_indices.tolist() == [[0, 1, 1], [0, 0, -1], [1, -1, -1]]


def test_unsigned_states_beyond_the_signed_ones_are_unknown(as_source):
    for nulls in ([], [None]):
        rows = {name: values + values[-1:] * len(nulls) for name, values in ROWS.items()}
        rows["episode"] = rows["episode"][:6] + [10] * len(nulls)
        state = pa.array([0, 1, 2, 2, 2**64 - 1, 1, *nulls], pa.uint64())
        source = as_source(table(**{**rows, "state": state}))
        with pytest.raises(InputError, match=rf"unknown states: {1 + len(nulls)}, first in episode 8.*state 1844"):
            logs.read_log(source, **DECLARED)
        log = logs.read_log(source, drop_invalid=1.0)
        assert (len(log), log.schema.num_states) == (2, 3)


def test_unsigned_episodes_of_all_64_bits(as_source):
    big = 2**64 - 1
    source = as_source(table(episode=pa.array([big, big, big, 5, 5, 2**63 + 1], pa.uint64())))
    assert states_of(source) == STATES


def test_numbers_in_nested_columns_of_the_same_name_are_not_the_states(tmp_path):
    extra = pa.array([{"state": 86, "step": 5, "action": 40, "reward": 1}] * 6)
    source = pa.table({"about": extra, **{name: table()[name] for name in ROWS}})
    log = logs.read_log(as_file(tmp_path, source))
    assert (log.schema.num_states, log.schema.num_actions) == (3, 2)
    assert log.episodes().states.tolist() == STATES


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"x"] * 6),
        pa.array([b"xy"] * 6, pa.binary(2)),
        pa.array([datetime.date(2020, 1, 1)] * 6),
        pa.array([datetime.datetime(2020, 1, 1)] * 6),
        pa.array([1] * 6, pa.duration("s")),
        pa.array([1] * 6, pa.time32("s")),
        pa.array([[0]] * 6),
        pa.array([[0]] * 6, pa.list_(pa.int8(), 1)),
        pa.array([{"a": 1}] * 6),
        pa.array([[("a", 1)]] * 6, pa.map_(pa.string(), pa.int8())),
        pa.array([decimal.Decimal("0.5")] * 6),
        pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"x" * 16] * 6, pa.binary(16))),
    ],
    ids=lambda column: str(column.type),
)
@pytest.mark.parametrize("role", ["episode", "step", "state", "action", "next_state", "reward"])
def test_columns_that_cannot_play_their_role_are_refused_by_type(as_source, column, role):
    source = as_source(table(**{role: column}))
    if role == "reward" and pa.types.is_decimal(column.type):
        assert logs.read_log(source).schema.reward_values.tolist() == [0.0, 0.5]
        return
    with pytest.raises(InputError, match=rf"column '{role}': got type .* expected (whole )?numbers"):
        logs.read_log(source)


@pytest.mark.parametrize("role", ["step", "reward"])
def test_text_where_only_numbers_will_do_is_refused_by_type(as_source, role):
    with pytest.raises(InputError, match=f"column '{role}': got type string in .*, expected"):
        logs.read_log(as_source(table(**{role: ["x"] * 6})))


LABELS = [pa.array(list("abccab"), kind) for kind in oracles.TEXTS] + [pa.array(list("abccab")).dictionary_encode()]


@pytest.mark.parametrize("column", LABELS, ids=lambda column: str(column.type)[:20])
def test_labels_of_every_type(as_source, column):
    log = logs.read_log(as_source(table(state=column, episode=pa.array(list("xxxyyz"), pa.large_string()))))
    assert log.schema.state_names == ("a", "b", "c")
    assert log.episodes().states.tolist() == STATES


def test_run_end_encoded_columns_in_memory():
    ends = pa.RunEndEncodedArray.from_arrays([3, 5, 6], ["x", "y", "z"])
    assert states_of(table(episode=ends)) == STATES


def test_chunks_some_of_them_empty_with_dictionaries_of_their_own():
    chunks = [pa.array(list("ab")), pa.array([], pa.string()), pa.array(list("ccab"))]
    column = pa.chunked_array([chunk.dictionary_encode() for chunk in chunks])
    assert states_of(table(state=column)) == STATES


def test_text_that_is_no_text_is_refused(as_source):
    offsets = pa.array(["abc"] * 6).buffers()[1]
    broken = pa.StringArray.from_buffers(6, offsets, pa.py_buffer(b"\xff\xfe\xff" * 6))
    for role in ("state", "episode"):
        with pytest.raises(InputError, match="damaged or not a log"):
            logs.read_log(as_source(table(**{role: broken})))


def test_a_column_of_labels_without_a_label_is_refused(as_source):
    with pytest.raises(InputError, match="column 'state': got no label in any row"):
        logs.read_log(as_source(table(state=pa.nulls(6, pa.string()))))


def test_rewards_so_large_that_rounding_would_move_them(as_source):
    for rewards in ([0.0, 1e300, 1e300, 0.0, 0.0, 1e300], [0.1, 1e8 + 0.1, 1e8 + 0.1, 0.1, 0.1, 1e8 + 0.1]):
        log = logs.read_log(as_source(table(reward=rewards)))
        assert log.schema.reward_values.tolist() == sorted(set(rewards))
        assert log.episodes().reward_indices.tolist() == [[0, 1, 1], [0, 0, -1], [1, -1, -1]]


def test_reward_values_that_cannot_be_told_apart_are_refused(as_source):
    with pytest.raises(InputError, match="values more than 2e-09 apart; round the rewards"):
        logs.read_log(as_source(table(reward=[0.5, 0.500000001, 0.5, 0.5, 0.5, 0.5])))
    with pytest.raises(InputError, match=r"reward_values\[0\]: got 0.0 and 1e-09"):
        logs.read_log(as_source(table()), reward_values=(0, 1e-9))


def test_negative_zeros_are_zeros(as_source):
    rows = table(reward=[-0.0, 1.0, 1.0, 0.0, -0.0, 1.0], state=[-0.0, 1.0, 2.0, 2.0, 0.0, 1.0])
    log = logs.read_log(as_source(rows))
    assert log.episodes().states.tolist() == STATES
    assert [str(value) for value in log.schema.reward_values] == ["0.0", "1.0"]


def test_episode_numbers_that_wrap_around_and_come_again_are_noticed(as_source):
    quarter = 1 << 62
    ids = [-(1 << 63) + 1 + k * quarter for k in (0, 1, 2, 3)]
    rows = {"episode": [*ids, ids[0]], "step": [0] * 5, "state": [0] * 5, "action": [0] * 5, "reward": [0, 1, 0, 1, 0]}
    with pytest.raises(InputError, match="duplicate steps: 1"):
        logs.read_log(as_source(pa.table(rows)))


def test_rows_without_an_episode_in_two_places_can_be_skipped(as_source):
    source = as_source(table(episode=pa.array([None, 7, None, 8, 8, 9], pa.int64()), step=[0, 0, 0, 0, 1, 0]))
    with pytest.raises(InputError, match="rows without an episode id: 2"):
        logs.read_log(source)
    assert logs.read_log(source, drop_invalid=1.0).episodes().states.tolist() == [[1, -1, -1], [2, 0, -1], [1, -1, -1]]


@pytest.mark.parametrize(("kind", "least"), [(pa.int64(), -(2**63)), (pa.uint64(), 2**63)])
def test_every_number_of_64_bits_is_that_of_an_episode(as_source, kind, least):
    ids = pa.array([7, 7, least, least, least, 9], kind)
    log = logs.read_log(as_source(table(episode=ids, step=[0, 1, 0, 1, 2, 0])))
    assert len(log) == 3
    assert not log.read_report.problems
    assert logs.infer_types(WORLD, log).column("episode").to_pylist() == [7, least, 9]


def test_rows_without_an_episode_are_told_from_the_episode_beside_them(as_source):
    """Also where that has the number which rows without one are given inside."""
    ids = pa.array([None, -(2**63), -(2**63), None, 8, 9], pa.int64())
    source = as_source(table(episode=ids, step=[0, 0, 1, 0, 0, 0]))
    with pytest.raises(InputError, match="got 1 kind of problem in 2 of 5 episodes.*\n.*rows without an episode id: 2"):
        logs.read_log(source)
    log = logs.read_log(source, drop_invalid=0.4)
    assert log.episodes().lengths.tolist() == [2, 1, 1]
    assert logs.infer_types(WORLD, log).column("episode").to_pylist() == [-(2**63), 8, 9]


# frames


def test_a_lazy_frame_is_collected():
    assert states_of(pl.DataFrame(ROWS).lazy()) == STATES
    with pytest.raises(InputError, match="log: got a column that Arrow cannot represent"):
        logs.read_log(pl.DataFrame(ROWS).lazy().with_columns(pl.col("nothing")))


def test_numbers_too_large_for_arrow_are_refused():
    frame = pd.DataFrame({**ROWS, "state": [0, 1, 2, 2, 10**30, 1]})
    with pytest.raises(InputError, match="log: got a column that Arrow cannot represent"):
        logs.read_log(frame)


def test_other_columns_of_a_frame_are_left_alone():
    assert states_of(pd.DataFrame(ROWS).assign(other=[1, "x", None, 10**40, object(), 2])) == STATES
    frame = pl.DataFrame(ROWS).with_columns(pl.Series("other", [object()] * 6, dtype=pl.Object))
    assert states_of(frame) == STATES


def test_a_column_that_is_there_twice_is_refused(tmp_path):
    twice = pa.Table.from_arrays([*table().columns, table()["state"]], names=[*ROWS, "state"])
    for source in (twice, as_file(tmp_path, twice), twice.to_batches()[0]):
        with pytest.raises(InputError, match=r"columns\['state'\]: got several columns 'state'"):
            logs.read_log(source)
    next_states = pd.DataFrame({"next_state": NEXT})
    frame = pd.concat([pd.DataFrame(ROWS), next_states, next_states], axis=1)
    with pytest.raises(InputError, match=r"columns\['next_state'\]: got several columns 'next_state'"):
        logs.read_log(frame)


def test_text_with_half_a_character_is_refused(tmp_path):
    half = "\ud800"
    with pytest.raises(InputError, match=r"log: got a column that Arrow cannot represent"):
        logs.read_log(pd.DataFrame({**ROWS, "state": pd.Series([half] * 6, dtype=object)}))
    with pytest.raises(
        InputError, match=r"state_names\[1\]: got '\\ud800', expected text that can be encoded in UTF-8"
    ):
        logs.read_log(table(), state_names=["a", half, "c"])
    with pytest.raises(InputError, match=r"action_names\[0\]: got '\\ud800'"):
        logs.write_log(tmp_path / "a.parquet", oracles.uniform_log(9), action_names=[half, "b", "c"])
    with pytest.raises(InputError, match="source: got no file"):
        logs.read_log(half)
    with pytest.raises(InputError, match=r"columns\['state'\]: got no column"):
        logs.read_log(table(), columns={"state": half})
    with pytest.raises(InputError, match="cannot be written"):
        logs.write_log(str(tmp_path / half), oracles.uniform_log(9))


# several files


def test_columns_in_another_order_and_of_other_widths_are_the_same_log(tmp_path):
    first = as_file(tmp_path, table({"state": pa.uint8(), "reward": pa.bool_(), "step": pa.uint64()}), "a.parquet")
    other = table({"state": pa.float16(), "action": pa.int64(), "reward": pa.float32()})
    second = as_file(tmp_path, other.select(sorted(ROWS, reverse=True)), "b.parquet")
    assert states_of([first, second]) == STATES * 2
    assert states_of([second, first]) == STATES * 2


def test_files_and_row_groups_without_rows_are_nothing(tmp_path):
    with pq.ParquetWriter(tmp_path / "a.parquet", table().schema) as writer:
        for begin, count in ((0, 0), (0, 2), (0, 0), (2, 4), (6, 0)):
            writer.write_table(table().slice(begin, count))
    as_file(tmp_path, table().slice(6), "b.parquet")
    for size in (1, 2, 100):
        log = logs.read_log(tmp_path, rows_per_partition=size)
        assert log.episodes().states.tolist() == STATES
    with pytest.raises(InputError, match="log: got no rows in .*b.parquet"):
        logs.read_log(tmp_path / "b.parquet")


def test_a_file_that_is_given_twice_is_refused(tmp_path):
    path = as_file(tmp_path, table())
    with pytest.raises(InputError, match=r"source: got '.*a\.parquet' twice"):
        logs.read_log([path, tmp_path])


# CSV


def csv(folder, text, name="a.csv"):
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder / name


HEADER = "episode,step,state,action,reward,next_state\n"


def test_empty_cells_of_labels_in_csv_are_missing_and_no_label(tmp_path):
    path = csv(tmp_path, HEADER + 'u,0,b,x,0,a\nu,1,a,x,1,\nv,0,b,y,1,""\n')
    log = logs.read_log(path)
    assert log.schema.state_names == ("a", "b")
    assert log.episodes().states.tolist() == [[1, 0, -1], [1, -1, -1]]


def test_labels_in_csv_that_look_like_numbers_or_dates(tmp_path):
    path = csv(tmp_path, HEADER + "2020-01-01,0,1,x,0,0\n2020-01-01,1,0,x,1,\n2020-01-02,0,1,y,1,0\n")
    assert logs.read_log(path, state_names=["1", "0"]).episodes().states.tolist() == [[0, 1, -1], [0, 1, -1]]
    assert logs.read_log(path).episodes().states.tolist() == [[1, 0, -1], [1, 0, -1]]


def test_a_problem_in_csv_names_the_file_that_was_given(tmp_path):
    path = csv(tmp_path, HEADER + "1,0,0,0,1,0\n2,0,0,7,1,0\n")
    with pytest.raises(InputError, match=r"unknown actions: 1, first in episode 2, step 0 of .*test_a_problem.*a\.csv"):
        logs.read_log(path, num_actions=2)


@pytest.mark.parametrize(
    "text",
    [
        b"\xff\xfe\x00",
        HEADER.encode() + b"1,0,\xff,0,1,0\n",
        b"episode,step,state,state,action,reward\n1,0,0,0,0,0\n",
    ],
)
def test_csv_that_cannot_be_meant_is_refused(tmp_path, text):
    with pytest.raises(InputError, match="expected"):
        logs.read_log(csv(tmp_path, text))


# arguments


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": ["state"]}, "columns: got list, expected a mapping"),
        ({"columns": {"state": "action"}}, "columns: got 'action' for state and for action"),
        ({"columns": {"next_state": "state"}}, "columns: got 'state' for state and for next_state"),
        ({"columns": {"state": 3}}, r"columns\['state'\]: got 3, expected the name of a column"),
        ({"columns": {"page": "state"}}, "columns: got 'page', expected one of episode"),
        ({"columns": {"next_state": "after"}}, r"columns\['next_state'\]: got no column 'after'"),
        ({"horizon": 10**400}, "horizon: got 10+"),
        ({"horizon": 2**40}, "horizon: got 1099511627776, expected at most 2147483647 steps"),
        ({"horizon": 0}, "horizon: got 0"),
        ({"horizon": 2.5}, "horizon: got 2.5"),
        ({"horizon": True}, "horizon: got True"),
        ({"num_states": -1}, "num_states: got -1"),
        ({"num_states": 10**400}, "num_states: got 10+"),
        ({"num_actions": "3"}, "num_actions: got '3'"),
        ({"num_actions": 2**40}, "log: got 3 states x 1099511627776 actions"),
        ({"reward_values": (0, 10**400)}, "reward_values"),
        ({"reward_values": (0, float("nan"))}, r"reward_values\[1\]: got nan"),
        ({"reward_values": (0, float("inf"))}, r"reward_values\[1\]: got inf"),
        ({"reward_values": (1, 0)}, r"reward_values\[1\]: got 0"),
        ({"reward_values": (1,)}, "reward_values: got"),
        ({"reward_values": "x"}, "reward_values: got"),
        ({"rows_per_partition": 0}, "rows_per_partition: got 0"),
        ({"rows_per_partition": 1.5}, "rows_per_partition: got 1.5"),
        ({"drop_invalid": "no"}, "drop_invalid: got 'no', expected True, False, or the largest fraction"),
        ({"drop_invalid": 1.5}, "drop_invalid: got 1.5, expected a fraction from 0 to 1"),
        ({"state_names": "aab"}, r"state_names\[1\]: got 'a' twice"),
        ({"state_names": [1, 2, 3]}, r"state_names\[0\]: got int 1"),
        ({"state_names": 3}, "state_names: got int"),
        ({"state_names": "ab", "num_states": 3}, "state_names: got 2 labels, expected 3"),
        ({"executor": 3}, "executor: got int"),
    ],
)  # fmt: skip
def test_arguments_of_read_are_refused_by_name(options, message):
    with pytest.raises(InputError, match=message):
        logs.read_log(table(), **options)


def test_sizes_without_a_limit_are_taken():
    assert states_of(table(), rows_per_partition=10**18) == STATES
    assert logs.read_log(table(), horizon=2**31 - 1).schema.horizon == 2**31 - 1


def test_declared_numbers_of_labels_are_the_numbers_of_labels():
    labels = table(state=list("abccab"))
    with pytest.raises(InputError, match="num_states: got 5, expected 3, the number of labels of states"):
        logs.read_log(labels, num_states=5)
    named = logs.read_log(table(), state_names=["home", "list", "item"])
    assert named.schema.state_names == ("home", "list", "item")


def test_what_episodes_have_cannot_be_declared_otherwise():
    episodes = oracles.uniform_log(9)
    with pytest.raises(InputError, match="num_states: got 9, expected 4, as in the episodes"):
        logs.read_log(episodes, num_states=9)
    with pytest.raises(InputError, match="reward_values: got"):
        logs.read_log(episodes, reward_values=(0, 2))
    with pytest.raises(InputError, match="state_names: got 2 labels, expected 4"):
        logs.read_log(episodes, state_names="ab")


# sizes


@pytest.mark.parametrize("count", [127, 128, 129, 255, 256, 257, 32_767, 32_768, 40_000, 65_536, 65_537])
@pytest.mark.parametrize("role", ["state", "action"])
def test_many_states_and_actions(as_source, role, count):
    log = logs.read_log(as_source(table(**{role: [0, 1, count - 1, 2, 0, 1]})))
    assert (log.schema.num_states, log.schema.num_actions) == ((count, 2) if role == "state" else (3, count))
    episodes = log.episodes()
    column = episodes.states if role == "state" else episodes.actions
    assert column[0, 2] == count - 1
    assert log.moments.reward_counts.sum() == 6
    back = logs.read_log(episodes)
    assert back.moments == log.moments


@pytest.mark.parametrize("count", [127, 128, 129, 255, 256, 257])
def test_many_reward_values(as_source, count):
    rewards = [0, count - 1, 1, 2, 3, 4]
    log = logs.read_log(as_source(table(reward=rewards)), reward_values=range(count))
    assert log.episodes().reward_indices.tolist() == [[0, count - 1, 1], [2, 3, -1], [4, -1, -1]]
    assert log.moments.reward_counts.sum() == 6


def test_many_reward_values_of_many_state_actions(as_source):
    log = logs.read_log(as_source(table()), num_states=1000, reward_values=range(300))
    assert log.moments.pair_tables.shape == (4, 300, 300)
    assert log.moments.pair_tables.sum() == 4


@pytest.mark.system
def test_a_long_episode_of_few_state_actions(as_source):
    """Its pairs are those of the state-actions, however often it comes back to them."""
    steps = 40_000
    rows = {
        "episode": [0] * steps,
        "step": range(steps),
        "state": [0, 1] * (steps // 2),
        "action": [0, 999] * (steps // 2),
    }
    log = logs.read_log(as_source(pa.table({**rows, "reward": [0, 1] * (steps // 2)})), num_actions=1200)
    assert log.moments.pair_samples.tolist() == [1, 1, 1]


# writing


def test_writing_to_a_folder_or_nowhere_is_refused(tmp_path):
    episodes = oracles.uniform_log(9)
    with pytest.raises(InputError, match="path: got a folder"):
        logs.write_log(tmp_path, episodes)
    with pytest.raises(InputError, match=r"path: got '.*nope.a\.parquet', which cannot be written \(No such file"):
        logs.write_log(tmp_path / "nope" / "a.parquet", episodes)
    with pytest.raises(InputError, match="cannot be written"):
        logs.write_log(str(tmp_path / "a\0b"), episodes)
    for path in (3, None, b"a.parquet"):
        with pytest.raises(InputError, match="path: got .* expected the path of a file"):
            logs.write_log(path, episodes)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("episodes", "options", "message"),
    [
        (3, {}, "episodes: got int"),
        ([3], {}, "episodes: got a partition of type int"),
        ([], {}, "episodes: got no partition"),
        (oracles.uniform_log(9), {"rows_per_group": 0}, "rows_per_group: got 0"),
        (oracles.uniform_log(9), {"rows_per_group": float("nan")}, "rows_per_group: got nan"),
        (oracles.uniform_log(9), {"state_names": "ab"}, "state_names: got 2 labels, expected 4"),
        (oracles.uniform_log(9), {"state_names": "aabb"}, r"state_names\[1\]: got 'a' twice"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path, episodes, options, message):
    with pytest.raises(InputError, match=message):
        logs.write_log(tmp_path / "a.parquet", episodes, **options)
    assert os.listdir(tmp_path) == []


def test_any_size_of_row_groups_is_taken(tmp_path):
    logs.write_log(tmp_path / "a.parquet", oracles.uniform_log(9), rows_per_group=10**18)
    assert len(logs.read_log(tmp_path / "a.parquet")) == 9


def test_parts_with_other_reward_values_are_no_parts_of_one_log(tmp_path):
    import dataclasses

    episodes = oracles.uniform_log(9)
    other = dataclasses.replace(episodes, reward_values=np.array([0.0, 2.0]))
    with pytest.raises(InputError, match="partitions with equal states, actions, horizon and reward values"):
        logs.write_log(tmp_path / "a.parquet", [episodes, other])


# fitting


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pseudocount": -1}, "pseudocount: got -1.0, expected a number of at least 0"),
        ({"pseudocount": -50.0}, "pseudocount: got -50.0"),
        ({"pseudocount": float("inf")}, "pseudocount: got inf"),
        ({"pseudocount": float("nan")}, "pseudocount: got nan"),
        ({"pseudocount": 10**400}, "pseudocount: got 10+"),
        ({"pseudocount": "1"}, "pseudocount: got '1'"),
        ({"held_out_fraction": 1.0}, "held_out_fraction: got 1.0"),
        ({"held_out_fraction": -0.1}, "held_out_fraction: got -0.1"),
        ({"held_out_fraction": 10**400}, "held_out_fraction: got 10+"),
        ({"num_resamples": -1}, "num_resamples: got -1"),
        ({"num_resamples": 10**400}, "num_resamples: got 10+"),
        ({"num_resamples": 10**9}, "num_resamples: got a need of about .* operations, expected .* fewer resamples"),
        ({"seed": -1}, "seed: got -1"),
        ({"seed": 0.5}, "seed: got 0.5"),
        ({"num_types": 0}, "num_types: got 0"),
        ({"num_types": "many"}, "num_types: got 'many'"),
        ({"num_types": 10**400}, "num_types: got 10+"),
        ({"num_types": 10**9}, "num_types: got a need of about .* GiB"),
        ({"max_types": 1}, "max_types: got 1"),
        ({"max_types": 10**400}, "max_types: got 10+"),
        ({"weights": [0.5, 0.6]}, "weights"),
        ({"weights": [0.5, 10**400]}, "weights"),
        ({"failure_prob": 0}, "failure_prob: got 0"),
        ({"failure_prob": 2}, "failure_prob: got 2"),
        ({"epsilon": -1}, "epsilon: got -1"),
        ({"epsilon": float("nan")}, "epsilon: got nan"),
        ({"gap": 0}, "gap: got 0"),
        ({"gap": 10**400}, "gap: got 10+"),
        ({"callback": 3}, "callback: got 3"),
        ({"executor": 3}, "executor: got int"),
        ({"horizon": 2**40}, "horizon: got 1099511627776, expected at most 2147483647 steps"),
        ({"horizon": 2**31 - 1}, "horizon: got a need of about .* operations.* a horizon near the longest episode"),
        ({"horizon": 10**8}, "a need of about .* GiB of memory, expected at most 16 GiB: .* a shorter horizon"),
    ],
)  # fmt: skip
def test_arguments_of_fit_are_refused_by_name_before_anything_is_done(options, message):
    episodes = oracles.uniform_log(300)

    def told(progress):
        raise AssertionError("it began")

    with pytest.raises(InputError, match=message):
        logs.fit(episodes, **{"callback": told, **options})


def test_more_states_than_can_be_fitted_are_refused_with_an_estimate():
    log = logs.read_log(table(), num_states=4_000_000)
    with pytest.raises(InputError, match=r"got a need of about .* GiB of memory, expected at most 16 GiB: fewer"):
        logs.fit(log, num_types=6)


def test_more_starts_than_fit_are_refused_with_an_estimate(monkeypatch):
    """Episodes that share no state-action say nothing about each other, and each is a start of its own."""
    monkeypatch.setenv("REWARDMIX_MEMORY", "0.02")
    count = 40
    rows = {"episode": np.repeat(range(count), 2), "step": [0, 1] * count, "state": range(2 * count)}
    source = pa.table({**rows, "action": [0] * 2 * count, "reward": [0, 1] * count})
    with pytest.raises(InputError, match=r"data: got a need of about .* GiB of memory.* so that pairs connect them"):
        logs.fit(logs.read_log(source, num_states=6000))


def test_padding_episodes_to_a_far_horizon_is_refused_with_an_estimate():
    log = logs.read_log(table(), horizon=2**31 - 1)
    assert len(log) == 3
    assert log.moments.horizon == 2**31 - 1
    with pytest.raises(InputError, match="episodes: got a need of about .* GiB of memory"):
        log.episodes()


def test_actions_that_never_occur_change_nothing_about_the_logging_test():
    from rewardmix.logs.adaptivity_test import count_reward_action_pairs, run_adaptivity_test

    model = oracles.make_random_model()
    rows = oracles.rows_of(oracles.simulate(oracles.WinStay(3), model, 300))
    few = logs.read_log(pa.table(rows), num_states=4, num_actions=3)
    many = logs.read_log(pa.table(rows), num_states=4, num_actions=40_000)
    counts = [log.sum_over_partitions(count_reward_action_pairs) for log in (few, many)]
    test_of_few, test_of_many = run_adaptivity_test(counts[0], few.schema), run_adaptivity_test(counts[1], many.schema)
    assert test_of_few.is_adaptive
    assert test_of_few == test_of_many


def test_a_log_with_40000_actions_is_counted():
    rng = np.random.default_rng(0)
    actions = rng.integers(40_000, size=60)
    rows = {"episode": np.repeat(range(30), 2), "step": [0, 1] * 30, "state": [0, 1] * 30, "reward": [0, 1, 1] * 20}
    log = logs.read_log(pa.table({**rows, "action": actions}), num_actions=40_000)
    assert log.moments.reward_counts.sum() == 60
    assert log.episodes().actions.max() == actions.max() > 2**15
    assert log.moments.visits[actions[1] + 40_000] == 0  # nobody kept where the last action led
