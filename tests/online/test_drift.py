"""Worlds that change: an alarm, and an agent that forgets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.online import baselines

import rewardmix as rm
from online.test_agent import Walker, agent_for, play, same
from rewardmix import problems
from rewardmix.online import drift
from rewardmix.online.earning import EarningRun, ModelWorld

ONE = problems.make("random", states=4, actions=3, horizon=5, seed=0)
OTHER = problems.make("random", states=4, actions=3, horizon=5, seed=50)


def earned_in(worlds, seed=0, **more):
    """An agent after some episodes in one model after the other, and the last of them."""
    total = sum(episodes for _, episodes in worlds)
    agent = agent_for(worlds[0][0], seed=seed, **more)
    run = EarningRun(agent, np.empty(total))
    until = 0
    for number, (model, episodes) in enumerate(worlds):
        world, until = ModelWorld(model, 10 * seed + number), until + episodes
        run.switched(world)
        while run.done < until:
            run.play(world)
    return agent, world


CHANGES = {
    "rewards": replace(ONE, rewards=OTHER.rewards),
    "moves": replace(ONE, transition=OTHER.transition),
    "types": replace(ONE, weights=np.array([0.9, 0.1])),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_world_that_changes_is_noticed(what):
    agent, _ = earned_in([(ONE, 700), (CHANGES[what], 1400)])
    assert agent.alarms
    assert all(700 < alarm.episodes <= 2100 for alarm in agent.alarms)
    assert min(alarm.p_value for alarm in agent.alarms) < 1e-6
    if what == "moves":
        assert {alarm.what for alarm in agent.alarms} == {"moves"}


@pytest.mark.parametrize("name", ["random", "shop", "lock"])
def test_a_world_that_stays_is_not_called_changed(name, monkeypatch):
    """Policies change all the time, and what is visited with them; p-values are what they say or larger."""
    monkeypatch.setattr(drift, "ALARM", 2.0)
    found = []
    for seed in range(5):
        model = problems.make(name, **({} if name == "shop" else {"seed": 100 + seed}))
        found += [alarm.p_value for alarm in rm.earn(model, episodes=1200, seed=seed).agent.alarms]
    assert len(found) >= 15
    assert min(found) > 1e-3
    assert np.mean(np.array(found) < 0.1) < 0.35


def test_an_agent_that_forgets_learns_the_new_world():
    """What was learnt in 1,700 episodes stands against 700 of a world where everything pays the opposite."""
    opposite = replace(ONE, rewards=1.0 - ONE.rewards)
    short = []
    for memory in (None, 400):
        agent, world = earned_in([(ONE, 1700), (opposite, 700)], memory=memory)
        assert agent.episodes == 2400
        short.append(world.best - rm.evaluate(agent.policy(), opposite).value)
    assert short[1] < 0.05 < 0.15 < short[0], short


def test_what_is_remembered_is_half_to_all_of_the_memory():
    agent, world = agent_for(ONE, memory=100), Walker(ONE, 1)
    for first in range(0, 600, 20):
        play(agent, world, first, 20)
        remembered = agent.moments().episodes
        assert agent.episodes == first + 20
        assert remembered == agent.episodes if first < 80 else 50 <= remembered <= 130, (first, remembered)


def test_recent_episodes_are_those_since_the_last_turn():
    agent, world = agent_for(ONE), Walker(ONE, 1)
    play(agent, world, 0, 100)
    record = agent._record
    record.merge()
    assert record.turned >= 64
    assert record.recent.total == record.episodes - record.turned
    assert record.bags.total == record.episodes == 100
    assert record.moves_before.sum() == record.turned * ONE.horizon


@pytest.mark.parametrize("cut", [30, 90, 130, 210])
def test_what_was_stored_goes_on_bit_for_bit_while_it_forgets(tmp_path, monkeypatch, cut):
    monkeypatch.setattr(drift, "ALARM", 2.0)  # so that there are alarms to store
    whole, world = agent_for(ONE, seed=5, memory=100), Walker(ONE, 5)
    play(whole, world, 0, cut)
    rm.save(tmp_path / "agent", whole)
    copy = rm.load(tmp_path / "agent")
    assert same(whole, copy)
    assert copy.alarms == whole.alarms
    for agent in (whole, copy):
        play(agent, world, cut, 120)
    assert same(whole, copy)
    assert copy.alarms


def test_what_cannot_be_remembered_is_refused():
    with pytest.raises(rm.InputError, match="memory: found 10, expected a whole number of at least 64"):
        rm.Agent(num_states=2, num_actions=2, horizon=3, memory=10)
    with pytest.raises(rm.InputError, match="memory: found 500 for another method, expected none"):
        rm.earn(ONE, episodes=20, memory=500, method=baselines.blind)
