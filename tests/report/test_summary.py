"""The numbers behind the page, against brute force."""

from __future__ import annotations

import html
import itertools
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from helpers.example_summaries import CERTIFICATE, make_summary, perturb_model, random_sparse_model
from rewardmix import belief, learn, problems
from rewardmix.evaluation import evaluate
from rewardmix.model import RewardMixingMDP, dense_transition
from rewardmix.moments import Moments
from rewardmix.planning import plan
from rewardmix.policy import uniform_policy
from rewardmix.report import ReportData, build_summary, figures, formatting, labels, render_page
from rewardmix.report.belief_view import make_belief_view, reachable_range, state_occupancy
from rewardmix.report.html_page import _add_labels as labelled
from rewardmix.report.report_data import report_data_from_learn
from rewardmix.report.summary import IMPOSSIBLE_CELL, MAX_HEATMAP_ROWS, make_pair_heatmap
from rewardmix.report.svg import ticks
from rewardmix.simulation import simulate
from rewardmix.statements import Statement, describe_unidentified

SHOP = problems.make_model("shop")


@pytest.fixture(scope="module")
def shop():
    return make_summary(SHOP)


def paths(model: RewardMixingMDP):
    """List every sequence of H (state, action) that the transitions allow."""
    transition = dense_transition(model)
    steps = [[(s,)] for s in np.flatnonzero(model.initial > 0)]
    result = [[s] for (s,) in itertools.chain.from_iterable(steps)]
    sessions = []
    stack = [(path, []) for path in result]
    while stack:
        states, actions = stack.pop()
        if len(actions) == model.horizon:
            sessions.append(list(zip(states, actions, strict=False)))
            continue
        for a in range(model.num_actions):
            if len(actions) + 1 == model.horizon:
                stack.append((states, [*actions, a]))
            else:
                stack += [([*states, int(s)], [*actions, a]) for s in np.flatnonzero(transition[states[-1], a] > 0)]
    return sessions


@pytest.mark.parametrize("name", ["lock", "branches", "probe"])
def test_possible_pairs_are_those_of_some_path(name):
    options = {"lock": {"steps": 3}, "branches": {}, "probe": {"horizon": 4}}[name]
    model = problems.make_model(name, **options)
    expected = np.zeros((model.num_states * model.num_actions,) * 2, bool)
    for path in paths(model):
        for (s, a), (u, b) in itertools.combinations(path, 2):
            x, y = s * model.num_actions + a, u * model.num_actions + b
            expected[x, y] = expected[y, x] = True
    result = make_pair_heatmap(Moments.from_episodes(simulate(uniform_policy(model), model, 20_000, seed=4)))
    cells = [[seen != IMPOSSIBLE_CELL for seen in row] for row in result["cells"]]
    assert cells == [expected[x, : x + 1].tolist() for x in range(len(cells))]
    assert result["num_impossible"] == (~expected[np.tril_indices_from(expected)]).sum()


def test_coverage_counts_and_blocks():
    model = problems.make_model("random", states=11, actions=4, horizon=4)
    moments = Moments.from_episodes(simulate(uniform_policy(model), model, 3_000, seed=5))
    result, counts = make_pair_heatmap(moments), moments.pair_counts()
    lower = np.tril(np.ones_like(counts, bool))
    assert result["num_observed"] == (counts[lower] > 0).sum()
    assert result["num_observed"] + result["num_missing"] + result["num_impossible"] == lower.sum()
    assert result["block"] == 2
    assert len(result["cells"]) == 22 <= MAX_HEATMAP_ROWS
    assert result["cells"][5][3] == counts[10:12, 6:8].min()
    assert result["cells"][9][9] == min(counts[18, 18], counts[19, 18], counts[19, 19])


def test_occupancy_is_that_of_play():
    model = problems.make_model("lock", steps=3)
    answer = plan(model)
    played = simulate(answer.policy, model, 40_000, seed=3).states[:, : model.horizon]
    seen = np.stack([np.bincount(played[:, t], minlength=model.num_states) for t in range(model.horizon)]) / 40_000
    np.testing.assert_allclose(state_occupancy(answer), seen, rtol=0, atol=6 * 0.5 / 200)
    np.testing.assert_allclose(state_occupancy(answer).sum(axis=1), 1.0, rtol=0, atol=1e-12)


def test_reach_holds_every_belief():
    model = replace(SHOP, horizon=4)
    low, high = reachable_range(model)
    likelihoods = model.reward_probs.reshape(2, -1).T
    beliefs = model.weights[None]
    for t in range(4):
        np.testing.assert_allclose([low[t], high[t]], [beliefs[:, 0].min(), beliefs[:, 0].max()], rtol=0, atol=1e-12)
        beliefs = belief.update(beliefs[:, None], likelihoods[None]).reshape(-1, 2)


