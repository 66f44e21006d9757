"""Diagnose a log: test the assumptions of a reward-mixing MDP before learning from it."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from rewardmix._core.checks import as_count, as_seed
from rewardmix._core.short_repr import use_short_repr
from rewardmix.diagnostics import Diagnostics, run_assumption_tests
from rewardmix.episodes import Episodes
from rewardmix.logs.fitting import MAX_EPISODES_IN_MEMORY
from rewardmix.logs.log_reader import to_log
from rewardmix.model import RewardMixingMDP
from rewardmix.recovery import select_num_types


@use_short_repr
@dataclass(frozen=True, eq=False)
class LogCheckup(Diagnostics):
    """Diagnostics of a log, with warnings about the log itself.

    Attributes:
        warnings: warning that many episodes were dropped, if so.
    """

    warnings: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """Warnings and test results as sentences."""
        return (*self.warnings, *super().sentences)


def diagnose(
    log: Any,
    *,
    num_types: int | str = 2,
    model: RewardMixingMDP | None = None,
    significance_level: float = 0.01,
    seed: int = 0,
    executor: Executor | None = None,
    **read_options: Any,
) -> LogCheckup:
    """Test the assumptions of a reward-mixing MDP on logged episodes.

    Args:
        log: ``Episodes`` in the order in which they happened, a ``Log``, or any source that ``read_log`` accepts. The
            order matters only for the test of drift, which is skipped for a log without a time column. Of more than
            200,000 episodes a uniform sample is tested.
        num_types: Number of types to fit if no model is given, or ``"auto"`` for the number with the best held-out
            likelihood.
        model: Model estimated from these episodes. ``None`` fits one.
        significance_level: Probability that any true assumption is rejected, over all tests together.
        seed: Seed of the sample, the fits and the resamples.
        executor: A ``concurrent.futures.Executor`` or a Dask client. ``None`` uses that of the log, or this process.
        **read_options: Arguments of ``read_log``: columns, session_gap, num_reward_bins, ...

    Returns:
        One test for each assumption, with a valid p-value, or the reason why it was skipped.

    Raises:
        InputError: If an argument or the log is invalid.

    Examples:
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> episodes = rm.simulate(rm.uniform_policy(model), model, 1000)
        >>> diagnostics = rm.diagnose(episodes, model=model)
        >>> len(diagnostics.tests), diagnostics.rejected
        (8, ())
    """
    as_seed("seed", seed)
    automatic = isinstance(num_types, str) and num_types == "auto"
    types = 2 if automatic else as_count("num_types", num_types)
    warnings: tuple[str, ...] = ()
    if isinstance(log, Episodes) and not read_options:
        episodes, in_order = log, True
    else:
        data = to_log(log, executor, read_options)
        # A sample keeps the order of episodes, which the test of drift needs.
        episodes, in_order = data.sample(MAX_EPISODES_IN_MEMORY, seed).episodes(data.schema), data.read_report.in_order
        warnings = tuple(filter(None, [data.read_report.left_out.headline]))
    if automatic and model is None:
        types = select_num_types(episodes, seed=seed).num_types
    diagnostics = run_assumption_tests(
        episodes, num_types=types, model=model, significance_level=significance_level, seed=seed, in_order=in_order
    )
    return LogCheckup(**vars(diagnostics), warnings=warnings)
