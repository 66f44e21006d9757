"""One type is a model like others: everything that takes a model or a plan takes that one, and nothing adapts."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

import rewardmix as rm
from report.test_player import COMPARE, run
from rewardmix import belief, logs
from rewardmix.cli.app import app
from rewardmix.planning import compare, plan_markov
from rewardmix.recovery import recover
from rewardmix.report.findings import fitted_findings, planned_findings
from rewardmix.report.playable import as_json, playable

pytest.importorskip("pyarrow", reason="needs rewardmix[logs]")


def single(seed=1, **sizes):
    world = rm.problems.make("random", **{"states": 4, "actions": 3, "horizon": 6, "seed": seed, **sizes})
    names = tuple(f"page {s}" for s in range(world.num_states))
    return replace(world, weights=np.ones(1), rewards=world.rewards[:1], state_names=names)


@pytest.fixture(scope="module")
def episodes():
    world = single()
    return rm.simulate(rm.uniform(world), world, 1500, seed=4)


@pytest.fixture(scope="module")
def fitted(episodes):
    return logs.fit(episodes, num_contexts="auto", resamples=2)


@pytest.mark.parametrize("values", [(0.0, 1.0), (-1.0, 0.0, 2.0)])
def test_the_plan_is_the_markov_plan(values):
    world = single(seed=2, reward_values=values)
    plan, markov = rm.plan(world), plan_markov(world)
    assert plan.info.converged
    assert plan.upper - plan.lower < 1e-9
    assert plan.lower == pytest.approx(markov.value, abs=1e-9)
    assert rm.evaluate(plan.policy, world).value == pytest.approx(markov.value, abs=1e-12)
    standing = compare(world)
    assert standing.told == pytest.approx(markov.value, abs=1e-12)
    assert abs(standing.gain) < 1e-9


def test_recovery_is_the_average(episodes):
    found = recover(episodes, num_contexts=1)
    states, actions = episodes.states[:, :-1].ravel(), episodes.actions.ravel()
    for s in range(4):
        for a in range(3):
            here = (states == s) & (actions == a)
            rewards = episodes.rewards.ravel()[here]
            assert found.model.rewards[0, s, a] == pytest.approx(rewards.mean(), abs=1e-9)
            error = np.sqrt(rewards.mean() * (1 - rewards.mean()) / here.sum())
            assert found.info.errors[0, s, a] == pytest.approx(error, rel=0.1)
    assert found.info.not_identified == "Everything is identified."
    assert found.model.weights.tolist() == [1.0]


def test_a_log_of_one_type_is_planned_with_one(fitted):
    assert fitted.model.num_contexts == 1
    assert [fact.what for fact in fitted.info.facts] == ["one type"]
    world = single()
    earned = rm.evaluate(fitted.plan.policy, world).value
    assert earned > 0.99 * plan_markov(world).value
    assert rm.evaluate(fitted.plan.policy, fitted.model).value == pytest.approx(
        plan_markov(fitted.model).value, rel=0.01
    )
    assert not any("types add" in sentence for sentence in fitted.info.sentences)


def test_one_type_explains_as_much_as_a_number_that_was_given(episodes):
    two = logs.fit(episodes, num_contexts=2, resamples=0)
    assert [fact.what for fact in two.info.facts] == ["one type"]


def test_the_page_claims_no_gain(fitted):
    for findings in (fitted_findings(fitted, title="log"), planned_findings(fitted.plan, title="plan")):
        summary = rm.report.summarise(findings)
        assert summary["answer"]["gain"] <= 1e-9
        assert "nothing to adapt to" in summary["verdict"]["sentence"]
        assert len(summary["types"]) == 1
        assert "others" not in summary["types"][0]["sentence"]
        assert summary["recognition"]["sentence"] == "There is one type, and nothing to recognise."
        page = rm.report.page(summary)
        assert "nothing to adapt to" in page
        assert "over how sure the policy is" not in page


def test_files_give_it_back(fitted, tmp_path):
    rm.save(tmp_path / "plan.safetensors", fitted.plan)
    back = rm.load(tmp_path / "plan.safetensors")
    assert (back.lower, back.upper, back.model.num_contexts) == (fitted.plan.lower, fitted.plan.upper, 1)
    assert fitted.plan.belief_policy.start(0) is not None


def test_every_command_takes_it(episodes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    logs.write("week1.parquet", episodes[:1000])
    logs.write("week2.parquet", episodes[1000:])

    def said(*words):
        done = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    first = said("fit", "week1.parquet", "--contexts", "auto", "--resamples", 0, "--out", "one")
    assert "1 type with weights 1.000" in first
    assert first.index("One type explains") < first.index("planned in the model")
    second = said("fit", "week2.parquet", "--start", "one", "--resamples", 0, "--out", "two")
    assert "The model has one type: there is nothing to adapt to." in second
    assert "types, shares" not in second
    assert "moved" in said("compare", "one", "two")
    said("posterior", "one", "week2.parquet", "--out", "types.csv")
    rows = (tmp_path / "types.csv").read_text().splitlines()
    assert rows[0] == '"episode","type","chance_1"'
    assert {row.partition(",")[2] for row in rows[1:]} == {"1,1"}
    said("export", "one/policy.safetensors", "--format", "json", "--out", "policy.json")
    assert json.loads((tmp_path / "policy.json").read_text())["weights"] == [1]
    for kind in ("pomdp", "pomdpx"):
        said("export", "one/model.safetensors", "--format", kind, "--out", f"model.{kind}")
    assert "optimum between" in said("plan", "one/model.safetensors")
    said("simulate", "one/model.safetensors", "--episodes", 50, "--out", "more.parquet")
    said("evaluate", "one/policy.safetensors", "one/model.safetensors")
    said("report", "one")
    assert "Not asked whether the type stays the same" in said("check", "week1.parquet", "--contexts", "auto")


def test_the_player_plays_it(fitted, node, tmp_path):
    model, policy = fitted.model, fitted.plan.policy
    played = rm.simulate(policy, model, 40, seed=1)
    sessions = []
    for k in range(40):
        states, believed, path = played.states[k].tolist(), model.weights, []
        for t in range(model.horizon):
            path.append(believed.tolist())
            law = model.laws[:, states[t], played.actions[k, t], played.outcomes[k, t]]
            believed = belief.update(believed, law)
        sessions.append(
            {
                "start": states[0],
                "actions": played.actions[k].tolist(),
                "rewards": played.rewards[k].tolist(),
                "states": states[1:],
                "beliefs": [*path, believed.tolist()],
            }
        )
    text = as_json({"policy": playable(policy, model), "sessions": sessions})
    (tmp_path / "sessions.json").write_text(text)
    told = json.loads(run(node, tmp_path, COMPARE))
    assert told["wrong"] == told["undone"] == 0
    assert told["worst"] < 1e-12


def test_learning_within_a_budget_says_one_type():
    learned = rm.learn(single(), episodes=1500, num_contexts="auto", resamples=2, seed=1)
    assert learned.model.num_contexts == 1
    assert any(fact.what == "one type" for fact in learned.certificate.facts)
    assert np.isnan(learned.certificate.truth.share)  # there is no gain to have a share of
    assert learned.certificate.truth.regret < 0.02 * plan_markov(single()).value
