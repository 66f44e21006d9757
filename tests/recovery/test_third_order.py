"""Third moments, likelihood and starts from tables of triples, and types recovered from these tables alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rewardmix import InputError, Moments, problems, recover, simulate, uniform
from rewardmix.exploration import explore
from rewardmix.recovery.likelihood import Mixture, e_step
from rewardmix.recovery.third_order import LOOKED_AT, SIGNS, bags_of_triples, third_moments, triple_starts

VALUES = [(0.0, 1.0), (-1.0, 0.5, 2.0)]


def counted(values, episodes=400, contexts=3):
    model = problems.make("random", states=2, actions=2, horizon=5, contexts=contexts, seed=3, reward_values=values)
    return model, Moments.of(simulate(uniform(model), model, episodes, seed=1), order=3)


@pytest.mark.parametrize("values", VALUES)
def test_third_moments_are_those_of_the_definition(values):
    _, moments = counted(values)
    correlation, scores = third_moments(moments)
    laws, value = moments.frequencies, moments.reward_values
    mean = laws @ value
    deviation = np.sqrt(laws @ value**2 - mean**2)
    for p, triple in enumerate(zip(*moments.triples, strict=True)):
        n, total = moments.triple_samples[p], 0.0
        for zs in itertools.product(range(value.size), repeat=3):
            off = np.prod([(value[z] - mean[x]) / deviation[x] for x, z in zip(triple, zs, strict=True)])
            total += moments.triple_tables[p, *zs] * off
        expected = total / n if n >= LOOKED_AT else 0.0
        assert correlation[p] == pytest.approx(expected, abs=1e-12)
        assert scores[p] == pytest.approx(expected * np.sqrt(n), abs=1e-9)
    assert 0 < (moments.triple_samples < 80).sum() < correlation.size


@pytest.mark.parametrize("values", VALUES)
def test_the_likelihood_of_tables_is_that_of_their_samples(values):
    model, moments = counted(values, 60)
    mixture = Mixture(np.array([0.2, 0.3, 0.5]), model.laws.reshape(3, 4, -1))
    loglik = 0.0
    for p, (x, y, w) in enumerate(zip(*moments.triples, strict=True)):
        law = np.einsum("m,mi,mj,mk->ijk", mixture.weights, *(mixture.laws[:, v] for v in (x, y, w)))
        loglik += (moments.triple_tables[p] * np.log(law)).sum()
    bags = bags_of_triples(moments)
    assert e_step(bags, mixture).loglik == pytest.approx(loglik, rel=1e-12)
    assert np.array_equal(bags.average, moments.frequencies)


def told_by(model):
    """The state-actions that say something of the type."""
    return np.flatnonzero(np.ptp(model.rewards, axis=0).ravel() > 0.1)


def test_starts_are_the_parities_of_the_strongest_triples():
    model = problems.make("parity")
    moments = explore(model, episodes=10_000, order=3, keep=False).moments
    told = told_by(model)
    laws = model.rewards.reshape(4, -1)
    for number, (name, start) in enumerate(triple_starts(moments, 4)[:2]):
        found = start.laws[:, :, 1]
        moved = np.flatnonzero(np.ptp(found, axis=0) > 0.01)
        assert name == f"triple {number + 1}"
        assert set(moved) < set(told)
        assert moved.size == 3
        signs = np.sign(found[:, moved] - 0.5)
        assert {tuple(row) for row in signs} == {tuple(row) for row in np.sign(laws[:, moved] - 0.5)}
        assert np.abs(np.abs(found[:, moved] - 0.5) - 0.45).max() < 0.1


def test_starts_have_as_many_types_as_asked_for():
    _, moments = counted((0.0, 1.0))
    for contexts in (3, 4, 6):
        starts = triple_starts(moments, contexts)
        assert 0 < len(starts) <= 4
        for _, start in starts:
            assert start.laws.shape == (contexts, 4, 2)
            np.testing.assert_allclose(start.laws.sum(axis=2), 1.0, rtol=0, atol=1e-12)
            assert (start.laws > 0).all()
    assert triple_starts(Moments.empty(2, 2, 5), 3) == []
    np.testing.assert_array_equal(np.prod(SIGNS, axis=1), 1)
    np.testing.assert_array_equal(SIGNS.T @ SIGNS, 4 * np.eye(3))


def error_of(model, found):
    """Root mean square error of the rewards, types matched in the best way."""
    orders = itertools.permutations(range(model.num_contexts))
    return min(float(np.sqrt(((found.rewards[list(order)] - model.rewards) ** 2).mean())) for order in orders)


@pytest.mark.parametrize("seed", range(3))
def test_three_types_are_recovered_from_tables_of_triples(seed):
    model = problems.make("random", states=4, actions=2, horizon=6, contexts=3, seed=seed)
    explored = explore(model, episodes=20_000, seed=seed, order=3)
    from_tables = recover(explored.moments, num_contexts=3)
    from_episodes = recover(explored.gathered, num_contexts=3)
    assert error_of(model, from_tables.model) < 0.025
    assert error_of(model, from_tables.model) < 2 * error_of(model, from_episodes.model)
    assert from_tables.info.reproduced > 1
    assert np.isfinite(from_tables.info.errors).all()


@pytest.mark.parametrize("seed", range(2))
def test_four_types_of_parity_are_recovered_from_tables_of_triples(seed):
    model = problems.make("parity")
    explored = explore(model, episodes=20_000, seed=seed, order=3)
    told = told_by(model)
    for data, more in ((explored.moments, {}), (explored.gathered, {"moments": explored.moments})):
        found = recover(data, num_contexts=4, **more)
        assert error_of(model, found.model) < 0.07
        rewards, truth = (world.rewards.reshape(4, -1)[:, told] for world in (found.model, model))
        assert {tuple(row) for row in np.sign(rewards - 0.5)} == {tuple(row) for row in np.sign(truth - 0.5)}
        assert not any(fact.what == "not correlated" for fact in found.info.unidentified)


def test_pairs_alone_are_refused():
    model = problems.make("parity")
    moments = explore(model, episodes=200, keep=False).moments
    with pytest.raises(
        InputError, match="data: found moments without episodes, expected Episodes, or moments with tri"
    ):
        recover(moments, num_contexts=3)
