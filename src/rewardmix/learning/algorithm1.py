"""Run Algorithm 1: explore pairs, recover a model, plan in it, and certify the result.

    explore  ->  ExplorationResult(moments, episodes)   Algorithm 2
    refine   ->  Refinement(episodes)                   not in the paper; refinement_fraction=0 leaves it out
    recover  ->  RecoveryResult(model)                  Algorithm 3
    plan     ->  Plan(policy)
    certify  ->  Certificate

With a budget of episodes all of it is used: at least half on exploration, the remainder on refinement if the data are
ready for it. Without a budget this repeats in rounds, each twice as long as the one before, until the pairs are covered
(V_0 <= 1/2) *and* the bootstrap estimates a regret of at most ``target_regret``. Both conditions are needed: V_0
depends on visit counts and not on rewards, and the bootstrap cannot show errors at states that no episode visited.

The paper's own settings, ``theory_bonus`` and ``paper_bonus(c)``, run Algorithm 1 as printed: without a budget
exploration continues until V_0 is at the threshold of the theorem, eps_pe, and there is no refinement. That takes so
many episodes that a model is then played by the batched engine, with the paper's own counts, and an environment is
rejected with a prediction of the number of episodes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from rewardmix import environments, problems, theory
from rewardmix._core.checks import (
    Floats,
    as_count,
    as_number,
    as_path,
    as_reward_values,
    as_seed,
    check_callback,
    quote_value,
    raise_input_error,
)
from rewardmix._core.random_streams import Role, derive_seed
from rewardmix.bootstrap_regret import BootstrapRegret, estimate_regret
from rewardmix.episodes import Episodes
from rewardmix.evaluation import bounds_of, confidence_interval
from rewardmix.exploration import ExplorationResult, make_batched_engine, practical_bonus, selected_pairs
from rewardmix.exploration.algorithm2 import as_order
from rewardmix.exploration.bonuses import Bonus, as_bonus
from rewardmix.learning import data_collection, stopping_rules
from rewardmix.learning.certificate import Certificate, LearnStages, compare_with_true_model, make_certificate
from rewardmix.learning.data_collection import MIN_VISITS_TO_REFINE, CollectedData, LearnRound
from rewardmix.learning.learn_settings import FIRST_ROUND_EPISODES, LearnProgress, LearnSettings
from rewardmix.learning.stopping_rules import runs_to_threshold
from rewardmix.model import RewardMixingMDP, check_type_names
from rewardmix.planning import Plan, default_max_operations, plan
from rewardmix.policy import Controller
from rewardmix.recovery import RecoveryResult, TypeSelection, maximum_likelihood
from rewardmix.recovery.evidence import RecoveryData
from rewardmix.recovery.hierarchical_prior import uses_hierarchical_prior
from rewardmix.recovery.ml_recovery import check_weights, estimate_model
from rewardmix.recovery.recovery_result import Estimate, RecoveryMethod
from rewardmix.results import ResultMixin
from rewardmix.simulation import simulate
from rewardmix.statements import value_in_model

if TYPE_CHECKING:
    from rewardmix.diagnostics import Diagnostics


@dataclass(frozen=True, eq=False)
class LearnResult(ResultMixin):
    """Result of ``learn``: a policy, the recovered model, and what is known about both.

    ``summary()``, ``type_profiles``, ``report(path)`` and ``save(folder)`` describe and store it.

    Attributes:
        policy: Finite-state controller that adapts within each episode; its value in any model is exact.
        model: Recovered model.
        plan: The policy with certified bounds in the recovered model.
        exploration: Episodes whose actions did not depend on rewards.
        refinement_episodes: Episodes that were played afterwards with good policies of plausible models, or None.
        recovery: Standard errors and certificate of the recovered model.
        certificate: Statements about the policy.

    Examples:
        >>> import rewardmix as rm
        >>> result = rm.learn("probe", num_episodes=500, num_resamples=0, seed=0)
        >>> result.num_episodes, result.certificate.stop_reason
        (500, 'budget')
    """

    policy: Controller
    model: RewardMixingMDP
    plan: Plan
    exploration: ExplorationResult
    refinement_episodes: Episodes | None
    recovery: RecoveryResult
    certificate: Certificate

    def __repr__(self) -> str:
        value = value_in_model(self.plan.lower, self.certificate.statements)
        truth = (
            ""
            if self.certificate.true_model is None
            else f", {self.certificate.true_model.policy_value:.4f} in the true model"
        )
        return f"LearnResult({self.model!r}, {value}{truth}, {self.num_episodes} episodes)"

    @property
    def num_episodes(self) -> int:
        """Number of episodes played, exploration and refinement together."""
        return self.exploration.num_episodes + (
            0 if self.refinement_episodes is None else len(self.refinement_episodes)
        )


def learn(
    env_or_model: Any,
    *,
    target_regret: float = 0.1,
    failure_prob: float = 0.05,
    num_episodes: int | None = None,
    num_types: int | str = 2,
    weights: ArrayLike | str | None = None,
    seed: int = 0,
    bonus: Bonus = practical_bonus,
    method: RecoveryMethod = maximum_likelihood,
    refinement_fraction: float | None = None,
    min_separation: float = 0.0,
    num_resamples: int = 8,
    num_validation_episodes: int = 0,
    horizon: int | None = None,
    reward_values: ArrayLike | None = None,
    type_names: Sequence[str] = (),
    callback: Callable[[LearnProgress], None] | None = None,
    checkpoint_dir: str | Path | None = None,
    moment_order: int = 2,
) -> LearnResult:
    """Learn a policy for an environment of which only states, actions and horizon are known (Algorithm 1).

    Explore without using rewards, estimate the types, and plan; optionally refine with good policies of plausible
    models.

    Args:
        env_or_model: Gymnasium environment with Discrete spaces, name of a problem, or model. A model is only used to
            play episodes, and at the end to compute the true value of the policy.
        target_regret: epsilon; without a budget, learning stops when the estimated regret is at most this.
        failure_prob: eta, the probability that a confidence statement is wrong.
        num_episodes: Budget of episodes. None: the stopping rule decides.
        num_types: M, or "auto" for the number that predicts held-out episodes best (``select_num_types``), which may be
            1 with a budget and is at least 2 without.
        weights: (M,) weights if known, "uniform" for equal ones; None estimates them.
        seed: Seed of the run; one seed gives one result.
        bonus: Exploration bonus: ``practical_bonus``, ``theory_bonus`` or ``paper_bonus(c)``. The last two are
            Algorithm 1 as printed: without a budget they explore until V_0 is at the threshold of the theorem.
        method: Recovery method, ``maximum_likelihood`` or ``algorithm_3`` (as printed).
        refinement_fraction: Largest fraction of the episodes for refinement, once every action was tried. None: 0.5, or
            up to 0.75 in a large model. 0: exploration only, as printed. Only the practical bonus refines, with
            ``maximum_likelihood``, up to a million episodes, and not in vector environments.
        min_separation: delta, if known; only the threshold of the theory and paper bonuses uses it.
        num_resamples: Number of bootstrap resamples; 0 leaves the bootstrap out (only with a budget).
        num_validation_episodes: Number of new episodes that evaluate the final policy.
        horizon: H of an environment that does not declare its own.
        reward_values: Reward values of an environment that does not declare them.
        type_names: Names of the types for reports, in the order of the result; ``with_type_names`` sets them later.
        callback: Function that receives a ``LearnProgress`` from time to time.
        checkpoint_dir: Folder. An interrupted run resumes from it and has the result of an uninterrupted one.
        moment_order: 2 to explore pairs or 3 for triples, which three and more types may need; 3 is for small models,
            and not for the theory and paper bonuses.

    Returns:
        Policy, model, and certificate.

    Raises:
        InputError: If an argument is out of range, arguments contradict each other, or the run exceeds the limits on
            memory or operations.

    Examples:
        >>> import rewardmix as rm
        >>> result = rm.learn("probe", num_episodes=500, num_resamples=0, seed=0)
        >>> round(result.certificate.true_model.policy_value, 2)  # the optimum, since "probe" is a known model
        4.58
    """
    check_callback("callback", callback)
    check_type_names(type_names, num_types)
    settings = LearnSettings(
        env=_resolve_env(env_or_model),
        target_regret=as_number("target_regret", target_regret, above=0.0),
        failure_prob=as_number("failure_prob", failure_prob, above=0.0, below=1.0),
        num_episodes=None if num_episodes is None else as_count("num_episodes", num_episodes),
        num_types=_check_num_types(num_types),
        weights=_as_weights(weights, num_types),
        seed=as_seed("seed", seed),
        bonus=as_bonus(bonus),
        method=_as_method(method),
        refinement_fraction=None
        if refinement_fraction is None
        else as_number("refinement_fraction", refinement_fraction, above=-1e-300, below=1.0),
        min_separation=as_number("min_separation", min_separation, above=-1e-300),
        num_resamples=as_count(
            "num_resamples", num_resamples, min_value=2 if num_episodes is None and not runs_to_threshold(bonus) else 0
        ),
        num_validation_episodes=as_count("num_validation_episodes", num_validation_episodes, min_value=0),
        horizon=None if horizon is None else as_count("horizon", horizon),
        reward_values=None if reward_values is None else as_reward_values(reward_values),
        callback=callback,
        checkpoint_dir=None if checkpoint_dir is None else as_path("checkpoint_dir", checkpoint_dir),
        moment_order=as_order(moment_order),
    )
    # The theorem is about pairs; its threshold has no counterpart for triples.
    if settings.moment_order == 3 and runs_to_threshold(bonus):
        raise_input_error("moment_order", 3, f"2 with {bonus.name}_bonus, which explores pairs")
    settings.check_budget()
    if settings.num_episodes is not None:
        learned = _run_with_budget(settings, settings.num_episodes)
    else:
        learned = _run_to_threshold(settings) if runs_to_threshold(bonus) else _run_until_accurate(settings)
    learned = _validate(settings, learned)
    return learned.with_type_names(type_names) if type_names else learned


def _resolve_env(env_or_model: Any) -> Any:
    """Return a model, the model of a problem's name, or an environment with Discrete spaces."""
    env = problems.resolve_env_or_model("env_or_model", env_or_model)
    if not isinstance(env, RewardMixingMDP):
        environments.get_env_sizes(env)
    return env


