"""Run the loop of Algorithm 2 (reward-free exploration of pairs) with any engine:

    while V_0 > uncertainty_threshold and the budget lasts:
        plan in the augmented MDP, from the counts so far
        play the plan, count

V_0 is the value of the augmented MDP in which the only reward is the bonus of a picked pair. It bounds how much of what
an episode can reach is still unknown: 1 at the start, 0 if every reachable pair has many samples.

``replan_growth`` = 1 replans after every episode, as the paper prints it. With a growth g > 1 everything (T-hat, the
confidence levels, all rows) is replanned when the number of episodes has grown by g, and when a state-action was
visited for the first time or twice as often. This second trigger is needed for correctness: a plan that is frozen while
all bonuses are saturated may collect no pair at all. In between, only the rows of pairs that have grown by g are
replanned.
Planning has a budget of multiplications that grows with the number of played steps, so it takes at most about half of
the time in large models; small models do not reach the limit.

With ``moment_order=3`` the loop plans for triples (``augmented_mdp_triples``) and counts them in addition to pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rewardmix import problems
from rewardmix._core.budget import ENV_STEP_COST, check_budget_exploration, check_budget_triples
from rewardmix._core.checks import (
    as_count,
    as_instance,
    as_number,
    as_path,
    as_seed,
    check_callback,
    quote_value,
    raise_input_error,
)
from rewardmix._core.errors import InputError
from rewardmix._core.pair_count_kernels import NEW_VISITS_SLOT, USED_SLOT
from rewardmix.episodes import Episodes
from rewardmix.exploration.augmented_mdp import make_pair_plan, replan_pairs, replan_stale_pairs
from rewardmix.exploration.augmented_mdp_triples import AnyPlan, make_triple_plan, replan_stale_triples, replan_triples
from rewardmix.exploration.batched_engine import BatchedEngine
from rewardmix.exploration.bonuses import Bonus, TheoryBonus, as_bonus, practical_bonus
from rewardmix.exploration.checkpoints import (
    PLAN_COUNTERS,
    ExplorationCheckpoint,
    ExplorationState,
    env_digest,
    normalize_settings,
)
from rewardmix.exploration.compiled_engine import CompiledEngine
from rewardmix.exploration.environment_engine import EnvironmentEngine
from rewardmix.exploration.exploration_result import (
    ExplorationError,
    ExplorationInfo,
    ExplorationProgress,
    ExplorationResult,
)
from rewardmix.exploration.running_counts import CountingRule, RunningCounts, all_pairs, all_triples
from rewardmix.exploration.strategies import Strategy, optimistic_strategy
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments

INITIAL_PLANNING_BUDGET = 800_000_000
"""Multiplications that planning may use before the first step is played: a fraction of a second.

