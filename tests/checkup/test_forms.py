"""Types that move differently and rewards that depend on the next state are found, and only where they are."""

import itertools
import math

import numpy as np
import pytest
from benchmarks.forms.settings import LARGE, OTHERS, WORLDS
from benchmarks.forms.worlds import dose, funnel, rooms

from rewardmix import Episodes, check, fit, problems, simulate, uniform
from rewardmix.checkup import assumptions, held_out
from rewardmix.checkup.assumptions import ASSUMPTIONS, check_form
from rewardmix.checkup.held_out import HeldOutGain, Symbols, VisitedSteps, judged, sample_of
from rewardmix.checkup.next_state import edge_rows, matched_tables, next_state_p_value, next_state_test
from rewardmix.checkup.transition_types import _transitions, transition_gain
from rewardmix.recovery.bags import Bags
from rewardmix.recovery.likelihood import Mixture, Statistics, ascend, e_step, m_step, penalty

NOTHING = {name: make for name, (planted, make) in {**WORLDS, **OTHERS, **LARGE}.items() if not planted}


def by_name(checkup):
    return {finding.assumption: finding for finding in checkup.findings}


def pearson(paid, led):
    """By its textbook formula."""
    total = 0.0
    for z, s in itertools.product(set(paid), set(led)):
        expected = (paid == z).sum() * (led == s).sum() / paid.size
        total += (((paid == z) & (led == s)).sum() - expected) ** 2 / expected
    return total


@pytest.mark.parametrize(
    ("paid", "led"),
    [
        ([0, 0, 1, 1, 2, 0, 0], [0, 1, 1, 1, 2, 2, 0]),
        ([0, 0, 0, 0, 0, 1], [0, 0, 1, 1, 1, 2]),
        ([0, 1, 0, 0], [0, 1, 1, 1]),
    ],
)
def test_mean_and_variance_are_those_over_all_matchings(paid, led):
    paid, led = np.array(paid), np.array(led)
    every = np.array([pearson(paid, led[list(order)]) for order in itertools.permutations(range(paid.size))])
    statistic, mean, variance = matched_tables(np.zeros(paid.size, np.int64), paid, led)
    assert statistic == pytest.approx(pearson(paid, led))
    assert mean == pytest.approx(every.mean())
    assert variance == pytest.approx(every.var())


def test_tables_add_over_state_actions_and_leave_out_what_cannot_vary():
    paid, led = np.array([0, 1, 0, 0, 1, 0, 1, 1, 0]), np.array([0, 1, 1, 1, 0, 0, 1, 1, 0])
    alone = matched_tables(np.zeros(9, np.int64), paid, led)
    always = np.concatenate([paid, np.zeros(9, int)]), np.concatenate([led, led])  # a second one always pays the same
    assert matched_tables(np.repeat([3, 1], 9), *always) == pytest.approx(alone)
    twice = np.concatenate([paid, paid]), np.concatenate([led, led])
    assert matched_tables(np.repeat([0, 5], 9), *twice) == pytest.approx([2 * part for part in alone])
    few = np.array([0, 1, 0]), np.array([0, 1, 1])
    assert matched_tables(np.zeros(3, np.int64), *few) == (0.0, 0.0, 0.0)
    assert math.isnan(next_state_test(np.zeros(3, np.int64), *few))


def test_p_values_of_tables_are_uniform_where_rewards_are_rare():
    """Of 400 tables with 3 % of rewards and states that hardly ever follow; Massart's bound, one in 1e4."""
    rng, values = np.random.default_rng(0), []
    for _ in range(400):
        following = rng.choice(6, 1500, p=[0.5, 0.3, 0.1, 0.05, 0.03, 0.02])
        values.append(next_state_test(rng.integers(0, 20, 1500), (rng.random(1500) < 0.03).astype(int), following))
    distance = np.abs(np.sort(values) - (np.arange(400) + 0.5) / 400).max()
    assert distance < math.sqrt(math.log(2e4) / (2 * 400))


