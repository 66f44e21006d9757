import dataclasses

import numpy as np
import pytest

from rewardmix import (
    BeliefPolicy,
    Controller,
    InputError,
    MarkovPolicy,
    PreviousActionRewardObservation,
    belief,
    evaluate,
    load,
    make_env,
    markov_policy,
    plan,
    problems,
    save,
    uniform_policy,
)

RNG = np.random.default_rng(0)


def test_markov_takes_what_people_have():
    model = problems.make_model("random", states=3, actions=2, horizon=4)
    full = np.eye(2)[np.ones((4, 3), int)]
    for table in (np.ones(3, int), np.ones((4, 3), int), full[0], full):
        np.testing.assert_array_equal(markov_policy(table, model).table, full)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.full(3, 2), r"table\[0\]: got 2, expected a whole number from 0 to 1"),
        (np.full((3, 2), 0.4), r"table\[0, 0\]: got sum 0.8, expected probabilities over actions"),
        (np.zeros((2, 2)), r"table: got shape \(2, 2\) of float64"),
    ],
)
def test_bad_tables_are_refused(table, message):
    with pytest.raises(InputError, match=message):
        markov_policy(table, problems.make_model("random", states=3, actions=2, horizon=4))


def test_a_markov_policy_draws_by_its_table():
    policy = MarkovPolicy(np.array([[[0.2, 0.0, 0.8]]]))
    counts = np.bincount([policy.act((0, 0), RNG) for _ in range(20_000)], minlength=3)
    assert counts[1] == 0
    assert abs(counts[0] - 4000) < 5 * np.sqrt(20_000 * 0.2 * 0.8)


def test_the_horizon_ends_a_policy():
    with pytest.raises(InputError, match="memory: got step 6, expected a step before the horizon 6"):
        uniform_policy(problems.make_model("random")).act((6, 0), RNG)


def test_a_controller_follows_its_nodes():
    policy = Controller(
        (np.array([[0], [1]]), np.array([[1, 0], [0, 1]])),
        (np.array([[[0, 1]], [[1, 0]]]), np.zeros((2, 2, 2), int)),
        np.array([0, 0]),
        np.array([0.0, 1.0]),
    )
    memory = policy.start(1)
    assert policy.act(memory, RNG) == 1
    assert policy.act(policy.observe(memory, 1, 0.0, 0), RNG) == 0  # node 1 in state 0
    assert policy.act(policy.observe(memory, 1, 1.0, 0), RNG) == 1  # node 0 in state 0
    assert policy.size == 2 + 4
    assert policy.nbytes > 0


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("next_nodes", (np.full((2, 1, 2), 5), np.zeros((2, 2, 2), int)), r"next_nodes\[0\]\[0, 0, 0\]: got 5"),
        ("next_nodes", (np.zeros((2, 1, 2), int),), "next_nodes: got 1 steps, expected 2 steps"),
        ("initial_nodes", np.array([0, 3]), r"initial_nodes\[1\]: got 3"),
        ("actions", (np.zeros((2, 1), int), np.zeros((3, 2), int)), r"actions\[1\]: got shape \(3, 2\)"),
    ],
)
def test_a_broken_controller_is_refused(name, value, message):
    arrays = {
        "actions": (np.zeros((2, 1), int), np.zeros((2, 2), int)),
        "next_nodes": (np.zeros((2, 1, 2), int), np.zeros((2, 2, 2), int)),
        "initial_nodes": np.zeros(2, int),
        "reward_values": np.array([0.0, 1.0]),
    }
    with pytest.raises(InputError, match=message):
        Controller(**{**arrays, name: value})


def test_a_belief_policy_carries_the_posterior():
    model = problems.make_model("shop")
    states = []
    policy = BeliefPolicy(model, lambda step, state, b: states.append((step, state, b)) or 2)
    memory = policy.start(0)
    assert policy.act(memory, RNG) == 2
    memory = policy.observe(memory, 2, 1.0, 3)
    policy.act(memory, RNG)
    step, state, posterior = states[-1]
    assert (step, state) == (1, 3)
    np.testing.assert_array_equal(posterior, belief.update(model.weights, model.reward_probs[:, 0, 2, 1]))


def test_a_markov_policy_looks_at_the_step():
    policy = MarkovPolicy(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]))
    assert [policy.act((step, 0), RNG) for step in range(2)] == [0, 1]


SHOP = problems.make_model("shop")


@pytest.fixture(scope="module")
def forms():
    result = plan(SHOP)
    return {"markov": uniform_policy(SHOP), "controller": result.policy, "belief": result.belief_policy}


FORMS = ("markov", "controller", "belief")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("state", [-1, 4, 1.0, True, "nowhere", None, 2**70, np.int64(4)])
def test_states_that_are_none_are_refused_where_they_come_in(forms, form, state):
    policy = forms[form]
    with pytest.raises(InputError, match="state: got .*, expected"):
        policy.start(state)
    with pytest.raises(InputError, match="next_state: got .*, expected"):
        policy.observe(policy.start(0), 0, 1.0, state)


