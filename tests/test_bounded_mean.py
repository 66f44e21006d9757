"""Intervals of a mean: against brute force by scipy, and how often they cover, by the binomial law itself."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from rewardmix import RewardMixingMDP, evaluate, make_env, problems, uniform
from rewardmix.bounded_mean import MADE_UP, ReturnBounds, mean_interval, return_bounds
from rewardmix.evaluation import bounds_of, interval
from rewardmix.policy import MarkovPolicy

UNIT = ReturnBounds(0.0, 1.0)


def evidence(returns, mean):
    """What speaks against a mean that is below the one seen, by scipy."""

    def loss(bet):
        lost = MADE_UP * math.log1p(-bet * mean)
        return -(lost + float(np.log1p(bet * (returns - mean)).sum()))

    best = optimize.minimize_scalar(loss, bounds=(0.0, 1.0 / mean), method="bounded", options={"xatol": 1e-12})
    return max(-best.fun, 0.0)


def lower_end(returns, failure):
    """The lowest mean that is not refused, by scipy."""
    most = stats.t.ppf(1 - failure / 2, returns.size - 1) ** 2 / 2
    high = returns.sum() / (returns.size + MADE_UP)
    if high == 0.0:
        return 0.0
    return optimize.brentq(lambda mean: evidence(returns, mean) - most, 1e-9 * high, high, xtol=1e-12)


@pytest.mark.parametrize("failure", [0.05, 0.3])
@pytest.mark.parametrize("law", ["rare", "amounts", "all paid", "levels"])
def test_the_ends_are_where_the_likelihood_says(law, failure):
    rng = np.random.default_rng(4)
    returns = {
        "rare": (rng.random(60) < 0.05).astype(float),
        "amounts": np.minimum(rng.lognormal(-3.0, 1.5, 80), 1.0),
        "all paid": np.ones(40),
        "levels": rng.choice([0.2, 0.5, 0.9], 30),
    }[law]
    low, high = mean_interval(returns, failure, UNIT)
    assert low == pytest.approx(lower_end(returns, failure), abs=1e-7)
    assert high == pytest.approx(1.0 - lower_end(1.0 - returns, failure), abs=1e-7)
    assert low <= returns.mean() <= high
    scaled = mean_interval(5.0 * returns - 2.0, failure, ReturnBounds(-2.0, 3.0))
    assert scaled == pytest.approx((5 * low - 2, 5 * high - 2), abs=1e-9)


def coverage(chance, episodes):
    """How often the interval of returns of 0 and 1 holds their mean: a sum over how many are paid, no simulation."""
    covered = 0.0
    for paid in range(episodes + 1):
        likely = stats.binom.pmf(paid, episodes, chance)
        if likely > 1e-9:
            low, high = mean_interval(np.repeat([0.0, 1.0], [episodes - paid, paid]), 0.05, UNIT)
            covered += likely * (low <= chance <= high)
    return covered


@pytest.mark.parametrize("episodes", [100, 1000])
@pytest.mark.parametrize("chance", [0.01, 0.05, 0.3, 0.95])
def test_it_covers_where_rewards_are_rare(chance, episodes):
    """Student's covers .63 at a chance of .01 and 100 episodes."""
    assert 0.945 <= coverage(chance, episodes) < 0.99


def test_amounts_are_covered_too():
    """Rare and skewed amounts; Student's misses 107 of 400; one of 95 % misses more than 30 with a chance of .007."""
    rng = np.random.default_rng(1)
    amounts = np.minimum(rng.lognormal(0.0, 1.0, (400, 150)), 20.0) * (rng.random((400, 150)) < 0.03)
    bound = 20.0
    below = stats.norm.cdf(math.log(bound) - 1.0)
    mean = 0.03 * (math.exp(0.5) * below + bound * stats.norm.sf(math.log(bound)))
    ends = [mean_interval(row, 0.05, ReturnBounds(0.0, bound)) for row in amounts]
    assert sum(not low <= mean <= high for low, high in ends) <= 30


