"""Estimate the behavior policy of a log: the probability of each action given features of the history.

The features of a step are the state, the belief over types under the fitted model, the last action and reward, and the
time. Probabilities are smoothed hierarchically from coarse to fine resolutions of these features, from the state alone
to all of them:

    p(a | features) = (n(a, features) + strength * p(a | coarser features)) / (n(features) + strength)

The strength of each resolution maximizes the leave-one-out likelihood of the log's actions. A log whose actions depend
on the state only gets large strengths, the log of an adaptive policy small ones; neither has to be declared.
Propensities for importance weights (``off_policy``) use the state and the one best resolution only: smoothing through
all resolutions reuses each step and makes the probabilities of rare actions too extreme.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rewardmix import belief as bayes
from rewardmix._core.checks import Floats
from rewardmix._core.portable_math import log_array
from rewardmix.episodes import Episodes
from rewardmix.model import RewardMixingMDP
from rewardmix.policy import Controller

SMOOTHING_STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)
"""Candidate smoothing strengths, in visits."""

MAX_LOG_ODDS = 6.0
"""Log-odds of types are clipped at this value."""

MAX_STEPS_FOR_TUNING = 200_000
"""Largest number of steps used to tune the strengths."""


MIN_RELATIVE_FREQUENCY = 0.3
"""An action is in the support if it is at least this fraction as likely as the most frequent action ..."""

MIN_PROB, MIN_COUNT = 0.01, 100
"""... or if it has at least this probability and this many visits in the state at about this belief."""

MIN_REPEATED_STEPS = 30
"""Steps that have to repeat a history before a log is taken for one of a deterministic policy."""


class FeatureResolution(NamedTuple):
    """Resolution of the history features besides the state.

    Attributes:
        log_odds_width: bin width of the log-odds of a belief (times M - 1); 0: the belief is not used.
        uses_last_step: whether the action and reward of the last step are used.
        uses_time: whether the step is used.
    """

    log_odds_width: float
    uses_last_step: bool
    uses_time: bool


FEATURE_RESOLUTIONS = (
    *(FeatureResolution(width, last, False) for width in (0.0, 2.0, 1.0, 0.5) for last in (False, True)),
    FeatureResolution(0.5, False, True),
    FeatureResolution(0.5, True, True),
)
"""Resolutions from coarse to fine."""

BELIEF_RESOLUTION_INDEX = 2
"""Index of the resolution that defines "about this belief" in ``MIN_COUNT``."""


class HistoryFeatures(NamedTuple):
    """History features as arrays that broadcast.

    Attributes:
        step: step t.
        state: state s.
        belief: (..., M) belief over types before the action.
        last_step_code: 0 at the first step, else 1 + action * Z + reward index of the last step.
    """

    step: Any
    state: Any
    belief: Floats
    last_step_code: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Broadcast shape of the features."""
        return np.broadcast_shapes(
            np.shape(self.step), np.shape(self.state), self.belief.shape[:-1], np.shape(self.last_step_code)
        )


