"""What ``fit`` returns: the model, the plan, and how far to trust them."""

from __future__ import annotations

from dataclasses import dataclass

from rewardmix._core.brevity import short
from rewardmix.checkup import Checkup
from rewardmix.facts import Fact, disagreement, value_in_model
from rewardmix.logs.behaviour import LoggingTest
from rewardmix.logs.log import Notes
from rewardmix.logs.log_schema import LogSchema
from rewardmix.logs.offpolicy import OffPolicy
from rewardmix.logs.pessimism import Support
from rewardmix.logs.validation import Bootstrap, HeldOut, LogCoverage
from rewardmix.model import RewardMixingMDP
from rewardmix.moments import Moments
from rewardmix.planning import Plan
from rewardmix.recovery import RecoveryInfo
from rewardmix.recovery.number_of_contexts import Choice, is_clear
from rewardmix.recovery.standard_errors import NORMAL_95
from rewardmix.telling import Telling


@short
@dataclass(frozen=True, eq=False)
class FitInfo:
    """How the fit came about and how far it can be trusted.

    Attributes:
        notes: what was met on reading.
        schema: states, actions, horizon, reward values and names.
        moments: the counts.
        recovery: of the model: starts, certificate, standard errors, what is not identified.
        choice: how the number of contexts was chosen, if it was.
        criterion: {number of contexts: Bayesian information criterion}.
        coverage: what the log holds.
        logging: whether its actions followed rewards.
        support: how much of the plan rests on what the log holds.
        checkup: whether the log keeps to the assumptions.
        held_out: log-likelihood of episodes that were left out, if some were.
        bootstrap: intervals by resampling, if asked for.
        off_policy: value of the policy from the log itself, if episodes were left out.
        passes: E-steps over the whole log.
        sentences: everything that a reader should know, in words.
    """

    notes: Notes
    schema: LogSchema
    moments: Moments
    recovery: RecoveryInfo
    choice: Choice | None
    criterion: dict[int, float]
    coverage: LogCoverage
    logging: LoggingTest
    support: Support
    checkup: Checkup
    held_out: HeldOut | None
    bootstrap: Bootstrap | None
    off_policy: OffPolicy | None
    passes: int
    sentences: tuple[str, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What has to be said before any result."""
        headline = self.notes.left_out.headline
        return (headline,) if headline else ()

    @property
    def _unpaid(self) -> list[Fact]:
        """That no reward differs from 0, if so."""
        return [Fact("nobody paid", "measured")] if self.notes.left_out.paid == 0.0 else []

    @property
    def facts(self) -> tuple[Fact, ...]:
        """That nobody paid, how many contexts there are, what the log contradicts, and whether it pays as planned."""
        return (*self._unpaid, *self.number, *(finding.fact for finding in self.checkup.broken), *self.disagreement)

    @property
    def number(self) -> list[Fact]:
        """The number of contexts that was chosen; of a number that was given, that one explains as much, if it does."""
        if self.choice is not None:
            return [self.choice.fact]
        least, held = min(self.criterion, key=lambda m: self.criterion[m]), self.held_out
        several = held is not None and is_clear(held.gain, held.error, held.episodes)
        return [] if several or least > 1 or max(self.criterion) == 1 else [Fact("one type", "estimated")]

    @property
    def disagreement(self) -> list[Fact]:
        """That the model and the log itself disagree on what the policy earns, if they do."""
        value, boot = self.off_policy, self.bootstrap
        if value is None or boot is None or not value.supported:
            return []
        errors = ((one.upper - one.lower) / (2 * NORMAL_95) for one in (boot, value))
        return disagreement(boot.value, next(errors), value.value, next(errors), "logged")


@dataclass(frozen=True, eq=False)
class Fitted(Telling):
    """The model that was fitted, the policy to play in it, and what is known about both.

    Attributes:
        model: as fitted.
        plan: the policy with its bracket in that model. ``plan.policy`` is what to play: unless ``pessimism`` was 0
            it may keep to the log's actions (``plan.kept``).
        info: see there.
    """

    model: RewardMixingMDP
    plan: Plan
    info: FitInfo

    def __repr__(self) -> str:
        value = value_in_model(self.plan.lower, self.info.facts)
        return f"Fitted({self.model!r}, {value}, {self.info.moments.episodes} episodes)"
