"""Read random logs and compare with a slow reading in plain Python: equal counts, or an error in both.

    python tests/fuzz/logs.py --tries 5000 [--seed 0]

Every try is a function of its number: episodes of a small model as rows, then some damage, then Arrow types that can
hold what is there, then files, tables or frames. A worker does the work, so that a crash or a hang is an outcome too.
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import random
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # not this folder: its logs is this file

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from oracles import log_statistics as oracles
from rewardmix import InputError, logs

TIMEOUTS = 120.0
"""Seconds of a single log after which it hangs; they take milliseconds."""

FINE = ("counted", "refused")
OUTCOMES = (*FINE, "MISCOUNT", "refused what the oracle counts", "TRACEBACK", "crashed", "hung")

ROLES = ("episode", "step", "state", "action", "reward", "next_state")
FAR = [
    2**31 - 2,
    2**31 - 1,
    2**31,
    2**40,
    2**63 - 1,
    -1,
    -(2**31),
    -(2**31) + 1,
    -(2**31) + 2,
    -(2**63),
    73,
    300,
    70_000,
]
ODD = [None, None, float("nan"), float("inf"), 0.5, 1e300, -0.0, *FAR]
LABELS = ["a", "b", "ab", "B", "é", "z z", "x,y", 'q"q', "-", "ß", "_1", "line"]


# ---------------------------------------------------------------------------------------------------------------------
# Rows


def rows_of(rng):
    """Columns of one file: whole episodes of a model of a few states, actions and rewards."""
    states, actions = rng.choice([1, 2, 3, 5]), rng.choice([1, 2, 4])
    rewards = rng.choice([[0, 1], [0, 1], [0.0, 0.5, 1.0], [-1, 0, 3], [0.1, 1e8 + 0.1], [7]])
    columns = {role: [] for role in ROLES}
    episode = rng.choice([0, 5, -3, 2**40, 2**63 - 50])
    for _ in range(rng.randint(1, 6)):
        episode += rng.randint(1, 3)
        path = [rng.randrange(states) for _ in range(rng.randint(1, 5) + 1)]
        for t, state in enumerate(path[:-1]):
            row = episode, t, state, rng.randrange(actions), rng.choice(rewards), path[t + 1]
            for role, value in zip(ROLES, row, strict=True):
                columns[role].append(value)
    if rng.random() < 0.3:  # some last states that nobody kept
        ends = [i for i in range(len(columns["step"])) if columns["step"][i + 1 : i + 2] in ([0], [])]
        for i in ends:
            columns["next_state"][i] = None if rng.random() < 0.5 else columns["next_state"][i]
    return columns


def damaged(rng, columns):
    """Something goes wrong with some rows."""
    size = len(columns["step"])
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2])):
        kind, row, role = rng.randrange(8), rng.randrange(size), rng.choice([r for r in ROLES if r in columns])
        if kind == 0:  # the last next state of an episode
            columns.get("next_state", columns["state"])[-1] = rng.choice(ODD)
        elif kind <= 3:
            columns[role][row] = rng.choice(ODD)
        elif kind == 4:
            for values in columns.values():
                values.insert(row, values[row])
            size += 1
        elif kind == 5 and size > 1:
            for values in columns.values():
                del values[row]
            size -= 1
        elif kind == 6 and size > 1:
            other = rng.randrange(size)
            for values in columns.values():
                values[row], values[other] = values[other], values[row]
        elif kind == 7:
            columns["episode"][row:] = [columns["episode"][0]] * (size - row)


def labelled(rng, columns, roles):
    """Numbers as labels; what is no label of the model becomes one that is rare."""
    order = rng.sample(LABELS, len(LABELS))
    for role in roles:
        columns[role] = [
            None if v is None or v != v else order[int(v)] if 0 <= v < 6 and v == int(v) else rng.choice(["?", "Ω"])
            for v in columns[role]
        ]


# ---------------------------------------------------------------------------------------------------------------------
# Types


def column_of(rng, values, role):
    """(kind, values as the column holds them, Arrow array) of some type that can hold the values."""
    if all(value is None for value in values):
        return rng.choice(
            [("nothing", values, pa.nulls(len(values))), ("numbers", values, pa.nulls(len(values), pa.int8()))]
        )
    if any(isinstance(value, str) for value in values):
        kind = rng.choice(oracles.TEXTS)
        array = pa.array(values, kind)
        return "text", values, maybe_encoded(rng, array)
    if rng.random() < 0.03:
        return other_column(rng, values)
    kinds = [kind for kind in NUMBERS if holds(kind, values)]
    kind = rng.choice(kinds)
    if pa.types.is_decimal(kind):
        scale = rng.choice([0, 0, 2]) if role == "reward" or rng.random() < 0.1 else 0
        kind = rng.choice([pa.decimal128, pa.decimal256])(18 if not scale else 20, scale)
        array = pa.array([None if v is None else decimal.Decimal(v) for v in values], kind)
        return "fraction" if scale else "numbers", values, array
    if pa.types.is_boolean(kind):
        return "numbers", values, maybe_encoded(rng, pa.array([None if v is None else bool(v) for v in values]))
    if pa.types.is_floating(kind):
        values = [None if v is None else float(v) for v in values]
        if kind == pa.float16():
            return "numbers", values, pa.array([None if v is None else np.float16(v) for v in values], kind)
    else:
        values = [None if v is None else int(v) for v in values]
    return "numbers", values, maybe_encoded(rng, pa.array(values, kind))


NUMBERS = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(), pa.float64(), pa.bool_(), pa.decimal128(18, 0),
]  # fmt: skip
FLOATS = {pa.float16(): np.float16, pa.float32(): np.float32, pa.float64(): np.float64}


def holds(kind, values):
    present = [value for value in values if value is not None]
    if kind in FLOATS:
        if kind == pa.float64():  # whatever there is; large whole numbers change then, for the oracle too
            return True
        return all(v != v or FLOATS[kind](v).item() == v for v in present if abs(v) < 60000 or v != v) and all(
            v != v or abs(v) < 60000 for v in present
        )
    if any(isinstance(v, float) and (v != v or abs(v) == float("inf") or v != int(v)) for v in present):
        return False
    if pa.types.is_boolean(kind):
        return all(v in (0, 1) for v in present)
    if pa.types.is_decimal(kind):
        return all(abs(v) < 10**17 for v in present)
    limits = np.iinfo(kind.to_pandas_dtype())
    return all(limits.min <= v <= limits.max for v in present)


def maybe_encoded(rng, array):
    if rng.random() < 0.15 and not pa.types.is_string_view(array.type):
        return array.dictionary_encode()
    return array


def other_column(rng, values):
    size = len(values)
    arrays = [
        pa.array([datetime.date(2020, 1, 1)] * size), pa.array([datetime.datetime(2020, 1, 1)] * size),
        pa.array([b"x"] * size), pa.array([[1]] * size), pa.array([{"state": 1}] * size),
        pa.array([1] * size, pa.time32("s")), pa.array([1] * size, pa.duration("ms")),
        pa.array([[("a", 1)]] * size, pa.map_(pa.string(), pa.int64())),
        pa.array([b"ab"] * size, pa.binary(2)), pa.array([b"ab"] * size, pa.large_binary()),
    ]  # fmt: skip
    return "other", values, rng.choice(arrays)


# ---------------------------------------------------------------------------------------------------------------------
# Files, tables and frames


def stored(rng, tables, folder):
    """A source that holds these tables, one after the other, and whether it is CSV."""
    form = rng.choice(["parquet"] * 5 + ["table", "table", "batch", "pandas", "polars", "lazy"])
    if len(tables) > 1 or form == "parquet":
        for i, table in enumerate(tables):
            write_parquet(rng, table, folder / f"{i:03d}.parquet")
        paths = sorted(folder.glob("*.parquet"))
        return rng.choice([folder, str(folder / "*.parquet"), paths, [str(path) for path in paths]])
    table = tables[0]
    if form == "batch":
        return table.combine_chunks().to_batches()[0] if table.num_rows else table
    if form == "pandas":
        return table.to_pandas(types_mapper=pd.ArrowDtype)
    if form in ("polars", "lazy") and not any(strange_to_polars(field.type) for field in table.schema):
        return pl.from_arrow(table) if form == "polars" else pl.from_arrow(table).lazy()
    cuts = sorted(rng.randint(0, table.num_rows) for _ in range(rng.choice([0, 1, 3])))
    parts = [table.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, table.num_rows], strict=True)]
    return pa.concat_tables(parts)


def strange_to_polars(kind):
    return (
        pa.types.is_nested(kind) or pa.types.is_dictionary(kind) or pa.types.is_decimal256(kind) or kind == pa.float16()
    )


def write_parquet(rng, table, path):
    described = any(map(pa.types.is_duration, table.schema.types))  # without the schema these are plain numbers
    options = {
        "write_statistics": rng.random() < 0.7,
        "use_dictionary": rng.random() < 0.5,
        "store_schema": described or rng.random() < 0.8,
        "version": rng.choice(["1.0", "2.4", "2.6"]) if plain_integers(table) else "2.6",
    }
    with pq.ParquetWriter(path, table.schema, **options) as writer:
        if rng.random() < 0.1:
            writer.write_table(table.slice(0, 0))
        writer.write_table(table, row_group_size=rng.choice([1, 2, 3, 7, 1000]))


def plain_integers(table):
    """Version 1.0 widens unsigned numbers of four bytes, which is right but another type."""
    return not any(pa.types.is_unsigned_integer(field.type) for field in table.schema)


def write_csv(rng, columns, path):
    def cell(value):
        if value is None:
            return ""
        if isinstance(value, str):
            return '"' + value.replace('"', '""') + '"'
        return str(value).lower() if isinstance(value, bool) else repr(value)

    lines = [",".join(columns)] + [",".join(map(cell, row)) for row in zip(*columns.values(), strict=True)]
    path.write_text("\n".join(lines) + "\n", newline="")


def with_extras(rng, table):
    """Columns that nobody asked for, among them parts of nested ones with the names of roles; in another order."""
    columns = dict(zip(table.schema.names, table.columns, strict=True))
    size = table.num_rows
    if rng.random() < 0.2:
        columns["about"] = pa.array([{"state": 86, "step": 1, "action": 40, "reward": 9}] * size)
    if rng.random() < 0.1:
        columns["other"] = rng.choice([pa.array([b"\xff"] * size), pa.array([[1, 2]] * size), pa.nulls(size)])
    names = list(columns)
    if rng.random() < 0.5:
        rng.shuffle(names)
    return pa.table({name: columns[name] for name in names})


# ---------------------------------------------------------------------------------------------------------------------
# One try


def case_of(number, folder):
    """(source, files as the oracle reads them, names of the columns, options) of one try."""
    rng = random.Random(number)
    count = rng.choice([1, 1, 1, 2, 3])
    plain = [rows_of(rng) for _ in range(count)]
    next_state = rng.choice([0.0, 1.0, 1.0])
    first = rng.choice([0, 0, 1])
    for columns in plain:
        columns["step"] = [step + first for step in columns["step"]]
        if next_state < 1 and rng.random() < 0.97:
            del columns["next_state"]
        if rng.random() < 0.02:
            del columns[rng.choice([role for role in ROLES if role in columns])]
    has_required = all(role in columns for columns in plain for role in oracles.REQUIRED)
    for columns in plain:
        if has_required and rng.random() < 0.5:
            damaged(rng, columns)
    if rng.random() < 0.1:  # somebody cut a file in two, perhaps within an episode
        cut = rng.randint(0, len(plain[0]["action"])) if "action" in plain[0] else 0
        plain[:1] = [
            {role: values[piece] for role, values in plain[0].items()} for piece in (slice(cut), slice(cut, None))
        ]
    csv = len(plain) == 1 and rng.random() < 0.15
    texts = [role for role, prob in {"episode": 0.2, "state": 0.3, "action": 0.3}.items() if rng.random() < prob]
    texts += ["next_state"] if "state" in texts else []
    for columns in plain:
        if rng.random() < 0.98:
            labelled(rng, columns, [role for role in texts if role in columns and role != "episode"])
            if "episode" in texts and "episode" in columns:
                columns["episode"] = [None if v is None else f"user {v}" for v in columns["episode"]]
    options = options_of(rng, plain)
    names = {role: role for role in ROLES}
    if rng.random() < 0.2:
        names["state"] = "page"
    if rng.random() < 0.1:
        names[rng.choice(["step", "next_state"])] = None
    files, tables = [], []
    for columns in plain:
        named = {names[role] or role: values for role, values in columns.items()}
        if csv:
            labelled_by = [names["state"], names["next_state"]] if "state_names" in options else []
            files.append(csv_columns(named, labelled_by))
            write_csv(rng, named, folder / "a.csv")
            continue
        made = {name: column_of(rng, values, name) for name, values in named.items()}
        files.append({name: (kind, values) for name, (kind, values, _) in made.items()})
        tables.append(with_extras(rng, pa.table({name: array for name, (_, _, array) in made.items()})))
    source = folder / "a.csv" if csv else stored(rng, tables, folder)
    return source, files, names, options


def csv_columns(named, schema_hints):
    """The columns as a reader of CSV takes them: numbers if all cells look like that and no labels were declared."""
    result = {}
    for name, values in named.items():
        present = [value for value in values if value is not None]
        kind = "nothing" if not present else "text" if isinstance(present[0], str) else "numbers"
        if kind == "numbers" and any(isinstance(v, float) or abs(v) >= 2**63 for v in present):
            values = [None if v is None else float(v) for v in values]
        if kind != "text" and name in schema_hints:
            kind, values = "text", [None if v is None else repr(v) for v in named[name]]
        result[name] = kind, values
    return result


def options_of(rng, plain):
    options = {"drop_invalid": 1.0 if rng.random() < 0.7 else False}
    if rng.random() < 0.4:
        options["horizon"] = rng.choice([1, 3, 5, 5, 6, 9])
    if rng.random() < 0.3:
        options["num_states"] = rng.choice([2, 5, 6, 9, 300, 40_000])
    if rng.random() < 0.3:
        options["num_actions"] = rng.choice([2, 4, 4, 200, 40_000])
    if rng.random() < 0.2:
        every = [-1.0, 0.0, 0.1, 0.5, 1.0, 3.0, 7.0, 1e8 + 0.1]
        options["reward_values"] = rng.choice([every, every, [0.0, 1.0], [0.0, 1e-9], list(range(200))])
    if rng.random() < 0.1:
        options["state_names"] = rng.sample(LABELS, rng.choice([3, 6, len(LABELS), len(LABELS)]))
    return options


def try_one(number):
    """(outcome, what happened)."""
    with tempfile.TemporaryDirectory() as name:
        source, files, names, options = case_of(number, Path(name))
        try:
            expected = oracles.read_log_slowly(files, names, **options)
        except oracles.Refused as reason:
            expected = reason
        columns = {role: name for role, name in names.items() if name != role}
        try:
            log = logs.read_log(source, columns=columns, rows_per_partition=1 + number % 9, **options)
            different = None if isinstance(expected, oracles.Refused) else difference(log, expected)
        except InputError as error:
            refused = isinstance(expected, oracles.Refused)
            return ("refused", "") if refused else ("refused what the oracle counts", str(error))
        except Exception as error:
            import traceback

            where = traceback.extract_tb(error.__traceback__)[-1]
            return "TRACEBACK", f"{type(error).__name__}: {error} at {where.filename}:{where.lineno}"
    if isinstance(expected, oracles.Refused):
        return "MISCOUNT", f"counted what the oracle refuses: {expected}"
    return ("counted", "") if different is None else ("MISCOUNT", different)


def difference(log, expected):
    """The first thing in which a log differs from what the oracle found, or None."""
    schema, notes = log.schema, log.read_report
    for what, result, wanted in (
        ("sizes", (schema.num_states, schema.num_actions, schema.horizon), expected["sizes"]),
        ("reward values", schema.reward_values.tolist(), expected["values"]),
        ("rows and episodes", (notes.num_rows, notes.num_episodes), (expected["rows"], expected["seen"])),
        ("episodes", episodes_of(log.episodes()), expected["episodes"]),
        ("moments", moments_of(log.moments), oracles.count_moments_slowly(expected)),
    ):
        if result != wanted:
            return f"{what}: {result} instead of {wanted}"
    return None


def episodes_of(episodes):
    result = []
    for k, steps in enumerate(episodes.lengths.tolist()):
        rows = (episodes.states[k, :steps], episodes.actions[k, :steps], episodes.reward_indices[k, :steps])
        result.append(([*zip(*(row.tolist() for row in rows), strict=True)], int(episodes.states[k, steps])))
    return result


def moments_of(moments):
    """The counts that are not zero, as the oracle gives them."""
    transitions = moments.transition_counts.tocoo()
    places = zip(*(axis.tolist() for axis in transitions.coords), strict=True)
    pairs = {}
    for key, table in zip(moments.pair_keys.tolist(), moments.pair_tables, strict=True):
        for first, second in np.argwhere(table).tolist():
            pairs[*divmod(key, moments.num_state_actions), first, second] = int(table[first, second])
    return (
        {int(s): int(moments.initial_counts[s]) for s in np.flatnonzero(moments.initial_counts)},
        {place: count for place, count in zip(places, transitions.data.tolist(), strict=True) if count},
        {(int(x), int(z)): int(moments.reward_counts[x, z]) for x, z in np.argwhere(moments.reward_counts)},
        pairs,
    )


# ---------------------------------------------------------------------------------------------------------------------
# Many tries


def run(tries, seed=0):
    """Outcomes of many tries, and a line for each that is not fine."""
    counts, lines = Counter(), []
    begin, end = seed, seed + tries
    while begin < end:
        command = [sys.executable, __file__, "--worker", str(begin), str(end)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
            begin = follow(worker, begin, counts, lines)
    return counts, lines


def follow(worker, begin, counts, lines):
    """Read what a worker says until it ends; the number to go on with."""
    hung = threading.Event()
    number = begin

    def stop():
        hung.set()
        worker.kill()

    assert worker.stdout is not None
    while True:
        timer = threading.Timer(TIMEOUTS, stop)
        timer.start()
        line = worker.stdout.readline()
        timer.cancel()
        if not line:
            break
        reward_index, _, what = line.rstrip("\n").partition("\t")
        if reward_index == "END":
            worker.wait()
            return number
        counts[reward_index] += 1
        if reward_index not in FINE:
            lines.append(f"{reward_index} in try {number}: {what}")
        number += 1
    reward_index = "hung" if hung.is_set() else "crashed"
    counts[reward_index] += 1
    lines.append(f"{reward_index} in try {number}: exit code {worker.wait()}")
    return number + 1


def work(begin, end):
    import warnings

    warnings.simplefilter("error")
    for number in range(begin, end):
        reward_index, what = try_one(number)
        print(reward_index, " ".join(what.split())[:600], sep="\t", flush=True)
    print("END", flush=True)


def summary(counts):
    return f"{sum(counts.values())} tried: " + ", ".join(
        f"{counts[reward_index]} {reward_index}" for reward_index in OUTCOMES
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worker", type=int, nargs=2)
    args = parser.parse_args()
    if args.worker:
        return work(*args.worker)
    counts, lines = run(args.tries, args.seed)
    for line in lines:
        print(line)
    print(summary(counts))
    sys.exit(any(reward_index not in FINE for reward_index in counts))


if __name__ == "__main__":
    main()
