"""Pseudo-counts that a large world learns from its counts: unbiased sums, their slow twins, and what they change."""

import numpy as np
import pytest

from rewardmix import problems
from rewardmix.exploration import explore
from rewardmix.recovery import aligned, bags, pooling, recover
from rewardmix.recovery.evidence import Question, evidence_of, with_following
from rewardmix.recovery.pooling import LARGE, LEAST, MOST, Pool, mean_square_covariance, world_law


def large(**options):
    return problems.make("random", states=150, actions=2, horizon=10, successors=2, **options)


@pytest.fixture(scope="module")
def explored():
    world = large(seed=3)
    return world, explore(world, episodes=8000, seed=1)


@pytest.mark.parametrize("values", [(0.0, 1.0), (0.0, 0.5, 1.0)])
def test_sums_are_those_of_plain_loops(values):
    moments = explore(
        problems.make("random", states=3, actions=2, horizon=5, reward_values=values, seed=2), episodes=60, seed=0
    ).moments
    square = weights = 0.0
    world = np.zeros(len(values))
    for counts in moments.outcomes:
        n = counts.sum()
        if n > 1:
            square += (n - 1) * sum(c * (c - 1) for c in counts) / (n * (n - 1))
            world += (n - 1) * counts / n
            weights += n - 1
    found = world_law(moments.outcomes)
    np.testing.assert_allclose(found[0], world / weights, rtol=1e-12)
    assert found[1] == pytest.approx(square / weights, rel=1e-12)
    assert mean_square_covariance(moments) == pytest.approx(sampled_twice(moments), rel=1e-9)