@pytest.mark.parametrize("size", [500, 2000])
@pytest.mark.parametrize("make", [dose, funnel])
def test_types_that_move_differently_are_found(make, size):
    findings = by_name(check(make(size, seed=size)))
    moved = findings["transition types"]
    assert moved.broken
    assert moved.p_value < 1e-9
    assert moved.gain > 0.2
    assert moved.sentence.startswith(f"Types also move differently (held-out gain {moved.gain:.2g} nats an episode)")
    for name in ("next state", *assumptions.OF_REWARDS):
        assert not findings[name].broken
        assert findings[name].sentence.endswith("that takes for granted that types do not move differently.")


@pytest.mark.parametrize("size", [500, 3000])
def test_rewards_that_depend_on_the_next_state_are_found_though_the_types_cancel(size):
    """Half of the users are paid for one room and half for the other: on average a reward tells nothing of the room."""
    episodes = rooms(size, seed=1)
    findings = by_name(check(episodes))
    assert findings["next state"].broken
    assert not findings["transition types"].broken
    assert not findings["drift"].broken
    assert "Play the best policy that does not adapt" in findings["next state"].sentence
    for name in ("moves", *assumptions.OF_REWARDS):
        assert findings[name].reason == "that takes for granted that a reward does not depend on the next state"


def test_a_table_finds_few_rewards_that_all_lead_to_one_state():
    rng = np.random.default_rng(3)
    states = np.concatenate([np.zeros((60, 1), int), rng.integers(0, 3, (60, 1))], axis=1)
    paid = (states[:, 1:] == 2) & (rng.random((60, 1)) < 0.4)
    episodes = Episodes.from_arrays(
        states, np.zeros((60, 1), int), paid.astype(float), num_states=3, num_actions=1, reward_values=(0.0, 1.0)
    )
    assert paid.sum() < 15
    assert next_state_p_value(episodes) < 1e-3


@pytest.mark.parametrize("name", NOTHING)
def test_nothing_is_found_where_nothing_is(name):
    """At .01 for all questions together a quarter of a hundredth is due to these two: of 12 logs, not one."""
    for seed in range(12):
        _, answers = check_form(NOTHING[name](300 if seed % 2 else 600, 100 + seed), seed)
        assert not [name for name, (p_value, _) in answers.items() if p_value * len(ASSUMPTIONS) < 0.01], seed


def test_what_cannot_be_asked_says_so():
    model = problems.make("probe")  # deterministic
    findings = by_name(check(simulate(uniform(model), model, 200, seed=1)))
    assert findings["next state"].reason == "nothing was seen often enough"
    assert transition_gain(dose(9, seed=1)) is None


def test_a_gain_is_believed_if_it_is_beyond_its_error_and_beyond_seven():
    rng = np.random.default_rng(0)
    sure, small = np.full((1, 100), 0.2) + 0.01 * rng.normal(size=(1, 100)), np.full((1, 100), 0.065)
    assert judged(sure).p_value < 1e-100
    assert judged(small + 0.001 * rng.normal(size=(1, 100))).p_value == 1.0
    row = rng.normal(0.3, 2.0, size=(1, 400))
    gain = judged(row)
    assert gain.error == pytest.approx(row.std() / 20)
    assert gain.p_value == pytest.approx(0.5 * math.erfc(row.mean() / gain.error / math.sqrt(2)))
    both = judged(np.concatenate([row, np.zeros((1, 400))]))  # the better of two, at twice the p-value
    assert (both.gain, both.p_value) == (gain.gain, pytest.approx(2 * gain.p_value))
    assert isinstance(both, HeldOutGain)


@pytest.mark.parametrize(("count", "fitted", "judges"), [(500, 400, 100), (3000, 1500, 1500), (40_000, 5000, 20_000)])
def test_episodes_are_split_and_bounded(count, fitted, judges):
    model = problems.make("shop")
    sample, splits = sample_of(simulate(uniform(model), model, count, seed=1), np.random.default_rng(0))
    assert len(splits) == (5 if count == 500 else 1)
    for within, without in splits:
        assert (within ^ without).all()
        assert (within.sum(), without.sum()) == (fitted, judges)
    assert sum(without for _, without in splits).max() == 1
    assert len(sample) == min(count, fitted + judges) or count == 500


