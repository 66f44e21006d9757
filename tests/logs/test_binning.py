"""A run knows the bins of its rewards: a log of revenue through every file and every way in."""

import itertools
import json
import math
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from rewardmix import InputError, logs
from rewardmix.report.saved_runs import load_run

COLUMNS = {"episode": "session", "state": "page", "action": "offer", "reward": "eur"}
TYPED = ["--columns", "episode=session,state=page,action=offer,reward=eur"]
REVENUE = 54_962.20


def revenue(seed=0):
    """Sessions of two constant types that buy independently, for lognormal amounts."""
    g = np.random.default_rng(seed)
    n, h = 3000, 5
    kind, page, offer = g.integers(2, size=(n, 1)), g.integers(3, size=(n, h)), g.integers(3, size=(n, h))
    buys = g.random((n, h)) < np.where(offer == 0, 0.08, np.where((offer == 1) == (kind == 0), 0.25, 0.03))
    eur = np.where(buys, np.exp(g.normal(2.5 + 1.2 * kind, 0.5, (n, h))).round(2), 0.0)
    columns = {"page": page, "offer": offer, "eur": eur}
    rows = {"session": np.repeat(np.arange(n), h), "step": np.tile(np.arange(h), n)}
    return pd.DataFrame(rows | {name: values.ravel() for name, values in columns.items()})


