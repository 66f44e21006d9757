"""The certificate: what is called proved has premises that hold, and one that is broken takes the statement away."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from asked import settings
from rewardmix import InputError, learn, problems
from rewardmix.evaluation import Evaluation, interval
from rewardmix.exploration import explore, practical, theory
from rewardmix.exploration import paper as paper_setting
from rewardmix.exploration.bonuses import Theory
from rewardmix.facts import FACT_KINDS, SENTENCES, Fact, Premise, proved
from rewardmix.learning.certificate import (
    Found,
    Truth,
    bracket_premises,
    certify,
    interval_premises,
    theorem_premises,
)
from rewardmix.planning import plan
from rewardmix.recovery import algorithm_3, best, normal, recover
from rewardmix.regret import BootstrapRegret

WORLD = problems.make("hard")
HALVES = np.array([0.5, 0.5])


@pytest.fixture(scope="module")
def whole():
    """What was asked and found in a run that the theorem speaks of, but for its constant."""
    exploration = explore(WORLD, threshold=0.5, confidence=theory)
    recovery = recover(exploration.gathered, weights=HALVES, method=algorithm_3, accuracy=4.0)
    asked = settings(world=WORLD, confidence=theory, method=algorithm_3, weights=HALVES, accuracy=4.0)
    bootstrap = BootstrapRegret(0.1, 0.2, np.array([0.0, 0.2]), np.array([1e-4, 1e-4]))
    found = Found(exploration, 0, recovery, plan(recovery.model), bootstrap, None, "threshold", 0.5)
    return asked, found


def certificate_of(whole, asked=None, found=None):
    return certify(dataclasses.replace(whole[0], **asked or {}), dataclasses.replace(whole[1], **found or {}))


def facts(certificate):
    return {fact.what: fact for fact in certificate.facts}


def outside(found):
    """The same recovery, with a model that is outside of its set."""
    info = found.recovery.info
    checked = dataclasses.replace(info.certificate, contained=False, violations=1)
    return {"recovery": dataclasses.replace(found.recovery, info=dataclasses.replace(info, certificate=checked))}


def with_model(found, model):
    return {"recovery": dataclasses.replace(found.recovery, model=model)}


def test_with_all_premises_everything_is_said(whole):
    found = facts(certificate_of(whole))
    assert {name for name, fact in found.items() if fact.kind == "proved"} == {"bracket", "intervals", "contained"}
    assert found["theorem"].missing == ()
    assert found["intervals"].numbers == {"probability": 0.95}
    assert "the true world lies within every interval" in found["intervals"].sentence


def test_the_theorem_proves_no_number(whole):
    """Its constant is not known: even with all premises it is assumed, and says so."""
    certificate = certificate_of(whole)
    assert facts(certificate)["theorem"].kind == "assumed"
    assert not any("regret" in sentence or "theorem" in sentence for sentence in certificate.proved)
    assert any("constant is not known" in sentence for sentence in certificate.not_proved)


class Named(Theory):
    """A setting that is the theory's in all but name."""


class Posing:
    """A setting that calls itself theory."""

    name, scaled, guarantee = "theory", False, "everything"
    pair = move = start = staticmethod(lambda *numbers: 0.0)


BROKEN_INTERVALS = {
    "practical": ({"confidence": practical}, {}),
    "paper's constant": ({"confidence": paper_setting(1.0)}, {}),
    "a setting that calls itself theory": ({"confidence": Posing()}, {}),
    "three standard errors": ({"radius": normal(3.0)}, {}),
    "episodes that followed rewards": ({}, {"refined": 1}),
    "no failure probability": ({"failure": 1.0}, {}),
}


@pytest.mark.parametrize("broken", BROKEN_INTERVALS)
def test_a_broken_premise_takes_both_statements_on_the_world_away(whole, broken):
    found = facts(certificate_of(whole, *BROKEN_INTERVALS[broken]))
    assert "intervals" not in found
    assert "contained" not in found
    assert found["bracket"].kind == "proved"
    assert found["theorem"].missing if "theorem" in found else broken == "practical"


def test_a_setting_derived_from_theory_is_one(whole):
    assert "intervals" in facts(certificate_of(whole, {"confidence": Named()}))