def test_long_episodes_are_fitted_to_fewer(monkeypatch):
    monkeypatch.setattr(held_out, "MOST_FITTED_STEPS", 5000)
    sample, splits = sample_of(dose(3000, seed=1), np.random.default_rng(0))
    assert (splits[0][0].sum(), len(sample)) == (500, 3000)


def test_transitions_are_numbered_by_how_frequent_they_are_and_sure_ones_left_out():
    steps = VisitedSteps(
        episode=np.array([0, 0, 1, 1, 2]),
        points=np.array([4, 7, 4, 7, 4]),
        paid=np.zeros(5, int),
        following=np.array([2, 1, 0, 1, 2]),
        first=np.array([3, 3, 3]),
    )
    owner, rows, values = _transitions(steps)
    assert (owner.tolist(), rows.tolist(), values.tolist()) == ([0, 1, 2], [0, 0, 0], [0, 1, 0])
    begun = VisitedSteps(steps.episode, steps.points, steps.paid, np.full(5, -1), np.array([3, 5, 5]))
    owner, rows, values = _transitions(begun)
    assert (owner.tolist(), rows.tolist(), values.tolist()) == ([0, 1, 2], [0, 0, 0], [1, 0, 0])


def test_rare_edges_of_a_state_action_share_a_row():
    points = np.repeat([3, 5], [25, 12])
    following = np.concatenate([np.repeat([0, 1, 2], [12, 9, 4]), np.full(12, 7)])
    none = np.zeros(37, int)
    rows, point_of = edge_rows(VisitedSteps(none, points, none, following, np.zeros(1, int)))
    assert rows.tolist() == [1] * 12 + [0] * 13 + [2] * 12
    assert point_of.tolist() == [0, 0, 1]


def test_symbols_become_bags_of_the_chosen_episodes():
    symbols = Symbols.of(np.array([2, 0, 2, 1]), np.array([0, 1, 2, 0]), np.array([3, 0, 1, 7]), 3)
    bags = symbols.bags(np.array([True, False, True]))
    assert (bags.symbols.tolist(), bags.offsets.tolist()) == ([8, 3, 17], [0, 1, 3])
    assert symbols.bags(np.array([True, False, True]), 2).symbols.tolist() == [8, 3]


def test_every_row_may_have_pseudo_counts_of_its_own():
    average = np.array([[0.5, 0.5], [0.9, 0.1]])
    outcomes = np.array([[[3.0, 1.0], [2.0, 6.0]]])
    laws = m_step(Statistics(np.ones(1), outcomes, 0.0, 1.0), average, np.array([[2.0], [8.0]])).laws
    np.testing.assert_allclose(laws, [[[4 / 6, 2 / 6], [9.2 / 16, 6.8 / 16]]])
    mixture = Mixture(np.ones(1), laws)
    separate = [penalty(Mixture(np.ones(1), laws[:, [i]]), average[[i]], prior) for i, prior in enumerate((2.0, 8.0))]
    assert penalty(mixture, average, np.array([[2.0], [8.0]])) == pytest.approx(sum(separate))
    bags = Bags(np.array([0, 3, 1, 2], np.int16), np.array([0, 2, 4]), np.ones(2), 2, 2)
    start = Mixture(np.full(2, 0.5), np.array([[[0.7, 0.3], [0.4, 0.6]], [[0.2, 0.8], [0.5, 0.5]]]))
    one, other = (
        ascend(lambda at: e_step(bags, at), start, average=average, prior=p) for p in (3.0, np.full((2, 1), 3.0))
    )
    np.testing.assert_allclose(one.mixture.laws, other.mixture.laws, atol=1e-9)


def test_fit_leads_with_it_and_promises_nothing():
    """Where only moves differ a plan that adapts earned less than one that does not, without a word."""
    fitted = fit(dose(2000, seed=3), num_contexts=2, resamples=0)
    assert "(not to be expected: types also move differently)" in repr(fitted)
    lines = fitted.summary().splitlines()
    assert lines[0] == "Types also move differently: no value of a policy that adapts can be trusted."
    assert lines[1].startswith("Play the best policy that does not adapt")
    planned = next(line for line in lines if "does not hold it earns" in line or "is planned to earn" in line)
    assert planned.startswith("In a model that does not hold it earns")
    assert "Not to be expected: types also move differently" in planned
