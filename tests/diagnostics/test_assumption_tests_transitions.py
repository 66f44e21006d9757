"""Types that move differently and rewards that depend on the next state are found, and only where they are."""

import itertools
import math

import numpy as np
import pytest
from benchmarks.forms.settings import LARGE, OTHERS, WORLDS
from benchmarks.forms.worlds import dose, funnel, rooms

from rewardmix import Episodes, diagnose, fit, problems, simulate, uniform_policy
from rewardmix.diagnostics import assumption_tests, held_out
from rewardmix.diagnostics.assumption_tests import ASSUMPTIONS, check_form
from rewardmix.diagnostics.held_out import HeldOutGain, Symbols, VisitedSteps, best_gain, sample_splits
from rewardmix.diagnostics.next_state import edge_rows, matching_statistic, next_state_p_value, next_state_test
from rewardmix.diagnostics.transition_types import _transitions, transition_gain
from rewardmix.recovery.likelihood import Mixture, SufficientStatistics, e_step, log_prior, m_step, run_em
from rewardmix.recovery.reward_patterns import RewardPatterns

NOTHING = {name: make for name, (planted, make) in {**WORLDS, **OTHERS, **LARGE}.items() if not planted}


def by_name(diagnostics):
    return {finding.assumption: finding for finding in diagnostics.tests}


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
    statistic, mean, variance = matching_statistic(np.zeros(paid.size, np.int64), paid, led)
    assert statistic == pytest.approx(pearson(paid, led))
    assert mean == pytest.approx(every.mean())
    assert variance == pytest.approx(every.var())


def test_tables_add_over_state_actions_and_leave_out_what_cannot_vary():
    paid, led = np.array([0, 1, 0, 0, 1, 0, 1, 1, 0]), np.array([0, 1, 1, 1, 0, 0, 1, 1, 0])
    alone = matching_statistic(np.zeros(9, np.int64), paid, led)
    always = np.concatenate([paid, np.zeros(9, int)]), np.concatenate([led, led])  # a second one always pays the same
    assert matching_statistic(np.repeat([3, 1], 9), *always) == pytest.approx(alone)
    twice = np.concatenate([paid, paid]), np.concatenate([led, led])
    assert matching_statistic(np.repeat([0, 5], 9), *twice) == pytest.approx([2 * piece for piece in alone])
    few = np.array([0, 1, 0]), np.array([0, 1, 1])
    assert matching_statistic(np.zeros(3, np.int64), *few) == (0.0, 0.0, 0.0)
    assert math.isnan(next_state_test(np.zeros(3, np.int64), *few))


def test_p_values_of_tables_are_uniform_where_rewards_are_rare():
    """Of 400 tables with 3 % of rewards and states that hardly ever follow; Massart's bound, one in 1e4."""
    rng, values = np.random.default_rng(0), []
    for _ in range(400):
        next_states = rng.choice(6, 1500, p=[0.5, 0.3, 0.1, 0.05, 0.03, 0.02])
        values.append(next_state_test(rng.integers(0, 20, 1500), (rng.random(1500) < 0.03).astype(int), next_states))
    distance = np.abs(np.sort(values) - (np.arange(400) + 0.5) / 400).max()
    assert distance < math.sqrt(math.log(2e4) / (2 * 400))


@pytest.mark.statistical
@pytest.mark.parametrize("size", [500, 2000])
@pytest.mark.parametrize("make", [dose, funnel])
def test_types_that_move_differently_are_found(make, size):
    findings = by_name(diagnose(make(size, seed=size)))
    moved = findings["transition types"]
    assert moved.rejected
    assert moved.p_value < 1e-9
    assert moved.gain > 0.2
    assert moved.text.startswith(f"Types have different transitions (held-out gain {moved.gain:.2g} nats per episode)")
    for name in ("next state", *assumption_tests.REWARD_ASSUMPTIONS):
        assert not findings[name].rejected
        assert findings[name].text.endswith("the test assumes that all types share one transition model.")


