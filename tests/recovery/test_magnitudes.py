from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog

from recovery.sets import around, random_set, with_centres
from rewardmix import RewardMixingMDP
from rewardmix.recovery.linear_program import (
    caps,
    feasible_point,
    growth,
    magnitudes,
    minimise,
    one_sided_caps,
    program_of,
)


def linear_program(rows):
    """scipy's linprog on every row at once."""
    size = rows.floor.size
    upper = np.zeros((rows.first.size, size))
    upper[np.arange(rows.first.size), rows.first] = upper[np.arange(rows.first.size), rows.second] = 1.0
    low = np.isfinite(rows.low)
    matrix, bound = np.concatenate([upper, -upper[low]]), np.concatenate([rows.high, -rows.low[low]])
    return linprog(np.ones(size), matrix, bound, bounds=np.stack([rows.floor, rows.cap], axis=1))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("share", [1.0, 0.4])
def test_row_generation_has_the_objective_of_all_rows(seed, share):
    box, spread = random_set(15, seed=seed, share=share)
    rows = program_of(box)
    found, expected = magnitudes(box), linear_program(rows)
    assert expected.status == 0
    assert found.status == "feasible"
    assert found.objective == pytest.approx(expected.fun, abs=1e-5)
    total = found.log[rows.first] + found.log[rows.second]
    assert (total <= rows.high + 1e-6).all()
    assert (total >= rows.low - 1e-6).all()
    truth = np.log(np.maximum(np.abs(spread), 1e-30))
    assert found.objective <= np.maximum(truth, rows.floor).sum() + 1e-6


@pytest.mark.parametrize("seed", range(30))
def test_feasibility_is_that_of_linprog(seed):
    box, _ = random_set(6, seed=seed, noise=3.0)
    rows = program_of(box)
    point, cycle = feasible_point(rows)
    assert (point is None) == (linear_program(rows).status == 2)
    if point is not None:
        total = point[rows.first] + point[rows.second]
        assert (total <= rows.high + 1e-6).all()
        assert (total >= rows.low - 1e-6).all()
    else:
        assert cycle is not None
        assert cycle.length < 0
        balance = np.zeros(6)  # around a contradiction every magnitude cancels
        for i, j, upper in cycle.pairs:
            balance[i] += 1 if upper else -1
            balance[j] += 1 if upper else -1
        np.testing.assert_array_equal(balance, 0)


def test_seeds_above_cover_both_outcomes():
    verdicts = {feasible_point(program_of(random_set(6, seed=seed, noise=3.0)[0]))[1] is None for seed in range(30)}
    assert verdicts == {True, False}


def test_kappa_is_the_least_growth_that_helps():
    for seed in range(30):
        box, _ = random_set(6, seed=seed, noise=3.0)
        _, cycle = feasible_point(program_of(box))
        if cycle is None:
            continue
        kappa = growth(box, None, cycle)
        assert kappa > 1.0
        assert feasible_point(program_of(box.grown(kappa * 1.0001)))[1] is None
        assert feasible_point(program_of(box.grown(kappa * 0.999)))[1] is not None
        answer = magnitudes(box)
        assert answer.kappa == pytest.approx(kappa)
        assert answer.status == ("grown" if kappa <= 1.5 else "elastic")


def test_a_planted_contradiction_is_named():
    box, spread = random_set(12, seed=3, noise=0.1, zero=0.0)
    bad = int(np.flatnonzero((box.first != box.second) & (np.abs(box.centre) > 0.02))[0])
    centre = box.centre.copy()
    centre[bad] *= 8.0
    answer = magnitudes(with_centres(box, centre))
    pair = (int(box.first[bad]), int(box.second[bad]))
    assert answer.status == "elastic"
    assert answer.kappa > 1.5
    assert pair in {tuple(sorted(entry[:2])) for entry in answer.contradiction.pairs}
    assert answer.broken == (pair,)
    others = np.abs(np.exp(answer.log) - np.abs(spread))
    assert others.max() < 0.15