def _check_num_types(num_types: int | str) -> int | None:
    """Return the checked number of types; None for "auto"."""
    if isinstance(num_types, str) and num_types == "auto":
        return None
    return as_count("num_types", num_types, min_value=2)


def _as_weights(weights: Any, num_types: int | str) -> Floats | None:
    """Return checked weights; they may only be given for a given number of types."""
    count = _check_num_types(num_types)
    if count is not None:
        return check_weights(weights, count)
    if weights is not None:
        raise_input_error("weights", quote_value(weights), 'None with num_types="auto", which estimates them')
    return None


def _as_method(method: RecoveryMethod) -> RecoveryMethod:
    """Return the recovery method after a check that it is callable."""
    if not callable(method):
        raise_input_error(
            "method",
            quote_value(method),
            "maximum_likelihood or algorithm_3 of rewardmix.recovery, or a function with their arguments",
        )
    return method


def _run_with_budget(settings: LearnSettings, episodes: int) -> LearnResult:
    """Run a single round with all episodes of the budget."""
    # In a large model "every action tried" is not reached within a budget, so no visits are required before refinement.
    stop_options = {} if uses_hierarchical_prior(*settings.sizes[:2]) else {"min_visits": MIN_VISITS_TO_REFINE}
    return _recover_and_plan(settings, _collect(settings, LearnRound(episodes, stop_options)), "budget")


