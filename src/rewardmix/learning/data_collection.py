"""Collect the data of a learning run: episodes of exploration, then of refinement when the data are ready for it.

Data are ready if every action of every visited state was tried five times, and either pairs (or triples) are covered or
nearly all EM runs end at one optimum. Refinement cannot discover states that no episode visited, nor signs that pairs
leave open. If data are not ready, exploration continues until pairs are covered, and refinement follows then.

In a large model, of more than 256 state-actions, a budget is too short for that. Refinement there starts if 95 % of the
actions of visited states were tried three times, and two of five EM runs end at nearly equal objectives. It is
optimistic about rewards with few visits there, so it corrects its own errors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rewardmix._core.errors import InputError
from rewardmix.episodes import Episodes
from rewardmix.exploration import ExplorationError, ExplorationResult, explore
from rewardmix.learning.learn_settings import LearnSettings
from rewardmix.learning.refinement import load_batches, refine
from rewardmix.recovery.evidence import RecoveryData, add_adaptive_episodes, check_budget_data, make_recovery_data
from rewardmix.recovery.hierarchical_prior import uses_hierarchical_prior
from rewardmix.recovery.recovery_result import Estimate

MIN_VISITS_TO_REFINE = 5
"""Visits of every action in every state that was visited before refinement may begin.

Only states that are hard to reach have so few: if an action there opens a new state every third time, five tries miss
it one time in eight. More tries would spend the episodes that reach these states on actions that no good policy takes.
"""

MIN_SHARE_AT_OPTIMUM = 0.8
"""Fraction of the EM runs that must end at one optimum.

