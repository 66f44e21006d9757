"""Test names of problems and environments of any kind as arguments of the main functions."""

import gymnasium
import numpy as np
import pytest

import rewardmix as rm
from rewardmix.environments import RewardMixingVectorEnv

SHOP = rm.problems.make_model("shop")


@pytest.fixture(scope="module")
def policy():
    return rm.plan(SHOP).policy


@pytest.mark.parametrize("function", [rm.learn, rm.explore, rm.learn_online])
@pytest.mark.parametrize(
    ("env", "text"),
    [
        (42, r"env_or_model: got 42 \(int\), expected a model, the name of a problem, or a Gymnasium environment"),
        (None, "env_or_model: got None"),
        ("shopp", "env_or_model: got 'shopp', expected one of hard, .*parity, or an environment"),
    ],
)
def test_arguments_that_are_no_environment_are_errors(function, env, text):
    with pytest.raises(rm.InputError, match=text):
        function(env, num_episodes=10)


def test_evaluate_names_the_argument(policy):
    with pytest.raises(rm.InputError, match="model_or_env: got 42"):
        rm.evaluate(policy, 42)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_vector_environments_run_one_episode_per_copy(policy, mode):
    copies = RewardMixingVectorEnv(SHOP, 7, autoreset_mode=mode)
    result = rm.evaluate(policy, copies, num_episodes=2000)
    assert result.num_episodes == 2000
    assert abs(result.value - rm.evaluate(policy, SHOP).value) < 5 * (result.upper - result.lower) / (2 * 1.96)
    again = rm.simulate(policy, copies, 20, seed=3)
    np.testing.assert_array_equal(again.states, rm.simulate(policy, copies, 20, seed=3).states)


def test_steps_after_the_end_of_a_copy_are_ignored(policy):
    """Lengths have the distribution of a single environment, and every first state is an initial state."""
    lake = gymnasium.make_vec("FrozenLake-v1", num_envs=5)
    walk = rm.MarkovPolicy(np.full((100, 16, 4), 0.25))
    result = rm.simulate(walk, lake, 500)
    alone = rm.simulate(walk, gymnasium.make("FrozenLake-v1"), 500)
    assert (result.states[:, 0] == 0).all()
    std_error = np.hypot(result.lengths.std(), alone.lengths.std()) / np.sqrt(500)
    assert abs(result.lengths.mean() - alone.lengths.mean()) < 5 * std_error


@pytest.mark.parametrize("env_or_model", ["grid", "rewardmix/Probe-v0", "vector"])
def test_policies_of_another_size_are_errors_in_environments(policy, env_or_model):
    other = {"vector": lambda: RewardMixingVectorEnv(rm.problems.make_model("grid"), 2)}
    env = (
        gymnasium.make(env_or_model)
        if "/" in env_or_model
        else other.get(env_or_model, lambda: rm.make_env(env_or_model))()
    )
    tables = (
        [] if "Probe" in env_or_model else [rm.uniform_policy(SHOP)]
    )  # without names, an additional state may be the end state
    for form in (policy, *tables, rm.plan(SHOP).belief_policy):
        with pytest.raises(rm.InputError, match=r"policy: got one for 4 states and (at least )?\d actions"):
            rm.evaluate(form, env, num_episodes=2)
