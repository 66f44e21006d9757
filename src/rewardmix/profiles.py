"""The types of a model in words, and how fast a policy tells them apart.

A type is described by what it pays more, and less, than the others do: where actions alone explain nearly all that
types differ in, by actions, averaged over the states that are met; otherwise by state and action.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rewardmix import belief as bayes
from rewardmix._core.brevity import cut
from rewardmix._core.checks import Floats, Ints
from rewardmix._core.streams import Role, seed_for
from rewardmix.evaluation import carried
from rewardmix.model import RewardMixingMDP, mixed
from rewardmix.policy import Controller, MarkovPolicy
from rewardmix.simulation import simulate

NAMED = 3
"""Likings, and dislikings, of a type that are kept."""

MINOR = 0.01
"""Differences below this share of the reward's range are not mentioned."""

BY_ACTION = 0.8
"""Share of what types differ in that actions have to explain to stand alone."""

SURE = 0.9
"""A type is recognised when the policy is so certain of it, on average."""

EPISODES_TO_RECOGNISE = 2000
"""Episodes that are played in the model to see how fast types are recognised ..."""
LEAST_EPISODES = 200
"""... of long ones fewer, ..."""
BELIEFS = 4e6
"""... so that there are no more numbers than this."""


@dataclass(frozen=True)
class Liking:
    """What a type pays somewhere, beside the others.

    Attributes:
        state: index; None for an average over the states that are met.
        action: index.
        label: the same for people.
        reward: expected reward of this type.
        others: of the other types, by their shares.
    """

    state: int | None
    action: int
    label: str
    reward: float
    others: float

    @property
    def gap(self) -> float:
        """How much more this type pays."""
        return self.reward - self.others


@dataclass(frozen=True)
class TypeProfile:
    """A type in words.

    Attributes:
        name: given, or its number.
        share: of the episodes.
        likes: where it pays more than the others, the largest difference first.
        dislikes: where it pays less.
        favourite: where it pays most.
    """

    name: str
    share: float
    likes: tuple[Liking, ...]
    dislikes: tuple[Liking, ...]
    favourite: Liking

    def __repr__(self) -> str:
        return f"TypeProfile({cut(self.sentence)})"

    @property
    def sentence(self) -> str:
        """The gist."""
        sides = ("likes", self.likes), ("dislikes", self.dislikes)
        said = [f"{verb} {_beside(some[0])}" for verb, some in sides if some]
        best = self.favourite
        if not said and self.share < 1.0:
            said = ["hardly differs from the others"]
        if not self.likes or self.likes[0].label != best.label:
            said.append(f"pays most at {best.label} ({best.reward:.2f})")
        return f"{self.name}, {100 * self.share:.0f} % of episodes: {', '.join(said)}."


def _beside(liking: Liking) -> str:
    return f"{liking.label} ({liking.reward:.2f}, the others {liking.others:.2f})"


def type_profiles(model: RewardMixingMDP) -> tuple[TypeProfile, ...]:
    """Every type of a model: how frequent it is, and what it likes and dislikes beside the others."""
    pays, visits = model.means, _met(model)
    rest = np.stack([_others(model, m) for m in range(model.num_contexts)])
    spread = mixed(model.weights, (pays - rest) ** 2)
    alone = [_averaged(table, visits) for table in (pays, rest)]
    by_action = mixed(model.weights, (alone[0] - alone[1]) ** 2)
    whole = float(_averaged(spread[None], visits)[0].sum())
    if float(by_action.sum()) >= BY_ACTION * whole:
        places: list[tuple[int | None, int]] = [(None, a) for a in range(model.num_actions)]
        pays, rest = alone
    else:
        places = [(int(s), a) for s in np.flatnonzero(visits) for a in range(model.num_actions)]
        pays, rest = (table[:, visits > 0].reshape(model.num_contexts, -1) for table in (pays, rest))
    return tuple(_profile(model, m, places, pays[m], rest[m]) for m in range(model.num_contexts))


def _profile(
    model: RewardMixingMDP, context: int, places: list[tuple[int | None, int]], pays: Floats, rest: Floats
) -> TypeProfile:
    least = MINOR * float(model.reward_values[-1] - model.reward_values[0])
    gaps = pays - rest

    def some(order: Ints) -> tuple[Liking, ...]:
        return tuple(_liking(model, places[i], pays[i], rest[i]) for i in order[:NAMED] if abs(gaps[i]) >= least)

    up, down = np.argsort(-gaps, kind="stable"), np.argsort(gaps, kind="stable")
    best = int(np.argmax(pays))
    return TypeProfile(
        model.type_labels[context],
        float(model.weights[context]),
        some(up[gaps[up] > 0]),
        some(down[gaps[down] < 0]),
        _liking(model, places[best], pays[best], rest[best]),
    )


def _liking(model: RewardMixingMDP, place: tuple[int | None, int], reward: float, others: float) -> Liking:
    state, action = place
    what = model.action_labels[action]
    label = what if state is None else f"{what} in {model.state_labels[state]}"
    return Liking(state, action, label, float(reward), float(others))