Signs that pairs leave open lead to several, and refinement would not correct them: the policies of a model with wrong
signs avoid the pairs that would show it.
"""

MIN_VISITS_LARGE, MIN_TRIED_SHARE = 3, 0.95
"""In a large model: the share of the actions of visited states (second) that must have this many visits (first)."""

MIN_SHARE_NEAR_OPTIMUM, NEAR_OPTIMUM_TOLERANCE = 0.4, 0.01
"""In a large model: the share of the EM runs (first) that must end within this many nats per state-action (second) of
the best. With very many state-actions and few visits no two runs end at exactly one point.
"""

MAX_REFINED_EPISODES = 1_000_000
"""Larger budgets have no refinement: rewards are known well by then, and every batch would refit to all episodes."""


@dataclass(frozen=True, eq=False)
class CollectedData:
    """Data of a run that recovery may use.

    Attributes:
        exploration: Episodes whose actions did not depend on rewards.
        adaptive_episodes: Episodes of refinement, if there are any.
        interrupted: Whether Ctrl-C ended the run.
        nonadaptive_evidence: Recovery data of the exploration alone, once built.
    """

    exploration: ExplorationResult
    adaptive_episodes: Episodes | None = None
    interrupted: bool = False
    nonadaptive_evidence: RecoveryData | None = None

    def __len__(self) -> int:
        return self.exploration.num_episodes + (0 if self.adaptive_episodes is None else len(self.adaptive_episodes))

    @property
    def all_episodes(self) -> Episodes | None:
        """All episodes together, if they were stored."""
        episodes = self.exploration.episodes
        return episodes if episodes is None or self.adaptive_episodes is None else episodes + self.adaptive_episodes

    @property
    def evidence(self) -> RecoveryData:
        """All recovery data; adaptive episodes are used only beside stored nonadaptive ones."""
        assert self.nonadaptive_evidence is not None
        episodes = self.exploration.episodes
        return (
            self.nonadaptive_evidence
            if episodes is None or self.adaptive_episodes is None
            else add_adaptive_episodes(self.nonadaptive_evidence, episodes, self.adaptive_episodes)
        )


@dataclass(frozen=True, eq=False)
class LearnRound:
    """Part of a run: its number of episodes, and what it continues from.

    Attributes:
        total_episodes: Episodes at its end, with those before.
        stop_options: Arguments of ``explore`` that may end exploration and begin refinement; if empty, the whole share
            of refinement is reserved, and exploration continues if the data are not ready.
        index: Index of the round. Each round of a model has its own checkpoint, since it replans at other times than
            the one before.
        resume_from: Exploration to continue.
        adaptive_episodes: Episodes of refinement so far.
    """

    total_episodes: int
    stop_options: dict[str, Any]
    index: int = 0
    resume_from: ExplorationResult | None = None
    adaptive_episodes: Episodes | None = None

    @property
    def num_exploration_episodes(self) -> int:
        """Number of episodes left for exploration."""
        return self.total_episodes - (0 if self.adaptive_episodes is None else len(self.adaptive_episodes))

    def folder(self, has_model: bool) -> str:
        """Return the name of the checkpoint folder of exploration."""
        return f"exploration-{self.index}" if has_model and self.index else "exploration"


def explore_round(settings: LearnSettings, learn_round: LearnRound) -> CollectedData:
    """Run Algorithm 2 until refinement may begin, or to the end of the round if there is no refinement."""
    spent = learn_round.total_episodes - learn_round.num_exploration_episodes
    # What earlier rounds spent on refinement counts towards its share of the larger total.
    max_refinement = (
        settings.max_refinement_episodes(learn_round.total_episodes) - spent
        if settings.allows_refinement and learn_round.total_episodes <= MAX_REFINED_EPISODES
        else 0
    )
    if max_refinement > 0 and not learn_round.stop_options:
        data = run_exploration(
            settings,
            learn_round.num_exploration_episodes - max_refinement,
            {},
            learn_round.resume_from,
            learn_round.folder(settings.has_model),
        )
    else:
        stop_options = (
            {**learn_round.stop_options, "min_episodes": learn_round.num_exploration_episodes - max_refinement}
            if max_refinement > 0
            else {}
        )
        data = run_exploration(
            settings,
            learn_round.num_exploration_episodes,
            stop_options,
            learn_round.resume_from,
            learn_round.folder(settings.has_model),
        )
    return replace(data, adaptive_episodes=learn_round.adaptive_episodes)


def continue_exploring(
    settings: LearnSettings,
    learn_round: LearnRound,
    collected: CollectedData,
    stop_options: dict[str, Any] | None = None,
) -> CollectedData:
    """Continue Algorithm 2 in a round in which data are not ready, to its end or as ``stop_options`` say.

    After Ctrl-C the longer of the two explorations is kept.
    """
    # Of a model the exploration is played again from its seed, which makes the result independent of interruptions.
    resume_from = None if settings.has_model else collected.exploration
    data = run_exploration(
        settings,
        learn_round.num_exploration_episodes,
        stop_options or {},
        resume_from,
        f"{learn_round.folder(settings.has_model)}-on",
    )
    # A model's exploration starts over here, so an early interrupt could leave less data than before.
    all_data = replace(data, adaptive_episodes=collected.adaptive_episodes)
    return all_data if len(all_data) >= len(collected) else replace(collected, interrupted=True)


def run_exploration(
    settings: LearnSettings,
    num_episodes: int,
    stop_options: dict[str, Any],
    resume_from: ExplorationResult | None = None,
    folder: str = "exploration",
) -> CollectedData:
    """Run Algorithm 2 up to ``num_episodes`` episodes in total."""
    exploration = explore(
        settings.env,
        num_episodes=num_episodes,
        **stop_options,
        failure_prob=settings.failure_prob,
        bonus=settings.bonus,
        seed=settings.seed,
        horizon=settings.horizon,
        reward_values=settings.reward_values,
        resume_from=resume_from,
        callback=settings.make_stage_callback("explore"),
        checkpoint_dir=settings.folder(folder),
        moment_order=settings.moment_order,
    )
    return CollectedData(exploration, None, exploration.info.stop_reason == "interrupted")


def build_evidence(settings: LearnSettings, collected: CollectedData) -> CollectedData:
    """Build the recovery data of the exploration: its counts, and whole episodes if they were stored."""
    settings.report_progress("recover")
    episodes, moments = collected.exploration.episodes, collected.exploration.moments
    # Long runs store counts only; recovery then has no whole episodes and uses pair tables.
    data = moments if episodes is None else episodes
    check_budget_data(data, collected.adaptive_episodes, settings.max_types)
    if collected.nonadaptive_evidence is not None:
        return collected
    set_options: Any = {
        "failure_prob": settings.failure_prob,
        "epsilon": settings.target_regret,
        "radius": settings.radius_rule,
    }
    return replace(
        collected,
        nonadaptive_evidence=make_recovery_data(data, moments=None if episodes is None else moments, **set_options),
    )


def is_ready_to_refine(settings: LearnSettings, collected: CollectedData, recovery: Estimate) -> bool:
    """Return whether refinement may begin."""
    moments = collected.exploration.moments
    covered = collected.exploration.uncertainty <= settings.covered_uncertainty
    if uses_hierarchical_prior(moments.num_states, moments.num_actions):
        has_optimum = covered or has_near_optima(recovery)
        return covers_actions(collected.exploration) and has_optimum
    return covered or has_single_optimum(recovery)


def has_single_optimum(recovery: Estimate) -> bool:
    """Return whether nearly all EM runs ended at one optimum; with more than two types only the best are listed."""
    return recovery.model.num_types == 2 and recovery.num_reproduced >= MIN_SHARE_AT_OPTIMUM * len(recovery.em_runs)


def covers_actions(exploration: ExplorationResult) -> bool:
    """Return whether nearly all actions of visited states were tried a few times."""
    moments = exploration.moments
    visits = moments.visits.reshape(moments.num_states, -1)
    # States without any visit are left out: refinement cannot reach them either.
    is_tried = visits[visits.any(axis=1)] >= MIN_VISITS_LARGE
    return bool(is_tried.sum() >= MIN_TRIED_SHARE * is_tried.size)


def has_near_optima(recovery: Estimate) -> bool:
    """Return whether many EM runs ended about as high as the best."""
    objectives = np.array([run.objective for run in recovery.em_runs])
    slack = NEAR_OPTIMUM_TOLERANCE * recovery.model.num_states * recovery.model.num_actions
    return bool((objectives >= objectives.max() - slack).mean() >= MIN_SHARE_NEAR_OPTIMUM)


def run_refinement(
    settings: LearnSettings, collected: CollectedData, recovery: Estimate, num_episodes: int
) -> CollectedData:
    """Run refinement: add ``num_episodes`` episodes played with good policies of plausible models."""
    all_data = collected.all_episodes
    assert all_data is not None
    num_played, evidence, recovery_settings = len(all_data), collected.evidence, settings.make_recovery_settings(None)
    assert evidence.patterns is not None
    prior_mean = evidence.prior_mean(evidence.patterns, recovery_settings) if evidence.hierarchical_prior else None
    settings.report_progress("refine", num_played)
    try:
        refinement = refine(
            settings.env,
            all_data,
            recovery,
            num_episodes=num_episodes,
            pseudocount=evidence.pseudocount(recovery_settings),
            prior_mean=prior_mean,
            seed=settings.seed,
            callback=settings.make_stage_callback("refine", num_played),
            checkpoint_dir=settings.folder(f"refinement/{num_played + num_episodes:012d}"),
        )
    # Episodes collected so far are attached to the error, so that the caller does not lose them.
    except InputError as error:  # the environment violated its declared spaces
        raise ExplorationError(str(error), collected.exploration) from error
    earlier = collected.adaptive_episodes
    adaptive_episodes = refinement.episodes if earlier is None else earlier + refinement.episodes
    return replace(collected, adaptive_episodes=adaptive_episodes, interrupted=refinement.interrupted)


def load_refinement(settings: LearnSettings, total: int) -> Episodes | None:
    """Load the refinement episodes that an earlier, interrupted call played in shorter rounds."""
    folder = settings.folder("refinement")
    return None if settings.has_model or folder is None else load_batches(folder, total)
