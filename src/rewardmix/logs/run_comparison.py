"""Compare two runs in one environment: which differences exceed their standard errors.

Types are matched by their reward probabilities. The z-scores of all weights and reward probabilities are compared with
a Bonferroni limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, cast

import numpy as np

from rewardmix._core.checks import Floats, as_number, raise_input_error
from rewardmix._core.short_repr import use_short_repr
from rewardmix.evaluation import evaluate
from rewardmix.learning import LearnResult
from rewardmix.logs.fit_result import FitResult
from rewardmix.model import RewardMixingMDP
from rewardmix.recovery.recovery_result import match_types

MAX_ACCEPTABLE_LOSS = 0.01
"""Relative loss in the new model below which the old policy can stay."""


@use_short_repr
@dataclass(frozen=True, eq=False)
class RunSummary:
    """Summary of a run for a comparison.

    Attributes:
        model: recovered model.
        policy: planned policy.
        reward_errors: standard errors of ``model.rewards``, inf where unknown.
        weight_errors: (M,) standard errors of the weights, 0 where they were given.
    """

    model: RewardMixingMDP
    policy: Any
    reward_errors: Floats
    weight_errors: Floats


@dataclass(frozen=True)
class Change:
    """Change of a type's weight or of a reward probability between two runs.

    Attributes:
        type: type in the new run, from 0.
        state: state index; None for a weight.
        action: action index; None for a weight.
        value: reward value of the probability; None for a weight.
        old: value in the old run.
        new: value in the new run.
        z_score: change divided by its standard error.
    """

    type: int
    state: int | None
    action: int | None
    value: float | None
    old: float
    new: float
    z_score: float


@use_short_repr
@dataclass(frozen=True, eq=False)
class RunComparison:
    """Differences between an old and a new run.

    Attributes:
        type_pairs: (old, new) indices of matched types, from 0; unmatched types disappeared or are new.
        weights: changes of the weights of all matched types.
        changed_weights: significant changes of weights.
        changed_rewards: significant changes of reward probabilities, largest z-score first.
        num_compared: number of weights and probabilities compared.
        significance_level: probability of any false report if nothing changed.
        old_in_old: value of the old policy in the old model.
        new_in_old: value of the new policy in the old model.
        old_in_new: value of the old policy in the new model.
        new_in_new: value of the new policy in the new model.
        verdict: result as a sentence.

    Examples:
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> policy, settings = rm.uniform_policy(model), {"num_resamples": 0, "held_out_fraction": 0.0}
        >>> old = rm.fit(rm.simulate(policy, model, 500, seed=0), **settings)
        >>> new = rm.fit(rm.simulate(policy, model, 500, seed=1), init_model=old, **settings)
        >>> comparison = rm.compare_runs(old, new)
        >>> comparison.new_in_new > comparison.old_in_new
        True
    """

    type_pairs: tuple[tuple[int, int], ...]
    weights: tuple[Change, ...]
    changed_weights: tuple[Change, ...]
    changed_rewards: tuple[Change, ...]
    num_compared: int
    significance_level: float
    old_in_old: float
    new_in_old: float
    old_in_new: float
    new_in_new: float
    verdict: str


def compare_runs(old: Any, new: Any, *, significance_level: float = 0.05) -> RunComparison:
    """Test what changed between two runs in one environment.

    Args:
        old: Result of ``fit`` or ``learn``, or a run folder loaded with ``load``.
        new: Result of ``fit`` or ``learn``, or a run folder loaded with ``load``.
        significance_level: Probability of reporting any change if nothing changed; divided by the number of comparisons
            (Bonferroni).

    Returns:
        Matched types, significant changes of weights and reward probabilities, the value of each policy in each model
        (exact in the models, not played), and a verdict.

    Raises:
        InputError: If the runs differ in states, actions, horizon, names or reward values, or are no runs.

    Examples:
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> policy, settings = rm.uniform_policy(model), {"num_resamples": 0, "held_out_fraction": 0.0}
        >>> old = rm.fit(rm.simulate(policy, model, 500, seed=0), **settings)
        >>> new = rm.fit(rm.simulate(policy, model, 500, seed=1), init_model=old, **settings)
        >>> comparison = rm.compare_runs(old, new)
        >>> comparison.type_pairs, comparison.changed_weights, comparison.changed_rewards
        (((0, 0), (1, 1)), (), ())
    """
    as_number("significance_level", significance_level, above=0.0, below=1.0)
    old_run, new_run = to_run_summary("old", old), to_run_summary("new", new)
    _check_same_spec(old_run.model, new_run.model)
    types = tuple(match_types(old_run.model.reward_probs, new_run.model.reward_probs))
    weights = tuple(
        _make_change((n, None, None, None), old_run.model.weights[o], new_run.model.weights[n],
               math.hypot(old_run.weight_errors[o], new_run.weight_errors[n]))
        for o, n in types
    )  # fmt: skip
    rewards = _compare_rewards(old_run, new_run, types)
    # Weights that were given in both runs have no standard error and are no test, so they do not count for Bonferroni.
    testable = [change for change in weights if math.isfinite(change.z_score)]
    num_compared = len(testable) + len(rewards)
    # Two-sided limit of the z-score under Bonferroni: level / (2 * number of comparisons) in each tail.
    limit = NormalDist().inv_cdf(1.0 - significance_level / (2.0 * max(num_compared, 1)))
    changed_weights = tuple(change for change in weights if abs(change.z_score) > limit)
    changed_rewards = sorted((s for s in rewards if abs(s.z_score) > limit), key=lambda s: -abs(s.z_score))
    in_old, in_new = (
        [evaluate(run.policy, model_run.model).value for run in (old_run, new_run)] for model_run in (old_run, new_run)
    )
    num_types_changed = old_run.model.num_types != new_run.model.num_types
    verdict = _make_verdict(num_types_changed, len(changed_weights) + len(changed_rewards), num_compared, *in_new)
    return RunComparison(
        types,
        weights,
        changed_weights,
        tuple(changed_rewards),
        num_compared,
        significance_level,
        in_old[0],
        in_old[1],
        in_new[0],
        in_new[1],
        verdict,
    )


def to_run_summary(argument: str, run: Any) -> RunSummary:
    """Return the summary of a result of ``fit`` or ``learn``, or of a loaded run."""
    if isinstance(run, RunSummary):
        return run
    if isinstance(run, FitResult):
        info = run.info.recovery
    elif isinstance(run, LearnResult):
        info = run.recovery.info
    elif isinstance(getattr(run, "summary_for_comparison", None), RunSummary):  # loaded from its folder
        return cast("RunSummary", run.summary_for_comparison)
    else:
        raise_input_error(argument, type(run).__name__, "a result of fit or learn, a loaded run, or a RunSummary")
    return RunSummary(run.model, run.plan.policy, info.reward_errors, info.weight_errors)


def _check_same_spec(old: RewardMixingMDP, new: RewardMixingMDP) -> None:
    """Raise an error if two runs differ in sizes, names or reward values."""
    for name in ("num_states", "num_actions", "horizon", "state_names", "action_names"):
        old_value, new_value = getattr(old, name), getattr(new, name)
        if old_value != new_value:
            raise_input_error("new", f"{name} {new_value!r}", f"{old_value!r}, as in the old run")
    if old.reward_values.tolist() != new.reward_values.tolist():
        actual = f"reward values {new.reward_values.tolist()}"
        raise_input_error("new", actual, f"{old.reward_values.tolist()}, as in the old run")


def _make_change(
    index: tuple[int, int | None, int | None, float | None], before: Any, after: Any, error: float
) -> Change:
    change = float(after - before)
    # Values without a finite standard error, such as given weights, have no z-score.
    deviations = change / error if 0.0 < error < math.inf else math.nan
    return Change(*index, float(before), float(after), deviations)


def _compare_rewards(old: RunSummary, new: RunSummary, types: tuple[tuple[int, int], ...]) -> list[Change]:
    """Compare the probability of each reward value where both runs know it (of the larger value if there are two)."""
    values = new.model.reward_values[1:] if new.model.num_values == 2 else new.model.reward_values
    shape = -1, new.model.num_states, new.model.num_actions, values.size
    probs = [run.model.rewards.reshape(shape) for run in (old, new)]
    errors = [np.asarray(run.reward_errors).reshape(shape) for run in (old, new)]
    changes = []
    for o, n in types:
        both = np.hypot(errors[0][o], errors[1][n])
        for s, a, z in np.argwhere(np.isfinite(both) & (both > 0)).tolist():
            index = n, s, a, float(values[z])
            changes.append(_make_change(index, probs[0][o, s, a, z], probs[1][n, s, a, z], float(both[s, a, z])))
    return changes


def _make_verdict(num_types_changed: bool, count: int, num_compared: int, old: float, new: float) -> str:
    """Summarize the comparison in one sentence."""
    finding = (
        "The number of types changed"
        if num_types_changed
        else f"{count} of {num_compared} weights and reward probabilities changed significantly"
        if count
        else f"None of {num_compared} weights and reward probabilities changed significantly"
    )
    gain = new - old
    keep_old = gain <= MAX_ACCEPTABLE_LOSS * max(abs(new), 1e-12)
    advice = "Keep the old policy." if keep_old else "Use the new policy."
    return (
        f"{finding}. Value in the new model: old policy {old:.4f}, new policy {new:.4f} (computed in the model, not "
        f"tested). {advice}"
    )
