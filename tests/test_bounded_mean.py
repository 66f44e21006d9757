"""Intervals of a mean: against brute force by scipy, and how often they cover, by the binomial law itself."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from rewardmix import RewardMixingMDP, evaluate, make_env, problems, uniform_policy
from rewardmix.bounded_mean import PSEUDO_EPISODES, ReturnBounds, mean_interval, return_bounds
from rewardmix.evaluation import bounds_of, confidence_interval
from rewardmix.policy import MarkovPolicy

UNIT = ReturnBounds(0.0, 1.0)


def evidence(returns, mean):
    """What speaks against a mean that is below the one seen, by scipy."""

    def loss(bet):
        lost = PSEUDO_EPISODES * math.log1p(-bet * mean)
        return -(lost + float(np.log1p(bet * (returns - mean)).sum()))

    best = optimize.minimize_scalar(loss, bounds=(0.0, 1.0 / mean), method="bounded", options={"xatol": 1e-12})
    return max(-best.fun, 0.0)


def lower_end(returns, failure_prob):
    """The lowest mean that is not refused, by scipy."""
    most = stats.t.ppf(1 - failure_prob / 2, returns.size - 1) ** 2 / 2
    high = returns.sum() / (returns.size + PSEUDO_EPISODES)
    if high == 0.0:
        return 0.0
    return optimize.brentq(lambda mean: evidence(returns, mean) - most, 1e-9 * high, high, xtol=1e-12)


@pytest.mark.parametrize("failure_prob", [0.05, 0.3])
@pytest.mark.parametrize("dist", ["rare", "amounts", "all paid", "levels"])
def test_the_ends_are_where_the_likelihood_says(dist, failure_prob):
    rng = np.random.default_rng(4)
    returns = {
        "rare": (rng.random(60) < 0.05).astype(float),
        "amounts": np.minimum(rng.lognormal(-3.0, 1.5, 80), 1.0),
        "all paid": np.ones(40),
        "levels": rng.choice([0.2, 0.5, 0.9], 30),
    }[dist]
    low, high = mean_interval(returns, failure_prob, UNIT)
    assert low == pytest.approx(lower_end(returns, failure_prob), abs=1e-7)
    assert high == pytest.approx(1.0 - lower_end(1.0 - returns, failure_prob), abs=1e-7)
    assert low <= returns.mean() <= high
    scaled = mean_interval(5.0 * returns - 2.0, failure_prob, ReturnBounds(-2.0, 3.0))
    assert scaled == pytest.approx((5 * low - 2, 5 * high - 2), abs=1e-9)


def coverage(prob, episodes):
    """How often the interval of returns of 0 and 1 holds their mean: a sum over how many are paid, no simulation."""
    covered = 0.0
    for paid in range(episodes + 1):
        likely = stats.binom.pmf(paid, episodes, prob)
        if likely > 1e-9:
            low, high = mean_interval(np.repeat([0.0, 1.0], [episodes - paid, paid]), 0.05, UNIT)
            covered += likely * (low <= prob <= high)
    return covered


@pytest.mark.parametrize("episodes", [100, 1000])
@pytest.mark.parametrize("prob", [0.01, 0.05, 0.3, 0.95])
def test_it_covers_where_rewards_are_rare(prob, episodes):
    """Student's covers .63 at a chance of .01 and 100 episodes."""
    assert 0.945 <= coverage(prob, episodes) < 0.99


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
    item = mean_interval(np.full(50, 3.0), 0.05, ReturnBounds(0.0, 10.0))
    assert item[0] < 3.0 < item[1]
    assert mean_interval(np.full(50, 3.0), 0.05, ReturnBounds(3.0, 3.0)) == (3.0, 3.0)  # no other return can be


@pytest.mark.parametrize("failure_prob", [0.05, 0.3])
def test_without_bounds_it_is_students_with_two_more_episodes(failure_prob):
    returns = np.array([0.0, 1.0, 1.0, 4.0, 2.5])
    expected = stats.ttest_1samp([0.0, *returns, 4.0], 0.0).confidence_interval(1 - failure_prob)
    assert mean_interval(returns, failure_prob) == pytest.approx(
        tuple(expected), rel=1e-10
    )  # twelve digits of the quantile
    less = stats.ttest_1samp([*-returns, 0.0, -4.0], 0.0).confidence_interval(1 - failure_prob)
    assert mean_interval(-returns, failure_prob) == pytest.approx(tuple(less), rel=1e-10)
    assert mean_interval(np.zeros(50), failure_prob) == (-math.inf, math.inf)


def test_bounds_of_a_return():
    values = np.array([1.0, 2.0])
    assert return_bounds(values, 3, may_end=False) == ReturnBounds(3.0, 6.0)
    assert return_bounds(values, 3) == ReturnBounds(0.0, 6.0)
    assert return_bounds(np.array([-1.0, 2.0]), 3) == ReturnBounds(-3.0, 6.0)
    assert return_bounds(-values, 3) == ReturnBounds(-6.0, 0.0)


def test_a_world_that_says_what_it_pays_is_played_with_bounds():
    model = problems.make_model("random", states=3, actions=2, horizon=4, seed=2)
    policy = uniform_policy(model)
    schema_hints = make_env(model)
    result = evaluate(policy, schema_hints, num_episodes=200)
    assert not result.approximate
    assert 0.0 <= result.lower < evaluate(policy, model).value < result.upper <= 4.0
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
    empty = evaluate(policy, Silent(), num_episodes=30)
    assert (empty.value, empty.lower, empty.upper) == (0.0, -math.inf, math.inf)
    assert empty.approximate
    paying = Silent()
    paying.pays = 1.0
    result = evaluate(policy, paying, num_episodes=30)
    assert result.approximate
    assert result.lower < result.value < result.upper
    assert confidence_interval(np.array([1.0, 2.0])).approximate


def test_rewards_of_several_values_bound_a_return():
    base = problems.make_model("random", states=2, actions=2, horizon=3, seed=1)
    fields = {name: getattr(base, name) for name in base.__dataclass_fields__}
    model = RewardMixingMDP(**{**fields, "reward_values": np.array([-1.0, 4.0])})
    assert bounds_of(None, uniform_policy(model), model) == ReturnBounds(-3.0, 12.0)


def test_the_command_line_says_what_an_interval_is_worth():
    from rewardmix.cli.model_commands import _format_interval

    known = confidence_interval(np.array([0.0, 1.0, 1.0]), bounds=UNIT)
    assert _format_interval(known) == f"{known.lower:.6g} .. {known.upper:.6g}"
    assert _format_interval(confidence_interval(np.array([0.0, 1.0, 1.0]))).endswith(
        ", approximate: no bound of the return is known"
    )
    assert _format_interval(confidence_interval(np.zeros(3))).startswith("no interval: all returns are 0")
