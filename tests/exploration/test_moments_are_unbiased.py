"""Statistics of what exploration gathers: unbiased pairs, and radii that cover the truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rewardmix import problems, theory
from rewardmix.exploration import all_pairs, explore, selected

RUNS = 1000


@pytest.fixture(scope="module", params=[all_pairs, selected], ids=lambda c: c.name)
def runs(request):
    model = problems.make("random", states=2, actions=2, horizon=4, seed=4, separation=0.3, weights=(0.35, 0.65))
    found = [explore(model, episodes=60, counts=request.param, seed=seed, keep=False).moments for seed in range(RUNS)]
    return model, found


def test_pair_products_have_the_exact_mean(runs):
    """The sum over runs of (product - exact) has mean zero for every pair: z-scores within an exact band."""
    model, found = runs
    average = model.average.ravel()
    exact = model.covariance() + np.outer(average, average)
    sums, squares = np.zeros((4, 4)), np.zeros((4, 4))
    for moments in found:
        x, y = moments.pairs
        off = moments.pair_tables[:, 1, 1] - moments.pair_samples * exact[x, y]
        sums[x, y] += off
        squares[x, y] += off**2
    upper = np.triu_indices(4)
    scores = sums[upper] / np.sqrt(squares[upper])
    assert np.abs(scores).max() < stats.norm.isf(1e-7)
    assert sum(m.pair_counts()[upper] for m in found).min() > 1000  # plenty of data: a bias of .1 would show


def test_averages_have_the_exact_mean(runs):
    model, found = runs
    off = np.array([m.outcomes[:, 1] - m.samples * model.average.ravel() for m in found])
    scores = off.sum(axis=0) / np.sqrt((off**2).sum(axis=0))
    assert np.abs(scores).max() < stats.norm.isf(1e-7)


def test_confidence_intervals_cover_the_truth(runs):
    """Averages, centred covariances, T and nu all inside, in at least 1 - failure of the runs (exact test)."""
    model, found = runs
    failure = 0.2
    missed = sum(not covered(model, moments, failure) for moments in found)
    assert stats.binomtest(missed, RUNS, failure, alternative="greater").pvalue > 1e-6


def test_the_check_of_coverage_can_fail(runs):
    model, found = runs
    other = problems.make("random", states=2, actions=2, horizon=4, seed=4, separation=0.02, weights=(0.35, 0.65))
    total = found[0]
    for moments in found[1:]:
        total = total + moments
    assert covered(model, total, 0.2)
    assert not covered(other, total, 0.2)


def covered(model, moments, failure):
    num_x = 4
    average = moments.frequencies[:, 1]
    radius = theory.average_radius(moments.samples, num_x, failure)
    inside = np.abs(average - model.average.ravel())[moments.samples > 0] <= radius[moments.samples > 0]
    x, y = moments.pairs
    n = moments.pair_samples
    tables = moments.pair_tables / n[:, None, None]
    mean_x, mean_y = tables[:, 1].sum(axis=1), tables[:, :, 1].sum(axis=1)
    centred = tables[:, 1, 1] - average[x] * mean_y - average[y] * mean_x + average[x] * average[y]
    width = theory.pair_radius(n, num_x, failure)
    width = width + centring_error(radius[x], radius[y], mean_x - average[x], mean_y - average[y])
    rows, visited = moments.transition_estimate()
    distance = np.abs(rows.toarray() - model.transition_rows).sum(axis=1)
    moves = distance[visited] <= theory.transition_radius(moments.visits[visited], 2, num_x, failure)
    start = np.abs(moments.initial_estimate() - model.initial).sum()
    return (
        inside.all()
        and (np.abs(centred - model.covariance()[x, y]) <= width).all()
        and moves.all()
        and start <= theory.initial_radius(moments.episodes, 2, failure)
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
