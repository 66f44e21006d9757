"""Where climbing begins: laws of an average and a spread."""

import numpy as np
import pytest

from oracles.mixtures import random_mixture
from rewardmix.recovery.moment_init import loadings_to_probs, mixture_from_loadings, sign_patterns, smooth_mixture


@pytest.mark.parametrize("values", [2, 3])
@pytest.mark.parametrize("w", [0.1, 0.5, 0.8])
def test_average_and_spread_give_their_model_back(w, values):
    truth = random_mixture(np.random.default_rng(1), 2, 4, values, weights=[w, 1 - w])
    average = np.tensordot(truth.weights, truth.probs, axes=1)
    spread = np.sqrt(w * (1 - w)) * (truth.probs[0] - truth.probs[1])
    np.testing.assert_allclose(mixture_from_loadings(average, spread, truth.weights).probs, truth.probs, atol=1e-12)


def test_a_spread_that_is_too_long_is_shortened_and_keeps_the_average():
    average = np.array([[0.3, 0.7], [0.9, 0.1]])
    spread = loadings_to_probs(np.array([0.6, -0.2]), 2)
    weights = np.array([0.2, 0.8])
    probs = mixture_from_loadings(average, spread, weights).probs
    np.testing.assert_allclose(np.tensordot(weights, probs, axes=1), average, atol=1e-12)
    np.testing.assert_allclose(probs.sum(axis=2), 1.0, atol=1e-12)
    assert probs.min() == pytest.approx(0.0, abs=1e-12)
    assert probs[0, 0, 1] == pytest.approx(1.0)  # as far as it goes: 0.7 + 2 * 0.15
    assert probs[0, 1, 1] == pytest.approx(0.0)


def test_starts_lie_inside():
    mixture = mixture_from_loadings(np.array([[0.5, 0.5]]), np.array([[-0.5, 0.5]]), np.array([0.5, 0.5]))
    assert mixture.probs.min() == 0.0
    inside = smooth_mixture(mixture, np.array([[0.5, 0.5]]))
    assert inside.probs.min() == pytest.approx(0.02 * 0.5)
    np.testing.assert_allclose(inside.probs.sum(axis=2), 1.0)


def test_undecided_groups_are_turned_in_all_combinations():
    result = sign_patterns(np.array([0, 1, 2, 1]), np.array([1, 2]))
    assert {tuple(turn.tolist()) for turn in result} == {(1, -1, 1, -1), (1, 1, -1, 1), (1, -1, -1, -1)}
