"""The assumptions, one test each, and what a failed one means.

Every p-value is uniform when its assumption holds (or larger, see ``within_episodes``): tests are built on sums of
terms with mean zero under the model (see ``score_kernels``), for any log, also one whose actions follow rewards. They
are asked together, so each is compared with the level by Holm's correction: the chance of any false alarm is at most
the level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from rewardmix._core.brevity import short
from rewardmix._core.checks import Floats, as_count, as_instance, as_number, refuse
from rewardmix.checkup import score_kernels
from rewardmix.checkup.association import association, trend
from rewardmix.checkup.next_state import next_state_p_value
from rewardmix.checkup.p_values import Answer, chi_squared, upper, without_last_digits
from rewardmix.checkup.surplus import fitted_episodes
from rewardmix.checkup.transition_types import transition_gain
from rewardmix.checkup.walks import CheckedEpisodes, Walked, parts_of_model, walk_over
from rewardmix.checkup.within_episodes import ask_within_episodes, deviations_of, lack_of_pairs
from rewardmix.episodes import Episodes
from rewardmix.facts import Fact
from rewardmix.model import RewardMixingMDP
from rewardmix.recovery import recover

MOST_NUMBERS = 1 << 25
"""Beliefs (episodes x steps x contexts) that are looked at; of more episodes, every so-manieth."""

NO_TIMES = "no time column tells the order of the episodes"

DEPENDENT = 0.01
"""Below this p-value rewards are taken for those of the next state too where moves of types are looked at."""

ASSUMPTIONS = {
    "transition types": "types do not move differently",
    "next state": "a reward does not depend on the next state",
    "one type short": "there are as many types as the model has",
    "switching": "the type stays the same during an episode",
    "copying": "a reward does not depend on the one before, given the type",
    "repetition": "a reward does not depend on earlier rewards of the same state and action, given the type",
    "moves": "the type does not change where people go",
    "drift": "the world stays the same from the first episode to the last",
}
"""What is asked -> what is taken for granted, in the order in which to read the answers."""

OF_FORM = ("transition types", "next state")
"""Questions that all others rest on. Their p-values are larger than uniform, as small gains are not believed."""

OF_REWARDS = ("one type short", "switching", "copying", "repetition")
"""Questions about the rewards of an episode; they take for granted that types change rewards, by state and action."""


@dataclass(frozen=True)
class Finding:
    """The answer to one question.

    Attributes:
        assumption: a key of ``ASSUMPTIONS``.
        p_value: chance of so much evidence against it if it holds; NaN if it could not be asked.
        adjusted: the same for this many questions at once (Holm).
        broken: whether the adjusted p-value is below the level.
        reason: why it could not be asked, or "".
        gain: in the log-likelihood of a held-out episode, where that was compared; otherwise NaN.
    """

    assumption: str
    p_value: float
    adjusted: float
    broken: bool
    reason: str
    gain: float = math.nan

    @property
    def sentence(self) -> str:
        """The answer in words, with what to do."""
        claim = ASSUMPTIONS[self.assumption]
        if math.isnan(self.p_value):
            return f"Not asked whether {claim}: {self.reason}."
        if not self.broken:
            return f"Nothing contradicts that {claim} (p = {self.p_value:.2g})."
        return self.fact.sentence

    @property
    def fact(self) -> Fact:
        """That the assumption is broken, as a fact."""
        gain = {} if math.isnan(self.gain) else {"gain": self.gain}
        return Fact(self.assumption, "estimated", (), {"p_value": self.p_value, "adjusted": self.adjusted, **gain})


@short
@dataclass(frozen=True)
class Checkup:
    """Whether the assumptions hold, as far as the episodes can tell.

    Attributes:
        findings: one for each assumption, in the order of ``ASSUMPTIONS``.
        level: chance of any false alarm.
        episodes: how many were looked at.
    """

    findings: tuple[Finding, ...]
    level: float
    episodes: int

    @property
    def broken(self) -> tuple[Finding, ...]:
        """The findings against an assumption."""
        return tuple(finding for finding in self.findings if finding.broken)

    @property
    def sentences(self) -> tuple[str, ...]:
        """All findings in words."""
        return tuple(finding.sentence for finding in self.findings)


def check_assumptions(
    episodes: Episodes,
    *,
    num_contexts: int = 2,
    model: RewardMixingMDP | None = None,
    level: float = 0.01,
    seed: int = 0,
    in_order: bool = True,
) -> Checkup:
    """Test what the method takes for granted on the episodes themselves.

    Args:
        episodes: in the order in which they happened (only the question about drift looks at the order).
        num_contexts: how many types to fit, if no model is given.
        model: estimated from these episodes; by default it is recovered here.
        level: chance that any assumption that holds is called broken.
        seed: of the fits and resamples.
        in_order: whether the episodes come in the order in which they happened; if not, drift is not asked about.

    Returns:
        one finding for each assumption, with a p-value that is no smaller than it should be if the assumption holds.
    """
    as_instance("episodes", episodes, Episodes)
    as_number("level", level, above=0.0, below=1.0)
    if model is None:
        model = recover(episodes, num_contexts=as_count("num_contexts", num_contexts), seed=seed).model
    _check_sizes(model, episodes)
    sample = _sampled(episodes, model.num_contexts + 1)
    gain, form = check_form(sample, seed)
    broken = [name for name, (p_value, _) in form.items() if p_value * len(ASSUMPTIONS) < level]
    answers = form | _answers(sample, model, seed, broken, in_order=in_order)
    findings = _holm(answers, level)
    return Checkup((replace(findings[0], gain=gain), *findings[1:]), level, len(sample))


def check_form(episodes: Episodes, seed: int) -> tuple[float, dict[str, Answer]]:
    """The gain of types that move differently, and the p-values of the two questions that all others rest on."""
    untold = math.nan, "nothing was seen often enough"
    next_state = next_state_p_value(episodes, seed=seed)
    moved = transition_gain(episodes, by_next_state=next_state < DEPENDENT, seed=seed)
    answers = {
        "transition types": untold if moved is None else (without_last_digits(moved.p_value), ""),
        "next state": untold if math.isnan(next_state) else (without_last_digits(next_state), ""),
    }
    return math.nan if moved is None else without_last_digits(moved.gain), answers


def _answers(
    episodes: Episodes, model: RewardMixingMDP, seed: int, broken: list[str], *, in_order: bool
) -> dict[str, Answer]:
    """The other p-values, by assumption; not of what takes for granted what is ``broken`` already."""
    data = CheckedEpisodes.of(episodes)
    if not data.lengths.any():
        return dict.fromkeys(ASSUMPTIONS, (math.nan, "no episode has a step"))
    parts = parts_of_model(model, data)
    walked = walk_over(data, parts, parts)
    drift = _drift(data, walked, rewards=not broken) if in_order else (math.nan, NO_TIMES)
    answers = {"moves": _moves(data, walked), "drift": drift}
    if not broken:
        answers |= ask_within_episodes(data, parts, walked, seed)
        return answers | {"one type short": _one_more(data, model, seed)}
    untold = math.nan, f"that takes for granted that {ASSUMPTIONS[broken[0]]}"
    of_moves = "next state" if "transition types" in broken else "moves"  # each shows as the other
    return answers | dict.fromkeys((*OF_REWARDS, of_moves), untold)


def _one_more(data: CheckedEpisodes, model: RewardMixingMDP, seed: int) -> Answer:
    """Whether a model with one context more, fitted to some of the episodes, predicts the others better.

    The test holds whatever the rival is, so it is not fitted to more episodes than it takes to see a rare type: the
    likelihood of a context too many is flat, and climbing it took most of the time of a fit.
    """
    if reason := lack_of_pairs(data):
        return math.nan, reason
    fitted = fitted_episodes(len(data))
    rest = data[~fitted]
    if len(rest) < 2 or not rest.lengths.any() or not data.lengths[fitted].any():
        return math.nan, "there are too few episodes"
    rival = recover(data.episodes[fitted], num_contexts=model.num_contexts + 1, seed=seed).model
    parts = parts_of_model(model, rest)
    walked = walk_over(rest, parts, parts_of_model(rival, rest))
    (deviation,), parameters = deviations_of(rest, parts, walked, [score_kernels.JOINED])
    reason = lack_of_pairs(data, parameters)  # no resamples here: each would take a rival of its own
    return (math.nan, reason) if reason else upper(deviation)


def _moves(data: CheckedEpisodes, walked: Walked) -> Answer:
    """Whether the belief about the context differs between the states that follow the same state-action."""
    live = data.live
    after = data.episodes.states[:, 1:][live]
    there = after >= 0
    return chi_squared(association(data.points[live][there], after[there], walked.beliefs[live][there, 1:]))


def _drift(data: CheckedEpisodes, walked: Walked, *, rewards: bool = True) -> Answer:
    """Whether rewards, moves or starts change with the time; the smallest of three p-values, corrected (Sidak)."""
    count = data.lengths.size
    live = data.live
    times = np.broadcast_to(((np.arange(count) + 0.5) / count - 0.5)[:, None], live.shape)[live]
    after = data.episodes.states[:, 1:][live]
    there = after >= 0
    began = data.episodes.states[:, 0]
    tests = [
        trend(data.points[live], walked.residuals[live], walked.variances[live], times, _before(walked)[live]),
        association(data.points[live][there], after[there], times[there, None]),
        association(np.zeros(count, np.int64), began, (np.arange(count)[:, None] + 0.5) / count - 0.5),
    ]
    asked = [chi_squared(test)[0] for test in tests[0 if rewards else 1 :] if test[1]]
    if not asked:
        return math.nan, "nothing was seen often enough"
    return without_last_digits(1.0 - (1.0 - min(asked)) ** len(asked)), ""


def _before(walked: Walked) -> Floats:
    """(K, H, M) the belief before each step, as seen from its mean; 1 in the place of the last context."""
    beliefs = np.roll(walked.beliefs, 1, axis=1)
    beliefs[:, 0] = walked.posteriors.mean(axis=0)
    beliefs -= walked.posteriors.mean(axis=0)
    beliefs[:, :, -1] = 1.0
    return beliefs


def _holm(answers: Mapping[str, Answer], level: float) -> tuple[Finding, ...]:
    """The findings, corrected for how many were asked."""
    asked = sorted((p, name) for name, (p, _) in answers.items() if not math.isnan(p))
    adjusted, largest = {}, 0.0
    for rank, (p, name) in enumerate(asked):
        largest = max(largest, min(1.0, (len(asked) - rank) * p))
        adjusted[name] = largest
    return tuple(
        Finding(name, answers[name][0], adjusted.get(name, math.nan), adjusted.get(name, 1.0) < level, answers[name][1])
        for name in ASSUMPTIONS
    )


def _sampled(episodes: Episodes, contexts: int) -> Episodes:
    """All episodes, or every so-manieth if there are too many to look at."""
    size = len(episodes) * episodes.horizon * contexts
    return episodes[:: -(-size // MOST_NUMBERS)] if size > MOST_NUMBERS else episodes


def _check_sizes(model: RewardMixingMDP, episodes: Episodes) -> None:
    """Refuse a model of another world."""
    as_instance("model", model, RewardMixingMDP)
    ended = model.num_states - episodes.num_states  # a model of episodes that end early has one state more
    if ended not in (0, 1) or model.num_actions != episodes.num_actions:
        found = f"{model.num_states} states and {model.num_actions} actions"
        refuse("model", found, f"{episodes.num_states} states and {episodes.num_actions} actions, as in the episodes")
    if not np.isin(episodes.reward_values, model.reward_values).all():
        refuse("model", f"reward values {model.reward_values.tolist()}", f"those of {episodes.reward_values.tolist()}")
