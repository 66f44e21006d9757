import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from helpers.strategies import models
from rewardmix import belief


@given(models(num_types=(2, 3, 4), values=(2, 3)), st.data())
def test_updates_in_a_row_are_bayes_on_the_whole_history(model, data):
    """The posterior is prior times the product of the likelihoods, normalised once."""
    steps = data.draw(
        st.lists(
            st.tuples(
                st.integers(0, model.num_states - 1),
                st.integers(0, model.num_actions - 1),
                st.integers(0, model.num_values - 1),
            ),
            max_size=5,
        )
    )
    likelihoods = np.array([model.reward_probs[:, s, a, z] for s, a, z in steps]).reshape(len(steps), model.num_types)
    joint = model.weights * likelihoods.prod(axis=0)
    if joint.sum() > 1e-200:
        beliefs = belief.filter_beliefs(model.weights, likelihoods)
        np.testing.assert_allclose(beliefs[-1], joint / joint.sum(), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(beliefs.sum(axis=-1), 1.0, rtol=0, atol=1e-12)


def test_an_impossible_outcome_changes_nothing():
    np.testing.assert_array_equal(belief.update(np.array([0.3, 0.7]), np.zeros(2)), [0.3, 0.7])


def test_batches_are_updated_row_by_row():
    beliefs = np.array([[0.5, 0.5], [0.2, 0.8]])
    likelihood = np.array([[0.9, 0.1], [0.5, 0.5]])
    expected = [belief.update(b, q) for b, q in zip(beliefs, likelihood, strict=True)]
    np.testing.assert_array_equal(belief.update(beliefs, likelihood), expected)
