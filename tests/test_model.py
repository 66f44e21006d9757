import sys

import numpy as np
import pytest
from hypothesis import given
from scipy.sparse import csr_array

from helpers.strategies import models
from rewardmix import InputError, RewardMixingMDP, evaluate, planning, problems
from rewardmix.model import dense_transition, state_action_index
from rewardmix.policy import MarkovPolicy

GOOD = {
    "transition": np.full((2, 2, 2), 0.5),
    "initial": [0.5, 0.5],
    "weights": [0.3, 0.7],
    "rewards": np.full((2, 2, 2), 0.25),
    "horizon": 3,
}


def build(**changes):
    return RewardMixingMDP(**{**GOOD, **changes})


def changed(name, index, value):
    array = np.array(GOOD[name], float)
    array[index] = value
    return {name: array}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (changed("transition", (1, 0, 1), 0.4), r"transition\[1, 0\]: got sum 0.9, expected .* sum to 1"),
        (changed("transition", (0, 1, 0), -0.1), r"transition\[0, 1, 0\]: got -0.1, expected a probability"),
        (changed("transition", (0, 1, 1), np.nan), r"transition\[0, 1, 1\]: got nan, expected a finite number"),
        ({"transition": np.full((2, 2, 3), 1 / 3)}, r"transition: got shape \(2, 2, 3\), expected shape \(2, 2, 2\)"),
        ({"transition": "abc"}, r"transition: got str .* expected an array of numbers"),
        ({"transition": csr_array(np.full((3, 2), 0.5))}, r"transition: got sparse shape \(3, 2\), .*\(4, 2\)"),
        ({"transition": csr_array([[1, 0], [1, 0], [0.5, 0.4], [1, 0]])}, r"transition\[1, 0\]: got sum 0.9"),
        ({"transition": csr_array([[1, 0], [2, -1], [1, 0], [1, 0]])}, r"transition\[0, 1, 0\]: got 2.0"),
        ({"initial": [0.5, 0.4]}, "initial: got sum 0.9"),
        ({"initial": [[0.5, 0.5]]}, r"initial: got shape \(1, 2\), expected shape \(any,\)"),
        ({"weights": [1.0, 0.0]}, r"weights\[1\]: got 0.0, expected a positive weight"),
        ({"weights": [], "rewards": np.full((0, 2, 2), 0.5)}, "weights: got no types, expected at least 1"),
        ({"weights": [0.5, 0.6]}, "weights: got sum 1.1"),
        ({"rewards": np.full((2, 2, 2), 1.5)}, r"rewards\[0, 0, 0\]: got 1.5, expected a probability"),
        ({"rewards": np.full((3, 2, 2), 0.5)}, r"rewards: got shape \(3, 2, 2\), expected shape \(2, 2, any\)"),
        ({"rewards": np.full((2, 2), 0.5)}, r"rewards: got shape \(2, 2\), expected shape \(2, 2, A\) or"),
        ({"rewards": np.full((2, 2, 2, 2), 0.4)}, r"rewards\[0, 0, 0\]: got sum 0.8, .* over reward values"),
        ({"horizon": 0}, "horizon: got 0, expected a whole number of at least 1"),
        ({"horizon": 2.5}, r"horizon: got 2.5 \(float\)"),
        ({"horizon": True}, "horizon: got True"),
        ({"reward_values": (1.0, 0.0)}, r"reward_values\[1\]: got 0.0, expected more than 1"),
        ({"reward_values": (1.0,)}, r"reward_values: got \[1.0\], expected at least two values"),
        ({"reward_values": (0, 1, 2)}, r"rewards: got shape \(2, 2, 2\), expected shape \(2, 2, A, 3\)"),
        (
            {"reward_values": (0.0, 1e308), "horizon": 10},
            r"reward_values: got 1e\+308 with a horizon of 10, .* scale",
        ),
        ({"reward_values": (-1e308, 0.0), "horizon": 1}, r"reward_values: got 1e\+308 with a horizon of 1, expected"),
        ({"state_names": ("a",)}, "state_names: got 1 names, expected 2 names, or none"),
    ],
)
def test_bad_input_is_refused_by_name(changes, message):
    with pytest.raises(InputError, match=message):
        build(**changes)


