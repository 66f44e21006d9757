"""What requests mean: answers, retries, order, versions and limits."""

import math

import pytest

import rewardmix as rm
from rewardmix import belief as bayes
from rewardmix._core.errors import InputError
from rewardmix.service import Desk, Store
from rewardmix.service.messages import Begin, Observed, Refusal, as_begin, as_observed, parsed
from service.running_postgres import KINDS, place_of


@pytest.fixture(params=KINDS)
def place(request):
    return place_of(request.param, request)


def begun(desk, state="home", key=None):
    return desk.begin(Begin(state, key)).result().body


def on(desk, session, step, reward=1.0, state="list"):
    return desk.go_on(session, Observed(step, reward, state)).result().body


def shown(desk, session):
    return desk.show(session).result().body


def refused(call, *arguments, **named):
    with pytest.raises(Refusal) as caught:
        call(*arguments, **named)
    return caught.value.status, caught.value.word


def test_names_in_names_out_and_numbers_in_numbers_out(desk_of, plan):
    desk = desk_of()
    named, numbered = begun(desk, "home"), begun(desk, 0)
    assert set(named) == {"session", "step", "action", "propensity", "version"}
    assert named["action"] == plan.model.action_names[numbered["action"]]
    assert (named["step"], named["propensity"], named["version"]) == (0, 1.0, 1)
    assert isinstance(on(desk, numbered["session"], 0, 1.0, 1)["action"], int)
    assert isinstance(on(desk, named["session"], 0, 1.0, "list")["action"], str)


def test_a_step_that_is_sent_again_is_answered_as_before_and_counts_once(desk_of):
    desk = desk_of(explore=0.5)
    session = begun(desk)["session"]
    answers = [on(desk, session, step) for step in range(3)]
    again = [on(desk, session, step) for step in (2, 0, 1, 2)]
    assert again == [answers[step] for step in (2, 0, 1, 2)]
    assert [one["reward"] for one in shown(desk, session)["history"]] == [1.0, 1.0, 1.0, None]
    assert desk.go_on(session, Observed(0, 1.0, "list")).result().events == {("retries", ""): 1}


def test_a_step_out_of_order_changes_nothing(desk_of):
    desk = desk_of()
    session = begun(desk)["session"]
    on(desk, session, 0, 1.0, "list")
    before = shown(desk, session)
    assert refused(on, desk, session, 2) == (409, "out_of_order")
    assert refused(on, desk, session, 1 << 80) == (409, "out_of_order")
    assert refused(on, desk, session, 0, 0.0, "list") == (409, "out_of_order")
    assert refused(on, desk, session, 0, 1.0, "item") == (409, "out_of_order")
    assert refused(on, desk, session, 0, 1.0, None) == (409, "out_of_order")
    assert refused(on, desk, session, 1, 0.5) == (422, "invalid")
    assert shown(desk, session) == before


def test_the_same_key_gives_the_same_session(desk_of):
    desk = desk_of()
    first = begun(desk, key="visit 1")
    assert begun(desk, key="visit 1") == first
    assert begun(desk, key="visit 2") != first
    assert refused(begun, desk, "item", key="visit 1") == (409, "key_in_use")
    assert desk.count().result() == 2


@pytest.mark.parametrize("visitor", ["ann", None])
@pytest.mark.parametrize("other", ["bob", "ann", None])
def test_a_key_gives_nobody_the_session_of_another_visitor(desk_of, visitor, other):
    desk = desk_of()
    first = desk.begin(Begin("home", "visit 1", visitor)).result().body
    again = desk.begin(Begin("home", "visit 1", other))
    if other == visitor:
        assert again.result().body == first
    else:
        assert refused(again.result) == (409, "key_in_use")
    together = [desk.begin(Begin("home", "visit 1", name)) for name in (visitor, other)]  # read ahead for both
    assert together[0].result().body == first
    assert (together[1].exception() is None) == (other == visitor)
    assert desk.forget(visitor or "nobody").result().body == {"deleted": 0 if visitor is None else 1}


