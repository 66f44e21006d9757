"""Pages of the service in a browser: whatever names are, they are text; by keyboard, on a phone, in the dark."""

import json

import pytest

import rewardmix as rm
from helpers.service_process import in_thread, need_server
from rewardmix.service import ServeSettings, SessionService, Store
from rewardmix.service.demo_traffic import DemoTraffic, TrafficSettings
from service.test_dashboard import play

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
        origin = f"http://127.0.0.1:{client.connection.port}/"
        tab.on("pageerror", lambda error: tab.trouble.append(str(error)))
        tab.on("dialog", lambda dialog: (tab.trouble.append("a dialog"), dialog.dismiss()))
        tab.on("request", lambda request: request.url.startswith((origin, "data:")) or tab.trouble.append(request.url))
        tab.goto(origin + path.lstrip("/"))
        return tab

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def hostile_service(tmp_path, plan):
    from dataclasses import replace

    names = {"state_names": (f"home {EVIL}", "list", "item"), "action_names": (f"a {EVIL}", "b", "c")}
    model = replace(plan.model, **names, type_names=(f"one {EVIL}", f"two {EVIL}"))
    store = Store(tmp_path / "evil.sqlite")
    yield SessionService(store, rm.plan(model), ServeSettings(0.1, 0.5))
    store.close()


def test_names_of_every_kind_are_text(opened, hostile_service):
    from rewardmix.service.records import REJECTED, PolicyBlob, VersionRow

    def refused_version(records):
        env = records.list_specs()[0]
        row = VersionRow(0, "x", 1.0, 1, 5, REJECTED, f"reason {EVIL}", json.dumps({}))
        records.add_version(PolicyBlob("x", b"", env), row)

    hostile_service.store.submit(refused_version).result()
    with in_thread(hostile_service) as client:
        for state in (f"home {EVIL}", f"unknown {EVIL}"):
            response = client.ask("POST", "/v1/sessions", {"state": state, "idempotency_key": f"{state} {EVIL}"})[1]
            end = {"step": 0, "reward": 1, "state": None}
            assert client.ask("POST", f"/v1/sessions/{response['session']}/steps", end)[0] == 200
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
    from rewardmix.service.records import REJECTED, PolicyBlob, VersionRow

    store = Store(tmp_path_factory.mktemp("shop") / "shop.sqlite")
    service = SessionService(store, rm.plan(rm.problems.make_model("shop")), ServeSettings(0.1, 0.5))

    def refused_version(records):
        row = VersionRow(
            0,
            "x",
            1.0,
            1,
            5,
            REJECTED,
            "Its planned value is below the return of the holdout arm. " * 3,
            json.dumps({}),
        )
        records.add_version(PolicyBlob("x", b"", records.list_specs()[0]), row)

    store.submit(refused_version).result()
    traffic = DemoTraffic(
        "127.0.0.1", 0, None, TrafficSettings(num_concurrent=8, step_pause_seconds=0.0, max_sessions=80)
    )
    with in_thread(service, traffic=traffic) as client:
        response = client.ask("POST", "/v1/sessions", {"state": "a page that the policy does not know"})[1]
        client.ask("POST", f"/v1/sessions/{response['session']}/steps", {"step": 0, "reward": 1, "state": None})
        traffic.port = client.connection.port
        traffic.start()
        traffic.wait()
        traffic.active_sessions[0] = {**traffic.recent_sessions[0], "page": "home"}
        traffic.active_sessions[1] = {**traffic.recent_sessions[1], "page": "kitchen", "clicked": False}
        yield client
    store.close()


SEEN = {"/": "#versions .reason", "/shop": ".page li", "/v1/docs": "#schemas"}
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


def test_the_difference_says_what_a_session_counts(opened, shop_service, make_service):
    tab = opened(shop_service)
    tab.wait_for_selector("#cards .card")
    assert "valid at all times" in tab.locator("#cards").inner_text()
    with in_thread(make_service(holdout_share=0.0)) as client:
        for _ in range(3):
            play(client)
    with in_thread(make_service(holdout_share=0.5, max_session_return=0.5)) as client:
        for _ in range(80):
            play(client)
        clipped = opened(client)
        clipped.wait_for_selector("#cards .card")
        cards = clipped.locator("#cards").inner_text()
        assert (
            "returns are bounded by 0 and 0.5 (80 clipped); 3 sessions without a known holdout probability are excluded"
            in cards
        )
        answer = client.ask("GET", "/v1/dashboard")[1]
        undecided = {**answer["comparison"], "lower": -0.004, "upper": 0.02, "difference": 0.008}
        made = {}
        clipped.route(
            "**/v1/dashboard", lambda route: route.fulfill(body=json.dumps(made), content_type="application/json")
        )
        for more, text in ((1234, "about 1,300 more sessions are needed"), (None, "cannot be estimated yet")):
            made |= {**answer, "holdout_share": 0.1, "comparison": {**undecided, "sessions_until_significant": more}}
            clipped.reload()
            clipped.wait_for_selector("#cards .card")
            assert clipped.locator("#verdict").inner_text() == "No significant difference yet"
            lead = clipped.locator("#lead").inner_text()
            assert text in lead
            assert lead.endswith("A holdout share of 0.5 would decide two to four times sooner.")
            assert "0.004 to +0.02" in clipped.locator("#cards").inner_text()
    assert tab.trouble == clipped.trouble == []


