"""The comparison of the arms: against a direct evaluation, the sum over all paths, and tests of equal arms."""

import itertools
import math
import random

import pytest
from scipy import stats

from rewardmix.bounded_mean import ReturnBounds
from rewardmix.service.ab_test import LOG_WEALTH_LIMIT, STAKES, BettingSequence, Wealth, min_total_effect

BETS_OF_THE_SPEC = [0.9 / 2**k for k in range(8)]
UNIT = ReturnBounds(0.0, 1.0)


def folded(rows, bounds=UNIT):
    """The sequence after (adaptive, holdout, earned) of sessions."""
    sequence = BettingSequence(bounds)
    for row in rows:
        sequence.add(*row)
    return sequence


def drawn(seed, sessions, probs, holdout=0.1, steps=1):
    """Sessions of an A/B test: chances of a reward at each step, of the holdout and of those that adapt."""
    rng = random.Random(seed)
    rows = []
    for _ in range(sessions):
        adaptive = rng.random() >= holdout
        rows.append((adaptive, holdout, float(sum(rng.random() < probs[adaptive] for _ in range(steps)))))
    return rows


def directly(rows, bounds):
    """(estimate, lower, upper) from the definition: every sum anew, ends by halving, logarithms of the C library."""
    width = bounds.max_return - bounds.min_return
    scores, weights = [], []
    for number, (adaptive, holdout, online_result) in enumerate(rows):
        before = sum(
            min(max(row[2], bounds.min_return), bounds.max_return) - bounds.min_return for row in rows[:number]
        )
        centred = (
            min(max(online_result, bounds.min_return), bounds.max_return) - bounds.min_return - before / (number + 1)
        )
        prob = 1.0 - holdout
        weight = min(prob, 1.0 - prob) / width
        scores.append(weight * (centred / prob if adaptive else -centred / (1.0 - prob)))
        weights.append(weight)
    total = math.fsum(weights)

    def largest(scores):
        def evidence(difference):
            wealth = [grown[share] - share * difference * total for share in BETS_OF_THE_SPEC]
            highest = max(wealth)
            return highest + math.log(sum(math.exp(item - highest) for item in wealth) / 8) - math.log(2 / 0.05)

        grown = {share: math.fsum(math.log1p(share * y) for y in scores) for share in BETS_OF_THE_SPEC}
        low, high = -100.0 * width, 100.0 * width
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if evidence(middle) >= 0 else (low, middle)
        return low

    lower, upper = largest(scores), -largest([-y for y in scores])
    return math.fsum(scores) / total, max(lower, -width), min(upper, width)


@pytest.mark.parametrize(
    ("seed", "holdout", "probs", "steps", "bounds"),
    [
        (0, 0.1, (0.05, 0.05), 1, UNIT),
        (1, 0.5, (0.3, 0.9), 1, UNIT),
        (2, 0.2, (0.9, 0.1), 3, ReturnBounds(0.0, 3.0)),
        (3, 0.9, (0.5, 0.5), 10, ReturnBounds(-1.0, 4.0)),  # some earn more
    ],
)
def test_it_is_what_the_definition_says(seed, holdout, probs, steps, bounds):
    rows = drawn(seed, 300, probs, holdout, steps)
    result = folded(rows, bounds).comparison()
    assert (result.difference, result.lower, result.upper) == pytest.approx(directly(rows, bounds), rel=1e-9, abs=1e-9)
    assert result.clipped == sum(online_result > bounds.max_return for *_, online_result in rows)
    assert (result.sessions, result.min_return, result.max_return) == (300, bounds.min_return, bounds.max_return)


def logarithms(rows, sign):
    """Logarithms of wealth, by the product of what the sequence bets on."""
    sequence = folded(rows)
    wealth = sequence._up if sign > 0 else sequence._down
    return wealth.logarithms()


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("probs", [(0.0, 0.0), (0.02, 0.02), (0.5, 0.5), (0.9, 0.4), (0.1, 0.7)])
@pytest.mark.parametrize("shares", [(0.1, 0.1, 0.1, 0.1, 0.1), (0.5, 0.1, 0.5, 0.9, 0.3)])
def test_nobody_gets_rich_by_betting_on_the_truth(probs, shares, sign):
    """The mean wealth at the true difference over all paths of five sessions, each with its chance, is at most 1."""
    mean, difference = 0.0, sign * (probs[1] - probs[0])
    discount = difference * sum(min(share, 1 - share) for share in shares)
    for path in itertools.product(itertools.product((False, True), (0.0, 1.0)), repeat=len(shares)):
        likely, rows = 1.0, []
        for (adaptive, online_result), share in zip(path, shares, strict=True):
            paid = probs[adaptive]
            likely *= (1 - share if adaptive else share) * (paid if online_result else 1 - paid)
            rows.append((adaptive, share, online_result))
        if likely > 0.0:
            values = logarithms(rows, sign)
            mean += likely * sum(math.exp(v - f * discount) for v, f in zip(values, STAKES, strict=True)) / len(STAKES)
    assert mean <= 1.0 + 1e-12
    assert mean > 0.5


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("prob", "steps", "holdout"), [(0.01, 1, 0.1), (0.05, 1, 0.1), (0.01, 10, 0.1), (0.3, 1, 0.1), (0.01, 1, 0.5)]
)
def test_equal_arms_are_decided_in_one_test_of_twenty_at_most(prob, steps, holdout):
    """A/A tests with looks every 100 sessions. An interval of each arm's own variance errs in .2 to .35 of the rare."""
    tests, wrong = 60, 0
    for seed in range(tests):
        sequence = BettingSequence(ReturnBounds(0.0, float(steps)))
        for number, row in enumerate(drawn(seed, 3000, (prob, prob), holdout, steps), start=1):
            sequence.add(*row)
            if number % 100 == 0 and (result := sequence.comparison()) and not result.lower <= 0.0 <= result.upper:
                wrong += 1
                break
    assert wrong <= stats.binom.ppf(0.99, tests, 0.05)


