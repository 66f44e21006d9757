"""Which pairs are possible, against every path of small models; baselines and their place."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array

from rewardmix import problems
from rewardmix.exploration import (
    explore,
    joint_reachability,
    pair_coverage_stats,
    selected_pairs,
    state_action_strategy,
    uniform_strategy,
)
from rewardmix.moments import Moments


def by_paths(model):
    """Unordered pairs that some path of H steps visits, by walking every path."""
    rows, num_actions = model.transition_rows, model.num_actions
    rows = rows.toarray() if model.is_sparse else rows
    paths = [[int(s)] for s in np.flatnonzero(model.initial)]
    result = set()
    for actions in itertools.product(range(num_actions), repeat=model.horizon):
        for start in paths:
            reach = [(start[0], ())]
            for a in actions:
                reach = list(
                    {
                        (int(t), (*visited, s * num_actions + a))
                        for s, visited in reach
                        for t in np.flatnonzero(rows[s * num_actions + a])
                    }
                )
            for _, visited in reach:
                result |= {tuple(sorted(pair)) for pair in itertools.combinations(visited, 2)}
    return result


@pytest.mark.parametrize(
    "model",
    [
        problems.make_model("lock", steps=2, actions=2),
        problems.make_model("branches", rooms=1, doors=2),
        problems.make_model("random", states=4, actions=2, horizon=3, next_states=1, seed=3),
        problems.make_model("hard"),
    ],
    ids=["lock", "branches", "sparse", "hard"],
)
def test_possible_pairs_are_those_on_some_path(model):
    result = explore(model, num_episodes=400)
    pairs = by_paths(model)
    report = result.info.coverage
    total = result.moments.num_state_actions * (result.moments.num_state_actions + 1) // 2
    assert report.num_impossible == total - len(pairs)
    assert report.num_observed + report.num_missing == len(pairs)
    assert report.from_model
    counts = result.moments.pair_counts()
    assert report.min_samples == min(int(counts[pair]) for pair in pairs)


def by_matrices(rows, starts, num_actions, horizon):
    """(X, X): which pairs one episode can visit, by tables of the fewest moves between all states."""
    size = starts.size
    move = rows.reshape(size, num_actions, size).any(axis=1)
    between = np.where(np.eye(size, dtype=bool), 0, np.where(move, 1, horizon))
    for middle in range(size):
        between = np.minimum(between, between[:, middle, None] + between[middle])
    early = between[starts].min(axis=0)
    when = np.stack([between[row].min(axis=0, initial=horizon) for row in rows])
    when += 1 + np.repeat(early, num_actions)[:, None]
    after = np.repeat(when < horizon, num_actions, axis=1)
    return after | after.T


@pytest.mark.parametrize(("states", "horizon"), [(1, 1), (7, 1), (64, 2), (65, 3), (150, 5), (150, 20)])
def test_companions_are_those_of_tables_of_moves(monkeypatch, states, horizon):
    """Whatever the sizes of blocks, also where nothing is known to follow a state-action."""
    monkeypatch.setattr(joint_reachability, "_STATES_PER_BATCH", 64)
    monkeypatch.setattr(joint_reachability, "_WORDS_PER_BATCH", 100)
    rng = np.random.default_rng(states + horizon)
    rows = rng.random((3 * states, states)) < min(0.4 / states, 1.0)
    starts = np.arange(states) < 1 + states // 20
    expected = by_matrices(rows, starts, 3, horizon)
    result = joint_reachability.JointReachability(csr_array(rows.astype(np.float64)), starts, 3, horizon)
    assert result.num_pairs == np.triu(expected).sum()
    block = rng.permutation(3 * states)[: 2 * states]
    assert (result.pairs_with(block) == expected[block]).all()
    first, second = rng.integers(3 * states, size=(2, 500))
    assert (result.can_meet(first, second) == expected[first, second]).all()
    assert 0 < result.num_pairs < expected.size or horizon == 1


def test_without_a_model_what_was_seen_decides():
    model = problems.make_model("lock", steps=2, actions=2)
    moments = explore(model, num_episodes=400).moments
    assert not pair_coverage_stats(moments).from_model
    assert pair_coverage_stats(moments).num_impossible == pair_coverage_stats(moments, model).num_impossible
    empty = pair_coverage_stats(Moments.empty(2, 2, 3))
    assert (empty.num_observed, empty.num_missing, empty.num_impossible, empty.min_samples) == (0, 0, 10, 0)


def test_exploring_pairs_opens_a_lock_that_other_ways_do_not():
    lock = problems.make_model("lock", steps=6)
    ours = explore(lock, num_episodes=1500, seed=2, keep_episodes=False)
    nonadaptive = explore(lock, num_episodes=1500, seed=2, keep_episodes=False, strategy=uniform_strategy)
    single = explore(lock, num_episodes=1500, seed=2, keep_episodes=False, strategy=state_action_strategy)
    assert ours.info.coverage.num_missing == 0
    assert nonadaptive.info.coverage.num_missing > 10
    assert ours.info.coverage.min_samples > max(single.info.coverage.min_samples, nonadaptive.info.coverage.min_samples)
    assert ours.uncertainty < min(single.uncertainty, nonadaptive.uncertainty)


def test_uniform_actions_are_uniform():
    model = problems.make_model("random", states=3, actions=4, horizon=5)
    actions = explore(model, num_episodes=4000, strategy=uniform_strategy).episodes.actions
    counts = np.bincount(actions.ravel(), minlength=4)
    assert np.abs(counts - 5000).max() < 6 * np.sqrt(20_000 * 3 / 16)


def test_uniform_actions_pick_nothing():
    """Random play is there to be compared with: it walks, and takes no pair of steps for the paper's counts."""
    model = problems.make_model("random", states=3, actions=2, horizon=4)
    result = explore(model, num_episodes=200, counting=selected_pairs, strategy=uniform_strategy)
    assert result.moments.first_visit_keys.size == 0
    assert result.moments.visits.sum() == 800


@pytest.mark.parametrize(
    "problem",
    [("riverswim", {"states": 15, "horizon": 60}), ("lock", {"steps": 9, "slip": 0.2})],
    ids=["river", "lock"],
)
def test_everything_that_can_be_reached_is_tried_first(problem):
    """Deep worlds: all state-actions within 400 episodes, where a pair that is barely known may wait."""
    name, options = problem
    model = problems.make_model(name, **options)
    for seed in range(3):
        assert explore(model, num_episodes=400, seed=seed, keep_episodes=False).moments.visits.all()
