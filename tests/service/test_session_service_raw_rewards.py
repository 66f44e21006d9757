"""A service whose policy puts rewards into bins takes raw rewards, keeps them, and learns in the same bins."""

import math
from dataclasses import replace

import numpy as np
import pytest

import rewardmix as rm
from rewardmix import logs
from rewardmix._core.errors import InputError
from rewardmix.service import Store, export_log, replay
from rewardmix.service.async_bridge import AsyncBridge
from rewardmix.service.dashboard import Dashboard
from rewardmix.service.refit import run_refit
from rewardmix.service.request_schema import ApiError, StartSession, StepFeedback
from rewardmix.service.store import open_snapshot

pytest.importorskip("pyarrow", reason="needs rewardmix[logs]")

VALUES, CUTS = np.array([-14.24, 0.0, 10.10277, 36.29199562711191]), np.array([-0.005, 0.005, 21.3])


@pytest.fixture(scope="module")
def plan():
    model = rm.problems.make_model("random", states=3, actions=3, horizon=4, seed=3, reward_values=tuple(VALUES))
    return rm.plan(replace(model, state_names=("home", "list", "item"), action_names=("a", "b", "c"), reward_cuts=CUTS))


def rewards_in(place):
    with open_snapshot(place) as records:
        return [row[4] for row in records.iter_rewarded_steps(None)]


def test_raw_rewards_are_kept_as_they_are_and_decided_by_their_level(make_service, store, plan):
    service, model = make_service(served=plan), plan.model
    for raw, level in ((52.71, 3), (36.292, 3), (1e9, 3), (7.77, 2), (-3, 0), (-1e9, 0), (0, 1)):
        begun = service.start_session(StartSession("home", None)).result().body
        response = service.add_step(begun["session"], StepFeedback(0, raw, "list")).result().body
        assert service.add_step(begun["session"], StepFeedback(0, raw, "list")).result().body == response  # sent again
        action = model.action_names.index(begun["action"])
        memory = plan.policy.observe(plan.policy.start("home"), action, VALUES[level], "list")
        assert response["action"] == model.action_names[plan.policy.act(memory, None)]
        shown = service.get_session(begun["session"]).result().body
        assert shown["history"][0]["reward"] == raw
        expected = rm.belief.update(model.weights, model.reward_probs[:, 0, action, level])
        np.testing.assert_array_equal(shown["belief"], expected)
    assert rewards_in(store.address) == [52.71, 36.292, 1e9, 7.77, -3, -1e9, 0]


def test_without_bins_a_reward_may_be_rounded_and_is_kept_as_the_value_that_it_means(make_service, store, plan):
    strict = replace(plan.model, reward_cuts=None)
    service = make_service(served=rm.plan(strict))
    session = service.start_session(StartSession("home", None)).result().body["session"]
    with pytest.raises(ApiError, match=r"reward: got 52.71, expected one of -14.24, 0, 10.1028, 36.292"):
        service.add_step(session, StepFeedback(0, 52.71, "list"))
    service.add_step(session, StepFeedback(0, 36.292, "list")).result()
    assert rewards_in(store.address) == [VALUES[3]]


def visit(service, model, rng):
    """One visitor of a hidden type, who pays raw amounts."""
    m, state = rng.choice(2, p=model.weights), int(rng.choice(3, p=model.initial))
    answer = service.start_session(StartSession(state, None)).result().body
    for step in range(model.horizon):
        level = rng.choice(4, p=model.reward_probs[m, state, answer["action"]])
        raw = round(float(VALUES[level] * rng.uniform(0.9, 1.1)), 2)
        state = int(rng.choice(3, p=model.transition[state, answer["action"]]))
        feedback = StepFeedback(step, raw, state if step < model.horizon - 1 else None)
        answer = service.add_step(answer["session"], feedback).result().body


