"""explore(order=3): the plan against Algorithm 2 written out with three picks, counts, engines, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rewardmix import InputError, Moments, problems
from rewardmix._core.streams import Role
from rewardmix._core.streams import stream as stream_of
from rewardmix.environments import RewardMixingEnv, RewardMixingVectorEnv
from rewardmix.exploration import (
    Practical,
    all_triples,
    batched,
    explore,
    first_order,
    paper,
    practical,
    selected,
    theory,
    uniformly,
)
from rewardmix.exploration import checkpoints as module
from rewardmix.exploration.compiled_engine import CompiledEngine
from rewardmix.exploration.reference import Reference
from rewardmix.exploration.triples import blank_triples, refresh_triples, touch_up_triples

MODEL = problems.make("random", states=3, actions=2, horizon=5, seed=2)


def triples_of(moments):
    x, y, w = moments.triples
    cells = np.argwhere(moments.triple_tables)
    return {(int(x[p]), int(y[p]), int(w[p]), *map(int, zs)): int(moments.triple_tables[p, *zs]) for p, *zs in cells}


@pytest.mark.machines
@pytest.mark.parametrize(
    ("name", "options", "confidence", "episodes"),
    [
        ("random", {"states": 2, "actions": 2, "horizon": 4, "seed": 5}, practical, 80),
        ("random", {"states": 2, "actions": 2, "horizon": 4, "seed": 5}, paper(1e-3), 40),
        ("random", {"states": 3, "actions": 2, "horizon": 4, "seed": 1}, Practical(0.5, 1.5, unseen=1.0), 40),
        ("random", {"states": 3, "actions": 2, "horizon": 3, "contexts": 3, "reward_values": (-1.0, 0.0, 2.0)},
         practical, 40),
        ("random", {"states": 2, "actions": 2, "horizon": 2}, practical, 20),
        ("lock", {"steps": 2}, practical, 20),
        ("parity", {"actions": 3, "dials": 0}, practical, 40),
    ],
)  # fmt: skip
def test_compiled_equals_the_algorithm_written_out(name, options, confidence, episodes):
    model = problems.make(name, **options)
    reference = Reference(model, confidence, all_triples, 0.05)
    stream = stream_of(3, Role.EXPLORATION)
    reference.run(episodes, stream)
    found = explore(model, episodes=episodes, confidence=confidence, order=3, growth=1.0, seed=3)
    assert triples_of(found.moments) == reference.triples
    assert found.info.curve[:, 1].tolist() == reference.curve
    assert found.stream.tolist() == stream.tolist()
    assert found.moments == Moments.of(found.gathered, order=3)


def test_rows_planned_by_and_by_are_those_of_a_whole_plan():
    engine = CompiledEngine(MODEL, 0, False)
    tally = engine.fresh_tally(False)
    tally.watch_triples()
    plan = blank_triples(tally, practical, 0.05)
    refresh_triples(plan, tally, practical, 1.05)
    for until in (3, *range(20, 1000, 20)):
        engine.play(plan, plan.choices, tally, until, 10**9, 1.05)
        assert tally.outdated
        refresh_triples(plan, tally, practical, 1.05)
        shared, uncertainty = plan.choices.rows.copy(), plan.uncertainty
        tally.triples_dirty[:] = np.triu(np.ones((6, 6), bool))
        touch_up_triples(plan, tally, practical)
        assert np.array_equal(plan.choices.rows, shared)
        assert plan.uncertainty == uncertainty
        assert not tally.outdated
    assert uncertainty < 0.7


def test_dirty_pairs_are_those_whose_triples_have_grown():
    growth = 1.5
    engine = CompiledEngine(MODEL, 0, False)
    tally = engine.fresh_tally(False)
    tally.watch_triples()
    plan = blank_triples(tally, practical, 0.05)
    marked = 0
    for until in (1, 10, 30, 60, 100, 200, 400):
        refresh_triples(plan, tally, practical, growth)
        before = samples_of(tally)
        due = np.maximum(before + 1, np.ceil(growth * np.maximum(before, plan.known)))
        engine.play(plan, plan.choices, tally, until, 10**9, growth)
        grown = samples_of(tally) >= due
        wanted = grown.any(axis=2) | grown.any(axis=1) | grown.any(axis=0)
        assert np.array_equal(tally.triples_dirty, wanted)
        marked += int(wanted.sum())
    assert 0 < marked < 7 * 21


def samples_of(tally):
    """(X, X, X) samples of each triple, as they are keyed."""
    keys, tables = tally.triples.sorted_tables()
    found = np.zeros(tally.num_x**3)
    found[keys] = tables.sum(axis=(1, 2, 3))
    return found.reshape((tally.num_x,) * 3)


ENVIRONMENTS = [
    RewardMixingEnv,
    *(lambda m, k=k: RewardMixingVectorEnv(m, 3, autoreset_mode=k) for k in ("NextStep", "Disabled")),
]


@pytest.mark.parametrize("make", ENVIRONMENTS)
def test_environments_are_explored_likewise(make):
    found = explore(make(MODEL), episodes=150, order=3)
    assert found.moments == Moments.of(found.gathered, order=3)
    assert found.uncertainty == pytest.approx(explore(MODEL, episodes=150, order=3).uncertainty, rel=0.25)
    further = explore(make(MODEL), episodes=200, order=3, after=found)
    assert further.moments == Moments.of(further.gathered, order=3)


@pytest.mark.parametrize("strategy", [uniformly, first_order], ids=lambda s: s.__name__)
def test_baselines_count_triples_too(strategy):
    found = explore(MODEL, episodes=100, order=3, strategy=strategy)
    assert found.moments == Moments.of(found.gathered, order=3)


def test_it_sees_triples_that_pairs_do_not_show():
    """The three special state-actions of parity, in one episode: by pairs as good as never."""
    model = problems.make("parity", actions=3)
    told = np.flatnonzero(np.ptp(model.rewards, axis=0).ravel() > 0.1)

    def number(order):
        episodes = explore(model, episodes=8000, order=order).gathered
        x = episodes.states[:, :-1].astype(int) * 3 + episodes.actions
        return int((np.isin(x, told).sum(axis=1) == 3).sum())

    assert number(2) <= 2
    assert number(3) >= 15


def test_triple_products_have_the_exact_mean():
    """The sum over runs of (product - exact) has mean zero for every triple: z-scores within an exact band."""
    model = problems.make("random", states=2, actions=2, horizon=5, contexts=3, seed=4)
    laws = model.rewards.reshape(3, -1)
    sums, squares, samples = np.zeros(64), np.zeros(64), np.zeros(64)
    for seed in range(600):
        moments = explore(model, episodes=40, order=3, seed=seed, keep=False).moments
        x, y, w = moments.triples
        exact = model.weights @ (laws[:, x] * laws[:, y] * laws[:, w])
        off = moments.triple_tables[:, 1, 1, 1] - moments.triple_samples * exact
        sums[moments.triple_keys] += off
        squares[moments.triple_keys] += off**2
        samples[moments.triple_keys] += moments.triple_samples
    seen = samples > 0
    assert seen.sum() == 20
    assert samples[seen].min() > 1000
    assert np.abs(sums[seen] / np.sqrt(squares[seen])).max() < stats.norm.isf(1e-7)


def test_interrupted_and_resumed_is_as_if_never_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SECONDS", 0.0)
    settings = {"episodes": 2000, "order": 3, "seed": 3}
    whole = explore(MODEL, **settings)
    calls = {"number": 0}

    def interrupt(update):
        calls["number"] += 1
        if calls["number"] == 60:
            raise KeyboardInterrupt

    part = explore(MODEL, **settings, checkpoint=tmp_path, on_update=interrupt)
    assert part.episodes < 2000
    resumed = explore(MODEL, **settings, checkpoint=tmp_path)
    assert resumed.moments == whole.moments
    assert np.array_equal(resumed.info.curve, whole.info.curve)
    with pytest.raises(InputError, match="checkpoint: found a run with counts = all triples"):
        explore(MODEL, episodes=2000, seed=3, checkpoint=tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"order": 1}, "order: found 1, expected 2 for pairs, or 3 for triples"),
        ({"order": 4}, "order: found 4, expected 2 for pairs, or 3 for triples"),
        ({"order": 3, "counts": selected}, "counts: found selected, expected all_pairs with order 3"),
        ({"counts": all_triples}, "counts: found all triples, expected all_pairs or selected"),
        ({"order": 3, "engine": batched}, "engine: found batched, expected compiled with order 3"),
        ({"order": 3, "confidence": theory}, "confidence: found theory, expected practical or paper"),
        ({"order": 3, "after": explore(MODEL, episodes=5)}, "after: found moments without triples"),
    ],
)
def test_what_triples_are_not_explored_with_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        explore(MODEL, episodes=10, **options)


def test_worlds_that_are_too_large_are_refused_with_the_estimate():
    large = problems.make("random", states=2000, actions=4, horizon=40, successors=2)
    with pytest.raises(InputError, match="order: found a need of about .* GiB of memory, expected at most 16"):
        explore(large, episodes=10, order=3)