def test_an_unknown_state_is_kept_as_it_was_said_and_counted(desk_of):
    desk = desk_of(default_action=1)
    reply = desk.begin(Begin("<script>", None)).result()
    assert (reply.body["action"], reply.body["propensity"]) == ("b", 1.0)
    assert reply.events[("unknown_states", "")] == 1
    session = reply.body["session"]
    answer = on(desk, session, 0, 1.0, 99)
    assert answer["action"] == 1
    assert on(desk, session, 0, 1.0, 99) == answer
    assert refused(on, desk, session, 0, 1.0, 98) == (409, "out_of_order")
    assert [one["state"] for one in shown(desk, session)["history"]] == ["<script>", 99]


@pytest.mark.parametrize(
    "said",
    [
        "'; DROP TABLE steps; --",
        "\\'",
        "\\",
        "%s %(x)s %",
        "? $1",
        "{0} {x}",
        '"}, {"number": 1',
        "\0\n\r\x1b[2J",
        "é\u2028😀",
    ],
)
def test_whatever_is_said_is_kept_as_it_is_and_does_nothing(desk_of, said):
    desk = desk_of()
    sessions = [desk.begin(Begin(said, f"{said} {number}", said)) for number in range(3)]  # some share a transaction
    first = sessions[0].result().body["session"]
    assert desk.begin(Begin(said, f"{said} 0", said)).result().body["session"] == first
    on(desk, first, 0, 1.0, f"next {said}")
    assert [one["state"] for one in shown(desk, first)["history"]] == [said, f"next {said}"]
    assert desk.forget(said).result().body == {"deleted": 3}


def test_what_is_stored_is_what_was_decided_to_the_last_bit(desk_of, plan):
    """Beliefs and propensities come back with every digit, so that an answer does not depend on the store."""
    desk = desk_of(explore=0.3)
    sessions = [begun(desk)["session"] for _ in range(8)]
    answers = []
    for step in range(5):
        futures = [
            desk.go_on(id, Observed(step, float((step + i) % 2), (step * i) % 3)) for i, id in enumerate(sessions)
        ]
        answers.append([future.result().body for future in futures])
    for i, id in enumerate(sessions):
        stored = shown(desk, id)
        assert [one["propensity"] for one in stored["history"][1:]] == [row[i]["propensity"] for row in answers]
        believed = desk.served.model.weights
        for one in stored["history"][:-1]:
            believed = bayes.update(
                believed, plan.model.laws[:, number_of(plan, one), action_of(plan, one), int(one["reward"])]
            )
        assert stored["belief"] == believed.tolist()


def number_of(plan, one):
    return plan.model.state_names.index(one["state"])


def action_of(plan, one):
    return plan.model.action_names.index(one["action"])


def test_a_session_ends_and_is_deleted(desk_of):
    desk = desk_of()
    session = begun(desk)["session"]
    end = on(desk, session, 0, 1.0, None)
    assert (end["step"], end["action"], end["propensity"]) == (1, None, None)
    assert on(desk, session, 0, 1.0, None) == end
    assert refused(on, desk, session, 1) == (409, "out_of_order")
    assert shown(desk, session)["ended"] is True
    assert desk.count().result() == 0
    assert desk.delete(session).result().body is None
    assert desk.delete(session).result().events == {}
    assert refused(shown, desk, session) == (404, "no_such_session")
    assert refused(on, desk, session, 0) == (404, "no_such_session")
    assert desk.store.submit(lambda records: records.steps(1)).result() == []