@dataclass(frozen=True, eq=False)
class BehaviorPolicy:
    """Estimated behavior policy of a log.

    Attributes:
        num_actions: number of actions A.
        num_last_steps: number of codes of the last step, 1 + A * Z.
        horizon: horizon H.
        codes: for each resolution, the feature codes that occur, increasing.
        counts: for each resolution, (N, A) counts of the actions.
        strengths: smoothing strength of each resolution.
        best_level: resolution that predicts best when smoothed with the state alone.
        best_smoothing: its strength.
    """

    num_actions: int
    num_last_steps: int
    horizon: int
    codes: tuple[NDArray[np.int64], ...]
    counts: tuple[Floats, ...]
    strengths: tuple[float, ...]
    best_level: int
    best_smoothing: float

    def action_probs(self, features: HistoryFeatures) -> Floats:
        """Return the probability (..., A) of each action."""
        return self._action_probs_and_counts(features)[0]

    def in_support(self, features: HistoryFeatures) -> NDArray[np.bool_]:
        """Return (..., A) whether each action is in the support of the log; at least one is."""
        probs, counts = self._action_probs_and_counts(features)
        is_likely = probs >= MIN_RELATIVE_FREQUENCY * probs.max(axis=-1, keepdims=True)
        is_frequent = (probs >= MIN_PROB) & (counts >= MIN_COUNT)
        return np.asarray(is_likely | is_frequent)

    def _action_probs_and_counts(self, features: HistoryFeatures) -> tuple[Floats, Floats]:
        """Return the probabilities (..., A) and how often each action was taken at about this belief."""
        probs = belief_counts = np.full((*features.shape, self.num_actions), 1.0 / self.num_actions)
        for number, strength in enumerate(self.strengths):
            counts = self._action_counts(number, features)
            probs = (counts + strength * probs) / (counts.sum(axis=-1, keepdims=True) + strength)
            belief_counts = counts if number == BELIEF_RESOLUTION_INDEX else belief_counts
        return probs, belief_counts

    def _action_counts(self, number: int, features: HistoryFeatures) -> Floats:
        """Count (..., A) how often each action was taken with equal features at one resolution."""
        row_codes = _encode_features(FEATURE_RESOLUTIONS[number], features, self.num_last_steps, self.horizon)
        codes = self.codes[number]
        # Feature codes are sorted, so a binary search finds them; codes beyond the last one are clipped and then fail
        # the comparison.
        index = np.minimum(np.searchsorted(codes, row_codes), codes.size - 1)
        return np.where((codes[index] == row_codes)[..., None], self.counts[number][index], 0.0)

    def propensities(self, episodes: Episodes, model: RewardMixingMDP) -> Floats:
        """Return the propensity (K, H) of each logged action; 1 after the end of an episode."""
        features = history_features(episodes, model)
        probs = np.full((*features.shape, self.num_actions), 1.0 / self.num_actions)
        for number, strength in ((0, self.strengths[0]), (self.best_level, self.best_smoothing)):
            counts = self._action_counts(number, features)
            probs = (counts + strength * probs) / (counts.sum(axis=-1, keepdims=True) + strength)
        taken = np.take_along_axis(probs, np.maximum(episodes.actions, 0).astype(np.int64)[..., None], axis=-1)[..., 0]
        return np.where(episodes.step_mask, taken, 1.0)


