"""Learning from the store's own log: versions, verdicts, and the same bits again."""

import itertools
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import rewardmix as rm
from helpers.service_process import in_thread, need_server
from rewardmix.bounded_mean import ReturnBounds
from rewardmix.logs import fit
from rewardmix.service import BackgroundRefitter, RefitSettings, replay
from rewardmix.service.refit import ObservedReturns, _find_objections, next_refit, run_refit
from rewardmix.service.request_schema import ActivateVersion, StartSession, StepFeedback

pytest.importorskip("pyarrow", reason="needs rewardmix[logs]")


@pytest.fixture(autouse=True)
def counted_ids(monkeypatch):
    """Ids that are the same in every run, so that chance is."""
    numbers = itertools.count()
    monkeypatch.setattr(
        "rewardmix.service.session_service.secrets.token_urlsafe", lambda size: f"session-{next(numbers):06d}"
    )


def visit(service, model, rng, *, rewards=None, steps=None, key=None):
    """One visitor of a hidden type, to the end; the id of the session."""
    type_index, state = rng.choice(2, p=model.weights), int(rng.choice(3, p=model.initial))
    answer = service.start_session(StartSession(state, key)).result().body
    last = (steps or model.horizon) - 1
    for step in range(last + 1):
        table = model.rewards if rewards is None else rewards
        reward = float(rng.random() < table[type_index, state, answer["action"]])
        state = int(rng.choice(3, p=model.transition[state, answer["action"]]))
        response = StepFeedback(step, reward, state if step < last or steps else None)
        answer = service.add_step(answer["session"], response).result().body
    return answer["session"]


def versions(service):
    return service.versions().result().body["versions"]


def test_a_refit_is_a_new_version_for_new_sessions_only(make_service, store, plan):
    service, rng = make_service(explore_prob=0.5), np.random.default_rng(0)
    open_one = service.start_session(StartSession("home", None)).result().body["session"]
    for _ in range(80):
        visit(service, plan.model, rng)
    assert run_refit(store.address, 80) == 2
    value, learned = versions(service)
    assert (value["state"], learned["state"], learned["reason"]) == ("retired", "active", "")
    assert (learned["origin"], learned["num_training_sessions"], learned["parent"]) == ("refit", 80, 1)
    assert learned["evidence"]["num_sessions"] == 80
    assert {item["assumption"] for item in learned["evidence"]["diagnostics"]} >= {"switching", "drift"}
    assert service.start_session(StartSession("home", None)).result().body["version"] == 2
    assert service.add_step(open_one, StepFeedback(0, 1.0, "list")).result().body["version"] == 1
    assert run_refit(store.address, 80) is None  # somebody has done it
    assert len(versions(service)) == 2


def test_versions_learned_again_from_the_log_are_the_same_bit_for_bit(make_service, store, plan):
    service, rng = make_service(explore_prob=0.5), np.random.default_rng(1)
    for until in (60, 120):
        while service.versions().result().body["finished_sessions"] < until + 5:  # some more than the refit sees
            visit(service, plan.model, rng)
        run_refit(store.address, until)
    first = visit(service, plan.model, rng)
    again = replay(store.address)
    assert [(item.version, item.is_identical) for item in again] == [(2, True), (3, True)]
    assert [item.replayed_digest for item in again] == [item["digest"] for item in versions(service)[1:]]
    assert again[0].replayed_digest != again[1].replayed_digest
    service.delete_session(first).result()  # finished after both
    assert all(item.is_identical for item in replay(store.address))
    service.delete_session("session-000003").result()
    assert not any(item.is_identical for item in replay(store.address))


def test_a_version_that_the_check_up_contradicts_is_kept_and_not_promoted(make_service, store, plan):
    """Half way through, what was good is bad: the world drifts, and no fit of all sessions can be right."""
    service, rng = make_service(explore_prob=1.0), np.random.default_rng(2)
    for number in range(300):
        visit(service, plan.model, rng, rewards=plan.model.rewards if number < 150 else 1.0 - plan.model.rewards)
    assert run_refit(store.address, 300) == 2
    value, learned = versions(service)
    assert (value["state"], learned["state"]) == ("active", "rejected")
    broken = [item["assumption"] for item in learned["evidence"]["diagnostics"] if item["rejected"]]
    assert "drift" in broken
    assert learned["reason"].startswith("The environment changed")
    assert service.start_session(StartSession("home", None)).result().body["version"] == 1
    assert replay(store.address)[0].is_identical
    service.activate_version(2, ActivateVersion(pin=False)).result()
    assert service.start_session(StartSession("home", None)).result().body["version"] == 2
    assert versions(service)[1]["reason"] == learned["reason"]


def test_while_a_version_is_held_a_new_one_waits(make_service, store, plan):
    service, rng = make_service(explore_prob=0.5), np.random.default_rng(3)
    for _ in range(60):
        visit(service, plan.model, rng)
    service.activate_version(1, ActivateVersion(pin=True)).result()
    run_refit(store.address, 60)
    assert [item["state"] for item in versions(service)] == ["active", "pending"]
    assert replay(store.address)[0].is_identical


