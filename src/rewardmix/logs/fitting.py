"""``fit``: from a log to a model, a policy, and how far to trust them.

    moments of all parts  ->  confidence set         start, and coverage
    best on a sample      ->  Recovery               all of the log, if it has at most ``SAMPLE`` episodes
    EM on all parts       ->  the fit                from there, sums of parts added (only for longer logs)
    plan, with caution    ->  Plan                   ``pessimism``

The likelihood is valid for any logging policy that did not see the hidden context; moments only where actions did not
follow rewards. So moments start the fit, and the likelihood decides. Everything that is computed on a sample (held-out
likelihood, bootstrap, estimate of the value) says how many episodes it used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rewardmix._core.checks import as_count, as_number, as_seed, check_callback, quoted, refuse
from rewardmix._core.limits import RESAMPLE, afford, afford_episodes, afford_planning, afford_recovery
from rewardmix.checkup import check_assumptions
from rewardmix.logs.behaviour import count_followed, logging_test
from rewardmix.logs.fit_result import FitInfo, Fitted
from rewardmix.logs.log import Compact, Log, loaded
from rewardmix.logs.log_schema import LogSchema
from rewardmix.logs.offpolicy import OffPolicy
from rewardmix.logs.pessimism import PESSIMISM, Known, cautious, policy_to_keep
from rewardmix.logs.reading import as_log
from rewardmix.logs.same_world import as_model, check_world, reading_like
from rewardmix.logs.validation import Bootstrap, HeldOut, bootstrap_value, held_out, log_coverage
from rewardmix.model import RewardMixingMDP, check_type_names
from rewardmix.planning import Plan, plan, usual_work
from rewardmix.recovery import Recovery, best, confidence_set
from rewardmix.recovery.assessment import finished
from rewardmix.recovery.bags import merge_bags, shares
from rewardmix.recovery.bootstrap import mixture_of_model
from rewardmix.recovery.evidence import Evidence, Question
from rewardmix.recovery.likelihood import Mixture, Statistics, ascend, e_step, one_context
from rewardmix.recovery.number_of_contexts import MOST_CONTEXTS, Choice, choose, criteria
from rewardmix.recovery.recover import as_weights
from rewardmix.recovery.recovery_result import Candidates, Seen

SAMPLE = 200_000
"""Logs of at most so many episodes are fitted as a whole; of longer ones a sample finds where EM begins."""


PER_STEP = 1e6
"""Simple steps that planning takes for each step of the horizon at least."""


@dataclass(frozen=True)
class Progress:
    """How far a fit has come, for ``on_update``.

    Attributes:
        stage: "count", "start", "ascend", "plan", "check", "validate".
        done: parts counted, E-steps taken, resamples done.
        total: of them, 0 where nobody knows.
    """

    stage: str
    done: int = 0
    total: int = 0


@dataclass(frozen=True, eq=False)
class FitSettings:
    """What ``fit`` was asked for; see there."""

    num_contexts: int | str
    weights: ArrayLike | str | None
    prior: float
    seed: int
    max_contexts: int
    failure: float
    accuracy: float
    share_held_out: float
    resamples: int
    gap: float
    pessimism: float
    start: RewardMixingMDP | None

    def __post_init__(self) -> None:
        as_count("max_contexts", self.max_contexts, least=2)
        if self.start is not None:
            known = self.start.num_contexts
            if not isinstance(self.num_contexts, int) or self.num_contexts != known:
                refuse("num_contexts", quoted(self.num_contexts), f"{known}, as many types as start has")
        if not self.chooses:
            as_weights(self.weights, as_count("num_contexts", self.num_contexts))
        _check_share("prior", self.prior)
        _check_share("share_held_out", self.share_held_out, below=1.0)
        as_seed("seed", self.seed)
        as_count("resamples", self.resamples, least=0)
        afford("resamples", operations=RESAMPLE * self.resamples, change="fewer resamples")
        as_number("failure", self.failure, above=0.0, below=1.0)
        as_number("accuracy", self.accuracy, above=0.0)
        as_number("gap", self.gap, above=0.0)
        _check_share("pessimism", self.pessimism)

    @property
    def chooses(self) -> bool:
        """Whether the number of contexts is to be chosen."""
        return isinstance(self.num_contexts, str) and self.num_contexts == "auto"

    @property
    def most_contexts(self) -> int:
        """The most contexts that a fit may come to."""
        return int(self.max_contexts if self.chooses else self.num_contexts)

    def question(self, contexts: int, seen: Seen) -> Question:
        """What is to be recovered of what was seen, once the number of contexts is known."""
        question = Question(contexts, as_weights(self.weights, contexts), float(self.prior), int(self.seed))
        if self.start is None:
            return question
        mixture = mixture_of_model(self.start, seen)
        return replace(question, start=(mixture.weights, mixture.laws))


def fit(
    log: Any,
    *,
    num_contexts: int | str | None = None,
    weights: ArrayLike | str | None = None,
    start: Any = None,
    prior: float = 1.0,
    seed: int = 0,
    executor: Any = None,
    max_contexts: int = MOST_CONTEXTS,
    failure: float = 0.05,
    accuracy: float = 0.1,
    share_held_out: float = 0.2,
    resamples: int = 8,
    gap: float = 1e-3,
    pessimism: float = PESSIMISM,
    names: Sequence[str] = (),
    on_update: Callable[[Progress], None] | None = None,
    **reading: Any,
) -> Fitted:
    """Fit a reward-mixing MDP to a log and plan in it.

    Args:
        log: a ``Log``, or whatever ``read`` takes.
        num_contexts: M, or "auto" for the number that predicts held-out episodes best (``choose_contexts``), which may
            be one; left out, that of ``start``, or 2.
        weights: (M,) if known, "uniform" for equal ones; left out, they are estimated.
        start: an earlier model of the same environment, a plan, or what ``fit`` or ``learn`` returned: EM starts there
            too, the types keep their order, and the log is read with its names, sizes and rewards. If its policy took
            every action of a log with at most 500 episodes, the log is too small to improve on that policy, and ``fit``
            keeps it.
        prior: pseudo-count at the average for each state-action and context.
        seed: of random starts, samples and resamples.
        executor: who works, a ``concurrent.futures.Executor`` or a Dask client; left out, the log's own, or
            this process.
        max_contexts: the largest number that "auto" tries.
        failure: of the confidence set.
        accuracy: of the confidence set.
        share_held_out: of the episodes, for the held-out likelihood and the estimate of the value; 0: neither.
        resamples: of the bootstrap; 0 leaves it out.
        gap: of the plan.
        pessimism: standard errors that the plan takes off the rewards of each context. Above 0 the plan also keeps to
            actions that the log took in the same situation, so that it is not worse than what wrote the log; 0: the
            plan believes the model.
        names: of the types, for people, in the order in which they come out; left out, those of ``start``.
        on_update: called now and then with a ``Progress``.
        **reading: handed on to ``read``: horizon, columns, skip_bad, ...
    """
    check_callback("on_update", on_update)
    notify = on_update or (lambda progress: None)
    model = None if start is None else as_model("start", start)
    contexts = num_contexts if num_contexts is not None else 2 if model is None else model.num_contexts
    check_type_names(names, contexts)
    others = failure, accuracy, share_held_out, resamples, gap, pessimism
    settings = FitSettings(contexts, weights, prior, seed, max_contexts, *others, model)
    data = as_log(log, executor, reading if model is None else reading_like(model, log, reading))
    if model is not None:
        check_world("start", model, data.schema)
    _afford_fit(data, settings.most_contexts, settings.resamples)
    moments = data.count(lambda done, total: notify(Progress("count", done, total)))
    sizes = data.schema.num_state_actions, data.schema.num_values, settings.most_contexts
    afford_recovery(*sizes, int(moments.pair_keys.size), 0)
    notify(Progress("start"))
    sample = data.sample(SAMPLE, settings.seed)
    confidence = confidence_set(moments, failure=settings.failure, accuracy=settings.accuracy)
    bags = merge_bags(sample.patterns(data.schema))
    evidence = Evidence(confidence, moments, bags, bags)
    choice = _choice(evidence, settings)
    number = int(settings.num_contexts) if choice is None else choice.num_contexts
    question = settings.question(number, data.schema)
    recovery, passes = _recovered(data, evidence, len(sample), question, notify)
    recovery = replace(recovery, model=_named(recovery.model, data.schema, settings.start))
    notify(Progress("plan"))
    bold = plan(recovery.model, gap=settings.gap, work_limit=usual_work(recovery.model))
    visits = moments.samples.reshape(data.schema.num_states, -1)
    chances, episodes = sample.chances(data.schema), sample.episodes(data.schema)
    kept = policy_to_keep(start, episodes, recovery.model) if settings.pessimism > 0 else None
    if kept is not None:
        chances = np.ones(episodes.present.shape)  # a given policy draws nothing
    known = Known(episodes, recovery.model, recovery.info.errors, visits, chances, kept)
    found, support, _ = cautious(bold, known, float(settings.pessimism), settings.gap, settings.seed)
    test = logging_test(data.total(count_followed), data.schema)
    criterion = choice.criterion if choice else _criterion(sample, recovery.model, data.schema)
    notify(Progress("check"))
    order = {"in_order": data.notes.in_order}
    checkup = check_assumptions(known.episodes, model=recovery.model, seed=settings.seed, **order)
    validated = _validated(len(data), known, recovery, found, settings, notify)
    judged = log_coverage(moments, data.schema), test, support, checkup, *validated
    info = FitInfo(data.notes, data.schema, moments, recovery.info, choice, criterion, *judged, passes, ())
    fitted = Fitted(recovery.model, found, replace(info, sentences=_sentences(info)))
    labels = names or (() if model is None else model.context_names)
    return fitted.named(labels) if labels else fitted


def _check_share(argument: str, value: object, below: float = float("inf")) -> None:
    number = as_number(argument, value, below=below)
    if number < 0:
        refuse(argument, number, "a number of at least 0")


def _afford_fit(data: Log, contexts: int, resamples: int) -> None:
    """Refuse a log that is too large to be fitted, by its sizes alone."""
    schema, used = data.schema, min(len(data), SAMPLE)
    steps = min(data.notes.rows, used * schema.horizon)
    afford("horizon", operations=PER_STEP * schema.horizon, change="a horizon near the longest episode")
    afford_episodes(used, schema.horizon)
    afford_recovery(schema.num_state_actions, schema.num_values, contexts, 0, steps)
    afford_planning(
        schema.num_states, schema.num_actions, schema.horizon, schema.num_values, contexts, schema.num_state_actions
    )
    each = PER_STEP * schema.horizon + 1e4 * contexts * schema.num_state_actions * schema.num_values + 1e3 * steps
    afford("resamples", operations=resamples * each, change="fewer resamples")


def _choice(evidence: Evidence, settings: FitSettings) -> Choice | None:
    """How many contexts to fit, if that was left open."""
    if not settings.chooses:
        return None
    return choose(evidence, settings.max_contexts, prior=float(settings.prior), seed=int(settings.seed))


def statistics_of(part: Any, schema: LogSchema, mixture: Mixture) -> Statistics:
    """The E-step on one part of a log."""
    return e_step(loaded(part).patterns(schema), mixture)


def _recovered(
    data: Log, evidence: Evidence, sampled: int, question: Question, notify: Callable[[Progress], None]
) -> tuple[Recovery, int]:
    """``best`` on the sample; if that is not everything, EM goes on from there over all parts."""
    start = best(evidence, question)
    if sampled == len(data):
        return start, 0
    bags = evidence.bags
    assert bags is not None
    steps = 0

    def expect(mixture: Mixture) -> Statistics:
        nonlocal steps
        steps += 1
        notify(Progress("ascend", steps))
        summed: Statistics = data.total(statistics_of, mixture)
        return summed

    mixture = mixture_of_model(start.model, data.schema)
    average = shares(expect(mixture).outcomes.sum(axis=0))
    prior = evidence.strength(question)
    done = ascend(expect, mixture, average=average, prior=prior, weights=start.fixed_weights, name="sample")
    scaled = replace(bags, counts=bags.counts * (len(data) / sampled))
    whole = replace(evidence, bags=scaled)
    like = None if question.start is None else question.start[1]
    recovery = finished(whole, question, Candidates("best", [done], start.info.weights, scaled, like=like))
    return recovery, steps


def _named(model: RewardMixingMDP, schema: LogSchema, start: RewardMixingMDP | None) -> RewardMixingMDP:
    """With the names of the log, and its bins or those of the run before."""
    end = ("end",) * (model.num_states - schema.num_states) if schema.state_names else ()
    scale = schema.reward_scale
    if scale.cuts is None and start is not None and np.isin(start.reward_values, model.reward_values).all():
        scale = start.reward_scale  # episodes that were made of its levels
    cuts = scale.with_values(model.reward_values).cuts
    return replace(model, state_names=(*schema.state_names, *end), action_names=schema.action_names, reward_cuts=cuts)


def _criterion(sample: Compact, model: RewardMixingMDP, schema: LogSchema) -> dict[int, float]:
    """One context against those that were fitted, on the same episodes."""
    bags, mixture = sample.patterns(schema), mixture_of_model(model, schema)
    return criteria({one.num_contexts: e_step(bags, one).loglik for one in (one_context(bags), mixture)}, bags)


def _validated(
    total: int,
    known: Known,
    recovery: Recovery,
    found: Plan,
    settings: FitSettings,
    notify: Callable[[Progress], None],
) -> tuple[HeldOut | None, Bootstrap | None, OffPolicy | None]:
    """What held-out episodes and resamples say."""
    share, resamples, gap = settings.share_held_out, settings.resamples, settings.gap
    question = settings.question(recovery.model.num_contexts, known.episodes)
    notify(Progress("validate", 0, resamples))
    out, value = held_out(known, recovery, question, share, gap, settings.pessimism) if share > 0 else (None, None)
    if not resamples:
        return out, None, value

    def done(number: int) -> None:
        notify(Progress("validate", number, resamples))

    return out, bootstrap_value(known.episodes, recovery, found.policy, question, resamples, gap, total, done), value


def _sentences(info: FitInfo) -> tuple[str, ...]:
    number = [fact.sentence for fact in info.number]
    alone = any(fact.what == "one type" for fact in info.number)
    out = [*number, *info.notes.sentences] if alone else [*info.notes.sentences, *number]
    out += [info.support.sentence, info.logging.sentence, info.coverage.sentence]
    out += [finding.sentence for finding in info.checkup.broken]
    held = info.held_out
    if held is not None and info.recovery.weight_errors.size > 1:
        out.append(
            f"On {held.episodes} held-out episodes, types add {held.gain:.4f} nats an episode to the log-likelihood "
            f"(standard error {held.error:.4f})."
        )
    if info.off_policy is not None:
        out.append(info.off_policy.sentence)
    if info.bootstrap is not None:
        out += [fact.sentence for fact in info.disagreement]
        out.append(info.bootstrap.sentence)
    return (*out, info.recovery.not_identified) if info.recovery.not_identified else tuple(out)
