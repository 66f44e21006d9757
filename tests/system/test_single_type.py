"""One type is a model like others: everything that takes a model or a plan takes that one, and nothing adapts."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import rewardmix as rm
from report.test_policy_json import COMPARE, run
from rewardmix import belief, logs
from rewardmix.cli.app import app
from rewardmix.planning import compare_planners, plan_markov
from rewardmix.recovery import recover
from rewardmix.report.policy_json import policy_to_dict, to_json
from rewardmix.report.report_data import report_data_from_fit, report_data_from_plan

pytest.importorskip("pyarrow", reason="needs rewardmix[logs]")


def single(seed=1, **sizes):
    env = rm.problems.make_model("random", **{"states": 4, "actions": 3, "horizon": 6, "seed": seed, **sizes})
    names = tuple(f"page {s}" for s in range(env.num_states))
    return replace(env, weights=np.ones(1), rewards=env.rewards[:1], state_names=names)


@pytest.fixture(scope="module")
def episodes():
    env = single()
    return rm.simulate(rm.uniform_policy(env), env, 1500, seed=4)


@pytest.fixture(scope="module")
def fitted(episodes):
    return logs.fit(episodes, num_types="auto", num_resamples=2)


@pytest.mark.parametrize("values", [(0.0, 1.0), (-1.0, 0.0, 2.0)])
def test_the_plan_is_the_markov_plan(values):
    env = single(seed=2, reward_values=values)
    plan, markov = rm.plan(env), plan_markov(env)
    assert plan.info.converged
    assert plan.upper - plan.lower < 1e-9
    assert plan.lower == pytest.approx(markov.value, abs=1e-9)
    assert rm.evaluate(plan.policy, env).value == pytest.approx(markov.value, abs=1e-12)
    row = compare_planners(env)
    assert row.oracle == pytest.approx(markov.value, abs=1e-12)
    assert abs(row.adaptivity_gain) < 1e-9


def test_recovery_is_the_average(episodes):
    result = recover(episodes, num_types=1)
    states, actions = episodes.states[:, :-1].ravel(), episodes.actions.ravel()
    for s in range(4):
        for a in range(3):
            is_visit = (states == s) & (actions == a)
            rewards = episodes.rewards.ravel()[is_visit]
            assert result.model.rewards[0, s, a] == pytest.approx(rewards.mean(), abs=1e-9)
            error = np.sqrt(rewards.mean() * (1 - rewards.mean()) / is_visit.sum())
            assert result.info.reward_errors[0, s, a] == pytest.approx(error, rel=0.1)
    assert result.info.identification_text == "Everything is identified."
    assert result.model.weights.tolist() == [1.0]


def test_a_log_of_one_type_is_planned_with_one(fitted):
    assert fitted.model.num_types == 1
    assert [fact.key for fact in fitted.info.statements] == ["one type"]
    env = single()
    value = rm.evaluate(fitted.plan.policy, env).value
    assert value > 0.99 * plan_markov(env).value
    assert rm.evaluate(fitted.plan.policy, fitted.model).value == pytest.approx(
        plan_markov(fitted.model).value, rel=0.01
    )
    assert not any("types increase" in sentence for sentence in fitted.info.report_text)


def test_one_type_explains_as_much_as_a_number_that_was_given(episodes):
    fit_of_two = logs.fit(episodes, num_types=2, num_resamples=0)
    assert [fact.key for fact in fit_of_two.info.statements] == ["one type"]


def test_the_page_claims_no_gain(fitted):
    for findings in (report_data_from_fit(fitted, title="log"), report_data_from_plan(fitted.plan, title="plan")):
        summary = rm.report.build_summary(findings)
        assert summary["headline"]["adaptivity_gain"] <= 1e-9
        assert "nothing to adapt to" in summary["verdict"]["text"]
        assert len(summary["types"]) == 1
        assert "others" not in summary["types"][0]["text"]
        assert summary["identification"]["text"] == "There is one type; nothing has to be identified."
        page = rm.report.render_page(summary)
        assert "nothing to adapt to" in page
        assert "over how sure the policy is" not in page


def test_files_give_it_back(fitted, tmp_path):
    rm.save(tmp_path / "plan.safetensors", fitted.plan)
    back = rm.load(tmp_path / "plan.safetensors")
    assert (back.lower, back.upper, back.model.num_types) == (fitted.plan.lower, fitted.plan.upper, 1)
    assert fitted.plan.belief_policy.start(0) is not None


def test_every_command_takes_it(episodes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    logs.write_log("week1.parquet", episodes[:1000])
    logs.write_log("week2.parquet", episodes[1000:])

    def said(*words):
        done = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    first = said("fit", "week1.parquet", "--num-types", "auto", "--num-resamples", 0, "--out", "one")
    assert "1 type with weights 1.000" in first
    assert first.index("One type explains") < first.index("planned in the model")
    second = said("fit", "week2.parquet", "--init-model", "one", "--num-resamples", 0, "--out", "two")
    assert "The model has one type; there is nothing to adapt to." in second
    assert "types, shares" not in second
    assert "changed" in said("compare-runs", "one", "two")
    said("infer-types", "one", "week2.parquet", "--out", "types.csv")
    rows = (tmp_path / "types.csv").read_text().splitlines()
    assert rows[0] == '"episode","type","prob_1"'
    assert {row.partition(",")[2] for row in rows[1:]} == {"1,1"}
    said("export", "one/policy.safetensors", "--format", "json", "--out", "policy.json")
    assert json.loads((tmp_path / "policy.json").read_text())["weights"] == [1]
    for kind in ("pomdp", "pomdpx"):
        said("export", "one/model.safetensors", "--format", kind, "--out", f"model.{kind}")
    assert "optimal value between" in said("plan", "one/model.safetensors")
    said("simulate", "one/model.safetensors", "--num-episodes", 50, "--out", "more.parquet")
    said("evaluate", "one/policy.safetensors", "one/model.safetensors")
    said("report", "one")
    assert "Not tested whether the type" in said("diagnose", "week1.parquet", "--num-types", "auto")


def test_the_player_plays_it(fitted, node, tmp_path):
    model, policy = fitted.model, fitted.plan.policy
    played = rm.simulate(policy, model, 40, seed=1)
    sessions = []
    for k in range(40):
        states, believed, path = played.states[k].tolist(), model.weights, []
        for t in range(model.horizon):
            path.append(believed.tolist())
            dist = model.reward_probs[:, states[t], played.actions[k, t], played.reward_indices[k, t]]
            believed = belief.update(believed, dist)
        sessions.append(
            {
                "start": states[0],
                "actions": played.actions[k].tolist(),
                "rewards": played.rewards[k].tolist(),
                "states": states[1:],
                "beliefs": [*path, believed.tolist()],
            }
        )
    text = to_json({"policy": policy_to_dict(policy, model), "sessions": sessions})
    (tmp_path / "sessions.json").write_text(text)
    result = json.loads(run(node, tmp_path, COMPARE))
    assert result["wrong"] == result["undone"] == 0
    assert result["worst"] < 1e-12


def test_learning_within_a_budget_says_one_type():
    learned = rm.learn(single(), num_episodes=1500, num_types="auto", num_resamples=2, seed=1)
    assert learned.model.num_types == 1
    assert any(fact.key == "one type" for fact in learned.certificate.statements)
    assert np.isnan(learned.certificate.true_model.normalized_score)  # there is no gain to have a share of
    assert learned.certificate.true_model.regret < 0.02 * plan_markov(single()).value
