from dataclasses import replace
from itertools import combinations, pairwise, product

import numpy as np
import pytest

from helpers.confidence_sets import random_confidence_set
from rewardmix.recovery.signs import (
    _flip_while_improving,
    bipartite_sides,
    build_spanning_forest,
    connected_components,
    solve_parity,
    solve_signs,
    spectral_signs,
)


def random_pairs(rng, size, share):
    pairs = [pair for pair in combinations(range(size), 2) if rng.random() < share]
    return np.array([i for i, _ in pairs], np.int64), np.array([j for _, j in pairs], np.int64)


@pytest.mark.parametrize("seed", range(40))
def test_parities_against_all_assignments(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 9))
    first, second = random_pairs(rng, size, 0.4)
    positive = rng.random(first.size) < 0.5
    if seed % 2:  # half of the systems can be satisfied
        truth = rng.choice([-1, 1], size)
        positive = truth[first] == truth[second]
    result = solve_parity(first, second, positive, rng.random(first.size), size)
    target = np.where(positive, 1, -1)
    solutions = [
        signs
        for signs in map(np.array, product((1, -1), repeat=size))
        if (signs[first] * signs[second] == target).all()
    ]
    assert (not result.conflicts) == bool(solutions)
    if solutions:
        assert (result.signs[first] * result.signs[second] == target).all()
        assert len(solutions) == 2 ** (result.groups.max() + 1)
        for signs in solutions:  # every solution is ours, group by group up to a common sign
            for group in range(result.groups.max() + 1):
                members = result.groups == group
                assert abs((signs[members] * result.signs[members]).sum()) == members.sum()
    else:
        sign_of_pair = {(int(i), int(j)): int(s) for i, j, s in zip(first, second, target, strict=True)}
        loop = [*result.odd_cycle, result.odd_cycle[0]]
        signs = [sign_of_pair[tuple(sorted(pair))] for pair in pairwise(loop)]
        assert np.prod(signs) == -1


def test_the_weakest_pair_of_a_contradiction_is_blamed():
    first, second = np.array([0, 1, 0]), np.array([1, 2, 2])
    result = solve_parity(first, second, np.array([True, True, False]), np.array([3.0, 1.0, 2.0]), 3)
    assert result.conflicts == ((1, 2),)
    assert sorted(result.odd_cycle) == [0, 1, 2]
    np.testing.assert_array_equal(result.signs, [1, 1, -1])


def test_pairs_are_believed_in_the_order_of_their_radii_not_of_their_size():
    box, _ = random_confidence_set(3, seed=0)
    rows = {
        "pair_first": np.array([0, 0, 1]),
        "pair_second": np.array([1, 2, 2]),
        "center": np.array([0.2, -0.01, 0.02]),
    }
    box = replace(box, **rows, radius=np.array([0.19, 0.001, 0.002]))  # the largest is the least sure
    result = solve_signs(box)
    assert result.conflicts == ((0, 1),)
    np.testing.assert_array_equal(result.signs, [1, -1, -1])
    assert solve_signs(replace(box, radius=np.array([0.001, 0.009, 0.002]))).conflicts == ((0, 2),)


@pytest.mark.parametrize("seed", range(12))
def test_spectral_signs_reach_the_best_agreement(seed):
    rng = np.random.default_rng(seed)
    size = 9
    first, second = random_pairs(rng, size, 0.8)
    truth = rng.choice([-1, 1], size)
    scores = 2.5 * truth[first] * truth[second] + rng.normal(size=first.size)
    scores[0] = -50.0 * truth[first[0]] * truth[second[0]]  # one grossly wrong pair
    signs = spectral_signs(first, second, scores, size, rng)
    votes = np.clip(scores, -4, 4)
    best = max((votes * s[first] * s[second]).sum() for s in map(np.array, product((1, -1), repeat=size)))
    assert (votes * signs[first] * signs[second]).sum() == pytest.approx(best)


def test_a_weak_bridge_between_two_blocks_is_crossed_the_right_way():
    size = 12
    truth = np.array([1, -1] * 6)
    pairs = [(i, j) for i, j in combinations(range(size), 2) if (i < 6) == (j < 6)]
    pairs += [(5, 6), (4, 7), (3, 8)]
    first, second = (np.array(side, np.int64) for side in zip(*pairs, strict=True))
    scores = 4.0 * truth[first] * truth[second].astype(float)
    scores[-3:] *= 0.2
    for seed in range(10):
        signs = spectral_signs(first, second, scores, size, np.random.default_rng(seed))
        assert abs((signs * truth).sum()) == size


def test_a_block_that_begins_the_wrong_way_is_turned_as_a_whole():
    """Turning one coordinate only makes it worse: the whole branch has to go, whatever holds it together inside."""
    first, second = (np.array(side, np.int64) for side in zip(*combinations(range(8), 2), strict=True))
    inside = (first < 4) == (second < 4)
    votes = np.where(inside, 4.0, 0.1)
    signs = np.array([1] * 4 + [-1] * 4)
    _flip_while_improving(first, second, votes, signs, *build_spanning_forest(first, second, votes, 8))
    assert abs(signs.sum()) == 8


@pytest.mark.parametrize("seed", range(20))
def test_components_and_two_sidedness_by_search(seed):
    rng = np.random.default_rng(seed)
    size = 8
    first, second = random_pairs(rng, size, 0.2)
    if seed % 3 == 0:
        first, second = np.append(first, 2), np.append(second, 2)
    adjacency = np.eye(size, dtype=bool)
    adjacency[first, second] = adjacency[second, first] = True
    reachable = np.linalg.matrix_power(adjacency.astype(int), size) > 0
    number = connected_components(first, second, size)
    np.testing.assert_array_equal(number[:, None] == number[None, :], reachable)
    assert number[0] == 0
    sided = bipartite_sides(first, second, size) >= 0
    edges = list(zip(first.tolist(), second.tolist(), strict=True))
    for node in range(size):
        members = set(np.flatnonzero(reachable[node]).tolist())
        component_edges = [(i, j) for i, j in edges if i in members]
        colourable = any(all(side[i] != side[j] for i, j in component_edges) for side in product((0, 1), repeat=size))
        assert sided[node] == (colourable and len(members) > 1)
