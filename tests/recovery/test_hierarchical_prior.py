"""Pseudo-counts that a large world learns from its counts: unbiased sums, their slow twins, and what they change."""

import numpy as np
import pytest

from rewardmix import problems
from rewardmix.exploration import explore
from rewardmix.recovery import align_types, hierarchical_prior, recover, reward_patterns
from rewardmix.recovery.evidence import RecoverySettings, add_adaptive_episodes, make_recovery_data
from rewardmix.recovery.hierarchical_prior import (
    MAX_PSEUDOCOUNT,
    MIN_LARGE_SIZE,
    MIN_PSEUDOCOUNT,
    HierarchicalPrior,
    mean_square_covariance,
    pooled_distribution,
)


def large(**options):
    return problems.make_model("random", states=150, actions=2, horizon=10, next_states=2, **options)


@pytest.fixture(scope="module")
def explored():
    model = large(seed=3)
    return model, explore(model, num_episodes=8000, seed=1)


@pytest.mark.parametrize("values", [(0.0, 1.0), (0.0, 0.5, 1.0)])
def test_sums_are_those_of_plain_loops(values):
    moments = explore(
        problems.make_model("random", states=3, actions=2, horizon=5, reward_values=values, seed=2),
        num_episodes=60,
        seed=0,
    ).moments
    square = weights = 0.0
    pooled = np.zeros(len(values))
    for counts in moments.reward_counts:
        n = counts.sum()
        if n > 1:
            square += (n - 1) * sum(c * (c - 1) for c in counts) / (n * (n - 1))
            pooled += (n - 1) * counts / n
            weights += n - 1
    result = pooled_distribution(moments.reward_counts)
    np.testing.assert_allclose(result[0], pooled / weights, rtol=1e-12)
    assert result[1] == pytest.approx(square / weights, rel=1e-12)
    assert mean_square_covariance(moments) == pytest.approx(sampled_twice(moments), rel=1e-9)


