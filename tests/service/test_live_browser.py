"""Pages of the service in a browser: whatever names are, they are text; by keyboard, on a phone, in the dark."""

import json

import pytest

import rewardmix as rm
from rewardmix.service import Desk, ServeSettings, Store
from rewardmix.service.visitors import Crowd, CrowdSettings
from service.running_service import in_thread, need_server
from service.test_live import play

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


@pytest.fixture(scope="module")
def shop_service(tmp_path_factory):
    """A service with everything that its pages may show: sessions, a refused version, unknown states, visitors."""
    from rewardmix.service.records import REFUSED, StoredPolicy, VersionRow

    store = Store(tmp_path_factory.mktemp("shop") / "shop.sqlite")
    desk = Desk(store, rm.plan(rm.problems.make("shop")), ServeSettings(0.1, 0.5))

    def refused_version(records):
        row = VersionRow(0, "x", 1.0, 1, 5, REFUSED, "It expects less than the holdout earned. " * 3, json.dumps({}))
        records.add_version(StoredPolicy("x", b"", records.worlds()[0]), row)

    store.submit(refused_version).result()
    crowd = Crowd("127.0.0.1", 0, None, CrowdSettings(walkers=8, pause=0.0, most=80))
    with in_thread(desk, crowd=crowd) as client:
        told = client.ask("POST", "/v1/sessions", {"state": "a page that the policy does not know"})[1]
        client.ask("POST", f"/v1/sessions/{told['session']}/steps", {"step": 0, "reward": 1, "state": None})
        crowd.port = client.connection.port
        crowd.start()
        crowd.wait()
        crowd.walking[0] = {**crowd.lately[0], "page": "home"}
        crowd.walking[1] = {**crowd.lately[1], "page": "kitchen", "clicked": False}
        yield client
    store.close()


SEEN = {"/": "#versions .why", "/shop": ".room li", "/v1/docs": "#schemas"}
"""Page -> what is there once all is."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390, 320])
@pytest.mark.parametrize("path", SEEN)
def test_it_fits_a_phone_and_a_desk_and_axe_finds_nothing(opened, shop_service, axe, path, width, scheme):
    tab = opened(shop_service, path, viewport={"width": width, "height": 800}, color_scheme=scheme)
    tab.wait_for_selector(SEEN[path])
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    if width != 320:
        assert axe(tab) == []
    assert tab.trouble == []


def test_the_difference_says_what_a_session_counts(opened, shop_service, desk_of):
    tab = opened(shop_service)
    tab.wait_for_selector("#cards .card")
    assert "with 95 %, however often you look; a session counts 0 to 10" in tab.locator("#cards").inner_text()
    with in_thread(desk_of(holdout=0.0)) as client:
        for _ in range(3):
            play(client)
    with in_thread(desk_of(holdout=0.5, max_session_return=0.5)) as client:
        for _ in range(80):
            play(client)
        clipped = opened(client)
        clipped.wait_for_selector("#cards .card")
        told = clipped.locator("#cards").inner_text()
        assert "a session counts 0 to 0.5, as 80 that earned more do; without 3 sessions" in told
        answer = client.ask("GET", "/v1/live")[1]
        undecided = {**answer["comparison"], "lower": -0.004, "upper": 0.02, "difference": 0.008}
        made = {}
        clipped.route("**/v1/live", lambda route: route.fulfill(body=json.dumps(made), content_type="application/json"))
        for more, said in ((1234, "about 1,300 more decide"), (None, "Nothing says yet")):
            made |= {**answer, "holdout": 0.1, "comparison": {**undecided, "more_sessions": more}}
            clipped.reload()
            clipped.wait_for_selector("#cards .card")
            assert clipped.locator("#verdict").inner_text() == "Not decided yet"
            lead = clipped.locator("#lead").inner_text()
            assert said in lead
            assert lead.endswith("A holdout of half of the sessions would decide two to four times sooner.")
            assert "0.004 to +0.02 with 95 %" in clipped.locator("#cards").inner_text()
    assert tab.trouble == clipped.trouble == []


def test_axe_notices(opened, shop_service, axe):
    tab = opened(shop_service, "/shop")
    tab.wait_for_selector(SEEN["/shop"])
    tab.evaluate("document.getElementById('lately').closest('.scroll').removeAttribute('aria-label')")
    tab.evaluate("document.querySelector('.lead').style.color = '#ddd'")
    tab.evaluate("document.documentElement.removeAttribute('lang')")
    assert {found.partition(":")[0] for found in axe(tab)} >= {"color-contrast", "html-has-lang"}


@pytest.mark.parametrize("path", SEEN)
def test_everything_is_reached_by_keyboard_and_seen_to_be(opened, shop_service, path):
    """Tab leads through all links, tables and details, and back to the beginning; each shows that it has the focus."""
    tab = opened(shop_service, path, viewport={"width": 390, "height": 800})
    tab.wait_for_selector(SEEN[path])
    wanted = tab.evaluate(
        "[...document.querySelectorAll('a[href], button, input, summary, [tabindex=\"0\"]')]"
        ".filter((one) => one.checkVisibility()).length"
    )
    reached = set()
    for _ in range(wanted):
        tab.keyboard.press("Tab")
        reached.add(
            tab.evaluate(
                "(() => { const one = document.activeElement; window.seen ??= new Map();"
                " if (!seen.has(one)) seen.set(one, seen.size);"
                " const unseen = one === document.body || getComputedStyle(one).outlineStyle === 'none';"
                " return unseen ? -1 : seen.get(one); })()"
            )
        )
    assert reached == set(range(wanted))
    if path == "/":
        tab.locator("summary").focus()
        tab.keyboard.press("Enter")
        assert tab.locator("#stretches tr").first.is_visible()


@pytest.mark.parametrize(("path", "shown"), [("/", "#types li"), ("/shop", ".room h3")])
def test_the_token_is_asked_for_and_typed(opened, desk_of, axe, path, shown):
    crowd = Crowd("127.0.0.1", 0, TOKEN)
    with in_thread(desk_of(), TOKEN, crowd=crowd) as client:
        tab = opened(client, path)
        for text, wrong in (("", False), ("a wrong token here", True), ("no header has \u20ac", True)):
            tab.wait_for_selector("#token", state="visible")
            tab.keyboard.type(text)  # the field has the focus already
            if text:
                tab.keyboard.press("Enter")
                tab.wait_for_selector("text=That token is not the one")
            tab.wait_for_selector("#door:not([hidden])")
            assert ("not the one" in tab.locator("#state").inner_text()) == wrong
            assert axe(tab) == []
        tab.keyboard.type(TOKEN)
        tab.keyboard.press("Enter")
        tab.wait_for_selector(shown)
        assert not tab.locator("#door").is_visible()
        assert tab.locator("#state").inner_text() == ""
        tab.reload()
        tab.wait_for_selector(shown)
        other = "/shop" if path == "/" else "/"
        tab.goto(tab.url.rstrip("/").removesuffix("/shop") + other)  # the same tab knows it there too
        tab.wait_for_selector({"/": "#types li", "/shop": ".room h3"}[other])
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
