"""A service whose policy puts rewards into bins takes raw rewards, keeps them, and learns in the same bins."""

import math
from dataclasses import replace

import numpy as np
import pytest

import rewardmix as rm
from rewardmix import logs
from rewardmix._core.errors import InputError
from rewardmix.service import Store, export_log, replay
from rewardmix.service.live import Live
from rewardmix.service.messages import Begin, Observed, Refusal
from rewardmix.service.refitting import refit
from rewardmix.service.results import Results
from rewardmix.service.store import reading_store

pytest.importorskip("pyarrow", reason="needs rewardmix[logs]")

VALUES, CUTS = np.array([-14.24, 0.0, 10.10277, 36.29199562711191]), np.array([-0.005, 0.005, 21.3])


@pytest.fixture(scope="module")
def plan():
    model = rm.problems.make("random", states=3, actions=3, horizon=4, seed=3, reward_values=tuple(VALUES))
    return rm.plan(replace(model, state_names=("home", "list", "item"), action_names=("a", "b", "c"), reward_cuts=CUTS))


def rewards_in(place):
    with reading_store(place) as records:
        return [row[4] for row in records.paid_rows(None)]


def test_raw_rewards_are_kept_as_they_are_and_decided_by_their_level(desk_of, store, plan):
    desk, model = desk_of(served=plan), plan.model
    for raw, level in ((52.71, 3), (36.292, 3), (1e9, 3), (7.77, 2), (-3, 0), (-1e9, 0), (0, 1)):
        begun = desk.begin(Begin("home", None)).result().body
        told = desk.go_on(begun["session"], Observed(0, raw, "list")).result().body
        assert desk.go_on(begun["session"], Observed(0, raw, "list")).result().body == told  # sent again
        action = model.action_names.index(begun["action"])
        memory = plan.policy.observe(plan.policy.start("home"), action, VALUES[level], "list")
        assert told["action"] == model.action_names[plan.policy.act(memory, None)]
        shown = desk.show(begun["session"]).result().body
        assert shown["history"][0]["reward"] == raw
        expected = rm.belief.update(model.weights, model.laws[:, 0, action, level])
        np.testing.assert_array_equal(shown["belief"], expected)
    assert rewards_in(store.place) == [52.71, 36.292, 1e9, 7.77, -3, -1e9, 0]


def test_without_bins_a_reward_may_be_rounded_and_is_kept_as_the_value_that_it_means(desk_of, store, plan):
    strict = replace(plan.model, reward_cuts=None)
    desk = desk_of(served=rm.plan(strict))
    session = desk.begin(Begin("home", None)).result().body["session"]
    with pytest.raises(Refusal, match=r"reward has to be one of -14.24, 0, 10.1028, 36.292"):
        desk.go_on(session, Observed(0, 52.71, "list"))
    desk.go_on(session, Observed(0, 36.292, "list")).result()
    assert rewards_in(store.place) == [VALUES[3]]


def visit(desk, model, rng):
    """One visitor of a hidden type, who pays raw amounts."""
    context, state = rng.choice(2, p=model.weights), int(rng.choice(3, p=model.initial))
    answer = desk.begin(Begin(state, None)).result().body
    for step in range(model.horizon):
        level = rng.choice(4, p=model.laws[context, state, answer["action"]])
        raw = round(float(VALUES[level] * rng.uniform(0.9, 1.1)), 2)
        state = int(rng.choice(3, p=model.transition[state, answer["action"]]))
        told = Observed(step, raw, state if step < model.horizon - 1 else None)
        answer = desk.go_on(answer["session"], told).result().body


def test_a_store_is_exported_and_learned_from_in_raw_rewards(desk_of, store, plan, tmp_path):
    import pyarrow.parquet as parquet

    desk, rng = desk_of(served=plan, explore=0.5), np.random.default_rng(0)
    for _ in range(80):
        visit(desk, plan.model, rng)
    raw = rewards_in(store.place)
    assert len(set(raw)) > 127
    export_log(store.place, tmp_path / "log.parquet")
    assert parquet.read_table(tmp_path / "log.parquet")["reward"].to_pylist() == raw
    log = logs.read(tmp_path / "log.parquet")
    assert log.schema.reward_scale == plan.model.reward_scale
    assert log.episodes().outcomes.ravel().tolist() == plan.model.reward_scale.levels(np.array(raw)).tolist()
    assert refit(store.place, 80) == 2
    learned = desk.versions().result().body["versions"][1]
    assert learned["state"] in ("current", "refused")
    assert learned["evidence"]["sessions"] == 80
    with reading_store(store.place) as records:
        from rewardmix.service.versions import plan_from

        assert plan_from(records.plan_of(2)).model.reward_scale == plan.model.reward_scale
    assert all(one.same for one in replay(store.place))


def test_a_store_belongs_to_one_set_of_bins(plan, tmp_path):
    from rewardmix.service import Desk

    kept = Store(tmp_path / "s.sqlite")
    try:
        Desk(kept, plan)
        with pytest.raises(InputError, match="store: found sessions of other states, actions or reward values"):
            Desk(kept, rm.plan(replace(plan.model, reward_cuts=CUTS + 1.0)))
    finally:
        kept.close()


def test_much_that_is_left_out_of_an_export_is_an_error_unless_a_number_is_given(desk_of, store, plan, tmp_path):
    desk = desk_of(served=plan)
    for number in range(20):
        begun = desk.begin(Begin("home", None)).result().body["session"]
        strange = number < 3
        desk.go_on(begun, Observed(0, 10.0, "nowhere" if strange else "list")).result()
        desk.go_on(begun, Observed(1, 70.0 if strange else 10.0, None)).result()
    share = 3 * 70 / (20 * 10 + 17 * 10 + 3 * 70)
    lost = f"with {100 * share:.3g} % of the reward"
    said = rf"in 3 of 20 sessions, expected them in at most 10 % \(skip_bad=0.15, .* {lost}"
    with pytest.raises(InputError, match=said):
        export_log(store.place, tmp_path / "log.parquet")
    done = export_log(store.place, tmp_path / "log.parquet", skip_bad=0.15)
    assert (done.sessions, done.rows, done.left_out) == (20, 37, 3)
    assert done.warnings[0].startswith("Left out behind states that the policy does not know: rows of 3 of 20 sessions")
    assert math.isclose(done.unknown.reward, share)
    with pytest.raises(InputError, match="in at most 0 %"):
        export_log(store.place, tmp_path / "log.parquet", skip_bad=False)


def test_steps_beyond_the_horizon_that_a_refit_does_not_see_are_said(desk_of, store, plan):
    desk, rng = desk_of(served=plan, explore=0.5), np.random.default_rng(0)
    for _ in range(60):
        visit(desk, plan.model, rng)
    assert refit(store.place, 60) == 2
    assert "warnings" not in desk.versions().result().body["versions"][1]["evidence"]
    for number in range(5):
        begun = desk.begin(Begin("home", f"long {number}")).result().body["session"]
        for step in range(6):
            desk.go_on(begun, Observed(step, 10.0, None if step == 5 else "list")).result()
    refit(store.place, 65)
    versions = desk.versions().result().body["versions"]
    warning = versions[2]["evidence"]["warnings"][0]
    alarm = {"kind": "left_out", "message": f"Version 3 was learned from a part: {warning}"}
    assert alarm in Live(desk, Results())._alarms(versions)
    assert warning.startswith("Left out beyond the horizon: rows of 5 of 65 sessions with ")
