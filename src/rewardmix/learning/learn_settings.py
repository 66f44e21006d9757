"""Hold the checked arguments of ``learn`` in one object that every stage receives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rewardmix import environments
from rewardmix._core.budget import (
    ENV_STEP_COST,
    RESAMPLE_COST,
    check_budget,
    check_budget_episodes,
    check_budget_recovery,
)
from rewardmix._core.checks import Floats
from rewardmix.exploration.bonuses import Bonus, PracticalBonus
from rewardmix.exploration.exploration_result import ExplorationProgress
from rewardmix.model import RewardMixingMDP
from rewardmix.planning.plan_result import PlanProgress
from rewardmix.recovery import hoeffding_rule, maximum_likelihood
from rewardmix.recovery.confidence_set import RadiusRule
from rewardmix.recovery.evidence import RecoveryData, RecoverySettings
from rewardmix.recovery.hierarchical_prior import uses_hierarchical_prior
from rewardmix.recovery.model_selection import MAX_NUM_TYPES, TypeSelection, select_from_data
from rewardmix.recovery.recovery_result import RecoveryMethod

FIRST_ROUND_EPISODES = 1000
"""Episodes of the first round, without a budget."""

COVERED_UNCERTAINTY, COVERED_UNCERTAINTY_TRIPLES = 0.5, 0.15
"""V_0 at which exploration with the practical bonus may stop, for pairs and for triples.

The third moment is a product of three deviations, the covariance of two, so a triple carries less information than a
pair with as many samples.
"""

REFINEMENT_FRACTION, MAX_REFINEMENT_FRACTION = 0.5, 0.75
"""Largest fraction of the episodes for refinement by default, and in a large model.

