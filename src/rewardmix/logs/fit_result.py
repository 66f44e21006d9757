"""Results of ``fit``: the model, the plan, and the evidence for both."""

from __future__ import annotations

from dataclasses import dataclass

from rewardmix._core.short_repr import use_short_repr
from rewardmix.diagnostics import Diagnostics
from rewardmix.logs.adaptivity_test import AdaptivityTest
from rewardmix.logs.fit_validation import BootstrapValue, HeldOutLikelihood, LogCoverage
from rewardmix.logs.log import ReadReport
from rewardmix.logs.log_schema import LogSchema
from rewardmix.logs.off_policy import OffPolicyEstimate
from rewardmix.logs.pessimism import SupportReport
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments
from rewardmix.planning import Plan
from rewardmix.recovery import RecoveryInfo
from rewardmix.recovery.model_selection import TypeSelection, is_clear
from rewardmix.recovery.standard_errors import NORMAL_95
from rewardmix.results import ResultMixin
from rewardmix.statements import Statement, compare_values, value_in_model


@use_short_repr
@dataclass(frozen=True, eq=False)
class FitInfo:
    """Evidence about a fit.

    Attributes:
        read_report: what reading the log counted, repaired and dropped.
        schema: states, actions, horizon, reward values and names.
        moments: sufficient counts of the log.
        recovery: EM runs, certificate, standard errors and identification of the model.
        type_selection: selection of the number of types, if it was left open.
        bic: number of types -> Bayesian information criterion.
        coverage: states, actions and pairs that the log contains.
        adaptivity: test whether actions depended on rewards of the episode.
        support: how far the plan stays within the data.
        diagnostics: tests of the model's assumptions.
        held_out: log-likelihood of held-out episodes, if some were held out.
        bootstrap: bootstrap intervals, if requested.
        off_policy: doubly robust estimate of the policy's value, if episodes were held out.
        num_em_passes: number of E-steps over the whole log.
        report_text: all findings as sentences.
    """

    read_report: ReadReport
    schema: LogSchema
    moments: Moments
    recovery: RecoveryInfo
    type_selection: TypeSelection | None
    bic: dict[int, float]
    coverage: LogCoverage
    adaptivity: AdaptivityTest
    support: SupportReport
    diagnostics: Diagnostics
    held_out: HeldOutLikelihood | None
    bootstrap: BootstrapValue | None
    off_policy: OffPolicyEstimate | None
    num_em_passes: int
    report_text: tuple[str, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings that precede any result."""
        headline = self.read_report.left_out.headline
        return (headline,) if headline else ()

    @property
    def _no_rewards_statements(self) -> list[Statement]:
        """Statement that all rewards are 0, if so."""
        return [Statement("no rewards", "measured")] if self.read_report.left_out.paid == 0.0 else []

    @property
    def statements(self) -> tuple[Statement, ...]:
        """Statements on zero rewards, the number of types, rejected assumptions, and disagreement of model and data."""
        return (
            *self._no_rewards_statements,
            *self.num_types_statements,
            *(test.statement for test in self.diagnostics.rejected),
            *self.disagreement_statements,
        )

    @property
    def num_types_statements(self) -> list[Statement]:
        """Statement about the number of types.

        A selected number has the statement of its selection. A given number has one only if a single type explains the
        episodes as well.
        """
        if self.type_selection is not None:
            return [self.type_selection.statement]
        best_number, held_out = min(self.bic, key=lambda m: self.bic[m]), self.held_out
        several = held_out is not None and is_clear(
            held_out.loglik_gain, held_out.standard_error, held_out.num_episodes
        )
        return [] if several or best_number > 1 or max(self.bic) == 1 else [Statement("one type", "estimated")]

    @property
    def disagreement_statements(self) -> list[Statement]:
        """Statement that planned value and off-policy estimate disagree, if they do."""
        off_policy, bootstrap = self.off_policy, self.bootstrap
        if off_policy is None or bootstrap is None or not off_policy.is_supported:
            return []
        # Both intervals are 95 % intervals, so a standard error is their width over twice the normal quantile.
        errors = ((interval.upper - interval.lower) / (2 * NORMAL_95) for interval in (bootstrap, off_policy))
        return compare_values(bootstrap.value, next(errors), off_policy.value, next(errors), "logged")


@dataclass(frozen=True, eq=False)
class FitResult(ResultMixin):
    """Model fitted to a log, its plan, and the evidence for both.

    Attributes:
        model: fitted ``RewardMixingMDP``.
        plan: policy with bounds of the optimal value in that model. The policy to deploy is ``plan.policy``; it may be
            restricted to the actions of the log (``plan.restricted_to_support``) unless ``pessimism`` was 0.
        info: reading, identification, support, diagnostics and intervals (``FitInfo``).

    Examples:
        >>> import rewardmix as rm
        >>> model = rm.make_model("probe")
        >>> result = rm.fit(rm.simulate(rm.uniform_policy(model), model, 2000), num_resamples=0, held_out_fraction=0.0)
        >>> result.model.weights.round(1).tolist(), result.info.num_em_passes
        ([0.5, 0.5], 0)
    """

    model: RewardMixingMDP
    plan: Plan
    info: FitInfo

    def __repr__(self) -> str:
        value = value_in_model(self.plan.lower, self.info.statements)
        return f"FitResult({self.model!r}, {value}, {self.info.moments.num_episodes} episodes)"