def _others(model: RewardMixingMDP, context: int) -> Floats:
    """(S, A): what the other contexts pay, by their weights; where there are none, what this one does."""
    if model.num_contexts == 1:
        own: Floats = model.means[context]
        return own
    left = np.delete(model.weights, context)
    return mixed(left / left.sum(), np.delete(model.means, context, axis=0))


def _averaged(tables: Floats, visits: Floats) -> Floats:
    """(M, A): tables (M, S, A) averaged over the states that are met."""
    return mixed(visits / visits.sum(), np.moveaxis(tables, 1, 0))


def _met(model: RewardMixingMDP) -> Floats:
    """(S,): how often each state is met if every action is as likely; 0 where nothing is decided any more."""
    law, visits = model.initial, np.zeros(model.num_states)
    for _ in range(model.horizon):
        visits = visits + law
        law = carried(np.repeat(law / model.num_actions, model.num_actions)[None], model.transition_rows)[0]
    visits = np.where(ended_states(model), 0.0, visits)
    return visits if visits.any() else np.ones(model.num_states)


def ended_states(model: RewardMixingMDP) -> NDArray[np.bool_]:
    """(S,): states that nothing leaves and that pay the same whatever is done, in every context."""
    rows = model.transition_rows
    own = rows[np.arange(rows.shape[0]), np.repeat(np.arange(model.num_states), model.num_actions)]
    stays = (np.asarray(own).ravel() == 1.0).reshape(model.num_states, -1).all(axis=1)
    flat = np.moveaxis(model.means, 1, 0).reshape(model.num_states, -1)
    return np.asarray(stays & (np.ptp(flat, axis=1) < MINOR * np.ptp(model.reward_values)))


@dataclass(frozen=True)
class Recognition:
    """How fast a policy recognises the type of an episode, in its own model.

    Attributes:
        certainty: before the first step and after each, the chance of the most probable type, on average.
        steps: after which that is at least ``SURE``; None if it never is.
        state: where most episodes begin.
        action: whose reward there tells most about the type.
        after: how certain one is after it, on average.
        plays: what the policy plays there.
        label: ``action``, for people.
        spread: standard deviation of what an episode earns.
    """

    certainty: tuple[float, ...]
    steps: int | None
    state: int
    action: int
    after: float
    plays: int
    label: str
    spread: float

    def __repr__(self) -> str:
        return f"Recognition({self.sentence})"

    @property
    def sentence(self) -> str:
        """The gist."""
        if self.certainty[0] == 1.0:
            return "There is one type, and nothing to recognise."
        first, last = (f"{100 * self.certainty[i]:.0f} %" for i in (0, -1))
        if self.steps is None:
            fast = f"The type is known with {last} certainty at the end of an episode, {first} at its start."
        else:
            many = f"{self.steps} step{'s' * (self.steps != 1)}"
            fast = f"The type is known with {100 * SURE:.0f} % certainty after {many} on average; {last} at the end."
        if self.after - self.certainty[0] < MINOR:
            return f"{fast} No first action tells anything about the type."
        own = "which is what the policy plays" if self.plays == self.action else "though something else pays more"
        return f"{fast} The most telling first action is {self.label} ({100 * self.after:.0f} % after it), {own}."


def recognition(policy: Controller | MarkovPolicy, model: RewardMixingMDP) -> Recognition:
    """How fast ``policy`` recognises types in ``model``, by episodes played in it."""
    count = int(min(EPISODES_TO_RECOGNISE, max(LEAST_EPISODES, BELIEFS / (model.horizon * model.num_contexts))))
    played = simulate(policy, model, count, seed_for(0, Role.RECOGNITION))
    states, actions = played.states[:, :-1].astype(np.int64), played.actions.astype(np.int64)
    certainty = np.empty(model.horizon + 1)
    believed = np.broadcast_to(model.weights, (count, model.num_contexts))
    certainty[0] = model.weights.max()
    for t in range(model.horizon):
        likelihood = model.laws[:, states[:, t], actions[:, t], played.outcomes[:, t]].T
        believed = bayes.update(believed, likelihood)
        certainty[t + 1] = believed.max(axis=1).mean()
    reached = np.flatnonzero(certainty >= SURE)
    state = int(np.argmax(model.initial))
    tells = list(telling(model, state))
    action = int(np.argmax(tells))
    return Recognition(
        tuple(certainty.tolist()),
        int(reached[0]) if reached.size else None,
        state,
        action,
        tells[action],
        int(actions[np.argmax(states[:, 0] == state), 0]),
        model.action_labels[action],
        float(played.returns.std()),
    )


def telling(model: RewardMixingMDP, state: int, belief: Floats | None = None) -> Iterator[float]:
    """For each action in ``state``: how certain one is of the most probable type after its reward, on average."""
    now = model.weights if belief is None else belief
    for action in range(model.num_actions):
        yield float((now[:, None] * model.laws[:, state, action]).max(axis=0).sum())