def test_open_sessions_are_limited_and_idle_ones_make_room(desk_of, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    desk = desk_of(most_open=3, idle=60.0)
    sessions = [begun(desk)["session"] for _ in range(3)]
    assert refused(begun, desk) == (503, "too_many_sessions")
    desk.delete(sessions[0]).result()
    begun(desk)
    now[0] += 61.0
    begun(desk)
    assert desk.count().result() == 1
    on(desk, sessions[1], 0)  # it was idle, and goes on
    assert desk.count().result() == 2


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_ten_thousand_abandoned_sessions_break_nothing(desk_of, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    desk = desk_of(most_open=9000, idle=60.0)
    futures = [desk.begin(Begin("home", None)) for _ in range(10_000)]
    ends = [future.exception() for future in futures]
    assert sum(end is None for end in ends) == desk.count().result() == 9000
    assert {end.status for end in ends if end is not None} == {503}
    now[0] += 61.0
    for begun_since in range(1, 200):
        begun(desk)
        assert desk.count().result() == max(9000 - 64 * begun_since, 0) + begun_since
    assert on(desk, futures[0].result().body["session"], 0)["step"] == 1


def test_sessions_finish_on_the_version_that_they_began_with(tmp_path, plan, desk_of):
    desk = desk_of()
    session = begun(desk)["session"]
    flipped = rm.plan(replaced(plan.model, 1.0 - plan.model.rewards))
    newer = desk_of(served=flipped)
    assert newer.version == 2
    expected = plan.policy.observe(plan.policy.start(0), plan.policy.act(plan.policy.start(0), None), 1.0, 1)
    answer = on(newer, session, 0)
    assert (answer["version"], answer["action"]) == (1, plan.model.action_names[plan.policy.act(expected, None)])
    assert begun(newer)["version"] == 2
    assert desk_of().version == 1


def replaced(model, rewards):
    from dataclasses import replace

    return replace(model, rewards=rewards)


def test_a_store_of_another_world_is_refused(store, desk_of):
    desk_of()
    other = rm.plan(rm.problems.make("random", states=2, actions=2, horizon=2, seed=0))
    with pytest.raises(InputError, match="store: found sessions of other states"):
        Desk(store, other)


def test_after_a_restart_sessions_go_on_as_if_nothing_had_happened(tmp_path, plan):
    from rewardmix.service import ServeSettings

    def played(restart):
        path = tmp_path / f"{restart}"
        store = Store(path)
        answers = []
        for step in range(6):
            if step == 0:
                answer = begun(Desk(store, plan, ServeSettings(0.0, 0.0)), key="one")
            else:
                answer = on(Desk(store, plan, ServeSettings(0.0, 0.0)), answer["session"], step - 1, step % 2 * 1.0)
            answers.append((answer["action"], answer["propensity"]))
            if restart:
                store.close()
                store = Store(path)
        store.close()
        return answers

    assert played(True) == played(False)


def test_ids_cannot_be_guessed(desk_of):
    desk = desk_of()
    ids = [begun(desk)["session"] for _ in range(50)]
    assert len(set(ids)) == 50
    assert all(len(id) == 32 for id in ids)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"state": NaN}', b"\xff", b"[" * 10_000, b'{"state": ' + b"9" * 5000 + b"}"],
)
def test_malformed_bodies_are_refused(body):
    assert refused(parsed, body) == (400, "malformed")


@pytest.mark.parametrize(
    "body",
    [{}, {"state": True}, {"state": 1.5}, {"state": ""}, {"state": "x" * 201}, {"state": "\ud800"}, {"state": None},
     {"state": 1 + (1 << 61)}, {"state": []}, {"state": "a", "more": 1}, {"state": "a", "key": 5},
     {"state": "a", "key": ""}],
)  # fmt: skip
def test_invalid_beginnings_are_refused(body):
    assert refused(as_begin, body) == (422, "invalid")


@pytest.mark.parametrize(
    ("field", "value"),
    [("step", True), ("step", -1), ("step", 0.5), ("step", "0"), ("reward", "1"), ("reward", None), ("reward", True),
     ("reward", math.inf), ("reward", 10**400), ("state", 1.5), ("state", ["x"]), ("more", 1)],
)  # fmt: skip
def test_invalid_steps_are_refused(field, value):
    good = {"step": 0, "reward": 1, "state": "list"}
    assert as_observed(good) == Observed(0, 1.0, "list")
    assert as_observed({"step": 0.0, "reward": 1, "state": 2.0}) == Observed(
        0, 1.0, 2
    )  # whole numbers, says JSON Schema
    assert refused(as_observed, {**good, field: value}) == (422, "invalid")
    if field in good:
        assert refused(as_observed, {name: good[name] for name in good if name != field}) == (422, "invalid")


def test_a_version_that_was_given_may_explore_more_than_one_that_was_learned(desk_of):
    assert begun(desk_of(explore_first=1.0))["propensity"] == pytest.approx(1 / 3)
    assert begun(desk_of(explore=0.0))["propensity"] == 1.0
