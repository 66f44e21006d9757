"""The batched engine has the law of the episode-by-episode engine; its draws are exact for any number of trials."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rewardmix import problems, theory
from rewardmix._core.binomial import binomial, log_binomial, multinomial
from rewardmix._core.checks import InputError
from rewardmix._core.random_streams import Role
from rewardmix._core.random_streams import kernel_stream as stream_of
from rewardmix.exploration import (
    all_pairs,
    explore,
    make_batched_engine,
    make_compiled_engine,
    paper_bonus,
    selected_pairs,
    uniform_strategy,
)
from rewardmix.exploration.augmented_mdp import make_pair_plan, replan_pairs
from rewardmix.exploration.batched_engine import BatchedEngine
from rewardmix.exploration.compiled_engine import CompiledEngine


@pytest.mark.parametrize(("n", "p"), [(7, 0.3), (40, 0.9), (100, 0.05), (100, 0.31), (5000, 0.5), (10**6, 1e-5)])
def test_binomial_draws_fit_their_law(n, p):
    stream = stream_of(1, Role.BATCHED_EXPLORATION, n)
    result = np.array([binomial(n, p, stream) for _ in range(20_000)])
    low, high = int(stats.binom.ppf(0.01, n, p)), int(stats.binom.ppf(0.99, n, p))
    edges = np.unique(np.linspace(low, high, 12).astype(int))
    expected = np.diff(np.concatenate([[0.0], stats.binom.cdf(edges, n, p), [1.0]]))
    counts = np.bincount(np.searchsorted(edges, result), minlength=edges.size + 1)
    any_value = expected > 0
    assert (
        stats.chisquare(counts[any_value], expected[any_value] / expected[any_value].sum() * result.size).pvalue > 1e-6
    )


@pytest.mark.parametrize("n", [10**9, 10**12, 10**15])
@pytest.mark.parametrize("p", [0.5, 0.03])
def test_binomial_draws_at_huge_numbers_are_normal_to_every_digit(n, p):
    """At these n the law differs from a normal one by less than 20,000 draws can show."""
    stream = stream_of(2, Role.BATCHED_EXPLORATION, n)
    result = np.array([(binomial(n, p, stream) - n * p) / np.sqrt(n * p * (1 - p)) for _ in range(20_000)])
    assert stats.kstest(result, "norm").pvalue > 1e-6


def test_log_binomial_ratios():
    k = np.arange(0, 31)
    exact = stats.binom.logpmf(k, 30, 0.3)
    result = np.array([log_binomial(float(i), 30.0, 0.3) for i in k])
    assert result - result[9] == pytest.approx(exact - exact[9], abs=1e-11)


def test_multinomial_adds_up():
    stream, out = stream_of(3, Role.BATCHED_EXPLORATION), np.zeros(4, np.int64)
    p = np.array([0.1, 0.0, 0.6, 0.3])
    tail = np.cumsum(p[::-1])[::-1].copy()
    total = np.zeros(4, np.int64)
    for _ in range(200):
        multinomial(10**6, p, tail, stream, out)
        assert out.sum() == 10**6
        assert (out >= 0).all()
        total += out
    assert total[1] == 0
    scores = (total - 2e8 * p)[[0, 2, 3]] / np.sqrt(2e8 * p * (1 - p))[[0, 2, 3]]
    assert np.abs(scores).max() < 6


@pytest.fixture(scope="module")
def samples():
    """The whole vector of counts of 30 episodes under one fixed plan, drawn many times by both engines."""
    model = problems.make_model("random", states=2, actions=2, horizon=4, seed=6, weights=(0.3, 0.7))
    first = CompiledEngine(model, 0, False)
    counts = first.new_counts(True)
    plan = make_pair_plan(counts, paper_bonus(0.05), 0.1)
    replan_pairs(plan, counts, paper_bonus(0.05), 1.0)
    for k in range(1, 200):
        first.play(plan, plan.choices, counts, k, 0, 1.0)
        replan_pairs(plan, counts, paper_bonus(0.05), 1.0)
    engines = CompiledEngine(model, 1, False), BatchedEngine(model, 2)
    result = []
    for engine in engines:
        rows = []
        for _ in range(3000):
            fresh = engine.new_counts(True)
            while fresh.episodes < 30:
                engine.play(plan, plan.choices, fresh, 30, 10**9, 1e9)
            tables = np.zeros((16, 4), np.int64)
            moments = fresh.moments()
            tables[moments.first_visit_keys] = moments.first_visit_tables.reshape(-1, 4)
            rows.append(
                np.concatenate(
                    [fresh.initial_counts, fresh.transition_counts, fresh.reward_counts.ravel(), tables.ravel()]
                )
            )
        result.append(np.array(rows, dtype=float))
    return result


@pytest.mark.statistical
def test_batches_have_the_same_law_as_episodes(samples):
    """Means, all second moments, and each marginal law agree."""
    item, two = samples
    varying = (item.std(axis=0) > 0) | (two.std(axis=0) > 0)
    item, two = item[:, varying], two[:, varying]
    products = [np.einsum("ki,kj->kij", piece, piece).reshape(len(piece), -1) for piece in (item, two)]
    for a, b in ((item, two), products):
        spread = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b))
        scores = (a.mean(axis=0) - b.mean(axis=0)) / np.where(spread > 0, spread, 1)
        assert np.abs(scores).max() < stats.norm.isf(1e-6 / scores.size)
    for i in range(item.shape[1]):
        values = np.unique(np.concatenate([item[:, i], two[:, i]]))
        table = np.array([[np.sum(piece[:, i] == v) for v in values] for piece in (item, two)])
        rare = table.sum(axis=0) < 20
        table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
        table = table[:, table.sum(axis=0) > 0]
        if table.shape[1] > 1:
            assert stats.chi2_contingency(table).pvalue > 1e-7


def test_the_papers_algorithm_runs_to_its_end():
    model = problems.make_model("random", states=3, actions=2, horizon=4)
    threshold = theory.uncertainty_threshold(0.1, 0.2, 4)
    result = explore(
        model,
        uncertainty_threshold=threshold,
        failure_prob=0.1,
        bonus=paper_bonus(),
        counting=selected_pairs,
        engine=make_batched_engine,
        replan_growth=1.5,
    )
    assert result.info.stop_reason == "threshold"
    assert result.uncertainty <= threshold
    assert result.moments.initial_counts.sum() == result.num_episodes
    assert result.moments.visits.sum() == 4 * result.num_episodes
    assert result.num_episodes == pytest.approx(theory.estimate_paper_episodes(3, 2, 4, threshold, 0.1), rel=0.5)
    assert result.moments.marginal_rewards == pytest.approx(model.marginal_rewards, abs=1e-4)


def test_batched_and_compiled_agree_along_whole_runs():
    model = problems.make_model("random", states=2, actions=2, horizon=3, seed=1)
    settings = {"num_episodes": 20_000, "bonus": paper_bonus(0.1), "counting": selected_pairs, "keep_episodes": False}
    item = np.mean([explore(model, engine=make_compiled_engine, seed=s, **settings).uncertainty for s in range(5)])
    two = np.mean([explore(model, engine=make_batched_engine, seed=s, **settings).uncertainty for s in range(5)])
    assert two == pytest.approx(item, rel=0.05)


def test_what_a_batch_cannot_do_is_refused():
    model = problems.make_model("random", states=2, actions=2, horizon=3)
    with pytest.raises(InputError, match="counting: got all_pairs, expected selected_pairs"):
        explore(model, num_episodes=10, engine=make_batched_engine, counting=all_pairs)
    with pytest.raises(InputError, match="strategy: got random actions"):
        explore(model, num_episodes=10, engine=make_batched_engine, counting=selected_pairs, strategy=uniform_strategy)
