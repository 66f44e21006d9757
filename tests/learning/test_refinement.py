"""Refinement: what it plays, what it may count for, and that nothing of it is lost."""

import dataclasses

import gymnasium
import numpy as np
import pytest

from rewardmix import InputError, MixRewards, evaluate, make_env, problems
from rewardmix.environments import RewardMixingVectorEnv
from rewardmix.exploration import ExplorationError, explore
from rewardmix.learning import learn
from rewardmix.learning.gathering import TRIES_TO_REFINE, one_optimum
from rewardmix.learning.learn_settings import COVERED_V0, FIRST_ROUND
from rewardmix.learning.refinement import refine, stored_batches
from rewardmix.moments import Moments
from rewardmix.recovery import recover
from rewardmix.recovery.evidence import Question, evidence_of
from rewardmix.recovery.recover import estimate_model

MODEL = problems.make("random", states=4, actions=3, horizon=6, seed=1)


@pytest.fixture(scope="module")
def explored():
    episodes = explore(MODEL, episodes=600, seed=0).gathered
    return episodes, recover(episodes)


def test_exploration_goes_on_until_every_action_was_tried():
    """One more than the least, and no earlier: the lock's last states are entered late."""
    lock = problems.make("lock", steps=6)
    found = explore(lock, episodes=4000, tried=TRIES_TO_REFINE, seed=0)
    visits = found.moments.visits.reshape(lock.num_states, -1)
    assert found.info.stopped == "tried"
    assert visits[visits.any(axis=1)].min() >= TRIES_TO_REFINE
    assert visits.any(axis=1).all()
    assert explore(lock, episodes=4000, tried=TRIES_TO_REFINE, least=3000, seed=0).episodes == 3000
    assert explore(lock, episodes=60, tried=TRIES_TO_REFINE, seed=0).info.stopped == "budget"


def test_refinement_waits_until_signs_are_settled():
    """The two rooms of ``probe`` are linked by the lobby alone: at 150 episodes the likelihood has several hills."""
    probe = problems.make("probe")
    later = learn(probe, episodes=300, seed=2, resamples=0)
    assert 150 < later.exploration.episodes < 300
    assert later.exploration.uncertainty <= COVERED_V0
    assert not one_optimum(estimate_model(evidence_of(explore(probe, episodes=150, seed=2).gathered), Question(seed=2)))
    settled = learn(probe, episodes=2000, seed=2, resamples=0)
    assert len(settled.refinement) == 1000
    assert settled.certificate.truth.share > 0.99


def test_the_paths_of_refinement_follow_rewards_and_those_of_exploration_do_not():
    """The action of the second step, by the reward of the first: the same law without, another with refinement."""
    shop = problems.make("shop")
    learned = learn(shop, episodes=4000, seed=0, resamples=0)

    def dependence(episodes):
        first = episodes.rewards[:, 0] > 0.5
        shares = [
            np.bincount(episodes.actions[who, 1], minlength=shop.num_actions) / who.sum() for who in (first, ~first)
        ]
        return np.abs(shares[0] - shares[1]).sum()

    assert dependence(learned.refinement) > 0.3
    assert dependence(learned.exploration.gathered) < 0.15


def test_following_episodes_leave_averages_and_pairs_alone(explored):
    episodes, found = explored
    more = refine(MODEL, episodes, found, episodes=400, seed=1).episodes
    alone, both = evidence_of(episodes), evidence_of(episodes, more)
    for name in ("average", "centre", "radius", "counts", "first", "second"):
        np.testing.assert_array_equal(getattr(both.confidence, name), getattr(alone.confidence, name))
    np.testing.assert_array_equal(both.blind.counts, alone.bags.counts)
    assert both.bags.total == 1000
    everything = Moments.of(episodes + more)
    np.testing.assert_allclose(
        both.confidence.transition.toarray(), everything.transition_estimate()[0].toarray(), atol=1e-12
    )
    assert both.confidence.transition_radius.sum() < alone.confidence.transition_radius.sum()


def test_following_episodes_make_rewards_more_precise_and_not_biased():
    """Likelihood is valid whatever chose the actions: z-scores of the recovered rewards stay standard."""
    scores, gains = [], []
    for seed in range(12):
        episodes = explore(MODEL, episodes=1500, seed=seed).gathered
        found = recover(episodes, weights=MODEL.weights)
        more = refine(MODEL, episodes, found, episodes=1500, seed=seed).episodes
        both = recover(episodes, following=more, weights=MODEL.weights)
        turned = _turned(both.model.rewards)
        errors = both.info.errors if turned is both.model.rewards else both.info.errors[::-1]
        scores.append(((turned - MODEL.rewards) / errors)[errors < 0.2])
        gains.append(
            np.abs(_turned(found.model.rewards) - MODEL.rewards).mean() - np.abs(turned - MODEL.rewards).mean()
        )
    scores = np.concatenate(scores)
    assert abs(scores.mean()) < 0.35
    assert 0.7 < np.sqrt(np.mean(scores**2)) < 1.5
    assert np.mean(gains) > 0