def test_curve_is_the_value_of_the_plan(shop):
    answer = plan(perturb_model(SHOP))
    view, curve = shop["beliefs"], shop["beliefs"]["curve"]
    for share, value in zip(curve["belief"][::20], curve["value"][::20], strict=True):
        expected = answer.alpha_vectors.value(view["step"], view["state"], np.array([share, 1 - share]))
        assert value == pytest.approx(expected, abs=1e-12)
    for start, end, action in curve["intervals"]:
        middle = (start + end) / 2
        assert answer.alpha_vectors(view["step"], view["state"], np.array([middle, 1 - middle])) == action
    ends = np.array(curve["intervals"])
    np.testing.assert_array_equal(ends[1:, 0], ends[:-1, 1])


def test_true_rewards_are_matched_to_the_recovered_types():
    turned = replace(SHOP, weights=SHOP.weights[::-1], rewards=SHOP.rewards[::-1])
    answer = plan(SHOP)
    summary = build_summary(
        ReportData(title="turned", model=SHOP, plan=answer, true_model={"model": turned, "value": 1.0})
    )
    assert all(row["true_values"] == row["values"] for row in summary["rewards"]["rows"])


@pytest.mark.parametrize(
    "other", [problems.make_model("grid"), random_sparse_model(3, (0.0, 1.0), 1), problems.make_model("lock")]
)
def test_truth_of_another_shape_is_left_out(other):
    summary = build_summary(ReportData(title="other", model=SHOP, plan=plan(SHOP), true_model={"model": other}))
    assert all(row["true_values"] is None for row in summary["rewards"]["rows"])


def test_truth_is_shown_beside_an_added_end():
    """Episodes that end early add a state to the recovered model, of which the truth knows nothing."""
    transition = np.zeros((5, 4, 5))
    transition[:4, :, :4], transition[4, :, 4] = SHOP.transition, 1.0
    model = replace(
        SHOP,
        transition=transition,
        initial=np.append(SHOP.initial, 0.0),
        rewards=np.concatenate([SHOP.rewards, np.zeros((2, 1, 4))], axis=1),
        state_names=(*SHOP.state_names, "end"),
    )
    moments = Moments.from_episodes(simulate(uniform_policy(SHOP), SHOP, 100, seed=1))
    summary = build_summary(
        ReportData(title="end", model=model, plan=plan(model), moments=moments, true_model={"model": SHOP})
    )
    rows = summary["rewards"]["rows"]
    assert [row["true_values"] == row["values"] for row in rows] == [row["state"] < 4 for row in rows]
    assert render_page(summary)


def test_headline_takes_the_best_evidence():
    answer = plan(SHOP)
    common = {"title": "shop", "model": SHOP, "plan": answer}
    played = {"validation": {"value": 5.0, "lower": 4.9, "upper": 5.1, "num_episodes": 100}}
    planned = build_summary(ReportData(**common))["headline"]
    assert planned["evidence_key"] == "planned"
    assert [planned["lower"], planned["upper"]] == [answer.lower, answer.upper]
    assert build_summary(ReportData(**common, certificate=played))["headline"]["evidence_key"] == "played"
    exact = build_summary(
        ReportData(**common, certificate=played, true_model={"model": SHOP, "value": 5.5, "regret": 0.1})
    )["headline"]
    assert (exact["evidence_key"], exact["value"], exact["regret_measured"]) == ("exact", 5.5, "exact")
    boot = build_summary(ReportData(**common, certificate=CERTIFICATE))["headline"]
    assert (boot["regret"], boot["regret_upper"], boot["regret_measured"]) == (0.021, 0.048, "bootstrap")


def test_planned_values_are_called_optimistic():
    text = re.sub(r"\s+", " ", render_page(make_summary(SHOP, is_true_model_known=False)))
    assert "Planned value" in text
    assert "Planned values are optimistic; the policy has not been tested." in text
    assert "optimistic, not a measurement" in text
    assert "not a guarantee" in text


def test_an_estimate_from_a_log_is_not_called_a_measurement():
    logged = {"validation": {"value": 5.0, "lower": 4.9, "upper": 5.1, "num_episodes": 100, "evidence_key": "logged"}}
    summary = build_summary(ReportData(title="log", model=SHOP, plan=plan(SHOP), certificate=logged))
    assert summary["headline"]["evidence_key"] == "logged"
    text = re.sub(r"\s+", " ", render_page(summary))
    assert "Estimated value" in text
    assert "100 held-out episodes of the log, for the policy planned without them" in text
    assert "new episodes" not in text
    assert "Mean return of" not in text