def test_a_holdout_that_was_not_paid_yet_decides_nothing():
    """Of equal arms, 28 % of holdouts of a tenth have none of 12 rewards."""
    rows = [(number % 10 > 0, 0.1, float(number % 83 == 1)) for number in range(1000)]
    paid = [sum(online_result for adaptive, _, online_result in rows if adaptive is arm) for arm in (True, False)]
    rows = [(adaptive, share, online_result * adaptive) for adaptive, share, online_result in rows]
    assert sum(online_result for *_, online_result in rows) == paid[0] == 12
    result = folded(rows).comparison()
    assert result.lower < 0.0 < result.difference < result.upper
    assert result.sessions_until_significant is None or result.sessions_until_significant > 0


def test_a_difference_is_seen_and_held():
    """A half against a third: some thousand sessions decide, and the interval holds the truth."""
    for seed in range(10):
        result = folded(drawn(seed, 4000, (0.33, 0.5), 0.5)).comparison()
        assert 0.0 < result.lower < 0.17 < result.upper < 0.33
        assert result.difference == pytest.approx(0.17, abs=0.06)
        assert result.sessions_until_significant == 0
        opposite = folded(drawn(seed, 4000, (0.5, 0.33), 0.5)).comparison()
        assert opposite.upper < 0.0


def test_the_wait_is_how_long_the_same_has_to_go_on():
    paid = [True] * 10 + [False] * 10, [1.0] * 4 + [0.0] * 6 + [1.0] * 3 + [0.0] * 7
    block = [(adaptive, 0.5, online_result) for adaptive, online_result in zip(*paid, strict=True)]
    random.Random(0).shuffle(block)
    rows = block * 20
    result = folded(rows).comparison()
    assert result.lower < 0.0 < result.difference
    times = 1 + result.sessions_until_significant / len(rows)
    assert times > 1.5

    def decided(share):
        count = int(share * times * len(rows))
        later = folded(itertools.islice(itertools.cycle(block), count)).comparison()
        return later.sessions_until_significant == 0

    assert not decided(0.9)
    assert decided(1.1)
    same = folded([(number % 2 == 0, 0.5, float(number // 2 % 2)) for number in range(400)]).comparison()
    assert same.sessions_until_significant is None
    assert same.lower < 0.0 < same.upper


def test_chances_that_change_deceive_nobody():
    """Rewards grow while the holdout shrinks: its sessions earned less on average, and adapting is worth nothing."""
    early, late = drawn(1, 4000, (0.1, 0.1), 0.5), drawn(2, 4000, (0.6, 0.6), 0.1)
    rows = early + late
    means = [[online_result for adaptive, _, online_result in rows if adaptive is arm] for arm in (True, False)]
    assert sum(means[0]) / len(means[0]) - sum(means[1]) / len(means[1]) > 0.2
    result = folded(rows).comparison()
    assert result.lower < 0.0 < result.upper
    assert abs(result.difference) < 0.05


def test_sessions_that_were_not_drawn_are_left_out():
    rows = drawn(0, 400, (0.5, 0.5), 0.5)
    unknown = [(True, None, 1.0), (True, 0.0, 1.0), (False, 1.0, 0.0)] * 50
    sequence = folded([*rows[:200], *unknown, *rows[200:]])
    assert sequence.comparison() == folded(rows).comparison()
    assert sequence.num_excluded == 150
    assert folded(unknown).comparison() is None
    assert folded(rows[:20]).comparison() is None


def test_a_session_counts_at_most_as_said():
    rows = drawn(0, 400, (0.5, 0.5), 0.5)
    rich = [(adaptive, share, 50.0 * online_result - 3.0) for adaptive, share, online_result in rows]
    assert folded(rich).comparison().difference == folded(rows).comparison().difference
    assert folded(rich).comparison().clipped == 400
    beyond = math.nextafter(0.6, 1.0)  # as sums of rewards are
    summed = folded([(adaptive, share, beyond) for adaptive, share, _ in rows], ReturnBounds(0.0, 0.6)).comparison()
    assert summed.clipped == 0


def test_wealth_never_overflows():
    wealth = Wealth()
    for _ in range(20_000):
        wealth.bet(-1.0)
    assert wealth.logarithms() == pytest.approx([20_000 * math.log1p(-share) for share in STAKES], rel=1e-12)
    assert min_total_effect(wealth.logarithms()) < 0.0
    assert pytest.approx(math.log(40.0), rel=1e-15) == LOG_WEALTH_LIMIT


BITS = "0x1.5aba489f84906p-3", "0x1.b298d239f8739p-8", "0x1.3d83b3ac19c16p-2"


@pytest.mark.machines
def test_the_same_bits_everywhere():
    result = folded(drawn(5, 500, (0.1, 0.3), 0.2)).comparison()
    assert (result.difference.hex(), result.lower.hex(), result.upper.hex()) == BITS
