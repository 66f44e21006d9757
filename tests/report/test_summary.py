"""The numbers behind the page, against brute force."""

from __future__ import annotations

import html
import itertools
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from report.example import CERTIFICATE, mixed, noisy, summary_of
from rewardmix import belief, learn, problems
from rewardmix.evaluation import evaluate
from rewardmix.facts import Fact, unidentified_sentence
from rewardmix.model import RewardMixingMDP, dense_transition
from rewardmix.moments import Moments
from rewardmix.planning import plan
from rewardmix.policy import uniform
from rewardmix.report import Findings, figures, labels, page, summarise, words
from rewardmix.report.beliefs import belief_view, occupancy, reach
from rewardmix.report.findings import learned_findings
from rewardmix.report.page import _labelled as labelled
from rewardmix.report.summary import IMPOSSIBLE, MOST_ROWS, pair_coverage
from rewardmix.report.svg import ticks
from rewardmix.simulation import simulate

SHOP = problems.make("shop")


@pytest.fixture(scope="module")
def shop():
    return summary_of(SHOP)


def paths(model: RewardMixingMDP):
    """Every sequence of H (state, action) that the moves allow."""
    transition = dense_transition(model)
    steps = [[(s,)] for s in np.flatnonzero(model.initial > 0)]
    found = [[s] for (s,) in itertools.chain.from_iterable(steps)]
    whole = []
    stack = [(path, []) for path in found]
    while stack:
        states, actions = stack.pop()
        if len(actions) == model.horizon:
            whole.append(list(zip(states, actions, strict=False)))
            continue
        for a in range(model.num_actions):
            if len(actions) + 1 == model.horizon:
                stack.append((states, [*actions, a]))
            else:
                stack += [([*states, int(s)], [*actions, a]) for s in np.flatnonzero(transition[states[-1], a] > 0)]
    return whole


@pytest.mark.parametrize("name", ["lock", "branches", "probe"])
def test_possible_pairs_are_those_of_some_path(name):
    options = {"lock": {"steps": 3}, "branches": {}, "probe": {"horizon": 4}}[name]
    model = problems.make(name, **options)
    expected = np.zeros((model.num_states * model.num_actions,) * 2, bool)
    for path in paths(model):
        for (s, a), (u, b) in itertools.combinations(path, 2):
            x, y = s * model.num_actions + a, u * model.num_actions + b
            expected[x, y] = expected[y, x] = True
    found = pair_coverage(Moments.of(simulate(uniform(model), model, 20_000, seed=4)))
    cells = [[seen != IMPOSSIBLE for seen in row] for row in found["cells"]]
    assert cells == [expected[x, : x + 1].tolist() for x in range(len(cells))]
    assert found["impossible"] == (~expected[np.tril_indices_from(expected)]).sum()


def test_coverage_counts_and_blocks():
    model = problems.make("random", states=11, actions=4, horizon=4)
    moments = Moments.of(simulate(uniform(model), model, 3_000, seed=5))
    found, counts = pair_coverage(moments), moments.pair_counts()
    lower = np.tril(np.ones_like(counts, bool))
    assert found["seen"] == (counts[lower] > 0).sum()
    assert found["seen"] + found["never"] + found["impossible"] == lower.sum()
    assert found["block"] == 2
    assert len(found["cells"]) == 22 <= MOST_ROWS
    assert found["cells"][5][3] == counts[10:12, 6:8].min()
    assert found["cells"][9][9] == min(counts[18, 18], counts[19, 18], counts[19, 19])


def test_occupancy_is_that_of_play():
    model = problems.make("lock", steps=3)
    answer = plan(model)
    played = simulate(answer.policy, model, 40_000, seed=3).states[:, : model.horizon]
    seen = np.stack([np.bincount(played[:, t], minlength=model.num_states) for t in range(model.horizon)]) / 40_000
    np.testing.assert_allclose(occupancy(answer), seen, rtol=0, atol=6 * 0.5 / 200)
    np.testing.assert_allclose(occupancy(answer).sum(axis=1), 1.0, rtol=0, atol=1e-12)


