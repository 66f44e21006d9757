"""Refinement: what it plays, what it may count for, and that nothing of it is lost."""

import dataclasses

import gymnasium
import numpy as np
import pytest

from rewardmix import InputError, RewardMixingWrapper, evaluate, make_env, problems
from rewardmix.environments import RewardMixingVectorEnv
from rewardmix.exploration import ExplorationError, explore
from rewardmix.learning import learn
from rewardmix.learning.data_collection import MIN_VISITS_TO_REFINE, has_single_optimum
from rewardmix.learning.learn_settings import COVERED_UNCERTAINTY, FIRST_ROUND_EPISODES
from rewardmix.learning.refinement import load_batches, refine
from rewardmix.moments import Moments
from rewardmix.recovery import recover
from rewardmix.recovery.evidence import RecoverySettings, make_recovery_data
from rewardmix.recovery.ml_recovery import estimate_model

MODEL = problems.make_model("random", states=4, actions=3, horizon=6, seed=1)


@pytest.fixture(scope="module")
def explored():
    episodes = explore(MODEL, num_episodes=600, seed=0).episodes
    return episodes, recover(episodes)


def test_exploration_goes_on_until_every_action_was_tried():
    """One more than the least, and no earlier: the lock's last states are entered late."""
    lock = problems.make_model("lock", steps=6)
    exploration = explore(lock, num_episodes=4000, min_visits=MIN_VISITS_TO_REFINE, seed=0)
    visits = exploration.moments.visits.reshape(lock.num_states, -1)
    assert exploration.info.stop_reason == "tried"
    assert visits[visits.any(axis=1)].min() >= MIN_VISITS_TO_REFINE
    assert visits.any(axis=1).all()
    assert (
        explore(lock, num_episodes=4000, min_visits=MIN_VISITS_TO_REFINE, min_episodes=3000, seed=0).num_episodes
        == 3000
    )
    assert explore(lock, num_episodes=60, min_visits=MIN_VISITS_TO_REFINE, seed=0).info.stop_reason == "budget"


def test_refinement_waits_until_signs_are_settled():
    """The two rooms of ``probe`` are linked by the lobby alone: at 150 episodes the likelihood has several hills."""
    probe = problems.make_model("probe")
    later = learn(probe, num_episodes=300, seed=2, num_resamples=0)
    assert 150 < later.exploration.num_episodes < 300
    assert later.exploration.uncertainty <= COVERED_UNCERTAINTY
    assert not has_single_optimum(
        estimate_model(make_recovery_data(explore(probe, num_episodes=150, seed=2).episodes), RecoverySettings(seed=2))
    )
    settled = learn(probe, num_episodes=2000, seed=2, num_resamples=0)
    assert len(settled.refinement_episodes) == 1000
    assert settled.certificate.true_model.normalized_score > 0.99


def test_the_paths_of_refinement_follow_rewards_and_those_of_exploration_do_not():
    """The action of the second step, by the reward of the first: the same law without, another with refinement."""
    shop = problems.make_model("shop")
    learned = learn(shop, num_episodes=4000, seed=0, num_resamples=0)

    def dependence(episodes):
        first = episodes.rewards[:, 0] > 0.5
        shares = [
            np.bincount(episodes.actions[who, 1], minlength=shop.num_actions) / who.sum() for who in (first, ~first)
        ]
        return np.abs(shares[0] - shares[1]).sum()

    assert dependence(learned.refinement_episodes) > 0.3
    assert dependence(learned.exploration.episodes) < 0.15


def test_following_episodes_leave_averages_and_pairs_alone(explored):
    episodes, recovery = explored
    more = refine(MODEL, episodes, recovery, num_episodes=400, seed=1).episodes
    alone, both = make_recovery_data(episodes), make_recovery_data(episodes, more)
    for name in ("marginals", "center", "radius", "pair_samples", "pair_first", "pair_second"):
        np.testing.assert_array_equal(getattr(both.confidence_set, name), getattr(alone.confidence_set, name))
    np.testing.assert_array_equal(both.nonadaptive_patterns.counts, alone.patterns.counts)
    assert both.patterns.num_episodes == 1000
    everything = Moments.from_episodes(episodes + more)
    np.testing.assert_allclose(
        both.confidence_set.transition.toarray(), everything.transition_estimate()[0].toarray(), atol=1e-12
    )
    assert both.confidence_set.transition_radius.sum() < alone.confidence_set.transition_radius.sum()


@pytest.mark.statistical
def test_following_episodes_make_rewards_more_precise_and_not_biased():
    """Likelihood is valid whatever chose the actions: z-scores of the recovered rewards stay standard."""
    scores, gains = [], []
    for seed in range(12):
        episodes = explore(MODEL, num_episodes=1500, seed=seed).episodes
        recovery = recover(episodes, weights=MODEL.weights)
        more = refine(MODEL, episodes, recovery, num_episodes=1500, seed=seed).episodes
        both = recover(episodes, adaptive_episodes=more, weights=MODEL.weights)
        turned = _turned(both.model.rewards)
        errors = both.info.reward_errors if turned is both.model.rewards else both.info.reward_errors[::-1]
        scores.append(((turned - MODEL.rewards) / errors)[errors < 0.2])
        gains.append(
            np.abs(_turned(recovery.model.rewards) - MODEL.rewards).mean() - np.abs(turned - MODEL.rewards).mean()
        )
    scores = np.concatenate(scores)
    assert abs(scores.mean()) < 0.35
    assert 0.7 < np.sqrt(np.mean(scores**2)) < 1.5
    assert np.mean(gains) > 0


