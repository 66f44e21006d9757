"""The demo from end to end: visitors over HTTP, a version that is learned, and what it earns beside the holdout.

It is a function of its seeds: ids are made of the keys of visitors, and those that are learned from come one by one, so
that their order is no matter of chance.
"""

import hashlib
import time

from helpers.service_process import in_thread, need_server
from rewardmix.service import RefitSettings, ServeSettings, SessionService, Store
from rewardmix.service.background_refit import BackgroundRefitter
from rewardmix.service.demo_traffic import DemoTraffic, TrafficSettings, make_initial_plan

need_server()

BEFORE, AFTER = 700, 2300
TIMEOUTS = 900


def walk(client, users, seed, together):
    """So many visitors, as fast as they are answered."""
    settings = TrafficSettings(together, 0.0, users, seed, key_prefix=f"crowd {seed}")
    traffic = DemoTraffic("127.0.0.1", client.connection.port, None, settings)
    traffic.start()
    traffic.wait()
    client.connection.close()


def until(ask, good):
    """What is answered once it is good; given up after a long time."""
    for _ in range(TIMEOUTS):
        if good(response := ask()):
            return response
        time.sleep(1.0)
    raise AssertionError(f"not within {TIMEOUTS} s: {response}")


def test_what_is_learned_earns_more_than_the_holdout(browser, tmp_path):
    path = tmp_path / "sessions.sqlite"
    store = Store(path)
    service = SessionService(
        store, make_initial_plan(), ServeSettings(explore_prob=0.05, holdout_share=0.2, initial_explore_prob=1.0)
    )
    service.new_id = lambda request: hashlib.sha256(request.idempotency_key.encode()).hexdigest()
    learner = BackgroundRefitter(service, path, RefitSettings(BEFORE))
    try:
        with in_thread(service) as client:
            walk(client, BEFORE, seed=0, together=1)
            until(lambda: client.ask("GET", "/v1/versions")[1], lambda response: response["active_version"] == 2)
            learner.close()
            walk(client, AFTER, seed=1, together=32)
            step_mask = until(
                lambda: client.ask("GET", "/v1/dashboard")[1],
                lambda response: response["counted_sessions"] == BEFORE + AFTER,
            )
            tab = browser.new_page()
            tab.goto(f"http://127.0.0.1:{client.connection.port}/")
            tab.wait_for_selector("#versions tr")
            assert tab.locator("#versions th").all_inner_texts() == ["2", "1"]
            assert "refit to 700 sessions" in tab.locator("#versions").inner_text()
            assert tab.locator("#verdict").inner_text() == "The adaptive policy is better"
            tab.close()
    finally:
        learner.close()
        store.close()
    learned, value = (version["returns"] for version in step_mask["versions"])
    assert step_mask["comparison"]["lower"] > 0
    assert learned["adaptive"]["mean"] > value["adaptive"]["mean"]
