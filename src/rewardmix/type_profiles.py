"""Describe the types of a model, and measure how fast a policy identifies them.

A type is described by where its expected reward is higher or lower than that of the other types. If actions alone
explain nearly all differences, the description names actions, averaged over visited states; otherwise it names states
and actions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rewardmix import belief as bayes
from rewardmix._core.checks import Floats, Ints
from rewardmix._core.random_streams import Role, derive_seed
from rewardmix._core.short_repr import truncate_text
from rewardmix.evaluation import multiply_transition
from rewardmix.model import RewardMixingMDP, weighted_sum
from rewardmix.policy import Controller, MarkovPolicy
from rewardmix.simulation import simulate

MAX_PREFERENCES = 3
"""Number of preferred, and of avoided, state-actions in a profile."""

MIN_DIFFERENCE = 0.01
"""Differences below this share of the reward range are not mentioned."""

ACTION_SUFFICIENT_SHARE = 0.8
"""Share of the variance between types that actions have to explain for a description without states."""

IDENTIFIED_PROB = 0.9
"""Mean posterior probability from which a type counts as identified."""

MAX_SIMULATED_EPISODES = 2000
"""Number of simulated episodes for measuring the identification."""
MIN_SIMULATED_EPISODES = 200
"""Minimum number of simulated episodes for long horizons."""
MAX_BELIEF_VALUES = 4e6
"""Number of belief entries that limits the number of simulated episodes."""


@dataclass(frozen=True)
class Preference:
    """Expected reward of a type for one action, compared with the other types.

    Attributes:
        state: Index of the state; None for an average over visited states.
        action: Index of the action.
        label: Text for state and action.
        reward: Expected reward of this type.
        reward_other_types: Expected reward of the other types, averaged by their weights.
    """

    state: int | None
    action: int
    label: str
    reward: float
    reward_other_types: float

    @property
    def difference(self) -> float:
        """Return the reward of this type minus that of the other types."""
        return self.reward - self.reward_other_types


@dataclass(frozen=True)
class TypeProfile:
    """Description of a type.

    Attributes:
        name: Name of the type, or "type 1", "type 2", ...
        weight: Probability of the type.
        preferred: State-actions with higher reward than for the other types, largest difference first.
        avoided: State-actions with lower reward than for the other types, largest difference first.
        favorite: State-action with the highest reward.

    Examples:
        >>> import rewardmix as rm
        >>> profile = rm.plan(rm.make_model("shop")).type_profiles[0]
        >>> profile.name, round(profile.weight, 2)
        ('type 1', 0.6)
        >>> profile.preferred[0].label
        'show outdoor'
    """

    name: str
    weight: float
    preferred: tuple[Preference, ...]
    avoided: tuple[Preference, ...]
    favorite: Preference

    def __repr__(self) -> str:
        return f"TypeProfile({truncate_text(self.text)})"

    @property
    def text(self) -> str:
        """Summarize the type in one sentence."""
        sides = ("prefers", self.preferred), ("avoids", self.avoided)
        clauses = [f"{verb} {_format_preference(preferences[0])}" for verb, preferences in sides if preferences]
        best = self.favorite
        if not clauses and self.weight < 1.0:
            clauses = ["differs little from the other types"]
        if not self.preferred or self.preferred[0].label != best.label:
            clauses.append(f"highest reward: {best.label} ({best.reward:.2f})")
        return f"{self.name}, {100 * self.weight:.0f} % of episodes: {', '.join(clauses)}."


def _format_preference(preference: Preference) -> str:
    """Format a preference with both rewards."""
    return f"{preference.label} ({preference.reward:.2f}, the others {preference.reward_other_types:.2f})"


def describe_types(model: RewardMixingMDP) -> tuple[TypeProfile, ...]:
    """Describe every type of a model: its probability, and its preferences relative to the other types."""
    rewards, visits = model.mean_rewards_by_type, _state_visits(model)
    others = np.stack([_mean_of_other_types(model, m) for m in range(model.num_types)])
    variance = weighted_sum(model.weights, (rewards - others) ** 2)
    by_action = [_average_over_states(table, visits) for table in (rewards, others)]
    # Analysis of variance: the squared differences after averaging over states are the part that actions alone
    # explain.
    action_variance = weighted_sum(model.weights, (by_action[0] - by_action[1]) ** 2)
    total = float(_average_over_states(variance[None], visits)[0].sum())
    if float(action_variance.sum()) >= ACTION_SUFFICIENT_SHARE * total:
        candidates: list[tuple[int | None, int]] = [(None, a) for a in range(model.num_actions)]
        rewards, others = by_action
    else:
        candidates = [(int(s), a) for s in np.flatnonzero(visits) for a in range(model.num_actions)]
        rewards, others = (table[:, visits > 0].reshape(model.num_types, -1) for table in (rewards, others))
    return tuple(_make_profile(model, m, candidates, rewards[m], others[m]) for m in range(model.num_types))


def _make_profile(
    model: RewardMixingMDP, m: int, candidates: list[tuple[int | None, int]], rewards: Floats, others: Floats
) -> TypeProfile:
    """Make the profile of one type from its rewards and those of the other types at all candidates."""
    min_difference = MIN_DIFFERENCE * float(model.reward_values[-1] - model.reward_values[0])
    differences = rewards - others

    def take_preferences(order: Ints) -> tuple[Preference, ...]:
        """Take the first preferences of an order that are large enough."""
        return tuple(
            _make_preference(model, candidates[i], rewards[i], others[i])
            for i in order[:MAX_PREFERENCES]
            if abs(differences[i]) >= min_difference
        )

    # A stable sort breaks ties by index, so the description is identical on all machines.
    descending, ascending = np.argsort(-differences, kind="stable"), np.argsort(differences, kind="stable")
    best = int(np.argmax(rewards))
    return TypeProfile(
        model.type_labels[m],
        float(model.weights[m]),
        take_preferences(descending[differences[descending] > 0]),
        take_preferences(ascending[differences[ascending] < 0]),
        _make_preference(model, candidates[best], rewards[best], others[best]),
    )


def _make_preference(
    model: RewardMixingMDP, candidate: tuple[int | None, int], reward: float, reward_other_types: float
) -> Preference:
    """Make the preference of one candidate."""
    state, action = candidate
    label = model.action_labels[action] + ("" if state is None else f" in {model.state_labels[state]}")
    return Preference(state, action, label, float(reward), float(reward_other_types))


def _mean_of_other_types(model: RewardMixingMDP, m: int) -> Floats:
    """Return the expected reward of the other types, averaged by weight, shape (S, A); of a single type its own."""
    if model.num_types == 1:
        rewards: Floats = model.mean_rewards_by_type[m]
        return rewards
    other_weights = np.delete(model.weights, m)
    return weighted_sum(other_weights / other_weights.sum(), np.delete(model.mean_rewards_by_type, m, axis=0))


def _average_over_states(tables: Floats, visits: Floats) -> Floats:
    """Average tables (M, S, A) over states by their visits, giving (M, A)."""
    return weighted_sum(visits / visits.sum(), np.moveaxis(tables, 1, 0))


def _state_visits(model: RewardMixingMDP) -> Floats:
    """Return the expected visits of each state under the uniform policy, shape (S,); 0 for absorbing states."""
    probs, visits = model.initial, np.zeros(model.num_states)
    for _ in range(model.horizon):
        visits = visits + probs
        probs = multiply_transition(
            np.repeat(probs / model.num_actions, model.num_actions)[None], model.transition_rows
        )[0]
    # In absorbing states without effect the rewards say nothing about preferences, but most visits may be
    # there.
    visits = np.where(find_absorbing_states(model), 0.0, visits)
    return visits if visits.any() else np.ones(model.num_states)


def find_absorbing_states(model: RewardMixingMDP) -> NDArray[np.bool_]:
    """Return which states are absorbing and have a constant reward for all actions and types, shape (S,)."""
    rows = model.transition_rows
    self_loops = rows[np.arange(rows.shape[0]), np.repeat(np.arange(model.num_states), model.num_actions)]
    stays = (np.asarray(self_loops).ravel() == 1.0).reshape(model.num_states, -1).all(axis=1)
    rewards = np.moveaxis(model.mean_rewards_by_type, 1, 0).reshape(model.num_states, -1)
    return np.asarray(stays & (np.ptp(rewards, axis=1) < MIN_DIFFERENCE * np.ptp(model.reward_values)))


@dataclass(frozen=True)
class TypeIdentification:
    """Measure of how fast a policy identifies the type of an episode, in its own model.

    Attributes:
        certainty: Mean posterior probability of the most probable type, before the first step and after each.
        steps_to_identify: Steps after which it is at least ``IDENTIFIED_PROB``; None if it never is.
        state: Most probable initial state.
        most_informative_action: Action whose reward there raises the certainty most.
        certainty_after: Mean certainty after this action.
        policy_action: Action of the policy there.
        label: Name of the most informative action.
        return_std: Standard deviation of the return of an episode.

    Examples:
        >>> import rewardmix as rm
        >>> identification = rm.plan(rm.make_model("probe")).identification
        >>> identification.steps_to_identify, identification.label
        (4, 'ask')
        >>> [round(value, 2) for value in identification.certainty[:3]]
        [0.5, 0.7, 0.82]
    """

    certainty: tuple[float, ...]
    steps_to_identify: int | None
    state: int
    most_informative_action: int
    certainty_after: float
    policy_action: int
    label: str
    return_std: float

    def __repr__(self) -> str:
        return f"TypeIdentification({self.text})"

    @property
    def text(self) -> str:
        """Summarize the identification in one or two sentences."""
        if self.certainty[0] == 1.0:
            return "There is one type; nothing has to be identified."
        first, last = (f"{100 * self.certainty[i]:.0f} %" for i in (0, -1))
        if self.steps_to_identify is None:
            speed = f"The certainty about the type is {last} at the end of an episode, {first} at its start."
        else:
            steps = f"{self.steps_to_identify} step{'s' * (self.steps_to_identify != 1)}"
            percent = f"{100 * IDENTIFIED_PROB:.0f} %"
            speed = f"The type is identified with {percent} certainty after {steps} on average; {last} at the end."
        if self.certainty_after - self.certainty[0] < MIN_DIFFERENCE:
            return f"{speed} No first action is informative about the type."
        is_played = self.policy_action == self.most_informative_action
        choice = "and the policy takes it" if is_played else "though another has a higher value"
        after = f"{100 * self.certainty_after:.0f} % after it"
        return f"{speed} The most informative first action is {self.label} ({after}), {choice}."


def measure_identification(policy: Controller | MarkovPolicy, model: RewardMixingMDP) -> TypeIdentification:
    """Measure how fast ``policy`` identifies types in ``model``, by simulated episodes."""
    count = int(
        min(MAX_SIMULATED_EPISODES, max(MIN_SIMULATED_EPISODES, MAX_BELIEF_VALUES / (model.horizon * model.num_types)))
    )
    episodes = simulate(policy, model, count, derive_seed(0, Role.RECOGNITION))
    states, actions = episodes.states[:, :-1].astype(np.int64), episodes.actions.astype(np.int64)
    certainty = np.empty(model.horizon + 1)
    beliefs = np.broadcast_to(model.weights, (count, model.num_types))
    certainty[0] = model.weights.max()
    for t in range(model.horizon):
        likelihood = model.reward_probs[:, states[:, t], actions[:, t], episodes.reward_indices[:, t]].T
        beliefs = bayes.update(beliefs, likelihood)
        certainty[t + 1] = beliefs.max(axis=1).mean()
    reached = np.flatnonzero(certainty >= IDENTIFIED_PROB)
    state = int(np.argmax(model.initial))
    certainties = list(expected_certainty(model, state))
    action = int(np.argmax(certainties))
    return TypeIdentification(
        tuple(certainty.tolist()),
        int(reached[0]) if reached.size else None,
        state,
        action,
        certainties[action],
        int(actions[np.argmax(states[:, 0] == state), 0]),
        model.action_labels[action],
        float(episodes.returns.std()),
    )


def expected_certainty(model: RewardMixingMDP, state: int, belief: Floats | None = None) -> Iterator[float]:
    """Yield the expected certainty about the type after the reward of each action in ``state``.

    It is E_z max_m b'(m), computed as the sum over z of max_m b(m) p_m(z | s, a).
    """
    current = model.weights if belief is None else belief
    for action in range(model.num_actions):
        yield float((current[:, None] * model.reward_probs[:, state, action]).max(axis=0).sum())