def test_it_is_frozen_and_keeps_its_own_copy():
    transition = np.full((2, 2, 2), 0.5)
    model = build(transition=transition)
    transition[0, 0] = 7
    assert model.transition[0, 0, 0] == 0.5
    with pytest.raises(AttributeError):
        model.horizon = 4  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        model.rewards[0, 0, 0] = 1


def test_the_shape_of_rewards_depends_on_the_number_of_values_alone():
    short = build(rewards=np.full((2, 2, 2), 0.25))
    long = build(rewards=np.full((2, 2, 2, 2), 1.0) * [0.75, 0.25])
    np.testing.assert_array_equal(short.rewards, long.rewards)
    np.testing.assert_array_equal(short.reward_probs, long.reward_probs)
    assert short.reward_probs.shape == (2, 2, 2, 2)


@given(models(num_types=(2,)))
def test_two_contexts_follow_the_formulas_of_the_spec(model):
    w, p = model.weights[0], model.rewards
    np.testing.assert_allclose(model.marginal_rewards, w * p[0] + (1 - w) * p[1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        model.covariance(), np.outer(model.loadings.ravel(), model.loadings.ravel()), rtol=0, atol=1e-12
    )
    np.testing.assert_allclose(model.marginal_rewards + np.sqrt((1 - w) / w) * model.loadings, p[0], rtol=0, atol=1e-9)
    np.testing.assert_allclose(model.marginal_rewards - np.sqrt(w / (1 - w)) * model.loadings, p[1], rtol=0, atol=1e-9)


@given(models(num_types=(2, 3), values=(2, 3)))
def test_covariance_is_that_of_two_draws_in_one_context(model):
    """E[1{z} 1{z'}] - E[1{z}] E[1{z'}], summed over types by hand."""
    probs = model.reward_probs.reshape(model.num_types, -1, model.num_values)
    joint = sum(
        w * np.multiply.outer(type_probs, type_probs) for w, type_probs in zip(model.weights, probs, strict=True)
    )
    average = np.tensordot(model.weights, probs, axes=1)
    table = joint - np.multiply.outer(average, average)
    expected = table[:, 1, :, 1] if model.num_values == 2 else table
    np.testing.assert_allclose(model.covariance(), expected, rtol=0, atol=1e-12)


def test_gap_of_three_contexts_is_refused():
    with pytest.raises(InputError, match="model: got 3 types, expected 2 types"):
        _ = problems.make_model("random", num_types=3).reward_difference


def test_sparse_and_dense_are_the_same_model():
    dense = problems.make_model("random", states=6, actions=2, seed=1)
    sparse = RewardMixingMDP(
        csr_array(dense.transition.reshape(-1, 6)), dense.initial, dense.weights, dense.rewards, dense.horizon
    )
    assert sparse.is_sparse
    assert not dense.is_sparse
    np.testing.assert_array_equal(dense_transition(sparse), dense.transition)
    assert "sparse" in repr(sparse)


def test_state_action_is_row_of_the_transition():
    model = problems.make_model("random", states=4, actions=3)
    assert state_action_index(2, 1, 3) == 7
    np.testing.assert_array_equal(model.transition_rows[7], model.transition[2, 1])


def test_the_largest_rewards_that_are_taken_are_added_without_overflow():
    """Returns and their differences are floats, in values and in plans."""
    limit = sys.float_info.max / 2 / 8
    model = build(reward_values=(-limit, limit), horizon=8)
    for action in (0, 1):
        value = evaluate(MarkovPolicy(np.eye(2)[np.full((8, 2), action)]), model).value
        assert np.isfinite(value)
    planned = planning.plan_markov(model)
    assert np.isfinite(planned.value)
    with pytest.raises(InputError, match="reward_values: got"):
        build(reward_values=(-limit, np.nextafter(limit, np.inf) * (1 + 1e-15)), horizon=8)
