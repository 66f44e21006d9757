"""What people type first: names, and environments of any kind."""

import gymnasium
import numpy as np
import pytest

import rewardmix as rm
from rewardmix.environments import RewardMixingVectorEnv

SHOP = rm.problems.make("shop")


@pytest.fixture(scope="module")
def policy():
    return rm.plan(SHOP).policy


@pytest.mark.parametrize("verb", [rm.learn, rm.explore, rm.earn])
@pytest.mark.parametrize(
    ("world", "said"),
    [
        (42, r"env_or_model: found 42 \(int\), expected a model, the name of a problem, or a Gymnasium environment"),
        (None, "env_or_model: found None"),
        ("shopp", "env_or_model: found 'shopp', expected one of hard, .*parity, or an environment"),
    ],
)
def test_what_is_no_world_is_refused_by_name(verb, world, said):
    with pytest.raises(rm.InputError, match=said):
        verb(world, episodes=10)


def test_evaluate_refuses_by_name_too(policy):
    with pytest.raises(rm.InputError, match="model_or_env: found 42"):
        rm.evaluate(policy, 42)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_a_vector_environment_is_played_one_episode_in_each_copy(policy, mode):
    copies = RewardMixingVectorEnv(SHOP, 7, autoreset_mode=mode)
    found = rm.evaluate(policy, copies, episodes=2000)
    assert found.episodes == 2000
    assert abs(found.value - rm.evaluate(policy, SHOP).value) < 5 * (found.upper - found.lower) / (2 * 1.96)
    again = rm.simulate(policy, copies, 20, seed=3)
    np.testing.assert_array_equal(again.states, rm.simulate(policy, copies, 20, seed=3).states)


def test_a_copy_that_ends_early_is_not_heard_any_more(policy):
    """Against one environment of the same kind: lengths have the same law, and every first state is a first state."""
    lake = gymnasium.make_vec("FrozenLake-v1", num_envs=5)
    walk = rm.MarkovPolicy(np.full((100, 16, 4), 0.25))
    found = rm.simulate(walk, lake, 500)
    alone = rm.simulate(walk, gymnasium.make("FrozenLake-v1"), 500)
    assert (found.states[:, 0] == 0).all()
    spread = np.hypot(found.lengths.std(), alone.lengths.std()) / np.sqrt(500)
    assert abs(found.lengths.mean() - alone.lengths.mean()) < 5 * spread


@pytest.mark.parametrize("world", ["grid", "rewardmix/Probe-v0", "vector"])
def test_a_policy_of_another_size_is_refused_in_environments(policy, world):
    other = {"vector": lambda: RewardMixingVectorEnv(rm.problems.make("grid"), 2)}
    env = gymnasium.make(world) if "/" in world else other.get(world, lambda: rm.make_env(world))()
    tables = [] if "Probe" in world else [rm.uniform(SHOP)]  # without names, one state more may be the end of episodes
    for form in (policy, *tables, rm.plan(SHOP).belief_policy):
        with pytest.raises(rm.InputError, match=r"policy: found one for 4 states and (at least )?\d actions"):
            rm.evaluate(form, env, episodes=2)