def _run_until_accurate(settings: LearnSettings) -> LearnResult:
    """Run rounds until pairs are covered and the bootstrap estimate of the regret is at most ``target_regret``."""
    states, actions, horizon = settings.sizes
    pairs = theory.estimate_practical_episodes(states, actions, horizon, settings.covered_uncertainty)
    settings.report_progress(
        "forecast", max(FIRST_ROUND_EPISODES, pairs, states * actions * horizon / settings.target_regret)
    )
    # Rounds that a checkpoint marks as too short are skipped: their outcome would be computed again without effect.
    number = stopping_rules.load_round(settings.checkpoint_dir)
    resume_from, adaptive_episodes = None, data_collection.load_refinement(settings, FIRST_ROUND_EPISODES << number)
    data: CollectedData | None = None
    while True:
        total = FIRST_ROUND_EPISODES << number
        previous = data
        data = _collect(
            settings,
            LearnRound(
                total, {"uncertainty_threshold": settings.covered_uncertainty}, number, resume_from, adaptive_episodes
            ),
        )
        # An interrupt early in a round would return fewer episodes than the round before had; the larger data are kept.
        if previous is not None and data.interrupted and len(previous) > len(data):
            data = dataclasses.replace(previous, interrupted=True)
        # Beyond this size the rule is given up, and the certificate reports the limit.
        last = data.interrupted or total >= stopping_rules.MAX_EPISODES
        if data.exploration.uncertainty <= settings.covered_uncertainty or last:
            learned = _recover_and_plan(settings, data, "rule", settings.covered_uncertainty)
            if last or learned.certificate.stop_reason == "rule":
                return learned
        number += 1
        stopping_rules.save_round(settings.checkpoint_dir, number)
        # A model plays each round again from its seed, so that a resumed run is identical; an environment cannot be
        # reset like this and keeps its episodes.
        if not settings.has_model:
            resume_from, adaptive_episodes = data.exploration, data.adaptive_episodes


