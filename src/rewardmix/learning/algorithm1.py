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
    quoted,
    refuse,
)
from rewardmix._core.streams import Role, seed_for
from rewardmix.episodes import Episodes
from rewardmix.evaluation import bounds_of, interval
from rewardmix.exploration import Exploration, batched, practical, selected
from rewardmix.exploration.algorithm2 import as_order
from rewardmix.exploration.bonuses import Confidence, as_confidence
from rewardmix.facts import value_in_model
from rewardmix.learning import gathering, stopping
from rewardmix.learning.certificate import Certificate, Found, certify, truth_of
from rewardmix.learning.gathering import TRIES_TO_REFINE, Gathered, LearnRound
from rewardmix.learning.learn_settings import FIRST_ROUND, LearnSettings, Stage
from rewardmix.learning.stopping import to_threshold
from rewardmix.model import RewardMixingMDP, check_type_names
from rewardmix.planning import Plan, plan, usual_work
from rewardmix.policy import Controller
from rewardmix.recovery import Choice, Recovery, best
from rewardmix.recovery.evidence import Evidence
from rewardmix.recovery.pooling import is_large
from rewardmix.recovery.recover import as_weights, estimate_model
from rewardmix.recovery.recovery_result import Estimate, Method
from rewardmix.regret import BootstrapRegret, bootstrap_regret
from rewardmix.simulation import simulate
from rewardmix.telling import Telling

if TYPE_CHECKING:
    from rewardmix.checkup import Checkup


@dataclass(frozen=True, eq=False)
class Learned(Telling):
    """What ``learn`` returns; ``summary()``, ``types``, ``report(path)`` and ``save(folder)`` speak of it.

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

    def __repr__(self) -> str:
        value = value_in_model(self.plan.lower, self.certificate.facts)
        truth = "" if self.certificate.truth is None else f", {self.certificate.truth.value:.4f} in the true one"
        return f"Learned({self.model!r}, {value}{truth}, {self.episodes} episodes)"

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
    num_contexts: int | str = 2,
    weights: ArrayLike | str | None = None,
    seed: int = 0,
    confidence: Confidence = practical,
    method: Method = best,
    refine: float | None = None,
    separation: float = 0.0,
    resamples: int = 8,
    validate: int = 0,
    horizon: int | None = None,
    reward_values: ArrayLike | None = None,
    names: Sequence[str] = (),
    on_update: Callable[[Stage], None] | None = None,
    checkpoint: str | Path | None = None,
    order: int = 2,
) -> Learned:
    """Learn a policy for a world of which nothing but its states, actions and horizon is known.

    Args:
        env_or_model: a Gymnasium environment with Discrete spaces, a problem's name, or a model. Of a model nothing is
            used but its episodes; it serves to say at the end how good the policy truly is.
        accuracy: epsilon. The rule stops when the estimated regret is at most this.
        failure: eta, what confidence levels may fail with.
        episodes: budget. Left out, the rule decides.
        num_contexts: M, or "auto" for the number that predicts held-out episodes best (``choose_contexts``): one
            too with a budget; the rule estimates the regret with two at least.
        weights: (M,) if known, "uniform" for equal ones; left out, they are estimated.
        seed: the same seed gives the same result.
        confidence: setting of exploration, ``practical``, ``theory`` or ``paper(c)``. The last two are Algorithm 1 as
            printed: without a budget they explore until V_0 is at the threshold of the theorem.
        method: of recovery, ``best`` or ``algorithm_3`` (as printed).
        refine: largest share of the episodes that refinement gets, once every action was tried; left out .5, or up to
            .75 in a large world. 0 is exploration and nothing else, as printed. Only the practical setting refines,
            with ``best``, up to a million episodes, and not in vector environments.
        separation: delta, if known; only the threshold of the theory and paper settings uses it.
        resamples: of the bootstrap; 0 leaves it out (not without a budget).
        validate: fresh episodes in which the final policy is tried.
        horizon: H of an environment that does not tell its own.
        reward_values: of an environment that does not declare them.
        names: of the types, for people, in the order in which they come out; ``named`` gives them afterwards.
        on_update: called now and then with a ``Stage``.
        checkpoint: a folder. A run that was stopped goes on from what is there, to the same result.
        order: of exploration, 2 for pairs or 3 for triples, which three and more types may need; in small worlds, and
            not with the theory and paper settings.
    """
    check_callback("on_update", on_update)
    check_type_names(names, num_contexts)
    asked = LearnSettings(
        world=_world(env_or_model),
        accuracy=as_number("accuracy", accuracy, above=0.0),
        failure=as_number("failure", failure, above=0.0, below=1.0),
        episodes=None if episodes is None else as_count("episodes", episodes),
        num_contexts=_as_contexts(num_contexts),
        weights=_as_weights(weights, num_contexts),
        seed=as_seed("seed", seed),
        confidence=as_confidence(confidence),
        method=_as_method(method),
        refine=None if refine is None else as_number("refine", refine, above=-1e-300, below=1.0),
        separation=as_number("separation", separation, above=-1e-300),
        resamples=as_count("resamples", resamples, least=2 if episodes is None and not to_threshold(confidence) else 0),
        validate=as_count("validate", validate, least=0),
        horizon=None if horizon is None else as_count("horizon", horizon),
        reward_values=None if reward_values is None else as_reward_values(reward_values),
        on_update=on_update,
        checkpoint=None if checkpoint is None else as_path("checkpoint", checkpoint),
        order=as_order(order),
    )
    if asked.order == 3 and to_threshold(confidence):
        refuse("order", 3, f"2 with the {confidence.name} setting, which is Algorithm 1 as printed")
    asked.afford()
    if asked.episodes is not None:
        learned = _within_budget(asked, asked.episodes)
    else:
        learned = _to_threshold(asked) if to_threshold(confidence) else _by_rule(asked)
    learned = _validated(asked, learned)
    return learned.named(names) if names else learned


def _world(env_or_model: Any) -> Any:
    """A model, the model of a problem's name, or an environment with Discrete spaces."""
    world = problems.as_world("env_or_model", env_or_model)
    if not isinstance(world, RewardMixingMDP):
        environments.sizes_of(world)
    return world