def test_regret_is_told_apart_from_what_planning_left_open():
    measured = {"regret": 0.5, "regret_measured": "exact", "regret_lower": 0.2}
    assert "The regret is at least 0.20" in formatting.describe_regret(measured)
    assert "at least" not in formatting.describe_regret({**measured, "regret_lower": 0.4995})
    estimated = {"regret": 0.02, "regret_measured": "bootstrap", "regret_upper": 0.05, "planning_gap": 0.44}
    assert "0.050 in the worst resample" in formatting.describe_regret(estimated)
    assert "Better plans may add 0.44" in formatting.describe_regret(estimated)
    assert "Better plans" not in formatting.describe_regret({**estimated, "planning_gap": 1e-3})
    for answer in (measured, estimated):
        assert "exactly" not in formatting.describe_regret(answer)


def test_the_theory_setting_claims_no_more_than_its_facts():
    """The page must not say that everything listed holds: it lists what had its premises checked."""
    shown = {**CERTIFICATE, "bonus": "theory"}
    text = re.sub(
        r"\s+",
        " ",
        render_page(build_summary(ReportData(title="shop", model=SHOP, plan=plan(SHOP), certificate=shown))),
    )
    assert "no bound of the regret follows" in text
    assert "Every constant is derived" not in text


def test_gain_is_the_difference_to_the_fixed_policy(shop):
    rows = {row["role"]: row["value"] for row in shop["comparison"]["rows"] if row["role"]}
    assert shop["headline"]["adaptivity_gain"] == pytest.approx(rows["adaptive"] - rows["markov"])
    assert rows["adaptive"] == evaluate(plan(perturb_model(SHOP)).policy, SHOP).value


def test_page_is_the_same_from_json_and_needs_nothing_else(shop):
    text = render_page(shop)
    assert render_page(json.loads(json.dumps(shop))) == text
    assert re.findall(r"https?://[^\"'\s]+", text) == ["http://www.w3.org/2000/svg"]
    links = set(re.findall(r"(?:src|href)=\"([^\"]*)\"", text)) - {"data:,"}
    assert "#session-title" in links
    assert links == {f"#{name}" for name in re.findall(r"<h2 id=\"([^\"]*)\"", text)} - {"#verdict"}
    assert "url(" not in text
    assert "@import" not in text
    assert len(text) < 200_000


def test_a_bare_summary_is_a_page():
    model = problems.make_model("hard")
    text = render_page(build_summary(ReportData(title="bare", model=model, plan=plan(model))))
    assert "None: everything is identified, up to the order of the types." in text


def test_a_policy_too_large_for_a_page_is_exported_apart(monkeypatch):
    monkeypatch.setattr("rewardmix.report.summary.MAX_POLICY_CHARS", 100)
    summary = build_summary(ReportData(title="large", model=SHOP, plan=plan(SHOP)))
    assert summary["policy"] is None
    text = render_page(summary)
    assert "rewardmix export POLICY --format json" in text
    assert "<script" not in text


def test_long_curves_and_many_rewards_are_thinned():
    model = problems.make_model("random", states=20, actions=3, horizon=3)
    curve = [(k, 1 / k) for k in range(1, 5_000)]
    summary = build_summary(ReportData(title="long", model=model, plan=plan(model), uncertainty=curve))
    assert summary["uncertainty"][0] == [1.0, 1.0]
    assert summary["uncertainty"][-1] == [4_999.0, 1 / 4_999]
    assert len(summary["uncertainty"]) <= 240
    gaps = np.abs(model.reward_difference).ravel()
    shown = [row["state"] * 3 + row["action"] for row in summary["rewards"]["rows"]]
    assert set(shown) == set(np.argsort(-gaps)[:30])
    assert summary["rewards"]["num_omitted"] == 30


def test_other_data_are_refused():
    with pytest.raises(ValueError, match=r"summary: got schema None, expected 'rewardmix-result/2'"):
        render_page({})
    with pytest.raises(
        ValueError,
        match=r"plan: got a plan for rewards of shape \(2, 3, 4\), expected shape \(2, 4, 4\) as in the model",
    ):
        build_summary(ReportData(title="", model=SHOP, plan=plan(problems.make_model("probe"))))