def run(*arguments, cwd):
    command = [sys.executable, "-m", "rewardmix", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


@pytest.fixture(scope="module")
def frame():
    return revenue()


@pytest.fixture(scope="module")
def folder(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("revenue")
    frame.to_csv(folder / "eur.csv", index=False)
    frame[frame.session < 1500].to_csv(folder / "week1.csv", index=False)
    frame[frame.session >= 1500].to_csv(folder / "week2.csv", index=False)
    for name in ("eur", "week1"):
        options = ["--num-reward-bins", "20", "--num-resamples", "0", "--out", name]
        done = run("fit", f"{name}.csv", *TYPED, *options, cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def fitted(frame):
    return logs.fit(frame[frame.session < 1500], columns=COLUMNS, num_reward_bins=20, num_resamples=0)


@pytest.mark.system
def test_types_of_the_same_file_need_no_options_and_lose_nobody(folder, frame):
    done = run("infer-types", "eur", "eur.csv", *TYPED, "--out", "types.csv", cwd=folder)
    assert done.returncode == 0, done.stderr
    types = pd.read_csv(folder / "types.csv")
    exported = frame[frame.session.isin(types.session)].eur.sum()
    assert exported == pytest.approx(REVENUE, abs=0.005)
    assert "Dropped:" not in done.stdout


def test_levels_are_those_of_plain_comparisons(fitted, frame):
    scale, week2 = fitted.model.reward_scale, frame[frame.session >= 1500]
    log = logs.read_log(week2, columns=COLUMNS, reward_values=scale)
    expected = [sum(eur >= cut for cut in scale.cuts) for eur in week2.eur]
    assert log.episodes().reward_indices.ravel().tolist() == expected
    assert log.schema.reward_scale == scale
    assert max(week2.eur) > max(frame.eur[frame.session < 1500]) or len(set(expected)) == scale.values.size


@pytest.mark.system
def test_a_week_goes_into_the_bins_of_the_week_before(fitted, frame):
    week2 = frame[frame.session >= 1500]
    for more in ({}, {"num_reward_bins": 20}):  # the same options as for the first week do no harm
        again = logs.fit(week2, columns=COLUMNS, init_model=fitted, num_resamples=0, **more)
        assert again.info.read_report.num_kept == 1500
        assert again.model.reward_scale == again.plan.policy.reward_scale == fitted.model.reward_scale
        assert again.info.read_report.left_out.paid == pytest.approx(week2.eur.sum(), rel=1e-12)
    table = logs.infer_types(fitted, week2, columns=COLUMNS)
    assert len(table) == 1500
    assert not table.schema.metadata


@pytest.mark.system
def test_a_week_goes_into_the_bins_of_the_week_before_on_the_command_line(folder):
    options = ["--init-model", "week1", "--num-resamples", "0", "--out", "week2"]
    done = run("fit", "week2.csv", *TYPED, *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    first_run, second_run = load_run(folder / "week1"), load_run(folder / "week2")
    assert first_run.model.reward_scale == second_run.model.reward_scale == second_run.plan.policy.reward_scale
    assert second_run.summary_data["environment"]["num_episodes"] == 1500
    assert run("compare-runs", "week1", "week2", cwd=folder).returncode == 0


def test_a_log_in_other_bins_is_another_world(fitted, frame):
    log = logs.read_log(frame, columns=COLUMNS, num_reward_bins=3)
    with pytest.raises(InputError, match=r"init_model: got other reward bins.*reward_values=model.reward_scale"):
        logs.fit(log, init_model=fitted, num_resamples=0)


def test_the_report_says_what_the_levels_are(folder):
    result = json.loads((folder / "eur" / "result.json").read_text())
    section = next(item for item in result["sections"] if item["title"] == "Reward bins")
    cuts, values = result["environment"]["reward_cuts"], result["environment"]["reward_values"]
    edges = [f"{cut:g}" for cut in cuts]
    middle = [f"{low} to below {high}" for low, high in itertools.pairwise(edges)]
    assert [row[0] for row in section["rows"]] == [f"below {edges[0]}", *middle, f"{edges[-1]} or more"]
    assert [float(row[1]) for row in section["rows"]] == [pytest.approx(value, rel=1e-5) for value in values]
    assert "Reward bins" in (folder / "eur" / "report.html").read_text()
    assert result["warnings"] == []


@pytest.mark.system
def test_a_run_of_sessions_that_end_early_keeps_its_bins(frame):
    """Recovery then adds an end that pays 0: a value that no reward of the log counts as."""
    shorter = frame[(frame.step < 3) | (frame.session % 2 == 0)]
    paying = shorter[shorter.eur > 0].assign(step=lambda rows: rows.groupby("session").cumcount())
    result = logs.fit(paying, columns=COLUMNS, num_reward_bins=4, num_resamples=0)
    scale = result.model.reward_scale
    assert scale.values[0] == 0.0
    assert scale.empty.tolist() == [True, *[False] * (scale.values.size - 1)]
    assert scale.level(0.5) == 1
    again = logs.fit(paying, columns=COLUMNS, init_model=result, num_resamples=0)
    assert again.model.reward_scale == scale
    np.testing.assert_array_equal(
        again.info.moments.reward_counts[:, -4:].sum(axis=0), result.info.moments.reward_counts[:, -4:].sum(axis=0)
    )


def test_a_file_of_a_store_says_its_bins(fitted, frame, tmp_path):
    pa = pytest.importorskip("pyarrow")
    from rewardmix.logs.sources import PARQUET_METADATA_KEY, encode_description

    rows = frame[frame.session < 40].rename(columns={value: key for key, value in COLUMNS.items()})
    scale = fitted.model.reward_scale
    about = {"num_states": 3, "num_actions": 3, "horizon": 5, "state_names": [], "action_names": [], "rows": len(rows)}
    about |= {"reward_values": scale.values.tolist(), "reward_cuts": scale.cuts.tolist()}
    table = pa.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata(
        {PARQUET_METADATA_KEY: encode_description(about)}
    )
    pa.parquet.write_table(table, tmp_path / "s.parquet")
    assert logs.read_log(tmp_path / "s.parquet").schema.reward_scale == scale
    assert (
        logs.read_log(tmp_path / "s.parquet", num_reward_bins=2).schema.reward_scale != scale
    )  # who asks for others gets others
    with pytest.raises(InputError, match="rewards outside the declared values"):
        logs.read_log(tmp_path / "s.parquet", reward_values=scale.values)  # cut as the caller says, or not at all


# Sessions that are left out


def damaged(frame, every, column="page"):
    return frame.assign(**{column: frame[column].where(frame.session % every != 0)})


@pytest.mark.parametrize("column", ["page", "step"])
def test_leaving_out_is_refused_with_what_it_would_lose(frame, column):
    rows = damaged(frame, 50, column)
    share = frame.eur[frame.session % 50 == 0].sum() / frame.eur.sum()
    lost = rf"drops 60 of 3,000 sessions with {100 * share:.3g} % of the reward"
    text = rf"in 60 of 3000 episodes, expected none \(drop_invalid=True \(command line: --drop-invalid\) {lost}"
    with pytest.raises(InputError, match=text):
        logs.read_log(rows, columns=COLUMNS, num_reward_bins=20)
    notes = logs.read_log(rows, columns=COLUMNS, num_reward_bins=20, drop_invalid=True).read_report
    assert (notes.left_out.sessions, notes.left_out.all_sessions) == (60, 3000)
    assert notes.left_out.reward == pytest.approx(share, rel=1e-12)
    assert notes.left_out.headline.startswith("Dropped: 60 of 3,000 sessions with ")


@pytest.mark.parametrize(("every", "headline"), [(101, ""), (99, "Dropped: 31 of 3,000 sessions")])
def test_more_than_one_in_a_hundred_is_a_headline(frame, every, headline):
    result = logs.read_log(
        damaged(frame, every), columns=COLUMNS, num_reward_bins=20, drop_invalid=True
    ).read_report.left_out.headline
    assert result[: len(headline) or None] == headline


def test_more_than_a_tenth_is_an_error_unless_a_number_is_given(frame):
    rows = damaged(frame, 5)
    for share in (True, 0.19):
        max_percent = 10 if share is True else 19
        with pytest.raises(InputError, match=rf"expected at most {max_percent} % .*\(drop_invalid=0.2 "):
            logs.read_log(rows, columns=COLUMNS, num_reward_bins=20, drop_invalid=share)
    assert len(logs.read_log(rows, columns=COLUMNS, num_reward_bins=20, drop_invalid=0.2)) == 2400


def test_the_buyers_are_not_left_out_for_the_asking(frame):
    """Rewards that a run of other values does not know are every buyer, and the message says so."""
    with pytest.raises(InputError, match=r"drops 1,442 of 3,000 sessions with 100 % of the reward"):
        logs.read_log(frame, columns=COLUMNS, reward_values=(0.0, 1.0), drop_invalid=True)


def test_rows_without_a_session_count_as_rows(frame):
    rows = frame.assign(session=frame.session.where(frame.session >= 600).astype("Int64"))
    with pytest.raises(InputError, match=r"1 of 2,401 sessions \(3,000 of 15,000 rows have no session id\) with "):
        logs.read_log(rows, columns=COLUMNS, num_reward_bins=20, drop_invalid=True)
    assert logs.read_log(rows, columns=COLUMNS, num_reward_bins=20, drop_invalid=0.2).read_report.left_out.share == 0.2


def test_missing_rewards_are_said_to_be_unknown(frame):
    rows = frame.assign(eur=frame.eur.where(frame.eur == 0))
    with pytest.raises(InputError, match=r"drops 1,442 of 3,000 sessions \(and 1,823 missing rewards\)"):
        logs.read_log(rows, columns=COLUMNS, reward_values=(0.0, 1.0))


def test_results_say_first_what_was_left_out(frame, fitted):
    rows = damaged(frame, 25)
    headline = "Dropped: 120 of 3,000 sessions with"
    result = logs.fit(rows, columns=COLUMNS, init_model=fitted, num_resamples=0, drop_invalid=True)
    assert result.info.warnings[0].startswith(headline)
    assert result.to_dict()["warnings"][0].startswith(headline)
    assert result.to_dict()["metadata"]["fit"]["dropped"]["sessions"] == 120
    assert result.summary().startswith(headline)
    page = result._repr_html_()
    assert page.index(headline) < page.index("Next") if "Next" in page else headline in page
    table = logs.infer_types(fitted, rows, columns=COLUMNS, drop_invalid=True)
    assert table.schema.metadata[b"left_out"].decode().startswith(headline)
    checked = logs.diagnose(rows, columns=COLUMNS, num_reward_bins=20, drop_invalid=True)
    assert checked.warnings[0].startswith(headline)
    assert checked.sentences[0].startswith(headline)


@pytest.mark.system
def test_the_terminal_and_the_page_say_first_what_was_left_out(folder, frame):
    damaged(frame, 25).to_csv(folder / "damaged.csv", index=False)
    typed = ["damaged.csv", *TYPED, "--drop-invalid"]
    done = run("fit", *typed, "--init-model", "week1", "--num-resamples", "0", "--out", "damaged", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Dropped: 120 of 3,000 sessions with ")
    page = (folder / "damaged" / "report.html").read_text()
    assert page.index("Dropped: 120 of 3,000 sessions") < page.index('class="verdict"')
    assert json.loads((folder / "damaged" / "result.json").read_text())["warnings"]
    done = run("infer-types", "week1", *typed, "0.05", "--out", "types.csv", cwd=folder)
    assert done.stdout.startswith("Dropped: 120 of 3,000 sessions with ")
    done = run("infer-types", "week1", *typed, "0.03", "--out", "types.csv", cwd=folder)
    assert done.returncode == 2
    assert re.search(r"expected at most 3 % .*command line: --drop-invalid\) drops 120 of 3,000", done.stderr)


def test_a_log_in_which_nobody_paid_says_so_first(frame, fitted, tmp_path):
    unpaid = frame.assign(eur=0.0)
    episodes = logs.read_log(unpaid, columns=COLUMNS).episodes()
    first, second = (logs.fit(unpaid, columns=COLUMNS, num_resamples=0, init_model=start) for start in (None, fitted))
    for result in (first, second, logs.fit(episodes, num_resamples=0)):
        assert result.to_dict()["verdict"]["text"] == "All rewards of this log are 0."
        result.save(tmp_path / "run")
        assert "All rewards of this log are 0." in (tmp_path / "run" / "report.html").read_text()
    assert fitted.to_dict()["verdict"]["key"] != "no rewards"
    paid_once = frame.assign(eur=np.where(frame.index == 7, 0.01, 0.0))
    assert (
        logs.fit(paid_once, columns=COLUMNS, init_model=fitted, num_resamples=0).to_dict()["verdict"]["key"]
        != "no rewards"
    )


def test_shares_are_sizes_so_that_refunds_count(frame):
    rows = frame.assign(eur=np.where(frame.session == 0, -1000.0, 0.0) + np.where(frame.session == 1, 1000.0, 0.0))
    rows = rows.assign(page=rows.page.where(rows.session != 0))
    left_out = logs.read_log(rows, columns=COLUMNS, drop_invalid=True).read_report.left_out
    assert left_out.reward == 0.5
    assert math.isnan(logs.read_log(frame.assign(eur=0.0), columns=COLUMNS).read_report.left_out.reward)
