"""The certificate: what is called proved has premises that hold, and one that is broken takes the statement away."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from helpers.learn_settings import make_learn_settings as settings
from rewardmix import InputError, learn, problems
from rewardmix.bootstrap_regret import BootstrapRegret
from rewardmix.evaluation import Evaluation, confidence_interval
from rewardmix.exploration import explore, practical_bonus, theory_bonus
from rewardmix.exploration import paper_bonus as paper_setting
from rewardmix.exploration.bonuses import TheoryBonus
from rewardmix.learning.certificate import (
    LearnStages,
    TrueModelComparison,
    bracket_premises,
    interval_premises,
    make_certificate,
    theorem_premises,
)
from rewardmix.planning import plan
from rewardmix.recovery import algorithm_3, maximum_likelihood, normal_rule, recover
from rewardmix.statements import STATEMENT_STATUSES, TEMPLATES, Premise, Statement, prove

WORLD = problems.make_model("hard")
HALVES = np.array([0.5, 0.5])


@pytest.fixture(scope="module")
def all_data():
    """What was asked and found in a run that the theorem speaks of, but for its constant."""
    exploration = explore(WORLD, uncertainty_threshold=0.5, bonus=theory_bonus)
    recovery = recover(exploration.episodes, weights=HALVES, method=algorithm_3, epsilon=4.0)
    arguments = settings(env=WORLD, bonus=theory_bonus, method=algorithm_3, weights=HALVES, target_regret=4.0)
    bootstrap = BootstrapRegret(0.1, 0.2, np.array([0.0, 0.2]), np.array([1e-4, 1e-4]))
    stages = LearnStages(exploration, 0, recovery, plan(recovery.model), bootstrap, None, "threshold", 0.5)
    return arguments, stages


def certificate_of(all_data, settings=None, stages=None):
    return make_certificate(
        dataclasses.replace(all_data[0], **settings or {}), dataclasses.replace(all_data[1], **stages or {})
    )


def statements_by_key(certificate):
    return {statement.key: statement for statement in certificate.statements}


def outside(stages):
    """The same recovery, with a model that is outside of its set."""
    info = stages.recovery.info
    checked = dataclasses.replace(info.certificate, contains_model=False, violations=1)
    return {"recovery": dataclasses.replace(stages.recovery, info=dataclasses.replace(info, certificate=checked))}


def with_model(stages, model):
    return {"recovery": dataclasses.replace(stages.recovery, model=model)}


def test_with_all_premises_everything_is_said(all_data):
    statements = statements_by_key(certificate_of(all_data))
    assert {name for name, statement in statements.items() if statement.status == "proved"} == {
        "bracket",
        "intervals",
        "contained",
    }
    assert statements["theorem"].unmet_premises == ()
    assert statements["intervals"].numbers == {"probability": 0.95}
    assert "all intervals of the confidence set contain the true model" in statements["intervals"].text


def test_the_theorem_proves_no_number(all_data):
    """Its constant is not known: even with all premises it is assumed, and says so."""
    certificate = certificate_of(all_data)
    assert statements_by_key(certificate)["theorem"].status == "assumed"
    assert not any("regret" in sentence or "theorem" in sentence for sentence in certificate.proved_statements)
    assert any("constant is unknown" in sentence for sentence in certificate.unproved_statements)


class Named(TheoryBonus):
    """A setting that is the theory's in all but name."""


class Posing:
    """A setting that calls itself theory."""

    name, scaled, guarantee = "theory", False, "everything"
    pair = move = start = staticmethod(lambda *numbers: 0.0)


BROKEN_INTERVALS = {
    "practical": ({"bonus": practical_bonus}, {}),
    "paper's constant": ({"bonus": paper_setting(1.0)}, {}),
    "a setting that calls itself theory": ({"bonus": Posing()}, {}),
    "three standard errors": ({"radius_rule": normal_rule(3.0)}, {}),
    "episodes that followed rewards": ({}, {"num_refinement_episodes": 1}),
    "no failure probability": ({"failure_prob": 1.0}, {}),
}


@pytest.mark.parametrize("broken", BROKEN_INTERVALS)
def test_a_broken_premise_takes_both_statements_on_the_world_away(all_data, broken):
    statements = statements_by_key(certificate_of(all_data, *BROKEN_INTERVALS[broken]))
    assert "intervals" not in statements
    assert "contained" not in statements
    assert statements["bracket"].status == "proved"
    assert statements["theorem"].unmet_premises if "theorem" in statements else broken == "practical"