def test_radius_inflation_names_the_source_of_the_weights(shop):
    for source, text in (("known", False), ("estimated", True)):
        certificate = {**CERTIFICATE, "weights_source": source}
        assert (
            f"explain all pairs, with weights {source}" in render_page({**shop, "certificate": certificate})
        ) == text


def test_open_questions_are_one_sentence_each():
    learned = learn("lock", num_episodes=20, num_resamples=0)
    info = learned.recovery.info
    open_questions = report_data_from_learn(learned, title="lock").open_questions
    assert [statement.key for statement in info.unidentified][:1] == ["never visited"]
    assert open_questions == [statement.text for statement in info.unidentified]
    assert open_questions[0].startswith(
        f"{info.unvisited.size} of {learned.model.num_states * learned.model.num_actions} state-actions"
    )
    assert all(text[:-1].lower() in info.identification_text.lower() and text.endswith(".") for text in open_questions)


def test_what_is_not_identified_is_listed_in_one_sentence():
    assert describe_unidentified((), 2) == "Everything is identified, up to the order of the 2 types."
    two = Statement("no pairs", "open"), Statement("unpaired", "open", (), {"count": 3})
    assert [statement.text for statement in two] == [
        "No episode has two rewards, so differences between types are unknown.",
        "3 state-actions never occur with another reward in one episode, so differences between types there are "
        "unknown.",
    ]
    assert describe_unidentified(two, 2) == (
        "Not identified: no episode has two rewards, so differences between types are unknown; 3 state-actions "
        "never occur with another reward in one episode, so differences between types there are unknown."
    )


def test_numbers_are_said_with_the_digits_that_tell():
    text = [formatting.format_small(value) for value in (0.0, 0.62, 0.031, 0.0007, 3e-7, -3e-7, -1.5, None)]
    assert text == [
        "0.00",
        "0.62",
        "0.031",
        "0.0007",
        "<\u202f0.0001",
        ">\u202f\N{MINUS SIGN}0.0001",
        "\N{MINUS SIGN}1.50",
        "\N{EN DASH}",
    ]
    assert formatting.format_range(1.0, 1.2) == "1.00 to 1.20"
    assert formatting.format_range(1.00001, 1.00002) == "1.0000 to 1.0000"
    assert formatting.format_count(1234567) == "1\u202f234\u202f567"


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3.2, 8.9), (1e-9, 2e-9), (5, 5), (0, 1e6)])
def test_ticks_are_inside(low, high):
    result = ticks(low, high)
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in result)
    assert 1 <= len(result) <= 11


