"""Properties of plans: more data never means more uncertainty, low switching follows its rule, ties are defined."""

from __future__ import annotations

import numpy as np
import pytest

from rewardmix import problems
from rewardmix import theory as numbers
from rewardmix.exploration import (
    PracticalBonus,
    all_pairs,
    augmented_mdp,
    explore,
    known_pairs,
    paper_bonus,
    practical_bonus,
    selected_pairs,
    theory_bonus,
)
from rewardmix.exploration.augmented_mdp import make_pair_plan, replan_pairs, replan_stale_pairs, saturation_count
from rewardmix.exploration.bonuses import ProblemSize
from rewardmix.exploration.compiled_engine import CompiledEngine
from rewardmix.exploration.exploration_kernels import SHARED, look_up_choice

SIZE = ProblemSize(4, 2, 5, 4, 0.05, 100)
PLAIN = PracticalBonus(unseen_pair_weight=1.0)  # a pair is known from three samples on


class Saturated(PracticalBonus):
    """Moves count as known from three visits on."""

    def transition(self, counts, size):
        return numbers.bonus_width(2.0, counts)


@pytest.mark.parametrize(
    "bonus",
    [practical_bonus, PracticalBonus(0.5, 1.5, unseen_pair_weight=1.0), theory_bonus],
    ids=lambda c: c.name,
)
@pytest.mark.parametrize("counts", [all_pairs, selected_pairs], ids=lambda c: c.name)
def test_uncertainty_never_grows_with_a_count_while_the_transition_is_held_fixed(bonus, counts):
    model = problems.make_model("random", states=4, actions=2, horizon=5, seed=3)
    engine = CompiledEngine(model, 0, False)
    running_counts = engine.new_counts(counts.ordered)
    plan = make_pair_plan(running_counts, bonus, 0.05)
    replan_pairs(plan, running_counts, bonus, 1.5)
    rng = np.random.default_rng(0)
    for _ in range(6):
        engine.play(plan, plan.choices, running_counts, running_counts.episodes + 200, 10**9, 1.5)
        replan_pairs(plan, running_counts, bonus, 1.5)
        for _ in range(15):
            before = plan.uncertainty
            x, y = np.sort(rng.integers(8, size=2))
            running_counts.pairs.add(np.array([x * 8 + y]), rng.integers(1, 200, size=(1, 2, 2)))
            running_counts.stale_rows[[x, y]] = True
            replan_stale_pairs(plan, running_counts, bonus)
            assert plan.uncertainty <= before
    assert plan.uncertainty < 1.0 or not bonus.scales_with_value


def test_touching_up_every_row_equals_planning_anew():
    model = problems.make_model("random", states=4, actions=2, horizon=5, seed=3)
    engine = CompiledEngine(model, 0, False)
    counts = engine.new_counts(False)
    plan = make_pair_plan(counts, practical_bonus, 0.05)
    replan_pairs(plan, counts, practical_bonus, 1.5)
    for k in range(10, 510, 10):
        engine.play(plan, plan.choices, counts, k, 10**9, 1.5)
        replan_pairs(plan, counts, practical_bonus, 1.5)
    choices, value = after_first_picks(plan), plan.uncertainty
    assert value < 0.9
    assert any(not np.array_equal(row, plan.choices.rows[SHARED]) for row in choices)
    counts.stale_rows[:] = True
    replan_stale_pairs(plan, counts, practical_bonus)
    assert plan.uncertainty == value
    assert np.array_equal(after_first_picks(plan), choices)
    assert (plan.choices.num_choices == 4).all()


def test_rows_of_which_nothing_is_known_share_one_plan():
    model = problems.make_model("lock", steps=5)
    engine = CompiledEngine(model, 0, False)
    running_counts = engine.new_counts(False)
    plan = make_pair_plan(running_counts, PLAIN, 0.05)
    replan_pairs(plan, running_counts, PLAIN, 1.1)
    assert not plan.choices.num_choices.any()
    assert plan.uncertainty == 1.0
    most = set()
    for episodes in (1, 2, 4, 6, 8, 12, 300):
        engine.play(plan, plan.choices, running_counts, episodes, 10**9, 1.1)
        replan_pairs(plan, running_counts, PLAIN, 1.1)
        own = plan.choices.num_choices > 0
        counts = running_counts.moments().pair_counts()
        assert np.array_equal(own, (counts > 2).any(axis=1))
        most |= set(counts.max(axis=1).tolist())
    assert 0 < own.sum() < own.size
    assert {1, 2, 3} <= most


def after_first_picks(plan):
    """(X, H, S): the choices after each first pick."""
    _, horizon, states = plan.choices.rows.shape
    firsts = range(plan.choices.num_choices.size)
    return [
        [[look_up_choice(plan.choices, SHARED, x, t, s) for s in range(states)] for t in range(horizon)] for x in firsts
    ]


