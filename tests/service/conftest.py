"""A small shop, its plan, and desks that answer by it."""

from dataclasses import replace

import pytest

import rewardmix as rm
from rewardmix.service import Desk, DeskLimits, ServeSettings, Store
from service.running_postgres import Postgres, need_postgres, place_of


@pytest.fixture(scope="session")
def plan():
    model = rm.problems.make("random", states=3, actions=3, horizon=4, seed=3)
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
def desk_of(store, plan):
    def make(*, most_open=1000, idle=3600.0, served=plan, **settings):
        chosen = {"explore": 0.0, "holdout": 0.0, **settings}
        return Desk(store, served, ServeSettings(**chosen), DeskLimits(most_open, idle))

    return make