def luminance(color: str) -> float:
    channels = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.03928, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_text_has_contrast_in_light_and_dark(shop):
    blocks = re.findall(r":root \{(.*?)\}", render_page(shop), flags=re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        colors = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", block))
        pairs = [(ink, back) for ink in ("ink", "soft", "accent", "warn", "good") for back in ("paper", "sheet")]
        pairs += [("accent-ink", "accent"), *((f"a{i}", "ink") for i in range(8)), ("soft", "faint")]
        for ink, back in pairs:
            light, dark = sorted((luminance(colors[ink]), luminance(colors[back])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, back)
        for i in range(8):  # shapes need 3 to 1
            light, dark = sorted((luminance(colors[f"k{i}"]), luminance(colors["sheet"])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 3, i


def test_the_page_begins_with_the_verdict_and_the_types(shop):
    text = html.unescape(render_page(shop))
    first = text.index(shop["verdict"]["text"])
    assert first < text.index(shop["verdict"]["advice"]) < text.index(shop["types"][0]["text"])
    assert text.index(shop["types"][-1]["text"]) < text.index('class="cards"')
    assert shop["identification"]["text"] in text


def test_every_sentence_stands_on_the_page_once(shop):
    repeated = "Some sentence that a log is described by."
    section = {"title": "Coverage of the log", "paragraphs": [repeated], "columns": [], "rows": []}
    certificate = {**CERTIFICATE, "unproved": [*CERTIFICATE["unproved"], repeated]}
    text = render_page({**shop, "certificate": certificate, "sections": [section], "open_questions": []})
    for sentence in certificate["unproved"]:
        assert html.unescape(text).count(sentence) == 1


def test_date_and_versions_are_told_where_they_are_known(shop):
    made = {"date": "2031-02-03", "versions": {"Python": "3.99", "numpy": "9.9"}}
    text = render_page({**shop, "made": made})
    assert "Made on 2031-02-03." in text
    assert f"rewardmix {shop['rewardmix']}, Python 3.99, numpy 9.9." in text
    assert "Made on" not in render_page(shop)


@pytest.mark.parametrize(
    ("time_span", "text"),
    [
        (["2031-02-03T23:00:00", "2031-05-06T01:00:00"], "; 3 episodes, from 2031-02-03 to 2031-05-06."),
        (["2031-02-03T09:30:00", "2031-02-03T11:45:59"], "; 3 episodes, 2031-02-03, 09:30 to 11:45."),
        (None, "; 3 episodes."),
    ],
)
def test_the_range_of_dates_of_a_log_is_told_where_it_has_times(shop, time_span, text):
    notes = {"source_name": "a.csv", "num_rows": 9, "num_kept": 3, "time_span": time_span}
    text = text.replace("-", "\N{NON-BREAKING HYPHEN}")
    assert f"Data: 9 rows of a.csv{text}<" in render_page({**shop, "metadata": {"fit": {"notes": notes}}})


def test_the_contents_are_in_the_order_of_the_page(shop):
    text = render_page(shop)
    listed = re.findall(r'<a href="#([a-z0-9-]+)">', text[text.index('<nav class="contents"') : text.index("</nav>")])
    assert len(listed) > 6
    places = [text.index(f'id="{place}"') for place in listed]
    assert places == sorted(places)


def test_axes_can_be_read_where_all_numbers_are_nearly_the_same(shop):
    rows = [{"name": str(i), "value": 0.757414 + 1e-7 * i, "role": "other"} for i in range(3)]
    svg = figures.draw_policy_values(rows)
    marks = re.findall(r'class="tick"[^>]*>([^<]*)<', svg)
    assert len(marks) == len(set(marks)) > 1
    curve = {"belief": [0.0, 0.5, 1.0], "value": [0.656931, 0.656940, 0.656949], "intervals": [(0.0, 1.0, 0)]}
    env = labelled(shop)
    svg = figures.draw_value_curve({"curve": curve, "prior": [0.5, 0.5]}, env, {0: "t0"})
    marks = re.findall(r'class="tick"[^>]*text-anchor="end"[^>]*>([^<]*)<', svg)
    assert len(marks) > 1
    assert max(map(len, marks)) <= 5


@pytest.mark.parametrize(
    ("gain", "text"),
    [(0.0, "0.00"), (-3e-7, "0.00"), (0.0002, "+0.0002"), (-0.5, "\N{MINUS SIGN}0.50")],
)
def test_a_difference_that_nobody_would_notice_has_no_sign(gain, text):
    assert formatting.format_signed(gain) == text
    assert formatting.format_signed_percent(gain / 1000) == formatting.format_percent(0.0)


def test_no_ended_state_is_the_example():
    """Nearly all episodes are over at the step that is looked at."""
    transition = np.zeros((5, 4, 5))
    transition[:4, :, :4], transition[:4, :, 4], transition[4, :, 4] = 0.1 * SHOP.transition, 0.9, 1.0
    for num_types in (2, 3):
        probs = np.random.default_rng(5).random((num_types, 5, 4))
        probs[:, 4] = 0.0
        model = replace(
            SHOP,
            transition=transition,
            initial=np.append(SHOP.initial, 0.0),
            rewards=probs,
            weights=np.full(num_types, 1 / num_types),
            state_names=(*SHOP.state_names, "end"),
        )
        shown = make_belief_view(plan(model))
        places = [shown["state"], *(piece["state"] for piece in (*shown.get("maps", ()), *shown.get("more", ())))]
        assert 4 not in places
        assert len(set(places)) > 1  # the types are shown in several states


def test_labels_are_names_that_fit_or_numbers():
    assert labels.fit_labels(["home", "cart"], 4) == ["home", "cart"]
    assert labels.fit_labels(["row 1 column 1", "row 1 column 2"], 9) == ["1", "2"]
    assert labels.fit_labels(["state 1", "state 12"], 3) == ["1", "12"]
    names = tuple(f"row {i} column {j}" for i in range(2) for j in range(2))
    text = render_page(make_summary(replace(SHOP, state_names=names)))
    assert "<b>4</b> row 1 column 1" in text
    assert "States by number" not in render_page(make_summary(SHOP))
    assert "…" not in text[: text.index("<script")]


def test_a_map_of_pairs_that_nobody_met_has_a_key():
    empty = [[-1 if (i + j) % 2 else 0 for j in range(i + 1)] for i in range(30)]
    env = {"num_states": 10, "num_actions": 3, "state_labels": [str(s) for s in range(10)]}
    svg = figures.draw_pair_map(
        {"cells": empty, "block": 1, "num_observed": 0, "num_missing": 240, "num_impossible": 225}, env
    )
    assert "not observed" in svg
    assert "impossible" in svg
    assert "cell h" not in svg
