"""What the log does in a situation: the chance of each action, from as much of the history as the log itself follows.

A situation is a step, a state, the belief over contexts that the history gives under the fitted model, and the action
and reward of the step before. Its law is mixed from coarse to fine, from the state alone to all of it,

    p(a | situation) = (n(a, situation) + strength * p(a | coarser situation)) / (n(situation) + strength)

and the strength of each level is the one that best predicts every action of the log from all other steps. A log whose
actions follow nothing but the state ends with large strengths, one that was written by an adaptive policy with small
ones: nobody has to say which it is. Chances of actions that divide rewards (``offpolicy``) come from the state and the
one level that predicts best: through all levels those of rare actions are sharpened again and again by the same steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rewardmix import belief as bayes
from rewardmix._core.checks import Floats
from rewardmix._core.portable import logs
from rewardmix.episodes import Episodes
from rewardmix.model import RewardMixingMDP
from rewardmix.policy import Controller

STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)
"""What a level's law may be mixed with, in visits."""

WIDEST = 6.0
"""Log-odds of contexts beyond this are not told apart."""

JUDGED = 200_000
"""Steps that the strengths are chosen by, at most."""


SELDOM = 0.3
"""An action that is taken at least so often as the most frequent one, times this, is one of the log's own ..."""

RARE, ENOUGH = 0.01, 100
"""... and so is one of at least this chance, if it was taken so many times in this state at about this belief."""

MIN_REPEATED_STEPS = 30
"""Steps that have to repeat a history before a log is taken for one of a deterministic policy."""


class Level(NamedTuple):
    """What situations are told apart by, besides the state.

    Attributes:
        width: of the log-odds of a belief that are taken as one (times M - 1); 0: the belief is left out.
        last: whether the action and reward of the step before count.
        timed: whether the step counts.
    """

    width: float
    last: bool
    timed: bool


SITUATION_LEVELS = (
    *(Level(width, last, False) for width in (0.0, 2.0, 1.0, 0.5) for last in (False, True)),
    Level(0.5, False, True),
    Level(0.5, True, True),
)
"""From coarse to fine."""

ABOUT = 2
"""The level that says what is about the same belief."""


