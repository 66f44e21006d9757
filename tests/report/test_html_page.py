"""The page in a real browser: played by click and by key, and attacked."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from helpers.example_summaries import make_summary, random_sparse_model
from rewardmix import belief, problems
from rewardmix.online import learn_online
from rewardmix.report import build_summary, render_page
from rewardmix.report.report_data import report_data_from_online

SHOP = problems.make_model("shop")
PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def shop():
    return make_summary(SHOP)


@pytest.fixture(scope="module")
def online():
    """Build the summary of a short run of an agent."""
    return build_summary(
        report_data_from_online(
            learn_online(SHOP, num_episodes=200, seed=1), title="shop", env_or_model=SHOP, command="rewardmix"
        )
    )


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a summary as a page and watches it: any console message or request but for the file itself is kept."""
    contexts = []

    def open_page(summary, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        tab = context.new_page()
        tab.trouble = []
        tab.on("console", lambda message: tab.trouble.append(message.text))
        tab.on("pageerror", lambda error: tab.trouble.append(str(error)))
        tab.on("dialog", lambda dialog: (tab.trouble.append("a dialog"), dialog.dismiss()))
        tab.on("request", lambda request: tab.trouble.append(request.url) if not _own(request.url) else None)
        path = tmp_path / "report.html"
        path.write_text(render_page(json.loads(json.dumps(summary))), encoding="utf-8")
        tab.goto(path.as_uri())
        return tab

    yield open_page
    for context in contexts:
        context.close()


def _own(url: str) -> bool:
    return url.endswith("/report.html") or url == "data:,"


class Follower:
    """What Python says the page should show: plays the exported tables and the only Bayes update."""

    def __init__(self, policy: dict, start: int) -> None:
        self.policy, self.step, self.state = policy, 0, start
        self.memory, self.belief = policy["first"][start], np.array(policy["weights"])
        self.rewards = np.array(policy["rewards"])
        self.total = 0.0

    @property
    def node(self) -> list[int]:
        return self.policy["nodes"][self.step][self.policy["columns"][self.step][self.memory][self.state]]

    @property
    def action(self) -> str:
        return self.policy["action_names"][self.node[0]]

    def reward(self, z: int) -> None:
        table = self.rewards[:, self.state, self.node[0]]
        likelihood = table[:, z] if table.ndim == 2 else (table if z else 1.0 - table)
        self.belief = belief.update(self.belief, likelihood)
        self.memory = self.node[1 + z] if self.step + 1 < self.policy["horizon"] else 0
        self.total += self.policy["reward_values"][z]
        self.step += 1


def shown_belief(tab) -> np.ndarray:
    return np.array(json.loads(tab.locator("#belief").get_attribute("data-belief")))


def check_belief(tab, follower) -> None:
    np.testing.assert_allclose(shown_belief(tab), follower.belief, rtol=0, atol=1e-12)
    bars = tab.locator("#belief span")
    widths = [float(bars.nth(m).evaluate("bar => parseFloat(bar.style.width)")) for m in range(bars.count())]
    np.testing.assert_allclose(np.array(widths) / 100, follower.belief, rtol=0, atol=1e-4)


def test_a_whole_session_by_click(opened, shop):
    tab, policy = opened(shop), shop["policy"]
    follower = Follower(policy, 0)
    rng = np.random.default_rng(1)
    for t in range(policy["horizon"]):
        assert tab.locator("#where").inner_text() == f"Step {t + 1} of 10 · {policy['state_names'][follower.state]}"
        assert tab.locator("#action").inner_text() == follower.action
        check_belief(tab, follower)
        z = int(rng.integers(2))
        follower.reward(z)
        tab.get_by_role("button", name="Rewarded" if z else "Not rewarded", exact=True).click()
        check_belief(tab, follower)
        if t + 1 < policy["horizon"]:
            assert tab.locator("#prompt").inner_text() == "Next state?"
            follower.state = int(rng.integers(4))
            tab.locator("#choices").get_by_role("button", name=policy["state_names"][follower.state]).click()
    assert tab.locator("#action").inner_text() == "End"
    assert tab.locator("#history li").count() == 10
    assert tab.locator("#total").inner_text() == f"total reward: {follower.total:g}"
    for _ in range(10):
        tab.get_by_role("button", name="Undo").click()
    assert tab.get_by_role("button", name="Undo").is_disabled()
    np.testing.assert_allclose(shown_belief(tab), policy["weights"], rtol=0, atol=0)
    assert tab.trouble == []


def test_a_whole_session_by_keyboard(opened, shop):
    tab, policy = opened(shop), shop["policy"]
    follower = Follower(policy, 0)
    tab.keyboard.press("y")  # outside of the session keys mean nothing
    assert tab.locator("#history li").count() == 0
    for _ in range(25):  # the contents come first
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.closest('#choices') !== null"):
            break
    assert tab.evaluate("document.activeElement.matches(':focus-visible')")
    assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    for t in range(policy["horizon"]):
        assert tab.locator("#action").inner_text() == follower.action
        z = int(t % 3 != 0)
        key = {0: ("y", "n"), 1: ("1", "2")}[t % 2][1 - z]
        follower.reward(z)
        tab.keyboard.press(key)
        check_belief(tab, follower)
        if t + 1 < policy["horizon"]:
            if t == 2:  # a slip: take it back and say it again
                tab.keyboard.press("u")
                tab.keyboard.press(key)
            follower.state = t % 4
            tab.keyboard.press(str(follower.state + 1))
            text = tab.locator("#announcement").inner_text()
            assert text.startswith(f"Step {t + 2} of 10, {policy['state_names'][follower.state]}. Belief: type 1 ")
            assert text.endswith(f"Recommended: {follower.action}.")
        assert tab.evaluate("document.activeElement.closest('#session') !== null")
    assert (
        tab.locator("#announcement").inner_text().startswith(f"The episode is over. Total reward: {follower.total:g}.")
    )
    tab.keyboard.press("u")
    assert tab.locator("#where").inner_text().startswith("Step 10 of 10")
    tab.keyboard.press("r")
    assert tab.locator("#where").inner_text() == "Step 1 of 10 · home"
    tab.keyboard.press("Enter")
    assert tab.locator("#prompt").inner_text() == "Next state?"
    assert tab.trouble == []


def test_many_types_values_and_initial_states(opened):
    summary = make_summary(random_sparse_model(3, (-1.0, 0.0, 2.5), seed=1), "three", reward_intervals=None)
    tab, policy = opened(summary), summary["policy"]
    rng = np.random.default_rng(2)
    assert tab.locator("#prompt").inner_text() == "Initial state?"
    follower = Follower(policy, 3)
    tab.locator("#choices button").nth(policy["starts"].index(3)).click()
    for t in range(policy["horizon"]):
        assert tab.locator("#action").inner_text() == follower.action
        assert tab.locator("#choices button").all_inner_texts() == [
            "1Reward 2.5",
            "2Reward 0",
            "3Reward \N{MINUS SIGN}1",
        ]
        z, action = int(rng.integers(3)), follower.node[0]
        possible = policy["next_states"][follower.state * 3 + action] or list(range(5))
        follower.reward(z)
        tab.locator("#choices button").nth(2 - z).click()
        check_belief(tab, follower)
        if t + 1 < policy["horizon"]:
            follower.state = int(rng.choice(possible))
            if len(possible) > 1:
                assert tab.locator("#choices button").count() == len(possible)
                tab.locator("#choices button").nth(possible.index(follower.state)).click()
    assert tab.locator("#belief span").count() == 3
    assert tab.trouble == []


def test_one_possible_next_state_is_not_asked_for(opened):
    tab = opened(make_summary(problems.make_model("probe"), "probe", is_true_model_known=False))
    assert tab.locator("#where").inner_text() == "Step 1 of 8 · lobby"
    tab.locator("#choices button").first.click()
    assert tab.locator("#where").inner_text().startswith("Step 2 of 8")
    assert tab.trouble == []


def test_many_next_states_are_a_list(opened):
    tab = opened(make_summary(problems.make_model("random", states=12, actions=2, horizon=3), "list"))
    tab.locator("#choices select").select_option("4")
    tab.locator("#choices button").first.click()
    tab.locator("#choices select").select_option("7")
    assert tab.locator("#where").inner_text() == "Step 2 of 3 · state 8"
    assert tab.trouble == []


HOSTILE = (
    "<script>window.hacked=1</script>",
    '"><img src=x onerror="window.hacked=1">',
    "</script><script>window.hacked=1</script>",
    "{{ 7*7 }}${window.hacked=1}<!--",
)


def test_hostile_names_stay_names(opened):
    model = replace(SHOP, state_names=HOSTILE, action_names=tuple(name + "&amp;" for name in HOSTILE))
    more = {
        "title": HOSTILE[2],
        "open_questions": list(HOSTILE),
        "command": HOSTILE[0],
        "certificate": {"bonus": HOSTILE[1], "proved": list(HOSTILE), "statement_checks": {HOSTILE[0]: HOSTILE[2]}},
        "sections": [
            {"title": HOSTILE[0], "paragraphs": list(HOSTILE), "columns": [HOSTILE[1]], "rows": [[HOSTILE[2]]]}
        ],
    }
    summary = make_summary(model, **more)
    summary["comparison"]["rows"][0]["name"] = HOSTILE[1]
    tab = opened(summary)
    for _ in range(4):
        tab.locator("#choices button").first.click()
        tab.locator("#choices button").nth(2).click()
    assert tab.evaluate("window.hacked") is None
    assert tab.locator("img").count() == 0
    assert tab.locator("script").count() == 2
    assert tab.locator("h1").inner_text() == HOSTILE[2]
    assert tab.locator("#where b").inner_text() == HOSTILE[2]
    assert tab.locator("#action").inner_text() in model.action_names
    assert tab.trouble == []


def test_an_injected_script_would_not_run(browser, tmp_path, shop):
    """The content security policy is the second wall: even markup that got through stays dead."""
    path = tmp_path / "report.html"
    attack = '<script>window.hacked=1</script><img src="data:," onerror="window.hacked=1">'
    path.write_text(render_page(shop).replace("</main>", attack + "</main>"), encoding="utf-8")
    tab = browser.new_page()
    tab.goto(path.as_uri())
    assert tab.locator("#where").inner_text() == "Step 1 of 10 · home"
    assert tab.evaluate("window.hacked") is None
    tab.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone(opened, shop, scheme):
    tab = opened(shop, viewport=PHONE, color_scheme=scheme)
    assert tab.evaluate("document.documentElement.scrollWidth") == 360
    small = """() => [...document.querySelectorAll('#session button')].filter(b => b.offsetHeight < 36).length"""
    assert tab.evaluate(small) == 0
    paper = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(int(piece) for piece in paper[4:-1].split(",")) > 384) == (scheme == "light")
    assert tab.trouble == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_an_agent_fits_a_phone_and_uses_names(opened, online, scheme):
    tab = opened(online, viewport=PHONE, color_scheme=scheme)
    assert tab.evaluate("document.documentElement.scrollWidth") == 360
    assert tab.get_by_role("heading", name="Online learning").is_visible()
    follower = Follower(online["policy"], 0)
    tab.locator("#choices").get_by_role("button", name="home").click()  # an agent does not know the initial states
    for t in range(3):
        assert tab.locator("#where").inner_text() == f"Step {t + 1} of 10 · {SHOP.state_names[follower.state]}"
        assert tab.locator("#action").inner_text() == follower.action
        check_belief(tab, follower)
        follower.reward(t % 2)
        tab.get_by_role("button", name="Rewarded" if t % 2 else "Not rewarded", exact=True).click()
        follower.state = t + 1
        tab.locator("#choices").get_by_role("button", name=SHOP.state_names[t + 1]).click()
    assert tab.trouble == []


