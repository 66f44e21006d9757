import numpy as np
import pytest

from recovery.sets import random_set, with_centres
from rewardmix.recovery.rank_one import rank_one


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


def test_two_sides_that_never_meet_within_themselves_are_balanced():
    from dataclasses import replace

    box, spread = random_set(6, seed=2, noise=0.0, zero=0.0)
    across = (box.first < 3) & (box.second >= 3)
    part = {name: getattr(box, name)[across] for name in ("first", "second", "centre", "radius", "deviation", "counts")}
    found = rank_one(replace(box, **part), np.random.default_rng(0))
    assert found.two_sided.all()
    product = np.outer(found.spread[:3], found.spread[3:])
    np.testing.assert_allclose(product, np.outer(spread[:3], spread[3:]), atol=1e-7)
    assert np.square(found.spread[:3]).mean() == pytest.approx(np.square(found.spread[3:]).mean())


def test_what_no_pair_tells_has_no_spread():
    from dataclasses import replace

    box, _ = random_set(4, seed=3)
    part = {name: getattr(box, name)[:0] for name in ("first", "second", "centre", "radius", "deviation", "counts")}
    np.testing.assert_array_equal(rank_one(replace(box, **part), np.random.default_rng(0)).spread, 0.0)
