"""``earn`` and the rivals of the agent, all by the same verb."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.online import baselines

import rewardmix as rm
from oracles import policy_value
from rewardmix import problems
from rewardmix.exploration import checkpoints
from rewardmix.exploration.exploration_kernels import choice
from rewardmix.online.agent_state import packed_agent
from rewardmix.planning import plan, plan_markov

METHODS = {
    "agent": rm.Agent,
    "blind": baselines.blind,
    "certainty equivalence": baselines.CertaintyEquivalence,
    "epsilon greedy": baselines.epsilon_greedy(10),
    "explore, then commit": baselines.explore_then_commit(100),
}


@pytest.fixture(scope="module")
def model():
    return problems.make("random", states=3, actions=2, horizon=3, seed=2)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_earns_by_the_same_verb(model, name):
    earned = rm.earn(model, episodes=400, seed=3, method=METHODS[name])
    again = rm.earn(model, episodes=400, seed=3, method=METHODS[name])
    best = plan(model, gap=1e-6).lower
    assert earned.best == pytest.approx(best, abs=2e-5)
    assert earned.curve.shape == earned.regret.shape == (400,)
    assert earned.switches == earned.began.size - 1 == earned.values.size - 1
    lengths = np.diff(np.append(earned.began, 400))
    assert earned.regret[-1] == pytest.approx(float((lengths * (earned.best - earned.values)).sum()))
    assert (np.diff(earned.regret) >= -1e-9).all()
    error = earned.curve.std() * np.sqrt(400)
    assert abs(earned.total - (400 * earned.best - earned.regret[-1])) < 5 * error
    assert rm.evaluate(earned.policy, model).value > rm.evaluate(rm.uniform(model), model).value
    np.testing.assert_array_equal(earned.curve, again.curve)
    np.testing.assert_array_equal(earned.values, again.values)
    assert not np.array_equal(earned.curve, rm.earn(model, episodes=400, seed=4, method=METHODS[name]).curve)


def test_the_agent_costs_less_than_its_rivals_where_types_matter():
    shop = problems.make("shop")
    costs = {name: rm.earn(shop, episodes=1500, seed=1, method=METHODS[name]).regret[-1] for name in METHODS}
    assert costs.pop("agent") < min(costs.values()), costs


def test_the_blind_one_plays_as_if_there_were_one_kind(model):
    earned = rm.earn(model, episodes=2000, seed=0, method=baselines.blind)
    assert earned.values[-1] == pytest.approx(plan_markov(model).value, abs=0.02)
    assert earned.agent.num_contexts == 1


def test_committing_ends_learning(model):
    earned = rm.earn(model, episodes=300, seed=0, method=baselines.explore_then_commit(100))
    assert earned.began[-1] >= 100
    assert earned.agent.committed is earned.policy
    assert earned.began[-1] < 120


def test_one_episode_in_so_many_is_played_at_random_and_the_world_is_recovered_again(model):
    earned = rm.earn(model, episodes=1000, seed=0, method=baselines.epsilon_greedy(10, explored=50))
    learner = earned.agent
    assert len(learner.policies) == 10
    assert len({id(policy) for policy in learner.policies[:9]}) == 1
    assert (learner.policies[9].table == 0.5).all()
    fits = earned.began[earned.began >= 50]
    assert (np.diff(fits) >= 0.5 * fits[:-1]).all()
    assert len(fits) >= 6
    recovered = rm.recover(learner.kept[: learner.recovered], num_contexts=2, seed=0)
    value = rm.evaluate(rm.planning.plan(recovered.model).policy, model).value
    assert rm.evaluate(learner.policies[0], model).value == pytest.approx(value, abs=0.01)


def test_pair_exploration_as_a_controller_earns_what_its_plan_plays(model):
    learner = baselines.ExploreThenCommit(num_states=3, num_actions=2, horizon=3)
    for seed in range(5):
        learner.add(rm.simulate(learner.policies[0], model, 3, seed=seed))
        learner.learn()
    policy = learner.policies[0]
    assert rm.evaluate(policy, model).value == pytest.approx(policy_value(policy, model))
    choices = learner.plan.choices
    for start in range(3):  # walk the plan and the controller side by side, through the likeliest states
        picked, first, state, memory = 0, -1, start, policy.start(start)
        for t in range(3):
            code = choice(choices, picked, first, t, state)
            assert policy.act(memory, np.random.default_rng(0)) == code >> 1
            if code & 1 == 0:
                first = state * 2 + (code >> 1) if picked == 0 else first
                picked = min(picked + 1, 2)
            following = int(model.transition[state, code >> 1].argmax())
            memory, state = policy.observe(memory, code >> 1, 1.0, following), following


def test_an_environment_is_played_through_reset_and_step():
    env = rm.make_env("probe")
    earned = rm.earn(env, episodes=150, seed=2)
    assert earned.regret is None
    assert earned.values is None
    assert earned.best is None
    assert earned.agent.episodes == 150
    assert earned.curve.shape == (150,)
    again = rm.earn(rm.make_env("probe"), episodes=150, seed=2)
    np.testing.assert_array_equal(earned.curve, again.curve)


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

    earned = rm.earn(Doors(), episodes=300, seed=0)
    assert (
        rm.simulate(earned.policy, Doors(), 500, seed=1).returns.mean() > 2.55
    )  # 2.7 is the best, 2.1 a step too early


@pytest.mark.parametrize("told", [3, 4])
def test_three_kinds_are_earned_from_and_one_too_many_does_no_harm(told):
    model = problems.make("random", states=2, actions=3, horizon=4, contexts=3, seed=5)
    earned = rm.earn(model, episodes=400, num_contexts=told, seed=1)
    blind = rm.earn(model, episodes=400, seed=1, method=baselines.blind)
    assert earned.agent.num_contexts == told
    assert earned.regret[-1] < blind.regret[-1]


def test_progress_is_told_and_bad_requests_are_refused(model):
    told = []
    rm.earn(model, episodes=30, on_update=told.append)
    assert told[-1] == 30
    assert told == sorted(told)
    with pytest.raises(rm.InputError, match="episodes: found 0"):
        rm.earn(model, episodes=0)
    with pytest.raises(rm.InputError, match="horizon: found one for a model, expected none"):
        rm.earn(model, episodes=5, horizon=3)
    with pytest.raises(rm.InputError, match=r"env_or_model: found 5 \(int\)"):
        rm.earn(5)


class Stopped(Exception):
    pass


@pytest.mark.parametrize("world", ["model", "environment"])
def test_a_run_that_was_stopped_goes_on_bit_for_bit(model, tmp_path, monkeypatch, world):
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)

    def place():
        return model if world == "model" else rm.make_env("probe")

    def stop_at(limit):
        def stop(done):
            if done >= limit:
                raise Stopped

        return stop

    whole = rm.earn(place(), episodes=300, seed=7)
    folder = tmp_path / "run"
    for limit in (1, 40, 41, 170):
        with pytest.raises(Stopped):
            rm.earn(place(), episodes=300, seed=7, checkpoint=folder, on_update=stop_at(limit))
    told = []
    resumed = rm.earn(place(), episodes=300, seed=7, checkpoint=folder, on_update=told.append)
    assert told[0] > 160  # it did not begin again
    np.testing.assert_array_equal(resumed.curve, whole.curve)
    np.testing.assert_array_equal(resumed.began, whole.began)
    np.testing.assert_array_equal(resumed.shares, whole.shares)
    if world == "model":
        np.testing.assert_array_equal(resumed.regret, whole.regret)
    one, other = packed_agent(resumed.agent), packed_agent(whole.agent)
    assert one[1] == other[1]
    for name, array in one[0].items():
        np.testing.assert_array_equal(array, other[0][name], err_msg=name)


def test_a_checkpoint_of_another_run_or_a_broken_one_is_refused(model, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoints, "SECONDS", 0.0)
    rm.earn(model, episodes=30, checkpoint=tmp_path)
    for change in ({"seed": 1}, {"episodes": 31}, {"num_contexts": 3}, {"weights": [0.5, 0.5]}):
        with pytest.raises(rm.InputError, match=f"checkpoint: found a run with {next(iter(change))} = "):
            rm.earn(model, **{"episodes": 30, **change}, checkpoint=tmp_path)
    other = problems.make("random", states=3, actions=2, horizon=3, seed=3)
    with pytest.raises(rm.InputError, match="checkpoint: found a run with world = "):
        rm.earn(other, episodes=30, checkpoint=tmp_path)
    with pytest.raises(rm.InputError, match="checkpoint: found a folder for a ExploreThenCommit"):
        rm.earn(model, episodes=30, checkpoint=tmp_path, method=baselines.explore_then_commit(10))
    path = tmp_path / "earning.safetensors"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(rm.InputError, match="checkpoint: found one that cannot be gone on with"):
        rm.earn(model, episodes=30, checkpoint=tmp_path)
