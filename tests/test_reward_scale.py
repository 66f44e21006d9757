"""Which level a raw reward belongs to, against plain comparisons, on every way in that needs no log."""

import math
import pickle
import sys
from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rewardmix as rm
from rewardmix import InputError, belief
from rewardmix._core.random_streams import Role, derive_seed
from rewardmix.environments import RewardMixingEnv
from rewardmix.policy import BeliefPolicy, make_epsilon_greedy
from rewardmix.reward_scale import NO_LEVEL, RewardScale

VALUES, CUTS = np.array([-14.24, 0.0, 10.10277, 36.29199562711191]), np.array([-0.005, 0.005, 21.3])


def plainly(raw, cuts=CUTS):
    """One comparison after the other."""
    return sum(raw >= cut for cut in cuts)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_finite_number_has_the_level_that_its_cuts_say(raw):
    level = RewardScale(VALUES, CUTS).level(raw)
    assert level == plainly(round(raw, 9) if abs(raw) < 1e6 else raw)


def test_beyond_the_last_cut_is_the_last_level_and_below_the_first_the_first():
    scale = RewardScale(VALUES, CUTS)
    numbers = [-1e300, -0.005, 0.0, -0.0, 0.005, 10.1028, 21.299, 21.3, 36.292, 36.29199562711191, 52.71, 1e300]
    assert scale.levels(np.array(numbers)).tolist() == [0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3]
    assert [scale.level(number) for number in numbers] == scale.levels(np.array(numbers)).tolist()
    assert scale.level(np.float32(52.71)) == scale.level(np.array(52.71)) == 3


def test_the_number_of_a_level_as_it_is_printed_is_of_that_level():
    """Even where rounding for print leads across its own cut."""
    scale = RewardScale(np.array([0.0, 10.12344]), np.array([10.12344]))
    assert [scale.level(raw) for raw in (10.1234, 10.12344, 10.123439)] == [1, 1, 0]


def test_without_cuts_values_are_strict_but_may_be_rounded():
    scale = RewardScale(VALUES)
    accepted = [-14.24, 0, 0.0, 10.1028, 36.292, 36.2919956, 36.29199562711191, 10.10277 * (1 + 5e-7)]
    assert [scale.level(number) for number in accepted] == [0, 1, 1, 2, 3, 3, 3, 2]
    assert scale.levels(np.array(accepted)).tolist() == [0, 1, 1, 2, 3, 3, 3, 2]
    for strange in (36.3, 0.001, -14.2, 1e300):
        with pytest.raises(InputError, match=r"reward: got .*, expected one of the reward values \[-14.24, 0.0,"):
            scale.level(strange)
    assert scale.levels(np.array([36.3, math.nan, math.inf, 0.0])).tolist() == [NO_LEVEL, NO_LEVEL, NO_LEVEL, 1]


@pytest.mark.parametrize("cuts", [None, CUTS])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, "3", None])
def test_what_is_no_finite_number_is_refused_by_name(cuts, bad):
    with pytest.raises(InputError, match=r"income: got .*, expected a finite number"):
        RewardScale(VALUES, cuts).level(bad, "income")


def test_rewards_count_as_the_value_of_their_level():
    rewards = np.array([52.71, -3.0, math.nan, 0.0])
    np.testing.assert_array_equal(
        RewardScale(VALUES, CUTS).round_to_values(rewards), [VALUES[3], VALUES[0], math.nan, 0.0]
    )
    np.testing.assert_array_equal(RewardScale(VALUES).round_to_values(rewards), rewards)
    np.testing.assert_array_equal(RewardScale(VALUES).round_to_values(np.array([36.292, 0.0])), [VALUES[3], 0.0])
    assert RewardScale(VALUES, CUTS).to_stored(52.71) == 52.71
    assert RewardScale(VALUES).to_stored(36.292) == VALUES[3]


@given(st.floats(-50, 50), st.floats(-50, 50))
def test_more_values_leave_every_reward_where_it_was(raw, value):
    scale = RewardScale(VALUES, CUTS)
    more = scale.with_values(np.unique([*VALUES, value]))
    assert more.values[more.level(raw)] == scale.values[scale.level(raw)]
    assert more.empty.sum() == more.values.size - 4