def _turned(rewards):
    straight, crossed = np.abs(rewards - MODEL.rewards).sum(), np.abs(rewards[::-1] - MODEL.rewards).sum()
    return rewards if straight <= crossed else rewards[::-1]


@pytest.mark.statistical
def test_refinement_earns_more_than_exploration_alone():
    """The reason why it is there: 2,000 episodes of a world of thirty state-actions."""
    model = problems.make_model("random", states=10, actions=3, horizon=8)
    with_it, without = (
        np.mean(
            [
                learn(
                    model, num_episodes=2000, seed=s, refinement_fraction=share, num_resamples=0
                ).certificate.true_model.regret
                for s in range(6)
            ]
        )
        for share in (0.5, 0.0)
    )
    assert with_it < without


def test_the_same_seed_gives_the_same_episodes_and_a_checkpoint_goes_on(explored, tmp_path):
    episodes, recovery = explored
    expected = refine(MODEL, episodes, recovery, num_episodes=80, batches=4, seed=3).episodes

    def stop(done):
        if done >= 40:
            raise KeyboardInterrupt

    interrupted = refine(
        MODEL, episodes, recovery, num_episodes=80, batches=4, seed=3, checkpoint_dir=tmp_path / "7", callback=stop
    )
    assert interrupted.interrupted
    assert len(interrupted.episodes) == 40
    assert len(load_batches(tmp_path, 8)) == 40
    assert load_batches(tmp_path, 7) is None
    again = refine(
        MODEL, episodes, recovery, num_episodes=80, batches=4, seed=3, checkpoint_dir=tmp_path / "7"
    ).episodes
    for name in ("states", "actions", "reward_indices"):
        np.testing.assert_array_equal(getattr(again, name), getattr(expected, name))
    with pytest.raises(InputError, match="checkpoint: got seed = 3"):
        refine(MODEL, episodes, recovery, num_episodes=80, batches=4, seed=4, checkpoint_dir=tmp_path / "7")


def test_environments_are_refined_too_and_vectors_only_explored():
    learned = learn(make_env("shop"), num_episodes=600, seed=0, num_resamples=0)
    assert len(learned.refinement_episodes) == 300
    assert evaluate(learned.policy, problems.make_model("shop")).value > 6.0
    vector = RewardMixingVectorEnv(problems.make_model("shop"), 4)
    assert learn(vector, num_episodes=200, seed=0, num_resamples=0).refinement_episodes is None


@pytest.mark.system
def test_a_rule_goes_on_in_an_environment_with_what_it_has():
    """Later rounds keep the episodes of earlier ones: the environment is never reset more often than there are."""
    env = Counted(make_env("shop"))
    learned = learn(env, target_regret=0.003, seed=0)
    assert learned.num_episodes > FIRST_ROUND_EPISODES
    assert learned.num_episodes == learned.exploration.num_episodes + len(learned.refinement_episodes) == env.resets
    assert learned.certificate.bootstrap.mean <= 0.003


class Counted(gymnasium.Wrapper):
    """Counts episodes."""

    resets = 0

    def reset(self, **options):
        self.resets += 1
        return super().reset(**options)


@pytest.mark.system
def test_a_killed_rule_goes_on_with_the_refinement_of_earlier_rounds(tmp_path):
    class KilledError(Exception):
        pass

    def kill(stage):
        if stage.name == "refine" and stage.detail > 1100:
            raise KilledError

    env = Counted(make_env("shop"))
    with pytest.raises(KilledError):
        learn(env, target_regret=0.004, seed=0, checkpoint_dir=tmp_path, callback=kill)
    storage = load_batches(tmp_path / "refinement", 2000)
    learned = learn(env, target_regret=0.004, seed=0, checkpoint_dir=tmp_path)
    np.testing.assert_array_equal(learned.refinement_episodes.states[: len(storage)], storage.states)
    assert env.resets == learned.num_episodes


def test_early_ends_are_refined():
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False, map_name="4x4")
    functions = [lambda s, a, n, r: float(n == 15), lambda s, a, n, r: float(n == 3)]
    learned = learn(RewardMixingWrapper(lake, functions, horizon=8), num_episodes=1500, seed=0, num_resamples=0)
    assert learned.num_episodes == 1500
    assert learned.refinement_episodes is None or learned.refinement_episodes.horizon == 8


def test_an_environment_that_breaks_its_rules_while_it_is_refined_loses_nothing():
    class Broken(Counted):
        def step(self, action):
            state, reward, *rest = super().step(action)
            return state, 0.5 if self.resets > 400 else reward, *rest

    with pytest.raises(ExplorationError, match=r"reward of episode \d+, step \d+: got 0.5") as caught:
        learn(Broken(make_env("shop")), num_episodes=600, seed=0, num_resamples=0)
    assert caught.value.exploration.num_episodes == 300


@pytest.mark.parametrize("share", [-0.1, 1.0, 1.5])
def test_shares_are_refused_by_name(share):
    with pytest.raises(InputError, match="refinement_fraction: got"):
        learn("shop", num_episodes=10, refinement_fraction=share)


def test_only_whole_episodes_can_be_followed(explored):
    episodes, _ = explored
    with pytest.raises(InputError, match="data: got Moments, expected Episodes"):
        recover(Moments.from_episodes(episodes), adaptive_episodes=episodes)


def test_gathered_episodes_of_other_worlds_do_not_mix(explored):
    episodes, _ = explored
    other = dataclasses.replace(episodes, num_states=5)
    with pytest.raises(InputError, match="other: got"):
        recover(other, adaptive_episodes=episodes)
