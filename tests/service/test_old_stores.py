"""Stores of before, whose sessions do not say by which holdout they were drawn."""

from contextlib import closing

import pytest

from rewardmix.service import Desk, ServeSettings, Store, export_log
from rewardmix.service.databases import open_database
from service.running_postgres import place_of
from service.running_service import in_thread, need_server
from service.test_live import play

need_server()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request):
    return place_of(request.param, request)


def served(store, plan):
    return in_thread(Desk(store, plan, ServeSettings(0.0, 0.5)))


def test_sessions_of_before_are_left_out_of_the_comparison(place, plan, tmp_path, monkeypatch):
    monkeypatch.setattr("rewardmix.service.live.FRESH_SECONDS", 0.0)
    with closing(Store(place)) as store:
        with served(store, plan) as client:
            for _ in range(30):
                play(client)
        store.submit(lambda records: records._ask("ALTER TABLE sessions DROP COLUMN holdout")).result()
    assert export_log(place, tmp_path / "log.parquet").sessions == 30  # who reads needs nothing new, and adds nothing
    with closing(open_database(place, new=False)) as database:
        database.look()
        with pytest.raises(database.failures, match="holdout"):
            database.ask("SELECT holdout FROM sessions")
    with closing(Store(place)) as store, closing(Store(place)) as other, served(store, plan) as client:
        before = client.ask("GET", "/v1/live")[1]
        assert (before["counted_sessions"], before["left_out_sessions"], before["comparison"]) == (30, 30, None)
        assert sum(arm["sessions"] for arm in before["arms"].values()) == 30
        for number in range(80):
            play(client, reward=number % 2)
        told = client.ask("GET", "/v1/live")[1]
        assert (told["counted_sessions"], told["left_out_sessions"], told["comparison"]["sessions"]) == (110, 30, 80)
        with served(other, plan) as client:
            assert client.ask("GET", "/v1/live")[1]["comparison"] == told["comparison"]
