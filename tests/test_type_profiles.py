"""Type profiles, names of types, and how fast types are identified."""

import itertools

import numpy as np
import pytest

import rewardmix as rm
from rewardmix import belief
from rewardmix.model import RewardMixingMDP, set_type_names
from rewardmix.policy import uniform_policy
from rewardmix.type_profiles import IDENTIFIED_PROB, describe_types, expected_certainty, measure_identification

SHOP = rm.problems.make_model("shop")


def bandit(rewards, weights, horizon=2, **more):
    """Make a model of one state with one reward probability per type and action."""
    table = np.asarray(rewards, float)[:, None, :]
    return RewardMixingMDP(np.ones((1, table.shape[2], 1)), [1.0], weights, table, horizon, **more)


def test_a_type_is_what_it_pays_more_and_less_than_the_others():
    model = bandit([[0.9, 0.2, 0.5], [0.3, 0.4, 0.5], [0.1, 0.8, 0.5]], [0.5, 0.3, 0.2])
    first, second, third = describe_types(model)
    assert [round(t.weight, 9) for t in (first, second, third)] == [0.5, 0.3, 0.2]
    assert [(like.action, like.reward, round(like.reward_other_types, 9)) for like in first.preferred] == [
        (0, 0.9, 0.22)
    ]
    assert [(like.action, like.reward, round(like.reward_other_types, 9)) for like in first.avoided] == [(1, 0.2, 0.56)]
    assert third.preferred[0].action == 1
    assert second.favorite.action == 2
    assert first.text == (
        "type 1, 50 % of episodes: prefers action 1 (0.90, the others 0.22), avoids action 2 (0.20, the others 0.56)."
    )
    assert "highest reward: action 3 (0.50)" in second.text


def test_types_that_do_not_differ_are_said_to():
    profiles = describe_types(bandit([[0.5, 0.5], [0.5, 0.5]], [0.5, 0.5]))
    assert all(not t.preferred and not t.avoided for t in profiles)
    assert "differs little from the other types" in profiles[0].text


def test_actions_stand_alone_where_they_explain_the_types_and_with_states_elsewhere():
    assert [like.label for like in describe_types(SHOP)[0].preferred[:1]] == ["show outdoor"]
    grid = rm.problems.make_model("grid")
    best = describe_types(grid)[0].preferred[0]
    assert best.label == f"{grid.action_names[best.action]} in {grid.state_names[best.state]}"
    assert best.reward == grid.mean_rewards_by_type[0, best.state, best.action]


def test_what_one_state_pays_is_not_averaged_away():
    swim = rm.problems.make_model("riverswim")
    far = describe_types(swim)[0].favorite
    assert (far.state, far.reward) == (swim.num_states - 1, swim.mean_rewards_by_type.max())


def test_where_nothing_is_decided_any_more_is_left_out():
    """One state that pays by type, and an end that pays nothing: rewards are those before the end."""
    transitions = np.zeros((2, 2, 2))
    transitions[0, :, 1] = transitions[1, :, 1] = 1.0
    rewards = np.zeros((2, 2, 2))
    rewards[:, 0] = [[0.9, 0.1], [0.2, 0.8]]
    model = RewardMixingMDP(transitions, [1.0, 0.0], [0.5, 0.5], rewards, 5)
    assert [t.favorite.reward for t in describe_types(model)] == [0.9, 0.8]


def test_names_go_everywhere(tmp_path):
    named = set_type_names(SHOP, ["outdoor", "reading"])
    assert [t.name for t in describe_types(named)] == ["outdoor", "reading"]
    rm.save(tmp_path / "model.safetensors", named)
    assert rm.load(tmp_path / "model.safetensors").type_names == ("outdoor", "reading")
    plan = rm.plan(named)
    rm.save(tmp_path / "plan.safetensors", plan)
    assert rm.load(tmp_path / "plan.safetensors").model.type_names == ("outdoor", "reading")
    summary = rm.report.build_summary(rm.report.ReportData(title="shop", model=named, plan=plan))
    assert summary["environment"]["type_names"] == summary["policy"]["type_names"] == ["outdoor", "reading"]
    assert [t["name"] for t in summary["types"]] == ["outdoor", "reading"]
    assert "reading" in rm.report.render_page(summary)
    assert set_type_names(named, ()).type_labels == ("type 1", "type 2")


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["one"], "names: got 1 names, expected 2 names"),
        ("ab", "names: got 2 names, expected 2 names, or none"),
        (["same", "same"], "names: got 'same' twice, expected unique type names"),
    ],
)
def test_names_that_do_not_fit_are_refused(names, text):
    with pytest.raises(rm.InputError, match=text):
        set_type_names(SHOP, names)


def test_certainty_is_that_of_all_histories():
    """Against the sum over all sequences of rewards, up to four standard errors of 2000 episodes."""
    model = bandit([[0.9, 0.2], [0.3, 0.4]], [0.6, 0.4], horizon=3)
    policy = rm.plan(model).policy
    expected = np.zeros(4)
    for reward_indices in itertools.product((0, 1), repeat=3):
        memory, prob, believed = policy.start(0), 1.0, [model.weights]
        for z in reward_indices:
            action = policy.act(memory, None)
            probs = model.reward_probs[:, 0, action, z]
            prob *= float((believed[-1] * probs).sum())
            believed.append(belief.update(believed[-1], probs))
            memory = policy.observe(memory, action, float(z), 0)
        expected += prob * np.array([b.max() for b in believed])
    result = measure_identification(policy, model)
    np.testing.assert_allclose(result.certainty, expected, rtol=0, atol=4 * 0.5 / np.sqrt(2000))
    assert result.certainty[0] == 0.6
    assert result == measure_identification(policy, model)


def test_the_most_telling_action_separates_the_types_best():
    model = bandit([[0.9, 0.6, 0.5], [0.1, 0.6, 0.4]], [0.5, 0.5])
    assert list(expected_certainty(model, 0)) == pytest.approx([0.9, 0.5, 0.55])
    result = measure_identification(rm.plan(model).policy, model)
    assert (result.most_informative_action, result.certainty_after) == (0, pytest.approx(0.9))
    assert result.steps_to_identify == next(i for i, c in enumerate(result.certainty) if c >= IDENTIFIED_PROB)
    assert "most informative first action is action 1 (90 % after it)" in result.text
    assert (
        "No first action is informative"
        in measure_identification(uniform_policy(model), bandit([[0.5] * 3, [0.5] * 3], [0.5, 0.5])).text
    )
