"""What a run of ``learn`` may say about its result.

Every statement is a ``Fact`` with a kind. Proved is only what follows from premises that are checked here, on the
objects themselves; the paper's theorem is not among it, since its constant is not known: of it the certificate says
whether its premises hold, and which do not.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rewardmix import theory
from rewardmix._core.brevity import short
from rewardmix.evaluation import Evaluation, controller_value
from rewardmix.exploration import Exploration
from rewardmix.exploration.bonuses import Practical, Theory
from rewardmix.exploration.exploration_result import Coverage
from rewardmix.facts import Fact, Premise, disagreement, proved
from rewardmix.learning.learn_settings import LearnSettings
from rewardmix.model import RewardMixingMDP
from rewardmix.planning import Plan, plan, plan_markov, plan_told, usual_work
from rewardmix.planning.plans import rounding_bound
from rewardmix.policy import Controller
from rewardmix.recovery import Choice, Recovery, algorithm_3, hoeffding
from rewardmix.recovery.standard_errors import NORMAL_95
from rewardmix.regret import BootstrapRegret

if TYPE_CHECKING:
    from rewardmix.checkup import Checkup


@dataclass(frozen=True, eq=False)
class Truth:
    """How the policy stands in the true model, where that is known.

    Attributes:
        value: exact value of the policy.
        best_lower: lower bound of the best history-dependent policy.
        best_upper: upper bound of it.
        markov: value of the best policy that does not adapt.
        told: value if the context were told.
    """

    value: float
    best_lower: float
    best_upper: float
    markov: float
    told: float

    @property
    def regret(self) -> float:
        """What the policy loses against the best, at most."""
        return max(self.best_upper - self.value, 0.0)

    @property
    def least_regret(self) -> float:
        """What it loses against the best policy that was found; the rest of ``regret`` is what planning left open."""
        return max(self.best_lower - self.value, 0.0)

    @property
    def share(self) -> float:
        """Share of the gain of adapting that the policy captures; NaN where adapting gains nothing."""
        gain = self.best_lower - self.markov
        return (self.value - self.markov) / gain if gain > 1e-9 else float("nan")


def truth_of(policy: Controller, world: RewardMixingMDP, gap: float) -> Truth:
    """How a policy stands in the true model; ``gap``: of the bracket of the best."""
    ideal = plan(world, gap=gap, work_limit=usual_work(world))
    value = controller_value(policy, world)
    return Truth(value, ideal.lower, ideal.upper, plan_markov(world).value, plan_told(world).value)


@short
@dataclass(frozen=True, eq=False)
class Certificate:
    """What is known about a learned policy.

    Attributes:
        setting: name of the confidence setting.
        stopped: what ended the run: "budget", "rule", "threshold", "limit" (the rule was not met) or "interrupted".
        facts: every statement, with its kind, numbers and premises.
        uncertainty: V_0.
        target: V_0 at which exploration was to stop (None with a budget).
        coverage: pairs seen, never seen, impossible.
        kappa: factor by which all radii must grow for the paper's program to have a solution (1: as they are).
        kappa_weights: whether the weights it was computed at are "known", "estimated" or "assumed equal"; unless they
            are known, a kappa above 1 may only mean that they are off.
        agreement: whether the program has a solution, the parities agree with each other and with the model, and the
            likelihood's model is in the confidence set; None where the data decide nothing.
        planned: bracket of the best value in the recovered model. Optimistic: it was chosen on the same data.
        bootstrap: estimated regret, or None where episodes were not kept.
        validation: value in the environment by fresh episodes, or None.
        truth: standing in the true model, or None.
    """

    setting: str
    stopped: str
    facts: tuple[Fact, ...]
    uncertainty: float
    target: float | None
    coverage: Coverage
    kappa: float
    kappa_weights: str
    agreement: dict[str, bool | None]
    planned: tuple[float, float]
    bootstrap: BootstrapRegret | None
    validation: Evaluation | None
    truth: Truth | None

    @property
    def proved(self) -> tuple[str, ...]:
        """Sentences that follow from premises which were checked."""
        return self.sentences("proved")

    @property
    def measured(self) -> tuple[str, ...]:
        """Sentences on what was computed in the true model or played in the world."""
        return self.sentences("measured")

    @property
    def not_proved(self) -> tuple[str, ...]:
        """Sentences on what is estimated, assumed or not known."""
        return self.sentences("estimated", "assumed", "open")

    def sentences(self, *kinds: str) -> tuple[str, ...]:
        """The facts of these kinds, in words."""
        return tuple(fact.sentence for fact in self.facts if fact.kind in kinds)

    def validated(self, value: Evaluation) -> Certificate:
        """The certificate after the policy was tried on fresh episodes."""
        kept = tuple(fact for fact in self.facts if fact.what not in ("not tried", "validation", "disagreement"))
        spread = float("inf") if self.bootstrap is None else self.bootstrap.spread
        error = (value.upper - value.lower) / (2 * NORMAL_95)
        apart = disagreement(self.planned[0], spread, value.value, error, "played")
        return dataclasses.replace(self, validation=value, facts=(*kept, _tried(value), *apart))


@short
@dataclass(frozen=True, eq=False)
class Found:
    """What the stages of ``learn`` found.

    Attributes:
        exploration: episodes whose actions did not follow rewards.
        refined: episodes of refinement, whose actions did.
        recovery: the model.
        plan: for it.
        bootstrap: estimated regret, or None.
        truth: standing in the true model, or None.
        stopped: what ended the run.
        target: V_0 at which exploration was to stop, or None.
        choice: how many contexts the episodes show, where they were asked.
        checkup: whether they keep to the assumptions, where they were asked.
    """

    exploration: Exploration
    refined: int
    recovery: Recovery
    plan: Plan
    bootstrap: BootstrapRegret | None
    truth: Truth | None
    stopped: str
    target: float | None
    choice: Choice | None = None
    checkup: Checkup | None = None


def certify(asked: LearnSettings, found: Found) -> Certificate:
    """Put together what the stages found."""
    checked = found.recovery.info.certificate
    decided = not math.isnan(checked.signs_agree)
    agreement: dict[str, bool | None] = {
        "program": None if checked.program == "not asked" else checked.program == "feasible",
        "parities": not checked.conflicts and checked.signs_agree >= 1.0 if decided else None,
        "likelihood": checked.contained,
    }
    return Certificate(
        found.exploration.info.confidence,
        found.stopped,
        facts_of(asked, found),
        found.exploration.uncertainty,
        found.target,
        found.exploration.info.coverage,
        checked.kappa,
        checked.kappa_weights,
        agreement,
        (found.plan.lower, found.plan.upper),
        found.bootstrap,
        None,
        found.truth,
    )


def facts_of(asked: LearnSettings, found: Found) -> tuple[Fact, ...]:
    """All that may be said, each statement only if its premises hold."""
    sure = {"probability": 1.0 - asked.failure}
    return (
        *proved("bracket", bracket_premises(found), gap=found.plan.gap),
        *proved("intervals", interval_premises(asked, found), **sure),
        *proved("contained", (*interval_premises(asked, found), _contained(found)), **sure),
        *_standing(asked, found),
        Fact("planned value", "estimated"),
        *_left_open(asked, found),
        _regret(found),
        *_of_the_setting(asked, found),
        Fact("not tried", "open"),
        *_of_the_run(found),
        *_of_the_assumptions(found),
    )


def bracket_premises(found: Found) -> tuple[Premise, ...]:
    """Of: nothing earns much more in the recovered model."""
    plan, model = found.plan, found.recovery.model
    slack = 4 * rounding_bound(plan.model, plan.model.num_states)
    return (
        Premise("planned in the recovered model", plan.model is model),
        Premise("the policy earns the lower end", controller_value(plan.policy, plan.model) >= plan.lower - slack),
    )


def interval_premises(asked: LearnSettings, found: Found) -> tuple[Premise, ...]:
    """Of: the true world is in the confidence set."""
    return (
        Premise("theory setting", isinstance(asked.confidence, Theory)),
        Premise("radii with explicit constants", asked.radius is hoeffding),
        Premise("no episode followed rewards", found.refined == 0),
        Premise("a failure probability below 1", 0.0 < asked.failure < 1.0),
    )


def theorem_premises(asked: LearnSettings, found: Found) -> tuple[Premise, ...]:
    """Of theorem:upper_bound, but for its constant."""
    model, exploration = found.recovery.model, found.exploration
    equal = asked.weights is not None and bool(np.all(asked.weights == 0.5))
    threshold = theory.threshold(asked.accuracy, asked.separation, model.horizon)
    reached = found.target is not None and exploration.uncertainty <= found.target <= threshold
    return (
        Premise("two contexts", model.num_contexts == 2),
        Premise("weights known to be equal", equal),
        Premise("two reward values", model.num_values == 2),
        *interval_premises(asked, found),
        Premise("recovery by Algorithm 3", asked.method is algorithm_3),
        _contained(found),
        Premise("V_0 at most the threshold", reached),
    )


def _contained(found: Found) -> Premise:
    return Premise("recovered model inside the confidence set", found.recovery.info.certificate.contained)


def _standing(asked: LearnSettings, found: Found) -> Iterator[Fact]:
    """How the policy stands in the true model, if that is known."""
    truth = found.truth
    if truth is not None:
        numbers = {"value": truth.value, "regret": truth.regret, "least": truth.least_regret, "asked": asked.gap}
        share = {} if math.isnan(truth.share) else {"share": truth.share}
        yield Fact("truth", "measured", (), {**numbers, **share})


def _left_open(asked: LearnSettings, found: Found) -> Iterator[Fact]:
    """Brackets that planning could not close."""
    plan, bootstrap = found.plan, found.bootstrap
    if plan.gap > asked.gap:
        numbers = {"gap": plan.gap, "asked": asked.gap}
        yield Fact("plan left open", "open", (), numbers, {"reason": plan.info.reason})
    if bootstrap is not None and bootstrap.gap > asked.gap:
        yield Fact("bootstrap left open", "open", (), {"gap": bootstrap.gap})


def _regret(found: Found) -> Fact:
    """The estimated regret, or why there is none."""
    bootstrap = found.bootstrap
    if bootstrap is not None:
        numbers = {"mean": bootstrap.mean, "upper": bootstrap.upper, "gap": bootstrap.gap}
        return Fact("bootstrap", "estimated", (), numbers)
    return Fact("no resamples" if found.exploration.gathered is not None else "no episodes", "open")


def _of_the_setting(asked: LearnSettings, found: Found) -> Iterator[Fact]:
    """What the setting leaves unproved, and how the run stands to the theorem that it was made for."""
    info = found.exploration.info
    if not isinstance(asked.confidence, Theory):
        yield Fact("setting", "open", (), {}, {"setting": info.confidence, "guarantee": info.guarantee})
    if not isinstance(asked.confidence, Practical):
        yield Fact("theorem", "assumed", theorem_premises(asked, found), {"accuracy": asked.accuracy})
        if asked.separation > 0.0:
            yield Fact("separation", "assumed", (), {"separation": asked.separation})


def _of_the_run(found: Found) -> Iterator[Fact]:
    """How it ended, and whether its radii had to grow."""
    if found.stopped == "interrupted":
        yield Fact("interrupted", "open")
    if found.stopped == "limit":
        yield Fact("rule not met", "open", (), {"limit": found.exploration.episodes + found.refined})
    checked = found.recovery.info.certificate
    if checked.kappa > 1.0:
        yield Fact("kappa", "estimated", (), {"kappa": checked.kappa}, {"weights": checked.kappa_weights})


def _of_the_assumptions(found: Found) -> Iterator[Fact]:
    """The number of contexts that was chosen, and what the episodes contradict."""
    if found.choice is not None:
        yield found.choice.fact
    if found.checkup is not None:
        yield from (finding.fact for finding in found.checkup.broken)


def _tried(value: Evaluation) -> Fact:
    numbers = {"episodes": value.episodes, "value": value.value, "lower": value.lower, "upper": value.upper}
    return Fact("validation", "measured", (), numbers)