def test_reach_holds_every_belief():
    model = replace(SHOP, horizon=4)
    low, high = reach(model)
    likelihoods = model.laws.reshape(2, -1).T
    beliefs = model.weights[None]
    for t in range(4):
        np.testing.assert_allclose([low[t], high[t]], [beliefs[:, 0].min(), beliefs[:, 0].max()], rtol=0, atol=1e-12)
        beliefs = belief.update(beliefs[:, None], likelihoods[None]).reshape(-1, 2)


def test_curve_is_the_value_of_the_plan(shop):
    answer = plan(noisy(SHOP))
    view, curve = shop["beliefs"], shop["beliefs"]["curve"]
    for share, value in zip(curve["belief"][::20], curve["value"][::20], strict=True):
        expected = answer.alpha_vectors.value(view["step"], view["state"], np.array([share, 1 - share]))
        assert value == pytest.approx(expected, abs=1e-12)
    for start, end, action in curve["runs"]:
        middle = (start + end) / 2
        assert answer.alpha_vectors(view["step"], view["state"], np.array([middle, 1 - middle])) == action
    ends = np.array(curve["runs"])
    np.testing.assert_array_equal(ends[1:, 0], ends[:-1, 1])


def test_truth_is_put_in_the_order_of_the_recovered_contexts():
    turned = replace(SHOP, weights=SHOP.weights[::-1], rewards=SHOP.rewards[::-1])
    answer = plan(SHOP)
    summary = summarise(Findings(title="turned", model=SHOP, plan=answer, truth={"model": turned, "value": 1.0}))
    assert all(row["truth"] == row["values"] for row in summary["rewards"]["rows"])


@pytest.mark.parametrize("other", [problems.make("grid"), mixed(3, (0.0, 1.0), 1), problems.make("lock")])
def test_truth_of_another_shape_is_left_out(other):
    summary = summarise(Findings(title="other", model=SHOP, plan=plan(SHOP), truth={"model": other}))
    assert all(row["truth"] is None for row in summary["rewards"]["rows"])


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
    moments = Moments.of(simulate(uniform(SHOP), SHOP, 100, seed=1))
    summary = summarise(Findings(title="end", model=model, plan=plan(model), moments=moments, truth={"model": SHOP}))
    rows = summary["rewards"]["rows"]
    assert [row["truth"] == row["values"] for row in rows] == [row["state"] < 4 for row in rows]
    assert page(summary)


def test_headline_takes_the_best_evidence():
    answer = plan(SHOP)
    common = {"title": "shop", "model": SHOP, "plan": answer}
    played = {"validation": {"value": 5.0, "lower": 4.9, "upper": 5.1, "episodes": 100}}
    planned = summarise(Findings(**common))["answer"]
    assert planned["measured"] == "planned"
    assert [planned["lower"], planned["upper"]] == [answer.lower, answer.upper]
    assert summarise(Findings(**common, certificate=played))["answer"]["measured"] == "played"
    exact = summarise(Findings(**common, certificate=played, truth={"model": SHOP, "value": 5.5, "regret": 0.1}))[
        "answer"
    ]
    assert (exact["measured"], exact["value"], exact["regret_measured"]) == ("exact", 5.5, "exact")
    boot = summarise(Findings(**common, certificate=CERTIFICATE))["answer"]
    assert (boot["regret"], boot["regret_upper"], boot["regret_measured"]) == (0.021, 0.048, "bootstrap")


def test_planned_values_are_called_optimistic():
    text = re.sub(r"\s+", " ", page(summary_of(SHOP, known=False)))
    assert "The policy is planned to earn" in text
    assert "Such values are optimistic" in text
    assert "in the recovered model, optimistic by nature; not a measurement" in text
    assert "not a guarantee" in text


def test_an_estimate_from_a_log_is_not_called_a_measurement():
    logged = {"validation": {"value": 5.0, "lower": 4.9, "upper": 5.1, "episodes": 100, "measured": "logged"}}
    summary = summarise(Findings(title="log", model=SHOP, plan=plan(SHOP), certificate=logged))
    assert summary["answer"]["measured"] == "logged"
    text = re.sub(r"\s+", " ", page(summary))
    assert "The policy is estimated to earn" in text
    assert "100 held-out episodes of the log, for the policy planned without them" in text
    assert "fresh episodes" not in text
    assert "Measured in" not in text