def _as_contexts(num_contexts: int | str) -> int | None:
    """The number of contexts; None where the episodes are to say it."""
    if isinstance(num_contexts, str) and num_contexts == "auto":
        return None
    return as_count("num_contexts", num_contexts, least=2)


def _as_weights(weights: Any, num_contexts: int | str) -> Floats | None:
    """Known weights, of a number of contexts that is known too."""
    contexts = _as_contexts(num_contexts)
    if contexts is not None:
        return as_weights(weights, contexts)
    if weights is not None:
        refuse("weights", quoted(weights), 'None where num_contexts is "auto": they are estimated')
    return None


def _as_method(method: Method) -> Method:
    if not callable(method):
        refuse("method", quoted(method), "a function: best or algorithm_3 of rewardmix.recovery")
    return method


def _within_budget(asked: LearnSettings, episodes: int) -> Learned:
    """One round, of all episodes."""
    until = {} if is_large(*asked.sizes[:2]) else {"tried": TRIES_TO_REFINE}
    return _conclude(asked, _gather(asked, LearnRound(episodes, until)), "budget")


def _by_rule(asked: LearnSettings) -> Learned:
    """Rounds, until pairs are covered and the bootstrap puts the regret at the accuracy or less."""
    states, actions, length = asked.sizes
    pairs = theory.practical_episodes(states, actions, length, asked.covered)
    asked.tell("forecast", max(FIRST_ROUND, pairs, states * actions * length / asked.accuracy))
    number = stopping.rounds_passed(asked.checkpoint)
    after, following = None, gathering.refined_before(asked, FIRST_ROUND << number)
    found: Gathered | None = None
    while True:
        total = FIRST_ROUND << number
        before = found
        found = _gather(asked, LearnRound(total, {"threshold": asked.covered}, number, after, following))
        if before is not None and found.interrupted and len(before) > len(found):
            found = dataclasses.replace(before, interrupted=True)
        last = found.interrupted or total >= stopping.MOST_EPISODES
        if found.exploration.uncertainty <= asked.covered or last:
            learned = _conclude(asked, found, "rule", asked.covered)
            if last or learned.certificate.stopped == "rule":
                return learned
        number += 1
        stopping.pass_round(asked.checkpoint, number)
        if not asked.known:
            after, following = found.exploration, found.following


def _to_threshold(asked: LearnSettings) -> Learned:
    """Explore until V_0 is at the threshold of theorem:upper_bound."""
    goal = stopping.goal_of(asked)
    if goal.at_once and asked.num_contexts != 2:
        few = f"2, where {goal.forecast:.1g} episodes leave nothing but their counts"
        refuse("num_contexts", asked.num_contexts or "auto", few)
    asked.tell("forecast", goal.forecast)
    how: dict[str, Any] = {"engine": batched, "counts": selected} if goal.at_once else {}
    found = gathering.explore_up_to(asked, goal.most, {"threshold": goal.target, **how})
    return _conclude(asked, found, "threshold", goal.target)


def _gather(asked: LearnSettings, part: LearnRound) -> Gathered:
    """Explore; then refine if that is ready, and if it is not explore on until it is."""
    found, sketch = _sketched(asked, part, gathering.explore_round(asked, part))
    if sketch is not None and not gathering.ready(asked, found, sketch):
        until = {"threshold": asked.covered, "least": found.exploration.episodes}
        found, sketch = _sketched(asked, part, gathering.explore_on(asked, part, found, until))
    return found if sketch is None else gathering.refined(asked, found, sketch, part.total - len(found))


