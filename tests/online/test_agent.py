"""An agent fed by events: what counts, what is refused, and that it can be stored at any time."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import rewardmix as rm
from rewardmix import problems
from rewardmix.online import agent_io, thompson_sampling
from rewardmix.planning import plan


class Walker:
    """A world that is played one step at a time, for many visits at once; its draws do not depend on their order."""

    def __init__(self, model, seed):
        self.model, self.seed = model, seed

    def start(self, number):
        rng = np.random.default_rng([self.seed, number])
        type_index = rng.choice(self.model.num_types, p=self.model.weights)
        return [rng, type_index, int(rng.choice(self.model.num_states, p=self.model.initial))]

    def step(self, walk, action):
        rng, type_index, state = walk
        reward_index = rng.choice(self.model.num_values, p=self.model.reward_probs[type_index, state, action])
        walk[2] = int(rng.choice(self.model.num_states, p=self.model.transition[state, action]))
        return float(self.model.reward_values[reward_index]), walk[2]


def agent_for(model, **more):
    return rm.PosteriorSamplingAgent(
        num_states=model.num_states,
        num_actions=model.num_actions,
        horizon=model.horizon,
        reward_values=model.reward_values,
        **more,
    )


def play(agent, env, first, number, *, learn=True):
    """So many whole visits; the rewards of each."""
    episode_returns = []
    for episode in range(first, first + number):
        walk, total = env.start(episode), 0.0
        visit = agent.start_episode(walk[2])
        while visit.action is not None:
            reward, next_state = env.step(walk, visit.action)
            visit.observe(reward, next_state)
            total += reward
        episode_returns.append(total)
        if learn:
            agent.update()
    return episode_returns


def same(item, other):
    """Whether two agents are the same data."""
    left, right = agent_io.pack_agent(item), agent_io.pack_agent(other)
    assert left[1] == right[1]
    assert left[0].keys() == right[0].keys()
    for name in left[0]:
        np.testing.assert_array_equal(left[0][name], right[0][name], err_msg=name)
    return True


@pytest.fixture(scope="module")
def model():
    return problems.make_model("random", states=3, actions=2, horizon=4, seed=2)


@pytest.mark.system
def test_it_earns_nearly_the_best_after_a_while(model):
    agent, env = agent_for(model, seed=1), Walker(model, 1)
    play(agent, env, 0, 600)
    best = plan(model).lower
    assert not agent.is_exploring
    assert np.mean([rm.evaluate(policy, model).value for policy in agent.policies]) > best - 0.15
    assert rm.evaluate(agent.policy(), model).value > best - 0.05
    assert agent.episodes == 600
    assert 10 < agent.num_policy_changes < 300


@pytest.mark.statistical
def test_a_door_behind_a_row_of_right_actions_is_found():
    """Playing at random meets the vault of this lock about once in ten thousand episodes."""
    model = problems.make_model("lock", steps=8, seed=3)
    agent, env = agent_for(model, seed=0), Walker(model, 0)
    play(agent, env, 0, 400)
    assert rm.evaluate(agent.policy(), model).value > 0.7 * plan(model).lower  # outside alone it is a quarter


def test_interleaved_and_abandoned_visits_give_the_posterior_of_the_same_data_in_order(model):
    env, rng = Walker(model, 3), np.random.default_rng(3)
    lengths = rng.integers(0, model.horizon + 1, size=1000)
    mixed, ordered = agent_for(model), agent_for(model)
    open_visits, waiting = [], list(range(1000))
    while waiting or open_visits:
        if waiting and (len(open_visits) < 40 or rng.random() < 0.3):
            number = waiting.pop()
            walk = env.start(number)
            open_visits.append((number, walk, mixed.start_episode(walk[2], id=f"visitor {number}")))
        number, walk, visit = open_visits[rng.integers(len(open_visits))]
        if visit.step < lengths[number]:
            visit.observe(*env.step(walk, visit.action))
        else:
            visit.close()
            open_visits.remove((number, walk, visit))
    for number in rng.permutation(1000):
        walk = env.start(number)
        visit = ordered.start_episode(walk[2], id=f"visitor {number}")
        for _ in range(lengths[number]):
            visit.observe(*env.step(walk, visit.action))
        visit.close()
    assert mixed.episodes == ordered.episodes == (lengths > 0).sum()
    assert mixed.update()
    assert ordered.update()
    assert same(mixed, ordered)


def test_only_steps_that_were_seen_count(model):
    agent = agent_for(model)
    visit = agent.start_episode(0)
    action = visit.action
    visit.observe(1.0, 2)
    visit.close()
    agent.start_episode(1).close()
    agent.update()
    agent._record.merge_patterns()
    moments = agent._record.counts.moments()
    assert agent.episodes == moments.num_episodes == 1
    assert moments.transition_counts.toarray().sum() == 1
    assert moments.transition_counts[0 * 2 + action, 2] == 1
    assert agent._record.patterns.reward_counts.sum() == 1


def test_where_the_world_ends_an_episode_is_learnt():
    """Action 1 pays at once and ends; action 0 pays a little and goes on."""
    agent = rm.PosteriorSamplingAgent(num_states=1, num_actions=2, horizon=5, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(300):
        visit = agent.start_episode(0)
        while visit.action is not None:
            ends = visit.action == 1
            visit.observe(float(rng.random() < (0.9 if ends else 0.6)), None if ends else 0)
        agent.update()
    policy = agent.policy()
    assert [int(policy.actions[t][0, 0]) for t in range(5)] == [0, 0, 0, 0, 1]


@pytest.mark.system
@pytest.mark.parametrize("cut", [0, 1, 7, 60, 61, 150])
def test_what_was_stored_goes_on_bit_for_bit(model, tmp_path, cut):
    complete, env = agent_for(model, seed=5), Walker(model, 5)
    play(complete, env, 0, cut)
    walk = env.start(10_000)
    visit = complete.start_episode(walk[2], id="open")
    visit.observe(*env.step(walk, visit.action))
    rm.save(tmp_path / "agent", complete)
    copy = rm.load(tmp_path / "agent")
    assert same(complete, copy)
    assert copy.get_episode("open").action == visit.action
    assert copy.get_episode("open").propensity == visit.propensity
    for agent in (complete, copy):
        agent.get_episode("open").close()
        play(agent, env, cut, 60)
    assert same(complete, copy)


@pytest.mark.system
def test_an_agent_that_was_killed_goes_on_as_if_nothing_had_happened(model, tmp_path):
    complete, path = agent_for(model, seed=8), tmp_path / "agent"
    play(complete, Walker(model, 8), 0, 45)
    command = [sys.executable, str(Path(__file__).with_name("killed_agent.py")), str(path), "45"]
    for stop in np.sort(np.random.default_rng(8).integers(0, 40, 10)):  # ten times, wherever it is by then
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                if int(line) >= stop:
                    process.kill()
                    break
    assert rm.load(path).episodes < 45
    subprocess.run(command, check=True, capture_output=True)
    assert same(rm.load(path), complete)


def test_learning_in_another_thread_changes_new_visits_only(model):
    agent, env = agent_for(model, seed=1), Walker(model, 1)
    play(agent, env, 0, 100, learn=False)
    before = agent.start_episode(0)
    policies, node = before._decision.policies, before.action
    thread = threading.Thread(target=agent.update)
    thread.start()
    play(agent, env, 100, 50, learn=False)
    thread.join()
    assert agent.num_policy_changes == 1
    assert before.action == node
    assert before._decision.policies is policies
    assert agent.start_episode(0)._decision.policies is agent.policies
    assert agent.episodes == 150


def test_propensity_is_the_share_of_policies_that_do_the_same(model):
    agent, env = agent_for(model, seed=2), Walker(model, 2)
    play(agent, env, 0, 60)
    shares = np.zeros(model.num_actions)
    for _ in range(600):
        visit = agent.start_episode(1)
        prob = visit.propensity
        shares[visit.action] += 1 / 600
        assert prob in (pytest.approx(k / len(agent.policies)) for k in range(1, len(agent.policies) + 1))
        visit.close()
    first = [int(policy.actions[0][1, policy.initial_nodes[1]]) for policy in agent.policies]
    expected = np.bincount(first, minlength=model.num_actions) / len(first)
    assert np.abs(shares - expected).max() < 0.12


BAD = [
    (lambda visit: visit.observe(0.5, 0), "reward: got 0.5, expected one of the reward values [0.0, 1.0]"),
    (lambda visit: visit.observe("much", 0), "reward: got 'much', expected one of the reward values [0.0, 1.0]"),
    (lambda visit: visit.observe([1.0], 0), "reward: got [1.0], expected one of the reward values [0.0, 1.0]"),
    (lambda visit: visit.observe(float("nan"), 0), "reward: got nan, expected one of the reward values [0.0, 1.0]"),
    (lambda visit: visit.observe(10**400, 0), f"reward: got {10**199}"),
    (lambda visit: visit.observe(10**5000, 0), "reward: got int with thousands of digits, expected one of the reward"),
    (lambda visit: visit.observe(1.0, 10**5000), "next_state: got int with thousands of digits, expected a state from"),
    (
        lambda visit: visit._agent.get_episode(10**5000),
        "id: got int with thousands of digits, expected the id of an open episode",
    ),
    (lambda visit: visit.observe(1.0, 3), "next_state: got 3, expected a state from 0 to 2"),
    (lambda visit: visit.observe(1.0, -1), "next_state: got -1, expected a state from 0 to 2"),
    (lambda visit: visit.observe(1.0, 1.5), "next_state: got 1.5, expected a state from 0 to 2"),
    (lambda visit: visit._agent.start_episode(7), "state: got 7, expected a state from 0 to 2"),
    (lambda visit: visit._agent.start_episode(0, id="me"), "id: got 'me', expected an id that no open episode has"),
    (lambda visit: visit._agent.start_episode(0, id=(1,)), "id: got (1,) (tuple), expected a string or a whole number"),
    (lambda visit: visit._agent.get_episode("you"), "id: got 'you', expected the id of an open episode"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_events_are_refused_by_name_and_nothing_is_lost(model, number):
    event, text = BAD[number]
    agent, untouched = agent_for(model), agent_for(model)
    for item in (agent, untouched):
        item.start_episode(0, id="me").observe(1.0, 2)
    with pytest.raises(rm.InputError) as caught:
        event(agent.get_episode("me"))
    assert text in str(caught.value)
    assert same(agent, untouched)
    agent.get_episode("me").observe(0.0, 1)


def test_nothing_is_observed_after_the_end(model):
    agent = agent_for(model)
    visit = agent.start_episode(0, id=5)
    visit.close()
    visit.close()
    assert visit.action is None
    assert visit.propensity is None
    with pytest.raises(rm.InputError, match=r"episode: got 5, closed after 0 steps, expected an open episode"):
        visit.observe(1.0, 0)
    assert agent.start_episode(0, id=5).action is not None


def test_an_end_needs_a_reward_of_zero():
    agent = rm.PosteriorSamplingAgent(num_states=2, num_actions=2, horizon=3, reward_values=(1, 2))
    with pytest.raises(
        rm.InputError, match="next_state: got None, expected a state; an episode can end early only if 0"
    ):
        agent.start_episode(0).observe(1, None)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"num_states": 0}, "num_states: got 0"),
        ({"horizon": 2.5}, "horizon: got 2.5"),
        ({"reward_values": (1, 0)}, r"reward_values\[1\]: got 0.0, expected more than 1"),
        ({"weights": (0.5, 0.6)}, "weights: got sum 1.1"),
        ({"weights": "even"}, "weights: got 'even', expected \"uniform\""),
        ({"weights": (1.0, 0.0)}, r"weights\[1\]: got 0.0, expected a positive weight"),
        ({"seed": -1}, "seed: got -1"),
        ({"num_states": 10**6}, "num_states: got a need of about"),
    ],
)
def test_an_agent_that_cannot_be_is_refused(change, text):
    with pytest.raises(rm.InputError, match=text):
        rm.PosteriorSamplingAgent(**{"num_states": 2, "num_actions": 2, "horizon": 3, **change})


def test_the_search_goes_where_little_was_tried_and_stops_there():
    model = problems.make_model("lock", steps=3, seed=1)
    agent, env = agent_for(model), Walker(model, 1)
    play(agent, env, 0, 200)
    policy, uncertainty = thompson_sampling.plan_novelty_policy(agent._record)
    assert uncertainty <= thompson_sampling.NOVELTY_THRESHOLD
    assert policy.horizon == model.horizon
    tries = agent._record.counts.visits.reshape(model.num_states, -1)
    assert (tries[:3] >= thompson_sampling.MIN_TRIES).all()  # the dials; every action there was tried


def test_a_third_of_the_visits_play_the_most_likely_world(model):
    agent = agent_for(model, seed=4)
    play(agent, Walker(model, 4), 0, 300)
    likely, *drawn = agent.policies
    shares = len(agent.policies) // 3
    assert all(policy is likely for policy in drawn[: shares - 1])
    assert len({id(policy) for policy in agent.policies}) == 1 + 2 * shares
    seen, chains = agent._record, agent._decision.chains
    env = thompson_sampling.most_likely_model(seen, seen.reward_data().patterns, chains)
    best = plan(env).lower
    values = [rm.evaluate(policy, env).value for policy in agent.policies]
    assert values[0] > best - 0.02
    assert values[0] >= max(values) - 0.02


def test_whole_episodes_can_be_added(model):
    episodes = rm.simulate(rm.uniform_policy(model), model, 200, seed=4)
    agent = agent_for(model)
    agent.add(episodes)
    assert agent.episodes == 200
    assert agent._record.counts.moments() == rm.Moments.from_episodes(episodes)
    assert agent.update()
    with pytest.raises(rm.InputError, match="episodes: got"):
        rm.PosteriorSamplingAgent(num_states=4, num_actions=2, horizon=4).add(episodes)
