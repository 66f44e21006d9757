"""Test that each kind of run has one verdict, the most severe reason first."""

import math

import pytest

import rewardmix as rm
from rewardmix.report.report_data import report_data_from_learn, report_data_from_online
from rewardmix.statements import REJECTED_ASSUMPTION_TEXT, UNFOUNDED, Statement, value_in_model, why_unfounded
from rewardmix.verdict import VERDICTS, VerdictInputs, make_verdict

INPUTS = {
    "value": 6.4,
    "num_types": 2,
    "num_episodes": 5000,
    "gain": 1.8,
    "markov_value": 4.6,
    "regret": 0.01,
    "return_std": 2.0,
}
DISAGREEMENT = Statement(
    "disagreement",
    "estimated",
    (),
    {"planned": 7.72, "value": 7.21, "error": 0.1},
    {"evidence": "measured in fresh episodes"},
)
NUMBERS = {"p_value": 1e-9, "adjusted": 1e-8}


def rejection(key):
    return Statement(key, "estimated", (), NUMBERS)


def verdict_of(evidence="played", **other):
    return make_verdict(VerdictInputs(**{**INPUTS, "evidence": evidence, **other}))


def test_the_most_severe_reason_comes_first():
    everything = [
        DISAGREEMENT,
        rejection("drift"),
        rejection("more types needed"),
        rejection("next state"),
        rejection("transition types"),
    ]
    assert verdict_of(statements=everything).key == "transition types"
    assert verdict_of(statements=everything[:4]).key == "next state"
    assert verdict_of(statements=everything[:3]).key == "more types needed"
    assert verdict_of(statements=everything[:2]).key == "assumption rejected"
    assert verdict_of(statements=everything[:1]).key == "disagreement"
    assert verdict_of(statements=[]).key == "near-optimal"


def test_too_few_types_advise_one_more():
    assert "with 3 types" in verdict_of(statements=[rejection("more types needed")]).advice


@pytest.mark.parametrize(
    "what", [what for what in REJECTED_ASSUMPTION_TEXT if what not in ("more types needed", *UNFOUNDED)]
)
def test_a_rejected_assumption_has_advice(what):
    assert verdict_of(statements=[rejection(what)]).advice == f"{REJECTED_ASSUMPTION_TEXT[what]}."


@pytest.mark.parametrize("what", UNFOUNDED)
def test_a_violated_model_form_invalidates_adaptive_policies(what):
    verdict = verdict_of(statements=[rejection(what)])
    assert verdict.text.endswith("values of adaptive policies are not valid.")
    assert verdict.text.lower().startswith(UNFOUNDED[what])
    assert verdict.advice.startswith("Use the best Markov policy, or")
    assert why_unfounded([DISAGREEMENT, rejection(what)]) == UNFOUNDED[what]
    assert value_in_model(0.355, [rejection(what)]) == f"planned value 0.3550 (not valid: {UNFOUNDED[what]})"
    assert value_in_model(0.355, [DISAGREEMENT]) == "planned value 0.3550"
    assert why_unfounded([DISAGREEMENT]) == ""


def test_what_the_world_pays_is_verdict_of():
    assert verdict_of(statements=[DISAGREEMENT]).text == (
        "Model and data disagree: planned value 7.72, observed 7.21 (measured in fresh episodes)."
    )


def test_advised_episodes_are_proportional_to_the_missing_score():
    """A fifth of the gain is missing where a tenth is allowed, so twice as many episodes are needed."""
    result = verdict_of(regret=0.45)
    assert (result.key, result.numbers["episodes"]) == ("more episodes needed", 5000)
    assert verdict_of(regret=0.9).numbers["episodes"] == pytest.approx(5000 * (0.9 / 2.7 / 0.1 - 1), rel=0.03)
    assert verdict_of(regret=0.45, evidence="planned").key == "more episodes needed"
    assert verdict_of(regret=0.45, num_episodes=None).key == "far from optimal"
    assert verdict_of(gain=-1.0, regret=3.0).numbers["score"] == 0.0


def test_a_policy_below_the_best_markov_policy_is_worse():
    result = verdict_of("exact", gain=-0.25, regret=1.0, gain_evidence="exact")
    assert result.text == "Worse than the best Markov policy: -0.250 per episode (exact in the true model)."
    assert verdict_of(gain=-0.25, regret=1.0).key == "more episodes needed"  # planned, so not said
    assert verdict_of("exact", gain=-0.004, regret=1.0, gain_evidence="exact").key == "more episodes needed"


def test_near_optimal_is_nine_tenths_of_the_adaptivity_gain():
    assert verdict_of(gain=0.91, regret=0.09).key == "near-optimal"
    assert verdict_of(gain=0.89, regret=0.11).key == "more episodes needed"
    assert "91 %" in verdict_of(gain=0.91, regret=0.09).text


@pytest.mark.parametrize("evidence", ["planned", "logged"])
def test_an_untested_policy_is_to_be_tested(evidence):
    result = verdict_of(evidence)
    assert result.key == "not yet tested"
    assert "10 % of sessions" in result.advice
    assert result.numbers["sessions"] == math.ceil(2 * 2.8**2 * (2.0 / 1.8) ** 2)


def test_a_negligible_gain():
    assert verdict_of(gain=0.01, regret=0.0).key == "no adaptivity gain"
    assert verdict_of(gain=0.0, num_types=1).key == "single type"


def test_one_type_that_explains_as_much_comes_first():
    for other in ([], [rejection("more types needed")], [rejection("drift")], [DISAGREEMENT]):
        result = verdict_of(regret=0.45, statements=[*other, Statement("one type", "estimated")])
        assert result.text.startswith("One type explains the episodes as well as more types do")
    assert verdict_of(statements=[rejection("drift")], num_types=1).key == "assumption rejected"


def test_unknown_quantities_are_not_claimed():
    assert verdict_of(regret=None).key == "regret unknown"
    assert verdict_of(gain=None).key == "regret unknown"
    assert verdict_of("planned", regret=None, is_online=True).key == "keep learning"


@pytest.mark.parametrize("what", VERDICTS)
def test_every_verdict_can_be_verdict_of(what):
    values = {"num_types": 2, "more": 3, "value": 1.0, "planned": 2.0, "gain": 0.5, "score": 90.0, "episodes": 1e6}
    values |= {"percent": 10.0, "sessions": 100.0, "evidence": "measured", "reason": "Because.", "value_name": "value"}
    assert all(text.format(**values) for text in VERDICTS[what])


@pytest.mark.system
def test_a_run_has_a_verdict():
    shop = rm.problems.make_model("shop")
    learned = rm.learn(shop, num_episodes=5000)
    summary = rm.report.build_summary(report_data_from_learn(learned, title="shop", true_model=shop))
    assert summary["verdict"]["key"] == "near-optimal"
    few = rm.learn(shop, num_episodes=8, num_resamples=2)
    result = rm.report.build_summary(report_data_from_learn(few, title="few", true_model=shop))["verdict"]
    assert (result["key"], few.certificate.true_model.normalized_score < 0.9) == ("more episodes needed", True)
    bad = rm.learn(shop, num_episodes=30, num_resamples=2)
    result = rm.report.build_summary(report_data_from_learn(bad, title="bad", true_model=shop))["verdict"]
    assert (result["key"], bad.certificate.true_model.normalized_score < 0.0) == ("worse than Markov", True)
    online_result = rm.learn_online("shop", num_episodes=300)
    assert (
        rm.report.build_summary(report_data_from_online(online_result, title="online"))["verdict"]["key"]
        == "keep learning"
    )
    rm.report.render_page(summary)