def test_averages_are_pulled_where_state_actions_are_alike_by_a_plain_loop():
    outcomes = np.array([[30.0, 20.0, 10.0], [26.0, 22.0, 12.0], [3.0, 0.0, 4.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    several = [row for row in outcomes if row.sum() > 1]
    world = sum(row / row.sum() for row in several) / len(several)
    square = sum(sum(c * (c - 1) for c in row) / (row.sum() * (row.sum() - 1)) for row in several) / len(several)
    pull = (1 - square) / (square - sum(world**2)) - pooling.ALIKE
    assert 1 < pull < 100
    expected = [(row + pull * world) / (row.sum() + pull) for row in outcomes[:4]]
    found = pooling.pooled_alike(outcomes)
    np.testing.assert_allclose(found[:4], expected, rtol=1e-12)
    np.testing.assert_allclose(found[4], bags.shares(outcomes)[4])  # nothing was seen, nothing is made up
    apart = outcomes[:, [0, 1, 2]] + [[0, 0, 300], [300, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    np.testing.assert_allclose(pooling.pooled_alike(apart), bags.shares(apart))


def sampled_twice(moments):
    """Every two samples of every pair, one after the other."""
    total = number = 0.0
    average = moments.frequencies
    for x, y, table in zip(*moments.pairs, moments.pair_tables, strict=True):
        if x == y:
            continue
        samples = [(z, v) for z in range(len(table)) for v in range(len(table)) for _ in range(table[z, v])]
        chance = 1.0
        for point in (x, y):
            chance *= (1.0 - (average[point] ** 2).sum()) / max(moments.samples[point] - 1, 1)
        for k, (z, v) in enumerate(samples):
            for other, (a, b) in enumerate(samples):
                if k != other:
                    one = np.dot(np.eye(len(table))[z] - average[x], np.eye(len(table))[a] - average[x])
                    two = np.dot(np.eye(len(table))[v] - average[y], np.eye(len(table))[b] - average[y])
                    total += one * two - chance
                    number += 1
    return total / number


def test_uniform_laws_have_the_pseudo_counts_of_a_uniform_prior():
    """Of U(0, 1) rewards and two contexts a = 2 and b = 5, by their variances 1/12 and 1/24."""
    both = []
    for seed in range(4):
        moments = explore(large(seed=10 + seed), episodes=6000, seed=seed).moments
        both.append((Pool(moments).strength(2), Pool(moments).law[2]))
    a, b = np.mean(both, axis=0)
    assert a == pytest.approx(2.0, abs=0.35)
    assert b == pytest.approx(5.0, abs=0.35)  # at most MOST


def test_contexts_that_hardly_differ_are_pulled_together_as_far_as_allowed():
    moments = explore(large(seed=3, separation=0.03), episodes=3000, seed=1).moments
    assert Pool(moments).strength(2) == MOST
    assert LEAST <= Pool(explore(large(seed=3), episodes=3000, seed=1).moments).strength(3) <= MOST


def test_thin_counts_are_pulled_to_the_law_of_the_world_and_thick_ones_by_what_is_not_common(monkeypatch):
    average = np.array([[1.0, 0.0], [1.0, 0.0]])
    pool = Pool(explore(large(seed=3), episodes=50, seed=1).moments)
    world, _, pull = pool.law
    for common in (1.0, 0.25, 0.0):
        monkeypatch.setattr(Pool, "common", lambda self, contexts, r=common: r)
        thin, thick = pool.centre(average, np.array([1.0, 1e6]), 2)
        np.testing.assert_allclose(thin, world + common * (average[0] - world) / (1.0 + pull))
        np.testing.assert_allclose(thick, world + common * (average[1] - world), atol=1e-5)


@pytest.mark.parametrize(("contexts", "alike"), [(2, 0.0), (2, 0.5), (3, 0.0), (3, 0.5)])
def test_rewards_are_pulled_as_the_best_linear_prediction_pulls_them(contexts, alike):
    """Of one number of a context from seven visits of each, by its covariances with all that was observed."""
    noise, shared, own, n = 0.2, 0.04 * alike, 0.04 * (1 - alike), 7.0
    observed = np.full((contexts, contexts), shared) + (own + noise / n) * np.eye(contexts)
    weights = np.linalg.solve(observed, shared + own * np.eye(contexts)[0])
    distance, signal = own * (1 - 1 / contexts), shared + own / contexts
    square = 1.0 - noise - distance
    world = np.array([np.sqrt(square - signal)])
    pool = Pool(None)  # its sums are given
    pool.__dict__.update(law=(world, square, noise / signal), square_covariance=distance**2 / (contexts - 1))
    assert pool.common(contexts) == pytest.approx(shared / signal)
    assert pool.strength(contexts) == pytest.approx(min(noise / own, MOST))
    seen = world + np.random.default_rng(0).uniform(-1, 1, contexts)
    centre = pool.centre(seen.mean(keepdims=True)[None], np.array([contexts * n]), contexts)[0]
    found = (n * seen[0] + noise / own * centre) / (n + noise / own)
    assert found == pytest.approx(world + weights @ (seen - world))


def test_uniform_laws_have_nothing_in_common_and_close_ones_nearly_all():
    apart = [Pool(explore(large(seed=10 + seed), episodes=6000, seed=seed).moments).common(2) for seed in range(4)]
    assert np.mean(apart) < 0.2
    close = Pool(explore(large(seed=3, separation=0.03), episodes=3000, seed=1).moments)
    assert close.common(2) > 0.6
    assert close.common(1) == 1.0


def test_a_small_world_keeps_its_average_and_one_pseudo_count():
    world = problems.make("random", states=LARGE // 2, actions=2, horizon=5, successors=2)
    evidence = evidence_of(explore(world, episodes=300, seed=0).gathered)
    assert evidence.strength(Question()) == 1.0
    assert evidence.centre(evidence.bags, Question()) is evidence.bags.average


def test_what_is_asked_for_is_kept(explored):
    evidence = evidence_of(explored[1].gathered)
    assert evidence.strength(Question(prior=0.0)) == 0.0
    assert evidence.strength(Question(prior=3.0)) == 3.0
    assert 1.4 < evidence.strength(Question()) < 2.8
    assert not np.array_equal(evidence.centre(evidence.bags, Question()), evidence.bags.average)


def test_learned_pseudo_counts_bring_rewards_nearer_to_the_truth():
    world = large(seed=4)
    episodes = explore(world, episodes=800, seed=2).gathered

    def error(**options):
        model = aligned(recover(episodes, seed=0, **options).model, world)
        return np.sqrt(((model.rewards - world.rewards) ** 2).mean())

    assert error() < 0.97 * error(prior=1.0)


def test_sums_over_the_counts_are_taken_once(explored, monkeypatch):
    """However often a recovery asks, and also for what follows rewards: these are counts of exploration alone."""
    calls = []
    for name in ("world_law", "mean_square_covariance"):
        function = getattr(pooling, name)
        monkeypatch.setattr(pooling, name, lambda *given, f=function, n=name: calls.append(n) or f(*given))
    episodes = explored[1].gathered
    alone = evidence_of(episodes[:-500])
    for evidence in (alone, with_following(alone, episodes[:-500], episodes[-500:])):
        for _ in range(3):
            assert evidence.strength(Question()) == Pool(alone.moments).strength(2)
            assert evidence.centre(evidence.bags, Question()).shape == (300, 2)
    assert calls.count("world_law") == calls.count("mean_square_covariance") == 1 + 6
