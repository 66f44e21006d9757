"""``check``: whether a log keeps to what is taken for granted, before anything is learned from it."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

from rewardmix._core.checks import as_count, as_seed
from rewardmix.checkup import Checkup, check_assumptions
from rewardmix.episodes import Episodes
from rewardmix.logs.fitting import SAMPLE
from rewardmix.logs.reading import as_log
from rewardmix.model import RewardMixingMDP
from rewardmix.recovery import choose_contexts


def check(
    log: Any,
    *,
    num_contexts: int | str = 2,
    model: RewardMixingMDP | None = None,
    level: float = 0.01,
    seed: int = 0,
    executor: Executor | None = None,
    **reading: Any,
) -> Checkup:
    """Test what the method takes for granted on the episodes themselves.

    Args:
        log: ``Episodes``, a ``Log``, or whatever ``read`` takes, in the order in which they happened (only the question
            about drift looks at the order). Of more than 200,000 episodes a uniform sample is asked.
        num_contexts: how many types to fit if no model is given, or "auto" for the number that predicts held-out
            episodes best.
        model: estimated from these episodes; by default it is recovered here.
        level: chance that any assumption that holds is called broken.
        seed: of the sample and of the fits.
        executor: who reads.
        **reading: handed on to ``read``: columns, session_gap, bins, ...

    Returns:
        one finding for each assumption, with a p-value that is uniform if the assumption holds.
    """
    as_seed("seed", seed)
    automatic = isinstance(num_contexts, str) and num_contexts == "auto"
    contexts = 2 if automatic else as_count("num_contexts", num_contexts)
    if isinstance(log, Episodes) and not reading:
        episodes = log
    else:
        data = as_log(log, executor, reading)
        episodes = data.sample(SAMPLE, seed).episodes(data.schema)
    if automatic and model is None:
        contexts = choose_contexts(episodes, seed=seed).num_contexts
    return check_assumptions(episodes, num_contexts=contexts, model=model, level=level, seed=seed)
