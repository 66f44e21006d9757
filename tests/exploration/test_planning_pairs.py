"""Properties of plans: more data never means more uncertainty, low switching follows its rule, ties are defined."""

from __future__ import annotations

import numpy as np
import pytest

from rewardmix import problems
from rewardmix import theory as numbers
from rewardmix.exploration import Practical, all_pairs, augmented, explore, paper, partners, practical, selected, theory
from rewardmix.exploration.augmented import blank_plan, refresh, saturation, touch_up
from rewardmix.exploration.bonuses import Size
from rewardmix.exploration.compiled_engine import CompiledEngine
from rewardmix.exploration.exploration_kernels import SHARED, choice

SIZE = Size(4, 2, 5, 4, 0.05, 100)
PLAIN = Practical(unseen=1.0)  # a pair is known from three samples on


class Saturated(Practical):
    """Moves count as known from three visits on."""

    def move(self, counts, size):
        return numbers.bonus(2.0, counts)


@pytest.mark.parametrize("confidence", [practical, Practical(0.5, 1.5, unseen=1.0), theory], ids=lambda c: c.name)
@pytest.mark.parametrize("counts", [all_pairs, selected], ids=lambda c: c.name)
def test_uncertainty_never_grows_with_a_count_while_the_transition_is_held_fixed(confidence, counts):
    model = problems.make("random", states=4, actions=2, horizon=5, seed=3)
    engine = CompiledEngine(model, 0, False)
    tally = engine.fresh_tally(counts.ordered)
    plan = blank_plan(tally, confidence, 0.05)
    refresh(plan, tally, confidence, 1.5)
    rng = np.random.default_rng(0)
    for _ in range(6):
        engine.play(plan, plan.choices, tally, tally.episodes + 200, 10**9, 1.5)
        refresh(plan, tally, confidence, 1.5)
        for _ in range(15):
            before = plan.uncertainty
            x, y = np.sort(rng.integers(8, size=2))
            tally.pairs.add(np.array([x * 8 + y]), rng.integers(1, 200, size=(1, 2, 2)))
            tally.dirty[[x, y]] = True
            touch_up(plan, tally, confidence)
            assert plan.uncertainty <= before
    assert plan.uncertainty < 1.0 or not confidence.scaled


def test_touching_up_every_row_equals_planning_anew():
    model = problems.make("random", states=4, actions=2, horizon=5, seed=3)
    engine = CompiledEngine(model, 0, False)
    tally = engine.fresh_tally(False)
    plan = blank_plan(tally, practical, 0.05)
    refresh(plan, tally, practical, 1.5)
    for k in range(10, 510, 10):
        engine.play(plan, plan.choices, tally, k, 10**9, 1.5)
        refresh(plan, tally, practical, 1.5)
    choices, value = after_first_picks(plan), plan.uncertainty
    assert value < 0.9
    assert any(not np.array_equal(row, plan.choices.rows[SHARED]) for row in choices)
    tally.dirty[:] = True
    touch_up(plan, tally, practical)
    assert plan.uncertainty == value
    assert np.array_equal(after_first_picks(plan), choices)
    assert (plan.choices.numbers == 4).all()


def test_rows_of_which_nothing_is_known_share_one_plan():
    model = problems.make("lock", steps=5)
    engine = CompiledEngine(model, 0, False)
    tally = engine.fresh_tally(False)
    plan = blank_plan(tally, PLAIN, 0.05)
    refresh(plan, tally, PLAIN, 1.1)
    assert not plan.choices.numbers.any()
    assert plan.uncertainty == 1.0
    most = set()
    for episodes in (1, 2, 4, 6, 8, 12, 300):
        engine.play(plan, plan.choices, tally, episodes, 10**9, 1.1)
        refresh(plan, tally, PLAIN, 1.1)
        own = plan.choices.numbers > 0
        counts = tally.moments().pair_counts()
        assert np.array_equal(own, (counts > 2).any(axis=1))
        most |= set(counts.max(axis=1).tolist())
    assert 0 < own.sum() < own.size
    assert {1, 2, 3} <= most


def after_first_picks(plan):
    """(X, H, S): the choices after each first pick."""
    _, horizon, states = plan.choices.rows.shape
    firsts = range(plan.choices.numbers.size)
    return [[[choice(plan.choices, SHARED, x, t, s) for s in range(states)] for t in range(horizon)] for x in firsts]


