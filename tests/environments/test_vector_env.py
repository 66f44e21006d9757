import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from helpers.binomial_bands import assert_follow_model
from rewardmix import Episodes, InputError, RewardMixingMDP, make_env, problems
from rewardmix.environments import RewardMixingVectorEnv

MODES = list(AutoresetMode)


def sure_model() -> RewardMixingMDP:
    """Nothing is random: both contexts pay the same, every law is a point."""
    rng = np.random.default_rng(2)
    transition = np.eye(4)[rng.integers(4, size=(4, 3))]
    rewards = np.repeat(rng.integers(2, size=(1, 4, 3)).astype(float), 2, axis=0)
    return RewardMixingMDP(transition, np.eye(4)[1], [0.5, 0.5], rewards, 3)


@pytest.mark.parametrize("mode", MODES)
def test_it_does_what_gymnasiums_own_vector_wrapper_does(mode):
    """On a model without chance both must agree to the last key, over several episodes."""
    model = sure_model()
    ours = RewardMixingVectorEnv(model, 3, autoreset_mode=mode)
    theirs = SyncVectorEnv([lambda: make_env(model)] * 3, autoreset_mode=mode)
    assert_same(ours.reset(seed=1), theirs.reset(seed=1))
    rng = np.random.default_rng(0)
    for _ in range(11):
        actions = rng.integers(3, size=3)
        first, second = ours.step(actions), theirs.step(actions)
        assert_same(first, second)
        ended = first[2] | first[3]
        if mode is AutoresetMode.DISABLED and ended.any():
            assert_same(
                ours.reset(options={"reset_mask": ended.copy()}), theirs.reset(options={"reset_mask": ended.copy()})
            )


def assert_same(first, second):
    if isinstance(second, dict):
        assert set(first) == set(second)
        for key in second:
            assert_same(first[key], second[key])
    elif isinstance(second, tuple):
        assert len(first) == len(second)
        for item, other in zip(first, second, strict=True):
            assert_same(item, other)
    else:
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("sparse", [False, True])
def test_the_law_of_many_episodes_is_that_of_the_model(sparse):
    model = problems.make_model(
        "random", states=4, actions=3, horizon=4, weights=(0.3, 0.7), next_states=3 if sparse else None, seed=4
    )
    env = RewardMixingVectorEnv(model, 100_000, autoreset_mode="Disabled")
    rng = np.random.default_rng(8)
    states, actions, rewards = [env.reset(seed=1)[0]], [], []
    for _ in range(model.horizon):
        actions.append(rng.integers(3, size=env.num_envs))
        state, reward, *_ = env.step(actions[-1])
        states.append(state)
        rewards.append(reward)
    episodes = Episodes.from_arrays(
        np.stack(states, 1), np.stack(actions, 1), np.stack(rewards, 1), num_states=4, num_actions=3
    )
    assert_follow_model(episodes, model)


def test_contexts_can_be_fixed_for_each_copy():
    env = gymnasium.make_vec("rewardmix/Probe-v0", num_envs=2000)
    num_types = np.arange(2000) % 2
    env.reset(seed=0, options={"type": num_types})
    _, rewards, *_ = env.step(np.ones(2000, int))
    assert rewards[num_types == 1].sum() == 0
    assert 300 < rewards[num_types == 0].sum() < 500  # p = 0.4, 1000 draws, more than 6 sd either way
    with pytest.raises(InputError, match=r'options\["type"\]\[0\]: got 5'):
        env.reset(options={"type": 5})


def test_every_id_with_a_vector_entry_point_makes_a_vector_env():
    for name in problems.list_problems():
        env = gymnasium.make_vec(f"rewardmix/{name.capitalize()}-v0", num_envs=3)
        assert isinstance(env.unwrapped, RewardMixingVectorEnv)
        observations, info = env.reset(seed=0)
        assert env.observation_space.contains(observations)
        assert set(info) == {"step", "_step"}
        env.step(env.action_space.sample())


def test_gymnasiums_own_wrappers_can_drive_the_envs():
    from gymnasium.wrappers.vector import RecordEpisodeStatistics

    env = RecordEpisodeStatistics(gymnasium.make_vec("rewardmix/Shop-v0", num_envs=4))
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(10):
        *_, info = env.step(env.action_space.sample())
    np.testing.assert_array_equal(info["episode"]["l"], 10)
    synchronous = gymnasium.make_vec("rewardmix/Shop-v0", num_envs=2, vectorization_mode="sync")
    asynchronous = gymnasium.make_vec("rewardmix/Shop-v0", num_envs=2, vectorization_mode="async")
    for wrapped in (synchronous, asynchronous):
        wrapped.reset(seed=5)
    for _ in range(12):
        actions = np.array([1, 2])
        assert_same(synchronous.step(actions), asynchronous.step(actions))
    asynchronous.close()


def test_stable_baselines_can_drive_the_envs():
    pytest.importorskip("stable_baselines3", reason="needs rewardmix[bench]")
    from stable_baselines3 import PPO

    from rewardmix import PreviousActionRewardObservation

    PPO("MlpPolicy", PreviousActionRewardObservation(make_env("shop")), n_steps=64, batch_size=32, device="cpu").learn(
        128
    )


def test_seeds_repeat_and_lists_of_seeds_are_taken():
    env = gymnasium.make_vec("rewardmix/Random-v0", num_envs=50)
    first, again, listed = env.reset(seed=3)[0], env.reset(seed=3)[0], env.reset(seed=list(range(50)))[0]
    np.testing.assert_array_equal(first, again)
    assert (first != listed).any()


def test_misuse_is_refused():
    env = RewardMixingVectorEnv(problems.make_model("hard"), 2, autoreset_mode="Disabled", render_mode="rgb_array")
    with pytest.raises(InputError, match="actions: got no running episode"):
        env.step(np.zeros(2, int))
    env.reset(seed=0)
    with pytest.raises(InputError, match=r"actions\[1\]: got 3, expected a whole number from 0 to 2"):
        env.step(np.array([0, 3]))
    env.step(np.zeros(2, int))
    env.step(np.zeros(2, int))
    assert len(env.render()) == 2
    with pytest.raises(InputError, match=r"actions\[0\]: got a finished episode"):
        env.step(np.zeros(2, int))
    with pytest.raises(InputError, match=r'options\["reset_mask"\]: got no copy to reset'):
        env.reset(options={"reset_mask": np.zeros(2, bool)})
