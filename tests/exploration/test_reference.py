"""The compiled engine against Algorithm 2 written out, from the same random numbers; V_0 against the definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rewardmix import problems
from rewardmix._core.streams import Role
from rewardmix._core.streams import stream as stream_of
from rewardmix.exploration import Practical, all_pairs, explore, paper, practical, selected, theory
from rewardmix.exploration.bonuses import Size
from rewardmix.exploration.reference import Reference, augmented_rule

pytestmark = pytest.mark.machines

SETTINGS = [practical, paper(1e-3), theory, Practical(0.5, 1.5, unseen=1.0)]


def moments_of(reference):
    """(starts, moves, outcomes, pairs) as in the tests of Moments, from the reference's dictionaries."""
    return reference.starts, reference.moves, reference.outcomes, reference.tables


def dictionaries(moments, ordered):
    starts = {int(s): int(moments.starts[s]) for s in np.flatnonzero(moments.starts)}
    coo = moments.moves.tocoo()
    moves = {(int(x), int(s)): int(n) for x, s, n in zip(*coo.coords, coo.data, strict=True)}
    outcomes = {(int(x), int(z)): int(moments.outcomes[x, z]) for x, z in np.argwhere(moments.outcomes)}
    keys, tables = moments.pair_keys, moments.pair_tables
    if ordered:
        keys, tables = moments.selected_keys, moments.selected_tables
    x, y = np.divmod(keys, moments.num_state_actions)
    pairs = {(int(x[p]), int(y[p]), int(i), int(j)): int(tables[p, i, j]) for p, i, j in np.argwhere(tables)}
    return starts, moves, outcomes, pairs


@pytest.mark.parametrize("counts", [all_pairs, selected], ids=lambda c: c.name)
@pytest.mark.parametrize("confidence", SETTINGS, ids=lambda c: c.name)
def test_compiled_equals_the_algorithm_written_out(confidence, counts):
    model = problems.make("random", states=3, actions=2, horizon=4, seed=5)
    compare(model, confidence, counts, 60)


def test_more_values_contexts_and_a_sparse_world():
    values = {"contexts": 3, "reward_values": (-1.0, 0.0, 2.0)}
    sparse = problems.make("random", states=4, actions=2, horizon=3, seed=1, successors=2, **values)
    compare(sparse, practical, all_pairs, 60)
    compare(problems.make("random", states=2, actions=3, horizon=3, seed=2, **values), practical, selected, 60)
    compare(problems.make("lock", steps=3), practical, all_pairs, 30)
    one = {"states": 1, "actions": 1, "horizon": 2, **values}
    compare(problems.make("random", **one), theory, all_pairs, 200)  # enough for the radius of a pair to be below 1


@pytest.mark.parametrize("horizon", [1, 2])
def test_short_horizons(horizon):
    compare(problems.make("random", states=2, actions=2, horizon=horizon), practical, all_pairs, 30)
    compare(problems.make("random", states=2, actions=2, horizon=horizon), practical, selected, 30)


def compare(model, confidence, counts, episodes):
    reference = Reference(model, confidence, counts, 0.05)
    stream = stream_of(3, Role.EXPLORATION)
    reference.run(episodes, stream)
    found = explore(model, episodes=episodes, confidence=confidence, counts=counts, growth=1.0, seed=3)
    assert dictionaries(found.moments, counts.ordered) == moments_of(reference)
    assert found.info.curve[:, 1].tolist() == reference.curve
    assert found.info.curve[:, 0].tolist() == list(range(episodes + 1))
    assert found.stream.tolist() == stream.tolist()
    assert found.uncertainty == reference.uncertainty


def test_threshold_stops_both_at_the_same_episode():
    model = problems.make("random", states=2, actions=2, horizon=3, seed=0)
    reference = Reference(model, practical, all_pairs, 0.05)
    reference.run(10_000, stream_of(0, Role.EXPLORATION), threshold=0.5)
    found = explore(model, threshold=0.5, growth=1.0)
    assert 10 < found.episodes == reference.episodes < 10_000
    assert found.info.stopped == "threshold"
    assert found.uncertainty == reference.uncertainty <= 0.5


@pytest.mark.parametrize("confidence", [practical, paper(0.02), Practical(0.5, 1.5, unseen=1.0)], ids=lambda c: c.name)
def test_uncertainty_is_the_optimistic_value_of_the_uncollapsed_augmented_mdp(confidence):
    """All 3 (SA+1)^2 S augmented states, dense arrays, backward induction; nothing shared with the engines."""
    model = problems.make("random", states=2, actions=2, horizon=4, seed=7)
    found = explore(model, episodes=300, confidence=confidence, counts=selected, growth=1.0, seed=1)
    moments = found.moments
    num_x, num_s, num_a = 4, 2, 2
    size = Size(num_s, num_a, 4, num_s, 0.05, 300)
    n = np.zeros((num_x, num_x))
    first, second = np.divmod(moments.selected_keys, num_x)
    n[first, second] = moments.selected_tables.sum(axis=(1, 2))
    hat, visited = moments.transition_estimate()
    hat, b_move = hat.toarray(), confidence.move(moments.visits, size)
    assert visited.all()
    picks = [None, *range(num_x)]
    states = list(itertools.product((1, 2, 3), itertools.product(picks, picks), range(num_s)))
    value = dict.fromkeys(states, 0.0)
    for _ in range(4):
        new = {}
        for i, v, s in states:
            best = 0.0
            for a, z in itertools.product(range(num_a), (0, 1)):
                x = s * num_a + a
                i_next, v_next = augmented_rule(i, v, x, z)
                after = np.array([value[i_next, v_next, t] for t in range(num_s)])
                legal = i == 1 or v[0] is not None
                gain = float(confidence.pair(n[v[0], x], size)) if i == 2 and z == 1 and legal else 0.0
                if confidence.scaled:
                    follow = min(after.max(), hat[x] @ after + b_move[x] * after.max())
                else:
                    follow = hat[x] @ after + b_move[x]
                best = max(best, min(1.0, gain + follow))
            new[i, v, s] = best
        value = new
    begin = np.array([value[1, (None, None), s] for s in range(num_s)])
    expected, bonus = moments.initial_estimate() @ begin, float(confidence.start(size))
    exact = min(begin.max(), expected + bonus * begin.max()) if confidence.scaled else expected + bonus
    exact = min(1.0, confidence.unseen * exact)
    assert 0.05 < exact < 1.0
    assert found.uncertainty == pytest.approx(exact, rel=1e-12)
