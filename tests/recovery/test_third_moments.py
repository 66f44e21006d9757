"""Third moments, likelihood and starts from tables of triples, and types recovered from these tables alone."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rewardmix import InputError, Moments, problems, recover, simulate, uniform_policy
from rewardmix.exploration import explore
from rewardmix.recovery.likelihood import Mixture, e_step
from rewardmix.recovery.third_moments import (
    MIN_TRIPLE_SAMPLES,
    TRIPLE_SIGN_PATTERNS,
    estimate_third_moments,
    make_triple_inits,
    patterns_from_triple_counts,
)

VALUES = [(0.0, 1.0), (-1.0, 0.5, 2.0)]


def counted(values, episodes=400, num_types=3):
    model = problems.make_model(
        "random", states=2, actions=2, horizon=5, num_types=num_types, seed=3, reward_values=values
    )
    return model, Moments.from_episodes(simulate(uniform_policy(model), model, episodes, seed=1), order=3)


@pytest.mark.system
@pytest.mark.parametrize("values", VALUES)
def test_third_moments_are_those_of_the_definition(values):
    _, moments = counted(values)
    correlation, scores = estimate_third_moments(moments)
    probs, value = moments.reward_frequencies, moments.reward_values
    mean = probs @ value
    deviation = np.sqrt(probs @ value**2 - mean**2)
    for p, triple in enumerate(zip(*moments.triples, strict=True)):
        n, total = moments.triple_samples[p], 0.0
        for zs in itertools.product(range(value.size), repeat=3):
            off = np.prod([(value[z] - mean[x]) / deviation[x] for x, z in zip(triple, zs, strict=True)])
            total += moments.triple_tables[p, *zs] * off
        expected = total / n if n >= MIN_TRIPLE_SAMPLES else 0.0
        assert correlation[p] == pytest.approx(expected, abs=1e-12)
        assert scores[p] == pytest.approx(expected * np.sqrt(n), abs=1e-9)
    assert 0 < (moments.triple_samples < 80).sum() < correlation.size


@pytest.mark.parametrize("values", VALUES)
def test_the_likelihood_of_tables_is_that_of_their_samples(values):
    model, moments = counted(values, 60)
    mixture = Mixture(np.array([0.2, 0.3, 0.5]), model.reward_probs.reshape(3, 4, -1))
    loglik = 0.0
    for p, (x, y, w) in enumerate(zip(*moments.triples, strict=True)):
        probs = np.einsum("m,mi,mj,mk->ijk", mixture.weights, *(mixture.probs[:, v] for v in (x, y, w)))
        loglik += (moments.triple_tables[p] * np.log(probs)).sum()
    patterns = patterns_from_triple_counts(moments)
    assert e_step(patterns, mixture).loglik == pytest.approx(loglik, rel=1e-12)
    assert np.array_equal(patterns.marginal_probs, moments.reward_frequencies)


def informative_points(model):
    """The state-actions that say something of the type."""
    return np.flatnonzero(np.ptp(model.rewards, axis=0).ravel() > 0.1)


@pytest.mark.system
def test_starts_are_the_parities_of_the_strongest_triples():
    model = problems.make_model("parity")
    moments = explore(model, num_episodes=10_000, moment_order=3, keep_episodes=False).moments
    response = informative_points(model)
    probs = model.rewards.reshape(4, -1)
    for number, (name, start) in enumerate(make_triple_inits(moments, 4)[:2]):
        result = start.probs[:, :, 1]
        moved = np.flatnonzero(np.ptp(result, axis=0) > 0.01)
        assert name == f"triple {number + 1}"
        assert set(moved) < set(response)
        assert moved.size == 3
        signs = np.sign(result[:, moved] - 0.5)
        assert {tuple(row) for row in signs} == {tuple(row) for row in np.sign(probs[:, moved] - 0.5)}
        assert np.abs(np.abs(result[:, moved] - 0.5) - 0.45).max() < 0.1


def test_starts_have_as_many_types_as_asked_for():
    _, moments = counted((0.0, 1.0))
    for num_types in (3, 4, 6):
        starts = make_triple_inits(moments, num_types)
        assert 0 < len(starts) <= 4
        for _, start in starts:
            assert start.probs.shape == (num_types, 4, 2)
            np.testing.assert_allclose(start.probs.sum(axis=2), 1.0, rtol=0, atol=1e-12)
            assert (start.probs > 0).all()
    assert make_triple_inits(Moments.empty(2, 2, 5), 3) == []
    np.testing.assert_array_equal(np.prod(TRIPLE_SIGN_PATTERNS, axis=1), 1)
    np.testing.assert_array_equal(TRIPLE_SIGN_PATTERNS.T @ TRIPLE_SIGN_PATTERNS, 4 * np.eye(3))


def error_of(model, result):
    """Root mean square error of the rewards, types matched in the best way."""
    orders = itertools.permutations(range(model.num_types))
    return min(float(np.sqrt(((result.rewards[list(order)] - model.rewards) ** 2).mean())) for order in orders)


@pytest.mark.statistical
@pytest.mark.parametrize("seed", range(3))
def test_three_types_are_recovered_from_tables_of_triples(seed):
    model = problems.make_model("random", states=4, actions=2, horizon=6, num_types=3, seed=seed)
    explored = explore(model, num_episodes=20_000, seed=seed, moment_order=3)
    from_tables = recover(explored.moments, num_types=3)
    from_episodes = recover(explored.episodes, num_types=3)
    assert error_of(model, from_tables.model) < 0.025
    assert error_of(model, from_tables.model) < 2 * error_of(model, from_episodes.model)
    assert from_tables.info.num_reproduced > 1
    assert np.isfinite(from_tables.info.reward_errors).all()


@pytest.mark.statistical
@pytest.mark.parametrize("seed", range(2))
def test_four_types_of_parity_are_recovered_from_tables_of_triples(seed):
    model = problems.make_model("parity")
    explored = explore(model, num_episodes=20_000, seed=seed, moment_order=3)
    response = informative_points(model)
    for data, more in ((explored.moments, {}), (explored.episodes, {"moments": explored.moments})):
        result = recover(data, num_types=4, **more)
        assert error_of(model, result.model) < 0.07
        rewards, truth = (env.rewards.reshape(4, -1)[:, response] for env in (result.model, model))
        assert {tuple(row) for row in np.sign(rewards - 0.5)} == {tuple(row) for row in np.sign(truth - 0.5)}
        assert not any(fact.key == "not correlated" for fact in result.info.unidentified)


def test_pairs_alone_are_refused():
    model = problems.make_model("parity")
    moments = explore(model, num_episodes=200, keep_episodes=False).moments
    with pytest.raises(InputError, match="data: got moments without episodes, expected Episodes, or moments with tri"):
        recover(moments, num_types=3)