@pytest.mark.parametrize("size", [500, 3000])
def test_rewards_that_depend_on_the_next_state_are_found_though_the_types_cancel(size):
    """Half of the users are paid for one room and half for the other: on average a reward tells nothing of the room."""
    episodes = rooms(size, seed=1)
    findings = by_name(diagnose(episodes))
    assert findings["next state"].rejected
    assert not findings["transition types"].rejected
    assert not findings["drift"].rejected
    assert "Use the best Markov policy" in findings["next state"].text
    for name in ("transitions", *assumption_tests.REWARD_ASSUMPTIONS):
        assert findings[name].skip_reason == (
            "the test assumes that a reward does not depend on the next state, given state and action"
        )


def test_a_table_finds_few_rewards_that_all_lead_to_one_state():
    rng = np.random.default_rng(3)
    states = np.concatenate([np.zeros((60, 1), int), rng.integers(0, 3, (60, 1))], axis=1)
    paid = (states[:, 1:] == 2) & (rng.random((60, 1)) < 0.4)
    episodes = Episodes.from_arrays(
        states, np.zeros((60, 1), int), paid.astype(float), num_states=3, num_actions=1, reward_values=(0.0, 1.0)
    )
    assert paid.sum() < 15
    assert next_state_p_value(episodes) < 1e-3


@pytest.mark.statistical
@pytest.mark.parametrize("name", NOTHING)
def test_nothing_is_found_where_nothing_is(name):
    """At .01 for all questions together a quarter of a hundredth is due to these two: of 12 logs, not one."""
    for seed in range(12):
        _, answers = check_form(NOTHING[name](300 if seed % 2 else 600, 100 + seed), seed)
        assert not [name for name, (p_value, _) in answers.items() if p_value * len(ASSUMPTIONS) < 0.01], seed


def test_what_cannot_be_asked_says_so():
    model = problems.make_model("probe")  # deterministic
    findings = by_name(diagnose(simulate(uniform_policy(model), model, 200, seed=1)))
    assert findings["next state"].skip_reason == "no state-action has enough visits"
    assert transition_gain(dose(9, seed=1)) is None


def test_a_gain_is_believed_if_it_is_beyond_its_error_and_beyond_seven():
    rng = np.random.default_rng(0)
    sure, small = np.full((1, 100), 0.2) + 0.01 * rng.normal(size=(1, 100)), np.full((1, 100), 0.065)
    assert best_gain(sure).p_value < 1e-100
    assert best_gain(small + 0.001 * rng.normal(size=(1, 100))).p_value == 1.0
    row = rng.normal(0.3, 2.0, size=(1, 400))
    gain = best_gain(row)
    assert gain.error == pytest.approx(row.std() / 20)
    assert gain.p_value == pytest.approx(0.5 * math.erfc(row.mean() / gain.error / math.sqrt(2)))
    both = best_gain(np.concatenate([row, np.zeros((1, 400))]))  # the better of two, at twice the p-value
    assert (both.gain, both.p_value) == (gain.gain, pytest.approx(2 * gain.p_value))
    assert isinstance(both, HeldOutGain)


@pytest.mark.parametrize(("count", "fitted", "judges"), [(500, 400, 100), (3000, 1500, 1500), (40_000, 5000, 20_000)])
def test_episodes_are_split_and_bounded(count, fitted, judges):
    model = problems.make_model("shop")
    sample, splits = sample_splits(simulate(uniform_policy(model), model, count, seed=1), np.random.default_rng(0))
    assert len(splits) == (5 if count == 500 else 1)
    for within, without in splits:
        assert (within ^ without).all()
        assert (within.sum(), without.sum()) == (fitted, judges)
    assert sum(without for _, without in splits).max() == 1
    assert len(sample) == min(count, fitted + judges) or count == 500


def test_long_episodes_are_fitted_to_fewer(monkeypatch):
    monkeypatch.setattr(held_out, "MAX_FITTED_STEPS", 5000)
    sample, splits = sample_splits(dose(3000, seed=1), np.random.default_rng(0))
    assert (splits[0][0].sum(), len(sample)) == (500, 3000)