@pytest.mark.parametrize("counts", [all_pairs, selected_pairs], ids=lambda c: c.name)
@pytest.mark.parametrize("saturation", [0, 2])
def test_partners_are_those_of_the_counts_however_they_are_found(counts, saturation, monkeypatch):
    model = problems.make_model("random", states=130, actions=4, horizon=6, next_states=2, seed=1)
    engine = CompiledEngine(model, 0, False)
    running_counts = engine.new_counts(counts.ordered)
    plan = make_pair_plan(running_counts, practical_bonus, 0.05)
    replan_pairs(plan, running_counts, practical_bonus, 1.5)
    engine.play(plan, plan.choices, running_counts, 3000, 10**9, 1.5)
    assert not running_counts.pairs.is_dense
    samples = pair_samples(running_counts, 520)
    samples = samples if counts.ordered else np.maximum(samples, samples.T)
    ways = {way: getattr(known_pairs, way) for way in ("find_by_lookup", "find_by_scan")}
    for way in ways:
        monkeypatch.setattr(known_pairs, way, lambda *args, way=way: used.append(way) or ways[way](*args))
    for number in (1, 3, 300, 520):
        used = []
        firsts = np.sort(np.random.default_rng(number).permutation(520)[:number])
        row_offsets, others, result = known_pairs.find_known_pairs(running_counts, saturation, firsts)
        assert used == ["find_by_lookup" if number <= 300 else "find_by_scan"]
        for b, first in enumerate(firsts):
            listed = slice(row_offsets[b], row_offsets[b + 1])
            expected = np.flatnonzero((samples[first] > saturation) | (np.arange(520) == first))
            assert others[listed].tolist() == expected.tolist()
            at_least = np.where(samples[first, expected] > saturation, samples[first, expected], 0)
            assert np.maximum(result[listed], 0)[at_least > 0].tolist() == at_least[at_least > 0].tolist()
            assert (result[listed][at_least == 0] <= saturation).all()


def test_room_for_own_choices_grows_with_what_is_known(monkeypatch):
    model = problems.make_model("random", states=30, actions=3, horizon=6, next_states=2, seed=1)
    expected = explore(model, num_episodes=2000, seed=1)
    monkeypatch.setattr(augmented_mdp, "MAX_DENSE_CHOICES", 0)
    grown = explore(model, num_episodes=2000, seed=1)
    assert grown.moments == expected.moments
    assert np.array_equal(grown.info.uncertainty_curve, expected.info.uncertainty_curve)


@pytest.mark.parametrize(
    "bonus", [PLAIN.pair, paper_bonus(1).pair, theory_bonus.pair, theory_bonus.transition], ids=str
)
def test_saturation_is_the_last_count_with_full_bonus(bonus):
    count = saturation_count(bonus, SIZE)
    assert bonus(count, SIZE) == 1.0
    assert bonus(int(1.03 * count) + 2, SIZE) < 1.0


@pytest.mark.system
def test_low_switching_costs_little():
    """At equal episodes, once unsaturated, V_0 is within 2 % of planning after every episode (mean over seeds)."""
    model = problems.make_model("random", states=4, actions=2, horizon=5, seed=3)
    often = [
        explore(model, num_episodes=3000, replan_growth=1.0, seed=s, keep_episodes=False).uncertainty for s in range(4)
    ]
    rarely = [explore(model, num_episodes=3000, seed=s, keep_episodes=False).uncertainty for s in range(4)]
    assert np.mean(rarely) <= 1.02 * np.mean(often)
    assert np.mean(often) < 0.3


def test_bonuses_are_count_only_and_monotone():
    n = np.arange(2000)
    for bonus_rule in (practical_bonus, paper_bonus(1), theory_bonus):
        for bonus in (bonus_rule.pair(n, SIZE), bonus_rule.transition(n, SIZE)):
            assert bonus[0] == 1.0
            assert (np.diff(bonus) <= 1e-15).all()
            assert bonus[-1] > 0


@pytest.mark.parametrize("growth", [1.1, 1.5, 3.0])
def test_everything_is_planned_anew_exactly_when_the_rule_says_so(growth):
    """The rule, replayed from the episodes: K grew by g, or visits of some x began, became known, or doubled."""
    model = problems.make_model("lock", steps=6)
    result = explore(model, num_episodes=1500, replan_growth=growth, bonus=Saturated())
    visits = np.zeros(24, np.int64)
    due, limits, times = 0, np.ones(24), []
    for k in range(1500):
        if k >= due or (visits >= limits).any():
            times.append(k)
            due = max(k + 1, int(np.ceil(growth * k)))
            limits = np.where(visits == 0, 1, np.where(visits < 2, 3, 2 * visits))
        x = result.episodes.states[k, :-1].astype(int) * 3 + result.episodes.actions[k]
        np.add.at(visits, x, 1)
    assert result.info.uncertainty_curve[:-1, 0].tolist() == times
    assert result.info.uncertainty_curve[-1, 0] == 1500


@pytest.mark.parametrize("counts", [all_pairs, selected_pairs], ids=lambda c: c.name)
def test_rows_are_outdated_when_one_of_their_pairs_has_grown(counts):
    """A pair counts again when its samples have grown by the factor since it was planned with, and are beyond known."""
    growth, size = 1.5, 8
    model = problems.make_model("random", states=4, actions=2, horizon=5, seed=3)
    engine = CompiledEngine(model, 0, False)
    running_counts = engine.new_counts(counts.ordered)
    plan = make_pair_plan(running_counts, practical_bonus, 0.05)
    replan_pairs(plan, running_counts, practical_bonus, growth)
    marked = []
    for until in (10, 30, 60, 100, 150, 200):
        engine.play(plan, plan.choices, running_counts, until, 10**9, growth)
        replan_pairs(plan, running_counts, practical_bonus, growth)
        before = pair_samples(running_counts, size)
        due = np.maximum(before + 1, np.ceil(growth * np.maximum(before, plan.saturation_count)))
        engine.play(plan, plan.choices, running_counts, until + 8, 10**9, growth)
        grown = pair_samples(running_counts, size) >= due
        assert (
            running_counts.stale_rows.tolist()
            == (grown.any(axis=1) | (grown.any(axis=0) & (not counts.ordered))).tolist()
        )
        marked.append(int(running_counts.stale_rows.sum()))
    assert 0 < sum(marked) < 6 * size


def pair_samples(counts, size):
    """(X, X) samples of each pair, as they are keyed."""
    keys, tables = counts.pairs.export_tables()
    result = np.zeros((size, size))
    result[np.divmod(keys, size)] = tables.sum(axis=(1, 2))
    return result