@pytest.mark.parametrize("counts", [all_pairs, selected], ids=lambda c: c.name)
@pytest.mark.parametrize("known", [0, 2])
def test_partners_are_those_of_the_counts_however_they_are_found(counts, known, monkeypatch):
    model = problems.make("random", states=130, actions=4, horizon=6, successors=2, seed=1)
    engine = CompiledEngine(model, 0, False)
    tally = engine.fresh_tally(counts.ordered)
    plan = blank_plan(tally, practical, 0.05)
    refresh(plan, tally, practical, 1.5)
    engine.play(plan, plan.choices, tally, 3000, 10**9, 1.5)
    assert not tally.pairs.dense
    samples = pair_samples(tally, 520)
    samples = samples if counts.ordered else np.maximum(samples, samples.T)
    ways = {way: getattr(partners, way) for way in ("look_up_partners", "sort_partners")}
    for way in ways:
        monkeypatch.setattr(partners, way, lambda *args, way=way: used.append(way) or ways[way](*args))
    for number in (1, 3, 300, 520):
        used = []
        firsts = np.sort(np.random.default_rng(number).permutation(520)[:number])
        begins, others, found = partners.known_partners(tally, known, firsts)
        assert used == ["look_up_partners" if number <= 300 else "sort_partners"]
        for b, first in enumerate(firsts):
            listed = slice(begins[b], begins[b + 1])
            wanted = np.flatnonzero((samples[first] > known) | (np.arange(520) == first))
            assert others[listed].tolist() == wanted.tolist()
            at_least = np.where(samples[first, wanted] > known, samples[first, wanted], 0)
            assert np.maximum(found[listed], 0)[at_least > 0].tolist() == at_least[at_least > 0].tolist()
            assert (found[listed][at_least == 0] <= known).all()


def test_room_for_own_choices_grows_with_what_is_known(monkeypatch):
    model = problems.make("random", states=30, actions=3, horizon=6, successors=2, seed=1)
    expected = explore(model, episodes=2000, seed=1)
    monkeypatch.setattr(augmented, "WHOLE_ROWS", 0)
    grown = explore(model, episodes=2000, seed=1)
    assert grown.moments == expected.moments
    assert np.array_equal(grown.info.curve, expected.info.curve)


@pytest.mark.parametrize("bonus", [PLAIN.pair, paper(1).pair, theory.pair, theory.move], ids=str)
def test_saturation_is_the_last_count_with_full_bonus(bonus):
    known = saturation(bonus, SIZE)
    assert bonus(known, SIZE) == 1.0
    assert bonus(int(1.03 * known) + 2, SIZE) < 1.0


def test_low_switching_costs_little():
    """At equal episodes, once unsaturated, V_0 is within 2 % of planning after every episode (mean over seeds)."""
    model = problems.make("random", states=4, actions=2, horizon=5, seed=3)
    often = [explore(model, episodes=3000, growth=1.0, seed=s, keep=False).uncertainty for s in range(4)]
    rarely = [explore(model, episodes=3000, seed=s, keep=False).uncertainty for s in range(4)]
    assert np.mean(rarely) <= 1.02 * np.mean(often)
    assert np.mean(often) < 0.3


def test_bonuses_are_count_only_and_monotone():
    n = np.arange(2000)
    for confidence in (practical, paper(1), theory):
        for bonus in (confidence.pair(n, SIZE), confidence.move(n, SIZE)):
            assert bonus[0] == 1.0
            assert (np.diff(bonus) <= 1e-15).all()
            assert bonus[-1] > 0


@pytest.mark.parametrize("growth", [1.1, 1.5, 3.0])
def test_everything_is_planned_anew_exactly_when_the_rule_says_so(growth):
    """The rule, replayed from the episodes: K grew by g, or visits of some x began, became known, or doubled."""
    model = problems.make("lock", steps=6)
    found = explore(model, episodes=1500, growth=growth, confidence=Saturated())
    visits = np.zeros(24, np.int64)
    due, limits, times = 0, np.ones(24), []
    for k in range(1500):
        if k >= due or (visits >= limits).any():
            times.append(k)
            due = max(k + 1, int(np.ceil(growth * k)))
            limits = np.where(visits == 0, 1, np.where(visits < 2, 3, 2 * visits))
        x = found.gathered.states[k, :-1].astype(int) * 3 + found.gathered.actions[k]
        np.add.at(visits, x, 1)
    assert found.info.curve[:-1, 0].tolist() == times
    assert found.info.curve[-1, 0] == 1500


@pytest.mark.parametrize("counts", [all_pairs, selected], ids=lambda c: c.name)
def test_rows_are_outdated_when_one_of_their_pairs_has_grown(counts):
    """A pair counts again when its samples have grown by the factor since it was planned with, and are beyond known."""
    growth, size = 1.5, 8
    model = problems.make("random", states=4, actions=2, horizon=5, seed=3)
    engine = CompiledEngine(model, 0, False)
    tally = engine.fresh_tally(counts.ordered)
    plan = blank_plan(tally, practical, 0.05)
    refresh(plan, tally, practical, growth)
    marked = []
    for until in (10, 30, 60, 100, 150, 200):
        engine.play(plan, plan.choices, tally, until, 10**9, growth)
        refresh(plan, tally, practical, growth)
        before = pair_samples(tally, size)
        due = np.maximum(before + 1, np.ceil(growth * np.maximum(before, plan.known)))
        engine.play(plan, plan.choices, tally, until + 8, 10**9, growth)
        grown = pair_samples(tally, size) >= due
        assert tally.dirty.tolist() == (grown.any(axis=1) | (grown.any(axis=0) & (not counts.ordered))).tolist()
        marked.append(int(tally.dirty.sum()))
    assert 0 < sum(marked) < 6 * size


def pair_samples(tally, size):
    """(X, X) samples of each pair, as they are keyed."""
    keys, tables = tally.pairs.sorted_tables()
    found = np.zeros((size, size))
    found[np.divmod(keys, size)] = tables.sum(axis=(1, 2))
    return found