def test_a_contradiction_without_width_never_goes_away():
    box, _ = random_set(5, seed=0, noise=0.0, radius=0.0, zero=0.0)
    centre = box.centre.copy()
    centre[1] *= 2.0
    assert magnitudes(with_centres(box, centre)).kappa == float("inf")


def test_a_pair_of_one_state_action_with_itself_is_a_bound():
    box, spread = random_set(4, seed=1, noise=0.0, radius=0.0, zero=0.0)
    own = box.first == box.second
    alone = replace(
        box, first=box.first[own], second=box.second[own], centre=box.centre[own], radius=box.radius[own],
        deviation=box.deviation[own], null_deviation=box.null_deviation[own], counts=box.counts[own],
    )  # fmt: skip
    np.testing.assert_allclose(np.exp(magnitudes(alone).log), np.abs(spread), rtol=1e-6)


@pytest.mark.parametrize("w", [0.2, 0.5, 0.8])
def test_one_sided_caps_are_the_largest_spreads(w):
    average = np.linspace(0.0, 1.0, 11)
    weights = np.array([w, 1 - w])
    up, down = np.sqrt((1 - w) / w), np.sqrt(w / (1 - w))
    for sign, cap in zip((1, -1), one_sided_caps(average, weights), strict=True):
        for factor, fits in ((1.0, True), (1.001, False)):
            one, two = average + sign * up * cap * factor, average - sign * down * cap * factor
            inside = (one > -1e-12) & (one < 1 + 1e-12) & (two > -1e-12) & (two < 1 + 1e-12)
            assert inside[(cap > 0) | fits].all() == fits
    assert (np.maximum(*one_sided_caps(average, weights)) <= np.sqrt(average * (1 - average)) + 1e-12).all()


def largest_spread(average, w):
    """The largest |spread| of either sign with 0 <= p_1, p_2 <= 1, from the definition of both."""
    up, down = np.sqrt((1 - w) / w), np.sqrt(w / (1 - w))
    return max(
        min((1 - average) / up if sign > 0 else average / up, average / down if sign > 0 else (1 - average) / down)
        for sign in (1, -1)
    )


@pytest.mark.parametrize("w", [None, 0.05, 0.3, 0.5, 0.9])
def test_caps_hold_for_every_average_in_its_interval(w):
    rng = np.random.default_rng(0)
    box, _ = random_set(40, seed=0)
    box = replace(box, average=rng.random(40), average_radius=0.4 * rng.random(40) ** 2, tolerance=0.2)
    box = replace(box, average=np.where(np.arange(40) < 2, np.nan, box.average))
    found = caps(box, None if w is None else np.array([w, 1 - w]))
    known = 0.5 if w is None else w
    for k in range(40):
        low, high = box.average[k] - box.average_radius[k], box.average[k] + box.average_radius[k]
        grid = np.linspace(0, 1, 4001) if k < 2 else np.linspace(max(low, 0), min(high, 1), 4001)
        assert found[k] == pytest.approx(max(largest_spread(a, known) for a in grid) + 0.04, abs=1e-3)


@pytest.mark.parametrize("values", [2, 3])
@pytest.mark.parametrize("seed", range(60))
def test_the_program_is_feasible_on_every_set_that_holds_a_model_of_these_weights(seed, values):
    rng = np.random.default_rng(seed)
    w, states = rng.uniform(0.05, 0.95), int(rng.integers(2, 8))
    flat = np.full((states, 1, states), 1 / states)
    laws = rng.dirichlet(np.full(values, rng.uniform(0.2, 1.5)), (2, states, 1))
    model = RewardMixingMDP(flat, flat[0, 0], [w, 1 - w], laws, 4, np.arange(values))
    box = around(model, rng)
    assert box.contains(model)
    assert magnitudes(box, model.weights).status == "feasible"


def test_elastic_equals_strict_where_nothing_breaks():
    box, _ = random_set(10, seed=5)
    rows = program_of(box)
    strict, elastic = minimise(rows, elastic=False), minimise(rows, elastic=True)
    assert elastic[1] == ()
    assert strict[0].sum() == pytest.approx(elastic[0].sum(), abs=1e-5)