For triples it is multiplied by X / 3, because there are that many times more triples than pairs.
"""

PLANNING_BUDGET_PER_STEP = 25
"""Multiplications that planning may use for every played step: about the cost of playing the step itself."""


TRIPLES_GUARANTEE_NOTE = ". With moment_order=3 this applies to triples, with the confidence levels of pairs"
"""Sentence added to the guarantee of a bonus if triples are explored."""


class Engine(Protocol):
    """Play plans in an environment or a model and count what happens (interface of the three engines).

    Attributes:
        rng_state: (4,) state of the random generator, stored with results.
        resumes_exactly: True if a run that continues from ``rng_state`` gives the bits of an uninterrupted run.
    """

    rng_state: NDArray[np.uint64]
    resumes_exactly: bool

    def new_counts(self, ordered: bool) -> RunningCounts:
        """Return empty counts with the sizes of the environment."""

    def play(
        self, plan: Any, choices: Any, counts: RunningCounts, until: int, replan_after: int, growth: float
    ) -> None:
        """Play and count episodes, at most until there are ``until`` episodes in total."""

    def collect_episodes(self, episodes: int) -> Episodes | None:
        """Return the stored episodes, or None if they are not stored."""


EngineMaker = Callable[[RewardMixingMDP, int, bool], Engine]


def make_compiled_engine(model: RewardMixingMDP, seed: int, keep: bool) -> Engine:
    """Return the engine that plays a model episode by episode in compiled code."""
    return CompiledEngine(model, seed, keep)


def make_batched_engine(model: RewardMixingMDP, seed: int, keep: bool) -> Engine:
    """Return the engine that draws any number of episodes of a model at once; requires ``selected_pairs`` counts."""
    return BatchedEngine(model, seed)


class OrderPlanner(NamedTuple):
    """Group the three planning functions of one moment order: pairs (2) or triples (3)."""

    make_plan: Callable[[RunningCounts, Bonus, float], Any]
    replan: Callable[[Any, RunningCounts, Bonus, float], None]
    replan_stale_rows: Callable[[Any, RunningCounts, Bonus], None]


ORDER_PLANNERS = {
    2: OrderPlanner(make_pair_plan, replan_pairs, replan_stale_pairs),
    3: OrderPlanner(make_triple_plan, replan_triples, replan_stale_triples),
}
"""Moment order (number of steps that are counted together) -> its planning functions."""


@dataclass(frozen=True, kw_only=True)
class ExplorationSettings:
    """Hold all arguments of ``explore`` except the environment and ``resume_from``; ``explore`` describes them."""

    num_episodes: int | None = None
    uncertainty_threshold: float | None = None
    min_visits: int | None = None
    min_episodes: int = 0
    failure_prob: float = 0.05
    bonus: Bonus = practical_bonus
    counting: CountingRule = all_pairs
    strategy: Strategy = optimistic_strategy
    engine: EngineMaker = make_compiled_engine
    replan_growth: float = 1.05
    seed: int = 0
    keep_episodes: bool = True
    horizon: int | None = None
    reward_values: ArrayLike | None = None
    callback: Callable[[ExplorationProgress], None] | None = None
    checkpoint_dir: str | Path | None = None
    moment_order: int = 2

    def __post_init__(self) -> None:
        if self.num_episodes is None and self.uncertainty_threshold is None:
            raise_input_error("num_episodes", None, "a number of episodes, or an uncertainty_threshold")
        if self.num_episodes is not None:
            object.__setattr__(self, "num_episodes", as_count("num_episodes", self.num_episodes, min_value=0))
        as_number("failure_prob", self.failure_prob, above=0.0, below=1.0)
        if self.uncertainty_threshold is not None:
            as_number("uncertainty_threshold", self.uncertainty_threshold, above=0.0)
        if self.min_visits is not None:
            as_count("min_visits", self.min_visits)
        as_count("min_episodes", self.min_episodes, min_value=0)
        object.__setattr__(self, "replan_growth", as_number("replan_growth", self.replan_growth, below=1e9))
        if self.replan_growth < 1.0:
            raise_input_error("replan_growth", self.replan_growth, "a factor of at least 1")
        as_seed("seed", self.seed)
        check_callback("callback", self.callback)
        as_bonus(self.bonus)
        as_instance("counting", self.counting, CountingRule)
        for name in ("strategy", "engine"):
            if not callable(getattr(self, name)):
                raise_input_error(name, quote_value(getattr(self, name)), "a function of rewardmix.exploration")
        if self.checkpoint_dir is not None:
            object.__setattr__(self, "checkpoint_dir", as_path("checkpoint_dir", self.checkpoint_dir))
        if as_order(self.moment_order) == 3:
            self._check_triples()
            object.__setattr__(self, "counting", all_triples)
        elif self.counting.order != 2:
            raise_input_error(
                "counting", self.counting.name, "all_pairs or selected_pairs; moment_order=3 counts triples"
            )

    def _check_triples(self) -> None:
        """Raise InputError for settings that exploration of triples does not support."""
        if self.counting.ordered:
            raise_input_error(
                "counting", self.counting.name, "all_pairs with moment_order=3; triples are counted with all pairs"
            )
        if self.engine is make_batched_engine:
            raise_input_error(
                "engine", "batched", "compiled with moment_order=3; the batched engine draws one pair per episode only"
            )
        if isinstance(self.bonus, TheoryBonus):
            raise_input_error(
                "bonus",
                "theory",
                "practical_bonus or paper_bonus with moment_order=3; its radii are proved for pairs only",
            )


def as_order(order: object) -> int:
    """Return the moment order as an int; raise InputError unless it is 2 or 3."""
    number = as_count("moment_order", order)
    if number not in ORDER_PLANNERS:
        raise_input_error("moment_order", number, "2 for pairs, or 3 for triples")
    return number


def explore(
    env_or_model: Any,
    *,
    num_episodes: int | None = None,
    uncertainty_threshold: float | None = None,
    min_visits: int | None = None,
    min_episodes: int = 0,
    failure_prob: float = 0.05,
    bonus: Bonus = practical_bonus,
    counting: CountingRule = all_pairs,
    strategy: Strategy = optimistic_strategy,
    engine: EngineMaker = make_compiled_engine,
    replan_growth: float = 1.05,
    seed: int = 0,
    keep_episodes: bool = True,
    horizon: int | None = None,
    reward_values: ArrayLike | None = None,
    resume_from: ExplorationResult | None = None,
    callback: Callable[[ExplorationProgress], None] | None = None,
    checkpoint_dir: str | Path | None = None,
    moment_order: int = 2,
) -> ExplorationResult:
    """Collect pairs (or triples) of rewards by reward-free exploration (Algorithm 2).

    Exploration stops when the budget is spent or the uncertainty V_0 is at most ``uncertainty_threshold``. The plan
    depends on counts only, not on rewards, so the moments are unbiased. Ctrl-C returns the episodes collected so far.

    Args:
        env_or_model: A model, a problem's name, or a Gymnasium environment (single or vector) with Discrete spaces.
        num_episodes: Budget in total, including the episodes of ``resume_from`` or of a checkpoint. ``None`` means no
            limit; then ``uncertainty_threshold`` is required.
        uncertainty_threshold: Stop once V_0, a number in [0, 1], is at most this. ``None`` means no such rule.
        min_visits: Stop once every action of every visited state was taken this often. ``None`` means no such rule.
        min_episodes: Number of episodes before ``uncertainty_threshold`` and ``min_visits`` apply.
        failure_prob: Probability that the confidence levels of the bonus are wrong.
        bonus: Exploration bonus: ``practical_bonus``, ``theory_bonus`` or ``paper_bonus(c)``.
        counting: Pairs that are counted: ``all_pairs`` of an episode, or ``selected_pairs`` as in the paper.
        strategy: ``optimistic_strategy``, or a baseline: ``uniform_strategy``, ``state_action_strategy``.
        engine: For models: ``make_compiled_engine`` or ``make_batched_engine``.
        replan_growth: Counts grow by this factor between two plans; 1 replans after every episode, as the paper does.
        seed: Seed of all random streams. Equal seeds give equal results.
        keep_episodes: Store the episodes. Beyond half a gigabyte every second, fourth, ... episode is stored.
        horizon: Maximum number of steps per episode, for an environment that does not declare it.
        reward_values: Possible rewards, for an environment that does not declare them. ``None`` means 0 and 1.
        resume_from: Earlier result to continue from.
        callback: Function called with an ``ExplorationProgress`` after every batch of episodes.
        checkpoint_dir: Folder to save progress to. If it holds a checkpoint of these settings, the run resumes from it.
        moment_order: 2 collects pairs. 3 collects triples, which three or more types may need; only for small models.

    Returns:
        Moments, episodes, uncertainty V_0 and coverage of the exploration.

    Raises:
        InputError: If an argument is invalid, or the problem exceeds the memory or operation limit.
        ExplorationError: If the environment breaks its declared rules; the error carries the result so far.

    Examples:
        >>> import rewardmix as rm
        >>> result = rm.explore("probe", num_episodes=2000, seed=1)
        >>> result.num_episodes, round(result.uncertainty, 2)
        (2000, 0.13)
        >>> result.info.coverage.num_missing
        0
        >>> rm.explore("probe", uncertainty_threshold=0.5, seed=1).num_episodes
        244
    """
    arguments = {name: value for name, value in locals().items() if name not in ("env_or_model", "resume_from")}
    return explore_with(env_or_model, ExplorationSettings(**arguments), resume_from)


def explore_with(
    env_or_model: Any, settings: ExplorationSettings, after: ExplorationResult | None = None
) -> ExplorationResult:
    """Run ``explore`` with its settings in one object."""
    env = problems.resolve_env_or_model("env_or_model", env_or_model)
    if after is not None:
        as_instance("resume_from", after, ExplorationResult)
    engine: Any
    if isinstance(env, RewardMixingMDP):
        sizes = env.num_states, env.num_actions, env.horizon, env.num_values
        num_simulated = None if settings.engine is make_batched_engine else settings.num_episodes
        # The batched engine draws all episodes of a plan at once, so its cost does not grow with num_episodes.
        check_budget_exploration(*sizes, num_simulated, settings.replan_growth)
        engine = settings.engine(env, settings.seed, settings.keep_episodes)
    else:
        # A step of a Python environment costs far more than a compiled one; the budget check takes this into account.
        engine = EnvironmentEngine(env, settings.seed, settings.keep_episodes, settings.horizon, settings.reward_values)
        sizes = *engine.sizes, engine.reward_values.size
        check_budget_exploration(*sizes, settings.num_episodes, settings.replan_growth, ENV_STEP_COST)
    if settings.moment_order == 3:
        check_budget_triples(*sizes, settings.num_episodes)
    return _ExplorationRun(env, engine, settings).finish(after)


class _ExplorationRun:
    """Hold the state of one exploration while it runs."""

    def __init__(self, env: Any, engine: Any, settings: ExplorationSettings) -> None:
        self.env, self.engine, self.settings = env, engine, settings
        self.counts: RunningCounts = engine.new_counts(settings.counting.ordered)
        if settings.moment_order == 3:
            self.counts.enable_triples()
        self.order = ORDER_PLANNERS[settings.moment_order]
        self.plan: AnyPlan = self.order.make_plan(self.counts, settings.bonus, settings.failure_prob)
        self.curve: list[tuple[float, float]] = []
        self.min_visits_reached = False
        self.checkpoint = (
            None if settings.checkpoint_dir is None else self._open_checkpoint(Path(settings.checkpoint_dir))
        )

    def _open_checkpoint(self, folder: Path) -> ExplorationCheckpoint:
        """Return the checkpoint folder, with the settings that a resumed run must share with this one."""
        settings = self.settings
        common = normalize_settings(
            spec_digest=env_digest(self.env),
            seed=settings.seed,
            bonus=settings.bonus,
            counts=settings.counting.name,
            growth=settings.replan_growth,
            failure_prob=settings.failure_prob,
            strategy=settings.strategy.__name__,
            engine=type(self.engine).__name__,
        )
        return ExplorationCheckpoint(folder, dict(common))

    def finish(self, after: ExplorationResult | None) -> ExplorationResult:
        """Continue from an earlier result or a checkpoint, and explore until a stopping rule applies."""
        self._resume(after)
        try:
            stop_reason = self._loop()
        except KeyboardInterrupt:
            stop_reason = "interrupted"
        # The episodes that were played before the environment broke its rules are valid; the error carries them.
        except InputError as error:
            raise ExplorationError(str(error), self._result("error")) from error
        return self._result(stop_reason)

    def _loop(self) -> str:
        """Alternate planning and playing until a stopping rule applies; return its name."""
        choices, next_replan = None, self.counts.episodes
        while True:
            num_played = self.counts.episodes
            # New states and doubled visits trigger a full replan as soon as the planning budget allows it. Without
            # this trigger a plan made while all bonuses were saturated could collect no pair until the next planned
            # replan.
            has_new_visits = self.counts.progress[NEW_VISITS_SLOT] and num_played >= self._next_affordable_replan()
            if num_played >= next_replan or has_new_visits:
                # A checkpoint is written just before a full replan: the plan then follows from the counts and need not
                # be stored.
                self._save()
                self._replan()
                # Episode counts of replans grow geometrically, so planning costs O(log K) replans for K episodes.
                next_replan = max(num_played + 1, math.ceil(self.settings.replan_growth * num_played))
                if num_played < self.settings.min_episodes:
                    next_replan = min(next_replan, self.settings.min_episodes)  # decide on up-to-date estimates
                choices = self.settings.strategy(self.plan)
            elif self.counts.num_stale and num_played >= self._next_affordable_replan():
                self.order.replan_stale_rows(self.plan, self.counts, self.settings.bonus)
                choices = self.settings.strategy(self.plan)
                if self._threshold_reached:
                    # The threshold is confirmed by a full replan before stopping: a partial replan uses an older
                    # T-hat.
                    next_replan = num_played
                    continue
            self._report_progress()
            if self._threshold_reached:
                return "threshold"
            if self.min_visits_reached and num_played >= self.settings.min_episodes:
                return "tried"
            if self.settings.num_episodes is not None and num_played >= self.settings.num_episodes:
                return "budget"
            until = next_replan if self.settings.num_episodes is None else min(next_replan, self.settings.num_episodes)
            self.engine.play(
                self.plan, choices, self.counts, until, self._next_affordable_replan(), self.settings.replan_growth
            )

    @property
    def _threshold_reached(self) -> bool:
        """Return whether V_0 has reached the threshold and enough episodes were played."""
        if self.settings.uncertainty_threshold is None or self.counts.episodes < self.settings.min_episodes:
            return False
        return self.plan.uncertainty <= self.settings.uncertainty_threshold

    def _replan(self) -> None:
        """Replan everything, check ``min_visits`` and append a point to the uncertainty curve."""
        self.order.replan(self.plan, self.counts, self.settings.bonus, self.settings.replan_growth)
        if self.settings.min_visits is not None and self.counts.episodes > 0:
            # States that no episode has acted in do not count: they may be unreachable.
            visits = self.counts.visits.reshape(self.counts.num_states, -1)
            self.min_visits_reached = bool(visits[visits.any(axis=1)].min() >= self.settings.min_visits)
        self.curve.append((float(self.counts.episodes), self.plan.uncertainty))

    def _next_affordable_replan(self) -> int:
        """Return the number of episodes at which the planning budget allows another plan."""
        initial_budget = INITIAL_PLANNING_BUDGET * (
            max(1, self.counts.num_state_actions // 3) if self.settings.moment_order == 3 else 1
        )
        return int(self.plan.operations - initial_budget) // (PLANNING_BUDGET_PER_STEP * int(self.counts.horizon))

    def _report_progress(self) -> None:
        """Call the callback with the progress so far."""
        if self.settings.callback is not None:
            pairs = int(self.counts.progress[USED_SLOT])
            self.settings.callback(
                ExplorationProgress(
                    self.counts.episodes,
                    self.plan.uncertainty,
                    self.settings.num_episodes,
                    self.settings.uncertainty_threshold,
                    pairs,
                )
            )

    def _result(self, stop_reason: str) -> ExplorationResult:
        """Replan from the final counts, save a last checkpoint and assemble the result."""
        # V_0 of the result must belong to the final counts, not to those of the last replan.
        if not self.curve or self.curve[-1][0] != self.counts.episodes:
            self._replan()
        if not self.engine.resumes_exactly:  # otherwise resuming from the last checkpoint reproduces this state
            self._save(final=True)
        moments = self.counts.moments()
        info = ExplorationInfo(
            stop_reason,
            self.settings.bonus.name,
            self.settings.bonus.guarantee + (TRIPLES_GUARANTEE_NOTE if self.settings.moment_order == 3 else ""),
            self.settings.counting.name,
            self.settings.replan_growth,
            np.array(self.curve).reshape(-1, 2),
            self.plan.num_replans,
            self.plan.num_rows_planned,
            moments,
            self.env if isinstance(self.env, RewardMixingMDP) else None,
        )
        episodes = self.engine.collect_episodes(self.counts.episodes)
        return ExplorationResult(
            moments, self.counts.episodes, self.plan.uncertainty, episodes, self.engine.rng_state.copy(), info
        )

    def _resume(self, after: ExplorationResult | None) -> None:
        """Load the longer of the checkpoint and the earlier result into the counts, the engine and the plan."""
        saved = self.checkpoint.load() if self.checkpoint else None
        if after is not None and (saved is None or saved.moments.num_episodes < after.num_episodes):
            saved = ExplorationState(after.moments, after.rng_state, np.empty((0, 2)), {}, after.episodes)
        if saved is None:
            return
        self.counts.add(saved.moments)
        self.engine.rng_state[:] = saved.rng_state
        if hasattr(self.engine, "restore"):
            self.engine.restore(saved.episodes, saved.moments.num_episodes)
        # The generator inside an environment cannot be stored. A resumed run draws from a stream of its own, so that
        # it does not repeat the random numbers of the episodes already counted.
        if isinstance(self.engine, EnvironmentEngine) and saved.moments.num_episodes:
            self.engine.continue_from(self.settings.seed, saved.moments.num_episodes)
        self.curve = [(float(k), float(v)) for k, v in saved.uncertainty_curve]
        for name, number in saved.plan_counters.items():
            setattr(self.plan, name, number)

    def _save(self, final: bool = False) -> None:
        """Write a checkpoint if one is due, or if ``final``."""
        if self.checkpoint is None or not (final or self.checkpoint.is_due):
            return
        counters = {name: int(getattr(self.plan, name)) for name in PLAN_COUNTERS}
        moments: Moments = self.counts.moments()
        episodes = self.engine.collect_episodes(self.counts.episodes)
        curve = np.array(self.curve).reshape(-1, 2)
        self.checkpoint.save(ExplorationState(moments, self.engine.rng_state, curve, counters, episodes))
