"""Tables as people have them: rows in any order, times instead of steps, visitors, measured rewards, rare states."""

import csv
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rewardmix
from oracles import log_statistics as oracles
from rewardmix import InputError, logs
from rewardmix.logs import binning, row_sorting

BEGAN = datetime(2026, 11, 2, 9, 30)


def clicks(seed=0, users=40, rows=900):
    """Rows of visitors at whole minutes, in any order, with some pauses of hours."""
    rng = np.random.default_rng(seed)
    minutes = np.cumsum(rng.choice([0, 1, 2, 90], rows, p=[0.1, 0.5, 0.3, 0.1]))
    rows = [
        {
            "user": f"u{rng.integers(users)}",
            "ts": BEGAN + timedelta(minutes=int(minute)),
            "state": "abcd"[rng.integers(4)],
            "action": int(rng.integers(2)),
            "reward": float(rng.integers(2)),
        }
        for minute in minutes
    ]
    return [rows[i] for i in rng.permutation(len(rows))]


def sessions_plainly(rows, gap):
    """Each session as its rows, in the order in which they began; visitors as they first come, rows as they come."""
    users = list(dict.fromkeys(row["user"] for row in rows))
    out = []
    for user in users:
        last = None
        for row in sorted((row for row in rows if row["user"] == user), key=lambda row: row["ts"]):
            if last is None or row["ts"] - last > gap:
                out.append([])
            out[-1].append(row)
            last = row["ts"]
    return sorted(out, key=lambda session: session[0]["ts"])


def content(log):
    """The episodes of a log as lists of (state, action, reward)."""
    result = log.episodes()
    names = log.schema.state_names or range(log.schema.num_states)
    return [
        [
            (names[result.states[k, t]], int(result.actions[k, t]), float(result.rewards[k, t]))
            for t in range(result.lengths[k])
        ]
        for k in range(len(result))
    ]


def expected(sessions):
    return [[(row["state"], row["action"], row["reward"]) for row in session] for session in sessions]


