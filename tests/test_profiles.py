"""Types in words, names of types, and how fast types are recognised."""

import itertools

import numpy as np
import pytest

import rewardmix as rm
from rewardmix import belief
from rewardmix.model import RewardMixingMDP, with_type_names
from rewardmix.policy import uniform
from rewardmix.profiles import SURE, recognition, telling, type_profiles

SHOP = rm.problems.make("shop")


def bandit(rewards, weights, horizon=2, **more):
    """One state, one reward law an arm and context."""
    table = np.asarray(rewards, float)[:, None, :]
    return RewardMixingMDP(np.ones((1, table.shape[2], 1)), [1.0], weights, table, horizon, **more)


def test_a_type_is_what_it_pays_more_and_less_than_the_others():
    model = bandit([[0.9, 0.2, 0.5], [0.3, 0.4, 0.5], [0.1, 0.8, 0.5]], [0.5, 0.3, 0.2])
    one, two, three = type_profiles(model)
    assert [round(t.share, 9) for t in (one, two, three)] == [0.5, 0.3, 0.2]
    assert [(like.action, like.reward, round(like.others, 9)) for like in one.likes] == [(0, 0.9, 0.22)]
    assert [(like.action, like.reward, round(like.others, 9)) for like in one.dislikes] == [(1, 0.2, 0.56)]
    assert three.likes[0].action == 1
    assert two.favourite.action == 2
    assert one.sentence == (
        "type 1, 50 % of episodes: likes action 1 (0.90, the others 0.22), dislikes action 2 (0.20, the others 0.56)."
    )
    assert "pays most at action 3 (0.50)" in two.sentence


def test_types_that_do_not_differ_are_said_to():
    profiles = type_profiles(bandit([[0.5, 0.5], [0.5, 0.5]], [0.5, 0.5]))
    assert all(not t.likes and not t.dislikes for t in profiles)
    assert "hardly differs" in profiles[0].sentence


def test_actions_stand_alone_where_they_explain_the_types_and_with_states_elsewhere():
    assert [like.label for like in type_profiles(SHOP)[0].likes[:1]] == ["show outdoor"]
    grid = rm.problems.make("grid")
    best = type_profiles(grid)[0].likes[0]
    assert best.label == f"{grid.action_names[best.action]} in {grid.state_names[best.state]}"
    assert best.reward == grid.means[0, best.state, best.action]


def test_what_one_state_pays_is_not_averaged_away():
    swim = rm.problems.make("riverswim")
    far = type_profiles(swim)[0].favourite
    assert (far.state, far.reward) == (swim.num_states - 1, swim.means.max())


def test_where_nothing_is_decided_any_more_is_left_out():
    """One state that pays by type, and an end that pays nothing: rewards are those before the end."""
    moves = np.zeros((2, 2, 2))
    moves[0, :, 1] = moves[1, :, 1] = 1.0
    rewards = np.zeros((2, 2, 2))
    rewards[:, 0] = [[0.9, 0.1], [0.2, 0.8]]
    model = RewardMixingMDP(moves, [1.0, 0.0], [0.5, 0.5], rewards, 5)
    assert [t.favourite.reward for t in type_profiles(model)] == [0.9, 0.8]


def test_names_go_everywhere(tmp_path):
    named = with_type_names(SHOP, ["outdoor", "reading"])
    assert [t.name for t in type_profiles(named)] == ["outdoor", "reading"]
    rm.save(tmp_path / "model.safetensors", named)
    assert rm.load(tmp_path / "model.safetensors").context_names == ("outdoor", "reading")
    plan = rm.plan(named)
    rm.save(tmp_path / "plan.safetensors", plan)
    assert rm.load(tmp_path / "plan.safetensors").model.context_names == ("outdoor", "reading")
    summary = rm.report.summarise(rm.report.Findings(title="shop", model=named, plan=plan))
    assert summary["world"]["context_names"] == summary["session"]["context_names"] == ["outdoor", "reading"]
    assert [t["name"] for t in summary["types"]] == ["outdoor", "reading"]
    assert "reading" in rm.report.page(summary)
    assert with_type_names(named, ()).type_labels == ("type 1", "type 2")


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["one"], "names: found 1 names, expected 2 names"),
        ("ab", "names: found"),
        (["same", "same"], "names: found 'same' twice, expected a name of its own for each type"),
    ],
)
def test_names_that_do_not_fit_are_refused(names, said):
    with pytest.raises(rm.InputError, match=said):
        with_type_names(SHOP, names)


def test_certainty_is_that_of_all_histories():
    """Against the sum over all sequences of rewards, up to four standard errors of 2000 episodes."""
    model = bandit([[0.9, 0.2], [0.3, 0.4]], [0.6, 0.4], horizon=3)
    policy = rm.plan(model).policy
    expected = np.zeros(4)
    for outcomes in itertools.product((0, 1), repeat=3):
        memory, chance, believed = policy.start(0), 1.0, [model.weights]
        for z in outcomes:
            action = policy.act(memory, None)
            law = model.laws[:, 0, action, z]
            chance *= float((believed[-1] * law).sum())
            believed.append(belief.update(believed[-1], law))
            memory = policy.observe(memory, action, float(z), 0)
        expected += chance * np.array([b.max() for b in believed])
    found = recognition(policy, model)
    np.testing.assert_allclose(found.certainty, expected, rtol=0, atol=4 * 0.5 / np.sqrt(2000))
    assert found.certainty[0] == 0.6
    assert found == recognition(policy, model)


def test_the_most_telling_action_separates_the_types_best():
    model = bandit([[0.9, 0.6, 0.5], [0.1, 0.6, 0.4]], [0.5, 0.5])
    assert list(telling(model, 0)) == pytest.approx([0.9, 0.5, 0.55])
    found = recognition(rm.plan(model).policy, model)
    assert (found.action, found.after) == (0, pytest.approx(0.9))
    assert found.steps == next(i for i, c in enumerate(found.certainty) if c >= SURE)
    assert "most telling first action is action 1 (90 % after it)" in found.sentence
    assert "No first action tells" in recognition(uniform(model), bandit([[0.5] * 3, [0.5] * 3], [0.5, 0.5])).sentence
