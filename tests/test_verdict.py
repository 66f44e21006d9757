"""One verdict for each kind of run, the gravest reason first."""

import math

import pytest

import rewardmix as rm
from rewardmix.facts import BROKEN, UNFOUNDED, Fact, value_in_model, why_unfounded
from rewardmix.report.findings import earned_findings, learned_findings
from rewardmix.verdict import VERDICTS, Grounds, verdict_on

GOOD = {"value": 6.4, "contexts": 2, "episodes": 5000, "gain": 1.8, "fixed": 4.6, "regret": 0.01, "spread": 2.0}
APART = Fact("disagreement", "estimated", (), {"planned": 7.72, "value": 7.21, "error": 0.1}, {"evidence": "played"})
TESTED = {"p_value": 1e-9, "adjusted": 1e-8}


def fact(what):
    return Fact(what, "estimated", (), TESTED)


def said(evidence="played", **other):
    return verdict_on(Grounds(**{**GOOD, "evidence": evidence, **other}))


def test_the_gravest_reason_comes_first():
    everything = [APART, fact("drift"), fact("one type short"), fact("next state"), fact("transition types")]
    assert said(facts=everything).what == "transition types"
    assert said(facts=everything[:4]).what == "next state"
    assert said(facts=everything[:3]).what == "add a type"
    assert said(facts=everything[:2]).what == "not as assumed"
    assert said(facts=everything[:1]).what == "does not pay"
    assert said(facts=[]).what == "good enough"


def test_a_type_too_few_asks_for_one_more():
    assert "with 3 types" in said(facts=[fact("one type short")]).advice


@pytest.mark.parametrize("what", [what for what in BROKEN if what not in ("one type short", *UNFOUNDED)])
def test_a_broken_assumption_says_what_to_do(what):
    assert said(facts=[fact(what)]).advice == f"{BROKEN[what]}."


@pytest.mark.parametrize("what", UNFOUNDED)
def test_a_world_of_another_form_is_not_to_be_adapted_to(what):
    verdict = said(facts=[fact(what)])
    assert verdict.sentence.endswith("no value of a policy that adapts can be trusted.")
    assert verdict.sentence.lower().startswith(UNFOUNDED[what])
    assert verdict.advice.startswith("Play the best policy that does not adapt, or")
    assert why_unfounded([APART, fact(what)]) == UNFOUNDED[what]
    assert value_in_model(0.355, [fact(what)]) == f"value in it 0.3550 (not to be expected: {UNFOUNDED[what]})"
    assert value_in_model(0.355, [APART]) == "value in it 0.3550"
    assert why_unfounded([APART]) == ""


def test_what_the_world_pays_is_said():
    assert said(facts=[APART]).sentence == "The world does not pay what the model says: 7.21 played, 7.72 planned."


def test_more_episodes_are_asked_for_in_proportion():
    """A fifth is lost where a tenth may be: as many again."""
    found = said(regret=0.45)
    assert (found.what, found.numbers["episodes"]) == ("collect more", 5000)
    assert said(regret=0.9).numbers["episodes"] == pytest.approx(5000 * (0.9 / 2.7 / 0.1 - 1), rel=0.03)
    assert said(regret=0.45, evidence="planned").what == "collect more"
    assert said(regret=0.45, episodes=None).what == "far off"
    assert said(gain=-1.0, regret=3.0).numbers["share"] == 0.0


def test_a_policy_that_earns_less_than_the_best_fixed_one_is_called_worse():
    found = said("exact", gain=-0.25, regret=1.0, gain_evidence="exact")
    assert found.sentence == "Worse than not adapting: -0.250 an episode, exact in a known world."
    assert said(gain=-0.25, regret=1.0).what == "collect more"  # planned, so not said
    assert said("exact", gain=-0.004, regret=1.0, gain_evidence="exact").what == "collect more"


def test_good_enough_is_nine_tenths_of_what_adapting_gains():
    assert said(gain=0.91, regret=0.09).what == "good enough"
    assert said(gain=0.89, regret=0.11).what == "collect more"
    assert "91 %" in said(gain=0.91, regret=0.09).sentence


@pytest.mark.parametrize("evidence", ["planned", "logged"])
def test_what_nobody_played_is_to_be_tried(evidence):
    found = said(evidence)
    assert found.what == "try it"
    assert "10 % of the sessions" in found.advice
    assert found.numbers["sessions"] == math.ceil(2 * 2.8**2 * (2.0 / 1.8) ** 2)


def test_nothing_to_adapt_to():
    assert said(gain=0.01, regret=0.0).what == "nothing to adapt to"
    assert said(gain=0.0, contexts=1).what == "no types"


def test_one_type_that_explains_as_much_is_said_first():
    for other in ([], [fact("one type short")], [fact("drift")], [APART]):
        found = said(regret=0.45, facts=[*other, Fact("one type", "estimated")])
        assert found.sentence.startswith("One type explains the episodes as well as more do")
    assert said(facts=[fact("drift")], contexts=1).what == "not as assumed"


def test_what_is_not_known_is_not_claimed():
    assert said(regret=None).what == "unknown"
    assert said(gain=None).what == "unknown"
    assert said("planned", regret=None, earning=True).what == "keep earning"


@pytest.mark.parametrize("what", VERDICTS)
def test_every_verdict_can_be_said(what):
    parts = {"contexts": 2, "more": 3, "value": 1.0, "planned": 2.0, "gain": 0.5, "share": 90.0, "episodes": 1e6}
    parts |= {"part": 10.0, "sessions": 100.0, "evidence": "played", "reason": "Because."}
    assert all(text.format(**parts) for text in VERDICTS[what])


def test_a_run_has_a_verdict():
    shop = rm.problems.make("shop")
    learned = rm.learn(shop, episodes=5000)
    summary = rm.report.summarise(learned_findings(learned, title="shop", truth=shop))
    assert summary["verdict"]["what"] == "good enough"
    few = rm.learn(shop, episodes=8, resamples=2)
    found = rm.report.summarise(learned_findings(few, title="few", truth=shop))["verdict"]
    assert (found["what"], few.certificate.truth.share < 0.9) == ("collect more", True)
    bad = rm.learn(shop, episodes=30, resamples=2)
    found = rm.report.summarise(learned_findings(bad, title="bad", truth=shop))["verdict"]
    assert (found["what"], bad.certificate.truth.share < 0.0) == ("worse", True)
    earned = rm.earn("shop", episodes=300)
    assert rm.report.summarise(earned_findings(earned, title="earned"))["verdict"]["what"] == "keep earning"
    rm.report.page(summary)
