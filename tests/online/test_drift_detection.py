"""Models that change: an alarm, and an agent that forgets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.online import baselines

import rewardmix as rm
from online.test_agent import Walker, agent_for, play, same
from rewardmix import problems
from rewardmix.online import drift_detection
from rewardmix.online.online_loop import OnlineModelEnv, OnlineRun

ONE = problems.make_model("random", states=4, actions=3, horizon=5, seed=0)
OTHER = problems.make_model("random", states=4, actions=3, horizon=5, seed=50)


def earned_in(envs, seed=0, **more):
    """An agent after some episodes in one model after the other, and the last of them."""
    total = sum(episodes for _, episodes in envs)
    agent = agent_for(envs[0][0], seed=seed, **more)
    run = OnlineRun(agent, np.empty(total))
    until = 0
    for number, (model, episodes) in enumerate(envs):
        env, until = OnlineModelEnv(model, 10 * seed + number), until + episodes
        run.record_policy_change(env)
        while run.num_episodes_done < until:
            run.play_batch(env)
    return agent, env


CHANGES = {
    "rewards": replace(ONE, rewards=OTHER.rewards),
    "transitions": replace(ONE, transition=OTHER.transition),
    "types": replace(ONE, weights=np.array([0.9, 0.1])),
}


@pytest.mark.statistical
@pytest.mark.parametrize("what", CHANGES)
def test_a_world_that_changes_is_noticed(what):
    agent, _ = earned_in([(ONE, 700), (CHANGES[what], 1400)])
    assert agent.alarms
    assert all(700 < alarm.num_episodes <= 2100 for alarm in agent.alarms)
    assert min(alarm.p_value for alarm in agent.alarms) < 1e-6
    if what == "transitions":
        assert {alarm.kind for alarm in agent.alarms} == {"transitions"}


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["random", "shop", "lock"])
def test_a_world_that_stays_is_not_called_changed(name, monkeypatch):
    """Policies change all the time, and what is visited with them; p-values are what they say or larger."""
    monkeypatch.setattr(drift_detection, "ALARM_LEVEL", 2.0)
    p_values = []
    for seed in range(5):
        model = problems.make_model(name, **({} if name == "shop" else {"seed": 100 + seed}))
        p_values += [alarm.p_value for alarm in rm.learn_online(model, num_episodes=1200, seed=seed).agent.alarms]
    assert len(p_values) >= 15
    assert min(p_values) > 1e-3
    assert np.mean(np.array(p_values) < 0.1) < 0.35


@pytest.mark.statistical
def test_an_agent_that_forgets_learns_the_new_world():
    """What was learnt in 1,700 episodes stands against 700 of a model where everything pays the opposite."""
    opposite = replace(ONE, rewards=1.0 - ONE.rewards)
    short = []
    for window in (None, 400):
        agent, env = earned_in([(ONE, 1700), (opposite, 700)], window=window)
        assert agent.episodes == 2400
        short.append(env.optimal_value - rm.evaluate(agent.policy(), opposite).value)
    assert short[1] < 0.05 < 0.15 < short[0], short


@pytest.mark.system
def test_what_is_remembered_is_half_to_all_of_the_memory():
    agent, env = agent_for(ONE, window=100), Walker(ONE, 1)
    for first in range(0, 600, 20):
        play(agent, env, first, 20)
        remembered = agent.moments().num_episodes
        assert agent.episodes == first + 20
        assert remembered == agent.episodes if first < 80 else 50 <= remembered <= 130, (first, remembered)


def test_recent_episodes_are_those_since_the_last_turn():
    agent, env = agent_for(ONE), Walker(ONE, 1)
    play(agent, env, 0, 100)
    record = agent._record
    record.merge_patterns()
    assert record.window_start_episode >= 64
    assert record.window_patterns.num_episodes == record.episodes - record.window_start_episode
    assert record.patterns.num_episodes == record.episodes == 100
    assert record.transitions_before_window.sum() == record.window_start_episode * ONE.horizon


@pytest.mark.system
@pytest.mark.parametrize("cut", [30, 90, 130, 210])
def test_what_was_stored_goes_on_bit_for_bit_while_it_forgets(tmp_path, monkeypatch, cut):
    monkeypatch.setattr(drift_detection, "ALARM_LEVEL", 2.0)  # so that there are alarms to store
    original, env = agent_for(ONE, seed=5, window=100), Walker(ONE, 5)
    play(original, env, 0, cut)
    rm.save(tmp_path / "agent", original)
    copy = rm.load(tmp_path / "agent")
    assert same(original, copy)
    assert copy.alarms == original.alarms
    for agent in (original, copy):
        play(agent, env, cut, 120)
    assert same(original, copy)
    assert copy.alarms


def test_what_cannot_be_remembered_is_refused():
    with pytest.raises(rm.InputError, match="window: got 10, expected a whole number of at least 64"):
        rm.PosteriorSamplingAgent(num_states=2, num_actions=2, horizon=3, window=10)
    with pytest.raises(rm.InputError, match="window: got 500 for another learner, expected None"):
        rm.learn_online(ONE, num_episodes=20, window=500, agent_factory=baselines.single_type_agent)
