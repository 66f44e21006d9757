"""The number of contexts, found out while earning."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.online import baselines

import rewardmix as rm
from online.test_agent import Walker, agent_for, play, same
from online.test_posterior import drawn_episodes, evidence_of
from rewardmix import problems
from rewardmix.online import prequential

LAWS = {
    2: np.array([[0.9, 0.9, 0.1, 0.1], [0.1, 0.1, 0.9, 0.9]]),
    3: np.array([[0.9, 0.9, 0.1, 0.1], [0.1, 0.1, 0.9, 0.9], [0.1, 0.9, 0.1, 0.9]]),
    4: np.array([[0.9, 0.9, 0.1, 0.1], [0.1, 0.1, 0.9, 0.9], [0.1, 0.9, 0.1, 0.9], [0.9, 0.1, 0.9, 0.1]]),
}


def bags_of(contexts, episodes, seed):
    """Episodes that meet all four state-actions twice."""
    chances = LAWS[contexts]
    laws = np.stack([1 - chances, chances], axis=-1)
    weights = np.full(contexts, 1.0 / contexts)
    drawn = drawn_episodes(weights, laws, [[0, 1, 2, 3] * 2] * episodes, np.random.default_rng(seed))
    return evidence_of(drawn, 4, 2).bags


@pytest.mark.parametrize("contexts", LAWS)
def test_the_number_is_that_of_the_types_or_one_more(contexts):
    found = []
    for seed in range(12):
        forecasts = prequential.new_forecasts(bags_of(contexts, 300, seed), contexts + 1, (), seed)
        assert [mixture.num_contexts for mixture in forecasts] == list(range(2, contexts + 3))
        found.append(prequential.best_number(bags_of(contexts, 300, 100 + seed), forecasts))
    assert min(found) == contexts  # never one too few
    assert sum(number > contexts + 1 for number in found) <= 1  # two too many about once in a hundred
    assert found.count(contexts) >= 6


def test_one_more_is_taken_where_it_is_open():
    """A copy of a context with a hair's difference predicts as well: open once, and then no further."""
    laws = np.stack([1 - LAWS[2], LAWS[2]], axis=-1)
    recent = bags_of(2, 200, 1)

    def split(times, shift):
        moved = laws[1] + np.array([-shift, shift])
        return prequential.Mixture(np.r_[0.5, np.full(times, 0.5 / times)], np.stack([laws[0], *[moved] * times]))

    hair, worse = 1e-6, 0.3
    assert prequential.best_number(recent, (split(1, 0), split(2, hair), split(3, hair))) == 3
    assert prequential.best_number(recent, (split(1, 0), split(2, -worse), split(3, hair))) == 2


def test_fits_go_on_from_where_they_were():
    bags = bags_of(3, 200, 0)
    first = prequential.new_forecasts(bags, 3, (), 0)
    again = prequential.new_forecasts(bags, 3, first, 1)
    for one, other in zip(first, again, strict=True):
        assert (
            prequential.likelihood.e_step(bags, other).loglik >= prequential.likelihood.e_step(bags, one).loglik - 0.01
        )


def test_an_agent_finds_three_types_and_earns_by_them():
    model = problems.make("random", states=2, actions=3, horizon=6, contexts=3, seed=5)
    earned = rm.earn(model, episodes=1500, num_contexts="auto", seed=1)
    assert earned.agent.num_contexts in (3, 4)
    assert earned.shares.shape[1] >= 3
    assert earned.shares[0].tolist()[2:] == [0.0] * (earned.shares.shape[1] - 2)  # it began with two
    blind = rm.earn(model, episodes=1500, seed=1, method=baselines.blind)
    assert earned.regret[-1] < blind.regret[-1]


@pytest.mark.parametrize("cut", [20, 70, 140])
def test_what_was_stored_goes_on_bit_for_bit_with_the_number_unknown(tmp_path, cut):
    model = problems.make("random", states=2, actions=3, horizon=6, contexts=3, seed=5)
    whole, world = agent_for(model, seed=5, num_contexts="auto"), Walker(model, 5)
    play(whole, world, 0, cut)
    rm.save(tmp_path / "agent", whole)
    copy = rm.load(tmp_path / "agent")
    assert same(whole, copy)
    for agent in (whole, copy):
        play(agent, world, cut, 150)
    assert same(whole, copy)
    assert copy.settings.num_contexts == "auto"


def test_what_cannot_be_is_refused():
    sizes = {"num_states": 2, "num_actions": 2, "horizon": 3}
    with pytest.raises(rm.InputError, match="weights: found known weights with num_contexts='auto'"):
        rm.Agent(**sizes, num_contexts="auto", weights=(0.5, 0.5))
    with pytest.raises(rm.InputError, match="num_contexts: found 'many'"):
        rm.Agent(**sizes, num_contexts="many")
    with pytest.raises(rm.InputError, match="num_contexts: found 'auto', expected a number"):
        rm.earn("shop", episodes=200, num_contexts="auto", method=baselines.CertaintyEquivalence)