@pytest.mark.parametrize("which", ["shop", "online"])
def test_everything_has_a_name_for_screen_readers(opened, which, request):
    tab = opened(request.getfixturevalue(which))
    assert tab.evaluate("[...document.querySelectorAll('svg')].every(s => s.getAttribute('aria-label'))")
    names = tab.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(names) == len(set(names))
    levels = tab.evaluate("[...document.querySelectorAll('h1,h2,h3')].map(h => Number(h.tagName[1]))")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    text = tab.locator("#belief").get_attribute("aria-label")
    assert text == "type 1 60 %, type 2 40 %" if which == "shop" else re.fullmatch(r"type 1 \d+ %, type 2 \d+ %", text)
    assert tab.get_by_role("group", name="Play a session").count() == 1


def test_without_a_script_the_rest_can_be_read(opened, shop):
    tab = opened(shop, java_script_enabled=False)
    assert tab.locator("noscript p").count() == 1
    assert tab.locator("h2#certificate").is_visible()


def test_long_names_fit_a_phone(opened):
    names = ("a page with recommendations of the week", "Donaudampfschifffahrtsgesellschaftskapitaen", "x", "kitchen")
    model = replace(SHOP, state_names=names, action_names=tuple(name * 2 for name in names))
    tab = opened(make_summary(model, "an-experiment-with-a-name-that-has-no-place-to-break" * 2), viewport=PHONE)
    for _ in range(3):
        tab.locator("#choices button").first.click()
        tab.locator("#choices button").nth(1).click()
    assert tab.evaluate("document.documentElement.scrollWidth") == 360
    assert tab.trouble == []