def test_a_store_is_exported_and_learned_from_in_raw_rewards(make_service, store, plan, tmp_path):
    import pyarrow.parquet as parquet

    service, rng = make_service(served=plan, explore_prob=0.5), np.random.default_rng(0)
    for _ in range(80):
        visit(service, plan.model, rng)
    raw = rewards_in(store.address)
    assert len(set(raw)) > 127
    export_log(store.address, tmp_path / "log.parquet")
    assert parquet.read_table(tmp_path / "log.parquet")["reward"].to_pylist() == raw
    log = logs.read_log(tmp_path / "log.parquet")
    assert log.schema.reward_scale == plan.model.reward_scale
    assert log.episodes().reward_indices.ravel().tolist() == plan.model.reward_scale.levels(np.array(raw)).tolist()
    assert run_refit(store.address, 80) == 2
    learned = service.versions().result().body["versions"][1]
    assert learned["state"] in ("active", "rejected")
    assert learned["evidence"]["num_sessions"] == 80
    with open_snapshot(store.address) as records:
        from rewardmix.service.policy_versions import deserialize_plan

        assert deserialize_plan(records.plan_bytes(2)).model.reward_scale == plan.model.reward_scale
    assert all(item.is_identical for item in replay(store.address))


def test_a_store_belongs_to_one_set_of_bins(plan, tmp_path):
    from rewardmix.service import SessionService

    store = Store(tmp_path / "s.sqlite")
    try:
        SessionService(store, plan)
        with pytest.raises(InputError, match="store: got sessions of other states, actions or reward values"):
            SessionService(store, rm.plan(replace(plan.model, reward_cuts=CUTS + 1.0)))
    finally:
        store.close()


def test_much_that_is_left_out_of_an_export_is_an_error_unless_a_number_is_given(make_service, store, plan, tmp_path):
    service = make_service(served=plan)
    for number in range(20):
        begun = service.start_session(StartSession("home", None)).result().body["session"]
        strange = number < 3
        service.add_step(begun, StepFeedback(0, 10.0, "nowhere" if strange else "list")).result()
        service.add_step(begun, StepFeedback(1, 70.0 if strange else 10.0, None)).result()
    share = 3 * 70 / (20 * 10 + 17 * 10 + 3 * 70)
    lost = f"with {100 * share:.3g} % of the reward"
    text = rf"in 3 of 20 sessions, expected at most 10 % of sessions \(drop_invalid=0.15.* {lost}"
    with pytest.raises(InputError, match=text):
        export_log(store.address, tmp_path / "log.parquet")
    done = export_log(store.address, tmp_path / "log.parquet", drop_invalid=0.15)
    assert (done.num_sessions, done.num_rows, done.num_dropped_rows) == (20, 37, 3)
    assert done.warnings[0].startswith("Dropped after states that the policy does not know: rows of 3 of 20 sessions")
    assert math.isclose(done.unknown.reward, share)
    with pytest.raises(InputError, match="at most 0 % of sessions"):
        export_log(store.address, tmp_path / "log.parquet", drop_invalid=False)


def test_steps_beyond_the_horizon_that_a_refit_does_not_see_are_said(make_service, store, plan):
    service, rng = make_service(served=plan, explore_prob=0.5), np.random.default_rng(0)
    for _ in range(60):
        visit(service, plan.model, rng)
    assert run_refit(store.address, 60) == 2
    assert "warnings" not in service.versions().result().body["versions"][1]["evidence"]
    for number in range(5):
        begun = service.start_session(StartSession("home", f"long {number}")).result().body["session"]
        for step in range(6):
            service.add_step(begun, StepFeedback(step, 10.0, None if step == 5 else "list")).result()
    run_refit(store.address, 65)
    versions = service.versions().result().body["versions"]
    warning = versions[2]["evidence"]["warnings"][0]
    alarm = {"kind": "dropped_rows", "message": f"Version 3 was fitted to part of the log: {warning}"}
    assert alarm in Dashboard(service, AsyncBridge())._alarms(versions)
    assert warning.startswith("Dropped beyond the horizon: rows of 5 of 65 sessions with ")