@pytest.mark.parametrize("form", ["controller", "belief"])
def test_names_are_taken_where_they_are_known(forms, form):
    policy = forms[form]
    for name, number in (("home", 0), ("kitchen", 3)):
        np.testing.assert_equal(policy.start(name), policy.start(number))
        np.testing.assert_equal(
            policy.observe(policy.start(0), "show reading", 1.0, name), policy.observe(policy.start(0), 1, 1.0, number)
        )
    with pytest.raises(InputError, match="state: got 'hom', expected one of home, outdoor, reading, kitchen"):
        policy.start("hom")
    assert policy.start(np.int64(2)) == policy.start(2) or form == "belief"


def test_a_belief_policy_checks_actions(forms):
    with pytest.raises(InputError, match="action: got -1, expected a whole number from 0 to 3 or a name"):
        forms["belief"].observe(forms["belief"].start(0), -1, 1.0, 0)


@pytest.mark.parametrize("form", FORMS)
def test_after_the_last_step_a_policy_refuses(forms, form):
    policy = forms[form]
    memory = policy.start(0)
    for _ in range(SHOP.horizon):
        memory = policy.observe(memory, policy.act(memory, RNG), 0.0, 0)
    for ask in (lambda: policy.act(memory, RNG), lambda: policy.observe(memory, 0, 0.0, 0)):
        with pytest.raises(InputError, match="memory: got step 10, expected a step before the horizon 10; start the"):
            ask()


def test_names_of_states_are_stored(forms, tmp_path):
    save(tmp_path / "policy.safetensors", forms["controller"])
    assert load(tmp_path / "policy.safetensors").state_names == SHOP.state_names
    with pytest.raises(InputError, match="state_names: got 1 names, expected 4 names, or none"):
        dataclasses.replace(forms["controller"], state_names=("home",))


def test_the_posterior_of_a_belief_policy_is_in_its_memory(forms):
    memory = forms["belief"].observe(forms["belief"].start(0), 1, 1.0, 0)
    np.testing.assert_array_equal(
        forms["belief"].posterior(memory), belief.update(SHOP.weights, SHOP.reward_probs[:, 0, 1, 1])
    )


def evaluated(model, env, episodes):
    """What stable-baselines3's ``evaluate_policy`` does: the calls of ``predict``, in order, one environment each."""
    returns, states, starts = [], None, np.ones(1, bool)
    observation, total = env.reset(seed=5)[0][None], 0.0
    while len(returns) < episodes:
        actions, states = model.predict(observation, state=states, episode_start=starts, deterministic=True)
        assert actions.shape == (1,)
        first_observation, reward, terminated, truncated, _ = env.step(actions[0])
        total += reward
        starts[0] = terminated or truncated
        if starts[0]:
            returns.append(total)
            first_observation, total = env.reset()[0], 0.0
        observation = first_observation[None]
    return returns


@pytest.mark.parametrize("form", ["controller", "belief"])
def test_predict_follows_the_rewards(forms, form):
    """The same episodes as play by start, act and observe."""
    policy = forms[form]
    result = evaluated(policy, PreviousActionRewardObservation(make_env(SHOP)), 40)
    env, expected = make_env(SHOP), []
    for episode in range(40):
        state, _ = env.reset(seed=5 if episode == 0 else None)
        memory, total, done = policy.start(state), 0.0, False
        while not done:
            action = policy.act(memory, RNG)
            state, reward, done, _, _ = env.step(action)
            total += reward
            memory = None if done else policy.observe(memory, action, reward, state)
        expected.append(total)
    assert result == expected


def test_predict_takes_one_observation_and_several(forms):
    observation = PreviousActionRewardObservation(make_env(SHOP)).reset(seed=0)[0]
    alone, memory = forms["controller"].predict(observation)
    several, memories = forms["controller"].predict(np.stack([observation] * 3))
    assert several.tolist() == [alone] * 3
    assert (len(memory), len(memories)) == (1, 3)
    table = markov_policy([3, 2, 1, 0], SHOP)
    assert table.predict(np.array([0, 1, 2, 3]))[0].tolist() == [3, 2, 1, 0]
    actions = {int(forms["markov"].predict(0, deterministic=False)[0]) for _ in range(100)}
    assert actions == {0, 1, 2, 3}


def test_predict_without_rewards_is_refused(forms):
    with pytest.raises(InputError, match=r"observation: got int64 of shape \(2,\), expected observations of Previous"):
        forms["controller"].predict(np.array([0, 1]))
    observation = np.stack([PreviousActionRewardObservation(make_env(SHOP)).reset(seed=0)[0]] * 2)
    with pytest.raises(InputError, match="state: got 1 memories, expected 2"):
        forms["controller"].predict(observation, state=[((0, 0, 0), 0)])


def test_stable_baselines_drives_a_policy(forms):
    """The real one, where it is installed (the extra bench has it)."""
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    from stable_baselines3.common.env_util import make_vec_env

    copies = make_vec_env(lambda: PreviousActionRewardObservation(make_env(SHOP)), n_envs=3, seed=1)
    mean, spread = evaluation.evaluate_policy(forms["controller"], copies, n_eval_episodes=600)
    value = evaluate(forms["controller"], SHOP).value
    assert abs(mean - value) < 5 * spread / np.sqrt(600)