def _sketched(asked: LearnSettings, part: LearnRound, found: Gathered) -> tuple[Gathered, Estimate | None]:
    """What recovery makes of the episodes so far, if there are any left to refine with, and to refit to."""
    if len(found) >= part.total or found.interrupted:
        return found, None
    kept = found.exploration.gathered
    if kept is None or len(kept) < found.exploration.episodes:  # they did not fit into memory
        return gathering.explore_on(asked, part, found), None
    try:
        found = gathering.examined(asked, found)
        evidence = found.evidence
        return found, estimate_model(evidence, asked.question(asked.choice(evidence)))
    except KeyboardInterrupt:
        return dataclasses.replace(found, interrupted=True), None


def _conclude(asked: LearnSettings, gathered: Gathered, aim: str, target: float | None = None) -> Learned:
    """Recover, plan, and say what is known of the result; ``aim`` is what was to end the run, at V_0 ``target``."""
    exploration, following = gathered.exploration, gathered.following
    if exploration.episodes == 0:  # only an interrupt ends exploration before its first episode
        raise KeyboardInterrupt
    evidence = gathering.examined(asked, gathered).evidence
    choice = asked.choice(evidence)
    least = 1 if aim == "budget" else 2  # one type leaves no regret to find, and would end the rule's run at once
    recovery = _recovered(asked, evidence, choice, least)
    planned = _planned(asked, recovery.model)
    bootstrap = _bootstrapped(asked, gathered, recovery, planned)
    found = Found(
        exploration,
        0 if following is None else len(following),
        recovery,
        planned,
        bootstrap,
        truth_of(planned.policy, asked.world, asked.gap) if asked.known else None,
        _ended(asked, gathered, aim, target, bootstrap),
        target,
        choice,
        _checked(asked, gathered, recovery),
    )
    certificate = certify(asked, found)
    return Learned(planned.policy, recovery.model, planned, exploration, following, recovery, certificate)


def _recovered(asked: LearnSettings, evidence: Evidence, choice: Choice | None, least: int) -> Recovery:
    """Algorithm 3; states and actions get the world's own names."""
    recovery = asked.method(evidence, asked.question(choice, least))
    return dataclasses.replace(recovery, model=environments.named_like(recovery.model, asked.world))


def _checked(asked: LearnSettings, gathered: Gathered, recovery: Recovery) -> Checkup | None:
    """Whether the world keeps to the assumptions, as far as the episodes tell; a model does by construction."""
    episodes = None if asked.known else gathered.whole
    if episodes is None:
        return None
    from rewardmix.checkup import check_assumptions  # with kernels, and only environments are checked

    asked.tell("check")
    return check_assumptions(episodes, model=recovery.model, seed=asked.seed)


def _planned(asked: LearnSettings, model: RewardMixingMDP) -> Plan:
    asked.tell("plan")
    return plan(model, gap=asked.gap, work_limit=usual_work(model), on_update=asked.teller("plan"))


def _bootstrapped(
    asked: LearnSettings, gathered: Gathered, recovery: Recovery, planned: Plan
) -> BootstrapRegret | None:
    """Estimated regret; None where no resamples are asked for or episodes were not kept."""
    episodes = gathered.whole if asked.resamples else None
    if episodes is None:
        return None
    asked.tell("bootstrap", 0)
    return bootstrap_regret(
        episodes,
        recovery,
        planned.policy,
        resamples=asked.resamples,
        gap=asked.gap,
        seed=asked.seed,
        on_update=asked.teller("bootstrap"),
    )


def _ended(
    asked: LearnSettings, gathered: Gathered, aim: str, target: float | None, bootstrap: BootstrapRegret | None
) -> str:
    """What ended the run: its aim if that was reached, otherwise the limit or the interrupt."""
    if gathered.interrupted:
        return "interrupted"
    reached = target is None or gathered.exploration.uncertainty <= target
    if aim == "rule":
        reached = reached and bootstrap is not None and bootstrap.mean <= asked.accuracy
    return aim if reached else "limit"


def _validated(asked: LearnSettings, learned: Learned) -> Learned:
    """The result with an interval from fresh episodes, if some were asked for."""
    if asked.validate == 0:
        return learned
    asked.tell("validate", 0)
    played = simulate(
        learned.policy,
        asked.world,
        max(asked.validate, 2),
        seed_for(asked.seed, Role.VALIDATION),
        on_update=asked.teller("validate"),
    )
    bounds = bounds_of(played, learned.policy, asked.world)
    certificate = learned.certificate.validated(interval(played.returns, asked.failure, bounds))
    return dataclasses.replace(learned, certificate=certificate)
