"""Versions of the policy: which one new sessions get, chosen by hand or by a start."""

from dataclasses import replace

import pytest

import rewardmix as rm
from rewardmix.service import Desk
from rewardmix.service.messages import Begin, Choose, Observed, Refusal, as_choose
from service.running_postgres import KINDS, place_of
from service.running_service import in_thread, need_server


@pytest.fixture(params=KINDS)
def place(request):
    return place_of(request.param, request)


def begun(desk):
    return desk.begin(Begin("home", None)).result().body


def told(desk):
    """(current, held, [state of each version])."""
    body = desk.versions().result().body
    return body["current"], body["held"], [one["state"] for one in body["versions"]]


@pytest.fixture(scope="module")
def flipped(plan):
    return rm.plan(replace(plan.model, rewards=1.0 - plan.model.rewards))


def test_a_version_chosen_by_hand_is_what_new_sessions_get(desk_of, flipped):
    desk_of()
    desk = desk_of(served=flipped)
    old = begun(desk)
    assert told(desk) == (2, False, ["former", "current"])
    answer = desk.choose(1, Choose(hold=True)).result().body
    assert (answer["version"], answer["state"], answer["origin"]) == (1, "current", "given")
    assert told(desk) == (1, True, ["current", "former"])
    assert begun(desk)["version"] == 1
    assert desk.version == 1
    assert desk.go_on(old["session"], Observed(0, 1.0, "list")).result().body["version"] == 2
    assert desk.choose(2, Choose(hold=False)).result().body["version"] == 2
    assert told(desk) == (2, False, ["former", "current"])
    with pytest.raises(Refusal, match="no version with this number"):
        desk.choose(3, Choose(hold=True)).result()


def test_a_restart_with_the_same_policy_goes_on_and_with_another_begins_with_it(desk_of, flipped):
    desk_of()
    desk_of(served=flipped).choose(1, Choose(hold=True)).result()
    again = desk_of(served=flipped)
    assert told(again) == (1, True, ["current", "former"])
    assert told(desk_of()) == (1, False, ["current", "former"])
    assert told(desk_of(served=flipped)) == (2, False, ["former", "current"])


def test_the_end_that_a_fit_adds_is_no_state_of_the_world(plan, store, desk_of):
    """Fitted to sessions that end early, a model has one state more; it is the same world nevertheless."""
    episodes = rm.simulate(rm.uniform(plan.model), plan.model, 300, 1)
    cut = {"states": episodes.states.copy(), "actions": episodes.actions.copy(), "outcomes": episodes.outcomes.copy()}
    cut["states"][:150, 3:], cut["actions"][:150, 2:], cut["outcomes"][:150, 2:] = -1, -1, -1
    lengths = [2] * 150 + [4] * 150
    shorter = rm.Episodes(**cut, lengths=lengths, num_states=3, num_actions=3, reward_values=episodes.reward_values)
    model = rm.recover(shorter).model
    assert model.num_states == 4
    names = {"state_names": (*plan.model.state_names, "end"), "action_names": plan.model.action_names}
    desk_of()
    desk = Desk(store, rm.plan(replace(model, **names)))
    assert desk.version == 2
    for state in (3, "end"):
        reply = desk.begin(Begin(state, None)).result()
        assert reply.events[("unknown_states", "")] == 1


def test_a_choice_is_true_or_false():
    assert (as_choose({}), as_choose({"hold": False})) == (Choose(True), Choose(False))
    for body in ({"hold": 1}, {"hold": None}, {"more": True}):
        with pytest.raises(Refusal):
            as_choose(body)


def test_versions_over_http(desk_of, flipped):
    need_server()
    desk_of()
    with in_thread(desk_of(served=flipped), "a token that is long enough") as client:
        assert client.ask("GET", "/v1/ready")[1]["version"] == 2
        assert client.ask("GET", "/v1/policy")[1]["version"] == 2
        status, chosen = client.ask("POST", "/v1/versions/1", {})
        assert (status, chosen["state"]) == (200, "current")
        status, body = client.ask("GET", "/v1/versions")
        assert (status, body["current"], body["held"]) == (200, 1, True)
        assert len({one["digest"] for one in body["versions"]}) == 2
        assert client.ask("GET", "/v1/policy")[1]["version"] == 1
        for number in ("0", "3", "x", "-1", "99999999999", "1%00", "٣".encode().hex()):
            assert client.ask("POST", f"/v1/versions/{number}", {})[1]["error"] == "no_such_version"
        assert client.ask("POST", "/v1/versions/1", {"hold": "yes"})[0] == 422
        client.headers = {}
        assert client.ask("GET", "/v1/versions")[0] == 401
        assert client.ask("POST", "/v1/versions/2", {})[0] == 401
