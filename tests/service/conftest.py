"""A small shop, its plan, and services that answer by it."""

from dataclasses import replace

import pytest

import rewardmix as rm
from helpers.postgres_server import Postgres, need_postgres, place_of
from rewardmix.service import ServeSettings, SessionLimits, SessionService, Store


@pytest.fixture(scope="session")
def plan():
    model = rm.problems.make_model("random", states=3, actions=3, horizon=4, seed=3)
    return rm.plan(replace(model, state_names=("home", "list", "item"), action_names=("a", "b", "c")))


@pytest.fixture(scope="session")
def postgres():
    need_postgres()
    running = Postgres()
    yield running
    running.remove()


@pytest.fixture
def place(request):
    """Where the store is; modules whose tests are run with both kinds have a ``place`` of their own."""
    return place_of("sqlite", request)


@pytest.fixture
def store(place):
    opened = Store(place)
    yield opened
    opened.close()


@pytest.fixture
def make_service(store, plan):
    def make(*, max_open_sessions=1000, idle_seconds=3600.0, served=plan, **settings):
        chosen = {"explore_prob": 0.0, "holdout_share": 0.0, **settings}
        return SessionService(store, served, ServeSettings(**chosen), SessionLimits(max_open_sessions, idle_seconds))

    return make