def test_regret_is_told_apart_from_what_planning_left_open():
    told = {"regret": 0.5, "regret_measured": "exact", "regret_least": 0.2}
    assert "It is at least 0.20" in words.regret(told)
    assert "at least" not in words.regret({**told, "regret_least": 0.4995})
    guessed = {"regret": 0.02, "regret_measured": "bootstrap", "regret_upper": 0.05, "regret_gap": 0.44}
    assert "0.050 in the worst resample" in words.regret(guessed)
    assert "Better plans may add 0.44" in words.regret(guessed)
    assert "Better plans" not in words.regret({**guessed, "regret_gap": 1e-3})
    for answer in (told, guessed):
        assert "exactly" not in words.regret(answer)


def test_the_theory_setting_claims_no_more_than_its_facts():
    """The page must not say that everything listed holds: it lists what had its premises checked."""
    shown = {**CERTIFICATE, "setting": "theory"}
    text = re.sub(r"\s+", " ", page(summarise(Findings(title="shop", model=SHOP, plan=plan(SHOP), certificate=shown))))
    assert "no bound of the regret follows" in text
    assert "Every constant is derived" not in text


def test_gain_is_the_difference_to_the_fixed_policy(shop):
    rows = {row["role"]: row["value"] for row in shop["comparison"]["rows"] if row["role"]}
    assert shop["answer"]["gain"] == pytest.approx(rows["adaptive"] - rows["fixed"])
    assert rows["adaptive"] == evaluate(plan(noisy(SHOP)).policy, SHOP).value


def test_page_is_the_same_from_json_and_needs_nothing_else(shop):
    text = page(shop)
    assert page(json.loads(json.dumps(shop))) == text
    assert re.findall(r"https?://[^\"'\s]+", text) == ["http://www.w3.org/2000/svg"]
    links = set(re.findall(r"(?:src|href)=\"([^\"]*)\"", text)) - {"data:,"}
    assert "#session-title" in links
    assert links == {f"#{name}" for name in re.findall(r"<h2 id=\"([^\"]*)\"", text)} - {"#verdict"}
    assert "url(" not in text
    assert "@import" not in text
    assert len(text) < 200_000


def test_a_bare_summary_is_a_page():
    model = problems.make("hard")
    text = page(summarise(Findings(title="bare", model=model, plan=plan(model))))
    assert "Nothing was found that the data leave open" in text


def test_a_policy_too_large_for_a_page_is_exported_apart(monkeypatch):
    monkeypatch.setattr("rewardmix.report.summary.LARGEST_SESSION", 100)
    summary = summarise(Findings(title="large", model=SHOP, plan=plan(SHOP)))
    assert summary["session"] is None
    text = page(summary)
    assert "rewardmix export POLICY --format json" in text
    assert "<script" not in text


def test_long_curves_and_many_rewards_are_thinned():
    model = problems.make("random", states=20, actions=3, horizon=3)
    curve = [(k, 1 / k) for k in range(1, 5_000)]
    summary = summarise(Findings(title="long", model=model, plan=plan(model), uncertainty=curve))
    assert summary["uncertainty"][0] == [1.0, 1.0]
    assert summary["uncertainty"][-1] == [4_999.0, 1 / 4_999]
    assert len(summary["uncertainty"]) <= 240
    gaps = np.abs(model.gap).ravel()
    shown = [row["state"] * 3 + row["action"] for row in summary["rewards"]["rows"]]
    assert set(shown) == set(np.argsort(-gaps)[:30])
    assert summary["rewards"]["left_out"] == 30


def test_other_data_are_refused():
    with pytest.raises(ValueError, match=r"summary: found schema None, expected 'rewardmix-result/1'"):
        page({})
    with pytest.raises(ValueError, match=r"plan: found a plan for rewards of shape \(2, 3, 4\), expected \(2, 4, 4\)"):
        summarise(Findings(title="", model=SHOP, plan=plan(problems.make("probe"))))


def test_kappa_is_shown_with_what_is_known_of_the_weights(shop):
    for taken, said in (("known", False), ("estimated", True)):
        certificate = {**CERTIFICATE, "kappa_weights": taken}
        assert (f"explain all pairs, with weights {taken}" in page({**shop, "certificate": certificate})) == said