def test_averages_are_pulled_where_state_actions_are_alike_by_a_plain_loop():
    reward_counts = np.array(
        [[30.0, 20.0, 10.0], [26.0, 22.0, 12.0], [3.0, 0.0, 4.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    )
    repeated = [row for row in reward_counts if row.sum() > 1]
    pooled = sum(row / row.sum() for row in repeated) / len(repeated)
    square = sum(sum(c * (c - 1) for c in row) / (row.sum() * (row.sum() - 1)) for row in repeated) / len(repeated)
    pseudocount = (1 - square) / (square - sum(pooled**2)) - hierarchical_prior.SIMILARITY_COUNT
    assert 1 < pseudocount < 100
    expected = [(row + pseudocount * pooled) / (row.sum() + pseudocount) for row in reward_counts[:4]]
    result = hierarchical_prior.shrink_to_pooled(reward_counts)
    np.testing.assert_allclose(result[:4], expected, rtol=1e-12)
    np.testing.assert_allclose(
        result[4], reward_patterns.normalize_counts(reward_counts)[4]
    )  # nothing was seen, nothing is made up
    apart = reward_counts[:, [0, 1, 2]] + [[0, 0, 300], [300, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    np.testing.assert_allclose(hierarchical_prior.shrink_to_pooled(apart), reward_patterns.normalize_counts(apart))


def sampled_twice(moments):
    """Every two samples of every pair, one after the other."""
    total = number = 0.0
    marginals = moments.reward_frequencies
    for x, y, table in zip(*moments.pairs, moments.pair_tables, strict=True):
        if x == y:
            continue
        samples = [(z, v) for z in range(len(table)) for v in range(len(table)) for _ in range(table[z, v])]
        prob = 1.0
        for point in (x, y):
            prob *= (1.0 - (marginals[point] ** 2).sum()) / max(moments.num_samples[point] - 1, 1)
        for k, (z, v) in enumerate(samples):
            for other, (a, b) in enumerate(samples):
                if k != other:
                    product_x = np.dot(np.eye(len(table))[z] - marginals[x], np.eye(len(table))[a] - marginals[x])
                    product_y = np.dot(np.eye(len(table))[v] - marginals[y], np.eye(len(table))[b] - marginals[y])
                    total += product_x * product_y - prob
                    number += 1
    return total / number


@pytest.mark.statistical
def test_uniform_laws_have_the_pseudo_counts_of_a_uniform_prior():
    """Of U(0, 1) rewards and two contexts a = 2 and b = 5, by their variances 1/12 and 1/24."""
    both = []
    for seed in range(4):
        moments = explore(large(seed=10 + seed), num_episodes=6000, seed=seed).moments
        both.append((HierarchicalPrior(moments).pseudocount(2), HierarchicalPrior(moments).pooled[2]))
    a, b = np.mean(both, axis=0)
    assert a == pytest.approx(2.0, abs=0.35)
    assert b == pytest.approx(5.0, abs=0.35)  # at most MOST


@pytest.mark.statistical
def test_contexts_that_hardly_differ_are_pulled_together_as_far_as_allowed():
    moments = explore(large(seed=3, separation=0.03), num_episodes=3000, seed=1).moments
    assert HierarchicalPrior(moments).pseudocount(2) == MAX_PSEUDOCOUNT
    assert (
        MIN_PSEUDOCOUNT
        <= HierarchicalPrior(explore(large(seed=3), num_episodes=3000, seed=1).moments).pseudocount(3)
        <= MAX_PSEUDOCOUNT
    )


def test_thin_counts_are_pulled_to_the_law_of_the_world_and_thick_ones_by_what_is_not_common(monkeypatch):
    marginals = np.array([[1.0, 0.0], [1.0, 0.0]])
    prior = HierarchicalPrior(explore(large(seed=3), num_episodes=50, seed=1).moments)
    pooled, _, b = prior.pooled
    for common in (1.0, 0.25, 0.0):
        monkeypatch.setattr(HierarchicalPrior, "shared_variance", lambda self, num_types, r=common: r)
        thin, thick = prior.prior_mean(marginals, np.array([1.0, 1e6]), 2)
        np.testing.assert_allclose(thin, pooled + common * (marginals[0] - pooled) / (1.0 + b))
        np.testing.assert_allclose(thick, pooled + common * (marginals[1] - pooled), atol=1e-5)


@pytest.mark.parametrize(("num_types", "alike"), [(2, 0.0), (2, 0.5), (3, 0.0), (3, 0.5)])
def test_rewards_are_pulled_as_the_best_linear_prediction_pulls_them(num_types, alike):
    """Of one number of a context from seven visits of each, by its covariances with all that was observed."""
    noise, shared, separate, n = 0.2, 0.04 * alike, 0.04 * (1 - alike), 7.0
    observed = np.full((num_types, num_types), shared) + (separate + noise / n) * np.eye(num_types)
    weights = np.linalg.solve(observed, shared + separate * np.eye(num_types)[0])
    distance, signal = separate * (1 - 1 / num_types), shared + separate / num_types
    square = 1.0 - noise - distance
    pooled = np.array([np.sqrt(square - signal)])
    prior = HierarchicalPrior(None)  # its sums are given
    prior.__dict__.update(pooled=(pooled, square, noise / signal), square_covariance=distance**2 / (num_types - 1))
    assert prior.shared_variance(num_types) == pytest.approx(shared / signal)
    assert prior.pseudocount(num_types) == pytest.approx(min(noise / separate, MAX_PSEUDOCOUNT))
    marginals = pooled + np.random.default_rng(0).uniform(-1, 1, num_types)
    center = prior.prior_mean(marginals.mean(keepdims=True)[None], np.array([num_types * n]), num_types)[0]
    result = (n * marginals[0] + noise / separate * center) / (n + noise / separate)
    assert result == pytest.approx(pooled + weights @ (marginals - pooled))


@pytest.mark.statistical
def test_uniform_laws_have_nothing_in_common_and_close_ones_nearly_all():
    apart = [
        HierarchicalPrior(explore(large(seed=10 + seed), num_episodes=6000, seed=seed).moments).shared_variance(2)
        for seed in range(4)
    ]
    assert np.mean(apart) < 0.2
    close = HierarchicalPrior(explore(large(seed=3, separation=0.03), num_episodes=3000, seed=1).moments)
    assert close.shared_variance(2) > 0.6
    assert close.shared_variance(1) == 1.0


def test_a_small_world_keeps_its_average_and_one_pseudo_count():
    model = problems.make_model("random", states=MIN_LARGE_SIZE // 2, actions=2, horizon=5, next_states=2)
    evidence = make_recovery_data(explore(model, num_episodes=300, seed=0).episodes)
    assert evidence.pseudocount(RecoverySettings()) == 1.0
    assert evidence.prior_mean(evidence.patterns, RecoverySettings()) is evidence.patterns.marginal_probs


@pytest.mark.system
def test_what_is_asked_for_is_kept(explored):
    evidence = make_recovery_data(explored[1].episodes)
    assert evidence.pseudocount(RecoverySettings(pseudocount=0.0)) == 0.0
    assert evidence.pseudocount(RecoverySettings(pseudocount=3.0)) == 3.0
    assert 1.4 < evidence.pseudocount(RecoverySettings()) < 2.8
    assert not np.array_equal(
        evidence.prior_mean(evidence.patterns, RecoverySettings()), evidence.patterns.marginal_probs
    )


@pytest.mark.system
def test_learned_pseudo_counts_bring_rewards_nearer_to_the_truth():
    model = large(seed=4)
    episodes = explore(model, num_episodes=800, seed=2).episodes

    def error(**options):
        recovered = align_types(recover(episodes, seed=0, **options).model, model)
        return np.sqrt(((recovered.rewards - model.rewards) ** 2).mean())

    assert error() < 0.97 * error(pseudocount=1.0)


def test_sums_over_the_counts_are_taken_once(explored, monkeypatch):
    """However often a recovery asks, and also for what follows rewards: these are counts of exploration alone."""
    calls = []
    for name in ("pooled_distribution", "mean_square_covariance"):
        function = getattr(hierarchical_prior, name)
        monkeypatch.setattr(hierarchical_prior, name, lambda *value, f=function, n=name: calls.append(n) or f(*value))
    episodes = explored[1].episodes
    alone = make_recovery_data(episodes[:-500])
    for evidence in (alone, add_adaptive_episodes(alone, episodes[:-500], episodes[-500:])):
        for _ in range(3):
            assert evidence.pseudocount(RecoverySettings()) == HierarchicalPrior(alone.moments).pseudocount(2)
            assert evidence.prior_mean(evidence.patterns, RecoverySettings()).shape == (300, 2)
    assert calls.count("pooled_distribution") == calls.count("mean_square_covariance") == 1 + 6
