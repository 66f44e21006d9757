"""What every backward pass uses: expected next values and lean controllers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from helpers.tiny_models import random_model
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.backward_induction import NextStateExpectation, make_compact_controller


@pytest.mark.parametrize("density", [0.02, 0.5])
def test_products_agree_whatever_the_form_of_the_matrix(density):
    rng = np.random.default_rng(0)
    rows = rng.random((60, 30)) * (rng.random((60, 30)) < density)
    rows[np.arange(60), rng.integers(30, size=60)] += 0.1
    rows /= rows.sum(axis=1, keepdims=True)
    rewards = rng.random((2, 30, 2))
    dense = RewardMixingMDP(rows.reshape(30, 2, 30), np.full(30, 1 / 30), [0.5, 0.5], rewards, 2)
    sparse = RewardMixingMDP(csr_array(rows), np.full(30, 1 / 30), [0.5, 0.5], rewards, 2)
    values = rng.random((30, 7))
    for chosen in (np.arange(60), np.array([3, 4, 5]), np.array([0, 7, 59])):
        for model in (dense, sparse):
            assert NextStateExpectation(model)(chosen, values) == pytest.approx(rows[chosen] @ values, abs=1e-14)


def test_compact_leaves_out_nodes_that_are_never_entered():
    model = random_model(np.random.default_rng(0), 2, 2, 3)
    actions = [np.array([[0], [1]]), np.arange(10).reshape(2, 5) % 2, np.ones((2, 300), dtype=np.int64)]
    next_nodes = [np.full((2, 1, 2), 3), np.full((2, 5, 2), 299), np.full((2, 300, 2), 7)]
    next_nodes[0][1, 0, 1] = 1
    lean = make_compact_controller(actions, next_nodes, model)
    assert [array.shape for array in lean.actions] == [(2, 1), (2, 2), (2, 1)]
    assert lean.next_nodes[0][:, 0].tolist() == [[1, 1], [1, 0]]
    assert lean.actions[1].tolist() == actions[1][:, [1, 3]].tolist()
    assert all(array.dtype == np.int8 for array in (*lean.actions, *lean.next_nodes))
