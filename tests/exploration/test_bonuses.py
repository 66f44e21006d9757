"""The bonuses of each setting against their formulas written out, with nothing shared but the sizes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rewardmix._core.errors import InputError
from rewardmix.episodes import Episodes
from rewardmix.exploration import PracticalBonus, paper_bonus, practical_bonus, theory_bonus
from rewardmix.exploration.augmented_mdp import initial_value, make_pair_plan, replan_pairs
from rewardmix.exploration.bonuses import ProblemSize
from rewardmix.exploration.running_counts import RunningCounts
from rewardmix.moments import Moments

SIZE = ProblemSize(num_states=5, num_actions=3, horizon=4, num_next_states=6, failure_prob=0.08, num_episodes=10_000)
COUNTS = np.array([1, 7, 400, 10**6])


def at_most_one(values):
    return np.minimum(np.asarray(values, float), 1.0)


def subsets(categories, count, failure_prob):
    """Half the L1 distance that the law of ``count`` draws leaves with chance failure / (count (count + 1)).

    Every set of outcomes but none and all may be off, by Hoeffding's inequality each: 2^k - 2 of them. The largest
    error of any set is half the L1 distance, so exp(-2 n r^2) for each of them.
    """
    return math.sqrt(math.log((2**categories - 2) * count * (count + 1) / failure_prob) / (2 * count))


def test_the_theory_setting_is_its_formulas():
    share = 0.08 / 4  # averages, pairs, moves, starts
    start = subsets(5, 10_000, share)
    assert float(theory_bonus.initial(SIZE)) == pytest.approx(start, rel=1e-12)
    transitions = [subsets(6, n, share / 15) for n in COUNTS.tolist()]  # the end is a next state too
    assert theory_bonus.transition(COUNTS, SIZE) == pytest.approx(at_most_one(transitions), rel=1e-12)
    pairs = [math.sqrt(math.log(2 * n * (n + 1) * 120 / share) / (2 * n)) for n in COUNTS.tolist()]
    assert theory_bonus.pair(COUNTS, SIZE) == pytest.approx(at_most_one(pairs), rel=1e-12)


@pytest.mark.parametrize("values", [2, 3, 5])
def test_a_pair_of_the_theory_setting_counts_every_cell_of_its_table(values):
    counts = RunningCounts.empty((5, 3, 4), np.arange(float(values)), ordered=False)
    size = make_pair_plan(counts, theory_bonus, 0.08).problem_size
    cells = 1 if values == 2 else values**2
    pairs = [math.sqrt(math.log(2 * n * (n + 1) * 120 * cells / 0.02) / (2 * n)) for n in COUNTS.tolist()]
    assert theory_bonus.pair(COUNTS, size) == pytest.approx(at_most_one(pairs), rel=1e-12)


def test_the_start_of_the_theory_setting_covers_the_law_of_starts():
    """What a function with values in [0, 1] can gain by the error of nu-hat, at the count where it is to hold."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(5))
    shares = rng.multinomial(10_000, probs, size=4000) / 10_000
    off = np.maximum(shares - probs, 0.0).sum(axis=1)
    assert (off <= float(theory_bonus.initial(SIZE))).all()  # the chance of a single miss is far below one in a million
    assert off.max() > 0.2 * float(theory_bonus.initial(SIZE))


def test_the_papers_setting_is_its_formulas():
    level = 2.0 * math.log(10_000 * 15 / 0.08)
    assert paper_bonus(2.0).pair(COUNTS, SIZE) == pytest.approx(at_most_one(np.sqrt(level / COUNTS)), rel=1e-12)
    assert paper_bonus(2.0).transition(COUNTS, SIZE) == pytest.approx(
        at_most_one(np.sqrt(5 * level / COUNTS)), rel=1e-12
    )
    assert float(paper_bonus(2.0).initial(SIZE)) == pytest.approx(math.sqrt(5 * level / 10_000), rel=1e-12)


