"""Counts of triples against their definition, and their algebra."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pytest

from helpers.binomial_bands import assert_within
from rewardmix import InputError, load, problems, save, simulate, uniform_policy
from rewardmix.moments import Moments
from test_moments import drawn


def slow_triples(episodes):
    """The definition: every multiset of three state-actions, at the first visits that it takes."""
    result = Counter()
    for k in range(len(episodes)):
        when = {}
        for t in range(int(episodes.lengths[k])):
            x = int(episodes.states[k, t]) * episodes.num_actions + int(episodes.actions[k, t])
            when.setdefault(x, []).append(int(episodes.reward_indices[k, t]))
        for triple in combinations_with_replacement(sorted(when), 3):
            if all(len(when[x]) >= triple.count(x) for x in triple):
                visits = [triple[:i].count(x) for i, x in enumerate(triple)]
                result[triple + tuple(when[x][i] for x, i in zip(triple, visits, strict=True))] += 1
    return result


def as_counter(moments):
    cells = np.argwhere(moments.triple_tables)
    x, y, w = moments.triples
    return Counter(
        {(*(int(v[p]) for v in (x, y, w)), *map(int, zs)): int(moments.triple_tables[p, *zs]) for p, *zs in cells}
    )


SETTINGS = [
    {"early": True},
    {"values": (-1.0, 0.0, 2.5), "early": True, "horizon": 6, "num_states": 2},
    {"horizon": 1},
    {"horizon": 9, "num_states": 1, "num_actions": 1},
    {"num_states": 60, "num_actions": 3, "count": 300},  # X^3 far above the dense table
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_triples_are_those_of_the_definition(settings):
    episodes = drawn(5, **settings)
    moments = Moments.from_episodes(episodes, order=3)
    assert as_counter(moments) == slow_triples(episodes)
    assert replace(
        moments, triple_keys=np.empty(0, int), triple_tables=np.empty((0, 0, 0, 0), int)
    ) == Moments.from_episodes(episodes)


def test_triples_add_and_come_back_from_a_file(tmp_path):
    episodes = drawn(7, values=(0.0, 0.5, 1.0), early=True)
    moments = Moments.from_episodes(episodes, order=3)
    assert Moments.from_episodes(episodes[:90], order=3) + Moments.from_episodes(episodes[90:], order=3) == moments
    assert moments != Moments.from_episodes(episodes)
    assert "triples seen=" in repr(moments)
    assert "triples" not in repr(Moments.from_episodes(episodes))
    save(tmp_path / "m.safetensors", moments)
    assert load(tmp_path / "m.safetensors") == moments


def changed(moments, **fields):
    return replace(moments, **fields)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: {"triple_keys": m.triple_keys[::-1]}, "triple_keys: got numbers out of order"),
        (lambda m: {"triple_tables": m.triple_tables[1:]}, "triple_tables: got shape"),
        (lambda m: {"triple_tables": m.triple_tables * 300}, "more samples"),
        (lambda m: {"triple_tables": m.triple_tables + 1}, "more samples of a triple than of a pair in it"),
        (lambda m: {"triple_keys": m.triple_keys + 12**3}, "increasing numbers below 1728"),
        (lambda m: {"triple_keys": np.append(m.triple_keys[:-1], 11 * 144)}, "a triple .x, y, w. out of order"),
        (lambda m: {"pair_keys": m.pair_keys[:0], "pair_tables": m.pair_tables[:0]}, "more samples of a triple"),
        (
            lambda m: {"first_visit_keys": m.pair_keys, "first_visit_tables": m.pair_tables},
            "triple_keys: got triples with selected pairs",
        ),
    ],
)
def test_triples_that_cannot_be_are_refused(change, message):
    moments = Moments.from_episodes(drawn(5), order=3)
    with pytest.raises(InputError, match=message):
        changed(moments, **change(moments))


def test_the_order_is_two_or_three():
    with pytest.raises(InputError, match="order: got 4, expected 2 for pairs, or 3 for pairs and triples"):
        Moments.from_episodes(drawn(5), order=4)


def third_moments(model, x, y, w):
    """(P, Z, Z, Z): chance of the three outcomes, by the types."""
    probs = model.reward_probs.reshape(model.num_types, -1, model.num_values)
    return np.einsum("m,mpi,mpj,mpk->pijk", model.weights, probs[:, x], probs[:, y], probs[:, w])


def test_tables_follow_the_third_moments_of_the_model():
    model = problems.make_model("random", states=3, actions=2, horizon=5, num_types=3, seed=4)
    moments = Moments.from_episodes(simulate(uniform_policy(model), model, 40_000, seed=3), order=3)
    truth = third_moments(model, *moments.triples)
    assert_within(moments.triple_tables, moments.triple_samples[:, None, None, None], truth, "triples")
    assert moments.triple_keys.size == 6 * 7 * 8 // 6
    wrong = third_moments(
        problems.make_model("random", states=3, actions=2, horizon=5, num_types=3, seed=5), *moments.triples
    )
    with pytest.raises(AssertionError, match="outside"):
        assert_within(moments.triple_tables, moments.triple_samples[:, None, None, None], wrong, "triples")
