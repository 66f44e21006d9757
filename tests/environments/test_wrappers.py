import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from helpers.binomial_bands import assert_within
from helpers.constant_policy import ConstantPolicy
from rewardmix import InputError, PreviousActionRewardObservation, RewardMixingWrapper, make_env, simulate
from rewardmix.environments import get_env_sizes, get_horizon, get_reward_values, rollout


class Anything(ConstantPolicy):
    """A policy that plays at random."""

    def act(self, memory, rng):
        return int(rng.integers(self.action))


def newest(name):
    """An environment by its name; which version of it there is depends on Gymnasium's."""
    versions = [spec.version for spec in gymnasium.registry.values() if spec.name == name and spec.namespace is None]
    return gymnasium.make(f"{name}-v{max(versions)}")


@pytest.mark.parametrize("name", ["FrozenLake", "CliffWalking", "Taxi"])
def test_third_party_environments_become_reward_mixing(name):
    env = newest(name)
    mixed = RewardMixingWrapper(env, [lambda s, a, n, r: float(a == 0), lambda s, a, n, r: float(a == 1)], horizon=5)
    episodes = rollout(mixed, ConstantPolicy(0), 400, seed=1)
    assert episodes.num_states == get_env_sizes(env)[0]
    assert set(np.unique(episodes.returns / episodes.lengths)) == {0.0, 1.0}  # the type is kept in an episode
    assert_within(int((episodes.returns > 0).sum()), 400, 0.5, "context 0")


def test_the_paths_are_those_of_the_bare_environment():
    def path(env):
        env.reset(seed=7)
        return [env.step(a % 4)[0] for a in range(6)]

    bare = path(gymnasium.make("FrozenLake-v1"))
    functions = [np.full((16, 4), 0.5), np.full((16, 4), 0.1)]
    assert path(RewardMixingWrapper(gymnasium.make("FrozenLake-v1"), functions)) == bare


def test_tables_are_probabilities_and_weights_are_kept():
    functions = [np.ones((16, 4)), np.zeros((16, 4))]
    env = RewardMixingWrapper(gymnasium.make("FrozenLake-v1"), functions, weights=[0.2, 0.8], horizon=3)
    returns = rollout(env, Anything(4), 2000, seed=3).returns
    assert_within(int((returns > 0).sum()), 2000, 0.2, "context 0")
    env.reset(seed=0, options={"type": 1})
    assert env.step(0)[1] == 0.0


@pytest.mark.filterwarnings("ignore:.*is different from the unwrapped version")  # it is: that is what a wrapper is
def test_gymnasium_accepts_the_wrapped_environment():
    functions = [np.full((16, 4), 0.5), np.full((16, 4), 0.1)]
    check_env(RewardMixingWrapper(gymnasium.make("FrozenLake-v1").unwrapped, functions), skip_render_check=True)
    check_env(PreviousActionRewardObservation(make_env("shop")), skip_render_check=True)


def test_early_termination_leaves_absent_steps():
    functions = [np.full((16, 4), 0.5)] * 2
    env = RewardMixingWrapper(gymnasium.make("FrozenLake-v1", is_slippery=False), functions, horizon=20)
    episodes = rollout(env, Anything(4), 200, seed=0)
    assert (episodes.lengths < 20).any()
    last = episodes.states[np.arange(200), episodes.lengths]
    ended = episodes.lengths < 20
    assert np.isin(last[ended], [5, 7, 11, 12, 15]).all()  # holes and the goal
    assert (episodes.reward_indices[~episodes.step_mask] == -1).all()


def test_the_observation_for_recurrent_agents_holds_state_action_and_reward():
    env = PreviousActionRewardObservation(make_env("probe"))
    first, _ = env.reset(seed=0, options={"type": 0})
    np.testing.assert_array_equal(first, [1, 0, 0, 0, 0, 0, 0, 0])
    after, reward, *_ = env.step(2)
    np.testing.assert_array_equal(after, [0, 1, 0, 0, 0, 1, 0, reward])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: RewardMixingWrapper(gymnasium.make("CartPole-v1"), [1, 2]),
            r"env.observation_space: got Box\(.*Discrete",
        ),
        (
            lambda: RewardMixingWrapper(make_env("shop"), [np.zeros((4, 4))]),
            "reward_functions: got 1 functions, .* at least 2",
        ),
        (
            lambda: RewardMixingWrapper(make_env("shop"), [np.zeros((4, 3))] * 2),
            r"reward_functions\[0\]: got shape \(4, 3\)",
        ),
        (
            lambda: RewardMixingWrapper(make_env("shop"), [np.full((4, 4), 2)] * 2),
            r"reward_functions\[0\]\[0, 0\]: got 2.0",
        ),
        (lambda: RewardMixingWrapper(make_env("shop"), [np.zeros((4, 4))] * 2, [0.5, 0.6]), "weights: got sum 1.1"),
        (lambda: get_env_sizes("shop"), "env: got str, expected a Gymnasium environment"),
        (
            lambda: get_horizon(newest("CliffWalking")),
            "env: got no horizon and no time limit, expected a horizon; pass horizon=...",
        ),
    ],
)
def test_what_does_not_fit_is_refused(build, message):
    with pytest.raises(InputError, match=message):
        build()


def test_a_reward_outside_the_declared_values_is_refused():
    env = RewardMixingWrapper(gymnasium.make("FrozenLake-v1"), [lambda *_: 0.5, lambda *_: 0.5], horizon=3)
    env.reset(seed=0)
    with pytest.raises(InputError, match=r"reward_functions\[\d\]\(0, 1, .*\): got 0.5, expected one of the reward"):
        env.step(1)


class Broken(gymnasium.Env):
    """Three good steps, then something that must not happen."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)
    horizon = 5

    def __init__(self, state, reward):
        self.bad, self.steps = (state, reward), 0

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        self.steps += 1
        state, reward = self.bad if self.steps == 9 else (1, 1.0)
        return state, reward, False, False, {}


@pytest.mark.parametrize(
    ("state", "reward", "message"),
    [
        (7, 1.0, "state of episode 1, step 4: got 7, expected a state from 0 to 1"),
        (1, np.nan, "reward of episode 1, step 3: got nan, expected a finite number"),
    ],
)
def test_a_misbehaving_environment_is_named_by_episode_and_step(state, reward, message):
    with pytest.raises(InputError, match=message):
        simulate(ConstantPolicy(0), Broken(state, reward), 3, seed=0)


def test_what_an_environment_says_of_itself():
    env = gymnasium.make("rewardmix/Shop-v0")
    assert get_env_sizes(env) == (4, 4)
    assert get_horizon(env) == 10
    np.testing.assert_array_equal(get_reward_values(env), [0, 1])
    assert get_horizon(gymnasium.make("FrozenLake-v1")) == 100
    assert get_reward_values(gymnasium.make("FrozenLake-v1")) is None
