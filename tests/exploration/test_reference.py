"""The compiled engine against Algorithm 2 written out, from the same random numbers; V_0 against the definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rewardmix import problems
from rewardmix._core.random_streams import Role
from rewardmix._core.random_streams import kernel_stream as stream_of
from rewardmix.exploration import (
    PracticalBonus,
    all_pairs,
    explore,
    paper_bonus,
    practical_bonus,
    selected_pairs,
    theory_bonus,
)
from rewardmix.exploration.bonuses import ProblemSize
from rewardmix.exploration.reference import Algorithm2Reference, next_slot_and_picks

pytestmark = pytest.mark.machines

SETTINGS = [practical_bonus, paper_bonus(1e-3), theory_bonus, PracticalBonus(0.5, 1.5, unseen_pair_weight=1.0)]


def moments_of(reference):
    """(starts, moves, outcomes, pairs) as in the tests of Moments, from the reference's dictionaries."""
    return reference.starts, reference.transitions, reference.reward_counts, reference.tables


def dictionaries(moments, ordered):
    starts = {int(s): int(moments.initial_counts[s]) for s in np.flatnonzero(moments.initial_counts)}
    coo = moments.transition_counts.tocoo()
    transitions = {(int(x), int(s)): int(n) for x, s, n in zip(*coo.coords, coo.data, strict=True)}
    reward_indices = {(int(x), int(z)): int(moments.reward_counts[x, z]) for x, z in np.argwhere(moments.reward_counts)}
    keys, tables = moments.pair_keys, moments.pair_tables
    if ordered:
        keys, tables = moments.first_visit_keys, moments.first_visit_tables
    x, y = np.divmod(keys, moments.num_state_actions)
    pairs = {(int(x[p]), int(y[p]), int(i), int(j)): int(tables[p, i, j]) for p, i, j in np.argwhere(tables)}
    return starts, transitions, reward_indices, pairs


@pytest.mark.parametrize("counts", [all_pairs, selected_pairs], ids=lambda c: c.name)
@pytest.mark.parametrize("bonus", SETTINGS, ids=lambda c: c.name)
def test_compiled_equals_the_algorithm_written_out(bonus, counts):
    model = problems.make_model("random", states=3, actions=2, horizon=4, seed=5)
    compare(model, bonus, counts, 60)


def test_more_values_contexts_and_a_sparse_world():
    values = {"num_types": 3, "reward_values": (-1.0, 0.0, 2.0)}
    sparse = problems.make_model("random", states=4, actions=2, horizon=3, seed=1, next_states=2, **values)
    compare(sparse, practical_bonus, all_pairs, 60)
    compare(
        problems.make_model("random", states=2, actions=3, horizon=3, seed=2, **values),
        practical_bonus,
        selected_pairs,
        60,
    )
    compare(problems.make_model("lock", steps=3), practical_bonus, all_pairs, 30)
    one_state = {"states": 1, "actions": 1, "horizon": 2, **values}
    compare(
        problems.make_model("random", **one_state), theory_bonus, all_pairs, 200
    )  # enough for the radius of a pair to be below 1


@pytest.mark.parametrize("horizon", [1, 2])
def test_short_horizons(horizon):
    compare(problems.make_model("random", states=2, actions=2, horizon=horizon), practical_bonus, all_pairs, 30)
    compare(problems.make_model("random", states=2, actions=2, horizon=horizon), practical_bonus, selected_pairs, 30)


def compare(model, bonus, counts, episodes):
    reference = Algorithm2Reference(model, bonus, counts, 0.05)
    stream = stream_of(3, Role.EXPLORATION)
    reference.run(episodes, stream)
    result = explore(model, num_episodes=episodes, bonus=bonus, counting=counts, replan_growth=1.0, seed=3)
    assert dictionaries(result.moments, counts.ordered) == moments_of(reference)
    assert result.info.uncertainty_curve[:, 1].tolist() == reference.curve
    assert result.info.uncertainty_curve[:, 0].tolist() == list(range(episodes + 1))
    assert result.rng_state.tolist() == stream.tolist()
    assert result.uncertainty == reference.uncertainty


def test_threshold_stops_both_at_the_same_episode():
    model = problems.make_model("random", states=2, actions=2, horizon=3, seed=0)
    reference = Algorithm2Reference(model, practical_bonus, all_pairs, 0.05)
    reference.run(10_000, stream_of(0, Role.EXPLORATION), threshold=0.5)
    result = explore(model, uncertainty_threshold=0.5, replan_growth=1.0)
    assert 10 < result.num_episodes == reference.episodes < 10_000
    assert result.info.stop_reason == "threshold"
    assert result.uncertainty == reference.uncertainty <= 0.5


@pytest.mark.parametrize(
    "bonus_rule",
    [practical_bonus, paper_bonus(0.02), PracticalBonus(0.5, 1.5, unseen_pair_weight=1.0)],
    ids=lambda c: c.name,
)
def test_uncertainty_is_the_optimistic_value_of_the_uncollapsed_augmented_mdp(bonus_rule):
    """All 3 (SA+1)^2 S augmented states, dense arrays, backward induction; nothing shared with the engines."""
    model = problems.make_model("random", states=2, actions=2, horizon=4, seed=7)
    result = explore(model, num_episodes=300, bonus=bonus_rule, counting=selected_pairs, replan_growth=1.0, seed=1)
    moments = result.moments
    num_state_actions, num_s, num_a = 4, 2, 2
    size = ProblemSize(num_s, num_a, 4, num_s, 0.05, 300)
    n = np.zeros((num_state_actions, num_state_actions))
    first, second = np.divmod(moments.first_visit_keys, num_state_actions)
    n[first, second] = moments.first_visit_tables.sum(axis=(1, 2))
    hat, visited = moments.transition_estimate()
    hat, b_move = hat.toarray(), bonus_rule.transition(moments.visits, size)
    assert visited.all()
    picks = [None, *range(num_state_actions)]
    states = list(itertools.product((1, 2, 3), itertools.product(picks, picks), range(num_s)))
    value = dict.fromkeys(states, 0.0)
    for _ in range(4):
        new = {}
        for i, v, s in states:
            best = 0.0
            for a, z in itertools.product(range(num_a), (0, 1)):
                x = s * num_a + a
                i_next, v_next = next_slot_and_picks(i, v, x, z)
                after = np.array([value[i_next, v_next, t] for t in range(num_s)])
                legal = i == 1 or v[0] is not None
                gain = float(bonus_rule.pair(n[v[0], x], size)) if i == 2 and z == 1 and legal else 0.0
                if bonus_rule.scales_with_value:
                    follow = min(after.max(), hat[x] @ after + b_move[x] * after.max())
                else:
                    follow = hat[x] @ after + b_move[x]
                best = max(best, min(1.0, gain + follow))
            new[i, v, s] = best
        value = new
    begin = np.array([value[1, (None, None), s] for s in range(num_s)])
    expected, bonus = moments.initial_estimate() @ begin, float(bonus_rule.initial(size))
    exact = min(begin.max(), expected + bonus * begin.max()) if bonus_rule.scales_with_value else expected + bonus
    exact = min(1.0, bonus_rule.unseen_pair_weight * exact)
    assert 0.05 < exact < 1.0
    assert result.uncertainty == pytest.approx(exact, rel=1e-12)
