"""Logs whose rows were dealt out at random among sessions have no types."""

import numpy as np
from benchmarks.types import settings
from benchmarks.types.run import torn_log, typed
from scipy.stats import binom

from rewardmix import simulate, uniform_policy
from rewardmix.recovery import select_num_types


def test_logs_without_types_have_one():
    """Rows dealt out at random among sessions: one log in a hundred may have more (chance of a mistake .001)."""
    seeds, more = 5, 0
    for kind in settings.KINDS:
        for seed in range(900, 900 + seeds):
            torn = torn_log(typed(kind, seed), 500, seed)
            more += select_num_types(torn, seed=seed).num_types > 1
    assert more <= binom.ppf(0.999, seeds * len(settings.KINDS), 0.01)


def test_a_torn_log_has_the_rows_of_the_log():
    model = typed("three levels", 3)
    log, torn = simulate(uniform_policy(model), model, 50, seed=3), torn_log(model, 50, 3)
    rows = [
        sorted(zip(data.states[:, :-1].ravel(), data.actions.ravel(), data.reward_indices.ravel(), strict=True))
        for data in (log, torn)
    ]
    assert rows[0] == rows[1]
    assert not np.array_equal(log.reward_indices, torn.reward_indices)