def _run_to_threshold(settings: LearnSettings) -> LearnResult:
    """Explore until V_0 is at the threshold of theorem:upper_bound."""
    goal = stopping_rules.plan_threshold_run(settings)
    if goal.use_batched_engine and settings.num_types != 2:
        expected = f"2: {goal.predicted_episodes:.1g} episodes are stored as pair counts, which identify two types"
        raise_input_error("num_types", settings.num_types or "auto", expected)
    settings.report_progress("forecast", goal.predicted_episodes)
    options: dict[str, Any] = (
        {"engine": make_batched_engine, "counting": selected_pairs} if goal.use_batched_engine else {}
    )
    data = data_collection.run_exploration(
        settings, goal.max_episodes, {"uncertainty_threshold": goal.uncertainty_target, **options}
    )
    return _recover_and_plan(settings, data, "threshold", goal.uncertainty_target)


def _collect(settings: LearnSettings, learn_round: LearnRound) -> CollectedData:
    """Explore; then refine if the data are ready, otherwise continue exploring until they are."""
    data = data_collection.explore_round(settings, learn_round)
    data, estimate = _estimate_for_refinement(settings, learn_round, data)
    # Refinement plays policies of the estimated model. With wrong signs these avoid the data that would correct them,
    # so uncovered pairs are explored first.
    if estimate is not None and not data_collection.is_ready_to_refine(settings, data, estimate):
        options = {"uncertainty_threshold": settings.covered_uncertainty, "min_episodes": data.exploration.num_episodes}
        data = data_collection.continue_exploring(settings, learn_round, data, options)
        data, estimate = _estimate_for_refinement(settings, learn_round, data)
    if estimate is None:
        return data
    return data_collection.run_refinement(settings, data, estimate, learn_round.total_episodes - len(data))


def _estimate_for_refinement(
    settings: LearnSettings, learn_round: LearnRound, data: CollectedData
) -> tuple[CollectedData, Estimate | None]:
    """Estimate a model from the episodes so far, unless no episodes are left to refine or to refit."""
    if len(data) >= learn_round.total_episodes or data.interrupted:
        return data, None
    episodes = data.exploration.episodes
    # Refinement refits to whole episodes; where only counts are stored, all episodes go to exploration.
    if episodes is None or len(episodes) < data.exploration.num_episodes:  # not stored, to save memory
        return data_collection.continue_exploring(settings, learn_round, data), None
    try:
        data = data_collection.build_evidence(settings, data)
        evidence = data.evidence
        return data, estimate_model(evidence, settings.make_recovery_settings(settings.select_num_types(evidence)))
    except KeyboardInterrupt:
        return dataclasses.replace(data, interrupted=True), None


