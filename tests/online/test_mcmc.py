"""The sampler against enumeration, and against itself by the uniformity of ranks."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.binomial_bands import assert_within
from oracles.posterior_enumeration import posterior_means
from rewardmix._core.random_streams import Role
from rewardmix._core.random_streams import kernel_stream as stream_of
from rewardmix.online import mcmc
from rewardmix.online import mcmc_kernels as kernels
from rewardmix.online.mcmc import MarkovChains, RewardData
from rewardmix.recovery.hierarchical_prior import shrink_to_pooled
from rewardmix.recovery.likelihood import Mixture, e_step
from rewardmix.recovery.reward_patterns import RewardPatterns, merge_patterns, normalize_counts


def evidence_of(episodes, num_state_actions, num_values) -> RewardData:
    lengths = [len(steps) for steps in episodes]
    symbols = np.array([x * num_values + z for steps in episodes for x, z in steps], np.int32)
    together = np.zeros((num_state_actions, num_state_actions), np.int64)
    for steps in episodes:
        seen = sorted({x for x, _ in steps})
        for x in seen:
            together[x, seen] += 1
    patterns = RewardPatterns(
        symbols, np.concatenate([[0], np.cumsum(lengths)]), np.ones(len(episodes)), num_state_actions, num_values
    )
    return RewardData(merge_patterns(patterns), together)


def drawn_episodes(weights, probs, visited, rng):
    """Episodes that visit the given state-actions."""
    out = []
    for points in visited:
        m = rng.choice(weights.size, p=weights)
        out.append([(int(x), int(rng.choice(probs.shape[2], p=probs[m, x]))) for x in points])
    return out


TINY = {
    "two contexts": ([[(0, 1), (1, 1)], [(0, 0), (1, 0)], [(0, 1), (1, 1)], [(1, 0), (1, 0), (0, 1)], [(0, 0)]], 2, 2),
    "three values": ([[(0, 2), (1, 1)], [(0, 0), (1, 0)], [(1, 2), (1, 2)], [(0, 2), (0, 1)]], 2, 3),
}


@pytest.mark.statistical
@pytest.mark.parametrize("case", TINY)
@pytest.mark.parametrize("weights", [None, (0.7, 0.3), (0.5, 0.3, 0.2)], ids=["unknown", "two known", "three known"])
@pytest.mark.parametrize("center", ["even", "average"])
def test_means_are_those_of_enumeration(case, weights, center):
    episodes, num_state_actions, num_values = TINY[case]
    num_types = 2 if weights is None else len(weights)
    known_weights = None if weights is None else np.array(weights)
    evidence, stream = evidence_of(episodes, num_state_actions, num_values), stream_of(3, Role.SIMULATION)
    reward_counts = (
        20 * evidence.patterns.reward_counts if center == "average" else np.zeros((num_state_actions, num_values))
    )
    prior = mcmc.make_prior(known_weights is not None, reward_counts)
    shapes = prior.prob_counts.reshape(num_state_actions, num_values)
    assert np.ptp(shapes) > 0.3 if center == "average" else (shapes == mcmc.REWARD_PRIOR_COUNT).all()
    exact_weights, exact_laws, exact_products = posterior_means(
        episodes, num_state_actions, num_values, num_types, shapes, known_weights, mcmc.WEIGHT_PRIOR_COUNT
    )
    chains = mcmc.sample_prior_chains(num_state_actions, num_values, num_types, known_weights, stream, num_chains=20)
    chains = mcmc.run_mcmc_moves(chains, evidence, prior, 20, 20, stream)
    batches = []
    for _ in range(40):
        sums = [0.0, 0.0, 0.0]
        for _ in range(25):
            chains = mcmc.run_mcmc_moves(chains, evidence, prior, 1, 1, stream)
            probs = np.moveaxis(
                chains.probs.reshape(chains.num_chains, num_state_actions, num_values, num_types), -1, 1
            )
            last = probs[..., -1]
            products = np.einsum("cm,cmx,cmy->cxy", chains.weights, last, last)
            for i, values in enumerate((chains.weights, probs, products)):
                sums[i] = sums[i] + values.mean(axis=0) / 25
        batches.append(sums)
    for i, exact in enumerate((exact_weights, exact_laws, exact_products)):
        result = np.stack([sums[i] for sums in batches])
        error = result.std(axis=0, ddof=1) / np.sqrt(len(batches))
        assert (np.abs(result.mean(axis=0) - exact) <= 5.5 * error + 1e-12).all(), (result.mean(axis=0), exact, error)


def statistics(chains: MarkovChains, evidence: RewardData) -> list[float]:
    weights, table = chains.weights[0], chains.probs[0]
    return [
        float(weights @ table[1]),
        float((weights * table[1] * table[3]).sum()),
        float((weights * table[5] ** 2).sum()),
        float(kernels.log_likelihood(evidence.arrays, weights, table)),
        float(table[1, 0]),
        float(weights[0]),
    ]


def step(chains, evidence, stream, *, forward):
    """A sweep and two flips, or in the other order: the reverse of it."""
    prior = mcmc.make_uniform_prior(
        chains.weights_known, evidence.patterns.num_state_actions, evidence.patterns.num_reward_values
    )
    weights, tables = chains.weights.copy(), chains.probs.copy()

    def sweep():
        kernels.gibbs_sweep(evidence.arrays, prior, stream, weights[0], tables[0])

    def flip():
        for _ in range(2):
            before = kernels.log_likelihood(evidence.arrays, weights[0], tables[0])
            arguments = (evidence.co_occurrence, prior.num_values, stream, weights[0], tables[0], before)
            kernels.metropolis_flip(evidence.arrays, *arguments)

    for move in (sweep, flip) if forward else (flip, sweep):
        move()
    return MarkovChains(weights, tables, np.zeros(1), 0.0, chains.weights_known)


@pytest.mark.statistical
@pytest.mark.parametrize("weights", [None, (0.75, 0.25)], ids=["unknown", "known"])
def test_ranks_are_uniform(weights):
    """Simulation-based calibration, exact at any length of the chain.

    Laws from the prior, data from the laws: then the laws are a draw from the posterior given the data. Put at a random
    place of a chain that runs on from there in both directions, their rank among its other draws is exactly uniform.
    """
    envs, others, points = 1500, 7, 3
    rng, stream = np.random.default_rng(5), stream_of(5, Role.SIMULATION)
    visited = [[0, 1], [1, 2], [0, 2, 2], [0, 1, 2], [1, 1], [2, 0]] * 3
    ranks = np.zeros((6, others + 1), int)
    for _ in range(envs):
        truth = mcmc.sample_prior_chains(
            points, 2, 2, None if weights is None else np.array(weights), stream, num_chains=1
        )
        probs = np.moveaxis(truth.probs[0].reshape(points, 2, 2), -1, 0)
        evidence = evidence_of(drawn_episodes(truth.weights[0], probs, visited, rng), points, 2)
        place = int(rng.integers(others + 1))
        result = []
        for length, forward in ((place, False), (others - place, True)):
            chain = truth
            for _ in range(length):
                chain = step(chain, evidence, stream, forward=forward)
                result.append(statistics(chain, evidence))
        below = (np.array(result) < statistics(truth, evidence)).sum(axis=0)
        ties = (np.array(result) == statistics(truth, evidence)).sum(axis=0)
        ranks[np.arange(6), below + rng.integers(ties + 1)] += 1
    ranks = ranks if weights is None else ranks[:5]  # a known weight has one value and no rank
    assert_within(ranks, envs, 1.0 / (others + 1), "ranks")


def test_a_flip_crosses_between_signs_and_sweeps_alone_do_not():
    """Two groups of state-actions that meet in few episodes: their signs to each other are crossed by flips only."""
    rng = np.random.default_rng(1)
    probs = np.empty((2, 6, 2))
    probs[0, :, 1], probs[1, :, 1] = 0.9, 0.1
    probs[..., 0] = 1.0 - probs[..., 1]
    wrong = probs.copy()
    wrong[:, 3:] = probs[::-1, 3:]
    visited = [[0, 1, 2]] * 150 + [[3, 4, 5]] * 150 + [[0, 1, 3, 4]] * 12
    evidence = evidence_of(drawn_episodes(np.array([0.5, 0.5]), probs, visited, rng), 6, 2)
    table = np.moveaxis(wrong, 0, -1).reshape(12, 2)
    start = MarkovChains(np.full((10, 2), 0.5), np.tile(table, (10, 1, 1)), np.zeros(10), 0.0, True)

    def same_sign(chains):
        return int((np.sign(chains.probs[:, 1, 0] - 0.5) == np.sign(chains.probs[:, 7, 0] - 0.5)).sum())

    prior = mcmc.make_uniform_prior(True, 6, 2)
    assert same_sign(mcmc.run_mcmc_moves(start, evidence, prior, 100, 0, stream_of(0, Role.SIMULATION))) == 0
    assert same_sign(mcmc.run_mcmc_moves(start, evidence, prior, 100, 100, stream_of(0, Role.SIMULATION))) == 10


def test_gamma_draws_have_their_mean_and_variance():
    stream = stream_of(2, Role.SIMULATION)
    for shape in (0.05, 0.5, 1.0, 3.5, 200.0):
        result = np.array([kernels.draw_gamma(shape, stream) for _ in range(20_000)])
        error = np.sqrt(shape / result.size)
        assert abs(result.mean() - shape) < 5 * error
        assert abs(result.var() - shape) < 6 * np.sqrt((2 * shape**2 + 6 * shape) / result.size)


def test_state_actions_that_never_pay_do_not_hide_a_context():
    """A vault that pays twice or not at all, behind dials that never pay, is two contexts.

    Under an even prior every dial is evidence against a second context, and its weight goes to nothing.
    """
    rng = np.random.default_rng(4)
    probs = np.zeros((2, 21, 2))
    probs[..., 0], probs[:, 20] = 1.0, [[0.1, 0.9], [0.9, 0.1]]
    visited = [[*rng.choice(20, 6, replace=False), 20, 20] for _ in range(60)]
    evidence = evidence_of(drawn_episodes(np.array([0.5, 0.5]), probs, visited, rng), 21, 2)
    shares = {}
    for name, reward_counts in (("centred", evidence.patterns.reward_counts), ("even", np.zeros((21, 2)))):
        stream = stream_of(4, Role.SIMULATION)
        chains = mcmc.sample_prior_chains(21, 2, 2, None, stream, num_chains=10)
        chains = mcmc.run_mcmc_moves(chains, evidence, mcmc.make_prior(False, reward_counts), 300, 300, stream)
        shares[name] = chains.weights.min(axis=1)
    assert (shares["centred"] > 0.2).all()
    assert (shares["even"] < 0.2).all()


def test_the_most_likely_mixture_is_at_the_top_of_the_best_chains_hill():
    rng = np.random.default_rng(6)
    probs = rng.dirichlet(np.ones(2), (2, 3))
    evidence = evidence_of(drawn_episodes(np.array([0.5, 0.5]), probs, [[0, 1, 2, 0, 1, 2]] * 300, rng), 3, 2)
    stream = stream_of(6, Role.SIMULATION)
    chains = mcmc.update_chains(mcmc.sample_prior_chains(3, 2, 2, None, stream), evidence, stream)
    result, nearly = (mcmc.find_map_mixture(chains, evidence.patterns, **how) for how in ({}, mcmc.ASCENT_OPTIONS))
    best = e_step(evidence.patterns, result).loglik
    assert best > chains.logliks.max()
    assert e_step(evidence.patterns, nearly).loglik == pytest.approx(best, abs=0.1)
    for _ in range(200):  # no step from there goes up
        step = result.probs + rng.normal(0, 0.02, result.probs.shape[:2])[..., None] * [-1.0, 1.0]
        other = Mixture(result.weights, np.clip(step, 1e-6, 1 - 1e-6))
        assert e_step(evidence.patterns, other).loglik < best + 0.5  # the pseudo-count pulls it off the very top


def test_the_climb_begins_at_the_best_chain():
    """One chain knows that the signs of two groups differ and another one does not: no climb crosses between them."""
    rng = np.random.default_rng(2)
    probs = np.empty((2, 4, 2))
    probs[0, :, 1], probs[1, :, 1] = 0.9, 0.1
    probs[:, 2:, 1] = probs[::-1, 2:, 1]
    probs[..., 0] = 1.0 - probs[..., 1]
    wrong = probs.copy()
    wrong[:, 2:] = probs[::-1, 2:]
    evidence = evidence_of(
        drawn_episodes(np.array([0.5, 0.5]), probs, [[0, 1]] * 100 + [[2, 3]] * 100 + [[1, 2]] * 20, rng), 4, 2
    )
    tables = np.stack([np.moveaxis(mixture, 0, -1).reshape(8, 2) for mixture in (wrong, probs, wrong)])
    logliks = np.array([kernels.log_likelihood(evidence.arrays, np.full(2, 0.5), table) for table in tables])
    chains = MarkovChains(np.full((3, 2), 0.5), np.ascontiguousarray(tables), logliks, 0.0, True)
    result = mcmc.find_map_mixture(chains, evidence.patterns).probs[..., 1]
    assert (np.sign(result[0] - result[1]) == [1, 1, -1, -1]).all()


def test_an_update_depends_on_the_multiset_of_episodes_alone():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(2), (2, 3))
    episodes = drawn_episodes(np.array([0.5, 0.5]), probs, [[0, 1, 2]] * 40 + [[2, 1]] * 20, rng)
    answers = []
    for order in (range(60), reversed(range(60))):
        stream = stream_of(0, Role.SIMULATION)
        evidence = evidence_of([episodes[i][::-1] for i in order], 3, 2)
        chains = mcmc.sample_prior_chains(3, 2, 2, None, stream)
        answers.append(mcmc.update_chains(chains, evidence, stream))
    np.testing.assert_array_equal(answers[0].probs, answers[1].probs)
    np.testing.assert_array_equal(answers[0].weights, answers[1].weights)


@pytest.mark.parametrize("copies", [kernels.MAX_SINGLE_DRAWS, kernels.MAX_SINGLE_DRAWS + 1, 400])
def test_equal_episodes_are_shared_out_like_single_ones(copies):
    weights, table = np.array([0.5, 0.3, 0.2]), np.array([[0.8, 0.5, 0.1], [0.2, 0.5, 0.9]])
    symbols, offsets, counts = np.array([1, 1, 0], np.int32), np.array([0, 3]), np.array([float(copies)])
    joint = weights * table[1] ** 2 * table[0]
    stream, sizes, reward_indices, total = stream_of(7, Role.SIMULATION), np.empty(3), np.empty((2, 3)), np.zeros(3)
    for _ in range(500):
        kernels.draw_types(
            kernels.PatternArrays(symbols, offsets, counts), weights, table, stream, sizes, reward_indices
        )
        assert sizes.sum() == copies
        np.testing.assert_array_equal(reward_indices, [sizes, 2 * sizes])
        total += sizes
    assert_within(total, 500 * copies, joint / joint.sum(), "contexts")


def test_luck_is_evened_where_state_actions_are_alike_and_nowhere_else():
    """Nine actions pay half of the time and a tenth began badly; then actions that differ by far."""
    alike = np.array([[50.0, 50.0]] * 9 + [[12.0, 3.0]])
    apart = np.array([[95.0, 5.0], [5.0, 95.0], [50.0, 50.0], [12.0, 3.0]])
    item = np.moveaxis(normalize_counts(alike)[None], 0, -1)
    result = mcmc.shrink_to_pooled_mean(item, alike)[:, 1, 0]
    np.testing.assert_allclose(
        result, shrink_to_pooled(alike)[:, 1], atol=1e-6
    )  # with one context the average is its law
    assert result[-1] > 0.35  # 0.2 by itself
    probs = np.stack([[0.1, 0.9], [0.8, 0.2]], axis=-1)[None].repeat(4, axis=0)
    np.testing.assert_allclose(mcmc.shrink_to_pooled_mean(probs, apart), probs, atol=1e-6)
    counts = np.random.default_rng(0).integers(0, 20, (10, 2, 3)).astype(float)
    moved = mcmc.shrink_to_pooled_mean(counts, alike)
    np.testing.assert_allclose(moved.sum(axis=1), counts.sum(axis=1), atol=1e-6)
    assert (moved[-1, 1] >= counts[-1, 1]).all()


def test_a_value_that_never_came_gets_its_part_of_the_average():
    never = np.array([[60.0, 60.0]] * 40 + [[4.0, 0.0], [0.0, 0.0]])
    probs = np.moveaxis(np.stack([normalize_counts(never), normalize_counts(never)]), 0, -1)
    moved = mcmc.shrink_to_pooled_mean(probs, never)
    np.testing.assert_allclose(moved[40], np.stack([shrink_to_pooled(never)[40]] * 2, axis=-1), atol=1e-6)
    assert moved[40, 1, 0] > 0.2
    np.testing.assert_allclose(moved[41], probs[41], atol=1e-9)  # nothing is known of it, and nothing is made up
    mixture = Mixture(np.array([0.5, 0.5]), np.ascontiguousarray(np.moveaxis(probs, -1, 0)))
    np.testing.assert_array_equal(mcmc.shrink_mixture(mixture, never).probs, np.moveaxis(moved, -1, 0))


@pytest.mark.parametrize(("sharpness", "times"), [(1.0, 1.0), (4.0, 2.0)])
def test_a_sharp_draw_takes_what_is_beyond_a_few_for_more(sharpness, times):
    """With one context laws are conjugate: Beta(1 + times * successes, 1 + times * failures).

    Of 45 rewards 30 count once and 15 four times, which makes 90.
    """
    evidence = evidence_of([[(0, 1)]] * 30 + [[(0, 0)]] * 15, 1, 2)
    stream = stream_of(1, Role.SIMULATION)
    chains = mcmc.sample_prior_chains(1, 2, 1, None, stream, num_chains=1)
    result = [mcmc.sample_mixture(chains, 0, evidence, sharpness, stream).probs[0, 0, 1] for _ in range(4000)]
    a, b = 1 + 30 * times, 1 + 15 * times
    variance = a * b / ((a + b) ** 2 * (a + b + 1))
    assert abs(np.mean(result) - a / (a + b)) < 5 * np.sqrt(variance / 4000)
    assert abs(np.var(result) / variance - 1) < 0.15