def estimate_behavior_policy(episodes: Episodes, model: RewardMixingMDP) -> BehaviorPolicy:
    """Estimate the behavior policy of a log, with beliefs under ``model``."""
    features, step_mask = history_features(episodes, model), episodes.step_mask
    actions, num_last = episodes.actions[step_mask].astype(np.int64), 1 + model.num_actions * model.num_values
    steps = np.broadcast_to(features.step, step_mask.shape)[step_mask]
    observed = HistoryFeatures(
        steps, features.state[step_mask], features.belief[step_mask], features.last_step_code[step_mask]
    )
    # Every n-th step is enough to choose between eight strengths; all steps are used for the counts.
    stride = max(1, -(-actions.size // MAX_STEPS_FOR_TUNING))
    smoothed = state_only = np.full(-(-actions.size // stride), 1.0 / model.num_actions)
    codes: list[NDArray[np.int64]] = []
    counts: list[Floats] = []
    strengths: list[float] = []
    tuned: list[tuple[float, float]] = []
    for level in FEATURE_RESOLUTIONS:
        unique_codes, row = np.unique(
            _encode_features(level, observed, num_last, episodes.horizon), return_inverse=True
        )
        action_counts = np.zeros((unique_codes.size, model.num_actions))
        np.add.at(action_counts, (row, actions), 1.0)
        rows = row[::stride]
        # Leave-one-out: the step itself is removed from its counts, or fine resolutions with little
        # smoothing would always win.
        others, visits = action_counts[rows, actions[::stride]] - 1.0, action_counts[rows].sum(axis=1) - 1.0
        _, strength, smoothed = _tune_strength(others, visits, smoothed)
        # Each resolution is also tuned against the state-only probabilities, for the propensities.
        state_only = smoothed if not codes else state_only
        tuned.append(_tune_strength(others, visits, state_only)[:2])
        codes.append(unique_codes)
        counts.append(action_counts)
        strengths.append(strength)
    best = max(range(len(FEATURE_RESOLUTIONS)), key=lambda number: tuned[number][0])
    tables = tuple(codes), tuple(counts), tuple(strengths)
    return BehaviorPolicy(model.num_actions, num_last, episodes.horizon, *tables, best, tuned[best][1])


def is_history_deterministic(episodes: Episodes) -> bool:
    """Return whether equal histories of states and rewards always had equal actions, over enough repeated steps."""
    repeated, history = 0, np.zeros(len(episodes), np.int64)
    for t in range(episodes.horizon):
        is_step = episodes.step_mask[:, t]
        arrays = history, episodes.states[:, t], episodes.actions[:, t], episodes.reward_indices[:, t]
        step_history, state, action, reward_index = (array[is_step].astype(np.int64) for array in arrays)
        code = step_history * episodes.num_states + state
        unique_codes, first, group = np.unique(code, return_index=True, return_inverse=True)
        if (action != action[first][group]).any():
            return False
        repeated += code.size - unique_codes.size
        # numbered anew at each step, so that the codes stay small however long the episodes are
        history[is_step] = np.unique(group * episodes.reward_values.size + reward_index, return_inverse=True)[1]
    return repeated >= MIN_REPEATED_STEPS


def took_every_action(policy: Controller, episodes: Episodes) -> bool:
    """Return whether every action of the episodes is the one that the policy plays there."""
    codes = np.searchsorted(policy.reward_values, episodes.reward_values)
    state = np.maximum(episodes.states[:, 0], 0).astype(np.int64)
    node = policy.initial_nodes[state].astype(np.int64)
    for t in range(episodes.horizon):
        is_step = episodes.step_mask[:, t]
        if (policy.actions[t][state, node] != episodes.actions[:, t])[is_step].any():
            return False
        node = policy.next_nodes[t][state, node, codes[np.maximum(episodes.reward_indices[:, t], 0)]].astype(np.int64)
        if t + 1 < episodes.horizon:
            node = np.minimum(node, policy.actions[t + 1].shape[1] - 1)  # only where the episode has ended
            state = np.maximum(episodes.states[:, t + 1], 0).astype(np.int64)
    return True


def _tune_strength(others: Floats, visits: Floats, coarser: Floats) -> tuple[float, float, Floats]:
    """Find the smoothing strength with the largest leave-one-out likelihood.

    Args:
        others: Number of other steps with equal features and this action.
        visits: Number of other steps with equal features.
        coarser: Probability of the action at the coarser resolution.

    Returns:
        Log-likelihood, strength, and probabilities of the actions under it.
    """
    candidates = [(others + strength * coarser) / (visits + strength) for strength in SMOOTHING_STRENGTHS]
    scores = [float(log_array(prob).sum()) for prob in candidates]
    best = int(np.argmax(scores))
    return scores[best], SMOOTHING_STRENGTHS[best], candidates[best]


def history_features(episodes: Episodes, model: RewardMixingMDP) -> HistoryFeatures:
    """Compute the features of every step (K, H); arbitrary values after the end of an episode."""
    reward_indices = np.searchsorted(model.reward_values, episodes.reward_values)[
        np.maximum(episodes.reward_indices, 0)
    ]
    states, actions = np.maximum(episodes.states[:, :-1], 0), np.maximum(episodes.actions, 0).astype(np.int64)
    beliefs = np.empty((*actions.shape, model.num_types))
    belief: Floats = np.broadcast_to(model.weights, (len(episodes), model.num_types))
    for t in range(episodes.horizon):
        beliefs[:, t] = belief
        likelihood = np.moveaxis(model.reward_probs[:, states[:, t], actions[:, t], reward_indices[:, t]], 0, -1)
        belief = np.where(episodes.step_mask[:, t, None], bayes.update(belief, likelihood), belief)
    last = np.zeros(actions.shape, np.int64)
    last[:, 1:] = 1 + actions[:, :-1] * model.num_values + reward_indices[:, :-1]
    return HistoryFeatures(np.arange(episodes.horizon), states.astype(np.int64), beliefs, last)


def _encode_features(
    level: FeatureResolution, features: HistoryFeatures, num_last: int, horizon: int
) -> NDArray[np.int64]:
    """Encode the features as one integer at a given resolution."""
    code: Any = np.asarray(features.state, np.int64)
    num_types = features.belief.shape[-1]
    if level.log_odds_width and num_types > 1:
        width = level.log_odds_width * (num_types - 1)
        # The floor keeps log-odds finite; it lies far beyond the clipping value, so it does not change the code.
        odds = log_array(np.maximum(features.belief, 1e-12))
        limit = round(MAX_LOG_ODDS / width)
        cells = np.rint(np.clip((odds[..., :-1] - odds[..., -1:]) / width, -limit, limit)).astype(np.int64) + limit
        for m in range(num_types - 1):
            code = code * (2 * limit + 1) + cells[..., m]
    if level.uses_last_step:
        code = code * num_last + features.last_step_code
    if level.uses_time:
        code = code * horizon + features.step
    return np.broadcast_to(code, features.shape)