def test_nothing_paid_is_no_proof_that_nothing_ever_is():
    low, high = mean_interval(np.zeros(100), 0.05, UNIT)
    assert low == 0.0
    assert 0.01 < high < 0.05
    one = mean_interval(np.full(50, 3.0), 0.05, ReturnBounds(0.0, 10.0))
    assert one[0] < 3.0 < one[1]
    assert mean_interval(np.full(50, 3.0), 0.05, ReturnBounds(3.0, 3.0)) == (3.0, 3.0)  # no other return can be


@pytest.mark.parametrize("failure", [0.05, 0.3])
def test_without_bounds_it_is_students_with_two_more_episodes(failure):
    returns = np.array([0.0, 1.0, 1.0, 4.0, 2.5])
    expected = stats.ttest_1samp([0.0, *returns, 4.0], 0.0).confidence_interval(1 - failure)
    assert mean_interval(returns, failure) == pytest.approx(tuple(expected), rel=1e-10)  # twelve digits of the quantile
    less = stats.ttest_1samp([*-returns, 0.0, -4.0], 0.0).confidence_interval(1 - failure)
    assert mean_interval(-returns, failure) == pytest.approx(tuple(less), rel=1e-10)
    assert mean_interval(np.zeros(50), failure) == (-math.inf, math.inf)


def test_bounds_of_a_return():
    values = np.array([1.0, 2.0])
    assert return_bounds(values, 3, may_end=False) == ReturnBounds(3.0, 6.0)
    assert return_bounds(values, 3) == ReturnBounds(0.0, 6.0)
    assert return_bounds(np.array([-1.0, 2.0]), 3) == ReturnBounds(-3.0, 6.0)
    assert return_bounds(-values, 3) == ReturnBounds(-6.0, 0.0)


def test_a_world_that_says_what_it_pays_is_played_with_bounds():
    model = problems.make("random", states=3, actions=2, horizon=4, seed=2)
    policy = uniform(model)
    declared = make_env(model)
    found = evaluate(policy, declared, episodes=200)
    assert not found.approximate
    assert 0.0 <= found.lower < evaluate(policy, model).value < found.upper <= 4.0
    assert bounds_of(None, policy, model) == ReturnBounds(0.0, 4.0)


def test_a_world_that_does_not_is_called_approximate():
    import gymnasium

    class Silent(gymnasium.Env):
        observation_space = action_space = gymnasium.spaces.Discrete(2)
        horizon, pays = 2, 0.0

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {}

        def step(self, action):
            return 0, self.pays * self.np_random.integers(2), False, False, {}

    policy = MarkovPolicy(np.full((2, 2, 2), 0.5))
    nothing = evaluate(policy, Silent(), episodes=30)
    assert (nothing.value, nothing.lower, nothing.upper) == (0.0, -math.inf, math.inf)
    assert nothing.approximate
    paying = Silent()
    paying.pays = 1.0
    found = evaluate(policy, paying, episodes=30)
    assert found.approximate
    assert found.lower < found.value < found.upper
    assert interval(np.array([1.0, 2.0])).approximate


def test_rewards_of_several_values_bound_a_return():
    base = problems.make("random", states=2, actions=2, horizon=3, seed=1)
    fields = {name: getattr(base, name) for name in base.__dataclass_fields__}
    model = RewardMixingMDP(**{**fields, "reward_values": np.array([-1.0, 4.0])})
    assert bounds_of(None, uniform(model), model) == ReturnBounds(-3.0, 12.0)


def test_the_command_line_says_what_an_interval_is_worth():
    from rewardmix.cli.model_commands import _interval_of

    known = interval(np.array([0.0, 1.0, 1.0]), bounds=UNIT)
    assert _interval_of(known) == f"{known.lower:.6g} .. {known.upper:.6g}"
    assert _interval_of(interval(np.array([0.0, 1.0, 1.0]))).endswith(
        ", approximate, as neither world nor policy says what can be paid"
    )
    assert _interval_of(interval(np.zeros(3))).startswith("no interval, as no episode was paid")
