from itertools import permutations

import numpy as np
import pytest

from recovery.oracles_recovery import random_mixture
from rewardmix import problems
from rewardmix.recovery import aligned
from rewardmix.recovery.recovery_result import alignment, canonical


@pytest.mark.parametrize("contexts", [2, 3, 5])
def test_the_order_does_not_depend_on_the_order(contexts):
    rng = np.random.default_rng(contexts)
    mixture = random_mixture(rng, contexts, 4, 3)
    values = np.array([0.0, 1.0, 5.0])
    found = set()
    for order in permutations(range(contexts)):
        order = np.array(order)
        chosen = order[canonical(mixture.weights[order], mixture.laws[order], values, False)]
        found.add(tuple(chosen.tolist()))
    assert len(found) == 1


def test_given_weights_keep_their_places():
    laws = np.array([[[0.9, 0.1]], [[0.1, 0.9]], [[0.5, 0.5]]])
    values = np.array([0.0, 1.0])
    np.testing.assert_array_equal(canonical(np.array([0.5, 0.3, 0.2]), laws, values, True), [0, 1, 2])
    np.testing.assert_array_equal(canonical(np.array([0.25, 0.25, 0.5]), laws, values, True), [1, 0, 2])
    np.testing.assert_array_equal(canonical(np.array([0.5, 0.3, 0.2]), laws, values, False), [1, 2, 0])


@pytest.mark.parametrize("contexts", [2, 3, 5])
def test_alignment_undoes_a_permutation(contexts):
    rng = np.random.default_rng(contexts)
    laws = random_mixture(rng, contexts, 4).laws
    order = rng.permutation(contexts)
    noisy = laws[order] + 0.01 * rng.normal(size=laws.shape)
    np.testing.assert_array_equal(order[alignment(noisy, laws)], np.arange(contexts))


def test_aligned_moves_weights_along():
    model = problems.make("random", states=2, actions=2, horizon=3, seed=0, weights=(0.3, 0.7))
    from dataclasses import replace

    turned = replace(model, weights=model.weights[::-1], rewards=model.rewards[::-1])
    back = aligned(turned, model)
    np.testing.assert_array_equal(back.weights, model.weights)
    np.testing.assert_array_equal(back.rewards, model.rewards)
