"""The sampler against enumeration, and against itself by the uniformity of ranks."""

from __future__ import annotations

import numpy as np
import pytest

from bands import assert_within
from online.posterior_oracle import posterior_means
from rewardmix._core.streams import Role
from rewardmix._core.streams import stream as stream_of
from rewardmix.online import posterior
from rewardmix.online import posterior_kernels as kernels
from rewardmix.online.posterior import Chains, RewardEvidence
from rewardmix.recovery.bags import Bags, merge_bags, shares
from rewardmix.recovery.likelihood import Mixture, e_step
from rewardmix.recovery.pooling import pooled_alike


def evidence_of(episodes, num_points, num_values) -> RewardEvidence:
    lengths = [len(steps) for steps in episodes]
    symbols = np.array([x * num_values + z for steps in episodes for x, z in steps], np.int32)
    together = np.zeros((num_points, num_points), np.int64)
    for steps in episodes:
        seen = sorted({x for x, _ in steps})
        for x in seen:
            together[x, seen] += 1
    bags = Bags(symbols, np.concatenate([[0], np.cumsum(lengths)]), np.ones(len(episodes)), num_points, num_values)
    return RewardEvidence(merge_bags(bags), together)


def drawn_episodes(weights, laws, visited, rng):
    """Episodes that visit the given state-actions."""
    out = []
    for points in visited:
        m = rng.choice(weights.size, p=weights)
        out.append([(int(x), int(rng.choice(laws.shape[2], p=laws[m, x]))) for x in points])
    return out


TINY = {
    "two contexts": ([[(0, 1), (1, 1)], [(0, 0), (1, 0)], [(0, 1), (1, 1)], [(1, 0), (1, 0), (0, 1)], [(0, 0)]], 2, 2),
    "three values": ([[(0, 2), (1, 1)], [(0, 0), (1, 0)], [(1, 2), (1, 2)], [(0, 2), (0, 1)]], 2, 3),
}


@pytest.mark.parametrize("case", TINY)
@pytest.mark.parametrize("weights", [None, (0.7, 0.3), (0.5, 0.3, 0.2)], ids=["unknown", "two known", "three known"])
@pytest.mark.parametrize("centre", ["even", "average"])
def test_means_are_those_of_enumeration(case, weights, centre):
    episodes, num_points, num_values = TINY[case]
    contexts = 2 if weights is None else len(weights)
    known = None if weights is None else np.array(weights)
    evidence, stream = evidence_of(episodes, num_points, num_values), stream_of(3, Role.SIMULATION)
    paid = 20 * evidence.bags.occurrences if centre == "average" else np.zeros((num_points, num_values))
    prior = posterior.prior_of(known is not None, paid)
    shapes = prior.laws.reshape(num_points, num_values)
    assert np.ptp(shapes) > 0.3 if centre == "average" else (shapes == posterior.LAWS).all()
    exact_weights, exact_laws, exact_products = posterior_means(
        episodes, num_points, num_values, contexts, shapes, known, posterior.WEIGHTS
    )
    chains = posterior.prior_chains(num_points, num_values, contexts, known, stream, number=20)
    chains = posterior.moved(chains, evidence, prior, 20, 20, stream)
    batches = []
    for _ in range(40):
        sums = [0.0, 0.0, 0.0]
        for _ in range(25):
            chains = posterior.moved(chains, evidence, prior, 1, 1, stream)
            laws = np.moveaxis(chains.tables.reshape(chains.number, num_points, num_values, contexts), -1, 1)
            last = laws[..., -1]
            products = np.einsum("cm,cmx,cmy->cxy", chains.weights, last, last)
            for i, values in enumerate((chains.weights, laws, products)):
                sums[i] = sums[i] + values.mean(axis=0) / 25
        batches.append(sums)
    for i, exact in enumerate((exact_weights, exact_laws, exact_products)):
        found = np.stack([sums[i] for sums in batches])
        error = found.std(axis=0, ddof=1) / np.sqrt(len(batches))
        assert (np.abs(found.mean(axis=0) - exact) <= 5.5 * error + 1e-12).all(), (found.mean(axis=0), exact, error)


