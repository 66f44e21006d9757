"""Results that speak: reprs, cards, words, folders, pages; from objects as people have them."""

import dataclasses
import html.parser
import json
import re

import numpy as np
import pytest

import rewardmix as rm
from rewardmix import logs
from rewardmix.report.speech import spoken

LONGEST = 400


@pytest.fixture(scope="module")
def shop():
    return rm.problems.make("shop")


@pytest.fixture(scope="module")
def results(shop):
    episodes = rm.simulate(rm.uniform(shop), shop, 400)
    named = {"state_names": shop.state_names, "action_names": shop.action_names}
    return {
        "learned": rm.learn(shop, episodes=400, resamples=2),
        "fitted": rm.fit(episodes, resamples=2, **named),
        "earned": rm.earn(shop, episodes=200),
        "plan": rm.plan(shop),
    }


KINDS = ("learned", "fitted", "earned", "plan")


def parts_of(noun, seen):
    """A noun and every noun in it."""
    if id(noun) in seen or isinstance(noun, type):
        return
    if type(noun).__module__.startswith("rewardmix"):
        seen[id(noun)] = noun
    if dataclasses.is_dataclass(noun):
        for field in dataclasses.fields(noun):
            parts_of(getattr(noun, field.name), seen)
    elif isinstance(noun, tuple | list):
        for part in noun:
            parts_of(part, seen)
    elif isinstance(noun, dict):
        for part in noun.values():
            parts_of(part, seen)


def test_every_repr_is_short(results, shop):
    seen = {}
    plan = results["plan"]
    episodes = rm.simulate(rm.uniform(shop), shop, 50)
    more = [
        rm.uniform(shop), rm.policy.exploring(plan.policy, 0.1, 4), plan.belief_policy, plan.alpha_vectors, episodes,
        rm.explore(shop, episodes=50), rm.recover(episodes), rm.compare(shop),
        rm.evaluate(plan.policy, shop), rm.check(episodes), rm.choose_contexts(episodes, 2), logs.read(episodes),
        rm.make_env(shop), rm.compare_runs(results["learned"], results["learned"]), plan.types, plan.recognition,
    ]  # fmt: skip
    parts_of([*results.values(), *more], seen)
    long = {
        f"{type(noun).__module__}:{type(noun).__name__}": len(repr(noun))
        for noun in seen.values()
        if len(repr(noun)) > LONGEST
    }
    assert not long
    assert len({type(noun) for noun in seen.values()}) > 30


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_says_what_it_is(results, kind):
    noun = results[kind]
    said = noun.summary()
    assert noun.result["verdict"]["sentence"] in said
    assert noun.result["verdict"]["advice"] in said
    assert [t.sentence in said for t in noun.types] == [True, True]
    assert noun.recognition.sentence in said
    assert len(said.splitlines()) == 8


def test_a_summary_says_in_words_what_was_not_estimated():
    answer = {
        "measured": "planned",
        "value": 1.0,
        "lower": None,
        "upper": None,
        "regret": None,
        "regret_measured": None,
        "gain": 0.5,
        "fixed": 2.0,
    }
    lines = spoken({"answer": answer})
    assert lines[1] == "How far it is from the best possible policy was not estimated."
    assert lines[2] == "Adapting is worth +0.50 an episode over the best fixed policy."


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
    named = results["plan"].named(["<b>", "a & b"])
    assert "<b>" not in named._repr_html_()
    assert "a &amp; b" in named._repr_html_()


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_kept_and_read_again(results, kind, tmp_path):
    noun = results[kind]
    place = noun.save(tmp_path / "run", title="mine")
    again = rm.load(place)
    assert (again.summary(), [t.sentence for t in again.types]) == (noun.summary(), [t.sentence for t in noun.types])
    assert again.result["title"] == "mine"
    assert (
        rm.evaluate(again.policy, noun.model).value == rm.evaluate(getattr(noun, "plan", noun).policy, noun.model).value
    )
    assert len(repr(again)) < LONGEST
    again.save(tmp_path / "copy")
    for name in ("model.safetensors", "policy.safetensors", "result.json", "report.html"):
        assert (tmp_path / "copy" / name).read_bytes() == (place / name).read_bytes()