def test_a_setting_derived_from_theory_is_one(all_data):
    assert "intervals" in statements_by_key(certificate_of(all_data, {"bonus": Named()}))


def test_a_model_outside_of_its_set_is_not_near_the_truth(all_data):
    statements = statements_by_key(certificate_of(all_data, {}, outside(all_data[1])))
    assert "intervals" in statements
    assert "contained" not in statements
    assert statements["theorem"].unmet_premises == ("recovered model in the confidence set",)


BROKEN_THEOREM = {
    "two types": lambda settings, stages: (
        {},
        with_model(stages, problems.make_model("random", num_types=3, horizon=2)),
    ),
    "weights known to be equal": lambda settings, stages: ({"weights": None}, {}),
    "weights known to be equal, others": lambda settings, stages: ({"weights": np.array([0.4, 0.6])}, {}),
    "two reward values": lambda settings, stages: ({}, with_model(stages, three_values(stages.recovery.model))),
    "theory bonus": lambda settings, stages: ({"bonus": paper_setting(1.0)}, {}),
    "radii with explicit constants": lambda settings, stages: ({"radius_rule": normal_rule(3.0)}, {}),
    "no adaptively collected episodes": lambda settings, stages: ({}, {"num_refinement_episodes": 3}),
    "recovery by Algorithm 3": lambda settings, stages: ({"method": maximum_likelihood}, {}),
    "recovered model in the confidence set": lambda settings, stages: ({}, outside(stages)),
    "V_0 at most the threshold": lambda settings, stages: ({}, {"uncertainty_target": None}),
    "V_0 at most the threshold, a higher one": lambda settings, stages: ({}, {"uncertainty_target": 0.9}),
    "V_0 at most the threshold, of a lower accuracy": lambda settings, stages: ({"target_regret": 1.0}, {}),
    "V_0 at most the threshold, not reached": lambda settings, stages: (
        {},
        {"exploration": unsure(stages.exploration)},
    ),
}


def unsure(exploration):
    return dataclasses.replace(exploration, uncertainty=0.51)


def three_values(model):
    probs = np.concatenate([model.reward_probs, np.zeros((*model.reward_probs.shape[:-1], 1))], axis=-1)
    return dataclasses.replace(model, rewards=probs, reward_values=np.array([0.0, 1.0, 2.0]))


@pytest.mark.parametrize("broken", BROKEN_THEOREM)
def test_each_premise_of_the_theorem_is_missed_by_name(all_data, broken):
    settings, stages = BROKEN_THEOREM[broken](*all_data)
    statement = statements_by_key(certificate_of(all_data, settings, stages))["theorem"]
    assert statement.unmet_premises == (broken.split(",")[0],)
    assert statement.text == f"The paper's guarantee does not apply; unmet premises: {statement.unmet_premises[0]}."


def test_a_plan_for_another_model_proves_nothing_about_this_one(all_data):
    other = {"plan": plan(WORLD)}
    assert "bracket" not in statements_by_key(certificate_of(all_data, {}, other))
    planned = all_data[1].plan
    shifted = {"plan": dataclasses.replace(planned, lower=planned.lower + 1e-6, upper=planned.upper + 1e-6)}
    assert "bracket" not in statements_by_key(certificate_of(all_data, {}, shifted))


def test_premises_have_names_of_their_own(all_data):
    for premises in (bracket_premises(all_data[1]), interval_premises(*all_data), theorem_premises(*all_data)):
        assert all(isinstance(premise, Premise) and premise.is_met for premise in premises)
        assert len({premise.name for premise in premises}) == len(premises)


@pytest.mark.parametrize("premises", [(), (Premise("one", True), Premise("two", False))])
def test_a_proved_fact_without_its_premises_cannot_be_made(premises):
    assert prove("bracket", premises, gap=0.1) == []
    with pytest.raises(InputError, match="premises: got a proved statement with unmet premises: (two|none given)"):
        Statement("bracket", "proved", premises, {"gap": 0.1})


def test_facts_are_of_known_kinds_and_cannot_be_changed():
    with pytest.raises(InputError, match="status: got 'certain', expected one of proved"):
        Statement("not tested", "certain")
    with pytest.raises(InputError, match="key: got 'magic', expected one of bracket"):
        Statement("magic", "open")
    statement = Statement("radius inflation", "estimated", (), {"radius_inflation": 2.0}, {"weights": "known"})
    with pytest.raises(TypeError):
        statement.numbers["radius_inflation"] = 1.0
    assert len(set(STATEMENT_STATUSES)) == len(STATEMENT_STATUSES) == 5
    assert len(TEMPLATES) == len(set(TEMPLATES))


