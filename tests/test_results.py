"""Test the output of results: reprs, HTML cards, summaries, run folders and pages."""

import dataclasses
import html.parser
import json
import re

import numpy as np
import pytest

import rewardmix as rm
from rewardmix import logs
from rewardmix.report.text_summary import summary_lines

LONGEST = 400


@pytest.fixture(scope="module")
def shop():
    return rm.problems.make_model("shop")


@pytest.fixture(scope="module")
def results(shop):
    episodes = rm.simulate(rm.uniform_policy(shop), shop, 400)
    named = {"state_names": shop.state_names, "action_names": shop.action_names}
    return {
        "learned": rm.learn(shop, num_episodes=400, num_resamples=2),
        "fitted": rm.fit(episodes, num_resamples=2, **named),
        "online": rm.learn_online(shop, num_episodes=200),
        "plan": rm.plan(shop),
    }


KINDS = ("learned", "fitted", "online", "plan")


def parts_of(value, found):
    """Collect an object and every object in it."""
    if id(value) in found or isinstance(value, type):
        return
    if type(value).__module__.startswith("rewardmix"):
        found[id(value)] = value
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            parts_of(getattr(value, field.name), found)
    elif isinstance(value, tuple | list):
        for piece in value:
            parts_of(piece, found)
    elif isinstance(value, dict):
        for piece in value.values():
            parts_of(piece, found)


@pytest.mark.system
def test_every_repr_is_short(results, shop):
    found = {}
    plan = results["plan"]
    episodes = rm.simulate(rm.uniform_policy(shop), shop, 50)
    more = [
        rm.uniform_policy(shop), rm.policy.make_epsilon_greedy(plan.policy, 0.1, 4), plan.belief_policy,
        plan.alpha_vectors, episodes,
        rm.explore(shop, num_episodes=50), rm.recover(episodes), rm.compare_planners(shop),
        rm.evaluate(plan.policy, shop), rm.diagnose(episodes), rm.select_num_types(episodes, 2),
        logs.read_log(episodes), rm.make_env(shop), rm.compare_runs(results["learned"], results["learned"]),
        plan.type_profiles, plan.identification,
    ]  # fmt: skip
    parts_of([*results.values(), *more], found)
    long = {
        f"{type(value).__module__}:{type(value).__name__}": len(repr(value))
        for value in found.values()
        if len(repr(value)) > LONGEST
    }
    assert not long
    assert len({type(value) for value in found.values()}) > 30


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_says_what_it_is(results, kind):
    result = results[kind]
    text = result.summary()
    assert result.to_dict()["verdict"]["text"] in text
    assert result.to_dict()["verdict"]["advice"] in text
    assert [profile.text in text for profile in result.type_profiles] == [True, True]
    assert result.identification.text in text
    assert len(text.splitlines()) == 8


def test_a_summary_says_in_words_what_was_not_estimated():
    headline = {
        "evidence_key": "planned",
        "value": 1.0,
        "lower": None,
        "upper": None,
        "regret": None,
        "regret_measured": None,
        "adaptivity_gain": 0.5,
        "markov": 2.0,
    }
    lines = summary_lines({"headline": headline})
    assert lines[1] == "The regret was not estimated."
    assert lines[2] == "Adaptivity gain: +0.50 per episode. Difference to the best Markov policy (+25\u202f%)."


class Outside(html.parser.HTMLParser):
    """Whatever a piece of HTML would load, and whether its tags close."""

    def __init__(self):
        super().__init__()
        self.open, self.foreign = [], []

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        self.foreign += [value for name, value in attributes if name in ("src", "href")]
        self.foreign += [tag] * (tag in ("script", "link", "iframe", "img"))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("kind", KINDS)
def test_cards_need_nothing_else(results, kind):
    text = results[kind]._repr_html_()
    reader = Outside()
    reader.feed(text)
    assert (reader.open, reader.foreign) == ([], [])
    assert text.count("font-size:1.6em") == 3


def test_cards_escape_names(results):
    named = results["plan"].with_type_names(["<b>", "a & b"])
    assert "<b>" not in named._repr_html_()
    assert "a &amp; b" in named._repr_html_()


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_kept_and_read_again(results, kind, tmp_path):
    result = results[kind]
    place = result.save(tmp_path / "run", title="mine")
    again = rm.load(place)
    assert (again.summary(), [profile.text for profile in again.type_profiles]) == (
        result.summary(),
        [profile.text for profile in result.type_profiles],
    )
    assert again.to_dict()["title"] == "mine"
    assert (
        rm.evaluate(again.policy, result.model).value
        == rm.evaluate(getattr(result, "plan", result).policy, result.model).value
    )
    assert len(repr(again)) < LONGEST
    again.save(tmp_path / "copy")
    for name in ("model.safetensors", "policy.safetensors", "result.json", "report.html"):
        assert (tmp_path / "copy" / name).read_bytes() == (place / name).read_bytes()