def statistics(chains: Chains, evidence: RewardEvidence) -> list[float]:
    weights, table = chains.weights[0], chains.tables[0]
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
    prior = posterior.even_prior(chains.known, evidence.bags.num_points, evidence.bags.num_values)
    weights, tables = chains.weights.copy(), chains.tables.copy()

    def sweep():
        kernels.gibbs_sweep(evidence.arrays, prior, stream, weights[0], tables[0])

    def flip():
        for _ in range(2):
            before = kernels.log_likelihood(evidence.arrays, weights[0], tables[0])
            parts = (evidence.meetings, prior.num_values, stream, weights[0], tables[0], before)
            kernels.flip(evidence.arrays, *parts)

    for move in (sweep, flip) if forward else (flip, sweep):
        move()
    return Chains(weights, tables, np.zeros(1), 0.0, chains.known)


@pytest.mark.parametrize("weights", [None, (0.75, 0.25)], ids=["unknown", "known"])
def test_ranks_are_uniform(weights):
    """Simulation-based calibration, exact at any length of the chain.

    Laws from the prior, data from the laws: then the laws are a draw from the posterior given the data. Put at a random
    place of a chain that runs on from there in both directions, their rank among its other draws is exactly uniform.
    """
    worlds, others, points = 1500, 7, 3
    rng, stream = np.random.default_rng(5), stream_of(5, Role.SIMULATION)
    visited = [[0, 1], [1, 2], [0, 2, 2], [0, 1, 2], [1, 1], [2, 0]] * 3
    ranks = np.zeros((6, others + 1), int)
    for _ in range(worlds):
        truth = posterior.prior_chains(points, 2, 2, None if weights is None else np.array(weights), stream, number=1)
        laws = np.moveaxis(truth.tables[0].reshape(points, 2, 2), -1, 0)
        evidence = evidence_of(drawn_episodes(truth.weights[0], laws, visited, rng), points, 2)
        place = int(rng.integers(others + 1))
        found = []
        for length, forward in ((place, False), (others - place, True)):
            chain = truth
            for _ in range(length):
                chain = step(chain, evidence, stream, forward=forward)
                found.append(statistics(chain, evidence))
        below = (np.array(found) < statistics(truth, evidence)).sum(axis=0)
        ties = (np.array(found) == statistics(truth, evidence)).sum(axis=0)
        ranks[np.arange(6), below + rng.integers(ties + 1)] += 1
    ranks = ranks if weights is None else ranks[:5]  # a known weight has one value and no rank
    assert_within(ranks, worlds, 1.0 / (others + 1), "ranks")


def test_a_flip_crosses_between_signs_and_sweeps_alone_do_not():
    """Two groups of state-actions that meet in few episodes: their signs to each other are crossed by flips only."""
    rng = np.random.default_rng(1)
    laws = np.empty((2, 6, 2))
    laws[0, :, 1], laws[1, :, 1] = 0.9, 0.1
    laws[..., 0] = 1.0 - laws[..., 1]
    wrong = laws.copy()
    wrong[:, 3:] = laws[::-1, 3:]
    visited = [[0, 1, 2]] * 150 + [[3, 4, 5]] * 150 + [[0, 1, 3, 4]] * 12
    evidence = evidence_of(drawn_episodes(np.array([0.5, 0.5]), laws, visited, rng), 6, 2)
    table = np.moveaxis(wrong, 0, -1).reshape(12, 2)
    start = Chains(np.full((10, 2), 0.5), np.tile(table, (10, 1, 1)), np.zeros(10), 0.0, True)

    def same_sign(chains):
        return int((np.sign(chains.tables[:, 1, 0] - 0.5) == np.sign(chains.tables[:, 7, 0] - 0.5)).sum())

    prior = posterior.even_prior(True, 6, 2)
    assert same_sign(posterior.moved(start, evidence, prior, 100, 0, stream_of(0, Role.SIMULATION))) == 0
    assert same_sign(posterior.moved(start, evidence, prior, 100, 100, stream_of(0, Role.SIMULATION))) == 10


def test_gamma_draws_have_their_mean_and_variance():
    stream = stream_of(2, Role.SIMULATION)
    for shape in (0.05, 0.5, 1.0, 3.5, 200.0):
        found = np.array([kernels.gamma(shape, stream) for _ in range(20_000)])
        error = np.sqrt(shape / found.size)
        assert abs(found.mean() - shape) < 5 * error
        assert abs(found.var() - shape) < 6 * np.sqrt((2 * shape**2 + 6 * shape) / found.size)


