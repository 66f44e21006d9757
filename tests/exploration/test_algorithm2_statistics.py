"""Statistics of what exploration gathers: unbiased pairs, and radii that cover the truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rewardmix import problems, theory
from rewardmix.exploration import all_pairs, explore, selected_pairs

RUNS = 1000


@pytest.fixture(scope="module", params=[all_pairs, selected_pairs], ids=lambda c: c.name)
def runs(request):
    model = problems.make_model("random", states=2, actions=2, horizon=4, seed=4, separation=0.3, weights=(0.35, 0.65))
    result = [
        explore(model, num_episodes=60, counting=request.param, seed=seed, keep_episodes=False).moments
        for seed in range(RUNS)
    ]
    return model, result


def test_pair_products_have_the_exact_mean(runs):
    """The sum over runs of (product - exact) has mean zero for every pair: z-scores within an exact band."""
    model, result = runs
    average = model.marginal_rewards.ravel()
    exact = model.covariance() + np.outer(average, average)
    sums, squares = np.zeros((4, 4)), np.zeros((4, 4))
    for moments in result:
        x, y = moments.pairs
        off = moments.pair_tables[:, 1, 1] - moments.pair_samples * exact[x, y]
        sums[x, y] += off
        squares[x, y] += off**2
    upper = np.triu_indices(4)
    scores = sums[upper] / np.sqrt(squares[upper])
    assert np.abs(scores).max() < stats.norm.isf(1e-7)
    assert sum(m.pair_counts()[upper] for m in result).min() > 1000  # plenty of data: a bias of .1 would show


def test_averages_have_the_exact_mean(runs):
    model, result = runs
    off = np.array([m.reward_counts[:, 1] - m.num_samples * model.marginal_rewards.ravel() for m in result])
    scores = off.sum(axis=0) / np.sqrt((off**2).sum(axis=0))
    assert np.abs(scores).max() < stats.norm.isf(1e-7)


def test_confidence_intervals_cover_the_truth(runs):
    """Averages, centred covariances, T and nu all inside, in at least 1 - failure of the runs (exact test)."""
    model, result = runs
    failure_prob = 0.2
    missed = sum(not covered(model, moments, failure_prob) for moments in result)
    assert stats.binomtest(missed, RUNS, failure_prob, alternative="greater").pvalue > 1e-6


def test_the_check_of_coverage_can_fail(runs):
    model, result = runs
    other = problems.make_model("random", states=2, actions=2, horizon=4, seed=4, separation=0.02, weights=(0.35, 0.65))
    total = result[0]
    for moments in result[1:]:
        total = total + moments
    assert covered(model, total, 0.2)
    assert not covered(other, total, 0.2)


def covered(model, moments, failure_prob):
    num_state_actions = 4
    average = moments.reward_frequencies[:, 1]
    radius = theory.marginal_radius(moments.num_samples, num_state_actions, failure_prob)
    inside = (
        np.abs(average - model.marginal_rewards.ravel())[moments.num_samples > 0] <= radius[moments.num_samples > 0]
    )
    x, y = moments.pairs
    n = moments.pair_samples
    tables = moments.pair_tables / n[:, None, None]
    mean_x, mean_y = tables[:, 1].sum(axis=1), tables[:, :, 1].sum(axis=1)
    centred = tables[:, 1, 1] - average[x] * mean_y - average[y] * mean_x + average[x] * average[y]
    width = theory.pair_radius(n, num_state_actions, failure_prob)
    width = width + centring_error(radius[x], radius[y], mean_x - average[x], mean_y - average[y])
    rows, visited = moments.transition_estimate()
    distance = np.abs(rows.toarray() - model.transition_rows).sum(axis=1)
    transitions = distance[visited] <= theory.transition_radius(
        moments.visits[visited], 2, num_state_actions, failure_prob
    )
    start = np.abs(moments.initial_estimate() - model.initial).sum()
    return (
        inside.all()
        and (np.abs(centred - model.covariance()[x, y]) <= width).all()
        and transitions.all()
        and start <= theory.initial_radius(moments.num_episodes, 2, failure_prob)
    )


def centring_error(radius_x, radius_y, shift_x, shift_y):
    """What centring at averages off by at most their radius adds to a mean product (looser than recovery's).

    mean (u - e_x)(v - e_y) = mean u v - e_x mean v - e_y mean u + e_x e_y, with |mean v| <= shift_y + radius_y.
    """
    cross = radius_x * (np.abs(shift_y) + radius_y) + radius_y * (np.abs(shift_x) + radius_x)
    return cross + radius_x * radius_y


def test_centring_error_bounds_the_error():
    rng = np.random.default_rng(0)
    for _ in range(200):
        r = rng.integers(2, size=(2, 12))
        truth, error = rng.random(2), rng.uniform(-0.1, 0.1, size=2)
        guess = truth + error
        exact = np.mean((r[0] - truth[0]) * (r[1] - truth[1]))
        centred = np.mean((r[0] - guess[0]) * (r[1] - guess[1]))
        shift = np.abs(r.mean(axis=1) - guess)
        assert abs(centred - exact) <= centring_error(0.1, 0.1, *shift) + 1e-15
