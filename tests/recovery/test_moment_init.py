import numpy as np
import pytest

from helpers.confidence_sets import random_confidence_set, replace_centers
from rewardmix.recovery.moment_init import fit_rank_one

PAIRWISE = ("pair_first", "pair_second", "center", "radius", "standard_error", "null_standard_error", "pair_samples")


def distance(result, truth):
    return min(np.abs(result - truth).max(), np.abs(result + truth).max())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_exact_covariances_give_the_exact_spread(seed, share):
    box, spread = random_confidence_set(10, seed=seed, noise=0.0, share=share, zero=0.0)
    result = fit_rank_one(box, np.random.default_rng(0))
    assert distance(result.loadings, spread) < 1e-6
    assert not result.is_outlier.any()


def test_with_noise_it_is_as_good_as_least_squares_from_the_truth():
    from scipy.optimize import least_squares

    box, spread = random_confidence_set(12, seed=1)
    result = fit_rank_one(box, np.random.default_rng(0)).loadings
    other = least_squares(
        lambda v: (box.center - v[box.pair_first] * v[box.pair_second]) / box.standard_error,
        spread,
        loss="huber",
        f_scale=1.5,
    ).x
    assert distance(result, other) < 1e-4


@pytest.mark.parametrize("share", [0.01, 0.05])
def test_gross_pairs_are_found_and_do_little_harm(share):
    worse = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        box, spread = random_confidence_set(40, seed=seed)
        bad = rng.choice(box.pair_first.size, int(share * box.pair_first.size), replace=False)
        center = box.center.copy()
        center[bad] = 0.25 * rng.choice([-1, 1], bad.size)
        clean, dirty = fit_rank_one(box, rng), fit_rank_one(replace_centers(box, center), rng)
        assert dirty.is_outlier[bad].mean() > 0.9
        worse.append(distance(dirty.loadings, spread) / distance(clean.loadings, spread))
    assert np.mean(worse) < 1.5


def test_correct_pairs_of_rare_rewards_are_not_gross():
    from rewardmix import RewardMixingMDP, simulate, uniform_policy
    from rewardmix.moments import Moments
    from rewardmix.recovery import confidence_set

    rng = np.random.default_rng(0)
    flat = np.full((8, 1, 8), 1 / 8)
    result = plain = 0
    for seed in range(16):
        rewards = np.stack([rng.uniform(0.3, 0.95, (8, 1)), np.full((8, 1), 0.02)])
        model = RewardMixingMDP(flat, np.full(8, 1 / 8), [0.05, 0.95], rewards, 6)
        box = confidence_set(
            Moments.from_episodes(simulate(uniform_policy(model), model, 300 if seed % 2 else 1000, seed=seed))
        )
        fit = fit_rank_one(box, rng)
        result += int(fit.is_outlier.sum())
        off = np.abs(box.center - fit.loadings[box.pair_first] * fit.loadings[box.pair_second])
        plain += int((off > 5.0 * box.null_standard_error).sum())
    assert result == 0
    assert plain > 3  # what the error of independent rewards would have disbelieved


def test_a_pair_is_gross_in_its_own_deviations_too_and_the_fit_does_not_weigh_by_them():
    from dataclasses import replace

    box, _ = random_confidence_set(12, seed=4)
    rare = int(np.flatnonzero(box.pair_first != box.pair_second)[5])
    center = box.center.copy()
    center[rare] += 8.0 * box.standard_error[rare]
    far = replace_centers(box, center)
    errors = far.standard_error.copy()
    errors[rare] *= 10.0  # one joint success among rare ones: far from the fit, and known badly
    plain, unsure = (
        fit_rank_one(intervals, np.random.default_rng(0)) for intervals in (far, replace(far, standard_error=errors))
    )
    assert plain.is_outlier[rare]
    assert not unsure.is_outlier[rare]
    np.testing.assert_array_equal(unsure.loadings, plain.loadings)


def test_two_sides_that_never_meet_within_themselves_are_balanced():
    from dataclasses import replace

    box, spread = random_confidence_set(6, seed=2, noise=0.0, zero=0.0)
    across = (box.pair_first < 3) & (box.pair_second >= 3)
    piece = {name: getattr(box, name)[across] for name in PAIRWISE}
    result = fit_rank_one(replace(box, **piece), np.random.default_rng(0))
    assert result.bipartite_points.all()
    product = np.outer(result.loadings[:3], result.loadings[3:])
    np.testing.assert_allclose(product, np.outer(spread[:3], spread[3:]), atol=1e-7)
    assert np.square(result.loadings[:3]).mean() == pytest.approx(np.square(result.loadings[3:]).mean())


def test_what_no_pair_tells_has_no_spread():
    from dataclasses import replace

    box, _ = random_confidence_set(4, seed=3)
    piece = {name: getattr(box, name)[:0] for name in PAIRWISE}
    np.testing.assert_array_equal(fit_rank_one(replace(box, **piece), np.random.default_rng(0)).loadings, 0.0)
