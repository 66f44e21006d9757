"""Estimate the regret of a policy by the bootstrap: resample episodes, refit, and evaluate the policy in each fit.

Each resample draws K times from the K episodes with replacement. EM starts at the fitted model (warm start), and the
transition and the initial distribution are estimated again. The value of the controller in such a model is exact; the
optimal value is bracketed by a plan. The regret is the difference to the certified lower bound of the plan. What the
bracket leaves open (``planning_gaps``) is reported separately: it depends on the planning time and not on the data. On
average the estimate is within a factor of about two of the true regret. It cannot see states that no episode visited;
the uncertainty V_0 covers these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from rewardmix._core.checks import Floats
from rewardmix._core.short_repr import use_short_repr
from rewardmix.episodes import Episodes
from rewardmix.evaluation import controller_value
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import default_max_operations, plan
from rewardmix.policy import Controller
from rewardmix.recovery.bootstrap import iter_bootstrap_models
from rewardmix.recovery.recovery_result import RecoveryOrEstimate


@use_short_repr
@dataclass(frozen=True, eq=False)
class BootstrapRegret:
    """Regret of a policy over bootstrap models.

    Attributes:
        mean: Mean regret over resamples.
        upper: Largest regret.
        regrets: Regret in each resample, compared with the plan's lower bound, shape (R,).
        planning_gaps: Upper bound of the optimal value minus the best known value in each resample, shape (R,).
        value_std: Standard deviation of the policy's value over resamples.
    """

    mean: float
    upper: float
    regrets: Floats
    planning_gaps: Floats
    value_std: float = float("inf")

    @property
    def gap(self) -> float:
        """Return the mean planning gap; the true mean is between ``mean`` and ``mean + gap``."""
        return float(self.planning_gaps.mean())


def estimate_regret(
    episodes: Episodes,
    recovery: RecoveryOrEstimate,
    policy: Controller,
    *,
    pseudocount: float = 1.0,
    num_resamples: int = 8,
    gap: float = 1e-3,
    seed: int = 0,
    callback: Callable[[int], None] | None = None,
) -> BootstrapRegret:
    """Estimate the regret of ``policy`` in models fitted to resampled episodes.

    Args:
        episodes: Episodes from which the model was recovered.
        recovery: Recovery result, at which every refit starts.
        policy: Policy to evaluate.
        pseudocount: Pseudocount of the refits, as in the recovery.
        num_resamples: Number of resamples, R.
        gap: Target gap of the plans; together they take at most the operations of one plan.
        seed: Seed of the resampling.
        callback: Function that is called with the number of finished resamples.

    Returns:
        Regrets and planning gaps.
    """
    models = iter_bootstrap_models(episodes, recovery, num_resamples=num_resamples, pseudocount=pseudocount, seed=seed)
    results = evaluate_regrets(policy, models, num_resamples, gap=gap, callback=callback)
    # Open gaps are not added to the regrets: they depend on the planning time and would hide what the data say.
    regrets = np.array([result.regret for result in results])
    gaps = np.array([result.planning_gap for result in results])
    value_std = float(np.std([result.value for result in results], ddof=1)) if len(results) > 1 else float("inf")
    return BootstrapRegret(float(regrets.mean()), float(regrets.max()), regrets, gaps, value_std)


@dataclass(frozen=True, eq=False)
class PolicyRegret:
    """Policy evaluated in one model.

    Attributes:
        value: Value of the policy.
        regret: Best known value (the plan's lower bound or ``value``) minus ``value``.
        planning_gap: Upper bound of the optimal value minus the best known value.
        weights: Probabilities of the types in the model, shape (M,).
    """

    value: float
    regret: float
    planning_gap: float
    weights: Floats


def evaluate_regrets(
    policy: Controller,
    models: Iterable[RewardMixingMDP],
    num_resamples: int,
    *,
    gap: float,
    callback: Callable[[int], None] | None = None,
) -> list[PolicyRegret]:
    """Evaluate a policy in each of ``num_resamples`` models; all plans together take at most the operations of one."""
    results = []
    for done, model in enumerate(models):
        # Plans share the budget of one plan, so the number of resamples does not multiply the run time.
        results.append(
            evaluate_regret(policy, model, gap=gap, max_operations=default_max_operations(model) / num_resamples)
        )
        if callback:
            callback(done + 1)
    return results


def evaluate_regret(policy: Controller, model: RewardMixingMDP, *, gap: float, max_operations: float) -> PolicyRegret:
    """Compare a policy with a plan for the model."""
    best, value = plan(model, gap=gap, max_operations=max_operations), controller_value(policy, model)
    # The policy itself may be better than the plan's lower bound; then its known regret is 0.
    best_known = max(best.lower, value)
    return PolicyRegret(value, best_known - value, max(best.upper - best_known, 0.0), model.weights)