In a large model the second applies as long as exploration could visit every state-action ``VISITS_BEFORE_REFINEMENT``
times: with fewer visits the estimates do not show where more data matter.
"""
VISITS_BEFORE_REFINEMENT = 12
"""Visits per state-action before refinement in a large model; six or fewer, or twenty-five, gave worse policies with
1,000 states.
"""

MAX_STORED_STEPS = 1 << 27
"""Largest number of steps that exploration stores as episodes, and to which the likelihood is fitted."""


@dataclass(frozen=True)
class LearnProgress:
    """Progress of ``learn``, the argument of ``callback``.

    Attributes:
        name: "forecast", "explore", "refine", "recover", "plan", "bootstrap", "diagnose" or "validate".
        detail: Episodes that the rule may take (forecast), an ``ExplorationProgress``, episodes so far (refine), a
            ``PlanProgress``, resamples done (bootstrap), episodes played (validate), or None where a stage begins.
    """

    name: str
    detail: ExplorationProgress | PlanProgress | float | None = None


@dataclass(frozen=True, eq=False)
class LearnSettings:
    """Checked arguments of ``learn``, each under its name there; ``env`` is the model or the environment.

    ``num_types`` is None if it is to be selected from the episodes.

    Attributes that are not arguments:
        radius_rule: Radius rule of the confidence set.
    """

    env: Any
    target_regret: float
    failure_prob: float
    num_episodes: int | None
    num_types: int | None
    weights: Floats | None
    seed: int
    bonus: Bonus
    method: RecoveryMethod
    refinement_fraction: float | None
    min_separation: float
    num_resamples: int
    num_validation_episodes: int
    horizon: int | None
    reward_values: Floats | None
    callback: Callable[[LearnProgress], None] | None
    checkpoint_dir: Path | None
    moment_order: int = 2
    radius_rule: RadiusRule = hoeffding_rule

    @property
    def has_model(self) -> bool:
        """Whether ``env`` is a model.

        Each round plays a model from the start, so that an interrupted run repeats exactly.
        """
        return isinstance(self.env, RewardMixingMDP)

    @property
    def planning_gap(self) -> float:
        """Gap of the plans."""
        return min(1e-3, self.target_regret / 20)

    @property
    def covered_uncertainty(self) -> float:
        """V_0 at which exploration with the practical bonus may stop."""
        return COVERED_UNCERTAINTY if self.moment_order == 2 else COVERED_UNCERTAINTY_TRIPLES

    @property
    def max_types(self) -> int:
        """Largest number of types that recovery may use."""
        return MAX_NUM_TYPES if self.num_types is None else self.num_types

    def select_num_types(self, evidence: RecoveryData) -> TypeSelection | None:
        """Select the number of types from the data; None if it was given, or if only counts were stored."""
        if self.num_types is not None or evidence.patterns is None:
            return None
        return select_from_data(evidence, MAX_NUM_TYPES, seed=self.seed)

    def make_recovery_settings(self, selection: TypeSelection | None, min_types: int = 2) -> RecoverySettings:
        """Make the settings of recovery; a number of types that was selected has a lower limit."""
        num_types = self.num_types or (2 if selection is None else max(min_types, selection.num_types))
        return RecoverySettings(num_types, self.weights, seed=self.seed)

    @property
    def allows_refinement(self) -> bool:
        """Whether the settings allow refinement."""
        usual = self.method is maximum_likelihood and isinstance(self.bonus, PracticalBonus)
        return self.refinement_fraction != 0 and usual and (self.has_model or not environments.is_vector(self.env))

    def max_refinement_episodes(self, total: int) -> int:
        """Compute the largest number of refinement episodes out of ``total``."""
        if self.refinement_fraction is not None:
            return int(self.refinement_fraction * total)
        states, actions, horizon = self.sizes
        if not uses_hierarchical_prior(states, actions):
            return int(REFINEMENT_FRACTION * total)
        # Exploration gets the episodes for its visits first, within the two limits of the fraction.
        num_exploration = VISITS_BEFORE_REFINEMENT * states * actions / horizon
        return int(min(max(total - num_exploration, REFINEMENT_FRACTION * total), MAX_REFINEMENT_FRACTION * total))

    @cached_property
    def sizes(self) -> tuple[int, int, int]:
        """S, A and H."""
        if self.has_model:
            return self.env.num_states, self.env.num_actions, self.env.horizon
        length = environments.get_horizon(self.env) if self.horizon is None else self.horizon
        return (*environments.get_env_sizes(self.env), length)

    @property
    def num_values(self) -> int:
        """Z, as far as it is known before any episode."""
        values = self.env.reward_values if self.has_model else self.reward_values
        if values is None:
            values = environments.get_reward_values(self.env)
        return 2 if values is None else len(values)

    def folder(self, name: str) -> Path | None:
        """Return the checkpoint folder of a stage; None without checkpoints."""
        return None if self.checkpoint_dir is None else self.checkpoint_dir / name

    def report_progress(self, name: str, detail: ExplorationProgress | PlanProgress | float | None = None) -> None:
        """Report progress to the callback, if there is one."""
        if self.callback is not None:
            self.callback(LearnProgress(name, detail))

    def make_stage_callback(self, name: str, offset: int = 0) -> Callable[[Any], None] | None:
        """Make the callback of a stage, with details counted from ``offset``; None without a callback."""
        if self.callback is None:
            return None
        return lambda detail: self.report_progress(name, detail + offset if offset else detail)

    def check_budget(self) -> None:
        """Raise ``InputError`` if memory or operations exceed the limits, before any episode is played."""
        states, actions, horizon = self.sizes
        # Without a budget only the first round is certain; later rounds are limited by the stopping rule.
        num_episodes = FIRST_ROUND_EPISODES if self.num_episodes is None else self.num_episodes
        points, steps = states * actions, num_episodes * horizon
        pairs = min(points * (points + 1) // 2, steps * (horizon + 1) // 2)
        check_budget_recovery(points, self.num_values, self.max_types, pairs, min(steps, MAX_STORED_STEPS))
        check_budget_episodes(self.num_validation_episodes, horizon, ENV_STEP_COST)
        # About a hundred E-steps per refit, each touching every stored reward once per type.
        cost = 100 * self.max_types * min(steps, MAX_STORED_STEPS) + RESAMPLE_COST
        check_budget("num_resamples", operations=self.num_resamples * cost, remedy="fewer resamples, or fewer episodes")
