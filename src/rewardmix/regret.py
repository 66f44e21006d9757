"""How much a policy may lose, by the bootstrap: resample episodes, fit again, and judge the policy in each fit.

Each resample draws as many episodes as there are, with replacement; EM goes on from the model at hand (a warm start);
moves and starts are estimated anew. The value of the controller in such a model is exact; that of the best policy is
bracketed by a plan. The regret is what the plan's own policy is known to earn more, and what the plan left open beyond
that (``gaps``) is reported apart: it says how long was planned, not what the episodes leave unknown. On average the
regret follows the true one within a factor of about two. It cannot see rooms that no episode ever entered: that is what
the uncertainty V_0 is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from rewardmix._core.brevity import short
from rewardmix._core.checks import Floats
from rewardmix.episodes import Episodes
from rewardmix.evaluation import controller_value
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import plan, usual_work
from rewardmix.policy import Controller
from rewardmix.recovery.bootstrap import resampled
from rewardmix.recovery.recovery_result import Recovered


@short
@dataclass(frozen=True, eq=False)
class BootstrapRegret:
    """Regret of a policy over resampled models.

    Attributes:
        mean: average over resamples.
        upper: the largest.
        regrets: (R,) one for each resample: what a policy that was found there earns more.
        gaps: (R,) what the best policy of each resample may earn beyond that, as far as planning went.
        spread: standard deviation of the policy's value over resamples.
    """

    mean: float
    upper: float
    regrets: Floats
    gaps: Floats
    spread: float = float("inf")

    @property
    def gap(self) -> float:
        """Average of ``gaps``; the mean regret is between ``mean`` and ``mean + gap``."""
        return float(self.gaps.mean())


def bootstrap_regret(
    episodes: Episodes,
    found: Recovered,
    policy: Controller,
    *,
    prior: float = 1.0,
    resamples: int = 8,
    gap: float = 1e-3,
    seed: int = 0,
    on_update: Callable[[int], None] | None = None,
) -> BootstrapRegret:
    """Regret of ``policy`` in models fitted to resampled episodes.

    Args:
        episodes: what the model was recovered from.
        found: the recovery, where every fit starts.
        policy: to be judged.
        prior: pseudo-count of the fits, as in recovery.
        resamples: R.
        gap: of the plans that the policy is compared with; all of them together take at most the work of one plan.
        seed: of the resamples.
        on_update: called with the number of resamples done.
    """
    models = resampled(episodes, found, resamples=resamples, prior=prior, seed=seed)
    judged = judge_each(policy, models, resamples, gap=gap, on_update=on_update)
    regrets = np.array([one.regret for one in judged])
    gaps = np.array([one.gap for one in judged])
    spread = float(np.std([one.value for one in judged], ddof=1)) if len(judged) > 1 else float("inf")
    return BootstrapRegret(float(regrets.mean()), float(regrets.max()), regrets, gaps, spread)


@dataclass(frozen=True, eq=False)
class Judged:
    """A policy in a model.

    Attributes:
        value: what it earns there.
        regret: what another policy is known to earn more.
        gap: what the best policy may earn beyond that, as far as planning went.
        weights: (M,) of the contexts in the model.
    """

    value: float
    regret: float
    gap: float
    weights: Floats


def judge_each(
    policy: Controller,
    models: Iterable[RewardMixingMDP],
    resamples: int,
    *,
    gap: float,
    on_update: Callable[[int], None] | None = None,
) -> list[Judged]:
    """Judge a policy in each of ``resamples`` models; all plans together take at most the work of one."""
    judged = []
    for done, model in enumerate(models):
        judged.append(judge(policy, model, gap=gap, work_limit=usual_work(model) / resamples))
        if on_update:
            on_update(done + 1)
    return judged


def judge(policy: Controller, model: RewardMixingMDP, *, gap: float, work_limit: float) -> Judged:
    """Set a policy beside a plan for the model."""
    best, value = plan(model, gap=gap, work_limit=work_limit), controller_value(policy, model)
    known = max(best.lower, value)
    return Judged(value, known - value, max(best.upper - known, 0.0), model.weights)
