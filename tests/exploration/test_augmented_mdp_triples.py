"""explore(order=3): the plan against Algorithm 2 written out with three picks, counts, engines, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rewardmix import InputError, Moments, problems
from rewardmix._core.random_streams import Role
from rewardmix._core.random_streams import kernel_stream as stream_of
from rewardmix.environments import RewardMixingEnv, RewardMixingVectorEnv
from rewardmix.exploration import (
    PracticalBonus,
    all_triples,
    explore,
    make_batched_engine,
    paper_bonus,
    practical_bonus,
    selected_pairs,
    state_action_strategy,
    theory_bonus,
    uniform_strategy,
)
from rewardmix.exploration import checkpoints as module
from rewardmix.exploration.augmented_mdp_triples import make_triple_plan, replan_stale_triples, replan_triples
from rewardmix.exploration.compiled_engine import CompiledEngine
from rewardmix.exploration.reference import Algorithm2Reference

MODEL = problems.make_model("random", states=3, actions=2, horizon=5, seed=2)


def triples_of(moments):
    x, y, w = moments.triples
    cells = np.argwhere(moments.triple_tables)
    return {(int(x[p]), int(y[p]), int(w[p]), *map(int, zs)): int(moments.triple_tables[p, *zs]) for p, *zs in cells}


@pytest.mark.machines
@pytest.mark.parametrize(
    ("name", "options", "bonus", "episodes"),
    [
        ("random", {"states": 2, "actions": 2, "horizon": 4, "seed": 5}, practical_bonus, 80),
        ("random", {"states": 2, "actions": 2, "horizon": 4, "seed": 5}, paper_bonus(1e-3), 40),
        ("random", {"states": 3, "actions": 2, "horizon": 4, "seed": 1},
         PracticalBonus(0.5, 1.5, unseen_pair_weight=1.0), 40),
        ("random", {"states": 3, "actions": 2, "horizon": 3, "num_types": 3, "reward_values": (-1.0, 0.0, 2.0)},
         practical_bonus, 40),
        ("random", {"states": 2, "actions": 2, "horizon": 2}, practical_bonus, 20),
        ("lock", {"steps": 2}, practical_bonus, 20),
        ("parity", {"actions": 3, "dials": 0}, practical_bonus, 40),
    ],
)  # fmt: skip
def test_compiled_equals_the_algorithm_written_out(name, options, bonus, episodes):
    model = problems.make_model(name, **options)
    reference = Algorithm2Reference(model, bonus, all_triples, 0.05)
    stream = stream_of(3, Role.EXPLORATION)
    reference.run(episodes, stream)
    result = explore(model, num_episodes=episodes, bonus=bonus, moment_order=3, replan_growth=1.0, seed=3)
    assert triples_of(result.moments) == reference.triples
    assert result.info.uncertainty_curve[:, 1].tolist() == reference.curve
    assert result.rng_state.tolist() == stream.tolist()
    assert result.moments == Moments.from_episodes(result.episodes, order=3)


def test_rows_planned_by_and_by_are_those_of_a_whole_plan():
    engine = CompiledEngine(MODEL, 0, False)
    counts = engine.new_counts(False)
    counts.enable_triples()
    plan = make_triple_plan(counts, practical_bonus, 0.05)
    replan_triples(plan, counts, practical_bonus, 1.05)
    for until in (3, *range(20, 1000, 20)):
        engine.play(plan, plan.choices, counts, until, 10**9, 1.05)
        assert counts.num_stale
        replan_triples(plan, counts, practical_bonus, 1.05)
        shared, uncertainty = plan.choices.rows.copy(), plan.uncertainty
        counts.stale_triples[:] = np.triu(np.ones((6, 6), bool))
        replan_stale_triples(plan, counts, practical_bonus)
        assert np.array_equal(plan.choices.rows, shared)
        assert plan.uncertainty == uncertainty
        assert not counts.num_stale
    assert uncertainty < 0.7


def test_dirty_pairs_are_those_whose_triples_have_grown():
    growth = 1.5
    engine = CompiledEngine(MODEL, 0, False)
    counts = engine.new_counts(False)
    counts.enable_triples()
    plan = make_triple_plan(counts, practical_bonus, 0.05)
    marked = 0
    for until in (1, 10, 30, 60, 100, 200, 400):
        replan_triples(plan, counts, practical_bonus, growth)
        before = samples_of(counts)
        due = np.maximum(before + 1, np.ceil(growth * np.maximum(before, plan.saturation_count)))
        engine.play(plan, plan.choices, counts, until, 10**9, growth)
        grown = samples_of(counts) >= due
        expected = grown.any(axis=2) | grown.any(axis=1) | grown.any(axis=0)
        assert np.array_equal(counts.stale_triples, expected)
        marked += int(expected.sum())
    assert 0 < marked < 7 * 21


def samples_of(counts):
    """(X, X, X) samples of each triple, as they are keyed."""
    keys, tables = counts.triples.export_tables()
    result = np.zeros(counts.num_state_actions**3)
    result[keys] = tables.sum(axis=(1, 2, 3))
    return result.reshape((counts.num_state_actions,) * 3)


ENVIRONMENTS = [
    RewardMixingEnv,
    *(lambda m, k=k: RewardMixingVectorEnv(m, 3, autoreset_mode=k) for k in ("NextStep", "Disabled")),
]


@pytest.mark.system
@pytest.mark.parametrize("make", ENVIRONMENTS)
def test_environments_are_explored_likewise(make):
    result = explore(make(MODEL), num_episodes=150, moment_order=3)
    assert result.moments == Moments.from_episodes(result.episodes, order=3)
    assert result.uncertainty == pytest.approx(explore(MODEL, num_episodes=150, moment_order=3).uncertainty, rel=0.25)
    further = explore(make(MODEL), num_episodes=200, moment_order=3, resume_from=result)
    assert further.moments == Moments.from_episodes(further.episodes, order=3)


@pytest.mark.parametrize("strategy", [uniform_strategy, state_action_strategy], ids=lambda s: s.__name__)
def test_baselines_count_triples_too(strategy):
    result = explore(MODEL, num_episodes=100, moment_order=3, strategy=strategy)
    assert result.moments == Moments.from_episodes(result.episodes, order=3)


def test_it_sees_triples_that_pairs_do_not_show():
    """The three special state-actions of parity, in one episode: by pairs as good as never."""
    model = problems.make_model("parity", actions=3)
    informative = np.flatnonzero(np.ptp(model.rewards, axis=0).ravel() > 0.1)

    def number(order):
        episodes = explore(model, num_episodes=8000, moment_order=order).episodes
        x = episodes.states[:, :-1].astype(int) * 3 + episodes.actions
        return int((np.isin(x, informative).sum(axis=1) == 3).sum())

    assert number(2) <= 2
    assert number(3) >= 15


@pytest.mark.statistical
def test_triple_products_have_the_exact_mean():
    """The sum over runs of (product - exact) has mean zero for every triple: z-scores within an exact band."""
    model = problems.make_model("random", states=2, actions=2, horizon=5, num_types=3, seed=4)
    probs = model.rewards.reshape(3, -1)
    sums, squares, samples = np.zeros(64), np.zeros(64), np.zeros(64)
    for seed in range(600):
        moments = explore(model, num_episodes=40, moment_order=3, seed=seed, keep_episodes=False).moments
        x, y, w = moments.triples
        exact = model.weights @ (probs[:, x] * probs[:, y] * probs[:, w])
        off = moments.triple_tables[:, 1, 1, 1] - moments.triple_samples * exact
        sums[moments.triple_keys] += off
        squares[moments.triple_keys] += off**2
        samples[moments.triple_keys] += moments.triple_samples
    is_sampled = samples > 0
    assert is_sampled.sum() == 20
    assert samples[is_sampled].min() > 1000
    assert np.abs(sums[is_sampled] / np.sqrt(squares[is_sampled])).max() < stats.norm.isf(1e-7)


def test_interrupted_and_resumed_is_as_if_never_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MIN_SECONDS_BETWEEN", 0.0)
    settings = {"num_episodes": 2000, "moment_order": 3, "seed": 3}
    whole = explore(MODEL, **settings)
    calls = {"number": 0}

    def interrupt(update):
        calls["number"] += 1
        if calls["number"] == 60:
            raise KeyboardInterrupt

    partial = explore(MODEL, **settings, checkpoint_dir=tmp_path, callback=interrupt)
    assert partial.num_episodes < 2000
    resumed = explore(MODEL, **settings, checkpoint_dir=tmp_path)
    assert resumed.moments == whole.moments
    assert np.array_equal(resumed.info.uncertainty_curve, whole.info.uncertainty_curve)
    with pytest.raises(InputError, match="checkpoint: got a run with counts = all triples"):
        explore(MODEL, num_episodes=2000, seed=3, checkpoint_dir=tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"moment_order": 1}, "moment_order: got 1, expected 2 for pairs, or 3 for triples"),
        ({"moment_order": 4}, "moment_order: got 4, expected 2 for pairs, or 3 for triples"),
        ({"moment_order": 3, "counting": selected_pairs}, "counting: got selected, expected all_pairs with moment"),
        ({"counting": all_triples}, "counting: got all triples, expected all_pairs or selected_pairs"),
        ({"moment_order": 3, "engine": make_batched_engine}, "engine: got batched, expected compiled with moment"),
        ({"moment_order": 3, "bonus": theory_bonus}, "bonus: got theory, expected practical_bonus or paper_bonus"),
        (
            {"moment_order": 3, "resume_from": explore(MODEL, num_episodes=5)},
            "resume_from: got moments without triples",
        ),
    ],
)
def test_what_triples_are_not_explored_with_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        explore(MODEL, num_episodes=10, **options)


def test_worlds_that_are_too_large_are_refused_with_the_estimate():
    large = problems.make_model("random", states=2000, actions=4, horizon=40, next_states=2)
    with pytest.raises(InputError, match="moment_order: got a need of about .* GiB of memory, expected at most 16"):
        explore(large, num_episodes=10, moment_order=3)