def test_state_actions_that_never_pay_do_not_hide_a_context():
    """A vault that pays twice or not at all, behind dials that never pay, is two contexts.

    Under an even prior every dial is evidence against a second context, and its weight goes to nothing.
    """
    rng = np.random.default_rng(4)
    laws = np.zeros((2, 21, 2))
    laws[..., 0], laws[:, 20] = 1.0, [[0.1, 0.9], [0.9, 0.1]]
    visited = [[*rng.choice(20, 6, replace=False), 20, 20] for _ in range(60)]
    evidence = evidence_of(drawn_episodes(np.array([0.5, 0.5]), laws, visited, rng), 21, 2)
    shares = {}
    for name, paid in (("centred", evidence.bags.occurrences), ("even", np.zeros((21, 2)))):
        stream = stream_of(4, Role.SIMULATION)
        chains = posterior.prior_chains(21, 2, 2, None, stream, number=10)
        chains = posterior.moved(chains, evidence, posterior.prior_of(False, paid), 300, 300, stream)
        shares[name] = chains.weights.min(axis=1)
    assert (shares["centred"] > 0.2).all()
    assert (shares["even"] < 0.2).all()


def test_the_most_likely_mixture_is_at_the_top_of_the_best_chains_hill():
    rng = np.random.default_rng(6)
    laws = rng.dirichlet(np.ones(2), (2, 3))
    evidence = evidence_of(drawn_episodes(np.array([0.5, 0.5]), laws, [[0, 1, 2, 0, 1, 2]] * 300, rng), 3, 2)
    stream = stream_of(6, Role.SIMULATION)
    chains = posterior.updated(posterior.prior_chains(3, 2, 2, None, stream), evidence, stream)
    found, nearly = (posterior.most_likely(chains, evidence.bags, **how) for how in ({}, posterior.CLIMB))
    best = e_step(evidence.bags, found).loglik
    assert best > chains.logliks.max()
    assert e_step(evidence.bags, nearly).loglik == pytest.approx(best, abs=0.1)
    for _ in range(200):  # no step from there goes up
        step = found.laws + rng.normal(0, 0.02, found.laws.shape[:2])[..., None] * [-1.0, 1.0]
        other = Mixture(found.weights, np.clip(step, 1e-6, 1 - 1e-6))
        assert e_step(evidence.bags, other).loglik < best + 0.5  # the pseudo-count pulls it off the very top


def test_the_climb_begins_at_the_best_chain():
    """One chain knows that the signs of two groups differ and another one does not: no climb crosses between them."""
    rng = np.random.default_rng(2)
    laws = np.empty((2, 4, 2))
    laws[0, :, 1], laws[1, :, 1] = 0.9, 0.1
    laws[:, 2:, 1] = laws[::-1, 2:, 1]
    laws[..., 0] = 1.0 - laws[..., 1]
    wrong = laws.copy()
    wrong[:, 2:] = laws[::-1, 2:]
    evidence = evidence_of(
        drawn_episodes(np.array([0.5, 0.5]), laws, [[0, 1]] * 100 + [[2, 3]] * 100 + [[1, 2]] * 20, rng), 4, 2
    )
    tables = np.stack([np.moveaxis(mixture, 0, -1).reshape(8, 2) for mixture in (wrong, laws, wrong)])
    logliks = np.array([kernels.log_likelihood(evidence.arrays, np.full(2, 0.5), table) for table in tables])
    chains = Chains(np.full((3, 2), 0.5), np.ascontiguousarray(tables), logliks, 0.0, True)
    found = posterior.most_likely(chains, evidence.bags).laws[..., 1]
    assert (np.sign(found[0] - found[1]) == [1, 1, -1, -1]).all()


def test_an_update_depends_on_the_multiset_of_episodes_alone():
    rng = np.random.default_rng(0)
    laws = rng.dirichlet(np.ones(2), (2, 3))
    episodes = drawn_episodes(np.array([0.5, 0.5]), laws, [[0, 1, 2]] * 40 + [[2, 1]] * 20, rng)
    answers = []
    for order in (range(60), reversed(range(60))):
        stream = stream_of(0, Role.SIMULATION)
        evidence = evidence_of([episodes[i][::-1] for i in order], 3, 2)
        chains = posterior.prior_chains(3, 2, 2, None, stream)
        answers.append(posterior.updated(chains, evidence, stream))
    np.testing.assert_array_equal(answers[0].tables, answers[1].tables)
    np.testing.assert_array_equal(answers[0].weights, answers[1].weights)


