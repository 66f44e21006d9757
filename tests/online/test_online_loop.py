"""``earn`` and the rivals of the agent, all by the same verb."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.online import baselines

import rewardmix as rm
from oracles.brute_force import policy_value
from rewardmix import problems
from rewardmix.exploration import checkpoints
from rewardmix.exploration.exploration_kernels import look_up_choice
from rewardmix.online.agent_io import pack_agent
from rewardmix.planning import plan, plan_markov

METHODS = {
    "agent": rm.PosteriorSamplingAgent,
    "single type": baselines.single_type_agent,
    "certainty equivalence": baselines.CertaintyEquivalence,
    "epsilon greedy": baselines.epsilon_greedy(10),
    "explore, then commit": baselines.explore_then_commit(100),
}


@pytest.fixture(scope="module")
def model():
    return problems.make_model("random", states=3, actions=2, horizon=3, seed=2)


@pytest.mark.system
@pytest.mark.parametrize("name", METHODS)
def test_every_method_earns_by_the_same_verb(model, name):
    result = rm.learn_online(model, num_episodes=400, seed=3, agent_factory=METHODS[name])
    again = rm.learn_online(model, num_episodes=400, seed=3, agent_factory=METHODS[name])
    best = plan(model, gap=1e-6).lower
    assert result.optimal_value == pytest.approx(best, abs=2e-5)
    assert result.episode_returns.shape == result.cumulative_regret.shape == (400,)
    assert result.num_policy_changes == result.policy_start_episodes.size - 1 == result.policy_values.size - 1
    lengths = np.diff(np.append(result.policy_start_episodes, 400))
    assert result.cumulative_regret[-1] == pytest.approx(
        float((lengths * (result.optimal_value - result.policy_values)).sum())
    )
    assert (np.diff(result.cumulative_regret) >= -1e-9).all()
    error = result.episode_returns.std() * np.sqrt(400)
    assert abs(result.total_reward - (400 * result.optimal_value - result.cumulative_regret[-1])) < 5 * error
    assert rm.evaluate(result.policy, model).value > rm.evaluate(rm.uniform_policy(model), model).value
    np.testing.assert_array_equal(result.episode_returns, again.episode_returns)
    np.testing.assert_array_equal(result.policy_values, again.policy_values)
    assert not np.array_equal(
        result.episode_returns,
        rm.learn_online(model, num_episodes=400, seed=4, agent_factory=METHODS[name]).episode_returns,
    )


@pytest.mark.statistical
def test_the_agent_costs_less_than_its_rivals_where_types_matter():
    shop = problems.make_model("shop")
    costs = {
        name: rm.learn_online(shop, num_episodes=1500, seed=1, agent_factory=METHODS[name]).cumulative_regret[-1]
        for name in METHODS
    }
    assert costs.pop("agent") < min(costs.values()), costs


def test_the_blind_one_plays_as_if_there_were_one_kind(model):
    result = rm.learn_online(model, num_episodes=2000, seed=0, agent_factory=baselines.single_type_agent)
    assert result.policy_values[-1] == pytest.approx(plan_markov(model).value, abs=0.02)
    assert result.agent.num_types == 1


def test_committing_ends_learning(model):
    result = rm.learn_online(model, num_episodes=300, seed=0, agent_factory=baselines.explore_then_commit(100))
    assert result.policy_start_episodes[-1] >= 100
    assert result.agent.final_policy is result.policy
    assert result.policy_start_episodes[-1] < 120


def test_one_episode_in_so_many_is_played_at_random_and_the_world_is_recovered_again(model):
    result = rm.learn_online(model, num_episodes=1000, seed=0, agent_factory=baselines.epsilon_greedy(10, explored=50))
    learner = result.agent
    assert len(learner.policies) == 10
    assert len({id(policy) for policy in learner.policies[:9]}) == 1
    assert (learner.policies[9].table == 0.5).all()
    fits = result.policy_start_episodes[result.policy_start_episodes >= 50]
    assert (np.diff(fits) >= 0.5 * fits[:-1]).all()
    assert len(fits) >= 6
    recovered = rm.recover(learner.episodes[: learner.recovered], num_types=2, seed=0)
    value = rm.evaluate(rm.planning.plan(recovered.model).policy, model).value
    assert rm.evaluate(learner.policies[0], model).value == pytest.approx(value, abs=0.01)


def test_pair_exploration_as_a_controller_earns_what_its_plan_plays(model):
    learner = baselines.ExploreThenCommit(num_states=3, num_actions=2, horizon=3)
    for seed in range(5):
        learner.add(rm.simulate(learner.policies[0], model, 3, seed=seed))
        learner.update()
    policy = learner.policies[0]
    assert rm.evaluate(policy, model).value == pytest.approx(policy_value(policy, model))
    choices = learner.plan.choices
    for start in range(3):  # walk the plan and the controller side by side, through the likeliest states
        picked, first, state, memory = 0, -1, start, policy.start(start)
        for t in range(3):
            code = look_up_choice(choices, picked, first, t, state)
            assert policy.act(memory, np.random.default_rng(0)) == code >> 1
            if code & 1 == 0:
                first = state * 2 + (code >> 1) if picked == 0 else first
                picked = min(picked + 1, 2)
            next_state = int(model.transition[state, code >> 1].argmax())
            memory, state = policy.observe(memory, code >> 1, 1.0, next_state), next_state


@pytest.mark.system
def test_an_environment_is_played_through_reset_and_step():
    env = rm.make_env("probe")
    result = rm.learn_online(env, num_episodes=150, seed=2)
    assert result.cumulative_regret is None
    assert result.policy_values is None
    assert result.optimal_value is None
    assert result.agent.episodes == 150
    assert result.episode_returns.shape == (150,)
    again = rm.learn_online(rm.make_env("probe"), num_episodes=150, seed=2)
    np.testing.assert_array_equal(result.episode_returns, again.episode_returns)


def test_an_environment_that_ends_early_is_learnt():
    import gymnasium

    class Doors(gymnasium.Env):
        """Action 1 pays most and ends; action 0 pays less and goes on."""

        observation_space, action_space = gymnasium.spaces.Discrete(1), gymnasium.spaces.Discrete(2)
        horizon = 4

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {}

        def step(self, action):
            return 0, float(self.np_random.random() < (0.9 if action else 0.6)), bool(action), False, {}

    result = rm.learn_online(Doors(), num_episodes=300, seed=0)
    assert (
        rm.simulate(result.policy, Doors(), 500, seed=1).returns.mean() > 2.55
    )  # 2.7 is the best, 2.1 a step too early


@pytest.mark.statistical
@pytest.mark.parametrize("response", [3, 4])
def test_three_kinds_are_earned_from_and_one_too_many_does_no_harm(response):
    model = problems.make_model("random", states=2, actions=3, horizon=4, num_types=3, seed=5)
    result = rm.learn_online(model, num_episodes=400, num_types=response, seed=1)
    nonadaptive = rm.learn_online(model, num_episodes=400, seed=1, agent_factory=baselines.single_type_agent)
    assert result.agent.num_types == response
    assert result.cumulative_regret[-1] < nonadaptive.cumulative_regret[-1]


def test_progress_is_told_and_bad_requests_are_refused(model):
    response = []
    rm.learn_online(model, num_episodes=30, callback=response.append)
    assert response[-1] == 30
    assert response == sorted(response)
    with pytest.raises(rm.InputError, match="num_episodes: got 0"):
        rm.learn_online(model, num_episodes=0)
    with pytest.raises(rm.InputError, match="horizon: got a value for a model, expected None"):
        rm.learn_online(model, num_episodes=5, horizon=3)
    with pytest.raises(rm.InputError, match=r"env_or_model: got 5 \(int\)"):
        rm.learn_online(5)


class Stopped(Exception):
    pass


@pytest.mark.system
@pytest.mark.parametrize("env", ["model", "environment"])
def test_a_run_that_was_stopped_goes_on_bit_for_bit(model, tmp_path, monkeypatch, env):
    monkeypatch.setattr(checkpoints, "MIN_SECONDS_BETWEEN", 0.0)

    def place():
        return model if env == "model" else rm.make_env("probe")

    def stop_at(limit):
        def stop(done):
            if done >= limit:
                raise Stopped

        return stop

    complete = rm.learn_online(place(), num_episodes=300, seed=7)
    folder = tmp_path / "run"
    for limit in (1, 40, 41, 170):
        with pytest.raises(Stopped):
            rm.learn_online(place(), num_episodes=300, seed=7, checkpoint_dir=folder, callback=stop_at(limit))
    response = []
    resumed = rm.learn_online(place(), num_episodes=300, seed=7, checkpoint_dir=folder, callback=response.append)
    assert response[0] > 160  # it did not begin again
    np.testing.assert_array_equal(resumed.episode_returns, complete.episode_returns)
    np.testing.assert_array_equal(resumed.policy_start_episodes, complete.policy_start_episodes)
    np.testing.assert_array_equal(resumed.type_weights, complete.type_weights)
    if env == "model":
        np.testing.assert_array_equal(resumed.cumulative_regret, complete.cumulative_regret)
    item, other = pack_agent(resumed.agent), pack_agent(complete.agent)
    assert item[1] == other[1]
    for name, array in item[0].items():
        np.testing.assert_array_equal(array, other[0][name], err_msg=name)


def test_a_checkpoint_of_another_run_or_a_broken_one_is_refused(model, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "MIN_SECONDS_BETWEEN", 0.0)
    rm.learn_online(model, num_episodes=30, checkpoint_dir=tmp_path)
    for change in ({"seed": 1}, {"num_episodes": 31}, {"num_types": 3}, {"weights": [0.5, 0.5]}):
        with pytest.raises(rm.InputError, match=f"checkpoint: got a run with {next(iter(change))} = "):
            rm.learn_online(model, **{"num_episodes": 30, **change}, checkpoint_dir=tmp_path)
    other = problems.make_model("random", states=3, actions=2, horizon=3, seed=3)
    with pytest.raises(rm.InputError, match="checkpoint: got a run with spec_digest = "):
        rm.learn_online(other, num_episodes=30, checkpoint_dir=tmp_path)
    with pytest.raises(rm.InputError, match="checkpoint_dir: got a folder for a ExploreThenCommit"):
        rm.learn_online(
            model, num_episodes=30, checkpoint_dir=tmp_path, agent_factory=baselines.explore_then_commit(10)
        )
    path = tmp_path / "online.safetensors"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(rm.InputError, match="checkpoint: cannot resume from"):
        rm.learn_online(model, num_episodes=30, checkpoint_dir=tmp_path)
