"""The batched engine has the law of the episode-by-episode engine; its draws are exact for any number of trials."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rewardmix import problems, theory
from rewardmix._core.binomial import binomial, log_binomial, multinomial
from rewardmix._core.checks import InputError
from rewardmix._core.streams import Role
from rewardmix._core.streams import stream as stream_of
from rewardmix.exploration import all_pairs, batched, compiled, explore, paper, selected, uniformly
from rewardmix.exploration.augmented import blank_plan, refresh
from rewardmix.exploration.batched_engine import BatchedEngine
from rewardmix.exploration.compiled_engine import CompiledEngine


@pytest.mark.parametrize(("n", "p"), [(7, 0.3), (40, 0.9), (100, 0.05), (100, 0.31), (5000, 0.5), (10**6, 1e-5)])
def test_binomial_draws_fit_their_law(n, p):
    stream = stream_of(1, Role.BATCHED_EXPLORATION, n)
    found = np.array([binomial(n, p, stream) for _ in range(20_000)])
    low, high = int(stats.binom.ppf(0.01, n, p)), int(stats.binom.ppf(0.99, n, p))
    edges = np.unique(np.linspace(low, high, 12).astype(int))
    expected = np.diff(np.concatenate([[0.0], stats.binom.cdf(edges, n, p), [1.0]]))
    counts = np.bincount(np.searchsorted(edges, found), minlength=edges.size + 1)
    some = expected > 0
    assert stats.chisquare(counts[some], expected[some] / expected[some].sum() * found.size).pvalue > 1e-6


@pytest.mark.parametrize("n", [10**9, 10**12, 10**15])
@pytest.mark.parametrize("p", [0.5, 0.03])
def test_binomial_draws_at_huge_numbers_are_normal_to_every_digit(n, p):
    """At these n the law differs from a normal one by less than 20,000 draws can show."""
    stream = stream_of(2, Role.BATCHED_EXPLORATION, n)
    found = np.array([(binomial(n, p, stream) - n * p) / np.sqrt(n * p * (1 - p)) for _ in range(20_000)])
    assert stats.kstest(found, "norm").pvalue > 1e-6


def test_log_binomial_ratios():
    k = np.arange(0, 31)
    exact = stats.binom.logpmf(k, 30, 0.3)
    found = np.array([log_binomial(float(i), 30.0, 0.3) for i in k])
    assert found - found[9] == pytest.approx(exact - exact[9], abs=1e-11)


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
    model = problems.make("random", states=2, actions=2, horizon=4, seed=6, weights=(0.3, 0.7))
    first = CompiledEngine(model, 0, False)
    tally = first.fresh_tally(True)
    plan = blank_plan(tally, paper(0.05), 0.1)
    refresh(plan, tally, paper(0.05), 1.0)
    for k in range(1, 200):
        first.play(plan, plan.choices, tally, k, 0, 1.0)
        refresh(plan, tally, paper(0.05), 1.0)
    engines = CompiledEngine(model, 1, False), BatchedEngine(model, 2)
    found = []
    for engine in engines:
        rows = []
        for _ in range(3000):
            fresh = engine.fresh_tally(True)
            while fresh.episodes < 30:
                engine.play(plan, plan.choices, fresh, 30, 10**9, 1e9)
            tables = np.zeros((16, 4), np.int64)
            moments = fresh.moments()
            tables[moments.selected_keys] = moments.selected_tables.reshape(-1, 4)
            rows.append(np.concatenate([fresh.starts, fresh.moves, fresh.outcomes.ravel(), tables.ravel()]))
        found.append(np.array(rows, dtype=float))
    return found


def test_batches_have_the_same_law_as_episodes(samples):
    """Means, all second moments, and each marginal law agree."""
    one, two = samples
    varying = (one.std(axis=0) > 0) | (two.std(axis=0) > 0)
    one, two = one[:, varying], two[:, varying]
    products = [np.einsum("ki,kj->kij", part, part).reshape(len(part), -1) for part in (one, two)]
    for a, b in ((one, two), products):
        spread = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b))
        scores = (a.mean(axis=0) - b.mean(axis=0)) / np.where(spread > 0, spread, 1)
        assert np.abs(scores).max() < stats.norm.isf(1e-6 / scores.size)
    for i in range(one.shape[1]):
        values = np.unique(np.concatenate([one[:, i], two[:, i]]))
        table = np.array([[np.sum(part[:, i] == v) for v in values] for part in (one, two)])
        rare = table.sum(axis=0) < 20
        table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
        table = table[:, table.sum(axis=0) > 0]
        if table.shape[1] > 1:
            assert stats.chi2_contingency(table).pvalue > 1e-7


def test_the_papers_algorithm_runs_to_its_end():
    model = problems.make("random", states=3, actions=2, horizon=4)
    threshold = theory.threshold(0.1, 0.2, 4)
    found = explore(
        model, threshold=threshold, failure=0.1, confidence=paper(), counts=selected, engine=batched, growth=1.5
    )
    assert found.info.stopped == "threshold"
    assert found.uncertainty <= threshold
    assert found.moments.starts.sum() == found.episodes
    assert found.moments.visits.sum() == 4 * found.episodes
    assert found.episodes == pytest.approx(theory.fluid_episodes(3, 2, 4, threshold, 0.1), rel=0.5)
    assert found.moments.average == pytest.approx(model.average, abs=1e-4)


def test_batched_and_compiled_agree_along_whole_runs():
    model = problems.make("random", states=2, actions=2, horizon=3, seed=1)
    settings = {"episodes": 20_000, "confidence": paper(0.1), "counts": selected, "keep": False}
    one = np.mean([explore(model, engine=compiled, seed=s, **settings).uncertainty for s in range(5)])
    two = np.mean([explore(model, engine=batched, seed=s, **settings).uncertainty for s in range(5)])
    assert two == pytest.approx(one, rel=0.05)


def test_what_a_batch_cannot_do_is_refused():
    model = problems.make("random", states=2, actions=2, horizon=3)
    with pytest.raises(InputError, match="counts: found all_pairs, expected selected"):
        explore(model, episodes=10, engine=batched, counts=all_pairs)
    with pytest.raises(InputError, match="strategy: found random actions"):
        explore(model, episodes=10, engine=batched, counts=selected, strategy=uniformly)
