"""The number of types, found out while earning."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.online import baselines

import rewardmix as rm
from online.test_agent import Walker, agent_for, play, same
from online.test_mcmc import drawn_episodes, evidence_of
from rewardmix import problems
from rewardmix.online import prequential

LAWS = {
    2: np.array([[0.9, 0.9, 0.1, 0.1], [0.1, 0.1, 0.9, 0.9]]),
    3: np.array([[0.9, 0.9, 0.1, 0.1], [0.1, 0.1, 0.9, 0.9], [0.1, 0.9, 0.1, 0.9]]),
    4: np.array([[0.9, 0.9, 0.1, 0.1], [0.1, 0.1, 0.9, 0.9], [0.1, 0.9, 0.1, 0.9], [0.9, 0.1, 0.9, 0.1]]),
}


def bags_of(num_types, episodes, seed):
    """Episodes that meet all four state-actions twice."""
    probs = LAWS[num_types]
    reward_probs = np.stack([1 - probs, probs], axis=-1)
    weights = np.full(num_types, 1.0 / num_types)
    drawn_bags = drawn_episodes(weights, reward_probs, [[0, 1, 2, 3] * 2] * episodes, np.random.default_rng(seed))
    return evidence_of(drawn_bags, 4, 2).patterns


@pytest.mark.statistical
@pytest.mark.parametrize("num_types", LAWS)
def test_the_number_is_that_of_the_types_or_one_more(num_types):
    numbers = []
    for seed in range(12):
        forecasts = prequential.fit_forecasts(bags_of(num_types, 300, seed), num_types + 1, (), seed)
        assert [mixture.num_types for mixture in forecasts] == list(range(2, num_types + 3))
        numbers.append(prequential.select_num_types_prequential(bags_of(num_types, 300, 100 + seed), forecasts))
    assert min(numbers) == num_types  # never one too few
    assert sum(number > num_types + 1 for number in numbers) <= 1  # two too many about once in a hundred
    assert numbers.count(num_types) >= 6


def test_one_more_is_taken_where_it_is_open():
    """A copy of a type with a hair's difference predicts as well: open once, and then no further."""
    probs = np.stack([1 - LAWS[2], LAWS[2]], axis=-1)
    recent = bags_of(2, 200, 1)

    def split(times, shift):
        moved = probs[1] + np.array([-shift, shift])
        return prequential.Mixture(np.r_[0.5, np.full(times, 0.5 / times)], np.stack([probs[0], *[moved] * times]))

    hair, worse = 1e-6, 0.3
    assert prequential.select_num_types_prequential(recent, (split(1, 0), split(2, hair), split(3, hair))) == 3
    assert prequential.select_num_types_prequential(recent, (split(1, 0), split(2, -worse), split(3, hair))) == 2


def test_fits_go_on_from_where_they_were():
    patterns = bags_of(3, 200, 0)
    first = prequential.fit_forecasts(patterns, 3, (), 0)
    again = prequential.fit_forecasts(patterns, 3, first, 1)
    for earlier, later in zip(first, again, strict=True):
        assert (
            prequential.likelihood.e_step(patterns, later).loglik
            >= prequential.likelihood.e_step(patterns, earlier).loglik - 0.01
        )


@pytest.mark.statistical
def test_an_agent_finds_three_types_and_earns_by_them():
    model = problems.make_model("random", states=2, actions=3, horizon=6, num_types=3, seed=5)
    result = rm.learn_online(model, num_episodes=1500, num_types="auto", seed=1)
    assert result.agent.num_types in (3, 4)
    assert result.type_weights.shape[1] >= 3
    assert result.type_weights[0].tolist()[2:] == [0.0] * (result.type_weights.shape[1] - 2)  # it began with two
    nonadaptive = rm.learn_online(model, num_episodes=1500, seed=1, agent_factory=baselines.single_type_agent)
    assert result.cumulative_regret[-1] < nonadaptive.cumulative_regret[-1]


@pytest.mark.system
@pytest.mark.parametrize("cut", [20, 70, 140])
def test_what_was_stored_goes_on_bit_for_bit_with_the_number_unknown(tmp_path, cut):
    model = problems.make_model("random", states=2, actions=3, horizon=6, num_types=3, seed=5)
    agent, env = agent_for(model, seed=5, num_types="auto"), Walker(model, 5)
    play(agent, env, 0, cut)
    rm.save(tmp_path / "agent", agent)
    copy = rm.load(tmp_path / "agent")
    assert same(agent, copy)
    for each in (agent, copy):
        play(each, env, cut, 150)
    assert same(agent, copy)
    assert copy.settings.num_types == "auto"


def test_what_cannot_be_is_refused():
    sizes = {"num_states": 2, "num_actions": 2, "horizon": 3}
    with pytest.raises(rm.InputError, match="weights: got weights with num_types='auto'"):
        rm.PosteriorSamplingAgent(**sizes, num_types="auto", weights=(0.5, 0.5))
    with pytest.raises(rm.InputError, match="num_types: got 'many'"):
        rm.PosteriorSamplingAgent(**sizes, num_types="many")
    with pytest.raises(rm.InputError, match="num_types: got 'auto', expected a number"):
        rm.learn_online("shop", num_episodes=200, num_types="auto", agent_factory=baselines.CertaintyEquivalence)
