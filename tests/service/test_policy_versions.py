"""Versions of the policy: which one new sessions get, chosen by hand or by a start."""

from dataclasses import replace

import pytest

import rewardmix as rm
from helpers.postgres_server import KINDS, place_of
from helpers.service_process import in_thread, need_server
from rewardmix.service import SessionService
from rewardmix.service.request_schema import (
    ActivateVersion,
    ApiError,
    StartSession,
    StepFeedback,
    parse_activate_version,
)


@pytest.fixture(params=KINDS)
def place(request):
    return place_of(request.param, request)


def begun(service):
    return service.start_session(StartSession("home", None)).result().body


def told(service):
    """(current, held, [state of each version])."""
    body = service.versions().result().body
    return body["active_version"], body["pinned"], [version["state"] for version in body["versions"]]


@pytest.fixture(scope="module")
def flipped(plan):
    return rm.plan(replace(plan.model, rewards=1.0 - plan.model.rewards))


def test_a_version_chosen_by_hand_is_what_new_sessions_get(make_service, flipped):
    make_service()
    service = make_service(served=flipped)
    old = begun(service)
    assert told(service) == (2, False, ["retired", "active"])
    answer = service.activate_version(1, ActivateVersion(pin=True)).result().body
    assert (answer["version"], answer["state"], answer["origin"]) == (1, "active", "provided")
    assert told(service) == (1, True, ["active", "retired"])
    assert begun(service)["version"] == 1
    assert service.version == 1
    assert service.add_step(old["session"], StepFeedback(0, 1.0, "list")).result().body["version"] == 2
    assert service.activate_version(2, ActivateVersion(pin=False)).result().body["version"] == 2
    assert told(service) == (2, False, ["retired", "active"])
    with pytest.raises(ApiError, match="no version has this number"):
        service.activate_version(3, ActivateVersion(pin=True)).result()


def test_a_restart_with_the_same_policy_goes_on_and_with_another_begins_with_it(make_service, flipped):
    make_service()
    make_service(served=flipped).activate_version(1, ActivateVersion(pin=True)).result()
    again = make_service(served=flipped)
    assert told(again) == (1, True, ["active", "retired"])
    assert told(make_service()) == (1, False, ["active", "retired"])
    assert told(make_service(served=flipped)) == (2, False, ["retired", "active"])


def test_the_end_that_a_fit_adds_is_no_state_of_the_world(plan, store, make_service):
    """Fitted to sessions that end early, a model has one state more; it is the same model nevertheless."""
    episodes = rm.simulate(rm.uniform_policy(plan.model), plan.model, 300, 1)
    cut = {
        "states": episodes.states.copy(),
        "actions": episodes.actions.copy(),
        "reward_indices": episodes.reward_indices.copy(),
    }
    cut["states"][:150, 3:], cut["actions"][:150, 2:], cut["reward_indices"][:150, 2:] = -1, -1, -1
    lengths = [2] * 150 + [4] * 150
    shorter = rm.Episodes(**cut, lengths=lengths, num_states=3, num_actions=3, reward_values=episodes.reward_values)
    model = rm.recover(shorter).model
    assert model.num_states == 4
    names = {"state_names": (*plan.model.state_names, "end"), "action_names": plan.model.action_names}
    make_service()
    service = SessionService(store, rm.plan(replace(model, **names)))
    assert service.version == 2
    for state in (3, "end"):
        reply = service.start_session(StartSession(state, None)).result()
        assert reply.events[("unknown_states", "")] == 1


def test_a_choice_is_true_or_false():
    assert (parse_activate_version({}), parse_activate_version({"pin": False})) == (
        ActivateVersion(True),
        ActivateVersion(False),
    )
    for body in ({"pin": 1}, {"pin": None}, {"more": True}):
        with pytest.raises(ApiError):
            parse_activate_version(body)


def test_versions_over_http(make_service, flipped):
    need_server()
    make_service()
    with in_thread(make_service(served=flipped), "a token that is long enough") as client:
        assert client.ask("GET", "/v1/ready")[1]["version"] == 2
        assert client.ask("GET", "/v1/policy")[1]["version"] == 2
        status, chosen = client.ask("POST", "/v1/versions/1", {})
        assert (status, chosen["state"]) == (200, "active")
        status, body = client.ask("GET", "/v1/versions")
        assert (status, body["active_version"], body["pinned"]) == (200, 1, True)
        assert len({version["digest"] for version in body["versions"]}) == 2
        assert client.ask("GET", "/v1/policy")[1]["version"] == 1
        for number in ("0", "3", "x", "-1", "99999999999", "1%00", "٣".encode().hex()):
            assert client.ask("POST", f"/v1/versions/{number}", {})[1]["error"] == "version_not_found"
        assert client.ask("POST", "/v1/versions/1", {"pin": "yes"})[0] == 422
        client.headers = {}
        assert client.ask("GET", "/v1/versions")[0] == 401
        assert client.ask("POST", "/v1/versions/2", {})[0] == 401
