import numpy as np
import pytest

from rewardmix import BeliefPolicy, Controller, InputError, MarkovPolicy, belief, markov, problems, uniform

RNG = np.random.default_rng(0)


def test_markov_takes_what_people_have():
    model = problems.make("random", states=3, actions=2, horizon=4)
    full = np.eye(2)[np.ones((4, 3), int)]
    for table in (np.ones(3, int), np.ones((4, 3), int), full[0], full):
        np.testing.assert_array_equal(markov(table, model).table, full)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.full(3, 2), r"table\[0\]: found 2, expected a whole number from 0 to 1"),
        (np.full((3, 2), 0.4), r"table\[0, 0\]: found sum 0.8, expected probabilities over actions"),
        (np.zeros((2, 2)), r"table: found shape \(2, 2\) of float64"),
    ],
)
def test_bad_tables_are_refused(table, message):
    with pytest.raises(InputError, match=message):
        markov(table, problems.make("random", states=3, actions=2, horizon=4))


def test_a_markov_policy_draws_by_its_table():
    policy = MarkovPolicy(np.array([[[0.2, 0.0, 0.8]]]))
    drawn = np.bincount([policy.act((0, 0), RNG) for _ in range(20_000)], minlength=3)
    assert drawn[1] == 0
    assert abs(drawn[0] - 4000) < 5 * np.sqrt(20_000 * 0.2 * 0.8)


def test_the_horizon_ends_a_policy():
    with pytest.raises(InputError, match="memory: found step 6, expected a step before the horizon 6"):
        uniform(problems.make("random")).act((6, 0), RNG)


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
    ("part", "value", "message"),
    [
        ("successors", (np.full((2, 1, 2), 5), np.zeros((2, 2, 2), int)), r"successors\[0\]\[0, 0, 0\]: found 5"),
        ("successors", (np.zeros((2, 1, 2), int),), "successors: found 1 steps, expected 2 steps"),
        ("first", np.array([0, 3]), r"first\[1\]: found 3"),
        ("actions", (np.zeros((2, 1), int), np.zeros((3, 2), int)), r"actions\[1\]: found shape \(3, 2\)"),
    ],
)
def test_a_broken_controller_is_refused(part, value, message):
    parts = {
        "actions": (np.zeros((2, 1), int), np.zeros((2, 2), int)),
        "successors": (np.zeros((2, 1, 2), int), np.zeros((2, 2, 2), int)),
        "first": np.zeros(2, int),
        "reward_values": np.array([0.0, 1.0]),
    }
    with pytest.raises(InputError, match=message):
        Controller(**{**parts, part: value})


def test_a_belief_policy_carries_the_posterior():
    model = problems.make("shop")
    seen = []
    policy = BeliefPolicy(model, lambda step, state, b: seen.append((step, state, b)) or 2)
    memory = policy.start(0)
    assert policy.act(memory, RNG) == 2
    memory = policy.observe(memory, 2, 1.0, 3)
    policy.act(memory, RNG)
    step, state, posterior = seen[-1]
    assert (step, state) == (1, 3)
    np.testing.assert_array_equal(posterior, belief.update(model.weights, model.laws[:, 0, 2, 1]))


def test_a_markov_policy_looks_at_the_step():
    policy = MarkovPolicy(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]))
    assert [policy.act((step, 0), RNG) for step in range(2)] == [0, 1]
