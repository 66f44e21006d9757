import numpy as np
import pytest

from recovery.sets import random_set, with_centres
from rewardmix.recovery.moment_start import rank_one

PAIRWISE = ("first", "second", "centre", "radius", "deviation", "null_deviation", "counts")


def distance(found, truth):
    return min(np.abs(found - truth).max(), np.abs(found + truth).max())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_exact_covariances_give_the_exact_spread(seed, share):
    box, spread = random_set(10, seed=seed, noise=0.0, share=share, zero=0.0)
    found = rank_one(box, np.random.default_rng(0))
    assert distance(found.spread, spread) < 1e-6
    assert not found.gross.any()


def test_with_noise_it_is_as_good_as_least_squares_from_the_truth():
    from scipy.optimize import least_squares

    box, spread = random_set(12, seed=1)
    found = rank_one(box, np.random.default_rng(0)).spread
    other = least_squares(
        lambda v: (box.centre - v[box.first] * v[box.second]) / box.deviation, spread, loss="huber", f_scale=1.5
    ).x
    assert distance(found, other) < 1e-4


@pytest.mark.parametrize("share", [0.01, 0.05])
def test_gross_pairs_are_found_and_do_little_harm(share):
    worse = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        box, spread = random_set(40, seed=seed)
        bad = rng.choice(box.first.size, int(share * box.first.size), replace=False)
        centre = box.centre.copy()
        centre[bad] = 0.25 * rng.choice([-1, 1], bad.size)
        clean, dirty = rank_one(box, rng), rank_one(with_centres(box, centre), rng)
        assert dirty.gross[bad].mean() > 0.9
        worse.append(distance(dirty.spread, spread) / distance(clean.spread, spread))
    assert np.mean(worse) < 1.5


def test_correct_pairs_of_rare_rewards_are_not_gross():
    from rewardmix import RewardMixingMDP, simulate, uniform
    from rewardmix.moments import Moments
    from rewardmix.recovery import confidence_set

    rng = np.random.default_rng(0)
    flat = np.full((8, 1, 8), 1 / 8)
    found = plain = 0
    for seed in range(16):
        rewards = np.stack([rng.uniform(0.3, 0.95, (8, 1)), np.full((8, 1), 0.02)])
        model = RewardMixingMDP(flat, np.full(8, 1 / 8), [0.05, 0.95], rewards, 6)
        box = confidence_set(Moments.of(simulate(uniform(model), model, 300 if seed % 2 else 1000, seed=seed)))
        fit = rank_one(box, rng)
        found += int(fit.gross.sum())
        off = np.abs(box.centre - fit.spread[box.first] * fit.spread[box.second])
        plain += int((off > 5.0 * box.null_deviation).sum())
    assert found == 0
    assert plain > 3  # what the error of independent rewards would have disbelieved


def test_a_pair_is_gross_in_its_own_deviations_too_and_the_fit_does_not_weigh_by_them():
    from dataclasses import replace

    box, _ = random_set(12, seed=4)
    rare = int(np.flatnonzero(box.first != box.second)[5])
    centre = box.centre.copy()
    centre[rare] += 8.0 * box.deviation[rare]
    far = with_centres(box, centre)
    own = far.deviation.copy()
    own[rare] *= 10.0  # one joint success among rare ones: far from the fit, and known badly
    plain, unsure = (rank_one(one, np.random.default_rng(0)) for one in (far, replace(far, deviation=own)))
    assert plain.gross[rare]
    assert not unsure.gross[rare]
    np.testing.assert_array_equal(unsure.spread, plain.spread)


def test_two_sides_that_never_meet_within_themselves_are_balanced():
    from dataclasses import replace

    box, spread = random_set(6, seed=2, noise=0.0, zero=0.0)
    across = (box.first < 3) & (box.second >= 3)
    part = {name: getattr(box, name)[across] for name in PAIRWISE}
    found = rank_one(replace(box, **part), np.random.default_rng(0))
    assert found.two_sided.all()
    product = np.outer(found.spread[:3], found.spread[3:])
    np.testing.assert_allclose(product, np.outer(spread[:3], spread[3:]), atol=1e-7)
    assert np.square(found.spread[:3]).mean() == pytest.approx(np.square(found.spread[3:]).mean())


def test_what_no_pair_tells_has_no_spread():
    from dataclasses import replace

    box, _ = random_set(4, seed=3)
    part = {name: getattr(box, name)[:0] for name in PAIRWISE}
    np.testing.assert_array_equal(rank_one(replace(box, **part), np.random.default_rng(0)).spread, 0.0)