def test_open_questions_are_one_sentence_each():
    learned = learn("lock", episodes=20, resamples=0)
    info = learned.recovery.info
    open_questions = learned_findings(learned, title="lock").unanswered
    assert [fact.what for fact in info.unidentified][:1] == ["never visited"]
    assert open_questions == [fact.sentence for fact in info.unidentified]
    assert open_questions[0].startswith(
        f"{info.never_visited.size} of {learned.model.num_states * learned.model.num_actions} state-actions"
    )
    assert all(said[:-1].lower() in info.not_identified.lower() and said.endswith(".") for said in open_questions)


def test_what_is_not_identified_is_listed_in_one_sentence():
    assert unidentified_sentence((), 2) == "Everything is identified, up to the order of the 2 types."
    two = Fact("no pairs", "open"), Fact("alone", "open", (), {"count": 3})
    assert [fact.sentence for fact in two] == [
        "No episode has two rewards, so nothing is known about how types differ.",
        "3 state-actions were never seen with another reward in one episode, so how types differ there is unknown.",
    ]
    assert unidentified_sentence(two, 2) == (
        "Not identified: no episode has two rewards, so nothing is known about how types differ; 3 state-actions "
        "were never seen with another reward in one episode, so how types differ there is unknown."
    )


def test_numbers_are_said_with_the_digits_that_tell():
    said = [words.fine(value) for value in (0.0, 0.62, 0.031, 0.0007, 3e-7, -3e-7, -1.5, None)]
    assert said == [
        "0.00",
        "0.62",
        "0.031",
        "0.0007",
        "<\u202f0.0001",
        ">\u202f\N{MINUS SIGN}0.0001",
        "\N{MINUS SIGN}1.50",
        "\N{EN DASH}",
    ]
    assert words.between(1.0, 1.2) == "1.00 to 1.20"
    assert words.between(1.00001, 1.00002) == "1.0000 to 1.0000"
    assert words.count(1234567) == "1\u202f234\u202f567"


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3.2, 8.9), (1e-9, 2e-9), (5, 5), (0, 1e6)])
def test_ticks_are_inside(low, high):
    found = ticks(low, high)
    assert all(low - 1e-9 <= tick <= high + 1e-9 for tick in found)
    assert 1 <= len(found) <= 11


