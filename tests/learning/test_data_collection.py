"""What must not happen between exploration, refinement and rounds: nothing is drawn twice, and nothing is lost."""

import gymnasium
import numpy as np
import pytest
from examples.purchases import PurchaseHistoryEnv
from gymnasium import spaces

from rewardmix import InputError, make_env, problems, recover
from rewardmix.episodes import Episodes
from rewardmix.exploration import checkpoints, environment_engine, explore
from rewardmix.learning import learn, stopping_rules
from rewardmix.learning.data_collection import has_single_optimum
from rewardmix.recovery.evidence import RecoverySettings, make_recovery_data
from rewardmix.recovery.ml_recovery import estimate_model


class Spy(gymnasium.Wrapper):
    """Remembers who came, and when the environment was seeded."""

    def __init__(self, env, name):
        super().__init__(env)
        self.name, self.met, self.seeds = name, [], []

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.seeds.append((len(self.met), seed))
        stages = super().reset(seed=seed, options=options)
        self.met.append(getattr(self.env.unwrapped, self.name))
        return stages


class Ends(gymnasium.Env):
    """Two states; one of two actions is liked. From episode ``first`` on it ends, or is cut off, after two steps."""

    observation_space, action_space, horizon = spaces.Discrete(2), spaces.Discrete(2), 4

    def __init__(self, first, truncates=False):
        self.first, self.truncates, self.number = first, truncates, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.liked, self.steps, self.number = int(self.np_random.integers(2)), 0, self.number + 1
        return 0, {}

    def step(self, action):
        self.steps += 1
        reward = float(self.np_random.random() < (0.9 if action == self.liked else 0.1))
        early = self.number >= self.first and self.steps == 2
        ends = self.steps == 4 or (early and not self.truncates)
        return int(self.np_random.integers(2)), reward, ends, early and self.truncates, {}


def test_an_environment_that_goes_on_draws_other_visitors():
    """``probe`` is not ready at 150 episodes; its exploration goes on with the stream that is under way."""
    env = Spy(make_env("probe"), "_type_index")
    learned = learn(env, num_episodes=300, seed=2, num_resamples=0)
    assert 150 < learned.exploration.num_episodes < 300
    assert len(learned.refinement_episodes) == 300 - learned.exploration.num_episodes
    assert [when for when, _ in env.seeds] == [0]
    first, second = np.array(env.met[:150]), np.array(env.met[150:])
    assert 0.3 < (first == second).mean() < 0.7


@pytest.mark.system
def test_rounds_of_an_environment_draw_other_visitors():
    env = Spy(make_env("shop"), "_type_index")
    learned = learn(env, target_regret=0.003, seed=0)
    assert learned.num_episodes > 1000
    assert [when for when, _ in env.seeds] == [0]


def test_a_resumed_environment_is_seeded_anew(tmp_path):
    explore(Spy(make_env("shop"), "_type_index"), num_episodes=200, seed=0, checkpoint_dir=tmp_path)
    env = Spy(make_env("shop"), "_type_index")
    explore(env, num_episodes=400, seed=0, checkpoint_dir=tmp_path)
    ((when, seed),) = env.seeds
    uninterrupted = Spy(make_env("shop"), "_type_index")
    explore(uninterrupted, num_episodes=200, seed=0)
    assert when == 0
    assert seed != uninterrupted.seeds[0][1]
    assert (np.array(env.met) == np.array(uninterrupted.met)).mean() < 0.75


def test_refinement_goes_through_a_queue_once():
    rng = np.random.default_rng(0)
    histories = [np.where(rng.random(12) < 0.8, i % 2, rng.integers(3, size=12)) for i in range(600)]
    env = Spy(PurchaseHistoryEnv(histories, ("a", "b", "c"), 8, in_order=True), "_chosen")
    learned = learn(env, num_episodes=600, num_resamples=0)
    assert len(learned.refinement_episodes) == 300
    assert np.unique(env.met).size == 600


@pytest.mark.system
def test_a_run_by_the_rule_that_outgrows_memory_goes_on_with_every_other_episode(monkeypatch):
    monkeypatch.setattr(environment_engine, "MAX_EPISODE_BYTES", 700 * (7 * 10 + 8))
    totals = []
    monkeypatch.setattr(stopping_rules, "MAX_EPISODES", 2000)
    learned = learn(make_env("shop"), target_regret=0.0001, seed=0, callback=lambda stage: totals.append(stage.name))
    assert learned.num_episodes == 2000
    assert learned.exploration.moments.num_episodes == learned.exploration.num_episodes == 1500
    assert len(learned.exploration.episodes) == 375
    assert learned.recovery.info.weights_source == "estimated"