def test_cuts_are_checked():
    for cuts, text in (([1.0, 2.0], "reward_cuts: got shape"), ([1.0, 0.0, 2.0], r"reward_cuts\[1\]: got 0.0")):
        with pytest.raises(InputError, match=text):
            RewardScale(VALUES, np.array(cuts))
    with pytest.raises(InputError, match=r"reward_cuts\[0\]: got nan"):
        rm.RewardMixingMDP(*world().values(), reward_cuts=[math.nan, 0, 1])


def test_levels_in_words():
    words = RewardScale(VALUES, CUTS).intervals
    assert words == ("below -0.005", "-0.005 to below 0.005", "0.005 to below 21.3", "21.3 or more")
    limit = sys.float_info.max
    assert RewardScale(VALUES, np.array([-limit, 1.0, 1.0])).intervals == ("none", "below 1", "none", "1 or more")


def world():
    rewards = np.random.default_rng(0).dirichlet(np.ones(4), size=(2, 2, 2))
    transition = np.full((2, 2, 2), 0.5)
    start, weights = np.array([0.5, 0.5]), np.array([0.4, 0.6])
    return {"t": transition, "i": start, "w": weights, "r": rewards, "h": 4, "v": VALUES}


@pytest.fixture(scope="module")
def model():
    return rm.RewardMixingMDP(*world().values(), state_names=("a", "b"), reward_cuts=CUTS)


def test_a_model_keeps_its_cuts_when_it_is_changed(model):
    assert rm.plan(replace(model, state_names=())).policy.reward_scale == model.reward_scale
    assert replace(model, horizon=2).reward_scale == model.reward_scale
    assert rm.RewardMixingMDP(*world().values()).reward_scale.cuts is None
    assert pickle.loads(pickle.dumps(model)).reward_scale == model.reward_scale


def test_cuts_go_through_every_file(model, tmp_path):
    plan = rm.plan(model)
    for value in (model, plan, plan.policy, BeliefPolicy(model, plan.alpha_vectors)):
        rm.save(tmp_path / "noun", value)
        again = rm.load(tmp_path / "noun")
        scale = getattr(again, "reward_scale", None) or again.model.reward_scale
        assert scale == model.reward_scale
    assert rm.load(tmp_path / "noun").model.reward_scale == model.reward_scale
    rm.save(tmp_path / "plan", plan)
    assert rm.load(tmp_path / "plan").policy.reward_scale == model.reward_scale


def test_policies_observe_raw_rewards(model):
    plan = rm.plan(model)
    for policy in (plan.policy, plan.belief_policy, make_epsilon_greedy(plan.policy, 0.1, 2)):
        memory = policy.start("a")
        first, second = policy.observe(memory, 0, 52.71, 1), policy.observe(memory, 0, VALUES[3], 1)
        assert np.array_equal(first[2], second[2])
        with pytest.raises(InputError, match=r"reward: got nan, expected a finite number"):
            policy.observe(memory, 0, math.nan, 1)
    memory = plan.belief_policy.start(0)
    expected = belief.update(model.weights, model.reward_probs[:, 0, 1, 2])
    np.testing.assert_array_equal(plan.belief_policy.observe(memory, 1, 7.77, 1)[2], expected)


class Raw(gymnasium.Wrapper):
    """Pays other numbers of the same level, and tells nobody its values."""

    def has_wrapper_attr(self, name):
        return name != "reward_values" and super().has_wrapper_attr(name)

    def step(self, action):
        state, reward, *rest = self.env.step(action)
        return state, float(reward) + {36.29199562711191: 100.0}.get(float(reward), 0.0), *rest


def test_an_environment_may_pay_raw_rewards_and_they_are_what_is_measured(model):
    policy = rm.plan(model).policy
    plain = rm.simulate(policy, RewardMixingEnv(model), 300, 5)
    raw = rm.simulate(policy, Raw(RewardMixingEnv(model)), 300, 5)
    np.testing.assert_array_equal(raw.reward_indices, plain.reward_indices)
    first, second = (
        rm.evaluate(policy, env, num_episodes=400) for env in (RewardMixingEnv(model), Raw(RewardMixingEnv(model)))
    )
    assert second.value > first.value + 10
    episodes = rm.simulate(policy, RewardMixingEnv(model), 400, derive_seed(0, Role.EVALUATION))
    assert second.value == pytest.approx(
        (episodes.returns + 100.0 * (episodes.reward_indices == 3).sum(axis=1)).mean(), abs=1e-9
    )
