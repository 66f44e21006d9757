"""Algorithm 1: explore pairs, recover a model, plan in it; and say what is known about the result.

    explore  ->  Exploration(moments, episodes)         Algorithm 2
    refine   ->  Refinement(episodes)                   not in the paper; refine=0 leaves it out
    recover  ->  Recovery(model)                        Algorithm 3
    plan     ->  Plan(policy)
    certify  ->  Certificate

With a budget the budget is spent: at least half of it on exploration, the rest on refinement if that is ready. Without
one, this goes on in rounds, each twice as long as all before, until the pairs are covered (V_0 <= 1/2) *and* the
bootstrap puts the regret at ``accuracy`` or less. Neither rule alone will do: V_0 follows the number of episodes and
not what they showed, and the bootstrap cannot see rooms that were never entered.

The paper's own settings, ``theory`` and ``paper(c)``, run Algorithm 1 as printed: without a budget exploration goes
on until V_0 is at the threshold of the theorem, eps_pe, and nothing is refined. That takes so many episodes that a
model is then played by the batched engine, with the paper's own counts, and an environment is refused with a forecast.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    quoted,
    refuse,
)
from rewardmix._core.limits import PLAYED_STEP, RESAMPLE, afford, afford_episodes, afford_recovery
from rewardmix._core.streams import Role, seed_for
from rewardmix.episodes import Episodes
from rewardmix.evaluation import controller_value, interval
from rewardmix.exploration import Exploration, batched, practical, selected
from rewardmix.exploration.bonuses import Confidence, as_confidence
from rewardmix.learning import stopping
from rewardmix.learning.certificate import Asked, Certificate, Found, Truth, certify
from rewardmix.learning.gathering import COVERED, TRIED, Gathered, Gatherer, Stage, interrupted
from rewardmix.learning.stopping import FIRST_ROUND, goal_of, pass_round, rounds_passed, to_threshold
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import Plan, plan, plan_markov, plan_told, usual_work
from rewardmix.policy import Controller
from rewardmix.recovery import Recovery, best, hoeffding, recover
from rewardmix.recovery.recover import as_weights
from rewardmix.recovery.recovery_result import Method
from rewardmix.regret import BootstrapRegret, bootstrap_regret
from rewardmix.simulation import simulate

KEPT_STEPS = 1 << 27
"""More steps than this are not kept as episodes by exploration, and no likelihood is climbed over them."""


@dataclass(frozen=True, eq=False)
class Learned:
    """What ``learn`` returns.

    Attributes:
        policy: adapts to each episode; it can be played, saved, and valued exactly in any model.
        model: the recovered world.
        plan: the policy with its bracket in that model.
        exploration: what was gathered without looking at rewards.
        refinement: episodes that were played after it where plausible models differ, or None.
        recovery: how the model came about.
        certificate: what is known about the policy.
    """

    policy: Controller
    model: RewardMixingMDP
    plan: Plan
    exploration: Exploration
    refinement: Episodes | None
    recovery: Recovery
    certificate: Certificate

    @property
    def episodes(self) -> int:
        """All that were played."""
        return self.exploration.episodes + (0 if self.refinement is None else len(self.refinement))


def learn(
    env_or_model: Any,
    *,
    accuracy: float = 0.1,
    failure: float = 0.05,
    episodes: int | None = None,
    num_contexts: int = 2,
    weights: ArrayLike | str | None = None,
    seed: int = 0,
    confidence: Confidence = practical,
    method: Method = best,
    refine: float = 0.5,
    separation: float = 0.0,
    resamples: int = 8,
    validate: int = 0,
    horizon: int | None = None,
    reward_values: ArrayLike | None = None,
    on_update: Callable[[Stage], None] | None = None,
    checkpoint: str | Path | None = None,
) -> Learned:
    """Learn a policy for a world of which nothing but its states, actions and horizon is known.

    Args:
        env_or_model: a Gymnasium environment with Discrete spaces, a problem's name, or a model. Of a model nothing is
            used but its episodes; it serves to say at the end how good the policy truly is.
        accuracy: epsilon. The rule stops when the estimated regret is at most this.
        failure: eta, what confidence levels may fail with.
        episodes: budget. Left out, the rule decides.
        num_contexts: M.
        weights: (M,) if known, "uniform" for equal ones; left out, they are estimated.
        seed: the same seed gives the same result.
        confidence: setting of exploration, ``practical``, ``theory`` or ``paper(c)``. The last two are Algorithm 1 as
            printed: without a budget they explore until V_0 is at the threshold of the theorem.
        method: of recovery, ``best`` or ``algorithm_3`` (as printed).
        refine: largest share of the episodes that refinement gets, once every action was tried; 0 is exploration and
            nothing else, as printed. Only the practical setting refines, with ``best``, up to a million episodes, and
            not in vector environments.
        separation: delta, if known; only the threshold of the theory and paper settings uses it.
        resamples: of the bootstrap; 0 leaves it out (not without a budget).
        validate: fresh episodes in which the final policy is tried.
        horizon: H of an environment that does not tell its own.
        reward_values: of an environment that does not declare them.
        on_update: called now and then with a ``Stage``.
        checkpoint: a folder. A run that was stopped goes on from what is there, to the same result.
    """
    run = _Run(
        world=_world(env_or_model),
        accuracy=as_number("accuracy", accuracy, above=0.0),
        failure=as_number("failure", failure, above=0.0, below=1.0),
        num_contexts=as_count("num_contexts", num_contexts, least=2),
        weights=as_weights(weights, num_contexts),
        seed=as_seed("seed", seed),
        confidence=as_confidence(confidence),
        method=method,
        refine=as_number("refine", refine, above=-1e-300, below=1.0),
        separation=as_number("separation", separation, above=-1e-300),
        resamples=as_count("resamples", resamples, least=0 if episodes is not None or to_threshold(confidence) else 2),
        horizon=None if horizon is None else as_count("horizon", horizon),
        reward_values=None if reward_values is None else as_reward_values(reward_values),
        tell=(lambda stage: None) if on_update is None else on_update,
        checkpoint=None if checkpoint is None else as_path("checkpoint", checkpoint),
    )
    as_count("validate", validate, least=0)
    run.check(episodes, validate, on_update)
    if episodes is not None:
        return run.finish(run.gather.up_to(as_count("episodes", episodes), {"tried": TRIED}), "budget", None, validate)
    return run.to_threshold(validate) if to_threshold(confidence) else run.by_rule(validate)


def _world(env_or_model: Any) -> Any:
    """A model, the model of a problem's name, or an environment with Discrete spaces."""
    world = problems.make(env_or_model) if isinstance(env_or_model, str) else env_or_model
    if not isinstance(world, RewardMixingMDP):
        environments.sizes_of(world)
    return world