def test_a_model_outside_of_its_set_is_not_near_the_truth(whole):
    found = facts(certificate_of(whole, {}, outside(whole[1])))
    assert "intervals" in found
    assert "contained" not in found
    assert found["theorem"].missing == ("recovered model inside the confidence set",)


BROKEN_THEOREM = {
    "two contexts": lambda asked, found: ({}, with_model(found, problems.make("random", contexts=3, horizon=2))),
    "weights known to be equal": lambda asked, found: ({"weights": None}, {}),
    "weights known to be equal, others": lambda asked, found: ({"weights": np.array([0.4, 0.6])}, {}),
    "two reward values": lambda asked, found: ({}, with_model(found, three_values(found.recovery.model))),
    "theory setting": lambda asked, found: ({"confidence": paper_setting(1.0)}, {}),
    "radii with explicit constants": lambda asked, found: ({"radius": normal(3.0)}, {}),
    "no episode followed rewards": lambda asked, found: ({}, {"refined": 3}),
    "recovery by Algorithm 3": lambda asked, found: ({"method": best}, {}),
    "recovered model inside the confidence set": lambda asked, found: ({}, outside(found)),
    "V_0 at most the threshold": lambda asked, found: ({}, {"target": None}),
    "V_0 at most the threshold, a higher one": lambda asked, found: ({}, {"target": 0.9}),
    "V_0 at most the threshold, of a lower accuracy": lambda asked, found: ({"accuracy": 1.0}, {}),
    "V_0 at most the threshold, not reached": lambda asked, found: ({}, {"exploration": unsure(found.exploration)}),
}


def unsure(exploration):
    return dataclasses.replace(exploration, uncertainty=0.51)


def three_values(model):
    laws = np.concatenate([model.laws, np.zeros((*model.laws.shape[:-1], 1))], axis=-1)
    return dataclasses.replace(model, rewards=laws, reward_values=np.array([0.0, 1.0, 2.0]))


@pytest.mark.parametrize("broken", BROKEN_THEOREM)
def test_each_premise_of_the_theorem_is_missed_by_name(whole, broken):
    asked, found = BROKEN_THEOREM[broken](*whole)
    fact = facts(certificate_of(whole, asked, found))["theorem"]
    assert fact.missing == (broken.split(",")[0],)
    assert fact.sentence == f"The paper's theorem does not speak of this run; missing: {fact.missing[0]}."


def test_a_plan_for_another_model_proves_nothing_about_this_one(whole):
    other = {"plan": plan(WORLD)}
    assert "bracket" not in facts(certificate_of(whole, {}, other))
    mine = whole[1].plan
    boastful = {"plan": dataclasses.replace(mine, lower=mine.lower + 1e-6, upper=mine.upper + 1e-6)}
    assert "bracket" not in facts(certificate_of(whole, {}, boastful))


def test_premises_have_names_of_their_own(whole):
    for premises in (bracket_premises(whole[1]), interval_premises(*whole), theorem_premises(*whole)):
        assert all(isinstance(premise, Premise) and premise.holds for premise in premises)
        assert len({premise.name for premise in premises}) == len(premises)


@pytest.mark.parametrize("premises", [(), (Premise("one", True), Premise("two", False))])
def test_a_proved_fact_without_its_premises_cannot_be_made(premises):
    assert proved("bracket", premises, gap=0.1) == []
    with pytest.raises(InputError, match="premises: found a proved fact without: (two|no premises at all)"):
        Fact("bracket", "proved", premises, {"gap": 0.1})


def test_facts_are_of_known_kinds_and_cannot_be_changed():
    with pytest.raises(InputError, match="kind: found 'certain', expected one of proved"):
        Fact("not tried", "certain")
    with pytest.raises(InputError, match="what: found 'magic', expected one of bracket"):
        Fact("magic", "open")
    fact = Fact("kappa", "estimated", (), {"kappa": 2.0}, {"weights": "known"})
    with pytest.raises(TypeError):
        fact.numbers["kappa"] = 1.0
    assert len(set(FACT_KINDS)) == len(FACT_KINDS) == 5
    assert len(SENTENCES) == len(set(SENTENCES))


