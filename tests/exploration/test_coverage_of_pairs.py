"""Which pairs are possible, against every path of small worlds; baselines and their place."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.sparse import csr_array

from rewardmix import problems
from rewardmix.exploration import companions, coverage, explore, first_order, selected, uniformly
from rewardmix.moments import Moments


def by_paths(model):
    """Unordered pairs that some path of H steps visits, by walking every path."""
    rows, num_actions = model.transition_rows, model.num_actions
    rows = rows.toarray() if model.is_sparse else rows
    paths = [[int(s)] for s in np.flatnonzero(model.initial)]
    found = set()
    for actions in itertools.product(range(num_actions), repeat=model.horizon):
        for start in paths:
            reach = [(start[0], ())]
            for a in actions:
                reach = list(
                    {
                        (int(t), (*seen, s * num_actions + a))
                        for s, seen in reach
                        for t in np.flatnonzero(rows[s * num_actions + a])
                    }
                )
            for _, seen in reach:
                found |= {tuple(sorted(pair)) for pair in itertools.combinations(seen, 2)}
    return found


@pytest.mark.parametrize(
    "model",
    [
        problems.make("lock", steps=2, actions=2),
        problems.make("branches", rooms=1, doors=2),
        problems.make("random", states=4, actions=2, horizon=3, successors=1, seed=3),
        problems.make("hard"),
    ],
    ids=["lock", "branches", "sparse", "hard"],
)
def test_possible_pairs_are_those_on_some_path(model):
    found = explore(model, episodes=400)
    pairs = by_paths(model)
    report = found.info.coverage
    total = found.moments.num_state_actions * (found.moments.num_state_actions + 1) // 2
    assert report.impossible == total - len(pairs)
    assert report.seen + report.never_seen == len(pairs)
    assert report.known_world
    counts = found.moments.pair_counts()
    assert report.least == min(int(counts[pair]) for pair in pairs)


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
    monkeypatch.setattr(companions, "_BLOCK", 64)
    monkeypatch.setattr(companions, "_WORDS", 100)
    rng = np.random.default_rng(states + horizon)
    rows = rng.random((3 * states, states)) < min(0.4 / states, 1.0)
    starts = np.arange(states) < 1 + states // 20
    expected = by_matrices(rows, starts, 3, horizon)
    found = companions.Companions(csr_array(rows.astype(np.float64)), starts, 3, horizon)
    assert found.possible == np.triu(expected).sum()
    block = rng.permutation(3 * states)[: 2 * states]
    assert (found.possible_with(block) == expected[block]).all()
    first, second = rng.integers(3 * states, size=(2, 500))
    assert (found.together(first, second) == expected[first, second]).all()
    assert 0 < found.possible < expected.size or horizon == 1


def test_without_a_model_what_was_seen_decides():
    model = problems.make("lock", steps=2, actions=2)
    moments = explore(model, episodes=400).moments
    assert not coverage(moments).known_world
    assert coverage(moments).impossible == coverage(moments, model).impossible
    nothing = coverage(Moments.empty(2, 2, 3))
    assert (nothing.seen, nothing.never_seen, nothing.impossible, nothing.least) == (0, 0, 10, 0)


def test_exploring_pairs_opens_a_lock_that_other_ways_do_not():
    lock = problems.make("lock", steps=6)
    ours = explore(lock, episodes=1500, seed=2, keep=False)
    blind = explore(lock, episodes=1500, seed=2, keep=False, strategy=uniformly)
    single = explore(lock, episodes=1500, seed=2, keep=False, strategy=first_order)
    assert ours.info.coverage.never_seen == 0
    assert blind.info.coverage.never_seen > 10
    assert ours.info.coverage.least > max(single.info.coverage.least, blind.info.coverage.least)
    assert ours.uncertainty < min(single.uncertainty, blind.uncertainty)


def test_uniform_actions_are_uniform():
    model = problems.make("random", states=3, actions=4, horizon=5)
    actions = explore(model, episodes=4000, strategy=uniformly).gathered.actions
    counts = np.bincount(actions.ravel(), minlength=4)
    assert np.abs(counts - 5000).max() < 6 * np.sqrt(20_000 * 3 / 16)


def test_uniform_actions_pick_nothing():
    """Random play is there to be compared with: it walks, and takes no pair of steps for the paper's counts."""
    model = problems.make("random", states=3, actions=2, horizon=4)
    found = explore(model, episodes=200, counts=selected, strategy=uniformly)
    assert found.moments.selected_keys.size == 0
    assert found.moments.visits.sum() == 800


@pytest.mark.parametrize(
    "world", [("riverswim", {"states": 15, "horizon": 60}), ("lock", {"steps": 9, "slip": 0.2})], ids=["river", "lock"]
)
def test_everything_that_can_be_reached_is_tried_first(world):
    """Deep worlds: all state-actions within 400 episodes, where a pair that is barely known may wait."""
    name, options = world
    model = problems.make(name, **options)
    for seed in range(3):
        assert explore(model, episodes=400, seed=seed, keep=False).moments.visits.all()
