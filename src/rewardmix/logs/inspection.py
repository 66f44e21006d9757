"""``check``: whether a log keeps to what is taken for granted, before anything is learned from it."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from rewardmix._core.brevity import short
from rewardmix._core.checks import as_count, as_seed
from rewardmix.checkup import Checkup, check_assumptions
from rewardmix.episodes import Episodes
from rewardmix.logs.fitting import SAMPLE
from rewardmix.logs.reading import as_log
from rewardmix.model import RewardMixingMDP
from rewardmix.recovery import choose_contexts


@short
@dataclass(frozen=True, eq=False)
class LogCheckup(Checkup):
    """Whether the assumptions hold in a log, and what is to be said of the log before.

    Attributes:
        warnings: that many episodes were left out, if so.
    """

    warnings: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """All in words, the warnings first."""
        return (*self.warnings, *super().sentences)


def check(
    log: Any,
    *,
    num_contexts: int | str = 2,
    model: RewardMixingMDP | None = None,
    level: float = 0.01,
    seed: int = 0,
    executor: Executor | None = None,
    **reading: Any,
) -> LogCheckup:
    """Test what the method takes for granted on the episodes themselves.

    Args:
        log: ``Episodes`` in the order in which they happened, a ``Log``, or whatever ``read`` takes. Only the question
            about drift looks at the order; of a log without a time column it is not asked. Of more than 200,000
            episodes a uniform sample is asked.
        num_contexts: how many types to fit if no model is given, or "auto" for the number that predicts held-out
            episodes best.
        model: estimated from these episodes; by default it is recovered here.
        level: chance that any assumption that holds is called broken.
        seed: of the sample, of the fits and of resamples.
        executor: who reads.
        **reading: handed on to ``read``: columns, session_gap, bins, ...

    Returns:
        one finding for each assumption, with a p-value that is no smaller than it should be if the assumption holds.
    """
    as_seed("seed", seed)
    automatic = isinstance(num_contexts, str) and num_contexts == "auto"
    contexts = 2 if automatic else as_count("num_contexts", num_contexts)
    warnings: tuple[str, ...] = ()
    if isinstance(log, Episodes) and not reading:
        episodes, in_order = log, True
    else:
        data = as_log(log, executor, reading)
        episodes, in_order = data.sample(SAMPLE, seed).episodes(data.schema), data.notes.in_order
        warnings = tuple(filter(None, [data.notes.left_out.headline]))
    if automatic and model is None:
        contexts = choose_contexts(episodes, seed=seed).num_contexts
    checkup = check_assumptions(episodes, num_contexts=contexts, model=model, level=level, seed=seed, in_order=in_order)
    return LogCheckup(**vars(checkup), warnings=warnings)