def _turned(rewards):
    straight, crossed = np.abs(rewards - MODEL.rewards).sum(), np.abs(rewards[::-1] - MODEL.rewards).sum()
    return rewards if straight <= crossed else rewards[::-1]


def test_refinement_earns_more_than_exploration_alone():
    """The reason why it is there: 2,000 episodes of a world of thirty state-actions."""
    world = problems.make("random", states=10, actions=3, horizon=8)
    with_it, without = (
        np.mean(
            [learn(world, episodes=2000, seed=s, refine=share, resamples=0).certificate.truth.regret for s in range(6)]
        )
        for share in (0.5, 0.0)
    )
    assert with_it < without


def test_the_same_seed_gives_the_same_episodes_and_a_checkpoint_goes_on(explored, tmp_path):
    episodes, found = explored
    whole = refine(MODEL, episodes, found, episodes=80, batches=4, seed=3).episodes

    def stop(done):
        if done >= 40:
            raise KeyboardInterrupt

    part = refine(MODEL, episodes, found, episodes=80, batches=4, seed=3, checkpoint=tmp_path / "7", on_update=stop)
    assert part.interrupted
    assert len(part.episodes) == 40
    assert len(stored_batches(tmp_path, 8)) == 40
    assert stored_batches(tmp_path, 7) is None
    again = refine(MODEL, episodes, found, episodes=80, batches=4, seed=3, checkpoint=tmp_path / "7").episodes
    for name in ("states", "actions", "outcomes"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))
    with pytest.raises(InputError, match="checkpoint: found seed = 3"):
        refine(MODEL, episodes, found, episodes=80, batches=4, seed=4, checkpoint=tmp_path / "7")


def test_environments_are_refined_too_and_vectors_only_explored():
    learned = learn(make_env("shop"), episodes=600, seed=0, resamples=0)
    assert len(learned.refinement) == 300
    assert evaluate(learned.policy, problems.make("shop")).value > 6.0
    vector = RewardMixingVectorEnv(problems.make("shop"), 4)
    assert learn(vector, episodes=200, seed=0, resamples=0).refinement is None


def test_a_rule_goes_on_in_an_environment_with_what_it_has():
    """Later rounds keep the episodes of earlier ones: the environment is never reset more often than there are."""
    world = Counted(make_env("shop"))
    learned = learn(world, accuracy=0.003, seed=0)
    assert learned.episodes > FIRST_ROUND
    assert learned.episodes == learned.exploration.episodes + len(learned.refinement) == world.resets
    assert learned.certificate.bootstrap.mean <= 0.003


class Counted(gymnasium.Wrapper):
    """Counts episodes."""

    resets = 0

    def reset(self, **options):
        self.resets += 1
        return super().reset(**options)


def test_a_killed_rule_goes_on_with_the_refinement_of_earlier_rounds(tmp_path):
    class KilledError(Exception):
        pass

    def kill(stage):
        if stage.name == "refine" and stage.detail > 1100:
            raise KilledError

    world = Counted(make_env("shop"))
    with pytest.raises(KilledError):
        learn(world, accuracy=0.004, seed=0, checkpoint=tmp_path, on_update=kill)
    kept = stored_batches(tmp_path / "refinement", 2000)
    learned = learn(world, accuracy=0.004, seed=0, checkpoint=tmp_path)
    np.testing.assert_array_equal(learned.refinement.states[: len(kept)], kept.states)
    assert world.resets == learned.episodes


def test_early_ends_are_refined():
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False, map_name="4x4")
    functions = [lambda s, a, n, r: float(n == 15), lambda s, a, n, r: float(n == 3)]
    learned = learn(MixRewards(lake, functions, horizon=8), episodes=1500, seed=0, resamples=0)
    assert learned.episodes == 1500
    assert learned.refinement is None or learned.refinement.horizon == 8


def test_an_environment_that_breaks_its_rules_while_it_is_refined_loses_nothing():
    class Broken(Counted):
        def step(self, action):
            state, reward, *rest = super().step(action)
            return state, 0.5 if self.resets > 400 else reward, *rest

    with pytest.raises(ExplorationError, match=r"reward of episode \d+, step \d+: found 0.5") as caught:
        learn(Broken(make_env("shop")), episodes=600, seed=0, resamples=0)
    assert caught.value.exploration.episodes == 300


@pytest.mark.parametrize("share", [-0.1, 1.0, 1.5])
def test_shares_are_refused_by_name(share):
    with pytest.raises(InputError, match="refine: found"):
        learn("shop", episodes=10, refine=share)


def test_only_whole_episodes_can_be_followed(explored):
    episodes, _ = explored
    with pytest.raises(InputError, match="data: found Moments, expected Episodes"):
        recover(Moments.of(episodes), following=episodes)


def test_gathered_episodes_of_other_worlds_do_not_mix(explored):
    episodes, _ = explored
    other = dataclasses.replace(episodes, num_states=5)
    with pytest.raises(InputError, match="other: found"):
        recover(other, following=episodes)
