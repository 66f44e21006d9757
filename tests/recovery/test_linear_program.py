from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from helpers.confidence_sets import confidence_set_around, random_confidence_set, replace_centers
from rewardmix import RewardMixingMDP
from rewardmix.recovery.linear_program import (
    find_feasible_point,
    magnitude_caps,
    make_constraints,
    min_radius_inflation,
    minimize_magnitudes,
    one_sided_caps,
    solve_magnitudes,
)


def linear_program(rows):
    """scipy's linprog on every row at once."""
    size = rows.min_value.size
    upper = np.zeros((rows.first.size, size))
    upper[np.arange(rows.first.size), rows.first] = upper[np.arange(rows.first.size), rows.second] = 1.0
    low = np.isfinite(rows.lower)
    matrix, bound = np.concatenate([upper, -upper[low]]), np.concatenate([rows.upper, -rows.lower[low]])
    return linprog(np.ones(size), matrix, bound, bounds=np.stack([rows.min_value, rows.max_value], axis=1))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("share", [1.0, 0.4])
def test_row_generation_has_the_objective_of_all_rows(seed, share):
    box, spread = random_confidence_set(15, seed=seed, share=share)
    rows = make_constraints(box)
    result, expected = solve_magnitudes(box), linear_program(rows)
    assert expected.status == 0
    assert result.status == "feasible"
    assert result.objective == pytest.approx(expected.fun, abs=1e-5)
    total = result.log_magnitudes[rows.first] + result.log_magnitudes[rows.second]
    assert (total <= rows.upper + 1e-6).all()
    assert (total >= rows.lower - 1e-6).all()
    truth = np.log(np.maximum(np.abs(spread), 1e-30))
    assert result.objective <= np.maximum(truth, rows.min_value).sum() + 1e-6


@pytest.mark.parametrize("seed", range(30))
def test_feasibility_is_that_of_linprog(seed):
    box, _ = random_confidence_set(6, seed=seed, noise=3.0)
    rows = make_constraints(box)
    point, cycle = find_feasible_point(rows)
    assert (point is None) == (linear_program(rows).status == 2)
    if point is not None:
        total = point[rows.first] + point[rows.second]
        assert (total <= rows.upper + 1e-6).all()
        assert (total >= rows.lower - 1e-6).all()
    else:
        assert cycle is not None
        assert cycle.slack < 0
        balance = np.zeros(6)  # around a contradiction every magnitude cancels
        for i, j, upper in cycle.pairs:
            balance[i] += 1 if upper else -1
            balance[j] += 1 if upper else -1
        np.testing.assert_array_equal(balance, 0)


def test_seeds_above_cover_both_outcomes():
    verdicts = {
        find_feasible_point(make_constraints(random_confidence_set(6, seed=seed, noise=3.0)[0]))[1] is None
        for seed in range(30)
    }
    assert verdicts == {True, False}


def test_kappa_is_the_least_growth_that_helps():
    for seed in range(30):
        box, _ = random_confidence_set(6, seed=seed, noise=3.0)
        _, cycle = find_feasible_point(make_constraints(box))
        if cycle is None:
            continue
        kappa = min_radius_inflation(box, None, cycle)
        assert kappa > 1.0
        assert find_feasible_point(make_constraints(box.scale_radii(kappa * 1.0001)))[1] is None
        assert find_feasible_point(make_constraints(box.scale_radii(kappa * 0.999)))[1] is not None
        answer = solve_magnitudes(box)
        assert answer.radius_inflation == pytest.approx(kappa)
        assert answer.status == ("inflated" if kappa <= 1.5 else "elastic")


def test_a_planted_contradiction_is_named():
    box, spread = random_confidence_set(12, seed=3, noise=0.1, zero=0.0)
    bad = int(np.flatnonzero((box.pair_first != box.pair_second) & (np.abs(box.center) > 0.02))[0])
    center = box.center.copy()
    center[bad] *= 8.0
    answer = solve_magnitudes(replace_centers(box, center))
    pair = (int(box.pair_first[bad]), int(box.pair_second[bad]))
    assert answer.status == "elastic"
    assert answer.radius_inflation > 1.5
    assert pair in {tuple(sorted(entry[:2])) for entry in answer.contradiction.pairs}
    assert answer.violated_pairs == (pair,)
    others = np.abs(np.exp(answer.log_magnitudes) - np.abs(spread))
    assert others.max() < 0.15