def test_the_command_line_and_python_write_the_same_folder(tmp_path):
    from rewardmix.cli import main

    with pytest.raises(SystemExit) as done:
        main(["learn", "shop", "--episodes", "400", "--out", str(tmp_path / "typed")])
    assert done.value.code == 0
    typed = rm.load(tmp_path / "typed")
    learned = rm.learn("shop", episodes=400)
    learned.save(tmp_path / "called", title="shop")
    one, two = (json.loads((tmp_path / name / "result.json").read_text()) for name in ("typed", "called"))
    differ = {key for key in one if one[key] != two[key]}
    assert differ <= {"command", "seed", "record", "rewards"}  # rings of the truth, which learned does not keep
    assert typed.summary() == learned.summary()
    assert rm.compare_runs(typed, learned).verdict


def test_names_are_part_of_a_run(results, tmp_path):
    for kind in KINDS:
        named = results[kind].named(["walkers", "readers"])
        assert [t.name for t in named.types] == ["walkers", "readers"]
        again = rm.load(named.save(tmp_path / kind))
        assert again.model.context_names == ("walkers", "readers")
        assert again.result["world"]["context_names"] == ["walkers", "readers"]
        renamed = rm.load(again.named(["a", "b"]).save(tmp_path / f"{kind} again"))
        assert [t.name for t in renamed.types] == renamed.result["session"]["context_names"] == ["a", "b"]
        assert [t["name"] for t in renamed.result["types"]] == ["a", "b"]
        page = (tmp_path / f"{kind} again" / "report.html").read_text()
        assert "walkers" not in page


def test_names_can_be_given_at_once():
    learned = rm.learn("shop", episodes=50, resamples=0, names=["one", "two"])
    assert learned.recovery.model.context_names == learned.plan.model.context_names == ("one", "two")
    again = rm.fit(rm.simulate(learned.policy, "shop", 50), start=learned.model, resamples=0, share_held_out=0)
    assert again.model.context_names == ("one", "two")
    with pytest.raises(rm.InputError, match="names: found 3 names, expected 2 names, or none"):
        rm.learn("shop", episodes=50, names=["one", "two", "three"])
    with pytest.raises(rm.InputError, match="names: found .*named.. gives them afterwards"):
        rm.learn("shop", episodes=50, num_contexts="auto", names=["one", "two"])


def test_the_report_has_the_certificate(results, tmp_path):
    page = results["learned"].report(tmp_path / "page.html").read_text()
    for sentence in results["learned"].certificate.proved:
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
                chance = model.laws[:, memory[1], action, z] * model.transition[memory[1], action, state]
                if chance.any():
                    walk(policy.observe(memory, action, value, state), weights * chance)

    for state in np.flatnonzero(model.initial):
        walk(policy.start(int(state)), model.weights * model.initial[state])
    for memory, weights in joint.items():
        np.testing.assert_allclose(plan.posterior(memory), weights / weights.sum(), rtol=0, atol=1e-12)
    assert len(joint) > 20


def test_what_cannot_speak_says_so(shop, tmp_path):
    from benchmarks.online import baselines

    with pytest.raises(rm.InputError, match="expected a noun of one file; a whole run is kept by its own save"):
        rm.save(tmp_path / "x", rm.learn(shop, episodes=20, resamples=0))
    earned = rm.earn(shop, episodes=20, method=baselines.CertaintyEquivalence)
    with pytest.raises(rm.InputError, match="expected an Agent"):
        earned.summary()
    with pytest.raises(rm.InputError, match="result.json"):
        rm.load(tmp_path)