def test_what_planning_left_open_is_named(all_data):
    wide = {"bootstrap": dataclasses.replace(all_data[1].bootstrap, planning_gaps=np.array([0.3, 0.5]))}
    statements = statements_by_key(certificate_of(all_data, {"target_regret": 20 * 1e-20}, wide))
    assert statements["bootstrap left open"].numbers["gap"] == pytest.approx(0.4)
    assert "plan left open" in statements
    assert statements["bootstrap"].numbers["mean"] == 0.1
    assert "bootstrap left open" not in statements_by_key(certificate_of(all_data))


def test_a_regret_that_was_not_estimated_says_why(all_data):
    statement = statements_by_key(certificate_of(all_data, {}, {"bootstrap": None}))["no resamples"]
    assert "num_resamples is 0" in statement.text
    lost = {"bootstrap": None, "exploration": dataclasses.replace(all_data[1].exploration, episodes=None)}
    assert "were not stored" in statements_by_key(certificate_of(all_data, {}, lost))["no episodes"].text


def test_a_truth_with_a_wide_bracket_gives_both_ends(all_data):
    truth = TrueModelComparison(1.0, 1.2, 1.5, 0.5, 2.0)
    assert (truth.regret_lower, truth.regret) == pytest.approx((0.2, 0.5))
    text = statements_by_key(certificate_of(all_data, {}, {"true_model": truth}))["true model"]
    assert text.status == "measured"
    assert "at most 0.50000 and at least 0.20000" in text.text
    narrow = statements_by_key(
        certificate_of(all_data, {}, {"true_model": TrueModelComparison(1.0, 1.2, 1.2005, 1.2, 2.0)})
    )["true model"]
    assert "at least" not in narrow.text
    assert "normalized score" not in narrow.text


def test_trying_the_policy_replaces_the_sentence_that_it_was_not_tried(all_data):
    before = certificate_of(all_data)
    after = before.add_validation(confidence_interval(np.array([1.0, 2.0, 3.0])))
    again = after.add_validation(confidence_interval(np.array([3.0, 3.0, 4.0])))
    assert "not tested" in statements_by_key(before)
    assert "not tested" not in statements_by_key(after)
    assert after.measured_statements == ("Mean return of the policy in 3 fresh episodes: 2.0000 (0.1811 .. 3.4189).",)
    assert len(again.measured_statements) == 1
    assert len(again.statements) == len(after.statements) == len(before.statements)


def test_a_world_that_does_not_pay_what_the_model_says(all_data):
    """Said beyond four standard errors of both values together, and only then."""
    spread = 0.3
    bootstrap = BootstrapRegret(0.1, 0.2, np.array([0.0, 0.2]), np.array([1e-4, 1e-4]), spread)
    before = certificate_of(all_data, {}, {"bootstrap": bootstrap})
    planned = before.planned_value_bounds[0]
    for far, text in ((3.9, False), (4.1, True), (-4.1, True)):
        value = planned - far * (0.4**2 + spread**2) ** 0.5
        after = before.add_validation(
            Evaluation(value, value - 1.96 * 0.4, value + 1.96 * 0.4, is_exact=False, num_episodes=50)
        )
        assert ("disagreement" in statements_by_key(after)) == text
    assert statements_by_key(after)["disagreement"].text in after.unproved_statements
    assert "(measured in fresh episodes, standard error 0.4000)" in statements_by_key(after)["disagreement"].text
    unknown = certificate_of(all_data, {}, {"bootstrap": None})
    assert "disagreement" not in statements_by_key(
        unknown.add_validation(Evaluation(-99.0, -99.1, -98.9, is_exact=False, num_episodes=50))
    )


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({"num_types": 3}, {"two types", "weights known to be equal", "recovery by Algorithm 3"}),
        ({"weights": (0.4, 0.6), "method": algorithm_3}, {"weights known to be equal"}),
        ({"weights": "uniform"}, {"recovery by Algorithm 3"}),
        ({"weights": "uniform", "method": algorithm_3}, set()),
    ],
)
def test_runs_say_which_premises_they_miss(options, missing):
    certificate = learn("hard", target_regret=4.0, bonus=theory_bonus, num_resamples=0, **options).certificate
    assert certificate.stop_reason == "threshold"
    assert certificate.uncertainty <= certificate.uncertainty_target
    assert missing <= set(statements_by_key(certificate)["theorem"].unmet_premises)
    assert len(
        set(statements_by_key(certificate)["theorem"].unmet_premises) - {"recovered model in the confidence set"}
    ) == len(missing)
