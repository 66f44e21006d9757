"""Refinement that doubts: its draws leave the hill of the recovered model, and it begins once pairs are covered."""

from dataclasses import replace

import numpy as np

from rewardmix import problems, simulate, uniform
from rewardmix.learning import learn
from rewardmix.learning.learn_settings import COVERED_V0
from rewardmix.recovery import recover
from rewardmix.recovery.bootstrap import mixture_of_model, resampled
from rewardmix.recovery.recovery_result import Estimate


def test_a_draw_from_elsewhere_leaves_a_wrong_hill():
    """Two rooms that hang together by few looks, with the signs of one turned: EM from there stays there."""
    model = problems.make("probe")
    episodes = simulate(uniform(model), model, 600, seed=1)
    found = recover(episodes, weights="uniform")
    room = np.argmax(np.abs(found.model.rewards[0] - found.model.rewards[1]).max(axis=1))
    rewards = found.model.rewards.copy()
    rewards[:, room] = rewards[::-1, room]
    wrong = Estimate(replace(found.model, rewards=rewards), found.fixed_weights, (), 1)

    def off(elsewhere):
        right = mixture_of_model(found.model, episodes).laws
        for drawn in resampled(episodes, wrong, resamples=8, seed=0, elsewhere=elsewhere):
            laws = mixture_of_model(drawn, episodes).laws
            yield min(np.abs(laws - right).max(), np.abs(laws[::-1] - right).max()) > 0.5

    assert sum(off(0)) >= 6
    assert sum(off(4)) <= 2


def test_without_starts_elsewhere_a_bootstrap_keeps_its_bits():
    model = problems.make("random", states=3, actions=2, horizon=4, seed=0)
    episodes = simulate(uniform(model), model, 200, seed=0)
    found = recover(episodes)
    for one, other in zip(
        resampled(episodes, found, resamples=2, seed=3),
        resampled(episodes, found, resamples=2, seed=3, elsewhere=0),
        strict=True,
    ):
        np.testing.assert_array_equal(one.rewards, other.rewards)


def test_what_is_not_ready_at_half_is_refined_once_pairs_are_covered():
    """Seed 9 ended with a wrong sign in the vault when exploration went on to the end of the budget."""
    learned = learn(problems.make("lock", steps=6, actions=5), episodes=2000, seed=9, resamples=0)
    assert 1000 < learned.exploration.episodes < 2000
    assert learned.exploration.uncertainty <= COVERED_V0
    assert learned.episodes == 2000
    assert learned.certificate.truth.share > 0.99


def test_signs_of_a_vault_that_few_episodes_reach_are_found():
    """Seed 8 kept the signs of thirty looks, and no draw of the present model ever doubted them."""
    learned = learn(problems.make("lock", steps=12), episodes=2000, seed=8, resamples=0)
    assert learned.certificate.truth.share > 0.99
