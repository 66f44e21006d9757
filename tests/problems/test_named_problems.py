import numpy as np
import pytest

from oracles.brute_force import optimal_value
from rewardmix import InputError, evaluate, markov_policy, problems
from rewardmix.model import dense_transition
from rewardmix.planning import plan_markov


@pytest.mark.parametrize("name", problems.list_problems())
def test_every_problem_has_two_contexts_that_differ(name):
    model = problems.make_model(name)
    assert model.num_types >= 2
    assert np.abs(model.rewards[0] - model.rewards[1]).max() > 0.1
    np.testing.assert_array_equal(model.rewards, problems.make_model(name).rewards)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("shp", {}, "name: got 'shp', expected one of hard, random, lock"),
        ("hard", {"states": 3}, "options: got 'states', expected an option of hard: actions, epsilon, seed"),
        ("hard", {"actions": 2}, "actions: got 2, expected a whole number of at least 3"),
        ("hard", {"epsilon": 0.3}, "epsilon: got 0.3, expected a number above 0 and at most 0.25"),
        ("random", {"separation": 0.6}, "separation: got 0.6, expected at most 0.5 for 2 types"),
        ("random", {"next_states": 9}, "next_states: got 9, expected at most the number of states, 5"),
        ("random", {"weights": (0.5, 0.6)}, "weights: got sum 1.1"),
        ("lock", {"slip": 1.5}, "slip: got 1.5"),
        ("parity", {"strength": 0.6}, "strength: got 0.6, expected a number above 0 and at most 0.5"),
    ],
)
def test_bad_options_are_refused(name, options, message):
    with pytest.raises(InputError, match=message):
        problems.make_model(name, **options)


@pytest.mark.parametrize("e", [0.01, 0.04, 0.25])
@pytest.mark.parametrize("actions", [3, 5])
def test_hard_has_optimal_value_one_plus_two_e(e, actions):
    """Closed form of the lower bound's family, and 1 for everyone who does not look at the first reward."""
    model = problems.make_model("hard", actions=actions, epsilon=e)
    assert optimal_value(model) == pytest.approx(1 + 2 * e, abs=1e-12)
    np.testing.assert_allclose(model.marginal_rewards, 0.5, rtol=0, atol=1e-15)
    for first in range(actions):
        assert evaluate(markov_policy(np.array([first, 0]), model), model).value == pytest.approx(1.0, abs=1e-12)


def test_random_separation_is_exact():
    model = problems.make_model("random", separation=0.15, weights=(0.3, 0.7), seed=2)
    np.testing.assert_allclose(np.abs(model.reward_difference) / 2, 0.15, rtol=0, atol=1e-12)
    assert (np.sign(model.reward_difference) > 0).any()
    assert (np.sign(model.reward_difference) < 0).any()


def test_random_separation_of_many_contexts_and_values():
    model = problems.make_model("random", num_types=3, separation=0.1, reward_values=(-1.0, 0.0, 2.0))
    for m in range(3):
        for n in range(m):
            distance = np.abs(model.reward_probs[m] - model.reward_probs[n]).sum(axis=-1) / 2
            steps = distance / 0.2
            np.testing.assert_allclose(steps, np.round(steps), rtol=0, atol=1e-9)
            assert (np.round(steps) >= 1).all()


def test_random_sparse_has_the_successors_asked_for():
    model = problems.make_model("random", states=20, actions=2, next_states=3)
    assert model.is_sparse
    np.testing.assert_array_equal(np.diff(model.transition.indptr), 3)


def test_lock_opens_only_by_its_combination():
    model = problems.make_model("lock", steps=4, slip=0.0, seed=3)
    transition = dense_transition(model)
    right = [int(np.flatnonzero(transition[s, :, s + 1])[0]) for s in range(4)]
    assert all((transition[s, :, s + 1] > 0).sum() == 1 for s in range(4))
    table = np.array([*right, 0, 0])
    assert evaluate(markov_policy(table, model), model).value == pytest.approx(2 * 0.5)
    assert model.horizon == 6


@pytest.mark.parametrize(("actions", "dials", "seed"), [(3, 0, 0), (4, 2, 0), (4, 1, 7)])
def test_parity_shows_its_types_in_triples_alone(actions, dials, seed):
    """By all paths: laws of one and two rewards of an episode do not depend on the type, those of three do."""
    model = problems.make_model("parity", actions=actions, dials=dials, seed=seed)
    together = np.array([sorted(visited) for visited in paths_of(model)])
    spread = model.rewards.reshape(4, -1) - model.rewards.reshape(4, -1).mean(axis=0)
    pairs, triples = [], []
    for visited in np.unique(together, axis=0):
        visited_spread = spread[:, visited]
        pairs += [
            model.weights @ (visited_spread[:, i] * visited_spread[:, j]) for i in range(len(visited)) for j in range(i)
        ]
        triples += [
            model.weights @ (visited_spread[:, i] * visited_spread[:, j] * visited_spread[:, k])
            for i in range(len(visited)) for j in range(i) for k in range(j)
        ]  # fmt: skip
    assert np.abs(pairs).max() < 1e-15
    assert np.abs(triples).max() == pytest.approx(0.45**3, abs=1e-15)
    outside = np.arange(model.num_states * actions) >= (model.num_states - 1) * actions
    assert np.abs(spread[:, outside]).max() < 1e-15  # what is visited more than once says nothing


def paths_of(model):
    """The distinct state-actions of every path."""
    transition, result = dense_transition(model), set()

    def go_on(s, t, visited):
        if t == model.horizon:
            result.add(tuple(sorted(set(visited)))) if len(set(visited)) == model.horizon else None
            return
        for a in range(model.num_actions):
            for next_state in np.flatnonzero(transition[s, a]):
                go_on(int(next_state), t + 1, (*visited, s * model.num_actions + a))

    go_on(0, 0, ())
    return result


@pytest.mark.parametrize(("strength", "risk"), [(0.45, 0.3), (0.5, 0.0), (0.1, 0.3)])
def test_asking_twice_is_worth_what_parity_says(strength, risk):
    model = problems.make_model("parity", dials=1, strength=strength, risk=risk, seed=2)
    nonadaptive, asking = 0.5 * 4 + 0.04, 0.5 * 4 + 4 * strength**3 * (1 - risk) ** 2
    assert optimal_value(model) == pytest.approx(max(nonadaptive, asking), abs=1e-12)
    assert evaluate(plan_markov(model).policy, model).value == pytest.approx(nonadaptive, abs=1e-12)


def test_branches_never_meet():
    model = problems.make_model("branches")
    transition = dense_transition(model)
    reach = np.linalg.matrix_power(transition.max(axis=1) + np.eye(model.num_states), model.horizon) > 0
    left, right = range(1, 3), range(3, 5)
    assert not reach[np.ix_(left, right)].any()
    assert not reach[np.ix_(right, left)].any()
    assert reach[0].all()


def test_what_names_are_for():
    assert problems.make_model("shop").state_names[0] == "home"
    assert len(problems.make_model("grid").action_names) == 4