def as_frame(rows, kind, folder):
    table = pa.Table.from_pylist(rows)
    if kind == "pandas":
        return pd.DataFrame(rows)
    if kind == "polars":
        return pl.from_arrow(table)
    if kind == "parquet":
        pq.write_table(table, folder / "clicks.parquet", row_group_size=70)
        return folder / "clicks.parquet"
    if kind == "csv":
        with open(folder / "clicks.csv", "w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        return folder / "clicks.csv"
    if kind == "files":
        pq.write_table(table.slice(0, 300), folder / "a.parquet")
        pq.write_table(table.slice(300), folder / "b.parquet")
        return folder
    return table


KINDS = ["pyarrow", "pandas", "polars", "parquet", "csv", "files"]
BY_USER = {"user": "user", "time": "ts"}


@pytest.mark.system
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows_per_partition", [50, 1 << 21])
def test_sessions_of_visitors_are_those_of_plain_grouping(kind, rows_per_partition, tmp_path):
    rows = clicks()
    plain = sessions_plainly(rows, timedelta(minutes=30))
    source = as_frame(rows, kind, tmp_path)
    log = logs.read_log(source, columns=BY_USER, session_gap="30m", rows_per_partition=rows_per_partition)
    assert content(log) == expected(plain)
    assert len(log.partitions) > 3 or rows_per_partition > 50
    made, same = log.read_report.repairs
    assert (made.kind, made.count) == ("sessions", len(plain))
    assert f"The rows of 40 users were split into {len(plain)} sessions" in made.text
    ties = sum(earlier["ts"] == later["ts"] for session in plain for earlier, later in pairwise(session))
    assert ties > 0
    assert (same.kind, same.count) == ("rows with equal times", ties)


@pytest.mark.parametrize("gap", [1800, 1800.0, "30m", "1800s", "0.5h", timedelta(minutes=30)])
def test_a_pause_can_be_said_in_several_ways(gap):
    rows = clicks(rows=200)
    log = logs.read_log(pa.Table.from_pylist(rows), columns=BY_USER, session_gap=gap)
    assert content(log) == expected(sessions_plainly(rows, timedelta(minutes=30)))


FORMS = {
    "seconds": lambda ts: int(ts.timestamp()),
    "fractions": lambda ts: ts.timestamp() + 0.25,
    "text": lambda ts: ts.isoformat(sep=" "),
    "zones": lambda ts: ts.replace(tzinfo=UTC).isoformat(),
    "utc": lambda ts: ts.replace(tzinfo=UTC),
}


@pytest.mark.parametrize("form", FORMS)
def test_times_of_any_form(form):
    rows = clicks(rows=200)
    plain = sessions_plainly(rows, timedelta(minutes=30))
    table = pa.Table.from_pylist([{**row, "ts": FORMS[form](row["ts"])} for row in rows])
    assert content(logs.read_log(table, columns=BY_USER, session_gap="30m")) == expected(plain)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cut", [True, False])
def test_a_log_knows_from_when_to_when_it_is(form, cut):
    """Where times are times: numbers might count anything."""
    rows = clicks(rows=200)
    table = pa.Table.from_pylist([{**row, "ts": FORMS[form](row["ts"])} for row in rows])
    columns, gap = (BY_USER, "30m") if cut else ({"episode": "user", "time": "ts"}, None)
    span = logs.read_log(table, columns=columns, session_gap=gap, rows_per_partition=50).read_report.time_span
    moments = [row["ts"].replace(microsecond=0).isoformat() for row in rows]
    assert span == (None if form in ("seconds", "fractions") else (min(moments), max(moments)))


def test_a_log_without_times_has_no_dates():
    shop = rewardmix.problems.make_model("shop")
    assert logs.read_log(rewardmix.simulate(rewardmix.uniform_policy(shop), shop, 5)).read_report.time_span is None


def test_all_columns_that_are_missing_are_told_at_once():
    table = pa.table({"session": [1], "step": [0], "page": [0], "action": [0], "clicked": [1]})
    advice = r"columns=\{'episode': ..., 'state': ..., 'reward': ...\} "
    advice += r"\(command line: --columns episode=...,state=...,reward=...\)"
    with pytest.raises(InputError, match=rf"columns\['episode'\]: got no column 'episode'.*{advice}"):
        logs.read_log(table)


def test_a_pause_of_just_that_length_does_not_end_a_session():
    rows = clicks(rows=300)
    for minutes in (1, 2, 90):
        log = logs.read_log(pa.Table.from_pylist(rows), columns=BY_USER, session_gap=f"{minutes}m")
        assert content(log) == expected(sessions_plainly(rows, timedelta(minutes=minutes)))


@pytest.mark.parametrize("kind", ["pyarrow", "parquet", "csv"])
@pytest.mark.parametrize("rows_per_partition", [50, 1 << 21])
def test_a_time_orders_the_rows_of_episodes(kind, rows_per_partition, tmp_path):
    rows = clicks()
    source = as_frame(rows, kind, tmp_path)
    columns = {"episode": "user", "time": "ts"}
    log = logs.read_log(source, columns=columns, rows_per_partition=rows_per_partition)
    rows_of_user = {row["user"]: [] for row in rows}  # as they first come
    for row in sorted(rows, key=lambda row: row["ts"]):
        rows_of_user[row["user"]].append(row)
    plain = sorted(rows_of_user.values(), key=lambda session: session[0]["ts"])
    assert content(log) == expected(plain)
    places = {session[0]["user"]: k for k, session in enumerate(plain)}
    keys = [(places[row["user"]], row["ts"]) for row in rows]
    late = sum(key < max(keys[:i]) for i, key in enumerate(keys) if i)
    assert (log.read_report.repairs[0].kind, log.read_report.repairs[0].count) == ("unsorted rows", late)


def shuffled(episodes, seed=0):
    rows = pd.DataFrame(oracles.rows_of(episodes))
    return rows.sample(frac=1.0, random_state=seed)


@pytest.mark.parametrize("rows_per_partition", [40, 1 << 21])
@pytest.mark.parametrize("stored", [False, True])
def test_unsorted_rows_are_sorted_and_counted(stored, rows_per_partition, tmp_path):
    episodes = oracles.shortened(oracles.uniform_log(80))
    frame = shuffled(episodes)
    source = frame
    if stored:
        source = tmp_path / "a.parquet"
        frame.to_parquet(source, row_group_size=33)
    log = logs.read_log(source, num_states=4, num_actions=3, horizon=6, rows_per_partition=rows_per_partition)
    order = list(dict.fromkeys(frame["episode"]))
    result = log.episodes()
    for k, episode in enumerate(order):
        steps = episodes.lengths[episode]
        assert result.lengths[k] == steps
        for name in ("actions", "reward_indices"):
            assert np.array_equal(getattr(result, name)[k], getattr(episodes, name)[episode])
    keys = [(order.index(e), s) for e, s in zip(frame["episode"], frame["step"], strict=True)]
    late = sum(key < max(keys[:i]) for i, key in enumerate(keys) if i)
    assert [(repair.kind, repair.count) for repair in log.read_report.repairs] == [("unsorted rows", late)]
    assert f"{late} rows were out of order" in log.read_report.format_lines[0]


@pytest.mark.parametrize("rows_per_partition", [7, 1 << 21])
@pytest.mark.parametrize("kind", ["frame", "csv", "parquet"])
def test_an_episode_in_two_places_without_steps_is_refused_with_both_rows(kind, rows_per_partition, tmp_path):
    """A table that was exported twice would have half as many episodes, of twice the length."""
    episodes = oracles.uniform_log(30)
    frame = pd.DataFrame(oracles.rows_of(episodes)).drop(columns="step")
    twice = pd.concat([frame, frame], ignore_index=True)
    sizes = {"num_states": 4, "num_actions": 3}
    mixed = twice.assign(episode=[f"e{name}" for name in twice["episode"]])
    mixed.loc[mixed["episode"] == "e0", "episode"] = None  # rows without an episode are in two places too
    for rows, (name, position) in ((twice, ("0", 1)), (mixed, ("'e1'", 1 + episodes.horizon))):
        source = rows if kind == "frame" else tmp_path / f"a.{kind}"
        if kind == "csv":
            rows.to_csv(source, index=False)
        elif kind == "parquet":
            rows.to_parquet(source, row_group_size=10)
        text = (
            rf"log: got episode {name} in two places of .*, from row {position} and from row {len(frame) + position} \("
        )
        for drop_invalid in (False, True):
            with pytest.raises(InputError, match=text):
                logs.read_log(source, **sizes, rows_per_partition=rows_per_partition, drop_invalid=drop_invalid)


def test_rows_of_episodes_at_the_same_time_need_something_that_orders_them():
    """Numbers of the rows will do: then they stay in the order they came."""
    episodes = oracles.uniform_log(30)
    frame = pd.DataFrame(oracles.rows_of(episodes)).sort_values(["step", "episode"], ignore_index=True)
    frame = frame.drop(columns="step")
    with pytest.raises(InputError, match=r"log: got episode 0 in two places of the table, from row 1 and .* row 31 "):
        logs.read_log(frame, num_states=4, num_actions=3)
    numbered = frame.assign(row=np.arange(len(frame)))
    log = logs.read_log(numbered, columns={"time": "row"}, num_states=4, num_actions=3)
    assert np.array_equal(log.episodes().actions, episodes.actions)
    assert [repair.kind for repair in log.read_report.repairs] == ["unsorted rows"]
    together = logs.read_log(frame.sort_values("episode", kind="stable"), columns={"step": None})
    assert np.array_equal(together.episodes().actions, episodes.actions)
    assert not together.read_report.repairs


def test_each_file_is_sorted_by_itself(tmp_path):
    first, second = oracles.uniform_log(20, seed=1), oracles.uniform_log(30, seed=2)
    shuffled(first).to_parquet(tmp_path / "a.parquet")
    pd.DataFrame(oracles.rows_of(second)).to_parquet(tmp_path / "b.parquet")
    log = logs.read_log(tmp_path, num_states=4, num_actions=3)
    assert len(log) == 50
    assert np.array_equal(log.episodes()[20:].actions, second.actions)


def test_sorting_needs_few_rows_in_memory(tmp_path, monkeypatch):
    rows = clicks(rows=900)
    updates = []
    sort = row_sorting.EpisodeRanks.sort_rows

    def watched(self, table):
        updates.append(table.num_rows)
        return sort(self, table)

    monkeypatch.setattr(row_sorting.EpisodeRanks, "sort_rows", watched)
    monkeypatch.setattr(row_sorting, "MAX_PENDING_ROWS", 10)
    source = as_frame(rows, "parquet", tmp_path)
    log = logs.read_log(source, columns=BY_USER, session_gap="30m", rows_per_partition=100)
    longest = max(Counter(row["user"] for row in rows).values())
    assert max(updates) <= 100 + longest
    assert sum(updates) == 2 * len(rows)
    assert content(log) == expected(sessions_plainly(rows, timedelta(minutes=30)))


def measured(count=4000, seed=0):
    rng = np.random.default_rng(seed)
    rewards = np.where(rng.random(count) < 0.4, 0.0, np.round(rng.lognormal(2.0, 1.0, count), 2))
    episode = np.repeat(np.arange(count // 4), 4)
    state, action = rng.integers(0, 3, count), rng.integers(0, 2, count)
    return {
        "episode": episode,
        "step": np.tile(range(4), count // 4),
        "state": state,
        "action": action,
        "reward": rewards,
    }


def bins_plainly(values, max_bins):
    """Each distinct value -> the mean of its bin: by the middle of its rank."""
    ordered = sorted(values)
    number = {
        value: int(max_bins * (ordered.index(value) + ordered.count(value) / 2) / len(ordered)) for value in set(values)
    }
    members = {}
    for value in ordered:
        members.setdefault(number[value], []).append(value)
    means = {bin_: sum(group) / len(group) for bin_, group in members.items()}
    return {value: means[number[value]] for value in number}


@pytest.mark.parametrize("max_bins", [2, 7, 20])
@pytest.mark.parametrize("stored", [False, True])
def test_bins_are_those_of_plain_ranks(max_bins, stored, tmp_path):
    rows = measured(800)
    source = pa.table(rows)
    if stored:
        pq.write_table(source, tmp_path / "a.parquet", row_group_size=90)
        source = tmp_path / "a.parquet"
    log = logs.read_log(source, num_reward_bins=max_bins, rows_per_partition=100)
    plain = bins_plainly(rows["reward"].tolist(), max_bins)
    result = log.episodes().rewards.ravel()
    assert np.allclose(result, [plain[value] for value in rows["reward"].tolist()], atol=1e-9)
    assert result.mean() == pytest.approx(rows["reward"].mean(), abs=1e-9)
    assert len(log.schema.reward_values) == len(set(plain.values())) <= max_bins
    (repair,) = log.read_report.repairs
    assert (repair.kind, repair.count) == ("rewards", 800)
    assert f"{len(plain)} distinct values were put into {len(set(plain.values()))} bins" in repair.text


def test_few_values_are_not_put_into_bins():
    rows = measured() | {"reward": np.tile([0.0, 0.5, 2.0, 0.5], 1000)}
    log = logs.read_log(pa.table(rows), num_reward_bins=3)
    assert log.schema.reward_values.tolist() == [0.0, 0.5, 2.0]
    assert not log.read_report.repairs


def test_many_different_rewards_are_counted_in_little_memory(monkeypatch):
    rows = measured()
    rows["reward"] = rows["reward"] - 10.0
    exact = logs.read_log(pa.table(rows), num_reward_bins=10, rows_per_partition=500)
    monkeypatch.setattr(binning, "MAX_DISTINCT_REWARDS", 100)
    coarse = logs.read_log(pa.table(rows), num_reward_bins=10, rows_per_partition=500)
    result = coarse.episodes().rewards
    assert np.allclose(coarse.schema.reward_values, exact.schema.reward_values, rtol=2e-3)
    assert result.mean() == pytest.approx(rows["reward"].mean(), abs=1e-9)


def test_more_values_than_can_be_meant_are_refused_with_the_way_out():
    with pytest.raises(InputError, match=r"more than 127 distinct values.*num_reward_bins=20"):
        logs.read_log(pa.table(measured()))


def test_missing_rewards_stay_missing_in_bins():
    rows = measured()
    rows["reward"][[0, 9]] = np.nan, np.inf
    with pytest.raises(InputError, match="rewards that are NaN or missing: 2"):
        logs.read_log(pa.table(rows), num_reward_bins=5)
    assert logs.read_log(pa.table(rows), num_reward_bins=5, drop_invalid=1.0).read_report.num_skipped == 2


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("next_states", [False, True])
def test_rare_states_become_one(text, next_states):
    rng = np.random.default_rng(3)
    states = np.minimum(rng.geometric(0.3, 1200) * 5, 60)
    names = [f"page {s:02d}" for s in states] if text else states.tolist()
    rows = {
        "episode": np.repeat(range(300), 4), "step": [0, 1, 2, 3] * 300, "state": names,
        "action": rng.integers(0, 2, 1200), "reward": rng.integers(0, 2, 1200),
    }  # fmt: skip
    if next_states:
        ends = "bought" if text else 99
        rows["next_state"] = [ends if t % 4 == 3 else names[t + 1] for t in range(1200)]
    log = logs.read_log(pa.table(rows), min_state_count=50)
    counts = Counter(names)
    frequent = sorted(name for name in counts if counts[name] >= 50) + ([ends] if next_states else [])
    frequent = sorted(frequent)
    expected = [[str(name) if name in frequent else "other" for name in names[t : t + 4]] for t in range(0, 1200, 4)]
    assert log.schema.state_names == (*map(str, frequent), "other")
    assert [[state for state, _, _ in episode] for episode in content(log)] == expected
    rare = [name for name in counts if name not in frequent]
    (repair,) = log.read_report.repairs
    assert (repair.kind, repair.count) == ("states", len(rare))
    assert f"in {sum(counts[name] for name in rare)} rows" in repair.text
    if next_states:
        assert (log.episodes().states[:, -1] == frequent.index(ends)).all()


def test_folding_leaves_frequent_states_alone():
    log = logs.read_log(pa.table(oracles.rows_of(oracles.uniform_log(200))), min_state_count=2, horizon=6)
    assert log.schema.num_states == 4
    assert not log.schema.state_names
    assert not log.read_report.repairs


def test_what_is_no_state_is_still_refused_when_states_are_folded():
    rows = measured() | {"reward": [0.0, 1.0] * 2000}
    rows["state"] = rows["state"].tolist()
    rows["state"][7], rows["state"][11] = -1, None
    rows["state"][20] = 40
    with pytest.raises(InputError, match="unknown states: 2"):
        logs.read_log(pa.table(rows), min_state_count=5)


def test_everything_said_is_in_the_sentences_of_a_fit():
    rows = clicks(rows=2000)
    fitted = rewardmix.fit(pa.Table.from_pylist(rows), columns=BY_USER, session_gap="30m", num_resamples=0)
    assert any("The rows of 40 users were split into" in text for text in fitted.info.report_text)


def without(rows, column, row):
    return [{**item, column: None} if i == row else item for i, item in enumerate(rows)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("column", "what"), [("user", "a user"), ("ts", "a time")])
def test_missing_visitors_and_times_are_refused_by_name(kind, column, what, tmp_path):
    source = as_frame(without(clicks(rows=400), column, 350), kind, tmp_path)
    with pytest.raises(InputError, match=rf"column '{column}': got no value in 1 rows of .*, expected {what} in"):
        logs.read_log(source, columns=BY_USER, session_gap="30m")


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_times_that_are_no_numbers_are_refused(bad):
    rows = [{**row, "ts": FORMS["fractions"](row["ts"])} for row in clicks(rows=50)]
    rows[7]["ts"] = bad
    for columns, gap in ((BY_USER, "30m"), ({"episode": "user", "time": "ts"}, None)):
        with pytest.raises(InputError, match="column 'ts': got no value in 1 rows"):
            logs.read_log(pa.Table.from_pylist(rows), columns=columns, session_gap=gap)


BY_EPISODE = {"episode": "user"}
WRONG = [
    ({"columns": BY_USER}, r"session_gap: got None with columns\['user'\]"),
    ({"session_gap": "30m"}, r"session_gap: got 30m without columns\['user'\]"),
    ({"columns": {"user": "user"}, "session_gap": "30m"}, "columns: got the role 'user' without 'time'"),
    ({"columns": {**BY_USER, "episode": "e"}, "session_gap": 9}, "columns: got the roles 'user' and 'episode'"),
    ({"columns": {"episode": "user", "time": "ts", "step": "n"}}, "columns: got the roles 'step' and 'time'"),
    ({"columns": {"episode": "user", "time": "user"}}, "columns: got 'user' for episode and for time"),
    ({"columns": {"episode": "user", "time": "state", "state": "ts"}}, "column 'ts': got type timestamp"),
    ({"columns": {"episode": "user", "time": "reward", "reward": "ts"}}, "column 'ts': got type timestamp"),
    ({"columns": {**BY_USER, "time": "state", "state": "action", "action": "x"}, "session_gap": 9}, "no column 'x'"),
    *(({"columns": BY_USER, "session_gap": gap}, "session_gap: got") for gap in ("soon", 0, -1, "5w", True, [])),
    *(
        ({"columns": BY_EPISODE, "num_reward_bins": bins}, "num_reward_bins: got")
        for bins in (1, 128, 2.5, "many", True)
    ),
    *(({"columns": BY_EPISODE, "min_state_count": least}, "min_state_count: got") for least in (0, 1.5, "some")),
    ({"num_reward_bins": 4, "reward_values": (0, 1)}, "num_reward_bins: got it together with reward_values"),
    ({"min_state_count": 4, "num_states": 3}, "min_state_count: got it together with state_names or num_states"),
    ({"columns": BY_EPISODE, "min_state_count": 10**6}, "min_state_count: got 1000000, expected at most"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_what_cannot_be_meant_is_refused_by_name(options, message):
    with pytest.raises(InputError, match=message):
        logs.read_log(pa.Table.from_pylist(clicks(rows=60)), **options)


def test_texts_that_are_no_times_are_refused_by_name():
    table = pa.Table.from_pylist([{**row, "ts": "yesterday"} for row in clicks(rows=20)])
    with pytest.raises(InputError, match="column 'ts': got an invalid time in the table"):
        logs.read_log(table, columns=BY_USER, session_gap="30m")


def test_repairs_of_rows_need_rows():
    for options in ({"num_reward_bins": 4}, {"min_state_count": 4}):
        with pytest.raises(InputError, match="got it for Episodes"):
            logs.read_log(oracles.uniform_log(10), **options)


def test_rows_out_of_order_within_episodes_give_the_same_log():
    frame = pd.DataFrame(oracles.rows_of(oracles.uniform_log(300)))
    mixed = frame.sample(frac=1.0, random_state=1).sort_values("episode", kind="stable")
    options = {"num_states": 4, "num_actions": 3, "horizon": 6}
    assert oracles.same(logs.read_log(mixed, **options).episodes(), logs.read_log(frame, **options).episodes())


def test_folding_keeps_a_state_that_was_seen_just_often_enough():
    rows = {
        "episode": range(9),
        "step": [0] * 9,
        "state": list("aaaabbbcc"),
        "action": [0] * 9,
        "reward": [0, 1, 0] * 3,
    }
    assert logs.read_log(pa.table(rows), min_state_count=3).schema.state_names == ("a", "b", "other")
    assert logs.read_log(pa.table(rows), min_state_count=4).schema.state_names == ("a", "other")