def test_transitions_are_numbered_by_how_frequent_they_are_and_sure_ones_left_out():
    steps = VisitedSteps(
        episode=np.array([0, 0, 1, 1, 2]),
        state_actions=np.array([4, 7, 4, 7, 4]),
        reward_indices=np.zeros(5, int),
        next_states=np.array([2, 1, 0, 1, 2]),
        initial_states=np.array([3, 3, 3]),
    )
    owner, rows, values = _transitions(steps)
    assert (owner.tolist(), rows.tolist(), values.tolist()) == ([0, 1, 2], [0, 0, 0], [0, 1, 0])
    begun = VisitedSteps(steps.episode, steps.state_actions, steps.reward_indices, np.full(5, -1), np.array([3, 5, 5]))
    owner, rows, values = _transitions(begun)
    assert (owner.tolist(), rows.tolist(), values.tolist()) == ([0, 1, 2], [0, 0, 0], [1, 0, 0])


def test_rare_edges_of_a_state_action_share_a_row():
    points = np.repeat([3, 5], [25, 12])
    next_states = np.concatenate([np.repeat([0, 1, 2], [12, 9, 4]), np.full(12, 7)])
    none = np.zeros(37, int)
    rows, point_of = edge_rows(VisitedSteps(none, points, none, next_states, np.zeros(1, int)))
    assert rows.tolist() == [1] * 12 + [0] * 13 + [2] * 12
    assert point_of.tolist() == [0, 0, 1]


def test_symbols_become_bags_of_the_chosen_episodes():
    symbols = Symbols.of(np.array([2, 0, 2, 1]), np.array([0, 1, 2, 0]), np.array([3, 0, 1, 7]), 3)
    patterns = symbols.patterns(np.array([True, False, True]))
    assert (patterns.symbols.tolist(), patterns.offsets.tolist()) == ([8, 3, 17], [0, 1, 3])
    assert symbols.patterns(np.array([True, False, True]), 2).symbols.tolist() == [8, 3]


def test_every_row_may_have_pseudo_counts_of_its_own():
    average = np.array([[0.5, 0.5], [0.9, 0.1]])
    reward_indices = np.array([[[3.0, 1.0], [2.0, 6.0]]])
    probs = m_step(SufficientStatistics(np.ones(1), reward_indices, 0.0, 1.0), average, np.array([[2.0], [8.0]])).probs
    np.testing.assert_allclose(probs, [[[4 / 6, 2 / 6], [9.2 / 16, 6.8 / 16]]])
    mixture = Mixture(np.ones(1), probs)
    separate = [
        log_prior(Mixture(np.ones(1), probs[:, [i]]), average[[i]], prior) for i, prior in enumerate((2.0, 8.0))
    ]
    assert log_prior(mixture, average, np.array([[2.0], [8.0]])) == pytest.approx(sum(separate))
    patterns = RewardPatterns(np.array([0, 3, 1, 2], np.int16), np.array([0, 2, 4]), np.ones(2), 2, 2)
    start = Mixture(np.full(2, 0.5), np.array([[[0.7, 0.3], [0.4, 0.6]], [[0.2, 0.8], [0.5, 0.5]]]))
    item, other = (
        run_em(lambda at: e_step(patterns, at), start, prior_mean=average, pseudocount=p)
        for p in (3.0, np.full((2, 1), 3.0))
    )
    np.testing.assert_allclose(item.mixture.probs, other.mixture.probs, atol=1e-9)


@pytest.mark.system
def test_fit_leads_with_it_and_promises_nothing():
    """Where only moves differ a plan that adapts earned less than one that does not, without a word."""
    fitted = fit(dose(2000, seed=3), num_types=2, num_resamples=0)
    assert "(not valid: types have different transitions)" in repr(fitted)
    lines = fitted.summary().splitlines()
    assert lines[0] == "Types have different transitions; values of adaptive policies are not valid."
    assert lines[1].startswith("Use the best Markov policy")
    planned = next(line for line in lines if line.startswith("Planned value"))
    assert planned.startswith("Planned value (not valid)")
    assert "Not valid: types have different transitions" in planned
