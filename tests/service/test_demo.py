"""The demo from end to end: visitors over HTTP, a version that is learned, and what it earns beside the holdout.

It is a function of its seeds: ids are made of the keys of visitors, and those that are learned from come one by one, so
that their order is no matter of chance.
"""

import hashlib
import time

from rewardmix.service import Desk, RefitSettings, ServeSettings, Store
from rewardmix.service.learner import BackgroundLearner
from rewardmix.service.visitors import Crowd, CrowdSettings, first_plan
from service.running_service import in_thread, need_server

need_server()

BEFORE, AFTER = 700, 2300
PATIENCE = 900


def walk(client, visitors, seed, together):
    """So many visitors, as fast as they are answered."""
    settings = CrowdSettings(together, 0.0, visitors, seed, keys=f"crowd {seed}")
    crowd = Crowd("127.0.0.1", client.connection.port, None, settings)
    crowd.start()
    crowd.wait()
    client.connection.close()


def until(asked, good):
    """What is answered once it is good; given up after a long time."""
    for _ in range(PATIENCE):
        if good(told := asked()):
            return told
        time.sleep(1.0)
    raise AssertionError(f"not within {PATIENCE} s: {told}")


def test_what_is_learned_earns_more_than_the_holdout(browser, tmp_path):
    path = tmp_path / "sessions.sqlite"
    store = Store(path)
    desk = Desk(store, first_plan(), ServeSettings(explore=0.05, holdout=0.2, explore_first=1.0))
    desk.new_id = lambda asked: hashlib.sha256(asked.key.encode()).hexdigest()
    learner = BackgroundLearner(desk, path, RefitSettings(BEFORE))
    try:
        with in_thread(desk) as client:
            walk(client, BEFORE, seed=0, together=1)
            until(lambda: client.ask("GET", "/v1/versions")[1], lambda told: told["current"] == 2)
            learner.close()
            walk(client, AFTER, seed=1, together=32)
            live = until(
                lambda: client.ask("GET", "/v1/live")[1], lambda told: told["counted_sessions"] == BEFORE + AFTER
            )
            tab = browser.new_page()
            tab.goto(f"http://127.0.0.1:{client.connection.port}/")
            tab.wait_for_selector("#versions tr")
            assert tab.locator("#versions th").all_inner_texts() == ["2", "1"]
            assert "learned from 700 sessions" in tab.locator("#versions").inner_text()
            assert tab.locator("#verdict").inner_text() == "Adapting pays"
            tab.close()
    finally:
        learner.close()
        store.close()
    learned, given = (version["earned"] for version in live["versions"])
    assert live["comparison"]["lower"] > 0
    assert learned["adaptive"]["mean"] > given["adaptive"]["mean"]