def test_the_command_line_and_python_write_the_same_folder(tmp_path):
    from rewardmix.cli import main

    with pytest.raises(SystemExit) as done:
        main(["learn", "shop", "--num-episodes", "400", "--out", str(tmp_path / "typed")])
    assert done.value.code == 0
    typed = rm.load(tmp_path / "typed")
    learned = rm.learn("shop", num_episodes=400)
    learned.save(tmp_path / "called", title="shop")
    typed_result, called = (json.loads((tmp_path / name / "result.json").read_text()) for name in ("typed", "called"))
    differ = {key for key in typed_result if typed_result[key] != called[key]}
    assert differ <= {"command", "seed", "metadata", "rewards"}  # rings of the truth, which learned does not keep
    assert typed.summary() == learned.summary()
    assert rm.compare_runs(typed, learned).verdict


def test_names_are_part_of_a_run(results, tmp_path):
    for kind in KINDS:
        named = results[kind].with_type_names(["walkers", "readers"])
        assert [profile.name for profile in named.type_profiles] == ["walkers", "readers"]
        again = rm.load(named.save(tmp_path / kind))
        assert again.model.type_names == ("walkers", "readers")
        assert again.to_dict()["environment"]["type_names"] == ["walkers", "readers"]
        renamed = rm.load(again.with_type_names(["a", "b"]).save(tmp_path / f"{kind} again"))
        assert [profile.name for profile in renamed.type_profiles] == ["a", "b"]
        assert renamed.to_dict()["policy"]["type_names"] == ["a", "b"]
        assert [t["name"] for t in renamed.to_dict()["types"]] == ["a", "b"]
        page = (tmp_path / f"{kind} again" / "report.html").read_text()
        assert "walkers" not in page


def test_names_can_be_given_at_once():
    learned = rm.learn("shop", num_episodes=50, num_resamples=0, type_names=["one", "two"])
    assert learned.recovery.model.type_names == learned.plan.model.type_names == ("one", "two")
    again = rm.fit(
        rm.simulate(learned.policy, "shop", 50), init_model=learned.model, num_resamples=0, held_out_fraction=0
    )
    assert again.model.type_names == ("one", "two")
    with pytest.raises(rm.InputError, match="names: got 3 names, expected 2 names, or none"):
        rm.learn("shop", num_episodes=50, type_names=["one", "two", "three"])
    with pytest.raises(
        rm.InputError, match=r"names: got .*while the number of types is open; use with_type_names\(\) on the result"
    ):
        rm.learn("shop", num_episodes=50, num_types="auto", type_names=["one", "two"])


def test_the_report_has_the_certificate(results, tmp_path):
    page = results["learned"].report(tmp_path / "page.html").read_text()
    for sentence in results["learned"].certificate.proved_statements:
        assert sentence in page
    assert re.search("certif", page, re.I)


def test_posterior_is_that_of_the_histories_of_a_node(shop):
    """Against all sequences of rewards of a short episode that lead to the node."""
    plan = rm.plan(dataclasses.replace(shop, horizon=4))
    model, policy = plan.model, plan.policy
    joint = {}

    def walk(memory, weights):
        joint[memory] = joint.get(memory, 0.0) + weights
        if memory[0] == model.horizon - 1:
            return
        action = policy.act(memory, None)
        for z, value in enumerate(model.reward_values):
            for state in range(model.num_states):
                prob = model.reward_probs[:, memory[1], action, z] * model.transition[memory[1], action, state]
                if prob.any():
                    walk(policy.observe(memory, action, value, state), weights * prob)

    for state in np.flatnonzero(model.initial):
        walk(policy.start(int(state)), model.weights * model.initial[state])
    for memory, weights in joint.items():
        np.testing.assert_allclose(plan.posterior(memory), weights / weights.sum(), rtol=0, atol=1e-12)
    assert len(joint) > 20


def test_unsupported_results_are_rejected(shop, tmp_path):
    from benchmarks.online import baselines

    with pytest.raises(
        rm.InputError, match=r"expected an object of one file; save a run with its method save\(folder\)"
    ):
        rm.save(tmp_path / "x", rm.learn(shop, num_episodes=20, num_resamples=0))
    result = rm.learn_online(shop, num_episodes=20, agent_factory=baselines.CertaintyEquivalence)
    with pytest.raises(rm.InputError, match="expected the result of a PosteriorSamplingAgent"):
        result.summary()
    with pytest.raises(rm.InputError, match="result.json"):
        rm.load(tmp_path)
