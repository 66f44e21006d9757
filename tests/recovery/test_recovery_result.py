from itertools import permutations

import numpy as np
import pytest

from oracles.mixtures import random_mixture
from rewardmix import problems
from rewardmix.recovery import align_types
from rewardmix.recovery.recovery_result import canonical_order, match_order


@pytest.mark.parametrize("num_types", [2, 3, 5])
def test_the_order_does_not_depend_on_the_order(num_types):
    rng = np.random.default_rng(num_types)
    mixture = random_mixture(rng, num_types, 4, 3)
    values = np.array([0.0, 1.0, 5.0])
    result = set()
    for order in permutations(range(num_types)):
        order = np.array(order)
        chosen = order[canonical_order(mixture.weights[order], mixture.probs[order], values, False)]
        result.add(tuple(chosen.tolist()))
    assert len(result) == 1


def test_given_weights_keep_their_places():
    probs = np.array([[[0.9, 0.1]], [[0.1, 0.9]], [[0.5, 0.5]]])
    values = np.array([0.0, 1.0])
    np.testing.assert_array_equal(canonical_order(np.array([0.5, 0.3, 0.2]), probs, values, True), [0, 1, 2])
    np.testing.assert_array_equal(canonical_order(np.array([0.25, 0.25, 0.5]), probs, values, True), [1, 0, 2])
    np.testing.assert_array_equal(canonical_order(np.array([0.5, 0.3, 0.2]), probs, values, False), [1, 2, 0])


@pytest.mark.parametrize("num_types", [2, 3, 5])
def test_alignment_undoes_a_permutation(num_types):
    rng = np.random.default_rng(num_types)
    probs = random_mixture(rng, num_types, 4).probs
    order = rng.permutation(num_types)
    noisy = probs[order] + 0.01 * rng.normal(size=probs.shape)
    np.testing.assert_array_equal(order[match_order(noisy, probs)], np.arange(num_types))


def test_aligned_moves_weights_along():
    model = problems.make_model("random", states=2, actions=2, horizon=3, seed=0, weights=(0.3, 0.7))
    from dataclasses import replace

    turned = replace(model, weights=model.weights[::-1], rewards=model.rewards[::-1])
    back = align_types(turned, model)
    np.testing.assert_array_equal(back.weights, model.weights)
    np.testing.assert_array_equal(back.rewards, model.rewards)