def luminance(colour: str) -> float:
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_text_has_contrast_in_light_and_dark(shop):
    blocks = re.findall(r":root \{(.*?)\}", page(shop), flags=re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        colours = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6})", block))
        pairs = [(ink, back) for ink in ("ink", "soft", "accent", "warn", "good") for back in ("paper", "sheet")]
        pairs += [("accent-ink", "accent"), *((f"a{i}", "ink") for i in range(8)), ("soft", "faint")]
        for ink, back in pairs:
            light, dark = sorted((luminance(colours[ink]), luminance(colours[back])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, back)
        for i in range(8):  # shapes need 3 to 1
            light, dark = sorted((luminance(colours[f"k{i}"]), luminance(colours["sheet"])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 3, i


def test_the_page_begins_with_the_verdict_and_the_types(shop):
    text = html.unescape(page(shop))
    first = text.index(shop["verdict"]["sentence"])
    assert first < text.index(shop["verdict"]["advice"]) < text.index(shop["types"][0]["sentence"])
    assert text.index(shop["types"][-1]["sentence"]) < text.index('class="cards"')
    assert shop["recognition"]["sentence"] in text


def test_every_sentence_stands_on_the_page_once(shop):
    twice = "Some sentence that a log is described by."
    section = {"title": "What the log holds", "paragraphs": [twice], "columns": [], "rows": []}
    certificate = {**CERTIFICATE, "not_proved": [*CERTIFICATE["not_proved"], twice]}
    text = page({**shop, "certificate": certificate, "sections": [section], "unanswered": []})
    for sentence in certificate["not_proved"]:
        assert html.unescape(text).count(sentence) == 1


def test_date_and_versions_are_told_where_they_are_known(shop):
    made = {"date": "2031-02-03", "versions": {"Python": "3.99", "numpy": "9.9"}}
    text = page({**shop, "made": made})
    assert "Made on 2031-02-03." in text
    assert f"rewardmix {shop['rewardmix']}, Python 3.99, numpy 9.9." in text
    assert "Made on" not in page(shop)


@pytest.mark.parametrize(
    ("span", "said"),
    [
        (["2031-02-03T23:00:00", "2031-05-06T01:00:00"], ": 3 episodes, from 2031-02-03 to 2031-05-06."),
        (["2031-02-03T09:30:00", "2031-02-03T11:45:59"], ": 3 episodes, 2031-02-03, 09:30 to 11:45."),
        (None, ": 3 episodes."),
    ],
)
def test_the_range_of_dates_of_a_log_is_told_where_it_has_times(shop, span, said):
    notes = {"name": "a.csv", "rows": 9, "kept": 3, "span": span}
    said = said.replace("-", "\N{NON-BREAKING HYPHEN}")
    assert f"From 9 rows of a.csv{said}<" in page({**shop, "record": {"fit": {"notes": notes}}})


def test_the_contents_are_in_the_order_of_the_page(shop):
    text = page(shop)
    listed = re.findall(r'<a href="#([a-z0-9-]+)">', text[text.index('<nav class="contents"') : text.index("</nav>")])
    assert len(listed) > 6
    places = [text.index(f'id="{place}"') for place in listed]
    assert places == sorted(places)


def test_axes_can_be_read_where_all_numbers_are_nearly_the_same(shop):
    rows = [{"name": str(i), "value": 0.757414 + 1e-7 * i, "role": "other"} for i in range(3)]
    drawn = figures.policy_values(rows)
    marks = re.findall(r'class="tick"[^>]*>([^<]*)<', drawn)
    assert len(marks) == len(set(marks)) > 1
    curve = {"belief": [0.0, 0.5, 1.0], "value": [0.656931, 0.656940, 0.656949], "runs": [(0.0, 1.0, 0)]}
    world = labelled(shop)
    drawn = figures.value_curve({"curve": curve, "prior": [0.5, 0.5]}, world, {0: "t0"})
    marks = re.findall(r'class="tick"[^>]*text-anchor="end"[^>]*>([^<]*)<', drawn)
    assert len(marks) > 1
    assert max(map(len, marks)) <= 5


@pytest.mark.parametrize(
    ("gain", "said"),
    [(0.0, "0.00"), (-3e-7, "0.00"), (0.0002, "+0.0002"), (-0.5, "\N{MINUS SIGN}0.50")],
)
def test_a_difference_that_nobody_would_notice_has_no_sign(gain, said):
    assert words.signed(gain) == said
    assert words.signed_percent(gain / 1000) == words.percent(0.0)


def test_no_ended_state_is_the_example():
    """Nearly all episodes are over at the step that is looked at."""
    transition = np.zeros((5, 4, 5))
    transition[:4, :, :4], transition[:4, :, 4], transition[4, :, 4] = 0.1 * SHOP.transition, 0.9, 1.0
    for contexts in (2, 3):
        laws = np.random.default_rng(5).random((contexts, 5, 4))
        laws[:, 4] = 0.0
        model = replace(
            SHOP,
            transition=transition,
            initial=np.append(SHOP.initial, 0.0),
            rewards=laws,
            weights=np.full(contexts, 1 / contexts),
            state_names=(*SHOP.state_names, "end"),
        )
        shown = belief_view(plan(model))
        places = [shown["state"], *(part["state"] for part in (*shown.get("maps", ()), *shown.get("more", ())))]
        assert 4 not in places
        assert len(set(places)) > 1  # the types are shown in several states


def test_labels_are_names_that_fit_or_numbers():
    assert labels.fitting(["home", "cart"], 4) == ["home", "cart"]
    assert labels.fitting(["row 1 column 1", "row 1 column 2"], 9) == ["1", "2"]
    assert labels.fitting(["state 1", "state 12"], 3) == ["1", "12"]
    names = tuple(f"row {i} column {j}" for i in range(2) for j in range(2))
    text = page(summary_of(replace(SHOP, state_names=names)))
    assert "<b>4</b> row 1 column 1" in text
    assert "States by number" not in page(summary_of(SHOP))
    assert "…" not in text[: text.index("<script")]


def test_a_map_of_pairs_that_nobody_met_has_a_key():
    nothing = [[-1 if (i + j) % 2 else 0 for j in range(i + 1)] for i in range(30)]
    world = {"states": 10, "actions": 3, "state_labels": [str(s) for s in range(10)]}
    drawn = figures.pair_map({"cells": nothing, "block": 1, "seen": 0, "never": 240, "impossible": 225}, world)
    assert "never seen" in drawn
    assert "cannot meet" in drawn
    assert "cell h" not in drawn