class Situations(NamedTuple):
    """Situations, as arrays that broadcast.

    Attributes:
        step: t.
        state: s.
        belief: (..., M) over contexts, before the action.
        last: 0 at the first step, else 1 + action * Z + outcome of the step before.
    """

    step: Any
    state: Any
    belief: Floats
    last: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Of all of them together."""
        return np.broadcast_shapes(
            np.shape(self.step), np.shape(self.state), self.belief.shape[:-1], np.shape(self.last)
        )


@dataclass(frozen=True, eq=False)
class Habits:
    """The estimated law of the log's actions.

    Attributes:
        num_actions: A.
        lasts: number of different steps before, 1 + A * Z.
        horizon: H.
        codes: for each level the situations that occurred, increasing.
        counts: for each level (N, A) how often each action was taken there.
        strengths: for each level.
        best: the level that predicts best, mixed with the state alone ...
        best_strength: ... with this strength.
    """

    num_actions: int
    lasts: int
    horizon: int
    codes: tuple[NDArray[np.int64], ...]
    counts: tuple[Floats, ...]
    strengths: tuple[float, ...]
    best: int
    best_strength: float

    def laws(self, where: Situations) -> Floats:
        """(..., A): the chance of each action."""
        return self._laws(where)[0]

    def own(self, where: Situations) -> NDArray[np.bool_]:
        """(..., A): the actions that the log takes there; at least one."""
        law, about = self._laws(where)
        often, known = law >= SELDOM * law.max(axis=-1, keepdims=True), (law >= RARE) & (about >= ENOUGH)
        return np.asarray(often | known)

    def _laws(self, where: Situations) -> tuple[Floats, Floats]:
        """(..., A) chances, and how often each action was taken at about this belief."""
        law = about = np.full((*where.shape, self.num_actions), 1.0 / self.num_actions)
        for number, strength in enumerate(self.strengths):
            taken = self._taken(number, where)
            law = (taken + strength * law) / (taken.sum(axis=-1, keepdims=True) + strength)
            about = taken if number == ABOUT else about
        return law, about

    def _taken(self, number: int, where: Situations) -> Floats:
        """(..., A): how often each action was taken in situations that a level does not tell apart."""
        sought = _codes(SITUATION_LEVELS[number], where, self.lasts, self.horizon)
        known = self.codes[number]
        place = np.minimum(np.searchsorted(known, sought), known.size - 1)
        return np.where((known[place] == sought)[..., None], self.counts[number][place], 0.0)

    def chances(self, episodes: Episodes, model: RewardMixingMDP) -> Floats:
        """(K, H): the chance of the action that each step took; 1 where there was none."""
        where = situations(episodes, model)
        law = np.full((*where.shape, self.num_actions), 1.0 / self.num_actions)
        for number, strength in ((0, self.strengths[0]), (self.best, self.best_strength)):
            counts = self._taken(number, where)
            law = (counts + strength * law) / (counts.sum(axis=-1, keepdims=True) + strength)
        taken = np.take_along_axis(law, np.maximum(episodes.actions, 0).astype(np.int64)[..., None], axis=-1)[..., 0]
        return np.where(episodes.present, taken, 1.0)


def habits_of(episodes: Episodes, model: RewardMixingMDP) -> Habits:
    """The habits of a log, with beliefs as ``model`` has them."""
    where, here = situations(episodes, model), episodes.present
    actions, lasts = episodes.actions[here].astype(np.int64), 1 + model.num_actions * model.num_values
    steps = np.broadcast_to(where.step, here.shape)[here]
    seen = Situations(steps, where.state[here], where.belief[here], where.last[here])
    every = max(1, -(-actions.size // JUDGED))
    mixed = alone = np.full(-(-actions.size // every), 1.0 / model.num_actions)
    codes: list[NDArray[np.int64]] = []
    counts: list[Floats] = []
    strengths: list[float] = []
    singles: list[tuple[float, float]] = []
    for level in SITUATION_LEVELS:
        known, place = np.unique(_codes(level, seen, lasts, episodes.horizon), return_inverse=True)
        taken = np.zeros((known.size, model.num_actions))
        np.add.at(taken, (place, actions), 1.0)
        rows = place[::every]
        others, visits = taken[rows, actions[::every]] - 1.0, taken[rows].sum(axis=1) - 1.0
        _, strength, mixed = _strongest(others, visits, mixed)
        alone = mixed if not codes else alone
        singles.append(_strongest(others, visits, alone)[:2])
        codes.append(known)
        counts.append(taken)
        strengths.append(strength)
    best = max(range(len(SITUATION_LEVELS)), key=lambda number: singles[number][0])
    tables = tuple(codes), tuple(counts), tuple(strengths)
    return Habits(model.num_actions, lasts, episodes.horizon, *tables, best, singles[best][1])


def is_history_deterministic(episodes: Episodes) -> bool:
    """Return whether equal histories of states and rewards always had equal actions, over enough repeated steps."""
    repeated, history = 0, np.zeros(len(episodes), np.int64)
    for t in range(episodes.horizon):
        here = episodes.present[:, t]
        parts = history, episodes.states[:, t], episodes.actions[:, t], episodes.outcomes[:, t]
        before, state, action, outcome = (part[here].astype(np.int64) for part in parts)
        code = before * episodes.num_states + state
        known, first, place = np.unique(code, return_index=True, return_inverse=True)
        if (action != action[first][place]).any():
            return False
        repeated += code.size - known.size
        # numbered anew at each step, so that the codes stay small however long the episodes are
        history[here] = np.unique(place * episodes.reward_values.size + outcome, return_inverse=True)[1]
    return repeated >= MIN_REPEATED_STEPS


def took_every_action(policy: Controller, episodes: Episodes) -> bool:
    """Return whether every action of the episodes is the one that the policy plays there."""
    codes = np.searchsorted(policy.reward_values, episodes.reward_values)
    state = np.maximum(episodes.states[:, 0], 0).astype(np.int64)
    node = policy.first[state].astype(np.int64)
    for t in range(episodes.horizon):
        here = episodes.present[:, t]
        if (policy.actions[t][state, node] != episodes.actions[:, t])[here].any():
            return False
        node = policy.successors[t][state, node, codes[np.maximum(episodes.outcomes[:, t], 0)]].astype(np.int64)
        if t + 1 < episodes.horizon:
            node = np.minimum(node, policy.actions[t + 1].shape[1] - 1)  # only where the episode has ended
            state = np.maximum(episodes.states[:, t + 1], 0).astype(np.int64)
    return True


def _strongest(others: Floats, visits: Floats, coarser: Floats) -> tuple[float, float, Floats]:
    """(log-likelihood, strength, chances) of the strength that predicts best.

    Args:
        others: how often other steps took the same action in the same situation.
        visits: other steps in the same situation.
        coarser: chance of the action in the coarser situation.
    """
    tried = [(others + strength * coarser) / (visits + strength) for strength in STRENGTHS]
    scores = [float(logs(chance).sum()) for chance in tried]
    best = int(np.argmax(scores))
    return scores[best], STRENGTHS[best], tried[best]


def situations(episodes: Episodes, model: RewardMixingMDP) -> Situations:
    """Those of every step (K, H); of steps that did not take place, anything."""
    outcomes = np.searchsorted(model.reward_values, episodes.reward_values)[np.maximum(episodes.outcomes, 0)]
    states, actions = np.maximum(episodes.states[:, :-1], 0), np.maximum(episodes.actions, 0).astype(np.int64)
    beliefs = np.empty((*actions.shape, model.num_contexts))
    belief: Floats = np.broadcast_to(model.weights, (len(episodes), model.num_contexts))
    for t in range(episodes.horizon):
        beliefs[:, t] = belief
        likelihood = np.moveaxis(model.laws[:, states[:, t], actions[:, t], outcomes[:, t]], 0, -1)
        belief = np.where(episodes.present[:, t, None], bayes.update(belief, likelihood), belief)
    last = np.zeros(actions.shape, np.int64)
    last[:, 1:] = 1 + actions[:, :-1] * model.num_values + outcomes[:, :-1]
    return Situations(np.arange(episodes.horizon), states.astype(np.int64), beliefs, last)


def _codes(level: Level, where: Situations, lasts: int, horizon: int) -> NDArray[np.int64]:
    """A number for each situation as the level tells them apart."""
    code: Any = np.asarray(where.state, np.int64)
    contexts = where.belief.shape[-1]
    if level.width and contexts > 1:
        width = level.width * (contexts - 1)
        odds = logs(np.maximum(where.belief, 1e-12))
        far = round(WIDEST / width)
        cells = np.rint(np.clip((odds[..., :-1] - odds[..., -1:]) / width, -far, far)).astype(np.int64) + far
        for context in range(contexts - 1):
            code = code * (2 * far + 1) + cells[..., context]
    if level.last:
        code = code * lasts + where.last
    if level.timed:
        code = code * horizon + where.step
    return np.broadcast_to(code, where.shape)