@dataclass
class _Run:
    """One call of ``learn``: its arguments, and the stages as methods."""

    world: Any
    accuracy: float
    failure: float
    num_contexts: int
    weights: Floats | None
    seed: int
    confidence: Confidence
    method: Method
    refine: float
    separation: float
    resamples: int
    horizon: int | None
    reward_values: ArrayLike | None
    tell: Callable[[Stage], None]
    checkpoint: Path | None

    @property
    def gather(self) -> Gatherer:
        """Who plays."""
        return Gatherer(
            self.world,
            self.confidence,
            self.failure,
            self.seed,
            self.horizon,
            self.reward_values,
            self.refine,
            self.method,
            self.recovered,
            self.tell,
            self.checkpoint,
        )

    def check(self, episodes: int | None, validate: int, on_update: Any) -> None:
        """Refuse what cannot be asked, or afforded, before anything is played."""
        check_callback("on_update", on_update)
        if not callable(self.method):
            refuse("method", quoted(self.method), "a function: best or algorithm_3 of rewardmix.recovery")
        states, actions, length = self._sizes()
        played = FIRST_ROUND if episodes is None else as_count("episodes", episodes)
        points, values = states * actions, self._num_values()
        pairs, steps = min(points * (points + 1) // 2, played * length * (length + 1) // 2), played * length
        afford_recovery(points, values, self.num_contexts, pairs, min(steps, KEPT_STEPS))
        afford_episodes(validate, length, PLAYED_STEP)
        each = 100 * self.num_contexts * min(steps, KEPT_STEPS) + RESAMPLE
        afford("resamples", operations=self.resamples * each, change="fewer resamples, or fewer episodes")

    def by_rule(self, validate: int) -> Learned:
        """Rounds until pairs are covered and the bootstrap is content."""
        states, actions, length = self._sizes()
        pairs = theory.practical_episodes(states, actions, length, COVERED)
        self.tell(Stage("forecast", max(FIRST_ROUND, pairs, states * actions * length / self.accuracy)))
        number, gather = rounds_passed(self.checkpoint), self.gather
        after, following = None, gather.refined_before(FIRST_ROUND << number)
        found: Gathered | None = None
        while True:
            total = FIRST_ROUND << number
            before, found = found, gather.up_to(total, {"threshold": COVERED}, after, following, number)
            if before is not None and found.interrupted and len(before) > len(found):
                found = dataclasses.replace(before, interrupted=True)
            last = found.interrupted or total >= stopping.MOST_EPISODES
            if found.exploration.uncertainty <= COVERED or last:
                learned = self.finish(found, "rule", COVERED, 0)
                if last or learned.certificate.stopped == "rule":
                    return self._validated(learned, validate)
            number += 1
            pass_round(self.checkpoint, number)
            if not gather.known:
                after, following = found.exploration, found.following

    def to_threshold(self, validate: int) -> Learned:
        """Explore until V_0 is at the threshold of theorem:upper_bound."""
        goal = goal_of(self.confidence, self.accuracy, self.separation, self.failure, self._sizes(), self.gather.known)
        if goal.at_once and self.num_contexts > 2:
            few = f"2, where {goal.forecast:.1g} episodes leave nothing but their counts"
            refuse("num_contexts", self.num_contexts, few)
        self.tell(Stage("forecast", goal.forecast))
        how: dict[str, Any] = {"engine": batched, "counts": selected} if goal.at_once else {}
        found = self.gather.explored(goal.most, {"threshold": goal.target, **how})
        return self.finish(Gathered(found, None, interrupted(found)), "threshold", goal.target, validate)

    def finish(self, gathered: Gathered, stopped: str, target: float | None, validate: int) -> Learned:
        """Algorithm 3, planning, and what may be said of the result."""
        exploration = gathered.exploration
        if exploration.episodes == 0:  # only an interrupt ends exploration before its first episode
            raise KeyboardInterrupt
        recovery = self.recovered(gathered)
        self.tell(Stage("plan"))
        found = plan(
            recovery.model,
            gap=self._gap,
            work_limit=usual_work(recovery.model),
            on_update=lambda round_: self.tell(Stage("plan", round_)),
        )
        bootstrap = self._bootstrap(gathered, recovery, found)
        certificate = certify(
            Asked(
                self.confidence,
                self.method,
                hoeffding,
                self.weights,
                self.accuracy,
                self.failure,
                self.separation,
                self._gap,
            ),
            Found(
                exploration,
                0 if gathered.following is None else len(gathered.following),
                recovery,
                found,
                bootstrap,
                self._truth(found),
                self._ended(gathered, stopped, target, bootstrap),
                target,
            ),
        )
        learned = Learned(found.policy, recovery.model, found, exploration, gathered.following, recovery, certificate)
        return self._validated(learned, validate)

    def _ended(self, gathered: Gathered, asked: str, target: float | None, bootstrap: BootstrapRegret | None) -> str:
        """What ended the run: what was asked for if it was reached, otherwise the limit or the interrupt."""
        if gathered.interrupted:
            return "interrupted"
        reached = target is None or gathered.exploration.uncertainty <= target
        if asked == "rule":
            reached = reached and bootstrap is not None and bootstrap.mean <= self.accuracy
        return asked if reached else "limit"

    def recovered(self, gathered: Gathered) -> Recovery:
        """Algorithm 3, on whole episodes if they were kept; states and actions get the world's own names."""
        self.tell(Stage("recover"))
        kept = gathered.exploration.gathered
        recovery = recover(
            gathered.exploration.moments if kept is None else kept,
            following=None if kept is None else gathered.following,
            num_contexts=self.num_contexts,
            weights=self.weights,
            method=self.method,
            seed=self.seed,
            failure=self.failure,
            accuracy=self.accuracy,
            radius=hoeffding,
        )
        states, actions = environments.names_of(self.world)
        ended = ("end",) * (recovery.model.num_states - len(states)) if states else ()
        named = dataclasses.replace(recovery.model, state_names=(*states, *ended), action_names=actions)
        return dataclasses.replace(recovery, model=named)

    def _bootstrap(self, gathered: Gathered, recovery: Recovery, found: Plan) -> BootstrapRegret | None:
        episodes = gathered.whole
        if episodes is None or self.resamples == 0:
            return None
        self.tell(Stage("bootstrap", 0))
        return bootstrap_regret(
            episodes,
            recovery,
            found.policy,
            resamples=self.resamples,
            gap=self._gap,
            seed=self.seed,
            on_update=lambda done: self.tell(Stage("bootstrap", done)),
        )

    def _validated(self, learned: Learned, episodes: int) -> Learned:
        """The same with an interval from fresh episodes, if some were asked for."""
        if episodes == 0:
            return learned
        self.tell(Stage("validate", 0))
        played = simulate(
            learned.policy,
            self.world,
            max(episodes, 2),
            seed_for(self.seed, Role.VALIDATION),
            on_update=lambda done: self.tell(Stage("validate", done)),
        )
        certificate = learned.certificate.validated(interval(played.returns, self.failure))
        return dataclasses.replace(learned, certificate=certificate)

    def _truth(self, found: Plan) -> Truth | None:
        if not isinstance(self.world, RewardMixingMDP):
            return None
        ideal = plan(self.world, gap=self._gap, work_limit=usual_work(self.world))
        value = controller_value(found.policy, self.world)
        return Truth(value, ideal.lower, ideal.upper, plan_markov(self.world).value, plan_told(self.world).value)

    @property
    def _gap(self) -> float:
        return min(1e-3, self.accuracy / 20)

    def _sizes(self) -> tuple[int, int, int]:
        if isinstance(self.world, RewardMixingMDP):
            return self.world.num_states, self.world.num_actions, self.world.horizon
        length = environments.horizon_of(self.world) if self.horizon is None else self.horizon
        return (*environments.sizes_of(self.world), length)

    def _num_values(self) -> int:
        if self.reward_values is not None and not isinstance(self.world, RewardMixingMDP):
            return len(as_reward_values(self.reward_values))
        values = (
            self.world.reward_values
            if isinstance(self.world, RewardMixingMDP)
            else environments.reward_values_of(self.world)
        )
        return 2 if values is None else len(values)