def test_the_practical_setting_is_as_published():
    """Level 2, an unseen pair five times as much, the rule of succession: what docs and results say was used."""
    assert practical_bonus.pair(COUNTS, SIZE) == pytest.approx(np.sqrt(2 / COUNTS) / 5, rel=1e-12)
    assert practical_bonus.transition(COUNTS, SIZE) == pytest.approx(1 / (COUNTS + 1), rel=1e-12)
    assert float(practical_bonus.initial(SIZE)) == pytest.approx(1 / 10_001, rel=1e-12)
    assert (
        practical_bonus.unseen_pair_weight,
        paper_bonus(2.0).unseen_pair_weight,
        theory_bonus.unseen_pair_weight,
    ) == (5.0, 1.0, 1.0)


def test_an_unseen_pair_counts_at_least_as_much_as_a_seen_one():
    with pytest.raises(InputError, match=r"unseen_pair_weight: got 0\.5, expected a number of at least 1"):
        PracticalBonus(unseen_pair_weight=0.5)
    bonus = PracticalBonus(8.0, 2.0, unseen_pair_weight=1.0)
    assert bonus.pair(COUNTS, SIZE) == pytest.approx(at_most_one(np.sqrt(8 / COUNTS)), rel=1e-12)
    assert bonus.transition(COUNTS, SIZE) == pytest.approx(2 / (2 + COUNTS), rel=1e-12)


@pytest.mark.parametrize("early", [False, True])
def test_a_plan_knows_that_episodes_can_end(early):
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 4, 4000) if early else np.full(4000, 3)
    episodes = Episodes.from_arrays(
        rng.integers(2, size=(4000, 4)), np.zeros((4000, 3), int), np.zeros((4000, 3)),
        num_states=2, num_actions=1, lengths=lengths,
    )  # fmt: skip
    counts = RunningCounts.empty((2, 1, 3), np.array([0.0, 1.0]), ordered=False)
    counts.add(Moments.from_episodes(episodes))
    plan = make_pair_plan(counts, theory_bonus, 0.05)
    replan_pairs(plan, counts, theory_bonus, 1.5)
    next_state = [subsets(2 + early, n, 0.05 / 4 / 2) for n in counts.visits.tolist()]
    assert plan.transition_estimate.bonus == pytest.approx(np.array(next_state), rel=1e-12)


def test_counts_of_an_earlier_exploration_are_added_whole():
    """First visits for rewards, all visits for moves."""
    rng = np.random.default_rng(2)
    episodes = Episodes.from_arrays(
        rng.integers(2, size=(50, 6)), rng.integers(2, size=(50, 5)), rng.integers(2, size=(50, 5)),
        num_states=2, num_actions=2,
    )  # fmt: skip
    counts = RunningCounts.empty((2, 2, 5), np.array([0.0, 1.0]), ordered=False)
    counts.add(Moments.from_episodes(episodes[:20]))
    counts.add(Moments.from_episodes(episodes[20:]))
    assert counts.moments() == Moments.from_episodes(episodes)
    x = episodes.states[:, :-1].ravel() * 2 + episodes.actions.ravel()
    assert counts.visits.tolist() == np.bincount(x).tolist()
    assert counts.episodes == 50


@pytest.mark.parametrize(
    ("bonus_rule", "bonus"),
    [(practical_bonus, 0.06 / 101), (theory_bonus, subsets(2, 100, 0.05 / 4))],
)
def test_the_uncertainty_is_the_mean_over_starts_with_its_bonus(bonus_rule, bonus):
    """90 of 100 episodes began where V_1 is 0.02; scaled settings multiply the bonus by the largest value."""
    counts = RunningCounts.empty((2, 1, 3), np.array([0.0, 1.0]), ordered=False)
    counts.initial_counts[:], counts.progress[0] = [90, 10], 100
    size = ProblemSize(num_states=2, num_actions=1, horizon=3, num_next_states=2, failure_prob=0.05, num_episodes=1)
    result = initial_value(np.array([0.02, 0.06]), counts, bonus_rule, size)
    assert result == pytest.approx(bonus_rule.unseen_pair_weight * (0.024 + bonus), rel=1e-12)
    assert initial_value(np.array([0.06, 0.06]), counts, practical_bonus, size) == pytest.approx(0.3, rel=1e-12)
    assert initial_value(np.array([0.6, 0.6]), counts, practical_bonus, size) == 1.0