@pytest.mark.parametrize("copies", [kernels.ONE_BY_ONE, kernels.ONE_BY_ONE + 1, 400])
def test_equal_episodes_are_shared_out_like_single_ones(copies):
    weights, table = np.array([0.5, 0.3, 0.2]), np.array([[0.8, 0.5, 0.1], [0.2, 0.5, 0.9]])
    symbols, offsets, counts = np.array([1, 1, 0], np.int32), np.array([0, 3]), np.array([float(copies)])
    joint = weights * table[1] ** 2 * table[0]
    stream, sizes, outcomes, total = stream_of(7, Role.SIMULATION), np.empty(3), np.empty((2, 3)), np.zeros(3)
    for _ in range(500):
        kernels.draw_contexts(kernels.BagArrays(symbols, offsets, counts), weights, table, stream, sizes, outcomes)
        assert sizes.sum() == copies
        np.testing.assert_array_equal(outcomes, [sizes, 2 * sizes])
        total += sizes
    assert_within(total, 500 * copies, joint / joint.sum(), "contexts")


def test_luck_is_evened_where_state_actions_are_alike_and_nowhere_else():
    """Nine actions pay half of the time and a tenth began badly; then actions that differ by far."""
    alike = np.array([[50.0, 50.0]] * 9 + [[12.0, 3.0]])
    apart = np.array([[95.0, 5.0], [5.0, 95.0], [50.0, 50.0], [12.0, 3.0]])
    one = np.moveaxis(shares(alike)[None], 0, -1)
    found = posterior.moved_by_luck(one, alike)[:, 1, 0]
    np.testing.assert_allclose(found, pooled_alike(alike)[:, 1], atol=1e-6)  # with one context the average is its law
    assert found[-1] > 0.35  # 0.2 by itself
    laws = np.stack([[0.1, 0.9], [0.8, 0.2]], axis=-1)[None].repeat(4, axis=0)
    np.testing.assert_allclose(posterior.moved_by_luck(laws, apart), laws, atol=1e-6)
    counts = np.random.default_rng(0).integers(0, 20, (10, 2, 3)).astype(float)
    moved = posterior.moved_by_luck(counts, alike)
    np.testing.assert_allclose(moved.sum(axis=1), counts.sum(axis=1), atol=1e-6)
    assert (moved[-1, 1] >= counts[-1, 1]).all()


def test_a_value_that_never_came_gets_its_part_of_the_average():
    never = np.array([[60.0, 60.0]] * 40 + [[4.0, 0.0], [0.0, 0.0]])
    laws = np.moveaxis(np.stack([shares(never), shares(never)]), 0, -1)
    moved = posterior.moved_by_luck(laws, never)
    np.testing.assert_allclose(moved[40], np.stack([pooled_alike(never)[40]] * 2, axis=-1), atol=1e-6)
    assert moved[40, 1, 0] > 0.2
    np.testing.assert_allclose(moved[41], laws[41], atol=1e-9)  # nothing is known of it, and nothing is made up
    mixture = Mixture(np.array([0.5, 0.5]), np.ascontiguousarray(np.moveaxis(laws, -1, 0)))
    np.testing.assert_array_equal(posterior.luck_evened(mixture, never).laws, np.moveaxis(moved, -1, 0))


@pytest.mark.parametrize(("sharpness", "times"), [(1.0, 1.0), (4.0, 2.0)])
def test_a_sharp_draw_takes_what_is_beyond_a_few_for_more(sharpness, times):
    """With one context laws are conjugate: Beta(1 + times * successes, 1 + times * failures).

    Of 45 rewards 30 count once and 15 four times, which makes 90.
    """
    evidence = evidence_of([[(0, 1)]] * 30 + [[(0, 0)]] * 15, 1, 2)
    stream = stream_of(1, Role.SIMULATION)
    chains = posterior.prior_chains(1, 2, 1, None, stream, number=1)
    found = [posterior.drawn_mixture(chains, 0, evidence, sharpness, stream).laws[0, 0, 1] for _ in range(4000)]
    a, b = 1 + 30 * times, 1 + 15 * times
    variance = a * b / ((a + b) ** 2 * (a + b + 1))
    assert abs(np.mean(found) - a / (a + b)) < 5 * np.sqrt(variance / 4000)
    assert abs(np.var(found) / variance - 1) < 0.15