@pytest.mark.system
@pytest.mark.parametrize(("name", "epsilon"), [("probe", 0.01), ("shop", 0.004)])
def test_checkpoints_change_no_round(tmp_path, monkeypatch, name, epsilon):
    """However often they are written."""
    plain = learn(problems.make_model(name), seed=2, target_regret=epsilon)
    monkeypatch.setattr(checkpoints, "MIN_SECONDS_BETWEEN", 0.0)
    saved = learn(problems.make_model(name), seed=2, target_regret=epsilon, checkpoint_dir=tmp_path)
    assert plain.num_episodes == saved.num_episodes > 1000
    np.testing.assert_array_equal(plain.model.rewards, saved.model.rewards)


def test_ctrl_c_keeps_the_longer_of_two_explorations():
    """A model that is not ready is explored anew, from the start; what was gathered before is not thrown away."""
    recovered = []

    def stop(stage):
        recovered.append(stage.name == "recover")
        if any(recovered) and stage.name == "explore" and stage.detail.num_episodes >= 3:
            raise KeyboardInterrupt

    learned = learn(problems.make_model("probe"), num_episodes=300, seed=2, num_resamples=0, callback=stop)
    assert learned.certificate.stop_reason == "interrupted"
    assert learned.num_episodes == 150


def test_ctrl_c_while_recovering_keeps_what_was_explored():
    names = []

    def stop(stage):
        names.append(stage.name)
        if stage.name == "recover" and names.count("recover") == 1:
            raise KeyboardInterrupt

    learned = learn(problems.make_model("shop"), num_episodes=400, seed=0, num_resamples=0, callback=stop)
    assert learned.certificate.stop_reason == "interrupted"
    assert learned.num_episodes == 200


def test_what_only_following_episodes_visited_counts_as_visited():
    states = np.array([[0, 0, 0], [0, 1, 1], [0, 0, 0], [0, 1, 0]] * 50)
    actions, rewards = np.zeros((200, 2), int), np.random.default_rng(0).integers(2, size=(200, 2)).astype(float)
    all_data = Episodes.from_arrays(states, actions, rewards, num_states=3, num_actions=1)
    nonadaptive, adaptive_episodes = all_data[np.arange(0, 200, 2)], all_data[np.arange(1, 200, 2)]
    alone, both = recover(nonadaptive), recover(nonadaptive, adaptive_episodes=adaptive_episodes)
    assert alone.info.unvisited.tolist() == [1, 2]
    assert both.info.unvisited.tolist() == [2]
    assert np.isfinite(both.info.reward_errors[:, 1]).all()
    assert np.isinf(both.info.reward_errors[:, 2]).all()


def test_errors_of_long_episodes_do_not_depend_on_who_played_first():
    """Bags of more than 128 steps are not merged, and the first of them stand for all."""
    model = problems.make_model("random", states=3, actions=2, horizon=130, seed=1)
    episodes = explore(model, num_episodes=3000, seed=0).episodes
    first, second = episodes[:1500], episodes[1500:]
    errors = [
        recover(a, adaptive_episodes=b, weights=model.weights).info.reward_errors
        for a, b in ((first, second), (second, first))
    ]
    np.testing.assert_allclose(errors[0], errors[1], rtol=0.05)


def test_more_than_two_contexts_are_refined_when_pairs_are_covered_only():
    model = problems.make_model("random", states=3, actions=2, horizon=6, num_types=3, seed=0)
    assert not has_single_optimum(
        estimate_model(make_recovery_data(explore(model, num_episodes=500, seed=0).episodes), RecoverySettings(3))
    )


@pytest.mark.parametrize("seed", range(3))
def test_every_resample_has_an_early_end_if_there_was_one(seed):
    learned = learn(Ends(first=200), num_episodes=200, seed=seed, num_resamples=2)
    assert learned.model.num_states == 3
    assert learned.certificate.bootstrap.regrets.size == 2


@pytest.mark.parametrize("first", [20, 80])
def test_episodes_that_are_cut_off_are_refused_in_both_stages(first):
    with pytest.raises(InputError, match=r"horizon of episode \d+, step 1: got truncated after 2 steps"):
        learn(Ends(first, truncates=True), num_episodes=100, seed=1, num_resamples=0)
