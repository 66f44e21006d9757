"""Make the certificate of a learning run: statements about its result, each with a status.

Every statement is a ``Statement``. "Proved" are only conclusions from premises that are checked here, on the objects
themselves. The paper's theorem is not among them, because its constant is not known; the certificate lists which of its
premises hold and which do not.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rewardmix import theory
from rewardmix._core.short_repr import use_short_repr
from rewardmix.bootstrap_regret import BootstrapRegret
from rewardmix.evaluation import Evaluation, controller_value
from rewardmix.exploration import ExplorationResult
from rewardmix.exploration.bonuses import PracticalBonus, TheoryBonus
from rewardmix.exploration.exploration_result import Coverage
from rewardmix.learning.learn_settings import LearnSettings
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import Plan, default_max_operations, plan, plan_markov, plan_oracle
from rewardmix.planning.plan_result import max_rounding_error
from rewardmix.policy import Controller
from rewardmix.recovery import RecoveryResult, TypeSelection, algorithm_3, hoeffding_rule
from rewardmix.recovery.standard_errors import NORMAL_95
from rewardmix.statements import Premise, Statement, compare_values, prove

if TYPE_CHECKING:
    from rewardmix.diagnostics import Diagnostics


@dataclass(frozen=True, eq=False)
class TrueModelComparison:
    """Comparison of the policy with the optimum of the true model, where that is known.

    Attributes:
        policy_value: Exact value of the policy.
        optimal_lower: Lower bound of the best history-dependent policy.
        optimal_upper: Upper bound of the best history-dependent policy.
        markov_value: Value of the best Markov policy.
        oracle: Value if the type is known from the start.
    """

    policy_value: float
    optimal_lower: float
    optimal_upper: float
    markov_value: float
    oracle: float

    @property
    def regret(self) -> float:
        """Upper bound of the regret, ``optimal_upper`` less the value of the policy."""
        return max(self.optimal_upper - self.policy_value, 0.0)

    @property
    def regret_lower(self) -> float:
        """Regret against the best policy that was found; the remainder of ``regret`` is the gap of planning."""
        return max(self.optimal_lower - self.policy_value, 0.0)

    @property
    def normalized_score(self) -> float:
        """Fraction of the adaptivity gain that the policy attains; NaN where adapting gains nothing."""
        gain = self.optimal_lower - self.markov_value
        return (self.policy_value - self.markov_value) / gain if gain > 1e-9 else float("nan")


def compare_with_true_model(policy: Controller, model: RewardMixingMDP, gap: float) -> TrueModelComparison:
    """Compare a policy with the optimum of the true model, planned to ``gap``."""
    optimal = plan(model, gap=gap, max_operations=default_max_operations(model))
    value = controller_value(policy, model)
    return TrueModelComparison(value, optimal.lower, optimal.upper, plan_markov(model).value, plan_oracle(model).value)


@use_short_repr
@dataclass(frozen=True, eq=False)
class Certificate:
    """Statements about a learned policy: what is proved, measured, estimated or open.

    Attributes:
        bonus: Name of the exploration bonus.
        stop_reason: Why the run ended: "budget", "rule", "threshold", "limit" (the rule was not met) or "interrupted".
        statements: Every statement, with its status, numbers and premises.
        uncertainty: V_0, the planned bonus value at the end of exploration.
        uncertainty_target: V_0 at which exploration was to stop (None with a budget).
        coverage: Numbers of pairs that were observed, missing, and impossible.
        radius_inflation: Factor by which all radii must grow for the paper's linear program to have a solution (1 if it
            has one).
        weights_source: Whether the weights of that program are "known", "estimated" or "assumed equal"; unless they are
            known, a factor above 1 may only mean that the weights are wrong.
        statement_checks: Whether the program has a solution, the parities are consistent and match the model, and the
            likelihood's model is in the confidence set; None where the data do not decide.
        planned_value_bounds: Bracket of the optimal value in the recovered model. It is optimistic: the policy was
            chosen on these data.
        bootstrap: Estimated regret, or None where episodes were not stored.
        validation: Value in the environment from new episodes, or None.
        true_model: Comparison with the optimum of the true model, or None.

    Examples:
        >>> import rewardmix as rm
        >>> certificate = rm.learn("probe", num_episodes=500, num_resamples=0, seed=0).certificate
        >>> round(certificate.true_model.regret, 2), certificate.statement_checks["likelihood"]
        (0.0, True)
    """

    bonus: str
    stop_reason: str
    statements: tuple[Statement, ...]
    uncertainty: float
    uncertainty_target: float | None
    coverage: Coverage
    radius_inflation: float
    weights_source: str
    statement_checks: dict[str, bool | None]
    planned_value_bounds: tuple[float, float]
    bootstrap: BootstrapRegret | None
    validation: Evaluation | None
    true_model: TrueModelComparison | None

    @property
    def proved_statements(self) -> tuple[str, ...]:
        """Sentences that follow from checked premises."""
        return self.sentences("proved")

    @property
    def measured_statements(self) -> tuple[str, ...]:
        """Sentences about values computed in the true model or measured in the environment."""
        return self.sentences("measured")

    @property
    def unproved_statements(self) -> tuple[str, ...]:
        """Sentences about what is estimated, assumed or unknown."""
        return self.sentences("estimated", "assumed", "open")

    def sentences(self, *statuses: str) -> tuple[str, ...]:
        """List the texts of the statements with the given statuses."""
        return tuple(statement.text for statement in self.statements if statement.status in statuses)

    def add_validation(self, value: Evaluation) -> Certificate:
        """Return the certificate with the value of the policy in new episodes."""
        # A second validation replaces the statements of the first.
        replaced = "not tested", "validation", "disagreement"
        statements = tuple(statement for statement in self.statements if statement.key not in replaced)
        # Without a bootstrap the error of the planned value is unknown, so no difference counts as a contradiction.
        planned_error = float("inf") if self.bootstrap is None else self.bootstrap.value_std
        # The interval is read back as a standard error of a normal distribution.
        error = (value.upper - value.lower) / (2 * NORMAL_95)
        disagreement = compare_values(self.planned_value_bounds[0], planned_error, value.value, error, "played")
        return dataclasses.replace(
            self, validation=value, statements=(*statements, _validation_statement(value), *disagreement)
        )


@use_short_repr
@dataclass(frozen=True, eq=False)
class LearnStages:
    """Results of the stages of ``learn``, before they are certified.

    Attributes:
        exploration: Episodes whose actions did not depend on rewards.
        num_refinement_episodes: Number of refinement episodes, whose actions did.
        recovery: Recovered model.
        plan: Plan in it.
        bootstrap: Estimated regret, or None.
        true_model: Comparison with the optimum of the true model, or None.
        stop_reason: Why the run ended.
        uncertainty_target: V_0 at which exploration was to stop, or None.
        type_selection: Selected number of types, if it was selected from the episodes.
        diagnostics: Tests of the model assumptions, if they were run.
    """

    exploration: ExplorationResult
    num_refinement_episodes: int
    recovery: RecoveryResult
    plan: Plan
    bootstrap: BootstrapRegret | None
    true_model: TrueModelComparison | None
    stop_reason: str
    uncertainty_target: float | None
    type_selection: TypeSelection | None = None
    diagnostics: Diagnostics | None = None


def make_certificate(settings: LearnSettings, stages: LearnStages) -> Certificate:
    """Make the certificate from the results of the stages."""
    checked = stages.recovery.info.certificate
    # Without a pair of known sign the parities hold trivially; None means that they were not tested.
    has_signs = not math.isnan(checked.sign_agreement)
    statement_checks: dict[str, bool | None] = {
        "program": None if checked.lp_status == "not run" else checked.lp_status == "feasible",
        "parities": not checked.conflicts and checked.sign_agreement >= 1.0 if has_signs else None,
        "likelihood": checked.contains_model,
    }
    return Certificate(
        stages.exploration.info.bonus,
        stages.stop_reason,
        make_statements(settings, stages),
        stages.exploration.uncertainty,
        stages.uncertainty_target,
        stages.exploration.info.coverage,
        checked.radius_inflation,
        checked.weights_source,
        statement_checks,
        (stages.plan.lower, stages.plan.upper),
        stages.bootstrap,
        None,
        stages.true_model,
    )


def make_statements(settings: LearnSettings, stages: LearnStages) -> tuple[Statement, ...]:
    """Make all statements, proved ones only if their premises hold."""
    probability = {"probability": 1.0 - settings.failure_prob}
    return (
        *prove("bracket", bracket_premises(stages), gap=stages.plan.gap),
        *prove("intervals", interval_premises(settings, stages), **probability),
        *prove("contained", (*interval_premises(settings, stages), _containment_premise(stages)), **probability),
        *_true_model_statements(settings, stages),
        Statement("planned value", "estimated"),
        *_open_gap_statements(settings, stages),
        _regret_statement(stages),
        *_bonus_statements(settings, stages),
        Statement("not tested", "open"),
        *_run_statements(stages),
        *_assumption_statements(stages),
    )


def bracket_premises(stages: LearnStages) -> tuple[Premise, ...]:
    """List the premises of the bracket: no policy has a much larger value in the recovered model."""
    plan, model = stages.plan, stages.recovery.model
    # The value is computed here by another routine than in the planner; both may be off by the rounding error.
    slack = 4 * max_rounding_error(plan.model, plan.model.num_states)
    return (
        Premise("plan computed in the recovered model", plan.model is model),
        Premise(
            "policy value at least the lower bound", controller_value(plan.policy, plan.model) >= plan.lower - slack
        ),
    )


def interval_premises(settings: LearnSettings, stages: LearnStages) -> tuple[Premise, ...]:
    """List the premises of the confidence set: the true model is in it with the stated probability."""
    return (
        Premise("theory bonus", isinstance(settings.bonus, TheoryBonus)),
        Premise("radii with explicit constants", settings.radius_rule is hoeffding_rule),
        Premise("no adaptively collected episodes", stages.num_refinement_episodes == 0),
        Premise("failure probability below 1", 0.0 < settings.failure_prob < 1.0),
    )


def theorem_premises(settings: LearnSettings, stages: LearnStages) -> tuple[Premise, ...]:
    """List the premises of theorem:upper_bound, except for its unknown constant."""
    model, exploration = stages.recovery.model, stages.exploration
    equal = settings.weights is not None and bool(np.all(settings.weights == 0.5))
    threshold = theory.uncertainty_threshold(settings.target_regret, settings.min_separation, model.horizon)
    # A target above the theorem's threshold would be met more easily, so both are compared.
    reached = (
        stages.uncertainty_target is not None and exploration.uncertainty <= stages.uncertainty_target <= threshold
    )
    return (
        Premise("two types", model.num_types == 2),
        Premise("weights known to be equal", equal),
        Premise("two reward values", model.num_values == 2),
        *interval_premises(settings, stages),
        Premise("recovery by Algorithm 3", settings.method is algorithm_3),
        _containment_premise(stages),
        Premise("V_0 at most the threshold", reached),
    )


def _containment_premise(stages: LearnStages) -> Premise:
    """Make the premise that the recovered model is in the confidence set."""
    return Premise("recovered model in the confidence set", stages.recovery.info.certificate.contains_model)


def _true_model_statements(settings: LearnSettings, stages: LearnStages) -> Iterator[Statement]:
    """Yield the comparison with the optimum of the true model, if that is known."""
    truth = stages.true_model
    if truth is not None:
        numbers = {
            "value": truth.policy_value,
            "regret": truth.regret,
            "regret_lower": truth.regret_lower,
            "planning_gap": settings.planning_gap,
        }
        score = {} if math.isnan(truth.normalized_score) else {"normalized_score": truth.normalized_score}
        yield Statement("true model", "measured", (), {**numbers, **score})


def _open_gap_statements(settings: LearnSettings, stages: LearnStages) -> Iterator[Statement]:
    """Yield statements about brackets that planning did not close."""
    plan, bootstrap = stages.plan, stages.bootstrap
    if plan.gap > settings.planning_gap:
        numbers = {"gap": plan.gap, "planning_gap": settings.planning_gap}
        yield Statement("plan left open", "open", (), numbers, {"reason": plan.info.stop_reason})
    if bootstrap is not None and bootstrap.gap > settings.planning_gap:
        yield Statement("bootstrap left open", "open", (), {"gap": bootstrap.gap})


def _regret_statement(stages: LearnStages) -> Statement:
    """Make the statement of the estimated regret, or why there is none."""
    bootstrap = stages.bootstrap
    if bootstrap is not None:
        numbers = {"mean": bootstrap.mean, "upper": bootstrap.upper, "gap": bootstrap.gap}
        return Statement("bootstrap", "estimated", (), numbers)
    return Statement("no resamples" if stages.exploration.episodes is not None else "no episodes", "open")


def _bonus_statements(settings: LearnSettings, stages: LearnStages) -> Iterator[Statement]:
    """Yield statements about what the bonus leaves unproved, and which premises of the theorem hold."""
    info = stages.exploration.info
    if not isinstance(settings.bonus, TheoryBonus):
        yield Statement("bonus guarantee", "open", (), {}, {"bonus": info.bonus, "guarantee": info.guarantee_text})
    if not isinstance(settings.bonus, PracticalBonus):
        yield Statement(
            "theorem", "assumed", theorem_premises(settings, stages), {"target_regret": settings.target_regret}
        )
        if settings.min_separation > 0.0:
            yield Statement("separation", "assumed", (), {"separation": settings.min_separation})


def _run_statements(stages: LearnStages) -> Iterator[Statement]:
    """Yield statements about how the run ended, and whether its radii had to grow."""
    if stages.stop_reason == "interrupted":
        yield Statement("interrupted", "open")
    if stages.stop_reason == "limit":
        yield Statement(
            "rule not met", "open", (), {"limit": stages.exploration.num_episodes + stages.num_refinement_episodes}
        )
    checked = stages.recovery.info.certificate
    if checked.radius_inflation > 1.0:
        yield Statement(
            "radius inflation",
            "estimated",
            (),
            {"radius_inflation": checked.radius_inflation},
            {"weights": checked.weights_source},
        )


def _assumption_statements(stages: LearnStages) -> Iterator[Statement]:
    """Yield statements about the selected number of types, and about assumptions that the episodes reject."""
    if stages.type_selection is not None:
        yield stages.type_selection.statement
    if stages.diagnostics is not None:
        yield from (test.statement for test in stages.diagnostics.rejected)


def _validation_statement(value: Evaluation) -> Statement:
    """Make the statement of the measured value."""
    numbers = {"episodes": value.num_episodes, "value": value.value, "lower": value.lower, "upper": value.upper}
    return Statement("validation", "measured", (), numbers)