def test_a_session_that_falls_silent_counts_as_it_was_then(make_service, store, plan, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    service, rng = make_service(explore_prob=0.5, idle_seconds=60.0), np.random.default_rng(4)
    silent = visit(service, plan.model, rng, steps=2)
    service.start_session(StartSession("home", None)).result()  # no reward ever: it teaches nothing
    now[0] += 61.0
    visit(service, plan.model, rng)
    assert service.versions().result().body["finished_sessions"] == 2

    def rows():
        return store.submit(lambda records: [row[:2] for row in records.iter_rewarded_steps(until=2)]).result()

    before = rows()
    assert [step for id, step in before if id == silent] == [0, 1]
    service.add_step(silent, StepFeedback(2, 1.0, None)).result()
    assert rows() == before
    assert service.versions().result().body["finished_sessions"] == 2


def test_a_fit_that_is_refused_is_told_and_does_not_come_again(make_service, store, plan):
    service = make_service()
    session = service.start_session(StartSession("nowhere", None)).result().body["session"]
    service.add_step(session, StepFeedback(0, 1.0, None)).result()
    assert run_refit(store.address, 1) == 2
    assert versions(service)[1]["state"] == "rejected"
    assert versions(service)[1]["reason"].startswith("The fit failed: store: got no session")
    assert versions(service)[1]["digest"] == versions(service)[0]["digest"]
    assert store.submit(lambda records: next_refit(records, RefitSettings(10))).result() == 11


def around(value, sessions):
    """Sessions that earned a value on average, or .05 more or less."""
    return [value - 0.05 + 0.1 * (number % 2) for number in range(sessions)]


@pytest.mark.parametrize(
    ("upper", "planned", "sessions", "holdout", "against"),
    [
        (1.0, 9.0, 40, 0, ["version 7"]),
        (3.0, 9.0, 40, 0, []),
        (1.0, 9.0, 29, 29, []),
        (3.0, 9.0, 40, 40, ["the holdout arm"]),
        (1.0, 9.0, 40, 40, ["version 7", "the holdout arm"]),
        (4.0, 1.0, 40, 40, []),  # the log itself says more than the plan does
        (None, 3.0, 40, 40, ["the holdout arm"]),
        (None, 3.9, 40, 40, []),
        (None, 1.0, 40, 29, []),
    ],
)
def test_a_version_that_earns_less_by_the_log_is_not_promoted(upper, planned, sessions, holdout, against):
    """Version 7 earned 2 to within .17 (95 %), and the holdout at least 3.57; a session can earn 4."""
    value = SimpleNamespace(upper=upper, is_supported=upper is not None)
    info = SimpleNamespace(diagnostics=SimpleNamespace(rejected=()), off_policy=value)
    result = SimpleNamespace(info=info, plan=SimpleNamespace(lower=planned))
    reason = _find_objections(
        result, ObservedReturns(7, around(2.0, sessions), around(3.9, holdout), ReturnBounds(0.0, 4.0))
    )
    assert [name for name in ("version 7", "the holdout arm") if name in reason] == against
    assert ("version 7 returned at least 1.83" in reason) == ("version 7" in against)
    assert ("the holdout arm returned at least 3.57" in reason) == ("the holdout arm" in against)
    assert not against or reason.startswith(
        "The off-policy estimate" if upper else "Its planned value is 3.0000 per session, but"
    )


def test_sessions_that_were_all_paid_do_not_say_that_all_are():
    """40 sessions of the same return have no spread; a plan that expects a little less is still let through."""
    value = SimpleNamespace(upper=None, is_supported=False)
    result = SimpleNamespace(
        info=SimpleNamespace(diagnostics=SimpleNamespace(rejected=()), off_policy=value),
        plan=SimpleNamespace(lower=0.99),
    )
    online_result = ObservedReturns(1, [], [1.0] * 40, ReturnBounds(0.0, 1.0))
    assert _find_objections(result, online_result) == ""
    result.plan.lower = 0.8
    assert "the holdout arm returned at least 0.9" in _find_objections(result, online_result)


def test_a_version_below_what_the_holdout_earns_is_kept_and_not_promoted(make_service, store, plan, monkeypatch):
    """What is fitted plans against itself: each type is taken for one that pays the opposite."""
    service, rng = make_service(explore_prob=0.5, holdout_share=0.5), np.random.default_rng(5)
    upside_down = replace(plan.model, rewards=plan.model.rewards.max() - plan.model.rewards)

    def spoilt(*args, **settings):
        result = fit(*args, **settings)
        worst = rm.plan(upside_down)
        response = rm.evaluate(worst.policy, result.model).value
        empty = replace(result.info, off_policy=None)
        return replace(result, plan=replace(worst, lower=response), info=empty)

    for _ in range(200):
        visit(service, plan.model, rng)
    monkeypatch.setattr("rewardmix.service.refit.fit", spoilt)
    assert run_refit(store.address, 200) == 2
    value, learned = versions(service)
    assert (value["state"], learned["state"]) == ("active", "rejected")
    low, high = learned["evidence"]["holdout_return_interval"]
    assert learned["evidence"]["planned_value"] < low < high
    assert learned["reason"].startswith("Its planned value is ")
    assert learned["reason"].endswith(f" per session, but the holdout arm returned at least {low:.4f}.")
    assert service.start_session(StartSession("home", None)).result().body["version"] == 1
    assert [item.is_identical for item in replay(store.address)] == [True]
    with in_thread(service) as client:
        response = client.ask("GET", "/v1/dashboard")[1]
    assert (response["versions"][0]["state"], response["versions"][0]["reason"]) == ("rejected", learned["reason"])
    assert learned["reason"] in [alarm["message"] for alarm in response["alarms"]][-1]
    monkeypatch.setattr("rewardmix.service.refit.fit", fit)
    assert [item.is_identical for item in replay(store.address)] == [False]


def test_refits_wait_for_a_quarter_more(make_service, store, plan):
    make_service()
    due = []
    for _ in range(8):
        until = store.submit(lambda records: next_refit(records, RefitSettings(100))).result()
        due.append(until)
        row = store.submit(lambda records: records.version(1)).result()
        policy = store.submit(lambda records: records.plan_bytes(1)).result()
        add_learned(store, row, policy, until)
    assert due == [100, 200, 300, 400, 500, 625, 781, 976]


def add_learned(store, row, plan, until):
    from dataclasses import replace

    from rewardmix.service.records import PolicyBlob

    learned = replace(row, parent=1, num_training_sessions=until)
    env = store.submit(lambda records: records.list_specs()[0]).result()
    store.submit(lambda records: records.add_version(PolicyBlob(row.digest, plan, env), learned)).result()


def until_true(condition):
    """Wait for what has to come."""
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("it did not come")


def test_a_service_learns_in_the_background(make_service, store, plan):
    need_server()
    service, rng = make_service(explore_prob=0.5), np.random.default_rng(5)
    for _ in range(50):
        visit(service, plan.model, rng)
    learner = BackgroundRefitter(service, store.address, RefitSettings(40))
    try:
        until_true(lambda: len(versions(service)) == 2)  # was due when it started
        for _ in range(30):
            visit(service, plan.model, rng)
        until_true(lambda: len(versions(service)) == 3)
        with in_thread(service) as client:
            body = client.ask("GET", "/v1/versions")[1]
        assert [item["num_training_sessions"] for item in body["versions"]] == [None, 40, 80]
        assert body["refit"] == {"interval": 40, "next_at": 120, "error": ""}
    finally:
        learner.close()
    assert all(item.is_identical for item in replay(store.address))


def test_a_refit_that_dies_is_told_and_the_service_goes_on(make_service, store, plan, monkeypatch):
    monkeypatch.setattr("rewardmix.service.background_refit.REFIT_COMMAND", "raise SystemExit('no memory')")
    service, rng = make_service(explore_prob=0.5), np.random.default_rng(6)
    learner = BackgroundRefitter(service, store.address, RefitSettings(10))
    try:
        for _ in range(10):
            visit(service, plan.model, rng)
        until_true(lambda: service.versions().result().body["refit"]["error"])
        assert "no memory" in service.versions().result().body["refit"]["error"]
        assert service.start_session(StartSession("home", None)).result().body["version"] == 1
        monkeypatch.undo()
        for _ in range(10):
            visit(service, plan.model, rng)
        until_true(lambda: len(versions(service)) > 1)
        until_true(lambda: not service.versions().result().body["refit"]["error"])
    finally:
        learner.close()


def test_one_type_is_served_and_learned_again(make_service, store, plan):
    """The plan of a model with one type: it decides, shows its belief, and a refit keeps to one."""
    alone = rm.plan(replace(plan.model, weights=np.ones(1), rewards=plan.model.rewards[:1]))
    service, rng = make_service(served=alone, explore_prob=0.5, holdout_share=0.2), np.random.default_rng(0)
    for _ in range(60):
        state = int(rng.choice(3, p=alone.model.initial))
        answer = service.start_session(StartSession(state, None)).result().body
        assert not answer.get("done")
        for step in range(alone.model.horizon):
            reward = float(rng.random() < alone.model.rewards[0, state, answer["action"]])
            state = int(rng.choice(3, p=alone.model.transition[state, answer["action"]]))
            last = step == alone.model.horizon - 1
            answer = (
                service.add_step(answer["session"], StepFeedback(step, reward, None if last else state)).result().body
            )
    assert run_refit(store.address, 60) == 2
    learned = versions(service)[-1]
    assert learned["evidence"]["num_types"] == 1
    assert learned["evidence"]["num_sessions"] == 60