def test_a_contradiction_without_width_never_goes_away():
    box, _ = random_confidence_set(5, seed=0, noise=0.0, radius=0.0, zero=0.0)
    center = box.center.copy()
    center[1] *= 2.0
    assert solve_magnitudes(replace_centers(box, center)).radius_inflation == float("inf")


def test_a_pair_of_one_state_action_with_itself_is_a_bound():
    box, spread = random_confidence_set(4, seed=1, noise=0.0, radius=0.0, zero=0.0)
    diagonal = box.pair_first == box.pair_second
    diagonal_set = replace(
        box, pair_first=box.pair_first[diagonal], pair_second=box.pair_second[diagonal], center=box.center[diagonal],
        radius=box.radius[diagonal],
        standard_error=box.standard_error[diagonal], null_standard_error=box.null_standard_error[diagonal],
        pair_samples=box.pair_samples[diagonal],
    )  # fmt: skip
    np.testing.assert_allclose(np.exp(solve_magnitudes(diagonal_set).log_magnitudes), np.abs(spread), rtol=1e-6)


@pytest.mark.parametrize("w", [0.2, 0.5, 0.8])
def test_one_sided_caps_are_the_largest_spreads(w):
    marginals = np.linspace(0.0, 1.0, 11)
    weights = np.array([w, 1 - w])
    up, down = np.sqrt((1 - w) / w), np.sqrt(w / (1 - w))
    for sign, cap in zip((1, -1), one_sided_caps(marginals, weights), strict=True):
        for factor, fits in ((1.0, True), (1.001, False)):
            p_1, p_2 = marginals + sign * up * cap * factor, marginals - sign * down * cap * factor
            inside = (p_1 > -1e-12) & (p_1 < 1 + 1e-12) & (p_2 > -1e-12) & (p_2 < 1 + 1e-12)
            assert inside[(cap > 0) | fits].all() == fits
    assert (np.maximum(*one_sided_caps(marginals, weights)) <= np.sqrt(marginals * (1 - marginals)) + 1e-12).all()


def largest_spread(average, w):
    """The largest |spread| of either sign with 0 <= p_1, p_2 <= 1, from the definition of both."""
    up, down = np.sqrt((1 - w) / w), np.sqrt(w / (1 - w))
    return max(
        min((1 - average) / up if sign > 0 else average / up, average / down if sign > 0 else (1 - average) / down)
        for sign in (1, -1)
    )


@pytest.mark.system
@pytest.mark.parametrize("w", [None, 0.05, 0.3, 0.5, 0.9])
def test_caps_hold_for_every_average_in_its_interval(w):
    rng = np.random.default_rng(0)
    box, _ = random_confidence_set(40, seed=0)
    box = replace(box, marginals=rng.random(40), marginal_radius=0.4 * rng.random(40) ** 2, tolerance=0.2)
    box = replace(box, marginals=np.where(np.arange(40) < 2, np.nan, box.marginals))
    caps = magnitude_caps(box, None if w is None else np.array([w, 1 - w]))
    weight = 0.5 if w is None else w
    for k in range(40):
        low, high = box.marginals[k] - box.marginal_radius[k], box.marginals[k] + box.marginal_radius[k]
        grid = np.linspace(0, 1, 4001) if k < 2 else np.linspace(max(low, 0), min(high, 1), 4001)
        assert caps[k] == pytest.approx(max(largest_spread(a, weight) for a in grid) + 0.04, abs=1e-3)


@pytest.mark.parametrize("values", [2, 3])
@pytest.mark.parametrize("seed", range(60))
def test_the_program_is_feasible_on_every_set_that_holds_a_model_of_these_weights(seed, values):
    rng = np.random.default_rng(seed)
    w, states = rng.uniform(0.05, 0.95), int(rng.integers(2, 8))
    flat = np.full((states, 1, states), 1 / states)
    probs = rng.dirichlet(np.full(values, rng.uniform(0.2, 1.5)), (2, states, 1))
    model = RewardMixingMDP(flat, flat[0, 0], [w, 1 - w], probs, 4, np.arange(values))
    box = confidence_set_around(model, rng)
    assert box.contains(model)
    assert solve_magnitudes(box, model.weights).status == "feasible"


def test_elastic_equals_strict_where_nothing_breaks():
    box, _ = random_confidence_set(10, seed=5)
    rows = make_constraints(box)
    strict, elastic = minimize_magnitudes(rows, elastic=False), minimize_magnitudes(rows, elastic=True)
    assert elastic[1] == ()
    assert strict[0].sum() == pytest.approx(elastic[0].sum(), abs=1e-5)
