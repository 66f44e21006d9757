"""Sessions are decided by the plan; where that ends, by the belief."""

import numpy as np
import pytest

from helpers.binomial_bands import assert_within
from rewardmix import belief as bayes
from rewardmix._core.errors import InputError
from rewardmix.service.policy_server import ADAPTIVE, HOLDOUT, ServedPlan, ServeSettings, hash_uniform


def sure(plan, **settings):
    return ServedPlan(plan, ServeSettings(**{"explore_prob": 0.0, "holdout_share": 0.0, **settings}))


def test_a_session_plays_what_the_controller_plays(plan):
    served, policy = sure(plan), plan.policy
    rng = np.random.default_rng(0)
    for number in range(50):
        state = int(rng.integers(3))
        memory, choice = policy.start(state), served.decide_first(str(number), ADAPTIVE, state)
        for _ in range(policy.horizon - 1):
            assert (choice.action, choice.propensity) == (policy.act(memory, rng), 1.0)
            reward, state = float(rng.integers(2)), int(rng.integers(3))
            memory = policy.observe(memory, choice.action, reward, state)
            choice = served.decide_next(str(number), ADAPTIVE, choice, reward, state)
        assert choice.action == policy.act(memory, rng)


def test_after_an_action_by_chance_the_belief_finds_the_node_again(plan):
    served, model = ServedPlan(plan, ServeSettings(explore_prob=1.0)), plan.model
    rng = np.random.default_rng(1)
    result = 0
    for number in range(30):
        choice = served.decide_first(str(number), ADAPTIVE, 0)
        played = int(plan.policy.actions[0][0, choice.node])
        reward, state = float(rng.integers(2)), int(rng.integers(3))
        next_state = served.decide_next(str(number), ADAPTIVE, choice, reward, state)
        belief = bayes.update(model.weights, model.reward_probs[:, 0, choice.action, int(reward)])
        assert np.allclose(next_state.belief, belief, rtol=1e-15, atol=0)
        if played != choice.action:
            result += 1
            best = plan.belief_decision_rule(1, state, belief)
            assert int(plan.policy.actions[1][state, next_state.node]) == best
    assert result > 5


def test_an_unknown_state_gets_the_default_action_and_tells_nothing(plan):
    served = sure(plan, default_action=2)
    first = served.decide_first("x", ADAPTIVE, None)
    assert (first.action, first.propensity, first.node) == (2, 1.0, None)
    assert first.belief == tuple(plan.model.weights.tolist())
    second = served.decide_next("x", ADAPTIVE, first, 1.0, 1)
    assert second.belief == first.belief
    assert second.action == plan.belief_decision_rule(1, 1, plan.model.weights)
    lost = served.decide_next("x", ADAPTIVE, second, 1.0, None)
    assert (lost.action, lost.propensity) == (2, 1.0)


def test_beyond_the_horizon_every_step_is_the_last(plan):
    served, model = sure(plan), plan.model
    choice = served.decide_first("x", ADAPTIVE, 0)
    for step in range(12):
        before = np.array(choice.belief)
        expected = bayes.update(before, model.reward_probs[:, choice.state, choice.action, step % 2])
        choice = served.decide_next("x", ADAPTIVE, choice, float(step % 2), step % 3)
        assert choice.belief == tuple(expected.tolist())
        if choice.step >= model.horizon:
            assert choice.action == plan.belief_decision_rule(model.horizon - 1, step % 3, expected)
    assert choice.step == 12


def test_actions_come_with_the_chance_that_is_told(plan):
    served, count = ServedPlan(plan, ServeSettings(explore_prob=0.3)), 4000
    choices = [served.decide_first(f"session {i}", ADAPTIVE, 0) for i in range(count)]
    best = int(plan.policy.actions[0][0, choices[0].node])
    for action in range(3):
        propensities = {choice.propensity for choice in choices if choice.action == action}
        expected = 0.8 if action == best else 0.1
        assert list(propensities) == [pytest.approx(expected)]
        assert_within(sum(choice.action == action for choice in choices), count, expected, f"action {action}")


def test_the_holdout_plays_the_best_fixed_policy(plan):
    from rewardmix.planning.baselines import plan_markov

    served, count = ServedPlan(plan, ServeSettings(explore_prob=1.0, holdout_share=0.2)), 4000
    assert_within(sum(served.assign_arm(f"session {i}") == HOLDOUT for i in range(count)), count, 0.2, "holdout")
    table = plan_markov(plan.model).policy.table
    choice = served.decide_first("x", HOLDOUT, 1)
    for step in range(6):
        assert choice.action == table[min(step, 3), choice.state].argmax()
        assert choice.propensity == 1.0
        choice = served.decide_next("x", HOLDOUT, choice, 1.0, step % 3)


def test_chance_belongs_to_session_and_purpose():
    assert hash_uniform("a", "arm") == hash_uniform("a", "arm")
    assert (
        len(
            {
                hash_uniform("a", "arm"),
                hash_uniform("b", "arm"),
                hash_uniform("a", "explore", 1),
                hash_uniform("a", "explore", 2),
            }
        )
        == 4
    )


@pytest.mark.parametrize(
    "bad", [{"explore_prob": 1.5}, {"holdout_share": -0.1}, {"explore_prob": float("nan")}, {"default_action": 3}]
)
def test_bad_settings_are_refused(plan, bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        sure(plan, **bad)