def test_axe_notices(opened, shop_service, axe):
    tab = opened(shop_service, "/shop")
    tab.wait_for_selector(SEEN["/shop"])
    tab.evaluate("document.getElementById('recent').closest('.scroll').removeAttribute('aria-label')")
    tab.evaluate("document.querySelector('.lead').style.color = '#ddd'")
    tab.evaluate("document.documentElement.removeAttribute('lang')")
    assert {result.partition(":")[0] for result in axe(tab)} >= {"color-contrast", "html-has-lang"}


@pytest.mark.parametrize("path", SEEN)
def test_everything_is_reached_by_keyboard_and_seen_to_be(opened, shop_service, path):
    """Tab leads through all links, tables and details, and back to the beginning; each shows that it has the focus."""
    tab = opened(shop_service, path, viewport={"width": 390, "height": 800})
    tab.wait_for_selector(SEEN[path])
    expected = tab.evaluate(
        "[...document.querySelectorAll('a[href], button, input, summary, [tabindex=\"0\"]')]"
        ".filter((one) => one.checkVisibility()).length"
    )
    reached = set()
    for _ in range(expected):
        tab.keyboard.press("Tab")
        reached.add(
            tab.evaluate(
                "(() => { const one = document.activeElement; window.seen ??= new Map();"
                " if (!seen.has(one)) seen.set(one, seen.size);"
                " const unseen = one === document.body || getComputedStyle(one).outlineStyle === 'none';"
                " return unseen ? -1 : seen.get(one); })()"
            )
        )
    assert reached == set(range(expected))
    if path == "/":
        tab.locator("summary").focus()
        tab.keyboard.press("Enter")
        assert tab.locator("#history-rows tr").first.is_visible()


@pytest.mark.parametrize(("path", "shown"), [("/", "#types li"), ("/shop", ".page h3")])
def test_the_token_is_asked_for_and_typed(opened, make_service, axe, path, shown):
    traffic = DemoTraffic("127.0.0.1", 0, TOKEN)
    with in_thread(make_service(), TOKEN, traffic=traffic) as client:
        tab = opened(client, path)
        for text, wrong in (("", False), ("a wrong token here", True), ("no header has \u20ac", True)):
            tab.wait_for_selector("#token", state="visible")
            tab.keyboard.type(text)  # the field has the focus already
            if text:
                tab.keyboard.press("Enter")
                tab.wait_for_selector("text=This token is not valid")
            tab.wait_for_selector("#login:not([hidden])")
            assert ("is not valid" in tab.locator("#status").inner_text()) == wrong
            assert axe(tab) == []
        tab.keyboard.type(TOKEN)
        tab.keyboard.press("Enter")
        tab.wait_for_selector(shown)
        assert not tab.locator("#login").is_visible()
        assert tab.locator("#status").inner_text() == ""
        tab.reload()
        tab.wait_for_selector(shown)
        other = "/shop" if path == "/" else "/"
        tab.goto(tab.url.rstrip("/").removesuffix("/shop") + other)  # the same tab knows it there too
        tab.wait_for_selector({"/": "#types li", "/shop": ".page h3"}[other])
        assert tab.trouble == []


def test_visitors_walk_through_the_demo_shop(opened, tmp_path):
    store = Store(tmp_path / "shop.sqlite")
    service = SessionService(store, rm.plan(rm.problems.make_model("shop")), ServeSettings(0.1, 0.5))
    traffic = DemoTraffic(
        "127.0.0.1", 0, None, TrafficSettings(num_concurrent=4, step_pause_seconds=0.0, max_sessions=20)
    )
    with in_thread(service, traffic=traffic) as client:
        traffic.port = client.connection.port
        traffic.start()
        traffic.wait()
        tab = opened(client, "/shop")
        tab.wait_for_selector("#recent tr")
        assert tab.locator(".page h3").all_inner_texts() == ["home", "outdoor", "reading", "kitchen"]
        assert tab.locator("#recent tr").count() == 8
        assert client.ask("GET", "/v1/dashboard")[1]["finished_sessions"] == 20
        assert tab.trouble == []
    store.close()