def _recover_and_plan(
    settings: LearnSettings, collected: CollectedData, aim: str, target: float | None = None
) -> LearnResult:
    """Recover, plan and certify; ``aim`` is the condition that was to end the run, with its target of V_0."""
    exploration, adaptive_episodes = collected.exploration, collected.adaptive_episodes
    if exploration.num_episodes == 0:  # only an interrupt ends exploration before its first episode
        raise KeyboardInterrupt
    evidence = data_collection.build_evidence(settings, collected).evidence
    selection = settings.select_num_types(evidence)
    # The number of types may grow with later rounds; a single type would make the estimated regret 0 at once.
    min_types = 1 if aim == "budget" else 2
    recovery = _recover(settings, evidence, selection, min_types)
    planned = _plan(settings, recovery.model)
    bootstrap = _bootstrap(settings, collected, recovery, planned)
    stages = LearnStages(
        exploration,
        0 if adaptive_episodes is None else len(adaptive_episodes),
        recovery,
        planned,
        bootstrap,
        compare_with_true_model(planned.policy, settings.env, settings.planning_gap) if settings.has_model else None,
        _stop_reason(settings, collected, aim, target, bootstrap),
        target,
        selection,
        _diagnose(settings, collected, recovery),
    )
    certificate = make_certificate(settings, stages)
    return LearnResult(planned.policy, recovery.model, planned, exploration, adaptive_episodes, recovery, certificate)


def _recover(
    settings: LearnSettings, evidence: RecoveryData, selection: TypeSelection | None, min_types: int
) -> RecoveryResult:
    """Recover the model, and copy the environment's names of states and actions to it."""
    recovery = settings.method(evidence, settings.make_recovery_settings(selection, min_types))
    return dataclasses.replace(recovery, model=environments.copy_names(recovery.model, settings.env))


def _diagnose(settings: LearnSettings, collected: CollectedData, recovery: RecoveryResult) -> Diagnostics | None:
    """Test the model assumptions on the episodes of an environment; a model satisfies them by construction."""
    episodes = None if settings.has_model else collected.all_episodes
    if episodes is None:
        return None
    from rewardmix.diagnostics import (
        run_assumption_tests,  # imported here: it compiles kernels, and only environments need it
    )

    settings.report_progress("diagnose")
    return run_assumption_tests(episodes, model=recovery.model, seed=settings.seed)


def _plan(settings: LearnSettings, model: RewardMixingMDP) -> Plan:
    """Plan in the recovered model."""
    settings.report_progress("plan")
    return plan(
        model,
        gap=settings.planning_gap,
        max_operations=default_max_operations(model),
        callback=settings.make_stage_callback("plan"),
    )


def _bootstrap(
    settings: LearnSettings, collected: CollectedData, recovery: RecoveryResult, planned: Plan
) -> BootstrapRegret | None:
    """Estimate the regret by the bootstrap; None without resamples or without stored episodes."""
    episodes = collected.all_episodes if settings.num_resamples else None
    if episodes is None:
        return None
    settings.report_progress("bootstrap", 0)
    return estimate_regret(
        episodes,
        recovery,
        planned.policy,
        num_resamples=settings.num_resamples,
        gap=settings.planning_gap,
        seed=settings.seed,
        callback=settings.make_stage_callback("bootstrap"),
    )


def _stop_reason(
    settings: LearnSettings, collected: CollectedData, aim: str, target: float | None, bootstrap: BootstrapRegret | None
) -> str:
    """Return why the run ended: its aim if that was reached, otherwise "limit" or "interrupted"."""
    if collected.interrupted:
        return "interrupted"
    reached = target is None or collected.exploration.uncertainty <= target
    if aim == "rule":
        reached = reached and bootstrap is not None and bootstrap.mean <= settings.target_regret
    return aim if reached else "limit"


def _validate(settings: LearnSettings, learned: LearnResult) -> LearnResult:
    """Add an interval from new episodes to the certificate, if validation was requested."""
    if settings.num_validation_episodes == 0:
        return learned
    settings.report_progress("validate", 0)
    episodes = simulate(
        learned.policy,
        settings.env,
        # One episode has no standard error.
        max(settings.num_validation_episodes, 2),
        derive_seed(settings.seed, Role.VALIDATION),
        callback=settings.make_stage_callback("validate"),
    )
    bounds = bounds_of(episodes, learned.policy, settings.env)
    value = confidence_interval(episodes.returns, settings.failure_prob, bounds)
    certificate = learned.certificate.add_validation(value)
    return dataclasses.replace(learned, certificate=certificate)
