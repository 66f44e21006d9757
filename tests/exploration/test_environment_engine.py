"""Exploring through reset and step alone: same counts as the definition, early ends, vector environments, bad input."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rewardmix import problems
from rewardmix._core.checks import InputError
from rewardmix.environments import RewardMixingEnv, RewardMixingVectorEnv, RewardMixingWrapper
from rewardmix.exploration import ExplorationError, all_pairs, explore, selected_pairs
from rewardmix.moments import Moments

MODEL = problems.make_model("random", states=3, actions=2, horizon=4, seed=2)
MODES = ["NextStep", "SameStep", "Disabled"]


VECTORS = [lambda m, k=k: RewardMixingVectorEnv(m, 3, autoreset_mode=k) for k in MODES]


@pytest.mark.parametrize("make", [RewardMixingEnv, *VECTORS])
def test_counts_are_those_of_the_episodes(make):
    result = explore(make(MODEL), num_episodes=100)
    assert result.num_episodes == len(result.episodes) == 100
    assert result.moments == Moments.from_episodes(result.episodes)
    assert result.uncertainty < 1.0
    assert result.moments.visits.sum() == 400


@pytest.mark.parametrize("make", [RewardMixingEnv, lambda m: RewardMixingVectorEnv(m, 4)])
def test_selected_counts_take_one_pair_an_episode(make):
    result = explore(make(MODEL), num_episodes=80, counting=selected_pairs)
    assert result.moments.first_visit_tables.sum() <= 80
    assert result.moments.pair_tables.sum() == result.moments.first_visit_tables.sum() > 60
    assert (result.moments.num_samples <= Moments.from_episodes(result.episodes).num_samples).all()


def test_environment_and_model_explore_equally_well():
    through_steps = explore(RewardMixingEnv(MODEL), num_episodes=500).uncertainty
    through_model = explore(MODEL, num_episodes=500).uncertainty
    assert through_steps == pytest.approx(through_model, rel=0.1)


def test_frozen_lake_is_explored_through_gymnasium_alone():
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=12)
    rewards = np.full((2, 16, 4), 0.5)
    rewards[0, :, 0], rewards[1, :, 0] = 0.9, 0.1
    result = explore(RewardMixingWrapper(lake, rewards, horizon=12), num_episodes=1500, seed=1)
    assert result.moments == Moments.from_episodes(result.episodes)
    assert result.moments.ended_early
    assert (result.episodes.lengths < 12).any()
    rows, visited = result.moments.transition_estimate()
    assert rows.shape == (17 * 4, 17)
    holes = [5, 7, 11, 12, 15]
    free = [s for s in range(16) if s not in holes]
    assert visited[: 16 * 4].reshape(16, 4)[free].all()
    assert not visited[: 16 * 4].reshape(16, 4)[holes].any()
    down = rows.toarray()[1 * 4 + 1]  # down from field 1 is a hole: the end, or field 5 if the horizon came first
    assert down[16] > 0.5
    assert down[16] + down[5] == pytest.approx(1.0)
    assert result.moments.pair_keys.size > 300


class Broken(gymnasium.Env):
    """Behaves for a while, then does not."""

    observation_space, action_space = spaces.Discrete(2), spaces.Discrete(2)
    horizon = 5

    def __init__(self, how):
        self.how, self.episode, self.step_count = how, -1, 0

    def reset(self, *, seed=None, options=None):
        self.episode, self.step_count = self.episode + 1, 0
        return 0, {}

    def step(self, action):
        broken = self.episode == 20 and self.step_count == 2
        self.step_count += 1
        state, reward, truncated = 1, 1.0, False
        if broken:
            state, reward, truncated = {
                "reward": (1, 0.3, False),
                "nan": (1, np.nan, False),
                "state": (2, 1.0, False),
                "horizon": (1, 1.0, True),
            }[self.how]
        return state, reward, False, truncated, {}


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("reward", r"reward of episode 20, step 2: got 0.3, expected one of the reward values \[0.0, 1.0\]"),
        ("nan", r"reward of episode 20, step 2: got nan, expected one of the reward values \[0.0, 1.0\]"),
        ("state", r"state of episode 20, step 3: got 2, expected a state from 0 to 1"),
        ("horizon", r"horizon of episode 20, step 2: got truncated after 3 steps, expected 5 steps"),
    ],
)
def test_a_broken_environment_is_named_and_nothing_is_lost(how, message, tmp_path):
    with pytest.raises(ExplorationError, match=message) as caught:
        explore(Broken(how), num_episodes=100, checkpoint_dir=tmp_path / "run")
    result = caught.value.exploration
    assert result.num_episodes == result.moments.num_episodes == 20
    assert result.info.stop_reason == "error"
    again = explore(Broken("never"), num_episodes=25, checkpoint_dir=tmp_path / "run")
    assert again.num_episodes == 25
    assert again.moments == result.moments + Moments.from_episodes(again.episodes[20:])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "num_episodes: got None, expected a number of episodes, or an"),
        ({"num_episodes": -1}, "num_episodes: got -1, expected a whole number of at least 0"),
        ({"num_episodes": 5, "replan_growth": 0.9}, "replan_growth: got 0.9, expected a factor of at least 1"),
        ({"num_episodes": 5, "failure_prob": 1.5}, "failure_prob: got 1.5"),
        ({"uncertainty_threshold": -0.1}, "uncertainty_threshold: got -0.1"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InputError, match=message):
        explore(MODEL, **settings)


def test_no_episodes_is_a_result_too():
    result = explore(MODEL, num_episodes=0)
    assert (result.num_episodes, result.uncertainty, len(result.episodes)) == (0, 1.0, 0)
    assert result.info.coverage.num_missing == 21
    assert result.moments == Moments.empty(3, 2, 4)
    assert explore(RewardMixingEnv(MODEL), num_episodes=0, counting=all_pairs).num_episodes == 0
