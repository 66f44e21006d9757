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
from logs import oracles_logs as oracles
from rewardmix import InputError, logs
from rewardmix.logs import coarsening, ordering

BEGAN = datetime(2026, 11, 2, 9, 30)


def clicks(seed=0, visitors=40, rows=900):
    """Rows of visitors at whole minutes, in any order, with some pauses of hours."""
    rng = np.random.default_rng(seed)
    minutes = np.cumsum(rng.choice([0, 1, 2, 90], rows, p=[0.1, 0.5, 0.3, 0.1]))
    rows = [
        {
            "user": f"u{rng.integers(visitors)}",
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
    visitors = list(dict.fromkeys(row["user"] for row in rows))
    out = []
    for visitor in visitors:
        last = None
        for row in sorted((row for row in rows if row["user"] == visitor), key=lambda row: row["ts"]):
            if last is None or row["ts"] - last > gap:
                out.append([])
            out[-1].append(row)
            last = row["ts"]
    return sorted(out, key=lambda session: session[0]["ts"])


def content(log):
    """The episodes of a log as lists of (state, action, reward)."""
    found = log.episodes()
    names = log.schema.state_names or range(log.schema.num_states)
    return [
        [
            (names[found.states[k, t]], int(found.actions[k, t]), float(found.rewards[k, t]))
            for t in range(found.lengths[k])
        ]
        for k in range(len(found))
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
BY_VISITOR = {"visitor": "user", "time": "ts"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows_per_part", [50, 1 << 21])
def test_sessions_of_visitors_are_those_of_plain_grouping(kind, rows_per_part, tmp_path):
    rows = clicks()
    plain = sessions_plainly(rows, timedelta(minutes=30))
    source = as_frame(rows, kind, tmp_path)
    log = logs.read(source, columns=BY_VISITOR, session_gap="30m", rows_per_part=rows_per_part)
    assert content(log) == expected(plain)
    assert len(log.parts) > 3 or rows_per_part > 50
    made, same = log.notes.repairs
    assert (made.kind, made.count) == ("sessions", len(plain))
    assert f"{len(plain)} sessions were cut out of the rows of 40 visitors" in made.sentence
    ties = sum(one["ts"] == two["ts"] for session in plain for one, two in pairwise(session))
    assert ties > 0
    assert (same.kind, same.count) == ("rows of the same time", ties)


@pytest.mark.parametrize("gap", [1800, 1800.0, "30m", "1800s", "0.5h", timedelta(minutes=30)])
def test_a_pause_can_be_said_in_several_ways(gap):
    rows = clicks(rows=200)
    log = logs.read(pa.Table.from_pylist(rows), columns=BY_VISITOR, session_gap=gap)
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
    assert content(logs.read(table, columns=BY_VISITOR, session_gap="30m")) == expected(plain)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cut", [True, False])
def test_a_log_knows_from_when_to_when_it_is(form, cut):
    """Where times are times: numbers might count anything."""
    rows = clicks(rows=200)
    table = pa.Table.from_pylist([{**row, "ts": FORMS[form](row["ts"])} for row in rows])
    columns, gap = (BY_VISITOR, "30m") if cut else ({"episode": "user", "time": "ts"}, None)
    span = logs.read(table, columns=columns, session_gap=gap, rows_per_part=50).notes.span
    moments = [row["ts"].replace(microsecond=0).isoformat() for row in rows]
    assert span == (None if form in ("seconds", "fractions") else (min(moments), max(moments)))


def test_a_log_without_times_has_no_dates():
    shop = rewardmix.problems.make("shop")
    assert logs.read(rewardmix.simulate(rewardmix.uniform(shop), shop, 5)).notes.span is None


def test_all_columns_that_are_missing_are_told_at_once():
    table = pa.table({"session": [1], "step": [0], "page": [0], "action": [0], "clicked": [1]})
    typed = r"columns=\{'episode': ..., 'state': ..., 'reward': ...\}, or --columns episode=...,state=...,reward=..."
    with pytest.raises(InputError, match=rf"columns\['episode'\]: found no column 'episode'.*{typed}"):
        logs.read(table)


def test_a_pause_of_just_that_length_does_not_end_a_session():
    rows = clicks(rows=300)
    for minutes in (1, 2, 90):
        log = logs.read(pa.Table.from_pylist(rows), columns=BY_VISITOR, session_gap=f"{minutes}m")
        assert content(log) == expected(sessions_plainly(rows, timedelta(minutes=minutes)))


@pytest.mark.parametrize("kind", ["pyarrow", "parquet", "csv"])
@pytest.mark.parametrize("rows_per_part", [50, 1 << 21])
def test_a_time_orders_the_rows_of_episodes(kind, rows_per_part, tmp_path):
    rows = clicks()
    source = as_frame(rows, kind, tmp_path)
    columns = {"episode": "user", "time": "ts"}
    log = logs.read(source, columns=columns, rows_per_part=rows_per_part)
    own = {row["user"]: [] for row in rows}  # as they first come
    for row in sorted(rows, key=lambda row: row["ts"]):
        own[row["user"]].append(row)
    plain = sorted(own.values(), key=lambda some: some[0]["ts"])
    assert content(log) == expected(plain)
    places = {some[0]["user"]: k for k, some in enumerate(plain)}
    keys = [(places[row["user"]], row["ts"]) for row in rows]
    late = sum(key < max(keys[:i]) for i, key in enumerate(keys) if i)
    assert (log.notes.repairs[0].kind, log.notes.repairs[0].count) == ("unsorted rows", late)


def shuffled(episodes, seed=0):
    rows = pd.DataFrame(oracles.rows_of(episodes))
    return rows.sample(frac=1.0, random_state=seed)


@pytest.mark.parametrize("rows_per_part", [40, 1 << 21])
@pytest.mark.parametrize("stored", [False, True])
def test_unsorted_rows_are_sorted_and_counted(stored, rows_per_part, tmp_path):
    episodes = oracles.shortened(oracles.uniform_log(80))
    frame = shuffled(episodes)
    source = frame
    if stored:
        source = tmp_path / "a.parquet"
        frame.to_parquet(source, row_group_size=33)
    log = logs.read(source, num_states=4, num_actions=3, horizon=6, rows_per_part=rows_per_part)
    order = list(dict.fromkeys(frame["episode"]))
    found = log.episodes()
    for k, episode in enumerate(order):
        steps = episodes.lengths[episode]
        assert found.lengths[k] == steps
        for name in ("actions", "outcomes"):
            assert np.array_equal(getattr(found, name)[k], getattr(episodes, name)[episode])
    keys = [(order.index(e), s) for e, s in zip(frame["episode"], frame["step"], strict=True)]
    late = sum(key < max(keys[:i]) for i, key in enumerate(keys) if i)
    assert [(repair.kind, repair.count) for repair in log.notes.repairs] == [("unsorted rows", late)]
    assert f"{late} rows stood behind rows that they come before" in log.notes.sentences[0]


@pytest.mark.parametrize("rows_per_part", [7, 1 << 21])
@pytest.mark.parametrize("kind", ["frame", "csv", "parquet"])
def test_an_episode_in_two_places_without_steps_is_refused_with_both_rows(kind, rows_per_part, tmp_path):
    """A table that was exported twice would have half as many episodes, of twice the length."""
    episodes = oracles.uniform_log(30)
    frame = pd.DataFrame(oracles.rows_of(episodes)).drop(columns="step")
    twice = pd.concat([frame, frame], ignore_index=True)
    mixed = twice.assign(episode=[f"e{name}" for name in twice["episode"]])
    mixed.loc[mixed["episode"] == "e0", "episode"] = None  # rows without an episode are in two places too
    for rows, (name, one) in ((twice, ("0", 1)), (mixed, ("'e1'", 1 + episodes.horizon))):
        source = rows if kind == "frame" else tmp_path / f"a.{kind}"
        if kind == "csv":
            rows.to_csv(source, index=False)
        elif kind == "parquet":
            rows.to_parquet(source, row_group_size=10)
        said = (
            rf"log: found episode {name} in two places of .*, from row {one} and again from row {len(frame) + one} \("
        )
        for skip_bad in (False, True):
            with pytest.raises(InputError, match=said):
                logs.read(source, num_states=4, num_actions=3, rows_per_part=rows_per_part, skip_bad=skip_bad)


def test_rows_of_episodes_at_the_same_time_need_something_that_orders_them():
    """Numbers of the rows will do: then they stay in the order they came."""
    episodes = oracles.uniform_log(30)
    frame = pd.DataFrame(oracles.rows_of(episodes)).sort_values(["step", "episode"], ignore_index=True)
    frame = frame.drop(columns="step")
    with pytest.raises(InputError, match=r"log: found episode 0 in two places of the table, from row 1 and .* row 31 "):
        logs.read(frame, num_states=4, num_actions=3)
    numbered = frame.assign(row=np.arange(len(frame)))
    log = logs.read(numbered, columns={"time": "row"}, num_states=4, num_actions=3)
    assert np.array_equal(log.episodes().actions, episodes.actions)
    assert [repair.kind for repair in log.notes.repairs] == ["unsorted rows"]
    together = logs.read(frame.sort_values("episode", kind="stable"), columns={"step": None})
    assert np.array_equal(together.episodes().actions, episodes.actions)
    assert not together.notes.repairs


def test_each_file_is_sorted_by_itself(tmp_path):
    one, two = oracles.uniform_log(20, seed=1), oracles.uniform_log(30, seed=2)
    shuffled(one).to_parquet(tmp_path / "a.parquet")
    pd.DataFrame(oracles.rows_of(two)).to_parquet(tmp_path / "b.parquet")
    log = logs.read(tmp_path, num_states=4, num_actions=3)
    assert len(log) == 50
    assert np.array_equal(log.episodes()[20:].actions, two.actions)


def test_sorting_needs_few_rows_in_memory(tmp_path, monkeypatch):
    rows = clicks(rows=900)
    seen = []
    sort = ordering.Places.sorted

    def watched(self, table):
        seen.append(table.num_rows)
        return sort(self, table)

    monkeypatch.setattr(ordering.Places, "sorted", watched)
    monkeypatch.setattr(ordering, "MOST_PENDING", 10)
    source = as_frame(rows, "parquet", tmp_path)
    log = logs.read(source, columns=BY_VISITOR, session_gap="30m", rows_per_part=100)
    longest = max(Counter(row["user"] for row in rows).values())
    assert max(seen) <= 100 + longest
    assert sum(seen) == 2 * len(rows)
    assert content(log) == expected(sessions_plainly(rows, timedelta(minutes=30)))


def measured(count=4000, seed=0):
    rng = np.random.default_rng(seed)
    paid = np.where(rng.random(count) < 0.4, 0.0, np.round(rng.lognormal(2.0, 1.0, count), 2))
    episode = np.repeat(np.arange(count // 4), 4)
    state, action = rng.integers(0, 3, count), rng.integers(0, 2, count)
    return {"episode": episode, "step": np.tile(range(4), count // 4), "state": state, "action": action, "reward": paid}


def bins_plainly(values, most):
    """Each distinct value -> the mean of its bin: by the middle of its rank."""
    ordered = sorted(values)
    number = {
        value: int(most * (ordered.index(value) + ordered.count(value) / 2) / len(ordered)) for value in set(values)
    }
    members = {}
    for value in ordered:
        members.setdefault(number[value], []).append(value)
    means = {bin_: sum(some) / len(some) for bin_, some in members.items()}
    return {value: means[number[value]] for value in number}


@pytest.mark.parametrize("most", [2, 7, 20])
@pytest.mark.parametrize("stored", [False, True])
def test_bins_are_those_of_plain_ranks(most, stored, tmp_path):
    rows = measured(800)
    source = pa.table(rows)
    if stored:
        pq.write_table(source, tmp_path / "a.parquet", row_group_size=90)
        source = tmp_path / "a.parquet"
    log = logs.read(source, bins=most, rows_per_part=100)
    plain = bins_plainly(rows["reward"].tolist(), most)
    found = log.episodes().rewards.ravel()
    assert np.allclose(found, [plain[value] for value in rows["reward"].tolist()], atol=1e-9)
    assert found.mean() == pytest.approx(rows["reward"].mean(), abs=1e-9)
    assert len(log.schema.reward_values) == len(set(plain.values())) <= most
    (repair,) = log.notes.repairs
    assert (repair.kind, repair.count) == ("rewards", 800)
    assert f"{len(plain)} different values were put into {len(set(plain.values()))} bins" in repair.sentence


def test_few_values_are_not_put_into_bins():
    rows = measured() | {"reward": np.tile([0.0, 0.5, 2.0, 0.5], 1000)}
    log = logs.read(pa.table(rows), bins=3)
    assert log.schema.reward_values.tolist() == [0.0, 0.5, 2.0]
    assert not log.notes.repairs


def test_many_different_rewards_are_counted_in_little_memory(monkeypatch):
    rows = measured()
    rows["reward"] = rows["reward"] - 10.0
    exact = logs.read(pa.table(rows), bins=10, rows_per_part=500)
    monkeypatch.setattr(coarsening, "MOST_DISTINCT", 100)
    coarse = logs.read(pa.table(rows), bins=10, rows_per_part=500)
    found = coarse.episodes().rewards
    assert np.allclose(coarse.schema.reward_values, exact.schema.reward_values, rtol=2e-3)
    assert found.mean() == pytest.approx(rows["reward"].mean(), abs=1e-9)


def test_more_values_than_can_be_meant_are_refused_with_the_way_out():
    with pytest.raises(InputError, match=r"more than 127 different values.*bins=20"):
        logs.read(pa.table(measured()))


def test_missing_rewards_stay_missing_in_bins():
    rows = measured()
    rows["reward"][[0, 9]] = np.nan, np.inf
    with pytest.raises(InputError, match="rewards that are NaN or missing: 2"):
        logs.read(pa.table(rows), bins=5)
    assert logs.read(pa.table(rows), bins=5, skip_bad=1.0).notes.skipped == 2


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("following", [False, True])
def test_rare_states_become_one(text, following):
    rng = np.random.default_rng(3)
    states = np.minimum(rng.geometric(0.3, 1200) * 5, 60)
    names = [f"page {s:02d}" for s in states] if text else states.tolist()
    rows = {
        "episode": np.repeat(range(300), 4), "step": [0, 1, 2, 3] * 300, "state": names,
        "action": rng.integers(0, 2, 1200), "reward": rng.integers(0, 2, 1200),
    }  # fmt: skip
    if following:
        ends = "bought" if text else 99
        rows["next_state"] = [ends if t % 4 == 3 else names[t + 1] for t in range(1200)]
    log = logs.read(pa.table(rows), fold=50)
    counts = Counter(names)
    kept = sorted(name for name in counts if counts[name] >= 50) + ([ends] if following else [])
    kept = sorted(kept)
    wanted = [[str(name) if name in kept else "other" for name in names[t : t + 4]] for t in range(0, 1200, 4)]
    assert log.schema.state_names == (*map(str, kept), "other")
    assert [[state for state, _, _ in episode] for episode in content(log)] == wanted
    rare = [name for name in counts if name not in kept]
    (repair,) = log.notes.repairs
    assert (repair.kind, repair.count) == ("states", len(rare))
    assert f"in {sum(counts[name] for name in rare)} rows" in repair.sentence
    if following:
        assert (log.episodes().states[:, -1] == kept.index(ends)).all()


def test_folding_leaves_frequent_states_alone():
    log = logs.read(pa.table(oracles.rows_of(oracles.uniform_log(200))), fold=2, horizon=6)
    assert log.schema.num_states == 4
    assert not log.schema.state_names
    assert not log.notes.repairs


def test_what_is_no_state_is_still_refused_when_states_are_folded():
    rows = measured() | {"reward": [0.0, 1.0] * 2000}
    rows["state"] = rows["state"].tolist()
    rows["state"][7], rows["state"][11] = -1, None
    rows["state"][20] = 40
    with pytest.raises(InputError, match="unknown states: 2"):
        logs.read(pa.table(rows), fold=5)


def test_everything_said_is_in_the_sentences_of_a_fit():
    rows = clicks(rows=2000)
    fitted = rewardmix.fit(pa.Table.from_pylist(rows), columns=BY_VISITOR, session_gap="30m", resamples=0)
    assert any("sessions were cut out of the rows of 40 visitors" in text for text in fitted.info.sentences)


def without(rows, column, row):
    return [{**one, column: None} if i == row else one for i, one in enumerate(rows)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("column", "what"), [("user", "a visitor"), ("ts", "a time")])
def test_missing_visitors_and_times_are_refused_by_name(kind, column, what, tmp_path):
    source = as_frame(without(clicks(rows=400), column, 350), kind, tmp_path)
    with pytest.raises(InputError, match=rf"column '{column}': found nothing in 1 rows of .*, expected {what} in"):
        logs.read(source, columns=BY_VISITOR, session_gap="30m")


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_times_that_are_no_numbers_are_refused(bad):
    rows = [{**row, "ts": FORMS["fractions"](row["ts"])} for row in clicks(rows=50)]
    rows[7]["ts"] = bad
    for columns, gap in ((BY_VISITOR, "30m"), ({"episode": "user", "time": "ts"}, None)):
        with pytest.raises(InputError, match="column 'ts': found nothing in 1 rows"):
            logs.read(pa.Table.from_pylist(rows), columns=columns, session_gap=gap)


WRONG = [
    ({"columns": BY_VISITOR}, "session_gap: found None for visitors"),
    ({"session_gap": "30m"}, "session_gap: found 30m without a visitor"),
    ({"columns": {"visitor": "user"}, "session_gap": "30m"}, "columns: found a visitor without a time"),
    ({"columns": {**BY_VISITOR, "episode": "e"}, "session_gap": 9}, "columns: found a visitor and an episode"),
    ({"columns": {"episode": "user", "time": "ts", "step": "n"}}, "columns: found a step and a time"),
    ({"columns": {"episode": "user", "time": "user"}}, "columns: found 'user' for episode and for time"),
    ({"columns": {"episode": "user", "time": "state", "state": "ts"}}, "column 'ts': found type timestamp"),
    ({"columns": {"episode": "user", "time": "reward", "reward": "ts"}}, "column 'ts': found type timestamp"),
    ({"columns": {**BY_VISITOR, "time": "state", "state": "action", "action": "x"}, "session_gap": 9}, "no column 'x'"),
    *(({"columns": BY_VISITOR, "session_gap": gap}, "session_gap: found") for gap in ("soon", 0, -1, "5w", True, [])),
    *(({"columns": {"episode": "user"}, "bins": bins}, "bins: found") for bins in (1, 128, 2.5, "many", True)),
    *(({"columns": {"episode": "user"}, "fold": fold}, "fold: found") for fold in (0, 1.5, "some")),
    ({"bins": 4, "reward_values": (0, 1)}, "bins: found reward_values too"),
    ({"fold": 4, "num_states": 3}, "fold: found state_names or num_states too"),
    ({"columns": {"episode": "user"}, "fold": 10**6}, "fold: found 1000000, expected at most"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_what_cannot_be_meant_is_refused_by_name(options, message):
    with pytest.raises(InputError, match=message):
        logs.read(pa.Table.from_pylist(clicks(rows=60)), **options)


def test_texts_that_are_no_times_are_refused_by_name():
    table = pa.Table.from_pylist([{**row, "ts": "yesterday"} for row in clicks(rows=20)])
    with pytest.raises(InputError, match="column 'ts': found what is no time in the table"):
        logs.read(table, columns=BY_VISITOR, session_gap="30m")


def test_repairs_of_rows_need_rows():
    for options in ({"bins": 4}, {"fold": 4}):
        with pytest.raises(InputError, match="found episodes that are cut already"):
            logs.read(oracles.uniform_log(10), **options)


def test_rows_out_of_order_within_episodes_give_the_same_log():
    frame = pd.DataFrame(oracles.rows_of(oracles.uniform_log(300)))
    mixed = frame.sample(frac=1.0, random_state=1).sort_values("episode", kind="stable")
    options = {"num_states": 4, "num_actions": 3, "horizon": 6}
    assert oracles.same(logs.read(mixed, **options).episodes(), logs.read(frame, **options).episodes())


def test_folding_keeps_a_state_that_was_seen_just_often_enough():
    rows = {
        "episode": range(9),
        "step": [0] * 9,
        "state": list("aaaabbbcc"),
        "action": [0] * 9,
        "reward": [0, 1, 0] * 3,
    }
    assert logs.read(pa.table(rows), fold=3).schema.state_names == ("a", "b", "other")
    assert logs.read(pa.table(rows), fold=4).schema.state_names == ("a", "other")
