"""Damaged and random input: a sentence or the right counts, never anything else."""

import functools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import log_statistics as oracles
from rewardmix import InputError, logs
from rewardmix.moments import Moments

EPISODES = oracles.uniform_log(120)


@functools.cache
def whole_file():
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.parquet"
        logs.write_log(path, EPISODES, rows_per_group=200)
        return path.read_bytes()


@pytest.mark.parametrize("keep", [0.0, 0.01, 0.3, 0.5, 0.9, 0.99, 0.999])
def test_truncated_parquet(tmp_path, keep):
    content = whole_file()
    (tmp_path / "a.parquet").write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(InputError, match=r"path: got .*a\.parquet"):
        logs.read_log(tmp_path / "a.parquet")


@pytest.mark.parametrize("seed", range(150))
def test_a_corpus_of_corrupted_parquet(tmp_path, seed):
    """Bytes flipped, cleared, copied or swapped anywhere: refused in a sentence, or the right counts."""
    rng = np.random.default_rng(seed)
    content = bytearray(whole_file())
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(content) - 8))
        kind = seed % 4
        if kind == 0:
            content[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            content[at : at + 8] = bytes(8)
        elif kind == 2:
            content[at : at + 4] = rng.bytes(4)
        else:
            other = int(rng.integers(len(content) - 8))
            content[at : at + 8] = content[other : other + 8]
    path = tmp_path / "a.parquet"
    path.write_bytes(bytes(content))
    try:
        log = logs.read_log(path)
    except InputError as error:
        assert "expected" in str(error)  # noqa: PT017
    else:
        assert log.moments == Moments.from_episodes(EPISODES)


VALUES = {
    "episode": st.one_of(st.integers(0, 3), st.none(), st.integers(-(2**63), 2**63 - 1)),
    "step": st.one_of(st.integers(0, 3), st.none(), st.integers(-(2**40), 2**40)),
    "state": st.one_of(st.integers(0, 3), st.none(), st.integers(-(2**40), 2**40)),
    "action": st.one_of(st.integers(0, 2), st.none(), st.floats(allow_nan=True)),
    "reward": st.one_of(st.sampled_from([0.0, 1.0]), st.floats(allow_nan=True), st.none()),
}


@settings(max_examples=150)
@given(st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=14), st.booleans())
def test_random_rows_against_a_plain_reading(rows, drop_invalid):
    """Good episodes as plain Python finds them are what is kept; nothing else ever is."""
    frame = pd.DataFrame(
        {
            name: pd.array(
                [row[name] for row in rows], dtype="Int64" if name in ("episode", "step", "state") else "Float64"
            )
            for name in VALUES
        }
    )
    good, bad = plainly(rows)
    try:
        share = 1.0 if drop_invalid else False
        log = logs.read_log(frame, num_states=4, num_actions=3, reward_values=(0.0, 1.0), horizon=4, drop_invalid=share)
    except InputError as error:
        assert "expected" in str(error)  # noqa: PT017
        assert bad or not good
    else:
        result = log.episodes()
        assert [
            list(zip(result.states[k], result.actions[k], result.reward_indices[k], strict=False))[: result.lengths[k]]
            for k in range(len(result))
        ] == good
        assert log.read_report.num_skipped == bad


def plainly(rows):
    """([(state, action, outcome) of each good episode], number of bad ones), by the words of the documentation.

    Whether the first step is 0 or 1 is found as the documentation says: 1 if that is the smallest of all.
    """
    steps = [row["step"] for row in rows if row["step"] is not None and abs(row["step"]) < 2**31]
    base = 1 if steps and min(steps) == 1 else 0
    file = {name: [row[name] for row in rows] for name in VALUES}
    if oracles.out_of_order(file, base):
        file = oracles.put_in_order(file)
        rows = [dict(zip(file, values, strict=True)) for values in zip(*file.values(), strict=True)]
    runs = []
    for row in rows:
        if runs and runs[-1][0]["episode"] == row["episode"]:
            runs[-1].append(row)
        else:
            runs.append([row])
    good, bad = [], 0
    for run in runs:
        fine = run[0]["episode"] is not None and run[0]["episode"] != -(2**63) and len(run) <= 4
        for t, row in enumerate(run):
            fine = fine and row["step"] == t + base and row["state"] in range(4) and row["action"] in (0, 1, 2)
            fine = (
                fine and row["reward"] is not None and any(abs(row["reward"] - value) <= 1e-9 for value in (0.0, 1.0))
            )
        if fine:
            good.append([(row["state"], int(row["action"]), round(row["reward"])) for row in run])
        bad += not fine
    return good, bad


@settings(max_examples=60)
@given(st.text(max_size=60))
def test_random_text_as_csv(text):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.csv"
        path.write_bytes(b"episode,step,state,action,reward\n" + text.encode("utf-8", "replace"))
        try:
            log = logs.read_log(path)
        except InputError as error:
            assert "expected" in str(error)  # noqa: PT017
        else:
            assert len(log) >= 1


def test_random_logs_of_all_kinds_against_a_plain_reading():
    """The large run is python tests/fuzz/logs.py."""
    from fuzz import logs as fuzzer

    counts, lines = fuzzer.run(150, seed=1_000_000)
    assert not lines, fuzzer.summary(counts)
    assert min(counts[reward_index] for reward_index in fuzzer.FINE) > 30
