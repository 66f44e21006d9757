"""How far a fit can be trusted: what the log covers, episodes that the fit did not see, and resampled ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rewardmix._core.streams import Role, generator
from rewardmix.bounded_mean import student_quantile
from rewardmix.episodes import Episodes
from rewardmix.evaluation import controller_value
from rewardmix.logs.log_schema import LogSchema
from rewardmix.logs.offpolicy import OffPolicy, off_policy
from rewardmix.logs.pessimism import Known, cautious
from rewardmix.moments import Moments
from rewardmix.planning import plan, usual_work
from rewardmix.policy import Controller
from rewardmix.recovery.bags import bags_of
from rewardmix.recovery.bootstrap import mixture_of_model, refits, refitted
from rewardmix.recovery.evidence import Question
from rewardmix.recovery.likelihood import Mixture, logliks
from rewardmix.recovery.recovery_result import Recovery
from rewardmix.regret import judge_each

MOST_NAMED = 5
"""Offenders that a sentence names."""


@dataclass(frozen=True)
class LogCoverage:
    """What the log holds, and what it does not.

    Attributes:
        never_visited: states that no episode was in.
        never_tried: (state, action) that were never played though the state was visited.
        together: pairs of visited state-actions that some episode held both of.
        never_together: pairs of visited state-actions that none did.
        sentence: the gist.
    """

    never_visited: tuple[int, ...]
    never_tried: tuple[tuple[int, int], ...]
    together: int
    never_together: int
    sentence: str


def log_coverage(moments: Moments, schema: LogSchema) -> LogCoverage:
    """What the counts say about coverage."""
    tried = np.reshape(moments.samples > 0, (schema.num_states, schema.num_actions))
    visited = tried.any(axis=1)
    untried = [(int(s), int(a)) for s, a in np.argwhere(np.asarray(visited)[:, None] & ~tried)]
    first, second = moments.pairs
    together = int((first != second).sum())
    points = int(tried.sum())
    missing = points * (points - 1) // 2 - together
    unseen = tuple(np.flatnonzero(~visited).tolist())
    return LogCoverage(
        unseen, tuple(untried), together, missing, _coverage_sentence(schema, unseen, untried, together, missing)
    )


def _coverage_sentence(
    schema: LogSchema, unseen: tuple[int, ...], untried: list[tuple[int, int]], together: int, missing: int
) -> str:
    parts = []
    if unseen:
        parts.append(f"{len(unseen)} of {schema.num_states} states were never visited")
    if untried:
        named = [f"{schema.action(a)} in state {schema.state(s)}" for s, a in untried[:MOST_NAMED]]
        more = ", ..." if len(untried) > MOST_NAMED else ""
        parts.append(
            f"{len(untried)} actions were never tried where they could have been "
            f"(action {', action '.join(named)}{more})"
        )
    parts.append(f"{together} pairs of state-actions were seen together in an episode, {missing} never")
    text = "; ".join(parts)
    return text[0].upper() + text[1:] + "."


@dataclass(frozen=True)
class HeldOut:
    """Log-likelihood of episodes that a fit did not see.

    Attributes:
        episodes: how many.
        loglik: a held-out episode's, on average, under contexts as fitted to the others.
        alone: the same with a single context.
        error: standard error of the difference.
    """

    episodes: int
    loglik: float
    alone: float
    error: float

    @property
    def gain(self) -> float:
        """What contexts add, in nats an episode."""
        return self.loglik - self.alone


@dataclass(frozen=True)
class Bootstrap:
    """Resampled episodes, fitted and judged again.

    Attributes:
        resamples: how many.
        value: of the policy in the fitted model: optimistic, it was chosen there.
        lower: of the value, 95 % (Student's t: the spread is known from few resamples).
        upper: of it.
        regret: mean of what the policy loses against policies that were planned in the resampled models.
        gap: mean of what better plans may add to that.
        weights_lower: (M,) limits of the weights, 95 %; None where weights were known or assumed, not estimated.
        weights_upper: (M,), or None.
    """

    resamples: int
    value: float
    lower: float
    upper: float
    regret: float
    gap: float
    weights_lower: tuple[float, ...] | None
    weights_upper: tuple[float, ...] | None

    @property
    def sentence(self) -> str:
        """What the resamples say; the spread of a value takes two."""
        if not self.resamples:
            return "No resample could be made: none of the episodes that it is drawn from ended early."
        blind = "resamples cannot see what the log never visited"
        more = f"against policies planned for them (better plans may add {self.gap:.4f}); {blind}."
        if self.resamples == 1:
            return (
                f"One resample gives no interval of what the policy is worth, two or more do. The policy loses "
                f"{self.regret:.4f} there {more.replace('for them', 'for it')}"
            )
        return (
            f"In {self.resamples} resamples the policy is worth {self.lower:.4f} .. {self.upper:.4f} and loses "
            f"{self.regret:.4f} on average {more}"
        )


MOST_RESAMPLED = 50_000
"""Episodes of a resample; of longer logs the spread is scaled to their length."""


def held_out(
    known: Known, found: Recovery, question: Question, share: float, gap: float, pessimism: float
) -> tuple[HeldOut | None, OffPolicy | None]:
    """Fit and plan without a share of the episodes; likelihood and value from that share."""
    episodes = known.episodes
    fresh = generator(question.seed, Role.HELD_OUT).random(len(episodes)) < share
    if fresh.sum() < 2 or (~fresh).sum() < 2:
        return None, None
    rest, left = episodes[~fresh], episodes[fresh]
    other = refitted(rest, found.model, weights=found.fixed_weights, prior=question.pseudo_count)
    if other.num_states < found.model.num_states:  # only if no episode of the rest ended early
        return None, None
    bags = bags_of(left)
    average = bags_of(rest).average
    many = logliks(bags, mixture_of_model(other, left))
    one = logliks(bags, Mixture(np.ones(1), average[None]))
    error = float((many - one).std(ddof=1)) / math.sqrt(many.size)
    likelihood = HeldOut(int(fresh.sum()), float(many.mean()), float(one.mean()), error)
    chosen = plan(other, gap=max(gap, 1e-3), work_limit=usual_work(other))
    before = Known(rest, other, known.errors, known.visits, policy=known.policy)
    chosen, support, habits = cautious(chosen, before, pessimism, max(gap, 1e-3), question.seed)
    if known.chances is not None:
        return likelihood, off_policy(chosen, left, known.chances[fresh], left=support.left)
    chance = habits.chances(left, other)
    return likelihood, off_policy(chosen, left, chance, left=support.left, others=len(rest))


def bootstrap_value(
    episodes: Episodes,
    found: Recovery,
    policy: Controller,
    question: Question,
    resamples: int,
    gap: float,
    total: int,
    on_update: Callable[[int], None],
) -> Bootstrap:
    """Value and regret of the policy in models of resampled episodes, scaled to the length of the whole log."""
    rng = generator(question.seed, Role.LOG_RESAMPLES)
    size = min(len(episodes), MOST_RESAMPLED)
    models = refits(episodes, found, rng, resamples, size=size, prior=question.pseudo_count)
    judged = judge_each(policy, models, resamples, gap=max(gap, 1e-3), on_update=on_update)
    model = found.model
    shrink = math.sqrt(size / total)
    value = controller_value(policy, model)
    values, weights = [one.value for one in judged], [one.weights for one in judged]
    wide = shrink * (student_quantile(len(values), 0.05) if len(values) > 1 else float("inf"))
    spread = wide * (float(np.std(values, ddof=1)) if len(values) > 1 else 1.0)
    radius = wide * (np.std(weights, axis=0, ddof=1) if len(weights) > 1 else model.weights)
    lower, upper = (tuple(np.clip(model.weights + sign * radius, 0.0, 1.0).tolist()) for sign in (-1, 1))
    estimated = found.fixed_weights is None
    return Bootstrap(
        len(values),
        value,
        value - spread,
        value + spread,
        float(np.mean([one.regret for one in judged])) * shrink**2 if judged else float("nan"),
        float(np.mean([one.gap for one in judged])) if judged else float("nan"),
        lower if estimated else None,
        upper if estimated else None,
    )