def test_what_planning_left_open_is_named(whole):
    wide = {"bootstrap": dataclasses.replace(whole[1].bootstrap, gaps=np.array([0.3, 0.5]))}
    found = facts(certificate_of(whole, {"accuracy": 20 * 1e-20}, wide))
    assert found["bootstrap left open"].numbers["gap"] == pytest.approx(0.4)
    assert "plan left open" in found
    assert found["bootstrap"].numbers["mean"] == 0.1
    assert "bootstrap left open" not in facts(certificate_of(whole))


def test_a_regret_that_was_not_estimated_says_why(whole):
    asked = facts(certificate_of(whole, {}, {"bootstrap": None}))["no resamples"]
    assert "no resamples were asked for" in asked.sentence
    lost = {"bootstrap": None, "exploration": dataclasses.replace(whole[1].exploration, gathered=None)}
    assert "were not kept" in facts(certificate_of(whole, {}, lost))["no episodes"].sentence


def test_a_truth_with_a_wide_bracket_gives_both_ends(whole):
    truth = Truth(1.0, 1.2, 1.5, 0.5, 2.0)
    assert (truth.least_regret, truth.regret) == pytest.approx((0.2, 0.5))
    said = facts(certificate_of(whole, {}, {"truth": truth}))["truth"]
    assert said.kind == "measured"
    assert "at most 0.50000 and at least 0.20000" in said.sentence
    narrow = facts(certificate_of(whole, {}, {"truth": Truth(1.0, 1.2, 1.2005, 1.2, 2.0)}))["truth"]
    assert "at least" not in narrow.sentence
    assert "what adapting" not in narrow.sentence


def test_trying_the_policy_replaces_the_sentence_that_it_was_not_tried(whole):
    before = certificate_of(whole)
    after = before.validated(interval(np.array([1.0, 2.0, 3.0])))
    again = after.validated(interval(np.array([3.0, 3.0, 4.0])))
    assert "not tried" in facts(before)
    assert "not tried" not in facts(after)
    assert after.measured == ("The policy was tried in 3 fresh episodes: 2.0000 (0.1811 .. 3.4189).",)
    assert len(again.measured) == 1
    assert len(again.facts) == len(after.facts) == len(before.facts)


def test_a_world_that_does_not_pay_what_the_model_says(whole):
    """Said beyond four standard errors of both values together, and only then."""
    spread = 0.3
    bootstrap = BootstrapRegret(0.1, 0.2, np.array([0.0, 0.2]), np.array([1e-4, 1e-4]), spread)
    before = certificate_of(whole, {}, {"bootstrap": bootstrap})
    planned = before.planned[0]
    for far, said in ((3.9, False), (4.1, True), (-4.1, True)):
        value = planned - far * (0.4**2 + spread**2) ** 0.5
        after = before.validated(Evaluation(value, value - 1.96 * 0.4, value + 1.96 * 0.4, exact=False, episodes=50))
        assert ("disagreement" in facts(after)) == said
    assert facts(after)["disagreement"].sentence in after.not_proved
    assert "played (standard error 0.4000)" in facts(after)["disagreement"].sentence
    unknown = certificate_of(whole, {}, {"bootstrap": None})
    assert "disagreement" not in facts(unknown.validated(Evaluation(-99.0, -99.1, -98.9, exact=False, episodes=50)))


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({"num_contexts": 3}, {"two contexts", "weights known to be equal", "recovery by Algorithm 3"}),
        ({"weights": (0.4, 0.6), "method": algorithm_3}, {"weights known to be equal"}),
        ({"weights": "uniform"}, {"recovery by Algorithm 3"}),
        ({"weights": "uniform", "method": algorithm_3}, set()),
    ],
)
def test_runs_say_which_premises_they_miss(options, missing):
    certificate = learn("hard", accuracy=4.0, confidence=theory, resamples=0, **options).certificate
    assert certificate.stopped == "threshold"
    assert certificate.uncertainty <= certificate.target
    assert missing <= set(facts(certificate)["theorem"].missing)
    assert len(set(facts(certificate)["theorem"].missing) - {"recovered model inside the confidence set"}) == len(
        missing
    )
