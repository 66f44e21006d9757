"""Pages of the service in a browser: whatever names are, they are text; by keyboard, on a phone, in the dark."""

import json

import pytest

import rewardmix as rm
from rewardmix.service import Desk, ServeSettings, Store
from rewardmix.service.visitors import Crowd, CrowdSettings
from service.running_service import in_thread, need_server

need_server()

EVIL = "</script><img src=x onerror=alert(1)>"
TOKEN = "a token that is long enough"


@pytest.fixture
def opened(browser):
    """Opens a page of a service and keeps whatever goes wrong in it, or leaves it."""
    contexts = []

    def open_page(client, path="/", **options):
        context = browser.new_context(**options)
        contexts.append(context)
        tab = context.new_page()
        tab.trouble = []
        own = f"http://127.0.0.1:{client.connection.port}/"
        tab.on("pageerror", lambda error: tab.trouble.append(str(error)))
        tab.on("dialog", lambda dialog: (tab.trouble.append("a dialog"), dialog.dismiss()))
        tab.on("request", lambda request: request.url.startswith((own, "data:")) or tab.trouble.append(request.url))
        tab.goto(own + path.lstrip("/"))
        return tab

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def evil_desk(tmp_path, plan):
    from dataclasses import replace

    names = {"state_names": (f"home {EVIL}", "list", "item"), "action_names": (f"a {EVIL}", "b", "c")}
    model = replace(plan.model, **names, context_names=(f"one {EVIL}", f"two {EVIL}"))
    store = Store(tmp_path / "evil.sqlite")
    yield Desk(store, rm.plan(model), ServeSettings(0.1, 0.5))
    store.close()


def test_names_of_every_kind_are_text(opened, evil_desk):
    from rewardmix.service.records import REFUSED, StoredPolicy, VersionRow

    def refused_version(records):
        world = records.worlds()[0]
        row = VersionRow(0, "x", 1.0, 1, 5, REFUSED, f"reason {EVIL}", json.dumps({}))
        records.add_version(StoredPolicy("x", b"", world), row)

    evil_desk.store.submit(refused_version).result()
    with in_thread(evil_desk) as client:
        for state in (f"home {EVIL}", f"unknown {EVIL}"):
            told = client.ask("POST", "/v1/sessions", {"state": state, "key": f"{state} {EVIL}"})[1]
            end = {"step": 0, "reward": 1, "state": None}
            assert client.ask("POST", f"/v1/sessions/{told['session']}/steps", end)[0] == 200
        tab = opened(client)
        tab.wait_for_selector("#types li")
        assert f"unknown {EVIL}" in tab.locator("#alarms").inner_text()
        assert f"one {EVIL}" in tab.locator("#types").inner_text()
        assert f"reason {EVIL}" in tab.locator("#versions").inner_text()
        assert tab.locator("img").count() == 0
        docs = opened(client, "/v1/docs")
        assert docs.locator("h2").count() > 10
        assert tab.trouble == docs.trouble == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone(opened, desk_of, scheme):
    with in_thread(desk_of()) as client:
        for path in ("/", "/v1/docs"):
            tab = opened(client, path, viewport={"width": 360, "height": 740}, color_scheme=scheme)
            tab.wait_for_selector("#types li" if path == "/" else "h2")
            assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert tab.trouble == []


def test_the_token_is_asked_for_and_typed(opened, desk_of):
    with in_thread(desk_of(), TOKEN) as client:
        tab = opened(client)
        for text, shown in (("a wrong token here", "#door:not([hidden])"), (TOKEN, "#types li")):
            tab.wait_for_selector("#token", state="visible")
            tab.keyboard.type(text)  # the field has the focus already
            tab.keyboard.press("Enter")
            tab.wait_for_selector(shown)
        assert not tab.locator("#door").is_visible()
        tab.reload()
        tab.wait_for_selector("#types li")
        assert tab.trouble == []


def test_visitors_walk_through_the_demo_shop(opened, tmp_path):
    store = Store(tmp_path / "shop.sqlite")
    desk = Desk(store, rm.plan(rm.problems.make("shop")), ServeSettings(0.1, 0.5))
    crowd = Crowd("127.0.0.1", 0, None, CrowdSettings(walkers=4, pause=0.0, most=20))
    with in_thread(desk, crowd=crowd) as client:
        crowd.port = client.connection.port
        crowd.start()
        crowd.wait()
        tab = opened(client, "/shop")
        tab.wait_for_selector("#lately tr")
        assert tab.locator(".room h3").all_inner_texts() == ["home", "outdoor", "reading", "kitchen"]
        assert tab.locator("#lately tr").count() == 8
        assert client.ask("GET", "/v1/live")[1]["finished_sessions"] == 20
        assert tab.trouble == []
    store.close()
